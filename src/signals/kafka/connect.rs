//! Making the connection: where to, encrypted how, logged in as whom.

use super::client::{ANSWER_CAP, Brokers, Cluster, Failure, failure};
use crate::{
    config::{
        KafkaConfig, KafkaSasl, KafkaTls, SaslMechanism,
        secret::{Secret, SecretSource},
    },
    net::{Cause, use_ring},
};
use async_trait::async_trait;
use krafka::{
    Kafka,
    auth::{AuthConfig, TlsConfig},
};
use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// For how long a password that was refused is not sent again (case S03). Another one is sent at once.
const REFUSED_FOR: Duration = Duration::from_secs(300);
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
    login: Mutex<Login>,
}

/// The last password.
#[derive(Default)]
struct Login {
    sent: Option<Secret>,
    refused: Option<(Instant, Failure)>,
}

impl Dialer {
    pub(super) fn new(config: &KafkaConfig) -> Self {
        Self {
            config: config.clone(),
            login: Mutex::new(Login::default()),
        }
    }

    fn login(&self) -> std::sync::MutexGuard<'_, Login> {
        self.login.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The password, unless it is the one that was refused.
    async fn password(&self, sasl: &KafkaSasl) -> Result<Secret, Failure> {
        let secret = resolve(sasl.password.clone()).await?;
        let mut login = self.login();
        if let Some((since, why)) = &login.refused {
            let same = login.sent.as_ref() == Some(&secret);
            if same && since.elapsed() < REFUSED_FOR {
                let mut why = why.clone();
                "nothing sent, the password is still the refused one".clone_into(&mut why.tried);
                return Err(why);
            }
        }
        login.refused = None;
        login.sent = Some(secret.clone());
        Ok(secret)
    }

    /// Without the password in it, should the broker have repeated it.
    fn hidden(&self, mut failure: Failure) -> Failure {
        if let Some(secret) = &self.login().sent
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
            Ok(Ok(kafka)) => Ok(Arc::new(Cluster::new(kafka))),
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
        if why.cause == Cause::Unauthorized {
            let hidden = self.hidden(why.clone());
            self.login().refused = Some((Instant::now(), hidden));
        }
    }
}

impl Dialer {
    /// With what to look at, where that can be guessed.
    fn advised(&self, mut failure: Failure) -> Failure {
        let advice = match (failure.cause, &self.config.tls, &self.config.sasl) {
            (Cause::Tls, Some(KafkaTls { ca_file: None, .. }), _) => {
                "; trust the brokers' authority by tls = { ca_file = \"..\" }"
            }
            (Cause::Tls, Some(_), _) => "; tls.ca_file must hold the brokers' authority",
            (Cause::NotUnderstood, None, _) => "; is this a TLS listener, or no Kafka?",
            (Cause::Broken, None, None) => "; is this a listener with TLS or SASL?",
            (Cause::Broken, Some(_), _) => "; is this a listener without TLS?",
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
