//! The throttles of all backfills and the judgement of their signals' readings.

use super::fleet::{self, Durations};
use crate::{
    config::SignalConfig,
    domain::{
        Time,
        event::{Actor, LimitChange, NewEvent, Payload, Rule},
        ids::{BackfillId, Name},
        spec::Law,
        state::{Backfill, State},
        tuning::Tuning,
    },
    host::{boot_id, boot_now},
    plan::{
        decide::{self, Surroundings},
        room::Admission,
        throttle::{Fleet, Input, Load, Now, Outcome, Report, SignalLevels, Throttle},
    },
    signals::{
        Part, Reading,
        validity::{UsualAge, judge, skew_warning},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    time::Duration,
};

/// How often the throttles are told that time passes.
const TICK: Duration = Duration::from_millis(500);
/// How often the usual duration of chunks is computed anew.
const DURATIONS_EVERY: Duration = Duration::from_secs(15);
/// A restart takes less, the minute between two checkpoints included. After more nobody knows what the live load did.
const LONGEST_GAP: Duration = Duration::from_secs(150);

/// One throttle a backfill, one judge a signal.
pub struct Limits {
    levels: BTreeMap<Name, SignalLevels>,
    usual: BTreeMap<Name, UsualAge>,
    intervals: BTreeMap<Name, Duration>,
    throttles: BTreeMap<BackfillId, Throttle>,
    /// The signals that each throttle was last given.
    covered: BTreeMap<BackfillId, Vec<Name>>,
    durations: BTreeMap<BackfillId, (Durations, crate::host::BootInstant)>,
    boot: String,
    ticked: Option<crate::host::BootInstant>,
    reconfigured: bool,
    judged: Vec<Judged>,
}

/// A reading after it was judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The signal.
    pub signal: Name,
    /// Value and age of a valid sample, or why there is none.
    pub sample: Result<(f64, Duration), String>,
    /// What the reading was made of, where there is more than one thing.
    pub parts: Vec<Part>,
    /// Worth a word although the sample is valid: the server's clock is off.
    pub warning: Option<String>,
}

impl Limits {
    /// Throttles as their newest checkpoints have them: that of the last limit event, or a younger one of the
    /// minute table.
    pub fn restore(
        signals: &BTreeMap<Name, SignalConfig>,
        state: &State,
        checkpoint: impl Fn(&BackfillId) -> Option<(Time, String)>,
    ) -> Self {
        let mut limits = Self {
            levels: BTreeMap::new(),
            usual: BTreeMap::new(),
            intervals: BTreeMap::new(),
            throttles: BTreeMap::new(),
            covered: BTreeMap::new(),
            durations: BTreeMap::new(),
            boot: boot_id(),
            ticked: None,
            reconfigured: false,
            judged: Vec::new(),
        };
        limits.reconfigure(signals);
        limits.reconfigured = false;
        for backfill in state.backfills.values() {
            let minute = checkpoint(&backfill.id)
                .filter(|(at, _)| *at > backfill.limit.at)
                .map(|(_, json)| json);
            let saved = minute.unwrap_or_else(|| backfill.limit.checkpoint.clone());
            let levels = limits.levels_of(backfill);
            let at = now_at(backfill.limit.at);
            match Throttle::restore(&saved, levels, &limits.boot, at) {
                Ok(throttle) => limits.keep(
                    backfill,
                    after_restart(throttle, backfill, at).by_law(backfill.spec.throttling.law),
                ),
                Err(error) => tracing::debug!(%error, backfill = %backfill.id, "its throttle begins anew"),
            }
        }
        limits
    }

    /// New thresholds. A signal that is gone drops out at once with its last value (case B25).
    pub fn reconfigure(&mut self, signals: &BTreeMap<Name, SignalConfig>) {
        self.levels = signals.iter().map(|(n, s)| (n.clone(), levels(s))).collect();
        self.usual.retain(|name, _| signals.contains_key(name));
        self.intervals = signals.iter().map(|(n, s)| (n.clone(), s.interval)).collect();
        self.reconfigured = true;
    }

    /// The signals of the configuration in force, and whether they protect.
    pub fn known(&self) -> BTreeMap<Name, bool> {
        self.levels.iter().map(|(n, l)| (n.clone(), l.protects)).collect()
    }

    fn levels_of(&self, backfill: &Backfill) -> BTreeMap<Name, SignalLevels> {
        let wanted = backfill.spec.signals.iter();
        wanted
            .filter_map(|n| self.levels.get(n).map(|l| (n.clone(), *l)))
            .collect()
    }

