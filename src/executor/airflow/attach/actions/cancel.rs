//! A native backfill is ended: none of its days that wait will run, and if it is asked for, those that run are ended
//! too.

use super::{
    Place,
    call::Call,
    eyes::Eyes,
    natives::{Meant, meant},
    pause::{another, days_of, missing},
    steps::{Again, Case, Fate, SOON, Step, ended},
    stop::{Outcome, Stop, Tally, end_all},
    window::{Keyed, day_of, intervals},
    words::{count, instant, sentence, shown},
};
use crate::{
    domain::ids::ChunkId,
    executor::{
        airflow::{
            error::CallError,
            wire::{Backfill, Run, RunState},
        },
        attach::Next,
    },
};
use std::time::Duration;

/// After a cancel its days that waited are failed within the same call; longer than this none is waited for.
const QUEUE: Duration = Duration::from_secs(60);

/// How far a cancel is.
#[derive(Debug, Clone, PartialEq)]
pub enum Cancelling {
    /// This is next.
    Next(Next),
    /// The native backfill is cancelled.
    Done,
    /// It was over, or cancelled by somebody else, before anything was sent.
    OverBefore,
}

/// The cancel's request, if it was sent.
pub fn request(case: &Case) -> Option<&Step> {
    let cancel = |s: &&Step| matches!(s.call, Call::CancelNative { .. });
    case.steps.iter().rev().find(cancel)
}

/// How far the cancel of this native backfill is. `call` makes its request.
pub fn cancelling(
    place: &Place<'_>,
    case: &Case,
    native: &Backfill,
    call: impl FnOnce() -> Call,
) -> Cancelling {
    let id = native.id;
    match (request(case), native.completed) {
        (None, Some(_)) => Cancelling::OverBefore,
        (Some(_), Some(_)) => Cancelling::Done,
        (None, None) => Cancelling::Next(place.send(case, call())),
        // Its days are failed before it is marked as over, in two steps of the server.
        (Some(step), None) if step.fate == Fate::Accepted && case.since_last() < SOON => Cancelling::Next(
            Next::Wait(Duration::from_secs(1), "the server marks it as over".to_owned()),
        ),
        (Some(step), None) => Cancelling::Next(match case.again(step, SOON) {
            Again::Send(raw) => place.send_again(&step.call, raw),
            Again::Wait(left, why) => Next::Wait(left, why),
            Again::Never(why) => ended(false, format!("native backfill {id} is not cancelled: {why}")),
        }),
    }
}

/// Cancels.
pub async fn next(place: &Place<'_>, case: &Case, eyes: &dyn Eyes, running: bool) -> Result<Next, CallError> {
    let natives = eyes.natives(place.dag).await?;
    let native = match meant(&case.steps, place, &natives) {
        Meant::One(native) => native,
        Meant::Missing(id) => return Ok(ended(false, missing(id))),
        Meant::Another { planned, found } => return Ok(ended(false, another(planned, found))),
        Meant::None => {
            let words = format!(
                "{} has no unfinished native backfill to cancel; what else runs of it can be ended day by day",
                shown(place.dag)
            );
            return Ok(ended(false, words));
        }
    };
    let waiting = eyes.count(&days_of(place, native, RunState::Queued)).await?;
    let how_far = cancelling(place, case, native, || Call::CancelNative {
        id: native.id,
        waiting,
        newest_first: false,
    });
    let by_us = match how_far {
        Cancelling::Next(next) => return Ok(next),
        Cancelling::Done => true,
        Cancelling::OverBefore => false,
    };
    if by_us && waiting > 0 && case.since_last() < QUEUE && !marks(case) {
        let why = format!("{} of it still waits", count(waiting, "day"));
        return Ok(Next::Wait(Duration::from_secs(2), why));
    }
    let live = eyes.runs(&days_of(place, native, RunState::Running)).await?;
    if !running {
        return Ok(told(case, native, waiting, live.len() as u64, None));
    }
    let days = busy(place, case, &live);
    let span = intervals(place.spec, &days);
    Ok(
        match end_all(place, case, eyes, &span, Stop { only_native: true }).await? {
            Outcome::Next(next) => next,
            Outcome::Over(tally) => told(case, native, waiting, 0, Some(&tally)),
        },
    )
}

fn marks(case: &Case) -> bool {
    case.last()
        .is_some_and(|s| matches!(s.call, Call::MarkRun { .. }))
}

/// The days of what runs and of what was marked.
fn busy(place: &Place<'_>, case: &Case, live: &[Run]) -> Vec<ChunkId> {
    let keyed: Keyed = place.keyed;
    let mut days: Vec<ChunkId> = live
        .iter()
        .filter_map(|r| keyed.instant(r))
        .map(|at| day_of(place.spec, at))
        .collect();
    days.extend(
        case.steps
            .iter()
            .filter_map(|s| s.call.place())
            .map(|(day, _)| day),
    );
    days
}

/// See [`next`]: the end, with what came of the running days where they were to be ended, too.
fn told(case: &Case, native: &Backfill, waiting: u64, live: u64, ending: Option<&Tally>) -> Next {
    let id = native.id;
    let at = native.completed.map(instant).unwrap_or_default();
    let former = match request(case).map(|s| &s.call) {
        Some(Call::CancelNative { waiting, .. }) => *waiting,
        _ => 0,
    };
    let head = match (request(case), native.is_cancelled()) {
        (Some(_), true) => format!(
            "native backfill {id} is cancelled: {} that waited will not run",
            count(former.saturating_sub(waiting), "day")
        ),
        (None, true) => format!("native backfill {id} was cancelled already, at {at}"),
        (_, false) => format!("native backfill {id} was over at {at}: nothing of it waits"),
    };
    let left = match waiting {
        0 => String::new(),
        n => format!(
            "{} of its window still waits, made to run again by somebody",
            count(n, "day")
        ),
    };
    let goes_on = match (live, ending) {
        (_, Some(_)) => String::new(),
        (0, None) => "none of its days runs".to_owned(),
        (1, None) => "1 day that runs goes on".to_owned(),
        (n, None) => format!("{} that run go on", count(n, "day")),
    };
    let tail = ending.map_or_else(String::new, Tally::words);
    let good = ending.is_none_or(Tally::is_good);
    ended(good, sentence(vec![head, left, goes_on, tail]))
}
