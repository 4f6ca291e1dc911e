//! The last resort. Where the run loop cannot end by itself in time (its terminal takes no output, a library hangs),
//! the watchdog gives the terminal back and ends the process. It also notices a terminal that hung up.

use super::guard::Guard;
use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How often a hang-up is looked for.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
struct Shared {
    /// When the process ends by force, and with which exit code.
    deadline: Mutex<Option<(Instant, i32)>>,
    changed: Condvar,
    over: AtomicBool,
}

/// A handle to the watchdog's thread.
#[derive(Debug, Clone)]
pub struct Watchdog {
    shared: Arc<Shared>,
}

impl Watchdog {
    /// Starts the thread. `on_hang_up` is called once when the terminal is gone.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(guard: Guard, on_hang_up: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let dog = Self {
            shared: shared.clone(),
        };
        let mut on_hang_up = Some(on_hang_up);
        thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                loop {
                    if let Some(code) = wait(&shared) {
                        guard.leave();
                        signal_hook::low_level::exit(code);
                    }
                    if shared.over.load(Ordering::SeqCst) {
                        return;
                    }
                    if on_hang_up.is_some() && guard.is_gone() {
                        arm(&shared, Duration::from_millis(1500), 129);
                        if let Some(tell) = on_hang_up.take() {
                            tell();
                        }
                    }
                }
            })?;
        Ok(dog)
    }

    /// The process ends with this exit code after this time, unless [`Watchdog::stop`] comes first. The earliest
    /// deadline counts.
    pub fn arm(&self, after: Duration, code: i32) {
        arm(&self.shared, after, code);
    }

    /// The run loop ended by itself.
    pub fn stop(&self) {
        self.shared.over.store(true, Ordering::SeqCst);
        *self
            .shared
            .deadline
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
        self.shared.changed.notify_all();
    }
}

fn arm(shared: &Shared, after: Duration, code: i32) {
    let at = Instant::now() + after;
    let mut deadline = shared.deadline.lock().unwrap_or_else(PoisonError::into_inner);
    if deadline.is_none_or(|(earlier, _)| at < earlier) {
        *deadline = Some((at, code));
    }
    shared.changed.notify_all();
}

/// Waits a moment; gives the exit code if the deadline has come.
fn wait(shared: &Shared) -> Option<i32> {
    let deadline = shared.deadline.lock().unwrap_or_else(PoisonError::into_inner);
    let left = deadline.map_or(LOOK, |(at, _)| {
        at.saturating_duration_since(Instant::now()).min(LOOK)
    });
    let (deadline, _) = shared
        .changed
        .wait_timeout(deadline, left)
        .unwrap_or_else(PoisonError::into_inner);
    deadline
        .filter(|(at, _)| *at <= Instant::now() && !shared.over.load(Ordering::SeqCst))
        .map(|(_, code)| code)
}
