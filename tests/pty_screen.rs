//! Proof 5 and case S10 on a real pseudo-terminal: start, resize, keys, suspend and return.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod pty;

use pty::{Session, program};
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::time::Duration;

#[rstest]
#[case(80, 24)]
#[case(200, 60)]
fn it_starts_and_answers_at_this_size(#[case] cols: u16, #[case] rows: u16) {
    let mut session = Session::screen(cols, rows, &[]);
    session.wait_for("RUNNING  365 chunks");
    session.wait_for("> 2023-01-08 running");
    session.keys("j");
    session.wait_for("> 2023-01-09 pending  2023-01-09 waits for its turn");
    session.keys("w");
    session.wait_for("[why] 2023-01-09 waits for its turn");
    session.keys("q");
    session.wait_without("[why]");
    session.keys("q");
    assert_eq!(session.wait_end(), 0);
    session.assert_restored();
}

/// Proof 5: `p` stops new starts and the header says PAUSED and by whom; `R` on a done day shows the dialog and a
/// second `R` does nothing.
#[test]
fn p_pauses_at_once_and_a_second_r_does_nothing() {
    let mut session = Session::screen(80, 24, &[]);
    session.wait_for("RUNNING  365 chunks");
    let at = session.keys("p");
    session.wait_for("PAUSED by minh");
    assert!(at.elapsed() < Duration::from_secs(1), "{:?}", at.elapsed());
    session.wait_for("[reason]");
    session.keys("\r");
    session.wait_without("[reason]");
    session.keys("g2023-01-02\r");
    session.wait_for("> 2023-01-02 done");
    session.keys("RR");
    session.wait_for("[plan] Re-run 1 days");
    session.keys("R");
    std::thread::sleep(Duration::from_millis(500));
    session.wait_for("[plan] Re-run 1 days");
    assert!(session.text().contains("> 2023-01-02 done"), "{}", session.text());
    session.keys("\r");
    session.wait_without("[plan]");
    session.keys("R");
    session.wait_for("[plan]");
    std::thread::sleep(Duration::from_millis(600));
    session.keys("y");
    session.wait_for("> 2023-01-02 pending");
}

/// Proof 5 with the real drawing, at both sizes.
#[rstest]
#[case(80, 24)]
#[case(200, 60)]
fn drawn_for_real_it_pauses_asks_and_says_why(#[case] cols: u16, #[case] rows: u16) {
    let mut session = Session::screen(cols, rows, &["view"]);
    session.wait_for("1 CALENDAR");
    session.wait_for("RUNNING");
    session.wait_for("2023-01-08");
    let at = session.keys("p");
    session.wait_for("paused by minh");
    assert!(at.elapsed() < Duration::from_secs(1), "{:?}", at.elapsed());
    session.wait_for("PAUSED");
    let reason = session.body();
    session.keys("\x1b");
    session.wait_other(&reason);
    session.keys("g2023-01-02\r");
    session.wait_for("Mon 2023-01-02");
    session.keys("R");
    session.wait_for("Re-run 1 days");
    std::thread::sleep(Duration::from_millis(500));
    session.keys("R");
    std::thread::sleep(Duration::from_millis(500));
    session.wait_for("enter cancels");
    session.keys("\r");
    session.wait_without("Re-run 1 days");
    assert!(
        session.text().contains("5/365") || session.text().contains("5  1%"),
        "{}",
        session.text()
    );
    session.keys("jjjjjjjw");
    session.wait_for("2023-01-09 waits for its turn");
    session.keys("q");
    session.resize(cols + 40, rows + 10);
    session.wait_for("1 CALENDAR");
    session.resize(cols, rows);
    session.keys("q");
    assert_eq!(session.wait_end(), 0);
    session.assert_restored();
}

#[test]
fn keys_typed_ahead_of_a_dialog_do_not_confirm_it() {
    let mut session = Session::screen(80, 24, &[]);
    session.wait_for("RUNNING  365 chunks");
    session.keys("g2023-01-02\rRyyyy");
    session.wait_for("[plan] Re-run 1 days");
    std::thread::sleep(Duration::from_millis(700));
    assert!(session.text().contains("> 2023-01-02 done"), "{}", session.text());
}

