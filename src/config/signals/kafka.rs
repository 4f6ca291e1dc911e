//! `kind = "kafka"`.

use super::{
    super::{
        problem::Report,
        read::{Entry, Section, quoted},
        secret::SecretSource,
        secret_source::secret_source,
        values,
    },
    time,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

/// The keys beside those of every kind.
pub(super) const KEYS: [&str; 11] = [
    "brokers",
    "groups",
    "topics",
    "expect",
    "partitions_without_commit",
    "isolation",
    "stalled_after",
    "most_fetches",
    "tls",
    "sasl",
    "deadline",
];
/// How long one read may take unless the file says otherwise.
const DEADLINE: Duration = Duration::from_secs(5);
/// How long a group with lag may stand still unless the file says otherwise.
const STALLED_AFTER: Duration = Duration::from_secs(300);
/// Of how many partitions of a group a record is fetched unless the file says otherwise.
const MOST_FETCHES: u32 = 64;
/// More partitions than this no topic has.
const MOST_PARTITIONS: u64 = 1_000_000;
/// The longest name of a topic.
const LONGEST_TOPIC: usize = 249;

/// Consumer groups of a Kafka cluster, read from its brokers.
#[derive(Debug, Clone, PartialEq)]
pub struct KafkaConfig {
    /// Where to begin, each `host:port`. The cluster tells the rest.
    pub brokers: Vec<String>,
    /// The consumer groups, at least one, none of them twice.
    pub groups: Vec<String>,
    /// Only these topics; empty: every topic of a group.
    pub topics: BTreeSet<String>,
    /// How many partitions of a topic must have a commit.
    pub expect: Expect,
    /// What a partition without a commit does to the reading.
    pub without_commit: WithoutCommit,
    /// Where the end of a partition is.
    pub isolation: Isolation,
    /// How long a group with lag may stand still before it is stalled.
    pub stalled_after: Duration,
    /// Of how many partitions of a group a record is fetched in one read, for lag in seconds.
    pub most_fetches: u32,
    /// How the connections are encrypted; `None`: not at all.
    pub tls: Option<KafkaTls>,
    /// How to log in.
    pub sasl: Option<KafkaSasl>,
    /// How long one read may take.
    pub deadline: Duration,
}

impl KafkaConfig {
    /// Groups behind plain brokers, everything else as it is unless a file says otherwise.
    pub fn at(brokers: Vec<String>, groups: Vec<String>) -> Self {
        Self {
            brokers,
            groups,
            topics: BTreeSet::new(),
            expect: Expect::Share,
            without_commit: WithoutCommit::Partial,
            isolation: Isolation::ReadUncommitted,
            stalled_after: STALLED_AFTER,
            most_fetches: MOST_FETCHES,
            tls: None,
            sasl: None,
            deadline: DEADLINE,
        }
    }
}

/// How many partitions of a topic must have a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// 90 % of those that the topic has (law C1).
    Share,
    /// So many of every topic.
    Each(u32),
    /// So many of these topics; 90 % of any other.
    Of(BTreeMap<String, u32>),
}

/// What a partition without a commit does to the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutCommit {
    /// It is unknown; too many of them make the reading partial.
    Partial,
    /// It is left out.
    Ignore,
}

/// Where the end of a partition is for its consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Behind the last record.
    ReadUncommitted,
    /// Before the first record of an open transaction.
    ReadCommitted,
}

/// How connections are encrypted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KafkaTls {
    /// The only authorities that are trusted, PEM; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// A certificate of ours, for brokers that ask for one.
    pub identity: Option<KafkaIdentity>,
}

/// A client's certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaIdentity {
    /// The certificate, PEM.
    pub cert_file: PathBuf,
    /// Its private key, PEM, not encrypted.
    pub key_file: PathBuf,
}

/// How to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaSasl {
    /// The way.
    pub mechanism: SaslMechanism,
    /// The user.
    pub user: String,
    /// The password.
    pub password: SecretSource,
}

/// The ways to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    /// The password goes to the broker.
    Plain,
    /// A proof of the password goes to the broker.
    ScramSha256,
    /// As the other, with the longer digest.
    ScramSha512,
}

