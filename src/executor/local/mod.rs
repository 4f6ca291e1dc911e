//! Processes on this machine, each behind a shim that makes sure that an attempt runs once.
//!
//! The supervisor's side: it starts shims, hears their one answer, waits for their end, and after a restart finds
//! out from the files of an attempt what became of it. Everything that touches a file is done off the async threads.

mod cgroup;
mod environment;
mod gate;
pub mod kill_point;
mod ledger;
mod log;
mod order;
mod place;
mod pool;
mod record;
mod shim;
mod verdict;
mod watch;

pub use log::{LOG_CAP, LOGS_CAP, Pruned, prune_logs};
pub use shim::{Check, NotWanted, Wanted};

use self::{
    order::{Answer, ShimOrder},
    place::{Place, attempts_in, private_file},
    pool::{IdleShims, ShimProcess},
    record::{ChildRecord, Found},
    verdict::{Look, look},
};
use super::{
    Capabilities, Executor, Probe, RecoveryFamily, RunOrder, RunUpdate, SubmitAnswer, Updates, template,
};
use crate::{
    domain::{
        failure::{Failure, FailureClass},
        ids::{AttemptId, ExternalId, Name},
        text,
        tuning::Tuning,
    },
    host::process_stamp,
    net::{AdapterError, Cause},
};
use async_trait::async_trait;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The subcommands that must start fast: `__shim` and `__exec`. Called first thing in `main`; `None` when the
/// arguments are for somebody else.
pub fn early(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    match arguments.nth(1)?.to_str()? {
        "__shim" => Some(shim::main(arguments)),
        "__exec" => Some(gate::main(arguments)),
        _ => None,
    }
}

/// Where the output of an attempt is, below the state directory.
pub fn log_path(state: &Path, attempt: &AttemptId) -> PathBuf {
    Place::new(state, attempt).log().to_owned()
}

/// What a [`LocalExecutor`] needs.
#[derive(Debug, Clone)]
pub struct LocalSetup {
    /// Its name in the configuration.
    pub name: Name,
    /// The state directory, absolute; `attempts/` and `logs/` are made below it.
    pub state: PathBuf,
    /// The journal's file, which each shim asks.
    pub journal: PathBuf,
    /// The program that knows `__shim` and `__exec`.
    pub binary: PathBuf,
    /// Effect deadline, grace and watch are used.
    pub tuning: Tuning,
    /// How much output one log holds, in bytes.
    pub log_cap: u64,
    /// The variables of this process, out of which commands get a few.
    pub environment: BTreeMap<OsString, OsString>,
    /// The shims' own variables; empty but in tests that name a kill point.
    pub shim_environment: BTreeMap<OsString, OsString>,
}

impl LocalSetup {
    /// The usual: this program, its environment, the default cap, and kill points passed on.
    ///
    /// # Errors
    /// The system does not tell where this program is.
    pub fn new(name: Name, state: PathBuf, journal: PathBuf, tuning: Tuning) -> io::Result<Self> {
        let environment: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let of_tests = [kill_point::KILL_AT, kill_point::TESTING].map(OsString::from);
        let shim_environment = of_tests
            .into_iter()
            .filter_map(|name| environment.get(&name).cloned().map(|value| (name, value)))
            .collect();
        Ok(Self {
            name,
            state,
            journal,
            binary: crate::host::own_binary()?,
            tuning,
            log_cap: LOG_CAP,
            environment,
            shim_environment,
        })
    }
}

/// Runs attempts as processes on this machine.
#[derive(Clone)]
pub struct LocalExecutor {
    inner: Arc<Inner>,
}

struct Inner {
    setup: LocalSetup,
    updates: Updates,
    watched: Mutex<HashSet<AttemptId>>,
    idle: IdleShims,
}

impl LocalExecutor {
    /// An executor that reports through `updates`.
    pub fn new(setup: LocalSetup, updates: Updates) -> Self {
        Self {
            inner: Arc::new(Inner {
                setup,
                updates,
                watched: Mutex::default(),
                idle: IdleShims::default(),
            }),
        }
    }
}

