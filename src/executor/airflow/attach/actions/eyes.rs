//! What actions look at. A server has these eyes, and so has the model of one in tests.

use super::call::bare_pool;
use crate::{
    executor::airflow::{
        calls::{BackfillOrder, RunQuery},
        connection::Connection,
        error::{CallError, Kind},
        wire::{Api, Backfill, BackfillDay, Dag, Pool, Run, TaskInstance},
    },
    net::{AdapterError, Cause},
};
use async_trait::async_trait;
use std::time::Duration;

/// Reads only.
#[async_trait]
pub trait Eyes: Send + Sync {
    /// Which API it has.
    async fn api(&self) -> Result<Api, CallError>;
    /// A DAG, if there is one of that id.
    async fn dag(&self, dag: &str) -> Result<Option<Dag>, CallError>;
    /// A pool, if there is one of that name.
    async fn pool(&self, name: &str) -> Result<Option<Pool>, CallError>;
    /// The native backfills of a DAG, the newest first; none on 2.x.
    async fn natives(&self, dag: &str) -> Result<Vec<Backfill>, CallError>;
    /// The runs of a query, all of them.
    async fn runs(&self, query: &RunQuery) -> Result<Vec<Run>, CallError>;
    /// How many runs a query has.
    async fn count(&self, query: &RunQuery) -> Result<u64, CallError>;
    /// The tasks of a run; none if there is no such run.
    async fn tasks(&self, dag: &str, run: &str) -> Result<Vec<TaskInstance>, CallError>;
    /// The days that a native backfill would run.
    async fn preview(&self, order: &BackfillOrder) -> Result<Vec<BackfillDay>, CallError>;
}

#[async_trait]
impl Eyes for Connection {
    async fn api(&self) -> Result<Api, CallError> {
        Self::api(self).await
    }

    async fn dag(&self, dag: &str) -> Result<Option<Dag>, CallError> {
        present(Self::dag(self, dag).await)
    }

    async fn pool(&self, name: &str) -> Result<Option<Pool>, CallError> {
        match present(Self::pool(self, name).await) {
            // So 2.11 answers about a pool without limit.
            Err(e) if e.kind == Kind::Server && e.error.detail.contains("inf is not of type") => {
                Ok(Some(Pool {
                    slots: -1,
                    ..bare_pool(name, false)
                }))
            }
            other => other,
        }
    }

    async fn natives(&self, dag: &str) -> Result<Vec<Backfill>, CallError> {
        match self.backfills(dag).await {
            Ok(listing) => Ok(listing.rows),
            Err(e) if e.kind == Kind::Unsupported => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<Run>, CallError> {
        let listing = Self::runs(self, query).await?;
        if !listing.torn {
            return Ok(listing.rows);
        }
        // A run that was passed over would look as if there were none.
        let words = "runs were deleted while they were read: one may be missing";
        let error = AdapterError::new(
            self.name(),
            "read runs",
            Duration::ZERO,
            Cause::NotUnderstood,
            words,
        );
        Err(CallError::new(Kind::NotUnderstood, error))
    }

    async fn count(&self, query: &RunQuery) -> Result<u64, CallError> {
        self.count_runs(query).await
    }

    async fn tasks(&self, dag: &str, run: &str) -> Result<Vec<TaskInstance>, CallError> {
        let tasks = present(Self::tasks(self, dag, run).await)?;
        Ok(tasks.map_or_else(Vec::new, |listing| listing.rows))
    }

    async fn preview(&self, order: &BackfillOrder) -> Result<Vec<BackfillDay>, CallError> {
        self.preview_backfill(order).await
    }
}

fn present<T>(outcome: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind == Kind::Absent => Ok(None),
        Err(e) => Err(e),
    }
}
