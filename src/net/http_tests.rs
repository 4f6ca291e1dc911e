//! Refusals, against a server on this machine that counts what reaches it.

use super::{super::refusal::REFUSED_FOR, *};
use crate::config::secret::Secret;
use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
};

/// Answers each request with `status`, and keeps each one's authorization.
fn server(status: impl Fn(&str) -> u16 + Send + 'static) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines
                .map_while(Result::ok)
                .take_while(|l| !l.is_empty())
                .collect();
            let login = head.iter().find_map(|l| l.strip_prefix("authorization: "));
            let login = login.unwrap_or("none").to_owned();
            let answer = format!(
                "HTTP/1.1 {} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                status(&login)
            );
            log.lock().unwrap().push(login);
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (url, seen)
}

fn endpoint(url: &str, token: SecretSource) -> Endpoint {
    Endpoint::new(EndpointSettings {
        auth: Some(HttpAuth::Bearer(token)),
        surroundings: Surroundings::default(),
        ..EndpointSettings::new("x", url)
    })
    .unwrap()
}

fn file(dir: &std::path::Path, token: &str) -> SecretSource {
    let path = dir.join("token");
    std::fs::write(&path, token).unwrap();
    SecretSource::File(path)
}

async fn refused(endpoint: &Endpoint) -> AdapterError {
    let error = endpoint.ask(&Request::get("/")).await.unwrap_err();
    assert_eq!(error.cause, Cause::Unauthorized, "{error}");
    error
}

fn since(error: &AdapterError) -> &str {
    error.detail.split_once(", ").unwrap().0
}

/// Case S03.
#[tokio::test]
async fn a_refused_token_is_sent_again_every_five_minutes_and_is_refused_since_the_first_time() {
    let (url, seen) = server(|_| 401);
    let dir = tempfile::tempdir().unwrap();
    let endpoint = endpoint(&url, file(dir.path(), "t"));
    let count = || seen.lock().unwrap().len();
    refused(&endpoint).await;
    let first = refused(&endpoint).await;
    assert!(first.tried.starts_with("nothing sent"), "{first}");
    for tries in 2..5 {
        endpoint.credentials.pass(REFUSED_FOR - Duration::from_secs(1));
        refused(&endpoint).await;
        assert_eq!(count(), tries - 1);
        endpoint.credentials.pass(Duration::from_secs(1));
        for _ in 0..3 {
            refused(&endpoint).await;
        }
        assert_eq!(count(), tries);
    }
    assert_eq!(since(&refused(&endpoint).await), since(&first));
}

/// Case S03: what a token command prints is renewed once in each five minutes.
#[tokio::test]
async fn a_refused_token_of_a_program_goes_out_twice_in_five_minutes() {
    let (url, seen) = server(|_| 401);
    let token = SecretSource::Command(vec!["echo".to_owned(), "t".to_owned()]);
    let endpoint = endpoint(&url, token);
    for sent in [2, 4, 6] {
        for _ in 0..3 {
            refused(&endpoint).await;
        }
        assert_eq!(seen.lock().unwrap().len(), sent);
        endpoint.credentials.pass(REFUSED_FOR);
    }
}

/// Case S03: whoever logs in by himself has a law of his own, and is not held back a second time by this one.
#[tokio::test]
async fn a_request_that_logs_in_by_itself_is_neither_held_back_nor_remembered() {
    let (url, seen) = server(|login| if login == "Bearer t" { 200 } else { 401 });
    let dir = tempfile::tempdir().unwrap();
    let endpoint = endpoint(&url, file(dir.path(), "t"));
    let own = || Login::Bearer(Secret::new("own".to_owned()));
    let signed = || Request::get("/").secret_header("x-key", Secret::new("own".to_owned()));
    for _ in 0..3 {
        let answer = endpoint.send(&Request::get("/").login(own())).await.unwrap();
        assert_eq!(answer.status, 401);
        let answer = endpoint
            .send(&Request::get("/").login(Login::None))
            .await
            .unwrap();
        assert_eq!(answer.status, 401);
    }
    endpoint.ask(&Request::get("/")).await.unwrap();
    assert_eq!(seen.lock().unwrap().len(), 7);
    // And the other way round: the endpoint's refusal is not theirs.
    file(dir.path(), "old");
    refused(&endpoint).await;
    refused(&endpoint).await;
    assert_eq!(endpoint.send(&signed()).await.unwrap().status, 401);
    assert_eq!(
        endpoint
            .send(&Request::get("/").login(own()))
            .await
            .unwrap()
            .status,
        401
    );
    assert_eq!(seen.lock().unwrap().len(), 10);
}

/// An answer that says nothing about the login is no acceptance: it is still refused since the first time.
#[tokio::test]
async fn a_failing_server_does_not_end_a_refusal_and_a_success_does() {
    let status = Arc::new(Mutex::new(401));
    let answer = Arc::clone(&status);
    let (url, seen) = server(move |_| *answer.lock().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let endpoint = endpoint(&url, file(dir.path(), "t"));
    refused(&endpoint).await;
    let first = refused(&endpoint).await;
    let long_ago = |endpoint: &Endpoint| endpoint.credentials.pass(REFUSED_FOR);
    long_ago(&endpoint);
    *status.lock().unwrap() = 503;
    for _ in 0..2 {
        let failed = endpoint.ask(&Request::get("/")).await.unwrap_err();
        assert_eq!(failed.cause, Cause::Server);
    }
    *status.lock().unwrap() = 401;
    refused(&endpoint).await;
    assert_eq!(since(&refused(&endpoint).await), since(&first));
    assert_eq!(seen.lock().unwrap().len(), 4);
    long_ago(&endpoint);
    *status.lock().unwrap() = 200;
    endpoint.ask(&Request::get("/")).await.unwrap();
    *status.lock().unwrap() = 401;
    let anew = refused(&endpoint).await;
    assert!(!anew.detail.contains("since"), "{anew}");
    assert_eq!(seen.lock().unwrap().len(), 6);
}
