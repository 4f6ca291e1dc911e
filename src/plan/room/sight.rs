//! Which samples are believed. A metric that froze, or that reads 0 because its exporter lost its source, looks healthy:
//! it answers, and its times are fresh.

use super::{
    model::{EMPTY, Model},
    times::Times,
};
use serde::{Deserialize, Serialize};

/// So many equal values in a row, with something waiting, are no measurements: what lives jitters.
const EQUAL: u32 = 5;
/// Before so many samples a source is not judged by its jitter.
const KNOWN_AFTER: u32 = 40;
/// An empty queue right after this many standard deviations more than the model foretold is not believed.
const UNLIKELY: f64 = 5.0;
/// Lag that falls by more than this, and by more than so much a second, was not worked off; what rises by it is a slip
/// unless it stays.
const FALLS: (f64, f64) = (20.0, 2.0);

/// A source whose samples are the same as the one before more often than this does not jitter.
const JITTERS: f64 = 0.3;

/// What is remembered of the samples of one signal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sight {
    count: u32,
    last: Option<f64>,
    equal: u32,
    /// The share of samples that were the same as the one before; not counted while it seems to be frozen.
    steady: f64,
    doubted: Option<(f64, f64)>,
    /// The last sample leapt: a second one like it is believed.
    leapt: bool,
    /// The last sample was only believed because it had stayed the same for so long.
    on_trust: bool,
}

/// Why a sample is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Doubt {
    /// It is not newer than the last one, or no number.
    Old,
    /// The same value again and again of a source that jitters.
    Frozen,
    /// Empty out of nowhere.
    Emptied,
    /// Lower than anything could have worked off.
    Fell,
    /// Higher than it could have grown; one such sample alone is a slip.
    Leapt,
}

impl Doubt {
    /// In words, after the signal's name.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Old => "is not newer than the last sample",
            Self::Frozen => "has not moved for five samples, which it never did before: frozen?",
            Self::Emptied => {
                "reads empty out of nowhere: has its exporter lost its source? if it is true, acknowledge it"
            }
            Self::Leapt => "leapt higher than lag can grow: waits for a second sample",
            Self::Fell => {
                "fell faster than anything could have been worked off; if it is true, acknowledge it"
            }
        }
    }
}

/// What a sample is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Before {
    /// The last valid lag.
    pub lag: f64,
    /// Seconds since it was measured.
    pub apart: f64,
    /// Mean running weight since then.
    pub weight: f64,
}

