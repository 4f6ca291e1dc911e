//! What the machine wants done, as data. A driver does it; the answer comes back as a message.

use super::{
    attaching::{Errand, Ordered},
    inside::Peek,
    model::{Ask, Feed, PlanDialog},
};
use crate::{
    domain::{
        Time,
        event::Payload,
        ids::{AttemptId, BackfillId, ChunkId, Name},
    },
    plan::{preview::Preview, why::Why},
};

/// Something to be done outside the machine.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Append a command that can only reduce work. It needs no head: whatever happened meanwhile, it still holds.
    Command {
        /// Comes back with the answer.
        op: u64,
        /// The backfill it is about; `None` for the journal as a whole.
        backfill: Option<BackfillId>,
        /// The command.
        payload: Payload,
        /// The operator's reason.
        reason: Option<String>,
    },
    /// Append what a dialog asked for, if its plan is still the one that was confirmed.
    Submit {
        /// Comes back with the answer.
        op: u64,
        /// The backfill it is about.
        backfill: Option<BackfillId>,
        /// What was asked for.
        ask: Ask,
        /// Digest of the plan that the operator saw.
        digest: String,
    },
    /// Start a detached supervisor on this journal.
    StartSupervisor {
        /// Comes back with the answer.
        op: u64,
    },
    /// Ask servers something.
    Scout {
        /// Comes back with what is brought.
        op: u64,
        /// What to ask.
        errand: Errand,
    },
    /// Append the start of an attached backfill, if nothing like it was started meanwhile.
    Attach {
        /// Comes back with the answer.
        op: u64,
        /// The order.
        ordered: Box<Ordered>,
    },
    /// What the screen looks at from now on.
    Watch(Watch),
    /// Look at every source now.
    Refresh,
    /// Put a text into the terminal's clipboard.
    Copy(String),
    /// Give the terminal back and stop, as every program does on ctrl-z.
    Suspend,
    /// Leave the screen. Nothing that runs is stopped.
    Quit,
}

/// What the screen looks at: the feeder supplies the parts of the feed that depend on it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    /// The backfill whose limits are shown.
    pub backfill: Option<BackfillId>,
    /// The attempt whose log is shown.
    pub log: Option<AttemptId>,
    /// What is looked at inside its run.
    pub inside: Option<Peek>,
    /// The signal whose parts are shown.
    pub parts: Option<Name>,
    /// Another limit for which the end is asked.
    pub what_if: Option<u32>,
}

/// The planner as the screen needs it. It is asked by the machine for what a dialog shows, and by the driver again
/// when the operator confirms; both must give the same digest for the same state.
pub trait Planner: Send + Sync {
    /// What a change would do. `backfill` is `None` for asks about the journal as a whole.
    fn preview(&self, feed: &Feed, backfill: Option<&BackfillId>, ask: &Ask, now: Time) -> Preview;

    /// Why a chunk does not run; `None` when there is nothing to say about it.
    fn why(&self, feed: &Feed, backfill: &BackfillId, chunk: ChunkId, now: Time) -> Option<Why>;
}

pub use crate::plan::consent::{differences, payloads};

impl PlanDialog {
    /// Whether the typed phrase, where one is asked for, is the one that was asked for.
    pub fn phrase_fits(&self) -> bool {
        self.phrase.as_ref().is_none_or(|(wanted, typed)| wanted == typed)
    }

    /// Whether there is anything that a confirmation would do.
    pub fn acts(&self) -> bool {
        !self.preview.is_empty(&self.ask)
    }
}
