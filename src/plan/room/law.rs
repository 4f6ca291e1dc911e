//! The law: what it knows, what it takes in, and its tick.

use super::{
    blind::{Asks, Blind, Stage},
    hour::Hour,
    model::{EMPTY, LONGEST_PAIR, Model, Pair},
    peak::Running,
    sight::{Before, Doubt, Sight},
    steer::{Foreseen, TO_GROW},
    terms::{Blame, Decision, Levels, Rule, Terms, View},
    times::Times,
    weights::Weights,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// So many tokens are kept at most; a change of the limit takes one.
pub const TOKENS: f64 = 12.0;
/// The limit of the beginning.
const START: u32 = 2;

/// The law for one signal. See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Law {
    /// On the law's own scale, and what brings a value to it.
    pub(super) levels: Levels,
    pub(super) scale: f64,
    pub(super) model: Model,
    pub(super) sight: Sight,
    pub(super) weights: Weights,
    pub(super) limit: u32,
    /// Running weight that the model allows now.
    pub(super) admitted: f64,
    pub(super) tokens: f64,
    pub(super) counted: f64,
    /// The last valid sample: when it was measured, lag, when it was seen.
    pub(super) last: Option<(f64, f64, f64)>,
    /// When the first one could have come.
    pub(super) since: f64,
    pub(super) valid_in_a_row: u32,
    pub(super) over_hard: u32,
    pub(super) rest_since: Option<f64>,
    pub(super) cut_at: f64,
    pub(super) changed_at: f64,
    pub(super) tried_at: f64,
    pub(super) blind: Blind,
    pub(super) calm_since: Option<f64>,
    pub(super) sleeps_since: Option<f64>,
    pub(super) hold: f64,
    pub(super) resumed_at: f64,
    pub(super) is_over_soft: bool,
    /// When soft was crossed upwards, and what ran.
    pub(super) crossings: VecDeque<(f64, f64)>,
    pub(super) guard: Option<(f64, u32)>,
    pub(super) hour: Hour,
    /// When lag past soft last cost an attempt.
    pub(super) braked_at: f64,
    /// When an attempt was last ended to brake, for whatever reason.
    #[serde(default = "never")]
    pub(super) ended_at: f64,
}

