//! A small Airflow to try actions on: it runs days, refuses what a real one refuses, and its requests may be lost on
//! either way, or arrive late.

use super::{
    call::{Anew, Call},
    eyes::Eyes,
};
use crate::{
    domain::Time,
    executor::airflow::{
        calls::{BackfillOrder, RunQuery, Window},
        error::CallError,
        wire::{Api, Backfill, BackfillDay, Dag, Pool, Reprocess, Run, RunKind, RunState, TaskInstance},
    },
};
use async_trait::async_trait;
use chrono::TimeDelta;
use serde_json::json;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard},
};

pub const DAG: &str = "events_daily";

pub fn at(text: &str) -> Time {
    text.parse().unwrap()
}

/// A run of the day, as a real server would show it.
pub fn run(id: &str, date: Time, kind: RunKind, state: RunState) -> Run {
    let begun = state != RunState::Queued;
    let over = matches!(state, RunState::Success | RunState::Failed);
    let mut run: Run =
        serde_json::from_value(json!({"dag_run_id": id, "dag_id": DAG, "state": "queued"})).unwrap();
    run.logical_date = Some(date);
    run.interval = Some((date, date + TimeDelta::days(1)));
    run.queued_at = Some(at("2026-11-01T00:00:00Z"));
    run.started = begun.then(|| at("2026-11-01T00:01:00Z"));
    run.ended = over.then(|| at("2026-11-01T00:02:00Z"));
    run.conf = Some(json!({"k": 1}));
    (run.kind, run.state) = (kind, state);
    run
}

pub fn native(id: u64, from: Time, to: Time) -> Backfill {
    Backfill {
        id,
        dag: DAG.to_owned(),
        from,
        to,
        conf: Some(json!({"k": 1})),
        paused: false,
        reprocess: Reprocess::None,
        max_active_runs: Some(2),
        created: Some(at("2026-11-01T00:00:00Z")),
        completed: None,
    }
}

pub fn pool(name: &str, slots: i64) -> Pool {
    serde_json::from_value(json!({"name": name, "slots": slots, "include_deferred": true})).unwrap()
}

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is answered.
    None,
    /// Whoever sends it dies before it leaves.
    Before,
    /// Whoever sent it dies after it was done.
    After,
    /// Whoever sent it dies, and it is done so many seconds later.
    Late(u8),
    /// It is done, and its answer says nothing.
    Unclear,
    /// It is not done, and its answer says nothing.
    UnclearUndone,
    /// It does not leave.
    NotSent,
}

#[derive(Debug)]
pub struct World {
    pub api: Api,
    pub now: Time,
    pub natives: Vec<Backfill>,
    /// Which native backfill holds a run.
    pub held: BTreeMap<String, u64>,
    pub runs: BTreeMap<String, Run>,
    pub pools: BTreeMap<String, Pool>,
    pub frozen: bool,
    /// What was done: `clear 2021-09-01`.
    pub done: Vec<String>,
    /// Runs that end failed; the others succeed.
    pub bad: Vec<String>,
    /// Requests that are still under way.
    late: Vec<(Time, Call)>,
    /// Every request is refused with these words.
    pub refuses: Option<&'static str>,
    /// A mark of a running run is written over once by the scheduler with this.
    pub writes_over: Option<RunState>,
    /// Runs whose tasks were ended before they were done.
    ended_early: Vec<String>,
    /// How many requests it got.
    pub requests: usize,
    /// How many looks it got.
    pub looks: usize,
}

pub struct Model(Mutex<World>);

