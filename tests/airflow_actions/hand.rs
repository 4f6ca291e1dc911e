//! Somebody at the levers of a real Airflow.

use crate::airflow_servers::Airflow;
use crate::airflow_support::at;
use backfill::{
    config::{Config, secret::SecretSource},
    domain::{
        attach::{Action, Asked, Attach, StepTaken},
        event::Actor,
        ids::{BackfillId, ChunkId},
        state::Mark as HumanMark,
    },
    executor::{
        Executor,
        airflow::{
            AirflowExecutor, AirflowSetup, Auth, BackfillOrder, Connection, ConnectionSettings, Mark,
            RunQuery, Trigger, Window,
            wire::{Backfill, Reprocess, Run, RunState},
        },
        attach::{Levers, Next, Target},
    },
    net::Surroundings,
};
use chrono::{TimeDelta, Utc};
use std::{
    num::NonZeroU32,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Somebody at the levers of a server.
pub struct Hand {
    pub airflow: Connection,
    pub levers: Arc<dyn Levers>,
    _state: tempfile::TempDir,
}

pub fn settings(server: &Airflow, user: &str, state: &Path) -> ConnectionSettings {
    let file = state.join(format!("password-{user}"));
    std::fs::write(&file, user).unwrap();
    let password = SecretSource::File(file);
    let user = user.to_owned();
    ConnectionSettings {
        auth: Auth::Password { user, password },
        surroundings: Surroundings::default(),
        request_budget: 100_000,
        ..ConnectionSettings::new("real", &server.url)
    }
}

impl Hand {
    pub fn new(server: &Airflow, user: &str) -> Self {
        let state = tempfile::tempdir().unwrap();
        let connection = || settings(server, user, state.path());
        let (send, _) = tokio::sync::mpsc::unbounded_channel();
        let setup = AirflowSetup {
            connection: connection(),
            state: state.path().to_owned(),
            interval: Duration::from_secs(5),
            dags: Vec::new(),
        };
        Self {
            airflow: Connection::new(connection()).unwrap(),
            levers: AirflowExecutor::new(setup, send).unwrap().levers().unwrap(),
            _state: state,
        }
    }

    pub fn admin(server: &Airflow) -> Self {
        Self::new(server, "admin")
    }

    /// Does an action as the supervisor does, one request after the other. `lost`: the answer to the request of this
    /// number does not come back.
    pub async fn act(&self, target: &Target, action: Action, lost: Option<usize>) -> Done {
        static SEQ: AtomicU64 = AtomicU64::new(0);
        let begun = Instant::now();
        let mut asked = Asked {
            // No run that an earlier test process made has the number of one of ours.
            seq: Utc::now().timestamp_micros() as u64 * 1000 + SEQ.fetch_add(1, Ordering::SeqCst) % 1000,
            action,
            native: None,
            mark: HumanMark {
                by: Actor::supervisor(),
                at: Utc::now(),
                reason: None,
            },
            steps: Vec::new(),
            ended: None,
        };
        let mut sent_in_all = 0;
        loop {
            assert!(begun.elapsed() < Duration::from_secs(240), "{asked:#?}");
            match self.levers.next(target, &asked).await.unwrap() {
                Next::Wait(span, _) => tokio::time::sleep(span).await,
                Next::Ended { ok, said } => {
                    let done = Done {
                        ok,
                        said,
                        sent: asked.steps.iter().map(|s| s.sent.clone()).collect(),
                        took: begun.elapsed(),
                    };
                    println!(
                        "{}: {:.1} s, {done:?}",
                        asked.action.words(),
                        done.took.as_secs_f32()
                    );
                    return done;
                }
                Next::Send { sent, call } => {
                    let unanswered = asked.steps.iter().position(|s| s.answer.is_none());
                    if let Some(place) = unanswered {
                        asked.steps.remove(place);
                    }
                    asked.steps.push(StepTaken {
                        no: asked.steps.len() as u32,
                        at: Utc::now(),
                        sent,
                        call: call.clone(),
                        answer: None,
                    });
                    let answer = self.levers.perform(target, &call).await;
                    if Some(sent_in_all) != lost {
                        let answer = answer.map_or_else(|e| (false, e.to_string()), |said| (true, said));
                        asked.steps.last_mut().unwrap().answer = Some(answer);
                    }
                    sent_in_all += 1;
                }
            }
        }
    }

    pub async fn runs(&self, target: &Target, days: (&str, &str)) -> Vec<Run> {
        let (from, to) = (
            at(&format!("{}T00:00:00Z", days.0)),
            at(&format!("{}T23:59:59Z", days.1)),
        );
        let query = RunQuery {
            window: Some(Window::Logical { from, to }),
            ..RunQuery::of(&target.spec.dag.as_ref().unwrap().id)
        };
        let mut runs = self.airflow.runs(&query).await.unwrap().rows;
        runs.sort_by_key(|r| r.logical_date);
        runs
    }

    pub async fn native(&self, dag: &str) -> Backfill {
        self.airflow.backfills(dag).await.unwrap().rows[0].clone()
    }

    /// Nothing of an earlier test process is left: no native backfill is unfinished, and the days have no run.
    pub async fn sweep(&self, target: &Target, days: (&str, &str)) {
        let dag = target.spec.dag.as_ref().unwrap().id.clone();
        if self.airflow.version().await.unwrap().is_at_least(3, 0) {
            for native in self.airflow.backfills(&dag).await.unwrap().rows {
                if native.is_unfinished() {
                    let _ = self.airflow.cancel_backfill(native.id).await;
                }
            }
        }
        for run in self.runs(target, days).await {
            for _ in 0..60 {
                if self.airflow.delete_run(&dag, &run.id).await.is_ok() {
                    break;
                }
                let _ = self.airflow.mark_run(&dag, &run.id, Mark::Failed).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    }

    /// A native backfill that somebody else makes.
    pub async fn somebody(
        &self,
        dag: &str,
        from: &str,
        to: &str,
        limit: u32,
        conf: serde_json::Value,
    ) -> u64 {
        let order = BackfillOrder {
            dag: dag.to_owned(),
            from: at(from),
            to: at(to),
            max_active_runs: NonZeroU32::new(limit).unwrap(),
            newest_first: false,
            reprocess: Reprocess::None,
            conf: conf.as_object().cloned(),
        };
        self.airflow.create_backfill(&order).await.unwrap().id
    }

    pub async fn trigger(&self, dag: &str, day: &str, conf: serde_json::Value) {
        let date = at(&format!("{day}T00:00:00Z"));
        let order = Trigger {
            dag: dag.to_owned(),
            run: format!("theirs__{day}"),
            logical_date: Some(date),
            interval: Some((date, date + TimeDelta::days(1))),
            conf: conf.as_object().unwrap().clone(),
            note: None,
            partition_key: None,
        };
        self.airflow.trigger(&order).await.unwrap();
    }

    /// Waits until the runs of these days are as told.
    pub async fn until(
        &self,
        target: &Target,
        days: (&str, &str),
        what: &str,
        is: impl Fn(&[Run]) -> bool,
    ) -> Vec<Run> {
        for _ in 0..400 {
            let runs = self.runs(target, days).await;
            if is(&runs) {
                return runs;
            }
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        panic!("never {what}: {:?}", states(&self.runs(target, days).await));
    }
}

#[derive(Debug)]
pub struct Done {
    pub ok: bool,
    pub said: String,
    pub sent: Vec<String>,
    pub took: Duration,
}

impl Done {
    #[track_caller]
    pub fn good(self) -> String {
        assert!(self.ok, "{self:?}");
        self.said
    }

    #[track_caller]
    pub fn bad(self) -> String {
        assert!(!self.ok, "{self:?}");
        self.said
    }
}

pub fn target(dag: &str, zone: &str, days: (&str, &str), native: Option<u64>) -> Target {
    let text = format!(
        "[executors.real]\nkind = \"airflow\"\nurl = \"http://127.0.0.1:8080\"\n\
         [backfills.theirs]\ntarget = \"theirs\"\nstart = {}\nend = {}\ngranularity = \"day\"\ntimezone = \"{zone}\"\n\
         executor = \"real\"\ndag = \"{dag}\"\nmax_limit = 4\nprofiles = [\"default\"]\n[profiles.default]\n",
        days.0, days.1
    );
    let config = Config::parse(&text, Path::new("/etc/backfill/config.toml")).unwrap();
    let mut spec = config.backfills.into_values().next().unwrap().spec;
    spec.attach = Some(Attach { native });
    Target {
        backfill: BackfillId::new(&spec.name, rand::random::<u32>() >> 2),
        spec: Arc::new(spec),
    }
}

pub fn chunks(days: &[&str]) -> Vec<ChunkId> {
    days.iter().map(|d| d.parse().unwrap()).collect()
}

pub fn rerun(days: &[&str]) -> Action {
    Action::Rerun {
        chunks: chunks(days),
        failed_only: false,
    }
}

pub fn states(runs: &[Run]) -> Vec<String> {
    let state = |r: &Run| format!("{} {}", r.id, r.state.as_str());
    runs.iter().map(state).collect()
}

pub fn count(runs: &[Run], state: &RunState) -> usize {
    runs.iter().filter(|r| r.state == *state).count()
}

pub fn over(runs: &[Run]) -> bool {
    runs.iter()
        .all(|r| matches!(r.state, RunState::Success | RunState::Failed))
}

pub fn done(runs: &[Run]) -> bool {
    runs.iter().all(|r| r.state == RunState::Success)
}

pub const PAUSE: Action = Action::Pause { whole_dag: false };
pub const RESUME: Action = Action::Resume { whole_dag: false };
