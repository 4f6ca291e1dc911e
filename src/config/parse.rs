//! From the text of a file to a checked [`Config`], or to everything that is wrong with it.

use super::{
    Config, ConfigErrors,
    backfills::{Around, backfill},
    problem::Report,
    profiles::profile,
    read::Section,
    sections, signals, tuning,
};
use crate::domain::ids::Name;
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::Read,
    path::{Component, Path, PathBuf},
};
use toml::de::DeTable;

const SECTIONS: [&str; 7] = [
    "executors",
    "signals",
    "backfills",
    "profiles",
    "journal",
    "tuning",
    "screen",
];

/// A configuration is written by hand; what is longer is another file.
const MOST_BYTES: u64 = 1_000_000;

/// The text of a file; never writes one.
fn read(path: &Path) -> Result<String, ConfigErrors> {
    let refuse = |found: &str, help: &str| Err(ConfigErrors::whole_file(path, found, help));
    // Asked before opening: opening a pipe would wait for its other end.
    match fs::metadata(path) {
        Err(e) => return refuse(&format!("no way to read it ({})", reason(&e)), ""),
        Ok(m) if m.is_dir() => return refuse("a folder", "name the config.toml in it"),
        Ok(m) if !m.is_file() => return refuse("something that is no ordinary file", ""),
        Ok(m) if m.len() > MOST_BYTES => return refuse("more than 1 MB", "is this the right file?"),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|f| f.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    if let Err(e) = read {
        return refuse(&format!("no way to read it ({})", reason(&e)), "");
    }
    String::from_utf8(bytes).map_err(|e| {
        let (good, _) = e.as_bytes().split_at(e.utf8_error().valid_up_to());
        let text = String::from_utf8_lossy(good);
        let mut report = Report::new(&text);
        report.add(
            good.len(),
            "file",
            "a byte that is not UTF-8".to_owned(),
            "text in UTF-8".to_owned(),
            String::new(),
        );
        report.into_errors(path)
    })
}

/// The reason without the number that the system adds.
fn reason(error: &std::io::Error) -> String {
    let text = error.to_string();
    let words = text.split(" (os error").next().unwrap_or_default();
    words.to_lowercase()
}

/// Reads a text that came from `path`.
pub(super) fn parse(text: &str, path: &Path) -> Result<Config, ConfigErrors> {
    table(text, path, |report, root| whole(report, root, path))
}

/// Reads a file, and of one that has faults what is sound, if there is no doubt about its journal.
pub(super) fn load_what_is_sound(path: &Path) -> Result<Config, ConfigErrors> {
    let text = read(path)?;
    let (table, errors) = DeTable::parse_recoverable(&text);
    // As an editor or a full disk leaves it: with it the journal would be another one, and every threshold be gone.
    if errors.is_empty() && table.get_ref().is_empty() {
        let help = "write it anew, or name another file; config.toml.example has all keys";
        return Err(ConfigErrors::whole_file(path, "an empty file", help));
    }
    let mut syntax = Report::new(&text);
    for error in &errors {
        syntax_error(&mut syntax, error);
    }
    let root = Section::root(&table);
    let sure = errors.is_empty() || names_its_journal(&root, &errors);
    let mut meaning = Report::new(&text);
    let config = whole(&mut meaning, &root, path);
    let about_the_journal = |key: &str| key == "journal" || key.starts_with("journal.");
    // Without a table of the journal, what nobody knows may be it under another name, or what is left of it.
    let hidden = |key: &str| {
        let last = key.rsplit('.').next().unwrap_or(key);
        let journals = ["path", "group"].contains(&last) || !key.contains('.') && !SECTIONS.contains(&key);
        root.get("journal").is_none() && journals
    };
    let in_doubt = |r: &Report<'_>| r.keys().any(|k| about_the_journal(k) || hidden(k));
    let sure = sure && !in_doubt(&syntax) && !in_doubt(&meaning);
    // What follows from the first syntax error is no news beside it.
    let told = match errors.first() {
        Some(first) => {
            let mut report = Report::new(&text);
            syntax_error(&mut report, first);
            report
        }
        None => meaning,
    };
    let faults = (!told.is_empty()).then(|| told.into_errors(path));
    match (config, faults) {
        (Some(config), None) => Ok(config),
        (Some(config), Some(faults)) if sure => Ok(Config {
            faults: Some(faults),
            ..config
        }),
        (_, Some(faults)) => Err(faults),
        (None, None) => Err(ConfigErrors::whole_file(path, "nothing that can be read", "")),
    }
}

/// Whether the journal's path is that of the file for certain, whatever its syntax errors make of the rest: it is
/// written out, and nothing is wrong between the header of its table and it.
fn names_its_journal(root: &Section<'_>, errors: &[toml::de::Error]) -> bool {
    let mut ignored = Report::new("");
    let Some(journal) = root.get("journal").and_then(|e| e.section(&mut ignored, "")) else {
        return false;
    };
    let Some(path) = journal.get("path") else {
        return false;
    };
    let (from, to) = (journal.span.start, path.span.end);
    from <= to
        && errors.iter().all(|e| {
            let span = e.span().unwrap_or(from..to);
            span.end < from || span.start > to
        })
}

/// Reads a file of TOML with `read`, and tells everything that is wrong with it.
pub(super) fn table<T>(
    text: &str,
    path: &Path,
    read: impl FnOnce(&mut Report<'_>, &Section<'_>) -> Option<T>,
) -> Result<T, ConfigErrors> {
    let mut report = Report::new(text);
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(e) => {
            syntax_error(&mut report, &e);
            return Err(report.into_errors(path));
        }
    };
    match read(&mut report, &Section::root(&table)) {
        Some(value) if report.is_empty() => Ok(value),
        _ => Err(report.into_errors(path)),
    }
}

