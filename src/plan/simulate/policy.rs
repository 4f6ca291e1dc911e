//! Who says how much may run: the throttle that a supervisor runs, and the simple rules that it is held against.

use super::live::STEP;
use crate::{
    config::scenario::{Levels, Scenario},
    domain::{Time, ids::Name, spec::Law, tuning::Tuning},
    host::BootInstant,
    plan::{
        room::{Admission, Running},
        throttle::{Fleet, Input, Load, Now, Outcome, SignalLevels, Throttle, ThrottleState},
    },
};
use std::{collections::BTreeMap, fmt, str::FromStr, time::Duration};

/// A latched throttle is acknowledged by its operator after so long.
const ACKNOWLEDGED_AFTER: f64 = 1800.0;
/// The share of an hour's work that may be lost to cancels; the default of a backfill.
const CANCEL_SHARE: f64 = 0.4;

/// Which policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// The law that learns the room.
    Auto,
    /// The same where the executor cannot cancel.
    NoCancel,
    /// The throttle of law C2.
    Classic,
    /// Everything while lag is at most soft, nothing above.
    OnOff,
    /// Always the same limit.
    Fixed(u32),
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::NoCancel => f.write_str("no-cancel"),
            Self::Classic => f.write_str("classic"),
            Self::OnOff => f.write_str("onoff"),
            Self::Fixed(n) => write!(f, "fixed:{n}"),
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fixed = |n: &str| n.parse().ok().filter(|n| *n > 0).map(Self::Fixed);
        match text {
            "auto" => Some(Self::Auto),
            "no-cancel" => Some(Self::NoCancel),
            "classic" => Some(Self::Classic),
            "onoff" => Some(Self::OnOff),
            _ => text.strip_prefix("fixed:").and_then(fixed),
        }
        .ok_or_else(|| {
            format!("`{text}` is no policy: auto, no-cancel, classic, onoff, or fixed:N with N at least 1")
        })
    }
}

/// What a look at the signal gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// A number, and how many seconds ago it was measured.
    Value(f64, f64),
    /// Nothing, or no number.
    None,
}

/// What a policy is told, once a tick.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Seconds since the beginning.
    pub at: f64,
    /// The signal.
    pub reading: Reading,
    /// What runs; the key is the number of its chunk.
    pub attempts: &'a [Running],
    /// Running weight.
    pub running: u32,
    /// Weight of the chunk that could start next; `None` if none could.
    pub next_weight: Option<u32>,
    /// Median length of finished chunks, in seconds.
    pub median: Option<f64>,
    /// Mean length of light chunks, in seconds; before one was done, what is assumed.
    pub mean: f64,
}

/// What a policy says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Says {
    /// Running weight allowed.
    pub limit: u32,
    /// Seconds between two starts; `None` if they need not be paced.
    pub gap: Option<f64>,
    /// Chunks whose attempts are to be cancelled.
    pub cancel: Vec<u64>,
}

/// A policy at work.
pub trait Controller {
    /// One tick.
    fn tick(&mut self, seen: &Seen<'_>) -> Says;

    /// What runs from now on; told at every change.
    fn runs(&mut self, _at: f64, _weight: u32) {}

    /// What may start under the limit beside what was last told to run; `None` if only the limit counts.
    fn admission(&self, _at: f64) -> Option<Admission> {
        None
    }

    /// How often it stopped all starts because of lag.
    fn pauses(&self) -> u32 {
        0
    }
}

/// The policy at the beginning of a scenario.
pub fn begin(policy: Policy, scenario: &Scenario) -> Box<dyn Controller> {
    match policy {
        // The bound keeps to the scenario's limit, so whoever is compared with it does, too.
        Policy::Fixed(limit) => Box::new(Fixed(limit.min(scenario.backfill.max_limit))),
        Policy::OnOff => Box::new(OnOff {
            soft: scenario.signal.soft,
            max: scenario.backfill.max_limit,
            limit: scenario.backfill.max_limit,
            pauses: 0,
        }),
        Policy::Classic => Box::new(Real::new(scenario, Law::Classic, None)),
        Policy::Auto => Box::new(Real::new(scenario, Law::Learned, Some(CANCEL_SHARE))),
        Policy::NoCancel => Box::new(Real::new(scenario, Law::Learned, None)),
    }
}

struct Fixed(u32);

impl Controller for Fixed {
    fn tick(&mut self, _: &Seen<'_>) -> Says {
        Says {
            limit: self.0,
            ..Says::default()
        }
    }
}

struct OnOff {
    soft: f64,
    max: u32,
    limit: u32,
    pauses: u32,
}

impl Controller for OnOff {
    fn tick(&mut self, seen: &Seen<'_>) -> Says {
        if let Reading::Value(lag, _) = seen.reading {
            let limit = if lag > self.soft { 0 } else { self.max };
            self.pauses += u32::from(limit == 0 && self.limit > 0);
            self.limit = limit;
        }
        Says {
            limit: self.limit,
            ..Says::default()
        }
    }

