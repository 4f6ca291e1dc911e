//! `[backfills.NAME]`: orders, resolved into a [`Spec`] that holds no relative path, date or name.

use super::{
    BackfillConfig, ExecutorConfig, airflow, blackout,
    days::{self, Range},
    problem::{Report, nearest},
    profiles,
    read::{Entry, Section, quoted},
    secret::SecretSource,
    secret_source::{secret_source, sounds_secret},
    sections::MOST_SLOTS,
    template,
    throttling::throttling,
    values,
};
use crate::domain::{
    calendar::Granularity,
    ids::Name,
    spec::{Dag, OnFailure, Profile, Spec},
};
use chrono_tz::Tz;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

const KEYS: [&str; 29] = [
    "target",
    "environment",
    "start",
    "end",
    "granularity",
    "timezone",
    "executor",
    "command",
    "dag",
    "conf",
    "pool",
    "cwd",
    "env_pass",
    "env",
    "max_limit",
    "order",
    "signals",
    "on_failure",
    "profiles",
    "heavy",
    "heavy_profile",
    "isolated",
    "isolated_profile",
    "source",
    "idempotent",
    "law",
    "cancel",
    "cancel_share",
    "blackout",
];

/// What a backfill refers to.
pub(super) struct Around<'a> {
    /// The folder of the configuration file.
    pub folder: &'a Path,
    /// Names that have a table, even a faulty one, so that one fault is reported once.
    pub executors: Vec<&'a str>,
    /// The same for signals.
    pub signals: Vec<&'a str>,
    /// The same for profiles.
    pub declared_profiles: Vec<&'a str>,
    /// Sound profiles.
    pub profiles: &'a BTreeMap<Name, Profile>,
    /// Sound executors.
    pub sound_executors: &'a BTreeMap<Name, ExecutorConfig>,
}

/// Reads one backfill.
pub(super) fn backfill(
    report: &mut Report<'_>,
    section: &Section<'_>,
    name: &Name,
    around: &Around<'_>,
) -> Option<BackfillConfig> {
    section.only(report, &KEYS);
    let target = section
        .required(
            report,
            "target",
            "the table that is rewritten, as in \"datamart.orders\"",
        )
        .and_then(|e| text(report, &e, "the table that is rewritten"));
    let environment = optional(section, "environment", |e| {
        text(report, &e, "a word for where it runs, such as \"prod\"")
    });
    let range = range(report, section);
    let executor = section
        .required(
            report,
            "executor",
            "the name of one of the [executors.NAME] tables",
        )
        .and_then(|e| e.reference(report, "executors", &around.executors));
    let ladder = profiles::ladder(report, section, around.profiles, &around.declared_profiles);
    let source = optional(section, "source", |e| source(report, &e));
    let names = template_names(ladder.as_deref(), source.as_ref());
    let server = executor.as_ref().and_then(|e| around.sound_executors.get(e));
    let work = work(report, section, server, names.as_ref());
    let cwd = cwd(report, section, around.folder);
    let env_pass = optional(section, "env_pass", |e| env_pass(report, &e));
    let variables = match section.get("env") {
        Some(e) => variables(report, &e, section, around.folder),
        None => Some(Variables::default()),
    };
    let max_limit = match section.get("max_limit") {
        Some(e) => e.whole(report, 1, MOST_SLOTS).and_then(|n| u32::try_from(n).ok()),
        None => server.and_then(|s| default_limit(report, section, s)),
    };
    let order = days::order(report, section, range.as_ref());
    let signals = optional(section, "signals", |e| {
        e.references(report, "signals", &around.signals)
    });
    let on_failure = match section.get("on_failure") {
        Some(e) => on_failure(report, &e),
        None => Some(OnFailure::Continue),
    };
    let lanes = days::lanes(report, section, range.as_ref(), ladder.as_deref());
    let idempotent = match section.get("idempotent") {
        Some(e) => e.flag(report),
        None => Some(true),
    };
    let throttling = throttling(report, section, server, idempotent);
    let blackout = blackout::windows(report, section, range.as_ref().map(|r| r.timezone));
    let (range, variables, (command, dag)) = (range?, variables?, work?);
    let of_executor = || server.and_then(ExecutorConfig::environment).map(str::to_owned);
    let spec = Spec {
        name: name.clone(),
        target: target?,
        environment: environment?.or_else(of_executor),
        start: range.start,
        end: range.end,
        granularity: range.granularity,
        timezone: range.timezone,
        executor: executor?,
        command,
        dag,
        attach: None,
        cwd: cwd?,
        env_pass: env_pass?.unwrap_or_default(),
        env: variables.plain,
        env_secrets: variables.secret.keys().cloned().collect(),
        max_limit: max_limit?,
        order: order?,
        signals: signals?.unwrap_or_default(),
        on_failure: on_failure?,
        profiles: ladder?,
        lanes: lanes?,
        source: source?.unwrap_or_default(),
        idempotent: idempotent?,
        throttling: throttling?,
        blackout: blackout?,
    };
    Some(BackfillConfig {
        spec,
        secrets: variables.secret,
    })
}

