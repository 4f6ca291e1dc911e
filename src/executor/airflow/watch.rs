//! Watching the open attempts of one server: one question for all of them each interval, and a look at a single run
//! where it is late, over, or to be ended.

use super::{
    ALL_DAGS, RunQuery,
    calls::Mark,
    deadline::worked,
    drive::deleted,
    error::{CallError, Kind},
    executor::Inner,
    intent::{Intent, Stop, is_over},
    verdict::verdict,
    wire::{Run, RunState},
};
use crate::{
    domain::{Time, ids::AttemptId},
    executor::{RunEnd, RunUpdate},
    host::BootInstant,
    net::{AdapterError, Cause},
};
use chrono::{TimeDelta, TimeZone, Utc};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

/// One of which nothing was heard for this long is asked for by itself: what is queued shows in no poll.
const LATE: Duration = Duration::from_secs(60);
/// After a run was marked failed the scheduler may write over it: so long until it is looked at again.
const SETTLES: Duration = Duration::from_secs(5);
/// The most runs that are looked at one by one in a round.
const SINGLE_LOOKS: usize = 8;
/// After so many looks in vain at one run its end is told without what could not be read.
const PATIENT_LOOKS: u32 = 3;
/// A run that is over its time, and has not worked so long, is looked at again no sooner.
const LATE_AGAIN: TimeDelta = TimeDelta::seconds(15);
/// A run that is absent this often in a row is gone.
const GONE: u32 = 2;
/// Queued for longer than this is worth a reason (case B10).
pub const LONG_QUEUED: Duration = Duration::from_secs(600);

/// The open attempts of a server.
#[derive(Debug, Default)]
pub struct Watch {
    entries: HashMap<AttemptId, Entry>,
    /// Attempts whose end was wanted before the server was known to have them.
    stops: HashMap<AttemptId, Stop>,
    /// A task goes its rounds.
    awake: bool,
}

#[derive(Debug, Clone)]
struct Entry {
    intent: Intent,
    state: RunState,
    /// Its beginning was reported.
    started: bool,
    heard: BootInstant,
    /// What was asked before this was asked when the run was another attempt's.
    since: BootInstant,
    /// When it was last looked at by itself, and how often that failed since it last succeeded.
    looked: Option<BootInstant>,
    failures: u32,
    /// The run as the last poll had it, if that was over.
    over: Option<Run>,
    /// When it began and when it may have worked for too long, on the server's clock.
    began: Option<Time>,
    late_at: Option<Time>,
    /// Queued since, on our clock.
    queued: Option<BootInstant>,
    /// To be looked at by itself.
    due: bool,
    missing: u32,
    /// When it was last marked failed by us.
    marked: Option<BootInstant>,
}

/// How long the open runs of this program have been queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queue {
    /// Runs that are open.
    pub open: usize,
    /// Those queued for longer than [`LONG_QUEUED`].
    pub long_queued: usize,
}

