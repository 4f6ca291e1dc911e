//! What signals are made of, minute by minute: for the heatmap of a screen. Like samples it may be lost without losing
//! a decision; it is kept for 48 hours, and of a signal at most [`MOST_PARTS`] parts a minute.

use super::{
    Journal, Recorder, StoreError,
    samples::{MINUTE_MS, time},
};
use crate::domain::{
    Time,
    ids::Name,
    text::{one_line, short_name},
};
use rusqlite::{Connection, params};
use std::collections::HashSet;

/// So many parts of a signal are written of one reading and of one minute. Of more the worst are: half of the places
/// are for the highest numbers, then come the parts without a number, then the other numbers from the highest down.
pub const MOST_PARTS: usize = 500;

/// Characters of a name or a note; sources keep theirs shorter.
const LONGEST: usize = 200;

/// One part of a signal as one poll saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct PartPoint {
    /// What it is: `orders/clicks`.
    pub name: String,
    /// Its number in the signal's unit, or why there is none.
    pub value: Result<f64, String>,
    /// What has to be said beside its number; empty is nothing.
    pub note: String,
}

/// One minute of a part.
#[derive(Debug, Clone, PartialEq)]
pub struct PartMinute {
    /// Its name.
    pub name: String,
    /// First instant of the minute.
    pub at: Time,
    /// Its largest number in this minute; `None` if no poll gave one.
    pub max: Option<f64>,
    /// What the last poll gave; `None` if that gave none, whatever came before.
    pub last: Option<f64>,
    /// When that was.
    pub seen: Time,
    /// Polls that gave none.
    pub missing: u32,
    /// What the last poll said beside the number, or why there is none.
    pub note: String,
}

impl PartPoint {
    /// Those of one reading that are written; see [`MOST_PARTS`].
    #[must_use]
    pub fn worst(parts: Vec<Self>) -> Vec<Self> {
        let numbers: Vec<Option<f64>> = parts.iter().map(Self::number).collect();
        let kept: HashSet<usize> = worst(&numbers, MOST_PARTS).into_iter().collect();
        let each = parts.into_iter().enumerate();
        each.filter_map(|(i, part)| kept.contains(&i).then_some(part))
            .collect()
    }

    fn number(&self) -> Option<f64> {
        self.value.as_ref().ok().copied().filter(|v| v.is_finite())
    }

    fn words(&self) -> String {
        let words = match &self.value {
            Ok(value) if value.is_finite() => &self.note,
            Ok(_) => "not a finite number",
            Err(why) => why,
        };
        one_line(words, LONGEST)
    }
}

impl Recorder {
    /// Records what one poll of a signal saw of its parts, all or none. Rows that are too old at `at` are removed now
    /// and then.
    ///
    /// # Errors
    /// The store failed; this poll's parts are lost and nothing else.
    pub fn put_parts(&mut self, signal: &Name, at: Time, parts: &[PartPoint]) -> Result<(), StoreError> {
        if parts.is_empty() {
            return Ok(());
        }
        let numbers: Vec<Option<f64>> = parts.iter().map(PartPoint::number).collect();
        let kept = worst(&numbers, MOST_PARTS);
        let (ms, minute) = (at.timestamp_millis(), at.timestamp_millis().div_euclid(MINUTE_MS));
        self.in_transaction(|conn| {
            let mut put = conn.prepare_cached(
                "INSERT INTO part_minute VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?4 IS NULL, ?6)
                 ON CONFLICT DO UPDATE SET
                     max = max(coalesce(max, excluded.max), coalesce(excluded.max, max)),
                     last = CASE WHEN excluded.last_ms >= last_ms THEN excluded.last ELSE last END,
                     note = CASE WHEN excluded.last_ms >= last_ms THEN excluded.note ELSE note END,
                     last_ms = max(last_ms, excluded.last_ms),
                     missing = missing + excluded.missing",
            )?;
            for part in kept.iter().filter_map(|i| parts.get(*i)) {
                let name = short_name(&part.name, LONGEST);
                put.execute(params![
                    signal.as_str(),
                    minute,
                    name,
                    part.number(),
                    ms,
                    part.words()
                ])?;
            }
            keep_the_worst(conn, signal, minute)
        })?;
        self.prune_now_and_then(at)
    }
}

