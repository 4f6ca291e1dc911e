//! An Airflow with a memory: DAGs, runs and tasks of one server, of either version. Its scheduler is the test.

use super::{at, json, line, serve};
use backfill::domain::Time;
use chrono::TimeDelta;
use serde_json::{Value, json as object};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};
use wiremock::{MockServer, Request, ResponseTemplate};

/// Which version it plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plays {
    Two,
    Three,
}

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is not done, and the answer says nothing about that.
    LostBefore,
    /// It is done, and the answer says nothing about that.
    LostAfter,
    /// This answer instead.
    Answer(u16, &'static str),
}

#[derive(Debug, Clone)]
pub struct StoredTask {
    pub name: &'static str,
    pub state: Option<&'static str>,
    pub try_number: u32,
    /// Of the last try that started, also after a clear.
    pub started: Option<Time>,
}

#[derive(Debug, Clone)]
pub struct StoredRun {
    pub id: String,
    pub date: Time,
    pub interval: (String, String),
    pub state: &'static str,
    pub queued: Time,
    pub started: Option<Time>,
    pub ended: Option<Time>,
    pub conf: Value,
    pub kind: &'static str,
    pub tasks: Vec<StoredTask>,
    pub updated: Time,
}

pub struct World {
    plays: Plays,
    pub now: Time,
    pub runs: BTreeMap<String, StoredRun>,
    pub paused: bool,
    pub scheduler: &'static str,
    pub start: &'static str,
    pub log: Vec<&'static str>,
    pub requests: Vec<String>,
    /// How often a run was begun: made or cleared.
    pub begun: u32,
    /// Answers everything with this, if it is there.
    pub storm: Option<(u16, &'static str)>,
    faults: Vec<(String, Fault)>,
}

#[derive(Clone)]
pub struct Standin(Arc<Mutex<World>>);

impl Standin {
    pub fn new(plays: Plays) -> Self {
        Self(Arc::new(Mutex::new(World {
            plays,
            now: at("2026-11-29T17:00:00Z"),
            runs: BTreeMap::new(),
            paused: false,
            scheduler: "healthy",
            start: "2021-01-01T00:00:00Z",
            log: Vec::new(),
            requests: Vec::new(),
            begun: 0,
            storm: None,
            faults: Vec::new(),
        })))
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub async fn serve(&self) -> MockServer {
        let world = self.clone();
        serve(move |request| world.world().answer(request)).await
    }

    /// The next request that starts so is hit.
    pub fn fault(&self, start: &str, fault: Fault) {
        self.world().faults.push((start.to_owned(), fault));
    }

    /// How many requests started so.
    pub fn count(&self, start: &str) -> usize {
        self.world()
            .requests
            .iter()
            .filter(|r| r.starts_with(start))
            .count()
    }

    pub fn run(&self, id: &str) -> StoredRun {
        self.world().runs[id].clone()
    }

    /// How often a run was begun: made or cleared.
    pub fn begun(&self) -> u32 {
        self.world().begun
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.world().runs.len()
    }

    /// The scheduler starts a run.
    pub fn start(&self, id: &str) {
        let mut world = self.world();
        let now = world.tick();
        let run = world.runs.get_mut(id).unwrap();
        (run.state, run.started, run.updated) = ("running", Some(now), now);
        for task in &mut run.tasks {
            if task.state.is_none() {
                (task.state, task.try_number) = (Some("running"), task.try_number + 1);
                task.started = Some(now);
            }
        }
    }

    /// A run ends, its tasks in these states.
    pub fn end(&self, id: &str, state: &'static str, tasks: &[&'static str]) {
        let mut world = self.world();
        let now = world.tick();
        let run = world.runs.get_mut(id).unwrap();
        (run.state, run.ended, run.updated) = (state, Some(now), now);
        run.started = run.started.or(Some(now));
        run.tasks.truncate(tasks.len());
        for (task, state) in run.tasks.iter_mut().zip(tasks) {
            task.state = Some(*state);
            task.try_number = task.try_number.max(1);
        }
    }

    /// Somebody else's run.
    pub fn foreign(&self, id: &str, date: &str, kind: &'static str, state: &'static str) {
        self.world()
            .add(id, at(date), ("".into(), "".into()), object!({}), kind);
        self.world().runs.get_mut(id).unwrap().state = state;
    }
}

impl World {
    fn tick(&mut self) -> Time {
        self.now += TimeDelta::seconds(1);
        self.now
    }

