//! What a real Alertmanager does not do on demand: hang, talk nonsense, refuse, flood, lose an answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)] // shared with others, who need more of it
#[path = "prometheus_faults/stand_in.rs"]
mod stand_in;

use backfill::{
    config::{AlertmanagerConfig, HttpAuth, HttpConfig, Matcher, secret::SecretSource},
    net::{AdapterError, Cause, Surroundings},
    signals::{
        LagSource, NoSample, Reading,
        alertmanager::{Alertmanager, silence::Silencer},
    },
};
use rstest::rstest;
use stand_in::{JSON, Seen, StandIn};
use std::{
    io::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

fn config(url: &str) -> AlertmanagerConfig {
    let matchers = ["alertname=HighLag", "consumergroup=~\"or|ders.*\""];
    AlertmanagerConfig {
        http: HttpConfig {
            deadline: Duration::from_secs(20),
            ..HttpConfig::at(url)
        },
        members: Vec::new(),
        matchers: matchers.map(|m| Matcher::parse(m).unwrap()).into(),
        silenced: false,
        inhibited: false,
        watchdog: vec![Matcher::parse("alertname=Watchdog").unwrap()],
        silence: false,
    }
}

async fn read(config: &AlertmanagerConfig) -> Reading {
    Alertmanager::within("page", config, Surroundings::default())
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

fn value(reading: Reading) -> f64 {
    match reading {
        Reading::Value { value, .. } => value,
        other => panic!("no value: {other:?}"),
    }
}

fn now() -> chrono::DateTime<chrono::Utc> {
    chrono::Utc::now()
}

/// An alert of this name that came just now and lives for four minutes.
fn alert(name: &str, state: &str, silenced_by: &str) -> String {
    let ends = now() + chrono::TimeDelta::minutes(4);
    format!(
        r#"{{"labels":{{"alertname":"{name}","consumergroup":"orders"}},"annotations":{{}},"fingerprint":"1",
        "receivers":[],"startsAt":"{0}","updatedAt":"{0}","endsAt":"{1}",
        "status":{{"state":"{state}","silencedBy":[{silenced_by}],"inhibitedBy":[]}}}}"#,
        now().to_rfc3339(),
        ends.to_rfc3339()
    )
}

/// The parameters of a request's query.
fn query(seen: &Seen) -> Vec<(String, String)> {
    let path = seen.line.split(' ').nth(1).unwrap();
    let url = reqwest::Url::parse(&format!("http://x{path}")).unwrap();
    url.query_pairs()
        .map(|(k, v)| (k.into_owned(), v.into_owned()))
        .collect()
}

fn asks_for_watchdog(seen: &Seen) -> bool {
    query(seen).iter().any(|(_, v)| v.contains("Watchdog"))
}

/// Answers with these alerts, and with a watchdog that lives.
fn member(alerts: impl Fn() -> String + Send + Sync + 'static) -> StandIn {
    StandIn::answering(move |seen| {
        let list = if asks_for_watchdog(seen) {
            alert("Watchdog", "active", "")
        } else {
            alerts()
        };
        (200, JSON.to_owned(), format!("[{list}]"))
    })
}

#[tokio::test]
async fn matchers_are_sent_as_repeated_filters_in_quotes_below_the_path_of_the_url() {
    let server = member(|| alert("HighLag", "unprocessed", ""));
    let mut config = config(&format!("{}/am", server.url));
    config
        .http
        .plain_headers
        .insert("X-Scope-OrgID".to_owned(), "orders".to_owned());
    assert_eq!(value(read(&config).await), 1.0);
    let seen = server.seen();
    assert!(
        seen[0].line.starts_with("GET /am/api/v2/alerts?filter="),
        "{}",
        seen[0].line
    );
    assert_eq!(seen[0].header("x-scope-orgid"), Some("orders"));
    let expected = ["alertname=\"HighLag\"", "consumergroup=~\"or|ders.*\""];
    assert_eq!(
        query(&seen[0]),
        expected.map(|v| ("filter".to_owned(), v.to_owned()))
    );
}

/// Case S06: how many requests one read is.
#[tokio::test]
async fn a_read_is_one_request_while_it_fires_and_two_while_it_is_quiet_and_watched() {
    let server = member(|| alert("HighLag", "active", ""));
    assert_eq!(value(read(&config(&server.url)).await), 1.0);
    assert_eq!(server.seen().len(), 1);
    let server = member(String::new);
    assert_eq!(value(read(&config(&server.url)).await), 0.0);
    assert_eq!(server.seen().len(), 2);
    let mut unwatched = config(&server.url);
    unwatched.watchdog.clear();
    assert_eq!(value(read(&unwatched).await), 0.0);
    assert_eq!(server.seen().len(), 3);
}

