//! Floor 3: lag sources. One trait, one file or folder a kind of endpoint.
//!
//! A reading is a valid number with the time of its measurement, or *no sample* with the reason. Nothing is ever
//! replaced by zero, by the last value, or by a guess.

pub mod alertmanager;
pub mod burrow;
mod clock;
pub mod cloudwatch;
pub mod command;
pub mod kafka;
pub mod prometheus;
mod troubles;
pub mod validity;

use crate::{
    config::{SignalConfig, SourceConfig},
    domain::ids::Name,
    net::AdapterError,
};
use async_trait::async_trait;
use std::{sync::Arc, time::Duration};

/// One answer of a lag source.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// A finite number, at or above zero.
    Value {
        /// The number, in the signal's unit.
        value: f64,
        /// Age of the measurement when it was answered, against the *server's* clock.
        age: Duration,
        /// How far the server's clock is from ours, server minus ours, in milliseconds, where it tells.
        skew_ms: Option<i64>,
        /// What the number is made of, where there is more than one: groups, topics, shards, alerts. In the order of
        /// their names, cleaned and not longer than a line; the number is that of the worst, unless the source says
        /// otherwise.
        parts: Vec<Part>,
    },
    /// The endpoint answered, and there is no usable number in the answer.
    NoSample {
        /// What is wrong with it.
        health: NoSample,
        /// In words: `empty result`, `value is NaN`.
        why: String,
    },
    /// The endpoint did not answer.
    Failed(AdapterError),
}

/// One of several things that one signal watches.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What it is: `orders/clicks`. Control characters are gone from it.
    pub name: String,
    /// Its number in the signal's unit, or why there is none. One without a number makes the whole reading partial,
    /// unless the configuration says that it may be missing.
    pub value: Result<f64, String>,
    /// What has to be said beside its number, cleaned: `no members`. Empty: nothing.
    pub note: String,
}

impl Part {
    /// The worst of several: the largest number.
    pub fn worst(parts: &[Self]) -> Option<(&str, f64)> {
        let numbers = parts
            .iter()
            .filter_map(|p| Some((p.name.as_str(), *p.value.as_ref().ok()?)));
        numbers.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Why an answer is no sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSample {
    /// Nothing there: an empty vector.
    Missing,
    /// Only a part of what was expected.
    Partial,
    /// Not a number, infinite or negative.
    Invalid,
    /// The consumer does not move, whatever its lag is (law C1).
    Stalled,
}

/// A lag source.
#[async_trait]
pub trait LagSource: Send + Sync {
    /// Asks once. Always ends within its own deadline.
    async fn read(&self) -> Reading;

    /// What to say of a read that has not ended for so long that the signal is about to count as not seen; `None`: no
    /// more than that there is no answer. Such a read goes on, and what it brings counts.
    fn late(&self, _waited: Duration) -> Option<AdapterError> {
        None
    }

    /// What the endpoint knows of the last `since`: how long ago, and the number then, oldest first, about one each
    /// `step`. What was no valid number then is left out, never filled. Empty: it keeps no past. For charts only; a
    /// number of the past is no sample to act on.
    ///
    /// # Errors
    /// The endpoint did not answer, or only in part.
    async fn history(&self, _since: Duration, _step: Duration) -> Result<Vec<(Duration, f64)>, AdapterError> {
        Ok(Vec::new())
    }
}

/// Makes the source of a configured signal. Nothing is connected yet.
///
/// # Errors
/// A url, header or proxy that cannot be used.
pub fn build(name: &Name, config: &SignalConfig) -> Result<Arc<dyn LagSource>, AdapterError> {
    match &config.source {
        SourceConfig::Kafka(source) => Ok(Arc::new(kafka::Kafka::new(name.as_str(), source, config.unit))),
        SourceConfig::Prometheus(source) => Ok(Arc::new(prometheus::Prometheus::new(name.as_str(), source)?)),
        SourceConfig::Alertmanager(source) => {
            Ok(Arc::new(alertmanager::Alertmanager::new(name.as_str(), source)?))
        }
        SourceConfig::Burrow(source) => Ok(Arc::new(burrow::Burrow::new(name.as_str(), source)?)),
        SourceConfig::CloudWatch(source) => Ok(Arc::new(cloudwatch::CloudWatch::new(name.as_str(), source)?)),
        SourceConfig::Command(source) => Ok(Arc::new(command::Command::new(
            name.as_str(),
            source,
            config.interval,
        ))),
    }
}
