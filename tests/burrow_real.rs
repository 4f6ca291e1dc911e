//! Against a real Burrow that reads commits from a mock broker (`services/burrow.sh` starts both, once for all tests here
//! but one, and stops them when this process ends).

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use backfill::{
    config::{BurrowConfig, HttpConfig, SignalConfig, SourceConfig, Unit},
    net::Cause,
    signals::{
        LagSource, NoSample, Reading, build,
        validity::{SignalHealth, UsualAge, judge, skew_warning},
    },
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    process::Command,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// How many partitions a topic of the mock broker has.
const PARTITIONS: u32 = 4;
/// How long ago the five commits of a group were that goes on committing, in seconds. A group is only taken for
/// stopped when nothing came for as long as these are apart, which no test takes.
const STEADY: [u64; 5] = [400, 300, 200, 100, 0];

/// A Burrow, its cluster, and groups that commit what they are told.
struct Servers {
    lines: BTreeMap<String, String>,
}

impl Servers {
    /// The ones that tests share; each has a topic of its own.
    fn get() -> &'static Self {
        static STARTED: OnceLock<Servers> = OnceLock::new();
        STARTED.get_or_init(Self::start)
    }

    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap().keep();
        let started = Command::new("bash")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/burrow.sh"))
            .arg("up")
            .arg(&dir)
            .env("OWNER", std::process::id().to_string())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(started.status.success(), "no real Burrow: {words}");
        let lines = String::from_utf8(started.stdout).unwrap();
        let lines = lines.lines().filter_map(|l| l.split_once('='));
        Self {
            lines: lines.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        }
    }

    async fn tell(&self, what: &str) {
        let url = format!("{}{what}", self.lines["FEEDER_URL"]);
        let answer = client().post(url).send().await.unwrap();
        let (status, words) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{what}: {words}");
    }

    /// Puts so many more messages into each partition of a topic and waits until Burrow has seen them.
    async fn produce(&self, topic: &str, count: u64, whole: u64) {
        for partition in 0..PARTITIONS {
            self.tell(&format!(
                "/produce?topic={topic}&partition={partition}&count={count}"
            ))
            .await;
        }
        let url = format!("{}/v3/kafka/local/topic/{topic}", self.lines["BURROW_URL"]);
        let begun = Instant::now();
        loop {
            let text = client().get(&url).send().await.unwrap().text().await.unwrap();
            let seen: Value = serde_json::from_str(&text).unwrap();
            let offsets = seen["offsets"].as_array().cloned().unwrap_or_default();
            if offsets.len() == PARTITIONS as usize && offsets.iter().all(|o| *o == whole) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(40), "{seen}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The group commits these offsets in one partition, so many seconds ago.
    async fn commit(&self, group: &str, topic: &str, partition: u32, offsets: [u64; 5], ago: [u64; 5]) {
        for (offset, ago) in offsets.into_iter().zip(ago) {
            self.tell(&format!(
                "/commit?group={group}&topic={topic}&partition={partition}&offset={offset}&ago_ms={}",
                ago * 1000
            ))
            .await;
        }
    }

    /// Groups of this Burrow.
    fn config(&self, groups: &[&str]) -> BurrowConfig {
        BurrowConfig {
            http: HttpConfig {
                deadline: Duration::from_secs(20),
                ..HttpConfig::at(&self.lines["BURROW_URL"])
            },
            cluster: self.lines["BURROW_CLUSTER"].clone(),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            topics: std::collections::BTreeSet::new(),
        }
    }

    fn source(&self, groups: &[&str]) -> Arc<dyn LagSource> {
        source(&self.config(groups))
    }
}

fn client() -> reqwest::Client {
    backfill::net::use_ring();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn source(config: &BurrowConfig) -> Arc<dyn LagSource> {
    let signal = SignalConfig {
        source: SourceConfig::Burrow(config.clone()),
        unit: Unit::Messages,
        low: 50.0,
        soft: 100.0,
        hard: 200.0,
        critical: 1000.0,
        interval: Duration::from_secs(15),
        protects: true,
    };
    build(&"orders".parse().unwrap(), &signal).unwrap()
}

/// Reads until a reading is as wanted, and fails after 40 s: a loaded machine may be slow.
async fn until(source: &Arc<dyn LagSource>, wanted: impl Fn(&Reading) -> bool) -> Reading {
    let begun = Instant::now();
    loop {
        let reading = source.read().await;
        if wanted(&reading) {
            return reading;
        }
        assert!(begun.elapsed() < Duration::from_secs(40), "still {reading:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn is(wanted: f64) -> impl Fn(&Reading) -> bool {
    move |reading| matches!(reading, Reading::Value { value, .. } if *value == wanted)
}

/// The groups that have a number; none if the reading has none.
fn parts(reading: &Reading) -> Vec<(String, f64)> {
    let Reading::Value { parts, .. } = reading else {
        return Vec::new();
    };
    let numbers = parts.iter().map(|p| (p.name.clone(), *p.value.as_ref().unwrap()));
    numbers.collect()
}

fn is_stalled(reading: &Reading) -> bool {
    matches!(
        reading,
        Reading::NoSample {
            health: NoSample::Stalled,
            ..
        }
    )
}

fn why(reading: &Reading) -> &str {
    match reading {
        Reading::NoSample { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_lag_of_the_worst_group_is_what_is_missing_to_the_end_now() {
    let servers = Servers::get();
    servers.produce("steady", 100, 100).await;
    for partition in 0..PARTITIONS {
        servers
            .commit("steady-a", "steady", partition, [50, 60, 70, 80, 90], STEADY)
            .await;
        servers
            .commit("steady-b", "steady", partition, [60, 70, 80, 90, 100], STEADY)
            .await;
    }
    let source = servers.source(&["steady-b", "steady-a"]);
    let expected = [("steady-a".to_owned(), 40.0), ("steady-b".to_owned(), 0.0)];
    let reading = until(&source, |r| parts(r) == expected).await;
    let Reading::Value { age, .. } = &reading else {
        panic!("{reading:?}");
    };
    assert!(*age < Duration::from_secs(60), "{age:?}");
    assert_eq!(
        judge(&reading, &UsualAge::new(), Duration::from_secs(15)),
        Ok(40.0)
    );
    assert_eq!(skew_warning(&reading), None);
    // More comes in and nobody commits: the lag of now, not that of the newest commit.
    servers.produce("steady", 25, 125).await;
    until(&source, is(140.0)).await;
}

#[tokio::test]
async fn a_group_that_stopped_stalled_or_went_back_is_stalled_and_its_partitions_are_named() {
    let servers = Servers::get();
    servers.produce("still", 100, 100).await;
    for partition in 0..PARTITIONS {
        for group in ["stopped", "stalls", "rewound"] {
            let healthy = [50, 60, 70, 80, 90];
            let (offsets, ago) = match group {
                _ if partition != 2 => (healthy, STEADY),
                "stopped" => (healthy, [64, 63, 62, 61, 60]),
                "stalls" => ([50; 5], STEADY),
                _ => ([50, 60, 40, 70, 80], STEADY),
            };
            servers.commit(group, "still", partition, offsets, ago).await;
        }
    }
    for (group, expected) in [
        ("stopped", "stopped: still/2 STOP at 10 messages"),
        ("stalls", "stalls: still/2 STALL at 50 messages"),
        ("rewound", "rewound: still/2 REWIND at 20 messages"),
    ] {
        let reading = until(&servers.source(&[group]), |r| is_stalled(r) && why(r) == expected).await;
        let unusable = judge(&reading, &UsualAge::new(), Duration::from_secs(15)).unwrap_err();
        assert_eq!(unusable.health, SignalHealth::Stalled);
    }
    // Whoever watches something else is not concerned.
    let mut other = servers.config(&["stopped"]);
    other.topics = ["clicks".to_owned()].into();
    let reading = source(&other).read().await;
    assert_eq!(why(&reading), "stopped: no partition of clicks");
}

/// Case B28.
#[tokio::test]
async fn an_unknown_group_or_cluster_is_missing_and_a_wrong_path_is_a_failure() {
    let servers = Servers::get();
    let config = servers.config(&["nosuch"]);
    let reading = source(&config).read().await;
    assert!(
        matches!(&reading, Reading::NoSample { health: NoSample::Missing, why } if why.starts_with("nosuch: Burrow knows no such group")),
        "{reading:?}"
    );
    let mut elsewhere = config.clone();
    elsewhere.cluster = "prod".to_owned();
    let reading = source(&elsewhere).read().await;
    assert_eq!(why(&reading), "nosuch: Burrow knows no cluster prod, only local");
    let mut below = config;
    below.http.url.push_str("/burrow-ui");
    match source(&below).read().await {
        Reading::Failed(error) => assert_eq!(error.cause, Cause::NotFound, "{error}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn partitions_without_a_commit_make_it_partial() {
    let servers = Servers::get();
    servers.produce("thin", 100, 100).await;
    servers
        .commit("thin", "thin", 1, [60, 70, 80, 90, 100], STEADY)
        .await;
    let partial = |r: &Reading| {
        matches!(
            r,
            Reading::NoSample {
                health: NoSample::Partial,
                ..
            }
        )
    };
    let reading = until(&servers.source(&["thin"]), partial).await;
    assert_eq!(why(&reading), "thin: 1 of 4 partitions of thin have a commit");
}

/// Case B28.
#[tokio::test]
async fn when_the_brokers_are_gone_burrow_goes_on_and_its_number_grows_old() {
    let servers = Servers::start();
    servers.produce("gone", 100, 100).await;
    for partition in 0..PARTITIONS {
        // Caught up, or else Burrow would call it stopped.
        let long_ago = [900, 800, 700, 600, 500];
        servers
            .commit("gone", "gone", partition, [60, 70, 80, 90, 100], long_ago)
            .await;
    }
    let source = servers.source(&["gone"]);
    until(&source, is(0.0)).await;
    let killed = Command::new("kill")
        .args(["-9", &servers.lines["FEEDER_PID"]])
        .status()
        .unwrap();
    assert!(killed.success());
    let reading = source.read().await;
    assert!(is(0.0)(&reading), "{reading:?}");
    let unusable = judge(&reading, &UsualAge::new(), Duration::from_secs(15)).unwrap_err();
    assert_eq!(unusable.health, SignalHealth::Stale);
    let age = |r: &Reading| match r {
        Reading::Value { age, .. } => *age,
        other => panic!("{other:?}"),
    };
    let before = age(&reading);
    until(&source, |r| age(r) >= before + Duration::from_secs(1)).await;
}
