//! What is sent and what comes back.

use super::{
    classify::Trouble,
    credentials::Login,
    error::{AdapterError, Cause},
    words::{Redactor, words_of},
};
use crate::config::secret::Secret;
use chrono::{DateTime, Utc};
use reqwest::{
    Method,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// The longest that a server's `Retry-After` is believed.
const RETRY_AFTER_CAP: Duration = Duration::from_secs(24 * 3600);

/// One request to an endpoint.
#[derive(Debug, Clone)]
pub struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Body,
    pub(super) deadline: Option<Duration>,
    pub(super) login: Option<Login>,
    pub(super) accept: &'static str,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) secret_headers: Vec<(&'static str, Secret)>,
}

#[derive(Debug, Clone)]
pub(super) enum Body {
    None,
    /// A text, and its type.
    Text(&'static str, String),
    Form(Vec<(String, String)>),
    Json(serde_json::Value),
    /// A JSON text, and the secret in it.
    Sealed(Secret, Secret),
}

impl Request {
    /// A request of any method. `path` starts with a slash and comes after the path of the base url.
    pub fn new(method: Method, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            query: Vec::new(),
            body: Body::None,
            deadline: None,
            login: None,
            accept: "application/json",
            headers: Vec::new(),
            secret_headers: Vec::new(),
        }
    }

    /// A GET.
    pub fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    /// A POST.
    pub fn post(path: &str) -> Self {
        Self::new(Method::POST, path)
    }

    /// Adds a parameter to the query.
    #[must_use]
    pub fn query(mut self, key: &str, value: &str) -> Self {
        self.query.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Sends these fields as a form.
    #[must_use]
    pub fn form(mut self, fields: Vec<(String, String)>) -> Self {
        self.body = Body::Form(fields);
        self
    }

    /// Sends this document.
    #[must_use]
    pub fn json(mut self, document: serde_json::Value) -> Self {
        self.body = Body::Json(document);
        self
    }

    /// Sends exactly this text, as this type of content.
    #[must_use]
    pub fn text(mut self, content_type: &'static str, text: String) -> Self {
        self.body = Body::Text(content_type, text);
        self
    }

    /// Adds a header to this request alone. One that HTTP does not allow fails when the request is sent.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// As [`Self::header`]; the value is never shown, also not where the other side repeats it.
    #[must_use]
    pub fn secret_header(mut self, name: &'static str, value: Secret) -> Self {
        self.secret_headers.push((name, value));
        self
    }

    /// Sends this JSON text, in which `hidden` stands: neither is ever shown, also not where the other side repeats it.
    #[must_use]
    pub fn sealed_json(mut self, text: Secret, hidden: Secret) -> Self {
        self.body = Body::Sealed(text, hidden);
        self
    }

    /// Logs in this way instead of the endpoint's own.
    #[must_use]
    pub fn login(mut self, login: Login) -> Self {
        self.login = Some(login);
        self
    }

    /// Asks for this type of answer instead of JSON.
    #[must_use]
    pub const fn accept(mut self, media_type: &'static str) -> Self {
        self.accept = media_type;
        self
    }

    /// The headers of this request alone.
    ///
    /// # Errors
    /// In words: which of them HTTP does not allow. Never its value.
    pub(super) fn own_headers(&self) -> Result<HeaderMap, String> {
        let plain = self
            .headers
            .iter()
            .map(|(name, value)| (*name, value.as_str(), false));
        let secret = self
            .secret_headers
            .iter()
            .map(|(name, value)| (*name, value.reveal(), true));
        let mut headers = HeaderMap::new();
        for (name, value, is_secret) in plain.chain(secret) {
            let mut value = HeaderValue::from_str(value)
                .map_err(|_| format!("header {name}: its value has characters that a header cannot carry"))?;
            value.set_sensitive(is_secret);
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| format!("{name:?} is not a header name"))?;
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Whether it does not go by the endpoint's credentials alone. Whoever logs in by himself keeps his own refusals.
    pub(super) const fn logs_in_by_itself(&self) -> bool {
        self.login.is_some() || !self.secret_headers.is_empty()
    }

    /// A shorter deadline than the endpoint's.
    #[must_use]
    pub const fn within(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }
}

/// An answer with any status, its body read.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body, decompressed. Of a failure only the beginning.
    pub body: Vec<u8>,
    /// The headers.
    pub headers: HeaderMap,
    /// When the request was sent, on our wall clock.
    pub sent_at: DateTime<Utc>,
    /// From sending to the headers of the answer.
    pub answered_after: Duration,
    /// From the start, secrets included, to the last byte.
    pub elapsed: Duration,
    pub(super) about: About,
}

/// What an answer says about the login that it was asked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfLogin {
    Taken,
    Refused,
    /// Whoever answered did perhaps not come to look at it.
    Unknown,
}

