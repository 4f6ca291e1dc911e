//! What attaching to an Airflow costs: the cold start (from nothing to all days told) beside a plain paged download of
//! the same runs, and a minute of looking at what was read, at rest and while runs change. Windows of 1,500 and of
//! 10,000 runs on a real Airflow 3.
//!
//! `cargo bench --bench airflow`. Takes the server that `BACKFILL_AIRFLOW3_URL` and `BACKFILL_AIRFLOW3_DIR` name, else
//! starts one with `tests/services/airflow.sh` and stops it at the end. About a quarter of an hour: what is looked at
//! now and then is part of a steady minute only after the first five.
//!
//! Prints tables in Markdown. Exits with 1 if a bound is broken (requests of a cold start, its seconds beside the
//! fastest plain way, requests of a steady minute), and with 2 if there is no server and nothing was measured.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../tests/airflow_servers/mod.rs"]
mod airflow_servers;

use airflow_servers::{Airflow, Own};
use backfill::config::secret::SecretSource;
use backfill::domain::{attach::Days, attach::RunPhase, spec::Spec};
use backfill::executor::airflow::{AirflowExecutor, AirflowSetup, Auth, ConnectionSettings};
use backfill::executor::attach::{Observer, Target};
use backfill::{executor::Executor, net::Surroundings};
use chrono::{NaiveDate, TimeDelta};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{sync::Arc, thread};
use tokio::runtime::Runtime;

/// A DAG in whose time before 2018 nobody else has runs.
const DAG: &str = "retry_daily";
const FIRST: &str = "1990-01-01";
/// Each window begins with the one before.
const SIZES: [u32; 2] = [1_500, 10_000];
const ROUNDS: usize = 5;
/// What the default configuration has.
const INTERVAL: Duration = Duration::from_secs(5);
const BUDGET: u32 = 60;
/// From then on a part of the window is read again now and then.
const SETTLED: Duration = Duration::from_secs(310);
/// These runs change; neither is one of those that are seeded as failed.
const CHANGING: [&str; 4] = ["1990-02-03", "1991-05-06", "1992-07-08", "1993-09-10"];

/// Requests beside one for a hundred days: the login, the version and the DAG.
const FURTHER: u64 = 3;
/// How much longer than the fastest plain way.
const FACTOR: f64 = 1.2;
/// Of the budget a fifth is kept for commands.
const STEADY_MOST: u64 = BUDGET as u64 * 4 / 5;

fn main() -> ExitCode {
    let Some((server, _own)) = find_server() else {
        eprintln!("There is no Airflow 3 to be had (see above): nothing was measured.");
        return ExitCode::from(2);
    };
    let server = &server;
    let runtime = Runtime::new().unwrap();
    backfill::net::use_ring();
    make_model(server);
    change(server, "success", Duration::ZERO);
    let mut broken = Vec::new();
    println!("{}\n\n{COLD_HEAD}", conditions(server));
    for days in SIZES {
        let window = Window::of(server, days);
        cold_starts(&runtime, server, &window, &mut broken);
    }
    println!("\n{STEADY_HEAD}");
    steady_minutes(&runtime, server, &mut broken);
    change(server, "success", Duration::ZERO);
    for bound in &broken {
        println!("\nNOT KEPT: {bound}");
    }
    ExitCode::from(u8::from(!broken.is_empty()))
}

/// The server that was named, or one that ends with what comes beside it; `None` if it does not answer or start, which
/// is then told by those who tried.
fn find_server() -> Option<(Airflow, Option<Own>)> {
    let named = |what: &str| std::env::var(format!("BACKFILL_AIRFLOW3_{what}")).ok();
    let given = |what: &str| named(what).filter(|v| !v.is_empty());
    if let (Some(url), Some(dir)) = (given("URL"), given("DIR").map(Into::into)) {
        let named = Airflow { version: 3, url, dir };
        std::panic::catch_unwind(|| named.get("/version")).ok()?;
        return Some((named, None));
    }
    let own = std::panic::catch_unwind(|| Own::start(3, "cost", &[])).ok()?;
    Some(((*own).clone(), Some(own)))
}

