//! `[signals.NAME]`: lag sources and their thresholds. What all kinds have is here, each kind has a file of its own.

mod alertmanager;
mod burrow;
mod cloudwatch;
mod command;
mod http;
mod kafka;
mod matcher;
mod prometheus;

pub use alertmanager::AlertmanagerConfig;
pub use burrow::BurrowConfig;
pub use cloudwatch::{AwsKeys, CloudWatchConfig};
pub use command::CommandConfig;
pub use http::{HttpAuth, HttpConfig};
pub(super) use http::{headers, user};
pub use kafka::{
    Expect, Isolation, KafkaConfig, KafkaIdentity, KafkaSasl, KafkaTls, SaslMechanism, WithoutCommit,
};
pub use matcher::{MatchOp, Matcher};
pub use prometheus::{Counts, MOST_SERIES, Preset, PrometheusConfig, Wanted, Written};

use super::{
    SignalConfig, SourceConfig, Unit,
    problem::{self, Report},
    read::Section,
};
use std::{path::Path, time::Duration};

/// The keys of every kind.
const KEYS: [&str; 3] = ["kind", "interval", "role"];
/// The keys of every kind whose answers are lags.
const LEVELS: [&str; 5] = ["unit", "low", "soft", "hard", "critical"];
/// Those of a kind that has only one unit.
const RISING: [&str; 4] = ["low", "soft", "hard", "critical"];
/// Low, soft, hard and critical of alerts, where 1 is that some fire: firing is past hard, and nothing is critical.
const OF_ALERTS: (f64, f64, f64, f64) = (0.25, 0.5, 0.75, 2.0);

/// What kind of endpoint answers.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Kafka,
    Prometheus,
    Alertmanager,
    Burrow,
    CloudWatch,
    Command,
}

impl Kind {
    const WORDS: [(&str, Self); 6] = [
        ("kafka", Self::Kafka),
        ("prometheus", Self::Prometheus),
        ("alertmanager", Self::Alertmanager),
        ("burrow", Self::Burrow),
        ("cloudwatch", Self::CloudWatch),
        ("command", Self::Command),
    ];

    /// The keys that only this kind has.
    const fn keys(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Kafka => &[&LEVELS, &kafka::KEYS],
            Self::Prometheus => &[&LEVELS, &prometheus::KEYS, &http::KEYS],
            Self::Alertmanager => &[&alertmanager::KEYS, &http::KEYS],
            Self::Burrow => &[&RISING, &burrow::KEYS, &http::KEYS],
            Self::CloudWatch => &[&RISING, &cloudwatch::KEYS],
            Self::Command => &[&LEVELS, &command::KEYS],
        }
    }

    /// The unit of a kind that has only one; of alerts the levels are fixed, too.
    const fn unit(self) -> Option<Unit> {
        match self {
            Self::Kafka | Self::Prometheus | Self::Command => None,
            Self::Alertmanager => Some(Unit::Alerts),
            Self::Burrow => Some(Unit::Messages),
            Self::CloudWatch => Some(Unit::Seconds),
        }
    }

    /// Time between two reads unless the file says otherwise.
    const fn interval(self) -> Duration {
        match self {
            Self::Kafka | Self::Prometheus | Self::Alertmanager | Self::Burrow | Self::Command => INTERVAL,
            Self::CloudWatch => cloudwatch::INTERVAL,
        }
    }

    fn source(self, report: &mut Report<'_>, section: &Section<'_>, folder: &Path) -> Option<SourceConfig> {
        match self {
            Self::Kafka => kafka::read(report, section, folder).map(SourceConfig::Kafka),
            Self::Prometheus => prometheus::read(report, section, folder).map(SourceConfig::Prometheus),
            Self::Alertmanager => alertmanager::read(report, section, folder).map(SourceConfig::Alertmanager),
            Self::Burrow => burrow::read(report, section, folder).map(SourceConfig::Burrow),
            Self::CloudWatch => cloudwatch::read(report, section, folder).map(SourceConfig::CloudWatch),
            Self::Command => command::read(report, section, folder).map(SourceConfig::Command),
        }
    }
}

