//! The calls, as methods of a connection.
//!
//! What only one of the two APIs has is an error of the kind *unsupported* on the other; it is not sent. A parameter
//! that an older 3.x does not know would be ignored without a word, so those are not sent either.

mod backfills;
mod dags;
mod pages;
mod pools;
mod runs;
mod tasks;

pub use backfills::BackfillOrder;
pub use pages::Listing;
pub(super) use pages::as_of;
pub use runs::{ALL_DAGS, Mark, Rerun, RunQuery, Trigger, Window};
pub use tasks::TaskPlace;

use super::{
    connection::{Call, Connection},
    error::CallError,
    wire::{Api, Health, Version},
};
use reqwest::Method;

impl Connection {
    /// How the parts of the server are. Needs no permission.
    ///
    /// # Errors
    /// It cannot be asked.
    pub async fn health(&self) -> Result<Health, CallError> {
        let path = match self.api().await? {
            Api::V1 => "/api/v1/health",
            Api::V2 => "/api/v2/monitor/health",
        };
        self.ask(&Call::get(path).open()).await
    }

    /// A GET below the API of this version.
    async fn get_at(&self, segments: &[&str]) -> Result<Call, CallError> {
        self.call_at(Method::GET, segments).await
    }

    /// A call below the API of this version.
    async fn call_at(&self, method: Method, segments: &[&str]) -> Result<Call, CallError> {
        let path = self.path(self.api().await?, segments)?;
        Ok(Call::new(method, &path))
    }

    /// The version, if it is a 3.x of at least this minor version.
    async fn at_least_3(&self, minor: u32, what: &str) -> Result<Version, CallError> {
        let version = self.version().await?;
        if version.api == Api::V2 && version.is_at_least(3, minor) {
            return Ok(version);
        }
        Err(self.unsupported(what, &format!("3.{minor} and this is {}", version.text)))
    }
}
