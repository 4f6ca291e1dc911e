//! The demo's endpoint over HTTP, held against answers that were recorded from a real Prometheus.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use backfill::demo::{
    endpoint::{self, Endpoint},
    live::{Live, Metrics, unix_now},
    model::{Model, World},
    presence::Presence,
    promql::{Labels, Scrape},
};
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const LAG: &str = "sum(kafka_consumergroup_lag{consumergroup=\"orders\"})";
const AGE: &str = "min(timestamp(kafka_consumergroup_lag{consumergroup=\"orders\"}))";

/// Recorded from Prometheus 2.42: `POST /api/v1/query` with a bare selector, shortened to one series.
fn recorded_vector() -> Value {
    json!({"status": "success", "data": {"resultType": "vector", "result": [{
        "metric": {
            "__name__": "kafka_consumergroup_lag", "consumergroup": "orders-svc",
            "instance": "exporter.example:9308", "job": "kafka_exporter", "partition": "0", "topic": "orders"
        },
        "value": [1795970097.845, "12"]
    }]}})
}

/// The keys and kinds of an answer; of a list those of its first item.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(k, v)| (k.clone(), shape(v))).collect(),
        // A pair of instant and value is told by its items, a list of series by its first.
        Value::Array(items) if items.len() == 2 && !items[0].is_object() => items.iter().map(shape).collect(),
        Value::Array(items) => items.iter().take(1).map(shape).collect(),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        other => other.clone(),
    }
}

struct Asker {
    endpoint: Endpoint,
    client: Client,
}

impl Asker {
    async fn new(metrics: Arc<Metrics>) -> Self {
        backfill::net::use_ring();
        Self {
            endpoint: endpoint::serve(metrics).await.unwrap(),
            client: Client::builder().no_proxy().build().unwrap(),
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.endpoint.addr())
    }

    async fn get(&self, path: &str) -> Response {
        self.client.get(self.url(path)).send().await.unwrap()
    }

    async fn post(&self, fields: &[(&str, &str)]) -> (StatusCode, Value) {
        let sent = self
            .client
            .post(self.url("/api/v1/query"))
            .form(fields)
            .send()
            .await
            .unwrap();
        (sent.status(), sent.json().await.unwrap())
    }

    /// The one number of a query.
    async fn number(&self, query: &str) -> f64 {
        let (status, answer) = self.post(&[("query", query)]).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer["data"]["result"][0]["value"][1]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    }
}

