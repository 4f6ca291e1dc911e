//! Another limit for a native backfill, which cannot be changed: it is cancelled and made again over what is left.

use super::{
    Place,
    call::{Call, Creation},
    cancel::{self, Cancelling, cancelling},
    create::{self, Making, creation, fault, in_the_way, making, preview, window},
    eyes::Eyes,
    natives::{Meant, meant},
    pause::{another, days_of, missing},
    steps::{Case, ended},
    window::day_of,
    words::{count, sentence, shown},
};
use crate::{
    domain::{ids::ChunkId, spec::Order},
    executor::{
        airflow::{
            calls::{BackfillOrder, RunQuery},
            error::CallError,
            wire::{Backfill, BackfillDay, Reprocess, Run, RunKind, RunState},
        },
        attach::Next,
    },
};
use serde_json::Value;
use std::{num::NonZeroU32, time::Duration};

/// Longer than this no day of a cancelled native backfill is waited for.
const QUEUE: Duration = Duration::from_secs(60);

/// Replaces it.
pub async fn next(place: &Place<'_>, case: &Case, eyes: &dyn Eyes, limit: u32) -> Result<Next, CallError> {
    let Some(limit) = NonZeroU32::new(limit) else {
        return Ok(ended(
            false,
            "with a limit of 0 nothing of it would ever start: pause it instead",
        ));
    };
    let natives = eyes.natives(place.dag).await?;
    let native = match meant(&case.steps, place, &natives) {
        Meant::One(native) => native,
        Meant::Missing(id) => return Ok(ended(false, missing(id))),
        Meant::Another { planned, found } => return Ok(ended(false, another(planned, found))),
        Meant::None => {
            let words = format!(
                "{} has no unfinished native backfill to replace",
                shown(place.dag)
            );
            return Ok(ended(false, words));
        }
    };
    if let Some((step, creation)) = create::request(case) {
        let runs = eyes.count(&days_of(place, native, RunState::Running)).await?;
        return Ok(match making(place, case, eyes, step, creation).await? {
            Making::Next(next) => next,
            Making::Failed(why) => not_made(native, creation, &why),
            Making::Made(made, there) => told(native, creation, &made, there, runs),
        });
    }
    if cancel::request(case).is_none()
        && let Some(no) = refusal(native, limit)
    {
        return Ok(no);
    }
    let runs = eyes.runs(&all_of(place, native)).await?;
    let waiting = runs.iter().filter(|r| waits(r)).count() as u64;
    if cancel::request(case).is_none() && waiting == 0 {
        return Ok(ended(
            false,
            format!(
                "no day of native backfill {} waits any more: another limit would change nothing",
                native.id
            ),
        ));
    }
    let how_far = cancelling(place, case, native, || Call::CancelNative {
        id: native.id,
        waiting,
        newest_first: newest_first(place, native, &runs),
    });
    match how_far {
        Cancelling::Next(next) => Ok(next),
        Cancelling::OverBefore => Ok(ended(false, over(native))),
        Cancelling::Done if !native.is_cancelled() => Ok(ended(false, over(native))),
        Cancelling::Done if waiting > 0 && case.since_last() < QUEUE => Ok(Next::Wait(
            Duration::from_secs(2),
            format!(
                "{} of the cancelled native backfill still waits",
                count(waiting, "day")
            ),
        )),
        Cancelling::Done => make(place, case, eyes, native, limit, &natives, &runs).await,
    }
}

fn refusal(native: &Backfill, limit: NonZeroU32) -> Option<Next> {
    let id = native.id;
    if native.completed.is_some() {
        return Some(ended(false, over(native)));
    }
    if native.max_active_runs == Some(limit.get()) {
        return Some(ended(
            true,
            format!("native backfill {id} had the limit {limit} already"),
        ));
    }
    native.paused.then(|| {
        ended(
            false,
            format!("native backfill {id} is paused, and what takes its place would start at once: resume it first"),
        )
    })
}

fn over(native: &Backfill) -> String {
    let word = if native.is_cancelled() {
        "cancelled"
    } else {
        "over"
    };
    format!(
        "native backfill {} is {word} already: make a new one over the days that are left",
        native.id
    )
}

/// All runs of its days.
fn all_of(place: &Place<'_>, native: &Backfill) -> RunQuery {
    RunQuery {
        window: Some(place.keyed.window(native.from, native.to)),
        ..RunQuery::of(place.dag)
    }
}

fn waits(run: &Run) -> bool {
    run.state == RunState::Queued && run.kind == RunKind::Backfill
}

/// Whether it takes the newest day first, which the server does not tell: its days that have begun lie after those
/// that wait. Where none has begun yet, the order of the attached backfill counts.
fn newest_first(place: &Place<'_>, native: &Backfill, runs: &[Run]) -> bool {
    let at = |r: &Run| place.keyed.instant(r);
    let ours = |r: &&Run| r.kind == RunKind::Backfill;
    let since = |r: &&Run| r.started.zip(native.created).is_some_and(|(s, made)| s >= made);
    let begun: Vec<_> = runs
        .iter()
        .filter(ours)
        .filter(|r| r.state != RunState::Queued)
        .filter(since)
        .filter_map(at)
        .collect();
    let waiting: Vec<_> = runs.iter().filter(|r| waits(r)).filter_map(at).collect();
    match (begun.iter().max(), waiting.iter().max()) {
        (Some(begun), Some(waiting)) => begun > waiting,
        _ => place.spec.order == Order::NewestFirst,
    }
}

