//! Where the law that learns the room decides: its limit is the proposal of its signal, beside those of other signals.
//!
//! Thresholds, first samples, blindness as it is told, several signals, holds from above, latch and hibernation are those of
//! the classic law. What the learned one decides instead is when the limit is cut, grows, is paused and resumed, what is
//! admitted under it, and which young attempts are cancelled to brake.

use super::{
    Fleet, Governed, Load, Now, SignalLevels, Throttle,
    control::{Control, Phase, Reason},
    lower::{last_words, latch_words},
    words::{duration, number, value},
};
use crate::{
    config::Unit,
    domain::{event::Rule, ids::Name, spec, tuning::Tuning},
    host::BootInstant,
    plan::room::{self, Admission, Blame, Decision, Levels, Terms, Times, View},
};
use std::time::Duration;

/// Seconds on the boot clock.
pub(super) fn seconds(at: BootInstant) -> f64 {
    at.0 as f64 / 1000.0
}

/// Why a new measurement is not believed, where the learned law is asked.
pub(super) fn doubt(
    control: &mut Control,
    value: f64,
    at: BootInstant,
    now: BootInstant,
    tuning: &Tuning,
) -> Option<&'static str> {
    let law = control.room.as_mut()?;
    let told = law.sample(seconds(now), seconds(at), value, &Times::from(tuning));
    told.err().map(room::Doubt::words)
}

impl Throttle {
    /// The same by another law. What the learned one knows of signals that it does not decide about is forgotten.
    #[must_use]
    pub fn by_law(mut self, law: spec::Law) -> Self {
        self.law = law;
        self.adopt_law();
        self
    }

    /// By which law lag sets the limit.
    pub const fn law(&self) -> spec::Law {
        self.law
    }

    /// Gives the learned law to every signal that it can learn from: one that protects and is a lag. Whether an alert
    /// fires says nothing about how much there is room for.
    pub(super) fn adopt_law(&mut self) {
        let now = seconds(self.state.at);
        let max = self.state.max_limit;
        for (name, levels) in &self.levels {
            let Some(control) = self.state.signals.get_mut(name) else {
                continue;
            };
            let learns = self.law == spec::Law::Learned && levels.protects && levels.unit != Unit::Alerts;
            control.room = learns.then(|| match control.room.take() {
                Some(law) => Box::new(law.about(scale(levels), max, now)),
                None => Box::new(room::Law::new(scale(levels), max, now)),
            });
        }
        let signals = &self.state.signals;
        self.terms
            .retain(|name, _| signals.get(name).is_some_and(|c| c.room.is_some()));
    }

    /// Lets the learned law decide. Call it after every [`Throttle::step`]; where no signal learns it does nothing.
    pub fn govern(&mut self, fleet: &Fleet<'_>, load: &Load, now: Now, tuning: &Tuning) -> Governed {
        let mut governed = Governed::default();
        let names: Vec<Name> = self.learning().map(|(name, _)| name.clone()).collect();
        let mut mover = None;
        for name in &names {
            mover = self
                .govern_one(name, fleet, load, now, tuning, &mut governed)
                .or(mover);
        }
        if mover.is_some() {
            self.announce(mover, &mut governed.outcomes);
        }
        governed
    }

    /// What runs from now on. Told at every change, so that lag is laid at the door of what ran when it arose.
    pub fn runs(&mut self, now: Now, weight: u32) {
        let rooms = self.state.signals.values_mut().filter_map(|c| c.room.as_mut());
        rooms.for_each(|law| law.runs(seconds(now.boot), weight));
    }

    fn learning(&self) -> impl Iterator<Item = (&Name, &room::Law)> {
        let controls = self.state.signals.iter();
        controls.filter_map(|(name, c)| Some((name, c.room.as_deref()?)))
    }

    fn govern_one(
        &mut self,
        name: &Name,
        fleet: &Fleet<'_>,
        load: &Load,
        now: Now,
        tuning: &Tuning,
        governed: &mut Governed,
    ) -> Option<Name> {
        let fresh = self.all_fresh(now);
        let may_grow = fresh && self.advice_allows(now);
        let (held, max_limit) = (self.state.held, self.state.max_limit);
        let control = self.state.signals.get_mut(name)?;
        let law = control.room.as_mut()?;
        law.runs(seconds(now.boot), load.running);
        if held || control.phase == Phase::Waiting {
            return None;
        }
        let before = law.model().room();
        let paused = matches!(control.phase, Phase::Paused(_));
        let may_resume = match &control.phase {
            Phase::Paused(p) => !p.latched && p.hibernates_until.is_none(),
            _ => true,
        };
        let decision = law.decide(&View {
            now: seconds(now.boot),
            running: fleet.running,
            mean: fleet.mean,
            next: load.next_weight,
            max_limit,
            limit: control.limit,
            fresh,
            may_grow,
            paused,
            may_resume,
            cancel: fleet.cancel,
            times: Times::from(tuning),
        });
        let blame = law.blame(load.running);
        if let Some(terms) = decision.terms {
            self.terms.insert(name.clone(), terms);
        }
        if !decision.cancel.is_empty() {
            governed.why = brake_words(name, self.levels.get(name)?, decision.terms.as_ref());
            let new = decision
                .cancel
                .iter()
                .filter(|key| !governed.cancel.contains(key));
            governed.cancel.extend(new.copied().collect::<Vec<u64>>());
        }
        let seen = Seen { before, blame };
        self.apply(name, &decision, &seen, tuning)
    }

