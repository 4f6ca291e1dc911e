//! The days of runs, and the zone that they are days of.
//!
//! A run's day is that of its logical date, in a partitioned DAG that of its partition, in the zone of the backfill: the
//! server's word for a DAG's zone is wrong. So the zone is a human's, and the dates of the runs tell whether it fits.

use super::super::wire::Run;
use crate::domain::{
    Time,
    calendar::{Granularity, cut, start_of_day},
    ids::ChunkId,
    spec::Spec,
};
use chrono::{Days, NaiveDate, NaiveTime, TimeDelta, Timelike};
use chrono_tz::{TZ_VARIANTS, Tz};
use std::collections::BTreeMap;

/// Dates that are looked at for a zone.
const SAMPLE: usize = 200;
/// Of so many parts of the dates one may not fit: somebody ran a day by hand.
const ODD_ONES: usize = 10;
/// For so long after the last run two zones must agree to be the same for us: a summer and a winter.
const AHEAD: Days = Days::new(366);
/// Of zones with the same days the one that most people know. Others stand for themselves.
const WELL_KNOWN: &[Tz] = &[
    Tz::America__New_York,
    Tz::America__Chicago,
    Tz::America__Denver,
    Tz::America__Los_Angeles,
    Tz::America__Sao_Paulo,
    Tz::America__Bogota,
    Tz::Europe__London,
    Tz::Europe__Berlin,
    Tz::Europe__Athens,
    Tz::Europe__Istanbul,
    Tz::Africa__Lagos,
    Tz::Africa__Johannesburg,
    Tz::Africa__Nairobi,
    Tz::Asia__Dubai,
    Tz::Asia__Karachi,
    Tz::Asia__Kolkata,
    Tz::Asia__Bangkok,
    Tz::Asia__Shanghai,
    Tz::Asia__Tokyo,
    Tz::Australia__Sydney,
    Tz::Pacific__Auckland,
];

/// Where a run belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// To this chunk.
    Day(ChunkId),
    /// To a day that is not in the window.
    Outside,
    /// To no day at all.
    Nowhere,
}

/// The chunks of a backfill by the instants at which they begin.
#[derive(Debug, Clone)]
pub struct Calendar {
    zone: Tz,
    /// Oldest first, without gaps.
    starts: Vec<(Time, ChunkId)>,
    first: Time,
    /// Exclusive.
    end: Time,
}

impl Calendar {
    /// The calendar of an order.
    pub fn of(spec: &Spec) -> Self {
        let chunks = cut(spec.timezone, spec.start, spec.end, spec.granularity);
        let first = start_of_day(spec.timezone, spec.start);
        Self {
            zone: spec.timezone,
            first,
            end: chunks.last().map_or(first, |(_, last)| last.end),
            starts: chunks.into_iter().map(|(id, span)| (span.start, id)).collect(),
        }
    }

    /// The first instant.
    pub const fn first(&self) -> Time {
        self.first
    }

    /// The first instant after it.
    pub const fn end(&self) -> Time {
        self.end
    }

    /// The chunk that holds an instant.
    pub fn chunk_at(&self, at: Time) -> Option<ChunkId> {
        if at < self.first || at >= self.end {
            return None;
        }
        let after = self.starts.partition_point(|(start, _)| *start <= at);
        let (_, id) = self.starts.get(after.checked_sub(1)?)?;
        Some(*id)
    }

    /// The civil day of a run's partition, as the midnight of UTC of that date. A name that is a date binds, whatever
    /// zone the instant is of. `None` for a run without a partition's date.
    pub fn partition_day(&self, run: &Run) -> Option<Time> {
        let instant = run.partition_date?;
        let local = || instant.with_timezone(&self.zone).date_naive();
        let date = named_date(run).unwrap_or_else(local);
        Some(date.and_time(NaiveTime::MIN).and_utc())
    }

    /// Where a run belongs. The name of a partition that is a date binds, whatever zone its instant is of.
    pub fn place(&self, run: &Run) -> Place {
        let at = match named_date(run) {
            Some(date) => Some(start_of_day(self.zone, date)),
            None => run.partition_date.or(run.logical_date),
        };
        let Some(at) = at else {
            return Place::Nowhere;
        };
        self.chunk_at(at).map_or(Place::Outside, Place::Day)
    }
}

fn named_date(run: &Run) -> Option<NaiveDate> {
    run.partition_key.as_deref().and_then(date_named)
}

