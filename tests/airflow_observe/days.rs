//! Days, zones, partitions and runs without a date.

use crate::airflow_support::at;
use crate::world::{Scene, order};
use chrono::TimeDelta;
use chrono_tz::Tz;
use serde_json::json;

/// Airflow's fact 8.
#[tokio::test]
async fn a_dag_in_new_york_has_the_days_of_new_york_also_when_clocks_change() {
    let zone = json!({"timezone": "America/New_York"});
    let mut scene = Scene::new("3.3.2", order("2024-03-09", "2024-03-12", zone)).await;
    for (id, date) in [
        ("before", "2024-03-08T05:00:00Z"),
        ("a", "2024-03-09T05:00:00Z"),
        ("b", "2024-03-10T05:00:00Z"),
        ("c", "2024-03-11T04:00:00Z"),
        ("d", "2024-03-12T04:00:00Z"),
        ("after", "2024-03-13T04:00:00Z"),
    ] {
        scene.world().add(id, date, "scheduled", "success");
    }
    scene.read().await;
    let expected = [
        "2024-03-09 a=success",
        "2024-03-10 b=success",
        "2024-03-11 c=success",
        "2024-03-12 d=success",
    ];
    assert_eq!(scene.words(), expected);
    assert_eq!(scene.facts().note, None);
}

#[tokio::test]
async fn an_order_in_utc_for_a_dag_in_new_york_is_told_so() {
    let mut scene = Scene::new("3.3.2", order("2023-01-01", "2023-12-31", json!({}))).await;
    for n in 0..365 {
        let summer = (70..308).contains(&n);
        let date = at("2023-01-01T05:00:00Z") + TimeDelta::days(n) - TimeDelta::hours(i64::from(summer));
        scene
            .world()
            .add(&format!("r{n}"), &date.to_rfc3339(), "scheduled", "success");
    }
    scene.read().await;
    let note = "the runs lie at midnight of America/New_York, not of UTC, whose days these are";
    assert_eq!(scene.facts().note.as_deref(), Some(note));
    assert_eq!(scene.told().len(), 365, "the order's own zone binds all the same");
}

/// Airflow's fact 7.
#[tokio::test]
async fn runs_of_partitions_have_the_days_of_their_partitions() {
    for version in ["3.3.2", "3.2.2"] {
        let mut scene = Scene::new(version, order("2024-03-01", "2024-03-31", json!({}))).await;
        let dated = version == "3.3.2";
        {
            let mut world = scene.world();
            world.details["timetable_partitioned"] = json!(true);
            for (id, key) in [
                ("p1", "2024-03-01"),
                ("p1again", "2024-03-01"),
                ("p9", "2024-03-09"),
                ("out", "2024-04-01"),
            ] {
                let day = dated.then(|| at(&format!("{key}T00:00:00Z")));
                world.add(id, "", "backfill", "success").partition = Some((key.to_owned(), day));
            }
            world.add("nobody", "", "manual", "success");
        }
        scene.read().await;
        let expected = ["2024-03-01 p1=success p1again=success", "2024-03-09 p9=success"];
        assert_eq!(scene.words(), expected);
        assert_eq!((scene.facts().runs, scene.facts().undated), (3, 1), "{version}");
        {
            let mut world = scene.world();
            world.set("p9", "failed");
            world.delete("p1again");
        }
        for _ in 0..4 {
            scene.later().await;
        }
        assert_eq!(
            scene.words(),
            ["2024-03-01 p1=success", "2024-03-09 p9=failed"],
            "{version}"
        );
    }
}

