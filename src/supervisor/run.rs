//! The loop: inputs -> events -> append -> fold -> decide -> intents -> append -> effects. It waits only for its inbox
//! and the journal; everything outside is a task of the [`Driver`].

use super::{
    core::{Core, Input},
    driver::Driver,
    gate::Gate,
    kill_point, news,
    record::{Note, Record},
    reload::Reload,
    silences,
    watchers::Watchers,
};
use crate::{
    domain::{
        Time,
        attach::Asked,
        event::{Actor, Event, NewEvent, Payload, Read, Rule},
        ids::{AttemptId, BackfillId},
        state::{Backfill, State},
    },
    host::{BootInstant, boot_now},
    journal::{
        AppendError, FOLLOW_EVERY, Journal, Lease, ReadError, RenewError, Scope, StoreError, as_stored,
        free_bytes, snapshot_due,
    },
};
use chrono::{SubsecRound, Utc};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::{runtime::Handle, sync::mpsc::UnboundedReceiver};

/// When the loop ends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// This backfill has ended.
    Ends(BackfillId),
    /// Everything that was started has ended.
    AllEnded,
    /// Somebody says so: `stop`, TERM, or the demo's end.
    Told,
}

/// Why it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The backfill has ended.
    BackfillEnded,
    /// Somebody asked for it.
    Told,
    /// Another supervisor took over; nothing was sent after that.
    LeaseLost(String),
}

/// Why the loop could not go on.
#[derive(Debug, thiserror::Error)]
pub enum LoopError {
    /// The journal cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The journal cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// This program is too old for the journal.
    #[error("event {seq} ({kind} v{version}) was written by a newer backfill; this one may only watch")]
    Observer {
        /// Its place.
        seq: u64,
        /// Its kind.
        kind: String,
        /// Its version.
        version: u16,
    },
}

/// Told of every event after it is durable, with the state after it. It must not wait for anything.
pub type Watch = Box<dyn FnMut(&State, &Event) + Send>;

/// A running supervisor.
pub struct Loop {
    /// The journal, opened for writing.
    pub journal: Journal,
    /// Its fold.
    pub state: State,
    /// The lease.
    pub lease: Lease,
    /// The decisions.
    pub core: Core,
    /// The hands.
    pub driver: Driver,
    /// What every submission passes.
    pub gate: Arc<Gate>,
    /// News.
    pub inbox: UnboundedReceiver<Input>,
    /// Samples, limits and observations.
    pub record: Record,
    /// The configuration's file.
    pub reload: Reload,
    /// Tasks that look at attached backfills and pools.
    pub watchers: Watchers,
    /// When to end.
    pub until: Until,
    /// Told of every event, after it is durable.
    pub watch: Watch,
    /// What the loop remembers about its own reading and writing.
    pub desk: Desk,
}

/// What the loop remembers about its own reading and writing. Begins empty.
#[derive(Debug, Default)]
pub struct Desk {
    /// The fold of what is durable and was told to the watcher. [`Loop::state`] has the events on top that are about
    /// to be appended.
    base: State,
    /// There may be events that no commit of others will tell us of.
    behind: bool,
    /// Why the journal cannot be read or written now.
    trouble: Option<String>,
    chores: Chores,
}

/// How long to wait before a journal that refused is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(250);

/// What one pass of the loop may do.
#[derive(Debug, Clone, Copy)]
struct Pass {
    wall: Time,
    boot: BootInstant,
    /// Somebody sent TERM or INT.
    told: bool,
}

