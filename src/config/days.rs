//! The days that a backfill names one by one: its own order, its heavy and its isolated days. They are resolved to
//! chunks here, so that a day that is not in the range is found before anything starts.

use super::{
    problem::{Report, nearest, one_of},
    read::{Entry, Section, quoted},
};
use crate::domain::{
    calendar::{Granularity, cut, start_of_day},
    ids::{ChunkId, Name},
    spec::{Lane, LaneDays, Order, Profile},
};
use chrono::NaiveDate;
use chrono_tz::Tz;
use std::collections::BTreeMap;

/// More chunks than this in one order are a slip of the pen.
pub(super) const MOST_CHUNKS: i64 = 1_000_000;

/// What is cut into chunks.
pub(super) struct Range {
    pub start: NaiveDate,
    pub end: NaiveDate,
    pub granularity: Granularity,
    pub timezone: Tz,
}

impl Range {
    /// The number of chunks, to a few.
    pub(super) fn roughly(&self) -> i64 {
        let days = (self.end - self.start).num_days() + 1;
        match self.granularity {
            Granularity::Hour => days * 24,
            Granularity::Day => days,
            Granularity::Week => days / 7,
            Granularity::Month => days / 28,
        }
    }

    /// Whether the zone knows no instant of it: a civil day that its clocks jumped over.
    pub(super) fn is_empty(&self) -> bool {
        let after = self.end.succ_opt().unwrap_or(self.end);
        start_of_day(self.timezone, after) <= start_of_day(self.timezone, self.start)
    }

    fn chunks(&self) -> Vec<ChunkId> {
        cut(self.timezone, self.start, self.end, self.granularity)
            .into_iter()
            .map(|(id, _)| id)
            .collect()
    }

    fn words(&self) -> String {
        format!("{} to {}", self.start, self.end)
    }
}

/// The chunks of a plan by the days in them.
struct Plan<'r> {
    range: &'r Range,
    chunks: Vec<ChunkId>,
}

impl<'r> Plan<'r> {
    fn of(range: &'r Range) -> Self {
        Self {
            range,
            chunks: range.chunks(),
        }
    }

    /// The chunks that hold a day: one, or all hours of it. Empty for a day outside the range, and for one that the
    /// zone left out.
    fn holding(&self, date: NaiveDate) -> &[ChunkId] {
        if date < self.range.start || date > self.range.end {
            return &[];
        }
        let first = self.chunks.partition_point(|c| c.date < date);
        let after = self.chunks.partition_point(|c| c.date <= date);
        let exact = self.chunks.get(first..after).unwrap_or(&[]);
        let longer = matches!(self.range.granularity, Granularity::Week | Granularity::Month);
        match after.checked_sub(1) {
            Some(last) if exact.is_empty() && longer => self.chunks.get(last..after).unwrap_or(&[]),
            _ => exact,
        }
    }
}

/// The order of starts.
pub(super) fn order(report: &mut Report<'_>, section: &Section<'_>, range: Option<&Range>) -> Option<Order> {
    let Some(entry) = section.get("order") else {
        return Some(Order::OldestFirst);
    };
    let expected = "\"oldest-first\", \"newest-first\" or a list of days";
    if entry.is_text() {
        let words = [("oldest-first", true), ("newest-first", false)];
        return entry.word(report, &words).map(|oldest| match oldest {
            true => Order::OldestFirst,
            false => Order::NewestFirst,
        });
    }
    let items = entry.list(report, expected)?;
    if items.is_empty() {
        let help = "leave the key out for \"oldest-first\"";
        entry.problem(report, "an empty list", expected, help);
        return None;
    }
    let plan = Plan::of(range?);
    let mut chunks: Vec<ChunkId> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut sound = true;
    for item in &items {
        let Some(found) = listed(report, item, &plan) else {
            sound = false;
            continue;
        };
        for chunk in found {
            if seen.insert(chunk) {
                chunks.push(chunk);
            } else {
                item.problem(
                    report,
                    format!("chunk {chunk} a second time"),
                    "each chunk once",
                    "",
                );
                sound = false;
                break;
            }
        }
    }
    sound.then_some(Order::Custom(chunks))
}