impl SaslMechanism {
    const WORDS: [(&str, Self); 3] = [
        ("plain", Self::Plain),
        ("scram-sha-256", Self::ScramSha256),
        ("scram-sha-512", Self::ScramSha512),
    ];

    /// The word in the file.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::ScramSha256 => "scram-sha-256",
            Self::ScramSha512 => "scram-sha-512",
        }
    }
}

pub(super) fn read(report: &mut Report<'_>, section: &Section<'_>, folder: &Path) -> Option<KafkaConfig> {
    let brokers = section
        .required(report, "brokers", BROKERS)
        .and_then(|e| brokers(report, &e));
    let groups = section
        .required(report, "groups", GROUPS)
        .and_then(|e| names(report, &e, GROUPS, |_| true));
    let topics = match section.get("topics") {
        Some(e) => names(report, &e, TOPICS, is_topic),
        None => Some(Vec::new()),
    };
    let expect = match section.get("expect") {
        Some(e) => expect(report, &e),
        None => Some(Expect::Share),
    };
    let without_commit = match section.get("partitions_without_commit") {
        Some(e) => e.word(
            report,
            &[
                ("partial", WithoutCommit::Partial),
                ("ignore", WithoutCommit::Ignore),
            ],
        ),
        None => Some(WithoutCommit::Partial),
    };
    let isolation = match section.get("isolation") {
        Some(e) => e.word(
            report,
            &[
                ("read_uncommitted", Isolation::ReadUncommitted),
                ("read_committed", Isolation::ReadCommitted),
            ],
        ),
        None => Some(Isolation::ReadUncommitted),
    };
    let stalled_after = match section.get("stalled_after") {
        Some(e) => e.duration(report, Duration::from_secs(1), Duration::from_secs(7 * 86_400)),
        None => Some(STALLED_AFTER),
    };
    let most_fetches = match section.get("most_fetches") {
        Some(e) => e.whole(report, 1, 10_000).and_then(|n| u32::try_from(n).ok()),
        None => Some(MOST_FETCHES),
    };
    let tls = match section.get("tls") {
        Some(e) => tls(report, &e, folder),
        None => Some(None),
    };
    let sasl = match section.get("sasl") {
        Some(e) => sasl(report, &e, folder).map(Some),
        None => Some(None),
    };
    let deadline = time(report, section, "deadline", DEADLINE);
    if let (Some(brokers), Some(None), Some(sasl)) = (&brokers, &tls, section.get("sasl")) {
        refuse_plain_passwords(report, &sasl, brokers)?;
    }
    Some(KafkaConfig {
        brokers: brokers?,
        groups: groups?,
        topics: topics?.into_iter().collect(),
        expect: expect?,
        without_commit: without_commit?,
        isolation: isolation?,
        stalled_after: stalled_after?,
        most_fetches: most_fetches?,
        tls: tls?,
        sasl: sasl?,
        deadline: deadline?,
    })
}

const BROKERS: &str = "a list of brokers, as in [\"kafka-1.example:9092\"]";
pub(super) const GROUPS: &str = "a list of consumer groups, as in [\"orders-live\"]";
pub(super) const TOPICS: &str = "a list of topics, as in [\"orders\"]";

fn brokers(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<Vec<String>> {
    let brokers = names(report, entry, BROKERS, |_| true)?;
    let wrong = brokers.iter().find(|b| !is_broker(b));
    if let Some(wrong) = wrong {
        let help = "host and port without a scheme; the port of a listener is in the brokers' `listeners`";
        // What stands before an `@` may be a password.
        let found = if wrong.contains('@') {
            "a broker with a user or password in it".to_owned()
        } else {
            quoted(wrong)
        };
        entry.problem(report, found, BROKERS, help);
        return None;
    }
    Some(brokers)
}

/// A list of different texts, at least one.
pub(super) fn names(
    report: &mut Report<'_>,
    entry: &Entry<'_>,
    expected: &str,
    fits: impl Fn(&str) -> bool,
) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    let mut sound = true;
    for item in entry.list(report, expected)? {
        match item.text(report, expected) {
            Some(name) if names.iter().any(|n| n == name) => {
                item.problem(report, format!("{} a second time", quoted(name)), "each once", "");
                sound = false;
            }
            Some(name) if !fits(name) => {
                item.problem(report, quoted(name), expected, "");
                sound = false;
            }
            Some(name) => names.push(name.to_owned()),
            None => sound = false,
        }
    }
    if names.is_empty() && sound {
        entry.problem(report, "an empty list", expected, "");
        return None;
    }
    sound.then_some(names)
}

