//! Signs requests to AWS: Signature Version 4, as far as a request to the path `/` without a query needs it.
//!
//! The primitives are those of the TLS library. Crates that sign bring a runtime of their own along, or a C build.

use crate::config::secret::Secret;
use chrono::{DateTime, Utc};
use ring::{digest, hmac};
use std::fmt::Write as _;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// An access key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) access: String,
    pub(super) secret: Secret,
    /// Of a temporary key.
    pub(super) token: Option<Secret>,
}

/// Where a signature counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// What is signed of a request to `/`, beside the time and the token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unsigned<'a> {
    pub(super) method: &'a str,
    /// Name and value, the names in small letters; `host` has to be among them.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a str,
}

/// What is added to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signed {
    /// `x-amz-date`.
    pub(super) date: String,
    /// `authorization`.
    pub(super) authorization: Secret,
}

/// Signs a request as of `at`. The token of a temporary key is signed as the header `x-amz-security-token`.
pub(super) fn sign(request: Unsigned<'_>, keys: &Keys, scope: Scope<'_>, at: DateTime<Utc>) -> Signed {
    let date = at.format("%Y%m%dT%H%M%SZ").to_string();
    let day = at.format("%Y%m%d").to_string();
    let mut headers = request.headers.to_vec();
    headers.push(("x-amz-date", &date));
    headers.extend(
        keys.token
            .iter()
            .map(|token| ("x-amz-security-token", token.reveal())),
    );
    headers.sort_unstable();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let scope_text = format!("{day}/{}/{}/aws4_request", scope.region, scope.service);
    let canonical = canonical(request, &headers, &names);
    let to_sign = format!("{ALGORITHM}\n{date}\n{scope_text}\n{}", digest_of(&canonical));
    let signature = hex(mac(&signing_key(&keys.secret, &day, scope), &to_sign).as_ref());
    let authorization = format!(
        "{ALGORITHM} Credential={}/{scope_text}, SignedHeaders={names}, Signature={signature}",
        keys.access
    );
    Signed {
        date,
        authorization: Secret::new(authorization),
    }
}

fn canonical(request: Unsigned<'_>, headers: &[(&str, &str)], names: &str) -> String {
    let mut lines = format!("{}\n/\n\n", request.method);
    for (name, value) in headers {
        // Runs of blanks count as one, those at the ends as none.
        let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        lines.push_str(&format!("{name}:{value}\n"));
    }
    lines.push_str(&format!("\n{names}\n{}", digest_of(request.body)));
    lines
}

/// The key for one day, region and service.
fn signing_key(secret: &Secret, day: &str, scope: Scope<'_>) -> hmac::Key {
    let first = hmac::Key::new(hmac::HMAC_SHA256, format!("AWS4{}", secret.reveal()).as_bytes());
    [day, scope.region, scope.service, "aws4_request"]
        .into_iter()
        .fold(first, |key, step| {
            hmac::Key::new(hmac::HMAC_SHA256, mac(&key, step).as_ref())
        })
}

fn mac(key: &hmac::Key, text: &str) -> hmac::Tag {
    hmac::sign(key, text.as_bytes())
}

fn digest_of(text: &str) -> String {
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a text cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
#[path = "sign_tests.rs"]
mod tests;
