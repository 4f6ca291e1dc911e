//! One Airflow server: the one way to it, with its version, its budget and its counters.

use super::{
    auth::{Auth, Authenticator, Minted, Next, NoTicket, Standing, Ticket},
    budget::{Budget, Purpose},
    clock::{Clock, SystemClock},
    dates,
    error::{CallError, Kind, Verdict, read, verdict},
    wire::{Api, Version, VersionWire},
};
use crate::{
    config::secret::{Secret, SecretSource},
    domain::Time,
    host::BootInstant,
    net::{AdapterError, Answer, Cause, Endpoint, EndpointSettings, Login, Request, Surroundings},
};
use reqwest::Method;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{Semaphore, SemaphorePermit};

/// How many requests are under way at once: more only make each of them slower.
const IN_FLIGHT: usize = 2;
/// How long one call may take. Tasks report to the same server, so single calls of 7 s are no outage.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// How long a call may take that makes many runs: 1,261 took 16 s on a small machine.
pub const LONG_DEADLINE: Duration = Duration::from_secs(300);
/// The most bytes of a log; it comes in one piece.
const LOG_CAP: usize = 32 * 1024 * 1024;
/// How long a call waits for a place in the budget.
const BUDGET_PATIENCE: Duration = Duration::from_secs(60);

/// What a connection is made from.
#[derive(Debug, Clone)]
pub struct ConnectionSettings {
    /// The executor's name in the configuration.
    pub name: String,
    /// Base url; a path prefix is allowed.
    pub url: String,
    /// How to log in.
    pub auth: Auth,
    /// Further headers with secret values, such as cookies of a managed service.
    pub headers: BTreeMap<String, SecretSource>,
    /// Further headers with plain values.
    pub plain_headers: BTreeMap<String, String>,
    /// Further certificate authorities, PEM.
    pub ca_file: Option<PathBuf>,
    /// Requests a minute.
    pub request_budget: u32,
    /// Proxies and certificates of the environment.
    pub surroundings: Surroundings,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
}

impl ConnectionSettings {
    /// A connection without credentials, 60 requests a minute, in the environment of this process.
    pub fn new(name: &str, url: &str) -> Self {
        Self {
            name: name.to_owned(),
            url: url.to_owned(),
            auth: Auth::None,
            headers: BTreeMap::new(),
            plain_headers: BTreeMap::new(),
            ca_file: None,
            request_budget: 60,
            surroundings: Surroundings::from_env(),
            clock: Arc::new(SystemClock),
        }
    }
}

/// What went to the server and how it stands, for a panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Requests of the last minute, the cold start's too.
    pub last_minute: usize,
    /// How many a minute there may be.
    pub budget: usize,
    /// Requests under way.
    pub in_flight: usize,
    /// Requests since the start.
    pub requests: u64,
    /// Bytes of answers since the start, unpacked.
    pub bytes: u64,
    /// When the server last answered as it should.
    pub answered: Option<Time>,
    /// The last failure, and when.
    pub last_error: Option<(Time, AdapterError)>,
    /// How it stands with the credentials.
    pub standing: Standing,
}

#[derive(Debug)]
struct Traffic {
    budget: Budget,
    /// Requests under way, and since when one of them has waited without any answer to others.
    waiting: usize,
    silent_since: Option<BootInstant>,
    requests: u64,
    bytes: u64,
    answered: Option<Time>,
    last_error: Option<(Time, AdapterError)>,
}

/// One call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    request: Request,
    purpose: Purpose,
    /// It needs no credentials.
    open: bool,
    log: bool,
}

impl Call {
    pub(super) fn new(method: Method, path: &str) -> Self {
        let purpose = if method == Method::GET {
            Purpose::Read
        } else {
            Purpose::Act
        };
        Self {
            request: Request::new(method, path).within(CALL_DEADLINE),
            purpose,
            open: false,
            log: false,
        }
    }

    pub(super) fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn query(mut self, key: &str, value: &str) -> Self {
        self.request = self.request.query(key, value);
        self
    }

    pub(super) fn json(mut self, document: Value) -> Self {
        self.request = self.request.json(document);
        self
    }

    pub(super) const fn purpose(mut self, purpose: Purpose) -> Self {
        self.purpose = purpose;
        self
    }

    pub(super) const fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// It makes many runs in one go.
    pub(super) fn long(mut self) -> Self {
        self.request = self.request.within(LONG_DEADLINE);
        self
    }

    /// It brings a log, in this form.
    pub(super) fn log(mut self, media_type: &'static str) -> Self {
        self.request = self.request.accept(media_type);
        self.log = true;
        self
    }
}

