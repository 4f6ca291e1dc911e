//! The gate that every submission passes just before it leaves. Pause, hold, cancel and stops by signals close it
//! for what has not passed yet; a lease that was not renewed in time closes it for everything.

use crate::{domain::ids::AttemptId, host::BootInstant};
use std::{
    collections::HashSet,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// What the gate says to a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Send it now.
    Go,
    /// It was withdrawn meanwhile; its withdrawal is journaled.
    Withdrawn,
    /// The lease is too old for any effect.
    LeaseTooOld,
}

/// The gate. Shared by the loop, which withdraws, and the effects, which pass.
#[derive(Debug, Default)]
pub struct Gate {
    waiting: Mutex<HashSet<AttemptId>>,
    no_effects_after: AtomicU64,
}

impl Gate {
    fn waiting(&self) -> MutexGuard<'_, HashSet<AttemptId>> {
        // A panic elsewhere cannot leave a set of ids half changed.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lease was renewed at `at`; effects may leave until `stop` later.
    pub fn lease_renewed(&self, at: BootInstant, stop: Duration) {
        self.no_effects_after.store(at.plus(stop).0, Ordering::SeqCst);
    }

    /// The lease is lost: nothing passes any more.
    pub fn shut(&self) {
        self.no_effects_after.store(0, Ordering::SeqCst);
    }

    /// Whether effects may leave at `now`, on the boot clock.
    pub fn lease_holds(&self, now: BootInstant) -> bool {
        now.0 < self.no_effects_after.load(Ordering::SeqCst)
    }

    /// A durable intent waits to be sent.
    pub fn announce(&self, attempt: AttemptId) {
        self.waiting().insert(attempt);
    }

    /// Called by the effect just before it writes to the outside.
    pub fn pass(&self, attempt: &AttemptId, now: BootInstant) -> Pass {
        let waited = self.waiting().remove(attempt);
        match (waited, self.lease_holds(now)) {
            (false, _) => Pass::Withdrawn,
            (true, false) => Pass::LeaseTooOld,
            (true, true) => Pass::Go,
        }
    }

    /// Takes an intent back. `true` if it had not passed: then it will never leave.
    pub fn withdraw(&self, attempt: &AttemptId) -> bool {
        self.waiting().remove(attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt() -> AttemptId {
        "orders-abcdef/2023-01-01/1".parse().unwrap()
    }

    #[test]
    fn what_was_withdrawn_does_not_pass_and_what_passed_cannot_be_withdrawn() {
        let gate = Gate::default();
        gate.lease_renewed(BootInstant(1000), Duration::from_secs(10));
        gate.announce(attempt());
        assert!(gate.withdraw(&attempt()));
        assert_eq!(gate.pass(&attempt(), BootInstant(1001)), Pass::Withdrawn);
        gate.announce(attempt());
        assert_eq!(gate.pass(&attempt(), BootInstant(1001)), Pass::Go);
        assert!(!gate.withdraw(&attempt()));
    }

    #[test]
    fn nothing_passes_on_a_lease_that_was_not_renewed_in_time() {
        let gate = Gate::default();
        gate.announce(attempt());
        assert_eq!(gate.pass(&attempt(), BootInstant(0)), Pass::LeaseTooOld);
        gate.lease_renewed(BootInstant(1000), Duration::from_secs(10));
        gate.announce(attempt());
        assert_eq!(gate.pass(&attempt(), BootInstant(11_000)), Pass::LeaseTooOld);
    }
}