impl Sight {
    /// Whether a sample is believed.
    ///
    /// # Errors
    /// Why it is not.
    pub fn doubt(
        &mut self,
        now: f64,
        lag: f64,
        before: Option<Before>,
        model: &Model,
        times: &Times,
    ) -> Result<(), Doubt> {
        self.on_trust = false;
        if self.is_frozen(lag) {
            return Err(Doubt::Frozen);
        }
        if let Some((value, since)) = self.doubted {
            if value == lag && now - since < times.believed {
                return Err(Doubt::Emptied);
            }
            self.on_trust = value == lag;
            self.doubted = None;
        }
        match before {
            Some(before) if before.apart < times.forgotten => {
                if lag <= EMPTY && self.is_unlikely(lag, before, model) {
                    self.doubted = Some((lag, now));
                    return Err(Doubt::Emptied);
                }
                let moves = FALLS.0 + FALLS.1 * before.apart;
                if before.lag - lag > moves {
                    return Err(Doubt::Fell);
                }
                let leaps = lag - before.lag > moves && !self.leapt;
                self.leapt = leaps;
                if leaps { Err(Doubt::Leapt) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    fn is_frozen(&mut self, lag: f64) -> bool {
        let same = self.last == Some(lag);
        self.count = self.count.saturating_add(1);
        self.equal = if same { self.equal + 1 } else { 1 };
        self.last = Some(lag);
        let jitters = self.count > KNOWN_AFTER && self.steady < JITTERS;
        if jitters && self.equal >= EQUAL && lag > EMPTY {
            return true;
        }
        // At rest nothing jitters: that says nothing about the source.
        if lag > EMPTY {
            let same = if same { 1.0 } else { 0.0 };
            self.steady += (same - self.steady) / f64::from(KNOWN_AFTER.min(self.count));
        }
        false
    }

    /// Somebody who knows says that what is seen is true.
    pub const fn believe(&mut self) {
        self.doubted = None;
        self.equal = 0;
    }

    /// Whether the last sample was only believed because it had stayed the same for so long.
    pub const fn is_on_trust(&self) -> bool {
        self.on_trust
    }

    /// Whether the last sample leapt.
    pub const fn has_leapt(&self) -> bool {
        self.leapt
    }

    /// The model foretold that something would still wait.
    fn is_unlikely(&self, lag: f64, before: Before, model: &Model) -> bool {
        let foretold = before.lag + model.slope(before.weight).min(0.0) * before.apart;
        foretold - lag > UNLIKELY * model.deviation(before.apart) + EMPTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before(lag: f64) -> Option<Before> {
        Some(Before {
            lag,
            apart: 15.0,
            weight: 8.0,
        })
    }

    fn used_to() -> (Sight, Model, f64) {
        let (mut sight, mut model) = (Sight::default(), Model::new(16));
        model.had_room_for(8.0);
        for step in 0..50 {
            let lag = 30.0 + f64::from(step % 7);
            sight
                .doubt(
                    f64::from(step) * 15.0,
                    lag,
                    before(lag),
                    &model,
                    &Times::default(),
                )
                .unwrap();
        }
        (sight, model, 750.0)
    }

    #[test]
    fn a_frozen_value_is_no_measurement_once_the_source_is_known_to_jitter() {
        let (mut sight, model, now) = used_to();
        let told: Vec<bool> = (0..6)
            .map(|i| {
                sight
                    .doubt(
                        now + f64::from(i) * 15.0,
                        33.5,
                        before(33.5),
                        &model,
                        &Times::default(),
                    )
                    .is_ok()
            })
            .collect();
        assert_eq!(told, [true, true, true, true, false, false]);
        assert!(
            sight
                .doubt(now + 200.0, 34.0, before(33.5), &model, &Times::default())
                .is_ok()
        );
    }

    #[test]
    fn an_empty_queue_out_of_nowhere_is_doubted_until_it_moves_or_long_enough_is_the_same() {
        let (mut sight, model, now) = used_to();
        assert!(
            sight
                .doubt(now, 0.0, before(33.0), &model, &Times::default())
                .is_err()
        );
        assert!(
            sight
                .doubt(now + 600.0, 0.0, None, &model, &Times::default())
                .is_err()
        );
        let mut moving = sight.clone();
        assert!(
            moving
                .doubt(now + 615.0, 1.2, None, &model, &Times::default())
                .is_ok()
        );
        assert!(
            sight
                .doubt(now + 3_601.0, 0.0, None, &model, &Times::default())
                .is_ok()
        );
    }

    #[test]
    fn a_queue_that_is_worked_off_is_believed_when_it_is_empty() {
        let (mut sight, model, now) = used_to();
        assert!(
            sight
                .doubt(now, 6.0, before(9.0), &model, &Times::default())
                .is_ok()
        );
        assert!(
            sight
                .doubt(now + 15.0, 1.0, before(6.0), &model, &Times::default())
                .is_ok()
        );
        assert!(
            sight
                .doubt(now + 30.0, 0.0, before(1.0), &model, &Times::default())
                .is_ok()
        );
        assert!(
            sight
                .doubt(now + 45.0, 0.0, before(0.0), &model, &Times::default())
                .is_ok(),
            "at rest nothing jitters"
        );
    }

    #[test]
    fn a_source_that_steps_once_a_minute_is_not_called_frozen_between_its_steps() {
        let (mut sight, model) = (Sight::default(), Model::new(16));
        for step in 0..400_u32 {
            let lag = 20.0 + f64::from((step / 6) % 5);
            let told = sight.doubt(
                f64::from(step) * 15.0,
                lag,
                before(lag),
                &model,
                &Times::default(),
            );
            assert_eq!(told, Ok(()), "sample {step}");
        }
    }

    #[test]
    fn a_leap_is_believed_when_a_second_sample_is_like_it_and_not_before() {
        let (mut sight, model, now) = used_to();
        let times = Times::default();
        let mut told =
            |after: f64, lag: f64, last: f64| sight.doubt(now + after, lag, before(last), &model, &times);
        assert_eq!(told(0.0, 5_000.0, 33.0), Err(Doubt::Leapt));
        assert_eq!(told(15.0, 34.0, 33.0), Ok(()), "it was a slip");
        assert_eq!(told(30.0, 400.0, 34.0), Err(Doubt::Leapt));
        assert_eq!(told(45.0, 410.0, 34.0), Ok(()), "it was not");
    }

    #[test]
    fn what_is_doubted_is_believed_when_somebody_says_that_it_is_true() {
        let (mut sight, model, now) = used_to();
        let times = Times::default();
        assert_eq!(
            sight.doubt(now, 0.0, before(33.0), &model, &times),
            Err(Doubt::Emptied)
        );
        sight.believe();
        assert_eq!(sight.doubt(now + 15.0, 0.0, None, &model, &times), Ok(()));
    }
}
