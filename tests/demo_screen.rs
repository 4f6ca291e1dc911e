//! Proof 5 on the whole program: `backfill demo` with its own supervisor, real processes and its endpoint, in a real
//! pseudo-terminal, with `status --json` and `events --json` from outside as the witness of what the screen says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod pty;

use chrono::{TimeDelta, Utc};
use pty::{
    Session,
    demo::{DemoScreen, PATIENCE, WHO, World, at, cursor_line, done_cells, done_figure, of_kind, seq, words},
};
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A day that is done early, and one that is not started for long.
const EARLY: &str = "2024-11-02";
const LATE: &str = "2024-12-31";

#[rstest]
#[case(80, 24)]
#[case(200, 60)]
fn the_calendar_fills_and_agrees_with_status_until_every_day_is_done(#[case] cols: u16, #[case] rows: u16) {
    let demo = DemoScreen::open(cols, rows, &["--days", "12"]);
    let mut shown = Vec::new();
    while shown.last() != Some(&12) {
        // The screen shows what the journal knows, not less than was known before and not more than is known after.
        demo.wait_done(demo.world.status().done());
        let figure = demo.done().unwrap();
        assert!(figure <= demo.world.status().done(), "{}", demo.session.text());
        shown.push(figure);
    }
    assert!(shown.is_sorted(), "{shown:?}");
    shown.dedup();
    assert!(shown.len() > 2, "it came all at once: {shown:?}");
    demo.session.wait_for("COMPLETE");
    demo.session
        .wait("12 done cells", |s| done_cells(&s.contents()) == 12);
    let status = demo.world.status();
    assert_eq!((status.state(), status.done()), ("complete", 12));
    assert_eq!(demo.world.partitions(), 12);
}

/// Once nothing moves any more, each figure of the screen is exactly what `status` says.
#[rstest]
#[case(80, 24)]
#[case(200, 60)]
fn of_a_half_done_calendar_every_cell_is_counted(#[case] cols: u16, #[case] rows: u16) {
    let demo = DemoScreen::open(cols, rows, &["--days", "60"]);
    demo.wait_done(3);
    demo.world.pause();
    let done = demo.world.status().done();
    assert!((3..60).contains(&done));
    demo.session.wait("what status says", |s| {
        let text = s.contents();
        done_figure(&text) == Some(done) && done_cells(&text) == done
    });
    demo.session.wait_for("0 of 0");
}

#[rstest]
#[case(80, 24)]
#[case(200, 60)]
fn p_stops_new_starts_within_a_second_and_the_header_says_who_and_why(#[case] cols: u16, #[case] rows: u16) {
    let mut demo = DemoScreen::open(cols, rows, &["--days", "60"]);
    demo.wait_done(1);
    let pressed = Utc::now();
    demo.session.keys("p");
    demo.session.wait_for("PAUSED");
    demo.session.wait_for(&format!("paused by {WHO}"));
    demo.session.wait_for("reason, optional");
    demo.session.keys("night freeze\r");
    demo.session.wait_for("night freeze");
    assert_eq!(demo.world.status().paused_by(), Some(WHO));

    let idle = demo.world.wait("an idle demo", |s| s.running() == 0);
    assert!(idle.count("pending") > 0, "nothing is left that could start");
    // Long enough for several starts, by what the demo's supervisor does in a second.
    let first_look = last_seq(&demo.world);
    thread::sleep(Duration::from_secs(2));
    let events = demo.world.events();
    // The reason comes with a pause of its own, which has nothing left to stop.
    let applied = *of_kind(&events, "pause-applied").first().unwrap();
    let took = at(applied) - pressed;
    // The promise is one second; an unoptimised build on a busy machine gets twice that.
    assert!(took < TimeDelta::seconds(2), "applied {took} after the key");
    let intents = of_kind(&events, "submission-intended");
    assert!(
        intents.iter().all(|e| seq(e) < seq(applied)),
        "started although paused"
    );
    assert_eq!(seq(events.last().unwrap()), first_look, "{:?}", events.last());

    // That it was the pause which kept them: without it they start.
    demo.session.keys("p");
    wait_dialog(&demo.session, "Resume orders");
    demo.session.keys("y");
    demo.session.wait_without("PAUSED");
    demo.world
        .wait("work again", |s| s.running() > 0 || s.done() > idle.done());
}

