//! Where an attempt's files are.

use crate::domain::ids::AttemptId;
use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// The files of one attempt below the state directory.
///
/// The texts of a backfill id, a chunk id and a number are file names as they stand: their alphabets are
/// `[a-z0-9-]`, `[0-9T+-]` and digits, none of them is empty, `.` or `..`, and none holds a `/`. So the way from an
/// attempt to its folder is injective, also where the file system does not tell capitals from small letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    folder: PathBuf,
    log: PathBuf,
}

impl Place {
    /// The place of an attempt.
    pub fn new(state: &Path, attempt: &AttemptId) -> Self {
        let below = |top: &str| {
            state
                .join(top)
                .join(attempt.backfill.as_str())
                .join(attempt.chunk.to_string())
        };
        Self {
            folder: below("attempts").join(attempt.no.to_string()),
            log: below("logs").join(format!("{}.log", attempt.no)),
        }
    }

    /// The folder with the attempt's own files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Locked by the shim for as long as it lives.
    pub fn claim(&self) -> PathBuf {
        self.folder.join("claim")
    }

    /// Which process runs the command; written before the command can start.
    pub fn child(&self) -> PathBuf {
        self.folder.join("child")
    }

    /// How it ended.
    pub fn exit(&self) -> PathBuf {
        self.folder.join("exit")
    }

    /// Its presence asks the shim to end the run.
    pub fn cancel(&self) -> PathBuf {
        self.folder.join("cancel")
    }

    /// When somebody found that the attempt never ran; orders sent before that are void.
    pub fn fence(&self) -> PathBuf {
        self.folder.join("fence")
    }

    /// What the command printed.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Makes the attempt's folder.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn make_folder(&self) -> io::Result<()> {
        private_folder().recursive(true).create(&self.folder)
    }

    /// The claim's file, made if need be.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_claim(&self) -> io::Result<File> {
        private_file()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.claim())
    }

    /// Opens the log for writing, empty.
    ///
    /// # Errors
    /// The file or its folder cannot be made.
    pub fn open_log(&self) -> io::Result<File> {
        let open = || {
            private_file()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&self.log)
        };
        match open() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if let Some(parent) = self.log.parent() {
                    private_folder().recursive(true).create(parent)?;
                }
                open()
            }
            other => other,
        }
    }
}

/// Options for a file that only its owner can read.
pub fn private_file() -> OpenOptions {
    let mut options = File::options();
    options.mode(0o600);
    options
}

/// Makes folders that only their owner can enter.
pub fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// All attempts that have a folder below the state directory, in no particular order. Names that are none of ours
/// are passed over.
pub fn attempts_in(state: &Path) -> Vec<AttemptId> {
    let mut found = Vec::new();
    for (backfill, path) in names_in(&state.join("attempts")) {
        for (chunk, path) in names_in(&path) {
            for (no, _) in names_in(&path) {
                if let Ok(attempt) = format!("{backfill}/{chunk}/{no}").parse() {
                    found.push(attempt);
                }
            }
        }
    }
    found
}

/// The entries of a folder; none if it cannot be read.
pub fn names_in(folder: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok().map(|name| (name, e.path())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::{BackfillId, ChunkId};
    use chrono::NaiveDate;
    use proptest::prelude::*;
    use std::{collections::BTreeMap, os::unix::fs::PermissionsExt};

    fn any_attempt() -> impl Strategy<Value = AttemptId> {
        let chunk = (0i64..40, prop::option::of((0u8..24, -4i16..=4)));
        (
            0u32..4,
            chunk,
            1u32..30,
            prop::sample::select(vec!["a", "a-b", "a-1"]),
        )
            .prop_map(|(drawn, (day, hour), no, name)| {
                let date = NaiveDate::from_ymd_opt(2023, 10, 1).unwrap() + chrono::Duration::days(day);
                AttemptId {
                    backfill: BackfillId::new(&name.parse().unwrap(), drawn),
                    chunk: hour.map_or(ChunkId::day(date), |(h, quarter)| {
                        ChunkId::hour(date, h, quarter * 15)
                    }),
                    no,
                }
            })
    }

    proptest! {
        #[test]
        fn no_two_attempts_share_a_folder_or_a_log_even_without_capitals(attempts in prop::collection::vec(any_attempt(), 2..40)) {
            let mut seen: BTreeMap<String, AttemptId> = BTreeMap::new();
            for attempt in attempts {
                let place = Place::new(Path::new("/s"), &attempt);
                for path in [place.folder(), place.log()] {
                    prop_assert!(path.components().all(|c| !matches!(c, std::path::Component::ParentDir)));
                    prop_assert_eq!(path.components().count(), 6);
                    let text = path.to_str().unwrap().to_lowercase();
                    let owner = seen.entry(text).or_insert_with(|| attempt.clone());
                    prop_assert_eq!(&*owner, &attempt);
                }
            }
        }
    }

    #[test]
    fn folders_are_for_their_owner_only_and_their_attempts_are_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let attempt: AttemptId = "orders-k3f7qa/2023-10-29T02+0100/1".parse().unwrap();
        let place = Place::new(dir.path(), &attempt);
        place.make_folder().unwrap();
        place.make_folder().unwrap();
        for folder in place.folder().ancestors().take(4) {
            let mode = fs::metadata(folder).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{}", folder.display());
        }
        assert_eq!(attempts_in(dir.path()), [attempt]);
    }
}
