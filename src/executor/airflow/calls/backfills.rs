//! Native backfills (3.0).

use super::{
    super::{
        budget::Purpose,
        connection::{Call, Connection},
        dates::written,
        error::CallError,
        wire::{Backfill, BackfillDay, Reprocess},
    },
    pages::Listing,
};
use crate::domain::Time;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const WHAT: &str = "make native backfills";

/// A native backfill to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct BackfillOrder {
    /// Its DAG, which must have no unfinished one.
    pub dag: String,
    /// The first date, inclusive and literal: of a DAG in another zone the hour counts.
    pub from: Time,
    /// The last date, inclusive and literal.
    pub to: Time,
    /// How many of its runs run at once, at least one; cannot be changed later.
    pub max_active_runs: std::num::NonZeroU32,
    /// The newest day first.
    pub newest_first: bool,
    /// Which days with a run are taken too.
    pub reprocess: Reprocess,
    /// The parameters of its runs.
    pub conf: Option<Map<String, Value>>,
}

impl BackfillOrder {
    fn body(&self) -> Value {
        let mut body = json!({
            "dag_id": self.dag,
            "from_date": written(self.from),
            "to_date": written(self.to),
            "max_active_runs": self.max_active_runs,
            "run_backwards": self.newest_first,
            "reprocess_behavior": self.reprocess.as_str(),
        });
        if let (Some(conf), Some(fields)) = (&self.conf, body.as_object_mut()) {
            fields.insert("dag_run_conf".into(), Value::Object(conf.clone()));
        }
        body
    }
}

impl Connection {
    /// The native backfills of a DAG, the newest first.
    ///
    /// # Errors
    /// *Unsupported* on 2.x.
    pub async fn backfills(&self, dag: &str) -> Result<Listing<Backfill>, CallError> {
        let call = self
            .backfill_call(Method::GET, &[])
            .await?
            .query("dag_id", dag)
            .query("order_by", "id");
        let mut listing = self.list(&call, |b: &Backfill| b.id).await?;
        listing.rows.sort_by_key(|b| std::cmp::Reverse(b.id));
        Ok(listing)
    }

    /// One native backfill.
    ///
    /// # Errors
    /// *Absent* if there is none of that number; *unsupported* on 2.x.
    pub async fn backfill(&self, id: u64) -> Result<Backfill, CallError> {
        self.ask(&self.backfill_call(Method::GET, &[&id.to_string()]).await?)
            .await
    }

    /// The days that a native backfill would run, in its order. Does not see that another one is unfinished.
    ///
    /// # Errors
    /// *Invalid* with the server's reason; *unsupported* on 2.x.
    pub async fn preview_backfill(&self, order: &BackfillOrder) -> Result<Vec<BackfillDay>, CallError> {
        #[derive(Deserialize)]
        struct Wire {
            backfills: Vec<BackfillDay>,
        }
        let call = self
            .backfill_call(Method::POST, &["dry_run"])
            .await?
            .purpose(Purpose::Read);
        let wire: Wire = self.ask(&call.long().json(order.body())).await?;
        Ok(wire.backfills)
    }

    /// Makes a native backfill; all its runs are made within this call, so it may take minutes.
    ///
    /// # Errors
    /// *Conflict* while the DAG has an unfinished one. After an error that leaves it open whether it was made, look at
    /// [`Self::backfills`] before asking again.
    pub async fn create_backfill(&self, order: &BackfillOrder) -> Result<Backfill, CallError> {
        let call = self.backfill_call(Method::POST, &[]).await?;
        self.ask(&call.long().json(order.body())).await
    }

    /// Starts no new day; running days end.
    ///
    /// # Errors
    /// *Conflict* when it is over.
    pub async fn pause_backfill(&self, id: u64) -> Result<Backfill, CallError> {
        self.steer(id, "pause").await
    }

    /// Goes on.
    ///
    /// # Errors
    /// *Conflict* when it is over.
    pub async fn unpause_backfill(&self, id: u64) -> Result<Backfill, CallError> {
        self.steer(id, "unpause").await
    }

    /// Ends it: its queued days become failed, running ones go on.
    ///
    /// # Errors
    /// *Conflict* when it is over.
    pub async fn cancel_backfill(&self, id: u64) -> Result<Backfill, CallError> {
        self.steer(id, "cancel").await
    }

    async fn steer(&self, id: u64, verb: &str) -> Result<Backfill, CallError> {
        self.ask(&self.backfill_call(Method::PUT, &[&id.to_string(), verb]).await?)
            .await
    }

    async fn backfill_call(&self, method: Method, rest: &[&str]) -> Result<Call, CallError> {
        self.at_least_3(0, WHAT).await?;
        let segments: Vec<&str> = std::iter::once("backfills").chain(rest.iter().copied()).collect();
        self.call_at(method, &segments).await
    }
}
