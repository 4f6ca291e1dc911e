//! Native backfills (3.0).

use super::{filled, soft};
use crate::domain::Time;
use serde::Deserialize;
use serde_json::Value;

open_enum! {
    /// Which days with a run a native backfill takes too. Queued and running ones never.
    Reprocess {
        /// None: only days without a run.
        None = "none",
        /// Failed days too.
        Failed = "failed",
        /// Failed and successful days too.
        Completed = "completed",
    }
}

/// A native backfill.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "BackfillWire")]
pub struct Backfill {
    /// Its number.
    pub id: u64,
    /// Its DAG.
    pub dag: String,
    /// The first date, inclusive.
    pub from: Time,
    /// The last date, inclusive.
    pub to: Time,
    /// The parameters of its runs.
    pub conf: Option<Value>,
    /// No new day starts. Stays so for good once it is cancelled.
    pub paused: bool,
    /// Which days with a run it took too.
    pub reprocess: Reprocess,
    /// How many of its runs run at once; cannot be changed.
    pub max_active_runs: Option<u32>,
    /// When it was made.
    pub created: Option<Time>,
    /// When it ended; up to half a minute after its last run.
    pub completed: Option<Time>,
}

impl Backfill {
    /// It was ended by a cancel: nothing of it will ever be started again, not even after a clear.
    pub const fn is_cancelled(&self) -> bool {
        self.paused && self.completed.is_some()
    }

    /// It is not over: another one for the same DAG is refused.
    pub const fn is_unfinished(&self) -> bool {
        self.completed.is_none()
    }
}

#[derive(Deserialize)]
struct BackfillWire {
    id: u64,
    dag_id: String,
    from_date: Time,
    to_date: Time,
    #[serde(default)]
    dag_run_conf: Option<Value>,
    is_paused: bool,
    // Strict: *cancelled* and *unfinished* are read from it.
    #[serde(default)]
    completed_at: Option<Time>,
    #[serde(default)]
    reprocess_behavior: Option<Reprocess>,
    #[serde(default, deserialize_with = "soft")]
    max_active_runs: Option<u32>,
    #[serde(default, deserialize_with = "soft")]
    created_at: Option<Time>,
}

impl From<BackfillWire> for Backfill {
    fn from(wire: BackfillWire) -> Self {
        Self {
            id: wire.id,
            dag: wire.dag_id,
            from: wire.from_date,
            to: wire.to_date,
            conf: wire.dag_run_conf.filter(|c| !c.is_null()),
            paused: wire.is_paused,
            reprocess: wire.reprocess_behavior.unwrap_or(Reprocess::None),
            max_active_runs: wire.max_active_runs,
            created: wire.created_at,
            completed: wire.completed_at,
        }
    }
}

/// A day that a native backfill would run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "DayWire")]
pub struct BackfillDay {
    /// Its date; `None` in a partitioned DAG.
    pub logical_date: Option<Time>,
    /// Its partition (3.2).
    pub partition_key: Option<String>,
    /// Its partition's date (3.3).
    pub partition_date: Option<Time>,
}

#[derive(Deserialize)]
struct DayWire {
    #[serde(default)]
    logical_date: Option<Time>,
    #[serde(default, deserialize_with = "soft")]
    partition_key: Option<String>,
    #[serde(default)]
    partition_date: Option<Time>,
}

impl From<DayWire> for BackfillDay {
    fn from(wire: DayWire) -> Self {
        Self {
            logical_date: wire.logical_date,
            partition_key: filled(wire.partition_key),
            partition_date: wire.partition_date,
        }
    }
}
