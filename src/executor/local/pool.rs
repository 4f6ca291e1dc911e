//! The supervisor's end of its shims: the lines to and from each, and those that are free for another order.

use super::{LocalSetup, order::Answer};
use std::{
    io,
    process::Stdio,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
};

/// The longest answer of a shim that is read, in bytes.
const ANSWER_CAP: u64 = 64 << 10;
/// How long a free shim waits for an order. Long enough for chunks that end in quick succession, for which it saves
/// something, and so short that none is seen beside a backfill that is paused.
const FREE: Duration = Duration::from_secs(2);

/// A shim that this process started. It ends by itself when this is dropped and it has no run.
pub struct ShimProcess {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl ShimProcess {
    /// Starts a shim that waits for its first order.
    ///
    /// # Errors
    /// The system refuses.
    pub fn start(setup: &LocalSetup) -> io::Result<Self> {
        let mut child = Command::new(&setup.binary)
            .arg("__shim")
            .arg(&setup.journal)
            .env_clear()
            .envs(&setup.shim_environment)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(orders), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("it has no pipes"));
        };
        let answers = BufReader::new(answers);
        Ok(Self {
            child,
            orders,
            answers,
        })
    }

    /// Hands an order, a whole line, over and gives the answer. The error says why there is none to trust.
    pub async fn talk(&mut self, order: &[u8]) -> Result<Answer, String> {
        // A shim that does not read to the end has something to say first, or died; the line tells.
        let _ = self.orders.write_all(order).await;
        let _ = self.orders.flush().await;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<Answer, String> {
        let mut line = String::new();
        match (&mut self.answers).take(ANSWER_CAP).read_line(&mut line).await {
            Ok(0) => Err("the shim ended without an answer".to_owned()),
            Ok(_) => {
                serde_json::from_str(&line).map_err(|_| "the shim's answer was not understood".to_owned())
            }
            Err(e) => Err(format!("the shim's answer cannot be read: {e}")),
        }
    }

    /// Waits until its run is over; whether it can have another one.
    pub async fn is_free(&mut self) -> bool {
        self.answer().await == Ok(Answer::Free)
    }

    /// Gives it no more orders and waits for its end.
    pub async fn wait(self) {
        let Self {
            mut child,
            orders,
            answers,
        } = self;
        drop((orders, answers));
        let _ = child.wait().await;
    }

    fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

/// The shims that wait for an order.
#[derive(Clone, Default)]
pub struct IdleShims {
    waiting: Arc<Mutex<Vec<(u64, ShimProcess)>>>,
    next: Arc<AtomicU64>,
}

impl IdleShims {
    /// The one that became free last, if any lives.
    pub fn take(&self) -> Option<ShimProcess> {
        let mut waiting = self.lock();
        loop {
            let (_, mut shim) = waiting.pop()?;
            if !shim.has_ended() {
                return Some(shim);
            }
        }
    }

    /// Keeps a free shim for a while.
    pub fn put(&self, shim: ShimProcess) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().push((number, shim));
        let idle = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(FREE).await;
            let unused = {
                let mut waiting = idle.lock();
                let at = waiting.iter().position(|(n, _)| *n == number);
                at.map(|at| waiting.remove(at).1)
            };
            if let Some(shim) = unused {
                shim.wait().await;
            }
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(u64, ShimProcess)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
