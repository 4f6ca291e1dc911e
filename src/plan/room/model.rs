//! What the live pipeline does, learned from its lag and from our own running weight alone.
//!
//! While something waits, lag grows or falls in proportion to what we run: `slope = drift + gain * weight`. The gain is
//! what one unit of weight costs, in lag a second; the drift is what the live load does without us, below 0
//! where it has capacity to spare. So `-drift / gain` is the weight that it leaves room for. Both are followed by a Kalman
//! filter, which is told when the world jumps: an incident, another load, a recovery.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Lag at or below this is that of an empty queue: its slope says nothing.
pub const EMPTY: f64 = 2.5;
/// A pair of samples further apart tells nothing about a slope, unless the signal is looked at less often.
pub const LONGEST_PAIR: f64 = 60.0;
/// Variances and forgetting are given for samples so far apart.
const PACE: f64 = 15.0;
/// Uncertainty of the drift, at first and at most.
const DRIFT_SD: f64 = 0.3;
/// Uncertainty of the gain, at first and at most, as a share of what is assumed at first.
const GAIN_SD: f64 = 0.6;
/// How far both wander by themselves between two samples.
const DRIFT_WANDERS: f64 = 0.003;
const GAIN_WANDERS: f64 = 0.002;
/// Standard deviation of a slope around the model, at first.
const NOISE: f64 = 0.08;
/// So many errors in a row of one sign, whose mean is so many standard deviations off, are a jump.
const JUMP_OF: usize = 3;
const JUMP_BY: f64 = 1.5;
/// What a jump adds to the variance of the drift.
const JUMP_OPENS: f64 = 0.02;
/// The gain stays within this band around what was assumed at first, whatever samples say.
const GAIN_BAND: (f64, f64) = (0.25, 5.0);
/// So does the drift: a queue is never worked off faster, and lag never grows as fast as time.
const DRIFT_BAND: (f64, f64) = (-3.0, 0.95);

/// What is known. Times are seconds on one clock that never jumps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    assumed: f64,
    drift: f64,
    gain: f64,
    /// Covariance: drift, both, gain.
    spread: (f64, f64, f64),
    /// Variance of slopes around the model.
    noise: f64,
    errors: VecDeque<f64>,
}

/// Two samples, one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Seconds between them.
    pub apart: f64,
    /// The earlier lag.
    pub from: f64,
    /// The later lag.
    pub to: f64,
    /// Mean running weight between them.
    pub weight: f64,
    /// Further apart they tell nothing, in seconds.
    pub longest: f64,
}

impl Model {
    /// What is assumed of a backfill with this `max_limit` before anything was measured: two thirds of it would be
    /// room enough if nothing else ran, and there is room for two.
    pub fn new(max_limit: u32) -> Self {
        let assumed = 1.0 / (1.5 * f64::from(max_limit.max(1)));
        Self {
            assumed,
            drift: -2.0 * assumed,
            gain: assumed,
            spread: (DRIFT_SD.powi(2), 0.0, (GAIN_SD * assumed).powi(2)),
            noise: NOISE.powi(2),
            errors: VecDeque::new(),
        }
    }

    /// The weight that the live load leaves room for. Below 0 where it has too little for itself.
    pub fn room(&self) -> f64 {
        -self.drift / self.gain
    }

    /// What one unit of weight costs: lag a second.
    pub const fn gain(&self) -> f64 {
        self.gain
    }

    /// How lag grows without us, in seconds a second.
    pub const fn drift(&self) -> f64 {
        self.drift
    }

    /// How lag grows at a running weight while something waits.
    pub fn slope(&self, weight: f64) -> f64 {
        self.drift + self.gain * weight
    }

    /// Standard deviation of lag around the model after so many seconds.
    pub fn deviation(&self, seconds: f64) -> f64 {
        (self.noise * PACE * seconds.max(0.0)).sqrt()
    }

    /// Learns from two samples. Of a queue that was or is empty nothing can be learned this way.
    pub fn learn(&mut self, pair: Pair) {
        if pair.apart <= 0.0 || pair.apart > pair.longest {
            self.errors.clear();
            return;
        }
        self.wander(pair.apart / PACE);
        if pair.from <= EMPTY || pair.to <= EMPTY {
            self.errors.clear();
            return;
        }
        let error = (pair.to - pair.from) / pair.apart - self.slope(pair.weight);
        self.watch_for_jumps(error);
        self.correct(error, pair.weight, self.noise * PACE / pair.apart);
        let surprise = 1.5 * error.powi(2).min(6.0 * self.noise);
        self.noise = (self.noise + 0.02 * (surprise - self.noise)).max(1e-5);
    }

    /// The queue stayed empty while this much ran: there is room for that at least.
    pub fn had_room_for(&mut self, weight: f64) {
        self.drift = self.drift.min(-self.gain * weight);
    }

    /// Lag grows by so much a second without us, for a test.
    #[cfg(test)]
    pub(super) const fn lean(&mut self, drift: f64) {
        self.drift = drift;
    }

    /// Nothing was seen for a while: errors from before say nothing about what comes.
    pub fn restart(&mut self) {
        self.errors.clear();
    }

