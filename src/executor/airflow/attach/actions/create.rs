//! A new native backfill, of as many days as the server's dry run said.

use super::{
    Place,
    call::{Call, Creation},
    eyes::Eyes,
    steps::{Again, Case, Fate, QUIET, Step, ended, made_since},
    window::{day_of, intervals, last_of},
    words::{count, sentence, shown},
};
use crate::{
    domain::{attach::Reprocess, ids::ChunkId},
    executor::{
        airflow::{
            calls::{BackfillOrder, RunQuery},
            connection::LONG_DEADLINE,
            error::{CallError, Kind},
            wire::{Backfill, BackfillDay, RunKind},
        },
        attach::Next,
    },
};
use std::{num::NonZeroU32, time::Duration};

/// How often a creation that the server refuses for another one, which is nowhere to be seen, is sent again.
const TRIES: usize = 5;
/// The pause between two of those.
const PACE: Duration = Duration::from_secs(5);

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// First and last day.
    pub ends: (ChunkId, ChunkId),
    /// The most days at once.
    pub limit: u32,
    /// Which existing runs it takes.
    pub reprocess: Reprocess,
    /// The newest day first.
    pub newest_first: bool,
}

/// The order for the server; the days are instants of the zone, and both ends inclusive and literal, so that the last
/// one is the last instant of its day.
///
/// # Errors
/// In words, why there is none.
pub fn order(place: &Place<'_>, wish: Wish) -> Result<BackfillOrder, String> {
    let limit = NonZeroU32::new(wish.limit)
        .ok_or("with a limit of 0 nothing of it would ever start: make it with 1, and pause it")?;
    let span = intervals(place.spec, &[wish.ends.0, wish.ends.1]);
    let (Some((_, first)), Some((_, last))) = (span.first(), span.last()) else {
        return Err(format!(
            "{} and {} are no days of the calendar",
            wish.ends.0, wish.ends.1
        ));
    };
    if intervals(place.spec, &[wish.ends.0])
        .first()
        .map(|(_, i)| i.start)
        != Some(first.start)
    {
        return Err(format!("{} is after {}", wish.ends.0, wish.ends.1));
    }
    Ok(BackfillOrder {
        dag: place.dag.to_owned(),
        from: first.start,
        to: last_of(last),
        max_active_runs: limit,
        newest_first: wish.newest_first,
        reprocess: match wish.reprocess {
            Reprocess::None => crate::executor::airflow::wire::Reprocess::None,
            Reprocess::Failed => crate::executor::airflow::wire::Reprocess::Failed,
            Reprocess::Completed => crate::executor::airflow::wire::Reprocess::Completed,
        },
        conf: None,
    })
}