#[async_trait]
impl Executor for LocalExecutor {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            recovery: RecoveryFamily::UniqueId,
            cancel: true,
            logs: true,
        }
    }

    async fn submit(&self, order: RunOrder) -> SubmitAnswer {
        let shim_order = match self.inner.shim_order(&order) {
            Ok(shim_order) => shim_order,
            Err(message) => return refused(FailureClass::Config, message),
        };
        let mut shim = match self.inner.shim() {
            Ok(shim) => shim,
            Err(e) => return refused(FailureClass::Platform, format!("the shim cannot be started: {e}")),
        };
        let deadline = self.inner.setup.tuning.effect_deadline;
        let answer = tokio::time::timeout(deadline, shim.talk(&shim_order)).await;
        self.inner.take_answer(
            order.attempt,
            shim,
            answer.unwrap_or_else(|_| {
                Err(format!(
                    "the shim did not answer within {} s",
                    deadline.as_secs_f32()
                ))
            }),
        )
    }

    async fn probe(&self, order: RunOrder) -> Probe {
        let attempt = order.attempt;
        match self.inner.look_until_clear(&attempt).await {
            Look::Alive(Some(run)) => {
                self.inner.clone().watch_files(attempt);
                Probe::Alive { run, running: true }
            }
            Look::Alive(None) => Probe::Unknown {
                why: "a shim holds the attempt and does not start it".to_owned(),
            },
            Look::Ended(end) => Probe::Ended(end),
            Look::NeverRan => Probe::NeverRan,
            Look::Unclear(why) => Probe::Unknown { why },
        }
    }

    async fn cancel(&self, attempt: &AttemptId) -> Result<(), AdapterError> {
        let (place, began) = (self.inner.place(attempt), Instant::now());
        let asked = off_thread(move || ask_to_end(&place)).await;
        asked
            .unwrap_or_else(|| Err(io::ErrorKind::Interrupted.into()))
            .map_err(|e| self.inner.error("write the cancel marker", began.elapsed(), &e))
    }

    fn log_file(&self, attempt: &AttemptId) -> Option<PathBuf> {
        Some(self.inner.place(attempt).log().to_owned())
    }

    fn tidy(&self, settled: &HashSet<AttemptId>) {
        let state = &self.inner.setup.state;
        let pruned = prune_logs(state, LOGS_CAP);
        let swept = sweep_attempts(state, |attempt| settled.contains(attempt));
        tracing::debug!(?pruned, swept, "files of attempts");
    }

    async fn health(&self) -> Result<(), AdapterError> {
        let (setup, began) = (self.inner.setup.clone(), Instant::now());
        let checked = off_thread(move || can_work(&setup)).await;
        checked
            .unwrap_or_else(|| Err(("look at this machine", io::ErrorKind::Interrupted.into())))
            .map_err(|(what, e)| self.inner.error(what, began.elapsed(), &e))
    }
}

fn refused(class: FailureClass, message: String) -> SubmitAnswer {
    let message = text::clean(&message);
    SubmitAnswer::Refused {
        failure: Failure {
            class,
            exit: None,
            message,
        },
    }
}

/// Work with files, off the async threads. `None` only while the runtime shuts down.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// The marker is what counts; the signal only makes the shim look sooner.
fn ask_to_end(place: &Place) -> io::Result<()> {
    place.make_folder()?;
    private_file()
        .write(true)
        .create(true)
        .truncate(false)
        .open(place.cancel())?;
    if let Ok(Found::Whole(child)) = record::read::<ChildRecord>(&place.child())
        && child.boot == crate::host::boot_id()
        && process_stamp(child.shim).is_some_and(|s| s.start == child.shim_start)
        && let Some(shim) = Pid::from_raw(child.shim)
    {
        // Wakes a shim, also one that somebody stopped, and does nothing to a process that is no shim, or has another
        // run by now.
        let _ = kill_process(shim, Signal::CONT);
        let _ = kill_process(shim, Signal::CHILD);
    }
    Ok(())
}

