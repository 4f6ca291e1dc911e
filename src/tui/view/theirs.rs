//! Somebody else's backfill in words: what it is, the state word, and the one sentence that says what keeps it from
//! moving, or that it moves. What was seen carries its age, and what failed to be seen is never told as fine.

use super::{
    numbers::{age, clock, count, of, until},
    sentences::{Binder, StateWord, allowed, blind_since, quoted},
};
use crate::{
    domain::{
        Time,
        attach::{Facts, NativeSeen},
        state::{Backfill, ChunkState as S, Pause},
    },
    plan::lever::{self, PauseThere},
    tui::{
        model::{Feed, LeaseView},
        theme::Tone,
    },
};
use chrono::TimeDelta;

/// From this age on what was seen is old, although nothing failed.
const OLD: TimeDelta = TimeDelta::seconds(60);

fn n(backfill: &Backfill, state: S) -> u64 {
    u64::from(backfill.count(state))
}

/// The native backfill that can still start something.
pub(super) fn unfinished(backfill: &Backfill) -> Option<&NativeSeen> {
    native(backfill).filter(|n| n.completed.is_none())
}

fn native(backfill: &Backfill) -> Option<&NativeSeen> {
    backfill.seen.as_ref()?.native.as_ref()
}

/// When it was seen, if that is too long ago to be the present, or if the last look failed.
pub(super) fn stale(backfill: &Backfill, now: Time) -> Option<Time> {
    let facts = backfill.seen.as_ref()?;
    let at = facts.as_of?;
    (facts.problem.is_some() || now - at > OLD).then_some(at)
}

/// What it is attached to, from the longest way to say it to the shortest.
pub fn subjects(backfill: &Backfill) -> Vec<String> {
    let dag = backfill.spec.dag.as_ref().map_or("?", |d| d.id.as_str());
    let asked = backfill.spec.attach.as_ref().and_then(|a| a.native);
    let (id, seen) = match (native(backfill), asked) {
        (Some(seen), _) => (seen.id, Some(seen)),
        (None, Some(id)) => (id, None),
        (None, None) => return vec![format!("{dag}, all its runs"), dag.to_owned()],
    };
    let limit = seen.map_or_else(String::new, |s| format!(", limit {}", s.limit));
    let by = seen.and_then(|s| s.by.as_ref());
    let by = by.map_or_else(String::new, |who| format!(", by {who}"));
    vec![
        format!("{dag}, native backfill {id}{limit}{by}"),
        format!("{dag}, native backfill {id}{limit}"),
        format!("{dag}, backfill {id}"),
        dag.to_owned(),
    ]
}

/// The word of the STATE slot.
pub fn state_word(feed: &Feed, backfill: &Backfill, now: Time) -> StateWord {
    let word = |long: &str, short: &str, tone| StateWord {
        long: long.to_owned(),
        short: short.to_owned(),
        tone,
    };
    let supervised = feed.lease != LeaseView::Nobody;
    if backfill.detached.is_some() {
        return word("DETACHED", "DETACHED", Tone::Quiet);
    }
    if let (Some(pause), Some(there)) = (&backfill.pause, lever::pause_there(backfill)) {
        return match there {
            PauseThere::Holds => word(&format!("PAUSED by {}", pause.mark.by.name), "PAUSED", Tone::Warn),
            PauseThere::Asked if supervised => word("PAUSING", "PAUSING", Tone::Warn),
            _ => word("NOT PAUSED", "NOT PAUSED", Tone::Bad),
        };
    }
    if !supervised {
        return word("NOBODY SUPERVISES", "NOBODY", Tone::Warn);
    }
    match backfill.seen.as_ref() {
        None => return word("NOT READ YET", "NOT READ", Tone::Warn),
        Some(Facts { as_of: None, .. }) => return word("NOT READ YET", "NOT READ", Tone::Warn),
        Some(Facts {
            problem: Some(_),
            as_of: Some(at),
            ..
        }) => {
            return word(&format!("NOT SEEN {}", age(now - *at)), "NOT SEEN", Tone::Warn);
        }
        Some(Facts { reading: Some(_), .. }) => return word("READING", "READING", Tone::Moving),
        Some(_) => {}
    }
    of_what_is_seen(feed, backfill, now)
}

