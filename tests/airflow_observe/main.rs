//! Looking at somebody else's backfill on an Airflow: what is seen is what the server has, whatever comes and goes
//! while it is read, and it costs little. Against a stand-in with a memory, of 3.x and 2.x.

// Helpers of tests may fail loudly like tests themselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "../airflow_support/mod.rs"]
mod airflow_support;

mod cost;
mod days;
mod offers;
mod states;
mod truth;
mod world;