fn can_work(setup: &LocalSetup) -> Result<(), (&'static str, io::Error)> {
    fs::metadata(&setup.binary).map_err(|e| ("find the program of backfill", e))?;
    let probe = setup.state.join(format!(".writable-{}", std::process::id()));
    fs::create_dir_all(&setup.state)
        .and_then(|()| {
            private_file()
                .write(true)
                .create(true)
                .truncate(true)
                .open(&probe)
        })
        .and_then(|_| fs::remove_file(&probe))
        .map_err(|e| ("write to the state directory", e))
}

impl Inner {
    fn place(&self, attempt: &AttemptId) -> Place {
        Place::new(&self.setup.state, attempt)
    }

    fn error(&self, tried: &str, elapsed: Duration, error: &io::Error) -> AdapterError {
        AdapterError {
            endpoint: self.setup.name.to_string(),
            tried: tried.to_owned(),
            elapsed,
            cause: Cause::Local,
            detail: text::one_line(&error.to_string(), 200),
            retry_after: None,
        }
    }

    fn shim_order(&self, order: &RunOrder) -> Result<Vec<u8>, String> {
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        let tuning = &self.setup.tuning;
        order
            .secrets
            .keys()
            .try_for_each(|name| template::variable_can_stand(name))?;
        let shim_order = ShimOrder {
            attempt: order.attempt.clone(),
            epoch: order.epoch,
            sent: crate::host::boot_now(),
            state: self.setup.state.clone().into_os_string(),
            command: template::command(order)?,
            cwd: OsString::from(&order.spec.cwd),
            environment: environment::environment(order, &self.setup.environment, template::variables(order)),
            secrets: order
                .secrets
                .iter()
                .map(|(n, s)| (n.clone(), s.reveal().to_owned()))
                .collect(),
            memory: order.profile.memory,
            deadline_ms: order.profile.deadline_ms,
            grace_ms: millis(tuning.cancel_grace),
            watch_ms: millis(tuning.watch),
            // Shorter than the deadline of the whole, so that the answer still arrives.
            patience_ms: millis(tuning.effect_deadline / 2),
            log_cap: self.setup.log_cap,
        };
        let mut line =
            serde_json::to_vec(&shim_order).map_err(|e| format!("the order cannot be written: {e}"))?;
        line.push(b'\n');
        Ok(line)
    }

    /// One that is free, or a new one.
    fn shim(&self) -> io::Result<ShimProcess> {
        self.idle
            .take()
            .map_or_else(|| ShimProcess::start(&self.setup), Ok)
    }

    fn take_answer(
        self: &Arc<Self>,
        attempt: AttemptId,
        shim: ShimProcess,
        answer: Result<Answer, String>,
    ) -> SubmitAnswer {
        if let Ok(Answer::Started { run }) = answer {
            self.clone().watch_shim(attempt, shim);
            return SubmitAnswer::Accepted {
                run: ExternalId(run),
                running: true,
            };
        }
        // Whatever else it said, it ends by itself and is only taken in.
        tokio::spawn(shim.wait());
        match answer {
            Ok(Answer::Started { run } | Answer::Exists { run }) => {
                self.clone().watch_files(attempt);
                SubmitAnswer::AlreadyExists {
                    run: ExternalId(run),
                    running: true,
                }
            }
            Ok(Answer::NotWanted { why }) => SubmitAnswer::NotWanted {
                why: text::clean(&why),
            },
            Ok(Answer::Refused { failure }) => SubmitAnswer::Refused { failure },
            Ok(Answer::Unknown { why }) | Err(why) => SubmitAnswer::Unknown { why },
            Ok(Answer::Free) => SubmitAnswer::Unknown {
                why: "the shim's answer was not understood".to_owned(),
            },
        }
    }

    /// Reports the end of a run as soon as its shim, our child, says so or has ended.
    fn watch_shim(self: Arc<Self>, attempt: AttemptId, mut shim: ShimProcess) {
        if !self.begin_watch(&attempt) {
            return;
        }
        tokio::spawn(async move {
            if shim.is_free().await {
                self.idle.put(shim);
            } else {
                shim.wait().await;
            }
            self.report(attempt).await;
        });
    }

