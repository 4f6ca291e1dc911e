//! What time and foreign commands make due. Everything here follows from the state and from what this process has
//! under way, so that a crash, a conflict or a failed append only delays it.

use super::{
    core::{Core, Effect, open},
    gate::Gate,
};
use crate::{
    domain::{
        Time,
        event::{Actor, Event, Payload, Read},
        ids::{AttemptId, BackfillId},
        state::{ChunkState, Phase, State},
    },
    plan::{
        decide::{self, Intent},
        why,
    },
};

/// How long to wait before a stop is asked for again, or an uncertain attempt is looked at again.
const AGAIN: chrono::Duration = chrono::Duration::seconds(10);

impl Core {
    /// A foreign event whose effect is not in the state: a human acknowledged a latch.
    pub fn heard(&mut self, state: &mut State, event: &Event, now: Time) {
        if let (Some(id), Read::Known(Payload::LatchAcknowledged {})) = (&event.backfill, &event.payload) {
            for event in self.limits.acknowledge(state, id, &self.tuning, now) {
                self.push(state, event);
            }
        }
    }

    /// What time and foreign commands make due: expiries, stops, withdrawals, confirmations. State-driven, so that
    /// a crash in between only delays it.
    pub fn tick(&mut self, state: &mut State, gate: &Gate, now: Time) {
        let mut around = self.surroundings(now);
        around.elsewhere = self.elsewhere(state);
        for event in self.limits.tick(state, &around, now) {
            self.push(state, event);
        }
        let ids: Vec<BackfillId> = state.backfills.keys().cloned().collect();
        for id in ids {
            self.expire(state, &id, now);
            self.withdraw(state, &id, gate, now);
            self.resend(state, &id, now);
            self.stop_runs(state, &id, now);
            self.confirm(state, &id, now);
            self.pull(state, &id, now);
        }
        self.look_again(state, now);
    }

    fn expire(&mut self, state: &mut State, id: &BackfillId, now: Time) {
        let Some(backfill) = state.backfills.get(id) else {
            return;
        };
        let pause_over = backfill
            .pause
            .as_ref()
            .and_then(|p| p.until)
            .is_some_and(|t| t <= now);
        let force_over = backfill.force.as_ref().is_some_and(|(f, _)| f.until <= now);
        if pause_over {
            self.say(state, id, Actor::supervisor(), Payload::Resumed {}, now);
        }
        if force_over {
            self.say(
                state,
                id,
                Actor::supervisor(),
                Payload::Forced { force: None },
                now,
            );
        }
    }

    /// Intents that have not passed the gate are taken back when nothing may start any more.
    fn withdraw(&mut self, state: &mut State, id: &BackfillId, gate: &Gate, now: Time) {
        let Some(backfill) = state.backfills.get(id) else {
            return;
        };
        let stop = why::stop(state, backfill, &self.without_recovery(now));
        let late: Vec<(AttemptId, String)> = open(backfill)
            .filter(|(_, a)| a.phase == Phase::Intended && (stop.is_some() || a.stop_requested))
            .map(|(c, a)| {
                let why = stop.as_ref().map_or("stopped", |s| s.text.as_str());
                (backfill.attempt_id(c.id, a.no), why.to_owned())
            })
            .collect();
        for (attempt, why) in late {
            if gate.withdraw(&attempt) {
                self.take_back(state, attempt, why, now);
            }
        }
    }

