//! The limit, what is admitted under it, and what is cancelled to brake.

use super::{
    blind::{Asks, Blind, Stage},
    model::{EMPTY, Model, Pair},
    peak::{Running, peak},
    sight::{Before, Sight},
    weights::Weights,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Seconds after any change before the limit may grow, beside the age of the samples.
pub const DWELL: f64 = 240.0;
/// A change of the limit takes a token; one comes every so many seconds.
pub const TOKEN_EVERY: f64 = 690.0;
/// So many are kept at most.
pub const TOKENS: f64 = 12.0;
/// So many are needed to grow. Cuts are never refused.
pub const TO_GROW: f64 = 3.0;
/// The limit of the beginning.
const START: u32 = 2;
/// Lag is held around this share of soft ..
const SET_POINT: f64 = 0.4;
/// .. or less, where one unit too many would cost more than this share of soft before it is shed.
const OVERSHOOT: f64 = 0.25;
/// A distance from the set point is made good within so many seconds.
const WITHIN: f64 = 150.0;
/// The most that is admitted beyond the room to use up lag that is allowed: a constant and a share of the room.
const BEYOND: (f64, f64) = (0.9, 0.02);
/// The limit is cut when it is so far above what is admitted, and is then and when it grows set so far above it.
const SLACK: f64 = 2.5;
const LEAD: f64 = 1.0;
/// It grows when what is admitted comes so near.
const NEAR: f64 = 0.3;
/// Seconds between two cuts.
const CUT_GAP: f64 = 60.0;
/// A queue that was empty for so many seconds is at rest: one more may be tried every so often, not soon after a cut.
const RESTED: f64 = 90.0;
const TRY_EVERY: f64 = 180.0;
const TRY_AFTER_CUT: f64 = 300.0;
/// What goes beyond the room waits so long for its echo.
const ECHO: f64 = 60.0;
/// Calm before a resume in seconds; doubled up to the longest when it is paused again within half an hour.
const HOLD: f64 = 120.0;
const LONGEST_HOLD: f64 = 1_800.0;
const SOON: f64 = 1_800.0;
/// After a pause it goes on with this share of the room.
const RESUMES_AT: f64 = 0.75;
/// With nothing running nothing can be measured: at rest one is tried after so long.
const SLEEPS: f64 = 900.0;
/// Without any model: soft crossed twice in two hours, and for an hour at most this share of the least that ran then.
const CROSSINGS_WITHIN: f64 = 7_200.0;
const GUARD: f64 = 0.7;
const GUARDED_FOR: f64 = 3_600.0;

/// The thresholds, in the unit of the signal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    /// Held below it.
    pub soft: f64,
    /// Nothing starts past it.
    pub hard: f64,
    /// Stops at once past it.
    pub critical: f64,
}

/// What the backfill does at the moment.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Seconds on the law's clock.
    pub now: f64,
    /// What runs.
    pub running: &'a [Running],
    /// Mean length of light chunks, in seconds.
    pub mean: f64,
    /// The weight of the chunk that could start next; `None` if none could.
    pub next: Option<u32>,
    /// The order's own limit.
    pub max_limit: u32,
}

/// What changed the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// Nothing did.
    Same,
    /// The live load leaves less room.
    Cut,
    /// It leaves more.
    Grow,
    /// Lag is past hard or critical, or will be.
    Pause,
    /// It has been calm for long enough.
    Resume,
    /// Nothing runs and nothing waits: one, to learn.
    Probe,
    /// No valid samples.
    Blind,
    /// They come again.
    Seen,
    /// Soft was crossed twice.
    Guard,
    /// `max_limit` was lowered.
    MaxLimit,
}

/// What is decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// The limit.
    pub limit: u32,
    /// What changed it.
    pub rule: Rule,
    /// Attempts to cancel.
    pub cancel: Vec<u64>,
}

