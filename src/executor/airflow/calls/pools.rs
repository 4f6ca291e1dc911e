//! Pools: the live throttle.

use super::{
    super::{
        connection::Connection,
        error::CallError,
        wire::{Api, Pool},
    },
    pages::Listing,
};
use reqwest::Method;
use serde_json::json;

/// The pool of tasks that name none; it alone takes its slots without its name.
const DEFAULT_POOL: &str = "default_pool";

impl Connection {
    /// All pools.
    ///
    /// # Errors
    /// The list cannot be read.
    pub async fn pools(&self) -> Result<Listing<Pool>, CallError> {
        let call = self.get_at(&["pools"]).await?;
        self.list(&call, |pool: &Pool| pool.name.clone()).await
    }

    /// One pool.
    ///
    /// # Errors
    /// *Absent* if there is none.
    pub async fn pool(&self, name: &str) -> Result<Pool, CallError> {
        self.ask(&self.get_at(&["pools", name]).await?).await
    }

    /// Gives a pool this many slots; -1 = without limit, 0 = running tasks end and none starts. The rest of it stays
    /// as it is in `pool`.
    ///
    /// # Errors
    /// *Absent* if there is no such pool.
    pub async fn set_pool_slots(&self, pool: &Pool, slots: i64) -> Result<Pool, CallError> {
        let call = self
            .call_at(Method::PATCH, &["pools", &pool.name])
            .await?
            .query("update_mask", "slots");
        let body = match self.api().await? {
            Api::V2 if pool.name != DEFAULT_POOL => json!({
                "pool": pool.name, "slots": slots, "include_deferred": pool.include_deferred,
            }),
            _ => json!({"slots": slots}),
        };
        self.ask(&call.json(body)).await
    }
}
