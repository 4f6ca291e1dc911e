//! What goes into the controller and what comes out of it.

use crate::{
    domain::{
        Time,
        event::{Actor, LimitChange, Payload},
        ids::Name,
    },
    host::BootInstant,
    plan::room::Running,
};
use std::time::Duration;

/// This instant on both clocks. All timing uses `boot`; `wall` only names instants for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The boot clock.
    pub boot: BootInstant,
    /// The wall clock, UTC.
    pub wall: Time,
}

impl Now {
    /// The wall time of an instant of the boot clock, as far as the wall clock is right now.
    pub fn wall_of(self, t: BootInstant) -> Time {
        let ago = chrono::Duration::from_std(self.boot.since(t)).unwrap_or_default();
        let ahead = chrono::Duration::from_std(t.since(self.boot)).unwrap_or_default();
        self.wall - ago + ahead
    }
}

/// What the controller is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A valid sample, finite and at or above zero. Anything else is taken as no sample.
    Sample {
        /// The signal.
        signal: Name,
        /// In the signal's unit.
        value: f64,
        /// How long ago it was measured, by the server's clock.
        age: Duration,
    },
    /// A poll that gave no valid sample.
    NoSample {
        /// The signal.
        signal: Name,
        /// What is wrong, in words.
        why: String,
    },
    /// Time passed. Given at least every few seconds, or nothing that is due happens.
    Tick,
}

/// What the backfill does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Running weight: everything that takes a slot.
    pub running: u32,
    /// Weight of the next chunk that could start if only the limit allowed it; `None` if there is none.
    pub next_weight: Option<u32>,
    /// Median duration of finished chunks, held time left out.
    pub median_chunk: Option<Duration>,
    /// Something of higher authority holds all starts: source guard, breaker, blackout, human pause.
    pub held_above: bool,
    /// The order's own limit.
    pub max_limit: u32,
}

/// The attempts that run, for the learned law.
#[derive(Debug, Clone, Copy)]
pub struct Fleet<'a> {
    /// Each of them; the keys are the caller's.
    pub running: &'a [Running],
    /// Mean running time of light chunks, in seconds.
    pub mean: f64,
    /// The share of an hour's work that may be lost to cancels; `None`: nothing is cancelled.
    pub cancel: Option<f64>,
}

/// What the learned law decided.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Governed {
    /// To be journaled.
    pub outcomes: Vec<Outcome>,
    /// Attempts that are to be cancelled, by the caller's keys.
    pub cancel: Vec<u64>,
    /// Why, where any are.
    pub why: String,
}

/// Something that is to be journaled.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The limit, or what binds it at zero, changed. Belongs to the backfill.
    Limit(LimitChange),
    /// A protecting signal went blind. Belongs to the journal as a whole.
    Blind {
        /// The signal.
        signal: Name,
        /// Wall time of its last valid sample.
        last: Option<Time>,
        /// What is wrong, in words.
        why: String,
    },
    /// A protecting signal gave two valid samples again. Belongs to the journal as a whole.
    Seen {
        /// The signal.
        signal: Name,
    },
}

impl Outcome {
    /// Who to journal it as, and what.
    pub fn into_event(self) -> (Actor, Payload) {
        match self {
            Self::Limit(change) => {
                let actor = change
                    .signal
                    .as_ref()
                    .map_or_else(Actor::supervisor, Actor::signal);
                (actor, Payload::LimitChanged { change })
            }
            Self::Blind { signal, last, why } => {
                (Actor::signal(&signal), Payload::BlindSince { signal, last, why })
            }
            Self::Seen { signal } => (Actor::signal(&signal), Payload::SeenAgain { signal }),
        }
    }
}