impl Loop {
    /// Runs until it ends. Blocking: to be called on a thread of its own.
    ///
    /// # Errors
    /// The journal is damaged or from a newer program. Nothing was sent since.
    pub fn run(mut self, runtime: &Handle) -> Result<Ended, LoopError> {
        let mut rng = ChaCha8Rng::from_rng(&mut rand::rng());
        if let Some(ended) = self.begin(runtime)? {
            return Ok(ended);
        }
        loop {
            let look = self.core.tuning.tick.min(FOLLOW_EVERY);
            let inputs = news::wait(&mut self.inbox, runtime, look);
            let pass = Pass::now(inputs.iter().any(|i| matches!(i, Input::Quit)));
            let reload = inputs.iter().any(|i| matches!(i, Input::Reload));
            if let Err(ended) = self.keep_lease(pass.boot) {
                return Ok(ended);
            }
            self.follow(pass.wall)?;
            self.chores(runtime, pass.boot);
            self.reload(reload, pass);
            for input in inputs {
                self.note(&input, pass.wall);
                self.core.take(&mut self.state, input, rng.random(), pass.wall);
            }
            self.note_judged(pass.wall);
            self.note_sightings();
            self.watchers
                .follow(&self.state, &self.driver.executors, &self.driver.inbox, runtime);
            self.conclude(pass);
            if let Some(ended) = self.append(pass)? {
                return Ok(ended);
            }
            self.record
                .limits(&self.state, &self.core, self.reload.path(), pass.wall);
            if let Some(ended) = self.end(pass.told) {
                // Before the lease is free: a next supervisor's silences are its own.
                self.reload.end_silences();
                if self.finish(&ended, pass.wall) {
                    return Ok(ended);
                }
            }
        }
    }

    /// Announces itself and starts recovery: nothing is decided before every open attempt is known to be asked about.
    fn begin(&mut self, runtime: &Handle) -> Result<Option<Ended>, LoopError> {
        let pass = Pass::now(false);
        self.desk.base = self.state.clone();
        self.gate
            .lease_renewed(self.lease.renewed, self.core.tuning.lease_stop);
        self.chores(runtime, pass.boot);
        let probes = self.core.recover(&self.state);
        let latches = self.latches_acknowledged()?;
        let payload = Payload::LeaseTaken {
            epoch: self.lease.epoch,
            holder: self.lease.holder.clone(),
            from: self.lease.from.clone(),
        };
        let event = NewEvent {
            at: pass.wall,
            actor: Actor::supervisor(),
            reason: None,
            backfill: None,
            payload,
        };
        self.core.push(&mut self.state, event);
        for event in latches {
            self.core.heard(&mut self.state, &event, pass.wall);
        }
        let ended = self.append(pass)?;
        for effect in probes {
            self.driver.perform(effect, &self.state);
        }
        Ok(ended)
    }

    /// Acknowledgements of latches that nobody heard, because nobody supervised or the holder died right then. The
    /// controller knows of its latch only by its checkpoint, not by the fold.
    fn latches_acknowledged(&self) -> Result<Vec<Event>, LoopError> {
        let latched = |b: &&Backfill| b.limit.value == 0 && b.limit.rule == Rule::Latch;
        let mut found = Vec::new();
        for backfill in self.state.backfills.values().filter(latched) {
            found.extend(unheard_acknowledgement(&self.journal, backfill)?);
        }
        Ok(found)
    }

    fn keep_lease(&mut self, boot: BootInstant) -> Result<(), Ended> {
        let age = boot.since(self.lease.renewed);
        if age < self.core.tuning.lease_renew {
            return Ok(());
        }
        match self.journal.renew(&mut self.lease, boot, &self.core.tuning) {
            Ok(()) => {
                self.gate.lease_renewed(boot, self.core.tuning.lease_stop);
                Ok(())
            }
            Err(RenewError::Lost { holder, current }) => {
                self.gate.shut();
                Err(Ended::LeaseLost(format!("{holder} (epoch {current})")))
            }
            Err(RenewError::Store(error)) => {
                self.trouble(&error, "the lease was not renewed; no effects once it is too old");
                Ok(())
            }
        }
    }

