//! How much a server is asked.

use crate::airflow_support::*;
use backfill::{
    executor::airflow::{Auth, Connection, RunQuery},
    net::Cause,
};
use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use wiremock::ResponseTemplate;

fn with_budget(url: &str, budget: u32) -> (Connection, Arc<TestClock>) {
    let clock = TestClock::new();
    let mut settings = settings(url, Auth::None, &clock);
    settings.request_budget = budget;
    (Connection::new(settings).unwrap(), clock)
}

/// Case S06.
#[tokio::test]
async fn in_no_minute_more_is_sent_than_the_budget_allows() {
    let server = airflow3(|_| Some(recorded(200, "v2_dag.json"))).await;
    let (airflow, clock) = with_budget(&server.uri(), 10);
    let began = clock.millis();
    for _ in 0..50 {
        airflow.dag("events_daily").await.unwrap();
        assert!(airflow.usage().last_minute <= 10);
    }
    // Fifty and the version are seven bursts of eight: two of ten are kept for acting.
    assert_eq!((clock.millis() - began) / 60_000, 6);
    assert_eq!(asked(&server).await.len(), 51);
}

#[tokio::test]
async fn an_action_finds_a_place_when_reading_has_used_up_its_own() {
    let server = airflow3(|_| Some(recorded(200, "v2_dag.json"))).await;
    let (airflow, clock) = with_budget(&server.uri(), 10);
    for _ in 0..7 {
        airflow.dag("events_daily").await.unwrap();
    }
    let before = clock.millis();
    airflow.pause_dag("events_daily", true).await.unwrap();
    airflow.pause_dag("events_daily", false).await.unwrap();
    assert_eq!(clock.millis(), before, "it did not wait");
    airflow.dag("events_daily").await.unwrap();
    assert!(clock.millis() > before);
}

/// Case S06.
#[tokio::test]
async fn a_cold_start_does_not_wait_for_the_budget_and_is_counted() {
    for rows in [1_usize, 100, 1500, 10_000] {
        let server = airflow3(move |request| {
            let offset: usize = parameter(request, "offset").map_or(0, |n| n.parse().unwrap());
            let rows_here: Vec<_> = (offset..rows.min(offset + 100))
                .map(
                    |n| serde_json::json!({"dag_run_id": format!("r{n}"), "dag_id": "d", "state": "success"}),
                )
                .collect();
            Some(json(
                200,
                serde_json::json!({"dag_runs": rows_here, "total_entries": rows}).to_string(),
            ))
        })
        .await;
        let (airflow, clock) = with_budget(&server.uri(), 30);
        let began = clock.millis();
        assert_eq!(
            airflow.runs_cold(&RunQuery::of("d")).await.unwrap().rows.len(),
            rows
        );
        assert_eq!(clock.millis(), began);
        let usage = airflow.usage();
        assert_eq!(usage.last_minute, rows.div_ceil(100) + 1);
        assert!(usage.bytes > rows as u64 * 40 && usage.answered.is_some());
        clock.advance(60);
        assert_eq!(
            (airflow.usage().last_minute, airflow.usage().requests),
            (0, rows.div_ceil(100) as u64 + 1)
        );
    }
}

#[tokio::test]
async fn two_requests_are_under_way_at_once_and_never_three() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let pair = Arc::new(tokio::sync::Barrier::new(2));
    let (n, m) = (Arc::clone(&now), Arc::clone(&most));
    let dag = move || {
        let (now, most, pair) = (Arc::clone(&n), Arc::clone(&m), Arc::clone(&pair));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // Nobody gets an answer before a second one asks.
            pair.wait().await;
            now.fetch_sub(1, Ordering::SeqCst);
            ([("content-type", "application/json")], sample("v2_dag.json"))
        }
    };
    let version = || async { ([("content-type", "application/json")], sample("v2_version.json")) };
    let app = axum::Router::new()
        .route("/api/v2/version", axum::routing::get(version))
        .route("/api/v2/dags/{dag}", axum::routing::get(dag));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move { axum::serve(listener, app).await });
    let (airflow, _) = with_budget(&url, 1000);
    let calls = futures::future::join_all((0..8).map(|_| airflow.dag("events_daily"))).await;
    assert!(calls.iter().all(Result::is_ok));
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert_eq!(airflow.usage().in_flight, 0);
    served.abort();
}

#[tokio::test]
async fn the_panel_has_the_last_failure_in_the_servers_words_and_its_time() {
    let server = airflow3(|request| {
        Some(match (request.method.as_str(), request.url.path()) {
            (_, "/api/v2/dags/events_daily/dagRuns/looked-for") => recorded(404, "v2_error_404_run.json"),
            ("GET", _) => recorded(200, "v2_dag.json"),
            _ => recorded(403, "v2_error_403_viewer.json"),
        })
    })
    .await;
    let (airflow, clock) = connect(&server, Auth::None);
    assert_eq!(airflow.run("events_daily", "looked-for").await, Ok(None));
    assert_eq!(
        airflow.usage().last_error,
        None,
        "that there is no such run is an answer"
    );
    airflow.pause_dag("events_daily", true).await.unwrap_err();
    clock.advance(30);
    airflow.dag("events_daily").await.unwrap();
    let usage = airflow.usage();
    let (when, error) = usage.last_error.unwrap();
    assert_eq!(
        (when, error.cause, error.detail.as_str()),
        (at("2026-11-29T17:00:00Z"), Cause::Forbidden, "403: Forbidden")
    );
    assert_eq!(usage.answered, Some(at("2026-11-29T17:00:30Z")));
    assert_eq!((usage.requests, usage.last_minute, usage.budget), (4, 4, 10_000));
}

#[tokio::test]
async fn a_packed_answer_is_asked_for_and_unpacked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("answer");
    std::fs::write(&file, sample("v2_dag.json")).unwrap();
    let packed = Command::new("gzip").arg("-c").arg(&file).output().unwrap().stdout;
    let server = airflow3(move |_| {
        let answer = ResponseTemplate::new(200).set_body_raw(packed.clone(), "application/json");
        Some(answer.insert_header("content-encoding", "gzip"))
    })
    .await;
    assert_eq!(
        open(&server).dag("events_daily").await.unwrap().id,
        "events_daily"
    );
    assert!(
        header(&last(&server).await, "accept-encoding")
            .unwrap()
            .contains("gzip")
    );
}

#[tokio::test]
async fn a_url_that_cannot_be_used_is_an_error_at_once() {
    let clock = TestClock::new();
    for url in [
        "airflow.example:8080",
        "ftp://airflow.example",
        "http://user:secret@airflow.example/",
    ] {
        let error = Connection::new(settings(url, Auth::None, &clock)).unwrap_err();
        assert_eq!(error.cause, Cause::Local);
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
