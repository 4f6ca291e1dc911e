//! How much work of the last hour was done and how much was lost to cancels: no more than a share of it may be lost.

use super::{peak::Running, terms::View};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

const MINUTE: f64 = 60.0;
/// So many minutes are an hour.
const KEPT: u64 = 60;

/// The last hour by minutes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hour {
    minutes: VecDeque<Minute>,
    /// Up to when what ran is counted.
    counted: Option<f64>,
}

/// One minute, in seconds of weight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Minute {
    at: u64,
    ran: f64,
    lost: f64,
}

impl Hour {
    /// This much ran until now.
    pub fn ran(&mut self, now: f64, weight: f64) {
        let since = self.counted.replace(now).unwrap_or(now);
        let ran = weight * (now - since).max(0.0);
        self.minute(now).ran += ran;
    }

    fn minute(&mut self, now: f64) -> &mut Minute {
        let at = (now / MINUTE).max(0.0) as u64;
        while self.minutes.front().is_some_and(|m| m.at + KEPT <= at) {
            self.minutes.pop_front();
        }
        if self.minutes.back().is_none_or(|m| m.at < at) {
            self.minutes.push_back(Minute {
                at,
                ..Minute::default()
            });
        }
        let last = self.minutes.len() - 1;
        &mut self.minutes[last]
    }

    /// Those of `wanted` that may be cancelled within the share of the hour's work; they count as lost from now on.
    pub fn affords<'a>(&mut self, view: &View<'_>, wanted: impl Iterator<Item = &'a Running>) -> Vec<u64> {
        let Some(share) = view.cancel else {
            return Vec::new();
        };
        let sum = |of: fn(&Minute) -> f64, hour: &Self| hour.minutes.iter().map(of).sum::<f64>();
        let mut left = share * sum(|m| m.ran, self) - sum(|m| m.lost, self);
        let mut cancelled = Vec::new();
        for attempt in wanted {
            let cost = f64::from(attempt.weight) * attempt.age;
            if cost <= left {
                left -= cost;
                self.minute(view.now).lost += cost;
                cancelled.push(attempt.key);
            }
        }
        cancelled
    }
}