    /// Takes a reading in for every backfill that the signal protects.
    pub fn reading(
        &mut self,
        state: &State,
        signal: &Name,
        reading: &Reading,
        around: &Surroundings,
        now: Time,
    ) -> Vec<NewEvent> {
        let Some(valid) = self.judge(signal, reading) else {
            return Vec::new();
        };
        let warning = skew_warning(reading);
        self.judged.push(Judged {
            signal: signal.clone(),
            parts: parts_of(reading, &valid),
            sample: valid.clone(),
            warning,
        });
        let input = match valid {
            Ok((value, age)) => Input::Sample {
                signal: signal.clone(),
                value,
                age,
            },
            Err(why) => Input::NoSample {
                signal: signal.clone(),
                why,
            },
        };
        let concerned: Vec<&Backfill> = state
            .backfills
            .values()
            .filter(|b| is_live(b) && b.spec.signals.contains(signal))
            .collect();
        let mut events = Vec::new();
        for backfill in concerned {
            let load = self.load(state, backfill, around);
            let outcomes =
                self.throttle(backfill, now)
                    .step(input.clone(), &load, now_at(now), &around.tuning);
            collect(state, backfill, outcomes, now, &mut events);
            self.govern(state, backfill, &load, around, now, &mut events);
        }
        events
    }

    /// Whether a reading is a valid sample: its value and age, or why it is none. `None` for an unknown signal.
    pub fn judge(&mut self, signal: &Name, reading: &Reading) -> Option<Result<(f64, Duration), String>> {
        let interval = *self.intervals.get(signal)?;
        let usual = self.usual.entry(signal.clone()).or_default();
        let valid = judge(reading, usual, interval).map_err(|unusable| unusable.why);
        usual.observe(boot_now(), reading);
        let age = match reading {
            Reading::Value { age, .. } => *age,
            _ => Duration::ZERO,
        };
        Some(valid.map(|value| (value, age)))
    }

    /// What was judged since the last call, to be recorded.
    pub fn take_judged(&mut self) -> Vec<Judged> {
        std::mem::take(&mut self.judged)
    }

    /// Time passes: blind times, holds and latches become due.
    pub fn tick(&mut self, state: &State, around: &Surroundings, now: Time) -> Vec<NewEvent> {
        let boot = boot_now();
        self.throttles
            .retain(|id, _| state.backfills.get(id).is_some_and(is_live));
        let mut events = self.follow_orders(state, around, now);
        events.extend(self.gone(state, now));
        let configured = std::mem::take(&mut self.reconfigured);
        if !configured && self.ticked.is_some_and(|t| boot.since(t) < TICK) {
            return events;
        }
        self.ticked = Some(boot);
        for backfill in state
            .backfills
            .values()
            .filter(|b| is_live(b) && !b.spec.signals.is_empty())
        {
            let load = self.load(state, backfill, around);
            let levels = self.levels_of(backfill);
            let throttle = self.throttle(backfill, now);
            let mut outcomes = Vec::new();
            if configured {
                outcomes = throttle.configure(levels, &load, now_at(now), &around.tuning);
            }
            outcomes.extend(throttle.step(Input::Tick, &load, now_at(now), &around.tuning));
            collect(state, backfill, outcomes, now, &mut events);
            self.govern(state, backfill, &load, around, now, &mut events);
        }
        events
    }

    /// Blind signals that the configuration no longer has: what they last said counts no more (case B25).
    fn gone(&self, state: &State, now: Time) -> Vec<NewEvent> {
        let gone = state.blind.keys().filter(|s| !self.levels.contains_key(*s));
        gone.map(|signal| NewEvent {
            at: now,
            actor: Actor::supervisor(),
            reason: None,
            backfill: None,
            payload: Payload::SignalGone {
                signal: signal.clone(),
            },
        })
        .collect()
    }

    /// Lets the learned law decide, and brakes where it says so.
    fn govern(
        &mut self,
        state: &State,
        backfill: &Backfill,
        load: &Load,
        around: &Surroundings,
        now: Time,
        events: &mut Vec<NewEvent>,
    ) {
        let throttling = backfill.spec.throttling;
        if throttling.law != Law::Learned {
            return;
        }
        let durations = self.durations(backfill);
        let fleet = fleet::running(backfill, &durations, now);
        let governed = self.throttle(backfill, now).govern(
            &Fleet {
                running: &fleet.running,
                mean: durations.mean.as_secs_f64(),
                cancel: throttling.cancel_share.map(|percent| f64::from(percent) / 100.0),
            },
            load,
            now_at(now),
            &around.tuning,
        );
        collect(state, backfill, governed.outcomes, now, events);
        let attempts = fleet.of(&governed.cancel);
        if !attempts.is_empty() {
            events.push(NewEvent {
                at: now,
                actor: Actor::supervisor(),
                reason: None,
                backfill: Some(backfill.id.clone()),
                payload: Payload::Braked {
                    attempts,
                    why: governed.why,
                },
            });
        }
    }

