//! Somebody else's native backfill of 120 days on a real Airflow 3, held by the whole program (issue 3, proofs 2 and
//! 3): every command ends in the state that its words promise, the calendar stays the server's, and a signal pauses and
//! resumes it.

// Helpers of tests may fail loudly like tests themselves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod airflow_servers;
mod support;

use airflow_servers::{Airflow, three};
use backfill::domain::state::{Backfill, ChunkState};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    process::Stdio,
    time::{Duration, Instant},
};
use support::{
    Drive, Running, Workspace,
    lag::{LagEndpoint, Mode},
    ms, within,
};

/// Two cores begin two tasks a second if they do nothing else, and a busy machine a tenth of that.
const LONG: Duration = Duration::from_secs(300);

/// Day and state.
type Calendar = BTreeMap<String, ChunkState>;

/// Somebody's native backfill, and this program beside it.
struct Theirs {
    server: &'static Airflow,
    dag: &'static str,
    days: (&'static str, &'static str),
    workspace: Workspace,
    run: Option<Running>,
}

impl Theirs {
    /// Makes the native backfill by hand, as somebody would before we come.
    fn begin(
        dag: &'static str,
        days: (&'static str, &'static str),
        limit: u32,
        seconds: &str,
    ) -> (Self, u64) {
        let server = three();
        server.warm_up();
        for old in server.rows(&format!("/backfills?dag_id={dag}"), "backfills") {
            if old["completed_at"].is_null() {
                server.answer("PUT", &format!("/backfills/{}/cancel", old["id"]), None);
            }
        }
        server.forget(dag, days.0, days.1);
        let order = json!({
            "dag_id": dag, "from_date": format!("{}T00:00:00Z", days.0), "to_date": format!("{}T00:00:00Z", days.1),
            "max_active_runs": limit, "run_backwards": false, "reprocess_behavior": "none",
            "dag_run_conf": {"sleep": seconds},
        });
        let id = server.post("/backfills", order)["id"].as_u64().unwrap();
        let theirs = Self {
            server,
            dag,
            days,
            workspace: Drive::new(&server.url, days).open(),
            run: None,
        };
        (theirs, id)
    }

    fn attach(&mut self, native: u64, more: &[&str]) -> String {
        let number = native.to_string();
        let arguments = [
            "attach",
            "airflow",
            "--native-backfill",
            &number,
            "--name",
            "theirs",
        ];
        let arguments = [&arguments[..], &["--no-supervisor"], more].concat();
        let said = self.workspace.call(&arguments).ok();
        self.run = Some(self.workspace.run("theirs"));
        said.out
    }

    /// What a command says that ends well.
    fn says(&self, arguments: &[&str]) -> String {
        self.workspace.call(arguments).ok().out
    }

    /// What a person is shown.
    fn seen(&self) -> Option<Backfill> {
        let state = self.workspace.journal()?.load_seen().ok()?;
        state.by_name("theirs").cloned()
    }

    fn calendar(&self) -> Calendar {
        let seen = self.seen().unwrap();
        let days = seen.chunks.iter().map(|c| (c.id.to_string(), c.state));
        days.collect()
    }

    fn runs(&self) -> Vec<Value> {
        self.server.runs(self.dag, self.days.0, self.days.1)
    }

    /// The calendar by the server's own documents.
    fn truth(&self) -> Calendar {
        let mut calendar = Calendar::new();
        for run in self.runs() {
            let day = run["logical_date"].as_str().unwrap()[..10].to_owned();
            assert!(calendar.insert(day, state(&run)).is_none(), "two runs on a day");
        }
        calendar
    }

    /// The calendar and the server agree on every day, as soon as what changes in between allows.
    fn agree(&self) -> Calendar {
        within(LONG, "a calendar that is the server's", || {
            let before = self.truth();
            let seen = self.calendar();
            (before == seen && before == self.truth()).then_some(seen)
        })
    }

    fn native(&self, id: u64) -> Value {
        self.server.get(&format!("/backfills/{id}"))
    }

    fn count(&self, wanted: ChunkState) -> usize {
        self.truth().values().filter(|s| **s == wanted).count()
    }

    fn wait(&self, what: &str, so: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !so(self) {
            let told = || format!("{}\n{:#?}", self.workspace.told(), self.seen().map(|b| b.asked));
            assert!(begun.elapsed() < LONG, "waited too long for: {what}\n{}", told());
            std::thread::sleep(ms(200));
        }
    }

