//! Snapshots: the folded state at some seq, so that opening a long journal does not fold it all. A snapshot is a
//! convenience and never the truth: whatever is wrong with one, the events are folded instead.

use super::{
    Journal,
    append::{current_epoch, head_of},
    error::{AppendError, ReadError, StoreError},
};
use crate::domain::state::{FOLD_VERSION, State};
use rusqlite::{Connection, TransactionBehavior, params};

/// A snapshot is due after this many events: folding them takes some 50 ms.
pub const SNAPSHOT_EVERY: u64 = 5_000;

/// How many snapshots are kept: the newest, and one to fall back on.
const KEPT: i64 = 2;

/// Whether the holder should write a snapshot, given the events since its last one.
pub const fn snapshot_due(events_since: u64) -> bool {
    events_since >= SNAPSHOT_EVERY
}

impl Journal {
    /// The state of the journal: the newest valid snapshot and the events after it; without one, all events.
    ///
    /// # Errors
    /// An event cannot be read or is missing, or the store failed.
    pub fn load_state(&self) -> Result<State, ReadError> {
        // One transaction, so that snapshot and events are of one moment.
        let tx = self.conn.unchecked_transaction().map_err(|e| self.failed(&e))?;
        let snapshot = newest_valid(&tx).unwrap_or_else(|error| {
            // Damaged pages may lie in the snapshots alone; if not, the events below say so.
            tracing::warn!(%error, "the snapshots cannot be read");
            None
        });
        let mut state = snapshot.unwrap_or_default();
        self.each_after(state.head, usize::MAX, |event| state.apply(&event))?;
        Ok(state)
    }

    /// The state folded from the events alone, whatever snapshots there are; for tests and for `check`.
    ///
    /// # Errors
    /// As [`Journal::load_state`].
    pub fn fold_all(&self) -> Result<State, ReadError> {
        self.fold_to(u64::MAX)
    }

    /// The state as it was right after event `seq`: any past moment.
    ///
    /// # Errors
    /// As [`Journal::load_state`].
    pub fn fold_to(&self, seq: u64) -> Result<State, ReadError> {
        let mut state = State::default();
        let limit = usize::try_from(seq).unwrap_or(usize::MAX);
        self.each_after(0, limit, |event| state.apply(&event))?;
        Ok(state)
    }

    /// Keeps a state for faster opening; only the holder of the lease does this. A state with an event that this
    /// program cannot read is not kept.
    ///
    /// # Errors
    /// Another supervisor took over, the state is not of this journal, or the store failed. Nothing was kept.
    pub fn write_snapshot(&mut self, epoch: u64, state: &State) -> Result<(), AppendError> {
        if let Some((seq, kind, version)) = &state.unreadable {
            return Err(AppendError::Observer {
                seq: *seq,
                kind: kind.clone(),
                version: *version,
            });
        }
        let body = postcard::to_stdvec(state).map_err(|e| StoreError::Io {
            path: super::error::show(&self.path),
            what: format!("the snapshot cannot be written: {e}"),
        })?;
        let path = self.path.clone();
        let failed = |e: rusqlite::Error| AppendError::Store(StoreError::of(&path, &e));
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        let current = current_epoch(&tx).map_err(failed)?;
        if current != epoch {
            return Err(AppendError::StaleEpoch { current });
        }
        let head = head_of(&tx).map_err(failed)?;
        if state.head > head || state.head == 0 {
            return Err(AppendError::Conflict { head });
        }
        store(&tx, state.head, &body).map_err(failed)?;
        tx.commit().map_err(failed)
    }
}

fn store(conn: &Connection, seq: u64, body: &[u8]) -> rusqlite::Result<()> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO snapshot(seq, fold_version, checksum, body) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![seq as i64, FOLD_VERSION, checksum(seq, body), body])?;
    conn.prepare_cached(
        "DELETE FROM snapshot WHERE seq NOT IN (SELECT seq FROM snapshot ORDER BY seq DESC LIMIT ?1)",
    )?
    .execute([KEPT])?;
    Ok(())
}

/// Covers the seq too: a body under another seq would skip or repeat events.
fn checksum(seq: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&seq.to_le_bytes());
    hasher.update(&FOLD_VERSION.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

/// The newest snapshot in which nothing is wrong.
fn newest_valid(conn: &Connection) -> rusqlite::Result<Option<State>> {
    let head = head_of(conn)?;
    let mut statement = conn.prepare_cached(
        "SELECT seq, checksum, body FROM snapshot WHERE fold_version = ?1 AND seq <= ?2 ORDER BY seq DESC",
    )?;
    let mut rows = statement.query(params![FOLD_VERSION, head as i64])?;
    while let Some(row) = rows.next()? {
        let seq = row.get::<_, i64>(0)?.unsigned_abs();
        let sum: u32 = row.get(1)?;
        let valid = row
            .get_ref(2)?
            .as_blob()
            .ok()
            .filter(|body| checksum(seq, body) == sum)
            .and_then(|body| postcard::from_bytes::<State>(body).ok())
            .filter(|state| state.head == seq);
        if let Some(mut state) = valid {
            state.restore();
            return Ok(Some(state));
        }
        tracing::warn!(seq, "a damaged snapshot is not used");
    }
    Ok(None)
}
