//! Every recorded answer of both versions is understood.

use crate::airflow_support::*;
use backfill::executor::airflow::{
    Connection, Kind, Mark, Rerun, RunQuery, TaskPlace,
    wire::{
        Api, Backfill, HealthStatus, Reprocess, Run, RunKind, RunState, TaskInstance, TaskState, TriggeredBy,
    },
};
use wiremock::MockServer;

async fn three(name: &'static str) -> (MockServer, Connection) {
    let server = airflow3(move |_| Some(recorded(200, name))).await;
    let airflow = open(&server);
    (server, airflow)
}

async fn two(name: &'static str) -> (MockServer, Connection) {
    let server = airflow2(move |_| Some(recorded(200, name))).await;
    let airflow = open(&server);
    (server, airflow)
}

const PLACE: TaskPlace<'static> = TaskPlace {
    dag: "events_daily",
    run: "conductor__2021-03-14",
    task: "load",
    map_index: None,
};

#[tokio::test]
async fn the_version_is_found_at_both() {
    let (_server, airflow) = three("v2_dag.json").await;
    let version = airflow.version().await.unwrap();
    assert_eq!(
        (version.text.as_str(), version.api, version.number),
        ("3.3.2", Api::V2, (3, 3))
    );
    assert!(version.is_at_least(3, 3) && !version.is_at_least(3, 4));
    let (_server, airflow) = two("v1_dag.json").await;
    let version = airflow.version().await.unwrap();
    assert_eq!(
        (version.text.as_str(), version.api, version.number),
        ("2.11.2", Api::V1, (2, 11))
    );
}

#[tokio::test]
async fn the_version_is_asked_for_once_and_again_after_an_upgrade() {
    let upgraded = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = std::sync::Arc::clone(&upgraded);
    let server = serve(move |request| {
        let new = flag.load(std::sync::atomic::Ordering::SeqCst);
        match (new, request.url.path()) {
            (false, "/api/v1/version") => recorded(200, "v1_version.json"),
            (false, "/api/v1/dags/events_daily") => recorded(200, "v1_dag.json"),
            (false, _) => html(404, "Airflow 404 = lots of circles"),
            (true, "/api/v2/version") => recorded(200, "v2_version.json"),
            (true, "/api/v2/dags/events_daily") => recorded(200, "v2_dag.json"),
            (true, _) => recorded(404, "v2_error_404_v1_route.json"),
        }
    })
    .await;
    let airflow = open(&server);
    airflow.dag("events_daily").await.unwrap();
    airflow.dag("events_daily").await.unwrap();
    assert_eq!(asked(&server).await.len(), 4);
    upgraded.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(
        airflow.dag("events_daily").await.unwrap_err().kind,
        Kind::WrongPlace
    );
    airflow.dag("events_daily").await.unwrap();
    assert_eq!(airflow.version().await.unwrap().api, Api::V2);
}

#[tokio::test]
async fn a_url_without_its_path_prefix_is_told_from_a_server_that_is_down() {
    let server = serve(|_| html(200, "Portal")).await;
    let error = open(&server).version().await.unwrap_err();
    assert_eq!(error.kind, Kind::WrongPlace);
    assert!(
        error
            .error
            .detail
            .contains("is the path prefix of the url right?"),
        "{error}"
    );
    assert!(error.error.detail.contains("Portal"), "{error}");
    let server = serve(|_| html(503, "Starting")).await;
    assert_eq!(open(&server).version().await.unwrap_err().kind, Kind::Server);
    assert_eq!(asked(&server).await, ["GET /api/v2/version"]);
}

