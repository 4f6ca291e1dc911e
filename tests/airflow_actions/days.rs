//! Days, pools and whole DAGs, on both versions.

use crate::{
    airflow_servers::{three, two},
    hand::{Hand, chunks, count, over, rerun, target},
};
use backfill::{
    domain::attach::Action,
    executor::airflow::{
        Mark, Trigger,
        wire::{Run, RunState},
    },
};
use std::time::Duration;

#[tokio::test]
async fn a_whole_dag_is_frozen_only_if_that_is_asked_for_on_both_versions() {
    for server in [three(), two()] {
        let hand = Hand::admin(server);
        let days = ("2022-01-01", "2022-01-02");
        let place = target("fragile_daily", "UTC", days, None);
        let dag = || async { hand.airflow.dag("fragile_daily").await.unwrap().paused };
        let pause = Action::Pause { whole_dag: true };
        let said = hand.act(&place, pause.clone(), None).await.good();
        assert_eq!(
            said,
            "the DAG fragile_daily is paused: tasks that run finish, and nothing else of it starts, also not in days \
             under way"
        );
        assert!(dag().await);
        assert!(
            hand.act(&place, pause, None)
                .await
                .good()
                .contains("was paused already")
        );
        let resume = Action::Resume { whole_dag: true };
        // Also where the answer is lost.
        assert_eq!(
            hand.act(&place, resume, Some(0)).await.good(),
            "the DAG fragile_daily goes on"
        );
        assert!(!dag().await);
    }
}

#[tokio::test]
async fn the_slots_of_both_kinds_of_pool_are_set_on_both_versions() {
    for server in [three(), two()] {
        let hand = Hand::admin(server);
        let place = target("pooled_daily", "UTC", ("2022-01-01", "2022-01-02"), None);
        for name in ["backfill_pool", "default_pool"] {
            let before = hand.airflow.pool(name).await.unwrap();
            let set = |slots| Action::Slots {
                pool: name.to_owned(),
                slots,
            };
            let said = hand.act(&place, set(before.slots + 3), None).await.good();
            assert_eq!(
                said,
                format!(
                    "pool {name} has {} slots, which takes effect within seconds; tasks that run finish",
                    before.slots + 3
                )
            );
            let now = hand.airflow.pool(name).await.unwrap();
            assert_eq!(
                (now.slots, now.include_deferred),
                (before.slots + 3, before.include_deferred)
            );
            assert_eq!(now.description, before.description);
            let again = hand.act(&place, set(before.slots + 3), None).await;
            assert!(
                again.sent.is_empty() && again.said.ends_with("already"),
                "{again:?}"
            );
            let none = hand.act(&place, set(-1), None).await;
            if server.version == 3 {
                assert_eq!(
                    none.good(),
                    format!("pool {name} has no limit now, which takes effect within seconds")
                );
            } else {
                // It would take it, and from then on answer every question about its pools with an error.
                assert!(none.sent.is_empty(), "{none:?}");
                assert_eq!(
                    none.bad(),
                    "Airflow 2 cannot show a pool without limit any more: give it many slots instead"
                );
            }
            hand.act(&place, set(before.slots), Some(0)).await.good();
            assert_eq!(hand.airflow.pool(name).await.unwrap().slots, before.slots);
        }
        let nope = Action::Slots {
            pool: "nope".into(),
            slots: 1,
        };
        assert_eq!(
            hand.act(&place, nope, None).await.bad(),
            "the server has no pool nope"
        );
    }
}

