//! The lease: one row that says who supervises this journal. All times are on the boot clock, which counts suspend
//! and never jumps; every acquisition raises the epoch, and a lower epoch can no longer append (law C7).

use super::{
    Journal,
    append::look_for_unknown_kinds,
    error::{AcquireError, LeaseDenied, RenewError, StoreError},
};
use crate::{
    domain::tuning::Tuning,
    host::{BootInstant, ProcessStamp, boot_id, host_name, process_stamp},
};
use rusqlite::{Connection, TransactionBehavior, params};
use std::time::Duration;

/// No lease lives longer than this without a renewal, whatever its row says.
const LONGEST: Duration = Duration::from_secs(300);

/// Who asks for the lease: a process that cannot be mistaken for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// Name of its host.
    pub host: String,
    /// Identity of the host's boot.
    pub boot_id: String,
    /// The process.
    pub process: ProcessStamp,
}

impl Claimant {
    /// This process; `None` if the system does not tell its start time.
    pub fn here() -> Option<Self> {
        Some(Self {
            host: host_name(),
            boot_id: boot_id(),
            process: process_stamp(i32::try_from(std::process::id()).ok()?)?,
        })
    }

    /// As it is shown: `host pid 123`.
    pub fn text(&self) -> String {
        format!("{} pid {}", self.host, self.process.pid)
    }
}

/// The right to supervise. Losing the value releases nothing; see [`Journal::release`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Counts acquisitions; every append of the supervisor carries it.
    pub epoch: u64,
    /// `host pid 123`, for `LeaseTaken`.
    pub holder: String,
    /// Epoch and holder that it was taken from, when that one had not released it: for `LeaseTaken`.
    pub from: Option<String>,
    /// When it was last renewed.
    pub renewed: BootInstant,
    token: i64,
}

impl Lease {
    /// Whether effects are still allowed at `now`: the last renewal is younger than `lease_stop`. To be asked
    /// just before anything is sent outside.
    pub fn allows_effects(&self, now: BootInstant, tuning: &Tuning) -> bool {
        now.since(self.renewed) < tuning.lease_stop
    }
}

/// What is known about a holder's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Its process lives and its lease has not expired.
    Alive,
    /// Its process lives and has not renewed in time: stopped, hanging, or cut off from the disk.
    Silent,
    /// Its process is gone, or its host has booted since.
    Dead,
    /// It is on another host, which cannot be looked at from here.
    Elsewhere,
}

/// Who holds the lease, for screens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HolderView {
    /// `host pid 123`.
    pub holder: String,
    /// Its epoch.
    pub epoch: u64,
    /// Age of the last renewal; `None` if its boot clock is not ours.
    pub age: Option<Duration>,
    /// Whether it lives.
    pub liveness: Liveness,
}

/// A row that cannot be judged by its clock, and since when it stands unchanged, on our clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watched {
    epoch: u64,
    token: i64,
    renewed: u64,
    since: BootInstant,
}

/// The row while somebody holds the lease.
struct Held {
    epoch: u64,
    claimant: Claimant,
    renewed: u64,
    expires: u64,
    token: i64,
}

impl Held {
    fn liveness(&self, me: &Claimant, now: BootInstant) -> Liveness {
        if self.claimant.host != me.host {
            return Liveness::Elsewhere;
        }
        let same_boot = self.claimant.boot_id == me.boot_id;
        let process = &self.claimant.process;
        if !same_boot || process_stamp(process.pid).as_ref() != Some(process) {
            return Liveness::Dead;
        }
        if now.0 >= self.expires {
            Liveness::Silent
        } else {
            Liveness::Alive
        }
    }

    /// How long it may still hold the lease; zero means that it can be taken at once.
    fn wait(
        &self,
        me: &Claimant,
        now: BootInstant,
        ttl: Duration,
        watched: &mut Option<Watched>,
    ) -> Duration {
        // Its own time to live, unless that is shorter than ours or out of all reason.
        let whole =
            Duration::from_millis(self.expires.saturating_sub(self.renewed)).clamp(ttl, ttl.max(LONGEST));
        // Whatever the clocks say: a row that we saw unchanged for its whole time has expired.
        let by_watching = whole.saturating_sub(self.unchanged(now, watched));
        match self.liveness(me, now) {
            Liveness::Dead | Liveness::Silent => Duration::ZERO,
            Liveness::Alive => BootInstant(self.expires).since(now).min(by_watching),
            Liveness::Elsewhere => by_watching,
        }
    }

