//! *Was it us?* under the classic law: whether lag turned after what runs had fallen by half. Measured after each pause
//! and said once. The learned law knows it beforehand, from its model.

use super::{SignalLevels, Throttle, control::Phase, exact, track::Point, words};
use crate::{
    config::Unit,
    domain::{ids::Name, tuning::Tuning},
    host::BootInstant,
};
use serde::{Deserialize, Serialize};

/// Samples after the fall without which there is no slope.
const LEAST: u32 = 8;

/// What was at the pause, and the samples since the running weight fell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Watch {
    /// Running weight at the pause; at least 1.
    weight: u32,
    /// Slope at the pause, in units per second.
    #[serde(with = "exact")]
    slope: f64,
    after: Option<Line>,
}

/// Sums of a least-squares line through samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line {
    since: BootInstant,
    /// Running weight when it began.
    weight: u32,
    n: u32,
    #[serde(with = "exact")]
    t: f64,
    #[serde(with = "exact")]
    x: f64,
    #[serde(with = "exact")]
    tt: f64,
    #[serde(with = "exact")]
    tx: f64,
}

impl Line {
    const fn new(since: BootInstant, weight: u32) -> Self {
        Self {
            since,
            weight,
            n: 0,
            t: 0.0,
            x: 0.0,
            tt: 0.0,
            tx: 0.0,
        }
    }

    fn take(&mut self, sample: Point) {
        let t = sample.at.since(self.since).as_secs_f64();
        self.n += 1;
        self.t += t;
        self.x += sample.value;
        self.tt += t * t;
        self.tx += t * sample.value;
    }

    fn slope(&self) -> Option<f64> {
        let n = f64::from(self.n);
        let spread = n * self.tt - self.t * self.t;
        (self.n >= LEAST && spread > 0.0).then(|| (n * self.tx - self.t * self.x) / spread)
    }
}

impl Watch {
    /// Lag and running weight at a pause; `None` where lag did not rise, so that nothing can be told from how it goes on.
    pub fn begin(slope: Option<f64>, running: u32, levels: &SignalLevels) -> Option<Self> {
        let slope = slope.filter(|s| *s > levels.flat())?;
        (running > 0).then_some(Self {
            weight: running,
            slope,
            after: None,
        })
    }

    /// Takes in a sample; gives the sentence when it can be told.
    fn take(
        &mut self,
        sample: Point,
        running: u32,
        levels: &SignalLevels,
        tuning: &Tuning,
    ) -> Option<String> {
        if self.after.is_none() && running.saturating_mul(2) > self.weight {
            return None;
        }
        let line = self.after.get_or_insert_with(|| Line::new(sample.at, running));
        line.take(sample);
        let slope = line.slope()?;
        if sample.at.since(line.since) < tuning.slope_window / 2 {
            return None;
        }
        let (before, after) = (speed(self.slope, levels.unit), speed(slope, levels.unit));
        let (weight, left) = (self.weight, line.weight);
        Some(if slope <= self.slope / 2.0 {
            format!("ours, it seems: lag went {before} with {weight} running, and {after} since {left} do")
        } else {
            format!(
                "not ours, it seems: lag went {before} with {weight} running, and still {after} since {left} do"
            )
        })
    }
}

/// `+12 s/min`, `-1,200/min`.
fn speed(slope: f64, unit: Unit) -> String {
    let sign = if slope < 0.0 { "" } else { "+" };
    let per_minute = words::number(slope * 60.0);
    match unit {
        Unit::Seconds => format!("{sign}{per_minute} s/min"),
        Unit::Messages | Unit::Alerts => format!("{sign}{per_minute}/min"),
    }
}

impl Throttle {
    /// Begins to measure, right after a pause by the signal.
    pub(super) fn watch_pause(&mut self, name: &Name, running: u32) {
        let Some(levels) = self.levels.get(name).filter(|l| l.unit != Unit::Alerts) else {
            return;
        };
        let Some(control) = self.state.signals.get_mut(name) else {
            return;
        };
        let slope = control.track.slope();
        if let Phase::Paused(paused) = &mut control.phase {
            paused.watch = Watch::begin(slope, running, levels);
            if running == 0 {
                control.reason.text.push_str("; not ours: nothing of ours ran");
            }
        }
    }

    /// Says whether it was us as soon as that can be told. `true`: it was said, and is to be announced.
    pub(super) fn was_it_us(&mut self, name: &Name, running: u32, tuning: &Tuning) -> bool {
        let Some((levels, control)) = self.levels.get(name).zip(self.state.signals.get_mut(name)) else {
            return false;
        };
        let Some(sample) = control.track.newest() else {
            return false;
        };
        let Phase::Paused(paused) = &mut control.phase else {
            return false;
        };
        let Some(sentence) = paused
            .watch
            .as_mut()
            .and_then(|w| w.take(sample, running, levels, tuning))
        else {
            return false;
        };
        paused.watch = None;
        control.reason.text.push_str("; ");
        control.reason.text.push_str(&sentence);
        self.retell = true;
        true
    }
}
