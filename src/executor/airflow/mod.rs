//! Airflow 2 and 3, over their REST APIs.
//!
//! This is the wire: [`Connection`] is one server, with its version, credentials, request budget and counters; its
//! methods are the calls, of both APIs where both have them. Every answer is of the same types ([`wire`]), whatever
//! the version.

mod auth;
mod budget;
mod calls;
mod clock;
mod connection;
mod dates;
mod error;
mod jwt;
pub mod wire;

pub use auth::{Auth, Standing};
pub use budget::{Budget, Purpose};
pub use calls::{ALL_DAGS, BackfillOrder, Listing, Mark, Rerun, RunQuery, TaskPlace, Trigger, Window};
pub use clock::{Clock, SystemClock};
pub use connection::{CALL_DEADLINE, Connection, ConnectionSettings, LONG_DEADLINE, Usage};
pub use error::{CallError, Kind};
