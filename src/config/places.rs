//! Where files are: the configuration that is used, and what belongs to a journal.

use crate::domain::text;
use std::{
    env,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// The configuration's file name.
const FILE: &str = "config.toml";
/// The variable that names a configuration.
const VARIABLE: &str = "BACKFILL_CONFIG";
/// The journal's file name in the state directory.
pub(super) const JOURNAL: &str = "journal.db";

/// One place where a configuration was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Searched {
    /// The file that is not there.
    pub path: PathBuf,
    /// Why it was looked for: `--config`, `$BACKFILL_CONFIG`, `your configuration folder`, ...
    pub because: &'static str,
}

/// No configuration was found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct NotFound {
    /// Where it was looked for, in this order. Empty only without a home folder.
    pub searched: Vec<Searched>,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no configuration found; looked for")?;
        if self.searched.is_empty() {
            write!(
                f,
                " none, because there is no home folder; name one with --config FILE"
            )?;
        }
        for (i, place) in self.searched.iter().enumerate() {
            let sign = if i == 0 { "" } else { "," };
            let path = text::clean(&place.path.display().to_string());
            write!(f, "{sign} {path} ({})", place.because)?;
        }
        Ok(())
    }
}

/// Finds the configuration: `--config FILE`, else `$BACKFILL_CONFIG`, else `backfill/config.toml` in the user's
/// configuration folder and then in the system's (`$XDG_CONFIG_DIRS`). A file that was asked for by name is never
/// replaced by another one.
///
/// # Errors
/// There is no such file in any of the places, which are listed.
pub fn find(explicit: Option<&Path>) -> Result<PathBuf, NotFound> {
    first_of(candidates(explicit, env::var_os(VARIABLE), &config_folders()))
}

fn first_of(candidates: Vec<Searched>) -> Result<PathBuf, NotFound> {
    // A file that cannot be looked at is taken: reading it says what is wrong.
    let there = |s: &&Searched| s.path.try_exists().unwrap_or(true);
    match candidates.iter().find(there) {
        Some(found) => Ok(found.path.clone()),
        None => Err(NotFound { searched: candidates }),
    }
}

fn candidates(
    explicit: Option<&Path>,
    variable: Option<OsString>,
    folders: &[(PathBuf, &'static str)],
) -> Vec<Searched> {
    let one = |path: PathBuf, because| vec![Searched { path, because }];
    if let Some(path) = explicit {
        return one(path.to_owned(), "--config");
    }
    if let Some(path) = variable.filter(|v| !v.is_empty()) {
        return one(path.into(), "$BACKFILL_CONFIG");
    }
    folders
        .iter()
        .map(|(folder, because)| Searched {
            path: folder.join(FILE),
            because,
        })
        .collect()
}

fn config_folders() -> Vec<(PathBuf, &'static str)> {
    let mut folders = Vec::new();
    if let Some(dirs) = project() {
        folders.push((dirs.config_dir().to_owned(), "your configuration folder"));
    }
    let system = env::var_os("XDG_CONFIG_DIRS")
        .filter(|v| !v.is_empty())
        .unwrap_or_else(|| "/etc/xdg".into());
    let absolute = env::split_paths(&system).filter(|p| p.is_absolute());
    folders.extend(absolute.map(|p| (p.join("backfill"), "the system's configuration folder")));
    folders
}

fn project() -> Option<directories::ProjectDirs> {
    directories::ProjectDirs::from("", "", "backfill")
}

/// The folder for generated state: `$XDG_STATE_HOME/backfill`, or what the system has in its place. `None` without a
/// home folder.
pub fn state_dir() -> Option<PathBuf> {
    let dirs = project()?;
    Some(
        dirs.state_dir()
            .unwrap_or_else(|| dirs.data_local_dir())
            .to_owned(),
    )
}

/// Everything that belongs to one journal lives beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The journal's folder.
    pub state: PathBuf,
    /// `logs/BACKFILL_ID/CHUNK/N.log`: the output of attempts.
    pub logs: PathBuf,
    /// `attempts/..`: what shims keep about their attempts.
    pub attempts: PathBuf,
    /// The SQLite file.
    pub journal: PathBuf,
}

impl Places {
    /// The places of the journal at this path.
    pub fn of(journal: &Path) -> Self {
        let state = journal
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or_else(|| Path::new("."))
            .to_owned();
        Self {
            logs: state.join("logs"),
            attempts: state.join("attempts"),
            journal: journal.to_owned(),
            state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_named_is_never_replaced_by_another() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(FILE), "").unwrap();
        let folders = [(home.path().to_owned(), "your configuration folder")];
        let missing = Path::new("/nowhere/at/all.toml");
        let refused = first_of(candidates(Some(missing), None, &folders)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "no configuration found; looked for /nowhere/at/all.toml (--config)"
        );
        let refused = first_of(candidates(None, Some(missing.into()), &folders)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "no configuration found; looked for /nowhere/at/all.toml ($BACKFILL_CONFIG)"
        );
    }

    #[test]
    fn the_option_wins_over_the_variable_and_the_variable_over_the_folders() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.toml", "b.toml", FILE] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let (a, b) = (dir.path().join("a.toml"), dir.path().join("b.toml"));
        let folders = [
            (PathBuf::from("/nowhere"), "your configuration folder"),
            (dir.path().to_owned(), "the system's configuration folder"),
        ];
        let found = |option: Option<&Path>, variable: Option<OsString>| {
            first_of(candidates(option, variable, &folders)).unwrap()
        };
        assert_eq!(found(Some(&a), Some(b.clone().into())), a);
        assert_eq!(found(None, Some(b.clone().into())), b);
        assert_eq!(found(None, Some("".into())), dir.path().join(FILE));
        assert_eq!(found(None, None), dir.path().join(FILE));
    }

    #[test]
    fn nothing_found_lists_every_place_in_order() {
        let folders = [
            (PathBuf::from("/nowhere/a"), "your configuration folder"),
            (PathBuf::from("/nowhere/b"), "the system's configuration folder"),
        ];
        let refused = first_of(candidates(None, None, &folders)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "no configuration found; looked for /nowhere/a/config.toml (your configuration folder), \
             /nowhere/b/config.toml (the system's configuration folder)"
        );
    }

    #[test]
    fn what_belongs_to_a_journal_lives_beside_it() {
        let places = Places::of(Path::new("/var/lib/backfill/journal.db"));
        assert_eq!(places.state, Path::new("/var/lib/backfill"));
        assert_eq!(places.logs, Path::new("/var/lib/backfill/logs"));
        assert_eq!(places.attempts, Path::new("/var/lib/backfill/attempts"));
        assert_eq!(Places::of(Path::new("j.db")).state, Path::new("."));
    }
}
