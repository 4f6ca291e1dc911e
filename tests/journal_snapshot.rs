//! Snapshots of the fold: what they give back, what happens to damaged ones, and that they are not used after the
//! fold has changed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod journal_support;

use backfill::{
    domain::{
        event::Payload,
        fold::fold,
        state::{FOLD_VERSION, State},
    },
    host::BootInstant,
    journal::{AppendError, Journal, SNAPSHOT_EVERY, as_stored, snapshot_due},
};
use journal_support::*;
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::{collections::BTreeSet, fmt::Write, time::Duration};

/// What the canonical script folds to, for each version of the fold. Lines are only ever added.
const CANONICAL: &[(u32, &str)] = &[
    (1, "7f9a17f22bfe0ca74aa6540e"),
    (2, "7f9a17f22bfe0ca74aa6540e"),
    (3, "773f1cd5541b610fd71807a5"),
    (4, "31958578b32f037f56ed6897"),
    (5, "d1f786020a68433baf372130"),
    (6, "b0bf3674d354c825fa02ca34"),
    (7, "dd4332834c8966e53cd2f571"),
    (8, "f01c7e5abe1914d7d0d44e27"),
];

fn holder(journal: &mut Journal) -> u64 {
    journal
        .acquire(BootInstant(1_000), &Default::default())
        .unwrap()
        .epoch
}

#[test]
fn the_fold_does_not_change_without_its_version() {
    let events = script(4711, 20_000);
    let state = fold(&stored(&events));
    let mut hash = String::new();
    for byte in Sha256::digest(postcard::to_stdvec(&state).unwrap())
        .iter()
        .take(12)
    {
        write!(hash, "{byte:02x}").unwrap();
    }
    let known = CANONICAL.iter().find(|(version, _)| *version == FOLD_VERSION);
    assert_eq!(
        known.map(|(_, hash)| *hash),
        Some(hash.as_str()),
        "the fold or the shape of State changed: raise FOLD_VERSION and add a line with its hash here"
    );
}

#[test]
fn the_canonical_script_holds_every_kind_of_event_and_folds_to_many_states() {
    let events = script(4711, 20_000);
    let kinds: BTreeSet<&str> = events.iter().map(|e| every_kind(&e.payload)).collect();
    assert_eq!(kinds.len(), 45, "{kinds:?}");
    let mut states = BTreeSet::new();
    let mut state = State::default();
    for event in stored(&events) {
        state.apply(&event);
        states.extend(
            state
                .backfills
                .values()
                .flat_map(|b| &b.chunks)
                .map(|c| c.state.word()),
        );
        states.extend(state.backfills.values().map(|b| b.state().word()));
    }
    for word in [
        "submitting",
        "queued",
        "running",
        "uncertain",
        "done",
        "failed",
        "quarantined",
        "held",
        "skipped",
        "cancelled",
        "cancelling",
        "paused",
        "incomplete",
        "unread",
        "detached",
    ] {
        assert!(states.contains(word), "{word} was never reached: {states:?}");
    }
    assert!(!state.refusals.is_empty());
}

/// A new kind of event must be added to the script: without it, this does not compile.
fn every_kind(payload: &Payload) -> &'static str {
    use Payload as P;
    match payload {
        P::Started { .. }
        | P::Paused { .. }
        | P::Resumed {}
        | P::CapSet { .. }
        | P::Forced { .. }
        | P::HoldPlaced { .. }
        | P::HoldReleased { .. }
        | P::Skipped { .. }
        | P::RerunRequested { .. }
        | P::StopRequested { .. }
        | P::CancelRequested {}
        | P::Amended { .. }
        | P::Resolved { .. }
        | P::LatchAcknowledged {}
        | P::BreakerReset {}
        | P::StopSupervising {}
        | P::LeaseTaken { .. }
        | P::LeaseReleased { .. }
        | P::PauseApplied { .. }
        | P::SubmissionIntended { .. }
        | P::SubmissionWithdrawn { .. }
        | P::SubmissionAccepted { .. }
        | P::RunStarted { .. }
        | P::RunUncertain { .. }
        | P::RunEnded { .. }
        | P::LimitChanged { .. }
        | P::Braked { .. }
        | P::BlindSince { .. }
        | P::SeenAgain { .. }
        | P::SignalGone { .. }
        | P::BreakerOpened { .. }
        | P::BreakerClosed {}
        | P::StoppedOnFailure { .. }
        | P::ConfigReloaded { .. }
        | P::ConfigRejected { .. }
        | P::TakeRequested { .. }
        | P::ActionRequested { .. }
        | P::Detached {}
        | P::DateTaken { .. }
        | P::ActionSent { .. }
        | P::ActionAnswered { .. }
        | P::ActionEnded { .. }
        | P::RunsChanged { .. }
        | P::PoolTaken { .. }
        | P::PoolReturned { .. } => payload.kind().0,
    }
}

