//! When it will be done: law C3 for orders whose volumes are not known.
//!
//! Durations of finished attempts are drawn again and again for what is left, and the draws are list-scheduled on the
//! limit in plan order. The spread of the ends is the answer: p50 and p90, never one date. Only run time goes in, so a
//! pause changes nothing; while work is stopped there is no date at all, only how much work is left (case B26).
//!
//! An order of many chunks is not scheduled chunk by chunk: as long as far more chunks wait than fit side by side, no slot
//! idles, so all but the last [`LISTED`] chunks take their summed work over the limit. Isolated chunks run one at a
//! time and may outlast everything, so their chain is followed to its end in any case.

use crate::domain::{Time, ids::ChunkId, spec::Lane};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    time::Duration,
};

/// Nothing is said before this many attempts have finished.
pub const LEAST_FINISHED: usize = 8;
/// How often the rest is drawn.
const REPLICATES: usize = 100;
/// After this many finished chunks an older duration counts half.
const HALF_LIFE: f64 = 50.0;
/// Older durations than this many would count less than half a percent.
const MEMORY: usize = 400;
/// So many chunks at the end of the order are scheduled one by one.
pub const LISTED: usize = 1000;

/// A chunk that runs now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunningChunk {
    /// The chunk.
    pub chunk: ChunkId,
    /// Its lane.
    pub lane: Lane,
    /// Its weight.
    pub weight: u32,
    /// How long it has run, held time left out.
    pub elapsed: Duration,
}

/// A chunk that will run. Held, skipped and quarantined ones are not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingChunk {
    /// The chunk.
    pub chunk: ChunkId,
    /// Its lane.
    pub lane: Lane,
    /// Its weight.
    pub weight: u32,
}

/// What the estimate is made from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlook<'a> {
    /// Lane and run time of finished attempts of done chunks, oldest first, held time left out.
    pub finished: &'a [(Lane, Duration)],
    /// What runs.
    pub running: &'a [RunningChunk],
    /// What waits, in plan order.
    pub waiting: &'a [WaitingChunk],
    /// The limit under which it will run; while stopped, the one with which it will go on.
    pub limit: u32,
    /// Nothing starts at the moment: paused, blind, blackout, breaker, cap 0.
    pub stopped: bool,
    /// Attempts that ended, per chunk done; below 1 counts as 1.
    pub attempts_per_chunk: f64,
    /// Share of time that starts were not held back, lately. In `(0, 1]`; anything else counts as 1.
    pub duty: f64,
}

/// The estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eta {
    /// Nothing is left.
    Done,
    /// Too little is known.
    TooEarly {
        /// Attempts that have finished.
        finished: usize,
    },
    /// The clock is stopped.
    Stopped {
        /// Median time that the rest takes once it goes on.
        work_left: Duration,
    },
    /// Counted from now.
    Range {
        /// In half of the draws it is done by then.
        p50: Duration,
        /// In nine of ten.
        p90: Duration,
        /// The one chunk that sets the end, if there is one.
        long_pole: Option<ChunkId>,
        /// Something is left that is unlike anything measured: a lane without a finished chunk, or a run that outlasts all.
        extrapolates: bool,
    },
}

impl Eta {
    /// The range as instants of the wall clock.
    pub fn instants(&self, now: Time) -> Option<(Time, Time)> {
        match self {
            Self::Range { p50, p90, .. } => {
                let at = |d: &Duration| now.checked_add_signed(chrono::Duration::from_std(*d).ok()?);
                Some((at(p50)?, at(p90)?))
            }
            _ => None,
        }
    }
}

