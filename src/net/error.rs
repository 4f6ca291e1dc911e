//! One error for everything outside: what was asked, how long it took, the likely cause, and the server's words.

use std::{fmt, time::Duration};

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
            Self::Refused => "connection refused: nothing listens there",
            Self::Tls => "TLS failed: unknown certificate authority or wrong host name",
            Self::Proxy => "the proxy refused",
            Self::Timeout => "timed out",
            Self::Unauthorized => "401, not logged in or credentials expired",
            Self::Forbidden => "403, not allowed",
            Self::NotFound => "404, look at the path prefix of the url",
            Self::TooMany => "429, too many requests",
            Self::Server => "the server failed",
            Self::NotUnderstood => "the answer was not understood",
            Self::Broken => "the connection broke",
            Self::BadRequest => "the request was refused",
            Self::Local => "failed on this machine",
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

impl fmt::Display for AdapterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} ({}, {:.1} s)",
            self.endpoint,
            self.cause.words(),
            self.tried,
            self.elapsed.as_secs_f32()
        )?;
        if self.detail.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.detail)
        }
    }
}

impl std::error::Error for AdapterError {}