/// The server chooses partitions by civil days of their timetable's zone, and tells instants.
#[tokio::test]
async fn partitions_of_a_zone_far_from_utc_are_those_of_its_days() {
    for (zone, offset) in [
        (Tz::America__New_York, 5),
        (Tz::Pacific__Auckland, -13),
        (Tz::Asia__Tokyo, -9),
    ] {
        for named in [true, false] {
            let spec = order("2023-01-05", "2023-02-20", json!({"timezone": zone.name()}));
            let mut scene = Scene::new("3.3.2", spec).await;
            {
                let mut world = scene.world();
                world.zone = zone;
                world.details["timetable_partitioned"] = json!(true);
                for n in 0..400 {
                    let day = at("2022-12-25T00:00:00Z") + TimeDelta::days(n % 100);
                    let key = day.format("%Y-%m-%d").to_string();
                    let key = if named { key } else { format!("eu|{key}") };
                    let instant = day + TimeDelta::hours(offset);
                    world.add(&format!("r{n}"), "", "backfill", "success").partition =
                        Some((key, Some(instant)));
                }
            }
            scene.read().await;
            assert_eq!(
                (scene.told().len(), scene.facts().runs, scene.facts().undated),
                (47, 188, 0),
                "{zone} {named}"
            );
            assert!(scene.told().values().all(|runs| runs.len() == 4));
            scene.world().delete("r311");
            scene.world().delete("r5");
            for _ in 0..4 {
                scene.later().await;
            }
            assert_eq!(scene.facts().runs, 187, "one of them was outside");
            scene.asked();
            for _ in 0..12 {
                scene.later().await;
            }
            assert!(scene.asked().len() < 30, "nothing is looked for any more");
        }
    }
}

/// Many runs of one partition fill more than a page.
#[tokio::test]
async fn a_partition_with_more_runs_than_a_page_has_all_of_them() {
    let mut scene = Scene::new("3.3.2", order("2024-03-01", "2024-03-31", json!({}))).await;
    {
        let mut world = scene.world();
        world.details["timetable_partitioned"] = json!(true);
        for n in 0..350 {
            let key = format!("2024-03-{:02}", 1 + n / 150);
            let day = at(&format!("{key}T00:00:00Z"));
            world.add(&format!("r{n}"), "", "manual", "success").partition = Some((key, Some(day)));
        }
    }
    scene.read().await;
    let counts: Vec<usize> = scene.days.values().map(Vec::len).collect();
    assert_eq!(counts, [150, 150, 50]);
}

#[tokio::test]
async fn runs_without_a_date_are_counted_and_belong_to_no_day() {
    let mut scene = Scene::new("3.3.2", order("2021-01-01", "2021-12-31", json!({}))).await;
    scene.world().seed("2020-06-01T00:00:00Z", 400);
    for n in 0..3 {
        scene.world().add(&format!("manual{n}"), "", "manual", "running");
    }
    scene.read().await;
    assert_eq!((scene.facts().runs, scene.facts().undated), (186, 3));
    let now = scene.world().now();
    scene.world().add("another", "", "manual", "running").updated = now;
    for _ in 0..3 {
        scene.later().await;
    }
    assert_eq!((scene.facts().undated, scene.told().len()), (4, 186));
}

#[tokio::test]
async fn hours_and_weeks_take_the_runs_that_lie_in_them() {
    let hours = json!({"granularity": "hour", "timezone": "Europe/Berlin"});
    let mut scene = Scene::new("3.3.2", order("2025-10-26", "2025-10-26", hours)).await;
    for n in 0..26 {
        let date = at("2025-10-25T22:00:00Z") + TimeDelta::hours(n);
        scene
            .world()
            .add(&format!("h{n}"), &date.to_rfc3339(), "scheduled", "success");
    }
    scene.read().await;
    let words = scene.words();
    assert_eq!(words.len(), 25);
    assert_eq!(
        (words[2].as_str(), words[24].as_str()),
        ("2025-10-26T02+0100 h3=success", "2025-10-26T23+0100 h24=success")
    );
    let mut scene = Scene::new(
        "3.3.2",
        order("2021-01-01", "2021-12-31", json!({"granularity": "week"})),
    )
    .await;
    scene.world().seed("2021-01-01T00:00:00Z", 365);
    scene.read().await;
    assert_eq!(scene.told().len(), 53);
    assert_eq!(scene.days.values().map(Vec::len).sum::<usize>(), 365);
}

#[tokio::test]
async fn a_window_without_runs_is_read_with_one_question() {
    let mut scene = Scene::new("3.3.2", order("2021-01-01", "2023-12-31", json!({}))).await;
    scene.look().await.unwrap();
    assert_eq!(scene.asked().iter().filter(|r| r.contains("dagRuns?")).count(), 1);
    scene.read().await;
    assert!(scene.last.as_ref().unwrap().whole);
}
