//! From tables of offsets to numbers, and to what is wrong with them. Pure: no clock, no I/O.
//!
//! Commits were read before ends, so a difference can only be too large by what came in between, never negative. A
//! commit behind the end of its partition is therefore a fault of the data and never cut to zero.

use super::stall::Memory;
use crate::{
    config::{Expect, KafkaConfig, WithoutCommit},
    domain::{human, text},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

/// How many things of one sort a sentence names.
const NAMED: usize = 6;
/// The longest name that is shown.
const NAME: usize = 80;

/// A partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) topic: String,
    pub(super) partition: i32,
}

impl Place {
    pub(super) fn new(topic: impl Into<String>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", shown(&self.topic), self.partition)
    }
}

/// A name from outside, as it may be shown.
pub(super) fn shown(name: &str) -> String {
    text::short_name(name, NAME)
}

/// What a group has committed for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Commit {
    /// The offset of the next record that it will read, and the epoch of the leader that it read from, where known.
    At { offset: i64, epoch: Option<i32> },
    /// Nothing.
    Never,
    /// The broker did not tell; its words.
    Unknown(String),
}

/// What a group looks like to its coordinator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Members {
    /// The state's own word, as in `Stable`; empty where the broker did not tell.
    pub(super) state: String,
    /// Topics that its members are to read, whether anything is committed or not.
    pub(super) topics: BTreeSet<String>,
}

impl Members {
    /// What is to be said of it.
    fn note(&self) -> Option<String> {
        match self.state.as_str() {
            "Stable" => None,
            "" => Some("state not known".to_owned()),
            "Empty" => Some("no members".to_owned()),
            "Dead" => Some("dead".to_owned()),
            "PreparingRebalance" | "CompletingRebalance" | "Assigning" | "Reconciling" => {
                Some("rebalancing".to_owned())
            }
            other => Some(format!("state {}", text::one_line(other, 40))),
        }
    }
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) members: Members,
    pub(super) commits: BTreeMap<Place, Commit>,
}

impl Group {
    /// The topics that count: those with a commit and those its members are to read, as far as the file wants them.
    pub(super) fn topics(&self, wanted: &BTreeSet<String>) -> BTreeSet<String> {
        let committed = self
            .commits
            .iter()
            .filter(|(_, commit)| **commit != Commit::Never)
            .map(|(place, _)| &place.topic);
        committed
            .chain(&self.members.topics)
            .filter(|topic| wanted.is_empty() || wanted.contains(*topic))
            .cloned()
            .collect()
    }
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Topic {
    /// It has these partitions; its id is that of no other topic, also not of an earlier one of this name.
    There {
        id: Option<[u8; 16]>,
        partitions: BTreeSet<i32>,
    },
    /// There is no such topic.
    Gone,
    /// The broker did not tell; its words.
    Unknown(String),
}

/// The log of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Log {
    /// The first offset that is still there.
    pub(super) start: i64,
    /// Behind the last record that the group may read.
    pub(super) end: i64,
    /// Behind the last record, where that may be later.
    pub(super) high: Option<i64>,
    /// The epoch of its leader, where known.
    pub(super) epoch: Option<i32>,
}

/// Everything that one read brought, but records.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) groups: Vec<Group>,
    pub(super) topics: BTreeMap<String, Topic>,
    /// Of each partition its log, or why it is not known.
    pub(super) logs: BTreeMap<Place, Result<Log, String>>,
}

/// What is known of a partition that should have a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// The group never committed anything for it.
    Never,
    /// There is no number; why.
    Unknown(String),
    /// Its commit lies behind its end; what that means.
    Past(String),
    /// The group is behind.
    Behind {
        /// By so many messages.
        messages: u64,
        /// So many were deleted before it had read them.
        lost: u64,
        /// The first that it can still read.
        next: i64,
        /// Where they end.
        end: i64,
    },
}

/// What is known of a group.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) group: String,
    pub(super) places: BTreeMap<Place, Found>,
    /// What is to be said of it in any case.
    pub(super) notes: Vec<String>,
    /// Why there is nothing at all.
    pub(super) missing: Option<String>,
    /// For how long it has not moved, if that is too long.
    pub(super) stalled: Option<Duration>,
}

