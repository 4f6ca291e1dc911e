//! The supervisor's decisions: inputs become events, events become effects. No I/O here; time and random numbers
//! come in as parameters, so that a whole night can be played in a test.

use super::{gate::Gate, limits::Limits};
use crate::{
    domain::{
        Time,
        event::{Actor, Event, NewEvent, Next, Outcome, Payload},
        failure::Failure,
        ids::{AttemptId, BackfillId, Name},
        spec::OnFailure,
        state::{Attempt, Backfill, Chunk, ChunkState, Phase, State},
        tuning::Tuning,
    },
    executor::{Probe, RunEnd, RunUpdate, SubmitAnswer},
    plan::{
        breaker,
        decide::{self, ExecutorFacts, Intent, Surroundings},
        retry,
    },
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// News for the loop.
#[derive(Debug)]
pub enum Input {
    /// What came of a submission.
    Submitted(AttemptId, SubmitAnswer),
    /// News about a run.
    Run(AttemptId, RunUpdate),
    /// What recovery found.
    Probed(AttemptId, Probe),
    /// A request to stop a run did not reach its executor.
    StopFailed(AttemptId, String),
    /// An answer of a lag source.
    Reading(Name, crate::signals::Reading),
    /// An executor's health was asked.
    Health(Name, Result<(), String>),
    /// Somebody sent HUP, or the configuration's file changed.
    Reload,
    /// Somebody sent TERM or INT.
    Quit,
}

/// What the loop wants done outside, after the events that order it are durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send the attempt, through the gate.
    Submit(AttemptId),
    /// Find out what became of it.
    Probe(AttemptId),
    /// Ask for its end.
    Stop(AttemptId),
}

/// How long to wait before a stop is asked for again, or an uncertain attempt is looked at again.
const AGAIN: chrono::Duration = chrono::Duration::seconds(10);

/// The decisions' memory between inputs. Everything in it can be lost: what matters is in the journal.
pub struct Core {
    /// The laws' times.
    pub tuning: Tuning,
    /// Throttles and signals.
    pub limits: Limits,
    /// Slots of the configured executors.
    pub slots: BTreeMap<Name, u32>,
    /// Executors that do not answer, and why.
    pub sick: BTreeMap<Name, String>,
    /// Free space beside the journal is under the floor.
    pub disk_low: bool,
    probing: BTreeMap<AttemptId, Name>,
    asked: HashMap<AttemptId, Time>,
    facts: Vec<NewEvent>,
    orders: Vec<Effect>,
}

impl Core {
    /// A core for a new holder of the lease.
    pub fn new(tuning: Tuning, limits: Limits, slots: BTreeMap<Name, u32>) -> Self {
        Self {
            tuning,
            limits,
            slots,
            sick: BTreeMap::new(),
            disk_low: false,
            probing: BTreeMap::new(),
            asked: HashMap::new(),
            facts: Vec::new(),
            orders: Vec::new(),
        }
    }

    /// Recovery: every open attempt is looked at before its executor gets anything new.
    pub fn recover(&mut self, state: &State) -> Vec<Effect> {
        for backfill in state.backfills.values() {
            for (chunk, attempt) in open(backfill) {
                self.probing.insert(
                    backfill.attempt_id(chunk.id, attempt.no),
                    attempt.executor.clone(),
                );
            }
        }
        self.probing.keys().cloned().map(Effect::Probe).collect()
    }

    /// What the planner needs to know beside the state.
    pub fn surroundings(&self, now: Time) -> Surroundings {
        let busy: BTreeSet<&Name> = self.probing.values().collect();
        let facts = |name: &Name, slots: u32| ExecutorFacts {
            slots,
            problem: match self.sick.get(name) {
                Some(problem) => Some(problem.clone()),
                None => busy
                    .contains(name)
                    .then(|| format!("{name}: asking what became of earlier attempts")),
            },
        };
        Surroundings {
            now,
            tuning: self.tuning.clone(),
            executors: self
                .slots
                .iter()
                .map(|(n, s)| (n.clone(), facts(n, *s)))
                .collect(),
            paced: self.limits.paced(&self.tuning),
            disk_low: self.disk_low,
            supervised: true,
        }
    }

    /// The events that are to become durable now. They are folded into `state` already, as if they had been
    /// appended; if the append does not succeed, the state must be read again and [`Core::again`] called.
    pub fn batch(&mut self) -> Vec<NewEvent> {
        std::mem::take(&mut self.facts)
    }

    /// Gives facts back that could not be appended. Intents among them are dropped: they are decided anew.
    pub fn again(&mut self, state: &mut State, events: Vec<NewEvent>) {
        self.orders.clear();
        for event in events
            .into_iter()
            .filter(|e| !matches!(e.payload, Payload::SubmissionIntended { .. }))
        {
            self.push(state, event);
        }
    }

