//! What is about to be sent for an attempt, on the disk before it is sent. A server tells that a run exists, but not
//! whether a clear was ever asked for: that is read off what the run was like before.

use super::wire::{Run, RunState};
use crate::{
    domain::{Time, ids::AttemptId},
    host::{BootInstant, boot_id},
};
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// A request without an answer is taken for lost when nothing came of it for this long.
pub const QUIET: Duration = Duration::from_secs(30);

/// By which request the attempt begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A new run.
    Trigger,
    /// The run of an earlier attempt, cleared.
    Clear,
    /// The run of an earlier attempt, deleted first because its parameters differ.
    Replace,
    /// None: somebody else's run is taken as it is.
    Adopt,
}

/// How far it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The earlier run is being deleted; nothing that makes a run has been sent.
    Deleting,
    /// Its request may have left.
    Sending,
    /// Its request certainly did nothing.
    NotSent,
    /// The server has it.
    Taken,
}

/// Why we end a run before its own end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// Somebody wants it.
    Cancel,
    /// Its deadline passed.
    Deadline,
}

/// A run before something was asked of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// When it was queued (3.x).
    pub queued_at: Option<Time>,
    /// When it started.
    pub started: Option<Time>,
    /// The highest try of its tasks.
    pub highest_try: u32,
    /// Its state, in the server's word.
    pub state: String,
}

impl Before {
    /// As a run is now.
    pub fn of(run: &Run, highest_try: u32) -> Self {
        Self {
            queued_at: run.queued_at,
            started: run.started,
            highest_try,
            state: run.state.as_str().to_owned(),
        }
    }

    /// Whether the run itself shows that it was cleared since. The tries of its tasks are another sign.
    pub fn has_changed(&self, now: &Run) -> bool {
        !is_over(&now.state) || now.queued_at != self.queued_at || now.started != self.started
    }
}

/// Whether a run in this state is over.
pub fn is_over(state: &RunState) -> bool {
    matches!(state, RunState::Success | RunState::Failed)
}

/// The record of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The attempt.
    pub attempt: AttemptId,
    /// The DAG.
    pub dag: String,
    /// The run's id.
    pub run: String,
    /// By which request.
    pub way: Way,
    /// How far it came.
    pub stage: Stage,
    /// The run of the earlier attempt.
    pub before: Option<Before>,
    /// The boot of `sent`.
    pub boot: String,
    /// When the record was written, which is before the request left.
    pub sent: BootInstant,
    /// How long it may work, in milliseconds.
    pub deadline_ms: Option<u64>,
    /// It is to be ended.
    pub stop: Option<Stop>,
}

impl Intent {
    /// How long it may work.
    pub fn deadline(&self) -> Option<TimeDelta> {
        let ms = i64::try_from(self.deadline_ms?).ok()?;
        TimeDelta::try_milliseconds(ms)
    }

    /// Whether its request may leave a second time while the first may still be under way: of two that make a run the
    /// server refuses one. Two that clear a run would start it twice.
    pub fn may_be_repeated(&self) -> bool {
        self.way == Way::Trigger && self.stage == Stage::Sending
    }

    /// Whether what was sent can no longer be under way.
    pub fn is_quiet(&self, now: BootInstant) -> bool {
        self.boot != boot_id() || now.since(self.sent) >= QUIET
    }
}

/// `remote/BACKFILL/CHUNK/N.json` below the state directory.
///
/// The texts of the ids are file names as they stand: `[a-z0-9-]`, `[0-9T+-]`, digits.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// The store below a state directory.
    pub fn new(state: &Path) -> Self {
        Self {
            root: state.join("remote"),
        }
    }

    fn path(&self, attempt: &AttemptId) -> PathBuf {
        self.root
            .join(attempt.backfill.as_str())
            .join(attempt.chunk.to_string())
            .join(format!("{}.json", attempt.no))
    }

    /// Writes a record and waits until it is on the disk.
    ///
    /// # Errors
    /// The disk refuses: nothing may be sent then.
    pub async fn write(&self, intent: &Intent) -> io::Result<()> {
        let (path, bytes) = (self.path(&intent.attempt), serde_json::to_vec(intent)?);
        let work = move || {
            let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            let temporary = path.with_extension("new");
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            // The names too: of the file, and of folders that may be new.
            folder
                .ancestors()
                .take(3)
                .try_for_each(|f| File::open(f)?.sync_all())
        };
        off_thread(work).await
    }

    /// The record of an attempt; `None` if nothing was ever sent for it from here.
    ///
    /// # Errors
    /// It cannot be read, which is never *there is none*.
    pub async fn read(&self, attempt: &AttemptId) -> io::Result<Option<Intent>> {
        let path = self.path(attempt);
        let read = off_thread(move || match fs::read(path) {
            Ok(bytes) => Ok(Some(serde_json::from_slice::<Intent>(&bytes)?)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        });
        read.await
    }

    /// Removes the records of these attempts and the folders that become empty.
    pub fn tidy(&self, settled: &HashSet<AttemptId>) {
        for attempt in settled {
            let path = self.path(attempt);
            if fs::remove_file(&path).is_ok() {
                let folders = path.ancestors().skip(1).take(2);
                // Those that still hold something stay.
                folders.for_each(|f| drop(fs::remove_dir(f)));
            }
        }
    }
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::Interrupted.into()),
    }
}
