//! A look at the journal from outside the supervisor: what screens and commands need to say why something waits.

use crate::{
    config::{Config, ExecutorConfig, Places},
    domain::{
        Time,
        ids::{AttemptId, BackfillId, Name},
        state::Backfill,
    },
    executor::local,
    host::boot_now,
    journal::{HolderView, Journal, Liveness, Observation, free_bytes},
    plan::{
        decide::{ExecutorFacts, Surroundings},
        room::Admission,
        throttle::Report,
    },
};
use std::collections::{BTreeMap, BTreeSet};

/// What a supervisor told of a throttle longer ago says nothing about what may start now.
const TOLD_LATELY: chrono::Duration = chrono::Duration::seconds(15);

/// What is known beside the state, from the lease, the configuration and what the supervisor last saw.
pub fn surroundings(
    journal: &Journal,
    config: &Config,
    holder: Option<&HolderView>,
    now: Time,
) -> Surroundings {
    let problems = problems(journal);
    let facts = |name: &Name, slots: Option<u32>| ExecutorFacts {
        slots,
        problem: problems.get(name.as_str()).cloned(),
    };
    let room = room(journal, config);
    let mut executors: BTreeMap<Name, ExecutorFacts> = config
        .executors
        .iter()
        .map(|(n, e)| (n.clone(), facts(n, e.slots())))
        .collect();
    if config.faults.is_some() {
        // The part that cannot be read may have those that the supervisor knows.
        let known = journal.observations("executor").unwrap_or_default();
        for name in known.iter().filter_map(|o| o.key.parse::<Name>().ok()) {
            let seen = facts(&name, None);
            executors.entry(name).or_insert(seen);
        }
    }
    // One that only waits for room goes on by itself: what binds then is the disk.
    let waits_for_room = |h: &HolderView| h.liveness == Liveness::Silent && room.is_some_and(Room::is_full);
    Surroundings {
        now,
        tuning: config.tuning.clone(),
        executors,
        signals: config.faults.is_none().then(|| {
            let each = config.signals.iter();
            each.map(|(name, signal)| (name.clone(), signal.protects))
                .collect()
        }),
        paced: BTreeSet::new(),
        admissions: admissions(journal, now),
        disk_low: room.is_some_and(Room::is_low),
        supervised: holder.is_some_and(|h| is_alive(h) || waits_for_room(h)),
        elsewhere: BTreeMap::new(),
    }
}

/// Less room than this is none: hardly an event fits any more. Holds also where the configuration's floor is 0.
const FULL: u64 = 256 * 1024;

/// The room beside the journal, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// What an ordinary user may still write.
    pub free: u64,
    /// What the configuration wants free before anything starts.
    pub floor: u64,
}

impl Room {
    /// Whether nothing starts because of it.
    pub const fn is_low(self) -> bool {
        self.free < self.floor || self.is_full()
    }

    /// Whether hardly anything can be recorded either.
    pub const fn is_full(self) -> bool {
        self.free < FULL
    }
}

/// The room beside the journal now; `None` if its file system does not say.
pub fn room(journal: &Journal, config: &Config) -> Option<Room> {
    let free = free_bytes(journal.path()).ok()?;
    let floor = config.tuning.disk_low;
    Some(Room { free, floor })
}

/// The holder of the lease, if it can still do something.
pub fn holder(journal: &Journal) -> Option<HolderView> {
    journal.holder(boot_now()).ok().flatten()
}

/// Whether a holder lives, or may live on another host.
pub fn is_alive(holder: &HolderView) -> bool {
    matches!(holder.liveness, Liveness::Alive | Liveness::Elsewhere)
}

/// Attempts that the journal still calls open although their files say that they are over: nobody watched their end.
/// Of the executors of this machine only; whoever runs elsewhere cannot be looked at without asking it.
pub fn ended_unwatched(config: &Config, backfill: &Backfill) -> BTreeSet<AttemptId> {
    let state = Places::of(&config.journal.path).state;
    let local = |name: &Name| matches!(config.executors.get(name), Some(ExecutorConfig::Local { .. }));
    backfill
        .active()
        .filter_map(|chunk| Some((chunk.id, chunk.open()?)))
        .filter(|(_, open)| local(&open.executor))
        .map(|(chunk, open)| backfill.attempt_id(chunk, open.no))
        .filter(|attempt| local::is_over(&state, attempt))
        .collect()
}

/// What the supervisor last saw wrong with executors, by name.
fn problems(journal: &Journal) -> BTreeMap<String, String> {
    let seen = journal.observations("executor").unwrap_or_default();
    seen.into_iter()
        .filter_map(|o| Some((o.key.clone(), problem(&o)?)))
        .collect()
}

/// What the supervisor saw wrong with an executor at or after an instant.
pub fn problem_since(journal: &Journal, executor: &Name, since: Time) -> Option<String> {
    let seen = journal.observations("executor").unwrap_or_default();
    let last = seen
        .iter()
        .find(|o| o.key == executor.as_str() && o.as_of >= since)?;
    problem(last)
}

fn problem(seen: &Observation) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(&seen.json).ok()?;
    value.get("problem")?.as_str().map(str::to_owned)
}

/// What the supervisor last told of a backfill's throttle, and when; `None` if it never did, or in another version's words.
pub fn throttle(journal: &Journal, id: &BackfillId) -> Option<(Time, Report)> {
    let seen = journal.observations("throttle").ok()?;
    let last = seen.into_iter().find(|o| o.key == id.as_str())?;
    Some((last.as_of, serde_json::from_str(&last.json).ok()?))
}

/// What the learned law admitted when that was last told, unless it is so long ago that it says nothing about now.
fn admissions(journal: &Journal, now: Time) -> BTreeMap<BackfillId, Admission> {
    let told = journal.observations("throttle").unwrap_or_default();
    let lately = told.into_iter().filter(|o| (now - o.as_of).abs() < TOLD_LATELY);
    lately
        .filter_map(|o| {
            let report: Report = serde_json::from_str(&o.json).ok()?;
            Some((o.key.parse().ok()?, report.admission?))
        })
        .collect()
}
