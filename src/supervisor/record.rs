//! What may be lost: samples, limits over time, health. Written on a thread of its own, so that a slow disk never
//! holds up the loop; what does not fit into its queue is dropped and counted.

use super::{core::Core, limits::Judged};
use crate::{
    domain::{
        Time,
        ids::{BackfillId, Name},
        state::State,
        text,
    },
    journal::{LimitPoint, MOST_PARTS, Observation, PartPoint, Recorder, SamplePoint, Sighting},
    plan::{decide, throttle::Report},
    signals::Part,
};
use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
};

/// One thing to write.
#[derive(Debug, Clone)]
pub enum Note {
    /// A poll of a signal.
    Sample(Name, SamplePoint),
    /// What a poll of a signal saw of its parts.
    Parts(Name, Time, Vec<PartPoint>),
    /// What a signal's source knows of the time since an instant, before it was polled.
    Past(Name, Time, Vec<SamplePoint>),
    /// Something seen of the outside.
    Seen(&'static str, Observation),
    /// A backfill's limit and running weight.
    Limit(BackfillId, LimitPoint),
    /// What a look at an attached backfill changed.
    Sighting(Box<Sighting>),
    /// A throttle's state.
    Checkpoint(BackfillId, Time, String),
}

impl Note {
    /// A judged reading: what is stale or no number is recorded as no sample.
    pub fn judged(judged: Judged, at: Time) -> Self {
        let (value, age) = match judged.sample {
            Ok((value, age)) => (Ok(value), Some(age)),
            Err(why) => (Err(why), None),
        };
        Self::Sample(judged.signal, SamplePoint { at, value, age })
    }

    /// What is worth a word about a signal whose samples are valid, and how many parts it has where that is more than
    /// are recorded.
    pub fn signal(signal: &Name, warning: Option<&str>, parts: Option<usize>, at: Time) -> Self {
        let json = serde_json::json!({ "warning": warning, "parts": parts }).to_string();
        Self::Seen(
            "signal",
            Observation {
                key: signal.to_string(),
                as_of: at,
                json,
            },
        )
    }

    /// What a throttle does and goes by, for screens.
    pub fn throttle(backfill: &BackfillId, report: &Report, at: Time) -> Self {
        let json = serde_json::to_string(report).unwrap_or_default();
        Self::Seen(
            "throttle",
            Observation {
                key: backfill.to_string(),
                as_of: at,
                json,
            },
        )
    }

    /// An executor's health.
    pub fn health(name: &Name, health: &Result<(), String>, at: Time) -> Self {
        let problem = health.as_ref().err();
        let json = serde_json::json!({ "problem": problem }).to_string();
        Self::Seen(
            "executor",
            Observation {
                key: name.to_string(),
                as_of: at,
                json,
            },
        )
    }
}

/// Notes that may wait for the disk.
const QUEUE: usize = 10_000;

/// Parts in them, of all signals together: a disk that stands still must not fill the memory.
const PARTS: usize = 50_000;

/// A way to queue notes for tasks; what does not fit is lost.
#[derive(Debug, Clone)]
pub struct Notes(Option<SyncSender<Note>>);

impl Notes {
    #[cfg(test)]
    pub(super) const fn to(sender: SyncSender<Note>) -> Self {
        Self(Some(sender))
    }

    /// Queues a note; never waits.
    pub fn send(&self, note: Note) {
        let lost = self.0.as_ref().is_none_or(|s| s.try_send(note).is_err());
        if lost {
            tracing::debug!("a note was lost");
        }
    }
}

/// What was last told of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    warning: Option<String>,
    parts: Option<usize>,
}

/// The sending side.
pub struct Record {
    sender: Option<SyncSender<Note>>,
    last: HashMap<BackfillId, (LimitPoint, Time)>,
    signals: HashMap<Name, Told>,
    since_snapshot: u64,
    dropped: u64,
    /// Parts that wait for the disk.
    parts: Arc<AtomicUsize>,
}

