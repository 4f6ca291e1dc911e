//! The rules of blindness (C2, case B28): freeze, halve, stop, and the way back.

use super::{
    Now, Outcome, Throttle,
    control::{Control, Phase, Reason},
    sight::{Blind, Stage},
    words,
};
use crate::domain::{event::Rule, ids::Name, tuning::Tuning};

impl Throttle {
    /// Lets blindness begin and take its course.
    pub(super) fn look(&mut self, now: Now, tuning: &Tuning, out: &mut Vec<Outcome>) -> Option<Name> {
        let names: Vec<Name> = self.levels.keys().cloned().collect();
        let mut mover = None;
        for name in names {
            mover = self.look_at(&name, now, tuning, out).or(mover);
        }
        mover
    }

    fn look_at(&mut self, name: &Name, now: Now, tuning: &Tuning, out: &mut Vec<Outcome>) -> Option<Name> {
        let levels = *self.levels.get(name)?;
        let base = self.base(self.state.signals.get(name)?);
        let control = self.state.signals.get_mut(name)?;
        let silence = control.sight.silence(now.boot);
        let just_back = now.boot.since(self.watching) <= levels.patience() && silence < tuning.blind_halve;
        if let Some(why) = control.sight.goes_blind(&levels, now.boot)
            && (!just_back || control.sight.has_missed())
        {
            control.restart_window();
            let last = control.sight.last_valid.map(|t| now.wall_of(t));
            control.sight.blind = Some(Blind {
                since: control.sight.dark_since(),
                why: why.clone(),
                before: base,
                stage: Stage::Frozen,
            });
            if levels.protects {
                out.push(Outcome::Blind {
                    signal: name.clone(),
                    last,
                    why,
                });
            }
        }
        // The learned law brakes by itself.
        let moved =
            levels.protects && control.room.is_none() && blind_course(name, control, base, now, tuning);
        if moved {
            self.state.last_change = self.state.law;
        }
        moved.then(|| name.clone())
    }
}

/// After two valid samples: a limit that blindness lowered comes back at half, others stay as they are. One that was on
/// its way back already still knows what it comes back to.
pub(super) fn seen_again(control: &mut Control, blind: Blind) {
    let returning = matches!(control.phase, Phase::Returning { .. });
    if blind.stage != Stage::Frozen && !returning {
        control.phase = Phase::Returning { former: blind.before };
        control.restart_window();
    }
}

/// Halves, then stops (case B28). `true` if the proposal changed.
fn blind_course(name: &Name, control: &mut Control, base: u32, now: Now, tuning: &Tuning) -> bool {
    let allowed = !matches!(control.phase, Phase::Paused(_) | Phase::Waiting);
    let Some(blind) = &mut control.sight.blind else {
        return false;
    };
    let dark = now.boot.since(blind.since);
    let (stage, to) = if dark >= tuning.blind_stop {
        (Stage::Stopped, 0)
    } else if dark >= tuning.blind_halve {
        (Stage::Halved, base / 2)
    } else {
        return false;
    };
    if !allowed || blind.stage >= stage {
        return false;
    }
    blind.stage = stage;
    let what = format!("no valid sample of {name} for {}", words::duration(dark));
    let next = if to == 0 {
        "no new starts, running chunks finish".to_owned()
    } else {
        let left = tuning.blind_stop.saturating_sub(dark);
        format!("no new starts in {}", words::duration(left))
    };
    control.reason = Reason::new(Rule::Blind, format!("{what} ({}); {next}", blind.why));
    let moved = control.limit != to.min(control.limit);
    control.limit = to.min(control.limit);
    moved
}