/// What only a command has.
const OF_A_COMMAND: [&str; 3] = ["cwd", "env_pass", "env"];
/// What only a DAG has.
const OF_A_DAG: [&str; 2] = ["conf", "pool"];

/// The command or the DAG, whichever the executor runs.
fn work(
    report: &mut Report<'_>,
    section: &Section<'_>,
    executor: Option<&ExecutorConfig>,
    names: Option<&template::Names>,
) -> Option<(Vec<String>, Option<Dag>)> {
    let before = report.len();
    let runs_dags = executor.map(|e| matches!(e, ExecutorConfig::Airflow(_)));
    let (found_command, found_dag) = (section.get("command"), section.get("dag"));
    let strange: &[&str] = match (&found_command, &found_dag) {
        (_, Some(_)) => &OF_A_COMMAND,
        _ => &OF_A_DAG,
    };
    for entry in strange.iter().filter_map(|k| section.get(k)) {
        let other = if found_dag.is_some() { "command" } else { "dag" };
        let expected = format!("this key only beside `{other}`");
        report.add(
            entry.key_span.start,
            &entry.path,
            "a key that nothing here uses".to_owned(),
            expected,
            String::new(),
        );
    }
    let read = match (found_command, found_dag) {
        (Some(_), Some(dag)) => {
            let help = "an executor of kind \"airflow\" runs a dag, one of kind \"local\" a command";
            dag.problem(report, "a dag beside a command", "one of them", help);
            None
        }
        (Some(entry), None) if runs_dags == Some(true) => {
            let help = "its kind is \"airflow\": write `dag = \"..\"` instead";
            entry.problem(report, "a command on an executor that runs DAGs", "`dag`", help);
            None
        }
        (None, Some(entry)) if runs_dags == Some(false) => {
            let help = "its kind is \"local\": write `command = [..]` instead";
            entry.problem(
                report,
                "a dag on an executor that runs commands",
                "`command`",
                help,
            );
            None
        }
        (Some(entry), None) => command(report, &entry, names).map(|argv| (argv, None)),
        (None, Some(entry)) => {
            airflow::dag(report, section, &entry, names).map(|dag| (Vec::new(), Some(dag)))
        }
        (None, None) => {
            let (key, expected) = match runs_dags {
                Some(true) => ("dag", "the id of the DAG that writes the partitions"),
                _ => ("command", COMMAND),
            };
            section.required(report, key, expected);
            None
        }
    };
    read.filter(|_| report.len() == before)
}

/// As many as the executor has slots; one without a limit of its own gives no number to take.
fn default_limit(report: &mut Report<'_>, section: &Section<'_>, executor: &ExecutorConfig) -> Option<u32> {
    let slots = executor.slots();
    if slots.is_none() {
        section.required(
            report,
            "max_limit",
            "how many runs at a time, since the executor has no slots",
        );
    }
    slots
}

/// `Some(None)` when the key is absent, `None` when its value is refused.
fn optional<'t, T>(
    section: &Section<'t>,
    key: &str,
    read: impl FnOnce(Entry<'t>) -> Option<T>,
) -> Option<Option<T>> {
    match section.get(key) {
        Some(entry) => read(entry).map(Some),
        None => Some(None),
    }
}

fn text(report: &mut Report<'_>, entry: &Entry<'_>, expected: &str) -> Option<String> {
    entry.text(report, expected).map(str::to_owned)
}

