//! Days run again: cleared, or where a cancelled native backfill holds them, deleted and made anew.

use super::{
    Place,
    call::{Anew, Call},
    days::{Came, PerRun, Sent, Span, look, walk},
    eyes::Eyes,
    natives::{Holder, holder},
    steps::{Case, Fate, QUIET, Step, ended},
    window::{Keyed, Runs},
    words::{about, count, days as named, faults, join, sentence, shown, was},
};
use crate::{
    domain::ids::ChunkId,
    executor::{
        airflow::{
            dates::written,
            error::CallError,
            intent::{Before, is_over},
            wire::{Api, Backfill, Run, RunKind, RunState},
        },
        attach::Next,
    },
};
use async_trait::async_trait;
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};

/// Clears runs.
#[derive(Debug)]
pub struct Rerun {
    dag: String,
    only_failed: bool,
    keyed: Keyed,
    api: Api,
    /// What the ids of new runs begin and end with.
    ours: (String, u64),
    natives: Option<Vec<Backfill>>,
}

impl Rerun {
    fn new(place: &Place<'_>, only_failed: bool) -> Self {
        Self {
            dag: place.dag.to_owned(),
            only_failed,
            keyed: place.keyed,
            api: place.api,
            ours: (place.backfill.to_string(), place.seq),
            natives: None,
        }
    }

    /// What a clear of it would lead to. 2.x never starts a run again that its command line made for a backfill.
    fn holder(&self, run: &Run) -> Holder {
        if run.kind == RunKind::Backfill && self.api == Api::V1 {
            return Holder::Cancelled(0);
        }
        holder(
            run,
            self.keyed.instant(run),
            self.natives.as_deref().unwrap_or_default(),
        )
    }

    /// The same run under an id of ours: the server keeps the ids of backfills and schedules for itself.
    fn anew(&self, run: &Run, native: u64) -> Anew {
        let (backfill, seq) = &self.ours;
        let date = self
            .keyed
            .instant(run)
            .map_or_else(|| "undated".to_owned(), written);
        Anew {
            id: format!("{backfill}__{date}__{seq}"),
            date: run.logical_date,
            interval: run.interval,
            conf: run
                .conf
                .as_ref()
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default(),
            note: run.note.clone(),
            partition: run.partition_key.clone(),
            native: Some(native).filter(|n| *n > 0),
        }
    }
}

#[async_trait]
impl PerRun for Rerun {
    async fn learn(&mut self, eyes: &dyn Eyes, runs: &Runs) -> Result<(), CallError> {
        let native = runs.values().flatten().any(|r| r.kind == RunKind::Backfill);
        if native && self.natives.is_none() && self.api == Api::V2 {
            self.natives = Some(eyes.natives(&self.dag).await?);
        }
        Ok(())
    }

    fn first(&self, day: ChunkId, run: &Run) -> Option<Call> {
        let held = self.holder(run);
        let over = is_over(&run.state);
        // One that waits under a cancelled native backfill waits for ever.
        if let Holder::Cancelled(native) = held
            && (over || run.state == RunState::Queued)
        {
            return Some(Call::Delete {
                day,
                run: run.id.clone(),
                anew: self.anew(run, native),
            });
        }
        if !over || (self.only_failed && run.state == RunState::Success) {
            return None;
        }
        Some(Call::Clear {
            day,
            run: run.id.clone(),
            only_failed: self.only_failed,
            before: Before::of(run, 0),
        })
    }

    fn came(&self, call: &Call, runs: &[Run]) -> Came {
        let find = |id: &str| runs.iter().find(|r| r.id == id);
        match call {
            Call::Clear { run, before, .. } => match find(run) {
                None => Came::Gone,
                Some(run) if before.has_changed(run) => Came::Yes,
                Some(_) => Came::No,
            },
            Call::Delete { run, .. } if find(run).is_none() => Came::Yes,
            Call::Trigger { anew, .. } if find(&anew.id).is_some() => Came::Yes,
            _ => Came::No,
        }
    }

    fn then(&self, call: &Call) -> Option<Call> {
        match call {
            Call::Delete { day, run, anew } => Some(Call::Trigger {
                day: *day,
                run: run.clone(),
                anew: anew.clone(),
            }),
            _ => None,
        }
    }

