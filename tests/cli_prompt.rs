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
    assert_eq!(
        (&status["running"], &status["ended_unwatched"]),
        (&2.into(), &json!([]))
    );
    fs::remove_file(workspace.path("hold")).unwrap();
    let status = workspace.wait("both ends in the files", || {
        let (_, status) = workspace.status("orders");
        (status["ended_unwatched"].as_array()?.len() == 2).then_some(status)
    });
    assert_eq!(
        (&status["running"], &status["under_way"]),
        (&0.into(), &json!([]))
    );
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
    assert_eq!(
        first["mend"],
        "mend the cause, then backfill close-breaker orders"
    );
    let text = first["text"].as_str().unwrap();
    assert!(text.contains("3 chunks in a row"), "{text}");
}

#[test]
fn the_plan_of_a_started_order_shows_what_would_still_run() {
    let workspace = unwatched(6, 2);
    workspace.call(&["hold", "orders", "2023-01-06"]).ok();
    let plan = workspace.call(&["plan", "orders", "--all"]).ok().out;
    assert!(
        plan.contains("  overwrites  3 of 6 partitions of datamart.orders still (1 held, 2 running)\n")
            && plan.contains("  order\n    2023-01-03\n    2023-01-04\n    2023-01-05\n  plan "),
        "{plan}"
    );
    let plan = workspace.call(&["plan", "orders", "--json"]).ok().json();
    assert_eq!(
        (plan["chunks"].as_array().unwrap().len(), &plan["started"]["of"]),
        (3, &6.into())
    );
}

#[test]
fn what_helps_is_a_command_that_can_be_typed() {
    let workspace = unwatched(4, 2);
    let _run = workspace.run("orders");
    workspace.wait("a supervisor", || {
        (workspace.call(&["status", "--json"]).json()["supervised"] == true).then_some(())
    });
    let helps = |day: &str| workspace.call(&["why", "orders", day, "--json"]).ok().json()["unblock"].clone();
    workspace.wait("both to be adopted", || {
        (helps("2023-01-01") == "backfill stop-runs orders 2023-01-01").then_some(())
    });
    assert_eq!(
        helps("2023-01-03"),
        "set a larger max_limit, then backfill amend orders"
    );
    workspace.call(&["throttle", "orders", "cap", "1"]).ok();
    assert_eq!(helps("2023-01-03"), "backfill throttle orders auto");
    workspace.call(&["hold", "orders", "2023-01-04"]).ok();
    assert_eq!(
        helps("2023-01-04"),
        "release it: backfill release orders 2023-01-04"
    );

    let plan = workspace
        .call(&[
            "skip",
            "orders",
            "2023-01-01",
            "2023-01-03",
            "--dry-run",
            "--json",
        ])
        .ok()
        .json();
    assert_eq!(
        plan["same_as"],
        "backfill skip orders 2023-01-01 2023-01-03 --yes"
    );
    assert_eq!(
        plan["will_not"][0][1], "running now; backfill stop-runs orders 2023-01-01 stops it",
        "{plan}"
    );
    assert_eq!(
        plan["facts"][1][1], "re-run the days: backfill rerun orders 2023-01-01 2023-01-03",
        "{plan}"
    );
}

#[test]
fn where_the_order_was_changed_and_the_breaker_is_open_amend_comes_first() {
    let (workspace, run) = broken();
    workspace.write_config(&workspace.text().replace("max_limit = 1\n", "max_limit = 3\n"));
    let said = workspace.call(&["status", "--json"]).json();
    assert_eq!(
        said["attention"][0]["mend"],
        "backfill amend orders, then backfill close-breaker orders"
    );
    let first = "backfill amend orders, then: ";
    let unblock = said["backfills"][0]["reason"]["unblock"].as_str().unwrap();
    assert!(unblock.starts_with(first), "{unblock}");
    run.kill();
    let why = workspace.call(&["why", "orders", "2023-01-05", "--json"]).json();
    assert!(why["unblock"].as_str().unwrap().starts_with(first), "{why}");
}

#[test]
fn run_says_why_nothing_starts_and_that_the_configuration_has_changed() {
    let (workspace, run) = broken();
    let told = workspace.wait("the reason", || {
        let told = workspace.told();
        told.contains("nothing starts: ").then_some(told)
    });
    let line = told.lines().find(|l| l.contains("nothing starts: ")).unwrap();
    assert!(
        line.contains("3 chunks in a row")
            && line.ends_with("[mend the cause, then backfill close-breaker orders]"),
        "{line}"
    );
    run.kill();
    workspace.write_config(&workspace.text().replace("max_limit = 1\n", "max_limit = 3\n"));
    fs::remove_file(workspace.path("run.out")).unwrap();
    let _run = workspace.run("orders");
    let out = workspace.wait("the warning", || {
        let out = fs::read_to_string(workspace.path("run.out")).ok()?;
        out.contains("nothing starts: ").then_some(out)
    });
    assert!(
        out.contains("the configuration differs from the started order: ")
            && out.contains("max_limit")
            && out.contains("; take it over: `backfill amend orders`")
            && out.contains(
                "[backfill amend orders, then: mend the cause, then backfill close-breaker orders]"
            ),
        "{out}"
    );
    workspace.call(&["pause", "orders", "--reason", "incident"]).ok();
    workspace.call(&["close-breaker", "orders"]).ok();
    let out = workspace.wait("the next reason", || {
        let out = fs::read_to_string(workspace.path("run.out")).ok()?;
        (out.matches("nothing starts: ").count() == 2).then_some(out)
    });
    let line = out.lines().rfind(|l| l.contains("nothing starts: ")).unwrap();
    assert!(line.contains("paused") && line.contains("incident"), "{line}");
    assert!(line.ends_with("[backfill resume orders]"), "{line}");
}

#[test]
fn all_that_failed_of_an_order_is_run_again_without_naming_days() {
    let workspace = Setup::new(4, 1)
        .job("mark start\n[ -e mended ] || [ $1 != 2023-01-02 ] || exit 65")
        .open();
    assert_eq!(workspace.run("orders").end(), 1, "{}", workspace.told());
    assert_eq!(
        workspace.call(&["rerun", "orders", "--yes"]).code,
        2,
        "it is not guessed at"
    );
    fs::write(workspace.path("mended"), "").unwrap();
    let said = workspace.call(&["rerun", "orders", "--failed", "--yes"]).ok();
    assert!(said.out.contains("recorded for 1 chunk"), "{said:?}");
    assert_eq!(workspace.run("orders").end(), 0, "{}", workspace.told());
    assert_eq!(workspace.started().len(), 5);
}

#[test]
fn a_log_without_a_line_and_a_day_without_an_attempt_are_told_apart() {
    let workspace = unwatched(3, 1);
    let said = workspace.call(&["logs", "orders", "2023-01-01"]).ok();
    assert_eq!(
        (said.out.as_str(), said.err.as_str()),
        ("", "(nothing written)\n")
    );
    let said = workspace.call(&["logs", "orders", "2023-01-03"]);
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains("2023-01-03 has not started yet (pending)"),
        "{said:?}"
    );
}

#[test]
fn a_reader_of_completions_may_go_away() {
    let workspace = Setup::new(1, 1).open();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = workspace
        .program(&["completions", "bash"])
        .stdout(writer)
        .stderr(std::process::Stdio::piped())
        .output()
        .unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}
