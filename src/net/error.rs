//! One error for everything outside: what was asked, how long it took, the likely cause, and the server's words.

use crate::domain::text::clean;
use std::{fmt, time::Duration};

/// The longest detail of an error, in characters.
pub const DETAIL_CAP: usize = 400;

/// The likely cause of a failed call, out of a fixed list (case S04).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The name does not resolve.
    Dns,
    /// Nobody listens there.
    Refused,
    /// The certificate or the handshake.
    Tls,
    /// A proxy is in the way.
    Proxy,
    /// No answer in time.
    Timeout,
    /// 401: not logged in, or the credentials expired.
    Unauthorized,
    /// 403: logged in and not allowed.
    Forbidden,
    /// 404: often a missing path prefix.
    NotFound,
    /// 429: too many requests.
    TooMany,
    /// 5xx.
    Server,
    /// An answer that is not what was expected.
    NotUnderstood,
    /// The connection broke.
    Broken,
    /// The request itself was wrong.
    BadRequest,
    /// Something on this machine.
    Local,
}

impl Cause {
    /// In words, with what to look at first.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Dns => "the host name does not resolve",
            Self::Refused => "connection refused or no route: does it run there, is the network (VPN) up?",
            Self::Tls => "TLS failed: unknown certificate authority or wrong host name",
            Self::Proxy => "the proxy refused",
            Self::Timeout => "timed out",
            Self::Unauthorized => "401, not logged in or credentials expired",
            Self::Forbidden => "403, this user may not do that",
            Self::NotFound => "404, look at the path prefix of the url",
            Self::TooMany => "429, too many requests",
            Self::Server => "the server failed",
            Self::NotUnderstood => "the answer was not understood",
            Self::Broken => "the connection broke",
            Self::BadRequest => "the request was refused",
            Self::Local => "failed on this machine",
        }
    }

    /// The cause of an HTTP status; `None` for one that is no failure (below 400).
    pub const fn of_status(status: u16) -> Option<Self> {
        match status {
            0..400 => None,
            401 => Some(Self::Unauthorized),
            403 => Some(Self::Forbidden),
            404 => Some(Self::NotFound),
            407 => Some(Self::Proxy),
            408 => Some(Self::Timeout),
            429 => Some(Self::TooMany),
            400..500 => Some(Self::BadRequest),
            _ => Some(Self::Server),
        }
    }
}

/// A failed call to an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterError {
    /// The endpoint's name in the configuration.
    pub endpoint: String,
    /// What was tried: `GET /api/v1/query`.
    pub tried: String,
    /// How long it took.
    pub elapsed: Duration,
    /// The likely cause.
    pub cause: Cause,
    /// The other side's own words, cleaned and cut; empty if there were none.
    pub detail: String,
    /// How long the server asked us to wait.
    pub retry_after: Option<Duration>,
}

impl AdapterError {
    /// An error with its detail cleaned for display, on one line, and cut to [`DETAIL_CAP`] characters.
    pub fn new(endpoint: &str, tried: &str, elapsed: Duration, cause: Cause, detail: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            tried: tried.to_owned(),
            elapsed,
            cause,
            detail: cut(detail),
            retry_after: None,
        }
    }
}

/// One clean line of at most [`DETAIL_CAP`] characters.
fn cut(detail: &str) -> String {
    let line = detail.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = clean(&line).chars().take(DETAIL_CAP).collect();
    if shown.chars().count() == DETAIL_CAP {
        shown.pop();
        shown.push('…');
    }
    shown
}

impl AdapterError {
    /// What it says without the endpoint's name, for a line that begins with that name already.
    pub fn nameless(&self) -> String {
        let words = format!(
            "{} ({}, {:.1} s)",
            self.cause.words(),
            self.tried,
            self.elapsed.as_secs_f32()
        );
        if self.detail.is_empty() {
            words
        } else {
            format!("{words}: {}", self.detail)
        }
    }
}

impl fmt::Display for AdapterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.endpoint, self.nameless())
    }
}

impl std::error::Error for AdapterError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_who_what_how_long_why_and_the_other_sides_words_in_one_line() {
        let error = AdapterError::new(
            "orders",
            "POST https://prom.example/api/v1/query",
            Duration::from_millis(1234),
            Cause::NotFound,
            "404 page\n\u{1b}[31m not  found",
        );
        assert_eq!(
            error.to_string(),
            "orders: 404, look at the path prefix of the url (POST https://prom.example/api/v1/query, 1.2 s): \
             404 page ^[[31m not found"
        );
        assert_eq!(format!("orders: {}", error.nameless()), error.to_string());
    }

    #[test]
    fn a_long_detail_is_cut_and_says_so() {
        let error = AdapterError::new("x", "GET /", Duration::ZERO, Cause::Server, &"ä".repeat(10_000));
        assert_eq!(error.detail.chars().count(), DETAIL_CAP);
        assert!(error.detail.ends_with('…'));
    }

    #[test]
    fn every_failing_status_has_a_cause() {
        assert_eq!(Cause::of_status(204), None);
        assert_eq!(Cause::of_status(302), None);
        assert_eq!(Cause::of_status(422), Some(Cause::BadRequest));
        assert_eq!(Cause::of_status(407), Some(Cause::Proxy));
        assert_eq!(Cause::of_status(504), Some(Cause::Server));
        assert!((400..1000).all(|s| Cause::of_status(s).is_some()));
    }
}
