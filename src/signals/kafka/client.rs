//! What is asked of brokers, and how the crate that speaks to them is asked.

use super::{
    lag::{Commit, Members, Place, Topic, shown},
    verdict::{Unread, Wanted},
};
use crate::{config::Isolation, domain::text, net::Cause};
use async_trait::async_trait;
use krafka::{
    CloseOptions, Kafka,
    admin::{
        AdminClient, DescribeConsumerGroupsOptions, DescribeTopicsOptions, ListConsumerGroupOffsetsOptions,
        ListOffsetsOptions, OffsetSpec, TopicPartition,
    },
    consumer::{AutoOffsetReset, Consumer, ConsumerRecord, IsolationLevel},
    error::{ErrorCode, KrafkaError},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    io,
    time::{Duration, Instant},
};

/// The most bytes of one answer.
pub(super) const ANSWER_CAP: usize = 32 * 1024 * 1024;
/// How much of a partition is fetched to find one record. A broker sends at least one whole batch, whatever its size.
const FETCH_BYTES: i32 = 16 * 1024;
/// How much of all partitions of a broker.
const FETCH_ALL_BYTES: i32 = 4 * 1024 * 1024;
/// How long a broker may wait for a record that is not there.
const FETCH_WAIT: Duration = Duration::from_millis(50);
/// The longest that the goodbye of a consumer may take.
const GOODBYE: Duration = Duration::from_millis(200);

/// A failed call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    /// What was tried, in words.
    pub(super) tried: String,
    /// The other side's words, not cleaned yet.
    pub(super) detail: String,
}

/// An end of partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    /// The first record that is there.
    Start,
    /// Behind the last.
    End(Isolation),
}

/// An offset as a broker lists it, with the epoch of the partition's leader where known.
pub(super) type Listed = Result<(i64, Option<i32>), String>;

/// A connected cluster. Every call ends within the time that it is given, or a little later.
#[async_trait]
pub(super) trait Brokers: Send + Sync {
    /// The members of groups.
    async fn members(
        &self,
        groups: &[String],
        within: Duration,
    ) -> Result<BTreeMap<String, Members>, Failure>;

    /// Everything that a group has committed.
    async fn commits(&self, group: &str, within: Duration) -> Result<BTreeMap<Place, Commit>, Failure>;

    /// What topics look like now.
    async fn topics(
        &self,
        topics: &BTreeSet<String>,
        within: Duration,
    ) -> Result<BTreeMap<String, Topic>, Failure>;

    /// One end of each partition.
    async fn offsets(
        &self,
        places: &BTreeSet<Place>,
        edge: Edge,
        within: Duration,
    ) -> Result<BTreeMap<Place, Listed>, Failure>;

    /// The first record of each partition from an offset on. What could not be had in time is unknown.
    async fn unread(
        &self,
        wanted: &[Wanted],
        isolation: Isolation,
        within: Duration,
    ) -> BTreeMap<Place, Unread>;
}

/// The crate's clients of one cluster; they share their connections.
pub(super) struct Cluster {
    kafka: Kafka,
    admin: AdminClient,
}

impl Cluster {
    pub(super) fn new(kafka: Kafka) -> Self {
        let admin = kafka.admin();
        Self { kafka, admin }
    }

    async fn consumer(&self, wanted: &[Wanted], isolation: Isolation) -> Result<Consumer, KrafkaError> {
        let offsets = wanted.iter().map(|w| (place(&w.place), w.next));
        let consumer = self
            .kafka
            .consumer_without_group()
            .enable_auto_commit(false)
            .metrics_push(false)
            // A record that is gone is not replaced by another one.
            .auto_offset_reset(AutoOffsetReset::None)
            .isolation_level(match isolation {
                Isolation::ReadUncommitted => IsolationLevel::ReadUncommitted,
                Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
            })
            .fetch_min_bytes(1)
            .fetch_max_bytes(FETCH_ALL_BYTES)
            .max_partition_fetch_bytes(FETCH_BYTES)
            .fetch_max_wait(FETCH_WAIT)
            .max_decompressed_size(ANSWER_CAP)
            // What was read ahead of a partition that is done stays in the buffer and must not stop the others.
            .max_buffered_records(0)
            .initial_offsets(offsets)
            .build()
            .await?;
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for wanted in wanted {
            topics
                .entry(&wanted.place.topic)
                .or_default()
                .push(wanted.place.partition);
        }
        for (topic, partitions) in topics {
            consumer.assign(topic, partitions).await?;
        }
        Ok(consumer)
    }
}

