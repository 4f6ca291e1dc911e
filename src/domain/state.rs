//! The state that the fold makes of the events. Everything here can be thrown away and folded again.

pub use super::standing::{BackfillState, ChunkState, Phase};
use super::{
    Time,
    attach::{Asked, Facts, PoolHold, Taken},
    calendar::{Interval, cut},
    event::{Actor, Force, Rule},
    failure::Failure,
    ids::{AttemptId, BackfillId, ChunkId, ExternalId, Name},
    spec::Spec,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Raised whenever the fold or the shape of [`State`] changes, so that older snapshots are not used.
pub const FOLD_VERSION: u32 = 8;

/// One try at a chunk, as history keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its number within the chunk, from 1.
    pub no: u32,
    /// How far it came.
    pub phase: Phase,
    /// Where it was sent.
    pub executor: Name,
    /// Step of the profile ladder.
    pub profile: u32,
    /// Weight that it takes while open.
    pub weight: u32,
    /// The executor's name for it.
    pub run: Option<ExternalId>,
    /// When its intent was journaled.
    pub intended: Time,
    /// When it started, by the executor's word, else when we heard of it.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// What went wrong.
    pub failure: Option<Failure>,
    /// Peak memory in bytes.
    pub peak: Option<u64>,
    /// Worth knowing.
    pub note: Option<String>,
    /// A human asked to stop it, or the throttle did.
    pub stop_requested: bool,
    /// It was the throttle that did, and no human since: its chunk waits for another start when it has ended.
    pub braked: bool,
}

/// Who put a mark on a chunk, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// Who.
    pub by: Actor,
    /// Since when.
    pub at: Time,
    /// Their reason.
    pub reason: Option<String>,
}

/// A retry that the law allowed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Not before.
    pub at: Time,
    /// Step of the profile ladder.
    pub profile: u32,
    /// Which retry of its class.
    pub used: u32,
    /// The class's budget.
    pub budget: u32,
}

/// One chunk and all that happened to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// Its identity.
    pub id: ChunkId,
    /// Its span of time.
    pub interval: Interval,
    /// Where it is.
    pub state: ChunkState,
    /// Since when.
    pub since: Time,
    /// All tries, oldest first.
    pub attempts: Vec<Attempt>,
    /// Set while held, skipped or cancelled: who did it.
    pub mark: Option<Mark>,
    /// Set while failed with a retry to come.
    pub retry: Option<Retry>,
    /// Why it is quarantined or uncertain, in words.
    pub why: Option<String>,
    /// Set by a human re-run: seq of the request, for the order at the front; and its actor.
    pub rerun: Option<(u64, Actor)>,
    /// Somebody else's run on its date, and what a human chose for it.
    pub taken: Option<Taken>,
    /// Attempts before this position do not count against retry budgets: a human re-run starts them anew.
    pub budget_from: u32,
}

impl Chunk {
    /// The newest attempt.
    pub fn last(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// The open attempt, if there is one.
    pub fn open(&self) -> Option<&Attempt> {
        self.last().filter(|a| a.phase.is_open())
    }

    /// The number that the next attempt gets.
    pub fn next_no(&self) -> u32 {
        self.last().map_or(1, |a| a.no + 1)
    }
}

/// A human pause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// Who, since when, why.
    pub mark: Mark,
    /// Ends by itself at this instant.
    pub until: Option<Time>,
    /// The supervisor's confirmation: attempts that were already under way.
    pub applied: Option<Vec<AttemptId>>,
}

impl Pause {
    /// What stands after another pause came: nobody's pause is shortened by it, and whose lasts longer is the one that
    /// is told. Who adds a reason to their own pause has paused since the first of the two. The supervisor confirms it
    /// anew.
    #[must_use]
    pub fn joined(self, mark: Mark, until: Option<Time>) -> Self {
        // No end is later than any.
        let end = |until: Option<Time>| (until.is_none(), until);
        let longest = end(until).max(end(self.until)).1;
        let mark = if mark.by == self.mark.by {
            Mark {
                reason: mark.reason.or(self.mark.reason),
                ..self.mark
            }
        } else if end(until) > end(self.until) {
            mark
        } else {
            self.mark
        };
        Self {
            mark,
            until: longest,
            applied: None,
        }
    }
}

