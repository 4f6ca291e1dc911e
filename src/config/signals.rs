//! `[signals.NAME]`: lag sources and their thresholds.

use super::{
    HttpAuth, PrometheusConfig, SignalConfig, SourceConfig, Unit,
    problem::Report,
    read::{Entry, Section},
    secret::SecretSource,
    secret_source::{secret_source, sounds_secret},
    values,
};
use std::{collections::BTreeMap, path::Path, time::Duration};

const KEYS: [&str; 16] = [
    "kind",
    "url",
    "query",
    "age_query",
    "unit",
    "low",
    "soft",
    "hard",
    "critical",
    "interval",
    "role",
    "deadline",
    "basic",
    "bearer",
    "headers",
    "ca_file",
];

/// Time between two reads unless the file says otherwise.
const INTERVAL: Duration = Duration::from_secs(15);
/// How long one read may take unless the file says otherwise.
const DEADLINE: Duration = Duration::from_secs(5);

/// Reads one signal.
pub(super) fn signal(report: &mut Report<'_>, section: &Section<'_>, folder: &Path) -> Option<SignalConfig> {
    section.only(report, &KEYS);
    let kind = section
        .required(report, "kind", "\"prometheus\"")
        .and_then(|e| e.word(report, &[("prometheus", ())]));
    let source = prometheus(report, section, folder);
    let unit = section
        .required(report, "unit", "\"messages\" or \"seconds\"")
        .and_then(|e| {
            e.word(
                report,
                &[("messages", Unit::Messages), ("seconds", Unit::Seconds)],
            )
        });
    let levels = levels(report, section, unit);
    let interval = time(report, section, "interval", INTERVAL);
    let protects = match section.get("role") {
        Some(e) => e.word(report, &[("protect", true), ("advise", false)]),
        None => Some(true),
    };
    kind?;
    let (low, soft, hard, critical) = levels?;
    Some(SignalConfig {
        source: SourceConfig::Prometheus(source?),
        unit: unit?,
        low,
        soft,
        hard,
        critical,
        interval: interval?,
        protects: protects?,
    })
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
    let expected = match unit {
        Some(Unit::Seconds) => "a number of seconds that is not negative",
        Some(Unit::Messages) => "a number of messages that is not negative",
        None => "a number that is not negative",
    };
    let mut level = |key: &str, seconds: f64| match (section.get(key), unit) {
        (Some(e), _) => e.number(report, expected),
        (None, Some(Unit::Seconds)) => Some(seconds),
        (None, Some(Unit::Messages)) => {
            section.required(report, key, expected);
            None
        }
        // Without a unit nobody can say whether the level is missing; the unit's own problem comes first.
        (None, None) => None,
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

fn prometheus(report: &mut Report<'_>, section: &Section<'_>, folder: &Path) -> Option<PrometheusConfig> {
    let url = section
        .required(report, "url", "the base URL of a Prometheus")
        .and_then(|e| values::base_url(report, &e));
    let query = section
        .required(report, "query", "PromQL whose result is one number")
        .and_then(|e| promql(report, &e));
    let age_query = match section.get("age_query") {
        Some(e) => promql(report, &e).map(Some),
        None => Some(None),
    };
    let auth = auth(report, section, folder);
    let headers = match section.get("headers") {
        Some(e) => headers(report, &e, section, folder),
        None => Some((BTreeMap::new(), BTreeMap::new())),
    };
    let ca_file = match section.get("ca_file") {
        Some(e) => values::path(report, &e, folder).map(Some),
        None => Some(None),
    };
    let deadline = time(report, section, "deadline", DEADLINE);
    let (headers, plain_headers) = headers?;
    Some(PrometheusConfig {
        url: url?,
        query: query?,
        age_query: age_query?,
        auth: auth?,
        headers,
        plain_headers,
        ca_file: ca_file?,
        deadline: deadline?,
    })
}

/// A query may span lines; it is only checked for having something in it.
fn promql(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<String> {
    let expected = "PromQL whose result is one number";
    let query = entry.any_text(report, expected)?.trim();
    if query.is_empty() {
        entry.problem(report, "an empty text", expected, "");
        return None;
    }
    Some(query.to_owned())
}

fn auth(report: &mut Report<'_>, section: &Section<'_>, folder: &Path) -> Option<Option<HttpAuth>> {
    match (section.get("basic"), section.get("bearer")) {
        (None, None) => Some(None),
        (Some(_), Some(bearer)) => {
            let help = "an endpoint is logged in to in one way";
            bearer.problem(report, "both basic and bearer", "at most one of them", help);
            None
        }
        (None, Some(bearer)) => {
            secret_source(report, &bearer, folder).map(|source| Some(HttpAuth::Bearer(source)))
        }
        (Some(basic), None) => {
            let shape = "{ user = \"..\", password = { env = \"..\" } }";
            let table = basic.section(report, shape)?;
            table.only(report, &["user", "password"]);
            let user = table
                .required(report, "user", "the user's name")
                .and_then(|e| user(report, &e));
            let password = table
                .required(report, "password", "where the password comes from")
                .and_then(|e| secret_source(report, &e, folder));
            Some(Some(HttpAuth::Basic {
                user: user?,
                password: password?,
            }))
        }
    }
}

pub(super) fn user(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<String> {
    let user = entry.text(report, "the user's name")?;
    if user.contains(':') {
        // `user:password` is a slip that must not be repeated.
        entry.problem(report, "a name with `:` in it", "the user's name alone", "");
        return None;
    }
    Some(user.to_owned())
}

pub(super) type Headers = (BTreeMap<String, SecretSource>, BTreeMap<String, String>);

pub(super) fn headers(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    section: &Section<'_>,
    folder: &Path,
) -> Option<Headers> {
    let table = entry.section(report, "a table, as in { \"X-Scope-OrgID\" = \"orders\" }")?;
    let (mut secret, mut plain): Headers = Default::default();
    let mut seen: Vec<String> = Vec::new();
    let mut sound = true;
    for header in table.entries() {
        let name = header.key.to_ascii_lowercase();
        let read = check_header_name(report, &header, &name, &seen, section)
            .and_then(|()| header_value(report, &header, folder));
        seen.push(name);
        match read {
            Some(Ok(value)) => drop(plain.insert(header.key.to_owned(), value)),
            Some(Err(source)) => drop(secret.insert(header.key.to_owned(), source)),
            None => sound = false,
        }
    }
    sound.then_some((secret, plain))
}

fn check_header_name(
    report: &mut Report<'_>,
    header: &Entry<'_>,
    name: &str,
    seen: &[String],
    section: &Section<'_>,
) -> Option<()> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let at = header.key_span.start;
    let mut refuse = |found: &str, expected: &str| {
        report.add(
            at,
            &header.path,
            found.to_owned(),
            expected.to_owned(),
            String::new(),
        );
        None
    };
    if name.is_empty() || !name.bytes().all(token) {
        return refuse("a text that is no header's name", "letters, digits and `-`");
    }
    if seen.iter().any(|s| s == name) {
        return refuse(
            "this header a second time",
            "each header once, in small or capital letters",
        );
    }
    if name == "authorization"
        && let Some(other) = ["basic", "bearer", "auth"]
            .iter()
            .find(|k| section.get(k).is_some())
    {
        let other = if *other == "auth" {
            "auth"
        } else {
            "basic or bearer"
        };
        return refuse(&format!("this header beside {other}"), "one way to log in");
    }
    Some(())
}

/// A plain value is `Ok`, where a secret one comes from is `Err`.
fn header_value(
    report: &mut Report<'_>,
    header: &Entry<'_>,
    folder: &Path,
) -> Option<Result<String, SecretSource>> {
    if header.is_table() || sounds_secret(header.key) {
        return secret_source(report, header, folder).map(Err);
    }
    let expected = "a text, or a secret such as { env = \"NAME\" }";
    let value = header.any_text(report, expected)?;
    if value.bytes().any(|b| b.is_ascii_control()) || !value.is_ascii() {
        header.problem(
            report,
            "a text that no header may hold",
            "letters, digits and signs of ASCII",
            "",
        );
        return None;
    }
    Some(Ok(value.to_owned()))
}
