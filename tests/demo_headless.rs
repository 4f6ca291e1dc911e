//! Proof 1: the demo without a screen, as a newcomer starts it. The real binary, a supervisor, sixty processes and
//! what they leave on disk.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

struct Run {
    dir: tempfile::TempDir,
    code: Option<i32>,
    summary: Value,
}

/// `backfill demo --headless --days 60 --faults FAULTS --json --dir DIR`.
fn demo(faults: &str) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let out = backfill(
        &[
            "demo",
            "--headless",
            "--days",
            "60",
            "--faults",
            faults,
            "--json",
            "--dir",
        ],
        dir.path(),
    );
    let printed = String::from_utf8(out.stdout).unwrap();
    let last = printed.lines().last().unwrap_or_else(|| {
        panic!("nothing printed: {}", String::from_utf8_lossy(&out.stderr));
    });
    Run {
        code: out.status.code(),
        summary: serde_json::from_str(last).unwrap(),
        dir,
    }
}

fn backfill(arguments: &[&str], last: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_backfill"))
        .args(arguments)
        .arg(last)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

impl Run {
    fn count(&self, key: &str) -> u64 {
        self.summary[key].as_u64().unwrap()
    }

    /// The partitions in the warehouse that are not empty.
    fn partitions(&self) -> Vec<PathBuf> {
        let mut all: Vec<_> = fs::read_dir(self.dir.path().join("warehouse"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| {
                p.file_name()
                    .is_some_and(|n| n.to_string_lossy().starts_with("dt="))
            })
            .map(|p| p.join("part-0.csv"))
            .filter(|p| fs::metadata(p).is_ok_and(|m| m.len() > 0))
            .collect();
        all.sort();
        all
    }

    /// The journal's events about one day, oldest first.
    fn events_of(&self, day: &str) -> Vec<Value> {
        let config = self.dir.path().join("config.toml");
        let out = backfill(&["events", "orders", "--json", "--config"], &config);
        assert!(out.status.success());
        String::from_utf8(out.stdout)
            .unwrap()
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).unwrap())
            .filter(|e| {
                e["attempt"]
                    .as_str()
                    .is_some_and(|a| a.contains(&format!("/{day}/")))
            })
            .collect()
    }

    /// How the attempts of a day ended: the number of the attempt, *done* or the failure's class, and the profile's
    /// place on the ladder.
    fn ends_of(&self, day: &str) -> Vec<(String, String, u64)> {
        let events = self.events_of(day);
        let of_kind = |kind: &'static str| events.iter().filter(move |e| e["kind"] == kind);
        of_kind("run-ended")
            .map(|end| {
                let attempt = end["attempt"].as_str().unwrap();
                let intent = of_kind("submission-intended")
                    .find(|e| e["attempt"] == attempt)
                    .unwrap();
                let class = end["outcome"]["failure"]["class"].as_str().unwrap_or("done");
                let no = attempt.rsplit('/').next().unwrap();
                (
                    no.to_owned(),
                    class.to_owned(),
                    intent["profile"].as_u64().unwrap(),
                )
            })
            .collect()
    }
}

#[test]
fn without_faults_all_sixty_days_are_done_at_their_first_attempt_and_on_disk() {
    let run = demo("none");
    assert_eq!(run.code, Some(0), "{}", run.summary);
    assert_eq!(run.summary["state"], "complete");
    let counts = ["chunks", "done", "attempts", "failed", "quarantined"].map(|k| run.count(k));
    assert_eq!(counts, [60, 60, 60, 0, 0], "{}", run.summary);
    assert_eq!(run.partitions().len(), 60);
}

#[test]
fn with_faults_the_heavy_day_ends_on_a_larger_profile_and_the_torn_one_is_quarantined() {
    let run = demo("default");
    assert_eq!(run.code, Some(1), "{}", run.summary);
    assert_eq!(run.summary["state"], "incomplete");
    let counts = ["chunks", "done", "failed", "quarantined"].map(|k| run.count(k));
    assert_eq!(counts, [60, 59, 0, 1], "{}", run.summary);
    assert_eq!(run.partitions().len(), 59);

    let of_black_friday = run.ends_of("2024-11-29");
    let expected = [("1", "oom", 0), ("2", "done", 1)]
        .map(|(no, end, profile)| (no.to_owned(), end.to_owned(), profile));
    assert_eq!(of_black_friday, expected);

    // The day without a partition is the one that failed as bad data, at once and once.
    let there = run.partitions();
    let has = |day: &str| there.iter().any(|p| p.to_string_lossy().contains(day));
    let first: chrono::NaiveDate = "2024-11-02".parse().unwrap();
    let torn: Vec<String> = first
        .iter_days()
        .take(60)
        .map(|d| d.to_string())
        .filter(|d| !has(d))
        .collect();
    let [torn] = torn.as_slice() else {
        panic!("{torn:?}")
    };
    assert_eq!(run.ends_of(torn), [("1".to_owned(), "data".to_owned(), 0)]);
}
