//! Days of every kind on a real Airflow of either version: what its ten facts make of them, and how they end.

// Helpers of tests may fail loudly like tests themselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod airflow_servers;
mod support;

use airflow_servers::{Airflow, Work, three, two};
use backfill::domain::{
    failure::{Failure, FailureClass},
    state::{Attempt, Backfill, Chunk, ChunkState},
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::{Drive, Workspace, ms};

const LONG: Duration = Duration::from_secs(300);

#[test]
fn days_of_every_kind_end_on_airflow_3_as_what_they_are() {
    days_of_every_kind(three());
}

#[test]
#[ignore = "a second version: bash tests/run --full"]
fn days_of_every_kind_end_on_airflow_2_as_what_they_are() {
    days_of_every_kind(two());
}

#[test]
fn a_frozen_day_a_late_one_and_a_cancelled_one_end_on_airflow_3_as_what_they_are() {
    ends_of_every_kind(three());
}

#[test]
#[ignore = "a second version: bash tests/run --full"]
fn a_frozen_day_a_late_one_and_a_cancelled_one_end_on_airflow_2_as_what_they_are() {
    ends_of_every_kind(two());
}

/// One more `[backfills.NAME]` on the same executor.
fn order(name: &str, dag: &str, days: (&str, &str), zone: &str, more: &str) -> String {
    format!(
        "[backfills.{name}]\ntarget = \"{name}\"\nstart = {}\nend = {}\ngranularity = \"day\"\ntimezone = \"{zone}\"\n\
         executor = \"airflow\"\ndag = \"{dag}\"\nmax_limit = 4\n{more}\n",
        days.0, days.1
    )
}

fn wait<T>(workspace: &Workspace, what: &str, mut wanted: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = wanted() {
            return found;
        }
        assert!(begun.elapsed() < LONG, "waited for {what}\n{}", workspace.told());
        std::thread::sleep(ms(100));
    }
}

fn days_of_every_kind(server: &Airflow) {
    let may = ("2021-05-01", "2021-05-01");
    for (dag, days) in [
        ("events_daily", ("2022-03-14", "2022-03-14")),
        ("newyork_daily", ("2021-03-13", "2021-03-16")),
        ("mapped_daily", may),
        ("retry_daily", may),
        ("pooled_daily", ("2020-12-30", "2021-05-02")),
    ] {
        server.forget(dag, days.0, days.1);
    }
    let taken = "2021-05-02T00:00:00Z";
    let by_hand = json!({"dag_run_id": "by-hand", "logical_date": taken, "data_interval_start": taken,
                         "data_interval_end": taken});
    server.post("/dags/pooled_daily/dagRuns", by_hand);

    let mut drive = Drive::new(&server.url, ("2022-03-14", "2022-03-14"));
    drive.order = "profiles = [\"small\", \"large\"]\n".to_owned();
    drive.more = [
        "[profiles.small]\nmemory = \"1GiB\"\n[profiles.large]\nmemory = \"2GiB\"\n".to_owned(),
        order(
            "newyork",
            "newyork_daily",
            ("2021-03-13", "2021-03-15"),
            "America/New_York",
            "",
        ),
        order("mapped", "mapped_daily", may, "UTC", ""),
        order("retried", "retry_daily", may, "UTC", ""),
        order("early", "pooled_daily", ("2020-12-30", "2020-12-30"), "UTC", ""),
        order("taken", "pooled_daily", ("2021-05-02", "2021-05-02"), "UTC", ""),
    ]
    .concat();
    let workspace = drive.open();
    let names = ["events", "newyork", "mapped", "retried", "early", "taken"];
    let mut runs = names.map(|name| workspace.run(name));
    let codes = runs.each_mut().map(|run| run.end_within(LONG));
    assert_eq!(codes, [1, 0, 0, 0, 1, 1], "{}", workspace.told());
    let of = |name: &str| workspace.backfill(name).unwrap();
    a_new_profile_makes_a_new_run(server, &of("events"));
    a_day_of_new_york_is_one(server, &of("newyork"));
    assert_eq!(tasks(server, "mapped_daily", &of("mapped")), 5);
    a_retry_of_airflows_own_is_none_of_ours(server, &of("retried"));
    let early = of("early");
    let failure = failure(only_attempt(&early));
    assert_eq!(failure.class, FailureClass::Data);
    assert!(
        failure.message.contains("before the DAG's start date 2021-01-01"),
        "{failure:?}"
    );
    a_date_that_is_taken_is_held(server, &workspace);
    workspace.assert_sound();
}

