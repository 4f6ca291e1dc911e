//! The screen's source and `backfill logs` on days whose runs have tasks: a journal, a configuration, and a server with
//! a memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod airflow_support;
mod support;

use airflow_support::{
    airflow3, json,
    standin::{Plays, Standin},
};
use backfill::{
    config::Config,
    domain::{
        Time,
        event::{Actor, NewEvent, Next, Outcome, Payload},
        failure::{Failure, FailureClass},
        ids::{AttemptId, BackfillId, ChunkId, ExternalId},
    },
    executor::inside::Place,
    journal::{Journal, Options},
    tui::{
        effect::Watch,
        feeder::{News, Source},
        inside::{InsideView, Peek, Pick},
        sources::JournalSource,
    },
};
use serde_json::json as object;
use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use support::Said;
use wiremock::{MockServer, ResponseTemplate};

const RUN: &str = "events-aaaaaa__2023-03-14";

struct Place14 {
    dir: tempfile::TempDir,
    journal: Journal,
    id: BackfillId,
}

fn day() -> ChunkId {
    "2023-03-14".parse().unwrap()
}

fn at(second: u32) -> Time {
    format!("2026-11-29T17:00:{second:02}Z").parse().unwrap()
}

impl Place14 {
    /// An order of one DAG, of which the bad day was sent once and runs.
    fn new(server: &MockServer) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "[executors.there]\nkind = \"airflow\"\nurl = \"{}\"\n[backfills.events]\nexecutor = \"there\"\n\
             dag = \"events_daily\"\ntarget = \"lake.events\"\nstart = 2023-03-14\nend = 2023-03-15\n\
             granularity = \"day\"\ntimezone = \"Europe/Berlin\"\nmax_limit = 2\n[journal]\npath = \"journal.db\"\n",
            server.uri()
        );
        std::fs::write(dir.path().join("config.toml"), text).unwrap();
        let config = Config::load(&dir.path().join("config.toml")).unwrap();
        let spec = config.backfills.into_values().next().unwrap().spec;
        let journal = Journal::open(&dir.path().join("journal.db"), Options::default()).unwrap();
        let id: BackfillId = "events-aaaaaa".parse().unwrap();
        let mut place = Self { dir, journal, id };
        place.say(
            0,
            Payload::Started {
                spec: Box::new(spec),
                hash: "h".to_owned(),
            },
        );
        place.start(1, 1);
        place
    }

    fn say(&mut self, second: u32, payload: Payload) {
        let event = NewEvent {
            at: at(second),
            actor: Actor::supervisor(),
            reason: None,
            backfill: Some(self.id.clone()),
            payload,
        };
        self.journal.append(None, None, &[event]).unwrap();
    }

    fn attempt(&self, no: u32) -> AttemptId {
        AttemptId {
            backfill: self.id.clone(),
            chunk: day(),
            no,
        }
    }

    fn start(&mut self, second: u32, no: u32) {
        let attempt = self.attempt(no);
        let executor = "there".parse().unwrap();
        self.say(
            second,
            Payload::SubmissionIntended {
                attempt: attempt.clone(),
                executor,
                profile: 0,
                weight: 1,
            },
        );
        let run = ExternalId(format!("{RUN}#{no}"));
        self.say(
            second,
            Payload::SubmissionAccepted {
                attempt,
                run,
                adopted: false,
                running: true,
            },
        );
    }

    fn fail(&mut self, second: u32, no: u32) {
        let failure = Failure {
            class: FailureClass::Other,
            exit: Some(3),
            message: "load: exit 3".to_owned(),
        };
        let outcome = Outcome::Failed {
            failure,
            next: Next::Stay,
        };
        let attempt = self.attempt(no);
        self.say(
            second,
            Payload::RunEnded {
                attempt,
                outcome,
                started: None,
                ended: Some(at(second)),
                peak: None,
                note: None,
            },
        );
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("config.toml")
    }

    /// What a screen with the day open, or closed, would have looked at.
    fn watch(&self, open: bool) -> Watch {
        let state = self.journal.load_state().unwrap();
        let backfill = &state.backfills[&self.id];
        let no = backfill.chunk(day()).unwrap().last().unwrap().no;
        let peek = |place| Peek {
            place,
            pick: Pick::default(),
            again: 0,
        };
        Watch {
            backfill: Some(self.id.clone()),
            log: open.then(|| self.attempt(no)),
            inside: Place::of(backfill, day(), no).map(peek).filter(|_| open),
            parts: None,
            what_if: None,
        }
    }

    fn source(&self) -> JournalSource {
        JournalSource::new(Some(self.config()))
    }

    /// The real program.
    fn call(&self, arguments: &[&str]) -> Said {
        let output = Command::new(env!("CARGO_BIN_EXE_backfill"))
            .arg("--config")
            .arg(self.config())
            .args(arguments)
            .env_remove("BACKFILL_READ_ONLY")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Looks again and again, as the feeder does.
fn until(source: &mut JournalSource, watch: &Watch, fits: impl Fn(&News) -> bool) -> News {
    let begun = Instant::now();
    loop {
        let news = source.poll(watch).unwrap();
        if fits(&news) {
            return news;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", news.inside);
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn view(news: &News) -> Option<&InsideView> {
    news.inside.as_ref()?.as_deref()
}

fn lines(news: &News) -> Vec<String> {
    let log = view(news).and_then(|v| v.log.as_ref());
    log.map_or_else(Vec::new, |l| l.lines.iter().map(|l| l.text.clone()).collect())
}

/// The stand-in with the run of the bad day, whose `load` failed on its first try.
async fn failed() -> (Standin, MockServer) {
    let airflow = Standin::new(Plays::Three);
    let server = airflow.serve().await;
    airflow.foreign(RUN, "2023-03-14T00:00:00Z", "manual", "running");
    airflow.start(RUN);
    airflow.end(RUN, "failed", &["failed", "upstream_failed"]);
    airflow.world().runs.get_mut(RUN).unwrap().tasks[1].try_number = 0;
    airflow.world().log = vec!["rows 3", "Command exited with return code 3"];
    (airflow, server)
}

#[tokio::test]
async fn the_source_sees_the_open_day_from_inside_and_asks_for_nothing_else() {
    let (airflow, server) = failed().await;
    let place = Place14::new(&server);
    let mut source = place.source();
    for _ in 0..20 {
        let news = source.poll(&place.watch(false)).unwrap();
        assert_eq!((news.inside, news.log), (Some(None), Some(None)));
    }
    assert_eq!(airflow.world().requests.len(), 0, "no day is open");
    let news = until(&mut source, &place.watch(true), |n| !lines(n).is_empty());
    assert_eq!(lines(&news), ["rows 3", "Command exited with return code 3"]);
    let tasks: Vec<String> = view(&news)
        .unwrap()
        .tasks()
        .iter()
        .map(|t| t.key.to_string())
        .collect();
    assert_eq!(tasks, ["load", "publish"]);
    assert_eq!(news.log, Some(None), "it is no file");
    let news = source.poll(&place.watch(false)).unwrap();
    assert_eq!(news.inside, Some(None));
}

/// Case S05: one source that does not answer holds up no other.
#[tokio::test]
async fn a_server_that_never_answers_does_not_hold_up_the_journal() {
    let server = airflow3(|request| match request.url.path() {
        path if path.ends_with("/taskInstances") => Some(json(200, "{}").set_delay(Duration::from_secs(600))),
        _ => None,
    })
    .await;
    let mut place = Place14::new(&server);
    let mut source = place.source();
    let watch = place.watch(true);
    let asking = |n: &News| view(n).is_some_and(|v| v.asking.is_some());
    until(&mut source, &watch, asking);
    place.fail(30, 1);
    let begun = Instant::now();
    let news = source.poll(&watch).unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "it waits for the server"
    );
    let state = news.state.unwrap();
    let chunk = state.backfills[&place.id].chunk(day()).unwrap();
    assert_eq!(chunk.last().unwrap().failure.as_ref().unwrap().exit, Some(3));
}

#[tokio::test]
async fn logs_shows_the_task_that_failed_and_tells_what_others_there_are() {
    let (_airflow, server) = failed().await;
    let mut place = Place14::new(&server);
    place.fail(30, 1);
    let said = place.call(&["logs", "events", "2023-03-14"]).ok();
    assert_eq!(said.out, "rows 3\nCommand exited with return code 3\n");
    let listed: Vec<&str> = said.err.lines().collect();
    assert_eq!(
        listed,
        [
            "tasks of events-aaaaaa/2023-03-14/1; --task shows another one:",
            "> load     failed, try 1 of 1",
            "  publish  upstream failed",
        ]
    );
    let said = place
        .call(&["logs", "events", "2023-03-14", "--task", "load"])
        .ok();
    assert_eq!(said.err, "", "it was asked for");
    let never = place.call(&["logs", "events", "2023-03-14", "--task", "publish"]);
    assert_eq!((never.code, never.out.as_str()), (2, ""));
    assert!(
        never
            .err
            .contains("publish has not begun in attempt 1 (upstream failed)"),
        "{never:?}"
    );
    let unknown = place.call(&["logs", "events", "2023-03-14", "--task", "laod"]);
    assert!(
        unknown
            .err
            .contains("the run has no task laod: it has load, publish"),
        "{unknown:?}"
    );
    let tries = place.call(&["logs", "events", "2023-03-14", "--try", "4"]);
    assert!(tries.err.contains("load was tried 1 time"), "{tries:?}");
    let index = place.call(&["logs", "events", "2023-03-14", "--task", "load", "--map", "3"]);
    assert!(index.err.contains("load is not mapped"), "{index:?}");
    assert_eq!(
        place.call(&["logs", "events", "2023-03-14", "--map", "3"]).code,
        2
    );
}

#[tokio::test]
async fn logs_json_says_what_there_is() {
    let (_airflow, server) = failed().await;
    let place = Place14::new(&server);
    let said = place
        .call(&["logs", "events", "2023-03-14", "--json"])
        .ok()
        .json();
    assert_eq!(said["attempt"], "events-aaaaaa/2023-03-14/1");
    assert_eq!(
        (&said["executor"], &said["run"]),
        (&object!("there"), &object!(format!("{RUN}#1")))
    );
    assert_eq!(said["shown"], object!({"task": "load", "map": null, "try": 1}));
    let blocked = &said["tasks"][1];
    assert_eq!(
        (
            &blocked["task"],
            &blocked["state"],
            &blocked["word"],
            &blocked["try"]
        ),
        (
            &object!("publish"),
            &object!("blocked"),
            &object!("upstream failed"),
            &object!(0)
        )
    );
}

#[tokio::test]
async fn a_followed_log_goes_on_until_the_attempt_ends() {
    let airflow = Standin::new(Plays::Three);
    let server = airflow.serve().await;
    airflow.foreign(RUN, "2023-03-14T00:00:00Z", "manual", "running");
    airflow.start(RUN);
    airflow.world().runs.get_mut(RUN).unwrap().tasks[1].state = None;
    airflow.world().log = vec!["begun"];
    let mut place = Place14::new(&server);
    let follow = {
        let mut command = Command::new(env!("CARGO_BIN_EXE_backfill"));
        command
            .arg("--config")
            .arg(place.config())
            .args(["logs", "events", "2023-03-14", "--follow"]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let begun = Instant::now();
    while airflow
        .count("GET /api/v2/dags/events_daily/dagRuns/events-aaaaaa__2023-03-14/taskInstances/load/logs/1")
        == 0
    {
        assert!(begun.elapsed() < Duration::from_secs(30), "it never reads");
        std::thread::sleep(Duration::from_millis(10));
    }
    airflow.world().log = vec!["begun", "done"];
    airflow.end(RUN, "success", &["success", "skipped"]);
    place.fail(30, 1);
    let output = follow.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "begun\ndone\n");
}

#[tokio::test]
async fn a_server_that_says_no_is_told_in_its_words() {
    let server = airflow3(|_| {
        Some(ResponseTemplate::new(403).set_body_raw(r#"{"detail":"Forbidden"}"#, "application/json"))
    })
    .await;
    let place = Place14::new(&server);
    let said = place.call(&["logs", "events", "2023-03-14"]);
    assert_eq!((said.code, said.out.as_str()), (2, ""));
    assert!(
        said.err.contains("403, this user may not do that") && said.err.contains("Forbidden"),
        "{said:?}"
    );
    let mut source = place.source();
    let news = until(&mut source, &place.watch(true), |n| {
        view(n).is_some_and(|v| v.trouble.is_some())
    });
    let trouble = view(&news).unwrap().trouble.clone().unwrap();
    assert!(trouble.text.contains("Forbidden"), "{trouble:?}");
}
