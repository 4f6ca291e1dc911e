//! What Airflow says when it does not do what was asked, in its three shapes of `detail`, its key `error`, the problem
//! documents of 2.x, and the pages of whatever stands before it.

use super::wire::Api;
use crate::net::{AdapterError, Answer, Cause};
use reqwest::header;
use serde_json::Value;
use std::fmt;

/// How many of the faults of one refused request are told.
const FAULTS: usize = 4;

/// What a failed call means for whoever made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It never left, or nobody was there.
    NotSent,
    /// It left and no whole answer came: it may have been done.
    Unanswered,
    /// The credentials are not good (any more). Nothing is sent until that changes.
    LoggedOut,
    /// The credentials are good and do not allow this.
    Forbidden,
    /// There is no such DAG, run, task, pool or backfill.
    Absent,
    /// 409: there is one already, or its state does not allow it.
    Conflict,
    /// The request is not one that this server accepts.
    Invalid,
    /// Too many requests.
    TooMany,
    /// The server failed at it: it may have been done.
    Server,
    /// What answers there is no Airflow of this version: the path prefix, or another version since.
    WrongPlace,
    /// A success that could not be read: it may have been done.
    NotUnderstood,
    /// This version of Airflow has nothing like it.
    Unsupported,
}

/// A failed call to an Airflow.
#[derive(Debug, Clone, PartialEq)]
pub struct CallError {
    /// What it means.
    pub kind: Kind,
    /// Who, what, how long, why, and the server's words.
    pub error: AdapterError,
}

impl CallError {
    pub(super) const fn new(kind: Kind, error: AdapterError) -> Self {
        Self { kind, error }
    }

    /// Whether the server may have done what it was asked to do: look before asking again.
    pub const fn may_have_happened(&self) -> bool {
        matches!(self.kind, Kind::Unanswered | Kind::Server | Kind::NotUnderstood)
    }

