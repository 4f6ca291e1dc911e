//! Actions on the runs of many days: one run after the other, oldest day first.
//!
//! The last request tells how far it came. Nothing before it is looked at again until the end, when every day is.

use super::{
    Place,
    call::Call,
    eyes::Eyes,
    steps::{Again, Case, Fate, Step},
    window::{Runs, groups, runs_in},
};
use crate::{
    domain::{calendar::Interval, ids::ChunkId},
    executor::{
        airflow::{error::CallError, wire::Run},
        attach::Next,
    },
};
use async_trait::async_trait;
use std::{collections::BTreeSet, time::Duration};

/// Days that are looked at in one question while it goes from day to day: where the last one is, the next is near.
const NEAR: i64 = 10;
/// Days that are looked at in one question otherwise; as many as rows of a page where each day has one run.
const FAR: i64 = 100;
/// So many days in a row that the server refuses, and it is not asked for the others.
const REFUSALS: usize = 3;

/// Days with their instants, oldest first, each once.
pub type Span = [(ChunkId, Interval)];

/// What came of a request, by the runs of its day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// Its effect is there.
    Yes,
    /// It is not.
    No,
    /// What it was about is no longer there.
    Gone,
}

/// What is done with each run.
#[async_trait]
pub trait PerRun: Send + Sync {
    /// Reads what it needs to know about these runs.
    async fn learn(&mut self, _: &dyn Eyes, _: &Runs) -> Result<(), CallError> {
        Ok(())
    }

    /// The request for a run of which nothing was sent yet; `None`: it is left alone.
    fn first(&self, day: ChunkId, run: &Run) -> Option<Call>;

    /// What came of a request.
    fn came(&self, call: &Call, runs: &[Run]) -> Came;

    /// The request that has to follow one that was done.
    fn then(&self, _: &Call) -> Option<Call> {
        None
    }

    /// How long a request whose answer was lost may still be under way.
    fn patience(&self) -> Duration;
}

/// The last request about each run, and what else is known of what was sent.
#[derive(Debug)]
pub struct Sent<'a> {
    steps: &'a [Step],
    /// Runs that took the place of others.
    anew: BTreeSet<&'a str>,
}

impl<'a> Sent<'a> {
    /// Of an action.
    pub fn of(case: &'a Case) -> Self {
        let anew = case.steps.iter().filter_map(|s| match &s.call {
            Call::Delete { anew, .. } | Call::Trigger { anew, .. } => Some(anew.id.as_str()),
            _ => None,
        });
        Self {
            steps: &case.steps,
            anew: anew.collect(),
        }
    }

    /// The requests about a run, oldest first.
    pub fn about(&self, day: ChunkId, run: &str) -> impl Iterator<Item = &'a Step> {
        let run = run.to_owned();
        let same = move |s: &&'a Step| s.call.place().is_some_and(|(d, r)| d == day && r == run);
        self.steps.iter().filter(same)
    }

    /// The last request about each run of a day, in the order of the first ones.
    pub fn on(&self, day: ChunkId) -> Vec<&'a Step> {
        let mut last: Vec<&Step> = Vec::new();
        for step in self.steps {
            let Some((d, run)) = step.call.place() else {
                continue;
            };
            if d != day {
                continue;
            }
            match last.iter_mut().find(|s| s.call.place() == Some((d, run))) {
                Some(earlier) => *earlier = step,
                None => last.push(step),
            }
        }
        last
    }

    /// Whether a run is one that we made in the place of another.
    pub fn is_anew(&self, run: &str) -> bool {
        self.anew.contains(run)
    }

    /// The server refuses whatever it is asked.
    pub fn is_hopeless(&self) -> bool {
        let refused = |s: &&Step| matches!(s.fate, Fate::Refused(_));
        self.steps.len() >= REFUSALS && self.steps.iter().rev().take_while(refused).count() >= REFUSALS
    }
}

/// The next request for these days, or a wait; `None` when there is nothing left to be sent.
pub async fn walk(
    place: &Place<'_>,
    case: &Case,
    eyes: &dyn Eyes,
    per: &mut dyn PerRun,
    days: &Span,
) -> Result<Option<Next>, CallError> {
    let last = case.last().and_then(|s| s.call.place()).map(|(day, _)| day);
    let from = days.iter().position(|(id, _)| Some(*id) == last).unwrap_or(0);
    let rest = days.get(from..).unwrap_or_default();
    let near = groups(rest, NEAR).first().map_or(0, |g| g.len());
    let (first, others) = rest.split_at(near);
    let mut asked = vec![first];
    asked.extend(groups(others, FAR));
    for group in asked {
        let runs = runs_in(eyes, place.dag, place.keyed, group).await?;
        per.learn(eyes, &runs).await?;
        if let Some(next) = step(place, case, per, group, &runs) {
            return Ok(Some(next));
        }
    }
    Ok(None)
}

/// See [`walk`], with the runs of the days as they are.
pub fn step(place: &Place<'_>, case: &Case, per: &dyn PerRun, days: &Span, runs: &Runs) -> Option<Next> {
    let sent = Sent::of(case);
    for (day, _) in days {
        let found = runs.get(day).map_or(&[][..], Vec::as_slice);
        if let Some(next) = settle(place, case, per, *day, found) {
            return Some(next);
        }
        if sent.is_hopeless() {
            return None;
        }
        // Somebody else's run has the date of one that we deleted: that is theirs.
        let missed =
            |s: &&Step| matches!(s.call, Call::Trigger { .. }) && per.came(&s.call, found) != Came::Yes;
        if sent.on(*day).iter().any(missed) {
            continue;
        }
        let fresh = |run: &&Run| !sent.is_anew(&run.id) && sent.about(*day, &run.id).next().is_none();
        let call = found.iter().filter(fresh).find_map(|run| per.first(*day, run));
        if let Some(call) = call {
            return Some(place.send(case, call));
        }
    }
    None
}

/// What the last request, if it was about this day, leaves to be done.
fn settle(place: &Place<'_>, case: &Case, per: &dyn PerRun, day: ChunkId, runs: &[Run]) -> Option<Next> {
    let last = case
        .last()
        .filter(|s| s.call.place().is_some_and(|(d, _)| d == day))?;
    let done = last.fate == Fate::Accepted || per.came(&last.call, runs) == Came::Yes;
    if done {
        return per.then(&last.call).map(|call| place.send(case, call));
    }
    if per.came(&last.call, runs) == Came::Gone {
        return None;
    }
    match case.again(last, per.patience()) {
        Again::Send(raw) => Some(place.send_again(&last.call, raw)),
        Again::Wait(left, why) => Some(Next::Wait(left, why)),
        // Said at the end; the other days go on.
        Again::Never(_) => None,
    }
}

/// All runs of these days, for the look at the end.
pub async fn look(place: &Place<'_>, eyes: &dyn Eyes, days: &Span) -> Result<Runs, CallError> {
    let mut all = Runs::new();
    for group in groups(days, FAR) {
        all.extend(runs_in(eyes, place.dag, place.keyed, group).await?);
    }
    Ok(all)
}