/// The law for one signal. See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Law {
    /// On the law's own scale, and what brings a value to it.
    levels: Levels,
    scale: f64,
    model: Model,
    sight: Sight,
    weights: Weights,
    limit: u32,
    /// Running weight that the model allows now.
    admitted: f64,
    tokens: f64,
    counted: f64,
    /// The last valid sample: when it was measured, lag, when it was seen.
    last: Option<(f64, f64, f64)>,
    /// When the first one could have come.
    since: f64,
    valid_in_a_row: u32,
    over_hard: u32,
    rest_since: Option<f64>,
    cut_at: f64,
    changed_at: f64,
    tried_at: f64,
    blind: Blind,
    calm_since: Option<f64>,
    sleeps_since: Option<f64>,
    hold: f64,
    resumed_at: f64,
    is_over_soft: bool,
    /// When soft was crossed upwards, and what ran.
    crossings: VecDeque<(f64, f64)>,
    guard: Option<(f64, u32)>,
}

const NEVER: f64 = -1e9;
/// Soft, in the unit in which the law thinks. Its constants are those of seconds with soft at 60; a signal of messages,
/// or of other thresholds, is brought to that scale: what counts is how far lag is from its thresholds.
const SOFT: f64 = 60.0;

impl Levels {
    /// What a value is worth on the law's own scale.
    fn scale(self) -> f64 {
        SOFT / self.soft.max(f64::MIN_POSITIVE)
    }

    fn scaled(self) -> Self {
        let scale = self.scale();
        Self {
            soft: SOFT,
            hard: self.hard * scale,
            critical: self.critical * scale,
        }
    }
}

impl Law {
    /// At the beginning.
    pub fn new(levels: Levels, max_limit: u32, now: f64) -> Self {
        Self {
            levels: levels.scaled(),
            scale: levels.scale(),
            model: Model::new(max_limit),
            sight: Sight::default(),
            weights: Weights::default(),
            limit: START.min(max_limit),
            admitted: f64::from(START),
            tokens: TOKENS,
            counted: now,
            last: None,
            since: now,
            valid_in_a_row: 0,
            over_hard: 0,
            rest_since: None,
            cut_at: NEVER,
            changed_at: NEVER,
            tried_at: NEVER,
            blind: Blind::default(),
            calm_since: None,
            sleeps_since: None,
            hold: HOLD,
            resumed_at: NEVER,
            is_over_soft: false,
            crossings: VecDeque::new(),
            guard: None,
        }
    }

    /// What is learned of the live pipeline.
    pub const fn model(&self) -> &Model {
        &self.model
    }

    /// The limit.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Running weight that the model allows now; what starts beyond it waits.
    pub const fn admitted(&self) -> f64 {
        self.admitted
    }

    /// What runs from now on. Told at every change.
    pub fn runs(&mut self, now: f64, weight: u32) {
        self.weights.note(now, f64::from(weight));
    }

    /// A sample, by the time of its measurement. Gives back whether it is believed.
    pub fn sample(&mut self, now: f64, measured: f64, lag: f64) -> bool {
        let lag = lag * self.scale;
        let before = self.last.map(|(at, last, _)| Before {
            lag: last,
            apart: measured - at,
            weight: self.weights.mean(at, measured),
        });
        if before.is_some_and(|b| b.apart <= 0.0) || !lag.is_finite() || lag < 0.0 {
            return false;
        }
        if !self.sight.believes(now, lag, before, &self.model) {
            return false;
        }
        let gap = self
            .last
            .is_some_and(|(.., seen)| now - seen > super::blind::BLIND_AFTER);
        self.valid_in_a_row = if gap {
            1
        } else {
            self.valid_in_a_row.saturating_add(1)
        };
        if let Some(before) = before {
            self.model.learn(Pair {
                apart: before.apart,
                from: before.lag,
                to: lag,
                weight: before.weight,
            });
        }
        self.note_rest(measured, lag);
        self.note_thresholds(now, measured, lag);
        self.last = Some((measured, lag, now));
        true
    }

