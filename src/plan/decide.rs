//! What may be submitted now, where, with which resources. A pure function of the state and its surroundings.

use super::{
    expect::Expected,
    room::Admission,
    throttle::authority::{Binding, Controller, effective_limit, fits},
};
use crate::domain::{
    Time,
    blackout::{self, Closed},
    event::Force,
    event::Rule,
    ids::{AttemptId, BackfillId, ChunkId, Name},
    spec::{Lane, Order},
    state::{Backfill, BackfillState, Chunk, ChunkState, State},
    tuning::Tuning,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// What is known of an executor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutorFacts {
    /// How many attempts at a time; `None` of one that has no slots of its own.
    pub slots: Option<u32>,
    /// Why nothing can be sent there now, in words: unreachable, not yet reconciled after a restart.
    pub problem: Option<String>,
}

/// What is known beside the journal's state.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// Wall time.
    pub now: Time,
    /// The laws' times.
    pub tuning: Tuning,
    /// Executors by name; one that is missing here is no longer configured.
    pub executors: BTreeMap<Name, ExecutorFacts>,
    /// Signals by name, and whether they protect; one that is missing here is no longer configured. `None`: not known.
    pub signals: Option<BTreeMap<Name, bool>>,
    /// Backfills whose starts are paced: after a resume until the former limit is reached, and at the start.
    pub paced: BTreeSet<BackfillId>,
    /// What the learned law admits under the limit; a backfill that is missing here is asked for its limit only.
    pub admissions: BTreeMap<BackfillId, Admission>,
    /// Free space beside the journal is under the floor.
    pub disk_low: bool,
    /// Somebody supervises.
    pub supervised: bool,
    /// What runs and waits of attached backfills, which the journal does not know.
    pub elsewhere: BTreeMap<BackfillId, Elsewhere>,
}

/// Days of an attached backfill, by the server's word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Days that run.
    pub running: u32,
    /// Days that wait.
    pub waiting: u32,
}

/// An attempt that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Its id.
    pub attempt: AttemptId,
    /// Where to.
    pub executor: Name,
    /// Step of the profile ladder.
    pub profile: u32,
    /// Its weight.
    pub weight: u32,
}

/// The limit that holds now, and who set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// Running weight allowed.
    pub limit: u32,
    /// Who binds.
    pub by: Binding,
}

/// The limit of a backfill now. A force raises at most to `max_limit`, ends at its expiry, and never lifts what a
/// signal stopped (hard, critical, latch) or what it cannot see (blind, no samples yet).
pub fn allowed(backfill: &Backfill, now: Time) -> Allowed {
    allowed_with(backfill, backfill.force.as_ref().map(|(force, _)| *force), now)
}

fn allowed_with(backfill: &Backfill, force: Option<Force>, now: Time) -> Allowed {
    let controller = Controller {
        limit: backfill.limit.value,
        forcible: is_forcible(backfill),
    };
    let cap = backfill.cap.as_ref().map(|(cap, _)| *cap);
    let (limit, by) = effective_limit(controller, cap, force, backfill.spec.max_limit, now);
    Allowed { limit, by }
}

/// Whether a force makes a difference now: it allows more than there would be without it, and no blackout holds.
pub fn force_counts(backfill: &Backfill, force: Force, now: Time) -> bool {
    let limit = |force| allowed_with(backfill, force, now).limit;
    limit(Some(force)) > limit(None) && blackout::now(&backfill.spec.blackout, now).is_none()
}

/// Whether nothing that a signal says stands against a force: no signal stops it, none is blind or without a first sample.
pub fn is_forcible(backfill: &Backfill) -> bool {
    !stopped_by_signal(backfill) && backfill.blind.is_empty()
}

/// Whether the controller allows nothing at all.
pub fn stopped_by_signal(backfill: &Backfill) -> bool {
    backfill.limit.value == 0
}

/// What stops every start of a backfill, as stable words in the order of authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Nobody supervises.
    Unsupervised,
    /// This binary cannot read an event of a newer one.
    Observer,
    /// It ended, or is being cancelled.
    Ended,
    /// Past critical.
    Critical,
    /// Too much failed alike.
    Breaker,
    /// A window without starts is open.
    Blackout,
    /// `on_failure` said stop.
    OnFailure,
    /// A human paused it.
    Paused,
    /// No valid samples.
    Blind,
    /// Lag past hard, or latched.
    Signal,
    /// Waits for the first samples.
    FirstSamples,
    /// What protects it is not in the configuration any more.
    Unprotected,
    /// The disk is nearly full.
    Disk,
    /// The executor cannot take anything.
    Executor,
}