/// Puts the tables together, `now` being on any clock that only runs forward.
pub(super) fn measure(
    config: &KafkaConfig,
    tables: &Tables,
    memory: &mut Memory,
    now: Duration,
) -> Vec<Measured> {
    let measured = tables
        .groups
        .iter()
        .map(|group| group_of(config, tables, group, memory, now))
        .collect();
    memory.keep(tables);
    measured
}

fn group_of(
    config: &KafkaConfig,
    tables: &Tables,
    group: &Group,
    memory: &mut Memory,
    now: Duration,
) -> Measured {
    let topics = group.topics(&config.topics);
    let mut places = BTreeMap::new();
    let mut gone = Vec::new();
    for topic in &topics {
        let committed = group.commits.iter().filter(|(place, _)| place.topic == *topic);
        match tables.topics.get(topic) {
            Some(Topic::There { partitions, .. }) => {
                let missing = committed.filter(|(place, commit)| {
                    **commit != Commit::Never && !partitions.contains(&place.partition)
                });
                gone.extend(missing.map(|(place, _)| place.to_string()));
                for partition in partitions {
                    let place = Place::new(topic.as_str(), *partition);
                    let found = found(tables, group, &place, memory);
                    places.insert(place, found);
                }
            }
            Some(Topic::Gone) => gone.push(shown(topic)),
            Some(Topic::Unknown(why)) => {
                let unknown = committed.map(|(place, _)| (place.clone(), Found::Unknown(why.clone())));
                places.extend(unknown);
                // Whatever has no commit yet is not known either.
                places
                    .entry(Place::new(topic.as_str(), 0))
                    .or_insert_with(|| Found::Unknown(why.clone()));
            }
            None => {}
        }
    }
    let missing = missing(config, group, &topics, &places, &gone);
    let mut notes = Vec::new();
    // Of a group that is not there no state is worth a word.
    if missing.is_none() || group.members.state == "Empty" {
        notes.extend(group.members.note());
    }
    if !gone.is_empty() {
        notes.push(format!("{} no longer there", listed(&gone)));
    }
    let lost = lost(&places);
    if lost > 0 {
        notes.push(format!(
            "{} lost to retention before it read them",
            human::counted(lost, "message")
        ));
    }
    let stalled = memory.stalled(group, &places, config.stalled_after, now);
    Measured {
        group: group.name.clone(),
        places,
        notes,
        missing,
        stalled,
    }
}

fn lost(places: &BTreeMap<Place, Found>) -> u64 {
    let each = places.values().map(|found| match found {
        Found::Behind { lost, .. } => *lost,
        _ => 0,
    });
    each.fold(0, u64::saturating_add)
}

/// Why there is nothing to be said of a group.
fn missing(
    config: &KafkaConfig,
    group: &Group,
    topics: &BTreeSet<String>,
    places: &BTreeMap<Place, Found>,
    gone: &[String],
) -> Option<String> {
    let any_commit = group.commits.values().any(|c| *c != Commit::Never);
    let nobody = matches!(group.members.state.as_str(), "" | "Dead");
    if !any_commit && nobody && topics.is_empty() {
        return Some("no such group, or it never committed".to_owned());
    }
    if topics.is_empty() && any_commit && !config.topics.is_empty() {
        let wanted: Vec<String> = config.topics.iter().map(|t| shown(t)).collect();
        return Some(format!("it has no commit in {}", listed(&wanted)));
    }
    if !any_commit {
        return Some("it never committed".to_owned());
    }
    if places.is_empty() && !gone.is_empty() {
        return Some("its topics are no longer there".to_owned());
    }
    None
}

/// What is known of a partition that exists.
fn found(tables: &Tables, group: &Group, place: &Place, memory: &mut Memory) -> Found {
    let (offset, epoch) = match group.commits.get(place) {
        None | Some(Commit::Never) => return Found::Never,
        Some(Commit::Unknown(why)) => return Found::Unknown(why.clone()),
        Some(Commit::At { offset, epoch }) => (*offset, *epoch),
    };
    let log = match tables.logs.get(place) {
        None => return Found::Unknown("the broker told no offsets".to_owned()),
        Some(Err(why)) => return Found::Unknown(why.clone()),
        Some(Ok(log)) => log,
    };
    if log.end < log.start || log.start < 0 || offset < 0 {
        return Found::Unknown(format!(
            "offsets that cannot be: committed {offset}, start {}, end {}",
            log.start, log.end
        ));
    }
    if offset > log.high.unwrap_or(log.end).max(log.end) {
        let recreated = epoch.zip(log.epoch).is_some_and(|(then, now)| then > now);
        let why = memory.past_the_end(&group.name, place, offset, log.end, recreated, tables);
        return Found::Past(format!("committed {offset} is past the end {}: {why}", log.end));
    }
    let next = offset.max(log.start);
    Found::Behind {
        messages: difference(log.end, next),
        lost: difference(log.start, offset),
        next,
        end: log.end,
    }
}

