//! A secret that a program prints.

use super::{SECRET_CAP, Secret, SecretError};
use crate::{
    domain::text::one_line,
    host::program::{End, Program},
};
use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
    time::Duration,
};

type Outcome = Result<Secret, SecretError>;

/// One run that several callers wait for.
#[derive(Default)]
struct Flight {
    outcome: Mutex<Option<Outcome>>,
    landed: Condvar,
}

/// The runs under way, by their argument vectors.
static FLIGHTS: Mutex<Vec<(Vec<String>, Arc<Flight>)>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program, or joins a run of the same program that is under way.
pub(super) fn shared(argv: &[String], deadline: Duration) -> Outcome {
    let (flight, ours) = {
        let mut flights = lock(&FLIGHTS);
        if let Some((_, flight)) = flights.iter().find(|(a, _)| a == argv) {
            (Arc::clone(flight), false)
        } else {
            let flight = Arc::new(Flight::default());
            flights.push((argv.to_vec(), Arc::clone(&flight)));
            (flight, true)
        }
    };
    if ours {
        let outcome = run(argv, deadline);
        lock(&FLIGHTS).retain(|(_, f)| !Arc::ptr_eq(f, &flight));
        *lock(&flight.outcome) = Some(outcome.clone());
        flight.landed.notify_all();
        return outcome;
    }
    let (outcome, _) = flight
        .landed
        .wait_timeout_while(lock(&flight.outcome), deadline * 2, |o| o.is_none())
        .unwrap_or_else(PoisonError::into_inner);
    outcome.clone().unwrap_or_else(|| {
        Err(SecretError::Timeout {
            program: program_of(argv),
            after: deadline,
        })
    })
}

fn program_of(argv: &[String]) -> String {
    argv.first()
        .map_or_else(|| "the command".to_owned(), |p| one_line(p, 120))
}

/// Runs a program to its end, or to the deadline. What it leaves running goes on: a program may start the agent that
/// keeps what it needs.
fn run(argv: &[String], deadline: Duration) -> Outcome {
    let program = program_of(argv);
    let ended = Program {
        argv,
        folder: None,
        environment: None,
        deadline,
        cap: SECRET_CAP,
        may_leave_children: true,
    }
    .run(&AtomicBool::new(false))
    .map_err(|why| SecretError::NotStarted {
        program: program.clone(),
        why,
    })?;
    match ended.end {
        End::Exited(status) if status.success() => value_of(ended.out, &format!("the output of {program}")),
        End::Flood => Err(SecretError::TooLarge(format!("the output of {program}"))),
        End::Exited(status) => Err(SecretError::Failed {
            program,
            status: status.to_string(),
            words: one_line(&String::from_utf8_lossy(&ended.first_words), 200),
        }),
        End::Deadline | End::Stopped => Err(SecretError::Timeout {
            program,
            after: deadline,
        }),
    }
}

fn value_of(bytes: Vec<u8>, place: &str) -> Outcome {
    let text = String::from_utf8(bytes).map_err(|_| SecretError::NotText(place.to_owned()))?;
    super::non_empty(text.trim_end_matches(['\r', '\n']).to_owned(), || {
        place.to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::secret::SecretSource, host::program::find};
    use std::{path::Path, time::Instant};

    const LOOK: Duration = Duration::from_millis(5);

    fn sh(script: &str) -> Vec<String> {
        vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()]
    }

    #[test]
    fn what_the_program_prints_is_the_value_without_the_last_line_end() {
        let source = SecretSource::Command(sh("printf 'to ken\\n'; echo noise >&2"));
        assert_eq!(source.resolve().unwrap().reveal(), "to ken");
    }

    #[test]
    fn the_program_has_no_terminal_and_nothing_to_read() {
        let read = run(&sh("read x && exit 9; echo nothing"), Duration::from_secs(5)).unwrap();
        assert_eq!(read.reveal(), "nothing");
        // The leader of a session of its own has no controlling terminal, whatever we have.
        if find("setsid", None).is_some() && Path::new("/proc/self/stat").exists() {
            let script = "set -- $(cat /proc/$$/stat); echo $1 $6";
            let ids = run(&sh(script), Duration::from_secs(5)).unwrap();
            let (pid, session) = ids.reveal().split_once(' ').unwrap();
            assert_eq!(pid, session);
        }
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_all_its_children_at_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", pid_file.display());
        let begun = Instant::now();
        let error = run(&sh(&script), Duration::from_millis(800)).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        assert!(
            error.to_string().contains("does it wait for a password?"),
            "{error}"
        );
        let pid: i32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
        let gone = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            crate::host::process_stamp(pid).is_none()
        });
        assert!(gone, "the child {pid} is alive");
    }

    #[test]
    fn a_daemon_that_keeps_the_pipe_open_does_not_delay_the_value() {
        let begun = Instant::now();
        let value = run(&sh("sleep 600 & echo value"), Duration::from_secs(20)).unwrap();
        assert_eq!(value.reveal(), "value");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_flood_is_refused_and_not_kept() {
        let error = run(&sh("head -c 300000 /dev/zero"), Duration::from_secs(10)).unwrap_err();
        assert!(matches!(error, SecretError::TooLarge(_)), "{error}");
    }

    #[test]
    fn a_failure_is_told_with_the_first_words_of_its_error_output() {
        let error = run(
            &sh("echo 'vault: \u{1b}[31msealed' >&2; exit 2"),
            Duration::from_secs(5),
        )
        .unwrap_err();
        assert_eq!(
            error.to_string(),
            "sh failed (exit status: 2): vault: ^[[31msealed"
        );
        let missing = run(&["no-such-program-here".to_owned()], Duration::from_secs(5)).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "cannot run no-such-program-here: no such program"
        );
        assert!(run(&[], Duration::from_secs(5)).is_err());
        let empty = run(&sh("echo"), Duration::from_secs(5)).unwrap_err();
        assert!(matches!(empty, SecretError::Empty(_)), "{empty}");
    }

    #[test]
    fn callers_at_the_same_time_share_one_run() {
        let dir = tempfile::tempdir().unwrap();
        let (log, go) = (dir.path().join("runs"), dir.path().join("go"));
        let argv = sh(&format!(
            "echo run >> {}; until [ -e {} ]; do sleep 0.02; done; echo shared",
            log.display(),
            go.display()
        ));
        let callers: Vec<_> = (0..6)
            .map(|_| {
                let argv = argv.clone();
                std::thread::spawn(move || shared(&argv, Duration::from_secs(30)).unwrap())
            })
            .collect();
        // Six callers and the table hold the flight; only then may it land.
        let aboard = || {
            let flights = lock(&FLIGHTS);
            let found = flights.iter().find(|(a, _)| *a == argv);
            found.map_or(0, |(_, flight)| Arc::strong_count(flight))
        };
        while aboard() < 7 {
            std::thread::sleep(LOOK);
        }
        std::fs::write(&go, "").unwrap();
        for caller in callers {
            assert_eq!(caller.join().unwrap().reveal(), "shared");
        }
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "run\n");
        // And a later caller gets a run of its own.
        shared(&argv, Duration::from_secs(10)).unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "run\nrun\n");
    }
}