/// The date that a partition is named after: `2024-03-09` or `20240309`.
fn date_named(key: &str) -> Option<NaiveDate> {
    let format = match key.len() {
        10 => "%Y-%m-%d",
        8 => "%Y%m%d",
        _ => return None,
    };
    let plain = key.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    plain
        .then(|| NaiveDate::parse_from_str(key, format).ok())
        .flatten()
}

/// The zone at whose midnights runs with these dates lie; UTC where that fits. `None` where none fits, and where
/// several do that differ, be it only in another season than that of the dates: then a human has to say it.
///
/// The first of several candidates that mean the same is taken. Without candidates all zones are.
pub fn likely_zone(dates: &[Time], candidates: &[Tz]) -> Option<Tz> {
    let dates = sample(dates);
    let (first, last) = (*dates.first()?, *dates.last()?);
    if fits(Tz::UTC, &dates) {
        return Some(Tz::UTC);
    }
    let all = WELL_KNOWN.iter().chain(&TZ_VARIANTS);
    let candidates: Vec<&Tz> = if candidates.is_empty() {
        all.collect()
    } else {
        candidates.iter().collect()
    };
    // Neighbours whose summers begin in other weeks fit nearly: only those that fit best count.
    let fitting: Vec<(usize, Tz)> = candidates
        .into_iter()
        .filter_map(|zone| Some((odd_ones(*zone, &dates)?, *zone)))
        .collect();
    let fewest = fitting.iter().map(|(odd, _)| *odd).min()?;
    let mut best = fitting
        .into_iter()
        .filter(|(odd, _)| *odd == fewest)
        .map(|(_, zone)| zone);
    let found = best.next()?;
    let days: Vec<NaiveDate> = first
        .date_naive()
        .iter_days()
        .take_while(|d| {
            last.date_naive()
                .checked_add_days(AHEAD)
                .is_some_and(|end| *d <= end)
        })
        .collect();
    let agrees = |other: Tz| {
        days.iter()
            .all(|d| start_of_day(found, *d) == start_of_day(other, *d))
    };
    best.all(agrees).then_some(found)
}

/// What is to be said about the zone of an order, by the dates of its runs; `None` where it fits, or nothing speaks
/// against it.
pub fn zone_note(dates: &[Time], zone: Tz, granularity: Granularity) -> Option<String> {
    let sampled = sample(dates);
    if granularity == Granularity::Hour || sampled.is_empty() || fits(zone, &sampled) {
        return None;
    }
    if let Some(other) = likely_zone(dates, &[]) {
        return Some(format!(
            "the runs lie at midnight of {other}, not of {zone}, whose days these are"
        ));
    }
    let (one, other) = two_hours_of_day(&sampled, zone)?;
    Some(format!(
        "the runs lie at {} and {} of {zone}, as those of a zone with other summer time do",
        one.format("%H:%M"),
        other.format("%H:%M")
    ))
}

/// Dates that a schedule made, some of all times.
fn sample(dates: &[Time]) -> Vec<Time> {
    // By hand a run is made at any moment, with microseconds.
    let mut planned: Vec<Time> = dates
        .iter()
        .copied()
        .filter(|d| d.second() == 0 && d.nanosecond() == 0)
        .collect();
    planned.sort_unstable();
    planned.dedup();
    let every = planned.len().div_ceil(SAMPLE).max(1);
    let last = planned.last().copied();
    let mut some: Vec<Time> = planned.into_iter().step_by(every).collect();
    if some.last() != last.as_ref() {
        some.extend(last);
    }
    some
}

fn fits(zone: Tz, dates: &[Time]) -> bool {
    odd_ones(zone, dates).is_some()
}

/// How many dates are no midnight of a zone; `None` if they are too many.
fn odd_ones(zone: Tz, dates: &[Time]) -> Option<usize> {
    let mut odd = 0;
    for date in dates {
        if start_of_day(zone, date.with_timezone(&zone).date_naive()) != *date {
            odd += 1;
            if odd * ODD_ONES > dates.len() {
                return None;
            }
        }
    }
    Some(odd)
}

