//! What looking costs.

use crate::world::{Scene, order};
use chrono::TimeDelta;
use serde_json::json;

async fn scene(version: &'static str, days: usize) -> Scene {
    let first: chrono::NaiveDate = "1990-01-01".parse().unwrap();
    let last = first + TimeDelta::days(days as i64 - 1);
    let scene = Scene::new(version, order("1990-01-01", &last.to_string(), json!({}))).await;
    scene.world().seed("1990-01-01T00:00:00Z", days);
    scene
}

/// Requests until every day is told. Nobody has to wait for the budget then.
#[tokio::test]
async fn a_window_is_read_with_a_request_for_a_hundred_days_and_three() {
    for version in ["3.3.2", "3.0.6", "2.11.2"] {
        for days in [1, 99, 100, 101, 365, 1096, 1500, 10_000] {
            let mut scene = scene(version, days).await;
            let began = scene.clock.millis();
            while scene.days.len() < days {
                scene.look().await.unwrap();
            }
            let asked = scene.asked();
            // On 3.x the login of a real server is one more, on 2.x its version is asked for twice.
            let login = usize::from(version.starts_with('3'));
            assert!(
                asked.len() + login <= days.div_ceil(100) + 3,
                "{days} days: {asked:#?}"
            );
            assert_eq!(scene.clock.millis(), began, "nobody waited");
        }
    }
}

#[tokio::test]
async fn gaps_and_further_runs_by_hand_cost_few_further_requests() {
    let mut scene = scene("3.3.2", 1096).await;
    {
        let mut world = scene.world();
        // A year is missing, and three days have many runs.
        world.rows.drain(200..565);
        for n in 0..250 {
            let date = crate::airflow_support::at("1990-02-03T11:00:00Z") + TimeDelta::minutes(20 * n);
            world.add(&format!("manual{n}"), &date.to_rfc3339(), "manual", "success");
        }
    }
    let runs = scene.world().rows.len();
    let mut told = 0;
    while told < runs {
        scene.look().await.unwrap();
        told = scene.days.values().map(Vec::len).sum();
    }
    let asked = scene.asked().len();
    assert!(asked <= 2 * runs.div_ceil(100) + 4, "{asked}");
}

fn native(paused: bool, completed: Option<&str>) -> serde_json::Value {
    json!({
        "id": 7, "dag_id": "events_daily", "from_date": "1990-01-01T00:00:00Z", "to_date": "1990-12-31T00:00:00Z",
        "is_paused": paused, "max_active_runs": 3, "completed_at": completed, "created_at": "2026-11-29T16:00:00Z",
        "reprocess_behavior": "none",
    })
}

async fn busy(days: usize) -> Scene {
    let first: chrono::NaiveDate = "1990-01-01".parse().unwrap();
    let last = first + TimeDelta::days(days as i64 - 1);
    let more = json!({"dag": {"id": "events_daily", "pool": "heavy"}});
    let scene = Scene::new("3.3.2", order("1990-01-01", &last.to_string(), more)).await;
    {
        let mut world = scene.world();
        world.seed("1990-01-01T00:00:00Z", days);
        for n in 0..3 {
            world.rows[n].state = "running";
        }
        world.native.push(native(false, None));
        world.pools.insert(
            "heavy".into(),
            json!({"name": "heavy", "slots": 2, "running_slots": 2, "scheduled_slots": 1}),
        );
        world.tasks.extend([
            ("events_daily", "running"),
            ("events_daily", "running"),
            ("other", "scheduled"),
        ]);
    }
    scene
}

#[tokio::test]
async fn a_steady_minute_stays_well_below_the_budget_with_everything_to_be_watched() {
    for (days, most) in [(365, 38), (1500, 40), (10_000, 46)] {
        let mut scene = busy(days).await;
        scene.read().await;
        // The first minute has what the reading left to do.
        for _ in 0..14 {
            scene.later().await;
        }
        for _ in 0..6 {
            scene.asked();
            let began = scene.clock.millis();
            for _ in 0..12 {
                scene.later().await;
            }
            let asked = scene.asked();
            assert!(asked.len() <= most, "{days} days: {} {asked:#?}", asked.len());
            assert_eq!(
                scene.clock.millis() - began,
                60_000,
                "nobody waited for the budget"
            );
        }
    }
}

#[tokio::test]
async fn a_window_in_which_nothing_happens_costs_less() {
    let mut scene = scene("3.3.2", 1500).await;
    scene.read().await;
    for _ in 0..14 {
        scene.later().await;
    }
    scene.asked();
    for _ in 0..12 {
        scene.later().await;
    }
    let asked = scene.asked();
    assert!(asked.len() <= 30, "{} {asked:#?}", asked.len());
}

/// Issue 3: a pause or a cancel by somebody else is visible within two intervals.
#[tokio::test]
async fn a_pause_and_a_cancel_by_somebody_else_are_seen_within_two_looks() {
    let mut scene = busy(365).await;
    scene.read().await;
    let seen = scene.facts().native.clone().unwrap();
    assert_eq!(
        (seen.id, seen.paused, seen.limit, seen.by.as_deref()),
        (7, false, 3, None)
    );
    for _ in 0..5 {
        scene.world().native[0] = native(true, None);
        scene.later().await;
        scene.later().await;
        assert!(scene.facts().native.as_ref().unwrap().paused);
        scene.world().native[0] = native(false, None);
        scene.later().await;
        scene.later().await;
        scene.later().await;
        assert!(!scene.facts().native.as_ref().unwrap().paused);
    }
    scene.world().native[0] = native(true, Some("2026-11-29T17:00:00Z"));
    scene.later().await;
    scene.later().await;
    assert!(scene.facts().native.as_ref().unwrap().is_cancelled());
}

#[tokio::test]
async fn one_that_was_deleted_among_ten_thousand_is_found_with_few_requests() {
    let mut scene = scene("3.3.2", 10_000).await;
    scene.read().await;
    scene.clock.advance(70);
    for _ in 0..3 {
        scene.later().await;
    }
    let gone = scene.world().rows.remove(6543).id;
    scene.asked();
    for _ in 0..3 {
        scene.later().await;
    }
    assert!(!scene.told().values().flatten().any(|r| r.starts_with(&gone)));
    let asked = scene.asked();
    assert!(asked.len() <= 6 + 10 + 12, "{} {asked:#?}", asked.len());
}

/// Case S06.
#[tokio::test]
async fn two_attached_windows_on_one_server_keep_to_its_budget() {
    let mut scene = busy(365).await;
    let target = backfill::executor::attach::Target {
        backfill: "events-bbbbbb".parse().unwrap(),
        spec: std::sync::Arc::new(order("1990-01-01", "1990-12-31", json!({}))),
    };
    let mut second = scene.levers().observer(target);
    scene.read().await;
    while second.look().await.unwrap().facts.reading.is_some() {}
    for _ in 0..40 {
        scene.later().await;
        second.look().await.unwrap();
    }
    scene.asked();
    let began = scene.clock.millis();
    for _ in 0..24 {
        scene.later().await;
        second.look().await.unwrap();
    }
    let minutes = (scene.clock.millis() - began) as f64 / 60_000.0;
    let asked = scene.asked().len() as f64;
    assert!(asked / minutes <= 48.0, "{asked} in {minutes} minutes");
    assert!(minutes < 2.2, "and still look every five seconds: {minutes}");
}