    fn pauses(&self) -> u32 {
        self.pauses
    }
}

/// The throttle itself, under a clock of ours, with the defaults of its laws.
struct Real {
    throttle: Throttle,
    signal: Name,
    tuning: Tuning,
    max: u32,
    cancel: Option<f64>,
    latched: Option<f64>,
    pauses: u32,
}

impl Real {
    fn new(scenario: &Scenario, law: Law, cancel: Option<f64>) -> Self {
        let signal = scenario.signal.name.clone();
        // The world goes on in steps: it is not looked at more often.
        let every = scenario.tick.max(Duration::from_secs_f64(STEP));
        let levels = BTreeMap::from([(signal.clone(), levels(&scenario.signal, every))]);
        let max = scenario.backfill.max_limit;
        Self {
            throttle: Throttle::new(levels, max, "simulated", now(0.0)).by_law(law),
            signal,
            tuning: Tuning::default(),
            max,
            cancel,
            latched: None,
            pauses: 0,
        }
    }

    fn acknowledge(&mut self, at: f64) {
        if self.throttle.state() != ThrottleState::Latched {
            self.latched = None;
        } else if at - *self.latched.get_or_insert(at) >= ACKNOWLEDGED_AFTER {
            self.throttle.acknowledge(now(at), &self.tuning);
        }
    }
}

impl Controller for Real {
    fn tick(&mut self, seen: &Seen<'_>) -> Says {
        let load = Load {
            running: seen.running,
            next_weight: seen.next_weight,
            median_chunk: seen.median.map(Duration::from_secs_f64),
            held_above: false,
            max_limit: self.max,
        };
        let signal = self.signal.clone();
        let input = match seen.reading {
            Reading::Value(value, age) => Input::Sample {
                signal,
                value,
                age: Duration::from_secs_f64(age),
            },
            Reading::None => Input::NoSample {
                signal,
                why: "no sample".to_owned(),
            },
        };
        let at = now(seen.at);
        let mut said = self.throttle.step(input, &load, at, &self.tuning);
        let fleet = Fleet {
            running: seen.attempts,
            mean: seen.mean,
            cancel: self.cancel,
        };
        let governed = self.throttle.govern(&fleet, &load, at, &self.tuning);
        said.extend(governed.outcomes);
        let stopped = |o: &Outcome| {
            use crate::domain::event::Rule;
            let paused = |rule| matches!(rule, Rule::Pause | Rule::Critical | Rule::Latch);
            matches!(o, Outcome::Limit(change) if change.to == 0 && change.from > 0 && paused(change.rule))
        };
        self.pauses += u32::from(said.iter().any(stopped));
        self.acknowledge(seen.at);
        Says {
            limit: self.throttle.limit(),
            gap: self.throttle.start_gap(&self.tuning).map(|d| d.as_secs_f64()),
            cancel: governed.cancel,
        }
    }

    fn admission(&self, at: f64) -> Option<Admission> {
        self.throttle.admission(now(at), &self.tuning)
    }

    fn runs(&mut self, at: f64, weight: u32) {
        self.throttle.runs(now(at), weight);
    }

    fn pauses(&self) -> u32 {
        self.pauses
    }
}

fn levels(levels: &Levels, interval: Duration) -> SignalLevels {
    SignalLevels {
        unit: levels.unit,
        low: levels.low,
        soft: levels.soft,
        hard: levels.hard,
        critical: levels.critical,
        interval,
        protects: true,
    }
}

/// A moment of the scenario on both clocks.
fn now(at: f64) -> Now {
    let ms = (at * 1000.0) as u64;
    Now {
        boot: BootInstant(ms),
        wall: Time::UNIX_EPOCH + chrono::Duration::milliseconds(i64::try_from(ms).unwrap_or(i64::MAX)),
    }
}
