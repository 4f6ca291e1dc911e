//! What can happen to a backfill. Events are appended, never rewritten; the state is a fold over them.
//!
//! Values that were drawn or computed once (jittered retry instants, ids, the throttle's state) are *in* the
//! events, so that reading the journal again gives the same state for ever.
//! Reason for its length: one enum is the journal's format, and each of its variants says what it means.

use super::{
    Time,
    attach::{Action, RunChange, Taking},
    failure::Failure,
    ids::{AttemptId, BackfillId, ChunkId, ExternalId, Name},
    spec::Spec,
};
use serde::{Deserialize, Serialize};

/// Who did something, and how we know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// `minh`, `supervisor`, `signal:orders`, `executor:here`.
    pub name: String,
    /// Where the name comes from: `--as`, `BACKFILL_ACTOR`, `SUDO_USER`, `os user`, or empty for our own parts.
    pub origin: String,
}

impl Actor {
    /// The supervisor itself.
    pub fn supervisor() -> Self {
        Self {
            name: "supervisor".to_owned(),
            origin: String::new(),
        }
    }

    /// A signal, for changes of the limit.
    pub fn signal(name: &Name) -> Self {
        Self {
            name: format!("signal:{name}"),
            origin: String::new(),
        }
    }

    /// An executor, for what it reported.
    pub fn executor(name: &Name) -> Self {
        Self {
            name: format!("executor:{name}"),
            origin: String::new(),
        }
    }

    /// Whether a human spoke.
    pub fn is_human(&self) -> bool {
        !self.origin.is_empty()
    }
}

/// Why the throttle changed the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The first valid samples arrived, or the backfill has no signal.
    Start,
    /// Lag is past soft, or on course past hard.
    Cut,
    /// Lag is low and flat and all of the limit is in use.
    Grow,
    /// Lag is past hard.
    Pause,
    /// Lag is past critical.
    Critical,
    /// Lag was low and flat for the hold time.
    Resume,
    /// A protecting signal gives no valid samples: halved, then none.
    Blind,
    /// Valid samples came back.
    Seen,
    /// The third pause by a signal within two hours waits for a human.
    Latch,
    /// A human acknowledged the latch.
    Acknowledged,
}

/// One change of a backfill's limit by its throttle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitChange {
    /// The limit before.
    pub from: u32,
    /// The limit after.
    pub to: u32,
    /// Which rule of the law spoke.
    pub rule: Rule,
    /// The binding signal, if one was involved.
    pub signal: Option<Name>,
    /// One sentence with the value, the threshold and the time: the *why* line.
    pub why: String,
    /// The throttle's whole state after the change, as JSON of `plan::throttle`, to go on from after a restart.
    pub checkpoint: String,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "result")]
pub enum Outcome {
    /// Finished and verified.
    Done,
    /// Failed; what follows was decided when it was journaled.
    Failed {
        /// What went wrong.
        failure: Failure,
        /// What the retry law made of it.
        next: Next,
    },
    /// Ended because a human asked for it, or because the throttle braked.
    Cancelled,
}

/// What the retry law decided after a failure (law C6). Drawn delays are values here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "next")]
pub enum Next {
    /// Try again, not before this instant, with this step of the profile ladder.
    Retry {
        /// Earliest instant of the next attempt.
        at: Time,
        /// Step of the profile ladder.
        profile: u32,
        /// Which retry of its class this is, from 1.
        used: u32,
        /// The class's budget.
        budget: u32,
    },
    /// Out of the way until a human decides.
    Quarantine {
        /// Why, in words: `oom at the largest profile`.
        why: String,
    },
    /// Stays failed; nothing will happen to it without a human.
    Stay,
}

/// What a human says about a chunk whose fate nobody can tell any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The run is gone; the chunk may run again.
    Lost,
    /// It finished and its partition is right.
    Done,
    /// It failed.
    Failed,
}

