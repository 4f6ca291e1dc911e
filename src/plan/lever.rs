//! Which of an engine's own levers has to be moved: the native pause and the pool's slots follow the human pause and
//! the limit, as starts of our own do.
//!
//! Both are wishes that are compared with what is seen, so that a crash, a lost answer or a restart only delays them.
//! Three rules keep us from fighting with people: only a pause that is ours is lifted by us; a pause of ours that
//! somebody lifted on the server is not set again; a pool that somebody else set is theirs again.

use super::decide;
use crate::domain::{
    Time,
    attach::{Action, Asked, Facts, PoolSeen},
    event::Rule,
    state::{Backfill, ChunkState},
};
use std::time::Duration;

/// After an action that did not do what it promised, the same is not asked for again for so long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What has to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lever {
    /// An action is to be asked for, and this is why.
    Ask(Action, String),
    /// The pool becomes ours to set: what it has now is to be remembered first.
    TakePool {
        /// The pool.
        pool: String,
        /// Its slots now.
        former: i64,
    },
    /// The pool is not ours any more.
    LetPoolGo {
        /// The pool.
        pool: String,
        /// Its slots now.
        slots: i64,
        /// In words.
        why: String,
    },
}

/// What has to be done to the engine's own backfill, if anything. `facts` is what was last seen of it; `protected`: a
/// signal that it was attached with is still looked at, or it never had one.
pub fn native(backfill: &Backfill, facts: &Facts, protected: bool, now: Time) -> Option<Lever> {
    let native = facts.native.as_ref().filter(|n| n.completed.is_none())?;
    if backfill.detached.is_some() {
        return None;
    }
    let pause = Action::Pause { whole_dag: false };
    let resume = Action::Resume { whole_dag: false };
    match (holds(backfill, now), native.paused) {
        (Some(why), false) if backfill.native_pause.is_none() && may_ask(backfill, &pause, now) => {
            Some(Lever::Ask(pause, why))
        }
        // That nobody looks any more ends no pause of a signal; one of a person ends when that person says so.
        (None, true)
            if (protected || !paused_by_signal(backfill))
                && backfill.native_pause.is_some()
                && may_ask(backfill, &resume, now) =>
        {
            let why = format!("the limit is {}", decide::allowed(backfill, now).limit);
            Some(Lever::Ask(resume, why))
        }
        _ => None,
    }
}

/// Whether the pause of ours on the native backfill was asked for because of a signal.
fn paused_by_signal(backfill: &Backfill) -> bool {
    let ours = |a: &&Asked| Some(a.seq) == backfill.native_pause;
    let pause = backfill.asked.iter().find(ours);
    pause.is_some_and(|a| a.mark.by.name.starts_with("signal:"))
}

/// Why there is no native backfill whose levers could be moved; `None` while there is one.
pub fn no_native(facts: Option<&Facts>) -> Option<String> {
    match facts.and_then(|f| f.native.as_ref()) {
        Some(n) if n.is_cancelled() => Some(format!("native backfill {} was cancelled", n.id)),
        Some(n) if n.completed.is_some() => Some(format!("native backfill {} has ended", n.id)),
        Some(_) => None,
        None => Some("the DAG has no unfinished native backfill".to_owned()),
    }
}

/// The native backfill that an action is about, as it was seen; `None` of actions on days, pools and whole DAGs, and while
/// one that we made ourselves since is not seen yet: then it is about that one.
pub fn meant(backfill: &Backfill, facts: Option<&Facts>, action: &Action) -> Option<u64> {
    let of_native = matches!(
        action,
        Action::Pause { whole_dag: false }
            | Action::Resume { whole_dag: false }
            | Action::Cancel { .. }
            | Action::Replace { .. }
    );
    let facts = facts?;
    let makes = |a: &&Asked| matches!(a.action, Action::Replace { .. } | Action::Create { .. });
    // A look takes its time: one that began before the action ended may come in after it and still show the old one.
    let replaced = |a: &Asked| a.native.is_some() && a.native == facts.native.as_ref().map(|n| n.id);
    let unseen = |a: &Asked| match &a.ended {
        None => !a.steps.is_empty(),
        Some(end) => {
            let older = facts.as_of.is_none_or(|seen| end.at >= seen);
            !a.steps.is_empty() && (older || (end.ok && replaced(a)))
        }
    };
    if backfill.asked.iter().filter(makes).any(unseen) {
        return None;
    }
    let native = facts.native.as_ref()?;
    of_native.then_some(native.id)
}