fn range(report: &mut Report<'_>, section: &Section<'_>) -> Option<Range> {
    let mut date = |key: &str, expected: &str| {
        section
            .required(report, key, expected)
            .and_then(|e| e.date(report))
    };
    let start = date("start", "the first day, as in 2023-01-01");
    let end = date("end", "the last day, inclusive, as in 2023-12-31");
    let granularity = section
        .required(report, "granularity", "\"hour\", \"day\", \"week\" or \"month\"")
        .and_then(|e| {
            let all = [
                Granularity::Hour,
                Granularity::Day,
                Granularity::Week,
                Granularity::Month,
            ];
            e.word(report, &all.map(|g| (g.word(), g)))
        });
    let timezone = section
        .required(
            report,
            "timezone",
            "an IANA zone such as \"UTC\" or \"Europe/Berlin\"",
        )
        .and_then(|e| timezone(report, &e));
    let range = Range {
        start: start?,
        end: end?,
        granularity: granularity?,
        timezone: timezone?,
    };
    let end = section.get("end")?;
    if range.end < range.start {
        let found = range.end.to_string();
        let expected = format!("a day not before start, {}", range.start);
        end.problem(report, found, expected, "both ends are included");
        None
    } else if range.roughly() > days::MOST_CHUNKS {
        let found = format!("{} to {} by {}", range.start, range.end, range.granularity.word());
        let help = "take a shorter range or longer chunks";
        end.problem(report, found, "at most 1,000,000 chunks", help);
        None
    } else if range.is_empty() {
        // Pacific/Apia went from 2011-12-29 to 2011-12-31: there is no partition to write.
        let found = format!(
            "{} to {}, which never were in {}",
            range.start, range.end, range.timezone
        );
        let (before, after) = (range.start.pred_opt(), range.end.succ_opt());
        let day = |d: Option<chrono::NaiveDate>| d.map_or_else(String::new, |d| d.to_string());
        let help = format!(
            "the zone's clocks jumped over it: leave it out, or take in {} or {}",
            day(before),
            day(after)
        );
        end.problem(report, found, "a range with at least one chunk", &help);
        None
    } else {
        Some(range)
    }
}

pub(super) fn timezone(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<Tz> {
    let expected = "an IANA zone such as \"UTC\" or \"Europe/Berlin\"";
    let found = entry.text(report, expected)?;
    if let Ok(zone) = found.parse() {
        return Some(zone);
    }
    let zones = chrono_tz::TZ_VARIANTS.iter();
    let city = |z: &Tz| z.name().rsplit('/').next().unwrap_or_default();
    let names: Vec<&str> = zones.clone().map(|z| z.name()).collect();
    let meant = zones
        .clone()
        .find(|z| {
            city(z)
                .replace('_', " ")
                .eq_ignore_ascii_case(&found.replace('_', " "))
        })
        .map(|z| z.name())
        .or_else(|| nearest(found, names));
    let help = meant.map_or_else(String::new, |z| format!("did you mean \"{z}\"?"));
    entry.problem(report, quoted(found), expected, help);
    None
}

const COMMAND: &str = "a list of the program and its arguments, as in [\"./job.sh\", \"{{ ds }}\"]";

fn template_names(
    ladder: Option<&[Profile]>,
    source: Option<&Option<BTreeMap<String, String>>>,
) -> Option<template::Names> {
    let (ladder, source) = (ladder?, source?);
    let all: BTreeSet<String> = ladder.iter().flat_map(profiles::template_keys).collect();
    let shared = |key: &String| ladder.iter().all(|p| profiles::template_keys(p).contains(key));
    let (profile, some_profiles) = all.into_iter().partition(shared);
    Some(template::Names {
        source: source.iter().flat_map(BTreeMap::keys).cloned().collect(),
        profile,
        some_profiles,
    })
}

fn command(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    names: Option<&template::Names>,
) -> Option<Vec<String>> {
    if entry.is_text() {
        entry.wrong_type(report, COMMAND, "no shell takes a command apart");
        return None;
    }
    let items = entry.list(report, COMMAND)?;
    if items.is_empty() {
        entry.problem(report, "an empty list", COMMAND, "");
        return None;
    }
    let mut sound = true;
    let mut argv = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let argument = match i {
            0 => item.text(report, "the program"),
            _ => item.any_text(report, "a text"),
        };
        let Some(argument) = argument else {
            sound = false;
            continue;
        };
        if argument.contains('\0') {
            item.problem(
                report,
                "a text with a zero byte",
                "what a process can be given",
                "",
            );
            sound = false;
        }
        sound &= names.is_none_or(|n| template::check(report, item, argument, n));
        argv.push(argument.to_owned());
    }
    sound.then_some(argv)
}

fn cwd(report: &mut Report<'_>, section: &Section<'_>, folder: &Path) -> Option<String> {
    let entry = section.get("cwd");
    let path = match &entry {
        Some(e) => values::path(report, e, folder)?,
        None => folder.to_owned(),
    };
    if let Some(text) = path.to_str() {
        return Some(text.to_owned());
    }
    let found = "a folder whose name is not UTF-8";
    section.problem(
        report,
        "cwd",
        found,
        "a folder that can be written down",
        "name another one in cwd",
    );
    None
}

