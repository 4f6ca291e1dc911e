//! Where a chunk, an attempt and a backfill stand: the states and their words.

use serde::{Deserialize, Serialize};

/// Where a chunk is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChunkState {
    /// Waits for its turn.
    Pending,
    /// An operator keeps it back.
    Held,
    /// The intent is durable, the executor has not answered yet.
    Submitting,
    /// The executor has it and has not started it.
    Queued,
    /// The executor no longer answers for it; its slot stays taken.
    Uncertain,
    /// It runs.
    Running,
    /// It finished and its result is being checked.
    Verifying,
    /// Finished and verified.
    Done,
    /// The last attempt failed; a retry may be due.
    Failed,
    /// Out of the way until a human decides.
    Quarantined,
    /// Settled without having run.
    Skipped,
    /// Ended by a human; never starts by itself.
    Cancelled,
}

impl ChunkState {
    /// Every state, in the order of the dictionary.
    pub const ALL: [Self; 12] = [
        Self::Pending,
        Self::Held,
        Self::Submitting,
        Self::Queued,
        Self::Uncertain,
        Self::Running,
        Self::Verifying,
        Self::Done,
        Self::Failed,
        Self::Quarantined,
        Self::Skipped,
        Self::Cancelled,
    ];

    /// The word on screen, in JSON and in the theme.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Held => "held",
            Self::Submitting => "submitting",
            Self::Queued => "queued",
            Self::Uncertain => "uncertain",
            Self::Running => "running",
            Self::Verifying => "verifying",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Quarantined => "quarantined",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether it takes weight and a slot.
    pub const fn is_active(self) -> bool {
        matches!(
            self,
            Self::Submitting | Self::Queued | Self::Uncertain | Self::Running | Self::Verifying
        )
    }

    /// Whether it counts towards *complete*.
    pub const fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::Skipped)
    }

    /// Rank for roll-ups: the worst state of a week or month wins, a failure is never averaged away.
    pub const fn badness(self) -> u8 {
        match self {
            Self::Failed => 11,
            Self::Quarantined => 10,
            Self::Uncertain => 9,
            Self::Running => 8,
            Self::Verifying => 7,
            Self::Submitting => 6,
            Self::Queued => 5,
            Self::Held => 4,
            Self::Pending => 3,
            Self::Cancelled => 2,
            Self::Skipped => 1,
            Self::Done => 0,
        }
    }
}

/// How far an attempt came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Its intent is durable.
    Intended,
    /// The executor has it queued.
    Queued,
    /// It runs.
    Running,
    /// Nobody answers for it.
    Uncertain,
    /// It never left.
    Withdrawn,
    /// It finished and was verified.
    Done,
    /// It failed.
    Failed,
    /// A human ended it.
    Cancelled,
}

impl Phase {
    /// Whether it can still change by itself.
    pub const fn is_open(self) -> bool {
        matches!(
            self,
            Self::Intended | Self::Queued | Self::Running | Self::Uncertain
        )
    }

    /// The word on screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Intended => "submitting",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Uncertain => "uncertain",
            Self::Withdrawn => "withdrawn",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The stored state of a backfill, derived from its chunks and marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackfillState {
    /// Planned, not started.
    Draft,
    /// Something runs or may run.
    Running,
    /// A human paused it.
    Paused,
    /// A human ended it; some attempts still run.
    Cancelling,
    /// Ended by a human.
    Cancelled,
    /// Every chunk is done or skipped.
    Complete,
    /// Nothing can move without a human.
    Incomplete,
}

impl BackfillState {
    /// The word on screen and in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Cancelling => "cancelling",
            Self::Cancelled => "cancelled",
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
        }
    }

    /// Whether `run NAME` ends here.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Cancelled | Self::Complete | Self::Incomplete)
    }
}
