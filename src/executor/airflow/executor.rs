//! The executor: one server, its records on this machine, and its watch.

use super::{
    Auth, Clock, Connection, ConnectionSettings, SystemClock,
    attach::{AirflowLevers, Neighbours},
    auth::Standing,
    error::CallError,
    health::Checkup,
    intent::{Stop, Store},
    watch::Watch,
};
use crate::{
    config::{AirflowAuth, AirflowConfig},
    domain::{
        Time,
        ids::{AttemptId, Name},
    },
    executor::{
        Capabilities, Executor, Probe, RecoveryFamily, RunOrder, SubmitAnswer, Updates, attach::Levers,
        inside::Inside,
    },
    host::BootInstant,
    net::{AdapterError, Cause, Surroundings},
};
use async_trait::async_trait;
use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// For so long a DAG's start date is believed.
const START_DATE_AGE: Duration = Duration::from_secs(600);

/// What an [`AirflowExecutor`] needs.
#[derive(Debug, Clone)]
pub struct AirflowSetup {
    /// The way to the server.
    pub connection: ConnectionSettings,
    /// The state directory; `remote/` is made below it.
    pub state: PathBuf,
    /// Time between two looks at what changed.
    pub interval: Duration,
    /// The DAGs that the configuration's backfills run here.
    pub dags: Vec<String>,
}

impl AirflowSetup {
    /// From the configuration, in the environment of this process.
    pub fn new(name: &Name, config: &AirflowConfig, state: &Path, dags: Vec<String>) -> Self {
        let auth = match config.auth.clone() {
            AirflowAuth::None => Auth::None,
            AirflowAuth::Password { user, password } => Auth::Password { user, password },
            AirflowAuth::Token(source) => Auth::Token(source),
            AirflowAuth::Basic { user, password } => Auth::Basic { user, password },
        };
        let connection = ConnectionSettings {
            name: name.to_string(),
            url: config.url.clone(),
            auth,
            headers: config.headers.clone(),
            plain_headers: config.plain_headers.clone(),
            ca_file: config.ca_file.clone(),
            request_budget: config.request_budget,
            surroundings: Surroundings::from_env(),
            clock: Arc::new(SystemClock),
        };
        Self {
            connection,
            state: state.to_owned(),
            interval: config.interval,
            dags,
        }
    }
}

/// Runs chunks as DAG runs of an Airflow.
#[derive(Clone)]
pub struct AirflowExecutor {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) server: Connection,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) store: Store,
    pub(super) interval: Duration,
    pub(super) updates: Updates,
    pub(super) watch: Mutex<Watch>,
    pub(super) dags: Vec<String>,
    pub(super) checkup: tokio::sync::Mutex<Option<Checkup>>,
    pub(super) neighbours: Neighbours,
    /// What the last look at its health found may be true no more.
    pub(super) doubted: AtomicBool,
    /// Whether the last round of the watch was answered.
    pub(super) answers: AtomicBool,
    /// Attempts whose sending is under way in this process, also when nobody waits for it any more.
    sending: Mutex<HashSet<AttemptId>>,
    /// The same for those that are being ended.
    ending: Mutex<HashSet<AttemptId>>,
    starts: Mutex<HashMap<String, (BootInstant, Option<Time>)>>,
}

/// An attempt that is being sent, until it is dropped.
struct Sending(Arc<Inner>, AttemptId);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.sending().remove(&self.1);
    }
}

impl AirflowExecutor {
    /// An executor that reports through `updates`. Nothing is connected yet.
    ///
    /// # Errors
    /// Settings that no connection can be made from, such as a CA file that is not there.
    pub fn new(setup: AirflowSetup, updates: Updates) -> Result<Self, AdapterError> {
        let clock = Arc::clone(&setup.connection.clock);
        let inner = Inner {
            server: Connection::new(setup.connection)?,
            clock,
            store: Store::new(&setup.state),
            interval: setup.interval,
            updates,
            watch: Mutex::default(),
            dags: setup.dags,
            checkup: tokio::sync::Mutex::default(),
            neighbours: Neighbours::default(),
            doubted: AtomicBool::new(false),
            answers: AtomicBool::new(true),
            sending: Mutex::default(),
            ending: Mutex::default(),
            starts: Mutex::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The way to the server, with its counters.
    pub fn connection(&self) -> &Connection {
        &self.inner.server
    }
}

#[async_trait]
impl Executor for AirflowExecutor {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            recovery: RecoveryFamily::UniqueId,
            cancel: true,
            logs: true,
        }
    }