/// The controller's limit as last journaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitState {
    /// Allowed running weight.
    pub value: u32,
    /// Which rule made it so.
    pub rule: Rule,
    /// The signal that binds.
    pub signal: Option<Name>,
    /// The why sentence.
    pub why: String,
    /// Since when.
    pub at: Time,
    /// The throttle's state as JSON; empty before its first change.
    pub checkpoint: String,
}

impl LimitState {
    /// The why sentence with the time from which it is, as `clock` writes it: what was so when the limit changed need
    /// not be so now.
    pub fn dated(&self, clock: impl Fn(Time) -> String) -> String {
        match self.why.split_once(": ") {
            Some((change, reason)) if change.starts_with("limit ") && !change.contains(" at ") => {
                format!("{change} at {}: {reason}", clock(self.at))
            }
            _ => self.why.clone(),
        }
    }
}

/// Starts stopped because too much failed alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Breaker {
    /// The cause.
    pub why: String,
    /// Since when.
    pub at: Time,
    /// When one canary may start.
    pub retry_at: Time,
}

/// One backfill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Backfill {
    /// Its identity.
    pub id: BackfillId,
    /// Its order.
    pub spec: Spec,
    /// The order's hash.
    pub hash: String,
    /// Who started it, and when.
    pub started: Mark,
    /// All chunks, oldest first.
    pub chunks: Vec<Chunk>,
    /// The human pause.
    pub pause: Option<Pause>,
    /// The human cap, and who set it.
    pub cap: Option<(u32, Mark)>,
    /// The human override, and who set it.
    pub force: Option<(Force, Mark)>,
    /// The controller's limit.
    pub limit: LimitState,
    /// Its protecting signals that give no valid samples.
    pub blind: BTreeSet<Name>,
    /// The open breaker.
    pub breaker: Option<Breaker>,
    /// Set while `on_failure` stops further starts.
    pub stopped: Option<(ChunkId, String)>,
    /// Set from a cancel until a re-run.
    pub cancel: Option<Mark>,
    /// The supervisor's confirmation of the cancel: attempts that were under way.
    pub cancel_applied: Option<Vec<AttemptId>>,
    /// What was asked for of the engine's own levers, oldest first: what is open, and the newest that ended.
    pub asked: VecDeque<Asked>,
    /// The pause of the native backfill is ours: seq of the action. Only such a one is lifted by itself.
    pub native_pause: Option<u64>,
    /// The pool whose slots we changed.
    pub pool: Option<PoolHold>,
    /// Set when we let go of an attached backfill.
    pub detached: Option<Mark>,
    /// Fingerprints of the newest ended chunks, for the breaker: `None` is a success. At most 50.
    pub recent: VecDeque<Option<(ChunkId, String)>>,
    /// Instant and weight of the newest intent, for paced starts.
    pub last_start: Option<Time>,
    /// Seq of the last event about it.
    pub seq: u64,
    /// When that was.
    pub changed: Time,
    pub(super) counts: [u32; ChunkState::COUNT],
    pub(super) active: BTreeSet<u32>,
    #[serde(skip)]
    pub(super) index: HashMap<ChunkId, u32>,
    /// What was seen of an attached backfill; only on states that observations were laid over.
    #[serde(skip)]
    pub seen: Option<Facts>,
}

