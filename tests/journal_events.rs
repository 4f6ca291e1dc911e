//! Appending, reading and following, over two and more connections.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod journal_support;

use backfill::{
    domain::{
        event::{Payload, Read},
        fold::fold,
        ids::ChunkId,
    },
    journal::{AppendError, Follower, Journal, Options, ReadError, Scope, StoreError, as_stored},
};
use journal_support::*;
use std::sync::Barrier;

#[test]
fn what_is_appended_is_read_back_by_every_connection_exactly() {
    let place = Place::new();
    let mut journal = place.open();
    let events = script(11, 1_500);
    for part in events.chunks(100) {
        let head = journal.head().unwrap();
        let seqs = journal.append(Some(head), None, part).unwrap();
        assert_eq!(seqs, (head + 1..=head + part.len() as u64).collect::<Vec<_>>());
    }
    let expected: Vec<_> = events.iter().zip(1..).map(|(e, seq)| as_stored(e, seq)).collect();
    for reader in [&journal, &place.open(), &place.open_read_only()] {
        assert_eq!(reader.read_after(0, usize::MAX).unwrap(), expected);
        assert_eq!(reader.read_after(1_490, 5).unwrap(), expected[1_490..1_495]);
        assert_eq!(reader.load_state().unwrap(), fold(&expected));
        assert_eq!(reader.head().unwrap(), 1_500);
    }
    journal.verify().unwrap();
}

#[test]
fn an_empty_journal_has_no_events_and_an_empty_state() {
    let place = Place::new();
    let journal = place.open();
    assert_eq!(journal.head().unwrap(), 0);
    assert!(journal.read_after(0, 10).unwrap().is_empty());
    assert_eq!(journal.load_state().unwrap(), Default::default());
}

#[test]
fn an_append_at_an_old_head_is_a_conflict_and_records_nothing() {
    let place = Place::new();
    let (mut ours, mut theirs) = (place.open(), place.open());
    let id = orders();
    ours.append(Some(0), None, &[said(&id, started("orders", 3))])
        .unwrap();
    let two = [paused(&id), said(&id, Payload::Resumed {})];
    for wrong in [0, 2] {
        assert_eq!(
            theirs.append(Some(wrong), None, &two),
            Err(AppendError::Conflict { head: 1 })
        );
    }
    assert_eq!(
        theirs.append(Some(wrong_head(&ours)), None, &[]),
        Err(AppendError::Conflict { head: 1 })
    );
    assert_eq!(ours.head().unwrap(), 1);
    assert_eq!(theirs.append(Some(1), None, &two), Ok(vec![2, 3]));
}

fn wrong_head(journal: &Journal) -> u64 {
    journal.head().unwrap() + 7
}

#[test]
fn a_command_that_only_reduces_work_needs_no_head() {
    let place = Place::new();
    let (mut ours, mut theirs) = (place.open(), place.open());
    let id = orders();
    ours.append(Some(0), None, &[said(&id, started("orders", 3))])
        .unwrap();
    assert_eq!(theirs.append(None, None, &[paused(&id)]), Ok(vec![2]));
    assert_eq!(ours.append(None, None, &[paused(&id)]), Ok(vec![3]));
}

#[test]
fn of_two_events_of_one_append_never_only_one_is_there() {
    let place = Place::new();
    let mut journal = place.open();
    place
        .by_hand()
        .execute_batch("CREATE TRIGGER no BEFORE INSERT ON event WHEN new.kind = 'resumed' BEGIN SELECT RAISE(ABORT, 'no'); END")
        .unwrap();
    let id = orders();
    let both = [paused(&id), said(&id, Payload::Resumed {})];
    assert!(matches!(
        journal.append(Some(0), None, &both),
        Err(AppendError::Store(StoreError::Io { .. }))
    ));
    assert_eq!(journal.head().unwrap(), 0);
    assert_eq!(journal.append(Some(0), None, &both[..1]), Ok(vec![1]));
}

