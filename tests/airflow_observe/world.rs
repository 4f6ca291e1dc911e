//! A server with runs, whose clock the test moves, and an observer of it.

use crate::airflow_support::{TestClock, at, json, line, parameter, serve, settings};
use backfill::{
    domain::{
        Time,
        attach::{Days, SeenRun},
        ids::ChunkId,
        spec::Spec,
    },
    executor::{
        Executor,
        airflow::{AirflowExecutor, AirflowSetup, Auth},
        attach::{Levers, Observer, Sight, Target},
    },
    net::AdapterError,
};
use chrono::TimeDelta;
use serde_json::{Value, json as object};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use wiremock::{MockServer, Request, ResponseTemplate};

/// A run as the server has it.
#[derive(Debug, Clone)]
pub struct Row {
    pub id: String,
    pub date: Option<Time>,
    pub partition: Option<(String, Option<Time>)>,
    pub state: &'static str,
    pub kind: &'static str,
    pub queued: Option<Time>,
    pub started: Option<Time>,
    pub ended: Option<Time>,
    pub updated: Time,
}

/// What is done to the world at a request, before it is answered.
type Deed = Box<dyn FnMut(&mut World, &str) + Send>;

pub struct World {
    /// 2.x, or a 3.x of this minor version.
    pub version: &'static str,
    clock: Arc<TestClock>,
    /// In the order of their numbers.
    pub rows: Vec<Row>,
    pub requests: Vec<String>,
    pub details: Value,
    pub scheduler: &'static str,
    pub native: Vec<Value>,
    pub pools: BTreeMap<String, Value>,
    /// DAG and state of each task instance.
    pub tasks: Vec<(&'static str, &'static str)>,
    pub import_errors: Vec<&'static str>,
    /// Requests that start so are answered with this status.
    pub refuse: Vec<(&'static str, u16, usize)>,
    /// Runs that are counted and never shown.
    pub hidden: usize,
    pub other_dags: Vec<(Value, Value)>,
    /// Of the timetable of partitions.
    pub zone: chrono_tz::Tz,
    deed: Option<Deed>,
    dated: bool,
}

#[derive(Clone)]
pub struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub fn at_requests(&self, deed: impl FnMut(&mut World, &str) + Send + 'static) {
        self.world().deed = Some(Box::new(deed));
    }

    pub fn without_a_clock(&self) {
        self.world().dated = false;
    }
}

impl World {
    pub fn now(&self) -> Time {
        at("2026-11-29T17:00:00Z") + TimeDelta::milliseconds(self.clock.millis() as i64 - 1_000_000)
    }

    pub fn add(&mut self, id: &str, date: &str, kind: &'static str, state: &'static str) -> &mut Row {
        let now = self.now();
        let over = matches!(state, "success" | "failed");
        self.rows.push(Row {
            id: id.to_owned(),
            date: (!date.is_empty()).then(|| at(date)),
            partition: None,
            state,
            kind,
            queued: Some(now - TimeDelta::seconds(30)),
            started: (state != "queued").then(|| now - TimeDelta::seconds(20)),
            ended: over.then_some(now),
            updated: now - TimeDelta::hours(1),
        });
        self.rows.last_mut().unwrap()
    }

    /// One run a day, ended well, from this day on.
    pub fn seed(&mut self, first: &str, days: usize) {
        for n in 0..days {
            let date = at(first) + TimeDelta::days(n as i64);
            let id = format!("scheduled__{}", date.to_rfc3339());
            self.add(&id, &date.to_rfc3339(), "scheduled", "success");
        }
    }

    pub fn set(&mut self, id: &str, state: &'static str) {
        let now = self.now();
        let row = self.rows.iter_mut().find(|r| r.id == id).unwrap();
        (row.state, row.updated) = (state, now);
        match state {
            "running" => row.started = Some(now),
            "success" | "failed" => row.ended = Some(now),
            _ => {}
        }
    }

    pub fn delete(&mut self, id: &str) {
        self.rows.retain(|r| r.id != id);
    }

