//! What must survive a crash of the host, and whoever removes an attempt's folder: which attempts can have started.
//!
//! A dead process takes nothing of the files in an attempt's folder along. A crash of the host does, unless they are
//! forced to the disk, and to force a new file in a new folder means one wait for the
//! file and one for each folder above it. So each start is one line in a file that is there already, one for each
//! backfill and boot, `started/BACKFILL_ID/BOOT` below the state directory, and one wait.

use super::{
    place::{names_in, private_file, private_folder},
    record::ChildRecord,
};
use crate::{
    domain::ids::{AttemptId, BackfillId},
    host::boot_id,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// The first byte of a file whose own name is on the disk.
const READY: u8 = b'#';

#[derive(Serialize, Deserialize)]
struct Line {
    attempt: AttemptId,
    child: ChildRecord,
}

fn folder_of(state: &Path, backfill: &BackfillId) -> PathBuf {
    state.join("started").join(backfill.as_str())
}

/// Writes down that the attempt's process may run from now on. On the disk when this returns.
///
/// # Errors
/// The disk refuses; then the attempt must not start.
pub fn write_start(state: &Path, attempt: &AttemptId, child: &ChildRecord) -> io::Result<()> {
    let folder = folder_of(state, &attempt.backfill);
    let mut file = open(&folder.join(&child.boot))?;
    let mut text = Vec::new();
    // A line begins with a break, so that a torn one before it costs itself only.
    if file.read_at(&mut [0], 0)? == 0 {
        sync_folders(&folder, state)?;
        text.push(READY);
    }
    text.push(b'\n');
    serde_json::to_writer(
        &mut text,
        &Line {
            attempt: attempt.clone(),
            child: child.clone(),
        },
    )?;
    text.push(b'\n');
    // One write to a file that is only appended to: lines of different shims do not mix.
    file.write_all(&text)?;
    file.sync_data()
}

fn open(path: &Path) -> io::Result<File> {
    let open = || private_file().read(true).append(true).create(true).open(path);
    match open() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent() {
                private_folder().recursive(true).create(folder)?;
            }
            open()
        }
        other => other,
    }
}

/// The names from the state directory down to the file. Done by every shim that finds the file empty: whoever made it
/// may not have come so far.
fn sync_folders(folder: &Path, state: &Path) -> io::Result<()> {
    let up_to_state = folder.ancestors().take_while(|f| f.starts_with(state));
    for folder in up_to_state.chain(state.parent()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// The start of an attempt in this boot of the host or an earlier one, if there was one.
///
/// # Errors
/// A file cannot be read, so that nobody can say that there was none.
pub fn start_of(state: &Path, attempt: &AttemptId) -> io::Result<Option<ChildRecord>> {
    // Only the attempt's own line is parsed: every start looks through this, and a long backfill has many lines.
    let begins = format!("{{\"attempt\":{}", serde_json::to_string(attempt)?);
    for (_, path) in names_in(&folder_of(state, &attempt.backfill)) {
        let text = fs::read(&path)?;
        let own = text
            .split(|b| *b == b'\n')
            .filter(|line| line.starts_with(begins.as_bytes()));
        let found = own
            .filter_map(|line| serde_json::from_slice::<Line>(line).ok())
            .find(|line| line.attempt == *attempt);
        if let Some(line) = found {
            return Ok(Some(line.child));
        }
    }
    Ok(None)
}

fn earlier_files(folder: &Path) -> Vec<PathBuf> {
    let now = boot_id();
    names_in(folder)
        .into_iter()
        .filter(|(name, _)| *name != now)
        .map(|(_, path)| path)
        .collect()
}

/// A torn line was never waited for, so its attempt never started.
fn lines(path: &Path) -> io::Result<Vec<Line>> {
    let text = fs::read(path)?;
    Ok(text
        .split(|b| *b == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect())
}

/// Removes the files of earlier boots that name only settled attempts.
pub fn sweep(state: &Path, settled: impl Fn(&AttemptId) -> bool) {
    for (_, folder) in names_in(&state.join("started")) {
        for path in earlier_files(&folder) {
            if lines(&path).is_ok_and(|lines| lines.iter().all(|l| settled(&l.attempt))) {
                let _ = fs::remove_file(path);
            }
        }
        // Only when it is empty.
        let _ = fs::remove_dir(&folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(no: u32) -> AttemptId {
        format!("orders-k3f7qa/2023-11-24/{no}").parse().unwrap()
    }

    fn child(boot: &str, pid: i32) -> ChildRecord {
        ChildRecord {
            pid,
            start: 1,
            boot: boot.to_owned(),
            shim: 2,
            shim_start: 1,
            before: 0,
        }
    }

    #[test]
    fn a_start_is_remembered_in_its_boot_and_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path();
        assert_eq!(start_of(state, &attempt(1)).unwrap(), None);
        for (no, boot) in [(1, "old"), (2, "older"), (3, "old")] {
            write_start(state, &attempt(no), &child(boot, 100)).unwrap();
        }
        write_start(state, &attempt(4), &child(&boot_id(), 100)).unwrap();
        for no in 1..=4 {
            assert!(start_of(state, &attempt(no)).unwrap().is_some(), "{no}");
        }
        assert_eq!(start_of(state, &attempt(33)).unwrap(), None);
    }

    #[test]
    fn a_torn_line_costs_itself_only() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path();
        write_start(state, &attempt(1), &child("old", 1)).unwrap();
        let path = folder_of(state, &attempt(1).backfill).join("old");
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"\n{\"attempt\":\"orders-k3f7qa/2023-11-24/2\",\"chi")
            .unwrap();
        write_start(state, &attempt(3), &child("old", 3)).unwrap();
        assert!(start_of(state, &attempt(1)).unwrap().is_some());
        assert_eq!(start_of(state, &attempt(2)).unwrap(), None);
        assert_eq!(start_of(state, &attempt(3)).unwrap().unwrap().pid, 3);
    }

    #[test]
    fn a_file_of_an_earlier_boot_goes_when_all_its_attempts_are_settled() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path();
        write_start(state, &attempt(1), &child("old", 1)).unwrap();
        write_start(state, &attempt(2), &child("old", 1)).unwrap();
        sweep(state, |a| a.no == 1);
        assert!(start_of(state, &attempt(1)).unwrap().is_some());
        sweep(state, |_| true);
        assert_eq!(start_of(state, &attempt(1)).unwrap(), None);
        assert!(!folder_of(state, &attempt(1).backfill).exists());
    }
}