#[tokio::test]
async fn health_is_read_also_when_the_scheduler_is_dead_and_a_part_was_never_there() {
    let (_server, airflow) = three("v2_health.json").await;
    let health = airflow.health().await.unwrap();
    assert_eq!(health.scheduler.status, HealthStatus::Healthy);
    assert_eq!(
        health.triggerer.heartbeat,
        Some(at("2026-11-29T16:33:52.516973Z"))
    );
    let (_server, airflow) = three("v2_health_scheduler_dead.json").await;
    let health = airflow.health().await.unwrap();
    assert_eq!(health.scheduler.status, HealthStatus::Unhealthy);
    assert_eq!(
        health.scheduler.heartbeat,
        Some(at("2026-11-29T16:41:29.303872Z"))
    );
    let (server, airflow) = two("v1_health.json").await;
    let health = airflow.health().await.unwrap();
    assert_eq!(health.triggerer.status, HealthStatus::Unknown);
    assert_eq!(health.database.status, HealthStatus::Healthy);
    assert_eq!(line(&last(&server).await), "GET /api/v1/health");
}

#[tokio::test]
async fn dags_of_both_versions_have_the_same_form() {
    let (_server, airflow) = three("v2_dag.json").await;
    let new = airflow.dag("events_daily").await.unwrap();
    let (_server, airflow) = two("v1_dag.json").await;
    let old = airflow.dag("events_daily").await.unwrap();
    for dag in [&new, &old] {
        assert_eq!(
            (dag.id.as_str(), dag.paused, dag.stale),
            ("events_daily", false, false)
        );
        assert_eq!((dag.max_active_runs, dag.max_active_tasks), (Some(10), Some(16)));
        assert_eq!(dag.tags, ["backfill-test"]);
    }
    assert_eq!(
        (new.schedule.as_deref(), new.backfillable),
        (Some("0 0 * * *"), Some(true))
    );
    assert_eq!(
        (old.schedule.as_deref(), old.backfillable),
        (Some("@daily"), None)
    );
    assert_eq!(old.next_date, Some(at("2026-11-29T00:00:00Z")));
    let (_server, airflow) = three("v2_dags.json").await;
    assert_eq!(airflow.dags().await.unwrap().rows.len(), 2);
    let (_server, airflow) = two("v1_dags.json").await;
    assert_eq!(airflow.dags().await.unwrap().total, 6);
    let (_server, airflow) = three("v2_dag_details.json").await;
    let details = airflow.dag_details("events_daily").await.unwrap();
    assert_eq!((details.catchup, details.active_runs), (Some(false), Some(0)));
    assert_eq!(details.start_date, Some(at("2021-01-01T00:00:00Z")));
    let (_server, airflow) = two("v1_dag_details.json").await;
    let details = airflow.dag_details("events_daily").await.unwrap();
    assert_eq!(
        (details.dag.id.as_str(), details.active_runs),
        ("events_daily", None)
    );
    assert_eq!(details.start_date, Some(at("2021-01-01T00:00:00Z")));
}

fn run(name: &str) -> Run {
    serde_json::from_value(json_of(name)).unwrap()
}

#[test]
fn a_run_of_3_x_has_all_that_it_says() {
    let full = run("v2_dag_run_trigger_full.json");
    assert_eq!(
        full.interval,
        Some((at("2021-02-04T00:00:00Z"), at("2021-02-05T00:00:00Z")))
    );
    assert_eq!(full.queued_at, Some(at("2026-11-29T16:34:18.817880Z")));
    assert_eq!((&full.kind, &full.state), (&RunKind::Manual, &RunState::Queued));
    assert_eq!(
        (full.triggered_by, full.user.as_deref()),
        (Some(TriggeredBy::RestApi), Some("admin"))
    );
    let noted = run("v2_dag_run_trigger.json");
    assert_eq!(noted.note.as_deref(), Some("first"));
    assert_eq!(noted.conf, Some(serde_json::json!({"sleep": 1, "by": "me"})));
    let undated = run("v2_dag_run_trigger_null_logical_date.json");
    assert_eq!((undated.logical_date, undated.interval), (None, None));
    assert!(undated.id.contains('+') && undated.run_after.is_some());
    let failed = run("v2_patch_dag_run_failed.json");
    assert!(!failed.was_never_begun() && failed.ended.is_some());
    let cancelled = run("v2_dag_run_cancelled_backfill_day.json");
    assert!(cancelled.was_never_begun() && cancelled.kind == RunKind::Backfill);
    assert_eq!(run("v2_clear_dag_run.json").state, RunState::Queued);
}

