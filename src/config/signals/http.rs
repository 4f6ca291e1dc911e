//! Where an HTTP endpoint is and how it is logged in to.

use super::{
    super::{
        problem::Report,
        read::{Entry, Section},
        secret::SecretSource,
        secret_source::{secret_source, sounds_secret},
        values,
    },
    time,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// The keys of an HTTP endpoint.
pub(super) const KEYS: [&str; 6] = ["url", "deadline", "basic", "bearer", "headers", "ca_file"];
/// How long one read may take unless the file says otherwise.
const DEADLINE: Duration = Duration::from_secs(5);

/// An HTTP endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpConfig {
    /// Base url; a path prefix is kept.
    pub url: String,
    /// How to log in.
    pub auth: Option<HttpAuth>,
    /// Further headers; values may be secret.
    pub headers: BTreeMap<String, SecretSource>,
    /// Plain further headers.
    pub plain_headers: BTreeMap<String, String>,
    /// An additional certificate authority, PEM.
    pub ca_file: Option<PathBuf>,
    /// How long one request may take.
    pub deadline: Duration,
}

/// How to log in to an HTTP endpoint.
#[derive(Debug, Clone, PartialEq)]
pub enum HttpAuth {
    /// User and password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: SecretSource,
    },
    /// A ready token.
    Bearer(SecretSource),
}

impl HttpConfig {
    /// An endpoint without a login, further headers or an authority of its own, that answers within five seconds.
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            auth: None,
            headers: BTreeMap::new(),
            plain_headers: BTreeMap::new(),
            ca_file: None,
            deadline: DEADLINE,
        }
    }
}

/// Reads the endpoint of a signal; `what` it is, as in `a Prometheus`.
pub(super) fn http(
    report: &mut Report<'_>,
    section: &Section<'_>,
    folder: &Path,
    what: &str,
) -> Option<HttpConfig> {
    let url = section
        .required(report, "url", &format!("the base URL of {what}"))
        .and_then(|e| values::base_url(report, &e));
    let auth = auth(report, section, folder);
    let headers = match section.get("headers") {
        Some(e) => headers(report, &e, section, folder),
        None => Some((BTreeMap::new(), BTreeMap::new())),
    };
    let ca_file = match section.get("ca_file") {
        Some(e) => values::path(report, &e, folder).map(Some),
        None => Some(None),
    };
    let deadline = time(report, section, "deadline", DEADLINE);
    let (headers, plain_headers) = headers?;
    Some(HttpConfig {
        url: url?,
        auth: auth?,
        headers,
        plain_headers,
        ca_file: ca_file?,
        deadline: deadline?,
    })
}

fn auth(report: &mut Report<'_>, section: &Section<'_>, folder: &Path) -> Option<Option<HttpAuth>> {
    match (section.get("basic"), section.get("bearer")) {
        (None, None) => Some(None),
        (Some(_), Some(bearer)) => {
            let help = "an endpoint is logged in to in one way";
            bearer.problem(report, "both basic and bearer", "at most one of them", help);
            None
        }
        (None, Some(bearer)) => {
            secret_source(report, &bearer, folder).map(|source| Some(HttpAuth::Bearer(source)))
        }
        (Some(basic), None) => {
            let shape = "{ user = \"..\", password = { env = \"..\" } }";
            let table = basic.section(report, shape)?;
            table.only(report, &["user", "password"]);
            let user = table
                .required(report, "user", "the user's name")
                .and_then(|e| user(report, &e));
            let password = table
                .required(report, "password", "where the password comes from")
                .and_then(|e| secret_source(report, &e, folder));
            Some(Some(HttpAuth::Basic {
                user: user?,
                password: password?,
            }))
        }
    }
}

pub(in crate::config) fn user(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<String> {
    let user = entry.text(report, "the user's name")?;
    if user.contains(':') {
        // `user:password` is a slip that must not be repeated.
        entry.problem(report, "a name with `:` in it", "the user's name alone", "");
        return None;
    }
    Some(user.to_owned())
}

pub(in crate::config) type Headers = (BTreeMap<String, SecretSource>, BTreeMap<String, String>);

pub(in crate::config) fn headers(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    section: &Section<'_>,
    folder: &Path,
) -> Option<Headers> {
    let table = entry.section(report, "a table, as in { \"X-Scope-OrgID\" = \"orders\" }")?;
    let (mut secret, mut plain): Headers = Default::default();
    let mut seen: Vec<String> = Vec::new();
    let mut sound = true;
    for header in table.entries() {
        let name = header.key.to_ascii_lowercase();
        let read = check_header_name(report, &header, &name, &seen, section)
            .and_then(|()| header_value(report, &header, folder));
        seen.push(name);
        match read {
            Some(Ok(value)) => drop(plain.insert(header.key.to_owned(), value)),
            Some(Err(source)) => drop(secret.insert(header.key.to_owned(), source)),
            None => sound = false,
        }
    }
    sound.then_some((secret, plain))
}

fn check_header_name(
    report: &mut Report<'_>,
    header: &Entry<'_>,
    name: &str,
    seen: &[String],
    section: &Section<'_>,
) -> Option<()> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let at = header.key_span.start;
    let mut refuse = |found: &str, expected: &str| {
        report.add(
            at,
            &header.path,
            found.to_owned(),
            expected.to_owned(),
            String::new(),
        );
        None
    };
    if name.is_empty() || !name.bytes().all(token) {
        return refuse("a text that is no header's name", "letters, digits and `-`");
    }
    if seen.iter().any(|s| s == name) {
        return refuse(
            "this header a second time",
            "each header once, in small or capital letters",
        );
    }
    if name == "authorization"
        && let Some(other) = ["basic", "bearer", "auth"]
            .iter()
            .find(|k| section.get(k).is_some())
    {
        let other = if *other == "auth" {
            "auth"
        } else {
            "basic or bearer"
        };
        return refuse(&format!("this header beside {other}"), "one way to log in");
    }
    Some(())
}

/// A plain value is `Ok`, where a secret one comes from is `Err`.
fn header_value(
    report: &mut Report<'_>,
    header: &Entry<'_>,
    folder: &Path,
) -> Option<Result<String, SecretSource>> {
    if header.is_table() || sounds_secret(header.key) {
        return secret_source(report, header, folder).map(Err);
    }
    let expected = "a text, or a secret such as { env = \"NAME\" }";
    let value = header.any_text(report, expected)?;
    if value.bytes().any(|b| b.is_ascii_control()) || !value.is_ascii() {
        header.problem(
            report,
            "a text that no header may hold",
            "letters, digits and signs of ASCII",
            "",
        );
        return None;
    }
    Some(Ok(value.to_owned()))
}