/// Estimates the end. The same `seed` gives the same answer.
pub fn estimate(outlook: &Outlook<'_>, seed: u64) -> Eta {
    if outlook.running.is_empty() && outlook.waiting.is_empty() {
        return Eta::Done;
    }
    if outlook.finished.len() < LEAST_FINISHED {
        return Eta::TooEarly {
            finished: outlook.finished.len(),
        };
    }
    let history = History::new(outlook.finished);
    let plan = Plan::new(outlook);
    let mut dice = Dice(seed);
    let mut ends: Vec<End> = (0..REPLICATES)
        .map(|_| plan.replicate(&history.resampled(&mut dice), &mut dice))
        .collect();
    ends.sort_by(|a, b| a.at.total_cmp(&b.at));
    let duty = if outlook.duty > 0.0 && outlook.duty <= 1.0 {
        outlook.duty
    } else {
        1.0
    };
    let quantile = |share: usize| {
        let end = ends.get(REPLICATES * share / 100).map_or(0.0, |e| e.at);
        Duration::try_from_secs_f64(end / duty).unwrap_or(Duration::MAX)
    };
    if outlook.stopped {
        // Duty is about being held back; how much work there is does not depend on it.
        let median = ends.get(REPLICATES / 2).map_or(0.0, |e| e.at);
        let work_left = Duration::try_from_secs_f64(median).unwrap_or(Duration::MAX);
        return Eta::Stopped { work_left };
    }
    Eta::Range {
        p50: quantile(50),
        p90: quantile(90),
        long_pole: long_pole(&ends, history.median()),
        extrapolates: plan.extrapolates(&history),
    }
}

/// The chunk that ends last in most draws, if the rest is done clearly before it.
fn long_pole(ends: &[End], median: f64) -> Option<ChunkId> {
    let mut votes: BTreeMap<String, (usize, ChunkId)> = BTreeMap::new();
    for end in ends.iter().filter(|e| e.lead > median) {
        if let Some(chunk) = end.last {
            votes.entry(chunk.to_string()).or_insert((0, chunk)).0 += 1;
        }
    }
    let (count, chunk) = votes.into_values().max_by_key(|(count, _)| *count)?;
    (count * 2 > ends.len()).then_some(chunk)
}

/// How one draw ended.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Seconds from now.
    at: f64,
    /// Which chunk was last.
    last: Option<ChunkId>,
    /// By how much it outlasted all others.
    lead: f64,
}

impl End {
    const NOTHING: Self = Self {
        at: 0.0,
        last: None,
        lead: 0.0,
    };

    fn note(&mut self, at: f64, chunk: Option<ChunkId>) {
        if at >= self.at {
            *self = Self {
                at,
                last: chunk,
                lead: at - self.at,
            };
        } else {
            self.lead = self.lead.min(self.at - at);
        }
    }
}

/// Measured run times in seconds by lane, newest last.
struct History {
    lanes: [Vec<f64>; 3],
}

const fn index(lane: Lane) -> usize {
    match lane {
        Lane::Normal => 0,
        Lane::Heavy => 1,
        Lane::Isolated => 2,
    }
}

const LANES: [Lane; 3] = [Lane::Normal, Lane::Heavy, Lane::Isolated];

impl History {
    fn new(finished: &[(Lane, Duration)]) -> Self {
        let of = |lane: Lane| {
            let mut newest: Vec<f64> = finished
                .iter()
                .rev()
                .filter(|(l, _)| *l == lane)
                .take(MEMORY)
                .map(|(_, d)| d.as_secs_f64())
                .collect();
            newest.reverse();
            newest
        };
        Self { lanes: LANES.map(of) }
    }

    fn knows(&self, lane: Lane) -> bool {
        self.lanes.get(index(lane)).is_some_and(|l| !l.is_empty())
    }

    fn longest(&self, lane: Lane) -> f64 {
        self.lanes
            .get(index(lane))
            .into_iter()
            .flatten()
            .fold(0.0, |a, b| a.max(*b))
    }

    /// Median over all lanes.
    fn median(&self) -> f64 {
        let mut all: Vec<f64> = self.lanes.iter().flatten().copied().collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(0.0)
    }

    /// A bootstrap of each lane, newer durations more often. A lane without any borrows those of the nearest lighter (else
    /// heavier) lane, in proportion to the weights.
    fn resampled(&self, dice: &mut Dice) -> Pool {
        let drawn = |values: &Vec<f64>, dice: &mut Dice| -> Vec<f64> {
            let n = values.len();
            (0..n)
                .filter_map(|_| values.get(dice.recent(n)).copied())
                .collect()
        };
        let mut lanes = LANES.map(|lane| {
            self.lanes
                .get(index(lane))
                .map(|values| drawn(values, dice))
                .unwrap_or_default()
        });
        for lane in LANES {
            let lender = LANES
                .into_iter()
                .filter(|l| self.knows(*l))
                .min_by_key(|l| (*l > lane, index(*l).abs_diff(index(lane))));
            if let (false, Some(lender)) = (self.knows(lane), lender) {
                let factor = f64::from(lane.weight()) / f64::from(lender.weight());
                let lent: Vec<f64> = lanes
                    .get(index(lender))
                    .into_iter()
                    .flatten()
                    .map(|d| d * factor)
                    .collect();
                if let Some(slot) = lanes.get_mut(index(lane)) {
                    *slot = lent;
                }
            }
        }
        Pool::new(lanes)
    }
}

