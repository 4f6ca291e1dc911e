//! In which order chunks start, what one chunk's trouble does to the others, and how an order ends.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::domain::{failure::FailureClass, state::ChunkState};
use std::fs;
use support::{Setup, Workspace, ms};

fn days_started(workspace: &Workspace) -> Vec<String> {
    let day = |a: &String| a.split('/').nth(1).unwrap().to_owned();
    workspace.started().iter().map(day).collect()
}

fn days_planned(workspace: &Workspace) -> Vec<String> {
    let plan = workspace.call(&["plan", "orders", "--all", "--json"]).ok().json();
    let chunks = plan["chunks"].as_array().unwrap_or_else(|| panic!("{plan}"));
    chunks
        .iter()
        .map(|c| c["chunk"].as_str().unwrap().to_owned())
        .collect()
}

/// Case B20.
#[test]
fn at_limit_one_chunks_start_in_the_order_that_the_plan_shows() {
    for (order, first) in [
        ("\"oldest-first\"", "2023-01-01"),
        ("\"newest-first\"", "2023-01-07"),
        ("[2023-01-05, 2023-01-02]", "2023-01-05"),
    ] {
        let workspace = Setup::new(7, 1)
            .slots(4)
            .order_more(&format!("order = {order}"))
            .open();
        let planned = days_planned(&workspace);
        assert_eq!((planned.len(), planned[0].as_str()), (7, first));
        assert_eq!(workspace.run("orders").end(), 0);
        assert_eq!(days_started(&workspace), planned, "{order}");
    }
}

/// Case B20: a human's re-run is the next start, and waits for a slot like any other.
#[test]
fn a_rerun_is_the_next_start_inside_the_same_limit() {
    let workspace = Setup::new(8, 1)
        .job("mark start\nwhile [ -e hold ]; do sleep 0.02; done\nmark end")
        .open();
    let mut run = workspace.run("orders");
    workspace.wait("progress", || (workspace.done("orders") >= 2).then_some(()));
    let hold = workspace.path("hold");
    fs::write(&hold, "").unwrap();
    workspace.wait("one to run", || {
        (workspace.in_state("orders", ChunkState::Running) == 1
            && workspace.started().len() == workspace.ended().len() + 1)
            .then_some(())
    });
    let before = workspace.started().len();
    workspace.call(&["rerun", "orders", "2023-01-01", "--yes"]).ok();
    std::thread::sleep(ms(300));
    assert_eq!(workspace.started().len(), before, "it waits for the slot");
    fs::remove_file(hold).unwrap();
    assert_eq!(run.end(), 0);
    assert_eq!(
        days_started(&workspace)[before],
        "2023-01-01",
        "{:?}",
        workspace.started()
    );
    assert_eq!(workspace.most_at_a_time(), 1);
}

/// Case B09: the others go on in the other slots however long one takes.
#[test]
fn a_straggler_holds_up_its_own_slot_only() {
    let workspace = Setup::new(16, 4)
        .job(
            "mark start\nif [ $1 = 2023-01-01 ]; then\n  \
             until [ $(grep -c '^end ' marks) -ge 15 ]; do sleep 0.02; done\nfi\nmark end",
        )
        .open();
    assert_eq!(workspace.run("orders").end(), 0, "{}", workspace.told());
    assert!(workspace.ended()[15].contains("2023-01-01"));
}

/// Case B14.
#[test]
fn three_permanent_failures_leave_all_others_done_and_the_order_incomplete() {
    let workspace = Setup::new(120, 4)
        .job("mark start\ncase $1 in 2023-01-20|2023-02-20|2023-03-20) exit 65 ;; esac")
        .open();
    assert_eq!(workspace.run("orders").end(), 1, "{}", workspace.told());
    assert_eq!(workspace.done("orders"), 117);
    assert_eq!(workspace.in_state("orders", ChunkState::Quarantined), 3);
    let (code, status) = workspace.status("orders");
    assert_eq!((code, status["state"].as_str()), (1, Some("incomplete")));
    assert_eq!(status["needs_you"], 3);
}

/// Case B14.
#[test]
fn stop_after_two_failures_starts_nothing_after_the_second() {
    let workspace = Setup::new(30, 1)
        .order_more("on_failure = \"stop_after:2\"")
        .job("mark start\ncase $1 in 2023-01-03|2023-01-06) exit 65 ;; esac")
        .open();
    assert_eq!(workspace.run("orders").end(), 1, "{}", workspace.told());
    assert_eq!(workspace.started().len(), 6);
    assert_eq!(workspace.done("orders"), 4);
    let why = workspace
        .call(&["why", "orders", "2023-01-07", "--json"])
        .ok()
        .json();
    assert_eq!(why["reason"], "incomplete", "{why}");
}

/// Case B36: what goes wrong in the adapter itself counts as an attempt of that chunk, backs off, and ends in
/// quarantine after its budget; the others proceed.
#[test]
fn trouble_of_the_executor_with_one_chunk_ends_in_that_chunks_quarantine() {
    let workspace = Setup::new(10, 2)
        .job("mark start\nwhile [ -e hold ]; do sleep 0.02; done")
        .open();
    let hold = workspace.path("hold");
    fs::write(&hold, "").unwrap();
    let mut run = workspace.run("orders");
    workspace.wait("two to run", || (workspace.started().len() == 2).then_some(()));
    let id = workspace.backfill("orders").unwrap().id;
    // A file where the folder of the fifth day's attempts has to be.
    fs::write(workspace.path(&format!("state/attempts/{id}/2023-01-05")), "").unwrap();
    fs::remove_file(hold).unwrap();
    assert_eq!(run.end(), 1, "{}", workspace.told());
    assert_eq!(workspace.done("orders"), 9);
    let backfill = workspace.backfill("orders").unwrap();
    let chunk = backfill.chunk("2023-01-05".parse().unwrap()).unwrap();
    assert_eq!(chunk.state, ChunkState::Quarantined);
    assert_eq!(chunk.attempts.len(), 11, "ten retries of a platform failure");
    for attempt in &chunk.attempts {
        assert_eq!(attempt.failure.as_ref().unwrap().class, FailureClass::Platform);
    }
    assert!(workspace.started().iter().all(|a| !a.contains("2023-01-05")));
}

/// The end of a timed pause lifts that pause; what `on_failure` stopped waits for a human.
#[test]
fn a_pause_that_ends_by_itself_does_not_lift_a_stop_on_failure() {
    let workspace = Setup::new(10, 2)
        .order_more("on_failure = \"stop\"")
        .job("mark start\nwhile [ -e hold ]; do sleep 0.02; done\n[ $1 != 2023-01-02 ] || exit 65")
        .open();
    let hold = workspace.path("hold");
    fs::write(&hold, "").unwrap();
    let mut run = workspace.run("orders");
    workspace.wait("two to run", || (workspace.started().len() == 2).then_some(()));
    // One held day keeps the order from ending, so that the pause can end while it is supervised.
    workspace.call(&["pause", "orders", "--for", "1s"]).ok();
    fs::remove_file(hold).unwrap();
    workspace.wait("the stop", || workspace.backfill("orders")?.stopped);
    run.end();
    std::thread::sleep(ms(1200));
    assert_eq!(workspace.run("orders").end(), 1, "{}", workspace.told());
    assert_eq!(workspace.started().len(), 2, "{}", workspace.told());
    assert!(workspace.backfill("orders").unwrap().stopped.is_some());
}
