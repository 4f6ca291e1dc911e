//! Choosing in the drawer of a run with tasks. A choice names a task, an index, a try; never a row.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod tui_update_desk;

use backfill::{
    executor::inside::{LogLine, Standing, TaskKey, TaskView},
    tui::{
        effect::{Effect, Watch},
        inside::{InsideView, Pick, TaskLog, chosen},
        model::Layer,
        msg::{Msg, Press},
    },
};
use std::sync::Arc;
use tui_update_desk::{Desk, day};

fn key(task: &str, map: Option<u32>) -> TaskKey {
    TaskKey {
        task: task.to_owned(),
        map,
    }
}

fn task(name: &str, map: Option<u32>, standing: Standing, tries: u32) -> TaskView {
    TaskView {
        key: key(name, map),
        label: None,
        standing,
        word: standing.word().to_owned(),
        try_no: tries,
        tries: 3,
        last_try: tries,
        started: None,
        ended: None,
        pool: None,
        host: None,
        note: None,
    }
}

/// The running day of the desk, 2023-01-08, from inside.
fn show(desk: &mut Desk, tasks: Vec<TaskView>, lines: usize) {
    let attempt = desk.feed.state.backfills[&desk.id].open_attempts().remove(0);
    let log = chosen(&tasks, &desk.machine.app.pick).map(|(task, try_no)| TaskLog {
        key: task.key.clone(),
        try_no,
        lines: Arc::new((0..lines).map(line).collect()),
        dropped: 0,
        as_of: Some(desk.now),
        finished: false,
        trouble: None,
    });
    desk.feed.inside = Some(Arc::new(InsideView {
        tasks: Some(Arc::new(tasks)),
        as_of: Some(desk.now),
        log,
        ..InsideView::unseen(attempt)
    }));
    desk.send(Msg::Fed);
}

fn line(n: usize) -> LogLine {
    LogLine {
        at: None,
        level: None,
        text: format!("line {n}"),
    }
}

fn chain() -> Vec<TaskView> {
    vec![
        task("extract", None, Standing::Done, 1),
        task("load", None, Standing::Failed, 3),
        task("publish", None, Standing::Blocked, 0),
    ]
}

/// Six indexes, the fifth of which failed.
fn mapped() -> Vec<TaskView> {
    let standing = |i| if i == 4 { Standing::Failed } else { Standing::Done };
    let mut tasks: Vec<TaskView> = (0..6).map(|i| task("load", Some(i), standing(i), 1)).collect();
    tasks.push(task("shards", None, Standing::Done, 1));
    tasks
}

fn open(tasks: Vec<TaskView>) -> Desk {
    let mut desk = Desk::new();
    desk.keys("enter");
    show(&mut desk, tasks, 50);
    desk
}

fn picked(desk: &Desk) -> String {
    match &desk.machine.app.pick.task {
        Some(key) => key.to_string(),
        None => "nothing".to_owned(),
    }
}

/// Presses one key and gives what the feeder is told.
fn told(desk: &mut Desk, key: &str) -> Option<Watch> {
    desk.look();
    let (key, at) = (key.parse().unwrap(), desk.now);
    let effects = desk.send(Msg::Key(Press {
        key,
        repeat: false,
        at,
    }));
    effects.into_iter().find_map(|e| match e {
        Effect::Watch(watch) => Some(watch),
        _ => None,
    })
}

#[test]
fn tab_goes_from_what_failed_through_all_tasks_and_the_feeder_is_told() {
    let mut desk = open(chain());
    assert_eq!(picked(&desk), "nothing", "what tells most is shown by itself");
    let watch = told(&mut desk, "tab").unwrap();
    let peek = watch.inside.unwrap();
    assert_eq!(peek.pick.task, Some(key("publish", None)));
    assert_eq!(peek.place.attempt.chunk, day("2023-01-08"));
    desk.keys("tab");
    assert_eq!(picked(&desk), "extract");
    desk.keys("tab");
    assert_eq!(picked(&desk), "load");
    desk.keys("shift-tab");
    assert_eq!(picked(&desk), "extract");
}

#[test]
fn a_choice_stays_with_its_task_while_the_rows_change_around_it() {
    let mut desk = open(chain());
    desk.keys("shift-tab");
    assert_eq!(picked(&desk), "extract");
    let mut tasks = chain();
    tasks.insert(0, task("audit", None, Standing::Failed, 1));
    tasks[2].standing = Standing::Done;
    show(&mut desk, tasks, 50);
    assert_eq!(picked(&desk), "extract");
    desk.keys("tab");
    assert_ne!(picked(&desk), "extract");
}

#[test]
fn another_day_keeps_the_task_and_forgets_the_try() {
    let mut desk = open(chain());
    desk.keys(",");
    assert_eq!(desk.machine.app.pick.try_no, Some(2));
    desk.keys("j");
    assert_eq!(
        (picked(&desk), desk.machine.app.pick.try_no),
        ("load".to_owned(), None)
    );
}

