//! Which samples are believed. A metric that froze, or that reads 0 because its exporter lost its source, looks healthy:
//! it answers, and its times are fresh.

use super::model::{EMPTY, Model};
use serde::{Deserialize, Serialize};

/// So many equal values in a row, with something waiting, are no measurements: what lives jitters.
const EQUAL: u32 = 5;
/// Before so many samples a source is not judged by its jitter.
const KNOWN_AFTER: u32 = 40;
/// An empty queue right after this many standard deviations more than the model foretold is not believed.
const UNLIKELY: f64 = 5.0;
/// What is not believed because it is unlikely is believed if it stays the same for so long, in seconds.
const BELIEVED_AFTER: f64 = 3_600.0;
/// Lag that falls by more than this, and by more than so much a second, was not worked off.
const FALLS: (f64, f64) = (20.0, 2.0);
/// After so long without a valid sample the last one says nothing about the next, in seconds.
const FORGOTTEN: f64 = 120.0;

/// What is remembered of the samples of one signal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sight {
    count: u32,
    last: Option<f64>,
    equal: u32,
    doubted: Option<(f64, f64)>,
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
    pub fn believes(&mut self, now: f64, lag: f64, before: Option<Before>, model: &Model) -> bool {
        self.count = self.count.saturating_add(1);
        self.equal = if self.last == Some(lag) { self.equal + 1 } else { 1 };
        self.last = Some(lag);
        if self.count > KNOWN_AFTER && self.equal >= EQUAL && lag > EMPTY {
            return false;
        }
        if let Some((value, since)) = self.doubted {
            if value == lag && now - since < BELIEVED_AFTER {
                return false;
            }
            self.doubted = None;
        }
        match before {
            Some(before) if before.apart < FORGOTTEN => {
                if lag <= EMPTY && self.is_unlikely(lag, before, model) {
                    self.doubted = Some((lag, now));
                    return false;
                }
                before.lag - lag <= FALLS.0 + FALLS.1 * before.apart
            }
            _ => true,
        }
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
            assert!(sight.believes(f64::from(step) * 15.0, lag, before(lag), &model));
        }
        (sight, model, 750.0)
    }

    #[test]
    fn a_frozen_value_is_no_measurement_once_the_source_is_known_to_jitter() {
        let (mut sight, model, now) = used_to();
        let told: Vec<bool> = (0..6)
            .map(|i| sight.believes(now + f64::from(i) * 15.0, 33.5, before(33.5), &model))
            .collect();
        assert_eq!(told, [true, true, true, true, false, false]);
        assert!(sight.believes(now + 200.0, 34.0, before(33.5), &model));
    }

    #[test]
    fn an_empty_queue_out_of_nowhere_is_doubted_until_it_moves_or_long_enough_is_the_same() {
        let (mut sight, model, now) = used_to();
        assert!(!sight.believes(now, 0.0, before(33.0), &model));
        assert!(!sight.believes(now + 600.0, 0.0, None, &model));
        let mut moving = sight.clone();
        assert!(moving.believes(now + 615.0, 1.2, None, &model));
        assert!(sight.believes(now + 3_601.0, 0.0, None, &model));
    }

    #[test]
    fn a_queue_that_is_worked_off_is_believed_when_it_is_empty() {
        let (mut sight, model, now) = used_to();
        assert!(sight.believes(now, 6.0, before(9.0), &model));
        assert!(sight.believes(now + 15.0, 1.0, before(6.0), &model));
        assert!(sight.believes(now + 30.0, 0.0, before(1.0), &model));
        assert!(
            sight.believes(now + 45.0, 0.0, before(0.0), &model),
            "at rest nothing jitters"
        );
    }
}