/// The chunks of one element of an order: of a day, or the one whose id is written as a text.
fn listed(report: &mut Report<'_>, item: &Entry<'_>, plan: &Plan<'_>) -> Option<Vec<ChunkId>> {
    if !item.is_text() {
        return item
            .date(report)
            .and_then(|date| in_plan(report, item, plan, date));
    }
    let expected = "a day such as 2023-11-24, or an hour such as \"2023-11-24T05+0100\"";
    let written = item.text(report, expected)?;
    let chunk = written.parse::<ChunkId>().ok();
    match chunk {
        Some(chunk) if chunk.hour.is_none() => item.date(report).map(|_| Vec::new()),
        Some(chunk) if plan.holding(chunk.date).contains(&chunk) => Some(vec![chunk]),
        Some(chunk) => {
            let hours: Vec<String> = plan.holding(chunk.date).iter().map(ToString::to_string).collect();
            let help = match nearest(written, hours.iter().map(String::as_str)) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => String::new(),
            };
            item.problem(report, quoted(written), "a chunk of this backfill", help);
            None
        }
        None => {
            item.problem(report, quoted(written), expected, "");
            None
        }
    }
}

fn in_plan(
    report: &mut Report<'_>,
    item: &Entry<'_>,
    plan: &Plan<'_>,
    date: NaiveDate,
) -> Option<Vec<ChunkId>> {
    let chunks = plan.holding(date);
    if chunks.is_empty() {
        let inside = date >= plan.range.start && date <= plan.range.end;
        let help = if inside {
            format!("{} left this day out", plan.range.timezone)
        } else {
            String::new()
        };
        let expected = format!("a day of the range {}", plan.range.words());
        item.problem(report, date.to_string(), expected, help);
        return None;
    }
    Some(chunks.to_vec())
}

/// The days with a lane of their own, as the first days of their chunks.
pub(super) fn lanes(
    report: &mut Report<'_>,
    section: &Section<'_>,
    range: Option<&Range>,
    ladder: Option<&[Profile]>,
) -> Option<BTreeMap<Lane, LaneDays>> {
    let before = report.len();
    let listed = ["heavy", "isolated"].map(|key| section.get(key));
    let plan = match (range, listed.iter().any(Option::is_some)) {
        (Some(range), true) => Some(Plan::of(range)),
        _ => None,
    };
    let keys = [
        (Lane::Heavy, "heavy", "heavy_profile"),
        (Lane::Isolated, "isolated", "isolated_profile"),
    ];
    let mut lanes = BTreeMap::new();
    let mut taken: BTreeMap<NaiveDate, &str> = BTreeMap::new();
    for ((lane, key, profile_key), entry) in keys.into_iter().zip(listed) {
        let profile = section.get(profile_key).and_then(|e| step_of(report, &e, ladder));
        let dates = entry.map(|e| e.dates(report)).unwrap_or_default();
        let mut days = Vec::with_capacity(dates.len());
        for (date, item) in dates {
            let Some(chunks) = plan.as_ref().and_then(|p| in_plan(report, &item, p, date)) else {
                continue;
            };
            let Some(day) = chunks.first().map(|c| c.date) else {
                continue;
            };
            match taken.insert(day, key) {
                Some(other) if other != key => {
                    let found = format!("{date}, whose chunk {day} is in {other} too");
                    item.problem(report, found, "each chunk in one lane", "");
                }
                Some(_) => {}
                None => days.push(day),
            }
        }
        days.sort_unstable();
        if !days.is_empty() {
            lanes.insert(lane, LaneDays { days, profile });
        }
    }
    (report.len() == before && (range.is_some() || lanes.is_empty())).then_some(lanes)
}

/// A profile that must be on the backfill's own ladder.
fn step_of(report: &mut Report<'_>, entry: &Entry<'_>, ladder: Option<&[Profile]>) -> Option<Name> {
    let found = entry.text(report, "the name of one of the backfill's profiles")?;
    let names: Vec<&str> = ladder?.iter().map(|p| p.name.as_str()).collect();
    if names.contains(&found) {
        return found.parse().ok();
    }
    let help = match nearest(found, names.iter().copied()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => "add it to profiles, smallest first".to_owned(),
    };
    let expected = format!("one of the backfill's profiles ({})", one_of(&names));
    entry.problem(report, quoted(found), expected, help);
    None
}
