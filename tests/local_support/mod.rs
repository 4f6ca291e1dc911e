//! A machine of its own for each test: a state directory, a journal that the shim can ask, and the executor.
#![allow(dead_code)]

use backfill::{
    config::secret::Secret,
    domain::{
        calendar::{Granularity, cut},
        failure::Failure,
        ids::{AttemptId, BackfillId},
        spec::{OnFailure, Order, Profile, Spec, Throttling},
        tuning::Tuning,
    },
    executor::{
        Executor, Probe, RunEnd, RunOrder, RunUpdate, SubmitAnswer,
        local::{LOG_CAP, LocalExecutor, LocalSetup},
    },
    host::boot_now,
    journal::{Journal, Options},
};
use chrono::NaiveDate;
use rusqlite::Connection;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tempfile::TempDir;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Longer than anything here takes on a busy machine; a test that needs it has failed.
pub const LONG: Duration = Duration::from_secs(60);

pub struct Machine {
    pub dir: TempDir,
    pub executor: LocalExecutor,
    updates: UnboundedReceiver<(AttemptId, RunUpdate)>,
}

impl Machine {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut LocalSetup)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        make_journal(&dir.path().join("journal.sqlite"));
        Self::on(dir, change)
    }

    /// Another supervisor on the same files.
    pub fn on(dir: TempDir, change: impl FnOnce(&mut LocalSetup)) -> Self {
        let (send, updates) = unbounded_channel();
        let mut setup = setup(dir.path());
        change(&mut setup);
        Self {
            dir,
            executor: LocalExecutor::new(setup, send),
            updates,
        }
    }

    /// The same machine under a new supervisor that has no kill point.
    pub fn restarted(self) -> Self {
        Self::on(self.dir, |_| {})
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn journal(&self) -> Connection {
        open_journal(&self.path("journal.sqlite"))
    }

    pub fn append(&self, attempt: &AttemptId, kind: &str) {
        append(&self.journal(), attempt, kind);
    }

    /// An order with a journaled intent.
    pub fn order(&self, command: &[&str]) -> RunOrder {
        let order = order(self.dir.path(), command);
        self.append(&order.attempt, "submission-intended");
        order
    }

    /// An order of a shell script. Only the test's own script uses a shell.
    pub fn script(&self, script: &str) -> RunOrder {
        self.order(&["/bin/sh", "-c", script])
    }

    pub async fn start(&self, order: &RunOrder) {
        let answer = self.executor.submit(order.clone()).await;
        assert!(
            matches!(answer, SubmitAnswer::Accepted { running: true, .. }),
            "{answer:?}"
        );
    }

    /// Starts and waits for the end.
    pub async fn run(&mut self, order: &RunOrder) -> RunEnd {
        self.start(order).await;
        self.end(order).await
    }

    pub async fn end(&mut self, order: &RunOrder) -> RunEnd {
        let update = tokio::time::timeout(LONG, self.updates.recv())
            .await
            .expect("no end in time");
        let (attempt, update) = update.unwrap();
        assert_eq!(attempt, order.attempt);
        match update {
            RunUpdate::Ended(end) => end,
            other => panic!("{other:?}"),
        }
    }

    pub fn no_more_updates(&mut self) -> bool {
        self.updates.try_recv().is_err()
    }

    pub async fn probe(&self, order: &RunOrder) -> Probe {
        self.executor.probe(order.clone()).await
    }

    pub fn log(&self, order: &RunOrder) -> String {
        let path = self.executor.log_file(&order.attempt).unwrap();
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    }
}

