//! What the files of an attempt say about it, and what has to be done about a run that lost its shim.

use super::{
    gate::{NOT_EXECUTABLE, NOT_FOUND},
    ledger,
    place::Place,
    record::{ChildRecord, ExitRecord, Fence, Found, SHIM_MARK, Stop, read, write_atomically},
};
use crate::{
    domain::{
        Time,
        failure::{Failure, FailureClass},
        ids::{AttemptId, ExternalId},
        text,
    },
    executor::RunEnd,
    host::{boot_id, boot_now, group_members, marked, process_stamp},
};
use chrono::DateTime;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{File, TryLockError},
    io,
    path::Path,
    time::{Duration, Instant},
};

/// How long the remains of a run get to be gone after SIGKILL.
const GONE: Duration = Duration::from_secs(3);

/// What an attempt's files say.
#[derive(Debug, Clone, PartialEq)]
pub enum Look {
    /// Its shim lives; with the run's name once the command could start.
    Alive(Option<ExternalId>),
    /// It ended, one way or another.
    Ended(RunEnd),
    /// It never ran, and no order for it that was sent before this was found will make it run.
    NeverRan,
    /// The files cannot be read, or what is left of it cannot be ended.
    Unclear(String),
}

/// Looks at an attempt. A run without a shim is ended for good before it is called ended. May take some seconds.
pub fn look(state: &Path, attempt: &AttemptId) -> Look {
    judge(state, attempt)
        .unwrap_or_else(|e| Look::Unclear(format!("the attempt's files cannot be read: {e}")))
}

fn judge(state: &Path, attempt: &AttemptId) -> io::Result<Look> {
    let place = &Place::new(state, attempt);
    place.make_folder()?;
    // Held until the end of this function, so that no shim can claim the attempt while it is judged.
    let Some(_claim) = lock(place.open_claim()?)? else {
        return alive(place);
    };
    let child = read::<ChildRecord>(&place.child())?;
    let damaged = match read::<ExitRecord>(&place.exit())? {
        Found::Whole(exit) => return Ok(Look::Ended(end_of(&exit))),
        Found::Damaged => true,
        Found::Absent => false,
    };
    let child = match child {
        Found::Whole(child) => Found::Whole(child),
        // A crash of the host takes files back, and people remove them; what has started is in the ledger, too.
        other => ledger::start_of(state, attempt)?.map_or(other, Found::Whole),
    };
    Ok(match child {
        Found::Whole(child) => without_exit(&child),
        Found::Absent if !damaged => {
            fence_off(place)?;
            Look::NeverRan
        }
        // Torn by a crash of the host, or by the death of a shim that had not opened its gate yet. Nothing of it is
        // left then; still it is not said that it never ran.
        Found::Absent | Found::Damaged => {
            let message = "its records are damaged, and it may have run";
            Look::Ended(lost(FailureClass::Platform, None, message))
        }
    })
}

