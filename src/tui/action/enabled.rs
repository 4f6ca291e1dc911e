//! Why an action cannot be used right now, in words for the operator.

use crate::{
    domain::{
        event::Rule,
        state::{Backfill, ChunkState},
    },
    tui::{
        inside::chosen,
        model::{App, Feed, Layer, LeaseView},
        plans::open,
        update::{SENT, select},
    },
};

pub(super) fn always(_: &App, _: &Feed) -> Result<(), String> {
    Ok(())
}

fn backfill<'a>(app: &App, feed: &'a Feed) -> Result<&'a Backfill, String> {
    select::shown(app, feed).ok_or_else(|| "no backfill is on the screen".to_owned())
}

pub(super) fn has_days(app: &App, feed: &Feed) -> Result<(), String> {
    match backfill(app, feed)?.chunks.is_empty() {
        true => Err("the backfill has no days".to_owned()),
        false => Ok(()),
    }
}

pub(super) fn has_cursor(app: &App, feed: &Feed) -> Result<(), String> {
    has_days(app, feed)?;
    app.cursor
        .map(|_| ())
        .ok_or_else(|| "the cursor is on no day: move it first".to_owned())
}

pub(super) fn has_marks(app: &App, _: &Feed) -> Result<(), String> {
    match app.marks.is_empty() && app.range_from.is_none() {
        true => Err("no day is marked".to_owned()),
        false => Ok(()),
    }
}

pub(super) fn has_attempt(app: &App, feed: &Feed) -> Result<(), String> {
    has_cursor(app, feed)?;
    let chunk = app.cursor.and_then(|id| backfill(app, feed).ok()?.chunk(id));
    match chunk.and_then(|c| c.last()) {
        Some(_) => Ok(()),
        None => Err("the day has had no attempt yet".to_owned()),
    }
}

/// The run of the day has tasks that can be looked at.
pub(super) fn has_tasks(app: &App, feed: &Feed) -> Result<(), String> {
    let inside = select::inside(app, feed);
    match inside.is_some_and(|i| !i.tasks().is_empty()) {
        true => Ok(()),
        false => Err("no tasks of the day's run are known".to_owned()),
    }
}

/// The task that is chosen was tried more than once.
pub(super) fn has_tries(app: &App, feed: &Feed) -> Result<(), String> {
    has_tasks(app, feed)?;
    let inside = select::inside(app, feed);
    let task = inside.and_then(|i| chosen(i.tasks(), &app.pick));
    match task.is_some_and(|(task, no)| task.last_try > 1 || no != task.last_try) {
        true => Ok(()),
        false => Err("there is no other try".to_owned()),
    }
}

/// The row that is chosen is of a mapped task with many indexes.
pub(super) fn has_fold(app: &App, feed: &Feed) -> Result<(), String> {
    has_tasks(app, feed)?;
    match select::fold(app, feed) {
        Some(_) => Ok(()),
        None => Err("the task has no indexes to unfold".to_owned()),
    }
}

pub(super) fn can_pause(app: &App, feed: &Feed) -> Result<(), String> {
    let b = backfill(app, feed)?;
    // What failures stopped reads as incomplete, and is exactly what a resume starts again.
    match b.state() {
        state if state.is_final() && b.pause.is_none() && b.stopped.is_none() => Err(format!(
            "{} is {}: nothing would start",
            b.spec.name,
            state.word()
        )),
        _ => Ok(()),
    }
}

pub(super) fn can_resume(app: &App, feed: &Feed) -> Result<(), String> {
    let b = backfill(app, feed)?;
    let latched = b.limit.rule == Rule::Latch;
    match b.pause.is_some() || b.stopped.is_some() || b.breaker.is_some() || latched {
        true => Ok(()),
        false => Err(format!("{} is not paused by anyone", b.spec.name)),
    }
}

/// Whether any selected chunk is in such a state; a large selection is not looked through.
fn any_selected(
    app: &App,
    feed: &Feed,
    fits: impl Fn(ChunkState) -> bool,
    otherwise: &str,
) -> Result<(), String> {
    let b = backfill(app, feed)?;
    if select::roughly(app, b) > select::LOOK_AT {
        return Ok(());
    }
    let (ids, _) = select::targets(app, b);
    let states: Vec<ChunkState> = ids
        .iter()
        .filter_map(|id| b.chunk(*id))
        .map(|c| c.state)
        .collect();
    match (states.iter().any(|s| fits(*s)), states.as_slice()) {
        (true, _) => Ok(()),
        (false, []) => Err("the cursor is on no day: move it first".to_owned()),
        (false, [one]) => Err(format!("{} is {}: {otherwise}", ids[0], one.word())),
        (false, many) => Err(format!("none of {} days: {otherwise}", many.len())),
    }
}

