//! Reading a whole window for the first time.
//!
//! The first page, in the order of dates, tells how many runs there are and how close they lie. The rest is cut into
//! spans of dates of about a page each, and two of them are read at a time. A span is a question of its own: whatever
//! comes or goes elsewhere moves no row into or out of it, and the server has little to count and nothing to skip. So
//! this is no slower than reading page after page, and needs no cursor, which older versions do not have.

use super::{
    super::{
        RunQuery, Window,
        budget::Purpose,
        calls::as_of,
        connection::{Call, Connection},
        dates::written,
        error::{CallError, Kind},
        executor::Inner,
        wire::{Api, Backfill, Dag, Page, Run, Version},
    },
    days::Calendar,
    held::{Key, Span},
};
use crate::{
    domain::Time,
    net::{AdapterError, Cause},
};
use chrono::{NaiveTime, TimeDelta, TimeZone, Utc};
use futures::{StreamExt, stream};
use serde::de::IgnoredAny;
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, task::JoinHandle};

/// As many rows as a server gives at once, at the most.
pub(super) const PAGE: usize = 100;
/// More runs are no calendar, and would be a lot to remember.
const MOST_RUNS: u64 = 100_000;
/// Spans read at once; the connection sends no more than two requests at a time anyway.
const AT_ONCE: usize = 2;

/// Which runs are meant.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) dag: String,
    pub(super) key: Key,
}

impl Wanted {
    /// All runs of a DAG that have a day.
    pub(super) fn of(dag: &Dag, version: &Version) -> Self {
        let key = match dag.partitioned {
            true if version.is_at_least(3, 3) => Key::Partition,
            true => Key::Nothing,
            false => Key::Logical,
        };
        Self {
            dag: dag.id.clone(),
            key,
        }
    }

    pub(super) fn query(&self, span: Span) -> RunQuery {
        let Span { from, to } = span;
        RunQuery {
            window: match self.key {
                Key::Logical => Some(Window::Logical { from, to }),
                Key::Partition => Some(Window::Partition { from, to }),
                Key::Nothing => None,
            },
            ..RunQuery::of(&self.dag)
        }
    }
}

/// The runs of a part of the window.
#[derive(Debug)]
pub(super) struct Part {
    /// All runs of these dates are in it, and no others.
    pub(super) span: Span,
    pub(super) runs: Vec<Run>,
    /// On the server's clock: everything older is in it.
    pub(super) as_of: Option<Time>,
}

/// The beginning of a window.
#[derive(Debug)]
pub(super) struct First {
    pub(super) part: Part,
    /// Runs in the window, by the server's count.
    pub(super) total: u64,
    /// What is still to be read.
    pub(super) rest: Vec<Span>,
}

/// Reads the beginning of a window.
pub(super) async fn first(
    server: &Connection,
    wanted: &Wanted,
    calendar: &Calendar,
    span: Span,
) -> Result<First, CallError> {
    if wanted.key == Key::Nothing {
        // Only partitioned DAGs of 3.2: no filter knows their days.
        let listing = server.runs_cold(&wanted.query(span)).await?;
        let total = listing.rows.len() as u64;
        let part = Part {
            span,
            runs: listing.rows,
            as_of: listing.as_of,
        };
        return Ok(First {
            part,
            total,
            rest: Vec::new(),
        });
    }
    let call = runs_call(server, wanted, span).await?;
    let call = call.query("order_by", key_name(server, wanted.key).await?);
    let call = call.query("limit", &PAGE.to_string()).purpose(Purpose::ColdStart);
    let answer = server.send(&call).await?;
    let page: Page<Run> = server.understand(&answer)?;
    let total = page.total_entries.unwrap_or(page.rows.len() as u64);
    if total > MOST_RUNS {
        let detail = format!("{total} runs are more than a calendar holds: take a shorter window");
        let error = AdapterError::new(
            server.name(),
            "reading the window",
            Duration::ZERO,
            Cause::Local,
            &detail,
        );
        return Err(CallError::new(Kind::Invalid, error));
    }
    let date = |run: &Run| wanted.key.of(run, calendar);
    let dates = page.rows.iter().filter_map(date).collect();
    let (read, rest) = cut(wanted.key, span, dates, total);
    let runs = page
        .rows
        .into_iter()
        .filter(|run| date(run).is_some_and(|at| read.holds(at)));
    let part = Part {
        span: read,
        runs: runs.collect(),
        as_of: as_of(&answer),
    };
    Ok(First { part, total, rest })
}

