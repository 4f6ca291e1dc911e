//! TLS and logins.

use super::{Broker, config, failed, read, value};
use backfill::{
    config::{KafkaConfig, KafkaIdentity, KafkaSasl, KafkaTls, SaslMechanism, Unit, secret::SecretSource},
    net::Cause,
    signals::{LagSource, kafka::Kafka},
};
use std::path::PathBuf;

const MECHANISMS: [(SaslMechanism, &str); 3] = [
    (SaslMechanism::Plain, "PLAIN"),
    (SaslMechanism::ScramSha256, "SCRAM-SHA-256"),
    (SaslMechanism::ScramSha512, "SCRAM-SHA-512"),
];

fn path(line: &str) -> PathBuf {
    Broker::get().line(line).into()
}

/// A group with a lag of three, read over a guarded listener.
async fn guarded(group: &str, listener: &str) -> KafkaConfig {
    let hands = Broker::get().hands().await;
    hands.topic(group, 1).await;
    hands.produce(group, 0, 3).await;
    hands.commit(group, group, &[(0, 0)]).await;
    let mut config = config(&[group]);
    config.brokers = vec![Broker::get().line(listener).to_owned()];
    config.tls = Some(KafkaTls {
        ca_file: Some(path("KAFKA_CA")),
        identity: None,
    });
    config
}

fn login(mechanism: SaslMechanism, dir: &tempfile::TempDir, password: &str) -> KafkaSasl {
    let file = dir.path().join("password");
    std::fs::write(&file, format!("{password}\n")).unwrap();
    KafkaSasl {
        mechanism,
        user: Broker::get().line("KAFKA_USER").to_owned(),
        password: SecretSource::File(file),
    }
}

#[tokio::test]
async fn each_way_to_log_in_works_over_tls() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = guarded("login", "KAFKA_SASL_BROKERS").await;
    for (mechanism, word) in MECHANISMS {
        config.sasl = Some(login(mechanism, &dir, Broker::get().line("KAFKA_PASSWORD")));
        assert_eq!(value(read(&config, Unit::Messages).await).0, 3.0, "{word}");
        if let Some(seen) = Broker::get().seen("sasl") {
            assert!(seen.contains(&format!("accepted {word}\n")), "{word}: {seen}");
        }
    }
    // Records come the same way.
    let age = value(read(&config, Unit::Seconds).await).0;
    assert!((0.0..60.0).contains(&age), "{age}");
}

#[tokio::test]
async fn a_refused_login_says_so_and_is_not_repeated_until_the_password_changes() {
    let dir = tempfile::tempdir().unwrap();
    let right = Broker::get().line("KAFKA_PASSWORD");
    let mut config = guarded("refused", "KAFKA_SASL_BROKERS").await;
    for (mechanism, word) in MECHANISMS {
        config.sasl = Some(login(mechanism, &dir, "wr0ng-password"));
        let source = Kafka::new("orders", &config, Unit::Messages);
        let error = failed(source.read().await);
        assert_eq!(error.cause, Cause::Unauthorized, "{word}: {error}");
        assert!(!error.to_string().contains("wr0ng-password"), "{error}");
        assert!(error.elapsed < config.deadline / 2, "{error}");
        let again = failed(source.read().await);
        assert_eq!(again.cause, Cause::Unauthorized);
        assert_eq!(again.tried, "nothing sent, the password is still the refused one");
        login(mechanism, &dir, right);
        assert_eq!(
            value(source.read().await).0,
            3.0,
            "{word}: a new password is sent at once"
        );
    }
}

#[tokio::test]
async fn without_a_login_such_a_listener_gives_nothing() {
    let config = guarded("nobody", "KAFKA_SASL_BROKERS").await;
    let error = failed(read(&config, Unit::Messages).await);
    assert!(
        matches!(error.cause, Cause::Broken | Cause::Timeout | Cause::Unauthorized),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_password_is_named_by_its_place() {
    let mut config = guarded("unset", "KAFKA_SASL_BROKERS").await;
    config.sasl = Some(KafkaSasl {
        mechanism: SaslMechanism::Plain,
        user: "etl".to_owned(),
        password: SecretSource::Env("BACKFILL_NO_SUCH_VARIABLE".to_owned()),
    });
    let error = failed(read(&config, Unit::Messages).await);
    assert_eq!(error.cause, Cause::Local);
    assert!(
        error.detail.contains("BACKFILL_NO_SUCH_VARIABLE is not set"),
        "{error}"
    );
}

#[tokio::test]
async fn a_certificate_of_ours_is_shown_to_brokers_that_ask_for_one() {
    let mut config = guarded("mutual", "KAFKA_MTLS_BROKERS").await;
    let error = failed(read(&config, Unit::Messages).await);
    assert!(matches!(error.cause, Cause::Tls | Cause::Broken), "{error}");
    config.tls = Some(KafkaTls {
        ca_file: Some(path("KAFKA_CA")),
        identity: Some(KafkaIdentity {
            cert_file: path("KAFKA_CLIENT_CERT"),
            key_file: path("KAFKA_CLIENT_KEY"),
        }),
    });
    assert_eq!(value(read(&config, Unit::Messages).await).0, 3.0);
}

/// Case S05.
#[tokio::test]
async fn an_authority_that_is_not_trusted_is_told_with_the_way_to_trust_it() {
    let mut config = guarded("distrust", "KAFKA_MTLS_BROKERS").await;
    for (ca_file, word) in [
        (Some(path("KAFKA_OTHER_CA")), "tls.ca_file"),
        (None, "ca_file = "),
    ] {
        config.tls = Some(KafkaTls {
            ca_file,
            identity: None,
        });
        let error = failed(read(&config, Unit::Messages).await);
        assert_eq!(error.cause, Cause::Tls, "{error}");
        assert!(error.detail.contains(word), "{error}");
        assert!(error.elapsed < config.deadline / 2, "{error}");
    }
    config.tls = Some(KafkaTls {
        ca_file: Some("/nowhere/ca.pem".into()),
        identity: None,
    });
    let error = failed(read(&config, Unit::Messages).await);
    assert_eq!(error.cause, Cause::Local);
    assert!(error.detail.contains("/nowhere/ca.pem"), "{error}");
}

#[tokio::test]
async fn tls_towards_a_plain_listener_and_plain_towards_tls_fail_with_advice() {
    let mut config = guarded("mixed", "KAFKA_BROKERS").await;
    config.deadline = std::time::Duration::from_secs(3);
    let to_plain = failed(read(&config, Unit::Messages).await);
    config.tls = None;
    config.brokers = vec![Broker::get().line("KAFKA_MTLS_BROKERS").to_owned()];
    let to_tls = failed(read(&config, Unit::Messages).await);
    assert!(to_plain.elapsed < std::time::Duration::from_secs(4), "{to_plain}");
    assert!(to_tls.elapsed < std::time::Duration::from_secs(4), "{to_tls}");
    assert!(
        to_plain.detail.contains("is this a listener without TLS?"),
        "{to_plain}"
    );
    assert!(
        to_tls.detail.contains("TLS listener") || to_tls.detail.contains("a listener with TLS"),
        "{to_tls}"
    );
}
