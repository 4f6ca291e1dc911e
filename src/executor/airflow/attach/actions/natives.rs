//! Which native backfill is meant, and which one holds a run.

use super::{Place, call::Call, steps::Step};
use crate::{
    domain::Time,
    executor::airflow::wire::{Backfill, Run, RunKind},
    plan::attach_spec::is_about,
};
use chrono::TimeDelta;

/// A run that was queued so soon after a native backfill was made was queued by it: all of them are made within the
/// call that makes the backfill, which took 16 s for 1,261 days.
const MADE_WITHIN: TimeDelta = TimeDelta::seconds(300);

/// The native backfill that an action is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Meant<'a> {
    /// This one.
    One(&'a Backfill),
    /// The one that is attached to is not on the server.
    Missing(u64),
    /// It was seen when the action was asked for and has ended since; meanwhile another one was begun, which nobody
    /// decided about.
    Another {
        /// The one that was seen.
        planned: u64,
        /// The one that is there.
        found: u64,
    },
    /// The DAG has no unfinished one.
    None,
}

/// The one that the action's requests name; before the first: the one that was seen when it was asked for, else the
/// attached one, or where none is attached the DAG's unfinished one that is about days of ours. Where the attached one
/// is over and an unfinished one was made after it over some of its days, it is
/// that one: there is only one unfinished at a time, and a replacement is how a limit is changed.
pub fn meant<'a>(steps: &[Step], place: &Place<'_>, natives: &'a [Backfill]) -> Meant<'a> {
    let find = |id: u64| natives.iter().find(|n| n.id == id);
    let named = steps.iter().find_map(|s| match s.call {
        Call::PauseNative { id } | Call::ResumeNative { id } | Call::CancelNative { id, .. } => Some(id),
        _ => None,
    });
    if let Some(id) = named {
        return find(id).map_or(Meant::Missing(id), Meant::One);
    }
    let window = (place.spec.start, place.spec.end);
    let ours = |n: &&Backfill| is_about((n.from, n.to), window, place.spec.timezone);
    let unfinished = natives.iter().find(|n| n.is_unfinished() && ours(n));
    if let Some(planned) = place.planned {
        return match (find(planned), unfinished) {
            (Some(native), None) => Meant::One(native),
            (Some(native), Some(other)) if native.id == other.id => Meant::One(native),
            (_, Some(other)) => Meant::Another {
                planned,
                found: other.id,
            },
            (None, None) => Meant::Missing(planned),
        };
    }
    let Some(id) = place.attached else {
        return unfinished.map_or(Meant::None, Meant::One);
    };
    let Some(native) = find(id) else {
        return Meant::Missing(id);
    };
    let successor = unfinished.filter(|n| n.id > id && n.from <= native.to && native.from <= n.to);
    match successor {
        Some(successor) if !native.is_unfinished() => Meant::One(successor),
        _ => Meant::One(native),
    }
}

/// What becomes of a run that is cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// It runs again.
    Free,
    /// It runs again when this native backfill, which is paused, goes on.
    Paused(u64),
    /// It stays queued for ever: it belongs, or may belong, to this native backfill, which is cancelled.
    Cancelled(u64),
}

/// The server does not tell to which native backfill a run belongs. It was queued when one took it, unless somebody
/// cleared it later, and what started after a cancel is not held by what was cancelled. Where that leaves a cancelled
/// one possible, it is taken for the holder, since what is done then makes the day run in any case.
pub fn holder(run: &Run, at: Option<Time>, natives: &[Backfill]) -> Holder {
    let Some(at) = at.filter(|_| run.kind == RunKind::Backfill) else {
        return Holder::Free;
    };
    let free_of = |n: &Backfill| {
        n.is_cancelled()
            && n.completed
                .zip(run.started)
                .is_some_and(|(end, start)| start > end)
    };
    let mut over: Vec<&Backfill> = natives
        .iter()
        .filter(|n| n.from <= at && at <= n.to && !free_of(n))
        .collect();
    over.sort_by_key(|n| std::cmp::Reverse(n.id));
    let made_it = |n: &&&Backfill| {
        let spent = run.queued_at.zip(n.created).map(|(queued, made)| queued - made);
        spent.is_some_and(|s| TimeDelta::seconds(-1) <= s && s <= MADE_WITHIN)
    };
    let holder = over
        .iter()
        .find(made_it)
        .or_else(|| over.iter().find(|n| n.is_cancelled()))
        .or(over.first());
    match holder {
        None => Holder::Free,
        Some(native) if native.is_cancelled() => Holder::Cancelled(native.id),
        Some(native) if native.paused => Holder::Paused(native.id),
        Some(_) => Holder::Free,
    }
}
