//! Where the cursor goes. It is a day's identity: a refresh never moves it to another day.

use super::{Machine, select};
use crate::{
    domain::{Time, ids::ChunkId, state::Backfill},
    tui::{
        action::Id,
        model::{Feed, Zoom},
        view::filter::Filter,
    },
};
use chrono::{Datelike, Days, Months, NaiveDate};

/// Half a page in the zoom of days: half a year of columns.
const HALF_PAGE_DAYS: i64 = 26 * 7;
/// Half a page in the zoom of years: rows.
const HALF_PAGE_YEARS: i32 = 5;

/// Carries out a movement, or says why there is none.
pub fn go(machine: &mut Machine, feed: &Feed, id: Id, now: Time) {
    let Some(backfill) = select::shown(&machine.app, feed) else {
        return;
    };
    let Some(from) = machine.app.cursor.or(machine.lost).or_else(|| first(backfill)) else {
        return;
    };
    let zoom = machine.app.zoom;
    let to = target(backfill, zoom, from.date, id);
    match to {
        Some(to) => {
            let stays = machine.app.cursor.is_some() && to.date == from.date;
            if stays {
                machine.say(format!("{from} is as far as it goes"), now);
            } else {
                machine.set_cursor(to);
            }
        }
        None => machine.say(format!("{from} is as far as it goes"), now),
    }
    if id == Id::HalfPageDown && !machine.told_ctrl_d {
        machine.told_ctrl_d = true;
        machine.say("ctrl-d moves half a page; K stops running days", now);
    }
}

fn target(backfill: &Backfill, zoom: Zoom, from: NaiveDate, id: Id) -> Option<ChunkId> {
    match (id, zoom) {
        (Id::MoveLeft, _) => by_days(backfill, from, -7),
        (Id::MoveRight, _) => by_days(backfill, from, 7),
        (Id::MoveUp, Zoom::Days) => by_days(backfill, from, -1),
        (Id::MoveDown, Zoom::Days) => by_days(backfill, from, 1),
        (Id::MoveUp, Zoom::Years) => by_years(backfill, from, -1),
        (Id::MoveDown, Zoom::Years) => by_years(backfill, from, 1),
        (Id::HalfPageUp, Zoom::Days) => by_days(backfill, from, -HALF_PAGE_DAYS).or_else(|| first(backfill)),
        (Id::HalfPageDown, Zoom::Days) => by_days(backfill, from, HALF_PAGE_DAYS).or_else(|| last(backfill)),
        (Id::HalfPageUp, Zoom::Years) => {
            by_years(backfill, from, -HALF_PAGE_YEARS).or_else(|| first(backfill))
        }
        (Id::HalfPageDown, Zoom::Years) => {
            by_years(backfill, from, HALF_PAGE_YEARS).or_else(|| last(backfill))
        }
        (Id::PreviousMonth, _) => from
            .checked_sub_months(Months::new(1))
            .and_then(|to| at_or_before(backfill, to)),
        (Id::NextMonth, _) => from
            .checked_add_months(Months::new(1))
            .and_then(|to| at_or_after(backfill, to)),
        (Id::RowStart, Zoom::Days) => row(backfill, from).next(),
        (Id::RowEnd, Zoom::Days) => row(backfill, from).next_back(),
        (Id::RowStart, Zoom::Years) => year(backfill, from).next(),
        (Id::RowEnd, Zoom::Years) => year(backfill, from).next_back(),
        (Id::FirstDay, _) => first(backfill),
        (Id::LastDay, _) => last(backfill),
        _ => None,
    }
}

/// The first chunk.
pub fn first(backfill: &Backfill) -> Option<ChunkId> {
    backfill.chunks.first().map(|c| c.id)
}

/// The first chunk of the last civil date.
fn last(backfill: &Backfill) -> Option<ChunkId> {
    backfill
        .chunks
        .last()
        .and_then(|c| at_or_before(backfill, c.id.date))
}

/// The first chunk of the first civil date that is not before `date`.
fn at_or_after(backfill: &Backfill, date: NaiveDate) -> Option<ChunkId> {
    let at = backfill.chunks.partition_point(|c| c.id.date < date);
    backfill.chunks.get(at).map(|c| c.id)
}

/// The first chunk of the last civil date that is not after `date`.
fn at_or_before(backfill: &Backfill, date: NaiveDate) -> Option<ChunkId> {
    let after = backfill.chunks.partition_point(|c| c.id.date <= date);
    let found = backfill.chunks.get(after.checked_sub(1)?)?;
    at_or_after(backfill, found.id.date)
}

/// So many civil days away; where that date has no chunk, the next one in the same direction.
fn by_days(backfill: &Backfill, from: NaiveDate, days: i64) -> Option<ChunkId> {
    let by = Days::new(days.unsigned_abs());
    if days < 0 {
        at_or_before(backfill, from.checked_sub_days(by)?)
    } else {
        at_or_after(backfill, from.checked_add_days(by)?)
    }
}

/// The same column and weekday in another year, or the nearest day of that year that there is.
fn by_years(backfill: &Backfill, from: NaiveDate, years: i32) -> Option<ChunkId> {
    let to = from.year().checked_add(years)?;
    let start = NaiveDate::from_ymd_opt(to, 1, 1)?;
    let end = NaiveDate::from_ymd_opt(to, 12, 31)?;
    let days = i64::from(select::column(from) * 7 + from.weekday().num_days_from_monday())
        - i64::from(start.weekday().num_days_from_monday());
    let wanted = start + chrono::Duration::days(days.max(0));
    let wanted = wanted.min(end);
    let days = select::between(backfill, start, end);
    let days = backfill.chunks.get(days)?;
    let after = days.iter().find(|c| c.id.date >= wanted).map(|c| c.id);
    after.or_else(|| days.last().and_then(|c| at_or_before(backfill, c.id.date)))
}

