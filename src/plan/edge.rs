//! The live edge of a range: what is not over yet is not backfilled (case B08).
//!
//! A configured `end` may lie today or in the future. When the order starts, the range is clipped to what is complete
//! *in the order's own zone*, and the clipped end is what `Started` freezes. Clipping never cuts a chunk in two: a
//! month that is not over is left out as a whole, because its partition would be replaced by half a month. Hours are
//! clipped by whole days.

use crate::domain::{
    Time,
    calendar::{Granularity, cut, start_of_day},
    ids::ChunkId,
    spec::Spec,
};
use chrono::{Days, NaiveDate};

/// What is left of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edge {
    /// All of it is over.
    Whole,
    /// The rest is not over.
    Clipped {
        /// The last day that is left, inclusive.
        end: NaiveDate,
        /// One sentence for the preview and the log.
        note: String,
    },
    /// None of it is over.
    Nothing {
        /// One sentence for the error.
        note: String,
    },
}

/// Leaves out what is not over at `now`: the last day that stays is one whose chunk has ended in the zone of the spec.
/// The chunks of what stays have the same ids and intervals as before.
pub fn exclude_unfinished(spec: &Spec, now: Time) -> Edge {
    let unit = match spec.granularity {
        Granularity::Hour => Granularity::Day,
        other => other,
    };
    // The usual order is about the past: asking for its last border alone saves cutting it.
    let after = spec.end.checked_add_days(Days::new(1));
    if after.is_some_and(|day| start_of_day(spec.timezone, day) <= now) {
        return Edge::Whole;
    }
    let chunks = cut(spec.timezone, spec.start, spec.end, unit);
    let over = chunks.partition_point(|(_, interval)| interval.end <= now);
    let Some((open, _)) = chunks.get(over) else {
        return Edge::Whole;
    };
    let words = words(*open, unit, spec);
    match open.date.pred_opt().filter(|_| over > 0) {
        Some(end) => Edge::Clipped {
            end,
            note: format!("{words} is not over: left out with what follows, the last day is {end}"),
        },
        None => Edge::Nothing {
            note: format!(
                "{words} is not over: nothing of {} to {} can run yet",
                spec.start, spec.end
            ),
        },
    }
}

