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
    /// Attached backfills only: the server has not been read far enough to say.
    Unread,
    /// Attached backfills only: the server has no run of it.
    Absent,
}

impl ChunkState {
    /// How many there are.
    pub const COUNT: usize = 14;

    /// Every state, in the order of the dictionary.
    pub const ALL: [Self; Self::COUNT] = [
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
        Self::Unread,
        Self::Absent,
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
            Self::Unread => "unread",
            Self::Absent => "absent",
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
            Self::Failed => 13,
            Self::Quarantined => 12,
            Self::Uncertain => 11,
            Self::Running => 10,
            Self::Verifying => 9,
            Self::Submitting => 8,
            Self::Queued => 7,
            Self::Held => 6,
            Self::Unread => 5,
            Self::Pending => 4,
            Self::Cancelled => 3,
            Self::Absent => 2,
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
    /// We let go of somebody else's backfill; what it does is not looked at any more.
    Detached,
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
            Self::Detached => "detached",
        }
    }

    /// Whether `run NAME` ends here.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Cancelled | Self::Complete | Self::Incomplete | Self::Detached
        )
    }
}
