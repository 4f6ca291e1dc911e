//! Whole lists, while rows come and go.

use crate::airflow_support::*;
use backfill::executor::airflow::{
    RunQuery, Window,
    wire::{RunKind, RunState},
};
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};
use wiremock::{MockServer, Request, ResponseTemplate};

fn number(request: &Request, name: &str, default: usize) -> usize {
    parameter(request, name).map_or(default, |n| n.parse().unwrap())
}

/// The page of a list that a server with at most `most` rows a page gives.
fn page(runs: &[String], request: &Request, most: usize) -> ResponseTemplate {
    let limit = number(request, "limit", 50).min(most);
    let rows: Vec<_> = runs
        .iter()
        .skip(number(request, "offset", 0))
        .take(limit)
        .map(|id| {
            serde_json::json!({
                "dag_run_id": id, "dag_id": "events_daily", "state": "success", "run_type": "manual",
                "logical_date": null,
            })
        })
        .collect();
    let body = serde_json::json!({"dag_runs": rows, "total_entries": runs.len()});
    json(200, body.to_string()).insert_header("date", "Sun, 29 Nov 2026 17:00:00 GMT")
}

type Rows = Arc<Mutex<Vec<String>>>;

/// A server whose list changes, as `change` does it, after each page.
async fn listing(
    rows: usize,
    most: usize,
    change: impl Fn(u64, &mut Vec<String>) + Send + Sync + 'static,
) -> (MockServer, Rows) {
    let runs: Rows = Arc::new(Mutex::new((0..rows).map(|n| format!("run{n}")).collect()));
    let (held, pages) = (Arc::clone(&runs), AtomicU64::new(0));
    let server = airflow3(move |request| {
        let mut runs = held.lock().unwrap();
        let answer = page(&runs, request, most);
        change(pages.fetch_add(1, Ordering::SeqCst), &mut runs);
        Some(answer)
    })
    .await;
    (server, runs)
}

#[tokio::test]
async fn three_years_of_days_are_read_in_pages_of_a_hundred_and_no_more_requests_than_that() {
    let (server, _) = listing(1096, 100, |_, _| {}).await;
    let airflow = open(&server);
    let listing = airflow.runs_cold(&RunQuery::of("events_daily")).await.unwrap();
    assert_eq!(
        (listing.rows.len(), listing.total, listing.torn),
        (1096, 1096, false)
    );
    let asked = asked(&server).await;
    assert_eq!(asked.len(), 12, "eleven pages and the version");
    assert!(
        asked[1].starts_with("GET /api/v2/dags/events_daily/dagRuns?order_by=id&limit=100"),
        "{}",
        asked[1]
    );
}

#[tokio::test]
async fn a_server_that_gives_smaller_pages_is_read_to_the_end_too() {
    let (server, _) = listing(333, 40, |_, _| {}).await;
    let listing = open(&server).runs(&RunQuery::of("events_daily")).await.unwrap();
    assert_eq!((listing.rows.len(), listing.torn), (333, false));
}

#[tokio::test]
async fn rows_that_are_added_while_it_is_read_are_in_it() {
    let (server, _) = listing(450, 100, |page, runs| {
        if page < 4 {
            runs.extend((0..60).map(|n| format!("new{page}-{n}")));
        }
    })
    .await;
    let listing = open(&server).runs(&RunQuery::of("events_daily")).await.unwrap();
    assert_eq!(
        (listing.rows.len(), listing.total, listing.torn),
        (690, 690, false)
    );
    assert_eq!(listing.rows[0].id, "run0");
}

#[tokio::test]
async fn a_row_that_is_deleted_while_it_is_read_lets_no_other_slip_through() {
    let (server, rows) = listing(450, 100, |page, runs| {
        if page == 1 {
            runs.remove(0);
        }
    })
    .await;
    let listing = open(&server).runs(&RunQuery::of("events_daily")).await.unwrap();
    let expected = rows.lock().unwrap().clone();
    assert_eq!(
        listing.rows.iter().map(|r| r.id.clone()).collect::<Vec<_>>(),
        expected
    );
    assert!(!listing.torn);
}

#[tokio::test]
async fn a_list_that_shrinks_each_time_says_that_a_row_may_be_missing() {
    let (server, _) = listing(450, 100, |_, runs| {
        runs.remove(0);
    })
    .await;
    let listing = open(&server).runs(&RunQuery::of("events_daily")).await.unwrap();
    assert!(listing.torn);
    assert!(asked(&server).await.len() <= 3 * 5 + 1);
}

