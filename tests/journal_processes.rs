//! Several real processes on one journal: killed, stopped, with other umasks, and watching each other. The helper
//! process is this test program itself, started with its role in an environment variable.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod journal_support;

use backfill::{
    domain::{
        event::{Force, LimitChange, NewEvent, Next, Outcome, Payload, Rule},
        failure::{Failure, FailureClass},
        ids::ChunkId,
        tuning::Tuning,
    },
    host::boot_now,
    journal::{AcquireError, AppendError, FOLLOW_EVERY, Follower, Journal, Options, RenewError},
};
use journal_support::*;
use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Lines, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

const ROLE: &str = "BACKFILL_TEST_ROLE";
const PATH: &str = "BACKFILL_TEST_JOURNAL";
/// Nothing here takes longer, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The helper process. As an ordinary test of the suite it has no role and does nothing.
#[test]
fn helper() {
    let (Ok(role), Ok(path)) = (std::env::var(ROLE), std::env::var(PATH)) else {
        return;
    };
    let path = Path::new(&path);
    match role.as_str() {
        "append" => append_until_killed(path),
        "race" => append_with_head(path, 100),
        "timed" => append_timed(path),
        "stop" => stop_while_holding(path),
        "open" => open_and_wait(path),
        "decide" => decide_and_wait(path),
        other => panic!("no role {other}"),
    }
}

fn tell(line: &str) {
    // The harness writes to the same place; only lines with this mark are ours.
    println!("> {line}");
    std::io::stdout().flush().unwrap();
}

fn wait_for_parent() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

/// Appends three events at a time and writes down what was acknowledged.
fn append_until_killed(path: &Path) {
    let mut journal = Journal::open(path, Options::default()).unwrap();
    let mut acknowledged = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path.with_extension("acknowledged"))
        .unwrap();
    loop {
        let head = journal.head().unwrap();
        let three = [paused(&orders()), paused(&orders()), paused(&orders())];
        let seqs = journal.append(Some(head), None, &three).unwrap();
        for seq in seqs {
            writeln!(acknowledged, "{seq}").unwrap();
        }
    }
}

