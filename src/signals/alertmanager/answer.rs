//! What `/api/v2/alerts` answers, read strictly.

use crate::net::{AdapterError, Answer};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The labels of an alert.
pub(super) type Labels = BTreeMap<String, String>;

/// One alert in the list. Resolved ones are not in it.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Alert {
    pub(super) labels: Labels,
    /// When it came last, on the Alertmanager's clock.
    #[serde(rename = "updatedAt")]
    pub(super) updated_at: DateTime<Utc>,
    /// Until when it fires unless it comes again, on the sender's clock.
    #[serde(rename = "endsAt")]
    pub(super) ends_at: DateTime<Utc>,
    status: Status,
}

#[derive(Debug, Clone, Deserialize)]
struct Status {
    state: State,
    #[serde(rename = "silencedBy")]
    silenced_by: Vec<String>,
    #[serde(rename = "inhibitedBy")]
    inhibited_by: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Active,
    /// Nobody is told about it: silenced, inhibited, or (from 0.28 on) muted at this time of the day.
    Suppressed,
    /// Just come: nobody has looked yet whether it is silenced.
    Unprocessed,
}

impl Alert {
    /// The value of a label; one that is not there is an empty one.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// The silences that keep it quiet.
    pub(super) fn silenced_by(&self) -> &[String] {
        match self.status.state {
            State::Suppressed => &self.status.silenced_by,
            State::Active | State::Unprocessed => &[],
        }
    }

    pub(super) fn is_silenced(&self) -> bool {
        !self.silenced_by().is_empty()
    }

    /// Whether another alert keeps it quiet.
    pub(super) fn is_inhibited(&self) -> bool {
        self.status.state == State::Suppressed && !self.status.inhibited_by.is_empty()
    }
}

/// Reads an answer with status 200.
///
/// # Errors
/// *Not understood*, with what was there instead.
pub(super) fn alerts(answer: &Answer) -> Result<Vec<Alert>, AdapterError> {
    answer.json()
}

#[cfg(test)]
pub(super) fn sample(text: &str) -> Vec<Alert> {
    serde_json::from_str(text).unwrap()
}
