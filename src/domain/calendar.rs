//! Cutting a civil date range into intervals by the rules of a time zone.
//!
//! Nothing here ever adds 24 hours: a civil day lasts 23, 24 or 25 hours, sometimes half an hour off, and some
//! civil days do not exist at all (Apia skipped 2011-12-30). Every border is asked from the zone database.

use super::{Time, ids::ChunkId};
use chrono::{
    Datelike, Days, Duration, Months, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone, Timelike, Utc,
};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

/// How long one chunk is, in civil units of the backfill's zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    /// One civil hour; its id carries the UTC offset.
    Hour,
    /// One civil day.
    Day,
    /// Monday to Sunday, clipped to the range.
    Week,
    /// A calendar month, clipped to the range.
    Month,
}

impl Granularity {
    /// The word for it on screen and in `config.toml`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }
}

/// A half-open span of time `[start, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The first instant inside.
    #[serde(with = "chrono::serde::ts_seconds")]
    pub start: Time,
    /// The first instant after it.
    #[serde(with = "chrono::serde::ts_seconds")]
    pub end: Time,
}

impl Interval {
    /// How long it really lasts.
    pub fn length(&self) -> Duration {
        self.end - self.start
    }
}

/// The first instant of a civil date in a zone: its midnight, or where midnight does not exist the first instant
/// after the gap. Where midnight happens twice it is the earlier one.
///
/// For a civil date that does not exist this is the first instant after the gap, so that the interval between
/// its start and the next day's start is empty and yields no chunk.
pub fn start_of_day(zone: Tz, date: NaiveDate) -> Time {
    first_instant(zone, date.and_time(NaiveTime::MIN))
}

/// The first instant whose local time is at or after `local`; the earlier one where it happens twice.
pub(super) fn first_instant(zone: Tz, local: NaiveDateTime) -> Time {
    if let Some(instant) = zone.from_local_datetime(&local).earliest() {
        return instant.with_timezone(&Utc);
    }
    // A gap: find the instant of the jump by halving. Gaps are at most a day, offsets at most 15 hours.
    let (mut before, mut after) = (
        local.and_utc() - Duration::hours(40),
        local.and_utc() + Duration::hours(40),
    );
    while after - before > Duration::seconds(1) {
        let middle = before + Duration::seconds((after - before).num_seconds() / 2);
        if middle.with_timezone(&zone).naive_local() >= local {
            after = middle;
        } else {
            before = middle;
        }
    }
    after
}

/// As [`first_instant`], but the later one where the local time happens twice.
pub(super) fn last_instant(zone: Tz, local: NaiveDateTime) -> Time {
    let latest = zone.from_local_datetime(&local).latest();
    latest.map_or_else(|| first_instant(zone, local), |t| t.with_timezone(&Utc))
}

/// Cuts the civil dates `first ..= last` of `zone` into chunks, oldest first.
///
/// The intervals are contiguous, non-empty, do not overlap, and their union is exactly the range. Weeks start on
/// Monday; the first and last week or month are clipped to the range.
pub fn cut(
    zone: Tz,
    first: NaiveDate,
    last: NaiveDate,
    granularity: Granularity,
) -> Vec<(ChunkId, Interval)> {
    if last < first {
        return Vec::new();
    }
    if granularity == Granularity::Hour {
        return cut_hours(
            zone,
            start_of_day(zone, first),
            start_of_day(zone, next_day(last)),
        );
    }
    let mut chunks = Vec::new();
    let mut from = first;
    let mut start = start_of_day(zone, from);
    while from <= last {
        let to = next_border(from, granularity).min(next_day(last));
        let end = start_of_day(zone, to);
        if end > start {
            chunks.push((ChunkId::day(from), Interval { start, end }));
        }
        (from, start) = (to, end);
    }
    chunks
}

fn next_day(date: NaiveDate) -> NaiveDate {
    date.checked_add_days(Days::new(1)).unwrap_or(NaiveDate::MAX)
}

