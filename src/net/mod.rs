//! Floor 2.5: what adapters share when they talk to the outside.
//!
//! [`http::Endpoint`] is the one way out over HTTP: deadlines, a cap on every body, credentials fetched per request,
//! and every failure as an [`AdapterError`] with a cause and the other side's own words, without secrets.

mod classify;
mod credentials;
pub mod error;
pub mod http;
pub mod proxy;
mod tls;
mod words;

pub use error::{AdapterError, Cause};
pub use http::{Answer, Endpoint, EndpointSettings, Request, Surroundings};