    /// There is room for two, as at first; what a unit costs stays.
    pub fn forget_room(&mut self) {
        self.drift = -2.0 * self.gain;
        (self.spread.0, self.spread.1) = (DRIFT_SD.powi(2), 0.0);
        self.errors.clear();
    }

    fn wander(&mut self, steps: f64) {
        let (drift, both, gain) = self.spread;
        self.spread = (
            (drift + DRIFT_WANDERS.powi(2) * steps).min(DRIFT_SD.powi(2)),
            both,
            (gain + (GAIN_WANDERS * self.assumed).powi(2) * steps).min((GAIN_SD * self.assumed).powi(2)),
        );
    }

    fn watch_for_jumps(&mut self, error: f64) {
        self.errors.push_back(error);
        if self.errors.len() > JUMP_OF {
            self.errors.pop_front();
        }
        let mean = self.errors.iter().sum::<f64>() / self.errors.len() as f64;
        let one_sign = self.errors.iter().all(|e| e.signum() == mean.signum());
        if self.errors.len() == JUMP_OF && one_sign && mean.abs() > JUMP_BY * self.noise.sqrt() {
            self.spread.0 += JUMP_OPENS;
            self.spread.1 /= 2.0;
            self.errors.clear();
        }
    }

    /// One step of the filter.
    fn correct(&mut self, error: f64, weight: f64, noise: f64) {
        let (drift, both, gain) = self.spread;
        let total = drift + 2.0 * weight * both + weight * weight * gain + noise;
        let (to_drift, to_gain) = ((drift + weight * both) / total, (both + weight * gain) / total);
        self.drift += to_drift * error;
        self.gain += to_gain * error;
        self.spread = (
            drift - to_drift * (drift + weight * both),
            both - to_drift * (both + weight * gain),
            gain - to_gain * (both + weight * gain),
        );
        let (least, most) = GAIN_BAND;
        self.gain = self.gain.clamp(least * self.assumed, most * self.assumed);
        self.drift = self.drift.clamp(DRIFT_BAND.0, DRIFT_BAND.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples every 15 s of a pipeline that obeys the model, with what runs changing now and then.
    fn taught(drift: f64, gain: f64, seconds: u32) -> Model {
        let mut model = Model::new(16);
        let mut lag = 100.0;
        for step in 0..seconds / 15 {
            let weight = f64::from(4 + (step / 7) % 5);
            let next: f64 = lag + (drift + gain * weight) * 15.0;
            let next = if next < 20.0 { 100.0 } else { next };
            if next > lag || lag < 100.0 || step % 2 == 0 {
                model.learn(Pair {
                    apart: 15.0,
                    from: lag,
                    to: lag + (drift + gain * weight) * 15.0,
                    weight,
                    longest: LONGEST_PAIR,
                });
            }
            lag = next.min(500.0);
        }
        model
    }

    #[test]
    fn drift_and_gain_are_learned_from_lag_and_weight_alone() {
        let model = taught(-0.5, 0.07, 7_200);
        assert!((model.room() - 0.5 / 0.07).abs() < 0.5, "{}", model.room());
        assert!((model.gain() - 0.07).abs() < 0.02, "{}", model.gain());
    }

    #[test]
    fn a_jump_is_followed_within_two_minutes() {
        let mut model = taught(-0.7, 0.07, 7_200);
        assert!((model.room() - 10.0).abs() < 0.7, "{}", model.room());
        // Capacity falls by a quarter: three and a half units less.
        let mut lag = 20.0;
        for _ in 0..8 {
            let next = lag + (-0.45 + 0.07 * 9.0) * 15.0;
            model.learn(Pair {
                apart: 15.0,
                from: lag,
                to: next,
                weight: 9.0,
                longest: LONGEST_PAIR,
            });
            lag = next;
        }
        assert!((model.room() - 6.4).abs() < 1.0, "{}", model.room());
    }

    #[test]
    fn an_empty_queue_teaches_only_that_there_is_room_for_what_ran() {
        let mut model = Model::new(16);
        let before = model.clone();
        let pair = Pair {
            apart: 15.0,
            from: 0.0,
            to: 0.0,
            weight: 5.0,
            longest: LONGEST_PAIR,
        };
        model.learn(pair);
        assert_eq!((model.drift(), model.gain()), (before.drift(), before.gain()));
        model.had_room_for(5.0);
        assert!((model.room() - 5.0).abs() < 1e-9);
        model.had_room_for(3.0);
        assert!((model.room() - 5.0).abs() < 1e-9, "it is room for that at least");
    }

    #[test]
    fn whatever_samples_say_the_gain_stays_positive_and_in_its_band() {
        let mut model = Model::new(16);
        for step in 0..1_000 {
            let wild = if step % 2 == 0 { 1e6 } else { 3.0 };
            model.learn(Pair {
                apart: 15.0,
                from: 3.0 + 1e6 - wild,
                to: wild,
                weight: 16.0,
                longest: LONGEST_PAIR,
            });
            let assumed = 1.0 / 24.0;
            assert!((assumed * 0.25..=assumed * 5.0).contains(&model.gain()));
            assert!((-3.0..=0.95).contains(&model.drift()));
            assert!(model.room().is_finite());
        }
    }
}
