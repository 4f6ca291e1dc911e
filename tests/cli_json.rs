//! With `--json` a script never has to read prose: not what a command would do, and not why it failed.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::domain::state::ChunkState;
use serde_json::{Value, json};
use std::fs;
use support::{Said, Setup, Workspace};

/// Jobs that run until the file `hold` is gone.
const UNTIL_LET_GO: &str = "mark start\nwhile [ -e hold ]; do sleep 0.02; done\nmark end";

fn one_runs(workspace: &Workspace) {
    workspace.wait("a job to run", || {
        (workspace.in_state("orders", ChunkState::Running) == 1).then_some(())
    });
}

fn chunks(list: &Value) -> Vec<&str> {
    let chunk = |c: &Value| c.get("chunk").is_some();
    let all = list.as_array().unwrap().iter();
    all.map(|c| if chunk(c) { &c["chunk"] } else { &c[0] })
        .map(|c| c.as_str().unwrap())
        .collect()
}

/// Standard output is one line with one error; the prose is still there for people.
fn error(said: &Said) -> Value {
    assert_eq!(said.out.lines().count(), 1, "{said:?}");
    assert!(
        said.err.contains("backfill: ") || said.err.contains("error: "),
        "{said:?}"
    );
    let error = said.json()["error"].take();
    assert_eq!(error["code"], said.code, "{said:?}");
    assert!(!error["message"].as_str().unwrap().is_empty(), "{said:?}");
    error
}

#[test]
fn every_failure_is_one_object_with_the_exit_code_its_words_and_what_mends_it() {
    let workspace = Setup::new(3, 1).open();
    let unstarted = error(&workspace.call(&["pause", "orders", "--json"]));
    assert_eq!(unstarted["hint"], "backfill run orders", "{unstarted}");
    let near = error(&workspace.call(&["plan", "ordres", "--json"]));
    assert_eq!(near["hint"], "did you mean orders? configured: orders");
    assert_eq!(workspace.run("orders").end(), 0, "{}", workspace.told());
    for (arguments, code) in [
        (vec!["why", "ordres", "2023-01-01"], 2),
        (vec!["why", "orders", "2031-01-01"], 2),
        (vec!["rerun", "orders", "2023-01-01"], 2),
        (vec!["rerun", "orders", "2023-01-01", "--failed", "--yes"], 2),
        (vec!["pause", "orders"], 2),
        (vec!["throttle", "orders", "cap", "0"], 2),
        (vec!["hold", "orders", "2023-01-01"], 2),
        (vec!["logs", "orders", "2023-01-01", "--attempt", "9"], 2),
        (vec!["stop"], 2),
        (vec!["run", "ordres"], 2),
        (vec!["run", "orders", "--again"], 2),
    ] {
        let said = workspace.call(&[arguments.as_slice(), &["--json"]].concat());
        assert_eq!(said.code, code, "{arguments:?} {said:?}");
        error(&said);
        let prose = workspace.call(&arguments);
        assert_eq!(
            (prose.code, prose.out.as_str()),
            (code, ""),
            "{arguments:?} {prose:?}"
        );
        assert_eq!(prose.err, said.err, "{arguments:?}");
    }
}

#[test]
fn what_the_grammar_refuses_is_told_in_the_same_shape() {
    let workspace = Setup::new(1, 1).open();
    let said = workspace.call(&["status", "--json", "--resaon"]);
    let unknown = error(&said);
    assert_eq!(unknown["message"], "unexpected argument '--resaon' found");
    let missing = error(&workspace.call(&["--json", "pause"]));
    assert!(
        missing["message"].as_str().unwrap().contains("<NAME>"),
        "{missing}"
    );
    let help = workspace.call(&["status", "--help", "--json"]).ok();
    assert!(
        help.out.contains("Usage: backfill"),
        "help is no failure: {help:?}"
    );
}

