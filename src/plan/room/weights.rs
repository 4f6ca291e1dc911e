//! How much ran when: lag that is seen now is the doing of what ran then.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What is older than this is forgotten, in seconds.
const KEPT: f64 = 900.0;

/// Running weight over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// From when on how much ran, oldest first.
    changes: VecDeque<(f64, f64)>,
}

impl Weights {
    /// What runs from now on.
    pub fn note(&mut self, now: f64, weight: f64) {
        if self.changes.back().is_none_or(|(_, last)| *last != weight) {
            self.changes.push_back((now, weight));
        }
        while self.changes.get(1).is_some_and(|(at, _)| *at < now - KEPT) {
            self.changes.pop_front();
        }
    }

    /// What runs now.
    pub fn now(&self) -> f64 {
        self.changes.back().map_or(0.0, |(_, weight)| *weight)
    }

    /// The mean between two times; of times without length, what runs now.
    pub fn mean(&self, from: f64, to: f64) -> f64 {
        if to <= from {
            return self.now();
        }
        let (mut sum, mut until) = (0.0, to);
        for (at, weight) in self.changes.iter().rev() {
            let since = at.max(from);
            if since < until {
                sum += weight * (until - since);
                until = since;
            }
            if *at <= from {
                break;
            }
        }
        sum / (to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_those_of_what_ran_between() {
        let mut weights = Weights::default();
        for (at, weight) in [(0.0, 2.0), (100.0, 2.0), (200.0, 4.0), (300.0, 8.0)] {
            weights.note(at, weight);
        }
        assert_eq!(weights.mean(100.0, 200.0), 2.0);
        assert_eq!(weights.mean(150.0, 250.0), 3.0);
        assert_eq!(weights.mean(250.0, 350.0), 6.0);
        assert_eq!(weights.mean(400.0, 400.0), 8.0);
        assert_eq!(weights.mean(-100.0, 100.0), 1.0, "before the first nothing ran");
        weights.note(2_000.0, 1.0);
        assert_eq!(weights.mean(1_950.0, 2_000.0), 8.0);
    }
}
