//! How long a chunk will probably run, from what ran before it: for the look ahead to the next blackout.

use crate::domain::{
    Time,
    spec::Lane,
    state::{Backfill, Chunk, ChunkState, Phase},
};
use std::{collections::BTreeMap, time::Duration};

/// So many of a lane that were done last are looked at.
const MEMORY: usize = 50;

/// Run times of the attempts that made chunks done, in the order of their ends.
pub fn finished(backfill: &Backfill) -> Vec<(Lane, Duration)> {
    let done = backfill.chunks.iter().filter(|c| c.state == ChunkState::Done);
    let mut ended: Vec<(Time, Lane, Duration)> = done
        .filter_map(|chunk| {
            let attempt = chunk.last().filter(|a| a.phase == Phase::Done)?;
            let (started, ended) = (attempt.started?, attempt.ended?);
            let took = (ended - started).to_std().ok()?;
            Some((ended, backfill.spec.lane(chunk.id), took))
        })
        .collect();
    ended.sort_by_key(|(at, ..)| *at);
    ended.into_iter().map(|(_, lane, took)| (lane, took)).collect()
}

/// Careful durations by lane: nine of ten chunks were shorter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expected(BTreeMap<Lane, Duration>);

impl Expected {
    /// What a backfill's finished chunks say.
    pub fn of(backfill: &Backfill) -> Self {
        let mut lanes: BTreeMap<Lane, Vec<Duration>> = BTreeMap::new();
        for (lane, took) in finished(backfill).into_iter().rev() {
            let all = lanes.entry(lane).or_default();
            if all.len() < MEMORY {
                all.push(took);
            }
        }
        let ninth = |mut all: Vec<Duration>| {
            all.sort_unstable();
            all.get((all.len() * 9).div_ceil(10).saturating_sub(1)).copied()
        };
        let each = lanes.into_iter();
        Self(each.filter_map(|(lane, all)| Some((lane, ninth(all)?))).collect())
    }

    /// How long a chunk's next attempt will probably run. A lane of which nothing has finished borrows from the heaviest
    /// lighter one, else the lightest heavier one, in proportion to the weights. Never longer than its deadline, which
    /// stands for it where nothing has finished at all. `None`: nothing is known.
    pub fn takes(&self, backfill: &Backfill, chunk: &Chunk) -> Option<Duration> {
        let lane = backfill.spec.lane(chunk.id);
        let profile = super::decide::next_profile(backfill, chunk) as usize;
        let profile = backfill.spec.profiles.get(profile);
        let deadline = profile.and_then(|p| p.deadline_ms).map(Duration::from_millis);
        let known = self.lane(lane);
        known.map(|d| deadline.map_or(d, |most| d.min(most))).or(deadline)
    }

    fn lane(&self, lane: Lane) -> Option<Duration> {
        let lighter = self.0.range(..=lane).next_back();
        let (of, known) = lighter.or_else(|| self.0.range(lane..).next())?;
        let share = f64::from(lane.weight()) / f64::from(of.weight());
        Duration::try_from_secs_f64(known.as_secs_f64() * share).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(lanes: &[(Lane, u64)]) -> Expected {
        let each = lanes.iter().map(|(lane, s)| (*lane, Duration::from_secs(*s)));
        Expected(each.collect())
    }

    #[test]
    fn a_lane_of_which_nothing_finished_borrows_by_weight() {
        let s = |n| Some(Duration::from_secs(n));
        let light = known(&[(Lane::Normal, 600)]);
        assert_eq!(light.lane(Lane::Isolated), s(2400));
        let both = known(&[(Lane::Normal, 600), (Lane::Heavy, 3000)]);
        assert_eq!(both.lane(Lane::Isolated), s(6000), "the nearest lighter one");
        assert_eq!(known(&[(Lane::Isolated, 4000)]).lane(Lane::Normal), s(1000));
        assert_eq!(known(&[]).lane(Lane::Normal), None);
    }
}
