//! Looking into the open day's run: what is asked of its executor, and when nothing is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test may.

use async_trait::async_trait;
use backfill::{
    domain::Time,
    executor::inside::{Inside, LogLine, LogPart, Place, Standing, TaskKey, TaskView, Token, TryView},
    net::{AdapterError, Cause},
    tui::inside::{
        InsideView, Peek, Pick,
        looker::{Patience, Wanted, attend},
    },
};
use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

const DEADLINE: Duration = Duration::from_secs(20);

/// What a run looks like, and what was asked about it.
#[derive(Default)]
struct World {
    tasks: Vec<TaskView>,
    /// What is written, line by line; a whole log each time if it cannot be followed.
    lines: Vec<String>,
    whole: bool,
    /// The log goes on.
    open: bool,
    error: Option<AdapterError>,
    hangs: bool,
    asked: Vec<String>,
    in_flight: usize,
    most: usize,
}

#[derive(Clone, Default)]
struct Run(Arc<(Mutex<World>, Notify)>);

impl Run {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.0.lock().unwrap()
    }

    fn count(&self, what: &str) -> usize {
        self.world().asked.iter().filter(|a| a.starts_with(what)).count()
    }

    async fn answer<T>(&self, asked: String, answer: impl Fn(&World) -> T) -> Result<T, AdapterError> {
        struct Flight<'a>(&'a Run);
        impl Drop for Flight<'_> {
            fn drop(&mut self) {
                self.0.world().in_flight -= 1;
            }
        }
        {
            let mut world = self.world();
            world.asked.push(asked);
            world.in_flight += 1;
            world.most = world.most.max(world.in_flight);
        }
        let _flight = Flight(self);
        tokio::task::yield_now().await;
        if self.world().hangs {
            std::future::pending::<()>().await;
        }
        let world = self.world();
        match &world.error {
            Some(error) => Err(error.clone()),
            None => Ok(answer(&world)),
        }
    }
}

#[async_trait]
impl Inside for Run {
    async fn tasks(&self, place: &Place) -> Result<Vec<TaskView>, AdapterError> {
        let day = place.attempt.chunk;
        self.answer(format!("tasks of {day}"), |world| world.tasks.clone())
            .await
    }

    async fn tries(&self, _: &Place, task: &TaskKey) -> Result<Vec<TryView>, AdapterError> {
        self.answer(format!("tries of {task}"), |_| Vec::new()).await
    }

    async fn log(
        &self,
        _: &Place,
        task: &TaskKey,
        try_no: u32,
        from: Option<&Token>,
    ) -> Result<LogPart, AdapterError> {
        let at: usize = from.map_or(0, |t| t.as_str().parse().unwrap());
        self.answer(format!("log of {task} try {try_no} from {at}"), |world| {
            let line = |text: &String| LogLine {
                at: None,
                level: None,
                text: text.clone(),
            };
            LogPart {
                lines: world.lines.iter().skip(at).map(line).collect(),
                next: (world.open && !world.whole).then(|| Token::new(world.lines.len().to_string())),
                ended: !world.open && !world.whole,
                whole: world.whole || from.is_none(),
            }
        })
        .await
    }

    fn pace(&self) -> Duration {
        Duration::from_millis(2)
    }

    async fn ask_again(&self) {
        self.world().asked.push("again".to_owned());
    }
}

fn task(name: &str, standing: Standing, try_no: u32) -> TaskView {
    TaskView {
        key: key(name),
        label: None,
        standing,
        word: standing.word().to_owned(),
        try_no,
        tries: 2,
        last_try: try_no,
        started: None,
        ended: None,
        pool: None,
        host: None,
        note: None,
    }
}

fn key(name: &str) -> TaskKey {
    TaskKey {
        task: name.to_owned(),
        map: None,
    }
}

fn place(day: &str, open: bool) -> Place {
    Place {
        attempt: format!("events-aaaaaa/{day}/1").parse().unwrap(),
        executor: "there".parse().unwrap(),
        dag: Some("events_daily".to_owned()),
        run: None,
        theirs: false,
        intended: Time::MIN_UTC,
        since: None,
        until: None,
        newest: true,
        open,
    }
}

/// A screen on which a day is open, and the thread behind it.
struct Bench {
    run: Run,
    mail: watch::Sender<Option<Wanted>>,
    seen: watch::Receiver<Option<InsideView>>,
    peek: Peek,
}

