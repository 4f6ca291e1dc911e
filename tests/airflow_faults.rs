//! A real Airflow that goes away in the middle of the work (issue 3, proof 5): it hangs, drowns in 503, is stopped and
//! started again, its tokens expire, its key changes. Each time nothing is lost and nothing is done twice, what is
//! wrong is told while it lasts, the supervisor hears its operator, and it goes on by itself within an interval.

// Helpers of tests may fail loudly like tests themselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod airflow_servers;
mod support;

use airflow_servers::{
    Airflow, Own,
    proxy::{Proxy, Way},
    three,
};
use backfill::domain::{
    event::{Outcome, Payload},
    state::{Backfill, ChunkState},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};
use support::{Drive, Running, Workspace, ms};

const DAG: &str = "ondemand";
/// Time between two looks at the runs.
const INTERVAL: Duration = Duration::from_secs(2);
/// What a busy machine may add to anything.
const BUSY: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(240);

/// Backfill `events` of single-task runs on a server, and the program that supervises it.
struct Work<'a> {
    server: &'a Airflow,
    days: (&'static str, &'static str),
    workspace: Workspace,
    run: Running,
}

impl<'a> Work<'a> {
    /// Four days at a time, a second of work each, by way of `url`.
    fn begin(
        server: &'a Airflow,
        url: &str,
        days: (&'static str, &'static str),
        change: impl FnOnce(&mut Drive),
    ) -> Self {
        server.forget(DAG, days.0, days.1);
        let mut drive = Drive::new(url, days);
        drive.dag = DAG;
        drive.max_limit = 4;
        drive.interval = "2s";
        drive.order = "conf = { sleep = 1 }\n".to_owned();
        change(&mut drive);
        let workspace = drive.open();
        let run = workspace.run_with("events", |c| {
            c.env("BACKFILL_LOG", "backfill=debug,warn");
        });
        Self {
            server,
            days,
            workspace,
            run,
        }
    }

    fn wait<T>(&self, what: &str, mut wanted: impl FnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = wanted() {
                return found;
            }
            assert!(
                begun.elapsed() < LONG,
                "waited for {what}\n{}",
                self.workspace.told()
            );
            std::thread::sleep(ms(100));
        }
    }

    fn wait_for_done(&self, days: usize) {
        self.wait("some days", || {
            (self.workspace.done("events") >= days).then_some(())
        });
    }

    /// What keeps the executor from taking anything, by `status --json`.
    fn problem(&self) -> Option<String> {
        let whole: Value = serde_json::from_str(&self.workspace.call(&["status", "--json"]).out).ok()?;
        let reason = whole["backfills"].get(0)?["reason"].clone();
        (reason["reason"] == "executor").then(|| reason["text"].as_str().unwrap().to_owned())
    }

    /// Waits until `status` tells a problem with these words.
    fn told(&self, words: &str) -> Duration {
        let begun = Instant::now();
        self.wait(words, || self.problem().filter(|p| p.contains(words)));
        begun.elapsed()
    }

    /// Waits until nothing is wrong any more, by `status`.
    fn well(&self) -> Duration {
        let begun = Instant::now();
        self.wait("the end of the problem", || {
            self.problem().is_none().then_some(())
        });
        begun.elapsed()
    }

    /// Waits until no task moves any more under a paused DAG. A run whose task had not been sent off by then stays
    /// *running* as long as the pause lasts, so that it is the tasks that are asked about, and twice: the scheduler
    /// may have been in the middle of sending one.
    fn ends_what_moves(&self) {
        let mut quiet = 0;
        self.wait("the ends of those that ran", || {
            let moving = self.server.runs(DAG, self.days.0, self.days.1).iter().any(|run| {
                let id = run["dag_run_id"].as_str().unwrap().replace('+', "%2B");
                let tasks = self.server.rows(
                    &format!("/dags/{DAG}/dagRuns/{id}/taskInstances"),
                    "task_instances",
                );
                tasks
                    .iter()
                    .any(|t| t["state"] == "running" || t["state"] == "queued")
            });
            quiet = if moving { 0 } else { quiet + 1 };
            std::thread::sleep(INTERVAL);
            (quiet >= 2).then_some(())
        });
    }

    /// Two days at a time, for now.
    fn keep_two(&self) {
        self.workspace
            .wait("the start", || self.workspace.backfill("events"));
        self.workspace.call(&["throttle", "events", "cap", "2"]).ok();
        self.wait_for_done(2);
        self.wait("two under way", || {
            let active = self.workspace.backfill("events").unwrap().active().count();
            (active == 2).then_some(())
        });
    }

    /// Two more than are under way: they are sent into whatever is the matter now.
    fn send_two_more(&self) {
        self.workspace.call(&["throttle", "events", "auto"]).ok();
        let submitting = || {
            let backfill = self.workspace.backfill("events").unwrap();
            let sent = backfill.count(ChunkState::Submitting) + backfill.count(ChunkState::Uncertain);
            (sent >= 2).then_some(())
        };
        self.wait("two that are being sent", submitting);
    }

    fn pause(&self) {
        let begun = Instant::now();
        let said = self.workspace.call(&["pause", "events"]).ok();
        assert!(said.out.starts_with("paused"), "{said:?}");
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    }

    fn resume(&self) {
        self.workspace.call(&["resume", "events"]).ok();
    }

    /// The operator is heard: a pause is confirmed at once, whatever the server does.
    fn hears_its_operator(&self) {
        self.pause();
        self.resume();
    }

    /// How often an attempt failed, was withdrawn or was uncertain.
    fn count(&self, wanted: impl Fn(&Payload) -> bool) -> usize {
        self.workspace.count(wanted)
    }

    /// Everything gets done, with one run a day, and no attempt's work was done twice.
    fn ends_well(mut self) -> (Workspace, Backfill) {
        assert_eq!(self.run.end_within(LONG), 0, "{}", self.workspace.told());
        let backfill = self.workspace.backfill("events").unwrap();
        assert_eq!(backfill.count(ChunkState::Done) as usize, backfill.chunks.len());
        self.workspace.assert_sound();
        let runs = self.server.runs(DAG, self.days.0, self.days.1);
        assert_eq!(runs.len(), backfill.chunks.len());
        for run in &runs {
            let id = run["dag_run_id"].as_str().unwrap();
            assert!(id.starts_with(&format!("{}__", backfill.id)), "{id}");
            assert_eq!(run["state"], "success", "{id}");
        }
        let mut work: BTreeMap<String, usize> = BTreeMap::new();
        for line in self.server.ledger() {
            if line.run.starts_with(&format!("{}__", backfill.id)) {
                *work.entry(line.day).or_default() += 1;
            }
        }
        for chunk in &backfill.chunks {
            let sent = chunk.attempts.iter().filter(|a| a.run.is_some()).count();
            let done = work.get(&chunk.id.to_string()).copied().unwrap_or(0);
            assert!(
                (1..=sent).contains(&done),
                "{}: {done} of {sent} attempts",
                chunk.id
            );
        }
        (self.workspace, backfill)
    }
}