/// Case S03.
#[tokio::test]
async fn a_refused_login_is_refused_once_in_a_read_and_member() {
    let server = StandIn::answering(|_| (401, String::new(), "Unauthorized\n".to_owned()));
    let mut config = config(&server.url);
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "hunter2\n").unwrap();
    config.http.auth = Some(HttpAuth::Bearer(SecretSource::File(token)));
    let error = failed(read(&config).await);
    assert_eq!(error.cause, Cause::Unauthorized);
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert_eq!(server.seen().len(), 1);
    assert_eq!(server.seen()[0].header("authorization"), Some("Bearer hunter2"));
}

/// Case S03. Each member once, though only one of them refuses; another token goes out at once.
#[tokio::test]
async fn a_refused_login_is_not_sent_to_that_member_again_until_it_changes() {
    let refusing = StandIn::answering(|seen| match seen.header("authorization") {
        Some("Bearer second") => (200, JSON.to_owned(), "[]".to_owned()),
        _ => (401, String::new(), "Unauthorized\n".to_owned()),
    });
    let taking = member(String::new);
    let mut config = config(&refusing.url);
    config.members = vec![taking.url.clone()];
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "first\n").unwrap();
    config.http.auth = Some(HttpAuth::Bearer(SecretSource::File(token.clone())));
    let source = Alertmanager::within("page", &config, Surroundings::default()).unwrap();
    let why = |reading| match reading {
        Reading::NoSample {
            health: NoSample::Partial,
            why,
        } => why,
        other => panic!("not partial: {other:?}"),
    };
    assert!(why(source.read().await).contains("401, not logged in"));
    for _ in 0..4 {
        let why = why(source.read().await);
        assert!(
            why.contains("nothing sent") && why.contains("refused since 20"),
            "{why}"
        );
    }
    assert_eq!(refusing.seen().len(), 1);
    // The other member is asked at each read, for alerts and watchdog.
    assert_eq!(taking.seen().len(), 10);
    std::fs::write(&token, "second\n").unwrap();
    assert_eq!(value(source.read().await), 0.0);
    assert_eq!(refusing.seen().len(), 3);
}

/// Case S04: each of the server's ways to say no is told in its own words.
#[rstest]
#[case(
    400,
    "\"bad matcher format: x\"",
    Cause::BadRequest,
    "400: bad matcher format: x"
)]
#[case(
    422,
    r#"{"code":602,"message":"filter in query is required"}"#,
    Cause::BadRequest,
    "422: filter in query"
)]
#[case(
    410,
    r#"{"status":"deprecated","error":"The Alertmanager v1 API was deprecated"}"#,
    Cause::BadRequest,
    "410: The Alertmanager v1 API"
)]
#[case(404, "404 page not found\n", Cause::NotFound, "404: 404 page not found")]
#[case(
    403,
    "<html><title>No</title>",
    Cause::Forbidden,
    "an HTML page titled \"No\""
)]
#[case(503, "", Cause::Server, "503: no words")]
#[case(
    200,
    "<html><head><title>Sign in</title>",
    Cause::NotUnderstood,
    "an HTML page titled \"Sign in\""
)]
#[case(200, "", Cause::NotUnderstood, "an empty body")]
#[case(200, "null", Cause::NotUnderstood, "JSON of another shape")]
#[case(
    200,
    "{\"status\":\"success\",\"data\":[]}",
    Cause::NotUnderstood,
    "JSON of another shape"
)]
#[case(200, "[{\"labels\":{}}]", Cause::NotUnderstood, "missing field `updatedAt`")]
#[case(200, "[", Cause::NotUnderstood, "which is no JSON")]
#[case(200, "[] []", Cause::NotUnderstood, "which is no JSON")]
#[tokio::test]
async fn what_is_no_list_of_alerts_is_a_failure(
    #[case] status: u16,
    #[case] body: &'static str,
    #[case] cause: Cause,
    #[case] words: &str,
) {
    let server = StandIn::answering(move |_| (status, JSON.to_owned(), body.to_owned()));
    let error = failed(read(&config(&server.url)).await);
    assert_eq!(error.cause, cause, "{error}");
    assert!(error.detail.contains(words), "{error}");
    assert!(error.tried.contains("GET http://127.0.0.1"), "{error}");
}

