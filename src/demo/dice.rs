//! Draws that are the same on every machine and in every version: a ChaCha stream and integer arithmetic only.

use chrono::{Datelike, NaiveDate};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// What a stream of draws is for. Streams of different purposes never share a number, so that a change in one
/// leaves the others as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// How many rows a day has.
    Volume = 1,
    /// The rows themselves.
    Rows = 2,
    /// How long the work takes.
    Duration = 3,
    /// Whether an attempt fails.
    Faults = 4,
    /// The noise of the live consumer.
    Live = 5,
}

/// A stream of draws.
#[derive(Debug, Clone)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// The stream of a seed and a purpose for one day.
    pub fn of_day(seed: u64, purpose: Purpose, date: NaiveDate) -> Self {
        Self::of(seed, purpose, date.num_days_from_ce().unsigned_abs())
    }

    /// The stream of a seed and a purpose; `part` tells streams of one purpose apart.
    pub fn of(seed: u64, purpose: Purpose, part: u32) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream((purpose as u64) << 32 | u64::from(part));
        Self(rng)
    }

    /// A whole number from 0 to `n - 1`; 0 when `n` is 0.
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.0.next_u32()) * u64::from(n)) >> 32) as u32
    }

    /// A whole number from `low` to `high`, both possible.
    pub fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// A number above 0 and at most 1.
    fn unit(&mut self) -> f64 {
        (f64::from(self.0.next_u32()) + 1.0) / 4_294_967_296.0
    }

    /// A number of the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_draws_for_ever() {
        let mut dice = Dice::of(7, Purpose::Rows, 1);
        let drawn: Vec<u32> = (0..4).map(|_| dice.below(1000)).collect();
        assert_eq!(drawn, RECORDED, "a change here changes every demo's bytes");
    }

    #[test]
    fn purposes_parts_and_seeds_do_not_share_draws() {
        let first = |seed, purpose, part| Dice::of(seed, purpose, part).below(u32::MAX);
        let base = first(1, Purpose::Rows, 1);
        assert_ne!(base, first(2, Purpose::Rows, 1));
        assert_ne!(base, first(1, Purpose::Volume, 1));
        assert_ne!(base, first(1, Purpose::Rows, 2));
    }

    #[test]
    fn draws_stay_inside_their_bounds_and_reach_both_ends() {
        let mut dice = Dice::of(1, Purpose::Faults, 0);
        let drawn: Vec<u32> = (0..2000).map(|_| dice.between(3, 6)).collect();
        assert_eq!(drawn.iter().min(), Some(&3));
        assert_eq!(drawn.iter().max(), Some(&6));
    }

    #[test]
    fn normal_draws_have_mean_zero_and_deviation_one() {
        let mut dice = Dice::of(1, Purpose::Live, 0);
        let drawn: Vec<f64> = (0..20_000).map(|_| dice.normal()).collect();
        let mean = drawn.iter().sum::<f64>() / 20_000.0;
        let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(
            mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05,
            "{mean} {variance}"
        );
    }

    const RECORDED: [u32; 4] = [668, 574, 49, 288];
}
