//! Many seeds and policies side by side.

use super::{
    bound::{Bound, bound},
    draw::Draw,
    live::Live,
    night::{Outcome, over_soft_alone, play},
    policy::{Policy, begin},
};
use crate::config::scenario::Scenario;
use serde::Serialize;

/// What policies made of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// How many seeds.
    pub seeds: u32,
    /// Chunks that the bound is enough for, the mean of the seeds.
    pub bound_chunks: f64,
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

/// The figures of a run. Shares are of the bound, 1 is all of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Chunks that were done.
    pub chunks_done: f64,
    /// Weight times time of what was done or runs, as a share of the bound.
    pub work_share: f64,
    /// Chunks that were done, as a share of the bound.
    pub share_of_oracle: f64,
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
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 1.0 };
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

    fn all(&mut self) -> [(&mut f64, Worse); 13] {
        use Worse::{High, Low};
        [
            (&mut self.chunks_done, Low),
            (&mut self.work_share, Low),
            (&mut self.share_of_oracle, Low),
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

    /// Means, and the worst of each.
    fn sum_up(runs: &[Self]) -> (Self, Self) {
        let n = runs.len().max(1) as f64;
        let mut mean = Self::default();
        let mut worst = runs.first().copied().unwrap_or_default();
        for run in runs {
            let mut run = *run;
            let worst = worst.all().into_iter();
            for ((value, way), ((sum, _), (worst, _))) in
                run.all().into_iter().zip(mean.all().into_iter().zip(worst))
            {
                *sum += *value / n;
                *worst = match way {
                    Worse::Low => worst.min(*value),
                    Worse::High => worst.max(*value),
                };
            }
        }
        (mean, worst)
    }
}

/// Plays each policy on each seed. The live pipeline, the chunks and the bound of a seed are the same for all policies.
pub fn simulate(scenario: &Scenario, policies: &[Policy], seeds: u32) -> Report {
    let mut runs: Vec<Vec<Figures>> = vec![Vec::new(); policies.len()];
    let mut chunks = 0.0;
    for seed in 0..seeds {
        let draw = Draw(scenario.seed.wrapping_add(u64::from(seed)));
        let live = Live::new(scenario, draw);
        let bound = bound(scenario, &live, draw);
        let alone = over_soft_alone(scenario, &live);
        chunks += f64::from(bound.chunks) / f64::from(seeds);
        for (policy, runs) in policies.iter().zip(&mut runs) {
            let mut controller = begin(*policy, scenario);
            let out = play(scenario, &live, draw, controller.as_mut());
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
    Report {
        seeds,
        bound_chunks: chunks,
        policies: policies.iter().zip(runs).map(of_policy).collect(),
    }
}
