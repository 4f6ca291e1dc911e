//! The wire of an Airflow: what is asked, what is understood, and what is made of refusals. Against stand-ins that
//! answer as real servers of 3.3.2 and 2.11.2 were recorded.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../airflow_support/mod.rs"]
mod airflow_support;

mod auth;
mod auth_v1;
mod calls;
mod errors;
mod pages;
mod samples;
mod tolerance;
mod traffic;
