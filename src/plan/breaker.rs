//! The breaker (law C6): when chunks fail alike, more starts only make more failures.

use crate::domain::{
    failure::{Failure, FailureClass},
    state::Backfill,
    tuning::Tuning,
};
use std::collections::BTreeSet;

/// Fewest ended attempts before a share of failures says anything.
const FEWEST: usize = 10;

/// Why the breaker must open after `failure`, which is folded already; `None` while all is ordinary.
pub fn opens(backfill: &Backfill, failure: &Failure, tuning: &Tuning) -> Option<String> {
    if failure.class == FailureClass::Config {
        return Some(format!("the order cannot work as it is: {}", failure.message));
    }
    in_a_row(backfill, failure, tuning.breaker_row as usize).or_else(|| too_many(backfill))
}

/// Different chunks in a row with one fingerprint.
fn in_a_row(backfill: &Backfill, newest_failure: &Failure, enough: usize) -> Option<String> {
    let mut newest = backfill.recent.iter().rev();
    let (_, print) = newest.next()?.as_ref()?;
    let alike = backfill
        .recent
        .iter()
        .rev()
        .map_while(|end| end.as_ref().filter(|(_, p)| p == print));
    let chunks: BTreeSet<String> = alike.map(|(id, _)| id.to_string()).collect();
    (chunks.len() >= enough.max(2)).then(|| {
        format!(
            "{} chunks in a row failed alike: {}",
            chunks.len(),
            newest_failure.message
        )
    })
}

/// More than half of the recent ends are failures, of several chunks.
fn too_many(backfill: &Backfill) -> Option<String> {
    let ends = backfill.recent.len();
    let failed: Vec<_> = backfill.recent.iter().flatten().collect();
    let chunks: BTreeSet<String> = failed.iter().map(|(id, _)| id.to_string()).collect();
    (ends >= FEWEST && failed.len() * 2 > ends && chunks.len() >= FEWEST / 2)
        .then(|| format!("{} of the last {ends} attempts failed", failed.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::event::Next,
        plan::testing::{Night, failure},
    };

    #[test]
    fn five_different_days_with_one_cause_open_it_and_four_do_not() {
        let mut night = Night::new(10);
        for i in 0..5 {
            let day = night.day(i);
            assert_eq!(
                opens(
                    night.backfill(),
                    &failure(FailureClass::Other),
                    &Tuning::default()
                ),
                None
            );
            night.start(day);
            night.fail_with(day, failure(FailureClass::Other), Next::Stay);
        }
        let why = opens(
            night.backfill(),
            &failure(FailureClass::Other),
            &Tuning::default(),
        )
        .unwrap();
        assert_eq!(why, "5 chunks in a row failed alike: boom");
    }

    #[test]
    fn one_day_that_fails_five_times_does_not_open_it() {
        let mut night = Night::new(10);
        for _ in 0..5 {
            let day = night.day(0);
            night.start(day);
            let at = night.now;
            night.fail_with(
                day,
                failure(FailureClass::Platform),
                Next::Retry {
                    at,
                    profile: 0,
                    used: 1,
                    budget: 10,
                },
            );
        }
        assert_eq!(
            opens(
                night.backfill(),
                &failure(FailureClass::Platform),
                &Tuning::default()
            ),
            None
        );
    }

    #[test]
    fn preemptions_do_not_count() {
        let mut night = Night::new(20);
        for i in 0..12 {
            let day = night.day(i);
            night.start(day);
            night.fail_with(day, failure(FailureClass::Preempted), Next::Stay);
        }
        assert_eq!(
            opens(
                night.backfill(),
                &failure(FailureClass::Preempted),
                &Tuning::default()
            ),
            None
        );
    }

    #[test]
    fn a_wrong_order_opens_it_at_once() {
        let night = Night::new(3);
        assert!(
            opens(
                night.backfill(),
                &failure(FailureClass::Config),
                &Tuning::default()
            )
            .is_some()
        );
    }
}