/// Whether the native backfill is paused on the server, whoever did it. An action of ours that ended after the last look
/// knows more than the look.
pub fn is_paused_there(backfill: &Backfill) -> bool {
    let Some(facts) = &backfill.seen else { return false };
    let native = facts.native.as_ref().filter(|n| n.completed.is_none());
    native.is_some_and(|n| since_the_look(backfill, facts).unwrap_or(n.paused))
}

/// What the newest pause or resume of ours made of the native backfill, if that was after the last look.
fn since_the_look(backfill: &Backfill, facts: &Facts) -> Option<bool> {
    let after = |a: &Asked| {
        let end = a.ended.as_ref().filter(|end| end.ok)?;
        let paused = match a.action {
            Action::Pause { whole_dag: false } => true,
            Action::Resume { whole_dag: false } => false,
            _ => return None,
        };
        facts.as_of.is_none_or(|seen| end.at >= seen).then_some(paused)
    };
    backfill.asked.iter().rev().find_map(after)
}

/// What a human pause of somebody else's backfill comes to on its server, as far as that was seen. That it was asked for
/// stops nothing by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PauseThere {
    /// Nothing further starts.
    Holds,
    /// The server has not said yet.
    Asked,
    /// The server did not do it, for this reason; it is asked again.
    NotDone(String),
    /// It held, and somebody let it go on since.
    LiftedThere,
    /// There is nothing that a pause could stop, for this reason.
    NoLever(String),
}

impl PauseThere {
    /// Why it does not hold, in words; `None` if it does, or may soon.
    pub fn why_not(&self) -> Option<String> {
        match self {
            Self::Holds | Self::Asked => None,
            Self::NotDone(why) => Some(format!("it goes on there: {why}")),
            Self::LiftedThere => Some("it goes on there: somebody let it go on since".to_owned()),
            Self::NoLever(why) => Some(format!("it stops nothing there: {why}")),
        }
    }
}

/// See [`PauseThere`]; `None` where no human paused, and of our own backfills.
pub fn pause_there(backfill: &Backfill) -> Option<PauseThere> {
    backfill.spec.attach.as_ref()?;
    let pause = backfill.pause.as_ref()?;
    let Some(facts) = backfill.seen.as_ref().filter(|f| f.as_of.is_some()) else {
        return Some(PauseThere::Asked);
    };
    if let Some(why) = no_native(Some(facts)) {
        let lowered = backfill.pool.as_ref().is_some_and(|hold| hold.written == Some(0));
        return Some(match backfill.spec.dag.as_ref().and_then(|d| d.pool.as_ref()) {
            // It starts no further day anyway.
            _ if backfill.spec.attach.as_ref().is_some_and(|a| a.native.is_some()) => PauseThere::Holds,
            Some(_) if lowered => PauseThere::Holds,
            Some(_) => PauseThere::Asked,
            None => PauseThere::NoLever(why),
        });
    }
    if is_paused_there(backfill) {
        return Some(PauseThere::Holds);
    }
    let asked = backfill.asked.iter().rev();
    let mut pauses = asked.filter(|a| a.action == Action::Pause { whole_dag: false });
    let end = pauses.find_map(|a| a.ended.as_ref());
    Some(match end.filter(|end| end.at >= pause.mark.at) {
        Some(end) if !end.ok => PauseThere::NotDone(end.said.clone()),
        Some(_) if backfill.native_pause.is_some() => PauseThere::LiftedThere,
        _ => PauseThere::Asked,
    })
}

/// Somebody else's backfill in one word, as it was seen last.
pub fn word_there(backfill: &Backfill) -> &'static str {
    let seen = backfill.seen.as_ref().filter(|f| f.as_of.is_some());
    let native = seen.and_then(|f| f.native.as_ref());
    let count = |state| backfill.count(state);
    match (pause_there(backfill), native) {
        _ if backfill.detached.is_some() => "detached",
        (Some(PauseThere::Holds), _) => "paused",
        (Some(PauseThere::Asked), _) => "pausing",
        (Some(_), _) => "not paused",
        (None, Some(n)) if n.is_cancelled() => "cancelled",
        (None, Some(n)) if n.completed.is_some() => "ended",
        (None, Some(_)) if is_paused_there(backfill) && backfill.native_pause.is_some() => "paused",
        (None, Some(_)) if is_paused_there(backfill) => "paused there",
        _ if seen.is_none() => "not read yet",
        _ if count(ChunkState::Running) + count(ChunkState::Queued) > 0 => "running",
        _ => "idle",
    }
}

