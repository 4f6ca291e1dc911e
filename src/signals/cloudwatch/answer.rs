//! What `GetMetricData` answers, read strictly.

use crate::net::{AdapterError, Answer, Cause};
use serde::Deserialize;
use std::collections::BTreeMap;

/// One page of an answer.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Page {
    metric_data_results: Vec<Found>,
    next_token: Option<String>,
    /// About the whole call, such as that it asked for too many metrics.
    #[serde(default)]
    messages: Vec<Message>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Found {
    id: String,
    timestamps: Vec<f64>,
    values: Vec<f64>,
    status_code: Status,
    #[serde(default)]
    messages: Vec<Message>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Message {
    #[serde(default)]
    code: String,
    #[serde(default)]
    value: String,
}

/// How it went with one metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Status {
    Complete,
    PartialData,
    InternalError,
    Forbidden,
}

/// What was said of one metric on all pages.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    /// The newest datapoint.
    pub(super) newest: Option<Point>,
    /// That of the last page: a part of the data is all that can be on those before.
    pub(super) status: Status,
    /// In CloudWatch's words.
    pub(super) words: String,
}

/// A datapoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// When its period began, in seconds of Unix time.
    pub(super) at: f64,
    pub(super) value: f64,
}

/// What was said on the pages so far.
#[derive(Debug, Default)]
pub(super) struct Pages {
    pub(super) series: BTreeMap<String, Series>,
    /// What CloudWatch says of the whole call.
    pub(super) warning: Option<String>,
}

impl Pages {
    /// Takes a page in; what the next one is asked for with, where there is one.
    ///
    /// # Errors
    /// *Not understood*, with what was there instead.
    pub(super) fn take(&mut self, answer: &Answer, asked: &[String]) -> Result<Option<String>, AdapterError> {
        let page: Page = answer.json()?;
        let strange = |why: String| Err(answer.error(Cause::NotUnderstood, &why));
        let warning = words(&page.messages);
        if !warning.is_empty() {
            self.warning.get_or_insert(warning);
        }
        for found in page.metric_data_results {
            if !asked.contains(&found.id) {
                return strange(format!("a result {:?} that was not asked for", found.id));
            }
            if found.timestamps.len() != found.values.len() {
                let (times, values) = (found.timestamps.len(), found.values.len());
                return strange(format!("{times} timestamps with {values} values"));
            }
            let points = found.timestamps.iter().zip(&found.values);
            let newest = points
                .map(|(at, value)| Point {
                    at: *at,
                    value: *value,
                })
                .max_by(|a, b| a.at.total_cmp(&b.at));
            let before = self.series.remove(&found.id).and_then(|series| series.newest);
            let newest = [before, newest]
                .into_iter()
                .flatten()
                .max_by(|a, b| a.at.total_cmp(&b.at));
            let series = Series {
                newest,
                status: found.status_code,
                words: words(&found.messages),
            };
            self.series.insert(found.id, series);
        }
        Ok(page.next_token.filter(|token| !token.is_empty()))
    }
}

fn words(messages: &[Message]) -> String {
    let each: Vec<String> = messages
        .iter()
        .map(|m| match (m.code.as_str(), m.value.as_str()) {
            ("", words) | (words, "") => words.to_owned(),
            (code, value) => format!("{code}: {value}"),
        })
        .collect();
    each.join("; ")
}
