//! The requests of actions, as they are journaled before they leave and found again after a crash.

use super::{
    steps::{NOT_SENT, OPEN},
    words::shown,
};
use crate::{
    domain::{Time, ids::ChunkId},
    executor::airflow::{
        calls::{BackfillOrder, Mark, Rerun, Trigger},
        dates::written,
        error::{CallError, Kind},
        executor::Inner,
        intent::Before,
        wire::{Api, Backfill, Pool, Reprocess, Run},
    },
    net::{AdapterError, Cause},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::num::NonZeroU32;

/// The form of these records. One of another number was written by another version of this program.
const VERSION: u8 = 1;

/// A request with what is true of the whole action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    v: u8,
    /// Runs of the DAG have partitions instead of dates.
    #[serde(default)]
    pub partitioned: bool,
    /// Requests before it that were never answered, oldest first. The next request may take the place of such a one
    /// in the journal, and what was found out about it must not be forgotten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Earlier>,
    /// The request.
    #[serde(flatten)]
    pub call: Call,
}

/// A request that was never answered, and that is not waited for any more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Earlier {
    /// When it was about to be sent.
    pub at: Time,
    /// The request.
    pub call: Call,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Call {
    /// A native backfill starts no further day.
    PauseNative {
        /// Its number.
        id: u64,
    },
    /// It goes on.
    ResumeNative {
        /// Its number.
        id: u64,
    },
    /// It is ended.
    CancelNative {
        /// Its number.
        id: u64,
        /// How many of its days waited before.
        waiting: u64,
        /// Its days were run from the newest on, as far as that could be seen.
        newest_first: bool,
    },
    /// The DAG with everything in it.
    PauseDag {
        /// It is paused, rather than let go on.
        paused: bool,
    },
    /// The slots of a pool.
    Slots {
        /// Its name.
        pool: String,
        /// Its slots from now on.
        slots: i64,
        /// As it is; some servers want it repeated.
        include_deferred: bool,
    },
    /// A run is cleared.
    Clear {
        /// Its day.
        day: ChunkId,
        /// Its id.
        run: String,
        /// Only what failed in it.
        only_failed: bool,
        /// What it was like before.
        before: Before,
    },
    /// A run is deleted, to be made anew.
    Delete {
        /// Its day.
        day: ChunkId,
        /// Its id.
        run: String,
        /// What will be made.
        anew: Anew,
    },
    /// A run that was deleted is made anew.
    Trigger {
        /// Its day.
        day: ChunkId,
        /// The id of the deleted run.
        run: String,
        /// What is made.
        anew: Anew,
    },
    /// A run is marked; as failed, what runs in it is ended.
    MarkRun {
        /// Its day.
        day: ChunkId,
        /// Its id.
        run: String,
        /// As done rather than failed.
        done: bool,
        /// Its state before, in the server's word.
        was: String,
    },
    /// A native backfill is made.
    Create(Creation),
}

/// A run that takes the place of another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Anew {
    /// Its id, ours.
    pub id: String,
    /// Its date, that of the other one.
    pub date: Option<Time>,
    /// Its data interval, that of the other one.
    pub interval: Option<(Time, Time)>,
    /// Its parameters, those of the other one.
    pub conf: Map<String, Value>,
    /// The note at the other one.
    pub note: Option<String>,
    /// The partition of the other one.
    pub partition: Option<String>,
    /// The cancelled native backfill of the other one, if it is known.
    pub native: Option<u64>,
}

/// A native backfill that is to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Creation {
    /// The first date, inclusive.
    pub from: Time,
    /// The last date, inclusive.
    pub to: Time,
    /// The most days at once.
    pub limit: NonZeroU32,
    /// The newest day first.
    pub newest_first: bool,
    /// Which days with a run are taken, in the server's word.
    pub reprocess: String,
    /// The parameters of its runs.
    pub conf: Option<Map<String, Value>>,
    /// How many days it will have, by the server's dry run.
    pub days: u64,
    /// The first and the last of them.
    pub ends: (ChunkId, ChunkId),
    /// The highest number of a native backfill of the DAG before.
    pub newest: u64,
    /// Those of its days that had failed before, rather than waited.
    pub failed: u64,
}

impl Creation {
    /// The order for the server.
    pub fn order(&self, dag: &str) -> BackfillOrder {
        BackfillOrder {
            dag: dag.to_owned(),
            from: self.from,
            to: self.to,
            max_active_runs: self.limit,
            newest_first: self.newest_first,
            reprocess: Reprocess::from(self.reprocess.as_str()),
            conf: self.conf.clone(),
        }
    }

