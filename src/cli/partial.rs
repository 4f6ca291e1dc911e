//! Weeks and months at the ends of a range that the range does not hold whole. Their partitions would be rewritten from
//! some of their days alone, which hardly anybody means.

use crate::domain::{
    calendar::{Granularity, cut},
    ids::ChunkId,
    spec::Spec,
};
use chrono::{Datelike, Days, Months, NaiveDate};
use serde::Serialize;

/// A week or month that is only partly in the range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Partial {
    /// Its chunk.
    pub chunk: ChunkId,
    /// Its first and last day in the range.
    pub covers: [NaiveDate; 2],
    /// Its first and last day by the calendar.
    pub whole: [NaiveDate; 2],
    /// Which key of the configuration cuts it, and values of it that do not.
    pub align: Vec<(&'static str, Vec<NaiveDate>)>,
    /// In words.
    pub text: String,
}

/// The partial chunks of an order: none, the first, the last, or both.
pub fn of(spec: &Spec) -> Vec<Partial> {
    let chunks = cut(spec.timezone, spec.start, spec.end, spec.granularity);
    let mut ends: Vec<ChunkId> = [chunks.first(), chunks.last()]
        .into_iter()
        .flatten()
        .map(|c| c.0)
        .collect();
    ends.dedup();
    ends.into_iter()
        .filter_map(|chunk| partial(spec, chunk))
        .collect()
}

fn partial(spec: &Spec, chunk: ChunkId) -> Option<Partial> {
    let [first, last] = unit(chunk.date, spec.granularity)?;
    let covers = [first.max(spec.start), last.min(spec.end)];
    let mut align = Vec::new();
    if covers[0] > first {
        align.push(("start", sound([Some(first), last.succ_opt()], |d| d <= spec.end)));
    }
    if covers[1] < last {
        align.push(("end", sound([Some(last), first.pred_opt()], |d| d >= spec.start)));
    }
    if align.is_empty() {
        return None;
    }
    let how: Vec<String> = align
        .iter()
        .map(|(key, days)| {
            let days: Vec<String> = days.iter().map(ToString::to_string).collect();
            format!("{key} = {}", days.join(" or "))
        })
        .collect();
    let text = format!(
        "{} {chunk} covers only {} .. {} of {first} .. {last}; to align: {}",
        spec.granularity.word(),
        covers[0],
        covers[1],
        how.join(" and ")
    );
    Some(Partial {
        chunk,
        covers,
        whole: [first, last],
        align,
        text,
    })
}

fn sound(days: [Option<NaiveDate>; 2], fits: impl Fn(NaiveDate) -> bool) -> Vec<NaiveDate> {
    days.into_iter().flatten().filter(|d| fits(*d)).collect()
}

/// The first and last day of the week or month that holds a day; `None` for what cannot be partial.
fn unit(day: NaiveDate, granularity: Granularity) -> Option<[NaiveDate; 2]> {
    match granularity {
        Granularity::Hour | Granularity::Day => None,
        Granularity::Week => {
            let into = u64::from(day.weekday().num_days_from_monday());
            let monday = day.checked_sub_days(Days::new(into))?;
            Some([monday, monday.checked_add_days(Days::new(6))?])
        }
        Granularity::Month => {
            let first = day.with_day(1)?;
            Some([first, first.checked_add_months(Months::new(1))?.pred_opt()?])
        }
    }
}
