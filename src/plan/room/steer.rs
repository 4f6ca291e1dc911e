//! How the limit is steered, what is admitted under it, and what is cancelled to brake.

use super::{
    law::Law,
    model::EMPTY,
    peak::{Running, peak},
    terms::{Admission, Levels, Next, Rule, View},
    times::Times,
};

/// So many are needed to grow. Cuts are never refused.
pub const TO_GROW: f64 = 3.0;
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
/// From this share of soft on a light chunk may be cancelled to brake however old it is, one at a time.
const PAST: f64 = 0.75;
/// A heavy chunk runs for long, and the live load changes meanwhile: it needs so many times its weight of room to begin.
const FOR_HEAVY: f64 = 2.5;
/// Lag past soft is worked off where so much less runs than there is room for.
const SPARE: f64 = 0.5;
/// Lag above this share of soft is too much for a single chunk where there is no room for one.
const CROWDED: f64 = 0.5;
/// It grows when what is admitted comes so near.
const NEAR: f64 = 0.3;
/// After a pause it goes on with this share of the room.
const RESUMES_AT: f64 = 0.75;
/// At no more lag than this share of soft one is tried with nothing running, however little room there seems to be.
const LITTLE: f64 = 0.25;
/// Without any model: soft crossed twice, and for a while at most this share of the least that ran then.
const GUARD: f64 = 0.7;

/// What the model foretells.
pub(super) struct Foreseen {
    /// Lag now, not when it was measured.
    pub lag: f64,
    pub weight: f64,
    /// The highest lag, and in how many seconds.
    pub peak: (f64, f64),
    pub set_point: f64,
}

impl Law {
    /// What may start now beside what was last told to run. The limit is not asked here, except that at nothing nothing starts.
    pub fn admission(&self, now: f64, times: &Times) -> Admission {
        let (room, ran) = (self.model.room().max(0.0), self.weights.now());
        let lag = self.last.map_or(0.0, |(_, lag, _)| lag);
        let echo = times.echo - (now - self.tried_at);
        // A start past the room, within what is admitted; or one more of a queue that is at rest, to learn.
        let beyond = ran + 1.0 <= self.admitted && ran + 1.0 > room;
        let at_rest = (times.try_every + self.age(now) - (now - self.tried_at))
            .max(times.try_after_cut - (now - self.cut_at))
            .max(times.rested - self.rest_since.map_or(0.0, |since| now - since));
        let one_more = match (beyond, self.rest_since) {
            (true, _) => Some(echo),
            (false, Some(_)) => Some(at_rest),
            (false, None) => None,
        };
        let rests = self.rests_after_brake(now, times);
        if ran == 0.0 && rests > 0.0 {
            return Admission {
                up_to: 0,
                one_more: false,
                one_more_in: Some(rests),
                heavy: 0,
                first: false,
            };
        }
        Admission {
            up_to: room.min(self.admitted).max(0.0).floor() as u32,
            one_more: one_more.is_some_and(|wait| wait <= 0.0),
            one_more_in: one_more.filter(|wait| *wait > 0.0),
            heavy: if lag < SET_POINT * self.levels.soft {
                self.limit.saturating_sub(1).min((room / FOR_HEAVY) as u32)
            } else {
                0
            },
            first: true,
        }
    }

    /// How long nothing starts after attempts were ended to brake and nothing runs any more. The lag on which that was
    /// decided is the same a second later: who ends an attempt and begins it again at once does so for ever.
    fn rests_after_brake(&self, now: f64, times: &Times) -> f64 {
        let rest = if self.model.room() >= 1.0 {
            times.echo + self.age(now)
        } else {
            times.try_after_cut
        };
        rest - (now - self.ended_at)
    }

