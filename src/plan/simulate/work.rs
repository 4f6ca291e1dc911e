//! The chunks of a modelled backfill: how heavy, how long, and which attempts fail.

use super::draw::{Draw, Stream};
use crate::config::scenario::Work;
use std::collections::BTreeMap;

/// From this factor on a chunk has the weight of the lane for skewed days, 4, and is that much shorter.
const ISOLATED: f64 = 5.0;
/// From this factor on it is heavy: weight 2.
const HEAVY: f64 = 2.0;

/// What a chunk is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// The running weight that it takes.
    pub weight: u32,
    /// How long an attempt runs that does not fail, in seconds.
    pub seconds: f64,
}

/// What becomes of an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fate {
    /// How long it runs, in seconds.
    pub seconds: f64,
    /// It dies, and its work is lost.
    pub fails: bool,
}

/// All chunks, in the order of the plan. How large each is is worked out once: it is asked for in every step.
#[derive(Debug, Clone)]
pub struct Plan<'w> {
    work: &'w Work,
    draw: Draw,
    sizes: Vec<Size>,
}

impl<'w> Plan<'w> {
    /// The chunks of one seed.
    pub fn new(work: &'w Work, draw: Draw) -> Self {
        let size = |(chunk, factor): (u32, f64)| size(work, draw, chunk, factor);
        let sizes = (0..work.chunks).zip(factors(work)).map(size).collect();
        Self { work, draw, sizes }
    }

    /// The chunk of a number, from 0.
    pub fn size(&self, chunk: u32) -> Size {
        self.sizes[chunk as usize]
    }

    /// What becomes of an attempt, counted from 0.
    pub fn fate(&self, chunk: u32, attempt: u32) -> Fate {
        let whole = self.size(chunk).seconds;
        let index = u64::from(chunk) << 16 | u64::from(attempt);
        let fails = self.draw.even(Stream::Fails, index) < self.work.failure_rate;
        let part = if fails {
            self.draw.even(Stream::Dies, index)
        } else {
            1.0
        };
        Fate {
            seconds: whole * part,
            fails,
        }
    }

    /// Seconds of weight that a chunk takes until it is done, its failed attempts included.
    pub fn work_of(&self, chunk: u32) -> f64 {
        let weight = f64::from(self.size(chunk).weight);
        let mut seconds = 0.0;
        for attempt in 0.. {
            let fate = self.fate(chunk, attempt);
            seconds += fate.seconds;
            if !fate.fails {
                break;
            }
        }
        weight * seconds
    }
}

/// How many times an ordinary one each chunk is: the largest of the factors that it is a multiple for.
fn factors(work: &Work) -> Vec<f64> {
    let mut largest: BTreeMap<usize, f64> = BTreeMap::new();
    for heavy in &work.heavy {
        let known = largest.entry(heavy.every.max(1) as usize).or_insert(1.0);
        *known = known.max(heavy.factor);
    }
    let mut factors = vec![1.0_f64; work.chunks as usize];
    for (every, factor) in largest {
        for known in factors.iter_mut().skip(every - 1).step_by(every) {
            *known = known.max(factor);
        }
    }
    factors
}

fn size(work: &Work, draw: Draw, chunk: u32, factor: f64) -> Size {
    let spread = work.sigma * draw.normal(Stream::Length, chunk.into());
    let ordinary = work.median.as_secs_f64() * spread.exp();
    let weight: u32 = match factor {
        f if f >= ISOLATED => 4,
        f if f >= HEAVY => 2,
        _ => 1,
    };
    let weight = weight.min(work.max_limit);
    Size {
        weight,
        seconds: ordinary * factor / f64::from(weight),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::scenario;
    use super::*;
    use crate::config::scenario::Heavy;

    #[test]
    fn half_of_the_chunks_are_longer_than_the_median_and_heavy_ones_come_every_so_often() {
        let mut work = scenario().backfill;
        work.chunks = 10_000;
        work.heavy = vec![
            Heavy {
                every: 100,
                factor: 50.0,
            },
            Heavy {
                every: 40,
                factor: 3.0,
            },
        ];
        let plan = Plan::new(&work, Draw(3));
        let light = (0..10_000).map(|k| plan.size(k)).filter(|s| s.weight == 1);
        let (longer, all) = light.fold((0, 0), |(l, n), s| (l + u32::from(s.seconds > 600.0), n + 1));
        let share = f64::from(longer) / f64::from(all);
        assert!((share - 0.5).abs() < 0.02, "{share}");
        assert_eq!(
            (plan.size(99).weight, plan.size(39).weight, plan.size(199).weight),
            (4, 2, 4)
        );
        let (heavy, ordinary) = (
            plan.size(99).seconds * 4.0,
            Plan::new(&scenario().backfill, Draw(3)).size(99),
        );
        assert!((heavy / ordinary.seconds - 50.0).abs() < 1e-9);
    }

    #[test]
    fn attempts_fail_at_the_rate_that_is_said_and_lose_a_part_of_their_time() {
        let mut work = scenario().backfill;
        work.chunks = 20_000;
        work.failure_rate = 0.1;
        let plan = Plan::new(&work, Draw(3));
        let failed = (0..20_000).filter(|k| plan.fate(*k, 0).fails).count();
        assert!((1_800..2_200).contains(&failed), "{failed}");
        for chunk in 0..2_000 {
            let (fate, size) = (plan.fate(chunk, 0), plan.size(chunk));
            assert!(fate.seconds <= size.seconds);
            assert_eq!(fate.fails, fate.seconds < size.seconds);
        }
    }
}
