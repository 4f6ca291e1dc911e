//! The environment of a command: a short list of ours, what the backfill's order says, and nothing else.

use crate::{executor::RunOrder, host::is_plain};
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
};

/// Everything but the secrets. Later ones win: ours by rule, ours by `env_pass`, the order's `env`, `BACKFILL_*`.
pub fn environment(
    order: &RunOrder,
    ours: &BTreeMap<OsString, OsString>,
    backfill: BTreeMap<String, String>,
) -> Vec<(OsString, OsString)> {
    let passed = |name: &OsStr| {
        let by_order = |name: &str| order.spec.env_pass.iter().any(|n| n == name);
        is_plain(name) || name.to_str().is_some_and(by_order)
    };
    let mut all: BTreeMap<OsString, OsString> = ours
        .iter()
        .filter(|(n, _)| passed(n))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect();
    let set = |(name, value): (&String, &String)| (OsString::from(name), OsString::from(value));
    all.extend(order.spec.env.iter().map(set));
    all.extend(backfill.iter().map(set));
    all.into_iter().collect()
}
