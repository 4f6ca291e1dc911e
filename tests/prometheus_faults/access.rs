//! Who may ask, where, and through what: statuses, credentials, paths, redirects, proxies.

use super::{
    combined, config, failed, good, now, read, source,
    stand_in::{JSON, StandIn},
    value,
};
use backfill::{
    config::{HttpAuth, secret::SecretSource},
    net::{Cause, Surroundings, proxy::ProxyVars},
    signals::{LagSource, prometheus::Prometheus},
};
use rstest::rstest;
use std::{path::Path, time::Duration};

fn file_with(dir: &Path, name: &str, text: &str) -> SecretSource {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    SecretSource::File(path)
}

/// Case S04.
#[rstest]
#[case(401, "Unauthorized\n", Cause::Unauthorized, "401: Unauthorized")]
#[case(
    403,
    "<html><title>Access denied</title>",
    Cause::Forbidden,
    "403: an HTML page titled \"Access denied\""
)]
#[case(404, "404 page not found\n", Cause::NotFound, "404: 404 page not found")]
#[case(429, "{\"message\":\"slow down\"}", Cause::TooMany, "429: slow down")]
#[case(500, "", Cause::Server, "500: no words")]
#[case(
    503,
    "{\"status\":\"error\",\"errorType\":\"timeout\",\"error\":\"query timed out in expression evaluation\"}",
    Cause::Server,
    "503: timeout: query timed out in expression evaluation"
)]
#[case(502, "\u{1b}[31mbad gateway", Cause::Server, "502: ^[[31mbad gateway")]
#[tokio::test]
async fn a_refusing_status_is_a_cause_with_the_servers_words(
    #[case] status: u16,
    #[case] body: &'static str,
    #[case] cause: Cause,
    #[case] detail: &str,
) {
    let server = StandIn::answering(move |_| (status, String::new(), body.to_owned()));
    let error = failed(read(&config(&format!("{}/prom", server.url))).await);
    assert_eq!((error.cause, error.detail.as_str()), (cause, detail));
    assert_eq!(error.endpoint, "orders");
    assert_eq!(error.tried, format!("POST {}/prom/api/v1/query", server.url));
    assert_eq!(error.retry_after, None);
}

/// Case S04.
#[tokio::test]
async fn what_does_not_even_connect_has_its_cause_too() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = failed(read(&config(&format!("http://{free}"))).await);
    assert_eq!(error.cause, Cause::Refused, "{error}");
    let error = failed(read(&config("http://no-such-host.invalid:9090")).await);
    assert_eq!(error.cause, Cause::Dns, "{error}");
}

/// By seconds, or by a date on the server's clock, whatever ours says.
#[rstest]
#[case("Retry-After: 17\r\n", Some(17))]
#[case(
    "Date: Wed, 21 Oct 2015 07:28:00 GMT\r\nRetry-After: Wed, 21 Oct 2015 07:29:30 GMT\r\n",
    Some(90)
)]
#[case(
    "Date: Wed, 21 Oct 2015 07:28:00 GMT\r\nRetry-After: Wed, 21 Oct 2015 07:00:00 GMT\r\n",
    Some(0)
)]
#[case("Retry-After: 99999999999\r\n", Some(86_400))]
#[case("Retry-After: soon\r\n", None)]
#[tokio::test]
async fn the_server_may_say_when_to_come_back(#[case] headers: &'static str, #[case] seconds: Option<u64>) {
    let server = StandIn::answering(move |_| (503, headers.to_owned(), String::new()));
    let error = failed(read(&config(&server.url)).await);
    assert_eq!(error.retry_after, seconds.map(Duration::from_secs));
}

#[tokio::test]
async fn user_and_password_arrive_as_basic_credentials() {
    let dir = tempfile::tempdir().unwrap();
    let server = StandIn::saying(&good());
    let mut config = config(&server.url);
    config.http.auth = Some(HttpAuth::Basic {
        user: "Aladdin".to_owned(),
        password: file_with(dir.path(), "pw", "open sesame\n"),
    });
    value(read(&config).await);
    assert_eq!(
        server.seen()[0].header("authorization"),
        Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
    );
}

