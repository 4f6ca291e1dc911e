//! The state word, the limit that holds, and the one sentence that says what binds right now. Pure, and apart from
//! drawing, so that each can be read in a test.

use super::{
    numbers::{age, clock, count, of, until},
    theirs,
};
use crate::{
    domain::{
        Time, blackout,
        event::Rule,
        state::{Backfill, BackfillState, ChunkState, Mark},
    },
    plan::{decide, throttle::authority::Binding},
    tui::{
        model::{Feed, LeaseView},
        plans::known_signals,
        theme::Tone,
    },
};
use chrono::TimeDelta;

/// What stands in the STATE slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateWord {
    /// With who or how long: `PAUSED by minh`.
    pub long: String,
    /// For narrow screens, where the *why* line says the rest: `PAUSED`.
    pub short: String,
    /// How loud it is.
    pub tone: Tone,
}

/// What makes the limit that holds now, in the order of authority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binder {
    /// The order ended or is ending.
    Ended,
    /// A signal is past critical.
    Critical,
    /// Too much failed alike.
    Breaker,
    /// A window without starts is open.
    Blackout,
    /// `on_failure` stopped further starts.
    Failure,
    /// A human paused it.
    Human,
    /// A protecting signal gives no samples.
    Blind,
    /// A signal is past hard.
    Signal,
    /// A human cap.
    Cap,
    /// A human override.
    Force,
    /// The controller.
    Controller,
    /// Nothing but the configured maximum.
    Max,
}

/// The running weight that is allowed now, and by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// Running weight.
    pub value: u32,
    /// Who made it so.
    pub by: Binder,
}

/// The limit that holds now: pauses first, then min(`max_limit`, cap, controller or override).
pub fn allowed(backfill: &Backfill, now: Time) -> Allowed {
    let none = |by| Allowed { value: 0, by };
    let limit = &backfill.limit;
    let state = backfill.state();
    if state.is_final() && state != BackfillState::Incomplete || state == BackfillState::Cancelling {
        return none(Binder::Ended);
    }
    if limit.rule == Rule::Critical && limit.value == 0 {
        return none(Binder::Critical);
    }
    if backfill.breaker.is_some() {
        return none(Binder::Breaker);
    }
    if blackout::now(&backfill.spec.blackout, now).is_some() {
        return none(Binder::Blackout);
    }
    if backfill.stopped.is_some() {
        return none(Binder::Failure);
    }
    if backfill.pause.is_some() {
        return none(Binder::Human);
    }
    if limit.value == 0 && matches!(limit.rule, Rule::Pause | Rule::Latch) {
        return none(Binder::Signal);
    }
    // Below the pauses one rule of the planner holds for limit, cap and force.
    let rest = decide::allowed(backfill, now);
    let by = match rest.by {
        Binding::Throttle if rest.limit == 0 && limit.rule == Rule::Blind => Binder::Blind,
        Binding::Throttle => Binder::Controller,
        Binding::Cap => Binder::Cap,
        Binding::Force => Binder::Force,
        Binding::MaxLimit => Binder::Max,
    };
    Allowed {
        value: rest.limit,
        by,
    }
}

/// Since when a protecting signal of this backfill gives no valid samples: the longest one.
pub fn blind_since(feed: &Feed, backfill: &Backfill) -> Option<(String, Time, String)> {
    let signals = backfill.spec.signals.iter();
    signals
        .filter_map(|name| feed.state.blind.get(name).map(|b| (name, b)))
        .map(|(name, b)| (name.to_string(), b.last.unwrap_or(b.since), b.why.clone()))
        .min_by_key(|(_, since, _)| *since)
}

