//! DAG runs.

use super::{
    super::{
        budget::Purpose,
        connection::{Call, Connection},
        dates::written,
        error::{CallError, Kind},
        wire::{Api, Run, RunKind, RunState, TaskInstance},
    },
    pages::Listing,
};
use crate::domain::Time;
use chrono::TimeDelta;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// In the place of a DAG: all of them.
pub const ALL_DAGS: &str = "~";

/// By which date runs are chosen. Both ends are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// The logical date. Runs without one are left out.
    Logical {
        /// The first.
        from: Time,
        /// The last.
        to: Time,
    },
    /// When it may start (3.x); every run has that.
    RunAfter {
        /// The first.
        from: Time,
        /// The last.
        to: Time,
    },
    /// The partition's day (3.3, only DAGs with partitions): midnights of UTC, which stand for whole civil days of the
    /// timetable's zone. Any other instant is refused.
    Partition {
        /// The first.
        from: Time,
        /// The last.
        to: Time,
    },
}

/// Which runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunQuery {
    /// Of this DAG, or [`ALL_DAGS`].
    pub dag: String,
    /// Of these dates.
    pub window: Option<Window>,
    /// In one of these states; all if empty.
    pub states: Vec<RunState>,
    /// Of one of these kinds; all if empty.
    pub kinds: Vec<RunKind>,
    /// Changed at or after this instant, on the server's clock.
    pub changed_since: Option<Time>,
}

impl RunQuery {
    /// All runs of a DAG.
    pub fn of(dag: &str) -> Self {
        Self {
            dag: dag.to_owned(),
            window: None,
            states: Vec::new(),
            kinds: Vec::new(),
            changed_since: None,
        }
    }
}

/// A run to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    /// Its DAG.
    pub dag: String,
    /// Its id, ours. A second one with it is refused.
    pub run: String,
    /// Its date. A second one on it is refused. `None` only on 3.x.
    pub logical_date: Option<Time>,
    /// Start and end of its data interval. To be given wherever the DAG has intervals: what the server fills in is
    /// empty on 3.x and the day before on 2.x.
    pub interval: Option<(Time, Time)>,
    /// Its parameters.
    pub conf: Map<String, Value>,
    /// A note.
    pub note: Option<String>,
    /// Its partition (3.2). A second run of it is not refused.
    pub partition_key: Option<String>,
}

/// What a clear takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rerun {
    /// All tasks.
    Whole,
    /// Failed tasks and those that did not run because of them.
    OnlyFailed,
}

/// What a run can be marked as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Done.
    Success,
    /// Failed; ends what runs. Look again after some seconds: the scheduler may write over it.
    Failed,
}

impl Mark {
    const fn word(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failed => "failed",
        }
    }
}

impl Connection {
    /// The runs of a query.
    ///
    /// # Errors
    /// The list cannot be read; *unsupported* for a window that this version does not have.
    pub async fn runs(&self, query: &RunQuery) -> Result<Listing<Run>, CallError> {
        self.runs_for(query, Purpose::Read).await
    }

    /// As [`Self::runs`], outside the request budget: to be used once, when nothing is known yet.
    ///
    /// # Errors
    /// As [`Self::runs`].
    pub async fn runs_cold(&self, query: &RunQuery) -> Result<Listing<Run>, CallError> {
        self.runs_for(query, Purpose::ColdStart).await
    }

    /// The runs of a DAG that changed at or after an instant of the server's clock: [`Listing::as_of`] of the listing
    /// before. Running ones are always among them; deleted ones, changed notes and marked tasks never.
    ///
    /// # Errors
    /// As [`Self::runs`].
    pub async fn changed_runs(&self, dag: &str, since: Time) -> Result<Listing<Run>, CallError> {
        let query = RunQuery {
            changed_since: Some(since),
            ..RunQuery::of(dag)
        };
        self.runs(&query).await
    }

    /// How many runs a query has.
    ///
    /// # Errors
    /// As [`Self::runs`]; *unsupported* for kinds on 2.x.
    pub async fn count_runs(&self, query: &RunQuery) -> Result<u64, CallError> {
        if !query.kinds.is_empty() {
            self.at_least_3(0, "count runs by their kind").await?;
        }
        self.count(&self.runs_call(query).await?).await
    }

