//! The folder that holds a whole demo: raw events, partitions, configuration and journal. Nothing outside it is
//! touched.

use super::{BACKFILL, Faults, JOB, job, presence, raw};
use crate::executor::local;
use chrono::NaiveDate;
use rustix::process::{Signal, kill_process};
use std::{
    fs::{self, DirBuilder, File, TryLockError},
    io,
    net::SocketAddr,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The file by which a demo's folder is known again, locked while the demo lives.
const MARKER: &str = ".backfill-demo";
/// What a demo makes in its folder, and what a later demo in the same folder removes.
const OWN: [&str; 5] = ["raw", "warehouse", "running", "state", "config.toml"];
/// How many names are tried for a temporary folder.
const NAMES: u32 = 1000;
/// How long attempts and their shims get to end once they are told to.
const ENDING: Duration = Duration::from_secs(5);

/// What the demo's world is made from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How many of the newest days: 1 to [`raw::ALL_DAYS`].
    pub days: u32,
    /// Everything that is drawn is drawn from it.
    pub seed: u64,
    /// Which faults happen.
    pub faults: Faults,
    /// Factor on the time that work takes; below 1 it also shortens the waits of the configuration.
    pub pace: f64,
}

/// Why there is no workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// There are not so many days.
    #[error("--days {0}: the demo has raw events of 1 to {all} days", all = raw::ALL_DAYS)]
    Days(u32),
    /// A pace that is no factor.
    #[error("--pace {0}: use 0 or more, 1 is the usual pace")]
    Pace(f64),
    /// The folder holds something else.
    #[error("--dir {0}: the folder is neither empty nor that of an earlier demo; name an empty or a new one")]
    NotEmpty(PathBuf),
    /// It is no folder.
    #[error("--dir {0}: not a folder")]
    NotAFolder(PathBuf),
    /// Another demo lives in it.
    #[error("--dir {0}: another demo runs in this folder; leave it first, or name another folder")]
    Busy(PathBuf),
    /// Something in the folder does not end.
    #[error("{0}: attempts of the demo do not end, so the folder stays")]
    StillRuns(PathBuf),
    /// A path that cannot stand in a configuration file.
    #[error("{0}: the path is not UTF-8 and cannot be written into config.toml")]
    NotText(PathBuf),
    /// The system refused.
    #[error("{path}: {source}")]
    Io {
        /// What could not be made, read or removed.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A demo's folder, locked while this lives.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    temporary: bool,
    settings: Settings,
    first: NaiveDate,
    last: NaiveDate,
    bad: Option<NaiveDate>,
    // Holds the lock.
    _marker: File,
}

impl Workspace {
    /// Makes a workspace with its raw events: in `dir`, which must be new, empty or an earlier demo's, else in a
    /// new temporary folder that only its owner can read. An earlier demo's files are removed.
    ///
    /// # Errors
    /// The settings are out of bounds, the folder is somebody else's, or the system refuses.
    pub fn make(dir: Option<&Path>, settings: Settings) -> Result<Self, WorkspaceError> {
        let (first, last) = raw::range(settings.days).ok_or(WorkspaceError::Days(settings.days))?;
        if !settings.pace.is_finite() || settings.pace < 0.0 {
            return Err(WorkspaceError::Pace(settings.pace));
        }
        let root = match dir {
            Some(dir) => take_folder(dir)?,
            None => temporary_folder(&std::env::temp_dir())?,
        };
        let marker = lock_marker(&root)?;
        clear(&root)?;
        let bad =
            (settings.faults == Faults::Default).then(|| raw::bad_day(settings.seed, first, settings.days));
        let workspace = Self {
            root,
            temporary: dir.is_none(),
            settings,
            first,
            last,
            bad,
            _marker: marker,
        };
        for own in [workspace.warehouse(), workspace.running(), workspace.state()] {
            private_dir(&own).map_err(at(&own))?;
        }
        let raw = workspace.raw();
        raw::write_days(&raw, settings.seed, first, settings.days, bad).map_err(at(&raw))?;
        Ok(workspace)
    }