#[tokio::test]
async fn a_token_further_headers_and_the_path_prefix_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let server = StandIn::saying(&good());
    let mut config = config(&format!("{}/a/prefix/?dedup=true", server.url));
    config.http.auth = Some(HttpAuth::Bearer(file_with(dir.path(), "token", "t0ken\n")));
    config
        .http
        .headers
        .insert("X-Api-Key".to_owned(), file_with(dir.path(), "key", "k3y\n"));
    config
        .http
        .plain_headers
        .insert("X-Scope-OrgID".to_owned(), "team-a|team-b".to_owned());
    value(read(&config).await);
    let seen = &server.seen()[0];
    assert_eq!(seen.line, "POST /a/prefix/api/v1/query?dedup=true HTTP/1.1");
    assert_eq!(seen.header("authorization"), Some("Bearer t0ken"));
    assert_eq!(seen.header("x-api-key"), Some("k3y"));
    assert_eq!(seen.header("x-scope-orgid"), Some("team-a|team-b"));
    assert_eq!(
        seen.header("content-type"),
        Some("application/x-www-form-urlencoded")
    );
}

/// Servers repeat what they were sent, also encoded.
#[tokio::test]
async fn no_secret_is_in_an_error_even_if_the_server_repeats_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = StandIn::answering(|seen| {
        let told = format!(
            "bad: {:?} {:?}",
            seen.header("authorization"),
            seen.header("x-api-key")
        );
        (403, String::new(), told)
    });
    let mut config = config(&server.url);
    config.http.auth = Some(HttpAuth::Basic {
        user: "Aladdin".to_owned(),
        password: file_with(dir.path(), "pw", "open sesame\n"),
    });
    config
        .http
        .headers
        .insert("X-Api-Key".to_owned(), file_with(dir.path(), "key", "k3y-k3y\n"));
    let error = failed(read(&config).await);
    let all = format!("{error} {error:?}");
    for secret in ["QWxhZGRp", "open sesame", "k3y"] {
        assert!(!all.contains(secret), "{all}");
    }
    assert!(all.contains("***"), "{all}");
}

#[tokio::test]
async fn a_secret_that_cannot_be_had_is_a_local_failure_and_nothing_is_sent() {
    let server = StandIn::saying(&good());
    let mut config = config(&server.url);
    config.http.auth = Some(HttpAuth::Bearer(SecretSource::Env(
        "BACKFILL_NO_SUCH_TOKEN".to_owned(),
    )));
    let error = failed(read(&config).await);
    assert_eq!(error.cause, Cause::Local);
    assert!(
        error
            .detail
            .contains("token: the environment variable BACKFILL_NO_SUCH_TOKEN is not set"),
        "{error}"
    );
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_token_from_a_command_is_renewed_once_when_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let script = format!(
        "echo x >> {0}; echo token-$(wc -l < {0} | tr -d ' ')",
        log.display()
    );
    let server = StandIn::answering(|seen| match seen.header("authorization") {
        Some("Bearer token-2") => (200, JSON.to_owned(), good()),
        _ => (401, String::new(), "expired".to_owned()),
    });
    let mut config = config(&server.url);
    config.http.auth = Some(HttpAuth::Bearer(SecretSource::Command(vec![
        "sh".into(),
        "-c".into(),
        script,
    ])));
    let source = source(&config);
    // Refused with the first token, renewed at once, and the second is used again.
    value(source.read().await);
    value(source.read().await);
    let sent: Vec<_> = server
        .seen()
        .iter()
        .map(|s| s.header("authorization").unwrap().to_owned())
        .collect();
    assert_eq!(sent, ["Bearer token-1", "Bearer token-2", "Bearer token-2"]);
}

#[tokio::test]
async fn where_post_is_not_allowed_get_is_used_and_remembered() {
    let server = StandIn::answering(|seen| {
        if seen.line.starts_with("POST") {
            return (405, String::new(), "Method Not Allowed".to_owned());
        }
        (200, JSON.to_owned(), good())
    });
    let source = source(&config(&server.url));
    value(source.read().await);
    value(source.read().await);
    let lines: Vec<String> = server
        .seen()
        .iter()
        .map(|s| s.line.chars().take(25).collect())
        .collect();
    assert_eq!(
        lines,
        [
            "POST /api/v1/query HTTP/1",
            "GET /api/v1/query?query=l",
            "GET /api/v1/query?query=l"
        ]
    );
}

