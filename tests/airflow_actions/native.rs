//! Native backfills.

use crate::{
    airflow_servers::{three, two},
    airflow_support::at,
    hand::{Hand, PAUSE, RESUME, count, done, over, rerun, states, target},
};
use backfill::{
    domain::{
        Time,
        attach::{Action, Reprocess},
    },
    executor::airflow::{
        Rerun,
        wire::{Run, RunKind, RunState, TaskState},
    },
};
use std::time::Duration;

/// Also fact 4, and the bounds of New York: the days around the shift of clocks begin at 05:00Z and 04:00Z.
#[tokio::test]
async fn a_new_native_backfill_has_the_days_of_its_dry_run_and_is_paused_and_resumed() {
    let hand = Hand::admin(three());
    let days = ("2022-03-10", "2022-03-18");
    let place = target("newyork_daily", "America/New_York", days, None);
    hand.sweep(&place, days).await;
    assert_eq!(
        hand.act(&place, PAUSE, None).await.bad(),
        "newyork_daily has no unfinished native backfill to pause; what else runs of it can be held by its pool, or by \
         freezing the whole DAG"
    );
    let create = Action::Create {
        first: "2022-03-11".parse().unwrap(),
        last: "2022-03-16".parse().unwrap(),
        limit: 2,
        reprocess: Reprocess::None,
        newest_first: true,
    };
    let previewed = hand.levers.dry_run(&place, &create).await.unwrap();
    assert_eq!(previewed.len(), 6);
    assert_eq!(
        (previewed[0].to_string(), previewed[5].to_string()),
        ("2022-03-11".into(), "2022-03-16".into())
    );
    let said = hand.act(&place, create.clone(), None).await.good();
    let native = hand.native("newyork_daily").await;
    assert_eq!(
        said,
        format!(
            "native backfill {} is made: 6 days, 2022-03-11 to 2022-03-16, at most 2 at once, the newest first",
            native.id
        )
    );
    let dates: Vec<Time> = hand
        .runs(&place, days)
        .await
        .iter()
        .filter_map(|r| r.logical_date)
        .collect();
    assert_eq!(dates.len(), 6);
    assert_eq!(
        (dates[0], dates[5]),
        (at("2022-03-11T05:00:00Z"), at("2022-03-16T04:00:00Z"))
    );

    let said = hand.act(&place, PAUSE, None).await.good();
    assert!(
        said.starts_with(&format!("native backfill {} is paused: ", native.id)),
        "{said}"
    );
    assert!(said.ends_with("no further day starts"), "{said}");
    let said = hand.act(&place, PAUSE, None).await;
    assert!(
        said.sent.is_empty() && said.said.contains("was paused already"),
        "{said:?}"
    );
    // What runs finishes, and nothing else starts.
    let runs = hand
        .until(&place, days, "finished", |r| count(r, &RunState::Running) == 0)
        .await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let later = hand.runs(&place, days).await;
    assert_eq!(states(&later), states(&runs));
    assert!(count(&later, &RunState::Queued) > 0, "{later:?}");
    assert!(
        hand.act(&place, create, None)
            .await
            .bad()
            .contains("is not over, and Airflow has one at a time")
    );

    // Also where the answer is lost.
    let said = hand.act(&place, RESUME, Some(0)).await.good();
    assert_eq!(
        said,
        format!("native backfill {} goes on, up to 2 days at once", native.id)
    );
    hand.until(&place, days, "done", done).await;
    assert_eq!(hand.act(&place, RESUME, None).await.sent.len(), 0);
}

