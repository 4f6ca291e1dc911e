//! The fold: `state + event -> state`. It is total: an event that makes no sense in a state changes nothing, and
//! if it is a human's command, it is remembered as refused with the reason, for its author.

mod levers;
mod outcome;

use super::{
    Time,
    attach::Taking,
    calendar::cut,
    event::{Event, Payload, Read, Verdict},
    failure::{Failure, FailureClass},
    ids::{ChunkId, ExternalId, Name},
    spec::Spec,
    state::{
        Attempt, Backfill, BlindSignal, Chunk, ChunkState, Holder, Mark, Pause, Phase, Refusal, State,
        new_chunk,
    },
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many refusals and how many recent ends are remembered.
const REFUSALS: usize = 100;
const RECENT: usize = 50;

type Folded = Result<(), String>;

impl State {
    /// Folds one event. Events at or before the head are ignored, so that a follower may see one twice.
    pub fn apply(&mut self, event: &Event) {
        if event.seq <= self.head {
            return;
        }
        self.head = event.seq;
        let payload = match &event.payload {
            Read::Known(payload) => payload,
            Read::Unknown { kind, version } => {
                self.unreadable
                    .get_or_insert_with(|| (event.seq, kind.clone(), *version));
                return;
            }
        };
        let folded = match &event.backfill {
            None => self.apply_to_journal(event, payload),
            Some(id) => match (payload, self.backfills.get_mut(id)) {
                (Payload::Started { spec, hash }, None) => {
                    let mut backfill =
                        Backfill::new(id.clone(), (**spec).clone(), hash.clone(), mark(event), event.seq);
                    backfill.blind = blind_of(&backfill.spec, &self.blind);
                    self.backfills.insert(id.clone(), backfill);
                    Ok(())
                }
                (Payload::Started { .. }, Some(_)) => Err(format!("{id} was started before")),
                (_, None) => Err(format!("there is no backfill {id}")),
                (Payload::Amended { .. }, Some(backfill)) => {
                    let folded = backfill.apply(event, payload);
                    backfill.blind = blind_of(&backfill.spec, &self.blind);
                    folded
                }
                (_, Some(backfill)) => backfill.apply(event, payload),
            },
        };
        if let Err(why) = folded
            && event.actor.is_human()
        {
            self.refusals.push_back(Refusal { seq: event.seq, why });
            if self.refusals.len() > REFUSALS {
                self.refusals.pop_front();
            }
        }
    }

    fn apply_to_journal(&mut self, event: &Event, payload: &Payload) -> Folded {
        match payload {
            Payload::LeaseTaken { epoch, holder, .. } => {
                self.holder = Some(Holder {
                    epoch: *epoch,
                    name: holder.clone(),
                    at: event.at,
                    released: false,
                    stop_requested: false,
                });
            }
            Payload::LeaseReleased { epoch } => {
                if let Some(holder) = self.holder.as_mut().filter(|h| h.epoch == *epoch) {
                    holder.released = true;
                }
            }
            Payload::StopSupervising {} => match self.holder.as_mut().filter(|h| !h.released) {
                Some(holder) => holder.stop_requested = true,
                None => return Err("nobody supervises this journal".to_owned()),
            },
            Payload::BlindSince { signal, last, why } => {
                let blind = BlindSignal {
                    since: event.at,
                    last: *last,
                    why: why.clone(),
                };
                self.blind
                    .entry(signal.clone())
                    .and_modify(|b| b.why.clone_from(why))
                    .or_insert(blind);
                let blinded = self.backfills.values_mut();
                for backfill in blinded.filter(|b| b.spec.signals.contains(signal)) {
                    backfill.blind.insert(signal.clone());
                }
            }
            Payload::SeenAgain { signal } | Payload::SignalGone { signal } => {
                self.blind.remove(signal);
                for backfill in self.backfills.values_mut() {
                    backfill.blind.remove(signal);
                }
            }
            Payload::ConfigReloaded { .. } => self.config_error = None,
            Payload::ConfigRejected { error } => self.config_error = Some(error.clone()),
            _ => return Err("this event needs a backfill".to_owned()),
        }
        Ok(())
    }
}

/// The signals of an order that are blind.
fn blind_of(spec: &Spec, blind: &BTreeMap<Name, BlindSignal>) -> BTreeSet<Name> {
    let signals = spec.signals.iter();
    signals.filter(|s| blind.contains_key(*s)).cloned().collect()
}

/// What can be said to a backfill that somebody else started: everything that speaks of our own plan cannot.
const fn fits_attached(payload: &Payload) -> bool {
    matches!(
        payload,
        Payload::Paused { .. }
            | Payload::Resumed {}
            | Payload::CapSet { .. }
            | Payload::Forced { .. }
            | Payload::LatchAcknowledged {}
            | Payload::PauseApplied { .. }
            | Payload::LimitChanged { .. }
    )
}

fn mark(event: &Event) -> Mark {
    Mark {
        by: event.actor.clone(),
        at: event.at,
        reason: event.reason.clone(),
    }
}

impl Backfill {
    fn apply(&mut self, event: &Event, payload: &Payload) -> Folded {
        let folded = match payload {
            Payload::ActionRequested { .. }
            | Payload::ActionSent { .. }
            | Payload::ActionAnswered { .. }
            | Payload::ActionEnded { .. }
            | Payload::PoolTaken { .. }
            | Payload::PoolReturned { .. }
            | Payload::RunsChanged { .. }
            | Payload::Detached {} => self.lever(event, payload),
            _ if self.spec.attach.is_some() && !fits_attached(payload) => Err(format!(
                "{} is somebody else's backfill: this is done with the engine's own levers, by actions",
                self.spec.name
            )),
            Payload::Paused { .. }
            | Payload::Resumed {}
            | Payload::CapSet { .. }
            | Payload::Forced { .. }
            | Payload::LatchAcknowledged {}
            | Payload::BreakerReset {}
            | Payload::CancelRequested {}
            | Payload::Amended { .. } => self.command_on_all(event, payload),
            Payload::HoldPlaced { .. }
            | Payload::HoldReleased { .. }
            | Payload::Skipped { .. }
            | Payload::RerunRequested { .. }
            | Payload::StopRequested { .. }
            | Payload::TakeRequested { .. }
            | Payload::Resolved { .. } => self.command_on_chunks(event, payload),
            _ => self.outcome(event, payload),
        };
        if folded.is_ok() {
            self.seq = event.seq;
            self.changed = event.at;
        }
        folded
    }

    fn command_on_all(&mut self, event: &Event, payload: &Payload) -> Folded {
        match payload {
            Payload::Paused { until } => {
                if self.state().is_final() {
                    return Err(format!(
                        "{} is {}, there is nothing to pause",
                        self.spec.name,
                        self.state().word()
                    ));
                }
                self.pause = Some(match self.pause.take() {
                    Some(standing) => standing.joined(mark(event), *until),
                    None => Pause {
                        mark: mark(event),
                        until: *until,
                        applied: None,
                    },
                });
            }
            Payload::Resumed {} => {
                let pause = self.pause.take();
                // A pause that ended by itself was only that; what `on_failure` stopped waits for a human.
                let stopped = if event.actor.is_human() {
                    self.stopped.take()
                } else {
                    None
                };
                if pause.is_none() && stopped.is_none() {
                    return Err(format!("{} is not paused", self.spec.name));
                }
            }
            Payload::CapSet { cap: Some(0) } => return Err("a cap of 0 is a pause: use pause".to_owned()),
            Payload::CapSet { cap } => self.cap = cap.map(|c| (c, mark(event))),
            Payload::Forced { force } => self.force = force.map(|f| (f, mark(event))),
            Payload::LatchAcknowledged {} => {}
            Payload::BreakerReset {} => {
                if self.breaker.take().is_none() {
                    return Err("the breaker is not open".to_owned());
                }
                self.recent.clear();
            }
            Payload::CancelRequested {} => return self.cancel_all(event),
            Payload::Amended { spec, hash } => return self.amend(event, spec, hash),
            _ => {}
        }
        Ok(())
    }

    fn cancel_all(&mut self, event: &Event) -> Folded {
        if self.state().is_final() {
            return Err(format!("{} is {} already", self.spec.name, self.state().word()));
        }
        let ids: Vec<(ChunkId, ChunkState)> = self.chunks.iter().map(|c| (c.id, c.state)).collect();
        for (id, state) in ids {
            if state.is_active() {
                self.request_stop(id);
            } else if matches!(state, ChunkState::Pending | ChunkState::Held | ChunkState::Failed) {
                self.set_marked(id, ChunkState::Cancelled, event);
            }
        }
        self.cancel = Some(mark(event));
        self.cancel_applied = None;
        // Nothing of the cancelled order may influence a later re-run (case B01).
        (self.pause, self.force, self.stopped, self.breaker) = (None, None, None, None);
        Ok(())
    }

    fn amend(&mut self, event: &Event, spec: &Spec, hash: &str) -> Folded {
        if spec.granularity != self.spec.granularity || spec.timezone != self.spec.timezone {
            return Err(
                "granularity and timezone of a started backfill cannot change: start a new one".to_owned(),
            );
        }
        let mut old: HashMap<ChunkId, Chunk> = self.chunks.drain(..).map(|c| (c.id, c)).collect();
        let mut chunks: Vec<Chunk> = cut(spec.timezone, spec.start, spec.end, spec.granularity)
            .into_iter()
            .map(|(id, interval)| match old.remove(&id) {
                Some(chunk) => Chunk { interval, ..chunk },
                None => new_chunk(id, interval, event.at),
            })
            .collect();
        // What has a history stays visible even outside the new range.
        chunks.extend(old.into_values().filter(|c| !c.attempts.is_empty()).map(|mut c| {
            if !c.state.is_active() && c.state != ChunkState::Done {
                c.state = ChunkState::Skipped;
                c.mark = Some(mark(event));
            }
            c
        }));
        chunks.sort_by_key(|c| c.interval.start);
        self.chunks = chunks;
        self.spec = spec.clone();
        self.hash = hash.to_owned();
        self.rebuild_index();
        self.counts = [0; ChunkState::COUNT];
        self.active.clear();
        for (i, chunk) in self.chunks.iter().enumerate() {
            self.counts[chunk.state as usize] += 1;
            if chunk.state.is_active() {
                self.active.insert(i as u32);
            }
        }
        Ok(())
    }

    fn command_on_chunks(&mut self, event: &Event, payload: &Payload) -> Folded {
        use ChunkState as S;
        match payload {
            Payload::HoldPlaced { chunks } => self.on_each(
                chunks,
                |s| matches!(s, S::Pending | S::Failed),
                "hold",
                |b, id| {
                    b.set_marked(id, S::Held, event);
                },
            ),
            Payload::HoldReleased { chunks } => self.on_each(
                chunks,
                |s| s == S::Held,
                "release",
                |b, id| {
                    b.make_pending(id, event.at);
                },
            ),
            Payload::Skipped { chunks } => {
                let allowed = |s| {
                    matches!(
                        s,
                        S::Pending | S::Held | S::Failed | S::Quarantined | S::Cancelled
                    )
                };
                self.on_each(chunks, allowed, "skip", |b, id| {
                    b.set_marked(id, S::Skipped, event)
                })
            }
            Payload::RerunRequested { chunks, .. } => {
                if self.cancel.is_some() && !self.active.is_empty() {
                    return Err(format!(
                        "{} is still cancelling: {} attempts have not ended; re-run when they have",
                        self.spec.name,
                        self.active.len()
                    ));
                }
                let allowed = |s: S| !s.is_active() && !matches!(s, S::Pending | S::Held);
                self.on_each(chunks, allowed, "re-run", |b, id| {
                    b.make_pending(id, event.at);
                    if let Some(chunk) = b.chunk_mut(id) {
                        chunk.rerun = Some((event.seq, event.actor.clone()));
                        chunk.budget_from = chunk.attempts.len() as u32;
                    }
                })?;
                (self.cancel, self.cancel_applied, self.stopped) = (None, None, None);
                Ok(())
            }
            Payload::StopRequested { chunks } => {
                self.on_each(chunks, ChunkState::is_active, "stop", |b, id| b.request_stop(id))
            }
            Payload::Resolved { chunk, verdict } => self.resolve(event, *chunk, *verdict),
            Payload::TakeRequested { chunk, run, how, .. } => self.choose(event, *chunk, run, *how),
            _ => Ok(()),
        }
    }

    /// Acts on those chunks whose state allows it; refuses the command only if none does.
    fn on_each(
        &mut self,
        chunks: &[ChunkId],
        allowed: impl Fn(ChunkState) -> bool,
        verb: &str,
        mut act: impl FnMut(&mut Self, ChunkId),
    ) -> Folded {
        let mut first_no = None;
        let mut acted = false;
        for &id in chunks {
            let no = match self.chunk(id) {
                None => format!("{id} is not a chunk of {}", self.spec.name),
                Some(chunk) if !allowed(chunk.state) => {
                    format!("{id} is {}: nothing to {verb}", chunk.state.word())
                }
                Some(_) => {
                    act(self, id);
                    acted = true;
                    continue;
                }
            };
            first_no.get_or_insert(no);
        }
        if acted {
            Ok(())
        } else {
            Err(first_no.unwrap_or_else(|| format!("no chunk given to {verb}")))
        }
    }

    fn resolve(&mut self, event: &Event, id: ChunkId, verdict: Verdict) -> Folded {
        let state = self.chunk(id).map(|c| c.state);
        if state != Some(ChunkState::Uncertain) {
            let word = state.map_or("not a chunk of it", ChunkState::word);
            return Err(format!("{id} is {word}: only an uncertain chunk can be resolved"));
        }
        let at = event.at;
        let note = format!("resolved by {}", event.actor.name);
        match verdict {
            Verdict::Done => {
                self.end_attempt(id, Phase::Done, at, |a| a.note = Some(note));
                self.move_to(id, ChunkState::Done, at);
            }
            Verdict::Lost => {
                self.end_attempt(id, Phase::Failed, at, |a| {
                    a.note = Some(note);
                    a.failure = Some(Failure {
                        class: FailureClass::Platform,
                        exit: None,
                        message: "lost".to_owned(),
                    });
                });
                self.make_pending(id, at);
            }
            Verdict::Failed => {
                self.end_attempt(id, Phase::Failed, at, |a| {
                    a.note = Some(note);
                    a.failure = Some(Failure {
                        class: FailureClass::Other,
                        exit: None,
                        message: "failed".to_owned(),
                    });
                });
                self.move_to(id, ChunkState::Failed, at);
            }
        }
        if let Some(chunk) = self.chunk_mut(id) {
            chunk.why = None;
        }
        Ok(())
    }

    /// A human chose what becomes of somebody else's run on a chunk's date: it starts again, before all others.
    fn choose(&mut self, event: &Event, id: ChunkId, run: &ExternalId, how: Taking) -> Folded {
        let chunk = self.chunk_mut(id).ok_or_else(|| format!("{id} is not a chunk"))?;
        match &mut chunk.taken {
            Some(taken) if chunk.state == ChunkState::Held && taken.run == *run => taken.choice = Some(how),
            Some(taken) if chunk.state == ChunkState::Held => {
                return Err(format!(
                    "the date of {id} is taken by {} and not by {run}",
                    taken.run
                ));
            }
            _ => return Err(format!("{id} is not held because of another run on its date")),
        }
        self.make_pending(id, event.at);
        if let Some(chunk) = self.chunk_mut(id) {
            chunk.rerun = Some((event.seq, event.actor.clone()));
        }
        Ok(())
    }

    fn set_marked(&mut self, id: ChunkId, state: ChunkState, event: &Event) {
        self.move_to(id, state, event.at);
        if let Some(chunk) = self.chunk_mut(id) {
            chunk.mark = Some(mark(event));
            chunk.retry = None;
            chunk.rerun = None;
        }
    }

    fn make_pending(&mut self, id: ChunkId, at: Time) {
        self.move_to(id, ChunkState::Pending, at);
        if let Some(chunk) = self.chunk_mut(id) {
            chunk.mark = None;
            chunk.retry = None;
            chunk.why = None;
        }
    }

    fn request_stop(&mut self, id: ChunkId) {
        if let Some(attempt) = self.chunk_mut(id).and_then(|c| c.attempts.last_mut()) {
            attempt.stop_requested = true;
            attempt.braked = false;
        }
    }

    fn end_attempt(&mut self, id: ChunkId, phase: Phase, at: Time, change: impl FnOnce(&mut Attempt)) {
        if let Some(attempt) = self.chunk_mut(id).and_then(|c| c.attempts.last_mut()) {
            attempt.phase = phase;
            attempt.ended = Some(at);
            change(attempt);
        }
    }
}

/// Folds events from nothing. For tests and for the full fold after a snapshot was refused.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> State {
    let mut state = State::default();
    for event in events {
        state.apply(event);
    }
    state
}
