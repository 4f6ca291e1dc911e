//! A pseudo-terminal with a program in it: types, waits for text, looks at modes. The test holds the terminal's end
//! of the line, and can stop reading it or hang up.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod demo;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::{
    fs::OFlags,
    process::{Pid, Signal, kill_process},
    termios::{Termios, tcgetattr},
};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long anything may take before a test gives up. Never a measure of speed.
const PATIENCE: Duration = Duration::from_secs(30);

struct Seen {
    parser: vt100::Parser,
    raw: Vec<u8>,
}

/// A terminal with a program in it.
pub struct Session {
    seen: Arc<Mutex<Seen>>,
    /// The reader stops reading, without closing the line.
    deaf: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    reader: Option<thread::JoinHandle<()>>,
    writer: Option<Box<dyn Write + Send>>,
    master: Option<Box<dyn MasterPty + Send>>,
    tty: PathBuf,
    /// Keeps the line's other end open, so that its modes can be asked for when the program is gone.
    slave: Option<File>,
    child: Box<dyn Child + Send + Sync>,
    before: Modes,
    /// What `stty -a` said before, but for the size, which is the test's.
    stty: String,
    size: (u16, u16),
}

/// Terminal modes, comparable.
#[derive(Debug, PartialEq, Eq)]
pub struct Modes(String);

fn modes(tty: &File) -> Modes {
    let t: Termios = tcgetattr(tty).unwrap();
    Modes(format!(
        "{:?} {:?} {:?} {:?} {:?}",
        t.input_modes, t.output_modes, t.control_modes, t.local_modes, t.special_codes
    ))
}

/// What `stty -a` says of a terminal.
fn stty(tty: &File) -> String {
    let out = Command::new("stty")
        .arg("-a")
        .stdin(tty.try_clone().unwrap())
        .output()
        .unwrap();
    assert!(out.status.success(), "stty refuses this terminal");
    String::from_utf8(out.stdout).unwrap()
}

/// The program under test with its hidden subcommand.
pub fn program() -> String {
    format!("{} __screen-test", env!("CARGO_BIN_EXE_backfill"))
}

impl Session {
    /// Runs the screen on its test world, with these words after `__screen-test`.
    pub fn screen(cols: u16, rows: u16, args: &[&str]) -> Self {
        let mut words = vec![env!("CARGO_BIN_EXE_backfill"), "__screen-test"];
        words.extend(args);
        Self::run(cols, rows, &words)
    }

    /// Runs a program in a new terminal.
    pub fn run(cols: u16, rows: u16, words: &[&str]) -> Self {
        let size = PtySize {
            rows,
            cols,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let tty = pair.master.tty_name().unwrap();
        let no_tty = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(no_tty)
            .open(&tty)
            .unwrap();
        let (before, stty) = (modes(&slave), stty(&slave));
        let mut command = CommandBuilder::new(words[0]);
        command.args(&words[1..]);
        command.env("TERM", "xterm-256color");
        command.env("PS1", "ready> ");
        command.env("RUST_BACKTRACE", "0");
        // Whatever the machine's own language, glyphs and colours are.
        command.env("LC_ALL", "C.UTF-8");
        for ours in [
            "NO_COLOR",
            "BACKFILL_CONFIG",
            "BACKFILL_ACTOR",
            "BACKFILL_READ_ONLY",
        ] {
            command.env_remove(ours);
        }
        command.cwd(env!("CARGO_MANIFEST_DIR"));
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let seen = Arc::new(Mutex::new(Seen {
            parser: vt100::Parser::new(positive(rows), positive(cols), 0),
            raw: Vec::new(),
        }));
        let (deaf, over) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let mut line = pair.master.try_clone_reader().unwrap();
        let reader = {
            let (seen, deaf, over) = (seen.clone(), deaf.clone(), over.clone());
            thread::spawn(move || {
                let mut bytes = [0; 4096];
                loop {
                    while deaf.load(Ordering::SeqCst) && !over.load(Ordering::SeqCst) {
                        thread::sleep(Duration::from_millis(5));
                    }
                    if over.load(Ordering::SeqCst) {
                        return;
                    }
                    match line.read(&mut bytes) {
                        Ok(0) | Err(_) => return,
                        Ok(n) => {
                            let mut seen = seen.lock().unwrap();
                            seen.parser.process(&bytes[..n]);
                            seen.raw.extend_from_slice(&bytes[..n]);
                        }
                    }
                }
            })
        };
        Self {
            seen,
            deaf,
            over,
            reader: Some(reader),
            writer: Some(pair.master.take_writer().unwrap()),
            master: Some(pair.master),
            tty,
            slave: Some(slave),
            child,
            before,
            stty,
            size: (cols, rows),
        }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.process_id().unwrap()).unwrap()
    }

