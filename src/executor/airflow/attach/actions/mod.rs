//! The levers of an Airflow, pulled one request at a time.
//!
//! Each action looks at the server and at what was sent for it so far, and names the next request, a wait, or the end.
//! It may be broken off at any instruction: a request of which nobody knows what came is looked for, and only if
//! nothing of it is to be seen, and no more of it can come, it is sent again. What is said at the end was seen on the
//! server.

mod call;
mod cancel;
mod create;
mod days;
mod eyes;
mod mark;
mod natives;
mod pause;
mod replace;
mod rerun;
mod slots;
mod steps;
mod stop;
mod window;
mod words;

use self::{
    call::{Call, unreadable},
    create::Wish,
    eyes::Eyes,
    steps::{Case, ended},
    window::{Keyed, intervals},
};
use crate::{
    domain::{
        Time,
        attach::{Action, Asked},
        ids::{BackfillId, ChunkId},
        spec::Spec,
    },
    executor::{
        airflow::{
            budget::acting,
            error::{CallError, Kind},
            executor::Inner,
            wire::Api,
        },
        attach::{Next, Target},
    },
    net::{AdapterError, Cause},
};

/// Where an action is done.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    dag: &'a str,
    spec: &'a Spec,
    /// The native backfill that is attached to.
    attached: Option<u64>,
    /// The native backfill that was seen when the action was asked for.
    planned: Option<u64>,
    /// Our name for what is attached to, and the action's number: part of the ids of runs that we make.
    backfill: &'a BackfillId,
    seq: u64,
    api: Api,
    keyed: Keyed,
}

impl Place<'_> {
    /// A further request of an action.
    fn send(&self, case: &Case, call: Call) -> Next {
        Next::Send {
            sent: call.words(self.dag, self.api),
            call: call.write(self.keyed == Keyed::Partition, case.unanswered()),
        }
    }

    /// The same request once more, in the text in which it was journaled.
    fn send_again(&self, call: &Call, raw: String) -> Next {
        Next::Send {
            sent: call.words(self.dag, self.api),
            call: raw,
        }
    }
}

/// The next step of an action. Only reads.
pub(in crate::executor::airflow) async fn next(
    inner: &Inner,
    target: &Target,
    asked: &Asked,
) -> Result<Next, AdapterError> {
    let looking = decide(&inner.server, target, asked, inner.clock.wall());
    let next = if is_urgent(&asked.action) {
        acting(looking).await
    } else {
        looking.await
    };
    next.or_else(|e| match e.kind {
        // No later question would be answered otherwise.
        Kind::Unsupported => Ok(ended(false, e.error.detail)),
        _ => Err(e.into()),
    })
}

/// Sends what [`next`] named.
pub(in crate::executor::airflow) async fn perform(
    inner: &Inner,
    target: &Target,
    call: &str,
) -> Result<String, AdapterError> {
    let record = Call::read(call).map_err(|why| unreadable(inner, &why))?;
    record.call.send(inner, dag_of(target)).await
}

/// The days that a new native backfill would run.
pub(in crate::executor::airflow) async fn dry_run(
    inner: &Inner,
    target: &Target,
    action: &Action,
) -> Result<Vec<ChunkId>, AdapterError> {
    let days = preview(&inner.server, target, action).await?;
    days.map_err(|why| inner.error("dry run", Cause::BadRequest, &why))
}

/// See [`dry_run`]; what is refused without asking the server, in words.
async fn preview(
    eyes: &dyn Eyes,
    target: &Target,
    action: &Action,
) -> Result<Result<Vec<ChunkId>, String>, CallError> {
    let place = place_of(eyes, target, 0, None, true).await?;
    if let Action::Replace { limit } = action {
        return replace::dry_run(&place, eyes, *limit).await;
    }
    let Some(wish) = wish_of(action) else {
        return Ok(Err("only what makes a native backfill has a dry run".to_owned()));
    };
    match create::order(&place, wish) {
        Ok(order) => Ok(Ok(create::days_in(&place, &eyes.preview(&order).await?))),
        Err(why) => Ok(Err(why)),
    }
}

fn dag_of(target: &Target) -> &str {
    target.spec.dag.as_ref().map_or("", |d| d.id.as_str())
}

