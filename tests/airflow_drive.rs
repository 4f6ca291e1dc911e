//! Chunks as DAG runs: each is run once, whatever gets lost on the way, and its end is believed only when its tasks
//! say the same.
//! Reason for its length: one stand-in server and one set-up serve all of it, and each proof reads on from the last.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod airflow_support;

use airflow_support::{
    at,
    standin::{Fault, Plays, Standin},
};
use async_trait::async_trait;
use backfill::{
    config::Config,
    domain::{
        Time,
        attach::Taking,
        calendar::cut,
        failure::FailureClass,
        ids::{AttemptId, BackfillId, ExternalId},
        spec::{Profile, Spec},
    },
    executor::{
        Executor, Probe, RunEnd, RunOrder, RunUpdate, SubmitAnswer,
        airflow::{AirflowExecutor, AirflowSetup, Auth, Clock, ConnectionSettings},
    },
    host::BootInstant,
    net::Surroundings,
};
use std::{
    collections::{BTreeMap, HashSet},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use wiremock::MockServer;

const RUN: &str = "events-aaaaaa__2021-02-04";
const TRIGGER: &str = "POST /api/v2/dags/events_daily/dagRuns";
const CLEAR: &str = "POST /api/v2/dags/events_daily/dagRuns/events-aaaaaa__2021-02-04/clear";
const DELETE: &str = "DELETE /api/v2/dags/events_daily/dagRuns/";
const MARK: &str = "PATCH /api/v2/dags/events_daily/dagRuns/";

/// A clock whose time only the test moves; who waits is woken soon, so that rounds follow each other fast.
#[derive(Debug, Default)]
struct Still(AtomicU64);

impl Still {
    fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1000, Ordering::SeqCst);
    }
}