    fn answer(&mut self, request: &Request) -> ResponseTemplate {
        let asked = line(request);
        self.requests.push(asked.clone());
        if let Some(mut deed) = self.deed.take() {
            deed(self, &asked);
            self.deed = Some(deed);
        }
        let refused = self
            .refuse
            .iter_mut()
            .find(|(start, _, left)| asked.contains(*start) && *left > 0);
        let answer = match refused {
            Some((_, status, left)) => {
                *left -= 1;
                json(*status, r#"{"detail":"Forbidden"}"#)
            }
            None => self.act(request),
        };
        if self.dated {
            let date = self.now().format("%a, %d %b %Y %H:%M:%S GMT").to_string();
            return answer.insert_header("date", date);
        }
        answer.insert_header("date", "never")
    }

    fn act(&mut self, request: &Request) -> ResponseTemplate {
        let path: Vec<String> = request.url.path_segments().unwrap().map(str::to_owned).collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let two = self.version.starts_with('2');
        let rest = match (two, path.as_slice()) {
            (false, ["api", "v2", rest @ ..]) | (true, ["api", "v1", rest @ ..]) => rest,
            _ => return ResponseTemplate::new(404).set_body_raw("<html></html>", "text/html"),
        };
        assert_eq!(request.method.as_str(), "GET", "who looks changes nothing");
        let list =
            |key: &str, rows: Vec<Value>, total: usize| ok(&object!({key: rows, "total_entries": total}));
        match rest {
            ["version"] => ok(&object!({"version": self.version})),
            ["monitor", "health"] | ["health"] => ok(&object!({
                "metadatabase": {"status": "healthy"},
                "scheduler": {"status": self.scheduler, "latest_scheduler_heartbeat": "2026-11-29T16:00:00+00:00"},
            })),
            ["dags"] => {
                let mut dags = vec![self.details.clone()];
                dags.extend(self.other_dags.iter().map(|(dag, _)| dag.clone()));
                let n = dags.len();
                list("dags", dags, n)
            }
            ["dags", "events_daily" | "events_daily/details"] | ["dags", "events_daily", "details"] => {
                ok(&self.details)
            }
            ["dags", _] => json(
                404,
                r#"{"detail":"The Dag was not found","title":"DAG not found"}"#,
            ),
            ["dags", "events_daily", "dagRuns"] => self.runs(request),
            ["dags", dag, "dagRuns", "~", "taskInstances"] => self.task_instances(request, dag),
            ["dags", _, "dagRuns"] => list("dag_runs", Vec::new(), 0),
            ["dagStats"] => {
                let mut dags = vec![self.stats()];
                dags.extend(self.other_dags.iter().map(|(_, stats)| stats.clone()));
                ok(&object!({"dags": dags, "total_entries": dags.len()}))
            }
            ["backfills"] => {
                let dag = parameter(request, "dag_id").expect("the server requires it");
                let mut rows: Vec<Value> = self
                    .native
                    .iter()
                    .filter(|b| b["dag_id"] == dag)
                    .cloned()
                    .collect();
                rows.sort_by_key(|b| std::cmp::Reverse(b["id"].as_u64()));
                let n = rows.len();
                rows.truncate(1);
                list("backfills", rows, n)
            }
            ["backfills", id] => match self.native.iter().find(|b| b["id"].as_u64() == id.parse().ok()) {
                Some(found) => ok(found),
                None => json(404, r#"{"detail":"Backfill not found"}"#),
            },
            ["pools", name] => match self.pools.get(*name) {
                Some(pool) => ok(pool),
                None => json(404, r#"{"detail":"The Pool was not found"}"#),
            },
            ["importErrors"] => {
                let rows: Vec<Value> = self
                    .import_errors
                    .iter()
                    .map(|e| object!({"filename": "dags.py", "stack_trace": e}))
                    .collect();
                let n = rows.len();
                list("import_errors", rows, n)
            }
            other => panic!("the stand-in has nothing like {other:?}"),
        }
    }

    fn stats(&self) -> Value {
        let count = |state: &str| self.rows.iter().filter(|r| r.state == state).count();
        let stats: Vec<Value> = ["queued", "running", "success", "failed"]
            .iter()
            .map(|s| object!({"state": s, "count": count(s)}))
            .collect();
        object!({"dag_id": "events_daily", "stats": stats})
    }

    /// As the real one: a page of at most a hundred, of those that the filters take, in the order asked for.
    fn runs(&self, request: &Request) -> ResponseTemplate {
        let two = self.version.starts_with('2');
        let value = |name: &str| parameter(request, name).map(|v| at(&v));
        let name = if two { "execution_date" } else { "logical_date" };
        let span = |name: &str| (value(&format!("{name}_gte")), value(&format!("{name}_lte")));
        let (since, dates, partitions) = (value("updated_at_gte"), span(name), span("partition_date"));
        // Civil days of the timetable, and nothing else.
        let exact = |at: Option<Time>| at.is_none_or(|t| t.time() == chrono::NaiveTime::MIN);
        if !exact(partitions.0) || !exact(partitions.1) {
            return json(
                422,
                r#"{"detail":"Datetimes provided to dates should have zero time"}"#,
            );
        }
        let within = |at: Option<Time>, span: (Option<Time>, Option<Time>)| match (span, at) {
            ((None, None), _) => true,
            ((from, to), Some(at)) => from.is_none_or(|f| f <= at) && to.is_none_or(|t| at <= t),
            (_, None) => false,
        };
        let day = |r: &Row| r.partition.as_ref().and_then(|p| p.1);
        let civil = |r: &Row| {
            let date = day(r)?.with_timezone(&self.zone).date_naive();
            Some(date.and_time(chrono::NaiveTime::MIN).and_utc())
        };
        let mut rows: Vec<(usize, &Row)> = self
            .rows
            .iter()
            .enumerate()
            .filter(|(_, r)| since.is_none_or(|t| r.updated >= t || r.state == "running"))
            .filter(|(_, r)| within(r.date, dates) && within(civil(r), partitions))
            .collect();
        let order = parameter(request, "order_by").unwrap_or_default();
        match order.trim_start_matches('-') {
            "logical_date" | "execution_date" => rows.sort_by_key(|(n, r)| (r.date, *n)),
            "partition_date" => rows.sort_by_key(|(n, r)| (day(r), *n)),
            "id" => {}
            other => panic!("no order: {other:?}"),
        }
        if order.starts_with('-') {
            rows.reverse();
        }
        let number =
            |name: &str, otherwise| parameter(request, name).map_or(otherwise, |n| n.parse().unwrap());
        let total = rows.len() + self.hidden;
        let page: Vec<Value> = rows
            .into_iter()
            .skip(number("offset", 0))
            .take(number("limit", 50).min(100))
            .map(|(_, r)| self.shown(r))
            .collect();
        ok(&object!({"dag_runs": page, "total_entries": total}))
    }

    fn shown(&self, row: &Row) -> Value {
        let mut shown = object!({
            "dag_run_id": row.id, "dag_id": "events_daily", "logical_date": row.date, "start_date": row.started,
            "end_date": row.ended, "state": row.state, "run_type": row.kind, "conf": {},
        });
        if self.version.starts_with('3') {
            shown["queued_at"] = object!(row.queued);
            shown["run_after"] = object!(row.date.or(row.queued));
            shown["triggering_user_name"] = object!("minh");
            shown["partition_key"] = object!(row.partition.as_ref().map(|p| &p.0));
            shown["partition_date"] = object!(row.partition.as_ref().and_then(|p| p.1));
        } else {
            shown["execution_date"] = object!(row.date);
        }
        shown
    }

    fn task_instances(&self, request: &Request, dag: &str) -> ResponseTemplate {
        let states: Vec<String> = request
            .url
            .query_pairs()
            .filter(|(key, _)| key == "state")
            .map(|(_, value)| value.into_owned())
            .collect();
        let rows: Vec<Value> = self
            .tasks
            .iter()
            .filter(|(of, state)| (dag == "~" || dag == *of) && states.iter().any(|s| s == state))
            .map(|(of, state)| object!({"task_id": "load", "dag_id": of, "dag_run_id": "r", "state": state}))
            .collect();
        let total = rows.len();
        let limit = parameter(request, "limit").map_or(50, |n| n.parse().unwrap());
        let rows: Vec<Value> = rows.into_iter().take(limit).collect();
        ok(&object!({"task_instances": rows, "total_entries": total}))
    }

    /// The truth, as a calendar of these days shows it.
    pub fn truth(&self, of: impl Fn(&Row) -> Option<ChunkId>) -> BTreeMap<ChunkId, Vec<String>> {
        let mut truth: BTreeMap<ChunkId, Vec<String>> = BTreeMap::new();
        for row in &self.rows {
            if let Some(chunk) = of(row) {
                truth
                    .entry(chunk)
                    .or_default()
                    .push(format!("{}={}", row.id, row.state));
            }
        }
        truth.values_mut().for_each(|runs| runs.sort());
        truth
    }
}

fn ok(body: &Value) -> ResponseTemplate {
    json(200, body.to_string())
}

/// The UTC day of a run's date.
pub fn utc_day(first: &str, last: &str) -> impl Fn(&Row) -> Option<ChunkId> {
    let [first, last]: [chrono::NaiveDate; 2] = [first.parse().unwrap(), last.parse().unwrap()];
    move |row| {
        let date = row.date?.date_naive();
        (first <= date && date <= last).then(|| ChunkId::day(date))
    }
}

/// A server, and one who looks at it.
pub struct Scene {
    pub airflow: Shared,
    pub clock: Arc<TestClock>,
    _server: MockServer,
    executor: AirflowExecutor,
    eye: Box<dyn Observer>,
    /// All that was told, one look after the other.
    pub days: Days,
    pub last: Option<Sight>,
    _state: tempfile::TempDir,
}

/// The order of an attached backfill.
pub fn order(first: &str, last: &str, more: Value) -> Spec {
    let mut order = object!({
        "name": "events", "target": "events_daily", "environment": null, "start": first, "end": last,
        "granularity": "day", "timezone": "UTC", "executor": "airflow", "command": [],
        "dag": {"id": "events_daily"}, "attach": {"native": null}, "cwd": "/", "env_pass": [], "env": {},
        "env_secrets": [], "max_limit": 1, "order": "oldest-first", "signals": [], "on_failure": "continue",
        "profiles": [{"name": "default", "memory": null, "deadline_ms": null}], "lanes": {}, "source": {},
        "idempotent": true,
    });
    order
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    serde_json::from_value(order).unwrap()
}

impl Scene {
    /// An empty server of a version, looked at with a budget of 60 requests a minute.
    pub async fn new(version: &'static str, spec: Spec) -> Self {
        let clock = TestClock::new();
        let world = World {
            version,
            clock: Arc::clone(&clock),
            rows: Vec::new(),
            requests: Vec::new(),
            details: object!({
                "dag_id": "events_daily", "is_paused": false, "timetable_summary": "0 0 * * *",
                "start_date": "1990-01-01T00:00:00Z",
            }),
            scheduler: "healthy",
            native: Vec::new(),
            pools: BTreeMap::new(),
            tasks: Vec::new(),
            import_errors: Vec::new(),
            refuse: Vec::new(),
            hidden: 0,
            other_dags: Vec::new(),
            zone: chrono_tz::Tz::UTC,
            deed: None,
            dated: true,
        };
        let airflow = Shared(Arc::new(Mutex::new(world)));
        let answers = airflow.clone();
        let server = serve(move |request| answers.world().answer(request)).await;
        let state = tempfile::tempdir().unwrap();
        let mut connection = settings(&server.uri(), Auth::None, &clock);
        connection.request_budget = 60;
        let setup = AirflowSetup {
            connection,
            state: state.path().to_owned(),
            interval: Duration::from_secs(5),
            dags: Vec::new(),
        };
        let executor = AirflowExecutor::new(setup, tokio::sync::mpsc::unbounded_channel().0).unwrap();
        let target = Target {
            backfill: "events-aaaaaa".parse().unwrap(),
            spec: Arc::new(spec),
        };
        let eye = executor.levers().unwrap().observer(target);
        Self {
            airflow,
            clock,
            _server: server,
            executor,
            eye,
            days: Days::new(),
            last: None,
            _state: state,
        }
    }

    pub fn levers(&self) -> Arc<dyn Levers> {
        self.executor.levers().unwrap()
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.airflow.world()
    }

    /// Looks once, and merges as the caller does.
    pub async fn look(&mut self) -> Result<&Sight, AdapterError> {
        let sight = self.eye.look().await?;
        if sight.whole {
            self.days.clear();
        }
        for (day, runs) in &sight.days {
            if runs.is_empty() {
                self.days.remove(day);
            } else {
                self.days.insert(*day, runs.clone());
            }
        }
        Ok(self.last.insert(sight))
    }

    /// Reads the window for the first time; answers how many looks that took.
    pub async fn read(&mut self) -> usize {
        for looks in 1..500 {
            if self.look().await.unwrap().facts.reading.is_none() {
                return looks;
            }
        }
        panic!("the reading does not end");
    }

    /// One interval later.
    pub async fn later(&mut self) -> &Sight {
        self.clock.advance(5);
        self.look().await.unwrap()
    }

    pub fn facts(&self) -> &backfill::domain::attach::Facts {
        &self.last.as_ref().unwrap().facts
    }

    /// The requests since the last call.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.world().requests)
    }

    /// What was told, in the form of [`World::truth`].
    pub fn told(&self) -> BTreeMap<ChunkId, Vec<String>> {
        let shown = |runs: &[SeenRun]| {
            let mut runs: Vec<String> = runs
                .iter()
                .map(|r| format!("{}={}", r.run, r.word.split([',', ' ']).next().unwrap()))
                .collect();
            runs.sort();
            runs
        };
        self.days.iter().map(|(day, runs)| (*day, shown(runs))).collect()
    }

    /// Day and word of every run.
    pub fn words(&self) -> Vec<String> {
        let told = self.told();
        let day = |(day, runs): (ChunkId, Vec<String>)| format!("{day} {}", runs.join(" "));
        told.into_iter().map(day).collect()
    }
}
