//! What the server answers, of both versions of its API, as one set of types.
//!
//! Tolerant on purpose: what is beyond the core of 3.0 may be absent or of another shape, unknown fields are left
//! alone and unknown words are kept. Only the names of things and the dates that a day is known by must be right: of
//! a row without them nothing may be concluded. Texts are the server's, not cleaned for display.

#[macro_use]
mod open_enum;
mod backfill;
mod dag;
mod log;
mod pool;
mod run;
mod server;
mod task;

pub use backfill::{Backfill, BackfillDay, Reprocess};
pub use dag::{Dag, DagDetails, ImportError};
pub use log::{LogLine, LogPage};
pub use pool::Pool;
pub use run::{DagStats, Run, RunKind, RunState, TriggeredBy};
pub use server::{Api, Component, Health, HealthStatus, Version};
pub use task::{TaskInstance, TaskState};

pub(super) use log::{plain_log, structured_log};
pub(super) use server::VersionWire;

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// One page of a list.
#[derive(Debug, Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
pub(super) struct Page<T> {
    #[serde(
        alias = "dag_runs",
        alias = "dags",
        alias = "task_instances",
        alias = "pools",
        alias = "backfills",
        alias = "import_errors"
    )]
    pub(super) rows: Vec<T>,
    #[serde(default, deserialize_with = "soft")]
    pub(super) total_entries: Option<u64>,
}

/// A field that may be absent, null or of a shape that nobody expected: all of that is `None`.
fn soft<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    Ok(T::deserialize(Value::deserialize(from)?).ok())
}

/// A list that may be absent, null or hold what nobody expected: the elements that are understood.
fn soft_list<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    let Value::Array(elements) = Value::deserialize(from)? else {
        return Ok(Vec::new());
    };
    Ok(elements
        .into_iter()
        .filter_map(|e| T::deserialize(e).ok())
        .collect())
}

/// `None` for a text without content.
fn filled(text: Option<String>) -> Option<String> {
    text.filter(|t| !t.is_empty())
}