fn attempts(backfill: &Backfill) -> usize {
    backfill.chunks.iter().map(|c| c.attempts.len()).sum()
}

/// Requests as they are counted: how many of each method and kind of path.
fn tally(lines: &[String]) -> BTreeMap<String, usize> {
    let mut tally = BTreeMap::new();
    for line in lines {
        let path = line.split('?').next().unwrap();
        let kind: Vec<&str> = path.split('/').filter(|part| !part.contains("__")).collect();
        *tally.entry(kind.join("/")).or_default() += 1;
    }
    tally
}

#[test]
fn a_server_that_hangs_is_told_and_taken_up_again_with_nothing_lost_or_doubled() {
    let long = std::env::var("BACKFILL_TEST_LONG").is_ok_and(|v| v == "1");
    let hang = Duration::from_secs(if long { 60 } else { 20 });
    let server = three();
    server.warm_up();
    let proxy = Proxy::before(&server.url);
    let work = Work::begin(server, &proxy.url, ("2023-01-01", "2023-01-10"), |_| {});
    work.keep_two();
    proxy.set(Way::Held);
    let begun = Instant::now();
    work.send_two_more();
    let told = work.told("no answer for");
    assert!(told < Duration::from_secs(15) + INTERVAL + BUSY, "{told:?}");
    work.hears_its_operator();
    std::thread::sleep(hang.saturating_sub(begun.elapsed()));
    let (held, asked) = (begun.elapsed(), proxy.seen_since(begun).len());
    proxy.set(Way::Open);
    let well = work.well();
    assert!(well < INTERVAL + BUSY, "{well:?}");
    let done = work.workspace.done("events");
    let begun = Instant::now();
    work.wait_for_done(done + 1);
    let goes_on = well + begun.elapsed();
    let (_, backfill) = work.ends_well();
    println!(
        "hung for {held:.1?}: told after {told:.1?}, well after {well:.1?}, a day done after {goes_on:.1?}; \
         {asked} requests meanwhile; {} attempts for 10 days",
        attempts(&backfill)
    );
}