fn only_chunk(backfill: &Backfill) -> &Chunk {
    let [chunk] = backfill.chunks.as_slice() else {
        panic!("{:?}", backfill.chunks);
    };
    chunk
}

fn only_attempt(backfill: &Backfill) -> &Attempt {
    let [attempt] = only_chunk(backfill).attempts.as_slice() else {
        panic!("{:?}", backfill.chunks);
    };
    attempt
}

fn failure(attempt: &Attempt) -> &Failure {
    attempt.failure.as_ref().unwrap()
}

/// Work that began for a backfill, in order.
fn work(server: &Airflow, backfill: &Backfill) -> Vec<Work> {
    let ours = format!("{}__", backfill.id);
    let ledger = server.ledger().into_iter();
    ledger.filter(|w| w.run.starts_with(&ours)).collect()
}

/// The run of a backfill's only day, as the server has it.
fn run_of(server: &Airflow, dag: &str, backfill: &Backfill) -> Value {
    let chunk = only_chunk(backfill).id;
    server.get(&format!("/dags/{dag}/dagRuns/{}__{chunk}", backfill.id))
}

fn tasks(server: &Airflow, dag: &str, backfill: &Backfill) -> usize {
    assert_eq!(only_chunk(backfill).state, ChunkState::Done);
    let run = run_of(server, dag, backfill);
    let run = run["dag_run_id"].as_str().unwrap();
    server
        .rows(
            &format!("/dags/{dag}/dagRuns/{run}/taskInstances"),
            "task_instances",
        )
        .len()
}

/// Killed twice on the small profile and once on the large one, for which the run's parameters had to change: it was
/// deleted and made anew, and both are in our history.
fn a_new_profile_makes_a_new_run(server: &Airflow, backfill: &Backfill) {
    let chunk = only_chunk(backfill);
    assert_eq!(chunk.state, ChunkState::Quarantined);
    let attempts: Vec<(u32, FailureClass, Option<i32>)> = chunk
        .attempts
        .iter()
        .map(|a| (a.profile, failure(a).class, failure(a).exit))
        .collect();
    let killed = |profile| (profile, FailureClass::Killed, Some(137));
    assert_eq!(attempts, [killed(0), killed(0), killed(1)]);
    let run = run_of(server, "events_daily", backfill);
    assert_eq!(
        run["conf"]["backfill"]["profile"],
        json!({"name": "large", "memory": 2_u64 << 30})
    );
    assert_eq!(run["conf"]["backfill"]["attempt"], 3);
    assert_eq!(work(server, backfill).len(), 3);
}

/// Of the days around the change of the clocks, each begins at its own hour of UTC.
fn a_day_of_new_york_is_one(server: &Airflow, backfill: &Backfill) {
    let midnights = [
        "2021-03-13T05:00:00Z",
        "2021-03-14T05:00:00Z",
        "2021-03-15T04:00:00Z",
        "2021-03-16T04:00:00Z",
    ];
    let at = |text: &str| -> chrono::DateTime<chrono::Utc> { text.parse().unwrap() };
    for (chunk, ends) in backfill.chunks.iter().zip(midnights.windows(2)) {
        assert_eq!(chunk.state, ChunkState::Done);
        let run = server.get(&format!(
            "/dags/newyork_daily/dagRuns/{}__{}",
            backfill.id, chunk.id
        ));
        let of_run = |key: &str| at(run[key].as_str().unwrap());
        assert_eq!(of_run("logical_date"), at(ends[0]));
        assert_eq!(of_run("data_interval_start"), at(ends[0]));
        assert_eq!(of_run("data_interval_end"), at(ends[1]));
    }
    let mut days: Vec<String> = work(server, backfill).into_iter().map(|w| w.day).collect();
    days.sort();
    assert_eq!(days, ["2021-03-13", "2021-03-14", "2021-03-15"]);
}

