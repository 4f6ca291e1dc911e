use super::*;
use crate::config::{Config, SourceConfig};

fn parse(lines: &str) -> Result<KafkaConfig, String> {
    let text = format!(
        "[executors.here]\nkind = \"local\"\n[signals.orders]\nkind = \"kafka\"\nunit = \"seconds\"\n{lines}\n"
    );
    let config = Config::parse(&text, Path::new("/etc/backfill/config.toml")).map_err(|e| e.to_string())?;
    match &config.signals.values().next().unwrap().source {
        SourceConfig::Kafka(kafka) => Ok(kafka.clone()),
        other => panic!("{other:?}"),
    }
}

const LEAST: &str = "brokers = [\"k1:9092\", \"[::1]:9093\"]\ngroups = [\"live\", \"pay\"]";

#[test]
fn brokers_and_groups_are_enough() {
    let config = parse(LEAST).unwrap();
    let expected = KafkaConfig::at(
        vec!["k1:9092".into(), "[::1]:9093".into()],
        vec!["live".into(), "pay".into()],
    );
    assert_eq!(config, expected);
    assert_eq!(config.deadline, Duration::from_secs(5));
    assert_eq!(config.stalled_after, Duration::from_secs(300));
}

#[test]
fn every_key_is_read() {
    let config = parse(&format!(
        "{LEAST}\ntopics = [\"orders\", \"clicks.v2\"]\nexpect = {{ orders = 12, \"clicks.v2\" = 3 }}\n\
         partitions_without_commit = \"ignore\"\nisolation = \"read_committed\"\nstalled_after = \"10m\"\n\
         most_fetches = 7\ndeadline = \"2s\"\n\
         tls = {{ ca_file = \"ca.pem\", cert_file = \"me.pem\", key_file = \"/k/me.key\" }}\n\
         sasl = {{ mechanism = \"scram-sha-512\", user = \"a:b\", password = {{ env = \"KAFKA_PASSWORD\" }} }}"
    ))
    .unwrap();
    assert_eq!(config.topics, ["clicks.v2".to_owned(), "orders".into()].into());
    assert_eq!(
        config.expect,
        Expect::Of([("clicks.v2".to_owned(), 3), ("orders".into(), 12)].into())
    );
    assert_eq!(config.without_commit, WithoutCommit::Ignore);
    assert_eq!(config.isolation, Isolation::ReadCommitted);
    assert_eq!(
        (config.stalled_after, config.deadline, config.most_fetches),
        (Duration::from_secs(600), Duration::from_secs(2), 7)
    );
    assert_eq!(
        config.tls,
        Some(KafkaTls {
            ca_file: Some("/etc/backfill/ca.pem".into()),
            identity: Some(KafkaIdentity {
                cert_file: "/etc/backfill/me.pem".into(),
                key_file: "/k/me.key".into(),
            }),
        })
    );
    assert_eq!(
        config.sasl,
        Some(KafkaSasl {
            mechanism: SaslMechanism::ScramSha512,
            user: "a:b".into(),
            password: SecretSource::Env("KAFKA_PASSWORD".into()),
        })
    );
    let same = parse(&format!("{LEAST}\nexpect = 4\ntls = true")).unwrap();
    assert_eq!(
        (same.expect, same.tls),
        (Expect::Each(4), Some(KafkaTls::default()))
    );
    assert_eq!(parse(&format!("{LEAST}\ntls = false")).unwrap().tls, None);
}

#[test]
fn a_login_without_tls_is_refused_unless_it_stays_on_this_host() {
    let sasl = "sasl = { mechanism = \"plain\", user = \"etl\", password = { env = \"P\" } }";
    let why = parse(&format!("{LEAST}\n{sasl}")).unwrap_err();
    assert!(
        why.contains("signals.orders.sasl") && why.contains("a login without tls"),
        "{why}"
    );
    assert!(parse(&format!("{LEAST}\ntls = true\n{sasl}")).is_ok());
    for brokers in ["127.0.0.1:9092", "LOCALHOST:1", "[::1]:9"] {
        let local = format!("brokers = [\"{brokers}\"]\ngroups = [\"g\"]\n{sasl}");
        assert!(parse(&local).is_ok(), "{brokers}");
    }
    let one_is_far = format!("brokers = [\"127.0.0.1:1\", \"localhost.evil:1\"]\ngroups = [\"g\"]\n{sasl}");
    assert!(parse(&one_is_far).is_err());
}