    async fn runs_for(&self, query: &RunQuery, purpose: Purpose) -> Result<Listing<Run>, CallError> {
        let call = self.runs_call(query).await?.purpose(purpose);
        let mut listing = self
            .list(&call, |run: &Run| (run.dag.clone(), run.id.clone()))
            .await?;
        listing.rows.retain(|run| query.takes(run));
        Ok(listing)
    }

    async fn runs_call(&self, query: &RunQuery) -> Result<Call, CallError> {
        let api = self.api().await?;
        // By the number of the row, also where the last change would be at hand: a row that changes between two pages
        // would move to the end and pull another one out of sight.
        let mut call = self
            .get_at(&["dags", &query.dag, "dagRuns"])
            .await?
            .query("order_by", "id");
        for state in &query.states {
            call = call.query("state", state.as_str());
        }
        if api == Api::V2 {
            for kind in &query.kinds {
                call = call.query("run_type", kind.as_str());
            }
        }
        if let Some(since) = query.changed_since {
            call = call.query("updated_at_gte", &written(since));
        }
        let Some(window) = query.window else {
            return Ok(call);
        };
        let (field, from, to) = match (window, api) {
            (Window::Logical { from, to }, Api::V2) => ("logical_date", from, to),
            (Window::Logical { from, to }, Api::V1) => ("execution_date", from, to),
            (Window::RunAfter { from, to }, _) => {
                self.at_least_3(0, "choose runs by when they may start").await?;
                ("run_after", from, to)
            }
            (Window::Partition { from, to }, _) => {
                self.at_least_3(3, "choose runs by the date of their partition")
                    .await?;
                ("partition_date", from, to)
            }
        };
        Ok(call
            .query(&format!("{field}_gte"), &written(from))
            .query(&format!("{field}_lte"), &written(to)))
    }

    /// One run; `None` if there is none of that id.
    ///
    /// # Errors
    /// It cannot be asked, which is never *there is none*.
    pub async fn run(&self, dag: &str, run: &str) -> Result<Option<Run>, CallError> {
        let call = self.get_at(&["dags", dag, "dagRuns", run]).await?;
        present(self.ask(&call).await)
    }

    /// The runs on a date, of every kind: at most one, except where the date is null for all.
    ///
    /// # Errors
    /// It cannot be asked.
    pub async fn runs_on(&self, dag: &str, date: Time) -> Result<Vec<Run>, CallError> {
        let query = RunQuery {
            window: Some(Window::Logical { from: date, to: date }),
            ..RunQuery::of(dag)
        };
        Ok(self.runs(&query).await?.rows)
    }

    /// Makes a run.
    ///
    /// # Errors
    /// *Conflict* if there is a run of that id or on that date: look by id, then by date. *Unsupported* for no date
    /// or a partition on a version without.
    pub async fn trigger(&self, order: &Trigger) -> Result<Run, CallError> {
        let api = self.api().await?;
        let mut body = Map::new();
        body.insert("dag_run_id".into(), json!(order.run));
        match (order.logical_date, api) {
            (Some(date), _) => body.insert("logical_date".into(), json!(written(date))),
            (None, Api::V2) => body.insert("logical_date".into(), Value::Null),
            (None, Api::V1) => return Err(self.unsupported("make a run without a date", "3.0")),
        };
        if let Some((start, end)) = order.interval {
            body.insert("data_interval_start".into(), json!(written(start)));
            body.insert("data_interval_end".into(), json!(written(end)));
        }
        body.insert("conf".into(), Value::Object(order.conf.clone()));
        if let Some(note) = &order.note {
            body.insert("note".into(), json!(note));
        }
        if let Some(key) = &order.partition_key {
            self.at_least_3(2, "make the run of a partition").await?;
            body.insert("partition_key".into(), json!(key));
        }
        let call = self
            .call_at(Method::POST, &["dags", &order.dag, "dagRuns"])
            .await?;
        self.ask(&call.json(Value::Object(body))).await
    }

    /// The tasks that a clear would take. On 2.x their states are not told.
    ///
    /// # Errors
    /// *Absent* if there is no such run.
    pub async fn preview_clear(
        &self,
        dag: &str,
        run: &str,
        what: Rerun,
    ) -> Result<Vec<TaskInstance>, CallError> {
        #[derive(Deserialize)]
        struct Wire {
            task_instances: Vec<TaskInstance>,
        }
        let wire: Wire = self.ask(&self.clear_call(dag, run, what, true).await?).await?;
        Ok(wire.task_instances)
    }

