use super::*;
use crate::config::{Config, SignalConfig, SourceConfig, Unit};
use rstest::rstest;

fn config(lines: &str) -> Result<Config, String> {
    let text =
        format!("[executors.here]\nkind = \"local\"\n[signals.orders]\nkind = \"cloudwatch\"\n{lines}\n");
    Config::parse(&text, Path::new("/etc/backfill/config.toml")).map_err(|e| e.to_string())
}

fn signal(lines: &str) -> Result<SignalConfig, String> {
    Ok(config(lines)?.signals.values().next().unwrap().clone())
}

fn source(lines: &str) -> CloudWatchConfig {
    match signal(lines).unwrap().source {
        SourceConfig::CloudWatch(source) => source,
        other => panic!("{other:?}"),
    }
}

const LEAST: &str = "region = \"eu-central-1\"\nstreams = [\"orders\", \"clicks\"]";

#[test]
fn region_and_streams_are_enough_for_seconds_once_a_minute() {
    let signal = signal(LEAST).unwrap();
    assert_eq!(
        (signal.unit, signal.soft, signal.critical, signal.interval),
        (Unit::Seconds, 60.0, 900.0, Duration::from_secs(60))
    );
    let streams = vec!["orders".to_owned(), "clicks".to_owned()];
    let expected = CloudWatchConfig::of("eu-central-1", streams);
    assert_eq!(signal.source, SourceConfig::CloudWatch(expected));
}

#[test]
fn every_key_is_read() {
    let read = source(&format!(
        "{LEAST}\nconsumer = \"live\"\nendpoint = \"https://vpce.example/\"\nca_file = \"ca.pem\"\ndeadline = \"3s\"\n\
         access_key = {{ env = \"A\" }}\nsecret_key = {{ file = \"key\" }}\n\
         session_token = {{ command = [\"token\"] }}"
    ));
    assert_eq!(
        (read.consumer.as_deref(), read.endpoint.as_deref()),
        (Some("live"), Some("https://vpce.example"))
    );
    assert_eq!(read.ca_file, Some("/etc/backfill/ca.pem".into()));
    assert_eq!(read.deadline, Duration::from_secs(3));
    let keys = AwsKeys {
        access_key: SecretSource::Env("A".to_owned()),
        secret_key: SecretSource::File("/etc/backfill/key".into()),
        session_token: Some(SecretSource::Command(vec!["token".to_owned()])),
    };
    assert_eq!(read.keys, Some(keys));
}

#[rstest]
#[case::no_region("streams = [\"a\"]", "region")]
#[case::a_host("region = \"evil.example/x\"\nstreams = [\"a\"]", "the name of a region")]
#[case::no_stream("region = \"eu-central-1\"\nstreams = []", "an empty list")]
#[case::an_arn(
    "region = \"eu-central-1\"\nstreams = [\"arn:aws:kinesis:1\"]",
    "a list of Kinesis streams"
)]
#[case::twice("region = \"eu-central-1\"\nstreams = [\"a\", \"a\"]", "a second time")]
#[case::a_unit(&format!("{LEAST}\nunit = \"seconds\""), "unit")]
#[case::a_path(&format!("{LEAST}\nendpoint = \"https://x.example/aws\""), "a URL with a path")]
#[case::half_a_key(&format!("{LEAST}\naccess_key = {{ env = \"A\" }}"), "only a part of access_key")]
#[case::a_token_alone(&format!("{LEAST}\nsession_token = {{ env = \"A\" }}"), "only a part of access_key")]
#[case::a_plain_key(
    &format!("{LEAST}\naccess_key = \"AKIA\"\nsecret_key = \"s3cret-value\""),
    "a secret must not stand in this file"
)]
fn what_cannot_be_asked_for_is_refused_with_its_key(#[case] lines: &str, #[case] words: &str) {
    let refused = signal(lines).unwrap_err();
    assert!(refused.contains(words), "{refused}");
    assert!(!refused.contains("s3cret-value"), "{refused}");
}

#[test]
fn no_more_streams_than_one_call_can_ask_for() {
    let of = |n: usize| {
        let names: Vec<String> = (0..n).map(|n| format!("\"s{n}\"")).collect();
        signal(&format!(
            "region = \"eu-central-1\"\nstreams = [{}]",
            names.join(", ")
        ))
    };
    assert!(of(500).is_ok());
    let refused = of(501).unwrap_err();
    assert!(refused.contains("501 streams"), "{refused}");
}

#[test]
fn a_difference_names_the_keys_and_no_secret() {
    let old = config(LEAST).unwrap();
    let other = LEAST.replace("eu-central-1", "us-east-1");
    let new = config(&format!(
        "{other}\nconsumer = \"live\"\nendpoint = \"https://vpce.example\"\nca_file = \"/ca.pem\"\ndeadline = \"3s\"\n\
         access_key = {{ env = \"HIDDEN_A\" }}\nsecret_key = {{ env = \"HIDDEN_B\" }}"
    ))
    .unwrap();
    assert_eq!(
        old.diff(&new),
        [
            "signals.orders.region eu-central-1 to us-east-1",
            "signals.orders.consumer none to live",
            "signals.orders.endpoint none to https://vpce.example",
            "signals.orders login changed",
            "signals.orders.ca_file none to /ca.pem",
            "signals.orders.deadline 10s to 3s",
        ]
    );
}
