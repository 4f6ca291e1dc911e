//! Sixty days on a real Airflow of either version (issue 3, proof 1): whatever dies on the way, every day has one run,
//! made once, and what the journal says of it is what the server says.

// Helpers of tests may fail loudly like tests themselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod airflow_servers;
mod support;

use airflow_servers::{Airflow, three, two};
use backfill::{
    domain::{
        failure::FailureClass,
        state::{Attempt, Backfill, ChunkState},
    },
    supervisor::kill_point,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use support::{Drive, Running, Workspace, ms};

const DAG: &str = "events_daily";
const DAYS: (&str, &str) = ("2021-02-01", "2021-04-01");
/// Its load is killed, as if out of memory, until somebody repairs it.
const BAD: &str = "2021-03-14";
/// Two cores begin two tasks a second if they do nothing else, and a busy machine a tenth of that.
const LONG: Duration = Duration::from_secs(900);

#[test]
fn sixty_days_on_airflow_3_are_run_once_each_while_the_supervisor_dies_four_times() {
    sixty_days(three());
}

#[test]
#[ignore = "a second version: bash tests/run --full"]
fn sixty_days_on_airflow_2_are_run_once_each_while_the_supervisor_dies_four_times() {
    sixty_days(two());
}

fn sixty_days(server: &Airflow) {
    server.forget(DAG, DAYS.0, DAYS.1);
    let begun = Instant::now();
    let workspace = open(server);
    die_on_the_way(server, &workspace);
    let mut run = workspace.run("events");
    assert_eq!(run.end_within(LONG), 1, "{}", workspace.told());
    let of_59 = begun.elapsed();
    a_day_is_bad(&workspace);

    server.repair(BAD);
    let said = workspace.call(&["rerun", "events", BAD, "--yes"]).ok();
    assert!(said.out.contains("1 day"), "{said:?}");
    assert_eq!(
        workspace.run("events").end_within(LONG),
        0,
        "{}",
        workspace.told()
    );
    let all = begun.elapsed();
    let backfill = workspace.backfill("events").unwrap();
    assert_eq!(
        (backfill.chunks.len(), backfill.count(ChunkState::Done)),
        (60, 60)
    );
    workspace.assert_sound();
    assert_eq!(workspace.epochs().len(), 6, "four deaths and the rerun");

    the_server_agrees(server, &backfill);
    nothing_was_made_twice(server, &backfill);
    println!(
        "Airflow {}: 59 days after {of_59:.1?}, 60 after {all:.1?}",
        server.version
    );
}

fn open(server: &Airflow) -> Workspace {
    let mut drive = Drive::new(&server.url, DAYS);
    drive.order =
        "conf = { asked = \"{{ ds }}\" }\nsource = { bucket = \"raw\" }\nprofiles = [\"small\"]\n".to_owned();
    drive.more = "[profiles.small]\nmemory = \"512MiB\"\n".to_owned();
    drive.open()
}

/// Kills the supervisor with an answer in its hands, in the middle of a request, while runs are under way, and while
/// it reads what came of runs.
fn die_on_the_way(server: &Airflow, workspace: &Workspace) {
    let permission = workspace.path("may-die");
    fs::write(&permission, "").unwrap();
    let mut run = workspace.run_with("events", |c| {
        let place = format!("{}@{}", kill_point::ANSWERED, permission.display());
        c.env("BACKFILL_TESTING", "1").env("BACKFILL_KILL_AT", place);
    });
    workspace.wait("a death with an answer in its hands", || run.has_ended());
    assert!(run.was_killed(), "{}", workspace.told());

    // Those that the dead one left behind are sent again, which is another record.
    let folder = workspace.path("state/remote");
    let left_behind = records(&folder);
    let run = supervisor(workspace, 2);
    wait(workspace, ms(2), "a request under way", || {
        let sending = |r: &Value| r["stage"] == "sending" && !left_behind.contains(r);
        records(&folder).iter().any(sending).then_some(())
    });
    run.kill();

    let run = supervisor(workspace, 3);
    wait(workspace, ms(100), "runs under way", || {
        (workspace.in_state("events", ChunkState::Running) >= 3).then_some(())
    });
    run.kill();

    let run = supervisor(workspace, 4);
    wait(workspace, ms(200), "half of it", || {
        (workspace.done("events") >= 25).then_some(())
    });
    wait(
        workspace,
        ms(200),
        "ends of which the journal does not know",
        || {
            let over = server.runs(DAG, DAYS.0, DAYS.1);
            let over = over.iter().filter(|r| r["state"] == "success").count();
            (over > workspace.done("events")).then_some(())
        },
    );
    run.kill();
}

/// The program, when it has taken the lease.
fn supervisor(workspace: &Workspace, epoch: u64) -> Running {
    let run = workspace.run("events");
    wait(workspace, ms(20), "the lease", || {
        (workspace.epochs().last() == Some(&epoch)).then_some(())
    });
    run
}

fn wait<T>(workspace: &Workspace, every: Duration, what: &str, mut wanted: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = wanted() {
            return found;
        }
        assert!(begun.elapsed() < LONG, "waited for {what}\n{}", workspace.told());
        std::thread::sleep(every);
    }
}