    /// Clears a run, so that it runs again with the parameters that it has.
    ///
    /// # Errors
    /// *Absent* if there is no such run.
    pub async fn clear(&self, dag: &str, run: &str, what: Rerun) -> Result<Run, CallError> {
        let call = self.clear_call(dag, run, what, false).await?;
        if self.api().await? == Api::V1 && what == Rerun::OnlyFailed {
            // That call answers with the tasks only.
            self.send(&call).await?;
            let call = self
                .get_at(&["dags", dag, "dagRuns", run])
                .await?
                .purpose(Purpose::Act);
            return self.ask(&call).await.map_err(|mut e| {
                e.kind = Kind::Unanswered;
                e
            });
        }
        self.ask(&call).await
    }

    async fn clear_call(&self, dag: &str, run: &str, what: Rerun, dry: bool) -> Result<Call, CallError> {
        // Without `dry_run` every clear is only a preview.
        let only_failed = what == Rerun::OnlyFailed;
        match self.api().await? {
            Api::V1 if only_failed => {
                let call = self
                    .call_at(Method::POST, &["dags", dag, "clearTaskInstances"])
                    .await?;
                Ok(call.json(json!({
                    "dry_run": dry, "dag_run_id": run, "only_failed": true, "reset_dag_runs": true,
                })))
            }
            Api::V1 => {
                let call = self
                    .call_at(Method::POST, &["dags", dag, "dagRuns", run, "clear"])
                    .await?;
                Ok(call.json(json!({"dry_run": dry})))
            }
            Api::V2 => {
                let call = self
                    .call_at(Method::POST, &["dags", dag, "dagRuns", run, "clear"])
                    .await?;
                Ok(call.json(json!({"dry_run": dry, "only_failed": only_failed})))
            }
        }
    }

    /// Marks a run, and ends what runs in it.
    ///
    /// # Errors
    /// *Absent* if there is no such run.
    pub async fn mark_run(&self, dag: &str, run: &str, mark: Mark) -> Result<Run, CallError> {
        let call = self
            .call_at(Method::PATCH, &["dags", dag, "dagRuns", run])
            .await?;
        self.ask(&call.json(json!({"state": mark.word()}))).await
    }

    /// Writes a note at a run.
    ///
    /// # Errors
    /// *Absent* if there is no such run.
    pub async fn note_run(&self, dag: &str, run: &str, note: &str) -> Result<Run, CallError> {
        let call = match self.api().await? {
            Api::V1 => {
                self.call_at(Method::PATCH, &["dags", dag, "dagRuns", run, "setNote"])
                    .await?
            }
            Api::V2 => self
                .call_at(Method::PATCH, &["dags", dag, "dagRuns", run])
                .await?
                .query("update_mask", "note"),
        };
        self.ask(&call.json(json!({"note": note}))).await
    }

    /// Deletes a run; `false` if there was none. 3.x refuses it while it runs; 2.x does it, and its process lives on
    /// until its next heartbeat.
    ///
    /// # Errors
    /// *Conflict* while it runs (3.x).
    pub async fn delete_run(&self, dag: &str, run: &str) -> Result<bool, CallError> {
        let call = self
            .call_at(Method::DELETE, &["dags", dag, "dagRuns", run])
            .await?;
        Ok(present(self.send(&call).await)?.is_some())
    }
}

impl RunQuery {
    /// 2.x cannot choose by kind, and a parameter that a 3.x does not know is ignored by it without a word.
    fn takes(&self, run: &Run) -> bool {
        let within = |date: Option<Time>, from, to| date.is_none_or(|d| from <= d && d <= to);
        let dated = match self.window {
            None => true,
            Some(Window::Logical { from, to }) => within(run.logical_date, from, to),
            Some(Window::RunAfter { from, to }) => within(run.run_after, from, to),
            // Its bounds are civil days of the timetable's zone, which nobody tells us.
            Some(Window::Partition { from, to }) => within(
                run.partition_date,
                from - TimeDelta::days(1),
                to + TimeDelta::days(2),
            ),
        };
        dated
            && (self.kinds.is_empty() || self.kinds.contains(&run.kind))
            && (self.states.is_empty() || self.states.contains(&run.state))
    }
}

/// `None` for what is absent.
fn present<T>(outcome: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind == Kind::Absent => Ok(None),
        Err(e) => Err(e),
    }
}
