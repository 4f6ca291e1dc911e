//! Floor 3: the journal, the only truth. One SQLite file in which events are appended and never rewritten, with the
//! lease of the one supervisor, snapshots of the fold, and the tables of samples and limits that may be lost.
//!
//! Every process opens the file for itself. All calls are synchronous and wait at most a few seconds for another
//! process; callers put them on threads of their own. Nothing here reads a wall clock: times are parameters.

mod append;
mod attempt;
mod ballast;
mod error;
mod follow;
mod group;
mod lease;
mod parts;
mod place;
mod read;
mod samples;
mod schema;
mod sightings;
mod snapshot;

pub use append::as_stored;
pub use attempt::{AttemptStanding, check_attempt};
pub use ballast::BALLAST_BYTES;
pub use error::{AcquireError, AppendError, LeaseDenied, OpenError, ReadError, RenewError, StoreError};
pub use follow::{FOLLOW_EVERY, Follower};
pub use lease::{Claimant, HolderView, Lease, Liveness};
pub use parts::{MOST_PARTS, PartMinute, PartPoint};
pub use place::free_bytes;
pub use read::Scope;
pub use samples::{LimitPoint, MinutePoint, Observation, Recorder, SamplePoint};
pub use sightings::{Sighting, Sightings};
pub use snapshot::{SNAPSHOT_EVERY, snapshot_due};

use rusqlite::Connection;
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// How a journal is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The group whose members share the journal (`journal.group`); `None` is its owner alone.
    pub group: Option<String>,
}

/// An open journal: one connection to the file. Not shared between threads; each opens its own.
#[derive(Debug)]
pub struct Journal {
    conn: Connection,
    path: PathBuf,
    options: Options,
    /// Device and inode of the file that is open.
    file: (u64, u64),
    /// Kinds that are certainly in the table of kinds.
    kinds_noted: HashSet<(&'static str, u16)>,
    /// Rows of the table of kinds up to this one are known to this program.
    kinds_checked: i64,
    /// SQLite's counter of other connections' commits when we last looked.
    data_version: Option<i64>,
    /// A lease whose holder cannot be judged from here, and since when its row has not changed.
    watched: Option<lease::Watched>,
}

impl Journal {
    /// Opens the journal for reading and writing; makes the file and its directories if they are missing, with
    /// modes 0600 and 0700 (0660 and 2770 with a group), and brings an older format up to date.
    ///
    /// # Errors
    /// The place is unfit (law *The place*), the file belongs to somebody else, is damaged or of a newer program.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        let opened = Self::open_once(path, &options);
        match opened {
            // A full disk must not keep anybody from pausing: the ballast makes room for SQLite's shared memory.
            Err(OpenError::Store(StoreError::Full { .. })) if ballast::release(path) => {
                Self::open_once(path, &options)
            }
            other => other,
        }
    }

    fn open_once(path: &Path, options: &Options) -> Result<Self, OpenError> {
        let path = place::prepare(path, options)?;
        let conn = schema::connect(&path, schema::Durability::Full)?;
        Self::around(conn, path, options.clone())
    }

    /// Opens an existing journal to look at it; creates and changes nothing.
    ///
    /// # Errors
    /// [`OpenError::Missing`] where no journal is; else as [`Journal::open`].
    pub fn open_read_only(path: &Path, options: Options) -> Result<Self, OpenError> {
        let path = place::inspect(path, &options)?;
        let conn = schema::connect_read_only(&path)?;
        Self::around(conn, path, options)
    }

    /// Whether a journal could be made or written at `path`. Makes and changes nothing.
    ///
    /// # Errors
    /// What stands against it.
    pub fn could_be_at(path: &Path, options: &Options) -> Result<(), OpenError> {
        place::fit(path, options)
    }

    fn around(conn: Connection, path: PathBuf, options: Options) -> Result<Self, OpenError> {
        let file = place::identity(&path).map_err(|e| StoreError::io(&path, "looking at it", &e))?;
        Ok(Self {
            conn,
            path,
            options,
            file,
            kinds_noted: HashSet::new(),
            kinds_checked: 0,
            data_version: None,
            watched: None,
        })
    }

    /// Whoever writes into a file that was removed or replaced writes where nobody looks.
    fn check_in_place(&self) -> Result<(), StoreError> {
        match place::identity(&self.path) {
            Ok(file) if file == self.file => Ok(()),
            _ => Err(StoreError::Replaced {
                path: error::show(&self.path),
            }),
        }
    }

    /// The file, with its directories resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks through the whole file for damage, for `check`; takes a second per few hundred megabytes.
    ///
    /// # Errors
    /// What is damaged, or why it could not be looked at.
    pub fn verify(&self) -> Result<(), StoreError> {
        let verdict: String = self
            .conn
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|e| self.failed(&e))?;
        if verdict == "ok" {
            return Ok(());
        }
        Err(StoreError::Damaged {
            path: error::show(&self.path),
            what: crate::domain::text::one_line(&verdict, 200),
        })
    }

    fn failed(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::of(&self.path, error)
    }
}
