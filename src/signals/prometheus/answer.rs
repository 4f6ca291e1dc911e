//! What `/api/v1/query` and `/api/v1/query_range` answer, read strictly: numbers, or the reason why there are none.

use crate::net::{AdapterError, Answer, Cause};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What tells one series from another.
pub(super) type Labels = BTreeMap<String, String>;

/// One result: its labels, when it was evaluated on the server's clock, and its number.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    pub(super) labels: Labels,
    /// Unix seconds.
    pub(super) at: f64,
    pub(super) value: f64,
}

/// What a query gave.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// An instant vector, or a scalar as a vector of one.
    Samples(Vec<Sample>),
    /// Something else: what it is and what to do about it.
    Other(String),
}

/// An answered query with what the server had to remark.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answered {
    pub(super) outcome: Outcome,
    /// Not empty: only a part of the data was there.
    pub(super) warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Envelope {
    status: String,
    data: Option<Data>,
    #[serde(default, rename = "errorType")]
    error_type: String,
    #[serde(default)]
    error: String,
    #[serde(default)]
    warnings: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    kind: String,
    result: Value,
    /// Thanos may put them here.
    #[serde(default)]
    warnings: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Element {
    #[serde(default)]
    metric: Labels,
    /// Missing for a native histogram.
    value: Option<(f64, String)>,
}

/// One series over time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Track {
    pub(super) labels: Labels,
    /// Unix seconds and numbers.
    pub(super) points: Vec<(f64, f64)>,
}

#[derive(Deserialize)]
struct RangeElement {
    #[serde(default)]
    metric: Labels,
    /// Missing for native histograms.
    values: Option<Vec<(f64, String)>>,
}

/// Reads an answer with status 200.
///
/// # Errors
/// The server's own error, or *not understood*.
pub(super) fn read(answer: &Answer) -> Result<Answered, AdapterError> {
    let (data, warnings) = open(answer)?;
    let odd = |why: String| answer.error(Cause::NotUnderstood, &why);
    let shape = |e: serde_json::Error| odd(format!("a {} of another shape: {e}", data.kind));
    let outcome = match data.kind.as_str() {
        "vector" => vector(serde_json::from_value(data.result).map_err(shape)?).map_err(odd)?,
        "scalar" => {
            let (at, text): (f64, String) = serde_json::from_value(data.result).map_err(shape)?;
            let value = number(&text).map_err(odd)?;
            Outcome::Samples(vec![Sample {
                labels: Labels::new(),
                at,
                value,
            }])
        }
        "matrix" => Outcome::Other("a range of values: take the [..] from the query".to_owned()),
        "string" => Outcome::Other("a string, not a number".to_owned()),
        other => return Err(odd(format!("a result of the type {other}"))),
    };
    Ok(Answered { outcome, warnings })
}

/// Reads the answer to a range query with status 200.
///
/// # Errors
/// The server's own error, *not understood*, or an answer that is only a part: its words are those of the warning.
pub(super) fn read_range(answer: &Answer) -> Result<Vec<Track>, AdapterError> {
    let (data, warnings) = open(answer)?;
    let odd = |why: String| answer.error(Cause::NotUnderstood, &why);
    if let Some(warning) = warnings.first() {
        return Err(odd(format!("a partial answer: {warning}")));
    }
    if data.kind != "matrix" {
        return Err(odd(format!("a {} where a matrix was asked for", data.kind)));
    }
    let elements: Vec<RangeElement> =
        serde_json::from_value(data.result).map_err(|e| odd(format!("a matrix of another shape: {e}")))?;
    let track = |element: RangeElement| {
        let values = element.values.ok_or("histograms, not numbers")?;
        let points: Result<Vec<(f64, f64)>, String> = values
            .into_iter()
            .map(|(at, text)| Ok((at, number(&text)?)))
            .collect();
        Ok(Track {
            labels: element.metric,
            points: points?,
        })
    };
    elements
        .into_iter()
        .map(track)
        .collect::<Result<_, String>>()
        .map_err(odd)
}

/// The data of an answer and its warnings, wherever they stand.
fn open(answer: &Answer) -> Result<(Data, Vec<String>), AdapterError> {
    let envelope: Envelope = answer.json()?;
    if envelope.status != "success" {
        let detail = format!("{}: {}", envelope.error_type, envelope.error);
        return Err(answer.error(cause_of(&envelope.error_type), &detail));
    }
    let mut data = envelope
        .data
        .ok_or_else(|| answer.error(Cause::NotUnderstood, "success without data"))?;
    let warnings = [envelope.warnings, data.warnings.take()]
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    Ok((data, warnings))
}

fn vector(elements: Vec<Element>) -> Result<Outcome, String> {
    let mut samples = Vec::with_capacity(elements.len());
    for element in elements {
        let Some((at, text)) = element.value else {
            return Ok(Outcome::Other("a histogram, not a number".to_owned()));
        };
        let value = number(&text)?;
        samples.push(Sample {
            labels: element.metric,
            at,
            value,
        });
    }
    Ok(Outcome::Samples(samples))
}

/// `19`, `1.5e+05`, `NaN`, `+Inf`, `-Inf`.
fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| {
        format!(
            "the value {:?} is no number",
            text.chars().take(40).collect::<String>()
        )
    })
}

const fn cause_of(kind: &str) -> Cause {
    match kind.as_bytes() {
        b"timeout" | b"canceled" => Cause::Timeout,
        b"bad_data" | b"execution" => Cause::BadRequest,
        b"not_found" => Cause::NotFound,
        _ => Cause::Server,
    }
}