/// Everything that happens. The first group is an operator's, the second the supervisor's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Payload {
    /// An operator started the backfill; the resolved spec is frozen here.
    Started {
        /// The resolved order.
        spec: Box<Spec>,
        /// SHA-256 of the spec's JSON, hex, first 12 characters.
        hash: String,
    },
    /// No new intent from here on. With `until` it ends by itself.
    Paused {
        /// When the pause ends by itself.
        until: Option<Time>,
    },
    /// The human pause is over.
    Resumed {},
    /// The human cap on the limit; `None` takes it away.
    CapSet {
        /// The most running weight a human allows.
        cap: Option<u32>,
    },
    /// A human overrides the controller for a while; `None` gives the limit back to it.
    Forced {
        /// Limit and when it expires.
        force: Option<Force>,
    },
    /// These chunks do not start until released.
    HoldPlaced {
        /// The chunks.
        chunks: Vec<ChunkId>,
    },
    /// These chunks may start again.
    HoldReleased {
        /// The chunks.
        chunks: Vec<ChunkId>,
    },
    /// These chunks count as settled without having run.
    Skipped {
        /// The chunks.
        chunks: Vec<ChunkId>,
    },
    /// A human wants these chunks run again, before all others.
    RerunRequested {
        /// The chunks, as counted in the preview.
        chunks: Vec<ChunkId>,
        /// Digest of the plan that the human saw.
        digest: String,
    },
    /// A human stops running attempts of these chunks.
    StopRequested {
        /// The chunks.
        chunks: Vec<ChunkId>,
    },
    /// A human ends the whole order.
    CancelRequested {},
    /// A changed spec takes effect.
    Amended {
        /// The new order.
        spec: Box<Spec>,
        /// Its hash.
        hash: String,
    },
    /// A human says what became of an uncertain attempt.
    Resolved {
        /// The chunk.
        chunk: ChunkId,
        /// The human's word.
        verdict: Verdict,
    },
    /// A human acknowledges the flap latch.
    LatchAcknowledged {},
    /// A human closes the breaker.
    BreakerReset {},
    /// A human asks the supervisor to stop supervising; runs go on.
    StopSupervising {},
    /// A human chose what becomes of somebody else's run on the date of a held chunk.
    TakeRequested {
        /// The chunk.
        chunk: ChunkId,
        /// The run, as it was shown.
        run: ExternalId,
        /// What becomes of it.
        how: Taking,
        /// Digest of the plan that the human saw.
        digest: String,
    },
    /// Something is to be done to an attached backfill, or to a pool: asked for by a human, or by what follows from a
    /// pause, a cap or the limit. Its identity is the seq of this event.
    ActionRequested {
        /// What.
        action: Action,
        /// Digest of the plan that the human saw; empty where nobody had to see one.
        digest: String,
        /// The native backfill that it is about, where one was seen: no other is touched in its stead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<u64>,
    },
    /// We let go of an attached backfill; it goes on without us.
    Detached {},

    /// A supervisor took the lease.
    LeaseTaken {
        /// Its epoch.
        epoch: u64,
        /// `host pid 123`, for display.
        holder: String,
        /// Epoch and holder that it took over from, when that one had not released.
        from: Option<String>,
    },
    /// The supervisor ended in order.
    LeaseReleased {
        /// Its epoch.
        epoch: u64,
    },
    /// After this the holder sends nothing for this pause, hold or cancel.
    PauseApplied {
        /// Attempts that were already under way.
        in_flight: Vec<AttemptId>,
    },
    /// Durable before the request leaves.
    SubmissionIntended {
        /// The attempt.
        attempt: AttemptId,
        /// Where it goes.
        executor: Name,
        /// Step of the profile ladder.
        profile: u32,
        /// Weight against the limit.
        weight: u32,
    },
    /// The intent was not sent and will not be.
    SubmissionWithdrawn {
        /// The attempt.
        attempt: AttemptId,
        /// Why.
        why: String,
    },
    /// The executor has it.
    SubmissionAccepted {
        /// The attempt.
        attempt: AttemptId,
        /// The executor's name for the run.
        run: ExternalId,
        /// Found at the executor rather than sent now.
        adopted: bool,
        /// Whether it runs already, rather than waits in a queue there.
        running: bool,
    },
    /// A queued run started.
    RunStarted {
        /// The attempt.
        attempt: AttemptId,
    },
    /// Nobody can say what became of the attempt; its slot stays taken.
    RunUncertain {
        /// The attempt.
        attempt: AttemptId,
        /// What was tried and what came back.
        why: String,
    },
    /// The attempt ended.
    RunEnded {
        /// The attempt.
        attempt: AttemptId,
        /// How.
        outcome: Outcome,
        /// When it really started, by the executor's clock.
        started: Option<Time>,
        /// When it really ended.
        ended: Option<Time>,
        /// Peak memory in bytes where it was measured.
        peak: Option<u64>,
        /// Something worth knowing: `finished before the cancel reached it`.
        note: Option<String>,
    },
    /// The throttle changed the limit.
    LimitChanged {
        /// The change.
        #[serde(flatten)]
        change: LimitChange,
    },
    /// The throttle brakes: these attempts are cancelled, and their chunks wait for another start.
    Braked {
        /// The youngest that run.
        attempts: Vec<AttemptId>,
        /// One sentence with what was foreseen.
        why: String,
    },
    /// A protecting signal stopped giving valid samples.
    BlindSince {
        /// The signal.
        signal: Name,
        /// When the last valid sample was taken in; `None` if there never was one.
        last: Option<Time>,
        /// What is wrong with it, in words.
        why: String,
    },
    /// The signal gives valid samples again.
    SeenAgain {
        /// The signal.
        signal: Name,
    },
    /// The configuration no longer has a signal that was blind: it protects nothing any more, and holds nothing back.
    SignalGone {
        /// The signal.
        signal: Name,
    },
    /// Too many chunks failed alike; starts stop.
    BreakerOpened {
        /// The cause in words.
        why: String,
        /// When one canary may start.
        retry_at: Time,
    },
    /// The canary passed, or the retry time came.
    BreakerClosed {},
    /// `on_failure` stopped further starts.
    StoppedOnFailure {
        /// The chunk that made it so.
        chunk: ChunkId,
        /// In words.
        why: String,
    },
    /// Somebody else's run has the date of the attempt's chunk: nothing was sent, and the chunk is held for a choice.
    DateTaken {
        /// The attempt.
        attempt: AttemptId,
        /// The run.
        run: ExternalId,
        /// How it was, in words.
        what: String,
    },
    /// A request of an action, durable before it leaves.
    ActionSent {
        /// Seq of the action's request.
        ask: u64,
        /// Its number within the action, from 0.
        step: u32,
        /// What is sent, for people.
        sent: String,
        /// What the adapter needs to find it again, JSON of its own.
        call: String,
    },
    /// What the server said to it.
    ActionAnswered {
        /// Seq of the action's request.
        ask: u64,
        /// Which request of it.
        step: u32,
        /// It was accepted.
        ok: bool,
        /// In the server's words.
        said: String,
    },
    /// The action is over.
    ActionEnded {
        /// Seq of the action's request.
        ask: u64,
        /// It did what it promised.
        ok: bool,
        /// In words.
        said: String,
    },
    /// Runs of an attached backfill changed between two looks.
    RunsChanged {
        /// The changes, oldest day first.
        changes: Vec<RunChange>,
    },
    /// The slots of a pool are about to be ours to set; what it had is given back at the end.
    PoolTaken {
        /// The pool.
        pool: String,
        /// Its slots now; -1 is without limit.
        former: i64,
    },
    /// The pool has its former slots again, or somebody else set it and it is left as they want it.
    PoolReturned {
        /// The pool.
        pool: String,
        /// Its slots now.
        slots: i64,
        /// In words.
        why: String,
    },
    /// Endpoints, thresholds, secrets or slots were loaded again.
    ConfigReloaded {
        /// What changed, one line each, without secret values.
        changes: Vec<String>,
    },
    /// A changed file was not taken over.
    ConfigRejected {
        /// What is wrong with it.
        error: String,
    },
}

