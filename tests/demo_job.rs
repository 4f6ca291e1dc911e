//! The demo's data work as a real process: right partitions, replaced whole, whatever happens to it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use backfill::{
    demo::{presence, publish, raw},
    host,
};
use chrono::NaiveDate;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// A folder with raw events and a warehouse.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.raw()).unwrap();
        place
    }

    fn raw(&self) -> PathBuf {
        self.0.path().join("raw")
    }

    fn warehouse(&self) -> PathBuf {
        self.0.path().join("warehouse")
    }

    fn running(&self) -> PathBuf {
        self.0.path().join("running")
    }

    /// Gives a day the raw events of a seed.
    fn events(&self, ds: &str, seed: u64) {
        raw::write_day(&self.raw(), seed, date(ds), false).unwrap();
    }

    fn partition(&self, ds: &str) -> Option<Vec<u8>> {
        fs::read(publish::part_of(&self.warehouse(), date(ds))).ok()
    }

    /// The job for a day and attempt, without faults.
    fn job(&self, ds: &str, no: u32, pace: f64) -> Command {
        self.job_with(ds, no, pace, "none")
    }

    fn job_with(&self, ds: &str, no: u32, pace: f64, faults: &str) -> Command {
        let mut job = Command::new(env!("CARGO_BIN_EXE_backfill"));
        job.arg("__demo-job")
            .args(["--raw".as_ref(), self.raw().as_os_str()])
            .args(["--warehouse".as_ref(), self.warehouse().as_os_str()])
            .args(["--running".as_ref(), self.running().as_os_str()])
            .args(["--ds", ds, "--seed", "1", "--faults", faults])
            .args(["--attempt", &format!("orders-aaaaaa/{ds}/{no}")])
            .args(["--pace", &pace.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        job
    }

    fn run(&self, ds: &str, no: u32) -> Output {
        self.job(ds, no, 0.0).output().unwrap()
    }

    fn run_well(&self, ds: &str, no: u32) -> Vec<u8> {
        let output = self.run(ds, no);
        assert!(output.status.success(), "{}", words(&output.stderr));
        self.partition(ds).unwrap()
    }
}

fn date(ds: &str) -> NaiveDate {
    ds.parse().unwrap()
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Starts a job that takes seconds and comes back when it is a quarter through.
fn under_way(mut job: Command) -> Child {
    let mut child = job.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap().trim_start().starts_with("25 %")),
        "it ended before a quarter"
    );
    // The rest of its output is read, so that it never meets a closed pipe.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// Adds raw events up in another way than the job does: one pass over all lines for each group.
fn added_up(raw: &Path) -> String {
    let text = fs::read_to_string(raw).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split(',').collect()).collect();
    let groups: BTreeSet<(&str, &str)> = rows.iter().map(|r| (r[2], r[3])).collect();
    let mut out = "country,category,orders,units,revenue_cents\n".to_owned();
    for group in groups {
        let of_group = || rows.iter().filter(|r| (r[2], r[3]) == group);
        let number = |r: &Vec<&str>, i: usize| r[i].parse::<u64>().unwrap();
        let units: u64 = of_group().map(|r| number(r, 4)).sum();
        let cents: u64 = of_group().map(|r| number(r, 4) * number(r, 5)).sum();
        out += &format!("{},{},{},{units},{cents}\n", group.0, group.1, of_group().count());
    }
    out
}

#[test]
fn a_partition_holds_what_the_raw_events_add_up_to() {
    let place = Place::new();
    for ds in ["2024-11-28", "2024-11-29", "2024-12-01"] {
        place.events(ds, 1);
        let partition = place.run_well(ds, 1);
        assert_eq!(
            words(&partition),
            added_up(&raw::file_of(&place.raw(), date(ds))),
            "{ds}"
        );
    }
}

