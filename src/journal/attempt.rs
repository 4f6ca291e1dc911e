//! The once-only question of the process that is about to start a chunk's command: is this attempt still wanted?

use super::{
    append::current_epoch,
    error::{ReadError, StoreError},
    schema,
};
use crate::domain::{
    event::{DecodeError, Payload, Read},
    ids::AttemptId,
};
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::path::Path;

/// Whether an attempt may start now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptStanding {
    /// Its intent stands and the supervisor that sent it still holds the lease.
    Wanted,
    /// It must not start; in words, why.
    NotWanted(String),
}

/// Asks the journal at `path` whether `attempt`, sent by the supervisor of `epoch`, may start. Cheap: one
/// connection for reading, three look-ups by index, no checks of the place, nothing created.
///
/// Wanted is an attempt that was intended and neither withdrawn nor ended nor resolved by a human, whose stop or
/// cancel nobody has asked for since, as long as `epoch` is the lease's.
///
/// # Errors
/// The journal cannot be read; the attempt must not start then.
pub fn check_attempt(path: &Path, attempt: &AttemptId, epoch: u64) -> Result<AttemptStanding, ReadError> {
    let failed = |e: rusqlite::Error| ReadError::Store(StoreError::of(path, &e));
    let conn = schema::open(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
    // One transaction, so that the answers are of one moment.
    let tx = conn.unchecked_transaction().map_err(failed)?;
    let current = current_epoch(&tx).map_err(failed)?;
    let not_wanted = |why: String| Ok(AttemptStanding::NotWanted(why));
    if current != epoch {
        return not_wanted(format!(
            "it was sent by the supervisor of epoch {epoch}, and epoch {current} supervises now"
        ));
    }
    let Some((seq, kind)) = last_event(&tx, attempt).map_err(failed)? else {
        return not_wanted("its intent is not in the journal".to_owned());
    };
    match kind.as_str() {
        "submission-withdrawn" => return not_wanted(format!("it was withdrawn (event {seq})")),
        "run-ended" => return not_wanted(format!("it has ended (event {seq})")),
        _ => {}
    }
    Ok(match ended_by_a_human(&tx, attempt)? {
        Some(why) => AttemptStanding::NotWanted(why),
        None => AttemptStanding::Wanted,
    })
}

/// Seq and kind of the newest event about the attempt.
fn last_event(conn: &Connection, attempt: &AttemptId) -> rusqlite::Result<Option<(i64, String)>> {
    conn.prepare("SELECT seq, kind FROM event WHERE attempt = ?1 ORDER BY seq DESC LIMIT 1")?
        .query_row([attempt.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Looks for a command after the attempt's intent that ends it.
fn ended_by_a_human(conn: &Connection, attempt: &AttemptId) -> Result<Option<String>, ReadError> {
    let path = Path::new(conn.path().unwrap_or_default());
    let failed = |e: rusqlite::Error| ReadError::Store(StoreError::of(path, &e));
    let mut statement = conn
        .prepare(
            "SELECT seq, kind, v, payload FROM event
             WHERE backfill = ?1 AND kind IN ('resolved', 'stop-requested', 'cancel-requested', 'braked')
               AND seq > (SELECT min(seq) FROM event WHERE attempt = ?2)
             ORDER BY seq",
        )
        .map_err(failed)?;
    let mut rows = statement
        .query([attempt.backfill.as_str().to_owned(), attempt.to_string()])
        .map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let seq = row.get::<_, i64>(0).map_err(failed)?.unsigned_abs();
        let (kind, json): (String, String) = (row.get(1).map_err(failed)?, row.get(3).map_err(failed)?);
        let version: u16 = row.get(2).map_err(failed)?;
        let ends = match Payload::decode(seq, &kind, version, &json)? {
            Read::Known(Payload::CancelRequested {}) => Some("the backfill was cancelled"),
            Read::Known(Payload::StopRequested { chunks }) if chunks.contains(&attempt.chunk) => {
                Some("its stop was requested")
            }
            Read::Known(Payload::Braked { attempts, .. }) if attempts.contains(attempt) => {
                Some("the throttle braked")
            }
            Read::Known(Payload::Resolved { chunk, .. }) if chunk == attempt.chunk => {
                Some("a human resolved it")
            }
            Read::Known(_) => None,
            Read::Unknown { .. } => {
                return Err(ReadError::Event(DecodeError {
                    seq,
                    kind,
                    version,
                    error: "it is from a newer program".to_owned(),
                }));
            }
        };
        if let Some(what) = ends {
            return Ok(Some(format!("{what} (event {seq})")));
        }
    }
    Ok(None)
}
