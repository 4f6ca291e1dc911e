//! The live pipeline without us: what arrives, what the consumer can take, and what waits. Time goes in steps of
//! [`STEP`]; lag is the age of the oldest message that waits, as an exporter of seconds would tell it.

use super::{
    course::Course,
    draw::{Draw, Stream},
};
use crate::config::scenario::Scenario;
use std::time::Duration;

/// A step of the modelled world, in seconds.
pub const STEP: f64 = 5.0;
const DAY: f64 = 86_400.0;

/// What happens without us, step by step.
#[derive(Debug, Clone)]
pub struct Live {
    /// Messages a second that arrive.
    pub arrivals: Vec<f64>,
    /// Messages a second that the consumer can take before we take something from it.
    pub capacity: Vec<f64>,
    /// Messages that arrived until the beginning of each step; one longer than the others.
    arrived: Vec<f64>,
}

impl Live {
    /// The world of one seed.
    pub fn new(scenario: &Scenario, course: &Course, draw: Draw) -> Self {
        let steps = course.moments().len();
        let mut noise = Noise::new(scenario, draw);
        let mut loads: Vec<Switching<'_>> = Vec::new();
        for (which, load) in scenario.other_loads.iter().enumerate() {
            loads.push(Switching::new(load, which as u64, draw));
        }
        let mut live = Self {
            arrivals: Vec::with_capacity(steps),
            capacity: Vec::with_capacity(steps),
            arrived: vec![0.0],
        };
        let consumer = &scenario.consumer;
        let mut sum = 0.0;
        for (step, moment) in course.moments().iter().enumerate() {
            let t = step as f64 * STEP;
            let turn = std::f64::consts::TAU * (t - consumer.day_peak.as_secs_f64()) / DAY;
            let arrivals = consumer.rate * (1.0 + consumer.day_swing * turn.cos()) * noise.next(step as u64);
            let capacity = moment.capacity - loads.iter_mut().map(|l| l.at(t)).sum::<f64>();
            sum += arrivals * STEP;
            live.arrivals.push(arrivals);
            live.capacity.push(capacity.max(0.0));
            live.arrived.push(sum);
        }
        live
    }

    /// How many steps there are.
    pub const fn steps(&self) -> usize {
        self.arrivals.len()
    }

    /// Messages that arrived in the `seconds` before the beginning of a step.
    pub fn arrived_within(&self, step: usize, seconds: f64) -> f64 {
        let before = step.saturating_sub((seconds / STEP) as usize);
        self.arrived[step.min(self.steps())] - self.arrived[before.min(self.steps())]
    }
}

/// Multiplicative noise whose parts forget at their own pace.
struct Noise<'s> {
    parts: &'s [(f64, Duration)],
    values: Vec<f64>,
    draw: Draw,
}

impl<'s> Noise<'s> {
    fn new(scenario: &'s Scenario, draw: Draw) -> Self {
        let parts = scenario.consumer.noise.as_slice();
        let first = |(part, (share, _)): (usize, &(f64, Duration))| {
            share * draw.normal(Stream::Noise(part as u64), u64::MAX / 4)
        };
        Self {
            parts,
            values: parts.iter().enumerate().map(first).collect(),
            draw,
        }
    }

    fn next(&mut self, step: u64) -> f64 {
        let mut factor = 1.0;
        for (part, ((share, memory), value)) in self.parts.iter().zip(&mut self.values).enumerate() {
            let kept = (-STEP / memory.as_secs_f64()).exp();
            let fresh = self.draw.normal(Stream::Noise(part as u64), step);
            *value = kept * *value + share * (1.0 - kept * kept).sqrt() * fresh;
            factor *= 1.0 + *value;
        }
        factor.max(0.0)
    }
}

/// A load that is on and off in turn, off at first.
struct Switching<'s> {
    load: &'s crate::config::scenario::OtherLoad,
    which: u64,
    draw: Draw,
    on: bool,
    until: f64,
    turns: u64,
}

impl<'s> Switching<'s> {
    const fn new(load: &'s crate::config::scenario::OtherLoad, which: u64, draw: Draw) -> Self {
        Self {
            load,
            which,
            draw,
            on: true,
            until: 0.0,
            turns: 0,
        }
    }