impl Inner {
    fn watched(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch a run. Answers whether it runs.
    pub(super) fn watch(self: &Arc<Self>, mut intent: Intent, run: &Run) -> bool {
        let now = self.clock.now();
        let running = run.state == RunState::Running;
        let mut watch = self.watched();
        intent.stop = intent.stop.or(watch.stops.remove(&intent.attempt));
        let mut entry = Entry {
            state: run.state.clone(),
            started: running,
            heard: now,
            since: now,
            looked: None,
            failures: 0,
            over: None,
            began: None,
            late_at: None,
            queued: None,
            due: false,
            missing: 0,
            // One that was to be ended before it was watched is looked at, and marked again if it is not over.
            marked: intent.stop.map(|_| now),
            intent,
        };
        entry.take_in(run, now);
        watch.entries.entry(entry.intent.attempt.clone()).or_insert(entry);
        if !watch.awake {
            watch.awake = true;
            tokio::spawn(Arc::clone(self).rounds());
        }
        running
    }

    /// How it stands with the queue, and the DAGs that have open runs.
    pub(super) fn queue(&self) -> (Queue, BTreeSet<String>) {
        let (now, watch) = (self.clock.now(), self.watched());
        let long = |e: &&Entry| e.queued.is_some_and(|since| now.since(since) >= LONG_QUEUED);
        let queue = Queue {
            open: watch.entries.len(),
            long_queued: watch.entries.values().filter(long).count(),
        };
        (
            queue,
            watch.entries.values().map(|e| e.intent.dag.clone()).collect(),
        )
    }

    async fn rounds(self: Arc<Self>) {
        let mut since = None;
        loop {
            self.clock.sleep(self.interval).await;
            {
                let mut watch = self.watched();
                if watch.entries.is_empty() {
                    watch.awake = false;
                    return;
                }
            }
            let round = self.round(&mut since).await;
            if let Err(error) = &round {
                // What is known stays as it was; the executor's health says that nobody answers.
                tracing::debug!(%error, "a look at the runs of a server failed");
            }
            self.answered(round.is_ok());
        }
    }

    async fn round(self: &Arc<Self>, since: &mut Option<Time>) -> Result<(), CallError> {
        let asked = self.clock.now();
        let dags: BTreeSet<String> = self.queue().1;
        let one = dags.first().filter(|_| dags.len() == 1);
        let dag = one.map_or(ALL_DAGS, String::as_str);
        match *since {
            Some(from) => {
                let listing = self.server.changed_runs(dag, from).await?;
                for run in &listing.rows {
                    self.heard_of(run, asked);
                }
                *since = listing.as_of.or(*since);
            }
            None => {
                // For the server's clock only: nothing has changed in a time to come.
                let query = RunQuery {
                    changed_since: Utc.with_ymd_and_hms(2999, 1, 1, 0, 0, 0).single(),
                    ..RunQuery::of(dag)
                };
                *since = self.server.runs(&query).await?.as_of;
                self.watched().entries.values_mut().for_each(|e| e.due = true);
            }
        }
        let mut outcome = Ok(());
        for attempt in self.to_look_at(*since) {
            let Err(error) = self.look_at(&attempt, *since).await else {
                continue;
            };
            if let Some(entry) = self.watched().entries.get_mut(&attempt) {
                entry.failures += 1;
            }
            // One run of which something cannot be read must not keep the others waiting; a server that is away does.
            let away = matches!(error.kind, Kind::NotSent | Kind::Unanswered | Kind::LoggedOut);
            outcome = Err(error);
            if away {
                break;
            }
        }
        outcome
    }

    /// Takes in what an answer says of a run. `asked`: when the question left.
    fn heard_of(&self, run: &Run, asked: BootInstant) {
        let now = self.clock.now();
        let mut begun = Vec::new();
        for entry in self.watched().entries.values_mut() {
            // Of one DAG the server may leave its name out.
            let same_dag = run.dag.is_empty() || run.dag == entry.intent.dag;
            // A row from before a clear shows the end of the attempt before.
            if entry.intent.run != run.id || !same_dag || asked < entry.since {
                continue;
            }
            if entry.take_in(run, now) {
                begun.push(entry.intent.attempt.clone());
            }
        }
        for attempt in begun {
            let _ = self.updates.send((attempt, RunUpdate::Started));
        }
    }

    /// The attempts that are looked at one by one now, those that waited longest first.
    fn to_look_at(&self, server_time: Option<Time>) -> Vec<AttemptId> {
        let (now, watch) = (self.clock.now(), self.watched());
        let due = |e: &&Entry| e.is_due(now) || e.is_late(server_time);
        let mut due: Vec<&Entry> = watch.entries.values().filter(due).collect();
        due.sort_by_key(|e| (e.looked, e.heard, e.intent.attempt.to_string()));
        let attempts = due.into_iter().map(|e| e.intent.attempt.clone());
        attempts.take(SINGLE_LOOKS).collect()
    }

    async fn look_at(
        self: &Arc<Self>,
        attempt: &AttemptId,
        server_time: Option<Time>,
    ) -> Result<(), CallError> {
        let asked = self.clock.now();
        let Some(entry) = self.watched().entries.get_mut(attempt).map(|e| {
            e.looked = Some(asked);
            e.clone()
        }) else {
            return Ok(());
        };
        let intent = &entry.intent;
        // After a mark the scheduler may have written over what the poll had.
        let seen = entry.over.clone().filter(|_| entry.marked.is_none());
        let run = match seen {
            Some(run) => run,
            None => match self.server.run(&intent.dag, &intent.run).await? {
                Some(run) => run,
                None => {
                    self.missed(attempt);
                    return Ok(());
                }
            },
        };
        self.heard_of(&run, asked);
        if is_over(&run.state) {
            return self.judge(attempt, &entry, &run).await;
        }
        let late = entry.is_late(server_time);
        match intent.stop {
            // Still there after it was marked: the scheduler was in the middle of it.
            Some(stop) => self.mark_failed(attempt, intent, stop).await.map(drop),
            None if late => self.look_at_work(attempt, intent, &run, server_time).await,
            None => Ok(()),
        }
    }

    /// Reports what came of a run that is over.
    async fn judge(self: &Arc<Self>, attempt: &AttemptId, entry: &Entry, run: &Run) -> Result<(), CallError> {
        let dag = &entry.intent.dag;
        let start = self.start_of(dag).await?;
        let stop = self.watched().entries.get(attempt).and_then(|e| e.intent.stop);
        let logs_needed = entry.failures < PATIENT_LOOKS;
        let end = verdict(&self.server, dag, run, stop, start, logs_needed).await?;
        self.report(attempt, end);
        Ok(())
    }

    /// A run that began longer ago than it may work: ends it, if it worked that long.
    async fn look_at_work(
        self: &Arc<Self>,
        attempt: &AttemptId,
        intent: &Intent,
        run: &Run,
        server_time: Option<Time>,
    ) -> Result<(), CallError> {
        let (Some(began), Some(now), Some(may)) = (run.started, server_time, intent.deadline()) else {
            return Ok(());
        };
        let tasks = self.server.tasks(&intent.dag, &run.id).await?.rows;
        let left = may - worked(&tasks, began, now);
        if left < TimeDelta::zero() {
            return self.mark_failed(attempt, intent, Stop::Deadline).await.map(drop);
        }
        if let Some(entry) = self.watched().entries.get_mut(attempt) {
            entry.late_at = now.checked_add_signed(left.max(LATE_AGAIN));
        }
        Ok(())
    }

    fn missed(&self, attempt: &AttemptId) {
        let gone = {
            let mut watch = self.watched();
            let Some(entry) = watch.entries.get_mut(attempt) else {
                return;
            };
            entry.missing += 1;
            entry.due = true;
            entry.missing >= GONE
        };
        if gone {
            self.report(attempt, deleted());
        }
    }

    fn report(&self, attempt: &AttemptId, end: RunEnd) {
        if self.watched().entries.remove(attempt).is_some() {
            let _ = self.updates.send((attempt.clone(), RunUpdate::Ended(end)));
        }
    }

    /// Marks a run failed, which ends it, and remembers why. `false`: it is not there.
    async fn mark_failed(
        self: &Arc<Self>,
        attempt: &AttemptId,
        intent: &Intent,
        stop: Stop,
    ) -> Result<bool, CallError> {
        let stop = intent.stop.unwrap_or(stop);
        let intent = Intent {
            stop: Some(stop),
            ..intent.clone()
        };
        if intent.stage == super::intent::Stage::Taken
            && let Err(error) = self.store.write(&intent).await
        {
            // Only after a restart it would be told as a failure and not as a stop.
            tracing::warn!(%attempt, %error, "the record of an attempt cannot be written");
        }
        // Before it leaves: its answer may be lost, and it may be over before its answer is here.
        if let Some(entry) = self.watched().entries.get_mut(attempt) {
            entry.intent.stop = Some(stop);
            entry.marked = Some(self.clock.now());
            entry.over = None;
            entry.due = false;
        }
        match self.server.mark_run(&intent.dag, &intent.run, Mark::Failed).await {
            Ok(_) => Ok(true),
            Err(e) if e.kind == Kind::Absent => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Ends the run of an attempt. One that the server does not have yet is ended when it does.
    pub(super) async fn stop(self: &Arc<Self>, attempt: &AttemptId, stop: Stop) -> Result<(), AdapterError> {
        let watched = {
            let mut watch = self.watched();
            let known = watch.entries.get(attempt).map(|e| e.intent.clone());
            if known.is_none() {
                watch.stops.insert(attempt.clone(), stop);
            }
            known
        };
        let intent = match watched {
            Some(intent) => intent,
            None => match self.store.read(attempt).await {
                Ok(Some(intent)) => intent,
                Ok(None) => {
                    let detail = "nothing was sent for it from this machine";
                    return Err(self.error("cancel a run", Cause::Local, detail));
                }
                Err(e) => return Err(self.error("read the record of a run", Cause::Local, &e.to_string())),
            },
        };
        let asked = self.clock.now();
        // Marking one that is over would turn a success into a failure.
        match self.server.run(&intent.dag, &intent.run).await? {
            Some(run) if !is_over(&run.state) => drop(self.mark_failed(attempt, &intent, stop).await?),
            Some(run) => self.heard_of(&run, asked),
            None => {}
        }
        Ok(())
    }

    /// Forgets what was wanted of attempts that are settled.
    pub(super) fn forget(&self, settled: &HashSet<AttemptId>) {
        self.watched()
            .stops
            .retain(|attempt, _| !settled.contains(attempt));
    }
}

impl Entry {
    /// Answers whether this is the news that it runs.
    fn take_in(&mut self, run: &Run, now: BootInstant) -> bool {
        self.heard = now;
        self.missing = 0;
        self.due = is_over(&run.state);
        self.over = self.due.then(|| run.clone());
        if run.started != self.began {
            self.began = run.started;
            let may = self.intent.deadline();
            self.late_at = run
                .started
                .zip(may)
                .and_then(|(began, may)| began.checked_add_signed(may));
        }
        if run.state != RunState::Queued {
            self.queued = None;
        } else if self.queued.is_none() {
            self.queued = Some(now);
        }
        self.state = run.state.clone();
        let begun = run.state == RunState::Running && !self.started;
        self.started |= begun;
        begun
    }

    fn is_due(&self, now: BootInstant) -> bool {
        match self.marked {
            Some(marked) => now.since(marked) >= SETTLES,
            None => self.due || now.since(self.heard) >= LATE,
        }
    }

    /// Whether it began so long ago that it may have worked for too long.
    fn is_late(&self, server_time: Option<Time>) -> bool {
        let late = self
            .late_at
            .zip(server_time)
            .is_some_and(|(late, now)| now > late);
        late && self.marked.is_none() && self.state == RunState::Running
    }
}
