//! Why nothing moves, what is doubtful, and what may not be asked.

use crate::airflow_support::at;
use crate::world::{Scene, order};
use backfill::domain::attach::RunPhase;
use serde_json::json;

async fn waiting(version: &'static str) -> Scene {
    let scene = Scene::new(version, order("2021-01-01", "2021-12-31", json!({}))).await;
    scene.world().seed("2021-01-01T00:00:00Z", 30);
    scene
        .world()
        .add("b1", "2021-02-01T00:00:00Z", "backfill", "queued");
    scene
}

async fn stuck(scene: &mut Scene) -> String {
    for _ in 0..8 {
        scene.later().await;
    }
    scene.facts().stuck.clone().unwrap_or_default()
}

#[tokio::test]
async fn a_paused_dag_a_dead_scheduler_and_a_broken_file_are_named_where_runs_wait() {
    for version in ["3.3.2", "2.11.2"] {
        let mut scene = waiting(version).await;
        scene.read().await;
        assert_eq!(scene.facts().stuck, None);
        scene.world().details["is_paused"] = json!(true);
        assert_eq!(
            stuck(&mut scene).await,
            "the DAG events_daily is paused: its runs wait, those under way are frozen"
        );
        scene.world().scheduler = "unhealthy";
        assert!(
            stuck(&mut scene)
                .await
                .starts_with("its scheduler is not alive, last heard of at 2026-11-29 16:00:00Z")
        );
        scene.world().scheduler = "healthy";
        scene.world().details["is_paused"] = json!(false);
        scene.world().details["is_stale"] = json!(true);
        scene.world().details["is_active"] = json!(false);
        scene.world().import_errors = vec!["Traceback\n  File\nNameError: name 'x' is not defined"];
        let words = stuck(&mut scene).await;
        assert!(
            words.contains("is gone or cannot be read")
                && words.ends_with("(dags.py: NameError: name 'x' is not defined)"),
            "{words}"
        );
        scene.world().set("b1", "success");
        assert_eq!(stuck(&mut scene).await, "", "nothing waits any more");
    }
}

/// Case B10.
#[tokio::test]
async fn what_is_queued_for_ten_minutes_is_stuck_by_the_servers_clock_and_on_2_x_by_ours() {
    for version in ["3.3.2", "2.11.2"] {
        let mut scene = waiting(version).await;
        scene.read().await;
        for _ in 0..100 {
            scene.later().await;
        }
        assert_eq!(scene.facts().stuck, None);
        for _ in 0..24 {
            scene.later().await;
        }
        let words = scene.facts().stuck.clone().unwrap();
        assert!(
            words.starts_with("1 run is queued, the first for 10 minutes, and none runs"),
            "{words}"
        );
    }
}

/// Airflow's fact 6.
#[tokio::test]
async fn runs_that_are_running_without_a_task_are_told_from_those_with_tasks() {
    let mut scene = waiting("3.3.2").await;
    scene.world().set("b1", "running");
    scene.world().tasks = vec![
        ("events_daily", "running"),
        ("events_daily", "running"),
        ("other", "running"),
    ];
    scene.read().await;
    assert_eq!(scene.facts().executing, Some(2));
    scene.world().tasks.clear();
    let words = loop {
        scene.later().await;
        if let Some(words) = scene.facts().stuck.clone() {
            break words;
        }
        assert!(scene.clock.millis() < 1_000_000 + 300_000);
    };
    assert!(
        words.starts_with("1 run is running by the server's word, but none of their tasks has executed"),
        "{words}"
    );
    assert_eq!(scene.facts().executing, Some(0));
}