/// What is written down of requests before they leave.
fn records(folder: &Path) -> Vec<Value> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).map_or_else(|_| Vec::new(), |d| d.flatten().map(|e| e.path()).collect())
    };
    let chunks = below(folder).into_iter().flat_map(|b| below(&b));
    let files = chunks.flat_map(|c| below(&c));
    files
        .filter_map(|f| serde_json::from_slice(&fs::read(f).ok()?).ok())
        .collect()
}

/// All are done but the one, whose tries were all killed, by what their logs say.
fn a_day_is_bad(workspace: &Workspace) {
    let backfill = workspace.backfill("events").unwrap();
    let bad = backfill.chunk(BAD.parse().unwrap()).unwrap();
    assert_eq!(
        (backfill.count(ChunkState::Done), bad.state),
        (59, ChunkState::Quarantined)
    );
    let killed: Vec<&Attempt> = bad.attempts.iter().filter(|a| ran(a)).collect();
    assert_eq!(killed.len(), 2, "tried once more, and then no more: {bad:?}");
    for attempt in killed {
        let failure = attempt.failure.as_ref().unwrap();
        assert_eq!((failure.class, failure.exit), (FailureClass::Killed, Some(137)));
        assert_eq!(failure.message, "load: exit 137: Killed");
    }
    let (code, status) = workspace.status("events");
    assert_eq!((code, status["state"].as_str()), (1, Some("incomplete")));
}

/// One that never got to the server has no start.
fn ran(attempt: &Attempt) -> bool {
    attempt.started.is_some() && !attempt.phase.is_open()
}

/// One run a day, of our name, with the date, both ends and the parameters; and all ended well.
fn the_server_agrees(server: &Airflow, backfill: &Backfill) {
    let mut runs: BTreeMap<String, Value> = BTreeMap::new();
    for run in server.runs(DAG, DAYS.0, DAYS.1) {
        let id = run["dag_run_id"].as_str().unwrap().to_owned();
        assert!(runs.insert(id, run).is_none());
    }
    assert_eq!(runs.len(), 60, "{:?}", runs.keys());
    for chunk in &backfill.chunks {
        let run = &runs[&format!("{}__{}", backfill.id, chunk.id)];
        let day = chunk.id.to_string();
        assert_eq!(
            (run["state"].as_str(), chunk.state),
            (Some("success"), ChunkState::Done)
        );
        assert_eq!(run["run_type"], "manual");
        let at = |key: &str| -> chrono::DateTime<chrono::Utc> { run[key].as_str().unwrap().parse().unwrap() };
        assert_eq!(at("logical_date"), chunk.interval.start);
        assert_eq!(at("data_interval_start"), chunk.interval.start);
        assert_eq!(at("data_interval_end"), chunk.interval.end);
        let maker = run["conf"]["backfill"]["attempt"].as_u64().unwrap();
        assert!(chunk.attempts.iter().any(|a| u64::from(a.no) == maker));
        assert_eq!(
            run["conf"],
            json!({"asked": day, "backfill": {
                "chunk": day, "attempt": maker, "source": {"bucket": "raw"},
                "profile": {"name": "small", "memory": 512 << 20},
            }})
        );
    }
}

/// By the server's audit log no run was ever asked for twice, and by the work's own ledger no day was loaded twice.
fn nothing_was_made_twice(server: &Airflow, backfill: &Backfill) {
    let ours = format!("{}__", backfill.id);
    let mut asked: BTreeMap<String, u32> = BTreeMap::new();
    let mut cleared = 0;
    for line in server.audit(DAG) {
        let extra: Value = line["extra"]
            .as_str()
            .and_then(|e| serde_json::from_str(e).ok())
            .unwrap_or_default();
        let event = line["event"].as_str().unwrap();
        let run = extra["dag_run_id"].as_str().or(line["run_id"].as_str());
        let Some(run) = run.filter(|r| r.starts_with(&ours)) else {
            continue;
        };
        match event {
            "trigger_dag_run" | "api.post_dag_run" => *asked.entry(run.to_owned()).or_default() += 1,
            "clear_dag_run" | "api.clear_dag_run" => cleared += 1,
            "delete_dag_run" | "api.delete_dag_run" => panic!("{run} was deleted"),
            _ => {}
        }
    }
    assert_eq!(asked.len(), 60);
    assert!(asked.values().all(|n| *n == 1), "{asked:?}");
    let mut loads: BTreeMap<String, u32> = BTreeMap::new();
    let ledger = server.ledger();
    for work in ledger
        .iter()
        .filter(|w| w.run.starts_with(&ours) && w.task == "load")
    {
        *loads.entry(work.day.clone()).or_default() += 1;
    }
    let bad = loads.remove(BAD);
    assert_eq!(
        (bad, cleared),
        (Some(3), 2),
        "two tries and the re-run after the repair"
    );
    assert_eq!(loads.len(), 59);
    assert!(loads.values().all(|n| *n == 1), "{loads:?}");
}
