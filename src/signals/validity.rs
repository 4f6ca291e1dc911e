//! Whether a reading is a valid sample (case B28). Pure: no clock, no I/O.
//!
//! The rule: a finite number at or above zero, whose age is at most the *usual age* of this signal plus three
//! intervals. The usual age is not what most readings show but what a sample grows to before the next one replaces it:
//! with a scrape every 60 s and a read every 5 s, ages of 0 to 60 s are all healthy. It is learnt only when a sample
//! *is* replaced, so that a frozen source, whose age only grows, can never teach that old is usual.

use super::{NoSample, Reading};
use crate::host::BootInstant;
use std::{collections::VecDeque, fmt, time::Duration};

/// From how many replaced samples the usual age is taken.
const REMEMBERED: usize = 15;
/// How many of them must have been seen before it counts.
const ENOUGH: usize = 3;
/// How much older than usual a sample may be, in intervals between reads.
const GRACE: u32 = 3;
/// While nothing is learnt an age up to this is taken, and no more than this is ever learnt, unless [`GRACE`]
/// intervals are longer.
const FLOOR: Duration = Duration::from_secs(60);
/// A clock that is further off than this is worth a word.
const SKEW_SHOWN: Duration = Duration::from_secs(5);

/// How well a signal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignalHealth {
    /// A valid sample.
    Ok,
    /// A number whose measurement is too old.
    Stale,
    /// Only a part of what was expected.
    Partial,
    /// The endpoint answers, and there is nothing.
    Missing,
    /// Not a number, infinite, negative, or not one number.
    Invalid,
    /// The consumer does not move.
    Stalled,
    /// The endpoint does not answer.
    Failed,
}

impl fmt::Display for SignalHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Stale => "stale",
            Self::Partial => "partial",
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::Stalled => "stalled",
            Self::Failed => "failed",
        })
    }
}

impl From<NoSample> for SignalHealth {
    fn from(no: NoSample) -> Self {
        match no {
            NoSample::Missing => Self::Missing,
            NoSample::Stalled => Self::Stalled,
            NoSample::Partial => Self::Partial,
            NoSample::Invalid => Self::Invalid,
        }
    }
}

/// A reading that is no valid sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unusable {
    /// What is wrong, never [`SignalHealth::Ok`].
    pub health: SignalHealth,
    /// In words for the banner: `sample is 95 s old; usual is 14 s`.
    pub why: String,
}

/// The age to which samples of one signal usually grow before the next one comes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsualAge {
    last: Option<(BootInstant, Duration)>,
    /// Ages of samples when they were last seen before their replacement.
    ripe: VecDeque<Duration>,
}

impl UsualAge {
    /// Nothing learnt yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Learns from a reading, valid or not, made at `at` on our boot clock. Readings without an age teach nothing.
    pub fn observe(&mut self, at: BootInstant, reading: &Reading) {
        let Reading::Value { age, .. } = reading else {
            return;
        };
        if let Some((before, old)) = self.last.replace((at, *age)) {
            // The same sample would have aged by the time that has passed.
            if *age < old.saturating_add(at.since(before) / 2) {
                self.ripe.push_back(old);
            }
        }
        if self.ripe.len() > REMEMBERED {
            self.ripe.pop_front();
        }
    }

    /// The usual age, once enough samples have been replaced: the median, and at most 60 s or three intervals.
    pub fn usual(&self, interval: Duration) -> Option<Duration> {
        if self.ripe.len() < ENOUGH {
            return None;
        }
        let mut ages: Vec<Duration> = self.ripe.iter().copied().collect();
        ages.sort_unstable();
        ages.get(ages.len() / 2)
            .map(|age| (*age).min(first_limit(interval)))
    }

    /// The oldest that a valid sample may be now.
    pub fn limit(&self, interval: Duration) -> Duration {
        self.usual(interval).map_or_else(
            || first_limit(interval),
            |usual| usual.saturating_add(interval.saturating_mul(GRACE)),
        )
    }
}

fn first_limit(interval: Duration) -> Duration {
    interval.saturating_mul(GRACE).max(FLOOR)
}