    /// Takes a decision over as the signal's proposal; gives the name back if it changed.
    fn apply(&mut self, name: &Name, decision: &Decision, seen: &Seen, tuning: &Tuning) -> Option<Name> {
        let levels = *self.levels.get(name)?;
        if decision.rule == room::Rule::Same {
            return None;
        }
        if matches!(
            decision.rule,
            room::Rule::Pause | room::Rule::Critical | room::Rule::Foreseen
        ) {
            return self.pause_by_law(name, &levels, decision, seen, tuning);
        }
        // A pause stays what it is, with its latch and its rest, until it is resumed.
        let paused = self.state.signals.get(name)?.paused().is_some();
        if paused && decision.limit == 0 {
            return None;
        }
        let terms = self.terms.get(name);
        let reason = Reason::new(
            journaled(decision.rule),
            words(name, &levels, decision, seen, terms),
        );
        let control = self.state.signals.get_mut(name)?;
        let former = match &control.phase {
            Phase::Paused(p) => p.former,
            Phase::Recovering { former } => *former,
            _ => control.limit,
        };
        let rises = decision.limit > control.limit;
        control.limit = decision.limit;
        control.phase = match decision.rule {
            room::Rule::Cut | room::Rule::Guard => Phase::Cut,
            room::Rule::Resume | room::Rule::Probe | room::Rule::Seen if decision.limit < former => {
                Phase::Recovering { former }
            }
            room::Rule::Grow if decision.limit < former && control.is_recovering() => {
                Phase::Recovering { former }
            }
            _ => Phase::Open,
        };
        control.reason = reason;
        let resumed = matches!(decision.rule, room::Rule::Resume | room::Rule::Probe);
        if resumed {
            self.state.resumed = Some(self.state.law);
        }
        // What there is room for is admitted at once: after a stop that would be all of it in the same second (case B31).
        if rises && (resumed || decision.rule == room::Rule::Seen) {
            self.begin_pace(decision.limit);
        }
        self.state.last_change = self.state.law;
        Some(name.clone())
    }

    fn pause_by_law(
        &mut self,
        name: &Name,
        levels: &SignalLevels,
        decision: &Decision,
        seen: &Seen,
        tuning: &Tuning,
    ) -> Option<Name> {
        let control = self.state.signals.get(name)?;
        let hold = control.room.as_ref().map_or(0.0, |law| law.hold());
        let (mut paused, counted) = self.new_pause(control, tuning);
        paused.hold = Duration::try_from_secs_f64(hold).unwrap_or(tuning.resume_hold);
        let (last, hard) = (last_words(control, levels), number(levels.hard));
        let cause = match decision.rule {
            room::Rule::Critical => format!("{last} is over critical {}", number(levels.critical)),
            room::Rule::Foreseen => {
                let peak = decision.terms.map_or(levels.hard, |t| t.peak.0);
                format!(
                    "{last} now, and what runs brings it to {} past hard {hard}",
                    value(peak, levels.unit)
                )
            }
            _ => format!("{last} was over hard {hard} for 2 samples"),
        };
        let hold = duration(paused.hold);
        let was_it_us = blame_words(seen.blame);
        let (rule, text) = if decision.rule == room::Rule::Critical {
            paused.hibernates_until = Some(self.state.law.plus(tuning.hibernate));
            paused.latched = false;
            let rest = duration(tuning.hibernate);
            let text = format!("critical: {name} {cause}; no starts for {rest}, then as paused; {was_it_us}");
            (Rule::Critical, text)
        } else if paused.latched {
            let text = latch_words(name, &cause, self.state.pauses.len(), tuning);
            (Rule::Latch, text)
        } else {
            let half = value(levels.soft / 2.0, levels.unit);
            let text = format!(
                "paused by {name}: {cause}; resumes by itself below {half} for {hold}, where there is room; {was_it_us}"
            );
            (Rule::Pause, text)
        };
        let base = paused.former;
        self.stop(
            name,
            paused,
            Reason::new(rule, text),
            counted.then_some(base),
            tuning,
        );
        Some(name.clone())
    }