/// An Airflow server.
#[derive(Debug)]
pub struct Connection {
    endpoint: Endpoint,
    /// The same place with room for a log.
    logs: Endpoint,
    auth: Authenticator,
    version: tokio::sync::Mutex<Option<Version>>,
    flights: Semaphore,
    traffic: Mutex<Traffic>,
    clock: Arc<dyn Clock>,
}

impl Connection {
    /// Checks the settings. Nothing is read or connected yet.
    ///
    /// # Errors
    /// A url, header or proxy that cannot be used.
    pub fn new(settings: ConnectionSettings) -> Result<Self, AdapterError> {
        let endpoint = EndpointSettings {
            name: settings.name,
            url: settings.url,
            auth: None,
            headers: settings.headers,
            plain_headers: settings.plain_headers,
            ca_file: settings.ca_file,
            deadline: LONG_DEADLINE,
            body_cap: crate::net::http::BODY_CAP,
            surroundings: settings.surroundings,
        };
        let logs = EndpointSettings {
            body_cap: LOG_CAP,
            ..endpoint.clone()
        };
        Ok(Self {
            endpoint: Endpoint::new(endpoint)?,
            logs: Endpoint::new(logs)?,
            auth: Authenticator::new(settings.auth, Arc::clone(&settings.clock)),
            version: tokio::sync::Mutex::new(None),
            flights: Semaphore::new(IN_FLIGHT),
            traffic: Mutex::new(Traffic {
                budget: Budget::new(settings.request_budget),
                waiting: 0,
                silent_since: None,
                requests: 0,
                bytes: 0,
                answered: None,
                last_error: None,
            }),
            clock: settings.clock,
        })
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        self.endpoint.name()
    }

    /// What went to the server and how it stands. Waits for nothing.
    pub fn usage(&self) -> Usage {
        let now = self.clock.now();
        let mut traffic = self.traffic();
        Usage {
            last_minute: traffic.budget.last_minute(now),
            budget: traffic.budget.per_minute(),
            in_flight: IN_FLIGHT.saturating_sub(self.flights.available_permits()),
            requests: traffic.requests,
            bytes: traffic.bytes,
            answered: traffic.answered,
            last_error: traffic.last_error.clone(),
            standing: self.auth.standing(),
        }
    }

    /// How long something has been asked and nothing answered; zero while nothing is asked.
    pub fn silence(&self) -> Duration {
        let since = self.traffic().silent_since;
        since.map_or(Duration::ZERO, |since| self.clock.now().since(since))
    }

    /// How many requests of a purpose may be sent now without waiting.
    pub(super) fn room(&self, purpose: Purpose) -> usize {
        let now = self.clock.now();
        self.traffic().budget.room(now, purpose)
    }

    /// The operator wants it tried again: a refusal of the credentials is forgotten, and so is what the server was.
    pub async fn log_in_again(&self) {
        self.auth.start_again().await;
        *self.version.lock().await = None;
    }

    /// The server's version. Asked for once, and again after an answer that only another version gives.
    ///
    /// # Errors
    /// It cannot be asked, or neither API is there.
    pub async fn version(&self) -> Result<Version, CallError> {
        let mut known = self.version.lock().await;
        if let Some(version) = known.as_ref() {
            return Ok(version.clone());
        }
        let version = self.detect().await.inspect_err(|e| self.note_failure(e))?;
        *known = Some(version.clone());
        Ok(version)
    }

    pub(super) async fn api(&self) -> Result<Api, CallError> {
        Ok(self.version().await?.api)
    }

    /// 3.x answers at `/api/v2/version`; 2.x says there, in HTML, that it has no such page.
    async fn detect(&self) -> Result<Version, CallError> {
        let mut strange = None;
        for api in [Api::V2, Api::V1] {
            let call = Call::get(&format!("{}/version", api.prefix())).open();
            let found: Result<VersionWire, _> =
                self.attempt(&call, None).await.and_then(|answer| read(&answer));
            match found {
                Ok(wire) => return Ok(Version::new(wire.version, api)),
                Err(e) if matches!(e.kind, Kind::Absent | Kind::WrongPlace | Kind::NotUnderstood) => {
                    strange.get_or_insert(e);
                }
                Err(e) => return Err(e),
            }
        }
        let words = strange.as_ref().map_or("", |e| e.error.detail.as_str());
        let detail =
            format!("neither /api/v2 nor /api/v1 is there ({words}): is the path prefix of the url right?");
        Err(self.own_error(
            Kind::WrongPlace,
            Cause::NotUnderstood,
            "asking for its version",
            &detail,
        ))
    }

