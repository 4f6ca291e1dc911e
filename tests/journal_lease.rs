//! The lease: who may supervise, when another one may take over, and that the old one can do nothing afterwards.
//! The boot clock is a parameter, so nothing here waits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod journal_support;

use backfill::{
    domain::{event::Payload, tuning::Tuning},
    host::{BootInstant, ProcessStamp, process_stamp},
    journal::{AcquireError, AppendError, Claimant, Journal, Lease, LeaseDenied, Liveness, RenewError},
};
use journal_support::*;
use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

const fn at(seconds: u64) -> BootInstant {
    BootInstant(1_000_000 + seconds * 1000)
}

fn tuning() -> Tuning {
    Tuning::default()
}

fn claimant(host: &str, boot: &str, process: ProcessStamp) -> Claimant {
    Claimant {
        host: host.to_owned(),
        boot_id: boot.to_owned(),
        process,
    }
}

/// A process of this host that does nothing; killed when dropped.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(
            Command::new("sleep")
                .arg("600")
                .stdin(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    fn stamp(&self) -> ProcessStamp {
        process_stamp(self.0.id().cast_signed()).unwrap()
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn denied(result: Result<Lease, AcquireError>) -> LeaseDenied {
    match result {
        Err(AcquireError::Denied(denied)) => denied,
        other => panic!("{other:?}"),
    }
}

/// The holder's process (alive), the holder, and a rival of the same host and boot.
fn holder_and_rival() -> (Sleeper, Claimant, Claimant) {
    let process = Sleeper::new();
    let holder = claimant("db1", "boot-1", process.stamp());
    let me = process_stamp(std::process::id().cast_signed()).unwrap();
    (process, holder, claimant("db1", "boot-1", me))
}

#[test]
fn a_free_lease_is_given_at_once_and_each_acquisition_raises_the_epoch() {
    let place = Place::new();
    let mut journal = place.open();
    for epoch in 1..=3 {
        let lease = journal.acquire(at(0), &tuning()).unwrap();
        assert_eq!((lease.epoch, &lease.from), (epoch, &None));
        assert_eq!(journal.epoch().unwrap(), epoch);
        journal.release(lease).unwrap();
    }
}

/// Case B03: the second supervisor is refused and changes nothing.
#[test]
fn a_live_holder_is_not_disturbed() {
    let place = Place::new();
    let (_process, holder, rival) = holder_and_rival();
    place.open().acquire_as(&holder, at(0), &tuning()).unwrap();
    let mut theirs = place.open();
    let refused = denied(theirs.acquire_as(&rival, at(4), &tuning()));
    assert_eq!(refused.holder, holder.text());
    assert_eq!(refused.wait, Duration::from_secs(11));
    assert_eq!(theirs.epoch().unwrap(), 1);
    assert_eq!(theirs.head().unwrap(), 0);
}

#[test]
fn a_holder_that_does_not_renew_loses_the_lease_when_it_expires_and_not_before() {
    let place = Place::new();
    let (_process, holder, rival) = holder_and_rival();
    let mut ours = place.open();
    let mut lease = ours.acquire_as(&holder, at(0), &tuning()).unwrap();
    ours.renew(&mut lease, at(5), &tuning()).unwrap();
    let mut theirs = place.open();
    let last = BootInstant(at(20).0 - 1);
    assert_eq!(
        denied(theirs.acquire_as(&rival, last, &tuning())).wait,
        Duration::from_millis(1)
    );
    let taken = theirs.acquire_as(&rival, at(20), &tuning()).unwrap();
    assert_eq!(taken.epoch, 2);
    assert_eq!(taken.from, Some(format!("epoch 1, {}", holder.text())));
}

#[test]
fn a_dead_holder_on_this_host_is_replaced_at_once() {
    let place = Place::new();
    let (mut process, holder, rival) = holder_and_rival();
    place.open().acquire_as(&holder, at(0), &tuning()).unwrap();
    process.kill();
    let taken = place.open().acquire_as(&rival, at(0), &tuning()).unwrap();
    assert_eq!(taken.epoch, 2);
    assert!(taken.from.is_some());
}

#[test]
fn a_pid_that_was_given_to_another_process_does_not_keep_the_lease() {
    let place = Place::new();
    let (_process, mut holder, rival) = holder_and_rival();
    holder.process.start -= 1;
    place.open().acquire_as(&holder, at(0), &tuning()).unwrap();
    assert_eq!(
        place.open().acquire_as(&rival, at(0), &tuning()).unwrap().epoch,
        2
    );
}

#[test]
fn after_a_reboot_the_lease_is_free_although_its_pid_lives_and_its_clock_is_ahead() {
    let place = Place::new();
    let (_process, mut holder, rival) = holder_and_rival();
    holder.boot_id = "boot-0".to_owned();
    place
        .open()
        .acquire_as(&holder, at(1_000_000), &tuning())
        .unwrap();
    let taken = place.open().acquire_as(&rival, at(3), &tuning()).unwrap();
    assert_eq!(taken.epoch, 2);
    assert!(taken.from.is_some());
}

#[test]
fn a_holder_on_another_host_is_only_judged_by_watching_its_row_on_our_clock() {
    let place = Place::new();
    let (mut process, mut holder, rival) = holder_and_rival();
    holder.host = "db2".to_owned();
    let mut ours = place.open();
    // Their boot clock is far behind ours: compared with it, the lease would have expired long ago.
    let mut lease = ours.acquire_as(&holder, BootInstant(5_000), &tuning()).unwrap();
    // That a process of this pid is gone here says nothing about the other host.
    process.kill();
    let mut theirs = place.open();
    assert_eq!(
        denied(theirs.acquire_as(&rival, at(0), &tuning())).wait,
        Duration::from_secs(15)
    );
    assert_eq!(
        denied(theirs.acquire_as(&rival, at(14), &tuning())).wait,
        Duration::from_secs(1)
    );
    ours.renew(&mut lease, BootInstant(19_000), &tuning()).unwrap();
    assert_eq!(
        denied(theirs.acquire_as(&rival, at(15), &tuning())).wait,
        Duration::from_secs(15)
    );
    assert_eq!(theirs.acquire_as(&rival, at(30), &tuning()).unwrap().epoch, 2);
    assert!(matches!(
        ours.renew(&mut lease, BootInstant(40_000), &tuning()),
        Err(RenewError::Lost { current: 2, .. })
    ));
}

#[test]
fn a_row_with_an_expiry_out_of_all_reason_does_not_block_for_ever() {
    let place = Place::new();
    let (_process, holder, rival) = holder_and_rival();
    let mut journal = place.open();
    journal.acquire_as(&holder, at(0), &tuning()).unwrap();
    place
        .by_hand()
        .execute_batch("UPDATE lease SET expires = 9000000000000000000")
        .unwrap();
    let wait = denied(journal.acquire_as(&rival, at(0), &tuning())).wait;
    assert!(wait <= Duration::from_secs(300), "{wait:?}");
    let later = at(0).plus(wait);
    assert_eq!(journal.acquire_as(&rival, later, &tuning()).unwrap().epoch, 2);
}

/// Case B03: of two that find the lease expired at the same moment, one gets it.
#[test]
fn of_many_that_ask_at_once_exactly_one_gets_the_lease() {
    let place = Place::new();
    drop(place.open());
    let (_process, holder, rival) = holder_and_rival();
    place.open().acquire_as(&holder, at(0), &tuning()).unwrap();
    let given = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| place.open().acquire_as(&rival, at(15), &tuning())))
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap())
            .filter(Result::is_ok)
            .count()
    });
    assert_eq!(given, 1);
    assert_eq!(place.open().epoch().unwrap(), 2);
}

