//! Replacing one partition of the warehouse: whole, at one instant, and only by the attempt that is current
//! (law C7, *publish fence*; case B21).
//!
//! An attempt first *claims* the partition: its id becomes the partition's marker. It writes into a folder of its
//! own beside the partitions and swaps the result in only if the marker still names it. Claiming and swapping
//! hold the partition's lock, so a late attempt can never come between.

use crate::domain::ids::AttemptId;
use chrono::NaiveDate;
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The only file of a partition.
pub const PART: &str = "part-0.csv";

/// Why a partition was not replaced. The old one stands as it was.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// Another attempt owns the partition by now.
    #[error("{attempt} is no longer current, {by}: nothing was published")]
    Superseded {
        /// The late attempt.
        attempt: AttemptId,
        /// Who is.
        by: String,
    },
    /// A file could not be written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The right to replace one partition, until a newer attempt takes it.
#[derive(Debug)]
pub struct Claim {
    warehouse: PathBuf,
    date: NaiveDate,
    attempt: AttemptId,
}

/// The file of a partition inside the warehouse.
pub fn part_of(warehouse: &Path, date: NaiveDate) -> PathBuf {
    warehouse.join(format!("dt={date}")).join(PART)
}

/// Makes an attempt the current one of a partition.
///
/// Within one backfill the higher number is current. An attempt of another backfill takes over from any: the newer
/// order is the one that starts work later.
///
/// # Errors
/// A newer attempt of the same backfill has claimed it, or the marker cannot be written.
pub fn claim(warehouse: &Path, date: NaiveDate, attempt: &AttemptId) -> Result<Claim, PublishError> {
    let claim = Claim {
        warehouse: warehouse.to_owned(),
        date,
        attempt: attempt.clone(),
    };
    for dir in [claim.fences(), claim.staging()] {
        fs::create_dir_all(&dir).map_err(at(&dir))?;
    }
    let _lock = claim.lock()?;
    if let Some(current) = claim.current()?
        && current.backfill == attempt.backfill
        && current.no > attempt.no
    {
        return Err(claim.superseded(Some(&current)));
    }
    claim.mark()?;
    claim.sweep()?;
    Ok(claim)
}

impl Claim {
    /// Replaces the partition by these bytes: durable first, then visible at one instant.
    ///
    /// # Errors
    /// The attempt is no longer the current one, or a file cannot be written. The old partition stays.
    pub fn publish(self, bytes: &[u8]) -> Result<PathBuf, PublishError> {
        let staged = self.stage(bytes)?;
        let _lock = self.lock()?;
        let current = self.current()?;
        if current.as_ref() != Some(&self.attempt) {
            let _ = fs::remove_dir_all(&staged);
            return Err(self.superseded(current.as_ref()));
        }
        self.swap(&staged)?;
        Ok(part_of(&self.warehouse, self.date))
    }

    /// Writes the new partition beside the old one and makes it durable.
    fn stage(&self, bytes: &[u8]) -> Result<PathBuf, PublishError> {
        let own = format!("{}.{}.{}", self.date, self.attempt.backfill, self.attempt.no);
        let staged = self.staging().join(own);
        fs::create_dir(&staged).map_err(at(&staged))?;
        let part = staged.join(PART);
        let write = || {
            let mut file = File::create(&part)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().map_err(at(&part))?;
        sync_dir(&staged)?;
        Ok(staged)
    }

    /// Makes the staged partition the visible one. A first partition appears as a whole folder; later ones replace
    /// the file in it. Either is one rename, so a reader finds the old or the new partition, never none.
    fn swap(&self, staged: &Path) -> Result<(), PublishError> {
        let target = self.warehouse.join(format!("dt={}", self.date));
        match fs::rename(staged, &target) {
            Ok(()) => return sync_dir(&self.warehouse),
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) => {}
            Err(e) => return Err(at(&target)(e)),
        }
        let part = target.join(PART);
        fs::rename(staged.join(PART), &part).map_err(at(&part))?;
        sync_dir(&target)?;
        // Only an empty folder is left of it.
        let _ = fs::remove_dir(staged);
        Ok(())
    }

