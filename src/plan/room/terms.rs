//! What the law is told, and what it says.

use super::{peak::Running, times::Times};
use serde::{Deserialize, Serialize};

/// The thresholds, in the unit of the signal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    /// Held below it.
    pub soft: f64,
    /// Nothing starts past it.
    pub hard: f64,
    /// Stops at once past it.
    pub critical: f64,
    /// Seconds between two looks at the signal.
    pub interval: f64,
}

/// What the backfill does at the moment.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Seconds on the law's clock.
    pub now: f64,
    /// What runs.
    pub running: &'a [Running],
    /// Mean length of light chunks, in seconds.
    pub mean: f64,
    /// The weight of the chunk that could start next; `None` if none could.
    pub next: Option<u32>,
    /// The order's own limit.
    pub max_limit: u32,
    /// The law's limit as it is now: others may have lowered it.
    pub limit: u32,
    /// Every signal that protects is seen: without that nothing rises, whatever this one says.
    pub fresh: bool,
    /// `false`: something else keeps the limit from growing: a signal that advises, one that is not fresh.
    pub may_grow: bool,
    /// It is paused already, and not only cut to nothing.
    pub paused: bool,
    /// `false`: a latch or a hibernation keeps it at nothing.
    pub may_resume: bool,
    /// The share of an hour's work that may be lost to cancels; `None`: nothing is cancelled.
    pub cancel: Option<f64>,
    /// The law's times.
    pub times: Times,
}

/// What changed the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// Nothing did.
    Same,
    /// The live load leaves less room.
    Cut,
    /// It leaves more.
    Grow,
    /// Lag was past hard on two samples.
    Pause,
    /// Lag is past critical.
    Critical,
    /// Lag will go past hard with what runs, by the model.
    Foreseen,
    /// It has been calm for long enough.
    Resume,
    /// Nothing runs and nothing waits: one, to learn.
    Probe,
    /// No valid samples.
    Blind,
    /// They come again.
    Seen,
    /// Soft was crossed twice.
    Guard,
    /// `max_limit` was lowered.
    MaxLimit,
}

/// What the law goes by, for the screen. Lags are in the signal's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Weight that the live load leaves room for; below 0 where it has too little for itself.
    pub room: f64,
    /// Weight that ran when this was computed.
    pub running: u32,
    /// What one more unit costs: lag a minute.
    pub costs: f64,
    /// How lag would move with nothing of ours running: lag a minute.
    pub drift: f64,
    /// Lag now, carried on from the last sample by the model.
    pub lag: f64,
    /// The highest lag within an hour if nothing more starts, and in how many seconds it comes.
    pub peak: (f64, f64),
    /// Lag is held around this.
    pub set_point: f64,
    /// Running weight that is admitted now.
    pub admitted: f64,
    /// Changes of the limit that are left, and how many growth needs.
    pub tokens: (f64, f64),
    /// The model-free guard: the highest limit, and for how many seconds more.
    pub guard: Option<(u32, f64)>,
    /// What comes next, if nothing else happens.
    pub next: Option<Next>,
}

/// A change of the limit that is due.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Next {
    /// Which rule.
    pub rule: Rule,
    /// To which limit.
    pub to: u32,
    /// In how many seconds; 0 is now.
    pub wait: f64,
}

/// Whose doing lag is, by the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Blame {
    /// It would rise with nothing of ours running.
    Theirs,
    /// It would fall without what runs, and rises with it.
    Ours,
    /// It does not rise.
    Nobody,
}

/// What is decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The limit.
    pub limit: u32,
    /// What changed it.
    pub rule: Rule,
    /// Attempts to cancel.
    pub cancel: Vec<u64>,
    /// What it went by; `None` before the first sample.
    pub terms: Option<Terms>,
}

/// What may start now, as far as the model is asked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Admission {
    /// So much may run: there is room for it.
    pub up_to: u32,
    /// One of weight 1 may start past that.
    pub one_more: bool,
    /// Seconds until then, if nothing changes; `None` while it may or while nothing is foreseen.
    pub one_more_in: Option<f64>,
    /// A chunk of more than weight 1 may weigh so much; 0 is none.
    pub heavy: u32,
    /// With nothing running one may start, whether there is room for it or not.
    #[serde(default = "yes")]
    pub first: bool,
}

/// What a report of a former version means.
const fn yes() -> bool {
    true
}

impl Admission {
    /// Whether a chunk may start beside this much running. With nothing running one may, else nothing would ever be
    /// measured; but not right after all that ran was ended to brake.
    pub fn allows(&self, running: u32, weight: u32) -> bool {
        let after = running.saturating_add(weight);
        let has_room = after <= self.up_to || (weight == 1 && self.one_more);
        (running == 0 && self.first) || (has_room && (weight == 1 || weight <= self.heavy))
    }

    fn waits(self) -> Option<f64> {
        if self.one_more {
            Some(0.0)
        } else {
            self.one_more_in
        }
    }

    /// What both allow.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            up_to: self.up_to.min(other.up_to),
            one_more: self.one_more && other.one_more,
            one_more_in: match (self.waits(), other.waits()) {
                (Some(a), Some(b)) => Some(a.max(b)).filter(|wait| *wait > 0.0),
                _ => None,
            },
            heavy: self.heavy.min(other.heavy),
            first: self.first && other.first,
        }
    }
}
