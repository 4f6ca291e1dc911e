//! What exactly is sent, to each version, and what neither can be asked for.

use crate::airflow_support::*;
use backfill::executor::airflow::{
    BackfillOrder, CallError, Connection, Kind, Mark, Rerun, TaskPlace, Trigger,
    wire::{Pool, Reprocess, RunState, TaskState},
};
use serde_json::json;
use std::num::NonZeroU32;
use wiremock::{MockServer, ResponseTemplate};

const RUN: &str = "scheduled__2026-11-29T00:00:00+00:00";
const RUN_PATH: &str = "scheduled__2026-11-29T00%3A00%3A00%2B00%3A00";

async fn three(status: u16, name: &'static str) -> (MockServer, Connection) {
    let server = airflow3(move |_| Some(recorded(status, name))).await;
    let airflow = open(&server);
    (server, airflow)
}

async fn two(status: u16, name: &'static str) -> (MockServer, Connection) {
    let server = airflow2(move |_| Some(recorded(status, name))).await;
    let airflow = open(&server);
    (server, airflow)
}

fn trigger() -> Trigger {
    Trigger {
        dag: "events_daily".into(),
        run: "bf__2021-02-04".into(),
        logical_date: Some(at("2021-02-04T05:00:00Z")),
        interval: Some((at("2021-02-04T05:00:00Z"), at("2021-02-05T05:00:00Z"))),
        conf: [("force".to_owned(), json!(true))].into_iter().collect(),
        note: None,
        partition_key: None,
    }
}

#[tokio::test]
async fn a_day_is_triggered_with_our_id_its_date_and_both_ends_of_its_interval() {
    let wanted = json!({
        "dag_run_id": "bf__2021-02-04", "logical_date": "2021-02-04T05:00:00Z",
        "data_interval_start": "2021-02-04T05:00:00Z", "data_interval_end": "2021-02-05T05:00:00Z",
        "conf": {"force": true},
    });
    let (server, airflow) = three(200, "v2_dag_run_trigger.json").await;
    assert_eq!(airflow.trigger(&trigger()).await.unwrap().state, RunState::Queued);
    let request = last(&server).await;
    assert_eq!(line(&request), "POST /api/v2/dags/events_daily/dagRuns");
    assert_eq!(body_of(&request), wanted);
    let (server, airflow) = two(200, "v1_dag_run_trigger.json").await;
    airflow.trigger(&trigger()).await.unwrap();
    assert_eq!(body_of(&last(&server).await), wanted);
}

#[tokio::test]
async fn a_run_without_a_date_or_of_a_partition_is_for_3_x_only() {
    let undated = Trigger {
        logical_date: None,
        interval: None,
        partition_key: Some("2021-04-01".into()),
        note: Some("by hand".into()),
        ..trigger()
    };
    let (server, airflow) = three(200, "v2_dag_run_trigger_null_logical_date.json").await;
    airflow.trigger(&undated).await.unwrap();
    assert_eq!(
        body_of(&last(&server).await),
        json!({"dag_run_id": "bf__2021-02-04", "logical_date": null, "conf": {"force": true},
               "note": "by hand", "partition_key": "2021-04-01"})
    );
    let (server, airflow) = two(200, "v1_dag_run_trigger.json").await;
    let dated = Trigger {
        partition_key: Some("x".into()),
        ..trigger()
    };
    for order in [undated, dated] {
        assert_eq!(airflow.trigger(&order).await.unwrap_err().kind, Kind::Unsupported);
    }
    assert_eq!(asked(&server).await.len(), 2, "only the version was asked for");
}