#[test]
fn pasted_keys_are_no_keys() {
    let mut session = Session::screen(80, 24, &[]);
    session.wait_for("RUNNING  365 chunks");
    session.keys("\x1b[200~pq\x03\x03\x1b[201~");
    session.wait_for("pasted text is ignored here");
    session.wait_for("RUNNING  365 chunks");
}

#[test]
fn it_is_drawn_anew_at_every_size_also_during_a_dialog() {
    let mut session = Session::screen(80, 24, &[]);
    session.wait_for("RUNNING  365 chunks");
    session.keys("R");
    session.wait_for("[plan]");
    for (cols, rows) in [(200, 60), (40, 10), (1, 1), (3, 2), (300, 100), (80, 24)] {
        session.resize(cols, rows);
        std::thread::sleep(Duration::from_millis(150));
        assert!(!session.has_ended(), "{cols}x{rows}");
    }
    session.wait_for("[plan]");
    session.wait_for("> Cancel <");
    session.keys("\x1b");
    session.wait_without("[plan]");
    // What is there equals what a fresh screen of this size shows.
    let fresh = Session::screen(80, 24, &[]);
    fresh.wait_for("RUNNING  365 chunks");
    session.wait_for("> 2023-01-08 running");
    assert_eq!(without_toast(&session.body()), without_toast(&fresh.body()));
}

/// A key that arrives in the same moment as a resize is not left lying until the next key.
#[test]
fn a_key_in_the_moment_of_a_resize_is_answered_like_any_other() {
    let mut session = Session::screen(80, 24, &[]);
    session.wait_for("RUNNING  365 chunks");
    session.keys("1");
    for round in 0..150 {
        let (key, panel) = [("2", "focus Lag"), ("1", "focus Calendar")][round % 2];
        session.resize(80, 24 + (round % 5) as u16);
        let at = session.keys(key);
        session.wait_for(panel);
        assert!(
            at.elapsed() < Duration::from_secs(2),
            "round {round}: {:?}",
            at.elapsed()
        );
    }
}

/// The second last row holds the newest message.
fn without_toast(body: &str) -> Vec<String> {
    let mut lines: Vec<String> = body.lines().map(str::to_owned).collect();
    if lines.len() >= 2 {
        let toast = lines.len() - 2;
        lines[toast].clear();
    }
    lines.retain(|l| !l.trim().is_empty());
    lines
}

/// An interactive shell with job control in the terminal.
fn shell() -> Session {
    let session = Session::run(80, 24, &["bash", "--norc", "--noprofile", "--noediting", "-i"]);
    session.wait_for("ready>");
    session
}