    fn patience(&self) -> Duration {
        QUIET
    }
}

/// Runs these days again.
pub async fn next(
    place: &Place<'_>,
    case: &Case,
    eyes: &dyn Eyes,
    days: &Span,
    only_failed: bool,
) -> Result<Next, CallError> {
    let mut rerun = Rerun::new(place, only_failed);
    if let Some(next) = walk(place, case, eyes, &mut rerun, days).await? {
        return Ok(next);
    }
    let runs = look(place, eyes, days).await?;
    rerun.learn(eyes, &runs).await?;
    let paused = eyes.dag(place.dag).await?.is_some_and(|d| d.paused);
    Ok(told(case, &rerun, days, &runs, paused))
}

/// What came of it, day by day.
#[derive(Debug, Default)]
struct Tally {
    /// Runs of days that run again, by what they are now.
    queued: u64,
    running: u64,
    over: u64,
    again: Vec<ChunkId>,
    anew: Vec<ChunkId>,
    /// The cancelled native backfills of those.
    natives: BTreeSet<u64>,
    /// Days that were under way, and were left alone.
    under_way: Vec<ChunkId>,
    no_run: Vec<ChunkId>,
    /// Asked for what failed, and nothing had.
    nothing_failed: Vec<ChunkId>,
    /// Marked failed, with no failed task in it.
    no_failed_task: Vec<ChunkId>,
    not_tried: Vec<ChunkId>,
    failed: Vec<(ChunkId, String)>,
    /// Paused native backfills that days wait for.
    held: BTreeSet<u64>,
}

impl Tally {
    fn took(&mut self, run: &Run) {
        match run.state {
            RunState::Queued => self.queued += 1,
            RunState::Running => self.running += 1,
            _ => self.over += 1,
        }
    }

    fn day(&mut self, case: &Case, rerun: &Rerun, day: ChunkId, runs: &[Run]) {
        let sent = Sent::of(case);
        let steps = sent.on(day);
        for step in &steps {
            self.step(rerun, day, step, runs);
        }
        let untouched = runs
            .iter()
            .filter(|r| !sent.is_anew(&r.id) && sent.about(day, &r.id).next().is_none());
        for run in untouched {
            match run.state {
                _ if steps.iter().any(|s| matches!(s.call, Call::Trigger { .. })) => {}
                _ if sent.is_hopeless() => self.not_tried.push(day),
                RunState::Success if rerun.only_failed => self.nothing_failed.push(day),
                _ => self.under_way.push(day),
            }
        }
        if runs.is_empty() && steps.is_empty() {
            self.no_run.push(day);
        }
    }

    fn step(&mut self, rerun: &Rerun, day: ChunkId, step: &Step, runs: &[Run]) {
        let find = |id: &str| runs.iter().find(|r| r.id == id);
        let refusal = |accepted: &str| match &step.fate {
            Fate::Refused(said) | Fate::NotSent(said) => said.clone(),
            Fate::Accepted => accepted.to_owned(),
            Fate::Open => "no answer came, and nothing of it is to be seen".to_owned(),
        };
        match &step.call {
            Call::Clear { run, before, .. } => match find(run) {
                None => self
                    .failed
                    .push((day, "its run was deleted meanwhile".to_owned())),
                Some(run) if before.has_changed(run) => {
                    self.took(run);
                    self.again.push(day);
                    if let (Holder::Paused(id), RunState::Queued) = (rerun.holder(run), &run.state) {
                        self.held.insert(id);
                    }
                }
                Some(_) if step.fate == Fate::Accepted && rerun.only_failed => self.no_failed_task.push(day),
                Some(_) => {
                    let words = refusal("the clear was accepted, and the run is as it was");
                    self.failed.push((day, format!("not cleared: {words}")));
                }
            },
            Call::Delete { run, .. } => {
                let words = if find(run).is_some() {
                    format!("not deleted: {}", refusal("it is still there"))
                } else {
                    "its run is deleted, and nothing was made in its place".to_owned()
                };
                self.failed.push((day, words));
            }
            Call::Trigger { anew, .. } => match find(&anew.id) {
                Some(run) => {
                    self.took(run);
                    self.anew.push(day);
                    self.natives.extend(anew.native);
                }
                None => self
                    .failed
                    .push((day, missing(anew, runs, &refusal("it was deleted meanwhile")))),
            },
            _ => {}
        }
    }

