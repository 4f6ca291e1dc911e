//! `kind = "prometheus"`.

mod preset;

pub use preset::{Counts, Preset, Wanted, Written};

use super::{
    super::{
        Unit,
        problem::Report,
        read::{Entry, Section, quoted},
    },
    http::{HttpConfig, http},
};
use std::{path::Path, time::Duration};

/// The keys beside those of every kind and of an HTTP endpoint.
pub(super) const KEYS: [&str; 9] = [
    "query",
    "age_query",
    "preset",
    "group",
    "topic",
    "job",
    "stream",
    "series",
    "gone_after",
];
/// How long a series may be gone before it is forgotten, unless the file says otherwise.
const GONE_AFTER: Duration = Duration::from_secs(600);
/// The most series of one signal.
pub const MOST_SERIES: usize = 500;
/// The most groups, topics, jobs or streams of a preset.
const MOST_NAMES: usize = 200;
const QUERY: &str = "PromQL whose result is a number for each thing to watch";
const NAMES: &str = "a name, or a list of names as in [\"orders\", \"payments\"]";

/// A Prometheus, or something that speaks its query API.
#[derive(Debug, Clone, PartialEq)]
pub struct PrometheusConfig {
    /// Where it is.
    pub http: HttpConfig,
    /// PromQL whose result is one number, or one for each thing to watch.
    pub query: String,
    /// PromQL whose result is the measurement's Unix time; that of the oldest sample that `query` reads by default.
    pub age_query: Option<String>,
    /// What wrote both, if it was not the operator.
    pub preset: Option<Written>,
    /// So many series are enough, whichever they are; `None`: none that was there may be gone.
    pub series: Option<u32>,
    /// How long a series has to be gone before it no longer belongs to the signal.
    pub gone_after: Duration,
}

impl PrometheusConfig {
    /// A query, everything else as it is unless a file says otherwise.
    pub fn at(http: HttpConfig, query: impl Into<String>) -> Self {
        Self {
            http,
            query: query.into(),
            age_query: None,
            preset: None,
            series: None,
            gone_after: GONE_AFTER,
        }
    }

    /// What a preset wrote.
    pub fn of_preset(http: HttpConfig, written: Written) -> Self {
        Self {
            age_query: Some(written.age_query.clone()),
            preset: Some(written.clone()),
            ..Self::at(http, written.query)
        }
    }
}

pub(super) fn read(
    report: &mut Report<'_>,
    section: &Section<'_>,
    folder: &Path,
) -> Option<PrometheusConfig> {
    let asks = match section.get("preset") {
        Some(preset) => written(report, section, &preset).map(Asks::Preset),
        None => own(report, section),
    };
    let series = match section.get("series") {
        Some(e) => e
            .whole(report, 1, MOST_SERIES as u64)
            .map(|n| u32::try_from(n).ok()),
        None => Some(None),
    };
    let gone_after = match section.get("gone_after") {
        Some(e) => e.duration(report, Duration::from_secs(1), Duration::from_secs(7 * 86_400)),
        None => Some(GONE_AFTER),
    };
    let http = http(report, section, folder, "a Prometheus")?;
    let config = match asks? {
        Asks::Own(query, age_query) => PrometheusConfig {
            age_query,
            ..PrometheusConfig::at(http, query)
        },
        Asks::Preset(written) => PrometheusConfig::of_preset(http, written),
    };
    Some(PrometheusConfig {
        series: series?,
        gone_after: gone_after?,
        ..config
    })
}

/// The unit of the numbers: the preset's, where it has only one.
pub(super) fn unit(report: &mut Report<'_>, section: &Section<'_>) -> Option<Unit> {
    let only = peek(report, section, "preset", &Preset::WORDS).and_then(|p| Some((p, p.unit()?)));
    let Some((preset, unit)) = only else {
        return super::unit(report, section);
    };
    if let Some(given) = section.get("unit") {
        let word = if unit == Unit::Seconds {
            "seconds"
        } else {
            "messages"
        };
        if given.word(report, &super::UNITS)? != unit {
            let help = format!(
                "preset = \"{}\" has no other unit; leave the key out",
                preset.word()
            );
            given.problem(report, "another unit", format!("\"{word}\""), help);
            return None;
        }
    }
    Some(unit)
}

