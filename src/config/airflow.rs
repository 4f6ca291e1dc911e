//! `[executors.NAME]` with `kind = "airflow"`, and what a backfill on it has instead of a command.

use super::{
    AirflowAuth, AirflowConfig,
    problem::Report,
    read::{Entry, Section},
    secret::SecretSource,
    secret_source::{secret_source, sounds_secret},
    sections::MOST_SLOTS,
    signals, template, values,
};
use crate::domain::spec::Dag;
use std::{collections::BTreeMap, path::Path, time::Duration};

/// The keys of such an executor.
pub(super) const KEYS: [&str; 9] = [
    "kind",
    "url",
    "auth",
    "headers",
    "ca_file",
    "environment",
    "request_budget",
    "slots",
    "interval",
];

/// Requests a minute unless the file says otherwise.
const REQUEST_BUDGET: u32 = 60;
/// Time between two looks at what changed unless the file says otherwise.
const INTERVAL: Duration = Duration::from_secs(5);
/// How deep `conf` may nest.
const DEPTH: usize = 16;

/// Reads an Airflow server.
pub(super) fn airflow(
    report: &mut Report<'_>,
    section: &Section<'_>,
    folder: &Path,
) -> Option<AirflowConfig> {
    let url = section
        .required(report, "url", "the base URL of an Airflow")
        .and_then(|e| values::base_url(report, &e));
    let auth = match section.get("auth") {
        Some(e) => auth(report, &e, folder),
        None => Some(AirflowAuth::None),
    };
    let headers = match section.get("headers") {
        Some(e) => signals::headers(report, &e, section, folder),
        None => Some((BTreeMap::new(), BTreeMap::new())),
    };
    let ca_file = match section.get("ca_file") {
        Some(e) => values::path(report, &e, folder).map(Some),
        None => Some(None),
    };
    let environment = match section.get("environment") {
        Some(e) => e
            .text(report, "a word for what it is, such as \"prod\"")
            .map(|word| Some(word.to_owned())),
        None => Some(None),
    };
    let mut number = |key: &str, most: u64| match section.get(key) {
        Some(e) => e.whole(report, 1, most).map(|n| u32::try_from(n).ok()),
        None => Some(None),
    };
    let request_budget = number("request_budget", 100_000);
    let slots = number("slots", MOST_SLOTS);
    let interval = signals::time(report, section, "interval", INTERVAL);
    let (headers, plain_headers) = headers?;
    Some(AirflowConfig {
        url: url?,
        auth: auth?,
        headers,
        plain_headers,
        ca_file: ca_file?,
        environment: environment?,
        request_budget: request_budget?.unwrap_or(REQUEST_BUDGET),
        slots: slots?,
        interval: interval?,
    })
}

const WAYS: &str =
    "{ user = \"..\", password = { env = \"..\" } }, { token = .. }, { basic = .. } or { command = [..] }";

fn auth(report: &mut Report<'_>, entry: &Entry<'_>, folder: &Path) -> Option<AirflowAuth> {
    let table = entry.section(report, WAYS)?;
    table.only(report, &["user", "password", "token", "basic", "command"]);
    let ways = ["user", "token", "basic", "command"];
    let given: Vec<Entry<'_>> = ways.iter().filter_map(|k| table.get(k)).collect();
    match given.as_slice() {
        [] => {
            entry.problem(report, "a table that names no way to log in", WAYS, "");
            None
        }
        [_, second, ..] => {
            let help = "a server is logged in to in one way";
            second.problem(report, "a second way to log in", "at most one of them", help);
            None
        }
        [way] => match way.key {
            "user" => {
                let (user, password) = user_and_password(report, &table, folder)?;
                Some(AirflowAuth::Password { user, password })
            }
            "token" => secret_source(report, way, folder).map(AirflowAuth::Token),
            "basic" => {
                let inner = way.section(report, "{ user = \"..\", password = { env = \"..\" } }")?;
                inner.only(report, &["user", "password"]);
                let (user, password) = user_and_password(report, &inner, folder)?;
                Some(AirflowAuth::Basic { user, password })
            }
            _ => secret_source(report, entry, folder).map(AirflowAuth::Token),
        },
    }
}

