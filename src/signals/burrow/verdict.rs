//! From what a Burrow says of a group to its number, or to why it has none. Pure: the time is given.

use super::answer::{Group, Partition, Status};
use crate::{
    config::BurrowConfig,
    domain::{human, text},
    signals::{NoSample, Part},
};
use std::{collections::BTreeMap, time::Duration};

/// The share of a topic's partitions that must have a commit, in percent (law C1).
const KNOWN: usize = 90;
/// How far ahead of Burrow's clock a commit may be, in milliseconds: the clocks of one site are not one clock.
const FUTURE_MS: i64 = 5_000;
/// How many partitions are named; the others are counted.
const NAMED: usize = 3;
/// How long a note is.
const NOTE: usize = 200;

/// A group with a number.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    pub(super) part: Part,
    /// How old its newest commit is. Burrow repeats old numbers for ever when its brokers are gone.
    pub(super) age: Duration,
}

/// # Errors
/// Why the group has no number.
pub(super) fn verdict(
    config: &BurrowConfig,
    group: &Group,
    now_ms: i64,
) -> Result<Measured, (NoSample, String)> {
    let counted: Vec<&Partition> = group
        .partitions
        .iter()
        .filter(|p| config.topics.is_empty() || config.topics.contains(&p.topic))
        .collect();
    moves(config, group, &counted)?;
    complete(config, group, &counted)?;
    let (known, newest) = known(&counted)?;
    let age_ms = now_ms.saturating_sub(newest);
    if age_ms < -FUTURE_MS {
        let ahead = human::duration(Duration::from_millis(age_ms.unsigned_abs()));
        let why = format!("its newest commit is {ahead} ahead of Burrow's clock");
        return Err((NoSample::Invalid, why));
    }
    let lag = known.iter().map(|p| p.current_lag).fold(0, u64::saturating_add);
    Ok(Measured {
        part: Part {
            name: shown(&group.group),
            value: Ok(lag as f64),
            note: note(&counted),
        },
        age: Duration::from_millis(u64::try_from(age_ms).unwrap_or(0)),
    })
}

/// A group that stands still holds, whatever its lag is (law C1).
fn moves(config: &BurrowConfig, group: &Group, counted: &[&Partition]) -> Result<(), (NoSample, String)> {
    let still: Vec<String> = counted
        .iter()
        .filter(|p| p.status.is_stalled())
        .map(|p| {
            let lag = human::counted(p.current_lag, "message");
            format!("{} {} at {lag}", p.name(), p.status.words())
        })
        .collect();
    if !still.is_empty() {
        return Err((NoSample::Stalled, listed(&still)));
    }
    // Of other topics the group's status may speak, too.
    let unexplained = group.status == Status::Err && config.topics.is_empty();
    if group.status.is_stalled() || unexplained {
        let why = format!("the group is {}", group.status.words());
        return Err((NoSample::Stalled, why));
    }
    Ok(())
}

/// Whether everything is there that has to be, and known (law C1).
fn complete(config: &BurrowConfig, group: &Group, counted: &[&Partition]) -> Result<(), (NoSample, String)> {
    if group.partitions.is_empty() {
        return Err((NoSample::Missing, "Burrow lists no partitions of it".to_owned()));
    }
    let absent: Vec<String> = config
        .topics
        .iter()
        .filter(|topic| !counted.iter().any(|p| p.topic == **topic))
        .cloned()
        .collect();
    if !absent.is_empty() {
        let why = format!("no partition of {}", listed(&absent));
        return Err((NoSample::Missing, why));
    }
    if group.partition_count != group.partitions.len() as u64 {
        let why = format!(
            "{} of {} are in the answer",
            group.partitions.len(),
            human::counted(group.partition_count, "partition")
        );
        return Err((NoSample::Partial, why));
    }
    let mut topics: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for partition in counted {
        let (known, all) = topics.entry(&partition.topic).or_default();
        *known += usize::from(partition.committed().is_some());
        *all += 1;
    }
    let thin: Vec<String> = topics
        .iter()
        .filter(|(_, (known, all))| known * 100 < all * KNOWN)
        .map(|(topic, (known, all))| {
            let all = human::counted(*all as u64, "partition");
            format!("{known} of {all} of {topic} have a commit")
        })
        .collect();
    if thin.is_empty() {
        return Ok(());
    }
    Err((NoSample::Partial, listed(&thin)))
}

/// The partitions with commits, and when the newest of all these was.
fn known<'a>(counted: &[&'a Partition]) -> Result<(Vec<&'a Partition>, i64), (NoSample, String)> {
    let known: Vec<&Partition> = counted
        .iter()
        .copied()
        .filter(|p| p.committed().is_some())
        .collect();
    let newest = known
        .iter()
        .filter_map(|p| p.committed())
        .map(|c| c.timestamp)
        .max();
    match newest {
        Some(newest) if newest > 0 => Ok((known, newest)),
        _ => Err((NoSample::Invalid, "its commits carry no time".to_owned())),
    }
}

/// What has to be said beside the number.
fn note(counted: &[&Partition]) -> String {
    let mut notes = Vec::new();
    let unknown = counted.iter().filter(|p| p.committed().is_none()).count();
    if unknown > 0 {
        let all = human::counted(counted.len() as u64, "partition");
        notes.push(format!("{unknown} of {all} without a commit"));
    }
    let behind: Vec<String> = counted
        .iter()
        .filter(|p| p.status == Status::Warn)
        .map(|p| p.name())
        .collect();
    if !behind.is_empty() {
        notes.push(format!("falls behind: {}", listed(&behind)));
    }
    text::one_line(&notes.join("; "), NOTE)
}

/// A few of them, and how many more.
pub(super) fn listed(things: &[String]) -> String {
    let named = things.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match things.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// A name for the screen.
pub(super) fn shown(name: &str) -> String {
    text::short_name(name, 80)
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
