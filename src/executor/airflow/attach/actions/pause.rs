//! Pause and resume: of a native backfill, whose running days finish, and of the whole DAG, which freezes.

use super::{
    Place,
    call::Call,
    eyes::Eyes,
    natives::{Meant, meant},
    steps::{Case, Lever, ended, lever},
    words::{count, instant, sentence, shown},
};
use crate::executor::{
    airflow::{
        calls::RunQuery,
        error::CallError,
        wire::{Backfill, RunKind, RunState},
    },
    attach::Next,
};

/// What is seen of what is paused.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen<'a> {
    /// The native backfill.
    pub native: &'a Backfill,
    /// Days of it that run; counted only where they are told.
    pub running: u64,
    /// Its DAG is paused.
    pub frozen: bool,
}

/// A pause, or the opposite, of a native backfill.
pub async fn of_native(
    place: &Place<'_>,
    case: &Case,
    eyes: &dyn Eyes,
    pause: bool,
) -> Result<Next, CallError> {
    let natives = eyes.natives(place.dag).await?;
    let native = match meant(&case.steps, place, &natives) {
        Meant::One(native) => native,
        Meant::Missing(id) => return Ok(ended(false, missing(id))),
        Meant::Another { planned, found } => return Ok(ended(false, another(planned, found))),
        Meant::None => return Ok(ended(false, nothing_native(place.dag, pause))),
    };
    let mut seen = Seen {
        native,
        running: 0,
        frozen: false,
    };
    let told = native.is_unfinished() && native.paused == pause;
    if told && pause {
        seen.running = eyes.count(&days_of(place, native, RunState::Running)).await?;
    } else if told {
        seen.frozen = eyes.dag(place.dag).await?.is_some_and(|d| d.paused);
    }
    Ok(native_next(place, case, &seen, pause))
}

/// The days of a native backfill that are in this state.
pub fn days_of(place: &Place<'_>, native: &Backfill, state: RunState) -> RunQuery {
    RunQuery {
        window: Some(place.keyed.window(native.from, native.to)),
        states: vec![state],
        kinds: vec![RunKind::Backfill],
        ..RunQuery::of(place.dag)
    }
}

/// See [`of_native`].
pub fn native_next(place: &Place<'_>, case: &Case, seen: &Seen<'_>, pause: bool) -> Next {
    let native = seen.native;
    let id = native.id;
    if let Some(completed) = native.completed {
        return over(native, instant(completed), pause);
    }
    let call = if pause {
        Call::PauseNative { id }
    } else {
        Call::ResumeNative { id }
    };
    match lever(case, native.paused == pause) {
        Lever::Already if pause => ended(
            true,
            format!(
                "native backfill {id} was paused already: {}",
                finishing(seen.running)
            ),
        ),
        Lever::Already => ended(
            true,
            sentence(vec![
                format!("native backfill {id} was not paused"),
                frozen(place.dag, seen.frozen),
            ]),
        ),
        Lever::Reached if pause => match case.unconfirmed() {
            // A pause without an answer would count as somebody else's, and not be lifted by us. Asked for twice it
            // is the same pause.
            Some(raw) => place.send_again(&call, raw),
            None => ended(
                true,
                format!("native backfill {id} is paused: {}", finishing(seen.running)),
            ),
        },
        Lever::Reached => ended(
            true,
            sentence(vec![
                format!("native backfill {id} goes on{}", limit(native)),
                frozen(place.dag, seen.frozen),
            ]),
        ),
        Lever::Undone if pause => ended(
            false,
            format!("native backfill {id} was paused, and somebody let it go on since"),
        ),
        Lever::Undone => ended(
            false,
            format!("native backfill {id} went on, and somebody paused it since"),
        ),
        Lever::Pull => place.send(case, call),
        Lever::Again(raw) => place.send_again(&call, raw),
        Lever::Wait(left, why) => Next::Wait(left, why),
        Lever::Failed(why) => {
            let word = if pause { "paused" } else { "resumed" };
            ended(false, format!("native backfill {id} is not {word}: {why}"))
        }
    }
}

