//! Days count as done, or as failed, by a human's word.

use super::{
    Place,
    call::Call,
    days::{Came, PerRun, Sent, Span, look, walk},
    eyes::Eyes,
    steps::{Case, Fate, SOON, Step, ended},
    stop::SETTLES,
    window::Runs,
    words::{about, faults, sentence, was},
};
use crate::{
    domain::ids::ChunkId,
    executor::{
        airflow::{
            error::CallError,
            wire::{Run, RunState},
        },
        attach::Next,
    },
};
use async_trait::async_trait;
use std::time::Duration;

/// Marks runs.
#[derive(Debug, Clone, Copy)]
pub struct Marking {
    done: bool,
}

impl Marking {
    const fn wanted(self) -> RunState {
        if self.done {
            RunState::Success
        } else {
            RunState::Failed
        }
    }

    const fn word(self) -> &'static str {
        if self.done { "done" } else { "failed" }
    }
}

#[async_trait]
impl PerRun for Marking {
    fn first(&self, day: ChunkId, run: &Run) -> Option<Call> {
        let other = match run.state {
            RunState::Success | RunState::Failed | RunState::Queued => run.state != self.wanted(),
            _ => false,
        };
        other.then(|| Call::MarkRun {
            day,
            run: run.id.clone(),
            done: self.done,
            was: run.state.as_str().to_owned(),
        })
    }

    fn came(&self, call: &Call, runs: &[Run]) -> Came {
        let Some((_, id)) = call.place() else {
            return Came::Gone;
        };
        match runs.iter().find(|r| r.id == id) {
            None => Came::Gone,
            Some(run) if run.state == self.wanted() => Came::Yes,
            Some(_) => Came::No,
        }
    }

    fn patience(&self) -> Duration {
        SOON
    }
}

/// Marks these days.
pub async fn next(
    place: &Place<'_>,
    case: &Case,
    eyes: &dyn Eyes,
    days: &Span,
    done: bool,
) -> Result<Next, CallError> {
    let mut marking = Marking { done };
    if let Some(next) = walk(place, case, eyes, &mut marking, days).await? {
        return Ok(next);
    }
    // Of one that waited the scheduler may have been in the middle.
    let waited = case
        .last()
        .is_some_and(|s| matches!(&s.call, Call::MarkRun { was, .. } if was == "queued"));
    if waited && let Some(wait) = case.settle(SETTLES, "the scheduler may write over it: looked at again") {
        return Ok(wait);
    }
    let runs = look(place, eyes, days).await?;
    Ok(told(case, marking, days, &runs))
}

#[derive(Debug, Default)]
struct Tally {
    marked: Vec<ChunkId>,
    already: Vec<ChunkId>,
    running: Vec<ChunkId>,
    no_run: Vec<ChunkId>,
    not_tried: Vec<ChunkId>,
    failed: Vec<(ChunkId, String)>,
}

fn told(case: &Case, marking: Marking, days: &Span, runs: &Runs) -> Next {
    let sent = Sent::of(case);
    let mut tally = Tally::default();
    for (day, _) in days {
        let found = runs.get(day).map_or(&[][..], Vec::as_slice);
        let steps = sent.on(*day);
        for step in &steps {
            let run = step
                .call
                .place()
                .and_then(|(_, id)| found.iter().find(|r| r.id == id));
            match fault(marking, step, run) {
                None => tally.marked.push(*day),
                Some(why) => tally.failed.push((*day, why)),
            }
        }
        for run in found.iter().filter(|r| sent.about(*day, &r.id).next().is_none()) {
            match &run.state {
                state if *state == marking.wanted() => tally.already.push(*day),
                RunState::Running => tally.running.push(*day),
                RunState::Other(word) => tally.failed.push((*day, format!("its run is {word}"))),
                _ if sent.is_hopeless() => tally.not_tried.push(*day),
                // When it was its turn, it ran.
                _ => tally.running.push(*day),
            }
        }
        if found.is_empty() && steps.is_empty() {
            tally.no_run.push(*day);
        }
    }
    tally.end(marking)
}

fn fault(marking: Marking, step: &Step, run: Option<&Run>) -> Option<String> {
    let Some(run) = run else {
        return Some("its run was deleted meanwhile".to_owned());
    };
    if run.state == marking.wanted() {
        return None;
    }
    Some(match &step.fate {
        Fate::Refused(said) | Fate::NotSent(said) => format!("not marked: {said}"),
        _ => format!(
            "marked {}, and {} now: somebody or the scheduler changed it since",
            marking.word(),
            run.state.as_str()
        ),
    })
}

impl Tally {
    fn end(self, marking: Marking) -> Next {
        let word = marking.word();
        let mut said = vec![
            about(&self.marked, |d, many| {
                format!("{d} {} marked {word}", if many { "are" } else { "is" })
            }),
            about(&self.already, |d, many| {
                format!("{d} {} {word} already", was(many))
            }),
            about(&self.running, |d, many| {
                format!(
                    "{d} {} running, and what runs cannot be marked: end it first",
                    was(many)
                )
            }),
            about(&self.no_run, |d, many| {
                format!("{d} {} no run to mark", if many { "have" } else { "has" })
            }),
        ];
        said.extend(faults(&self.failed));
        said.push(about(&self.not_tried, |d, many| {
            format!("{d} {} not tried after that", was(many))
        }));
        let good = self.failed.is_empty()
            && self.running.is_empty()
            && self.no_run.is_empty()
            && self.not_tried.is_empty();
        ended(good, sentence(said))
    }
}
