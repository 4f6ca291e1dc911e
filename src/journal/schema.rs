//! The tables, their versions, and how a connection is set up.

use super::error::{BUSY_WAIT, OpenError, StoreError, show};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::{path::Path, time::Instant};

/// Marks the file as a journal of this program ("BFLJ").
const APPLICATION: i32 = 0x4246_4c4a;

/// The steps from an empty file to the newest format. A step that was released is never edited.
const MIGRATIONS: &[&str] = &[V1, V2];

const V1: &str = "
CREATE TABLE event(
    seq      INTEGER PRIMARY KEY,
    at_ms    INTEGER NOT NULL,
    epoch    INTEGER,
    backfill TEXT,
    attempt  TEXT,
    kind     TEXT NOT NULL,
    v        INTEGER NOT NULL,
    actor    TEXT NOT NULL,
    origin   TEXT NOT NULL,
    reason   TEXT,
    payload  TEXT NOT NULL
) STRICT;
CREATE INDEX event_by_backfill ON event(backfill);
CREATE INDEX event_by_attempt ON event(attempt) WHERE attempt IS NOT NULL;
CREATE INDEX event_that_ends ON event(backfill)
    WHERE kind IN ('resolved', 'stop-requested', 'cancel-requested');
CREATE TRIGGER event_is_never_changed BEFORE UPDATE ON event
    BEGIN SELECT RAISE(ABORT, 'events are never rewritten'); END;
CREATE TRIGGER event_is_never_removed BEFORE DELETE ON event
    BEGIN SELECT RAISE(ABORT, 'events are never removed'); END;

-- Every kind and version that was ever appended: an older program sees in one look that it may only watch.
CREATE TABLE kind(
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL,
    v     INTEGER NOT NULL,
    first INTEGER NOT NULL,
    UNIQUE(name, v)
) STRICT;

-- One row for ever. No host: nobody has held it since its last release.
CREATE TABLE lease(
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    epoch   INTEGER NOT NULL,
    host    TEXT,
    boot_id TEXT,
    pid     INTEGER,
    start   INTEGER,
    renewed INTEGER,
    expires INTEGER,
    token   INTEGER,
    CHECK ((host IS NULL) = (boot_id IS NULL) AND (host IS NULL) = (pid IS NULL) AND (host IS NULL) = (start IS NULL)
       AND (host IS NULL) = (renewed IS NULL) AND (host IS NULL) = (expires IS NULL) AND (host IS NULL) = (token IS NULL))
) STRICT;
INSERT INTO lease(id, epoch) VALUES (1, 0);

CREATE TABLE snapshot(
    seq          INTEGER PRIMARY KEY,
    fold_version INTEGER NOT NULL,
    checksum     INTEGER NOT NULL,
    body         BLOB NOT NULL
) STRICT;

CREATE TABLE sample(
    signal TEXT NOT NULL,
    at_ms  INTEGER NOT NULL,
    value  REAL,
    reason TEXT,
    age_ms INTEGER,
    PRIMARY KEY(signal, at_ms),
    CHECK ((value IS NULL) <> (reason IS NULL))
) STRICT, WITHOUT ROWID;
CREATE TABLE sample_minute(
    signal  TEXT NOT NULL,
    minute  INTEGER NOT NULL,
    min     REAL,
    max     REAL,
    last    REAL,
    last_ms INTEGER NOT NULL,
    valid   INTEGER NOT NULL,
    missing INTEGER NOT NULL,
    PRIMARY KEY(signal, minute)
) STRICT, WITHOUT ROWID;
CREATE TABLE limits(
    backfill TEXT NOT NULL,
    at_ms    INTEGER NOT NULL,
    allowed  INTEGER NOT NULL,
    running  INTEGER NOT NULL,
    PRIMARY KEY(backfill, at_ms)
) STRICT, WITHOUT ROWID;
CREATE TABLE limit_minute(
    backfill TEXT NOT NULL,
    minute   INTEGER NOT NULL,
    min      INTEGER NOT NULL,
    max      INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    running  INTEGER NOT NULL,
    last_ms  INTEGER NOT NULL,
    PRIMARY KEY(backfill, minute)
) STRICT, WITHOUT ROWID;
CREATE TABLE checkpoint(
    backfill TEXT PRIMARY KEY,
    at_ms    INTEGER NOT NULL,
    json     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE observation(
    kind  TEXT NOT NULL,
    key   TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    json  TEXT NOT NULL,
    PRIMARY KEY(kind, key)
) STRICT, WITHOUT ROWID;
";

/// What signals are made of, minute by minute.
const V2: &str = "
CREATE TABLE part_minute(
    signal  TEXT NOT NULL,
    minute  INTEGER NOT NULL,
    part    TEXT NOT NULL,
    max     REAL,
    last    REAL,
    last_ms INTEGER NOT NULL,
    missing INTEGER NOT NULL,
    note    TEXT NOT NULL,
    PRIMARY KEY(signal, minute, part)
) STRICT, WITHOUT ROWID;
";

/// How far a connection's commits reach before they return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// Onto the disk: events and the lease.
    Full,
    /// Into the file, safe against a crash of the process but not of the machine: samples.
    Normal,
}