/// What of a window the dates of its first rows cover, and spans for the rest.
fn cut(key: Key, span: Span, mut dates: Vec<Time>, total: u64) -> (Span, Vec<Span>) {
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    let remaining = total.saturating_sub(dates.len());
    if remaining == 0 {
        return (span, Vec::new());
    }
    let last = dates.last().copied().filter(|_| dates.is_sorted());
    let from = match (last, key) {
        // No two runs of a DAG have one logical date.
        (Some(last), Key::Logical) => last + key.tick(),
        // Of a day there may be more on the next page.
        (Some(last), _) => last,
        // There is no order to go by.
        (None, _) => span.from,
    };
    let read = Span {
        from: span.from,
        to: from - key.tick(),
    };
    let rest = Span { from, to: span.to };
    dates.dedup();
    let parts = remaining.div_ceil(PAGE);
    let distance = last.and_then(|_| usual_distance(&dates));
    let spans = distance.and_then(|distance| steps(rest, distance, PAGE, key.tick(), 2 * parts + 1));
    (read, spans.unwrap_or_else(|| equal(rest, parts, key.tick())))
}

/// How far apart dates mostly lie.
fn usual_distance(dates: &[Time]) -> Option<TimeDelta> {
    let mut distances: Vec<TimeDelta> = dates.windows(2).map(|pair| pair[1] - pair[0]).collect();
    distances.sort_unstable();
    distances.get(distances.len() / 2).copied()
}

/// A span in steps of so many distances, where a last bit without room for a run goes to the step before it; `None` if
/// there would be more than so many.
fn steps(span: Span, distance: TimeDelta, of: usize, tick: TimeDelta, most: usize) -> Option<Vec<Span>> {
    let step = distance
        .checked_mul(i32::try_from(of).ok()?)
        .filter(|s| *s > TimeDelta::zero())?;
    let (mut spans, mut from) = (Vec::new(), span.from);
    while from <= span.to {
        if spans.len() == most {
            return None;
        }
        let end = from.checked_add_signed(step - tick).unwrap_or(span.to);
        let to = if span.to - end < distance { span.to } else { end };
        spans.push(Span { from, to });
        from = to + tick;
    }
    Some(spans)
}

/// A span in so many parts of one length; the last one takes what is left over.
fn equal(span: Span, parts: usize, tick: TimeDelta) -> Vec<Span> {
    let parts = parts.max(1);
    let exact = (span.to - span.from) / i32::try_from(parts).unwrap_or(i32::MAX);
    // Whole ticks.
    let step = if tick < TimeDelta::days(1) {
        exact + tick
    } else {
        TimeDelta::days(exact.num_days() + 1)
    };
    let (mut spans, mut from) = (Vec::new(), span.from);
    while from <= span.to {
        let end = from.checked_add_signed(step - tick).unwrap_or(span.to);
        let to = if spans.len() + 1 == parts {
            span.to
        } else {
            end.min(span.to)
        };
        spans.push(Span { from, to });
        from = to + tick;
    }
    spans
}

/// How many runs a span has.
pub(super) async fn count(server: &Connection, wanted: &Wanted, span: Span) -> Result<u64, CallError> {
    server.count_runs(&wanted.query(span)).await
}

/// How many rows a list has.
pub(super) async fn count_of(server: &Connection, call: Call) -> Result<Option<u64>, CallError> {
    // Not 0, which on 2.x means as many as usual.
    let page: Page<IgnoredAny> = server.ask(&call.query("limit", "1")).await?;
    Ok(page.total_entries)
}

async fn runs_call(server: &Connection, wanted: &Wanted, span: Span) -> Result<Call, CallError> {
    let api = server.api().await?;
    let call = Call::get(&server.path(api, &["dags", &wanted.dag, "dagRuns"])?);
    let name = key_name(server, wanted.key).await?;
    Ok(within(call, name, span))
}

/// A call for what has its date in a span.
pub(super) fn within(call: Call, name: &str, span: Span) -> Call {
    call.query(&format!("{name}_gte"), &written(span.from))
        .query(&format!("{name}_lte"), &written(span.to))
}

pub(super) async fn key_name(server: &Connection, key: Key) -> Result<&'static str, CallError> {
    Ok(match (key, server.api().await?) {
        (Key::Partition, _) => "partition_date",
        (_, Api::V1) => "execution_date",
        (_, Api::V2) => "logical_date",
    })
}

/// The newest native backfill of a DAG; no other can be unfinished.
pub(super) async fn newest_native(server: &Connection, dag: &str) -> Result<Option<Backfill>, CallError> {
    let call = Call::get(&server.path(server.api().await?, &["backfills"])?)
        .query("dag_id", dag)
        .query("order_by", "-id")
        .query("limit", "1");
    let page: Page<Backfill> = server.ask(&call).await?;
    Ok(page.rows.into_iter().max_by_key(|b| b.id))
}

/// The first runs by date, or with `newest_first` the last ones. Runs without a date are left out: where they would
/// come is different from database to database.
pub(super) async fn some_runs(
    server: &Connection,
    wanted: &Wanted,
    from: Option<Time>,
    newest_first: bool,
    most: usize,
) -> Result<Vec<Run>, CallError> {
    let key = key_name(server, wanted.key).await?;
    let long_ago = Utc.with_ymd_and_hms(1000, 1, 1, 0, 0, 0).single();
    let path = server.path(server.api().await?, &["dags", &wanted.dag, "dagRuns"])?;
    let mut call = Call::get(&path)
        .query(
            "order_by",
            &format!("{}{key}", if newest_first { "-" } else { "" }),
        )
        .query("limit", &most.to_string());
    // Of partitions only whole days can be asked for.
    let midnight = |at: Time| at.date_naive().and_time(NaiveTime::MIN).and_utc();
    let from = from.map(|at| {
        if wanted.key == Key::Partition {
            midnight(at)
        } else {
            at
        }
    });
    if let Some(from) = from.or(long_ago) {
        call = call.query(&format!("{key}_gte"), &written(from));
    }
    let page: Page<Run> = server.ask(&call).await?;
    Ok(page.rows)
}