fn place(place: &Place) -> TopicPartition {
    TopicPartition::new(place.topic.as_str(), place.partition)
}

#[async_trait]
impl Brokers for Cluster {
    async fn members(
        &self,
        groups: &[String],
        within: Duration,
    ) -> Result<BTreeMap<String, Members>, Failure> {
        let tried = "state of the groups";
        let options = DescribeConsumerGroupsOptions::default().timeout(within);
        let described = self
            .admin
            .describe_consumer_groups(groups, options)
            .await
            .map_err(|e| failure(tried, &e))?;
        let mut members = BTreeMap::new();
        for (group, description) in described {
            let known = match description {
                Ok(found) => {
                    let assigned = found.members.into_iter().filter_map(|m| m.assignment);
                    Members {
                        state: found.state,
                        topics: assigned.flatten().map(|a| a.topic_name).collect(),
                    }
                }
                Err(KrafkaError::Broker {
                    code: ErrorCode::GroupIdNotFound,
                    ..
                }) => Members {
                    state: "Dead".to_owned(),
                    ..Members::default()
                },
                // The offsets can be had without; a failed connection or a missing right would fail them, too.
                Err(KrafkaError::Broker { code, .. }) if !forbids(code) => Members::default(),
                Err(error) => return Err(failure(&format!("state of group {}", shown(&group)), &error)),
            };
            members.insert(group, known);
        }
        Ok(members)
    }

    async fn commits(&self, group: &str, within: Duration) -> Result<BTreeMap<Place, Commit>, Failure> {
        let tried = format!("commits of group {}", shown(group));
        let options = ListConsumerGroupOffsetsOptions::default().timeout(within);
        let listed = match self.admin.list_consumer_group_offsets(group, options).await {
            Ok(listed) => listed,
            Err(KrafkaError::Broker {
                code: ErrorCode::GroupIdNotFound,
                ..
            }) => return Ok(BTreeMap::new()),
            Err(error) => return Err(failure(&tried, &error)),
        };
        let mut commits = BTreeMap::new();
        for (at, commit) in listed {
            let commit = match commit {
                Ok(commit) => commit.offset.map_or(Commit::Never, |offset| Commit::At {
                    offset,
                    epoch: commit.leader_epoch,
                }),
                Err(KrafkaError::Broker { code, .. }) if gone(code) => continue,
                Err(error) if is_denied(&error) => return Err(failure(&tried, &error)),
                Err(error) => Commit::Unknown(words(&error)),
            };
            commits.insert(Place::new(at.topic, at.partition), commit);
        }
        Ok(commits)
    }

    async fn topics(
        &self,
        topics: &BTreeSet<String>,
        within: Duration,
    ) -> Result<BTreeMap<String, Topic>, Failure> {
        let tried = "partitions of the topics";
        let options = DescribeTopicsOptions::default().timeout(within);
        let described = self
            .admin
            .describe_topics(topics, options)
            .await
            .map_err(|e| failure(tried, &e))?;
        let mut found = BTreeMap::new();
        for (name, description) in described {
            let topic = match description {
                Ok(topic) => Topic::There {
                    id: (topic.topic_id != [0; 16]).then_some(topic.topic_id),
                    partitions: topic.partitions.iter().map(|p| p.partition).collect(),
                },
                Err(KrafkaError::Broker { code, .. }) if gone(code) => Topic::Gone,
                Err(error) if is_answer(&error) && !is_denied(&error) => Topic::Unknown(words(&error)),
                Err(error) => return Err(failure(tried, &error)),
            };
            found.insert(name, topic);
        }
        Ok(found)
    }

