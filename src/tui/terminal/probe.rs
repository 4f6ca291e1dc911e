//! A world in memory for tests of the whole screen: a journal that folds what is appended, a planner over it, and
//! faults on demand. Only in builds with debug assertions; `__screen-test` opens the real screen on it, so that a
//! test can drive the real program through a real pseudo-terminal.

use super::{Options, Partners, open, plain};
use crate::{
    domain::{
        Time,
        event::{Actor, Event, Payload, Read},
        ids::{AttemptId, BackfillId, ChunkId, ExternalId, Name},
        spec::Spec,
        state::{Backfill, ChunkState, State},
        tuning::Tuning,
    },
    plan::{
        decide::{ExecutorFacts, Surroundings},
        preview::{Preview, PreviewChunk},
        why::Why,
    },
    tui::{
        attaching::{Errand, Scouted},
        driver::{Appended, Journalist, Order, Starter},
        effect::{Planner, Watch},
        estimate::{self, Estimate},
        feeder::{News, Source},
        glyphs::GlyphSet,
        keymap::Hints,
        model::{App, Ask, Configured, Feed, LeaseView},
        scout::Scout,
        theme::{Level, Look},
        view,
    },
};
use ratatui::Frame;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

/// A journal in memory. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    inner: Arc<Mutex<Inner>>,
    /// How often it was looked at.
    looks: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Inner {
    state: Arc<State>,
    events: Vec<Event>,
    faults: Faults,
}

/// What goes wrong in this world.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Reading never returns.
    pub reading_hangs: bool,
    /// Writing never returns.
    pub writing_hangs: bool,
    /// Reading fails.
    pub reading_fails: bool,
    /// The thread that writes panics.
    pub writing_panics: bool,
    /// So many appends meet a journal that has moved on.
    pub conflicts: u32,
}

/// Never returns.
fn hang() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// The time at which everything in this world happens.
pub fn epoch() -> Time {
    Time::from_timestamp(1_701_486_620, 0).unwrap_or_default()
}

/// A day-by-day order named `orders` from `start` to `end`, both `YYYY-MM-DD`, limit 8.
///
/// # Errors
/// A date that is none.
pub fn spec(start: &str, end: &str, granularity: &str, zone: &str) -> Result<Spec, serde_json::Error> {
    serde_json::from_value(serde_json::json!({
        "name": "orders", "target": "lake.orders", "environment": "prod", "start": start, "end": end,
        "granularity": granularity, "timezone": zone, "executor": "here", "command": ["true"], "cwd": "/",
        "env_pass": [], "env": {}, "env_secrets": [], "max_limit": 8, "order": "oldest-first", "signals": [],
        "on_failure": "continue",
        "profiles": [{ "name": "default", "memory": null, "deadline_ms": 60000 }],
        "lanes": {}, "source": {}, "idempotent": true
    }))
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an event of the supervisor's, or of an operator.
    pub fn happen(
        &self,
        human: bool,
        backfill: Option<&BackfillId>,
        payload: Payload,
        reason: Option<String>,
    ) -> u64 {
        let mut inner = self.lock();
        let seq = inner.state.head + 1;
        let actor = match human {
            true => Actor {
                name: "minh".to_owned(),
                origin: "os user".to_owned(),
            },
            false => Actor::supervisor(),
        };
        let event = Event {
            seq,
            at: epoch(),
            actor,
            reason,
            backfill: backfill.cloned(),
            payload: Read::Known(payload),
        };
        Arc::make_mut(&mut inner.state).apply(&event);
        inner.events.push(event);
        seq
    }

    /// Starts an order and returns its id.
    pub fn start(&self, spec: Spec, drawn: u32) -> BackfillId {
        let id = BackfillId::new(&spec.name, drawn);
        let spec = Box::new(spec);
        let hash = "000000000000".to_owned();
        self.happen(true, Some(&id), Payload::Started { spec, hash }, None);
        id
    }

    /// A new attempt at a chunk that runs.
    pub fn run(&self, backfill: &BackfillId, chunk: ChunkId) -> Option<AttemptId> {
        let attempt = AttemptId {
            backfill: backfill.clone(),
            chunk,
            no: self.state().backfills.get(backfill)?.chunk(chunk)?.next_no(),
        };
        let intended = Payload::SubmissionIntended {
            attempt: attempt.clone(),
            executor: "here".parse::<Name>().ok()?,
            profile: 0,
            weight: 1,
        };
        self.happen(false, Some(backfill), intended, None);
        let accepted = Payload::SubmissionAccepted {
            attempt: attempt.clone(),
            run: ExternalId("1".to_owned()),
            adopted: false,
            running: true,
        };
        self.happen(false, Some(backfill), accepted, None);
        Some(attempt)
    }

    /// The running attempt of a chunk ends.
    pub fn end(&self, attempt: AttemptId, outcome: crate::domain::event::Outcome) {
        let backfill = attempt.backfill.clone();
        let ended = Payload::RunEnded {
            attempt,
            outcome,
            started: None,
            ended: None,
            peak: None,
            note: None,
        };
        self.happen(false, Some(&backfill), ended, None);
    }

    /// The state now.
    pub fn state(&self) -> Arc<State> {
        self.lock().state.clone()
    }

    /// All events, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.lock().events.clone()
    }

    /// Changes what goes wrong from here on.
    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.lock().faults);
    }

    /// A feed of this world as it is now.
    pub fn feed(&self) -> Feed {
        let mut feed = crate::tui::feeder::nothing_known(epoch());
        self.news(0).apply(&mut feed);
        feed
    }

    fn news(&self, seen: u64) -> News {
        let inner = self.lock();
        let held = LeaseView::Held {
            holder: "alpha pid 1".to_owned(),
            epoch: 1,
            // It passes at every look, as a real one does.
            age: Duration::from_millis(self.looks.fetch_add(1, Ordering::SeqCst) as u64),
        };
        News {
            state: Some(inner.state.clone()),
            events: inner.events.iter().filter(|e| e.seq > seen).cloned().collect(),
            lease: Some(held),
            as_of: Some(epoch()),
            config: Some(Ok(Configured {
                file: "config.toml".to_owned(),
                journal: "journal.db".to_owned(),
            })),
            ..News::default()
        }
    }
}

