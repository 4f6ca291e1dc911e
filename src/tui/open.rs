//! Opening the screen: on a configuration, or on the demo's world.

use super::{
    keymap::Hints,
    model::{App, Feed},
    plans::Plans,
    scout::Abroad,
    sources::{self, Detached, JournalSource},
    terminal::{self, Closed, End, Options, Partners},
    theme::{Level, Look},
    view,
    writer::JournalWriter,
};
use crate::{
    cli::{
        args::Global,
        context::{Done, Exit},
    },
    config::{self, Config, Places, ScreenConfig},
    domain::{
        Time,
        event::{Actor, NewEvent, Payload},
        tuning::Tuning,
    },
    journal::{self, Journal},
    supervisor::glance,
    tui::glyphs::GlyphSet,
};
use ratatui::Frame;
use std::{
    io::IsTerminal,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

/// Opens the screen. Of a configuration with faults it uses what is sound and says so; one that is not there is a
/// screen that says so.
///
/// # Errors
/// No terminal, or a configuration that is so wrong that it is not sure which journal is meant.
pub fn open(global: &Global) -> Done {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Exit::usage(
            "the screen needs a terminal; see backfill status and backfill --help",
        ));
    }
    let found = config::find(global.config.as_deref());
    let config = match &found {
        Ok(path) => Some(Config::load_what_is_sound(path)?),
        Err(error) if global.config.is_some() => return Err(Exit::usage(error)),
        Err(_) => None,
    };
    show(global, config.as_ref(), global.config.clone())
}

/// Opens the screen on a demo, with a supervisor of its own that ends when the screen is left.
///
/// # Errors
/// No terminal, or no supervisor.
pub fn demo(global: &Global, config: &Config, name: &str) -> Done {
    if !std::io::stdout().is_terminal() {
        return Err(Exit::usage(
            "the demo's screen needs a terminal; backfill demo --headless does without",
        ));
    }
    let me = std::process::id().to_string();
    let more = [name.to_owned(), "--while-pid".to_owned(), me];
    let mut supervisor = sources::spawn(config, &more)?;
    let shown = show(global, Some(config), Some(config.path.clone()));
    end(&mut supervisor);
    end_other(config);
    shown
}

/// A supervisor that was started from the demo's screen ends with the demo, too.
fn end_other(config: &Config) {
    let Ok(mut journal) = Journal::open(&config.journal.path, journal::Options::default()) else {
        return;
    };
    let alive = |journal: &Journal| glance::holder(journal).as_ref().is_some_and(glance::is_alive);
    if !alive(&journal) {
        return;
    }
    let stop = NewEvent {
        at: chrono::Utc::now(),
        actor: Actor::supervisor(),
        reason: Some("the demo was left".to_owned()),
        backfill: None,
        payload: Payload::StopSupervising {},
    };
    if journal.append(None, None, &[stop]).is_ok() {
        let began = Instant::now();
        while alive(&journal) && began.elapsed() < Duration::from_secs(3) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// TERM, and KILL if it does not end in time; then everything that still runs has ended or is ended by its grace.
fn end(supervisor: &mut std::process::Child) {
    let pid = i32::try_from(supervisor.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        if supervisor.try_wait().is_ok_and(|s| s.is_some()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = supervisor.kill();
    let _ = supervisor.wait();
}

fn show(global: &Global, config: Option<&Config>, explicit: Option<PathBuf>) -> Done {
    let look = look(config.map(|c| &c.screen))?;
    let tuning = config.map_or_else(Tuning::default, |c| c.tuning.clone());
    let source = JournalSource::new(explicit.clone());
    let shown = source.shown();
    if let Some(config) = config {
        shown.set(config.journal.clone());
    }
    let partners = Partners {
        source: Box::new(source),
        journalist: Box::new(JournalWriter::new(
            explicit.clone(),
            shown.clone(),
            config::actor(global.actor.as_deref()),
        )),
        planner: Arc::new(Plans { tuning }),
        starter: Arc::new(Detached {
            explicit: explicit.clone(),
            shown,
        }),
        scout: Arc::new(Abroad { explicit }),
    };
    let options = Options {
        read_only: global.read_only.then_some("flag"),
        report: config.map(|c| panic_report(&c.journal.path)),
        ..Options::default()
    };
    let draw = move |frame: &mut Frame<'_>, feed: &Feed, app: &App, hints: &Hints, now: Time| {
        view::draw(frame, feed, app, &look, hints, now);
    };
    let Closed { end, unanswered } = terminal::open(options, draw, partners)?;
    for line in unanswered {
        eprintln!("backfill: sent and not answered: {line}");
    }
    match end {
        End::Quit | End::Closed => Ok(()),
        other => Err(Exit::code(u8::try_from(other.code()).unwrap_or(1))),
    }
}

fn panic_report(journal: &Path) -> PathBuf {
    Places::of(journal).state.join("panic.log")
}

/// Theme, colours and glyphs: from the configuration, else from what the terminal says of itself.
fn look(screen: Option<&ScreenConfig>) -> Result<Look, Exit> {
    let env = |key: &str| std::env::var(key).ok();
    let (level, _warning) = Level::detect(env);
    let glyphs = GlyphSet::detect(env, screen.and_then(|s| s.glyphs.as_deref()));
    let theme = match screen.and_then(|s| s.theme.clone()) {
        Some(theme) => theme,
        None if matches!(level, Level::X256 | Level::True) => background().to_owned(),
        None => "dark".to_owned(),
    };
    Look::new(&theme, level, glyphs).map_err(Exit::usage)
}

/// Light or dark, asked before the terminal is taken; a terminal that does not answer in time is dark.
fn background() -> &'static str {
    use terminal_colorsaurus::{QueryOptions, ThemeMode, theme_mode};
    let mut options = QueryOptions::default();
    options.timeout = Duration::from_millis(100);
    match theme_mode(options) {
        Ok(ThemeMode::Light) => "light",
        _ => "dark",
    }
}
