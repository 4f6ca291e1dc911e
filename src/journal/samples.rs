//! Tables that may be lost without losing a decision: samples of signals, limits over time, the throttle's
//! checkpoint, and what was last seen of executors and signals. Written by the supervisor through a connection of
//! its own that does not wait for the disk, read by screens.

use super::{
    Journal,
    error::{OpenError, StoreError},
    parts,
    schema::{self, Durability},
};
use crate::domain::{
    Time,
    ids::{BackfillId, Name},
};
use chrono::{DateTime, TimeDelta};
use rusqlite::{Connection, OptionalExtension, Params, Row, TransactionBehavior, params};
use std::{path::PathBuf, time::Duration};

/// How long every sample and limit is kept.
const RAW: TimeDelta = TimeDelta::hours(48);
/// How long the minutes are kept.
const MINUTES: TimeDelta = TimeDelta::days(90);
/// How often old rows are removed.
const PRUNE_EVERY: TimeDelta = TimeDelta::minutes(10);

pub(super) const MINUTE_MS: i64 = 60_000;

/// One poll of a signal.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplePoint {
    /// When it was taken in, by our clock.
    pub at: Time,
    /// The valid value, or why there is no sample.
    pub value: Result<f64, String>,
    /// Age of the measurement when it was taken in, where there is one.
    pub age: Option<Duration>,
}

/// The limit and what it was used for at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitPoint {
    /// When.
    pub at: Time,
    /// Allowed running weight.
    pub limit: u32,
    /// Running weight.
    pub running: u32,
}

/// One minute of a signal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MinutePoint {
    /// Its first instant.
    pub at: Time,
    /// Smallest, largest and last valid value; `None` if there was no valid sample.
    pub values: Option<(f64, f64, f64)>,
    /// Polls that gave a valid sample.
    pub valid: u32,
    /// Polls that gave none.
    pub missing: u32,
}

/// Something last seen of the outside, replaced at each look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// What it is about: an executor's or a signal's name.
    pub key: String,
    /// When it was seen.
    pub as_of: Time,
    /// What was seen, as JSON of its writer.
    pub json: String,
}

/// Writes samples, limits, checkpoints and observations.
#[derive(Debug)]
pub struct Recorder {
    conn: Connection,
    path: PathBuf,
    pruned: Option<Time>,
}

impl Journal {
    /// Opens a second connection for what may be lost.
    ///
    /// # Errors
    /// The store failed.
    pub fn recorder(&self) -> Result<Recorder, OpenError> {
        Ok(Recorder {
            conn: schema::connect(&self.path, Durability::Normal)?,
            path: self.path.clone(),
            pruned: None,
        })
    }
}

impl Recorder {
    /// Records one poll of a signal. A value that is not finite is recorded as no sample. Rows that are too old
    /// at `point.at` are removed now and then.
    ///
    /// # Errors
    /// The store failed; the sample is lost and nothing else.
    pub fn put_sample(&mut self, signal: &Name, point: &SamplePoint) -> Result<(), StoreError> {
        self.in_transaction(|conn| insert_sample(conn, signal, point))?;
        self.prune_now_and_then(point.at)
    }

    /// Records what a signal's source knows of the time before it was polled: of `points`, oldest first, those at or
    /// after `since` that are older than every sample of the signal that is already there since then. All or none.
    ///
    /// # Errors
    /// The store failed; the past is lost and nothing else.
    pub fn put_past(&mut self, signal: &Name, since: Time, points: &[SamplePoint]) -> Result<(), StoreError> {
        self.in_transaction(|conn| {
            let oldest: Option<i64> = conn
                .prepare_cached("SELECT min(at_ms) FROM sample WHERE signal = ?1 AND at_ms >= ?2")?
                .query_row(params![signal.as_str(), since.timestamp_millis()], |row| {
                    row.get(0)
                })?;
            let before = |p: &&SamplePoint| oldest.is_none_or(|oldest| p.at.timestamp_millis() < oldest);
            let mut written = 0;
            // The newest first: a minute that has no value yet takes the first one for its last.
            for point in points.iter().rev().filter(|p| p.at >= since).filter(before) {
                written += insert_sample(conn, signal, point)?;
            }
            Ok(written)
        })
    }