/// What is asked.
enum Asks {
    /// The operator's query and age query.
    Own(String, Option<String>),
    Preset(Written),
}

fn own(report: &mut Report<'_>, section: &Section<'_>) -> Option<Asks> {
    let mut sound = true;
    for key in ["group", "topic", "job", "stream"] {
        if let Some(entry) = section.get(key) {
            let help = "write the query yourself, or add preset = \"..\"";
            entry.problem(
                report,
                format!("{key} without a preset"),
                "a preset beside it",
                help,
            );
            sound = false;
        }
    }
    let query = section
        .required(report, "query", QUERY)
        .and_then(|e| promql(report, &e));
    let age_query = match section.get("age_query") {
        Some(e) => promql(report, &e).map(Some),
        None => Some(None),
    };
    let (query, age_query) = (query?, age_query?);
    sound.then_some(Asks::Own(query, age_query))
}

fn written(report: &mut Report<'_>, section: &Section<'_>, entry: &Entry<'_>) -> Option<Written> {
    let mut sound = true;
    for key in ["query", "age_query"] {
        if let Some(own) = section.get(key) {
            let help = "a preset writes the queries; take one of the two out";
            own.problem(report, format!("{key} beside a preset"), "one of them", help);
            sound = false;
        }
    }
    let preset = entry.word(report, &Preset::WORDS)?;
    let (key, with_topics) = preset.asks();
    for other in ["group", "topic", "job", "stream"] {
        if other == key || (other == "topic" && with_topics) {
            continue;
        }
        if let Some(stray) = section.get(other) {
            let found = format!("{other}, which preset = \"{}\" does not know", preset.word());
            stray.problem(report, found, format!("only {key}"), "");
            sound = false;
        }
    }
    let named = section
        .required(report, key, NAMES)
        .and_then(|e| names(report, &e));
    let topics = match section.get("topic").filter(|_| with_topics) {
        Some(e) => names(report, &e),
        None => Some(Vec::new()),
    };
    // Without a unit there is no signal, and why is told where the unit is read.
    let unit = preset
        .unit()
        .or_else(|| peek(report, section, "unit", &super::UNITS));
    let (named, topics) = (named?, topics?);
    sound.then(|| preset.write(&named, &topics, unit.unwrap_or(Unit::Messages)))
}

/// One name or several, each once.
fn names(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<Vec<String>> {
    if entry.is_text() {
        return entry.text(report, NAMES).map(|name| vec![name.to_owned()]);
    }
    let names = entry.texts(report, NAMES)?;
    let twice = names
        .iter()
        .enumerate()
        .find(|(i, name)| names.iter().take(*i).any(|n| n == *name));
    let wrong = match twice {
        Some((_, name)) => Some((format!("{} a second time", quoted(name)), "each once".to_owned())),
        None if names.is_empty() => Some(("an empty list".to_owned(), NAMES.to_owned())),
        None if names.len() > MOST_NAMES => Some((
            format!("{} names", names.len()),
            format!("at most {MOST_NAMES} of them"),
        )),
        None => None,
    };
    if let Some((found, expected)) = wrong {
        entry.problem(report, found, expected, "");
        return None;
    }
    Some(names)
}

/// The meaning of a word that another reader checks and complains about.
fn peek<T: Copy>(
    report: &mut Report<'_>,
    section: &Section<'_>,
    key: &str,
    words: &[(&str, T)],
) -> Option<T> {
    let entry = section.get(key).filter(Entry::is_text)?;
    let found = entry.any_text(report, "")?;
    words
        .iter()
        .find(|(word, _)| *word == found)
        .map(|(_, value)| *value)
}

/// A query may span lines; it is only checked for having something in it.
fn promql(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<String> {
    let query = entry.any_text(report, QUERY)?.trim();
    if query.is_empty() {
        entry.problem(report, "an empty text", QUERY, "");
        return None;
    }
    Some(query.to_owned())
}

#[cfg(test)]
#[path = "prometheus_tests.rs"]
mod tests;
