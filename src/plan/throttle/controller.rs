//! All signals of one backfill together: inputs in, what is to be journaled out.

use super::{
    Input, Load, Now, Outcome, SignalLevels,
    blind::seen_again,
    control::{Control, LawTick, Phase, Reason},
    learned,
    track::Point,
    words,
};
use crate::{
    domain::{
        event::{LimitChange, Rule},
        ids::Name,
        spec::Law,
        text::one_line,
        tuning::Tuning,
    },
    host::BootInstant,
    plan::room::Terms,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use thiserror::Error;

/// A checkpoint that is none.
#[derive(Debug, Error)]
#[error("the throttle's checkpoint cannot be read: {0}")]
pub struct RestoreError(#[from] serde_json::Error);

/// Paced starts after a start or resume.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Pace {
    /// Ends when this much runs.
    pub former: u32,
    pub since: LawTick,
}

/// The limit as it was last given out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Announced {
    pub limit: u32,
    pub rule: Rule,
    pub signal: Option<Name>,
    pub why: String,
}

/// Everything that survives a crash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct State {
    pub boot: String,
    pub at: BootInstant,
    pub law: LawTick,
    pub held: bool,
    pub max_limit: u32,
    pub signals: BTreeMap<Name, Control>,
    pub last_cut: Option<LawTick>,
    pub last_change: LawTick,
    /// Pauses that stopped something, newest last.
    pub pauses: Vec<LawTick>,
    /// The resume hold of the newest pause.
    pub hold: Option<Duration>,
    pub resumed: Option<LawTick>,
    pub pace: Option<Pace>,
    pub announced: Announced,
}

/// The controller of one backfill's limit (law C2). See the module for clocks and choices.
#[derive(Debug, Clone)]
pub struct Throttle {
    pub(super) levels: BTreeMap<Name, SignalLevels>,
    pub(super) state: State,
    /// Since when inputs come without a gap; silence of a signal while we were away is not held against it at once.
    pub(super) watching: BootInstant,
    /// By which law lag sets the limit.
    pub(super) law: Law,
    /// What the learned law last went by.
    pub(super) terms: BTreeMap<Name, Terms>,
    /// More is known of why it stands still: to be announced although nothing changes.
    pub(super) retell: bool,
}

impl Throttle {
    /// The controller of a backfill that just started. With a protecting signal the limit is 0 until all of them gave
    /// two valid samples, without one it is `max_limit`. `boot` is the boot id of this machine.
    pub fn new(levels: BTreeMap<Name, SignalLevels>, max_limit: u32, boot: &str, now: Now) -> Self {
        let mut throttle = Self {
            levels: BTreeMap::new(),
            state: State {
                boot: boot.to_owned(),
                at: now.boot,
                law: LawTick::default(),
                held: false,
                max_limit,
                signals: BTreeMap::new(),
                last_cut: None,
                last_change: LawTick::default(),
                pauses: Vec::new(),
                hold: None,
                resumed: None,
                pace: None,
                announced: first_announcement(levels.keys().next(), max_limit),
            },
            watching: now.boot,
            law: Law::Classic,
            terms: BTreeMap::new(),
            retell: false,
        };
        throttle.adopt(levels);
        throttle
    }

    /// The controller of work that ran before we looked at it: nothing is taken away before a signal says so, so the
    /// limit is `max_limit` from the start, and samples are not waited for.
    pub fn of_running(levels: BTreeMap<Name, SignalLevels>, max_limit: u32, boot: &str, now: Now) -> Self {
        let mut throttle = Self::new(levels, max_limit, boot, now);
        for control in throttle.state.signals.values_mut() {
            control.limit = max_limit;
            control.phase = Phase::Open;
            control.reason = Reason::new(Rule::Start, ran_before(max_limit));
        }
        throttle.state.announced.limit = max_limit;
        throttle.state.announced.why = ran_before(max_limit);
        throttle
    }

