//! The toy loop of law C2: a live consumer that suffers from every running chunk, 36 hours, two incidents.
//!
//! Arrivals 1000/s, 35 % more at 14:00 and less at 02:00, with slow and fast noise; the consumer manages 1750/s, each
//! unit of running weight takes 70/s of that away, two incidents take a quarter for an hour and a third for 45 minutes.
//! Lag is the age of the oldest message that is not consumed yet, and what the throttle reads of it is 30 to 45 s old.

use super::*;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use std::{collections::VecDeque, f64::consts::TAU};

const DT: u64 = 5;
const HOURS: u64 = 36;
const MAX: u32 = 16;

struct Dice(ChaCha8Rng);

impl Dice {
    /// Uniform in (0, 1).
    fn unit(&mut self) -> f64 {
        (f64::from(self.0.next_u32()) + 0.5) / 4_294_967_296.0
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (TAU * self.unit()).cos()
    }
}

/// Noise with a memory.
struct Wander {
    value: f64,
    sd: f64,
    memory: f64,
}

impl Wander {
    fn next(&mut self, dice: &mut Dice) -> f64 {
        let keep = (-(DT as f64) / self.memory).exp();
        self.value = keep * self.value + self.sd * (1.0 - keep * keep).sqrt() * dice.normal();
        self.value
    }
}

/// The live pipeline.
#[derive(Default)]
struct Live {
    /// Arrivals that wait, oldest first: (when, how many).
    waiting: VecDeque<(u64, f64)>,
    /// Lag over the last minute, newest last.
    lags: VecDeque<(u64, f64)>,
}

impl Live {
    fn step(&mut self, t: u64, arrivals: f64, consumes: f64) -> f64 {
        self.waiting.push_back((t, arrivals));
        let mut left = consumes.max(0.0);
        while let Some((_, n)) = self.waiting.front_mut() {
            if *n > left {
                *n -= left;
                break;
            }
            left -= *n;
            self.waiting.pop_front();
        }
        let lag = self.waiting.front().map_or(0.0, |(since, _)| (t - since) as f64);
        self.lags.push_back((t, lag));
        if self.lags.len() > 30 {
            self.lags.pop_front();
        }
        lag
    }

    fn lag_at(&self, t: u64) -> f64 {
        self.lags
            .iter()
            .rev()
            .find(|(when, _)| *when <= t)
            .map_or(0.0, |(_, lag)| *lag)
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Figures {
    chunks: f64,
    over_60: f64,
    over_180: f64,
    worst: f64,
    changes: f64,
    pauses: f64,
}

/// `law: None` runs at a fixed limit of 16.
fn night(seed: u64, law: bool) -> Figures {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
    let mut throttle = Night::orders(MAX);
    throttle.follows = false;
    throttle.load.median_chunk = Some(secs(600));
    let mut fast = Wander {
        value: 0.0,
        sd: 0.04,
        memory: 60.0,
    };
    let mut slow = Wander {
        value: 0.0,
        sd: 0.02,
        memory: 1800.0,
    };
    let incidents = [
        (9.0 * 3600.0 + dice.unit() * 3600.0, 3600.0, 0.75),
        (24.0 * 3600.0 + dice.unit() * 3600.0, 2700.0, 0.65),
    ];
    let mut live = Live::default();
    let mut running: Vec<u64> = Vec::new();
    let mut last_start = 0;
    let mut f = Figures::default();
    for t in (DT..HOURS * 3600).step_by(DT as usize) {
        let done = running.iter().filter(|end| **end <= t).count();
        running.retain(|end| *end > t);
        f.chunks += done as f64;
        let limit = if law { throttle.limit() } else { MAX };
        if (running.len() as u32) < limit && t >= last_start + 10 {
            last_start = t;
            running.push(t + (600.0 * (0.5 * dice.normal()).exp()) as u64);
        }
        let hour = t as f64 / 3600.0;
        let noise = 1.0 + fast.next(&mut dice) + slow.next(&mut dice);
        let arrivals = 1000.0 * (1.0 + 0.35 * (TAU * (hour - 14.0) / 24.0).cos()) * noise;
        let hurt = |(from, long, share): &(f64, f64, f64)| {
            (*from..from + long).contains(&(t as f64)).then_some(*share)
        };
        let capacity = 1750.0 * incidents.iter().find_map(hurt).unwrap_or(1.0);
        let consumes = capacity - 70.0 * running.len() as f64;
        let lag = live.step(t, arrivals * DT as f64, consumes * DT as f64);
        f.over_60 += f64::from(u8::from(lag > 60.0)) * DT as f64 / 60.0;
        f.over_180 += f64::from(u8::from(lag > 180.0)) * DT as f64 / 60.0;
        f.worst = f.worst.max(lag);
        throttle.pass(secs(DT));
        throttle.load.running = running.len() as u32;
        if t % 15 == 0 {
            let age = 30 + u64::from(dice.0.next_u32() % 15);
            let value = live.lag_at(t.saturating_sub(age));
            throttle.input(Input::Sample {
                signal: name("orders-live"),
                value,
                age: secs(age),
            });
        } else {
            throttle.input(Input::Tick);
        }
        if throttle.state() == ThrottleState::Latched {
            throttle.throttle.acknowledge(throttle.now, &throttle.tuning);
        }
    }
    let rules = throttle.changes();
    f.changes = rules.iter().filter(|c| c.from != c.to).count() as f64;
    f.pauses = rules
        .iter()
        .filter(|c| matches!(c.rule, Rule::Pause | Rule::Latch))
        .count() as f64;
    f
}

fn mean(seeds: std::ops::Range<u64>, law: bool) -> Figures {
    let n = (seeds.end - seeds.start) as f64;
    let mut sum = Figures::default();
    for seed in seeds {
        let f = night(seed, law);
        sum.chunks += f.chunks / n;
        sum.over_60 += f.over_60 / n;
        sum.over_180 += f.over_180 / n;
        sum.worst += f.worst / n;
        sum.changes += f.changes / n;
        sum.pauses += f.pauses / n;
    }
    sum
}

/// The table of law C2, row *this law*: 1440 chunks, 133 min over 60 s, 18 min over 180 s, worst 312 s, 186 changes,
/// 1.1 pauses. Our world is not the very same, so the bounds are wide; a fixed limit of 16 is outside all of them.
#[test]
fn in_the_toy_loop_the_law_keeps_lag_low_at_a_fair_share_of_the_work() {
    let f = mean(0..4, true);
    println!("{f:?}");
    assert!((1150.0..1750.0).contains(&f.chunks), "{f:?}");
    assert!(f.over_60 < 230.0, "{f:?}");
    assert!(f.over_180 < 40.0, "{f:?}");
    assert!(f.worst < 500.0, "{f:?}");
    assert!((100.0..300.0).contains(&f.changes), "{f:?}");
    assert!(f.pauses < 4.0, "{f:?}");
}

#[test]
fn in_the_toy_loop_a_fixed_limit_of_sixteen_drowns_the_consumer() {
    let f = mean(0..1, false);
    assert!(
        f.chunks > 2800.0 && f.over_180 > 1500.0 && f.worst > 8.0 * 3600.0,
        "{f:?}"
    );
}