impl Record {
    /// Starts the writing thread.
    pub fn start(recorder: Recorder) -> Self {
        let (sender, receiver) = sync_channel(QUEUE);
        let parts = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&parts);
        let spawned = std::thread::Builder::new()
            .name("record".to_owned())
            .spawn(move || write(recorder, &receiver, &waiting));
        if let Err(error) = &spawned {
            tracing::error!(%error, "samples are not recorded");
        }
        Self {
            sender: spawned.is_ok().then_some(sender),
            last: HashMap::new(),
            signals: HashMap::new(),
            since_snapshot: 0,
            dropped: 0,
            parts,
        }
    }

    /// A way to the same thread for tasks.
    pub fn notes(&self) -> Notes {
        Notes(self.sender.clone())
    }

    /// Queues a note; never waits.
    pub fn send(&mut self, note: Note) {
        self.try_send(note);
    }

    /// Returns whether it is queued.
    fn try_send(&mut self, note: Note) -> bool {
        let Some(sender) = &self.sender else {
            return false;
        };
        match sender.try_send(note) {
            Ok(()) => return true,
            Err(TrySendError::Full(_)) => self.dropped += 1,
            Err(TrySendError::Disconnected(_)) => self.sender = None,
        }
        false
    }

    /// Queues what a poll of a signal saw of its parts, of too many the worst; never waits.
    pub fn parts(&mut self, signal: &Name, at: Time, parts: Vec<Part>) {
        if parts.is_empty() {
            return;
        }
        let point = |part: Part| PartPoint {
            name: part.name,
            value: part.value,
            note: part.note,
        };
        let points = PartPoint::worst(parts.into_iter().map(point).collect());
        let n = points.len();
        if self.parts.load(Ordering::Relaxed) + n > PARTS {
            self.dropped += 1;
            return;
        }
        // Counted before it can be written.
        self.parts.fetch_add(n, Ordering::Relaxed);
        if !self.try_send(Note::Parts(signal.clone(), at, points)) {
            self.parts.fetch_sub(n, Ordering::Relaxed);
        }
    }

    /// Queues a signal's warning and how many parts it has, if that is something else than before: also once at the
    /// beginning, because what a former supervisor said counts no more. A reading without parts says nothing of them.
    pub fn signal(&mut self, judged: &Judged, at: Time) {
        let known = self.signals.get(&judged.signal);
        let parts = match judged.parts.len() {
            0 => known.and_then(|told| told.parts),
            n => Some(n).filter(|n| *n > MOST_PARTS),
        };
        let told = Told {
            warning: judged.warning.clone(),
            parts,
        };
        if known != Some(&told) {
            let note = Note::signal(&judged.signal, told.warning.as_deref(), told.parts, at);
            self.signals.insert(judged.signal.clone(), told);
            self.send(note);
        }
    }

    /// Counts journaled events towards the next snapshot.
    pub const fn events(&mut self, n: usize) {
        self.since_snapshot += n as u64;
    }

    /// Events since the last snapshot.
    pub const fn events_since_snapshot(&self) -> u64 {
        self.since_snapshot
    }

    /// A snapshot was written.
    pub const fn snapshot_written(&mut self) {
        self.since_snapshot = 0;
    }

    /// Records limits and running weights that changed, and once in five seconds even if not, and a checkpoint of
    /// each throttle once a minute. Where the configuration of this supervisor has no such executor, that is told as
    /// the executor's problem: whoever started the backfill may have another file.
    pub fn limits(&mut self, state: &State, core: &Core, config: &Path, at: Time) {
        let live: Vec<_> = state
            .backfills
            .values()
            .filter(|b| !b.state().is_final())
            .collect();
        for backfill in live {
            let limit = decide::allowed(backfill, at).limit;
            let point = LimitPoint {
                at,
                limit,
                running: backfill.running_weight(),
            };
            let old = self.last.get(&backfill.id).copied();
            let same = old.is_some_and(|(p, _)| p.limit == point.limit && p.running == point.running);
            let recent = old.is_some_and(|(p, _)| at >= p.at && at - p.at < chrono::Duration::seconds(5));
            if same && recent {
                continue;
            }
            let saved = old.map_or(at, |(_, saved)| saved);
            let due = old.is_none() || at < saved || at - saved >= chrono::Duration::seconds(60);
            if let Some(json) = core.limits.checkpoint(&backfill.id).filter(|_| due) {
                self.send(Note::Checkpoint(backfill.id.clone(), at, json));
            }
            self.last
                .insert(backfill.id.clone(), (point, if due { at } else { saved }));
            self.send(Note::Limit(backfill.id.clone(), point));
            if let Some(report) = core.limits.report(&backfill.id, &core.tuning, at) {
                self.send(Note::throttle(&backfill.id, &report, at));
            }
            let executor = &backfill.spec.executor;
            if !core.slots.contains_key(executor) {
                self.send(Note::health(executor, &Err(unknown(executor, config)), at));
            }
        }
    }
}

