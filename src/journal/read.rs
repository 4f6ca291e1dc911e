//! Reading events. Every read is one short statement, so that no reader ever keeps the journal from being written.

use super::{
    Journal, append,
    error::{ReadError, StoreError},
};
use crate::domain::{
    event::{Actor, DecodeError, Event, Payload, Read},
    ids::BackfillId,
};
use chrono::DateTime;
use rusqlite::{Row, types::ValueRef};

/// Which events a listing shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// All of them.
    All,
    /// Those about one backfill.
    Backfill(&'a BackfillId),
    /// Those about one backfill and those about the journal as a whole: leases, blind signals, configuration.
    BackfillAndJournal(&'a BackfillId),
}

const COLUMNS: &str = "seq, at_ms, backfill, kind, v, actor, origin, reason, payload";

impl Journal {
    /// Seq of the newest event; 0 in an empty journal.
    ///
    /// # Errors
    /// The store failed.
    pub fn head(&self) -> Result<u64, StoreError> {
        append::head_of(&self.conn).map_err(|e| self.failed(&e))
    }

    /// At most `limit` events after `seq`, oldest first. Gives what is before a damaged event; a call that would
    /// begin with it fails. Unknown kinds and newer versions are no damage but [`Read::Unknown`].
    ///
    /// # Errors
    /// The next event cannot be read or is missing, or the store failed.
    pub fn read_after(&self, seq: u64, limit: usize) -> Result<Vec<Event>, ReadError> {
        let mut events = Vec::new();
        let read = self.each_after(seq, limit, |event| events.push(event));
        match read {
            Err(error) if events.is_empty() => Err(error),
            _ => Ok(events),
        }
    }

    /// Gives the events after `seq` one by one, oldest first, and stops at the first that is damaged or missing.
    pub(super) fn each_after(
        &self,
        seq: u64,
        limit: usize,
        mut take: impl FnMut(Event),
    ) -> Result<(), ReadError> {
        let failed = |e: rusqlite::Error| self.failed(&e);
        let sql = format!("SELECT {COLUMNS} FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?2");
        let mut statement = self.conn.prepare_cached(&sql).map_err(failed)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut rows = statement
            .query([i64::try_from(seq).unwrap_or(i64::MAX), limit])
            .map_err(failed)?;
        let mut last = seq;
        while let Some(row) = rows.next().map_err(failed)? {
            let event = self.event_of(row)?;
            if event.seq != last + 1 {
                return Err(ReadError::Gap {
                    after: last,
                    found: event.seq,
                });
            }
            last = event.seq;
            take(event);
        }
        Ok(())
    }

    /// At most `limit` events of a listing after `seq`, oldest first.
    ///
    /// # Errors
    /// An event cannot be read, or the store failed.
    pub fn events_of(&self, scope: Scope<'_>, seq: u64, limit: usize) -> Result<Vec<Event>, ReadError> {
        self.listing(scope, "seq > ?1", "ASC", seq, limit)
    }

    /// The newest events of a listing, at most `limit`, oldest first.
    ///
    /// # Errors
    /// An event cannot be read, or the store failed.
    pub fn newest_of(&self, scope: Scope<'_>, limit: usize) -> Result<Vec<Event>, ReadError> {
        self.before(scope, u64::MAX, limit)
    }

    /// The events of a listing just before `seq`, at most `limit`, oldest first: for scrolling back.
    ///
    /// # Errors
    /// An event cannot be read, or the store failed.
    pub fn before(&self, scope: Scope<'_>, seq: u64, limit: usize) -> Result<Vec<Event>, ReadError> {
        let mut events = self.listing(scope, "seq < ?1", "DESC", seq, limit)?;
        events.reverse();
        Ok(events)
    }

    fn listing(
        &self,
        scope: Scope<'_>,
        bound: &str,
        order: &str,
        seq: u64,
        limit: usize,
    ) -> Result<Vec<Event>, ReadError> {
        // With two places to look in, each is read in its own order, because one query over both would sort all.
        let (places, backfill): (&[&str], _) = match scope {
            Scope::All => (&["?3 IS NULL"], None),
            Scope::Backfill(id) => (&["backfill = ?3"], Some(id)),
            Scope::BackfillAndJournal(id) => (
                &["backfill = ?3", "backfill IS NULL AND ?3 IS NOT NULL"],
                Some(id),
            ),
        };
        let failed = |e: rusqlite::Error| self.failed(&e);
        let mut events = Vec::new();
        for place in places {
            let sql = format!(
                "SELECT {COLUMNS} FROM event WHERE {bound} AND {place} ORDER BY seq {order} LIMIT ?2"
            );
            let mut statement = self.conn.prepare_cached(&sql).map_err(failed)?;
            let (seq, limit) = (
                i64::try_from(seq).unwrap_or(i64::MAX),
                i64::try_from(limit).unwrap_or(i64::MAX),
            );
            let mut rows = statement
                .query((seq, limit, backfill.map(BackfillId::as_str)))
                .map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                events.push(self.event_of(row)?);
            }
        }
        if order == "ASC" {
            events.sort_by_key(|e| e.seq);
        } else {
            events.sort_by_key(|e| std::cmp::Reverse(e.seq));
        }
        events.truncate(limit);
        Ok(events)
    }

    /// An event out of a row of [`COLUMNS`].
    fn event_of(&self, row: &Row<'_>) -> Result<Event, ReadError> {
        let failed = |e: rusqlite::Error| self.failed(&e);
        let seq = row.get::<_, i64>(0).map_err(failed)?.unsigned_abs();
        let text = |column: usize| -> Result<&str, ReadError> {
            let value = row.get_ref(column).map_err(failed)?;
            value.as_str().map_err(|e| {
                ReadError::Event(DecodeError {
                    seq,
                    kind: "an event".to_owned(),
                    version: 0,
                    error: e.to_string(),
                })
            })
        };
        let kind = text(3)?;
        let version: u16 = row.get(4).map_err(failed)?;
        let damaged = |error: String| {
            ReadError::Event(DecodeError {
                seq,
                kind: kind.to_owned(),
                version,
                error,
            })
        };
        let payload = Payload::decode(seq, kind, version, text(8)?)?;
        let at_ms: i64 = row.get(1).map_err(failed)?;
        let at = DateTime::from_timestamp_millis(at_ms)
            .ok_or_else(|| damaged(format!("its time {at_ms} is none")))?;
        let backfill = match (row.get_ref(2).map_err(failed)?, &payload) {
            (ValueRef::Null, _) => None,
            // What a newer program calls a backfill need not be one for us.
            (_, Read::Unknown { .. }) => text(2)?.parse().ok(),
            (_, Read::Known(_)) => Some(text(2)?.parse().map_err(|e| damaged(format!("{e}")))?),
        };
        let reason = match row.get_ref(7).map_err(failed)? {
            ValueRef::Null => None,
            _ => Some(text(7)?.to_owned()),
        };
        Ok(Event {
            seq,
            at,
            actor: Actor {
                name: text(5)?.to_owned(),
                origin: text(6)?.to_owned(),
            },
            reason,
            backfill,
            payload,
        })
    }
}
