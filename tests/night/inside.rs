//! Days whose run has tasks, as an executor would tell them.

use super::{
    cases::{Case, running},
    *,
};
use backfill::{
    executor::inside::{LogLine, Standing, TaskKey, TaskView, TryView},
    tui::{
        inside::{InsideView, TaskLog, Trouble},
        model::Layer,
    },
};

fn key(task: &str, map: Option<u32>) -> TaskKey {
    TaskKey {
        task: task.to_owned(),
        map,
    }
}

/// A task of the attempt that runs from 02:03:05 to 02:51:05.
fn task(
    name: &str,
    map: Option<u32>,
    standing: Standing,
    word: &str,
    span: Option<(Time, Option<Time>)>,
) -> TaskView {
    TaskView {
        key: key(name, map),
        label: None,
        standing,
        word: word.to_owned(),
        try_no: u32::from(span.is_some()),
        tries: 3,
        last_try: u32::from(span.is_some()),
        started: span.map(|s| s.0),
        ended: span.and_then(|s| s.1),
        pool: span.map(|_| "backfill_pool".to_owned()),
        host: span.map(|_| "worker-1".to_owned()),
        note: None,
    }
}

fn log(lines: &[(u32, &str, &str)]) -> Arc<Vec<LogLine>> {
    let line = |(second, level, text): &(u32, &str, &str)| LogLine {
        at: Some(clock(2, 50, *second)),
        level: Some((*level).to_owned()),
        text: (*text).to_owned(),
    };
    Arc::new(lines.iter().map(line).collect())
}

fn view(tasks: Vec<TaskView>) -> InsideView {
    InsideView {
        tasks: Some(Arc::new(tasks)),
        as_of: Some(t0310() - TimeDelta::seconds(2)),
        log: Some(TaskLog {
            key: key("load", None),
            try_no: 3,
            lines: log(&[
                (1, "info", "stage 9.0: 400 tasks"),
                (12, "warning", "task 211.3 spilled 18 times"),
                (
                    40,
                    "info",
                    "java.lang.OutOfMemoryError: GC overhead limit exceeded",
                ),
                (41, "info", "Command exited with return code 137"),
                (41, "error", "Task failed with exception"),
                (
                    41,
                    "error",
                    "AirflowException: Bash command failed. The command returned a non-zero exit code 137.",
                ),
            ]),
            dropped: 0,
            as_of: Some(t0310() - TimeDelta::seconds(2)),
            finished: true,
            trouble: None,
        }),
        ..InsideView::unseen(AttemptId {
            backfill: id(),
            chunk: ChunkId::day(day(2022, 11, 25)),
            no: 3,
        })
    }
}

fn case(name: &'static str, view: InsideView, layers: Vec<Layer>) -> Case {
    let mut case = running();
    case.name = name;
    case.feed.log = None;
    case.feed.inside = Some(Arc::new(view));
    case.app.layers = layers;
    case
}

/// A chain of five whose third failed.
fn chain() -> Vec<TaskView> {
    let span = |from, to| Some((clock(2, from, 5), Some(clock(2, to, 5))));
    let mut load = task("load", None, Standing::Failed, "failed", span(20, 51));
    (load.try_no, load.last_try) = (3, 3);
    load.note = Some("asked for more memory".to_owned());
    vec![
        task("audit", None, Standing::Blocked, "upstream failed", None),
        task("extract", None, Standing::Done, "success", span(3, 12)),
        load,
        task("publish", None, Standing::Blocked, "upstream failed", None),
        task("shape", None, Standing::Done, "success", span(12, 20)),
    ]
}

pub fn failed(layers: Vec<Layer>) -> Case {
    let mut view = view(chain());
    let tries = [(1, 20, 30), (2, 31, 40), (3, 41, 51)].map(|(no, from, to)| TryView {
        no,
        standing: Standing::Failed,
        word: "failed".to_owned(),
        started: Some(clock(2, from, 5)),
        ended: Some(clock(2, to, 5)),
    });
    view.tries = Some((key("load", None), tries.into()));
    let name = match layers.as_slice() {
        [] => "tasks",
        [.., Layer::Log(_)] => "tasks-log",
        _ => "tasks-drawer",
    };
    case(name, view, layers)
}