    /// Writes `config.toml` for an endpoint and for the program whose subcommand does the work, and returns its
    /// path.
    ///
    /// # Errors
    /// The file cannot be written, or the program's path is not UTF-8.
    pub fn configure(&self, endpoint: SocketAddr, program: &Path) -> Result<PathBuf, WorkspaceError> {
        let program = program
            .to_str()
            .ok_or_else(|| WorkspaceError::NotText(program.to_owned()))?;
        let path = self.config();
        fs::write(&path, self.config_text(endpoint, program)).map_err(at(&path))?;
        Ok(path)
    }

    /// The folder itself, absolute.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the folder is a temporary one that we named.
    pub const fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// First and last day, both inclusive.
    pub const fn range(&self) -> (NaiveDate, NaiveDate) {
        (self.first, self.last)
    }

    /// The day whose raw events are torn, if there is one.
    pub const fn bad_day(&self) -> Option<NaiveDate> {
        self.bad
    }

    /// Folder of the raw events.
    pub fn raw(&self) -> PathBuf {
        self.root.join("raw")
    }

    /// Folder of the partitions.
    pub fn warehouse(&self) -> PathBuf {
        self.root.join("warehouse")
    }

    /// Folder in which running attempts are counted.
    pub fn running(&self) -> PathBuf {
        self.root.join("running")
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// The journal.
    pub fn journal(&self) -> PathBuf {
        self.state().join("journal.db")
    }

    fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Ends the attempts that run, and waits for their shims, which write down how they ended. Runs outlive their
    /// supervisor, so this comes after the supervisor's end and before [`Workspace::remove`]. Where somebody goes on
    /// with the journal later, these attempts were killed and are tried again.
    ///
    /// # Errors
    /// The folder cannot be read, or something does not end in time.
    pub fn end_attempts(&self) -> Result<(), WorkspaceError> {
        let (running, until) = (self.running(), Instant::now() + ENDING);
        loop {
            let inside = presence::inside(&running).map_err(at(&running))?;
            let shims = local::alive(&self.state());
            if inside.is_empty() && shims == 0 {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(WorkspaceError::StillRuns(self.root.clone()));
            }
            // Who is gone already needs no signal. A shim that has not started its command yet will soon be here.
            for process in inside.iter().filter_map(|label| job::process_of(label.to_str()?)) {
                let _ = kill_process(process, Signal::TERM);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Removes all that the demo made, and the folder itself if that leaves it empty.
    ///
    /// # Errors
    /// The system refuses.
    pub fn remove(self) -> Result<(), WorkspaceError> {
        clear(&self.root)?;
        let marker = self.root.join(MARKER);
        fs::remove_file(&marker).map_err(at(&marker))?;
        match fs::remove_dir(&self.root) {
            Err(e) if e.kind() != io::ErrorKind::DirectoryNotEmpty => Err(at(&self.root)(e)),
            _ => Ok(()),
        }
    }

    fn config_text(&self, endpoint: SocketAddr, program: &str) -> String {
        let Settings {
            seed, faults, pace, ..
        } = self.settings;
        let (first, last) = (self.first, self.last);
        let program = toml::Value::from(program);
        // Short waits shrink with the pace, so that a quick demo is not made of waits.
        let short = |ms: f64| format!("{:.0}ms", ms * pace.clamp(0.05, 1.0));
        let (tick, gap, retry) = (short(100.0), short(200.0), short(2000.0));
        let default_memory = match faults {
            Faults::None => "1GiB",
            Faults::Default => "64MiB",
        };
        format!(
            r#"# Made by `backfill demo`: a small world of its own. Its times are shortened so that it is lively.

[executors.here]
kind = "local"
slots = 4

# The lag of a modelled live consumer, which suffers from each chunk that runs.
[signals.orders-live]
kind = "prometheus"
url = "http://{endpoint}"
query = 'sum(kafka_consumergroup_lag{{consumergroup="orders"}})'
age_query = 'min(timestamp(kafka_consumergroup_lag{{consumergroup="orders"}}))'
unit = "messages"
soft = 20000
hard = 60000
critical = 400000
interval = "1s"

[backfills.{BACKFILL}]
target = "datamart.orders"
environment = "demo"
start = {first}
end = {last}           # inclusive
granularity = "day"
timezone = "UTC"
executor = "here"
command = [
  {program}, "{JOB}",
  "--raw", "raw", "--warehouse", "warehouse", "--running", "running",
  "--ds", "{{{{ ds }}}}", "--attempt", "{{{{ attempt_id }}}}",
  "--seed", "{seed}", "--faults", "{faults}", "--pace", "{pace}",
]
max_limit = 4
order = "oldest-first"
signals = ["orders-live"]
law = "classic"
on_failure = "continue"
profiles = ["default", "heavy"]   # what runs out of memory on one is tried on the next

[profiles.default]
memory = "{default_memory}"
deadline = "2m"

[profiles.heavy]
memory = "1GiB"
deadline = "5m"

[journal]
path = "state/journal.db"

# A real backfill rarely needs this table.
[tuning]
tick = "{tick}"
start_gap = "{gap}"
cancel_grace = "3s"
ewma = "3s"
slope_window = "15s"
horizon = "15s"
cut_gap = "4s"
grow_dwell = "6s"
resume_hold = "6s"
resume_hold_max = "30s"
pause_min = "5s"
flap_window = "30s"
latch_window = "20s"
ceiling_memory = "30s"
hibernate = "15s"
blind_halve = "10s"
blind_stop = "20s"
retry_base = "{retry}"
retry_cap = "8s"
retry_cap_platform = "8s"
breaker_retry = "15s"
"#
        )
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> WorkspaceError {
    let path = path.to_owned();
    move |source| WorkspaceError::Io { path, source }
}

/// Makes a folder that only its owner can read, where none is.
fn private_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A new folder of our own. Creating it fails if the name is taken, so nobody can prepare it for us.
fn temporary_folder(parent: &Path) -> Result<PathBuf, WorkspaceError> {
    let parent = fs::canonicalize(parent).map_err(at(parent))?;
    for n in 0..NAMES {
        let path = parent.join(format!("backfill-demo-{}-{n}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(at(&path)(e)),
        }
    }
    let taken = io::Error::new(
        io::ErrorKind::AlreadyExists,
        "every name for a temporary folder is taken",
    );
    Err(at(&parent)(taken))
}

/// The folder that the user named, if it is new, empty or an earlier demo's.
fn take_folder(dir: &Path) -> Result<PathBuf, WorkspaceError> {
    match fs::metadata(dir) {
        Ok(found) if !found.is_dir() => return Err(WorkspaceError::NotAFolder(dir.to_owned())),
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => private_dir(dir).map_err(at(dir))?,
        Err(e) => return Err(at(dir)(e)),
    }
    let empty = fs::read_dir(dir).map_err(at(dir))?.next().is_none();
    if empty || dir.join(MARKER).is_file() {
        fs::canonicalize(dir).map_err(at(dir))
    } else {
        Err(WorkspaceError::NotEmpty(dir.to_owned()))
    }
}

/// Marks the folder as a demo's, and keeps other demos out of it.
fn lock_marker(root: &Path) -> Result<File, WorkspaceError> {
    let path = root.join(MARKER);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(at(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(WorkspaceError::Busy(root.to_owned())),
        Err(TryLockError::Error(e)) => Err(at(&path)(e)),
    }
}

/// Removes what a demo makes, and nothing else. Links are removed, not followed.
fn clear(root: &Path) -> Result<(), WorkspaceError> {
    for name in OWN {
        let path = root.join(name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        };
        removed.map_err(at(&path))?;
    }
    Ok(())
}
