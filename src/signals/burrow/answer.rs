//! What `/v3/kafka/CLUSTER/consumer/GROUP/lag` answers, read strictly.

use crate::net::{AdapterError, Answer, Cause};
use serde::Deserialize;

/// The envelope of every answer about a group.
#[derive(Debug, Deserialize)]
struct Envelope {
    error: bool,
    #[serde(default)]
    message: String,
    status: Option<Group>,
}

/// A group as Burrow sees it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Group {
    cluster: String,
    pub(super) group: String,
    pub(super) status: Status,
    pub(super) partitions: Vec<Partition>,
    /// How many there are, also of those that are not in the list.
    pub(super) partition_count: u64,
}

/// One partition of a group. `maxlag`, which may be null, repeats one of them and is not read.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Partition {
    pub(super) topic: String,
    pub(super) partition: u32,
    pub(super) status: Status,
    /// The oldest commit that Burrow remembers; `None` without commits.
    pub(super) start: Option<Commit>,
    /// The newest commit.
    pub(super) end: Option<Commit>,
    /// Messages up to the end of the partition now. The lag of the newest commit is as old as that commit.
    pub(super) current_lag: u64,
    /// How full Burrow's window of commits is, from 0 to 1.
    pub(super) complete: f64,
}

/// A commit. Its offset and the lag of its time are of no use here.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Commit {
    /// Milliseconds of Unix time, of whoever committed.
    pub(super) timestamp: i64,
}

/// Burrow's verdict on a group or a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Status {
    NotFound,
    Ok,
    /// It moves, and falls behind.
    Warn,
    /// Some of its partitions do not do well.
    Err,
    /// No commits for a while.
    Stop,
    /// Commits, always of the same offset.
    Stall,
    /// A commit before an earlier one.
    Rewind,
}

impl Status {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::NotFound => "NOTFOUND",
            Self::Ok => "OK",
            Self::Warn => "WARN",
            Self::Err => "ERR",
            Self::Stop => "STOP",
            Self::Stall => "STALL",
            Self::Rewind => "REWIND",
        }
    }

    /// Whether the lag is no measure of what the consumer does.
    pub(super) const fn is_stalled(self) -> bool {
        match self {
            Self::Stop | Self::Stall | Self::Rewind => true,
            Self::NotFound | Self::Ok | Self::Warn | Self::Err => false,
        }
    }
}

impl Partition {
    /// Whether Burrow has seen commits of it. One without them is `OK` with a lag of 0.
    pub(super) fn committed(&self) -> Option<&Commit> {
        let known = self.complete > 0.0 && self.start.is_some();
        self.end.as_ref().filter(|_| known)
    }

    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.topic, self.partition)
    }
}

/// The group in an answer; `None` where Burrow knows no such group, or no such cluster.
///
/// # Errors
/// Every status that is no success, except Burrow's own *not found*; *not understood* for everything else.
pub(super) fn group(
    answer: Answer,
    cluster: &str,
    group: &str,
) -> Result<(Option<Group>, Answer), AdapterError> {
    if answer.status == 404 {
        // Burrow's own 404 says that there is no error. A 404 by anybody else is one: a wrong path, most often.
        let own: Option<Envelope> = serde_json::from_slice(&answer.body).ok();
        let not_found = |envelope: Envelope| envelope.status.is_some_and(|g| g.status == Status::NotFound);
        if own.is_some_and(not_found) {
            return Ok((None, answer));
        }
    }
    let answer = answer.into_success()?;
    let envelope: Envelope = answer.json()?;
    let strange = |why: &str| Err(answer.error(Cause::NotUnderstood, why));
    if envelope.error {
        return strange(&format!("it says that it failed: {}", envelope.message));
    }
    let Some(found) = envelope.status else {
        return strange("an answer without a status: is this Burrow's HTTP API, version 3?");
    };
    if found.cluster != cluster || found.group != group {
        return strange(&format!(
            "an answer about the group {} of the cluster {}, which was not asked for",
            found.group, found.cluster
        ));
    }
    if found.status == Status::NotFound {
        return Ok((None, answer));
    }
    Ok((Some(found), answer))
}

/// The clusters that a Burrow knows.
#[derive(Debug, Deserialize)]
pub(super) struct Clusters {
    pub(super) clusters: Vec<String>,
}