fn unknown(executor: &Name, config: &Path) -> String {
    let file = text::clean(&config.display().to_string());
    format!(
        "the supervisor has no executor {executor}: it reads {file}; add it there, or `backfill stop` and run again"
    )
}

fn write(mut recorder: Recorder, notes: &Receiver<Note>, waiting: &AtomicUsize) {
    while let Ok(note) = notes.recv() {
        let written = match &note {
            Note::Sample(signal, point) => recorder.put_sample(signal, point),
            Note::Parts(signal, at, parts) => {
                waiting.fetch_sub(parts.len(), Ordering::Relaxed);
                recorder.put_parts(signal, *at, parts)
            }
            Note::Past(signal, since, points) => recorder.put_past(signal, *since, points),
            Note::Seen(kind, seen) => recorder.put_observation(kind, seen),
            Note::Sighting(sighting) => recorder.put_sighting(sighting),
            Note::Limit(id, point) => recorder.put_limit(id, *point),
            Note::Checkpoint(id, at, json) => recorder.put_checkpoint(id, *at, json),
        };
        if let Err(error) = written {
            tracing::debug!(%error, "a sample was lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(n: usize) -> Vec<Part> {
        let part = |i| Part {
            name: format!("etl/{i}"),
            value: Ok(i as f64),
            note: String::new(),
        };
        (0..n).map(part).collect()
    }

    /// A record whose notes nobody writes.
    fn still() -> (Record, Receiver<Note>) {
        let (sender, receiver) = sync_channel(QUEUE);
        let record = Record {
            sender: Some(sender),
            last: HashMap::new(),
            signals: HashMap::new(),
            since_snapshot: 0,
            dropped: 0,
            parts: Arc::new(AtomicUsize::new(0)),
        };
        (record, receiver)
    }

    #[test]
    fn how_many_parts_there_are_is_told_where_that_is_more_than_are_kept_and_once() {
        let (mut record, notes) = still();
        let judged = |n: usize| Judged {
            signal: "lag".parse().unwrap(),
            sample: Ok((1.0, std::time::Duration::ZERO)),
            parts: parts(n),
            warning: None,
        };
        // At last a reading that says nothing of its parts.
        for n in [MOST_PARTS, 2, 1_234, 1_234, 0, MOST_PARTS, 0] {
            record.signal(&judged(n), Time::default());
        }
        drop(record);
        let said: Vec<String> = notes
            .iter()
            .map(|note| match note {
                Note::Seen("signal", seen) => seen.json,
                other => panic!("{other:?}"),
            })
            .collect();
        let none = r#"{"parts":null,"warning":null}"#;
        assert_eq!(said, [none, r#"{"parts":1234,"warning":null}"#, none]);
    }

    /// A disk that stands still: parts wait up to a bound, of a reading never more than are written, and samples go on.
    #[test]
    fn parts_that_nobody_writes_do_not_fill_the_memory() {
        let (mut record, receiver) = still();
        let lag: Name = "lag".parse().unwrap();
        let at = Time::default();
        for _ in 0..300 {
            record.parts(&lag, at, parts(2 * MOST_PARTS));
        }
        record.parts(&lag, at, Vec::new());
        let point = SamplePoint {
            at,
            value: Ok(1.0),
            age: None,
        };
        record.send(Note::Sample(lag, point));
        assert_eq!(record.dropped, 200);
        drop(record);
        let queued: Vec<Note> = receiver.iter().collect();
        let waiting = queued.iter().map(|note| match note {
            Note::Parts(_, _, parts) => parts.len(),
            _ => 0,
        });
        assert_eq!((queued.len(), waiting.sum::<usize>()), (101, PARTS));
        assert!(matches!(queued.last(), Some(Note::Sample(..))));
    }
}
