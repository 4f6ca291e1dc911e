//! What tests of the real program share: a workspace with a configuration and a job that leaves marks, the program
//! run beside the test, and waiting with a deadline.

// Helpers of tests may fail loudly like tests themselves; not every test uses every helper.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod airflow;
mod disk;
pub mod lag;
mod program;

#[allow(unused_imports)]
pub use airflow::Drive;
#[allow(unused_imports)]
pub use disk::SmallDisk;
#[allow(unused_imports)]
pub use program::{Noise, Running};

use backfill::{
    domain::{
        event::{Event, Payload, Read},
        state::{Backfill, ChunkState, State},
    },
    journal::{Journal, Options},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// How long a test waits for anything; generous, because a machine may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Random numbers that are the same in every run, unless `BACKFILL_TEST_SEED` says otherwise.
pub fn seeded(salt: u64) -> ChaCha8Rng {
    let seed = std::env::var("BACKFILL_TEST_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(20_231_124);
    ChaCha8Rng::seed_from_u64(salt ^ seed)
}

/// A moment within `from..to` milliseconds.
pub fn moment(rng: &mut ChaCha8Rng, from: u64, to: u64) -> Duration {
    ms(rng.random_range(from..to))
}

/// Waits until `wanted` gives something.
pub fn wait_for<T>(what: &str, mut wanted: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, what, &mut wanted)
}

/// Waits until `wanted` gives something, at most for `patience`.
pub fn within<T>(patience: Duration, what: &str, mut wanted: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = wanted() {
            return found;
        }
        assert!(
            begun.elapsed() < patience,
            "waited {} s for: {what}",
            patience.as_secs_f32()
        );
        std::thread::sleep(ms(10));
    }
}

/// A folder with a configuration. Everything that runs in it ends when it is dropped.
pub struct Workspace {
    dir: tempfile::TempDir,
    text: String,
}

/// One `[backfills.NAME]`.
pub struct Order {
    pub name: &'static str,
    pub days: u32,
    pub max_limit: u32,
    /// More lines of its table.
    pub more: String,
}

/// A configuration to be written.
pub struct Setup {
    pub slots: u32,
    pub orders: Vec<Order>,
    /// What the job does, as lines of a shell; `mark start` and `mark end` append one line to the file `marks`.
    pub job: String,
    /// Lines of `[tuning]` over the tests' own.
    pub tuning: Vec<(&'static str, String)>,
    /// More tables.
    pub more: String,
}

impl Setup {
    /// `days` days from 2023-01-01 of a job that only leaves its mark, all slots and limits `limit`.
    pub fn new(days: u32, limit: u32) -> Self {
        Self {
            slots: limit,
            orders: vec![Order::new("orders", days, limit)],
            job: "mark start".to_owned(),
            tuning: Vec::new(),
            more: String::new(),
        }
    }

    pub fn job(mut self, lines: &str) -> Self {
        self.job = lines.to_owned();
        self
    }

    pub fn slots(mut self, slots: u32) -> Self {
        self.slots = slots;
        self
    }

    pub fn tuning(mut self, key: &'static str, value: &str) -> Self {
        self.tuning.push((key, value.to_owned()));
        self
    }

    pub fn order_more(mut self, lines: &str) -> Self {
        let order = self.orders.last_mut().unwrap();
        order.more.push_str(lines);
        order.more.push('\n');
        self
    }

    pub fn more(mut self, tables: &str) -> Self {
        self.more.push_str(tables);
        self.more.push('\n');
        self
    }

    pub fn and(mut self, order: Order) -> Self {
        self.orders.push(order);
        self
    }

    /// The configuration as text.
    pub fn text(&self) -> String {
        let mut text = format!("[executors.here]\nkind = \"local\"\nslots = {}\n\n", self.slots);
        for order in &self.orders {
            let last = chrono::NaiveDate::from_ymd_opt(2023, 1, 1).unwrap()
                + chrono::Duration::days(i64::from(order.days) - 1);
            text.push_str(&format!(
                "[backfills.{0}]\ntarget = \"datamart.{0}\"\nstart = 2023-01-01\nend = {last}\ngranularity = \"day\"\n\
                 timezone = \"UTC\"\nexecutor = \"here\"\ncommand = [\"/bin/sh\", \"job.sh\", \"{{{{ ds }}}}\"]\n\
                 max_limit = {1}\n{2}\n",
                order.name, order.max_limit, order.more
            ));
        }
        text.push_str(&self.more);
        text.push_str("\n[journal]\npath = \"state/journal.db\"\n\n[tuning]\n");
        let mut tuning: BTreeMap<&str, String> = BTreeMap::from([
            ("tick", "20ms".to_owned()),
            ("retry_base", "50ms".to_owned()),
            ("retry_cap", "200ms".to_owned()),
            ("retry_cap_platform", "200ms".to_owned()),
            ("cancel_grace", "2s".to_owned()),
            ("watch", "50ms".to_owned()),
            ("disk_low", "0B".to_owned()),
        ]);
        tuning.extend(self.tuning.iter().cloned());
        for (key, value) in tuning {
            let quoted = if value.parse::<u64>().is_ok() {
                value
            } else {
                format!("\"{value}\"")
            };
            text.push_str(&format!("{key} = {quoted}\n"));
        }
        text
    }