impl Stop {
    /// Whether it stands above the controller, whose state is frozen meanwhile (law C2, order of authority).
    pub const fn is_above_controller(self) -> bool {
        matches!(
            self,
            Self::Unsupervised
                | Self::Observer
                | Self::Ended
                | Self::Breaker
                | Self::Blackout
                | Self::OnFailure
                | Self::Paused
        )
    }
}

/// The first reason in the order of authority for which nothing of the backfill starts.
pub fn stop_of(state: &State, backfill: &Backfill, around: &Surroundings) -> Option<Stop> {
    stops(state, backfill, around).next()
}

/// All reasons for which nothing of the backfill starts, in the order of authority.
pub fn stops(state: &State, backfill: &Backfill, around: &Surroundings) -> impl Iterator<Item = Stop> {
    let limit = &backfill.limit;
    let checks = [
        (backfill.state().is_final(), Stop::Ended),
        (!around.supervised, Stop::Unsupervised),
        (state.unreadable.is_some(), Stop::Observer),
        (
            !matches!(backfill.state(), BackfillState::Running | BackfillState::Paused),
            Stop::Ended,
        ),
        (limit.value == 0 && limit.rule == Rule::Critical, Stop::Critical),
        (breaker_holds(backfill, around.now), Stop::Breaker),
        (
            blackout::now(&backfill.spec.blackout, around.now).is_some(),
            Stop::Blackout,
        ),
        (backfill.stopped.is_some(), Stop::OnFailure),
        (backfill.pause.is_some(), Stop::Paused),
        (limit.value == 0 && limit.rule == Rule::Blind, Stop::Blind),
        (limit.value == 0 && limit.rule == Rule::Start, Stop::FirstSamples),
        (limit.value == 0, Stop::Signal),
        (
            around
                .signals
                .as_ref()
                .is_some_and(|known| is_unprotected(backfill, known)),
            Stop::Unprotected,
        ),
        (around.disk_low, Stop::Disk),
        (executor_problem(backfill, around).is_some(), Stop::Executor),
    ];
    checks
        .into_iter()
        .filter_map(|(holds, stop)| holds.then_some(stop))
}

/// An open breaker holds until its retry time, and then while its one canary runs.
fn breaker_holds(backfill: &Backfill, now: Time) -> bool {
    let Some(breaker) = &backfill.breaker else {
        return false;
    };
    now < breaker.retry_at
        || backfill
            .active()
            .any(|c| c.open().is_some_and(|a| a.intended >= breaker.retry_at))
}

/// Whether signals that the order was started with left the configuration, and none that protects it is left there. What
/// they last said counts no more (case B25), but that nobody looks any more is no leave to go on: the order was to run
/// beside what they watch, until it is amended. `known` has the signals of the configuration, and whether they protect.
pub fn is_unprotected(backfill: &Backfill, known: &BTreeMap<Name, bool>) -> bool {
    let wanted = &backfill.spec.signals;
    wanted.iter().any(|s| !known.contains_key(s)) && !wanted.iter().any(|s| known.get(s) == Some(&true))
}

/// Why the backfill's executor can take nothing, in words.
pub fn executor_problem(backfill: &Backfill, around: &Surroundings) -> Option<String> {
    match around.executors.get(&backfill.spec.executor) {
        None => Some(format!(
            "executor {} is not in the configuration",
            backfill.spec.executor
        )),
        Some(facts) => facts.problem.clone(),
    }
}

/// Whether an attempt that was intended before a restart may still be sent: nothing stops its backfill, it still fits
/// the limit that holds now, and it will be over when the next blackout begins.
pub fn may_resubmit(state: &State, backfill: &Backfill, chunk: ChunkId, around: &Surroundings) -> bool {
    let ahead = LookAhead::of(backfill, around.now);
    let too_long = ahead.zip(backfill.chunk(chunk));
    stop_of(state, backfill, around).is_none()
        && too_long.is_none_or(|(ahead, chunk)| ahead.too_long(backfill, chunk).is_none())
        && (backfill.running_weight() <= allowed(backfill, around.now).limit
            || backfill.active().count() == 1)
}