    fn unchanged(&self, now: BootInstant, watched: &mut Option<Watched>) -> Duration {
        match watched {
            Some(seen)
                if (seen.epoch, seen.token, seen.renewed) == (self.epoch, self.token, self.renewed) =>
            {
                now.since(seen.since)
            }
            _ => {
                *watched = Some(Watched {
                    epoch: self.epoch,
                    token: self.token,
                    renewed: self.renewed,
                    since: now,
                });
                Duration::ZERO
            }
        }
    }
}

impl Journal {
    /// Takes the lease for this process; see [`Journal::acquire_as`].
    ///
    /// # Errors
    /// As [`Journal::acquire_as`], and when this process cannot tell who it is.
    pub fn acquire(&mut self, now: BootInstant, tuning: &Tuning) -> Result<Lease, AcquireError> {
        let me = Claimant::here().ok_or(AcquireError::NoIdentity)?;
        self.acquire_as(&me, now, tuning)
    }

    /// Takes the lease and raises its epoch. At once when it is free, when the holder's host has booted since, or
    /// when the holder's process on this host is gone; else when it has expired. A holder on another host, whose
    /// clock and processes say nothing here, has expired when its row was seen unchanged for its whole time: call
    /// this again after the time that the refusal names, on the same `Journal`.
    ///
    /// # Errors
    /// Somebody holds it, this program may only watch, or the store failed.
    pub fn acquire_as(
        &mut self,
        me: &Claimant,
        now: BootInstant,
        tuning: &Tuning,
    ) -> Result<Lease, AcquireError> {
        self.check_in_place()?;
        let path = self.path.clone();
        let failed = |e: rusqlite::Error| AcquireError::Store(StoreError::of(&path, &e));
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        self.kinds_checked = match look_for_unknown_kinds(&tx, self.kinds_checked).map_err(failed)? {
            Ok(checked) => checked,
            Err((seq, kind, version)) => return Err(AcquireError::Observer { seq, kind, version }),
        };
        let (epoch, held) = row_of(&tx).map_err(failed)?;
        if let Some(held) = &held {
            let wait = held.wait(me, now, tuning.lease_ttl, &mut self.watched);
            if !wait.is_zero() {
                return Err(AcquireError::Denied(LeaseDenied {
                    holder: held.claimant.text(),
                    wait,
                }));
            }
        }
        let lease = Lease {
            epoch: epoch + 1,
            holder: me.text(),
            from: held.map(|h| format!("epoch {}, {}", h.epoch, h.claimant.text())),
            renewed: now,
            token: rand::random(),
        };
        write_row(&tx, &lease, me, now.plus(tuning.lease_ttl)).map_err(failed)?;
        tx.commit().map_err(failed)?;
        self.watched = None;
        Ok(lease)
    }

    /// Renews the lease at `now`. To be called every `lease_renew`.
    ///
    /// # Errors
    /// [`RenewError::Lost`]: another one has it, and nothing more may be sent. With a failed store the lease
    /// stands until `lease_stop` after its last renewal.
    pub fn renew(&mut self, lease: &mut Lease, now: BootInstant, tuning: &Tuning) -> Result<(), RenewError> {
        self.check_in_place()?;
        let changed = self
            .conn
            .prepare_cached(
                "UPDATE lease SET renewed = ?1, expires = ?2
                 WHERE id = 1 AND epoch = ?3 AND token = ?4 AND host IS NOT NULL",
            )
            .and_then(|mut s| {
                s.execute(params![
                    now.0 as i64,
                    now.plus(tuning.lease_ttl).0 as i64,
                    lease.epoch as i64,
                    lease.token
                ])
            })
            .map_err(|e| self.failed(&e))?;
        if changed == 1 {
            lease.renewed = now;
            return Ok(());
        }
        let (current, held) = row_of(&self.conn).map_err(|e| self.failed(&e))?;
        Err(RenewError::Lost {
            current,
            holder: held.map_or_else(|| "nobody".to_owned(), |h| h.claimant.text()),
        })
    }