/// What TOML itself does not allow. What stands there is not repeated, because it may be a secret without quotes.
fn syntax_error(report: &mut Report<'_>, error: &toml::de::Error) {
    let span = error.span().unwrap_or(0..0);
    let written = report.slice(span.clone()).trim();
    let (what, expected) = match error.message().split_once(", expected ") {
        Some((what, expected)) => (what, expected),
        None => (error.message(), "TOML"),
    };
    let value = "a text in quotes, a number, true, false, a date, a list or a table";
    let before = report.slice(0..span.start);
    let (key, found, expected) = match what {
        "duplicate key" => (
            below(&inside_of(before), written.trim_matches(['"', '\''])),
            "this key or table a second time".to_owned(),
            "each key and each table once",
        ),
        "string values must be quoted" if written.is_empty() => {
            (key_around(before), "no value".to_owned(), value)
        }
        "string values must be quoted" => (key_around(before), "a text without quotes".to_owned(), value),
        _ => (key_around(before), format!("what is not TOML ({what})"), expected),
    };
    report.add(span.start, &key, found, expected.to_owned(), String::new());
}

/// The table that a key right after `before` belongs to: one in braces on its line, or that of the last header.
fn inside_of(before: &str) -> String {
    let line = before.rsplit('\n').next().unwrap_or_default();
    if line.contains('=') {
        key_around(before)
    } else {
        table_around(before)
    }
}

/// The key whose value stands right after `before`, as far as its line tells; else `syntax`.
fn key_around(before: &str) -> String {
    let line = before.rsplit('\n').next().unwrap_or_default();
    match line
        .split_once('=')
        .map(|(key, _)| key.trim())
        .filter(|k| is_plain(k))
    {
        Some(key) => below(&table_around(before), key),
        None => "syntax".to_owned(),
    }
}

/// The table that a place in the file belongs to: the last header before it. In a header, the path of its parents.
fn table_around(before: &str) -> String {
    let (lines, last) = before.rsplit_once('\n').unwrap_or(("", before));
    if let Some(parents) = last.trim_start().strip_prefix('[') {
        let parents = parents.trim_start_matches('[').trim_end_matches('.').trim();
        return if is_plain(parents) {
            parents.to_owned()
        } else {
            String::new()
        };
    }
    let header = |line: &str| {
        let inner = line
            .trim()
            .strip_prefix('[')?
            .strip_suffix(']')?
            .trim()
            .to_owned();
        is_plain(&inner).then_some(inner)
    };
    lines.rsplit('\n').find_map(header).unwrap_or_default()
}

fn below(table: &str, key: &str) -> String {
    if table.is_empty() {
        key.to_owned()
    } else {
        format!("{table}.{key}")
    }
}

fn is_plain(key: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    !key.is_empty() && key.bytes().all(plain)
}

/// A table of named tables, each read by `read`. Also the names that are there at all, sound or not.
fn named<'t, T>(
    report: &mut Report<'_>,
    root: &Section<'t>,
    kind: &str,
    mut read: impl FnMut(&mut Report<'_>, &Section<'t>, &Name) -> Option<T>,
) -> (BTreeMap<Name, T>, Vec<&'t str>) {
    let (mut read_well, mut declared) = (BTreeMap::new(), Vec::new());
    let expected = format!("tables such as [{kind}.NAME]");
    let Some(tables) = root.get(kind).and_then(|e| e.section(report, &expected)) else {
        return (read_well, declared);
    };
    for entry in tables.entries() {
        declared.push(entry.key);
        let name = entry.name(report);
        let Some(section) = entry.section(report, &format!("a table, [{}]", entry.path)) else {
            continue;
        };
        // A table with a bad name is read all the same, to find what else is wrong in it.
        let stand_in = name.clone().or_else(|| "unnamed".parse().ok());
        let value = stand_in.and_then(|n| read(report, &section, &n));
        if let (Some(name), Some(value)) = (name, value) {
            read_well.insert(name, value);
        }
    }
    (read_well, declared)
}

/// The path from the root, the same from wherever it is named: relative to a folder it may lead up first, and what starts
/// at it would seem to have moved.
fn absolute(path: &Path) -> PathBuf {
    let from_root = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let leads_up = from_root.components().any(|c| c == Component::ParentDir);
    let (true, Some(folder), Some(file)) = (leads_up, from_root.parent(), from_root.file_name()) else {
        return from_root;
    };
    match fs::canonicalize(folder) {
        Ok(folder) => folder.join(file),
        Err(_) => from_root,
    }
}

fn whole(report: &mut Report<'_>, root: &Section<'_>, path: &Path) -> Option<Config> {
    root.only(report, &SECTIONS);
    // Relative paths in the file start where the file is, not where somebody happened to call us.
    let absolute = absolute(path);
    let folder = absolute.parent().unwrap_or_else(|| Path::new("/"));
    let (executors, executor_names) = named(report, root, "executors", |r, s, _| {
        sections::executor(r, s, folder)
    });
    let (signals, signal_names) = named(report, root, "signals", |r, s, _| signals::signal(r, s, folder));
    let (profiles, declared_profiles) = named(report, root, "profiles", profile);
    let around = Around {
        folder,
        executors: executor_names,
        signals: signal_names,
        declared_profiles,
        profiles: &profiles,
        sound_executors: &executors,
    };
    let (backfills, _) = named(report, root, "backfills", |r, s, n| backfill(r, s, n, &around));
    let journal = sections::journal(report, root, folder);
    let tuning = tuning::tuning(report, root);
    let screen = sections::screen(report, root);
    Some(Config {
        path: absolute.clone(),
        executors,
        signals,
        backfills,
        journal: journal?,
        tuning,
        screen: screen.unwrap_or_default(),
        faults: None,
    })
}