fn words(chunk: ChunkId, unit: Granularity, spec: &Spec) -> String {
    match unit {
        Granularity::Hour | Granularity::Day => format!("{} in {}", chunk.date, spec.timezone),
        longer => format!("the {} from {} in {}", longer.word(), chunk.date, spec.timezone),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::spec::{OnFailure, Order, Throttling};
    use chrono_tz::Tz;
    use proptest::prelude::*;

    pub(in crate::plan) fn order(zone: Tz, start: &str, end: &str, granularity: Granularity) -> Spec {
        Spec {
            name: "orders".parse().unwrap(),
            target: "datamart.orders".to_owned(),
            environment: None,
            start: start.parse().unwrap(),
            end: end.parse().unwrap(),
            granularity,
            timezone: zone,
            executor: "here".parse().unwrap(),
            command: vec!["true".to_owned()],
            dag: None,
            attach: None,
            cwd: "/".to_owned(),
            env_pass: Vec::new(),
            env: Default::default(),
            env_secrets: Vec::new(),
            max_limit: 1,
            order: Order::OldestFirst,
            signals: Vec::new(),
            on_failure: OnFailure::Continue,
            profiles: Vec::new(),
            lanes: Default::default(),
            source: Default::default(),
            idempotent: true,
            throttling: Throttling::default(),
            blackout: Vec::new(),
        }
    }

    fn at(text: &str) -> Time {
        text.parse().unwrap()
    }

    fn end_of(edge: Edge) -> String {
        match edge {
            Edge::Whole => "whole".to_owned(),
            Edge::Clipped { end, .. } => end.to_string(),
            Edge::Nothing { .. } => "nothing".to_owned(),
        }
    }

    /// Case B08.
    #[test]
    fn today_is_left_out_until_its_last_second_is_over_in_its_own_zone() {
        let berlin = order(
            chrono_tz::Europe::Berlin,
            "2023-12-01",
            "2023-12-31",
            Granularity::Day,
        );
        // 23:00 UTC is midnight in Berlin.
        assert_eq!(
            end_of(exclude_unfinished(&berlin, at("2023-12-15T22:59:59Z"))),
            "2023-12-14"
        );
        assert_eq!(
            end_of(exclude_unfinished(&berlin, at("2023-12-15T23:00:00Z"))),
            "2023-12-15"
        );
        assert_eq!(
            exclude_unfinished(&berlin, at("2023-12-31T23:00:00Z")),
            Edge::Whole
        );
    }

    /// Case B08.
    #[test]
    fn what_is_left_out_is_said() {
        let days = order(chrono_tz::UTC, "2023-12-01", "2023-12-31", Granularity::Day);
        assert_eq!(
            exclude_unfinished(&days, at("2023-12-15T12:00:00Z")),
            Edge::Clipped {
                end: "2023-12-14".parse().unwrap(),
                note: "2023-12-15 in UTC is not over: left out with what follows, the last day is 2023-12-14"
                    .to_owned()
            }
        );
        assert_eq!(
            exclude_unfinished(&days, at("2023-11-15T12:00:00Z")),
            Edge::Nothing {
                note: "2023-12-01 in UTC is not over: nothing of 2023-12-01 to 2023-12-31 can run yet"
                    .to_owned()
            }
        );
        let months = order(chrono_tz::UTC, "2023-10-05", "2024-01-31", Granularity::Month);
        assert_eq!(
            exclude_unfinished(&months, at("2023-12-15T12:00:00Z")),
            Edge::Clipped {
                end: "2023-11-30".parse().unwrap(),
                note:
                    "the month from 2023-12-01 in UTC is not over: left out with what follows, the last day is 2023-11-30"
                        .to_owned()
            }
        );
    }

    #[test]
    fn hours_are_clipped_by_whole_days() {
        let hours = order(chrono_tz::UTC, "2023-12-01", "2023-12-31", Granularity::Hour);
        assert_eq!(
            end_of(exclude_unfinished(&hours, at("2023-12-15T12:00:00Z"))),
            "2023-12-14"
        );
    }

    proptest! {
        /// Case B08: in every zone and for every length of chunk, all that stays is over, in the same chunks as before,
        /// and the next chunk is not over.
        #[test]
        fn what_stays_is_over_and_what_goes_is_not(
            zone in 0..chrono_tz::TZ_VARIANTS.len(),
            first in 0i64..18_000,
            length in 0i64..120,
            granularity in prop::sample::select(vec![
                Granularity::Hour, Granularity::Day, Granularity::Week, Granularity::Month,
            ]),
            now in -10i64..140,
            seconds in 0i64..86_400,
        ) {
            let zone = chrono_tz::TZ_VARIANTS[zone];
            let day = |n: i64| NaiveDate::from_ymd_opt(1990, 1, 1).unwrap() + chrono::Duration::days(n);
            let mut spec = order(zone, "1990-01-01", "1990-01-01", granularity);
            spec.start = day(first);
            spec.end = day(first + length);
            let now = day(first + now).and_hms_opt(0, 0, 0).unwrap().and_utc() + chrono::Duration::seconds(seconds);
            let all = cut(zone, spec.start, spec.end, granularity);
            let kept = match exclude_unfinished(&spec, now) {
                Edge::Whole => all.clone(),
                Edge::Clipped { end, .. } => cut(zone, spec.start, end, granularity),
                Edge::Nothing { .. } => Vec::new(),
            };
            prop_assert_eq!(&kept[..], &all[..kept.len()]);
            prop_assert!(kept.iter().all(|(_, interval)| interval.end <= now));
            if let Some((next, interval)) = all.get(kept.len()) {
                let end_of_day = start_of_day(zone, next.date + chrono::Duration::days(1));
                let open_until = if granularity == Granularity::Hour { end_of_day } else { interval.end };
                prop_assert!(open_until > now);
            }
        }
    }
}
