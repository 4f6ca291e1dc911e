//! Logging in to a 2.x, which says the same of a wrong password and of a missing permission.

use crate::airflow_support::*;
use backfill::executor::airflow::{Auth, Kind, Mark, Standing};
use wiremock::{MockServer, Request};

/// `admin:hunter2-password`
const GOOD: &str = "Basic YWRtaW46aHVudGVyMi1wYXNzd29yZA==";

async fn server() -> MockServer {
    airflow2(|request: &Request| {
        let known = header(request, "authorization") == Some(GOOD);
        Some(match (known, request.method.as_str()) {
            (true, "GET") => recorded(200, "v1_dags.json"),
            _ => recorded(403, "v1_error_403_auth.json"),
        })
    })
    .await
}

#[tokio::test]
async fn user_and_password_are_sent_as_basic_whether_configured_so_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let (password, _) = secret(&dir, "password", "hunter2-password");
    let user = "admin".to_owned();
    for auth in [
        Auth::Basic {
            user: user.clone(),
            password: password.clone(),
        },
        Auth::Password { user, password },
    ] {
        let server = server().await;
        let (airflow, _) = connect(&server, auth);
        assert_eq!(airflow.dags().await.unwrap().rows[0].id, "events_daily");
        assert_eq!(airflow.usage().standing, Standing::Good { until: None });
    }
}

/// Case S03.
#[tokio::test]
async fn a_wrong_password_is_found_out_with_one_more_request_and_then_nothing_is_sent() {
    let server = server().await;
    let dir = tempfile::tempdir().unwrap();
    let (password, path) = secret(&dir, "password", "wrong-password");
    let user = "admin".to_owned();
    let (airflow, _) = connect(&server, Auth::Basic { user, password });
    for _ in 0..10 {
        let error = airflow
            .mark_run("events_daily", "r", Mark::Failed)
            .await
            .unwrap_err();
        assert_eq!(error.kind, Kind::LoggedOut);
    }
    assert_eq!(
        asked(&server).await,
        [
            "GET /api/v2/version",
            "GET /api/v1/version",
            "PATCH /api/v1/dags/events_daily/dagRuns/r",
            "GET /api/v1/dags?limit=1",
        ]
    );
    std::fs::write(path, "hunter2-password").unwrap();
    assert!(airflow.dags().await.is_ok());
}

#[tokio::test]
async fn a_missing_permission_is_told_from_a_wrong_password() {
    let server = server().await;
    let dir = tempfile::tempdir().unwrap();
    let (password, _) = secret(&dir, "password", "hunter2-password");
    let user = "admin".to_owned();
    let (airflow, _) = connect(&server, Auth::Basic { user, password });
    for _ in 0..3 {
        let error = airflow
            .mark_run("events_daily", "r", Mark::Failed)
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind, error.error.detail.as_str()),
            (Kind::Forbidden, "403: Forbidden")
        );
        assert!(airflow.dags().await.is_ok(), "reading goes on");
    }
}
