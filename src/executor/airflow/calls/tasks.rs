//! Task instances, their tries and their logs.

use super::{
    super::{
        connection::Connection,
        error::{CallError, Kind},
        wire::{Api, LogPage, TaskInstance, TaskState, plain_log, structured_log},
    },
    pages::Listing,
    runs::ALL_DAGS,
};
use crate::net::Cause;

/// Which task of which run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskPlace<'a> {
    /// Its DAG.
    pub dag: &'a str,
    /// Its run.
    pub run: &'a str,
    /// Its name.
    pub task: &'a str,
    /// Its index, of a mapped task.
    pub map_index: Option<u32>,
}

impl Connection {
    /// The tasks of a run; a mapped one has a row for each index.
    ///
    /// # Errors
    /// *Absent* if there is no such run.
    pub async fn tasks(&self, dag: &str, run: &str) -> Result<Listing<TaskInstance>, CallError> {
        let call = self
            .get_at(&["dags", dag, "dagRuns", run, "taskInstances"])
            .await?;
        self.list(&call, |t: &TaskInstance| {
            (t.run.clone(), t.task.clone(), t.map_index)
        })
        .await
    }

    /// How many tasks of all runs of a DAG are in one of these states: what really executes, where runs only say
    /// *running*.
    ///
    /// # Errors
    /// *Absent* if there is no such DAG.
    pub async fn count_tasks(&self, dag: &str, states: &[TaskState]) -> Result<u64, CallError> {
        let mut call = self
            .get_at(&["dags", dag, "dagRuns", ALL_DAGS, "taskInstances"])
            .await?;
        for state in states {
            call = call.query("state", state.filter());
        }
        self.count(&call).await
    }

    /// Every try of a task, oldest first (2.10).
    ///
    /// # Errors
    /// *Absent* if there is no such task.
    pub async fn tries(&self, place: TaskPlace<'_>) -> Result<Vec<TaskInstance>, CallError> {
        let version = self.version().await?;
        if !version.is_at_least(2, 10) {
            return Err(self.unsupported(
                "tell the tries of a task",
                &format!("2.10 and this is {}", version.text),
            ));
        }
        let index = place.map_index.map(|i| i.to_string());
        let mut segments = vec![
            "dags",
            place.dag,
            "dagRuns",
            place.run,
            "taskInstances",
            place.task,
        ];
        segments.extend(index.as_deref());
        segments.push("tries");
        let call = self.get_at(&segments).await?;
        let mut tries = self.list(&call, |t: &TaskInstance| t.try_number).await?.rows;
        tries.sort_by_key(|t| t.try_number);
        Ok(tries)
    }

    /// A piece of the log of one try: the whole of it until now, or with the token of the piece before what came
    /// since. A try that was never made has none (*absent*; 2.x answers with a short text).
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn log(
        &self,
        place: TaskPlace<'_>,
        try_number: u32,
        token: Option<&str>,
    ) -> Result<LogPage, CallError> {
        let try_number = try_number.to_string();
        let segments = [
            "dags",
            place.dag,
            "dagRuns",
            place.run,
            "taskInstances",
            place.task,
            "logs",
            &try_number,
        ];
        let mut call = self.get_at(&segments).await?;
        if let Some(index) = place.map_index {
            call = call.query("map_index", &index.to_string());
        }
        if self.api().await? == Api::V1 {
            let call = call.query("full_content", "true").log("text/plain");
            return Ok(plain_log(&self.send(&call).await?.body));
        }
        if let Some(token) = token {
            call = call.query("token", token);
        }
        let answer = self.send(&call.log("application/json")).await?;
        structured_log(self.understand(&answer)?).map_err(|why| {
            let error = answer.error(Cause::NotUnderstood, &format!("a log of another shape: {why}"));
            CallError::new(Kind::NotUnderstood, error)
        })
    }
}
