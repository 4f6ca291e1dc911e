//! The levers of real Airflows: every action ends in the state that its words promise, also where its answers are lost.
//!
//! On the servers that all tests share these are ours: native backfills in 2022, of `events_daily` but for May and
//! June, of `newyork_daily` in March and November, of `pooled_daily`, `retry_daily` and `long_daily`; the pool
//! `default_pool`.

// Helpers of tests may fail loudly like tests themselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod airflow_servers;
mod airflow_support;

use airflow_servers::{Airflow, three, two};
use airflow_support::at;
use backfill::{
    config::{Config, secret::SecretSource},
    domain::{
        Time,
        attach::{Action, Asked, Attach, Reprocess, StepTaken},
        event::Actor,
        ids::{BackfillId, ChunkId},
        state::Mark as HumanMark,
    },
    executor::{
        Executor,
        airflow::{
            AirflowExecutor, AirflowSetup, Auth, BackfillOrder, Connection, ConnectionSettings, Mark,
            RunQuery, Trigger, Window,
            wire::{Backfill, Reprocess as WireReprocess, Run, RunKind, RunState},
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
struct Hand {
    airflow: Connection,
    levers: Arc<dyn Levers>,
    _state: tempfile::TempDir,
}

fn settings(server: &Airflow, user: &str, state: &Path) -> ConnectionSettings {
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
    fn new(server: &Airflow, user: &str) -> Self {
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

    fn admin(server: &Airflow) -> Self {
        Self::new(server, "admin")
    }

    /// Does an action as the supervisor does, one request after the other. `lost`: the answer to the request of this
    /// number does not come back.
    async fn act(&self, target: &Target, action: Action, lost: Option<usize>) -> Done {
        static SEQ: AtomicU64 = AtomicU64::new(0);
        let begun = Instant::now();
        let mut asked = Asked {
            // No run that an earlier test process made has the number of one of ours.
            seq: Utc::now().timestamp_micros() as u64 * 1000 + SEQ.fetch_add(1, Ordering::SeqCst) % 1000,
            action,
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

    async fn runs(&self, target: &Target, days: (&str, &str)) -> Vec<Run> {
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

    async fn native(&self, dag: &str) -> Backfill {
        self.airflow.backfills(dag).await.unwrap().rows[0].clone()
    }

    /// Nothing of an earlier test process is left: no native backfill is unfinished, and the days have no run.
    async fn sweep(&self, target: &Target, days: (&str, &str)) {
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
    async fn somebody(&self, dag: &str, from: &str, to: &str, limit: u32, conf: serde_json::Value) -> u64 {
        let order = BackfillOrder {
            dag: dag.to_owned(),
            from: at(from),
            to: at(to),
            max_active_runs: NonZeroU32::new(limit).unwrap(),
            newest_first: false,
            reprocess: WireReprocess::None,
            conf: conf.as_object().cloned(),
        };
        self.airflow.create_backfill(&order).await.unwrap().id
    }

    async fn trigger(&self, dag: &str, day: &str, conf: serde_json::Value) {
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
    async fn until(
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
struct Done {
    ok: bool,
    said: String,
    sent: Vec<String>,
    took: Duration,
}

impl Done {
    #[track_caller]
    fn good(self) -> String {
        assert!(self.ok, "{self:?}");
        self.said
    }

    #[track_caller]
    fn bad(self) -> String {
        assert!(!self.ok, "{self:?}");
        self.said
    }
}

fn target(dag: &str, zone: &str, days: (&str, &str), native: Option<u64>) -> Target {
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

fn chunks(days: &[&str]) -> Vec<ChunkId> {
    days.iter().map(|d| d.parse().unwrap()).collect()
}

fn rerun(days: &[&str]) -> Action {
    Action::Rerun {
        chunks: chunks(days),
        failed_only: false,
    }
}

fn states(runs: &[Run]) -> Vec<String> {
    let state = |r: &Run| format!("{} {}", r.id, r.state.as_str());
    runs.iter().map(state).collect()
}

fn count(runs: &[Run], state: &RunState) -> usize {
    runs.iter().filter(|r| r.state == *state).count()
}

fn over(runs: &[Run]) -> bool {
    runs.iter()
        .all(|r| matches!(r.state, RunState::Success | RunState::Failed))
}

fn done(runs: &[Run]) -> bool {
    runs.iter().all(|r| r.state == RunState::Success)
}

const PAUSE: Action = Action::Pause { whole_dag: false };
const RESUME: Action = Action::Resume { whole_dag: false };

/// Also facts 3 and 4, and the bounds of New York: the days around the shift of clocks begin at 05:00Z and 04:00Z.
#[tokio::test]
async fn a_new_native_backfill_has_the_days_of_its_dry_run_and_is_paused_and_resumed() {
    let hand = Hand::admin(three());
    let days = ("2022-03-10", "2022-03-18");
    let place = target("newyork_daily", "America/New_York", days, None);
    hand.sweep(&place, days).await;
    assert_eq!(
        hand.act(&place, PAUSE, None).await.bad(),
        "newyork_daily has no unfinished native backfill to pause; what else runs of it can be held by its pool, or by \
         freezing the whole DAG"
    );
    let create = Action::Create {
        first: "2022-03-11".parse().unwrap(),
        last: "2022-03-16".parse().unwrap(),
        limit: 2,
        reprocess: Reprocess::None,
        newest_first: true,
    };
    let previewed = hand.levers.dry_run(&place, &create).await.unwrap();
    assert_eq!(previewed.len(), 6);
    assert_eq!(
        (previewed[0].to_string(), previewed[5].to_string()),
        ("2022-03-11".into(), "2022-03-16".into())
    );
    let said = hand.act(&place, create.clone(), None).await.good();
    let native = hand.native("newyork_daily").await;
    assert_eq!(
        said,
        format!(
            "native backfill {} is made: 6 days, 2022-03-11 to 2022-03-16, at most 2 at once, the newest first",
            native.id
        )
    );
    let dates: Vec<Time> = hand
        .runs(&place, days)
        .await
        .iter()
        .filter_map(|r| r.logical_date)
        .collect();
    assert_eq!(dates.len(), 6);
    assert_eq!(
        (dates[0], dates[5]),
        (at("2022-03-11T05:00:00Z"), at("2022-03-16T04:00:00Z"))
    );

    let said = hand.act(&place, PAUSE, None).await.good();
    assert!(
        said.starts_with(&format!("native backfill {} is paused: ", native.id)),
        "{said}"
    );
    assert!(said.ends_with("no further day starts"), "{said}");
    let said = hand.act(&place, PAUSE, None).await;
    assert!(
        said.sent.is_empty() && said.said.contains("was paused already"),
        "{said:?}"
    );
    // What runs finishes, and nothing else starts.
    let runs = hand
        .until(&place, days, "finished", |r| count(r, &RunState::Running) == 0)
        .await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let later = hand.runs(&place, days).await;
    assert_eq!(states(&later), states(&runs));
    assert!(count(&later, &RunState::Queued) > 0, "{later:?}");
    assert!(
        hand.act(&place, create, None)
            .await
            .bad()
            .contains("is not over, and Airflow has one at a time")
    );

    // Also where the answer is lost.
    let said = hand.act(&place, RESUME, Some(0)).await.good();
    assert_eq!(
        said,
        format!("native backfill {} goes on, up to 2 days at once", native.id)
    );
    hand.until(&place, days, "done", done).await;
    assert_eq!(hand.act(&place, RESUME, None).await.sent.len(), 0);
}

#[tokio::test]
async fn a_whole_dag_is_frozen_only_if_that_is_asked_for_on_both_versions() {
    for server in [three(), two()] {
        let hand = Hand::admin(server);
        let days = ("2022-01-01", "2022-01-02");
        let place = target("fragile_daily", "UTC", days, None);
        let dag = || async { hand.airflow.dag("fragile_daily").await.unwrap().paused };
        let pause = Action::Pause { whole_dag: true };
        let said = hand.act(&place, pause.clone(), None).await.good();
        assert_eq!(
            said,
            "the DAG fragile_daily is paused: tasks that run finish, and nothing else of it starts, also not in days \
             under way"
        );
        assert!(dag().await);
        assert!(
            hand.act(&place, pause, None)
                .await
                .good()
                .contains("was paused already")
        );
        let resume = Action::Resume { whole_dag: true };
        // Also where the answer is lost.
        assert_eq!(
            hand.act(&place, resume, Some(0)).await.good(),
            "the DAG fragile_daily goes on"
        );
        assert!(!dag().await);
    }
}

#[tokio::test]
async fn the_slots_of_both_kinds_of_pool_are_set_on_both_versions() {
    for server in [three(), two()] {
        let hand = Hand::admin(server);
        let place = target("pooled_daily", "UTC", ("2022-01-01", "2022-01-02"), None);
        for name in ["backfill_pool", "default_pool"] {
            let before = hand.airflow.pool(name).await.unwrap();
            let set = |slots| Action::Slots {
                pool: name.to_owned(),
                slots,
            };
            let said = hand.act(&place, set(before.slots + 3), None).await.good();
            assert_eq!(
                said,
                format!(
                    "pool {name} has {} slots, which takes effect within seconds; tasks that run finish",
                    before.slots + 3
                )
            );
            let now = hand.airflow.pool(name).await.unwrap();
            assert_eq!(
                (now.slots, now.include_deferred),
                (before.slots + 3, before.include_deferred)
            );
            assert_eq!(now.description, before.description);
            let again = hand.act(&place, set(before.slots + 3), None).await;
            assert!(
                again.sent.is_empty() && again.said.ends_with("already"),
                "{again:?}"
            );
            let none = hand.act(&place, set(-1), None).await.good();
            assert_eq!(
                none,
                format!("pool {name} has no limit now, which takes effect within seconds")
            );
            hand.act(&place, set(before.slots), Some(0)).await.good();
            assert_eq!(hand.airflow.pool(name).await.unwrap().slots, before.slots);
        }
        let nope = Action::Slots {
            pool: "nope".into(),
            slots: 1,
        };
        assert_eq!(
            hand.act(&place, nope, None).await.bad(),
            "the server has no pool nope"
        );
    }
}

/// Facts 2 and 3: a life of a native backfill with a day that fails, replaced, cancelled, and its days made to run
/// again although it is cancelled.
#[tokio::test]
async fn a_native_backfill_is_replaced_and_cancelled_and_its_days_really_run_again() {
    let hand = Hand::admin(three());
    let days = ("2022-03-10", "2022-04-08");
    let dag = "events_daily";
    let place = target(dag, "UTC", days, None);
    hand.sweep(&place, days).await;
    let _ = std::fs::remove_file(three().dir.join("repaired/2022-03-14"));
    let conf = serde_json::json!({"sleep": 2, "mark": "kept"});
    let first = hand
        .somebody(dag, "2022-03-10T00:00:00Z", "2022-04-08T00:00:00Z", 2, conf)
        .await;
    let place = target(dag, "UTC", days, Some(first));
    let bad = |runs: &[Run]| runs.iter().any(|r| r.state == RunState::Failed);
    let before = hand.until(&place, days, "a day failed", bad).await;
    let kept: Vec<(String, Option<Time>)> = before
        .iter()
        .filter(|r| r.state == RunState::Success)
        .map(|r| (r.id.clone(), r.started))
        .collect();
    assert!(kept.len() >= 3, "{:?}", states(&before));

    // The answer to the cancel is lost, as is that to the making.
    let replace = Action::Replace { limit: 3 };
    let planned = hand.levers.dry_run(&place, &replace).await.unwrap();
    assert!(
        planned.len() >= 20 && planned.contains(&"2022-03-14".parse().unwrap()),
        "{planned:?}"
    );
    let said = hand.act(&place, replace, Some(1)).await.good();
    let second = hand.native(dag).await;
    assert!(
        said.starts_with(&format!(
            "native backfill {first} is cancelled, and {} is made in its place: ",
            second.id
        )),
        "{said}"
    );
    assert!(
        said.contains("; 1 of them had failed before and runs again, too; days that are done are kept"),
        "{said}"
    );
    assert!(hand.airflow.backfill(first).await.unwrap().is_cancelled());
    assert_eq!(second.max_active_runs, Some(3));
    assert_eq!(
        (second.from, second.to),
        (at("2022-03-14T00:00:00Z"), at("2022-04-08T00:00:00Z"))
    );
    assert_eq!(second.conf.as_ref().unwrap()["mark"], "kept");
    let after = hand.runs(&place, days).await;
    assert_eq!(after.len(), 30);
    for (id, started) in &kept {
        let run = after.iter().find(|r| r.id == *id).unwrap();
        assert_eq!((&run.state, run.started), (&RunState::Success, *started));
    }
    // What is attached to is cancelled; its successor is what the next action is about.
    let same = hand.act(&place, Action::Replace { limit: 3 }, None).await;
    assert_eq!(
        same.said,
        format!("native backfill {} had the limit 3 already", second.id)
    );

    hand.until(&place, days, "three run", |r| count(r, &RunState::Running) >= 2)
        .await;
    let said = hand
        .act(&place, Action::Cancel { running: true }, None)
        .await
        .good();
    let cancelled = format!("native backfill {} is cancelled: ", second.id);
    assert!(said.starts_with(&cancelled), "{said}");
    assert!(
        said.contains("that waited will not run; ") && said.contains("ended, and marked failed"),
        "{said}"
    );
    let runs = hand.runs(&place, days).await;
    assert!(over(&runs), "{:?}", states(&runs));
    assert_eq!(
        hand.act(&place, RESUME, None).await.bad(),
        format!(
            "native backfill {first} was cancelled at {}, and Airflow never starts anything of a cancelled one again: \
             make a new native backfill over the days that are left",
            hand.airflow
                .backfill(first)
                .await
                .unwrap()
                .completed
                .unwrap()
                .format("%Y-%m-%d %H:%MZ")
        )
    );

    // A day that was done, one that was ended, one that never began, one of another year.
    let of = |state: RunState, begun: bool| {
        let found = runs
            .iter()
            .find(|r| r.state == state && r.started.is_some() == begun);
        found.unwrap().clone()
    };
    let (good, ended, never) = (
        runs.iter().find(|r| r.id == kept[0].0).unwrap().clone(),
        of(RunState::Failed, true),
        of(RunState::Failed, false),
    );
    let named = |r: &Run| r.logical_date.unwrap().format("%Y-%m-%d").to_string();
    let (good_day, ended_day, never_day) = (named(&good), named(&ended), named(&never));
    std::fs::create_dir_all(three().dir.join("repaired")).unwrap();
    std::fs::write(three().dir.join("repaired/2022-03-14"), "").unwrap();
    let again = rerun(&[&good_day, &ended_day, &never_day, "2022-04-09"]);
    let said = hand.act(&place, again, Some(1)).await.bad();
    assert!(
        said.contains("2022-04-09 has no run to clear: make a native backfill over it"),
        "{said}"
    );
    assert!(
        said.contains("were deleted and made anew, since Airflow starts nothing again of native backfill"),
        "{said}"
    );
    let chosen = [&good_day, &ended_day, &never_day];
    let runs = hand
        .until(&place, days, "the chosen days are done", |runs| {
            let mine = runs.iter().filter(|r| chosen.contains(&&named(r)));
            mine.clone().count() == 3 && mine.clone().all(|r| r.state == RunState::Success)
        })
        .await;
    for day in chosen {
        let run = runs.iter().find(|r| named(r) == *day).unwrap();
        assert_eq!(run.kind, RunKind::Manual, "{run:?}");
        assert_eq!(run.conf.as_ref().unwrap()["mark"], "kept");
        assert_eq!(
            run.interval,
            good.interval.map(|(s, e)| {
                let shift = run.logical_date.unwrap() - good.logical_date.unwrap();
                (s + shift, e + shift)
            })
        );
        let tasks = hand.airflow.tasks(dag, &run.id).await.unwrap().rows;
        assert!(
            tasks
                .iter()
                .all(|t| t.state == Some(backfill::executor::airflow::wire::TaskState::Success))
        );
    }
    let ledger = std::fs::read_to_string(three().dir.join("ledger")).unwrap();
    let ours = |l: &&str| l.contains(place.backfill.as_str()) && l.contains("\tload\t");
    assert_eq!(ledger.lines().filter(ours).count(), 3, "each ran once");
}

#[tokio::test]
async fn days_are_run_again_ended_and_marked_on_both_versions() {
    for server in [three(), two()] {
        let hand = Hand::admin(server);
        let days = ("2022-07-01", "2022-07-09");
        let dag = "events_daily";
        let place = target(dag, "UTC", days, None);
        hand.sweep(&place, days).await;
        hand.trigger(dag, "2022-07-01", serde_json::json!({"exit": 3}))
            .await;
        hand.trigger(dag, "2022-07-02", serde_json::json!({})).await;
        hand.trigger(dag, "2022-07-03", serde_json::json!({"sleep": 600}))
            .await;
        let ready = |runs: &[Run]| {
            count(runs, &RunState::Success) == 1
                && count(runs, &RunState::Failed) == 1
                && count(runs, &RunState::Running) == 1
        };
        let runs = hand.until(&place, days, "one of each", ready).await;
        let started = |runs: &[Run], n: usize| runs[n].started;
        let tries = |task: &str, n: usize| {
            let (hand, task, run) = (&hand, task.to_owned(), runs[n].id.clone());
            async move {
                let tasks = hand.airflow.tasks(dag, &run).await.unwrap().rows;
                tasks.iter().find(|t| t.task == task).unwrap().try_number
            }
        };

        // Both that are over run again once, whatever is lost; the one that runs is left alone.
        let said = hand
            .act(
                &place,
                rerun(&["2022-07-01", "2022-07-02", "2022-07-03"]),
                Some(0),
            )
            .await
            .good();
        assert!(
            said.starts_with("2022-07-01 and 2022-07-02 run again ("),
            "{said}"
        );
        assert!(
            said.ends_with("; 2022-07-03 was under way already and left alone"),
            "{said}"
        );
        let runs = hand
            .until(&place, days, "over again", |r| {
                let both = |n: usize| started(r, n).is_some() && started(r, n) != started(&runs, n);
                both(0) && both(1) && over(&r[..2])
            })
            .await;
        assert_eq!((tries("load", 0).await, tries("load", 1).await), (2, 2));

        // Only what failed.
        let failed_only = Action::Rerun {
            chunks: chunks(&["2022-07-01", "2022-07-02"]),
            failed_only: true,
        };
        let said = hand.act(&place, failed_only, None).await.good();
        assert!(said.contains("nothing had failed in 2022-07-02"), "{said}");
        hand.until(&place, days, "over again", |r| {
            started(r, 0).is_some() && started(r, 0) != started(&runs, 0) && over(&r[..2])
        })
        .await;
        assert_eq!((tries("load", 0).await, tries("load", 1).await), (3, 2));

        let mark = |days: &[&str], done| Action::Mark {
            chunks: chunks(days),
            done,
        };
        let said = hand
            .act(
                &place,
                mark(&["2022-07-01", "2022-07-02", "2022-07-03", "2022-07-04"], true),
                None,
            )
            .await
            .bad();
        assert_eq!(
            said,
            "2022-07-01 is marked done; 2022-07-02 was done already; 2022-07-03 was running, and what runs cannot be \
             marked: end it first; 2022-07-04 has no run to mark"
        );
        let said = hand
            .act(&place, mark(&["2022-07-02"], false), Some(0))
            .await
            .good();
        assert_eq!(said, "2022-07-02 is marked failed");
        let runs = hand.runs(&place, days).await;
        assert_eq!(
            (&runs[0].state, &runs[1].state),
            (&RunState::Success, &RunState::Failed)
        );

        let stop = Action::Stop {
            chunks: chunks(&["2022-07-01", "2022-07-02", "2022-07-03"]),
        };
        let said = hand.act(&place, stop.clone(), None).await.good();
        assert_eq!(said, "2022-07-03 was ended, and marked failed");
        let runs = hand.runs(&place, days).await;
        assert_eq!(runs[2].state, RunState::Failed);
        assert_eq!(hand.act(&place, stop, None).await.good(), "nothing of it runs");
    }
}

#[tokio::test]
async fn airflow_2_is_told_to_have_no_native_backfills_and_nothing_is_sent() {
    let hand = Hand::admin(two());
    let place = target("events_daily", "UTC", ("2022-08-01", "2022-08-02"), None);
    let create = Action::Create {
        first: "2022-08-01".parse().unwrap(),
        last: "2022-08-02".parse().unwrap(),
        limit: 1,
        reprocess: Reprocess::None,
        newest_first: false,
    };
    for action in [
        PAUSE,
        RESUME,
        Action::Replace { limit: 1 },
        Action::Cancel { running: true },
        create,
    ] {
        let done = hand.act(&place, action, None).await;
        assert!(done.sent.is_empty());
        assert!(done.bad().starts_with("Airflow 2 has no native backfills: "));
    }
}

#[tokio::test]
async fn without_the_permission_nothing_is_done_and_the_server_is_quoted() {
    let admin = Hand::admin(three());
    let hand = Hand::new(three(), "viewer");
    let days = ("2022-09-01", "2022-09-02");
    let place = target("events_daily", "UTC", days, None);
    admin.sweep(&place, days).await;
    admin
        .trigger("events_daily", "2022-09-01", serde_json::json!({}))
        .await;
    admin.until(&place, days, "over", over).await;
    let said = hand.act(&place, rerun(&["2022-09-01"]), None).await.bad();
    assert!(
        said.starts_with("nothing runs again; 2022-09-01: not cleared: real: 403, not allowed"),
        "{said}"
    );
    let slots = Action::Slots {
        pool: "backfill_pool".into(),
        slots: 9,
    };
    let said = hand.act(&place, slots, None).await.bad();
    assert!(
        said.starts_with("pool backfill_pool still has 2 slots: real: 403, not allowed"),
        "{said}"
    );
}

/// Pause is what a signal asks for: the days that run finish, the pool acts within seconds.
#[tokio::test]
async fn a_cancel_without_ending_what_runs_lets_it_go_on() {
    let hand = Hand::admin(three());
    let days = ("2022-10-01", "2022-10-08");
    let dag = "pooled_daily";
    let place = target(dag, "UTC", days, None);
    hand.sweep(&place, days).await;
    let id = hand
        .somebody(
            dag,
            "2022-10-01T00:00:00Z",
            "2022-10-08T00:00:00Z",
            2,
            serde_json::json!({"sleep": 8}),
        )
        .await;
    hand.until(&place, days, "two run", |r| count(r, &RunState::Running) == 2)
        .await;
    let said = hand
        .act(&place, Action::Cancel { running: false }, Some(0))
        .await
        .good();
    assert_eq!(
        said,
        format!("native backfill {id} is cancelled: 6 days that waited will not run; 2 days that run go on")
    );
    let runs = hand.until(&place, days, "over", over).await;
    assert_eq!(
        (count(&runs, &RunState::Success), count(&runs, &RunState::Failed)),
        (2, 6)
    );
    assert!(
        runs.iter()
            .filter(|r| r.state == RunState::Failed)
            .all(Run::was_never_begun)
    );
    let said = hand
        .act(&place, Action::Cancel { running: true }, None)
        .await
        .bad();
    assert!(
        said.starts_with("pooled_daily has no unfinished native backfill to cancel"),
        "{said}"
    );
    let attached = target(dag, "UTC", days, Some(id));
    let said = hand
        .act(&attached, Action::Cancel { running: true }, None)
        .await
        .good();
    assert!(
        said.starts_with(&format!("native backfill {id} was cancelled already, at ")),
        "{said}"
    );
    assert!(said.ends_with("; nothing of it runs"), "{said}");
}