    /// Sends a call and gives the answer of a success.
    pub(super) async fn send(&self, call: &Call) -> Result<Answer, CallError> {
        let api = self.api().await?;
        let outcome = self.attempt(call, Some(api)).await;
        match &outcome {
            Ok(_) => self.traffic().answered = Some(self.clock.wall()),
            Err(e) => {
                if e.kind == Kind::WrongPlace {
                    *self.version.lock().await = None;
                }
                self.note_failure(e);
            }
        }
        outcome
    }

    /// Sends a call and reads the document of the answer.
    pub(super) async fn ask<T: DeserializeOwned>(&self, call: &Call) -> Result<T, CallError> {
        let answer = self.send(call).await?;
        self.understand(&answer)
    }

    /// Reads the document of an answer.
    pub(super) fn understand<T: DeserializeOwned>(&self, answer: &Answer) -> Result<T, CallError> {
        read(answer).inspect_err(|e| self.note_failure(e))
    }

    /// A path below the API of this version.
    pub(super) fn path(&self, api: Api, segments: &[&str]) -> Result<String, CallError> {
        let mut path = api.prefix().to_owned();
        for segment in segments {
            let Some(encoded) = dates::segment(segment) else {
                let detail = format!("{segment:?} cannot be a name in a path");
                return Err(self.own_error(Kind::Invalid, Cause::Local, "making a path", &detail));
            };
            path.push('/');
            path.push_str(&encoded);
        }
        Ok(path)
    }

    /// An error for what this version does not have.
    pub(super) fn unsupported(&self, what: &str, since: &str) -> CallError {
        let detail = format!("this Airflow cannot {what}; it takes {since}");
        self.own_error(Kind::Unsupported, Cause::BadRequest, what, &detail)
    }

    /// At most two requests: the second one with other credentials.
    async fn attempt(&self, call: &Call, api: Option<Api>) -> Result<Answer, CallError> {
        let api_of_login = if call.open { None } else { api };
        let mut again = true;
        loop {
            let ticket = self.ticket(api_of_login).await?;
            let error = match self.judged(call, api, &ticket).await? {
                Verdict::Good(answer) => {
                    if !call.open {
                        self.auth.accepted(&ticket).await;
                    }
                    return Ok(answer);
                }
                Verdict::Failed(error) | Verdict::RefusedOrForbidden(error) => return Err(error),
                Verdict::Refused(error) => error,
            };
            let next = self
                .auth
                .refused(&ticket, api_of_login, &error.error.detail)
                .await;
            if next == Next::Out || !again {
                return Err(error);
            }
            again = false;
        }
    }

    /// Sends one request. Where 2.x does not say whether the credentials or a permission are wrong, a request that
    /// every user of ours may make decides it.
    async fn judged(&self, call: &Call, api: Option<Api>, ticket: &Ticket) -> Result<Verdict, CallError> {
        let answer = self.exchange(call, ticket.login.clone()).await?;
        let mut error = match verdict(answer, api) {
            Verdict::RefusedOrForbidden(error) => error,
            clear => return Ok(clear),
        };
        let look = Call::get("/api/v1/dags")
            .query("limit", "1")
            .purpose(call.purpose);
        let answer = self.exchange(&look, ticket.login.clone()).await?;
        Ok(match verdict(answer, api) {
            Verdict::Refused(_) | Verdict::RefusedOrForbidden(_) => {
                error.kind = Kind::LoggedOut;
                error.error.cause = Cause::Unauthorized;
                Verdict::Refused(error)
            }
            Verdict::Good(_) | Verdict::Failed(_) => Verdict::Failed(error),
        })
    }

    async fn ticket(&self, api: Option<Api>) -> Result<Ticket, CallError> {
        let log_in = |user, password| self.log_in(user, password);
        self.auth.ticket(api, log_in).await.map_err(|no| match no {
            NoTicket::Refused { since, words } => {
                let since = since.format("%Y-%m-%d %H:%M:%SZ");
                let detail =
                    format!("refused since {since}, nothing is sent until they change or backfill is started anew: {words}");
                self.own_error(Kind::LoggedOut, Cause::Unauthorized, "nothing sent", &detail)
            }
            NoTicket::Secret(why) => {
                self.own_error(Kind::NotSent, Cause::Local, "fetching the credentials", &why)
            }
            NoTicket::LogIn(error) => error,
        })
    }