async fn place_of<'a>(
    eyes: &dyn Eyes,
    target: &'a Target,
    seq: u64,
    partitioned: Option<bool>,
    with_runs: bool,
) -> Result<Place<'a>, CallError> {
    let dag = dag_of(target);
    let partitioned = match partitioned {
        Some(known) => known,
        None if with_runs => eyes.dag(dag).await?.is_some_and(|d| d.partitioned),
        None => false,
    };
    Ok(Place {
        dag,
        spec: &target.spec,
        attached: target.spec.attach.as_ref().and_then(|a| a.native),
        planned: None,
        backfill: &target.backfill,
        seq,
        api: eyes.api().await?,
        keyed: if partitioned {
            Keyed::Partition
        } else {
            Keyed::Date
        },
    })
}

fn wish_of(action: &Action) -> Option<Wish> {
    match action {
        Action::Create {
            first,
            last,
            limit,
            reprocess,
            newest_first,
        } => Some(Wish {
            ends: (*first, *last),
            limit: *limit,
            reprocess: *reprocess,
            newest_first: *newest_first,
        }),
        _ => None,
    }
}

/// Whether the looks of an action must not wait behind polls: it is short, and what it protects is alive. What takes
/// many days in turn would leave nothing of the budget to the polls.
const fn is_urgent(action: &Action) -> bool {
    action.only_reduces() || matches!(action, Action::Slots { .. } | Action::Resume { .. })
}

/// Whether an action needs native backfills, which 2.x has not.
const fn is_native(action: &Action) -> bool {
    matches!(
        action,
        Action::Pause { whole_dag: false }
            | Action::Resume { whole_dag: false }
            | Action::Replace { .. }
            | Action::Cancel { .. }
            | Action::Create { .. }
    )
}

/// Whether an action looks at runs.
const fn has_runs(action: &Action) -> bool {
    !matches!(
        action,
        Action::Slots { .. } | Action::Pause { whole_dag: true } | Action::Resume { whole_dag: true }
    )
}

async fn decide(eyes: &dyn Eyes, target: &Target, asked: &Asked, now: Time) -> Result<Next, CallError> {
    let action = &asked.action;
    let case = match Case::of(asked, now) {
        Ok(case) => case,
        Err(why) => {
            let said = format!(
                "what was sent for it was recorded by another version of this program ({why}): look at the server"
            );
            return Ok(ended(false, said));
        }
    };
    if target.spec.dag.is_none() && !matches!(action, Action::Slots { .. }) {
        return Ok(ended(false, "it names no DAG"));
    }
    if is_native(action) && eyes.api().await? == Api::V1 {
        let said = "Airflow 2 has no native backfills: its runs can be run again, ended and marked day by day, and \
                    held by a pool or by freezing the whole DAG";
        return Ok(ended(false, said));
    }
    let place = Place {
        planned: asked.native,
        ..place_of(eyes, target, asked.seq, case.partitioned, has_runs(action)).await?
    };
    let span = |chunks: &[ChunkId]| intervals(place.spec, chunks);
    match action {
        Action::Pause { whole_dag: false } => pause::of_native(&place, &case, eyes, true).await,
        Action::Resume { whole_dag: false } => pause::of_native(&place, &case, eyes, false).await,
        Action::Pause { whole_dag: true } => pause::of_dag(&place, &case, eyes, true).await,
        Action::Resume { whole_dag: true } => pause::of_dag(&place, &case, eyes, false).await,
        Action::Slots { pool, slots } => slots::next(&place, &case, eyes, pool, *slots).await,
        Action::Replace { limit } => replace::next(&place, &case, eyes, *limit).await,
        Action::Cancel { running } => cancel::next(&place, &case, eyes, *running).await,
        Action::Rerun { chunks, failed_only } => {
            rerun::next(&place, &case, eyes, &span(chunks), *failed_only).await
        }
        Action::Stop { chunks } => stop::next(&place, &case, eyes, &span(chunks)).await,
        Action::Mark { chunks, done } => mark::next(&place, &case, eyes, &span(chunks), *done).await,
        Action::Create { .. } => match wish_of(action) {
            Some(wish) => create::next(&place, &case, eyes, wish).await,
            None => Ok(ended(false, "nothing is made by that")),
        },
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
