//! `run NAME`: supervise headless until NAME ends.

use super::{
    args::Global,
    context::{self, Done, Exit, Try, on_newest},
    ending::exit_code,
    gaps,
    progress::Progress,
};
use crate::{
    config::{self, BackfillConfig, Config},
    domain::{
        event::{Actor, NewEvent, Payload, Read},
        human,
        ids::{BackfillId, Name},
        state::{Backfill, BackfillState, State},
    },
    host::boot_now,
    journal::{AcquireError, Journal, Lease},
    supervisor::{
        core::Input,
        glance,
        run::{Ended, Until},
        wiring,
    },
};
use chrono::Utc;
use serde_json::json;
use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Runtime, sync::mpsc::UnboundedSender};

/// Exit code of a backfill that somebody supervises already.
const ALREADY: u8 = 5;

/// How `run` was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct How {
    /// By a screen: a session of its own, folder `/`, no terminal.
    pub detached: bool,
    /// End when this process has ended.
    pub while_pid: Option<i32>,
    /// A new order although the last one of this name has ended.
    pub again: bool,
    /// Consent to that.
    pub yes: bool,
}

/// Runs the command.
///
/// # Errors
/// Exit code 1 incomplete or cancelled, 2 usage or configuration, 5 already supervised.
pub fn run(global: &Global, name: Option<&str>, how: How, log: Option<&Path>) -> Done {
    if global.read_only {
        return Err(Exit::usage("read-only: a supervisor starts work")
            .hint("leave --read-only and BACKFILL_READ_ONLY away"));
    }
    let config = context::config(global)?;
    let name: Option<Name> = name.map(str::parse).transpose().map_err(Exit::usage)?;
    let actor = config::actor(global.actor.as_deref());
    // The log stands beside the journal: what is wrong with the place is the journal's to say.
    Journal::could_be_at(&config.journal.path, &context::options(&config))?;
    super::logging::to_file(log, &config)?;
    if how.detached {
        detach()?;
    }
    let Some(name) = name else {
        return everything(&config, how);
    };
    let progress = Progress::start(global.json, &name);
    let ended = supervise(&config, &name, &actor, how, &progress);
    progress.finish();
    let (state, id) = ended?;
    exit_code(&state, &id, global.json)
}

/// Leaves the session and the folder of whoever started this process: its end must not be ours.
fn detach() -> Done {
    // Fails only for the leader of a group, which has a session of its own already.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    Ok(())
}

/// Supervises everything that was started and has not ended.
fn everything(config: &Config, how: How) -> Done {
    let mut journal = Journal::open(&config.journal.path, context::options(config))?;
    if journal
        .load_state()?
        .backfills
        .values()
        .all(|b| b.state().is_final())
    {
        return Err(
            Exit::usage("no backfill waits for a supervisor").hint("start one with backfill run NAME")
        );
    }
    let lease = match journal.acquire(boot_now(), &config.tuning) {
        Ok(lease) => lease,
        Err(AcquireError::Denied(denied)) => {
            return Err(Exit::new(ALREADY, format!("supervised already, by {denied}")));
        }
        Err(error) => return Err(error.into()),
    };
    let quiet = Progress::quiet();
    let ended = on_threads(|runtime, signals| {
        let work = Work {
            config,
            how,
            progress: &quiet,
        };
        hold(runtime, signals, &work, journal, lease, Until::AllEnded)
    })?;
    match ended {
        Ended::LeaseLost(to) => Err(Exit::new(ALREADY, format!("the lease went to {to}"))),
        Ended::BackfillEnded | Ended::Told => Ok(()),
    }
}

/// Supervises, or follows another supervisor and takes over when it ends, until the backfill has ended.
///
/// # Errors
/// See [`run`].
pub fn supervise(
    config: &Config,
    name: &Name,
    actor: &Actor,
    how: How,
    progress: &Progress,
) -> Result<(State, BackfillId), Exit> {
    on_threads(|runtime, signals| {
        let work = Work {
            config,
            how,
            progress,
        };
        until_ended(runtime, signals, &work, name, actor)
    })
}

/// What a supervisor works with.
struct Work<'a> {
    config: &'a Config,
    how: How,
    progress: &'a Progress,
}

