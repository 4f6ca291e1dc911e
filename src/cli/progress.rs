//! What `run` shows: a bar on a terminal, JSON lines with `--json`, plain lines elsewhere. A terminal that does not
//! read never holds the supervisor up: lines go through a bounded queue, and what does not fit is dropped.

use super::{prompt, tell};
use crate::{
    domain::{
        Time,
        event::{Payload, Read},
        ids::Name,
        state::{ChunkState, State},
        tuning::Tuning,
    },
    plan::{
        decide::{ExecutorFacts, Surroundings},
        why::{self, Why},
    },
    supervisor::run::Watch,
};
use chrono::Utc;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{IsTerminal, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Lines that may wait for a slow reader.
const QUEUE: usize = 4096;

enum Shown {
    Line(String),
    /// `stuck`: nothing starts, and the words say why; they get the room of the bar.
    Counts {
        done: u64,
        all: u64,
        words: String,
        stuck: bool,
    },
    End,
}

/// The sending side.
pub struct Progress {
    sender: SyncSender<Shown>,
    thread: Option<JoinHandle<()>>,
    style: Style,
    name: String,
    /// Why nothing starts, as last said; shared by all watchers.
    said: Arc<Said>,
}

/// What the reasons need to know of what was said.
#[derive(Default)]
struct Said {
    /// The stable word of the reason that was said last.
    reason: Mutex<Option<&'static str>>,
    /// The configuration says another order than the one that was started.
    drift: AtomicBool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Json,
    Bar,
    Plain,
    Quiet,
}

impl Progress {
    /// Shows the events of a backfill.
    pub fn start(json: bool, name: &Name) -> Self {
        let style = match (json, std::io::stdout().is_terminal()) {
            (true, _) => Style::Json,
            (false, true) => Style::Bar,
            (false, false) => Style::Plain,
        };
        Self::with(style, name.as_str())
    }

    /// Shows nothing.
    pub fn quiet() -> Self {
        Self::with(Style::Quiet, "")
    }

    fn with(style: Style, name: &str) -> Self {
        let (sender, receiver) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("progress".to_owned())
            .spawn(move || show(style, &receiver))
            .ok();
        Self {
            sender,
            thread,
            style,
            name: name.to_owned(),
            said: Arc::default(),
        }
    }

    /// A line beside the events.
    pub fn say(&self, text: &str) {
        if matches!(self.style, Style::Bar | Style::Plain) {
            let _ = self.sender.try_send(Shown::Line(text.to_owned()));
        }
    }

    /// What is no event: as an object with `--json`, else in words.
    pub fn tell(&self, value: &serde_json::Value, words: &str) {
        match self.style {
            Style::Json => drop(self.sender.try_send(Shown::Line(value.to_string()))),
            _ => self.say(words),
        }
    }

    /// From now on the configuration is known to say another order, until the order is amended.
    pub fn note_drift(&self) {
        self.said.drift.store(true, Ordering::Relaxed);
    }

    /// Says why nothing starts, if nothing does and that was not said already. Not with `--json`, whose reader has the
    /// events.
    pub fn say_what_holds_it(&self, state: &State) {
        if self.style == Style::Plain
            && let Some(line) = changed(&self.said, state, &self.name, Utc::now())
        {
            self.say(&line);
        }
    }

    /// Told of every event after it is durable.
    pub fn watcher(&self) -> Watch {
        let (sender, style, name) = (self.sender.clone(), self.style, self.name.clone());
        let said = self.said.clone();
        Box::new(move |state, event| {
            if matches!(event.payload, Read::Known(Payload::Amended { .. })) {
                said.drift.store(false, Ordering::Relaxed);
            }
            let shown = match style {
                Style::Quiet => return,
                Style::Json => Shown::Line(tell::json(event)),
                Style::Plain => Shown::Line(tell::plain(event)),
                Style::Bar => match counts(&said, state, &name, event.at) {
                    Some(counts) => counts,
                    None => return,
                },
            };
            let _ = sender.try_send(shown);
            if style == Style::Plain
                && let Some(line) = changed(&said, state, &name, event.at)
            {
                let _ = sender.try_send(Shown::Line(line));
            }
        })
    }

    /// Shows what is queued and ends; waits at most two seconds for a reader.
    pub fn finish(mut self) {
        let _ = self.sender.try_send(Shown::End);
        if let Some(thread) = self.thread.take() {
            for _ in 0..200 {
                if thread.is_finished() {
                    let _ = thread.join();
                    return;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Why nothing of a backfill starts, as far as the journal tells: paused, blind, its breaker, its signals. `None` while
/// starts are possible, and when it has ended.
fn held_up(said: &Said, state: &State, name: &str, now: Time) -> Option<Why> {
    let backfill = state.by_name(name)?;
    if backfill.cancel.is_some() || backfill.state().is_final() {
        return None;
    }
    let facts = ExecutorFacts {
        slots: None,
        problem: None,
    };
    let around = Surroundings {
        now,
        tuning: Tuning::default(),
        executors: BTreeMap::from([(backfill.spec.executor.clone(), facts)]),
        signals: None,
        paced: BTreeSet::new(),
        admissions: BTreeMap::new(),
        disk_low: false,
        supervised: true,
        elsewhere: BTreeMap::new(),
    };
    let why = why::stop(state, backfill, &around).or_else(|| why::before_blackout(backfill, now))?;
    let help = prompt::sentence(&why.unblock);
    let unblock = prompt::amend_first(help, backfill, said.drift.load(Ordering::Relaxed));
    Some(Why { unblock, ..why })
}

/// A line when what holds the backfill up is something else than what was said last.
fn changed(said: &Said, state: &State, name: &str, now: Time) -> Option<String> {
    let why = held_up(said, state, name, now);
    let mut last = said.reason.lock().unwrap_or_else(PoisonError::into_inner);
    let reason = why.as_ref().map(|w| w.reason);
    if *last == reason {
        return None;
    }
    *last = reason;
    let words = why.map_or_else(
        || "starts go on".to_owned(),
        |w| format!("nothing starts: {}", in_words(&w)),
    );
    Some(format!("{}  {words}", now.format("%Y-%m-%d %H:%M:%S")))
}

/// The reason with what helps.
fn in_words(why: &Why) -> String {
    match &why.unblock {
        help if help.is_empty() => why.text.clone(),
        help => format!("{}  [{help}]", why.text),
    }
}

fn counts(said: &Said, state: &State, name: &str, now: Time) -> Option<Shown> {
    let backfill = state.by_name(name)?;
    let stuck = held_up(said, state, name, now);
    let settled = backfill.count(ChunkState::Done) + backfill.count(ChunkState::Skipped);
    let bad = backfill.count(ChunkState::Failed) + backfill.count(ChunkState::Quarantined);
    let running = backfill.running_weight();
    let limit = crate::plan::decide::allowed(backfill, backfill.changed).limit;
    let state = backfill.state().word();
    let figures = format!("{state}  {running} of {limit} running  {bad} failed");
    // What does not fit is cut at the end: of what holds it up nothing may be, so it stands first.
    let words = match &stuck {
        Some(why) => format!("nothing starts: {}  {figures}", in_words(why)),
        None => format!("{figures}  {}", backfill.limit.why),
    };
    Some(Shown::Counts {
        done: u64::from(settled),
        all: backfill.chunks.len() as u64,
        words,
        stuck: stuck.is_some(),
    })
}

fn show(style: Style, receiver: &Receiver<Shown>) {
    let bar = (style == Style::Bar).then(bar);
    while let Ok(shown) = receiver.recv() {
        match (shown, &bar) {
            (Shown::End, _) => break,
            (Shown::Line(text), Some(bar)) => bar.println(text),
            (Shown::Line(text), None) => {
                if writeln!(std::io::stdout(), "{text}").is_err() {
                    break;
                }
            }
            (
                Shown::Counts {
                    done,
                    all,
                    words,
                    stuck,
                },
                Some(bar),
            ) => {
                draw_as(bar, if stuck { STUCK } else { GOES_ON });
                bar.set_length(all);
                bar.set_position(done);
                bar.set_message(words);
            }
            (Shown::Counts { .. }, None) => {}
        }
    }
    if let Some(bar) = bar {
        bar.abandon();
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
    draw_as(&bar, GOES_ON);
    bar
}

const GOES_ON: &str = "{pos}/{len} [{bar:30}] {percent}% {elapsed} {wide_msg}";
/// Without the bar, which stands still anyway: the reason needs its room.
const STUCK: &str = "{pos}/{len} {wide_msg}";

fn draw_as(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("#> "));
    }
}