#[tokio::test]
async fn a_second_run_of_an_id_or_on_a_date_is_a_conflict_at_both() {
    for name in [
        "v2_error_409_dup_run_id.json",
        "v2_error_409_dup_logical_date.json",
    ] {
        let (_server, airflow) = three(409, name).await;
        let error = airflow.trigger(&trigger()).await.unwrap_err();
        assert_eq!((error.kind, error.may_have_happened()), (Kind::Conflict, false));
    }
    let (_server, airflow) = two(409, "v1_error_409_dup_run_id.json").await;
    assert_eq!(
        airflow.trigger(&trigger()).await.unwrap_err().kind,
        Kind::Conflict
    );
}

#[tokio::test]
async fn a_run_id_with_plus_and_colon_reaches_the_server_whole() {
    let (server, airflow) = three(200, "v2_dag_run_trigger.json").await;
    airflow.run("events_daily", RUN).await.unwrap().unwrap();
    assert_eq!(
        line(&last(&server).await),
        format!("GET /api/v2/dags/events_daily/dagRuns/{RUN_PATH}")
    );
    for dag in ["..", ".", ""] {
        assert_eq!(airflow.dag(dag).await.unwrap_err().kind, Kind::Invalid);
    }
    assert_eq!(asked(&server).await.len(), 2);
}

#[tokio::test]
async fn the_run_on_a_date_is_looked_for_with_both_ends_on_it() {
    let (server, airflow) = three(200, "v2_dag_runs_empty.json").await;
    airflow
        .runs_on("events_daily", at("2021-02-01T00:00:00Z"))
        .await
        .unwrap();
    let request = last(&server).await;
    for name in ["logical_date_gte", "logical_date_lte"] {
        assert_eq!(parameter(&request, name).as_deref(), Some("2021-02-01T00:00:00Z"));
    }
    let (server, airflow) = two(200, "v1_dag_runs.json").await;
    airflow
        .runs_on("events_daily", at("2021-02-01T00:00:00Z"))
        .await
        .unwrap();
    assert!(parameter(&last(&server).await, "execution_date_lte").is_some());
}

#[tokio::test]
async fn a_clear_always_says_whether_it_is_meant() {
    let (server, airflow) = three(200, "v2_clear_dag_run.json").await;
    for (what, only_failed) in [(Rerun::Whole, false), (Rerun::OnlyFailed, true)] {
        let run = airflow.clear("events_daily", RUN, what).await.unwrap();
        assert_eq!((run.state.clone(), run.started), (RunState::Queued, None));
        let request = last(&server).await;
        assert_eq!(
            line(&request),
            format!("POST /api/v2/dags/events_daily/dagRuns/{RUN_PATH}/clear")
        );
        assert_eq!(
            body_of(&request),
            json!({"dry_run": false, "only_failed": only_failed})
        );
    }
    let (server, airflow) = three(200, "v2_clear_dag_run_dry.json").await;
    airflow
        .preview_clear("events_daily", RUN, Rerun::OnlyFailed)
        .await
        .unwrap();
    assert_eq!(
        body_of(&last(&server).await),
        json!({"dry_run": true, "only_failed": true})
    );
}

#[tokio::test]
async fn a_clear_of_failed_tasks_on_2_x_takes_another_way_and_then_reads_the_run() {
    let server = airflow2(|request| {
        Some(match request.method.as_str() {
            "POST" => recorded(200, "v1_clear_task_instances_dry.json"),
            _ => recorded(200, "v1_dag_run_trigger.json"),
        })
    })
    .await;
    let airflow = open(&server);
    assert_eq!(
        airflow
            .clear("events_daily", "r", Rerun::OnlyFailed)
            .await
            .unwrap()
            .state,
        RunState::Queued
    );
    let requests = server.received_requests().await.unwrap();
    assert_eq!(
        line(&requests[2]),
        "POST /api/v1/dags/events_daily/clearTaskInstances"
    );
    assert_eq!(
        body_of(&requests[2]),
        json!({"dry_run": false, "dag_run_id": "r", "only_failed": true, "reset_dag_runs": true})
    );
    assert_eq!(line(&requests[3]), "GET /api/v1/dags/events_daily/dagRuns/r");
    let (server, airflow) = two(200, "v1_dag_run_trigger.json").await;
    airflow.clear("events_daily", "r", Rerun::Whole).await.unwrap();
    assert_eq!(
        body_of(&last(&server).await),
        json!({"dry_run": false}),
        "a further field is refused there"
    );
}

