//! What a newcomer meets at the prompt: each answer is true, says what to type, and names no key of the screen.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::domain::state::ChunkState;
use std::fs;
use support::{Setup, Workspace};

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