    /// Gives the lease back, so that the next supervisor need not wait. A lease that was lost meanwhile is left
    /// to its new holder.
    ///
    /// # Errors
    /// The store failed; the lease then expires by itself.
    pub fn release(&mut self, lease: Lease) -> Result<(), StoreError> {
        self.conn
            .execute(
                "UPDATE lease SET host = NULL, boot_id = NULL, pid = NULL, start = NULL, renewed = NULL,
                                  expires = NULL, token = NULL
                 WHERE id = 1 AND epoch = ?1 AND token = ?2",
                params![lease.epoch as i64, lease.token],
            )
            .map(|_| ())
            .map_err(|e| self.failed(&e))
    }

    /// The epoch of the lease now: the check of an effect just before it writes to the outside.
    ///
    /// # Errors
    /// The store failed.
    pub fn epoch(&self) -> Result<u64, StoreError> {
        super::append::current_epoch(&self.conn).map_err(|e| self.failed(&e))
    }

    /// Who holds the lease; `None` if nobody does. `now` is this host's boot clock.
    ///
    /// # Errors
    /// The store failed.
    pub fn holder(&self, now: BootInstant) -> Result<Option<HolderView>, StoreError> {
        let me = Claimant::here().unwrap_or_else(|| Claimant {
            host: host_name(),
            boot_id: boot_id(),
            process: ProcessStamp { pid: 0, start: 0 },
        });
        self.holder_as_seen_by(&me, now)
    }

    /// [`Journal::holder`] as another process would see it.
    ///
    /// # Errors
    /// The store failed.
    pub fn holder_as_seen_by(
        &self,
        me: &Claimant,
        now: BootInstant,
    ) -> Result<Option<HolderView>, StoreError> {
        let (epoch, held) = row_of(&self.conn).map_err(|e| self.failed(&e))?;
        Ok(held.map(|held| HolderView {
            holder: held.claimant.text(),
            epoch,
            age: (held.claimant.host == me.host && held.claimant.boot_id == me.boot_id)
                .then(|| now.since(BootInstant(held.renewed))),
            liveness: held.liveness(me, now),
        }))
    }
}

/// The epoch, and the holder if there is one.
fn row_of(conn: &Connection) -> rusqlite::Result<(u64, Option<Held>)> {
    conn.prepare_cached(
        "SELECT epoch, host, boot_id, pid, start, renewed, expires, token FROM lease WHERE id = 1",
    )?
    .query_row([], |row| {
        let epoch = row.get::<_, i64>(0)?.unsigned_abs();
        let Some(host) = row.get::<_, Option<String>>(1)? else {
            return Ok((epoch, None));
        };
        let held = Held {
            epoch,
            claimant: Claimant {
                // A row can be written by hand; what is shown of it is text.
                host: crate::domain::text::one_line(&host, 64),
                boot_id: row.get(2)?,
                process: ProcessStamp {
                    pid: row.get(3)?,
                    // The column is signed; the bits are the same.
                    start: row.get::<_, i64>(4)? as u64,
                },
            },
            renewed: row.get::<_, i64>(5)?.unsigned_abs(),
            expires: row.get::<_, i64>(6)?.unsigned_abs(),
            token: row.get(7)?,
        };
        Ok((epoch, Some(held)))
    })
}

fn write_row(
    conn: &Connection,
    lease: &Lease,
    me: &Claimant,
    expires: BootInstant,
) -> rusqlite::Result<usize> {
    conn.prepare_cached(
        "UPDATE lease SET epoch = ?1, host = ?2, boot_id = ?3, pid = ?4, start = ?5, renewed = ?6, expires = ?7,
                          token = ?8
         WHERE id = 1",
    )?
    .execute(params![
        lease.epoch as i64,
        me.host,
        me.boot_id,
        me.process.pid,
        me.process.start as i64,
        lease.renewed.0 as i64,
        expires.0 as i64,
        lease.token,
    ])
}
