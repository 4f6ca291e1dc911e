//! Airflow 2 and 3, over their REST APIs.
//!
//! This is the wire: [`Connection`] is one server, with its version, credentials, request budget and counters; its
//! methods are the calls, of both APIs where both have them. Every answer is of the same types ([`wire`]), whatever
//! the version.
//!
//! On it stand [`AirflowExecutor`], which runs chunks as DAG runs, and [`AirflowLevers`], which looks at what others
//! started and has a hand in it.

mod attach;
mod auth;
mod budget;
mod calls;
mod clock;
mod connection;
mod dates;
mod deadline;
mod drive;
mod error;
mod executor;
mod health;
mod inside;
mod intent;
mod jwt;
mod lines;
mod survey;
mod verdict;
mod watch;
pub mod wire;

pub use attach::{AirflowLevers, likely_zone, zone_note};
pub use auth::{Auth, Standing};
pub use budget::{Budget, Purpose};
pub use calls::{ALL_DAGS, BackfillOrder, Listing, Mark, Rerun, RunQuery, TaskPlace, Trigger, Window};
pub use clock::{Clock, SystemClock};
pub use connection::{CALL_DEADLINE, Connection, ConnectionSettings, LONG_DEADLINE, Usage};
pub use error::{CallError, Kind};
pub use executor::{AirflowExecutor, AirflowSetup};
pub use survey::{DagFinding, Survey, survey};