fn a_retry_of_airflows_own_is_none_of_ours(server: &Airflow, backfill: &Backfill) {
    assert_eq!(only_attempt(backfill).no, 1);
    assert_eq!(only_chunk(backfill).state, ChunkState::Done);
    let tries: Vec<u32> = work(server, backfill).iter().map(|w| w.attempt).collect();
    assert_eq!(tries, [1, 2]);
}

/// Somebody else's run is left alone; when it is gone, the day runs.
fn a_date_that_is_taken_is_held(server: &Airflow, workspace: &Workspace) {
    let backfill = workspace.backfill("taken").unwrap();
    assert_eq!(only_chunk(&backfill).state, ChunkState::Held);
    let note = only_attempt(&backfill).note.clone().unwrap();
    assert!(
        note.starts_with("date taken by the manual run by-hand ("),
        "{note}"
    );
    assert_eq!(work(server, &backfill), []);
    server.forget("pooled_daily", "2021-05-02", "2021-05-02");
    workspace.call(&["release", "taken", "2021-05-02"]).ok();
    assert_eq!(workspace.run("taken").end_within(LONG), 0, "{}", workspace.told());
    assert_eq!(work(server, &workspace.backfill("taken").unwrap()).len(), 1);
}

fn ends_of_every_kind(server: &Airflow) {
    let (frozen, late) = ("2021-05-01", "2021-05-02");
    server.forget("long_daily", frozen, late);
    let paused = |yes: bool| drop(server.patch("/dags/long_daily", json!({"is_paused": yes})));
    paused(false);
    let mut drive = Drive::new(&server.url, (frozen, frozen));
    drive.dag = "long_daily";
    drive.order = "conf = { sleep = 1 }\nprofiles = [\"short\"]\n".to_owned();
    let lines = "conf = { sleep = 600 }\nprofiles = [\"short\"]\n";
    drive.more =
        order("late", "long_daily", (late, late), "UTC", lines) + "[profiles.short]\ndeadline = \"12s\"\n";
    let workspace = drive.open();

    // A second of work in each of two tasks, and a pause of the whole DAG in between for longer than it may work.
    let mut run = workspace.run("events");
    wait(&workspace, "its first task", || {
        let backfill = workspace.backfill("events")?;
        (work(server, &backfill).len() == 1).then_some(())
    });
    paused(true);
    wait(&workspace, "the reason", || {
        let said = workspace.call(&["status", "--json"]).json();
        let why = said["backfills"][0]["reason"]["text"].as_str()?.to_owned();
        why.contains("the DAG long_daily is paused").then_some(())
    });
    std::thread::sleep(Duration::from_secs(18));
    assert_eq!(
        workspace.in_state("events", ChunkState::Running),
        1,
        "{}",
        workspace.told()
    );
    paused(false);
    assert_eq!(run.end_within(LONG), 0, "{}", workspace.told());
    let backfill = workspace.backfill("events").unwrap();
    let attempt = only_attempt(&backfill);
    let took = attempt.ended.unwrap() - attempt.started.unwrap();
    assert!(took > chrono::TimeDelta::seconds(18), "{took}");

    // Ten minutes of work, of which twelve seconds are allowed; and the second try is cancelled.
    let mut run = workspace.run("late");
    let failed = wait(&workspace, "the end of its time", || {
        let backfill = workspace.backfill("late")?;
        let attempts = &only_chunk(&backfill).attempts;
        attempts.first()?.failure.clone()
    });
    assert_eq!(failed.class, FailureClass::Timeout, "{failed:?}");
    wait(&workspace, "the second try", || {
        let backfill = workspace.backfill("late")?;
        (work(server, &backfill).len() == 2).then_some(())
    });
    let begun = Instant::now();
    workspace.call(&["cancel", "late", "--yes"]).ok();
    assert_eq!(run.end_within(LONG), 1, "{}", workspace.told());
    let backfill = workspace.backfill("late").unwrap();
    assert_eq!(only_chunk(&backfill).state, ChunkState::Cancelled);
    assert_eq!(run_of(server, "long_daily", &backfill)["state"], "failed");
    println!(
        "Airflow {}: cancelled within {:.1?}",
        server.version,
        begun.elapsed()
    );
    workspace.assert_sound();
}
