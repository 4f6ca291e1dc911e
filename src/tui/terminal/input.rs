//! The input thread: reads the terminal, stamps each key with the time at which it was read, and forwards it. It
//! can be parked while the terminal belongs to somebody else, and it counts ctrl-c by itself, so that a hanging run
//! loop cannot keep anyone from leaving.

use super::{guard::Guard, run::Inbox, watchdog::Watchdog};
use crate::{
    domain::Time,
    tui::{
        keymap::Code,
        msg::{Msg, Press},
    },
};
use crossterm::event;
use std::{
    io,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long one look at the terminal lasts; parking and stopping take at most as long.
const LOOK: Duration = Duration::from_millis(50);
/// Two ctrl-c within this time leave; if the run loop has not left after that time, the watchdog does.
const AGAIN: Duration = Duration::from_secs(2);
const ORDERLY: Duration = Duration::from_millis(600);

#[derive(Debug, Default)]
struct Shared {
    parked: Mutex<bool>,
    changed: Condvar,
    /// The thread is inside a look at the terminal.
    looking: AtomicBool,
    over: AtomicBool,
}

/// A handle to the input thread; dropping it stops the thread.
#[derive(Debug)]
pub struct InputThread {
    shared: Arc<Shared>,
}

impl InputThread {
    /// Starts reading.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(
        inbox: Inbox,
        watchdog: Watchdog,
        guard: Guard,
        clock: impl Fn() -> Time + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let input = Self {
            shared: shared.clone(),
        };
        thread::Builder::new().name("input".to_owned()).spawn(move || {
            let mut interrupts = Interrupts::default();
            while let Some(event) = next(&shared, &guard) {
                let Some(msg) = Msg::from_terminal(event, clock()) else {
                    continue;
                };
                if let Msg::Key(press) = &msg
                    && interrupts.second(press, Instant::now())
                {
                    watchdog.arm(ORDERLY, 130);
                }
                inbox.input(msg);
            }
        })?;
        Ok(input)
    }

    /// Stops reading until [`InputThread::unpark`], and waits a moment until no read is under way.
    pub fn park(&self) {
        self.set_parked(true);
        let until = Instant::now() + LOOK * 3;
        while self.shared.looking.load(Ordering::SeqCst) && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Reads again.
    pub fn unpark(&self) {
        self.set_parked(false);
    }

    fn set_parked(&self, parked: bool) {
        *self.shared.parked.lock().unwrap_or_else(PoisonError::into_inner) = parked;
        self.shared.changed.notify_all();
    }
}

impl Drop for InputThread {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.set_parked(false);
    }
}

/// The next event; `None` when the thread is over. A terminal that cannot be read is looked at again after a
/// while: whether it is gone is the watchdog's matter.
fn next(shared: &Shared, guard: &Guard) -> Option<event::Event> {
    loop {
        {
            let mut parked = shared.parked.lock().unwrap_or_else(PoisonError::into_inner);
            while *parked {
                parked = shared
                    .changed
                    .wait(parked)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if shared.over.load(Ordering::SeqCst) {
                return None;
            }
            shared.looking.store(true, Ordering::SeqCst);
        }
        let event = match event::poll(LOOK) {
            Ok(true) => event::read().ok(),
            Ok(false) => {
                // A key that arrives in the same moment as a resize is announced once, together with it, and can
                // be overlooked for it; it would lie there until the next key.
                if guard.has_input() {
                    guard.announce_input();
                }
                None
            }
            Err(_) => {
                thread::sleep(LOOK);
                None
            }
        };
        shared.looking.store(false, Ordering::SeqCst);
        if event.is_some() {
            return event;
        }
    }
}

/// Notices a second ctrl-c soon after the first.
#[derive(Debug, Default)]
struct Interrupts {
    last: Option<Instant>,
}

impl Interrupts {
    fn second(&mut self, press: &Press, at: Instant) -> bool {
        if !(press.key.ctrl && press.key.code == Code::Char('c')) || press.repeat {
            return false;
        }
        let second = self.last.is_some_and(|last| at - last < AGAIN);
        self.last = Some(at);
        second
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::keymap::Key;

    fn press(c: char, ctrl: bool, repeat: bool) -> Press {
        let code = Code::Char(c);
        let key = Key {
            code,
            ctrl,
            alt: false,
        };
        Press {
            key,
            repeat,
            at: Time::MIN_UTC,
        }
    }

    #[test]
    fn only_a_second_ctrl_c_within_two_seconds_counts() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut interrupts = Interrupts::default();
        assert!(!interrupts.second(&press('c', true, false), at(0)));
        assert!(!interrupts.second(&press('c', false, false), at(10)));
        assert!(!interrupts.second(&press('c', true, true), at(20)));
        assert!(!interrupts.second(&press('c', true, false), at(2500)));
        assert!(interrupts.second(&press('c', true, false), at(4000)));
    }
}
