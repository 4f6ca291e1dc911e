//! What cancel ends, and that nothing cancelled starts by itself (cases B01, B16, B32).

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::domain::{event::Payload, state::ChunkState};
use std::{collections::BTreeSet, fs};
use support::{Setup, Workspace};

/// Jobs that run until the file `hold` is gone; TERM is answered with a mark, half a second of tidying up, and failure.
const UNTIL_TERM: &str = "mark start\ntrap 'mark term; sleep 0.5; exit 1' TERM\n\
                          while [ -e hold ]; do sleep 0.02; done\nmark end";

fn hold(workspace: &Workspace) -> std::path::PathBuf {
    let hold = workspace.path("hold");
    fs::write(&hold, "").unwrap();
    hold
}

fn running(workspace: &Workspace, n: usize) {
    workspace.wait("jobs to run", || {
        (workspace.in_state("orders", ChunkState::Running) == n).then_some(())
    });
}

fn starts_of(workspace: &Workspace, day: &str) -> Vec<String> {
    let started = workspace.started();
    started.into_iter().filter(|a| a.contains(day)).collect()
}

fn set(ids: &serde_json::Value) -> BTreeSet<String> {
    let list = ids.as_array().unwrap_or_else(|| panic!("{ids}"));
    list.iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}

/// Case B16.
#[test]
fn cancel_ends_what_runs_starts_nothing_and_is_cancelled_only_when_all_has_ended() {
    let workspace = Setup::new(12, 3).job(UNTIL_TERM).open();
    hold(&workspace);
    let mut run = workspace.run("orders");
    running(&workspace, 3);
    let refused = workspace.call(&["cancel", "orders"]);
    assert_eq!(refused.code, 2, "not without --yes where nobody can be asked");
    assert_eq!(workspace.backfill("orders").unwrap().cancel, None);

    let said = workspace
        .call(&["cancel", "orders", "--yes", "--reason", "wrong table", "--json"])
        .ok()
        .json();
    let under_way: BTreeSet<String> = workspace.started().into_iter().collect();
    assert_eq!(set(&said["in_flight"]), under_way, "{said}");
    let (code, status) = workspace.status("orders");
    assert_eq!(
        (code, status["state"].as_str()),
        (0, Some("cancelling")),
        "{status}"
    );
    assert_eq!(set(&status["under_way"]), under_way, "what still runs is listed");

    assert_eq!(run.end(), 1, "{}", workspace.told());
    assert_eq!(workspace.started().len(), 3, "nothing new");
    let terms = workspace
        .marks()
        .iter()
        .filter(|l| l.starts_with("term "))
        .count();
    assert_eq!(terms, 3, "each was really told to end");
    let (code, status) = workspace.status("orders");
    assert_eq!((code, status["state"].as_str()), (1, Some("cancelled")));
    assert_eq!(workspace.in_state("orders", ChunkState::Cancelled), 12);
    let events = workspace.payloads();
    let last_end = events
        .iter()
        .rposition(|p| matches!(p, Payload::RunEnded { .. }))
        .unwrap();
    let released = events
        .iter()
        .position(|p| matches!(p, Payload::LeaseReleased { .. }))
        .unwrap();
    assert!(last_end < released, "it was supervised to the last end");
}

/// Cases B01 and B32: nothing cancelled starts by itself, over a restart and a takeover; a re-run does, whatever
/// state the cancelled order was in.
#[test]
fn what_was_cancelled_starts_only_when_somebody_wants_it() {
    let workspace = Setup::new(6, 2).job(UNTIL_TERM).open();
    let hold = hold(&workspace);
    let run = workspace.run("orders");
    running(&workspace, 2);
    workspace.call(&["pause", "orders"]).ok();
    run.kill();
    // While nobody supervises, and two attempts run.
    let said = workspace.call(&["cancel", "orders", "--yes"]).ok();
    assert_eq!(
        said.out,
        "nobody supervises: the runs go on until a supervisor is there; `backfill run orders` stops them and starts \
         nothing; the cancel is recorded\n"
    );
    assert_eq!(workspace.status("orders").1["state"], "cancelling");
    assert_eq!(workspace.run("orders").end(), 1, "the next one ends what runs");
    assert_eq!(workspace.in_state("orders", ChunkState::Cancelled), 6);
    let again = workspace.call(&["run", "orders"]);
    assert_eq!(again.code, 1);
    assert!(
        again.err.contains("was cancelled: backfill run orders --again"),
        "{again:?}"
    );
    assert_eq!(workspace.started().len(), 2);

    fs::remove_file(hold).unwrap();
    let said = workspace.call(&["rerun", "orders", "2023-01-05", "--yes"]).ok();
    assert!(said.out.contains("nobody supervises now"), "{said:?}");
    let mut run = workspace.run("orders");
    assert_eq!(
        run.end(),
        1,
        "the other days stay cancelled: {}",
        workspace.told()
    );
    assert_eq!(workspace.started().len(), 3);
    assert_eq!(
        starts_of(&workspace, "2023-01-05").len(),
        1,
        "no pause of the old order"
    );
    assert_eq!(workspace.in_state("orders", ChunkState::Done), 1);
    assert_eq!(workspace.in_state("orders", ChunkState::Cancelled), 5);
    workspace.assert_once_only();
}

/// Case B32: an attempt that fails because it was stopped is not retried.
#[test]
fn a_stopped_run_is_cancelled_and_not_retried_and_the_others_go_on() {
    let workspace = Setup::new(4, 2).job(UNTIL_TERM).open();
    let hold = hold(&workspace);
    let run = workspace.run("orders");
    running(&workspace, 2);
    workspace
        .call(&["stop-runs", "orders", "2023-01-02", "--yes"])
        .ok();
    workspace.wait("the next day", || {
        (!starts_of(&workspace, "2023-01-03").is_empty()).then_some(())
    });
    assert_eq!(workspace.in_state("orders", ChunkState::Cancelled), 1);
    run.kill();
    let mut run = workspace.run("orders");
    fs::remove_file(hold).unwrap();
    assert_eq!(run.end(), 1, "incomplete: one day is cancelled");
    assert_eq!(starts_of(&workspace, "2023-01-02").len(), 1);
    assert_eq!(workspace.done("orders"), 3);
    let why = workspace
        .call(&["why", "orders", "2023-01-02", "--json"])
        .ok()
        .json();
    assert_eq!(
        (&why["reason"], &why["state"]),
        (&"cancelled".into(), &"cancelled".into())
    );
    assert_eq!(workspace.status("orders").0, 1);
}

/// Intents that a dead supervisor left behind do not start once the order is cancelled.
#[test]
fn a_cancel_while_nobody_supervises_withdraws_what_was_about_to_start() {
    let workspace = Setup::new(6, 3).open();
    let permission = workspace.path("may-die");
    fs::write(&permission, "").unwrap();
    let place = backfill::supervisor::kill_point::INTENTS_APPENDED;
    let mut run = workspace.run_with("orders", |c| {
        c.env("BACKFILL_TESTING", "1")
            .env("BACKFILL_KILL_AT", format!("{place}@{}", permission.display()));
    });
    workspace.wait("its death", || run.has_ended());
    workspace.call(&["cancel", "orders", "--yes"]).ok();
    assert_eq!(workspace.run("orders").end(), 1);
    assert!(workspace.started().is_empty());
    assert_eq!(workspace.status("orders").1["state"], "cancelled");
    assert_eq!(workspace.in_state("orders", ChunkState::Cancelled), 6);
}