fn stored(events: &[backfill::domain::event::NewEvent]) -> Vec<backfill::domain::event::Event> {
    events.iter().zip(1..).map(|(e, seq)| as_stored(e, seq)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_snapshot_and_the_events_after_it_give_the_same_state_as_all_events(
        draws in prop::collection::vec(any::<(u8, u8, u8)>(), 1..250),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut script = Script::new();
        let events: Vec<_> = draws.into_iter().map(|(k, c, v)| script.next(k, c, v)).collect();
        let place = Place::new();
        let mut journal = place.open();
        let epoch = holder(&mut journal);
        let cut = cut.index(events.len());
        journal.append(None, None, &events[..=cut]).unwrap();
        let middle = journal.fold_all().unwrap();
        prop_assert_eq!(&middle, &fold(&stored(&events[..=cut])));
        journal.write_snapshot(epoch, &middle).unwrap();
        prop_assert_eq!(&journal.load_state().unwrap(), &middle);
        journal.append(None, None, &events[cut + 1..]).unwrap();
        let loaded = place.open_read_only().load_state().unwrap();
        prop_assert_eq!(&loaded, &journal.fold_all().unwrap());
        prop_assert_eq!(&loaded, &fold(&stored(&events)));
    }
}

/// A journal with two snapshots, at event 40 and at event 80, and 20 events after them.
fn with_two_snapshots() -> (Place, State) {
    let place = Place::new();
    let mut journal = place.open();
    let epoch = holder(&mut journal);
    let events = script(7, 100);
    for part in [&events[..40], &events[40..80]] {
        journal.append(None, None, part).unwrap();
        let state = journal.fold_all().unwrap();
        journal.write_snapshot(epoch, &state).unwrap();
    }
    journal.append(None, None, &events[80..]).unwrap();
    (place, fold(&stored(&events)))
}

#[test]
fn whatever_is_wrong_with_snapshots_the_state_is_that_of_the_events() {
    let damages = [
        "UPDATE snapshot SET body = substr(body, 1, length(body) - 1) WHERE seq = 80",
        "UPDATE snapshot SET body = zeroblob(length(body)) WHERE seq = 80",
        "UPDATE snapshot SET body = x''",
        "UPDATE snapshot SET checksum = checksum + 1",
        "UPDATE snapshot SET fold_version = fold_version + 1",
        "UPDATE snapshot SET fold_version = 0, checksum = 0",
        "UPDATE snapshot SET seq = seq + 3",
        "UPDATE snapshot SET seq = seq + 3000",
        "UPDATE snapshot SET body = (SELECT body FROM snapshot WHERE seq = 40) WHERE seq = 80",
        "DELETE FROM snapshot",
    ];
    for damage in damages {
        let (place, expected) = with_two_snapshots();
        place.by_hand().execute_batch(damage).unwrap();
        assert_eq!(place.open().load_state().unwrap(), expected, "{damage}");
        assert_eq!(place.open_read_only().load_state().unwrap(), expected, "{damage}");
    }
}

#[test]
fn a_valid_snapshot_is_really_used() {
    let (place, expected) = with_two_snapshots();
    // Events that a snapshot covers are not read any more: damage in them is not even seen.
    place
        .by_hand()
        .execute_batch("DROP TRIGGER event_is_never_changed; UPDATE event SET payload = 'gone' WHERE seq = 5")
        .unwrap();
    assert_eq!(place.open().load_state().unwrap(), expected);
    assert!(place.open().fold_all().is_err());
}

#[test]
fn damaged_pages_under_a_snapshot_do_not_keep_the_journal_from_being_read() {
    let (place, expected) = with_two_snapshots();
    let body: Vec<u8> = place
        .by_hand()
        .query_row("SELECT body FROM snapshot WHERE seq = 80", [], |r| r.get(0))
        .unwrap();
    // The last connection moves everything out of the write-ahead log into the file.
    place
        .by_hand()
        .pragma_update_and_check(None, "wal_checkpoint", "TRUNCATE", |_| Ok(()))
        .unwrap();
    let mut file = std::fs::read(&place.path).unwrap();
    let part = &body[200..260];
    let at = file.windows(part.len()).position(|w| w == part).unwrap();
    file[at..at + 60].fill(0xff);
    std::fs::write(&place.path, file).unwrap();
    assert_eq!(place.open().load_state().unwrap(), expected);
}

#[test]
fn the_two_newest_snapshots_are_kept() {
    let place = Place::new();
    let mut journal = place.open();
    let epoch = holder(&mut journal);
    for event in script(3, 5) {
        journal.append(None, None, &[event]).unwrap();
        let state = journal.load_state().unwrap();
        journal.write_snapshot(epoch, &state).unwrap();
    }
    let kept: Vec<i64> = place
        .by_hand()
        .prepare("SELECT seq FROM snapshot ORDER BY seq")
        .unwrap()
        .query_map([], |r| r.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(kept, [4, 5]);
}

#[test]
fn only_the_holder_writes_snapshots_and_only_of_this_journal() {
    let place = Place::new();
    let mut journal = place.open();
    let epoch = holder(&mut journal);
    journal.append(None, None, &script(3, 9)).unwrap();
    let state = journal.load_state().unwrap();
    assert!(matches!(
        journal.write_snapshot(epoch - 1, &state),
        Err(AppendError::StaleEpoch { .. })
    ));
    let longer = fold(&stored(&script(3, 10)));
    assert!(matches!(
        journal.write_snapshot(epoch, &longer),
        Err(AppendError::Conflict { head: 9 })
    ));
    assert!(matches!(
        journal.write_snapshot(epoch, &State::default()),
        Err(AppendError::Conflict { .. })
    ));
}

#[test]
fn a_snapshot_is_due_after_some_thousand_events() {
    assert!(!snapshot_due(0) && !snapshot_due(SNAPSHOT_EVERY - 1) && snapshot_due(SNAPSHOT_EVERY));
}

#[test]
fn any_past_moment_can_be_rebuilt() {
    let (place, _) = with_two_snapshots();
    let events = stored(&script(7, 100));
    for seq in [0, 1, 39, 80, 100] {
        assert_eq!(
            place.open().fold_to(seq as u64).unwrap(),
            fold(&events[..seq]),
            "{seq}"
        );
    }
}

/// The law's times (300 ms from a snapshot, 5 s for a full fold, per 500,000 events) are measured in release by
/// `benches/journal.rs`; here, with 51,000 events in an unoptimised build, only coarse guards: ten times the share of the
/// full fold, and for the snapshot a second.
#[test]
fn a_long_journal_opens_in_a_moment() {
    let place = Place::new();
    let mut journal = place.open();
    let epoch = holder(&mut journal);
    let events = long_history(3_400, 5);
    assert!(events.len() > 50_000);
    journal.append(None, None, &events).unwrap();
    let begun = cpu_time();
    let folded = journal.fold_all().unwrap();
    let full = cpu_time() - begun;
    journal.write_snapshot(epoch, &folded).unwrap();
    let reader = place.open_read_only();
    let begun = cpu_time();
    let loaded = reader.load_state().unwrap();
    let from_snapshot = cpu_time() - begun;
    assert_eq!(loaded, folded);
    println!("full fold {full:?}, from a snapshot {from_snapshot:?}");
    assert!(full < Duration::from_secs(5), "full fold: {full:?}");
    assert!(
        from_snapshot < Duration::from_secs(1),
        "from a snapshot: {from_snapshot:?}"
    );
}

/// What this thread has computed so far: other work on the machine does not count.
fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec as u32)
}
