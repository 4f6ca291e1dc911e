//! The series of one signal: by what they are told apart, and which of them are gone.

use super::answer::Labels;
use crate::{
    config::MOST_SERIES,
    domain::{human, text::short_name},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// How long a name is, in characters.
const NAME: usize = 80;
/// How many different series are remembered.
const MOST_REMEMBERED: usize = 2 * MOST_SERIES;

/// The series that were seen, each with the time since which it is gone.
#[derive(Debug, Default)]
pub(super) struct Memory(BTreeMap<Labels, Option<Instant>>);

impl Memory {
    /// Takes in which series are there now, and answers those that were there and are gone for how long. What is gone
    /// for `after` is forgotten. Only called with complete answers that hold at least one series.
    ///
    /// # Errors
    /// In words: the series are never the same.
    pub(super) fn look<'a>(
        &mut self,
        there: impl Iterator<Item = &'a Labels>,
        now: Instant,
        after: Duration,
    ) -> Result<BTreeMap<Labels, Duration>, String> {
        let there: BTreeSet<&Labels> = there.collect();
        for (labels, since) in &mut self.0 {
            if there.contains(labels) {
                *since = None;
            } else {
                since.get_or_insert(now);
            }
        }
        self.0
            .retain(|_, since| since.is_none_or(|since| now.saturating_duration_since(since) < after));
        for labels in there {
            if !self.0.contains_key(labels) {
                self.0.insert(labels.clone(), None);
            }
        }
        if self.0.len() > MOST_REMEMBERED {
            // Kept, they would grow without end; without them the next read starts anew.
            self.0.clear();
            return Err(format!(
                "more than {} different series within {}: aggregate by labels that stay, as in \
                 max by (consumergroup, topic) (..)",
                human::with_commas(MOST_REMEMBERED as u64),
                human::exact_duration(after)
            ));
        }
        let gone = self.0.iter().filter_map(|(labels, since)| {
            since.map(|since| (labels.clone(), now.saturating_duration_since(since)))
        });
        Ok(gone.collect())
    }
}

/// A name for each series: the values of those labels in which they differ, and of those that `always` belong into it.
/// `None` if there is nothing to tell: one series without such labels.
pub(super) fn names(series: &BTreeSet<Labels>, always: &[&str]) -> Option<BTreeMap<Labels, String>> {
    let labels: BTreeSet<&str> = series
        .iter()
        .flat_map(BTreeMap::keys)
        .map(String::as_str)
        .collect();
    let differs = |label: &str| {
        let mut values = series.iter().map(|one| one.get(label));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    let telling: Vec<&str> = labels
        .into_iter()
        .filter(|label| always.contains(label) || differs(label))
        .collect();
    if telling.is_empty() {
        return None;
    }
    let mut taken = BTreeSet::new();
    let mut names = BTreeMap::new();
    for one in series {
        let plain = name(one, &telling);
        let mut unique = plain.clone();
        let mut n = 2_usize;
        while !taken.insert(unique.clone()) {
            unique = format!("{plain} ({n})");
            n += 1;
        }
        names.insert(one.clone(), unique);
    }
    Some(names)
}

fn name(series: &Labels, telling: &[&str]) -> String {
    let value = |label: &&str| {
        series
            .get(*label)
            .map(String::as_str)
            .filter(|v| !v.is_empty())
            .unwrap_or("-")
    };
    short_name(&telling.iter().map(value).collect::<Vec<_>>().join("/"), NAME)
}
