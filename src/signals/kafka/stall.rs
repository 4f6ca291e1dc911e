//! What is remembered of earlier reads: whether a group moves, and whether a topic is still the one that it was. Pure:
//! the time is given.

use super::lag::{Commit, Found, Group, Place, Tables, Topic};
use std::{collections::BTreeMap, time::Duration};

/// Earlier reads of one signal.
#[derive(Debug, Default)]
pub(super) struct Memory {
    groups: BTreeMap<String, Stand>,
    ids: BTreeMap<String, [u8; 16]>,
    ends: BTreeMap<Place, i64>,
    /// Why commits are past the end, found out when they became so. Later the traces are gone.
    past: BTreeMap<(String, Place), (i64, Past)>,
}

/// A group at the last read that found it moved.
#[derive(Debug)]
struct Stand {
    since: Duration,
    commits: BTreeMap<Place, i64>,
    behind: u128,
    ends: BTreeMap<Place, i64>,
}

/// Why a commit is past the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    Recreated,
    Set,
    Either,
}

impl Past {
    const fn words(self) -> &'static str {
        match self {
            Self::Recreated => "the topic was recreated or cut, the commit is of the old one",
            Self::Set => "the offset was set past the end",
            Self::Either => "the topic was recreated, or the offset was set past the end",
        }
    }
}

impl Memory {
    /// How long a group with lag has stood still, if that is at least `after`. It moves while any commit changes or
    /// its distance to the ends becomes smaller. A rest of not more than one message a partition, with nothing new
    /// behind it, is what transactions leave for ever: their markers count and nobody reads them.
    pub(super) fn stalled(
        &mut self,
        group: &Group,
        places: &BTreeMap<Place, Found>,
        after: Duration,
        now: Duration,
    ) -> Option<Duration> {
        // What is not known now says nothing: neither that it moved nor that it did not.
        if places
            .values()
            .any(|f| matches!(f, Found::Unknown(_) | Found::Past(_)))
        {
            return None;
        }
        let mut commits = BTreeMap::new();
        let mut ends = BTreeMap::new();
        let mut behind: u128 = 0;
        for (place, found) in places {
            let (
                Found::Behind {
                    messages, lost, end, ..
                },
                Some(Commit::At { offset, .. }),
            ) = (found, group.commits.get(place))
            else {
                continue;
            };
            commits.insert(place.clone(), *offset);
            ends.insert(place.clone(), *end);
            // From the commit and not from the start: retention is no consumer.
            behind += u128::from(*messages) + u128::from(*lost);
        }
        let rest = commits.len() as u128;
        let stand = self.groups.get(&group.name).filter(|then| {
            // Whoever had nothing to do and has something now has only just been given it.
            let given = then.behind <= rest && then.ends != ends;
            then.commits == commits && behind >= then.behind && !given
        });
        let Some(then) = stand else {
            let stand = Stand {
                since: now,
                commits,
                behind,
                ends,
            };
            self.groups.insert(group.name.clone(), stand);
            return None;
        };
        let still = now.saturating_sub(then.since);
        (behind > rest && still >= after).then_some(still)
    }

    /// Why a commit is past the end, as far as can be told.
    pub(super) fn past_the_end(
        &mut self,
        group: &str,
        place: &Place,
        commit: i64,
        end: i64,
        older_epoch: bool,
        tables: &Tables,
    ) -> &'static str {
        let key = (group.to_owned(), place.clone());
        if let Some((_, past)) = self
            .past
            .get(&key)
            .filter(|(before, past)| *before == commit && *past != Past::Either)
        {
            return past.words();
        }
        let id = match tables.topics.get(&place.topic) {
            Some(Topic::There { id, .. }) => *id,
            _ => None,
        };
        let before = (self.ids.get(&place.topic), self.ends.get(place));
        let past = match before {
            _ if older_epoch => Past::Recreated,
            (Some(old), _) if id.is_some_and(|id| id != *old) => Past::Recreated,
            (_, Some(old)) if *old > end => Past::Recreated,
            // The same topic, no shorter than it was, and the commit has never been in it.
            (Some(_), Some(old)) if commit > *old && id.is_some() && self.was_within(group, place) => {
                Past::Set
            }
            _ => Past::Either,
        };
        self.past.insert(key, (commit, past));
        past.words()
    }

    /// Whether this group's commit was within the partition at an earlier read.
    fn was_within(&self, group: &str, place: &Place) -> bool {
        self.groups
            .get(group)
            .is_some_and(|stand| stand.commits.contains_key(place))
    }

    /// Keeps what the next read is compared with.
    pub(super) fn keep(&mut self, tables: &Tables) {
        for (name, topic) in &tables.topics {
            match topic {
                Topic::There { id: Some(id), .. } => drop(self.ids.insert(name.clone(), *id)),
                Topic::There { id: None, .. } | Topic::Unknown(_) => {}
                // Nothing is remembered of what is gone.
                Topic::Gone => {
                    self.ends.retain(|place, _| place.topic != *name);
                    self.past.retain(|(_, place), _| place.topic != *name);
                }
            }
        }
        for (place, log) in &tables.logs {
            if let Ok(log) = log {
                self.ends.insert(place.clone(), log.end);
            }
        }
    }
}