    /// Effects that the appended batch ordered.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.orders)
    }

    /// Queues an event and folds it.
    pub fn push(&mut self, state: &mut State, event: NewEvent) {
        let seq = state.head + 1;
        let payload = crate::domain::event::Read::Known(event.payload.clone());
        state.apply(&Event {
            seq,
            at: event.at,
            actor: event.actor.clone(),
            reason: event.reason.clone(),
            backfill: event.backfill.clone(),
            payload,
        });
        self.facts.push(event);
    }

    fn say(&mut self, state: &mut State, id: &BackfillId, actor: Actor, payload: Payload, now: Time) {
        self.push(
            state,
            NewEvent {
                at: now,
                actor,
                reason: None,
                backfill: Some(id.clone()),
                payload,
            },
        );
    }

    /// Takes one input in. `drawn` is a uniform number in `[0, 1)` for jitter.
    pub fn take(&mut self, state: &mut State, input: Input, drawn: f64, now: Time) {
        match input {
            Input::Submitted(attempt, answer) => self.submitted(state, attempt, answer, drawn, now),
            Input::Run(attempt, update) => self.updated(state, attempt, update, drawn, now),
            Input::Probed(attempt, probe) => self.probed(state, attempt, probe, drawn, now),
            Input::StopFailed(attempt, why) => {
                tracing::warn!(%attempt, why, "the request to stop did not arrive")
            }
            Input::Reading(signal, reading) => {
                let around = self.surroundings(now);
                for event in self.limits.reading(state, &signal, &reading, &around, now) {
                    self.push(state, event);
                }
            }
            Input::Health(name, Ok(())) => drop(self.sick.remove(&name)),
            Input::Health(name, Err(why)) => drop(self.sick.insert(name, why)),
            Input::Reload | Input::Quit => {}
        }
    }

    fn submitted(&mut self, state: &mut State, id: AttemptId, answer: SubmitAnswer, drawn: f64, now: Time) {
        let Some((executor, _)) = standing(state, &id) else {
            return;
        };
        let actor = Actor::executor(&executor);
        let backfill = id.backfill.clone();
        let payload = match answer {
            SubmitAnswer::Accepted { run, running } => Payload::SubmissionAccepted {
                attempt: id,
                run,
                adopted: false,
                running,
            },
            SubmitAnswer::AlreadyExists { run, running } => Payload::SubmissionAccepted {
                attempt: id,
                run,
                adopted: true,
                running,
            },
            SubmitAnswer::NotWanted { why } => Payload::SubmissionWithdrawn { attempt: id, why },
            SubmitAnswer::Unknown { why } => Payload::RunUncertain { attempt: id, why },
            SubmitAnswer::Refused { failure } => {
                let end = RunEnd {
                    result: Err(failure),
                    cancelled: false,
                    started: None,
                    ended: None,
                    peak: None,
                    note: None,
                };
                return self.ended(state, id, end, drawn, now);
            }
        };
        self.say(state, &backfill, actor, payload, now);
    }

    fn updated(&mut self, state: &mut State, id: AttemptId, update: RunUpdate, drawn: f64, now: Time) {
        let Some((executor, phase)) = standing(state, &id) else {
            return;
        };
        let backfill = id.backfill.clone();
        let payload = match update {
            RunUpdate::Started if phase == Phase::Running => return,
            RunUpdate::Started => Payload::RunStarted { attempt: id },
            RunUpdate::Uncertain { .. } if phase == Phase::Uncertain => return,
            RunUpdate::Uncertain { why } => Payload::RunUncertain { attempt: id, why },
            RunUpdate::Ended(end) => return self.ended(state, id, end, drawn, now),
        };
        self.say(state, &backfill, Actor::executor(&executor), payload, now);
    }

    fn probed(&mut self, state: &mut State, id: AttemptId, probe: Probe, drawn: f64, now: Time) {
        self.probing.remove(&id);
        let Some((executor, phase)) = standing(state, &id) else {
            return;
        };
        let actor = Actor::executor(&executor);
        let backfill = id.backfill.clone();
        let payload = match probe {
            Probe::Ended(end) => return self.ended(state, id, end, drawn, now),
            Probe::Alive { running: true, .. } if phase == Phase::Running => return,
            Probe::Alive { running: false, .. } if phase == Phase::Queued => return,
            Probe::Alive { run, running } => Payload::SubmissionAccepted {
                attempt: id,
                run,
                adopted: true,
                running,
            },
            Probe::Unknown { .. } if phase == Phase::Uncertain => return,
            Probe::Unknown { why } => Payload::RunUncertain { attempt: id, why },
            Probe::NeverRan if phase == Phase::Intended => return self.never_ran(state, id, now),
            Probe::NeverRan if phase == Phase::Uncertain => Payload::SubmissionWithdrawn {
                attempt: id,
                why: "it never ran".to_owned(),
            },
            // The journal knows that it ran, the executor says it never did: evidence disagrees (case B38).
            Probe::NeverRan => Payload::RunUncertain {
                attempt: id,
                why: format!("{executor} has no trace of a run that it had accepted"),
            },
        };
        self.say(state, &backfill, actor, payload, now);
    }

    /// An intent whose sending a crash prevented: the same attempt leaves now, if it is allowed now.
    fn never_ran(&mut self, state: &mut State, id: AttemptId, now: Time) {
        let around = self.surroundings_for_resend(&id, now);
        let Some(backfill) = state.backfills.get(&id.backfill) else {
            return;
        };
        let stopping = backfill
            .chunk(id.chunk)
            .and_then(Chunk::open)
            .is_some_and(|a| a.stop_requested);
        if !stopping && decide::may_resubmit(state, backfill, &around) {
            self.orders.push(Effect::Submit(id));
            return;
        }
        let why = "not sent before the supervisor ended, and not allowed now".to_owned();
        let backfill = id.backfill.clone();
        self.say(
            state,
            &backfill,
            Actor::supervisor(),
            Payload::SubmissionWithdrawn { attempt: id, why },
            now,
        );
    }

    /// While other attempts of the executor are still looked at, that alone must not forbid a resend.
    fn surroundings_for_resend(&self, id: &AttemptId, now: Time) -> Surroundings {
        let mut around = self.surroundings(now);
        for (name, facts) in &mut around.executors {
            facts.problem = self.sick.get(name).cloned();
        }
        tracing::debug!(attempt = %id, "never ran");
        around
    }

    fn ended(&mut self, state: &mut State, id: AttemptId, end: RunEnd, drawn: f64, now: Time) {
        let Some((executor, _)) = standing(state, &id) else {
            return;
        };
        let Some(backfill) = state.backfills.get(&id.backfill) else {
            return;
        };
        let Some((chunk, attempt)) = backfill.chunk(id.chunk).and_then(|c| Some((c, c.open()?))) else {
            return;
        };
        let mut note = end.note;
        let outcome = match end.result {
            Ok(()) => {
                if attempt.stop_requested && note.is_none() {
                    note = Some("finished before the request to stop reached it".to_owned());
                }
                Outcome::Done
            }
            Err(_) if end.cancelled => Outcome::Cancelled,
            Err(failure) => {
                let next = retry::after_failure(
                    chunk,
                    &backfill.spec,
                    &failure,
                    attempt.profile,
                    drawn,
                    now,
                    &self.tuning,
                );
                Outcome::Failed { failure, next }
            }
        };
        let canary = backfill
            .breaker
            .as_ref()
            .is_some_and(|b| attempt.intended >= b.retry_at);
        let failure = match &outcome {
            Outcome::Failed { failure, .. } => Some(failure.clone()),
            _ => None,
        };
        let done = outcome == Outcome::Done;
        let key = id.backfill.clone();
        self.asked.remove(&id);
        let payload = Payload::RunEnded {
            attempt: id,
            outcome,
            started: end.started,
            ended: end.ended,
            peak: end.peak,
            note,
        };
        self.say(state, &key, Actor::executor(&executor), payload, now);
        match failure {
            Some(failure) => self.after_failure(state, &key, &failure, canary, now),
            None if done && canary => {
                self.say(state, &key, Actor::supervisor(), Payload::BreakerClosed {}, now)
            }
            None => {}
        }
    }

    /// Breaker and `on_failure`, after a failure was folded.
    fn after_failure(
        &mut self,
        state: &mut State,
        key: &BackfillId,
        failure: &Failure,
        canary: bool,
        now: Time,
    ) {
        let Some(backfill) = state.backfills.get(key) else {
            return;
        };
        let opens = match canary {
            true => Some(format!("the canary failed: {}", crate::plan::why::words(failure))),
            false if backfill.breaker.is_none() => breaker::opens(backfill, failure, &self.tuning),
            false => None,
        };
        let stop = stops_on_failure(backfill);
        if let Some(why) = opens {
            let retry_at = now + chrono::Duration::from_std(self.tuning.breaker_retry).unwrap_or_default();
            self.say(
                state,
                key,
                Actor::supervisor(),
                Payload::BreakerOpened { why, retry_at },
                now,
            );
        }
        if let Some(payload) = stop {
            self.say(state, key, Actor::supervisor(), payload, now);
        }
    }

    /// A foreign event whose effect is not in the state: a human acknowledged a latch.
    pub fn heard(&mut self, state: &mut State, event: &Event, now: Time) {
        if let (Some(id), crate::domain::event::Read::Known(Payload::LatchAcknowledged {})) =
            (&event.backfill, &event.payload)
        {
            for event in self.limits.acknowledge(state, id, &self.tuning, now) {
                self.push(state, event);
            }
        }
    }

    /// What time and foreign commands make due: expiries, stops, withdrawals, confirmations. State-driven, so that
    /// a crash in between only delays it.
    pub fn tick(&mut self, state: &mut State, gate: &Gate, now: Time) {
        for event in self.limits.tick(state, &self.surroundings(now), now) {
            self.push(state, event);
        }
        let ids: Vec<BackfillId> = state.backfills.keys().cloned().collect();
        for id in ids {
            self.expire(state, &id, now);
            self.withdraw(state, &id, gate, now);
            self.stop_runs(state, &id, now);
            self.confirm(state, &id, now);
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
        let stop = decide::stop_of(state, backfill, &self.surroundings(now));
        let late: Vec<(AttemptId, String)> = open(backfill)
            .filter(|(_, a)| a.phase == Phase::Intended && (stop.is_some() || a.stop_requested))
            .map(|(c, a)| {
                let why = stop.map_or("stopped".to_owned(), |s| format!("{s:?}").to_lowercase());
                (backfill.attempt_id(c.id, a.no), why)
            })
            .collect();
        for (attempt, why) in late {
            if gate.withdraw(&attempt) {
                self.say(
                    state,
                    id,
                    Actor::supervisor(),
                    Payload::SubmissionWithdrawn { attempt, why },
                    now,
                );
            }
        }
    }

    fn stop_runs(&mut self, state: &State, id: &BackfillId, now: Time) {
        let Some(backfill) = state.backfills.get(id) else {
            return;
        };
        for (chunk, attempt) in open(backfill).filter(|(_, a)| a.stop_requested && a.phase != Phase::Intended)
        {
            let attempt = backfill.attempt_id(chunk.id, attempt.no);
            let due = self
                .asked
                .get(&attempt)
                .is_none_or(|t| now - *t >= AGAIN || now < *t);
            if due {
                self.asked.insert(attempt.clone(), now);
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

    /// Uncertain attempts are looked at again and again.
    fn look_again(&mut self, state: &State, now: Time) {
        for backfill in state
            .backfills
            .values()
            .filter(|b| b.count(ChunkState::Uncertain) > 0)
        {
            for (chunk, attempt) in
                open(backfill).filter(|(c, a)| a.phase == Phase::Uncertain && now - c.since >= AGAIN)
            {
                let id = backfill.attempt_id(chunk.id, attempt.no);
                if self.asked.get(&id).is_none_or(|t| now - *t >= AGAIN || now < *t) {
                    self.asked.insert(id.clone(), now);
                    self.orders.push(Effect::Probe(id));
                }
            }
        }
    }

    /// Decides what starts now, and queues the intents with their effects.
    pub fn decide(&mut self, state: &mut State, now: Time) {
        for Intent {
            attempt,
            executor,
            profile,
            weight,
        } in decide::decide(state, &self.surroundings(now))
        {
            let backfill = attempt.backfill.clone();
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

/// Open attempts of a backfill with their chunks.
fn open(backfill: &Backfill) -> impl Iterator<Item = (&Chunk, &Attempt)> {
    backfill.active().filter_map(|c| c.open().map(|a| (c, a)))
}

/// Executor and phase of an attempt, if it is the open one of its chunk.
fn standing(state: &State, id: &AttemptId) -> Option<(Name, Phase)> {
    let attempt = state.backfills.get(&id.backfill)?.chunk(id.chunk)?.open()?;
    (attempt.no == id.no).then(|| (attempt.executor.clone(), attempt.phase))
}

fn stops_on_failure(backfill: &Backfill) -> Option<Payload> {
    let OnFailure::StopAfter(n) = backfill.spec.on_failure else {
        return None;
    };
    let for_good = |c: &&Chunk| match c.state {
        ChunkState::Quarantined => true,
        ChunkState::Failed => c.retry.is_none(),
        _ => false,
    };
    let failed: Vec<&Chunk> = backfill.chunks.iter().filter(for_good).collect();
    let newest = failed.iter().max_by_key(|c| c.since)?;
    (backfill.stopped.is_none() && failed.len() >= n as usize).then(|| Payload::StoppedOnFailure {
        chunk: newest.id,
        why: format!(
            "{} of {n} allowed failures; {} failed last",
            failed.len(),
            newest.id
        ),
    })
}

/// What a human can read of a drawn retry.
pub fn next_in_words(next: &Next) -> &'static str {
    match next {
        Next::Retry { .. } => "will be retried",
        Next::Quarantine { .. } => "quarantined",
        Next::Stay => "stays failed",
    }
}
