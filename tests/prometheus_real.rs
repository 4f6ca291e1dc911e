//! Against a real Prometheus and real scrapes (`services/prometheus.sh` starts both, once for all tests here, and
//! stops them when this process ends).

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use backfill::{
    config::{HttpConfig, Preset, PrometheusConfig, SignalConfig, SourceConfig, Unit},
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

/// Exporters: `steady` lives, `moody` answers scrapes in odd ways, `mortal` is killed, the series of `sets` come and go,
/// `kafka` and its `twin` serve the same as exporters of Kafka do.
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
            let kafka = include_str!("prometheus_real/kafka.prom");
            servers.put("KAFKA", "metrics", kafka);
            servers.put("TWIN", "metrics", kafka);
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
            .env("EXPORTERS", "steady moody mortal sets kafka twin")
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
        ("parts_lag", NoSample::Partial, "2: the value is -1, below zero"),
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

fn parts(reading: &Reading) -> Vec<(String, f64)> {
    match reading {
        Reading::Value { parts, .. } => parts
            .iter()
            .map(|p| (p.name.clone(), *p.value.as_ref().unwrap()))
            .collect(),
        other => panic!("{other:?}"),
    }
}

fn built(config: PrometheusConfig) -> Arc<dyn LagSource> {
    let mut signal = signal("x");
    signal.source = SourceConfig::Prometheus(config);
    build(&"lag".parse().unwrap(), &signal).unwrap()
}

fn is_partial(reading: &Reading) -> bool {
    matches!(
        reading,
        Reading::NoSample {
            health: NoSample::Partial,
            ..
        }
    )
}

/// Case B28.
#[tokio::test]
async fn one_signal_watches_many_groups_and_misses_one_that_vanishes() {
    let put = |text: &str| Servers::get().put("SETS", "metrics", text);
    put("set_lag{topic=\"a\"} 1\nset_lag{topic=\"b\"} 5\n");
    let query = "max by (topic) (set_lag)";
    let patient = built(PrometheusConfig::at(server(), query));
    let both = until(&patient, |r| is_value(r) && parts(r).len() == 2).await;
    assert_eq!(parts(&both), [("a".to_owned(), 1.0), ("b".to_owned(), 5.0)]);
    assert!(matches!(both, Reading::Value { value: 5.0, .. }), "{both:?}");
    let short = built(PrometheusConfig {
        gone_after: Duration::from_secs(2),
        ..PrometheusConfig::at(server(), query)
    });
    let enough = built(PrometheusConfig {
        series: Some(1),
        ..PrometheusConfig::at(server(), query)
    });
    for source in [&short, &enough] {
        assert_eq!(parts(&until(source, is_value).await).len(), 2);
    }
    put("set_lag{topic=\"a\"} 1\n");
    let partial = until(&patient, |r| !is_value(r)).await;
    let Reading::NoSample { why, .. } = &partial else {
        panic!("{partial:?}");
    };
    assert!(is_partial(&partial) && why.starts_with("b is gone for "), "{why}");
    assert!(matches!(enough.read().await, Reading::Value { value: 1.0, .. }));
    assert!(is_partial(&short.read().await));
    let given_up = until(&short, is_value).await;
    assert!(
        matches!(given_up, Reading::Value { value: 1.0, .. }),
        "{given_up:?}"
    );
    assert!(is_partial(&patient.read().await));
    // NaN of one is no number of it, and back it is complete.
    put("set_lag{topic=\"a\"} 1\nset_lag{topic=\"b\"} NaN\n");
    until(
        &patient,
        |r| matches!(r, Reading::NoSample { why, .. } if why == "b: the value is NaN"),
    )
    .await;
    put("set_lag{topic=\"a\"} 1\nset_lag{topic=\"b\"} 2\n");
    until(&patient, |r| matches!(r, Reading::Value { value: 2.0, .. })).await;
}

fn preset(preset: Preset, names: &[&str], topics: &[&str], unit: Unit) -> Arc<dyn LagSource> {
    let texts = |t: &[&str]| t.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    built(PrometheusConfig::of_preset(
        server(),
        preset.write(&texts(names), &texts(topics), unit),
    ))
}

/// The exporter and its twin serve the same, and nothing is doubled.
#[tokio::test]
async fn presets_read_what_exporters_serve() {
    use Preset::{BurrowExporter, Flink, KafkaExporter, KafkaLagExporter, Kinesis, Kminion, Msk};
    let (m, s) = (Unit::Messages, Unit::Seconds);
    // A regular expression would take `payments.eu` for `payments-eu`, too.
    let two = preset(KafkaExporter, &["orders", "payments.eu"], &[], m);
    let expected = [
        ("orders/clicks", 42.0),
        ("orders/views", 5.0),
        ("payments.eu/clicks", 7.0),
    ];
    let found = parts(&until(&two, is_value).await);
    assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)));
    for (source, name, value) in [
        (
            preset(KafkaExporter, &["orders"], &["views"], m),
            "orders/views",
            5.0,
        ),
        (
            preset(KafkaExporter, &["odd\"name\\x"], &[], m),
            "odd\"name\\x/clicks",
            6.0,
        ),
        (preset(Kminion, &["orders"], &[], m), "orders/clicks", 11.0),
        (
            preset(KafkaLagExporter, &["orders"], &[], m),
            "orders/clicks",
            30.0,
        ),
        (
            preset(KafkaLagExporter, &["orders"], &[], s),
            "orders/clicks",
            8.5,
        ),
        (preset(BurrowExporter, &["orders"], &[], m), "orders/clicks", 9.0),
        (preset(Flink, &["etl"], &[], m), "etl/Source: clicks", 70.0),
        (preset(Flink, &["etl"], &[], s), "etl/Source: clicks", 2.5),
        (preset(Msk, &["orders"], &[], m), "orders/clicks", 123.0),
        (preset(Msk, &["orders"], &[], s), "orders/clicks", 4.0),
        (preset(Kinesis, &["a"], &[], s), "a", 1.5),
        (preset(Kinesis, &["b"], &[], s), "b", 3.0),
    ] {
        let reading = until(&source, is_value).await;
        assert_eq!(parts(&reading), [(name.to_owned(), value)]);
    }
    let streams = preset(Kinesis, &["a", "b"], &[], s);
    assert_eq!(parts(&until(&streams, is_value).await).len(), 2);
}

