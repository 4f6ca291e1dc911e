//! The rules that lower the limit: CRITICAL, PAUSE and CUT, looked at after each new sample of a signal.

use super::{
    Load, SignalLevels, Throttle,
    control::{Control, LawTick, Memory, Paused, Phase, Reason},
    words::{duration, number, ordinal, value},
};
use crate::{
    config::Unit,
    domain::{event::Rule, ids::Name, tuning::Tuning},
};
use std::time::Duration;

/// This many pauses within the latch window latch.
pub(super) const LATCH_AT: usize = 3;

impl Throttle {
    /// Applies the first rule that fits; gives the name back if the signal's proposal or its pause changed.
    pub(super) fn lower(&mut self, name: &Name, load: &Load, tuning: &Tuning) -> Option<Name> {
        let levels = *self.levels.get(name)?;
        let control = self.state.signals.get(name)?;
        let asked = control.paused().is_none() && !self.state.held;
        if !levels.protects || (control.room.is_some() && asked) {
            return None;
        }
        if control.room.is_some() {
            // In a pause of the learned law, and while it is not asked because something above holds the work, only
            // critical changes anything.
            let critical = control.track.is_critical() && self.go_critical(name, &levels, tuning);
            return critical.then(|| name.clone());
        }
        let mean = control.track.mean()?;
        let was_paused = control.paused().is_some();
        let moved = if control.track.is_critical() {
            self.go_critical(name, &levels, tuning)
        } else if control.track.is_over_hard() || mean >= levels.hard {
            self.pause(name, &levels, tuning)
        } else if self.may_cut(control, load, tuning) {
            self.cut(name, &levels, load, tuning)
        } else {
            false
        };
        let paused = |t: &Self| t.state.signals.get(name).is_some_and(|c| c.paused().is_some());
        let told = if was_paused {
            self.was_it_us(name, load.running, tuning)
        } else {
            if paused(self) {
                self.watch_pause(name, load.running);
            }
            false
        };
        (moved || told).then(|| name.clone())
    }

    /// Cuts wait for the drain (running above the limit), for the last cut to act, and for what holds from above.
    fn may_cut(&self, control: &Control, load: &Load, tuning: &Tuning) -> bool {
        let acting = self
            .state
            .last_cut
            .is_some_and(|t| self.state.law.since(t) <= tuning.cut_gap);
        let applies = matches!(control.phase, Phase::Open | Phase::Cut | Phase::Recovering { .. })
            && control.sight.blind.is_none();
        applies && !self.state.held && !acting && load.running <= self.limit()
    }

    fn cut(&mut self, name: &Name, levels: &SignalLevels, load: &Load, tuning: &Tuning) -> bool {
        let law = self.state.law;
        let Some(control) = self.state.signals.get(name) else {
            return false;
        };
        let (Some(mean), Some(predicted)) = (control.track.mean(), control.track.predicted(tuning.horizon))
        else {
            return false;
        };
        let rushing = predicted >= levels.hard;
        if !(mean >= levels.soft || (mean >= levels.low && rushing)) {
            return false;
        }
        let base = self.base(control);
        let to = (if rushing { base / 2 } else { base * 3 / 4 }).max(1);
        if to >= base {
            return false;
        }
        let mut text = cut_words(name, levels, mean, rushing, time_to_hard(control, levels));
        if load.running >= to {
            text.push_str("; starts wait");
        }
        if let Some(control) = self.state.signals.get_mut(name) {
            control.limit = to;
            control.phase = Phase::Cut;
            control.ceiling = Some(remember(base, law, tuning));
            control.reason = Reason::new(Rule::Cut, text);
        }
        (self.state.last_cut, self.state.last_change) = (Some(law), law);
        true
    }

    fn pause(&mut self, name: &Name, levels: &SignalLevels, tuning: &Tuning) -> bool {
        let Some(control) = self.state.signals.get(name) else {
            return false;
        };
        if control.paused().is_some() {
            return false;
        }
        let cause = over_words(control, levels);
        let (paused, counted) = self.new_pause(control, tuning);
        let (hold, latched, base) = (paused.hold, paused.latched, paused.former);
        let reason = if latched {
            Reason::new(
                Rule::Latch,
                latch_words(name, &cause, self.state.pauses.len(), tuning),
            )
        } else {
            let text = format!("paused by {name}: {cause}; {}", resumes(levels, hold));
            Reason::new(Rule::Pause, text)
        };
        self.stop(name, paused, reason, counted.then_some(base), tuning);
        true
    }

    /// Hibernates, also out of a pause that is there already (case B27: nothing is cancelled).
    fn go_critical(&mut self, name: &Name, levels: &SignalLevels, tuning: &Tuning) -> bool {
        let until = self.state.law.plus(tuning.hibernate);
        let Some(control) = self.state.signals.get(name) else {
            return false;
        };
        let text = format!(
            "critical: {name} {} was over critical {} for 2 samples; no starts for {}, then as paused",
            last_words(control, levels),
            number(levels.critical),
            duration(tuning.hibernate)
        );
        let reason = Reason::new(Rule::Critical, text);
        if control.paused().is_none() {
            let (mut paused, counted) = self.new_pause(control, tuning);
            paused.hibernates_until = Some(until);
            let base = paused.former;
            self.stop(name, paused, reason, counted.then_some(base), tuning);
            return true;
        }
        let Some(control) = self.state.signals.get_mut(name) else {
            return false;
        };
        let Phase::Paused(paused) = &mut control.phase else {
            return false;
        };
        let entered = paused.hibernates_until.is_none();
        paused.hibernates_until = Some(until);
        if entered {
            control.reason = reason;
        }
        entered
    }

