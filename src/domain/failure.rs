//! What went wrong with an attempt, as classes that are treated differently (law C6).

use serde::{Deserialize, Serialize};

/// The class of a failure decides what happens next; the exit code alone does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// The platform took the resources back (spot notice, eviction). Does not count for the breaker.
    Preempted,
    /// It needed more memory than its profile gives.
    Oom,
    /// SIGKILL without an out-of-memory reason.
    Killed,
    /// Its own deadline passed.
    Timeout,
    /// The executor or its surroundings failed: 5xx, connection loss, host restarted, commit conflict.
    Platform,
    /// The data cannot be processed; a retry would fail the same way.
    Data,
    /// The order itself is wrong (missing command, credentials refused); every chunk would fail.
    Config,
    /// A human stopped it. Never retried by itself.
    Cancelled,
    /// Anything else.
    Other,
}

impl FailureClass {
    /// All classes, in the order of the law's table.
    pub const ALL: [Self; 9] = [
        Self::Preempted,
        Self::Oom,
        Self::Killed,
        Self::Timeout,
        Self::Platform,
        Self::Data,
        Self::Config,
        Self::Cancelled,
        Self::Other,
    ];

    /// The word on screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Preempted => "preempted",
            Self::Oom => "oom",
            Self::Killed => "killed",
            Self::Timeout => "timeout",
            Self::Platform => "platform",
            Self::Data => "data",
            Self::Config => "config",
            Self::Cancelled => "cancelled",
            Self::Other => "other",
        }
    }

    /// Whether such failures speak about the order as a whole and so count for the breaker.
    pub const fn counts_for_breaker(self) -> bool {
        !matches!(self, Self::Preempted | Self::Cancelled)
    }
}

/// A failure as an adapter reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure it was.
    pub class: FailureClass,
    /// The exit code where there was one; 128 + N for a signal N.
    pub exit: Option<i32>,
    /// One line in words, already cleaned of control characters.
    pub message: String,
}

impl Failure {
    /// The failure with everything that differs from day to day taken out (digits), so that the breaker can see
    /// that different days failed for one cause.
    pub fn fingerprint(&self) -> String {
        let mut text = format!("{}:{}:", self.class.word(), self.exit.unwrap_or(-1));
        let mut in_digits = false;
        for c in self.message.chars().take(200) {
            if c.is_ascii_digit() {
                if !in_digits {
                    text.push('#');
                }
                in_digits = true;
            } else {
                in_digits = false;
                text.push(c);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_different_days_with_one_cause_share_a_fingerprint() {
        let of = |message: &str| Failure {
            class: FailureClass::Other,
            exit: Some(1),
            message: message.to_owned(),
        };
        assert_eq!(
            of("no file dt=2023-11-24").fingerprint(),
            of("no file dt=2022-01-02").fingerprint()
        );
        assert_ne!(of("no file").fingerprint(), of("no room").fingerprint());
    }
}