/// A human override of the controller's limit (law C2): raises it until it expires, never above hard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Force {
    /// The limit.
    pub limit: u32,
    /// When the controller gets it back.
    pub until: Time,
}

/// An event that is to be appended.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// Wall time, for display.
    pub at: Time,
    /// Who.
    pub actor: Actor,
    /// An operator's reason.
    pub reason: Option<String>,
    /// The backfill it is about; `None` for the journal as a whole.
    pub backfill: Option<BackfillId>,
    /// What happened.
    pub payload: Payload,
}

/// An event as it stands in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its place in the order of everything.
    pub seq: u64,
    /// Wall time, for display.
    pub at: Time,
    /// Who.
    pub actor: Actor,
    /// An operator's reason.
    pub reason: Option<String>,
    /// The backfill it is about.
    pub backfill: Option<BackfillId>,
    /// What happened, or what this binary cannot read.
    pub payload: Read,
}

/// A payload as read: known, or written by a newer program.
#[derive(Debug, Clone, PartialEq)]
pub enum Read {
    /// Understood.
    Known(Payload),
    /// A kind or version that this binary does not know; it becomes an observer.
    Unknown {
        /// The kind as written.
        kind: String,
        /// Its version.
        version: u16,
    },
}

/// The error of an event that cannot be decoded although its kind and version are known.
#[derive(Debug, Clone, thiserror::Error)]
#[error("event {seq} ({kind} v{version}) cannot be read: {error}")]
pub struct DecodeError {
    /// Its place.
    pub seq: u64,
    /// Its kind.
    pub kind: String,
    /// Its version.
    pub version: u16,
    /// What the reader said.
    pub error: String,
}

