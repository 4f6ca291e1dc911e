//! A file system in user space is refused: shown on a real one, which the kernel mounts and this test answers.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use backfill::journal::{Journal, OpenError, Options};
use std::{
    fs::File,
    io::{Read, Write},
    os::fd::AsRawFd,
    path::Path,
    process::Command,
};

/// The least file system there is: an empty directory.
struct EmptyFuse {
    dir: tempfile::TempDir,
}

impl EmptyFuse {
    /// `None` where this user may not mount.
    fn new() -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        // The mount command hands its copy of the device to the kernel.
        rustix::io::fcntl_setfd(&device, rustix::io::FdFlags::empty()).ok()?;
        let dir = tempfile::tempdir().unwrap();
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let mounted = Command::new("mount")
            .args(["-i", "-t", "fuse", "-o", &options, "none"])
            .arg(dir.path())
            .output()
            .is_ok_and(|out| out.status.success());
        if !mounted {
            return None;
        }
        std::thread::spawn(move || answer_all(device));
        Some(Self { dir })
    }
}

impl Drop for EmptyFuse {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).output();
    }
}

/// Answers the kernel until the file system is unmounted.
fn answer_all(mut device: File) {
    const NO_ENTRY: i32 = -2;
    const NOT_IMPLEMENTED: i32 = -38;
    let mut request = vec![0; 1 << 16];
    while let Ok(length) = device.read(&mut request) {
        if length < 40 {
            return;
        }
        let number = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().unwrap());
        let answer = match number(4) {
            // Forgetting and interrupting are not answered.
            2 | 36 | 42 => continue,
            26 => Ok(init(number(44))),
            3 => Ok(attributes_of_root()),
            17 => Ok(vec![0; 80]),
            1 => Err(NO_ENTRY),
            _ => Err(NOT_IMPLEMENTED),
        };
        let (error, body) = answer.map_or_else(|error| (error, Vec::new()), |body| (0, body));
        let mut reply = Vec::new();
        reply.extend((16 + body.len() as u32).to_le_bytes());
        reply.extend(error.to_le_bytes());
        reply.extend(&request[8..16]);
        reply.extend(body);
        if device.write_all(&reply).is_err() {
            return;
        }
    }
}

fn init(kernel_minor: u32) -> Vec<u8> {
    let mut body = Vec::new();
    for field in [7, kernel_minor.min(31), 4096, 0, 0, 4096, 1] {
        body.extend(u32::to_le_bytes(field));
    }
    body.resize(64, 0);
    body
}

fn attributes_of_root() -> Vec<u8> {
    let mut body = vec![0; 16];
    for field in [1_u64, 0, 0, 0, 0, 0] {
        body.extend(field.to_le_bytes());
    }
    for field in [0_u32, 0, 0, 0o40_777, 2, 0, 0, 0, 4096, 0] {
        body.extend(field.to_le_bytes());
    }
    body
}

#[test]
fn a_journal_on_a_file_system_in_user_space_is_refused_before_anything_is_made() {
    let Some(mount) = EmptyFuse::new() else {
        eprintln!("skipped: this user cannot mount a file system in user space");
        return;
    };
    let root: &Path = mount.dir.path();
    for path in [root.join("journal.db"), root.join("state/backfill/journal.db")] {
        let error = Journal::open(&path, Options::default()).unwrap_err();
        assert!(matches!(error, OpenError::FileSystem { .. }), "{error}");
        assert!(error.to_string().contains("journal.path"), "{error}");
        assert!(error.to_string().contains("FUSE"), "{error}");
    }
    let error = Journal::open_read_only(&root.join("journal.db"), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::FileSystem { .. }), "{error}");
}
