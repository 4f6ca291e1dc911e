//! Somebody else's backfill on an Airflow: looking at it, and the levers that Airflow has for it.
//!
//! One who looks holds the runs of the window ([`held`]): read once in spans of dates ([`read`]), then kept up to date
//! by a few small questions a look ([`look`], [`rounds`], [`search`]). Which day a run belongs to is told by [`days`],
//! why nothing moves by [`facts`]. The levers themselves are [`actions`].

mod actions;
mod days;
mod facts;
mod find;
mod held;
mod look;
mod offers;
mod pool;
mod read;
mod rounds;
mod search;

pub use days::{likely_zone, zone_note};
pub(super) use pool::Neighbours;

use super::executor::Inner;
use crate::{
    domain::{
        attach::{Action, Asked, PoolSeen},
        ids::ChunkId,
    },
    executor::attach::{Found, Levers, Next, Observer, Offer, Target},
    net::AdapterError,
};
use async_trait::async_trait;
use chrono_tz::Tz;
use std::{sync::Arc, time::Duration};

/// The levers of one server.
#[derive(Clone)]
pub struct AirflowLevers {
    pub(super) inner: Arc<Inner>,
}

#[async_trait]
impl Levers for AirflowLevers {
    fn interval(&self) -> Duration {
        self.inner.interval
    }

    fn observer(&self, target: Target) -> Box<dyn Observer> {
        Box::new(look::Eye::new(Arc::clone(&self.inner), target))
    }

    async fn next(&self, target: &Target, asked: &Asked) -> Result<Next, AdapterError> {
        actions::next(&self.inner, target, asked).await
    }

    async fn perform(&self, target: &Target, call: &str) -> Result<String, AdapterError> {
        actions::perform(&self.inner, target, call).await
    }

    async fn pool(&self, name: &str) -> Result<PoolSeen, AdapterError> {
        Ok(pool::seen(&self.inner, name, None).await?)
    }

    async fn dry_run(&self, target: &Target, action: &Action) -> Result<Vec<ChunkId>, AdapterError> {
        actions::dry_run(&self.inner, target, action).await
    }

    async fn find(
        &self,
        dag: Option<&str>,
        native: Option<u64>,
        zone: Option<Tz>,
    ) -> Result<Found, AdapterError> {
        Ok(find::find(&self.inner.server, dag, native, zone).await?)
    }

    async fn offers(&self) -> Result<Vec<Offer>, AdapterError> {
        Ok(offers::offers(&self.inner.server).await?)
    }
}

#[cfg(test)]
mod testing {
    use super::super::wire::Run;
    use crate::domain::spec::Spec;
    use serde_json::{Value, json};

    /// An order of these days.
    pub fn order(zone: &str, first: &str, last: &str, granularity: &str) -> Spec {
        serde_json::from_value(json!({
            "name": "events", "target": "events_daily", "environment": null, "start": first, "end": last,
            "granularity": granularity, "timezone": zone, "executor": "airflow", "command": [],
            "dag": {"id": "events_daily"}, "attach": {"native": null}, "cwd": "/", "env_pass": [], "env": {},
            "env_secrets": [], "max_limit": 1, "order": "oldest-first", "signals": [], "on_failure": "continue",
            "profiles": [{"name": "default", "memory": null, "deadline_ms": null}], "lanes": {}, "source": {},
            "idempotent": true,
        }))
        .unwrap()
    }

    /// A run with these fields.
    pub fn run(fields: Value) -> Run {
        let mut all =
            json!({"dag_run_id": "r", "dag_id": "events_daily", "state": "queued", "run_type": "manual"});
        all.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }
}
