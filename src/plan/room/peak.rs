//! How high lag will go if nothing more starts: what runs ends bit by bit, and until then it goes on costing.

use super::model::Model;

/// How far it is looked ahead.
const AHEAD: f64 = 3_600.0;
/// In steps of.
const STEP: f64 = 30.0;

/// An attempt that runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Running {
    /// Whose it is; given back where it is to be cancelled.
    pub key: u64,
    /// Its weight.
    pub weight: u32,
    /// For how long it has run, in seconds.
    pub age: f64,
    /// How long it is expected to run in all, in seconds.
    pub expected: f64,
    /// It may be cancelled to brake: its target is overwritten whole, and its executor can end it.
    pub may_be_cancelled: bool,
}

/// The highest lag within an hour, from `lag` on, and in how many seconds it is reached. Light work decays evenly by its mean length; a heavy chunk stays until
/// its expected end.
pub fn peak(model: &Model, lag: f64, mean: f64, running: &[Running]) -> (f64, f64) {
    let light = running.iter().filter(|r| r.weight == 1).count() as f64;
    let heavy = |t: f64| {
        let still = |r: &&Running| r.weight > 1 && r.left() > t;
        running
            .iter()
            .filter(still)
            .map(|r| f64::from(r.weight))
            .sum::<f64>()
    };
    let (mut lag, mut highest, mut t) = (lag, (lag, 0.0), 0.0);
    while t < AHEAD {
        let weight = light * (-t / mean.max(1.0)).exp() + heavy(t);
        let slope = model.slope(weight);
        lag = (lag + slope * STEP).max(0.0);
        if lag > highest.0 {
            highest = (lag, t + STEP);
        }
        // What runs only gets less, so that lag does not turn again.
        if slope <= 0.0 {
            break;
        }
        t += STEP;
    }
    highest
}

impl Running {
    /// How long it will still run. One that is late is expected to take a third longer than it has by now.
    fn left(&self) -> f64 {
        if self.age < self.expected {
            self.expected - self.age
        } else {
            self.age / 3.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn light(n: u64) -> Vec<Running> {
        let one = |key| Running {
            key,
            weight: 1,
            age: 60.0,
            expected: 600.0,
            may_be_cancelled: true,
        };
        (0..n).map(one).collect()
    }

    #[test]
    fn within_the_room_lag_does_not_rise_and_beyond_it_rises_with_every_unit() {
        let mut model = Model::new(16);
        model.had_room_for(8.0);
        assert_eq!(peak(&model, 20.0, 600.0, &light(7)), (20.0, 0.0));
        let (ten, twelve) = (
            peak(&model, 20.0, 600.0, &light(10)).0,
            peak(&model, 20.0, 600.0, &light(12)).0,
        );
        assert!(20.0 < ten && ten < twelve, "{ten} {twelve}");
    }

    #[test]
    fn longer_chunks_cost_longer() {
        let mut model = Model::new(16);
        model.had_room_for(8.0);
        let (short, long) = (
            peak(&model, 20.0, 300.0, &light(12)).0,
            peak(&model, 20.0, 2_400.0, &light(12)).0,
        );
        assert!(short < long, "{short} {long}");
    }

    #[test]
    fn a_heavy_chunk_counts_whole_until_its_expected_end() {
        let mut model = Model::new(16);
        model.had_room_for(2.0);
        let heavy = |age| {
            [Running {
                key: 1,
                weight: 4,
                age,
                expected: 1_200.0,
                may_be_cancelled: true,
            }]
        };
        let (young, old) = (
            peak(&model, 10.0, 600.0, &heavy(0.0)).0,
            peak(&model, 10.0, 600.0, &heavy(1_100.0)).0,
        );
        assert!(old < young, "{old} {young}");
    }
}