fn conditions(server: &Airflow) -> String {
    let (today, version) = (chrono::Utc::now().date_naive(), server.get("/version"));
    let version = version["version"].as_str().unwrap();
    let cores = thread::available_parallelism().unwrap();
    format!("{today}, Airflow {version}, {cores} cores, medians of {ROUNDS} rounds (fastest to slowest)")
}

/// A real run, after which the seeded ones are made.
fn make_model(server: &Airflow) {
    server.warm_up();
    let path = format!("/dags/{DAG}/dagRuns/cost-model");
    if server.answer("GET", &path, None).0 == 404 {
        let body = json!({"dag_run_id": "cost-model", "logical_date": "2025-12-30T00:00:00Z", "conf": {"sleep": "0"}});
        server.post(&format!("/dags/{DAG}/dagRuns"), body);
    }
    let begun = Instant::now();
    while server.get(&path)["state"] != "success" {
        let patient = begun.elapsed() < Duration::from_secs(300);
        assert!(patient, "the model does not succeed");
        thread::sleep(Duration::from_secs(1));
    }
}

/// Has the runs that change in a state, those of them that there are, with a pause before each.
fn change(server: &Airflow, state: &str, pause: Duration) {
    for day in CHANGING {
        thread::sleep(pause);
        let path = format!("/dags/{DAG}/dagRuns/seed__{day}");
        let (status, run) = server.answer("GET", &path, None);
        if status == 200 && run["state"] != state {
            server.patch(&path, json!({"state": state}));
        }
    }
}

/// Days with one run each.
struct Window {
    days: u32,
    last: String,
}

impl Window {
    /// Has the server hold them.
    fn of(server: &Airflow, days: u32) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/airflow.sh");
        let mut command = Command::new("bash");
        command.args([script, "seed"]).arg(&server.dir).args([DAG, FIRST]);
        let done = command.arg(days.to_string()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        // What has just been written would be read again by the first poll.
        thread::sleep(Duration::from_secs(10));
        let first: NaiveDate = FIRST.parse().unwrap();
        let last = (first + TimeDelta::days(i64::from(days) - 1)).to_string();
        Self { days, last }
    }

    fn order(&self) -> Spec {
        serde_json::from_value(json!({
            "name": "events", "target": DAG, "environment": null, "start": FIRST, "end": self.last,
            "granularity": "day", "timezone": "UTC", "executor": "airflow", "command": [], "dag": {"id": DAG},
            "attach": {"native": null}, "cwd": "/", "env_pass": [], "env": {}, "env_secrets": [], "max_limit": 1,
            "order": "oldest-first", "signals": [], "on_failure": "continue",
            "profiles": [{"name": "default", "memory": null, "deadline_ms": null}], "lanes": {}, "source": {},
            "idempotent": true,
        }))
        .unwrap()
    }
}

/// What something cost; bytes are those of bodies, unpacked.
#[derive(Clone, Copy)]
struct Cost {
    requests: u64,
    bytes: u64,
    took: Duration,
}

impl Cost {
    fn since(began: Instant, requests: u64, bytes: u64) -> Self {
        Self {
            requests,
            bytes,
            took: began.elapsed(),
        }
    }
}