#[tokio::test]
async fn a_server_that_counts_more_than_it_shows_is_read_twice_and_no_more() {
    let server = airflow3(|request| {
        let rows = match number(request, "offset", 0) {
            0 => serde_json::json!([{"dag_run_id": "a", "state": "success"}, {"dag_run_id": "b", "state": "success"}]),
            _ => serde_json::json!([]),
        };
        Some(json(200, serde_json::json!({"dag_runs": rows, "total_entries": 3}).to_string()))
    })
    .await;
    let listing = open(&server).runs(&RunQuery::of("events_daily")).await.unwrap();
    assert_eq!((listing.rows.len(), listing.total, listing.torn), (2, 3, true));
    assert_eq!(asked(&server).await.len(), 1 + 2 * 2);
}

#[tokio::test]
async fn a_total_beyond_all_reason_is_not_believed() {
    let server = airflow3(|_| Some(json(200, r#"{"dag_runs":[],"total_entries":4000000000}"#))).await;
    assert!(open(&server).runs(&RunQuery::of("events_daily")).await.is_err());
    assert_eq!(asked(&server).await.len(), 2);
}

#[tokio::test]
async fn the_next_poll_begins_a_little_before_the_servers_own_clock() {
    let (server, _) = listing(3, 100, |_, _| {}).await;
    let airflow = open(&server);
    let listing = airflow.runs(&RunQuery::of("events_daily")).await.unwrap();
    let as_of = listing.as_of.unwrap();
    assert!(
        as_of <= at("2026-11-29T16:59:55Z") && as_of > at("2026-11-29T16:59:40Z"),
        "{as_of}"
    );
    airflow
        .changed_runs("events_daily", at("2026-11-29T16:59:55.25Z"))
        .await
        .unwrap();
    let request = last(&server).await;
    assert_eq!(
        parameter(&request, "updated_at_gte").as_deref(),
        Some("2026-11-29T16:59:55.250000Z")
    );
    assert_eq!(parameter(&request, "order_by").as_deref(), Some("id"));
}

#[tokio::test]
async fn windows_states_and_kinds_are_asked_for_in_the_words_of_each_version() {
    let window = Some(Window::Logical {
        from: at("2021-02-01T00:00:00-05:00"),
        to: at("2021-02-03T00:00:00-05:00"),
    });
    let query = RunQuery {
        window,
        states: vec![RunState::Failed, RunState::Queued],
        kinds: vec![RunKind::Manual],
        ..RunQuery::of("events daily+x")
    };
    let server = airflow3(|request| Some(page(&[], request, 100))).await;
    open(&server).runs(&query).await.unwrap();
    assert_eq!(
        asked(&server).await[1],
        "GET /api/v2/dags/events%20daily%2Bx/dagRuns?order_by=id&state=failed&state=queued&run_type=manual\
         &logical_date_gte=2021-02-01T05%3A00%3A00Z&logical_date_lte=2021-02-03T05%3A00%3A00Z&limit=100"
    );
    let server = airflow2(|_| Some(recorded(200, "v1_dag_runs.json"))).await;
    let query = RunQuery {
        kinds: vec![RunKind::Backfill],
        window: None,
        ..query
    };
    assert_eq!(
        open(&server).runs(&query).await.unwrap().rows,
        [],
        "2.x cannot choose by kind, so we do"
    );
    assert!(!asked(&server).await[2].contains("run_type"));
}

#[tokio::test]
async fn what_an_older_version_would_ignore_is_not_sent_to_it() {
    let partition = RunQuery {
        window: Some(Window::Partition {
            from: at("2021-02-01T00:00:00Z"),
            to: at("2021-02-03T00:00:00Z"),
        }),
        ..RunQuery::of("partitioned_daily")
    };
    let server = serve(|request| match request.url.path() {
        "/api/v2/version" => json(200, r#"{"version":"3.2.2rc1","git_version":null}"#),
        _ => page(&[], request, 100),
    })
    .await;
    let error = open(&server).runs(&partition).await.unwrap_err();
    assert_eq!(error.kind, backfill::executor::airflow::Kind::Unsupported);
    assert!(
        error.error.detail.contains("it takes 3.3 and this is 3.2.2rc1"),
        "{error}"
    );
    assert_eq!(asked(&server).await.len(), 1);
}
