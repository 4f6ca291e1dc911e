//! Looks into the open day's run from a thread of its own, so that an executor that hangs holds up nothing else. It
//! asks for nothing while no day is open, one thing at a time, and no more once everything has ended.

use super::{InsideView, Peek, Tail, TaskLog, Trouble, chosen};
use crate::{
    domain::Time,
    executor::inside::{Inside, LogPart, TaskKey, TaskView, Token},
    net::AdapterError,
};
use std::{
    fmt, io,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

/// A server that is slow is left alone for twice as long as it took, up to this.
const LONGEST_REST: Duration = Duration::from_secs(30);
/// The tasks change less often than the log grows: they are asked for once in so many turns.
const TURNS: u32 = 3;
/// As many rows as executors give at once.
const PAGE: usize = 100;
/// After this many failures in a row the pause between two questions grows no more.
const DOUBLINGS: u32 = 4;
/// The log of a try that is over has ended when it says nothing new so often.
const SILENCES: u32 = 5;

/// How long things take for a person.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// A day that the cursor passes faster is not asked for.
    pub settles: Duration,
    /// From then on it is said that an answer is waited for.
    pub slow: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            settles: Duration::from_millis(250),
            slow: Duration::from_secs(2),
        }
    }
}

/// Makes the look into an executor's runs.
pub type Make = Arc<dyn Fn() -> Result<Arc<dyn Inside>, AdapterError> + Send + Sync>;

/// What is to be looked at, and by what means.
#[derive(Clone)]
pub struct Wanted {
    /// What.
    pub peek: Peek,
    /// Tells means of one configuration from those of the next.
    pub means: u64,
    /// The means.
    pub make: Make,
}

impl Wanted {
    fn is_like(&self, other: &Self) -> bool {
        self.peek == other.peek && self.means == other.means
    }

    /// Whether what was seen for the other one is still of use.
    fn goes_on_from(&self, other: &Self) -> bool {
        self.peek.place.attempt == other.peek.place.attempt
            && self.peek.place.executor == other.peek.place.executor
            && self.peek.place.run == other.peek.place.run
            && self.means == other.means
    }
}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted")
            .field("peek", &self.peek)
            .finish_non_exhaustive()
    }
}

/// A handle to the thread. Dropping it ends the thread.
#[derive(Debug)]
pub struct Looker {
    mail: watch::Sender<Option<Wanted>>,
    seen: Arc<Mutex<Option<Arc<InsideView>>>>,
}

impl Looker {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be none.
    pub fn start() -> io::Result<Self> {
        let (mail, inbox) = watch::channel(None);
        let seen = Arc::<Mutex<Option<Arc<InsideView>>>>::default();
        let shown = seen.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::Builder::new().name("looker".to_owned()).spawn(move || {
            let show = move |view: Option<InsideView>| {
                *shown.lock().unwrap_or_else(PoisonError::into_inner) = view.map(Arc::new);
            };
            runtime.block_on(attend(inbox, show, chrono::Utc::now, Patience::default()));
        })?;
        Ok(Self { mail, seen })
    }

    /// What to look at from now on.
    pub fn look(&self, wanted: Option<Wanted>) {
        self.mail.send_if_modified(|known| {
            let same = match (&*known, &wanted) {
                (Some(known), Some(wanted)) => known.is_like(wanted),
                (None, None) => true,
                _ => false,
            };
            if !same {
                *known = wanted;
            }
            !same
        });
    }

