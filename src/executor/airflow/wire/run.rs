//! DAG runs.

use super::{filled, soft};
use crate::domain::Time;
use serde::Deserialize;
use serde_json::Value;

open_enum! {
    /// The state of a DAG run.
    RunState {
        /// Waits for the scheduler.
        Queued = "queued",
        /// The scheduler works on it; that a task runs is not said.
        Running = "running",
        /// All leaves succeeded or were skipped; that anything was done is not said.
        Success = "success",
        /// A task failed, or the run was marked.
        Failed = "failed",
    }
}

open_enum! {
    /// How a run came to be.
    RunKind {
        /// By a native backfill.
        Backfill = "backfill",
        /// By its schedule.
        Scheduled = "scheduled",
        /// By a person or a client.
        Manual = "manual",
        /// By a task of another DAG (3.3).
        OperatorTriggered = "operator_triggered",
        /// By an asset.
        AssetTriggered = "asset_triggered",
        /// To make an asset (3.2).
        AssetMaterialization = "asset_materialization",
        /// By a dataset (2.x).
        DatasetTriggered = "dataset_triggered",
    }
}

open_enum! {
    /// What made a run.
    TriggeredBy {
        /// The command line.
        Cli = "cli",
        /// A task.
        Operator = "operator",
        /// A client of the API, such as this program.
        RestApi = "rest_api",
        /// A person in the browser.
        Ui = "ui",
        /// A test.
        Test = "test",
        /// The schedule.
        Timetable = "timetable",
        /// An asset.
        Asset = "asset",
        /// A native backfill.
        Backfill = "backfill",
    }
}

/// A DAG run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "RunWire")]
pub struct Run {
    /// Its id, unique within its DAG.
    pub id: String,
    /// Its DAG; empty where the server was asked to leave it out.
    pub dag: String,
    /// Its date. `None` for a manual run without one and for every run of a partitioned DAG.
    pub logical_date: Option<Time>,
    /// Start and end of its data interval. On 3.x often both the logical date.
    pub interval: Option<(Time, Time)>,
    /// Not to be started before.
    pub run_after: Option<Time>,
    /// When it was queued; a clear sets it anew. Never on 2.x.
    pub queued_at: Option<Time>,
    /// When it started. `None` again after a clear.
    pub started: Option<Time>,
    /// When it ended. `None` again after a clear.
    pub ended: Option<Time>,
    /// When the scheduler last looked at it.
    pub last_decision: Option<Time>,
    /// Its state.
    pub state: RunState,
    /// How it came to be.
    pub kind: RunKind,
    /// What made it. Never on 2.x.
    pub triggered_by: Option<TriggeredBy>,
    /// Who made it (3.1).
    pub user: Option<String>,
    /// Its parameters.
    pub conf: Option<Value>,
    /// A note.
    pub note: Option<String>,
    /// Its partition (3.2).
    pub partition_key: Option<String>,
    /// Its partition's date (3.3).
    pub partition_date: Option<Time>,
}

impl Run {
    /// A day that was still queued when its native backfill was cancelled: marked failed and never begun.
    pub fn was_never_begun(&self) -> bool {
        self.state == RunState::Failed && self.started.is_none() && self.ended.is_none()
    }
}

#[derive(Deserialize)]
struct RunWire {
    dag_run_id: String,
    #[serde(default, deserialize_with = "soft")]
    dag_id: Option<String>,
    // The days are strict: a date that is not understood must not look like no date.
    #[serde(default)]
    logical_date: Option<Time>,
    #[serde(default)]
    execution_date: Option<Time>,
    #[serde(default)]
    data_interval_start: Option<Time>,
    #[serde(default)]
    data_interval_end: Option<Time>,
    #[serde(default)]
    partition_date: Option<Time>,
    #[serde(default, deserialize_with = "soft")]
    partition_key: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    run_after: Option<Time>,
    // So are these: a clear is proved by one of them, and a lost day by their absence.
    #[serde(default)]
    queued_at: Option<Time>,
    #[serde(default)]
    start_date: Option<Time>,
    #[serde(default)]
    end_date: Option<Time>,
    #[serde(default, deserialize_with = "soft")]
    last_scheduling_decision: Option<Time>,
    state: RunState,
    #[serde(default)]
    run_type: Option<RunKind>,
    #[serde(default)]
    triggered_by: Option<TriggeredBy>,
    #[serde(default, deserialize_with = "soft")]
    triggering_user_name: Option<String>,
    #[serde(default)]
    conf: Option<Value>,
    #[serde(default, deserialize_with = "soft")]
    note: Option<String>,
}

impl From<RunWire> for Run {
    fn from(wire: RunWire) -> Self {
        Self {
            id: wire.dag_run_id,
            dag: wire.dag_id.unwrap_or_default(),
            logical_date: wire.logical_date.or(wire.execution_date),
            interval: wire.data_interval_start.zip(wire.data_interval_end),
            run_after: wire.run_after,
            queued_at: wire.queued_at,
            started: wire.start_date,
            ended: wire.end_date,
            last_decision: wire.last_scheduling_decision,
            state: wire.state,
            kind: wire.run_type.unwrap_or_else(|| RunKind::Other(String::new())),
            triggered_by: wire.triggered_by,
            user: filled(wire.triggering_user_name),
            conf: wire.conf.filter(|c| !c.is_null()),
            note: filled(wire.note),
            partition_key: filled(wire.partition_key),
            partition_date: wire.partition_date,
        }
    }
}

/// How many runs of a DAG are in each state.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DagStats {
    /// The DAG.
    #[serde(rename = "dag_id")]
    pub dag: String,
    stats: Vec<StateCount>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct StateCount {
    state: RunState,
    count: u64,
}

impl DagStats {
    /// The runs in this state.
    pub fn count(&self, state: &RunState) -> u64 {
        self.stats
            .iter()
            .filter(|s| s.state == *state)
            .map(|s| s.count)
            .sum()
    }

    /// Every state that was counted, and its count.
    pub fn counts(&self) -> impl Iterator<Item = (&RunState, u64)> {
        self.stats.iter().map(|s| (&s.state, s.count))
    }

    /// All its runs.
    pub fn total(&self) -> u64 {
        self.stats.iter().map(|s| s.count).sum()
    }
}
