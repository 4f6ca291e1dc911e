//! The feeder: a thread of its own follows the journal and the other sources and tells the run loop what changed.
//! A source that hangs holds up this thread and nothing else; the screen goes on and shows how old its data is.

use super::{
    effect::Watch,
    estimate::Estimate,
    inside::InsideView,
    model::{Configured, ExecutorView, Feed, LeaseView, SignalView},
    parts::PartsView,
    terminal::run::Inbox,
};
use crate::{
    domain::{
        Time,
        event::Event,
        ids::{AttemptId, Name},
        state::State,
        text::one_line,
    },
    plan::throttle::Report,
};
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

/// How many events the feed keeps.
const EVENTS: usize = 500;

/// What changed in the world. Parts that are `None` are as they were.
#[derive(Debug, Clone, Default)]
pub struct News {
    /// The folded journal.
    pub state: Option<Arc<State>>,
    /// Further events, oldest first.
    pub events: Vec<Event>,
    /// All signals.
    pub signals: Option<BTreeMap<Name, SignalView>>,
    /// What the watched signal is made of.
    pub parts: Option<Option<Arc<PartsView>>>,
    /// All executors.
    pub executors: Option<BTreeMap<Name, ExecutorView>>,
    /// Who supervises.
    pub lease: Option<LeaseView>,
    /// How old the last renewal is, where who supervises has not changed. Like [`News::as_of`] it passes with time
    /// and is no news by itself.
    pub lease_age: Option<Duration>,
    /// Limit and running weight of the watched backfill.
    pub limits: Option<VecDeque<(Time, u32, u32)>>,
    /// What the throttle of the selected backfill does, by the supervisor's word.
    pub throttle: Option<Option<(Time, Report)>>,
    /// When the watched backfill will be done.
    pub estimate: Option<Option<Estimate>>,
    /// When the journal was last read successfully.
    pub as_of: Option<Time>,
    /// Why the journal cannot be read; `Some(None)` when it can again.
    pub problem: Option<Option<String>>,
    /// The watched attempt's log.
    pub log: Option<Option<(AttemptId, Vec<String>)>>,
    /// The inside of its run.
    pub inside: Option<Option<Arc<InsideView>>>,
    /// What the screen was opened on, or why on nothing.
    pub config: Option<Result<Configured, String>>,
    /// What is wrong with it; `Some(None)`: nothing any more.
    pub config_fault: Option<Option<String>>,
}

/// A feed in which nothing is known yet.
pub fn nothing_known(now: Time) -> Feed {
    Feed {
        state: Arc::default(),
        events: VecDeque::new(),
        signals: BTreeMap::new(),
        parts: None,
        executors: BTreeMap::new(),
        lease: LeaseView::Nobody,
        limits: VecDeque::new(),
        throttle: None,
        estimate: None,
        as_of: now,
        problem: None,
        log: None,
        inside: None,
        config: None,
        config_fault: None,
    }
}

impl News {
    /// Adds what happened after these news, so that whoever was not listening gets the newest state and no replay.
    pub fn merge(&mut self, newer: Self) {
        fn take<T>(into: &mut Option<T>, newer: Option<T>) {
            if newer.is_some() {
                *into = newer;
            }
        }
        take(&mut self.state, newer.state);
        self.events.extend(newer.events);
        let excess = self.events.len().saturating_sub(EVENTS);
        self.events.drain(..excess);
        take(&mut self.signals, newer.signals);
        take(&mut self.parts, newer.parts);
        take(&mut self.executors, newer.executors);
        if newer.lease.is_some() {
            self.lease_age = None;
        }
        take(&mut self.lease, newer.lease);
        take(&mut self.lease_age, newer.lease_age);
        take(&mut self.limits, newer.limits);
        take(&mut self.throttle, newer.throttle);
        take(&mut self.estimate, newer.estimate);
        take(&mut self.as_of, newer.as_of);
        take(&mut self.problem, newer.problem);
        take(&mut self.log, newer.log);
        take(&mut self.inside, newer.inside);
        take(&mut self.config, newer.config);
        take(&mut self.config_fault, newer.config_fault);
    }

    /// Puts the news into a feed. Returns whether anything but its age changed.
    pub fn apply(self, feed: &mut Feed) -> bool {
        let changed = self.changes();
        if let Some(state) = self.state {
            feed.state = state;
        }
        feed.events.extend(self.events);
        let excess = feed.events.len().saturating_sub(EVENTS);
        feed.events.drain(..excess);
        if let Some(signals) = self.signals {
            feed.signals = signals;
        }
        if let Some(parts) = self.parts {
            feed.parts = parts;
        }
        if let Some(executors) = self.executors {
            feed.executors = executors;
        }
        if let Some(lease) = self.lease {
            feed.lease = lease;
        }
        if let (LeaseView::Held { age, .. }, Some(newer)) = (&mut feed.lease, self.lease_age) {
            *age = newer;
        }
        if let Some(limits) = self.limits {
            feed.limits = limits;
        }
        if let Some(throttle) = self.throttle {
            feed.throttle = throttle;
        }
        if let Some(estimate) = self.estimate {
            feed.estimate = estimate;
        }
        if let Some(as_of) = self.as_of {
            feed.as_of = as_of;
        }
        if let Some(problem) = self.problem {
            feed.problem = problem;
        }
        if let Some(log) = self.log {
            feed.log = log;
        }
        if let Some(inside) = self.inside {
            feed.inside = inside;
        }
        if self.config.is_some() {
            feed.config = self.config;
        }
        if let Some(fault) = self.config_fault {
            feed.config_fault = fault;
        }
        changed
    }

