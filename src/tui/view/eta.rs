//! A rough end of a backfill from the durations of its finished attempts: p50 and p90, and hours of work while
//! nothing starts (law C3 without volumes). Held time is in no duration, so it is in no estimate (case B26).

use crate::domain::{
    Time,
    ids::ChunkId,
    spec::Lane,
    state::{Backfill, ChunkState, Phase},
};
use chrono::TimeDelta;

/// Fewer finished chunks than this say nothing.
const LEAST: usize = 8;
/// At most this many finished chunks are looked at, evenly spread.
const SAMPLE: usize = 400;
/// The 90th percentile of a normal distribution, in standard deviations.
const P90: f64 = 1.2816;

/// An estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Eta {
    /// Work left, as if one weight ran at a time.
    pub work: TimeDelta,
    /// Standard deviation of that, in seconds.
    spread: f64,
    /// The usual length of one chunk, in seconds.
    usual: f64,
}

impl Eta {
    /// Estimates what is left. `None` before eight chunks are done, and when nothing is left.
    pub fn of(backfill: &Backfill) -> Option<Self> {
        let took = durations(backfill);
        if took.len() < LEAST {
            return None;
        }
        let k = took.len() as f64;
        let mean = took.iter().sum::<f64>() / k;
        let variance = took.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / (k - 1.0);
        let n = weight_left(backfill);
        (n > 0.0).then(|| Self {
            work: seconds(n * mean),
            spread: (variance * (n + n * n / k)).sqrt(),
            usual: mean,
        })
    }

    /// Work left at a limit.
    pub fn at(&self, limit: u32) -> TimeDelta {
        seconds((self.work.num_seconds() as f64 / f64::from(limit.max(1))).max(self.usual))
    }

    /// The end at a limit that stays as it is: p50 and p90.
    pub fn end(&self, limit: u32, now: Time) -> (Time, Time) {
        let p50 = self.at(limit);
        let p90 = p50 + seconds(P90 * self.spread / f64::from(limit.max(1)));
        let add = |d| now.checked_add_signed(d).unwrap_or(Time::MAX_UTC);
        (add(p50), add(p90))
    }
}

fn seconds(s: f64) -> TimeDelta {
    TimeDelta::try_seconds(s.clamp(0.0, 1e11) as i64).unwrap_or(TimeDelta::MAX)
}

fn durations(backfill: &Backfill) -> Vec<f64> {
    let done = backfill.count(ChunkState::Done) as usize;
    let stride = done.div_ceil(SAMPLE).max(1);
    let finished = backfill.chunks.iter().filter(|c| c.state == ChunkState::Done);
    finished
        .step_by(stride)
        .filter_map(|c| c.last().filter(|a| a.phase == Phase::Done))
        .filter_map(|a| Some((a.ended? - a.started?).num_milliseconds() as f64 / 1000.0))
        .filter(|t| *t >= 0.0)
        .collect()
}

/// Weight that is still to run; what runs already counts half.
fn weight_left(backfill: &Backfill) -> f64 {
    use ChunkState as S;
    let n = |s| f64::from(backfill.count(s));
    // What is held waits for a human, not for time.
    let waiting = n(S::Pending);
    let moving = n(S::Submitting) + n(S::Queued) + n(S::Running) + n(S::Verifying) + n(S::Uncertain);
    // Only heavy and isolated days weigh more than one, and those are listed.
    let heavy: f64 = [Lane::Heavy, Lane::Isolated]
        .into_iter()
        .filter_map(|lane| backfill.spec.lanes.get(&lane).map(|days| (lane, days)))
        .flat_map(|(lane, days)| days.days.iter().map(move |day| (lane, *day)))
        .filter(|(_, day)| {
            let state = backfill.chunk(ChunkId::day(*day)).map(|c| c.state);
            matches!(state, Some(S::Pending))
        })
        .map(|(lane, _)| f64::from(lane.weight() - 1))
        .sum();
    waiting + heavy + moving / 2.0
}