    /// Asks for a token. The second part of an error is there if the credentials are the reason.
    async fn log_in(&self, user: String, password: Secret) -> Result<Minted, (CallError, Option<String>)> {
        #[derive(Deserialize)]
        struct Token {
            access_token: String,
        }
        let form = json!({"username": user, "password": password.reveal()}).to_string();
        let call = Call {
            request: Request::post("/auth/token")
                .sealed_json(Secret::new(form), password)
                .within(CALL_DEADLINE),
            purpose: Purpose::Act,
            open: true,
            log: false,
        };
        let answer = self.exchange(&call, Login::None).await.map_err(|e| (e, None))?;
        let at = answer.date().unwrap_or_else(|| self.clock.wall()).timestamp();
        match verdict(answer, Some(Api::V2)) {
            Verdict::Good(answer) => {
                let token: Token = read(&answer).map_err(|e| (e, None))?;
                let token = Secret::new(token.access_token);
                Ok(Minted { token, at })
            }
            Verdict::Refused(error) | Verdict::RefusedOrForbidden(error) => Err(out(error)),
            Verdict::Failed(error) if matches!(error.kind, Kind::Forbidden | Kind::Invalid) => {
                Err(out(error))
            }
            Verdict::Failed(mut error) => {
                // Nothing was asked for yet, and nothing done.
                error.kind = Kind::NotSent;
                Err((error, None))
            }
        }
    }

    /// One request, when the budget and those under way allow it.
    async fn exchange(&self, call: &Call, login: Login) -> Result<Answer, CallError> {
        let _flight = self.board(call.purpose).await?;
        let endpoint = if call.log { &self.logs } else { &self.endpoint };
        let request = call.request.clone().login(login);
        let waiting = Waiting::new(self);
        let outcome = endpoint.send(&request).await;
        let mut traffic = self.traffic();
        traffic.requests += 1;
        if outcome.is_ok() {
            traffic.silent_since = None;
        }
        if let Ok(answer) = &outcome {
            traffic.bytes += answer.body.len() as u64;
        }
        drop(traffic);
        drop(waiting);
        outcome.map_err(CallError::of_exchange)
    }

    /// Waits for one of the places of those under way and of the budget. Nobody waits for the budget in a place that
    /// somebody else could use.
    async fn board(&self, purpose: Purpose) -> Result<SemaphorePermit<'_>, CallError> {
        let (mut patience, purpose) = (BUDGET_PATIENCE, purpose.within());
        loop {
            let Ok(permit) = self.flights.acquire().await else {
                return Err(self.own_error(
                    Kind::NotSent,
                    Cause::Local,
                    "waiting",
                    "the connection is closed",
                ));
            };
            let taken = self.traffic().budget.take(self.clock.now(), purpose);
            let Err(wait) = taken else {
                return Ok(permit);
            };
            drop(permit);
            if wait > patience {
                let detail = "our own budget of requests a minute is used up (request_budget)";
                let mut error = self.own_error(Kind::NotSent, Cause::Local, "waiting", detail);
                error.error.retry_after = Some(wait);
                return Err(error);
            }
            patience -= wait;
            self.clock.sleep(wait).await;
        }
    }

    fn own_error(&self, kind: Kind, cause: Cause, tried: &str, detail: &str) -> CallError {
        CallError::new(
            kind,
            AdapterError::new(self.name(), tried, Duration::ZERO, cause, detail),
        )
    }

    /// That something is not there is an answer, and no failure.
    fn note_failure(&self, error: &CallError) {
        if error.kind == Kind::Absent {
            return;
        }
        let at = self.clock.wall();
        self.traffic().last_error = Some((at, error.error.clone()));
    }

    fn traffic(&self) -> std::sync::MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way, also if whoever asked no longer waits for the answer.
struct Waiting<'a>(&'a Connection);

impl<'a> Waiting<'a> {
    fn new(connection: &'a Connection) -> Self {
        let mut traffic = connection.traffic();
        traffic.waiting += 1;
        traffic.silent_since.get_or_insert_with(|| connection.clock.now());
        drop(traffic);
        Self(connection)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut traffic = self.0.traffic();
        traffic.waiting -= 1;
        // Others that are still under way have been for as long as nobody knows; from now on they are watched.
        traffic.silent_since = match traffic.waiting {
            0 => None,
            _ => traffic.silent_since.or_else(|| Some(self.0.clock.now())),
        };
    }
}

fn out(mut error: CallError) -> (CallError, Option<String>) {
    error.kind = Kind::LoggedOut;
    error.error.cause = Cause::Unauthorized;
    let words = error.error.detail.clone();
    (error, Some(words))
}
