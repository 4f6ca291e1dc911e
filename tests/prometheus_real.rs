//! Against a real Prometheus and real scrapes (`services/prometheus.sh` starts both, once for all tests here, and
//! stops them when this process ends).

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use backfill::{
    config::{HttpConfig, PrometheusConfig, SignalConfig, SourceConfig, Unit},
    host::boot_now,
    net::Cause,
    signals::{
        LagSource, NoSample, Reading, build,
        validity::{SignalHealth, UsualAge, judge, skew_warning},
    },
};
use std::{
    collections::BTreeMap,
    process::Command,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// Three exporters: `steady` lives, `moody` answers scrapes in odd ways, `mortal` is killed.
struct Servers {
    dir: String,
    lines: BTreeMap<String, String>,
}

impl Servers {
    fn get() -> &'static Self {
        static STARTED: OnceLock<Servers> = OnceLock::new();
        STARTED.get_or_init(|| {
            let dir = tempfile::tempdir().unwrap().keep().to_str().unwrap().to_owned();
            let lines = Self::up(&dir);
            let servers = Self { dir, lines };
            let fresh = "steady_lag 42\nzero_lag 0\nnan_lag NaN\nnegative_lag -1\ninfinite_lag +Inf\n\
                         parts_lag{partition=\"0\"} 12\nparts_lag{partition=\"1\"} 7\nparts_lag{partition=\"2\"} -1\n";
            servers.put("STEADY", "metrics", fresh);
            servers.put("MOODY", "metrics", "moody_lag 3\n");
            servers.put("MORTAL", "metrics", "dying_lag 5\ntimed_lag 9 NOW\n");
            servers
        })
    }

    fn up(dir: &str) -> BTreeMap<String, String> {
        let started = Command::new("bash")
            .args([
                concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/prometheus.sh"),
                "up",
                dir,
            ])
            .env("EXPORTERS", "steady moody mortal")
            .env("OWNER", std::process::id().to_string())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(started.status.success(), "no real Prometheus: {words}");
        let lines = String::from_utf8(started.stdout).unwrap();
        lines
            .lines()
            .filter_map(|l| l.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    }

    /// Sets the `metrics` that an exporter serves from its next scrape on, or its `mode`.
    fn put(&self, exporter: &str, what: &str, text: &str) {
        let url = format!("{}/{what}", self.lines[&format!("{exporter}_URL")]);
        let text = text.to_owned();
        // The tests' own runtime may be busy or absent; a thread of its own needs neither.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                backfill::net::use_ring();
                let client = reqwest::Client::builder().no_proxy().build().unwrap();
                client
                    .put(url)
                    .body(text)
                    .send()
                    .await
                    .unwrap()
                    .error_for_status()
                    .unwrap();
            });
        })
        .join()
        .unwrap();
    }

    fn kill(&self, part: &str) {
        let pid = &self.lines[&format!("{part}_PID")];
        assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
    }
}

const INTERVAL: Duration = Duration::from_secs(1);

fn server() -> HttpConfig {
    HttpConfig {
        deadline: Duration::from_secs(10),
        ..HttpConfig::at(Servers::get().lines["PROMETHEUS_URL"].clone())
    }
}

fn signal(query: &str) -> SignalConfig {
    SignalConfig {
        source: SourceConfig::Prometheus(PrometheusConfig::at(server(), query)),
        unit: Unit::Messages,
        low: 1.0,
        soft: 2.0,
        hard: 3.0,
        critical: 4.0,
        interval: INTERVAL,
        protects: true,
    }
}

fn source(query: &str) -> Arc<dyn LagSource> {
    build(&"lag".parse().unwrap(), &signal(query)).unwrap()
}