fn append_with_head(path: &Path, times: u32) {
    let mut journal = Journal::open(path, Options::default()).unwrap();
    let mut n = 0;
    while n < times {
        let head = journal.head().unwrap();
        let mut event = paused(&orders());
        event.reason = Some(format!("{}:{n}:{head}", std::process::id()));
        match journal.append(Some(head), None, &[event]) {
            Ok(_) => n += 1,
            Err(AppendError::Conflict { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// Appends one event for each line from the parent, with the boot clock just before.
fn append_timed(path: &Path) {
    let mut journal = Journal::open(path, Options::default()).unwrap();
    loop {
        wait_for_parent();
        let mut event = paused(&orders());
        event.reason = Some(boot_now().0.to_string());
        journal.append(None, None, &[event]).unwrap();
    }
}

/// Takes the lease, is stopped, and tries to go on when it is continued.
fn stop_while_holding(path: &Path) {
    let mut journal = Journal::open(path, Options::default()).unwrap();
    let mut lease = journal.acquire(boot_now(), &short()).unwrap();
    tell(&format!("holds {}", lease.epoch));
    // Stopped here, between two transactions: inside one it would keep the write lock while it is stopped.
    wait_for_parent();
    let allowed = lease.allows_effects(boot_now(), &short());
    let appended = journal.append(None, Some(lease.epoch), &[paused(&orders())]);
    let renewed = journal.renew(&mut lease, boot_now(), &short());
    assert!(!allowed);
    assert_eq!(appended, Err(AppendError::StaleEpoch { current: 2 }));
    assert!(
        matches!(renewed, Err(RenewError::Lost { current: 2, .. })),
        "{renewed:?}"
    );
    tell("is fenced");
}

fn short() -> Tuning {
    Tuning {
        lease_renew: Duration::from_millis(200),
        lease_stop: Duration::from_millis(400),
        lease_ttl: Duration::from_millis(600),
        ..Tuning::default()
    }
}

fn open_and_wait(path: &Path) {
    let group = std::env::var("BACKFILL_TEST_GROUP").ok();
    let mut journal = Journal::open(path, Options { group }).unwrap();
    journal.append(None, None, &[paused(&orders())]).unwrap();
    journal.ensure_ballast().unwrap();
    tell("open");
    wait_for_parent();
}

/// What humans and the throttle decided, one append each, as it comes in life.
fn decisions() -> Vec<NewEvent> {
    let id = orders();
    let chunk = ChunkId::day(date(2023, 1, 1));
    let first = attempt(&id, chunk, 1);
    let change = LimitChange {
        from: 4,
        to: 0,
        rule: Rule::Latch,
        signal: Some(name("lag")),
        why: "third pause by lag within 2 h".to_owned(),
        checkpoint: r#"{"pauses":3}"#.to_owned(),
    };
    let failed = Outcome::Failed {
        failure: Failure {
            class: FailureClass::Data,
            exit: Some(65),
            message: "bad row".to_owned(),
        },
        next: Next::Quarantine {
            why: "data cannot be processed".to_owned(),
        },
    };
    vec![
        said(&id, started("orders", 5)),
        intended(&first),
        done_by_us(
            Some(&id),
            Payload::RunEnded {
                attempt: first,
                outcome: failed,
                started: None,
                ended: None,
                peak: None,
                note: None,
            },
        ),
        done_by_us(Some(&id), Payload::LimitChanged { change }),
        said(
            &id,
            Payload::Forced {
                force: Some(Force {
                    limit: 3,
                    until: second(3_600),
                }),
            },
        ),
        said(
            &id,
            Payload::Paused {
                until: Some(second(1_800)),
            },
        ),
        done_by_us(
            None,
            Payload::BlindSince {
                signal: name("lag"),
                last: Some(second(-60)),
                why: "503".to_owned(),
            },
        ),
    ]
}

fn decide_and_wait(path: &Path) {
    let mut journal = Journal::open(path, Options::default()).unwrap();
    for decision in decisions() {
        journal.append(None, None, &[decision]).unwrap();
    }
    tell("decided");
    wait_for_parent();
}

struct Helper {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    fn start(role: &str, path: &Path) -> Self {
        Self::run(Command::new(std::env::current_exe().unwrap()), role, path)
    }

    /// A helper whose umask is another one, set by the shell that starts it.
    fn start_with_umask(umask: &str, group: Option<&str>, path: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]);
        command.arg(std::env::current_exe().unwrap());
        if let Some(group) = group {
            command.env("BACKFILL_TEST_GROUP", group);
        }
        Self::run(command, "open", path)
    }

    fn run(mut command: Command, role: &str, path: &Path) -> Self {
        let mut child = command
            .args(["helper", "--exact", "--nocapture"])
            .env(ROLE, role)
            .env(PATH, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line that the helper tells.
    fn told(&mut self) -> String {
        self.lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| line.split_once("> ").map(|(_, told)| told.to_owned()))
            .expect("the helper ended early")
    }

    fn poke(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Case B34: what was recorded before a kill -9 is there after it, whole and in order.
#[test]
fn kill_9_amid_appends_leaves_a_readable_journal_without_gaps_or_halves() {
    let place = Place::new();
    let observer = place.open();
    for round in 1..=4_u64 {
        let goal = observer.head().unwrap() + 40 * round;
        let mut helper = Helper::start("append", &place.path);
        eventually("the appends", || observer.head().unwrap() >= goal);
        helper.child.kill().unwrap();
        helper.child.wait().unwrap();

        let mut journal = place.open();
        let events = journal.read_after(0, usize::MAX).unwrap();
        assert!(events.iter().zip(1..).all(|(e, seq)| e.seq == seq));
        assert_eq!(
            events.len() % 3,
            0,
            "an append is there with all its events or with none"
        );
        let acknowledged = std::fs::read_to_string(place.path.with_extension("acknowledged")).unwrap();
        let last: usize = acknowledged.lines().last().unwrap().parse().unwrap();
        assert!(last <= events.len(), "what was acknowledged is there");
        journal.verify().unwrap();
        let head = events.len() as u64;
        journal
            .append(
                Some(head),
                None,
                &[paused(&orders()), paused(&orders()), paused(&orders())],
            )
            .unwrap();
    }
}

/// Case B34: pause, latch, override and quarantine are after a kill -9 what they were, with reason, actor and expiry.
#[test]
fn what_was_decided_before_a_kill_9_is_decided_after_it() {
    let place = Place::new();
    let mut helper = Helper::start("decide", &place.path);
    assert_eq!(helper.told(), "decided");
    helper.child.kill().unwrap();
    helper.child.wait().unwrap();

    let state = place.open().load_state().unwrap();
    let backfill = state.by_name("orders").unwrap();
    assert_eq!(backfill.state().word(), "paused");
    let pause = backfill.pause.as_ref().unwrap();
    assert_eq!((&pause.mark.by, pause.until), (&minh(), Some(second(1_800))));
    assert_eq!(pause.mark.reason.as_deref(), Some("incident 4711"));
    let (force, mark) = backfill.force.as_ref().unwrap();
    assert_eq!((force.limit, force.until, &mark.by), (3, second(3_600), &minh()));
    assert_eq!((backfill.limit.value, backfill.limit.rule), (0, Rule::Latch));
    assert_eq!(backfill.limit.checkpoint, r#"{"pauses":3}"#);
    let chunk = &backfill.chunks[0];
    assert_eq!(chunk.state.word(), "quarantined");
    assert_eq!(chunk.why.as_deref(), Some("data cannot be processed"));
    assert_eq!(state.blind[&name("lag")].last, Some(second(-60)));
}

#[test]
fn processes_that_append_at_once_never_lose_or_double_an_event() {
    let place = Place::new();
    drop(place.open());
    let mut helpers: Vec<_> = (0..3).map(|_| Helper::start("race", &place.path)).collect();
    for helper in &mut helpers {
        assert!(helper.child.wait().unwrap().success());
    }
    let events = place.open().read_after(0, usize::MAX).unwrap();
    assert_eq!(events.len(), 300);
    let mut seen = HashSet::new();
    for event in events {
        let words = event.reason.unwrap();
        let mut parts = words.split(':');
        assert!(seen.insert((parts.next().unwrap().to_owned(), parts.next().unwrap().to_owned())));
        assert_eq!(parts.next().unwrap().parse::<u64>().unwrap(), event.seq - 1);
    }
}

#[test]
fn an_event_of_another_process_is_seen_within_250_ms() {
    let place = Place::new();
    drop(place.open());
    let mut follower = Follower::new(place.open_read_only()).unwrap();
    let mut helper = Helper::start("timed", &place.path);
    let mut delays = Vec::new();
    for _ in 0..15 {
        helper.poke();
        let begun = Instant::now();
        let events = loop {
            if let Some(events) = follower.poll().unwrap() {
                break events;
            }
            assert!(begun.elapsed() < PATIENCE);
            std::thread::sleep(FOLLOW_EVERY);
        };
        assert_eq!(events.len(), 1);
        let appended: u64 = events[0].reason.clone().unwrap().parse().unwrap();
        delays.push(boot_now().0 - appended);
    }
    // The middle one: a busy machine may delay any single look.
    delays.sort_unstable();
    assert!(delays[delays.len() / 2] <= 250, "{delays:?}");
}

/// A supervisor that was stopped, replaced and continued finds everything closed to it.
#[test]
fn a_stopped_holder_that_continues_after_a_takeover_is_fenced() {
    let place = Place::new();
    drop(place.open());
    let mut helper = Helper::start("stop", &place.path);
    assert_eq!(helper.told(), "holds 1");
    helper.signal(rustix::process::Signal::STOP);
    let mut ours = place.open();
    let mut refused = 0;
    let lease = loop {
        match ours.acquire(boot_now(), &short()) {
            Ok(lease) => break lease,
            Err(AcquireError::Denied(denied)) => {
                refused += 1;
                assert!(denied.wait <= Duration::from_millis(600));
                std::thread::sleep(denied.wait);
            }
            Err(other) => panic!("{other}"),
        }
        assert!(refused < 5, "it expires once and for all");
    };
    assert_eq!(lease.epoch, 2);
    assert!(lease.from.unwrap().starts_with("epoch 1, "));
    helper.signal(rustix::process::Signal::CONT);
    helper.poke();
    assert_eq!(helper.told(), "is fenced");
    assert_eq!(ours.head().unwrap(), 0, "it appended nothing");
}

/// The lease of a supervisor that was killed is free at once, without waiting for its expiry.
#[test]
fn a_killed_holder_is_replaced_without_waiting() {
    let place = Place::new();
    drop(place.open());
    let mut helper = Helper::start("stop", &place.path);
    assert_eq!(helper.told(), "holds 1");
    helper.child.kill().unwrap();
    helper.child.wait().unwrap();
    assert_eq!(
        place
            .open()
            .acquire(boot_now(), &Tuning::default())
            .unwrap()
            .epoch,
        2
    );
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn modes_of(journal: &Path) -> Vec<u32> {
    ["", "-wal", "-shm", "-ballast"]
        .iter()
        .map(|tail| mode(Path::new(&format!("{}{tail}", journal.display()))))
        .collect()
}

/// Case S31: what we write is for its owner alone, whatever the umask.
#[test]
fn a_journal_is_for_its_owner_alone_whatever_the_umask_is() {
    for umask in ["000", "022", "077"] {
        let place = Place::new();
        let path = place.dir.path().join("state/backfill/journal.db");
        let mut helper = Helper::start_with_umask(umask, None, &path);
        assert_eq!(helper.told(), "open");
        assert_eq!(modes_of(&path), [0o600; 4], "umask {umask}");
        assert_eq!(mode(path.parent().unwrap()), 0o700, "umask {umask}");
        assert_eq!(mode(&place.dir.path().join("state")), 0o700, "umask {umask}");
    }
}

#[test]
fn a_shared_journal_is_open_to_its_group_and_nobody_else_whatever_the_umask_is() {
    use std::os::unix::fs::MetadataExt;
    let root = rustix::process::geteuid().is_root();
    // Root can give files to any group, others to their own.
    let own = rustix::process::getegid().as_raw().to_string();
    let group = if root { "daemon" } else { own.as_str() };
    for umask in ["000", "077"] {
        let place = Place::new();
        let path = place.dir.path().join("shared/journal.db");
        let mut helper = Helper::start_with_umask(umask, Some(group), &path);
        assert_eq!(helper.told(), "open");
        assert_eq!(modes_of(&path), [0o660; 4], "umask {umask}");
        assert_eq!(mode(path.parent().unwrap()), 0o2770, "umask {umask}");
        let gid = std::fs::metadata(&path).unwrap().gid();
        for tail in ["-wal", "-shm", "-ballast"] {
            let beside = format!("{}{tail}", path.display());
            assert_eq!(std::fs::metadata(beside).unwrap().gid(), gid, "{tail}");
        }
        assert!(root == (gid != rustix::process::getegid().as_raw()));
    }
}
