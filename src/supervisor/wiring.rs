//! Making the parts of a supervisor out of a configuration.

use super::{
    core::{Core, Input},
    driver::{Driver, Secrets},
    gate::Gate,
    limits::Limits,
    poll::Pollers,
    record::{Notes, Record},
    reload::Reload,
    run::{Desk, Loop, Until, Watch},
    silences::Silences,
    watchers::Watchers,
};
use crate::{
    config::{Config, ExecutorConfig, Places, SignalConfig, SourceConfig},
    domain::{
        ids::{AttemptId, Name},
        text,
    },
    executor::{
        Executor, RunUpdate, Updates,
        airflow::{AirflowExecutor, AirflowSetup},
        attach::Levers,
        inside::Inside,
        local::{LocalExecutor, LocalSetup},
    },
    host::host_name,
    journal::{Journal, Lease, OpenError, ReadError},
    net::{AdapterError, Cause},
    signals::{self, alertmanager::silence::Silencer},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::mpsc::{UnboundedSender, unbounded_channel},
};

/// Why a supervisor could not be made.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    /// The journal.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The journal's events.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A lag source's or an executor's settings.
    #[error(transparent)]
    Settings(#[from] AdapterError),
    /// This program's own file, which runs the shim.
    #[error("cannot find this program's own file: {0}")]
    Binary(#[from] std::io::Error),
}

/// Slots of the configured executors; `None` of one that has none of its own.
pub fn slots(config: &Config) -> BTreeMap<Name, Option<u32>> {
    config
        .executors
        .iter()
        .map(|(n, e)| (n.clone(), e.slots()))
        .collect()
}

/// Where secret variables come from.
pub fn secrets(config: &Config) -> Secrets {
    config
        .backfills
        .iter()
        .map(|(n, b)| (n.clone(), b.secrets.clone()))
        .collect()
}

/// The tasks that ask signals and executors.
pub fn pollers(
    config: &Config,
    executors: &BTreeMap<Name, Arc<dyn Executor>>,
    inbox: &UnboundedSender<Input>,
    notes: &Notes,
) -> Pollers {
    let mut pollers = Pollers::default();
    for (name, signal) in &config.signals {
        silence(&mut pollers.silences, config, name, signal, notes);
        match signals::build(name, signal) {
            Ok(source) => {
                pollers.past(name.clone(), source.clone(), signal.interval, notes.clone());
                pollers.signal(name.clone(), source, signal.interval, inbox.clone());
            }
            Err(error) => {
                // Without a source there are no samples: the signal is blind, and says why.
                let _ = inbox.send(Input::Reading(name.clone(), signals::Reading::Failed(error)));
            }
        }
    }
    for (name, executor) in executors {
        pollers.executor(name.clone(), executor.clone(), inbox.clone());
    }
    pollers
}

/// Looks after the silence of a signal that wants one. A server whose settings cannot be used is told by its source.
fn silence(silences: &mut Silences, config: &Config, name: &Name, signal: &SignalConfig, notes: &Notes) {
    if let SourceConfig::Alertmanager(server) = &signal.source
        && server.silence
    {
        let place = format!("{}:{}", host_name(), config.journal.path.display());
        if let Ok(silencer) = Silencer::new(name.as_str(), server, &text::one_line(&place, 200)) {
            silences.keep(name.clone(), silencer, notes.clone());
        }
    }
}

/// The configured executors, reporting to `updates`.
///
/// # Errors
/// The system does not tell where this program is, which runs the shims, or a server's settings cannot be used.
pub fn executors(
    config: &Config,
    updates: &Updates,
) -> Result<BTreeMap<Name, Arc<dyn Executor>>, WiringError> {
    config
        .executors
        .iter()
        .map(|(name, executor)| Ok((name.clone(), make(name, executor, config, updates)?)))
        .collect()
}

/// Makes a look into the runs of an executor.
pub type MakeInside = Arc<dyn Fn() -> Result<Arc<dyn Inside>, AdapterError> + Send + Sync>;

/// How to look into the runs of a configured executor; `None` where an attempt's output is a file on this machine.
pub fn inside(config: &Config, name: &Name) -> Option<MakeInside> {
    match config.executors.get(name)? {
        ExecutorConfig::Local { .. } => None,
        ExecutorConfig::Airflow(server) => {
            let state = Places::of(&config.journal.path).state;
            let (name, server) = (name.clone(), server.clone());
            Some(Arc::new(move || {
                let setup = AirflowSetup::new(&name, &server, &state, Vec::new());
                // It runs nothing, so there is no news.
                let (updates, _) = unbounded_channel();
                let executor = AirflowExecutor::new(setup, updates)?;
                executor.inside().ok_or_else(|| nothing_inside(&name))
            }))
        }
    }
}

fn nothing_inside(name: &Name) -> AdapterError {
    let (tried, why) = ("look into its runs", "its runs have nothing inside");
    AdapterError::new(name.as_str(), tried, Duration::ZERO, Cause::Local, why)
}

/// Executors that a changed file makes anew: those that are not `known`, servers with other settings, and all of them
/// if the times changed that they were made with. What an older one watches it goes on to watch.
///
/// # Errors
/// As [`executors`].
pub fn changed_executors(
    old: &Config,
    new: &Config,
    known: &BTreeMap<Name, Arc<dyn Executor>>,
    updates: &Updates,
) -> Result<BTreeMap<Name, Arc<dyn Executor>>, WiringError> {
    let same_times = old.tuning == new.tuning;
    // Of a local one only the slots can change, which it does not know.
    let same = |name: &Name, executor: &ExecutorConfig| {
        matches!(executor, ExecutorConfig::Local { .. }) || old.executors.get(name) == Some(executor)
    };
    new.executors
        .iter()
        .filter(|(name, e)| !(same_times && known.contains_key(*name) && same(name, e)))
        .map(|(name, executor)| Ok((name.clone(), make(name, executor, new, updates)?)))
        .collect()
}

/// The levers of one executor, for a process that only asks.
///
/// # Errors
/// It is not configured, has no levers, or its settings cannot be used; in words.
pub fn levers(config: &Config, executor: &str) -> Result<Arc<dyn Levers>, String> {
    let found = config.executors.iter().find(|(n, _)| n.as_str() == executor);
    let Some((name, settings)) = found else {
        let all: Vec<&str> = config.executors.keys().map(Name::as_str).collect();
        return Err(format!(
            "there is no executor {executor}: configured are {}",
            all.join(", ")
        ));
    };
    let (updates, _) = unbounded_channel();
    let made = make(name, settings, config, &updates).map_err(|e| e.to_string())?;
    made.levers()
        .ok_or_else(|| format!("{executor} has no levers: nothing there could be attached to"))
}

fn make(
    name: &Name,
    executor: &ExecutorConfig,
    config: &Config,
    updates: &Updates,
) -> Result<Arc<dyn Executor>, WiringError> {
    match executor {
        ExecutorConfig::Airflow(server) => {
            let state = Places::of(&config.journal.path).state;
            let specs = config
                .backfills
                .values()
                .map(|b| &b.spec)
                .filter(|s| s.executor == *name);
            let dags = specs.filter_map(|s| s.dag.as_ref().map(|d| d.id.clone()));
            let dags: BTreeSet<String> = dags.collect();
            let setup = AirflowSetup::new(name, server, &state, dags.into_iter().collect());
            Ok(Arc::new(AirflowExecutor::new(setup, updates.clone())?))
        }
        ExecutorConfig::Local { .. } => {
            let places = Places::of(&config.journal.path);
            let (state, journal) = (places.state, config.journal.path.clone());
            let setup = LocalSetup::new(name.clone(), state, journal, config.tuning.clone())?;
            Ok(Arc::new(LocalExecutor::new(setup, updates.clone())))
        }
    }
}

/// Makes a supervisor that holds `lease`. Must be called inside the runtime.
///
/// # Errors
/// The journal cannot be used.
pub fn supervisor(
    config: Config,
    journal: Journal,
    lease: Lease,
    until: Until,
    watch: Watch,
) -> Result<(Loop, UnboundedSender<Input>), WiringError> {
    let (sender, inbox) = unbounded_channel();
    let updates = forward(&sender);
    let executors = executors(&config, &updates)?;
    let state = journal.load_state()?;
    let record = Record::start(journal.recorder()?);
    let gate = Arc::new(Gate::default());
    let limits = Limits::restore(&config.signals, &state, |id| {
        journal.checkpoint(id).ok().flatten()
    });
    let core = Core::new(config.tuning.clone(), limits, slots(&config));
    let pollers = pollers(&config, &executors, &sender, &record.notes());
    let driver = Driver {
        executors,
        gate: gate.clone(),
        inbox: sender.clone(),
        epoch: lease.epoch,
        deadline: config.tuning.effect_deadline,
        secrets: secrets(&config),
    };
    let reload = Reload::new(
        config,
        pollers,
        sender.clone(),
        updates,
        record.notes(),
        Handle::current(),
    );
    let parts = Loop {
        journal,
        state,
        lease,
        core,
        driver,
        gate,
        inbox,
        record,
        reload,
        watchers: Watchers::default(),
        until,
        watch,
        desk: Desk::default(),
    };
    Ok((parts, sender))
}

/// Executors report by their own words; the loop has one inbox.
fn forward(inbox: &UnboundedSender<Input>) -> Updates {
    let (sender, mut updates) = unbounded_channel::<(AttemptId, RunUpdate)>();
    let inbox = inbox.clone();
    tokio::spawn(async move {
        while let Some((attempt, update)) = updates.recv().await {
            if inbox.send(Input::Run(attempt, update)).is_err() {
                return;
            }
        }
    });
    sender
}