/// The two times of day of nearly all dates, if they are an hour apart.
fn two_hours_of_day(dates: &[Time], zone: Tz) -> Option<(NaiveTime, NaiveTime)> {
    let mut times: BTreeMap<NaiveTime, usize> = BTreeMap::new();
    for date in dates {
        *times.entry(date.with_timezone(&zone).time()).or_default() += 1;
    }
    let mut times: Vec<(NaiveTime, usize)> = times.into_iter().collect();
    times.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let [(one, n), (other, m), ..] = times[..] else {
        return None;
    };
    let apart = (one - other).abs();
    let hour = apart == TimeDelta::hours(1) || apart == TimeDelta::hours(23);
    let nearly_all = (dates.len() - n - m) * ODD_ONES <= dates.len();
    let both = m * ODD_ONES >= dates.len();
    (hour && nearly_all && both).then_some((one, other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::airflow::attach::testing::{order, run};
    use proptest::prelude::*;

    fn at(text: &str) -> Time {
        text.parse().unwrap()
    }

    fn date(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    /// The midnights of so many days of a zone.
    fn midnights(zone: Tz, first: &str, days: usize) -> Vec<Time> {
        date(first)
            .iter_days()
            .take(days)
            .map(|d| start_of_day(zone, d))
            .collect()
    }

    fn place(calendar: &Calendar, json: serde_json::Value) -> String {
        match calendar.place(&run(json)) {
            Place::Day(id) => id.to_string(),
            other => format!("{other:?}"),
        }
    }

    /// Airflow's fact 7.
    #[test]
    fn a_day_is_that_of_the_logical_date_or_of_the_partition_and_a_run_without_either_belongs_to_none() {
        let calendar = Calendar::of(&order("America/New_York", "2024-03-09", "2024-03-11", "day"));
        for (json, expected) in [
            (
                serde_json::json!({"logical_date": "2024-03-10T05:00:00Z"}),
                "2024-03-10",
            ),
            (
                serde_json::json!({"logical_date": "2024-03-11T04:00:00Z"}),
                "2024-03-11",
            ),
            (
                serde_json::json!({"logical_date": "2024-03-12T03:59:59.999999Z"}),
                "2024-03-11",
            ),
            (
                serde_json::json!({"logical_date": "2024-03-12T04:00:00Z"}),
                "Outside",
            ),
            (
                serde_json::json!({"logical_date": "2024-03-09T04:59:59Z"}),
                "Outside",
            ),
            (serde_json::json!({"logical_date": null}), "Nowhere"),
            (
                serde_json::json!({"partition_date": "2024-03-10T05:00:00Z", "partition_key": "eu|10"}),
                "2024-03-10",
            ),
            (
                serde_json::json!({"partition_date": "2024-03-10T00:00:00Z", "partition_key": "2024-03-10"}),
                "2024-03-10",
            ),
            (serde_json::json!({"partition_key": "20240309"}), "2024-03-09"),
            (serde_json::json!({"partition_key": "2024-3-9x"}), "Nowhere"),
        ] {
            assert_eq!(place(&calendar, json.clone()), expected, "{json}");
        }
    }

    #[test]
    fn hours_weeks_and_months_take_the_runs_that_lie_in_them() {
        let hours = Calendar::of(&order("Europe/Berlin", "2025-10-26", "2025-10-26", "hour"));
        let hour = |time: &str| hours.chunk_at(at(time)).unwrap().to_string();
        assert_eq!(hour("2025-10-26T00:30:00Z"), "2025-10-26T02+0200");
        assert_eq!(hour("2025-10-26T01:30:00Z"), "2025-10-26T02+0100");
        let weeks = Calendar::of(&order("UTC", "2023-01-04", "2023-03-15", "week"));
        assert_eq!(
            weeks.chunk_at(at("2023-01-08T23:00:00Z")).unwrap().to_string(),
            "2023-01-04"
        );
        assert_eq!(
            weeks.chunk_at(at("2023-01-09T00:00:00Z")).unwrap().to_string(),
            "2023-01-09"
        );
        let months = Calendar::of(&order("UTC", "2023-01-04", "2023-03-15", "month"));
        assert_eq!(
            months.chunk_at(at("2023-02-28T00:00:00Z")).unwrap().to_string(),
            "2023-02-01"
        );
        assert_eq!(months.chunk_at(at("2023-03-16T00:00:00Z")), None);
    }

    /// Airflow's fact 8.
    #[test]
    fn the_zone_of_a_dag_is_that_at_whose_midnights_its_runs_lie() {
        let year = midnights(Tz::America__New_York, "2022-01-01", 365);
        assert_eq!(likely_zone(&year, &[]), Some(Tz::America__New_York));
        assert_eq!(
            likely_zone(&year, &[Tz::Europe__Berlin, Tz::America__Toronto]),
            Some(Tz::America__Toronto)
        );
        assert_eq!(likely_zone(&year, &[Tz::Europe__Berlin]), None);
        let utc = midnights(Tz::UTC, "2022-01-01", 365);
        assert_eq!(likely_zone(&utc, &[]), Some(Tz::UTC));
        assert_eq!(likely_zone(&utc, &[Tz::Europe__Berlin]), Some(Tz::UTC));
        assert_eq!(
            likely_zone(&midnights(Tz::Asia__Kolkata, "2022-01-01", 40), &[]),
            Some(Tz::Asia__Kolkata)
        );
        assert_eq!(
            likely_zone(&midnights(Tz::Africa__Cairo, "2024-01-01", 300), &[]),
            Some(Tz::Africa__Cairo)
        );
    }

    #[test]
    fn what_a_winter_cannot_tell_is_not_guessed() {
        let winter = midnights(Tz::America__New_York, "2022-01-01", 60);
        assert_eq!(likely_zone(&winter, &[]), None, "Bogota has the same winter");
        assert_eq!(
            likely_zone(&winter, &[Tz::America__Bogota, Tz::America__New_York]),
            None
        );
        assert_eq!(
            likely_zone(&winter, &[Tz::America__New_York]),
            Some(Tz::America__New_York)
        );
        assert_eq!(likely_zone(&[], &[]), None);
        let at_two: Vec<Time> = midnights(Tz::UTC, "2022-01-01", 99)
            .into_iter()
            .map(|m| m + TimeDelta::minutes(135))
            .collect();
        assert_eq!(likely_zone(&at_two, &[]), None, "no zone has its midnight then");
    }

    #[test]
    fn runs_made_by_hand_at_any_moment_say_nothing_about_the_zone() {
        let mut dates = midnights(Tz::America__New_York, "2022-01-01", 365);
        for n in 0..400 {
            dates.push(at("2022-05-05T11:12:00.141592Z") + TimeDelta::seconds(n));
        }
        assert_eq!(likely_zone(&dates, &[]), Some(Tz::America__New_York));
    }

    #[test]
    fn an_order_in_another_zone_than_the_runs_is_told_which_one_fits() {
        let note = |dates: &[Time], zone| zone_note(dates, zone, Granularity::Day);
        let new_york = midnights(Tz::America__New_York, "2021-01-01", 400);
        assert_eq!(
            note(&new_york, Tz::UTC).as_deref(),
            Some("the runs lie at midnight of America/New_York, not of UTC, whose days these are")
        );
        assert_eq!(note(&new_york, Tz::America__New_York), None);
        assert_eq!(note(&new_york, Tz::America__Detroit), None);
        let at_two: Vec<Time> = new_york.iter().map(|m| *m + TimeDelta::minutes(150)).collect();
        assert_eq!(
            note(&at_two, Tz::UTC).as_deref(),
            Some("the runs lie at 06:30 and 07:30 of UTC, as those of a zone with other summer time do")
        );
        let plain: Vec<Time> = midnights(Tz::UTC, "2021-01-01", 400)
            .into_iter()
            .map(|m| m + TimeDelta::minutes(150))
            .collect();
        assert_eq!(note(&plain, Tz::UTC), None, "a schedule may have any hour");
        assert_eq!(zone_note(&new_york, Tz::UTC, Granularity::Hour), None);
    }

    proptest! {
        #[test]
        fn every_zone_fits_its_own_midnights_and_what_is_suggested_has_the_same_days(
            zone in proptest::sample::select(TZ_VARIANTS.to_vec()),
            first in 0_u64..5000,
            days in 1_usize..800,
        ) {
            let begin = date("2005-01-01").checked_add_days(Days::new(first)).unwrap();
            let dates: Vec<Time> = begin.iter_days().take(days).map(|d| start_of_day(zone, d)).collect();
            prop_assert_eq!(zone_note(&dates, zone, Granularity::Day), None);
            // UTC is taken for every zone that had its winter only.
            if let Some(found) = likely_zone(&dates, &[]) && found != Tz::UTC {
                for d in begin.iter_days().take(days) {
                    prop_assert_eq!(start_of_day(found, d), start_of_day(zone, d));
                }
            }
        }

        #[test]
        fn every_instant_of_the_window_has_its_chunk_and_no_other_instant_has_one(
            zone in proptest::sample::select(TZ_VARIANTS.to_vec()),
            seconds in -100_000_i64..9_000_000,
            word in proptest::sample::select(vec!["hour", "day", "week", "month"]),
        ) {
            let order = order(zone.name(), "2025-02-10", "2025-05-03", word);
            let (calendar, cuts) = (Calendar::of(&order), cut(zone, order.start, order.end, order.granularity));
            let instant = calendar.first() + TimeDelta::seconds(seconds);
            let expected = cuts.iter().find(|(_, span)| span.start <= instant && instant < span.end);
            prop_assert_eq!(calendar.chunk_at(instant), expected.map(|(id, _)| *id));
        }
    }
}