    async fn submit(&self, order: RunOrder) -> SubmitAnswer {
        let attempt = order.attempt.clone();
        if !self.inner.sending().insert(attempt.clone()) {
            let why = "it is being sent already".to_owned();
            return SubmitAnswer::Unknown { why };
        }
        // On a task of its own: whoever waits may give up, and a request that is broken off in the middle is one more
        // of which nobody knows what came.
        let sending = Sending(Arc::clone(&self.inner), attempt);
        let work = tokio::spawn(async move {
            let answer = sending.0.send(&order).await;
            if matches!(
                answer,
                SubmitAnswer::NotSent { .. } | SubmitAnswer::Unknown { .. }
            ) {
                sending.0.doubted.store(true, Ordering::SeqCst);
            }
            answer
        });
        work.await.unwrap_or_else(|e| SubmitAnswer::Unknown {
            why: format!("the sending broke off: {e}"),
        })
    }

    async fn probe(&self, order: RunOrder) -> Probe {
        if self.inner.sending().contains(&order.attempt) {
            let why = "it is still being sent".to_owned();
            return Probe::Unknown { why };
        }
        self.inner.find(&order).await
    }

    async fn cancel(&self, attempt: &AttemptId) -> Result<(), AdapterError> {
        let (inner, attempt) = (Arc::clone(&self.inner), attempt.clone());
        if !inner.ending().insert(attempt.clone()) {
            return Ok(());
        }
        // As with the sending: it takes two requests, of which the supervisor's patience may not outlast the first.
        let work = tokio::spawn(async move {
            let outcome = inner.stop(&attempt, Stop::Cancel).await;
            inner.ending().remove(&attempt);
            outcome
        });
        work.await.unwrap_or_else(|e| {
            let detail = format!("the request broke off: {e}");
            Err(self.inner.error("cancel a run", Cause::Local, &detail))
        })
    }

    fn log_file(&self, _: &AttemptId) -> Option<PathBuf> {
        None
    }

    fn inside(&self) -> Option<Arc<dyn Inside>> {
        Some(Arc::clone(&self.inner) as Arc<dyn Inside>)
    }

    fn tidy(&self, settled: &HashSet<AttemptId>) {
        self.inner.store.tidy(settled);
        self.inner.forget(settled);
    }

    fn levers(&self) -> Option<Arc<dyn Levers>> {
        Some(Arc::new(AirflowLevers {
            inner: Arc::clone(&self.inner),
        }))
    }

    async fn health(&self) -> Result<(), AdapterError> {
        self.inner.check().await
    }
}

impl Inner {
    fn sending(&self) -> MutexGuard<'_, HashSet<AttemptId>> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ending(&self) -> MutexGuard<'_, HashSet<AttemptId>> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a round of the watch was answered: when that changes, the health has changed, too.
    pub(super) fn answered(&self, whole: bool) {
        if self.answers.swap(whole, Ordering::SeqCst) != whole {
            self.doubted.store(true, Ordering::SeqCst);
        }
    }

    /// An error in our own words.
    pub(super) fn error(&self, tried: &str, cause: Cause, detail: &str) -> AdapterError {
        AdapterError::new(self.server.name(), tried, Duration::ZERO, cause, detail)
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self.server.usage().standing, Standing::Refused { .. })
    }

    /// The start date of a DAG; `None` where it has none, or nobody may know.
    pub(super) async fn start_of(&self, dag: &str) -> Result<Option<Time>, CallError> {
        let now = self.clock.now();
        let known = self.starts().get(dag).copied();
        if let Some((_, start)) = known.filter(|(at, _)| now.since(*at) < START_DATE_AGE) {
            return Ok(start);
        }
        let start = match self.server.dag_details(dag).await {
            Ok(details) => details.start_date,
            Err(e) if e.kind == super::Kind::Absent || e.kind == super::Kind::Forbidden => None,
            Err(e) => return Err(e),
        };
        self.starts().insert(dag.to_owned(), (now, start));
        Ok(start)
    }

    fn starts(&self) -> MutexGuard<'_, HashMap<String, (BootInstant, Option<Time>)>> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
