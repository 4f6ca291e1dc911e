//! Refusals. AWS says most of them with status 400 and a name.

use super::super::clock::Clock;
use crate::{
    domain::human,
    net::{AdapterError, Answer, Cause},
};
use serde::Deserialize;
use std::time::Duration;

/// A refusal as AWS writes it.
#[derive(Debug, Default, Deserialize)]
struct Refusal {
    #[serde(rename = "__type", default)]
    kind: String,
    #[serde(default, alias = "Message")]
    message: String,
}

/// This answer, if it is a success.
///
/// # Errors
/// The cause that AWS names, with its words and what to do about it.
pub(super) fn into_success(answer: Answer) -> Result<Answer, AdapterError> {
    if (200..300).contains(&answer.status) {
        return Ok(answer);
    }
    let refusal: Refusal = serde_json::from_slice(&answer.body).unwrap_or_default();
    let header = answer
        .headers
        .get("x-amzn-errortype")
        .and_then(|v| v.to_str().ok());
    let kind = if refusal.kind.is_empty() {
        header.unwrap_or_default()
    } else {
        &refusal.kind
    };
    // `com.amazon.coral.service#NAME`, `NAME:http://internal..`
    let kind = kind.rsplit('#').next().unwrap_or_default();
    let kind = kind.split(':').next().unwrap_or_default();
    if kind.is_empty() {
        return answer.into_success();
    }
    let (cause, hint) = meaning(kind, &refusal.message, answer.status);
    let mut detail = format!("{} {kind}: {}", answer.status, refusal.message);
    if let Some(hint) = hint.words(&answer) {
        detail.push_str(&format!(" ({hint})"));
    }
    Err(answer.error(cause, &detail))
}

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hint {
    None,
    Renew,
    Keys,
    Clock,
    Permission,
    Slower,
}

impl Hint {
    fn words(self, answer: &Answer) -> Option<String> {
        Some(match self {
            Self::None => return None,
            Self::Renew => "the session token has expired: fetch new keys".to_owned(),
            Self::Keys => "look at access_key, secret_key, session_token and region".to_owned(),
            Self::Permission => "the key's user or role needs cloudwatch:GetMetricData".to_owned(),
            Self::Slower => "asked too often: a longer interval, or fewer signals".to_owned(),
            Self::Clock => match Clock::of(answer).skew_ms {
                Some(0) | None => "signatures count for 5 minutes: look at this host's clock".to_owned(),
                Some(skew) => {
                    let off = human::duration(Duration::from_millis(skew.unsigned_abs()));
                    let side = if skew > 0 { "behind" } else { "ahead of" };
                    format!("this host's clock is {off} {side} AWS; signatures count for 5 minutes")
                }
            },
        })
    }
}

fn meaning(kind: &str, message: &str, status: u16) -> (Cause, Hint) {
    // Some names come with and without it. A wrong clock is no fault of the key, which is to be tried again.
    match kind.strip_suffix("Exception").unwrap_or(kind) {
        "ExpiredToken" => (Cause::Unauthorized, Hint::Renew),
        "RequestExpired" | "RequestTimeTooSkewed" => (Cause::Local, Hint::Clock),
        "InvalidSignature" | "SignatureDoesNotMatch"
            if ["Signature expired", "not yet current"]
                .iter()
                .any(|words| message.contains(words)) =>
        {
            (Cause::Local, Hint::Clock)
        }
        "InvalidSignature"
        | "SignatureDoesNotMatch"
        | "UnrecognizedClient"
        | "InvalidClientTokenId"
        | "MissingAuthenticationToken"
        | "IncompleteSignature"
        | "InvalidAccessKeyId" => (Cause::Unauthorized, Hint::Keys),
        "AccessDenied" | "NotAuthorized" | "UnauthorizedOperation" | "OptInRequired" => {
            (Cause::Forbidden, Hint::Permission)
        }
        "Throttling"
        | "Throttled"
        | "ThrottledRequest"
        | "TooManyRequests"
        | "RequestLimitExceeded"
        | "LimitExceeded"
        | "RequestThrottled" => (Cause::TooMany, Hint::Slower),
        _ => (
            Cause::of_status(status).unwrap_or(Cause::NotUnderstood),
            Hint::None,
        ),
    }
}