fn over(native: &Backfill, completed: String, pause: bool) -> Next {
    let id = native.id;
    match (native.is_cancelled(), pause) {
        (true, true) => ended(
            true,
            format!("native backfill {id} was cancelled at {completed}: it starts no further day anyway"),
        ),
        (false, true) => ended(
            true,
            format!("native backfill {id} was over at {completed}: it starts no further day anyway"),
        ),
        (true, false) => ended(
            false,
            format!(
                "native backfill {id} was cancelled at {completed}, and Airflow never starts anything of a cancelled \
                 one again: make a new native backfill over the days that are left"
            ),
        ),
        (false, false) => ended(
            false,
            format!("native backfill {id} was over at {completed}: there is nothing to resume"),
        ),
    }
}

fn finishing(running: u64) -> String {
    if running == 0 {
        return "none of its days runs, and no further day starts".to_owned();
    }
    let verb = if running == 1 { "finishes" } else { "finish" };
    format!(
        "{} still running {verb}, and no further day starts",
        count(running, "day")
    )
}

fn limit(native: &Backfill) -> String {
    native.max_active_runs.map_or_else(String::new, |n| {
        format!(", up to {} at once", count(n.into(), "day"))
    })
}

fn frozen(dag: &str, frozen: bool) -> String {
    if !frozen {
        return String::new();
    }
    format!(
        "the whole DAG {} is paused, though: nothing of it starts before that is lifted",
        shown(dag)
    )
}

/// The words for a native backfill that is not there.
pub fn missing(id: u64) -> String {
    format!("the server has no native backfill {id}")
}

/// The words for one that took the place of the one that was decided about.
pub fn another(planned: u64, found: u64) -> String {
    format!(
        "native backfill {planned} has ended, and native backfill {found} was begun since: nothing was sent, look again"
    )
}

fn nothing_native(dag: &str, pause: bool) -> String {
    let (word, instead) = if pause {
        (
            "pause",
            "; what else runs of it can be held by its pool, or by freezing the whole DAG",
        )
    } else {
        ("resume", "")
    };
    format!(
        "{} has no unfinished native backfill to {word}{instead}",
        shown(dag)
    )
}

/// A pause, or the opposite, of the whole DAG.
pub async fn of_dag(place: &Place<'_>, case: &Case, eyes: &dyn Eyes, pause: bool) -> Result<Next, CallError> {
    let Some(dag) = eyes.dag(place.dag).await? else {
        return Ok(ended(false, no_dag(place.dag)));
    };
    let mut held = None;
    if !pause && !dag.paused {
        let natives = eyes.natives(place.dag).await?;
        held = natives
            .iter()
            .find(|n| n.is_unfinished() && n.paused)
            .map(|n| n.id);
    }
    Ok(dag_next(place, case, dag.paused, held, pause))
}

/// The words for a DAG that is not there.
pub fn no_dag(dag: &str) -> String {
    format!("the server has no DAG {}", shown(dag))
}

/// See [`of_dag`]; `held` is a native backfill of it that is paused.
pub fn dag_next(place: &Place<'_>, case: &Case, paused: bool, held: Option<u64>, pause: bool) -> Next {
    let dag = shown(place.dag);
    let call = Call::PauseDag { paused: pause };
    let still = held.map_or_else(String::new, |id| {
        format!("its native backfill {id} is still paused")
    });
    let stands = "tasks that run finish, and nothing else of it starts, also not in days under way";
    match lever(case, paused == pause) {
        Lever::Already if pause => ended(true, format!("the DAG {dag} was paused already: {stands}")),
        Lever::Reached if pause => ended(true, format!("the DAG {dag} is paused: {stands}")),
        Lever::Already => ended(
            true,
            sentence(vec![format!("the DAG {dag} was not paused"), still]),
        ),
        Lever::Reached => ended(true, sentence(vec![format!("the DAG {dag} goes on"), still])),
        Lever::Undone if pause => ended(
            false,
            format!("the DAG {dag} was paused, and somebody let it go on since"),
        ),
        Lever::Undone => ended(
            false,
            format!("the DAG {dag} went on, and somebody paused it since"),
        ),
        Lever::Pull => place.send(case, call),
        Lever::Again(raw) => place.send_again(&call, raw),
        Lever::Wait(left, why) => Next::Wait(left, why),
        Lever::Failed(why) => {
            let word = if pause { "paused" } else { "resumed" };
            ended(false, format!("the DAG {dag} is not {word}: {why}"))
        }
    }
}