impl Bench {
    fn new(run: &Run) -> Self {
        let (mail, inbox) = watch::channel(None);
        let (show, seen) = watch::channel(None);
        let patience = Patience {
            settles: Duration::from_millis(20),
            slow: Duration::from_millis(20),
        };
        let now: Time = "2026-11-29T17:00:00Z".parse().unwrap();
        let show = move |view| drop(show.send(view));
        tokio::spawn(attend(inbox, show, move || now, patience));
        Self {
            run: run.clone(),
            mail,
            seen,
            peek: Peek {
                place: place("2023-03-14", true),
                pick: Pick::default(),
                again: 0,
            },
        }
    }

    /// The screen looks at this from now on.
    fn look(&self) {
        let run = self.run.clone();
        let wanted = Wanted {
            peek: self.peek.clone(),
            means: 0,
            make: Arc::new(move || Ok(Arc::new(run.clone()))),
        };
        self.mail.send(Some(wanted)).unwrap();
    }

    fn close(&self) {
        self.mail.send(None).unwrap();
    }

    async fn until(&mut self, what: &str, fits: impl Fn(&InsideView) -> bool) -> InsideView {
        let fits = |view: &Option<InsideView>| view.as_ref().is_some_and(&fits);
        let seen = timeout(DEADLINE, self.seen.wait_for(fits)).await;
        let seen =
            seen.unwrap_or_else(|_| panic!("waited too long for: {what}; {:?}", self.run.world().asked));
        seen.unwrap().clone().unwrap()
    }

