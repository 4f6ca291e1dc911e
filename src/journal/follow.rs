//! Following: keeping a folded state up to date with what other processes append.

use super::{
    Journal,
    append::as_stored,
    error::{AppendError, ReadError, StoreError},
};
use crate::domain::{
    event::{Event, NewEvent},
    state::State,
};
use std::{sync::Arc, time::Duration};

/// How often a follower should look so that an event of another process is seen well within 250 ms. A look at a
/// journal in which nothing happened costs some microseconds and no disk access.
pub const FOLLOW_EVERY: Duration = Duration::from_millis(100);

/// Events folded with one look, so that a long absence does not make one look long.
const BATCH: usize = 10_000;

impl Journal {
    /// Whether another connection committed anything since the last call that said so; `true` at the first call.
    ///
    /// # Errors
    /// The store failed.
    pub fn changed(&mut self) -> Result<bool, StoreError> {
        self.check_in_place()?;
        let now: i64 = self
            .conn
            .prepare_cached("PRAGMA data_version")
            .and_then(|mut s| s.query_row([], |row| row.get(0)))
            .map_err(|e| self.failed(&e))?;
        Ok(self.data_version.replace(now) != Some(now))
    }
}

/// A journal with its state, kept up to date.
#[derive(Debug)]
pub struct Follower {
    journal: Journal,
    state: Arc<State>,
    /// There may be events that no commit of others will tell us of.
    behind: bool,
}

impl Follower {
    /// Folds the journal and follows it from there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn new(mut journal: Journal) -> Result<Self, ReadError> {
        // The counter is read before the events: what is committed between the two is looked at again.
        journal.changed()?;
        let state = Arc::new(journal.load_state()?);
        Ok(Self {
            journal,
            state,
            behind: false,
        })
    }

    /// The state as of the last look. Whoever keeps a clone of the `Arc` keeps that moment; the next look that
    /// folds something then pays for a copy.
    pub const fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// The journal, for reading.
    pub const fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The journal, for writing. The next look reads what was appended through it.
    pub fn journal_mut(&mut self) -> &mut Journal {
        self.behind = true;
        &mut self.journal
    }

    /// Folds what was appended since the last look and gives it; `None` if nothing was.
    ///
    /// # Errors
    /// The next event cannot be read; the state stays at the last good one.
    pub fn poll(&mut self) -> Result<Option<Vec<Event>>, ReadError> {
        let changed = self.journal.changed()?;
        if !changed && !self.behind {
            return Ok(None);
        }
        self.behind = true;
        let events = self.journal.read_after(self.state.head, BATCH)?;
        // A damaged event after good ones must be met again, so only an empty look ends the catching up.
        self.behind = !events.is_empty();
        if events.is_empty() {
            return Ok(None);
        }
        let state = Arc::make_mut(&mut self.state);
        for event in &events {
            state.apply(event);
        }
        Ok(Some(events))
    }

    /// Appends with the head of the state and folds what was appended: the supervisor's way.
    ///
    /// # Errors
    /// Nothing was appended. On `Conflict` look again, and decide again.
    pub fn append(&mut self, epoch: u64, events: &[NewEvent]) -> Result<Vec<Event>, AppendError> {
        let seqs = self.journal.append(Some(self.state.head), Some(epoch), events)?;
        let stored: Vec<Event> = seqs
            .iter()
            .zip(events)
            .map(|(seq, e)| as_stored(e, *seq))
            .collect();
        let state = Arc::make_mut(&mut self.state);
        for event in &stored {
            state.apply(event);
        }
        Ok(stored)
    }
}