    /// What the newest action came to, in the server's words.
    fn came_to(&self, what: &str) -> String {
        self.wait(what, |t| t.seen().unwrap().asked.iter().all(|a| !a.is_open()));
        let seen = self.seen().unwrap();
        let last = seen.asked.back().unwrap();
        let ended = last.ended.as_ref().unwrap();
        assert!(ended.ok, "{what}: {}\n{:#?}", ended.said, last.steps);
        ended.said.clone()
    }
}

/// A run that was never begun and is over was cancelled.
fn state(run: &Value) -> ChunkState {
    match run["state"].as_str().unwrap() {
        "queued" => ChunkState::Queued,
        "running" => ChunkState::Running,
        "success" => ChunkState::Done,
        "failed" if run["start_date"].is_null() => ChunkState::Cancelled,
        "failed" => ChunkState::Failed,
        other => panic!("{other}"),
    }
}

#[test]
fn every_command_on_a_native_backfill_of_120_days_ends_as_it_says() {
    let (mut theirs, first) = Theirs::begin("pooled_daily", ("2023-01-01", "2023-04-30"), 8, "1");
    theirs.server.patch(
        "/pools/backfill_pool",
        json!({"name": "backfill_pool", "slots": 2, "description": null, "include_deferred": false}),
    );
    let said = theirs.attach(first, &["--pool", "backfill_pool"]);
    let words = format!(
        "attached to native backfill {first} of pooled_daily on airflow (test), 2023-01-01 .. 2023-04-30 UTC"
    );
    assert!(said.starts_with(&words), "{said}");
    assert_eq!(theirs.agree().len(), 120);
    pause_and_resume(&theirs, first);
    slots(&theirs);
    let second = replace(&theirs, first);
    let day = cancel(&theirs, second);
    rerun(&theirs, first, &day);
}

fn pause_and_resume(theirs: &Theirs, native: u64) {
    theirs.wait("two days done", |t| t.count(ChunkState::Done) >= 2);
    let said = theirs.says(&["pause", "theirs"]);
    assert!(
        said.starts_with(&format!("native backfill {native} is paused: ")),
        "{said}"
    );
    assert!(said.contains("and no further day starts"), "{said}");
    assert_eq!(theirs.native(native)["is_paused"], true);
    theirs.wait("what ran is over", |t| t.count(ChunkState::Running) == 0);
    let then = theirs.agree();
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(theirs.agree(), then, "nothing starts in a pause");
    let (_, status) = theirs.workspace.status("theirs");
    assert_eq!(
        (&status["state"], &status["running"]),
        (&json!("paused"), &json!(0))
    );
    let said = theirs.says(&["resume", "theirs"]);
    assert_eq!(
        said.trim(),
        format!("native backfill {native} goes on, up to 8 days at once")
    );
    assert_eq!(theirs.native(native)["is_paused"], false);
    let done = then.values().filter(|s| **s == ChunkState::Done).count();
    theirs.wait("more days done", |t| t.count(ChunkState::Done) > done);
}

fn slots(theirs: &Theirs) {
    let said = theirs.says(&["throttle", "theirs", "slots", "5", "--yes"]);
    assert!(said.starts_with("pool backfill_pool has 5 slots"), "{said}");
    let pool = || theirs.server.get("/pools/backfill_pool");
    assert_eq!(pool()["slots"], 5);
    theirs.wait("more than two at once", |_| {
        pool()["occupied_slots"].as_u64() > Some(2)
    });
    theirs.wait("seen", |t| {
        t.seen().unwrap().seen.unwrap().pool.unwrap().slots == 5
    });
}

/// Answers with the new native backfill.
fn replace(theirs: &Theirs, old: u64) -> u64 {
    let done = |t: &Theirs| {
        let done = t.runs().into_iter().filter(|r| r["state"] == "success");
        done.map(|r| (r["dag_run_id"].to_string(), r["start_date"].to_string()))
            .collect::<BTreeMap<_, _>>()
    };
    let before = done(theirs);
    let promise = theirs.says(&["replace", "theirs", "3", "--dry-run"]);
    assert!(
        promise.contains(&format!("cancels     native backfill {old} (limit 8)")),
        "{promise}"
    );
    assert!(promise.contains("done stay as they are"), "{promise}");
    theirs.says(&["replace", "theirs", "3", "--yes"]);
    let said = theirs.came_to("a new native backfill");
    assert!(
        said.contains(&format!("native backfill {old} is cancelled, and ")),
        "{said}"
    );
    assert!(!theirs.native(old)["completed_at"].is_null());
    let all = theirs
        .server
        .rows(&format!("/backfills?dag_id={}", theirs.dag), "backfills");
    let open: Vec<_> = all.iter().filter(|b| b["completed_at"].is_null()).collect();
    assert_eq!(open.len(), 1, "{open:?}");
    assert_eq!(open[0]["max_active_runs"], 3);
    let after = done(theirs);
    for (run, started) in &before {
        assert_eq!(after.get(run), Some(started), "{run} is kept");
    }
    theirs.wait("more days done", |t| t.count(ChunkState::Done) > after.len() + 3);
    assert_eq!(theirs.agree().len(), 120, "every day still has its run");
    assert_eq!(
        theirs.count(ChunkState::Cancelled),
        0,
        "and none is left cancelled"
    );
    open[0]["id"].as_u64().unwrap()
}