#[test]
fn a_lost_lease_can_neither_append_nor_renew_nor_release() {
    let place = Place::new();
    let (_process, holder, rival) = holder_and_rival();
    let mut ours = place.open();
    let mut old = ours.acquire_as(&holder, at(0), &tuning()).unwrap();
    let id = orders();
    ours.append(Some(0), Some(old.epoch), &[said(&id, started("orders", 3))])
        .unwrap();
    let mut theirs = place.open();
    let new = theirs.acquire_as(&rival, at(60), &tuning()).unwrap();

    let late = ours.append(Some(1), Some(old.epoch), &[paused(&id)]);
    assert_eq!(late, Err(AppendError::StaleEpoch { current: new.epoch }));
    assert_eq!(
        ours.append(None, Some(old.epoch), &[]),
        Err(AppendError::StaleEpoch { current: 2 })
    );
    assert_eq!(
        ours.renew(&mut old, at(61), &tuning()),
        Err(RenewError::Lost {
            current: 2,
            holder: rival.text()
        })
    );
    assert_eq!(old.renewed, at(0));
    ours.release(old).unwrap();
    assert_eq!(
        theirs.append(Some(1), Some(new.epoch), &[paused(&id)]),
        Ok(vec![2])
    );
}

#[test]
fn a_released_lease_is_taken_at_once_and_from_nobody() {
    let place = Place::new();
    let (_process, holder, rival) = holder_and_rival();
    let mut ours = place.open();
    let lease = ours.acquire_as(&holder, at(0), &tuning()).unwrap();
    let mut kept = lease.clone();
    ours.release(lease).unwrap();
    assert_eq!(ours.holder(at(0)).unwrap(), None);
    assert!(matches!(
        ours.renew(&mut kept, at(1), &tuning()),
        Err(RenewError::Lost { current: 1, .. })
    ));
    let next = ours.acquire_as(&rival, at(1), &tuning()).unwrap();
    assert_eq!((next.epoch, next.from), (2, None));
}

