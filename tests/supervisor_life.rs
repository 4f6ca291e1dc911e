//! The supervisor as a process: how it ends, what it does with a reader that went away, a changed configuration, a
//! full disk.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::domain::{event::Payload, state::ChunkState};
use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    path::PathBuf,
    process::Stdio,
    time::Duration,
};
use support::{Order, PATIENCE, Setup, SmallDisk, Workspace, ms};

const TWO_SECONDS: Duration = Duration::from_secs(2);

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

#[test]
fn told_to_end_it_ends_within_two_seconds_gives_the_lease_back_and_its_runs_go_on() {
    let workspace = Setup::new(4, 2).job(UNTIL_LET_GO).open();
    let hold = hold(&workspace);
    let mut run = workspace.run("orders");
    running(&workspace, 2);
    run.signal("TERM");
    assert_eq!(run.end_within(TWO_SECONDS), 1, "work is left");
    assert!(workspace.told().contains("stopped supervising orders"));
    assert_eq!(workspace.count(|p| matches!(p, Payload::LeaseReleased { .. })), 1);

    let mut next = workspace.run("orders");
    workspace.wait("the next holder", || (workspace.epochs() == [1, 2]).then_some(()));
    let taken_from = workspace.payloads().into_iter().rev().find_map(|p| match p {
        Payload::LeaseTaken { from, .. } => Some(from),
        _ => None,
    });
    assert_eq!(taken_from, Some(None), "nobody had to be waited for");
    fs::remove_file(hold).unwrap();
    assert_eq!(next.end(), 0, "{}", workspace.told());
    assert_eq!(workspace.ended().len(), 4, "each of them ran once and to its end");
    workspace.assert_once_only();
}

#[test]
fn told_to_end_it_does_not_wait_for_a_secret_that_does_not_come() {
    let workspace = Setup::new(2, 2)
        .order_more("env = { PASSWORD = { command = [\"sleep\", \"20\"] } }")
        .open();
    let mut run = workspace.run("orders");
    workspace.wait("intents", || {
        (workspace.in_state("orders", ChunkState::Submitting) == 2).then_some(())
    });
    run.signal("TERM");
    assert_eq!(run.end_within(TWO_SECONDS), 1);
    assert!(workspace.started().is_empty());
}

/// A run that follows another supervisor can be ended like any other program, also after it held the lease itself.
#[test]
fn told_to_end_a_follower_ends_within_two_seconds() {
    let workspace = Setup::new(4, 2)
        .and(Order::new("invoices", 4, 2))
        .job(UNTIL_LET_GO)
        .tuning("lease_renew", "300ms")
        .tuning("lease_stop", "1s")
        .tuning("lease_ttl", "1500ms")
        .open();
    let _hold = hold(&workspace);
    let mut old = workspace.run("orders");
    running(&workspace, 2);
    let mut follower = workspace.run("invoices");
    workspace.wait("invoices", || workspace.backfill("invoices").map(drop));
    follower.signal("TERM");
    follower.end_within(TWO_SECONDS);

    old.freeze(&workspace);
    std::thread::sleep(ms(1700));
    let _new = workspace.run("orders");
    workspace.wait("the takeover", || (workspace.epochs() == [1, 2]).then_some(()));
    old.signal("CONT");
    workspace.wait("the old one to follow", || {
        workspace.told().contains("the lease went to").then_some(())
    });
    old.signal("TERM");
    old.end_within(TWO_SECONDS);
}

#[test]
fn stopped_by_command_it_starts_nothing_more() {
    for round in 0..6 {
        let workspace = Setup::new(120, 4).open();
        let mut run = workspace.run("orders");
        workspace.wait("progress", || {
            (workspace.done("orders") > 5 + round * 4).then_some(())
        });
        workspace.call(&["stop"]).ok();
        assert_eq!(run.end(), 1, "{}", workspace.told());
        let payloads = workspace.payloads();
        let stop = payloads
            .iter()
            .position(|p| matches!(p, Payload::StopSupervising {}))
            .unwrap();
        let later = payloads
            .iter()
            .skip(stop)
            .filter(|p| matches!(p, Payload::SubmissionIntended { .. }));
        assert_eq!(later.count(), 0, "round {round}");
    }
}