    fn note_rest(&mut self, measured: f64, lag: f64) {
        if lag > EMPTY {
            self.rest_since = None;
            return;
        }
        let since = *self.rest_since.get_or_insert(measured);
        if measured - since >= 60.0 {
            self.model
                .had_room_for(self.weights.mean(measured - 60.0, measured));
        }
    }

    fn note_thresholds(&mut self, now: f64, measured: f64, lag: f64) {
        self.over_hard = if lag > self.levels.hard {
            self.over_hard + 1
        } else {
            0
        };
        let over = lag > self.levels.soft;
        if over && !self.is_over_soft {
            let ran = self.weights.mean(measured - 60.0, measured);
            self.crossings.push_back((now, ran));
        }
        self.is_over_soft = over;
        self.crossings.retain(|(at, _)| now - at < CROSSINGS_WITHIN);
    }

    /// Whether a chunk may start now, with this much running. The limit is not asked here.
    pub fn admits(&mut self, now: f64, running: u32, weight: u32) -> bool {
        let (running, after) = (f64::from(running), f64::from(running.saturating_add(weight)));
        if running == 0.0 && self.limit >= 1 {
            return true;
        }
        if after <= self.admitted {
            // Beyond the room only lag that is allowed is used up: what that does has to be seen first.
            if after <= self.model.room() {
                return true;
            }
            if now - self.tried_at < ECHO {
                return false;
            }
            self.tried_at = now;
            return true;
        }
        let may_try = weight == 1
            && self.is_at_rest(now)
            && now - self.tried_at >= TRY_EVERY + self.age(now)
            && now - self.cut_at > TRY_AFTER_CUT;
        if may_try {
            self.tried_at = now;
        }
        may_try
    }

    /// Whether a heavy chunk may begin at all: there is room beside it, and lag is below the set point.
    pub fn has_room_for_heavy(&self, weight: u32) -> bool {
        let lag = self.last.map_or(0.0, |(_, lag, _)| lag);
        self.limit > weight && lag < SET_POINT * self.levels.soft
    }

    fn is_at_rest(&self, now: f64) -> bool {
        self.rest_since.is_some_and(|since| now - since >= RESTED)
    }

    /// How old the newest valid sample is.
    fn age(&self, now: f64) -> f64 {
        self.last.map_or(0.0, |(measured, ..)| now - measured)
    }

    /// One tick.
    pub fn decide(&mut self, view: &View<'_>) -> Decision {
        let now = view.now;
        self.tokens = (self.tokens + (now - self.counted) / TOKEN_EVERY).min(TOKENS);
        self.counted = now;
        if self.limit > view.max_limit {
            self.set(now, view.max_limit);
            return self.decided(Rule::MaxLimit, Vec::new());
        }
        // Two samples past hard are enough, also when they are the first after a while.
        let mut rule = Rule::Same;
        if self.limit > 0 && self.is_past_its_thresholds() {
            self.pause(now);
            rule = Rule::Pause;
        } else if let Some(decision) = self.blindness(view) {
            return decision;
        }
        let Some((_, lag, _)) = self.last else {
            return self.decided(Rule::Same, Vec::new());
        };
        let foreseen = self.foresee(view, lag);
        if self.limit > 0 && foreseen.peak >= self.levels.hard && lag > 0.4 * self.levels.soft {
            self.pause(now);
            rule = Rule::Pause;
        }
        let cancel = self.cancels(view, lag, &foreseen);
        if rule == Rule::Same {
            rule = if self.limit == 0 {
                self.resume(view, foreseen.lag)
            } else {
                self.steer(view, lag)
            };
        }
        self.decided(rule, cancel)
    }

    const fn decided(&self, rule: Rule, cancel: Vec<u64>) -> Decision {
        Decision {
            limit: self.limit,
            rule,
            cancel,
        }
    }