/// 200 indexes, two of which failed; one is on screen.
pub fn mapped() -> Case {
    let span = |from, to| Some((clock(2, from, 5), to));
    let index = |i: u32| match i {
        17 | 180 => task(
            "load",
            Some(i),
            Standing::Failed,
            "failed",
            span(20, Some(clock(2, 50, 41))),
        ),
        190.. => task("load", Some(i), Standing::Runs, "running", span(50, None)),
        _ => task(
            "load",
            Some(i),
            Standing::Done,
            "success",
            span(20, Some(clock(2, 49, 0))),
        ),
    };
    let mut tasks: Vec<TaskView> = (0..200).map(index).collect();
    tasks.push(task(
        "shards",
        None,
        Standing::Done,
        "success",
        span(3, Some(clock(2, 4, 0))),
    ));
    tasks.push(task("total", None, Standing::Waits, "waiting", None));
    let mut view = view(tasks);
    let log = view.log.as_mut().unwrap();
    (log.key, log.try_no) = (key("load", Some(17)), 1);
    case("tasks-mapped", view, vec![Layer::Drawer])
}

/// The server has refused the credentials since 03:08.
pub fn refused() -> Case {
    let mut view = view(chain());
    view.as_of = Some(clock(3, 7, 58));
    view.trouble = Some(Trouble {
        text: "airflow-eu: 401, not logged in or credentials expired: Token Expired".to_owned(),
        since: clock(3, 8, 0),
        refused: true,
    });
    let log = view.log.as_mut().unwrap();
    (log.as_of, log.finished) = (Some(clock(3, 7, 58)), false);
    case("tasks-refused", view, vec![Layer::Drawer])
}

/// Nothing has come yet, and an answer has been waited for for a while.
pub fn asking() -> Case {
    let unseen = InsideView::unseen(view(Vec::new()).attempt);
    let view = InsideView {
        asking: Some(t0310() - TimeDelta::seconds(12)),
        ..unseen
    };
    case("tasks-asking", view, vec![Layer::Drawer])
}

/// A log of which only the end is kept, from where that begins.
pub fn long_log() -> Case {
    let mut case = failed(vec![Layer::Drawer, Layer::Log(2_000)]);
    case.name = "tasks-log-top";
    let mut view = (*case.feed.inside.take().unwrap()).clone();
    let log = view.log.as_mut().unwrap();
    let line = |n: u32| LogLine {
        at: Some(clock(2, 50, n % 60)),
        level: None,
        text: format!("row {n}"),
    };
    (log.lines, log.dropped) = (Arc::new((0..2_000).map(line).collect()), 12_004);
    case.feed.inside = Some(Arc::new(view));
    case
}

/// Whatever a server may say, in `n` rows of one task and in a log.
pub fn hostile(attempt: AttemptId, said: &str, n: usize) -> InsideView {
    let index = |i: usize| {
        let standing = [Standing::Failed, Standing::Runs, Standing::Unknown][i % 3];
        let began = t0310() + TimeDelta::hours(i as i64 - 3);
        let mut task = task(said, Some(i as u32), standing, said, Some((began, Some(began))));
        (task.label, task.note) = (Some(said.to_owned()), Some(said.to_owned()));
        task
    };
    let mut view = view((0..n % 40).map(index).collect());
    view.attempt = attempt;
    view.trouble = n.is_multiple_of(2).then(|| Trouble {
        text: said.to_owned(),
        since: t0310(),
        refused: true,
    });
    let log = view.log.as_mut().unwrap();
    log.key = key(said, Some(n as u32));
    log.lines = Arc::new(vec![
        LogLine {
            at: Some(t0310()),
            level: Some("error".to_owned()),
            text: said.repeat(n % 50),
        };
        n % 90
    ]);
    (log.dropped, log.finished) = (n as u64, n.is_multiple_of(3));
    view
}

pub fn all() -> Vec<Case> {
    vec![
        failed(Vec::new()),
        failed(vec![Layer::Drawer]),
        failed(vec![Layer::Drawer, Layer::Log(0)]),
        mapped(),
        refused(),
        asking(),
        long_log(),
    ]
}