#[test]
fn commas_and_dots_go_through_the_tries_and_past_the_last_it_is_the_newest_again() {
    let mut desk = open(chain());
    let tries = |desk: &Desk| desk.machine.app.pick.try_no;
    desk.keys(", ,");
    assert_eq!(tries(&desk), Some(1));
    desk.keys(",");
    assert_eq!(
        (tries(&desk), desk.said().as_str()),
        (Some(1), "try 1 is the first of load")
    );
    desk.keys(".");
    assert_eq!(tries(&desk), Some(2));
    desk.keys(".");
    assert_eq!(tries(&desk), None, "the newest, whichever that will be");
}

#[test]
fn a_task_that_has_not_begun_again_still_has_the_tries_of_the_attempt_before() {
    let mut tasks = chain();
    tasks[1] = TaskView {
        try_no: 0,
        last_try: 3,
        standing: Standing::Runs,
        ..tasks[1].clone()
    };
    let mut desk = open(tasks);
    desk.keys(",");
    let (_, shown) = chosen(desk.feed.inside.as_ref().unwrap().tasks(), &desk.machine.app.pick).unwrap();
    assert_eq!(shown, 3);
}

#[test]
fn the_log_is_of_the_task_that_is_shown_and_stays_it_when_another_one_fails() {
    let mut desk = open(chain());
    desk.keys("l");
    assert_eq!(desk.machine.app.layers.last(), Some(&Layer::Log(0)));
    assert_eq!(picked(&desk), "load");
    let mut tasks = chain();
    tasks[0].standing = Standing::Failed;
    show(&mut desk, tasks, 60);
    assert_eq!(picked(&desk), "load");
    desk.keys("k k tab");
    assert_eq!(picked(&desk), "publish", "tab leads on, in the log too");
    assert_eq!(
        desk.machine.app.layers.last(),
        Some(&Layer::Log(0)),
        "from its end"
    );
}

#[test]
fn who_reads_back_stays_with_the_try_until_the_newest_line_is_followed_again() {
    let mut desk = open(chain());
    desk.keys("l k");
    assert_eq!(desk.machine.app.pick.try_no, Some(3));
    show(&mut desk, chain(), 55);
    assert_eq!(
        desk.machine.app.layers.last(),
        Some(&Layer::Log(6)),
        "it stays put"
    );
    desk.keys("f");
    assert_eq!(desk.machine.app.pick.try_no, None);
    assert_eq!(desk.machine.app.layers.last(), Some(&Layer::Log(0)));
}

#[test]
fn a_log_of_which_the_beginning_is_dropped_stays_put_too() {
    let mut desk = open(chain());
    desk.keys("l k");
    let mut view = (**desk.feed.inside.as_ref().unwrap()).clone();
    view.log.as_mut().unwrap().dropped = 7;
    desk.feed.inside = Some(Arc::new(view));
    desk.send(Msg::Fed);
    assert_eq!(
        desk.machine.app.layers.last(),
        Some(&Layer::Log(8)),
        "seven came and seven went"
    );
}

#[test]
fn enter_unfolds_the_indexes_of_a_mapped_task_and_folds_them_again() {
    let mut desk = open(mapped());
    let failed = desk.keys("tab shift-tab");
    assert_eq!((picked(&desk).as_str(), failed.len()), ("load[4]", 0));
    desk.keys("enter tab");
    assert_eq!(desk.machine.app.unfolded.as_deref(), Some("load"));
    assert_eq!(picked(&desk), "load[0]");
    desk.keys("enter");
    assert_eq!(
        (desk.machine.app.unfolded.as_deref(), picked(&desk).as_str()),
        (None, "load")
    );
    desk.keys("tab tab enter");
    assert_eq!(picked(&desk), "shards");
    assert_eq!(desk.said(), "the task has no indexes to unfold");
}

#[test]
fn where_an_attempt_is_one_command_the_keys_say_that_there_are_no_tasks() {
    let mut desk = Desk::new();
    desk.keys("enter tab");
    assert_eq!(desk.said(), "no tasks of the day's run are known");
    assert_eq!(desk.machine.app.pick, Pick::default());
    let mut desk = open(chain());
    desk.keys("tab ,");
    assert_eq!(desk.said(), "there is no other try");
}

#[test]
fn what_is_known_of_another_day_is_nothing_here() {
    let mut desk = open(chain());
    desk.keys("k tab");
    assert_eq!(desk.cursor(), "2023-01-07");
    assert_eq!(desk.said(), "no tasks of the day's run are known");
}

#[test]
fn a_look_now_reaches_the_executor_of_the_open_day() {
    let mut desk = open(chain());
    let watch = told(&mut desk, "ctrl-r").unwrap();
    assert_eq!(watch.inside.unwrap().again, 1);
    let watch = told(&mut desk, "esc").unwrap();
    assert_eq!((watch.log, watch.inside), (None, None), "no day is open");
}
