//! The way to the terminal. A frame is collected and written in one piece, between the marks of a synchronised
//! update; once the screen is given back nothing of a frame can reach the terminal any more.

use rustix::{fs::OFlags, termios::ttyname};
use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Write},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Begin and end of a synchronised update; terminals that do not know them ignore them.
const BEGIN: &[u8] = b"\x1b[?2026h";
const END: &[u8] = b"\x1b[?2026l";

/// The terminal's output, shared by the frames and by whoever restores the terminal.
#[derive(Debug)]
pub(super) struct Out {
    file: Mutex<File>,
    /// The same terminal, opened a second time, for writes that never wait. Its own opening, because the flag for
    /// that belongs to the opening, and the first one is shared with the shell.
    hasty: Option<File>,
    /// The screen is ours: frames may be written.
    ours: AtomicBool,
    /// The terminal understands more than the oldest sequences.
    modern: bool,
}

impl Out {
    /// Takes the standard output, past the line buffer and the lock of the standard library.
    pub(super) fn stdout(modern: bool) -> io::Result<Self> {
        let fd = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self {
            file: Mutex::new(File::from(fd)),
            hasty: hasty(),
            ours: AtomicBool::new(false),
            modern,
        })
    }

    pub(super) fn modern(&self) -> bool {
        self.modern
    }

    /// Whether the screen is ours.
    pub(super) fn is_ours(&self) -> bool {
        self.ours.load(Ordering::SeqCst)
    }

    /// Says whose the screen is from here on; returns whether it was ours.
    pub(super) fn swap_ours(&self, ours: bool) -> bool {
        self.ours.swap(ours, Ordering::SeqCst)
    }

    /// Writes control sequences whoever the screen belongs to. Waits at most a moment for a frame that is under
    /// way: where the terminal takes nothing any more, waiting for it would be for ever.
    pub(super) fn control(&self, bytes: &[u8], patience: Duration) -> io::Result<()> {
        let Some(mut file) = lock_within(&self.file, patience) else {
            return Err(io::ErrorKind::TimedOut.into());
        };
        file.write_all(bytes)
    }

    /// Writes control sequences on the way out: whatever the terminal takes within `patience`, and no longer.
    pub(super) fn farewell(&self, bytes: &[u8], patience: Duration) {
        let until = Instant::now() + patience;
        // A frame that is under way is waited for, unless it is what hangs.
        let frame = lock_within(&self.file, patience);
        let Some(mut file) = self.hasty.as_ref() else {
            // A write that may wait is better than none; the watchdog sees to it that it does not wait for ever.
            let _ = frame.map(|mut file| file.write_all(bytes));
            return;
        };
        let mut rest = bytes;
        while !rest.is_empty() {
            match file.write(rest) {
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(5));
                }
                Err(_) => return,
            }
        }
    }

    fn frame(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_ours() {
            return Ok(());
        }
        file.write_all(bytes)
    }
}

/// Opens the terminal of the standard output again; by its name, else as the controlling terminal, which also works
/// where the terminal belongs to another user.
fn hasty() -> Option<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let open = |path: &Path| {
        let flags = i32::try_from(flags.bits()).ok()?;
        File::options().write(true).custom_flags(flags).open(path).ok()
    };
    let name = ttyname(io::stdout(), Vec::new()).ok();
    let by_name = name.and_then(|name| open(Path::new(OsStr::from_bytes(name.as_bytes()))));
    by_name.or_else(|| open(Path::new("/dev/tty")))
}

/// Waits a while for a lock, poisoned or not.
pub(super) fn lock_within<T>(mutex: &Mutex<T>, patience: Duration) -> Option<MutexGuard<'_, T>> {
    let until = Instant::now() + patience;
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => return None,
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// Collects a frame; [`Frames::commit`] sends it. Flushes in between, of which a backend makes several a frame, are
/// not sent one by one.
#[derive(Debug, Clone)]
pub struct Frames {
    out: Arc<Out>,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Frames {
    pub(super) fn new(out: Arc<Out>) -> Self {
        Self {
            out,
            bytes: Arc::default(),
        }
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what was collected, if there is anything.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn commit(&self) -> io::Result<()> {
        let frame = std::mem::take(&mut *self.bytes());
        if frame.is_empty() {
            return Ok(());
        }
        if !self.out.modern() {
            return self.out.frame(&frame);
        }
        let mut whole = Vec::with_capacity(frame.len() + BEGIN.len() + END.len());
        for part in [BEGIN, &frame, END] {
            whole.extend_from_slice(part);
        }
        self.out.frame(&whole)
    }

    /// Throws away what was collected.
    pub fn discard(&self) {
        self.bytes().clear();
    }
}

impl Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