impl Model {
    pub fn new() -> Self {
        Self(Mutex::new(World {
            api: Api::V2,
            now: at("2026-11-29T17:00:00Z"),
            natives: Vec::new(),
            held: BTreeMap::new(),
            runs: BTreeMap::new(),
            pools: BTreeMap::new(),
            frozen: false,
            done: Vec::new(),
            bad: Vec::new(),
            late: Vec::new(),
            refuses: None,
            writes_over: None,
            ended_early: Vec::new(),
            requests: 0,
            looks: 0,
        }))
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    /// So much time passes; what is under way arrives, and the scheduler looks once.
    pub fn pass(&self, seconds: i64) {
        let mut world = self.world();
        world.now += TimeDelta::seconds(seconds);
        let now = world.now;
        let arrived: Vec<Call> = world
            .late
            .iter()
            .filter(|(t, _)| *t <= now)
            .map(|(_, c)| c.clone())
            .collect();
        world.late.retain(|(t, _)| *t > now);
        for call in arrived {
            let _ = world.act(&call);
        }
    }

    /// The scheduler looks.
    pub fn schedule(&self) {
        self.world().schedule();
    }

    /// Sends a request. `None`: whoever sent it is dead.
    pub fn send(&self, call: &Call, fault: Fault) -> Option<(bool, String)> {
        let mut world = self.world();
        if fault != Fault::Before && fault != Fault::NotSent {
            world.requests += 1;
        }
        match fault {
            Fault::Before => None,
            Fault::After => {
                let _ = world.act(call);
                None
            }
            Fault::Late(seconds) => {
                let due = world.now + TimeDelta::seconds(seconds.into());
                world.late.push((due, call.clone()));
                None
            }
            Fault::None => Some(match world.act(call) {
                Ok(said) => (true, said),
                Err(said) => (false, format!("airflow-prod: {said}")),
            }),
            Fault::Unclear => {
                let _ = world.act(call);
                Some((false, format!("airflow-prod: {}: 502", super::steps::OPEN)))
            }
            Fault::UnclearUndone => Some((false, format!("airflow-prod: {}: 502", super::steps::OPEN))),
            Fault::NotSent => Some((
                false,
                format!("airflow-prod: {}: refused", super::steps::NOT_SENT),
            )),
        }
    }
}

impl World {
    pub fn add(&mut self, run: Run, native: Option<u64>) {
        if let Some(native) = native {
            self.held.insert(run.id.clone(), native);
        }
        self.runs.insert(run.id.clone(), run);
    }

    fn native_mut(&mut self, id: u64) -> Result<&mut Backfill, String> {
        let native = self.natives.iter_mut().find(|n| n.id == id);
        let native = native.ok_or("404: Backfill not found")?;
        match native.completed {
            Some(_) => Err("409: Backfill is already completed.".to_owned()),
            None => Ok(native),
        }
    }

    fn note(&mut self, what: &str, run: &str) {
        let date = self.runs.get(run).and_then(|r| r.logical_date);
        let day = date.map_or_else(|| run.to_owned(), |d| d.format("%Y-%m-%d").to_string());
        self.done.push(format!("{what} {day}"));
    }

    fn act(&mut self, call: &Call) -> Result<String, String> {
        if let Some(words) = self.refuses {
            return Err(words.to_owned());
        }
        match call {
            Call::PauseNative { id } => self.native_mut(*id)?.paused = true,
            Call::ResumeNative { id } => self.native_mut(*id)?.paused = false,
            Call::CancelNative { id, .. } => self.cancel(*id)?,
            Call::PauseDag { paused } => self.frozen = *paused,
            Call::Slots { pool, slots, .. } => {
                self.pools.get_mut(pool).ok_or("404: no pool")?.slots = *slots;
            }
            Call::Clear { run, only_failed, .. } => self.clear(run, *only_failed)?,
            Call::Delete { run, .. } => self.delete(run)?,
            Call::Trigger { anew, .. } => self.trigger(anew)?,
            Call::MarkRun { run, done, .. } => self.mark(run, *done)?,
            Call::Create(creation) => return self.create(&creation.order(DAG)),
        }
        Ok("done".to_owned())
    }

    fn cancel(&mut self, id: u64) -> Result<(), String> {
        let now = self.now;
        let native = self.native_mut(id)?;
        (native.paused, native.completed) = (true, Some(now));
        self.done.push(format!("cancel {id}"));
        for run in self.runs.values_mut() {
            if self.held.get(&run.id) == Some(&id) && run.state == RunState::Queued {
                run.state = RunState::Failed;
            }
        }
        Ok(())
    }

