//! Whole frames of a program in a pseudo-terminal, each with the moment at which its last byte came. Nothing is
//! polled and no thread stands in between, so that a time is the program's own.

#![allow(dead_code, reason = "each user takes its part")]

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use std::{
    io::{ErrorKind, Read, Write},
    num::NonZeroU16,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

/// How the program ends a frame: the end of a synchronised update.
const FRAME_END: &[u8] = b"\x1b[?2026l";
/// After this time the program is killed, so that nobody waits for ever for a frame that does not come.
const PATIENCE: Duration = Duration::from_secs(90);

/// A program in a terminal, seen frame by frame.
pub struct Frames {
    reader: Box<dyn Read + Send>,
    writer: Box<dyn Write + Send>,
    /// Closing it hangs up.
    _master: Box<dyn MasterPty + Send>,
    child: Box<dyn Child + Send + Sync>,
    parser: vt100::Parser,
    /// Read and not taken in yet, with the moment of the reading.
    rest: Vec<u8>,
    read_at: Instant,
    started: Instant,
    /// When each piece came, and how long it was.
    pieces: Vec<(Duration, usize)>,
    /// Dropping it calls the watchdog off.
    _watched: Sender<()>,
}

impl Frames {
    /// Starts a program. Its time runs from just before that.
    pub fn start(cols: u16, rows: u16, words: &[&str]) -> Self {
        let size = PtySize {
            rows,
            cols,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(words[0]);
        command.args(&words[1..]);
        command.env("TERM", "xterm-256color");
        command.env("LC_ALL", "C.UTF-8");
        command.env_remove("NO_COLOR");
        let reader = pair.master.try_clone_reader().unwrap();
        let writer = pair.master.take_writer().unwrap();
        let positive = |n| NonZeroU16::new(n).unwrap();
        let started = Instant::now();
        let child = pair.slave.spawn_command(command).unwrap();
        let (watched, watch) = channel();
        let mut killer = child.clone_killer();
        thread::spawn(move || {
            if watch.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                let _ = killer.kill();
            }
        });
        Self {
            reader,
            writer,
            _master: pair.master,
            child,
            parser: vt100::Parser::new(positive(rows), positive(cols), 0),
            rest: Vec::new(),
            read_at: started,
            started,
            pieces: Vec::new(),
            _watched: watched,
        }
    }

    /// When the program was started.
    pub const fn started(&self) -> Instant {
        self.started
    }

    pub fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    pub fn text(&self) -> String {
        self.parser.screen().contents()
    }

    /// When each piece of output came since the start, and its length: where a time was spent.
    pub fn pieces(&self) -> &[(Duration, usize)] {
        &self.pieces
    }

    /// Types. Returns when.
    pub fn keys(&mut self, text: &str) -> Instant {
        let at = Instant::now();
        self.writer.write_all(text.as_bytes()).unwrap();
        self.writer.flush().unwrap();
        at
    }

    /// Takes in frames until one is as wanted; when that one was complete.
    pub fn until(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> Instant {
        loop {
            while let Some(end) = position(&self.rest, FRAME_END) {
                let frame: Vec<u8> = self.rest.drain(..end + FRAME_END.len()).collect();
                self.parser.process(&frame);
                if wanted(&self.parser.screen().contents()) {
                    return self.read_at;
                }
            }
            let mut bytes = [0; 1 << 16];
            let n = match self.reader.read(&mut bytes) {
                Ok(n) => n,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // A terminal whose last program has ended says so with an error.
                Err(_) => 0,
            };
            self.read_at = Instant::now();
            self.pieces.push((self.read_at - self.started, n));
            assert!(n > 0, "{what} never came; the screen was\n{}", self.text());
            self.rest.extend_from_slice(&bytes[..n]);
        }
    }

    /// The most memory that the program had at any time, in bytes; `None` where the system does not tell.
    pub fn peak_memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).ok()?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib << 10)
    }

    /// Leaves the program.
    pub fn quit(mut self) {
        self.keys("q");
        let code = self.child.wait().unwrap().exit_code();
        assert_eq!(code, 0, "{}", self.text());
    }
}

fn position(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
