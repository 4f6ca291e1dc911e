//! What every command needs: the configuration, the journal, who acts, and how to print.

pub use super::exit::{Done, Exit};

use super::args::Global;
use crate::{
    config::{self, Config},
    domain::{
        event::{Actor, NewEvent, Payload},
        ids::BackfillId,
        state::{Backfill, State},
        text,
    },
    journal::{AppendError, Journal, OpenError, Options},
    plan::decide::Surroundings,
    supervisor::glance,
};
use chrono::Utc;
use serde::Serialize;
use std::{
    io::Write,
    time::{Duration, Instant},
};

/// Configuration, journal, actor.
pub struct Context {
    /// The checked configuration.
    pub config: Config,
    /// The journal.
    pub journal: Journal,
    /// Who acts.
    pub actor: Actor,
    /// Print JSON.
    pub json: bool,
}

/// What came of trying to append with a head.
pub enum Try<T> {
    /// It was appended, or there was nothing to append.
    Done(T),
    /// Others appended first.
    Overtaken,
    /// It cannot be done.
    No(Exit),
}

impl<T> From<AppendError> for Try<T> {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Conflict { .. } => Self::Overtaken,
            error => Self::No(error.into()),
        }
    }
}

/// How long others may be first.
const OVERTAKEN: Duration = Duration::from_secs(10);

/// See [`Context::on_newest`]; for whoever has a journal and no context.
///
/// # Errors
/// What `attempt` says, or others were first for ten seconds.
pub fn on_newest<C, T>(
    with: &mut C,
    mut state: State,
    journal: impl Fn(&C) -> &Journal,
    mut attempt: impl FnMut(&mut C, &State) -> Try<T>,
) -> Result<T, Exit> {
    let began = Instant::now();
    while began.elapsed() < OVERTAKEN {
        match attempt(with, &state) {
            Try::Done(done) => return Ok(done),
            Try::No(exit) => return Err(exit),
            Try::Overtaken => {}
        }
        for event in journal(with).read_after(state.head, usize::MAX)? {
            state.apply(&event);
        }
    }
    Err(Exit::usage(
        "the journal changes too fast; nothing was done, try again",
    ))
}

/// The configuration that the options name.
///
/// # Errors
/// It is not there or not right.
pub fn config(global: &Global) -> Result<Config, Exit> {
    let path = config::find(global.config.as_deref())?;
    Config::load(&path).map_err(|errors| Exit::config(&errors))
}

/// The same for whoever only has to find the journal: a file with faults is told, and what is sound of it used.
///
/// # Errors
/// It is not there, or so wrong that it is not sure which journal is meant.
pub fn sound_part(global: &Global) -> Result<Config, Exit> {
    let path = config::find(global.config.as_deref())?;
    let config = Config::load_what_is_sound(&path).map_err(|errors| Exit::config(&errors))?;
    if let Some(faults) = &config.faults {
        for fault in faults.lines() {
            eprintln!("backfill: {fault}");
        }
        eprintln!(
            "backfill: the file has faults, this command goes on without them; a supervisor keeps what it read before"
        );
    }
    Ok(config)
}

/// How the configured journal is opened.
pub fn options(config: &Config) -> Options {
    Options {
        group: config.journal.group.clone(),
    }
}

/// The configured journal, to be looked at; `None` if nothing has been run here yet.
///
/// # Errors
/// It is there and cannot be used.
pub fn existing(config: &Config, read_only: bool) -> Result<Option<Journal>, Exit> {
    let path = &config.journal.path;
    match Journal::open_read_only(path, options(config)) {
        Ok(journal) => Ok(Some(journal)),
        Err(OpenError::Missing { .. }) => Ok(None),
        // Only of an older program's journal, which any command of this one brings up to date.
        Err(OpenError::Older { .. }) if !read_only => Ok(Some(Journal::open(path, options(config))?)),
        Err(error) => Err(error.into()),
    }
}

/// There is no journal: what to do about it, or that the name is none.
pub fn nothing_yet(config: &Config, name: &str) -> Exit {
    if !name.is_empty() && !config.backfills.keys().any(|n| n.as_str() == name) {
        return unknown(config, name);
    }
    let name = if name.is_empty() { "NAME" } else { name };
    Exit::usage(nothing_yet_in_words(config)).hint(format!("backfill run {name}"))
}

/// `nothing has been run here yet (there is no journal at ..)`.
pub fn nothing_yet_in_words(config: &Config) -> String {
    let place = text::clean(&config.journal.path.display().to_string());
    format!("nothing has been run here yet (there is no journal at {place})")
}

impl Context {
    /// For a command that changes something about `name`; empty: about the journal as a whole. A journal that is not
    /// there is not made: nothing was started that could be changed.
    ///
    /// # Errors
    /// The configuration or the journal; or everything is read-only.
    pub fn writing(global: &Global, name: &str) -> Result<Self, Exit> {
        if global.read_only {
            return Err(Exit::usage("nothing was changed: read-only")
                .hint("leave --read-only and BACKFILL_READ_ONLY away"));
        }
        let config = sound_part(global)?;
        if let Ok(false) = config.journal.path.try_exists() {
            return Err(nothing_yet(&config, name));
        }
        let journal = Journal::open(&config.journal.path, options(&config))?;
        Ok(Self::around(global, config, journal))
    }