    /// A failure of the exchange itself.
    pub(super) const fn of_exchange(error: AdapterError) -> Self {
        let kind = match error.cause {
            Cause::Local | Cause::Dns | Cause::Refused | Cause::Tls | Cause::Proxy => Kind::NotSent,
            _ => Kind::Unanswered,
        };
        Self::new(kind, error)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for CallError {}

impl From<CallError> for AdapterError {
    fn from(error: CallError) -> Self {
        error.error
    }
}

/// What an answer means for the credentials and the call.
#[derive(Debug)]
pub(super) enum Verdict {
    /// A success.
    Good(Answer),
    /// The credentials were refused.
    Refused(CallError),
    /// 2.x says the same of a wrong password and of a missing permission.
    RefusedOrForbidden(CallError),
    /// Something else.
    Failed(CallError),
}

/// Sorts an answer out.
pub(super) fn verdict(answer: Answer, api: Option<Api>) -> Verdict {
    let status = answer.status;
    if (200..300).contains(&status) {
        return Verdict::Good(answer);
    }
    let body = Body::of(&answer);
    match status {
        401 => Verdict::Refused(body.error(answer, Kind::LoggedOut, Cause::Unauthorized)),
        403 if body.speaks_of_the_token() => {
            Verdict::Refused(body.error(answer, Kind::LoggedOut, Cause::Unauthorized))
        }
        403 if api == Some(Api::V1) && body.is_v1_forbidden() => {
            Verdict::RefusedOrForbidden(body.error(answer, Kind::Forbidden, Cause::Forbidden))
        }
        _ => {
            let (kind, cause) = meaning(status, &body);
            Verdict::Failed(body.error(answer, kind, cause))
        }
    }
}

fn meaning(status: u16, body: &Body) -> (Kind, Cause) {
    let cause = Cause::of_status(status).unwrap_or(Cause::NotUnderstood);
    let kind = match status {
        403 => Kind::Forbidden,
        // The fixed words for a 404 speak of the path prefix, which is right there.
        404 if body.names_something_absent() => return (Kind::Absent, Cause::BadRequest),
        404 => Kind::WrongPlace,
        407 => Kind::NotSent,
        408 => Kind::Unanswered,
        409 => Kind::Conflict,
        429 => Kind::TooMany,
        400..500 => Kind::Invalid,
        500.. => Kind::Server,
        _ => Kind::NotUnderstood,
    };
    (kind, cause)
}

/// The body of an answer that is no success.
struct Body(Option<Value>);

impl Body {
    fn of(answer: &Answer) -> Self {
        Self(serde_json::from_slice(&answer.body).ok())
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.0.as_ref()?.get(key)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str().map(str::trim).filter(|t| !t.is_empty())
    }

    /// A token with a wrong signature is a 403, as is one of a server that has a new key since it started again.
    fn speaks_of_the_token(&self) -> bool {
        let Some(detail) = self.text("detail") else {
            return false;
        };
        ["Invalid JWT token", "Token Expired", "Not authenticated"]
            .iter()
            .any(|words| detail.eq_ignore_ascii_case(words))
    }

    fn is_v1_forbidden(&self) -> bool {
        self.get("status").is_some() && self.get("detail").is_none_or(Value::is_null)
    }

    /// Whether this 404 is about a thing and not about the place. *Not found* must never be believed of a path that
    /// the server does not have: a run would look as if it had never been made.
    fn names_something_absent(&self) -> bool {
        let about_blank = self.text("type").is_some_and(|t| t == "about:blank");
        let named = |key| {
            self.text(key)
                .is_some_and(|t| !t.eq_ignore_ascii_case("not found"))
        };
        !about_blank && self.get("error").is_none() && (named("detail") || named("title"))
    }

    /// The server's words; `None` if they have none of the known shapes.
    fn words(&self) -> Option<String> {
        if let Some(detail) = self.get("detail").filter(|d| !d.is_null()) {
            return Some(words_of_detail(detail)).filter(|w| !w.is_empty());
        }
        let others = ["error", "title", "message"];
        others.iter().find_map(|key| self.text(key)).map(str::to_owned)
    }

    fn error(&self, answer: Answer, kind: Kind, cause: Cause) -> CallError {
        let error = match self.words() {
            Some(words) => answer.error(cause, &format!("{}: {words}", answer.status)),
            None => {
                let unread = answer.error(cause, &format!("{}: no words", answer.status));
                // The page titles and first lines of strangers.
                let mut error = answer.into_success().err().unwrap_or(unread);
                error.cause = cause;
                error
            }
        };
        CallError::new(kind, error)
    }
}

fn words_of_detail(detail: &Value) -> String {
    match detail {
        Value::String(words) => words.clone(),
        Value::Array(faults) => words_of_faults(faults),
        Value::Object(fields) => ["reason", "message"]
            .iter()
            .filter_map(|key| fields.get(*key)?.as_str())
            .collect::<Vec<_>>()
            .join(": "),
        other => other.to_string(),
    }
}

/// `body.logical_date: Field required; ..`
fn words_of_faults(faults: &[Value]) -> String {
    let mut told: Vec<String> = faults.iter().take(FAULTS).map(words_of_fault).collect();
    if faults.len() > FAULTS {
        told.push(format!("{} more", faults.len() - FAULTS));
    }
    told.join("; ")
}

fn words_of_fault(fault: &Value) -> String {
    let message = fault.get("msg").and_then(Value::as_str);
    let Some(message) = message else {
        return fault.as_str().map_or_else(|| fault.to_string(), str::to_owned);
    };
    let place = fault.get("loc").and_then(Value::as_array).map(|loc| {
        let step = |part: &Value| part.as_str().map_or_else(|| part.to_string(), str::to_owned);
        loc.iter().map(step).collect::<Vec<_>>().join(".")
    });
    match place {
        Some(place) if !place.is_empty() => format!("{place}: {message}"),
        _ => message.to_owned(),
    }
}

/// Reads the document of a success. A path outside the API is answered with a page and 200, so the type is looked at
/// before the content.
pub(super) fn read<T: serde::de::DeserializeOwned>(answer: &Answer) -> Result<T, CallError> {
    let kind = answer
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok());
    if kind.is_some_and(|k| k.to_ascii_lowercase().contains("html")) {
        let page = answer.json::<serde::de::IgnoredAny>().err();
        let error = page.unwrap_or_else(|| {
            answer.error(
                Cause::NotUnderstood,
                &format!("{} with an HTML page", answer.status),
            )
        });
        return Err(CallError::new(Kind::NotUnderstood, error));
    }
    answer
        .json()
        .map_err(|error| CallError::new(Kind::NotUnderstood, error))
}