fn one_of<T>(words: &[(&str, T)]) -> String {
    let quoted: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
    problem::one_of(&quoted.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Time between two reads of most kinds.
const INTERVAL: Duration = Duration::from_secs(15);

/// Reads one signal.
pub(super) fn signal(report: &mut Report<'_>, section: &Section<'_>, folder: &Path) -> Option<SignalConfig> {
    let kind = section
        .required(report, "kind", &one_of(&Kind::WORDS))
        .and_then(|e| e.word(report, &Kind::WORDS));
    // Of a kind that is not known nobody can say which keys it has.
    if let Some(kind) = kind {
        let keys: Vec<&str> = KEYS
            .iter()
            .chain(kind.keys().iter().copied().flatten())
            .copied()
            .collect();
        section.only(report, &keys);
    }
    let source = kind.and_then(|kind| kind.source(report, section, folder));
    let unit = match kind {
        Some(Kind::Prometheus) => prometheus::unit(report, section),
        Some(kind) => kind.unit().or_else(|| unit(report, section)),
        None => None,
    };
    let levels = levels(report, section, unit);
    let interval = time(report, section, "interval", kind.map_or(INTERVAL, Kind::interval));
    let protects = match section.get("role") {
        Some(e) => e.word(report, &[("protect", true), ("advise", false)]),
        None => Some(true),
    };
    let (low, soft, hard, critical) = levels?;
    Some(SignalConfig {
        source: source?,
        unit: unit?,
        low,
        soft,
        hard,
        critical,
        interval: interval?,
        protects: protects?,
    })
}

/// The units of lags.
const UNITS: [(&str, Unit); 2] = [("messages", Unit::Messages), ("seconds", Unit::Seconds)];

fn unit(report: &mut Report<'_>, section: &Section<'_>) -> Option<Unit> {
    section
        .required(report, "unit", &one_of(&UNITS))
        .and_then(|e| e.word(report, &UNITS))
}

pub(super) fn time(
    report: &mut Report<'_>,
    section: &Section<'_>,
    key: &str,
    default: Duration,
) -> Option<Duration> {
    let (least, most) = (Duration::from_millis(20), Duration::from_secs(3600));
    match section.get(key) {
        Some(e) => e.duration(report, least, most),
        None => Some(default),
    }
}

/// low, soft, hard and critical, in their order. In seconds all have defaults (law C1); a number of messages depends on
/// the topic and must be given, except low.
fn levels(
    report: &mut Report<'_>,
    section: &Section<'_>,
    unit: Option<Unit>,
) -> Option<(f64, f64, f64, f64)> {
    if unit == Some(Unit::Alerts) {
        return Some(OF_ALERTS);
    }
    let expected = match unit {
        Some(Unit::Seconds) => "a number of seconds that is not negative",
        Some(Unit::Messages) => "a number of messages that is not negative",
        Some(Unit::Alerts) | None => "a number that is not negative",
    };
    let mut level = |key: &str, seconds: f64| match (section.get(key), unit) {
        (Some(e), _) => e.number(report, expected),
        (None, Some(Unit::Seconds)) => Some(seconds),
        (None, Some(Unit::Messages)) => {
            section.required(report, key, expected);
            None
        }
        // Without a unit nobody can say whether the level is missing; the unit's own problem comes first.
        (None, Some(Unit::Alerts) | None) => None,
    };
    let (soft, hard, critical) = (
        level("soft", 60.0),
        level("hard", 180.0),
        level("critical", 900.0),
    );
    let low = match section.get("low") {
        Some(e) => e.number(report, expected),
        None => soft.map(|s| s / 2.0),
    };
    let (low, soft, hard, critical) = (low?, soft?, hard?, critical?);
    let rising = [
        ("low", low),
        ("soft", soft),
        ("hard", hard),
        ("critical", critical),
    ];
    let mut sound = true;
    for pair in rising.windows(2) {
        let &[(below, a), (above, b)] = pair else { continue };
        if a >= b {
            out_of_order(report, section, (below, a), (above, b));
            sound = false;
        }
    }
    sound.then_some((low, soft, hard, critical))
}

fn out_of_order(report: &mut Report<'_>, section: &Section<'_>, below: (&str, f64), above: (&str, f64)) {
    let found = format!("{} {} and {} {}", below.0, below.1, above.0, above.1);
    let expected = format!("{} less than {}", below.0, above.0);
    let help = "lag rises through low (resume), soft (slow down), hard (pause) and critical (hibernate)";
    match section.get(below.0).or_else(|| section.get(above.0)) {
        Some(e) => e.problem(report, found, expected, help),
        None => section.problem(report, below.0, &found, &expected, help),
    }
}
