//! The most that could be done by somebody who knows the whole future and can start and stop any part of a chunk at any
//! moment, with lag never past soft but where the live load alone takes it there. No schedule can do more, so it is
//! what 100 % means.

use super::{
    live::{Live, STEP},
    work::Plan,
};
use crate::config::{Unit, scenario::Scenario};

/// The bound of one seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// Seconds of weight.
    pub work: f64,
    /// Chunks of the plan, in its order, that this is enough for.
    pub chunks: u32,
}

/// Computes it: backward what may wait at the end of each step, then forward the most weight that keeps to it.
pub fn bound(scenario: &Scenario, live: &Live, plan: &Plan<'_>) -> Bound {
    let most = most_waiting(scenario, live);
    let cost = scenario.consumer.cost_per_chunk;
    let max = f64::from(scenario.backfill.max_limit);
    let (mut waiting, mut work) = (0.0_f64, 0.0);
    for step in 0..live.steps() {
        let grows = (live.arrivals[step] - live.capacity[step]) * STEP;
        let weight = if cost > 0.0 {
            ((most[step + 1] - waiting - grows) / (cost * STEP)).clamp(0.0, max)
        } else {
            max
        };
        waiting = (waiting + grows + cost * weight * STEP).max(0.0);
        work += weight * STEP;
    }
    let (mut left, mut chunks) = (work, 0);
    while chunks < scenario.backfill.chunks {
        let needed = plan.work_of(chunks);
        if needed > left {
            return Bound { work, chunks };
        }
        left -= needed;
        chunks += 1;
    }
    Bound {
        work: work - left,
        chunks,
    }
}

/// The most messages that may wait at the beginning of each step (and at the end of the last) so that soft can be kept
/// from there on; what waits without us in any case is always allowed.
fn most_waiting(scenario: &Scenario, live: &Live) -> Vec<f64> {
    let steps = live.steps();
    let mut alone = vec![0.0_f64; steps + 1];
    for step in 0..steps {
        let grows = (live.arrivals[step] - live.capacity[step]) * STEP;
        alone[step + 1] = (alone[step] + grows).max(0.0);
    }
    let at_soft = |step: usize| match scenario.signal.unit {
        Unit::Seconds => live.arrived_within(step, scenario.signal.soft),
        Unit::Messages | Unit::Alerts => scenario.signal.soft,
    };
    let mut most = vec![0.0_f64; steps + 1];
    most[steps] = alone[steps].max(at_soft(steps));
    for step in (0..steps).rev() {
        let grows = (live.arrivals[step] - live.capacity[step]) * STEP;
        most[step] = alone[step].max(at_soft(step).min(most[step + 1] - grows));
    }
    most
}

#[cfg(test)]
mod tests {
    use super::super::{course::Course, draw::Draw, tests::scenario};
    use super::*;

    #[test]
    fn with_steady_room_for_ten_the_bound_is_ten_and_the_lag_that_is_allowed() {
        let mut toy = scenario();
        toy.consumer.noise.clear();
        toy.consumer.day_swing = 0.0;
        toy.consumer.capacity = 1700.0;
        toy.incidents.clear();
        toy.backfill.chunks = 100_000;
        let live = Live::new(&toy, &Course::of(&toy), Draw(1));
        let found = bound(&toy, &live, &Plan::new(&toy.backfill, Draw(1)));
        let seconds = toy.duration.as_secs_f64();
        // 60 s of 1000 messages may wait at the end: that is 60,000 / 70 seconds of weight more.
        let expected = 10.0 * seconds + 60_000.0 / 70.0;
        assert!(
            (found.work / expected - 1.0).abs() < 1e-3,
            "{} {expected}",
            found.work
        );
    }

    #[test]
    fn where_the_plan_ends_before_the_night_the_bound_is_the_plan() {
        let mut toy = scenario();
        toy.backfill.chunks = 20;
        toy.backfill.failure_rate = 0.0;
        let live = Live::new(&toy, &Course::of(&toy), Draw(1));
        let found = bound(&toy, &live, &Plan::new(&toy.backfill, Draw(1)));
        let plan = Plan::new(&toy.backfill, Draw(1));
        let all: f64 = (0..20).map(|k| plan.work_of(k)).sum();
        assert_eq!(found.chunks, 20);
        assert!((found.work - all).abs() < 1e-6);
    }
}
