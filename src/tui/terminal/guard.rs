//! Taking the terminal and giving it back. Every mode that is turned on here is turned off here, on every way out:
//! return, panic, signal, suspend.

use super::{
    PANIC,
    output::{Frames, Out, lock_within},
};
use crate::domain::text::clean;
use rustix::io::ioctl_fionread;
use rustix::process::getpgrp;
use rustix::termios::{OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetpgrp, tcsetattr};
use std::{
    fs::OpenOptions,
    io::{self, IsTerminal, Write},
    panic,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    thread,
    time::Duration,
};

/// Alternate screen, cursor hidden, bracketed paste, focus reports.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?1004h";
/// And back: an update that was left open is closed first, colours and mouse are put right whoever set them.
const LEAVE: &str = "\x1b[?2026l\x1b[0m\x1b[?1004l\x1b[?2004l\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?25h\x1b[?1049l";
/// Terminals with the kitty protocol tell repeats and releases from presses. The pair belongs to one screen: it is
/// pushed after the alternate screen is entered and popped before it is left.
const KITTY_ON: &str = "\x1b[>3u";
const KITTY_OFF: &str = "\x1b[<1u";

/// How long giving the terminal back waits for a frame that is under way.
const PATIENCE: Duration = Duration::from_millis(150);

/// The terminal as it was before us, and the way to it.
#[derive(Debug)]
struct Taken {
    out: Arc<Out>,
    before: Termios,
    /// Serialises taking and giving back.
    turn: Mutex<()>,
}

/// The terminal, taken. Cloning gives another handle to the same terminal; dropping the last handle gives it back.
#[derive(Debug, Clone)]
pub struct Guard {
    taken: Arc<Taken>,
}