#[tokio::test]
async fn a_clear_whose_result_cannot_be_read_may_have_happened() {
    let server = airflow2(|request| {
        Some(match request.method.as_str() {
            "POST" => recorded(200, "v1_clear_task_instances_dry.json"),
            _ => recorded(404, "v1_error_404_run.json"),
        })
    })
    .await;
    let error = open(&server)
        .clear("events_daily", "r", Rerun::OnlyFailed)
        .await
        .unwrap_err();
    assert!(error.may_have_happened(), "{error}");
}

#[tokio::test]
async fn marks_notes_and_deletes_are_one_call_each() {
    let (server, airflow) = three(200, "v2_patch_dag_run_failed.json").await;
    airflow.mark_run("d", RUN, Mark::Success).await.unwrap();
    let request = last(&server).await;
    assert_eq!(line(&request), format!("PATCH /api/v2/dags/d/dagRuns/{RUN_PATH}"));
    assert_eq!(body_of(&request), json!({"state": "success"}));
    airflow.note_run("d", "r", "why").await.unwrap();
    assert_eq!(
        line(&last(&server).await),
        "PATCH /api/v2/dags/d/dagRuns/r?update_mask=note"
    );
    let (server, airflow) = two(200, "v1_patch_dag_run_failed.json").await;
    airflow.note_run("d", "r", "why").await.unwrap();
    assert_eq!(
        line(&last(&server).await),
        "PATCH /api/v1/dags/d/dagRuns/r/setNote"
    );

    let server = airflow3(|_| Some(ResponseTemplate::new(204))).await;
    assert_eq!(open(&server).delete_run("d", "r").await, Ok(true));
    let (_server, airflow) = three(404, "v2_error_404_run.json").await;
    assert_eq!(airflow.delete_run("d", "r").await, Ok(false));
    let (_server, airflow) = three(409, "v2_error_409_delete_running.json").await;
    assert_eq!(
        airflow.delete_run("d", "r").await.unwrap_err().kind,
        Kind::Conflict
    );
}

#[tokio::test]
async fn the_slots_of_a_pool_are_set_as_each_version_and_the_default_pool_want_it() {
    let (server, airflow) = three(200, "v2_pool_patch.json").await;
    let mut pool: Pool = serde_json::from_value(json_of("v2_pool_unlimited.json")).unwrap();
    airflow.set_pool_slots(&pool, 5).await.unwrap();
    let request = last(&server).await;
    assert_eq!(
        line(&request),
        "PATCH /api/v2/pools/backfill_pool?update_mask=slots"
    );
    assert_eq!(
        body_of(&request),
        json!({"pool": "backfill_pool", "slots": 5, "include_deferred": false})
    );
    pool.name = "default_pool".into();
    airflow.set_pool_slots(&pool, 64).await.unwrap();
    assert_eq!(body_of(&last(&server).await), json!({"slots": 64}));
    pool.name = "night pool/ü".into();
    airflow.set_pool_slots(&pool, 1).await.unwrap();
    assert_eq!(
        line(&last(&server).await),
        "PATCH /api/v2/pools/night%20pool%2F%C3%BC?update_mask=slots"
    );
    let (server, airflow) = two(200, "v1_pool_patch.json").await;
    airflow.set_pool_slots(&pool, 5).await.unwrap();
    assert_eq!(body_of(&last(&server).await), json!({"slots": 5}));
}