#[tokio::test]
async fn a_redirect_within_the_host_keeps_method_body_and_credentials() {
    let dir = tempfile::tempdir().unwrap();
    let server = StandIn::answering(|seen| {
        if seen.line.contains("/old/") {
            return (302, "Location: /new/api/v1/query\r\n".to_owned(), String::new());
        }
        (200, JSON.to_owned(), good())
    });
    let mut config = config(&format!("{}/old", server.url));
    config.http.auth = Some(HttpAuth::Bearer(file_with(dir.path(), "token", "t0ken\n")));
    value(read(&config).await);
    let seen = &server.seen()[1];
    assert_eq!(seen.line, "POST /new/api/v1/query HTTP/1.1");
    assert_eq!(seen.header("authorization"), Some("Bearer t0ken"));
    assert!(seen.field("query").is_some());
}

#[tokio::test]
async fn a_redirect_to_a_login_page_elsewhere_is_told_and_never_followed() {
    let elsewhere = StandIn::saying(&good());
    let target = format!("Location: {}/login?token=abc\r\n", elsewhere.url);
    let server = StandIn::answering(move |_| (302, target.clone(), String::new()));
    let error = failed(read(&config(&server.url)).await);
    assert_eq!(error.cause, Cause::NotUnderstood);
    assert!(
        error
            .detail
            .contains(&format!("302 to {}/login, not followed", elsewhere.url)),
        "{error}"
    );
    assert!(!error.detail.contains("abc"), "{error}");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_redirect_in_a_circle_ends() {
    let server = StandIn::answering(|_| (307, "Location: /again\r\n".to_owned(), String::new()));
    let error = failed(read(&config(&server.url)).await);
    assert!(error.detail.contains("in a circle"), "{error}");
    assert_eq!(server.seen().len(), 4);
}

fn behind(proxy: &str, url: &str) -> Prometheus {
    let surroundings = Surroundings {
        proxies: ProxyVars {
            all: Some(proxy.to_owned()),
            ..ProxyVars::default()
        },
        ..Surroundings::default()
    };
    Prometheus::within("orders", &config(url), surroundings).unwrap()
}

#[tokio::test]
async fn a_proxy_is_used_except_for_this_machine() {
    let proxy = StandIn::answering(|_| (200, JSON.to_owned(), combined("1", now(), now())));
    let with_login = proxy.url.replace("http://", "http://user:pa55word@");
    assert_eq!(
        value(behind(&with_login, "http://prom.invalid:9090").read().await).0,
        1.0
    );
    let seen = &proxy.seen()[0];
    assert_eq!(seen.line, "POST http://prom.invalid:9090/api/v1/query HTTP/1.1");
    assert!(seen.header("proxy-authorization").is_some());
    let direct = StandIn::saying(&good());
    assert_eq!(value(behind(&proxy.url, &direct.url).read().await).0, 42.0);
}

/// Case S04.
#[tokio::test]
async fn a_proxy_in_the_way_is_named_without_its_password() {
    let proxy = StandIn::answering(|seen| match seen.line.starts_with("CONNECT") {
        true => (403, String::new(), "blocked by policy".to_owned()),
        false => (407, String::new(), "who are you?".to_owned()),
    });
    let host = proxy.url.replace("http://", "");
    let with_login = format!("http://user:pa55word@{host}");
    for url in ["http://prom.invalid:9090", "https://prom.invalid:9090"] {
        let error = failed(behind(&with_login, url).read().await);
        assert_eq!(error.cause, Cause::Proxy, "{error}");
        assert!(
            error.detail.contains(&format!("through the proxy {host}")),
            "{error}"
        );
        assert!(!format!("{error:?}").contains("pa55word"), "{error}");
    }
}

#[rstest]
#[case("prom.example:9090")]
#[case("ftp://prom.example")]
#[case("http://user:pa55word@prom.example")]
#[case("")]
fn a_url_that_cannot_be_used_is_refused_without_repeating_it(#[case] url: &str) {
    let error = Prometheus::within("orders", &config(url), Surroundings::default()).unwrap_err();
    assert_eq!(error.cause, Cause::Local);
    assert!(
        error.to_string().contains("url: ") && !error.to_string().contains("pa55word"),
        "{error}"
    );
}
