//! Somebody else's backfills on real Airflows of both versions, looked at: the calendar is what the server has, day by
//! day, as an independent reading of all its pages by plain requests says (issue 3, proofs 2 and 4).

// Helpers of tests may fail loudly like tests themselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod airflow_servers;

use airflow_servers::{Airflow, three, two};
use backfill::{
    config::secret::SecretSource,
    domain::{
        Time,
        attach::{Days, Facts, RunPhase},
        spec::Spec,
    },
    executor::{
        Executor,
        airflow::{AirflowExecutor, AirflowSetup, Auth, ConnectionSettings},
        attach::{Observer, Target},
    },
    net::Surroundings,
};
use chrono_tz::Tz;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

/// Two cores begin two tasks a second if they do nothing else, and a busy machine a tenth of that.
const LONG: Duration = Duration::from_secs(900);

/// Day, then run and state, sorted.
type Picture = BTreeMap<String, Vec<(String, String)>>;

/// A window of a DAG.
#[derive(Clone, Copy)]
struct Of {
    dag: &'static str,
    first: &'static str,
    last: &'static str,
    zone: Tz,
    native: Option<u64>,
}

impl Of {
    const fn days(dag: &'static str, first: &'static str, last: &'static str) -> Self {
        Self {
            dag,
            first,
            last,
            zone: Tz::UTC,
            native: None,
        }
    }

    fn order(&self) -> Spec {
        serde_json::from_value(json!({
            "name": "events", "target": self.dag, "environment": null, "start": self.first, "end": self.last,
            "granularity": "day", "timezone": self.zone.name(), "executor": "airflow", "command": [],
            "dag": {"id": self.dag, "pool": "default_pool"}, "attach": {"native": self.native}, "cwd": "/",
            "env_pass": [], "env": {}, "env_secrets": [], "max_limit": 1, "order": "oldest-first", "signals": [],
            "on_failure": "continue", "profiles": [{"name": "default", "memory": null, "deadline_ms": null}],
            "lanes": {}, "source": {}, "idempotent": true,
        }))
        .unwrap()
    }
}

/// One who looks.
struct Look {
    executor: AirflowExecutor,
    eye: Box<dyn Observer>,
    days: Days,
    facts: Facts,
    /// Requests until all days were told.
    cold: u64,
    _folder: tempfile::TempDir,
}

impl Look {
    async fn begin(server: &Airflow, of: Of) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let password = folder.path().join("password");
        std::fs::write(&password, "admin").unwrap();
        let password = SecretSource::File(password);
        let setup = AirflowSetup {
            connection: ConnectionSettings {
                auth: Auth::Password {
                    user: "admin".into(),
                    password,
                },
                surroundings: Surroundings::default(),
                // Tests look faster than people do.
                request_budget: 1000,
                ..ConnectionSettings::new("airflow", &server.url)
            },
            state: folder.path().to_owned(),
            interval: Duration::from_secs(5),
            dags: Vec::new(),
        };
        let executor = AirflowExecutor::new(setup, tokio::sync::mpsc::unbounded_channel().0).unwrap();
        let eye = executor.levers().unwrap().observer(Target {
            backfill: "events-aaaaaa".parse().unwrap(),
            spec: Arc::new(of.order()),
        });
        let mut look = Self {
            executor,
            eye,
            days: Days::new(),
            facts: Facts::default(),
            cold: 0,
            _folder: folder,
        };
        loop {
            look.now().await;
            let Some(reading) = look.facts.reading else {
                return look;
            };
            if look.cold == 0 && reading.read == reading.total {
                look.cold = look.executor.connection().usage().requests;
            }
        }
    }

    async fn now(&mut self) {
        let sight = self.eye.look().await.unwrap();
        if sight.whole {
            self.days.clear();
        }
        for (day, runs) in sight.days {
            self.days.insert(day, runs);
        }
        self.days.retain(|_, runs| !runs.is_empty());
        self.facts = sight.facts;
    }

    /// Looks every second until it is so, at most this often.
    async fn until(&mut self, what: &str, looks: u32, so: impl Fn(&Self) -> bool) {
        for _ in 0..looks {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.now().await;
            if so(self) {
                return;
            }
        }
        panic!("after {looks} looks not {what}: {:#?}", self.facts);
    }

    fn picture(&self) -> Picture {
        let word = |phase| match phase {
            RunPhase::Queued => "queued",
            RunPhase::Running => "running",
            RunPhase::Done => "success",
            RunPhase::Failed => "failed",
            RunPhase::Cancelled => "cancelled",
            RunPhase::Unknown => "unknown",
        };
        let mut picture = Picture::new();
        for (day, runs) in &self.days {
            let mut runs: Vec<_> = runs
                .iter()
                .map(|r| (r.run.0.clone(), word(r.phase).to_owned()))
                .collect();
            runs.sort();
            picture.insert(day.to_string(), runs);
        }
        picture
    }

    fn count(&self, phase: RunPhase) -> usize {
        self.days.values().flatten().filter(|r| r.phase == phase).count()
    }
}

