//! What a failed call means, and in whose words it is told.

use crate::airflow_support::*;
use backfill::{
    executor::airflow::{Auth, CallError, Connection, Kind, RunQuery},
    net::Cause,
};
use std::time::Duration;
use wiremock::ResponseTemplate;

async fn failure(answer: ResponseTemplate) -> CallError {
    let server = airflow3(move |_| Some(answer.clone())).await;
    open(&server).dag("events_daily").await.unwrap_err()
}

async fn failure_v1(answer: ResponseTemplate) -> CallError {
    let server = airflow2(move |_| Some(answer.clone())).await;
    open(&server).dag("events_daily").await.unwrap_err()
}

#[tokio::test]
async fn every_recorded_refusal_of_3_x_is_told_in_the_servers_words_and_means_one_thing() {
    let table: &[(u16, &str, Kind, &str)] = &[
        (401, "401_no_token", Kind::LoggedOut, "Not authenticated"),
        (401, "401_expired", Kind::LoggedOut, "Token Expired"),
        (403, "403_bad_token", Kind::LoggedOut, "Invalid JWT token"),
        (403, "403_viewer", Kind::Forbidden, "Forbidden"),
        (
            404,
            "404_dag",
            Kind::Absent,
            "The Dag with ID: `nope` was not found",
        ),
        (
            404,
            "404_run",
            Kind::Absent,
            "The DagRun with dag_id: `events_daily` and run_id: `nope` was not found",
        ),
        (
            404,
            "404_mapped_task",
            Kind::Absent,
            "Task instance is mapped, add the map_index value to the URL",
        ),
        (404, "404_route", Kind::WrongPlace, "API route not found"),
        (
            404,
            "404_v1_route",
            Kind::WrongPlace,
            "/api/v1 has been removed in Airflow 3",
        ),
        (405, "405", Kind::Invalid, "Method Not Allowed"),
        (
            406,
            "406_log_text",
            Kind::Invalid,
            "Only application/json or application/x-ndjson is supported",
        ),
        (
            409,
            "409_dup_run_id",
            Kind::Conflict,
            "Unique constraint violation: Serious error",
        ),
        (
            409,
            "409_dup_logical_date",
            Kind::Conflict,
            "Unique constraint violation: Serious error",
        ),
        (
            409,
            "409_delete_running",
            Kind::Conflict,
            "cannot be deleted in running state",
        ),
        (
            409,
            "409_clear_running",
            Kind::Conflict,
            "AirflowClearRunningTaskException",
        ),
        (
            409,
            "409_backfill_running",
            Kind::Conflict,
            "There is already a running backfill for dag events_daily",
        ),
        (
            409,
            "409_backfill_completed",
            Kind::Conflict,
            "Backfill is already completed.",
        ),
        (
            422,
            "422_body",
            Kind::Invalid,
            "body.dag_run_id: Input should be a valid string; body.logical_date: Field required; body.foo: Extra",
        ),
        (
            422,
            "422_naive_date",
            Kind::Invalid,
            "body.logical_date: Input should have timezone info",
        ),
        (422, "422_query_state", Kind::Invalid, "Invalid value for state."),
        (
            422,
            "422_backfill_future",
            Kind::Invalid,
            "Backfill cannot be executed for future dates.",
        ),
        (
            422,
            "422_backfill_no_runs",
            Kind::Invalid,
            "No runs to create for Dag events_daily",
        ),
        (
            400,
            "400_run_id",
            Kind::Invalid,
            "The run_id provided 'a/b' does not match regex pattern",
        ),
        (
            400,
            "400_order_by",
            Kind::Invalid,
            "Ordering with 'bogus' is disallowed",
        ),
        (
            500,
            "500_naive_query_date",
            Kind::Server,
            "Database error: Serious error",
        ),
        (503, "503_backfill_sqlite", Kind::Server, "Database is locked."),
    ];
    for (status, name, kind, words) in table {
        let error = failure(recorded(*status, &format!("v2_error_{name}.json"))).await;
        assert_eq!(error.kind, *kind, "{name}");
        assert!(
            error.error.detail.starts_with(&format!("{status}: ")),
            "{name}: {error}"
        );
        assert!(error.error.detail.contains(words), "{name}: {error}");
        assert_eq!(error.may_have_happened(), *kind == Kind::Server, "{name}");
    }
}

