//! What could be attached to.

use crate::world::{Scene, order};
use chrono::TimeDelta;
use serde_json::json;

fn other(
    id: &str,
    queued: u64,
    total: u64,
    schedule: Option<&str>,
) -> (serde_json::Value, serde_json::Value) {
    (
        json!({"dag_id": id, "timetable_summary": schedule, "is_paused": id.starts_with('p')}),
        json!({"dag_id": id, "stats": [
            {"state": "queued", "count": queued}, {"state": "success", "count": total - queued},
        ]}),
    )
}

#[tokio::test]
async fn unfinished_native_backfills_come_first_then_dags_with_many_runs_those_at_work_before_others() {
    let scene = Scene::new("3.3.2", order("2021-01-01", "2021-12-31", json!({}))).await;
    {
        let mut world = scene.world();
        world.seed("2021-01-03T00:00:00Z", 1261);
        for n in 0..12 {
            world.rows[n].state = "failed";
        }
        world.other_dags = vec![
            other("busy", 90, 120, Some("@daily")),
            other("calm", 0, 2000, Some("@daily")),
            other("paused", 5, 30, Some("@daily")),
            other("few", 1, 10, Some("@daily")),
            other("byhand", 0, 500, None),
        ];
        world.native = vec![
            json!({"id": 3, "dag_id": "busy", "from_date": "2024-01-01T00:00:00Z", "to_date": "2024-04-29T00:00:00Z",
                "is_paused": true, "max_active_runs": 3, "completed_at": null}),
            json!({"id": 9, "dag_id": "few", "from_date": "2024-01-01T00:00:00Z", "to_date": "2024-04-29T00:00:00Z",
                "is_paused": true, "max_active_runs": 3, "completed_at": "2024-06-01T00:00:00Z"}),
        ];
    }
    let offers = scene.levers().offers().await.unwrap();
    let shown: Vec<String> = offers
        .iter()
        .map(|o| {
            let window = o.window.map_or("-".to_owned(), |(a, b)| format!("{a}..{b}"));
            format!("{} {:?} {window} {}", o.dag, o.native, o.words)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "busy Some(3) 2024-01-01..2024-04-29 paused, limit 3, 90 runs wait",
            "paused None - 30 runs, 5 waiting, DAG paused",
            "calm None - 2,000 runs",
            "events_daily None 2021-01-03..2024-06-16 1,261 runs, 12 failed",
        ]
    );
}

#[tokio::test]
async fn a_server_with_many_dags_is_asked_a_bounded_number_of_questions() {
    for version in ["3.3.2", "2.11.2"] {
        let scene = Scene::new(version, order("2021-01-01", "2021-12-31", json!({}))).await;
        for n in 0..80 {
            scene
                .world()
                .other_dags
                .push(other(&format!("dag{n:02}"), n, 100 + n, Some("@daily")));
        }
        let offers = scene.levers().offers().await.unwrap();
        assert!(!offers.is_empty());
        assert!(offers.iter().all(|o| o.native.is_none()));
        let asked = scene.asked();
        assert!(asked.len() <= 2 + 1 + 2 + 10 + 12, "{} {asked:#?}", asked.len());
        assert!(scene.clock.millis() - 1_000_000 < TimeDelta::seconds(1).num_milliseconds() as u64);
    }
}
