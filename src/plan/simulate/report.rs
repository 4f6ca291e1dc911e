//! Many seeds and policies side by side.

use super::{
    bound::{Bound, bound},
    course::Course,
    draw::Draw,
    live::Live,
    night::{Outcome, World, over_soft_alone, play},
    policy::{Policy, begin},
    work::Plan,
};
use crate::config::{Unit, scenario::Scenario};
use serde::Serialize;

/// How far it is, told at the beginning of each run and once for each hour that it modelled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Which seed, from 1.
    pub seed: u32,
    /// Of how many.
    pub seeds: u32,
    /// What is played.
    pub policy: Policy,
    /// Which policy of the seed, from 1.
    pub nth: usize,
    /// Of how many.
    pub policies: usize,
    /// Seconds of the run that were played.
    pub played: f64,
}

/// What policies made of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// How many seeds.
    pub seeds: u32,
    /// What lag is measured in: `seconds` or `messages`.
    pub unit: &'static str,
    /// Chunks of the plan.
    pub chunks: u32,
    /// Messages a second that arrive, the mean of all nights.
    pub live_rate: f64,
    /// Messages a second that the consumer can take before the backfill takes from it, the mean of all nights.
    pub live_capacity: f64,
    /// Seeds in which not one whole chunk can be done without lag over soft, so that there is no bound to compare with.
    pub seeds_without_bound: u32,
    /// Chunks that the bound is enough for, the mean of the seeds that have one; `None` if none has.
    pub bound_chunks: Option<f64>,
    /// One entry for each policy, in the order in which they were asked for.
    pub policies: Vec<OfPolicy>,
}

/// What one policy made of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfPolicy {
    /// Its name.
    pub policy: String,
    /// Means over the seeds.
    pub mean: Figures,
    /// The worst of the seeds, each figure for itself.
    pub worst: Figures,
}

/// The figures of a run. Shares are of the bound, 1 is all of it; they are `None` where there is no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Chunks that were done.
    pub chunks_done: f64,
    /// Weight times time of what was done or runs, as a share of the bound.
    pub work_share: Option<f64>,
    /// Chunks that were done, as a share of the bound.
    pub share_of_oracle: Option<f64>,
    /// Until all chunks were done, or the whole scenario.
    pub makespan_s: f64,
    /// With lag over soft.
    pub minutes_over_soft: f64,
    /// The same without any backfill.
    pub live_only_minutes_over_soft: f64,
    /// What the backfill added to that.
    pub excess_minutes_over_soft: f64,
    /// With lag over hard, outside of incidents.
    pub minutes_over_hard_outside_incidents: f64,
    /// In the signal's unit.
    pub worst_lag_s: f64,
    /// How often the limit changed.
    pub limit_changes: f64,
    /// How often lag stopped all starts.
    pub pauses: f64,
    /// Attempts that were cancelled to brake.
    pub cancelled: f64,
    /// Weight times minutes lost to failures and cancels.
    pub wasted_weight_minutes: f64,
}

/// Which way a figure gets worse.
#[derive(Clone, Copy)]
enum Worse {
    Low,
    High,
}

impl Figures {
    fn of(scenario: &Scenario, out: &Outcome, bound: Bound, alone: f64) -> Self {
        // Less than a chunk is no measure: a share of next to nothing is any number.
        let share = |part: f64, whole: f64| (bound.chunks > 0).then(|| part / whole);
        let done = f64::from(out.chunks_done);
        Self {
            chunks_done: done,
            work_share: share(out.work, bound.work),
            share_of_oracle: share(done, f64::from(bound.chunks)),
            makespan_s: out.makespan.unwrap_or(scenario.duration.as_secs_f64()),
            minutes_over_soft: out.over_soft / 60.0,
            live_only_minutes_over_soft: alone / 60.0,
            excess_minutes_over_soft: (out.over_soft - alone) / 60.0,
            minutes_over_hard_outside_incidents: out.over_hard_outside / 60.0,
            worst_lag_s: out.worst_lag,
            limit_changes: out.limit_changes.into(),
            pauses: out.pauses.into(),
            cancelled: out.cancelled.into(),
            wasted_weight_minutes: out.wasted / 60.0,
        }
    }

    fn shares(&mut self) -> [&mut Option<f64>; 2] {
        [&mut self.work_share, &mut self.share_of_oracle]
    }

