//! Why a day of somebody else's backfill is as it is: what was seen of it, and what keeps the whole of it from moving.
//! Nothing of it has a turn in a plan of ours.

use super::{Surroundings, Why, by, last_failure};
use crate::{
    domain::{
        Time,
        attach::{Action, Asked, Facts, NativeSeen},
        human,
        ids::ChunkId,
        state::{Attempt, Backfill, Chunk, ChunkState as S},
    },
    plan::lever::{is_paused_there, pause_there},
};

/// The reason of a day of an attached backfill.
pub(super) fn why(backfill: &Backfill, chunk: &Chunk, around: &Surroundings) -> Why {
    let nothing = Facts::default();
    let see = See {
        backfill,
        chunk,
        facts: backfill.seen.as_ref().unwrap_or(&nothing),
        around,
    };
    let mut why = see.of_state();
    if let Some(asked) = see.asked() {
        why.text = format!("{}; {}", under_way(asked), why.text);
    }
    if let Some(mark) = &backfill.detached {
        let age = age(mark.at, around.now);
        why.text = format!("{}; let go of {age} ago, not looked at since", why.text);
        why.unblock = again(backfill);
    } else if chunk.state != S::Unread
        && let (Some(problem), Some(at)) = (&see.facts.problem, see.facts.as_of)
    {
        why.text = format!("{}; seen {} ago, then: {problem}", why.text, age(at, around.now));
    }
    why
}

/// The command that takes hold of it again.
pub(super) fn again(backfill: &Backfill) -> String {
    let dag = backfill.spec.dag.as_ref().map_or("?", |d| d.id.as_str());
    format!(
        "take hold of it again: A, or backfill attach {} --dag {dag}",
        backfill.spec.executor
    )
}

/// What was asked of the engine for this and has not ended, with its newest request.
pub fn under_way(asked: &Asked) -> String {
    let who = &asked.mark.by.name;
    let words = asked.action.words();
    match asked.steps.last() {
        None => format!("{words} ({who}): still to be sent"),
        Some(step) => match &step.answer {
            None => format!("{words} ({who}): sent, no answer"),
            Some((true, _)) => format!("{words} ({who}): accepted, under way"),
            Some((false, said)) => format!("{words} ({who}): refused: {said}"),
        },
    }
}

/// An age as a sentence says it.
fn age(since: Time, now: Time) -> String {
    human::duration((now - since).to_std().unwrap_or_default())
}

struct See<'a> {
    backfill: &'a Backfill,
    chunk: &'a Chunk,
    facts: &'a Facts,
    around: &'a Surroundings,
}