/// Answers with a cancelled day.
fn cancel(theirs: &Theirs, native: u64) -> String {
    theirs.wait("days that run", |t| t.count(ChunkState::Running) > 0);
    let promise = theirs.says(&["cancel", "theirs", "--running", "--dry-run"]);
    assert!(promise.contains("days waiting never start"), "{promise}");
    assert!(promise.contains("ended: TERM to their tasks"), "{promise}");
    theirs.says(&["cancel", "theirs", "--running", "--yes"]);
    let said = theirs.came_to("a cancel");
    assert!(
        said.starts_with(&format!("native backfill {native} is cancelled: ")),
        "{said}"
    );
    assert!(!theirs.native(native)["completed_at"].is_null());
    let calendar = theirs.agree();
    let count = |wanted| calendar.values().filter(|s| **s == wanted).count();
    assert_eq!((count(ChunkState::Queued), count(ChunkState::Running)), (0, 0));
    assert!(count(ChunkState::Cancelled) > 20, "{calendar:?}");
    let day = calendar.iter().rfind(|(_, s)| **s == ChunkState::Cancelled);
    day.unwrap().0.clone()
}

/// Airflow's fact 3: a plain clear would wait for ever.
fn rerun(theirs: &Theirs, first: u64, day: &str) {
    let promise = theirs.says(&["rerun", "theirs", day, "--dry-run"]);
    assert!(
        promise.contains("the run is deleted with its tries and logs"),
        "{promise}"
    );
    theirs.says(&["rerun", "theirs", day, "--yes"]);
    let said = theirs.came_to("a day run again");
    assert!(
        said.contains(&format!("{day} was deleted and made anew")),
        "{said}"
    );
    theirs.wait("done", |t| t.truth()[day] == ChunkState::Done);
    assert_eq!(theirs.agree()[day], ChunkState::Done);
    let (_, status) = theirs.workspace.status("theirs");
    let native = &status["attached"]["native"];
    assert!(
        native["id"].as_u64() > Some(first) && !native["completed"].is_null(),
        "{native}"
    );
}

/// Proof 3.
#[test]
fn a_signal_past_hard_on_two_samples_pauses_a_native_backfill_and_a_low_one_resumes_it_after_the_hold() {
    const INTERVAL: Duration = Duration::from_secs(3);
    const HOLD: Duration = Duration::from_secs(6);
    let lag = LagEndpoint::new(Mode::Lag(10.0));
    let (mut theirs, native) = Theirs::begin("long_daily", ("2023-06-01", "2023-06-06"), 2, "600");
    let mut drive = Drive::new(&theirs.server.url, theirs.days);
    drive.tuning = [
        ("disk_low", "0B".to_owned()),
        ("resume_hold", "6s".to_owned()),
        ("pause_min", "6s".to_owned()),
    ]
    .into();
    drive.more = format!(
        "[signals.live]\nkind = \"prometheus\"\nurl = \"{}\"\nquery = \"lag\"\nunit = \"messages\"\nsoft = 50\n\
         hard = 100\ncritical = 100000\ninterval = \"{}s\"\n",
        lag.url,
        INTERVAL.as_secs()
    );
    theirs.workspace = drive.open();
    theirs.attach(native, &["--signal", "live"]);
    theirs.wait("two days run", |t| t.count(ChunkState::Running) == 2);
    theirs.wait("samples", |t| t.seen().is_some_and(|b| b.seen.is_some()));
    assert_eq!(theirs.native(native)["is_paused"], false);
    std::thread::sleep(INTERVAL * 2);

    lag.turn(Mode::Lag(150.0));
    let begun = Instant::now();
    theirs.wait("paused there", |t| t.native(native)["is_paused"] == true);
    let took = begun.elapsed();
    println!("paused after {took:.1?}");
    assert!(took > INTERVAL / 2, "one sample is not two: {took:?}");
    assert!(took <= INTERVAL * 2 + Duration::from_secs(2), "{took:?}");
    assert_eq!(theirs.count(ChunkState::Running), 2, "what runs goes on");
    let (_, status) = theirs.workspace.status("theirs");
    let text = status["reason"]["text"].as_str().unwrap_or_default();
    assert!(
        text.starts_with("paused by live: 150 was over hard 100 for 2 samples"),
        "{status:#}"
    );
    let attached = &status["attached"];
    assert_eq!(
        (&attached["paused_by_us"], &status["running"]),
        (&json!(true), &json!(2))
    );

    lag.turn(Mode::Lag(10.0));
    let begun = Instant::now();
    theirs.wait("going on there", |t| t.native(native)["is_paused"] == false);
    let took = begun.elapsed();
    println!("resumed after {took:.1?}");
    assert!(took >= HOLD, "the hold is kept: {took:?}");
    assert!(took < HOLD + INTERVAL * 3 + Duration::from_secs(2), "{took:?}");
    assert_eq!(
        theirs
            .workspace
            .call(&["cancel", "theirs", "--running", "--yes"])
            .code,
        0
    );
    theirs.wait("nothing runs", |t| t.count(ChunkState::Running) == 0);
}