    async fn offsets(
        &self,
        places: &BTreeSet<Place>,
        edge: Edge,
        within: Duration,
    ) -> Result<BTreeMap<Place, Listed>, Failure> {
        let (tried, spec, stable) = match edge {
            Edge::Start => ("first offsets", OffsetSpec::Earliest, false),
            Edge::End(Isolation::ReadUncommitted) => ("end offsets", OffsetSpec::Latest, false),
            Edge::End(Isolation::ReadCommitted) => ("last stable offsets", OffsetSpec::Latest, true),
        };
        let options = ListOffsetsOptions::default()
            .timeout(within)
            .read_committed(stable);
        let listed = self
            .admin
            .list_offsets(places.iter().map(|p| (place(p), spec)), options)
            .await
            .map_err(|e| failure(tried, &e))?;
        let mut found = BTreeMap::new();
        let mut broken = None;
        for (at, offset) in listed {
            let offset = match offset {
                Ok(listed) => Ok((listed.offset, listed.leader_epoch)),
                Err(error) if is_denied(&error) => return Err(failure(tried, &error)),
                Err(error) => {
                    let words = words(&error);
                    broken = broken.or((!is_answer(&error)).then_some(error));
                    Err(words)
                }
            };
            found.insert(Place::new(at.topic, at.partition), offset);
        }
        // Nobody answered at all: that is no matter of partitions.
        match broken {
            Some(error) if found.values().all(Result::is_err) => Err(failure(tried, &error)),
            _ => Ok(found),
        }
    }

    async fn unread(
        &self,
        wanted: &[Wanted],
        isolation: Isolation,
        within: Duration,
    ) -> BTreeMap<Place, Unread> {
        let until = Instant::now() + within;
        let mut search = Search {
            open: wanted.iter().map(|w| (w.place.clone(), w.end)).collect(),
            found: BTreeMap::new(),
        };
        match tokio::time::timeout(within, self.consumer(wanted, isolation)).await {
            Ok(Ok(consumer)) => {
                search.run(&consumer, until).await;
                let goodbye = GOODBYE.min(within / 20);
                let _ = consumer.close_with(CloseOptions::new().timeout(goodbye)).await;
            }
            Ok(Err(error)) => search.give_up(&words(&error)),
            Err(_) => {}
        }
        search.give_up("its record did not come in time");
        search.found
    }
}

/// The search for the first records of partitions.
struct Search {
    /// Partitions that are still looked at, with their ends.
    open: BTreeMap<Place, i64>,
    found: BTreeMap<Place, Unread>,
}

impl Search {
    async fn run(&mut self, consumer: &Consumer, until: Instant) {
        while !self.open.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // Twice the broker's wait, so that a poll comes back empty where there is nothing.
            let polled = tokio::time::timeout(left, consumer.poll(left.min(FETCH_WAIT * 2))).await;
            match polled {
                Ok(Ok(records)) if records.is_empty() => self.skip_what_is_empty(consumer).await,
                Ok(Ok(records)) => {
                    for record in &records {
                        self.take(consumer, record).await;
                    }
                }
                Ok(Err(KrafkaError::NoOffset { partitions })) => {
                    for (topic, partition) in partitions {
                        let gone = Unread::Unknown("its record is no longer there".to_owned());
                        self.close(consumer, &Place::new(topic, partition), gone).await;
                    }
                }
                Ok(Err(error)) => return self.give_up(&words(&error)),
                Err(_) => return,
            }
        }
    }

    async fn take(&mut self, consumer: &Consumer, record: &ConsumerRecord) {
        let place = Place::new(&*record.topic, record.partition);
        let Some(end) = self.open.get(&place) else { return };
        let unread = if record.offset < *end {
            Unread::Since(record.timestamp)
        } else {
            // It came after the end was asked for: before it there is none.
            Unread::Nothing
        };
        self.close(consumer, &place, unread).await;
    }

    /// After a poll that brought nothing no record is waiting: who has come to the end has found none.
    async fn skip_what_is_empty(&mut self, consumer: &Consumer) {
        let open: Vec<(Place, i64)> = self.open.iter().map(|(p, end)| (p.clone(), *end)).collect();
        for (place, end) in open {
            let at = consumer.fetch_position(&place.topic, place.partition).await;
            if at.is_some_and(|at| at >= end) {
                self.close(consumer, &place, Unread::Nothing).await;
            }
        }
    }

    async fn close(&mut self, consumer: &Consumer, place: &Place, unread: Unread) {
        if self.open.remove(place).is_some() {
            self.found.insert(place.clone(), unread);
            consumer.pause(&place.topic, &[place.partition]).await;
        }
    }

    fn give_up(&mut self, why: &str) {
        let rest = std::mem::take(&mut self.open);
        let unknown = rest
            .into_keys()
            .map(|place| (place, Unread::Unknown(why.to_owned())));
        self.found.extend(unknown);
    }
}

