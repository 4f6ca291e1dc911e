//! Tasks, tries and logs of real Airflows of both versions, as the screen's source and `backfill logs` have them.
//!
//! The servers are those that `BACKFILL_AIRFLOW3_URL` and `BACKFILL_AIRFLOW2_URL` name, else each test starts one.
//! `events_daily`, `mapped_daily` and `retry_daily` have runs on one day of 2025 each.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use backfill::{
    domain::ids::{BackfillId, ChunkId},
    executor::inside::{Place, Standing},
    journal::{Journal, Options},
    tui::{
        effect::Watch,
        feeder::{News, Source},
        inside::{InsideView, Peek, Pick},
        sources::JournalSource,
    },
};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(150);
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/airflow.sh");

/// Where a server of that version is. One that is started here ends with this process.
fn server(version: u8) -> String {
    if let Ok(url) = std::env::var(format!("BACKFILL_AIRFLOW{version}_URL")) {
        return url;
    }
    let dir = std::env::temp_dir().join(format!("backfill-inside-{}-{version}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let output = Command::new("bash")
        .args([SCRIPT, "up", &version.to_string()])
        .arg(&dir)
        .env("OWNER", std::process::id().to_string())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let url = lines.lines().find_map(|l| l.strip_prefix("url="));
    url.unwrap().to_owned()
}

/// A workspace with a backfill of one day for each DAG.
struct Bench {
    dir: tempfile::TempDir,
    day: String,
}

impl Bench {
    fn new(version: u8) -> Self {
        // A day that another run of this test on the same server hardly has, of a year that no other test has (the
        // table in airflow_servers), and never 14 March: that one is killed whatever is asked of it
        // (services/airflow/work.sh).
        let day = chrono::NaiveDate::from_ymd_opt(2025, 4, 1).unwrap()
            + chrono::TimeDelta::days(i64::from(std::process::id() % 240));
        let mut text = format!(
            "[executors.there]\nkind = \"airflow\"\nurl = \"{}\"\nrequest_budget = 600\ninterval = \"1s\"\n\
             auth = {{ user = \"admin\", password = {{ file = \"password\" }} }}\n[journal]\npath = \"journal.db\"\n\
             [tuning]\nretry_base = \"100ms\"\nretry_cap = \"1s\"\ndisk_low = \"0B\"\n",
            server(version)
        );
        let orders = [
            ("bad", "events_daily", "exit = 3", 0),
            ("slow", "events_daily", "sleep = 15", 1),
            ("mapped", "mapped_daily", "", 0),
            ("flaky", "retry_daily", "", 0),
        ];
        for (name, dag, conf, later) in orders {
            let day = day + chrono::TimeDelta::days(later);
            text.push_str(&format!(
                "[backfills.{name}]\nexecutor = \"there\"\ndag = \"{dag}\"\nconf = {{ {conf} }}\ntarget = \"{name}\"\n\
                 start = {day}\nend = {day}\ngranularity = \"day\"\ntimezone = \"UTC\"\nmax_limit = 1\n"
            ));
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.toml"), text).unwrap();
        std::fs::write(dir.path().join("password"), "admin").unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(dir.path().join("password"), private).unwrap();
        Self {
            dir,
            day: day.to_string(),
        }
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("config.toml")
    }

    fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_backfill"));
        command.arg("--config").arg(self.config()).args(arguments);
        command.env_remove("BACKFILL_READ_ONLY").stdin(Stdio::null());
        command
    }

    /// Runs a backfill to its end.
    fn run(&self, name: &str) -> String {
        let output = self.program(&["run", name]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What `logs` prints of the day, on both ways.
    fn logs(&self, name: &str, more: &[&str]) -> (String, String) {
        let arguments = [&["logs", name, &self.day], more].concat();
        let output = self.program(&arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.logs(name, &["--json"]).0).unwrap()
    }

    /// What a screen watches on which the only day of a backfill is open.
    fn watch(&self, name: &str) -> Option<Watch> {
        let journal = Journal::open_read_only(&self.path("journal.db"), Options::default()).ok()?;
        let state = journal.load_state().ok()?;
        let backfill = state.find(name)?;
        let (id, chunk): (BackfillId, ChunkId) = (backfill.id.clone(), backfill.chunks[0].id);
        let no = backfill.chunks[0].last()?.no;
        let place = Place::of(backfill, chunk, no)?;
        Some(Watch {
            backfill: Some(id),
            log: Some(place.attempt.clone()),
            inside: Some(Peek {
                place,
                pick: Pick::default(),
                again: 0,
            }),
            parts: None,
            what_if: None,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Looks as the feeder does, until it sees what is waited for.
    fn see(
        &self,
        source: &mut JournalSource,
        name: &str,
        what: &str,
        fits: impl Fn(&InsideView) -> bool,
    ) -> InsideView {
        let begun = Instant::now();
        loop {
            let news = self.watch(name).map(|watch| source.poll(&watch).unwrap());
            let view = news.as_ref().and_then(view);
            if let Some(view) = view.filter(|v| fits(v)) {
                return view.clone();
            }
            assert!(begun.elapsed() < PATIENCE, "never saw {what}: {view:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn view(news: &News) -> Option<&InsideView> {
    news.inside.as_ref()?.as_deref()
}

fn texts(view: &InsideView) -> Vec<String> {
    let log = view.log.as_ref();
    log.map_or_else(Vec::new, |l| {
        l.lines.iter().map(|l| l.said().into_owned()).collect()
    })
}

/// Nothing of what Airflow wraps around the words of the work.
fn assert_unwrapped(log: &str) {
    for noise in [
        "::group::",
        "::endgroup::",
        "***",
        "Log message source",
        "attempt=1.log",
    ] {
        assert!(!log.contains(noise), "{noise} in {log}");
    }
}

/// Ends with the test, whatever becomes of it.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn written(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Each attempt of the bad day is the same run, cleared, and has the try that began with it.
fn the_log_of_each_attempt_is_that_of_its_own_try(bench: &Bench) {
    bench.run("bad");
    let (log, tasks) = bench.logs("bad", &[]);
    assert!(log.contains("load of") && log.contains("try 3"), "{log}");
    assert!(log.contains("ending with 3, as the conf says"), "{log}");
    assert!(log.contains("Command exited with return code 3"), "{log}");
    assert_unwrapped(&log);
    assert!(tasks.contains("> load     failed, try 3 of 3"), "{tasks}");
    assert!(tasks.contains("  publish  upstream failed"), "{tasks}");
    for attempt in ["1", "2"] {
        let (log, _) = bench.logs("bad", &["--attempt", attempt]);
        assert!(
            log.contains(&format!("try {attempt}")),
            "attempt {attempt}: {log}"
        );
    }
    let (first, _) = bench.logs("bad", &["--try", "1"]);
    assert!(first.contains("try 1"), "{first}");
    let blocked = &bench.json("bad")["tasks"];
    let blocked = blocked
        .as_array()
        .unwrap()
        .iter()
        .find(|t| t["task"] == "publish")
        .unwrap();
    assert_eq!(
        (&blocked["try"], &blocked["state"]),
        (&0.into(), &"blocked".into())
    );
    let mut source = JournalSource::new(Some(bench.config()));
    let ended = |v: &InsideView| v.log.as_ref().is_some_and(|l| l.finished) && v.tries.is_some();
    let view = bench.see(&mut source, "bad", "the end of the log and all tries", ended);
    let tries = &view.tries.as_ref().unwrap().1;
    assert_eq!(tries.iter().map(|t| t.no).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(
        texts(&view).iter().any(|l| l.contains("ending with 3")),
        "{view:?}"
    );
}

fn a_mapped_task_has_a_log_for_each_index(bench: &Bench) {
    bench.run("mapped");
    let (log, _) = bench.logs("mapped", &["--task", "load", "--map", "1"]);
    assert!(log.contains("rows of us"), "{log}");
    assert_unwrapped(&log);
    let (log, tasks) = bench.logs("mapped", &[]);
    assert!(log.contains("rows in all: 8"), "the last that ran: {log}");
    assert!(tasks.contains("load[2]"), "{tasks}");
    let told = bench.json("mapped");
    let indexes = told["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|t| t["task"] == "load");
    let mut indexes: Vec<u64> = indexes.map(|t| t["map"].as_u64().unwrap()).collect();
    indexes.sort_unstable();
    assert_eq!(indexes, [0, 1, 2]);
}

fn every_try_of_a_task_that_was_tried_again_can_be_read(bench: &Bench) {
    bench.run("flaky");
    let (log, _) = bench.logs("flaky", &[]);
    assert!(log.contains("try 2") && log.contains("rows written"), "{log}");
    let (log, _) = bench.logs("flaky", &["--try", "1"]);
    assert!(log.contains("the source does not answer"), "{log}");
}

/// Seen while the task runs, and to its end.
fn a_running_task_is_followed(bench: &Bench) {
    let day = (bench.day.parse::<chrono::NaiveDate>().unwrap() + chrono::TimeDelta::days(1)).to_string();
    let supervisor = bench
        .program(&["run", "slow"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _supervisor = Ends(supervisor.unwrap());
    let mut source = JournalSource::new(Some(bench.config()));
    let begins = format!("load of {day}, try 1");
    let runs = |v: &InsideView| {
        let running = v
            .tasks()
            .iter()
            .any(|t| t.key.task == "load" && t.standing == Standing::Runs);
        running && texts(v).iter().any(|l| l.contains(&begins))
    };
    let view = bench.see(&mut source, "slow", "the first lines of a task that runs", runs);
    assert!(!view.log.as_ref().unwrap().finished);
    assert!(!texts(&view).iter().any(|l| l.contains("rows written")));
    let out = bench.path("followed");
    let file = std::fs::File::create(&out).unwrap();
    let mut follower = bench.program(&["logs", "slow", &day, "--follow", "--task", "load"]);
    let follower = follower.stdout(file).stderr(Stdio::null()).spawn().unwrap();
    let mut follower = Ends(follower);
    let ends = |v: &InsideView| texts(v).iter().any(|l| l.contains("rows written"));
    let grown = bench.see(&mut source, "slow", "the last line of the task", |v| {
        ends(v) || v.log.as_ref().is_some_and(|l| l.key.task == "publish")
    });
    assert!(grown.trouble.is_none());
    let begun = Instant::now();
    while follower.0.try_wait().unwrap().is_none() {
        assert!(
            begun.elapsed() < PATIENCE,
            "it follows for ever: {}",
            written(&out)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    let log = written(&out);
    assert!(log.contains(&begins) && log.contains("rows written"), "{log}");
    assert_eq!(log.matches(&begins).count(), 1, "each line once: {log}");
    assert_unwrapped(&log);
}

fn all(version: u8) {
    let bench = Bench::new(version);
    the_log_of_each_attempt_is_that_of_its_own_try(&bench);
    a_mapped_task_has_a_log_for_each_index(&bench);
    every_try_of_a_task_that_was_tried_again_can_be_read(&bench);
    a_running_task_is_followed(&bench);
}

#[test]
fn a_real_airflow_3_shows_tasks_tries_indexes_and_logs() {
    all(3);
}

#[test]
#[ignore = "a second version: bash tests/run --full"]
fn a_real_airflow_2_shows_tasks_tries_indexes_and_logs() {
    all(2);
}
