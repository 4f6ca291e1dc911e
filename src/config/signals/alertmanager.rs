//! `kind = "alertmanager"`.

use super::{
    super::{
        problem::Report,
        read::{Entry, Section, quoted},
        values,
    },
    http::{HttpConfig, http},
    matcher::{MatchOp, Matcher},
};
use std::path::Path;

/// The keys beside those of every kind and of an HTTP endpoint.
pub(super) const KEYS: [&str; 6] = [
    "matchers",
    "members",
    "silenced",
    "inhibited",
    "watchdog",
    "silence",
];

/// An Alertmanager, or a cluster of them.
#[derive(Debug, Clone, PartialEq)]
pub struct AlertmanagerConfig {
    /// Where the first member is, and how all of them are logged in to.
    pub http: HttpConfig,
    /// The base urls of the other members.
    pub members: Vec<String>,
    /// Which alerts: all of these have to fit. At least one names a label that has to be there.
    pub matchers: Vec<Matcher>,
    /// Whether alerts count that somebody silenced.
    pub silenced: bool,
    /// Whether alerts count that another alert inhibits.
    pub inhibited: bool,
    /// An alert that always fires; empty if there is none. While it is not in the list, an empty list says nothing.
    pub watchdog: Vec<Matcher>,
    /// Whether the alerts are silenced while they hold a backfill back.
    pub silence: bool,
}

pub(super) fn read(
    report: &mut Report<'_>,
    section: &Section<'_>,
    folder: &Path,
) -> Option<AlertmanagerConfig> {
    let matchers = section
        .required(report, "matchers", MATCHERS)
        .and_then(|e| matchers(report, &e));
    let watchdog = match section.get("watchdog") {
        Some(e) => matchers_apart(report, &e, matchers.as_deref()),
        None => Some(Vec::new()),
    };
    let http = http(report, section, folder, "an Alertmanager");
    let members = match section.get("members") {
        Some(e) => members(report, &e, http.as_ref().map(|h| h.url.as_str())),
        None => Some(Vec::new()),
    };
    let silenced = flag(report, section, "silenced");
    let inhibited = flag(report, section, "inhibited");
    let silence = flag(report, section, "silence");
    Some(AlertmanagerConfig {
        http: http?,
        members: members?,
        matchers: matchers?,
        silenced: silenced?,
        inhibited: inhibited?,
        watchdog: watchdog?,
        silence: silence?,
    })
}

const MATCHERS: &str =
    "a list of matchers, as in [\"alertname=HighConsumerLag\", \"consumergroup=~orders.*\"]";

fn flag(report: &mut Report<'_>, section: &Section<'_>, key: &str) -> Option<bool> {
    section.get(key).map_or(Some(false), |e| e.flag(report))
}

fn matchers(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<Vec<Matcher>> {
    let items = entry.list(report, MATCHERS)?;
    if items.is_empty() {
        entry.problem(report, "an empty list", MATCHERS, "");
        return None;
    }
    let mut sound = true;
    let mut read: Vec<Matcher> = Vec::with_capacity(items.len());
    for item in &items {
        match matcher(report, item, &read) {
            Some(matcher) => read.push(matcher),
            None => sound = false,
        }
    }
    if sound && !read.iter().any(Matcher::wants_label) {
        let expected = "at least one label that has to be there, as in \"alertname=HighConsumerLag\"";
        entry.problem(
            report,
            "matchers that an alert without any of these labels fits",
            expected,
            "",
        );
        return None;
    }
    sound.then_some(read)
}

fn matcher(report: &mut Report<'_>, item: &Entry<'_>, before: &[Matcher]) -> Option<Matcher> {
    let expected = "a label, one of =, !=, =~ and !~, and a value";
    let text = item.any_text(report, expected)?;
    let matcher = match Matcher::parse(text) {
        Ok(matcher) => matcher,
        Err((found, help)) => {
            item.problem(report, found, expected, help);
            return None;
        }
    };
    let twice = |other: &&Matcher| {
        other.name == matcher.name && other.op == MatchOp::Equal && matcher.op == MatchOp::Equal
    };
    if let Some(other) = before.iter().find(twice) {
        let help = format!(
            "all matchers have to fit at once; one of several is {}=~\"{}|{}\"",
            matcher.name, other.value, matcher.value
        );
        let found = format!("a second value of {}", quoted(&matcher.name));
        item.problem(report, found, "one value for each label", help);
        return None;
    }
    Some(matcher)
}

/// The watchdog's matchers: an alert that is its own watchdog would never be believed to be quiet.
fn matchers_apart(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    watched: Option<&[Matcher]>,
) -> Option<Vec<Matcher>> {
    let watchdog = matchers(report, entry)?;
    if watched.is_some_and(|watched| watched == watchdog.as_slice()) {
        let expected = "an alert that always fires, as in [\"alertname=Watchdog\"]";
        entry.problem(report, "the same matchers as in `matchers`", expected, "");
        return None;
    }
    Some(watchdog)
}

fn members(report: &mut Report<'_>, entry: &Entry<'_>, first: Option<&str>) -> Option<Vec<String>> {
    let expected = "a list of base URLs, as in [\"http://alertmanager-2:9093\"]";
    let items = entry.list(report, expected)?;
    let mut sound = true;
    let mut urls: Vec<String> = Vec::with_capacity(items.len());
    for item in &items {
        let url = values::base_url(report, item);
        match url {
            Some(url) if first == Some(url.as_str()) || urls.contains(&url) => {
                let help = "`url` is the first member; `members` are the others";
                item.problem(report, "a member a second time", "each member once", help);
                sound = false;
            }
            Some(url) => urls.push(url),
            None => sound = false,
        }
    }
    sound.then_some(urls)
}

#[cfg(test)]
#[path = "alertmanager_tests.rs"]
mod tests;