    fn add(&mut self, id: &str, date: Time, interval: (String, String), conf: Value, kind: &'static str) {
        let now = self.tick();
        let task = |name| StoredTask {
            name,
            state: None,
            try_number: 0,
            started: None,
        };
        let run = StoredRun {
            id: id.to_owned(),
            date,
            interval,
            state: "queued",
            queued: now,
            started: None,
            ended: None,
            conf,
            kind,
            tasks: vec![task("load"), task("publish")],
            updated: now,
        };
        self.runs.insert(id.to_owned(), run);
    }

    fn answer(&mut self, request: &Request) -> ResponseTemplate {
        self.requests.push(line(request));
        let now = self.tick();
        let dated = |answer: ResponseTemplate| {
            answer.insert_header("date", now.format("%a, %d %b %Y %H:%M:%S GMT").to_string())
        };
        if let Some((status, body)) = self.storm {
            return dated(json(status, body));
        }
        let asked = line(request);
        let hit = self.faults.iter().position(|(start, _)| asked.starts_with(start));
        match hit.map(|i| self.faults.remove(i).1) {
            Some(Fault::LostBefore) => return dated(json(502, "{}")),
            Some(Fault::LostAfter) => {
                self.act(request);
                return dated(json(502, "{}"));
            }
            Some(Fault::Answer(status, body)) => return dated(json(status, body)),
            None => {}
        }
        dated(self.act(request))
    }

    fn act(&mut self, request: &Request) -> ResponseTemplate {
        let path: Vec<String> = request.url.path_segments().unwrap().map(decoded).collect();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let (api, rest) = match (self.plays, path.as_slice()) {
            (Plays::Three, ["api", "v2", rest @ ..]) => (2, rest),
            (Plays::Two, ["api", "v1", rest @ ..]) => (1, rest),
            _ => return ResponseTemplate::new(404).set_body_raw("<html></html>", "text/html"),
        };
        let method = request.method.as_str();
        match (method, rest) {
            ("GET", ["version"]) => ok(object!({"version": if api == 2 { "3.3.2" } else { "2.11.2" }})),
            ("GET", ["monitor", "health"] | ["health"]) => ok(object!({
                "metadatabase": {"status": "healthy"},
                "scheduler": {"status": self.scheduler, "latest_scheduler_heartbeat": "2026-11-29T16:00:00+00:00"},
            })),
            ("GET", ["importErrors"]) => ok(object!({"import_errors": [], "total_entries": 0})),
            ("GET", ["dags", "events_daily"]) | ("GET", ["dags", "events_daily", "details"]) => ok(object!({
                "dag_id": "events_daily", "is_paused": self.paused, "start_date": self.start,
                "timetable_summary": "0 0 * * *",
            })),
            ("GET", ["dags", "events_daily", "tasks"]) => ok(object!({"tasks": [
                {"task_id": "load", "downstream_task_ids": ["publish"]},
                {"task_id": "publish", "downstream_task_ids": []},
            ]})),
            ("GET", ["dags", "events_daily" | "~", "dagRuns"]) => self.list(request),
            ("POST", ["dags", "events_daily", "dagRuns"]) => self.trigger(request),
            (_, ["dags", "events_daily", "dagRuns", id, below @ ..]) if self.runs.contains_key(*id) => {
                self.one(method, id, below, request)
            }
            (_, ["dags", "events_daily", "dagRuns", id, ..]) => absent(&format!(
                "The DagRun with dag_id: `events_daily` and run_id: `{id}` was not found"
            )),
            (_, ["dags", dag, ..]) => absent(&format!("The Dag with ID: `{dag}` was not found")),
            other => panic!("the stand-in has nothing like {other:?}"),
        }
    }

    fn list(&self, request: &Request) -> ResponseTemplate {
        let value = |name: &str| super::parameter(request, name).map(|v| at(&v));
        let since = value("updated_at_gte");
        let from = value("logical_date_gte").or(value("execution_date_gte"));
        let to = value("logical_date_lte").or(value("execution_date_lte"));
        let rows: Vec<Value> = self
            .runs
            .values()
            .filter(|r| since.is_none_or(|t| r.updated >= t))
            .filter(|r| from.is_none_or(|t| r.date >= t) && to.is_none_or(|t| r.date <= t))
            .map(|r| self.shown(r))
            .collect();
        ok(object!({"total_entries": rows.len(), "dag_runs": rows}))
    }

