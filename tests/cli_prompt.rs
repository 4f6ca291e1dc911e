//! What a newcomer meets at the prompt: each answer is true, says what to type, and names no key of the screen.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::domain::state::ChunkState;
use serde_json::json;
use std::fs;
use support::{Running, Setup, Workspace};

/// Jobs that run until the file `hold` is gone.
const UNTIL_LET_GO: &str = "mark start\nwhile [ -e hold ]; do sleep 0.02; done\nmark end";

fn running(workspace: &Workspace, n: usize) {
    workspace.wait("jobs to run", || {
        (workspace.in_state("orders", ChunkState::Running) == n).then_some(())
    });
}

/// A workspace in which `n` jobs run and nobody supervises.
fn unwatched(days: u32, n: u32) -> Workspace {
    let workspace = Setup::new(days, n).job(UNTIL_LET_GO).open();
    fs::write(workspace.path("hold"), "").unwrap();
    let run = workspace.run("orders");
    running(&workspace, n as usize);
    run.kill();
    workspace
}

#[test]
fn a_stop_that_nobody_carries_out_says_so_first_and_its_recipe_stops_and_starts_nothing() {
    let workspace = unwatched(6, 2);
    let recipe = "nobody supervises: the runs go on until a supervisor is there; `backfill pause orders` and then \
                  `backfill run orders` stops them and starts nothing";
    let days = "2023-01-01..2023-01-02";
    let look = workspace.call(&["stop-runs", "orders", days, "--dry-run"]).ok();
    assert!(look.out.contains(&format!("but         {recipe}")), "{look:?}");
    let said = workspace
        .call(&["stop-runs", "orders", "2023-01-01", "--yes", "--json"])
        .ok()
        .json();
    assert_eq!(said["in_force"], false, "{said}");
    let said = workspace
        .call(&["stop-runs", "orders", "2023-01-02", "--yes"])
        .ok();
    assert!(said.out.starts_with(recipe), "{said:?}");

    workspace.call(&["pause", "orders"]).ok();
    let mut run = workspace.run("orders");
    workspace.wait("the runs to be stopped", || {
        (workspace.in_state("orders", ChunkState::Cancelled) == 2).then_some(())
    });
    workspace.call(&["stop"]).ok();
    run.end();
    assert_eq!(workspace.started().len(), 2, "nothing was started for it");
}

#[test]
fn attempts_that_ended_while_nobody_watched_are_not_called_running() {
    let workspace = unwatched(4, 2);
    let (_, status) = workspace.status("orders");
    assert_eq!((&status["running"], &status["ended_unwatched"]), (&2.into(), &json!([])));
    fs::remove_file(workspace.path("hold")).unwrap();
    let status = workspace.wait("both ends in the files", || {
        let (_, status) = workspace.status("orders");
        (status["ended_unwatched"].as_array()?.len() == 2).then_some(status)
    });
    assert_eq!((&status["running"], &status["under_way"]), (&0.into(), &json!([])));
    assert_eq!(status["counts"], json!({ "ended_unwatched": 2, "pending": 2 }));
    let said = workspace.call(&["status"]).out;
    let recorded = "ended while nobody watched; the next `backfill run` records how";
    assert!(
        said.contains(&format!("2 attempts {recorded}"))
            && said.contains(&format!("0 of 2 running  2 pending, 2 {recorded}"))
            && !said.contains("unwatched"),
        "{said}"
    );
    let why = workspace.call(&["why", "orders", "2023-01-01"]).ok().out;
    assert_eq!(
        why,
        format!("2023-01-01 ended unwatched: attempt 1 {recorded}\n  backfill run orders\n")
    );
    assert_eq!(workspace.run("orders").end(), 0, "{}", workspace.told());
    assert_eq!(workspace.started().len(), 4);
}

/// Jobs that fail alike until the breaker is open; the supervisor is still there.
fn broken() -> (Workspace, Running) {
    let workspace = Setup::new(8, 1)
        .tuning("breaker_row", "3")
        .tuning("breaker_retry", "1h")
        .tuning("retry_base", "1h")
        .tuning("retry_cap", "1h")
        .tuning("retry_cap_platform", "1h")
        .job("mark start\necho no such table >&2; exit 1")
        .open();
    let run = workspace.run("orders");
    workspace.wait("the breaker", || workspace.backfill("orders")?.breaker);
    (workspace, run)
}

#[test]
fn an_open_breaker_is_a_matter_for_attention_and_exits_1() {
    let (workspace, _run) = broken();
    let said = workspace.call(&["status", "--json"]);
    let first = &said.json()["attention"][0];
    assert_eq!((said.code, &first["reason"]), (1, &"breaker".into()), "{said:?}");
    assert_eq!(first["mend"], "mend the cause, then backfill close-breaker orders");
    let text = first["text"].as_str().unwrap();
    assert!(text.contains("3 chunks in a row"), "{text}");
}
