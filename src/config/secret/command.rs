//! A secret that a program prints.
//!
//! The program gets no terminal and nothing to read. Where the system has the `setsid` program it runs in a session
//! of its own, so that it can neither draw a password prompt over the screen nor read what the operator types;
//! elsewhere it is at least in a process group of its own, where a read from the terminal stops it and the deadline
//! ends it.

use super::{SECRET_CAP, Secret, SecretError};
use crate::domain::text::one_line;
use std::{
    io::Read,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

type Outcome = Result<Secret, SecretError>;

/// How often the end of a program is looked for.
const LOOK: Duration = Duration::from_millis(5);
/// How long output is waited for after its program has ended.
const DRAIN: Duration = Duration::from_millis(250);
/// How much error output is kept.
const WORDS_CAP: usize = 4096;

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

/// Runs a program to its end, or to the deadline.
fn run(argv: &[String], deadline: Duration) -> Outcome {
    let program = program_of(argv);
    let mut child = start(argv)?;
    let group = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let end_group = || {
        if let Some(group) = group {
            // It may be gone already; then there is nothing to end.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    };
    let out = Tap::open(child.stdout.take(), SECRET_CAP + 1);
    let err = Tap::open(child.stderr.take(), WORDS_CAP);
    let Some(status) = wait(&mut child, deadline) else {
        end_group();
        let _ = child.kill();
        let _ = child.wait();
        return Err(SecretError::Timeout {
            program,
            after: deadline,
        });
    };
    // What it left running may hold the pipe open; the value is there already.
    if !out.closed_within(DRAIN) || !err.closed_within(DRAIN) {
        end_group();
    }
    if !status.success() {
        return Err(SecretError::Failed {
            program,
            status: status.to_string(),
            words: one_line(&String::from_utf8_lossy(&err.taken()), 200),
        });
    }
    value_of(out.taken(), &format!("the output of {program}"))
}

fn value_of(bytes: Vec<u8>, place: &str) -> Outcome {
    if bytes.len() > SECRET_CAP {
        return Err(SecretError::TooLarge(place.to_owned()));
    }
    let text = String::from_utf8(bytes).map_err(|_| SecretError::NotText(place.to_owned()))?;
    super::non_empty(text.trim_end_matches(['\r', '\n']).to_owned(), || {
        place.to_owned()
    })
}

fn wait(child: &mut Child, deadline: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + deadline;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(LOOK),
            _ => return None,
        }
    }
}

fn start(argv: &[String]) -> Result<Child, SecretError> {
    let not_started = |why: String| SecretError::NotStarted {
        program: program_of(argv),
        why,
    };
    let (program, arguments) = argv
        .split_first()
        .ok_or_else(|| not_started("it has no program".to_owned()))?;
    // Looked up here, because behind `setsid` a missing program would look like a failing one.
    let program = find(program).ok_or_else(|| not_started("no such program".to_owned()))?;
    let mut command = match find("setsid") {
        Some(setsid) => {
            let mut command = Command::new(setsid);
            command.arg(program);
            command
        }
        None => {
            let mut command = Command::new(program);
            command.process_group(0);
            command
        }
    };
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| not_started(e.to_string()))
}

/// Where a program is: as given if it has a slash, else the first of that name in `PATH`.
fn find(program: &str) -> Option<PathBuf> {
    if program.is_empty() {
        return None;
    }
    if program.contains('/') {
        return Path::new(program).is_file().then(|| PathBuf::from(program));
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}

/// Reads a pipe to its end in a thread, keeps the first bytes and drops the rest.
struct Tap {
    kept: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Tap {
    fn open(pipe: Option<impl Read + Send + 'static>, cap: usize) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&kept);
        let reader = pipe.map(|pipe| std::thread::spawn(move || drain(pipe, &sink, cap)));
        Self { kept, reader }
    }

    fn closed_within(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        while self.reader.as_ref().is_some_and(|r| !r.is_finished()) {
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    fn taken(&self) -> Vec<u8> {
        std::mem::take(&mut *lock(&self.kept))
    }
}

fn drain(mut pipe: impl Read, sink: &Mutex<Vec<u8>>, cap: usize) {
    let mut block = [0u8; 4096];
    while let Ok(n) = pipe.read(&mut block) {
        if n == 0 {
            return;
        }
        let mut kept = lock(sink);
        let room = cap.saturating_sub(kept.len()).min(n);
        kept.extend(block.iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::secret::SecretSource;

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
        if find("setsid").is_some() && Path::new("/proc/self/stat").exists() {
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
