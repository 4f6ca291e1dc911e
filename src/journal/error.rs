//! What can go wrong with a journal, in words for the person who has to mend it.

use crate::domain::{event::DecodeError, text};
use rusqlite::ErrorCode;
use std::{io, path::Path, time::Duration};
use thiserror::Error;

/// Why a journal cannot be opened. Everything but [`OpenError::Store`] is a matter of configuration: exit code 2.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The place is on a file system whose locks or shared memory cannot be trusted.
    #[error(
        "journal.path {path} is on {filesystem}: a journal needs a local disk of the host that supervises, \
         where locks and shared memory work; set journal.path to one"
    )]
    FileSystem {
        /// The configured place.
        path: String,
        /// The kind of file system in words.
        filesystem: &'static str,
    },
    /// The file is a symbolic link.
    #[error("journal.path {path} is a symbolic link: set journal.path to the file itself")]
    Symlink {
        /// The link.
        path: String,
    },
    /// Something that is no regular file is there.
    #[error("journal.path {path} is not a file")]
    NotAFile {
        /// The place.
        path: String,
    },
    /// The file belongs to somebody else.
    #[error(
        "journal.path: {path} belongs to uid {owner} and you are uid {me}: work as its owner, or share it with \
         journal.group"
    )]
    Owner {
        /// The file.
        path: String,
        /// Its owner.
        owner: u32,
        /// The effective user of this process.
        me: u32,
    },
    /// Everybody may replace files in its directory.
    #[error(
        "journal.path: everybody may write to {path}: take that right away (chmod o-w) or use another directory"
    )]
    OpenDirectory {
        /// The directory.
        path: String,
    },
    /// `journal.group` cannot be honoured.
    #[error("journal.group = \"{group}\": {why}")]
    Group {
        /// The configured group.
        group: String,
        /// Why not, and what helps.
        why: String,
    },
    /// There is no journal to read.
    #[error("there is no journal at {path} yet: nothing was started")]
    Missing {
        /// The place.
        path: String,
    },
    /// The file is a database, but of another program.
    #[error("journal.path {path} is a database of another program: choose another place")]
    Foreign {
        /// The file.
        path: String,
    },
    /// The file was made by a newer version of this program.
    #[error("the journal {path} has format {found} and this program knows {known}: use the newer program")]
    Newer {
        /// The file.
        path: String,
        /// Its format.
        found: u32,
        /// The newest format that this program knows.
        known: u32,
    },
    /// The file was made by an older version, and reading alone may not bring it up to date.
    #[error("the journal {path} has the older format {found}: any command that writes brings it up to date")]
    Older {
        /// The file.
        path: String,
        /// Its format.
        found: u32,
    },
    /// The store itself failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A failure of the store beneath the journal.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// No space left on the device, or the quota is used up.
    #[error("the disk of the journal {path} is full: nothing was recorded")]
    Full {
        /// The journal.
        path: String,
    },
    /// Another process kept the journal locked for longer than we wait.
    #[error("the journal {path} was locked by another process for longer than {} s", BUSY_WAIT.as_secs())]
    Busy {
        /// The journal.
        path: String,
    },
    /// The file is damaged.
    #[error("the journal {path} is damaged ({what}): move it away or restore it from a copy")]
    Damaged {
        /// The journal.
        path: String,
        /// What the store said.
        what: String,
    },
    /// The file that is open is no longer the one at its path: two supervisors could work side by side.
    #[error("the journal {path} was removed or replaced while it was open: nothing was recorded")]
    Replaced {
        /// The journal.
        path: String,
    },
    /// It was opened for reading only.
    #[error("the journal {path} was opened for reading only")]
    ReadOnly {
        /// The journal.
        path: String,
    },
    /// This user cannot work in that place.
    #[error("the journal {path}: {what}; {mend}, or set [journal] path to a place where it is so")]
    Denied {
        /// The journal.
        path: String,
        /// What was tried, where, and what stood against it.
        what: String,
        /// What would help.
        mend: String,
    },
    /// Anything else that the operating system or the store said.
    #[error("the journal {path}: {what}")]
    Io {
        /// The journal.
        path: String,
        /// What was said.
        what: String,
    },
}

/// How long a call waits for another process's transaction.
pub(super) const BUSY_WAIT: Duration = Duration::from_secs(5);