/// Reads the journal in memory.
#[derive(Debug)]
pub struct Reader {
    memory: Memory,
    seen: u64,
}

impl Reader {
    /// From the beginning.
    pub const fn new(memory: Memory) -> Self {
        Self { memory, seen: 0 }
    }
}

impl Source for Reader {
    fn poll(&mut self, watch: &Watch) -> Result<News, String> {
        let faults = self.memory.lock().faults;
        if faults.reading_hangs {
            hang();
        }
        if faults.reading_fails {
            return Err("disk I/O error".to_owned());
        }
        let mut news = self.memory.news(self.seen);
        news.estimate = Some(estimated(&self.memory.state(), watch));
        self.seen = self.memory.state().head;
        Ok(news)
    }
}

/// The end of the watched order, as the real source tells it.
fn estimated(state: &State, watch: &Watch) -> Option<Estimate> {
    let backfill = watch.backfill.as_ref().and_then(|id| state.backfills.get(id))?;
    let facts = ExecutorFacts {
        slots: Some(8),
        problem: None,
    };
    let around = Surroundings {
        now: epoch(),
        tuning: Tuning::default(),
        executors: BTreeMap::from([(backfill.spec.executor.clone(), facts)]),
        signals: None,
        paced: BTreeSet::new(),
        admissions: BTreeMap::new(),
        disk_low: false,
        supervised: true,
        elsewhere: BTreeMap::new(),
    };
    Some(estimate::make(state, backfill, &around, 1.0, watch.what_if))
}

impl Journalist for Memory {
    fn fresh(&mut self) -> Result<Arc<State>, String> {
        if self.lock().faults.writing_hangs {
            hang();
        }
        Ok(self.state())
    }

    #[allow(clippy::panic, reason = "the panic of a worker is what is tested")]
    fn append(&mut self, order: &Order) -> Appended {
        let faults = self.lock().faults;
        if faults.writing_hangs {
            hang();
        }
        if faults.writing_panics {
            panic!("forced panic in a worker");
        }
        if order.head.is_some() && faults.conflicts > 0 {
            self.faults(|f| f.conflicts -= 1);
            return Appended::Conflict;
        }
        if order.head.is_some_and(|head| head != self.state().head) {
            return Appended::Conflict;
        }
        let mut seq = 0;
        for payload in &order.payloads {
            seq = self.happen(
                true,
                order.backfill.as_ref(),
                payload.clone(),
                order.reason.clone(),
            );
            if matches!(payload, Payload::Paused { .. }) {
                // The supervisor of this world confirms at once.
                let in_flight = Vec::new();
                self.happen(
                    false,
                    order.backfill.as_ref(),
                    Payload::PauseApplied { in_flight },
                    None,
                );
            }
        }
        Appended::Accepted { seq }
    }
}

