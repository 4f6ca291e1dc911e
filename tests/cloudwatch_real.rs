//! Against an emulator of CloudWatch (`services/cloudwatch.sh` starts it, once for all tests here, and stops it when this
//! process ends). It takes any signature; those are held against AWS's own test suite beside their code.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use backfill::{
    config::{AwsKeys, CloudWatchConfig, SignalConfig, SourceConfig, Unit, secret::SecretSource},
    signals::{
        LagSource, NoSample, Reading, build,
        validity::{UsualAge, judge, skew_warning},
    },
};
use serde_json::{Value, json};
use std::{
    process::{Command, Stdio},
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Time between two reads.
const INTERVAL: Duration = Duration::from_secs(60);

/// The emulator's url. Each test has streams of its own.
fn emulator() -> &'static str {
    static STARTED: OnceLock<String> = OnceLock::new();
    STARTED.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap().keep();
        let started = Command::new("bash")
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/services/cloudwatch.sh"
            ))
            .arg("up")
            .arg(&dir)
            .env("OWNER", std::process::id().to_string())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(started.status.success(), "no emulator: {words}");
        let lines = String::from_utf8(started.stdout).unwrap();
        let url = lines.lines().find_map(|l| l.strip_prefix("CLOUDWATCH_URL="));
        url.unwrap().to_owned()
    })
}

/// Puts a datapoint of so many seconds ago, as Kinesis does.
async fn put(metric: &str, dimensions: &[(&str, &str)], seconds_ago: i64, milliseconds: f64) {
    backfill::net::use_ring();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let dimensions: Vec<Value> = dimensions
        .iter()
        .map(|(name, value)| json!({"Name": name, "Value": value}))
        .collect();
    let body = json!({"Namespace": "AWS/Kinesis", "MetricData": [{
        "MetricName": metric, "Dimensions": dimensions, "Unit": "Milliseconds",
        "Timestamp": chrono::Utc::now().timestamp() - seconds_ago, "Value": milliseconds}]});
    let answer = client
        .post(emulator())
        .header("x-amz-target", "GraniteServiceVersion20100801.PutMetricData")
        .header("content-type", "application/x-amz-json-1.0")
        .header(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=emulator/20261130/eu-central-1/monitoring/aws4_request, \
             SignedHeaders=host, Signature=00",
        )
        .body(body.to_string())
        .send()
        .await
        .unwrap();
    let (status, words) = (answer.status(), answer.text().await.unwrap());
    assert!(status.is_success(), "{words}");
}

async fn put_age(stream: &str, seconds_ago: i64, milliseconds: f64) {
    let dimensions = [("StreamName", stream)];
    put(
        "GetRecords.IteratorAgeMilliseconds",
        &dimensions,
        seconds_ago,
        milliseconds,
    )
    .await;
}

fn source(streams: &[&str], consumer: Option<&str>) -> Arc<dyn LagSource> {
    // Variables that every test runs with.
    let variable = |name: &str| SecretSource::Env(name.to_owned());
    let config = CloudWatchConfig {
        consumer: consumer.map(str::to_owned),
        endpoint: Some(emulator().to_owned()),
        keys: Some(AwsKeys {
            access_key: variable("CARGO_PKG_NAME"),
            secret_key: variable("CARGO_MANIFEST_DIR"),
            session_token: None,
        }),
        deadline: Duration::from_secs(20),
        ..CloudWatchConfig::of("eu-central-1", streams.iter().map(|s| (*s).to_owned()).collect())
    };
    let signal = SignalConfig {
        source: SourceConfig::CloudWatch(config),
        unit: Unit::Seconds,
        low: 30.0,
        soft: 60.0,
        hard: 180.0,
        critical: 900.0,
        interval: INTERVAL,
        protects: true,
    };
    build(&"clicks".parse().unwrap(), &signal).unwrap()
}

fn missing(reading: Reading) -> String {
    match reading {
        Reading::NoSample {
            health: NoSample::Missing,
            why,
        } => why,
        other => panic!("not missing: {other:?}"),
    }
}

