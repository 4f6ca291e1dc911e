//! What the journal costs: an append beside a bare fsync, opening a journal of 500,000 events with and without a
//! snapshot (law: 300 ms and 5 s), a look of a follower, and the shim's question.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../tests/journal_support/mod.rs"]
mod journal_support;

use backfill::{
    domain::ids::ChunkId,
    host::BootInstant,
    journal::{Follower, Journal, SNAPSHOT_EVERY, check_attempt},
};
use divan::Bencher;
use journal_support::*;
use std::{fs::File, io::Write, sync::LazyLock};

fn main() {
    divan::main();
}

/// A bare append of as many bytes as one event, made durable: what the disk takes.
#[divan::bench(sample_count = 200)]
fn write_and_fsync_alone(bencher: Bencher) {
    let place = Place::new();
    let mut file = File::create(place.dir.path().join("file")).unwrap();
    bencher.bench_local(|| {
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
    });
}

#[divan::bench(sample_count = 200, args = [1, 10, 100])]
fn append(bencher: Bencher, events: usize) {
    let place = Place::new();
    let mut journal = place.open();
    let events = script(3, events);
    bencher.bench_local(|| {
        journal
            .append(Some(journal.head().unwrap()), None, &events)
            .unwrap()
    });
}

/// The same where syncing costs nothing: what the journal itself takes.
#[divan::bench(sample_count = 200)]
fn append_one_in_memory(bencher: Bencher) {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return;
    };
    let mut journal = Journal::open(&dir.path().join("journal.db"), Default::default()).unwrap();
    let events = script(3, 1);
    bencher.bench_local(|| {
        journal
            .append(Some(journal.head().unwrap()), None, &events)
            .unwrap()
    });
}

#[divan::bench(sample_count = 200)]
fn put_sample(bencher: Bencher) {
    let place = Place::new();
    let mut recorder = place.open().recorder().unwrap();
    let mut n = 0;
    bencher.bench_local(|| {
        n += 1;
        let point = backfill::journal::SamplePoint {
            at: second(n),
            value: Ok(1.0),
            age: None,
        };
        recorder.put_sample(&name("lag"), &point).unwrap();
    });
}

/// 33,334 chunks, each tried five times: 500,011 events.
static LONG: LazyLock<Place> = LazyLock::new(|| history(33_334, 5));

/// Proof 8: 36,500 chunks, each done once.
static WIDE: LazyLock<Place> = LazyLock::new(|| history(36_500, 1));

/// Writes the history, and a snapshot that leaves as many events after it as there ever are.
fn history(chunks: i64, attempts: u32) -> Place {
    let place = Place::new();
    let mut journal = place.open();
    let epoch = journal
        .acquire(BootInstant(1), &Default::default())
        .unwrap()
        .epoch;
    let events = long_history(chunks, attempts);
    let cut = events.len() - SNAPSHOT_EVERY as usize;
    journal.append(None, None, &events[..cut]).unwrap();
    let state = journal.fold_all().unwrap();
    journal.write_snapshot(epoch, &state).unwrap();
    journal.append(None, None, &events[cut..]).unwrap();
    let bytes: i64 = place
        .by_hand()
        .query_row("SELECT length(body) FROM snapshot", [], |r| r.get(0))
        .unwrap();
    println!("{} events, snapshot of {bytes} bytes", events.len());
    place
}

#[divan::bench(sample_count = 3)]
fn full_fold_of_500_000_events() -> u64 {
    LONG.open_read_only().fold_all().unwrap().head
}

#[divan::bench(sample_count = 10)]
fn state_of_500_000_events_from_a_snapshot() -> u64 {
    LONG.open_read_only().load_state().unwrap().head
}

#[divan::bench(sample_count = 10)]
fn state_of_36_500_chunks_from_a_snapshot() -> u64 {
    WIDE.open_read_only().load_state().unwrap().head
}

#[divan::bench(sample_count = 10)]
fn write_snapshot_of_36_500_chunks(bencher: Bencher) {
    let mut journal = WIDE.open();
    let (state, epoch) = (journal.load_state().unwrap(), journal.epoch().unwrap());
    bencher.bench_local(|| journal.write_snapshot(epoch, &state).unwrap());
}

#[divan::bench(sample_count = 10)]
fn copy_of_a_state_of_36_500_chunks(bencher: Bencher) {
    let state = WIDE.open_read_only().load_state().unwrap();
    bencher.bench_local(|| state.clone());
}

#[divan::bench(sample_count = 200)]
fn look_of_a_follower_when_nothing_happened(bencher: Bencher) {
    let mut follower = Follower::new(WIDE.open_read_only()).unwrap();
    bencher.bench_local(|| follower.poll().unwrap().is_some());
}

#[divan::bench(sample_count = 200)]
fn ask_whether_an_attempt_is_wanted(bencher: Bencher) {
    let chunk = ChunkId::day(date(2023, 2, 1));
    let epoch = LONG.open_read_only().epoch().unwrap();
    bencher.bench_local(|| check_attempt(&LONG.path, &attempt(&orders(), chunk, 5), epoch).unwrap());
}
