//! Against a real broker (`services/kafka.sh` starts it, once for all tests here, and stops it when this process ends):
//! the one of a Python package, or Apache Kafka where `KAFKA_HOME` names one.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod broker;
mod faults;
mod groups;
mod guarded;
mod home;
mod odd;
mod seconds;

use backfill::{
    config::{KafkaConfig, Unit},
    net::AdapterError,
    signals::{LagSource, NoSample, Part, Reading, kafka::Kafka},
};
use broker::Broker;
use std::time::Duration;

/// These groups, read from the shared broker.
fn config(groups: &[&str]) -> KafkaConfig {
    let groups = groups.iter().map(|g| (*g).to_owned()).collect();
    KafkaConfig {
        deadline: Duration::from_secs(20),
        ..KafkaConfig::at(vec![Broker::get().line("KAFKA_BROKERS").to_owned()], groups)
    }
}

fn source(config: &KafkaConfig, unit: Unit) -> Kafka {
    Kafka::new("orders", config, unit)
}

async fn read(config: &KafkaConfig, unit: Unit) -> Reading {
    source(config, unit).read().await
}

fn value(reading: Reading) -> (f64, Vec<Part>) {
    match reading {
        Reading::Value { value, parts, .. } => (value, parts),
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