#[tokio::test]
async fn the_newest_datapoint_of_the_worst_stream_is_the_value_in_seconds_with_its_own_age() {
    put_age("worst-a", 300, 999_000.0).await;
    put_age("worst-a", 130, 93_000.0).await;
    put_age("worst-b", 70, 1_200.0).await;
    let reading = source(&["worst-b", "worst-a"], None).read().await;
    let Reading::Value {
        value, age, parts, ..
    } = &reading
    else {
        panic!("{reading:?}");
    };
    assert_eq!(*value, 93.0);
    let named: Vec<(&str, f64)> = parts
        .iter()
        .map(|p| (p.name.as_str(), *p.value.as_ref().unwrap()))
        .collect();
    assert_eq!(named, [("worst-a", 93.0), ("worst-b", 1.2)]);
    // 130 s ago began some second of a minute that ended at most 130 s ago and not before 70 s ago.
    let between = Duration::from_secs(69)..Duration::from_secs(150);
    assert!(between.contains(age), "{age:?}");
    assert_eq!(judge(&reading, &UsualAge::new(), INTERVAL), Ok(93.0));
    assert_eq!(skew_warning(&reading), None);
}

#[tokio::test]
async fn the_oldest_record_within_a_minute_counts() {
    // Both in one minute: whole ones are asked for, and these are those before the last.
    let now = chrono::Utc::now().timestamp();
    let ago = 120 + now.rem_euclid(60);
    put_age("peak", ago - 10, 7_000.0).await;
    put_age("peak", ago - 20, 61_000.0).await;
    put_age("peak", ago - 30, 5_000.0).await;
    assert!(matches!(
        source(&["peak"], None).read().await,
        Reading::Value { value: 61.0, .. }
    ));
}

/// Case B28.
#[tokio::test]
async fn a_stream_that_nobody_reads_any_more_is_missing() {
    put_age("read", 70, 0.0).await;
    put_age("dead", 1500, 4_000.0).await;
    assert!(matches!(
        source(&["read"], None).read().await,
        Reading::Value { value: 0.0, .. }
    ));
    for streams in [vec!["dead"], vec!["nosuch"], vec!["read", "dead"]] {
        let why = missing(source(&streams, None).read().await);
        let last = streams.last().unwrap();
        assert!(
            why.starts_with(&format!("{last}: no datapoint in the last 10 minutes")),
            "{why}"
        );
    }
}

#[tokio::test]
async fn a_consumer_with_a_pipe_of_its_own_is_read_by_its_own_metric() {
    put_age("fan", 70, 1_000.0).await;
    let of = |consumer| [("StreamName", "fan"), ("ConsumerName", consumer)];
    put(
        "SubscribeToShardEvent.MillisBehindLatest",
        &of("live"),
        70,
        42_000.0,
    )
    .await;
    put("SubscribeToShardEvent.MillisBehindLatest", &of("other"), 70, 1.0).await;
    assert!(matches!(
        source(&["fan"], Some("live")).read().await,
        Reading::Value { value: 42.0, .. }
    ));
    missing(source(&["fan"], Some("gone")).read().await);
}

/// Exit code and what is said about the signal by the program itself, with these variables beside PATH.
fn check(stream: &str, variables: &[(&str, &str)]) -> (i32, Value) {
    let dir = tempfile::tempdir().unwrap();
    let config = format!(
        "[journal]\npath = \"state/journal.db\"\n[executors.here]\nkind = \"local\"\n[signals.clicks]\n\
         kind = \"cloudwatch\"\nregion = \"eu-central-1\"\nstreams = [\"{stream}\"]\nendpoint = \"{}\"\n",
        emulator()
    );
    std::fs::write(dir.path().join("config.toml"), config).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_backfill"))
        .args(["check", "--json", "--config"])
        .arg(dir.path().join("config.toml"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", dir.path())
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    let findings = said["findings"].as_array().unwrap();
    let signal = findings.iter().find(|f| f["what"] == "signal clicks");
    (
        out.status.code().unwrap(),
        signal.unwrap_or_else(|| panic!("{said}")).clone(),
    )
}

#[tokio::test]
async fn the_program_takes_its_key_from_the_usual_variables_and_says_when_there_is_none() {
    put_age("checked", 70, 5_000.0).await;
    let key = [
        ("AWS_ACCESS_KEY_ID", "emulator"),
        ("AWS_SECRET_ACCESS_KEY", "never-shown"),
    ];
    let (code, said) = check("checked", &key);
    assert_eq!(code, 0, "{said}");
    assert!(said.to_string().contains("5 (checked), "), "{said}");
    let (code, said) = check("checked", &key[..1]);
    assert_ne!(code, 0);
    let text = said.to_string();
    assert!(
        text.contains(
            "the environment variable AWS_SECRET_ACCESS_KEY is not set; set it, or name access_key"
        ),
        "{text}"
    );
    assert!(text.contains("region, endpoint and the keys"), "{text}");
    let (_, said) = check("nosuch", &key);
    assert!(
        said.to_string().contains("look for the metric in CloudWatch"),
        "{said}"
    );
}
