//! Somebody else's backfills: what is seen of them, which levers have to be moved, and actions from request to end.
//! Decisions only; the [`super::driver`] speaks to the engines.

use super::core::{Core, Effect};
use crate::{
    domain::{
        Time,
        attach::{Action, Asked, Days, Facts, PoolSeen, RunChange},
        event::{Actor, NewEvent, Payload},
        ids::BackfillId,
        state::{Backfill, ChunkState, State},
    },
    executor::attach::{Next, Sight},
    journal::Sighting,
    plan::{
        decide::{self, Elsewhere},
        lever::{self, Lever},
    },
};
use chrono::{SubsecRound, TimeDelta};
use std::collections::BTreeMap;

/// The most changes that one event tells.
const CHANGES: usize = 100;
/// When an engine that could not be asked is asked again.
const AGAIN: TimeDelta = TimeDelta::seconds(5);

/// What a request came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Performed {
    /// The server accepted it.
    Accepted(String),
    /// The server refused it: nothing happened.
    Refused(String),
    /// Nobody knows; the server has to be looked at.
    Unknown(String),
}

/// What is known of one backfill and its pool. All of it can be lost.
#[derive(Debug, Default)]
pub struct Held {
    days: Days,
    /// Of those days: counted when they change, for every tick asks.
    elsewhere: Elsewhere,
    facts: Facts,
    begun: Option<Time>,
    at: Option<Time>,
    pool: Option<(PoolSeen, Time)>,
    acting: Option<Acting>,
}

/// The action that is under way.
#[derive(Debug, Clone)]
struct Acting {
    ask: u64,
    doing: Doing,
}

#[derive(Debug, Clone)]
enum Doing {
    /// Its next step is being found out, or being sent.
    Waits,
    /// Its next step is found out at this time.
    Due(Time),
}

impl Held {
    /// Takes in what was seen; what of it is new, and which runs changed.
    fn merge(&mut self, sight: Sight) -> (Days, Vec<RunChange>) {
        let mut new = Days::new();
        if sight.whole {
            let gone = self.days.keys().filter(|d| !sight.days.contains_key(d));
            new.extend(gone.map(|d| (*d, Vec::new())));
        }
        let known = &self.days;
        let other = |(day, runs): &(_, Vec<_>)| known.get(day).map_or(!runs.is_empty(), |old| old != runs);
        new.extend(sight.days.into_iter().filter(other));
        // Until the window was read once, nothing that comes in is a change.
        let read = self.facts.as_of.is_some() && self.facts.reading.is_none();
        let changes = if read { self.changes(&new) } else { Vec::new() };
        for (day, runs) in &new {
            if runs.is_empty() {
                self.days.remove(day);
            } else {
                self.days.insert(*day, runs.clone());
            }
        }
        if !new.is_empty() {
            self.elsewhere = count(&self.days);
        }
        self.facts = sight.facts;
        (new, changes)
    }

    fn changes(&self, new: &Days) -> Vec<RunChange> {
        let mut changes = Vec::new();
        for (day, runs) in new {
            let old = self.days.get(day).map_or(&[][..], Vec::as_slice);
            for run in runs {
                let before = old.iter().find(|o| o.run == run.run);
                if before.is_none_or(|b| b.word != run.word) {
                    changes.push(RunChange {
                        chunk: *day,
                        run: run.run.clone(),
                        from: before.map(|b| b.word.clone()),
                        to: Some(run.word.clone()),
                    });
                }
            }
            for gone in old.iter().filter(|o| !runs.iter().any(|r| r.run == o.run)) {
                changes.push(RunChange {
                    chunk: *day,
                    run: gone.run.clone(),
                    from: Some(gone.word.clone()),
                    to: None,
                });
            }
        }
        changes
    }

    /// The pool as last seen: of an attached backfill with its other facts.
    fn seen_pool(&self) -> Option<(&PoolSeen, Time)> {
        match (&self.pool, &self.facts.pool, self.facts.as_of) {
            (Some((pool, at)), ..) => Some((pool, *at)),
            (None, Some(pool), Some(at)) => Some((pool, at)),
            _ => None,
        }
    }
}

/// Days that run and days that wait there.
fn count(days: &Days) -> Elsewhere {
    let mut elsewhere = Elsewhere::default();
    for runs in days.values() {
        match runs.iter().map(|r| r.phase.state()).max_by_key(|s| s.badness()) {
            Some(ChunkState::Running) => elsewhere.running += 1,
            Some(ChunkState::Queued) => elsewhere.waiting += 1,
            _ => {}
        }
    }
    elsewhere
}

