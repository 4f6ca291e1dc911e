//! Appending: all of a call's events become durable together, or none, and only if nothing came between.

use super::{
    Journal, ballast,
    error::{AppendError, StoreError},
};
use crate::domain::{
    Time,
    event::{Event, NewEvent, Payload, Read},
};
use chrono::DateTime;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

/// An event made ready outside the transaction, so that the lock is held only for writing.
struct Row<'a> {
    event: &'a NewEvent,
    kind: &'static str,
    version: u16,
    attempt: Option<String>,
    payload: String,
}

/// The event as reading the journal gives it back: the time is kept in whole milliseconds. Folding what this gives
/// makes the same state as reading it again does.
pub fn as_stored(event: &NewEvent, seq: u64) -> Event {
    Event {
        seq,
        at: whole_millis(event.at),
        actor: event.actor.clone(),
        reason: event.reason.clone(),
        backfill: event.backfill.clone(),
        payload: Read::Known(event.payload.clone()),
    }
}

fn whole_millis(at: Time) -> Time {
    DateTime::from_timestamp_millis(at.timestamp_millis()).unwrap_or(at)
}

impl Journal {
    /// Appends events in one transaction that is on the disk when this returns, and gives their seqs. An empty
    /// slice appends nothing and still checks head and epoch.
    ///
    /// `expected_head` is the seq up to which the caller has folded; `None` is for commands that only reduce work.
    /// `epoch` is the supervisor's; operators have none. A command without head and epoch that meets a full disk
    /// releases the ballast and is tried once more.
    ///
    /// # Errors
    /// Nothing was appended, and why.
    pub fn append(
        &mut self,
        expected_head: Option<u64>,
        epoch: Option<u64>,
        events: &[NewEvent],
    ) -> Result<Vec<u64>, AppendError> {
        let rows = self.prepared(events)?;
        let reduces = expected_head.is_none() && epoch.is_none();
        match self.append_rows(expected_head, epoch, &rows) {
            Err(error) if error.is_full() && reduces && ballast::release(&self.path) => {
                self.append_rows(expected_head, epoch, &rows)
            }
            other => other,
        }
    }

    fn prepared<'a>(&self, events: &'a [NewEvent]) -> Result<Vec<Row<'a>>, StoreError> {
        let row = |event: &'a NewEvent| {
            let (kind, version) = event.payload.kind();
            let payload = serde_json::to_string(&event.payload).map_err(|e| StoreError::Io {
                path: super::error::show(&self.path),
                what: format!("a {kind} event cannot be written: {e}"),
            })?;
            Ok(Row {
                event,
                kind,
                version,
                attempt: event.payload.attempt().map(ToString::to_string),
                payload,
            })
        };
        events.iter().map(row).collect()
    }

    fn append_rows(
        &mut self,
        expected_head: Option<u64>,
        epoch: Option<u64>,
        rows: &[Row<'_>],
    ) -> Result<Vec<u64>, AppendError> {
        self.check_in_place()?;
        let path = self.path.clone();
        let failed = |e: rusqlite::Error| AppendError::Store(StoreError::of(&path, &e));
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        if let Some(epoch) = epoch {
            let current = current_epoch(&tx).map_err(failed)?;
            if current != epoch {
                return Err(AppendError::StaleEpoch { current });
            }
        }
        let head = head_of(&tx).map_err(failed)?;
        if expected_head.is_some_and(|expected| expected != head) {
            return Err(AppendError::Conflict { head });
        }
        self.kinds_checked = match look_for_unknown_kinds(&tx, self.kinds_checked).map_err(failed)? {
            Ok(checked) => checked,
            Err((seq, kind, version)) => return Err(AppendError::Observer { seq, kind, version }),
        };
        let mut seqs = Vec::with_capacity(rows.len());
        for row in rows {
            let seq = head + 1 + seqs.len() as u64;
            insert(&tx, seq, epoch, row).map_err(failed)?;
            if !self.kinds_noted.contains(&(row.kind, row.version)) {
                tx.prepare_cached("INSERT OR IGNORE INTO kind(name, v, first) VALUES (?1, ?2, ?3)")
                    .and_then(|mut s| s.execute(params![row.kind, row.version, seq as i64]))
                    .map_err(failed)?;
            }
            seqs.push(seq);
        }
        tx.commit().map_err(failed)?;
        self.kinds_noted.extend(rows.iter().map(|r| (r.kind, r.version)));
        Ok(seqs)
    }
}

fn insert(conn: &Connection, seq: u64, epoch: Option<u64>, row: &Row<'_>) -> rusqlite::Result<usize> {
    let event = row.event;
    conn.prepare_cached(
        "INSERT INTO event(seq, at_ms, epoch, backfill, attempt, kind, v, actor, origin, reason, payload)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        seq as i64,
        event.at.timestamp_millis(),
        epoch.map(|e| e as i64),
        event.backfill.as_ref().map(|b| b.as_str()),
        row.attempt,
        row.kind,
        row.version,
        event.actor.name,
        event.actor.origin,
        event.reason,
        row.payload,
    ])
}

/// Seq of the newest event; 0 in an empty journal.
pub(super) fn head_of(conn: &Connection) -> rusqlite::Result<u64> {
    conn.prepare_cached("SELECT seq FROM event ORDER BY seq DESC LIMIT 1")?
        .query_row([], |row| row.get::<_, i64>(0))
        .optional()
        .map(|seq| seq.unwrap_or(0).unsigned_abs())
}

/// The lease's epoch now; 0 before anybody ever supervised.
pub(super) fn current_epoch(conn: &Connection) -> rusqlite::Result<u64> {
    conn.prepare_cached("SELECT epoch FROM lease WHERE id = 1")?
        .query_row([], |row| row.get::<_, i64>(0))
        .map(i64::unsigned_abs)
}

/// A kind or version that this program cannot read, with the seq of its first event.
type UnknownKind = (u64, String, u16);

/// Looks at the kinds that were noted after row `checked`; gives the newest row looked at.
pub(super) fn look_for_unknown_kinds(
    conn: &Connection,
    checked: i64,
) -> rusqlite::Result<Result<i64, UnknownKind>> {
    let mut statement =
        conn.prepare_cached("SELECT id, name, v, first FROM kind WHERE id > ?1 ORDER BY id")?;
    let mut rows = statement.query([checked])?;
    let mut newest = checked;
    while let Some(row) = rows.next()? {
        let (id, name, version): (i64, String, u16) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if Payload::known_version(&name).is_none_or(|known| version > known) {
            return Ok(Err((row.get::<_, i64>(3)?.unsigned_abs(), name, version)));
        }
        newest = id;
    }
    Ok(Ok(newest))
}
