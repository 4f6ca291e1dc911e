//! The loop: inputs -> events -> append -> fold -> decide -> intents -> append -> effects. It waits only for its inbox
//! and the journal; everything outside is a task of the [`Driver`].

use super::{
    core::{Core, Input},
    driver::Driver,
    gate::Gate,
    kill_point,
    record::{Note, Record},
    reload::Reload,
};
use crate::{
    domain::{
        Time,
        event::{Actor, Event, NewEvent, Payload},
        ids::{AttemptId, BackfillId},
        state::{Backfill, State},
    },
    host::{BootInstant, boot_now},
    journal::{
        AppendError, FOLLOW_EVERY, Journal, Lease, ReadError, RenewError, StoreError, as_stored, free_bytes,
        snapshot_due,
    },
};
use chrono::Utc;
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
    /// When to end.
    pub until: Until,
    /// Told of every event, after it is durable.
    pub watch: Watch,
}

/// Most inputs taken into one batch.
const BATCH: usize = 500;

impl Loop {
    /// Runs until it ends. Blocking: to be called on a thread of its own.
    ///
    /// # Errors
    /// The journal is damaged or from a newer program. Nothing was sent since.
    pub fn run(mut self, runtime: &Handle) -> Result<Ended, LoopError> {
        let mut rng = ChaCha8Rng::from_rng(&mut rand::rng());
        let mut chores = Chores::default();
        self.begin()?;
        loop {
            let mut inputs = self.wait(runtime);
            let (wall, boot) = (Utc::now(), boot_now());
            if let Err(ended) = self.keep_lease(boot) {
                return Ok(ended);
            }
            for event in self.follow()? {
                self.core.heard(&mut self.state, &event, wall);
            }
            let told = inputs.iter().any(|i| matches!(i, Input::Quit));
            let reload = inputs.iter().any(|i| matches!(i, Input::Reload));
            if chores.tidy_due(boot) {
                self.tidy(runtime);
            }
            if chores.due(boot) {
                self.core.disk_low =
                    free_bytes(self.journal.path()).is_ok_and(|b| b < self.core.tuning.disk_low);
            }
            if let Some(event) = self
                .reload
                .look(reload, boot, &mut self.core, &mut self.driver, wall)
            {
                self.core.push(&mut self.state, event);
            }
            for input in inputs.drain(..) {
                self.note(&input, wall);
                self.core.take(&mut self.state, input, rng.random(), wall);
            }
            self.note_judged(wall);
            self.core.tick(&mut self.state, &self.gate, wall);
            if !told && self.gate.lease_holds(boot) {
                self.core.decide(&mut self.state, wall);
            }
            if let Some(ended) = self.append(wall)? {
                return Ok(ended);
            }
            self.record.limits(&self.state, &self.core, wall);
            if let Some(ended) = self.end(told) {
                self.finish(wall);
                return Ok(ended);
            }
        }
    }

    /// Announces itself and starts recovery.
    fn begin(&mut self) -> Result<(), LoopError> {
        let wall = Utc::now();
        self.gate
            .lease_renewed(self.lease.renewed, self.core.tuning.lease_stop);
        let payload = Payload::LeaseTaken {
            epoch: self.lease.epoch,
            holder: self.lease.holder.clone(),
            from: self.lease.from.clone(),
        };
        self.core.push(
            &mut self.state,
            NewEvent {
                at: wall,
                actor: Actor::supervisor(),
                reason: None,
                backfill: None,
                payload,
            },
        );
        self.append(wall)?;
        if let Err(error) = self.journal.ensure_ballast() {
            tracing::warn!(%error, "no ballast file: a full disk may refuse commands");
        }
        for effect in self.core.recover(&self.state) {
            self.driver.perform(effect, &self.state);
        }
        Ok(())
    }

