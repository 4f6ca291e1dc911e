//! The fold of what is done with an engine's own levers: actions from request to end, pools, letting go.

use super::{Folded, mark};
use crate::domain::{
    attach::{Action, ActionEnd, Asked, PoolHold, StepTaken},
    event::{Event, Payload},
    state::Backfill,
};

/// How many ended actions are remembered.
const ENDED: usize = 50;

impl Backfill {
    pub(super) fn lever(&mut self, event: &Event, payload: &Payload) -> Folded {
        match payload {
            Payload::ActionRequested { action, native, .. } => return self.ask(event, action, *native),
            Payload::ActionSent {
                ask,
                step,
                sent,
                call,
            } => {
                let asked = self.open_ask(*ask)?;
                // The same request again, after nobody knew what came of it.
                asked.steps.retain(|s| s.no != *step);
                asked.steps.push(StepTaken {
                    no: *step,
                    at: event.at,
                    sent: sent.clone(),
                    call: call.clone(),
                    answer: None,
                });
            }
            Payload::ActionAnswered { ask, step, ok, said } => {
                let asked = self.open_ask(*ask)?;
                let taken = asked.steps.iter_mut().find(|s| s.no == *step);
                taken
                    .ok_or_else(|| format!("request {step} was not sent"))?
                    .answer = Some((*ok, said.clone()));
                let done = asked.action.clone();
                if *ok {
                    self.accepted(&done);
                }
            }
            Payload::ActionEnded { ask, ok, said } => self.end_ask(event, *ask, *ok, said)?,
            Payload::PoolTaken { pool, former } => {
                self.pool.get_or_insert_with(|| PoolHold {
                    pool: pool.clone(),
                    former: *former,
                    written: None,
                    at: event.at,
                });
            }
            Payload::PoolReturned { .. } => self.pool = None,
            Payload::Detached {} if self.spec.attach.is_none() => {
                return Err(format!("{} is our own backfill: cancel ends it", self.spec.name));
            }
            Payload::Detached {} if self.detached.is_some() => {
                return Err(format!("{} is detached already", self.spec.name));
            }
            Payload::Detached {} => self.let_go(event),
            _ => {}
        }
        Ok(())
    }

    fn ask(&mut self, event: &Event, action: &Action, native: Option<u64>) -> Folded {
        let of_a_pool = matches!(action, Action::Slots { .. });
        if self.spec.attach.is_none() && !of_a_pool {
            return Err(format!(
                "{} is our own backfill: it has no native backfill to {}",
                self.spec.name,
                action.words()
            ));
        }
        if self.detached.is_some() && !of_a_pool {
            return Err(format!("{} is detached: attach to it again", self.spec.name));
        }
        if let Some(other) = self.asked.iter().find(|a| a.is_open() && a.action == *action) {
            return Err(format!("\"{}\" is under way already", other.action.words()));
        }
        self.asked.push_back(Asked {
            seq: event.seq,
            action: action.clone(),
            native,
            mark: mark(event),
            steps: Vec::new(),
            ended: None,
        });
        Ok(())
    }

    fn open_ask(&mut self, seq: u64) -> Result<&mut Asked, String> {
        let asked = self.asked.iter_mut().find(|a| a.seq == seq && a.is_open());
        asked.ok_or_else(|| format!("there is no open action {seq}"))
    }

    /// What a server accepted of an action holds from then on, also if the action's end is never seen.
    fn accepted(&mut self, action: &Action) {
        if let (Action::Slots { pool, slots }, Some(hold)) = (action, &mut self.pool)
            && hold.pool == *pool
        {
            hold.written = Some(*slots);
        }
    }

    /// What was asked for and never sent is not sent any more. What was sent in part is still taken to its end: half a
    /// replacement is worse than a whole one.
    fn let_go(&mut self, event: &Event) {
        self.detached = Some(mark(event));
        for asked in self
            .asked
            .iter_mut()
            .filter(|a| a.is_open() && a.steps.is_empty())
        {
            asked.ended = Some(ActionEnd {
                ok: false,
                said: "it was let go of before anything was sent".to_owned(),
                at: event.at,
            });
        }
    }

    fn end_ask(&mut self, event: &Event, seq: u64, ok: bool, said: &str) -> Folded {
        let asked = self.open_ask(seq)?;
        asked.ended = Some(ActionEnd {
            ok,
            said: said.to_owned(),
            at: event.at,
        });
        match (&asked.action, ok) {
            // One that was found paused is somebody else's pause.
            (Action::Pause { whole_dag: false }, true) => {
                let ours = asked
                    .steps
                    .iter()
                    .any(|s| s.answer.as_ref().is_some_and(|(ok, _)| *ok));
                if ours {
                    self.native_pause = Some(seq);
                }
            }
            (Action::Resume { whole_dag: false } | Action::Cancel { .. } | Action::Replace { .. }, true) => {
                self.native_pause = None;
            }
            // An answer that was lost: the look at the end tells the same.
            (Action::Slots { .. }, true) if !asked.steps.is_empty() => {
                let done = asked.action.clone();
                self.accepted(&done);
            }
            _ => {}
        }
        let mut surplus = self
            .asked
            .iter()
            .filter(|a| !a.is_open())
            .count()
            .saturating_sub(ENDED);
        self.asked.retain(|a| {
            let keep = a.is_open() || surplus == 0;
            surplus -= usize::from(!keep);
            keep
        });
        Ok(())
    }
}