/// The days of a dry run, oldest first, each once.
pub fn days_in(place: &Place<'_>, days: &[BackfillDay]) -> Vec<ChunkId> {
    let instants = days.iter().filter_map(|d| d.partition_date.or(d.logical_date));
    let mut found: Vec<ChunkId> = instants.map(|at| day_of(place.spec, at)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The creation of an order whose dry run has these days.
pub fn creation(
    place: &Place<'_>,
    order: &BackfillOrder,
    days: &[BackfillDay],
    natives: &[Backfill],
    failed: u64,
) -> Option<Creation> {
    let named = days_in(place, days);
    Some(Creation {
        from: order.from,
        to: order.to,
        limit: order.max_active_runs,
        newest_first: order.newest_first,
        reprocess: order.reprocess.as_str().to_owned(),
        conf: order.conf.clone(),
        days: days.len() as u64,
        ends: (*named.first()?, *named.last()?),
        newest: natives.iter().map(|n| n.id).max().unwrap_or(0),
        failed,
    })
}

/// Makes one.
pub async fn next(place: &Place<'_>, case: &Case, eyes: &dyn Eyes, wish: Wish) -> Result<Next, CallError> {
    if let Some((step, creation)) = request(case) {
        return Ok(match making(place, case, eyes, step, creation).await? {
            Making::Next(next) => next,
            Making::Failed(why) => ended(false, format!("no native backfill was made: {why}")),
            Making::Made(native, there) => told(&native, creation, there),
        });
    }
    let natives = eyes.natives(place.dag).await?;
    if let Some(native) = natives.iter().find(|n| n.is_unfinished()) {
        return Ok(ended(false, in_the_way(place.dag, native)));
    }
    let order = match order(place, wish) {
        Ok(order) => order,
        Err(why) => return Ok(ended(false, why)),
    };
    let days = match preview(eyes, &order).await? {
        Ok(days) => days,
        Err(why) => {
            return Ok(ended(
                false,
                format!("the server makes no native backfill of that: {why}"),
            ));
        }
    };
    Ok(match creation(place, &order, &days, &natives, 0) {
        Some(creation) => place.send(case, Call::Create(creation)),
        None => ended(
            false,
            format!(
                "a native backfill over {} to {} with reprocess {} would run no day",
                wish.ends.0,
                wish.ends.1,
                wish.reprocess.word()
            ),
        ),
    })
}

/// The days of a dry run, or why the server refuses it.
pub async fn preview(
    eyes: &dyn Eyes,
    order: &BackfillOrder,
) -> Result<Result<Vec<BackfillDay>, String>, CallError> {
    match eyes.preview(order).await {
        Ok(days) => Ok(Ok(days)),
        Err(e) if matches!(e.kind, Kind::Invalid | Kind::Absent | Kind::Forbidden) => Ok(Err(e.error.detail)),
        Err(e) => Err(e),
    }
}

/// The words for an unfinished native backfill that keeps another one from being made.
pub fn in_the_way(dag: &str, native: &Backfill) -> String {
    format!(
        "native backfill {} of {} is not over, and Airflow has one at a time: wait for it, or cancel or replace it",
        native.id,
        shown(dag)
    )
}

/// The creation's request, if it was sent.
pub fn request(case: &Case) -> Option<(&Step, &Creation)> {
    case.steps.iter().rev().find_map(|s| match &s.call {
        Call::Create(creation) => Some((s, creation)),
        _ => None,
    })
}

/// How far a creation is.
#[derive(Debug, Clone, PartialEq)]
pub enum Making {
    /// This is next.
    Next(Next),
    /// It was made, with so many days.
    Made(Backfill, u64),
    /// It was not made, and will not be.
    Failed(String),
}

/// How far a creation is whose request was sent.
pub async fn making(
    place: &Place<'_>,
    case: &Case,
    eyes: &dyn Eyes,
    step: &Step,
    creation: &Creation,
) -> Result<Making, CallError> {
    let natives = eyes.natives(place.dag).await?;
    let Some(native) = natives.iter().find(|n| creation.made(n)) else {
        let tries = case
            .steps
            .iter()
            .filter(|s| matches!(s.call, Call::Create(_)))
            .count();
        return Ok(not_made(place, case, step, &natives, tries));
    };
    let there = days_of(place, eyes, creation, native).await?;
    Ok(made(case, creation, native, there))
}

/// The days that a native backfill took: its own runs of the window that were queued since it was made.
async fn days_of(
    place: &Place<'_>,
    eyes: &dyn Eyes,
    creation: &Creation,
    native: &Backfill,
) -> Result<u64, CallError> {
    let query = RunQuery {
        window: Some(place.keyed.window(creation.from, creation.to)),
        kinds: vec![RunKind::Backfill],
        ..RunQuery::of(place.dag)
    };
    let runs = eyes.runs(&query).await?;
    let taken = runs.iter().filter(|r| made_since(r.queued_at, native.created));
    Ok(taken.count() as u64)
}

fn made(case: &Case, creation: &Creation, native: &Backfill, there: u64) -> Making {
    // The native backfill is visible at once, its days when the call is over.
    if there < creation.days && native.is_unfinished() && case.since_last() < LONG_DEADLINE {
        let why = format!("{there} of {} are made", count(creation.days, "day"));
        return Making::Next(Next::Wait(Duration::from_secs(2), why));
    }
    Making::Made(native.clone(), there)
}

fn not_made(place: &Place<'_>, case: &Case, step: &Step, natives: &[Backfill], tries: usize) -> Making {
    if let Some(other) = natives.iter().find(|n| n.is_unfinished()) {
        let why = format!("somebody else's came first: {}", in_the_way(place.dag, other));
        return Making::Failed(why);
    }
    match case.again(step, QUIET) {
        Again::Send(raw) => Making::Next(place.send_again(&step.call, raw)),
        Again::Wait(left, why) => Making::Next(Next::Wait(left, why)),
        // Refused for another one that is over by now.
        Again::Never(why) if step.fate != Fate::Accepted && why.contains("409") && tries < TRIES => {
            match case.settle(PACE, "the server says that another one is not over yet") {
                Some(wait) => Making::Next(wait),
                None => Making::Next(place.send(case, step.call.clone())),
            }
        }
        Again::Never(why) => Making::Failed(why),
    }
}

fn told(native: &Backfill, creation: &Creation, there: u64) -> Next {
    let (ok, fault) = fault(native, creation, there);
    ended(
        ok,
        sentence(vec![
            format!(
                "native backfill {} is made: {}",
                native.id,
                window(creation, there)
            ),
            fault,
        ]),
    )
}

/// What a native backfill has: `60 days, 2021-09-01 to 2021-10-30, at most 3 at once`.
pub fn window(creation: &Creation, there: u64) -> String {
    let (first, last) = creation.ends;
    let order = if creation.newest_first {
        ", the newest first"
    } else {
        ""
    };
    format!(
        "{}, {first} to {last}, at most {} at once{order}",
        count(there, "day"),
        creation.limit
    )
}

/// What is wrong with a native backfill that was made.
pub fn fault(native: &Backfill, creation: &Creation, there: u64) -> (bool, String) {
    if native.is_cancelled() {
        return (false, "somebody cancelled it since".to_owned());
    }
    if there != creation.days {
        let words = format!("the dry run had {}", count(creation.days, "day"));
        return (false, words);
    }
    let words = if native.paused {
        "somebody paused it since".to_owned()
    } else {
        String::new()
    };
    (!native.paused, words)
}
