//! Where a journal may live, and what happens when the disk is full.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod journal_support;

use backfill::{
    domain::event::Payload,
    host::BootInstant,
    journal::{
        AppendError, BALLAST_BYTES, Follower, Journal, OpenError, Options, ReadError, RenewError, StoreError,
        free_bytes,
    },
};
use journal_support::*;
use std::{
    fs,
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

fn refused(path: &Path) -> [OpenError; 2] {
    [
        Journal::open(path, Options::default()).unwrap_err(),
        Journal::open_read_only(path, Options::default()).unwrap_err(),
    ]
}

#[test]
fn a_link_in_the_place_of_the_file_is_refused_and_not_followed() {
    let place = Place::new();
    let target = place.dir.path().join("target");
    symlink(&target, &place.path).unwrap();
    for error in refused(&place.path) {
        assert!(matches!(error, OpenError::Symlink { .. }), "{error}");
        assert!(error.to_string().contains("journal.path"));
    }
    assert!(!target.exists());
    fs::remove_file(&place.path).unwrap();
    drop(place.open());
    symlink(&target, place.dir.path().join("journal.db-wal")).unwrap();
    for error in refused(&place.path) {
        assert!(matches!(error, OpenError::Symlink { .. }), "{error}");
    }
}

#[test]
fn a_directory_in_the_place_of_the_file_is_refused() {
    let place = Place::new();
    fs::create_dir(&place.path).unwrap();
    for error in refused(&place.path) {
        assert!(matches!(error, OpenError::NotAFile { .. }), "{error}");
    }
}

#[test]
fn a_file_of_somebody_else_is_refused_with_both_users_named() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make a file of somebody else");
        return;
    }
    let place = Place::new();
    drop(place.open());
    std::os::unix::fs::chown(&place.path, Some(12_345), None).unwrap();
    for error in refused(&place.path) {
        assert!(
            matches!(
                error,
                OpenError::Owner {
                    owner: 12_345,
                    me: 0,
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.to_string().contains("uid 12345"));
    }
}

#[test]
fn a_directory_that_everybody_may_write_to_is_refused_unless_it_is_sticky() {
    let place = Place::new();
    let dir = place.dir.path().join("open");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let error = Journal::open(&dir.join("j"), Options::default()).unwrap_err();
    assert!(matches!(error, OpenError::OpenDirectory { .. }), "{error}");
    assert!(!dir.join("j").exists());
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o1777)).unwrap();
    Journal::open(&dir.join("j"), Options::default()).unwrap();
}

#[test]
fn looking_at_a_journal_that_is_not_there_says_so_and_makes_nothing() {
    let place = Place::new();
    for path in [place.path.clone(), place.dir.path().join("no/such/dir/j")] {
        let error = Journal::open_read_only(&path, Options::default()).unwrap_err();
        assert!(matches!(error, OpenError::Missing { .. }), "{error}");
    }
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 0);
}

#[test]
fn a_damaged_file_is_named_and_left_as_it_is() {
    for damage in ["text", "header", "schema"] {
        let place = Place::new();
        let mut journal = place.open();
        journal.append(None, None, &script(1, 50)).unwrap();
        drop(journal);
        let mut bytes = fs::read(&place.path).unwrap();
        match damage {
            "text" => {
                bytes = b"this is a text that somebody has put into the place of the journal".repeat(20)
            }
            "header" => bytes[..16].fill(0),
            _ => bytes[100..4096].fill(0xee),
        }
        fs::write(&place.path, &bytes).unwrap();
        for error in refused(&place.path) {
            assert!(
                matches!(error, OpenError::Store(StoreError::Damaged { .. })),
                "{damage}: {error}"
            );
            assert!(
                error.to_string().contains("journal.db is damaged"),
                "{damage}: {error}"
            );
        }
        assert_eq!(fs::read(&place.path).unwrap(), bytes, "{damage}");
    }
}

#[test]
fn damage_that_no_ordinary_read_meets_is_found_when_it_is_looked_for() {
    let place = Place::new();
    let mut journal = place.open();
    journal.append(None, None, &script(1, 400)).unwrap();
    journal.verify().unwrap();
    drop(journal);
    let conn = place.by_hand();
    let root: u32 = conn
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'event_by_attempt'",
            [],
            |r| r.get(0),
        )
        .unwrap();
    conn.close().unwrap();
    let mut bytes = fs::read(&place.path).unwrap();
    let end = root as usize * 4096;
    bytes[end - 4096..end].fill(0x77);
    fs::write(&place.path, bytes).unwrap();
    let journal = place.open();
    journal.load_state().unwrap();
    assert!(matches!(journal.verify(), Err(StoreError::Damaged { .. })));
}

