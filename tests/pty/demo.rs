//! `backfill demo` in a pseudo-terminal, beside the same program on the same configuration as a second witness.

use super::Session;
use chrono::{DateTime, Utc};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long anything may take before a test gives up. Never a measure of speed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Who sits at the demo's screen.
pub const WHO: &str = "nadia";

/// A demo's words on the command line. It is calm, so that what a test sees does not depend on drawn faults.
pub fn words(dir: &Path, more: &[&str]) -> Vec<String> {
    let fixed = ["demo", "--as", WHO, "--faults", "none", "--dir"];
    let program = [env!("CARGO_BIN_EXE_backfill")].into_iter();
    program
        .chain(fixed)
        .chain([dir.to_str().unwrap()])
        .chain(more.iter().copied())
        .map(str::to_owned)
        .collect()
}

/// A demo with its screen in a terminal of its own.
pub struct DemoScreen {
    pub session: Session,
    pub world: World,
}

impl Drop for DemoScreen {
    /// Leaves the demo in order, so that nothing of it works on in a folder that is about to be removed.
    fn drop(&mut self) {
        if !self.session.has_ended() {
            self.session.signal(Signal::TERM);
            let until = Instant::now() + PATIENCE;
            while !self.session.has_ended() && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// The folder of a demo, and what the program says about it from outside.
pub struct World {
    dir: tempfile::TempDir,
}

impl World {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// The demo's own folder.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("demo")
    }

    pub fn config(&self) -> PathBuf {
        self.root().join("config.toml")
    }

    /// Runs another command on the demo's configuration; what it printed. A code that is no failure passes.
    pub fn tell(&self, words: &[&str]) -> String {
        let out = Command::new(env!("CARGO_BIN_EXE_backfill"))
            .args(words)
            .arg("--config")
            .arg(self.config())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        // Not going on, paused and blind are answers of `status`, and not failures.
        assert!(
            matches!(out.status.code(), Some(0 | 1 | 3 | 4)),
            "{words:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).unwrap()
    }

    /// `status --json`.
    pub fn status(&self) -> Status {
        Status(serde_json::from_str(&self.tell(&["status", "--json"])).unwrap())
    }

    /// `events orders --json`.
    pub fn events(&self) -> Vec<Value> {
        let text = self.tell(&["events", "orders", "--json"]);
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    }

    /// Waits until `status --json` is as wanted.
    pub fn wait(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < until, "{what} never came: {}", status.0);
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Pauses from outside and waits until nothing runs any more: from then on the journal stands still.
    pub fn pause(&self) {
        self.tell(&["pause", "orders", "--as", WHO]);
        self.wait("an idle demo", |s| s.running() == 0);
    }

    /// How many partitions are on disk.
    pub fn partitions(&self) -> usize {
        let days = std::fs::read_dir(self.root().join("warehouse")).unwrap();
        days.map(|d| d.unwrap().path().join("part-0.csv"))
            .filter(|p| p.is_file())
            .count()
    }

    /// The command lines of all processes that have to do with this demo.
    #[cfg(target_os = "linux")]
    pub fn processes(&self) -> Vec<String> {
        let root = self.root();
        let text = root.to_str().unwrap();
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = entries.filter(|e| e.file_name().to_string_lossy().parse::<u32>().is_ok());
        numbers
            .filter_map(|e| {
                // A process may end while it is looked at.
                let line = std::fs::read(e.path().join("cmdline")).ok()?;
                let line = String::from_utf8_lossy(&line).replace('\0', " ");
                let at = std::fs::read_link(e.path().join("cwd")).unwrap_or_default();
                (line.contains(text) || at.starts_with(&root))
                    .then(|| format!("{}: {line}", e.file_name().to_string_lossy()))
            })
            .collect()
    }

    /// Elsewhere processes cannot be looked at; that the holder of the lease is gone is all that is asked.
    #[cfg(not(target_os = "linux"))]
    pub fn processes(&self) -> Vec<String> {
        self.status().holder().into_iter().collect()
    }
}

/// What `status --json` said.
pub struct Status(Value);

impl Status {
    fn orders(&self) -> &Value {
        &self.0["backfills"][0]
    }

    pub fn holder(&self) -> Option<String> {
        self.0["holder"].as_str().map(str::to_owned)
    }

    pub fn state(&self) -> &str {
        self.orders()["state"].as_str().unwrap()
    }

    pub fn running(&self) -> u64 {
        self.orders()["running"].as_u64().unwrap()
    }

    /// How many chunks are in this state.
    pub fn count(&self, state: &str) -> usize {
        let n = self.orders()["counts"][state].as_u64().unwrap_or(0);
        usize::try_from(n).unwrap()
    }

    pub fn done(&self) -> usize {
        self.count("done")
    }

    pub fn paused_by(&self) -> Option<&str> {
        self.orders()["paused_by"].as_str()
    }
}

impl DemoScreen {
    /// Opens a demo and waits for its calendar.
    pub fn open(cols: u16, rows: u16, more: &[&str]) -> Self {
        let world = World::new();
        let words = words(&world.root(), more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let session = Session::run(cols, rows, &words);
        let demo = Self { session, world };
        demo.wait_open();
        demo
    }

    /// Waits for the calendar with the backfill in it.
    pub fn wait_open(&self) {
        self.session.wait_for("1 CALENDAR");
        self.session.wait_for("orders  DEMO");
    }

    /// Waits until so many days are done, as the screen says it.
    pub fn wait_done(&self, least: usize) {
        self.session.wait(&format!("DONE {least}"), |s| {
            done_figure(&s.contents()).is_some_and(|n| n >= least)
        });
    }

    /// The figure under DONE.
    pub fn done(&self) -> Option<usize> {
        done_figure(&self.session.text())
    }

    /// Moves the cursor to a day.
    pub fn go(&mut self, day: &str) {
        self.session.keys(&format!("g{day}\r"));
        self.session.wait(&format!("the cursor on {day}"), |s| {
            cursor_line(&s.contents()).contains(day)
        });
    }
}

/// The line that speaks about the day under the cursor.
pub fn cursor_line(text: &str) -> &str {
    text.trim_end().rsplit('\n').nth(1).unwrap_or_default()
}

/// The number below the word DONE in the header.
pub fn done_figure(text: &str) -> Option<usize> {
    let mut lines = text.lines().skip(1);
    let (labels, values) = (lines.next()?, lines.next()?);
    let before = labels.split_once("DONE")?.0.chars().count();
    let figure = values.chars().skip(before);
    let digits: String = figure.take_while(|c| c.is_ascii_digit() || *c == ',').collect();
    digits.replace(',', "").parse().ok()
}

/// How many cells of the calendar are done ones. Small calendars draw a cell as one glyph, large ones as a pair of
/// halves, and the cell under the cursor as one glyph in both.
pub fn done_cells(text: &str) -> usize {
    let lines = text.lines().skip_while(|l| !l.trim_start().starts_with("Mo "));
    let week = lines.take(7);
    // To the right of the weeks stand the legend, the strip and the drawer.
    let narrow = text.lines().map(|l| l.chars().count()).max().unwrap_or(0) <= 80;
    let end = if narrow { 60 } else { 118 };
    let cells = |line: &str| -> usize {
        let line: String = line.chars().take(end).collect();
        line.matches('▪').count() + line.matches("▗▖").count()
    };
    week.map(cells).sum()
}

/// The events of a kind.
pub fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|e| e["kind"] == kind).collect()
}

/// When an event happened.
pub fn at(event: &Value) -> DateTime<Utc> {
    event["at"].as_str().unwrap().parse().unwrap()
}

/// Its place in the journal.
pub fn seq(event: &Value) -> u64 {
    event["seq"].as_u64().unwrap()
}