    fn others(&mut self) -> [(&mut f64, Worse); 11] {
        use Worse::{High, Low};
        [
            (&mut self.chunks_done, Low),
            (&mut self.makespan_s, High),
            (&mut self.minutes_over_soft, High),
            (&mut self.live_only_minutes_over_soft, High),
            (&mut self.excess_minutes_over_soft, High),
            (&mut self.minutes_over_hard_outside_incidents, High),
            (&mut self.worst_lag_s, High),
            (&mut self.limit_changes, High),
            (&mut self.pauses, High),
            (&mut self.cancelled, High),
            (&mut self.wasted_weight_minutes, High),
        ]
    }

    /// Means, and the worst of each. Shares are summed up over the seeds that have a bound.
    pub(super) fn sum_up(runs: &[Self]) -> (Self, Self) {
        let n = runs.len().max(1) as f64;
        let with_bound = runs.iter().filter(|r| r.share_of_oracle.is_some()).count() as f64;
        let mut mean = Self::default();
        let mut worst = runs.first().copied().unwrap_or_default();
        for run in runs {
            let mut run = *run;
            let sums = mean.others().into_iter().zip(worst.others());
            for ((value, way), ((sum, _), (worst, _))) in run.others().into_iter().zip(sums) {
                *sum += *value / n;
                *worst = match way {
                    Worse::Low => worst.min(*value),
                    Worse::High => worst.max(*value),
                };
            }
            let sums = mean.shares().into_iter().zip(worst.shares());
            for (share, (sum, worst)) in run.shares().into_iter().zip(sums) {
                if let Some(share) = *share {
                    *sum = Some(sum.unwrap_or_default() + share / with_bound);
                    *worst = Some(worst.map_or(share, |w| w.min(share)));
                }
            }
        }
        (mean, worst)
    }
}

/// What is found out on the way about the seeds themselves.
#[derive(Default)]
struct Seeds {
    bounds: Vec<u32>,
    rate: f64,
    capacity: f64,
}

impl Seeds {
    fn note(&mut self, live: &Live, bound: Bound) {
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
        self.bounds.push(bound.chunks);
        self.rate += mean(&live.arrivals);
        self.capacity += mean(&live.capacity);
    }

    fn report(self, scenario: &Scenario, policies: Vec<OfPolicy>) -> Report {
        let seeds = self.bounds.len();
        let of_all = seeds.max(1) as f64;
        let bounds: Vec<f64> = self
            .bounds
            .iter()
            .filter(|b| **b > 0)
            .map(|b| f64::from(*b))
            .collect();
        let with = bounds.len() as f64;
        Report {
            seeds: u32::try_from(seeds).unwrap_or(u32::MAX),
            unit: match scenario.signal.unit {
                Unit::Seconds => "seconds",
                Unit::Messages | Unit::Alerts => "messages",
            },
            chunks: scenario.backfill.chunks,
            live_rate: self.rate / of_all,
            live_capacity: self.capacity / of_all,
            seeds_without_bound: u32::try_from(seeds - bounds.len()).unwrap_or(u32::MAX),
            bound_chunks: (!bounds.is_empty()).then(|| bounds.iter().fold(0.0, |sum, b| sum + b / with)),
            policies,
        }
    }
}

/// Plays each policy on each seed. The live pipeline, the chunks and the bound of a seed are the same for all policies.
/// `told` hears how far it is.
pub fn simulate(
    scenario: &Scenario,
    policies: &[Policy],
    seeds: u32,
    told: &mut dyn FnMut(Progress),
) -> Report {
    let course = Course::of(scenario);
    let mut runs: Vec<Vec<Figures>> = vec![Vec::new(); policies.len()];
    let mut all = Seeds::default();
    for seed in 0..seeds {
        let draw = Draw(scenario.seed.wrapping_add(u64::from(seed)));
        let world = World {
            scenario,
            course: &course,
            live: Live::new(scenario, &course, draw),
            plan: Plan::new(&scenario.backfill, draw),
        };
        let bound = bound(scenario, &world.live, &world.plan);
        let alone = over_soft_alone(scenario, &world.live);
        all.note(&world.live, bound);
        for (nth, (policy, runs)) in policies.iter().zip(&mut runs).enumerate() {
            let mut told = |played| {
                told(Progress {
                    seed: seed + 1,
                    seeds,
                    policy: *policy,
                    nth: nth + 1,
                    policies: policies.len(),
                    played,
                });
            };
            let mut controller = begin(*policy, scenario);
            let out = play(&world, controller.as_mut(), &mut told);
            runs.push(Figures::of(scenario, &out, bound, alone));
        }
    }
    let of_policy = |(policy, runs): (&Policy, Vec<Figures>)| {
        let (mean, worst) = Figures::sum_up(&runs);
        OfPolicy {
            policy: policy.to_string(),
            mean,
            worst,
        }
    };
    let policies = policies.iter().zip(runs).map(of_policy).collect();
    all.report(scenario, policies)
}