fn user_and_password(
    report: &mut Report<'_>,
    table: &Section<'_>,
    folder: &Path,
) -> Option<(String, SecretSource)> {
    let user = table
        .required(report, "user", "the user's name")
        .and_then(|e| signals::user(report, &e));
    let password = table
        .required(report, "password", "where the password comes from")
        .and_then(|e| secret_source(report, &e, folder));
    Some((user?, password?))
}

/// Reads `dag`, `conf` and `pool` of a backfill.
pub(super) fn dag(
    report: &mut Report<'_>,
    section: &Section<'_>,
    entry: &Entry<'_>,
    names: Option<&template::Names>,
) -> Option<Dag> {
    let id = dag_id(report, entry);
    let conf = match section.get("conf") {
        Some(e) => conf(report, &e, names),
        None => Some(BTreeMap::new()),
    };
    let pool = match section.get("pool") {
        Some(e) => e
            .text(report, "the name of a pool of the server")
            .map(|p| Some(p.to_owned())),
        None => Some(None),
    };
    Some(Dag {
        id: id?,
        conf: conf?,
        pool: pool?,
    })
}

fn dag_id(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<String> {
    let expected = "the id of a DAG: letters, digits, `_`, `-` and `.`";
    let id = entry.text(report, expected)?;
    let sound = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if id.len() > 250 || id.chars().all(|c| c == '.') || !id.chars().all(sound) {
        entry.problem(report, super::read::quoted(id), expected, "");
        return None;
    }
    Some(id.to_owned())
}

fn conf(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    names: Option<&template::Names>,
) -> Option<BTreeMap<String, serde_json::Value>> {
    let table = entry.section(report, "a table, as in { force = true, day = \"{{ ds }}\" }")?;
    let before = report.len();
    let mut conf = BTreeMap::new();
    for value in table.entries() {
        if value.key == "backfill" {
            let expected = "another key: `backfill` holds the chunk, the attempt, the source and the profile";
            let (at, found) = (value.key_span.start, "a key that is set for each attempt");
            report.add(
                at,
                &value.path,
                found.to_owned(),
                expected.to_owned(),
                String::new(),
            );
        } else if let Some(json) = json(report, &value, names, DEPTH) {
            conf.insert(value.key.to_owned(), json);
        }
    }
    (report.len() == before).then_some(conf)
}

/// A value of `conf`. Runs show their parameters to everybody, so what sounds like a secret is refused.
fn json(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    names: Option<&template::Names>,
    depth: usize,
) -> Option<serde_json::Value> {
    if sounds_secret(entry.key) {
        let help = "parameters are journaled and shown on the server: keep secrets in a connection there";
        entry.problem(
            report,
            "a key that sounds like a secret",
            "what may be seen by everyone",
            help,
        );
        return None;
    }
    if depth == 0 {
        entry.problem(report, "a value inside too many others", "at most 16 levels", "");
        return None;
    }
    if entry.is_table() {
        let table = entry.section(report, "a table")?;
        let mut object = serde_json::Map::new();
        for inner in table.entries() {
            object.insert(inner.key.to_owned(), json(report, &inner, names, depth - 1)?);
        }
        return Some(object.into());
    }
    if entry.is_list() {
        let items = entry.list(report, "a list")?;
        let read: Vec<_> = items.iter().map(|i| json(report, i, names, depth - 1)).collect();
        return read.into_iter().collect::<Option<Vec<_>>>().map(Into::into);
    }
    if entry.is_text() {
        let text = entry.any_text(report, "a text")?;
        let sound = names.is_none_or(|n| template::check(report, entry, text, n));
        return sound.then(|| text.into());
    }
    let scalar = entry.scalar();
    if scalar.is_none() {
        let expected = "a text, a whole number, a number, true, false, a list or a table";
        entry.wrong_type(report, expected, "write a date as a text in quotes");
    }
    scalar
}
