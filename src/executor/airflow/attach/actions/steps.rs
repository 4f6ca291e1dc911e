//! What was sent for an action so far, and what its last request leaves to be done.

use super::call::{Call, Earlier, Record};
use crate::{
    domain::{
        Time,
        attach::{Asked, StepTaken},
    },
    executor::attach::Next,
};
use chrono::TimeDelta;
use std::time::Duration;

/// Words in the answer to a request that certainly had no effect and may be sent again.
pub const NOT_SENT: &str = "it was not sent";
/// Words in the answer to a request of which nobody knows what came.
pub const OPEN: &str = "it may have been done";

/// A request that changes the same thing to the same value however often it comes may be sent again after this.
pub const SOON: Duration = Duration::from_secs(5);
/// A request without an answer is taken for lost when nothing came of it for this long.
pub const QUIET: Duration = Duration::from_secs(30);
/// After a request that did not leave, this long until the next try.
const PACE: Duration = Duration::from_secs(3);
/// An action that gets nowhere for this long is given up.
const GIVE_UP: Duration = Duration::from_secs(15 * 60);

/// What is known of what came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The server accepted it.
    Accepted,
    /// The server said no, in these words.
    Refused(String),
    /// It did not get to the server, or the server did not look at it.
    NotSent(String),
    /// Nobody knows.
    Open,
}

/// One request that was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What.
    pub call: Call,
    /// The same as it was journaled: sent again, it has to be the same text.
    raw: String,
    /// When it was about to be sent.
    pub at: Time,
    /// What came of it.
    pub fate: Fate,
}

/// An action that is under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// What was sent for it, oldest first.
    pub steps: Vec<Step>,
    /// Now.
    pub now: Time,
    /// Whether the DAG's runs have partitions; `None`: not asked yet.
    pub partitioned: Option<bool>,
    /// When it last got on.
    since: Time,
}

/// What is done about a request without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Again {
    /// It is sent again, as this text.
    Send(String),
    /// Not yet.
    Wait(Duration, String),
    /// Never; in words.
    Never(String),
}

/// How long ago. A clock that was set back has no say: what is in doubt then is old.
fn elapsed(now: Time, then: Time) -> Duration {
    (now - then).abs().to_std().unwrap_or(Duration::MAX)
}

impl Step {
    fn read(taken: &StepTaken) -> Result<(Self, Record), String> {
        let record = Call::read(&taken.call)?;
        let fate = match &taken.answer {
            None => Fate::Open,
            Some((true, _)) => Fate::Accepted,
            Some((false, said)) if said.contains(OPEN) => Fate::Open,
            Some((false, said)) if said.contains(NOT_SENT) => Fate::NotSent(said.clone()),
            Some((false, said)) => Fate::Refused(said.clone()),
        };
        let step = Self {
            call: record.call.clone(),
            raw: taken.call.clone(),
            at: taken.at,
            fate,
        };
        Ok((step, record))
    }
}

impl Case {
    /// Of an action as it was journaled.
    ///
    /// # Errors
    /// A request of it cannot be read.
    pub fn of(asked: &Asked, now: Time) -> Result<Self, String> {
        let mut case = Self {
            steps: Vec::with_capacity(asked.steps.len()),
            now,
            partitioned: None,
            since: asked.mark.at,
        };
        for taken in &asked.steps {
            let (step, record) = Step::read(taken)?;
            case.partitioned.get_or_insert(record.partitioned);
            for earlier in record.earlier {
                case.remember(earlier);
            }
            if step.fate == Fate::Accepted {
                case.since = case.since.max(step.at);
            }
            case.steps.push(step);
        }
        Ok(case)
    }

    /// A request that is told of by a later one only, if it lost its place in the journal.
    fn remember(&mut self, earlier: Earlier) {
        let known = |s: &Step| s.at == earlier.at && s.call == earlier.call;
        if !self.steps.iter().any(known) {
            self.steps.push(Step {
                call: earlier.call,
                raw: String::new(),
                at: earlier.at,
                fate: Fate::Open,
            });
        }
    }

