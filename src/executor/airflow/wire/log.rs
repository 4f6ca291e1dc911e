//! A task's log.

use super::soft;
use crate::domain::{Time, text};
use serde::Deserialize;
use serde_json::Value;

/// The longest line that is kept, in characters.
const LINE_CAP: usize = 4000;

/// One line, clean enough to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When it was written, if that is known.
    pub at: Option<Time>,
    /// `info`, `error`, ..; if that is known.
    pub level: Option<String>,
    /// What it says.
    pub text: String,
}

impl LogLine {
    fn bare(text: &str) -> Self {
        Self {
            at: None,
            level: None,
            text: text::clean(text.trim_end()).chars().take(LINE_CAP).collect(),
        }
    }
}

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// Its lines, oldest first.
    pub lines: Vec<LogLine>,
    /// What to ask for the next piece with; `None` = the log is at its end.
    pub next: Option<String>,
    /// It is the whole log until now and takes the place of what was there before: 2.x cannot tell what is new.
    pub whole: bool,
}

#[derive(Deserialize)]
struct Structured {
    content: Content,
    #[serde(default, deserialize_with = "soft")]
    continuation_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Lines(Vec<Value>),
    Text(String),
    Other(Value),
}

/// Reads the log of a 3.x.
pub(in crate::executor::airflow) fn structured_log(document: Value) -> Result<LogPage, serde_json::Error> {
    let wire = Structured::deserialize(document)?;
    let lines = match wire.content {
        Content::Lines(lines) => lines.iter().flat_map(lines_of).collect(),
        Content::Text(text) => text.lines().map(LogLine::bare).collect(),
        Content::Other(Value::Null) => Vec::new(),
        Content::Other(other) => vec![LogLine::bare(&other.to_string())],
    };
    Ok(LogPage {
        lines,
        next: wire.continuation_token,
        whole: false,
    })
}

/// Reads the log of a 2.x, which is plain text.
pub(in crate::executor::airflow) fn plain_log(body: &[u8]) -> LogPage {
    LogPage {
        lines: String::from_utf8_lossy(body).lines().map(LogLine::bare).collect(),
        next: None,
        whole: true,
    }
}

/// One entry: a text, or an object with an event and whatever else. The exceptions of an entry follow as lines.
fn lines_of(entry: &Value) -> Vec<LogLine> {
    let Some(fields) = entry.as_object() else {
        let text = entry.as_str().map_or_else(|| entry.to_string(), str::to_owned);
        return text.lines().map(LogLine::bare).collect();
    };
    let word = |key: &str| fields.get(key).and_then(Value::as_str);
    let at: Option<Time> = word("timestamp").and_then(|t| t.parse().ok());
    let level = word("level").map(|l| text::one_line(l, 16));
    let event = match fields.get("event") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let exceptions = fields.get("error_detail").and_then(Value::as_array);
    let exceptions = exceptions.into_iter().flatten().filter_map(exception);
    let told: Vec<String> = event.lines().map(str::to_owned).chain(exceptions).collect();
    told.iter()
        .map(|line| LogLine {
            at,
            level: level.clone(),
            ..LogLine::bare(line)
        })
        .collect()
}

fn exception(detail: &Value) -> Option<String> {
    let kind = detail.get("exc_type")?.as_str()?;
    let value = detail.get("exc_value").and_then(Value::as_str).unwrap_or("");
    Some(format!(
        "{kind}: {}",
        value.split_whitespace().collect::<Vec<_>>().join(" ")
    ))
}