fn until_ended(
    runtime: &Runtime,
    signals: &Signals,
    work: &Work<'_>,
    name: &Name,
    actor: &Actor,
) -> Result<(State, BackfillId), Exit> {
    let Work {
        config,
        how,
        progress,
    } = *work;
    let mut id = None;
    loop {
        let mut journal = Journal::open(&config.journal.path, context::options(config))?;
        match journal.acquire(boot_now(), &config.tuning) {
            Ok(lease) => {
                let started = ensure_started(
                    &mut journal,
                    config,
                    name,
                    actor,
                    if id.is_none() { how } else { How::default() },
                );
                let known = match started {
                    Ok(known) => known,
                    Err(exit) => {
                        journal.release(lease)?;
                        return Err(exit);
                    }
                };
                id = Some(known.clone());
                supervises(&journal, &lease, &known, progress)?;
                differs(&journal, config, &known, progress)?;
                match hold(runtime, signals, work, journal, lease, Until::Ends(known.clone()))? {
                    Ended::LeaseLost(to) => progress.say(&format!("the lease went to {to}; following")),
                    Ended::BackfillEnded => return Ok((reread(config)?, known)),
                    Ended::Told => {
                        let state = reread(config)?;
                        let words = format!(
                            "stopped supervising {name}; running attempts go on; back: backfill run {name}, \
                             look: backfill status"
                        );
                        progress.say(&words);
                        return Ok((state, known));
                    }
                }
            }
            Err(AcquireError::Denied(denied)) => {
                let state = journal.load_state()?;
                let live = state.by_name(name.as_str()).filter(|b| !b.state().is_final());
                if id.is_none() && live.is_some() {
                    return Err(Exit::new(
                        ALREADY,
                        format!("{name} is supervised already, by {denied}"),
                    ));
                }
                let known = match &id {
                    Some(known) => known.clone(),
                    None => ensure_started(&mut journal, config, name, actor, how)?,
                };
                if id.is_none() {
                    let value = json!({ "follows": known, "holder": denied.holder });
                    let words = format!("{denied} supervises this journal; {name} was added, following");
                    progress.tell(&value, &words);
                }
                if id.is_none() {
                    differs(&journal, config, &known, progress)?;
                }
                id = Some(known.clone());
                match follow(&journal, &known, signals, progress)? {
                    Followed::ToTheEnd(state) => return Ok((*state, known)),
                    Followed::Told(state) => {
                        progress.say(&format!("stopped following {name}; look: backfill status"));
                        return Ok((*state, known));
                    }
                    Followed::Alone => {}
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Says what this supervisor is in charge of: one supervises all that was started in its journal, whatever it was
/// asked for.
fn supervises(journal: &Journal, lease: &Lease, asked: &BackfillId, progress: &Progress) -> Done {
    let state = journal.load_state()?;
    let open = state.backfills.values().filter(|b| !b.state().is_final());
    let others: Vec<&BackfillId> = open.map(|b| &b.id).filter(|id| *id != asked).collect();
    let all: Vec<&BackfillId> = std::iter::once(asked).chain(others.iter().copied()).collect();
    let value = json!({ "supervises": all, "asked": asked, "holder": lease.holder, "epoch": lease.epoch });
    let beside = match others.as_slice() {
        [] => String::new(),
        others => {
            let ids: Vec<&str> = others.iter().map(|id| id.as_str()).collect();
            format!(
                ", and what was started before in this journal: {}",
                ids.join(", ")
            )
        }
    };
    let words = format!("supervising {asked}{beside}; ctrl-c ends this, running attempts go on");
    progress.tell(&value, &words);
    Ok(())
}

/// Warns if what was started is not what the configuration says now, and says what holds it up from the start.
fn differs(journal: &Journal, config: &Config, id: &BackfillId, progress: &Progress) -> Done {
    let state = journal.load_state()?;
    let Some(order) = state.backfills.get(id) else {
        return Ok(());
    };
    let configured = config.backfills.get(&order.spec.name);
    let drift = configured.map_or_else(Vec::new, |c| config::drift(&order.spec, &c.spec));
    if !drift.is_empty() {
        let mend = format!("backfill amend {}", order.spec.name);
        let words = format!(
            "the configuration differs from the started order: {}; take it over: `{mend}`",
            drift.join("; ")
        );
        progress.note_drift();
        progress.tell(&json!({ "backfill": id, "drift": drift, "mend": mend }), &words);
    }
    if let Some(words) = gaps::of(&order.spec, Utc::now()) {
        progress.tell(&json!({ "backfill": id, "note": words }), &words);
    }
    progress.say_what_holds_it(&state);
    Ok(())
}

/// Work on a runtime whose threads are not waited for at the end: one may be reading a secret that does not come.
fn on_threads<T>(work: impl FnOnce(&Runtime, &Signals) -> Result<T, Exit>) -> Result<T, Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let done = work(&runtime, &Signals::listen(&runtime));
    runtime.shutdown_background();
    done
}

fn reread(config: &Config) -> Result<State, Exit> {
    Ok(Journal::open(&config.journal.path, context::options(config))?.load_state()?)
}

/// Holds the lease until the loop ends. TERM and INT end it in order, HUP reads the configuration again.
fn hold(
    runtime: &Runtime,
    signals: &Signals,
    work: &Work<'_>,
    journal: Journal,
    lease: Lease,
    until: Until,
) -> Result<Ended, Exit> {
    let _inside = runtime.enter();
    let watcher = work.progress.watcher();
    let (parts, inbox) = wiring::supervisor(work.config.clone(), journal, lease, until, watcher)?;
    let parent = work
        .how
        .while_pid
        .map(|pid| runtime.spawn(outlive(pid, inbox.clone())));
    signals.go_to(inbox);
    let ended = parts.run(runtime.handle());
    if let Some(parent) = parent {
        parent.abort();
    }
    Ok(ended?)
}

/// TERM, INT and HUP, heard from the start to the end: once a program listens to them they do nothing by themselves,
/// so they must not get lost while it does not hold the lease.
#[derive(Clone, Default)]
struct Signals {
    told: Arc<AtomicBool>,
    inbox: Arc<Mutex<Option<UnboundedSender<Input>>>>,
}

impl Signals {
    fn listen(runtime: &Runtime) -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let signals = Self::default();
        let _inside = runtime.enter();
        let streams = (
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
            signal(SignalKind::hangup()),
        );
        let (Ok(mut term), Ok(mut int), Ok(mut hup)) = streams else {
            return signals;
        };
        let heard = signals.clone();
        runtime.spawn(async move {
            loop {
                let input = tokio::select! {
                    _ = term.recv() => Input::Quit,
                    _ = int.recv() => Input::Quit,
                    _ = hup.recv() => Input::Reload,
                };
                heard.hear(input);
            }
        });
        signals
    }

    fn hear(&self, input: Input) {
        if matches!(input, Input::Quit) {
            self.told.store(true, Ordering::SeqCst);
        }
        if let Some(inbox) = &*self.inbox.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = inbox.send(input);
        }
    }

    /// From now on they go to this loop; one that came before it was there counts.
    fn go_to(&self, inbox: UnboundedSender<Input>) {
        let mut place = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        if self.told() {
            let _ = inbox.send(Input::Quit);
        }
        *place = Some(inbox);
    }

    fn told(&self) -> bool {
        self.told.load(Ordering::SeqCst)
    }
}

/// Ends the loop when the process that wanted it has ended.
async fn outlive(pid: i32, inbox: UnboundedSender<Input>) {
    let first = crate::host::process_stamp(pid);
    loop {
        let now = crate::host::process_stamp(pid);
        if now.is_none() || now != first {
            let _ = inbox.send(Input::Quit);
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// How following another supervisor ended.
enum Followed {
    /// The backfill has ended.
    ToTheEnd(Box<State>),
    /// Nobody supervises any more.
    Alone,
    /// Somebody sent TERM or INT, or asked for an end of supervising.
    Told(Box<State>),
}

/// Follows another supervisor.
fn follow(
    journal: &Journal,
    id: &BackfillId,
    signals: &Signals,
    progress: &Progress,
) -> Result<Followed, Exit> {
    let mut state = journal.load_state()?;
    let mut watcher = progress.watcher();
    let (began, mut told) = (Utc::now(), None);
    loop {
        if state.backfills.get(id).is_none_or(|b| b.state().is_final()) {
            return Ok(Followed::ToTheEnd(Box::new(state)));
        }
        if signals.told() {
            return Ok(Followed::Told(Box::new(state)));
        }
        std::thread::sleep(crate::journal::FOLLOW_EVERY);
        let executor = state.backfills.get(id).map(|b| b.spec.executor.clone());
        let problem = executor.and_then(|e| glance::problem_since(journal, &e, began));
        if let Some(problem) = problem.as_ref().filter(|_| problem != told) {
            progress.say(&format!("waits: {problem}"));
        }
        told = problem;
        // Looked at before the events: what a holder appended before it ended is then seen as well.
        let alive = glance::holder(journal).as_ref().is_some_and(glance::is_alive);
        let mut stopped = false;
        for event in journal.read_after(state.head, 10_000)? {
            state.apply(&event);
            watcher(&state, &event);
            stopped |= matches!(event.payload, Read::Known(Payload::StopSupervising {}));
        }
        let over = state.backfills.get(id).is_none_or(|b| b.state().is_final());
        // Whoever said stop did not mean that the next in line goes on.
        if stopped && !over {
            return Ok(Followed::Told(Box::new(state)));
        }
        if !alive && !over {
            return Ok(Followed::Alone);
        }
    }
}

/// The backfill of that name that is to go on, else a new one, journaled. The head check makes sure that two
/// callers start one.
fn ensure_started(
    journal: &mut Journal,
    config: &Config,
    name: &Name,
    actor: &Actor,
    how: How,
) -> Result<BackfillId, Exit> {
    let state = journal.load_state()?;
    on_newest(
        journal,
        state,
        |j| j,
        |journal, state| {
            let newest = state.by_name(name.as_str());
            if let Some(backfill) = newest
                && !(how.again && backfill.state().is_final())
            {
                return match goes_on(backfill) {
                    Ok(id) => Try::Done(id),
                    Err(exit) => Try::No(exit),
                };
            }
            if let (Some(ended), false) = (newest, how.yes) {
                return Try::No(
                    Exit::usage(format!(
                        "a new order of {name} rewrites {} of {}, {} .. {}",
                        human::counted(ended.chunks.len() as u64, "partition"),
                        ended.spec.target,
                        ended.spec.start,
                        ended.spec.end
                    ))
                    .hint("add --yes"),
                );
            }
            let id = BackfillId::new(name, rand::random());
            match started(state, config, name, actor, &id) {
                Ok(event) => match journal.append(Some(state.head), None, &[event]) {
                    Ok(_) => Try::Done(id),
                    Err(error) => error.into(),
                },
                Err(exit) => Try::No(exit),
            }
        },
    )
}

/// The event of a new order.
fn started(
    state: &State,
    config: &Config,
    name: &Name,
    actor: &Actor,
    id: &BackfillId,
) -> Result<NewEvent, Exit> {
    let configured = config
        .backfills
        .get(name)
        .ok_or_else(|| context::unknown(config, name.as_str()))?;
    if let Some(other) = overlapping(state, configured) {
        return Err(Exit::usage(format!(
            "{} rewrites {} over the same days and has not ended",
            other.id, other.spec.target
        ))
        .hint(format!(
            "let it end, or cancel it first: backfill cancel {}",
            other.spec.name
        )));
    }
    Ok(NewEvent {
        at: Utc::now(),
        actor: actor.clone(),
        reason: None,
        backfill: Some(id.clone()),
        payload: Payload::Started {
            spec: Box::new(configured.spec.clone()),
            hash: config::spec_hash(&configured.spec),
        },
    })
}

/// A backfill that exists: unfinished ones go on, finished ones are left alone.
fn goes_on(backfill: &Backfill) -> Result<BackfillId, Exit> {
    let name = &backfill.spec.name;
    match backfill.state() {
        BackfillState::Cancelled => Err(Exit::new(1, format!("{} was cancelled", backfill.id))
            .hint(format!("backfill run {name} --again starts a new order"))),
        _ => Ok(backfill.id.clone()),
    }
}

/// Another unfinished backfill of the same target whose days overlap (case B24).
fn overlapping<'a>(state: &'a State, wanted: &BackfillConfig) -> Option<&'a Backfill> {
    state.backfills.values().find(|b| {
        !b.state().is_final()
            && b.spec.target == wanted.spec.target
            && b.spec.start <= wanted.spec.end
            && b.spec.end >= wanted.spec.start
    })
}