    /// Removes what killed attempts of this partition left half written.
    fn sweep(&self) -> Result<(), PublishError> {
        let staging = self.staging();
        let own_day = format!("{}.", self.date);
        for entry in fs::read_dir(&staging).map_err(at(&staging))? {
            let path = entry.map_err(at(&staging))?.path();
            let of_this_day = path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(&own_day));
            if of_this_day {
                fs::remove_dir_all(&path).map_err(at(&path))?;
            }
        }
        Ok(())
    }

    /// The partition's lock, held until dropped.
    fn lock(&self) -> Result<File, PublishError> {
        let path = self.fences().join(format!("dt={}.lock", self.date));
        let open = || {
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)?;
            file.lock()?;
            Ok(file)
        };
        open().map_err(at(&path))
    }

    /// The attempt that the marker names.
    fn current(&self) -> Result<Option<AttemptId>, PublishError> {
        let path = self.marker();
        match fs::read_to_string(&path) {
            // A marker that names nobody is as good as none; it is written in one rename, so this is damage.
            Ok(text) => Ok(text.trim().parse().ok()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(at(&path)(e)),
        }
    }

    /// Names this attempt in the marker. Need not be durable: after a crash of the machine no attempt is left that
    /// it could keep out.
    fn mark(&self) -> Result<(), PublishError> {
        let (new, path) = (self.fences().join(format!("dt={}.new", self.date)), self.marker());
        fs::write(&new, format!("{}\n", self.attempt)).map_err(at(&new))?;
        fs::rename(&new, &path).map_err(at(&path))
    }

    fn superseded(&self, by: Option<&AttemptId>) -> PublishError {
        PublishError::Superseded {
            attempt: self.attempt.clone(),
            by: by.map_or_else(|| "its claim is gone".to_owned(), |by| format!("{by} is")),
        }
    }

    fn fences(&self) -> PathBuf {
        self.warehouse.join(".fence")
    }

    fn staging(&self) -> PathBuf {
        self.warehouse.join(".staging")
    }

    fn marker(&self) -> PathBuf {
        self.fences().join(format!("dt={}", self.date))
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> PublishError {
    let path = path.to_owned();
    move |source| PublishError::Io { path, source }
}

fn sync_dir(path: &Path) -> Result<(), PublishError> {
    File::open(path).and_then(|d| d.sync_all()).map_err(at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: NaiveDate = match NaiveDate::from_ymd_opt(2024, 11, 29) {
        Some(date) => date,
        None => NaiveDate::MIN,
    };

    fn attempt(text: &str) -> AttemptId {
        text.parse().unwrap()
    }

    fn content(warehouse: &Path) -> Option<String> {
        fs::read_to_string(part_of(warehouse, DATE)).ok()
    }

    #[test]
    fn a_published_partition_holds_its_bytes_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        for (no, bytes) in [(1, "one"), (2, "two"), (3, "three")] {
            let id = attempt(&format!("orders-aaaaaa/2024-11-29/{no}"));
            claim(dir.path(), DATE, &id)
                .unwrap()
                .publish(bytes.as_bytes())
                .unwrap();
            assert_eq!(content(dir.path()).as_deref(), Some(bytes));
            let files = fs::read_dir(dir.path().join("dt=2024-11-29")).unwrap().count();
            assert_eq!(files, 1);
            assert_eq!(fs::read_dir(dir.path().join(".staging")).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_late_attempt_cannot_overwrite_a_newer_one() {
        let dir = tempfile::tempdir().unwrap();
        let late = claim(dir.path(), DATE, &attempt("orders-aaaaaa/2024-11-29/1")).unwrap();
        let new = claim(dir.path(), DATE, &attempt("orders-aaaaaa/2024-11-29/2")).unwrap();
        new.publish(b"new").unwrap();
        let refused = late.publish(b"late").unwrap_err();
        assert!(matches!(refused, PublishError::Superseded { .. }), "{refused}");
        assert_eq!(content(dir.path()).as_deref(), Some("new"));
    }

    #[test]
    fn a_late_attempt_is_refused_even_when_the_newer_one_has_not_published() {
        let dir = tempfile::tempdir().unwrap();
        let late = claim(dir.path(), DATE, &attempt("orders-aaaaaa/2024-11-29/1")).unwrap();
        claim(dir.path(), DATE, &attempt("orders-aaaaaa/2024-11-29/2")).unwrap();
        late.publish(b"late").unwrap_err();
        assert_eq!(content(dir.path()), None);
    }

    #[test]
    fn an_older_attempt_cannot_claim_back() {
        let dir = tempfile::tempdir().unwrap();
        claim(dir.path(), DATE, &attempt("orders-aaaaaa/2024-11-29/10")).unwrap();
        let refused = claim(dir.path(), DATE, &attempt("orders-aaaaaa/2024-11-29/9")).unwrap_err();
        assert!(
            refused.to_string().contains("orders-aaaaaa/2024-11-29/10 is"),
            "{refused}"
        );
    }

    #[test]
    fn a_new_order_takes_over_from_an_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let old = claim(dir.path(), DATE, &attempt("orders-aaaaaa/2024-11-29/7")).unwrap();
        let new = claim(dir.path(), DATE, &attempt("orders-bbbbbb/2024-11-29/1")).unwrap();
        old.publish(b"old").unwrap_err();
        new.publish(b"new").unwrap();
        assert_eq!(content(dir.path()).as_deref(), Some("new"));
    }

    #[test]
    fn what_a_killed_attempt_left_is_swept_by_the_next_one_of_its_day_only() {
        let dir = tempfile::tempdir().unwrap();
        let killed = claim(dir.path(), DATE, &attempt("orders-aaaaaa/2024-11-29/1")).unwrap();
        killed.stage(b"half").unwrap();
        let other = dir.path().join(".staging/2024-11-28.orders-aaaaaa.1");
        fs::create_dir_all(&other).unwrap();
        claim(dir.path(), DATE, &attempt("orders-aaaaaa/2024-11-29/2")).unwrap();
        assert!(!dir.path().join(".staging/2024-11-29.orders-aaaaaa.1").exists());
        assert!(other.exists());
    }

    #[test]
    fn attempts_of_two_orders_with_one_number_do_not_write_into_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let old = claim(dir.path(), DATE, &attempt("orders-aaaaaa/2024-11-29/1")).unwrap();
        let new = claim(dir.path(), DATE, &attempt("orders-bbbbbb/2024-11-29/1")).unwrap();
        let staged = new.stage(b"new").unwrap();
        old.stage(b"old").unwrap();
        assert_eq!(fs::read(staged.join(PART)).unwrap(), b"new");
    }
}