/// Starts nothing and counts how often it was asked to.
#[derive(Debug, Default)]
pub struct Counter(AtomicUsize);

impl Starter for Counter {
    fn start(&self) -> Result<String, String> {
        let n = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(format!("supervisor {n} started"))
    }
}

/// In this world there are no servers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nowhere;

impl Scout for Nowhere {
    fn go(&self, _: Errand, tell: &dyn Fn(Scouted)) {
        tell(Scouted::Executors(Vec::new()));
    }
}

/// A planner by the rules of the fold: what a command would act on, and what it would leave alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plans {
    /// Asking about this chunk panics.
    pub panics_at: Option<ChunkId>,
}

impl Planner for Plans {
    fn preview(&self, feed: &Feed, backfill: Option<&BackfillId>, ask: &Ask, _: Time) -> Preview {
        let backfill = backfill.and_then(|id| feed.state.backfills.get(id));
        let (verb, ids, class): (&str, &[ChunkId], u8) = match ask {
            Ask::Rerun(ids, _) => ("Re-run", ids, 2),
            Ask::Skip(ids) => ("Skip", ids, 2),
            Ask::Release(ids) => ("Release", ids, 2),
            Ask::Stop(ids) => ("Stop", ids, 3),
            Ask::Act(_) => ("Act", &[], 2),
            Ask::Take(..) => ("Take", &[], 2),
            Ask::Detach => ("Let go", &[], 2),
            Ask::Cancel => ("Cancel", &[], 3),
            Ask::Resume => ("Resume", &[], 2),
            Ask::Cap(_) => ("Cap", &[], 2),
            Ask::Force(..) => ("Override", &[], 2),
            Ask::StopSupervising => ("Stop supervising", &[], 2),
            Ask::StartSupervising => ("Start supervising", &[], 2),
        };
        let (mut will, mut will_not) = (Vec::new(), Vec::new());
        for id in ids {
            match backfill.and_then(|b| b.chunk(*id)) {
                Some(chunk) if allowed(ask, chunk.state) => will.push(PreviewChunk {
                    chunk: *id,
                    state: chunk.state.word(),
                    attempt: chunk.next_no(),
                    last: String::new(),
                    profile: "default".to_owned(),
                    lane: "normal",
                    weight: 1,
                }),
                Some(chunk) => will_not.push((*id, format!("is {}", chunk.state.word()))),
                None => will_not.push((*id, "is no chunk of it".to_owned())),
            }
        }
        let facts = facts(backfill);
        let text = format!("{verb}{ask:?}{will:?}{will_not:?}{facts:?}");
        Preview {
            title: format!("{verb} {} days", will.len()),
            digest: format!("{:06x}", crc32fast::hash(text.as_bytes()) & 0xff_ffff),
            will,
            will_not,
            facts,
            same_as: String::new(),
            class,
        }
    }

    #[allow(clippy::panic, reason = "the panic of the machine is what is tested")]
    fn why(&self, feed: &Feed, backfill: &BackfillId, chunk: ChunkId, _: Time) -> Option<Why> {
        if self.panics_at == Some(chunk) {
            panic!("forced panic in update");
        }
        let backfill = feed.state.backfills.get(backfill)?;
        let state = backfill.chunk(chunk)?.state;
        (state == ChunkState::Pending).then(|| Why {
            reason: "order",
            text: format!("{chunk} waits for its turn"),
            unblock: String::new(),
        })
    }
}

fn allowed(ask: &Ask, state: ChunkState) -> bool {
    use ChunkState as S;
    match ask {
        Ask::Rerun(_, true) => matches!(state, S::Failed | S::Cancelled),
        Ask::Rerun(..) => !state.is_active() && !matches!(state, S::Pending | S::Held),
        Ask::Skip(_) => matches!(
            state,
            S::Pending | S::Held | S::Failed | S::Quarantined | S::Cancelled
        ),
        Ask::Release(_) => state == S::Held,
        Ask::Stop(_) => state.is_active(),
        _ => false,
    }
}