fn last_seq(world: &World) -> u64 {
    seq(world.events().last().unwrap())
}

/// Waits for a whole dialog of this title, and until it takes an answer: what is struck as it comes up is ignored.
fn wait_dialog(session: &Session, title: &str) {
    session.wait(title, |s| {
        s.contents().contains(title) && s.contents().contains("enter cancels")
    });
    thread::sleep(Duration::from_secs(1));
}

#[rstest]
#[case(80, 24)]
#[case(200, 60)]
fn a_second_r_on_a_done_day_does_nothing_and_esc_leaves_without_a_trace(
    #[case] cols: u16,
    #[case] rows: u16,
) {
    let mut demo = DemoScreen::open(cols, rows, &["--days", "60"]);
    demo.wait_done(2);
    demo.world.pause();
    let before = last_seq(&demo.world);
    demo.go(EARLY);
    assert!(
        cursor_line(&demo.session.text()).contains("done"),
        "{}",
        demo.session.text()
    );
    demo.session.keys("R");
    demo.session.wait_for("Re-run 1 day");
    demo.session.wait_for("enter cancels");
    assert_eq!(focused(&demo.session), "Cancel");
    demo.session.keys("R");
    // The answer to the key after it shows that R was heard.
    demo.session.keys("\t");
    demo.session.wait_for("tab summary");
    for wait in [0, 1500] {
        // Also when the dialog has stood long enough to be answered.
        thread::sleep(Duration::from_millis(wait));
        demo.session.keys("RR\t");
        demo.session.wait_without("tab summary");
        demo.session.keys("R\t");
        demo.session.wait_for("tab summary");
        demo.session.wait_for("Re-run 1 day");
        assert!(
            demo.session.text().contains("enter cancels"),
            "{}",
            demo.session.text()
        );
        assert_eq!(focused(&demo.session), "Cancel");
    }
    demo.session.keys("\x1b");
    demo.session.wait_without("Re-run 1 day");
    assert_eq!(last_seq(&demo.world), before);

    // Enter takes the focused button, which is Cancel.
    demo.session.keys("R");
    wait_dialog(&demo.session, "Re-run 1 day");
    demo.session.keys("\r");
    demo.session.wait_without("Re-run 1 day");
    assert_eq!(last_seq(&demo.world), before);

    // The same key would have meant something: confirmed, it is an order.
    demo.session.keys("R");
    wait_dialog(&demo.session, "Re-run 1 day");
    demo.session.keys("y");
    demo.session.wait_without("Re-run 1 day");
    let events = demo.world.events();
    let asked = of_kind(&events, "rerun-requested");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["actor"], WHO);
}

/// The word of the button that has the focus: it stands on another ground than the dialog's.
fn focused(session: &Session) -> String {
    session.look(|screen| {
        let (rows, cols) = (screen.size().0.get(), screen.size().1.get());
        let text = |row: u16, from: u16, to: u16| screen.contents_between(row, from, row, to);
        let row = (0..rows).find(|r| text(*r, 0, cols).contains("y run")).unwrap();
        let other = (0..cols)
            .find(|c| text(row, *c, cols).starts_with("y run"))
            .unwrap();
        let ground = |c: u16| screen.cell(row, c).map(|cell| (cell.bgcolor(), cell.inverse()));
        let reached = (0..other)
            .rev()
            .take_while(|c| !text(row, *c, other).starts_with('▐'));
        let mut cells: Vec<_> = reached
            .filter(|c| ground(*c) != ground(other))
            .map(|c| text(row, c, c + 1))
            .collect();
        cells.reverse();
        cells.concat().trim().to_owned()
    })
}

