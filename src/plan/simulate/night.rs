//! One run of one policy against one seed of a scenario.

use super::{
    course::{Course, Moment},
    live::{Live, Queue, STEP},
    policy::{Controller, Reading, Says, Seen},
    shop::Shop,
    work::Plan,
};
use crate::{
    config::{
        Unit,
        scenario::{Fault, Scenario},
    },
    plan::{room::Running, throttle::authority::fits},
};

/// Starts are at least so many seconds apart in any case.
const START_GAP: f64 = 10.0;
/// Steps after which it is told how far a run is: a modelled hour.
const TOLD_EVERY: usize = 720;

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

/// What is the same for all policies of a seed.
pub struct World<'a> {
    pub scenario: &'a Scenario,
    pub course: &'a Course,
    pub live: Live,
    pub plan: Plan<'a>,
}

/// Plays a run from its beginning to its end; `told` is given the seconds that were played, once a modelled hour.
pub fn play(world: &World<'_>, policy: &mut dyn Controller, told: &mut dyn FnMut(f64)) -> Outcome {
    let scenario = world.scenario;
    let mut night = Night {
        scenario,
        queue: Queue::new(&world.live),
        shop: Shop::new(scenario, &world.plan),
        endpoint: Endpoint::new(scenario),
        attempts: Vec::new(),
        says: Says::default(),
        asked: false,
        started: f64::NEG_INFINITY,
        out: Outcome::default(),
    };
    let every = (scenario.tick.as_secs_f64() / STEP).round().max(1.0) as usize;
    for (step, moment) in world.course.moments().iter().enumerate() {
        let t = step as f64 * STEP;
        if step.is_multiple_of(TOLD_EVERY) {
            told(t);
        }
        night.shop.end_attempts(t, &mut night.out);
        policy.runs(t, night.shop.running());
        if step.is_multiple_of(every) {
            night.ask(policy, t, moment);
        }
        night.start(policy, t, moment);
        policy.runs(t, night.shop.running());
        night.pass(moment);
    }
    night.finish(world.live.steps() as f64 * STEP, policy)
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
    /// What a policy sees of what runs.
    attempts: Vec<Running>,
    says: Says,
    asked: bool,
    started: f64,
    out: Outcome,
}

impl Night<'_> {
    fn ask(&mut self, policy: &mut dyn Controller, t: f64, moment: &Moment) {
        self.shop.see(t, &mut self.attempts);
        let seen = Seen {
            at: t,
            reading: self.endpoint.read(t, moment.fault),
            attempts: &self.attempts,
            running: self.shop.running(),
            next_weight: self.shop.next(t, |_| true).map(|next| next.size.weight),
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

    fn start(&mut self, policy: &mut dyn Controller, t: f64, moment: &Moment) {
        let gap = self.says.gap.unwrap_or_default().max(START_GAP);
        if moment.executor_down || t - self.started < gap {
            return;
        }
        let (limit, running) = (self.says.limit, self.shop.running());
        let admission = policy.admission(t);
        // A heavy chunk waits in its lane until there is room for it.
        let has_room = |weight| admission.map_or(weight <= limit, |a| a.heavy >= weight);
        let Some(next) = self.shop.next(t, has_room) else {
            return;
        };
        let admitted = admission.is_none_or(|a| a.allows(running, next.size.weight));
        if fits(limit, running, next.size.weight) && admitted {
            self.shop.start(next, t);
            self.started = t;
        }
    }

    fn pass(&mut self, moment: &Moment) {
        let taken = self.scenario.consumer.cost_per_chunk * f64::from(self.shop.running());
        self.queue.pass(taken);
        let lag = lag(self.scenario, &self.queue);
        self.endpoint.lag.push(lag);
        let signal = &self.scenario.signal;
        if lag > signal.soft {
            self.out.over_soft += STEP;
        }
        if lag > signal.hard && !moment.near_incident {
            self.out.over_hard_outside += STEP;
        }
        self.out.worst_lag = self.out.worst_lag.max(lag);
    }

    fn finish(mut self, end: f64, policy: &dyn Controller) -> Outcome {
        self.out.work += self.shop.under_way(end);
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

    fn read(&mut self, t: f64, fault: Option<Fault>) -> Reading {
        let delay = self.scenario.consumer.metric_delay.as_secs_f64();
        let step = ((t - delay) / STEP).floor();
        let measured = if step < 0.0 {
            0.0
        } else {
            self.lag.get(step as usize).copied().unwrap_or_default()
        };
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