    /// The controller as a checkpoint has it, with the thresholds of now. After a reboot (another `boot`, or a boot clock
    /// that is behind the checkpoint) it starts over as the module says. Signals that are not in `levels` are dropped. It
    /// goes on by the law that made the checkpoint, unless [`Throttle::by_law`] says another.
    ///
    /// # Errors
    /// The text is no checkpoint of this version. The caller then begins with [`Throttle::new`], which is the careful side.
    pub fn restore(
        checkpoint: &str,
        levels: BTreeMap<Name, SignalLevels>,
        boot: &str,
        now: Now,
    ) -> Result<Self, RestoreError> {
        let state: State = serde_json::from_str(checkpoint)?;
        // What was learned is kept for the caller, who says by which law it goes on.
        let learned = state.signals.values().any(|control| control.room.is_some());
        let mut throttle = Self {
            levels: levels.clone(),
            state,
            watching: now.boot,
            law: if learned { Law::Learned } else { Law::Classic },
            terms: BTreeMap::new(),
            retell: false,
        };
        if throttle.state.boot != boot || now.boot < throttle.state.at {
            throttle.state.boot = boot.to_owned();
            throttle.forget_clock(now.boot, "the boot clock started anew");
        }
        throttle.adopt(levels);
        Ok(throttle)
    }

    /// How long nobody has told it anything.
    pub fn idle(&self, now: Now) -> Duration {
        now.boot.since(self.state.at)
    }

    /// The same after nobody looked for who knows how long: nothing starts before every protecting signal gave two valid
    /// samples, and then it goes on from half. A pause stays one, and a latch.
    #[must_use]
    pub fn after_gap(mut self, now: Now) -> Self {
        self.forget_clock(now.boot, "nobody looked for a while");
        self
    }

    /// The whole state as JSON, for [`LimitChange::checkpoint`] and the checkpoint table.
    pub fn checkpoint(&self) -> String {
        // Maps with text keys and plain values cannot fail; an empty text would be refused by `restore`.
        serde_json::to_string(&self.state).unwrap_or_default()
    }

    /// Takes in one input and says what is to be journaled. Call it before deciding about starts.
    pub fn step(&mut self, input: Input, load: &Load, now: Now, tuning: &Tuning) -> Vec<Outcome> {
        let mut out = Vec::new();
        let mut mover = self.advance(load, now);
        let fresh_sample = match input {
            Input::Sample { signal, value, age } if value.is_finite() && value >= 0.0 => {
                self.sample(signal, value, age, now, tuning, &mut out)
            }
            Input::Sample { signal, value, .. } => {
                self.miss(&signal, &format!("value is {value}"));
                None
            }
            Input::NoSample { signal, why } => {
                self.miss(&signal, &why);
                None
            }
            Input::Tick => None,
        };
        mover = self.look(now, tuning, &mut out).or(mover);
        if let Some(name) = fresh_sample {
            mover = self.lower(&name, load, tuning).or(mover);
        }
        mover = self.rise(load, now, tuning).or(mover);
        self.end_pace(load, tuning);
        self.announce(mover, &mut out);
        out
    }

    /// New thresholds, or other signals. A removed signal drops out at once with all that it remembered; a new one has to
    /// give two valid samples first.
    pub fn configure(
        &mut self,
        levels: BTreeMap<Name, SignalLevels>,
        load: &Load,
        now: Now,
        tuning: &Tuning,
    ) -> Vec<Outcome> {
        let mut out = Vec::new();
        let mover = self.advance(load, now);
        self.adopt(levels);
        let mover = self.rise(load, now, tuning).or(mover);
        self.announce(mover, &mut out);
        out
    }