impl Payload {
    /// The kind as it stands in the journal, and the version of its shape. A change of a shape raises its version
    /// and adds an upcast in [`Payload::decode`].
    pub const fn kind(&self) -> (&'static str, u16) {
        match self {
            Self::Started { .. } => ("started", 1),
            Self::Paused { .. } => ("paused", 1),
            Self::Resumed {} => ("resumed", 1),
            Self::CapSet { .. } => ("cap-set", 1),
            Self::Forced { .. } => ("forced", 1),
            Self::HoldPlaced { .. } => ("hold-placed", 1),
            Self::HoldReleased { .. } => ("hold-released", 1),
            Self::Skipped { .. } => ("skipped", 1),
            Self::RerunRequested { .. } => ("rerun-requested", 1),
            Self::StopRequested { .. } => ("stop-requested", 1),
            Self::CancelRequested {} => ("cancel-requested", 1),
            Self::Amended { .. } => ("amended", 1),
            Self::Resolved { .. } => ("resolved", 1),
            Self::LatchAcknowledged {} => ("latch-acknowledged", 1),
            Self::BreakerReset {} => ("breaker-reset", 1),
            Self::StopSupervising {} => ("stop-supervising", 1),
            Self::TakeRequested { .. } => ("take-requested", 1),
            Self::ActionRequested { .. } => ("action-requested", 1),
            Self::Detached {} => ("detached", 1),
            Self::DateTaken { .. } => ("date-taken", 1),
            Self::ActionSent { .. } => ("action-sent", 1),
            Self::ActionAnswered { .. } => ("action-answered", 1),
            Self::ActionEnded { .. } => ("action-ended", 1),
            Self::RunsChanged { .. } => ("runs-changed", 1),
            Self::PoolTaken { .. } => ("pool-taken", 1),
            Self::PoolReturned { .. } => ("pool-returned", 1),
            Self::LeaseTaken { .. } => ("lease-taken", 1),
            Self::LeaseReleased { .. } => ("lease-released", 1),
            Self::PauseApplied { .. } => ("pause-applied", 1),
            Self::SubmissionIntended { .. } => ("submission-intended", 1),
            Self::SubmissionWithdrawn { .. } => ("submission-withdrawn", 1),
            Self::SubmissionAccepted { .. } => ("submission-accepted", 1),
            Self::RunStarted { .. } => ("run-started", 1),
            Self::RunUncertain { .. } => ("run-uncertain", 1),
            Self::RunEnded { .. } => ("run-ended", 1),
            Self::LimitChanged { .. } => ("limit-changed", 1),
            Self::Braked { .. } => ("braked", 1),
            Self::BlindSince { .. } => ("blind-since", 1),
            Self::SeenAgain { .. } => ("seen-again", 1),
            Self::SignalGone { .. } => ("signal-gone", 1),
            Self::BreakerOpened { .. } => ("breaker-opened", 1),
            Self::BreakerClosed {} => ("breaker-closed", 1),
            Self::StoppedOnFailure { .. } => ("stopped-on-failure", 1),
            Self::ConfigReloaded { .. } => ("config-reloaded", 1),
            Self::ConfigRejected { .. } => ("config-rejected", 1),
        }
    }