/// Waits until something is so.
pub async fn until(what: &str, so: impl Fn() -> bool) {
    let deadline = tokio::time::Instant::now() + LONG;
    while !so() {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub fn alive(pid: &str) -> bool {
    pid.trim()
        .parse()
        .ok()
        .and_then(backfill::host::process_stamp)
        .is_some()
}

pub fn failure(end: &RunEnd) -> &Failure {
    end.result.as_ref().expect_err("a failure")
}

pub fn setup(dir: &Path) -> LocalSetup {
    let tuning = Tuning {
        effect_deadline: Duration::from_secs(30),
        cancel_grace: Duration::from_millis(500),
        watch: Duration::from_millis(50),
        ..Tuning::default()
    };
    let environment = [
        ("PATH", std::env::var("PATH").unwrap()),
        ("HOME", "/nowhere".to_owned()),
    ];
    LocalSetup {
        name: "here".parse().unwrap(),
        state: dir.join("state"),
        journal: dir.join("journal.sqlite"),
        binary: env!("CARGO_BIN_EXE_backfill").into(),
        tuning,
        log_cap: LOG_CAP,
        environment: environment
            .into_iter()
            .map(|(n, v)| (n.into(), v.into()))
            .collect(),
        shim_environment: BTreeMap::new(),
    }
}

pub fn kill_at(point: &str) -> BTreeMap<OsString, OsString> {
    [("BACKFILL_KILL_AT", point), ("BACKFILL_TESTING", "1")]
        .map(|(n, v)| (n.into(), v.into()))
        .into()
}

/// A real journal whose lease this process holds, with epoch 1.
pub fn make_journal(path: &Path) {
    let mut journal = Journal::open(path, Options::default()).unwrap();
    let lease = journal.acquire(boot_now(), &Tuning::default()).unwrap();
    assert_eq!(lease.epoch, 1);
}

pub fn open_journal(path: &Path) -> Connection {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(Duration::from_secs(10)).unwrap();
    db
}

pub fn append(db: &Connection, attempt: &AttemptId, kind: &str) {
    let values = [attempt.backfill.to_string(), attempt.to_string(), kind.to_owned()];
    db.execute(
        "INSERT INTO event(at_ms, epoch, backfill, attempt, kind, v, actor, origin, payload)
         VALUES (0, 1, ?1, ?2, ?3, 1, 'supervisor', '', '{}')",
        values,
    )
    .unwrap();
}

pub fn order(cwd: &Path, command: &[&str]) -> RunOrder {
    let date = NaiveDate::from_ymd_opt(2023, 11, 24).unwrap();
    let zone = chrono_tz::Europe::Berlin;
    let (chunk, interval) = cut(zone, date, date, Granularity::Day)[0];
    let profile = Profile {
        name: "default".parse().unwrap(),
        memory: None,
        deadline_ms: None,
        values: BTreeMap::new(),
    };
    let name: backfill::domain::ids::Name = "orders".parse().unwrap();
    RunOrder {
        attempt: AttemptId {
            backfill: BackfillId::new(&name, 0x0a1b_2c3d),
            chunk,
            no: 1,
        },
        spec: Arc::new(Spec {
            name,
            target: "datamart.orders".to_owned(),
            environment: None,
            start: date,
            end: date,
            granularity: Granularity::Day,
            timezone: zone,
            executor: "here".parse().unwrap(),
            command: command.iter().map(|a| (*a).to_owned()).collect(),
            dag: None,
            attach: None,
            cwd: cwd.to_str().unwrap().to_owned(),
            env_pass: Vec::new(),
            env: BTreeMap::new(),
            env_secrets: Vec::new(),
            max_limit: 4,
            order: Order::OldestFirst,
            signals: Vec::new(),
            on_failure: OnFailure::Continue,
            profiles: vec![profile.clone()],
            lanes: BTreeMap::new(),
            source: BTreeMap::new(),
            idempotent: true,
            throttling: Throttling::default(),
            blackout: Vec::new(),
        }),
        start: interval.start,
        end: interval.end,
        profile,
        secrets: BTreeMap::new(),
        taking: None,
        epoch: 1,
    }
}

/// Changes the spec of an order.
pub fn with_spec(mut order: RunOrder, change: impl FnOnce(&mut Spec)) -> RunOrder {
    let mut spec = (*order.spec).clone();
    change(&mut spec);
    order.spec = Arc::new(spec);
    order
}

pub fn secret(value: &str) -> Secret {
    Secret::new(value.to_owned())
}
