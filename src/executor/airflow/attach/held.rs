//! The runs of the window as they were last read, and which days changed since somebody was last told.

use super::{
    super::wire::{Run, RunKind, RunState},
    days::{Calendar, Place},
};
use crate::{
    domain::{
        Time,
        attach::{Days, RunPhase, SeenRun},
        ids::{ChunkId, ExternalId},
        text,
    },
    host::BootInstant,
};
use chrono::TimeDelta;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// A success as quick as this comes about where no task ran; a real task takes longer to be begun.
const NO_TIME: TimeDelta = TimeDelta::seconds(1);
/// The most letters of a word of the server's.
const WORD: usize = 40;

/// A span of dates, both ends inclusive, as the server's filters are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first date in it.
    pub from: Time,
    /// The last date in it.
    pub to: Time,
}

impl Span {
    pub fn holds(&self, at: Time) -> bool {
        self.from <= at && at <= self.to
    }
}

/// By what date a server chooses the runs of the window, which is also their place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// By the logical date, to the microsecond.
    Logical,
    /// By the civil day of the partition, in the zone of its timetable. As an instant it is the midnight of UTC.
    Partition,
    /// It cannot: all runs of the DAG are read.
    Nothing,
}

impl Key {
    /// The date that counts; `None`: the server's filter leaves the run out.
    pub fn of(self, run: &Run, calendar: &Calendar) -> Option<Time> {
        match self {
            Self::Logical => run.logical_date,
            Self::Partition => calendar.partition_day(run),
            // Any date will do where all are read.
            Self::Nothing => Some(Time::UNIX_EPOCH),
        }
    }

    /// The instant that the date stands for.
    pub const fn instant(self, run: &Run) -> Option<Time> {
        match self {
            Self::Logical => run.logical_date,
            Self::Partition | Self::Nothing => run.partition_date,
        }
    }

    /// The smallest distance of two dates.
    pub const fn tick(self) -> TimeDelta {
        match self {
            Self::Partition => TimeDelta::days(1),
            Self::Logical | Self::Nothing => TimeDelta::microseconds(1),
        }
    }
}

/// One run.
#[derive(Debug, Clone)]
struct Entry {
    key: Time,
    place: Place,
    /// Order within a day: the scheduled run before those that were made later.
    made: Option<Time>,
    seen: SeenRun,
    doubt: Doubt,
    date: Option<Time>,
    user: Option<Arc<str>>,
    /// Queued since, on our clock.
    waits: Option<BootInstant>,
}

impl Entry {
    fn waited(&self, now: BootInstant, server: Option<Time>) -> Duration {
        let ours = self.waits.map_or(Duration::ZERO, |since| now.since(since));
        let theirs = server
            .zip(self.seen.queued)
            .and_then(|(server, queued)| (server - queued).to_std().ok());
        ours.max(theirs.unwrap_or_default())
    }
}

/// What speaks against a success, as far as the run itself tells: whether a task ran is not asked run by run.
#[derive(Debug, Clone, Copy)]
enum Doubt {
    /// It is no success.
    NoSuccess,
    /// By hand, on this date; it took so long.
    ByHand(Option<Time>, Option<TimeDelta>),
    /// By a schedule or a backfill; it took so long.
    Planned(Option<TimeDelta>),
}

impl Doubt {
    fn of(run: &Run) -> Self {
        let took = run.started.zip(run.ended).map(|(start, end)| end - start);
        match (&run.state, &run.kind) {
            (RunState::Success, RunKind::Backfill | RunKind::Scheduled) => Self::Planned(took),
            (RunState::Success, _) => Self::ByHand(run.logical_date, took),
            _ => Self::NoSuccess,
        }
    }

    /// The word for a success.
    fn word(self, start: Option<Time>) -> Option<String> {
        let took = match self {
            Self::NoSuccess => return None,
            Self::ByHand(date, _) if date.zip(start).is_some_and(|(date, start)| date < start) => {
                return Some("success, but before the DAG's start date: no task ran".to_owned());
            }
            Self::ByHand(_, took) | Self::Planned(took) => took,
        };
        Some(match took {
            None => "success, but never begun".to_owned(),
            Some(took) if took < NO_TIME => "success within a second: did a task run?".to_owned(),
            Some(_) => RunState::Success.as_str().to_owned(),
        })
    }
}

/// The runs of a window.
#[derive(Debug)]
pub struct Held {
    calendar: Calendar,
    key: Key,
    span: Span,
    runs: HashMap<Arc<str>, Entry>,
    by_key: BTreeSet<(Time, Arc<str>)>,
    by_day: HashMap<ChunkId, Vec<Arc<str>>>,
    changed: HashSet<ChunkId>,
    /// When a run came, went or got another phase.
    moved: BootInstant,
    /// Runs by hand before it have no tasks.
    start: Option<Time>,
    comings: u64,
}