#[rstest]
#[case(80, 24)]
#[case(200, 60)]
fn w_on_a_waiting_day_gives_its_reason_as_the_command_why_does(#[case] cols: u16, #[case] rows: u16) {
    let mut demo = DemoScreen::open(cols, rows, &["--days", "60", "--pace", "8"]);
    demo.world.wait("work", |s| s.running() > 0);
    demo.go(LATE);
    demo.session.keys("w");
    demo.session.wait_for("esc closes");
    let why = || {
        let answer = demo.world.tell(&["why", "orders", LATE, "--json"]);
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        ["reason", "text"].map(|key| answer[key].as_str().unwrap().to_owned())
    };
    // While it runs, the reason is the limit or the order; the numbers in it move on.
    let until = Instant::now() + PATIENCE;
    loop {
        let [reason, text] = why();
        assert!(["limit", "order"].contains(&reason.as_str()), "{text}");
        assert!(text.contains("before it in order"), "{text}");
        // A card is narrower than a sentence.
        if demo.session.text().contains(text.split(';').next().unwrap()) {
            break;
        }
        assert!(
            Instant::now() < until,
            "{text} is not on\n{}",
            demo.session.text()
        );
    }
    // Paused, the reason is the pause.
    demo.world.tell(&["pause", "orders", "--as", "minh"]);
    demo.session.wait_for("paused by minh");
    assert_eq!(why(), ["paused", "paused by minh"]);
    demo.session.wait_for("backfill resume orders");
    demo.session.keys("\x1b");
    demo.session.wait_without("esc closes");
}

/// A large screen shows the day under the cursor without being asked, with the output of its newest attempt.
#[test]
fn at_200_columns_the_day_beside_the_calendar_comes_with_its_log() {
    let mut demo = DemoScreen::open(200, 60, &["--days", "60"]);
    demo.wait_done(2);
    demo.go(EARLY);
    demo.session.wait_for("LAST LINES  attempt 1 on here");
    demo.session.wait_for(" rows");
    assert!(
        demo.session.text().contains("published "),
        "{}",
        demo.session.text()
    );
    // It goes with the cursor.
    demo.world.pause();
    demo.go(LATE);
    demo.session.wait_for("nothing has run yet");
    demo.session.resize(120, 40);
    demo.session.wait_without("LAST LINES");
}

/// A screen that has been through every size shows what one that has never had another size shows: in each cell the
/// same text in the same colours.
#[test]
fn after_every_resize_the_screen_is_that_of_a_fresh_one_of_this_size() {
    let mut demo = DemoScreen::open(200, 60, &["--days", "60"]);
    demo.wait_done(2);
    demo.world.pause();
    demo.go(EARLY);
    let config = demo.world.config();
    for (cols, rows) in [(80, 24), (40, 10), (120, 40), (200, 60)] {
        demo.session.resize(cols, rows);
        let words = [
            env!("CARGO_BIN_EXE_backfill"),
            "--config",
            config.to_str().unwrap(),
        ];
        let mut fresh = Session::run(cols, rows, &words);
        fresh.wait_for("orders  DEMO");
        fresh.keys(&format!("g{EARLY}\r"));
        let both = || {
            [&demo.session, &fresh].map(|s| s.look(|screen| (screen.contents(), screen.contents_formatted())))
        };
        let until = Instant::now() + PATIENCE;
        // The clocks of the two screens tick at slightly different moments.
        loop {
            let [old, new] = both();
            if old == new {
                break;
            }
            assert!(
                Instant::now() < until,
                "{cols}x{rows}: after a resize\n{}\nand afresh\n{}",
                old.0,
                new.0
            );
            thread::sleep(Duration::from_millis(5));
        }
        fresh.keys("q");
        assert_eq!(fresh.wait_end(), 0);
    }
}

#[test]
fn while_the_screen_is_stopped_the_supervisor_goes_on_and_fg_shows_what_it_did() {
    let world = World::new();
    let mut session = Session::run(80, 24, &["bash", "--norc", "--noprofile", "--noediting", "-i"]);
    session.wait_for("ready>");
    session.keys(&format!(
        "{}\n",
        words(&world.root(), &["--days", "60"]).join(" ")
    ));
    let mut demo = DemoScreen { session, world };
    demo.wait_open();
    demo.wait_done(1);
    demo.session.keys("\x1a");
    demo.session.wait_left();
    demo.session.wait_for("Stopped");
    let stopped = demo.world.status();
    let later = demo
        .world
        .wait("more done days", |s| s.done() > stopped.done() + 1);
    assert_eq!(later.holder(), stopped.holder());
    demo.session.keys("clear; fg\n");
    demo.session.wait_entered();
    demo.wait_open();
    demo.wait_done(later.done());
    demo.session
        .wait("a whole frame", |s| !s.contents().contains("Stopped"));
    demo.session.keys("q");
    demo.session.wait_prompt();
    wait_alone(&demo.world);
    demo.session.keys("exit\n");
    assert_eq!(demo.session.wait_end(), 0);
}

