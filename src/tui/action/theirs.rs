//! What can be done to somebody else's backfill, and what cannot, in words for the operator.

use super::enabled::{backfill, has_cursor, not_final};
use crate::{
    domain::state::Backfill,
    plan::{lever, why::is_taken},
    tui::{
        model::{App, Feed},
        update::select,
    },
};

/// What is done to a plan of ours only; `instead` is what is there for somebody else's.
pub(super) fn is_ours(app: &App, feed: &Feed, instead: &str) -> Result<(), String> {
    match backfill(app, feed)? {
        b if b.spec.attach.is_some() => Err(format!(
            "{} is somebody else's, nothing of it waits for us: {instead}",
            b.spec.name
        )),
        _ => Ok(()),
    }
}

/// It was not let go of.
pub(super) fn not_let_go(backfill: &Backfill) -> Result<(), String> {
    match backfill.detached {
        Some(_) => Err(format!(
            "{} was let go of: take hold of it again first",
            backfill.spec.name
        )),
        None => Ok(()),
    }
}

/// The backfill on screen is somebody else's, and we hold it.
fn held<'a>(app: &App, feed: &'a Feed) -> Result<&'a Backfill, String> {
    let b = backfill(app, feed)?;
    if b.spec.attach.is_none() {
        return Err(format!("{} is our own backfill", b.spec.name));
    }
    not_let_go(b).map(|()| b)
}

pub(super) fn is_held(app: &App, feed: &Feed) -> Result<(), String> {
    held(app, feed).map(|_| ())
}

/// There is a native backfill with levers, or nothing is known of it yet.
fn has_native(backfill: &Backfill, verb: &str) -> Result<(), String> {
    let seen = backfill.seen.as_ref().filter(|f| f.as_of.is_some());
    match seen.and_then(|facts| lever::no_native(Some(facts))) {
        Some(why) => Err(format!("nothing to {verb}: {why}")),
        None => Ok(()),
    }
}

pub(super) fn can_pause(b: &Backfill) -> Result<(), String> {
    not_let_go(b)?;
    if select::is_resumed_by_p(b) {
        return Ok(());
    }
    has_native(b, "pause").map_err(|why| format!("{why}; pause-dag freezes the whole DAG"))
}

pub(super) fn can_rerun(app: &App, feed: &Feed) -> Result<(), String> {
    has_cursor(app, feed)?;
    not_let_go(backfill(app, feed)?)
}

pub(super) fn can_cancel(app: &App, feed: &Feed) -> Result<(), String> {
    not_final(app, feed)?;
    match backfill(app, feed)? {
        b if b.spec.attach.is_some() => has_native(b, "cancel"),
        _ => Ok(()),
    }
}

pub(super) fn can_limit(app: &App, feed: &Feed) -> Result<(), String> {
    not_final(app, feed)?;
    let b = backfill(app, feed)?;
    let pool = b.spec.dag.as_ref().and_then(|d| d.pool.as_ref());
    if b.spec.attach.is_none() || pool.is_some() {
        return Ok(());
    }
    has_native(b, "replace").map_err(|why| format!("no pool was named when it was attached; {why}"))
}

pub(super) fn can_take(app: &App, feed: &Feed) -> Result<(), String> {
    has_cursor(app, feed)?;
    let chunk = app.cursor.and_then(|id| backfill(app, feed).ok()?.chunk(id));
    match chunk {
        Some(chunk) if is_taken(chunk) => Ok(()),
        Some(chunk) => Err(format!("no run of others has the date of {}", chunk.id)),
        None => Err("the cursor is on no day: move it first".to_owned()),
    }
}

pub(super) fn can_mark(app: &App, feed: &Feed) -> Result<(), String> {
    is_held(app, feed)?;
    has_cursor(app, feed)
}

/// There is a configuration, and it names a server that others use, too.
pub(super) fn can_attach(_: &App, feed: &Feed) -> Result<(), String> {
    match &feed.config {
        Some(Ok(_)) if feed.executors.values().any(|e| e.levers) => Ok(()),
        Some(Ok(_)) => Err("all executors here are local: there is nothing to attach to".to_owned()),
        Some(Err(why)) => Err(why.clone()),
        None => Err("the configuration has not been read yet".to_owned()),
    }
}

pub(super) fn can_detach(app: &App, feed: &Feed) -> Result<(), String> {
    is_held(app, feed)
}
