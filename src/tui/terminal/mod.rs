//! The terminal: taking it and giving it back, the input thread, signals, and the run loop. The only module that
//! changes terminal modes.

mod guard;
mod input;
mod output;
pub mod plain;
#[cfg(debug_assertions)]
pub mod probe;
pub mod run;
mod signals;
mod watchdog;

pub use guard::Guard;
pub use output::Frames;
pub use run::{Draw, End, Hands, Host, Inbox, Mailbox, Screen, inbox};
pub use signals::Signal;

use super::{
    driver::{Driver, Journalist, Starter},
    effect::Planner,
    feeder::{Feeder, Source, nothing_known},
    scout::{Scout, Scouting},
    update::Machine,
};
use input::InputThread;
use ratatui::{Terminal, backend::CrosstermBackend};
use rustix::process::{Signal as Posix, getpgrp, getsid, kill_current_process_group};
use signals::Listener;
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};
use watchdog::Watchdog;

/// How far the report of a panic is: 0 there was none, 1 begun, 2 written.
static PANIC: AtomicU8 = AtomicU8::new(0);

/// How the screen is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name or id of the backfill to show first.
    pub wanted: Option<String>,
    /// Where read-only comes from (`flag`, `env`, `file`), if it is read-only.
    pub read_only: Option<&'static str>,
    /// Time between two looks at the journal.
    pub every: Duration,
    /// File to which the report of a panic is appended.
    pub report: Option<PathBuf>,
    /// A signal whose handling stays as it was when the process started.
    pub leave_signal: Option<i32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            wanted: None,
            read_only: None,
            every: Duration::from_millis(200),
            report: None,
            leave_signal: None,
        }
    }
}

/// Who the screen speaks to.
pub struct Partners {
    /// Where the feed comes from.
    pub source: Box<dyn Source>,
    /// Who writes into the journal.
    pub journalist: Box<dyn Journalist>,
    /// Who plans.
    pub planner: Arc<dyn Planner>,
    /// Who starts a supervisor.
    pub starter: Arc<dyn Starter>,
    /// Who asks servers what could be attached to.
    pub scout: Arc<dyn Scout>,
}

/// What is left when the screen has closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// Why.
    pub end: End,
    /// What was sent and never answered: to be said on the normal screen.
    pub unanswered: Vec<String>,
}

/// Opens the screen on this terminal and runs it until it is left. The terminal is as before when this returns, on
/// a panic, and on every signal.
///
/// # Errors
/// There is no terminal, or no thread can be started.
pub fn open(options: Options, draw: impl Draw, partners: Partners) -> io::Result<Closed> {
    let guard = Guard::prepare()?;
    let (inbox, mailbox) = inbox();
    let hung_up = inbox.clone();
    let watchdog = Watchdog::start(guard.clone(), move || hung_up.gone())?;
    let listener = Listener::start(inbox.clone(), watchdog.clone(), options.leave_signal)?;
    guard.install_panic_hook(options.report);
    let _restored = Restored {
        guard: guard.clone(),
        watchdog: watchdog.clone(),
    };
    guard.enter()?;
    let input = InputThread::start(inbox.clone(), watchdog.clone(), guard.clone(), chrono::Utc::now)?;
    let now = chrono::Utc::now();
    let feeder = Feeder::start(partners.source, inbox.clone(), options.every, now)?;
    let driver = Driver::start(
        partners.journalist,
        partners.planner.clone(),
        partners.starter,
        feeder,
        inbox.clone(),
        chrono::Utc::now,
    )?;
    let driver = Scouting::new(driver, partners.scout, inbox);
    let frames = guard.frames();
    let host = Tty {
        guard: guard.clone(),
        frames: frames.clone(),
        input,
        stops: listener.stops(),
    };
    let terminal = Terminal::new(CrosstermBackend::new(frames))?;
    let machine = Machine::new(options.wanted, options.read_only);
    let screen = Screen::new(
        terminal,
        draw,
        driver,
        host,
        machine,
        nothing_known(now),
        partners.planner,
        chrono::Utc::now,
    );
    let (end, screen) = screen.run(&mailbox);
    Ok(Closed {
        end,
        unanswered: screen.machine.unanswered(),
    })
}

/// Gives the terminal back on every way out of [`open`], errors included: other threads hold the guard too.
struct Restored {
    guard: Guard,
    watchdog: Watchdog,
}

impl Drop for Restored {
    fn drop(&mut self) {
        self.guard.leave();
        self.watchdog.stop();
    }
}

/// The real terminal.
struct Tty {
    guard: Guard,
    frames: Frames,
    input: InputThread,
    /// Set while the stop signal shall stop the process on the spot.
    stops: Arc<AtomicBool>,
}

impl Host for Tty {
    fn commit(&mut self) -> io::Result<()> {
        self.frames.commit()
    }

    fn copy(&mut self, text: &str) -> io::Result<()> {
        self.guard.copy(text)
    }

    fn can_stop(&self) -> Result<(), String> {
        // A shell with job control gives each job a group of its own. Where our group is the session's first, there
        // is no such shell, and a stopped process would never be continued.
        match getsid(None) {
            Ok(session) if session == getpgrp() => Err("there is no shell to return to".to_owned()),
            _ => Ok(()),
        }
    }

    fn leave(&mut self) {
        self.input.park();
        self.guard.leave();
        self.stops.store(true, Ordering::SeqCst);
    }

    fn stop_group(&mut self) {
        // Whoever else is in the group (a `sh -c`) stops too, and the shell may continue all of it at once: if this
        // process stopped later than the others, that continue would come too early for it.
        let _ = kill_current_process_group(Posix::TSTP);
    }

    fn stop_here(&mut self) {
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP);
    }

    fn in_foreground(&self) -> bool {
        self.guard.in_foreground()
    }

    fn enter(&mut self) -> io::Result<()> {
        self.stops.store(false, Ordering::SeqCst);
        self.frames.discard();
        self.guard.enter()?;
        self.input.unpark();
        Ok(())
    }
}
