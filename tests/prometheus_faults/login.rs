//! A login that the server refuses is not sent again (case S03).

use super::{
    config, failed, good, read, source,
    stand_in::{JSON, StandIn},
    value,
};
use backfill::{
    config::{HttpAuth, PrometheusConfig, secret::SecretSource},
    net::{AdapterError, Cause},
    signals::LagSource,
};
use rstest::rstest;
use std::{path::Path, time::Duration};

/// Takes only this authorization, and refuses every other one.
fn taking(authorization: &'static str) -> StandIn {
    StandIn::answering(move |seen| match seen.header("authorization") {
        Some(sent) if sent == authorization => (200, JSON.to_owned(), good()),
        _ => (401, String::new(), "expired".to_owned()),
    })
}

/// A configuration that logs in with a token, and where that comes from.
fn with_token(server: &StandIn, token: SecretSource) -> PrometheusConfig {
    let mut config = config(&server.url);
    config.http.auth = Some(HttpAuth::Bearer(token));
    config
}

/// A program that writes down each of its runs and prints what `print` prints; `$n` is the number of the run.
fn program(log: &Path, print: &str) -> SecretSource {
    let script = format!(
        "echo x >> {0}; n=$(wc -l < {0} | tr -d ' '); {print}",
        log.display()
    );
    SecretSource::Command(vec!["sh".into(), "-c".into(), script])
}

fn sent(server: &StandIn) -> Vec<String> {
    let seen = server.seen();
    let login = seen.iter().map(|s| s.header("authorization").unwrap_or("none"));
    login.map(str::to_owned).collect()
}

/// It is the refusal, it says since when, and that nothing went out.
fn held(error: &AdapterError) {
    assert_eq!(error.cause, Cause::Unauthorized);
    assert_eq!(error.elapsed, Duration::ZERO);
    assert!(error.tried.starts_with("nothing sent, "), "{error}");
    let (since, words) = error.detail.split_once(", ").unwrap();
    let since = since.strip_prefix("refused since ").unwrap();
    let since = chrono::NaiveDateTime::parse_from_str(since, "%Y-%m-%d %H:%M:%SZ").unwrap();
    let ago = chrono::Utc::now().naive_utc() - since;
    assert!((0..60).contains(&ago.num_seconds()), "{error}");
    assert!(words.ends_with(": 401: expired"), "{error}");
}

/// Case S03.
#[tokio::test]
async fn a_refused_token_is_sent_once_and_another_one_from_the_same_file_at_once() {
    let server = taking("Bearer second");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let source = source(&with_token(&server, SecretSource::File(file.clone())));
    let first = failed(source.read().await);
    assert_eq!(
        (first.cause, first.detail.as_str()),
        (Cause::Unauthorized, "401: expired")
    );
    for _ in 0..5 {
        held(&failed(source.read().await));
    }
    assert_eq!(sent(&server), ["Bearer first"]);
    std::fs::write(&file, "second\n").unwrap();
    value(source.read().await);
    value(source.read().await);
    assert_eq!(sent(&server), ["Bearer first", "Bearer second", "Bearer second"]);
    // Also the old one once more, when somebody puts it back.
    std::fs::write(&file, "first\n").unwrap();
    for _ in 0..3 {
        assert_eq!(failed(source.read().await).cause, Cause::Unauthorized);
    }
    assert_eq!(sent(&server).len(), 4);
}

/// Case S03. The chart's past is asked for from the same server, with the same login.
#[tokio::test]
async fn a_refused_login_is_not_sent_for_the_past_either() {
    let server = taking("Bearer other");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let source = source(&with_token(&server, SecretSource::File(file)));
    assert_eq!(failed(source.read().await).cause, Cause::Unauthorized);
    let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
    held(&source.history(hour, minute).await.unwrap_err());
    assert_eq!(sent(&server).len(), 1);
}