#[test]
fn effects_are_allowed_until_the_last_renewal_is_ten_seconds_old() {
    let place = Place::new();
    let mut journal = place.open();
    let mut lease = journal.acquire(at(0), &tuning()).unwrap();
    assert!(lease.allows_effects(BootInstant(at(10).0 - 1), &tuning()));
    assert!(!lease.allows_effects(at(10), &tuning()));
    journal.renew(&mut lease, at(12), &tuning()).unwrap();
    assert!(lease.allows_effects(at(20), &tuning()));
}

#[test]
fn screens_are_told_who_holds_the_lease_and_whether_they_live() {
    let place = Place::new();
    let (mut process, holder, rival) = holder_and_rival();
    let mut journal = place.open();
    let reader = place.open_read_only();
    assert_eq!(reader.holder(at(0)).unwrap(), None);
    journal.acquire_as(&holder, at(0), &tuning()).unwrap();
    let seen = |who: &Claimant, s: u64| {
        let view = reader.holder_as_seen_by(who, at(s)).unwrap().unwrap();
        assert_eq!((view.holder, view.epoch), (holder.text(), 1));
        (view.liveness, view.age)
    };
    let age = |s: u64| Some(Duration::from_secs(s));
    assert_eq!(seen(&rival, 3), (Liveness::Alive, age(3)));
    assert_eq!(seen(&rival, 15), (Liveness::Silent, age(15)));
    let rebooted = Claimant {
        boot_id: "boot-2".to_owned(),
        ..rival.clone()
    };
    assert_eq!(seen(&rebooted, 3), (Liveness::Dead, None));
    let elsewhere = Claimant {
        host: "db9".to_owned(),
        ..rival.clone()
    };
    assert_eq!(seen(&elsewhere, 3), (Liveness::Elsewhere, None));
    process.kill();
    assert_eq!(seen(&rival, 3), (Liveness::Dead, age(3)));
}