/// The word of the STATE slot.
pub fn state_word(feed: &Feed, backfill: &Backfill, now: Time) -> StateWord {
    if backfill.spec.attach.is_some() {
        return theirs::state_word(feed, backfill, now);
    }
    let word = |long: &str, short: &str, tone| StateWord {
        long: long.to_owned(),
        short: short.to_owned(),
        tone,
    };
    match backfill.state() {
        BackfillState::Complete => return word("COMPLETE", "COMPLETE", Tone::Good),
        BackfillState::Incomplete if backfill.stopped.is_none() => {
            return word("INCOMPLETE", "INCOMPLETE", Tone::Bad);
        }
        BackfillState::Cancelled => return word("CANCELLED", "CANCELLED", Tone::Quiet),
        BackfillState::Cancelling => return word("CANCELLING", "CANCELLING", Tone::Warn),
        BackfillState::Draft => return word("DRAFT", "DRAFT", Tone::Quiet),
        _ => {}
    }
    let supervised = feed.lease != LeaseView::Nobody;
    if let Some(pause) = &backfill.pause {
        return match pause.applied {
            None if supervised => word("PAUSING", "PAUSING", Tone::Warn),
            _ => word(&format!("PAUSED by {}", pause.mark.by.name), "PAUSED", Tone::Warn),
        };
    }
    if !supervised {
        return word("NOBODY SUPERVISES", "NOBODY", Tone::Warn);
    }
    let by = allowed(backfill, now).by;
    if by == Binder::Critical {
        return word("CRITICAL", "CRITICAL", Tone::Bad);
    }
    if let Some((_, since, _)) = blind_since(feed, backfill) {
        let long = format!("BLIND {}", age(now - since));
        let short = if long.len() <= 10 {
            long.clone()
        } else {
            "BLIND".to_owned()
        };
        return word(&long, &short, Tone::Warn);
    }
    if is_unprotected(feed, backfill) {
        return word("NO SIGNAL", "NO SIGNAL", Tone::Bad);
    }
    match by {
        Binder::Breaker => word("PAUSED by breaker", "PAUSED", Tone::Bad),
        Binder::Blackout => word("BLACKOUT", "BLACKOUT", Tone::Warn),
        Binder::Failure => word("PAUSED by failure", "PAUSED", Tone::Bad),
        Binder::Signal if is_latched(backfill) => word("LATCHED by signal", "LATCHED", Tone::Bad),
        Binder::Signal => word("PAUSED by signal", "PAUSED", Tone::Warn),
        Binder::Controller if allowed(backfill, now).value == 0 => word("NO STARTS", "NO STARTS", Tone::Warn),
        _ => word("RUNNING", "RUNNING", Tone::Moving),
    }
}

/// Whether signals paused it so often that it waits for a person.
pub fn is_latched(backfill: &Backfill) -> bool {
    backfill.limit.rule == Rule::Latch && backfill.spec.attach.is_none()
}

/// Whether what protects it left the configuration, so that nothing starts.
pub fn is_unprotected(feed: &Feed, backfill: &Backfill) -> bool {
    known_signals(feed).is_some_and(|known| decide::is_unprotected(backfill, &known))
}

/// Whether a signal holds everything back, so that the screen shows what it takes to go on.
pub fn held_by_signal(feed: &Feed, backfill: &Backfill, now: Time) -> bool {
    feed.lease != LeaseView::Nobody
        && backfill.pause.is_none()
        && matches!(allowed(backfill, now).by, Binder::Signal | Binder::Critical)
        && blind_since(feed, backfill).is_none()
}