#[tokio::test]
async fn an_unknown_state_and_an_alert_that_was_not_asked_for_are_not_understood() {
    let server = member(|| alert("HighLag", "dormant", ""));
    let error = failed(read(&config(&server.url)).await);
    assert!(error.detail.contains("unknown variant `dormant`"), "{error}");
    // A proxy that drops the query: everything would fire, and every watchdog would live.
    let server = StandIn::answering(|_| {
        (
            200,
            JSON.to_owned(),
            format!("[{}]", alert("Other", "active", "")),
        )
    });
    let error = failed(read(&config(&server.url)).await);
    assert_eq!(error.cause, Cause::NotUnderstood);
    assert!(
        error.detail.contains("\"Other\", which was not asked for"),
        "{error}"
    );
}

/// Case B28.
#[tokio::test]
async fn a_member_that_hangs_ends_the_read_in_time_and_quiet_is_not_believed() {
    let hanging = StandIn::acting(|_, _| std::thread::sleep(Duration::from_secs(30)));
    let mut config = config(&hanging.url);
    config.http.deadline = Duration::from_millis(500);
    let begun = Instant::now();
    assert_eq!(failed(read(&config).await).cause, Cause::Timeout);
    let quiet = member(String::new);
    config.http.url = quiet.url.clone();
    config.members = vec![hanging.url.clone()];
    match read(&config).await {
        Reading::NoSample { health, why } => {
            assert_eq!(health, NoSample::Partial);
            assert!(why.contains("timed out"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    let firing = member(|| alert("HighLag", "active", ""));
    config.http.url = firing.url.clone();
    assert_eq!(value(read(&config).await), 1.0);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

/// The watchdog's answer is part of the read: without it quiet is nothing.
#[tokio::test]
async fn a_server_that_breaks_off_before_the_watchdog_is_a_failure() {
    let server = StandIn::answering(|seen| match asks_for_watchdog(seen) {
        true => (500, String::new(), "out of memory".to_owned()),
        false => (200, JSON.to_owned(), "[]".to_owned()),
    });
    assert_eq!(failed(read(&config(&server.url)).await).cause, Cause::Server);
}

#[tokio::test]
async fn an_endless_body_is_cut_off() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&sent);
    let server = StandIn::acting(move |_, stream| {
        let head = format!("HTTP/1.1 200 OK\r\n{JSON}Connection: close\r\n\r\n[");
        let mut block = head.into_bytes();
        while stream.write_all(&block).is_ok() {
            count.fetch_add(block.len(), Ordering::Relaxed);
            block = vec![b' '; 65536];
        }
    });
    let error = failed(read(&config(&server.url)).await);
    assert_eq!(error.cause, Cause::NotUnderstood, "{error}");
    assert!(error.detail.contains("more than 8.0 MiB"), "{error}");
    assert!(sent.load(Ordering::Relaxed) < 64 << 20);
}

/// Case S07: an answer that a cache kept is as old as the cache says.
#[tokio::test]
async fn a_kept_answer_has_its_age_and_a_wrong_clock_is_told() {
    let server = StandIn::answering(|seen| {
        let list = if asks_for_watchdog(seen) {
            alert("Watchdog", "active", "")
        } else {
            String::new()
        };
        let date = (now() - chrono::TimeDelta::seconds(70)).format("%a, %d %b %Y %H:%M:%S GMT");
        (
            200,
            format!("{JSON}Age: 70\r\nDate: {date}\r\n"),
            format!("[{list}]"),
        )
    });
    match read(&config(&server.url)).await {
        Reading::Value { age, skew_ms, .. } => {
            assert_eq!(age, Duration::from_secs(70));
            assert!(skew_ms.unwrap().abs() < 2000, "{skew_ms:?}");
        }
        other => panic!("{other:?}"),
    }
    let server = StandIn::answering(|_| {
        let date = (now() + chrono::TimeDelta::seconds(100)).format("%a, %d %b %Y %H:%M:%S GMT");
        (
            200,
            format!("{JSON}Date: {date}\r\n"),
            format!("[{}]", alert("HighLag", "active", "")),
        )
    });
    match read(&config(&server.url)).await {
        Reading::Value { age, skew_ms, .. } => {
            assert_eq!(age, Duration::ZERO);
            assert!((95_000..=100_000).contains(&skew_ms.unwrap()), "{skew_ms:?}");
        }
        other => panic!("{other:?}"),
    }
}

/// Silences in memory, as an Alertmanager keeps them; `lose` breaks the connection after the next one is made.
#[derive(Default)]
struct Silences {
    kept: Mutex<Vec<serde_json::Value>>,
    lose: AtomicUsize,
    made: AtomicUsize,
}

fn silences() -> (StandIn, Arc<Silences>) {
    let state = Arc::new(Silences::default());
    let here = Arc::clone(&state);
    let server = StandIn::acting(move |seen, stream| {
        let mut kept = here.kept.lock().unwrap();
        let (status, body) = match seen.line.split(' ').next().unwrap() {
            "POST" => {
                let mut silence: serde_json::Value = serde_json::from_str(&seen.body).unwrap();
                let id = format!("id-{}", here.made.fetch_add(1, Ordering::Relaxed));
                silence["id"] = id.as_str().into();
                silence["status"] = serde_json::json!({ "state": "active" });
                kept.push(silence);
                if here.lose.swap(0, Ordering::Relaxed) > 0 {
                    return;
                }
                (200, format!("{{\"silenceID\":\"{id}\"}}"))
            }
            "DELETE" => {
                let ended = kept
                    .iter_mut()
                    .find(|s| seen.line.contains(s["id"].as_str().unwrap()));
                match ended {
                    Some(silence) if silence["status"]["state"] == "expired" => {
                        (500, "\"silence already expired\"".to_owned())
                    }
                    Some(silence) => {
                        silence["status"]["state"] = "expired".into();
                        // Ended, and yet refused: as when two end it in the same moment.
                        (500, "\"silence already expired\"".to_owned())
                    }
                    None => (404, String::new()),
                }
            }
            _ => (200, serde_json::to_string(&*kept).unwrap()),
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\n{JSON}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = stream.write_all(head.as_bytes());
    });
    (server, state)
}

fn silencer(config: &AlertmanagerConfig) -> Silencer {
    Silencer::within("page", config, "host:/journal", &Surroundings::default()).unwrap()
}

#[tokio::test]
async fn a_silence_whose_answer_was_lost_is_found_and_not_made_twice() {
    let (server, state) = silences();
    let config = config(&server.url);
    let ten = Duration::from_secs(600);
    state.lose.store(1, Ordering::Relaxed);
    assert_eq!(
        silencer(&config).hold(ten).await.unwrap_err().cause,
        Cause::Broken
    );
    assert_eq!(silencer(&config).hold(ten).await.unwrap().id, "id-0");
    assert_eq!(state.made.load(Ordering::Relaxed), 1);
    // Ending one that somebody ended in the same moment is no failure.
    assert_eq!(silencer(&config).release().await.unwrap(), 1);
    assert_eq!(silencer(&config).release().await.unwrap(), 0);
}

#[tokio::test]
async fn the_next_member_makes_the_silence_where_the_first_is_down() {
    let (server, _) = silences();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config(&format!("http://{}", nobody.local_addr().unwrap()));
    drop(nobody);
    let alone = silencer(&config);
    assert_eq!(
        alone.hold(Duration::from_secs(60)).await.unwrap_err().cause,
        Cause::Refused
    );
    config.members = vec![server.url.clone()];
    assert_eq!(
        silencer(&config).hold(Duration::from_secs(60)).await.unwrap().id,
        "id-0"
    );
    assert_eq!(silencer(&config).release().await.unwrap(), 1);
}

/// The id becomes a part of a path.
#[tokio::test]
async fn a_silence_with_a_strange_id_is_not_understood_and_nothing_is_sent_to_it() {
    let body = r#"[{"id":"../../x","status":{"state":"active"},"createdBy":"backfill","comment":"",
        "startsAt":"2026-01-01T00:00:00Z","endsAt":"2026-01-01T00:00:00Z","matchers":[]}]"#;
    let server = StandIn::saying(body);
    let error = silencer(&config(&server.url)).release().await.unwrap_err();
    assert_eq!(error.cause, Cause::NotUnderstood);
    assert!(
        server
            .seen()
            .iter()
            .all(|s| s.line.starts_with("GET /api/v2/silences "))
    );
}

/// What makes an alert count although it is suppressed cannot be told while the silences cannot be read.
#[tokio::test]
async fn while_the_silences_cannot_be_read_a_silenced_alert_is_neither_firing_nor_quiet() {
    let server = StandIn::answering(|seen| match seen.line.contains("/silences") {
        true => (500, String::new(), "no".to_owned()),
        false => (
            200,
            JSON.to_owned(),
            format!("[{}]", alert("HighLag", "suppressed", "\"s-1\"")),
        ),
    });
    assert_eq!(failed(read(&config(&server.url)).await).cause, Cause::Server);
    let mut silenced = config(&server.url);
    silenced.silenced = true;
    assert_eq!(value(read(&silenced).await), 1.0);
    // Another one beside it fires without any doubt.
    let server = StandIn::answering(|seen| match seen.line.contains("/silences") {
        true => (500, String::new(), "no".to_owned()),
        false => {
            let both = [
                alert("HighLag", "suppressed", "\"s-1\""),
                alert("HighLag", "active", ""),
            ];
            (200, JSON.to_owned(), format!("[{}]", both.join(",")))
        }
    });
    assert_eq!(value(read(&config(&server.url)).await), 1.0);
}