fn order() -> BackfillOrder {
    BackfillOrder {
        dag: "events_daily".into(),
        from: at("2021-09-01T00:00:00Z"),
        to: at("2021-10-30T00:00:00Z"),
        max_active_runs: NonZeroU32::new(3).unwrap(),
        newest_first: false,
        reprocess: Reprocess::Failed,
        conf: None,
    }
}

#[tokio::test]
async fn a_native_backfill_is_previewed_and_made_with_the_same_words() {
    let wanted = json!({
        "dag_id": "events_daily", "from_date": "2021-09-01T00:00:00Z", "to_date": "2021-10-30T00:00:00Z",
        "max_active_runs": 3, "run_backwards": false, "reprocess_behavior": "failed",
    });
    let (server, airflow) = three(200, "v2_backfill_dry_run.json").await;
    let days = airflow.preview_backfill(&order()).await.unwrap();
    assert_eq!(
        (days.len(), days[2].logical_date),
        (4, Some(at("2021-03-15T00:00:00Z")))
    );
    let request = last(&server).await;
    assert_eq!(
        (line(&request).as_str(), body_of(&request)),
        ("POST /api/v2/backfills/dry_run", wanted.clone())
    );
    let (_server, airflow) = three(200, "v2_backfill_dry_run_partitioned.json").await;
    let days = airflow.preview_backfill(&order()).await.unwrap();
    assert_eq!(
        (days[0].logical_date, days[0].partition_key.as_deref()),
        (None, Some("2021-03-12"))
    );
    let (server, airflow) = three(200, "v2_backfill_create.json").await;
    assert_eq!(airflow.create_backfill(&order()).await.unwrap().id, 1);
    let request = last(&server).await;
    assert_eq!(
        (line(&request).as_str(), body_of(&request)),
        ("POST /api/v2/backfills", wanted)
    );
    let with_conf = BackfillOrder {
        conf: Some([("k".to_owned(), json!(1))].into_iter().collect()),
        ..order()
    };
    airflow.create_backfill(&with_conf).await.unwrap();
    assert_eq!(body_of(&last(&server).await)["dag_run_conf"], json!({"k": 1}));
}

#[tokio::test]
async fn a_native_backfill_is_steered_by_its_number() {
    let (server, airflow) = three(200, "v2_backfill_paused.json").await;
    airflow.pause_backfill(7).await.unwrap();
    airflow.unpause_backfill(7).await.unwrap();
    airflow.cancel_backfill(7).await.unwrap();
    airflow.backfill(7).await.unwrap();
    assert_eq!(
        asked(&server).await[1..],
        [
            "PUT /api/v2/backfills/7/pause",
            "PUT /api/v2/backfills/7/unpause",
            "PUT /api/v2/backfills/7/cancel",
            "GET /api/v2/backfills/7",
        ]
    );
    let (_server, airflow) = three(409, "v2_error_409_backfill_completed.json").await;
    assert_eq!(
        airflow.unpause_backfill(7).await.unwrap_err().kind,
        Kind::Conflict
    );
    let (server, airflow) = three(200, "v2_backfills.json").await;
    airflow.backfills("events_daily").await.unwrap();
    assert_eq!(
        parameter(&last(&server).await, "dag_id").as_deref(),
        Some("events_daily")
    );
}

#[tokio::test]
async fn what_2_x_does_not_have_is_an_honest_error_and_is_not_sent() {
    let (server, airflow) = two(200, "v1_dag.json").await;
    let errors: Vec<CallError> = vec![
        airflow.backfills("d").await.unwrap_err(),
        airflow.backfill(1).await.unwrap_err(),
        airflow.preview_backfill(&order()).await.unwrap_err(),
        airflow.create_backfill(&order()).await.unwrap_err(),
        airflow.pause_backfill(1).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(
            (error.kind, error.may_have_happened()),
            (Kind::Unsupported, false)
        );
        assert!(
            error
                .error
                .detail
                .starts_with("this Airflow cannot make native backfills; it takes 3.0"),
            "{error}"
        );
    }
    assert_eq!(asked(&server).await.len(), 2);
}

