//! The one way out over HTTP.
//!
//! An [`Endpoint`] is a base url with its credentials, its trust and its deadline. Whatever goes wrong comes back as an
//! [`AdapterError`]. A connection that failed is never used again: after a sleep, a VPN change or a mended
//! certificate store the next request starts from nothing (case S02). Credentials that were refused are renewed at most
//! once and then not sent again before their time ([`super::refusal`], case S03).

use super::{
    classify::{Trouble, UNKNOWN_ISSUER, classify},
    client::{ClientPlan, blocking},
    credentials::{Credentials, Fetched, Login, Sent},
    error::{AdapterError, Cause},
    message::{About, Answer, Body, OfLogin, Request},
    proxy::{self, ProxyVars},
    redirect::{redirect_of, shown},
    tls,
    words::Redactor,
};
use crate::config::{HttpAuth, HttpConfig, secret::SecretSource};
use chrono::{DateTime, Utc};
use reqwest::{
    Client, Response, StatusCode, Url,
    header::{self, HeaderMap},
};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The most bytes of a body that are read, after decompression, unless the endpoint says otherwise.
pub const BODY_CAP: usize = 8 * 1024 * 1024;
/// The most bytes of the body of a failed request; only its first words are used.
const ERROR_BODY_CAP: usize = 64 * 1024;
/// How many redirects are followed, and only to the same host.
const REDIRECTS: usize = 3;
/// The longest time to connect; the endpoint's deadline, if that is shorter.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the look at an untrusted certificate may take, and how long its result is used.
const PROBE: Duration = Duration::from_secs(2);
const PROBE_KEPT: Duration = Duration::from_secs(600);

/// What the environment says about the way out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The proxy variables.
    pub proxies: ProxyVars,
    /// `SSL_CERT_FILE`.
    pub ssl_cert_file: Option<PathBuf>,
}

impl Surroundings {
    /// The environment of this process.
    pub fn from_env() -> Self {
        Self {
            proxies: ProxyVars::from_env(),
            ssl_cert_file: std::env::var_os("SSL_CERT_FILE")
                .filter(|f| !f.is_empty())
                .map(PathBuf::from),
        }
    }
}

/// What an endpoint is made from.
#[derive(Debug, Clone)]
pub struct EndpointSettings {
    /// Its name in the configuration.
    pub name: String,
    /// Base url. Its path is put before the path of each request, its query before the query of each request.
    pub url: String,
    /// How to log in.
    pub auth: Option<HttpAuth>,
    /// Headers with secret values.
    pub headers: BTreeMap<String, SecretSource>,
    /// Headers with plain values.
    pub plain_headers: BTreeMap<String, String>,
    /// Further certificate authorities, PEM.
    pub ca_file: Option<PathBuf>,
    /// How long one request may take, from fetching the secrets to the last byte of the body.
    pub deadline: Duration,
    /// The most bytes of a body, after decompression.
    pub body_cap: usize,
    /// Proxies and certificates of the environment.
    pub surroundings: Surroundings,
}

impl EndpointSettings {
    /// A configured endpoint that says `name` in its errors and takes answers of up to `body_cap` bytes.
    pub fn of(name: &str, config: &HttpConfig, body_cap: usize, surroundings: Surroundings) -> Self {
        Self {
            name: name.to_owned(),
            url: config.url.clone(),
            auth: config.auth.clone(),
            headers: config.headers.clone(),
            plain_headers: config.plain_headers.clone(),
            ca_file: config.ca_file.clone(),
            deadline: config.deadline,
            body_cap,
            surroundings,
        }
    }

    /// An endpoint without credentials, in the environment of this process, with a deadline of 10 s.
    pub fn new(name: &str, url: &str) -> Self {
        Self {
            name: name.to_owned(),
            url: url.to_owned(),
            auth: None,
            headers: BTreeMap::new(),
            plain_headers: BTreeMap::new(),
            ca_file: None,
            deadline: Duration::from_secs(10),
            body_cap: BODY_CAP,
            surroundings: Surroundings::from_env(),
        }
    }
}

/// A base url with credentials, trust and deadline. Cheap to share; one for each configured endpoint.
pub struct Endpoint {
    name: String,
    base: Url,
    proxy: Option<Url>,
    credentials: Arc<Credentials>,
    ca_file: Option<PathBuf>,
    ssl_cert_file: Option<PathBuf>,
    deadline: Duration,
    body_cap: usize,
    client: Mutex<Option<Client>>,
    issuer: Mutex<Option<(Instant, String)>>,
}