    pub fn open(&self) -> Workspace {
        let workspace = Workspace {
            dir: folder(),
            text: self.text(),
        };
        workspace.write_config(&self.text());
        let job = format!(
            "mark() {{ printf '%s %s\\n' \"$1\" \"$BACKFILL_ATTEMPT_ID\" >> marks; }}\n{}\n",
            self.job
        );
        fs::write(workspace.path("job.sh"), job).unwrap();
        workspace
    }
}

impl Order {
    pub fn new(name: &'static str, days: u32, max_limit: u32) -> Self {
        Self {
            name,
            days,
            max_limit,
            more: String::new(),
        }
    }
}

/// In memory where there is plenty of it: these tests kill processes, not disks.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let room = backfill::journal::free_bytes(&memory.join("x")).unwrap_or(0);
    let make = || {
        tempfile::Builder::new()
            .prefix("backfill-test-")
            .tempdir_in(memory)
    };
    (room > 4_000_000_000)
        .then(|| make().ok())
        .flatten()
        .unwrap_or_else(|| tempfile::tempdir().unwrap())
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Its one line of JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

impl Workspace {
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn config(&self) -> PathBuf {
        self.path("config.toml")
    }

    /// The configuration that the workspace was opened with.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Replaces the configuration as editors do, whole.
    pub fn write_config(&self, text: &str) {
        fs::write(self.path("config.new"), text).unwrap();
        fs::rename(self.path("config.new"), self.config()).unwrap();
    }

    /// The real program with this workspace's configuration.
    pub fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_backfill"));
        command
            .arg("--config")
            .arg(self.config())
            .args(arguments)
            .env_remove("BACKFILL_CONFIG")
            .env_remove("BACKFILL_READ_ONLY")
            .env("BACKFILL_ACTOR", "minh")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn call(&self, arguments: &[&str]) -> Said {
        let output = self.program(arguments).output().unwrap();
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// `status NAME --json`: the exit code and the backfill's object.
    pub fn status(&self, name: &str) -> (i32, Value) {
        let said = self.call(&["status", name, "--json"]);
        let mut whole = said.json();
        (said.code, whole["backfills"][0].take())
    }

    /// Starts `run NAME` beside the test.
    pub fn run(&self, name: &str) -> Running {
        self.run_with(name, |_| {})
    }

    pub fn run_with(&self, name: &str, change: impl FnOnce(&mut Command)) -> Running {
        let mut command = self.program(&["run", name]);
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.path("run.out"))
            .unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        change(&mut command);
        Running {
            child: command.spawn().unwrap(),
        }
    }

    /// All lines that jobs left, oldest first.
    pub fn marks(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("marks")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Attempt ids of the jobs that started, oldest first.
    pub fn started(&self) -> Vec<String> {
        let start = |line: &String| line.strip_prefix("start ").map(str::to_owned);
        self.marks().iter().filter_map(start).collect()
    }

    /// Attempt ids of the jobs that came to their end.
    pub fn ended(&self) -> Vec<String> {
        let end = |line: &String| line.strip_prefix("end ").map(str::to_owned);
        self.marks().iter().filter_map(end).collect()
    }

    /// The most jobs that ran at a time, by their own marks.
    pub fn most_at_a_time(&self) -> usize {
        let (mut now, mut most) = (0usize, 0);
        for line in self.marks() {
            if line.starts_with("start ") {
                now += 1;
            } else if line.starts_with("end ") {
                now -= 1;
            }
            most = most.max(now);
        }
        most
    }

    /// The same for marks that begin in the middle of the work: an end without a start is passed over.
    pub fn marks_at_a_time(&self) -> usize {
        let mut now = BTreeSet::new();
        let mut most = 0;
        for line in self.marks() {
            if let Some(attempt) = line.strip_prefix("start ") {
                now.insert(attempt.to_owned());
            } else if let Some(attempt) = line.strip_prefix("end ") {
                now.remove(attempt);
            }
            most = most.max(now.len());
        }
        most
    }

    pub fn journal(&self) -> Option<Journal> {
        Journal::open_read_only(&self.path("state/journal.db"), Options::default()).ok()
    }

    pub fn state(&self) -> State {
        self.journal()
            .and_then(|j| j.load_state().ok())
            .unwrap_or_default()
    }

    /// The newest backfill of that name.
    pub fn backfill(&self, name: &str) -> Option<Backfill> {
        self.state().by_name(name).cloned()
    }

    pub fn events(&self) -> Vec<Event> {
        self.journal()
            .and_then(|j| j.read_after(0, usize::MAX).ok())
            .unwrap_or_default()
    }

    /// Payloads of all events.
    pub fn payloads(&self) -> Vec<Payload> {
        self.events().into_iter().map(known).collect()
    }

    pub fn count(&self, wanted: impl Fn(&Payload) -> bool) -> usize {
        self.payloads().iter().filter(|p| wanted(p)).count()
    }

    /// What the supervisor and the runs said, for a failing test.
    pub fn told(&self) -> String {
        ["run.out", "state/supervisor.log"]
            .map(|f| fs::read_to_string(self.path(f)).unwrap_or_default())
            .join("\n---\n")
    }

    /// Waits until `wanted` gives something, and says what everybody told if it does not.
    pub fn wait<T>(&self, what: &str, mut wanted: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            match wanted() {
                Some(found) => return found,
                None if begun.elapsed() < PATIENCE => std::thread::sleep(ms(10)),
                None => panic!("waited too long for: {what}\n{}", self.told()),
            }
        }
    }