/// Case B04: an effect that was sent by a supervisor that has lost the lease starts nothing.
#[test]
fn an_attempt_is_wanted_only_while_its_intent_stands_and_its_supervisor_supervises() {
    use backfill::journal::{AttemptStanding, check_attempt};
    let place = Place::new();
    let mut journal = place.open();
    let id = orders();
    let day = backfill::domain::ids::ChunkId::day(date(2023, 1, 1));
    let first = journal.acquire(at(0), &tuning()).unwrap();
    let no = |n: u32| attempt(&id, day, n);
    let ask = |n: u32, epoch: u64| match check_attempt(&place.path, &no(n), epoch).unwrap() {
        AttemptStanding::Wanted => "wanted".to_owned(),
        AttemptStanding::NotWanted(why) => why,
    };
    journal
        .append(
            None,
            Some(1),
            &[said(&id, started("orders", 3)), intended(&no(1))],
        )
        .unwrap();
    assert_eq!(ask(1, 1), "wanted");
    assert!(ask(2, 1).contains("not in the journal"));
    assert!(ask(1, 2).contains("epoch"));

    // A run that the executor had accepted and that recovery found never to have begun is sent again.
    journal.append(None, Some(1), &[accepted(&no(1))]).unwrap();
    assert_eq!(ask(1, 1), "wanted");

    let withdrawn = Payload::SubmissionWithdrawn {
        attempt: no(1),
        why: "paused".to_owned(),
    };
    journal
        .append(
            None,
            Some(1),
            &[done_by_us(Some(&id), withdrawn), intended(&no(2))],
        )
        .unwrap();
    assert!(ask(1, 1).contains("withdrawn"));
    assert_eq!(ask(2, 1), "wanted");
    journal
        .append(None, Some(1), &[ended(&no(2)), intended(&no(3))])
        .unwrap();
    assert!(ask(2, 1).contains("ended"));

    // A human's word after the intent counts, one before it does not, nor one about another chunk.
    let other = backfill::domain::ids::ChunkId::day(date(2023, 1, 2));
    journal
        .append(
            None,
            None,
            &[said(&id, Payload::StopRequested { chunks: vec![other] })],
        )
        .unwrap();
    assert_eq!(ask(3, 1), "wanted");
    journal
        .append(
            None,
            None,
            &[said(
                &id,
                Payload::StopRequested {
                    chunks: vec![other, day],
                },
            )],
        )
        .unwrap();
    assert!(ask(3, 1).contains("stop"));
    journal.append(None, None, &[intended(&no(4))]).unwrap();
    assert_eq!(ask(4, 1), "wanted");
    let lost = Payload::Resolved {
        chunk: day,
        verdict: backfill::domain::event::Verdict::Lost,
    };
    journal
        .append(None, None, &[said(&id, lost), intended(&no(5))])
        .unwrap();
    assert!(ask(4, 1).contains("resolved"));
    assert_eq!(ask(5, 1), "wanted");
    journal
        .append(None, None, &[said(&id, Payload::CancelRequested {})])
        .unwrap();
    assert!(ask(5, 1).contains("cancelled"));

    journal.append(None, None, &[intended(&no(6))]).unwrap();
    journal.release(first).unwrap();
    assert_eq!(ask(6, 1), "wanted");
    journal.acquire(at(1), &tuning()).unwrap();
    assert!(ask(6, 1).contains("epoch 2 supervises now"));
}

#[test]
fn the_question_whether_an_attempt_is_wanted_fails_without_a_journal_and_makes_none() {
    let place = Place::new();
    let day = backfill::domain::ids::ChunkId::day(date(2023, 1, 1));
    assert!(backfill::journal::check_attempt(&place.path, &attempt(&orders(), day, 1), 1).is_err());
    assert!(!place.path.exists());
}

#[test]
fn a_program_that_cannot_read_the_journal_does_not_get_the_lease() {
    let place = Place::new();
    drop(place.open());
    place
        .by_hand()
        .execute_batch("INSERT INTO kind(name, v, first) VALUES ('paused', 2, 9)")
        .unwrap();
    let mut journal: Journal = place.open();
    let refused = journal.acquire(at(0), &tuning());
    assert!(
        matches!(
            refused,
            Err(AcquireError::Observer {
                seq: 9,
                version: 2,
                ..
            })
        ),
        "{refused:?}"
    );
}