    fn at(&mut self, t: f64) -> f64 {
        while t >= self.until {
            self.on = !self.on;
            let (least, most) = (self.load.least.as_secs_f64(), self.load.most.as_secs_f64());
            let drawn = self.draw.even(Stream::OtherLoad(self.which), self.turns);
            self.until += least + (most - least) * drawn;
            self.turns += 1;
        }
        if self.on { self.load.load } else { 0.0 }
    }
}

/// What waits.
#[derive(Debug, Clone)]
pub struct Queue<'l> {
    live: &'l Live,
    step: usize,
    served: f64,
    /// The step in which the oldest message that waits arrived.
    oldest: usize,
}

impl<'l> Queue<'l> {
    /// Empty, at the beginning.
    pub const fn new(live: &'l Live) -> Self {
        Self {
            live,
            step: 0,
            served: 0.0,
            oldest: 0,
        }
    }

    /// One step, in which `taken` messages a second of the consumer's capacity go to us.
    pub fn pass(&mut self, taken: f64) {
        let Some(capacity) = self.live.capacity.get(self.step) else {
            return;
        };
        let waits = self.live.arrived[self.step + 1] - self.served;
        self.served += waits.min((capacity - taken).max(0.0) * STEP);
        self.step += 1;
        while self.oldest < self.step && self.live.arrived[self.oldest + 1] <= self.served {
            self.oldest += 1;
        }
    }

    /// The age of the oldest message that waits, in seconds; 0 if none does.
    pub fn age(&self) -> f64 {
        if self.oldest >= self.step {
            return 0.0;
        }
        let (before, after) = (self.live.arrived[self.oldest], self.live.arrived[self.oldest + 1]);
        let part = (self.served - before) / (after - before).max(f64::MIN_POSITIVE);
        ((self.step - self.oldest) as f64 - part).max(0.0) * STEP
    }

    /// How many messages wait.
    pub fn backlog(&self) -> f64 {
        (self.live.arrived[self.step] - self.served).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::scenario;
    use super::*;

    fn steady(capacity: f64) -> Live {
        let mut toy = scenario();
        toy.consumer.noise.clear();
        toy.consumer.day_swing = 0.0;
        toy.consumer.capacity = capacity;
        toy.incidents.clear();
        Live::new(&toy, &Course::of(&toy), Draw(1))
    }

    #[test]
    fn a_consumer_with_room_has_no_lag_and_what_we_take_beyond_it_makes_lag_grow_as_the_model_says() {
        let live = steady(1750.0);
        let mut queue = Queue::new(&live);
        for _ in 0..100 {
            queue.pass(700.0);
        }
        assert_eq!((queue.age(), queue.backlog()), (0.0, 0.0));
        // 50 messages a second are left over: after 1000 s there are 50,000, which is 50 s of arrivals.
        for _ in 0..200 {
            queue.pass(800.0);
        }
        assert!((queue.backlog() - 50_000.0).abs() < 1.0, "{}", queue.backlog());
        assert!((queue.age() - 50.0).abs() < 0.1, "{}", queue.age());
        // Without us 750 a second are worked off.
        for _ in 0..14 {
            queue.pass(0.0);
        }
        assert!(queue.age() < 0.1 && queue.backlog() < 1.0, "{}", queue.age());
    }

    #[test]
    fn an_incident_takes_from_the_capacity_while_it_lasts() {
        let mut toy = scenario();
        toy.consumer.noise.clear();
        let live = Live::new(&toy, &Course::of(&toy), Draw(1));
        let first = toy.incidents[0].clone();
        let at = (first.at.as_secs_f64() / STEP) as usize;
        let over = ((first.at + first.lasts).as_secs_f64() / STEP) as usize;
        assert_eq!(live.capacity[at - 1], 1750.0);
        assert!((live.capacity[at] - 1750.0 * first.capacity_factor).abs() < 1e-9);
        assert_eq!(live.capacity[over], 1750.0);
    }

    #[test]
    fn the_day_swings_around_its_mean_and_peaks_when_it_is_said() {
        let mut toy = scenario();
        toy.consumer.noise.clear();
        let live = Live::new(&toy, &Course::of(&toy), Draw(1));
        let at = |hours: f64| live.arrivals[(hours * 3600.0 / STEP) as usize];
        assert!((at(14.0) - 1350.0).abs() < 0.1 && (at(2.0) - 650.0).abs() < 0.1);
        assert!((at(8.0) - 1000.0).abs() < 0.1);
    }
}
