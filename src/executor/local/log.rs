//! The capped log file of a run, and the cap on all logs together.

use super::{
    place::{Place, names_in},
    record::{ExitRecord, Found, read},
};
use crate::domain::{ids::AttemptId, text};
use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// How much output one run's log holds.
pub const LOG_CAP: u64 = 64 << 20;
/// How much all logs hold together.
pub const LOGS_CAP: u64 = 5_000_000_000;

/// How much of the end of the output is kept at hand for the last line.
const TAIL: usize = 4096;
/// Length of the line that stands where output was left out.
const MARKER: u64 = 64;

/// What became of a run's output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// Bytes that were left out.
    pub dropped: u64,
    /// The last line that says something, cleaned and at most 200 characters.
    pub last_line: String,
}

/// A file that keeps the beginning and the end of what is written to it.
///
/// When it is full, its middle is left out in one go and a line says how many bytes that were, so that the file
/// shrinks now and then: a reader that follows it starts again from the top when it finds it shorter.
pub struct CappedLog {
    file: File,
    cap: u64,
    size: u64,
    dropped: u64,
    marked: bool,
    tail: Vec<u8>,
}

impl CappedLog {
    /// Writes to an empty file, at most `cap` bytes.
    pub fn new(file: File, cap: u64) -> Self {
        Self {
            file,
            cap: cap.max(16 * MARKER),
            size: 0,
            dropped: 0,
            marked: false,
            tail: Vec::new(),
        }
    }