    /// The requests at the end that were never answered.
    pub fn unanswered(&self) -> Vec<Earlier> {
        let open = self
            .steps
            .iter()
            .rev()
            .take_while(|s| s.fate == Fate::Open)
            .count();
        let from = self.steps.len() - open;
        let open = self.steps.iter().skip(from);
        open.map(|s| Earlier {
            at: s.at,
            call: s.call.clone(),
        })
        .collect()
    }

    /// The last request.
    pub fn last(&self) -> Option<&Step> {
        self.steps.last()
    }

    /// The last request as it was journaled, if it was never answered and there is hope yet that it will be.
    pub fn unconfirmed(&self) -> Option<String> {
        let last = self.last().filter(|s| s.fate == Fate::Open)?;
        (!self.is_hopeless()).then(|| last.raw.clone())
    }

    fn is_hopeless(&self) -> bool {
        elapsed(self.now, self.since) > GIVE_UP
    }

    /// How long ago the last request was sent.
    pub fn since_last(&self) -> Duration {
        self.last().map_or(Duration::MAX, |s| elapsed(self.now, s.at))
    }

    /// What is done about a request of which no effect is to be seen: after `patience` it is sent again if nobody
    /// knows what came of it.
    pub fn again(&self, step: &Step, patience: Duration) -> Again {
        let hopeless = self.is_hopeless();
        let spent = elapsed(self.now, step.at);
        let (patience, why) = match &step.fate {
            Fate::Accepted => {
                return Again::Never("it was accepted, and nothing of it is to be seen".to_owned());
            }
            Fate::Refused(said) => return Again::Never(said.clone()),
            Fate::NotSent(said) if hopeless => return Again::Never(said.clone()),
            Fate::NotSent(said) => (PACE, said.clone()),
            Fate::Open if hopeless => {
                let words = "no answer comes, and nothing of it is to be seen";
                return Again::Never(words.to_owned());
            }
            Fate::Open => (
                patience,
                "its answer was lost, and nothing of it is to be seen yet".to_owned(),
            ),
        };
        match patience.checked_sub(spent).filter(|left| !left.is_zero()) {
            Some(left) => Again::Wait(left.min(SOON), why),
            None => Again::Send(step.raw.clone()),
        }
    }

    /// Waits until the last request is this old.
    pub fn settle(&self, span: Duration, why: &str) -> Option<Next> {
        let left = span.checked_sub(self.since_last()).filter(|l| !l.is_zero())?;
        Some(Next::Wait(left, why.to_owned()))
    }
}

/// Where a lever stands that is either as it should be or not, and that may be pulled twice without harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lever {
    /// It was so before anything was sent.
    Already,
    /// It is so now.
    Reached,
    /// It was accepted, and somebody else undid it.
    Undone,
    /// It has to be pulled.
    Pull,
    /// The last request is sent again, as this text.
    Again(String),
    /// Not yet.
    Wait(Duration, String),
    /// It cannot be.
    Failed(String),
}

/// See [`Lever`].
pub fn lever(case: &Case, as_wanted: bool) -> Lever {
    match (case.last(), as_wanted) {
        (None, true) => Lever::Already,
        (None, false) => Lever::Pull,
        (Some(_), true) => Lever::Reached,
        (Some(step), false) if step.fate == Fate::Accepted => Lever::Undone,
        (Some(step), false) => match case.again(step, SOON) {
            Again::Send(raw) => Lever::Again(raw),
            Again::Wait(left, why) => Lever::Wait(left, why),
            Again::Never(why) => Lever::Failed(why),
        },
    }
}

/// The end of an action.
pub fn ended(ok: bool, said: impl Into<String>) -> Next {
    Next::Ended {
        ok,
        said: said.into(),
    }
}

/// What was made at an instant of the server's clock is of this request or of a later one.
pub fn made_since(made: Option<Time>, since: Option<Time>) -> bool {
    // Both are of one clock; the rows of a call are written after the one that they belong to.
    made.zip(since)
        .is_none_or(|(made, since)| made >= since - TimeDelta::seconds(1))
}
