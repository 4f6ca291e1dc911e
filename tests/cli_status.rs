//! What `status` and `why` say first: that nobody supervises, that the disk is full, what really holds the work up.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::domain::state::ChunkState;
use serde_json::Value;
use std::{fs, path::PathBuf};
use support::{
    PATIENCE, Setup, SmallDisk, Workspace,
    lag::{LagEndpoint, Mode},
};

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

fn why(workspace: &Workspace, day: &str) -> Value {
    workspace.call(&["why", "orders", day, "--json"]).ok().json()
}

#[test]
fn started_work_that_nobody_supervises_is_the_first_thing_said_and_exits_1() {
    let workspace = Setup::new(8, 2).job(UNTIL_LET_GO).open();
    let hold = hold(&workspace);
    let run = workspace.run("orders");
    running(&workspace, 2);
    let fine = workspace.call(&["status", "--json"]).ok().json();
    assert_eq!(fine["attention"], serde_json::json!([]), "{fine}");
    run.kill();

    let said = workspace.call(&["status"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(
        said.out.lines().next().unwrap(),
        "nobody supervises; 6 chunks wait, 2 attempts run unwatched; `backfill run orders` goes on"
    );
    let said = workspace.call(&["status", "--json"]);
    let first = &said.json()["attention"][0];
    assert_eq!(
        (said.code, &first["reason"], &first["mend"]),
        (1, &"unsupervised".into(), &"backfill run orders".into())
    );
    assert_eq!(said.json()["supervised"], false);

    workspace.call(&["pause", "orders"]).ok();
    let said = workspace.call(&["status"]);
    assert_eq!(said.code, 3, "paused is what a human wanted: {said:?}");
    assert!(
        said.out.starts_with("nobody supervises; 6 chunks wait"),
        "{said:?}"
    );
    workspace.call(&["resume", "orders"]).ok();

    fs::remove_file(hold).unwrap();
    assert_eq!(workspace.run("orders").end(), 0, "{}", workspace.told());
    let said = workspace.call(&["status"]).ok();
    assert!(
        said.out.starts_with("nobody supervises, and nothing waits\n"),
        "{said:?}"
    );
}

#[test]
fn an_open_breaker_is_told_although_nobody_supervises_and_no_key_promises_a_run() {
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
    assert_eq!(workspace.status("orders").1["reason"]["reason"], "breaker");
    run.kill();

    let (code, status) = workspace.status("orders");
    assert_eq!((code, &status["reason"]["reason"]), (1, &"unsupervised".into()));
    let text = status["why"].as_str().unwrap();
    assert!(
        text.starts_with("nobody supervises, so nothing starts; and even then: ")
            && text.contains("3 chunks in a row"),
        "{text}"
    );
    assert!(
        status["breaker"]["why"]
            .as_str()
            .unwrap()
            .contains("3 chunks in a row"),
        "{status}"
    );
    let failed = why(&workspace, "2023-01-01");
    assert_eq!(failed["reason"], "unsupervised", "{failed}");
    let unblock = failed["unblock"].as_str().unwrap();
    assert!(
        !unblock.contains("runs it now") && unblock.contains("backfill close-breaker orders"),
        "{failed}"
    );
}

#[test]
fn an_order_that_waits_for_held_days_alone_names_release() {
    let workspace = Setup::new(5, 1).job(UNTIL_LET_GO).open();
    let hold = hold(&workspace);
    let mut run = workspace.run("orders");
    running(&workspace, 1);
    workspace.call(&["hold", "orders", "2023-01-03..2023-01-04"]).ok();
    fs::remove_file(hold).unwrap();
    assert_eq!(run.end(), 1, "{}", workspace.told());
    let (code, status) = workspace.status("orders");
    assert_eq!((code, &status["state"]), (1, &"incomplete".into()));
    let unblock = status["reason"]["unblock"].as_str().unwrap();
    assert_eq!(unblock, "release: backfill release orders 2023-01-03..2023-01-04");
    workspace
        .call(&["release", "orders", "2023-01-03..2023-01-04"])
        .ok();
    assert_eq!(workspace.run("orders").end(), 0, "{}", workspace.told());
}

/// The floor is off, and still nobody has to guess what holds the work up.
#[test]
fn a_full_disk_is_said_even_where_the_floor_is_0() {
    let workspace = Setup::new(6, 1).tuning("disk_low", "0B").job(UNTIL_LET_GO).open();
    let Some(disk) = SmallDisk::mount(&workspace.path("state")) else {
        eprintln!("skipped: mounting a file system needs root");
        return;
    };
    let hold = hold(&workspace);
    let mut run = workspace.run("orders");
    running(&workspace, 1);
    disk.fill();
    let said = workspace.call(&["status"]);
    assert_eq!(said.code, 1, "{said:?}");
    let first = said.out.lines().next().unwrap();
    assert!(
        first.starts_with("the disk of the journal is full (0 B free beside ")
            && first.contains("journal.db): nothing can be recorded, so nothing starts"),
        "{first}"
    );
    assert!(
        first.ends_with("[make room on that disk; it goes on by itself]"),
        "{first}"
    );
    let (_, status) = workspace.status("orders");
    assert_eq!(status["reason"]["reason"], "disk", "{status}");
    let waits = why(&workspace, "2023-01-05");
    assert_eq!(waits["reason"], "disk", "{waits}");
    assert!(
        waits["text"].as_str().unwrap().contains("0 B free beside "),
        "{waits}"
    );

    fs::remove_file(hold).unwrap();
    disk.empty();
    assert_eq!(run.end_within(PATIENCE), 0, "{}", workspace.told());
}

/// It lives and waits for room: to start another supervisor would help nobody.
#[test]
fn a_supervisor_that_cannot_renew_its_lease_for_want_of_room_is_not_called_gone() {
    let workspace = Setup::new(4, 1)
        .tuning("lease_renew", "100ms")
        .tuning("lease_stop", "300ms")
        .tuning("lease_ttl", "500ms")
        .job(UNTIL_LET_GO)
        .open();
    let Some(disk) = SmallDisk::mount(&workspace.path("state")) else {
        eprintln!("skipped: mounting a file system needs root");
        return;
    };
    let hold = hold(&workspace);
    let mut run = workspace.run("orders");
    running(&workspace, 1);
    disk.fill();
    let said = workspace.wait("the lease to run out", || {
        let said = workspace.call(&["status", "--json"]).json();
        (said["supervised"] == false).then_some(said)
    });
    let attention = said["attention"].as_array().unwrap();
    assert_eq!(attention.len(), 1, "{said}");
    assert_eq!(attention[0]["reason"], "disk");
    assert!(
        attention[0]["text"]
            .as_str()
            .unwrap()
            .contains("has recorded nothing for "),
        "{said}"
    );
    assert_eq!(said["backfills"][0]["reason"]["reason"], "disk");
    fs::remove_file(hold).unwrap();
    disk.empty();
    assert_eq!(run.end_within(PATIENCE), 0, "{}", workspace.told());
}

/// Somebody gives the signal another name, or saves half a file, while lag holds the order back: what it last said counts
/// no more (case B25), and nothing starts without anybody who looks.
#[test]
fn an_order_whose_signal_left_the_file_starts_nothing_and_says_so_until_it_is_back_or_amended() {
    let endpoint = LagEndpoint::new(Mode::Lag(500.0));
    let workspace = Setup::new(2000, 2)
        .job("mark start\nsleep 0.05")
        .order_more("signals = [\"lag\"]\nlaw = \"classic\"")
        .more(&format!(
            "[signals.lag]\nkind = \"prometheus\"\nurl = \"{}\"\nquery = \"lag\"\nunit = \"messages\"\nsoft = 100\n\
             hard = 200\ncritical = 1000\ninterval = \"200ms\"\n",
            endpoint.url
        ))
        .tuning("start_gap", "10ms")
        .tuning("resume_hold", "1s")
        .open();
    let run = workspace.run("orders");
    workspace.wait("the pause", || {
        workspace.backfill("orders")?;
        (workspace.status("orders").1["throttle"] == "paused").then_some(())
    });
    let started = workspace.started().len();
    let whole = workspace.text();
    workspace.write_config(
        &whole
            .replace("[signals.lag]", "[signals.behind]")
            .replace("[\"lag\"]", "[\"behind\"]"),
    );
    run.signal("HUP");
    let unprotected = workspace.wait("that nothing protects it", || {
        let (code, status) = workspace.status("orders");
        (status["reason"]["reason"] == "unprotected").then_some((code, status))
    });
    assert_eq!(unprotected.0, 1, "{}", unprotected.1);
    assert!(
        !unprotected.1["why"].as_str().unwrap().contains("lag"),
        "{}",
        unprotected.1
    );
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(workspace.started().len(), started, "nothing starts");

    endpoint.turn(Mode::Lag(1.0));
    workspace.call(&["amend", "orders", "--yes"]).ok();
    workspace.wait("starts under the new name", || {
        (workspace.started().len() > started).then_some(())
    });
    drop(run);
}

/// The blindness is that of the former supervisor: the new one waits for its first answer.
#[test]
fn after_a_takeover_what_the_former_supervisor_saw_is_not_told_as_if_it_were_measured_now() {
    let endpoint = LagEndpoint::new(Mode::Lag(1.0));
    let workspace = Setup::new(2000, 1)
        .job("mark start\nsleep 0.05")
        .order_more("signals = [\"lag\"]\nlaw = \"classic\"")
        .more(&format!(
            "[signals.lag]\nkind = \"prometheus\"\nurl = \"{}\"\nquery = \"lag\"\nunit = \"messages\"\nsoft = 100\n\
             hard = 200\ncritical = 1000\ninterval = \"200ms\"\ndeadline = \"60s\"\n",
            endpoint.url
        ))
        .tuning("start_gap", "10ms")
        .tuning("blind_halve", "300ms")
        .tuning("blind_stop", "600ms")
        .open();
    let run = workspace.run("orders");
    let first = workspace.wait("the order", || {
        workspace.backfill("orders")?;
        Some(workspace.status("orders").1)
    });
    assert!(
        !first["why"].as_str().unwrap().contains("took over"),
        "from nobody: {first}"
    );
    workspace.wait("work", || (!workspace.started().is_empty()).then_some(()));
    endpoint.turn(Mode::Status(503));
    let blind = |workspace: &Workspace| {
        let (code, status) = workspace.status("orders");
        (code == 4 && status["limit"] == 0).then_some(status)
    };
    let before = workspace.wait("blindness", || blind(&workspace));
    let text = before["why"].as_str().unwrap().to_owned();
    assert!(!text.contains("took over"), "{before}");
    assert_eq!(before["signals"]["lag"]["measured"], true, "{before}");
    run.kill();
    let gone = workspace.status("orders").1;
    assert_eq!(gone["signals"]["lag"]["measured"], false, "{gone}");

    // A server that accepts and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    endpoint.turn(Mode::Relay(silent.local_addr().unwrap().to_string()));
    let _run = workspace.run("orders");
    let after = workspace.wait("the takeover", || {
        let status = workspace.call(&["status", "--json"]).json();
        (status["supervised"] == true && status["epoch"] == 2).then_some(status)
    });
    let one = &after["backfills"][0];
    let why = one["why"].as_str().unwrap();
    assert!(
        why.contains(" took over ") && why.contains(" ago and has not measured lag yet; before that: "),
        "{one}"
    );
    assert_eq!(one["signals"]["lag"]["measured"], false, "{one}");
    let why = workspace.call(&["why", "orders", "2027-01-01"]).ok();
    assert!(why.out.contains("has not measured lag yet"), "{why:?}");

    endpoint.turn(Mode::Status(503));
    drop(silent);
    workspace.wait("an own look", || {
        let status = workspace.status("orders").1;
        (status["signals"]["lag"]["measured"] == true && !status["why"].as_str()?.contains("took over"))
            .then_some(())
    });
}
