//! The ballast: a file beside the journal that only takes up room. It is removed when a command meets a full disk,
//! so that pause, hold and cancel still fit.

use super::{
    Journal,
    error::StoreError,
    place::{self, Modes, beside, free_bytes},
};
use rustix::fs::{Mode, OFlags};
use std::{fs, io::Write, path::Path};

/// Size of the ballast: room for some ten thousand commands.
pub const BALLAST_BYTES: u64 = 8 * 1024 * 1024;

impl Journal {
    /// Makes the ballast if it is not there whole and the disk has room for it several times over. The holder calls
    /// this when it begins, and again when the disk has room. `true` if the ballast is there now.
    ///
    /// # Errors
    /// It could not be written.
    pub fn ensure_ballast(&self) -> Result<bool, StoreError> {
        let path = beside(&self.path, "-ballast");
        let failed = |doing: &str, e: std::io::Error| StoreError::io(&self.path, doing, &e);
        if fs::symlink_metadata(&path).is_ok_and(|about| about.len() == BALLAST_BYTES) {
            return Ok(true);
        }
        let free = free_bytes(&self.path).map_err(|e| failed("its free space", e))?;
        if free < 4 * BALLAST_BYTES {
            return Ok(false);
        }
        let modes = Modes::of(&self.options).map_err(|e| StoreError::Io {
            path: super::error::show(&self.path),
            what: e.to_string(),
        })?;
        let written = write_ballast(&path, modes);
        if written.is_err() {
            let _ = fs::remove_file(&path);
        }
        written.map(|()| true).map_err(|e| failed("its ballast", e))
    }

    /// Removes the ballast so that its room can be used; `false` if there was none. Commands do this by themselves
    /// when they meet a full disk; the holder may, to record what commands asked for.
    pub fn release_ballast(&self) -> bool {
        release(&self.path)
    }

    /// Whether the ballast is there.
    pub fn has_ballast(&self) -> bool {
        beside(&self.path, "-ballast").exists()
    }
}

/// Removes the ballast of the journal at `journal`; `true` if that made room.
pub(super) fn release(journal: &Path) -> bool {
    let path = beside(journal, "-ballast");
    let had_room = fs::symlink_metadata(&path).is_ok_and(|about| about.is_file() && about.len() > 0);
    had_room && fs::remove_file(&path).is_ok()
}

/// Writes bytes that no file system can compress or leave out.
fn write_ballast(path: &Path, modes: Modes) -> std::io::Result<()> {
    let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o600))?;
    if let Some(gid) = modes.gid {
        rustix::fs::fchown(&file, None, Some(gid))?;
    }
    rustix::fs::fchmod(&file, Mode::from_raw_mode(modes.file() as rustix::fs::RawMode))?;
    let mut file = fs::File::from(file);
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    let mut block = Vec::with_capacity(64 * 1024);
    for _ in 0..BALLAST_BYTES / (64 * 1024) {
        block.clear();
        while block.len() < 64 * 1024 {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            block.extend_from_slice(&noise.to_le_bytes());
        }
        file.write_all(&block)?;
    }
    file.sync_all()?;
    place::sync_directory(path)
}
