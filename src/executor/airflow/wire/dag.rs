//! DAGs and the files that hold them.

use super::{filled, soft, soft_list};
use crate::domain::Time;
use serde::Deserialize;
use serde_json::Value;

/// A DAG.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "DagWire")]
pub struct Dag {
    /// Its id.
    pub id: String,
    /// What it is for.
    pub description: Option<String>,
    /// Nothing new is started in it, also not within runs that are under way.
    pub paused: bool,
    /// Its file is gone or broken.
    pub stale: bool,
    /// Its file has errors.
    pub import_errors: bool,
    /// How many of its scheduled runs run at once; backfill and manual runs are not held by it.
    pub max_active_runs: Option<u32>,
    /// How many of its tasks run at once.
    pub max_active_tasks: Option<u32>,
    /// Its schedule, as a person reads it; `None` = it has none.
    pub schedule: Option<String>,
    /// Its runs have partitions instead of dates (3.2).
    pub partitioned: bool,
    /// Whether native backfills are possible (3.3).
    pub backfillable: Option<bool>,
    /// The date of its next scheduled run.
    pub next_date: Option<Time>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its owners.
    pub owners: Vec<String>,
}

/// A DAG in full. The server's word for its zone is wrong and therefore not here.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "DetailsWire")]
pub struct DagDetails {
    /// What a list tells of it too.
    pub dag: Dag,
    /// Whether the scheduler makes runs for the past by itself.
    pub catchup: Option<bool>,
    /// A manual run on a date before it succeeds at once without a single task.
    pub start_date: Option<Time>,
    /// No run after it.
    pub end_date: Option<Time>,
    /// Its runs under way.
    pub active_runs: Option<u64>,
}

#[derive(Deserialize)]
struct DagWire {
    dag_id: String,
    #[serde(default, deserialize_with = "soft")]
    description: Option<String>,
    #[serde(default, deserialize_with = "soft")]
    is_paused: Option<bool>,
    #[serde(default, deserialize_with = "soft")]
    is_stale: Option<bool>,
    #[serde(default, deserialize_with = "soft")]
    is_active: Option<bool>,
    #[serde(default, deserialize_with = "soft")]
    has_import_errors: Option<bool>,
    #[serde(default, deserialize_with = "soft")]
    max_active_runs: Option<u32>,
    #[serde(default, deserialize_with = "soft")]
    max_active_tasks: Option<u32>,
    #[serde(default, deserialize_with = "soft")]
    timetable_summary: Option<String>,
    #[serde(default)]
    schedule_interval: Option<Value>,
    #[serde(default, deserialize_with = "soft")]
    timetable_partitioned: Option<bool>,
    #[serde(default, deserialize_with = "soft")]
    is_backfillable: Option<bool>,
    #[serde(default, deserialize_with = "soft")]
    next_dagrun_logical_date: Option<Time>,
    #[serde(default, deserialize_with = "soft")]
    next_dagrun: Option<Time>,
    #[serde(default, deserialize_with = "soft_list")]
    tags: Vec<Tag>,
    #[serde(default, deserialize_with = "soft_list")]
    owners: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Tag {
    Named { name: String },
    Bare(String),
}

impl From<DagWire> for Dag {
    fn from(wire: DagWire) -> Self {
        Self {
            id: wire.dag_id,
            description: filled(wire.description),
            paused: wire.is_paused.unwrap_or(false),
            stale: wire.is_stale.unwrap_or(wire.is_active == Some(false)),
            import_errors: wire.has_import_errors.unwrap_or(false),
            max_active_runs: wire.max_active_runs,
            max_active_tasks: wire.max_active_tasks,
            schedule: filled(wire.timetable_summary).or_else(|| wire.schedule_interval.and_then(schedule_of)),
            partitioned: wire.timetable_partitioned.unwrap_or(false),
            backfillable: wire.is_backfillable,
            next_date: wire.next_dagrun_logical_date.or(wire.next_dagrun),
            tags: wire
                .tags
                .into_iter()
                .map(|tag| match tag {
                    Tag::Named { name } | Tag::Bare(name) => name,
                })
                .collect(),
            owners: wire.owners,
        }
    }
}

/// 2.x: an object with its kind and either a text or the parts of a time span.
fn schedule_of(interval: Value) -> Option<String> {
    match interval {
        Value::Null => None,
        Value::String(text) => filled(Some(text)),
        Value::Object(fields) => {
            if let Some(text) = fields.get("value").and_then(Value::as_str) {
                return filled(Some(text.to_owned()));
            }
            let parts: Vec<String> = fields
                .iter()
                .filter(|(key, value)| *key != "__type" && value.as_i64().is_some_and(|n| n != 0))
                .map(|(key, value)| format!("{value} {key}"))
                .collect();
            (!parts.is_empty()).then(|| format!("every {}", parts.join(" ")))
        }
        other => Some(other.to_string()),
    }
}

#[derive(Deserialize)]
struct DetailsWire {
    #[serde(flatten)]
    dag: DagWire,
    #[serde(default, deserialize_with = "soft")]
    catchup: Option<bool>,
    #[serde(default, deserialize_with = "soft")]
    start_date: Option<Time>,
    #[serde(default, deserialize_with = "soft")]
    end_date: Option<Time>,
    #[serde(default, deserialize_with = "soft")]
    active_runs_count: Option<u64>,
}

impl From<DetailsWire> for DagDetails {
    fn from(wire: DetailsWire) -> Self {
        Self {
            dag: wire.dag.into(),
            catchup: wire.catchup,
            start_date: wire.start_date,
            end_date: wire.end_date,
            active_runs: wire.active_runs_count,
        }
    }
}

/// A file with DAGs that cannot be read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ImportError {
    /// The file.
    #[serde(default, deserialize_with = "soft")]
    pub filename: Option<String>,
    /// When that was seen.
    #[serde(default, deserialize_with = "soft")]
    pub timestamp: Option<Time>,
    /// The error, of many lines.
    #[serde(default, deserialize_with = "soft")]
    pub stack_trace: Option<String>,
}

impl ImportError {
    /// The line that says what is wrong: the last one.
    pub fn reason(&self) -> &str {
        let trace = self.stack_trace.as_deref().unwrap_or("");
        trace
            .lines()
            .rev()
            .map(str::trim)
            .find(|l| !l.is_empty())
            .unwrap_or("")
    }
}