#[test]
fn modes_that_were_loosened_by_hand_are_tightened_again() {
    let place = Place::new();
    drop(place.open());
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o644)).unwrap();
    drop(place.open());
    assert_eq!(
        fs::metadata(&place.path).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn a_group_that_cannot_use_the_directory_is_refused_with_the_commands_that_help() {
    let place = Place::new();
    let options = || Options {
        group: Some(rustix::process::getegid().as_raw().to_string()),
    };
    let error = Journal::open(&place.path, options()).unwrap_err().to_string();
    assert!(error.contains("chmod 2770"), "{error}");
    let unknown = Options {
        group: Some("no-such-group".to_owned()),
    };
    let error = Journal::open(&place.path, unknown).unwrap_err().to_string();
    assert!(error.contains("no-such-group"), "{error}");
}

#[test]
fn a_journal_that_was_removed_or_replaced_takes_nothing_more_from_those_who_still_have_it_open() {
    for replaced in [false, true] {
        let place = Place::new();
        let mut journal = place.open();
        let mut lease = journal.acquire(BootInstant(1), &Default::default()).unwrap();
        let mut follower = Follower::new(place.open_read_only()).unwrap();
        fs::rename(&place.path, place.dir.path().join("away")).unwrap();
        if replaced {
            fs::copy(place.dir.path().join("away"), &place.path).unwrap();
        }
        let gone = |error: &StoreError| matches!(error, StoreError::Replaced { .. });
        let refused = journal.append(None, None, &[paused(&orders())]);
        assert!(
            matches!(&refused, Err(AppendError::Store(e)) if gone(e)),
            "{refused:?}"
        );
        let refused = journal.renew(&mut lease, BootInstant(2), &Default::default());
        assert!(
            matches!(&refused, Err(RenewError::Store(e)) if gone(e)),
            "{refused:?}"
        );
        let refused = follower.poll();
        assert!(
            matches!(&refused, Err(ReadError::Store(e)) if gone(e)),
            "{refused:?}"
        );
    }
}

/// A small file system of its own; `None` where this user may not mount one.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    fn new(megabytes: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"])
            .arg(dir.path())
            .output()
            .is_ok_and(|out| out.status.success());
        if !mounted {
            eprintln!("skipped: this user cannot mount a small disk");
            return None;
        }
        Some(Self { dir })
    }

    fn journal(&self) -> PathBuf {
        self.dir.path().join("state/journal.db")
    }

    /// Writes until nothing fits any more.
    fn fill(&self) {
        let mut file = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.dir.path().join("filler"))
            .unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![7; size]).is_ok() {}
        }
        assert_eq!(free_bytes(&self.journal()).unwrap(), 0);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).output();
    }
}

/// What the supervisor appends; it must not touch the ballast.
fn append_until_full(journal: &mut Journal, epoch: u64) -> u64 {
    loop {
        let head = journal.head().unwrap();
        match journal.append(Some(head), Some(epoch), &script(head, 40)) {
            Ok(_) => assert!(head < 1_000_000, "the disk is never full"),
            Err(error) => {
                assert!(error.is_full(), "{error}");
                return head;
            }
        }
    }
}

#[test]
fn on_a_full_disk_nothing_is_half_recorded_and_a_pause_still_fits() {
    let Some(disk) = SmallDisk::new(48) else { return };
    let mut journal = Journal::open(&disk.journal(), Options::default()).unwrap();
    let lease = journal.acquire(BootInstant(1), &Default::default()).unwrap();
    assert!(journal.ensure_ballast().unwrap() && journal.has_ballast());
    assert_eq!(
        fs::metadata(disk.dir.path().join("state/journal.db-ballast"))
            .unwrap()
            .len(),
        BALLAST_BYTES
    );
    journal
        .append(Some(0), None, &[said(&orders(), started("orders", 30))])
        .unwrap();
    disk.fill();
    let head = append_until_full(&mut journal, lease.epoch);
    assert!(journal.has_ballast(), "the ballast is for what humans ask");
    let before = journal.load_state().unwrap();
    assert_eq!(before.head, head);

    // Three commands, each of a process of its own.
    for n in 1..=3 {
        let mut theirs = Journal::open(&disk.journal(), Options::default()).unwrap();
        assert_eq!(
            theirs.append(None, None, &[paused(&orders())]).unwrap(),
            [head + n]
        );
    }
    assert!(!journal.has_ballast());
    journal
        .append(
            Some(head + 3),
            Some(lease.epoch),
            &[done_by_us(
                Some(&orders()),
                Payload::PauseApplied { in_flight: vec![] },
            )],
        )
        .unwrap();
    journal.verify().unwrap();
    let reader = Journal::open_read_only(&disk.journal(), Options::default()).unwrap();
    assert_eq!(reader.load_state().unwrap(), reader.fold_all().unwrap());

    // Without ballast and room a command fails clearly, and works again when there is room.
    disk.fill();
    append_until_full(&mut journal, lease.epoch);
    let head = journal.head().unwrap();
    let refused = loop {
        match journal.append(None, None, &[paused(&orders())]) {
            Ok(_) => assert!(journal.head().unwrap() < head + 10_000),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&refused, AppendError::Store(StoreError::Full { .. })),
        "{refused}"
    );
    assert!(refused.to_string().contains("full"));
    assert!(!journal.ensure_ballast().unwrap(), "there is no room for it");
    fs::remove_file(disk.dir.path().join("filler")).unwrap();
    assert!(journal.ensure_ballast().unwrap());
    journal.append(None, None, &[paused(&orders())]).unwrap();
    journal.verify().unwrap();
}

#[test]
fn a_command_can_open_the_journal_on_a_full_disk_although_nobody_else_has_it_open() {
    let Some(disk) = SmallDisk::new(48) else { return };
    let mut journal = Journal::open(&disk.journal(), Options::default()).unwrap();
    journal
        .append(None, None, &[said(&orders(), started("orders", 30))])
        .unwrap();
    assert!(journal.ensure_ballast().unwrap());
    drop(journal);
    disk.fill();
    let mut journal = Journal::open(&disk.journal(), Options::default()).unwrap();
    assert_eq!(journal.append(None, None, &[paused(&orders())]).unwrap(), [2]);
}

#[test]
fn free_room_is_counted_beside_the_journal() {
    let Some(disk) = SmallDisk::new(40) else { return };
    let journal = Journal::open(&disk.journal(), Options::default()).unwrap();
    let free = free_bytes(journal.path()).unwrap();
    assert!((30 << 20..=40 << 20).contains(&free), "{free}");
}
