//! A lag source that asks Kafka's brokers: committed offsets of consumer groups against the ends of their partitions.
//!
//! **Order.** Commits are read first and ends second, so that what comes in between can only overstate the lag, never
//! make it negative.
//!
//! **What is no number.** A group that is not there, partitions without a commit, a commit behind the end (the topic was
//! recreated, or somebody set the offset), a group that stands still: each is *no sample* with its words. Nothing is
//! cut to zero and nothing is left out in silence.
//!
//! **Seconds.** Brokers do not tell an age. For lag in seconds the first record that a group has not read is fetched
//! from each partition that is behind, and the age is this host's clock minus the record's own time.
//!
//! **Connections** are kept between reads and made anew after a failure. Every read ends within its deadline.

mod client;
mod connect;
mod lag;
mod stall;
mod verdict;

#[cfg(test)]
mod source_tests;

use super::{LagSource, Reading};
use crate::{
    config::{Isolation, KafkaConfig, Unit},
    net::{AdapterError, Cause},
};
use async_trait::async_trait;
use chrono::Utc;
use client::{Brokers, Edge, Failure, Listed};
use connect::{Connect, Dialer};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use lag::{Commit, Group, Log, Measured, Place, Tables, Topic};
use stall::Memory;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::Mutex;
use verdict::{Records, Unread, Wanted, When};

/// How many groups are asked for at the same time.
const AT_ONCE: usize = 8;
/// The share of the deadline that calls may use: one that ends by itself knows more about why than one that is cut off.
const FOR_CALLS: f64 = 0.95;
/// The share of the deadline after which records are no longer waited for: what was read until then still counts.
const FOR_RECORDS: f64 = 0.9;

/// The source.
pub struct Kafka {
    name: String,
    config: KafkaConfig,
    unit: Unit,
    connect: Box<dyn Connect>,
    born: Instant,
    state: Mutex<State>,
}

/// What is kept between reads.
#[derive(Default)]
struct State {
    brokers: Option<Arc<dyn Brokers>>,
    memory: Memory,
}

