//! What `run` shows: a bar on a terminal, JSON lines with `--json`, plain lines elsewhere. A terminal that does not
//! read never holds the supervisor up: lines go through a bounded queue, and what does not fit is dropped.

use super::tell;
use crate::domain::{
    ids::Name,
    state::{ChunkState, State},
};
use crate::supervisor::run::Watch;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::{
    io::{IsTerminal, Write},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::JoinHandle,
    time::Duration,
};

/// Lines that may wait for a slow reader.
const QUEUE: usize = 4096;

enum Shown {
    Line(String),
    Counts { done: u64, all: u64, words: String },
    End,
}

/// The sending side.
pub struct Progress {
    sender: SyncSender<Shown>,
    thread: Option<JoinHandle<()>>,
    style: Style,
    name: String,
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

    /// Told of every event after it is durable.
    pub fn watcher(&self) -> Watch {
        let (sender, style, name) = (self.sender.clone(), self.style, self.name.clone());
        Box::new(move |state, event| {
            let shown = match style {
                Style::Quiet => return,
                Style::Json => Shown::Line(tell::json(event)),
                Style::Plain => Shown::Line(tell::plain(event)),
                Style::Bar => match counts(state, &name) {
                    Some(counts) => counts,
                    None => return,
                },
            };
            let _ = sender.try_send(shown);
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

fn counts(state: &State, name: &str) -> Option<Shown> {
    let backfill = state.by_name(name)?;
    let settled = backfill.count(ChunkState::Done) + backfill.count(ChunkState::Skipped);
    let bad = backfill.count(ChunkState::Failed) + backfill.count(ChunkState::Quarantined);
    let running = backfill.running_weight();
    let limit = crate::plan::decide::allowed(backfill, backfill.changed).limit;
    let state = backfill.state().word();
    let words = format!(
        "{state}  {running} of {limit} running  {bad} failed  {}",
        backfill.limit.why
    );
    Some(Shown::Counts {
        done: u64::from(settled),
        all: backfill.chunks.len() as u64,
        words,
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
            (Shown::Counts { done, all, words }, Some(bar)) => {
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
    if let Ok(style) = ProgressStyle::with_template("{pos}/{len} [{bar:30}] {percent}% {elapsed} {wide_msg}")
    {
        bar.set_style(style.progress_chars("#> "));
    }
    bar
}