/// Case S03. Where the past is refused and the present is not, its refusal is kept too.
#[tokio::test]
async fn what_the_past_was_refused_with_is_not_sent_for_the_present() {
    let server = StandIn::answering(|seen| match seen.line.contains("query_range") {
        false => (200, JSON.to_owned(), scalar_time()),
        true => (401, String::new(), "expired".to_owned()),
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "first\n").unwrap();
    let source = source(&with_token(&server, SecretSource::File(file)));
    let (hour, minute) = (Duration::from_secs(3600), Duration::from_secs(60));
    let refused = source.history(hour, minute).await.unwrap_err();
    assert_eq!(refused.cause, Cause::Unauthorized);
    held(&source.history(hour, minute).await.unwrap_err());
    held(&failed(source.read().await));
    assert_eq!(sent(&server).len(), 2);
}

fn scalar_time() -> String {
    let at = super::now();
    format!(r#"{{"status":"success","data":{{"resultType":"scalar","result":[{at:.3},"{at:.3}"]}}}}"#)
}

/// Case S03: at most one renewal.
#[tokio::test]
async fn a_programs_token_is_renewed_once_and_then_nothing_is_sent() {
    let server = taking("Bearer never");
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let source = source(&with_token(&server, program(&runs, "echo same")));
    assert_eq!(failed(source.read().await).detail, "401: expired");
    for _ in 0..5 {
        held(&failed(source.read().await));
    }
    assert_eq!(sent(&server), ["Bearer same", "Bearer same"]);
    assert_eq!(std::fs::read_to_string(&runs).unwrap().lines().count(), 2);
}

/// Case S03. A program that prints another token at each run says nothing new by it.
#[tokio::test]
async fn fresh_tokens_of_a_program_are_no_way_round_a_refusal() {
    let server = taking("Bearer never");
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let source = source(&with_token(&server, program(&runs, "echo token-$n")));
    assert_eq!(failed(source.read().await).detail, "401: expired");
    for _ in 0..5 {
        let error = failed(source.read().await);
        held(&error);
        assert!(error.tried.contains("program"), "{error}");
    }
    assert_eq!(sent(&server), ["Bearer token-1", "Bearer token-2"]);
    assert_eq!(
        std::fs::read_to_string(&runs).unwrap().lines().count(),
        2,
        "it is not even run"
    );
}

/// Case S03: other sources are untouched.
#[tokio::test]
async fn a_refusal_of_one_source_keeps_no_other_from_asking() {
    let server = taking("Bearer good");
    let dir = tempfile::tempdir().unwrap();
    let token = |name: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, format!("{name}\n")).unwrap();
        SecretSource::File(file)
    };
    let (bad, good) = (token("bad"), token("good"));
    let (bad, good) = (
        source(&with_token(&server, bad)),
        source(&with_token(&server, good)),
    );
    for _ in 0..3 {
        assert_eq!(failed(bad.read().await).cause, Cause::Unauthorized);
        value(good.read().await);
    }
    assert_eq!(
        sent(&server),
        ["Bearer bad", "Bearer good", "Bearer good", "Bearer good"]
    );
}

/// Case S03: keys in headers, and no login at all, are refused like any other.
#[rstest]
#[case::key(true, "nothing sent, the login is still the refused one")]
#[case::none(false, "nothing sent, there is still no login")]
#[tokio::test]
async fn a_server_that_wants_another_login_is_asked_once(#[case] with_key: bool, #[case] tried: &str) {
    let server = StandIn::answering(|seen| match seen.header("x-api-key") {
        Some("good") => (200, JSON.to_owned(), good()),
        _ => (401, String::new(), "expired".to_owned()),
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("key");
    std::fs::write(&file, "bad\n").unwrap();
    let mut config = config(&server.url);
    if with_key {
        let key = SecretSource::File(file.clone());
        config.http.headers.insert("X-Api-Key".to_owned(), key);
    }
    let source = source(&config);
    assert_eq!(failed(source.read().await).detail, "401: expired");
    let error = failed(source.read().await);
    held(&error);
    assert_eq!(error.tried, tried);
    assert_eq!(server.seen().len(), 1);
    std::fs::write(&file, "good\n").unwrap();
    let after = source.read().await;
    if with_key {
        value(after);
    } else {
        held(&failed(after));
    }
}

/// Case S03. 403 is about the login where the server asks for another one, and about a permission elsewhere: that may
/// be given to this user at any time.
#[rstest]
#[case::asks_for_a_login("WWW-Authenticate: Basic realm=\"metrics\"\r\n", 1)]
#[case::an_expired_token("WWW-Authenticate: Bearer error=\"invalid_token\"\r\n", 1)]
#[case::a_permission("", 3)]
#[case::a_scope("WWW-Authenticate: Bearer error=\"insufficient_scope\"\r\n", 3)]
#[tokio::test]
async fn a_forbidden_login_is_kept_and_a_missing_permission_is_not(
    #[case] challenge: &'static str,
    #[case] requests: usize,
) {
    let server = StandIn::answering(move |_| (403, challenge.to_owned(), "no".to_owned()));
    let source = source(&config(&server.url));
    for _ in 0..3 {
        assert_eq!(failed(source.read().await).cause, Cause::Forbidden);
    }
    assert_eq!(server.seen().len(), requests);
}

/// A failure that says nothing about the login is asked about again at the next interval.
#[tokio::test]
async fn other_failures_are_asked_again() {
    let server = StandIn::answering(|_| (503, String::new(), "busy".to_owned()));
    let config = config(&server.url);
    let source = source(&config);
    for asked in 1..=3 {
        assert_eq!(failed(source.read().await).cause, Cause::Server);
        assert_eq!(server.seen().len(), asked);
    }
    assert_eq!(failed(read(&config).await).cause, Cause::Server);
}