    fn set(&mut self, now: f64, limit: u32) {
        if limit != self.limit {
            self.limit = limit;
            self.changed_at = now;
            self.tokens -= 1.0;
        }
    }

    fn blindness(&mut self, view: &View<'_>) -> Option<Decision> {
        let now = view.now;
        let seen = self.last.map_or(self.since, |(.., seen)| seen);
        match self.blind.look(now, now - seen, self.limit) {
            Asks::Half => {
                self.set(now, self.limit / 2);
                return Some(self.decided(Rule::Blind, Vec::new()));
            }
            Asks::Stop { hard } => {
                self.set(now, 0);
                let young = |r: &&Running| r.may_be_cancelled && r.age < 0.5 * view.mean;
                let young = view.running.iter().filter(young).map(|r| r.key);
                let cancel = if hard { young.collect() } else { Vec::new() };
                return Some(self.decided(Rule::Blind, cancel));
            }
            Asks::Nothing if self.blind.stage == Stage::Seeing => return None,
            Asks::Nothing => {}
        }
        let sees = now - seen <= super::blind::BLIND_AFTER && self.valid_in_a_row >= 2;
        if !sees {
            return Some(self.decided(Rule::Same, Vec::new()));
        }
        self.model.restart();
        let before = self.blind.seen()?;
        let lag = self.last.map_or(f64::MAX, |(_, lag, _)| lag);
        if before == 0 || lag > self.levels.soft {
            self.set(now, 0);
            self.calm_since = None;
        } else {
            self.set(now, (before / 2).max(1));
        }
        Some(self.decided(Rule::Seen, Vec::new()))
    }

    /// What the model foretells; also what is admitted from now on.
    fn foresee(&mut self, view: &View<'_>, lag: f64) -> Foreseen {
        let age = self.age(view.now);
        let weight: u32 = view.running.iter().map(|r| r.weight).sum();
        let lag = (lag + self.model.slope(f64::from(weight)) * age.min(180.0)).max(0.0);
        let gain = self.model.gain();
        let costs = gain * (age + 60.0 + view.mean / f64::from(self.limit.max(1)));
        let set_point =
            SET_POINT * self.levels.soft / (costs / (OVERSHOOT * self.levels.soft)).clamp(1.0, 3.0);
        let room = self.model.room();
        let beyond = ((set_point - lag) / (WITHIN * gain))
            .clamp(-f64::from(view.max_limit), BEYOND.0 + BEYOND.1 * room.max(0.0));
        self.admitted = room + beyond;
        Foreseen {
            lag,
            weight: f64::from(weight),
            peak: peak(&self.model, lag, view.mean, view.running),
        }
    }

    /// Whatever a model may say.
    fn is_past_its_thresholds(&self) -> bool {
        let is_critical = self.last.is_some_and(|(_, lag, _)| lag >= self.levels.critical);
        is_critical || self.over_hard >= 2
    }

    fn pause(&mut self, now: f64) {
        self.hold = if now - self.resumed_at < SOON {
            (self.hold * 2.0).min(LONGEST_HOLD)
        } else {
            HOLD
        };
        self.set(now, 0);
        (self.cut_at, self.calm_since) = (now, None);
    }

