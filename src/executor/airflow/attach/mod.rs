//! Somebody else's backfill on an Airflow: its levers.

mod actions;

use super::executor::Inner;
use crate::{
    domain::{
        attach::{Action, Asked, PoolSeen},
        ids::ChunkId,
    },
    executor::attach::{Levers, Next, Observer, Offer, Sight, Target},
    net::{AdapterError, Cause},
};
use async_trait::async_trait;
use std::sync::Arc;

/// The levers of one server.
pub struct AirflowLevers {
    pub(super) inner: Arc<Inner>,
}

struct Blind(AdapterError);

#[async_trait]
impl Observer for Blind {
    async fn look(&mut self) -> Result<Sight, AdapterError> {
        Err(self.0.clone())
    }
}

impl AirflowLevers {
    fn blind(&self) -> AdapterError {
        self.inner.error("look", Cause::Local, "this build cannot look")
    }
}

#[async_trait]
impl Levers for AirflowLevers {
    fn observer(&self, _: Target) -> Box<dyn Observer> {
        Box::new(Blind(self.blind()))
    }

    async fn next(&self, target: &Target, asked: &Asked) -> Result<Next, AdapterError> {
        actions::next(&self.inner, target, asked).await
    }

    async fn perform(&self, target: &Target, call: &str) -> Result<String, AdapterError> {
        actions::perform(&self.inner, target, call).await
    }

    async fn pool(&self, _: &str) -> Result<PoolSeen, AdapterError> {
        Err(self.blind())
    }

    async fn dry_run(&self, target: &Target, action: &Action) -> Result<Vec<ChunkId>, AdapterError> {
        actions::dry_run(&self.inner, target, action).await
    }

    async fn offers(&self) -> Result<Vec<Offer>, AdapterError> {
        Err(self.blind())
    }
}
