//! With `--json` a script never has to read prose: not what a command would do, and not why it failed.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use support::{Said, Setup};

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
