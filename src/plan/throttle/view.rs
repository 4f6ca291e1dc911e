//! What screen, `status` and `why` ask the controller.

use super::{
    Now, SignalLevels, Throttle,
    control::{Control, Phase},
    lower::time_to_hard,
    rise::advises_growth,
    sight::Stage,
    words::duration,
};
use crate::{
    domain::{Time, event::Rule, ids::Name, spec::Law, tuning::Tuning},
    plan::room::{Admission, Terms},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the controller is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThrottleState {
    /// Nothing holds back but `max_limit` and the pace of growth.
    Open,
    /// Lag made it lower the limit.
    Cut,
    /// On the way back to a former limit.
    Recovering,
    /// A protecting signal has not given two valid samples yet.
    Waiting,
    /// Stopped by a signal; resumes by itself.
    PausedAuto,
    /// Stopped until a human acknowledges.
    Latched,
    /// A protecting signal gives no valid samples.
    Blind,
    /// Stopped by a signal over critical; hibernates.
    Critical,
}

impl ThrottleState {
    /// The word in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Cut => "cut",
            Self::Recovering => "recovering",
            Self::Waiting => "waiting",
            Self::PausedAuto => "paused",
            Self::Latched => "latched",
            Self::Blind => "blind",
            Self::Critical => "critical",
        }
    }
}

/// A limit that is not exceeded for a while, because a higher one went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The highest limit.
    pub limit: u32,
    /// Time left, if nothing above holds the work meanwhile.
    pub left: Duration,
}

/// A signal without valid samples, and what follows from it when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlindReport {
    /// The signal.
    pub signal: Name,
    /// Wall time of the last valid sample, or when looking began.
    pub since: Time,
    /// How long ago that was.
    pub age: Duration,
    /// What is wrong, in words.
    pub why: String,
    /// Limit when it went blind, and when it is or was halved.
    pub halves: (u32, Time),
    /// When starts stop or stopped.
    pub stops: Time,
    /// Starts have stopped.
    pub stopped: bool,
    /// The signal protects; otherwise it only freezes growth.
    pub protects: bool,
}

impl BlindReport {
    /// `no valid sample of orders-live since 03:06:10: no growth, limit 8 to 4 at 03:08:10, no new starts from 03:11:10
    /// (in 50s)`; `clock` writes an instant in the reader's zone.
    pub fn sentence(&self, now: Time, clock: impl Fn(Time) -> String) -> String {
        let mut text = format!(
            "no valid sample of {} since {}: no growth",
            self.signal,
            clock(self.since)
        );
        if !self.protects {
            return text;
        }
        let (before, at) = self.halves;
        if before > 0 {
            text.push_str(&format!(", limit {before} to {} at {}", before / 2, clock(at)));
        }
        let from = if self.stopped { "since" } else { "from" };
        text.push_str(&format!(", no new starts {from} {}", clock(self.stops)));
        if let Ok(left) = (self.stops - now).to_std()
            && !self.stopped
        {
            text.push_str(&format!(" (in {})", duration(left)));
        }
        text
    }
}

/// One signal as the controller sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalReport {
    /// Its name.
    pub name: Name,
    /// Role *protect*, else *advise*.
    pub protects: bool,
    /// Its own limit; `None` for a signal that only advises.
    pub proposes: Option<u32>,
    /// What it is doing.
    pub state: ThrottleState,
    /// It keeps the limit from growing at the moment: not fresh, or an advising one at its soft.
    pub freezes_growth: bool,
    /// Newest valid value, in its unit.
    pub last: Option<f64>,
    /// Smoothed value.
    pub mean: Option<f64>,
    /// Units per second; `None` with fewer than eight samples in the window.
    pub slope: Option<f64>,
    /// When a rising slope reaches hard.
    pub to_hard: Option<Duration>,
    /// When a falling slope comes below soft (C2's drain time).
    pub to_soft: Option<Duration>,
    /// When a falling slope comes below low.
    pub to_low: Option<Duration>,
    /// Bad-limit memory.
    pub ceiling: Option<Ceiling>,
    /// While paused: the limit of the resume.
    pub resumes_at: Option<u32>,
    /// While paused and low and flat: time left until the resume. `None` while it is not low and flat.
    pub hold_left: Option<Duration>,
    /// While critical: time left of the hibernation.
    pub hibernates: Option<Duration>,
    /// Set while blind.
    pub blind: Option<BlindReport>,
}

/// The controller, for the screen and for `why`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The controller's limit; [`super::authority::effective_limit`] makes the effective one of it.
    pub limit: u32,
    /// What it is doing.
    pub state: ThrottleState,
    /// The binding signal; `None` when `max_limit` binds.
    pub binding: Option<Name>,
    /// The rule of the last change.
    pub rule: Rule,
    /// The sentence of the last change, without instants.
    pub why: String,
    /// Gap between starts, while they are paced.
    pub start_gap: Option<Duration>,
    /// Pauses by signals within the latch window, and how many of them latch.
    pub pauses: (usize, usize),
    /// All signals by name.
    pub signals: Vec<SignalReport>,
    /// By which law lag sets the limit.
    pub law: Law,
    /// What the learned law last went by, and of which signal.
    pub terms: Option<(Name, Terms)>,
    /// What it admits under the limit.
    pub admission: Option<Admission>,
}