    /// What was seen last of it. Waits for nothing.
    pub fn seen(&self) -> Option<Arc<InsideView>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Does what the mailbox says until nobody can write into it any more. `show` gets every change.
pub async fn attend(
    mut mail: watch::Receiver<Option<Wanted>>,
    show: impl Fn(Option<InsideView>),
    clock: impl Fn() -> Time,
    patience: Patience,
) {
    let mut means: Option<Means> = None;
    let mut session: Option<Session> = None;
    loop {
        let Some(wanted) = mail.borrow_and_update().clone() else {
            session = None;
            show(None);
            if mail.changed().await.is_err() {
                return;
            }
            continue;
        };
        let known = session.take().filter(|s| wanted.goes_on_from(&s.wanted));
        let mut now = match known {
            Some(known) => known.with(wanted),
            None => {
                show(Some(InsideView::unseen(wanted.peek.place.attempt.clone())));
                tokio::select! {
                    changed = mail.changed() => match changed {
                        Ok(()) => continue,
                        Err(_) => return,
                    },
                    () = sleep(patience.settles) => Session::new(wanted, patience),
                }
            }
        };
        let ended = tokio::select! {
            changed = mail.changed() => changed.is_err(),
            () = now.go_on(&mut means, &show, &clock) => false,
        };
        if ended {
            return;
        }
        session = Some(now);
    }
}

/// A way to an executor, kept from day to day: it is logged in.
struct Means {
    of: (String, u64),
    inside: Arc<dyn Inside>,
}

/// What is asked next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Tasks,
    Tries,
    Log,
}

/// When something is asked again; `None` is never.
#[derive(Debug, Clone, Copy)]
struct Turn {
    due: Option<Instant>,
    failures: u32,
}

impl Turn {
    fn now() -> Self {
        Self {
            due: Some(Instant::now()),
            failures: 0,
        }
    }

    fn after(&mut self, pause: Duration) {
        self.failures = 0;
        self.due = Some(Instant::now() + pause);
    }

    fn failed(&mut self, pause: Duration) {
        let longer = pause * 2u32.pow(self.failures.min(DOUBLINGS));
        self.failures += 1;
        self.due = Some(Instant::now() + longer);
    }
}

/// The log that is read.
struct Following {
    key: TaskKey,
    try_no: u32,
    tail: Tail,
    next: Option<Token>,
    turn: Turn,
    silences: u32,
    /// The executor says that it is at its end.
    at_end: bool,
}

/// One open day.
struct Session {
    wanted: Wanted,
    view: InsideView,
    tasks: Turn,
    log: Option<Following>,
    /// The tries that are known, or were asked for in vain: of this task, up to this try.
    tries: Option<(TaskKey, u32)>,
    /// The operator asked again: a refusal is forgotten first.
    again: bool,
    patience: Patience,
}

impl Session {
    fn new(wanted: Wanted, patience: Patience) -> Self {
        Self {
            view: InsideView::unseen(wanted.peek.place.attempt.clone()),
            wanted,
            tasks: Turn::now(),
            log: None,
            tries: None,
            again: false,
            patience,
        }
    }

    /// The same day, looked at in another way.
    fn with(mut self, wanted: Wanted) -> Self {
        let before = std::mem::replace(&mut self.wanted, wanted);
        let (old, new) = (&before.peek, &self.wanted.peek);
        let again = old.again != new.again;
        if again || old.place != new.place {
            self.tasks = Turn::now();
            let finished = self.view.log.as_ref().is_some_and(|l| l.finished);
            if let Some(log) = self.log.as_mut().filter(|l| l.try_no > 0 && (again || !finished)) {
                log.turn = Turn::now();
            }
        }
        self.again |= again;
        self.view.asking = None;
        self.aim();
        self
    }

    /// Follows the log that is chosen.
    fn aim(&mut self) {
        let target = chosen(self.view.tasks(), &self.wanted.peek.pick).map(|(t, no)| (t.key.clone(), no));
        let Some((key, try_no)) = target else { return };
        if self
            .log
            .as_ref()
            .is_some_and(|l| l.key == key && l.try_no == try_no)
        {
            return;
        }
        self.view.log = Some(TaskLog {
            key: key.clone(),
            try_no,
            lines: Arc::default(),
            dropped: 0,
            as_of: None,
            finished: try_no == 0,
            trouble: None,
        });
        let mut turn = Turn::now();
        // There is none of a try that has not begun.
        turn.due = turn.due.filter(|_| try_no > 0);
        self.log = Some(Following {
            key,
            try_no,
            tail: Tail::default(),
            next: None,
            turn,
            silences: 0,
            at_end: false,
        });
    }

