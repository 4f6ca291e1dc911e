//! A Prometheus-compatible endpoint on the loopback, over the metrics of the live consumer: instant queries as
//! `GET` and as `POST` form, `/metrics`, and the health paths.

use super::{
    live::{Metrics, unix_now},
    promql::{QueryError, Value},
};
use axum::{
    Router,
    extract::{DefaultBodyLimit, Form, State, rejection::FormRejection},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use chrono::DateTime;
use serde_json::json;
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// The largest form that is read, in bytes.
const LARGEST_FORM: usize = 64 << 10;

/// A running endpoint; it ends when this is dropped.
#[derive(Debug)]
pub struct Endpoint {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// Starts an endpoint on a free port of the loopback.
///
/// # Errors
/// No port can be bound.
pub async fn serve(metrics: Arc<Metrics>) -> io::Result<Endpoint> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let addr = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, router(metrics)).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let task = tokio::spawn(async move {
        let _ = server.await;
    });
    Ok(Endpoint {
        addr,
        stop: Some(stop),
        task,
    })
}

impl Endpoint {
    /// Where it listens.
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers what was asked, for a second at most, and ends.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        let _ = tokio::time::timeout(Duration::from_secs(1), &mut self.task).await;
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn router(metrics: Arc<Metrics>) -> Router {
    Router::new()
        .route("/api/v1/query", get(query).post(query))
        .route("/api/v1/status/buildinfo", get(build_info))
        .route("/metrics", get(exposition))
        .route(
            "/-/healthy",
            get(|| async { "The demo's endpoint is healthy.\n" }),
        )
        .route("/-/ready", get(|| async { "The demo's endpoint is ready.\n" }))
        .fallback(|| async { (StatusCode::NOT_FOUND, "404 page not found\n") })
        .layer(DefaultBodyLimit::max(LARGEST_FORM))
        .with_state(metrics)
}

/// Fields of the query string of a `GET`, or of the form of a `POST`.
type Fields = Vec<(String, String)>;

async fn query(State(metrics): State<Arc<Metrics>>, form: Result<Form<Fields>, FormRejection>) -> Response {
    let fields = match form {
        Ok(Form(fields)) => fields,
        Err(e) => return error(StatusCode::BAD_REQUEST, "bad_data", &e.body_text()),
    };
    let field = |name: &str| {
        fields
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let time = match field("time").map(instant) {
        None => unix_now(),
        Some(Ok(time)) => time,
        Some(Err(e)) => return error(StatusCode::BAD_REQUEST, "bad_data", &e),
    };
    match metrics.query(field("query").unwrap_or_default(), time) {
        Ok(value) => answer(&value, time),
        Err(e @ QueryError::Parse { .. }) => error(StatusCode::BAD_REQUEST, "bad_data", &e.to_string()),
        Err(e @ QueryError::Execution(_)) => {
            error(StatusCode::UNPROCESSABLE_ENTITY, "execution", &e.to_string())
        }
    }
}

/// An instant as a request names it: Unix seconds or RFC 3339.
fn instant(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|t: &f64| t.is_finite())
        .or_else(|| {
            let time = DateTime::parse_from_rfc3339(text).ok()?;
            Some(time.timestamp_millis() as f64 / 1000.0)
        })
        .ok_or_else(|| format!("invalid parameter \"time\": cannot parse {text:?} to a valid timestamp"))
}

/// The instant beside each value is that of the evaluation, to milliseconds, never that of the sample.
fn answer(value: &Value, time: f64) -> Response {
    let at = (time * 1000.0).round() / 1000.0;
    let (kind, result) = match value {
        Value::Scalar(n) => ("scalar", json!([at, number(*n)])),
        Value::Text(text) => ("string", json!([at, text])),
        Value::Vector(vector) => (
            "vector",
            vector
                .iter()
                .map(|(labels, n)| json!({"metric": labels, "value": [at, number(*n)]}))
                .collect(),
        ),
    };
    let body = json!({"status": "success", "data": {"resultType": kind, "result": result}});
    (StatusCode::OK, axum::Json(body)).into_response()
}

/// Numbers travel as text, because JSON has neither NaN nor infinity.
fn number(n: f64) -> String {
    if n.is_nan() {
        "NaN".to_owned()
    } else if n.is_infinite() {
        if n > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        n.to_string()
    }
}

fn error(status: StatusCode, kind: &str, what: &str) -> Response {
    let body = json!({"status": "error", "errorType": kind, "error": what});
    (status, axum::Json(body)).into_response()
}

async fn build_info() -> Response {
    let data = json!({"version": concat!(env!("CARGO_PKG_VERSION"), "+demo"), "revision": "", "branch": ""});
    axum::Json(json!({"status": "success", "data": data})).into_response()
}

async fn exposition(State(metrics): State<Arc<Metrics>>) -> Response {
    (
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        metrics.exposition(),
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_prometheus_writes_them() {
        let written = [19.0, 0.25, -3.0, 1e21, f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(number);
        let expected = [
            "19",
            "0.25",
            "-3",
            "1000000000000000000000",
            "NaN",
            "+Inf",
            "-Inf",
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn instants_are_unix_seconds_or_rfc_3339_and_nothing_else() {
        assert_eq!(instant("1795970097.817"), Ok(1_795_970_097.817));
        assert_eq!(instant("2026-11-29T12:00:00.5Z"), Ok(1_795_953_600.5));
        for wrong in ["", "now", "NaN", "inf", "2026-11-29"] {
            assert!(instant(wrong).is_err(), "{wrong}");
        }
    }
}
