//! Submissions of which nothing came, through no fault of the attempt: its supervisor died while it sent, the executor
//! was away, an answer was lost. They are sent again, and are no failures, of which a few alike would stop everything.

use super::core::{Core, Effect, never_ran, no_trace, standing, still_wanted};
use crate::{
    domain::{
        Time,
        event::{Actor, Payload},
        ids::AttemptId,
        state::{Phase, State},
    },
    executor::RunEnd,
    plan::decide,
};

/// So often an attempt is sent again before that counts as a failure of its own: an executor that answers everything
/// but this would be asked for ever.
const RESENDS: u32 = 3;

impl Core {
    /// There is no trace of an attempt, and it may be sent again.
    pub(super) fn traceless(
        &mut self,
        state: &mut State,
        id: AttemptId,
        why: String,
        under_way: bool,
        drawn: f64,
        now: Time,
    ) {
        let Some((executor, phase)) = standing(state, &id) else {
            return;
        };
        match phase {
            // Certainly not sent: `tick` sends it now, or takes it back.
            Phase::Intended if !under_way => return,
            // Not to be taken back, as an intent would be that is not allowed any more.
            Phase::Intended => self.uncertain(state, &id, Actor::executor(&executor), why, now),
            Phase::Uncertain => {}
            _ => {
                let why = no_trace(&executor);
                return self.uncertain(state, &id, Actor::executor(&executor), why, now);
            }
        }
        let around = self.without_recovery(now);
        let allowed = |b| decide::may_resubmit(state, b, id.chunk, &around);
        let wanted = still_wanted(state, &id) && state.backfills.get(&id.backfill).is_some_and(allowed);
        let resent = self.resent.get(&id).copied().unwrap_or(0);
        if wanted && resent < RESENDS {
            self.resent.insert(id.clone(), resent + 1);
            self.sending.insert(id.clone());
            self.orders.push(Effect::Submit(id));
        } else if under_way {
            // Looked at again when nothing can come of it any more.
        } else if wanted {
            let end = RunEnd::failed(never_ran(state, &id));
            self.ended(state, id, end, drawn, now);
        } else {
            let backfill = id.backfill.clone();
            let why = "nothing came of it, and it is not to be sent again now".to_owned();
            let payload = Payload::SubmissionWithdrawn { attempt: id, why };
            self.say(state, &backfill, Actor::supervisor(), payload, now);
        }
    }

    fn uncertain(&mut self, state: &mut State, id: &AttemptId, actor: Actor, why: String, now: Time) {
        let payload = Payload::RunUncertain {
            attempt: id.clone(),
            why,
        };
        self.say(state, &id.backfill, actor, payload, now);
    }
}