/// How a script would download all pages: how many at a time, and whether packed.
type Plain = (&'static str, usize, bool);

const PLAIN: [Plain; 3] = [
    ("plain pages, one at a time", 1, true),
    ("plain pages, two at a time", 2, true),
    ("plain pages, two at a time, without gzip", 2, false),
];

/// With a token that was there: its login does not count.
async fn download((_, at_once, packed): Plain, server: &Airflow, window: &Window) -> Cost {
    let token = server.token(json!({"username": "admin", "password": "admin"}));
    let began = Instant::now();
    let builder = reqwest::Client::builder().no_proxy().gzip(packed);
    let client = builder.build().unwrap();
    let base = format!(
        "{}/api/v2/dags/{DAG}/dagRuns?logical_date_gte={FIRST}T00:00:00Z&logical_date_lte={}T00:00:00Z",
        server.url, window.last
    );
    let page = |offset: u64| {
        let url = format!("{base}&limit=100&offset={offset}");
        let request = client.get(url).bearer_auth(&token);
        async move {
            let answer = request.send().await.unwrap().error_for_status().unwrap();
            let body = answer.bytes().await.unwrap();
            let page: Value = serde_json::from_slice(&body).unwrap();
            (body.len() as u64, page)
        }
    };
    let rows = |page: &Value| page["dag_runs"].as_array().unwrap().len();
    let (length, first) = page(0).await;
    let (total, mut runs) = (first["total_entries"].as_u64().unwrap(), rows(&first));
    let (mut requests, mut bytes) = (1, length);
    let mut pages = stream::iter((100..total).step_by(100).map(page)).buffer_unordered(at_once);
    while let Some((length, page)) = pages.next().await {
        (requests, bytes, runs) = (requests + 1, bytes + length, runs + rows(&page));
    }
    assert_eq!(runs, window.days as usize);
    Cost::since(began, requests, bytes)
}

/// One who looks.
struct Look {
    executor: AirflowExecutor,
    eye: Box<dyn Observer>,
    days: Days,
    _folder: tempfile::TempDir,
}

impl Look {
    fn new(server: &Airflow, window: &Window) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().to_owned();
        std::fs::write(state.join("password"), "admin").unwrap();
        let password = SecretSource::File(state.join("password"));
        let user = "admin".to_owned();
        let connection = ConnectionSettings {
            auth: Auth::Password { user, password },
            surroundings: Surroundings::default(),
            request_budget: BUDGET,
            ..ConnectionSettings::new("airflow", &server.url)
        };
        let setup = AirflowSetup {
            connection,
            state,
            interval: INTERVAL,
            dags: Vec::new(),
        };
        let executor = AirflowExecutor::new(setup, tokio::sync::mpsc::unbounded_channel().0).unwrap();
        let eye = executor.levers().unwrap().observer(Target {
            backfill: "events-aaaaaa".parse().unwrap(),
            spec: Arc::new(window.order()),
        });
        Self {
            executor,
            eye,
            days: Days::new(),
            _folder: folder,
        }
    }

    /// Looks once; whether all of the window has been told.
    async fn now(&mut self) -> bool {
        let sight = self.eye.look().await.unwrap();
        if sight.whole {
            self.days.clear();
        }
        self.days.extend(sight.days);
        self.days.retain(|_, runs| !runs.is_empty());
        sight.facts.reading.is_none_or(|r| r.read == r.total)
    }

    /// From nothing to all days told.
    async fn cold(server: &Airflow, window: &Window) -> (Self, Cost) {
        let began = Instant::now();
        let mut look = Self::new(server, window);
        while !look.now().await {}
        let cost = look.spent(began);
        assert_eq!(look.days.len(), window.days as usize);
        (look, cost)
    }

    /// Since the beginning.
    fn spent(&self, began: Instant) -> Cost {
        let usage = self.executor.connection().usage();
        Cost::since(began, usage.requests, usage.bytes)
    }

    fn failed(&self, day: &str) -> bool {
        let mut runs = self.days[&day.parse().unwrap()].iter();
        runs.any(|r| r.phase == RunPhase::Failed)
    }
}

const COLD_HEAD: &str =
    "| runs | | requests | MB | seconds | bounds |\n| ---: | --- | ---: | ---: | --- | --- |";