/// Case S10: twenty times ctrl-z and fg; the screen equals what it was, and it does not spin.
#[rstest]
#[case::directly(program())]
#[case::from_sh_c(format!("sh -c '{}; echo over'", program()))]
fn ctrl_z_and_fg_twenty_times_come_back_to_the_same_screen(#[case] command: String) {
    let mut session = shell();
    session.keys(&format!("{command}\n"));
    session.wait_for("RUNNING  365 chunks");
    let before = session.body();
    for round in 0..20 {
        session.keys("\x1a");
        session.wait_left();
        session.wait_for("Stopped");
        assert!(session.count_raw("Stopped") > round, "round {round}");
        session.keys("clear; fg\n");
        session.wait_entered();
        session.wait_for("RUNNING  365 chunks");
        session.wait_for("? help");
        assert_eq!(session.body(), before, "round {round}");
    }
    session.keys("j");
    session.wait_for("> 2023-01-09");
    session.keys("q");
    session.wait_prompt();
    session.keys("stty -a | tr ' ' '\\n' | grep -c -x -e echo -e icanon -e isig -e opost; exit\n");
    session.wait_for("\n4");
    assert_eq!(session.wait_end(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn after_fg_it_does_not_spin() {
    let mut session = shell();
    session.keys(&format!("{}\n", program()));
    session.wait_for("RUNNING  365 chunks");
    session.keys("\x1a");
    session.wait_for("Stopped");
    session.keys("echo pid=$(jobs -p)=; fg\n");
    session.wait_entered();
    session.wait_for("RUNNING  365 chunks");
    let raw_pid = session
        .raw_after("pid=")
        .split('=')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let before = pty::ticks(raw_pid);
    std::thread::sleep(Duration::from_secs(1));
    let used = pty::ticks(raw_pid) - before;
    // The promise is 5 % of a processor; an unoptimised build on a busy machine gets five times that.
    assert!(used < 25, "{used} hundredths of a second in one second");
    session.keys("q");
    session.wait_left();
}

#[test]
fn stopped_from_outside_and_continued_it_draws_itself_anew() {
    let mut session = shell();
    session.keys(&format!("{}\n", program()));
    session.wait_for("RUNNING  365 chunks");
    let before = session.body();
    let pid = session.foreground();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    session.wait_for("Stopped");
    session.keys("fg\n");
    session.wait_for("RUNNING  365 chunks");
    session.wait_body(&before);
    session.keys("q");
    session.wait_prompt();
    session.keys("exit\n");
    assert_eq!(session.wait_end(), 0);
}

#[test]
fn a_stop_signal_from_outside_gives_the_terminal_back_first() {
    let mut session = shell();
    session.keys(&format!("{}\n", program()));
    session.wait_for("RUNNING  365 chunks");
    let pid = session.foreground();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TSTP).unwrap();
    session.wait_left();
    session.wait_for("Stopped");
    session.keys("fg\n");
    session.wait_for("RUNNING  365 chunks");
    session.keys("q");
    session.wait_left();
}

#[test]
fn in_the_background_it_keeps_its_hands_off_the_terminal_and_can_be_ended() {
    let mut session = shell();
    session.keys(&format!("{}\n", program()));
    session.wait_for("RUNNING  365 chunks");
    let pid = session.foreground();
    session.keys("\x1a");
    session.wait_for("Stopped");
    session.keys("bg\n");
    // From here on the shell has the terminal.
    std::thread::sleep(Duration::from_millis(500));
    session.keys("echo still $((40 + 2)) here\n");
    session.wait_for("still 42 here");
    session.keys("fg\n");
    session.wait_entered();
    session.wait_for("RUNNING  365 chunks");
    session.keys("\x1a");
    session.wait_left();
    session.wait_prompt();
    let at = session.keys("kill %1\n");
    while test_kill_process(Pid::from_raw(pid).unwrap()).is_ok() {
        assert!(
            at.elapsed() < Duration::from_secs(20),
            "it cannot be ended while it is stopped"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(at.elapsed() < Duration::from_secs(2), "{:?}", at.elapsed());
    session.keys("\n");
    session.wait_for("Exit 143");
}

#[test]
fn where_no_shell_could_continue_it_ctrl_z_says_so_and_nothing_stops() {
    let mut session = Session::screen(80, 24, &[]);
    session.wait_for("RUNNING  365 chunks");
    session.keys("\x1a");
    session.wait_for("there is no shell to return to");
    session.signal(Signal::TSTP);
    session.keys("j");
    session.wait_for("> 2023-01-09");
}

/// Case S10 inside tmux.
#[test]
fn ctrl_z_and_fg_inside_tmux() {
    let folder = tempfile::tempdir().unwrap();
    if std::process::Command::new("tmux").arg("-V").output().is_err() {
        eprintln!("tmux is not installed: nothing was tested");
        return;
    }
    let socket = folder.path().join("tmux");
    let tmux = format!("tmux -S {} -f /dev/null", socket.display());
    let start = format!("{tmux} new-session bash --norc --noprofile -i");
    let mut session = Session::run(80, 24, &["sh", "-c", &start]);
    session.wait_for("ready>");
    session.keys(&format!("{}\n", program()));
    session.wait_for("RUNNING  365 chunks");
    for _ in 0..3 {
        session.keys("\x1a");
        session.wait_for("Stopped");
        session.keys("clear; fg\n");
        session.wait_for("RUNNING  365 chunks");
        session.wait_without("Stopped");
    }
    session.keys("j");
    session.wait_for("> 2023-01-09");
    session.keys("q");
    session.wait_for("ready>");
    session.keys("exit\n");
    session.wait_end();
}