    /// What the model foretells; also what is admitted from now on.
    pub(super) fn foresee(&mut self, view: &View<'_>, lag: f64) -> Foreseen {
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
            set_point,
        }
    }

    /// The attempts whose end is to brake.
    pub(super) fn cancels(&mut self, view: &View<'_>, lag: f64, foreseen: &Foreseen) -> Vec<u64> {
        let Levels { soft, hard, .. } = self.levels;
        let mut left = view.running.to_vec();
        left.sort_by(|a, b| b.age.total_cmp(&a.age));
        let after = |left: &[Running]| peak(&self.model, foreseen.lag, view.mean, left).0;
        let helps = || foreseen.peak.0 - after(&[]) >= 0.15 * hard;
        if foreseen.peak.0 >= 0.5 * hard && lag > 0.25 * soft && helps() {
            return Self::until_hard_is_far(left, |left| after(left) < 0.5 * hard);
        }
        if lag > PAST * soft && view.now - self.braked_at > view.times.echo {
            let cancelled = self.one_past_soft(&left, foreseen);
            if cancelled.is_some() {
                self.braked_at = view.now;
            }
            return cancelled.into_iter().collect();
        }
        // Soft is near, and more runs than there is room for: one that has hardly begun.
        let too_much = foreseen.weight > f64::from(self.limit) || foreseen.weight > self.admitted + 0.5;
        if !(foreseen.peak.0 >= 0.5 * soft && lag > 8.0 && too_much) {
            return Vec::new();
        }
        let young = |r: &Running| r.weight == 1 && r.may_be_cancelled && r.age < 0.8 * view.mean;
        let Some(at) = left.iter().rposition(young) else {
            return Vec::new();
        };
        let key = left.remove(at).key;
        if foreseen.peak.0 - after(&left) >= 0.05 * hard {
            vec![key]
        } else {
            Vec::new()
        }
    }

    /// The youngest first, as long as hard is near, and at most a third at a time.
    fn until_hard_is_far(mut left: Vec<Running>, is_far: impl Fn(&[Running]) -> bool) -> Vec<u64> {
        let most = (left.len() / 3).max(3);
        let mut cancelled = Vec::new();
        while cancelled.len() < most && !is_far(&left) {
            let Some(at) = left.iter().rposition(|r| r.may_be_cancelled) else {
                break;
            };
            cancelled.push(left.remove(at).key);
        }
        cancelled
    }

    /// Past soft, with no room to work it off: the youngest light one, however old it is.
    fn one_past_soft(&self, left: &[Running], foreseen: &Foreseen) -> Option<u64> {
        if foreseen.weight < self.model.room() - SPARE {
            return None;
        }
        let light = |r: &&Running| r.weight == 1 && r.may_be_cancelled;
        left.iter().rfind(light).map(|r| r.key)
    }

    pub(super) fn resume(&mut self, view: &View<'_>, lag: f64) -> Rule {
        let (now, room) = (view.now, self.model.room());
        let most = view.max_limit.min(self.guarded(now));
        let calm = lag <= self.levels.soft / 2.0 && self.admitted >= 1.0;
        let since = calm.then(|| self.calm_since.unwrap_or(now));
        self.calm_since = since;
        if !view.may_resume || !view.fresh {
            return Rule::Same;
        }
        if since.is_some_and(|since| now - since >= self.hold.max(view.times.hold)) {
            self.set(now, ((RESUMES_AT * room).max(1.0) as u32).min(most));
            (self.resumed_at, self.calm_since) = (now, None);
            return Rule::Resume;
        }
        // With nothing running nothing is learned: what the model last thought of the room would stand for ever.
        let little = lag <= LITTLE * self.levels.soft && view.running.is_empty();
        let sleeps = (self.rest_since.is_some() || little) && room < 1.0;
        let since = sleeps.then(|| self.sleeps_since.unwrap_or(now));
        self.sleeps_since = since;
        if since.is_some_and(|since| now - since >= view.times.sleeps) {
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
    pub(super) fn steer(&mut self, view: &View<'_>, lag: f64) -> Rule {
        let now = view.now;
        if self.crossings.len() >= 2 {
            let least = self
                .crossings
                .iter()
                .map(|(_, ran)| *ran)
                .fold(f64::MAX, f64::min);
            self.guard = Some((now + view.times.guarded, (GUARD * least).max(1.0) as u32));
            self.crossings.clear();
        }
        let guarded = self.guarded(now);
        if self.limit > guarded {
            self.set(now, guarded);
            self.cut_at = now;
            return Rule::Guard;
        }
        match self.next(view, lag).filter(|next| next.wait <= 0.0) {
            Some(next) => {
                self.set(now, next.to);
                if next.rule == Rule::Cut {
                    self.cut_at = now;
                }
                next.rule
            }
            None => Rule::Same,
        }
    }

    /// Which change comes next, and when, if nothing else happens.
    pub(super) fn next(&self, view: &View<'_>, lag: f64) -> Option<Next> {
        let (now, times) = (view.now, &view.times);
        let next = |rule, to, wait: f64| {
            Some(Next {
                rule,
                to,
                wait: wait.max(0.0),
            })
        };
        if self.limit == 0 {
            let since = self.calm_since.filter(|_| view.may_resume)?;
            let to = ((RESUMES_AT * self.model.room()).max(1.0) as u32).min(view.max_limit);
            return next(Rule::Resume, to, self.hold.max(times.hold) - (now - since));
        }
        let limit = f64::from(self.limit);
        // Not even one has room, and lag nears soft: nothing, until it is calm again.
        let crowded = lag > CROWDED * self.levels.soft && self.model.room() < 1.0;
        let wanted = if crowded {
            0
        } else {
            (self.admitted + LEAD).ceil().max(1.0) as u32
        };
        let too_high = crowded || (lag > EMPTY && limit - self.admitted > SLACK);
        if too_high && wanted < self.limit {
            // More than the gap: a cut right at its end would be a second one for the same reason.
            let wait = times.cut_gap - (now - self.cut_at);
            return next(Rule::Cut, wanted, if wait < 0.0 { 0.0 } else { wait.max(0.001) });
        }
        let running: u32 = view.running.iter().map(|r| r.weight).sum();
        let full = view
            .next
            .is_some_and(|next| running.saturating_add(next) > self.limit);
        let near = self.admitted + NEAR > limit || self.is_at_rest(now, times);
        let most = view.max_limit.min(self.guarded(now));
        if !(full && near && view.may_grow && self.limit < most) {
            return None;
        }
        let step = (self.limit / 4).max(2);
        let to = wanted.max(self.limit + 1).min(self.limit + step).min(most);
        let dwell = times.dwell + self.age(now) - (now - self.changed_at);
        let tokens = (TO_GROW - self.tokens) * times.token_every;
        let wait = if dwell < 0.0 {
            tokens
        } else {
            dwell.max(tokens).max(0.001)
        };
        next(Rule::Grow, to, wait)
    }
}