const fn never() -> f64 {
    NEVER
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
            interval: self.interval,
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
            hold: 0.0,
            resumed_at: NEVER,
            is_over_soft: false,
            crossings: VecDeque::new(),
            guard: None,
            hour: Hour::default(),
            braked_at: NEVER,
            ended_at: NEVER,
        }
    }

    /// The same with other thresholds, or another pace of looks; what was learned is forgotten with its scale.
    #[must_use]
    pub fn about(self, levels: Levels, max_limit: u32, now: f64) -> Self {
        if self.levels == levels.scaled() && self.scale == levels.scale() {
            return self;
        }
        Self::new(levels, max_limit, now)
    }

    /// Somebody who knows says that what is seen is true: the next sample is believed, whatever came before it.
    pub fn believe(&mut self) {
        self.sight.believe();
        self.model.restart();
        self.last = None;
    }

    /// Its clock started anew: no time of the old one means anything. What it learned stays.
    pub fn restart(&mut self, now: f64) {
        let (levels, scale, limit) = (self.levels, self.scale, self.limit);
        let mut model = self.model.clone();
        model.restart();
        let blind = Blind::lost(limit);
        *self = Self {
            levels,
            scale,
            model,
            blind,
            limit: 0,
            ..Self::new(levels, 1, now)
        };
    }

    /// Something of higher authority held the work for so long: nothing aged.
    pub fn held(&mut self, seconds: f64) {
        for time in [
            &mut self.counted,
            &mut self.cut_at,
            &mut self.changed_at,
            &mut self.tried_at,
            &mut self.resumed_at,
            &mut self.braked_at,
            &mut self.ended_at,
        ] {
            *time += seconds;
        }
        self.calm_since = None;
        self.sleeps_since = None;
        self.crossings.iter_mut().for_each(|(at, _)| *at += seconds);
        if let Some((until, _)) = &mut self.guard {
            *until += seconds;
        }
    }

    /// Whose doing it is that lag moves as it does with so much running.
    pub fn blame(&self, weight: u32) -> Blame {
        if self.model.drift() >= 0.0 {
            Blame::Theirs
        } else if self.model.slope(f64::from(weight)) > 0.0 {
            Blame::Ours
        } else {
            Blame::Nobody
        }
    }

    /// Calm before the resume of the present pause, in seconds.
    pub const fn hold(&self) -> f64 {
        self.hold
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
        let (before, weight) = (self.weights.now(), f64::from(weight));
        // What goes beyond the room uses up lag that is allowed, or tries: what that does has to be seen first.
        if weight > before && weight > self.model.room().min(self.admitted) {
            self.tried_at = now;
        }
        self.hour.ran(now, before);
        self.weights.note(now, weight);
    }

    /// A sample, by the time of its measurement.
    ///
    /// # Errors
    /// Why it is not believed. It counts as none then.
    pub fn sample(&mut self, now: f64, measured: f64, lag: f64, times: &Times) -> Result<(), Doubt> {
        let lag = lag * self.scale;
        let before = self.last.map(|(at, last, _)| Before {
            lag: last,
            apart: measured - at,
            weight: self.weights.mean(at, measured),
        });
        if before.is_some_and(|b| b.apart <= 0.0) || !lag.is_finite() || lag < 0.0 {
            return Err(Doubt::Old);
        }
        let leapt = self.sight.has_leapt();
        if let Err(doubt) = self
            .sight
            .doubt(now, lag, before, &self.model, &times.of(self.levels.interval))
        {
            // Two such samples are two past hard.
            if doubt == Doubt::Leapt && lag > self.levels.hard {
                self.over_hard = 1;
            }
            return Err(doubt);
        }
        if self.sight.is_on_trust() {
            self.begin_again();
        }
        let patience = times.of(self.levels.interval).blind_after;
        let gap = self.last.is_some_and(|(.., seen)| now - seen > patience);
        self.valid_in_a_row = if gap {
            1
        } else {
            self.valid_in_a_row.saturating_add(1)
        };
        if leapt {
            // The slope of a leap is none.
            self.model.restart();
        } else if let Some(before) = before {
            self.model.learn(Pair {
                apart: before.apart,
                from: before.lag,
                to: lag,
                weight: before.weight,
                longest: LONGEST_PAIR.max(2.5 * self.levels.interval),
            });
        }
        self.note_rest(measured, lag);
        self.note_thresholds(now, measured, lag, times);
        self.last = Some((measured, lag, now));
        Ok(())
    }

    /// What is seen may be wrong, and nobody said that it is true: what was learned of the room is not relied on.
    fn begin_again(&mut self) {
        self.model.forget_room();
        self.blind.before = self.blind.before.min(START);
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

    fn note_thresholds(&mut self, now: f64, measured: f64, lag: f64, times: &Times) {
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
        self.crossings.retain(|(at, _)| now - at < times.crossings);
    }

    pub(super) fn is_at_rest(&self, now: f64, times: &Times) -> bool {
        self.rest_since.is_some_and(|since| now - since >= times.rested)
    }

    /// How old the newest valid sample is.
    pub(super) fn age(&self, now: f64) -> f64 {
        self.last.map_or(0.0, |(measured, ..)| now - measured)
    }

    /// One tick.
    pub fn decide(&mut self, view: &View<'_>) -> Decision {
        let (rule, cancel, foreseen) = self.judge(view);
        Decision {
            limit: self.limit,
            rule,
            cancel,
            terms: foreseen.map(|f| self.terms(view, &f)),
        }
    }

    fn judge(&mut self, view: &View<'_>) -> (Rule, Vec<u64>, Option<Foreseen>) {
        let judged = self.judged(view);
        if !judged.1.is_empty() {
            self.ended_at = view.now;
        }
        judged
    }

    fn judged(&mut self, view: &View<'_>) -> (Rule, Vec<u64>, Option<Foreseen>) {
        let now = view.now;
        self.limit = view.limit;
        self.tokens = (self.tokens + (now - self.counted) / view.times.token_every).min(TOKENS);
        self.counted = now;
        if self.limit > view.max_limit {
            self.set(now, view.max_limit);
            return (Rule::MaxLimit, Vec::new(), None);
        }
        // Two samples past hard are enough, also when they are the first after a while, or when nothing runs already
        // because there was no room.
        let mut rule = self
            .past_thresholds()
            .filter(|_| !view.paused)
            .unwrap_or(Rule::Same);
        if rule == Rule::Same
            && let Some((rule, cancel)) = self.blindness(view)
        {
            return (rule, cancel, None);
        }
        let Some((_, lag, _)) = self.last else {
            return (Rule::Same, Vec::new(), None);
        };
        let foreseen = self.foresee(view, lag);
        let will_be = foreseen.peak.0 >= self.levels.hard && lag > 0.4 * self.levels.soft;
        if rule == Rule::Same && self.limit > 0 && will_be {
            rule = Rule::Foreseen;
        }
        if rule != Rule::Same {
            self.pause(now, &view.times);
        }
        let cancel = self.cancels(view, lag, &foreseen);
        let wanted = view.running.iter().filter(|r| cancel.contains(&r.key));
        let cancel = self.hour.affords(view, wanted);
        if rule == Rule::Same {
            rule = if self.limit == 0 {
                self.resume(view, foreseen.lag)
            } else {
                self.steer(view, lag)
            };
        }
        (rule, cancel, Some(foreseen))
    }

    fn terms(&self, view: &View<'_>, foreseen: &Foreseen) -> Terms {
        let own = |lag: f64| lag / self.scale;
        Terms {
            room: self.model.room(),
            running: view.running.iter().map(|r| r.weight).sum(),
            costs: own(self.model.gain() * 60.0),
            drift: own(self.model.drift() * 60.0),
            lag: own(foreseen.lag),
            peak: (own(foreseen.peak.0), foreseen.peak.1),
            set_point: own(foreseen.set_point),
            admitted: self.admitted,
            tokens: (self.tokens, TO_GROW),
            guard: self
                .guard
                .filter(|(until, _)| *until > view.now)
                .map(|(until, limit)| (limit, until - view.now)),
            next: self.last.and_then(|(_, lag, _)| self.next(view, lag)),
        }
    }

    pub(super) fn set(&mut self, now: f64, limit: u32) {
        if limit != self.limit {
            self.limit = limit;
            self.changed_at = now;
            self.tokens -= 1.0;
        }
    }

    fn blindness(&mut self, view: &View<'_>) -> Option<(Rule, Vec<u64>)> {
        let now = view.now;
        let seen = self.last.map_or(self.since, |(.., seen)| seen);
        let times = view.times.of(self.levels.interval);
        match self.blind.look(now, now - seen, self.limit, &times) {
            Asks::Half => {
                self.set(now, self.limit / 2);
                return Some((Rule::Blind, Vec::new()));
            }
            Asks::Stop { hard } => {
                self.set(now, 0);
                let young = |r: &&Running| r.may_be_cancelled && r.age < 0.5 * view.mean;
                let young = view.running.iter().filter(young);
                let cancel = if hard {
                    self.hour.affords(view, young)
                } else {
                    Vec::new()
                };
                return Some((Rule::Blind, cancel));
            }
            Asks::Nothing if self.blind.stage == Stage::Seeing => return None,
            Asks::Nothing => {}
        }
        let sees = now - seen <= times.blind_after && self.valid_in_a_row >= 2;
        // What was taken away is not given back before all the others are seen, too.
        let waits = !view.fresh && self.blind.stage != Stage::Frozen;
        if !sees || waits {
            return Some((Rule::Same, Vec::new()));
        }
        self.model.restart();
        let before = self.blind.seen()?;
        let lag = self.last.map_or(f64::MAX, |(_, lag, _)| lag);
        if before == 0 || lag > self.levels.soft || !view.may_resume {
            self.set(now, 0);
            self.calm_since = None;
        } else {
            // `max_limit` may have been lowered in the dark.
            self.set(now, (before / 2).max(1).min(view.max_limit));
        }
        Some((Rule::Seen, Vec::new()))
    }

    /// Whatever a model may say.
    fn past_thresholds(&self) -> Option<Rule> {
        if self.over_hard < 2 {
            return None;
        }
        let critical = self.last.is_some_and(|(_, lag, _)| lag >= self.levels.critical);
        Some(if critical { Rule::Critical } else { Rule::Pause })
    }

    fn pause(&mut self, now: f64, times: &Times) {
        self.hold = if now - self.resumed_at < times.soon {
            (self.hold * 2.0).clamp(times.hold, times.longest_hold)
        } else {
            times.hold
        };
        self.set(now, 0);
        (self.cut_at, self.calm_since) = (now, None);
    }
}
