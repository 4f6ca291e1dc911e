//! The rules that let the limit rise: start, return after blindness, RESUME and GROW. All of them need every
//! protecting signal to be fresh, and none acts while something above holds the work.

use super::{
    Load, Now, SignalLevels, Throttle,
    control::{Control, Phase, Reason},
    words::{duration, number, value},
};
use crate::domain::{event::Rule, ids::Name, spec::Law, tuning::Tuning};

/// The limit with which work starts when a signal protects.
const START: u32 = 2;

impl Throttle {
    /// Gives the name of a signal back whose proposal rose.
    pub(super) fn rise(&mut self, load: &Load, now: Now, tuning: &Tuning) -> Option<Name> {
        let woken = self.wake();
        if self.state.held || !self.all_fresh(now) {
            return woken;
        }
        let names: Vec<Name> = self.protecting().map(|(n, _, _)| n.clone()).collect();
        let mut mover = woken;
        for name in &names {
            mover = self.come_back(name, tuning).or(mover);
        }
        if mover.is_some() {
            self.state.last_change = self.state.law;
            return mover;
        }
        self.grow(load, now, tuning)
    }

    /// Every protecting signal has a fresh valid run and nothing unconfirmed.
    pub(super) fn all_fresh(&self, now: Now) -> bool {
        self.protecting()
            .all(|(_, levels, c)| c.sight.is_fresh(levels, now.boot) && !c.track.is_lone())
    }

    /// Start, return and resume of one signal.
    fn come_back(&mut self, name: &Name, tuning: &Tuning) -> Option<Name> {
        let law = self.state.law;
        let levels = self.levels.get(name)?;
        let control = self.state.signals.get(name)?;
        let headroom = control.headroom(self.state.max_limit, law);
        let mean = control.track.mean()?;
        let (to, former, reason) = match &control.phase {
            Phase::Waiting => start(name, levels, mean, headroom),
            // From its first samples on the learned law raises by itself.
            _ if control.room.is_some() => return None,
            Phase::Returning { former } if mean < levels.soft => {
                let half = (former / 2).max(1).max(control.limit);
                let text = format!(
                    "{name} is seen, {} is under soft {}; half of the former {former}, one start per {}",
                    value(mean, levels.unit),
                    number(levels.soft),
                    duration(tuning.start_gap)
                );
                (half.min(headroom), *former, Reason::new(Rule::Seen, text))
            }
            Phase::Paused(p) => {
                let calm = control.calm_since.map(|t| law.since(t));
                let rested = law.since(p.since) >= tuning.pause_min;
                if p.latched || p.hibernates_until.is_some() || !rested || calm.is_none_or(|c| c < p.hold) {
                    return None;
                }
                let text = format!(
                    "{name} was below low {} and flat for {}; half of the former {}, one start per {}",
                    number(levels.low),
                    duration(p.hold),
                    p.former,
                    duration(tuning.start_gap)
                );
                let half = (p.former / 2).max(1).min(headroom);
                (half, p.former, Reason::new(Rule::Resume, text))
            }
            _ => return None,
        };
        let resumed = reason.rule == Rule::Resume;
        let control = self.state.signals.get_mut(name)?;
        control.limit = to;
        control.reason = reason;
        control.phase = if to < former {
            Phase::Recovering { former }
        } else {
            Phase::Open
        };
        if resumed {
            self.state.resumed = Some(law);
        }
        // Of one that went blind before it allowed anything, what it allows now is paced. The learned law admits one by one.
        if self.law == Law::Classic {
            self.begin_pace(former.max(to));
        }
        Some(name.clone())
    }

    /// By one, only when all of the limit is used and all signals that bind it are low and flat.
    fn grow(&mut self, load: &Load, now: Now, tuning: &Tuning) -> Option<Name> {
        let law = self.state.law;
        let limit = self.limit();
        let half_chunk = load.median_chunk.unwrap_or_default() / 2;
        let dwell = tuning.grow_dwell.max(half_chunk);
        let waits = law.since(self.state.last_change) <= dwell;
        if waits || limit >= self.state.max_limit || !is_full(limit, load) || !self.advice_allows(now) {
            return None;
        }
        let binding: Vec<Name> = self
            .protecting()
            .filter(|(_, _, c)| c.limit == limit)
            .map(|(n, _, _)| n.clone())
            .collect();
        let all_agree = binding.iter().all(|name| self.may_grow(name));
        if binding.is_empty() || !all_agree {
            return None;
        }
        for name in &binding {
            self.grow_one(name, limit);
        }
        self.state.last_change = law;
        binding.into_iter().next()
    }

    fn may_grow(&self, name: &Name) -> bool {
        let (Some(levels), Some(control)) = (self.levels.get(name), self.state.signals.get(name)) else {
            return false;
        };
        let applies = control.room.is_none()
            && matches!(control.phase, Phase::Open | Phase::Cut | Phase::Recovering { .. });
        let headroom = control.headroom(self.state.max_limit, self.state.law);
        applies && control.track.is_calm(levels) && control.limit < headroom
    }

    fn grow_one(&mut self, name: &Name, limit: u32) {
        let (Some(levels), Some(control)) = (self.levels.get(name), self.state.signals.get_mut(name)) else {
            return;
        };
        control.limit = limit + 1;
        control.phase = match control.phase {
            Phase::Recovering { former } if control.limit < former => Phase::Recovering { former },
            _ => Phase::Open,
        };
        let mean = control.track.mean().unwrap_or(levels.low);
        let text = format!(
            "{name} {} is below low {} and flat, all {limit} in use",
            value(mean, levels.unit),
            number(levels.low)
        );
        control.reason = Reason::new(Rule::Grow, text);
    }

    /// A signal that only advises freezes growth while it is not seen or at its soft.
    pub(super) fn advice_allows(&self, now: Now) -> bool {
        self.all()
            .filter(|(_, levels, _)| !levels.protects)
            .all(|(_, levels, c)| advises_growth(levels, c, now))
    }
}

pub(super) fn advises_growth(levels: &SignalLevels, control: &Control, now: Now) -> bool {
    let under = control.track.mean().is_some_and(|m| m < levels.soft);
    control.sight.is_fresh(levels, now.boot) && under && !control.track.is_lone()
}

fn start(name: &Name, levels: &SignalLevels, mean: f64, headroom: u32) -> (u32, u32, Reason) {
    let (to, side) = if mean < levels.soft {
        (START, "under")
    } else {
        (1, "over")
    };
    let text = format!(
        "{name} gave two valid samples, {} is {side} soft {}",
        value(mean, levels.unit),
        number(levels.soft)
    );
    (to.min(headroom), START, Reason::new(Rule::Start, text))
}

/// The next chunk waits for nothing but the limit.
fn is_full(limit: u32, load: &Load) -> bool {
    load.next_weight
        .is_some_and(|w| !super::authority::fits(limit, load.running, w))
}
