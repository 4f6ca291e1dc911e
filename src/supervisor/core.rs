//! The supervisor's decisions: inputs become events, events become effects. No I/O here; time and random numbers
//! come in as parameters, so that a whole night can be played in a test.

use super::{
    attached::{Held, Performed},
    limits::Limits,
};
use crate::{
    domain::{
        Time,
        attach::PoolSeen,
        event::{Actor, Event, NewEvent, Next, Outcome, Payload},
        failure::{Failure, FailureClass},
        ids::{AttemptId, BackfillId, Name},
        spec::OnFailure,
        state::{Attempt, Backfill, Chunk, ChunkState, Phase, State},
        tuning::Tuning,
    },
    executor::{
        Probe, RunEnd, RunUpdate, SubmitAnswer,
        attach::{Next as NextStep, Sight},
    },
    journal::Sighting,
    plan::{
        breaker,
        decide::{ExecutorFacts, Surroundings},
        retry,
    },
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// News for the loop.
#[derive(Debug)]
pub enum Input {
    /// What came of a submission.
    Submitted(AttemptId, SubmitAnswer),
    /// A submission did not leave, and why: it was withdrawn, or the lease was too old.
    NotSent(AttemptId, String),
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
    /// What was seen of an attached backfill.
    Sight(BackfillId, Result<Sight, String>),
    /// What was seen of the pool of a backfill of our own.
    Pool(BackfillId, Result<PoolSeen, String>),
    /// The next step of an action, by the seq of its request.
    Step(BackfillId, u64, Result<NextStep, String>),
    /// What a request of an action came to: the action, the request's number.
    Performed(BackfillId, u64, u32, Performed),
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
    /// Find out the next step of an action, by the seq of its request.
    NextStep(BackfillId, u64),
    /// Send a request of an action: the action, the request's number.
    Perform(BackfillId, u64, u32),
}

/// The decisions' memory between inputs. Everything in it can be lost: what matters is in the journal.
pub struct Core {
    /// The laws' times.
    pub tuning: Tuning,
    /// Throttles and signals.
    pub limits: Limits,
    /// Slots of the configured executors; `None` of one that has none of its own.
    pub slots: BTreeMap<Name, Option<u32>>,
    /// Executors that do not answer, and why.
    pub sick: BTreeMap<Name, String>,
    /// Free space beside the journal is under the floor.
    pub disk_low: bool,
    /// Attempts that recovery has not heard about yet, with their executors.
    pub(super) probing: BTreeMap<AttemptId, Name>,
    /// Intents that this process sends, or has sent and not heard about yet. An intent that is in neither of these
    /// two is one that never left.
    pub(super) sending: BTreeSet<AttemptId>,
    /// When uncertain attempts were last looked at.
    pub(super) looked: HashMap<AttemptId, Time>,
    /// How often attempts without an answer were sent again.
    pub(super) resent: HashMap<AttemptId, u32>,
    /// When attempts were last asked to stop.
    pub(super) stopped: HashMap<AttemptId, Time>,
    /// Attached backfills and pools.
    pub(super) held: BTreeMap<BackfillId, Held>,
    pub(super) sightings: Vec<Sighting>,
    pub(super) facts: Vec<NewEvent>,
    pub(super) orders: Vec<Effect>,
}

impl Core {
    /// A core for a new holder of the lease.
    pub fn new(tuning: Tuning, limits: Limits, slots: BTreeMap<Name, Option<u32>>) -> Self {
        Self {
            tuning,
            limits,
            slots,
            sick: BTreeMap::new(),
            disk_low: false,
            probing: BTreeMap::new(),
            sending: BTreeSet::new(),
            looked: HashMap::new(),
            resent: HashMap::new(),
            stopped: HashMap::new(),
            held: BTreeMap::new(),
            sightings: Vec::new(),
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

    /// What the planner needs to know beside the state. An executor gets nothing new while recovery asks about
    /// earlier attempts there.
    pub fn surroundings(&self, now: Time) -> Surroundings {
        let mut around = self.without_recovery(now);
        for name in self.probing.values() {
            if let Some(facts) = around.executors.get_mut(name) {
                facts
                    .problem
                    .get_or_insert_with(|| format!("{name}: asking what became of earlier attempts"));
            }
        }
        around
    }

    /// The same for attempts that recovery has heard about: that others are still asked about must not keep them.
    pub(super) fn without_recovery(&self, now: Time) -> Surroundings {
        let facts = |(name, slots): (&Name, &Option<u32>)| {
            let problem = self.sick.get(name).cloned();
            let facts = ExecutorFacts {
                slots: *slots,
                problem,
            };
            (name.clone(), facts)
        };
        Surroundings {
            now,
            tuning: self.tuning.clone(),
            executors: self.slots.iter().map(facts).collect(),
            signals: Some(self.limits.known()),
            paced: self.limits.paced(&self.tuning),
            admissions: self.limits.admissions(&self.tuning, now),
            disk_low: self.disk_low,
            supervised: true,
            elsewhere: BTreeMap::new(),
        }
    }

    /// The events that are to become durable now. They are folded into `state` already, as if they had been
    /// appended; if the append does not succeed, the state must be read again and [`Core::again`] called.
    pub fn batch(&mut self) -> Vec<NewEvent> {
        std::mem::take(&mut self.facts)
    }

    /// Whether events wait to be appended.
    pub const fn has_facts(&self) -> bool {
        !self.facts.is_empty()
    }

    /// Gives a batch back that cannot even be put on a newer state now.
    pub fn keep(&mut self, mut events: Vec<NewEvent>) {
        events.append(&mut self.facts);
        self.facts = events;
    }

    /// Puts events that could not be appended on top of a newer state. What was concluded from the older state is
    /// left out, intents first of all: [`Core::tick`] and [`Core::decide`] conclude anew.
    pub fn again(&mut self, state: &mut State, events: Vec<NewEvent>) {
        // What was ordered is not sent yet, and has to be allowed by the newer state.
        let sending = &mut self.sending;
        let mut steps = Vec::new();
        self.orders.retain(|order| match order {
            Effect::Submit(attempt) => {
                sending.remove(attempt);
                false
            }
            Effect::Perform(id, ..) => {
                steps.push(id.clone());
                false
            }
            Effect::Probe(_) | Effect::Stop(_) | Effect::NextStep(..) => true,
        });
        steps.iter().for_each(|id| self.take_back_step(id));
        for event in events.into_iter().filter(is_fact) {
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

    pub(super) fn say(
        &mut self,
        state: &mut State,
        id: &BackfillId,
        actor: Actor,
        payload: Payload,
        now: Time,
    ) {
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
            Input::NotSent(attempt, why) => self.not_sent(state, attempt, why, now),
            Input::Run(attempt, update) => self.updated(state, attempt, update, drawn, now),
            Input::Probed(attempt, probe) => self.probed(state, attempt, probe, drawn, now),
            Input::StopFailed(attempt, why) => {
                tracing::warn!(%attempt, why, "the request to stop did not arrive")
            }
            Input::Reading(signal, reading) => {
                let mut around = self.surroundings(now);
                around.elsewhere = self.elsewhere(state);
                for event in self.limits.reading(state, &signal, &reading, &around, now) {
                    self.push(state, event);
                }
            }
            Input::Health(name, Ok(())) => {
                if self.sick.remove(&name).is_some() {
                    // What nobody could tell while it was away may be told now.
                    self.looked.clear();
                }
            }
            Input::Health(name, Err(why)) => drop(self.sick.insert(name, why)),
            Input::Sight(id, sight) => self.sighted(state, &id, sight, now),
            Input::Pool(id, Ok(pool)) => self.pool_seen(&id, pool, now),
            Input::Pool(id, Err(why)) => tracing::warn!(backfill = %id, why, "its pool cannot be seen"),
            Input::Step(id, ask, next) => self.step(state, &id, ask, next, now),
            Input::Performed(id, ask, step, done) => self.performed(state, &id, (ask, step), done, now),
            Input::Reload | Input::Quit => {}
        }
    }

    fn submitted(&mut self, state: &mut State, id: AttemptId, answer: SubmitAnswer, drawn: f64, now: Time) {
        self.sending.remove(&id);
        let Some((executor, phase)) = standing(state, &id) else {
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
            // What a human or another supervisor ended meanwhile is folded by now. Else the executor cannot find out,
            // and that is a failure of its own: sent again at once it would go round in circles.
            SubmitAnswer::NotWanted { why } if still_wanted(state, &id) => {
                let failure = Failure {
                    class: FailureClass::Platform,
                    exit: None,
                    message: format!("{executor} did not take it: {why}"),
                };
                return self.ended(state, id, RunEnd::failed(failure), drawn, now);
            }
            SubmitAnswer::NotWanted { why } => Payload::SubmissionWithdrawn { attempt: id, why },
            SubmitAnswer::DateTaken { run, what } => Payload::DateTaken {
                attempt: id,
                run,
                what,
            },
            SubmitAnswer::NotSent { why } => {
                // Until its health is asked the next time: the next attempt would fare no better.
                self.sick.insert(executor, why.clone());
                return self.not_sent(state, id, why, now);
            }
            SubmitAnswer::Unknown { .. } if phase == Phase::Uncertain => return,
            SubmitAnswer::Unknown { why } => Payload::RunUncertain { attempt: id, why },
            SubmitAnswer::Refused { failure } => {
                return self.ended(state, id, RunEnd::failed(failure), drawn, now);
            }
        };
        self.say(state, &backfill, actor, payload, now);
    }

    fn not_sent(&mut self, state: &mut State, id: AttemptId, why: String, now: Time) {
        self.sending.remove(&id);
        // Of one that was sent before, and is sent again, this says nothing.
        if standing(state, &id).is_some_and(|(_, phase)| phase != Phase::Uncertain) {
            let backfill = id.backfill.clone();
            let payload = Payload::SubmissionWithdrawn { attempt: id, why };
            self.say(state, &backfill, Actor::supervisor(), payload, now);
        }
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
            // An intent whose sending a crash prevented: `tick` sends the same attempt now, or withdraws it.
            Probe::NeverRan if phase == Phase::Intended => return,
            // It counts as an attempt, with its delay and its budget: whatever kept it from running may do so again.
            Probe::NeverRan if phase == Phase::Uncertain => {
                let end = RunEnd::failed(never_ran(state, &id));
                return self.ended(state, id, end, drawn, now);
            }
            Probe::Traceless { why, under_way } => {
                return self.traceless(state, id, why, under_way, drawn, now);
            }
            // The journal knows that it ran, the executor says it never did: evidence disagrees (case B38).
            Probe::NeverRan => Payload::RunUncertain {
                attempt: id,
                why: no_trace(&executor),
            },
        };
        self.say(state, &backfill, actor, payload, now);
    }

    pub(super) fn ended(&mut self, state: &mut State, id: AttemptId, end: RunEnd, drawn: f64, now: Time) {
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
        self.looked.remove(&id);
        self.resent.remove(&id);
        self.stopped.remove(&id);
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
}

/// Open attempts of a backfill with their chunks.
pub(super) fn open(backfill: &Backfill) -> impl Iterator<Item = (&Chunk, &Attempt)> {
    backfill.active().filter_map(|c| c.open().map(|a| (c, a)))
}

/// Executor and phase of an attempt, if it is the open one of its chunk.
pub(super) fn standing(state: &State, id: &AttemptId) -> Option<(Name, Phase)> {
    let attempt = state.backfills.get(&id.backfill)?.chunk(id.chunk)?.open()?;
    (attempt.no == id.no).then(|| (attempt.executor.clone(), attempt.phase))
}

/// Whether nobody asked for the end of an open attempt.
pub(super) fn still_wanted(state: &State, id: &AttemptId) -> bool {
    let chunk = state.backfills.get(&id.backfill).and_then(|b| b.chunk(id.chunk));
    chunk.and_then(Chunk::open).is_some_and(|a| !a.stop_requested)
}

/// The failure of an attempt that nobody had an answer for and that certainly never ran.
pub(super) fn never_ran(state: &State, id: &AttemptId) -> Failure {
    let chunk = state.backfills.get(&id.backfill).and_then(|b| b.chunk(id.chunk));
    let why = chunk.and_then(|c| c.why.as_deref()).unwrap_or("no answer");
    Failure {
        class: FailureClass::Platform,
        exit: None,
        message: format!("it never ran: {why}"),
    }
}

/// What is said of an attempt that the executor had accepted and knows nothing of.
pub(super) fn no_trace(executor: &Name) -> String {
    format!("{executor} has no trace of a run that it had accepted")
}

/// Whether an event tells what happened, rather than what the holder concluded from the state it had.
fn is_fact(event: &NewEvent) -> bool {
    match event.payload {
        Payload::SubmissionIntended { .. } | Payload::PauseApplied { .. } => false,
        // What follows from pauses and limits, and requests that have not left.
        Payload::ActionRequested { .. }
        | Payload::ActionSent { .. }
        | Payload::PoolTaken { .. }
        | Payload::PoolReturned { .. } => false,
        // A pause or a force that ended by itself. An operator's command is none of ours to append.
        Payload::Resumed {} | Payload::Forced { .. } => false,
        _ => true,
    }
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