    fn is_good(&self) -> bool {
        self.failed.is_empty()
            && self.no_run.is_empty()
            && self.no_failed_task.is_empty()
            && self.not_tried.is_empty()
    }

    fn words(&self, dag_paused: bool) -> String {
        let mut again = self.again.clone();
        again.extend(&self.anew);
        again.sort_unstable();
        again.dedup();
        let mut said = vec![
            self.those_that_run(&again),
            self.made_anew(),
            about(&self.under_way, |d, many| {
                format!("{d} {} under way already and left alone", was(many))
            }),
            about(&self.nothing_failed, |d, _| format!("nothing had failed in {d}")),
            about(&self.no_failed_task, |d, _| {
                format!(
                    "{d} failed without a failed task, so that nothing was cleared: run the whole day again"
                )
            }),
            about(&self.no_run, |d, many| {
                let (has, it) = if many { ("have", "them") } else { ("has", "it") };
                format!("{d} {has} no run to clear: make a native backfill over {it}")
            }),
        ];
        said.extend(faults(&self.failed));
        said.push(about(&self.not_tried, |d, many| {
            format!("{d} {} not tried after that", was(many))
        }));
        if self.queued > 0 {
            said.push(if dag_paused {
                "the whole DAG is paused: nothing starts before that is lifted".to_owned()
            } else {
                let held: Vec<String> = self.held.iter().map(ToString::to_string).collect();
                if held.is_empty() {
                    String::new()
                } else {
                    format!(
                        "native backfill {} is paused: what waits in it starts when it goes on",
                        join(&held)
                    )
                }
            });
        }
        sentence(said)
    }

    fn those_that_run(&self, again: &[ChunkId]) -> String {
        if again.is_empty() {
            return "nothing runs again".to_owned();
        }
        let states = [
            (self.queued, "queued"),
            (self.running, "running"),
            (self.over, "over already"),
        ];
        let states: Vec<String> = states
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, word)| format!("{n} {word}"))
            .collect();
        let who = if again.len() <= 3 {
            named(again)
        } else {
            count(again.len() as u64, "day")
        };
        let verb = if again.len() == 1 { "runs" } else { "run" };
        format!("{who} {verb} again ({})", states.join(", "))
    }

    fn made_anew(&self) -> String {
        let natives: Vec<String> = self.natives.iter().map(ToString::to_string).collect();
        let why = match natives.as_slice() {
            [] => "since Airflow 2 starts no run again that a backfill of its command line made".to_owned(),
            [one] => {
                format!("since Airflow starts nothing again of native backfill {one}, which is cancelled")
            }
            many => format!(
                "since Airflow starts nothing again of native backfills {}, which are cancelled",
                join(many)
            ),
        };
        about(&self.anew, |d, many| {
            let whose = if many { "their" } else { "its" };
            format!(
                "{d} {} deleted and made anew, {why}; {whose} former tries are no longer on the server",
                was(many)
            )
        })
    }
}

/// Why there is no run in the place of one that was deleted.
fn missing(anew: &Anew, runs: &[Run], why: &str) -> String {
    let taken = runs
        .iter()
        .find(|r| r.logical_date.is_some() && r.logical_date == anew.date);
    match taken {
        Some(run) => format!(
            "its run was deleted to be made anew, and somebody else's run {} ({}) has the date now",
            shown(&run.id),
            shown(run.state.as_str())
        ),
        None => {
            format!("its run was deleted to be made anew, and there is no new one: {why}: trigger it by hand")
        }
    }
}

fn told(case: &Case, rerun: &Rerun, days: &Span, runs: &Runs, dag_paused: bool) -> Next {
    let mut tally = Tally::default();
    for (day, _) in days {
        let found = runs.get(day).map_or(&[][..], Vec::as_slice);
        tally.day(case, rerun, *day, found);
    }
    ended(tally.is_good(), tally.words(dag_paused))
}
