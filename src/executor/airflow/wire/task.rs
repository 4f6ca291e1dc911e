//! Task instances and their tries.

use super::{filled, soft};
use crate::domain::Time;
use serde::Deserialize;
use serde_json::Value;

open_enum! {
    /// The state of a task instance; on the wire nothing at all stands for *not scheduled yet*.
    TaskState {
        /// Not scheduled yet, or cleared.
        None = "null",
        /// No longer in its DAG.
        Removed = "removed",
        /// Waits for a slot.
        Scheduled = "scheduled",
        /// Waits for a worker.
        Queued = "queued",
        /// Executes.
        Running = "running",
        /// Succeeded.
        Success = "success",
        /// Cleared while it ran: its process is being ended.
        Restarting = "restarting",
        /// Failed.
        Failed = "failed",
        /// Failed, and will be tried again.
        UpForRetry = "up_for_retry",
        /// Looks again later.
        UpForReschedule = "up_for_reschedule",
        /// Did not run, because one before it failed.
        UpstreamFailed = "upstream_failed",
        /// Did not run, on purpose.
        Skipped = "skipped",
        /// Waits for an event, without a worker.
        Deferred = "deferred",
        /// Waits for a person (3.3).
        AwaitingInput = "awaiting_input",
    }
}

impl TaskState {
    /// Whether its `started` and `ended` belong to this try: after a clear the old ones stay until it starts anew.
    const fn has_own_times(&self) -> bool {
        !matches!(self, Self::None | Self::Scheduled | Self::Queued | Self::Removed)
    }

    /// The word of a filter.
    pub(in crate::executor::airflow) fn filter(&self) -> &str {
        match self {
            Self::None => "none",
            other => other.as_str(),
        }
    }
}

/// One task of a run, or one index of a mapped task; also one past try of it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "TaskWire")]
pub struct TaskInstance {
    /// The task's name in its DAG.
    pub task: String,
    /// Its DAG.
    pub dag: String,
    /// Its run.
    pub run: String,
    /// Its index, of a mapped task that was expanded.
    pub map_index: Option<u32>,
    /// What the DAG calls that index.
    pub map_label: Option<String>,
    /// Its state; `None` in the preview of a clear on 2.x, which does not tell.
    pub state: Option<TaskState>,
    /// Which try; 0 before the first one starts.
    pub try_number: u32,
    /// How many retries its DAG allows, and clears have added.
    pub max_tries: u32,
    /// As the server has it; may be of the try before. See [`Self::span`].
    pub started: Option<Time>,
    /// As the server has it; may be of the try before. See [`Self::span`].
    pub ended: Option<Time>,
    /// When it got a place in the queue.
    pub queued: Option<Time>,
    /// When the scheduler chose it.
    pub scheduled: Option<Time>,
    /// Its pool.
    pub pool: Option<String>,
    /// How many slots of the pool it takes.
    pub pool_slots: u32,
    /// What kind of task it is.
    pub operator: Option<String>,
    /// Where it runs.
    pub host: Option<String>,
    /// Its process there.
    pub pid: Option<i64>,
    /// A note.
    pub note: Option<String>,
}

impl TaskInstance {
    /// Start and, if it came, end of this try. `None` where the times that the server has are of the try before.
    pub fn span(&self) -> Option<(Time, Option<Time>)> {
        let state = self.state.as_ref()?;
        let started = self.started.filter(|_| state.has_own_times())?;
        let over = !matches!(
            state,
            TaskState::Running | TaskState::Restarting | TaskState::Deferred
        );
        Some((started, self.ended.filter(|_| over)))
    }
}

#[derive(Deserialize)]
struct TaskWire {
    task_id: String,
    #[serde(default, deserialize_with = "soft")]
    dag_id: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    dag_run_id: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    map_index: Option<i64>,
    #[serde(default, deserialize_with = "soft")]
    rendered_map_index: Option<String>,
    // Absent and null differ here.
    #[serde(default, deserialize_with = "present")]
    state: Option<TaskState>,
    #[serde(default, deserialize_with = "soft")]
    try_number: Option<u32>,
    #[serde(default, deserialize_with = "soft")]
    max_tries: Option<u32>,
    #[serde(default, deserialize_with = "soft")]
    start_date: Option<Time>,
    #[serde(default, deserialize_with = "soft")]
    end_date: Option<Time>,
    #[serde(default, deserialize_with = "soft")]
    queued_when: Option<Time>,
    #[serde(default, deserialize_with = "soft")]
    scheduled_when: Option<Time>,
    #[serde(default, deserialize_with = "soft")]
    pool: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    pool_slots: Option<u32>,
    #[serde(default, deserialize_with = "soft")]
    operator: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    hostname: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    pid: Option<i64>,
    #[serde(default, deserialize_with = "soft")]
    note: Option<String>,
}

fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<TaskState>, D::Error> {
    Ok(Some(match Value::deserialize(from)? {
        Value::String(word) => TaskState::from(word.as_str()),
        other => TaskState::from(other.to_string().as_str()),
    }))
}

impl From<TaskWire> for TaskInstance {
    fn from(wire: TaskWire) -> Self {
        Self {
            task: wire.task_id,
            dag: wire.dag_id.unwrap_or_default(),
            run: wire.dag_run_id.unwrap_or_default(),
            map_index: wire.map_index.and_then(|i| u32::try_from(i).ok()),
            map_label: filled(wire.rendered_map_index),
            state: wire.state,
            try_number: wire.try_number.unwrap_or(0),
            max_tries: wire.max_tries.unwrap_or(0),
            started: wire.start_date,
            ended: wire.end_date,
            queued: wire.queued_when,
            scheduled: wire.scheduled_when,
            pool: filled(wire.pool),
            pool_slots: wire.pool_slots.unwrap_or(1),
            operator: filled(wire.operator),
            host: filled(wire.hostname),
            pid: wire.pid,
            note: filled(wire.note),
        }
    }
}
