//! Commands for what somebody else started: they move the engine's own levers, and say what the server made of it.

use super::{
    args::{Consent, MarkAs, Reason},
    ask,
    command::{append_same_plan, nothing_to_do},
    context::{Context, Done, Exit, find},
    prompt, told,
};
use crate::{
    domain::{
        attach::{Action, Reprocess, Taking},
        ids::ChunkId,
        state::Backfill,
    },
    executor::attach::{Levers, Target},
    plan::{
        preview::{self, Ask},
        select,
    },
    supervisor::wiring,
};
use chrono::Utc;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// Whether a backfill is somebody else's.
///
/// # Errors
/// There is no such backfill.
pub fn is_attached(ctx: &Context, name: &str) -> Result<bool, Exit> {
    of(ctx, name, |b| b.spec.attach.is_some())
}

/// Whether the limit of a backfill cannot be written anywhere.
///
/// # Errors
/// There is no such backfill.
pub fn without_pool(ctx: &Context, name: &str) -> Result<bool, Exit> {
    of(ctx, name, |b| {
        b.spec.attach.is_some() && b.spec.dag.as_ref().is_none_or(|d| d.pool.is_none())
    })
}

/// Whether somebody else paused the native backfill on the server.
///
/// # Errors
/// There is no such backfill.
pub fn paused_by_others(ctx: &Context, name: &str) -> Result<bool, Exit> {
    of(ctx, name, |b| {
        let native = b.seen.as_ref().and_then(|f| f.native.as_ref());
        b.native_pause.is_none() && native.is_some_and(|n| n.paused && n.completed.is_none())
    })
}

fn of<T>(ctx: &Context, name: &str, what: impl FnOnce(&Backfill) -> T) -> Result<T, Exit> {
    let state = ctx.state()?;
    Ok(what(find(&state, &ctx.config, name)?))
}

/// A change with a preview: shown, consented to, appended only if the plan is still the one that was shown, and
/// followed until the server's word is there.
///
/// # Errors
/// It does nothing, was refused, or did not do what it promised.
pub fn change(ctx: &mut Context, name: &str, ask: &Ask, consent: Consent) -> Done {
    changed(ctx, name, ask, &[], consent)
}