/// What one draw draws from.
struct Pool {
    lanes: [Vec<f64>; 3],
    /// Mean and variance by lane.
    moments: [(f64, f64); 3],
}

impl Pool {
    fn new(lanes: [Vec<f64>; 3]) -> Self {
        let moments = [0, 1, 2].map(|i: usize| {
            let values = lanes.get(i).map_or(&[][..], Vec::as_slice);
            let n = values.len().max(1) as f64;
            let mean = values.iter().sum::<f64>() / n;
            let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
            (mean, variance)
        });
        Self { lanes, moments }
    }

    fn draw(&self, lane: Lane, dice: &mut Dice) -> f64 {
        let values = self.lanes.get(index(lane)).map_or(&[][..], Vec::as_slice);
        values.get(dice.below(values.len())).copied().unwrap_or(0.0)
    }

    /// What is left of a run that has lasted for a while: a draw among the longer ones. If it outlasts all, half as
    /// much again.
    fn rest(&self, lane: Lane, elapsed: f64, dice: &mut Dice) -> f64 {
        let values = self.lanes.get(index(lane)).map_or(&[][..], Vec::as_slice);
        let longer = values.iter().filter(|v| **v > elapsed);
        let n = longer.clone().count();
        longer
            .clone()
            .nth(dice.below(n))
            .map_or(elapsed / 2.0, |v| v - elapsed)
    }
}

/// The rest of the order, split into what is summed up and what is scheduled one by one.
struct Plan<'a> {
    outlook: &'a Outlook<'a>,
    limit: u32,
    retries: f64,
    /// How many chunks of each lane are summed up, with their weight.
    bulk: [(f64, f64); 3],
    /// Isolated chunks among those, with the share of the bulk that comes before them.
    chain: Vec<(ChunkId, f64)>,
    listed: &'a [WaitingChunk],
}

impl<'a> Plan<'a> {
    fn new(outlook: &'a Outlook<'a>) -> Self {
        let limit = outlook.limit.max(1);
        let split = outlook
            .waiting
            .len()
            .saturating_sub(LISTED.max(4 * limit as usize));
        let (summed, listed) = outlook.waiting.split_at(split);
        let mut bulk = [(0.0, 0.0); 3];
        let mut chain = Vec::new();
        for (i, w) in summed.iter().enumerate() {
            if let Some((count, weight)) = bulk.get_mut(index(w.lane)) {
                *count += 1.0;
                *weight = f64::from(w.weight.min(limit));
            }
            if w.lane == Lane::Isolated {
                chain.push((w.chunk, i as f64 / split as f64));
            }
        }
        let retries = outlook.attempts_per_chunk.max(1.0);
        Self {
            outlook,
            limit,
            retries,
            bulk,
            chain,
            listed,
        }
    }

    fn extrapolates(&self, history: &History) -> bool {
        let outlasts = |r: &RunningChunk| r.elapsed.as_secs_f64() > history.longest(r.lane);
        let unknown = |w: &WaitingChunk| !history.knows(w.lane);
        self.outlook.running.iter().any(outlasts) || self.outlook.waiting.iter().any(unknown)
    }

    /// Draws all durations once and lets them run.
    fn replicate(&self, pool: &Pool, dice: &mut Dice) -> End {
        let mut end = End::NOTHING;
        let mut slots = Slots::new(self.limit);
        let mut work = 0.0;
        for r in self.outlook.running {
            let rest = pool.rest(r.lane, r.elapsed.as_secs_f64(), dice);
            work += rest * f64::from(r.weight.min(self.limit));
            end.note(rest, Some(r.chunk));
            if self.bulk_is_empty() {
                slots.occupy(rest, r.weight, r.lane);
            }
        }
        if !self.bulk_is_empty() {
            work += self.bulk_work(pool, dice);
            let until = work / f64::from(self.limit);
            self.follow_chain(until, pool, dice, &mut end, &mut slots);
            slots.skip_to(until);
            end.note(until, None);
        }
        self.schedule(pool, dice, &mut end, slots);
        end
    }