impl Backfill {
    /// A backfill as it is right after its start.
    pub fn new(id: BackfillId, spec: Spec, hash: String, started: Mark, seq: u64) -> Self {
        let at = started.at;
        // Of somebody else's backfill nothing is known before it was looked at.
        let first = if spec.attach.is_some() {
            ChunkState::Unread
        } else {
            ChunkState::Pending
        };
        let chunks: Vec<Chunk> = cut(spec.timezone, spec.start, spec.end, spec.granularity)
            .into_iter()
            .map(|(id, interval)| Chunk {
                state: first,
                ..new_chunk(id, interval, at)
            })
            .collect();
        let limit = LimitState {
            value: if spec.signals.is_empty() || spec.attach.is_some() {
                spec.max_limit
            } else {
                0
            },
            rule: Rule::Start,
            signal: spec.signals.first().cloned(),
            why: spec.signals.first().map_or_else(
                || {
                    format!(
                        "no signal protects this backfill, so the limit is max_limit {}",
                        spec.max_limit
                    )
                },
                |s| {
                    if spec.attach.is_some() {
                        format!(
                            "it ran before we took hold of it, so the limit is max_limit {} until a signal says otherwise",
                            spec.max_limit
                        )
                    } else {
                        format!("waits for two valid samples of {s}")
                    }
                },
            ),
            at,
            checkpoint: String::new(),
        };
        let mut counts = [0; ChunkState::COUNT];
        counts[first as usize] = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        let mut backfill = Self {
            id,
            spec,
            hash,
            started,
            chunks,
            pause: None,
            cap: None,
            force: None,
            limit,
            blind: BTreeSet::new(),
            breaker: None,
            asked: VecDeque::new(),
            native_pause: None,
            pool: None,
            detached: None,
            stopped: None,
            cancel: None,
            cancel_applied: None,
            recent: VecDeque::new(),
            last_start: None,
            seq,
            changed: at,
            counts,
            active: BTreeSet::new(),
            index: HashMap::new(),
            seen: None,
        };
        backfill.rebuild_index();
        backfill
    }

    /// Rebuilds what a snapshot leaves out.
    pub(super) fn rebuild_index(&mut self) {
        self.index = self
            .chunks
            .iter()
            .enumerate()
            .map(|(i, c)| (c.id, i as u32))
            .collect();
    }

    /// The chunk of an identity.
    pub fn chunk(&self, id: ChunkId) -> Option<&Chunk> {
        self.index.get(&id).and_then(|i| self.chunks.get(*i as usize))
    }

    /// Its position in time order; for drawing only, never to be kept.
    pub fn position(&self, id: ChunkId) -> Option<usize> {
        self.index.get(&id).map(|i| *i as usize)
    }

    pub(super) fn chunk_mut(&mut self, id: ChunkId) -> Option<&mut Chunk> {
        self.index.get(&id).and_then(|i| self.chunks.get_mut(*i as usize))
    }

    /// Moves a chunk to another state and keeps the counts right. The only way to change a chunk's state.
    pub(super) fn move_to(&mut self, id: ChunkId, state: ChunkState, at: Time) {
        let Some(&i) = self.index.get(&id) else { return };
        let Some(chunk) = self.chunks.get_mut(i as usize) else {
            return;
        };
        self.counts[chunk.state as usize] -= 1;
        self.counts[state as usize] += 1;
        chunk.state = state;
        chunk.since = at;
        if state.is_active() {
            self.active.insert(i);
        } else {
            self.active.remove(&i);
        }
    }

    /// How many chunks are in a state.
    pub fn count(&self, state: ChunkState) -> u32 {
        self.counts[state as usize]
    }

    /// All chunks that take weight, oldest first.
    pub fn active(&self) -> impl Iterator<Item = &Chunk> {
        self.active.iter().filter_map(|i| self.chunks.get(*i as usize))
    }

    /// The running weight: what counts against the limit.
    pub fn running_weight(&self) -> u32 {
        self.active().filter_map(Chunk::open).map(|a| a.weight).sum()
    }

    /// Ids of all open attempts.
    pub fn open_attempts(&self) -> Vec<AttemptId> {
        self.active()
            .filter_map(|c| c.open().map(|a| self.attempt_id(c.id, a.no)))
            .collect()
    }

