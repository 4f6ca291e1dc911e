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
mod tests {
    use super::super::testing::{order, run};
    use super::*;
    use chrono::Days as CivilDays;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    const NOW: BootInstant = BootInstant(1_000_000);

    fn at(text: &str) -> Time {
        text.parse().unwrap()
    }

    fn held(first: &str, last: &str) -> Held {
        let calendar = Calendar::of(&order("UTC", first, last, "day"));
        let to = calendar.end() - TimeDelta::microseconds(1);
        let span = Span {
            from: calendar.first(),
            to,
        };
        Held::new(calendar, Key::Logical, span, NOW)
    }

    fn named(id: &str, date: &str, fields: Value) -> Run {
        let mut all = json!({"dag_run_id": id, "logical_date": date});
        all.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        run(all)
    }

    fn shown(days: &Days) -> String {
        let runs = |runs: &[SeenRun]| {
            runs.iter()
                .map(|r| format!("{}={}", r.run, r.word))
                .collect::<Vec<_>>()
                .join(",")
        };
        days.iter()
            .map(|(id, r)| format!("{id}:{}", runs(r)))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn the_words_of_the_server_become_phases_and_a_day_of_a_cancelled_backfill_is_cancelled() {
        let never = json!({"state": "failed", "run_type": "backfill"});
        let begun = json!({"state": "failed", "run_type": "backfill", "start_date": "2026-01-01T00:00:00Z"});
        for (fields, expected, word) in [
            (json!({"state": "queued"}), RunPhase::Queued, "queued"),
            (json!({"state": "running"}), RunPhase::Running, "running"),
            (json!({"state": "failed"}), RunPhase::Failed, "failed"),
            (never, RunPhase::Cancelled, "failed"),
            (begun, RunPhase::Failed, "failed"),
            (
                json!({"state": "re\u{1b}starting"}),
                RunPhase::Unknown,
                "re^[starting",
            ),
            (json!({"state": null}), RunPhase::Unknown, "null"),
        ] {
            let seen = seen(&run(fields.clone()));
            assert_eq!((seen.phase, seen.word.as_str()), (expected, word), "{fields}");
        }
    }

    /// Airflow's fact 1.
    #[test]
    fn a_success_that_cannot_have_done_anything_says_so() {
        let start = Some(at("2021-01-01T00:00:00Z"));
        let span = |end: &str| json!({"start_date": "2026-01-01T00:00:00Z", "end_date": end});
        let (quick, slow) = (span("2026-01-01T00:00:00.370Z"), span("2026-01-01T00:00:09Z"));
        let word = |date: &str, kind: &str, times: &Value| {
            let mut held = held("2019-01-01", "2022-12-31");
            held.take(
                &[named("a", date, json!({"state": "success", "run_type": kind})), {
                    let mut fields = times.clone();
                    fields["state"] = json!("success");
                    fields["run_type"] = json!(kind);
                    named("a", date, fields)
                }],
                NOW,
            );
            held.set_start(start);
            let doubtful = held.tally(NOW, None).doubtful;
            let word = held.changes().into_values().next().unwrap()[0].word.clone();
            assert_eq!(doubtful == 0, word == "success");
            word
        };
        assert_eq!(word("2021-05-01T00:00:00Z", "manual", &slow), "success");
        assert_eq!(
            word("2021-05-01T00:00:00Z", "scheduled", &quick),
            "success within a second: did a task run?"
        );
        assert_eq!(
            word("2020-05-01T00:00:00Z", "manual", &slow),
            "success, but before the DAG's start date: no task ran"
        );
        assert_eq!(
            word("2020-05-01T00:00:00Z", "backfill", &slow),
            "success",
            "a backfill does run those"
        );
        assert_eq!(
            word("2021-05-01T00:00:00Z", "manual", &json!({})),
            "success, but never begun"
        );
    }

    #[test]
    fn only_what_changed_is_told_and_a_day_always_with_all_its_runs_in_the_order_of_their_making() {
        let mut held = held("2024-01-01", "2024-01-31");
        let by_hand = named(
            "manual",
            "2024-01-05T13:12:00Z",
            json!({"run_after": "2026-01-01T00:00:00Z"}),
        );
        let planned = named(
            "scheduled",
            "2024-01-05T00:00:00Z",
            json!({"run_after": "2024-01-06T00:00:00Z"}),
        );
        held.take(
            &[
                by_hand,
                planned.clone(),
                named("b", "2024-01-06T00:00:00Z", json!({})),
            ],
            NOW,
        );
        assert_eq!(
            shown(&held.changes()),
            "2024-01-05:scheduled=queued,manual=queued 2024-01-06:b=queued"
        );
        held.take(&[planned], NOW);
        assert_eq!(shown(&held.changes()), "", "nothing is new in it");
        held.take(
            &[named("b", "2024-01-06T00:00:00Z", json!({"state": "running"}))],
            NOW,
        );
        assert_eq!(shown(&held.changes()), "2024-01-06:b=running");
        let day = Span {
            from: at("2024-01-05T00:00:00Z"),
            to: at("2024-01-05T23:59:59Z"),
        };
        held.take_all(day, &[], NOW);
        assert_eq!(shown(&held.changes()), "2024-01-05:");
        assert_eq!(shown(&held.all()), "2024-01-06:b=running");
        assert_eq!((held.len(), held.count(day)), (1, 0));
    }

    #[test]
    fn runs_outside_the_window_and_without_a_date_are_not_held() {
        let mut held = held("2024-01-01", "2024-01-31");
        held.take(
            &[
                named("before", "2023-12-31T23:59:59Z", json!({})),
                named("after", "2024-02-01T00:00:00Z", json!({})),
                run(json!({"dag_run_id": "none", "logical_date": null})),
            ],
            NOW,
        );
        assert_eq!((held.len(), shown(&held.changes())), (0, String::new()));
    }

    #[test]
    fn how_long_a_run_waits_is_told_by_the_servers_clock_or_else_by_ours() {
        let mut held = held("2024-01-01", "2024-01-31");
        held.take(
            &[named(
                "a",
                "2024-01-05T00:00:00Z",
                json!({"queued_at": "2026-01-01T00:00:00Z"}),
            )],
            NOW,
        );
        let later = BootInstant(NOW.0 + 60_000);
        let waited = |held: &Held, server| held.tally(later, server).waited.as_secs();
        assert_eq!(waited(&held, Some(at("2026-01-01T00:15:00Z"))), 900);
        assert_eq!(waited(&held, None), 60);
        held.take(
            &[named(
                "a",
                "2024-01-05T00:00:00Z",
                json!({"queued_at": "2026-01-01T00:00:00Z"}),
            )],
            later,
        );
        assert_eq!(waited(&held, None), 60, "seen once more");
        held.take(
            &[named("a", "2024-01-05T00:00:00Z", json!({"state": "running"}))],
            later,
        );
        assert_eq!((waited(&held, None), held.tally(later, None).running), (0, 1));
    }

    #[test]
    fn the_parts_of_a_window_cover_it_without_gaps() {
        let mut held = held("2020-01-01", "2022-12-31");
        assert_eq!(held.parts(100), vec![held.span()]);
        let begin = at("2020-01-01T00:00:00Z");
        let runs: Vec<Run> = (0..1096)
            .map(|n| {
                named(
                    &format!("r{n}"),
                    &(begin + CivilDays::new(n)).to_rfc3339(),
                    json!({}),
                )
            })
            .collect();
        held.take(&runs, NOW);
        let parts = held.parts(100);
        assert_eq!(parts.len(), 11);
        assert!(parts.iter().all(|p| held.count(*p) <= 100));
        assert_eq!((parts[0].from, parts[10].to), (held.span().from, held.span().to));
        assert!(
            parts
                .windows(2)
                .all(|p| p[0].to + TimeDelta::microseconds(1) == p[1].from)
        );
    }

    /// What a server holds, and what it does with it.
    #[derive(Debug, Clone)]
    enum Deed {
        Make(u8, u8),
        Change(u8),
        Delete(u8),
        Poll,
        ReadPart(u8),
    }

    fn deeds() -> impl Strategy<Value = Vec<Deed>> {
        let deed = prop_oneof![
            3 => (any::<u8>(), 0_u8..60).prop_map(|(id, day)| Deed::Make(id, day)),
            3 => any::<u8>().prop_map(Deed::Change),
            2 => any::<u8>().prop_map(Deed::Delete),
            2 => Just(Deed::Poll),
            2 => (0_u8..12).prop_map(Deed::ReadPart),
        ];
        proptest::collection::vec(deed, 0..120)
    }

    proptest! {
        /// Parts in any order, polls between them, runs that come, change and go at any time: when every part was read
        /// once more, or when nothing was deleted since and a poll came, what is held is what the server has.
        #[test]
        fn in_whatever_order_it_is_read_the_end_is_the_servers_truth(deeds in deeds()) {
            let mut held = held("2024-01-01", "2024-02-29");
            let begin = at("2024-01-01T00:00:00Z");
            let date = |day: u8| begin + CivilDays::new(u64::from(day)) + TimeDelta::minutes(7);
            // Number and version of each run; a change is a later version.
            let mut server: BTreeMap<u8, (u8, u32)> = BTreeMap::new();
            let mut touched: Vec<u8> = Vec::new();
            let mut version = 0;
            let row = |id: u8, (day, version): (u8, u32)| {
                let state = ["queued", "running", "success", "failed"][version as usize % 4];
                named(&format!("run{id}"), &date(day).to_rfc3339(), json!({"state": state, "queued_at": begin, "start_date": begin, "end_date": begin + TimeDelta::seconds(9)}))
            };
            let part = |n: u8| Span { from: begin + CivilDays::new(u64::from(n) * 5),
                to: begin + CivilDays::new(u64::from(n) * 5 + 5) - TimeDelta::microseconds(1) };
            let mut gone: Vec<u8> = Vec::new();
            for deed in deeds {
                version += 1;
                match deed {
                    Deed::Make(id, day) => { if let std::collections::btree_map::Entry::Vacant(free) = server.entry(id) { free.insert((day, version)); touched.push(id); } }
                    Deed::Change(id) => if let Some(run) = server.get_mut(&id) { run.1 = version; touched.push(id); },
                    Deed::Delete(id) => if server.remove(&id).is_some() { gone.push(id); },
                    Deed::Poll => {
                        let rows: Vec<Run> = touched.drain(..).filter_map(|id| Some(row(id, *server.get(&id)?))).collect();
                        held.take(&rows, NOW);
                    }
                    Deed::ReadPart(n) => {
                        let rows: Vec<Run> = server.iter().filter(|(_, r)| part(n).holds(date(r.0)))
                            .map(|(id, r)| row(*id, *r)).collect();
                        held.take_all(part(n), &rows, NOW);
                    }
                }
            }
            let rows: Vec<Run> = touched.drain(..).filter_map(|id| Some(row(id, *server.get(&id)?))).collect();
            held.take(&rows, NOW);
            let mut truth: BTreeMap<ChunkId, Vec<SeenRun>> = BTreeMap::new();
            for (id, run) in &server {
                let chunk = ChunkId::day(date(run.0).date_naive());
                truth.entry(chunk).or_default().push(seen(&row(*id, *run)));
            }
            let sorted = |mut days: Days| { days.values_mut().for_each(|r| r.sort_by(|a, b| a.run.0.cmp(&b.run.0))); days };
            if gone.is_empty() {
                // Runs that nobody read since they were made are brought by the poll.
                prop_assert_eq!(held.len(), server.len());
            } else if held.len() == server.len() {
                // The number says that nothing is held that is gone.
            } else {
                prop_assert!(held.len() > server.len());
            }
            for n in (0..12).rev() {
                let rows: Vec<Run> = server.iter().filter(|(_, r)| part(n).holds(date(r.0))).map(|(id, r)| row(*id, *r)).collect();
                held.take_all(part(n), &rows, NOW);
            }
            let all: Days = truth.clone();
            prop_assert_eq!(sorted(held.all()), sorted(all));
            prop_assert_eq!(held.len(), server.len());
            prop_assert_eq!(held.changes(), Days::new());
        }
    }
}