/// All ways in turns, because a machine is not as fast in one minute as in the next.
fn cold_starts(runtime: &Runtime, server: &Airflow, window: &Window, broken: &mut Vec<String>) {
    let mut plain = PLAIN.map(|_| Vec::new());
    let mut ours = Vec::new();
    // The first round, which warms the server up, does not count.
    for round in 0..=ROUNDS {
        for turn in 0..=PLAIN.len() {
            let way = (round + turn) % (PLAIN.len() + 1);
            let (costs, cost) = match PLAIN.get(way) {
                Some(one) => (&mut plain[way], runtime.block_on(download(*one, server, window))),
                None => (&mut ours, runtime.block_on(Look::cold(server, window)).1),
            };
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    for ((name, ..), costs) in PLAIN.iter().zip(&plain) {
        println!("{}", cold_row(window.days, name, costs, ""));
    }
    let fastest = plain.iter().map(|costs| median(costs).took).min().unwrap();
    judge(window.days, &ours, fastest, broken);
}

/// The row of ours, and what of its bounds is broken.
fn judge(days: u32, ours: &[Cost], fastest: Duration, broken: &mut Vec<String>) {
    let most = u64::from(days.div_ceil(100)) + FURTHER;
    let longest = fastest.mul_f64(FACTOR);
    let bounds = format!("{most} requests, {:.2} s", longest.as_secs_f64());
    println!("{}", cold_row(days, "cold start of `backfill`", ours, &bounds));
    let requests = ours.iter().map(|c| c.requests).max().unwrap();
    if requests > most {
        broken.push(format!("{requests} requests for {days} days"));
    }
    let times = median(ours).took.as_secs_f64() / fastest.as_secs_f64();
    if times > FACTOR {
        broken.push(format!("{days} days take {times:.2} times a plain download"));
    }
}

fn median(costs: &[Cost]) -> Cost {
    let mut costs = costs.to_vec();
    costs.sort_by_key(|c| c.took);
    costs[costs.len() / 2]
}

fn cold_row(days: u32, name: &str, costs: &[Cost], bounds: &str) -> String {
    let Cost { requests, bytes, .. } = median(costs);
    let mut took: Vec<f64> = costs.iter().map(|c| c.took.as_secs_f64()).collect();
    took.sort_by(f64::total_cmp);
    let (low, middle, high) = (took[0], took[took.len() / 2], took[took.len() - 1]);
    let (megabytes, took) = (bytes as f64 / 1e6, format!("{middle:.2} ({low:.2} to {high:.2})"));
    format!("| {days} | {name} | {requests} | {megabytes:.2} | {took} | {bounds} |")
}

const STEADY_HEAD: &str = "| runs | a minute | requests | kB | bound |\n| ---: | --- | ---: | ---: | ---: |";

/// All windows at the same time, each over a connection of its own.
fn steady_minutes(runtime: &Runtime, server: &Airflow, broken: &mut Vec<String>) {
    let mut looks = Vec::new();
    for days in SIZES {
        let window = Window::of(server, days);
        looks.push((days, runtime.block_on(Look::cold(server, &window)).0));
    }
    runtime.block_on(look_for(SETTLED, &mut looks));
    let rest = runtime.block_on(look_for(Duration::from_secs(60), &mut looks));
    let busy = thread::scope(|scope| {
        // The last one early enough to be seen within the minute.
        scope.spawn(|| change(server, "failed", Duration::from_secs(10)));
        runtime.block_on(look_for(Duration::from_secs(60), &mut looks))
    });
    for (days, look) in &looks {
        let seen = CHANGING.iter().all(|day| look.failed(day));
        assert!(seen, "{days}: not all changes were seen");
    }
    for (n, (days, _)) in looks.iter().enumerate() {
        for (name, cost) in [("at rest", rest[n]), ("while four runs change", busy[n])] {
            let (requests, kilobytes) = (cost.requests, cost.bytes as f64 / 1e3);
            println!("| {days} | {name} | {requests} | {kilobytes:.0} | {STEADY_MOST} |");
            if requests > STEADY_MOST {
                broken.push(format!("{requests} requests a minute {name} for {days} days"));
            }
        }
    }
}

/// Looks every interval for so long, and what that cost.
async fn look_for(time: Duration, looks: &mut [(u32, Look)]) -> Vec<Cost> {
    let began = Instant::now();
    let before: Vec<Cost> = looks.iter().map(|(_, l)| l.spent(began)).collect();
    let mut beat = tokio::time::interval(INTERVAL);
    for _ in 0..time.as_secs() / INTERVAL.as_secs() {
        beat.tick().await;
        for (_, look) in looks.iter_mut() {
            look.now().await;
        }
    }
    beat.tick().await;
    let spent = looks.iter().zip(&before).map(|((_, look), before)| {
        let mut cost = look.spent(began);
        cost.requests -= before.requests;
        cost.bytes -= before.bytes;
        cost
    });
    spent.collect()
}
