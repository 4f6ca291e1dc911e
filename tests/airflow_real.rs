//! The calls against a real Airflow of either version.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod airflow_servers;
mod airflow_support;

use airflow_servers::{Airflow, three, two};
use airflow_support::at;
use backfill::{
    config::secret::SecretSource,
    domain::Time,
    executor::airflow::{
        Auth, BackfillOrder, Connection, ConnectionSettings, Kind, Mark, Rerun, RunQuery, TaskPlace, Trigger,
        Window,
        wire::{Api, HealthStatus, Reprocess, RunKind, RunState, TaskState},
    },
    net::Surroundings,
};
use std::{num::NonZeroU32, time::Duration};

const DAG: &str = "events_daily";

/// Each of these is a test on Airflow 3 and one on Airflow 2.
macro_rules! on_both {
    ($($name:ident)*) => {
        mod airflow_3 {
            $(#[tokio::test] async fn $name() { super::$name(super::three()).await; })*
        }
        mod airflow_2 {
            $(#[tokio::test] async fn $name() { super::$name(super::two()).await; })*
        }
    };
}

on_both! {
    the_server_is_known_and_its_dags_are_listed
    a_run_is_made_once_found_again_fails_for_its_reason_is_cleared_marked_and_deleted
    the_slots_of_both_kinds_of_pool_are_set_and_set_back
    a_native_backfill_has_as_many_days_as_its_preview_or_2_x_says_that_it_cannot
    a_missing_permission_and_a_wrong_password_are_told_apart
}

/// As one of the users `admin` and `viewer`, whose passwords are their names.
fn connect(server: &Airflow, user: &str, password: &str) -> Connection {
    let file = tempfile::NamedTempFile::new()
        .unwrap()
        .into_temp_path()
        .keep()
        .unwrap();
    std::fs::write(&file, password).unwrap();
    Connection::new(ConnectionSettings {
        auth: Auth::Password {
            user: user.into(),
            password: SecretSource::File(file),
        },
        surroundings: Surroundings::default(),
        request_budget: 100_000,
        ..ConnectionSettings::new("real", &server.url)
    })
    .unwrap()
}

fn admin(server: &Airflow) -> Connection {
    connect(server, "admin", "admin")
}

fn day(n: u32) -> Time {
    at(&format!("2022-05-{n:02}T00:00:00Z"))
}

/// An id with what a path must not take literally.
fn id(n: u32) -> String {
    format!("wire+{n}__x:y")
}

fn order(n: u32, conf: serde_json::Value) -> Trigger {
    Trigger {
        dag: DAG.into(),
        run: id(n),
        logical_date: Some(day(n)),
        interval: Some((day(n), day(n + 1))),
        conf: conf.as_object().unwrap().clone(),
        note: Some("first".into()),
        partition_key: None,
    }
}

/// Ends and deletes a run, if there is one.
async fn remove(airflow: &Connection, n: u32) {
    while airflow.run(DAG, &id(n)).await.unwrap().is_some() {
        let _ = airflow.mark_run(DAG, &id(n), Mark::Failed).await;
        if airflow.delete_run(DAG, &id(n)).await.is_err() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

async fn until_over(airflow: &Connection, n: u32) -> RunState {
    for _ in 0..240 {
        let state = airflow.run(DAG, &id(n)).await.unwrap().unwrap().state;
        if matches!(state, RunState::Success | RunState::Failed) {
            return state;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("run {n} does not end");
}

async fn the_server_is_known_and_its_dags_are_listed(server: &Airflow) {
    let airflow = admin(server);
    let version = airflow.version().await.unwrap();
    assert_eq!(version.api == Api::V2, version.is_at_least(3, 0));
    assert_eq!(
        airflow.health().await.unwrap().scheduler.status,
        HealthStatus::Healthy
    );
    let dags = airflow.dags().await.unwrap();
    assert!(dags.rows.iter().any(|d| d.id == DAG) && !dags.torn && dags.as_of.is_some());
    let details = airflow.dag_details(DAG).await.unwrap();
    assert_eq!(details.start_date, Some(at("2021-01-01T00:00:00Z")));
    assert_eq!(airflow.dag("nope").await.unwrap_err().kind, Kind::Absent);
    assert_eq!(airflow.import_errors().await.unwrap().rows, []);
}

async fn a_run_is_made_once_found_again_fails_for_its_reason_is_cleared_marked_and_deleted(server: &Airflow) {
    let airflow = admin(server);
    let (good, bad) = (1, 2);
    for n in [good, bad] {
        remove(&airflow, n).await;
    }
    airflow
        .trigger(&order(good, serde_json::json!({"sleep": 1})))
        .await
        .unwrap();
    let made = airflow
        .trigger(&order(bad, serde_json::json!({"exit": 3})))
        .await
        .unwrap();
    assert_eq!(made.interval, Some((day(bad), day(bad + 1))));
    let twice = airflow
        .trigger(&order(bad, serde_json::json!({})))
        .await
        .unwrap_err();
    assert_eq!((twice.kind, twice.may_have_happened()), (Kind::Conflict, false));
    let found = airflow.runs_on(DAG, day(bad)).await.unwrap();
    assert_eq!(found.iter().map(|r| r.id.as_str()).collect::<Vec<_>>(), [id(bad)]);
    assert_eq!(until_over(&airflow, good).await, RunState::Success);
    assert_eq!(until_over(&airflow, bad).await, RunState::Failed);

    let failed = RunQuery {
        window: Some(Window::Logical {
            from: day(good),
            to: day(bad),
        }),
        states: vec![RunState::Failed],
        kinds: vec![RunKind::Manual],
        ..RunQuery::of(DAG)
    };
    let failed = airflow.runs(&failed).await.unwrap();
    assert_eq!((failed.rows.len(), failed.rows[0].id.clone()), (1, id(bad)));
    let tasks = airflow.tasks(DAG, &id(bad)).await.unwrap().rows;
    let state = |name: &str| {
        tasks
            .iter()
            .find(|t| t.task == name)
            .and_then(|t| t.state.clone())
    };
    assert_eq!(state("load"), Some(TaskState::Failed));
    assert_eq!(state("publish"), Some(TaskState::UpstreamFailed));
    let run = id(bad);
    let place = TaskPlace {
        dag: DAG,
        run: &run,
        task: "load",
        map_index: None,
    };
    assert_eq!(airflow.tries(place).await.unwrap().len(), 1);
    let log = airflow.log(place, 1, None).await.unwrap();
    assert!(
        log.lines
            .iter()
            .any(|l| l.text.contains("Command exited with return code 3"))
    );

    assert_eq!(
        airflow
            .preview_clear(DAG, &run, Rerun::OnlyFailed)
            .await
            .unwrap()
            .len(),
        2
    );
    let before = failed.as_of.unwrap();
    let cleared = airflow.clear(DAG, &run, Rerun::OnlyFailed).await.unwrap();
    // On 2.x the run is read again after the clear, and the scheduler may have started it by then:
    // what stays true is that its old start is gone.
    let old = &failed.rows[0];
    assert!(
        old.started.is_some() && cleared.started != old.started,
        "{old:?}, then {cleared:?}"
    );
    let changed = airflow.changed_runs(DAG, before).await.unwrap().rows;
    assert!(changed.iter().any(|r| r.id == run), "{changed:?}");
    assert_eq!(
        airflow.mark_run(DAG, &run, Mark::Failed).await.unwrap().state,
        RunState::Failed
    );
    assert_eq!(
        airflow
            .note_run(DAG, &run, "why + how")
            .await
            .unwrap()
            .note
            .as_deref(),
        Some("why + how")
    );
    for n in [good, bad] {
        remove(&airflow, n).await;
        assert_eq!(airflow.delete_run(DAG, &id(n)).await, Ok(false));
    }
}

async fn the_slots_of_both_kinds_of_pool_are_set_and_set_back(server: &Airflow) {
    let airflow = admin(server);
    for name in ["backfill_pool", "default_pool"] {
        let before = airflow.pool(name).await.unwrap();
        let changed = airflow.set_pool_slots(&before, before.slots + 3).await.unwrap();
        assert_eq!(changed.slots, before.slots + 3);
        let after = airflow.set_pool_slots(&before, before.slots).await.unwrap();
        assert_eq!(
            (after.slots, after.include_deferred),
            (before.slots, before.include_deferred)
        );
        assert_eq!(after.description, before.description);
    }
}

async fn a_native_backfill_has_as_many_days_as_its_preview_or_2_x_says_that_it_cannot(server: &Airflow) {
    let airflow = admin(server);
    let order = BackfillOrder {
        dag: "newyork_daily".into(),
        from: at("2022-06-01T04:00:00Z"),
        to: at("2022-06-05T04:00:00Z"),
        max_active_runs: NonZeroU32::MIN,
        newest_first: true,
        reprocess: Reprocess::Completed,
        conf: None,
    };
    if airflow.version().await.unwrap().api == Api::V1 {
        assert_eq!(
            airflow.preview_backfill(&order).await.unwrap_err().kind,
            Kind::Unsupported
        );
        return;
    }
    let days = airflow.preview_backfill(&order).await.unwrap();
    assert_eq!(days.len(), 5);
    let made = airflow.create_backfill(&order).await.unwrap();
    let runs = RunQuery {
        window: Some(Window::Logical {
            from: order.from,
            to: order.to,
        }),
        kinds: vec![RunKind::Backfill],
        ..RunQuery::of(&order.dag)
    };
    assert_eq!(airflow.count_runs(&runs).await.unwrap(), 5);
    assert!(airflow.pause_backfill(made.id).await.unwrap().paused);
    assert!(!airflow.unpause_backfill(made.id).await.unwrap().paused);
    assert_eq!(
        airflow.create_backfill(&order).await.unwrap_err().kind,
        Kind::Conflict
    );
    assert!(airflow.cancel_backfill(made.id).await.unwrap().is_cancelled());
    assert_eq!(
        airflow.unpause_backfill(made.id).await.unwrap_err().kind,
        Kind::Conflict
    );
    assert_eq!(airflow.backfills(&order.dag).await.unwrap().rows[0].id, made.id);
}

async fn a_missing_permission_and_a_wrong_password_are_told_apart(server: &Airflow) {
    let viewer = connect(server, "viewer", "viewer");
    assert_eq!(
        viewer.pause_dag("ondemand", true).await.unwrap_err().kind,
        Kind::Forbidden
    );
    assert!(viewer.dags().await.is_ok());
    let wrong = connect(server, "admin", "wrong-password");
    assert_eq!(wrong.dags().await.unwrap_err().kind, Kind::LoggedOut);
    let sent = wrong.usage().requests;
    assert_eq!(wrong.dags().await.unwrap_err().kind, Kind::LoggedOut);
    assert_eq!(wrong.usage().requests, sent);
}