#[test]
fn a_reader_cannot_write() {
    let place = Place::new();
    drop(place.open());
    let mut reader = place.open_read_only();
    let refused = reader.append(None, None, &[paused(&orders())]);
    assert!(
        matches!(refused, Err(AppendError::Store(StoreError::ReadOnly { .. }))),
        "{refused:?}"
    );
}

/// Eight connections append a thousand events, each with the head that it has read: none is lost, none is there
/// twice, and each stands right after the head that its author had seen.
#[test]
fn a_thousand_concurrent_appends_with_their_heads_never_lose_or_double_one() {
    const AUTHORS: u32 = 8;
    const EACH: u32 = 125;
    let place = Place::new();
    drop(place.open());
    let begin = Barrier::new(AUTHORS as usize);
    std::thread::scope(|scope| {
        for author in 0..AUTHORS {
            let (place, begin) = (&place, &begin);
            scope.spawn(move || {
                let mut journal = place.open();
                begin.wait();
                let mut n = 0;
                while n < EACH {
                    let head = journal.head().unwrap();
                    let mut event = paused(&orders());
                    event.reason = Some(format!("{author}.{n} after {head}"));
                    match journal.append(Some(head), None, &[event]) {
                        Ok(seqs) => {
                            assert_eq!(seqs, [head + 1]);
                            n += 1;
                        }
                        Err(AppendError::Conflict { head: newer }) => assert!(newer > head),
                        // On a machine under load one of eight may not get its turn in time.
                        Err(AppendError::Store(StoreError::Busy { .. })) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    let events = place.open_read_only().read_after(0, usize::MAX).unwrap();
    assert_eq!(events.len(), (AUTHORS * EACH) as usize);
    let mut next = [0; AUTHORS as usize];
    for event in &events {
        let words = event.reason.clone().unwrap();
        let (who, after) = words.split_once(" after ").unwrap();
        let (author, n) = who.split_once('.').unwrap();
        assert_eq!(after.parse::<u64>().unwrap(), event.seq - 1);
        let author: usize = author.parse().unwrap();
        assert_eq!(n.parse::<u32>().unwrap(), next[author]);
        next[author] += 1;
    }
    assert_eq!(next, [EACH; AUTHORS as usize]);
}

#[test]
fn many_processes_that_open_a_new_journal_at_once_all_get_the_same_one() {
    for _ in 0..5 {
        let place = Place::new();
        let begin = Barrier::new(6);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    begin.wait();
                    place.open().append(None, None, &[paused(&orders())]).unwrap();
                });
            }
        });
        assert_eq!(place.open().head().unwrap(), 6);
    }
}

#[test]
fn a_follower_gives_each_event_once_and_keeps_the_state() {
    let place = Place::new();
    let mut theirs = place.open();
    let events = script(5, 60);
    theirs.append(None, None, &events[..20]).unwrap();
    let mut follower = Follower::new(place.open_read_only()).unwrap();
    assert_eq!(follower.state().head, 20);
    assert_eq!(follower.poll().unwrap(), None);
    theirs.append(None, None, &events[20..40]).unwrap();
    let before = follower.state().clone();
    let seqs: Vec<u64> = follower.poll().unwrap().unwrap().iter().map(|e| e.seq).collect();
    assert_eq!(seqs, (21..=40).collect::<Vec<_>>());
    assert_eq!(follower.poll().unwrap(), None);
    theirs.append(None, None, &events[40..]).unwrap();
    follower.poll().unwrap();
    assert_eq!(**follower.state(), theirs.fold_all().unwrap());
    assert_eq!(before.head, 20, "a moment that somebody keeps does not move");
}

#[test]
fn a_follower_that_appends_has_folded_its_own_events_and_those_of_others() {
    let place = Place::new();
    let mut theirs = place.open();
    let mut ours = place.open();
    let epoch = ours
        .acquire(backfill::host::BootInstant(1), &Default::default())
        .unwrap()
        .epoch;
    let mut follower = Follower::new(ours).unwrap();
    let id = orders();
    let stored = follower
        .append(epoch, &[said(&id, started("orders", 3))])
        .unwrap();
    assert_eq!(stored, theirs.read_after(0, 9).unwrap());
    assert_eq!(follower.poll().unwrap(), None);
    theirs.append(None, None, &[paused(&id)]).unwrap();
    let late = follower.append(epoch, &[said(&id, Payload::Resumed {})]);
    assert_eq!(late, Err(AppendError::Conflict { head: 2 }));
    assert_eq!(follower.poll().unwrap().unwrap().len(), 1);
    follower.append(epoch, &[said(&id, Payload::Resumed {})]).unwrap();
    follower.journal_mut().append(None, None, &[paused(&id)]).unwrap();
    assert_eq!(follower.poll().unwrap().unwrap().len(), 1);
    assert_eq!(**follower.state(), theirs.fold_all().unwrap());
}

#[test]
fn a_damaged_event_is_named_and_what_stands_before_it_is_still_given() {
    let place = Place::new();
    let mut journal = place.open();
    let id = orders();
    let day = ChunkId::day(date(2023, 1, 1));
    let first = attempt(&id, day, 1);
    journal
        .append(
            None,
            None,
            &[
                said(&id, started("orders", 3)),
                intended(&first),
                accepted(&first),
                ended(&first),
            ],
        )
        .unwrap();
    let mut follower = Follower::new(place.open_read_only()).unwrap();
    journal
        .append(
            None,
            None,
            &[paused(&id), intended(&attempt(&id, day, 2)), paused(&id)],
        )
        .unwrap();
    place
        .by_hand()
        .execute_batch(
            "DROP TRIGGER event_is_never_changed;
             UPDATE event SET payload = '{\"kind\":\"submission-intended\"}' WHERE seq = 6",
        )
        .unwrap();
    assert_eq!(journal.read_after(0, 99).unwrap().len(), 5);
    let error = journal.read_after(5, 99).unwrap_err();
    assert!(
        error.to_string().contains("event 6 (submission-intended v1)"),
        "{error}"
    );
    assert!(journal.load_state().is_err());
    assert_eq!(follower.poll().unwrap().unwrap().len(), 1);
    for _ in 0..2 {
        assert!(matches!(follower.poll(), Err(ReadError::Event(e)) if e.seq == 6));
    }
    assert_eq!(follower.state().head, 5, "the state stays at the last good event");
}

#[test]
fn a_removed_event_is_noticed() {
    let place = Place::new();
    let mut journal = place.open();
    journal.append(None, None, &script(9, 30)).unwrap();
    place
        .by_hand()
        .execute_batch("DROP TRIGGER event_is_never_removed; DELETE FROM event WHERE seq = 12")
        .unwrap();
    let error = journal.read_after(11, 99).unwrap_err();
    assert!(
        matches!(error, ReadError::Gap { after: 11, found: 13 }),
        "{error}"
    );
    assert!(matches!(journal.load_state(), Err(ReadError::Gap { .. })));
}

/// What a newer program would have appended.
fn from_the_future(place: &Place, kind: &str, version: u16) {
    place
        .by_hand()
        .execute_batch(&format!(
            "INSERT INTO event(seq, at_ms, kind, v, actor, origin, backfill, payload)
             SELECT max(seq) + 1, 0, '{kind}', {version}, 'x', '', 'what is this', '[not for us' FROM event;
             INSERT INTO kind(name, v, first) SELECT '{kind}', {version}, max(seq) FROM event"
        ))
        .unwrap();
}

#[test]
fn an_event_of_a_newer_program_makes_this_one_an_observer() {
    for (kind, version) in [("teleported", 1), ("paused", 2)] {
        let place = Place::new();
        let mut journal = place.open();
        let id = orders();
        journal
            .append(None, None, &[said(&id, started("orders", 3))])
            .unwrap();
        let mut follower = Follower::new(place.open_read_only()).unwrap();
        from_the_future(&place, kind, version);
        let seen = follower.poll().unwrap().unwrap();
        assert_eq!(
            seen[0].payload,
            Read::Unknown {
                kind: kind.to_owned(),
                version
            }
        );
        assert_eq!(follower.state().unreadable, Some((2, kind.to_owned(), version)));
        for mut writer in [journal, place.open()] {
            let refused = writer.append(None, None, &[paused(&id)]).unwrap_err();
            assert_eq!(
                refused,
                AppendError::Observer {
                    seq: 2,
                    kind: kind.to_owned(),
                    version
                }
            );
            assert_eq!(writer.head().unwrap(), 2);
        }
    }
}

#[test]
fn listings_show_one_backfill_with_or_without_the_journals_own_events() {
    let place = Place::new();
    let mut journal = place.open();
    journal.append(None, None, &script(21, 400)).unwrap();
    let all = journal.read_after(0, usize::MAX).unwrap();
    let id = orders();
    let of = |with_journal: bool| -> Vec<u64> {
        all.iter()
            .filter(|e| e.backfill.as_ref() == Some(&id) || (with_journal && e.backfill.is_none()))
            .map(|e| e.seq)
            .collect()
    };
    let seqs = |events: Vec<backfill::domain::event::Event>| events.iter().map(|e| e.seq).collect::<Vec<_>>();
    for (scope, expected) in [
        (Scope::All, all.iter().map(|e| e.seq).collect()),
        (Scope::Backfill(&id), of(false)),
        (Scope::BackfillAndJournal(&id), of(true)),
    ] {
        assert!(expected.len() > 50);
        assert_eq!(seqs(journal.events_of(scope, 0, 1_000).unwrap()), expected);
        let middle = expected[20];
        assert_eq!(
            seqs(journal.events_of(scope, middle, 7).unwrap()),
            expected[21..28]
        );
        assert_eq!(
            seqs(journal.newest_of(scope, 9).unwrap()),
            expected[expected.len() - 9..]
        );
        assert_eq!(seqs(journal.before(scope, middle, 6).unwrap()), expected[14..20]);
        assert!(journal.before(scope, 1, 6).unwrap().is_empty());
    }
}

#[test]
fn the_statement_that_lists_a_backfill_uses_its_index() {
    let place = Place::new();
    drop(place.open());
    let conn = place.by_hand();
    for (sql, index) in [
        (
            "SELECT payload FROM event WHERE seq < 9 AND backfill = 'a' ORDER BY seq DESC LIMIT 9",
            "event_by_backfill",
        ),
        (
            "SELECT payload FROM event WHERE seq > 9 AND backfill IS NULL ORDER BY seq LIMIT 9",
            "event_by_backfill",
        ),
        (
            "SELECT kind FROM event WHERE attempt = 'a' ORDER BY seq DESC LIMIT 1",
            "event_by_attempt",
        ),
        (
            "SELECT seq FROM event WHERE backfill = 'a' AND kind IN ('resolved', 'stop-requested', 'cancel-requested') AND seq > 9 ORDER BY seq",
            "event_that_ends",
        ),
    ] {
        let plan: Vec<String> = conn
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap()
            .query_map([], |r| r.get(3))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert!(plan[0].contains(index) && plan.len() == 1, "{sql}: {plan:?}");
    }
}

#[test]
fn a_write_that_another_process_blocks_for_too_long_says_so() {
    let place = Place::new();
    let mut journal = place.open();
    let blocker = place.by_hand();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = journal.append(None, None, &[paused(&orders())]).unwrap_err();
    assert!(
        matches!(refused, AppendError::Store(StoreError::Busy { .. })),
        "{refused}"
    );
    assert_eq!(journal.head().unwrap(), 0, "readers are never blocked");
    blocker.execute_batch("ROLLBACK").unwrap();
    journal.append(None, None, &[paused(&orders())]).unwrap();
}

#[test]
fn opening_by_a_relative_path_and_through_a_linked_directory_is_fine() {
    let place = Place::new();
    let real = place.dir.path().join("real");
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, place.dir.path().join("link")).unwrap();
    let mut journal = Journal::open(&place.dir.path().join("link/j.db"), Options::default()).unwrap();
    journal.append(None, None, &[paused(&orders())]).unwrap();
    assert!(real.join("j.db").is_file());
    assert_eq!(journal.path(), real.canonicalize().unwrap().join("j.db"));
}
