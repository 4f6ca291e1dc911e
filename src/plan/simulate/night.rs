//! One run of one policy against one seed of a scenario.

use super::{
    draw::Draw,
    live::{Live, Queue, STEP, is_near_an_incident, is_on},
    policy::{Controller, Reading, Says, Seen},
    work::{Plan, Size},
};
use crate::{
    config::{
        Unit,
        scenario::{Fault, Scenario},
    },
    plan::{room::Running, throttle::authority::fits},
};

/// A failed attempt is tried again after so many seconds.
const RETRY: f64 = 60.0;
/// Starts are at least so many seconds apart in any case.
const START_GAP: f64 = 10.0;
/// The weight of the lane for skewed days: one of them at a time.
const ISOLATED: u32 = 4;

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Chunks that are done.
    pub chunks_done: u32,
    /// Seconds of weight of what is done, and of what runs at the end.
    pub work: f64,
    /// When the last chunk was done, if all are.
    pub makespan: Option<f64>,
    /// Seconds with lag over soft.
    pub over_soft: f64,
    /// Seconds with lag over hard, outside of incidents and the half hour after them.
    pub over_hard_outside: f64,
    /// The worst lag, in the signal's unit.
    pub worst_lag: f64,
    /// How often the limit changed.
    pub limit_changes: u32,
    /// How often lag stopped all starts.
    pub pauses: u32,
    /// Attempts that were cancelled to brake.
    pub cancelled: u32,
    /// Seconds of weight that were lost to failures and cancels.
    pub wasted: f64,
}

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

/// Plays a run from its beginning to its end.
pub fn play(scenario: &Scenario, live: &Live, draw: Draw, policy: &mut dyn Controller) -> Outcome {
    let mut night = Night {
        scenario,
        queue: Queue::new(live),
        shop: Shop::new(scenario, draw),
        endpoint: Endpoint::new(scenario),
        says: Says::default(),
        asked: false,
        started: f64::NEG_INFINITY,
        out: Outcome::default(),
    };
    let every = (scenario.tick.as_secs_f64() / STEP).round().max(1.0) as usize;
    for step in 0..live.steps() {
        let t = step as f64 * STEP;
        night.shop.end_attempts(t, &mut night.out);
        policy.runs(t, night.shop.running());
        if step.is_multiple_of(every) {
            night.ask(policy, t);
        }
        night.start(policy, t);
        policy.runs(t, night.shop.running());
        night.pass(t);
    }
    night.finish(live.steps() as f64 * STEP, policy)
}

/// The lag of a live pipeline that has all of its consumer for itself, over soft, in seconds.
pub fn over_soft_alone(scenario: &Scenario, live: &Live) -> f64 {
    let mut queue = Queue::new(live);
    let mut over = 0.0;
    for _ in 0..live.steps() {
        queue.pass(0.0);
        if lag(scenario, &queue) > scenario.signal.soft {
            over += STEP;
        }
    }
    over
}

fn lag(scenario: &Scenario, queue: &Queue<'_>) -> f64 {
    match scenario.signal.unit {
        Unit::Seconds => queue.age(),
        Unit::Messages | Unit::Alerts => queue.backlog(),
    }
}

struct Night<'a> {
    scenario: &'a Scenario,
    queue: Queue<'a>,
    shop: Shop<'a>,
    endpoint: Endpoint<'a>,
    says: Says,
    asked: bool,
    started: f64,
    out: Outcome,
}