impl Core {
    /// What runs and waits of attached backfills.
    pub(super) fn elsewhere(&self, state: &State) -> BTreeMap<BackfillId, Elsewhere> {
        let theirs = |id: &BackfillId| state.backfills.get(id).is_some_and(|b| b.spec.attach.is_some());
        let held = self.held.iter().filter(|(id, _)| theirs(id));
        held.map(|(id, held)| (id.clone(), held.elsewhere)).collect()
    }

    /// What was seen of an attached backfill, or why nothing was.
    pub(super) fn sighted(
        &mut self,
        state: &mut State,
        id: &BackfillId,
        sight: Result<Sight, String>,
        now: Time,
    ) {
        if state.backfills.get(id).is_none_or(|b| b.detached.is_some()) {
            return;
        }
        let held = self.held.entry(id.clone()).or_default();
        let (days, changes) = match sight {
            Ok(sight) => held.merge(sight),
            // Before anything was seen there is nothing to keep with its age.
            Err(why) => {
                held.facts.problem = Some(why);
                (Days::new(), Vec::new())
            }
        };
        let millisecond = TimeDelta::milliseconds(1);
        let at = held
            .at
            .map_or(now, |last| now.max(last + millisecond))
            .trunc_subsecs(3);
        held.at = Some(at);
        let begun = *held.begun.get_or_insert(at);
        self.sightings.push(Sighting {
            backfill: id.clone(),
            at,
            begun,
            days,
            facts: held.facts.clone(),
        });
        let executor = state.backfills.get(id).map(|b| b.spec.executor.clone());
        let actor = executor.map_or_else(Actor::supervisor, |e| Actor::executor(&e));
        for some in changes.chunks(CHANGES) {
            let payload = Payload::RunsChanged {
                changes: some.to_vec(),
            };
            self.say(state, id, actor.clone(), payload, now);
        }
    }

    /// A pool as it is now.
    pub(super) fn pool_seen(&mut self, id: &BackfillId, pool: PoolSeen, now: Time) {
        self.held.entry(id.clone()).or_default().pool = Some((pool, now));
    }

    /// What was seen since the last call, to be recorded.
    pub fn take_sightings(&mut self) -> Vec<Sighting> {
        std::mem::take(&mut self.sightings)
    }

    /// Asks for the actions that follow from pauses and limits, and takes those that were asked for one step further.
    pub(super) fn pull(&mut self, state: &mut State, id: &BackfillId, now: Time) {
        self.ask(state, id, now);
        let Some(next) = state.backfills.get(id).and_then(first) else {
            return;
        };
        let ask = next.seq;
        let held = self.held.entry(id.clone()).or_default();
        let free = match &held.acting {
            None => true,
            Some(acting) => match acting.doing {
                Doing::Waits => false,
                Doing::Due(at) => acting.ask != ask || at <= now || at > now + AGAIN * 60,
            },
        };
        if free {
            held.acting = Some(Acting {
                ask,
                doing: Doing::Waits,
            });
            self.orders.push(Effect::NextStep(id.clone(), ask));
        }
    }

    fn ask(&mut self, state: &mut State, id: &BackfillId, now: Time) {
        let (Some(backfill), Some(held)) = (state.backfills.get(id), self.held.get(id)) else {
            return;
        };
        let theirs = backfill.spec.attach.is_some();
        let native = held.facts.as_of.filter(|_| theirs);
        let protected = !decide::is_unprotected(backfill, &self.limits.known());
        let native = native.and_then(|_| lever::native(backfill, &held.facts, protected, now));
        let pool = held
            .seen_pool()
            .and_then(|(pool, at)| lever::pool(backfill, pool, at, now));
        let actor = cause(backfill);
        let about = |action: &Action| lever::meant(backfill, Some(&held.facts), action);
        let levers: Vec<(Option<u64>, Lever)> = native
            .into_iter()
            .chain(pool)
            .map(|lever| match &lever {
                Lever::Ask(action, _) => (about(action), lever),
                _ => (None, lever),
            })
            .collect();
        for (native, lever) in levers {
            let (payload, reason) = match lever {
                Lever::Ask(action, why) => {
                    let request = Payload::ActionRequested {
                        action,
                        digest: String::new(),
                        native,
                    };
                    (request, Some(why))
                }
                Lever::TakePool { pool, former } => (Payload::PoolTaken { pool, former }, None),
                Lever::LetPoolGo { pool, slots, why } => (Payload::PoolReturned { pool, slots, why }, None),
            };
            let event = NewEvent {
                at: now,
                actor: actor.clone(),
                reason,
                backfill: Some(id.clone()),
                payload,
            };
            self.push(state, event);
        }
    }

