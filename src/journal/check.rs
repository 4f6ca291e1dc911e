//! The shim's question to the journal: is this attempt still wanted by the supervisor that sent it?
//!
//! Asked once for each attempt by a process of its own, so it opens the file for reading only, runs no migration and
//! touches two rows.

use crate::domain::ids::AttemptId;
use rusqlite::{Connection, OpenFlags};
use std::{path::Path, time::Duration};

/// How long a writer may keep the question waiting.
const BUSY: Duration = Duration::from_secs(3);

/// Whether the attempt may start now: its newest event is its intent, and the lease still carries `epoch`.
///
/// # Errors
/// It may not, or the journal cannot be read; in words. Both mean that nothing may run.
pub fn check_attempt(path: &Path, attempt: &AttemptId, epoch: u64) -> Result<(), String> {
    let unreadable = |e: rusqlite::Error| format!("the journal cannot be read: {e}");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(unreadable)?;
    db.busy_timeout(BUSY).map_err(unreadable)?;
    // One statement reads both rows from one snapshot.
    let (kind, current): (Option<String>, Option<i64>) = db
        .query_row(
            "SELECT (SELECT kind FROM events WHERE attempt = ?1 ORDER BY seq DESC LIMIT 1), \
             (SELECT epoch FROM lease LIMIT 1)",
            [attempt.to_string()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .map_err(unreadable)?;
    match current {
        Some(now) if u64::try_from(now) == Ok(epoch) => {}
        Some(now) => {
            return Err(format!(
                "another supervisor has taken over (epoch {now}, this was {epoch})"
            ));
        }
        None => return Err("nobody holds the journal's lease".to_owned()),
    }
    match kind.as_deref() {
        Some("submission-intended") => Ok(()),
        Some(other) => Err(format!(
            "the journal went on without this attempt: its last event is `{other}`"
        )),
        None => Err("the journal does not know this attempt".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(dir: &Path, epoch: i64) -> (std::path::PathBuf, Connection) {
        let path = dir.join("journal.sqlite");
        let db = Connection::open(&path).unwrap();
        db.execute_batch(
            "PRAGMA journal_mode = WAL;
             CREATE TABLE events(seq INTEGER PRIMARY KEY, at_ms, epoch, backfill, attempt, kind, v, actor, origin, reason, payload);
             CREATE INDEX events_attempt ON events(attempt);
             CREATE TABLE lease(epoch);",
        )
        .unwrap();
        db.execute("INSERT INTO lease(epoch) VALUES (?1)", [epoch])
            .unwrap();
        (path, db)
    }

    fn append(db: &Connection, attempt: &AttemptId, kind: &str) {
        db.execute(
            "INSERT INTO events(attempt, kind) VALUES (?1, ?2)",
            [attempt.to_string().as_str(), kind],
        )
        .unwrap();
    }

    fn attempt(no: u32) -> AttemptId {
        format!("orders-k3f7qa/2023-11-24/{no}").parse().unwrap()
    }

    #[test]
    fn an_attempt_is_wanted_while_its_intent_is_the_last_word_about_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, db) = journal(dir.path(), 3);
        assert!(
            check_attempt(&path, &attempt(1), 3)
                .unwrap_err()
                .contains("does not know")
        );
        append(&db, &attempt(1), "submission-intended");
        append(&db, &attempt(2), "submission-intended");
        append(&db, &attempt(2), "submission-withdrawn");
        assert_eq!(check_attempt(&path, &attempt(1), 3), Ok(()));
        assert!(
            check_attempt(&path, &attempt(2), 3)
                .unwrap_err()
                .contains("submission-withdrawn")
        );
    }

    #[test]
    fn an_older_epoch_or_a_missing_lease_starts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (path, db) = journal(dir.path(), 4);
        append(&db, &attempt(1), "submission-intended");
        assert!(
            check_attempt(&path, &attempt(1), 3)
                .unwrap_err()
                .contains("taken over")
        );
        db.execute("DELETE FROM lease", []).unwrap();
        assert!(
            check_attempt(&path, &attempt(1), 4)
                .unwrap_err()
                .contains("nobody holds")
        );
    }

    #[test]
    fn a_journal_that_cannot_be_read_starts_nothing_and_is_not_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("absent.sqlite");
        assert!(check_attempt(&path, &attempt(1), 1).is_err());
        assert!(!path.exists());
    }
}