#[test]
fn what_is_wrong_is_named_with_its_key() {
    for (lines, key, word) in [
        ("groups = [\"g\"]", "brokers", "nothing"),
        ("brokers = [\"k:1\"]", "groups", "nothing"),
        ("brokers = []\ngroups = [\"g\"]", "brokers", "an empty list"),
        (
            "brokers = [\"k:1\"]\ngroups = [\"g\", \"g\"]",
            "groups[1]",
            "a second time",
        ),
        ("brokers = [\"k\"]\ngroups = [\"g\"]", "brokers", "\"k\""),
        ("brokers = [\"http://k:1\"]\ngroups = [\"g\"]", "brokers", "http"),
        ("brokers = [\"k:0\"]\ngroups = [\"g\"]", "brokers", "k:0"),
        (
            "brokers = [\"k:1\"]\ngroups = [\"g\"]\ntopics = [\"a b\"]",
            "topics[0]",
            "a b",
        ),
        ("brokers = [\"k:1\"]\ngroups = [\"g\"]\nexpect = 0", "expect", "0"),
        (
            "brokers = [\"k:1\"]\ngroups = [\"g\"]\nexpect = { a = \"x\" }",
            "expect.a",
            "a text",
        ),
        (
            "brokers = [\"k:1\"]\ngroups = [\"g\"]\ntls = \"yes\"",
            "tls",
            "a text",
        ),
        (
            "brokers = [\"k:1\"]\ngroups = [\"g\"]\ntls = { cert_file = \"c\" }",
            "tls",
            "only one",
        ),
        (
            "brokers = [\"k:1\"]\ngroups = [\"g\"]\ntls = { ca = \"c\" }",
            "tls.ca",
            "unknown",
        ),
        (
            "brokers = [\"k:1\"]\ngroups = [\"g\"]\nisolation = \"serial\"",
            "isolation",
            "serial",
        ),
        (
            "brokers = [\"k:1\"]\ngroups = [\"g\"]\nurl = \"http://x\"",
            "url",
            "unknown",
        ),
    ] {
        let why = parse(lines).unwrap_err();
        assert!(
            why.contains(&format!("signals.orders.{key}")) && why.contains(word),
            "{lines}: {why}"
        );
    }
}

#[test]
fn a_difference_names_the_keys_and_no_secret() {
    let whole = |lines: &str| {
        let text =
            format!("[executors.here]\nkind = \"local\"\n[signals.orders]\nunit = \"seconds\"\n{lines}\n");
        Config::parse(&text, Path::new("/c.toml")).unwrap()
    };
    let kafka = format!("kind = \"kafka\"\n{LEAST}\ntls = true\n");
    let sasl = |user: &str, env: &str| {
        format!("sasl = {{ mechanism = \"plain\", user = \"{user}\", password = {{ env = \"{env}\" }} }}\n")
    };
    let old = whole(&kafka);
    let new = whole(&format!(
        "{}topics = [\"a\"]\nexpect = 3\nstalled_after = \"1m\"\n{}",
        kafka.replace("\"pay\"", "\"bill\""),
        sasl("etl", "HUNTER2")
    ));
    assert_eq!(
        old.diff(&new),
        [
            "signals.orders.groups live+pay to live+bill",
            "signals.orders.topics none to a",
            "signals.orders.expect changed",
            "signals.orders.stalled_after 5m to 1m",
            "signals.orders login none to plain etl",
        ]
    );
    let (one, other) = (
        whole(&format!("{kafka}{}", sasl("etl", "A"))),
        whole(&format!("{kafka}{}", sasl("etl", "B"))),
    );
    assert_eq!(one.diff(&other), ["signals.orders login changed"]);
    let prometheus = whole("kind = \"prometheus\"\nurl = \"http://x\"\nquery = \"y\"");
    assert_eq!(prometheus.diff(&old), ["signals.orders.kind prometheus to kafka"]);
}

#[test]
fn a_password_in_the_wrong_place_is_not_repeated() {
    let in_broker = parse("brokers = [\"etl:hunter2@k:1\"]\ngroups = [\"g\"]").unwrap_err();
    let plain = parse(&format!(
        "{LEAST}\ntls = true\nsasl = {{ mechanism = \"plain\", user = \"etl\", password = \"hunter2\" }}"
    ))
    .unwrap_err();
    assert!(
        !in_broker.contains("hunter2") && !plain.contains("hunter2"),
        "{in_broker} {plain}"
    );
}