    /// Reports the end of a run whose shim is not our child: looks again and again.
    fn watch_files(self: Arc<Self>, attempt: AttemptId) {
        if !self.begin_watch(&attempt) {
            return;
        }
        tokio::spawn(async move { self.report(attempt).await });
    }

    fn begin_watch(&self, attempt: &AttemptId) -> bool {
        self.watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(attempt.clone())
    }

    /// Looks until the attempt is no longer alive, and says what became of it.
    async fn report(&self, attempt: AttemptId) {
        let update = loop {
            match self.look(&attempt).await {
                Look::Alive(_) => tokio::time::sleep(self.setup.tuning.watch).await,
                Look::Ended(end) => break RunUpdate::Ended(end),
                Look::NeverRan => {
                    break RunUpdate::Uncertain {
                        why: "its files are gone".to_owned(),
                    };
                }
                Look::Unclear(why) => break RunUpdate::Uncertain { why },
            }
        };
        self.watched
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&attempt);
        let _ = self.updates.send((attempt, update));
    }

    async fn look(&self, attempt: &AttemptId) -> Look {
        let (state, attempt) = (self.setup.state.clone(), attempt.clone());
        let looked = off_thread(move || look(&state, &attempt)).await;
        looked.unwrap_or_else(|| Look::Unclear("this process is ending".to_owned()))
    }

    /// A shim that holds its claim and has no child record yet is about to decide; that is waited for.
    async fn look_until_clear(&self, attempt: &AttemptId) -> Look {
        let until = Instant::now() + self.setup.tuning.effect_deadline;
        loop {
            let look = self.look(attempt).await;
            if look != Look::Alive(None) || Instant::now() >= until {
                return look;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// How many attempts below a state directory have a shim that lives.
pub fn alive(state: &Path) -> usize {
    let held = |attempt: &AttemptId| {
        let claim = File::open(Place::new(state, attempt).claim());
        claim.and_then(verdict::lock).is_ok_and(|free| free.is_none())
    };
    attempts_in(state).iter().filter(|a| held(a)).count()
}

/// Whether an attempt's files say that it is over: how it ended, or that the host was started anew since. Only looks:
/// it takes no lock and makes no file, so it may be asked beside a supervisor. What cannot be read is not over.
pub fn is_over(state: &Path, attempt: &AttemptId) -> bool {
    let place = Place::new(state, attempt);
    let ended = matches!(
        record::read::<record::ExitRecord>(&place.exit()),
        Ok(Found::Whole(_))
    );
    let other_boot = || {
        let child = record::read::<ChildRecord>(&place.child());
        matches!(child, Ok(Found::Whole(child)) if child.boot != crate::host::boot_id())
    };
    ended || other_boot()
}

/// Removes the folders of attempts that the journal has settled and that no shim holds, so that a long backfill does
/// not leave four files a chunk for ever. Their logs stay until [`prune_logs`]. Gives how many were removed.
///
/// Only the journal then still knows them: `settled` must be true only for attempts whose end or withdrawal is
/// journaled, because the shim's check is then all that stands between them and a second run.
pub fn sweep_attempts(state: &Path, settled: impl Fn(&AttemptId) -> bool) -> usize {
    ledger::sweep(state, &settled);
    let removed = |attempt: &&AttemptId| remove_folder(&Place::new(state, attempt));
    attempts_in(state)
        .iter()
        .filter(|a| settled(a))
        .filter(removed)
        .count()
}

fn remove_folder(place: &Place) -> bool {
    let Ok(Some(_claim)) = place.open_claim().and_then(verdict::lock) else {
        return false;
    };
    let removed = fs::remove_dir_all(place.folder()).is_ok();
    // Of the folders above only empty ones go.
    let above = place.folder().ancestors().skip(1).take(2);
    above.map(fs::remove_dir).take_while(Result::is_ok).count();
    removed
}
