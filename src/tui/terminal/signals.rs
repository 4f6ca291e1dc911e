//! Signals as messages. The thread only forwards them; what they mean is the run loop's matter.

use super::{run::Inbox, watchdog::Watchdog};
use signal_hook::{
    consts::signal::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP},
    flag::register_conditional_default,
    iterator::{Handle, Signals},
};
use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

/// How long an orderly end may take before the watchdog makes one.
const ORDERLY: Duration = Duration::from_millis(1500);

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Leave: TERM, HUP, INT or QUIT, by number.
    End(i32),
    /// Give the terminal back and stop.
    Stop,
    /// Go on: the terminal may have been changed meanwhile.
    Continue,
}

/// Listens from now on, until the handle is dropped.
pub struct Listener {
    handle: Handle,
    stops: Arc<AtomicBool>,
}

impl Listener {
    /// Starts listening. `skip` is a signal that stays as it was when the process started.
    ///
    /// # Errors
    /// The system refuses a handler or a thread.
    pub fn start(inbox: Inbox, watchdog: Watchdog, skip: Option<i32>) -> io::Result<Self> {
        let stops = Arc::<AtomicBool>::default();
        // Registered before the thread's own, so that the process stops first and hears of it when it goes on.
        register_conditional_default(SIGTSTP, stops.clone())?;
        let all = [SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGCONT];
        let mut signals = Signals::new(all.into_iter().filter(|s| Some(*s) != skip))?;
        let handle = signals.handle();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                let means = match signal {
                    SIGTSTP => Signal::Stop,
                    SIGCONT => Signal::Continue,
                    _ => Signal::End(signal),
                };
                if let Signal::End(signal) = means {
                    watchdog.arm(ORDERLY, 128 + signal);
                }
                inbox.signal(means);
            }
        })?;
        Ok(Self { handle, stops })
    }
}

impl Listener {
    /// While this is set, the stop signal stops the process on the spot, like one that does not listen. Without it
    /// the signal is only a message, so that the terminal can be given back first.
    pub fn stops(&self) -> Arc<AtomicBool> {
        self.stops.clone()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.handle.close();
    }
}
