//! From what is known of each group to one reading. Pure: the time is given.

use super::{
    super::{NoSample, Part, Reading, troubles::Troubles},
    lag::{Found, Measured, Place, listed, partial, shown},
};
use crate::{
    config::{KafkaConfig, Unit},
    domain::{human, text},
};
use std::{collections::BTreeMap, time::Duration};

/// How far ahead of our clock a record's time may be, in milliseconds: the clocks of one site are not one clock.
const FUTURE_MS: i64 = 5_000;
/// The longest explanation.
const WHY: usize = 600;

/// What was found where a group would read next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unread {
    /// A record of this time, in milliseconds of Unix time; negative: it carries none.
    Since(i64),
    /// No record up to the end: markers of transactions, or what compaction left.
    Nothing,
    /// It could not be had; why.
    Unknown(String),
}

/// Of each group what was found at its partitions.
pub(super) type Records = BTreeMap<String, BTreeMap<Place, Unread>>;

/// A partition whose next record is to be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) place: Place,
    /// The first offset that the group can still read.
    pub(super) next: i64,
    /// Where the records end that count.
    pub(super) end: i64,
}

/// The partitions of a group whose next records are worth a fetch: those that are behind, and of them the `most` that
/// are behind by most messages.
pub(super) fn wanted(measured: &Measured, most: u32) -> Vec<Wanted> {
    let mut behind: Vec<(u64, Wanted)> = measured
        .places
        .iter()
        .filter_map(|(place, found)| match found {
            Found::Behind {
                messages, next, end, ..
            } if *messages > 0 => Some((
                *messages,
                Wanted {
                    place: place.clone(),
                    next: *next,
                    end: *end,
                },
            )),
            _ => None,
        })
        .collect();
    behind.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.place.cmp(&b.1.place)));
    behind.truncate(usize::try_from(most).unwrap_or(usize::MAX));
    behind.into_iter().map(|(_, wanted)| wanted).collect()
}

/// When and how a read was made.
#[derive(Debug, Clone, Copy)]
pub(super) struct When {
    /// Our wall clock when the records were in, in milliseconds of Unix time. Brokers do not tell theirs.
    pub(super) wall_ms: i64,
    /// How long ago the commits were asked for.
    pub(super) age: Duration,
}

/// The reading: the worst group's number, or what keeps it from being one.
pub(super) fn reading(
    config: &KafkaConfig,
    unit: Unit,
    measured: Vec<Measured>,
    records: &Records,
    when: When,
) -> Reading {
    let mut parts = Vec::with_capacity(measured.len());
    let mut troubles = Troubles::default();
    for mut group in measured {
        let ages = match unit {
            Unit::Seconds => Some(ages(config, &mut group, records, when.wall_ms)),
            Unit::Messages | Unit::Alerts => None,
        };
        let note = group.notes.join("; ");
        match trouble(config, &group) {
            Some((health, why)) => {
                let note = if note.is_empty() {
                    note
                } else {
                    format!(" ({note})")
                };
                troubles.add(health, &shown(&group.group), &format!("{why}{note}"));
            }
            None => parts.push(Part {
                value: Ok(ages.unwrap_or_else(|| messages(&group))),
                note: text::one_line(&note, WHY),
                name: shown(&group.group),
            }),
        }
    }
    if let Some(reading) = troubles.reading() {
        return reading;
    }
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    match Part::worst(&parts) {
        Some((_, value)) => Reading::Value {
            value,
            age: when.age,
            skew_ms: None,
            parts,
        },
        None => Reading::NoSample {
            health: NoSample::Missing,
            why: "no group to read".to_owned(),
        },
    }
}

/// What keeps a group's number from being one.
fn trouble(config: &KafkaConfig, group: &Measured) -> Option<(NoSample, String)> {
    if let Some(still) = group.stalled {
        let why = format!(
            "{} behind and nothing committed for {}",
            human::counted(messages_whole(group), "message"),
            human::duration(still)
        );
        return Some((NoSample::Stalled, why));
    }
    let past: Vec<String> = group
        .places
        .iter()
        .filter_map(|(place, found)| match found {
            Found::Past(why) => Some(format!("{place} {why}")),
            _ => None,
        })
        .collect();
    if !past.is_empty() {
        return Some((NoSample::Invalid, listed(&past)));
    }
    if let Some(why) = &group.missing {
        return Some((NoSample::Missing, why.clone()));
    }
    partial(config, &group.places).map(|why| (NoSample::Partial, why))
}

fn messages_whole(group: &Measured) -> u64 {
    let each = group.places.values().map(|found| match found {
        Found::Behind { messages, .. } => *messages,
        _ => 0,
    });
    each.fold(0, u64::saturating_add)
}

fn messages(group: &Measured) -> f64 {
    messages_whole(group) as f64
}

/// How old the oldest message is that the group has not read, in seconds; a partition whose records cannot tell becomes
/// unknown.
fn ages(config: &KafkaConfig, group: &mut Measured, records: &Records, wall_ms: i64) -> f64 {
    let mut oldest = 0.0_f64;
    let nothing = BTreeMap::new();
    let of_group = records.get(&group.group).unwrap_or(&nothing);
    let unasked = format!(
        "its record was not asked for: most_fetches = {}",
        config.most_fetches
    );
    for (place, found) in &mut group.places {
        let Found::Behind { messages, .. } = found else {
            continue;
        };
        if *messages == 0 {
            continue;
        }
        let age = match of_group.get(place) {
            Some(Unread::Since(time)) => age(*time, wall_ms),
            Some(Unread::Nothing) => Ok(0.0),
            Some(Unread::Unknown(why)) => Err(why.clone()),
            None => Err(unasked.clone()),
        };
        match age {
            Ok(age) => oldest = oldest.max(age),
            Err(why) => *found = Found::Unknown(why),
        }
    }
    oldest
}

/// # Errors
/// In words: the record cannot tell.
fn age(time: i64, wall_ms: i64) -> Result<f64, String> {
    if time <= 0 {
        return Err("its records carry no time".to_owned());
    }
    let age = wall_ms.saturating_sub(time);
    if age < -FUTURE_MS {
        let ahead = Duration::from_millis(age.unsigned_abs());
        return Err(format!(
            "its record's time is {} ahead of this host's clock",
            human::duration(ahead)
        ));
    }
    Ok(age.max(0) as f64 / 1000.0)
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
