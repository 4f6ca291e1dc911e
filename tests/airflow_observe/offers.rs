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
            "busy Some(3) 2024-01-01..2024-04-29 paused, limit 3, 90 waiting",
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

/// Issue 3: `attach` names the window and the zone itself where the server's runs tell them.
#[tokio::test]
async fn what_is_attached_to_is_looked_up_with_its_window_and_its_zone() {
    let mut spring = 0;
    for version in ["3.3.2", "2.11.2"] {
        let scene = Scene::new(version, order("2021-01-01", "2021-12-31", json!({}))).await;
        for n in 0..500 {
            let summer = [70..307, 434..499].iter().any(|r| r.contains(&n));
            spring += usize::from(summer);
            let date = crate::airflow_support::at("2022-01-01T05:00:00Z") + TimeDelta::days(n as i64)
                - TimeDelta::hours(i64::from(summer));
            scene
                .world()
                .add(&format!("r{n}"), &date.to_rfc3339(), "scheduled", "success");
        }
        let levers = scene.levers();
        let found = levers.find(Some("events_daily"), None, None).await.unwrap();
        assert_eq!(
            (found.dag.as_str(), found.zone),
            ("events_daily", Some(chrono_tz::America::New_York))
        );
        let day = |text: &str| text.parse::<chrono::NaiveDate>().unwrap();
        assert_eq!(found.window, Some((day("2022-01-01"), day("2023-05-15"))));
        assert_eq!(found.native, None);
        let tokyo = levers
            .find(Some("events_daily"), None, Some(chrono_tz::Asia::Tokyo))
            .await
            .unwrap();
        assert_eq!(tokyo.zone, Some(chrono_tz::Asia::Tokyo), "the user's word binds");
        let asked = scene.asked();
        assert!(asked.len() <= 16, "{asked:#?}");
        assert!(levers.find(Some("nope"), None, None).await.is_err());
        assert!(levers.find(None, None, None).await.is_err());
    }
    assert!(spring > 300);
}

#[tokio::test]
async fn a_native_backfill_is_looked_up_by_its_number_or_by_its_dag() {
    let scene = Scene::new("3.3.2", order("2021-01-01", "2021-12-31", json!({}))).await;
    scene.world().seed("2021-01-01T00:00:00Z", 400);
    scene
        .world()
        .add("b", "2024-02-01T00:00:00Z", "backfill", "queued");
    let native = |id: u64, completed: Option<&str>| {
        json!({"id": id, "dag_id": "events_daily", "from_date": "2024-02-01T00:00:00Z", "max_active_runs": 3,
            "to_date": "2024-05-30T00:00:00Z", "is_paused": false, "completed_at": completed,
            "created_at": "2026-11-29T16:00:00Z"})
    };
    scene.world().native = vec![native(7, Some("2026-11-29T16:30:00Z")), native(8, None)];
    let levers = scene.levers();
    let day = |text: &str| text.parse::<chrono::NaiveDate>().unwrap();
    for (dag, id, expected) in [
        (None, Some(7), 7),
        (None, Some(8), 8),
        (Some("events_daily"), None, 8),
    ] {
        let found = levers.find(dag, id, None).await.unwrap();
        let seen = found.native.unwrap();
        assert_eq!(
            (seen.id, seen.limit, seen.by.as_deref()),
            (expected, 3, Some("minh"))
        );
        assert_eq!(
            (found.zone, found.window),
            (Some(chrono_tz::UTC), Some((day("2024-02-01"), day("2024-05-30"))))
        );
    }
    assert!(levers.find(None, Some(99), None).await.is_err());
}