    /// Types. Returns when.
    pub fn keys(&mut self, text: &str) -> Instant {
        let at = Instant::now();
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        writer.flush().unwrap();
        at
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    pub fn resize(&mut self, cols: u16, rows: u16) {
        let size = PtySize {
            rows,
            cols,
            pixel_width: 0,
            pixel_height: 0,
        };
        self.seen
            .lock()
            .unwrap()
            .parser
            .screen_mut()
            .set_size(positive(rows), positive(cols));
        self.master.as_ref().unwrap().resize(size).unwrap();
        let (old_cols, old_rows) = std::mem::replace(&mut self.size, (cols, rows));
        self.stty = self
            .stty
            .replace(
                &format!("rows {old_rows}; columns {old_cols};"),
                &format!("rows {rows}; columns {cols};"),
            )
            .replace(
                &format!("{old_rows} rows; {old_cols} columns;"),
                &format!("{rows} rows; {cols} columns;"),
            );
    }

    pub fn text(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    /// Something that is read off the screen.
    pub fn look<T>(&self, at: impl Fn(&vt100::Screen) -> T) -> T {
        at(self.seen.lock().unwrap().parser.screen())
    }

    /// The screen below its first line, which holds the clock.
    pub fn body(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().skip(1).map(str::trim_end).collect();
        lines.join("\n")
    }

    pub fn wait(&self, what: &str, done: impl Fn(&vt100::Screen) -> bool) -> Instant {
        let until = Instant::now() + PATIENCE;
        loop {
            if done(self.seen.lock().unwrap().parser.screen()) {
                return Instant::now();
            }
            assert!(
                Instant::now() < until,
                "{what} never came; the screen is\n{}",
                self.text()
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the screen shows a text.
    pub fn wait_for(&self, text: &str) -> Instant {
        self.wait(text, |screen| screen.contents().contains(text))
    }

    /// Waits until the screen no longer shows a text.
    pub fn wait_without(&self, text: &str) -> Instant {
        self.wait(&format!("a screen without {text}"), |screen| {
            !screen.contents().contains(text)
        })
    }

    /// Waits until a shell asks for a command on the normal screen.
    pub fn wait_prompt(&self) -> Instant {
        self.wait("a prompt", |screen| {
            let text = screen.contents();
            !screen.alternate_screen() && text.trim_end().ends_with("\nready>")
        })
    }

    /// Waits until the program has left its own screen.
    pub fn wait_left(&self) -> Instant {
        self.wait("the normal screen", |screen| !screen.alternate_screen())
    }

    pub fn wait_entered(&self) -> Instant {
        self.wait("the alternate screen", vt100::Screen::alternate_screen)
    }

    /// Waits until the program ends; its exit code, 128 and the number for a signal it did not catch.
    pub fn wait_end(&mut self) -> u32 {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return match status.signal() {
                    Some(name) if name.contains("Abort") => 134,
                    Some(name) => panic!("killed by {name}"),
                    None => status.exit_code(),
                };
            }
            assert!(
                Instant::now() < until,
                "it never ended; the screen is\n{}",
                self.text()
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Stops taking what the program writes, as a stalled line does.
    pub fn go_deaf(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }

    pub fn listen(&self) {
        self.deaf.store(false, Ordering::SeqCst);
    }

    /// Closes the terminal's end of the line.
    pub fn hang_up(&mut self) -> Instant {
        self.over.store(true, Ordering::SeqCst);
        self.slave = None;
        // The clock's next second ends the read that is under way.
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        self.writer = None;
        let at = Instant::now();
        self.master = None;
        at
    }

    /// Everything about the terminal is as it was before the program started.
    pub fn assert_restored(&self) {
        // What the program wrote last may still be on its way here.
        self.wait_left();
        self.wait("a cursor", |screen| !screen.hide_cursor());
        self.wait("paste mode off", |screen| !screen.bracketed_paste());
        let slave = self.slave.as_ref().unwrap();
        assert_eq!(modes(slave), self.before);
        assert_eq!(stty(slave), self.stty);
        let seen = self.seen.lock().unwrap();
        assert_eq!(
            seen.parser.screen().mouse_protocol_mode(),
            vt100::MouseProtocolMode::None
        );
        let raw = String::from_utf8_lossy(&seen.raw);
        for (on, off) in [
            ("\x1b[?1004h", "\x1b[?1004l"),
            ("\x1b[?2026h", "\x1b[?2026l"),
            ("\x1b[>3u", "\x1b[<1u"),
        ] {
            let (last_on, last_off) = (raw.rfind(on), raw.rfind(off));
            assert!(last_on.is_some() && last_on < last_off, "{on:?} is not undone");
        }
    }

    /// Waits until the terminal is back as it was before.
    pub fn wait_restored(&self) {
        let until = Instant::now() + PATIENCE;
        while modes(self.slave.as_ref().unwrap()) != self.before {
            assert!(Instant::now() < until, "the modes never came back");
            thread::sleep(Duration::from_millis(2));
        }
        self.assert_restored();
    }

    /// Waits until everything below the first line is this.
    pub fn wait_body(&self, body: &str) {
        let until = Instant::now() + PATIENCE;
        while self.body() != body {
            assert!(
                Instant::now() < until,
                "the screen is\n{}\nand should be\n{body}",
                self.body()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until something below the first line is otherwise.
    pub fn wait_other(&self, body: &str) {
        let until = Instant::now() + PATIENCE;
        while self.body() == body {
            assert!(Instant::now() < until, "nothing changed on\n{body}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Everything that was written after the last occurrence of a text that is followed by a digit.
    pub fn raw_after(&self, text: &str) -> String {
        let seen = self.seen.lock().unwrap();
        let raw = String::from_utf8_lossy(&seen.raw).into_owned();
        let digit = |s: &&str| s.starts_with(|c: char| c.is_ascii_digit());
        raw.split(text)
            .filter(digit)
            .last()
            .unwrap_or_default()
            .to_owned()
    }

    /// The process group that has the terminal.
    pub fn foreground(&self) -> i32 {
        self.master.as_ref().unwrap().process_group_leader().unwrap()
    }

    /// How often a sequence of bytes was written.
    pub fn count_raw(&self, bytes: &str) -> usize {
        String::from_utf8_lossy(&self.seen.lock().unwrap().raw)
            .matches(bytes)
            .count()
    }

    /// Whether the terminal is in raw mode right now.
    pub fn is_raw(&self) -> bool {
        modes(self.slave.as_ref().unwrap()) != self.before
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.over.store(true, Ordering::SeqCst);
    }
}

/// Processor time of a process so far, in hundredths of a second.
#[cfg(target_os = "linux")]
pub fn ticks(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

fn positive(n: u16) -> std::num::NonZeroU16 {
    std::num::NonZeroU16::new(n).unwrap()
}
