//! Two orders that would overwrite the same partitions (case B24).

use crate::domain::{
    calendar::{Interval, start_of_day},
    ids::BackfillId,
    spec::Spec,
};
use chrono::{Days, Duration, NaiveDate};
use serde::Serialize;
use std::fmt;

/// An active order that rewrites some of the same days of the same target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Overlap {
    /// The other order.
    pub with: BackfillId,
    /// The target that both rewrite.
    pub target: String,
    /// The first day in both, in the zone of the asking order.
    pub first: NaiveDate,
    /// The last day in both, inclusive.
    pub last: NaiveDate,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            with,
            target,
            first,
            last,
        } = self;
        write!(f, "{with} already rewrites {target} from {first} to {last}")
    }
}

/// The active orders that share days and target with `spec`, in their given order. The caller decides what is active:
/// everything that is neither complete nor cancelled nor incomplete. Targets are compared without regard to capitals,
/// because most warehouses do; zones may differ, what counts are instants.
pub fn overlaps<'a>(
    spec: &Spec,
    active: impl IntoIterator<Item = (&'a BackfillId, &'a Spec)>,
) -> Vec<Overlap> {
    let mine = span(spec);
    active
        .into_iter()
        .filter(|(_, other)| other.target.trim().eq_ignore_ascii_case(spec.target.trim()))
        .filter_map(|(id, other)| {
            let theirs = span(other);
            let (start, end) = (mine.start.max(theirs.start), mine.end.min(theirs.end));
            let civil = |t: crate::domain::Time| t.with_timezone(&spec.timezone).date_naive();
            (start < end).then(|| Overlap {
                with: id.clone(),
                target: spec.target.clone(),
                first: civil(start),
                last: civil(end - Duration::seconds(1)),
            })
        })
        .collect()
}

/// The instants that an order covers, from the start of its first day to the start of the day after its last.
pub fn span(spec: &Spec) -> Interval {
    let after = spec.end.checked_add_days(Days::new(1)).unwrap_or(NaiveDate::MAX);
    Interval {
        start: start_of_day(spec.timezone, spec.start),
        end: start_of_day(spec.timezone, after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::calendar::Granularity, plan::edge::tests::order};

    fn id(text: &str) -> BackfillId {
        text.parse().unwrap()
    }

    /// Case B24.
    #[test]
    fn an_order_that_shares_days_of_a_target_is_named() {
        let new = order(chrono_tz::UTC, "2023-03-01", "2023-06-30", Granularity::Day);
        let (a, b, c, d) = (id("a-aaaaaa"), id("b-bbbbbb"), id("c-cccccc"), id("d-dddddd"));
        let inside = order(chrono_tz::UTC, "2023-06-30", "2023-12-31", Granularity::Month);
        let before = order(chrono_tz::UTC, "2023-01-01", "2023-02-28", Granularity::Day);
        let mut elsewhere = inside.clone();
        elsewhere.target = "datamart.returns".to_owned();
        let mut capitals = inside.clone();
        capitals.target = "DataMart.Orders".to_owned();
        let found = overlaps(
            &new,
            [(&a, &inside), (&b, &before), (&c, &elsewhere), (&d, &capitals)],
        );
        let said: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "a-aaaaaa already rewrites datamart.orders from 2023-06-30 to 2023-06-30",
                "d-dddddd already rewrites datamart.orders from 2023-06-30 to 2023-06-30",
            ]
        );
    }

    /// Case B24: civil days of different zones meet in instants.
    #[test]
    fn neighbouring_days_of_different_zones_overlap_for_some_hours() {
        let west = order(
            chrono_tz::America::New_York,
            "2023-01-01",
            "2023-01-01",
            Granularity::Day,
        );
        let east = order(
            chrono_tz::Asia::Tokyo,
            "2023-01-02",
            "2023-01-02",
            Granularity::Day,
        );
        let a = id("a-aaaaaa");
        let found = overlaps(&west, [(&a, &east)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].first.to_string(), "2023-01-01");
        let later = order(
            chrono_tz::Asia::Tokyo,
            "2023-01-03",
            "2023-01-03",
            Granularity::Day,
        );
        assert!(overlaps(&west, [(&a, &later)]).is_empty());
    }
}
