//! Why a chunk does not run: for any cell of the calendar the one reason that binds, and what would unblock it.

use serde::Serialize;

/// The binding reason of a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Why {
    /// A stable word: `paused`, `limit`, `hold`, `blind`, `retry`, ...
    pub reason: &'static str,
    /// One sentence with numbers.
    pub text: String,
    /// What would unblock it, with the key or command that helps; empty if nothing is needed.
    pub unblock: String,
}