/// Whoever says stop means that nobody supervises, not that the next in line does.
#[test]
fn stopped_by_command_no_follower_takes_over() {
    let workspace = Setup::new(4, 2)
        .and(Order::new("invoices", 4, 2))
        .job(UNTIL_LET_GO)
        .open();
    let _hold = hold(&workspace);
    let mut holder = workspace.run("orders");
    running(&workspace, 2);
    let mut follower = workspace.run("invoices");
    workspace.wait("invoices", || workspace.backfill("invoices").map(drop));
    std::thread::sleep(ms(300));
    workspace.call(&["stop"]).ok();
    assert_eq!((holder.end(), follower.end()), (1, 1), "{}", workspace.told());
    assert_eq!(workspace.epochs(), [1]);
    let status = workspace.call(&["status"]);
    assert_eq!(status.code, 1, "work is left and stands still: {status:?}");
    assert!(status.out.starts_with("nobody supervises"), "{status:?}");
}

/// Somebody else's long transaction: nothing is sent meanwhile, and afterwards the work goes on.
#[test]
fn a_journal_that_is_locked_for_a_while_holds_everything_up_and_loses_nothing() {
    let workspace = Setup::new(40, 3)
        .job("mark start\nsleep 0.05\nmark end")
        .tuning("lease_renew", "300ms")
        .tuning("lease_stop", "1s")
        .tuning("lease_ttl", "1500ms")
        .open();
    let mut run = workspace.run("orders");
    workspace.wait("progress", || (workspace.done("orders") >= 5).then_some(()));
    for seconds in [2, 6] {
        let other = rusqlite::Connection::open(workspace.path("state/journal.db")).unwrap();
        other.busy_timeout(PATIENCE).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        std::thread::sleep(ms(300));
        let started = workspace.started();
        std::thread::sleep(Duration::from_secs(seconds));
        assert_eq!(
            workspace.started(),
            started,
            "nothing starts that is not journaled"
        );
        other.execute_batch("ROLLBACK").unwrap();
        let done = workspace.done("orders");
        workspace.wait("progress", || (workspace.done("orders") > done + 3).then_some(()));
    }
    assert_eq!(run.end(), 0, "{}", workspace.told());
    assert_eq!(workspace.epochs(), [1]);
    workspace.assert_once_only();
}

#[test]
fn stop_says_so_when_nobody_supervises() {
    let workspace = Setup::new(2, 1).job(UNTIL_LET_GO).open();
    hold(&workspace);
    let run = workspace.run("orders");
    running(&workspace, 1);
    run.kill();
    let said = workspace.call(&["stop"]);
    assert!(said.err.contains("nobody supervises"), "{said:?}");
}

#[test]
fn a_reader_that_goes_away_changes_neither_the_work_nor_the_exit_code() {
    for (job, code) in [
        ("mark start", 0),
        ("mark start\n[ $1 != 2023-01-03 ] || exit 65", 1),
    ] {
        for json in [false, true] {
            let workspace = Setup::new(12, 4).job(job).open();
            let mut run = workspace.run_with("orders", |c| {
                if json {
                    c.arg("--json");
                }
                c.stdout(Stdio::piped()).stderr(Stdio::piped());
            });
            drop(run.child.stdout.take());
            drop(run.child.stderr.take());
            assert_eq!(run.end(), code, "json {json}: {}", workspace.told());
            assert_eq!(workspace.started().len(), 12);
        }
    }
}

/// Fills a pipe to the last byte, and gives how many bytes that were.
fn fill(mut writer: &std::io::PipeWriter) -> usize {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let blocking = fcntl_getfl(writer).unwrap();
    fcntl_setfl(writer, blocking | OFlags::NONBLOCK).unwrap();
    let mut full = 0;
    for size in [4096, 1] {
        while let Ok(n) = writer.write(&vec![b'.'; size]) {
            full += n;
        }
    }
    fcntl_setfl(writer, blocking).unwrap();
    full
}