    /// Whether a native backfill is the one that was to be made.
    pub fn made(&self, native: &Backfill) -> bool {
        native.id > self.newest
            && (native.from, native.to) == (self.from, self.to)
            && native.max_active_runs.is_none_or(|n| n == self.limit.get())
            && native.reprocess.as_str() == self.reprocess
    }
}

impl Call {
    /// For the journal, with the requests before it that were never answered.
    pub fn write(self, partitioned: bool, earlier: Vec<Earlier>) -> String {
        let record = Record {
            v: VERSION,
            partitioned,
            earlier,
            call: self,
        };
        // All of it are texts, numbers and maps with texts as keys.
        serde_json::to_string(&record).unwrap_or_default()
    }

    /// From the journal.
    ///
    /// # Errors
    /// It was written by another version of this program.
    pub fn read(text: &str) -> Result<Record, String> {
        let record = serde_json::from_str::<Record>(text).map_err(|e| e.to_string());
        match record {
            Ok(record) if record.v == VERSION => Ok(record),
            Ok(record) => Err(format!("its form is {}", record.v)),
            Err(e) => Err(e),
        }
    }

    /// The day and the run that it is about.
    pub fn place(&self) -> Option<(ChunkId, &str)> {
        match self {
            Self::Clear { day, run, .. }
            | Self::Delete { day, run, .. }
            | Self::Trigger { day, run, .. }
            | Self::MarkRun { day, run, .. } => Some((*day, run)),
            _ => None,
        }
    }

    /// For people: `PUT /api/v2/backfills/12/pause`.
    pub fn words(&self, dag: &str, api: Api) -> String {
        let root = api.prefix();
        let dag_path = format!("{root}/dags/{}", shown(dag));
        let run_path = |run: &str| format!("{dag_path}/dagRuns/{}", shown(run));
        match self {
            Self::PauseNative { id } => format!("PUT {root}/backfills/{id}/pause"),
            Self::ResumeNative { id } => format!("PUT {root}/backfills/{id}/unpause"),
            Self::CancelNative { id, .. } => format!("PUT {root}/backfills/{id}/cancel"),
            Self::PauseDag { paused } => format!("PATCH {dag_path} is_paused={paused}"),
            Self::Slots { pool, slots, .. } => format!("PATCH {root}/pools/{} slots={slots}", shown(pool)),
            Self::Clear {
                run,
                only_failed: true,
                ..
            } if api == Api::V1 => {
                format!(
                    "POST {dag_path}/clearTaskInstances dag_run_id={} only_failed=true",
                    shown(run)
                )
            }
            Self::Clear { run, only_failed, .. } => {
                let only = if *only_failed { " only_failed=true" } else { "" };
                format!("POST {}/clear{only}", run_path(run))
            }
            Self::Delete { run, .. } => format!("DELETE {}", run_path(run)),
            Self::Trigger { anew, .. } => {
                let date = anew.date.map_or_else(
                    || format!("partition_key={}", shown(anew.partition.as_deref().unwrap_or(""))),
                    |date| format!("logical_date={}", written(date)),
                );
                format!("POST {dag_path}/dagRuns {} {date}", shown(&anew.id))
            }
            Self::MarkRun { run, done, .. } => {
                let state = if *done { "success" } else { "failed" };
                format!("PATCH {} state={state}", run_path(run))
            }
            Self::Create(c) => format!(
                "POST {root}/backfills {} {} to {} max_active_runs={} reprocess_behavior={}{}",
                shown(dag),
                written(c.from),
                written(c.to),
                c.limit,
                shown(&c.reprocess),
                if c.newest_first { " run_backwards=true" } else { "" }
            ),
        }
    }

