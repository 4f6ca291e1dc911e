//! Floor 3: executors. One trait, one folder an adapter; nothing outside an adapter's folder knows its name, the
//! planner and the screen only use what it declares.

pub mod airflow;
pub mod attach;
pub mod inside;
pub mod local;
pub mod template;

use crate::{
    config::secret::Secret,
    domain::{
        Time,
        attach::Taking,
        failure::Failure,
        ids::{AttemptId, ExternalId},
        spec::{Profile, Spec},
    },
    net::AdapterError,
};
use async_trait::async_trait;
use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::Arc,
};
use tokio::sync::mpsc;

/// How a lost submission is found again (`UniqueId`: our id is the run's id, a second submission is refused).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryFamily {
    /// A known id is refused: send again, *exists* means adopt.
    UniqueId,
    /// Search first, send only when nothing is found and no request can be under way any more.
    Searchable,
    /// Not searchable for a while after the submission.
    Delayed,
}

/// What an adapter can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// How it recovers.
    pub recovery: RecoveryFamily,
    /// Running attempts can be ended.
    pub cancel: bool,
    /// It can show logs.
    pub logs: bool,
}

/// One attempt, ready to be sent.
#[derive(Debug, Clone)]
pub struct RunOrder {
    /// The attempt.
    pub attempt: AttemptId,
    /// The backfill's order.
    pub spec: Arc<Spec>,
    /// Start of the chunk's interval.
    pub start: Time,
    /// End of the chunk's interval, exclusive.
    pub end: Time,
    /// Its resources.
    pub profile: Profile,
    /// Variables whose values are secrets, resolved for this attempt. Never logged or journaled.
    pub secrets: BTreeMap<String, Secret>,
    /// Somebody else's run on the chunk's date, and what becomes of it.
    pub taking: Option<(ExternalId, Taking)>,
    /// The supervisor's lease epoch, which the once-only point checks again.
    pub epoch: u64,
}

/// What came of sending an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum SubmitAnswer {
    /// The executor has it now.
    Accepted {
        /// Its name there.
        run: ExternalId,
        /// It runs already.
        running: bool,
    },
    /// It had it before: adopt.
    AlreadyExists {
        /// Its name there.
        run: ExternalId,
        /// It runs already.
        running: bool,
    },
    /// The journal no longer wants it; nothing ran.
    NotWanted {
        /// Why, in words.
        why: String,
    },
    /// The executor said no; nothing ran.
    Refused {
        /// How that counts for the chunk.
        failure: Failure,
    },
    /// Somebody else's run has the chunk's date; nothing ran.
    DateTaken {
        /// That run.
        run: ExternalId,
        /// How it is: `the scheduled run X (success)`.
        what: String,
    },
    /// It certainly did not leave, by no fault of its own: the executor is away, or takes no requests of ours now.
    NotSent {
        /// What was seen.
        why: String,
    },
    /// No answer that can be trusted: it may run or not.
    Unknown {
        /// What was seen.
        why: String,
    },
}

/// How a run ended, as the executor tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunEnd {
    /// `Ok`, or what went wrong.
    pub result: Result<(), Failure>,
    /// It was ended because we asked for it.
    pub cancelled: bool,
    /// When it started.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// Peak memory in bytes.
    pub peak: Option<u64>,
    /// Worth knowing.
    pub note: Option<String>,
}

impl RunEnd {
    /// A run that failed before anything was measured of it.
    pub const fn failed(failure: Failure) -> Self {
        Self {
            result: Err(failure),
            cancelled: false,
            started: None,
            ended: None,
            peak: None,
            note: None,
        }
    }
}

/// News about an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum RunUpdate {
    /// A queued run started.
    Started,
    /// It ended.
    Ended(RunEnd),
    /// Nobody answers for it any more.
    Uncertain {
        /// What was seen.
        why: String,
    },
}

/// What recovery found out about an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Probe {
    /// It is alive and watched from now on: updates will come.
    Alive {
        /// Its name there.
        run: ExternalId,
        /// It runs, rather than waits in a queue.
        running: bool,
    },
    /// It ended while nobody looked.
    Ended(RunEnd),
    /// It certainly never ran: the same attempt may be sent.
    NeverRan,
    /// There is no trace of it, by no fault of its own, and a second request would not make a second run: the same
    /// attempt may be sent again.
    Traceless {
        /// What was seen.
        why: String,
        /// Its request may still be under way: it must not be given up yet.
        under_way: bool,
    },
    /// Nobody can say.
    Unknown {
        /// What was tried and what came back.
        why: String,
    },
}

/// Where updates go: the supervisor's inbox.
pub type Updates = mpsc::UnboundedSender<(AttemptId, RunUpdate)>;

/// An endpoint that can run attempts.
#[async_trait]
pub trait Executor: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Sends an attempt. Idempotent by its id. After `Accepted` or `AlreadyExists` the adapter watches the run and
    /// reports through the updates that it was made with.
    async fn submit(&self, order: RunOrder) -> SubmitAnswer;

    /// Recovery: what became of an attempt that this supervisor did not send itself. `Alive` makes it watched.
    async fn probe(&self, order: RunOrder) -> Probe;

    /// Asks for a running attempt to end; the end itself comes as an update. Repeatable.
    ///
    /// # Errors
    /// The executor could not be asked.
    async fn cancel(&self, attempt: &AttemptId) -> Result<(), AdapterError>;

    /// Where the attempt's output is on this machine, if it is a file here.
    fn log_file(&self, attempt: &AttemptId) -> Option<PathBuf>;

    /// A look into its runs, of an executor whose runs have tasks with logs of their own.
    fn inside(&self) -> Option<Arc<dyn inside::Inside>> {
        None
    }

    /// Removes what the adapter keeps on this machine of attempts whose end is journaled, and what is over its caps.
    /// Called now and then, off the async threads.
    fn tidy(&self, settled: &HashSet<AttemptId>) {
        let _ = settled;
    }

    /// Its own levers on what somebody else started there, if it has any.
    fn levers(&self) -> Option<Arc<dyn attach::Levers>> {
        None
    }

    /// Whether it answers right now; for the executors panel and `check`.
    ///
    /// # Errors
    /// It does not, and why.
    async fn health(&self) -> Result<(), AdapterError>;
}
