//! The live consumer, modelled: a group that reads one topic while the backfill's chunks take their share of what
//! it runs on. Pure: time, load and noise are parameters.
//!
//! `B' = arrivals - (capacity * f - cost * running)`, never below 0. Arrivals follow the day (sped up: a modelled
//! day takes minutes) and a noise that remembers; `f` falls below 1 while an incident lasts. Numbers are messages
//! and seconds.

use std::collections::VecDeque;

/// The longest step that is taken at once, in seconds.
const STEP: f64 = 0.25;
/// How much of its capacity the consumer keeps, whatever runs beside it.
const FLOOR: f64 = 0.05;
/// How many marks of past arrivals are kept to tell the age of the oldest waiting message.
const MARKS: usize = 20_000;

/// A time in which the consumer can do less.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Incident {
    /// From this second of each cycle.
    pub from: f64,
    /// For this many seconds.
    pub lasts: f64,
    /// The share of its capacity that is left.
    pub factor: f64,
}

/// What the world of the live consumer is like.
#[derive(Debug, Clone, PartialEq)]
pub struct World {
    /// Messages a second, mean of the day.
    pub arrivals: f64,
    /// How far arrivals swing around their mean over a day, as a share of it.
    pub swing: f64,
    /// Length of a modelled day.
    pub day: f64,
    /// The second of the day with most arrivals.
    pub peak: f64,
    /// Messages a second that the consumer can read when nothing runs beside it.
    pub capacity: f64,
    /// What one running chunk takes of it.
    pub cost: f64,
    /// Standard deviation of the noise on arrivals, as a share.
    pub noise: f64,
    /// How long the noise remembers.
    pub memory: f64,
    /// When its incidents repeat.
    pub cycle: f64,
    /// Its incidents.
    pub incidents: Vec<Incident>,
}

impl World {
    /// The demo's world without incidents: room for two to four chunks over a day of five minutes.
    pub const fn calm() -> Self {
        Self {
            arrivals: 10_000.0,
            swing: 0.3,
            day: 300.0,
            peak: 75.0,
            capacity: 17_500.0,
            cost: 2_500.0,
            noise: 0.04,
            memory: 10.0,
            cycle: 600.0,
            incidents: Vec::new(),
        }
    }

    /// The demo's world: the same, with a grave incident in the second minute and a lighter one later, every ten
    /// minutes again.
    pub fn lively() -> Self {
        let incident = |from, lasts, factor| Incident { from, lasts, factor };
        Self {
            incidents: vec![incident(90.0, 15.0, 0.4), incident(410.0, 20.0, 0.7)],
            ..Self::calm()
        }
    }

    /// Messages a second that arrive at an instant, before noise.
    fn arrivals_at(&self, t: f64) -> f64 {
        let angle = std::f64::consts::TAU * (t - self.peak) / self.day;
        self.arrivals * (1.0 + self.swing * angle.cos())
    }

    /// Messages a second that the consumer can read at an instant beside so many chunks.
    fn capacity_at(&self, t: f64, running: u32) -> f64 {
        let at = t % self.cycle;
        let left: f64 = self
            .incidents
            .iter()
            .filter(|i| (i.from..i.from + i.lasts).contains(&at))
            .map(|i| i.factor)
            .product();
        let whole = self.capacity * left;
        (whole - self.cost * f64::from(running)).max(whole * FLOOR)
    }
}

/// The state of the live consumer.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    world: World,
    t: f64,
    wobble: f64,
    produced: f64,
    consumed: f64,
    /// When how much had arrived, oldest first; the first is at or before the oldest waiting message.
    marks: VecDeque<(f64, f64)>,
}

impl Model {
    /// A consumer that has caught up.
    pub fn new(world: World) -> Self {
        Self {
            world,
            t: 0.0,
            wobble: 0.0,
            produced: 0.0,
            consumed: 0.0,
            marks: VecDeque::from([(0.0, 0.0)]),
        }
    }

    /// Lets time pass, an hour at most, while so many chunks run. `draw` is asked for draws of the standard normal
    /// distribution.
    pub fn step(&mut self, seconds: f64, running: u32, mut draw: impl FnMut() -> f64) {
        let seconds = seconds.clamp(0.0, 3600.0);
        let steps = (seconds / STEP).ceil().max(0.0);
        let dt = seconds / steps.max(1.0);
        for _ in 0..steps as u64 {
            self.small_step(dt, running, draw());
        }
    }

    fn small_step(&mut self, dt: f64, running: u32, draw: f64) {
        let fade = (-dt / self.world.memory).exp();
        self.wobble = self.wobble * fade + self.world.noise * (1.0 - fade * fade).sqrt() * draw;
        let arriving = (self.world.arrivals_at(self.t) * (1.0 + self.wobble)).max(0.0) * dt;
        let readable = self.world.capacity_at(self.t, running) * dt;
        self.t += dt;
        self.produced += arriving;
        self.consumed = (self.consumed + readable).min(self.produced);
        self.marks.push_back((self.t, self.produced));
        while self
            .marks
            .get(1)
            .is_some_and(|(_, total)| *total <= self.consumed)
            || self.marks.len() > MARKS
        {
            self.marks.pop_front();
        }
    }

