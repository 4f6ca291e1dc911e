//! The HTTP library's client, built from an endpoint's trust, proxy and deadlines.

use super::{
    classify::{Trouble, classify},
    error::Cause,
    tls,
};
use reqwest::{Client, Url};
use std::{path::PathBuf, time::Duration};

/// Runs what blocks beside the async threads.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Trouble> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| Trouble::new(Cause::Local, e.to_string()))
}

/// Everything that a client is built from.
pub(super) struct ClientPlan {
    pub(super) encrypted: bool,
    pub(super) proxy: Option<Url>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) ssl_cert_file: Option<PathBuf>,
    pub(super) connect: Duration,
    pub(super) verify: bool,
}

impl ClientPlan {
    pub(super) fn build(self) -> Result<Client, Trouble> {
        let local = |why: String| Trouble::new(Cause::Local, why);
        super::use_ring();
        let mut builder = Client::builder()
            .user_agent(concat!("backfill/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .connect_timeout(self.connect)
            .tcp_keepalive(Duration::from_secs(15))
            .pool_max_idle_per_host(2);
        if let Some(proxy) = &self.proxy {
            let proxy = reqwest::Proxy::all(proxy.as_str())
                .map_err(|e| local(format!("proxy: {}", e.without_url())))?;
            builder = builder.proxy(proxy);
        }
        if !self.encrypted {
            // A machine without any certificate store can still speak plain HTTP.
            builder = builder.tls_certs_only([]);
        } else if self.verify {
            let mut extra = Vec::new();
            for (option, path) in [("ca_file", &self.ca_file), ("SSL_CERT_FILE", &self.ssl_cert_file)] {
                if let Some(path) = path {
                    extra.extend(tls::certificates_of(option, path).map_err(local)?);
                }
            }
            builder = builder.tls_certs_merge(extra);
        } else {
            builder = builder.tls_danger_accept_invalid_certs(true).tls_info(true);
        }
        builder.build().map_err(|e| {
            let trouble = classify(&e);
            Trouble::new(
                Cause::Tls,
                format!(
                    "{}; install the system's certificates, or set ca_file",
                    trouble.detail
                ),
            )
        })
    }
}