/// The day and the state of a run, by the server's documents alone.
fn day_and_state(run: &Value, zone: Tz) -> (Option<String>, String) {
    let text = |key: &str| run[key].as_str();
    let day = text("partition_key").map(str::to_owned).or_else(|| {
        let at: Time = text("logical_date").or(text("execution_date"))?.parse().unwrap();
        Some(at.with_timezone(&zone).format("%Y-%m-%d").to_string())
    });
    let state = text("state").unwrap();
    let never =
        run["start_date"].is_null() && run["end_date"].is_null() && text("run_type") == Some("backfill");
    let state = if state == "failed" && never {
        "cancelled"
    } else {
        state
    };
    (day, state.to_owned())
}

/// All pages of all runs of the DAG.
fn everything(server: &Airflow, dag: &str) -> Vec<Value> {
    server.rows(&format!("/dags/{dag}/dagRuns?order_by=id"), "dag_runs")
}

fn picture(runs: &[Value], of: Of) -> Picture {
    let mut picture = Picture::new();
    for run in runs {
        let (Some(day), state) = day_and_state(run, of.zone) else {
            continue;
        };
        if (of.first..=of.last).contains(&day.as_str()) {
            let id = run["dag_run_id"].as_str().unwrap().to_owned();
            picture.entry(day).or_default().push((id, state));
        }
    }
    picture.values_mut().for_each(|runs| runs.sort());
    picture
}

fn truth(server: &Airflow, of: Of) -> Picture {
    picture(&everything(server, of.dag), of)
}