    fn shown(&self, run: &StoredRun) -> Value {
        let mut row = object!({
            "dag_run_id": run.id, "dag_id": "events_daily", "logical_date": run.date, "start_date": run.started,
            "end_date": run.ended, "state": run.state, "run_type": run.kind, "conf": run.conf,
        });
        if self.plays == Plays::Three {
            row["queued_at"] = object!(run.queued);
        }
        row
    }

    fn trigger(&mut self, request: &Request) -> ResponseTemplate {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let (id, date) = (
            body["dag_run_id"].as_str().unwrap(),
            at(body["logical_date"].as_str().unwrap()),
        );
        if self.runs.contains_key(id) || self.runs.values().any(|r| r.date == date) {
            let detail = match self.plays {
                Plays::Three => object!({"detail": {"reason": "Unique constraint violation"}}),
                Plays::Two => {
                    object!({"detail": "DAGRun already exists", "status": 409, "title": "Conflict"})
                }
            };
            return json(409, detail.to_string());
        }
        let end = |key: &str| body[key].as_str().unwrap().to_owned();
        let interval = (end("data_interval_start"), end("data_interval_end"));
        self.add(id, date, interval, body["conf"].clone(), "manual");
        self.begun += 1;
        ok(self.shown(&self.runs[id]))
    }

    fn one(&mut self, method: &str, id: &str, below: &[&str], request: &Request) -> ResponseTemplate {
        let now = self.tick();
        let plays = self.plays;
        let begun = &mut self.begun;
        let run = self.runs.get_mut(id).unwrap();
        match (method, below) {
            ("GET", []) => {}
            ("PATCH", []) => {
                let body: Value = serde_json::from_slice(&request.body).unwrap();
                assert_eq!(body, object!({"state": "failed"}));
                (run.state, run.ended, run.updated) = ("failed", Some(now), now);
                for task in &mut run.tasks {
                    let running = task.state == Some("running");
                    task.state = Some(if running { "failed" } else { "skipped" });
                }
            }
            ("DELETE", []) => {
                if plays == Plays::Three && run.state == "running" {
                    return json(409, r#"{"detail":"cannot be deleted in running state"}"#);
                }
                self.runs.remove(id);
                return ResponseTemplate::new(204);
            }
            ("POST", ["clear"]) => {
                let body: Value = serde_json::from_slice(&request.body).unwrap();
                assert_eq!(body["dry_run"], false, "everything else is only a preview");
                (run.state, run.queued, run.updated) = ("queued", now, now);
                (run.started, run.ended) = (None, None);
                run.tasks.iter_mut().for_each(|t| t.state = None);
                *begun += 1;
            }
            ("GET", ["taskInstances"]) => {
                let task = |t: &StoredTask| {
                    object!({
                        "task_id": t.name, "dag_id": "events_daily", "dag_run_id": id, "state": t.state,
                        "try_number": t.try_number, "map_index": -1, "start_date": t.started,
                        "end_date": run.ended,
                    })
                };
                let rows: Vec<Value> = run.tasks.iter().map(task).collect();
                return ok(object!({"total_entries": rows.len(), "task_instances": rows}));
            }
            ("GET", ["taskInstances", _, "logs", _]) if plays == Plays::Two => {
                return ResponseTemplate::new(200).set_body_raw(self.log.join("\n"), "text/plain");
            }
            ("GET", ["taskInstances", _, "logs", _]) => {
                let lines: Vec<Value> = self.log.iter().map(|l| object!({"event": l})).collect();
                return ok(object!({"content": lines, "continuation_token": null}));
            }
            other => panic!("the stand-in has nothing like {other:?}"),
        }
        let run = self.runs[id].clone();
        ok(self.shown(&run))
    }
}

fn ok(body: Value) -> ResponseTemplate {
    json(200, body.to_string())
}

fn absent(words: &str) -> ResponseTemplate {
    json(
        404,
        object!({"detail": words, "title": "DAGRun not found"}).to_string(),
    )
}

fn decoded(segment: &str) -> String {
    let query = format!("x={}", segment.replace('+', "%2B"));
    let url = reqwest::Url::parse(&format!("http://x/?{query}")).unwrap();
    let (_, value) = url.query_pairs().next().unwrap();
    value.into_owned()
}