    fn bulk_is_empty(&self) -> bool {
        self.bulk.iter().all(|(count, _)| *count == 0.0)
    }

    /// The sum of many draws, which is close to normal.
    fn bulk_work(&self, pool: &Pool, dice: &mut Dice) -> f64 {
        let lanes = self.bulk.iter().zip(&pool.moments);
        lanes
            .map(|((count, weight), (mean, variance))| {
                let sum = count * mean + (count * variance).sqrt() * dice.normal();
                sum.max(0.0) * weight * self.retries
            })
            .sum()
    }

    /// Isolated chunks in the summed part: one at a time, none before its turn.
    fn follow_chain(&self, until: f64, pool: &Pool, dice: &mut Dice, end: &mut End, slots: &mut Slots) {
        let mut free = 0.0_f64;
        for (chunk, turn) in &self.chain {
            free = free.max(turn * until) + pool.draw(Lane::Isolated, dice) * self.retries;
            end.note(free, Some(*chunk));
        }
        if free > until {
            slots.occupy(free, Lane::Isolated.weight(), Lane::Isolated);
        }
    }

    /// List scheduling: in order, each as soon as it fits; an isolated one waits aside for the one before it.
    fn schedule(&self, pool: &Pool, dice: &mut Dice, end: &mut End, mut slots: Slots) {
        let mut order = self.listed.iter();
        let mut aside: VecDeque<&WaitingChunk> = VecDeque::new();
        loop {
            let next = if slots.isolated_is_free() && !aside.is_empty() {
                aside.pop_front()
            } else {
                order.next()
            };
            let Some(w) = next else {
                if aside.is_empty() {
                    return;
                }
                slots.wait_for_one();
                continue;
            };
            if w.lane == Lane::Isolated && !slots.isolated_is_free() {
                aside.push_back(w);
                continue;
            }
            let lasts = pool.draw(w.lane, dice) * self.retries;
            let at = slots.start(lasts, w.weight, w.lane);
            end.note(at, Some(w.chunk));
        }
    }
}

/// What runs in a draw. Times are whole milliseconds, so that they order.
struct Slots {
    now: u64,
    limit: u32,
    used: u32,
    isolated: u32,
    running: BinaryHeap<Reverse<(u64, u32, Lane)>>,
}

impl Slots {
    fn new(limit: u32) -> Self {
        Self {
            now: 0,
            limit,
            used: 0,
            isolated: 0,
            running: BinaryHeap::new(),
        }
    }

    fn isolated_is_free(&self) -> bool {
        self.isolated == 0
    }

    /// Takes weight until an instant in seconds.
    fn occupy(&mut self, until: f64, weight: u32, lane: Lane) {
        let weight = weight.min(self.limit);
        self.used = self.used.saturating_add(weight);
        self.isolated += u32::from(lane == Lane::Isolated);
        self.running
            .push(Reverse(((until * 1000.0) as u64, weight, lane)));
    }

    fn skip_to(&mut self, t: f64) {
        self.now = self.now.max((t * 1000.0) as u64);
    }

    /// Time goes on to the next end.
    fn wait_for_one(&mut self) {
        if let Some(Reverse((at, weight, lane))) = self.running.pop() {
            self.now = self.now.max(at);
            self.used = self.used.saturating_sub(weight);
            self.isolated -= u32::from(lane == Lane::Isolated).min(self.isolated);
        }
    }

    /// Starts as soon as it fits and says when it ends, in seconds.
    fn start(&mut self, lasts: f64, weight: u32, lane: Lane) -> f64 {
        let weight = weight.min(self.limit);
        while !self.running.is_empty() && self.used.saturating_add(weight) > self.limit {
            self.wait_for_one();
        }
        let end = self.now as f64 / 1000.0 + lasts;
        self.occupy(end, weight, lane);
        end
    }
}

/// A small generator (SplitMix64): the plan has no randomness of its own, all of it comes from the seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1).
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Uniform below `n`; 0 for 0.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// A position among `n`, the last ones more often: one [`HALF_LIFE`] earlier is half as likely.
    fn recent(&mut self, n: usize) -> usize {
        let kept = 1.0 - 0.5_f64.powf(n as f64 / HALF_LIFE);
        let back = -HALF_LIFE * (1.0 - self.unit() * kept).log2();
        n.saturating_sub(1).saturating_sub(back as usize)
    }
}

#[cfg(test)]
mod tests;