/// Makes *never ran* final. Returns when an order sent from now on is newer than the fence.
fn fence_off(place: &Place) -> io::Result<()> {
    let fence = Fence::now();
    write_atomically(&place.fence(), &fence)?;
    while fence.stops(boot_now()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn alive(place: &Place) -> io::Result<Look> {
    Ok(Look::Alive(match read::<ChildRecord>(&place.child())? {
        Found::Whole(child) => Some(child.run()),
        Found::Absent | Found::Damaged => None,
    }))
}

/// Takes the lock if nobody has it.
///
/// # Errors
/// The file system does not lock.
pub fn lock(file: File) -> io::Result<Option<File>> {
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// The command may have run and nobody knows how it ended.
fn without_exit(child: &ChildRecord) -> Look {
    if child.boot != boot_id() {
        return Look::Ended(lost(FailureClass::Platform, None, "host restarted"));
    }
    let left = end_remains(child);
    if left > 0 {
        return Look::Unclear(format!(
            "its shim is gone and {left} of its processes cannot be ended"
        ));
    }
    let message = "its shim is gone; what was left of the run was killed";
    Look::Ended(lost(FailureClass::Killed, Some(137), message))
}

fn lost(class: FailureClass, exit: Option<i32>, message: &str) -> RunEnd {
    RunEnd {
        result: Err(Failure {
            class,
            exit,
            message: message.to_owned(),
        }),
        cancelled: false,
        started: None,
        ended: None,
        peak: None,
        note: None,
    }
}

/// Kills what is left of a run and waits until it is gone; gives how many processes are still there.
fn end_remains(child: &ChildRecord) -> usize {
    let until = Instant::now() + GONE;
    loop {
        let remains = remains_of(child);
        for pid in remains.iter().filter_map(|p| Pid::from_raw(*p)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        if remains.is_empty() || Instant::now() >= until {
            return remains.len();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes that certainly belong to the run: its group while the pid still is the process that was written
/// down, and whatever carries the mark of its shim in its environment, in whichever group it hides.
fn remains_of(child: &ChildRecord) -> Vec<i32> {
    let mut remains = marked(&format!("{SHIM_MARK}={}", child.mark()));
    if process_stamp(child.pid).is_some_and(|s| s.start == child.start) {
        remains.extend(group_members(child.pid));
    }
    remains.sort_unstable();
    remains.dedup();
    remains
}

/// Reads an exit record as the end of a run (law C6).
pub fn end_of(exit: &ExitRecord) -> RunEnd {
    let result = result_of(exit);
    let cancelled = matches!(&result, Err(f) if f.class == FailureClass::Cancelled);
    RunEnd {
        note: note_of(exit, result.is_ok()),
        result,
        cancelled,
        started: at(exit.started_ms),
        ended: at(exit.ended_ms),
        peak: exit.peak,
    }
}

fn at(millis: i64) -> Option<Time> {
    DateTime::from_timestamp_millis(millis)
}

fn note_of(exit: &ExitRecord, ok: bool) -> Option<String> {
    let mut notes = Vec::new();
    if ok && exit.cancel_asked {
        let before = "finished before the cancel reached it";
        let after = "ended in order after it was told to end, and counts as finished";
        notes.push(if exit.stop.is_none() { before } else { after }.to_owned());
    }
    if exit.left_over > 0 {
        notes.push(format!(
            "{} of its processes were left over and ended",
            exit.left_over
        ));
    }
    if exit.dropped > 0 {
        notes.push(format!("{} bytes of output did not fit the log", exit.dropped));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

fn result_of(exit: &ExitRecord) -> Result<(), Failure> {
    // A success that we interrupted is none, except after a cancel: a job may well end in order when it gets TERM at
    // its deadline, with half of its work undone.
    if exit.code == Some(0) && matches!(exit.stop, None | Some(Stop::Cancel)) {
        return Ok(());
    }
    let code = exit.code.or(exit.signal.map(|s| 128 + s));
    let failure = |class, exit, message| Err(Failure { class, exit, message });
    match exit.stop {
        Some(Stop::Oom(limit)) => {
            let mib = limit >> 20;
            return failure(
                FailureClass::Oom,
                Some(137),
                format!("used more memory than its {mib} MiB"),
            );
        }
        Some(Stop::Deadline(ms)) => {
            let s = ms as f64 / 1000.0;
            return failure(
                FailureClass::Timeout,
                Some(124),
                format!("did not end within its {s} s"),
            );
        }
        Some(Stop::Cancel) => return failure(FailureClass::Cancelled, code, "cancelled".to_owned()),
        // A failure after a cancel was asked for must not start a retry.
        _ if exit.cancel_asked => {
            return failure(
                FailureClass::Cancelled,
                code,
                format!("cancelled; {}", message_of(exit)),
            );
        }
        Some(Stop::Told) => {
            let message = "its shim got SIGTERM: the host goes down, or somebody ended it by hand";
            return failure(FailureClass::Platform, code, message.to_owned());
        }
        None => {}
    }
    failure(class_of(exit), code, message_of(exit))
}

/// What exit codes say by custom: sysexits(3), the shells' codes, and 128 + N for signal N.
fn class_of(exit: &ExitRecord) -> FailureClass {
    match exit.code.or(exit.signal.map(|s| 128 + s)) {
        Some(65) => FailureClass::Data,
        Some(75) => FailureClass::Platform,
        Some(78 | NOT_EXECUTABLE | NOT_FOUND) => FailureClass::Config,
        Some(124) => FailureClass::Timeout,
        Some(137 | 143) => FailureClass::Killed,
        _ => FailureClass::Other,
    }
}

fn message_of(exit: &ExitRecord) -> String {
    let how = match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended in an unknown way".to_owned(),
    };
    if exit.last_line.is_empty() {
        return how;
    }
    format!("{how}: {}", text::one_line(&exit.last_line, 200))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::local::{ledger::write_start, record::write_new};
    use rstest::rstest;

    fn exited(code: Option<i32>, signal: Option<i32>) -> ExitRecord {
        ExitRecord {
            code,
            signal,
            started_ms: 1_000,
            ended_ms: 2_000,
            peak: Some(5),
            stop: None,
            cancel_asked: false,
            left_over: 0,
            dropped: 0,
            last_line: "boom".to_owned(),
        }
    }

    #[rstest]
    #[case(Some(1), None, FailureClass::Other, 1)]
    #[case(Some(65), None, FailureClass::Data, 65)]
    #[case(Some(75), None, FailureClass::Platform, 75)]
    #[case(Some(78), None, FailureClass::Config, 78)]
    #[case(Some(126), None, FailureClass::Config, 126)]
    #[case(Some(127), None, FailureClass::Config, 127)]
    #[case(Some(124), None, FailureClass::Timeout, 124)]
    #[case(Some(137), None, FailureClass::Killed, 137)]
    #[case(None, Some(9), FailureClass::Killed, 137)]
    #[case(None, Some(15), FailureClass::Killed, 143)]
    #[case(Some(143), None, FailureClass::Killed, 143)]
    #[case(None, Some(11), FailureClass::Other, 139)]
    fn exit_codes_and_signals_have_classes(
        #[case] code: Option<i32>,
        #[case] signal: Option<i32>,
        #[case] class: FailureClass,
        #[case] shown: i32,
    ) {
        let end = end_of(&exited(code, signal));
        let failure = end.result.unwrap_err();
        assert_eq!((failure.class, failure.exit), (class, Some(shown)));
        assert!(failure.message.ends_with(": boom"), "{}", failure.message);
        assert!(!end.cancelled);
    }

    #[rstest]
    #[case(Stop::Oom(512 << 20), FailureClass::Oom, 137)]
    #[case(Stop::Deadline(1500), FailureClass::Timeout, 124)]
    #[case(Stop::Told, FailureClass::Platform, 137)]
    #[case(Stop::Cancel, FailureClass::Cancelled, 137)]
    fn what_the_shim_did_outranks_the_signal(
        #[case] stop: Stop,
        #[case] class: FailureClass,
        #[case] code: i32,
    ) {
        let end = end_of(&ExitRecord {
            stop: Some(stop),
            ..exited(None, Some(9))
        });
        let failure = end.result.unwrap_err();
        assert_eq!((failure.class, failure.exit), (class, Some(code)));
        assert_eq!(end.cancelled, class == FailureClass::Cancelled);
    }

    #[test]
    fn a_job_that_ends_in_order_at_its_deadline_is_not_done() {
        for stop in [Stop::Deadline(1), Stop::Told, Stop::Oom(1)] {
            let exit = ExitRecord {
                stop: Some(stop),
                ..exited(Some(0), None)
            };
            assert!(end_of(&exit).result.is_err(), "{stop:?}");
        }
        let cancelled = ExitRecord {
            stop: Some(Stop::Cancel),
            cancel_asked: true,
            ..exited(Some(0), None)
        };
        assert!(end_of(&cancelled).result.is_ok());
    }

    #[test]
    fn success_after_a_cancel_request_is_done_with_a_note_and_failure_is_cancelled() {
        let asked = |code| {
            end_of(&ExitRecord {
                cancel_asked: true,
                ..exited(Some(code), None)
            })
        };
        let done = asked(0);
        assert_eq!(done.result, Ok(()));
        assert!(!done.cancelled);
        assert_eq!(done.note.unwrap(), "finished before the cancel reached it");
        let failed = asked(1);
        assert_eq!(failed.result.unwrap_err().class, FailureClass::Cancelled);
        assert!(failed.cancelled);
    }

    fn place(state: &std::path::Path) -> (Place, AttemptId) {
        let attempt: AttemptId = "orders-k3f7qa/2023-11-24/1".parse().unwrap();
        let place = Place::new(state, &attempt);
        place.make_folder().unwrap();
        (place, attempt)
    }

    fn child(boot: &str) -> ChildRecord {
        ChildRecord {
            pid: i32::MAX,
            start: 1,
            boot: boot.to_owned(),
            shim: i32::MAX,
            shim_start: 1,
            before: 0,
        }
    }

    #[test]
    fn a_held_claim_is_alive_and_a_free_one_without_a_child_never_ran() {
        let dir = tempfile::tempdir().unwrap();
        let (place, attempt) = place(dir.path());
        assert_eq!(look(dir.path(), &attempt), Look::NeverRan);
        let claim = place.open_claim().unwrap();
        assert_eq!(look(dir.path(), &attempt), Look::NeverRan);
        claim.try_lock().unwrap();
        assert_eq!(look(dir.path(), &attempt), Look::Alive(None));
        write_new(&place.child(), &child(&boot_id())).unwrap();
        assert_eq!(look(dir.path(), &attempt), Look::Alive(Some(child("").run())));
        drop(claim);
        let Look::Ended(end) = look(dir.path(), &attempt) else {
            panic!()
        };
        assert_eq!(end.result.unwrap_err().class, FailureClass::Killed);
    }

    #[test]
    fn never_ran_is_final_for_orders_sent_before_and_not_for_later_ones_or_another_boot() {
        let dir = tempfile::tempdir().unwrap();
        let (place, attempt) = place(dir.path());
        let before = boot_now();
        assert_eq!(look(dir.path(), &attempt), Look::NeverRan);
        let Found::Whole(fence) = read::<Fence>(&place.fence()).unwrap() else {
            panic!()
        };
        assert!(fence.stops(before) && !fence.stops(boot_now()));
        assert!(
            !Fence {
                boot: "another boot".to_owned(),
                ..fence
            }
            .stops(before)
        );
    }

    #[test]
    fn a_run_of_an_earlier_boot_is_a_platform_failure_unless_it_had_ended() {
        let dir = tempfile::tempdir().unwrap();
        let (place, attempt) = place(dir.path());
        write_new(&place.child(), &child("another boot")).unwrap();
        let Look::Ended(end) = look(dir.path(), &attempt) else {
            panic!()
        };
        let failure = end.result.unwrap_err();
        assert_eq!(
            (failure.class, failure.message.as_str()),
            (FailureClass::Platform, "host restarted")
        );
        write_atomically(&place.exit(), &exited(Some(0), None)).unwrap();
        let Look::Ended(end) = look(dir.path(), &attempt) else {
            panic!()
        };
        assert_eq!(end.result, Ok(()));
    }

    /// A crash of the host takes back what was not forced to the disk: all of the attempt's folder.
    #[test]
    fn a_start_that_only_the_ledger_remembers_is_a_platform_failure_and_not_never_ran() {
        let dir = tempfile::tempdir().unwrap();
        let attempt: AttemptId = "orders-k3f7qa/2023-11-24/1".parse().unwrap();
        write_start(dir.path(), &attempt, &child("another boot")).unwrap();
        for torn in [false, true] {
            if torn {
                std::fs::write(Place::new(dir.path(), &attempt).child(), "").unwrap();
                std::fs::write(Place::new(dir.path(), &attempt).exit(), "").unwrap();
            }
            let Look::Ended(end) = look(dir.path(), &attempt) else {
                panic!()
            };
            assert_eq!(end.result.unwrap_err().message, "host restarted");
        }
    }

    #[test]
    fn damaged_records_are_never_done_and_never_never_ran() {
        for file in ["child", "exit"] {
            let dir = tempfile::tempdir().unwrap();
            let (place, attempt) = place(dir.path());
            std::fs::write(place.folder().join(file), "{\"code\":0").unwrap();
            let Look::Ended(end) = look(dir.path(), &attempt) else {
                panic!("{file}")
            };
            assert_eq!(end.result.unwrap_err().class, FailureClass::Platform);
        }
    }
}