    /// Tells the learned law what runs now: what starts between two of its decisions has to be known to the next.
    pub fn note_running(&mut self, state: &State, now: Time) {
        for (id, throttle) in &mut self.throttles {
            if let Some(backfill) = state.backfills.get(id) {
                throttle.runs(now_at(now), backfill.running_weight());
            }
        }
    }

    /// What the learned law admits beside what it was last told to run, by backfill.
    pub fn admissions(&self, tuning: &Tuning, now: Time) -> BTreeMap<BackfillId, Admission> {
        let each = self.throttles.iter();
        each.filter_map(|(id, throttle)| Some((id.clone(), throttle.admission(now_at(now), tuning)?)))
            .collect()
    }

    /// Everything that a screen shows of a throttle.
    pub fn report(&self, id: &BackfillId, tuning: &Tuning, now: Time) -> Option<Report> {
        let throttle = self.throttles.get(id)?;
        Some(throttle.report(now_at(now), tuning))
    }

    /// Orders change while they run, and ended ones are opened again: from then on the journal's limit must be that
    /// of the throttle which watches now.
    fn follow_orders(&mut self, state: &State, around: &Surroundings, now: Time) -> Vec<NewEvent> {
        let mut events = Vec::new();
        for backfill in state.backfills.values().filter(|b| is_live(b)) {
            let signals = &backfill.spec.signals;
            if signals.is_empty() {
                let max = backfill.spec.max_limit;
                let why = || format!("no signal protects this backfill, so the limit is max_limit {max}");
                events.extend(moved(backfill, max, why, String::new(), now));
                continue;
            }
            let watched = self.throttles.contains_key(&backfill.id);
            let levels = self.levels_of(backfill);
            if !watched {
                let throttle = self.throttle(backfill, now);
                let (limit, saved) = (throttle.limit(), throttle.checkpoint());
                let why = || format!("waits for two valid samples of {}", words(signals));
                events.extend(moved(backfill, limit, why, saved, now));
            } else if self.covered.get(&backfill.id) != Some(signals) {
                let load = self.load(state, backfill, around);
                let throttle = self.throttle(backfill, now);
                let outcomes = throttle.configure(levels, &load, now_at(now), &around.tuning);
                self.covered.insert(backfill.id.clone(), signals.clone());
                collect(state, backfill, outcomes, now, &mut events);
            }
        }
        events
    }

    fn keep(&mut self, backfill: &Backfill, throttle: Throttle) {
        self.throttles.insert(backfill.id.clone(), throttle);
        self.covered
            .insert(backfill.id.clone(), backfill.spec.signals.clone());
    }

    /// A human acknowledged the latch of a backfill.
    pub fn acknowledge(
        &mut self,
        state: &State,
        id: &BackfillId,
        tuning: &Tuning,
        now: Time,
    ) -> Vec<NewEvent> {
        let Some(backfill) = state.backfills.get(id) else {
            return Vec::new();
        };
        let outcomes = self.throttle(backfill, now).acknowledge(now_at(now), tuning);
        let mut events = Vec::new();
        collect(state, backfill, outcomes, now, &mut events);
        events
    }

    /// Backfills whose starts keep their gap now.
    pub fn paced(&self, tuning: &Tuning) -> BTreeSet<BackfillId> {
        let paced = self
            .throttles
            .iter()
            .filter(|(_, t)| t.start_gap(tuning).is_some());
        paced.map(|(id, _)| id.clone()).collect()
    }

    /// The state of a backfill's throttle as JSON, to go on from after a restart.
    pub fn checkpoint(&self, id: &BackfillId) -> Option<String> {
        self.throttles.get(id).map(Throttle::checkpoint)
    }