/// The days of the year of a date, in the row of its weekday.
fn row(backfill: &Backfill, date: NaiveDate) -> impl DoubleEndedIterator<Item = ChunkId> {
    year(backfill, date).filter(move |id| id.date.weekday() == date.weekday())
}

/// The chunks of the year of a date; of each civil date only the first.
fn year(backfill: &Backfill, date: NaiveDate) -> impl DoubleEndedIterator<Item = ChunkId> {
    let start = NaiveDate::from_ymd_opt(date.year(), 1, 1).unwrap_or(date);
    let end = NaiveDate::from_ymd_opt(date.year(), 12, 31).unwrap_or(date);
    let chunks = backfill
        .chunks
        .get(select::between(backfill, start, end))
        .unwrap_or_default();
    let starts_date = move |i: usize| i == 0 || chunks[i - 1].id.date != chunks[i].id.date;
    (0..chunks.len())
        .filter(move |i| starts_date(*i))
        .map(move |i| chunks[i].id)
}

/// Goes to the next or previous day that matches the filter, or without one that needs a human. Wraps around.
pub fn next_match(machine: &mut Machine, feed: &Feed, back: bool, now: Time) {
    let Some(backfill) = select::shown(&machine.app, feed) else {
        return;
    };
    let filter = Filter::of(&machine.app);
    let fits = |i: usize| {
        let chunk = &backfill.chunks[i];
        // Never to a day that is not shown.
        filter.shows(chunk) && (!machine.app.filter.is_empty() || select::needs_you(chunk))
    };
    let all = backfill.chunks.len();
    let cursor = machine.app.cursor.or(machine.lost);
    let here = cursor.and_then(|id| backfill.position(id));
    // The day of the cursor is looked at last, so that it is found again when it is the only one.
    let found = (1..=all).map(|step| match (here, back) {
        (Some(here), false) => (here + step) % all,
        (Some(here), true) => (here + all - step) % all,
        (None, false) => step - 1,
        (None, true) => all - step,
    });
    let leaves_cell =
        |i: &usize| here.is_none_or(|h| h == *i || !same_cell(machine.app.zoom, backfill, h, *i));
    let found = found.filter(|i| fits(*i)).find(leaves_cell);
    match found {
        None if filter.is_on() => machine.say(format!("no day matches {}", filter.words()), now),
        None => machine.say("no day needs you", now),
        Some(i) => {
            let wrapped = here.is_some_and(|h| if back { i > h } else { i < h });
            if here == Some(i) {
                machine.say("this is the only one", now);
            } else if wrapped {
                machine.say("searched past the end", now);
            }
            machine.set_cursor(backfill.chunks[i].id);
        }
    }
}

fn same_cell(zoom: Zoom, backfill: &Backfill, one: usize, other: usize) -> bool {
    let (a, b) = (backfill.chunks[one].id.date, backfill.chunks[other].id.date);
    match zoom {
        Zoom::Days => a == b,
        Zoom::Years => a.year() == b.year() && select::column(a) == select::column(b),
    }
}

/// Reads `2023-11-24`, `2023-11` or `2023`, also an hour's id, as the first chunk of that time.
///
/// # Errors
/// It is no date, or outside the backfill, in words.
pub fn find_date(backfill: &Backfill, text: &str) -> Result<ChunkId, String> {
    let text = text.trim();
    if let Some(chunk) = text.parse::<ChunkId>().ok().and_then(|id| backfill.chunk(id)) {
        return Ok(chunk.id);
    }
    let (first, last) =
        span(text).ok_or_else(|| format!("`{text}` is no date: type 2023-11-24, 2023-11 or 2023"))?;
    let found = select::between(backfill, first, last).next();
    // A week or month is named after its first day, so any day inside it means the chunk that began before.
    let found = found.map(|i| backfill.chunks[i].id);
    let inside = first >= backfill.spec.start && first <= backfill.spec.end;
    let found = found.or_else(|| inside.then(|| at_or_before(backfill, first)).flatten());
    found.ok_or_else(|| {
        format!(
            "{text} is outside {} .. {}",
            backfill.spec.start, backfill.spec.end
        )
    })
}

/// The civil dates that a text stands for.
fn span(text: &str) -> Option<(NaiveDate, NaiveDate)> {
    let mut parts = text.split('-');
    let year: i32 = parts.next().filter(|y| y.len() == 4)?.parse().ok()?;
    let month: Option<u32> = parts.next().map(str::parse).transpose().ok()?;
    let day: Option<u32> = parts.next().map(str::parse).transpose().ok()?;
    if parts.next().is_some() {
        return None;
    }
    let first = NaiveDate::from_ymd_opt(year, month.unwrap_or(1), day.unwrap_or(1))?;
    let last = match (month, day) {
        (_, Some(_)) => first,
        (Some(_), None) => first.checked_add_months(Months::new(1))?.pred_opt()?,
        (None, None) => NaiveDate::from_ymd_opt(year, 12, 31)?,
    };
    Some((first, last))
}
