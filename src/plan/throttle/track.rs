//! What the samples of one signal amount to: their smoothed mean, their slope, and how many in a row are too high.

use super::{SignalLevels, exact};
use crate::{domain::tuning::Tuning, host::BootInstant};
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, time::Duration};

/// The slope window holds at most about this many points, so that a checkpoint stays small at any interval.
const POINTS: u32 = 60;
/// Fewer samples than this have no slope.
const SLOPE_LEAST: u32 = 8;

/// A value and when it was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Point {
    pub at: BootInstant,
    #[serde(with = "exact")]
    pub value: f64,
}

/// Samples that lie close together, as one point of the slope window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Bucket {
    first: BootInstant,
    /// Sum of the samples' distances from `first`, in milliseconds.
    offsets: u64,
    #[serde(with = "exact")]
    sum: f64,
    n: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Track {
    /// The newest sample as it came.
    last: Option<Point>,
    /// Exponentially smoothed (C2's ell).
    mean: Option<Point>,
    window: VecDeque<Bucket>,
    /// Samples in a row above hard.
    over_hard: u32,
    /// Samples in a row at or above critical.
    over_critical: u32,
}

impl Track {
    /// Takes in a sample. `false`: it is the measurement that is already known.
    pub fn take(&mut self, sample: Point, levels: &SignalLevels, tuning: &Tuning) -> bool {
        let mut at = sample.at;
        if let Some(last) = self.last {
            let same_time = at < last.at.plus(levels.interval / 2);
            if same_time && sample.value.to_bits() == last.value.to_bits() {
                return false;
            }
            at = at.max(last.at.plus(Duration::from_millis(1)));
        }
        let value = sample.value;
        self.last = Some(Point { at, value });
        self.over_hard = if value > levels.hard {
            self.over_hard + 1
        } else {
            0
        };
        self.over_critical = if value >= levels.critical {
            self.over_critical + 1
        } else {
            0
        };
        self.smooth(
            Point {
                at,
                value: self.tempered(value, levels),
            },
            tuning,
        );
        if !self.is_lone() {
            self.add_to_window(Point { at, value }, window_length(levels, tuning));
        }
        true
    }

    /// What a sample may weigh in the mean: all of it, unless it is the first above hard.
    fn tempered(&self, value: f64, levels: &SignalLevels) -> f64 {
        if !self.is_lone() {
            return value;
        }
        match self.mean {
            Some(mean) if mean.value >= levels.soft => value.min(levels.hard),
            _ => value.min(levels.lone_cap()),
        }
    }

    fn smooth(&mut self, sample: Point, tuning: &Tuning) {
        let value = match self.mean {
            None => sample.value,
            Some(mean) => {
                let dt = sample.at.since(mean.at).as_secs_f64();
                let alpha = 1.0 - (-dt / tuning.ewma.as_secs_f64().max(0.001)).exp();
                mean.value + alpha * (sample.value - mean.value)
            }
        };
        self.mean = Some(Point { at: sample.at, value });
    }

    fn add_to_window(&mut self, sample: Point, length: Duration) {
        match self.window.back_mut() {
            Some(b) if sample.at.since(b.first) < length / POINTS => {
                b.offsets += millis(sample.at.since(b.first));
                b.sum += sample.value;
                b.n += 1;
            }
            _ => self.window.push_back(Bucket {
                first: sample.at,
                offsets: 0,
                sum: sample.value,
                n: 1,
            }),
        }
        while self
            .window
            .front()
            .is_some_and(|b| sample.at.since(b.first) > length)
        {
            self.window.pop_front();
        }
    }

    /// Least-squares slope of the window in units per second; `None` with fewer than eight samples.
    pub fn slope(&self) -> Option<f64> {
        let origin = self.window.front()?.first;
        let n: u32 = self.window.iter().map(|b| b.n).sum();
        if n < SLOPE_LEAST {
            return None;
        }
        let points = || {
            self.window.iter().map(|b| {
                let weight = f64::from(b.n);
                let t = b.first.since(origin).as_secs_f64() + b.offsets as f64 / 1000.0 / weight;
                (weight, t, b.sum / weight)
            })
        };
        let total = f64::from(n);
        let mean_t = points().map(|(w, t, _)| w * t).sum::<f64>() / total;
        let mean_x = points().map(|(w, _, x)| w * x).sum::<f64>() / total;
        let spread = points().map(|(w, t, _)| w * (t - mean_t).powi(2)).sum::<f64>();
        let joint = points()
            .map(|(w, t, x)| w * (t - mean_t) * (x - mean_x))
            .sum::<f64>();
        (spread > 0.0).then(|| joint / spread)
    }

    /// The newest value as it came.
    pub fn last(&self) -> Option<f64> {
        self.last.map(|p| p.value)
    }

    /// The newest value and when it was measured.
    pub fn newest(&self) -> Option<Point> {
        self.last
    }

    /// The smoothed value.
    pub fn mean(&self) -> Option<f64> {
        self.mean.map(|p| p.value)
    }

    /// The newest sample is above hard and the one before was not: it has to be confirmed.
    pub fn is_lone(&self) -> bool {
        self.over_hard == 1
    }

    /// Two samples in a row were above hard.
    pub fn is_over_hard(&self) -> bool {
        self.over_hard >= 2
    }

    /// Two samples in a row were at or above critical.
    pub fn is_critical(&self) -> bool {
        self.over_critical >= 2
    }

    /// The mean if the slope is followed for a while; a falling slope is not followed.
    pub fn predicted(&self, horizon: Duration) -> Option<f64> {
        let slope = self.slope().unwrap_or(0.0).max(0.0);
        Some(self.mean()? + slope * horizon.as_secs_f64())
    }

    /// Low and flat, with nothing unconfirmed.
    pub fn is_calm(&self, levels: &SignalLevels) -> bool {
        let low = self.mean().is_some_and(|m| m <= levels.low);
        low && self.over_hard == 0 && self.slope().unwrap_or(0.0) <= levels.flat()
    }

    /// Starts the slope window anew; the mean and the counts stay.
    pub fn restart_window(&mut self) {
        self.window.clear();
    }
}

fn window_length(levels: &SignalLevels, tuning: &Tuning) -> Duration {
    tuning.slope_window.max(levels.interval.saturating_mul(10))
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}