/// Reads until a reading is as wanted, and fails after half a minute.
async fn until(source: &Arc<dyn LagSource>, wanted: impl Fn(&Reading) -> bool) -> Reading {
    let begun = Instant::now();
    loop {
        let reading = source.read().await;
        if wanted(&reading) {
            return reading;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "still {reading:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn is_value(reading: &Reading) -> bool {
    matches!(reading, Reading::Value { .. })
}

async fn value_of(query: &str) -> f64 {
    match until(&source(query), is_value).await {
        Reading::Value { value, .. } => value,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_value_is_read_with_the_age_of_its_scrape() {
    let source = source("sum(steady_lag)");
    let reading = until(&source, is_value).await;
    let Reading::Value {
        value, age, skew_ms, ..
    } = reading
    else {
        panic!("{reading:?}");
    };
    assert_eq!(value, 42.0);
    // One scrape a second; a loaded machine may miss some.
    assert!(age < Duration::from_secs(10), "{age:?}");
    // The age is the sample's, not the evaluation's: that would be zero each time.
    let mut ages = vec![age];
    while ages.len() < 4 {
        if let Reading::Value { age, .. } = source.read().await {
            ages.push(age);
        }
        tokio::time::sleep(Duration::from_millis(130)).await;
    }
    assert!(ages.iter().any(|a| *a > Duration::from_millis(20)), "{ages:?}");
    assert!(skew_ms.is_some_and(|s| s.abs() < 5_000), "{skew_ms:?}");
    assert_eq!(skew_warning(&reading), None);
    assert_eq!(judge(&reading, &UsualAge::new(), INTERVAL), Ok(42.0));
}

#[tokio::test]
async fn zero_is_a_value_and_scalars_and_filters_work() {
    assert_eq!(value_of("zero_lag").await, 0.0);
    assert_eq!(value_of("scalar(sum(steady_lag))").await, 42.0);
    assert_eq!(
        value_of("sum by (job) (parts_lag >= 0) # the -1 marks a partition without commit").await,
        19.0
    );
    assert_eq!(value_of("max(parts_lag) + on() max(steady_lag)").await, 54.0);
    assert_eq!(value_of("sum(steady_lag) or vector(0)").await, 42.0);
}

/// Case B28.
#[tokio::test]
async fn what_is_no_number_is_no_sample() {
    until(&source("steady_lag"), is_value).await;
    for (query, health, word) in [
        ("nan_lag", NoSample::Invalid, "NaN"),
        ("infinite_lag", NoSample::Invalid, "infinite"),
        ("negative_lag", NoSample::Invalid, "-1, below zero"),
        ("sum(parts_lag) + sum(nan_lag)", NoSample::Invalid, "NaN"),
        ("parts_lag", NoSample::Invalid, "3 series"),
        ("parts_lag[5m]", NoSample::Invalid, "take the [..] from the query"),
        ("\"text\"", NoSample::Invalid, "a string"),
        ("no_such_lag", NoSample::Missing, "no such series now"),
        ("sum(no_such_lag)", NoSample::Missing, "no such series now"),
        ("steady_lag > 1000", NoSample::Missing, "leaves nothing"),
        // The classic that turns no data into zero lag.
        (
            "sum(no_such_lag) or vector(0)",
            NoSample::Missing,
            "without any sample behind it",
        ),
        ("vector(0)", NoSample::Invalid, "set age_query"),
    ] {
        match source(query).read().await {
            Reading::NoSample { health: found, why } => {
                assert_eq!(found, health, "{query}: {why}");
                assert!(why.contains(word), "{query}: {why}");
            }
            other => panic!("{query}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_wrong_query_is_told_in_the_servers_words_about_our_query() {
    match source("sum by (x").read().await {
        Reading::Failed(error) => {
            assert_eq!(error.cause, Cause::BadRequest);
            assert!(
                error.detail.contains("bad_data") && error.detail.contains("parse error"),
                "{error}"
            );
            assert!(!error.detail.contains("label_replace"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    until(&source("steady_lag"), is_value).await;
    match source("steady_lag * on(job) parts_lag").read().await {
        Reading::Failed(error) => assert!(error.detail.contains("many-to-many matching"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_age_can_be_asked_for_otherwise() {
    let mut config = signal("sum(steady_lag)");
    let SourceConfig::Prometheus(prometheus) = &mut config.source else {
        unreachable!("made above")
    };
    prometheus.age_query = Some("time() - 100".to_owned());
    let source = build(&"lag".parse().unwrap(), &config).unwrap();
    match until(&source, is_value).await {
        Reading::Value { age, .. } => assert_eq!(age.as_secs_f64().round(), 100.0),
        other => panic!("{other:?}"),
    }
}

/// Case B28.
#[tokio::test]
async fn one_bad_scrape_is_no_sample_until_the_next_good_one() {
    let source = source("sum(moody_lag)");
    for mode in ["error", "garbage", "hang"] {
        until(&source, is_value).await;
        Servers::get().put("MOODY", "mode", mode);
        let gone = until(&source, |r| !is_value(r)).await;
        assert!(
            matches!(
                &gone,
                Reading::NoSample {
                    health: NoSample::Missing,
                    ..
                }
            ),
            "{mode}: {gone:?}"
        );
        Servers::get().put("MOODY", "mode", "ok");
    }
    until(&source, is_value).await;
}

/// Case B28. One after the other, because all of it happens to the one exporter that dies.
#[tokio::test]
async fn when_its_exporter_dies_a_signal_never_again_has_a_fresh_value() {
    let servers = Servers::get();
    // Scraped as it is, a series gets a mark of its end. With times of its own it gets none, and stays visible for
    // five minutes with its last value.
    let (marked, timed) = (source("sum(dying_lag)"), source("sum(timed_lag)"));
    let mut usual = UsualAge::new();
    while usual.usual(INTERVAL).is_none() {
        let reading = until(&timed, is_value).await;
        usual.observe(boot_now(), &reading);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(judge(&until(&timed, is_value).await, &usual, INTERVAL), Ok(9.0));
    until(&marked, is_value).await;

    // A vanished series: its group was deleted.
    servers.put("MORTAL", "metrics", "timed_lag 9 NOW\n");
    let gone = until(&marked, |r| !is_value(r)).await;
    assert!(
        matches!(
            &gone,
            Reading::NoSample {
                health: NoSample::Missing,
                ..
            }
        ),
        "{gone:?}"
    );
    servers.put("MORTAL", "metrics", "dying_lag 5\ntimed_lag 9 NOW\n");
    until(&marked, is_value).await;

    servers.kill("MORTAL");
    let gone = until(&marked, |r| !is_value(r)).await;
    assert!(
        matches!(
            &gone,
            Reading::NoSample {
                health: NoSample::Missing,
                ..
            }
        ),
        "{gone:?}"
    );

    let stale = until(&timed, |r| judge(r, &usual, INTERVAL).is_err()).await;
    let no = judge(&stale, &usual, INTERVAL).unwrap_err();
    assert_eq!(no.health, SignalHealth::Stale, "{no:?}");
    // It stays so, however often it is read, and its age grows with the time.
    let age = |reading: &Reading| match reading {
        Reading::Value { age, .. } => *age,
        other => panic!("{other:?}"),
    };
    let (before, begun) = (age(&stale), Instant::now());
    for _ in 0..6 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let reading = timed.read().await;
        usual.observe(boot_now(), &reading);
        assert!(judge(&reading, &usual, INTERVAL).is_err(), "{reading:?}");
        let (grown, passed) = (age(&reading) - before, begun.elapsed());
        assert!(
            grown.abs_diff(passed) < Duration::from_secs(1),
            "{grown:?} in {passed:?}"
        );
    }

    // And when the exporter is back, so is the signal.
    Servers::up(&servers.dir);
    until(&marked, is_value).await;
    until(&timed, |r| judge(r, &usual, INTERVAL).is_ok()).await;
}