/// What every error about an exchange says.
#[derive(Debug, Clone)]
pub(super) struct About {
    pub(super) endpoint: String,
    pub(super) tried: String,
    pub(super) proxy: Option<String>,
    pub(super) redactor: Redactor,
}

impl About {
    pub(super) fn error(&self, elapsed: Duration, trouble: &Trouble) -> AdapterError {
        let mut detail = self.redactor.redact(&trouble.detail);
        if let Some(proxy) = &self.proxy {
            detail.push_str(&format!(" (through the proxy {proxy})"));
        }
        AdapterError::new(&self.endpoint, &self.tried, elapsed, trouble.cause, &detail)
    }
}

impl Answer {
    /// The server's clock when it answered, to a second; `None` if it does not tell.
    pub fn date(&self) -> Option<DateTime<Utc>> {
        http_date(self.headers.get(header::DATE)?.to_str().ok()?)
    }

    /// An error about this answer, in its endpoint's name. `detail` is redacted and cleaned.
    pub fn error(&self, cause: Cause, detail: &str) -> AdapterError {
        let mut error = self.about.error(self.elapsed, &Trouble::new(cause, detail));
        error.retry_after = self.retry_after();
        error
    }

    /// Text of this answer, redacted, cleaned, on one line and cut.
    pub fn words(&self, text: &str, max: usize) -> String {
        crate::domain::text::one_line(&self.about.redactor.redact(text), max)
    }

    /// This answer, if it is a success.
    ///
    /// # Errors
    /// The cause of the status, with the server's words.
    pub fn into_success(self) -> Result<Self, AdapterError> {
        if (200..300).contains(&self.status) {
            Ok(self)
        } else {
            Err(self.failure())
        }
    }

    /// What this answer is if it is no success.
    pub(super) fn failure(&self) -> AdapterError {
        let words = words_of(&self.body);
        let words = if words.is_empty() {
            "no words".to_owned()
        } else {
            words
        };
        let cause = Cause::of_status(self.status).unwrap_or(Cause::NotUnderstood);
        self.error(cause, &format!("{}: {words}", self.status))
    }

    /// What it says about the login. *Forbidden* is about it only where another login is asked for: permissions are
    /// given and taken while the login stays the same.
    pub(super) fn of_login(&self) -> OfLogin {
        match self.status {
            401 => OfLogin::Refused,
            403 if self.asks_for_another_login() => OfLogin::Refused,
            403 | 407 | 408 | 429 | 500.. => OfLogin::Unknown,
            _ => OfLogin::Taken,
        }
    }

    fn asks_for_another_login(&self) -> bool {
        let challenges = self.headers.get_all(header::WWW_AUTHENTICATE);
        let mut challenges = challenges
            .into_iter()
            .map(|v| String::from_utf8_lossy(v.as_bytes()));
        challenges.any(|challenge| !challenge.contains("insufficient_scope"))
    }

    /// The body as a JSON document.
    ///
    /// # Errors
    /// *Not understood*, with what was there instead.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, AdapterError> {
        serde_json::from_slice(&self.body).map_err(|why| {
            let body = String::from_utf8_lossy(&self.body);
            let detail = if body.trim().is_empty() {
                format!("{} with an empty body", self.status)
            } else if serde_json::from_str::<serde::de::IgnoredAny>(&body).is_ok() {
                format!("{} with JSON of another shape: {why}", self.status)
            } else {
                let kind = self
                    .headers
                    .get(header::CONTENT_TYPE)
                    .and_then(|v| v.to_str().ok());
                let kind = kind.unwrap_or("an unnamed type");
                format!(
                    "{} with {kind}, which is no JSON: {}",
                    self.status,
                    words_of(&self.body)
                )
            };
            self.error(Cause::NotUnderstood, &detail)
        })
    }

    fn retry_after(&self) -> Option<Duration> {
        let value = self.headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
        let wait = match value.parse::<u64>() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => {
                let now = self.date().unwrap_or_else(Utc::now);
                (http_date(value)? - now).to_std().unwrap_or_default()
            }
        };
        Some(wait.min(RETRY_AFTER_CAP))
    }
}

fn http_date(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc2822(text.trim()).ok().map(|t| t.to_utc())
}
