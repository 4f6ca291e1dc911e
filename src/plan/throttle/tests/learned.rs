//! Where the learned law decides: what it must leave to the rules around it.

use super::*;
use crate::{domain::spec::Law, plan::throttle::Fleet};

struct Learned {
    night: Night,
}

impl Learned {
    fn new() -> Self {
        let mut night = Night::orders(8);
        night.throttle = night.throttle.by_law(Law::Learned);
        Self { night }
    }

    /// A quarter of a minute passes, and ends with a sample or without one.
    fn next(&mut self, lag: Option<f64>) {
        let night = &mut self.night;
        night.now.boot = night.now.boot.plus(INTERVAL);
        night.now.wall += INTERVAL;
        let signal = name("orders-live");
        let input = match lag {
            Some(value) => Input::Sample {
                signal,
                value,
                age: Duration::ZERO,
            },
            None => Input::NoSample {
                signal,
                why: "empty result".to_owned(),
            },
        };
        let (now, load) = (night.now, night.load);
        night.throttle.step(input, &load, now, &night.tuning);
        let fleet = Fleet {
            running: &[],
            mean: 600.0,
            cancel: None,
        };
        night.throttle.govern(&fleet, &load, now, &night.tuning);
    }

    fn said(&self) -> (u32, ThrottleState) {
        (self.night.throttle.limit(), self.night.throttle.state())
    }
}

#[test]
fn sight_that_comes_back_past_critical_does_not_end_the_rest() {
    let mut learned = Learned::new();
    for lag in [10.0, 8.0, 5.0] {
        learned.next(Some(lag));
    }
    assert_eq!(learned.said().0, 2);
    for _ in 0..5 {
        learned.next(None);
    }
    assert_eq!(learned.said(), (1, ThrottleState::Blind), "half");
    for lag in [950.0, 951.0, 952.0, 953.0] {
        learned.next(Some(lag));
    }
    assert_eq!(learned.said(), (0, ThrottleState::Critical));
    for step in 0..10 {
        learned.next(Some(940.0 - f64::from(step)));
        assert_eq!(learned.said(), (0, ThrottleState::Critical), "step {step}");
    }
}