    fn clear(&mut self, id: &str, only_failed: bool) -> Result<(), String> {
        let now = self.now;
        let run = self.runs.get_mut(id).ok_or("404: no such run")?;
        if only_failed && run.state == RunState::Success {
            return Ok(());
        }
        run.queued_at = Some(now).filter(|_| self.api == Api::V2);
        if matches!(run.state, RunState::Success | RunState::Failed) {
            (run.state, run.started, run.ended) = (RunState::Queued, None, None);
        }
        self.note("clear", id);
        Ok(())
    }

    fn delete(&mut self, id: &str) -> Result<(), String> {
        match self.runs.get(id).map(|r| &r.state) {
            None => return Ok(()),
            Some(RunState::Running) => return Err("409: cannot be deleted in running state".to_owned()),
            Some(_) => {}
        }
        self.note("delete", id);
        self.runs.remove(id);
        self.held.remove(id);
        Ok(())
    }

    fn trigger(&mut self, anew: &Anew) -> Result<(), String> {
        let taken = self
            .runs
            .values()
            .any(|r| r.logical_date == anew.date || r.id == anew.id);
        if taken {
            return Err("409: Unique constraint violation".to_owned());
        }
        let mut made = run(
            &anew.id,
            anew.date.ok_or("422: no date")?,
            RunKind::Manual,
            RunState::Queued,
        );
        made.queued_at = Some(self.now);
        made.interval = anew.interval;
        made.conf = Some(serde_json::Value::Object(anew.conf.clone()));
        made.note.clone_from(&anew.note);
        self.add(made, None);
        self.note("trigger", &anew.id);
        Ok(())
    }

    fn mark(&mut self, id: &str, done: bool) -> Result<(), String> {
        let now = self.now;
        let over = self.writes_over.take();
        let run = self.runs.get_mut(id).ok_or("404: no such run")?;
        if run.state == RunState::Running {
            self.ended_early.push(id.to_owned());
        }
        run.state = if done { RunState::Success } else { RunState::Failed };
        run.ended = Some(now);
        if let Some(state) = over {
            run.state = state;
        }
        self.note("mark", id);
        Ok(())
    }

    fn takes(&self, order: &BackfillOrder) -> Vec<Time> {
        let mut days = Vec::new();
        // Daily at midnight, UTC.
        let midnight = order.from.date_naive().and_hms_opt(0, 0, 0).unwrap().and_utc();
        let mut day = if midnight < order.from {
            midnight + TimeDelta::days(1)
        } else {
            midnight
        };
        while day <= order.to {
            let state = self
                .runs
                .values()
                .find(|r| r.logical_date == Some(day))
                .map(|r| r.state.clone());
            let taken = match (state, &order.reprocess) {
                (None, _) | (Some(RunState::Success), Reprocess::Completed) => true,
                (Some(RunState::Failed), how) => *how != Reprocess::None,
                _ => false,
            };
            if taken {
                days.push(day);
            }
            day += TimeDelta::days(1);
        }
        days
    }

    fn create(&mut self, order: &BackfillOrder) -> Result<String, String> {
        if self.natives.iter().any(Backfill::is_unfinished) {
            return Err("409: There is already a running backfill for dag events_daily".to_owned());
        }
        let id = self.natives.iter().map(|n| n.id).max().unwrap_or(0) + 1;
        let mut made = native(id, order.from, order.to);
        made.max_active_runs = Some(order.max_active_runs.get());
        made.reprocess = order.reprocess.clone();
        made.created = Some(self.now);
        self.natives.insert(0, made);
        for day in self.takes(order) {
            let found = self
                .runs
                .values()
                .find(|r| r.logical_date == Some(day))
                .map(|r| r.id.clone());
            let name = found.unwrap_or_else(|| format!("backfill__{}", day.format("%Y-%m-%d")));
            let mut taken = run(&name, day, RunKind::Backfill, RunState::Queued);
            taken.queued_at = Some(self.now);
            self.add(taken, Some(id));
            self.note("take", &name);
        }
        self.done.push(format!("create {id}"));
        Ok(format!("native backfill {id} is not paused"))
    }

