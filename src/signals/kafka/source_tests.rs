//! The source on brokers of our own making: in which order it asks, what it keeps, and when it ends.

use super::{
    client::{Brokers, Edge, Failure, Listed},
    connect::Connect,
    lag::{Commit, Members, Place, Topic},
    verdict::{Unread, Wanted},
    *,
};
use crate::{config::KafkaConfig, net::Cause, signals::NoSample};
use std::sync::{Mutex as StdMutex, MutexGuard};

/// Brokers that answer as told and write down what they are asked.
#[derive(Default)]
struct Said {
    asked: Vec<String>,
    commits: BTreeMap<String, i64>,
    end: i64,
    stable_end: i64,
    record: Option<i64>,
    fail: BTreeMap<&'static str, Failure>,
    hang: Option<&'static str>,
    connections: usize,
    refused: usize,
    at_once: usize,
    most_at_once: usize,
}

#[derive(Clone, Default)]
struct Fake(Arc<StdMutex<Said>>);

impl Fake {
    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap()
    }

    async fn asked(&self, what: &'static str, of: &str) -> Result<(), Failure> {
        let (hang, failure) = {
            let mut said = self.said();
            said.asked.push(format!("{what} {of}").trim().to_owned());
            (said.hang == Some(what), said.fail.get(what).cloned())
        };
        if hang {
            std::future::pending::<()>().await;
        }
        failure.map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Connect for Fake {
    async fn connect(&self, _: Duration) -> Result<Arc<dyn Brokers>, Failure> {
        self.asked("connect", "").await?;
        self.said().connections += 1;
        Ok(Arc::new(self.clone()))
    }

    fn refused(&self, why: &Failure) {
        if why.cause == Cause::Unauthorized {
            self.said().refused += 1;
        }
    }
}

#[async_trait]
impl Brokers for Fake {
    async fn members(&self, groups: &[String], _: Duration) -> Result<BTreeMap<String, Members>, Failure> {
        self.asked("members", "").await?;
        let stable = Members {
            state: "Stable".to_owned(),
            ..Members::default()
        };
        Ok(groups.iter().map(|g| (g.clone(), stable.clone())).collect())
    }

    async fn commits(&self, group: &str, _: Duration) -> Result<BTreeMap<Place, Commit>, Failure> {
        {
            let mut said = self.said();
            said.at_once += 1;
            said.most_at_once = said.most_at_once.max(said.at_once);
        }
        tokio::task::yield_now().await;
        let asked = self.asked("commits", group).await;
        let mut said = self.said();
        said.at_once -= 1;
        asked?;
        let offset = said.commits.get(group).copied();
        let commit = offset.map(|offset| Commit::At { offset, epoch: None });
        Ok(commit.map(|c| (Place::new("t", 0), c)).into_iter().collect())
    }

    async fn topics(
        &self,
        topics: &BTreeSet<String>,
        _: Duration,
    ) -> Result<BTreeMap<String, Topic>, Failure> {
        self.asked("topics", "").await?;
        let there = Topic::There {
            id: None,
            partitions: [0].into(),
        };
        Ok(topics.iter().map(|t| (t.clone(), there.clone())).collect())
    }

    async fn offsets(
        &self,
        places: &BTreeSet<Place>,
        edge: Edge,
        _: Duration,
    ) -> Result<BTreeMap<Place, Listed>, Failure> {
        let what = match edge {
            Edge::Start => "starts",
            Edge::End(Isolation::ReadUncommitted) => "ends",
            Edge::End(Isolation::ReadCommitted) => "stable ends",
        };
        self.asked(what, "").await?;
        let said = self.said();
        let offset = match edge {
            Edge::Start => 0,
            Edge::End(Isolation::ReadUncommitted) => said.end,
            Edge::End(Isolation::ReadCommitted) => said.stable_end,
        };
        Ok(places.iter().map(|p| (p.clone(), Ok((offset, None)))).collect())
    }

    async fn unread(&self, wanted: &[Wanted], _: Isolation, within: Duration) -> BTreeMap<Place, Unread> {
        let _ = tokio::time::timeout(within, self.asked("records", "")).await;
        let found = match self.said().record {
            Some(time) => Unread::Since(time),
            None => Unread::Unknown("its record did not come in time".to_owned()),
        };
        wanted.iter().map(|w| (w.place.clone(), found.clone())).collect()
    }
}

fn config(groups: &[&str]) -> KafkaConfig {
    let groups = groups.iter().map(|g| (*g).to_owned()).collect();
    KafkaConfig::at(vec!["k:9092".to_owned()], groups)
}

/// One group and a short deadline.
fn hasty() -> KafkaConfig {
    KafkaConfig {
        deadline: Duration::from_millis(200),
        ..config(&["live"])
    }
}

/// One group at 10 of 30.
fn fake() -> Fake {
    let fake = Fake::default();
    {
        let mut said = fake.said();
        said.commits.insert("live".to_owned(), 10);
        said.end = 30;
        said.stable_end = 30;
    }
    fake
}

fn source(fake: &Fake, config: &KafkaConfig, unit: Unit) -> Kafka {
    Kafka::with("orders", config, unit, Box::new(fake.clone()))
}

fn value(reading: Reading) -> f64 {
    match reading {
        Reading::Value { value, .. } => value,
        other => panic!("no value: {other:?}"),
    }
}

fn failed(reading: Reading) -> AdapterError {
    match reading {
        Reading::Failed(error) => error,
        other => panic!("not failed: {other:?}"),
    }
}

fn failure(cause: Cause) -> Failure {
    Failure {
        cause,
        tried: "ends".to_owned(),
        detail: "because".to_owned(),
    }
}

#[tokio::test]
async fn commits_are_asked_for_before_ends() {
    let fake = fake();
    let source = source(&fake, &config(&["live"]), Unit::Messages);
    assert_eq!(value(source.read().await), 20.0);
    let asked = fake.said().asked.clone();
    let at = |what: &str| asked.iter().position(|a| a == what).unwrap();
    assert!(
        at("commits live") < at("ends") && at("topics") < at("ends"),
        "{asked:?}"
    );
}

#[tokio::test]
async fn many_groups_are_asked_a_few_at_a_time() {
    let fake = fake();
    let names: Vec<String> = (0..50).map(|n| format!("g{n}")).collect();
    for name in &names {
        fake.said().commits.insert(name.clone(), 25);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(
        value(source(&fake, &config(&names), Unit::Messages).read().await),
        5.0
    );
    let most = fake.said().most_at_once;
    assert!((2..=AT_ONCE).contains(&most), "{most}");
}

#[tokio::test]
async fn one_connection_serves_many_reads_and_a_failure_makes_a_new_one() {
    let fake = fake();
    let source = source(&fake, &config(&["live"]), Unit::Messages);
    for _ in 0..3 {
        value(source.read().await);
    }
    assert_eq!(fake.said().connections, 1);
    fake.said().fail.insert("ends", failure(Cause::Broken));
    let error = failed(source.read().await);
    assert_eq!(
        (error.endpoint.as_str(), error.cause, error.detail.as_str()),
        ("orders", Cause::Broken, "because")
    );
    fake.said().fail.clear();
    assert_eq!(value(source.read().await), 20.0);
    assert_eq!(fake.said().connections, 2);
    // A right that is missing is no fault of the connection.
    fake.said().fail.insert("ends", failure(Cause::Forbidden));
    failed(source.read().await);
    fake.said().fail.clear();
    value(source.read().await);
    assert_eq!(fake.said().connections, 2);
}

#[tokio::test]
async fn a_login_that_is_refused_later_is_told_to_who_logs_in() {
    let fake = fake();
    let source = source(&fake, &config(&["live"]), Unit::Messages);
    value(source.read().await);
    fake.said().fail.insert("commits", failure(Cause::Unauthorized));
    assert_eq!(failed(source.read().await).cause, Cause::Unauthorized);
    assert_eq!(fake.said().refused, 1);
}

#[tokio::test]
async fn whatever_hangs_the_read_ends_with_its_deadline() {
    for what in ["connect", "members", "commits", "topics", "starts", "ends"] {
        let fake = fake();
        let source = source(&fake, &hasty(), Unit::Messages);
        fake.said().hang = Some(what);
        let begun = Instant::now();
        assert_eq!(failed(source.read().await).cause, Cause::Timeout, "{what}");
        assert!(begun.elapsed() >= Duration::from_millis(200), "{what}");
        fake.said().hang = None;
        assert_eq!(value(source.read().await), 20.0, "after {what}");
    }
}

#[tokio::test]
async fn records_that_do_not_come_leave_their_partition_unknown_before_the_deadline() {
    let fake = fake();
    let source = source(&fake, &hasty(), Unit::Seconds);
    fake.said().hang = Some("records");
    match source.read().await {
        Reading::NoSample { health, why } => {
            assert_eq!(health, NoSample::Partial);
            assert!(why.contains("did not come in time"), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn records_are_asked_for_only_where_seconds_are_wanted_and_somebody_is_behind() {
    let fake = fake();
    fake.said().record = Some(Utc::now().timestamp_millis() - 90_000);
    value(source(&fake, &config(&["live"]), Unit::Messages).read().await);
    assert!(!fake.said().asked.contains(&"records".to_owned()));
    let age = value(source(&fake, &config(&["live"]), Unit::Seconds).read().await);
    assert!((90.0..100.0).contains(&age), "{age}");
    fake.said().asked.clear();
    fake.said().commits.insert("live".to_owned(), 30);
    assert_eq!(
        value(source(&fake, &config(&["live"]), Unit::Seconds).read().await),
        0.0
    );
    assert!(!fake.said().asked.contains(&"records".to_owned()));
}

#[tokio::test]
async fn only_a_commit_past_the_last_stable_offset_needs_the_end_of_the_log() {
    let fake = fake();
    let mut config = config(&["live"]);
    config.isolation = Isolation::ReadCommitted;
    fake.said().stable_end = 15;
    assert_eq!(value(source(&fake, &config, Unit::Messages).read().await), 5.0);
    assert!(!fake.said().asked.contains(&"ends".to_owned()));
    fake.said().stable_end = 5;
    assert_eq!(value(source(&fake, &config, Unit::Messages).read().await), 0.0);
    assert!(fake.said().asked.contains(&"ends".to_owned()));
}

#[tokio::test]
async fn a_cluster_without_the_group_is_not_asked_for_topics() {
    let fake = fake();
    match source(&fake, &config(&["nobody"]), Unit::Messages).read().await {
        Reading::NoSample { health, why } => {
            assert_eq!(
                (health, why.as_str()),
                (NoSample::Missing, "nobody: it never committed")
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(!fake.said().asked.contains(&"topics".to_owned()));
}