impl Endpoint {
    /// Checks the settings. Nothing is read or connected yet.
    ///
    /// # Errors
    /// A url, header or proxy that cannot be used, as a failure of this machine; the url itself is not repeated.
    pub fn new(settings: EndpointSettings) -> Result<Self, AdapterError> {
        let wrong = |why: &str| {
            AdapterError::new(
                &settings.name,
                "reading the url",
                Duration::ZERO,
                Cause::Local,
                why,
            )
        };
        let base = Url::parse(settings.url.trim()).map_err(|e| wrong(&format!("url: {e}")))?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(wrong("url: must be http://HOST.. or https://HOST.."));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(wrong("url: holds a user or a password; those belong into auth"));
        }
        let proxy = settings
            .surroundings
            .proxies
            .choose(&base)
            .map_err(|e| wrong(&e))?;
        let credentials = Credentials::new(settings.auth, &settings.headers, &settings.plain_headers)
            .map_err(|e| wrong(&e))?;
        Ok(Self {
            name: settings.name,
            base,
            proxy,
            credentials: Arc::new(credentials),
            ca_file: settings.ca_file,
            ssl_cert_file: settings.surroundings.ssl_cert_file,
            deadline: settings.deadline,
            body_cap: settings.body_cap,
            client: Mutex::new(None),
            issuer: Mutex::new(None),
        })
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long one request may take.
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The same endpoint, with the same credentials and refusals, for answers of up to `body_cap` bytes.
    #[must_use]
    pub fn with_body_cap(&self, body_cap: usize) -> Self {
        Self {
            name: self.name.clone(),
            base: self.base.clone(),
            proxy: self.proxy.clone(),
            credentials: Arc::clone(&self.credentials),
            ca_file: self.ca_file.clone(),
            ssl_cert_file: self.ssl_cert_file.clone(),
            deadline: self.deadline,
            body_cap,
            client: Mutex::new(None),
            issuer: Mutex::new(None),
        }
    }

    /// Sends a request and reads the answer, whatever its status. Ends within the deadline.
    ///
    /// # Errors
    /// When there is no whole answer: the cause, what was tried, and how long it took. When the endpoint's own
    /// credentials are still the refused ones: that refusal, and nothing is sent.
    pub async fn send(&self, request: &Request) -> Result<Answer, AdapterError> {
        let url = self.url_of(request);
        let exchange = Exchange {
            endpoint: self,
            request,
            begun: Instant::now(),
            deadline: request.deadline.unwrap_or(self.deadline).min(self.deadline),
            progress: Mutex::new(Progress {
                stage: "fetching the credentials",
                redactor: Redactor::default(),
            }),
        };
        let about = |redactor| About {
            endpoint: self.name.clone(),
            tried: format!("{} {}", request.method, shown(&url)),
            proxy: self.proxy.as_ref().map(proxy::shown),
            redactor,
        };
        let outcome = tokio::time::timeout(exchange.deadline, exchange.run(url.clone())).await;
        let elapsed = exchange.begun.elapsed();
        let progress = exchange
            .progress
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let about = about(progress.redactor);
        let trouble = match outcome {
            Ok(Ok(exchanged)) => {
                let answer = exchanged.raw.into_answer(elapsed, about);
                if !request.logs_in_by_itself() {
                    self.heed(&answer, &exchanged.sent, exchanged.before.as_ref());
                }
                return Ok(answer);
            }
            Ok(Err(Stopped::StillRefused(error))) => return Err(error),
            Ok(Err(Stopped::Trouble(trouble))) => trouble,
            Err(_) => Trouble::new(
                Cause::Timeout,
                format!(
                    "nothing within {:.1} s while {}",
                    exchange.deadline.as_secs_f32(),
                    progress.stage
                ),
            ),
        };
        // Where nothing was connected there is nothing to forget, and new trust is expensive to read.
        if !matches!(trouble.cause, Cause::Local | Cause::Refused | Cause::Dns) {
            self.forget_client();
        }
        Err(about.error(elapsed, &trouble))
    }

    /// Sends a request whose answer must be a success.
    ///
    /// # Errors
    /// As [`Self::send`], and for every status outside 200 to 299.
    pub async fn ask(&self, request: &Request) -> Result<Answer, AdapterError> {
        self.send(request).await?.into_success()
    }

    /// Keeps in mind whether the credentials were refused.
    fn heed(&self, answer: &Answer, sent: &Sent, before: Option<&Sent>) {
        match answer.of_login() {
            OfLogin::Refused => self.credentials.refused(sent, before, answer.failure()),
            OfLogin::Taken => self.credentials.accepted(),
            OfLogin::Unknown => {}
        }
    }

