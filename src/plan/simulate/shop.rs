//! Chunks that wait and attempts that run. Nothing here grows with the number of chunks but memory: a step in which
//! nothing begins and nothing ends costs the same whatever waits and runs.

use super::{
    night::Outcome,
    waiting::{Lane, Median},
    work::{Plan, Size},
};
use crate::{config::scenario::Scenario, plan::room::Running};
use std::collections::VecDeque;

/// A failed attempt is tried again after so many seconds.
const RETRY: f64 = 60.0;
/// The weight of the lane for skewed days: one of them at a time.
const ISOLATED: u32 = 4;

/// An attempt that runs.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    chunk: u32,
    weight: u32,
    began: f64,
    ends: f64,
    fails: bool,
    whole: f64,
}

/// Where a chunk is taken from.
#[derive(Debug, Clone, Copy)]
pub enum From {
    /// The plan's next one.
    Plan,
    /// Those that wait for their next attempt.
    Again,
    /// The lane of heavy ones.
    Lane,
}

/// What would start next.
#[derive(Debug, Clone, Copy)]
pub struct Next {
    from: From,
    chunk: u32,
    /// How heavy and how long it is.
    pub size: Size,
}

/// Chunks that wait and attempts that run.
pub struct Shop<'a> {
    scenario: &'a Scenario,
    plan: &'a Plan<'a>,
    /// The plan's first chunk that neither started nor waits in the lane.
    next: u32,
    attempts: Vec<Attempt>,
    /// Weight of all attempts.
    running: u32,
    /// How many attempts are of the lane for skewed days.
    isolated: u32,
    /// No attempt ends earlier.
    first_end: f64,
    /// When the next attempt may start, and of which chunk.
    again: VecDeque<(f64, u32)>,
    lane: Lane,
    tries: Vec<u32>,
    /// Lengths of the chunks of weight 1 that are done.
    lengths: Median,
    mean: Option<f64>,
}

impl<'a> Shop<'a> {
    pub fn new(scenario: &'a Scenario, plan: &'a Plan<'a>) -> Self {
        Self {
            scenario,
            plan,
            next: 0,
            attempts: Vec::new(),
            running: 0,
            isolated: 0,
            first_end: f64::INFINITY,
            again: VecDeque::new(),
            lane: Lane::default(),
            tries: vec![0; scenario.backfill.chunks as usize],
            lengths: Median::default(),
            mean: None,
        }
    }

    /// Running weight.
    pub const fn running(&self) -> u32 {
        self.running
    }

    /// Median length of the light chunks that are done.
    pub fn median(&self) -> Option<f64> {
        self.lengths.get()
    }

    /// Mean length of light chunks, the last fifty of them weighing most.
    pub fn mean(&self) -> f64 {
        self.mean.unwrap_or(self.scenario.backfill.median.as_secs_f64())
    }

    fn note_length(&mut self, seconds: f64) {
        self.lengths.add(seconds);
        let share = self.lengths.count().min(50) as f64;
        let mean = self.mean();
        self.mean = Some(mean + (seconds - mean) / share);
    }

    /// What runs, as a policy may know it: how long a heavy chunk takes is foretold by its size, how long a light one
    /// takes only by the mean. Written over what was seen before.
    pub fn see(&self, t: f64, attempts: &mut Vec<Running>) {
        let mean = self.mean();
        let seen = |a: &Attempt| Running {
            key: a.chunk.into(),
            weight: a.weight,
            age: t - a.began,
            expected: if a.weight == 1 { mean } else { a.whole },
            may_be_cancelled: true,
        };
        attempts.clear();
        attempts.extend(self.attempts.iter().map(seen));
    }

    /// Seconds of weight of what runs.
    pub fn under_way(&self, t: f64) -> f64 {
        let done = |a: &Attempt| f64::from(a.weight) * (t - a.began).min(a.whole);
        self.attempts.iter().map(done).sum()
    }

    fn is_over(&mut self, attempt: &Attempt) {
        self.running -= attempt.weight;
        self.isolated -= u32::from(attempt.weight >= ISOLATED);
    }

