//! The small files of an attempt: who runs it, and how it ended.

use super::place::private_file;
use crate::{
    domain::ids::ExternalId,
    host::{BootInstant, boot_id, boot_now},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{fs, io, io::Write, path::Path};

/// Which process runs the command. Written before the command can start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildRecord {
    /// Pid of the command, and its process group.
    pub pid: i32,
    /// Start stamp of the pid.
    pub start: u64,
    /// The boot in which it was started.
    pub boot: String,
    /// Pid of the shim, to be told to end the run.
    pub shim: i32,
    /// Start stamp of the shim.
    pub shim_start: u64,
    /// How many orders the shim had carried out before this one.
    #[serde(default)]
    pub before: u32,
}

impl ChildRecord {
    /// The run's name.
    pub fn run(&self) -> ExternalId {
        ExternalId(format!("pid-{}-start-{}", self.pid, self.start))
    }

    /// What all processes of the run have in their environment.
    pub fn mark(&self) -> String {
        shim_mark(self.shim, self.shim_start, self.before)
    }
}

/// The verdict *never ran*, made final: whoever gave it may send the attempt again or drop it, and a shim that was
/// started before and comes late must not prove it wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fence {
    /// The boot of the instant.
    pub boot: String,
    /// Orders sent at this instant or before are void.
    pub at: BootInstant,
}

impl Fence {
    /// A fence against everything sent up to now.
    pub fn now() -> Self {
        Self {
            boot: boot_id(),
            at: boot_now(),
        }
    }

    /// Whether it stands in the way of an order sent at this instant of this boot.
    pub fn stops(&self, sent: BootInstant) -> bool {
        sent <= self.at && self.boot == boot_id()
    }
}

/// The variable by which the processes of a run are known again, wherever they hide, when its shim is gone.
pub const SHIM_MARK: &str = "BACKFILL_SHIM";

/// The variable's value: no two runs of one boot share it, whichever journals their shims serve.
pub fn shim_mark(pid: i32, start: u64, before: u32) -> String {
    format!("{pid}-{start}-{before}")
}

/// What the shim did to the run, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The limit in bytes was passed, seen by the shim or by the kernel.
    Oom(u64),
    /// The deadline in milliseconds passed.
    Deadline(u64),
    /// A cancel was asked for.
    Cancel,
    /// The shim got SIGTERM and nobody had asked for a cancel: the host goes down, or somebody killed it.
    Told,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// When the gate was opened, Unix time in milliseconds.
    pub started_ms: i64,
    /// When the command ended, Unix time in milliseconds.
    pub ended_ms: i64,
    /// Peak memory in bytes; `None` when it ended before the first look.
    pub peak: Option<u64>,
    /// What the shim did to it.
    pub stop: Option<Stop>,
    /// A cancel was asked for before the end.
    pub cancel_asked: bool,
    /// How many processes of the run were still there when the command had ended.
    pub left_over: u32,
    /// Bytes of output that did not fit the log.
    pub dropped: u64,
    /// The last line of output that says something, clean, secrets covered.
    pub last_line: String,
}

/// Writes a record that no one has written before. It survives the death of any process; for a crash of the host
/// there is the ledger.
///
/// # Errors
/// There is one already, or the disk refuses.
pub fn write_new<T: Serialize>(path: &Path, record: &T) -> io::Result<()> {
    let mut file = private_file().write(true).create_new(true).open(path)?;
    file.write_all(&serde_json::to_vec(record)?)
}

/// Writes a record so that a reader sees all of it or nothing. Not forced to the disk: a crash of the host can take
/// it back, and a run of an earlier boot without one counts as ended by that crash.
///
/// # Errors
/// The disk refuses.
pub fn write_atomically<T: Serialize>(path: &Path, record: &T) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = private_file()
        .write(true)
        .create(true)
        .truncate(true)
        .open(&temporary)?;
    file.write_all(&serde_json::to_vec(record)?)?;
    drop(file);
    fs::rename(&temporary, path)
}

/// A record as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<T> {
    /// There is none.
    Absent,
    /// There is one and it cannot be read.
    Damaged,
    /// It.
    Whole(T),
}

/// Reads a record.
///
/// # Errors
/// The file system refuses for another reason than that there is no such file.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Found<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).map_or(Found::Damaged, Found::Whole)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Found::Absent),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child() -> ChildRecord {
        ChildRecord {
            pid: 7,
            start: 99,
            boot: "b".to_owned(),
            shim: 6,
            shim_start: 98,
            before: 0,
        }
    }

    #[test]
    fn a_record_is_absent_whole_or_damaged_and_never_half_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("child");
        assert_eq!(read::<ChildRecord>(&path).unwrap(), Found::Absent);
        write_new(&path, &child()).unwrap();
        assert_eq!(read(&path).unwrap(), Found::Whole(child()));
        let bytes = fs::read(&path).unwrap();
        for cut in 0..bytes.len() {
            fs::write(&path, &bytes[..cut]).unwrap();
            assert_eq!(read::<ChildRecord>(&path).unwrap(), Found::Damaged, "{cut}");
        }
    }

    #[test]
    fn a_child_record_is_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("child");
        write_new(&path, &child()).unwrap();
        assert!(write_new(&path, &child()).is_err());
    }
}
