//! Performs the steps of actions on somebody else's backfills and on pools. Nothing here decides.

use super::{attached::Performed, core::Input, driver::Driver};
use crate::{
    domain::{ids::BackfillId, state::State},
    executor::attach::{Levers, Target},
    host::boot_now,
    net::{AdapterError, Cause},
};
use std::{sync::Arc, time::Duration};

/// Finding out what comes next takes a few reads, each with a deadline of its own.
const LOOK: Duration = Duration::from_secs(120);
/// The longest request makes a backfill of some years.
const SEND: Duration = Duration::from_secs(600);

impl Driver {
    /// Finds out the next step of an action.
    pub(super) fn next_step(&self, id: BackfillId, ask: u64, state: &State) {
        let inbox = self.inbox.clone();
        let asked = state
            .backfills
            .get(&id)
            .and_then(|b| b.asked.iter().find(|a| a.seq == ask));
        let (Some(asked), Some((levers, target))) = (asked.cloned(), self.hold(&id, state)) else {
            let _ = inbox.send(Input::Step(id, ask, Err(NO_LEVERS.to_owned())));
            return;
        };
        tokio::spawn(async move {
            let looking = async move { levers.next(&target, &asked).await };
            let next = within(LOOK, looking).await;
            let _ = inbox.send(Input::Step(id, ask, next.map_err(|e| e.1)));
        });
    }

    /// Sends a request of an action, if the lease still holds right before.
    pub(super) fn perform_step(&self, id: BackfillId, (ask, step): (u64, u32), state: &State) {
        let (gate, inbox) = (self.gate.clone(), self.inbox.clone());
        let call = state.backfills.get(&id).and_then(|b| {
            let asked = b.asked.iter().find(|a| a.seq == ask)?;
            Some(asked.steps.iter().find(|s| s.no == step)?.call.clone())
        });
        let (Some(call), Some((levers, target))) = (call, self.hold(&id, state)) else {
            let done = Performed::Unknown(NO_LEVERS.to_owned());
            let _ = inbox.send(Input::Performed(id, ask, step, done));
            return;
        };
        tokio::spawn(async move {
            let done = if gate.lease_holds(boot_now()) {
                let sending = async move { levers.perform(&target, &call).await };
                match within(SEND, sending).await {
                    Ok(said) => Performed::Accepted(said),
                    Err((Some(cause), why)) if is_refusal(cause) => Performed::Refused(why),
                    Err((_, why)) => Performed::Unknown(why),
                }
            } else {
                Performed::Unknown("the lease was not renewed in time: not sent".to_owned())
            };
            let _ = inbox.send(Input::Performed(id, ask, step, done));
        });
    }

    fn hold(&self, id: &BackfillId, state: &State) -> Option<(Arc<dyn Levers>, Target)> {
        let backfill = state.backfills.get(id)?;
        let levers = self.executors.get(&backfill.spec.executor)?.levers()?;
        let target = Target {
            backfill: id.clone(),
            spec: Arc::new(backfill.spec.clone()),
        };
        Some((levers, target))
    }
}

const NO_LEVERS: &str = "its executor is not in the configuration any more, or has no levers";

/// Whether the server itself said no, so that nothing happened. What did not arrive is sent again instead.
const fn is_refusal(cause: Cause) -> bool {
    matches!(cause, Cause::Forbidden | Cause::NotFound | Cause::BadRequest)
}

/// Work on a task of its own and with an end: a fault in an adapter costs an answer and not the loop (case B36).
async fn within<T: Send + 'static>(
    limit: Duration,
    work: impl Future<Output = Result<T, AdapterError>> + Send + 'static,
) -> Result<T, (Option<Cause>, String)> {
    let mut task = tokio::spawn(work);
    match tokio::time::timeout(limit, &mut task).await {
        Ok(Ok(Ok(done))) => Ok(done),
        Ok(Ok(Err(error))) => Err((Some(error.cause), error.to_string())),
        Ok(Err(error)) => {
            tracing::error!(%error, "an adapter broke off");
            Err((
                None,
                "the adapter broke off; the supervisor's log has more".to_owned(),
            ))
        }
        Err(_) => {
            task.abort();
            Err((None, format!("no answer within {} s", limit.as_secs())))
        }
    }
}