impl StoreError {
    /// Sorts what SQLite says about the journal at `path`.
    pub(super) fn of(path: &Path, error: &rusqlite::Error) -> Self {
        let path_text = show(path);
        let what = text::one_line(&error.to_string(), 200);
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path: path_text },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path: path_text },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged {
                path: path_text,
                what,
            },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
                if let Some(denied) = Self::unwritable(path) =>
            {
                denied
            }
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path: path_text },
            // Shared memory and fsync report a full disk as a plain I/O error.
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if no_space(path) => {
                Self::Full { path: path_text }
            }
            _ => Self::Io {
                path: path_text,
                what,
            },
        }
    }

    /// What the operating system says about the journal at `path`.
    pub(super) fn io(path: &Path, doing: &str, error: &io::Error) -> Self {
        if matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
        ) {
            return Self::Full { path: show(path) };
        }
        if let Some((against, mend)) = against(path, error) {
            return Self::Denied {
                path: show(path),
                what: format!("{doing}: {against}"),
                mend,
            };
        }
        Self::Io {
            path: show(path),
            what: format!("{doing}: {error}"),
        }
    }

    /// Whether room on the disk would help.
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Full { .. })
    }

    /// Why the store could not make the files that it keeps beside the journal, if that is what went wrong: it says
    /// only that it cannot open something.
    fn unwritable(path: &Path) -> Option<Self> {
        let error = super::place::writable(path).err()?;
        Some(Self::io(path, "making files beside it", &error))
    }
}

/// What the operating system means, in words that name the directory, and what would help. `None` for what is no
/// matter of rights and places.
fn against(path: &Path, error: &io::Error) -> Option<(String, String)> {
    let near = show(super::place::nearest_existing(path));
    let me = rustix::process::geteuid().as_raw();
    Some(match error.kind() {
        io::ErrorKind::PermissionDenied => (
            format!("uid {me} may not write to {near}"),
            format!("make {near} writable for that user"),
        ),
        io::ErrorKind::ReadOnlyFilesystem => (
            format!("{near} is on a file system that is mounted read-only"),
            "mount it for writing".to_owned(),
        ),
        io::ErrorKind::NotADirectory => (
            format!("{near} is a file and no directory"),
            "move that file away".to_owned(),
        ),
        io::ErrorKind::NotFound => (
            format!("nothing is there, and {near} is the last part of the path that exists"),
            "make the rest of it".to_owned(),
        ),
        _ => return None,
    })
}

/// Less free space than one page of shared memory is no space for the store.
fn no_space(path: &Path) -> bool {
    super::place::free_bytes(path).is_ok_and(|free| free < 64 * 1024)
}

/// A path as text that is safe to show.
pub(super) fn show(path: &Path) -> String {
    text::clean(&path.display().to_string())
}

/// Why events were not appended. Nothing of the call was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AppendError {
    /// Something was appended since the caller last looked: fold and decide again.
    #[error("the journal went on to event {head} meanwhile")]
    Conflict {
        /// Seq of the newest event.
        head: u64,
    },
    /// Another supervisor has taken the lease.
    #[error("another supervisor took over (epoch {current})")]
    StaleEpoch {
        /// The lease's epoch now.
        current: u64,
    },
    /// The journal holds an event that this program cannot read: it may only watch.
    #[error("event {seq} ({kind} v{version}) is from a newer program: this one may only watch")]
    Observer {
        /// Seq of the first such event.
        seq: u64,
        /// Its kind.
        kind: String,
        /// Its version.
        version: u16,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AppendError {
    /// Whether room on the disk would help.
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_full())
    }
}

/// Why the journal could not be read.
#[derive(Debug, Clone, Error)]
pub enum ReadError {
    /// An event of a known kind does not have its shape.
    #[error(transparent)]
    Event(#[from] DecodeError),
    /// Events are missing: something other than this program removed them.
    #[error("the journal is damaged: event {found} follows event {after}")]
    Gap {
        /// The last event before the gap.
        after: u64,
        /// The first event after it.
        found: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why the lease was not given.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AcquireError {
    /// Somebody holds it.
    #[error("{0} supervises this journal")]
    Denied(LeaseDenied),
    /// The journal holds an event that this program cannot read: it may only watch.
    #[error("event {seq} ({kind} v{version}) is from a newer program: this one may only watch")]
    Observer {
        /// Seq of the first such event.
        seq: u64,
        /// Its kind.
        kind: String,
        /// Its version.
        version: u16,
    },
    /// This process cannot prove who it is, so nobody could tell later whether it still lives.
    #[error("cannot find out the start time of this process, which the lease needs")]
    NoIdentity,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Somebody else supervises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseDenied {
    /// `host pid 123`.
    pub holder: String,
    /// How long until it may be tried again with success, if the holder does not renew meanwhile.
    pub wait: Duration,
}

impl std::fmt::Display for LeaseDenied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.holder)
    }
}

/// Why a lease was not renewed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RenewError {
    /// Another supervisor has it now: no effect may follow.
    #[error("the lease was lost to {holder} (epoch {current})")]
    Lost {
        /// The lease's epoch now.
        current: u64,
        /// Who has it.
        holder: String,
    },
    /// The store failed; the lease stands until it expires.
    #[error(transparent)]
    Store(#[from] StoreError),
}