    /// Folds what others appended.
    fn follow(&mut self, wall: Time) -> Result<(), LoopError> {
        if self.core.has_facts() {
            // They stand on a state whose append failed.
            let batch = self.core.batch();
            return self.start_over(batch, wall).map(drop);
        }
        let foreign = match self.read_foreign() {
            Ok(events) => events,
            Err(error) => return self.passing(error),
        };
        for event in &foreign {
            self.desk.base.apply(event);
            self.state.apply(event);
            (self.watch)(&self.desk.base, event);
        }
        for event in &foreign {
            self.core.heard(&mut self.state, event, wall);
        }
        Ok(())
    }

    fn read_foreign(&mut self) -> Result<Vec<Event>, ReadError> {
        if !self.journal.changed()? && !self.desk.behind {
            return Ok(Vec::new());
        }
        // Only an empty look ends the catching up.
        self.desk.behind = true;
        let mut foreign: Vec<Event> = Vec::new();
        loop {
            let seen = foreign.last().map_or(self.desk.base.head, |e| e.seq);
            let events = self.journal.read_after(seen, 10_000)?;
            if events.is_empty() {
                self.desk.behind = false;
                return Ok(foreign);
            }
            foreign.extend(events);
        }
    }

    /// A store that is full, busy or out of order for a moment is waited for; a damaged one ends the loop.
    fn passing(&mut self, error: ReadError) -> Result<(), LoopError> {
        match error {
            ReadError::Store(error) if may_pass(&error) => {
                self.trouble(&error, "the journal cannot be read now");
                std::thread::sleep(TRY_AGAIN);
                Ok(())
            }
            error => Err(error.into()),
        }
    }

    fn trouble(&mut self, error: &StoreError, meaning: &str) {
        let text = error.to_string();
        if self.desk.trouble.as_ref() != Some(&text) {
            tracing::error!(error = text, "{meaning}");
            self.desk.trouble = Some(text);
        }
    }

    /// Has executors remove what they keep on this machine of attempts whose end is journaled, off the loop.
    fn tidy(&self, runtime: &Handle) {
        let ended = |backfill: &Backfill| {
            let attempts = backfill
                .chunks
                .iter()
                .flat_map(|c| c.attempts.iter().map(move |a| (c.id, a)));
            attempts
                .filter(|(_, a)| !a.phase.is_open())
                .map(|(chunk, a)| backfill.attempt_id(chunk, a.no))
                .collect::<Vec<_>>()
        };
        // Only what is durable: nobody could say any more that an attempt ran whose files are gone.
        let settled: HashSet<AttemptId> = self.desk.base.backfills.values().flat_map(ended).collect();
        let executors: Vec<_> = self.driver.executors.values().cloned().collect();
        runtime.spawn_blocking(move || executors.iter().for_each(|e| e.tidy(&settled)));
    }

    fn chores(&mut self, runtime: &Handle, boot: BootInstant) {
        if Chores::due(&mut self.desk.chores.silences, boot, Duration::from_secs(1)) {
            self.reload.silence(&silences::holding(&self.state));
        }
        if Chores::due(&mut self.desk.chores.room, boot, Duration::from_secs(2)) {
            self.core.disk_low = free_bytes(self.journal.path()).is_ok_and(|b| b < self.core.tuning.disk_low);
        }
        if Chores::due(&mut self.desk.chores.ballast, boot, Duration::from_secs(60))
            && let Err(error) = self.journal.ensure_ballast()
        {
            tracing::warn!(%error, "no ballast file: a full disk may refuse commands");
        }
        if Chores::due(&mut self.desk.chores.logs, boot, Duration::from_secs(600)) {
            self.tidy(runtime);
        }
    }

    fn reload(&mut self, asked: bool, pass: Pass) {
        let wrong = self.state.config_error.is_some();
        let looked = self.reload.look(
            asked,
            wrong,
            pass.boot,
            &mut self.core,
            &mut self.driver,
            pass.wall,
        );
        if let Some(event) = looked {
            self.core.push(&mut self.state, event);
        }
    }

