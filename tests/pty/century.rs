//! Proof 8's world on disk: a century of days of which two thirds are done, in a real journal, with the snapshot that
//! a supervisor would have left and as many events after it as there ever are.

#![allow(dead_code, reason = "each user takes its part")]

use backfill::{
    config::{Config, spec_hash},
    domain::{
        Time,
        calendar::{Granularity, cut},
        event::{Actor, NewEvent, Outcome, Payload},
        ids::{AttemptId, BackfillId, ChunkId, ExternalId, Name},
        tuning::Tuning,
    },
    host::boot_now,
    journal::{Journal, Options, SNAPSHOT_EVERY, SamplePoint},
};
use chrono::{NaiveDate, TimeDelta, Utc};
use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// How many chunks.
pub const CHUNKS: usize = 36_500;
/// How many of them are done.
pub const DONE: usize = CHUNKS * 2 / 3;

/// The folder with configuration and journal; removed when it is dropped.
pub struct Century {
    dir: tempfile::TempDir,
    id: BackfillId,
    chunks: Vec<ChunkId>,
    begun: Time,
}

impl Century {
    pub fn make() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let first = NaiveDate::from_ymd_opt(1925, 1, 1).unwrap();
        let last = first + TimeDelta::days(CHUNKS as i64 - 1);
        let path = dir.path().join("config.toml");
        std::fs::write(&path, config(first, last)).unwrap();
        let config = Config::load(&path).unwrap();
        let chunks = cut("UTC".parse().unwrap(), first, last, Granularity::Day);
        let century = Self {
            id: "orders-k3f7qa".parse().unwrap(),
            chunks: chunks.into_iter().map(|(id, _)| id).collect(),
            begun: Utc::now() - TimeDelta::days(2),
            dir,
        };
        century.fill(&config);
        century
    }

    pub fn config(&self) -> PathBuf {
        self.dir.path().join("config.toml")
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.dir.path().join("state/journal.db"), Options::default()).unwrap()
    }

    fn fill(&self, config: &Config) {
        let mut journal = self.journal();
        let lease = journal.acquire(boot_now(), &Tuning::default()).unwrap();
        let spec = config.backfills.values().next().unwrap().spec.clone();
        let hash = spec_hash(&spec);
        let spec = Box::new(spec);
        let mut events = vec![self.event(self.begun, Payload::Started { spec, hash })];
        events.extend((0..DONE).flat_map(|n| self.life(n)));
        let cut = events.len() - SNAPSHOT_EVERY as usize;
        journal.append(None, None, &events[..cut]).unwrap();
        let state = journal.fold_all().unwrap();
        journal.write_snapshot(lease.epoch, &state).unwrap();
        journal.append(None, None, &events[cut..]).unwrap();
        journal.release(lease).unwrap();
        let mut recorder = journal.recorder().unwrap();
        let lag: Name = "lag".parse().unwrap();
        for n in 0..240 {
            let point = SamplePoint {
                at: Utc::now() - TimeDelta::seconds(5 * (240 - n)),
                value: Ok(30_000.0 + 20_000.0 * (n as f64 / 20.0).sin()),
                age: None,
            };
            recorder.put_sample(&lag, &point).unwrap();
        }
    }

    /// Goes on with the backfill as its supervisor would, one chunk after the other, until it is told that it is over,
    /// or by itself after some hundred.
    pub fn work(&self, every: Duration, over: &AtomicBool) {
        let mut journal = self.journal();
        for chunk in (DONE..CHUNKS).take(400) {
            if over.load(Ordering::SeqCst) {
                return;
            }
            for event in self.life(chunk) {
                journal.append(None, None, &[event]).unwrap();
            }
            thread::sleep(every);
        }
    }

    /// All that happens to a chunk that goes well.
    fn life(&self, n: usize) -> [NewEvent; 3] {
        let attempt = AttemptId {
            backfill: self.id.clone(),
            chunk: self.chunks[n],
            no: 1,
        };
        let start = self.begun + TimeDelta::seconds(6 * n as i64);
        let end = start + TimeDelta::seconds(40 + (n % 50) as i64);
        let here = "here".parse().unwrap();
        [
            Payload::SubmissionIntended {
                attempt: attempt.clone(),
                executor: here,
                profile: 0,
                weight: 1,
            },
            Payload::SubmissionAccepted {
                attempt: attempt.clone(),
                run: ExternalId(format!("pid-{n}-start-1")),
                adopted: false,
                running: true,
            },
            Payload::RunEnded {
                attempt,
                outcome: Outcome::Done,
                started: Some(start),
                ended: Some(end),
                peak: Some(64 << 20),
                note: None,
            },
        ]
        .map(|payload| self.event(start, payload))
    }

    fn event(&self, at: Time, payload: Payload) -> NewEvent {
        NewEvent {
            at,
            actor: Actor::supervisor(),
            reason: None,
            backfill: Some(self.id.clone()),
            payload,
        }
    }
}

fn config(first: NaiveDate, last: NaiveDate) -> String {
    format!(
        r#"
[executors.here]
kind = "local"
slots = 8

[signals.lag]
kind = "prometheus"
url = "http://127.0.0.1:9"
query = "lag"
unit = "messages"
soft = 50000
hard = 200000
critical = 1000000
interval = "5s"

[backfills.orders]
target = "datamart.orders"
start = {first}
end = {last}
granularity = "day"
timezone = "UTC"
executor = "here"
command = ["true"]
max_limit = 8
order = "oldest-first"
signals = ["lag"]
law = "classic"

[journal]
path = "state/journal.db"
"#
    )
}

/// Whether a screen shows the whole of it: calendar, figures, and the day under the cursor.
pub fn is_complete(text: &str) -> bool {
    text.contains("1 CALENDAR") && text.contains("24.3k  66%") && cursor_day(text).is_some()
}

/// The day under the cursor: the first date in the second last line.
pub fn cursor_day(text: &str) -> Option<NaiveDate> {
    let line = text.trim_end().rsplit('\n').nth(1)?;
    line.split_whitespace().find_map(|word| word.parse().ok())
}
