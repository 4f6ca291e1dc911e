//! From the series of each stream to one reading. Pure: the time is given.

use super::{
    super::{clock::Clock, troubles::Troubles},
    answer::{Pages, Point, Series, Status},
};
use crate::{
    domain::{human, text},
    signals::{NoSample, Part, Reading},
};
use std::time::Duration;

/// How long a datapoint's period is, in seconds.
pub(super) const PERIOD: u32 = 60;
/// A Unix time before this is no time of a measurement.
const EARLIEST: f64 = 1e9;
/// How far in CloudWatch's future a period may begin, in seconds.
const FUTURE: f64 = 5.0;
/// The longest name of a part and the longest words of CloudWatch.
const NAME: usize = 128;

/// The reading of these streams, whose results have the ids that stand beside them.
pub(super) fn reading(streams: &[(String, String)], pages: &Pages, clock: Clock) -> Reading {
    let mut troubles = Troubles::default();
    if let Some(warning) = &pages.warning {
        troubles.add(NoSample::Partial, "CloudWatch says", warning);
    }
    let mut parts = Vec::with_capacity(streams.len());
    let mut oldest = Duration::ZERO;
    for (stream, id) in streams {
        match newest(pages.series.get(id), clock.now_ms) {
            Ok((seconds, age)) => {
                // The reading is as old as its oldest part.
                oldest = oldest.max(age);
                parts.push(Part {
                    name: text::short_name(stream, NAME),
                    value: Ok(seconds),
                    note: String::new(),
                });
            }
            Err((health, why)) => troubles.add(health, stream, &why),
        }
    }
    if let Some(reading) = troubles.reading() {
        return reading;
    }
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    match Part::worst(&parts) {
        Some((_, value)) => Reading::Value {
            value,
            age: oldest,
            skew_ms: clock.skew_ms,
            parts,
        },
        None => Reading::NoSample {
            health: NoSample::Missing,
            why: "no stream to read".to_owned(),
        },
    }
}

/// The iterator age in seconds, and how old that number is.
///
/// A datapoint has the time at which its period began, and speaks for all of the period: its number is known to be
/// true until the period ended. So its age counts from there; that of the period that still runs is zero.
///
/// # Errors
/// Why there is no number.
fn newest(series: Option<&Series>, now_ms: i64) -> Result<(f64, Duration), (NoSample, String)> {
    let Some(series) = series else {
        return Err((NoSample::Partial, "it is not in the answer".to_owned()));
    };
    if series.status == Status::PartialData {
        let why = format!("only a part of its data. {}", series.words);
        return Err((NoSample::Partial, why.trim_end().to_owned()));
    }
    let Some(Point { at, value }) = series.newest else {
        let why = "no datapoint in the last 10 minutes: nobody reads it (a dead consumer has no iterator age), \
                   or no such stream";
        return Err((NoSample::Missing, why.to_owned()));
    };
    if !value.is_finite() || value < 0.0 {
        return Err((NoSample::Invalid, format!("the value is {value}")));
    }
    let now = now_ms as f64 / 1000.0;
    // Written so that NaN is refused.
    if !(at >= EARLIEST && at <= now + FUTURE) {
        let why = format!("its newest datapoint has the time {at}, which is no Unix time of the past");
        return Err((NoSample::Invalid, why));
    }
    let age = (now - at - f64::from(PERIOD)).max(0.0);
    let age = Duration::try_from_secs_f64(age)
        .map_err(|why| (NoSample::Invalid, format!("its age cannot be told: {why}")))?;
    Ok((value / 1000.0, age))
}

/// The streams whose results have this status, in words; `None`: there are none.
pub(super) fn refused(streams: &[(String, String)], pages: &Pages, status: Status) -> Option<String> {
    let series = |id: &String| pages.series.get(id).filter(|s| s.status == status);
    let of_status: Vec<(&str, &Series)> = streams
        .iter()
        .filter_map(|(stream, id)| Some((stream.as_str(), series(id)?)))
        .collect();
    let (first, series) = of_status.first()?;
    let more = match of_status.len() - 1 {
        0 => String::new(),
        more => format!(" and {}", human::counted(more as u64, "other stream")),
    };
    Some(
        format!("{first}{more}: {}", series.words)
            .trim_end_matches([':', ' '])
            .to_owned(),
    )
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