    /// Seconds since the start.
    pub const fn t(&self) -> f64 {
        self.t
    }

    /// Messages produced since the start.
    pub const fn produced(&self) -> f64 {
        self.produced
    }

    /// Messages read since the start.
    pub const fn consumed(&self) -> f64 {
        self.consumed
    }

    /// Messages that wait: the lag.
    pub fn lag(&self) -> f64 {
        self.produced - self.consumed
    }

    /// Age of the oldest waiting message in seconds; 0 when none waits.
    pub fn seconds_behind(&self) -> f64 {
        if self.lag() < 1.0 {
            return 0.0;
        }
        let Some(&(t0, total0)) = self.marks.front() else {
            return 0.0;
        };
        // It arrived somewhere between two marks.
        let share = match self.marks.get(1) {
            Some(&(t1, total1)) if total1 > total0 => {
                (self.consumed - total0) / (total1 - total0) * (t1 - t0)
            }
            _ => 0.0,
        };
        (self.t - t0 - share).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::dice::{Dice, Purpose};

    fn noise(seed: u64) -> impl FnMut() -> f64 {
        let mut dice = Dice::of(seed, Purpose::Live, 0);
        move || dice.normal()
    }

    /// Lag after `seconds` with a fixed number of chunks, from the second of the day that `skip` names.
    fn lag_after(world: World, skip: f64, seconds: f64, running: u32, seed: u64) -> f64 {
        let mut model = Model::new(world);
        let mut draw = noise(seed);
        model.step(skip, 0, &mut draw);
        model.step(seconds, running, &mut draw);
        model.lag()
    }

    #[test]
    fn lag_rises_with_running_chunks_and_rests_without() {
        for seed in 0..20 {
            let lag = |running| lag_after(World::calm(), 45.0, 60.0, running, seed);
            assert!(lag(0) < 1.0, "seed {seed}: {}", lag(0));
            assert!(lag(4) > lag(3) + 50_000.0, "seed {seed}");
            assert!(lag(3) > 20_000.0, "seed {seed}: {}", lag(3));
        }
    }

    #[test]
    fn lag_drains_when_the_chunks_have_ended() {
        let mut model = Model::new(World::calm());
        let mut draw = noise(1);
        model.step(90.0, 4, &mut draw);
        let full = model.lag();
        model.step(5.0, 0, &mut draw);
        assert!(model.lag() < full);
        model.step(120.0, 0, &mut draw);
        assert_eq!(model.lag().round(), 0.0);
        assert_eq!(model.seconds_behind(), 0.0);
    }

    #[test]
    fn one_seed_gives_one_course_and_another_seed_another() {
        let course = |seed| lag_after(World::lively(), 0.0, 130.0, 2, seed);
        assert_eq!(course(3).to_bits(), course(3).to_bits());
        assert_ne!(course(3).to_bits(), course(4).to_bits());
    }

    #[test]
    fn an_incident_alone_makes_lag_that_drains_afterwards() {
        let at = |seconds| lag_after(World::lively(), 0.0, seconds, 0, 1);
        assert!(at(89.0) < 1.0);
        assert!(at(105.0) > 60_000.0, "{}", at(105.0));
        assert!(at(105.0) < 150_000.0, "{}", at(105.0));
        assert!(at(145.0) < 1.0, "{}", at(145.0));
    }

    #[test]
    fn the_oldest_waiting_message_is_as_old_as_the_consumer_stood_still() {
        // No capacity at all for 15 s: what arrived first waits since then.
        let mut world = World::lively();
        world.incidents = vec![Incident {
            from: 10.0,
            lasts: 15.0,
            factor: 0.0,
        }];
        let mut model = Model::new(world);
        model.step(25.0, 0, noise(1));
        assert!(
            (model.seconds_behind() - 15.0).abs() < 0.6,
            "{}",
            model.seconds_behind()
        );
    }

    #[test]
    fn lag_is_what_arrived_and_was_not_read_however_the_time_is_cut() {
        let mut fine = Model::new(World::calm());
        let mut coarse = Model::new(World::calm());
        for _ in 0..400 {
            fine.step(0.25, 3, || 0.0);
        }
        coarse.step(100.0, 3, || 0.0);
        assert!((fine.lag() - coarse.lag()).abs() < 1.0);
        assert!((fine.lag() - (fine.produced() - fine.consumed())).abs() < 1e-6);
        assert!((coarse.t() - 100.0).abs() < 1e-6);
    }

    #[test]
    fn no_time_and_wrong_time_change_nothing() {
        let mut model = Model::new(World::calm());
        model.step(10.0, 4, || 0.0);
        let before = model.clone();
        model.step(0.0, 4, || 0.0);
        model.step(-5.0, 4, || 0.0);
        model.step(f64::NAN, 4, || 0.0);
        assert!(model == before);
    }
}