    /// Waits for news, at most one look's time, and takes what is there.
    fn wait(&mut self, runtime: &Handle) -> Vec<Input> {
        let tick = self.core.tuning.tick.min(FOLLOW_EVERY);
        let first = runtime.block_on(async { tokio::time::timeout(tick, self.inbox.recv()).await });
        let mut inputs: Vec<Input> = first.ok().flatten().into_iter().collect();
        while inputs.len() < BATCH
            && let Ok(input) = self.inbox.try_recv()
        {
            inputs.push(input);
        }
        inputs
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
                tracing::warn!(%error, "the lease was not renewed; no effects once it is too old");
                Ok(())
            }
        }
    }

    /// Folds what others appended.
    fn follow(&mut self) -> Result<Vec<Event>, LoopError> {
        let mut foreign = Vec::new();
        if !self.journal.changed()? {
            return Ok(foreign);
        }
        loop {
            let events = self.journal.read_after(self.state.head, 10_000)?;
            if events.is_empty() {
                return Ok(foreign);
            }
            for event in &events {
                self.state.apply(event);
                (self.watch)(&self.state, event);
            }
            foreign.extend(events);
        }
    }

    /// Has executors remove what they keep on this machine of attempts whose end is journaled, off the loop.
    fn tidy(&self, runtime: &Handle) {
        let ended = |backfill: &Backfill| {
            let attempts = backfill.chunks.iter().flat_map(|c| c.attempts.iter().map(move |a| (c.id, a)));
            let ended = attempts.filter(|(_, a)| !a.phase.is_open());
            ended.map(|(chunk, a)| backfill.attempt_id(chunk, a.no)).collect::<Vec<_>>()
        };
        let settled: HashSet<AttemptId> = self.state.backfills.values().flat_map(ended).collect();
        let executors: Vec<_> = self.driver.executors.values().cloned().collect();
        runtime.spawn_blocking(move || executors.iter().for_each(|e| e.tidy(&settled)));
    }

    fn note_judged(&mut self, wall: Time) {
        for judged in self.core.limits.take_judged() {
            self.record.warning(&judged, wall);
            self.record.send(Note::judged(judged, wall));
        }
    }

    fn note(&mut self, input: &Input, wall: Time) {
        if let Input::Health(name, health) = input {
            self.record.send(Note::health(name, health, wall));
        }
    }

    /// Makes the batch durable and performs what it ordered. If others appended meanwhile, folds theirs, decides
    /// again and retries. If the journal cannot be written, keeps the facts and sends nothing.
    fn append(&mut self, wall: Time) -> Result<Option<Ended>, LoopError> {
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
                    self.start_over(batch, wall)?;
                    self.core.decide(&mut self.state, wall);
                }
                Err(AppendError::Store(error)) => {
                    tracing::error!(%error, "nothing is sent until the journal can be written again");
                    self.start_over(batch, wall)?;
                    std::thread::sleep(Duration::from_millis(250));
                    return Ok(None);
                }
            }
        }
    }

    /// Forgets what was folded but not appended, reads the journal again, and puts the facts back on top.
    fn start_over(&mut self, batch: Vec<NewEvent>, wall: Time) -> Result<(), LoopError> {
        let seen = self.state.head - batch.len() as u64;
        self.state = self.journal.load_state()?;
        let foreign = self.journal.read_after(seen, 10_000)?;
        self.core.again(&mut self.state, batch);
        for event in foreign {
            (self.watch)(&self.state, &event);
            self.core.heard(&mut self.state, &event, wall);
        }
        Ok(())
    }

    fn tell(&mut self, batch: &[NewEvent], seqs: &[u64]) {
        for (event, seq) in batch.iter().zip(seqs) {
            if let Payload::SubmissionIntended { attempt, .. } = &event.payload {
                self.gate.announce(attempt.clone());
            }
            (self.watch)(&self.state, &as_stored(event, *seq));
        }
        self.record.events(batch.len());
        if snapshot_due(self.record.events_since_snapshot()) {
            match self.journal.write_snapshot(self.lease.epoch, &self.state) {
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
                let over = self.state.backfills.get(id).is_none_or(|b| b.state().is_final());
                over.then_some(Ended::BackfillEnded)
            }
            Until::AllEnded => {
                let over = self.state.backfills.values().all(|b| b.state().is_final());
                over.then_some(Ended::BackfillEnded)
            }
            Until::Told => None,
        }
    }

    /// Ends in order: runs go on, the next supervisor need not wait.
    fn finish(&mut self, wall: Time) {
        self.gate.shut();
        let payload = Payload::LeaseReleased {
            epoch: self.lease.epoch,
        };
        let event = NewEvent {
            at: wall,
            actor: Actor::supervisor(),
            reason: None,
            backfill: None,
            payload,
        };
        if let Err(error) = self.journal.append(None, Some(self.lease.epoch), &[event]) {
            tracing::warn!(%error, "the end was not journaled");
        }
        if let Err(error) = self.journal.write_snapshot(self.lease.epoch, &self.state) {
            tracing::debug!(%error, "no last snapshot");
        }
        if let Err(error) = self.journal.release(self.lease.clone()) {
            tracing::warn!(%error, "the lease was not released; it expires by itself");
        }
    }
}

/// What is looked at now and then.
#[derive(Default)]
struct Chores {
    looked: Option<BootInstant>,
    tidied: Option<BootInstant>,
}

impl Chores {
    fn due(&mut self, boot: BootInstant) -> bool {
        is_due(&mut self.looked, boot, Duration::from_secs(2))
    }

    fn tidy_due(&mut self, boot: BootInstant) -> bool {
        is_due(&mut self.tidied, boot, Duration::from_secs(600))
    }
}

fn is_due(last: &mut Option<BootInstant>, boot: BootInstant, every: Duration) -> bool {
    let due = last.is_none_or(|last| boot.since(last) >= every);
    if due {
        *last = Some(boot);
    }
    due
}