#[async_trait]
impl Clock for Still {
    fn now(&self) -> BootInstant {
        BootInstant(1_000_000 + self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Time {
        at("2026-11-29T17:00:00Z")
    }

    async fn sleep(&self, _: Duration) {
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

struct Bench {
    airflow: Standin,
    server: MockServer,
    state: tempfile::TempDir,
    clock: Arc<Still>,
}

struct Hand {
    executor: AirflowExecutor,
    updates: UnboundedReceiver<(AttemptId, RunUpdate)>,
}

impl Bench {
    async fn new(plays: Plays) -> Self {
        let airflow = Standin::new(plays);
        Self {
            server: airflow.serve().await,
            airflow,
            state: tempfile::tempdir().unwrap(),
            clock: Arc::default(),
        }
    }

    async fn three() -> Self {
        Self::new(Plays::Three).await
    }

    /// An executor on the same state directory: what a supervisor makes after its former self was killed.
    fn hand(&self) -> Hand {
        let connection = ConnectionSettings {
            auth: Auth::None,
            surroundings: Surroundings::default(),
            request_budget: 100_000,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            ..ConnectionSettings::new("airflow-prod", &self.server.uri())
        };
        let setup = AirflowSetup {
            connection,
            state: self.state.path().to_owned(),
            interval: Duration::from_secs(5),
            dags: vec!["events_daily".to_owned()],
        };
        let (send, updates) = unbounded_channel();
        Hand {
            executor: AirflowExecutor::new(setup, send).unwrap(),
            updates,
        }
    }
}

impl Hand {
    async fn submit(&self, no: u32) -> SubmitAnswer {
        self.executor.submit(order(no)).await
    }

    async fn probe(&self, no: u32) -> Probe {
        self.executor.probe(order(no)).await
    }

    async fn next(&mut self) -> RunUpdate {
        let next = tokio::time::timeout(Duration::from_secs(10), self.updates.recv());
        next.await.expect("an update within 10 s").unwrap().1
    }

    /// The end of a run that is looked at again when some seconds have passed.
    async fn end_in_time(&mut self, clock: &Still) -> RunEnd {
        loop {
            clock.advance(6);
            tokio::select! {
                end = self.end() => return end,
                () = tokio::time::sleep(Duration::from_millis(50)) => {}
            }
        }
    }

    async fn end(&mut self) -> RunEnd {
        loop {
            match self.next().await {
                RunUpdate::Ended(end) => return end,
                RunUpdate::Started => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn spec() -> Spec {
    let text = r#"
        [executors.airflow-prod]
        kind = "airflow"
        url = "http://127.0.0.1:8080"
        [backfills.events]
        target = "events"
        start = 2021-02-04
        end = 2021-02-10
        granularity = "day"
        timezone = "America/New_York"
        executor = "airflow-prod"
        dag = "events_daily"
        conf = { force = true, day = "{{ ds }}" }
        source = { bucket = "raw" }
        max_limit = 4
        profiles = ["default"]
        [profiles.default]
        memory = "512MiB"
    "#;
    let config = Config::parse(text, Path::new("/etc/backfill/config.toml")).unwrap();
    config.backfills.into_values().next().unwrap().spec
}

fn order_of(no: u32, drawn: u32, memory: u64) -> RunOrder {
    let spec = spec();
    let (chunk, interval) = cut(spec.timezone, spec.start, spec.end, spec.granularity)[0];
    RunOrder {
        attempt: AttemptId {
            backfill: BackfillId::new(&spec.name, drawn),
            chunk,
            no,
        },
        profile: Profile {
            memory: Some(memory),
            ..spec.profiles[0].clone()
        },
        spec: Arc::new(spec),
        start: interval.start,
        end: interval.end,
        secrets: BTreeMap::new(),
        taking: None,
        epoch: 1,
    }
}

fn order(no: u32) -> RunOrder {
    order_of(no, 0, 512 << 20)
}

fn accepted(answer: &SubmitAnswer) -> String {
    match answer {
        SubmitAnswer::Accepted { run, .. } => run.to_string(),
        other => panic!("{other:?}"),
    }
}

fn adopted(answer: &SubmitAnswer) -> String {
    match answer {
        SubmitAnswer::AlreadyExists { run, .. } => run.to_string(),
        other => panic!("{other:?}"),
    }
}

fn refusal(answer: &SubmitAnswer) -> (FailureClass, String) {
    match answer {
        SubmitAnswer::Refused { failure } => (failure.class, failure.message.clone()),
        other => panic!("{other:?}"),
    }
}

/// Nothing came of it, and it may be sent again; `under_way`: and must not be given up yet.
#[track_caller]
fn assert_traceless(probe: &Probe, may_be_under_way: bool) {
    assert!(
        matches!(probe, Probe::Traceless { under_way, .. } if *under_way == may_be_under_way),
        "{probe:?}"
    );
}

#[track_caller]
fn assert_unknown(answer: &SubmitAnswer) {
    assert!(matches!(answer, SubmitAnswer::Unknown { .. }), "{answer:?}");
}

fn failure(end: &RunEnd) -> (FailureClass, &str) {
    let failure = end.result.as_ref().unwrap_err();
    (failure.class, failure.message.as_str())
}

/// An attempt that ended, its tasks in these states.
async fn first_attempt(
    bench: &Bench,
    hand: &mut Hand,
    state: &'static str,
    tasks: &[&'static str],
) -> RunEnd {
    assert_eq!(accepted(&hand.submit(1).await), format!("{RUN}#1"));
    bench.airflow.end(RUN, state, tasks);
    hand.end().await
}

/// Also B06: a day of New York begins at 05:00Z.
#[tokio::test]
async fn a_day_becomes_a_run_with_our_id_its_date_both_ends_and_what_we_know_of_it() {
    for plays in [Plays::Three, Plays::Two] {
        let bench = Bench::new(plays).await;
        let mut hand = bench.hand();
        assert_eq!(accepted(&hand.submit(1).await), format!("{RUN}#1"));
        let run = bench.airflow.run(RUN);
        assert_eq!(run.date, at("2021-02-04T05:00:00Z"));
        let ends = (
            "2021-02-04T05:00:00Z".to_owned(),
            "2021-02-05T05:00:00Z".to_owned(),
        );
        assert_eq!(run.interval, ends);
        assert_eq!(
            run.conf,
            serde_json::json!({
                "force": true, "day": "2021-02-04",
                "backfill": {
                    "chunk": "2021-02-04", "attempt": 1, "source": {"bucket": "raw"},
                    "profile": {"name": "default", "memory": 512 << 20},
                },
            })
        );
        bench.airflow.start(RUN);
        assert_eq!(hand.next().await, RunUpdate::Started);
        bench.airflow.end(RUN, "success", &["success", "success"]);
        let end = hand.end().await;
        assert_eq!(end.result, Ok(()));
        assert!(end.started.is_some() && end.ended.is_some() && !end.cancelled);
    }
}

#[tokio::test]
async fn an_answer_lost_before_or_after_the_effect_leaves_one_run_and_no_guess() {
    for plays in [Plays::Three, Plays::Two] {
        let bench = Bench::new(plays).await;
        let hand = bench.hand();
        let trigger = if plays == Plays::Three {
            TRIGGER
        } else {
            "POST /api/v1/dags/events_daily/dagRuns"
        };
        bench.airflow.fault(trigger, Fault::LostAfter);
        assert_eq!(adopted(&hand.submit(1).await), format!("{RUN}#1"));
        assert_eq!(bench.airflow.begun(), 1);

        let bench = Bench::new(plays).await;
        let hand = bench.hand();
        bench.airflow.fault(trigger, Fault::LostBefore);
        assert_unknown(&hand.submit(1).await);
        // It may still arrive, and whichever of the two comes second is refused.
        assert_traceless(&hand.probe(1).await, true);
        bench.clock.advance(30);
        assert_traceless(&hand.probe(1).await, false);
        assert_eq!(accepted(&hand.submit(1).await), format!("{RUN}#1"));
        assert_eq!(bench.airflow.begun(), 1);
    }
}

/// The first request comes after all, and after the second.
#[tokio::test]
async fn a_request_that_is_sent_again_meets_the_first_one_and_leaves_one_run() {
    for plays in [Plays::Three, Plays::Two] {
        let bench = Bench::new(plays).await;
        let trigger = if plays == Plays::Three {
            TRIGGER
        } else {
            "POST /api/v1/dags/events_daily/dagRuns"
        };
        // Killed while it sent: nobody looked for what came of it.
        bench.airflow.fault(trigger, Fault::LostBefore);
        assert_unknown(&bench.hand().submit(1).await);
        // Sent again, and the server is away: that says nothing about the first.
        bench.airflow.fault(trigger, Fault::Answer(429, "{}"));
        assert_unknown(&bench.hand().submit(1).await);
        assert_traceless(&bench.hand().probe(1).await, true);
        // The first one arrives, and the third says so.
        bench.airflow.fault(trigger, Fault::LostAfter);
        assert_eq!(adopted(&bench.hand().submit(1).await), format!("{RUN}#1"));
        assert_eq!(adopted(&bench.hand().submit(1).await), format!("{RUN}#1"));
        assert_eq!((bench.airflow.begun(), bench.airflow.runs()), (1, 1));
    }
}

/// Nothing of it is on the way, and the attempt is at no fault.
#[tokio::test]
async fn what_cannot_even_leave_is_told_as_that() {
    let bench = Bench::three().await;
    bench.airflow.fault(TRIGGER, Fault::Answer(429, "{}"));
    let answer = bench.hand().submit(1).await;
    assert!(matches!(answer, SubmitAnswer::NotSent { .. }), "{answer:?}");
    assert_traceless(&bench.hand().probe(1).await, false);
    assert_eq!(accepted(&bench.hand().submit(1).await), format!("{RUN}#1"));
    // A later attempt looks first.
    let mut hand = bench.hand();
    assert!(matches!(hand.probe(1).await, Probe::Alive { .. }));
    bench.airflow.end(RUN, "failed", &["failed"]);
    hand.end().await;
    bench
        .airflow
        .fault("GET /api/v2/dags/events_daily/dagRuns/", Fault::LostBefore);
    let answer = hand.submit(2).await;
    assert!(matches!(answer, SubmitAnswer::NotSent { .. }), "{answer:?}");
    assert_eq!(hand.probe(2).await, Probe::NeverRan);
}

#[tokio::test]
async fn a_supervisor_that_was_killed_finds_its_runs_wherever_it_was() {
    let bench = Bench::three().await;
    // Killed before the record was written: nothing had left.
    assert_eq!(bench.hand().probe(1).await, Probe::NeverRan);
    // Killed after the run was made and before the answer came.
    bench.airflow.fault(TRIGGER, Fault::LostAfter);
    bench
        .airflow
        .fault("GET /api/v2/dags/events_daily/dagRuns/", Fault::LostBefore);
    assert_unknown(&bench.hand().submit(1).await);
    let mut hand = bench.hand();
    let found = hand.probe(1).await;
    assert!(
        matches!(&found, Probe::Alive { run, running: false } if run.0 == format!("{RUN}#1")),
        "{found:?}"
    );
    // Killed while it ran, and it ended meanwhile.
    drop(hand);
    bench.airflow.end(RUN, "success", &["success", "success"]);
    hand = bench.hand();
    assert!(matches!(hand.probe(1).await, Probe::Alive { running: true, .. }));
    assert_eq!(hand.end().await.result, Ok(()));
    assert_eq!(bench.airflow.begun(), 1);
}

#[tokio::test]
async fn a_run_of_ours_is_found_also_when_the_records_of_this_machine_are_lost() {
    let mut bench = Bench::three().await;
    accepted(&bench.hand().submit(1).await);
    bench.state = tempfile::tempdir().unwrap();
    assert!(matches!(bench.hand().probe(1).await, Probe::Alive { .. }));
    bench.state = tempfile::tempdir().unwrap();
    assert_eq!(adopted(&bench.hand().submit(1).await), format!("{RUN}#1"));
    assert_eq!(bench.airflow.begun(), 1);
}

#[tokio::test]
async fn a_later_attempt_clears_the_run_of_the_earlier_one() {
    for plays in [Plays::Three, Plays::Two] {
        let bench = Bench::new(plays).await;
        let mut hand = bench.hand();
        let end = first_attempt(&bench, &mut hand, "failed", &["failed", "upstream_failed"]).await;
        assert_eq!(failure(&end).0, FailureClass::Other);
        assert_eq!(accepted(&hand.submit(2).await), format!("{RUN}#2"));
        assert_eq!((bench.airflow.begun(), bench.airflow.runs()), (2, 1));
        // It does not end with the end of the attempt before.
        bench.airflow.start(RUN);
        assert_eq!(hand.next().await, RunUpdate::Started);
        bench.airflow.end(RUN, "success", &["success", "success"]);
        assert_eq!(hand.end().await.result, Ok(()));
    }
}

#[tokio::test]
async fn a_clear_without_an_answer_is_known_by_what_the_run_was_like_before() {
    for plays in [Plays::Three, Plays::Two] {
        let clear = if plays == Plays::Three {
            CLEAR
        } else {
            &CLEAR.replace("v2", "v1")
        };
        // Done, and over again before anybody looked.
        let bench = Bench::new(plays).await;
        let mut hand = bench.hand();
        first_attempt(&bench, &mut hand, "failed", &["failed"]).await;
        bench.airflow.fault(clear, Fault::LostAfter);
        let run = if plays == Plays::Three {
            "GET /api/v2/dags/events_daily/dagRuns/"
        } else {
            "GET /api/v1/dags/events_daily/dagRuns/"
        };
        // The look before the clear passes, the one after it is lost.
        bench.airflow.world().requests.clear();
        assert_eq!(adopted(&hand.submit(2).await), format!("{RUN}#2"));
        assert!(bench.airflow.count(run) >= 2);
        drop(hand);
        bench.airflow.end(RUN, "success", &["success", "success"]);
        let mut hand = bench.hand();
        assert!(matches!(hand.probe(2).await, Probe::Alive { .. }));
        assert_eq!(hand.end().await.result, Ok(()));

        // Not done: the end of the attempt before is not taken for its own.
        let bench = Bench::new(plays).await;
        let mut hand = bench.hand();
        first_attempt(&bench, &mut hand, "failed", &["failed"]).await;
        bench.airflow.fault(clear, Fault::LostBefore);
        assert_unknown(&hand.submit(2).await);
        let other = bench.hand();
        assert!(matches!(other.probe(2).await, Probe::Unknown { .. }));
        assert_unknown(&other.submit(2).await);
        assert_eq!(bench.airflow.count(clear), 1);
        bench.clock.advance(30);
        assert_traceless(&other.probe(2).await, false);
        assert_eq!(accepted(&other.submit(2).await), format!("{RUN}#2"));
        assert_eq!(bench.airflow.begun(), 2);
    }
}

#[tokio::test]
async fn with_another_profile_the_run_is_deleted_and_made_anew_once() {
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    first_attempt(&bench, &mut hand, "failed", &["failed"]).await;
    let larger = || order_of(2, 0, 1 << 30);
    assert_eq!(
        accepted(&hand.executor.submit(larger()).await),
        format!("{RUN}#2")
    );
    let run = bench.airflow.run(RUN);
    assert_eq!(run.conf["backfill"]["profile"]["memory"], 1 << 30);
    assert_eq!(
        (run.conf["backfill"]["attempt"].as_u64(), bench.airflow.begun()),
        (Some(2), 2)
    );
    assert_eq!(bench.airflow.count(CLEAR), 0);

    // The delete is done and its answer lost: nothing was made yet, so that it may be sent again at once.
    for fault in [Fault::LostAfter, Fault::LostBefore] {
        let bench = Bench::three().await;
        let mut hand = bench.hand();
        first_attempt(&bench, &mut hand, "failed", &["failed"]).await;
        bench.airflow.fault(DELETE, fault);
        assert_unknown(&hand.executor.submit(larger()).await);
        if fault == Fault::LostBefore {
            assert!(matches!(
                bench.hand().executor.probe(larger()).await,
                Probe::Unknown { .. }
            ));
            bench.clock.advance(30);
        }
        assert_traceless(&bench.hand().executor.probe(larger()).await, false);
        accepted(&bench.hand().executor.submit(larger()).await);
        assert_eq!((bench.airflow.begun(), bench.airflow.runs()), (2, 1));
    }

    // The new run is made and its answer lost.
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    first_attempt(&bench, &mut hand, "failed", &["failed"]).await;
    bench.airflow.fault(TRIGGER, Fault::LostAfter);
    assert_eq!(adopted(&hand.executor.submit(larger()).await), format!("{RUN}#2"));
    assert_eq!(bench.airflow.begun(), 2);
}

/// The date of the chunk in New York.
const DATE: &str = "2021-02-04T05:00:00Z";
const THEIRS: &str = "scheduled__2021-02-04T05:00:00+00:00";

/// An order for which a human chose what becomes of somebody else's run.
fn taking(no: u32, how: Taking) -> RunOrder {
    RunOrder {
        taking: Some((ExternalId(THEIRS.to_owned()), how)),
        ..order(no)
    }
}

/// Somebody else's run of the day in this state, both tasks as told.
async fn with_theirs(plays: Plays, state: &'static str, tasks: &[&'static str]) -> Bench {
    let bench = Bench::new(plays).await;
    bench.airflow.foreign(THEIRS, DATE, "scheduled", state);
    if !tasks.is_empty() {
        bench.airflow.end(THEIRS, state, tasks);
    }
    bench
}

#[tokio::test]
async fn somebody_elses_run_on_the_date_is_named_and_left_alone() {
    for (plays, id) in [
        (Plays::Three, "backfill__2021-02-04T05:00:00+00:00"),
        (Plays::Two, "scheduled__x"),
    ] {
        let bench = Bench::new(plays).await;
        bench.airflow.foreign(id, DATE, "backfill", "queued");
        let answer = bench.hand().submit(1).await;
        let taken = SubmitAnswer::DateTaken {
            run: ExternalId(id.to_owned()),
            what: format!("the backfill run {id} (queued)"),
        };
        assert_eq!(answer, taken);
        assert_eq!(
            (bench.airflow.run(id).state, bench.airflow.begun()),
            ("queued", 0)
        );
        assert_traceless(&bench.hand().probe(1).await, false);
    }
}

#[tokio::test]
async fn an_adopted_run_is_watched_and_its_end_is_judged_as_any() {
    for plays in [Plays::Three, Plays::Two] {
        for (tasks, good) in [(&["success", "success"], true), (&["success", "skipped"], false)] {
            let bench = with_theirs(plays, "queued", &[]).await;
            let mut hand = bench.hand();
            let answer = hand.executor.submit(taking(2, Taking::Adopt)).await;
            assert_eq!(adopted(&answer), format!("{THEIRS}#2"));
            bench.airflow.start(THEIRS);
            assert_eq!(hand.next().await, RunUpdate::Started);
            bench.airflow.end(THEIRS, "success", tasks);
            assert_eq!(hand.end().await.result.is_ok(), good);
            assert_eq!((bench.airflow.begun(), bench.airflow.runs()), (0, 1));
        }
        let bench = with_theirs(plays, "failed", &["failed", "upstream_failed"]).await;
        let mut hand = bench.hand();
        adopted(&hand.executor.submit(taking(2, Taking::Adopt)).await);
        assert!(
            hand.end().await.result.is_err(),
            "one that is over counts at once"
        );
    }
}

#[tokio::test]
async fn an_adopted_run_is_found_again_after_a_restart_and_can_be_ended() {
    let bench = with_theirs(Plays::Three, "running", &[]).await;
    adopted(&bench.hand().executor.submit(taking(2, Taking::Adopt)).await);
    let mut hand = bench.hand();
    let found = hand.executor.probe(taking(2, Taking::Clear)).await;
    assert!(
        matches!(&found, Probe::Alive { run, running: true } if run.0 == format!("{THEIRS}#2")),
        "{found:?}"
    );
    hand.executor
        .cancel(&"events-aaaaaa/2021-02-04/2".parse().unwrap())
        .await
        .unwrap();
    let end = hand.end_in_time(&bench.clock).await;
    assert!(end.cancelled, "{end:?}");
    assert_eq!(bench.airflow.begun(), 0);
}

#[tokio::test]
async fn a_run_that_is_to_be_cleared_makes_way_for_ours_once_whatever_is_lost() {
    let theirs = format!("{DELETE}{THEIRS}")
        .replace(':', "%3A")
        .replace('+', "%2B");
    for (path, fault) in [
        (None, Fault::LostBefore),
        (Some(theirs.as_str()), Fault::LostBefore),
        (Some(&theirs), Fault::LostAfter),
        (Some(TRIGGER), Fault::LostBefore),
        (Some(TRIGGER), Fault::LostAfter),
    ] {
        for state in ["success", "failed", "queued"] {
            let bench = with_theirs(Plays::Three, state, &[]).await;
            let order = || taking(2, Taking::Clear);
            if let Some(path) = path {
                bench.airflow.fault(path, fault);
            }
            // A supervisor that is killed after each try.
            let mut answer = bench.hand().executor.submit(order()).await;
            while !matches!(
                answer,
                SubmitAnswer::Accepted { .. } | SubmitAnswer::AlreadyExists { .. }
            ) {
                assert_unknown(&answer);
                bench.clock.advance(30);
                answer = bench.hand().executor.submit(order()).await;
            }
            assert_eq!((bench.airflow.begun(), bench.airflow.runs()), (1, 1), "{path:?}");
            let run = bench.airflow.run(RUN);
            assert_eq!(run.conf["backfill"]["attempt"], 2);
            assert_eq!(run.date, at(DATE));
        }
    }
}

#[tokio::test]
async fn a_run_that_is_no_longer_as_it_was_when_the_choice_was_made_is_not_run_over() {
    for (plays, state) in [
        (Plays::Three, "running"),
        (Plays::Two, "running"),
        // Between the look and the delete it may start, and 2.x would not mind.
        (Plays::Two, "queued"),
    ] {
        let bench = with_theirs(plays, state, &[]).await;
        let answer = bench.hand().executor.submit(taking(2, Taking::Clear)).await;
        let (class, words) = refusal(&answer);
        assert_eq!(class, FailureClass::Platform);
        assert_eq!(
            words,
            format!("the scheduled run {THEIRS} ({state}) is not over yet, and only then it is cleared")
        );
        assert_eq!(bench.airflow.run(THEIRS).state, state);
    }
    // It started in the very moment.
    let bench = with_theirs(Plays::Three, "queued", &[]).await;
    let delete = format!("{DELETE}{THEIRS}")
        .replace(':', "%3A")
        .replace('+', "%2B");
    let words = r#"{"detail":"The DagRun cannot be deleted in running state"}"#;
    bench.airflow.fault(&delete, Fault::Answer(409, words));
    let answer = bench.hand().executor.submit(taking(2, Taking::Clear)).await;
    assert_eq!(refusal(&answer).0, FailureClass::Platform);
    assert_eq!(bench.airflow.begun(), 0);
}

#[tokio::test]
async fn when_the_run_that_was_to_be_taken_is_gone_ours_is_made_as_usual() {
    for how in [Taking::Adopt, Taking::Clear] {
        let bench = Bench::three().await;
        let answer = bench.hand().executor.submit(taking(2, how)).await;
        assert_eq!(accepted(&answer), format!("{RUN}#2"));
        // And if another one has come in its place, a human chooses again.
        let bench = Bench::three().await;
        bench.airflow.foreign("manual__other", DATE, "manual", "running");
        let answer = bench.hand().executor.submit(taking(2, how)).await;
        assert!(
            matches!(&answer, SubmitAnswer::DateTaken { run, .. } if run.0 == "manual__other"),
            "{answer:?}"
        );
    }
}

/// After an adoption the run counts as ours: the next attempt makes it run again.
#[tokio::test]
async fn the_attempt_after_an_adopted_one_makes_the_day_run_again() {
    let bench = with_theirs(Plays::Three, "failed", &["failed", "upstream_failed"]).await;
    let mut hand = bench.hand();
    adopted(&hand.executor.submit(taking(2, Taking::Adopt)).await);
    hand.end().await;
    assert_eq!(
        accepted(&hand.executor.submit(taking(3, Taking::Clear)).await),
        format!("{RUN}#3")
    );
    bench.airflow.end(RUN, "failed", &["failed", "upstream_failed"]);
    hand.end().await;
    assert_eq!(
        accepted(&hand.executor.submit(taking(4, Taking::Clear)).await),
        format!("{RUN}#4")
    );
    assert_eq!((bench.airflow.begun(), bench.airflow.runs()), (2, 1));
}

#[tokio::test]
async fn a_new_order_of_the_same_backfill_clears_what_the_order_before_made() {
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    first_attempt(&bench, &mut hand, "success", &["success", "success"]).await;
    let second = || order_of(1, 1, 512 << 20);
    // Lost first: that both are attempt 1 proves nothing.
    bench.airflow.fault(CLEAR, Fault::LostBefore);
    assert_unknown(&hand.executor.submit(second()).await);
    assert!(matches!(
        hand.executor.probe(second()).await,
        Probe::Unknown { .. }
    ));
    bench.clock.advance(30);
    assert_traceless(&hand.executor.probe(second()).await, false);
    assert_eq!(
        accepted(&hand.executor.submit(second()).await),
        format!("{RUN}#1")
    );
    assert_eq!((bench.airflow.begun(), bench.airflow.runs()), (2, 1));
}

#[tokio::test]
async fn a_run_that_a_native_backfill_took_over_is_made_anew_since_it_would_never_start() {
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    first_attempt(&bench, &mut hand, "failed", &["failed"]).await;
    bench.airflow.world().runs.get_mut(RUN).unwrap().kind = "backfill";
    accepted(&hand.submit(2).await);
    assert_eq!(bench.airflow.run(RUN).kind, "manual");
}

#[tokio::test]
async fn a_success_without_work_is_a_failure_of_the_day() {
    for (tasks, start, words) in [
        (
            &[][..],
            "2021-01-01T00:00:00Z",
            "suspect success: not one task of it ran",
        ),
        (
            &["success", "skipped"],
            "2021-01-01T00:00:00Z",
            "(publish skipped)",
        ),
        (
            &["failed", "skipped"],
            "2021-01-01T00:00:00Z",
            "none of its last tasks succeeded",
        ),
        (
            &["success", "success"],
            "2022-01-01T00:00:00Z",
            "lies before the DAG's start date 2022-01-01",
        ),
    ] {
        for plays in [Plays::Three, Plays::Two] {
            let bench = Bench::new(plays).await;
            bench.airflow.world().start = start;
            let mut hand = bench.hand();
            let end = first_attempt(&bench, &mut hand, "success", tasks).await;
            let (class, message) = failure(&end);
            assert!(
                class == FailureClass::Data && message.contains(words),
                "{class:?} {message}"
            );
        }
    }
    // A task that is skipped on the way is nothing to suspect.
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    let end = first_attempt(&bench, &mut hand, "success", &["skipped", "success"]).await;
    assert_eq!(end.result, Ok(()));
}

#[tokio::test]
async fn a_failure_is_classed_from_the_log_of_the_task_that_failed() {
    for plays in [Plays::Three, Plays::Two] {
        let bench = Bench::new(plays).await;
        bench.airflow.world().log = vec![
            "Output:",
            "Killed: out of memory on 2021-02-04",
            "Command exited with return code 137",
            "Task failed with exception",
        ];
        let mut hand = bench.hand();
        let end = first_attempt(&bench, &mut hand, "failed", &["failed", "upstream_failed"]).await;
        assert_eq!(
            failure(&end),
            (
                FailureClass::Oom,
                "load: exit 137: Killed: out of memory on 2021-02-04"
            )
        );
        assert_eq!(end.result.unwrap_err().exit, Some(137));
    }
}

/// The scheduler writes over a run that was marked failed in the middle of its work.
#[tokio::test]
async fn a_cancel_is_looked_after_and_repeated_while_the_run_runs_on() {
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    accepted(&hand.submit(1).await);
    bench.airflow.start(RUN);
    assert_eq!(hand.next().await, RunUpdate::Started);
    let attempt = order(1).attempt;
    hand.executor.cancel(&attempt).await.unwrap();
    assert_eq!(bench.airflow.run(RUN).state, "failed");
    bench.airflow.start(RUN);
    bench.clock.advance(6);
    while bench.airflow.count(MARK) < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(
        hand.updates.try_recv().is_err(),
        "told before it was looked at again"
    );
    let end = hand.end_in_time(&bench.clock).await;
    assert!(
        end.cancelled && failure(&end).0 == FailureClass::Cancelled,
        "{end:?}"
    );
    // Overwritten with a success that did nothing: cancelled all the same.
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    accepted(&hand.submit(1).await);
    bench.airflow.start(RUN);
    hand.executor.cancel(&attempt).await.unwrap();
    bench.airflow.end(RUN, "success", &["failed", "skipped"]);
    bench.clock.advance(6);
    assert!(hand.end().await.cancelled);
}

#[tokio::test]
async fn a_cancel_of_what_is_done_changes_nothing_and_one_by_a_killed_supervisor_is_remembered() {
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    accepted(&hand.submit(1).await);
    bench.airflow.end(RUN, "success", &["success", "success"]);
    hand.executor.cancel(&order(1).attempt).await.unwrap();
    assert_eq!(bench.airflow.run(RUN).state, "success");
    assert_eq!(hand.end().await.result, Ok(()));

    let bench = Bench::three().await;
    let hand = bench.hand();
    accepted(&hand.submit(1).await);
    hand.executor.cancel(&order(1).attempt).await.unwrap();
    drop(hand);
    let mut hand = bench.hand();
    assert!(matches!(hand.probe(1).await, Probe::Alive { .. }));
    bench.clock.advance(6);
    assert!(hand.end().await.cancelled);
}

#[tokio::test]
async fn a_server_that_is_away_or_refuses_the_credentials_gives_no_verdict_and_is_taken_up_again() {
    for storm in [
        (503, "{}"),
        (401, r#"{"detail":"Token Expired"}"#),
        (403, r#"{"detail":"Invalid JWT token"}"#),
    ] {
        let bench = Bench::three().await;
        let mut hand = bench.hand();
        accepted(&hand.submit(1).await);
        bench.airflow.world().storm = Some(storm);
        let answer = hand.executor.submit(order_of(1, 5, 1)).await;
        if storm.0 == 503 {
            assert_unknown(&answer);
        } else {
            assert!(matches!(answer, SubmitAnswer::NotSent { .. }), "{answer:?}");
        }
        assert!(matches!(hand.probe(1).await, Probe::Unknown { .. }), "{storm:?}");
        assert!(hand.executor.health().await.is_err(), "{storm:?}");
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(hand.updates.try_recv().is_err(), "{storm:?}");
        bench.airflow.world().storm = None;
        bench.airflow.end(RUN, "success", &["success", "success"]);
        if storm.0 != 503 {
            hand.executor.connection().log_in_again().await;
        }
        assert_eq!(hand.end().await.result, Ok(()), "{storm:?}");
        bench.clock.advance(31);
        hand.executor.health().await.unwrap();
    }
}

#[tokio::test]
async fn a_no_that_every_day_would_hear_is_one_about_the_order() {
    for (status, body, words) in [
        (403, r#"{"detail":"Forbidden"}"#, "Forbidden"),
        (
            404,
            r#"{"detail":"The Dag with ID: `events_daily` was not found"}"#,
            "was not found",
        ),
        (422, r#"{"detail":"no such parameter"}"#, "no such parameter"),
    ] {
        let bench = Bench::three().await;
        bench.airflow.fault(TRIGGER, Fault::Answer(status, body));
        let (class, message) = refusal(&bench.hand().submit(1).await);
        assert!(
            class == FailureClass::Config && message.contains(words),
            "{class:?} {message}"
        );
        assert_traceless(&bench.hand().probe(1).await, false);
    }
}

#[tokio::test]
async fn what_keeps_runs_queued_is_told_as_what_it_is() {
    let bench = Bench::three().await;
    let hand = bench.hand();
    hand.executor.health().await.unwrap();
    for (change, words) in [
        (
            (|w| w.scheduler = "unhealthy") as fn(&mut airflow_support::standin::World),
            "its scheduler is not alive",
        ),
        (|w| w.paused = true, "the DAG events_daily is paused"),
    ] {
        change(&mut bench.airflow.world());
        bench.clock.advance(31);
        let error = hand.executor.health().await.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        bench.airflow.world().scheduler = "healthy";
        bench.airflow.world().paused = false;
        bench.clock.advance(31);
        hand.executor.health().await.unwrap();
    }
    // Case B10.
    accepted(&hand.submit(1).await);
    bench.clock.advance(599);
    hand.executor.health().await.unwrap();
    bench.clock.advance(1);
    let error = hand.executor.health().await.unwrap_err().to_string();
    assert!(error.contains("queued for over 10 minutes"), "{error}");
}

/// Ten minutes of work at the most.
fn timed(no: u32) -> RunOrder {
    let mut order = order(no);
    order.profile.deadline_ms = Some(600_000);
    order
}

/// Waits until the tasks of the run were looked at so many times.
async fn looks_at_its_work(bench: &Bench, times: usize) {
    let tasks = format!("GET /api/v2/dags/events_daily/dagRuns/{RUN}/taskInstances");
    while bench.airflow.count(&tasks) < times {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_deadline_counts_neither_while_the_run_is_queued_nor_while_it_is_frozen() {
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    accepted(&hand.executor.submit(timed(1)).await);
    bench.airflow.world().now += chrono::TimeDelta::hours(2);
    bench.clock.advance(7200);
    // The scheduler has taken it up, and no task of it starts: the DAG is paused, or nothing is free.
    bench.airflow.world().runs.get_mut(RUN).unwrap().state = "running";
    let now = bench.airflow.world().now;
    bench.airflow.world().runs.get_mut(RUN).unwrap().started = Some(now);
    assert_eq!(hand.next().await, RunUpdate::Started);
    bench.airflow.world().now += chrono::TimeDelta::hours(2);
    looks_at_its_work(&bench, 1).await;
    bench.airflow.start(RUN);
    bench.airflow.world().now += chrono::TimeDelta::seconds(540);
    let polls = || bench.airflow.count("GET /api/v2/dags/events_daily/dagRuns?");
    let before = polls();
    while polls() < before + 20 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(bench.airflow.count(MARK), 0);
    bench.airflow.world().now += chrono::TimeDelta::seconds(90);
    while bench.airflow.count(MARK) == 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let end = hand.end_in_time(&bench.clock).await;
    assert_eq!(failure(&end).0, FailureClass::Timeout);
}

/// Law: a poll shows it anyway, so only one that may be over its time costs requests of its own.
#[tokio::test]
async fn a_running_one_with_a_deadline_costs_no_request_of_its_own_before_it_can_be_late() {
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    accepted(&hand.executor.submit(timed(1)).await);
    bench.airflow.start(RUN);
    assert_eq!(hand.next().await, RunUpdate::Started);
    let polls = || bench.airflow.count("GET /api/v2/dags/events_daily/dagRuns?");
    let single = || bench.airflow.count("GET /api/v2/dags/events_daily/dagRuns/");
    let (before, singles) = (polls(), single());
    while polls() < before + 20 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(single(), singles);
}

/// The cancel finds nothing to cancel: the request that makes the run is still under way.
#[tokio::test]
async fn a_cancel_that_comes_before_the_run_ends_it_when_it_is_there() {
    let bench = Bench::three().await;
    bench.airflow.fault(TRIGGER, Fault::LostBefore);
    let mut hand = bench.hand();
    assert_unknown(&hand.submit(1).await);
    hand.executor.cancel(&order(1).attempt).await.unwrap();
    assert_eq!(bench.airflow.count(MARK), 0);
    // It is made after all.
    accepted(&hand.submit(1).await);
    bench.airflow.start(RUN);
    let end = hand.end_in_time(&bench.clock).await;
    assert!(end.cancelled, "{end:?}");
    assert_eq!(bench.airflow.run(RUN).state, "failed");
}

/// A cancel takes two requests, and whoever asked for it may have lost patience after the first.
#[tokio::test]
async fn a_cancel_goes_on_when_nobody_waits_for_it_any_more() {
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    accepted(&hand.submit(1).await);
    bench.airflow.start(RUN);
    assert_eq!(hand.next().await, RunUpdate::Started);
    let (executor, attempt) = (hand.executor.clone(), order(1).attempt);
    let asking = async move { executor.cancel(&attempt).await };
    assert!(
        tokio::time::timeout(Duration::from_micros(1), asking)
            .await
            .is_err(),
        "it was given up at its first request"
    );
    assert!(hand.end_in_time(&bench.clock).await.cancelled);
}

/// A log that cannot be read keeps one run waiting for a while, and no other.
#[tokio::test]
async fn a_log_that_cannot_be_read_delays_one_verdict_and_keeps_no_other_waiting() {
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    accepted(&hand.submit(1).await);
    let mut other = order(1);
    let spec = spec();
    let (chunk, interval) = cut(spec.timezone, spec.start, spec.end, spec.granularity)[1];
    (other.attempt.chunk, other.start, other.end) = (chunk, interval.start, interval.end);
    accepted(&hand.executor.submit(other).await);
    let log = format!("GET /api/v2/dags/events_daily/dagRuns/{RUN}/taskInstances/load/logs/");
    for _ in 0..3 {
        bench.airflow.fault(&log, Fault::Answer(500, "{}"));
    }
    bench.airflow.end(RUN, "failed", &["failed", "upstream_failed"]);
    bench
        .airflow
        .end("events-aaaaaa__2021-02-05", "success", &["success", "success"]);
    assert_eq!(hand.end().await.result, Ok(()), "the other one is told first");
    assert_eq!(failure(&hand.end().await).0, FailureClass::Other);
    // And one that is never readable does not wait for ever.
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    for _ in 0..4 {
        bench.airflow.fault(&log, Fault::Answer(500, "{}"));
    }
    let end = first_attempt(&bench, &mut hand, "failed", &["failed"]).await;
    assert_eq!(failure(&end).1, "load failed, and its log says nothing");
}

#[tokio::test]
async fn a_run_that_somebody_deleted_is_over_and_may_be_tried_again() {
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    accepted(&hand.submit(1).await);
    bench.airflow.world().runs.clear();
    bench.clock.advance(61);
    let end = hand.end().await;
    assert_eq!(
        failure(&end),
        (FailureClass::Platform, "its run was deleted on the server")
    );
    accepted(&hand.submit(2).await);
}

#[tokio::test]
async fn open_runs_are_watched_by_one_question_for_all_of_them() {
    let bench = Bench::three().await;
    let mut hand = bench.hand();
    for drawn in 0..20 {
        let mut order = order_of(1, 0, 512 << 20);
        let spec = spec();
        let chunks = cut(
            spec.timezone,
            spec.start,
            spec.start + chrono::Days::new(30),
            spec.granularity,
        );
        let (chunk, interval) = chunks[drawn];
        (order.attempt.chunk, order.start, order.end) = (chunk, interval.start, interval.end);
        accepted(&hand.executor.submit(order).await);
    }
    let polls = |bench: &Bench| bench.airflow.count("GET /api/v2/dags/events_daily/dagRuns?");
    // Each is looked at or heard of once; after that only the question is asked.
    let single = |bench: &Bench| bench.airflow.count("GET /api/v2/dags/events_daily/dagRuns/");
    while polls(&bench) < 15 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (before, singles) = (polls(&bench), single(&bench));
    while polls(&bench) < before + 10 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(single(&bench), singles);
    bench.airflow.start(RUN);
    assert_eq!(hand.next().await, RunUpdate::Started);
    assert_eq!(single(&bench), singles);
}

#[tokio::test]
async fn records_of_settled_attempts_are_removed_and_the_others_stay() {
    let bench = Bench::three().await;
    let hand = bench.hand();
    accepted(&hand.submit(1).await);
    let file = bench.state.path().join("remote/events-aaaaaa/2021-02-04/1.json");
    hand.executor.tidy(&HashSet::new());
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        (record["run"].as_str(), record["stage"].as_str()),
        (Some(RUN), Some("taken"))
    );
    hand.executor.tidy(&HashSet::from([order(1).attempt]));
    assert!(!file.exists() && bench.state.path().join("remote").exists());
}