    /// Intents that never left: recovery has heard that they never ran, or their order was given up because the
    /// state went on. The same attempt leaves now, if it is allowed now.
    fn resend(&mut self, state: &mut State, id: &BackfillId, now: Time) {
        let Some(backfill) = state.backfills.get(id) else {
            return;
        };
        let unsent: Vec<(AttemptId, bool)> = open(backfill)
            .filter(|(_, a)| a.phase == Phase::Intended)
            .map(|(c, a)| (backfill.attempt_id(c.id, a.no), a.stop_requested))
            .filter(|(id, _)| !self.probing.contains_key(id) && !self.sending.contains(id))
            .collect();
        if unsent.is_empty() {
            return;
        }
        let around = self.without_recovery(now);
        for (attempt, stopping) in unsent {
            let allowed = |b| decide::may_resubmit(state, b, attempt.chunk, &around);
            if !stopping && state.backfills.get(id).is_some_and(allowed) {
                self.sending.insert(attempt.clone());
                self.orders.push(Effect::Submit(attempt));
            } else {
                let why = "not sent before the supervisor ended, and not allowed now".to_owned();
                self.take_back(state, attempt, why, now);
            }
        }
    }

    fn take_back(&mut self, state: &mut State, attempt: AttemptId, why: String, now: Time) {
        self.sending.remove(&attempt);
        let backfill = attempt.backfill.clone();
        let payload = Payload::SubmissionWithdrawn { attempt, why };
        self.say(state, &backfill, Actor::supervisor(), payload, now);
    }

    fn stop_runs(&mut self, state: &State, id: &BackfillId, now: Time) {
        let Some(backfill) = state.backfills.get(id) else {
            return;
        };
        for (chunk, attempt) in open(backfill).filter(|(_, a)| a.stop_requested && a.phase != Phase::Intended)
        {
            let attempt = backfill.attempt_id(chunk.id, attempt.no);
            let due = self
                .stopped
                .get(&attempt)
                .is_none_or(|t| now - *t >= AGAIN || now < *t);
            if due {
                self.stopped.insert(attempt.clone(), now);
                self.orders.push(Effect::Stop(attempt));
            }
        }
    }

    /// The promise of pause and cancel: after this event nothing is sent. It waits until recovery has spoken about
    /// every attempt of the backfill, because an attempt that is still looked at may be one that never left.
    fn confirm(&mut self, state: &mut State, id: &BackfillId, now: Time) {
        let Some(backfill) = state.backfills.get(id) else {
            return;
        };
        let paused = backfill.pause.as_ref().is_some_and(|p| p.applied.is_none());
        let cancelled = backfill.cancel.is_some() && backfill.cancel_applied.is_none();
        if backfill.spec.attach.is_some() && !self.pause_holds_there(backfill) {
            return;
        }
        if (paused || cancelled) && !self.probing.keys().any(|a| a.backfill == *id) {
            let in_flight = backfill.open_attempts();
            self.say(
                state,
                id,
                Actor::supervisor(),
                Payload::PauseApplied { in_flight },
                now,
            );
        }
    }

    /// Uncertain attempts are looked at at once, and then again and again.
    fn look_again(&mut self, state: &State, now: Time) {
        for backfill in state
            .backfills
            .values()
            .filter(|b| b.count(ChunkState::Uncertain) > 0)
        {
            for (chunk, attempt) in open(backfill).filter(|(_, a)| a.phase == Phase::Uncertain) {
                let id = backfill.attempt_id(chunk.id, attempt.no);
                let recent = |t: &Time| now - *t < AGAIN && now >= *t;
                let asked = self.probing.contains_key(&id) || self.sending.contains(&id);
                if !asked && !self.looked.get(&id).is_some_and(recent) {
                    self.looked.insert(id.clone(), now);
                    self.orders.push(Effect::Probe(id));
                }
            }
        }
    }

    /// Decides what starts now, and queues the intents with their effects.
    pub fn decide(&mut self, state: &mut State, now: Time) {
        self.limits.note_running(state, now);
        for Intent {
            attempt,
            executor,
            profile,
            weight,
        } in decide::decide(state, &self.surroundings(now))
        {
            let backfill = attempt.backfill.clone();
            self.sending.insert(attempt.clone());
            self.orders.push(Effect::Submit(attempt.clone()));
            let payload = Payload::SubmissionIntended {
                attempt,
                executor,
                profile,
                weight,
            };
            self.say(state, &backfill, Actor::supervisor(), payload, now);
        }
    }
}