impl Night<'_> {
    fn ask(&mut self, policy: &mut dyn Controller, t: f64) {
        let attempts = self.shop.seen(t);
        let seen = Seen {
            at: t,
            reading: self.endpoint.read(t),
            attempts: &attempts,
            running: self.shop.running(),
            next_weight: self.shop.next(t, |_| true).map(|(_, size)| size.weight),
            median: self.shop.median(),
            mean: self.shop.mean(),
        };
        let says = policy.tick(&seen);
        for chunk in &says.cancel {
            self.shop.cancel(*chunk, t, &mut self.out);
        }
        self.out.limit_changes += u32::from(self.asked && says.limit != self.says.limit);
        (self.says, self.asked) = (says, true);
    }

    fn start(&mut self, policy: &mut dyn Controller, t: f64) {
        let down = self
            .scenario
            .incidents
            .iter()
            .any(|i| i.executor_down && is_on(i, t));
        let gap = self.says.gap.unwrap_or_default().max(START_GAP);
        if down || t - self.started < gap {
            return;
        }
        let (limit, running) = (self.says.limit, self.shop.running());
        let admission = policy.admission(t);
        // A heavy chunk waits in its lane until there is room for it.
        let has_room = |weight| admission.map_or(weight <= limit, |a| a.heavy >= weight);
        let Some((from, size)) = self.shop.next(t, has_room) else {
            return;
        };
        let admitted = admission.is_none_or(|a| a.allows(running, size.weight));
        if fits(limit, running, size.weight) && admitted {
            self.shop.start(from, size, t);
            self.started = t;
        }
    }

    fn pass(&mut self, t: f64) {
        let taken = self.scenario.consumer.cost_per_chunk * f64::from(self.shop.running());
        self.queue.pass(taken);
        let lag = lag(self.scenario, &self.queue);
        self.endpoint.lag.push(lag);
        let signal = &self.scenario.signal;
        if lag > signal.soft {
            self.out.over_soft += STEP;
        }
        if lag > signal.hard && !is_near_an_incident(self.scenario, t) {
            self.out.over_hard_outside += STEP;
        }
        self.out.worst_lag = self.out.worst_lag.max(lag);
    }

    fn finish(mut self, end: f64, policy: &dyn Controller) -> Outcome {
        let under_way = self.shop.attempts.iter();
        let done = |a: &Attempt| f64::from(a.weight) * (end - a.began).min(a.whole);
        self.out.work += under_way.map(done).sum::<f64>();
        self.out.pauses = policy.pauses();
        self.out
    }
}

/// What tells the lag, with its delay and its faults.
struct Endpoint<'a> {
    scenario: &'a Scenario,
    /// True lag at the end of each step.
    lag: Vec<f64>,
    frozen: Option<f64>,
}

impl<'a> Endpoint<'a> {
    const fn new(scenario: &'a Scenario) -> Self {
        Self {
            scenario,
            lag: Vec::new(),
            frozen: None,
        }
    }

    fn read(&mut self, t: f64) -> Reading {
        let delay = self.scenario.consumer.metric_delay.as_secs_f64();
        let step = ((t - delay) / STEP).floor();
        let measured = if step < 0.0 {
            0.0
        } else {
            self.lag.get(step as usize).copied().unwrap_or_default()
        };
        let faults = self.scenario.incidents.iter().filter(|i| is_on(i, t));
        let fault = faults.filter_map(|i| i.metric).next();
        if fault != Some(Fault::Frozen) {
            self.frozen = None;
        }
        match fault {
            None => Reading::Value(measured, delay),
            Some(Fault::Frozen) => Reading::Value(*self.frozen.get_or_insert(measured), delay),
            Some(Fault::Zero) => Reading::Value(0.0, delay),
            Some(Fault::Missing | Fault::Nan) => Reading::None,
        }
    }
}

/// Where a chunk is taken from.
#[derive(Debug, Clone, Copy)]
enum From {
    /// The plan's next one.
    Plan,
    /// Those that wait for their next attempt, by chunk.
    Again(u32),
    /// The lane of heavy ones, by chunk.
    Lane(u32),
}

/// Chunks that wait and attempts that run.
struct Shop<'a> {
    scenario: &'a Scenario,
    plan: Plan<'a>,
    next: u32,
    attempts: Vec<Attempt>,
    /// When the next attempt may start, and of which chunk.
    again: Vec<(f64, u32)>,
    lane: Vec<u32>,
    tries: Vec<u32>,
    /// Lengths of the chunks of weight 1 that are done, in order of length.
    lengths: Vec<f64>,
    mean: Option<f64>,
}

impl<'a> Shop<'a> {
    fn new(scenario: &'a Scenario, draw: Draw) -> Self {
        Self {
            scenario,
            plan: Plan::new(&scenario.backfill, draw),
            next: 0,
            attempts: Vec::new(),
            again: Vec::new(),
            lane: Vec::new(),
            tries: vec![0; scenario.backfill.chunks as usize],
            lengths: Vec::new(),
            mean: None,
        }
    }