/// The runs of the window in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Runs with a day of the window.
    pub runs: u32,
    /// Runs without a day, of those that were read.
    pub nowhere: u32,
    /// Runs that run, by the server's word.
    pub running: u32,
    /// Runs that wait.
    pub queued: u32,
    /// Of those, the ones of native backfills.
    pub queued_native: u32,
    /// How long the one waits that waits longest.
    pub waited: Duration,
    /// Successes of which there is reason to think that no task ran.
    pub doubtful: u32,
    /// For so long no run has come, gone or got another phase.
    pub still: Duration,
}

impl Held {
    /// Nothing yet. `span` is what the server's filter is given; all of it is held, also what lies outside the
    /// calendar.
    pub fn new(calendar: Calendar, key: Key, span: Span, now: BootInstant) -> Self {
        Self {
            calendar,
            key,
            span,
            runs: HashMap::new(),
            by_key: BTreeSet::new(),
            by_day: HashMap::new(),
            changed: HashSet::new(),
            moved: now,
            start: None,
            comings: 0,
        }
    }

    /// The DAG's start date, once it is known.
    pub fn set_start(&mut self, start: Option<Time>) {
        if self.start == start {
            return;
        }
        self.start = start;
        for entry in self.runs.values_mut() {
            let word = entry.doubt.word(start);
            if let Some(word) = word.filter(|w| *w != entry.seen.word) {
                entry.seen.word = word;
                self.changed.extend(day(entry.place));
            }
        }
    }

    /// All of the window.
    pub const fn span(&self) -> Span {
        self.span
    }

    /// Runs that the server's filter takes.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// How often a run has come or gone.
    pub const fn comings(&self) -> u64 {
        self.comings
    }

    /// Whether a run is among them.
    pub fn has(&self, id: &str) -> bool {
        self.runs.contains_key(id)
    }

    /// Runs within a part of the window.
    pub fn count(&self, span: Span) -> usize {
        self.range(span).count()
    }

    /// Takes in runs that were read: they are there, and so they are now.
    pub fn take(&mut self, runs: &[Run], now: BootInstant) {
        for run in runs {
            match self
                .key
                .of(run, &self.calendar)
                .filter(|key| self.span.holds(*key))
            {
                Some(key) => self.put(key, run, now),
                None => self.drop_run(&run.id, now),
            }
        }
    }

    /// Takes in all the runs that there are in a part of the window: others that were there are gone.
    pub fn take_all(&mut self, span: Span, runs: &[Run], now: BootInstant) {
        let there: HashSet<&str> = runs.iter().map(|r| r.id.as_str()).collect();
        let gone: Vec<Arc<str>> = self
            .range(span)
            .filter(|id| !there.contains(&***id))
            .cloned()
            .collect();
        for id in gone {
            self.drop_run(&id, now);
        }
        self.take(runs, now);
    }

    fn range(&self, span: Span) -> impl Iterator<Item = &Arc<str>> {
        let from = (span.from, Arc::from(""));
        self.by_key
            .range(from..)
            .take_while(move |(key, _)| *key <= span.to)
            .map(|(_, id)| id)
    }

    fn put(&mut self, key: Time, run: &Run, now: BootInstant) {
        let mut entry = Entry {
            key,
            place: self.calendar.place(run),
            made: run.run_after.or(run.interval.map(|(_, end)| end)),
            seen: seen(run),
            doubt: Doubt::of(run),
            date: run.partition_date.or(run.logical_date),
            user: run
                .user
                .as_deref()
                .filter(|_| run.kind == RunKind::Backfill)
                .map(Arc::from),
            waits: (run.state == RunState::Queued).then_some(now),
        };
        if let Some(word) = entry.doubt.word(self.start) {
            entry.seen.word = word;
        }
        if let Some(old) = self.runs.get(run.id.as_str()) {
            entry.waits = entry.waits.and(old.waits).or(entry.waits);
            let same = old.seen == entry.seen && old.place == entry.place && old.key == key;
            if old.seen.phase != entry.seen.phase {
                self.moved = now;
            }
            if same {
                return;
            }
            if old.key == key && old.place == entry.place {
                self.changed.extend(day(entry.place));
                self.runs.insert(Arc::from(run.id.as_str()), entry);
                return;
            }
            self.drop_run(&run.id, now);
        }
        self.moved = now;
        self.comings += 1;
        let id: Arc<str> = Arc::from(run.id.as_str());
        self.by_key.insert((key, Arc::clone(&id)));
        if let Some(chunk) = day(entry.place) {
            self.by_day.entry(chunk).or_default().push(Arc::clone(&id));
            self.changed.insert(chunk);
        }
        self.runs.insert(id, entry);
    }