    /// A human acknowledges the latch: the pause goes on as an ordinary one, and the flap history is forgotten. Samples that
    /// the learned law doubts are believed from now on.
    pub fn acknowledge(&mut self, now: Now, tuning: &Tuning) -> Vec<Outcome> {
        let mut out = Vec::new();
        let mut mover = None;
        self.touch(now);
        for (name, control) in &mut self.state.signals {
            let Some(levels) = self.levels.get(name) else {
                continue;
            };
            if let Some(law) = &mut control.room {
                law.believe();
            }
            if let Phase::Paused(paused) = &mut control.phase
                && paused.latched
            {
                paused.latched = false;
                paused.hold = tuning.resume_hold;
                let text = format!(
                    "latch of {name} acknowledged; resumes by itself below low {} for {}",
                    words::number(levels.low),
                    words::duration(tuning.resume_hold)
                );
                control.reason = Reason::new(Rule::Acknowledged, text);
                mover = Some(name.clone());
            }
        }
        if mover.is_some() {
            self.state.pauses.clear();
            self.state.hold = None;
            self.announce(mover, &mut out);
        }
        out
    }

    /// The smallest proposal of the protecting signals, at most `max_limit`.
    pub fn limit(&self) -> u32 {
        self.protecting()
            .map(|(_, _, c)| c.limit)
            .min()
            .unwrap_or(u32::MAX)
            .min(self.state.max_limit)
    }

    /// Signals that protect, with levels and control.
    pub(super) fn protecting(&self) -> impl Iterator<Item = (&Name, &SignalLevels, &Control)> {
        self.all().filter(|(_, levels, _)| levels.protects)
    }