#[tokio::test]
async fn every_recorded_refusal_of_2_x_is_told_in_the_servers_words_and_means_one_thing() {
    let table: &[(u16, &str, Kind, &str)] = &[
        (
            400,
            "400_naive_date",
            Kind::Invalid,
            "is not a 'date-time' - 'logical_date'",
        ),
        (
            400,
            "400_null_logical_date",
            Kind::Invalid,
            "'None' is not an instance of 'str'",
        ),
        (
            400,
            "400_type",
            Kind::Invalid,
            "5 is not of type 'string' - 'dag_run_id'",
        ),
        (
            400,
            "400_unknown_field",
            Kind::Invalid,
            "{'only_failed': ['Unknown field.']}",
        ),
        (
            400,
            "400_unknown_query",
            Kind::Invalid,
            "Extra query parameter(s) bogus not in spec",
        ),
        (
            400,
            "400_order_by",
            Kind::Invalid,
            "Ordering with 'logical_date' is disallowed",
        ),
        (403, "403_auth", Kind::LoggedOut, "Forbidden"),
        (
            404,
            "404_dag",
            Kind::Absent,
            "The DAG with dag_id: nope was not found",
        ),
        (
            404,
            "404_run",
            Kind::Absent,
            "DAGRun with DAG ID: 'events_daily' and DagRun ID: 'nope' not found",
        ),
        (404, "404_mapped_task", Kind::Absent, "Task instance is mapped"),
        (
            404,
            "404_route",
            Kind::WrongPlace,
            "The requested URL was not found on the server.",
        ),
        (
            405,
            "405",
            Kind::Invalid,
            "The method is not allowed for the requested URL.",
        ),
        (
            409,
            "409_dup_run_id",
            Kind::Conflict,
            "DAGRun ID: 'conductor__2021-02-01' already exists",
        ),
        (
            409,
            "409_dup_logical_date",
            Kind::Conflict,
            "logical date: '2021-02-01 00:00:00+00:00' already exists",
        ),
    ];
    for (status, name, kind, words) in table {
        let error = failure_v1(recorded(*status, &format!("v1_error_{name}.json"))).await;
        assert_eq!(error.kind, *kind, "{name}");
        assert!(error.error.detail.contains(words), "{name}: {error}");
    }
}

/// Case S04.
#[tokio::test]
async fn a_failure_says_who_what_how_long_and_a_likely_cause() {
    let error = failure(recorded(404, "v2_error_404_route.json")).await;
    let told = error.to_string();
    assert!(
        told.starts_with("airflow-prod: 404, look at the path prefix of the url (GET http://"),
        "{told}"
    );
    assert!(told.ends_with("s): 404: API route not found"), "{told}");
    let absent = failure(recorded(404, "v2_error_404_dag.json")).await;
    assert!(!absent.to_string().contains("path prefix"), "{absent}");
}

#[tokio::test]
async fn a_page_with_200_is_no_answer() {
    let error = failure(html(200, "Airflow")).await;
    assert_eq!(
        (error.kind, error.error.cause),
        (Kind::NotUnderstood, Cause::NotUnderstood)
    );
    assert!(
        error.error.detail.contains("an HTML page titled \"Airflow\""),
        "{error}"
    );
    // Not even if something else than a browser would understand it.
    let body = sample("v2_dag.json");
    let error = failure(ResponseTemplate::new(200).set_body_raw(body, "text/html")).await;
    assert_eq!(error.kind, Kind::NotUnderstood);
}

