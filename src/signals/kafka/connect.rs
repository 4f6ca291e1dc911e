//! Making the connection: where to, encrypted how, logged in as whom.

use super::client::{ANSWER_CAP, Brokers, Cluster, Failure, failure};
use crate::{
    config::{
        KafkaConfig, KafkaSasl, KafkaTls, SaslMechanism,
        secret::{Secret, SecretSource},
    },
    net::{
        Cause,
        refusal::{Refusal, StillRefused, nothing_sent},
        use_ring,
    },
};
use async_trait::async_trait;
use krafka::{
    Kafka,
    auth::{AuthConfig, TlsConfig},
};
use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Shorter secrets are not looked for in errors: replacing every `a` hides nothing.
const SHORTEST: usize = 4;

/// Something that connects to a cluster.
#[async_trait]
pub(super) trait Connect: Send + Sync {
    /// Connects, within about this time.
    async fn connect(&self, within: Duration) -> Result<Arc<dyn Brokers>, Failure>;

    /// Told when the login was refused after the connection was made.
    fn refused(&self, why: &Failure);
}

/// The real cluster.
pub(super) struct Dialer {
    config: KafkaConfig,
    /// The last password that was sent.
    sent: Mutex<Option<Secret>>,
    refusal: Refusal<Secret, Failure>,
}

impl Dialer {
    pub(super) fn new(config: &KafkaConfig) -> Self {
        Self {
            config: config.clone(),
            sent: Mutex::new(None),
            refusal: Refusal::default(),
        }
    }

    fn sent(&self) -> MutexGuard<'_, Option<Secret>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The password, unless it is the one that was refused.
    async fn password(&self, sasl: &KafkaSasl) -> Result<Secret, Failure> {
        let secret = resolve(sasl.password.clone()).await?;
        self.refusal
            .may_send(&secret)
            .map_err(|still: StillRefused<Failure>| Failure {
                cause: still.error.cause,
                tried: nothing_sent("the password is still the refused one"),
                detail: still.detail(&still.error.detail),
            })?;
        *self.sent() = Some(secret.clone());
        Ok(secret)
    }

    /// Without the password in it, should the broker have repeated it.
    fn hidden(&self, mut failure: Failure) -> Failure {
        if let Some(secret) = &*self.sent()
            && secret.reveal().len() >= SHORTEST
        {
            failure.detail = failure.detail.replace(secret.reveal(), "***");
        }
        failure
    }
}

/// Off the runtime's threads: a file or a program may take its time.
async fn resolve(source: SecretSource) -> Result<Secret, Failure> {
    let local = |detail: String| Failure {
        cause: Cause::Local,
        tried: "the password".to_owned(),
        detail,
    };
    match tokio::task::spawn_blocking(move || source.resolve()).await {
        Ok(Ok(secret)) => Ok(secret),
        Ok(Err(why)) => Err(local(format!("sasl.password: {why}"))),
        Err(_) => Err(local("sasl.password: reading it failed".to_owned())),
    }
}

#[async_trait]
impl Connect for Dialer {
    async fn connect(&self, within: Duration) -> Result<Arc<dyn Brokers>, Failure> {
        use_ring();
        let security = match &self.config.sasl {
            None => self.config.tls.as_ref().map(|tls| AuthConfig::ssl(trust(tls))),
            Some(sasl) => {
                let password = self.password(sasl).await?;
                let login = match sasl.mechanism {
                    SaslMechanism::Plain => AuthConfig::sasl_plain(&sasl.user, password.reveal()),
                    SaslMechanism::ScramSha256 => {
                        AuthConfig::sasl_scram_sha256(&sasl.user, password.reveal())
                    }
                    SaslMechanism::ScramSha512 => {
                        AuthConfig::sasl_scram_sha512(&sasl.user, password.reveal())
                    }
                };
                Some(match &self.config.tls {
                    Some(tls) => login.with_tls(trust(tls)),
                    None => login,
                })
            }
        };
        let mut builder = Kafka::builder(self.config.brokers.join(","))
            .client_id("backfill")
            .connect_timeout(self.config.deadline)
            .request_timeout(self.config.deadline)
            .max_response_size(ANSWER_CAP);
        if let Some(security) = security {
            builder = builder.security(security);
        }
        let tried = format!("connecting to {}", self.config.brokers.join(", "));
        match tokio::time::timeout(within, builder.connect()).await {
            Ok(Ok(kafka)) => {
                self.refusal.accepted();
                Ok(Arc::new(Cluster::new(kafka)))
            }
            Ok(Err(error)) => {
                let failure = self.hidden(self.advised(failure(&tried, &error)));
                self.refused(&failure);
                Err(failure)
            }
            Err(_) => Err(Failure {
                cause: Cause::Timeout,
                tried,
                detail: "no broker answered in time".to_owned(),
            }),
        }
    }