impl See<'_> {
    fn of_state(&self) -> Why {
        let (name, day) = (&self.backfill.spec.name, self.chunk.id);
        match self.chunk.state {
            S::Unread => self.unread(),
            S::Absent => self.absent(),
            S::Queued => self.queued(),
            S::Running => self.running(),
            S::Done => Why::new("done", self.ended("done"), ""),
            S::Failed => Why::new(
                "failed",
                self.ended("failed"),
                format!("mend the cause, then r, or backfill rerun {name} {day} --failed"),
            ),
            S::Cancelled => Why::new(
                "cancelled",
                self.ended("ended before it ran"),
                format!("re-run it: R, or backfill rerun {name} {day}"),
            ),
            S::Uncertain => Why::new(
                "uncertain",
                self.chunk
                    .why
                    .clone()
                    .unwrap_or_else(|| "the server's word for it is not known".to_owned()),
                "look at the run on the server, or install a newer version",
            ),
            state => Why::new(state.word(), state.word(), ""),
        }
    }

    fn unread(&self) -> Why {
        let executor = &self.backfill.spec.executor;
        let (text, unblock) = match self.facts {
            Facts {
                problem: Some(why), ..
            } => (format!("not read: {why}"), "backfill check"),
            _ if !self.around.supervised => (
                "not read: nobody supervises, so nothing is looked at".to_owned(),
                "S starts a supervisor",
            ),
            Facts {
                reading: Some(reading),
                ..
            } => (
                format!(
                    "not read yet: {} of {} runs are read",
                    human::count(reading.read.into()),
                    human::count(reading.total.into())
                ),
                "",
            ),
            _ => (format!("not read yet: {executor} was asked"), ""),
        };
        Why::new("unread", text, unblock)
    }

    fn absent(&self) -> Why {
        let (name, day) = (&self.backfill.spec.name, self.chunk.id);
        let unblock = match self.unfinished() {
            Some(native) => format!("a new native backfill can take it when {} is finished", native.id),
            None => format!("backfill native {name} {day}..{day} --limit 1"),
        };
        Why::new("absent", "the server has no run of it", unblock)
    }

    fn queued(&self) -> Why {
        let waits = match self.attempt() {
            Some(run) => format!("waits there for {}", age(run.intended, self.around.now)),
            None => "waits on the server".to_owned(),
        };
        let (reason, because, unblock) = self.held_up();
        let text = if because.is_empty() {
            waits
        } else {
            format!("{waits}: {because}")
        };
        Why::new(reason, format!("{text}{}", self.of_several()), unblock)
    }

    /// What keeps a day from starting there, first one first, and the way out.
    fn held_up(&self) -> (&'static str, String, String) {
        let name = &self.backfill.spec.name;
        if let Some(stuck) = &self.facts.stuck {
            return ("stuck", stuck.clone(), String::new());
        }
        let stands = pause_there(self.backfill).is_some_and(|there| there.why_not().is_none());
        if let Some(pause) = self.backfill.pause.as_ref().filter(|_| stands) {
            let text = format!("paused {}", by(&pause.mark));
            return ("paused", text, format!("p, or backfill resume {name}"));
        }
        match self.unfinished() {
            Some(_) if is_paused_there(self.backfill) && self.backfill.native_pause.is_some() => {
                ("signal", self.backfill.limit.why.clone(), String::new())
            }
            Some(n) if is_paused_there(self.backfill) => (
                "paused",
                format!("somebody else paused backfill {}", n.id),
                format!("p, or backfill resume {name}"),
            ),
            Some(n) if self.backfill.count(S::Running) >= n.limit => (
                "limit",
                format!(
                    "{} of {} days run that native backfill {} runs at once",
                    self.backfill.count(S::Running),
                    n.limit,
                    n.id
                ),
                "t says what can be changed".to_owned(),
            ),
            _ => match &self.facts.pool {
                Some(pool) if pool.slots >= 0 && i64::from(pool.running) >= pool.slots => (
                    "pool",
                    format!("all {} slots of pool {} are in use", pool.slots, pool.name),
                    String::new(),
                ),
                _ => ("queued", String::new(), String::new()),
            },
        }
    }

    fn running(&self) -> Why {
        let runs = match self.attempt() {
            Some(run) => {
                let since = run.started.unwrap_or(run.intended);
                let age = age(since, self.around.now);
                format!("runs on the server for {age}, as {}", named(run))
            }
            None => "runs on the server".to_owned(),
        };
        match &self.facts.stuck {
            Some(stuck) => Why::new(
                "stuck",
                format!("{stuck}, though it {runs}{}", self.of_several()),
                "K stops it",
            ),
            None => Why::new("running", format!("{runs}{}", self.of_several()), "K stops it"),
        }
    }

    /// What ended: how, how long ago, and as which run.
    fn ended(&self, verb: &str) -> String {
        let Some(run) = self.attempt() else {
            return verb.to_owned();
        };
        let took = run
            .started
            .zip(run.ended)
            .filter(|_| verb == "done")
            .map(|(from, to)| {
                let took = human::duration((to - from).to_std().unwrap_or_default());
                format!(" in {took}")
            });
        let ago = run.ended.map(|at| {
            let comma = if took.is_some() { ", ended" } else { "" };
            format!("{comma} {} ago", age(at, self.around.now))
        });
        let said = match last_failure(self.chunk).filter(|_| verb == "failed") {
            Some(failure) => format!(": {}", failure.message),
            None => String::new(),
        };
        format!(
            "{verb}{}{}{said}, as {}{}",
            took.unwrap_or_default(),
            ago.unwrap_or_default(),
            named(run),
            self.of_several()
        )
    }

    /// The run that gives the day its state: the newest one that is in it.
    fn attempt(&self) -> Option<&Attempt> {
        let all = &self.chunk.attempts;
        let same = |a: &&Attempt| a.phase.word() == self.chunk.state.word();
        all.iter().rev().find(same).or_else(|| all.last())
    }

    fn of_several(&self) -> String {
        match self.chunk.attempts.len() {
            0 | 1 => String::new(),
            n => format!("; the worst of {n} runs"),
        }
    }

    fn unfinished(&self) -> Option<&NativeSeen> {
        self.facts.native.as_ref().filter(|n| n.completed.is_none())
    }

    /// What was asked for this day and has not ended.
    fn asked(&self) -> Option<&Asked> {
        let day = self.chunk.id;
        let about = |action: &Action| match action {
            Action::Rerun { chunks, .. } | Action::Stop { chunks } | Action::Mark { chunks, .. } => {
                chunks.contains(&day)
            }
            _ => false,
        };
        self.backfill
            .asked
            .iter()
            .find(|a| a.is_open() && about(&a.action))
    }
}

/// `backfill run, try 2, backfill__2024-03-01`: how it came to be, and its name there.
fn named(run: &Attempt) -> String {
    let note = run.note.as_deref().unwrap_or("run");
    match &run.run {
        Some(id) => format!("{note} {id}"),
        None => note.to_owned(),
    }
}

/// Why a chunk of our own is held although nobody held it: its date is taken at the engine.
pub(super) fn taken(backfill: &Backfill, id: ChunkId, what: &str) -> Why {
    let name = &backfill.spec.name;
    Why::new(
        "date-taken",
        format!("its date is taken by {what}"),
        format!("adopt that run, or clear it: a, or backfill take {name} {id} adopt|clear"),
    )
}

#[cfg(test)]
mod tests;
