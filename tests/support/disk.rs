//! A disk that a test can fill up.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A small file system of its own, for filling it up. `None` where that needs rights that we have not.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    pub fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64m,mode=0700", "backfill-test"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|s| s.success()).then(|| Self(at.to_owned()))
    }

    /// Mounts it for reading only from now on.
    pub fn forbid_writing(&self) {
        let remounted = Command::new("mount")
            .args(["-o", "remount,ro"])
            .arg(&self.0)
            .status()
            .unwrap();
        assert!(remounted.success());
    }

    pub fn fill(&self) {
        let mut size = 1 << 20;
        let mut parts = 0;
        // Ever smaller files, until not even one more page fits.
        while size >= 4096 {
            parts += 1;
            let file = self.0.join(format!("filler-{parts}"));
            if fs::write(file, vec![1u8; size]).is_err() {
                size /= 2;
            }
        }
    }

    pub fn empty(&self) {
        for entry in fs::read_dir(&self.0).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("filler-") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