    fn url_of(&self, request: &Request) -> Url {
        let mut url = self.base.clone();
        url.set_fragment(None);
        url.set_path(&format!(
            "{}{}",
            self.base.path().trim_end_matches('/'),
            request.path
        ));
        if !request.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&request.query);
        }
        url
    }

    fn forget_client(&self) {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// The client of the last good request, or a new one. Reading the system's certificates blocks, so that is done
    /// beside the async threads.
    async fn client(&self) -> Result<Client, Trouble> {
        let known = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(client) = known {
            return Ok(client);
        }
        let plan = self.plan(true);
        let client = blocking(move || plan.build()).await??;
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }

    fn plan(&self, verify: bool) -> ClientPlan {
        ClientPlan {
            encrypted: [Some(&self.base), self.proxy.as_ref()]
                .into_iter()
                .flatten()
                .any(|u| u.scheme() == "https"),
            proxy: self.proxy.clone(),
            ca_file: self.ca_file.clone(),
            ssl_cert_file: self.ssl_cert_file.clone(),
            // A little before the deadline, so that the error can tell *no connection* from *no answer*.
            connect: CONNECT.min(self.deadline.mul_f32(0.8)),
            verify,
        }
    }

    /// Adds to an *unknown issuer* who that issuer is and what can be done.
    async fn explain_tls(&self, trouble: Trouble) -> Trouble {
        if !trouble.detail.contains(UNKNOWN_ISSUER) {
            return trouble;
        }
        let issuer = self.issuer().await;
        let host = self.base.host_str().unwrap_or("the server");
        let detail = tls::untrusted(
            host,
            issuer.as_deref(),
            self.ca_file.as_deref(),
            self.ssl_cert_file.as_deref(),
        );
        Trouble::new(Cause::Tls, detail)
    }

    /// Who issued the certificate that was not trusted. Asked in one request of its own that carries no credentials
    /// and whose answer is thrown away: it is the only one that is ever sent to a server that was not verified.
    async fn issuer(&self) -> Option<String> {
        let table = || self.issuer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, issuer)) = table().as_ref().filter(|(at, _)| at.elapsed() < PROBE_KEPT) {
            return Some(issuer.clone());
        }
        let plan = self.plan(false);
        let look = async {
            let client = blocking(move || plan.build()).await.ok()?.ok()?;
            let mut url = self.base.clone();
            url.set_query(None);
            let answer = client.head(url).send().await.ok()?;
            let info = answer.extensions().get::<reqwest::tls::TlsInfo>()?;
            tls::issuer_of(info.peer_certificate()?)
        };
        let issuer = tokio::time::timeout(PROBE, look).await.ok().flatten()?;
        *table() = Some((Instant::now(), issuer.clone()));
        Some(issuer)
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("name", &self.name)
            .field("base", &shown(&self.base))
            .finish_non_exhaustive()
    }
}

/// How far an exchange came: for the words of a time-out, and for redaction.
struct Progress {
    stage: &'static str,
    redactor: Redactor,
}

/// One exchange under way.
struct Exchange<'a> {
    endpoint: &'a Endpoint,
    request: &'a Request,
    begun: Instant,
    deadline: Duration,
    progress: Mutex<Progress>,
}

/// An answer before it is tied to its endpoint.
struct RawAnswer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
    sent_at: DateTime<Utc>,
    answered_after: Duration,
}

impl RawAnswer {
    fn into_answer(self, elapsed: Duration, about: About) -> Answer {
        Answer {
            status: self.status,
            body: self.body,
            headers: self.headers,
            sent_at: self.sent_at,
            answered_after: self.answered_after,
            elapsed,
            about,
        }
    }
}

/// A whole exchange.
struct Exchanged {
    raw: RawAnswer,
    /// What the last request carried.
    sent: Sent,
    /// What those before its renewal carried.
    before: Option<Sent>,
}

/// Why there is no answer.
enum Stopped {
    Trouble(Trouble),
    /// Nothing was sent.
    StillRefused(AdapterError),
}

