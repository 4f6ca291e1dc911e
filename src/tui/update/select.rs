//! What an action is about: the cell under the cursor, the marked days, or a range. Identities, never rows.

use crate::{
    domain::{
        ids::ChunkId,
        state::{Backfill, Chunk, ChunkState},
    },
    plan::{lever, why::is_taken},
    tui::model::{App, Feed, Layer, Zoom},
};
use chrono::{Datelike, NaiveDate};
use std::ops::Range;

/// Above this many selected days an action is offered without looking at each; its plan says what it does.
pub const LOOK_AT: usize = 500;

/// The backfill on screen.
pub fn shown<'a>(app: &App, feed: &'a Feed) -> Option<&'a Backfill> {
    feed.state.backfills.get(app.backfill.as_ref()?)
}

/// States that a re-run of the failed looks at: what a human has to decide about.
pub fn is_failed(state: ChunkState) -> bool {
    matches!(
        state,
        ChunkState::Failed | ChunkState::Quarantined | ChunkState::Cancelled
    )
}

/// Column of a civil date in the calendar: weeks of its year, Monday first, from 0.
pub fn column(date: NaiveDate) -> u32 {
    let first = NaiveDate::from_ymd_opt(date.year(), 1, 1).unwrap_or(date);
    (date.ordinal0() + first.weekday().num_days_from_monday()) / 7
}

/// Positions of the chunks whose civil dates are in `first ..= last`.
pub(super) fn between(backfill: &Backfill, first: NaiveDate, last: NaiveDate) -> Range<usize> {
    let from = backfill.chunks.partition_point(|c| c.id.date < first);
    let to = backfill.chunks.partition_point(|c| c.id.date <= last);
    from..to.max(from)
}

/// First and last civil date of the cell that holds a date: a day, or in the zoom of years a week of its year.
fn cell_dates(zoom: Zoom, date: NaiveDate) -> (NaiveDate, NaiveDate) {
    match zoom {
        Zoom::Days => (date, date),
        Zoom::Years => {
            let week = date.week(chrono::Weekday::Mon);
            let (monday, sunday) = (week.checked_first_day(), week.checked_last_day());
            let start = NaiveDate::from_ymd_opt(date.year(), 1, 1);
            let end = NaiveDate::from_ymd_opt(date.year(), 12, 31);
            (
                monday.max(start).unwrap_or(date),
                sunday.into_iter().chain(end).min().unwrap_or(date),
            )
        }
    }
}

/// All chunks of the cell that a chunk is in: of its day, in the zoom of years of its week.
pub fn cell(zoom: Zoom, backfill: &Backfill, id: ChunkId) -> Vec<ChunkId> {
    let (first, last) = cell_dates(zoom, id.date);
    ids(backfill, between(backfill, first, last))
}

fn ids(backfill: &Backfill, range: Range<usize>) -> Vec<ChunkId> {
    let chunks = backfill.chunks.get(range).unwrap_or_default();
    chunks.iter().map(|c| c.id).collect()
}

/// All chunks from one cell to another, both included, whichever is earlier.
pub fn range(zoom: Zoom, backfill: &Backfill, one: ChunkId, other: ChunkId) -> Vec<ChunkId> {
    let (a, b) = (cell_dates(zoom, one.date), cell_dates(zoom, other.date));
    ids(backfill, between(backfill, a.0.min(b.0), a.1.max(b.1)))
}

/// Whether the operator selected anything beyond the cell under the cursor. In the drawer the day on show is what
/// everything is about.
pub fn is_chosen(app: &App) -> bool {
    in_drawer(app) || app.range_from.is_some() || !app.marks.is_empty()
}

fn in_drawer(app: &App) -> bool {
    app.layers.iter().any(|l| matches!(l, Layer::Drawer))
}

/// How many chunks [`targets`] would give, at least as many and without collecting them.
pub fn roughly(app: &App, backfill: &Backfill) -> usize {
    if in_drawer(app) {
        return 1;
    }
    let range = app.range_from.zip(app.cursor).map_or(0, |(a, b)| {
        let position = |id| backfill.position(id).unwrap_or(0);
        position(a).abs_diff(position(b))
    });
    app.marks.len() + range
}

/// The chunks that an action is about, oldest first, and whether they were chosen rather than just under the cursor.
/// Marks and a range add up.
pub fn targets(app: &App, backfill: &Backfill) -> (Vec<ChunkId>, bool) {
    let here = |zoom| app.cursor.map(|id| cell(zoom, backfill, id)).unwrap_or_default();
    if in_drawer(app) {
        return (here(Zoom::Days), true);
    }
    let mut all: Vec<ChunkId> = app.marks.iter().filter_map(|m| m.parse().ok()).collect();
    if let Some((from, to)) = app.range_from.zip(app.cursor) {
        all.extend(range(app.zoom, backfill, from, to));
    }
    if all.is_empty() {
        return (here(app.zoom), false);
    }
    all.retain(|id| backfill.position(*id).is_some());
    all.sort_by_cached_key(|id| backfill.position(*id));
    all.dedup();
    (all, true)
}

/// Whether everything that is selected is held, so that `b` releases.
pub fn all_held(app: &App, backfill: &Backfill) -> bool {
    if backfill.count(ChunkState::Held) == 0 {
        return false;
    }
    let (ids, _) = targets(app, backfill);
    let held = |id: &ChunkId| backfill.chunk(*id).is_some_and(|c| c.state == ChunkState::Held);
    !ids.is_empty() && ids.iter().all(held)
}

/// [`all_held`] for a selection that is small enough to be looked through for every frame.
pub fn few_all_held(app: &App, backfill: &Backfill) -> bool {
    roughly(app, backfill) <= LOOK_AT && all_held(app, backfill)
}

/// Whether `p` plans to resume: somebody paused it, failures stopped it, or somebody else paused it on the server.
pub fn is_resumed_by_p(backfill: &Backfill) -> bool {
    let by_others = lever::is_paused_there(backfill) && backfill.native_pause.is_none();
    backfill.pause.is_some() || backfill.stopped.is_some() || by_others
}

/// Whether a chunk needs a human: what `n` jumps to without a filter. What will be tried again by itself does not.
pub fn needs_you(chunk: &Chunk) -> bool {
    match chunk.state {
        ChunkState::Failed => chunk.retry.is_none(),
        ChunkState::Quarantined | ChunkState::Uncertain => true,
        _ => is_taken(chunk),
    }
}