    /// The throttle of a backfill; of one that was opened again as its last limit event has it, but for what it saw:
    /// nobody looked for it since it ended. Else a new one.
    fn throttle(&mut self, backfill: &Backfill, now: Time) -> &mut Throttle {
        let levels = self.levels_of(backfill);
        match self.throttles.entry(backfill.id.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let (spec, now) = (&backfill.spec, now_at(now));
                self.covered.insert(backfill.id.clone(), spec.signals.clone());
                let saved = Throttle::restore(&backfill.limit.checkpoint, levels.clone(), &self.boot, now);
                let new = |_| {
                    let begin = if spec.attach.is_some() {
                        Throttle::of_running
                    } else {
                        Throttle::new
                    };
                    begin(levels, spec.max_limit, &self.boot, now)
                };
                let again = saved.map(|throttle| match spec.attach {
                    Some(_) => throttle,
                    None => throttle.after_gap(now),
                });
                place.insert(again.unwrap_or_else(new).by_law(spec.throttling.law))
            }
        }
    }

    fn load(&mut self, state: &State, backfill: &Backfill, around: &Surroundings) -> Load {
        let stop = decide::stop_of(state, backfill, around);
        let elsewhere = around.elsewhere.get(&backfill.id);
        Load {
            running: elsewhere.map_or_else(|| backfill.running_weight(), |e| e.running),
            next_weight: match elsewhere {
                Some(e) => (e.waiting > 0).then_some(1),
                None => decide::next_weight(backfill, around),
            },
            median_chunk: self.durations(backfill).median,
            held_above: stop.is_some_and(decide::Stop::is_above_controller),
            max_limit: backfill.spec.max_limit,
        }
    }

    fn durations(&mut self, backfill: &Backfill) -> Durations {
        let boot = boot_now();
        match self.durations.get(&backfill.id) {
            Some((durations, at)) if boot.since(*at) < DURATIONS_EVERY => durations.clone(),
            _ => {
                let durations = fleet::durations(backfill);
                self.durations
                    .insert(backfill.id.clone(), (durations.clone(), boot));
                durations
            }
        }
    }
}

/// A throttle as the journal has it, for a supervisor that begins at `at`. Somebody else's backfill runs whether we look
/// or not: it is not stopped there only because nobody looked.
fn after_restart(throttle: Throttle, backfill: &Backfill, at: Now) -> Throttle {
    if backfill.spec.attach.is_none() && throttle.idle(at) > LONGEST_GAP {
        throttle.after_gap(at)
    } else {
        throttle
    }
}

/// The parts of a reading. Where the whole of it is no valid sample, the numbers of its parts are none either.
fn parts_of(reading: &Reading, valid: &Result<(f64, Duration), String>) -> Vec<Part> {
    let Reading::Value { parts, .. } = reading else {
        return Vec::new();
    };
    let Err(why) = valid else {
        return parts.clone();
    };
    let without = |part: &Part| Part {
        value: Err(part.value.as_ref().err().unwrap_or(why).clone()),
        ..part.clone()
    };
    parts.iter().map(without).collect()
}

/// The event that brings the journal's limit to what it is, if it is not that already.
fn moved(
    backfill: &Backfill,
    to: u32,
    why: impl FnOnce() -> String,
    checkpoint: String,
    now: Time,
) -> Option<NewEvent> {
    let from = backfill.limit.value;
    (from != to).then(|| NewEvent {
        at: now,
        actor: Actor::supervisor(),
        reason: None,
        backfill: Some(backfill.id.clone()),
        payload: Payload::LimitChanged {
            change: LimitChange {
                from,
                to,
                rule: Rule::Start,
                signal: backfill.spec.signals.first().cloned(),
                why: format!("limit {from} to {to}: {}", why()),
                checkpoint,
            },
        },
    })
}

fn words(signals: &[Name]) -> String {
    let names: Vec<&str> = signals.iter().map(Name::as_str).collect();
    names.join(", ")
}

fn is_live(backfill: &Backfill) -> bool {
    !backfill.state().is_final()
}

fn now_at(wall: Time) -> Now {
    Now {
        boot: boot_now(),
        wall,
    }
}

fn levels(signal: &SignalConfig) -> SignalLevels {
    SignalLevels {
        unit: signal.unit,
        low: signal.low,
        soft: signal.soft,
        hard: signal.hard,
        critical: signal.critical,
        interval: signal.interval,
        protects: signal.protects,
    }
}

/// Outcomes as events. Several backfills may share a signal: its blindness is journaled once.
fn collect(
    state: &State,
    backfill: &Backfill,
    outcomes: Vec<Outcome>,
    now: Time,
    events: &mut Vec<NewEvent>,
) {
    for outcome in outcomes {
        let (actor, payload) = outcome.into_event();
        let known = match &payload {
            Payload::BlindSince { signal, .. } => state.blind.contains_key(signal),
            Payload::SeenAgain { signal } | Payload::SignalGone { signal } => {
                !state.blind.contains_key(signal)
            }
            _ => false,
        };
        let about = matches!(payload, Payload::LimitChanged { .. }).then(|| backfill.id.clone());
        if !known {
            events.push(NewEvent {
                at: now,
                actor,
                reason: None,
                backfill: about,
                payload,
            });
        }
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod tests;
