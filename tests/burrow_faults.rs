//! What a real Burrow does not do on demand: hang, talk nonsense, refuse, flood; and what it was recorded to say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)] // shared with others, who need more of it
#[path = "prometheus_faults/stand_in.rs"]
mod stand_in;

use backfill::{
    config::{BurrowConfig, HttpAuth, HttpConfig, secret::SecretSource},
    net::{AdapterError, Cause, Surroundings},
    signals::{
        LagSource, NoSample, Reading,
        burrow::Burrow,
        validity::{SignalHealth, UsualAge, judge},
    },
};
use rstest::rstest;
use serde_json::{Value, json};
use stand_in::{JSON, StandIn};
use std::{
    collections::BTreeSet,
    io::Write,
    time::{Duration, Instant},
};

const NOT_FOUND: &str = include_str!("burrow_samples/lag-notfound.json");
const CLUSTERS: &str = include_str!("burrow_samples/clusters.json");

fn config(url: &str, groups: &[&str]) -> BurrowConfig {
    BurrowConfig {
        http: HttpConfig {
            deadline: Duration::from_secs(20),
            ..HttpConfig::at(url)
        },
        cluster: "local".to_owned(),
        groups: groups.iter().map(|g| (*g).to_owned()).collect(),
        topics: BTreeSet::new(),
    }
}

async fn read(config: &BurrowConfig) -> Reading {
    Burrow::within("orders", config, Surroundings::default())
        .unwrap()
        .read()
        .await
}

fn failed(reading: Reading) -> AdapterError {
    match reading {
        Reading::Failed(error) => error,
        other => panic!("not failed: {other:?}"),
    }
}

fn no_sample(reading: Reading) -> (NoSample, String) {
    match reading {
        Reading::NoSample { health, why } => (health, why),
        other => panic!("no *no sample*: {other:?}"),
    }
}

/// A group with one partition that was committed just now.
fn group(name: &str, lag: u64) -> Value {
    let now = chrono::Utc::now().timestamp_millis();
    json!({"error": false, "message": "consumer status returned",
        "status": {"cluster": "local", "group": name, "status": "OK", "complete": 1,
            "partitions": [{"topic": "orders", "partition": 0, "owner": "", "client_id": "", "status": "OK",
                "start": {"offset": 1, "timestamp": now - 5000, "lag": 0},
                "end": {"offset": 2, "timestamp": now - 1000, "lag": 0}, "current_lag": lag, "complete": 1}],
            "partition_count": 1, "maxlag": null, "totallag": lag},
        "request": {"url": "/v3", "host": "burrow.example"}})
}

/// Answers with this group, changed.
fn saying(change: impl Fn(&mut Value)) -> StandIn {
    let mut answer = group("live", 7);
    change(&mut answer);
    StandIn::saying(&answer.to_string())
}

#[tokio::test]
async fn every_group_is_asked_for_below_the_path_of_the_url_and_the_worst_is_the_value() {
    let server = StandIn::answering(|seen| {
        let answer = match seen.line.split(' ').nth(1).unwrap() {
            "/b/v3/kafka/local/consumer/pay/lag" => group("pay", 7),
            "/b/v3/kafka/local/consumer/a%20%25%3F%23b/lag" => group("a %?#b", 900),
            other => panic!("{other}"),
        };
        (200, JSON.to_owned(), answer.to_string())
    });
    let mut config = config(&format!("{}/b", server.url), &["pay", "a %?#b"]);
    config
        .http
        .plain_headers
        .insert("X-Team".to_owned(), "etl".to_owned());
    let Reading::Value {
        value, age, parts, ..
    } = read(&config).await
    else {
        panic!("no value");
    };
    assert_eq!(value, 900.0);
    let named: Vec<(&str, &Result<f64, String>)> =
        parts.iter().map(|p| (p.name.as_str(), &p.value)).collect();
    assert_eq!(named, [("a %?#b", &Ok(900.0)), ("pay", &Ok(7.0))]);
    assert!(
        (Duration::from_secs(1)..Duration::from_secs(15)).contains(&age),
        "{age:?}"
    );
    assert!(server.seen().iter().all(|s| s.header("x-team") == Some("etl")));
}

/// Case B28.
#[tokio::test]
async fn a_group_that_is_not_found_is_missing_though_its_lag_is_zero_and_there_is_no_error() {
    let server = StandIn::answering(|seen| {
        if seen.line.starts_with("GET /v3/kafka HTTP") {
            (200, JSON.to_owned(), CLUSTERS.to_owned())
        } else {
            (404, JSON.to_owned(), NOT_FOUND.to_owned())
        }
    });
    let (health, why) = no_sample(read(&config(&server.url, &["nosuch"])).await);
    assert_eq!(health, NoSample::Missing);
    assert!(why.starts_with("nosuch: Burrow knows no such group"), "{why}");
    let mut elsewhere = config(&server.url, &["nosuch"]);
    elsewhere.cluster = "prod".to_owned();
    let (health, why) = no_sample(read(&elsewhere).await);
    assert_eq!(
        (health, why.as_str()),
        (
            NoSample::Missing,
            "nosuch: Burrow knows no cluster prod, only local"
        )
    );
}