#[rstest]
#[case(80, 24)]
#[case(200, 60)]
fn term_gives_the_terminal_back_and_ends_everything_that_the_demo_started(
    #[case] cols: u16,
    #[case] rows: u16,
) {
    let mut demo = DemoScreen::open(cols, rows, &["--days", "60", "--pace", "8"]);
    let working = demo.world.wait("work", |s| s.running() > 0);
    let supervisor = pid_of(&working.holder().unwrap());
    assert!(test_kill_process(supervisor).is_ok());
    // There is the supervisor, and at least one attempt with its shim, beside the screen itself.
    let until = Instant::now() + PATIENCE;
    while !demo.world.processes().iter().any(|p| p.contains("__demo-job")) {
        assert!(Instant::now() < until, "{:?}", demo.world.processes());
    }
    assert!(demo.world.processes().len() > 3, "{:?}", demo.world.processes());
    demo.session.signal(Signal::TERM);
    assert_eq!(demo.session.wait_end(), 143);
    demo.session.assert_restored();
    wait_alone(&demo.world);
    assert!(test_kill_process(supervisor).is_err(), "the supervisor lives on");
    assert_eq!(demo.world.status().holder(), None);
}

/// Nothing of the demo is left. What has nothing to do any more ends with its supervisor, which takes it a moment.
fn wait_alone(world: &World) {
    let until = Instant::now() + Duration::from_secs(2);
    while !world.processes().is_empty() {
        assert!(Instant::now() < until, "{:?}", world.processes());
        thread::sleep(Duration::from_millis(5));
    }
}

/// `vm pid 4711`.
fn pid_of(holder: &str) -> Pid {
    let number = holder.rsplit(' ').next().unwrap();
    Pid::from_raw(number.parse().unwrap()).unwrap()
}

/// Even a screen that could not do anything any more leaves no supervisor behind.
#[test]
fn a_demo_that_is_killed_takes_its_supervisor_with_it() {
    let demo = DemoScreen::open(80, 24, &["--days", "60"]);
    demo.world.wait("work", |s| s.running() > 0);
    demo.session.signal(Signal::KILL);
    // Its supervisor looks once a second, and attempts end by themselves.
    let until = Instant::now() + PATIENCE;
    while !demo.world.processes().is_empty() {
        assert!(Instant::now() < until, "{:?}", demo.world.processes());
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn ctrl_c_twice_ends_the_demo_with_all_its_work_within_a_second() {
    let mut demo = DemoScreen::open(80, 24, &["--days", "60", "--pace", "8"]);
    demo.world.wait("work", |s| s.running() > 0);
    demo.session.keys("\x03");
    demo.session.wait_for("ctrl-c again within 2 s");
    let struck = demo.session.keys("\x03");
    demo.session.wait_left();
    assert!(
        struck.elapsed() < Duration::from_secs(1),
        "{:?}",
        struck.elapsed()
    );
    assert_eq!(demo.session.wait_end(), 0);
    assert!(
        struck.elapsed() < Duration::from_secs(1),
        "{:?}",
        struck.elapsed()
    );
    demo.session.assert_restored();
    wait_alone(&demo.world);
}

/// The same for a demo without a screen: it can be interrupted.
#[test]
fn a_headless_demo_that_is_told_to_end_leaves_no_process_behind() {
    let world = World::new();
    let words = words(
        &world.root(),
        &["--headless", "--json", "--days", "60", "--pace", "8"],
    );
    let mut demo = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + PATIENCE;
    while !world.processes().iter().any(|p| p.contains("__demo-job")) {
        assert!(Instant::now() < until, "{:?}", world.processes());
    }
    let pid = Pid::from_raw(i32::try_from(demo.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(1));
    wait_alone(&world);
}

#[test]
fn a_demo_without_a_folder_of_its_own_leaves_nothing_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let place = format!("TMPDIR={}", folder.path().display());
    let program = env!("CARGO_BIN_EXE_backfill");
    let mut session = Session::run(80, 24, &["env", &place, program, "demo", "--days", "60"]);
    session.wait("a done day", |s| {
        done_figure(&s.contents()).is_some_and(|n| n > 0)
    });
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    session.keys("q");
    assert_eq!(session.wait_end(), 0);
    session.assert_restored();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