    /// The task whose log is followed.
    fn task(&self) -> Option<&TaskView> {
        let key = &self.log.as_ref()?.key;
        self.view.tasks().iter().find(|t| t.key == *key)
    }

    /// Whether nothing more can come of the try whose log is followed, as far as is known.
    fn is_over(&self) -> bool {
        let open = self.wanted.peek.place.open;
        let try_no = self.log.as_ref().map_or(0, |l| l.try_no);
        !open
            || self
                .task()
                .is_none_or(|t| t.standing.is_final() || try_no < t.last_try)
    }

    fn next(&self) -> Option<(Instant, Job)> {
        let tasks = self.tasks.due.map(|due| (due, Job::Tasks));
        let wants_tries = self
            .task()
            .is_some_and(|t| t.last_try > 1 && self.tries.as_ref() != Some(&(t.key.clone(), t.last_try)));
        let log = self.log.as_ref();
        let read_once = log.is_some_and(|l| l.turn.due.is_none())
            || self.view.log.as_ref().is_some_and(|l| l.as_of.is_some());
        let tries = (wants_tries && read_once).then(|| (Instant::now(), Job::Tries));
        let log = log.and_then(|l| l.turn.due).map(|due| (due, Job::Log));
        [log, tries, tasks]
            .into_iter()
            .flatten()
            .min_by_key(|(due, _)| *due)
    }

    async fn go_on(
        &mut self,
        means: &mut Option<Means>,
        show: &impl Fn(Option<InsideView>),
        clock: &impl Fn() -> Time,
    ) {
        let inside = match self.means(means) {
            Ok(inside) => inside,
            Err(error) => {
                let before = self.view.trouble.take();
                self.view.trouble = Some(Trouble::again(before.as_ref(), &error.to_string(), clock()));
                show(Some(self.view.clone()));
                return std::future::pending().await;
            }
        };
        if std::mem::take(&mut self.again) {
            inside.ask_again().await;
        }
        show(Some(self.view.clone()));
        while let Some((due, job)) = self.next() {
            sleep_until(due).await;
            let began = Instant::now();
            match job {
                Job::Tasks => self.ask_tasks(inside.as_ref(), show, clock).await,
                Job::Tries => self.ask_tries(inside.as_ref(), show, clock).await,
                Job::Log => self.ask_log(inside.as_ref(), show, clock).await,
            }
            self.rest(job, (began.elapsed() * 2).min(LONGEST_REST));
            self.view.asking = None;
            show(Some(self.view.clone()));
        }
        std::future::pending().await
    }

    /// The same is not asked again before this has passed.
    fn rest(&mut self, job: Job, rest: Duration) {
        let turn = match job {
            Job::Tasks => Some(&mut self.tasks),
            Job::Log => self.log.as_mut().map(|l| &mut l.turn),
            Job::Tries => None,
        };
        if let Some(due) = turn.and_then(|t| t.due.as_mut()) {
            *due = (*due).max(Instant::now() + rest);
        }
    }

    fn means(&self, means: &mut Option<Means>) -> Result<Arc<dyn Inside>, AdapterError> {
        let of = (self.wanted.peek.place.executor.to_string(), self.wanted.means);
        if let Some(known) = means.as_ref().filter(|m| m.of == of) {
            return Ok(known.inside.clone());
        }
        let inside = (self.wanted.make)()?;
        *means = Some(Means {
            of,
            inside: inside.clone(),
        });
        Ok(inside)
    }

    /// Waits for an answer, and lets it be known if that takes a while.
    async fn wait<T>(
        &mut self,
        work: impl Future<Output = T>,
        show: &impl Fn(Option<InsideView>),
        clock: &impl Fn() -> Time,
    ) -> T {
        let (mut work, since) = (pin!(work), clock());
        tokio::select! {
            done = &mut work => return done,
            () = sleep(self.patience.slow) => {}
        }
        self.view.asking = Some(since);
        show(Some(self.view.clone()));
        work.await
    }

