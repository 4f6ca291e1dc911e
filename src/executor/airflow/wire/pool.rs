//! Pools.

use super::soft;
use serde::Deserialize;

/// A pool of slots that tasks of any DAG share.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pool {
    /// Its name: any text.
    pub name: String,
    /// Its slots; -1 = without limit.
    pub slots: i64,
    /// Whether deferred tasks take slots too.
    #[serde(default)]
    pub include_deferred: bool,
    /// Taken by tasks that run or are queued.
    #[serde(rename = "occupied_slots", default, deserialize_with = "soft")]
    pub occupied: Option<i64>,
    /// Taken by tasks that run.
    #[serde(rename = "running_slots", default, deserialize_with = "soft")]
    pub running: Option<i64>,
    /// Taken by tasks that are queued.
    #[serde(rename = "queued_slots", default, deserialize_with = "soft")]
    pub queued: Option<i64>,
    /// Asked for by tasks that wait.
    #[serde(rename = "scheduled_slots", default, deserialize_with = "soft")]
    pub scheduled: Option<i64>,
    /// Free. Below zero after a cut, or -1 in a pool without limit.
    #[serde(rename = "open_slots", default, deserialize_with = "soft")]
    pub open: Option<i64>,
    /// Taken by deferred tasks.
    #[serde(rename = "deferred_slots", default, deserialize_with = "soft")]
    pub deferred: Option<i64>,
    /// What it is for.
    #[serde(default, deserialize_with = "soft")]
    pub description: Option<String>,
}

impl Pool {
    /// Whether it has no limit.
    pub const fn is_unlimited(&self) -> bool {
        self.slots < 0
    }
}
