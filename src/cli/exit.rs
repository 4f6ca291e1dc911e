//! How a command ends without success: an exit code, words on standard error, and with `--json` one object on standard
//! output, so that a script never has to read prose.

use crate::{config::ConfigErrors, domain::text};
use serde::Serialize;
use std::{fmt, io::Write};

/// How a command ended without success, with its exit code.
#[derive(Debug)]
pub struct Exit {
    /// The code.
    pub code: u8,
    /// What to tell on standard error; empty if everything was said.
    pub message: String,
    /// What mends it, told after the message.
    hint: Option<String>,
    places: Vec<Place>,
}

/// One fault of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Place {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<usize>,
    key: String,
    found: String,
    expected: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

/// The object that `--json` prints: `{"error":{"code":2,"message":..,"hint":..,"where":[..]}}`.
#[derive(Serialize)]
struct Shape<'a> {
    code: u8,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(rename = "where", skip_serializing_if = "<[_]>::is_empty")]
    places: &'a [Place],
}

impl Exit {
    /// With a code and words.
    pub fn new(code: u8, message: impl fmt::Display) -> Self {
        Self {
            code,
            message: message.to_string(),
            hint: None,
            places: Vec::new(),
        }
    }

    /// Wrong usage, wrong configuration, or a refused command: 2.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self::new(2, message)
    }

    /// Only a code.
    pub fn code(code: u8) -> Self {
        Self::new(code, "")
    }

    /// A file that is wrong, with each place where it is.
    pub fn config(errors: &ConfigErrors) -> Self {
        let file = text::clean(&errors.path.display().to_string());
        let place = |p: &crate::config::Problem| Place {
            file: file.clone(),
            line: p.at.map(|at| at.line),
            column: p.at.map(|at| at.column),
            key: text::clean(&p.key),
            found: text::clean(&p.found),
            expected: text::clean(&p.expected),
            hint: text::clean(&p.help),
        };
        Self {
            places: errors.problems.iter().map(place).collect(),
            ..Self::usage(errors)
        }
    }

    /// The same with what mends it.
    #[must_use]
    pub fn hint(self, hint: impl fmt::Display) -> Self {
        Self {
            hint: Some(hint.to_string()),
            ..self
        }
    }

    /// What the command line's grammar refused.
    fn grammar(error: &clap::Error) -> Self {
        let words = error.render().to_string();
        let first: Vec<&str> = words
            .lines()
            .take_while(|l| !l.trim().is_empty())
            .map(str::trim)
            .collect();
        let first = first.join(" ");
        let message = first.strip_prefix("error: ").unwrap_or(&first);
        let tips: Vec<&str> = words
            .lines()
            .filter_map(|l| l.trim().strip_prefix("tip: "))
            .collect();
        let hint = if tips.is_empty() {
            "backfill --help".to_owned()
        } else {
            tips.join("; ")
        };
        Self::usage(text::clean(message)).hint(text::clean(&hint))
    }

    fn prose(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}: {hint}", self.message),
            None => self.message.clone(),
        }
    }

    /// The object for a script.
    fn json(&self) -> String {
        let error = Shape {
            code: self.code,
            message: &self.message,
            hint: self.hint.as_deref(),
            places: &self.places,
        };
        serde_json::json!({ "error": error }).to_string()
    }

    /// Tells it and gives the code. Nothing is told of an ending whose words were printed already.
    pub fn tell(&self, json: bool) -> std::process::ExitCode {
        if !self.message.is_empty() {
            // Standard output and error may be gone; the exit code still tells.
            if json {
                let _ = writeln!(std::io::stdout(), "{}", self.json());
            }
            let _ = writeln!(std::io::stderr(), "backfill: {}", self.prose());
        }
        std::process::ExitCode::from(self.code)
    }
}

/// Tells what the grammar refused, and gives the code; help and version are no errors.
pub fn tell_grammar(
    error: &clap::Error,
    arguments: impl Iterator<Item = std::ffi::OsString>,
) -> std::process::ExitCode {
    let json = arguments.take_while(|a| a != "--").any(|a| a == "--json");
    if json && error.use_stderr() {
        let _ = writeln!(std::io::stdout(), "{}", Exit::grammar(error).json());
    }
    let _ = error.print();
    std::process::ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

impl<E: std::error::Error> From<E> for Exit {
    fn from(error: E) -> Self {
        Self::usage(error)
    }
}

/// What a command returns: `Ok` is exit code 0.
pub type Done = Result<(), Exit>;