impl Report {
    /// The protecting signal that is blind longest.
    pub fn blind(&self) -> Option<&BlindReport> {
        self.signals
            .iter()
            .filter_map(|s| s.blind.as_ref())
            .filter(|b| b.protects)
            .min_by_key(|b| b.since)
    }
}

impl Throttle {
    /// What the controller is doing. A blind signal shows as soon as it is blind, unless a stop outranks it.
    pub fn state(&self) -> ThrottleState {
        let any_blind = self.protecting().any(|(_, _, c)| c.sight.blind.is_some());
        let limit = self.limit();
        let named = self
            .protecting()
            .filter(|(_, _, c)| c.limit <= limit)
            .max_by_key(|(_, _, c)| c.severity());
        let state = named.map_or(ThrottleState::Open, |(_, _, c)| state_of(c));
        match state {
            ThrottleState::Critical | ThrottleState::PausedAuto | ThrottleState::Latched => state,
            _ if any_blind => ThrottleState::Blind,
            _ => state,
        }
    }

    /// Least time between two starts, while starts are paced.
    pub fn start_gap(&self, tuning: &Tuning) -> Option<Duration> {
        self.state.pace.map(|_| tuning.start_gap)
    }

    /// Everything to show.
    pub fn report(&self, now: Now, tuning: &Tuning) -> Report {
        let said = self.announced();
        let recent = |t: &&super::control::LawTick| self.state.law.since(**t) <= tuning.latch_window;
        Report {
            limit: self.limit(),
            state: self.state(),
            binding: self.binding().map(|(name, _, _)| name.clone()),
            rule: said.rule,
            why: said.why.clone(),
            start_gap: self.start_gap(tuning),
            pauses: (
                self.state.pauses.iter().filter(recent).count(),
                super::lower::LATCH_AT,
            ),
            signals: self
                .all()
                .map(|(name, levels, control)| self.signal_report(name, levels, control, now, tuning))
                .collect(),
            law: self.law(),
            terms: self.terms().map(|(name, terms)| (name.clone(), *terms)),
            admission: self.admission(now, tuning),
        }
    }

    fn signal_report(
        &self,
        name: &Name,
        levels: &SignalLevels,
        control: &Control,
        now: Now,
        tuning: &Tuning,
    ) -> SignalReport {
        let law = self.state.law;
        let paused = control.paused();
        // A latched one waits for a human, however calm it is.
        let resumes = paused.filter(|p| !p.latched);
        let fresh = control.sight.is_fresh(levels, now.boot) && !control.track.is_lone();
        SignalReport {
            name: name.clone(),
            protects: levels.protects,
            proposes: levels.protects.then(|| control.limit.min(self.state.max_limit)),
            state: state_of(control),
            freezes_growth: if levels.protects {
                !fresh
            } else {
                !advises_growth(levels, control, now)
            },
            last: control.track.last(),
            mean: control.track.mean(),
            slope: control.track.slope(),
            to_hard: time_to_hard(control, levels),
            to_soft: falls_to(control, levels.soft),
            to_low: falls_to(control, levels.low),
            ceiling: control.ceiling.filter(|m| m.until > law).map(|m| Ceiling {
                limit: m.limit,
                left: m.until.since(law),
            }),
            resumes_at: resumes.map(|p| (p.former / 2).max(1)),
            hold_left: resumes.and_then(|p| {
                let calm = law.since(control.calm_since?);
                let rest = tuning.pause_min.saturating_sub(law.since(p.since));
                Some(p.hold.saturating_sub(calm).max(rest))
            }),
            hibernates: paused.and_then(|p| Some(p.hibernates_until?.since(law))),
            blind: blind_report(name, levels, control, now, tuning),
        }
    }
}

fn state_of(control: &Control) -> ThrottleState {
    let blind = control.sight.blind.is_some();
    match &control.phase {
        Phase::Paused(p) if p.hibernates_until.is_some() => ThrottleState::Critical,
        _ if blind => ThrottleState::Blind,
        Phase::Paused(p) if p.latched => ThrottleState::Latched,
        Phase::Paused(_) => ThrottleState::PausedAuto,
        Phase::Waiting => ThrottleState::Waiting,
        Phase::Returning { .. } if control.limit == 0 => ThrottleState::Waiting,
        Phase::Returning { .. } | Phase::Recovering { .. } => ThrottleState::Recovering,
        Phase::Cut => ThrottleState::Cut,
        Phase::Open => ThrottleState::Open,
    }
}

/// When a falling slope comes down to a level that the mean is above.
fn falls_to(control: &Control, level: f64) -> Option<Duration> {
    let (mean, slope) = (control.track.mean()?, control.track.slope()?);
    if slope >= 0.0 || mean <= level {
        return None;
    }
    Duration::try_from_secs_f64((mean - level) / -slope).ok()
}

fn blind_report(
    name: &Name,
    levels: &SignalLevels,
    control: &Control,
    now: Now,
    tuning: &Tuning,
) -> Option<BlindReport> {
    let blind = control.sight.blind.as_ref()?;
    Some(BlindReport {
        signal: name.clone(),
        since: now.wall_of(blind.since),
        age: now.boot.since(blind.since),
        why: blind.why.clone(),
        halves: (blind.before, now.wall_of(blind.since.plus(tuning.blind_halve))),
        stops: now.wall_of(blind.since.plus(tuning.blind_stop)),
        stopped: blind.stage == Stage::Stopped,
        protects: levels.protects,
    })
}