#[tokio::test]
async fn not_found_with_status_200_is_missing_too() {
    let server = StandIn::answering(|seen| {
        let clusters = seen.line.starts_with("GET /v3/kafka HTTP");
        let body = if clusters { CLUSTERS } else { NOT_FOUND };
        (200, JSON.to_owned(), body.to_owned())
    });
    let (health, _) = no_sample(read(&config(&server.url, &["nosuch"])).await);
    assert_eq!(health, NoSample::Missing);
}

/// Case B28.
#[tokio::test]
async fn numbers_that_burrow_repeats_after_its_brokers_have_gone_are_stale_on_its_own_clock() {
    let mut answer = group("live", 3);
    // 13:00:00, and a clock that shows an hour later.
    answer["status"]["partitions"][0]["end"]["timestamp"] = json!(1_796_043_600_000_i64);
    let server = StandIn::answering(move |_| {
        let headers = format!("{JSON}Date: Mon, 30 Nov 2026 14:00:00 GMT\r\n");
        (200, headers, answer.to_string())
    });
    let reading = read(&config(&server.url, &["live"])).await;
    let Reading::Value { value, age, .. } = &reading else {
        panic!("{reading:?}");
    };
    assert_eq!(*value, 3.0);
    // `Date` has whole seconds, and the answer takes its time.
    let between = Duration::from_secs(3600)..Duration::from_secs(3615);
    assert!(between.contains(age), "{age:?}");
    let unusable = judge(&reading, &UsualAge::new(), Duration::from_secs(15)).unwrap_err();
    assert_eq!(unusable.health, SignalHealth::Stale);
}

#[tokio::test]
async fn a_group_that_stands_still_speaks_for_the_others() {
    let server = StandIn::answering(|seen| {
        let answer = if seen.line.contains("/orders-svc/") {
            include_str!("burrow_samples/lag.json").to_owned()
        } else {
            group("pay", 7).to_string()
        };
        (200, JSON.to_owned(), answer)
    });
    let (health, why) = no_sample(read(&config(&server.url, &["pay", "orders-svc"])).await);
    assert_eq!(
        (health, why.as_str()),
        (NoSample::Stalled, "orders-svc: orders/1 STALL at 325 messages")
    );
}

#[rstest]
#[case::a_text(
    "Content-Type: text/plain\r\n",
    "404 page not found",
    "404: 404 page not found"
)]
#[case::a_page(
    "Content-Type: text/html\r\n",
    "<html><title>Gone</title></html>",
    "an HTML page titled \"Gone\""
)]
#[case::burrows_own_error(JSON, include_str!("burrow_samples/consumer-404.json"), "cluster or consumer not found")]
#[case::an_empty_one("", "", "404")]
#[tokio::test]
async fn a_404_that_speaks_of_no_group_is_a_wrong_url_and_no_missing_group(
    #[case] headers: &'static str,
    #[case] body: &'static str,
    #[case] words: &str,
) {
    let server = StandIn::answering(move |_| (404, headers.to_owned(), body.to_owned()));
    let error = failed(read(&config(&server.url, &["live"])).await);
    assert_eq!(error.cause, Cause::NotFound);
    assert!(
        error.to_string().contains("look at the path prefix of the url"),
        "{error}"
    );
    assert!(error.detail.contains(words), "{error}");
}

#[rstest]
#[case::an_error(|a: &mut Value| { a["error"] = json!(true); a["message"] = json!("boom"); }, "it failed: boom")]
#[case::no_status(|a: &mut Value| { a["status"] = Value::Null; }, "without a status")]
#[case::another_group(|a: &mut Value| a["status"]["group"] = json!("pay"), "about the group pay")]
#[case::another_cluster(|a: &mut Value| a["status"]["cluster"] = json!("x"), "of the cluster x")]
#[case::a_status_that_is_none(|a: &mut Value| a["status"]["status"] = json!("FINE"), "FINE")]
#[case::below_zero(|a: &mut Value| a["status"]["partitions"][0]["current_lag"] = json!(-1), "-1")]
#[case::half_a_message(|a: &mut Value| a["status"]["partitions"][0]["current_lag"] = json!(1.5), "1.5")]
#[case::no_lag(|a: &mut Value| { a["status"]["partitions"][0].as_object_mut().unwrap().remove("current_lag"); }, "current_lag")]
#[case::no_time(|a: &mut Value| { a["status"]["partitions"][0]["end"] = json!({"offset": 1}); }, "timestamp")]
#[case::no_partitions(|a: &mut Value| a["status"]["partitions"] = Value::Null, "null")]
#[tokio::test]
async fn an_answer_of_another_shape_is_not_understood(#[case] change: fn(&mut Value), #[case] words: &str) {
    let server = saying(change);
    let error = failed(read(&config(&server.url, &["live"])).await);
    assert_eq!(error.cause, Cause::NotUnderstood);
    assert!(error.detail.contains(words), "{error}");
}