#[tokio::test]
async fn what_stands_before_the_server_never_looks_like_a_missing_run() {
    for answer in [
        html(404, "nginx"),
        json(404, r#"{"detail":"Not Found"}"#),
        json(404, "{}"),
        json(404, "null"),
        ResponseTemplate::new(404),
        ResponseTemplate::new(404).set_body_string("404 page not found"),
        recorded(404, "v2_error_404_v1_route.json"),
    ] {
        let server = airflow3(move |_| Some(answer.clone())).await;
        let error = open(&server).run("events_daily", "r").await.unwrap_err();
        assert_eq!(error.kind, Kind::WrongPlace, "{error}");
    }
    let server = airflow3(|_| Some(recorded(404, "v2_error_404_run.json"))).await;
    assert_eq!(open(&server).run("events_daily", "r").await, Ok(None));
}

#[tokio::test]
async fn pages_and_texts_of_proxies_give_their_title_or_first_line() {
    let error = failure(html(502, "502 Bad Gateway")).await;
    assert_eq!((error.kind, error.error.cause), (Kind::Server, Cause::Server));
    assert!(
        error
            .error
            .detail
            .contains("an HTML page titled \"502 Bad Gateway\""),
        "{error}"
    );
    let error = failure(ResponseTemplate::new(503).set_body_string("upstream \u{1b}[31mgone\nmore")).await;
    assert!(
        error.error.detail.ends_with("503: upstream ^[[31mgone"),
        "{error}"
    );
    let limited = ResponseTemplate::new(429).insert_header("retry-after", "7");
    let error = failure(limited).await;
    assert_eq!(
        (error.kind, error.error.retry_after),
        (Kind::TooMany, Some(Duration::from_secs(7)))
    );
    assert_eq!(failure(html(403, "Blocked")).await.kind, Kind::Forbidden);
}

#[tokio::test]
async fn a_detail_of_any_shape_is_told_and_cut() {
    for (detail, words) in [
        (
            r#"[{"loc":["body",3,"x"],"msg":"no"},"bare",7]"#,
            "422: body.3.x: no; bare; 7",
        ),
        (
            r#"[{"msg":"a"},{"msg":"b"},{"msg":"c"},{"msg":"d"},{"msg":"e"},{"msg":"f"}]"#,
            "422: a; b; c; d; 2 more",
        ),
        (r#"{"message":"only this"}"#, "422: only this"),
        (r#"{"other":1}"#, "422: no words"),
        ("null", "422: no words"),
        ("17", "422: 17"),
    ] {
        let error = failure(json(422, format!(r#"{{"detail":{detail}}}"#))).await;
        assert_eq!(error.error.detail, words);
    }
    let huge = format!(r#"{{"detail":"{}"}}"#, "x".repeat(3_000_000));
    let error = failure(json(500, huge)).await;
    assert_eq!(error.kind, Kind::Server);
    assert!(error.error.detail.chars().count() <= 400);
}

#[tokio::test]
async fn a_body_without_end_is_not_read_to_its_end() {
    let mut dag = json_of("v2_dag.json");
    dag["doc"] = "x".repeat(9 * 1024 * 1024).into();
    let error = failure(json(200, dag.to_string())).await;
    assert_eq!(error.kind, Kind::Unanswered);
    assert!(error.error.detail.contains("more than 8.0 MiB"), "{error}");
}

#[tokio::test]
async fn a_list_that_is_none_is_not_an_empty_one() {
    for body in [
        "{}",
        "[]",
        "null",
        r#"{"dag_runs":null}"#,
        r#"{"dag_runs":[{"state":"success"}]}"#,
    ] {
        let server = airflow3(move |_| Some(json(200, body))).await;
        let error = open(&server)
            .runs(&RunQuery::of("events_daily"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, Kind::NotUnderstood, "{body}");
    }
}

#[tokio::test]
async fn a_call_of_seven_seconds_is_no_failure() {
    let server = airflow3(|_| Some(recorded(200, "v2_dag.json").set_delay(Duration::from_secs(7)))).await;
    assert!(open(&server).dag("events_daily").await.is_ok());
}

#[tokio::test]
async fn where_nobody_listens_nothing_can_have_happened() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let clock = TestClock::new();
    let url = format!("http://127.0.0.1:{port}");
    let airflow = Connection::new(settings(&url, Auth::None, &clock)).unwrap();
    let error = airflow.version().await.unwrap_err();
    assert_eq!((error.kind, error.error.cause), (Kind::NotSent, Cause::Refused));
    assert!(!error.may_have_happened());
}