#[test]
fn running_it_again_gives_the_same_bytes_and_touches_no_other_partition() {
    let place = Place::new();
    for ds in ["2024-11-27", "2024-11-28"] {
        place.events(ds, 1);
        place.run_well(ds, 1);
    }
    let other = publish::part_of(&place.warehouse(), date("2024-11-27"));
    let before = fs::metadata(&other).unwrap().modified().unwrap();
    let first = place.partition("2024-11-28").unwrap();
    assert_eq!(place.run_well("2024-11-28", 2), first);
    assert_eq!(place.run_well("2024-11-28", 3), first);
    assert_eq!(fs::metadata(&other).unwrap().modified().unwrap(), before);
}

#[test]
fn progress_is_told_and_a_reader_that_goes_away_does_not_stop_the_work() {
    let place = Place::new();
    place.events("2024-11-28", 1);
    let told = words(&place.run("2024-11-28", 1).stdout);
    for part in [
        "orders-aaaaaa/2024-11-28/1 reads",
        "events, ",
        "50 %",
        "100 %",
        "published ",
    ] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    let mut child = place.job("2024-11-28", 2, 0.1).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

/// Case B21.
#[test]
fn a_job_killed_in_the_middle_leaves_the_old_partition_and_counts_no_more() {
    let place = Place::new();
    let ds = "2024-11-28";
    place.events(ds, 1);
    let old = place.run_well(ds, 1);
    place.events(ds, 2);
    let mut child = under_way(place.job(ds, 2, 4.0));
    assert_eq!(presence::count(&place.running()).unwrap(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(presence::count(&place.running()).unwrap(), 0);
    assert_eq!(place.partition(ds), Some(old.clone()));
    let new = place.run_well(ds, 3);
    assert_ne!(new, old);
    let left = fs::read_dir(place.warehouse().join(".staging")).unwrap().count();
    assert_eq!(left, 0, "half written files stay behind");
}

#[test]
fn a_first_attempt_killed_in_the_middle_leaves_no_partition_at_all() {
    let place = Place::new();
    place.events("2024-11-28", 1);
    let mut child = under_way(place.job("2024-11-28", 1, 4.0));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!place.warehouse().join("dt=2024-11-28").exists());
}

/// The publish fence of law C7: the late attempt read older raw events and must not bring them back.
#[test]
fn a_late_attempt_cannot_overwrite_what_a_newer_one_published() {
    let place = Place::new();
    let ds = "2024-11-28";
    place.events(ds, 1);
    let late = under_way(place.job(ds, 1, 2.0));
    // It sleeps through all that the newer one does.
    let pid = Pid::from_child(&late);
    kill_process(pid, Signal::STOP).unwrap();
    place.events(ds, 2);
    let new = place.run_well(ds, 2);
    kill_process(pid, Signal::CONT).unwrap();
    let output = late.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(73));
    let said = words(&output.stderr);
    assert!(
        said.contains("orders-aaaaaa/2024-11-28/2 is: nothing was published"),
        "{said}"
    );
    assert_eq!(place.partition(ds), Some(new));
    // And it cannot start again either.
    assert_eq!(place.run(ds, 1).status.code(), Some(73));
}

/// Case B21: attempts that publish by turns two versions, every third one killed at some instant, under the eyes of
/// a reader.
#[test]
fn a_reader_finds_the_old_or_the_new_partition_at_every_instant_and_never_none() {
    let place = Place::new();
    let ds = "2024-11-28";
    let version = |seed| {
        place.events(ds, seed);
        added_up(&raw::file_of(&place.raw(), date(ds))).into_bytes()
    };
    let versions = [version(1), version(2)];
    place.run_well(ds, 1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut seen = [0u32; 2];
            while !stop.load(Ordering::Relaxed) {
                let found = place.partition(ds).expect("a hole where a partition was");
                let which = versions.iter().position(|v| *v == found);
                seen[which.expect("a partition that is neither the old nor the new one")] += 1;
            }
            seen
        });
        for no in 2..40 {
            place.events(ds, u64::from(no % 2) + 1);
            let mut child = place.job(ds, no, 0.0).spawn().unwrap();
            if no % 3 == 0 {
                std::thread::sleep(Duration::from_micros(u64::from(no) * 500));
                child.kill().unwrap();
            }
            child.wait().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        let seen = reader.join().unwrap();
        assert!(
            seen.iter().all(|n| *n > 0),
            "the reader has to see both: {seen:?}"
        );
    });
}