/// The sentence after `why`: what binds, since when, with the value and the threshold that it crossed.
pub fn why(feed: &Feed, backfill: &Backfill, now: Time) -> String {
    let zone = backfill.spec.timezone;
    let at = |t: Time| clock(t, now, zone);
    if let Some(problem) = &feed.problem {
        return format!("the journal cannot be read since {}: {problem}", at(feed.as_of));
    }
    if let Some((_, kind, version)) = &feed.state.unreadable {
        return format!(
            "this program only watches: the journal has an event {kind} v{version} that is newer than it"
        );
    }
    if backfill.spec.attach.is_some() {
        return theirs::why(feed, backfill, now);
    }
    if let Some(sentence) = why_ended(backfill, now) {
        return sentence;
    }
    let supervised = feed.lease != LeaseView::Nobody;
    if let Some(pause) = &backfill.pause {
        let paused = why_paused(pause, supervised, now, zone);
        return match blackout::now(&backfill.spec.blackout, now).and_then(|c| c.until) {
            Some(until) => format!("{paused}; a blackout holds as well, until {}", at(until)),
            None => paused,
        };
    }
    if !supervised {
        let open = backfill.active().count();
        let runs = match open {
            0 => "nothing runs".to_owned(),
            n => format!("{} run on by themselves", of(n as u64, "attempt")),
        };
        return format!("nobody supervises this journal, so nothing will start; {runs}");
    }
    if let Some((name, since, problem)) = blind_since(feed, backfill) {
        return if backfill.limit.rule == Rule::Blind {
            backfill.limit.why.clone()
        } else {
            format!(
                "no valid sample of {name} since {}: {problem}; no growth",
                at(since)
            )
        };
    }
    if is_unprotected(feed, backfill) {
        let name = &backfill.spec.name;
        return format!(
            "what protects it is not in the configuration any more, so nothing starts: put it back, or backfill amend {name}"
        );
    }
    let nothing_fits = feed.estimate.as_ref().filter(|e| e.backfill == backfill.id);
    if let Some(begins) = nothing_fits.and_then(|e| e.before_blackout).filter(|t| *t > now)
        && matches!(
            allowed(backfill, now).by,
            Binder::Max | Binder::Controller | Binder::Cap | Binder::Force
        )
        && allowed(backfill, now).value > 0
    {
        return format!(
            "nothing new starts before the blackout at {} (in {}): what waits would still run then",
            at(begins),
            until(begins - now)
        );
    }
    why_limited(backfill, now)
}

fn why_closed(backfill: &Backfill, now: Time) -> String {
    let Some(closed) = blackout::now(&backfill.spec.blackout, now) else {
        return String::new();
    };
    let zone = backfill.spec.timezone;
    let ends = match closed.until {
        Some(end) => format!("until {} (in {})", clock(end, now, zone), until(end - now)),
        None => "for more than a week".to_owned(),
    };
    format!("blackout {ends}; {}; running chunks finish", closed.window)
}

fn why_ended(backfill: &Backfill, now: Time) -> Option<String> {
    let zone = backfill.spec.timezone;
    let since = |mark: &Mark| clock(mark.at, now, zone);
    let n = |state| u64::from(backfill.count(state));
    Some(match backfill.state() {
        BackfillState::Complete => {
            let ended = clock(backfill.changed, now, zone);
            let skipped = n(ChunkState::Skipped);
            let all = backfill.chunks.len() as u64;
            let unit = backfill.spec.granularity.word();
            if skipped == 0 {
                format!("all {} are done since {ended}", of(all, unit))
            } else {
                format!(
                    "all {} are done or skipped since {ended}, {} skipped",
                    of(all, unit),
                    count(skipped)
                )
            }
        }
        BackfillState::Incomplete if backfill.stopped.is_none() => {
            let parts: Vec<String> = [
                ChunkState::Failed,
                ChunkState::Quarantined,
                ChunkState::Held,
                ChunkState::Cancelled,
            ]
            .into_iter()
            .filter(|s| n(*s) > 0)
            .map(|s| format!("{} {}", count(n(s)), s.word()))
            .collect();
            format!("nothing can move without you: {}", parts.join(", "))
        }
        BackfillState::Cancelled => match &backfill.cancel {
            Some(mark) => format!("cancelled by {} at {}{}", mark.by.name, since(mark), quoted(mark)),
            None => "cancelled".to_owned(),
        },
        BackfillState::Cancelling => {
            let open = of(backfill.active().count() as u64, "attempt");
            match &backfill.cancel {
                Some(mark) => {
                    format!(
                        "cancelled by {} at {}: {open} still to end",
                        mark.by.name,
                        since(mark)
                    )
                }
                None => format!("{open} still to end"),
            }
        }
        _ => return None,
    })
}

