//! A lag source that is a Burrow: its HTTP API, version 3.
//!
//! **Status before level.** Burrow judges whether a group moves. A partition that stopped, stalled or was rewound makes
//! the reading *stalled*, whatever its lag is (law C1).
//!
//! **Not found.** Of a group that it does not know Burrow says, without an error, that its lag is 0. The HTTP status
//! decides, and the number is not read.
//!
//! **Age.** When its brokers are gone Burrow goes on repeating its last numbers and says that it is well. So a number is
//! as old as the newest commit that it is made of, on Burrow's clock.

mod answer;
mod verdict;

use super::{LagSource, NoSample, Part, Reading, clock::Clock, troubles::Troubles};
use crate::{
    config::BurrowConfig,
    net::{AdapterError, Endpoint, EndpointSettings, Request, Surroundings},
};
use answer::Clusters;
use async_trait::async_trait;
use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};
use verdict::{Measured, listed, shown, verdict};

/// The most bytes of an answer: some ten thousand partitions.
const BODY_CAP: usize = 8 * 1024 * 1024;

/// The source.
#[derive(Debug)]
pub struct Burrow {
    endpoint: Endpoint,
    config: BurrowConfig,
}

impl Burrow {
    /// A source in the environment of this process.
    ///
    /// # Errors
    /// A url, header or proxy that cannot be used.
    pub fn new(name: &str, config: &BurrowConfig) -> Result<Self, AdapterError> {
        Self::within(name, config, Surroundings::from_env())
    }

    /// As [`Self::new`], with proxies and certificates given instead of taken from the environment.
    ///
    /// # Errors
    /// A url, header or proxy that cannot be used.
    pub fn within(
        name: &str,
        config: &BurrowConfig,
        surroundings: Surroundings,
    ) -> Result<Self, AdapterError> {
        Ok(Self {
            endpoint: Endpoint::new(EndpointSettings::of(name, &config.http, BODY_CAP, surroundings))?,
            config: config.clone(),
        })
    }

    /// One group after the other, so that a refused login is refused once.
    async fn try_read(&self) -> Result<Reading, AdapterError> {
        let end = Instant::now() + self.endpoint.deadline();
        let mut heard = Heard::default();
        for group in &self.config.groups {
            let answer = self.endpoint.send(&self.lag_of(group).within(left(end))).await?;
            let (found, answer) = answer::group(answer, &self.config.cluster, group)?;
            let clock = Clock::of(&answer);
            match found {
                Some(found) => heard.add(&found.group, verdict(&self.config, &found, clock.now_ms), clock),
                None => {
                    let why = self.unknown(end).await?;
                    heard.troubles.add(NoSample::Missing, group, &why);
                }
            }
        }
        Ok(heard.reading())
    }

    fn lag_of(&self, group: &str) -> Request {
        Request::get(&format!(
            "/v3/kafka/{}/consumer/{}/lag",
            escaped(&self.config.cluster),
            escaped(group)
        ))
    }

    /// Why a group is not found: Burrow says the same of an unknown cluster.
    async fn unknown(&self, end: Instant) -> Result<String, AdapterError> {
        let answer = self
            .endpoint
            .ask(&Request::get("/v3/kafka").within(left(end)))
            .await?;
        let Clusters { clusters } = answer.json()?;
        if clusters.contains(&self.config.cluster) {
            return Ok("Burrow knows no such group (gone, renamed, a typo, or never committed)".to_owned());
        }
        let known = if clusters.is_empty() {
            "none at all".to_owned()
        } else {
            listed(&clusters)
        };
        Ok(format!(
            "Burrow knows no cluster {}, only {known}",
            shown(&self.config.cluster)
        ))
    }
}

#[async_trait]
impl LagSource for Burrow {
    async fn read(&self) -> Reading {
        self.try_read().await.unwrap_or_else(Reading::Failed)
    }
}

/// What was heard of the groups so far.
#[derive(Debug, Default)]
struct Heard {
    parts: Vec<Part>,
    troubles: Troubles,
    age: Duration,
    skew_ms: Option<i64>,
}

impl Heard {
    fn add(&mut self, group: &str, verdict: Result<Measured, (NoSample, String)>, clock: Clock) {
        self.skew_ms = self.skew_ms.or(clock.skew_ms);
        match verdict {
            Ok(measured) => {
                // The reading is as old as its oldest part.
                self.age = self.age.max(measured.age);
                self.parts.push(measured.part);
            }
            Err((health, why)) => self.troubles.add(health, group, &why),
        }
    }

    /// The worst group's number, if all have one.
    fn reading(mut self) -> Reading {
        if let Some(reading) = self.troubles.reading() {
            return reading;
        }
        self.parts.sort_by(|a, b| a.name.cmp(&b.name));
        match Part::worst(&self.parts) {
            Some((_, value)) => Reading::Value {
                value,
                age: self.age,
                skew_ms: self.skew_ms,
                parts: self.parts,
            },
            None => Reading::NoSample {
                health: NoSample::Missing,
                why: "no group to read".to_owned(),
            },
        }
    }
}

fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

/// A name as one segment of a path.
fn escaped(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}