    fn drop_run(&mut self, id: &str, now: BootInstant) {
        let Some((id, entry)) = self.runs.remove_entry(id) else {
            return;
        };
        self.moved = now;
        self.comings += 1;
        self.by_key.remove(&(entry.key, Arc::clone(&id)));
        if let Some(chunk) = day(entry.place) {
            if let Some(ids) = self.by_day.get_mut(&chunk) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.by_day.remove(&chunk);
                }
            }
            self.changed.insert(chunk);
        }
    }

    /// The days that changed since this was last asked, with all runs that they have now.
    pub fn changes(&mut self) -> Days {
        let changed = std::mem::take(&mut self.changed);
        changed
            .into_iter()
            .map(|chunk| (chunk, self.runs_of(chunk)))
            .collect()
    }

    /// All days that have runs; nothing counts as changed after that.
    pub fn all(&mut self) -> Days {
        self.changed.clear();
        self.by_day
            .keys()
            .map(|chunk| (*chunk, self.runs_of(*chunk)))
            .collect()
    }

    fn runs_of(&self, chunk: ChunkId) -> Vec<SeenRun> {
        let ids = self.by_day.get(&chunk).map_or(&[][..], Vec::as_slice);
        let mut entries: Vec<&Entry> = ids.iter().filter_map(|id| self.runs.get(id)).collect();
        entries.sort_by(|a, b| (a.date, a.made, &a.seen.run.0).cmp(&(b.date, b.made, &b.seen.run.0)));
        entries.into_iter().map(|e| e.seen.clone()).collect()
    }

    /// The window in parts of about so many runs, oldest first, without gaps.
    pub fn parts(&self, runs: usize) -> Vec<Span> {
        let mut parts: Vec<Span> = Vec::new();
        let mut from = self.span.from;
        for (key, _) in self.by_key.iter().step_by(runs.max(1)).skip(1) {
            let to = *key - self.key.tick();
            if to >= from {
                parts.push(Span { from, to });
                from = *key;
            }
        }
        parts.push(Span {
            from,
            to: self.span.to,
        });
        parts
    }

    /// What is known of the window as a whole. `server`: the server's clock, where it tells it.
    pub fn tally(&self, now: BootInstant, server: Option<Time>) -> Tally {
        let mut tally = Tally {
            still: now.since(self.moved),
            ..Tally::default()
        };
        for entry in self.runs.values() {
            match entry.place {
                Place::Day(_) => tally.runs += 1,
                Place::Nowhere => tally.nowhere += 1,
                Place::Outside => continue,
            }
            match entry.seen.phase {
                RunPhase::Running => tally.running += 1,
                RunPhase::Queued => {
                    tally.queued += 1;
                    tally.queued_native += u32::from(entry.seen.kind == RunKind::Backfill.as_str());
                    tally.waited = tally.waited.max(entry.waited(now, server));
                }
                RunPhase::Done => tally.doubtful += u32::from(entry.seen.word != RunState::Success.as_str()),
                RunPhase::Failed | RunPhase::Cancelled | RunPhase::Unknown => {}
            }
        }
        tally
    }

    /// The dates of the runs in the window.
    pub fn dates(&self) -> Vec<Time> {
        self.runs
            .values()
            .filter(|e| matches!(e.place, Place::Day(_)))
            .filter_map(|e| e.date)
            .collect()
    }

    /// Who made the runs of a native backfill: of these dates, queued since it was made.
    pub fn maker(&self, span: Span, since: Time) -> Option<Arc<str>> {
        self.range(span)
            .filter_map(|id| self.runs.get(id))
            .filter(|e| e.seen.queued.is_some_and(|q| q >= since))
            .find_map(|e| e.user.clone())
    }
}

fn day(place: Place) -> Option<ChunkId> {
    match place {
        Place::Day(chunk) => Some(chunk),
        Place::Outside | Place::Nowhere => None,
    }
}

fn seen(run: &Run) -> SeenRun {
    SeenRun {
        run: ExternalId(run.id.clone()),
        phase: phase(run),
        word: text::one_line(run.state.as_str(), WORD),
        kind: text::one_line(run.kind.as_str(), WORD),
        queued: run.queued_at,
        started: run.started,
        ended: run.ended,
        tries: None,
    }
}

fn phase(run: &Run) -> RunPhase {
    match &run.state {
        RunState::Queued => RunPhase::Queued,
        RunState::Running => RunPhase::Running,
        RunState::Success => RunPhase::Done,
        // What a cancel of the native backfill makes of its days that still waited.
        RunState::Failed if run.kind == RunKind::Backfill && run.was_never_begun() => RunPhase::Cancelled,
        RunState::Failed => RunPhase::Failed,
        RunState::Other(_) => RunPhase::Unknown,
    }
}

#[cfg(test)]
#[path = "held_tests.rs"]
mod tests;
