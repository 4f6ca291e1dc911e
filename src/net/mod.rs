//! Floor 2.5: what adapters share when they talk to the outside.
//!
//! [`http::Endpoint`] is the one way out over HTTP: deadlines, a cap on every body, credentials fetched per request,
//! and every failure as an [`AdapterError`] with a cause and the other side's own words, without secrets.
//! [`refusal::Refusal`] is the one law of what happens to credentials that were refused.

mod classify;
mod client;
mod credentials;
pub mod error;
pub mod http;
mod message;
pub mod proxy;
mod redirect;
pub mod refusal;
mod tls;
mod words;

pub use credentials::Login;
pub use error::{AdapterError, Cause};
pub use http::{Endpoint, EndpointSettings, Surroundings};
pub use message::{Answer, Request};

/// Chooses the cryptography of every connection of this process. Each client of ours calls it; whoever builds a client
/// of their own calls it before.
pub fn use_ring() {
    // Fails only where there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
