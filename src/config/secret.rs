//! Values that are never shown, and where they come from.

mod command;

use std::{
    fmt,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

/// How long a command may take to print a secret.
pub const COMMAND_DEADLINE: Duration = Duration::from_secs(10);

/// The most bytes that a secret may have.
pub const SECRET_CAP: usize = 64 * 1024;

/// A value that is never shown, logged or journaled.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: String) -> Self {
        Self(value)
    }

    /// The value, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Where a secret comes from; resolved when it is needed, never kept in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// A variable of our own environment.
    Env(String),
    /// The first line of a file.
    File(PathBuf),
    /// What a program prints, run without a terminal, with a deadline and a cap on its output.
    Command(Vec<String>),
}

/// Why a secret could not be had. Names the place, never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The variable does not exist.
    #[error("the environment variable {0} is not set")]
    NotSet(String),
    /// The file cannot be read.
    #[error("cannot read {place}: {why}")]
    Unreadable {
        /// The file.
        place: String,
        /// The system's words.
        why: String,
    },
    /// Nothing is in it.
    #[error("{0} is empty")]
    Empty(String),
    /// More than [`SECRET_CAP`] bytes.
    #[error("{0} holds more than 64 KiB: not a secret")]
    TooLarge(String),
    /// Not UTF-8.
    #[error("{0} is not UTF-8 text")]
    NotText(String),
    /// The program does not exist or may not be run.
    #[error("cannot run {program}: {why}")]
    NotStarted {
        /// The program.
        program: String,
        /// The system's words.
        why: String,
    },
    /// The program did not end in time and was killed.
    #[error(
        "{program} did not end within {} s and was killed; it has no terminal: does it wait for a password?",
        .after.as_secs()
    )]
    Timeout {
        /// The program.
        program: String,
        /// The deadline.
        after: Duration,
    },
    /// The program ended with a failure.
    #[error("{program} failed ({status}){}{words}", if .words.is_empty() { "" } else { ": " })]
    Failed {
        /// The program.
        program: String,
        /// `exit status: 1`, `signal: 9`.
        status: String,
        /// The first line of its error output, cleaned and cut.
        words: String,
    },
}

impl SecretSource {
    /// Fetches the value. Blocks: a file as long as its file system, a command for at most [`COMMAND_DEADLINE`];
    /// callers that ask for the same command at the same time share one run of it.
    ///
    /// # Errors
    /// [`SecretError`], in words for an operator.
    pub fn resolve(&self) -> Result<Secret, SecretError> {
        match self {
            Self::Env(name) => from_env(name),
            Self::File(path) => from_file(path),
            Self::Command(argv) => command::shared(argv, COMMAND_DEADLINE),
        }
    }

    /// Whether fetching it starts a program.
    pub const fn is_command(&self) -> bool {
        matches!(self, Self::Command(_))
    }
}

fn from_env(name: &str) -> Result<Secret, SecretError> {
    let place = || format!("the environment variable {name}");
    let value = std::env::var_os(name).ok_or_else(|| SecretError::NotSet(name.to_owned()))?;
    let value = value.into_string().map_err(|_| SecretError::NotText(place()))?;
    non_empty(value, place)
}

/// Only regular files: a pipe or a terminal would wait for somebody to write.
fn from_file(path: &Path) -> Result<Secret, SecretError> {
    let place = || path.display().to_string();
    let unreadable = |why: String| SecretError::Unreadable { place: place(), why };
    let meta = std::fs::metadata(path).map_err(|e| unreadable(e.to_string()))?;
    if !meta.is_file() {
        return Err(unreadable("not a regular file".to_owned()));
    }
    let file = File::open(path).map_err(|e| unreadable(e.to_string()))?;
    let mut bytes = Vec::new();
    file.take(SECRET_CAP as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| unreadable(e.to_string()))?;
    if bytes.len() > SECRET_CAP {
        return Err(SecretError::TooLarge(place()));
    }
    let text = String::from_utf8(bytes).map_err(|_| SecretError::NotText(place()))?;
    non_empty(text.lines().next().unwrap_or("").to_owned(), place)
}

fn non_empty(value: String, place: impl Fn() -> String) -> Result<Secret, SecretError> {
    if value.trim().is_empty() {
        Err(SecretError::Empty(place()))
    } else {
        Ok(Secret(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_variable_is_taken_as_it_is() {
        let home = std::env::var("PATH").unwrap();
        assert_eq!(SecretSource::Env("PATH".into()).resolve().unwrap().reveal(), home);
        let missing = SecretSource::Env("BACKFILL_NO_SUCH_VARIABLE".into()).resolve();
        assert_eq!(
            missing.unwrap_err().to_string(),
            "the environment variable BACKFILL_NO_SUCH_VARIABLE is not set"
        );
    }

    #[test]
    fn of_a_file_the_first_line_counts_without_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "s3cret with blanks \r\nsecond line\n").unwrap();
        let secret = SecretSource::File(path).resolve().unwrap();
        assert_eq!(secret.reveal(), "s3cret with blanks ");
    }

    #[test]
    fn a_missing_empty_huge_or_strange_file_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str, content: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            SecretSource::File(path).resolve().unwrap_err()
        };
        assert!(matches!(at("empty", b"\n"), SecretError::Empty(p) if p.ends_with("empty")));
        assert!(matches!(
            at("huge", &vec![b'x'; SECRET_CAP + 1]),
            SecretError::TooLarge(_)
        ));
        assert!(matches!(at("bytes", &[0xff, 0xfe]), SecretError::NotText(_)));
        let none = SecretSource::File(dir.path().join("none")).resolve().unwrap_err();
        assert!(none.to_string().contains("none"), "{none}");
        let folder = SecretSource::File(dir.path().to_owned()).resolve().unwrap_err();
        assert!(folder.to_string().contains("not a regular file"), "{folder}");
    }

    #[test]
    fn no_debug_output_shows_a_value() {
        let secret = Secret::new("hunter2".into());
        assert_eq!(
            format!("{secret:?} {:#?}", Some(&secret)),
            "Secret(..) Some(\n    Secret(..),\n)"
        );
        let failed = SecretSource::Command(vec!["sh".into(), "-c".into(), "echo hunter2; exit 3".into()])
            .resolve()
            .unwrap_err();
        assert!(!format!("{failed} {failed:?}").contains("hunter2"), "{failed}");
    }
}
