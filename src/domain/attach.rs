//! Somebody else's backfill, of which we take hold: what is seen of it, and what we do to it.
//!
//! There is no plan of ours behind it. The states of its days are observations with an as-of, kept in a replaceable
//! table; events are only what we were asked to do, what was sent for it and what came back, and the changes that were
//! seen. Words are neutral: an engine's adapter says what they are there.

use super::{
    Time,
    ids::{ChunkId, ExternalId},
    state::{ChunkState, Mark},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is attached to, beside the spec's `dag` and its window of days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attach {
    /// Number of the engine's own (native) backfill; `None` attaches to whatever runs the DAG has in the window.
    pub native: Option<u64>,
}

/// How far a run of theirs is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunPhase {
    /// It waits there.
    Queued,
    /// It runs, by the engine's word.
    Running,
    /// It succeeded, by the engine's word.
    Done,
    /// It failed.
    Failed,
    /// It was ended before it ran.
    Cancelled,
    /// The engine uses a word that we do not know.
    Unknown,
}

impl RunPhase {
    /// The state of a day whose only run is in this phase.
    pub const fn state(self) -> ChunkState {
        match self {
            Self::Queued => ChunkState::Queued,
            Self::Running => ChunkState::Running,
            Self::Done => ChunkState::Done,
            Self::Failed => ChunkState::Failed,
            Self::Cancelled => ChunkState::Cancelled,
            Self::Unknown => ChunkState::Uncertain,
        }
    }
}

/// One run as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenRun {
    /// Its name there.
    pub run: ExternalId,
    /// How far it is.
    pub phase: RunPhase,
    /// The engine's own word for that, cleaned.
    pub word: String,
    /// How it came to be, in the engine's word (`backfill`, `scheduled`, `manual`).
    pub kind: String,
    /// Since when it waits.
    pub queued: Option<Time>,
    /// When it started.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// The highest try of its tasks, where that was looked at.
    pub tries: Option<u32>,
}

/// The runs of each day that has any, oldest first. Days are keys of the backfill's calendar.
pub type Days = BTreeMap<ChunkId, Vec<SeenRun>>;

/// How far the first reading of the window has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Runs read.
    pub read: u32,
    /// Runs that there are, by the server's count.
    pub total: u32,
}

/// The engine's own backfill as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeSeen {
    /// Its number.
    pub id: u64,
    /// It starts no further day.
    pub paused: bool,
    /// Set when it will never start anything again; with `paused` it was cancelled.
    pub completed: Option<Time>,
    /// The most days that it runs at once.
    pub limit: u32,
    /// First and last day, inclusive, as instants.
    pub from: Time,
    /// See `from`.
    pub to: Time,
    /// Who made it, where the engine tells.
    pub by: Option<String>,
}

impl NativeSeen {
    /// Ended by somebody before its end; its days cannot be started again through it.
    pub const fn is_cancelled(&self) -> bool {
        self.paused && self.completed.is_some()
    }
}

/// A pool of the engine as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolSeen {
    /// Its name.
    pub name: String,
    /// Its slots; -1 is without limit.
    pub slots: i64,
    /// Slots in use by running tasks.
    pub running: u32,
    /// Tasks that wait for one.
    pub waiting: u32,
    /// Who else has tasks in it: DAG and number of tasks, most first. `None` if that may not be asked.
    pub others: Option<Vec<(String, u32)>>,
}

/// What is known about the attached backfill as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Facts {
    /// When the server was last read successfully; `None`: never yet.
    pub as_of: Option<Time>,
    /// Set until the whole window was read once: days without a run are not known to have none.
    pub reading: Option<Reading>,
    /// Runs in the window.
    pub runs: u32,
    /// Runs that belong to no day (triggered without a date).
    pub undated: u32,
    /// The native backfill that is attached to, or else the DAG's unfinished one.
    pub native: Option<NativeSeen>,
    /// The pool that throttles it.
    pub pool: Option<PoolSeen>,
    /// Tasks that really execute, where that was counted: *running* says little.
    pub executing: Option<u32>,
    /// Why nothing of it moves although the server answers (DAG paused, scheduler not alive, file gone).
    pub stuck: Option<String>,
    /// Why the last look failed, in the server's words; what else is here is older then.
    pub problem: Option<String>,
    /// Worth knowing about how days were told apart (a zone that does not fit the runs).
    pub note: Option<String>,
}

/// Which existing runs a new native backfill takes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reprocess {
    /// Only days without a run.
    None,
    /// Failed days, too.
    Failed,
    /// Successful days, too.
    Completed,
}

impl Reprocess {
    /// The word on screen and in commands.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Failed => "failed",
            Self::Completed => "completed",
        }
    }
}

