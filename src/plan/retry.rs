//! What follows a failure (law C6): budgets and delays by class, the profile ladder, quarantine.

use crate::domain::{
    Time,
    event::Next,
    failure::{Failure, FailureClass},
    spec::Spec,
    state::Chunk,
    tuning::Tuning,
};
use chrono::Duration;

/// How many retries a class has, apart from the steps of the profile ladder.
const fn budget(class: FailureClass) -> u32 {
    match class {
        FailureClass::Preempted | FailureClass::Platform => 10,
        FailureClass::Other => 2,
        FailureClass::Killed | FailureClass::Timeout => 1,
        FailureClass::Oom | FailureClass::Data | FailureClass::Config | FailureClass::Cancelled => 0,
    }
}

/// Decides what follows the failure of the chunk's open attempt, which ran on step `profile` of the ladder.
///
/// `drawn` is a uniform number in `[0, 1)`: the jitter of the delay, so that retries due at one instant spread out.
pub fn after_failure(
    chunk: &Chunk,
    spec: &Spec,
    failure: &Failure,
    profile: u32,
    drawn: f64,
    now: Time,
    tuning: &Tuning,
) -> Next {
    let before = earlier(chunk, failure.class);
    let used = before + 1;
    let largest = spec.profiles.len().saturating_sub(1) as u32;
    let at = now + delay(failure.class, before, drawn, tuning);
    let retry = |profile, budget| Next::Retry {
        at,
        profile,
        used,
        budget,
    };
    let quarantine = |why: String| Next::Quarantine { why };
    match failure.class {
        FailureClass::Data => quarantine(format!("data: {}", failure.message)),
        FailureClass::Config | FailureClass::Cancelled => Next::Stay,
        FailureClass::Killed if used <= budget(FailureClass::Killed) => retry(profile, 1),
        FailureClass::Oom | FailureClass::Killed => match profile < largest {
            true => retry(profile + 1, before + largest - profile),
            false => quarantine(format!(
                "{} at the largest profile {}",
                failure.class.word(),
                name(spec, profile)
            )),
        },
        FailureClass::Timeout if used <= budget(FailureClass::Timeout) => {
            retry((profile + 1).min(largest), 1)
        }
        class if used <= budget(class) => retry(profile, budget(class)),
        class => quarantine(format!("{} x{used}: {}", class.word(), failure.message)),
    }
}

fn name(spec: &Spec, profile: u32) -> &str {
    spec.profiles
        .get(profile as usize)
        .map_or("?", |p| p.name.as_str())
}

/// How many earlier attempts of this order failed with the class; a human re-run starts the count anew.
fn earlier(chunk: &Chunk, class: FailureClass) -> u32 {
    let counted = chunk.attempts.iter().skip(chunk.budget_from as usize);
    counted
        .filter(|a| !a.phase.is_open() && a.failure.as_ref().is_some_and(|f| f.class == class))
        .count() as u32
}

/// `uniform(0, min(cap, base * 2^n))`; a preempted attempt waits at least half its base.
fn delay(class: FailureClass, before: u32, drawn: f64, tuning: &Tuning) -> Duration {
    let base = tuning.retry_base.as_secs_f64();
    let drawn = drawn.clamp(0.0, 1.0);
    let seconds = match class {
        FailureClass::Preempted => base * (0.5 + 0.5 * drawn),
        FailureClass::Platform => drawn * doubled(base, before).min(tuning.retry_cap_platform.as_secs_f64()),
        _ => drawn * doubled(base, before).min(tuning.retry_cap.as_secs_f64()),
    };
    Duration::milliseconds((seconds * 1000.0) as i64)
}

fn doubled(base: f64, times: u32) -> f64 {
    base * 2f64.powi(i32::try_from(times.min(30)).unwrap_or(30))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::{Night, failure};
    use FailureClass as F;

    fn next_after(classes: &[F]) -> Next {
        let mut night = Night::new(3).profiles(&["default", "large"]);
        let day = night.day(0);
        let (last, before) = classes.split_last().unwrap();
        for class in before {
            night.start(day);
            let profile = night.chunk(day).open().unwrap().profile;
            let next = night.next(day, &failure(*class), profile, 0.5);
            night.fail_with(day, failure(*class), next);
        }
        night.start(day);
        let profile = night.chunk(day).open().unwrap().profile;
        night.next(day, &failure(*last), profile, 0.5)
    }

    #[test]
    fn out_of_memory_climbs_the_ladder_and_ends_in_quarantine() {
        assert!(matches!(next_after(&[F::Oom]), Next::Retry { profile: 1, .. }));
        assert!(
            matches!(next_after(&[F::Oom, F::Oom]), Next::Quarantine { why } if why == "oom at the largest profile large")
        );
    }

    #[test]
    fn a_kill_without_reason_is_tried_once_more_and_then_counts_as_out_of_memory() {
        assert!(matches!(
            next_after(&[F::Killed]),
            Next::Retry {
                profile: 0,
                used: 1,
                budget: 1,
                ..
            }
        ));
        assert!(matches!(
            next_after(&[F::Killed, F::Killed]),
            Next::Retry { profile: 1, .. }
        ));
        assert!(matches!(
            next_after(&[F::Killed, F::Killed, F::Killed]),
            Next::Quarantine { .. }
        ));
    }

    #[test]
    fn bad_data_is_quarantined_at_once() {
        assert!(matches!(next_after(&[F::Data]), Next::Quarantine { .. }));
    }

    /// Case B36: whatever keeps failing ends in quarantine after its budget.
    #[test]
    fn each_class_ends_in_quarantine_after_its_budget() {
        assert!(matches!(
            next_after(&[F::Other; 2]),
            Next::Retry {
                used: 2,
                budget: 2,
                ..
            }
        ));
        assert!(matches!(next_after(&[F::Other; 3]), Next::Quarantine { .. }));
        assert!(matches!(
            next_after(&[F::Platform; 10]),
            Next::Retry { used: 10, .. }
        ));
        assert!(matches!(next_after(&[F::Platform; 11]), Next::Quarantine { .. }));
        assert!(matches!(next_after(&[F::Timeout; 2]), Next::Quarantine { .. }));
    }

    #[test]
    fn a_wrong_order_is_not_retried_because_every_chunk_would_fail() {
        assert_eq!(next_after(&[F::Config]), Next::Stay);
    }

    /// Case B31: full jitter.
    #[test]
    fn no_second_holds_a_tenth_of_200_retries_that_fell_due_at_one_instant() {
        let tuning = Tuning::default();
        let mut seconds = std::collections::BTreeMap::new();
        for i in 0..200u32 {
            let d = delay(
                F::Other,
                0,
                f64::from(i.wrapping_mul(2_654_435_761) % 1000) / 1000.0,
                &tuning,
            );
            *seconds.entry(d.num_seconds()).or_insert(0u32) += 1;
        }
        assert!(seconds.values().all(|n| *n <= 20), "{seconds:?}");
    }

    #[test]
    fn delays_double_and_stay_under_their_cap() {
        let tuning = Tuning::default();
        assert_eq!(delay(F::Platform, 0, 1.0, &tuning).num_seconds(), 60);
        assert_eq!(delay(F::Platform, 3, 1.0, &tuning).num_seconds(), 480);
        assert_eq!(delay(F::Platform, 99, 1.0, &tuning).num_seconds(), 3600);
        assert_eq!(delay(F::Other, 99, 1.0, &tuning).num_seconds(), 600);
    }
}