    /// Ends an attempt to brake; its work is lost, and the chunk may start again at once.
    pub fn cancel(&mut self, chunk: u64, t: f64, out: &mut Outcome) {
        let Some(at) = self.attempts.iter().position(|a| u64::from(a.chunk) == chunk) else {
            return;
        };
        let attempt = self.attempts.swap_remove(at);
        self.is_over(&attempt);
        out.cancelled += 1;
        out.wasted += f64::from(attempt.weight) * (t - attempt.began);
        self.again.push_back((t, attempt.chunk));
    }

    /// Ends what has run its time.
    pub fn end_attempts(&mut self, t: f64, out: &mut Outcome) {
        if t < self.first_end {
            return;
        }
        let over: Vec<Attempt> = self.attempts.extract_if(.., |a| a.ends <= t).collect();
        self.first_end = self
            .attempts
            .iter()
            .fold(f64::INFINITY, |first, a| first.min(a.ends));
        for attempt in over {
            self.is_over(&attempt);
            let weight = f64::from(attempt.weight);
            if attempt.fails {
                out.wasted += weight * (attempt.ends - attempt.began);
                self.again.push_back((t + RETRY, attempt.chunk));
                continue;
            }
            out.chunks_done += 1;
            out.work += weight * attempt.whole;
            if attempt.weight == 1 {
                self.note_length(attempt.whole);
            }
            if out.chunks_done == self.scenario.backfill.chunks {
                out.makespan = Some(t);
            }
        }
    }

    /// The plan's next chunk; heavy ones before it go to their lane.
    fn next_of_plan(&mut self) -> Option<(u32, Size)> {
        while self.next < self.scenario.backfill.chunks {
            let size = self.plan.size(self.next);
            if size.weight == 1 {
                return Some((self.next, size));
            }
            self.lane.push(size.weight, self.next);
            self.next += 1;
        }
        None
    }

    /// What would start next: a heavy one that there is room for at all, then what is tried again, then the plan.
    pub fn next(&mut self, t: f64, has_room: impl Fn(u32) -> bool) -> Option<Next> {
        let planned = self.next_of_plan();
        let isolated = self.isolated > 0;
        loop {
            let heavy = self
                .lane
                .first(|weight| has_room(weight) && !(isolated && weight >= ISOLATED));
            if let Some((_, chunk)) = heavy {
                return Some(self.next_from(From::Lane, chunk));
            }
            let Some(at) = self.again.iter().position(|(at, _)| *at <= t) else {
                break;
            };
            let chunk = self.again.get(at).map(|(_, chunk)| *chunk)?;
            let size = self.plan.size(chunk);
            if size.weight == 1 {
                return Some(self.next_from(From::Again, chunk));
            }
            // It waits in its lane like at first.
            self.again.remove(at);
            self.lane.push(size.weight, chunk);
        }
        planned.map(|(chunk, _)| self.next_from(From::Plan, chunk))
    }

    fn next_from(&self, from: From, chunk: u32) -> Next {
        Next {
            from,
            chunk,
            size: self.plan.size(chunk),
        }
    }

    /// Starts what [`Shop::next`] gave.
    pub fn start(&mut self, next: Next, t: f64) {
        let Next { from, chunk, size } = next;
        match from {
            From::Plan => self.next += 1,
            From::Again => {
                let at = self.again.iter().position(|(_, c)| *c == chunk);
                at.and_then(|at| self.again.remove(at));
            }
            From::Lane => self.lane.take(size.weight),
        }
        let Some(tries) = self.tries.get_mut(chunk as usize) else {
            return;
        };
        let fate = self.plan.fate(chunk, *tries);
        *tries += 1;
        self.running += size.weight;
        self.isolated += u32::from(size.weight >= ISOLATED);
        self.first_end = self.first_end.min(t + fate.seconds);
        self.attempts.push(Attempt {
            chunk,
            weight: size.weight,
            began: t,
            ends: t + fate.seconds,
            fails: fate.fails,
            whole: size.seconds,
        });
    }
}