#[tokio::test]
async fn the_pool_is_seen_with_those_who_share_it_who_are_asked_for_once_a_minute() {
    let more = json!({"dag": {"id": "events_daily", "pool": "heavy"}});
    let mut scene = Scene::new("3.3.2", order("2021-01-01", "2021-12-31", more)).await;
    let pool = |slots| json!({"name": "heavy", "slots": slots, "running_slots": 2, "scheduled_slots": 5});
    scene.world().pools.insert("heavy".into(), pool(2));
    scene.world().tasks = vec![
        ("events_daily", "running"),
        ("b", "queued"),
        ("a", "scheduled"),
        ("b", "running"),
        ("c", "success"),
    ];
    scene.read().await;
    let seen = scene.facts().pool.clone().unwrap();
    assert_eq!((seen.slots, seen.running, seen.waiting), (2, 2, 5));
    assert_eq!(seen.others, Some(vec![("b".into(), 2), ("a".into(), 1)]));
    scene.world().pools.insert("heavy".into(), pool(-1));
    scene.asked();
    for _ in 0..12 {
        scene.later().await;
    }
    assert_eq!(scene.facts().pool.as_ref().unwrap().slots, -1);
    let asked = scene.asked();
    assert!(asked.iter().filter(|r| r.contains("taskInstances?pool=")).count() <= 1);
    for _ in 0..5 {
        assert_eq!(
            scene.levers().pool("heavy").await.unwrap().others.unwrap().len(),
            3,
            "nobody is *own* here"
        );
    }
    assert!(
        scene
            .asked()
            .iter()
            .filter(|r| r.contains("taskInstances?pool="))
            .count()
            <= 1
    );
    let missing = scene.levers().pool("light").await.unwrap_err();
    assert!(missing.to_string().contains("was not found"), "{missing}");
}

/// Airflow's fact 1.
#[tokio::test]
async fn successes_that_did_nothing_are_noted_and_stay_what_the_server_says() {
    let mut scene = waiting("3.3.2").await;
    scene.world().details["start_date"] = json!("2021-01-05T00:00:00Z");
    scene
        .world()
        .add("early", "2021-01-02T07:00:00Z", "manual", "success");
    scene
        .world()
        .add("quick", "2021-03-02T00:00:00Z", "backfill", "success");
    let row = scene.world().rows.last().unwrap().clone();
    scene.world().rows.last_mut().unwrap().started =
        row.ended.map(|e| e - chrono::TimeDelta::milliseconds(300));
    scene.read().await;
    let of = |day: &str, n: usize| scene.days[&day.parse().unwrap()][n].clone();
    assert_eq!(
        of("2021-01-02", 1).word,
        "success, but before the DAG's start date: no task ran"
    );
    assert_eq!(
        of("2021-03-02", 0).word,
        "success within a second: did a task run?"
    );
    assert_eq!(of("2021-03-02", 0).phase, RunPhase::Done);
    let note = scene.facts().note.clone().unwrap();
    assert!(
        note.starts_with("2 runs succeeded in no time or before the DAG begins"),
        "{note}"
    );
}

/// Airflow's facts 3 and 6.
#[tokio::test]
async fn days_of_a_cancelled_backfill_are_cancelled_and_one_that_was_cleared_waits_for_ever() {
    let mut scene = waiting("3.3.2").await;
    scene.world().native.push(json!({
        "id": 3, "dag_id": "events_daily", "from_date": "2021-02-01T00:00:00Z", "to_date": "2021-02-28T00:00:00Z",
        "is_paused": true, "max_active_runs": 3, "completed_at": "2026-11-29T16:00:00Z",
        "created_at": "2026-11-29T15:00:00Z", "reprocess_behavior": "none",
    }));
    let row = scene
        .world()
        .add("b2", "2021-02-02T00:00:00Z", "backfill", "failed")
        .id
        .clone();
    {
        let mut world = scene.world();
        let row = world.rows.iter_mut().find(|r| r.id == row).unwrap();
        (row.started, row.ended) = (None, None);
    }
    scene.read().await;
    assert_eq!(
        scene.days[&"2021-02-02".parse().unwrap()][0].phase,
        RunPhase::Cancelled
    );
    let words = scene.facts().stuck.clone().unwrap();
    assert!(
        words.starts_with("1 run waits in the name of the cancelled native backfill 3"),
        "{words}"
    );
    assert_eq!(
        scene.facts().native,
        None,
        "it is over, and not what is attached to"
    );
}

