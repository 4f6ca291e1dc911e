//! Actions on the model of a server, by a supervisor that dies at every point.

mod days;
mod lost;
mod native;
mod tables;

use super::{
    call::Call,
    decide,
    model::{DAG, Fault, Model, at, native, run},
    preview,
};
use crate::{
    config::Config,
    domain::{
        Time,
        attach::{Action, Asked, Attach, StepTaken},
        event::Actor,
        ids::{BackfillId, ChunkId},
        spec::Spec,
        state::Mark,
    },
    executor::{
        airflow::wire::{RunKind, RunState},
        attach::{Next, Target},
    },
};
use chrono::TimeDelta;
use std::{path::Path, sync::Arc};

pub fn spec() -> Spec {
    let text = r#"
        [executors.airflow-prod]
        kind = "airflow"
        url = "http://127.0.0.1:8080"
        [backfills.events]
        target = "events"
        start = 2021-09-01
        end = 2021-09-30
        granularity = "day"
        timezone = "UTC"
        executor = "airflow-prod"
        dag = "events_daily"
        max_limit = 4
        profiles = ["default"]
        [profiles.default]
    "#;
    let config = Config::parse(text, Path::new("/etc/backfill/config.toml")).unwrap();
    config.backfills.into_values().next().unwrap().spec
}

pub fn target(native: Option<u64>) -> Target {
    let mut spec = spec();
    spec.attach = Some(Attach { native });
    Target {
        backfill: BackfillId::new(&spec.name, 0),
        spec: Arc::new(spec),
    }
}

pub fn asked(action: Action) -> Asked {
    Asked {
        seq: 171,
        action,
        native: None,
        mark: Mark {
            by: Actor::supervisor(),
            at: at("2026-11-29T17:00:00Z"),
            reason: None,
        },
        steps: Vec::new(),
        ended: None,
    }
}

pub fn day(n: u32) -> ChunkId {
    format!("2021-09-{n:02}").parse().unwrap()
}

pub fn date(n: u32) -> Time {
    at(&format!("2021-09-{n:02}T00:00:00Z"))
}

/// An action under way, with the server that it is done to.
pub struct Play {
    pub model: Model,
    pub target: Target,
    pub asked: Asked,
    /// A request that was never answered gives its number to the next one, whatever that is.
    pub reuses: bool,
    runtime: tokio::runtime::Runtime,
}

impl Play {
    pub fn new(native: Option<u64>, action: Action) -> Self {
        Self {
            model: Model::new(),
            target: target(native),
            asked: asked(action),
            reuses: false,
            runtime: tokio::runtime::Builder::new_current_thread().build().unwrap(),
        }
    }

    /// A run of each of these days, of native backfill 12.
    pub fn days(&mut self, days: std::ops::RangeInclusive<u32>, state: RunState) -> &mut Self {
        for n in days {
            let id = format!("backfill__2021-09-{n:02}");
            self.model
                .world()
                .add(run(&id, date(n), RunKind::Backfill, state.clone()), Some(12));
        }
        self
    }

    /// A scheduled run of each of these days.
    pub fn scheduled(&mut self, days: std::ops::RangeInclusive<u32>, state: RunState) -> &mut Self {
        for n in days {
            let id = format!("scheduled__2021-09-{n:02}");
            self.model
                .world()
                .add(run(&id, date(n), RunKind::Scheduled, state.clone()), None);
        }
        self
    }

    /// Native backfill 12 over the first twenty days.
    pub fn twelve(&mut self) -> &mut Self {
        self.model.world().natives.push(native(12, date(1), date(20)));
        self
    }

    /// The same, cancelled: days that waited are failed and never began.
    pub fn twelve_cancelled(&mut self) -> &mut Self {
        let mut twelve = native(12, date(1), date(20));
        (twelve.paused, twelve.completed) = (true, Some(at("2026-11-02T00:00:00Z")));
        self.model.world().natives.push(twelve);
        self
    }

    pub fn next(&self) -> Next {
        let now = self.model.world().now;
        self.runtime
            .block_on(decide(&self.model, &self.target, &self.asked, now))
            .unwrap()
    }

    /// The days of a dry run, or why there is none.
    pub fn dry_run(&self, action: &Action) -> Result<Vec<ChunkId>, String> {
        self.runtime
            .block_on(preview(&self.model, &self.target, action))
            .unwrap()
    }

    /// Journals a request as the supervisor does, and answers its call.
    pub fn journal(&mut self, sent: String, call: String) -> Call {
        let now = self.model.world().now;
        let again = |s: &StepTaken| s.answer.is_none() && (self.reuses || s.call == call);
        if self.asked.steps.last().is_some_and(again) {
            self.asked.steps.pop();
        }
        let read = Call::read(&call).unwrap().call;
        self.asked.steps.push(StepTaken {
            no: u32::try_from(self.asked.steps.len()).unwrap(),
            at: now,
            sent,
            call,
            answer: None,
        });
        read
    }

    /// Until the end, with these faults one after the other, the scheduler looking in between as told.
    pub fn end(&mut self, faults: &[Fault], scheduler: bool) -> (bool, String) {
        let mut faults = faults.iter().copied();
        for _ in 0..4000 {
            match self.next() {
                Next::Ended { ok, said } => return (ok, said),
                Next::Wait(span, _) => {
                    let seconds = i64::try_from(span.as_secs()).unwrap().max(1);
                    self.model.pass(seconds);
                }
                Next::Send { sent, call } => {
                    let call = self.journal(sent, call);
                    let answer = self.model.send(&call, faults.next().unwrap_or(Fault::None));
                    if let Some(step) = self.asked.steps.last_mut() {
                        step.answer = answer;
                    }
                    self.model.pass(1);
                }
            }
            if scheduler {
                self.model.schedule();
            }
        }
        panic!("it does not end: {:?}", self.asked.steps.last());
    }

    /// Everything that was sent, for people.
    pub fn sent(&self) -> Vec<&str> {
        self.asked.steps.iter().map(|s| s.sent.as_str()).collect()
    }

    pub fn done(&self) -> Vec<String> {
        self.model.world().done.clone()
    }

    pub fn state(&self, id: &str) -> RunState {
        self.model.world().runs[id].state.clone()
    }
}

pub fn rerun(days: impl IntoIterator<Item = u32>) -> Action {
    Action::Rerun {
        chunks: days.into_iter().map(day).collect(),
        failed_only: false,
    }
}

#[test]
fn the_model_has_the_dag_that_is_attached_to() {
    assert_eq!(spec().dag.unwrap().id, DAG);
}