impl From<Trouble> for Stopped {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl Exchange<'_> {
    /// Sends, follows redirects, and once fetches new credentials if those that a command printed were refused.
    async fn run(&self, url: Url) -> Result<Exchanged, Stopped> {
        let (mut url, mut redirects, mut before) = (url, 0, None);
        loop {
            let (raw, sent) = self.once(url.clone()).await?;
            if raw.status == 401 && before.is_none() && self.endpoint.credentials.forget(&sent) {
                before = Some(sent);
                continue;
            }
            match redirect_of(raw.status, &raw.headers, &url, &self.request.method)? {
                None => return Ok(Exchanged { raw, sent, before }),
                Some(_) if redirects == REDIRECTS => {
                    return Err(Trouble::new(Cause::NotUnderstood, "it redirects in a circle").into());
                }
                Some(next) => {
                    redirects += 1;
                    url = next;
                }
            }
        }
    }

    async fn once(&self, url: Url) -> Result<(RawAnswer, Sent), Stopped> {
        let fetched = self.fetch().await?;
        if !self.request.logs_in_by_itself() {
            let may_send = self.endpoint.credentials.may_send(&fetched.sent);
            may_send.map_err(Stopped::StillRefused)?;
        }
        let client = self.endpoint.client().await?;
        let mut call = client
            .request(self.request.method.clone(), url)
            .header(header::ACCEPT, self.request.accept)
            .headers(fetched.headers)
            .headers(
                self.request
                    .own_headers()
                    .map_err(|why| Trouble::new(Cause::Local, why))?,
            );
        call = match fetched.login {
            Login::None => call,
            Login::Basic { user, password } => call.basic_auth(user, Some(password.reveal())),
            Login::Bearer(token) => call.bearer_auth(token.reveal()),
        };
        call = match &self.request.body {
            Body::None => call,
            Body::Form(fields) => call.form(fields),
            Body::Json(document) => call.json(document),
            Body::Text(kind, text) => call.header(header::CONTENT_TYPE, *kind).body(text.clone()),
            Body::Sealed(text, _) => call
                .header(header::CONTENT_TYPE, "application/json")
                .body(text.reveal().to_owned()),
        };
        let call = call.build().map_err(|e| classify(&e))?;
        self.note(|p| {
            p.stage = "waiting for an answer";
            // Basic credentials travel encoded; a server may repeat that form too.
            if let Some(Ok(sent)) = call.headers().get(header::AUTHORIZATION).map(|v| v.to_str()) {
                p.redactor
                    .add(sent.split_once(' ').map_or(sent, |(_, value)| value));
            }
        });
        let (sent_at, sent) = (Utc::now(), Instant::now());
        let response = match client.execute(call).await {
            Ok(response) => response,
            Err(e) => return Err(self.endpoint.explain_tls(classify(&e)).await.into()),
        };
        let answered_after = sent.elapsed();
        self.note(|p| p.stage = "reading the body");
        let (status, headers) = (response.status(), response.headers().clone());
        let body = self.body_of(response, status).await?;
        let raw = RawAnswer {
            status: status.as_u16(),
            headers,
            body,
            sent_at,
            answered_after,
        };
        Ok((raw, fetched.sent))
    }

    async fn fetch(&self) -> Result<Fetched, Trouble> {
        let credentials = Arc::clone(&self.endpoint.credentials);
        let fetched = if credentials.may_block() {
            blocking(move || credentials.fetch()).await?
        } else {
            credentials.fetch()
        };
        let mut fetched = fetched.map_err(|why| Trouble::new(Cause::Local, why))?;
        if let Some(login) = &self.request.login {
            fetched.use_login(login);
        }
        if let Body::Sealed(_, hidden) = &self.request.body {
            fetched.redactor.add(hidden.reveal());
        }
        for (_, hidden) in &self.request.secret_headers {
            fetched.redactor.add(hidden.reveal());
        }
        self.note(|p| {
            p.stage = "connecting";
            p.redactor = fetched.redactor.clone();
        });
        Ok(fetched)
    }

    /// Reads the body up to the cap. A failure's body only gives words: a part of it is enough.
    async fn body_of(&self, mut response: Response, status: StatusCode) -> Result<Vec<u8>, Trouble> {
        let cap = if status.is_success() {
            self.endpoint.body_cap
        } else {
            ERROR_BODY_CAP
        };
        let too_large = || {
            let mib = cap as f64 / f64::from(1 << 20);
            Trouble::new(Cause::NotUnderstood, format!("a body of more than {mib:.1} MiB"))
        };
        if status.is_success() && response.content_length().is_some_and(|n| n > cap as u64) {
            return Err(too_large());
        }
        let mut body = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() <= cap => body.extend_from_slice(&chunk),
                Ok(Some(_)) if status.is_success() => return Err(too_large()),
                Err(e) if status.is_success() => return Err(classify(&e)),
                _ => return Ok(body),
            }
        }
    }

    fn note(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
