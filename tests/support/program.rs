//! The program beside a test, and somebody who disturbs it.

#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::{PATIENCE, Workspace, ms, within};
use backfill::{
    domain::event::{Actor, NewEvent, Payload},
    journal::{Journal, Options},
};
use std::{
    io::Read as _,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

/// A program beside the test. Dropping it kills it.
pub struct Running {
    pub child: Child,
}

impl Running {
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Sends a signal by name: `KILL`, `STOP`, `CONT`, `TERM`, `HUP`.
    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        // One that has ended already needs no signal.
        let _ = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .stderr(Stdio::null())
            .status()
            .unwrap();
    }

    /// Stops the process, and not in the middle of a transaction, in which it would keep everybody from writing.
    pub fn freeze(&self, workspace: &Workspace) {
        super::wait_for("a moment without a transaction", || {
            self.signal("STOP");
            let journal = rusqlite::Connection::open(workspace.path("state/journal.db")).unwrap();
            let free = journal.execute_batch("BEGIN IMMEDIATE; ROLLBACK;").is_ok();
            if !free {
                self.signal("CONT");
            }
            free.then_some(())
        });
    }

    /// As if the machine had pulled the plug on it.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end and gives its exit code; -1 for a signal.
    pub fn end(&mut self) -> i32 {
        self.end_within(PATIENCE)
    }

    pub fn end_within(&mut self, patience: Duration) -> i32 {
        let status = within(patience, "the program to end", || self.has_ended());
        status.code().unwrap_or(-1)
    }

    /// Whether it died by itself, by a signal.
    pub fn was_killed(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        self.has_ended().is_some_and(|s| s.signal() == Some(9))
    }

    pub fn read_stdout(&mut self) -> String {
        let mut text = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().ok().flatten().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Somebody who appends all the time, so that the supervisor's appends meet conflicts.
pub struct Noise {
    end: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Noise {
    /// Sets a cap that binds nothing, again and again.
    pub fn on(workspace: &Workspace) -> Self {
        let end = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (stop, path) = (end.clone(), workspace.path("state/journal.db"));
        let thread = std::thread::spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                // The journal may not be there yet.
                let Ok(mut journal) = Journal::open(&path, Options::default()) else {
                    std::thread::sleep(ms(5));
                    continue;
                };
                let backfill = journal
                    .load_state()
                    .unwrap()
                    .by_name("orders")
                    .map(|b| b.id.clone());
                let event = NewEvent {
                    at: chrono::Utc::now(),
                    actor: Actor {
                        name: "noise".to_owned(),
                        origin: "test".to_owned(),
                    },
                    reason: None,
                    backfill,
                    payload: Payload::CapSet { cap: Some(1000) },
                };
                for _ in 0..20 {
                    if event.backfill.is_some() {
                        let _ = journal.append(None, None, std::slice::from_ref(&event));
                    }
                    std::thread::sleep(ms(15));
                }
            }
        });
        Self {
            end,
            thread: Some(thread),
        }
    }

    pub fn end(mut self) {
        self.end.store(true, std::sync::atomic::Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        self.end.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}