pub(super) fn can_hold(app: &App, feed: &Feed) -> Result<(), String> {
    use ChunkState as S;
    any_selected(
        app,
        feed,
        |s| matches!(s, S::Pending | S::Failed | S::Held),
        "only what waits can be held",
    )
}

pub(super) fn can_skip(app: &App, feed: &Feed) -> Result<(), String> {
    use ChunkState as S;
    let fits = |s| {
        matches!(
            s,
            S::Pending | S::Held | S::Failed | S::Quarantined | S::Cancelled
        )
    };
    any_selected(app, feed, fits, "nothing to skip")
}

pub(super) fn can_stop(app: &App, feed: &Feed) -> Result<(), String> {
    any_selected(app, feed, ChunkState::is_active, "nothing of it runs")
}

pub(super) fn can_rerun_failed(app: &App, feed: &Feed) -> Result<(), String> {
    let b = backfill(app, feed)?;
    if select::is_chosen(app) {
        return any_selected(app, feed, select::is_failed, "nothing of it failed");
    }
    let failed = ChunkState::ALL.into_iter().filter(|s| select::is_failed(*s));
    match failed.map(|s| b.count(s)).sum::<u32>() {
        0 => Err("no day has failed".to_owned()),
        _ => Ok(()),
    }
}

pub(super) fn can_free_limit(app: &App, feed: &Feed) -> Result<(), String> {
    let b = backfill(app, feed)?;
    match b.cap.is_some() || b.force.is_some() {
        true => Ok(()),
        false => Err("there is neither a cap nor an override".to_owned()),
    }
}

pub(super) fn not_final(app: &App, feed: &Feed) -> Result<(), String> {
    let b = backfill(app, feed)?;
    match b.state() {
        state if state.is_final() => Err(format!("{} is {}", b.spec.name, state.word())),
        _ => Ok(()),
    }
}

pub(super) fn nobody_supervises(_: &App, feed: &Feed) -> Result<(), String> {
    match (&feed.lease, &feed.config) {
        (LeaseView::Held { holder, .. }, _) => Err(format!("{holder} supervises already")),
        (LeaseView::Nobody, None) => Err("the journal has not been read yet".to_owned()),
        (LeaseView::Nobody, Some(Err(why))) => Err(why.clone()),
        (LeaseView::Nobody, Some(Ok(_))) if open(feed).next().is_none() => {
            Err("no order waits for a supervisor: backfill run NAME starts one".to_owned())
        }
        (LeaseView::Nobody, Some(Ok(_))) => Ok(()),
    }
}

pub(super) fn somebody_supervises(_: &App, feed: &Feed) -> Result<(), String> {
    match &feed.lease {
        LeaseView::Held { .. } => Ok(()),
        LeaseView::Nobody => Err("nobody supervises".to_owned()),
    }
}

pub(super) fn can_scroll(app: &App, _: &Feed) -> Result<(), String> {
    match app.layers.last() {
        Some(Layer::Plan(dialog)) if dialog.all_days.is_none() => Err("tab lists every day".to_owned()),
        Some(Layer::Why) => Err("there is nothing to scroll".to_owned()),
        _ => Ok(()),
    }
}

pub(super) fn can_close(app: &App, _: &Feed) -> Result<(), String> {
    let something =
        !app.layers.is_empty() || app.range_from.is_some() || !app.filter.is_empty() || app.only_bad;
    match something || !app.marks.is_empty() {
        true => Ok(()),
        false => Err("nothing is open; q leaves the screen".to_owned()),
    }
}

pub(super) fn can_confirm(app: &App, feed: &Feed) -> Result<(), String> {
    let Some(Layer::Plan(dialog)) = app.layers.last() else {
        return Err("no dialog is open".to_owned());
    };
    if dialog.outcome.as_deref() == Some(SENT) {
        return Err("it is sent already".to_owned());
    }
    if !dialog.acts() {
        return Err("the plan acts on nothing".to_owned());
    }
    if let Some(problem) = &feed.problem {
        return Err(format!(
            "the journal cannot be read, so the plan cannot be checked: {problem}"
        ));
    }
    Ok(())
}