/// Why nothing of the backfill may start now, by a human or by a signal; `None` while something may. What waits for
/// the first samples is not held: it ran before we looked.
pub fn holds(backfill: &Backfill, now: Time) -> Option<String> {
    if let Some(pause) = &backfill.pause {
        let reason = pause
            .mark
            .reason
            .as_ref()
            .map_or_else(String::new, |r| format!(": {r}"));
        return Some(format!("paused by {}{reason}", pause.mark.by.name));
    }
    let stopped = decide::allowed(backfill, now).limit == 0 && backfill.limit.rule != Rule::Start;
    stopped.then(|| backfill.limit.why.clone())
}

/// Whether an action may be asked for: it is not under way, and did not just fail.
fn may_ask(backfill: &Backfill, action: &Action, now: Time) -> bool {
    let last = backfill.asked.iter().rev().find(|a| a.action == *action);
    last.and_then(|a| Some((a, a.ended.as_ref()?)))
        .map_or(last.is_none(), |(_, end)| {
            end.ok || now < end.at || (now - end.at).to_std().is_ok_and(|d| d >= PATIENCE)
        })
}

/// What has to be done to the pool that throttles a backfill, if anything. The pool is never given more slots than it
/// had before us: others may have a share in it. `as_of`: when it was seen.
pub fn pool(backfill: &Backfill, seen: &PoolSeen, as_of: Time, now: Time) -> Option<Lever> {
    let hold = backfill.pool.as_ref().filter(|h| h.pool == seen.name);
    let mut settings = backfill
        .asked
        .iter()
        .filter(|a| matches!(a.action, Action::Slots { .. }));
    // What was seen before the last of ours was over says nothing of what somebody else did since.
    if settings.any(|a| a.ended.as_ref().is_none_or(|e| e.at >= as_of)) {
        return None;
    }
    let over = backfill.state().is_final() || backfill.cancel.is_some();
    let Some(hold) = hold else {
        let wanted = wanted(backfill, seen.slots, now);
        let begins = !over && wanted != seen.slots && may_set(backfill, &seen.name, wanted, now);
        return begins.then(|| Lever::TakePool {
            pool: seen.name.clone(),
            former: seen.slots,
        });
    };
    let go = |why: &str| {
        Some(Lever::LetPoolGo {
            pool: seen.name.clone(),
            slots: seen.slots,
            why: why.to_owned(),
        })
    };
    let wanted = if over {
        hold.former
    } else {
        wanted(backfill, hold.former, now)
    };
    match hold.written {
        // Nothing of ours stands there yet.
        None if over || seen.slots == wanted => go("we never changed it"),
        Some(written) if seen.slots != written && seen.slots != hold.former => {
            go("somebody else set it meanwhile, and it is left as they want it")
        }
        Some(_) if over && seen.slots == hold.former => go("given back"),
        // As it was before us, and nothing is wanted of it now.
        Some(written) if seen.slots == hold.former && written == hold.former && wanted == hold.former => {
            go("the limit is not under its slots any more")
        }
        _ if seen.slots != wanted && may_set(backfill, &seen.name, wanted, now) => {
            let action = Action::Slots {
                pool: seen.name.clone(),
                slots: wanted,
            };
            let why = if over {
                "the pool gets back what it had".to_owned()
            } else {
                backfill.limit.why.clone()
            };
            Some(Lever::Ask(action, why))
        }
        _ => None,
    }
}

fn may_set(backfill: &Backfill, pool: &str, slots: i64, now: Time) -> bool {
    let action = Action::Slots {
        pool: pool.to_owned(),
        slots,
    };
    may_ask(backfill, &action, now)
}

/// The slots that the limit asks for, out of those that the pool had before us (-1: without limit). While a backfill
/// of the engine's own is paused, its running days still need theirs to finish.
fn wanted(backfill: &Backfill, former: i64, now: Time) -> i64 {
    let limit = decide::allowed(backfill, now).limit;
    let theirs = backfill.spec.attach.is_some();
    // Of what ran before us nothing is taken before a signal or a human says so.
    let untouched = backfill.limit.rule == Rule::Start && backfill.cap.is_none() && backfill.force.is_none();
    if theirs && (untouched || limit >= backfill.spec.max_limit) {
        return former;
    }
    let limit = i64::from(limit);
    let limit = if pauses_by_itself(backfill) {
        limit.max(1)
    } else {
        limit
    };
    if former < 0 { limit } else { limit.min(former) }
}

/// Whether starts end without the pool: our own do, and those of a native backfill that can be paused.
fn pauses_by_itself(backfill: &Backfill) -> bool {
    backfill.spec.attach.as_ref().is_none_or(|a| a.native.is_some())
}

#[cfg(test)]
#[path = "lever_tests.rs"]
mod tests;