    pub fn schedule(&mut self) {
        let now = self.now;
        for run in self.runs.values_mut() {
            if run.state == RunState::Running
                && run.started.is_some_and(|s| now - s >= TimeDelta::seconds(10))
            {
                let bad = self.bad.contains(&run.id);
                run.state = if bad { RunState::Failed } else { RunState::Success };
                run.ended = Some(now);
            }
        }
        let natives = self.natives.clone();
        let waiting: Vec<String> = self
            .runs
            .values()
            .filter(|r| r.state == RunState::Queued && !self.frozen)
            .map(|r| r.id.clone())
            .collect();
        for id in waiting {
            let holder = self
                .held
                .get(&id)
                .and_then(|n| natives.iter().find(|b| b.id == *n));
            if let Some(native) = holder {
                let live =
                    |r: &&Run| r.state == RunState::Running && self.held.get(&r.id) == Some(&native.id);
                let live = self.runs.values().filter(live).count();
                if native.paused || live >= native.max_active_runs.unwrap_or(1) as usize {
                    continue;
                }
            }
            let run = self.runs.get_mut(&id).unwrap();
            (run.state, run.started) = (RunState::Running, Some(now));
        }
        for native in &mut self.natives {
            let open = |r: &&Run| matches!(r.state, RunState::Queued | RunState::Running);
            let open = self
                .runs
                .values()
                .filter(open)
                .any(|r| self.held.get(&r.id) == Some(&native.id));
            if native.completed.is_none() && !open {
                native.completed = Some(now);
            }
        }
    }

    fn shown(&self, query: &RunQuery) -> Vec<Run> {
        let within = |r: &&Run| match query.window {
            Some(Window::Logical { from, to }) => r.logical_date.is_some_and(|d| from <= d && d <= to),
            _ => true,
        };
        self.runs
            .values()
            .filter(within)
            .filter(|r| query.states.is_empty() || query.states.contains(&r.state))
            .filter(|r| query.kinds.is_empty() || query.kinds.contains(&r.kind))
            .cloned()
            .collect()
    }
}

#[async_trait]
impl Eyes for Model {
    async fn api(&self) -> Result<Api, CallError> {
        Ok(self.world().api)
    }

    async fn dag(&self, dag: &str) -> Result<Option<Dag>, CallError> {
        let mut world = self.world();
        world.looks += 1;
        let shown = json!({"dag_id": DAG, "is_paused": world.frozen});
        Ok((dag == DAG).then(|| serde_json::from_value(shown).unwrap()))
    }

    async fn pool(&self, name: &str) -> Result<Option<Pool>, CallError> {
        Ok(self.world().pools.get(name).cloned())
    }

    async fn natives(&self, _: &str) -> Result<Vec<Backfill>, CallError> {
        let mut world = self.world();
        world.looks += 1;
        Ok(world.natives.clone())
    }

    async fn runs(&self, query: &RunQuery) -> Result<Vec<Run>, CallError> {
        let mut world = self.world();
        world.looks += 1;
        Ok(world.shown(query))
    }

    async fn count(&self, query: &RunQuery) -> Result<u64, CallError> {
        let mut world = self.world();
        world.looks += 1;
        Ok(world.shown(query).len() as u64)
    }

    async fn tasks(&self, _: &str, run: &str) -> Result<Vec<TaskInstance>, CallError> {
        let mut world = self.world();
        world.looks += 1;
        let early = world.ended_early.iter().any(|r| r == run);
        let (load, publish) = if early {
            ("failed", "skipped")
        } else {
            ("success", "success")
        };
        Ok([("load", load), ("publish", publish)]
            .iter()
            .map(|(task, state)| serde_json::from_value(json!({"task_id": task, "state": state})).unwrap())
            .collect())
    }

    async fn preview(&self, order: &BackfillOrder) -> Result<Vec<BackfillDay>, CallError> {
        let mut world = self.world();
        world.looks += 1;
        let day = |date| BackfillDay {
            logical_date: Some(date),
            partition_key: None,
            partition_date: None,
        };
        Ok(world.takes(order).into_iter().map(day).collect())
    }
}
