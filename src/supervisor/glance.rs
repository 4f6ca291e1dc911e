//! A look at the journal from outside the supervisor: what screens and commands need to say why something waits.

use crate::{
    config::Config,
    domain::Time,
    host::boot_now,
    journal::{HolderView, Journal, Liveness, free_bytes},
    plan::decide::{ExecutorFacts, Surroundings},
};
use std::collections::{BTreeMap, BTreeSet};

/// What is known beside the state, from the lease, the configuration and what the supervisor last saw.
pub fn surroundings(
    journal: &Journal,
    config: &Config,
    holder: Option<&HolderView>,
    now: Time,
) -> Surroundings {
    let problems = problems(journal);
    let facts = |name: &crate::domain::ids::Name, slots: u32| ExecutorFacts {
        slots,
        problem: problems.get(name.as_str()).cloned(),
    };
    Surroundings {
        now,
        tuning: config.tuning.clone(),
        executors: config
            .executors
            .iter()
            .map(|(n, e)| (n.clone(), facts(n, e.slots())))
            .collect(),
        paced: BTreeSet::new(),
        disk_low: free_bytes(journal.path()).is_ok_and(|b| b < config.tuning.disk_low),
        supervised: holder.is_some_and(is_alive),
    }
}

/// The holder of the lease, if it can still do something.
pub fn holder(journal: &Journal) -> Option<HolderView> {
    journal.holder(boot_now()).ok().flatten()
}

/// Whether a holder lives, or may live on another host.
pub fn is_alive(holder: &HolderView) -> bool {
    matches!(holder.liveness, Liveness::Alive | Liveness::Elsewhere)
}

/// What the supervisor last saw wrong with executors, by name.
fn problems(journal: &Journal) -> BTreeMap<String, String> {
    let seen = journal.observations("executor").unwrap_or_default();
    let problem = |json: &str| {
        serde_json::from_str::<serde_json::Value>(json)
            .ok()?
            .get("problem")?
            .as_str()
            .map(str::to_owned)
    };
    seen.into_iter()
        .filter_map(|o| Some((o.key, problem(&o.json)?)))
        .collect()
}
