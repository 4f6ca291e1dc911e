//! `backfill simulate` at a prompt and in a script: a wrong file is told with its places, a long run shows that it is
//! alive and ends at once when it is told to.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pty;

use pty::Session;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};

const TOY: &str = include_str!("../assets/scenarios/toy.toml");

fn written(dir: &tempfile::TempDir, text: &str) -> PathBuf {
    let file = dir.path().join("night.toml");
    fs::write(&file, text).unwrap();
    file
}

fn simulate(file: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_backfill"))
        .arg("simulate")
        .arg(file)
        .args(more)
        .output()
        .unwrap()
}

fn json(out: &Output) -> Value {
    assert_eq!(String::from_utf8_lossy(&out.stdout).lines().count(), 1, "{out:?}");
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn a_wrong_scenario_is_told_to_a_script_with_file_line_column_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = TOY
        .replace("max_limit = 16", "max_limt = 16")
        .replace("soft = 60", "soft = \"60s\"");
    let file = written(&dir, &wrong);
    let out = simulate(&file, &["--json"]);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    let error = json(&out)["error"].take();
    let places = error["where"].as_array().unwrap();
    let place = |key: &str| places.iter().find(|p| p["key"] == key).unwrap();
    let unknown = place("backfill.max_limt");
    assert_eq!(
        (&unknown["line"], &unknown["column"]),
        (&9.into(), &1.into()),
        "{error}"
    );
    assert!(unknown["file"].as_str().unwrap().ends_with("night.toml"));
    assert!(unknown["hint"].as_str().unwrap().contains("max_limit"), "{error}");
    let line = wrong.lines().position(|l| l.starts_with("soft")).unwrap() + 1;
    assert_eq!(place("signal.soft")["line"], line, "{error}");
}

#[test]
fn what_is_no_scenario_file_at_all_has_a_place_too() {
    let dir = tempfile::tempdir().unwrap();
    let large = written(&dir, &"#".repeat(1024 * 1024 + 1));
    let noise = dir.path().join("noise.toml");
    fs::write(&noise, b"seed = 1\n\xff\n").unwrap();
    for (file, found) in [
        (large, "more than 1 MiB"),
        (noise, "a byte in line 2 that is not UTF-8"),
        (dir.path().to_owned(), "something that is no ordinary file"),
        (dir.path().join("absent.toml"), "no way to read it"),
    ] {
        let out = simulate(&file, &["--json"]);
        assert_eq!(out.status.code(), Some(2), "{out:?}");
        let place = json(&out)["error"]["where"][0].take();
        assert_eq!(place["key"], "file", "{place}");
        assert!(place["found"].as_str().unwrap().starts_with(found), "{place}");
        assert_eq!(place["file"], file.display().to_string(), "{place}");
    }
}

/// The bound keeps to it, so the policy does, too.
#[test]
fn a_fixed_limit_is_at_most_that_of_the_scenario() {
    let dir = tempfile::tempdir().unwrap();
    let short = TOY.replace("36h", "4h");
    let out = simulate(
        &written(&dir, &short),
        &["--policy", "fixed:16,fixed:64", "--json"],
    );
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let policies = json(&out)["policies"].take();
    assert_eq!(policies[1]["policy"], "fixed:64");
    assert_eq!(policies[0]["mean"], policies[1]["mean"]);
}

#[test]
fn without_a_bound_the_shares_are_null_and_the_command_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let beyond = TOY
        .replace("capacity = 1750", "capacity = 900")
        .replace("day_swing = 0.35", "")
        .replace("36h", "4h");
    let file = written(&dir, &beyond);
    let out = simulate(&file, &["--policy", "fixed:2", "--seeds", "2", "--json"]);
    assert_eq!(
        (out.status.code(), out.stderr.as_slice()),
        (Some(0), b"".as_slice()),
        "{out:?}"
    );
    let report = json(&out);
    assert!(
        report["bound_chunks"].is_null() && report["seeds_without_bound"] == 2,
        "{report}"
    );
    let mean = &report["policies"][0]["mean"];
    assert!(
        mean["share_of_oracle"].is_null() && mean["work_share"].is_null(),
        "{report}"
    );
    assert!(mean["chunks_done"].as_f64().unwrap() > 10.0, "{report}");
    let words = simulate(&file, &["--policy", "fixed:2", "--seeds", "2"]);
    let words = String::from_utf8(words.stdout).unwrap();
    assert!(
        words.contains("the live load alone is beyond the capacity"),
        "{words}"
    );
}

/// A month, a thousand seeds: hours.
#[test]
fn a_long_run_says_at_a_terminal_how_far_it_is_never_on_standard_output_and_ctrl_c_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = written(&dir, &TOY.replace("36h", "744h"));
    let out = dir.path().join("out");
    // The shell outlives the program, to tell how it ended.
    let script = "trap : INT; \"$0\" simulate \"$1\" --seeds 1000 --policy fixed:4,onoff --json > \"$2\"; echo \"ended $?\"";
    let program = env!("CARGO_BIN_EXE_backfill");
    let (file, told) = (file.display().to_string(), out.display().to_string());
    let mut session = Session::run(80, 24, &["sh", "-c", script, program, &file, &told]);
    session.wait_for(" of 1000, policy ");
    session.wait_for(" of 2), hour ");
    let at = Instant::now();
    session.keys("\x03");
    session.wait_for("ended 130");
    assert!(at.elapsed() < Duration::from_secs(5), "{:?}", at.elapsed());
    assert_eq!(session.wait_end(), 0);
    assert_eq!(fs::read_to_string(out).unwrap(), "");
}
