//! What operators' commands do to the work, through the real program: hold, skip, re-run, resolve, cap,
//! amend, and what they say and exit with.
//!
//! Reason for its length: one test a command, each with its words, its JSON and its exit code.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::domain::{event::Payload, state::ChunkState};
use std::{
    fs,
    io::{Read as _, Write as _},
    path::PathBuf,
};
use support::{Setup, Workspace, ms};

/// Jobs that run until the file `hold` is gone.
const UNTIL_LET_GO: &str = "mark start\nwhile [ -e hold ]; do sleep 0.02; done\nmark end";

fn hold(workspace: &Workspace) -> PathBuf {
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

#[test]
fn held_days_wait_skipped_days_count_and_released_days_run() {
    let workspace = Setup::new(8, 1).job(UNTIL_LET_GO).open();
    let hold = hold(&workspace);
    let mut run = workspace.run("orders");
    running(&workspace, 1);
    let said = workspace
        .call(&[
            "hold",
            "orders",
            "2023-01-03..2023-01-05",
            "--reason",
            "late data",
        ])
        .ok();
    assert_eq!(said.out, "held 3 chunks of 3\n");
    let said = workspace
        .call(&["skip", "orders", "2023-01-04", "--yes", "--json"])
        .ok()
        .json();
    assert_eq!(said["supervised"], true);
    fs::remove_file(hold).unwrap();
    workspace.wait("the others", || (workspace.done("orders") == 5).then_some(()));
    std::thread::sleep(ms(200));
    assert_eq!(workspace.started().len(), 5);
    assert_eq!(run.end(), 1, "nothing can move without a human");
    let why = workspace
        .call(&["why", "orders", "2023-01-03", "--json"])
        .ok()
        .json();
    assert_eq!(why["reason"], "hold");
    assert_eq!(why["text"], "held by minh: late data");

    let said = workspace
        .call(&["release", "orders", "2023-01-03", "2023-01-05"])
        .ok();
    assert!(
        said.out
            .starts_with("released 2 chunks of 2; nobody supervises now"),
        "{said:?}"
    );
    let mut run = workspace.run("orders");
    assert_eq!(run.end(), 0, "{}", workspace.told());
    assert!(starts_of(&workspace, "2023-01-04").is_empty());
    assert_eq!(workspace.started().len(), 7);
    let refused = workspace.call(&["hold", "orders", "2023-01-03"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("2023-01-03 is done: nothing to hold"),
        "{refused:?}"
    );
}

/// Case B18.
#[test]
fn a_rerun_of_the_failed_runs_exactly_those_and_the_others_keep_their_attempts() {
    let workspace = Setup::new(10, 3)
        .job("mark start\ncase $1 in 2023-01-0[258]) [ -e mended ] || exit 65 ;; esac")
        .open();
    assert_eq!(workspace.run("orders").end(), 1, "{}", workspace.told());
    assert_eq!(workspace.in_state("orders", ChunkState::Quarantined), 3);
    assert_eq!(workspace.status("orders").0, 1);
    let range = "2023-01-01..2023-01-10";

    let before = workspace.state();
    let dry = workspace
        .call(&["rerun", "orders", range, "--failed", "--dry-run", "--json"])
        .ok()
        .json();
    let will: Vec<&str> = dry["will"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["chunk"].as_str().unwrap())
        .collect();
    assert_eq!(will, ["2023-01-02", "2023-01-05", "2023-01-08"]);
    assert_eq!(workspace.state(), before, "a dry run changes nothing");
    let refused = workspace.call(&["rerun", "orders", range, "--failed"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("add --yes to do it, --dry-run to look"),
        "{refused:?}"
    );
    assert_eq!(workspace.state(), before);

    fs::write(workspace.path("mended"), "").unwrap();
    let said = workspace
        .call(&[
            "rerun",
            "orders",
            range,
            "--failed",
            "--yes",
            "--reason",
            "source mended",
        ])
        .ok();
    assert!(
        said.out
            .starts_with("Re-run 3 quarantined days recorded for 3 chunks"),
        "{said:?}"
    );
    let asked = workspace.payloads().into_iter().find_map(|p| match p {
        Payload::RerunRequested { chunks, digest } => Some((chunks, digest)),
        _ => None,
    });
    let (chunks, digest) = asked.unwrap();
    assert_eq!(chunks.iter().map(ToString::to_string).collect::<Vec<_>>(), will);
    assert_eq!(digest, dry["digest"].as_str().unwrap());
    assert_eq!(workspace.run("orders").end(), 0, "{}", workspace.told());
    let seconds: Vec<String> = workspace
        .started()
        .into_iter()
        .filter(|a| a.ends_with("/2"))
        .collect();
    assert_eq!(seconds.len(), 3, "{seconds:?}");
    let backfill = workspace.backfill("orders").unwrap();
    let attempts = |day: &str| backfill.chunk(day.parse().unwrap()).unwrap().attempts.len();
    assert_eq!((attempts("2023-01-05"), attempts("2023-01-06")), (2, 1));
    let nothing = workspace.call(&["rerun", "orders", range, "--failed", "--yes"]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.err.contains("nothing to do"), "{nothing:?}");
}

/// Asked on a terminal, and the world changes before *yes* is typed: nothing is done.
#[test]
fn a_plan_that_changed_between_question_and_answer_is_not_carried_out() {
    let workspace = Setup::new(5, 3)
        .job("mark start\n[ $1 != 2023-01-02 ] && [ $1 != 2023-01-04 ] || exit 65")
        .open();
    workspace.run("orders").end();
    assert_eq!(workspace.in_state("orders", ChunkState::Quarantined), 2);

    let pair = portable_pty::native_pty_system()
        .openpty(portable_pty::PtySize::default())
        .unwrap();
    let mut command = portable_pty::CommandBuilder::new(env!("CARGO_BIN_EXE_backfill"));
    command.args(["--config", workspace.config().to_str().unwrap()]);
    command.args(["rerun", "orders", "2023-01-01..2023-01-05", "--failed"]);
    command.cwd("/");
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut screen = pair.master.try_clone_reader().unwrap();
    let mut seen = String::new();
    let mut bytes = [0; 4096];
    while !seen.contains("Type yes:") {
        let n = screen.read(&mut bytes).unwrap();
        assert!(n > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    workspace.call(&["skip", "orders", "2023-01-04", "--yes"]).ok();
    let before = workspace.state();
    pair.master.take_writer().unwrap().write_all(b"yes\n").unwrap();
    while let Ok(n) = screen.read(&mut bytes)
        && n > 0
    {
        seen.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    assert_eq!(child.wait().unwrap().exit_code(), 2, "{seen}");
    assert!(
        seen.contains("the plan changed meanwhile, nothing was done"),
        "{seen}"
    );
    assert!(seen.contains("2023-01-04"), "{seen}");
    assert_eq!(workspace.state(), before);
}

#[test]
fn a_human_says_what_became_of_runs_that_nobody_can_ask_about() {
    let workspace = Setup::new(4, 3).job(UNTIL_LET_GO).open();
    let hold = hold(&workspace);
    let run = workspace.run("orders");
    running(&workspace, 3);
    let refused = workspace.call(&["resolve", "orders", "2023-01-01", "done", "--reason", "seen"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.err.contains("only an uncertain chunk can be resolved"),
        "{refused:?}"
    );
    run.kill();
    let renamed = workspace.text().replace("[executors.here]", "[executors.there]");
    workspace.write_config(&renamed.replace("executor = \"here\"", "executor = \"there\""));
    let mut run = workspace.run("orders");
    workspace.wait("uncertainty", || {
        (workspace.in_state("orders", ChunkState::Uncertain) == 3).then_some(())
    });
    let (_, status) = workspace.status("orders");
    assert_eq!((&status["needs_you"], &status["running"]), (&3.into(), &3.into()));
    fs::remove_file(hold).unwrap();
    workspace.wait("the jobs' end", || (workspace.ended().len() == 3).then_some(()));
    let unreasoned = workspace.call(&["resolve", "orders", "2023-01-01", "done"]);
    assert_eq!(unreasoned.code, 2, "how does one know? {unreasoned:?}");
    for (day, verdict) in [
        ("2023-01-01", "done"),
        ("2023-01-02", "failed"),
        ("2023-01-03", "lost"),
    ] {
        let said = workspace
            .call(&[
                "resolve",
                "orders",
                day,
                verdict,
                "--reason",
                "looked at the table",
            ])
            .ok();
        assert_eq!(said.out, format!("{day} resolved\n"));
    }
    workspace.write_config(workspace.text());
    assert_eq!(
        run.end(),
        1,
        "one day failed by a human's word: {}",
        workspace.told()
    );
    assert_eq!(starts_of(&workspace, "2023-01-01").len(), 1);
    assert_eq!(
        starts_of(&workspace, "2023-01-03").len(),
        2,
        "what was lost runs again"
    );
    assert_eq!(workspace.in_state("orders", ChunkState::Failed), 1);
    assert_eq!(workspace.done("orders"), 3);
    workspace.assert_once_only();
}

/// Case B30.
#[test]
fn a_cap_drains_and_holds_over_a_force_and_auto_takes_both_away() {
    let workspace = Setup::new(3000, 3).job("mark start\nsleep 0.02\nmark end").open();
    let _run = workspace.run("orders");
    let limit = || {
        let (_, status) = workspace.status("orders");
        (
            status["limit"].as_u64().unwrap(),
            status["limit_by"].as_str().unwrap().to_owned(),
        )
    };
    workspace.wait("three at a time", || {
        (workspace.most_at_a_time() == 3).then_some(())
    });
    assert_eq!(
        workspace.call(&["throttle", "orders", "cap", "1"]).ok().out,
        "capped at 1\n"
    );
    assert_eq!(limit(), (1, "cap".to_owned()));
    workspace.wait("the drain", || {
        (workspace.backfill("orders").unwrap().running_weight() <= 1).then_some(())
    });
    fs::remove_file(workspace.path("marks")).unwrap();
    workspace.wait("ten more", || (workspace.ended().len() > 10).then_some(()));
    // The first line may be the end of a job that was under way.
    assert!(workspace.marks_at_a_time() <= 1, "{:?}", workspace.marks());

    workspace
        .call(&["throttle", "orders", "force", "2", "--for", "10m"])
        .ok();
    assert_eq!(limit(), (1, "cap".to_owned()), "a cap lowers a force, too");
    let said = workspace
        .call(&["throttle", "orders", "force", "40", "--for", "10m"])
        .ok();
    assert!(
        said.out
            .starts_with("recorded for 10m, to 3, max_limit (40 was asked for), but it does not count now: it is capped at 1"),
        "{said:?}"
    );
    workspace.call(&["throttle", "orders", "auto"]).ok();
    assert_eq!(limit(), (3, "max-limit".to_owned()));
    workspace.wait("three again", || (workspace.marks_at_a_time() == 3).then_some(()));
    for wrong in [
        vec!["throttle", "orders", "cap", "0"],
        vec!["throttle", "orders", "force", "2", "--for", "5h"],
        vec!["throttle", "orders", "force", "2"],
    ] {
        assert_eq!(workspace.call(&wrong).code, 2, "{wrong:?}");
    }
    assert_eq!(limit(), (3, "max-limit".to_owned()));
}

/// The supervisor appends all the time; that must not keep anybody from amending.
#[test]
fn a_changed_order_is_drift_until_it_is_amended_in_the_middle_of_a_run() {
    let workspace = Setup::new(3000, 1)
        .slots(4)
        .job("mark start\nsleep 0.02\nmark end")
        .open();
    let _run = workspace.run("orders");
    workspace.wait("progress", || (workspace.done("orders") > 3).then_some(()));
    workspace.write_config(&workspace.text().replace("max_limit = 1", "max_limit = 4"));
    let (_, status) = workspace.status("orders");
    assert_eq!(status["drift"].as_array().unwrap().len(), 1, "{status}");
    std::thread::sleep(ms(500));
    assert_eq!(
        workspace.most_at_a_time(),
        1,
        "a started order does not follow the file"
    );
    let dry = workspace.call(&["amend", "orders", "--dry-run"]).ok();
    assert!(dry.out.contains("max_limit"), "{dry:?}");
    for (round, to) in [4, 3, 4, 2, 4].into_iter().enumerate() {
        workspace.write_config(
            &workspace
                .text()
                .replace("max_limit = 1", &format!("max_limit = {to}")),
        );
        let amended = workspace.call(&["amend", "orders", "--yes"]);
        assert!(amended.code == 0, "round {round}: {amended:?}");
    }
    assert_eq!(workspace.status("orders").1["drift"], serde_json::json!([]));
    let agree = workspace.call(&["amend", "orders", "--yes"]).ok();
    assert!(agree.out.contains("nothing to amend"), "{agree:?}");
    workspace.wait("the new limit", || {
        (workspace.status("orders").1["limit"] == 4).then_some(())
    });
    workspace.wait("four at a time", || {
        (workspace.marks_at_a_time() == 4).then_some(())
    });
}

#[test]
fn events_are_lines_of_json_in_order_and_logs_are_what_the_job_printed() {
    let workspace = Setup::new(3, 1)
        .job("mark start\necho \"day $1 attempt $BACKFILL_ATTEMPT\"\n[ $1 != 2023-01-02 ] || exit 75")
        .tuning("retry_base", "10ms")
        .open();
    let run = workspace.run("orders");
    workspace.wait("a retry", || {
        (starts_of(&workspace, "2023-01-02").len() >= 2).then_some(())
    });
    run.kill();
    let text = workspace.call(&["events", "orders", "--json"]).ok().out;
    let events: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let seqs: Vec<u64> = events.iter().map(|e| e["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted() && seqs.len() > 10);
    for event in &events {
        assert!(event["kind"].is_string() && event["actor"].is_string(), "{event}");
        assert!(event["at"].as_str().unwrap().ends_with('Z'), "{event}");
    }
    assert_eq!(
        (&events[0]["kind"], &events[0]["actor"]),
        (&"started".into(), &"minh".into())
    );
    let last = workspace
        .call(&["events", "orders", "--json", "--last", "3"])
        .ok()
        .out;
    assert_eq!(
        last.lines().collect::<Vec<_>>(),
        text.lines()
            .rev()
            .take(3)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect::<Vec<_>>()
    );

    let newest = workspace.call(&["logs", "orders", "2023-01-01"]).ok();
    assert_eq!(newest.out, "day 2023-01-01 attempt 1\n");
    let first = workspace
        .call(&["logs", "orders", "2023-01-02", "--attempt", "1"])
        .ok();
    assert_eq!(first.out, "day 2023-01-02 attempt 1\n");
    for wrong in [
        vec!["logs", "orders", "2023-01-02", "--attempt", "77"],
        vec!["logs", "orders", "2024-01-02"],
        vec!["why", "orders", "yesterday"],
    ] {
        let said = workspace.call(&wrong);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(!said.err.is_empty());
    }
}

#[test]
fn unknown_names_give_near_names_and_change_nothing() {
    let workspace = Setup::new(2, 1).open();
    for wrong in [
        vec!["run", "ordres"],
        vec!["pause", "ordres"],
        vec!["status", "ordres"],
        vec!["rerun", "ordres", "2023-01-01", "--yes"],
        vec!["plan", "ordres"],
    ] {
        let said = workspace.call(&wrong);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains("did you mean orders?"), "{said:?}");
    }
    let early = workspace.call(&["pause", "orders"]);
    assert_eq!(early.code, 2);
    assert!(
        early
            .err
            .contains("orders has not been started: backfill run orders"),
        "{early:?}"
    );
    assert!(workspace.events().is_empty());
}

#[test]
fn read_only_looks_and_changes_nothing() {
    let workspace = Setup::new(3, 1).job(UNTIL_LET_GO).open();
    let early = workspace.call(&["--read-only", "status"]);
    assert!(
        !workspace.path("state").exists(),
        "looking makes no journal: {early:?}"
    );
    hold(&workspace);
    let _run = workspace.run("orders");
    running(&workspace, 1);
    let before = workspace.state();
    for refused in [
        vec!["--read-only", "pause", "orders"],
        vec!["--read-only", "run", "orders"],
        vec!["--read-only", "cancel", "orders", "--yes"],
        vec!["--read-only", "hold", "orders", "2023-01-02"],
        vec!["--read-only", "stop"],
        vec!["--read-only", "amend", "orders", "--yes"],
    ] {
        let said = workspace.call(&refused);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains("read-only"), "{said:?}");
    }
    let mut by_variable = workspace.program(&["pause", "orders"]);
    let said = by_variable.env("BACKFILL_READ_ONLY", "1").output().unwrap();
    assert_eq!(said.status.code(), Some(2));
    assert_eq!(workspace.state(), before);
    for looks in [
        vec!["--read-only", "status", "orders"],
        vec!["--read-only", "events", "orders"],
        vec!["--read-only", "why", "orders", "2023-01-02"],
        vec!["--read-only", "logs", "orders", "2023-01-01"],
        vec!["--read-only", "plan", "orders"],
    ] {
        workspace.call(&looks).ok();
    }
    assert_eq!(workspace.state(), before);
}

#[test]
fn every_command_without_a_supervisor_is_recorded_exits_0_and_says_so() {
    let workspace = Setup::new(6, 1).job(UNTIL_LET_GO).open();
    let hold = hold(&workspace);
    let run = workspace.run("orders");
    running(&workspace, 1);
    run.kill();
    for command in [
        vec!["hold", "orders", "2023-01-04"],
        vec!["release", "orders", "2023-01-04"],
        vec!["skip", "orders", "2023-01-05", "--yes"],
        vec!["pause", "orders"],
        vec!["resume", "orders"],
        vec!["throttle", "orders", "cap", "1"],
        vec!["throttle", "orders", "force", "2", "--for", "1m"],
        vec!["throttle", "orders", "auto"],
        vec!["rerun", "orders", "2023-01-05", "--yes"],
    ] {
        let said = workspace.call(&command).ok();
        assert!(
            said.out.contains("nobody supervises now"),
            "{command:?}: {said:?}"
        );
    }
    let (code, one) = workspace.status("orders");
    assert_eq!(
        (code, one["reason"]["reason"].as_str()),
        (1, Some("unsupervised"))
    );
    fs::remove_file(hold).unwrap();
    assert_eq!(workspace.run("orders").end(), 0, "{}", workspace.told());
    assert_eq!(workspace.done("orders"), 6);
}