pub(super) fn is_topic(name: &str) -> bool {
    name.len() <= LONGEST_TOPIC
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// `host:port`, an IPv6 address in brackets.
fn is_broker(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let port = !port.starts_with('+') && port.parse::<u16>().is_ok_and(|p| p > 0);
    let host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b))
        }
    };
    port && host
}

/// Whether what is sent to this broker stays on this host.
fn is_loopback(broker: &str) -> bool {
    let host = broker.rsplit_once(':').map_or(broker, |(host, _)| host);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|a| a.is_loopback())
}

/// A login without encryption can be read by everybody on the way.
fn refuse_plain_passwords(report: &mut Report<'_>, sasl: &Entry<'_>, brokers: &[String]) -> Option<()> {
    if brokers.iter().all(|b| is_loopback(b)) {
        return Some(());
    }
    let help = "without TLS a login can be read on its way; add tls = true or tls = { ca_file = \"..\" }";
    sasl.problem(report, "a login without tls", "tls beside sasl", help);
    None
}

fn expect(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<Expect> {
    let partitions = |report: &mut Report<'_>, e: &Entry<'_>| {
        e.whole(report, 1, MOST_PARTITIONS)
            .and_then(|n| u32::try_from(n).ok())
    };
    if !entry.is_table() {
        return partitions(report, entry).map(Expect::Each);
    }
    let shape = "a number of partitions, or a table such as { orders = 12 }";
    let table = entry.section(report, shape)?;
    let read: Vec<Option<(String, u32)>> = table
        .entries()
        .map(|e| partitions(report, &e).map(|n| (e.key.to_owned(), n)))
        .collect();
    read.into_iter().collect::<Option<_>>().map(Expect::Of)
}

fn tls(report: &mut Report<'_>, entry: &Entry<'_>, folder: &Path) -> Option<Option<KafkaTls>> {
    let shape = "true, false or a table such as { ca_file = \"kafka-ca.pem\" }";
    if !entry.is_table() {
        if entry.kind() != "true or false" {
            entry.wrong_type(report, shape, "");
            return None;
        }
        return entry.flag(report).map(|wanted| wanted.then(KafkaTls::default));
    }
    let table = entry.section(report, shape)?;
    table.only(report, &["ca_file", "cert_file", "key_file"]);
    let mut file = |key: &str| match table.get(key) {
        Some(e) => values::path(report, &e, folder).map(Some),
        None => Some(None),
    };
    let (ca_file, cert_file, key_file) = (file("ca_file")?, file("cert_file")?, file("key_file")?);
    let identity = match (cert_file, key_file) {
        (Some(cert_file), Some(key_file)) => Some(KafkaIdentity { cert_file, key_file }),
        (None, None) => None,
        _ => {
            let help = "a certificate of ours needs its private key, and a key its certificate";
            entry.problem(report, "only one of cert_file and key_file", "both or none", help);
            return None;
        }
    };
    Some(Some(KafkaTls { ca_file, identity }))
}

fn sasl(report: &mut Report<'_>, entry: &Entry<'_>, folder: &Path) -> Option<KafkaSasl> {
    let shape = "{ mechanism = \"scram-sha-512\", user = \"..\", password = { env = \"..\" } }";
    let table = entry.section(report, shape)?;
    table.only(report, &["mechanism", "user", "password"]);
    let mechanism = table
        .required(
            report,
            "mechanism",
            "\"plain\", \"scram-sha-256\" or \"scram-sha-512\"",
        )
        .and_then(|e| e.word(report, &SaslMechanism::WORDS));
    let user = table
        .required(report, "user", "the user's name")
        .and_then(|e| e.text(report, "the user's name").map(str::to_owned));
    let password = table
        .required(report, "password", "where the password comes from")
        .and_then(|e| secret_source(report, &e, folder));
    Some(KafkaSasl {
        mechanism: mechanism?,
        user: user?,
        password: password?,
    })
}

#[cfg(test)]
#[path = "kafka_tests.rs"]
mod tests;
