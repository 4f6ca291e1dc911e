//! Running runs are ended: marked failed, which ends their tasks, and looked at again when the scheduler had the time
//! to write over that.

use super::{
    Place,
    call::Call,
    days::{Came, PerRun, Sent, Span, look, walk},
    eyes::Eyes,
    steps::{Case, Fate, SOON, Step, ended},
    window::Runs,
    words::{about, count, days as named, faults, sentence, was},
};
use crate::{
    domain::ids::ChunkId,
    executor::{
        airflow::{
            error::CallError,
            intent::is_over,
            wire::{Run, RunKind, RunState, TaskInstance, TaskState},
        },
        attach::Next,
    },
};
use async_trait::async_trait;
use std::{collections::BTreeMap, time::Duration};

/// So long a scheduler that was in the middle of a run may still write over it.
pub const SETTLES: Duration = Duration::from_secs(5);
/// How often a mark is accepted and written over before the run is left as it is.
const TRIES: usize = 3;
/// Of this many runs that say *failed* the tasks are looked at, too; of one that says *success* always.
const LOOKS: usize = 20;

/// Ends runs.
#[derive(Debug, Clone, Copy)]
pub struct Stop {
    /// Only runs of native backfills.
    pub only_native: bool,
}

#[async_trait]
impl PerRun for Stop {
    fn first(&self, day: ChunkId, run: &Run) -> Option<Call> {
        let meant = run.state == RunState::Running && (!self.only_native || run.kind == RunKind::Backfill);
        meant.then(|| Call::MarkRun {
            day,
            run: run.id.clone(),
            done: false,
            was: run.state.as_str().to_owned(),
        })
    }

    fn came(&self, call: &Call, runs: &[Run]) -> Came {
        let Some((_, id)) = call.place() else {
            return Came::Gone;
        };
        match runs.iter().find(|r| r.id == id) {
            None => Came::Gone,
            Some(run) if run.state == RunState::Running => Came::No,
            Some(_) => Came::Yes,
        }
    }

    fn patience(&self) -> Duration {
        SOON
    }
}

/// Tasks by run, of the runs of which they were asked for.
pub type Tasks = BTreeMap<String, Vec<TaskInstance>>;

/// Where a run stands that was marked.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stands {
    Ended,
    /// It was done before the mark came.
    Succeeded,
    /// It has to be marked once more.
    Again,
    /// It is not as it should be.
    Otherwise(String),
}

fn stands(steps: &[&Step], run: Option<&Run>, tasks: Option<&Vec<TaskInstance>>) -> Stands {
    let Some(run) = run else {
        return Stands::Otherwise("its run was deleted meanwhile".to_owned());
    };
    if let Some(Fate::Refused(said) | Fate::NotSent(said)) = steps.last().map(|s| &s.fate)
        && !is_over(&run.state)
    {
        return Stands::Otherwise(format!("not ended: {said}"));
    }
    let accepted = steps.iter().filter(|s| s.fate == Fate::Accepted).count();
    let often = accepted >= TRIES || steps.len() >= 4 * TRIES;
    let busy = tasks.is_some_and(|t| t.iter().any(is_busy));
    match &run.state {
        RunState::Failed if !busy => Stands::Ended,
        RunState::Success if tasks.is_some_and(|t| !t.is_empty() && t.iter().all(is_done)) => {
            Stands::Succeeded
        }
        RunState::Queued => Stands::Otherwise("somebody made it run again meanwhile".to_owned()),
        RunState::Running | RunState::Success | RunState::Failed if !often => Stands::Again,
        RunState::Success => Stands::Otherwise(format!(
            "the server calls it a success although its tasks were ended ({})",
            states(tasks)
        )),
        RunState::Failed => Stands::Otherwise(format!(
            "it is marked failed, and tasks run on ({})",
            states(tasks)
        )),
        _ => Stands::Otherwise(format!("it is still {} after it was marked", run.state.as_str())),
    }
}

fn is_busy(task: &TaskInstance) -> bool {
    matches!(
        task.state,
        Some(TaskState::Running | TaskState::Queued | TaskState::Scheduled | TaskState::Restarting)
    )
}

fn is_done(task: &TaskInstance) -> bool {
    task.state == Some(TaskState::Success)
}

fn states(tasks: Option<&Vec<TaskInstance>>) -> String {
    let state = |t: &TaskInstance| format!("{} {}", t.task, t.state.as_ref().map_or("?", TaskState::as_str));
    let named: Vec<String> = tasks.into_iter().flatten().take(3).map(state).collect();
    named.join(", ")
}

