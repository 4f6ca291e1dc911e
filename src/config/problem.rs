//! What is wrong with a configuration file, said so that it can be mended without reading the manual (case S29).

use crate::domain::text;
use std::{
    fmt,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// A place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Counts from 1.
    pub line: usize,
    /// Counts characters from 1.
    pub column: usize,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where; `None` when the file as a whole is meant.
    pub at: Option<Position>,
    /// The full key, `signals.orders.soft`.
    pub key: String,
    /// What stands there. Never a value that may be secret.
    pub found: String,
    /// What should stand there.
    pub expected: String,
    /// How to mend it, the nearest known name included; may be empty.
    pub help: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: found {}, expected {}",
            self.key, self.found, self.expected
        )?;
        if self.help.is_empty() {
            Ok(())
        } else {
            write!(f, "; {}", self.help)
        }
    }
}

/// Everything that is wrong with one file, in the order of its lines. Shown one problem a line, each starting with
/// `FILE:LINE:COLUMN:`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct ConfigErrors {
    /// The file.
    pub path: PathBuf,
    /// At least one.
    pub problems: Vec<Problem>,
    /// How many more there are: a file of noise has thousands.
    pub more: usize,
}

impl ConfigErrors {
    /// A file that cannot be read as text at all.
    pub(super) fn whole_file(path: &Path, found: &str, help: &str) -> Self {
        Self {
            path: path.to_owned(),
            problems: vec![Problem {
                at: None,
                key: "file".to_owned(),
                found: found.to_owned(),
                expected: "a readable text file in TOML".to_owned(),
                help: help.to_owned(),
            }],
            more: 0,
        }
    }

    /// One line for each problem, cleaned for display.
    pub fn lines(&self) -> Vec<String> {
        let path = self.path.display().to_string();
        let line = |p: &Problem| match p.at {
            Some(at) => format!("{path}:{}:{}: {p}", at.line, at.column),
            None => format!("{path}: {p}"),
        };
        let rest = (self.more > 0).then(|| format!("{path}: and {} more", self.more));
        let lines = self.problems.iter().map(line).chain(rest);
        lines.map(|l| text::clean(&l)).collect()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}

/// How many problems are shown.
const MOST: usize = 50;

/// Collects problems while a file is read. Byte offsets become positions only at the end, for those that are shown.
pub(super) struct Report<'t> {
    text: &'t str,
    found: Vec<(usize, Problem)>,
}

impl<'t> Report<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self {
            text,
            found: Vec::new(),
        }
    }

    /// Adds a problem at a byte offset.
    pub(super) fn add(&mut self, offset: usize, key: &str, found: String, expected: String, help: String) {
        let problem = Problem {
            at: None,
            key: key.to_owned(),
            found,
            expected,
            help,
        };
        self.found.push((offset, problem));
    }

    /// The text between two byte offsets of the file; empty if they are not in it.
    pub(super) fn slice(&self, span: std::ops::Range<usize>) -> &'t str {
        self.text.get(span).unwrap_or("")
    }

    /// The keys of all problems.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.found.iter().map(|(_, p)| p.key.as_str())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// The problems in the order of the file, the first [`MOST`] of them.
    pub(super) fn into_errors(mut self, path: &Path) -> ConfigErrors {
        self.found.sort_by_key(|(offset, _)| *offset);
        self.found.dedup();
        let more = self.found.len().saturating_sub(MOST);
        self.found.truncate(MOST);
        let place = |(offset, problem)| Problem {
            at: Some(position(self.text, offset)),
            ..problem
        };
        let problems = self.found.into_iter().map(place).collect();
        ConfigErrors {
            path: path.to_owned(),
            problems,
            more,
        }
    }
}

/// The line and column of a byte offset. Past the end is the place after the last character.
pub(super) fn position(text: &str, offset: usize) -> Position {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = text.get(..end).unwrap_or("");
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Position {
        line: before.matches('\n').count() + 1,
        column: before.get(line_start..).unwrap_or("").chars().count() + 1,
    }
}

/// The known name nearest to what was written, if it is near enough to have been meant.
pub fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let plain = |s: &str| s.to_lowercase().replace(['-', '_', ' '], "");
    let wanted = plain(written);
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(&wanted, &plain(name)), name))
        .filter(|(distance, name)| {
            let longest = name.chars().count().max(wanted.chars().count());
            *distance <= (longest / 3).max(1) && *distance < longest
        })
        .min()
        .map(|(_, name)| name)
}

/// The sentence for the nearest known name, or else the list of all.
pub(super) fn did_you_mean(written: &str, known: &[&str]) -> String {
    match nearest(written, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => String::new(),
    }
}

/// Names in a row: `a, b or c`.
pub(super) fn one_of(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let text = "a\nüb\n";
        let at = |offset| {
            let p = position(text, offset);
            (p.line, p.column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(2), (2, 1));
        assert_eq!(at(3), (2, 1), "the middle of a character is its start");
        assert_eq!(at(4), (2, 2));
        assert_eq!(at(6), (3, 1));
        assert_eq!(at(600), (3, 1));
        assert_eq!(position("", 0), Position { line: 1, column: 1 });
    }

    #[test]
    fn the_nearest_name_is_one_that_may_have_been_meant() {
        let known = ["soft", "hard", "critical", "age_query"];
        assert_eq!(nearest("sfot", known), Some("soft"));
        assert_eq!(nearest("Age-Query", known), Some("age_query"));
        assert_eq!(nearest("crit", known), None);
        assert_eq!(nearest("timezone", known), None);
        assert_eq!(nearest("x", ["y"]), None);
        assert_eq!(nearest("", ["y"]), None);
    }
}