#[test]
fn a_faulty_configuration_names_each_place_in_fields_of_its_own() {
    let workspace = Setup::new(1, 1).open();
    workspace.write_config(&workspace.text().replace("granularity", "granularty"));
    let faults = error(&workspace.call(&["plan", "orders", "--json"]));
    let places = faults["where"].as_array().unwrap();
    let unknown = places
        .iter()
        .find(|p| p["key"].as_str().unwrap().ends_with("granularty"))
        .unwrap_or_else(|| panic!("{faults}"));
    assert_eq!(
        (&unknown["line"], &unknown["column"]),
        (&json!(9), &json!(1)),
        "{faults}"
    );
    assert_eq!(unknown["file"], workspace.config().display().to_string());
    assert!(
        unknown["hint"].as_str().unwrap().contains("granularity"),
        "{faults}"
    );
}

#[test]
fn a_dry_run_of_hold_release_and_amend_is_the_same_object_as_that_of_rerun() {
    let workspace = Setup::new(5, 1).job(UNTIL_LET_GO).open();
    fs::write(workspace.path("hold"), "").unwrap();
    let _run = workspace.run("orders");
    one_runs(&workspace);
    let dry = |arguments: &[&str]| {
        let before = workspace.state();
        let said = workspace
            .call(&[arguments, &["--dry-run", "--json"]].concat())
            .ok()
            .json();
        assert_eq!(workspace.state(), before, "a dry run changes nothing");
        said
    };
    let range = "2023-01-01..2023-01-03";
    let held = dry(&["hold", "orders", range]);
    assert_eq!(held["title"], "Hold 2 days");
    assert_eq!(chunks(&held["will"]), ["2023-01-02", "2023-01-03"]);
    assert_eq!(chunks(&held["will_not"]), ["2023-01-01"], "it runs");
    for key in ["facts", "same_as", "class", "digest"] {
        assert!(!held[key].is_null(), "{key}: {held}");
    }
    let said = workspace.call(&["hold", "orders", range]).ok();
    assert_eq!(said.out, "held 2 chunks of 3\n", "what the dry run said");
    let released = dry(&["release", "orders", range]);
    assert_eq!(chunks(&released["will"]), ["2023-01-02", "2023-01-03"]);
    let again = workspace.call(&["hold", "orders", "2023-01-02", "--dry-run", "--json"]);
    assert_eq!(
        error(&again)["message"],
        "nothing to do for 2023-01-02: held already"
    );
    let prose = workspace.call(&["release", "orders", range, "--dry-run"]).ok();
    assert!(prose.out.contains("  will release 2023-01-02  held"), "{prose:?}");

    let agree = dry(&["amend", "orders"]);
    assert_eq!(agree["recorded"], false, "{agree}");
    workspace.write_config(&workspace.text().replace("max_limit = 1", "max_limit = 3"));
    let drift = dry(&["amend", "orders"]);
    assert_eq!(drift["title"], "Amend orders: 1 change");
}

#[test]
fn what_a_cancel_says_of_the_supervisor_does_not_contradict_itself() {
    // The supervisor confirms and ends with the order.
    let workspace = Setup::new(3, 1).job(UNTIL_LET_GO).open();
    fs::write(workspace.path("hold"), "").unwrap();
    let mut run = workspace.run("orders");
    one_runs(&workspace);
    let said = workspace
        .call(&["cancel", "orders", "--yes", "--json"])
        .ok()
        .json();
    assert_eq!(
        (&said["supervised"], &said["confirmed"]),
        (&json!(true), &json!(true)),
        "{said}"
    );
    run.end();

    // Nobody is there and nothing runs: it is cancelled all the same, and by nobody's word.
    let workspace = Setup::new(3, 1).job(UNTIL_LET_GO).open();
    fs::write(workspace.path("hold"), "").unwrap();
    let mut run = workspace.run("orders");
    one_runs(&workspace);
    workspace.call(&["pause", "orders"]).ok();
    fs::remove_file(workspace.path("hold")).unwrap();
    workspace.wait("its end", || (workspace.done("orders") == 1).then_some(()));
    workspace.call(&["stop"]).ok();
    run.end();
    let said = workspace
        .call(&["cancel", "orders", "--yes", "--json"])
        .ok()
        .json();
    assert_eq!(
        (&said["supervised"], &said["confirmed"]),
        (&json!(false), &json!(false)),
        "{said}"
    );
    assert_eq!(said["state"], "cancelled");
    assert_eq!(
        said["message"],
        "cancelled; nobody supervises, and nothing was under way"
    );
}
