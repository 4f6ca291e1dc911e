//! Looking into the DAG runs of both versions: tasks of the right attempt, tries, and logs without their wrapping.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod airflow_support;

use airflow_support::{
    TestClock, airflow2, airflow3, asked, at, html, json, json_of, parameter, recorded, sample, secret,
    settings,
};
use backfill::{
    config::secret::SecretSource,
    domain::ids::ExternalId,
    executor::{
        Executor,
        airflow::{AirflowExecutor, AirflowSetup, Auth},
        inside::{Inside, LogPart, Place, Standing, TaskKey, TaskView},
    },
    net::Cause,
};
use serde_json::{Value, json as object};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc::unbounded_channel;
use wiremock::{MockServer, Request, ResponseTemplate};

const RUN: &str = "events-aaaaaa__2023-03-14";

fn look(server: &MockServer, auth: Auth, budget: u32) -> Arc<dyn Inside> {
    let mut connection = settings(&server.uri(), auth, &TestClock::new());
    connection.request_budget = budget;
    let setup = AirflowSetup {
        connection,
        state: std::env::temp_dir(),
        interval: Duration::from_secs(5),
        dags: Vec::new(),
    };
    let executor = AirflowExecutor::new(setup, unbounded_channel().0).unwrap();
    assert!(executor.capabilities().logs);
    executor.inside().unwrap()
}

fn open(server: &MockServer) -> Arc<dyn Inside> {
    look(server, Auth::None, 10_000)
}

/// The first attempt at the bad day.
fn place() -> Place {
    Place {
        attempt: "events-aaaaaa/2023-03-14/1".parse().unwrap(),
        executor: "airflow-prod".parse().unwrap(),
        dag: Some("events_daily".to_owned()),
        run: None,
        theirs: false,
        intended: at("2026-11-29T16:00:00Z"),
        since: None,
        until: None,
        newest: true,
        open: false,
    }
}

fn key(task: &str, map: Option<u32>) -> TaskKey {
    TaskKey {
        task: task.to_owned(),
        map,
    }
}

fn task<'a>(tasks: &'a [TaskView], name: &str, map: Option<u32>) -> &'a TaskView {
    tasks.iter().find(|t| t.key == key(name, map)).unwrap()
}

fn texts(part: &LogPart) -> Vec<&str> {
    part.lines.iter().map(|l| l.text.as_str()).collect()
}

fn path(request: &Request) -> &str {
    request.url.path()
}

#[tokio::test]
async fn a_mapped_task_has_a_row_for_each_index_in_both_versions() {
    let server = airflow3(|_| Some(recorded(200, "v2_task_instances_mapped.json"))).await;
    let old = airflow2(|_| Some(recorded(200, "v1_task_instances_mapped.json"))).await;
    for inside in [open(&server), open(&old)] {
        let tasks = inside.tasks(&place()).await.unwrap();
        assert_eq!(tasks.len(), 5);
        let third = task(&tasks, "load_shard", Some(2));
        assert_eq!((third.standing, third.word.as_str()), (Standing::Done, "success"));
        assert_eq!((third.try_no, third.tries, third.last_try), (1, 1, 1));
        assert_eq!(third.host.as_deref(), Some("worker-1"));
        assert_eq!(third.label, None, "an index without a name of its own has none");
        assert!(third.started < third.ended);
        assert_eq!(task(&tasks, "shards", None).key.map, None);
    }
    assert!(
        asked(&server)
            .await
            .iter()
            .any(|a| a.contains(&format!("/dags/events_daily/dagRuns/{RUN}/taskInstances")))
    );
}

#[tokio::test]
async fn what_did_not_run_because_another_task_failed_has_no_try() {
    let server = airflow3(|_| Some(recorded(200, "v2_task_instances_failed.json"))).await;
    let old = airflow2(|_| Some(recorded(200, "v1_task_instances.json"))).await;
    for inside in [open(&server), open(&old)] {
        let tasks = inside.tasks(&place()).await.unwrap();
        let publish = task(&tasks, "publish", None);
        assert_eq!((publish.standing, publish.try_no), (Standing::Blocked, 0));
        assert_eq!(publish.word, "upstream failed");
        assert_eq!(publish.started, None, "it never began");
        let load = task(&tasks, "load", None);
        assert_eq!((load.standing, load.try_no), (Standing::Failed, 1));
        let log = inside.log(&place(), &publish.key, 0, None).await.unwrap();
        assert_eq!((log.lines.len(), log.next), (0, None), "nothing is asked for it");
    }
    assert!(!asked(&server).await.iter().any(|a| a.contains("/logs/")));
}

