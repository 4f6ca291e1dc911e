//! What a chunk costs on top of its command: 1,000 chunks of `true` on two slots, beside GNU parallel with its job
//! log, with the cost of one durable append measured in the same minute.
//!
//! `cargo bench --bench overhead`. Says whether the two bounds hold: no longer than parallel with the journal in
//! memory, no longer than parallel + 1.2 x (appends x fsync) on disk. Needs `parallel`; says so if it is missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::{
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const CHUNKS: u32 = 1000;
const ROUNDS: u32 = 5;

fn main() {
    let memory = place(Path::new("/dev/shm"));
    let disk = place(&std::env::temp_dir());
    // In turns, because a machine is not as fast in one minute as in the next.
    let (mut theirs, mut fast, mut durable) = (Vec::new(), Vec::new(), Vec::new());
    let mut appends = 0;
    for round in 0..ROUNDS {
        theirs.push(parallel(&disk));
        fast.push(ours(&memory.join(round.to_string())).0);
        let (took, n) = ours(&disk.join(round.to_string()));
        durable.push(took);
        appends = appends.max(n);
    }
    let (parallel, in_memory, on_disk) = (median(theirs), median(fast), median(durable));
    let fsync = fsync_cost(&disk);
    let allowed = parallel + fsync.mul_f64(1.2 * appends as f64);
    println!(
        "parallel -j2 --joblog, {CHUNKS} x true   {:>8.2} s",
        parallel.as_secs_f64()
    );
    println!(
        "backfill run, journal in memory        {:>8.2} s  {}",
        in_memory.as_secs_f64(),
        verdict(in_memory <= parallel)
    );
    println!(
        "one append and fsync                   {:>8.2} ms",
        fsync.as_secs_f64() * 1000.0
    );
    println!("appends                                {appends:>8}");
    println!(
        "allowed on disk                        {:>8.2} s",
        allowed.as_secs_f64()
    );
    println!(
        "backfill run, journal on disk          {:>8.2} s  {}",
        on_disk.as_secs_f64(),
        verdict(on_disk <= allowed)
    );
    for dir in [memory, disk] {
        fs::remove_dir_all(dir).unwrap();
    }
}

fn verdict(holds: bool) -> &'static str {
    if holds { "holds" } else { "TOO LONG" }
}

fn place(under: &Path) -> PathBuf {
    let dir = under.join(format!("backfill-overhead-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

fn parallel(dir: &Path) -> Duration {
    let log = dir.join("joblog");
    let began = Instant::now();
    let status = Command::new("parallel")
        .args(["--will-cite", "-j2", "-n0", "--joblog"])
        .arg(&log)
        .args(["true", ":::"])
        .args((0..CHUNKS).map(|i| i.to_string()))
        .stdin(Stdio::null())
        .status()
        .expect("GNU parallel is needed: install the package `parallel`");
    assert!(status.success());
    let took = began.elapsed();
    fs::remove_file(log).unwrap();
    took
}

/// Wall time of a whole run, and how many appends had to be durable.
fn ours(dir: &Path) -> (Duration, u64) {
    fs::create_dir_all(dir).unwrap();
    let last =
        chrono::NaiveDate::from_ymd_opt(2020, 1, 1).unwrap() + chrono::Days::new(u64::from(CHUNKS) - 1);
    let config = format!(
        "[executors.here]\nkind = \"local\"\nslots = 2\n\n[backfills.noop]\ntarget = \"t\"\nstart = 2020-01-01\nend = {last}\n\
         granularity = \"day\"\ntimezone = \"UTC\"\nexecutor = \"here\"\ncommand = [\"true\"]\nmax_limit = 2\n\n\
         [journal]\npath = \"state/journal.db\"\n"
    );
    let path = dir.join("config.toml");
    fs::write(&path, config).unwrap();
    let began = Instant::now();
    let out = Command::new(env!("CARGO_BIN_EXE_backfill"))
        .args(["run", "noop", "--json", "--config"])
        .arg(&path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let took = began.elapsed();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout);
    let of = |kind: &str| text.lines().filter(|l| l.contains(kind)).count() as u64;
    assert_eq!(of("\"kind\":\"run-ended\""), u64::from(CHUNKS));
    // What has to be durable before each start: the intent in the journal, and the shim's word on who is about to run.
    // Answers and ends share transactions with these or with each other and are not counted.
    (took, 2 * of("\"kind\":\"submission-intended\""))
}

/// The median of appending four kilobytes and making them durable.
fn fsync_cost(dir: &Path) -> Duration {
    let path = dir.join("fsync");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    let one = |file: &mut fs::File| {
        let began = Instant::now();
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
        began.elapsed()
    };
    median((0..200).map(|_| one(&mut file)).collect())
}