    fn running(&self) -> u32 {
        self.attempts.iter().map(|a| a.weight).sum()
    }

    fn median(&self) -> Option<f64> {
        self.lengths.get(self.lengths.len() / 2).copied()
    }

    /// Mean length of light chunks, the last fifty of them weighing most.
    fn mean(&self) -> f64 {
        self.mean.unwrap_or(self.scenario.backfill.median.as_secs_f64())
    }

    fn note_length(&mut self, seconds: f64) {
        let at = self.lengths.partition_point(|l| *l < seconds);
        self.lengths.insert(at, seconds);
        let share = self.lengths.len().min(50) as f64;
        let mean = self.mean();
        self.mean = Some(mean + (seconds - mean) / share);
    }

    /// What runs, as a policy may know it: how long a heavy chunk takes is foretold by its size, how long a light one
    /// takes only by the mean.
    fn seen(&self, t: f64) -> Vec<Running> {
        let mean = self.mean();
        let seen = |a: &Attempt| Running {
            key: a.chunk.into(),
            weight: a.weight,
            age: t - a.began,
            expected: if a.weight == 1 { mean } else { a.whole },
            may_be_cancelled: true,
        };
        self.attempts.iter().map(seen).collect()
    }

    /// Ends an attempt to brake; its work is lost, and the chunk may start again at once.
    fn cancel(&mut self, chunk: u64, t: f64, out: &mut Outcome) {
        let Some(at) = self.attempts.iter().position(|a| u64::from(a.chunk) == chunk) else {
            return;
        };
        let attempt = self.attempts.swap_remove(at);
        out.cancelled += 1;
        out.wasted += f64::from(attempt.weight) * (t - attempt.began);
        self.again.push((t, attempt.chunk));
    }

    fn end_attempts(&mut self, t: f64, out: &mut Outcome) {
        let (over, open): (Vec<Attempt>, Vec<Attempt>) = self.attempts.iter().partition(|a| a.ends <= t);
        self.attempts = open;
        for attempt in over {
            let weight = f64::from(attempt.weight);
            if attempt.fails {
                out.wasted += weight * (attempt.ends - attempt.began);
                self.again.push((t + RETRY, attempt.chunk));
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

    /// What would start next: a heavy one that there is room for at all, then what is tried again, then the plan.
    fn next(&mut self, t: f64, has_room: impl Fn(u32) -> bool) -> Option<(From, Size)> {
        while self.next < self.scenario.backfill.chunks && self.plan.size(self.next).weight > 1 {
            self.lane.push(self.next);
            self.next += 1;
        }
        let isolated = self.attempts.iter().any(|a| a.weight >= ISOLATED);
        let heavy = |chunk: &&u32| {
            let weight = self.plan.size(**chunk).weight;
            has_room(weight) && !(isolated && weight >= ISOLATED)
        };
        if let Some(chunk) = self.lane.iter().find(heavy) {
            return Some((From::Lane(*chunk), self.plan.size(*chunk)));
        }
        if let Some((_, chunk)) = self.again.iter().find(|(at, _)| *at <= t) {
            let size = self.plan.size(*chunk);
            if size.weight == 1 {
                return Some((From::Again(*chunk), size));
            }
            // It waits in its lane like at first.
            let chunk = *chunk;
            self.again.retain(|(_, c)| *c != chunk);
            self.lane.push(chunk);
            return self.next(t, has_room);
        }
        (self.next < self.scenario.backfill.chunks).then(|| (From::Plan, self.plan.size(self.next)))
    }

    fn start(&mut self, from: From, size: Size, t: f64) {
        let chunk = match from {
            From::Plan => {
                self.next += 1;
                self.next - 1
            }
            From::Again(chunk) => {
                self.again.retain(|(_, c)| *c != chunk);
                chunk
            }
            From::Lane(chunk) => {
                self.lane.retain(|c| *c != chunk);
                chunk
            }
        };
        let Some(tries) = self.tries.get_mut(chunk as usize) else {
            return;
        };
        let fate = self.plan.fate(chunk, *tries);
        *tries += 1;
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
