//! `kind = "cloudwatch"`.

use super::{
    super::{
        problem::Report,
        read::{Entry, Section, quoted},
        secret::SecretSource,
        secret_source::secret_source,
        values,
    },
    kafka::names,
    time,
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The keys beside those of every kind.
pub(super) const KEYS: [&str; 9] = [
    "region",
    "streams",
    "consumer",
    "endpoint",
    "access_key",
    "secret_key",
    "session_token",
    "ca_file",
    "deadline",
];
/// Time between two reads unless the file says otherwise: datapoints come once a minute, and each call costs money.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);
/// How long one read may take unless the file says otherwise.
const DEADLINE: Duration = Duration::from_secs(10);
/// The most metrics that one call may ask for.
const MOST_STREAMS: usize = 500;

const REGION: &str = "the name of a region, as in \"eu-central-1\"";
const STREAMS: &str = "a list of Kinesis streams, as in [\"orders\"]";
const CONSUMER: &str = "the name of a consumer with enhanced fan-out, as in \"orders-live\"";

/// Iterator ages of Kinesis streams, from CloudWatch.
#[derive(Debug, Clone, PartialEq)]
pub struct CloudWatchConfig {
    /// Where the streams are.
    pub region: String,
    /// The streams, at least one, none of them twice.
    pub streams: Vec<String>,
    /// A consumer with enhanced fan-out; `None`: whoever reads with `GetRecords`.
    pub consumer: Option<String>,
    /// Another address than the region's own, a base url without a path.
    pub endpoint: Option<String>,
    /// What requests are signed with; `None`: the usual variables of the environment.
    pub keys: Option<AwsKeys>,
    /// An additional certificate authority, PEM.
    pub ca_file: Option<PathBuf>,
    /// How long one read may take.
    pub deadline: Duration,
}

impl CloudWatchConfig {
    /// Streams of a region, everything else as it is unless a file says otherwise.
    pub fn of(region: impl Into<String>, streams: Vec<String>) -> Self {
        Self {
            region: region.into(),
            streams,
            consumer: None,
            endpoint: None,
            keys: None,
            ca_file: None,
            deadline: DEADLINE,
        }
    }
}

/// Where the parts of an access key come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsKeys {
    /// The id of the key.
    pub access_key: SecretSource,
    /// The key.
    pub secret_key: SecretSource,
    /// Of a temporary key: the token that belongs to it.
    pub session_token: Option<SecretSource>,
}

pub(super) fn read(
    report: &mut Report<'_>,
    section: &Section<'_>,
    folder: &Path,
) -> Option<CloudWatchConfig> {
    let region = section
        .required(report, "region", REGION)
        .and_then(|e| fitting(report, &e, REGION, is_region));
    let streams = section
        .required(report, "streams", STREAMS)
        .and_then(|e| streams(report, &e));
    let consumer = match section.get("consumer") {
        Some(e) => fitting(report, &e, CONSUMER, is_name).map(Some),
        None => Some(None),
    };
    let endpoint = match section.get("endpoint") {
        Some(e) => endpoint(report, &e).map(Some),
        None => Some(None),
    };
    let keys = keys(report, section, folder);
    let ca_file = match section.get("ca_file") {
        Some(e) => values::path(report, &e, folder).map(Some),
        None => Some(None),
    };
    let deadline = time(report, section, "deadline", DEADLINE);
    Some(CloudWatchConfig {
        region: region?,
        streams: streams?,
        consumer: consumer?,
        endpoint: endpoint?,
        keys: keys?,
        ca_file: ca_file?,
        deadline: deadline?,
    })
}

fn fitting(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    expected: &str,
    fits: impl Fn(&str) -> bool,
) -> Option<String> {
    let text = entry.text(report, expected)?;
    if !fits(text) {
        entry.problem(report, quoted(text), expected, "");
        return None;
    }
    Some(text.to_owned())
}

fn streams(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<Vec<String>> {
    let streams = names(report, entry, STREAMS, is_name)?;
    if streams.len() > MOST_STREAMS {
        let found = format!("{} streams", streams.len());
        let help = "CloudWatch answers for no more in one call; make several signals";
        entry.problem(report, found, format!("at most {MOST_STREAMS}"), help);
        return None;
    }
    Some(streams)
}

/// The signature covers the path, and a service behind a prefix would see another one.
fn endpoint(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<String> {
    let url = values::base_url(report, entry)?;
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    if rest.contains('/') {
        let help = "requests are signed for the path `/`";
        entry.problem(report, "a URL with a path", "a URL without a path", help);
        return None;
    }
    Some(url)
}

fn keys(report: &mut Report<'_>, section: &Section<'_>, folder: &Path) -> Option<Option<AwsKeys>> {
    let [access, secret, session] = ["access_key", "secret_key", "session_token"].map(|key| section.get(key));
    let (access, secret) = match (access, secret, &session) {
        (None, None, None) => return Some(None),
        (Some(access), Some(secret), _) => (access, secret),
        _ => {
            let found = "only a part of access_key, secret_key and session_token";
            let expected =
                "access_key and secret_key (and session_token for a temporary key), or none of them";
            let help = "without all of them AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN are taken";
            let key = ["access_key", "secret_key", "session_token"]
                .into_iter()
                .find(|key| section.get(key).is_some());
            section.problem(report, key.unwrap_or("access_key"), found, expected, help);
            return None;
        }
    };
    let access_key = secret_source(report, &access, folder);
    let secret_key = secret_source(report, &secret, folder);
    let session_token = match session {
        Some(e) => secret_source(report, &e, folder).map(Some),
        None => Some(None),
    };
    Some(Some(AwsKeys {
        access_key: access_key?,
        secret_key: secret_key?,
        session_token: session_token?,
    }))
}

/// Becomes a part of a host name.
fn is_region(name: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= 32
        && name.contains('-')
        && name.bytes().all(word)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// What Kinesis allows as the name of a stream or a consumer.
fn is_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

#[cfg(test)]
#[path = "cloudwatch_tests.rs"]
mod tests;