#[test]
fn a_run_of_2_x_has_its_date_by_either_name() {
    let old = run("v1_dag_run_trigger.json");
    assert_eq!(old.logical_date, Some(at("2021-02-01T00:00:00Z")));
    assert_eq!(
        old.interval,
        Some((at("2021-01-31T00:00:00Z"), at("2021-02-01T00:00:00Z")))
    );
    assert_eq!((old.queued_at, old.triggered_by), (None, None));
    assert_eq!(run("v1_patch_dag_run_failed.json").state, RunState::Failed);
    let trimmed: Run =
        serde_json::from_value(json_of("v1_dag_runs_fields.json")["dag_runs"][0].clone()).unwrap();
    assert_eq!(trimmed.logical_date, Some(at("2026-11-28T00:00:00Z")));
    // What a POST echoes has the offset that it was given.
    let echo: Run = serde_json::from_value(serde_json::json!({
        "dag_run_id": "x", "dag_id": "y", "state": "queued", "logical_date": "2021-03-12T00:00:00-05:00",
    }))
    .unwrap();
    assert_eq!(echo.logical_date, Some(at("2021-03-12T05:00:00Z")));
}

#[tokio::test]
async fn pages_of_runs_of_both_versions_are_read() {
    for (name, rows, total) in [
        ("v2_dag_runs.json", 2, 106),
        ("v2_dag_runs_cursor.json", 2, 106),
        ("v2_dag_runs_empty.json", 0, 13),
        ("v2_dag_runs_partitioned.json", 1, 3),
    ] {
        let document = json_of(name);
        let (_server, airflow) = three(name).await;
        let listing = airflow.runs(&RunQuery::of("~")).await.unwrap();
        assert_eq!(listing.rows.len(), rows, "{name}");
        assert_eq!(
            Some(listing.total),
            document["total_entries"].as_u64().or(Some(total)),
            "{name}"
        );
        assert!(listing.torn, "{name} claims more rows than it gives");
    }
    let (_server, airflow) = three("v2_dag_runs_partitioned.json").await;
    let run = airflow
        .runs(&RunQuery::of("partitioned_daily"))
        .await
        .unwrap()
        .rows
        .remove(0);
    assert_eq!(
        (run.logical_date, run.partition_key.as_deref()),
        (None, Some("2021-03-12"))
    );
    assert_eq!(run.partition_date, Some(at("2021-03-12T00:00:00Z")));
    for name in ["v1_dag_runs.json", "v1_dag_runs_fields.json"] {
        let (_server, airflow) = two(name).await;
        assert_eq!(
            airflow.runs(&RunQuery::of("events_daily")).await.unwrap().total,
            9
        );
    }
}