/// Whether a code says that there is no such topic or partition.
const fn gone(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId | ErrorCode::InvalidTopic
    )
}

const fn forbids(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::TopicAuthorizationFailed
            | ErrorCode::GroupAuthorizationFailed
            | ErrorCode::ClusterAuthorizationFailed
    )
}

fn is_denied(error: &KrafkaError) -> bool {
    matches!(error, KrafkaError::Broker { code, .. } if forbids(*code))
}

/// Whether a broker said it, and not the lack of one.
const fn is_answer(error: &KrafkaError) -> bool {
    matches!(
        error,
        KrafkaError::Broker { .. } | KrafkaError::UnknownTopic { .. }
    )
}

/// An error in one clean line.
fn words(error: &KrafkaError) -> String {
    text::one_line(&error.to_string(), 300)
}

/// What a failed call is likely to be about.
pub(super) fn failure(tried: &str, error: &KrafkaError) -> Failure {
    // Of several brokers that cannot be reached the last one's error is inside another.
    let root = chain(error)
        .filter_map(|e| e.downcast_ref::<KrafkaError>())
        .last();
    let error = root.unwrap_or(error);
    let mut detail = error.to_string();
    let cause = match error {
        KrafkaError::Broker { code, .. } => {
            match code {
                ErrorCode::SaslAuthenticationFailed
                | ErrorCode::UnsupportedSaslMechanism
                | ErrorCode::IllegalSaslState => Cause::Unauthorized,
                code if forbids(*code) => {
                    detail.push_str("; the user needs Describe on the groups and topics, and Read on the topics for seconds");
                    Cause::Forbidden
                }
                ErrorCode::RequestTimedOut => Cause::Timeout,
                _ => Cause::Server,
            }
        }
        KrafkaError::Auth { message, .. } if message.contains("TLS") || of_tls(error) => Cause::Tls,
        KrafkaError::Auth { .. } => Cause::Unauthorized,
        // A call that was tried again until its time was over tells the last error in words only.
        KrafkaError::Timeout { operation } if operation.contains("onnection refused") => Cause::Refused,
        KrafkaError::Timeout { .. } => Cause::Timeout,
        KrafkaError::Protocol { .. }
        | KrafkaError::Compression { .. }
        | KrafkaError::Serialization { .. } => Cause::NotUnderstood,
        KrafkaError::Config { .. } => Cause::Local,
        KrafkaError::Network(_) => of_network(error),
        _ => Cause::Server,
    };
    Failure {
        cause,
        tried: tried.to_owned(),
        detail,
    }
}

/// Every error behind an error.
fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| {
        // Its source is behind a pointer that is an error itself.
        if let Some(KrafkaError::Network(io)) = error.downcast_ref::<KrafkaError>() {
            return Some(&**io as &(dyn Error + 'static));
        }
        // What an I/O error was made of is not its source.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner
            .map(|e| e as &(dyn Error + 'static))
            .or_else(|| error.source())
    })
}

fn of_tls(error: &KrafkaError) -> bool {
    chain(error).any(|e| e.is::<rustls::Error>())
}

fn of_network(error: &KrafkaError) -> Cause {
    let kinds: Vec<io::ErrorKind> = chain(error)
        .filter_map(|e| e.downcast_ref::<io::Error>())
        .map(io::Error::kind)
        .collect();
    let any = |wanted: &[io::ErrorKind]| kinds.iter().any(|kind| wanted.contains(kind));
    let words = error.to_string();
    if any(&[
        io::ErrorKind::ConnectionRefused,
        io::ErrorKind::HostUnreachable,
        io::ErrorKind::NetworkUnreachable,
    ]) {
        Cause::Refused
    } else if words.contains("lookup address") || words.contains("resolve") {
        Cause::Dns
    } else if any(&[io::ErrorKind::TimedOut]) {
        Cause::Timeout
    } else {
        Cause::Broken
    }
}