#[tokio::test]
async fn what_really_executes_is_counted_over_all_runs() {
    let (server, airflow) = three(200, "v2_task_instances_mapped.json").await;
    airflow
        .count_tasks("d", &[TaskState::Running, TaskState::None])
        .await
        .unwrap();
    assert_eq!(
        line(&last(&server).await),
        "GET /api/v2/dags/d/dagRuns/~/taskInstances?state=running&state=none&limit=1"
    );
}

#[tokio::test]
async fn stats_of_several_dags_are_asked_for_in_the_form_of_each_version() {
    let (server, airflow) = three(200, "v2_dag_stats.json").await;
    airflow.dag_stats(&["a", "b"]).await.unwrap();
    assert_eq!(
        line(&last(&server).await),
        "GET /api/v2/dagStats?dag_ids=a&dag_ids=b"
    );
    let (server, airflow) = two(200, "v1_dag_stats.json").await;
    airflow.dag_stats(&["a", "b"]).await.unwrap();
    assert_eq!(parameter(&last(&server).await, "dag_ids").as_deref(), Some("a,b"));
}

#[tokio::test]
async fn a_log_is_followed_by_its_token_and_its_lines_are_clean() {
    let server = airflow3(|request| {
        let body = match parameter(request, "token").as_deref() {
            None => json!({
                "content": ["bare line", {"event": "a\u{1b}[31m\nb", "timestamp": "2026-11-29T17:00:00Z", "x": 1}],
                "continuation_token": "abc+/=.def",
            }),
            Some("abc+/=.def") => json!({
                "content": [{"event": {"odd": true}, "level": "error", "error_detail": [
                    {"exc_type": "AirflowException", "exc_value": "exit code\n137", "frames": []}, 7]}],
                "continuation_token": null,
            }),
            Some(other) => panic!("{other}"),
        };
        Some(json(200, body.to_string()))
    })
    .await;
    let airflow = open(&server);
    let place = TaskPlace {
        dag: "mapped_daily",
        run: RUN,
        task: "load_shard",
        map_index: Some(3),
    };
    let first = airflow.log(place, 1, None).await.unwrap();
    let texts: Vec<_> = first.lines.iter().map(|l| l.text.as_str()).collect();
    assert_eq!(texts, ["bare line", "a^[[31m", "b"]);
    let second = airflow.log(place, 1, first.next.as_deref()).await.unwrap();
    let texts: Vec<_> = second.lines.iter().map(|l| l.text.as_str()).collect();
    assert_eq!(texts, ["{\"odd\":true}", "AirflowException: exit code 137"]);
    assert_eq!(second.next, None);
    let path = format!("/api/v2/dags/mapped_daily/dagRuns/{RUN_PATH}/taskInstances/load_shard/logs/1");
    let request = last(&server).await;
    assert_eq!(request.url.path(), path);
    assert_eq!(parameter(&request, "map_index").as_deref(), Some("3"));
}

#[tokio::test]
async fn a_try_of_a_mapped_task_is_found_by_its_index() {
    let (server, airflow) = three(200, "v2_task_instance_tries.json").await;
    let place = TaskPlace {
        dag: "d",
        run: "r",
        task: "t",
        map_index: Some(3),
    };
    airflow.tries(place).await.unwrap();
    assert_eq!(
        last(&server).await.url.path(),
        "/api/v2/dags/d/dagRuns/r/taskInstances/t/3/tries"
    );
}

#[tokio::test]
async fn a_dag_is_paused_and_let_go_on() {
    let (server, airflow) = three(200, "v2_dag.json").await;
    airflow.pause_dag("events_daily", true).await.unwrap();
    let request = last(&server).await;
    assert_eq!(line(&request), "PATCH /api/v2/dags/events_daily");
    assert_eq!(body_of(&request), json!({"is_paused": true}));
}
