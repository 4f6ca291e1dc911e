//! `[profiles.NAME]`: the resources of attempts, and the ladders that backfills make of them.

use super::{
    problem::{Report, nearest},
    read::{Entry, Section},
    values,
};
use crate::domain::{human, ids::Name, spec::Profile};
use std::{collections::BTreeMap, time::Duration};

/// The profile that a backfill gets when it names none; without limits unless `[profiles.default]` says otherwise.
pub(super) const DEFAULT: &str = "default";

/// A process that is allowed less than this cannot even start.
const LEAST_MEMORY: u64 = 1_000_000;

/// Reads one profile.
pub(super) fn profile(report: &mut Report<'_>, section: &Section<'_>, name: &Name) -> Option<Profile> {
    let mut profile = Profile {
        name: name.clone(),
        memory: None,
        deadline_ms: None,
        values: BTreeMap::new(),
    };
    let before = report.len();
    for entry in section.entries() {
        match entry.key {
            "memory" => profile.memory = entry.size(report, LEAST_MEMORY),
            "deadline" => {
                let time = entry.duration(report, Duration::from_millis(1), human::LONGEST);
                profile.deadline_ms = time.and_then(|d| u64::try_from(d.as_millis()).ok());
            }
            _ => {
                let twin = profile.values.keys().find(|k| k.eq_ignore_ascii_case(entry.key));
                if let Some(twin) = twin {
                    values::refuse_twin(report, &entry, twin);
                } else if let Some(value) = free_value(report, &entry) {
                    profile.values.insert(entry.key.to_owned(), value);
                }
            }
        }
    }
    (report.len() == before).then_some(profile)
}

/// A value of the user's own for `{{ profile.KEY }}`. A key that is almost `memory` is taken for a slip, because as a
/// free value it would silently limit nothing.
fn free_value(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<String> {
    let at = entry.key_span.start;
    let expected = "memory, deadline, or a key of your own for templates";
    if let Some(meant) = nearest(entry.key, ["memory", "deadline"]) {
        let help = format!("did you mean `{meant}`?");
        report.add(
            at,
            &entry.path,
            "an unknown key".to_owned(),
            expected.to_owned(),
            help,
        );
        return None;
    }
    if entry.key.eq_ignore_ascii_case("name") || !values::is_variable_name(entry.key) {
        let expected = "letters, digits and `_`, and not `name`, which is the profile's own";
        let found = "a key that no template can name".to_owned();
        report.add(at, &entry.path, found, expected.to_owned(), String::new());
        return None;
    }
    entry
        .any_text(report, "a text, for {{ profile.KEY }} in commands")
        .map(str::to_owned)
}

/// What `{{ profile.KEY }}` may name for attempts with this profile.
pub(super) fn template_keys(profile: &Profile) -> Vec<String> {
    let own = [
        ("name", true),
        ("memory", profile.memory.is_some()),
        ("deadline", profile.deadline_ms.is_some()),
    ];
    let own = own
        .into_iter()
        .filter(|(_, there)| *there)
        .map(|(key, _)| key.to_owned());
    own.chain(profile.values.keys().cloned()).collect()
}

/// The ladder of a backfill, smallest first: what runs out of memory on one step is tried on the next.
pub(super) fn ladder(
    report: &mut Report<'_>,
    backfill: &Section<'_>,
    profiles: &BTreeMap<Name, Profile>,
    declared: &[&str],
) -> Option<Vec<Profile>> {
    let mut known = declared.to_vec();
    if !known.contains(&DEFAULT) {
        known.push(DEFAULT);
    }
    let entry = backfill.get("profiles");
    let names = match &entry {
        Some(e) => e.references(report, "profiles", &known)?,
        None => vec![DEFAULT.parse().ok()?],
    };
    if let (Some(e), true) = (&entry, names.is_empty()) {
        e.problem(
            report,
            "an empty list",
            "at least one name",
            "leave the key out for [\"default\"]",
        );
        return None;
    }
    let mut steps: Vec<Profile> = Vec::with_capacity(names.len());
    for name in names {
        match profiles.get(&name) {
            Some(profile) => steps.push(profile.clone()),
            None if name.as_str() == DEFAULT && !declared.contains(&DEFAULT) => steps.push(unlimited(name)),
            // Its own table already has a problem in the report.
            None => return None,
        }
    }
    match &entry {
        Some(e) if !rises(report, e, &steps) => None,
        _ => Some(steps),
    }
}

const fn unlimited(name: Name) -> Profile {
    Profile {
        name,
        memory: None,
        deadline_ms: None,
        values: BTreeMap::new(),
    }
}

fn rises(report: &mut Report<'_>, entry: &Entry<'_>, steps: &[Profile]) -> bool {
    let memory = |p: &Profile| p.memory.unwrap_or(u64::MAX);
    let words = |p: &Profile| match p.memory {
        Some(n) => format!("{} with {}", p.name, human::exact_size(n)),
        None => format!("{} without a limit", p.name),
    };
    for pair in steps.windows(2) {
        if let [below, above] = pair
            && memory(below) > memory(above)
        {
            let found = format!("{} before {}", words(below), words(above));
            let help = "a chunk that runs out of memory moves up the list";
            entry.problem(report, found, "the smallest memory first", help);
            return false;
        }
    }
    true
}