/// The word where everything was seen a moment ago.
fn of_what_is_seen(feed: &Feed, backfill: &Backfill, now: Time) -> StateWord {
    let word = |long: &str, short: &str, tone| StateWord {
        long: long.to_owned(),
        short: short.to_owned(),
        tone,
    };
    let binder = allowed(backfill, now).by;
    let by_signal = matches!(binder, Binder::Signal | Binder::Critical | Binder::Blind);
    let stuck = backfill.seen.as_ref().and_then(|f| f.stuck.as_ref());
    match native(backfill) {
        Some(native) if native.is_cancelled() => return word("CANCELLED", "CANCELLED", Tone::Quiet),
        Some(native) if native.completed.is_some() => {
            let all = n(backfill, S::Done) == backfill.chunks.len() as u64;
            let tone = if all { Tone::Good } else { Tone::Warn };
            return word("ENDED", "ENDED", tone);
        }
        Some(native) if native.paused && backfill.native_pause.is_none() => {
            return word("PAUSED there", "PAUSED", Tone::Warn);
        }
        _ => {}
    }
    if binder == Binder::Critical {
        return word("CRITICAL", "CRITICAL", Tone::Bad);
    }
    if let Some((_, since, _)) = blind_since(feed, backfill) {
        return word(&format!("BLIND {}", age(now - since)), "BLIND", Tone::Warn);
    }
    match (by_signal, lever::is_paused_there(backfill), stuck) {
        (true, false, _) if unfinished(backfill).is_some() => word("PAUSING", "PAUSING", Tone::Warn),
        (_, true, _) => word("PAUSED by signal", "PAUSED", Tone::Warn),
        (.., Some(_)) => word("STUCK", "STUCK", Tone::Bad),
        _ if n(backfill, S::Running) + n(backfill, S::Queued) > 0 => word("RUNNING", "RUNNING", Tone::Moving),
        _ => word("IDLE", "IDLE", Tone::Quiet),
    }
}

/// The sentence after `why`.
pub fn why(feed: &Feed, backfill: &Backfill, now: Time) -> String {
    let zone = backfill.spec.timezone;
    let at = |t: Time| clock(t, now, zone);
    let nothing = Facts::default();
    let facts = backfill.seen.as_ref().unwrap_or(&nothing);
    if let Some(mark) = &backfill.detached {
        return format!(
            "let go of by {} at {}{}; what is shown is as it was then, on the server it goes on",
            mark.by.name,
            at(mark.at),
            quoted(mark)
        );
    }
    let supervised = feed.lease != LeaseView::Nobody;
    let unseen = match (&facts.problem, facts.as_of) {
        (Some(problem), Some(seen)) => Some(format!(
            "not seen since {}: {problem}; what is shown is as it was then",
            at(seen)
        )),
        (Some(problem), None) => Some(format!("nothing was read yet: {problem}")),
        (None, None) => Some(format!("nothing was read of {} yet", backfill.spec.executor)),
        (None, Some(_)) => None,
    };
    if !supervised {
        let alone = "nobody supervises this journal, so nothing is looked at and no lever is moved";
        return match backfill.pause.as_ref() {
            Some(pause) => format!("{}; {alone}", paused(backfill, pause, now, None)),
            None => format!("{alone}; on the server it goes on"),
        };
    }
    if let Some(pause) = &backfill.pause {
        let unseen = unseen.or_else(|| facts.stuck.clone());
        return paused(backfill, pause, now, unseen);
    }
    if let Some(unseen) = unseen {
        return unseen;
    }
    let main = moving(feed, backfill, facts, now);
    match (&facts.stuck, &facts.note) {
        (Some(stuck), _) => format!("{stuck}; {main}"),
        (None, Some(note)) => format!("{main}; {note}"),
        (None, None) => main,
    }
}