/// Everything that may be submitted now, in the order in which to send it. Backfills take turns, so that none
/// starves another of slots.
pub fn decide(state: &State, around: &Surroundings) -> Vec<Intent> {
    let mut slots = free_slots(state, around);
    let mut queues: Vec<Queue<'_>> = state
        .backfills
        .values()
        // What somebody else started starts nothing of ours.
        .filter(|b| b.spec.attach.is_none() && stop_of(state, b, around).is_none())
        .map(|b| Queue::new(b, around))
        .collect();
    queues.sort_by_key(|q| q.backfill.started.at);
    let mut intents = Vec::new();
    loop {
        let before = intents.len();
        for queue in &mut queues {
            if let Some(free) = slots.get_mut(&queue.backfill.spec.executor)
                && *free != Some(0)
                && let Some(intent) = queue.next()
            {
                *free = free.map(|n| n - 1);
                intents.push(intent);
            }
        }
        if intents.len() == before {
            return intents;
        }
    }
}

/// Weight of the next chunk in order, if there is one: the throttle grows only for a chunk that does not fit.
pub fn next_weight(backfill: &Backfill, around: &Surroundings) -> Option<u32> {
    Queue::new(backfill, around)
        .peek()
        .map(|chunk| backfill.spec.weight(chunk.id))
}

/// Free slots by executor; `None` where there is no end of them.
fn free_slots(state: &State, around: &Surroundings) -> BTreeMap<Name, Option<u32>> {
    let mut slots: BTreeMap<Name, Option<u32>> = around
        .executors
        .iter()
        .map(|(n, e)| (n.clone(), e.slots))
        .collect();
    for backfill in state.backfills.values() {
        for attempt in backfill.active().filter_map(Chunk::open) {
            if let Some(free) = slots.get_mut(&attempt.executor) {
                *free = free.map(|n| n.saturating_sub(1));
            }
        }
    }
    slots
}

/// The chunks of one backfill that wait, in the order of their starts.
struct Queue<'a> {
    backfill: &'a Backfill,
    waiting: Option<std::vec::IntoIter<&'a Chunk>>,
    ahead: Option<&'a Chunk>,
    now: Time,
    limit: u32,
    running: u32,
    isolated: bool,
    starts_left: u32,
    admission: Option<Admission>,
    look_ahead: Option<LookAhead>,
}

/// What has to be over when the next blackout begins: what runs then is not stopped, so it must not be begun.
#[derive(Debug, Clone)]
pub struct LookAhead {
    /// The next blackout.
    pub closed: Closed,
    left: Duration,
    expected: Expected,
}

impl LookAhead {
    /// Of a backfill that has blackouts.
    pub fn of(backfill: &Backfill, now: Time) -> Option<Self> {
        let closed = blackout::next(&backfill.spec.blackout, now)?;
        Some(Self {
            left: (closed.from - now).to_std().unwrap_or_default(),
            closed,
            expected: Expected::of(backfill),
        })
    }

    /// Whether something waits, and nothing of it would be done before the next blackout: then nothing starts.
    pub fn holds_all(&self, backfill: &Backfill, now: Time) -> bool {
        let waiting = in_order(backfill, now);
        !waiting.is_empty() && waiting.iter().all(|c| self.too_long(backfill, c).is_some())
    }

    /// How long a chunk will probably run, if that is longer than what is left. Of which nothing is known, that one
    /// starts: something has to be the first.
    pub fn too_long(&self, backfill: &Backfill, chunk: &Chunk) -> Option<Duration> {
        self.expected
            .takes(backfill, chunk)
            .filter(|takes| *takes > self.left)
    }
}

impl<'a> Queue<'a> {
    fn new(backfill: &'a Backfill, around: &Surroundings) -> Self {
        let gap = chrono::Duration::from_std(around.tuning.start_gap).unwrap_or(chrono::Duration::zero());
        let paced = around.paced.contains(&backfill.id);
        // A clock that jumped back must not hold starts for longer than the gap.
        let too_soon = backfill
            .last_start
            .is_some_and(|t| around.now >= t && around.now - t < gap);
        let starts_left = match (paced, backfill.breaker.is_some()) {
            (true, _) if too_soon => 0,
            (true, _) | (_, true) => 1,
            (false, false) => u32::MAX,
        };
        let Allowed { limit, by } = allowed(backfill, around.now);
        Self {
            backfill,
            waiting: None,
            ahead: None,
            now: around.now,
            limit,
            admission: admission(backfill, by, around),
            look_ahead: LookAhead::of(backfill, around.now),
            running: backfill.running_weight(),
            isolated: backfill
                .active()
                .any(|c| backfill.spec.lane(c.id) == Lane::Isolated),
            starts_left,
        }
    }

