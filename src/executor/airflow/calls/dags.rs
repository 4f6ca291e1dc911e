//! DAGs.

use super::{
    super::{
        connection::{Call, Connection},
        error::CallError,
        wire::{Api, Dag, DagDetails, DagStats, ImportError},
    },
    pages::Listing,
};
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use std::collections::HashSet;

impl Connection {
    /// All DAGs that these credentials may see.
    ///
    /// # Errors
    /// The list cannot be read.
    pub async fn dags(&self) -> Result<Listing<Dag>, CallError> {
        let call = self.get_at(&["dags"]).await?.query("order_by", "dag_id");
        self.list(&call, |dag: &Dag| dag.id.clone()).await
    }

    /// One DAG.
    ///
    /// # Errors
    /// *Absent* if there is none.
    pub async fn dag(&self, dag: &str) -> Result<Dag, CallError> {
        self.ask(&self.get_at(&["dags", dag]).await?).await
    }

    /// One DAG with its start date. Its zone cannot be asked for.
    ///
    /// # Errors
    /// *Absent* if there is none.
    pub async fn dag_details(&self, dag: &str) -> Result<DagDetails, CallError> {
        self.ask(&self.get_at(&["dags", dag, "details"]).await?).await
    }

    /// The tasks of a DAG that no other task comes after.
    ///
    /// # Errors
    /// *Absent* if there is no such DAG.
    pub async fn leaves(&self, dag: &str) -> Result<HashSet<String>, CallError> {
        #[derive(Deserialize)]
        struct Wire {
            tasks: Vec<Task>,
        }
        #[derive(Deserialize)]
        struct Task {
            task_id: String,
            // Without it nobody can say what is a leaf, so it must be there.
            downstream_task_ids: Vec<String>,
        }
        let wire: Wire = self.ask(&self.get_at(&["dags", dag, "tasks"]).await?).await?;
        let last = wire
            .tasks
            .into_iter()
            .filter(|t| t.downstream_task_ids.is_empty());
        Ok(last.map(|t| t.task_id).collect())
    }

    /// Pauses a DAG or lets it go on. A pause freezes its runs: those under way too, after their current task.
    ///
    /// # Errors
    /// It was not done, or the answer is missing.
    pub async fn pause_dag(&self, dag: &str, paused: bool) -> Result<Dag, CallError> {
        let call = self.call_at(Method::PATCH, &["dags", dag]).await?;
        self.ask(&call.json(json!({"is_paused": paused}))).await
    }

    /// How many runs these DAGs have in each state: the cheapest look at progress.
    ///
    /// # Errors
    /// It cannot be asked.
    pub async fn dag_stats(&self, dags: &[&str]) -> Result<Vec<DagStats>, CallError> {
        #[derive(Deserialize)]
        struct Wire {
            dags: Vec<DagStats>,
        }
        let mut call = self.get_at(&["dagStats"]).await?;
        match self.api().await? {
            Api::V1 => call = call.query("dag_ids", &dags.join(",")),
            Api::V2 => {
                for dag in dags {
                    call = call.query("dag_ids", dag);
                }
            }
        }
        let wire: Wire = self.ask(&call).await?;
        Ok(wire.dags)
    }

    /// The files with DAGs that cannot be read.
    ///
    /// # Errors
    /// It cannot be asked.
    pub async fn import_errors(&self) -> Result<Listing<ImportError>, CallError> {
        let call: Call = self.get_at(&["importErrors"]).await?;
        self.list(&call, |e: &ImportError| {
            (e.filename.clone(), e.timestamp, e.stack_trace.clone())
        })
        .await
    }
}