fn facts(backfill: Option<&Backfill>) -> Vec<(&'static str, String)> {
    let paused = backfill
        .and_then(|b| b.pause.as_ref())
        .map(|p| p.mark.by.name.clone());
    vec![("paused by", paused.unwrap_or_else(|| "nobody".to_owned()))]
}

/// A world of a year of days: five done, one failed, one quarantined, one running, the rest waiting.
pub fn year() -> Option<(Memory, BackfillId)> {
    use crate::domain::{
        event::{Next, Outcome},
        failure::{Failure, FailureClass},
    };
    let memory = Memory::default();
    let id = memory.start(spec("2023-01-01", "2023-12-31", "day", "UTC").ok()?, 1);
    let day = |n: u32| chrono::NaiveDate::from_ymd_opt(2023, 1, n).map(ChunkId::day);
    for n in 1..=5 {
        memory.end(memory.run(&id, day(n)?)?, Outcome::Done);
    }
    let failure = || Failure {
        class: FailureClass::Data,
        exit: Some(1),
        message: "bad rows".to_owned(),
    };
    let stays = Outcome::Failed {
        failure: failure(),
        next: Next::Stay,
    };
    memory.end(memory.run(&id, day(6)?)?, stays);
    let quarantined = Outcome::Failed {
        failure: failure(),
        next: Next::Quarantine {
            why: "data error".to_owned(),
        },
    };
    memory.end(memory.run(&id, day(7)?)?, quarantined);
    memory.run(&id, day(8)?)?;
    Some((memory, id))
}

/// `__screen-test`: opens the real screen on the world of [`year`]. Arguments: `hang-reading`, `hang-writing`,
/// `panic-update`, `panic-view` (both when the cursor reaches the last day), `panic-worker` (on a write),
/// `panic-hook` (the hook that was there before ours panics too, on the panic of the view), `no-hup` (HUP stays
/// ignored if it is), `read-only`, `report=FILE`, `view` (the real drawing instead of
/// plain lines). Returns the exit code.
#[allow(clippy::panic, reason = "forced panics are what is tested")]
pub fn main(args: impl Iterator<Item = String>) -> i32 {
    let Some((memory, _)) = year() else {
        return 2;
    };
    let mut options = Options::default();
    let mut planner = Plans::default();
    let mut look = None;
    let (mut view_panics, last) = (
        false,
        chrono::NaiveDate::from_ymd_opt(2023, 12, 31).map(ChunkId::day),
    );
    for arg in args {
        match arg.as_str() {
            "hang-reading" => memory.faults(|f| f.reading_hangs = true),
            "hang-writing" => memory.faults(|f| f.writing_hangs = true),
            "panic-worker" => memory.faults(|f| f.writing_panics = true),
            "panic-update" => planner.panics_at = last,
            "panic-view" => view_panics = true,
            "panic-hook" => {
                view_panics = true;
                std::panic::set_hook(Box::new(|_| panic!("forced panic in the hook")));
            }
            "no-hup" => options.leave_signal = Some(signal_hook::consts::SIGHUP),
            "view" => look = Look::new("dark", Level::True, GlyphSet::Full).ok(),
            "read-only" => options.read_only = Some("flag"),
            other => match other.strip_prefix("report=") {
                Some(path) => options.report = Some(PathBuf::from(path)),
                None => return 2,
            },
        }
    }
    let draw = move |frame: &mut Frame<'_>, feed: &Feed, app: &App, hints: &Hints, now: Time| {
        if view_panics && app.cursor == last {
            panic!("forced panic in view");
        }
        match &look {
            Some(look) => view::draw(frame, feed, app, look, hints, now),
            None => plain::draw(frame, feed, app, hints, now),
        }
    };
    let partners = Partners {
        source: Box::new(Reader::new(memory.clone())),
        journalist: Box::new(memory),
        planner: Arc::new(planner),
        starter: Arc::new(Counter::default()),
        scout: Arc::new(Nowhere),
    };
    match open(options, draw, partners) {
        Ok(closed) => {
            for what in closed.unanswered {
                eprintln!("{what} was sent and not answered");
            }
            closed.end.code()
        }
        Err(error) => {
            eprintln!("{error}");
            1
        }
    }
}