/// How much later, zero if it is not.
fn difference(later: i64, earlier: i64) -> u64 {
    u64::try_from(i128::from(later) - i128::from(earlier)).unwrap_or(0)
}

/// The first few of many, in words.
pub(super) fn listed(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    match names.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Whether enough of what should have a number has one: 90 % (law C1).
const fn enough(known: usize, all: usize) -> bool {
    known.saturating_mul(10) >= all.saturating_mul(9)
}

/// Why a group's number is only a part of what it should be; `None`: it is whole enough.
pub(super) fn partial(config: &KafkaConfig, places: &BTreeMap<Place, Found>) -> Option<String> {
    let topics: BTreeSet<&str> = places.keys().map(|p| p.topic.as_str()).collect();
    let named = match &config.expect {
        Expect::Of(topics) => topics.keys().map(String::as_str).collect(),
        Expect::Share | Expect::Each(_) => BTreeSet::new(),
    };
    // A topic that must have commits and is not even there is short of them.
    let wanted = named
        .into_iter()
        .filter(|t| config.topics.is_empty() || config.topics.contains(*t));
    let all: BTreeSet<&str> = topics.into_iter().chain(wanted).collect();
    let words: Vec<String> = all
        .into_iter()
        .flat_map(|topic| {
            let of: Vec<(&Place, &Found)> = places.iter().filter(|(p, _)| p.topic == topic).collect();
            [too_few_commits(config, topic, &of), too_few_numbers(topic, &of)]
        })
        .flatten()
        .collect();
    (!words.is_empty()).then(|| listed(&words))
}

fn too_few_commits(config: &KafkaConfig, topic: &str, of: &[(&Place, &Found)]) -> Option<String> {
    let without: Vec<String> = of
        .iter()
        .filter(|(_, found)| **found == Found::Never)
        .map(|(place, _)| place.partition.to_string())
        .collect();
    let with = of.len() - without.len();
    let demanded = match &config.expect {
        Expect::Share => None,
        Expect::Each(n) => Some(*n),
        Expect::Of(topics) => topics.get(topic).copied(),
    };
    let which = || {
        let word = if without.len() == 1 {
            "partition"
        } else {
            "partitions"
        };
        format!(" (none in {word} {})", listed(&without))
    };
    let topic = shown(topic);
    match demanded {
        Some(n) if with < usize::try_from(n).unwrap_or(usize::MAX) => {
            let which = if without.is_empty() {
                String::new()
            } else {
                which()
            };
            Some(format!(
                "{topic}: {with} of the {n} expected partitions have a commit{which}"
            ))
        }
        None if config.without_commit == WithoutCommit::Partial && !enough(with, of.len()) => Some(format!(
            "{topic}: {with} of {} partitions have a commit{}",
            of.len(),
            which()
        )),
        Some(_) | None => None,
    }
}

fn too_few_numbers(topic: &str, of: &[(&Place, &Found)]) -> Option<String> {
    let unknown: Vec<(&Place, &String)> = of
        .iter()
        .filter_map(|(place, found)| match found {
            Found::Unknown(why) => Some((*place, why)),
            _ => None,
        })
        .collect();
    let all = of.iter().filter(|(_, found)| **found != Found::Never).count();
    if enough(all - unknown.len(), all) {
        return None;
    }
    let (first, why) = unknown.first()?;
    let more = match unknown.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    Some(format!(
        "{} of {} partitions of {} unknown: partition {}{more}: {}",
        unknown.len(),
        all,
        shown(topic),
        first.partition,
        text::one_line(why, 160)
    ))
}

#[cfg(test)]
#[path = "lag_tests.rs"]
mod tests;