/// Opens an existing file for writing and brings it to the newest format.
pub(super) fn connect(path: &Path, durability: Durability) -> Result<Connection, OpenError> {
    let failed = |e: rusqlite::Error| OpenError::Store(StoreError::of(path, &e));
    let mut conn = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(failed)?;
    check_identity(&conn, path)?;
    enter_wal(&conn, path)?;
    let level = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    conn.pragma_update(None, "synchronous", level).map_err(failed)?;
    conn.pragma_update(None, "journal_size_limit", 16 * 1024 * 1024)
        .map_err(failed)?;
    // Only macOS listens to this: there a plain fsync does not reach the disk.
    conn.pragma_update(None, "fullfsync", durability == Durability::Full)
        .map_err(failed)?;
    migrate(&mut conn, path, MIGRATIONS)?;
    Ok(conn)
}

/// Opens an existing file for reading only; its format must be the newest.
pub(super) fn connect_read_only(path: &Path) -> Result<Connection, OpenError> {
    let failed = |e: rusqlite::Error| OpenError::Store(StoreError::of(path, &e));
    let conn = open(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
    check_identity(&conn, path)?;
    let (found, known) = (format_of(&conn).map_err(failed)?, MIGRATIONS.len() as u32);
    match found {
        // Another process has made the file and not yet its tables: the same as no journal.
        0 => Err(OpenError::Missing { path: show(path) }),
        _ if found < known => Err(OpenError::Older {
            path: show(path),
            found,
        }),
        _ => Ok(conn),
    }
}

/// A connection with nothing checked, for the shim, which is started once for each attempt.
pub(super) fn open(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY_WAIT)?;
    conn.set_prepared_statement_cache_capacity(48);
    conn.execute_batch(
        "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;",
    )?;
    Ok(conn)
}