async fn make(
    place: &Place<'_>,
    case: &Case,
    eyes: &dyn Eyes,
    native: &Backfill,
    limit: NonZeroU32,
    natives: &[Backfill],
    runs: &[Run],
) -> Result<Next, CallError> {
    if let Some(other) = natives.iter().find(|n| n.is_unfinished()) {
        let why = format!("somebody else's came first: {}", in_the_way(place.dag, other));
        return Ok(ended(false, cancelled_only(native, &why)));
    }
    let newest_first = match cancel::request(case).map(|s| &s.call) {
        Some(Call::CancelNative { newest_first, .. }) => *newest_first,
        _ => false,
    };
    let mut order = successor(native, limit, newest_first);
    let days = match preview(eyes, &order).await? {
        Ok(days) => days,
        Err(why) => return Ok(ended(false, cancelled_only(native, &why))),
    };
    let live = runs.iter().filter(|r| r.state == RunState::Running).count() as u64;
    narrow(&mut order, &days);
    let failed = failed_before(place, runs, &days);
    Ok(match creation(place, &order, &days, natives, failed) {
        Some(creation) => place.send(case, Call::Create(creation)),
        None => ended(
            true,
            format!(
                "native backfill {} is cancelled, and none of its days was left to be made again{}",
                native.id,
                go_on(live)
            ),
        ),
    })
}

/// The same over the same days: those that are done are kept, those that run are not taken.
pub fn successor(native: &Backfill, limit: NonZeroU32, newest_first: bool) -> BackfillOrder {
    BackfillOrder {
        dag: native.dag.clone(),
        from: native.from,
        to: native.to,
        max_active_runs: limit,
        newest_first,
        reprocess: Reprocess::Failed,
        conf: native
            .conf
            .as_ref()
            .and_then(Value::as_object)
            .filter(|c| !c.is_empty())
            .cloned(),
    }
}

/// Only from the first day that is left to the last one.
fn narrow(order: &mut BackfillOrder, days: &[BackfillDay]) {
    let instants = || days.iter().filter_map(|d| d.logical_date);
    if let (Some(first), Some(last)) = (instants().min(), instants().max()) {
        (order.from, order.to) = (first, last);
    }
}

/// How many of these days have a run that failed by itself, rather than one that was cancelled while it waited.
fn failed_before(place: &Place<'_>, runs: &[Run], days: &[BackfillDay]) -> u64 {
    let dates: std::collections::BTreeSet<_> = days
        .iter()
        .filter_map(|d| d.logical_date.or(d.partition_date))
        .collect();
    let failed = |r: &&Run| {
        let on = place.keyed.instant(r).is_some_and(|at| dates.contains(&at));
        r.state == RunState::Failed && !r.was_never_begun() && on
    };
    runs.iter().filter(failed).count() as u64
}

fn go_on(live: u64) -> String {
    match live {
        0 => String::new(),
        1 => "; 1 day that runs goes on".to_owned(),
        n => format!("; {} that run go on", count(n, "day")),
    }
}

fn cancelled_only(native: &Backfill, why: &str) -> String {
    format!(
        "native backfill {} is cancelled, and nothing was made in its place: {why}; its days that waited do not run: \
         make a native backfill over them with reprocess failed",
        native.id
    )
}

fn not_made(native: &Backfill, creation: &Creation, why: &str) -> Next {
    let (first, last) = creation.ends;
    ended(
        false,
        format!(
            "native backfill {} is cancelled, and the one in its place was not made: {why}; {} do not run: make a \
             native backfill over {first} to {last} with limit {} and reprocess failed",
            native.id,
            count(creation.days, "day"),
            creation.limit
        ),
    )
}

fn told(old: &Backfill, creation: &Creation, new: &Backfill, there: u64, live: u64) -> Next {
    let (ok, fault) = fault(new, creation, there);
    let again = match creation.failed {
        0 => String::new(),
        1 => "1 of them had failed before and runs again, too".to_owned(),
        n => format!("{n} of them had failed before and run again, too"),
    };
    ended(
        ok,
        sentence(vec![
            format!(
                "native backfill {} is cancelled, and {} is made in its place: {}",
                old.id,
                new.id,
                window(creation, there)
            ),
            again,
            "days that are done are kept".to_owned(),
            match live {
                0 => String::new(),
                1 => "1 day runs now".to_owned(),
                n => format!(
                    "{} run now, those of the cancelled one beside the limit",
                    count(n, "day")
                ),
            },
            fault,
        ]),
    )
}

/// The days that would be made again: those that wait, and those that failed or have no run.
pub async fn dry_run(
    place: &Place<'_>,
    eyes: &dyn Eyes,
    limit: u32,
) -> Result<Result<Vec<ChunkId>, String>, CallError> {
    let Some(limit) = NonZeroU32::new(limit) else {
        return Ok(Err("with a limit of 0 nothing would ever start".to_owned()));
    };
    let natives = eyes.natives(place.dag).await?;
    let Meant::One(native) = meant(&[], place, &natives) else {
        return Ok(Err("there is no native backfill to replace".to_owned()));
    };
    let order = successor(native, limit, false);
    let days = match preview(eyes, &order).await? {
        Ok(days) => days,
        Err(why) => return Ok(Err(why)),
    };
    let mut found = create::days_in(place, &days);
    let waiting = eyes.runs(&days_of(place, native, RunState::Queued)).await?;
    let waiting = waiting.iter().filter_map(|r| place.keyed.instant(r));
    found.extend(waiting.map(|at| day_of(place.spec, at)));
    found.sort_unstable();
    found.dedup();
    Ok(Ok(found))
}