    /// The next chunk in order that could start if there were room. A chunk of the isolated lane is passed over
    /// while another one of that lane runs, a heavy one while lag is not low enough for it to begin, and one that
    /// would still run when the next blackout begins.
    fn peek(&mut self) -> Option<&'a Chunk> {
        if self.ahead.is_none() {
            let spec = &self.backfill.spec;
            let heaviest = self.admission.filter(|_| self.running > 0).map(|a| a.heavy);
            let too_heavy = |weight: u32| weight > 1 && heaviest.is_some_and(|most| weight > most);
            let isolated = self.isolated;
            let ahead = &self.look_ahead;
            let backfill = self.backfill;
            let waiting = self
                .waiting
                .get_or_insert_with(|| in_order(self.backfill, self.now).into_iter());
            self.ahead = waiting.find(|c| {
                let lane_taken = isolated && spec.lane(c.id) == Lane::Isolated;
                let too_long = || ahead.as_ref().is_some_and(|a| a.too_long(backfill, c).is_some());
                !lane_taken && !too_heavy(spec.weight(c.id)) && !too_long()
            });
        }
        self.ahead
    }

    /// Whether the learned law admits it, if one is asked. What one start uses up is not there for the next.
    fn admits(&mut self, weight: u32) -> bool {
        let Some(admission) = &mut self.admission else {
            return true;
        };
        let admitted = admission.allows(self.running, weight);
        if admitted && self.running + weight > admission.up_to {
            admission.one_more = false;
        }
        admitted
    }

    /// The order is kept: a heavy chunk that does not fit yet is waited for, else it would starve.
    fn next(&mut self) -> Option<Intent> {
        if self.starts_left == 0 || !fits(self.limit, self.running, 1) {
            return None;
        }
        let chunk = self.peek()?;
        let weight = self.backfill.spec.weight(chunk.id);
        if !fits(self.limit, self.running, weight) || !self.admits(weight) {
            return None;
        }
        self.ahead = None;
        self.running += weight;
        self.isolated |= self.backfill.spec.lane(chunk.id) == Lane::Isolated;
        self.starts_left -= 1;
        Some(Intent {
            attempt: self.backfill.attempt_id(chunk.id, chunk.next_no()),
            executor: self.backfill.spec.executor.clone(),
            profile: next_profile(self.backfill, chunk),
            weight,
        })
    }
}

/// What the learned law admits of a backfill now. Who forces the limit forces the starts with it.
pub fn admission(backfill: &Backfill, by: Binding, around: &Surroundings) -> Option<Admission> {
    let known = around.admissions.get(&backfill.id).copied();
    known.filter(|_| by != Binding::Force)
}

/// Step of the profile ladder of a chunk's next attempt: the retry's, else a re-run keeps what the last attempt
/// had, else the lane's first.
pub fn next_profile(backfill: &Backfill, chunk: &Chunk) -> u32 {
    let first = backfill.spec.first_profile(chunk.id) as u32;
    let largest = backfill.spec.profiles.len().saturating_sub(1) as u32;
    let step = match (&chunk.retry, chunk.last()) {
        (Some(retry), _) => retry.profile,
        (None, Some(last)) => last.profile.max(first),
        (None, None) => first,
    };
    step.min(largest)
}

/// Chunks that wait for a start and are due, first one first: human re-runs by the time of their request, then the
/// order of the spec.
pub fn in_order(backfill: &Backfill, now: Time) -> Vec<&Chunk> {
    let due = |c: &&Chunk| match c.state {
        ChunkState::Pending => true,
        ChunkState::Failed => c.retry.as_ref().is_some_and(|r| r.at <= now),
        _ => false,
    };
    let mut waiting: Vec<&Chunk> = backfill.chunks.iter().filter(due).collect();
    match &backfill.spec.order {
        Order::OldestFirst => {}
        Order::NewestFirst => waiting.reverse(),
        Order::Custom(first) => {
            let place: BTreeMap<String, usize> = first
                .iter()
                .enumerate()
                .map(|(i, id)| (id.to_string(), i))
                .collect();
            waiting.sort_by_key(|c| place.get(&c.id.to_string()).copied().unwrap_or(usize::MAX));
        }
    }
    if waiting.iter().any(|c| c.rerun.is_some()) {
        waiting.sort_by_key(|c| c.rerun.as_ref().map_or(u64::MAX, |(seq, _)| *seq));
    }
    waiting
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