    /// Waits until something was asked.
    async fn asked(&self, what: &str, times: usize) {
        let waits = async {
            while self.run.count(what) < times {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let known = timeout(DEADLINE, waits).await;
        known.unwrap_or_else(|_| panic!("never asked for {what}: {:?}", self.run.world().asked));
    }

    /// Nothing is asked for a time in which much would be.
    async fn stays_quiet(&self) {
        let before = self.run.world().asked.clone();
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert_eq!(self.run.world().asked, before);
    }
}

fn texts(view: &InsideView) -> Vec<String> {
    let log = view.log.as_ref().unwrap();
    log.lines.iter().map(|l| l.text.clone()).collect()
}

fn run_of(tasks: Vec<TaskView>, lines: &[&str]) -> Run {
    let run = Run::default();
    {
        let mut world = run.world();
        world.tasks = tasks;
        world.lines = lines.iter().map(|l| (*l).to_owned()).collect();
        world.open = true;
    }
    run
}

#[tokio::test]
async fn nothing_is_asked_while_no_day_is_open_nor_of_days_that_the_cursor_only_passes() {
    let run = run_of(vec![task("load", Standing::Runs, 1)], &["a"]);
    let mut bench = Bench::new(&run);
    bench.stays_quiet().await;
    for day in ["2023-03-11", "2023-03-12", "2023-03-13"] {
        bench.peek.place = place(day, true);
        bench.look();
    }
    bench.until("a log", |v| v.lines() == 1).await;
    assert_eq!(
        run.count("tasks of 2023-03-11") + run.count("tasks of 2023-03-12"),
        0
    );
    bench.close();
    let closed = timeout(DEADLINE, bench.seen.wait_for(Option::is_none))
        .await
        .is_ok();
    assert!(closed);
    bench.stays_quiet().await;
}

#[tokio::test]
async fn a_log_is_followed_piece_by_piece_until_it_ends_and_then_nothing_more_is_asked() {
    let run = run_of(vec![task("load", Standing::Runs, 1)], &["a", "b"]);
    let mut bench = Bench::new(&run);
    bench.look();
    bench.until("the first piece", |v| v.lines() == 2).await;
    run.world().lines.push("c".to_owned());
    let view = bench.until("the next piece", |v| v.lines() == 3).await;
    assert_eq!(texts(&view), ["a", "b", "c"]);
    assert!(!view.log.as_ref().unwrap().finished);
    {
        let mut world = run.world();
        world.lines.push("the end".to_owned());
        world.open = false;
        world.tasks[0].standing = Standing::Done;
    }
    let view = bench
        .until("the end", |v| v.log.as_ref().is_some_and(|l| l.finished))
        .await;
    assert_eq!(texts(&view), ["a", "b", "c", "the end"]);
    bench.peek.place.open = false;
    let before = run.count("tasks");
    bench.look();
    bench.asked("tasks", before + 1).await;
    bench.stays_quiet().await;
    assert_eq!(run.world().most, 1, "one question at a time");
    assert_eq!(run.count("log of load try 1 from 0"), 1, "the rest by its token");
}

#[tokio::test]
async fn where_a_log_comes_whole_each_time_it_is_read_once_more_after_its_try_is_over() {
    let run = run_of(vec![task("load", Standing::Runs, 1)], &["a"]);
    run.world().whole = true;
    let mut bench = Bench::new(&run);
    bench.look();
    bench.until("a line", |v| v.lines() == 1).await;
    {
        let mut world = run.world();
        world.lines = vec!["a".to_owned(), "b".to_owned()];
        world.tasks[0].standing = Standing::Failed;
    }
    let view = bench
        .until("the end", |v| v.log.as_ref().is_some_and(|l| l.finished))
        .await;
    assert_eq!(texts(&view), ["a", "b"]);
}

#[tokio::test]
async fn an_error_is_told_in_the_servers_words_and_what_was_seen_stays_until_it_answers_again() {
    let run = run_of(vec![task("load", Standing::Runs, 1)], &["a"]);
    let mut bench = Bench::new(&run);
    bench.look();
    bench.until("a line", |v| v.lines() == 1).await;
    let words = "Token Expired";
    let tried = "GET /api/x";
    run.world().error = Some(AdapterError::new(
        "there",
        tried,
        Duration::ZERO,
        Cause::Unauthorized,
        words,
    ));
    let view = bench.until("the error", |v| v.trouble.is_some()).await;
    assert!(view.trouble.as_ref().unwrap().text.contains(words), "{view:?}");
    assert_eq!((view.tasks().len(), texts(&view)), (1, vec!["a".to_owned()]));
    run.world().error = None;
    let fine = |v: &InsideView| v.trouble.is_none() && v.log.as_ref().is_some_and(|l| l.trouble.is_none());
    bench.until("an answer", fine).await;
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_told_and_holds_up_no_other_day() {
    let run = run_of(vec![task("load", Standing::Runs, 1)], &["a"]);
    run.world().hangs = true;
    let mut bench = Bench::new(&run);
    bench.look();
    bench.until("that it asks", |v| v.asking.is_some()).await;
    run.world().hangs = false;
    bench.peek.place = place("2023-03-15", true);
    bench.look();
    let view = bench.until("the other day", |v| v.lines() == 1).await;
    assert_eq!(view.attempt.chunk.to_string(), "2023-03-15");
    assert_eq!(run.world().most, 1);
}

#[tokio::test]
async fn the_next_try_is_followed_unless_another_one_was_chosen() {
    let run = run_of(vec![task("load", Standing::Runs, 1)], &["a"]);
    let mut bench = Bench::new(&run);
    bench.look();
    bench.until("try 1", |v| v.lines() == 1).await;
    run.world().tasks = vec![task("load", Standing::Runs, 2)];
    let second = |v: &InsideView| {
        v.log
            .as_ref()
            .is_some_and(|l| l.try_no == 2 && l.lines.len() == 1)
    };
    bench.until("try 2", second).await;
    bench.asked("tries of load", 1).await;
    bench.peek.pick = Pick {
        task: Some(key("load")),
        try_no: Some(1),
    };
    bench.look();
    let first = |v: &InsideView| {
        v.log
            .as_ref()
            .is_some_and(|l| l.try_no == 1 && l.lines.len() == 1)
    };
    bench.until("the chosen try", first).await;
    run.world().tasks = vec![task("load", Standing::Runs, 3)];
    bench.asked("tries of load", 2).await;
    let view = bench.seen.borrow().clone().unwrap();
    assert_eq!(view.log.unwrap().try_no, 1, "it stays");
    assert_eq!(view.tasks.unwrap()[0].try_no, 3);
}

#[tokio::test]
async fn of_a_task_that_has_not_begun_no_log_is_asked() {
    let run = run_of(vec![task("load", Standing::Waits, 0)], &["not for load"]);
    let mut bench = Bench::new(&run);
    bench.look();
    bench.until("the tasks", |v| v.tasks.is_some()).await;
    bench.asked("tasks", 3).await;
    assert_eq!(run.count("log"), 0);
}

#[tokio::test]
async fn who_asks_for_a_look_now_gets_it_and_a_refusal_is_forgotten() {
    let run = run_of(vec![task("load", Standing::Done, 1)], &["a"]);
    run.world().open = false;
    let mut bench = Bench::new(&run);
    bench.peek.place.open = false;
    bench.look();
    let ended = |v: &InsideView| v.log.as_ref().is_some_and(|l| l.finished);
    bench.until("the end", ended).await;
    bench.stays_quiet().await;
    assert_eq!((run.count("tasks"), run.count("again")), (1, 0));
    bench.peek.again += 1;
    bench.look();
    bench.asked("tasks", 2).await;
    assert_eq!(run.count("again"), 1);
}
