//! Who runs right now, told by files: each attempt of the demo's job keeps a locked file in one folder while it
//! lives. The lock goes with the process, so that a killed one stops counting at once, whatever it left behind.

use std::{
    ffi::OsString,
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// This process counts as running until it is dropped.
#[derive(Debug)]
pub struct Presence {
    path: PathBuf,
    // Holds the lock.
    _file: File,
}

impl Presence {
    /// Counts this process in, under a label that no other live process uses.
    ///
    /// # Errors
    /// The folder or the file cannot be made or locked.
    pub fn enter(running: &Path, label: &str) -> io::Result<Self> {
        // Only this folder: where the whole demo was removed, nothing is made again.
        match fs::create_dir(running) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        let path = running.join(label);
        loop {
            let file = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)?;
            file.lock()?;
            // Between open and lock a counter may have found the file unlocked and removed it.
            if is_at(&file, &path) {
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // A file that stays is no harm: without its lock the next count removes it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether a path still names this open file.
fn is_at(file: &File, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| file.metadata().is_ok_and(|own| own.ino() == there.ino()))
}

/// How many processes are inside. See [`inside`].
///
/// # Errors
/// The folder cannot be read; that it is not there yet is 0.
pub fn count(running: &Path) -> io::Result<u32> {
    Ok(u32::try_from(inside(running)?.len()).unwrap_or(u32::MAX))
}

/// The labels of the processes that are inside. Files of dead ones are removed. Meant for one caller at a time: two
/// may each name a dead file that the other is just removing.
///
/// # Errors
/// The folder cannot be read; one that is not there yet is empty.
pub fn inside(running: &Path) -> io::Result<Vec<OsString>> {
    let mut inside = Vec::new();
    let entries = match fs::read_dir(running) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(inside),
        Err(e) => return Err(e),
    };
    for entry in entries {
        let (path, label) = entry.map(|e| (e.path(), e.file_name()))?;
        // Gone between listing and opening: it has ended.
        let Ok(file) = File::open(&path) else { continue };
        match file.try_lock() {
            // Only who holds the lock of the file that stands there may remove it, so a new one is never hit.
            Ok(()) if is_at(&file, &path) => drop(fs::remove_file(&path)),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => inside.push(label),
            Err(TryLockError::Error(e)) => return Err(e),
        }
    }
    Ok(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_is_inside_counts() {
        let dir = tempfile::tempdir().unwrap();
        let running = dir.path().join("running");
        assert_eq!(count(&running).unwrap(), 0);
        let a = Presence::enter(&running, "a").unwrap();
        let b = Presence::enter(&running, "b").unwrap();
        assert_eq!(count(&running).unwrap(), 2);
        drop(a);
        assert_eq!(count(&running).unwrap(), 1);
        drop(b);
        assert_eq!(count(&running).unwrap(), 0);
    }

    #[test]
    fn a_demo_that_was_removed_is_not_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("demo");
        assert!(Presence::enter(&gone.join("running"), "a").is_err());
        assert!(!gone.exists());
    }

    #[test]
    fn a_file_that_nobody_holds_is_removed_and_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("dead"), "").unwrap();
        assert_eq!(count(dir.path()).unwrap(), 0);
        assert!(!dir.path().join("dead").exists());
    }

    #[test]
    fn entering_survives_a_counter_that_cleans_up_all_the_time() {
        let dir = tempfile::tempdir().unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    assert!(count(dir.path()).unwrap() <= 1);
                }
            });
            for _ in 0..2000 {
                let inside = Presence::enter(dir.path(), "x").unwrap();
                let there = dir.path().join("x");
                assert!(is_at(&inside._file, &there), "a live file was removed");
                drop(inside);
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