    /// The next step of an action was found out.
    pub(super) fn step(
        &mut self,
        state: &mut State,
        id: &BackfillId,
        ask: u64,
        next: Result<Next, String>,
        now: Time,
    ) {
        let due = |after: TimeDelta| {
            Some(Acting {
                ask,
                doing: Doing::Due(now + after),
            })
        };
        let held = self.held.entry(id.clone()).or_default();
        let Some(asked) = state.backfills.get(id).and_then(|b| open(b, ask)) else {
            held.acting = None;
            return;
        };
        match next {
            Err(error) => {
                tracing::warn!(backfill = %id, action = asked.action.words(), error, "an action waits");
                held.acting = due(AGAIN);
            }
            Ok(Next::Wait(time, why)) => {
                tracing::debug!(backfill = %id, action = asked.action.words(), why, "an action waits");
                held.acting = due(TimeDelta::from_std(time).unwrap_or(AGAIN));
            }
            Ok(Next::Ended { ok, said }) => {
                held.acting = None;
                let payload = Payload::ActionEnded { ask, ok, said };
                self.say(state, id, executor(state, id), payload, now);
            }
            Ok(Next::Send { sent, call }) => {
                // One that was sent and never answered keeps its number.
                let unanswered = asked.steps.iter().find(|s| s.answer.is_none());
                let step = unanswered.map_or(asked.steps.len() as u32, |s| s.no);
                self.orders.push(Effect::Perform(id.clone(), ask, step));
                let payload = Payload::ActionSent {
                    ask,
                    step,
                    sent,
                    call,
                };
                self.say(state, id, Actor::supervisor(), payload, now);
            }
        }
    }

    /// What a request of an action came to.
    pub(super) fn performed(
        &mut self,
        state: &mut State,
        id: &BackfillId,
        (ask, step): (u64, u32),
        performed: Performed,
        now: Time,
    ) {
        let held = self.held.entry(id.clone()).or_default();
        let (after, answer) = match performed {
            Performed::Accepted(said) => (TimeDelta::zero(), Some((true, said))),
            Performed::Refused(said) => (TimeDelta::zero(), Some((false, said))),
            Performed::Unknown(why) => {
                tracing::warn!(backfill = %id, ask, step, why, "nobody knows what came of a request");
                (TimeDelta::seconds(1), None)
            }
        };
        held.acting = Some(Acting {
            ask,
            doing: Doing::Due(now + after),
        });
        let is_open = state.backfills.get(id).is_some_and(|b| open(b, ask).is_some());
        if let Some((ok, said)) = answer.filter(|_| is_open) {
            let payload = Payload::ActionAnswered { ask, step, ok, said };
            self.say(state, id, executor(state, id), payload, now);
        }
    }

    /// A request that was concluded from an older state did not leave: its step is found out again.
    pub(super) fn take_back_step(&mut self, id: &BackfillId) {
        if let Some(held) = self.held.get_mut(id) {
            held.acting = None;
        }
    }

    /// Whether a pause of somebody else's backfill holds there, as far as it was seen.
    pub(super) fn pause_holds_there(&self, backfill: &Backfill) -> bool {
        let Some(held) = self.held.get(&backfill.id).filter(|h| h.facts.as_of.is_some()) else {
            return false;
        };
        let unfinished = held.facts.native.as_ref().filter(|n| n.completed.is_none());
        match (unfinished, &backfill.pool) {
            (Some(native), _) => native.paused,
            (None, Some(hold)) => hold.written == Some(0),
            // Nothing of the engine's own starts anything.
            (None, None) => backfill.spec.attach.as_ref().is_some_and(|a| a.native.is_some()),
        }
    }
}

/// The action that is to be taken further: what can only reduce work first, then levers, then the rest by age.
fn first(backfill: &Backfill) -> Option<&Asked> {
    let rank = |action: &Action| match action {
        a if a.only_reduces() => 0,
        Action::Slots { .. } | Action::Resume { .. } => 1,
        _ => 2,
    };
    let open = backfill.asked.iter().filter(|a| a.is_open());
    open.min_by_key(|a| (rank(&a.action), a.seq))
}

fn open(backfill: &Backfill, ask: u64) -> Option<&Asked> {
    backfill.asked.iter().find(|a| a.seq == ask && a.is_open())
}

fn executor(state: &State, id: &BackfillId) -> Actor {
    let executor = state.backfills.get(id).map(|b| &b.spec.executor);
    executor.map_or_else(Actor::supervisor, Actor::executor)
}

/// In whose name levers are moved: whoever pauses, else the signal that binds, else the supervisor.
fn cause(backfill: &Backfill) -> Actor {
    match (&backfill.pause, &backfill.limit.signal) {
        // A human's name stands for what they did themselves.
        (Some(_), _) => Actor::supervisor(),
        (None, Some(signal)) => Actor::signal(signal),
        (None, None) => Actor::supervisor(),
    }
}