/// What is done to somebody else's backfill. The engine's adapter makes requests of it, one step after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// No further day starts, running days finish. `whole_dag`: freezes everything of the DAG, only when asked.
    Pause {
        /// See above.
        whole_dag: bool,
    },
    /// The opposite.
    Resume {
        /// See [`Action::Pause`].
        whole_dag: bool,
    },
    /// Slots of a pool.
    Slots {
        /// The pool.
        pool: String,
        /// Its slots from now on; -1 is without limit.
        slots: i64,
    },
    /// Another limit of days at once, where it cannot be changed: cancelled and made again with the rest of its days.
    Replace {
        /// The new limit.
        limit: u32,
    },
    /// No day that waits will run. `running`: running days are ended, too.
    Cancel {
        /// See above.
        running: bool,
    },
    /// These days run again.
    Rerun {
        /// The days.
        chunks: Vec<ChunkId>,
        /// Only what failed in them.
        failed_only: bool,
    },
    /// Running runs of these days are ended.
    Stop {
        /// The days.
        chunks: Vec<ChunkId>,
    },
    /// These days count as done, or as failed, by a human's word.
    Mark {
        /// The days.
        chunks: Vec<ChunkId>,
        /// Done rather than failed.
        done: bool,
    },
    /// A new native backfill over whole days, both inclusive.
    Create {
        /// First day.
        first: ChunkId,
        /// Last day.
        last: ChunkId,
        /// The most days at once.
        limit: u32,
        /// Which existing runs it takes again.
        reprocess: Reprocess,
        /// Latest day first.
        newest_first: bool,
    },
}

impl Action {
    /// A short name for lists: `pause`, `replace with limit 3`, `run 2 days again`.
    pub fn words(&self) -> String {
        let days = |chunks: &[ChunkId]| match chunks {
            [one] => one.to_string(),
            many => format!("{} days", many.len()),
        };
        match self {
            Self::Pause { whole_dag: false } => "pause".to_owned(),
            Self::Pause { whole_dag: true } => "freeze the whole DAG".to_owned(),
            Self::Resume { whole_dag: false } => "resume".to_owned(),
            Self::Resume { whole_dag: true } => "resume the whole DAG".to_owned(),
            Self::Slots { pool, slots: -1 } => format!("pool {pool} without limit"),
            Self::Slots { pool, slots } => format!("pool {pool} to {slots} slots"),
            Self::Replace { limit } => format!("replace with limit {limit}"),
            Self::Cancel { running: false } => "cancel what waits".to_owned(),
            Self::Cancel { running: true } => "cancel, and end what runs".to_owned(),
            Self::Rerun {
                chunks,
                failed_only: false,
            } => format!("re-run {}", days(chunks)),
            Self::Rerun {
                chunks,
                failed_only: true,
            } => format!("re-run what failed in {}", days(chunks)),
            Self::Stop { chunks } => format!("end what runs of {}", days(chunks)),
            Self::Mark { chunks, done: true } => format!("mark {} done", days(chunks)),
            Self::Mark { chunks, done: false } => format!("mark {} failed", days(chunks)),
            Self::Create {
                first, last, limit, ..
            } => {
                format!("new native backfill {first} to {last} with limit {limit}")
            }
        }
    }

    /// Whether it can only reduce work: such an action waits for none that is under way.
    pub const fn only_reduces(&self) -> bool {
        matches!(self, Self::Pause { .. } | Self::Cancel { .. } | Self::Stop { .. })
    }
}

/// One request of an action, durable before it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTaken {
    /// Its number within the action, from 0.
    pub no: u32,
    /// When it was about to be sent.
    pub at: Time,
    /// What was sent, for people: `PUT /backfills/12/pause`.
    pub sent: String,
    /// What the adapter needs to find it again, JSON of its own.
    pub call: String,
    /// Whether it was accepted, and what the server said. `None`: nobody knows (yet).
    pub answer: Option<(bool, String)>,
}

/// How an action ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionEnd {
    /// It did what it promised.
    pub ok: bool,
    /// In words.
    pub said: String,
    /// When.
    pub at: Time,
}

/// An action that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Seq of the request: its identity.
    pub seq: u64,
    /// What was asked for.
    pub action: Action,
    /// The native backfill that was seen when it was asked for, where it is about one.
    pub native: Option<u64>,
    /// Who, when, why.
    pub mark: Mark,
    /// What was sent so far.
    pub steps: Vec<StepTaken>,
    /// Set when it is over.
    pub ended: Option<ActionEnd>,
}

impl Asked {
    /// Whether it is still to be done, or under way.
    pub const fn is_open(&self) -> bool {
        self.ended.is_none()
    }
}

/// A pool whose slots we changed: what it had before is given back at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolHold {
    /// The pool.
    pub pool: String,
    /// Its slots before we first changed them; -1 is without limit.
    pub former: i64,
    /// What we last wrote; `None`: nothing yet.
    pub written: Option<i64>,
    /// Since when we hold it.
    pub at: Time,
}

/// What becomes of a run of somebody else that has the date of one of our chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Taking {
    /// It is watched as if it were ours, and its end counts.
    Adopt,
    /// It runs again as ours: cleared, or deleted and made anew where its parameters differ.
    Clear,
}

impl Taking {
    /// The word on screen and in commands.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Adopt => "adopt",
            Self::Clear => "clear",
        }
    }
}

/// A run of somebody else on the date of a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Its name there.
    pub run: ExternalId,
    /// How it was: `the scheduled run .. (success)`.
    pub what: String,
    /// What a human chose; `None` while the chunk is held for it.
    pub choice: Option<Taking>,
}

/// A change of a run that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunChange {
    /// The day.
    pub chunk: ChunkId,
    /// The run.
    pub run: ExternalId,
    /// The engine's word before; `None`: it was not there.
    pub from: Option<String>,
    /// The engine's word now; `None`: it is gone.
    pub to: Option<String>,
}