#[test]
fn a_storm_of_503_costs_no_attempt_and_few_requests() {
    let server = three();
    server.warm_up();
    let proxy = Proxy::before(&server.url);
    let work = Work::begin(server, &proxy.url, ("2023-02-01", "2023-02-10"), |_| {});
    work.keep_two();
    proxy.set(Way::Storm);
    let begun = Instant::now();
    work.send_two_more();
    let told = work.told("503");
    assert!(told < Duration::from_secs(5) + INTERVAL + BUSY, "{told:?}");
    work.hears_its_operator();
    std::thread::sleep(Duration::from_secs(10).saturating_sub(begun.elapsed()));
    let storm = begun.elapsed();
    let asked = proxy.seen_since(begun);
    proxy.set(Way::Open);
    let well = work.well();
    assert!(well < INTERVAL + BUSY, "{well:?}");
    // A poll each interval, a look at the health in between, and what was sent into it.
    let most = 12 + 3 * storm.as_secs() as usize;
    assert!(
        asked.len() <= most,
        "{} requests: {:?}",
        asked.len(),
        tally(&asked)
    );
    let failed = |p: &Payload| matches!(p, Payload::RunEnded { outcome, .. } if *outcome != Outcome::Done);
    let failed = work.count(failed);
    let (workspace, backfill) = work.ends_well();
    assert_eq!(failed, 0, "{}", workspace.told());
    println!(
        "503 for {storm:.1?}: told after {told:.1?}, well after {well:.1?}; {} requests meanwhile {:?}; {} attempts \
         for 10 days",
        asked.len(),
        tally(&asked),
        attempts(&backfill)
    );
}

/// The request that makes the run is under way, and the one to end it finds nothing.
#[test]
fn a_cancel_in_the_middle_of_a_submission_ends_the_run_that_comes_of_it() {
    let server = three();
    server.warm_up();
    let proxy = Proxy::before(&server.url);
    let days = ("2023-07-01", "2023-07-02");
    let mut work = Work::begin(server, &proxy.url, days, |drive| {
        drive.order = "conf = { sleep = 120 }\n".to_owned();
        // Only the first one has a slot.
        drive.executor.push_str("slots = 1\n");
    });
    work.wait("the first run", || {
        (work.workspace.in_state("events", ChunkState::Running) == 1).then_some(())
    });
    proxy.set(Way::Held);
    work.workspace
        .write_config(&work.workspace.text().replace("slots = 1\n", "slots = 2\n"));
    work.wait("a submission of which nobody hears", || {
        (work.workspace.in_state("events", ChunkState::Uncertain) == 1).then_some(())
    });
    work.workspace.call(&["cancel", "events", "--yes"]).ok();
    std::thread::sleep(Duration::from_secs(1));
    let begun = Instant::now();
    proxy.set(Way::Open);
    assert_eq!(work.run.end_within(LONG), 1, "{}", work.workspace.told());
    let took = begun.elapsed();
    let backfill = work.workspace.backfill("events").unwrap();
    assert_eq!(
        backfill.count(ChunkState::Cancelled),
        2,
        "{}",
        work.workspace.told()
    );
    let runs = server.runs(DAG, days.0, days.1);
    assert_eq!(runs.len(), 2, "the second one was made after all");
    assert!(runs.iter().all(|r| r["state"] == "failed"), "{runs:?}");
    println!("cancelled in the middle of a submission: both ended {took:.1?} after the server was back");
}

/// The server of those tests that stop it: whose tokens live for 15 s, for one test at a time.
fn own() -> MutexGuard<'static, Own> {
    static OWN: OnceLock<Mutex<Own>> = OnceLock::new();
    let own = OWN.get_or_init(|| Mutex::new(Own::start(3, "faults", &[("TOKEN_SECONDS", "15")])));
    let own = own.lock().unwrap_or_else(PoisonError::into_inner);
    // A test that failed may have left it as it was then.
    own.start_again();
    own.patch(&format!("/dags/{DAG}"), json!({"is_paused": false}));
    own.warm_up();
    own
}