    /// Sends it. Answers what the server said.
    ///
    /// # Errors
    /// As the server's; whether it may have been done is part of the words.
    pub async fn send(&self, inner: &Inner, dag: &str) -> Result<String, AdapterError> {
        let server = &inner.server;
        let said = match self {
            Self::PauseNative { id } => server.pause_backfill(*id).await.map(|b| of_native(&b)),
            Self::ResumeNative { id } => server.unpause_backfill(*id).await.map(|b| of_native(&b)),
            Self::CancelNative { id, .. } => server.cancel_backfill(*id).await.map(|b| of_native(&b)),
            Self::PauseDag { paused } => server.pause_dag(dag, *paused).await.map(|dag| {
                let word = if dag.paused { "paused" } else { "not paused" };
                format!("the DAG is {word}")
            }),
            Self::Slots {
                pool,
                slots,
                include_deferred,
            } => {
                let pool = bare_pool(pool, *include_deferred);
                let set = server.set_pool_slots(&pool, *slots).await;
                set.map(|p| format!("the pool has {} slots", p.slots))
            }
            Self::Clear { run, only_failed, .. } => {
                let what = if *only_failed {
                    Rerun::OnlyFailed
                } else {
                    Rerun::Whole
                };
                server.clear(dag, run, what).await.map(|r| of_run(&r))
            }
            Self::Delete { run, .. } => server.delete_run(dag, run).await.map(|there| {
                let words = if there {
                    "the run is deleted"
                } else {
                    "there was no such run"
                };
                words.to_owned()
            }),
            Self::Trigger { anew, .. } => server.trigger(&anew.order(dag)).await.map(|r| of_run(&r)),
            Self::MarkRun { run, done, .. } => {
                let mark = if *done { Mark::Success } else { Mark::Failed };
                server.mark_run(dag, run, mark).await.map(|r| of_run(&r))
            }
            Self::Create(creation) => {
                let made = server.create_backfill(&creation.order(dag)).await;
                made.map(|b| of_native(&b))
            }
        };
        said.map_err(told)
    }
}

impl Anew {
    fn order(&self, dag: &str) -> Trigger {
        Trigger {
            dag: dag.to_owned(),
            run: self.id.clone(),
            logical_date: self.date,
            interval: self.interval,
            conf: self.conf.clone(),
            note: self.note.clone(),
            partition_key: self.partition.clone(),
        }
    }
}

/// A record that cannot be read.
pub fn unreadable(inner: &Inner, why: &str) -> AdapterError {
    let detail = format!("{NOT_SENT}: the record of it cannot be read: {why}");
    inner.error("perform an action", Cause::Local, &detail)
}

/// An error that says whether the request may have had an effect, which decides how it goes on.
fn told(error: CallError) -> AdapterError {
    let open = error.may_have_happened();
    let not_sent = matches!(error.kind, Kind::NotSent | Kind::LoggedOut | Kind::TooMany);
    let mut error = AdapterError::from(error);
    if open {
        error.detail = format!("{OPEN}: {}", error.detail);
    } else if not_sent {
        error.detail = format!("{NOT_SENT}: {}", error.detail);
    }
    error
}

fn of_native(native: &Backfill) -> String {
    let word = match (native.paused, native.completed) {
        (true, Some(_)) => "cancelled",
        (false, Some(_)) => "over",
        (true, None) => "paused",
        (false, None) => "not paused",
    };
    format!("native backfill {} is {word}", native.id)
}

fn of_run(run: &Run) -> String {
    format!("the run {} is {}", shown(&run.id), shown(run.state.as_str()))
}

/// A pool of which no more is known.
pub fn bare_pool(name: &str, include_deferred: bool) -> Pool {
    Pool {
        name: name.to_owned(),
        slots: 0,
        include_deferred,
        occupied: None,
        running: None,
        queued: None,
        scheduled: None,
        open: None,
        deferred: None,
        description: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_one_of_another_form_is_not_guessed_at() {
        let call = Call::PauseNative { id: 12 };
        let text = call.clone().write(false, Vec::new());
        assert_eq!(text, r#"{"v":1,"partitioned":false,"do":"pause-native","id":12}"#);
        assert_eq!(Call::read(&text).unwrap().call, call);
        assert!(Call::read(&text.replace("\"v\":1", "\"v\":2")).is_err());
        assert!(Call::read(&text.replace("pause-native", "paint")).is_err());
        assert!(Call::read("").is_err());
    }

    #[test]
    fn every_request_is_told_as_it_is_sent_to_either_version() {
        let day: ChunkId = "2021-09-04".parse().unwrap();
        let mark = Call::MarkRun {
            day,
            run: "a+b\u{1b}".into(),
            done: false,
            was: "running".into(),
        };
        assert_eq!(
            mark.words("d", Api::V1),
            "PATCH /api/v1/dags/d/dagRuns/a+b^[ state=failed"
        );
        let slots = Call::Slots {
            pool: "p".into(),
            slots: -1,
            include_deferred: true,
        };
        assert_eq!(slots.words("d", Api::V2), "PATCH /api/v2/pools/p slots=-1");
    }
}