/// After a clear the server still shows the tries of the attempt before.
#[tokio::test]
async fn right_after_a_clear_no_try_is_of_the_new_attempt_and_those_before_can_still_be_read() {
    let server = airflow3(|_| Some(recorded(200, "v2_task_instances_after_clear.json"))).await;
    let second = Place {
        attempt: "events-aaaaaa/2023-03-14/2".parse().unwrap(),
        since: Some(at("2026-11-29T17:08:47Z")),
        open: true,
        ..place()
    };
    let tasks = open(&server).tasks(&second).await.unwrap();
    let load = task(&tasks, "load", None);
    assert_eq!((load.standing, load.word.as_str()), (Standing::Waits, "waiting"));
    assert_eq!((load.try_no, load.last_try, load.started), (0, 1, None));
    // The first attempt of another order took the run over.
    let first = Place {
        intended: at("2026-11-29T17:09:00Z"),
        open: true,
        ..place()
    };
    let tasks = open(&server).tasks(&first).await.unwrap();
    assert_eq!(
        (
            task(&tasks, "load", None).try_no,
            task(&tasks, "load", None).last_try
        ),
        (0, 1)
    );
}

/// The run of a day that is attached to has the server's own name, in which a `#` is a letter like any other.
#[tokio::test]
async fn a_run_of_somebody_else_is_looked_into_by_the_servers_own_name_for_it() {
    let server = airflow3(|request| {
        let asked = path(request).ends_with("/dagRuns/backfill__2023-03-14%231/taskInstances");
        asked.then(|| {
            json(
                200,
                object!({"total_entries": 0, "task_instances": []}).to_string(),
            )
        })
    })
    .await;
    let theirs = Place {
        run: Some(ExternalId("backfill__2023-03-14#1".to_owned())),
        theirs: true,
        ..place()
    };
    assert_eq!(open(&server).tasks(&theirs).await.unwrap(), []);
    let ours = Place {
        theirs: false,
        ..theirs
    };
    assert!(open(&server).tasks(&ours).await.is_err());
}

/// Both tries of the recorded task, as those of two attempts.
#[tokio::test]
async fn an_attempt_before_the_newest_has_the_tries_that_began_in_its_time() {
    let server = airflow3(|request| match path(request) {
        p if p.ends_with("/load/tries") => Some(recorded(200, "v2_task_instance_tries.json")),
        p if p.ends_with("/taskInstances") => {
            let mut newest = json_of("v2_task_instance_tries.json")["task_instances"][1].clone();
            newest["note"] = Value::Null;
            let rows = object!({"total_entries": 1, "task_instances": [newest]});
            Some(json(200, rows.to_string()))
        }
        _ => None,
    })
    .await;
    let inside = open(&server);
    let first = Place {
        until: Some(at("2026-11-29T16:33:47Z")),
        newest: false,
        ..place()
    };
    let tasks = inside.tasks(&first).await.unwrap();
    let load = task(&tasks, "load", None);
    assert_eq!(
        (load.standing, load.try_no, load.last_try),
        (Standing::Failed, 1, 2)
    );
    let second = Place {
        since: first.until,
        ..place()
    };
    let tasks = inside.tasks(&second).await.unwrap();
    let load = task(&tasks, "load", None);
    assert_eq!((load.standing, load.try_no), (Standing::Done, 2));
    let tries = inside.tries(&place(), &key("load", None)).await.unwrap();
    assert_eq!(tries.iter().map(|t| t.no).collect::<Vec<_>>(), [1, 2]);
    assert!(first.owns(tries[0].started) && !first.owns(tries[1].started));
}

#[tokio::test]
async fn a_log_of_3_is_followed_by_its_token_and_its_headers_are_folded_away_across_pieces() {
    let server = airflow3(|request| {
        let event = |text: &str, level: &str| object!({"event": text, "level": level, "timestamp": "2026-11-29T17:00:00Z"});
        let body = match parameter(request, "token").as_deref() {
            None => object!({
                "content": [
                    {"event": "::group::Log message source details"}, {"event": "/opt/a.log"},
                    {"event": "::endgroup::"}, event("::group::Pre Execute", "info"), event("noise", "info"),
                ],
                "continuation_token": "abc+/=.def",
            }),
            Some("abc+/=.def") => object!({
                "content": [
                    event("more noise", "info"), event("::endgroup::", "info"), event("rows 3", "info"),
                    event("no space\u{1b}[2J left", "error"),
                ],
                "continuation_token": null,
            }),
            Some(other) => panic!("{other}"),
        };
        Some(json(200, body.to_string()))
    })
    .await;
    let inside = open(&server);
    let load = key("load", Some(3));
    let first = inside.log(&place(), &load, 1, None).await.unwrap();
    assert_eq!((first.lines.len(), first.ended, first.whole), (0, false, true));
    let second = inside.log(&place(), &load, 1, first.next.as_ref()).await.unwrap();
    assert_eq!(texts(&second), ["rows 3", "no space^[[2J left"]);
    assert_eq!((second.ended, second.whole, &second.next), (true, false, &None));
    assert_eq!(second.lines[1].said(), "ERROR no space^[[2J left");
    assert_eq!(second.lines[0].at, Some(at("2026-11-29T17:00:00Z")));
}

