//! The small sections: `[executors.NAME]`, `[journal]`, `[screen]`.

use super::{
    ExecutorConfig, JournalConfig, ScreenConfig, airflow, places,
    problem::Report,
    read::{Section, quoted},
    values,
};
use std::{num::NonZero, path::Path};

/// The most slots, and the most running weight: what one machine can still supervise.
pub(super) const MOST_SLOTS: u64 = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Local,
    Airflow,
}

/// Reads one executor.
pub(super) fn executor(
    report: &mut Report<'_>,
    section: &Section<'_>,
    folder: &Path,
) -> Option<ExecutorConfig> {
    let kind = section
        .required(report, "kind", "\"local\" or \"airflow\"")
        .and_then(|e| e.word(report, &[("local", Kind::Local), ("airflow", Kind::Airflow)]));
    if kind == Some(Kind::Airflow) {
        section.only(report, &airflow::KEYS);
        return airflow::airflow(report, section, folder).map(|a| ExecutorConfig::Airflow(Box::new(a)));
    }
    section.only(report, &["kind", "slots"]);
    let slots = match section.get("slots") {
        Some(e) => e.whole(report, 1, MOST_SLOTS).and_then(|n| u32::try_from(n).ok()),
        None => Some(cores()),
    };
    kind?;
    Some(ExecutorConfig::Local { slots: slots? })
}

/// How many processors this process may use.
fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(cores).unwrap_or(1)
}

/// Reads where the journal lives.
pub(super) fn journal(report: &mut Report<'_>, root: &Section<'_>, folder: &Path) -> Option<JournalConfig> {
    let section = match root.get("journal") {
        Some(e) => Some(e.section(report, "a table, [journal]")?),
        None => None,
    };
    let section = section.as_ref();
    if let Some(s) = section {
        s.only(report, &["path", "group"]);
    }
    let path = match section.and_then(|s| s.get("path")) {
        Some(e) => {
            let path = values::path(report, &e, folder)?;
            if path.file_name().is_none() {
                let help = "other files are kept beside it";
                e.problem(report, "a folder", "a file, as in \"state/journal.db\"", help);
                return None;
            }
            path
        }
        None => {
            let Some(state) = places::state_dir() else {
                let help = "set HOME or XDG_STATE_HOME, or write `path = \"/var/lib/backfill/journal.db\"`";
                root.problem(
                    report,
                    "journal.path",
                    "neither this key nor a home folder",
                    "a place for the journal",
                    help,
                );
                return None;
            };
            state.join(places::JOURNAL)
        }
    };
    let group = match section.and_then(|s| s.get("group")) {
        Some(e) => {
            let group = e.text(report, "the name of a group of users")?;
            let sound = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
            if group.len() > 32 || group.starts_with('-') || !group.bytes().all(sound) {
                e.problem(report, quoted(group), "the name of a group of users", "");
                return None;
            }
            Some(group.to_owned())
        }
        None => None,
    };
    Some(JournalConfig { path, group })
}

/// Reads what the screen looks like.
pub(super) fn screen(report: &mut Report<'_>, root: &Section<'_>) -> Option<ScreenConfig> {
    let Some(entry) = root.get("screen") else {
        return Some(ScreenConfig::default());
    };
    let section = entry.section(report, "a table, [screen]")?;
    section.only(report, &["theme", "glyphs"]);
    let mut word = |key: &str, words: &[&str]| {
        let pairs: Vec<(&str, &str)> = words.iter().map(|w| (*w, *w)).collect();
        match section.get(key) {
            Some(e) => e.word(report, &pairs).map(|w| Some(w.to_owned())),
            None => Some(None),
        }
    };
    let theme = word("theme", &["dark", "light", "high-contrast", "colour-blind"]);
    let glyphs = word("glyphs", &["full", "narrow", "ascii"]);
    Some(ScreenConfig {
        theme: theme?,
        glyphs: glyphs?,
    })
}
