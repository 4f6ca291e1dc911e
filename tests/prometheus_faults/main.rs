//! What a Prometheus, or what stands in its place, can do to us, and what a read makes of it. Real servers do not do
//! this on demand; `prometheus_real.rs` is about those.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod answers;
mod bodies;
mod login;
mod past;
mod series;
mod stand_in;
mod tls;

use backfill::{
    config::{HttpConfig, PrometheusConfig},
    net::{AdapterError, Surroundings},
    signals::{LagSource, NoSample, Reading, prometheus::Prometheus},
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs_f64()
}

fn config(url: &str) -> PrometheusConfig {
    PrometheusConfig::at(HttpConfig::at(url), "sum(lag{group=\"orders\"})")
}

/// The source of a configuration, outside of any proxy and certificate of this machine's environment.
fn source(config: &PrometheusConfig) -> Prometheus {
    Prometheus::within("orders", config, Surroundings::default()).unwrap()
}

async fn read(config: &PrometheusConfig) -> Reading {
    source(config).read().await
}

fn value(reading: Reading) -> (f64, Duration) {
    match reading {
        Reading::Value { value, age, .. } => (value, age),
        other => panic!("no value: {other:?}"),
    }
}

fn no_sample(reading: Reading) -> (NoSample, String) {
    match reading {
        Reading::NoSample { health, why } => (health, why),
        other => panic!("no *no sample*: {other:?}"),
    }
}

fn failed(reading: Reading) -> AdapterError {
    match reading {
        Reading::Failed(error) => error,
        other => panic!("not failed: {other:?}"),
    }
}

/// The answer to the combined query: one value, evaluated at `at`, whose oldest sample is from `measured`.
fn combined(value: &str, at: f64, measured: f64) -> String {
    format!(
        r#"{{"status":"success","data":{{"resultType":"vector","result":[
            {{"metric":{{"backfill_q":"value"}},"value":[{at:.3},"{value}"]}},
            {{"metric":{{"backfill_q":"age"}},"value":[{at:.3},"{measured:.3}"]}}]}}}}"#
    )
}

/// A good answer: 42, measured half a second ago.
fn good() -> String {
    combined("42", now(), now() - 0.5)
}