#[test]
fn tokens_that_expire_are_renewed_before_and_nobody_notices() {
    let server = own();
    let proxy = Proxy::before(&server.url);
    let begun = Instant::now();
    let work = Work::begin(&server, &proxy.url, ("2023-03-01", "2023-03-06"), |drive| {
        drive.max_limit = 1;
        drive.order = "conf = { sleep = 4 }\n".to_owned();
    });
    let uncertain = |p: &Payload| matches!(p, Payload::RunUncertain { .. });
    work.wait_for_done(5);
    assert_eq!((work.problem(), work.count(uncertain)), (None, 0));
    let (_, backfill) = work.ends_well();
    let took = begun.elapsed();
    let log_ins = proxy
        .seen_since(begun)
        .iter()
        .filter(|l| l.contains("/auth/token"))
        .count();
    // One at the start, and one for each lifetime less a tenth.
    let expected = took.as_secs() as usize * 10 / 135;
    assert!(
        (expected..=expected + 2).contains(&log_ins),
        "{log_ins} in {took:?}"
    );
    assert_eq!(attempts(&backfill), 6);
    println!("tokens of 15 s: {log_ins} log-ins in {took:.1?}");
}

/// Case S03: after a refusal nothing is sent before the secret's source holds another value.
#[test]
fn a_ready_token_that_expired_stops_everything_until_another_one_is_there() {
    let server = own();
    let proxy = Proxy::before(&server.url);
    let token = || {
        let who = json!({"username": "admin", "password": "admin"});
        server.token(who)
    };
    let first = token();
    let work = Work::begin(&server, &proxy.url, ("2023-04-01", "2023-04-12"), |drive| {
        drive.auth = "{ token = { file = \"token\" } }".to_owned();
        // Four at a time: longer work than the token lives, however quick the machine is.
        drive.order = "conf = { sleep = 6 }\n".to_owned();
        drive.files.insert("token", first);
    });
    let told = work.told("401");
    work.hears_its_operator();
    std::thread::sleep(2 * INTERVAL);
    let quiet = Instant::now();
    std::thread::sleep(3 * INTERVAL);
    assert_eq!(proxy.seen_since(quiet), Vec::<String>::new());
    fs::write(work.workspace.path("token"), token()).unwrap();
    let well = work.well();
    assert!(well < INTERVAL + BUSY, "{well:?}");
    println!("token of 15 s: told after {told:.1?}, well {well:.1?} after a new one was there");
}

#[test]
fn a_server_that_is_stopped_and_started_again_loses_no_run_and_doubles_none() {
    let server = own();
    let work = Work::begin(&server, &server.url, ("2023-05-01", "2023-05-08"), |_| {});
    work.wait_for_done(2);
    server.stop(Some("api"));
    let told = work.told("connection refused");
    assert!(told < Duration::from_secs(5) + INTERVAL + BUSY, "{told:?}");
    work.hears_its_operator();
    std::thread::sleep(Duration::from_secs(3));
    server.start_again();
    let well = work.well();
    assert!(well < INTERVAL + BUSY, "{well:?}");
    let (_, backfill) = work.ends_well();
    println!(
        "stopped: told after {told:.1?}, well after {well:.1?}; {} attempts for 8 days",
        attempts(&backfill)
    );
}

#[test]
fn a_server_that_comes_back_with_another_key_is_logged_in_to_again_by_itself() {
    let server = own();
    let paused = |yes: bool| server.patch(&format!("/dags/{DAG}"), json!({"is_paused": yes}));
    let work = Work::begin(&server, &server.url, ("2023-06-01", "2023-06-06"), |_| {});
    work.wait_for_done(2);
    // Nothing runs while all of it is stopped; what is queued stays queued.
    paused(true);
    let told = work.told("is paused");
    work.ends_what_moves();
    server.stop(None);
    server.change_key();
    work.told("connection refused");
    work.hears_its_operator();
    server.start_again();
    let back = work.told("is paused");
    assert!(back < INTERVAL + BUSY, "{back:?}");
    paused(false);
    let well = work.well();
    let (_, backfill) = work.ends_well();
    assert_eq!(attempts(&backfill), 6);
    println!("another key: paused told after {told:.1?}, back after {back:.1?}, well after {well:.1?}");
}

/// It answers as ever, and nothing moves. Airflow itself takes half a minute to notice, so only with
/// `BACKFILL_TEST_LONG=1`.
#[test]
fn a_scheduler_that_died_is_told_while_everything_else_answers() {
    if std::env::var("BACKFILL_TEST_LONG").is_ok_and(|v| v == "1") {
        let server = own();
        // Enough of them that most wait when the scheduler dies.
        let work = Work::begin(&server, &server.url, ("2023-08-01", "2023-08-24"), |_| {});
        work.wait_for_done(1);
        server.stop(Some("scheduler"));
        let told = work.told("its scheduler is not alive");
        work.hears_its_operator();
        server.start_again();
        let well = work.well();
        work.ends_well();
        println!("scheduler dead: told after {told:.1?}, well after {well:.1?}");
    }
}
