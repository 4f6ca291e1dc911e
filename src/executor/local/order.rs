//! What the supervisor and the shim say to each other: orders in on stdin and answers out on stdout, a line each.

use crate::{
    domain::{failure::Failure, ids::AttemptId},
    host::BootInstant,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

/// Everything that the shim must know. It travels through a pipe and is never written down: it holds secrets.
#[derive(Serialize, Deserialize)]
pub struct ShimOrder {
    /// The attempt to run.
    pub attempt: AttemptId,
    /// The epoch of the supervisor that sends it.
    pub epoch: u64,
    /// When it was sent, on the boot clock.
    pub sent: BootInstant,
    /// The state directory, absolute.
    pub state: OsString,
    /// Program and arguments, rendered.
    pub command: Vec<String>,
    /// The folder to run in, absolute.
    pub cwd: OsString,
    /// The whole environment of the command but for the secrets.
    pub environment: Vec<(OsString, OsString)>,
    /// Secret variables.
    pub secrets: BTreeMap<String, String>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// Deadline in milliseconds.
    pub deadline_ms: Option<u64>,
    /// TERM to KILL, in milliseconds.
    pub grace_ms: u64,
    /// How often memory and the cancel marker are looked at, in milliseconds.
    pub watch_ms: u64,
    /// How long to wait for another shim of the same attempt to start the command or to let go, in milliseconds.
    pub patience_ms: u64,
    /// How much output the log holds, in bytes.
    pub log_cap: u64,
}

impl ShimOrder {
    /// The state directory as a path.
    pub fn state(&self) -> PathBuf {
        PathBuf::from(&self.state)
    }
}

/// A line of the shim: one for each order, and [`Answer::Free`] after a run that left nothing behind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The command runs from now on.
    Started {
        /// The run's name.
        run: String,
    },
    /// The attempt was started before, by another shim.
    Exists {
        /// The run's name.
        run: String,
    },
    /// Nothing ran, because the journal or a cancel said so.
    NotWanted {
        /// Why.
        why: String,
    },
    /// Nothing ran, because it cannot.
    Refused {
        /// How that counts for the chunk.
        failure: Failure,
    },
    /// The run is over and its end written down; the next order may come.
    Free,
    /// Somebody else holds the attempt and did not start it in time.
    Unknown {
        /// What was seen.
        why: String,
    },
}