/// A human's reason, as it follows a sentence.
pub(super) fn quoted(mark: &Mark) -> String {
    mark.reason
        .as_ref()
        .map_or_else(String::new, |reason| format!(": \"{reason}\""))
}

fn why_paused(
    pause: &crate::domain::state::Pause,
    supervised: bool,
    now: Time,
    zone: chrono_tz::Tz,
) -> String {
    let mark = &pause.mark;
    let at = clock(mark.at, now, zone);
    let mut sentence = format!("paused by {} at {at}{}", mark.by.name, quoted(mark));
    match &pause.applied {
        None if supervised => sentence.push_str("; the supervisor has not confirmed it yet"),
        None => sentence.push_str("; nobody supervises, so nothing starts anyway"),
        Some(open) if !open.is_empty() => {
            sentence.push_str(&format!("; {} under way then", of(open.len() as u64, "attempt")));
        }
        Some(_) => {}
    }
    if let Some(end) = pause.until {
        let left = until((end - now).max(TimeDelta::zero()));
        sentence.push_str(&format!(
            "; ends by itself at {} in {left}",
            clock(end, now, zone)
        ));
    }
    sentence
}

fn why_limited(backfill: &Backfill, now: Time) -> String {
    let zone = backfill.spec.timezone;
    let at = |t: Time| clock(t, now, zone);
    let allowed = allowed(backfill, now);
    match allowed.by {
        Binder::Breaker => match &backfill.breaker {
            Some(breaker) => format!(
                "breaker open since {}: {}; one chunk is tried at {}",
                at(breaker.at),
                breaker.why,
                at(breaker.retry_at)
            ),
            None => "breaker open".to_owned(),
        },
        Binder::Blackout => why_closed(backfill, now),
        Binder::Failure => match &backfill.stopped {
            Some((chunk, why)) => format!("no further starts since {chunk} failed: {why}"),
            None => "no further starts".to_owned(),
        },
        Binder::Cap => match &backfill.cap {
            Some((cap, mark)) => format!(
                "limit {cap}: cap set by {} at {}{}; the controller would allow {}",
                mark.by.name,
                at(mark.at),
                quoted(mark),
                backfill.limit.value
            ),
            None => String::new(),
        },
        Binder::Force => match &backfill.force {
            Some((force, mark)) => format!(
                "limit {}: forced by {} until {} (in {}){}; the controller would allow {}",
                allowed.value,
                mark.by.name,
                at(force.until),
                until(force.until - now),
                quoted(mark),
                backfill.limit.value
            ),
            None => String::new(),
        },
        _ if backfill.limit.why.is_empty() => format!("limit {}", allowed.value),
        _ => backfill.limit.dated(at),
    }
}

/// Cuts a sentence at the end of a clause so that it fits, or not at all if it fits already. Where that would leave
/// little of a long sentence and more than half of the room empty, it is left whole, to be cut where the room ends.
pub fn clauses(sentence: &str, fits: impl Fn(&str) -> bool) -> &str {
    let mut rest = sentence;
    let fitting = sentence.char_indices().map(|(at, _)| at);
    let room = fitting
        .take_while(|at| fits(&sentence[..*at]))
        .last()
        .unwrap_or(0);
    while !fits(rest) {
        let cut = ["; ", ", ", ": "]
            .iter()
            .filter_map(|mark| rest.rfind(mark))
            .max();
        match cut {
            Some(at) if at > sentence.len() / 3 || at > room / 2 => rest = &rest[..at],
            _ => return sentence,
        }
    }
    rest
}