#[tokio::test]
async fn tasks_their_tries_and_map_indexes_are_read_from_both() {
    let (_server, airflow) = three("v2_task_instances_failed.json").await;
    let tasks = airflow.tasks("events_daily", "r").await.unwrap().rows;
    assert_eq!(tasks[0].state, Some(TaskState::Failed));
    assert_eq!(
        (tasks[1].state.clone(), tasks[1].try_number),
        (Some(TaskState::UpstreamFailed), 0)
    );
    let (_server, airflow) = three("v2_task_instances_after_clear.json").await;
    for task in airflow.tasks("events_daily", "r").await.unwrap().rows {
        assert_eq!(task.state, Some(TaskState::None));
        assert!(
            task.started.is_some() && task.span().is_none(),
            "the times are of the try before"
        );
    }
    let (_server, airflow) = three("v2_task_instances_mapped.json").await;
    let mapped = airflow.tasks("mapped_daily", "~").await.unwrap().rows;
    let indexes: Vec<_> = mapped.iter().map(|t| (t.task.as_str(), t.map_index)).collect();
    assert!(
        indexes.contains(&("shards", None)) && indexes.contains(&("load_shard", Some(0))),
        "{indexes:?}"
    );
    let (_server, airflow) = three("v2_task_instance_tries.json").await;
    let tries = airflow.tries(PLACE).await.unwrap();
    assert_eq!(tries.iter().map(|t| t.try_number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(
        tries[1].span(),
        Some((
            at("2026-11-29T16:33:51.974156Z"),
            Some(at("2026-11-29T16:33:52.251711Z"))
        ))
    );
    let (_server, airflow) = two("v1_task_instances.json").await;
    assert_eq!(airflow.tasks("events_daily", "r").await.unwrap().rows.len(), 2);
    let (_server, airflow) = two("v1_task_instances_mapped.json").await;
    let mapped = airflow.tasks("mapped_daily", "~").await.unwrap().rows;
    assert!(mapped.iter().any(|t| t.map_index == Some(2)));
    let one: TaskInstance = serde_json::from_value(json_of("v1_task_instance.json")).unwrap();
    assert_eq!((one.host.as_deref(), one.pid), (Some("worker-1"), Some(7689)));
    let marked = json_of("v2_patch_task_instance.json")["task_instances"][0].clone();
    let marked: TaskInstance = serde_json::from_value(marked).unwrap();
    assert_eq!(marked.note.as_deref(), Some("by hand"));
}

#[tokio::test]
async fn the_preview_of_a_clear_has_the_tasks_of_both() {
    let (_server, airflow) = three("v2_clear_dag_run_dry.json").await;
    let tasks = airflow.preview_clear("d", "r", Rerun::Whole).await.unwrap();
    assert_eq!(tasks[0].state, Some(TaskState::Failed));
    let (_server, airflow) = three("v2_clear_task_instances_dry.json").await;
    assert!(
        !airflow
            .preview_clear("d", "r", Rerun::OnlyFailed)
            .await
            .unwrap()
            .is_empty()
    );
    for name in ["v1_clear_dag_run_dry.json", "v1_clear_task_instances_dry.json"] {
        let (_server, airflow) = two(name).await;
        let tasks = airflow.preview_clear("d", "r", Rerun::OnlyFailed).await.unwrap();
        assert_eq!(
            (tasks.len(), &tasks[0].state),
            (2, &None),
            "2.x does not tell the states"
        );
    }
}

#[tokio::test]
async fn pools_are_read_from_both_and_one_without_limit_is_known() {
    let (_server, airflow) = three("v2_pools.json").await;
    let pools = airflow.pools().await.unwrap().rows;
    assert_eq!(
        (pools[1].name.as_str(), pools[1].slots, pools[1].open),
        ("backfill_pool", 8, Some(8))
    );
    let (_server, airflow) = three("v2_pool_unlimited.json").await;
    let pool = airflow.pool("backfill_pool").await.unwrap();
    assert!(pool.is_unlimited() && pool.open == Some(-1));
    for (name, slots, open) in [("v2_pool_slots_zero.json", 0, -3), ("v2_pool_patch.json", 5, 3)] {
        let (_server, airflow) = three(name).await;
        let changed = airflow.set_pool_slots(&pool, slots).await.unwrap();
        assert_eq!((changed.slots, changed.open), (slots, Some(open)));
    }
    let (_server, airflow) = two("v1_pools.json").await;
    assert_eq!(airflow.pools().await.unwrap().rows.len(), 2);
    let (_server, airflow) = two("v1_pool_patch.json").await;
    assert_eq!(airflow.set_pool_slots(&pool, 5).await.unwrap().slots, 5);
}

fn backfill(name: &str) -> Backfill {
    serde_json::from_value(json_of(name)).unwrap()
}

#[tokio::test]
async fn native_backfills_are_told_apart_by_what_became_of_them() {
    let created = backfill("v2_backfill_create.json");
    assert!(created.is_unfinished() && !created.paused && !created.is_cancelled());
    assert_eq!(
        (created.max_active_runs, &created.reprocess),
        (Some(3), &Reprocess::None)
    );
    let paused = backfill("v2_backfill_paused.json");
    assert!(paused.is_unfinished() && paused.paused && !paused.is_cancelled());
    let cancelled = backfill("v2_backfill_cancelled.json");
    assert!(!cancelled.is_unfinished() && cancelled.is_cancelled());
    let (_server, airflow) = three("v2_backfills.json").await;
    let all = airflow.backfills("events_daily").await.unwrap().rows;
    assert_eq!(all.iter().map(|b| b.id).collect::<Vec<_>>(), [4, 3]);
    assert_eq!(all[1].reprocess, Reprocess::Failed);
}

#[tokio::test]
async fn counts_and_broken_files_are_read_from_both() {
    let (_server, airflow) = three("v2_dag_stats.json").await;
    let stats = airflow
        .dag_stats(&["events_daily", "pooled_daily"])
        .await
        .unwrap();
    assert_eq!((stats[0].count(&RunState::Failed), stats[0].total()), (75, 106));
    assert_eq!(stats[1].counts().count(), 4);
    let (_server, airflow) = two("v1_dag_stats.json").await;
    let stats = airflow.dag_stats(&["events_daily"]).await.unwrap();
    assert_eq!(stats[0].count(&RunState::Queued), 1);
    let (_server, airflow) = three("v2_import_errors.json").await;
    let errors = airflow.import_errors().await.unwrap().rows;
    assert_eq!(errors[0].filename.as_deref(), Some("broken.py"));
    assert_eq!(
        errors[0].reason(),
        "ModuleNotFoundError: No module named 'nosuchmodule'"
    );
    let (_server, airflow) = two("v1_import_errors.json").await;
    assert_eq!(airflow.import_errors().await.unwrap().rows, []);
}

#[tokio::test]
async fn logs_of_both_are_lines() {
    let (_server, airflow) = three("v2_log.json").await;
    let page = airflow.log(PLACE, 1, None).await.unwrap();
    assert_eq!((page.lines.len(), page.next, page.whole), (4, None, false));
    assert_eq!(page.lines[3].text, "::group::Pre Execute");
    assert_eq!(page.lines[3].level.as_deref(), Some("info"));
    assert_eq!(page.lines[3].at, Some(at("2026-11-29T17:08:44.894048Z")));
    let (_server, airflow) = three("v2_log_upstream_failed.json").await;
    let page = airflow.log(PLACE, 0, None).await.unwrap();
    assert_eq!(
        page.lines[2].text,
        "Task did not run because upstream task(s) failed."
    );
    let text = sample("v1_log.txt");
    let server = airflow2(move |_| Some(wiremock::ResponseTemplate::new(200).set_body_string(&text))).await;
    let page = open(&server).log(PLACE, 1, None).await.unwrap();
    assert!(page.whole && page.next.is_none());
    assert!(
        page.lines
            .iter()
            .any(|l| l.text.ends_with("Command exited with return code 137"))
    );
    let request = last(&server).await;
    assert_eq!(header(&request, "accept"), Some("text/plain"));
    assert_eq!(parameter(&request, "full_content").as_deref(), Some("true"));
}

#[tokio::test]
async fn a_mark_answers_with_the_run_of_both() {
    let (_server, airflow) = three("v2_patch_dag_run_failed.json").await;
    assert_eq!(
        airflow.mark_run("d", "long1", Mark::Failed).await.unwrap().state,
        RunState::Failed
    );
    let (_server, airflow) = two("v1_patch_dag_run_failed.json").await;
    assert_eq!(
        airflow.mark_run("d", "long1", Mark::Failed).await.unwrap().state,
        RunState::Failed
    );
}
