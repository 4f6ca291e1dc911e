//! Running a small program whose output is wanted: a secret, a lag.
//!
//! The program gets no terminal and nothing to read. Where the system has the `setsid` program it runs in a session
//! of its own, so that it can neither draw a password prompt over the screen nor read what the operator types;
//! elsewhere it is at least in a process group of its own, where a read from the terminal stops it and the deadline
//! ends it. Its pipes are read without ever waiting for them, so that nothing that it leaves behind can hold us.

use super::descendants;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use std::{
    ffi::OsString,
    io::{self, Read},
    os::{fd::AsFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// How often its pipes and its end are looked for.
const LOOK: Duration = Duration::from_millis(5);
/// How long output is waited for after its program has ended.
const DRAIN: Duration = Duration::from_millis(250);
/// How much error output is kept at each end.
const WORDS_CAP: usize = 4096;

/// A program to run.
#[derive(Debug)]
pub struct Program<'a> {
    /// The program and its arguments. A program with a slash in it starts at the folder, if there is one; one
    /// without is looked for in `PATH`.
    pub argv: &'a [String],
    /// The folder in which it runs; `None` is our own.
    pub folder: Option<&'a Path>,
    /// Its whole environment; `None` is ours.
    pub environment: Option<Vec<(OsString, OsString)>>,
    /// How long it may run. Then it is killed with everything that it started.
    pub deadline: Duration,
    /// How many bytes it may print.
    pub cap: usize,
    /// Whether what it started goes on after its own end; else it is killed.
    pub may_leave_children: bool,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// What became of it.
    pub end: End,
    /// Its output, of a flood only the beginning.
    pub out: Vec<u8>,
    /// The first line of its error output that says something.
    pub first_words: Vec<u8>,
    /// The last bytes of its error output.
    pub last_words: Vec<u8>,
}

/// What became of a program.
#[derive(Debug)]
pub enum End {
    /// It ended by itself.
    Exited(ExitStatus),
    /// It did not end in time and was killed.
    Deadline,
    /// It printed more than the cap; unless it ended well just then, it was killed.
    Flood,
    /// Nobody waits for it any more, and it was killed.
    Stopped,
}

impl Program<'_> {
    /// Runs it to its end, to the deadline, or until `stop` is set. Blocks.
    ///
    /// # Errors
    /// In words: it could not be started.
    pub fn run(self, stop: &AtomicBool) -> Result<Ended, String> {
        let begun = Instant::now();
        let mut running = Running {
            child: self.start()?,
            collected: false,
        };
        let mut out = Tap::open(running.child.stdout.take(), self.cap.saturating_add(1), 0)?;
        let mut err = Tap::open(running.child.stderr.take(), WORDS_CAP, WORDS_CAP)?;
        let cap = self.cap;
        // Whether both are closed, and whether it is too much.
        let mut look = || {
            out.read();
            err.read();
            (out.closed && err.closed, out.head.len() > cap)
        };
        let end = loop {
            if look().1 {
                break Some(End::Flood);
            }
            if running.has_ended() {
                break None;
            }
            if stop.load(Ordering::Relaxed) {
                break Some(End::Stopped);
            }
            if begun.elapsed() >= self.deadline {
                break Some(End::Deadline);
            }
            std::thread::sleep(LOOK);
        };
        let end = match end {
            Some(end) => {
                running.kill_all();
                end
            }
            None => {
                // What it left running may hold the pipes open; what it printed itself is there already.
                let until = Instant::now() + DRAIN;
                let (mut closed, _) = look();
                while !closed && Instant::now() < until {
                    std::thread::sleep(LOOK);
                    (closed, _) = look();
                }
                if !closed || !self.may_leave_children {
                    running.kill_group();
                }
                let status = running.reap()?;
                if status.success() && out.head.len() > cap {
                    End::Flood
                } else {
                    End::Exited(status)
                }
            }
        };
        Ok(Ended {
            end,
            out: out.head,
            last_words: err.tail,
            first_words: err.head,
        })
    }

    fn start(&self) -> Result<Child, String> {
        let (program, arguments) = self.argv.split_first().ok_or("it has no program")?;
        // Looked up here, because behind `setsid` a missing program would look like a failing one.
        let program = find(program, self.folder).ok_or("no such program")?;
        let mut command = match find("setsid", None) {
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
        if let Some(folder) = self.folder {
            command.current_dir(folder);
        }
        if let Some(environment) = &self.environment {
            command.env_clear().envs(environment.iter().cloned());
        }
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())
    }
}

