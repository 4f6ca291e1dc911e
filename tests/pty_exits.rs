//! Cases S08, S09, S11 and proof 6 on a real pseudo-terminal: whatever ends the screen, the terminal is as before.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod pty;

use pty::Session;
use rstest::rstest;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The screen with the test world in it.
fn opened(args: &[&str]) -> Session {
    let session = Session::screen(80, 24, args);
    session.wait_for("RUNNING  365 chunks");
    assert!(session.is_raw());
    session
}

#[test]
fn q_leaves_the_terminal_as_it_was() {
    let mut session = opened(&[]);
    session.keys("q");
    assert_eq!(session.wait_end(), 0);
    session.assert_restored();
}

/// Case S09: same end state as after q, within two seconds.
#[rstest]
#[case::term(Signal::TERM, 143)]
#[case::hup(Signal::HUP, 129)]
#[case::int(Signal::INT, 130)]
#[case::quit(Signal::QUIT, 131)]
fn signals_that_end_it_leave_the_terminal_as_it_was(#[case] signal: Signal, #[case] code: u32) {
    let mut session = opened(&[]);
    let at = Instant::now();
    session.signal(signal);
    assert_eq!(session.wait_end(), code);
    assert!(at.elapsed() < Duration::from_secs(2), "{:?}", at.elapsed());
    session.assert_restored();
}

#[test]
fn a_signal_in_the_middle_of_a_dialog_is_no_different() {
    let mut session = opened(&[]);
    session.keys("kR");
    session.wait_for("[plan]");
    session.signal(Signal::TERM);
    assert_eq!(session.wait_end(), 143);
    session.assert_restored();
}

/// Case S08: the report is on the normal screen and in the log, and the terminal is as it was.
#[rstest]
#[case::update("panic-update", "G", "forced panic in update", "forced panic in update", 101)]
#[case::view("panic-view", "G", "forced panic in view", "forced panic in view", 101)]
#[case::worker(
    "panic-worker",
    "p",
    "forced panic in a worker",
    "forced panic in a worker",
    101
)]
#[case::hook("panic-hook", "G", "forced panic in view", "forced panic in the hook", 134)]
fn a_panic_anywhere_leaves_the_terminal_as_it_was_and_its_report_behind(
    #[case] fault: &str,
    #[case] key: &str,
    #[case] logged: &str,
    #[case] shown: &str,
    #[case] code: u32,
) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("panics.log");
    let mut session = opened(&[fault, &format!("report={}", log.display())]);
    session.keys(key);
    assert_eq!(session.wait_end(), code);
    session.assert_restored();
    session.wait_for(shown);
    assert!(std::fs::read_to_string(&log).unwrap().contains(logged));
}

/// Proof 6 and case S02: with reading and writing hanging for ever, each key is answered on the screen and
/// ctrl-c ctrl-c ends the process within a second. The promise is 100 ms a key; the guard is ten times that.
#[test]
fn with_every_source_hanging_each_key_is_answered_and_ctrl_c_twice_ends_it() {
    let mut session = Session::screen(80, 24, &["hang-reading", "hang-writing"]);
    session.wait_for("no backfill on the screen");
    let mut slowest = Duration::ZERO;
    for (keys, answer) in [
        ("x", "x does nothing here"),
        ("p", "no backfill is on the screen"),
        ("?", "[help]"),
        ("\x1b", "focus Calendar"),
        (":", "[command]"),
        ("\x1b", "? help"),
        ("W", "read-only: nothing can be changed"),
    ] {
        let at = session.keys(keys);
        if answer == "focus Calendar" {
            session.wait_without("[help]");
        } else {
            session.wait_for(answer);
        }
        slowest = slowest.max(at.elapsed());
    }
    assert!(
        slowest < Duration::from_secs(1),
        "the slowest key took {slowest:?}"
    );
    session.keys("\x03");
    session.wait_for("ctrl-c again within 2 s");
    let at = session.keys("\x03");
    assert_eq!(session.wait_end(), 0);
    assert!(at.elapsed() < Duration::from_secs(1), "{:?}", at.elapsed());
    session.assert_restored();
}

#[test]
fn a_pause_that_the_journal_never_answers_is_sent_at_once_and_named_at_the_end() {
    let mut session = opened(&["hang-writing"]);
    let at = session.keys("p");
    session.wait_for("pause of orders: sent");
    assert!(at.elapsed() < Duration::from_secs(1), "{:?}", at.elapsed());
    session.wait_for("no answer yet");
    let at = session.keys("\x03\x03");
    assert_eq!(session.wait_end(), 0);
    assert!(at.elapsed() < Duration::from_secs(1), "{:?}", at.elapsed());
    session.wait_for("pause of orders was sent and not answered");
    session.assert_restored();
}

/// Case S11: nobody is at the other end any more.
#[test]
fn a_line_that_hangs_up_ends_it_within_two_seconds() {
    let mut session = opened(&[]);
    let at = session.hang_up();
    session.wait_end();
    assert!(at.elapsed() < Duration::from_secs(2), "{:?}", at.elapsed());
}

/// Case S11 with HUP ignored: the hang-up itself is noticed.
#[test]
fn a_line_that_hangs_up_ends_it_even_when_hup_is_ignored() {
    let command = format!("trap '' HUP; exec {} no-hup", pty::program());
    let mut session = Session::run(80, 24, &["sh", "-c", &command]);
    session.wait_for("RUNNING  365 chunks");
    session.signal(Signal::HUP);
    std::thread::sleep(Duration::from_millis(300));
    assert!(!session.has_ended(), "HUP is ignored in this test");
    let at = session.hang_up();
    assert_eq!(session.wait_end(), 129);
    assert!(at.elapsed() < Duration::from_secs(2), "{:?}", at.elapsed());
}

/// A stalled line: the program cannot write, so its loop cannot turn. It can still be left and ended.
#[rstest]
#[case::ctrl_c_twice(None, 130, 1000)]
#[case::term(Some(Signal::TERM), 143, 2000)]
fn a_terminal_that_takes_nothing_any_more_can_still_be_left(
    #[case] signal: Option<Signal>,
    #[case] code: u32,
    #[case] promised_ms: u64,
) {
    let mut session = opened(&[]);
    session.go_deaf();
    // Much more than a terminal's buffer holds: help on, help off, and everything drawn anew each time.
    for _ in 0..60 {
        session.keys("?");
        std::thread::sleep(Duration::from_millis(15));
        session.keys("\x1b");
        std::thread::sleep(Duration::from_millis(15));
    }
    let at = match signal {
        Some(signal) => {
            session.signal(signal);
            Instant::now()
        }
        None => session.keys("\x03\x03"),
    };
    assert_eq!(session.wait_end(), code);
    let took = at.elapsed();
    // Twice the promise, for a busy machine.
    assert!(took < Duration::from_millis(2 * promised_ms), "{took:?}");
    assert!(!session.is_raw());
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_backfill"))
        .arg("__screen-test")
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("the screen needs a terminal"));
    assert!(out.stdout.is_empty());
}