    /// The newest version of a kind that this binary understands; `None` for an unknown kind.
    pub fn known_version(kind: &str) -> Option<u16> {
        const KINDS: &[&str] = &[
            "started",
            "paused",
            "resumed",
            "cap-set",
            "forced",
            "hold-placed",
            "hold-released",
            "skipped",
            "rerun-requested",
            "stop-requested",
            "cancel-requested",
            "amended",
            "resolved",
            "latch-acknowledged",
            "breaker-reset",
            "stop-supervising",
            "lease-taken",
            "lease-released",
            "pause-applied",
            "submission-intended",
            "submission-withdrawn",
            "submission-accepted",
            "run-started",
            "run-uncertain",
            "run-ended",
            "limit-changed",
            "braked",
            "blind-since",
            "seen-again",
            "signal-gone",
            "breaker-opened",
            "breaker-closed",
            "stopped-on-failure",
            "config-reloaded",
            "config-rejected",
            "take-requested",
            "action-requested",
            "detached",
            "date-taken",
            "action-sent",
            "action-answered",
            "action-ended",
            "runs-changed",
            "pool-taken",
            "pool-returned",
        ];
        KINDS.contains(&kind).then_some(1)
    }

    /// The attempt that the event is about, if it is about one.
    pub fn attempt(&self) -> Option<&AttemptId> {
        match self {
            Self::SubmissionIntended { attempt, .. }
            | Self::SubmissionWithdrawn { attempt, .. }
            | Self::SubmissionAccepted { attempt, .. }
            | Self::RunStarted { attempt }
            | Self::RunUncertain { attempt, .. }
            | Self::RunEnded { attempt, .. }
            | Self::DateTaken { attempt, .. } => Some(attempt),
            _ => None,
        }
    }

    /// Reads a payload from the journal's JSON, bringing older versions up to date. A kind or version from the
    /// future is [`Read::Unknown`], which is no error.
    ///
    /// # Errors
    /// A known kind whose JSON does not have its shape: the journal was damaged or edited.
    pub fn decode(seq: u64, kind: &str, version: u16, json: &str) -> Result<Read, DecodeError> {
        match Self::known_version(kind) {
            Some(known) if version <= known => {
                serde_json::from_str(json)
                    .map(Read::Known)
                    .map_err(|e| DecodeError {
                        seq,
                        kind: kind.to_owned(),
                        version,
                        error: e.to_string(),
                    })
            }
            _ => Ok(Read::Unknown {
                kind: kind.to_owned(),
                version,
            }),
        }
    }
}