/// Where a program is: at its path if it has a slash, else the first of that name in `PATH`.
pub fn find(program: &str, folder: Option<&Path>) -> Option<PathBuf> {
    if program.is_empty() {
        return None;
    }
    if program.contains('/') {
        let path = folder.map_or_else(|| PathBuf::from(program), |folder| folder.join(program));
        return path.is_file().then_some(path);
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|dir| dir.join(program))
        .find(|path| path.is_file())
}

/// A child that is never left behind, neither running nor as a zombie.
struct Running {
    child: Child,
    collected: bool,
}

impl Running {
    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Whether it has ended. It is not collected yet: as long as it is a zombie no other group can have its number.
    fn has_ended(&self) -> bool {
        let flags = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let looked = self.pid().map(|pid| waitid(WaitId::Pid(pid), flags));
        match looked {
            Some(Ok(Some(_)) | Err(rustix::io::Errno::CHILD)) => true,
            // Asked again until the deadline.
            Some(Ok(None) | Err(_)) | None => false,
        }
    }

    fn kill_group(&self) {
        if let Some(pid) = self.pid() {
            // It may be gone already; then there is nothing to end.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }

    /// Kills it, its group, and what it started in groups of their own.
    fn kill_all(&mut self) {
        let family = self
            .pid()
            .map_or_else(Vec::new, |p| descendants(p.as_raw_nonzero().get()));
        self.kill_group();
        let _ = self.child.kill();
        for pid in family.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.reap();
    }

    fn reap(&mut self) -> Result<ExitStatus, String> {
        self.collected = true;
        self.child.wait().map_err(|e| e.to_string())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.collected {
            self.kill_all();
        }
    }
}

/// One of its pipes. The first and the last bytes are kept, the rest is dropped.
struct Tap<P> {
    pipe: Option<P>,
    closed: bool,
    head: Vec<u8>,
    head_cap: usize,
    tail: Vec<u8>,
    tail_cap: usize,
}

impl<P: Read + AsFd> Tap<P> {
    fn open(pipe: Option<P>, head_cap: usize, tail_cap: usize) -> Result<Self, String> {
        if let Some(pipe) = &pipe {
            let flags = rustix::fs::fcntl_getfl(pipe).map_err(|e| e.to_string())?;
            rustix::fs::fcntl_setfl(pipe, flags | rustix::fs::OFlags::NONBLOCK).map_err(|e| e.to_string())?;
        }
        Ok(Self {
            closed: pipe.is_none(),
            pipe,
            head: Vec::new(),
            head_cap,
            tail: Vec::new(),
            tail_cap,
        })
    }

    /// Takes what is there, at most 1 MiB at a time, so that one that floods us is still looked after.
    fn read(&mut self) {
        let Some(pipe) = &mut self.pipe else {
            return;
        };
        let mut block = [0_u8; 16 * 1024];
        for _ in 0..64 {
            match pipe.read(&mut block) {
                Ok(0) => {
                    self.closed = true;
                    return;
                }
                Ok(n) => {
                    let new = block.get(..n).unwrap_or_default();
                    let room = self.head_cap.saturating_sub(self.head.len()).min(n);
                    self.head.extend(new.iter().take(room));
                    self.tail.extend(new.iter().skip(n.saturating_sub(self.tail_cap)));
                    let over = self.tail.len().saturating_sub(self.tail_cap);
                    self.tail.drain(..over);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.closed = true;
                    return;
                }
            }
        }
    }
}