    /// For a command that looks at `name`; it makes nothing and needs no right to write.
    ///
    /// # Errors
    /// The configuration or the journal, or there is none yet.
    pub fn looking(global: &Global, name: &str) -> Result<Self, Exit> {
        let config = sound_part(global)?;
        match existing(&config, global.read_only)? {
            Some(journal) => Ok(Self::around(global, config, journal)),
            None => Err(nothing_yet(&config, name)),
        }
    }

    /// Around a journal that was opened.
    pub fn around(global: &Global, config: Config, journal: Journal) -> Self {
        Self {
            config,
            journal,
            actor: config::actor(global.actor.as_deref()),
            json: global.json,
        }
    }

    /// The state now.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn state(&self) -> Result<State, Exit> {
        Ok(self.journal.load_seen()?)
    }

    /// Tries `attempt` with the state now, and again with a newer one as long as others append first. Only what is
    /// new is read each time, so that a supervisor that appends all the time cannot starve a command.
    ///
    /// # Errors
    /// What `attempt` says, or others were first for ten seconds.
    pub fn on_newest<T>(&mut self, attempt: impl FnMut(&mut Self, &State) -> Try<T>) -> Result<T, Exit> {
        let state = self.state()?;
        on_newest(self, state, |ctx| &ctx.journal, attempt)
    }

    /// What is known beside the state.
    pub fn surroundings(&self) -> Surroundings {
        glance::surroundings(
            &self.journal,
            &self.config,
            glance::holder(&self.journal).as_ref(),
            Utc::now(),
        )
    }

    /// An event of this actor.
    pub fn event(&self, backfill: Option<&BackfillId>, payload: Payload, reason: Option<String>) -> NewEvent {
        let reason = reason.map(|r| text::one_line(&r, 500)).filter(|r| !r.is_empty());
        NewEvent {
            at: Utc::now(),
            actor: self.actor.clone(),
            reason,
            backfill: backfill.cloned(),
            payload,
        }
    }

    /// Appends a command and tells if the fold refused it.
    ///
    /// # Errors
    /// It was not recorded, or refused.
    pub fn send(&mut self, head: Option<u64>, event: NewEvent) -> Result<(u64, State), Exit> {
        let seqs = self.journal.append(head, None, &[event])?;
        let seq = seqs.first().copied().unwrap_or_default();
        let state = self.state()?;
        match state.refusal(seq) {
            Some(why) => Err(Exit::usage(format!("refused: {why}"))),
            None => Ok((seq, state)),
        }
    }

    /// Whether somebody supervises.
    pub fn supervised(&self) -> bool {
        glance::holder(&self.journal)
            .as_ref()
            .is_some_and(glance::is_alive)
    }

    /// Prints a value as one line of JSON, or its words.
    ///
    /// # Errors
    /// Standard output is gone.
    pub fn print(&self, value: &impl Serialize, words: impl FnOnce() -> String) -> Done {
        print(self.json, value, words)
    }
}

/// Prints a value as one line of JSON, or its words.
///
/// # Errors
/// Standard output is gone.
pub fn print(json: bool, value: &impl Serialize, words: impl FnOnce() -> String) -> Done {
    let text = if json {
        serde_json::to_string(value)?
    } else {
        words()
    };
    line(&text)
}

/// Prints a line. A reader that went away (`| head`) is no error.
///
/// # Errors
/// Standard output cannot be written.
pub fn line(text: &str) -> Done {
    match writeln!(std::io::stdout(), "{text}") {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Err(Exit::code(0)),
        Err(e) => Err(e.into()),
        Ok(()) => Ok(()),
    }
}

/// Prints a whole text. A reader that went away is no error.
///
/// # Errors
/// Standard output cannot be written.
pub fn text(text: &[u8]) -> Done {
    let mut out = std::io::stdout();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Err(Exit::code(0)),
        other => Ok(other?),
    }
}

/// The backfill of a name or id, or a sentence that names those there are.
///
/// # Errors
/// There is none.
pub fn find<'a>(state: &'a State, config: &Config, name: &str) -> Result<&'a Backfill, Exit> {
    if let Some(backfill) = state.find(name) {
        return Ok(backfill);
    }
    let configured = config.backfills.keys().any(|n| n.as_str() == name);
    if configured {
        return Err(Exit::usage(format!("{name} has not been started")).hint(format!("backfill run {name}")));
    }
    Err(unknown(config, name))
}

/// There is no such backfill in the configuration.
pub fn unknown(config: &Config, name: &str) -> Exit {
    let known: Vec<&str> = config.backfills.keys().map(|n| n.as_str()).collect();
    let near =
        config::nearest(name, known.iter().copied()).map_or(String::new(), |n| format!("did you mean {n}? "));
    let file = text::clean(&config.path.display().to_string());
    Exit::usage(format!("there is no backfill {name} in {file}"))
        .hint(format!("{near}configured: {}", known.join(", ")))
}