#[tokio::test]
async fn days_are_run_again_ended_and_marked_on_both_versions() {
    for server in [three(), two()] {
        let hand = Hand::admin(server);
        let days = ("2022-07-01", "2022-07-09");
        let dag = "events_daily";
        let place = target(dag, "UTC", days, None);
        hand.sweep(&place, days).await;
        hand.trigger(dag, "2022-07-01", serde_json::json!({"exit": 3}))
            .await;
        hand.trigger(dag, "2022-07-02", serde_json::json!({})).await;
        hand.trigger(dag, "2022-07-03", serde_json::json!({"sleep": 600}))
            .await;
        let ready = |runs: &[Run]| {
            count(runs, &RunState::Success) == 1
                && count(runs, &RunState::Failed) == 1
                && count(runs, &RunState::Running) == 1
        };
        let runs = hand.until(&place, days, "one of each", ready).await;
        let started = |runs: &[Run], n: usize| runs[n].started;
        let tries = |task: &str, n: usize| {
            let (hand, task, run) = (&hand, task.to_owned(), runs[n].id.clone());
            async move {
                let tasks = hand.airflow.tasks(dag, &run).await.unwrap().rows;
                tasks.iter().find(|t| t.task == task).unwrap().try_number
            }
        };

        // Both that are over run again once, whatever is lost; the one that runs is left alone.
        let said = hand
            .act(
                &place,
                rerun(&["2022-07-01", "2022-07-02", "2022-07-03"]),
                Some(0),
            )
            .await
            .good();
        assert!(
            said.starts_with("2022-07-01 and 2022-07-02 run again ("),
            "{said}"
        );
        assert!(
            said.ends_with("; 2022-07-03 was under way already and left alone"),
            "{said}"
        );
        let runs = hand
            .until(&place, days, "over again", |r| {
                let both = |n: usize| started(r, n).is_some() && started(r, n) != started(&runs, n);
                both(0) && both(1) && over(&r[..2])
            })
            .await;
        assert_eq!((tries("load", 0).await, tries("load", 1).await), (2, 2));

        // Only what failed.
        let failed_only = Action::Rerun {
            chunks: chunks(&["2022-07-01", "2022-07-02"]),
            failed_only: true,
        };
        let said = hand.act(&place, failed_only, None).await.good();
        assert!(said.contains("nothing had failed in 2022-07-02"), "{said}");
        hand.until(&place, days, "over again", |r| {
            started(r, 0).is_some() && started(r, 0) != started(&runs, 0) && over(&r[..2])
        })
        .await;
        assert_eq!((tries("load", 0).await, tries("load", 1).await), (3, 2));

        let mark = |days: &[&str], done| Action::Mark {
            chunks: chunks(days),
            done,
        };
        let said = hand
            .act(
                &place,
                mark(&["2022-07-01", "2022-07-02", "2022-07-03", "2022-07-04"], true),
                None,
            )
            .await
            .bad();
        assert_eq!(
            said,
            "2022-07-01 is marked done; 2022-07-02 was done already; 2022-07-03 was running, and what runs cannot be \
             marked: end it first; 2022-07-04 has no run to mark"
        );
        let said = hand
            .act(&place, mark(&["2022-07-02"], false), Some(0))
            .await
            .good();
        assert_eq!(said, "2022-07-02 is marked failed");
        let runs = hand.runs(&place, days).await;
        assert_eq!(
            (&runs[0].state, &runs[1].state),
            (&RunState::Success, &RunState::Failed)
        );

        let stop = Action::Stop {
            chunks: chunks(&["2022-07-01", "2022-07-02", "2022-07-03"]),
        };
        let said = hand.act(&place, stop.clone(), None).await.good();
        assert_eq!(said, "2022-07-03 was ended, and marked failed");
        let runs = hand.runs(&place, days).await;
        assert_eq!(runs[2].state, RunState::Failed);
        assert_eq!(hand.act(&place, stop, None).await.good(), "nothing of it runs");
    }
}

#[tokio::test]
async fn without_the_permission_nothing_is_done_and_the_server_is_quoted() {
    let admin = Hand::admin(three());
    let hand = Hand::new(three(), "viewer");
    let days = ("2022-09-01", "2022-09-02");
    let place = target("events_daily", "UTC", days, None);
    admin.sweep(&place, days).await;
    admin
        .trigger("events_daily", "2022-09-01", serde_json::json!({}))
        .await;
    admin.until(&place, days, "over", over).await;
    let said = hand.act(&place, rerun(&["2022-09-01"]), None).await.bad();
    assert!(
        said.starts_with("nothing runs again; 2022-09-01: not cleared: real: 403, this user may not do that"),
        "{said}"
    );
    let slots = Action::Slots {
        pool: "backfill_pool".into(),
        slots: 9,
    };
    let said = hand.act(&place, slots, None).await.bad();
    assert!(
        said.starts_with("pool backfill_pool still has 2 slots: real: 403, this user may not do that"),
        "{said}"
    );
}

/// Runs of such a DAG have no logical date; a clear goes by their id, a day by the date of their partition.
#[tokio::test]
async fn a_partition_is_run_again_ended_and_marked_as_any_day() {
    let hand = Hand::admin(three());
    let dag = "partitioned_daily";
    let place = target(dag, "UTC", ("2022-11-01", "2022-11-03"), None);
    let id = "theirs__2022-11-02";
    let state = || async { hand.airflow.run(dag, id).await.unwrap().map(|r| r.state) };
    while state().await.is_some() {
        let _ = hand.airflow.mark_run(dag, id, Mark::Failed).await;
        let _ = hand.airflow.delete_run(dag, id).await;
    }
    let order = Trigger {
        dag: dag.to_owned(),
        run: id.to_owned(),
        logical_date: None,
        interval: None,
        conf: serde_json::Map::new(),
        note: None,
        partition_key: Some("2022-11-02".to_owned()),
    };
    let first = hand.airflow.trigger(&order).await.unwrap().queued_at;
    while state().await != Some(RunState::Success) {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let said = hand
        .act(&place, rerun(&["2022-11-01", "2022-11-02"]), Some(0))
        .await
        .bad();
    assert!(said.starts_with("2022-11-02 runs again ("), "{said}");
    assert!(
        said.ends_with("; 2022-11-01 has no run to clear: make a native backfill over it"),
        "{said}"
    );
    assert!(hand.airflow.run(dag, id).await.unwrap().unwrap().queued_at > first);
    while state().await != Some(RunState::Success) {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    let mark = Action::Mark {
        chunks: chunks(&["2022-11-02"]),
        done: false,
    };
    assert_eq!(
        hand.act(&place, mark, None).await.good(),
        "2022-11-02 is marked failed"
    );
    assert_eq!(state().await, Some(RunState::Failed));
}