    /// What may start now under the limit, beside what was last told to run; `None` where no signal learns: then only the
    /// limit is asked.
    pub fn admission(&self, now: Now, tuning: &Tuning) -> Option<Admission> {
        let times = Times::from(tuning);
        let each = self
            .learning()
            .map(|(_, law)| law.admission(seconds(now.boot), &times));
        each.reduce(Admission::and)
    }

    /// What the learned law last went by, of the signal that binds, else of the one with the least room.
    pub fn terms(&self) -> Option<(&Name, &Terms)> {
        let binding = self.binding().map(|(name, ..)| name);
        let bound = binding.and_then(|name| self.terms.get_key_value(name));
        bound.or_else(|| self.terms.iter().min_by(|a, b| a.1.room.total_cmp(&b.1.room)))
    }
}

impl Control {
    const fn is_recovering(&self) -> bool {
        matches!(self.phase, Phase::Recovering { .. })
    }
}

/// What was the case when it decided.
struct Seen {
    /// The room before this decision.
    before: f64,
    blame: Blame,
}

fn scale(levels: &SignalLevels) -> Levels {
    Levels {
        soft: levels.soft,
        hard: levels.hard,
        critical: levels.critical,
        interval: levels.interval.as_secs_f64(),
    }
}

const fn journaled(rule: room::Rule) -> Rule {
    match rule {
        room::Rule::Cut | room::Rule::Guard => Rule::Cut,
        room::Rule::Grow => Rule::Grow,
        room::Rule::Pause | room::Rule::Foreseen => Rule::Pause,
        room::Rule::Critical => Rule::Critical,
        room::Rule::Resume | room::Rule::Probe => Rule::Resume,
        room::Rule::Blind => Rule::Blind,
        room::Rule::Seen => Rule::Seen,
        room::Rule::Same | room::Rule::MaxLimit => Rule::Start,
    }
}

/// Was it us? By the model, which knows how lag would move without what runs.
pub(super) const fn blame_words(blame: Blame) -> &'static str {
    match blame {
        Blame::Theirs => "not ours: lag would rise with nothing of ours running",
        Blame::Ours => "ours: without what runs it would fall",
        Blame::Nobody => "not ours: with what runs it would not rise",
    }
}

fn words(
    name: &Name,
    levels: &SignalLevels,
    decision: &Decision,
    seen: &Seen,
    terms: Option<&Terms>,
) -> String {
    let room = terms.map_or(seen.before, |t| t.room);
    let lag = terms.map_or(0.0, |t| t.lag).round();
    let over = match lag > levels.soft {
        true => format!(", over soft {}", number(levels.soft)),
        false => String::new(),
    };
    let lag = value(lag, levels.unit);
    match decision.rule {
        room::Rule::Cut if room < seen.before - 0.5 => format!(
            "the live load leaves room for {} (was {}), {name} {lag}{over}; {}",
            number(room.max(0.0)),
            number(seen.before),
            blame_words(seen.blame)
        ),
        room::Rule::Cut => format!(
            "the live load leaves room for {}, {name} {lag}{over}",
            number(room.max(0.0))
        ),
        room::Rule::Grow => format!("room for {}, all in use, {name} {lag}", number(room.max(0.0))),
        room::Rule::Guard => format!(
            "{name} crossed soft {} twice: back to 0.7 of what ran then",
            number(levels.soft)
        ),
        room::Rule::Resume => format!(
            "{name} {lag} and calm; three quarters of the room of {}",
            number(room.max(0.0))
        ),
        room::Rule::Probe => format!("{name} is at rest and nothing runs: one, to learn what it costs"),
        room::Rule::Blind if decision.limit == 0 => {
            format!("no valid sample of {name}; no new starts, running chunks finish")
        }
        room::Rule::Blind => format!("no valid sample of {name}; half"),
        room::Rule::Seen if decision.limit == 0 => {
            format!("{name} is seen again at {lag}; resumes when it is calm")
        }
        room::Rule::Seen => format!("{name} is seen again at {lag}; half of what was allowed"),
        room::Rule::MaxLimit => format!("max_limit is now {}", decision.limit),
        room::Rule::Pause | room::Rule::Critical | room::Rule::Foreseen | room::Rule::Same => String::new(),
    }
}

fn brake_words(name: &Name, levels: &SignalLevels, terms: Option<&Terms>) -> String {
    let Some(terms) = terms else {
        return format!("no valid sample of {name}: what has hardly begun is ended");
    };
    format!(
        "{name} {} would reach {} with what runs, where there is room for {}",
        value(terms.lag.round(), levels.unit),
        value(terms.peak.0.round(), levels.unit),
        number(terms.room.max(0.0))
    )
}