#[tokio::test]
async fn fields_that_are_new_do_no_harm() {
    let server = saying(|a| {
        a["status"]["partitions"][0]["end"]["observedAt"] = json!(1);
        a["status"]["totallag"] = json!(1e9);
    });
    assert!(matches!(
        read(&config(&server.url, &["live"])).await,
        Reading::Value { value: 7.0, .. }
    ));
}

#[tokio::test]
async fn a_page_for_people_is_named_and_a_flood_is_cut() {
    let page = StandIn::answering(|_| {
        let body = "<html><head><title>Sign in</title></head></html>";
        (200, "Content-Type: text/html\r\n".to_owned(), body.to_owned())
    });
    let error = failed(read(&config(&page.url, &["live"])).await);
    assert_eq!(error.cause, Cause::NotUnderstood);
    assert!(
        error.detail.contains("text/html") && error.detail.contains("Sign in"),
        "{error}"
    );
    let flood = StandIn::acting(|_, stream| {
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n");
        let block = vec![b' '; 1 << 20];
        while stream.write_all(&block).is_ok() {}
    });
    let error = failed(read(&config(&flood.url, &["live"])).await);
    assert_eq!(error.cause, Cause::NotUnderstood);
    assert!(error.detail.contains("more than 8.0 MiB"), "{error}");
}

#[tokio::test]
async fn a_burrow_that_hangs_ends_the_read_at_its_deadline_however_many_groups_there_are() {
    let server = StandIn::acting(|_, _| std::thread::sleep(Duration::from_secs(15)));
    let mut config = config(&server.url, &["a", "b", "c"]);
    config.http.deadline = Duration::from_millis(300);
    let begun = Instant::now();
    let error = failed(read(&config).await);
    assert_eq!(error.cause, Cause::Timeout);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// Case S06: a read is one request for each group, and one more where Burrow does not know one.
#[tokio::test]
async fn a_read_is_one_request_for_each_group() {
    let server = StandIn::answering(|seen| {
        let known = |name: &str| seen.line.contains(&format!("/consumer/{name}/lag"));
        match ["a", "b", "c"].into_iter().find(|name| known(name)) {
            Some(name) => (200, JSON.to_owned(), group(name, 7).to_string()),
            None if seen.line.contains("/consumer/") => (404, JSON.to_owned(), NOT_FOUND.to_owned()),
            None => (200, JSON.to_owned(), CLUSTERS.to_owned()),
        }
    });
    for (groups, requests) in [(&["a"][..], 1), (&["a", "b", "c"], 3), (&["a", "gone"], 3)] {
        let before = server.seen().len();
        read(&config(&server.url, groups)).await;
        assert_eq!(server.seen().len() - before, requests, "{groups:?}");
    }
}

/// Case S03.
#[tokio::test]
async fn a_refused_login_is_refused_once_a_read_and_its_password_is_never_shown() {
    let server = StandIn::answering(|seen| {
        let sent = seen.header("authorization").unwrap_or_default().to_owned();
        (401, String::new(), format!("who is {sent}"))
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "hunter22\n").unwrap();
    let mut config = config(&server.url, &["a", "b", "c"]);
    config.http.auth = Some(HttpAuth::Basic {
        user: "etl".to_owned(),
        password: SecretSource::File(file),
    });
    let error = failed(read(&config).await);
    assert_eq!(error.cause, Cause::Unauthorized);
    assert_eq!(server.seen().len(), 1);
    assert!(error.detail.contains("who is Basic ***"), "{error}");
}

/// Case S03.
#[tokio::test]
async fn a_refused_login_is_not_sent_again_until_it_changes() {
    // `etl:newer`
    let server = StandIn::answering(|seen| match seen.header("authorization") {
        Some("Basic ZXRsOm5ld2Vy") => (200, JSON.to_owned(), group("live", 7).to_string()),
        _ => (401, String::new(), "who are you?".to_owned()),
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "older\n").unwrap();
    let mut config = config(&server.url, &["live"]);
    config.http.auth = Some(HttpAuth::Basic {
        user: "etl".to_owned(),
        password: SecretSource::File(file.clone()),
    });
    let source = Burrow::within("orders", &config, Surroundings::default()).unwrap();
    assert_eq!(failed(source.read().await).detail, "401: who are you?");
    for _ in 0..4 {
        let error = failed(source.read().await);
        assert_eq!(error.cause, Cause::Unauthorized);
        assert_eq!(error.tried, "nothing sent, the login is still the refused one");
        assert!(error.detail.starts_with("refused since 20"), "{error}");
        assert!(error.detail.ends_with(": 401: who are you?"), "{error}");
    }
    assert_eq!(server.seen().len(), 1);
    std::fs::write(&file, "newer\n").unwrap();
    match source.read().await {
        Reading::Value { value, .. } => assert_eq!(value, 7.0),
        other => panic!("no value: {other:?}"),
    }
    assert_eq!(server.seen().len(), 2);
}