/// The value of a valid sample, or why there is none. `interval` is the time between two reads of the signal. Judge
/// first, then let `usual` observe the reading.
///
/// # Errors
/// [`Unusable`] for everything that must never count as a measurement.
pub fn judge(reading: &Reading, usual: &UsualAge, interval: Duration) -> Result<f64, Unusable> {
    let refuse = |health, why: String| Err(Unusable { health, why });
    match reading {
        Reading::Failed(error) => refuse(SignalHealth::Failed, error.nameless()),
        Reading::NoSample { health, why } => refuse((*health).into(), why.clone()),
        // Sources promise better; a promise is not a check.
        Reading::Value { value, .. } if !value.is_finite() || *value < 0.0 => {
            refuse(SignalHealth::Invalid, format!("the value is {value}"))
        }
        Reading::Value { value, age, .. } => {
            if *age <= usual.limit(interval) {
                return Ok(*value);
            }
            let known = usual
                .usual(interval)
                .map_or_else(String::new, |usual| format!("; usual is {}", seconds(usual)));
            refuse(
                SignalHealth::Stale,
                format!("the sample is {} old{known}", seconds(*age)),
            )
        }
    }
}

/// A warning when the server's clock and ours are more than 5 s apart.
pub fn skew_warning(reading: &Reading) -> Option<String> {
    let Reading::Value {
        skew_ms: Some(skew), ..
    } = reading
    else {
        return None;
    };
    let off = Duration::from_millis(skew.unsigned_abs());
    (off > SKEW_SHOWN).then(|| {
        let side = if *skew > 0 { "ahead of" } else { "behind" };
        format!("the server's clock is {} {side} ours", seconds(off))
    })
}

fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(10) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} s", time.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{AdapterError, Cause};
    use proptest::prelude::*;
    use rstest::rstest;

    const S: Duration = Duration::from_secs(1);

    fn value(value: f64, age: Duration) -> Reading {
        Reading::Value {
            value,
            age,
            skew_ms: None,
            parts: Vec::new(),
        }
    }

    /// Reads a source that measures every `period`, every `interval`, from `from` to `to` (all in ms).
    fn watch(usual: &mut UsualAge, period: u64, interval: u64, from: u64, to: u64) -> Vec<(Duration, bool)> {
        let mut seen = Vec::new();
        for now in (from..to).step_by(usize::try_from(interval).unwrap()) {
            let age = Duration::from_millis(now % period);
            let reading = value(1.0, age);
            seen.push((
                age,
                judge(&reading, usual, Duration::from_millis(interval)).is_ok(),
            ));
            usual.observe(BootInstant(now), &reading);
        }
        seen
    }

    /// Case B28.
    #[rstest]
    #[case(Reading::NoSample { health: NoSample::Missing, why: "empty result".into() }, SignalHealth::Missing, "empty result")]
    #[case(Reading::NoSample { health: NoSample::Partial, why: "a store is down".into() }, SignalHealth::Partial, "store")]
    #[case(Reading::NoSample { health: NoSample::Invalid, why: "the value is NaN".into() }, SignalHealth::Invalid, "NaN")]
    #[case(value(f64::NAN, S), SignalHealth::Invalid, "NaN")]
    #[case(value(f64::INFINITY, S), SignalHealth::Invalid, "inf")]
    #[case(value(-1.0, S), SignalHealth::Invalid, "-1")]
    #[case(value(3.0, 61 * S), SignalHealth::Stale, "the sample is 61 s old")]
    #[case(
        Reading::Failed(AdapterError::new(
            "orders",
            "POST /api/v1/query",
            S,
            Cause::Server,
            "503: overloaded"
        )),
        SignalHealth::Failed,
        "the server failed (POST"
    )]
    fn what_is_no_measurement_is_no_sample(
        #[case] reading: Reading,
        #[case] health: SignalHealth,
        #[case] word: &str,
    ) {
        let no = judge(&reading, &UsualAge::new(), 5 * S).unwrap_err();
        assert_eq!(no.health, health);
        assert!(no.why.contains(word) && !no.why.contains("orders"), "{}", no.why);
    }

    #[test]
    fn the_first_samples_may_be_as_old_as_a_minute_or_three_intervals() {
        let usual = UsualAge::new();
        assert_eq!(judge(&value(0.0, 60 * S), &usual, 5 * S), Ok(0.0));
        assert!(judge(&value(0.0, 60 * S + S / 1000), &usual, 5 * S).is_err());
        assert_eq!(judge(&value(0.0, 180 * S), &usual, 60 * S), Ok(0.0));
    }

    /// Case B28.
    #[test]
    fn once_the_usual_age_is_known_a_little_more_is_stale() {
        let mut usual = UsualAge::new();
        watch(&mut usual, 1_000, 5_300, 0, 120_000);
        let no = judge(&value(7.0, 20 * S), &usual, 5 * S).unwrap_err();
        assert_eq!(no.health, SignalHealth::Stale);
        assert!(
            no.why.starts_with("the sample is 20 s old; usual is 0."),
            "{}",
            no.why
        );
        assert_eq!(judge(&value(7.0, 15 * S), &usual, 5 * S), Ok(7.0));
    }

    #[test]
    fn a_source_that_measures_once_a_minute_is_healthy_at_every_age_up_to_that() {
        let mut usual = UsualAge::new();
        let seen = watch(&mut usual, 60_000, 5_000, 0, 3_600_000);
        assert!(seen.iter().all(|(_, ok)| *ok));
        assert_eq!(usual.usual(5 * S), Some(55 * S));
    }

    #[test]
    fn one_long_gap_does_not_change_what_is_usual() {
        let mut usual = UsualAge::new();
        watch(&mut usual, 15_000, 5_000, 0, 300_000);
        let before = usual.usual(5 * S);
        usual.observe(BootInstant(900_000), &value(1.0, 600 * S));
        watch(&mut usual, 15_000, 5_000, 900_000, 960_000);
        assert_eq!((usual.usual(5 * S), before), (Some(10 * S), Some(10 * S)));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(28),
            ..ProptestConfig::default()
        })]

        /// Case B28.
        #[test]
        fn a_frozen_source_goes_stale_in_time_and_stays_so(
            period in 200u64..60_000,
            interval in 500u64..30_000,
            healthy in 10u64..400,
        ) {
            let mut usual = UsualAge::new();
            let frozen_at = interval * healthy;
            let seen = watch(&mut usual, period, interval, 0, frozen_at);
            prop_assert!(seen.iter().all(|(_, ok)| *ok), "a healthy reading was refused");
            let every = Duration::from_millis(interval);
            // The last good sample may be read for the first time after the source froze.
            let measured = frozen_at - frozen_at % period;
            let mut limits = Vec::new();
            for now in (frozen_at..frozen_at + 600_000).step_by(usize::try_from(interval).unwrap()) {
                let age = Duration::from_millis(now - measured);
                let reading = value(1.0, age);
                let limit = usual.limit(every);
                prop_assert!(limit <= FLOOR.max(every * 3) + every * 3);
                prop_assert_eq!(judge(&reading, &usual, every).is_ok(), age <= limit);
                usual.observe(BootInstant(now), &reading);
                limits.push(limit);
            }
            prop_assert!(limits.iter().skip(2).all(|l| Some(l) == limits.get(1)), "age alone taught something");
        }

        #[test]
        fn no_reading_makes_the_judge_fail(
            number in any::<f64>(),
            age in any::<u64>(),
            at in proptest::collection::vec(any::<u64>(), 0..30),
            every in any::<u64>(),
        ) {
            let mut usual = UsualAge::new();
            let reading = value(number, Duration::from_secs(age));
            for at in at {
                usual.observe(BootInstant(at), &reading);
                if let Ok(valid) = judge(&reading, &usual, Duration::from_secs(every)) {
                    prop_assert!(valid.is_finite() && valid >= 0.0);
                }
            }
        }
    }

    #[test]
    fn a_clock_more_than_five_seconds_off_is_told_with_its_side() {
        let with = |skew_ms| Reading::Value {
            value: 1.0,
            age: S,
            skew_ms,
            parts: Vec::new(),
        };
        assert_eq!(skew_warning(&with(Some(5_000))), None);
        assert_eq!(skew_warning(&with(None)), None);
        assert_eq!(
            skew_warning(&with(Some(7_200))).as_deref(),
            Some("the server's clock is 7.2 s ahead of ours")
        );
        assert_eq!(
            skew_warning(&with(Some(-90_000))).as_deref(),
            Some("the server's clock is 90 s behind ours")
        );
        assert!(skew_warning(&with(Some(i64::MIN))).is_some());
    }
}
