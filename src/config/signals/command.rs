//! `kind = "command"`.

use super::{
    super::{
        problem::Report,
        read::{Entry, Section},
    },
    time,
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The keys beside those of every kind.
pub(super) const KEYS: [&str; 2] = ["command", "deadline"];
/// How long the program may take unless the file says otherwise.
const DEADLINE: Duration = Duration::from_secs(10);

/// A program that prints the lag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandConfig {
    /// The program and its arguments; never empty. A program with a slash in it starts at the folder, one without is
    /// looked for in `PATH`.
    pub command: Vec<String>,
    /// The folder in which it runs: that of the configuration file.
    pub folder: PathBuf,
    /// How long it may take; then it is killed with everything that it started.
    pub deadline: Duration,
}

const COMMAND: &str = "a program and its arguments, as in [\"./lag.sh\", \"orders\"]";

pub(super) fn read(report: &mut Report<'_>, section: &Section<'_>, folder: &Path) -> Option<CommandConfig> {
    let command = section
        .required(report, "command", COMMAND)
        .and_then(|e| argv(report, &e));
    let deadline = time(report, section, "deadline", DEADLINE);
    Some(CommandConfig {
        command: command?,
        folder: folder.to_owned(),
        deadline: deadline?,
    })
}

fn argv(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<Vec<String>> {
    if entry.is_text() {
        entry.wrong_type(report, COMMAND, "no shell takes a command apart");
        return None;
    }
    let items = entry.list(report, COMMAND)?;
    if items.is_empty() {
        entry.problem(report, "an empty list", COMMAND, "");
        return None;
    }
    let read: Vec<Option<String>> = items
        .iter()
        .enumerate()
        .map(|(i, item)| argument(report, item, i == 0))
        .collect();
    read.into_iter().collect()
}

fn argument(report: &mut Report<'_>, item: &Entry<'_>, is_program: bool) -> Option<String> {
    let text = if is_program {
        item.text(report, "the program")
    } else {
        item.any_text(report, "a text")
    }?;
    if text.contains('\0') {
        let found = "a text with a zero byte";
        item.problem(report, found, "what a process can be given", "");
        return None;
    }
    if is_program && (text == "~" || text.starts_with("~/")) {
        let help = "`~` is not expanded here: write the path in full";
        item.problem(report, "a path that starts with `~`", "the program", help);
        return None;
    }
    Some(text.to_owned())
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
