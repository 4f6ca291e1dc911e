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
use chrono::{Days, NaiveTime, TimeDelta};
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

    /// The runs of this span, both ends inclusive; of partitions, which are asked for by whole days of UTC, some more.
    pub fn window(self, from: Time, to: Time) -> Window {
        match self {
            Self::Date => Window::Logical { from, to },
            Self::Partition => Window::Partition {
                from: midnight(from),
                to: midnight(to + (TimeDelta::days(1) - TimeDelta::seconds(1))),
            },
        }
    }
}

/// The midnight of UTC at or before an instant.
fn midnight(at: Time) -> Time {
    at.date_naive().and_time(NaiveTime::MIN).and_utc()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(zone: &str, granularity: &str) -> Spec {
        let text = format!(
            "[executors.a]\nkind = \"airflow\"\nurl = \"http://127.0.0.1:8080\"\n[backfills.b]\ntarget = \"b\"\n\
             start = 2021-03-10\nend = 2021-11-20\ngranularity = \"{granularity}\"\ntimezone = \"{zone}\"\n\
             executor = \"a\"\ndag = \"d\"\nmax_limit = 1\nprofiles = [\"default\"]\n[profiles.default]\n"
        );
        let config =
            crate::config::Config::parse(&text, std::path::Path::new("/etc/backfill/config.toml")).unwrap();
        config.backfills.into_values().next().unwrap().spec
    }

    /// Also B06: a day of New York begins at 05:00Z, or 04:00Z, and one of each year lasts 23 hours.
    #[test]
    fn every_chunk_of_a_calendar_leads_to_its_interval_and_every_instant_of_that_back_to_it() {
        for zone in ["UTC", "America/New_York", "Australia/Lord_Howe"] {
            for granularity in ["day", "hour", "week", "month"] {
                let spec = spec(zone, granularity);
                let all = cut(spec.timezone, spec.start, spec.end, spec.granularity);
                let some: Vec<_> = all.iter().step_by(1 + all.len() / 400).copied().collect();
                let ids: Vec<ChunkId> = some.iter().rev().map(|(id, _)| *id).collect();
                assert_eq!(intervals(&spec, &ids), some, "{zone} {granularity}");
                for (id, interval) in &some {
                    let middle = interval.start + (interval.end - interval.start) / 2;
                    for at in [interval.start, middle, last_of(interval)] {
                        assert_eq!(day_of(&spec, at), *id, "{zone} {granularity} {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_group_spans_no_more_than_a_page_of_days_and_no_day_is_lost() {
        let spec = spec("America/New_York", "day");
        let all = cut(spec.timezone, spec.start, spec.end, spec.granularity);
        let sparse: Vec<_> = all.iter().step_by(7).copied().collect();
        let groups = groups(&sparse, 100);
        assert_eq!(groups.concat(), sparse);
        assert!(groups.len() > 1);
        for group in groups {
            let (first, last) = (group.first().unwrap().1, group.last().unwrap().1);
            assert!(last.start - first.start < TimeDelta::days(100));
        }
        assert!(super::groups(&[], 100).is_empty());
    }

    #[test]
    fn partitions_are_asked_for_by_whole_days_of_utc() {
        let at = |text: &str| text.parse::<Time>().unwrap();
        let window = Keyed::Partition.window(at("2021-03-10T05:00:00Z"), at("2021-03-12T04:59:59Z"));
        let (from, to) = (at("2021-03-10T00:00:00Z"), at("2021-03-13T00:00:00Z"));
        assert_eq!(window, Window::Partition { from, to });
        let midnights = Keyed::Partition.window(from, to);
        assert_eq!(midnights, Window::Partition { from, to });
    }
}