    /// The id of an attempt at one of its chunks.
    pub fn attempt_id(&self, chunk: ChunkId, no: u32) -> AttemptId {
        AttemptId {
            backfill: self.id.clone(),
            chunk,
            no,
        }
    }

    /// The stored state, derived. *Paused* is only said while there is work that could move.
    pub fn state(&self) -> BackfillState {
        if self.spec.attach.is_some() {
            return self.attached_state();
        }
        let settled = self.count(ChunkState::Done) + self.count(ChunkState::Skipped);
        if settled as usize == self.chunks.len() {
            return BackfillState::Complete;
        }
        let active = !self.active.is_empty();
        if self.cancel.is_some() {
            return if active {
                BackfillState::Cancelling
            } else {
                BackfillState::Cancelled
            };
        }
        let waiting = self.count(ChunkState::Pending) > 0
            || (self.count(ChunkState::Failed) > 0 && self.chunks.iter().any(|c| c.retry.is_some()));
        let movable = active || (waiting && self.stopped.is_none());
        match (movable, &self.pause) {
            (true, Some(_)) => BackfillState::Paused,
            (true, None) => BackfillState::Running,
            (false, _) => BackfillState::Incomplete,
        }
    }
}

pub(super) fn new_chunk(id: ChunkId, interval: Interval, at: Time) -> Chunk {
    Chunk {
        id,
        interval,
        state: ChunkState::Pending,
        since: at,
        attempts: Vec::new(),
        mark: None,
        retry: None,
        why: None,
        rerun: None,
        taken: None,
        budget_from: 0,
    }
}

/// A command that the fold did not accept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The command's seq.
    pub seq: u64,
    /// Why, for its author.
    pub why: String,
}

/// A signal without valid samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlindSignal {
    /// Since when it counts as blind.
    pub since: Time,
    /// When the last valid sample was taken in.
    pub last: Option<Time>,
    /// What is wrong, in words.
    pub why: String,
}

/// Who supervises, as far as the journal tells. The lease table knows whether they are alive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Holder {
    /// Epoch of the lease.
    pub epoch: u64,
    /// `host pid 123`.
    pub name: String,
    /// When the lease was taken.
    pub at: Time,
    /// It ended in order.
    pub released: bool,
    /// Somebody asked it to stop.
    pub stop_requested: bool,
}

/// Everything, folded.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    /// Seq of the last event folded.
    pub head: u64,
    /// All backfills by id.
    pub backfills: BTreeMap<BackfillId, Backfill>,
    /// Signals that are blind.
    pub blind: BTreeMap<Name, BlindSignal>,
    /// The last supervisor.
    pub holder: Option<Holder>,
    /// The newest refused commands, at most 100.
    pub refusals: VecDeque<Refusal>,
    /// Kind and version of the first event that this binary cannot read: it may only watch.
    pub unreadable: Option<(u64, String, u16)>,
    /// The newest configuration problem, until a good one is loaded.
    pub config_error: Option<String>,
    /// Raised whenever other observations are laid over attached backfills: the same head is then another state.
    #[serde(skip)]
    pub seen: u64,
}

impl State {
    /// The newest backfill of a name, which is what commands that give a name mean.
    pub fn by_name(&self, name: &str) -> Option<&Backfill> {
        self.backfills
            .values()
            .filter(|b| b.spec.name.as_str() == name)
            .max_by_key(|b| b.started.at)
    }

    /// The backfill of a full id, else the newest of that name.
    pub fn find(&self, name_or_id: &str) -> Option<&Backfill> {
        self.by_name(name_or_id)
            .or_else(|| self.backfills.values().find(|b| b.id.as_str() == name_or_id))
    }

    /// Why a command was refused, if it was.
    pub fn refusal(&self, seq: u64) -> Option<&str> {
        self.refusals
            .iter()
            .find(|r| r.seq == seq)
            .map(|r| r.why.as_str())
    }

    /// Rebuilds what a snapshot leaves out.
    pub fn restore(&mut self) {
        self.backfills.values_mut().for_each(Backfill::rebuild_index);
    }
}