    /// All signals, with levels and control.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Name, &SignalLevels, &Control)> {
        self.levels
            .iter()
            .filter_map(|(name, levels)| Some((name, levels, self.state.signals.get(name)?)))
    }

    /// The signal whose proposal is the limit; of equal ones the most severe, then the first by name.
    pub(super) fn binding(&self) -> Option<(&Name, &SignalLevels, &Control)> {
        self.protecting()
            .min_by_key(|(_, _, c)| (c.limit, u8::MAX - c.severity()))
            .filter(|(_, _, c)| c.limit <= self.state.max_limit)
    }

    /// The limit in effect as seen from one signal: what a cut or pause of it starts from.
    pub(super) fn base(&self, control: &Control) -> u32 {
        let own = control.limit.min(self.state.max_limit);
        match self.limit() {
            0 => own,
            effective => own.min(effective),
        }
    }

    /// Moves the clocks on; on release from above starts over at half.
    fn advance(&mut self, load: &Load, now: Now) -> Option<Name> {
        self.touch(now);
        self.clamp(load.max_limit);
        let released = self.state.held && !load.held_above;
        self.state.held = load.held_above;
        if released { self.release(load) } else { None }
    }

    /// A lowered `max_limit` lowers every proposal for good, so that raising it again is growth like any other.
    fn clamp(&mut self, max_limit: u32) {
        self.state.max_limit = max_limit;
        for control in self.state.signals.values_mut().filter(|c| c.limit > max_limit) {
            control.limit = max_limit;
            control.reason = Reason::new(Rule::Start, format!("max_limit is now {max_limit}"));
        }
    }

    fn touch(&mut self, now: Now) {
        if now.boot < self.state.at {
            self.forget_clock(now.boot, "the boot clock started anew");
        }
        let elapsed = now.boot.since(self.state.at);
        let patience = self.levels.values().map(SignalLevels::patience).min();
        if patience.is_some_and(|p| elapsed > p) {
            self.watching = now.boot;
        }
        if self.state.held {
            let rooms = self.state.signals.values_mut().filter_map(|c| c.room.as_mut());
            rooms.for_each(|law| law.held(elapsed.as_secs_f64()));
        } else {
            self.state.law = self.state.law.plus(elapsed);
        }
        self.state.at = now.boot;
    }

    /// No instant of before means anything.
    fn forget_clock(&mut self, now: BootInstant, why: &str) {
        self.state.at = now;
        self.watching = now;
        for (name, control) in &mut self.state.signals {
            let former = control.sight.blind.as_ref().map_or(control.limit, |b| b.before);
            let fresh = Control::new(now, waits_for(name));
            (control.sight, control.track, control.calm_since) = (fresh.sight, fresh.track, None);
            if let Some(law) = &mut control.room {
                law.restart(learned::seconds(now));
            }
            control.phase = match &control.phase {
                Phase::Waiting => Phase::Waiting,
                Phase::Paused(p) => Phase::Paused(p.clone()),
                Phase::Returning { former } => Phase::Returning { former: *former },
                _ => {
                    let text = format!("{why}; {}", waits_for(name));
                    control.reason = Reason::new(Rule::Blind, text);
                    Phase::Returning { former }
                }
            };
            control.limit = 0;
        }
    }

    /// Takes over a set of signals. If a removal lets the limit rise, the rest goes on from half.
    fn adopt(&mut self, levels: BTreeMap<Name, SignalLevels>) {
        let before = self.state.announced.limit;
        let at = self.state.at;
        self.levels = levels;
        self.state
            .signals
            .retain(|name, _| self.levels.contains_key(name));
        for name in self.levels.keys() {
            self.state
                .signals
                .entry(name.clone())
                .or_insert_with(|| Control::new(at, waits_for(name)));
        }
        self.adopt_law();
        if self.limit() <= before {
            return;
        }
        for (name, levels) in &self.levels {
            let Some(control) = self.state.signals.get_mut(name).filter(|_| levels.protects) else {
                continue;
            };
            if control.limit > before {
                let former = control.limit.min(self.state.max_limit);
                control.phase = Phase::Returning { former };
                control.limit = before;
                let text = "the signal that bound it was removed".to_owned();
                control.reason = Reason::new(Rule::Start, text);
            }
        }
    }

    /// Takes in a valid sample; gives the signal's name back if it is a new measurement of a signal that is known.
    fn sample(
        &mut self,
        name: Name,
        value: f64,
        age: Duration,
        now: Now,
        tuning: &Tuning,
        out: &mut Vec<Outcome>,
    ) -> Option<Name> {
        let law = self.state.law;
        let levels = self.levels.get(&name)?;
        let control = self.state.signals.get_mut(&name)?;
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let at = BootInstant(now.boot.0.saturating_sub(age_ms));
        let new = control.track.take(Point { at, value }, levels, tuning);
        if new && let Some(doubt) = learned::doubt(control, value, at, now.boot, tuning) {
            control.sight.miss(format!("{name} {doubt}"));
            return None;
        }
        control.sight.hit(new, levels, now.boot);
        if new {
            control.mark_calm(levels, law);
        }
        if control.sight.has_run()
            && let Some(blind) = control.sight.blind.take()
        {
            self.state.last_change = law;
            if control.room.is_none() {
                seen_again(control, blind);
            }
            if levels.protects {
                out.push(Outcome::Seen { signal: name.clone() });
            }
        }
        new.then_some(name)
    }

    fn miss(&mut self, name: &Name, why: &str) {
        if let Some(control) = self.state.signals.get_mut(name) {
            control.sight.miss(one_line(why, 160));
        }
    }

    /// Goes on from half of what was allowed, never below what runs, when the hold from above ends (case B31).
    fn release(&mut self, load: &Load) -> Option<Name> {
        let bases: Vec<(Name, u32)> = self
            .protecting()
            .filter(|(_, _, c)| c.limit > 0)
            .map(|(n, _, c)| (n.clone(), self.base(c)))
            .collect();
        self.state.signals.values_mut().for_each(Control::restart_window);
        let mut mover = None;
        for (name, former) in bases {
            let Some(control) = self.state.signals.get_mut(&name) else {
                continue;
            };
            let to = (former / 2).max(1).max(load.running.min(former));
            if to < former {
                control.limit = to;
                control.phase = Phase::Recovering { former };
                let text = format!("work was held and goes on below the former {former}, with paced starts");
                control.reason = Reason::new(Rule::Resume, text);
                self.state.last_change = self.state.law;
                mover = Some(name);
            }
            self.begin_pace(former);
        }
        mover
    }

    /// Paces starts until `former` runs; of several that begin together, the highest.
    pub(super) fn begin_pace(&mut self, former: u32) {
        let since = self.state.law;
        let other = self.state.pace.filter(|p| p.since == since).map(|p| p.former);
        self.state.pace = Some(Pace {
            former: former.max(other.unwrap_or(0)),
            since,
        });
    }

    fn end_pace(&mut self, load: &Load, tuning: &Tuning) {
        let Some(pace) = self.state.pace else { return };
        let reached = load.running >= pace.former.min(self.state.max_limit) && !self.state.held;
        if reached || self.state.law.since(pace.since) >= tuning.ceiling_memory {
            self.state.pace = None;
        }
    }

    /// Journals the limit if it changed, or what stops all starts if that changed. A fall is explained by the signal that
    /// binds now, a rise by the one that moved.
    pub(super) fn announce(&mut self, mover: Option<Name>, out: &mut Vec<Outcome>) {
        let limit = self.limit();
        let retell = std::mem::take(&mut self.retell);
        let said = &self.state.announced;
        let changed = limit != said.limit;
        let named = mover
            .filter(|_| limit > said.limit)
            .and_then(|name| self.all().find(|(n, _, _)| **n == name))
            .or_else(|| self.binding());
        let (signal, reason) = match named {
            Some((name, _, control)) => (Some(name.clone()), control.reason.clone()),
            None => (None, self.unbound_reason()),
        };
        let other = said.rule != reason.rule || said.signal != signal;
        let gone = said.signal.as_ref().is_some_and(|s| !self.levels.contains_key(s));
        let stopped_otherwise = limit == 0 && (other || retell);
        if !(changed || gone || stopped_otherwise) {
            return;
        }
        let (from, rule) = (said.limit, reason.rule);
        let why = sentence(from, limit, &reason);
        self.state.announced = Announced {
            limit,
            rule,
            signal: signal.clone(),
            why: why.clone(),
        };
        out.push(Outcome::Limit(LimitChange {
            from,
            to: limit,
            rule,
            signal,
            why,
            checkpoint: self.checkpoint(),
        }));
    }

    fn unbound_reason(&self) -> Reason {
        let text = if self.protecting().next().is_none() {
            "none of its signals protects it now, so only max_limit bounds it"
        } else {
            "max_limit binds"
        };
        Reason::new(Rule::Start, text.to_owned())
    }

    /// Which rule and sentence the limit in effect was announced with.
    pub(super) fn announced(&self) -> &Announced {
        &self.state.announced
    }
}

/// The same as `domain::state::Backfill::new` says of somebody else's backfill.
fn ran_before(max_limit: u32) -> String {
    format!(
        "it ran before we took hold of it, so the limit is max_limit {max_limit} until a signal says otherwise"
    )
}

fn waits_for(name: &Name) -> String {
    format!("waits for two valid samples of {name}")
}

fn first_announcement(signal: Option<&Name>, max_limit: u32) -> Announced {
    // The same as `domain::state::Backfill::new` says before the first event.
    Announced {
        limit: if signal.is_some() { 0 } else { max_limit },
        rule: Rule::Start,
        signal: signal.cloned(),
        why: signal.map_or_else(
            || format!("no signal protects this backfill, so the limit is max_limit {max_limit}"),
            waits_for,
        ),
    }
}

fn sentence(from: u32, to: u32, reason: &Reason) -> String {
    match reason.rule {
        Rule::Pause | Rule::Critical | Rule::Latch | Rule::Acknowledged => reason.text.clone(),
        _ if from == to => format!("limit stays {to}: {}", reason.text),
        _ => format!("limit {from} to {to}: {}", reason.text),
    }
}
