//! The throttle's behaviour, told as nights on call; properties over random ones; and the toy loop of law C2.

mod authority;
mod blame;
mod blind;
mod lag;
mod learned;
mod learned_properties;
mod pause;
mod properties;
mod restart;
mod toy;

use super::{Input, Load, Now, Outcome, Report, SignalLevels, Throttle, ThrottleState};
use crate::{
    config::Unit,
    domain::{
        event::{LimitChange, Rule},
        ids::Name,
        tuning::Tuning,
    },
    host::BootInstant,
};
use chrono::{TimeZone, Utc};
use std::{collections::BTreeMap, time::Duration};

const BOOT: &str = "this-boot";
const INTERVAL: Duration = Duration::from_secs(15);

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// The defaults of C1: low 30, soft 60, hard 180, critical 900 seconds.
fn seconds() -> SignalLevels {
    SignalLevels {
        unit: Unit::Seconds,
        low: 30.0,
        soft: 60.0,
        hard: 180.0,
        critical: 900.0,
        interval: INTERVAL,
        protects: true,
    }
}

fn advising() -> SignalLevels {
    SignalLevels {
        protects: false,
        ..seconds()
    }
}

fn start_of_time() -> Now {
    Now {
        boot: BootInstant(3_600_000),
        wall: Utc.with_ymd_and_hms(2024, 12, 2, 2, 0, 0).unwrap(),
    }
}

/// A virtual night: a throttle, its clocks, and a backfill that always has another chunk waiting.
struct Night {
    throttle: Throttle,
    now: Now,
    load: Load,
    tuning: Tuning,
    /// The running weight follows the limit at once, unless a test takes it over.
    follows: bool,
    told: Vec<Outcome>,
}

impl Night {
    fn new(signals: &[(&str, SignalLevels)], max_limit: u32) -> Self {
        let now = start_of_time();
        Self {
            throttle: Throttle::new(levels(signals), max_limit, BOOT, now),
            now,
            load: Load {
                running: 0,
                next_weight: Some(1),
                median_chunk: None,
                held_above: false,
                max_limit,
            },
            tuning: Tuning::default(),
            follows: true,
            told: Vec::new(),
        }
    }

    /// One signal `orders-live` with the default levels.
    fn orders(max_limit: u32) -> Self {
        Self::new(&[("orders-live", seconds())], max_limit)
    }

    /// The same, already grown to a limit on low lag.
    fn orders_at(limit: u32, max_limit: u32) -> Self {
        let mut night = Self::orders(max_limit);
        for _ in 0..2000 {
            if night.limit() == limit {
                night.told.clear();
                return night;
            }
            night.lag(10.0);
        }
        panic!("never grew to {limit}");
    }

    fn input(&mut self, input: Input) -> usize {
        let told = self.throttle.step(input, &self.load, self.now, &self.tuning);
        if self.follows {
            self.load.running = self.limit();
        }
        let n = told.len();
        self.told.extend(told);
        n
    }

    fn pass(&mut self, d: Duration) {
        self.now.boot = self.now.boot.plus(d);
        self.now.wall += d;
    }

    fn sample(&mut self, signal: &str, value: f64) {
        self.input(Input::Sample {
            signal: name(signal),
            value,
            age: secs(0),
        });
    }

    fn no_sample(&mut self, signal: &str, why: &str) {
        self.input(Input::NoSample {
            signal: name(signal),
            why: why.to_owned(),
        });
    }

    /// One interval later `orders-live` reads this.
    fn lag(&mut self, value: f64) {
        self.pass(INTERVAL);
        self.sample("orders-live", value);
    }

    /// `orders-live` reads this for a while.
    fn lag_for(&mut self, value: f64, d: Duration) {
        for _ in 0..d.as_secs() / INTERVAL.as_secs() {
            self.lag(value);
        }
    }

    /// Time passes in ticks of five seconds without an answer from anywhere.
    fn silence(&mut self, d: Duration) {
        for _ in 0..d.as_secs() / 5 {
            self.pass(secs(5));
            self.input(Input::Tick);
        }
    }

    fn limit(&self) -> u32 {
        self.throttle.limit()
    }

    fn state(&self) -> ThrottleState {
        self.throttle.state()
    }

    fn report(&self) -> Report {
        self.throttle.report(self.now, &self.tuning)
    }

    fn changes(&self) -> Vec<&LimitChange> {
        self.told
            .iter()
            .filter_map(|o| match o {
                Outcome::Limit(change) => Some(change),
                _ => None,
            })
            .collect()
    }

    fn last_change(&self) -> &LimitChange {
        self.changes().last().copied().expect("no limit change was told")
    }

    fn steps(&self) -> Vec<(u32, u32, Rule)> {
        self.changes().iter().map(|c| (c.from, c.to, c.rule)).collect()
    }

    /// Passes hard and is paused; the lag falls to low again.
    fn pause_and_drain(&mut self) {
        self.lag(250.0);
        self.lag(250.0);
        assert_eq!(self.limit(), 0);
        self.lag_for(10.0, secs(480));
    }
}

fn levels(signals: &[(&str, SignalLevels)]) -> BTreeMap<Name, SignalLevels> {
    signals.iter().map(|(n, l)| (name(n), *l)).collect()
}