    /// Copies everything from the pipe until its last writer is gone. A disk that refuses costs output and never
    /// the run.
    pub fn pump(mut self, mut from: impl Read, secrets: &[String]) -> LogEnd {
        let mut buffer = vec![0; 64 << 10];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => self.write(buffer.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        LogEnd {
            dropped: self.dropped,
            last_line: last_line(&self.tail, secrets),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.remember(bytes);
        let limit = usize::try_from(self.cap / 4).unwrap_or(usize::MAX);
        for piece in bytes.chunks(limit) {
            let len = piece.len() as u64;
            if self.size + len > self.cap && self.leave_out_the_middle().is_err() {
                self.dropped += len;
                continue;
            }
            match self.file.write_all_at(piece, self.size) {
                Ok(()) => self.size += len,
                Err(_) => self.dropped += len,
            }
        }
    }

    fn remember(&mut self, bytes: &[u8]) {
        let from = bytes.len().saturating_sub(TAIL);
        self.tail.extend_from_slice(bytes.get(from..).unwrap_or_default());
        if self.tail.len() > 4 * TAIL {
            let surplus = self.tail.len() - TAIL;
            self.tail.drain(..surplus);
        }
    }

    /// Keeps an eighth at the top and the last three eighths, and says between them what is missing.
    fn leave_out_the_middle(&mut self) -> io::Result<()> {
        let head = self.cap / 8;
        let body = if self.marked { head + MARKER } else { head };
        let keep_from = self.next_line((self.size - self.cap * 3 / 8).max(head + MARKER))?;
        let dropped = self.dropped + (keep_from - body);
        let marker = format!("\n[backfill left out {dropped:>20} bytes of output here]");
        let marker = format!("{marker:<width$}\n", width = MARKER as usize - 1);
        self.file.write_all_at(marker.as_bytes(), head)?;
        let (mut from, mut to) = (keep_from, head + MARKER);
        let mut buffer = vec![0; 64 << 10];
        while from < self.size {
            let n = self.file.read_at(&mut buffer, from)?;
            let Some(piece) = buffer.get(..n).filter(|p| !p.is_empty()) else {
                break;
            };
            self.file.write_all_at(piece, to)?;
            from += n as u64;
            to += n as u64;
        }
        self.file.set_len(to)?;
        self.size = to;
        self.dropped = dropped;
        self.marked = true;
        Ok(())
    }

    /// The beginning of the next line, if one begins soon.
    fn next_line(&self, from: u64) -> io::Result<u64> {
        let mut buffer = [0; 1024];
        let n = self.file.read_at(&mut buffer, from)?;
        let newline = buffer.iter().take(n).position(|b| *b == b'\n');
        Ok(from + newline.map_or(0, |at| at as u64 + 1))
    }
}

/// The last line that says something. Progress bars write lines with returns only. Secret values are covered: the
/// line goes into the journal.
fn last_line(tail: &[u8], secrets: &[String]) -> String {
    let mut tail = String::from_utf8_lossy(tail).into_owned();
    for secret in secrets.iter().filter(|s| !s.is_empty()) {
        tail = tail.replace(secret.as_str(), "(secret)");
    }
    let line = tail
        .rsplit(['\n', '\r'])
        .find(|l| !l.trim().is_empty())
        .unwrap_or_default();
    text::one_line(line, 200)
}

/// One log file that may be removed.
struct Candidate {
    path: PathBuf,
    size: u64,
    changed: SystemTime,
    done: bool,
}

/// What pruning did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Bytes of all logs before.
    pub before: u64,
    /// Bytes removed.
    pub removed: u64,
    /// Files removed.
    pub files: u32,
}

/// Removes logs until all together hold at most `cap` bytes: those of runs that succeeded first, oldest first, then
/// those of other ended runs. Logs of runs that have not ended stay, whatever they hold.
pub fn prune_logs(state: &Path, cap: u64) -> Pruned {
    let files = all_logs(state);
    let mut pruned = Pruned {
        before: files.iter().map(|f| f.2.len()).sum(),
        ..Pruned::default()
    };
    if pruned.before <= cap {
        return pruned;
    }
    let mut candidates: Vec<Candidate> = files.into_iter().filter_map(|f| candidate(state, f)).collect();
    candidates.sort_by_key(|c| (!c.done, c.changed));
    for candidate in candidates {
        if pruned.before - pruned.removed <= cap {
            break;
        }
        if fs::remove_file(&candidate.path).is_ok() {
            pruned.removed += candidate.size;
            pruned.files += 1;
        }
    }
    pruned
}

fn all_logs(state: &Path) -> Vec<(AttemptId, PathBuf, fs::Metadata)> {
    let mut found = Vec::new();
    for (backfill, path) in names_in(&state.join("logs")) {
        for (chunk, path) in names_in(&path) {
            for (name, path) in names_in(&path) {
                let attempt = name
                    .strip_suffix(".log")
                    .map(|no| format!("{backfill}/{chunk}/{no}").parse());
                if let (Some(Ok(attempt)), Ok(meta)) = (attempt, fs::symlink_metadata(&path)) {
                    found.push((attempt, path, meta));
                }
            }
        }
    }
    found
}

fn candidate(state: &Path, (attempt, path, meta): (AttemptId, PathBuf, fs::Metadata)) -> Option<Candidate> {
    let place = Place::new(state, &attempt);
    let done = match read::<ExitRecord>(&place.exit()) {
        Ok(Found::Whole(exit)) => exit.code == Some(0),
        Ok(Found::Damaged) => false,
        // No folder: the attempt was settled and swept away.
        Ok(Found::Absent) if !place.folder().exists() => true,
        _ => return None,
    };
    Some(Candidate {
        path,
        size: meta.len(),
        changed: meta.modified().ok()?,
        done,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::local::{place::private_file, record::write_atomically};
    use std::time::Duration;

    fn pumped(cap: u64, lines: impl Iterator<Item = String>) -> (String, LogEnd) {
        let file = tempfile::tempfile().unwrap();
        let input: String = lines.collect();
        let end = CappedLog::new(file.try_clone().unwrap(), cap).pump(input.as_bytes(), &[]);
        let mut text = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
        file.read_exact_at(&mut text, 0).unwrap();
        (String::from_utf8(text).unwrap(), end)
    }

    #[test]
    fn a_log_keeps_its_beginning_and_its_end_and_says_exactly_how_much_is_missing() {
        for lines in [10u32, 100, 1_000, 5_000, 30_000] {
            let input = || (0..lines).map(|i| format!("line {i:06} {}\n", "x".repeat(40)));
            let total: usize = input().map(|l| l.len()).sum();
            let (text, end) = pumped(256 << 10, input());
            assert!(text.len() <= 256 << 10, "{lines}");
            assert!(text.starts_with("line 000000 "));
            assert!(text.ends_with(&input().next_back().unwrap()));
            assert_eq!(end.last_line, input().next_back().unwrap().trim());
            let marked = if end.dropped == 0 { 0 } else { MARKER as usize };
            assert_eq!(text.len() - marked + end.dropped as usize, total, "{lines}");
            let says = text.contains(&format!("left out {:>20} bytes", end.dropped));
            assert_eq!(says, end.dropped > 0);
            assert_eq!(text.matches("left out").count(), usize::from(end.dropped > 0));
        }
    }

    #[test]
    fn a_log_without_line_breaks_is_capped_too() {
        let (text, end) = pumped(64 << 10, std::iter::repeat_n("z".repeat(10_000), 50));
        assert!(text.len() <= 64 << 10);
        assert_eq!(text.matches('z').count() as u64 + end.dropped, 500_000);
    }

    #[test]
    fn the_last_line_is_clean_short_and_without_secrets() {
        let secrets = ["hunter2".to_owned(), String::new()];
        assert_eq!(
            last_line(b"one\nERR \x1b[31mpw=hunter2\n\n  \n", &secrets),
            "ERR ^[[31mpw=(secret)"
        );
        assert_eq!(last_line(b"10%\r20%\rboom\r", &[]), "boom");
        assert_eq!(last_line(b"\xff\xfe", &[]), "\u{fffd}\u{fffd}");
        assert_eq!(last_line("z".repeat(999).as_bytes(), &[]).len(), 200);
        assert_eq!(last_line(b"", &[]), "");
    }

    fn ended(state: &Path, chunk: &str, code: Option<i32>, age: u64) -> PathBuf {
        let attempt: AttemptId = format!("orders-k3f7qa/{chunk}/1").parse().unwrap();
        let place = Place::new(state, &attempt);
        place.make_folder().unwrap();
        if let Some(code) = code {
            let record = ExitRecord {
                code: Some(code),
                signal: None,
                started_ms: 0,
                ended_ms: 0,
                peak: None,
                stop: None,
                cancel_asked: false,
                left_over: 0,
                dropped: 0,
                last_line: String::new(),
            };
            write_atomically(&place.exit(), &record).unwrap();
        }
        place.open_log().unwrap().set_len(1000).unwrap();
        let file = private_file().write(true).open(place.log()).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age))
            .unwrap();
        place.log().to_owned()
    }

    #[test]
    fn pruning_takes_done_runs_first_oldest_first_and_never_a_run_that_has_not_ended() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path();
        let running = ended(state, "2023-01-01", None, 900);
        let failed = ended(state, "2023-01-02", Some(1), 800);
        let old = ended(state, "2023-01-03", Some(0), 700);
        let young = ended(state, "2023-01-04", Some(0), 10);
        assert_eq!(
            prune_logs(state, 4000),
            Pruned {
                before: 4000,
                removed: 0,
                files: 0
            }
        );
        assert_eq!(
            prune_logs(state, 3000),
            Pruned {
                before: 4000,
                removed: 1000,
                files: 1
            }
        );
        assert!(!old.exists() && young.exists());
        prune_logs(state, 2000);
        assert!(!young.exists() && failed.exists());
        prune_logs(state, 0);
        assert!(!failed.exists() && running.exists());
    }
}