    /// How many chunks of a backfill are in a state.
    pub fn in_state(&self, name: &str, state: ChunkState) -> usize {
        self.backfill(name).map_or(0, |b| b.count(state) as usize)
    }

    pub fn done(&self, name: &str) -> usize {
        self.in_state(name, ChunkState::Done)
    }

    /// Every start mark is of another attempt, and every attempt that started had been intended before.
    pub fn assert_once_only(&self) {
        let mut started = self.started();
        let all = started.len();
        started.sort();
        started.dedup();
        assert_eq!(started.len(), all, "an attempt ran twice\n{}", self.told());
        let intended: Vec<String> = self
            .payloads()
            .iter()
            .filter_map(|p| match p {
                Payload::SubmissionIntended { attempt, .. } => Some(attempt.to_string()),
                _ => None,
            })
            .collect();
        for attempt in &started {
            assert!(intended.contains(attempt), "{attempt} ran without an intent");
        }
        self.assert_sound();
    }

    /// Each attempt is intended once, ends at most once, and nothing is said of it before or after; and nothing is
    /// intended while a confirmed pause or cancel stands.
    pub fn assert_sound(&self) {
        let (mut open, mut over) = (BTreeSet::new(), BTreeSet::new());
        let mut state = State::default();
        for event in self.events() {
            let seq = event.seq;
            let before = event
                .backfill
                .as_ref()
                .and_then(|id| state.backfills.get(id))
                .is_some_and(|b| b.cancel.is_some() || b.pause.as_ref().is_some_and(|p| p.applied.is_some()));
            state.apply(&event);
            let payload = known(event);
            let Some(attempt) = payload.attempt() else {
                continue;
            };
            match &payload {
                Payload::SubmissionIntended { .. } => {
                    let new = open.insert(attempt.clone()) && !over.contains(attempt);
                    assert!(new, "{attempt} is intended a second time by event {seq}");
                    assert!(!before, "event {seq} intends {attempt} in a pause");
                }
                Payload::RunEnded { .. } | Payload::SubmissionWithdrawn { .. } => {
                    assert!(
                        open.remove(attempt),
                        "event {seq} ends {attempt}, which is not open"
                    );
                    over.insert(attempt.clone());
                }
                _ => assert!(
                    open.contains(attempt),
                    "event {seq} is about {attempt}, which is not open"
                ),
            }
        }
    }

    /// Epochs of all holders, in order.
    pub fn epochs(&self) -> Vec<u64> {
        self.payloads()
            .iter()
            .filter_map(|p| match p {
                Payload::LeaseTaken { epoch, .. } => Some(*epoch),
                _ => None,
            })
            .collect()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // Jobs that wait for a file to go would wait for ever if only the folder's name went.
        for attempt in marked_processes(&self.path("")) {
            let _ = Command::new("kill")
                .args(["-9", &attempt.to_string()])
                .stderr(Stdio::null())
                .status();
        }
    }
}

/// Processes whose working directory is the folder: jobs and what they started.
fn marked_processes(folder: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let Ok(folder) = folder.canonicalize() else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == folder))
        .filter(|pid| *pid != i32::try_from(std::process::id()).unwrap())
        .collect()
}

pub fn known(event: Event) -> Payload {
    match event.payload {
        Read::Known(payload) => payload,
        Read::Unknown { kind, .. } => panic!("unknown event {kind}"),
    }
}
