//! Days as instants of their zone, and the runs that lie in them.

use super::eyes::Eyes;
use crate::{
    domain::{
        Time,
        calendar::{Granularity, Interval, cut},
        ids::ChunkId,
        spec::Spec,
    },
    executor::airflow::{
        calls::{RunQuery, Window},
        error::CallError,
        wire::Run,
    },
};
use chrono::{Days, TimeDelta};
use std::collections::BTreeMap;

/// The runs of each day that was asked for, an empty list included.
pub type Runs = BTreeMap<ChunkId, Vec<Run>>;

/// What the runs of a DAG are known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keyed {
    /// Their logical date.
    Date,
    /// The date of their partition.
    Partition,
}

impl Keyed {
    /// The instant that says which day a run is of.
    pub const fn instant(self, run: &Run) -> Option<Time> {
        match self {
            Self::Date => run.logical_date,
            Self::Partition => match run.partition_date {
                Some(date) => Some(date),
                None => run.logical_date,
            },
        }
    }

    /// The runs of this span, both ends inclusive.
    pub const fn window(self, from: Time, to: Time) -> Window {
        match self {
            Self::Date => Window::Logical { from, to },
            Self::Partition => Window::Partition { from, to },
        }
    }
}

/// These days with their instants, oldest first, each once. One that is none of the calendar is left out.
pub fn intervals(spec: &Spec, chunks: &[ChunkId]) -> Vec<(ChunkId, Interval)> {
    let mut found: Vec<(ChunkId, Interval)> = chunks.iter().filter_map(|c| interval(spec, *c)).collect();
    found.sort_by_key(|(id, i)| (i.start, *id));
    found.dedup_by_key(|(id, _)| *id);
    found
}

fn interval(spec: &Spec, chunk: ChunkId) -> Option<(ChunkId, Interval)> {
    let reach = match spec.granularity {
        Granularity::Hour | Granularity::Day => 0,
        Granularity::Week => 7,
        Granularity::Month => 31,
    };
    let last = chunk.date.checked_add_days(Days::new(reach))?;
    // The last week or month is cut off by the end of the range.
    let last = last.min(spec.end.max(chunk.date));
    let found = cut(spec.timezone, chunk.date, last, spec.granularity);
    found.into_iter().find(|(id, _)| *id == chunk)
}

/// The day in which an instant lies.
pub fn day_of(spec: &Spec, at: Time) -> ChunkId {
    let local = at.with_timezone(&spec.timezone).date_naive();
    let from = match spec.granularity {
        Granularity::Hour | Granularity::Day => local,
        // Not before the range, which cuts the first one off.
        Granularity::Week | Granularity::Month => {
            let earlier = local.checked_sub_days(Days::new(31)).unwrap_or(local);
            earlier.max(spec.start.min(local))
        }
    };
    let days = cut(spec.timezone, from, local, spec.granularity);
    let within = |(_, i): &&(ChunkId, Interval)| i.start <= at && at < i.end;
    days.iter()
        .find(within)
        .map_or(ChunkId::day(local), |(id, _)| *id)
}

/// The last instant of an interval that is asked for: servers take both ends as inclusive.
pub fn last_of(interval: &Interval) -> Time {
    interval.end - TimeDelta::seconds(1)
}

/// The runs of these days, which are sorted, in one question.
pub async fn runs_in(
    eyes: &dyn Eyes,
    dag: &str,
    keyed: Keyed,
    days: &[(ChunkId, Interval)],
) -> Result<Runs, CallError> {
    let mut runs: Runs = days.iter().map(|(id, _)| (*id, Vec::new())).collect();
    let (Some((_, first)), Some((_, last))) = (days.first(), days.last()) else {
        return Ok(runs);
    };
    let query = RunQuery {
        window: Some(keyed.window(first.start, last_of(last))),
        ..RunQuery::of(dag)
    };
    for run in eyes.runs(&query).await? {
        let Some(at) = keyed.instant(&run) else { continue };
        let place = days.partition_point(|(_, i)| i.end <= at);
        let found = days.get(place).filter(|(_, i)| i.start <= at);
        if let Some(list) = found.and_then(|(id, _)| runs.get_mut(id)) {
            list.push(run);
        }
    }
    for list in runs.values_mut() {
        list.sort_by(|a, b| (keyed.instant(a), &a.id).cmp(&(keyed.instant(b), &b.id)));
    }
    Ok(runs)
}

/// Cuts sorted days into groups of which each costs about one page: what lies between is read along.
pub fn groups(days: &[(ChunkId, Interval)], span: i64) -> Vec<&[(ChunkId, Interval)]> {
    let mut groups = Vec::new();
    let mut rest = days;
    while let Some((_, first)) = rest.first() {
        let reach = if first.length() < TimeDelta::hours(2) {
            TimeDelta::hours(span)
        } else {
            TimeDelta::days(span)
        };
        let size = rest
            .partition_point(|(_, i)| i.start < first.start + reach)
            .max(1);
        let (group, others) = rest.split_at(size.min(rest.len()));
        groups.push(group);
        rest = others;
    }
    groups
}