fn env_pass(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<Vec<String>> {
    let items = entry.list(report, "a list of names of variables, as in [\"AWS_PROFILE\"]")?;
    let mut names: Vec<String> = Vec::with_capacity(items.len());
    let mut sound = true;
    for item in items {
        match values::variable_name(report, &item) {
            Some(name) if !own_name(report, &item, &name) => sound = false,
            Some(name) if names.contains(&name) => {
                item.problem(report, format!("{name} a second time"), "each name once", "");
                sound = false;
            }
            Some(name) => names.push(name),
            None => sound = false,
        }
    }
    sound.then_some(names)
}

/// Variables that start with `BACKFILL_` are set by us for each attempt.
fn own_name(report: &mut Report<'_>, entry: &Entry<'_>, name: &str) -> bool {
    if !name.starts_with("BACKFILL_") {
        return true;
    }
    let at = entry.key_span.start;
    let expected = "another name: those with BACKFILL_ are set for each attempt".to_owned();
    report.add(at, &entry.path, name.to_owned(), expected, String::new());
    false
}

#[derive(Default)]
struct Variables {
    plain: BTreeMap<String, String>,
    secret: BTreeMap<String, SecretSource>,
}

fn variables(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    backfill: &Section<'_>,
    folder: &Path,
) -> Option<Variables> {
    let table = entry.section(
        report,
        "a table, as in { PGUSER = \"etl\", PGPASSWORD = { env = \"PGPASSWORD\" } }",
    )?;
    let passed = backfill.get("env_pass").filter(Entry::is_list);
    let passed: Vec<String> = passed
        .and_then(|e| e.texts(&mut Report::new(""), ""))
        .unwrap_or_default();
    let before = report.len();
    let mut variables = Variables::default();
    for variable in table.entries() {
        let (name, at) = (variable.key, variable.key_span.start);
        if !values::is_variable_name(name) {
            let expected = "the name of a variable: letters, digits and `_`".to_owned();
            report.add(
                at,
                &variable.path,
                "a key that is no such name".to_owned(),
                expected,
                String::new(),
            );
        } else if passed.iter().any(|p| p == name) {
            let expected = "one place for each variable".to_owned();
            report.add(
                at,
                &variable.path,
                "a name that env_pass has too".to_owned(),
                expected,
                String::new(),
            );
        } else if own_name(report, &variable, name) {
            variable_value(report, &variable, folder, &mut variables);
        }
    }
    (report.len() == before).then_some(variables)
}

fn variable_value(report: &mut Report<'_>, entry: &Entry<'_>, folder: &Path, variables: &mut Variables) {
    if entry.is_table() || sounds_secret(entry.key) {
        if let Some(source) = secret_source(report, entry, folder) {
            variables.secret.insert(entry.key.to_owned(), source);
        }
        return;
    }
    let expected = "a text, or a secret such as { env = \"NAME\" }";
    match entry.any_text(report, expected) {
        Some(value) if value.contains('\0') => {
            entry.problem(report, "a text with a zero byte", expected, "");
        }
        Some(value) => drop(variables.plain.insert(entry.key.to_owned(), value.to_owned())),
        None => {}
    }
}

fn on_failure(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<OnFailure> {
    let expected = "\"continue\", \"stop\" or \"stop_after:3\"";
    let found = entry.text(report, expected)?;
    let (word, number) = match found.split_once(':') {
        Some((word, number)) => (word, Some(number)),
        None => (found, None),
    };
    match (word, number) {
        ("continue", None) => return Some(OnFailure::Continue),
        ("stop", None) => return Some(OnFailure::StopAfter(1)),
        ("stop_after", Some(n)) if n.bytes().all(|b| b.is_ascii_digit()) => {
            if let Some(n) = n.parse().ok().filter(|n| *n > 0) {
                return Some(OnFailure::StopAfter(n));
            }
        }
        _ => {}
    }
    let help = match nearest(word, ["continue", "stop", "stop_after"]) {
        Some("stop_after") => "stop_after needs a number of failures of at least 1".to_owned(),
        Some(near) => format!("did you mean \"{near}\"?"),
        None => String::new(),
    };
    entry.problem(report, quoted(found), expected, help);
    None
}

fn source(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<BTreeMap<String, String>> {
    let table = entry.section(report, "a table, as in { bucket = \"raw-orders\" }")?;
    let before = report.len();
    let mut source: BTreeMap<String, String> = BTreeMap::new();
    for value in table.entries() {
        if let Some(twin) = source.keys().find(|k| k.eq_ignore_ascii_case(value.key)) {
            values::refuse_twin(report, &value, twin);
            continue;
        }
        if !values::is_variable_name(value.key) {
            let expected = "letters, digits and `_`, for {{ source.KEY }}".to_owned();
            let at = value.key_span.start;
            report.add(
                at,
                &value.path,
                "a key that no template can name".to_owned(),
                expected,
                String::new(),
            );
        } else if sounds_secret(value.key) {
            let help = "a source is journaled and shown: give secrets to the command through env";
            value.problem(
                report,
                "a key that sounds like a secret",
                "what may be seen by everyone",
                help,
            );
        } else if let Some(text) = value.any_text(report, "a text, for {{ source.KEY }} in the command") {
            source.insert(value.key.to_owned(), text.to_owned());
        }
    }
    (report.len() == before).then_some(source)
}
