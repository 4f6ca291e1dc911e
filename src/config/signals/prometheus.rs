//! `kind = "prometheus"`.

use super::{
    super::{
        problem::Report,
        read::{Entry, Section},
    },
    http::{HttpConfig, http},
};
use std::path::Path;

/// The keys beside those of every kind and of an HTTP endpoint.
pub(super) const KEYS: [&str; 2] = ["query", "age_query"];

/// A Prometheus, or something that speaks its query API.
#[derive(Debug, Clone, PartialEq)]
pub struct PrometheusConfig {
    /// Where it is.
    pub http: HttpConfig,
    /// PromQL whose result is one number.
    pub query: String,
    /// PromQL whose result is the measurement's Unix time; `timestamp(QUERY)` by default.
    pub age_query: Option<String>,
}

pub(super) fn read(
    report: &mut Report<'_>,
    section: &Section<'_>,
    folder: &Path,
) -> Option<PrometheusConfig> {
    let query = section
        .required(report, "query", "PromQL whose result is one number")
        .and_then(|e| promql(report, &e));
    let age_query = match section.get("age_query") {
        Some(e) => promql(report, &e).map(Some),
        None => Some(None),
    };
    let http = http(report, section, folder, "a Prometheus");
    Some(PrometheusConfig {
        http: http?,
        query: query?,
        age_query: age_query?,
    })
}

/// A query may span lines; it is only checked for having something in it.
fn promql(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<String> {
    let expected = "PromQL whose result is one number";
    let query = entry.any_text(report, expected)?.trim();
    if query.is_empty() {
        entry.problem(report, "an empty text", expected, "");
        return None;
    }
    Some(query.to_owned())
}
