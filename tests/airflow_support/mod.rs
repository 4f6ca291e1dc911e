//! Stand-ins of an Airflow server, recorded answers, and a clock that a test owns.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod standin;

use async_trait::async_trait;
use backfill::{
    config::secret::SecretSource,
    domain::Time,
    executor::airflow::{Auth, Clock, Connection, ConnectionSettings},
    host::BootInstant,
    net::Surroundings,
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers::any};

/// A clock that moves when the test says so, or when somebody waits.
#[derive(Debug)]
pub struct TestClock {
    millis: Mutex<u64>,
    wall: Time,
}

impl TestClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            millis: Mutex::new(1_000_000),
            wall: "2026-11-29T17:00:00Z".parse().unwrap(),
        })
    }

    pub fn advance(&self, seconds: u64) {
        *self.millis.lock().unwrap() += seconds * 1000;
    }

    pub fn millis(&self) -> u64 {
        *self.millis.lock().unwrap()
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> BootInstant {
        BootInstant(self.millis())
    }

    fn wall(&self) -> Time {
        self.wall + chrono::TimeDelta::milliseconds(self.millis() as i64 - 1_000_000)
    }

    async fn sleep(&self, span: Duration) {
        *self.millis.lock().unwrap() += span.as_millis() as u64;
        tokio::task::yield_now().await;
    }
}

/// A recorded answer.
pub fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/airflow_samples")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub fn json_of(name: &str) -> serde_json::Value {
    serde_json::from_str(&sample(name)).unwrap()
}

/// An answer with a JSON document.
pub fn json(status: u16, body: impl Into<String>) -> ResponseTemplate {
    ResponseTemplate::new(status).set_body_raw(body.into(), "application/json")
}

pub fn recorded(status: u16, name: &str) -> ResponseTemplate {
    json(status, sample(name))
}

pub fn html(status: u16, title: &str) -> ResponseTemplate {
    let page = format!("<!doctype html><html><head><title>{title}</title></head><body>..</body></html>");
    ResponseTemplate::new(status).set_body_raw(page, "text/html; charset=utf-8")
}

/// A server of 3.x: the version as recorded, everything else as told, or no such place.
pub async fn airflow3(
    answer: impl Fn(&Request) -> Option<ResponseTemplate> + Send + Sync + 'static,
) -> MockServer {
    serve(move |request| match request.url.path() {
        "/api/v2/version" => recorded(200, "v2_version.json"),
        _ => answer(request).unwrap_or_else(|| recorded(404, "v2_error_404_route.json")),
    })
    .await
}

/// A server of 2.x.
pub async fn airflow2(
    answer: impl Fn(&Request) -> Option<ResponseTemplate> + Send + Sync + 'static,
) -> MockServer {
    serve(move |request| match request.url.path() {
        "/api/v2/version" => html(404, "Airflow 404 = lots of circles"),
        "/api/v1/version" => recorded(200, "v1_version.json"),
        _ => answer(request).unwrap_or_else(|| recorded(404, "v1_error_404_route.json")),
    })
    .await
}

pub async fn serve(answer: impl Fn(&Request) -> ResponseTemplate + Send + Sync + 'static) -> MockServer {
    let server = MockServer::start().await;
    Mock::given(any()).respond_with(answer).mount(&server).await;
    server
}

/// Everything that was asked: `GET /api/v2/dags?limit=100`.
pub async fn asked(server: &MockServer) -> Vec<String> {
    let requests = server.received_requests().await.unwrap();
    requests.iter().map(line).collect()
}

pub fn line(request: &Request) -> String {
    let query = request.url.query().map_or_else(String::new, |q| format!("?{q}"));
    format!("{} {}{query}", request.method, request.url.path())
}

/// The last request.
pub async fn last(server: &MockServer) -> Request {
    server.received_requests().await.unwrap().pop().unwrap()
}

pub fn body_of(request: &Request) -> serde_json::Value {
    serde_json::from_slice(&request.body).unwrap()
}

pub fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    request.headers.get(name).map(|v| v.to_str().unwrap())
}

pub fn parameter(request: &Request, name: &str) -> Option<String> {
    request
        .url
        .query_pairs()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

pub fn settings(url: &str, auth: Auth, clock: &Arc<TestClock>) -> ConnectionSettings {
    ConnectionSettings {
        auth,
        surroundings: Surroundings::default(),
        request_budget: 10_000,
        clock: Arc::clone(clock) as Arc<dyn Clock>,
        ..ConnectionSettings::new("airflow-prod", url)
    }
}

pub fn connect(server: &MockServer, auth: Auth) -> (Connection, Arc<TestClock>) {
    let clock = TestClock::new();
    (
        Connection::new(settings(&server.uri(), auth, &clock)).unwrap(),
        clock,
    )
}

/// A connection that nobody asks for credentials.
pub fn open(server: &MockServer) -> Connection {
    connect(server, Auth::None).0
}

/// A secret in a file of a folder.
pub fn secret(dir: &tempfile::TempDir, name: &str, value: &str) -> (SecretSource, PathBuf) {
    let path = dir.path().join(name);
    std::fs::write(&path, value).unwrap();
    (SecretSource::File(path.clone()), path)
}

/// A token of this lifetime, by its own words. `name` tells it from others.
pub fn jwt(name: &str, issued: i64, expires: i64) -> String {
    let claims = serde_json::json!({"sub": name, "iat": issued, "exp": expires}).to_string();
    format!(
        "{}.{}.c2lnbmF0dXJl",
        base64url(br#"{"alg":"HS512"}"#),
        base64url(claims.as_bytes())
    )
}

fn base64url(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            out.push(char::from(LETTERS[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
    out
}

pub fn at(text: &str) -> Time {
    text.parse().unwrap()
}
