//! Thresholds of one signal.

use crate::config::{SignalConfig, Unit};
use std::time::Duration;

/// Thresholds and role of a signal. Values are in the signal's own unit and ordered `low <= soft <= hard <= critical`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignalLevels {
    /// Unit, for sentences only: the law compares numbers.
    pub unit: Unit,
    /// Resume level.
    pub low: f64,
    /// Cut level.
    pub soft: f64,
    /// Pause level.
    pub hard: f64,
    /// Hibernate level.
    pub critical: f64,
    /// Time between two polls.
    pub interval: Duration,
    /// `false`: it only freezes growth (role *advise*).
    pub protects: bool,
}

impl SignalLevels {
    /// The steepest slope, in units per second, that counts as flat: 0.02 s/s at soft 60 s, in proportion elsewhere.
    pub fn flat(&self) -> f64 {
        0.02 * self.soft / 60.0
    }

    /// How long a signal may be silent before it counts as not seen.
    pub(super) fn patience(&self) -> Duration {
        self.interval.saturating_mul(3)
    }

    /// The highest value that the first sample above hard may bring into a mean that is still below soft.
    pub(super) fn lone_cap(&self) -> f64 {
        self.low + (self.soft - self.low) / 2.0
    }
}

impl From<&SignalConfig> for SignalLevels {
    fn from(c: &SignalConfig) -> Self {
        Self {
            unit: c.unit,
            low: c.low,
            soft: c.soft,
            hard: c.hard,
            critical: c.critical,
            interval: c.interval,
            protects: c.protects,
        }
    }
}