fn assert_same(seen: &Picture, truth: &Picture) {
    let wrong: Vec<String> = truth
        .iter()
        .filter(|(day, runs)| seen.get(*day) != Some(runs))
        .map(|(day, runs)| format!("{day}: {:?} is {runs:?}", seen.get(day)))
        .chain(
            seen.keys()
                .filter(|d| !truth.contains_key(*d))
                .map(|d| format!("{d} has no run")),
        )
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Runs only go forward, so what was seen between two readings lies between them.
fn assert_between(before: &Picture, seen: &Picture, after: &Picture) {
    let stage = |state: &str| match state {
        "queued" => 0,
        "running" => 1,
        _ => 2,
    };
    assert_eq!(seen.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (day, runs) in seen {
        for (run, state) in runs {
            let in_it = |picture: &Picture| {
                let found = picture[day].iter().find(|(id, _)| id == run);
                found.unwrap_or_else(|| panic!("{day} has no {run}")).1.clone()
            };
            let (early, late) = (in_it(before), in_it(after));
            let right = stage(&early) <= stage(state) && stage(state) <= stage(&late);
            assert!(
                right && (stage(state) < 2 || *state == late),
                "{day}: {early}, {state}, {late}"
            );
        }
    }
}

/// What a former test left unfinished would keep a new one from being made.
fn end_unfinished(server: &Airflow, dag: &str) {
    for old in server.rows(&format!("/backfills?dag_id={dag}"), "backfills") {
        if old["completed_at"].is_null() {
            server.answer("PUT", &format!("/backfills/{}/cancel", old["id"]), None);
        }
    }
}

fn make(server: &Airflow, dag: &str, from: &str, to: &str, at_once: u32) -> u64 {
    end_unfinished(server, dag);
    // Those of `long_daily` are there to be stopped half way.
    let seconds = if dag == "long_daily" { "600" } else { "0" };
    let order = json!({
        "dag_id": dag, "from_date": from, "to_date": to, "max_active_runs": at_once, "run_backwards": false,
        "reprocess_behavior": "completed", "dag_run_conf": {"sleep": seconds},
    });
    server.post("/backfills", order)["id"].as_u64().unwrap()
}

/// A manual run; one of the same id from a former test is deleted first.
fn trigger(server: &Airflow, dag: &str, id: &str, date: Option<&str>) {
    let escaped = id.replace('+', "%2B").replace(':', "%3A");
    let path = format!("/dags/{dag}/dagRuns/{escaped}");
    if server.answer("GET", &path, None).0 == 200 {
        server.patch(&path, json!({"state": "failed"}));
        assert_eq!(server.answer("DELETE", &path, None).0, 204);
    }
    let body = json!({"dag_run_id": id, "logical_date": date, "conf": {"sleep": "0"}});
    server.post(&format!("/dags/{dag}/dagRuns"), body);
}

async fn until_over(server: &Airflow, dag: &str, ids: &[&str]) {
    let begun = Instant::now();
    for id in ids {
        let escaped = id.replace('+', "%2B").replace(':', "%3A");
        let path = format!("/dags/{dag}/dagRuns/{escaped}");
        while server.get(&path)["end_date"].is_null() {
            assert!(begun.elapsed() < LONG, "{id} does not end");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// Airflow's fact 2 does not matter here, nor any other: nothing is touched.
#[tokio::test(flavor = "multi_thread")]
async fn a_native_backfill_is_seen_as_the_server_has_it_while_it_runs_and_after() {
    let server = three();
    let mut of = Of::days("events_daily", "2024-03-01", "2024-03-30");
    let id = make(server, of.dag, "2024-03-01T00:00:00Z", "2024-03-30T00:00:00Z", 6);
    of.native = Some(id);
    let mut look = Look::begin(server, of).await;
    assert!(look.cold <= 1 + 3, "{} requests for 30 days", look.cold);
    assert_eq!((look.days.len(), look.facts.runs), (30, 30));
    let (begun, mut while_running) = (Instant::now(), 0);
    loop {
        let before = picture(&server.runs(of.dag, of.first, of.last), of);
        look.now().await;
        let after = picture(&server.runs(of.dag, of.first, of.last), of);
        assert_between(&before, &look.picture(), &after);
        let native = look.facts.native.clone().unwrap();
        assert_eq!(
            (native.id, native.limit, native.by.as_deref()),
            (id, 6, Some("admin"))
        );
        while_running += u32::from(look.count(RunPhase::Running) > 0);
        if look.count(RunPhase::Running) + look.count(RunPhase::Queued) == 0 {
            break;
        }
        assert!(begun.elapsed() < LONG, "{:?}", look.facts);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert!(while_running >= 3, "it was looked at while it ran");
    assert_same(&look.picture(), &truth(server, of));
    assert_eq!(
        look.picture()["2024-03-14"][0].1,
        "failed",
        "its load ends with 137"
    );
    assert_eq!(
        (look.count(RunPhase::Done), look.count(RunPhase::Failed)),
        (29, 1)
    );
    look.until("complete", 90, |l| {
        l.facts.native.as_ref().unwrap().completed.is_some()
    })
    .await;
    assert!(!look.facts.native.as_ref().unwrap().is_cancelled());
}

/// Issue 3: within two looks.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_and_a_cancel_by_somebody_else_are_seen_within_two_looks_and_a_paused_dag_is_named() {
    let server = three();
    let mut of = Of::days("long_daily", "2024-08-01", "2024-08-05");
    server.patch("/dags/long_daily", json!({"is_paused": false}));
    let id = make(server, of.dag, "2024-08-01T00:00:00Z", "2024-08-05T00:00:00Z", 2);
    of.native = Some(id);
    let mut look = Look::begin(server, of).await;
    look.until("two days run", 300, |l| l.count(RunPhase::Running) == 2)
        .await;
    look.until("two tasks execute", 300, |l| l.facts.executing == Some(2))
        .await;
    let steer = |verb: &str| server.answer("PUT", &format!("/backfills/{id}/{verb}"), None).0;
    let native = |l: &Look| l.facts.native.clone().unwrap();
    assert_eq!(steer("pause"), 200);
    look.until("paused", 2, |l| native(l).paused).await;
    assert_eq!(steer("unpause"), 200);
    look.until("going on", 2, |l| !native(l).paused).await;
    server.patch("/dags/long_daily", json!({"is_paused": true}));
    look.until("stuck", 60, |l| {
        l.facts
            .stuck
            .as_ref()
            .is_some_and(|s| s.contains("long_daily is paused"))
    })
    .await;
    server.patch("/dags/long_daily", json!({"is_paused": false}));
    assert_eq!(steer("cancel"), 200);
    look.until("cancelled", 2, |l| native(l).is_cancelled()).await;
    assert_eq!(
        (look.count(RunPhase::Cancelled), look.count(RunPhase::Running)),
        (3, 2)
    );
    assert_same(&look.picture(), &truth(server, of));
    for run in server.runs(of.dag, of.first, of.last) {
        let id = run["dag_run_id"].as_str().unwrap().replace('+', "%2B");
        server.patch(
            &format!("/dags/long_daily/dagRuns/{id}"),
            json!({"state": "failed"}),
        );
    }
    look.until("ended", 5, |l| l.count(RunPhase::Running) == 0).await;
}

/// Airflow's fact 8, over the day on which clocks change.
async fn new_york(server: &Airflow) {
    let mut of = Of::days("newyork_daily", "2024-03-08", "2024-03-12");
    of.zone = Tz::America__New_York;
    let hours = ["08T05", "09T05", "10T05", "11T04", "12T04"];
    if server.version == 3 {
        make(server, of.dag, "2024-03-08T05:00:00Z", "2024-03-12T04:00:00Z", 5);
    } else {
        for hour in hours {
            trigger(
                server,
                of.dag,
                &format!("attach+{hour}"),
                Some(&format!("2024-03-{hour}:00:00Z")),
            );
        }
    }
    let mut look = Look::begin(server, of).await;
    assert_eq!(look.days.len(), 5);
    assert_eq!(look.facts.note, None);
    look.until("done", 600, |l| {
        l.count(RunPhase::Done) == l.days.values().flatten().count()
    })
    .await;
    assert_same(&look.picture(), &truth(server, of));
    let utc = Look::begin(server, Of { zone: Tz::UTC, ..of }).await;
    let note = "the runs lie at midnight of America/New_York, not of UTC, whose days these are";
    assert_eq!(utc.facts.note.as_deref(), Some(note));
    let levers = look.executor.levers().unwrap();
    let found = levers.find(Some(of.dag), None, None).await.unwrap();
    assert_eq!(found.zone, Some(Tz::America__New_York));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dag_in_new_york_has_its_own_days_on_airflow_3() {
    new_york(three()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dag_in_new_york_has_its_own_days_on_airflow_2() {
    new_york(two()).await;
}

/// Airflow's fact 7.
#[tokio::test(flavor = "multi_thread")]
async fn a_partitioned_dag_has_the_days_of_its_partitions() {
    let server = three();
    let of = Of::days("partitioned_daily", "2024-05-01", "2024-05-31");
    make(server, of.dag, "2024-05-01T00:00:00Z", "2024-05-04T00:00:00Z", 4);
    for key in [json!("2024-05-09"), Value::Null] {
        let body = json!({"logical_date": null, "partition_key": key, "conf": {"sleep": "0"}});
        server.post("/dags/partitioned_daily/dagRuns", body);
    }
    let mut look = Look::begin(server, of).await;
    look.until("done", 600, |l| {
        l.count(RunPhase::Done) == l.days.values().flatten().count()
    })
    .await;
    let runs = everything(server, of.dag);
    assert_same(&look.picture(), &picture(&runs, of));
    assert_eq!(look.days.len(), 5);
    let undated = runs.iter().filter(|r| r["partition_key"].is_null()).count();
    look.until("counted", 70, |l| l.facts.undated as usize == undated)
        .await;
}

/// Airflow's fact 7 again: on 3.x a run may have no date.
async fn mapped(server: &Airflow) {
    let of = Of::days("mapped_daily", "2024-06-01", "2024-06-30");
    let ids = ["attach+1", "attach+2", "attach+3"];
    for (n, id) in (1..).zip(ids) {
        trigger(server, of.dag, id, Some(&format!("2024-06-0{n}T00:00:00Z")));
    }
    if server.version == 3 {
        trigger(server, of.dag, "attach+none", None);
    }
    let mut look = Look::begin(server, of).await;
    look.until("done", 600, |l| l.count(RunPhase::Done) == 3).await;
    let runs = everything(server, of.dag);
    assert_same(&look.picture(), &picture(&runs, of));
    assert_eq!(look.days.len(), 3);
    let undated = runs.iter().filter(|r| r["logical_date"].is_null()).count();
    assert_eq!(
        (look.facts.undated as usize, undated > 0),
        (undated, server.version == 3)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_mapped_tasks_and_runs_without_a_date_are_seen_on_airflow_3() {
    mapped(three()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_mapped_tasks_are_seen_on_airflow_2() {
    mapped(two()).await;
}

/// Three years that somebody else ran, of which some are deleted while we look.
async fn three_years(server: &Airflow) {
    let of = Of::days("events_daily", "2016-01-01", "2018-12-31");
    trigger(server, of.dag, "attach+model", Some("2024-07-01T00:00:00Z"));
    until_over(server, of.dag, &["attach+model"]).await;
    seed(server, of.dag, of.first, 1096);
    // A second run on a day, which begins before the DAG does: Airflow's fact 1.
    trigger(server, of.dag, "attach+noon_12:00", Some("2016-05-05T12:00:00Z"));
    until_over(server, of.dag, &["attach+noon_12:00"]).await;
    let mut look = Look::begin(server, of).await;
    assert!(look.cold <= 11 + 3 + 1, "{} requests for 1,097 runs", look.cold);
    assert_same(&look.picture(), &truth(server, of));
    let noon = &look.days[&"2016-05-05".parse().unwrap()][1];
    assert_eq!(
        (noon.run.0.as_str(), noon.phase),
        ("attach+noon_12:00", RunPhase::Done)
    );
    assert_eq!(noon.word, "success, but before the DAG's start date: no task ran");
    for id in ["seed__2016-02-29", "seed__2017-07-07", "attach%2Bnoon_12%3A00"] {
        let path = format!("/dags/{}/dagRuns/{id}", of.dag);
        assert_eq!(server.answer("DELETE", &path, None).0, 204);
    }
    look.until("gone", 5, |l| l.facts.runs == 1094).await;
    let changed = format!("/dags/{}/dagRuns/seed__2018-08-08", of.dag);
    server.patch(&changed, json!({"state": "failed"}));
    look.until("failed", 2, |l| l.picture()["2018-08-08"][0].1 == "failed")
        .await;
    assert_same(&look.picture(), &truth(server, of));
    server.patch(&changed, json!({"state": "success"}));
}

fn seed(server: &Airflow, dag: &str, first: &str, days: u32) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/airflow.sh");
    let mut command = Command::new("bash");
    command.arg(script).arg("seed").arg(&server.dir);
    let done = command.args([dag, first, &days.to_string()]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn three_years_are_seen_and_what_is_deleted_of_them_is_noticed_on_airflow_3() {
    three_years(three()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a second version: bash tests/run --full"]
async fn three_years_are_seen_and_what_is_deleted_of_them_is_noticed_on_airflow_2() {
    three_years(two()).await;
}