#[tokio::test]
async fn a_log_of_2_comes_whole_and_looks_like_one_of_3() {
    let text = sample("v1_log.txt");
    let server = airflow2(move |_| Some(ResponseTemplate::new(200).set_body_string(&text))).await;
    let part = open(&server)
        .log(&place(), &key("load", None), 1, None)
        .await
        .unwrap();
    assert_eq!((part.whole, part.ended, &part.next), (true, false, &None));
    let texts = texts(&part);
    assert!(
        !texts
            .iter()
            .any(|t| t.contains("::group::") || t.starts_with("***"))
    );
    assert!(
        !texts.iter().any(|t| t.contains("Dependencies all met")),
        "{texts:?}"
    );
    let exited = part
        .lines
        .iter()
        .find(|l| l.text == "Command exited with return code 137");
    assert_eq!(exited.unwrap().at, Some(at("2026-11-29T17:02:42.564Z")));
    let failed = part
        .lines
        .iter()
        .find(|l| l.text == "Task failed with exception")
        .unwrap();
    assert_eq!(failed.said(), "ERROR Task failed with exception");
}

#[tokio::test]
async fn a_try_that_was_never_made_is_no_error_and_a_run_that_is_gone_is_one_in_the_servers_words() {
    let server = airflow3(|request| {
        let words = match path(request).contains("/logs/") {
            true => "TaskInstance not found",
            false => "The DagRun with dag_id: `events_daily` and run_id: `x` was not found",
        };
        Some(json(404, object!({"detail": words}).to_string()))
    })
    .await;
    let inside = open(&server);
    let none = inside.log(&place(), &key("load", None), 7, None).await.unwrap();
    assert_eq!((none.lines.len(), none.ended), (0, false));
    let error = inside.tasks(&place()).await.unwrap_err();
    assert!(error.detail.contains("was not found"), "{error}");
    let nameless = Place { dag: None, ..place() };
    assert_eq!(inside.tasks(&nameless).await.unwrap_err().cause, Cause::Local);
}

/// What stands after the `#` of an attempt's name there is not the server's.
#[tokio::test]
async fn the_run_is_found_by_the_name_that_the_executor_gave_the_attempt() {
    let server = airflow3(|_| Some(recorded(200, "v2_task_instances_mapped.json"))).await;
    let foreign = Place {
        run: Some(ExternalId("scheduled__2023-03-14T00:00:00+00:00#2".to_owned())),
        ..place()
    };
    open(&server).tasks(&foreign).await.unwrap();
    let last = airflow_support::last(&server).await;
    assert!(
        path(&last).contains("/dagRuns/scheduled__2023-03-14T00%3A00%3A00%2B00%3A00/taskInstances"),
        "{}",
        path(&last)
    );
}

#[tokio::test]
async fn after_a_refusal_nothing_is_sent_until_somebody_asks_again() {
    let server = airflow3(|_| Some(recorded(401, "v2_error_401_expired.json"))).await;
    let dir = tempfile::tempdir().unwrap();
    let (source, _): (SecretSource, _) = secret(&dir, "token", "a.b.c");
    let inside = look(&server, Auth::Token(source), 10_000);
    let error = inside.tasks(&place()).await.unwrap_err();
    assert_eq!(error.cause, Cause::Unauthorized);
    assert!(error.detail.contains("Token Expired"), "{error}");
    let sent = asked(&server).await.len();
    let error = inside.tasks(&place()).await.unwrap_err();
    assert!(error.detail.contains("Token Expired"), "{error}");
    assert_eq!(asked(&server).await.len(), sent);
    inside.ask_again().await;
    inside.tasks(&place()).await.unwrap_err();
    assert!(asked(&server).await.len() > sent);
}

#[tokio::test]
async fn a_screen_asks_at_most_every_two_seconds_and_slower_where_the_budget_is_small() {
    let server = airflow3(|_| Some(html(200, "x"))).await;
    assert_eq!(look(&server, Auth::None, 60).pace(), Duration::from_secs(2));
    assert_eq!(look(&server, Auth::None, 600).pace(), Duration::from_secs(2));
    assert_eq!(look(&server, Auth::None, 10).pace(), Duration::from_secs(12));
}