/// Case B28.
#[tokio::test]
async fn partitions_without_a_commit_are_counted_and_never_summed() {
    let of = |groups: &[&str]| preset(Preset::KafkaExporter, groups, &[], Unit::Messages);
    // One of twelve: told beside the number.
    let reading = until(&of(&["many"]), is_value).await;
    let Reading::Value { value, parts, .. } = &reading else {
        panic!("{reading:?}");
    };
    assert_eq!(*value, 11.0);
    assert_eq!(
        parts[0].note,
        "1 of 12 partitions without a commit or a valid lag"
    );
    for (groups, health, words) in [
        (&["few"][..], NoSample::Partial, "few/clicks: 1 of 2 partitions"),
        (&["never"], NoSample::Missing, "none of 2 partitions has a lag"),
        (
            &["many", "never"],
            NoSample::Partial,
            "never/clicks: 2 of 2 partitions",
        ),
        (
            &["many", "nobody"],
            NoSample::Partial,
            "no lag of consumergroup nobody",
        ),
        (&["nobody"], NoSample::Missing, "no such series now"),
    ] {
        match of(groups).read().await {
            Reading::NoSample { health: found, why } => {
                assert_eq!(found, health, "{groups:?}: {why}");
                assert!(why.starts_with(words) || why.contains(words), "{groups:?}: {why}");
            }
            other => panic!("{groups:?}: {other:?}"),
        }
    }
}

/// Reads the past until it is as wanted.
async fn past(query: &str, wanted: impl Fn(&[(Duration, f64)]) -> bool) -> Vec<(Duration, f64)> {
    let (source, begun) = (source(query), Instant::now());
    loop {
        let past = source.history(Duration::from_secs(600), INTERVAL).await.unwrap();
        if wanted(&past) {
            return past;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "still {past:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn the_past_is_told_as_it_was() {
    for (query, value) in [
        ("sum(steady_lag)", 42.0),
        ("parts_lag{partition=~\"0|1\"}", 12.0),
        // It takes no label; value and age are asked for apart.
        ("scalar(sum(steady_lag))", 42.0),
    ] {
        let past = past(query, |p| p.len() >= 3).await;
        assert!(
            past.iter()
                .all(|(ago, v)| *v == value && *ago <= Duration::from_secs(600)),
            "{past:?}"
        );
        assert!(past.windows(2).all(|w| w[0].0 > w[1].0), "{past:?}");
    }
    for query in [
        "nan_lag",
        "parts_lag",
        "no_such_lag",
        "vector(0)",
        "sum(no_such_lag) or vector(0)",
    ] {
        assert_eq!(past(query, |_| true).await, [], "{query}");
    }
    // More points than a Prometheus gives.
    let month = Duration::from_secs(30 * 86_400);
    source("steady_lag")
        .history(month, Duration::from_millis(1))
        .await
        .unwrap();
}