    /// A pause from here on. It counts for flap, latch and ceiling if it stops something.
    pub(super) fn new_pause(&self, control: &Control, tuning: &Tuning) -> (Paused, bool) {
        let law = self.state.law;
        let former = match control.phase {
            Phase::Waiting => self.state.max_limit.min(2),
            Phase::Returning { former } => former.max(1),
            _ => self.base(control).max(1),
        };
        let counted = !self.state.held && self.limit() > 0;
        let flapped = self
            .state
            .resumed
            .is_some_and(|t| law.since(t) <= tuning.flap_window);
        let hold = match self.state.hold {
            Some(hold) if flapped && counted => hold.saturating_mul(2).min(tuning.resume_hold_max),
            Some(hold) if flapped => hold,
            _ => tuning.resume_hold,
        };
        let recent = self.recent_pauses(tuning) + 1;
        let latched = counted && recent >= LATCH_AT;
        let paused = Paused {
            former,
            since: law,
            hold,
            hibernates_until: None,
            latched,
            watch: None,
        };
        (paused, counted)
    }

    fn recent_pauses(&self, tuning: &Tuning) -> usize {
        let law = self.state.law;
        self.state
            .pauses
            .iter()
            .filter(|t| law.since(**t) <= tuning.latch_window)
            .count()
    }

    pub(super) fn stop(
        &mut self,
        name: &Name,
        paused: Paused,
        reason: Reason,
        counted: Option<u32>,
        tuning: &Tuning,
    ) {
        let law = self.state.law;
        self.state.hold = Some(paused.hold);
        self.state.last_change = law;
        let Some(control) = self.state.signals.get_mut(name) else {
            return;
        };
        control.limit = 0;
        control.phase = Phase::Paused(paused);
        control.reason = reason;
        if let Some(base) = counted {
            // The learned law remembers what there was room for.
            control.ceiling = control.room.is_none().then(|| remember(base, law, tuning));
            self.state.pauses.retain(|t| law.since(*t) <= tuning.latch_window);
            self.state.pauses.push(law);
        }
    }

    /// Ends hibernation; what is left is an ordinary pause.
    pub(super) fn wake(&mut self) -> Option<Name> {
        let law = self.state.law;
        let mut woken = None;
        for (name, control) in &mut self.state.signals {
            let Some(levels) = self.levels.get(name) else {
                continue;
            };
            let Phase::Paused(paused) = &mut control.phase else {
                continue;
            };
            if paused.hibernates_until.is_none_or(|until| until > law) {
                continue;
            }
            paused.hibernates_until = None;
            let over = format!("{name}: the hibernation after critical is over");
            control.reason = if paused.latched {
                Reason::new(Rule::Latch, format!("latched until acknowledged, by {over}"))
            } else {
                let text = format!("paused by {over}; {}", resumes(levels, paused.hold));
                Reason::new(Rule::Pause, text)
            };
            woken = Some(name.clone());
        }
        woken
    }
}

/// Nine tenths of a limit that went wrong, at least one.
fn remember(base: u32, law: LawTick, tuning: &Tuning) -> Memory {
    Memory {
        limit: (base.saturating_mul(9) / 10).max(1),
        until: law.plus(tuning.ceiling_memory),
    }
}

/// How long the slope needs to hard, if it rises.
pub(super) fn time_to_hard(control: &Control, levels: &SignalLevels) -> Option<Duration> {
    let (mean, slope) = (control.track.mean()?, control.track.slope()?);
    if slope <= 0.0 || mean >= levels.hard {
        return None;
    }
    Duration::try_from_secs_f64((levels.hard - mean) / slope).ok()
}

fn cut_words(
    name: &Name,
    levels: &SignalLevels,
    mean: f64,
    rushing: bool,
    to_hard: Option<Duration>,
) -> String {
    let (word, level) = if mean >= levels.soft {
        ("soft", levels.soft)
    } else {
        ("low", levels.low)
    };
    let mut text = format!(
        "{name} {} is over {word} {}",
        value(mean, levels.unit),
        number(level)
    );
    if rushing && let Some(left) = to_hard {
        text.push_str(&format!(
            ", on course past hard {} in {}",
            number(levels.hard),
            duration(left)
        ));
    }
    text
}

fn over_words(control: &Control, levels: &SignalLevels) -> String {
    if levels.unit == Unit::Alerts {
        return "it fires".to_owned();
    }
    if control.track.is_over_hard() {
        let last = last_words(control, levels);
        return format!("{last} was over hard {} for 2 samples", number(levels.hard));
    }
    let mean = control.track.mean().unwrap_or(levels.hard);
    format!(
        "smoothed {} is over hard {}",
        value(mean, levels.unit),
        number(levels.hard)
    )
}

pub(super) fn last_words(control: &Control, levels: &SignalLevels) -> String {
    value(control.track.last().unwrap_or(levels.hard), levels.unit)
}

pub(super) fn latch_words(name: &Name, cause: &str, before: usize, tuning: &Tuning) -> String {
    format!(
        "latched until acknowledged: {} pause within {} by {name}, {cause}",
        ordinal(before + 1),
        duration(tuning.latch_window)
    )
}

fn resumes(levels: &SignalLevels, hold: Duration) -> String {
    if levels.unit == Unit::Alerts {
        return format!("resumes by itself when quiet for {}", duration(hold));
    }
    format!(
        "resumes by itself below low {} for {}",
        number(levels.low),
        duration(hold)
    )
}
