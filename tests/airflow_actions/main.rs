//! The levers of real Airflows: every action ends in the state that its words promise, also where its answers are lost.
//!
//! On the servers that all tests share these are ours: native backfills in 2022, of `events_daily` but for May and
//! June, of `newyork_daily` in March and November, of `pooled_daily`, `retry_daily` and `long_daily`; the pool
//! `default_pool`.

// Helpers of tests may fail loudly like tests themselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

#[path = "../airflow_servers/mod.rs"]
mod airflow_servers;
#[path = "../airflow_support/mod.rs"]
mod airflow_support;
mod days;
mod hand;
mod native;