    async fn ask_tasks(
        &mut self,
        inside: &dyn Inside,
        show: &impl Fn(Option<InsideView>),
        clock: &impl Fn() -> Time,
    ) {
        let place = self.wanted.peek.place.clone();
        let answer = self.wait(inside.tasks(&place), show, clock).await;
        let pause = inside.pace() * TURNS;
        match answer {
            Ok(mut tasks) => {
                tasks.sort_by(|a, b| a.key.cmp(&b.key));
                let pages = u32::try_from(tasks.len() / PAGE + 1).unwrap_or(u32::MAX);
                self.tasks.after(pause * pages);
                if !place.open {
                    // What has ended changes no more, unless somebody else touches it: ctrl-r shows that.
                    self.tasks.due = None;
                }
                self.view.trouble = None;
                self.view.as_of = Some(clock());
                self.view.tasks = Some(Arc::new(tasks));
                self.aim();
                self.settle_end();
            }
            Err(error) => {
                let before = self.view.trouble.take();
                self.view.trouble = Some(Trouble::again(before.as_ref(), &error.to_string(), clock()));
                self.tasks.failed(pause);
            }
        }
    }

    /// A log that was at its end is finished if its try is over, and goes on if not.
    fn settle_end(&mut self) {
        let over = self.is_over();
        let (Some(log), Some(view)) = (&mut self.log, &mut self.view.log) else {
            return;
        };
        if log.at_end && !view.finished {
            view.finished = over;
            log.turn.due = (!over).then(Instant::now);
        }
    }

    async fn ask_tries(
        &mut self,
        inside: &dyn Inside,
        show: &impl Fn(Option<InsideView>),
        clock: &impl Fn() -> Time,
    ) {
        let Some((key, last)) = self.task().map(|t| (t.key.clone(), t.last_try)) else {
            return;
        };
        let place = self.wanted.peek.place.clone();
        let answer = self.wait(inside.tries(&place, &key), show, clock).await;
        // Without them nothing is missing but when they were.
        self.view.tries = answer.ok().map(|tries| (key.clone(), tries));
        self.tries = Some((key, last));
    }

    async fn ask_log(
        &mut self,
        inside: &dyn Inside,
        show: &impl Fn(Option<InsideView>),
        clock: &impl Fn() -> Time,
    ) {
        let Some((key, try_no, from)) = self
            .log
            .as_ref()
            .map(|l| (l.key.clone(), l.try_no, l.next.clone()))
        else {
            return;
        };
        // Known before it is asked: what is written until then is in the answer.
        let over = self.is_over();
        let place = self.wanted.peek.place.clone();
        let work = inside.log(&place, &key, try_no, from.as_ref());
        let answer = self.wait(work, show, clock).await;
        let (Some(log), Some(view)) = (&mut self.log, &mut self.view.log) else {
            return;
        };
        let pause = inside.pace();
        match answer {
            Ok(part) => {
                view.finished = log.take_in(part, over);
                (view.lines, view.dropped) = if log.silences == 0 {
                    log.tail.kept()
                } else {
                    (view.lines.clone(), view.dropped)
                };
                view.as_of = Some(clock());
                view.trouble = None;
                log.turn.after(pause);
                if view.finished {
                    log.turn.due = None;
                } else if log.at_end {
                    // Whether the try is, too, the tasks tell.
                    log.turn.due = None;
                    self.tasks.due = self.tasks.due.map(|due| due.min(Instant::now() + pause));
                }
            }
            Err(error) => {
                let before = view.trouble.take();
                view.trouble = Some(Trouble::again(before.as_ref(), &error.to_string(), clock()));
                log.turn.failed(pause);
            }
        }
    }
}

impl Following {
    /// Takes in a piece, read when the try was known to be `over` or not; answers whether nothing more comes.
    fn take_in(&mut self, part: LogPart, over: bool) -> bool {
        self.next.clone_from(&part.next);
        self.at_end = part.ended;
        if self.tail.take(part) {
            self.silences = 0;
        } else {
            self.silences += 1;
        }
        over && (self.next.is_none() || self.silences >= SILENCES)
    }
}