impl std::fmt::Debug for Kafka {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kafka")
            .field("name", &self.name)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Kafka {
    /// A source that has not connected yet. Its numbers are in `unit`.
    pub fn new(name: &str, config: &KafkaConfig, unit: Unit) -> Self {
        Self::with(name, config, unit, Box::new(Dialer::new(config)))
    }

    fn with(name: &str, config: &KafkaConfig, unit: Unit, connect: Box<dyn Connect>) -> Self {
        Self {
            name: name.to_owned(),
            config: config.clone(),
            unit,
            connect,
            born: Instant::now(),
            state: Mutex::new(State::default()),
        }
    }

    async fn try_read(&self, state: &mut State, began: Instant) -> Result<Reading, Failure> {
        let until = began + self.config.deadline.mul_f64(FOR_CALLS);
        let brokers = match &state.brokers {
            Some(brokers) => Arc::clone(brokers),
            None => {
                let brokers = self.connect.connect(left(until)).await?;
                Arc::clone(state.brokers.insert(brokers))
            }
        };
        let asked = Instant::now();
        let tables = self.tables(&*brokers, until).await?;
        let now = self.born.elapsed();
        let measured = lag::measure(&self.config, &tables, &mut state.memory, now);
        let records = match self.unit {
            Unit::Seconds => self.records(&*brokers, &measured, began).await,
            Unit::Messages | Unit::Alerts => Records::new(),
        };
        let when = When {
            wall_ms: Utc::now().timestamp_millis(),
            age: asked.elapsed(),
        };
        Ok(verdict::reading(
            &self.config,
            self.unit,
            measured,
            &records,
            when,
        ))
    }

    /// Commits first, then what the topics look like, then their ends.
    async fn tables(&self, brokers: &dyn Brokers, until: Instant) -> Result<Tables, Failure> {
        let groups = self.groups(brokers, until).await?;
        let names: BTreeSet<String> = groups
            .iter()
            .flat_map(|g| g.topics(&self.config.topics))
            .collect();
        if names.is_empty() {
            return Ok(Tables {
                groups,
                ..Tables::default()
            });
        }
        let topics = brokers.topics(&names, left(until)).await?;
        let places: BTreeSet<Place> = topics
            .iter()
            .flat_map(|(name, topic)| match topic {
                Topic::There { partitions, .. } => {
                    let of = partitions.iter().map(|p| Place::new(name.as_str(), *p));
                    of.collect::<Vec<_>>()
                }
                Topic::Gone | Topic::Unknown(_) => Vec::new(),
            })
            .collect();
        let logs = self.logs(brokers, &groups, &places, until).await?;
        Ok(Tables { groups, topics, logs })
    }

    async fn groups(&self, brokers: &dyn Brokers, until: Instant) -> Result<Vec<Group>, Failure> {
        let each: Vec<_> = self
            .config
            .groups
            .iter()
            .map(|name| commits_of(brokers, name, until))
            .collect();
        let commits = stream::iter(each)
            .buffered(AT_ONCE)
            .try_collect::<Vec<(String, BTreeMap<Place, Commit>)>>();
        let members = brokers.members(&self.config.groups, left(until));
        let (commits, mut members) = futures::try_join!(commits, members)?;
        let group = |(name, commits): (String, _)| Group {
            members: members.remove(&name).unwrap_or_default(),
            name,
            commits,
        };
        Ok(commits.into_iter().map(group).collect())
    }

    async fn logs(
        &self,
        brokers: &dyn Brokers,
        groups: &[Group],
        places: &BTreeSet<Place>,
        until: Instant,
    ) -> Result<BTreeMap<Place, Result<Log, String>>, Failure> {
        if places.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (mut starts, ends) = futures::try_join!(
            brokers.offsets(places, Edge::Start, left(until)),
            brokers.offsets(places, Edge::End(self.config.isolation), left(until)),
        )?;
        let mut highs = self.highs(brokers, groups, &ends, until).await?;
        let log = |(place, end): (Place, Listed)| {
            let log = log_of(starts.remove(&place), end, highs.remove(&place));
            (place, log)
        };
        Ok(ends.into_iter().map(log).collect())
    }

    /// Where a commit lies behind the last stable offset, only the end of the log tells whether that can be.
    async fn highs(
        &self,
        brokers: &dyn Brokers,
        groups: &[Group],
        ends: &BTreeMap<Place, Listed>,
        until: Instant,
    ) -> Result<BTreeMap<Place, Listed>, Failure> {
        if self.config.isolation == Isolation::ReadUncommitted {
            return Ok(BTreeMap::new());
        }
        let doubtful: BTreeSet<Place> = groups
            .iter()
            .flat_map(|group| &group.commits)
            .filter(|(place, commit)| match (commit, ends.get(*place)) {
                (Commit::At { offset, .. }, Some(Ok((end, _)))) => offset > end,
                _ => false,
            })
            .map(|(place, _)| place.clone())
            .collect();
        if doubtful.is_empty() {
            return Ok(BTreeMap::new());
        }
        let edge = Edge::End(Isolation::ReadUncommitted);
        brokers.offsets(&doubtful, edge, left(until)).await
    }

    async fn records(&self, brokers: &dyn Brokers, measured: &[Measured], began: Instant) -> Records {
        let until = began + self.config.deadline.mul_f64(FOR_RECORDS);
        let mut each = Vec::new();
        for group in measured {
            let wanted = verdict::wanted(group, self.config.most_fetches);
            if !wanted.is_empty() {
                each.push(self.records_of(brokers, &group.group, wanted, until));
            }
        }
        stream::iter(each).buffer_unordered(AT_ONCE).collect().await
    }

    async fn records_of(
        &self,
        brokers: &dyn Brokers,
        group: &str,
        wanted: Vec<Wanted>,
        until: Instant,
    ) -> (String, BTreeMap<Place, Unread>) {
        let found = brokers.unread(&wanted, self.config.isolation, left(until)).await;
        (group.to_owned(), found)
    }

    fn failed(&self, failure: &Failure, began: Instant) -> Reading {
        Reading::Failed(AdapterError::new(
            &self.name,
            &failure.tried,
            began.elapsed(),
            failure.cause,
            &failure.detail,
        ))
    }
}

async fn commits_of(
    brokers: &dyn Brokers,
    group: &str,
    until: Instant,
) -> Result<(String, BTreeMap<Place, Commit>), Failure> {
    let commits = brokers.commits(group, left(until)).await?;
    Ok((group.to_owned(), commits))
}

/// The time that is left.
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// One partition's log out of its ends; what is not known of one makes it unknown.
fn log_of(start: Option<Listed>, end: Listed, high: Option<Listed>) -> Result<Log, String> {
    let (end, epoch) = end.map_err(|why| format!("no end offset: {why}"))?;
    let (start, _) = start
        .unwrap_or_else(|| Err("the broker left it out".to_owned()))
        .map_err(|why| format!("no first offset: {why}"))?;
    let high = match high {
        Some(high) => Some(high.map_err(|why| format!("no end offset: {why}"))?.0),
        None => None,
    };
    Ok(Log {
        start,
        end,
        high,
        epoch,
    })
}

#[async_trait]
impl LagSource for Kafka {
    async fn read(&self) -> Reading {
        let began = Instant::now();
        let within = self.config.deadline;
        let read = async {
            let mut state = self.state.lock().await;
            let outcome =
                match tokio::time::timeout(left(began + within), self.try_read(&mut state, began)).await {
                    Ok(outcome) => outcome,
                    Err(_) => Err(Failure {
                        cause: Cause::Timeout,
                        tried: "reading the groups' lag".to_owned(),
                        detail: "no complete answer in time".to_owned(),
                    }),
                };
            outcome.unwrap_or_else(|failure| {
                // Rights are not a matter of the connection; everything else is better asked on a new one.
                if failure.cause != Cause::Forbidden {
                    state.brokers = None;
                }
                self.connect.refused(&failure);
                self.failed(&failure, began)
            })
        };
        // Another read may still hold the state; it ends within its own deadline.
        match tokio::time::timeout(within.saturating_mul(2), read).await {
            Ok(reading) => reading,
            Err(_) => self.failed(
                &Failure {
                    cause: Cause::Timeout,
                    tried: "reading the groups' lag".to_owned(),
                    detail: "the read before this one has not ended".to_owned(),
                },
                began,
            ),
        }
    }
}
