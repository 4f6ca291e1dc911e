//! What the screen writes: the operator's commands, into the journal that it shows.

use super::driver::{Appended, Journalist, Order};
use crate::{
    config::{self, Config, JournalConfig},
    domain::{
        event::{Actor, NewEvent, Payload},
        state::State,
    },
    journal::{AppendError, Journal, Options},
};
use chrono::Utc;
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// The journal that a screen shows: told by whoever reads it, asked by whoever writes. Nothing while nobody knows.
#[derive(Debug, Clone, Default)]
pub struct Shown(Arc<Mutex<Option<JournalConfig>>>);

impl Shown {
    /// This one from now on.
    pub fn set(&self, place: JournalConfig) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
    }

    pub(super) fn get(&self) -> Option<JournalConfig> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Writes the operator's commands.
pub struct JournalWriter {
    explicit: Option<PathBuf>,
    shown: Shown,
    actor: Actor,
    journal: Option<(PathBuf, Journal)>,
}

impl JournalWriter {
    /// A writer in the name of `actor`, into the journal that the screen shows, or into that of whatever configuration
    /// there is when a command comes before that is known.
    pub const fn new(explicit: Option<PathBuf>, shown: Shown, actor: Actor) -> Self {
        Self {
            explicit,
            shown,
            actor,
            journal: None,
        }
    }

    fn place(&self) -> Result<JournalConfig, String> {
        if let Some(place) = self.shown.get() {
            return Ok(place);
        }
        let path = config::find(self.explicit.as_deref()).map_err(|e| e.to_string())?;
        let config = Config::load_what_is_sound(&path).map_err(|e| e.to_string())?;
        Ok(config.journal)
    }

    fn journal(&mut self) -> Result<&mut Journal, String> {
        let place = self.place()?;
        self.journal = match self.journal.take().filter(|(path, _)| *path == place.path) {
            Some(opened) => Some(opened),
            None => Some((place.path.clone(), open_journal(&place)?)),
        };
        self.journal
            .as_mut()
            .map(|(_, journal)| journal)
            .ok_or_else(|| "the journal is not open".to_owned())
    }
}

impl Journalist for JournalWriter {
    fn fresh(&mut self) -> Result<Arc<State>, String> {
        Ok(Arc::new(self.journal()?.load_seen().map_err(|e| e.to_string())?))
    }

    fn append(&mut self, order: &Order) -> Appended {
        let actor = self.actor.clone();
        let event = |payload: &Payload| NewEvent {
            at: Utc::now(),
            actor: actor.clone(),
            reason: order.reason.clone(),
            backfill: order.backfill.clone(),
            payload: payload.clone(),
        };
        let events: Vec<NewEvent> = order.payloads.iter().map(event).collect();
        let journal = match self.journal() {
            Ok(journal) => journal,
            Err(why) => return Appended::Refused { why },
        };
        match journal.append(order.head, None, &events) {
            Ok(seqs) => Appended::Accepted {
                seq: seqs.last().copied().unwrap_or_default(),
            },
            Err(AppendError::Conflict { .. }) => Appended::Conflict,
            Err(error) => Appended::Refused {
                why: error.to_string(),
            },
        }
    }
}

pub(super) fn open_journal(place: &JournalConfig) -> Result<Journal, String> {
    let options = Options {
        group: place.group.clone(),
    };
    Journal::open(&place.path, options).map_err(|e| e.to_string())
}