impl Guard {
    /// Remembers the terminal as it is, without changing anything yet.
    ///
    /// # Errors
    /// Standard input or output is no terminal, or the terminal is gone.
    pub fn prepare() -> io::Result<Self> {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            return Err(io::Error::other(
                "the screen needs a terminal on its input and output; `backfill status` does without",
            ));
        }
        let modern = std::env::var_os("TERM").is_none_or(|t| t != "linux" && t != "dumb");
        Ok(Self {
            taken: Arc::new(Taken {
                out: Arc::new(Out::stdout(modern)?),
                before: tcgetattr(io::stdin())?,
                turn: Mutex::new(()),
            }),
        })
    }

    /// A collector of frames for this terminal.
    pub fn frames(&self) -> Frames {
        Frames::new(self.taken.out.clone())
    }

    /// Takes the terminal: raw mode, alternate screen, no cursor, bracketed paste, focus reports. Also again: after
    /// a suspend, and after someone else may have changed it.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn enter(&self) -> io::Result<()> {
        let taken = &self.taken;
        let _turn = taken.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut raw = taken.before.clone();
        raw.make_raw();
        claim(|| tcsetattr(io::stdin(), OptionalActions::Now, &raw))?;
        let mut bytes = String::new();
        let modern = taken.out.modern();
        if taken.out.swap_ours(true) && modern {
            // Stopped and continued without a chance to leave: what was pushed then is still there.
            bytes.push_str(KITTY_OFF);
        }
        bytes.push_str(ENTER);
        if modern {
            bytes.push_str(KITTY_ON);
        }
        taken.out.control(bytes.as_bytes(), Duration::from_secs(1))
    }

    /// Gives the terminal back. Doing it twice is doing it once; it never waits long and never panics.
    pub fn leave(&self) {
        self.taken.leave();
    }

    /// Whether this process may touch the terminal: a process in the background that does is stopped by it.
    pub fn in_foreground(&self) -> bool {
        match tcgetpgrp(io::stdin()) {
            Ok(group) => group == getpgrp(),
            // Not our controlling terminal: there is no background then.
            Err(_) => true,
        }
    }

    /// Whether the screen is ours right now.
    pub fn is_taken(&self) -> bool {
        self.taken.out.is_ours()
    }

    /// Whether the terminal has hung up: every question to it fails for good.
    pub fn is_gone(&self) -> bool {
        matches!(
            tcgetattr(io::stdin()),
            Err(rustix::io::Errno::IO | rustix::io::Errno::NXIO | rustix::io::Errno::BADF)
        )
    }

    /// Whether the terminal holds input that nobody has read.
    pub fn has_input(&self) -> bool {
        ioctl_fionread(io::stdin()).is_ok_and(|waiting| waiting > 0)
    }

    /// Wakes up whoever waits for input: setting the modes, to what they are, announces what lies there once more.
    pub fn announce_input(&self) {
        // Not while somebody takes it or gives it back: these modes would come after theirs.
        if let Ok(_turn) = self.taken.turn.try_lock()
            && self.is_taken()
            && let Ok(modes) = tcgetattr(io::stdin())
        {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
        }
    }

    /// Puts a text into the terminal's clipboard with OSC 52, which also works through ssh.
    ///
    /// # Errors
    /// The text is longer than terminals take, or the terminal is gone.
    pub fn copy(&self, text: &str) -> io::Result<()> {
        const MOST: usize = 74_000;
        let encoded = base64(text.as_bytes());
        if encoded.len() > MOST {
            return Err(io::Error::other("too long for the terminal's clipboard"));
        }
        let bytes = format!("\x1b]52;c;{encoded}\x07");
        self.taken.out.control(bytes.as_bytes(), PATIENCE)
    }

    /// From here on a panic of any thread first gives the terminal back, then is written to `report`, then is shown
    /// on the normal screen by the hook that was there before. Nothing that can fail comes before the terminal.
    pub fn install_panic_hook(&self, report: Option<PathBuf>) {
        let taken = Arc::downgrade(&self.taken);
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANIC.store(1, Ordering::SeqCst);
            if let Some(taken) = taken.upgrade() {
                taken.leave();
            }
            let thread = thread::current();
            let text = clean(&format!("thread {}: {info}", thread.name().unwrap_or("?")));
            tracing::error!(panic = %text, "panic");
            if let Some(path) = &report
                && let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path)
            {
                let _ = writeln!(file, "{text}");
            }
            before(info);
            PANIC.store(2, Ordering::SeqCst);
        }));
    }
}

impl Taken {
    fn leave(&self) {
        // Whoever else is giving the terminal back is waited for, but not for ever.
        let _turn = lock_within(&self.turn, PATIENCE * 3);
        if !self.out.swap_ours(false) {
            return;
        }
        // The modes first: setting them never waits, even when the terminal takes no output any more.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
        let mut bytes = String::new();
        if self.out.modern() {
            bytes.push_str(KITTY_OFF);
        }
        bytes.push_str(LEAVE);
        self.out.farewell(bytes.as_bytes(), PATIENCE);
        // What was typed for the screen, and what the terminal answered, is not for the shell.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Right after a continue the shell may not yet have put us into the foreground: a few tries.
fn claim(mut set: impl FnMut() -> rustix::io::Result<()>) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match set() {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) if tries >= 20 => return Err(error.into()),
            Err(_) => {
                tries += 1;
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// RFC 4648 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            if i <= three.len() {
                out.push(char::from(ALPHABET[(bits >> (18 - 6 * i)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, encoded) in cases {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn every_mode_that_is_turned_on_is_turned_off() {
        for mode in ["?1049", "?2004", "?1004"] {
            assert!(ENTER.contains(&format!("\x1b[{mode}h")), "{mode}");
            assert!(LEAVE.contains(&format!("\x1b[{mode}l")), "{mode}");
        }
        assert!(ENTER.contains("\x1b[?25l") && LEAVE.contains("\x1b[?25h"));
        assert_eq!(
            (KITTY_ON.matches('>').count(), KITTY_OFF.matches('<').count()),
            (1, 1)
        );
    }
}