/// Metrics of two partitions with a lag of 12 and 7, measured five seconds ago.
fn measured(at: f64) -> Arc<Metrics> {
    let series = |partition: &str, lag: f64| {
        let labels: Labels = [
            ("__name__", "kafka_consumergroup_lag"),
            ("consumergroup", "orders"),
            ("instance", "demo"),
            ("job", "kafka_exporter"),
            ("partition", partition),
            ("topic", "orders"),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect();
        (labels, lag)
    };
    let metrics = Metrics::default();
    metrics.push(Scrape {
        at,
        series: vec![series("0", 12.0), series("1", 7.0)],
    });
    Arc::new(metrics)
}

#[tokio::test]
async fn an_answer_has_exactly_the_keys_and_kinds_of_a_recorded_one() {
    let asker = Asker::new(measured(unix_now() - 5.0)).await;
    let (status, answer) = asker.post(&[("query", "kafka_consumergroup_lag")]).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(shape(&answer), shape(&recorded_vector()));
    assert_eq!(answer["data"]["result"].as_array().unwrap().len(), 2);
    assert_eq!(answer["data"]["result"][0]["value"][1], "12");
}

#[tokio::test]
async fn get_and_post_give_the_same_answer() {
    let asker = Asker::new(measured(1000.0)).await;
    let time = [("query", LAG), ("time", "1010.5")];
    let request = asker.client.get(asker.url("/api/v1/query")).query(&time);
    let got: Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(asker.post(&time).await.1, got);
    let expected = json!([{"metric": {}, "value": [1010.5, "19"]}]);
    assert_eq!(got["data"]["result"], expected);
}

/// The instant beside a value is that of the evaluation; the sample's own has to be asked for.
#[tokio::test]
async fn the_sample_s_own_time_comes_from_timestamp_and_nowhere_else() {
    let at = unix_now() - 5.0;
    let asker = Asker::new(measured(at)).await;
    let (_, answer) = asker.post(&[("query", LAG)]).await;
    let evaluated = answer["data"]["result"][0]["value"][0].as_f64().unwrap();
    assert!((unix_now() - evaluated).abs() < 2.0);
    assert!((asker.number(AGE).await - at).abs() < 1e-6);
    let age = asker.number(&format!("time() - {AGE}")).await;
    assert!((5.0..8.0).contains(&age), "{age}");
}

#[tokio::test]
async fn an_unknown_metric_is_an_empty_vector_and_so_is_a_metric_that_grew_too_old() {
    let empty = json!({"status": "success", "data": {"resultType": "vector", "result": []}});
    let asker = Asker::new(measured(unix_now() - 301.0)).await;
    assert_eq!(
        asker.post(&[("query", "nothing")]).await,
        (StatusCode::OK, empty.clone())
    );
    assert_eq!(asker.post(&[("query", LAG)]).await, (StatusCode::OK, empty));
}

/// The recorded error bodies of Prometheus for a parse error and for a missing query.
#[tokio::test]
async fn a_bad_query_is_a_400_in_the_shape_of_prometheus() {
    let asker = Asker::new(measured(unix_now())).await;
    let bad = |error: &str| {
        let body = json!({"status": "error", "errorType": "bad_data", "error": error});
        (StatusCode::BAD_REQUEST, body)
    };
    let missing = "invalid parameter \"query\": 1:1: parse error: no expression found in input";
    assert_eq!(asker.post(&[]).await, bad(missing));
    let unclosed = "invalid parameter \"query\": 1:10: parse error: unclosed left parenthesis";
    assert_eq!(asker.post(&[("query", "sum by (x")]).await, bad(unclosed));
    let (status, answer) = asker.post(&[("query", "1"), ("time", "soon")]).await;
    assert_eq!(
        (status, &answer["errorType"]),
        (StatusCode::BAD_REQUEST, &json!("bad_data"))
    );
    let (status, answer) = asker
        .post(&[("query", "rate(kafka_consumergroup_lag[5m])")])
        .await;
    assert_eq!(
        (status, &answer["errorType"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("execution"))
    );
}

#[tokio::test]
async fn health_metrics_and_unknown_paths_answer_as_text() {
    let asker = Asker::new(measured(unix_now())).await;
    assert_eq!(asker.get("/-/healthy").await.status(), StatusCode::OK);
    assert_eq!(asker.get("/-/ready").await.status(), StatusCode::OK);
    assert_eq!(asker.get("/api/v1/nosuch").await.status(), StatusCode::NOT_FOUND);
    let deleted = asker
        .client
        .delete(asker.url("/api/v1/query"))
        .send()
        .await
        .unwrap();
    assert_eq!(deleted.status(), StatusCode::METHOD_NOT_ALLOWED);
    let metrics = asker.get("/metrics").await;
    assert_eq!(
        metrics.headers()["content-type"],
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let text = metrics.text().await.unwrap();
    assert!(text.contains("# TYPE kafka_consumergroup_lag gauge\n"), "{text}");
    assert!(
        text.contains(
            "kafka_consumergroup_lag{consumergroup=\"orders\",partition=\"1\",topic=\"orders\"} 7\n"
        )
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_askers_at_once_all_get_their_answer() {
    let asker = Asker::new(measured(unix_now())).await;
    let asks = (0..300).map(|_| async { asker.number(LAG).await });
    let answers = futures::future::join_all(asks).await;
    assert!(answers.iter().all(|lag| *lag == 19.0));
}

#[tokio::test]
async fn a_hostile_request_is_refused_and_the_next_one_answered() {
    let asker = Asker::new(measured(unix_now())).await;
    let nested = format!("{}1{}", "(".repeat(3000), ")".repeat(3000));
    assert_eq!(asker.post(&[("query", &nested)]).await.0, StatusCode::BAD_REQUEST);
    let huge = "x".repeat(1 << 20);
    assert_eq!(asker.post(&[("query", &huge)]).await.0, StatusCode::BAD_REQUEST);
    let request = asker
        .client
        .post(asker.url("/api/v1/query"))
        .body("{}")
        .send()
        .await
        .unwrap();
    assert_eq!(request.status(), StatusCode::BAD_REQUEST);
    assert_eq!(asker.number(LAG).await, 19.0);
}

#[tokio::test]
async fn a_stopped_endpoint_lets_go_of_its_port() {
    let asker = Asker::new(measured(unix_now())).await;
    asker.number(LAG).await;
    let addr = asker.endpoint.addr();
    drop(asker.client);
    asker.endpoint.stop().await;
    assert!(std::net::TcpStream::connect(addr).is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lag_rises_while_chunks_run_and_drains_when_they_have_ended() {
    let dir = tempfile::tempdir().unwrap();
    let live = Live::start(Model::new(World::calm()), dir.path(), 1).unwrap();
    let asker = Asker::new(live.metrics()).await;
    let inside: Vec<Presence> = (0..4)
        .map(|n| Presence::enter(dir.path(), &n.to_string()).unwrap())
        .collect();
    let started = Instant::now();
    let patience = Duration::from_secs(60);
    while asker.number(LAG).await < 2000.0 {
        assert!(started.elapsed() < patience, "lag does not rise");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    drop(inside);
    while asker.number(LAG).await > 0.0 {
        assert!(started.elapsed() < patience, "lag does not drain");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