fn format_of(conn: &Connection) -> rusqlite::Result<u32> {
    conn.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// A journal of ours, or an empty file; everything else is left alone.
fn check_identity(conn: &Connection, path: &Path) -> Result<(), OpenError> {
    let look = || -> rusqlite::Result<(i32, i64, u32)> {
        // One transaction: another process may be making the tables right now.
        let tx = conn.unchecked_transaction()?;
        let tables = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        let application = tx.pragma_query_value(None, "application_id", |row| row.get(0))?;
        Ok((application, tables, format_of(&tx)?))
    };
    let (application, tables, found) = look().map_err(|e| StoreError::of(path, &e))?;
    if application != APPLICATION && (application != 0 || tables > 0) {
        return Err(OpenError::Foreign { path: show(path) });
    }
    let known = MIGRATIONS.len() as u32;
    if found > known {
        return Err(OpenError::Newer {
            path: show(path),
            found,
            known,
        });
    }
    Ok(())
}

/// Switches the file to write-ahead logging. SQLite does not wait for others at this switch, so we do.
fn enter_wal(conn: &Connection, path: &Path) -> Result<(), OpenError> {
    let begun = Instant::now();
    loop {
        let entered =
            conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        let error = match entered {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                return Err(OpenError::Store(StoreError::Io {
                    path: show(path),
                    what: format!("its file system cannot do write-ahead logging (mode {mode})"),
                }));
            }
            Err(error) => StoreError::of(path, &error),
        };
        if !matches!(error, StoreError::Busy { .. }) || begun.elapsed() > BUSY_WAIT {
            return Err(error.into());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Brings the file to the newest format, all steps in one transaction, so that a crash leaves the old one.
fn migrate(conn: &mut Connection, path: &Path, steps: &[&str]) -> Result<(), OpenError> {
    let failed = |e: rusqlite::Error| OpenError::Store(StoreError::of(path, &e));
    if format_of(conn).map_err(failed)? as usize >= steps.len() {
        return Ok(());
    }
    let step_all = |tx: &Transaction<'_>| -> rusqlite::Result<()> {
        // Asked again inside: another process may have been faster.
        let from = format_of(tx)? as usize;
        for step in steps.iter().skip(from) {
            tx.execute_batch(step)?;
        }
        tx.pragma_update(None, "application_id", APPLICATION)?;
        tx.pragma_update(None, "user_version", steps.len().max(from) as u32)
    };
    let tx = conn
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    step_all(&tx).map_err(failed)?;
    tx.commit().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.db");
        std::fs::write(&path, b"").unwrap();
        (dir, path)
    }

    fn plain(path: &Path) -> Connection {
        open(path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap()
    }

    #[test]
    fn a_journal_of_an_older_format_is_brought_up_to_date_and_keeps_its_rows() {
        let (_dir, path) = file();
        let mut conn = plain(&path);
        migrate(
            &mut conn,
            &path,
            &["CREATE TABLE a(x); INSERT INTO a VALUES (7);"],
        )
        .unwrap();
        let steps = ["CREATE TABLE never(x)", "ALTER TABLE a ADD COLUMN y DEFAULT 8"];
        migrate(&mut conn, &path, &steps).unwrap();
        let row: (i64, i64) = conn
            .query_row("SELECT x, y FROM a", [], |r| Ok((r.get(0)?, r.get(1)?)))
            .unwrap();
        assert_eq!((row, format_of(&conn).unwrap()), ((7, 8), 2));
    }

    /// What the first released program wrote is all there after the step to what this one writes.
    #[test]
    fn a_journal_of_the_first_format_keeps_every_row_of_every_table() {
        let (_dir, path) = file();
        let mut conn = plain(&path);
        migrate(&mut conn, &path, &[V1]).unwrap();
        conn.execute_batch(
            "INSERT INTO event VALUES (1,7,3,'b','a','paused',1,'minh','os user',NULL,'{}');
             INSERT INTO kind VALUES (1,'paused',1,1);
             UPDATE lease SET epoch = 3;
             INSERT INTO snapshot VALUES (1,1,1,x'00');
             INSERT INTO sample VALUES ('lag',60000,22.5,NULL,1500), ('lag',75000,NULL,'503',NULL);
             INSERT INTO sample_minute VALUES ('lag',1,22.5,22.5,22.5,60000,1,1);
             INSERT INTO limits VALUES ('b',60000,4,2);
             INSERT INTO limit_minute VALUES ('b',1,4,4,4,2,60000);
             INSERT INTO checkpoint VALUES ('b',60000,'{}');
             INSERT INTO observation VALUES ('executor','here',60000,'{}');",
        )
        .unwrap();
        let all = |conn: &Connection| -> Vec<(String, Vec<String>)> {
            let tables: Vec<String> = conn
                .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'part_minute' ORDER BY 1")
                .unwrap()
                .query_map([], |r| r.get(0))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            let rows = |table: &String| {
                let mut stmt = conn.prepare(&format!("SELECT * FROM {table}")).unwrap();
                let n = stmt.column_count();
                let text = |r: &rusqlite::Row<'_>| {
                    Ok((0..n)
                        .map(|i| format!("{:?} ", r.get_ref(i).unwrap()))
                        .collect::<String>())
                };
                stmt.query_map([], text).unwrap().map(Result::unwrap).collect()
            };
            tables.iter().map(|t| (t.clone(), rows(t))).collect()
        };
        let before = all(&conn);
        assert!(
            before.len() > 8 && before.iter().all(|(_, rows)| !rows.is_empty()),
            "{before:?}"
        );
        drop(conn);
        let conn = connect(&path, Durability::Full).unwrap();
        assert_eq!(
            (all(&conn), format_of(&conn).unwrap()),
            (before, MIGRATIONS.len() as u32)
        );
        let parts: i64 = conn
            .query_row("SELECT count(*) FROM part_minute", [], |r| r.get(0))
            .unwrap();
        assert_eq!(parts, 0);
    }

    #[test]
    fn a_step_that_fails_leaves_the_old_format_whole() {
        let (_dir, path) = file();
        let mut conn = plain(&path);
        let steps = ["CREATE TABLE a(x)", "CREATE TABLE b(x); NOT SQL"];
        assert!(migrate(&mut conn, &path, &steps).is_err());
        let tables: i64 = conn
            .query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))
            .unwrap();
        assert_eq!((tables, format_of(&conn).unwrap()), (0, 0));
    }

    #[test]
    fn a_journal_of_a_newer_program_is_refused() {
        let (_dir, path) = file();
        drop(connect(&path, Durability::Full).unwrap());
        plain(&path).pragma_update(None, "user_version", 99).unwrap();
        for error in [
            connect(&path, Durability::Full).unwrap_err(),
            connect_read_only(&path).unwrap_err(),
        ] {
            assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
        }
    }

    #[test]
    fn the_database_of_another_program_is_left_alone() {
        let (_dir, path) = file();
        plain(&path).execute_batch("CREATE TABLE theirs(x)").unwrap();
        let before = std::fs::read(&path).unwrap();
        let error = connect(&path, Durability::Full).unwrap_err();
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn events_cannot_be_changed_or_removed_even_by_hand() {
        let (_dir, path) = file();
        let conn = connect(&path, Durability::Full).unwrap();
        conn.execute_batch("INSERT INTO event VALUES (1,0,NULL,NULL,NULL,'k',1,'a','',NULL,'{}')")
            .unwrap();
        for sql in ["UPDATE event SET actor = 'b'", "DELETE FROM event"] {
            assert!(conn.execute_batch(sql).unwrap_err().to_string().contains("never"));
        }
    }
}
