//! Values that are never shown, and where they come from.

use std::{fmt, path::PathBuf};

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