    fn note_judged(&mut self, wall: Time) {
        for mut judged in self.core.limits.take_judged() {
            self.record.signal(&judged, wall);
            let parts = std::mem::take(&mut judged.parts);
            self.record.parts(&judged.signal, wall, parts);
            self.record.send(Note::judged(judged, wall));
        }
    }

    fn note_sightings(&mut self) {
        for sighting in self.core.take_sightings() {
            self.record.send(Note::Sighting(Box::new(sighting)));
        }
    }

    fn note(&mut self, input: &Input, wall: Time) {
        if let Input::Health(name, health) = input {
            self.record.send(Note::health(name, health, wall));
        }
    }

    /// What follows from the state as it is now.
    fn conclude(&mut self, pass: Pass) {
        self.core.tick(&mut self.state, &self.gate, pass.wall);
        if self.end(pass.told).is_none() && self.gate.lease_holds(pass.boot) {
            self.core.decide(&mut self.state, pass.wall);
        }
    }

    /// Makes the batch durable and performs what it ordered. If others appended meanwhile, folds theirs, concludes
    /// again and retries. If the journal cannot be written, keeps the facts and sends nothing.
    fn append(&mut self, pass: Pass) -> Result<Option<Ended>, LoopError> {
        loop {
            let batch = self.core.batch();
            if batch.is_empty() {
                self.perform();
                return Ok(None);
            }
            let head = self.state.head - batch.len() as u64;
            kill_point::before_append(&batch);
            match self.journal.append(Some(head), Some(self.lease.epoch), &batch) {
                Ok(seqs) => {
                    kill_point::after_append(&batch);
                    self.tell(&batch, &seqs);
                    self.perform();
                    return Ok(None);
                }
                Err(AppendError::StaleEpoch { current }) => {
                    self.gate.shut();
                    return Ok(Some(Ended::LeaseLost(format!("epoch {current}"))));
                }
                Err(AppendError::Observer { seq, kind, version }) => {
                    return Err(LoopError::Observer { seq, kind, version });
                }
                Err(AppendError::Conflict { .. }) => {
                    if !self.start_over(batch, pass.wall)? {
                        return Ok(None);
                    }
                    self.conclude(pass);
                }
                Err(AppendError::Store(error)) => {
                    if !may_pass(&error) {
                        return Err(error.into());
                    }
                    self.trouble(&error, "nothing is sent until the journal can be written again");
                    self.start_over(batch, pass.wall)?;
                    std::thread::sleep(TRY_AGAIN);
                    return Ok(None);
                }
            }
        }
    }

    /// Forgets what was folded but not appended, takes in what others appended, and puts the facts back on top.
    /// `false` if the journal cannot be read now: then the batch waits as it is.
    fn start_over(&mut self, batch: Vec<NewEvent>, wall: Time) -> Result<bool, LoopError> {
        self.desk.behind = true;
        let foreign = match self.read_foreign() {
            Ok(events) => events,
            Err(error) => {
                self.core.keep(batch);
                self.passing(error)?;
                return Ok(false);
            }
        };
        for event in &foreign {
            self.desk.base.apply(event);
            (self.watch)(&self.desk.base, event);
        }
        self.state = self.desk.base.clone();
        self.core.again(&mut self.state, batch);
        for event in &foreign {
            self.core.heard(&mut self.state, event, wall);
        }
        Ok(true)
    }

    fn tell(&mut self, batch: &[NewEvent], seqs: &[u64]) {
        if self.desk.trouble.take().is_some() {
            tracing::info!("the journal can be written again");
        }
        for (event, seq) in batch.iter().zip(seqs) {
            let event = as_stored(event, *seq);
            self.desk.base.apply(&event);
            (self.watch)(&self.desk.base, &event);
        }
        self.record.events(batch.len());
        if snapshot_due(self.record.events_since_snapshot()) {
            match self.journal.write_snapshot(self.lease.epoch, &self.desk.base) {
                Ok(()) => self.record.snapshot_written(),
                Err(error) => tracing::warn!(%error, "no snapshot was written; the next start folds more"),
            }
        }
    }