fn changed(
    ctx: &mut Context,
    name: &str,
    ask: &Ask,
    more: &[(&'static str, String)],
    consent: Consent,
) -> Done {
    let state = ctx.state()?;
    let backfill = find(&state, &ctx.config, name)?;
    let id = backfill.id.clone();
    let mut preview = prompt::preview(preview::make(backfill, ask, Utc::now()), backfill);
    preview.facts.extend(more.iter().cloned());
    let on_days = matches!(
        ask,
        Ask::Act(Action::Mark { .. } | Action::Create { .. }) | Ask::Take(..)
    );
    if preview.will.is_empty() && on_days {
        return Err(nothing_to_do(&preview));
    }
    if !ask::consent_given(ctx, &preview, &consent)? {
        return Ok(());
    }
    let seq = append_same_plan(ctx, &id, ask, &preview, consent.reason)?;
    // The end of a pause becomes an action of the supervisor, which others' actions may come before.
    let resume = Action::Resume { whole_dag: false };
    let is_resume = *ask == Ask::Resume;
    told::action(ctx, &id, seq, |asked| {
        if is_resume {
            asked.action == resume
        } else {
            asked.seq == seq
        }
    })
}

/// `pause NAME --whole-dag` and `resume NAME --whole-dag`.
pub fn freeze(ctx: &mut Context, name: &str, (freeze, yes): (bool, bool), reason: Reason) -> Done {
    only_attached(ctx, name)?;
    let consent = Consent {
        dry_run: false,
        yes,
        reason: reason.reason,
    };
    let whole_dag = true;
    let action = if freeze {
        Action::Pause { whole_dag }
    } else {
        Action::Resume { whole_dag }
    };
    change(ctx, name, &Ask::Act(action), consent)
}

/// `detach NAME`.
pub fn detach(ctx: &mut Context, name: &str, consent: Consent) -> Done {
    only_attached(ctx, name)?;
    change(ctx, name, &Ask::Detach, consent)
}

/// `mark NAME done DATE..`.
pub fn mark(ctx: &mut Context, name: &str, (days, state): (&[String], MarkAs), consent: Consent) -> Done {
    only_attached(ctx, name)?;
    let chunks = of(ctx, name, |b| select::all(b, days))?.map_err(Exit::usage)?;
    let done = state == MarkAs::Done;
    change(ctx, name, &Ask::Act(Action::Mark { chunks, done }), consent)
}

/// `replace NAME LIMIT`.
pub fn replace(ctx: &mut Context, name: &str, limit: u32, consent: Consent) -> Done {
    only_attached(ctx, name)?;
    change(ctx, name, &Ask::Act(Action::Replace { limit }), consent)
}

/// `throttle NAME slots N`.
pub fn slots(ctx: &mut Context, name: &str, slots: i64, consent: Consent) -> Done {
    only_attached(ctx, name)?;
    let pool = of(ctx, name, |b| b.spec.dag.as_ref().and_then(|d| d.pool.clone()))?;
    let Some(pool) = pool else {
        return Err(Exit::usage(format!("{name} was attached without a pool"))
            .hint("attach again with --pool, or set the slots in the engine's own pages"));
    };
    change(ctx, name, &Ask::Act(Action::Slots { pool, slots }), consent)
}

/// `take NAME DATE adopt|clear`.
pub fn take(ctx: &mut Context, name: &str, (date, how): (&str, Taking), consent: Consent) -> Done {
    let found = of(ctx, name, |b| {
        let chunks = select::chunks(b, date)?;
        let [id] = chunks.as_slice() else {
            return Err(format!("{date} names {} chunks: give one", chunks.len()));
        };
        let taken = b.chunk(*id).and_then(|c| c.taken.as_ref());
        taken
            .map(|t| (*id, t.run.clone()))
            .ok_or_else(|| format!("no other run has the date of {id}"))
    })?;
    let (chunk, run) = found.map_err(Exit::usage)?;
    change(ctx, name, &Ask::Take(chunk, run, how), consent)
}

/// A new native backfill, as it was asked for.
#[derive(Debug, Clone)]
pub struct NewNative {
    /// `2023-11-01..2023-11-30`.
    pub days: String,
    /// The most days at once.
    pub limit: u32,
    /// Which existing runs it takes again.
    pub reprocess: Reprocess,
    /// Latest day first.
    pub newest_first: bool,
}

/// `native NAME A..B --limit N`: the server's own dry run is shown beside ours.
pub fn native(ctx: &mut Context, name: &str, order: &NewNative, consent: Consent) -> Done {
    only_attached(ctx, name)?;
    let chunks = of(ctx, name, |b| select::chunks(b, &order.days))?.map_err(Exit::usage)?;
    let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else {
        return Err(Exit::usage(format!("{} names no day", order.days)));
    };
    let action = Action::Create {
        first: *first,
        last: *last,
        limit: order.limit,
        reprocess: order.reprocess,
        newest_first: order.newest_first,
    };
    let days = dry_run(ctx, name, &action)?;
    let fact = ("dry run", in_words(&days));
    changed(ctx, name, &Ask::Act(action), &[fact], consent)
}

fn in_words(days: &[ChunkId]) -> String {
    match (days, days.first(), days.last()) {
        ([one], ..) => format!("the server would run {one}"),
        (many, Some(first), Some(last)) => {
            format!("the server would run {} days, {first} .. {last}", many.len())
        }
        _ => "the server would run nothing".to_owned(),
    }
}

fn dry_run(ctx: &Context, name: &str, action: &Action) -> Result<Vec<ChunkId>, Exit> {
    let target = of(ctx, name, |b| Target {
        backfill: b.id.clone(),
        spec: Arc::new(b.spec.clone()),
    })?;
    let executor = target.spec.executor.to_string();
    asking(ctx, &executor, async |levers| {
        levers.dry_run(&target, action).await
    })
}

/// Asks an executor's levers something, from this process.
///
/// # Errors
/// It is not configured, has no levers, or does not answer.
pub fn asking<T>(
    ctx: &Context,
    executor: &str,
    ask: impl AsyncFnOnce(Arc<dyn Levers>) -> Result<T, crate::net::AdapterError>,
) -> Result<T, Exit> {
    let runtime = Runtime::new()?;
    let levers = {
        let _inside = runtime.enter();
        wiring::levers(&ctx.config, executor).map_err(Exit::usage)?
    };
    let asked = runtime.block_on(ask(levers));
    runtime.shutdown_background();
    asked.map_err(Exit::usage)
}

fn only_attached(ctx: &Context, name: &str) -> Done {
    if is_attached(ctx, name)? {
        return Ok(());
    }
    Err(Exit::usage(format!("{name} is a backfill of our own"))
        .hint("this is for attached backfills: backfill attach EXECUTOR"))
}