/// A human pause, how far it is, and what makes it hard to tell.
fn paused(backfill: &Backfill, pause: &Pause, now: Time, more: Option<String>) -> String {
    let zone = backfill.spec.timezone;
    let mark = &pause.mark;
    let mut says = format!(
        "paused by {} at {}{}",
        mark.by.name,
        clock(mark.at, now, zone),
        quoted(mark)
    );
    let running = n(backfill, S::Running);
    let there = lever::pause_there(backfill);
    if let Some(why) = there.as_ref().and_then(PauseThere::why_not) {
        says.push_str(&format!("; {why}"));
    } else if there == Some(PauseThere::Asked) {
        says.push_str("; not confirmed there yet");
    } else if running > 0 {
        says.push_str(&format!("; {} running finish", of(running, "day")));
    }
    if let Some(end) = pause.until {
        let left = until((end - now).max(TimeDelta::zero()));
        says.push_str(&format!(
            "; ends by itself at {} in {left}",
            clock(end, now, zone)
        ));
    }
    if let Some(more) = more {
        says.push_str(&format!("; {more}"));
    }
    says
}

/// What holds it, or how it moves.
fn moving(feed: &Feed, backfill: &Backfill, facts: &Facts, now: Time) -> String {
    let zone = backfill.spec.timezone;
    let at = |t: Time| clock(t, now, zone);
    if let Some(reading) = facts.reading {
        return format!(
            "{} runs are read; a day without a run may have one",
            progress(reading.read, reading.total)
        );
    }
    let running = n(backfill, S::Running);
    let signal = matches!(
        allowed(backfill, now).by,
        Binder::Signal | Binder::Critical | Binder::Blind
    );
    match native(backfill) {
        Some(native) if native.completed.is_some() => {
            let how = if native.paused {
                "was cancelled"
            } else {
                "has ended"
            };
            let when = native
                .completed
                .map_or_else(String::new, |t| format!(" at {}", at(t)));
            format!(
                "native backfill {} {how}{when}: {}",
                native.id,
                left_over(backfill)
            )
        }
        Some(native) if native.paused && backfill.native_pause.is_none() => format!(
            "native backfill {} was paused on the server, by somebody else; {} running finish, p plans to resume",
            native.id,
            of(running, "day")
        ),
        _ if signal => match blind_since(feed, backfill) {
            Some((name, since, problem)) if backfill.limit.value > 0 => {
                format!("no valid sample of {name} since {}: {problem}", at(since))
            }
            _ => backfill.limit.dated(at),
        },
        Some(native) => format!(
            "native backfill {} runs {} of at most {} days at once, {} wait{}",
            native.id,
            count(running),
            native.limit,
            count(n(backfill, S::Queued)),
            pool(backfill, facts)
        ),
        None => format!(
            "no unfinished native backfill; {} run and {} wait{}",
            of(running, "day"),
            count(n(backfill, S::Queued)),
            pool(backfill, facts)
        ),
    }
}

/// `300 of 1,500`.
pub(super) fn progress(read: u32, total: u32) -> String {
    format!("{} of {}", count(u64::from(read)), count(u64::from(total)))
}

fn pool(backfill: &Backfill, facts: &Facts) -> String {
    let Some(pool) = &facts.pool else {
        return String::new();
    };
    let slots = u64::try_from(pool.slots).map_or_else(|_| "no limit".to_owned(), |n| of(n, "slot"));
    let former = match &backfill.pool {
        Some(hold) if hold.written.is_some() && hold.former >= 0 => format!(" instead of {}", hold.former),
        Some(hold) if hold.written.is_some() => " instead of no limit".to_owned(),
        _ => String::new(),
    };
    format!("; pool {} has {slots}{former}", pool.name)
}

/// What is left when it has ended.
fn left_over(backfill: &Backfill) -> String {
    let parts: Vec<String> = [
        S::Running,
        S::Queued,
        S::Failed,
        S::Cancelled,
        S::Uncertain,
        S::Absent,
    ]
    .into_iter()
    .filter(|s| n(backfill, *s) > 0)
    .map(|s| format!("{} {}", count(n(backfill, s)), s.word()))
    .collect();
    if parts.is_empty() {
        return "every day is done".to_owned();
    }
    parts.join(", ")
}
