//! What is told is what the server has.

use crate::world::{Scene, Shared, World, order, utc_day};
use chrono::TimeDelta;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

const FIRST: &str = "2021-01-01T00:00:00Z";

async fn three_years(version: &'static str) -> Scene {
    let scene = Scene::new(version, order("2021-01-01", "2023-12-31", json!({}))).await;
    scene.world().seed(FIRST, 1095);
    scene
}

fn assert_truth(scene: &Scene, first: &str, last: &str) {
    let (told, truth) = (scene.told(), scene.world().truth(utc_day(first, last)));
    let wrong: Vec<String> = told
        .iter()
        .filter(|(day, runs)| truth.get(day) != Some(runs))
        .map(|(day, runs)| format!("{day} is told as {runs:?}, which is {:?}", truth.get(day)))
        .chain(
            truth
                .keys()
                .filter(|d| !told.contains_key(d))
                .map(|d| format!("{d} is not told")),
        )
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn the_window_comes_in_parts_and_is_whole_at_the_end() {
    for version in ["3.3.2", "3.0.6", "2.11.2"] {
        let mut scene = three_years(version).await;
        let first = scene.look().await.unwrap().clone();
        let reading = first.facts.reading.unwrap();
        assert_eq!((first.days.len(), reading.read, reading.total), (100, 100, 1095));
        assert!(!first.whole && first.facts.as_of.is_some());
        let mut read = 100;
        while let Some(reading) = scene.look().await.unwrap().facts.reading {
            assert!(reading.read >= read, "{reading:?}");
            read = reading.read;
        }
        assert_eq!(read, 1095, "all of it is told before it is called whole");
        let last = scene.last.as_ref().unwrap();
        assert!(last.whole && last.facts.runs == 1095);
        assert_truth(&scene, "2021-01-01", "2023-12-31");
        assert!(scene.later().await.days.is_empty(), "nothing has changed");
    }
}

#[tokio::test]
async fn runs_that_change_come_or_go_are_told_within_two_looks_and_a_little() {
    for version in ["3.3.2", "2.11.2"] {
        let mut scene = three_years(version).await;
        scene.read().await;
        let gone = scene.world().rows[500].id.clone();
        let changed = scene.world().rows[700].id.clone();
        {
            let mut world = scene.world();
            world.set(&changed, "queued");
            let now = world.now();
            world
                .add("manual+1", "2022-05-05T13:12:00Z", "manual", "running")
                .updated = now;
            world
                .add("outside", "2024-05-05T00:00:00Z", "scheduled", "running")
                .updated = now;
            world.delete(&gone);
        }
        let told = scene.later().await.days.clone();
        for day in ["2022-05-05", "2022-12-02"] {
            assert!(told.contains_key(&day.parse().unwrap()), "{day}: {told:?}");
        }
        for _ in 0..3 {
            scene.later().await;
        }
        assert_truth(&scene, "2021-01-01", "2023-12-31");
        assert!(!scene.told().values().flatten().any(|r| r.starts_with(&gone)));
        assert_eq!(scene.facts().runs, 1095);
    }
}

/// What is gone shows in no poll, and what is made anew under the same name in no count.
#[tokio::test]
async fn a_day_that_was_deleted_and_made_again_is_the_new_one() {
    let mut scene = three_years("3.3.2").await;
    scene.read().await;
    let id = scene.world().rows[500].id.clone();
    let date = scene.world().rows[500].date.unwrap().to_rfc3339();
    {
        let mut world = scene.world();
        world.delete(&id);
        let now = world.now();
        world.add(&id, &date, "manual", "queued").updated = now;
    }
    scene.later().await;
    assert_truth(&scene, "2021-01-01", "2023-12-31");
    {
        let mut world = scene.world();
        world.delete(&id);
        let now = world.now();
        world.add("other", &date, "manual", "queued").updated = now;
    }
    for _ in 0..4 {
        scene.later().await;
    }
    assert_truth(&scene, "2021-01-01", "2023-12-31");
}

#[tokio::test]
async fn whole_months_that_were_deleted_are_found_and_so_is_an_end_of_everything() {
    let mut scene = three_years("3.3.2").await;
    scene.read().await;
    scene.world().rows.drain(300..420);
    for _ in 0..5 {
        scene.later().await;
    }
    assert_truth(&scene, "2021-01-01", "2023-12-31");
    scene.world().rows.clear();
    for _ in 0..8 {
        scene.later().await;
    }
    assert_eq!((scene.told().len(), scene.facts().runs), (0, 0));
}

/// A change that no poll tells, such as one made in the database by hand, is seen by the slow round through all.
#[tokio::test]
async fn even_what_no_poll_and_no_count_tells_is_seen_within_minutes() {
    let mut scene = three_years("3.3.2").await;
    scene.read().await;
    for row in &mut scene.world().rows {
        row.state = "failed";
    }
    let began = scene.clock.millis();
    while scene.told().values().flatten().any(|r| r.ends_with("=success")) {
        scene.later().await;
        assert!(scene.clock.millis() - began < 11 * 60_000, "after eleven minutes");
    }
    assert_truth(&scene, "2021-01-01", "2023-12-31");
}

/// Rows that a server counts and does not show must not be looked for for ever.
#[tokio::test]
async fn a_server_that_counts_what_it_does_not_show_is_searched_once() {
    let mut scene = three_years("3.3.2").await;
    scene.world().hidden = 3;
    scene.read().await;
    for _ in 0..12 {
        scene.later().await;
    }
    scene.asked();
    for _ in 0..12 {
        scene.later().await;
    }
    assert!(scene.asked().len() <= 40, "as without them");
    assert_truth(&scene, "2021-01-01", "2023-12-31");
}

#[tokio::test]
async fn a_server_that_does_not_tell_its_time_is_read_again_and_again() {
    let mut scene = Scene::new("3.3.2", order("2021-01-01", "2021-12-31", json!({}))).await;
    scene.world().seed(FIRST, 365);
    scene.airflow.without_a_clock();
    scene.read().await;
    let changed = scene.world().rows[20].id.clone();
    let gone = scene.world().rows[200].id.clone();
    scene.world().set(&changed, "queued");
    scene.world().delete(&gone);
    for _ in 0..40 {
        scene.later().await;
    }
    assert_truth(&scene, "2021-01-01", "2021-12-31");
}

#[tokio::test]
async fn a_page_that_fails_is_told_and_the_reading_goes_on_with_what_is_left() {
    let mut scene = three_years("3.3.2").await;
    scene.look().await.unwrap();
    scene.world().refuse = vec![("order_by=id", 503, 2)];
    let mut failures = 0;
    loop {
        match scene.look().await {
            Ok(sight) if sight.facts.reading.is_none() => break,
            Ok(_) => {}
            Err(error) => {
                failures += 1;
                assert!(error.to_string().contains("503"), "{error}");
            }
        }
        assert!(failures < 5);
    }
    assert!(failures >= 1);
    let pages = scene.asked().iter().filter(|r| r.contains("dagRuns?")).count();
    assert!(
        pages <= 11 + 2 * 3 + 3,
        "{pages}: what was read is not read again"
    );
    assert_truth(&scene, "2021-01-01", "2023-12-31");
}

#[tokio::test]
async fn a_look_that_fails_half_way_loses_no_change() {
    let mut scene = three_years("3.3.2").await;
    scene.read().await;
    let id = scene.world().rows[9].id.clone();
    scene.world().set(&id, "running");
    scene.world().refuse = vec![("dagStats", 503, 1), ("backfills", 503, 1)];
    scene.clock.advance(30);
    let mut failed = 0;
    for _ in 0..3 {
        failed += usize::from(scene.look().await.is_err());
        scene.clock.advance(30);
    }
    assert!(failed >= 1);
    assert_eq!(
        scene
            .told()
            .values()
            .flatten()
            .filter(|r| r.ends_with("=running"))
            .count(),
        1
    );
}

/// Something happens at nearly every request, also between two parts of the first reading.
fn disturb(airflow: &Shared, seed: u64, often: f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut made = 0;
    airflow.at_requests(move |world: &mut World, _| {
        while rng.random_bool(often) {
            let id = world.rows.choose(&mut rng).map(|r| r.id.clone());
            match (rng.random_range(0..4), id) {
                (0, _) | (_, None) => {
                    made += 1;
                    let minutes = rng.random_range(0..1440 * 400_i64);
                    let date =
                        crate::airflow_support::at("2021-01-01T00:00:00Z") + TimeDelta::minutes(minutes);
                    if world.rows.iter().any(|r| r.date == Some(date)) {
                        continue;
                    }
                    let now = world.now();
                    world
                        .add(&format!("made{made}"), &date.to_rfc3339(), "manual", "queued")
                        .updated = now;
                }
                (1, Some(id)) => world.delete(&id),
                (_, Some(id)) => {
                    let state = ["queued", "running", "success", "failed"]
                        .choose(&mut rng)
                        .unwrap();
                    world.set(&id, state);
                }
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn whatever_comes_and_goes_while_it_is_read_and_looked_at_the_end_is_the_servers_truth(
        seed: u64,
        days in 0_usize..420,
        often in 0.0_f64..0.7,
        looks in 0_usize..12,
        version in proptest::sample::select(vec!["3.3.2", "3.0.6", "2.11.2"]),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut scene = Scene::new(version, order("2021-01-01", "2021-12-31", json!({}))).await;
            scene.world().seed(FIRST, days);
            disturb(&scene.airflow, seed, often);
            scene.read().await;
            for _ in 0..looks {
                scene.later().await;
            }
            scene.airflow.at_requests(|_, _| {});
            // The counts come round, and a search, and a poll after it.
            for _ in 0..30 {
                scene.later().await;
            }
            assert_truth(&scene, "2021-01-01", "2021-12-31");
        });
    }
}