/// A pause that stops nothing must not look like one that does: it is refused.
#[test]
fn a_pause_of_a_dag_without_native_backfill_and_pool_is_refused() {
    let days = ("2023-07-01", "2023-07-03");
    let workspace = Drive::new(&three().url, days).open();
    let attach = [
        "attach",
        "airflow",
        "--dag",
        "retry_daily",
        "--from",
        days.0,
        "--to",
        days.1,
    ];
    workspace
        .call(
            &[
                &attach[..],
                &["--timezone", "UTC", "--name", "theirs", "--no-supervisor"],
            ]
            .concat(),
        )
        .ok();
    let _run = workspace.run("theirs");
    within(LONG, "a look", || {
        let state = workspace.journal()?.load_seen().ok()?;
        state.by_name("theirs")?.seen.as_ref()?.as_of
    });
    let refused = workspace.call(&["pause", "theirs"]);
    assert_eq!(refused.code, 2);
    for words in [
        "nothing to pause: the DAG has no unfinished native backfill, and it was attached without a pool",
        "backfill pause theirs --whole-dag",
    ] {
        assert!(refused.err.contains(words), "{}", refused.err);
    }
    let (_, status) = workspace.status("theirs");
    assert_eq!(
        (&status["state"], &status["paused_by"]),
        (&json!("idle"), &json!(null))
    );
}

/// A replace is two requests. Whoever takes over looks at the server before anything is sent again.
#[test]
fn a_replace_in_whose_middle_the_supervisor_dies_is_ended_by_the_next_one() {
    for (n, dies_after) in (1..).zip([1, 2]) {
        let days = [("2023-08-01", "2023-08-20"), ("2023-09-01", "2023-09-20")][n - 1];
        let (mut theirs, native) = Theirs::begin("retry_daily", days, 2, "0.5");
        theirs.attach(native, &[]);
        theirs.wait("days that run", |t| t.count(ChunkState::Running) > 0);
        let steps = |t: &Theirs| t.seen().unwrap().asked.back().map_or(0, |a| a.steps.len());
        let mut replace = theirs.workspace.program(&["replace", "theirs", "4", "--yes"]);
        let mut replace = replace
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        within(LONG, "a request under way", || {
            (steps(&theirs) >= dies_after).then_some(())
        });
        theirs.run.take().unwrap().kill();
        replace.wait().unwrap();

        theirs.run = Some(theirs.workspace.run("theirs"));
        let said = theirs.came_to("a new native backfill");
        assert!(
            said.starts_with(&format!("native backfill {native} is cancelled, and ")),
            "{said}"
        );
        let of_the_dag = theirs.server.rows("/backfills?dag_id=retry_daily", "backfills");
        let newer = of_the_dag.iter().filter(|b| b["id"].as_u64() > Some(native));
        let limits: Vec<_> = newer
            .map(|b| (b["max_active_runs"].as_u64(), b["completed_at"].is_null()))
            .collect();
        assert_eq!(limits, [(Some(4), true)], "after {dies_after} requests");
        assert_eq!(theirs.agree().len(), 20, "a run on every day");
        // A yes is for the one that was looked at, and the look at the new one may still be to come.
        theirs.wait("a look at the new one", |t| {
            let seen = t.seen().unwrap().seen.and_then(|s| s.native);
            seen.is_some_and(|n| n.id > native)
        });
        theirs.says(&["cancel", "theirs", "--running", "--yes"]);
    }
}
