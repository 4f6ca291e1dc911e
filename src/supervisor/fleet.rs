//! What runs and how long it usually takes, as the throttle's laws are told.

use crate::{
    domain::{
        Time,
        ids::AttemptId,
        state::{Backfill, Chunk, ChunkState, Phase},
    },
    plan::room::Running,
};
use std::{collections::BTreeMap, time::Duration};

/// How long a chunk is assumed to run before one was done.
const ASSUMED: Duration = Duration::from_secs(600);
/// The mean is that of so many that were done last.
const LAST: usize = 50;

/// How long chunks usually run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durations {
    /// Median of all that are done; `None` before one is.
    pub median: Option<Duration>,
    /// Mean of light ones that were done last; before one was, what is assumed.
    pub mean: Duration,
    /// Means of heavier ones that are done, by their weight.
    heavy: BTreeMap<u32, Duration>,
}

impl Durations {
    /// How long an attempt of a weight is expected to run. Before one like it was done, by its weight longer than a light one.
    fn expected(&self, weight: u32) -> Duration {
        if weight <= 1 {
            return self.mean;
        }
        let known = self.heavy.get(&weight).copied();
        known.unwrap_or_else(|| self.mean.saturating_mul(weight))
    }
}

/// The attempts that run, with the keys by which the law names them.
pub struct Fleet {
    /// As the law sees them.
    pub running: Vec<Running>,
    attempts: Vec<AttemptId>,
}

impl Fleet {
    /// The attempts of those keys.
    pub fn of(&self, keys: &[u64]) -> Vec<AttemptId> {
        let at = |key: &u64| self.attempts.get(usize::try_from(*key).ok()?).cloned();
        keys.iter().filter_map(at).collect()
    }
}

/// What runs of a backfill. What is asked to stop already, or cannot be asked, is not for the law to cancel.
pub fn running(backfill: &Backfill, durations: &Durations, now: Time) -> Fleet {
    let mut fleet = Fleet {
        running: Vec::new(),
        attempts: Vec::new(),
    };
    for (chunk, attempt) in backfill.active().filter_map(|c| Some((c, c.open()?))) {
        let began = attempt.started.unwrap_or(attempt.intended);
        fleet.running.push(Running {
            key: fleet.attempts.len() as u64,
            weight: attempt.weight,
            age: seconds(now - began),
            expected: durations.expected(attempt.weight).as_secs_f64(),
            may_be_cancelled: backfill.spec.idempotent
                && !attempt.stop_requested
                && matches!(attempt.phase, Phase::Queued | Phase::Running),
        });
        fleet.attempts.push(backfill.attempt_id(chunk.id, attempt.no));
    }
    fleet
}

/// How long chunks of a backfill ran that are done.
pub fn durations(backfill: &Backfill) -> Durations {
    let mut all: Vec<Duration> = backfill.chunks.iter().filter_map(took).collect();
    all.sort_unstable();
    let mut light: Vec<(Time, Duration)> = backfill
        .chunks
        .iter()
        .filter(|c| c.last().is_some_and(|a| a.weight <= 1))
        .filter_map(|c| Some((c.last()?.ended?, took(c)?)))
        .collect();
    light.sort_unstable_by_key(|(ended, _)| std::cmp::Reverse(*ended));
    light.truncate(LAST);
    let mut heavy: BTreeMap<u32, Vec<Duration>> = BTreeMap::new();
    for chunk in &backfill.chunks {
        if let (Some(weight), Some(took)) = (chunk.last().map(|a| a.weight).filter(|w| *w > 1), took(chunk)) {
            heavy.entry(weight).or_default().push(took);
        }
    }
    let light: Vec<Duration> = light.into_iter().map(|(_, took)| took).collect();
    let heavy = heavy
        .into_iter()
        .filter_map(|(weight, took)| Some((weight, mean(&took)?)));
    Durations {
        median: all.get(all.len() / 2).copied(),
        mean: mean(&light).unwrap_or(ASSUMED),
        heavy: heavy.collect(),
    }
}

fn mean(took: &[Duration]) -> Option<Duration> {
    let n = u32::try_from(took.len()).ok().filter(|n| *n > 0)?;
    Some(took.iter().sum::<Duration>() / n)
}

/// The real running time of a chunk that is done.
fn took(chunk: &Chunk) -> Option<Duration> {
    let attempt = chunk.last().filter(|_| chunk.state == ChunkState::Done)?;
    (attempt.ended? - attempt.started?).to_std().ok()
}

fn seconds(time: chrono::Duration) -> f64 {
    time.to_std().unwrap_or_default().as_secs_f64()
}