/// Ends what runs of these days.
pub async fn next(place: &Place<'_>, case: &Case, eyes: &dyn Eyes, days: &Span) -> Result<Next, CallError> {
    let stop = Stop { only_native: false };
    Ok(match end_all(place, case, eyes, days, stop).await? {
        Outcome::Next(next) => next,
        Outcome::Over(tally) => ended(tally.is_good(), tally.words()),
    })
}

/// How far the ending of runs is.
#[derive(Debug)]
pub enum Outcome {
    /// This is next.
    Next(Next),
    /// It is over, and this came of it.
    Over(Tally),
}

/// Ends what runs of these days, and looks whether it stays ended.
pub async fn end_all(
    place: &Place<'_>,
    case: &Case,
    eyes: &dyn Eyes,
    days: &Span,
    mut stop: Stop,
) -> Result<Outcome, CallError> {
    if let Some(next) = walk(place, case, eyes, &mut stop, days).await? {
        return Ok(Outcome::Next(next));
    }
    let marked = case
        .last()
        .is_some_and(|s| matches!(s.call, Call::MarkRun { .. }));
    if marked && let Some(wait) = case.settle(SETTLES, "the scheduler may write over it: looked at again") {
        return Ok(Outcome::Next(wait));
    }
    let runs = look(place, eyes, days).await?;
    let tasks = tasks_of(place, case, eyes, &runs).await?;
    Ok(judge(place, case, days, &runs, &tasks, stop))
}

/// The tasks of what was marked, as far as they are needed.
async fn tasks_of(place: &Place<'_>, case: &Case, eyes: &dyn Eyes, runs: &Runs) -> Result<Tasks, CallError> {
    let sent = Sent::of(case);
    let mut tasks = Tasks::new();
    for (day, found) in runs {
        for run in found.iter().filter(|r| is_over(&r.state)) {
            let marked = sent.about(*day, &run.id).next().is_some();
            if marked && (run.state == RunState::Success || tasks.len() < LOOKS) {
                tasks.insert(run.id.clone(), eyes.tasks(place.dag, &run.id).await?);
            }
        }
    }
    Ok(tasks)
}

/// See [`end_all`].
fn judge(place: &Place<'_>, case: &Case, days: &Span, runs: &Runs, tasks: &Tasks, stop: Stop) -> Outcome {
    let sent = Sent::of(case);
    let mut tally = Tally::default();
    for (day, _) in days {
        let found = runs.get(day).map_or(&[][..], Vec::as_slice);
        for step in sent.on(*day) {
            let Some((_, id)) = step.call.place() else {
                continue;
            };
            let steps: Vec<&Step> = sent.about(*day, id).collect();
            let run = found.iter().find(|r| r.id == id);
            match stands(&steps, run, tasks.get(id)) {
                Stands::Again => return Outcome::Next(place.send(case, step.call.clone())),
                Stands::Ended => tally.ended.push(*day),
                Stands::Succeeded => tally.succeeded.push(*day),
                Stands::Otherwise(why) => tally.failed.push((*day, why)),
            }
        }
        let fresh = |r: &&Run| sent.about(*day, &r.id).next().is_none();
        for run in found.iter().filter(fresh) {
            match run.state {
                RunState::Queued if !stop.only_native => tally.waiting.push(*day),
                RunState::Running if stop.first(*day, run).is_some() => tally.not_tried.push(*day),
                _ => {}
            }
        }
    }
    Outcome::Over(tally)
}

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    ended: Vec<ChunkId>,
    succeeded: Vec<ChunkId>,
    waiting: Vec<ChunkId>,
    not_tried: Vec<ChunkId>,
    failed: Vec<(ChunkId, String)>,
}

impl Tally {
    /// Nothing of it runs on.
    pub const fn is_good(&self) -> bool {
        self.failed.is_empty() && self.not_tried.is_empty()
    }

    /// In words.
    pub fn words(&self) -> String {
        let done = match self.ended.as_slice() {
            [] if self.succeeded.is_empty() && self.is_good() => "nothing of it runs".to_owned(),
            [] => String::new(),
            few if few.len() <= 3 => {
                let many = few.len() > 1;
                format!("{} {} ended, and marked failed", named(few), was(many))
            }
            many => format!(
                "{} were ended, and marked failed",
                count(many.len() as u64, "running day")
            ),
        };
        let mut said = vec![
            done,
            about(&self.succeeded, |d, _| {
                format!("{d} succeeded before it could be ended")
            }),
            about(&self.waiting, |d, many| {
                let verb = if many { "wait" } else { "waits" };
                format!("{d} still {verb} to start: cancel or pause keeps it from that")
            }),
        ];
        said.extend(faults(&self.failed));
        said.push(about(&self.not_tried, |d, many| {
            format!("{d} {} not tried after that", was(many))
        }));
        sentence(said)
    }
}