/// Facts 2 and 3: a life of a native backfill with a day that fails, replaced, cancelled, and its days made to run
/// again although it is cancelled.
#[tokio::test]
async fn a_native_backfill_is_replaced_and_cancelled_and_its_days_really_run_again() {
    let hand = Hand::admin(three());
    let days = ("2022-03-10", "2022-04-08");
    let dag = "events_daily";
    let place = target(dag, "UTC", days, None);
    hand.sweep(&place, days).await;
    let _ = std::fs::remove_file(three().dir.join("repaired/2022-03-14"));
    let conf = serde_json::json!({"sleep": 3, "mark": "kept"});
    let first = hand
        .somebody(dag, "2022-03-10T00:00:00Z", "2022-04-08T00:00:00Z", 2, conf)
        .await;
    let place = target(dag, "UTC", days, Some(first));
    let bad = |runs: &[Run]| runs.iter().any(|r| r.state == RunState::Failed);
    let before = hand.until(&place, days, "a day failed", bad).await;
    let kept: Vec<(String, Option<Time>)> = before
        .iter()
        .filter(|r| r.state == RunState::Success)
        .map(|r| (r.id.clone(), r.started))
        .collect();
    assert!(kept.len() >= 3, "{:?}", states(&before));

    // The answer to the cancel is lost, as is that to the making.
    let replace = Action::Replace { limit: 3 };
    let planned = hand.levers.dry_run(&place, &replace).await.unwrap();
    assert!(
        planned.len() >= 5 && planned.contains(&"2022-03-14".parse().unwrap()),
        "{planned:?}"
    );
    let said = hand.act(&place, replace, Some(1)).await.good();
    let second = hand.native(dag).await;
    assert!(
        said.starts_with(&format!(
            "native backfill {first} is cancelled, and {} is made in its place: ",
            second.id
        )),
        "{said}"
    );
    assert!(
        said.contains("; 1 of them had failed before and runs again, too; days that are done are kept"),
        "{said}"
    );
    assert!(hand.airflow.backfill(first).await.unwrap().is_cancelled());
    assert_eq!(second.max_active_runs, Some(3));
    assert_eq!(
        (second.from, second.to),
        (at("2022-03-14T00:00:00Z"), at("2022-04-08T00:00:00Z"))
    );
    assert_eq!(second.conf.as_ref().unwrap()["mark"], "kept");
    let after = hand.runs(&place, days).await;
    assert_eq!(after.len(), 30);
    for (id, started) in &kept {
        let run = after.iter().find(|r| r.id == *id).unwrap();
        assert_eq!((&run.state, run.started), (&RunState::Success, *started));
    }
    // What is attached to is cancelled; its successor is what the next action is about.
    let same = hand.act(&place, Action::Replace { limit: 3 }, None).await;
    assert_eq!(
        same.said,
        format!("native backfill {} had the limit 3 already", second.id)
    );

    hand.until(&place, days, "three run", |r| count(r, &RunState::Running) >= 2)
        .await;
    let said = hand
        .act(&place, Action::Cancel { running: true }, None)
        .await
        .good();
    let cancelled = format!("native backfill {} is cancelled: ", second.id);
    assert!(said.starts_with(&cancelled), "{said}");
    assert!(
        said.contains("that waited will not run; ") && said.contains("ended, and marked failed"),
        "{said}"
    );
    let runs = hand.runs(&place, days).await;
    assert!(over(&runs), "{:?}", states(&runs));
    assert_eq!(
        hand.act(&place, RESUME, None).await.bad(),
        format!(
            "native backfill {first} was cancelled at {}, and Airflow never starts anything of a cancelled one again: \
             make a new native backfill over the days that are left",
            hand.airflow
                .backfill(first)
                .await
                .unwrap()
                .completed
                .unwrap()
                .format("%Y-%m-%d %H:%MZ")
        )
    );

    // A day that was done, one that was ended, one that never began, and one that has no run.
    let of = |state: RunState, begun: bool| {
        let found = runs
            .iter()
            .find(|r| r.state == state && r.started.is_some() == begun);
        found.unwrap().clone()
    };
    let (good, ended, never) = (
        runs.iter().find(|r| r.id == kept[0].0).unwrap().clone(),
        of(RunState::Failed, true),
        of(RunState::Failed, false),
    );
    let named = |r: &Run| r.logical_date.unwrap().format("%Y-%m-%d").to_string();
    let (good_day, ended_day, never_day) = (named(&good), named(&ended), named(&never));
    std::fs::create_dir_all(three().dir.join("repaired")).unwrap();
    std::fs::write(three().dir.join("repaired/2022-03-14"), "").unwrap();
    // Somebody clears the one that never began, as one would: it waits for ever.
    hand.airflow.clear(dag, &never.id, Rerun::Whole).await.unwrap();
    tokio::time::sleep(Duration::from_secs(8)).await;
    let stuck = hand.airflow.run(dag, &never.id).await.unwrap().unwrap();
    assert_eq!((stuck.state, stuck.last_decision), (RunState::Queued, None));
    let again = rerun(&[&good_day, &ended_day, &never_day, "2022-04-09"]);
    let said = hand.act(&place, again, Some(1)).await.bad();
    assert!(
        said.contains("2022-04-09 has no run to clear: make a native backfill over it"),
        "{said}"
    );
    assert!(
        said.contains("were deleted and made anew, since Airflow starts nothing again of native backfill"),
        "{said}"
    );
    let chosen = [&good_day, &ended_day, &never_day];
    let runs = hand
        .until(&place, days, "the chosen days are done", |runs| {
            let mine = runs.iter().filter(|r| chosen.contains(&&named(r)));
            mine.clone().count() == 3 && mine.clone().all(|r| r.state == RunState::Success)
        })
        .await;
    for day in chosen {
        let run = runs.iter().find(|r| named(r) == *day).unwrap();
        assert_eq!(run.kind, RunKind::Manual, "{run:?}");
        assert_eq!(run.conf.as_ref().unwrap()["mark"], "kept");
        assert_eq!(
            run.interval,
            good.interval.map(|(s, e)| {
                let shift = run.logical_date.unwrap() - good.logical_date.unwrap();
                (s + shift, e + shift)
            })
        );
        let tasks = hand.airflow.tasks(dag, &run.id).await.unwrap().rows;
        assert!(tasks.iter().all(|t| t.state == Some(TaskState::Success)));
    }
    let ledger = std::fs::read_to_string(three().dir.join("ledger")).unwrap();
    let ours = |l: &&str| l.contains(place.backfill.as_str()) && l.contains("\tload\t");
    assert_eq!(ledger.lines().filter(ours).count(), 3, "each ran once");
}