    fn refused(&self, why: &Failure) {
        if why.cause != Cause::Unauthorized {
            return;
        }
        let hidden = self.hidden(why.clone());
        let sent = self.sent().clone();
        if let Some(sent) = sent {
            self.refusal.refused(sent, hidden);
        }
    }
}

impl Dialer {
    /// With what to look at, where that can be guessed.
    fn advised(&self, mut failure: Failure) -> Failure {
        let tls = self.config.tls.as_ref();
        let unknown = failure.detail.contains("UnknownIssuer");
        let asked = failure.detail.contains("CertificateRequired");
        let advice = match (failure.cause, tls, &self.config.sasl) {
            (Cause::Tls | Cause::Broken, Some(KafkaTls { identity: None, .. }), _) if asked => {
                "; the brokers ask for a certificate: tls = { cert_file = \"..\", key_file = \"..\" }"
            }
            (Cause::Tls, Some(KafkaTls { ca_file: None, .. }), _) if unknown => {
                "; trust the brokers' authority by tls = { ca_file = \"..\" }"
            }
            (Cause::Tls, Some(_), _) if unknown => "; tls.ca_file must hold the brokers' authority",
            (Cause::NotUnderstood, None, _) => "; is this a TLS listener, or no Kafka?",
            (Cause::Broken, None, None) => "; is this a listener with TLS or SASL?",
            (Cause::Broken, Some(_), _) if failure.detail.contains("handshake") => {
                "; is this a listener without TLS?"
            }
            _ => "",
        };
        failure.detail.push_str(advice);
        failure
    }
}

fn trust(tls: &KafkaTls) -> TlsConfig {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let config = match &tls.ca_file {
        Some(ca) => TlsConfig::new().with_ca_cert(text(ca)),
        None => TlsConfig::new().with_native_roots(),
    };
    match &tls.identity {
        Some(identity) => config.with_client_cert(text(&identity.cert_file), text(&identity.key_file)),
        None => config,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::refusal::REFUSED_FOR;

    fn dialer(password: &std::path::Path) -> (Dialer, KafkaSasl) {
        let sasl = KafkaSasl {
            mechanism: SaslMechanism::Plain,
            user: "etl".to_owned(),
            password: SecretSource::File(password.to_owned()),
        };
        let config = KafkaConfig {
            sasl: Some(sasl.clone()),
            ..KafkaConfig::at(vec!["127.0.0.1:1".to_owned()], vec!["g".to_owned()])
        };
        (Dialer::new(&config), sasl)
    }

    fn refusal(cause: Cause) -> Failure {
        Failure {
            cause,
            tried: "connecting".to_owned(),
            detail: "bad login etl/hunter2".to_owned(),
        }
    }

    /// Case S03.
    #[tokio::test]
    async fn a_refused_password_is_not_sent_again_and_another_one_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        std::fs::write(&file, "hunter2\n").unwrap();
        let (dialer, sasl) = dialer(&file);
        assert_eq!(dialer.password(&sasl).await.unwrap().reveal(), "hunter2");
        // Only a refused login counts against a password.
        dialer.refused(&refusal(Cause::Broken));
        assert!(dialer.password(&sasl).await.is_ok());
        dialer.refused(&refusal(Cause::Unauthorized));
        for _ in 0..2 {
            let why = dialer.password(&sasl).await.unwrap_err();
            assert_eq!(why.cause, Cause::Unauthorized);
            assert!(why.tried.contains("nothing sent"), "{why:?}");
            let told = why.detail.split_once(": ").unwrap();
            assert!(told.0.starts_with("refused since 20"), "{why:?}");
            assert_eq!(told.1, "bad login etl/***");
            // As the source does with every failure; it is still the first refusal.
            dialer.refused(&why);
        }
        dialer.refusal.pass(REFUSED_FOR - Duration::from_secs(5));
        assert!(dialer.password(&sasl).await.is_err());
        dialer.refused(&refusal(Cause::Unauthorized));
        dialer.refusal.pass(Duration::from_secs(6));
        assert!(
            dialer.password(&sasl).await.is_ok(),
            "after five minutes it is tried again"
        );
        dialer.refused(&refusal(Cause::Unauthorized));
        std::fs::write(&file, "hunter3\n").unwrap();
        assert_eq!(dialer.password(&sasl).await.unwrap().reveal(), "hunter3");
        // Also the old one, once it has changed back.
        std::fs::write(&file, "hunter2\n").unwrap();
        assert_eq!(dialer.password(&sasl).await.unwrap().reveal(), "hunter2");
    }
}