#[test]
fn torn_raw_events_are_a_failure_of_the_data_that_names_file_and_line() {
    let place = Place::new();
    let ds = "2024-11-28";
    place.events(ds, 1);
    let old = place.run_well(ds, 1);
    raw::write_day(&place.raw(), 1, date(ds), true).unwrap();
    let output = place.run(ds, 2);
    assert_eq!(output.status.code(), Some(65));
    let file = raw::file_of(&place.raw(), date(ds));
    let text = fs::read_to_string(&file).unwrap();
    let line = 1 + text.lines().position(|l| l.split(',').count() != 6).unwrap();
    let said = words(&output.stderr);
    assert!(
        said.contains(&format!(
            "{}:{line}: 2 fields where 6 are expected",
            file.display()
        )),
        "{said}"
    );
    assert_eq!(place.partition(ds), Some(old));
}

#[test]
fn missing_raw_events_and_a_wrong_command_line_fail_with_codes_of_their_own() {
    let place = Place::new();
    assert_eq!(place.run("2024-11-28", 1).status.code(), Some(66));
    let mut wrong = place.job("2024-11-28", 1, 0.0);
    assert_eq!(wrong.arg("--colour").output().unwrap().status.code(), Some(64));
}

#[test]
fn a_passing_failure_strikes_some_first_attempts_and_is_over_at_the_second() {
    let place = Place::new();
    let days: Vec<String> = raw::range(90)
        .unwrap()
        .0
        .iter_days()
        .take(90)
        .map(|d| d.to_string())
        .collect();
    let struck: Vec<&String> = days
        .iter()
        .filter(|ds| !raw::is_black_friday(date(ds)))
        .filter(|ds| {
            place.events(ds, 1);
            let output = place.job_with(ds, 1, 0.0, "default").output().unwrap();
            let failed = !output.status.success();
            assert!(
                !failed || matches!(output.status.code(), Some(1 | 75)),
                "{output:?}"
            );
            assert_eq!(place.partition(ds).is_none(), failed, "{ds}");
            failed
        })
        .collect();
    assert!((1..15).contains(&struck.len()), "{struck:?}");
    for ds in struck {
        assert!(
            place
                .job_with(ds, 2, 0.0, "default")
                .output()
                .unwrap()
                .status
                .success()
        );
    }
}

/// The most memory of a job as the executor's sampler sees it, and how long it was seen above a limit.
fn memory(place: &Place, ds: &str, pace: f64, limit: u64) -> (u64, Duration) {
    let mut child = place.job(ds, 1, pace).process_group(0).spawn().unwrap();
    let group = i32::try_from(child.id()).unwrap();
    let (mut most, mut above) = (0, None::<(Instant, Instant)>);
    while child.try_wait().unwrap().is_none() {
        let now = host::memory_of(group).unwrap_or(0);
        most = most.max(now);
        if now > limit {
            let at = Instant::now();
            above = Some((above.map_or(at, |(first, _)| first), at));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    (most, above.map_or(Duration::ZERO, |(first, last)| last - first))
}

#[test]
fn a_black_friday_really_takes_more_than_the_default_profile_long_enough_to_be_seen() {
    let place = Place::new();
    let default_profile = 64 << 20;
    place.events("2024-11-29", 1);
    place.events("2024-11-28", 1);
    let (most, above) = memory(&place, "2024-11-29", 0.0, default_profile);
    assert!(most < 1 << 30, "the heavy profile is enough: {most}");
    assert!(
        above >= Duration::from_millis(500),
        "seen above for {above:?} only"
    );
    let (most, _) = memory(&place, "2024-11-28", 0.5, default_profile);
    assert!(
        (1..48 << 20).contains(&most),
        "an ordinary day stays below: {most}"
    );
}
