//! What a signal is made of over the window that the charts show, taken in minute by minute.

use crate::{
    domain::{Time, ids::Name},
    journal::{Journal, PartMinute},
};
use chrono::{DateTime, Duration};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// One minute of a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PartCell {
    /// Its first instant.
    pub at: Time,
    /// When it was last polled in it.
    pub seen: Time,
    /// The largest number, in the signal's unit; `None` if no poll gave one.
    pub max: Option<f64>,
    /// What the last poll gave.
    pub last: Option<f64>,
}

/// A part over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PartView {
    /// What has to be said beside its newest number, or why there is none.
    pub note: String,
    /// Its minutes, oldest first. A minute in which it was not seen is not there.
    pub cells: VecDeque<PartCell>,
}

/// Everything that one signal is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct PartsView {
    /// The signal.
    pub signal: Name,
    /// Its parts by name.
    pub parts: BTreeMap<String, PartView>,
    /// How many it had at the last poll, where that is more than are recorded; `None`: all are here.
    pub of: Option<u64>,
}

impl PartsView {
    /// Of a signal of which nothing is known yet.
    pub const fn new(signal: Name) -> Self {
        Self {
            signal,
            parts: BTreeMap::new(),
            of: None,
        }
    }

    /// Takes minutes in, the oldest first; one that is known already is replaced. What ended before `from` goes, and
    /// with it the parts of which nothing is left. Returns whether anything changed.
    pub fn take_in(&mut self, minutes: Vec<PartMinute>, from: Time) -> bool {
        let mut changed = false;
        for minute in minutes {
            changed |= self.put(minute);
        }
        for part in self.parts.values_mut() {
            while part
                .cells
                .front()
                .is_some_and(|cell| cell.at + Duration::minutes(1) <= from)
            {
                part.cells.pop_front();
                changed = true;
            }
        }
        self.parts.retain(|_, part| !part.cells.is_empty());
        changed
    }

    fn put(&mut self, minute: PartMinute) -> bool {
        let cell = PartCell {
            at: minute.at,
            seen: minute.seen,
            max: minute.max,
            last: minute.last,
        };
        let part = self.parts.entry(minute.name).or_default();
        let place = part.cells.iter().rposition(|known| known.at <= cell.at);
        match place.and_then(|i| Some((i, part.cells.get(i)?.at))) {
            Some((i, at)) if at == cell.at => {
                // Only the newest minute's note is kept.
                let is_older = i + 1 < part.cells.len();
                if part.cells.get(i) == Some(&cell) && (is_older || part.note == minute.note) {
                    return false;
                }
                if let Some(known) = part.cells.get_mut(i) {
                    *known = cell;
                }
            }
            Some((i, _)) => part.cells.insert(i + 1, cell),
            None => part.cells.push_front(cell),
        }
        if part.cells.back().is_some_and(|newest| newest.at == cell.at) {
            part.note = minute.note;
        }
        true
    }

    fn newest(&self) -> Option<Time> {
        let newest = self.parts.values().filter_map(|part| part.cells.back());
        newest.map(|cell| cell.at).max()
    }
}

/// What was read so far of the signal that is on the screen.
#[derive(Debug, Default)]
pub(super) struct PartsLog(Option<Arc<PartsView>>);

impl PartsLog {
    /// Reads what is new of a signal's parts; of another signal than before, everything of the window. With no signal
    /// on the screen nothing is read, and what was known is forgotten.
    pub fn look(
        &mut self,
        journal: &Journal,
        signal: Option<&Name>,
        now: Time,
        window: Duration,
    ) -> Option<Arc<PartsView>> {
        let Some(signal) = signal else {
            self.0 = None;
            return None;
        };
        let mut known = match self.0.take() {
            Some(known) if known.signal == *signal => known,
            _ => Arc::new(PartsView::new(signal.clone())),
        };
        let begin = now - window;
        // The minute before the newest one may have got a late poll.
        let newest = known.newest().map(|at| at - Duration::minutes(1));
        let from = newest.map_or(begin, |at| at.max(begin));
        let from = from.max(DateTime::UNIX_EPOCH);
        let minutes = journal.part_minutes_since(signal, from).unwrap_or_default();
        let mut next = (*known).clone();
        next.of = how_many(journal, signal);
        if next.take_in(minutes, begin) || next.of != known.of {
            known = Arc::new(next);
        }
        self.0 = Some(known.clone());
        Some(known)
    }
}

/// How many parts the supervisor last saw of a signal, where it records only the worst of them.
fn how_many(journal: &Journal, signal: &Name) -> Option<u64> {
    let seen = journal.observations("signal").unwrap_or_default();
    let json = seen.into_iter().find(|o| o.key == signal.as_str())?.json;
    serde_json::from_str::<serde_json::Value>(&json)
        .ok()?
        .get("parts")?
        .as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        DateTime::from_timestamp(60_000 + seconds, 0).unwrap()
    }

    fn minute(name: &str, minute: i64, max: f64) -> PartMinute {
        PartMinute {
            name: name.to_owned(),
            at: at(60 * minute),
            max: Some(max),
            last: Some(max),
            seen: at(60 * minute + 30),
            missing: 0,
            note: format!("{name} {minute}"),
        }
    }

    fn maxima(view: &PartsView, part: &str) -> Vec<f64> {
        view.parts[part].cells.iter().filter_map(|c| c.max).collect()
    }

    #[test]
    fn minutes_are_taken_in_once_replaced_when_they_grew_and_forgotten_when_they_are_old() {
        let mut view = PartsView::new("lag".parse().unwrap());
        let first = vec![minute("a", 0, 1.0), minute("b", 0, 2.0), minute("a", 1, 3.0)];
        assert!(view.take_in(first.clone(), at(0)));
        assert!(!view.take_in(first, at(0)), "nothing of it is new");
        assert!(view.take_in(vec![minute("a", 1, 9.0), minute("a", 2, 4.0)], at(0)));
        assert_eq!(maxima(&view, "a"), [1.0, 9.0, 4.0]);
        assert_eq!(view.parts["a"].note, "a 2");
        assert!(view.take_in(Vec::new(), at(60)));
        assert_eq!(maxima(&view, "a"), [9.0, 4.0]);
        assert!(!view.parts.contains_key("b"), "nothing is left of it");
    }
}
