//! The whole program on a backend in memory: input in, frames out, and the loop hands itself back at the end.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod tui_update_desk;

use backfill::{
    domain::{Time, event::Payload},
    tui::{
        driver::{Driver, Starter},
        effect::{Effect, Planner},
        feeder::{Feeder, nothing_known},
        keymap::{Hints, Key},
        model::{App, Feed},
        msg::{Msg, Press},
        terminal::{
            End, Hands, Host, Inbox, Mailbox, Screen, Signal, inbox, plain,
            probe::{Counter, Memory, Plans, Reader, epoch, year},
        },
        update::Machine,
    },
};
use proptest::prelude::*;
use ratatui::{Frame, Terminal, backend::TestBackend};
use std::{
    io,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use tui_update_desk::{Desk, day};

/// What was drawn, and when.
#[derive(Clone, Default)]
struct Frames(Arc<Mutex<Vec<(Instant, String)>>>);

impl Frames {
    fn drawer(&self) -> impl FnMut(&mut Frame<'_>, &Feed, &App, &Hints, Time) + Send + 'static {
        let frames = self.0.clone();
        move |frame, feed, app, hints, now| {
            plain::draw(frame, feed, app, hints, now);
            let buffer = frame.buffer_mut();
            let text: String = buffer.content().iter().map(|c| c.symbol()).collect();
            frames.lock().unwrap().push((Instant::now(), text));
        }
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Waits for a frame that shows a text, drawn after `since`; returns how long after.
    fn wait_for(&self, text: &str, since: Instant) -> Duration {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let frames = self.0.lock().unwrap();
            if let Some((at, _)) = frames
                .iter()
                .find(|(at, frame)| *at >= since && frame.contains(text))
            {
                return *at - since;
            }
            let last = frames.last().map(|(_, frame)| frame.clone()).unwrap_or_default();
            drop(frames);
            assert!(Instant::now() < until, "`{text}` never came; last frame: {last}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A terminal that only remembers what was asked of it.
#[derive(Clone)]
struct Paper {
    calls: Arc<Mutex<Vec<String>>>,
    inbox: Inbox,
    foreground: Arc<Mutex<bool>>,
    shell: bool,
    /// Messages of stops come late, when somebody sends them.
    late: bool,
}

impl Paper {
    fn new(inbox: &Inbox) -> Self {
        Self {
            calls: Arc::default(),
            inbox: inbox.clone(),
            foreground: Arc::new(Mutex::new(true)),
            shell: true,
            late: false,
        }
    }

    fn note(&self, call: &str) {
        self.calls.lock().unwrap().push(call.to_owned());
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    fn wait_for(&self, calls: &[&str]) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.calls() != calls {
            assert!(Instant::now() < until, "{:?} instead of {calls:?}", self.calls());
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Host for Paper {
    fn commit(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn copy(&mut self, text: &str) -> io::Result<()> {
        self.note(&format!("copy {text}"));
        Ok(())
    }
    fn can_stop(&self) -> Result<(), String> {
        if self.shell {
            Ok(())
        } else {
            Err("there is no shell to return to".to_owned())
        }
    }
    fn leave(&mut self) {
        self.note("leave");
    }
    fn stop_group(&mut self) {
        self.note("stop group");
        if self.late {
            return;
        }
        *self.foreground.lock().unwrap() = false;
        self.inbox.signal(Signal::Stop);
        self.inbox.signal(Signal::Continue);
    }
    fn stop_here(&mut self) {
        self.note("stop here");
        *self.foreground.lock().unwrap() = false;
        self.inbox.signal(Signal::Continue);
    }
    fn in_foreground(&self) -> bool {
        *self.foreground.lock().unwrap()
    }
    fn enter(&mut self) -> io::Result<()> {
        self.note("enter");
        Ok(())
    }
}

/// The program, running on a thread of its own.
struct Program {
    inbox: Inbox,
    frames: Frames,
    paper: Paper,
    memory: Memory,
    thread: thread::JoinHandle<(End, Machine)>,
}

impl Program {
    fn start(memory: &Memory) -> Self {
        Self::start_with(memory, |_| {})
    }

    fn start_with(memory: &Memory, change: impl FnOnce(&mut Paper)) -> Self {
        let (inbox, mailbox) = inbox();
        let frames = Frames::default();
        let mut paper = Paper::new(&inbox);
        change(&mut paper);
        let source = Box::new(Reader::new(memory.clone()));
        let every = Duration::from_millis(20);
        let feeder = Feeder::start(source, inbox.clone(), every, epoch()).unwrap();
        let planner: Arc<dyn Planner> = Arc::new(Plans::default());
        let starter: Arc<dyn Starter> = Arc::new(Counter::default());
        let journalist = Box::new(memory.clone());
        let driver = Driver::start(
            journalist,
            planner.clone(),
            starter,
            feeder,
            inbox.clone(),
            chrono::Utc::now,
        )
        .unwrap();
        let (draw, host) = (frames.drawer(), paper.clone());
        let thread = thread::spawn(move || {
            let terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
            let machine = Machine::new(None, None);
            let feed = nothing_known(epoch());
            let screen = Screen::new(
                terminal,
                draw,
                driver,
                host,
                machine,
                feed,
                planner,
                chrono::Utc::now,
            );
            let (end, screen) = screen.run(&mailbox);
            (end, screen.machine)
        });
        let program = Self {
            inbox,
            frames,
            paper,
            memory: memory.clone(),
            thread,
        };
        program.frames.wait_for("backfill", program.began());
        program
    }

    fn began(&self) -> Instant {
        Instant::now() - Duration::from_secs(5)
    }

    fn key(&self, key: &str) -> Instant {
        let at = Instant::now();
        let press = Press {
            key: key.parse::<Key>().unwrap(),
            repeat: false,
            at: chrono::Utc::now(),
        };
        self.inbox.input(Msg::Key(press));
        at
    }

    fn end(self) -> (End, Machine) {
        self.thread.join().unwrap()
    }
}

#[test]
fn keys_go_in_frames_come_out_and_the_program_hands_itself_back() {
    let (memory, id) = year().unwrap();
    let program = Program::start(&memory);
    program.frames.wait_for("RUNNING  365 chunks", program.began());
    let at = program.key("p");
    program.frames.wait_for("PAUSED by minh", at);
    program.frames.wait_for("paused: nothing starts from here on", at);
    assert!(program.memory.state().backfills[&id].pause.is_some());
    program.key("esc");
    program.key("q");
    let (end, machine) = program.end();
    assert_eq!((end, machine.unanswered()), (End::Quit, Vec::new()));
}

/// Proof 6 and case S02, on the machine: with every source and the journal hanging, each key is answered on the
/// screen within 100 ms (the guard is ten times that), and ctrl-c twice ends it within a second.
#[test]
fn with_everything_hanging_each_key_is_answered_and_ctrl_c_twice_ends_it() {
    let (memory, _) = year().unwrap();
    let program = Program::start(&memory);
    program.frames.wait_for("365 chunks", program.began());
    memory.faults(|f| (f.reading_hangs, f.writing_hangs) = (true, true));
    let mut worst = Duration::ZERO;
    for (key, answer) in [
        ("j", "> 2023-01-09"),
        ("p", "pause of orders: sent"),
        ("esc", "zoom days"),
        ("R", "[plan] Re-run"),
        ("esc", "> 2023-01-09"),
        ("?", "[help]"),
        ("esc", "> 2023-01-09"),
        ("x", "x does nothing here"),
        ("b", "hold of 2023-01-09: sent"),
        ("-", "zoom years"),
    ] {
        let at = program.key(key);
        worst = worst.max(program.frames.wait_for(answer, at));
    }
    assert!(worst < Duration::from_secs(1), "the slowest key took {worst:?}");
    program.key("ctrl-c");
    let at = program.key("ctrl-c");
    let (end, machine) = program.end();
    assert!(at.elapsed() < Duration::from_secs(1), "{:?}", at.elapsed());
    assert_eq!(end, End::Quit);
    assert_eq!(machine.unanswered(), ["pause of orders", "hold of 2023-01-09"]);
}

#[test]
fn an_idle_screen_draws_once_a_second_and_not_more() {
    let (memory, _) = year().unwrap();
    let program = Program::start(&memory);
    program.frames.wait_for("365 chunks", program.began());
    thread::sleep(Duration::from_millis(300));
    let before = program.frames.len();
    thread::sleep(Duration::from_millis(3000));
    let drawn = program.frames.len() - before;
    // The feeder looked 150 times meanwhile and found nothing new.
    assert!((1..=4).contains(&drawn), "{drawn} frames in 3 s");
    program.key("q");
    assert_eq!(program.end().0, End::Quit);
}

#[test]
fn what_another_process_writes_is_on_the_screen_without_a_key() {
    let (memory, id) = year().unwrap();
    let program = Program::start(&memory);
    program.frames.wait_for("RUNNING", program.began());
    let at = Instant::now();
    memory.happen(true, Some(&id), Payload::Paused { until: None }, None);
    let took = program.frames.wait_for("PAUSED by minh", at);
    assert!(took < Duration::from_secs(2), "{took:?}");
    program.inbox.signal(Signal::End(15));
    let (end, _) = program.end();
    assert_eq!((end, end.code()), (End::Signal(15), 143));
}

/// Case S01: a source that fails is named, nothing else changes, and it heals by itself.
#[test]
fn a_source_that_fails_is_named_and_heals_without_a_restart() {
    let (memory, id) = year().unwrap();
    let program = Program::start(&memory);
    program.frames.wait_for("365 chunks", program.began());
    let at = program.key("j");
    program.frames.wait_for("> 2023-01-09", at);
    let at = Instant::now();
    memory.faults(|f| f.reading_fails = true);
    program.frames.wait_for("disk I/O error", at);
    let at = Instant::now();
    memory.faults(|f| f.reading_fails = false);
    memory.happen(true, Some(&id), Payload::Paused { until: None }, None);
    program.frames.wait_for("PAUSED", at);
    program.inbox.gone();
    let (end, machine) = program.end();
    assert_eq!(end, End::Gone);
    assert_eq!(machine.app.cursor, Some(day("2023-01-09")), "the place is kept");
}

#[test]
fn a_full_queue_is_an_answer_and_a_full_inbox_never_blocks_the_operator() {
    let (memory, _) = year().unwrap();
    memory.faults(|f| f.writing_hangs = true);
    let program = Program::start(&memory);
    program.frames.wait_for("365 chunks", program.began());
    let at = program.key("G");
    program.frames.wait_for("> 2023-12-31", at);
    // One is with the journal, sixteen wait, the next is refused at once.
    for _ in 0..18 {
        program.key("b");
        program.key("k");
    }
    program
        .frames
        .wait_for("refused, 16 commands wait for the journal already", at);
    let began = Instant::now();
    for _ in 0..5000 {
        program.key("j");
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    program.inbox.signal(Signal::End(1));
    assert_eq!(program.end().0, End::Signal(1));
}

#[test]
fn ctrl_z_gives_the_terminal_back_before_it_stops_and_takes_it_again_in_the_foreground() {
    let (memory, _) = year().unwrap();
    let program = Program::start(&memory);
    program.frames.wait_for("365 chunks", program.began());
    program.key("ctrl-z");
    program.paper.wait_for(&["leave", "stop group"]);
    // Continued, but in the background: the terminal is not touched.
    thread::sleep(Duration::from_millis(300));
    assert_eq!(program.paper.calls(), ["leave", "stop group"]);
    let drawn = program.frames.len();
    program.key("j");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(program.frames.len(), drawn, "nothing is drawn in the background");
    let at = Instant::now();
    *program.paper.foreground.lock().unwrap() = true;
    program.frames.wait_for("365 chunks", at);
    assert_eq!(program.paper.calls(), ["leave", "stop group", "enter"]);
    // The message of that stop is spent; a stop signal from outside finds the terminal still taken.
    program.inbox.signal(Signal::Stop);
    program
        .paper
        .wait_for(&["leave", "stop group", "enter", "leave", "stop here"]);
    *program.paper.foreground.lock().unwrap() = true;
    program
        .paper
        .wait_for(&["leave", "stop group", "enter", "leave", "stop here", "enter"]);
    // And where it could not even be given back (STOP), the screen is taken anew.
    program.inbox.signal(Signal::Continue);
    program.paper.wait_for(&[
        "leave",
        "stop group",
        "enter",
        "leave",
        "stop here",
        "enter",
        "enter",
    ]);
    program.key("q");
    assert_eq!(program.end().0, End::Quit);
}

/// On a busy machine the message of our own stop comes when the screen is back already. It is not another stop.
#[test]
fn a_late_message_of_a_stop_does_not_stop_a_second_time() {
    let (memory, _) = year().unwrap();
    let program = Program::start_with(&memory, |paper| paper.late = true);
    program.frames.wait_for("365 chunks", program.began());
    program.key("ctrl-z");
    program.paper.wait_for(&["leave", "stop group", "enter"]);
    program.inbox.signal(Signal::Stop);
    program.inbox.signal(Signal::Continue);
    let at = program.key("j");
    program.frames.wait_for("> 2023-01-09", at);
    assert_eq!(program.paper.calls(), ["leave", "stop group", "enter"]);
    program.key("q");
    assert_eq!(program.end().0, End::Quit);
}

#[test]
fn without_a_shell_to_return_to_ctrl_z_says_so() {
    let (memory, _) = year().unwrap();
    let program = Program::start_with(&memory, |paper| paper.shell = false);
    program.frames.wait_for("365 chunks", program.began());
    let at = program.key("ctrl-z");
    program.frames.wait_for("there is no shell to return to", at);
    program.inbox.signal(Signal::Stop);
    let at = program.key("j");
    program.frames.wait_for("> 2023-01-09", at);
    assert_eq!(program.paper.calls(), Vec::<String>::new());
    program.key("q");
    assert_eq!(program.end().0, End::Quit);
}

#[test]
fn a_dialog_confirmed_against_a_changed_journal_stays_and_shows_the_difference() {
    let (memory, id) = year().unwrap();
    // The screen does not hear of the change: its feeder fails from before it.
    let program = Program::start(&memory);
    program.frames.wait_for("365 chunks", program.began());
    let at = Instant::now();
    memory.faults(|f| f.reading_hangs = true);
    thread::sleep(Duration::from_millis(200));
    memory.happen(
        true,
        Some(&id),
        Payload::Skipped {
            chunks: vec![day("2023-01-06")],
        },
        None,
    );
    program.key("r");
    program.frames.wait_for("[plan] Re-run 1 days", at);
    thread::sleep(Duration::from_millis(400));
    let at = program.key("y");
    program.frames.wait_for("2023-01-06 is left out: is skipped", at);
    let rerun = |m: &Memory| {
        m.events()
            .iter()
            .any(|e| format!("{:?}", e.payload).contains("RerunRequested"))
    };
    assert!(!rerun(&memory));
    program.inbox.gone();
    program.end();
}

fn any_key() -> impl Strategy<Value = String> {
    let named = [
        "space",
        "enter",
        "esc",
        "tab",
        "shift-tab",
        "backspace",
        "up",
        "down",
        "left",
        "right",
    ];
    let more = [
        "home",
        "end",
        "pgup",
        "pgdn",
        "ctrl-d",
        "ctrl-u",
        "ctrl-space",
        "ctrl-p",
        "ctrl-r",
        "ctrl-w",
        "f1",
    ];
    prop_oneof![
        6 => proptest::char::range('!', '~').prop_map(String::from),
        3 => proptest::sample::select([named.as_slice(), more.as_slice()].concat()).prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Case S12: any keys, any refreshes, any size: nothing panics, and what is sent is never without its dialog.
    #[test]
    fn any_keys_at_any_size_never_break_the_screen(
        keys in proptest::collection::vec((any_key(), 0i64..900, 0u8..20), 1..80),
        width in 1u16..300,
        height in 1u16..100,
    ) {
        let mut desk = Desk::new();
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let (other, _) = year().unwrap();
        for (key, wait, chance) in keys {
            match chance {
                0 => {
                    let id = desk.id.clone();
                    desk.memory.happen(true, Some(&id), Payload::Paused { until: None }, None);
                    desk.refresh();
                }
                1 => {
                    desk.feed = other.feed();
                    desk.send(Msg::Fed);
                }
                2 => {
                    desk.send(Msg::Tick);
                }
                3 => {
                    desk.send(Msg::Paste(key.clone()));
                }
                _ => {}
            }
            for effect in desk.wait(wait).fast(&key) {
                if let Effect::Submit { ask, digest, .. } = &effect {
                    let dialog = desk.dialog();
                    prop_assert_eq!((&dialog.ask, &dialog.preview.digest), (ask, digest));
                    prop_assert!(dialog.phrase_fits());
                }
            }
            let hints = backfill::tui::keymap::hints(&desk.machine.app, &desk.feed);
            terminal.draw(|f| plain::draw(f, &desk.feed, &desk.machine.app, &hints, desk.now)).unwrap();
            desk.send(Msg::Drawn);
        }
    }
}

/// The loop's parts can be replaced one by one: here hands that note what they are given.
#[test]
fn a_test_owns_every_part_of_the_loop() {
    struct Notes(Arc<Mutex<Vec<Effect>>>);
    impl Hands for Notes {
        fn take(&mut self, effect: Effect, _: &Feed) -> Option<Msg> {
            self.0.lock().unwrap().push(effect);
            None
        }
    }
    let notes = Arc::<Mutex<Vec<Effect>>>::default();
    let (inbox, mailbox): (Inbox, Mailbox) = inbox();
    let (memory, id) = year().unwrap();
    let mut screen = Screen::new(
        Terminal::new(TestBackend::new(80, 24)).unwrap(),
        plain::draw,
        Notes(notes.clone()),
        Paper::new(&inbox),
        Machine::new(None, None),
        memory.feed(),
        Arc::new(Plans::default()),
        epoch,
    );
    screen.handle(Msg::Fed);
    let press = Press {
        key: "y".parse().unwrap(),
        repeat: false,
        at: epoch(),
    };
    screen.handle(Msg::Key(press));
    assert_eq!(screen.host.calls(), [format!("copy {id}/2023-01-08")]);
    drop(inbox);
    drop(screen.host);
    let _ = mailbox;
    assert!(matches!(&notes.lock().unwrap()[..], [Effect::Watch(_)]));
}