/// Reads spans in the background, so that the server is kept busy while what came is shown.
pub(super) struct Reader {
    parts: mpsc::Receiver<Result<Part, CallError>>,
    task: JoinHandle<()>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Reader {
    pub(super) fn start(inner: Arc<Inner>, wanted: Wanted, spans: Vec<Span>) -> Self {
        // What nobody fetches waits here; then the reading waits, too.
        let (send, parts) = mpsc::channel(2 * AT_ONCE);
        let task = tokio::spawn(async move {
            let reads = spans
                .into_iter()
                .map(|span| part(&inner.server, &wanted, span, true));
            let mut reads = stream::iter(reads).buffer_unordered(AT_ONCE);
            while let Some(part) = reads.next().await {
                let failed = part.is_err();
                if send.send(part).await.is_err() || failed {
                    return;
                }
            }
        });
        Self { parts, task }
    }

    /// What came since the last time, and waits for one part at least. `None`: there is nothing more.
    pub(super) async fn next(&mut self) -> Option<Vec<Result<Part, CallError>>> {
        let mut came = vec![self.parts.recv().await?];
        while let Ok(part) = self.parts.try_recv() {
            came.push(part);
        }
        Some(came)
    }
}

/// Reads one span.
pub(super) async fn part(
    server: &Connection,
    wanted: &Wanted,
    span: Span,
    cold: bool,
) -> Result<Part, CallError> {
    let query = wanted.query(span);
    let listing = if cold {
        server.runs_cold(&query).await?
    } else {
        server.runs(&query).await?
    };
    Ok(Part {
        span,
        runs: listing.rows,
        as_of: listing.as_of,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> Time {
        text.parse().unwrap()
    }

    proptest! {
        /// What the first page covers and the spans for the rest are the window, without gaps and without overlaps, of
        /// runs at any distances; of daily ones no span has more than a page, and there is none too many.
        #[test]
        fn the_first_page_and_the_spans_are_the_whole_window(
            mut minutes in proptest::collection::vec(0_i64..3000, 1..400),
            daily: bool,
            rest_of_day in 1_i64..86_400,
        ) {
            if daily {
                minutes = vec![1440; minutes.len()];
            }
            let begin = at("2021-01-01T00:00:00Z");
            let mut dates = vec![begin];
            for m in &minutes {
                dates.push(*dates.last().unwrap() + TimeDelta::minutes(*m));
            }
            dates.dedup();
            let span = Span { from: begin, to: *dates.last().unwrap() + TimeDelta::seconds(rest_of_day) };
            let (read, rest) = cut(Key::Logical, span, dates[..dates.len().min(PAGE)].to_vec(), dates.len() as u64);
            let mut all = vec![read];
            all.extend(rest.iter().copied());
            prop_assert_eq!((all[0].from, all.last().unwrap().to), (span.from, span.to));
            for pair in all.windows(2) {
                prop_assert_eq!(pair[0].to + TimeDelta::microseconds(1), pair[1].from);
            }
            prop_assert!(rest.len() <= 2 * dates.len().div_ceil(PAGE) + 1);
            if daily {
                prop_assert_eq!(all.len(), dates.len().div_ceil(PAGE));
                for span in all {
                    prop_assert!(dates.iter().filter(|d| span.holds(**d)).count() <= PAGE);
                }
            }
        }
    }

    #[test]
    fn rows_in_no_order_and_dates_that_are_all_the_same_still_lead_to_spans() {
        let dates: Vec<Time> = (0..100)
            .map(|n| at("2021-01-01T00:00:00Z") + TimeDelta::days((n * 37) % 100))
            .collect();
        let span = Span {
            from: at("2021-01-01T00:00:00Z"),
            to: at("2021-12-31T00:00:00Z"),
        };
        let (read, rest) = cut(Key::Logical, span, dates, 300);
        assert!(read.to < read.from, "nothing is certain");
        assert_eq!((rest.len(), rest[0].from, rest[1].to), (2, span.from, span.to));
        let same = at("2021-03-01T00:00:00Z");
        let (read, rest) = cut(Key::Partition, span, vec![same; 100], 300);
        assert_eq!(
            read.to,
            at("2021-02-28T00:00:00Z"),
            "there may be more of that day"
        );
        assert_eq!((rest[0].from, rest.last().unwrap().to), (same, span.to));
        assert!(
            rest.iter()
                .all(|s| [s.from, s.to].iter().all(|t| t.time() == chrono::NaiveTime::MIN))
        );
    }
}