    /// Records the limit of a backfill and its running weight.
    ///
    /// # Errors
    /// The store failed; the point is lost and nothing else.
    pub fn put_limit(&mut self, backfill: &BackfillId, point: LimitPoint) -> Result<(), StoreError> {
        let at = point.at.timestamp_millis();
        self.in_transaction(|conn| {
            conn.prepare_cached("INSERT OR REPLACE INTO limits VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![backfill.as_str(), at, point.limit, point.running])?;
            conn.prepare_cached(
                "INSERT INTO limit_minute VALUES (?1, ?2, ?3, ?3, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET
                     min = min(min, excluded.min),
                     max = max(max, excluded.max),
                     last = CASE WHEN excluded.last_ms >= last_ms THEN excluded.last ELSE last END,
                     running = CASE WHEN excluded.last_ms >= last_ms THEN excluded.running ELSE running END,
                     last_ms = max(last_ms, excluded.last_ms)",
            )?
            .execute(params![
                backfill.as_str(),
                at.div_euclid(MINUTE_MS),
                point.limit,
                point.running,
                at
            ])
        })?;
        self.prune_now_and_then(point.at)
    }

    /// Keeps the throttle's state of a backfill in place of the one before.
    ///
    /// # Errors
    /// The store failed; the older checkpoint stands.
    pub fn put_checkpoint(&mut self, backfill: &BackfillId, at: Time, json: &str) -> Result<(), StoreError> {
        self.in_transaction(|conn| {
            conn.prepare_cached("INSERT OR REPLACE INTO checkpoint VALUES (?1, ?2, ?3)")?
                .execute(params![backfill.as_str(), at.timestamp_millis(), json])
        })
    }

    /// Keeps what was seen of something in place of what was seen before. `kind` is a word of the writer, such as
    /// `executor` or `signal`.
    ///
    /// # Errors
    /// The store failed; the older observation stands.
    pub fn put_observation(&mut self, kind: &str, seen: &Observation) -> Result<(), StoreError> {
        self.in_transaction(|conn| {
            conn.prepare_cached("INSERT OR REPLACE INTO observation VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![kind, seen.key, seen.as_of.timestamp_millis(), seen.json])
        })
    }

    /// Keeps several things of a kind that were seen at once, all or none. `anew`: what else was seen of the kind is
    /// forgotten.
    ///
    /// # Errors
    /// The store failed; the older observations stand.
    pub fn put_observations(
        &mut self,
        kind: &str,
        seen: &[Observation],
        anew: bool,
    ) -> Result<(), StoreError> {
        self.in_transaction(|conn| {
            if anew {
                conn.prepare_cached("DELETE FROM observation WHERE kind = ?1")?
                    .execute([kind])?;
            }
            let mut put =
                conn.prepare_cached("INSERT OR REPLACE INTO observation VALUES (?1, ?2, ?3, ?4)")?;
            for one in seen {
                put.execute(params![kind, one.key, one.as_of.timestamp_millis(), one.json])?;
            }
            Ok(seen.len())
        })
    }

    /// Forgets what was seen of something that is no longer configured.
    ///
    /// # Errors
    /// The store failed.
    pub fn forget_observation(&mut self, kind: &str, key: &str) -> Result<(), StoreError> {
        self.in_transaction(|conn| {
            conn.prepare_cached("DELETE FROM observation WHERE kind = ?1 AND key = ?2")?
                .execute([kind, key])
        })
    }

    /// Removes samples, limits and parts that are older than 48 hours at `now`, and minutes older than 90 days.
    ///
    /// # Errors
    /// The store failed; the rows go another time.
    pub fn prune(&mut self, now: Time) -> Result<(), StoreError> {
        let raw = (now - RAW).timestamp_millis();
        let minute = (now - MINUTES).timestamp_millis().div_euclid(MINUTE_MS);
        self.in_transaction(|conn| {
            for (table, column, before) in [
                ("sample", "at_ms", raw),
                ("limits", "at_ms", raw),
                ("sample_minute", "minute", minute),
                ("limit_minute", "minute", minute),
            ] {
                conn.prepare_cached(&format!("DELETE FROM {table} WHERE {column} < ?1"))?
                    .execute([before])?;
            }
            parts::prune(conn, raw)
        })?;
        self.pruned = Some(now);
        Ok(())
    }

    pub(super) fn prune_now_and_then(&mut self, now: Time) -> Result<(), StoreError> {
        match self.pruned {
            Some(last) if (now - last).abs() < PRUNE_EVERY => Ok(()),
            _ => self.prune(now),
        }
    }

    pub(super) fn in_transaction(
        &mut self,
        act: impl FnOnce(&Connection) -> rusqlite::Result<usize>,
    ) -> Result<(), StoreError> {
        let failed = |e: rusqlite::Error| StoreError::of(&self.path, &e);
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        act(&tx).map_err(failed)?;
        tx.commit().map_err(failed)
    }
}

fn insert_sample(conn: &Connection, signal: &Name, point: &SamplePoint) -> rusqlite::Result<usize> {
    let (value, reason) = match &point.value {
        Ok(value) if value.is_finite() => (Some(*value), None),
        Ok(_) => (None, Some("not a finite number")),
        Err(reason) => (None, Some(reason.as_str())),
    };
    let age = point
        .age
        .map(|a| i64::try_from(a.as_millis()).unwrap_or(i64::MAX));
    let at = point.at.timestamp_millis();
    conn.prepare_cached("INSERT OR REPLACE INTO sample VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute(params![signal.as_str(), at, value, reason, age])?;
    conn.prepare_cached(
        "INSERT INTO sample_minute VALUES (?1, ?2, ?3, ?3, ?3, ?4, ?3 IS NOT NULL, ?3 IS NULL)
         ON CONFLICT DO UPDATE SET
             min = min(coalesce(min, excluded.min), coalesce(excluded.min, min)),
             max = max(coalesce(max, excluded.max), coalesce(excluded.max, max)),
             last = CASE WHEN excluded.last_ms >= last_ms OR last IS NULL
                         THEN coalesce(excluded.last, last) ELSE last END,
             last_ms = max(last_ms, excluded.last_ms),
             valid = valid + excluded.valid,
             missing = missing + excluded.missing",
    )?
    .execute(params![signal.as_str(), at.div_euclid(MINUTE_MS), value, at])
}

impl Journal {
    /// The polls of a signal since an instant, oldest first; of the last 48 hours.
    ///
    /// # Errors
    /// The store failed.
    pub fn samples_since(&self, signal: &Name, since: Time) -> Result<Vec<SamplePoint>, StoreError> {
        self.rows(
            "SELECT at_ms, value, reason, age_ms FROM sample WHERE signal = ?1 AND at_ms >= ?2 ORDER BY at_ms",
            (signal.as_str(), since.timestamp_millis()),
            |row| {
                let value = match row.get::<_, Option<f64>>(1)? {
                    Some(value) => Ok(value),
                    None => Err(row.get::<_, Option<String>>(2)?.unwrap_or_default()),
                };
                let age: Option<i64> = row.get(3)?;
                Ok(SamplePoint {
                    at: time(row.get(0)?),
                    value,
                    age: age.map(|a| Duration::from_millis(a.unsigned_abs())),
                })
            },
        )
    }

    /// The minutes of a signal since an instant, oldest first; of the last 90 days.
    ///
    /// # Errors
    /// The store failed.
    pub fn sample_minutes_since(&self, signal: &Name, since: Time) -> Result<Vec<MinutePoint>, StoreError> {
        self.rows(
            "SELECT minute, min, max, last, valid, missing FROM sample_minute
             WHERE signal = ?1 AND minute >= ?2 ORDER BY minute",
            (signal.as_str(), since.timestamp_millis().div_euclid(MINUTE_MS)),
            |row| {
                let (min, max, last): (Option<f64>, Option<f64>, Option<f64>) =
                    (row.get(1)?, row.get(2)?, row.get(3)?);
                Ok(MinutePoint {
                    at: time(row.get::<_, i64>(0)?.saturating_mul(MINUTE_MS)),
                    values: min.zip(max).zip(last).map(|((min, max), last)| (min, max, last)),
                    valid: row.get(4)?,
                    missing: row.get(5)?,
                })
            },
        )
    }

    /// The limits of a backfill since an instant, oldest first; of the last 48 hours.
    ///
    /// # Errors
    /// The store failed.
    pub fn limits_since(&self, backfill: &BackfillId, since: Time) -> Result<Vec<LimitPoint>, StoreError> {
        self.rows(
            "SELECT at_ms, allowed, running FROM limits WHERE backfill = ?1 AND at_ms >= ?2 ORDER BY at_ms",
            (backfill.as_str(), since.timestamp_millis()),
            limit_point,
        )
    }

    /// The limit at the end of each minute since an instant, oldest first; of the last 90 days.
    ///
    /// # Errors
    /// The store failed.
    pub fn limit_minutes_since(
        &self,
        backfill: &BackfillId,
        since: Time,
    ) -> Result<Vec<LimitPoint>, StoreError> {
        self.rows(
            "SELECT minute * 60000, last, running FROM limit_minute
             WHERE backfill = ?1 AND minute >= ?2 ORDER BY minute",
            (backfill.as_str(), since.timestamp_millis().div_euclid(MINUTE_MS)),
            limit_point,
        )
    }

    /// The last checkpoint of a backfill's throttle, with its time.
    ///
    /// # Errors
    /// The store failed.
    pub fn checkpoint(&self, backfill: &BackfillId) -> Result<Option<(Time, String)>, StoreError> {
        self.conn
            .prepare_cached("SELECT at_ms, json FROM checkpoint WHERE backfill = ?1")
            .and_then(|mut s| {
                s.query_row([backfill.as_str()], |row| Ok((time(row.get(0)?), row.get(1)?)))
                    .optional()
            })
            .map_err(|e| self.failed(&e))
    }

    /// Everything last seen of a kind, by key.
    ///
    /// # Errors
    /// The store failed.
    pub fn observations(&self, kind: &str) -> Result<Vec<Observation>, StoreError> {
        self.observations_since(kind, DateTime::UNIX_EPOCH)
    }

    /// What was last seen of a kind at or after an instant, by key.
    ///
    /// # Errors
    /// The store failed.
    pub fn observations_since(&self, kind: &str, from: Time) -> Result<Vec<Observation>, StoreError> {
        self.rows(
            "SELECT key, at_ms, json FROM observation WHERE kind = ?1 AND at_ms >= ?2 ORDER BY key",
            params![kind, from.timestamp_millis()],
            |row| {
                Ok(Observation {
                    key: row.get(0)?,
                    as_of: time(row.get(1)?),
                    json: row.get(2)?,
                })
            },
        )
    }

    pub(super) fn rows<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = || -> rusqlite::Result<Vec<T>> {
            self.conn.prepare_cached(sql)?.query_map(params, read)?.collect()
        };
        rows().map_err(|e| self.failed(&e))
    }
}

fn limit_point(row: &Row<'_>) -> rusqlite::Result<LimitPoint> {
    Ok(LimitPoint {
        at: time(row.get(0)?),
        limit: row.get(1)?,
        running: row.get(2)?,
    })
}

pub(super) fn time(ms: i64) -> Time {
    DateTime::from_timestamp_millis(ms).unwrap_or_default()
}