    fn perform(&mut self) {
        for effect in self.core.effects() {
            if let super::core::Effect::Submit(attempt) = &effect {
                self.gate.announce(attempt.clone());
            }
            self.driver.perform(effect, &self.state);
        }
    }

    fn end(&self, told: bool) -> Option<Ended> {
        let asked = self
            .state
            .holder
            .as_ref()
            .is_some_and(|h| h.epoch == self.lease.epoch && h.stop_requested);
        if told || asked {
            return Some(Ended::Told);
        }
        match &self.until {
            Until::Ends(id) => {
                let over = self.state.backfills.get(id).is_none_or(is_over);
                over.then_some(Ended::BackfillEnded)
            }
            Until::AllEnded => {
                let over = self.state.backfills.values().all(is_over);
                over.then_some(Ended::BackfillEnded)
            }
            Until::Told => None,
        }
    }

    /// Ends in order: runs go on, the next supervisor need not wait. `false` if somebody appended something in the
    /// moment in which the backfill ended: that may have opened it again.
    fn finish(&mut self, ended: &Ended, wall: Time) -> bool {
        let event = NewEvent {
            at: wall,
            actor: Actor::supervisor(),
            reason: None,
            backfill: None,
            payload: Payload::LeaseReleased {
                epoch: self.lease.epoch,
            },
        };
        let head = (*ended == Ended::BackfillEnded).then_some(self.state.head);
        match self.journal.append(head, Some(self.lease.epoch), &[event]) {
            Err(AppendError::Conflict { .. }) => return false,
            Err(error) => tracing::warn!(%error, "the end was not journaled"),
            Ok(_) => {}
        }
        self.gate.shut();
        if let Err(error) = self.journal.release(self.lease.clone()) {
            tracing::warn!(%error, "the lease was not released; it expires by itself");
        }
        if let Err(error) = self.journal.write_snapshot(self.lease.epoch, &self.desk.base) {
            tracing::debug!(%error, "no last snapshot");
        }
        true
    }
}

impl Pass {
    /// Times are kept as the journal keeps them, in whole milliseconds, so that what is folded here is what others fold.
    fn now(told: bool) -> Self {
        let wall = Utc::now();
        Self {
            wall: wall.trunc_subsecs(3),
            boot: boot_now(),
            told,
        }
    }
}

/// Whether nothing of a backfill is left to do: a pool that we set is given back first, and what was sent in part is
/// taken to its end.
fn is_over(backfill: &Backfill) -> bool {
    backfill.state().is_final() && backfill.pool.is_none() && !backfill.asked.iter().any(Asked::is_open)
}

/// Whether the store may work again by itself.
const fn may_pass(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Full { .. } | StoreError::Busy { .. } | StoreError::Io { .. }
    )
}

/// The acknowledgement of a latched backfill that came after its last change of the limit.
fn unheard_acknowledgement(journal: &Journal, backfill: &Backfill) -> Result<Option<Event>, ReadError> {
    let mut before = u64::MAX;
    loop {
        let events = journal.before(Scope::Backfill(&backfill.id), before, 1000)?;
        let Some(first) = events.first() else {
            return Ok(None);
        };
        before = first.seq;
        for event in events.into_iter().rev() {
            match &event.payload {
                Read::Known(Payload::LatchAcknowledged {}) => return Ok(Some(event)),
                Read::Known(Payload::LimitChanged { .. }) => return Ok(None),
                _ => {}
            }
        }
    }
}

/// When what is looked at now and again was last looked at.
#[derive(Debug, Default)]
struct Chores {
    room: Option<BootInstant>,
    silences: Option<BootInstant>,
    ballast: Option<BootInstant>,
    logs: Option<BootInstant>,
}

impl Chores {
    fn due(last: &mut Option<BootInstant>, boot: BootInstant, every: Duration) -> bool {
        let due = last.is_none_or(|t| boot.since(t) >= every);
        if due {
            *last = Some(boot);
        }
        due
    }
}