/// Polls of one minute may have seen different parts: together they are bounded, too.
fn keep_the_worst(conn: &Connection, signal: &Name, minute: i64) -> rusqlite::Result<usize> {
    let count: i64 = conn
        .prepare_cached("SELECT count(*) FROM part_minute WHERE signal = ?1 AND minute = ?2")?
        .query_row(params![signal.as_str(), minute], |row| row.get(0))?;
    if usize::try_from(count).is_ok_and(|n| n <= MOST_PARTS) {
        return Ok(0);
    }
    let rows: Vec<(String, Option<f64>)> = conn
        .prepare_cached("SELECT part, max FROM part_minute WHERE signal = ?1 AND minute = ?2 ORDER BY part")?
        .query_map(params![signal.as_str(), minute], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let numbers: Vec<Option<f64>> = rows.iter().map(|(_, max)| *max).collect();
    let kept: HashSet<usize> = worst(&numbers, MOST_PARTS).into_iter().collect();
    let mut remove =
        conn.prepare_cached("DELETE FROM part_minute WHERE signal = ?1 AND minute = ?2 AND part = ?3")?;
    let mut removed = 0;
    for (i, (part, _)) in rows.iter().enumerate() {
        if !kept.contains(&i) {
            removed += remove.execute(params![signal.as_str(), minute, part])?;
        }
    }
    Ok(removed)
}

/// Which of them are kept in so many places, by their positions. See [`MOST_PARTS`].
fn worst(numbers: &[Option<f64>], places: usize) -> Vec<usize> {
    if numbers.len() <= places {
        return (0..numbers.len()).collect();
    }
    let mut known: Vec<(usize, f64)> = numbers
        .iter()
        .enumerate()
        .filter_map(|(i, n)| Some((i, (*n)?)))
        .collect();
    known.sort_by(|a, b| b.1.total_cmp(&a.1));
    let known = known.into_iter().map(|(i, _)| i);
    let unknown = (0..numbers.len()).filter(|i| numbers.get(*i).is_some_and(Option::is_none));
    let first = places / 2;
    let order = known.clone().take(first).chain(unknown).chain(known.skip(first));
    order.take(places).collect()
}

/// Removes the parts of minutes that ended before an instant, signal by signal: each time a range of the key, never a
/// look through the table.
pub(super) fn prune(conn: &Connection, before_ms: i64) -> rusqlite::Result<usize> {
    let minute = before_ms.div_euclid(MINUTE_MS);
    let mut next = conn.prepare_cached("SELECT min(signal) FROM part_minute WHERE signal > ?1")?;
    let mut remove = conn.prepare_cached("DELETE FROM part_minute WHERE signal = ?1 AND minute < ?2")?;
    let (mut signal, mut removed) = (String::new(), 0);
    while let Some(found) = next.query_row([&signal], |row| row.get::<_, Option<String>>(0))? {
        removed += remove.execute(params![found, minute])?;
        signal = found;
    }
    Ok(removed)
}

impl Journal {
    /// The parts of a signal in the minutes from that of an instant on, the oldest minute first; of the last 48 hours.
    ///
    /// # Errors
    /// The store failed.
    pub fn part_minutes_since(&self, signal: &Name, since: Time) -> Result<Vec<PartMinute>, StoreError> {
        self.rows(
            "SELECT minute, part, max, last, last_ms, missing, note FROM part_minute
             WHERE signal = ?1 AND minute >= ?2 ORDER BY minute, part",
            (signal.as_str(), since.timestamp_millis().div_euclid(MINUTE_MS)),
            |row| {
                Ok(PartMinute {
                    at: time(row.get::<_, i64>(0)?.saturating_mul(MINUTE_MS)),
                    name: row.get(1)?,
                    max: row.get(2)?,
                    last: row.get(3)?,
                    seen: time(row.get(4)?),
                    missing: row.get(5)?,
                    note: row.get(6)?,
                })
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::worst;

    #[test]
    fn of_too_many_the_highest_stay_and_what_has_no_number_before_the_rest() {
        let numbers = [Some(1.0), None, Some(9.0), Some(5.0), None, Some(7.0)];
        assert_eq!(worst(&numbers, 4), [2, 5, 1, 4]);
        assert_eq!(worst(&numbers, 5), [2, 5, 1, 4, 3]);
        assert_eq!(worst(&numbers, 6), [0, 1, 2, 3, 4, 5]);
        assert_eq!(worst(&[None, None, None], 2), [0, 1]);
        assert_eq!(worst(&[Some(1.0), Some(3.0), Some(2.0)], 2), [1, 2]);
    }
}
