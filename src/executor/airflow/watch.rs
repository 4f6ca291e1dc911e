//! Watching the open attempts of one server: one question for all of them each interval, and a look at a single run
//! where it is late, over, or to be ended.

use super::{
    ALL_DAGS, RunQuery,
    calls::Mark,
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
    collections::{BTreeSet, HashMap},
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

/// One of which nothing was heard for this long is asked for by itself: what is queued shows in no poll.
const LATE: Duration = Duration::from_secs(60);
/// After a run was marked failed the scheduler may write over it: so long until it is looked at again.
const SETTLES: Duration = Duration::from_secs(5);
/// The most runs that are looked at one by one in a round.
const SINGLE_LOOKS: usize = 4;
/// A run that is absent this often in a row is gone.
const GONE: u32 = 2;
/// Queued for longer than this is worth a reason (case B10).
pub const LONG_QUEUED: Duration = Duration::from_secs(600);

/// The open attempts of a server.
#[derive(Debug, Default)]
pub struct Watch {
    entries: HashMap<AttemptId, Entry>,
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
    pub(super) fn watch(self: &Arc<Self>, intent: Intent, run: &Run) -> bool {
        let now = self.clock.now();
        let running = run.state == RunState::Running;
        let entry = Entry {
            state: run.state.clone(),
            started: running,
            heard: now,
            queued: (run.state == RunState::Queued).then_some(now),
            due: is_over(&run.state),
            missing: 0,
            // One that was to be ended before a restart is looked at, and marked again if it is not over.
            marked: intent.stop.map(|_| now),
            intent,
        };
        let mut watch = self.watched();
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
            if let Err(error) = self.round(&mut since).await {
                // What is known stays as it was; the executor's health says that nobody answers.
                tracing::debug!(%error, "a look at the runs of a server failed");
            }
        }
    }

    async fn round(self: &Arc<Self>, since: &mut Option<Time>) -> Result<(), CallError> {
        let dags: BTreeSet<String> = self.queue().1;
        let one = dags.first().filter(|_| dags.len() == 1);
        let dag = one.map_or(ALL_DAGS, String::as_str);
        match *since {
            Some(from) => {
                let listing = self.server.changed_runs(dag, from).await?;
                for run in &listing.rows {
                    self.heard_of(run);
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
        for attempt in self.to_look_at() {
            self.look_at(&attempt, *since).await?;
        }
        Ok(())
    }

    /// Takes in what a poll says of a run.
    fn heard_of(&self, run: &Run) {
        let now = self.clock.now();
        let mut begun = Vec::new();
        for entry in self.watched().entries.values_mut() {
            // Of one DAG the server may leave its name out.
            let same_dag = run.dag.is_empty() || run.dag == entry.intent.dag;
            if entry.intent.run != run.id || !same_dag {
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
    fn to_look_at(&self) -> Vec<AttemptId> {
        let (now, watch) = (self.clock.now(), self.watched());
        let mut due: Vec<&Entry> = watch.entries.values().filter(|e| e.is_due(now)).collect();
        due.sort_by_key(|e| (e.heard, e.intent.attempt.to_string()));
        let attempts = due.into_iter().map(|e| e.intent.attempt.clone());
        attempts.take(SINGLE_LOOKS).collect()
    }

    async fn look_at(
        self: &Arc<Self>,
        attempt: &AttemptId,
        server_time: Option<Time>,
    ) -> Result<(), CallError> {
        let Some(intent) = self.watched().entries.get(attempt).map(|e| e.intent.clone()) else {
            return Ok(());
        };
        let Some(run) = self.server.run(&intent.dag, &intent.run).await? else {
            self.missed(attempt);
            return Ok(());
        };
        self.heard_of(&run);
        if is_over(&run.state) {
            let start = self.start_of(&intent.dag).await?;
            let stop = self.watched().entries.get(attempt).and_then(|e| e.intent.stop);
            let end = verdict(&self.server, &intent.dag, &run, stop, start).await?;
            self.report(attempt, end);
            return Ok(());
        }
        let late = intent.deadline_ms.zip(run.started).zip(server_time);
        let late = late.is_some_and(|((ms, started), now)| {
            i64::try_from(ms).is_ok_and(|ms| now - started > TimeDelta::milliseconds(ms))
        });
        match intent.stop {
            // Still there after it was marked: the scheduler was in the middle of it.
            Some(stop) => self.mark_failed(attempt, &intent, stop).await.map(drop),
            None if late => self.mark_failed(attempt, &intent, Stop::Deadline).await.map(drop),
            None => Ok(()),
        }
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
        let outcome = self.server.mark_run(&intent.dag, &intent.run, Mark::Failed).await;
        if let Some(entry) = self.watched().entries.get_mut(attempt) {
            entry.intent.stop = Some(stop);
            entry.marked = Some(self.clock.now());
            entry.due = false;
        }
        match outcome {
            Ok(_) => Ok(true),
            Err(e) if e.kind == Kind::Absent => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Ends the run of an attempt.
    pub(super) async fn stop(self: &Arc<Self>, attempt: &AttemptId, stop: Stop) -> Result<(), AdapterError> {
        let watched = self.watched().entries.get(attempt).map(|e| e.intent.clone());
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
        // Marking one that is over would turn a success into a failure.
        match self.server.run(&intent.dag, &intent.run).await? {
            Some(run) if !is_over(&run.state) => drop(self.mark_failed(attempt, &intent, stop).await?),
            Some(run) => self.heard_of(&run),
            None => {}
        }
        Ok(())
    }
}

impl Entry {
    /// Answers whether this is the news that it runs.
    fn take_in(&mut self, run: &Run, now: BootInstant) -> bool {
        self.heard = now;
        self.missing = 0;
        self.due = is_over(&run.state);
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
            None => self.due || now.since(self.heard) >= LATE || self.may_be_over_time(),
        }
    }

    /// With a deadline a running one is looked at in each round: how long it runs is known to the server alone.
    fn may_be_over_time(&self) -> bool {
        self.started && self.intent.deadline_ms.is_some() && self.state == RunState::Running
    }
}