    fn cancels(&self, view: &View<'_>, lag: f64, foreseen: &Foreseen) -> Vec<u64> {
        let Levels { soft, hard, .. } = self.levels;
        let after = |left: &[Running]| peak(&self.model, foreseen.lag, view.mean, left);
        let mut left = view.running.to_vec();
        left.sort_by(|a, b| b.age.total_cmp(&a.age));
        let mut cancelled = Vec::new();
        // Hard is near: the youngest first, as long as that helps.
        let helps = || foreseen.peak - after(&[]) >= 0.15 * hard;
        if foreseen.peak >= 0.5 * hard && lag > 0.25 * soft && helps() {
            let most = (left.len() / 3).max(3);
            while after(&left) >= 0.5 * hard && cancelled.len() < most {
                let Some(at) = left.iter().rposition(|r| r.may_be_cancelled) else {
                    break;
                };
                cancelled.push(left.remove(at).key);
            }
            return cancelled;
        }
        // Soft is near, and more runs than there is room for: one that has hardly begun.
        let too_much = foreseen.weight > f64::from(self.limit) || foreseen.weight > self.admitted + 0.5;
        if foreseen.peak >= 0.5 * soft && lag > 8.0 && too_much {
            let young = |r: &Running| r.weight == 1 && r.may_be_cancelled && r.age < 0.8 * view.mean;
            if let Some(at) = left.iter().rposition(young) {
                let key = left.remove(at).key;
                if foreseen.peak - after(&left) >= 0.05 * hard {
                    cancelled.push(key);
                }
            }
        }
        cancelled
    }

    fn resume(&mut self, view: &View<'_>, lag: f64) -> Rule {
        let (now, room) = (view.now, self.model.room());
        let most = view.max_limit.min(self.guarded(now));
        let calm = lag <= self.levels.soft / 2.0 && self.admitted >= 1.0;
        let since = calm.then(|| self.calm_since.unwrap_or(now));
        self.calm_since = since;
        if since.is_some_and(|since| now - since >= self.hold) {
            self.set(now, ((RESUMES_AT * room).max(1.0) as u32).min(most));
            (self.resumed_at, self.calm_since) = (now, None);
            return Rule::Resume;
        }
        let sleeps = self.rest_since.is_some() && room < 1.0;
        let since = sleeps.then(|| self.sleeps_since.unwrap_or(now));
        self.sleeps_since = since;
        if since.is_some_and(|since| now - since >= SLEEPS) {
            self.set(now, 1.min(most));
            (self.resumed_at, self.sleeps_since) = (now, None);
            return Rule::Probe;
        }
        Rule::Same
    }

    /// The limit that the guard allows.
    fn guarded(&self, now: f64) -> u32 {
        self.guard
            .filter(|(until, _)| now < *until)
            .map_or(u32::MAX, |(_, limit)| limit)
    }

    /// The coarse limit follows what is admitted from afar.
    fn steer(&mut self, view: &View<'_>, lag: f64) -> Rule {
        let now = view.now;
        if self.crossings.len() >= 2 {
            let least = self
                .crossings
                .iter()
                .map(|(_, ran)| *ran)
                .fold(f64::MAX, f64::min);
            self.guard = Some((now + GUARDED_FOR, (GUARD * least).max(1.0) as u32));
            self.crossings.clear();
        }
        let guarded = self.guarded(now);
        if self.limit > guarded {
            self.set(now, guarded);
            self.cut_at = now;
            return Rule::Guard;
        }
        let limit = f64::from(self.limit);
        let wanted = (self.admitted + LEAD).ceil().max(1.0) as u32;
        if lag > EMPTY && limit - self.admitted > SLACK && now - self.cut_at > CUT_GAP && wanted < self.limit
        {
            self.set(now, wanted);
            self.cut_at = now;
            return Rule::Cut;
        }
        let running: u32 = view.running.iter().map(|r| r.weight).sum();
        let full = view
            .next
            .is_some_and(|next| running.saturating_add(next) > self.limit);
        let near = self.admitted + NEAR > limit || self.is_at_rest(now);
        let may = self.tokens >= TO_GROW && now - self.changed_at > DWELL + self.age(now);
        let most = view.max_limit.min(guarded);
        if full && near && may && self.limit < most {
            let step = (self.limit / 4).max(2);
            let to = wanted.max(self.limit + 1).min(self.limit + step).min(most);
            self.set(now, to);
            return Rule::Grow;
        }
        Rule::Same
    }
}

struct Foreseen {
    /// Lag now, not when it was measured.
    lag: f64,
    weight: f64,
    peak: f64,
}
