//! Logging in to a 3.x, and what is not done after a refusal.

use crate::airflow_support::*;
use backfill::{
    config::secret::SecretSource,
    executor::airflow::{Auth, Connection, Kind, Standing},
    net::Cause,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};
use wiremock::{MockServer, Request, ResponseTemplate};

const T0: i64 = 1_796_000_000;

fn dags() -> ResponseTemplate {
    let mut all = json_of("v2_dags.json");
    all["total_entries"] = 2.into();
    json(200, all.to_string())
}

/// Logs in, and takes the tokens that `good` takes. The n-th log-in gives the token `n`.
async fn server(
    life: i64,
    good: impl Fn(u32, &Request) -> Option<ResponseTemplate> + Send + Sync + 'static,
) -> MockServer {
    let log_ins = AtomicU32::new(0);
    airflow3(move |request| {
        if request.url.path() == "/auth/token" {
            let wanted = serde_json::json!({"username": "admin", "password": "hunter2-password"});
            if body_of(request) != wanted {
                return Some(json(401, r#"{"detail":"Invalid credentials"}"#));
            }
            let n = log_ins.fetch_add(1, Ordering::SeqCst) + 1;
            let token = jwt(&n.to_string(), T0, T0 + life);
            return Some(json(201, format!(r#"{{"access_token":"{token}"}}"#)));
        }
        good(log_ins.load(Ordering::SeqCst), request)
    })
    .await
}

fn bearer(request: &Request) -> &str {
    header(request, "authorization").unwrap_or("")
}

fn password(dir: &tempfile::TempDir, value: &str) -> Auth {
    Auth::Password {
        user: "admin".into(),
        password: secret(dir, "password", value).0,
    }
}

fn good(dir: &tempfile::TempDir) -> Auth {
    password(dir, "hunter2-password\n")
}

async fn log_ins(server: &MockServer) -> usize {
    asked(server)
        .await
        .iter()
        .filter(|l| *l == "POST /auth/token")
        .count()
}

#[tokio::test]
async fn two_callers_at_once_log_in_once_and_send_the_token() {
    let server = server(86_400, |_, request| {
        (bearer(request) == format!("Bearer {}", jwt("1", T0, T0 + 86_400))).then(dags)
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let (airflow, _) = connect(&server, good(&dir));
    assert_eq!(airflow.usage().standing, Standing::Untried);
    let (a, b) = tokio::join!(airflow.dag_stats(&["x"]), airflow.dags());
    assert!(
        a.is_err_and(|e| e.kind == Kind::NotUnderstood),
        "another shape, but let in"
    );
    assert_eq!(b.unwrap().rows.len(), 2);
    assert_eq!(log_ins(&server).await, 1);
    let until = Some(at("2026-12-01T00:53:20Z"));
    assert_eq!(airflow.usage().standing, Standing::Good { until });
}

#[tokio::test]
async fn a_token_is_renewed_before_its_end_and_not_sooner() {
    let server = server(1000, |_, _| Some(dags())).await;
    let dir = tempfile::tempdir().unwrap();
    let (airflow, clock) = connect(&server, good(&dir));
    airflow.dags().await.unwrap();
    clock.advance(899);
    airflow.dags().await.unwrap();
    assert_eq!(log_ins(&server).await, 1);
    clock.advance(2);
    airflow.dags().await.unwrap();
    assert_eq!(log_ins(&server).await, 2);
    let last = last(&server).await;
    assert_eq!(bearer(&last), format!("Bearer {}", jwt("2", T0, T0 + 1000)));
}

#[tokio::test]
async fn a_renewal_that_fails_does_no_harm_while_the_token_is_still_good() {
    let broken = AtomicU32::new(0);
    let server = airflow3(move |request| {
        if request.url.path() != "/auth/token" {
            return Some(dags());
        }
        Some(match broken.fetch_add(1, Ordering::SeqCst) {
            0 => json(
                201,
                format!(r#"{{"access_token":"{}"}}"#, jwt("1", T0, T0 + 1000)),
            ),
            _ => json(503, r#"{"detail":"starting"}"#),
        })
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let (airflow, clock) = connect(&server, good(&dir));
    airflow.dags().await.unwrap();
    clock.advance(950);
    for _ in 0..5 {
        airflow.dags().await.unwrap();
    }
    assert_eq!(
        log_ins(&server).await,
        2,
        "and it is not tried again with each call"
    );
    clock.advance(51);
    let error = airflow.dags().await.unwrap_err();
    assert_eq!((error.kind, error.error.cause), (Kind::NotSent, Cause::Server));
    assert!(error.to_string().contains("starting"), "{error}");
}

#[tokio::test]
async fn an_expired_token_and_one_of_another_signing_key_are_each_replaced_once() {
    for (status, words) in [
        (401, "v2_error_401_expired.json"),
        (403, "v2_error_403_bad_token.json"),
    ] {
        let calls = AtomicU32::new(0);
        let server = server(86_400, move |log_ins, _| {
            // The first token is good for one call.
            let call = calls.fetch_add(1, Ordering::SeqCst);
            Some(if log_ins == 1 && call > 0 {
                recorded(status, words)
            } else {
                dags()
            })
        })
        .await;
        let dir = tempfile::tempdir().unwrap();
        let (airflow, _) = connect(&server, good(&dir));
        airflow.dags().await.unwrap();
        assert_eq!(airflow.dags().await.unwrap().rows.len(), 2);
        let dag_calls = "GET /api/v2/dags?order_by=dag_id&limit=100";
        assert_eq!(
            asked(&server).await,
            [
                "GET /api/v2/version",
                "POST /auth/token",
                dag_calls,
                dag_calls,
                "POST /auth/token",
                dag_calls
            ]
        );
        assert!(matches!(airflow.usage().standing, Standing::Good { .. }));
    }
}

#[tokio::test]
async fn a_missing_permission_is_no_reason_to_log_in_again() {
    let server = server(86_400, |_, request| {
        Some(if request.method == "GET" {
            dags()
        } else {
            recorded(403, "v2_error_403_viewer.json")
        })
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let (airflow, _) = connect(&server, good(&dir));
    airflow.dags().await.unwrap();
    let error = airflow.pause_dag("events_daily", true).await.unwrap_err();
    assert_eq!(
        (error.kind, error.error.cause),
        (Kind::Forbidden, Cause::Forbidden)
    );
    assert_eq!(error.error.detail, "403: Forbidden");
    airflow.dags().await.unwrap();
    assert_eq!(log_ins(&server).await, 1);
    assert!(matches!(airflow.usage().standing, Standing::Good { .. }));
}

/// Case S03.
#[tokio::test]
async fn after_a_wrong_password_nothing_is_sent_until_the_operator_asks_for_it() {
    let server = server(86_400, |_, _| Some(dags())).await;
    let dir = tempfile::tempdir().unwrap();
    let (airflow, clock) = connect(&server, password(&dir, "wrong-password"));
    let first = airflow.dags().await.unwrap_err();
    assert_eq!(
        (first.kind, first.error.cause),
        (Kind::LoggedOut, Cause::Unauthorized)
    );
    assert_eq!(first.error.detail, "401: Invalid credentials");
    let sent = asked(&server).await.len();
    clock.advance(3600);
    for _ in 0..20 {
        let error = airflow.dags().await.unwrap_err();
        assert_eq!(error.kind, Kind::LoggedOut);
        assert!(!error.may_have_happened());
        assert!(
            error.error.detail.contains("refused since 2026-11-29 17:00:00Z"),
            "{error}"
        );
        assert!(error.error.detail.contains("Invalid credentials"), "{error}");
        assert!(airflow.health().await.is_err(), "also what needs no credentials");
    }
    assert_eq!(asked(&server).await.len(), sent);
    assert!(matches!(airflow.usage().standing, Standing::Refused { words, .. } if words.contains("Invalid")));
    airflow.log_in_again().await;
    assert!(airflow.dags().await.is_err());
    assert_eq!(log_ins(&server).await, 2);
}

/// Case S03.
#[tokio::test]
async fn a_new_password_in_the_file_is_tried_without_being_asked() {
    let server = server(86_400, |_, _| Some(dags())).await;
    let dir = tempfile::tempdir().unwrap();
    let (airflow, _) = connect(&server, password(&dir, "wrong-password"));
    airflow.dags().await.unwrap_err();
    airflow.dags().await.unwrap_err();
    assert_eq!(log_ins(&server).await, 1);
    password(&dir, "hunter2-password");
    assert_eq!(airflow.dags().await.unwrap().rows.len(), 2);
    assert_eq!(log_ins(&server).await, 2);
}

/// Case S03.
#[tokio::test]
async fn a_server_that_refuses_its_own_fresh_token_is_not_asked_for_another() {
    let server = server(86_400, |_, _| Some(recorded(403, "v2_error_403_bad_token.json"))).await;
    let dir = tempfile::tempdir().unwrap();
    let (airflow, _) = connect(&server, good(&dir));
    for _ in 0..10 {
        assert_eq!(airflow.dags().await.unwrap_err().kind, Kind::LoggedOut);
    }
    assert_eq!(asked(&server).await.len(), 3, "the version, a log-in, a call");
}

/// Case S03.
#[tokio::test]
async fn a_token_that_was_good_is_replaced_once_and_when_that_is_refused_too_it_ends() {
    let calls = AtomicU32::new(0);
    let server = server(86_400, move |_, _| {
        Some(match calls.fetch_add(1, Ordering::SeqCst) {
            0 => dags(),
            _ => recorded(401, "v2_error_401_expired.json"),
        })
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let (airflow, clock) = connect(&server, good(&dir));
    airflow.dags().await.unwrap();
    for _ in 0..10 {
        assert_eq!(airflow.dags().await.unwrap_err().kind, Kind::LoggedOut);
        clock.advance(100_000);
    }
    assert_eq!(log_ins(&server).await, 2);
    assert_eq!(asked(&server).await.len(), 6);
}

#[tokio::test]
async fn callers_whose_token_is_refused_at_once_log_in_once_between_them() {
    let server = server(86_400, |log_ins, request| {
        let newest = format!("Bearer {}", jwt(&log_ins.to_string(), T0, T0 + 86_400));
        let good = bearer(request) == newest && (log_ins > 1 || request.url.path() == "/api/v2/dags");
        Some(if good {
            dags()
        } else {
            recorded(403, "v2_error_403_bad_token.json")
        })
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let (airflow, _) = connect(&server, good(&dir));
    airflow.dags().await.unwrap();
    let calls = (0..6).map(|_| airflow.pools());
    for outcome in futures::future::join_all(calls).await {
        // The answer is of another kind, but it is one.
        assert_eq!(outcome.unwrap_err().kind, Kind::NotUnderstood);
    }
    assert_eq!(log_ins(&server).await, 2);
}

/// Case S03.
#[tokio::test]
async fn a_ready_token_that_is_refused_is_not_sent_again_until_the_file_holds_another() {
    let server = airflow3(|request| {
        Some(match bearer(request) {
            "Bearer fresh-token" => dags(),
            _ => recorded(401, "v2_error_401_expired.json"),
        })
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let (source, path) = secret(&dir, "token", "stale-token\n");
    let (airflow, _) = connect(&server, Auth::Token(source));
    for _ in 0..5 {
        let error = airflow.dags().await.unwrap_err();
        assert!(error.error.detail.contains("Token Expired"), "{error}");
    }
    assert_eq!(asked(&server).await.len(), 2, "the version and one call");
    std::fs::write(path, "fresh-token\n").unwrap();
    assert_eq!(airflow.dags().await.unwrap().rows.len(), 2);
}

fn counting(log: &std::path::Path) -> SecretSource {
    let script = format!(
        "echo x >> {0}; printf 'token-number-%s' $(wc -l < {0})",
        log.display()
    );
    SecretSource::Command(vec!["sh".into(), "-c".into(), script])
}

/// Case S03.
#[tokio::test]
async fn a_token_command_is_run_once_more_after_a_refusal_and_then_no_more() {
    let server = airflow3(|request| {
        Some(match bearer(request) {
            "Bearer token-number-1" | "Bearer token-number-4" => dags(),
            _ => recorded(401, "v2_error_401_expired.json"),
        })
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let runs = || std::fs::read_to_string(&log).unwrap().lines().count();
    let (airflow, _) = connect(&server, Auth::Token(counting(&log)));
    airflow.dags().await.unwrap();
    airflow.dags().await.unwrap();
    assert_eq!(runs(), 1, "what it printed is kept");
    // The server forgets the first token.
    server.reset().await;
    let refusing = |request: &Request| match (request.url.path(), bearer(request)) {
        ("/api/v2/version", _) => recorded(200, "v2_version.json"),
        (_, "Bearer token-number-4") => dags(),
        _ => recorded(401, "v2_error_401_expired.json"),
    };
    wiremock::Mock::given(wiremock::matchers::any())
        .respond_with(refusing)
        .mount(&server)
        .await;
    for _ in 0..10 {
        airflow.dags().await.unwrap_err();
    }
    assert_eq!((asked(&server).await.len(), runs()), (2, 2));
    airflow.log_in_again().await;
    airflow.dags().await.unwrap_err();
    airflow.log_in_again().await;
    assert!(airflow.dags().await.is_ok());
    assert_eq!(runs(), 4);
}

#[tokio::test]
async fn a_secret_that_cannot_be_had_is_told_and_nothing_is_sent() {
    let server = server(86_400, |_, _| Some(dags())).await;
    let missing = SecretSource::File("/nowhere/at/all".into());
    let (airflow, _) = connect(&server, Auth::Token(missing));
    let error = airflow.dags().await.unwrap_err();
    assert_eq!((error.kind, error.error.cause), (Kind::NotSent, Cause::Local));
    assert!(error.to_string().contains("/nowhere/at/all"), "{error}");
    assert!(asked(&server).await.is_empty());
}

#[tokio::test]
async fn behind_a_prefix_the_log_in_and_the_calls_carry_the_further_headers_and_cookies() {
    let server = serve(|request| match request.url.path() {
        "/team/airflow/api/v2/version" => recorded(200, "v2_version.json"),
        "/team/airflow/auth/token" => json(201, r#"{"access_token":"opaque-token"}"#),
        "/team/airflow/api/v2/dags" => dags(),
        _ => html(200, "Airflow"),
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let clock = TestClock::new();
    let url = format!("{}/team/airflow/", server.uri());
    let mut settings = settings(&url, good(&dir), &clock);
    settings.headers = BTreeMap::from([("Cookie".into(), secret(&dir, "cookie", "session=s3cr3t-cookie").0)]);
    settings.plain_headers = BTreeMap::from([("X-Team".into(), "data".into())]);
    let airflow = Connection::new(settings).unwrap();
    airflow.dags().await.unwrap();
    clock.advance(1_000_000);
    airflow.dags().await.unwrap();
    let requests = server.received_requests().await.unwrap();
    assert_eq!(
        requests.len(),
        4,
        "a token without a stated end is kept until it is refused"
    );
    for request in &requests {
        assert_eq!(header(request, "cookie"), Some("session=s3cr3t-cookie"));
        assert_eq!(header(request, "x-team"), Some("data"));
    }
}

#[tokio::test]
async fn no_error_and_no_debug_output_repeats_a_secret() {
    let server = airflow3(|request| {
        let sent = String::from_utf8_lossy(&request.body).into_owned();
        let echo = format!("you sent {} and {sent}", bearer(request));
        Some(match request.url.path() {
            "/auth/token" if sent.contains("hunter2-password") => {
                json(201, r#"{"access_token":"very-secret-token"}"#)
            }
            "/auth/token" => json(401, serde_json::json!({"detail": echo}).to_string()),
            _ => json(400, serde_json::json!({"detail": echo}).to_string()),
        })
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let (airflow, _) = connect(&server, good(&dir));
    let error = airflow.dags().await.unwrap_err();
    let shown = format!("{error} {error:?} {airflow:?} {:?}", airflow.usage());
    assert!(shown.contains("you sent Bearer ***"), "{shown}");
    assert!(
        !shown.contains("hunter2") && !shown.contains("very-secret"),
        "{shown}"
    );
    let (airflow, _) = connect(&server, password(&dir, "wrong-password"));
    let error = airflow.dags().await.unwrap_err();
    let shown = format!("{error} {error:?} {airflow:?} {:?}", airflow.usage());
    assert!(
        shown.contains("***") && !shown.contains("wrong-password"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_place_without_a_log_in_says_so_and_is_no_refusal() {
    let server = serve(|request| match request.url.path() {
        "/api/v2/version" => recorded(200, "v2_version.json"),
        _ => html(404, "Not here"),
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let (airflow, _) = connect(&server, good(&dir));
    let error = airflow.dags().await.unwrap_err();
    assert_eq!((error.kind, error.error.cause), (Kind::NotSent, Cause::NotFound));
    assert!(error.error.tried.ends_with("/auth/token"), "{error}");
    assert_eq!(airflow.usage().standing, Standing::Untried);
}

/// Case S03.
#[tokio::test]
async fn without_credentials_one_refusal_is_enough_too() {
    let server = airflow3(|_| Some(recorded(401, "v2_error_401_no_token.json"))).await;
    let airflow = Arc::new(open(&server));
    for _ in 0..5 {
        assert_eq!(airflow.dags().await.unwrap_err().kind, Kind::LoggedOut);
    }
    assert_eq!(asked(&server).await.len(), 2);
}