    fn changes(&self) -> bool {
        self.state.is_some()
            || !self.events.is_empty()
            || self.signals.is_some()
            || self.parts.is_some()
            || self.executors.is_some()
            || self.lease.is_some()
            || self.limits.is_some()
            || self.estimate.is_some()
            || self.problem.is_some()
            || self.log.is_some()
            || self.inside.is_some()
            || self.config.is_some()
            || self.config_fault.is_some()
    }

    /// Drops the parts that are as they were in `feed`.
    fn only_changes(&mut self, feed: &Feed) {
        fn keep<T: PartialEq>(part: &mut Option<T>, old: &T) {
            if part.as_ref() == Some(old) {
                *part = None;
            }
        }
        // A state is the fold up to its head, with what was seen of attached backfills laid over.
        let same_state = |s: &Arc<State>| {
            (s.head, s.seen, s.backfills.len())
                == (feed.state.head, feed.state.seen, feed.state.backfills.len())
        };
        if self.state.as_ref().is_some_and(same_state) {
            self.state = None;
        }
        keep(&mut self.signals, &feed.signals);
        keep(&mut self.parts, &feed.parts);
        keep(&mut self.executors, &feed.executors);
        if let (
            Some(LeaseView::Held {
                holder: now,
                epoch: e,
                age,
            }),
            LeaseView::Held { holder, epoch, .. },
        ) = (&self.lease, &feed.lease)
            && (now, e) == (holder, epoch)
        {
            self.lease_age = Some(*age);
            self.lease = None;
        }
        keep(&mut self.lease, &feed.lease);
        keep(&mut self.limits, &feed.limits);
        keep(&mut self.estimate, &feed.estimate);
        keep(&mut self.problem, &feed.problem);
        keep(&mut self.log, &feed.log);
        keep(&mut self.inside, &feed.inside);
        keep(&mut self.config_fault, &feed.config_fault);
        if self.config == feed.config {
            self.config = None;
        }
    }
}

/// Where the feed comes from. Called from the feeder's thread only; it may take its time.
pub trait Source: Send {
    /// Looks at everything that the screen watches and returns what it sees; parts that did not change may be left
    /// out. `watch` names what is on the screen.
    ///
    /// # Errors
    /// The journal cannot be read, and why, in one line.
    fn poll(&mut self, watch: &Watch) -> Result<News, String>;
}

#[derive(Debug)]
struct Shared {
    watch: Mutex<Watch>,
    over: AtomicBool,
}

/// A handle to the feeder's thread. Dropping it ends the thread as soon as its source answers.
#[derive(Debug)]
pub struct Feeder {
    shared: Arc<Shared>,
    kick: SyncSender<()>,
}

impl Feeder {
    /// Starts following. `every` is the time between two looks; news go to `inbox`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(mut source: Box<dyn Source>, inbox: Inbox, every: Duration, now: Time) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            watch: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let (kick, kicked) = sync_channel(1);
        let feeder = Self {
            shared: shared.clone(),
            kick,
        };
        thread::Builder::new().name("feeder".to_owned()).spawn(move || {
            let mut known = nothing_known(now);
            let mut first = true;
            loop {
                let watch = shared
                    .watch
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clone();
                let mut news = look(source.as_mut(), &watch);
                if !first {
                    news.only_changes(&known);
                }
                first = false;
                if news.changes() || news.as_of.is_some() {
                    news.clone().apply(&mut known);
                    inbox.news(news);
                }
                if shared.over.load(Ordering::SeqCst) || !wait(&kicked, every) {
                    return;
                }
            }
        })?;
        Ok(feeder)
    }

    /// The screen looks at something else: the next look is now.
    pub fn watch(&self, watch: Watch) {
        *self.shared.watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
        self.refresh();
    }

    /// The next look is now.
    pub fn refresh(&self) {
        let _ = self.kick.try_send(());
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.refresh();
    }
}

fn look(source: &mut dyn Source, watch: &Watch) -> News {
    match source.poll(watch) {
        Ok(mut news) => {
            news.problem.get_or_insert(None);
            news
        }
        Err(why) => News {
            problem: Some(Some(one_line(&why, 300))),
            ..News::default()
        },
    }
}

/// Waits for the next look; `false` when nobody can ask for one any more.
fn wait(kicked: &Receiver<()>, every: Duration) -> bool {
    match kicked.recv_timeout(every) {
        Ok(()) | Err(RecvTimeoutError::Timeout) => true,
        Err(RecvTimeoutError::Disconnected) => false,
    }
}