#[test]
fn a_reader_that_does_not_read_holds_nothing_up() {
    for json in [false, true] {
        let workspace = Setup::new(60, 4).open();
        let (mut reader, writer) = std::io::pipe().unwrap();
        let full = fill(&writer);
        let mut run = workspace.run_with("orders", |c| {
            if json {
                c.arg("--json");
            }
            c.stdout(writer);
        });
        assert_eq!(run.end(), 0, "json {json}");
        assert_eq!(workspace.done("orders"), 60);
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        assert_eq!(text.len(), full, "not even one line fitted");
    }
}

#[test]
fn errors_keep_their_exit_code_when_nobody_reads_them() {
    let workspace = Setup::new(2, 1).open();
    let mut run = workspace.run_with("nothing", |c| {
        c.stderr(Stdio::piped());
    });
    drop(run.child.stderr.take());
    assert_eq!(run.end(), 2);
}

#[test]
fn slots_follow_the_file_and_a_file_that_is_wrong_changes_nothing() {
    let setup = Setup::new(9, 9).slots(1).job(UNTIL_LET_GO);
    let workspace = setup.open();
    let hold = hold(&workspace);
    let mut run = workspace.run("orders");
    running(&workspace, 1);

    workspace.write_config(&workspace.text().replace("slots = 1", "slots = 3"));
    running(&workspace, 3);
    let changed = |p: &Payload| matches!(p, Payload::ConfigReloaded { changes } if !changes.is_empty());
    assert_eq!(workspace.count(changed), 1);

    workspace.write_config(&workspace.text().replace("slots = 1", "slotts = 5"));
    run.signal("HUP");
    workspace.wait("the rejection", || workspace.state().config_error);
    let said = workspace.call(&["status", "orders"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.out
            .contains("the changed configuration was not taken over: "),
        "{said:?}"
    );
    assert!(said.out.contains("RUNNING"), "{said:?}");
    urgent_commands_work(&workspace);
    assert_eq!(run.has_ended(), None, "it goes on with the old one");
    assert_eq!(workspace.in_state("orders", ChunkState::Running), 3);

    // Back to what is in force: there is nothing to change, and nothing wrong any more.
    workspace.write_config(&workspace.text().replace("slots = 1", "slots = 3"));
    run.signal("HUP");
    workspace.wait("the error to go", || {
        workspace.state().config_error.is_none().then_some(())
    });
    fs::remove_file(hold).unwrap();
    assert_eq!(run.end(), 0, "{}", workspace.told());
}

/// Somebody's typo of the evening is told, and keeps nobody from a pause at night.
fn urgent_commands_work(workspace: &Workspace) {
    for command in [
        &["pause", "orders"][..],
        &["why", "orders", "2023-01-01"],
        &["events", "orders"],
        &["resume", "orders", "--yes"],
        &["throttle", "orders", "cap", "2"],
        &["throttle", "orders", "auto"],
    ] {
        let said = workspace.call(command);
        assert_eq!(said.code, 0, "{command:?} {said:?}");
        let words = said.err.lines().collect::<Vec<_>>();
        assert!(words.iter().any(|l| l.contains("slotts")), "{command:?} {said:?}");
        assert!(
            words.last().unwrap().contains("the file has faults"),
            "{command:?} {said:?}"
        );
    }
    // What would act by what the file says does not.
    for command in [
        &["plan", "orders"][..],
        &["check"],
        &["run", "orders"],
        &["amend", "orders", "--yes"],
    ] {
        let said = workspace.call(command);
        assert_eq!(said.code, 2, "{command:?} {said:?}");
        assert!(said.err.contains("slotts"), "{command:?} {said:?}");
    }
}

/// An executor that was added to the file takes what a backfill on it sends, without a restart.
#[test]
fn an_executor_that_is_new_in_the_file_works() {
    let setup = Setup::new(2, 2).job(UNTIL_LET_GO);
    let workspace = setup.open();
    let hold = hold(&workspace);
    let mut run = workspace.run("orders");
    running(&workspace, 2);
    let with_more = setup.and(Order::new("invoices", 3, 2)).text().replace(
        "[executors.here]",
        "[executors.there]\nkind = \"local\"\nslots = 2\n\n[executors.here]",
    );
    let (before, after) = with_more.split_once("[backfills.invoices]").unwrap();
    let text = format!(
        "{before}[backfills.invoices]{}",
        after.replacen("executor = \"here\"", "executor = \"there\"", 1)
    );
    workspace.write_config(&text);
    let mut other = workspace.run("invoices");
    workspace.wait("runs on the new executor", || {
        (workspace.in_state("invoices", ChunkState::Running) == 2).then_some(())
    });
    fs::remove_file(hold).unwrap();
    assert_eq!((run.end(), other.end()), (0, 0), "{}", workspace.told());
    workspace.assert_once_only();
}

/// A run that followed for hours takes over with the file as it is then, not as it was when it began.
#[test]
fn a_follower_takes_over_with_the_file_as_it_is_now() {
    let workspace = Setup::new(9, 9)
        .slots(1)
        .and(Order::new("invoices", 9, 9))
        .job(UNTIL_LET_GO)
        .open();
    let hold = hold(&workspace);
    let running = |n: usize| {
        workspace.wait("jobs to run", || {
            let each = ["orders", "invoices"].map(|b| workspace.in_state(b, ChunkState::Running));
            (each.iter().sum::<usize>() == n).then_some(())
        });
    };
    let first = workspace.run("orders");
    running(1);
    let mut follower = workspace.run("invoices");
    workspace.wait("invoices", || workspace.backfill("invoices").map(drop));
    workspace.write_config(&workspace.text().replace("slots = 1", "slots = 3"));
    running(3);
    first.kill();
    workspace.wait("the takeover", || (workspace.epochs() == [1, 2]).then_some(()));
    fs::remove_file(&hold).unwrap();
    assert_eq!(follower.end(), 0, "{}", workspace.told());
    let payloads = workspace.payloads();
    let taken = |p: &Payload| matches!(p, Payload::LeaseTaken { epoch: 2, .. });
    let from = payloads.iter().position(taken).unwrap();
    let (mut own, mut most, mut all) = (BTreeSet::new(), 0, 0);
    for payload in payloads.iter().skip(from) {
        match payload {
            Payload::SubmissionIntended { attempt, .. } => {
                all += 1;
                own.insert(attempt.to_string());
            }
            Payload::RunEnded { attempt, .. } => {
                own.remove(&attempt.to_string());
            }
            _ => {}
        }
        most = most.max(own.len());
    }
    assert_eq!((all, most), (15, 3), "{}", workspace.told());
}

/// Nobody may go on with a journal that is not where others look for it.
#[test]
fn a_journal_that_is_moved_away_ends_its_supervisor() {
    for replaced in [false, true] {
        let workspace = Setup::new(30, 2).job("mark start\nsleep 0.2").open();
        let mut run = workspace.run("orders");
        workspace.wait("progress", || (workspace.done("orders") >= 2).then_some(()));
        fs::rename(workspace.path("state"), workspace.path("elsewhere")).unwrap();
        if replaced {
            fs::create_dir(workspace.path("state")).unwrap();
            fs::write(workspace.path("state/journal.db"), "").unwrap();
        }
        assert_eq!(run.end_within(Duration::from_secs(20)), 2, "{}", workspace.told());
        assert!(
            workspace.told().contains("was removed or replaced"),
            "{}",
            workspace.told()
        );
        assert!(workspace.started().len() < 30);
    }
}

/// An event of a newer program: this one cannot know what it means, and starts nothing more.
#[test]
fn an_event_of_a_newer_program_ends_the_supervisor() {
    let workspace = Setup::new(200, 2).open();
    let mut run = workspace.run("orders");
    workspace.wait("progress", || (workspace.done("orders") >= 2).then_some(()));
    let journal = rusqlite::Connection::open(workspace.path("state/journal.db")).unwrap();
    journal.busy_timeout(PATIENCE).unwrap();
    journal
        .execute_batch(
            "BEGIN IMMEDIATE;
             INSERT INTO event(seq, at_ms, kind, v, actor, origin, payload)
                SELECT max(seq) + 1, max(at_ms), 'moon-phase', 1, 'luna', 'test', '{}' FROM event;
             INSERT INTO kind(name, v, first) SELECT 'moon-phase', 1, max(seq) FROM event;
             COMMIT;",
        )
        .unwrap();
    assert_eq!(run.end(), 2, "{}", workspace.told());
    assert!(workspace.told().contains("moon-phase"), "{}", workspace.told());
    let after = workspace
        .events()
        .into_iter()
        .skip_while(|e| e.actor.name != "luna")
        .skip(1)
        .count();
    assert_eq!(after, 0);
    let again = workspace.call(&["run", "orders"]);
    assert_eq!(again.code, 2, "{again:?}");
    assert!(workspace.call(&["status", "orders"]).out.contains("newer"));
}

/// What `run --json` prints is what the journal has, in its order, also while others append all the time.
#[test]
fn json_lines_are_the_journals_events_each_once_and_in_order() {
    let workspace = Setup::new(150, 4).open();
    let output = fs::File::create(workspace.path("lines")).unwrap();
    let mut run = workspace.run_with("orders", |c| {
        c.arg("--json").stdout(output);
    });
    workspace.wait("the start", || workspace.backfill("orders").map(drop));
    let mut noise = 0;
    while run.has_ended().is_none() {
        noise += u32::from(workspace.call(&["throttle", "orders", "cap", "4"]).code == 0);
    }
    assert!(noise > 3, "{noise}");
    let text = fs::read_to_string(workspace.path("lines")).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let [first, events @ .., end] = lines.as_slice() else {
        panic!("{text}");
    };
    assert!(
        first["supervises"].is_array() && end["state"] == "complete",
        "{first} {end}"
    );
    let seqs: Vec<u64> = events.iter().map(|e| e["seq"].as_u64().unwrap()).collect();
    let last = workspace
        .events()
        .iter()
        .rfind(|e| e.actor.name == "supervisor")
        .unwrap()
        .seq;
    let missing: Vec<u64> = (seqs[0]..=*seqs.last().unwrap())
        .filter(|s| !seqs.contains(s))
        .collect();
    assert!(seqs.is_sorted_by(|a, b| a < b), "twice or out of order");
    assert!(missing.is_empty(), "{missing:?}");
    assert!(last - seqs.last().unwrap() <= 1, "all but the release: {last}");
}

#[test]
fn on_a_full_disk_nothing_is_sent_pause_still_works_and_afterwards_it_goes_on() {
    let workspace = Setup::new(12, 2).job(UNTIL_LET_GO).open();
    let Some(disk) = SmallDisk::mount(&workspace.path("state")) else {
        eprintln!("skipped: mounting a file system needs root");
        return;
    };
    let hold = hold(&workspace);
    let mut run = workspace.run("orders");
    running(&workspace, 2);
    disk.fill();
    let head = workspace.state().head;
    fs::remove_file(hold).unwrap();
    workspace.wait("the jobs' end", || (workspace.ended().len() == 2).then_some(()));
    std::thread::sleep(ms(1500));
    assert_eq!(
        workspace.started().len(),
        2,
        "nothing starts that is not journaled"
    );
    assert_eq!(workspace.state().head, head, "the disk was full");
    assert_eq!(run.has_ended(), None, "{}", workspace.told());

    let said = workspace.call(&["pause", "orders"]).ok();
    assert!(said.out.starts_with("paused; "), "{said:?}");
    let paused = workspace.started().len();
    disk.fill();
    std::thread::sleep(ms(300));
    disk.empty();
    std::thread::sleep(ms(700));
    assert_eq!(workspace.started().len(), paused);
    workspace.call(&["resume", "orders"]).ok();
    assert_eq!(run.end_within(PATIENCE), 0, "{}", workspace.told());
    assert_eq!(workspace.done("orders"), 12);
    workspace.assert_once_only();
}

#[test]
fn with_little_room_beside_the_journal_nothing_starts_and_status_says_so() {
    let setup = Setup::new(3, 2).tuning("disk_low", "1000TB");
    let workspace = setup.open();
    let mut run = workspace.run("orders");
    workspace.wait("the backfill", || workspace.backfill("orders").map(drop));
    std::thread::sleep(ms(500));
    assert!(workspace.started().is_empty());
    let (code, status) = workspace.status("orders");
    assert_eq!(
        (code, status["reason"]["reason"].as_str()),
        (1, Some("disk")),
        "{status}"
    );
    workspace.write_config(&workspace.text().replace("1000TB", "1B"));
    assert_eq!(run.end(), 0, "{}", workspace.told());
}
