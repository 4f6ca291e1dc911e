//! `kind = "burrow"`.

use super::{
    super::{
        problem::Report,
        read::{Entry, Section, quoted},
    },
    http::{HttpConfig, http},
    kafka::{GROUPS, TOPICS, is_topic, names},
};
use std::{collections::BTreeSet, path::Path};

/// The keys beside those of every kind and of an HTTP endpoint.
pub(super) const KEYS: [&str; 3] = ["cluster", "groups", "topics"];
const CLUSTER: &str = "the name of a cluster in Burrow's configuration, as in \"local\"";

/// Consumer groups that a Burrow watches.
#[derive(Debug, Clone, PartialEq)]
pub struct BurrowConfig {
    /// Where and how.
    pub http: HttpConfig,
    /// The cluster, as Burrow calls it.
    pub cluster: String,
    /// The consumer groups, at least one, none of them twice.
    pub groups: Vec<String>,
    /// Only these topics; empty: every topic of a group.
    pub topics: BTreeSet<String>,
}

pub(super) fn read(report: &mut Report<'_>, section: &Section<'_>, folder: &Path) -> Option<BurrowConfig> {
    let cluster = section
        .required(report, "cluster", CLUSTER)
        .and_then(|e| cluster(report, &e));
    let groups = section
        .required(report, "groups", GROUPS)
        .and_then(|e| groups(report, &e));
    let topics = match section.get("topics") {
        Some(e) => names(report, &e, TOPICS, is_topic),
        None => Some(Vec::new()),
    };
    let http = http(report, section, folder, "a Burrow");
    Some(BurrowConfig {
        http: http?,
        cluster: cluster?,
        groups: groups?,
        topics: topics?.into_iter().collect(),
    })
}

fn cluster(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<String> {
    let name = entry.text(report, CLUSTER)?;
    if !has_a_path(name) {
        entry.problem(report, quoted(name), CLUSTER, NO_PATH);
        return None;
    }
    Some(name.to_owned())
}

fn groups(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<Vec<String>> {
    let groups = names(report, entry, GROUPS, |_| true)?;
    if let Some(wrong) = groups.iter().find(|name| !has_a_path(name)) {
        entry.problem(report, quoted(wrong), GROUPS, NO_PATH);
        return None;
    }
    Some(groups)
}

const NO_PATH: &str =
    "a Burrow cannot be asked for a name that is a part of a path: `.`, `..` or one with `/` in it";

/// Names stand in the path of the url. Burrow takes its paths apart at every slash, also at one that is written `%2F`.
fn has_a_path(name: &str) -> bool {
    !matches!(name, "." | "..") && !name.contains('/')
}

#[cfg(test)]
#[path = "burrow_tests.rs"]
mod tests;