/// The civil date at which the unit that holds `date` ends.
fn next_border(date: NaiveDate, granularity: Granularity) -> NaiveDate {
    match granularity {
        Granularity::Hour | Granularity::Day => next_day(date),
        Granularity::Week => {
            let days = 7 - u64::from(date.weekday().num_days_from_monday());
            date.checked_add_days(Days::new(days)).unwrap_or(NaiveDate::MAX)
        }
        Granularity::Month => date
            .with_day(1)
            .and_then(|d| d.checked_add_months(Months::new(1)))
            .unwrap_or(NaiveDate::MAX),
    }
}

/// An hourly chunk is a maximal run of instants that share civil date, civil hour and offset. So the repeated hour
/// of autumn gives two chunks, the missing one of spring none, and in zones that shift by half an hour the odd
/// half hours are chunks of their own.
fn cut_hours(zone: Tz, start: Time, end: Time) -> Vec<(ChunkId, Interval)> {
    let mut chunks: Vec<(ChunkId, Interval)> = Vec::new();
    let mut from = start;
    while from < end {
        let id = hour_of(zone, from);
        let local = from.with_timezone(&zone).naive_local();
        let into =
            Duration::minutes(i64::from(local.minute())) + Duration::seconds(i64::from(local.second()));
        let mut to = (from + Duration::hours(1) - into).min(end);
        if hour_of(zone, to - Duration::seconds(1)) != id {
            to = first_change(zone, from, to, id);
        }
        match chunks.last_mut() {
            // Only offsets with seconds in them (before 1972) can repeat an id; such pieces stay one chunk.
            Some((last, interval)) if *last == id => interval.end = to,
            _ => chunks.push((id, Interval { start: from, end: to })),
        }
        from = to;
    }
    chunks
}

/// The first instant in `(from, to]` at which the civil hour is no longer `id`.
fn first_change(zone: Tz, mut from: Time, mut to: Time, id: ChunkId) -> Time {
    while to - from > Duration::seconds(1) {
        let middle = from + Duration::seconds((to - from).num_seconds() / 2);
        if hour_of(zone, middle) == id {
            from = middle;
        } else {
            to = middle;
        }
    }
    to
}