#[tokio::test]
async fn an_attached_native_backfill_is_shown_until_a_newer_one_has_a_say_in_its_days() {
    let native = |id: u64, completed: Option<&str>| {
        json!({
            "id": id, "dag_id": "events_daily", "from_date": "2021-02-01T00:00:00Z", "to_date": "2021-02-28T00:00:00Z",
            "is_paused": completed.is_some(), "max_active_runs": id, "completed_at": completed,
            "created_at": "2026-11-29T15:00:00Z",
        })
    };
    let attach = json!({"attach": {"native": 3}});
    let mut scene = Scene::new("3.3.2", order("2021-01-01", "2021-12-31", attach)).await;
    scene
        .world()
        .add("b1", "2021-02-03T00:00:00Z", "backfill", "running");
    scene.world().native.push(native(3, None));
    scene.read().await;
    let seen = scene.facts().native.clone().unwrap();
    assert_eq!((seen.id, seen.by.as_deref()), (3, Some("minh")));
    scene.world().native[0] = native(3, Some("2026-11-29T17:00:00Z"));
    scene.world().native.push(native(4, None));
    for _ in 0..2 {
        scene.later().await;
    }
    assert_eq!(
        scene.facts().native.as_ref().unwrap().id,
        4,
        "what it was replaced with"
    );
    scene.world().native[1] = native(4, Some("2026-11-29T17:10:00Z"));
    for _ in 0..2 {
        scene.later().await;
    }
    let seen = scene.facts().native.clone().unwrap();
    assert_eq!((seen.id, seen.is_cancelled()), (4, true));

    // Also by somebody who comes later, but not where it was about other days.
    for (year, shown) in [("2021", 4), ("2019", 3)] {
        let attach = json!({"attach": {"native": 3}});
        let mut scene = Scene::new("3.3.2", order("2021-01-01", "2021-12-31", attach)).await;
        let mut newer = native(4, Some("2026-11-29T17:10:00Z"));
        for end in ["from_date", "to_date"] {
            newer[end] = json!(newer[end].as_str().unwrap().replace("2021", year));
        }
        let older = native(3, Some("2026-11-29T17:00:00Z"));
        scene.world().native.extend([older, newer]);
        scene.read().await;
        assert_eq!(scene.facts().native.as_ref().unwrap().id, shown, "{year}");
    }
    let gone = json!({"attach": {"native": 99}});
    let mut scene = Scene::new("3.3.2", order("2021-01-01", "2021-12-31", gone)).await;
    scene.read().await;
    assert_eq!(
        scene.facts().note.as_deref(),
        Some("there is no native backfill 99")
    );
}

#[tokio::test]
async fn credentials_that_may_only_read_runs_see_the_runs() {
    let more = json!({"dag": {"id": "events_daily", "pool": "heavy"}, "attach": {"native": 3}});
    let mut scene = Scene::new("3.3.2", order("2021-01-01", "2021-12-31", more)).await;
    scene.world().seed("2021-01-01T00:00:00Z", 300);
    scene.world().refuse = vec![
        ("dagStats", 403, 999),
        ("backfills", 403, 999),
        ("pools", 403, 999),
        ("details", 403, 999),
        ("taskInstances", 403, 999),
        ("health", 403, 999),
    ];
    scene.read().await;
    assert_eq!(scene.told().len(), 300);
    let note = scene.facts().note.clone().unwrap();
    assert!(
        note.contains("native backfills cannot be read") && note.contains("the pool heavy cannot be read"),
        "{note}"
    );
    let gone = scene.world().rows.remove(7).id;
    for _ in 0..16 {
        scene.later().await;
    }
    assert!(
        !scene.told().values().flatten().any(|r| r.starts_with(&gone)),
        "also without statistics"
    );
    let asked = scene.asked();
    assert!(
        asked.iter().filter(|r| r.contains("dagStats")).count() <= 1,
        "what was refused is not asked for at once"
    );
}

#[tokio::test]
async fn an_order_without_a_dag_and_a_window_of_too_many_runs_are_refused_in_words() {
    let mut scene = Scene::new("3.3.2", order("2021-01-01", "2021-12-31", json!({"dag": null}))).await;
    assert!(
        scene
            .look()
            .await
            .unwrap_err()
            .to_string()
            .contains("names no DAG")
    );
    let mut scene = Scene::new("3.3.2", order("2021-01-01", "2021-12-31", json!({}))).await;
    scene.world().hidden = 100_001;
    let error = scene.look().await.unwrap_err().to_string();
    assert!(
        error.contains("100001 runs are more than a calendar holds"),
        "{error}"
    );
}

#[tokio::test]
async fn run_ids_stay_as_they_are_whatever_is_in_them() {
    let mut scene = waiting("3.3.2").await;
    scene.world().add(
        "manual__2021-05-01T00:00:00+00:00~x y",
        "2021-05-01T00:00:00Z",
        "manual",
        "running",
    );
    scene.read().await;
    let id = &scene.days[&"2021-05-01".parse().unwrap()][0].run.0;
    assert_eq!(id, "manual__2021-05-01T00:00:00+00:00~x y");
    assert_eq!(scene.facts().as_of, Some(at("2026-11-29T17:00:00Z")));
}