#[tokio::test]
async fn airflow_2_is_told_to_have_no_native_backfills_and_nothing_is_sent() {
    let hand = Hand::admin(two());
    let place = target("events_daily", "UTC", ("2022-08-01", "2022-08-02"), None);
    let create = Action::Create {
        first: "2022-08-01".parse().unwrap(),
        last: "2022-08-02".parse().unwrap(),
        limit: 1,
        reprocess: Reprocess::None,
        newest_first: false,
    };
    for action in [
        PAUSE,
        RESUME,
        Action::Replace { limit: 1 },
        Action::Cancel { running: true },
        create,
    ] {
        let done = hand.act(&place, action, None).await;
        assert!(done.sent.is_empty());
        assert!(done.bad().starts_with("Airflow 2 has no native backfills: "));
    }
}

#[tokio::test]
async fn days_that_run_finish_under_a_pause_and_go_on_after_a_cancel() {
    let hand = Hand::admin(three());
    let days = ("2022-10-01", "2022-10-08");
    let dag = "pooled_daily";
    let place = target(dag, "UTC", days, None);
    hand.sweep(&place, days).await;
    let id = hand
        .somebody(
            dag,
            "2022-10-01T00:00:00Z",
            "2022-10-08T00:00:00Z",
            2,
            serde_json::json!({"sleep": 8}),
        )
        .await;
    hand.until(&place, days, "two run", |r| count(r, &RunState::Running) == 2)
        .await;
    let said = hand.act(&place, PAUSE, Some(0)).await.good();
    assert_eq!(
        said,
        format!("native backfill {id} is paused: 2 days still running finish, and no further day starts")
    );
    let two = |r: &[Run]| count(r, &RunState::Success) == 2;
    let runs = hand.until(&place, days, "two are done", two).await;
    assert_eq!(count(&runs, &RunState::Queued), 6, "{:?}", states(&runs));
    hand.act(&place, RESUME, None).await.good();
    hand.until(&place, days, "two more run", |r| {
        count(r, &RunState::Running) == 2
    })
    .await;
    let said = hand
        .act(&place, Action::Cancel { running: false }, Some(0))
        .await
        .good();
    assert_eq!(
        said,
        format!("native backfill {id} is cancelled: 4 days that waited will not run; 2 days that run go on")
    );
    let runs = hand.until(&place, days, "over", over).await;
    assert_eq!(
        (count(&runs, &RunState::Success), count(&runs, &RunState::Failed)),
        (4, 4)
    );
    assert!(
        runs.iter()
            .filter(|r| r.state == RunState::Failed)
            .all(Run::was_never_begun)
    );
    let said = hand
        .act(&place, Action::Cancel { running: true }, None)
        .await
        .bad();
    assert!(
        said.starts_with("pooled_daily has no unfinished native backfill to cancel"),
        "{said}"
    );
    let attached = target(dag, "UTC", days, Some(id));
    let said = hand
        .act(&attached, Action::Cancel { running: true }, None)
        .await
        .good();
    assert!(
        said.starts_with(&format!("native backfill {id} was cancelled already, at ")),
        "{said}"
    );
    assert!(said.ends_with("; nothing of it runs"), "{said}");
}