fn hour_of(zone: Tz, at: Time) -> ChunkId {
    let local = at.with_timezone(&zone);
    let minutes = local.offset().fix().local_minus_utc().div_euclid(60);
    ChunkId::hour(local.date_naive(), local.hour() as u8, minutes as i16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(y: i32, m: u32, d: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(y, m, d).unwrap()
    }

    fn assert_covers(zone: Tz, first: NaiveDate, last: NaiveDate, chunks: &[(ChunkId, Interval)]) {
        assert_eq!(
            chunks.first().unwrap().1.start,
            start_of_day(zone, first),
            "{zone}"
        );
        assert_eq!(
            chunks.last().unwrap().1.end,
            start_of_day(zone, next_day(last)),
            "{zone}"
        );
        for pair in chunks.windows(2) {
            assert_eq!(
                pair[0].1.end, pair[1].1.start,
                "{zone} {} {}",
                pair[0].0, pair[1].0
            );
        }
        let mut ids: Vec<_> = chunks.iter().map(|(id, _)| id.to_string()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), chunks.len(), "{zone}: ids are distinct");
    }

    /// Case B06.
    #[test]
    fn in_every_zone_the_days_of_1990_to_2037_are_contiguous_and_last_20_to_28_hours() {
        let (first, last) = (date(1990, 1, 1), date(2037, 12, 31));
        for zone in chrono_tz::TZ_VARIANTS {
            let chunks = cut(zone, first, last, Granularity::Day);
            assert_covers(zone, first, last, &chunks);
            for (id, interval) in &chunks {
                let hours = interval.length().num_minutes() as f64 / 60.0;
                // Antarctic stations jump further: Vostok by seven hours on 1994-02-01.
                let bounds = if zone.name().starts_with("Antarctica/") {
                    12.0..=36.0
                } else {
                    20.0..=28.0
                };
                assert!(bounds.contains(&hours), "{zone} {id} lasts {hours} h");
            }
        }
    }

    /// Case B06: a civil day that does not exist yields no chunk.
    #[test]
    fn the_day_that_apia_skipped_is_no_chunk() {
        let days = cut(
            chrono_tz::Pacific::Apia,
            date(2011, 12, 28),
            date(2012, 1, 2),
            Granularity::Day,
        );
        let ids: Vec<_> = days.iter().map(|(id, _)| id.to_string()).collect();
        assert_eq!(
            ids,
            [
                "2011-12-28",
                "2011-12-29",
                "2011-12-31",
                "2012-01-01",
                "2012-01-02"
            ]
        );
    }

    /// Case B07.
    #[test]
    fn an_hourly_plan_has_25_ids_when_clocks_fall_back_and_23_when_they_spring_forward() {
        let zone = chrono_tz::Europe::Berlin;
        let autumn = cut(zone, date(2025, 10, 26), date(2025, 10, 26), Granularity::Hour);
        assert_eq!(autumn.len(), 25);
        assert_covers(zone, date(2025, 10, 26), date(2025, 10, 26), &autumn);
        let twice: Vec<_> = autumn
            .iter()
            .map(|c| c.0.to_string())
            .filter(|t| t.contains("T02"))
            .collect();
        assert_eq!(twice, ["2025-10-26T02+0200", "2025-10-26T02+0100"]);
        let spring = cut(zone, date(2025, 3, 30), date(2025, 3, 30), Granularity::Hour);
        assert_eq!(spring.len(), 23);
        assert!(spring.iter().all(|c| !c.0.to_string().contains("T02")));
    }

    /// Case B07: parsing an id gives back its interval.
    #[test]
    fn hours_cover_their_days_in_odd_zones_and_an_id_leads_back_to_its_interval() {
        for (zone, day) in [
            (chrono_tz::Australia::Lord_Howe, date(2025, 4, 6)),
            (chrono_tz::Australia::Lord_Howe, date(2025, 10, 5)),
            (chrono_tz::Asia::Kathmandu, date(2025, 6, 1)),
            (chrono_tz::America::New_York, date(2025, 11, 2)),
            (chrono_tz::America::St_Johns, date(2006, 10, 28)),
            (chrono_tz::America::Sao_Paulo, date(2018, 11, 4)),
        ] {
            let last = next_day(day);
            let hours = cut(zone, day, last, Granularity::Hour);
            assert_covers(zone, day, last, &hours);
            for (id, interval) in &hours {
                let again: ChunkId = id.to_string().parse().unwrap();
                let found = hours.iter().find(|(other, _)| *other == again).unwrap();
                assert_eq!(found.1, *interval);
                assert_eq!(hour_of(zone, interval.start), again);
            }
        }
    }

    /// Case B08: the last day of the range is in, the day after is not.
    #[test]
    fn a_range_is_inclusive_on_both_ends_and_half_open_inside() {
        let days = cut(
            chrono_tz::UTC,
            date(2023, 1, 1),
            date(2023, 12, 31),
            Granularity::Day,
        );
        assert_eq!(days.len(), 365);
        assert_eq!(days[364].0.to_string(), "2023-12-31");
        assert_eq!(days[364].1.end, start_of_day(chrono_tz::UTC, date(2024, 1, 1)));
    }

    #[test]
    fn weeks_and_months_are_clipped_to_the_range() {
        let zone = chrono_tz::Europe::Berlin;
        let (first, last) = (date(2023, 1, 4), date(2023, 3, 15));
        let weeks = cut(zone, first, last, Granularity::Week);
        assert_covers(zone, first, last, &weeks);
        assert_eq!(weeks[0].0.to_string(), "2023-01-04");
        assert_eq!(weeks[1].0.to_string(), "2023-01-09");
        let months = cut(zone, first, last, Granularity::Month);
        assert_covers(zone, first, last, &months);
        let ids: Vec<_> = months.iter().map(|c| c.0.to_string()).collect();
        assert_eq!(ids, ["2023-01-04", "2023-02-01", "2023-03-01"]);
    }

    #[test]
    fn an_empty_range_has_no_chunks() {
        assert!(
            cut(
                chrono_tz::UTC,
                date(2023, 1, 2),
                date(2023, 1, 1),
                Granularity::Day
            )
            .is_empty()
        );
    }
}
