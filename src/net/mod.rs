//! Floor 2.5: what adapters share when they talk to the outside.

pub mod error;

pub use error::{AdapterError, Cause};
