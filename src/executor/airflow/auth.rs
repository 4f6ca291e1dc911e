//! Logging in to an Airflow.
//!
//! A token from `/auth/token` is renewed before its end, by one caller for all. When credentials are refused, one
//! renewal is tried if it can make a difference; refused again, **nothing is sent any more** (case S03) until an operator
//! asks for it or the secret's source holds another value. A file and a variable are looked at for that each time; a
//! command is not, because many print another token at each run: there it takes the operator.

use super::{clock::Clock, jwt, wire::Api};
use crate::{
    config::secret::{Secret, SecretSource},
    domain::Time,
    host::BootInstant,
    net::Login,
};
use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// A token is renewed when this part of its life is left, and at the most [`RENEW_CAP`] before its end.
const RENEW_PART: u32 = 10;
const RENEW_CAP: Duration = Duration::from_secs(300);
/// After a renewal that failed, the next one is tried no sooner.
const RENEW_PAUSE: Duration = Duration::from_secs(30);

/// How to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
    None,
    /// A user and a password: a token from `/auth/token` on 3.x, HTTP Basic on 2.x.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: SecretSource,
    },
    /// A ready token; with a command, what it prints, run again when the server refuses it or its end is near.
    Token(SecretSource),
    /// HTTP Basic, whatever the version.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: SecretSource,
    },
}

/// How it stands with the credentials, for the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Not tried yet.
    Untried,
    /// The server takes them.
    Good {
        /// The end of the token, on the server's clock, if it states one.
        until: Option<Time>,
    },
    /// The server refused them. Nothing is sent.
    Refused {
        /// Since when.
        since: Time,
        /// The server's words.
        words: String,
    },
}

/// Why there is no ticket.
#[derive(Debug)]
pub(super) enum NoTicket<E> {
    /// Credentials were refused before; nothing may be sent.
    Refused { since: Time, words: String },
    /// The secret cannot be had.
    Secret(String),
    /// The log-in failed.
    LogIn(E),
}

/// What a log-in brought.
pub(super) struct Minted {
    pub(super) token: Secret,
    /// The server's clock when it answered, in Unix seconds.
    pub(super) at: i64,
}

/// The login of one request.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) login: Login,
    /// Which credentials they are; `None` where none were sent although there are some.
    serial: Option<u64>,
}

/// What to do after a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Ask again: there are other credentials by now, or there can be.
    Again,
    /// Nothing is sent any more.
    Out,
}

/// The credentials of one server.
#[derive(Debug)]
pub(super) struct Authenticator {
    auth: Auth,
    clock: Arc<dyn Clock>,
    /// Held while somebody logs in or fetches a secret: everybody else waits for what comes of it.
    state: tokio::sync::Mutex<State>,
    standing: Mutex<Standing>,
}

#[derive(Debug, Default)]
struct State {
    serial: u64,
    held: Option<Held>,
    refused: Option<Refused>,
    /// No renewal before.
    pause: Option<BootInstant>,
}

/// Credentials in use.
#[derive(Debug)]
struct Held {
    /// What is sent: a token or a password.
    value: Secret,
    /// What it was made from, where that is another secret.
    source: Secret,
    /// The server took them at least once.
    proven: bool,
    renew_at: Option<BootInstant>,
    ends_at: Option<BootInstant>,
    until: Option<Time>,
}

#[derive(Debug)]
struct Refused {
    source: Secret,
    since: Time,
    words: String,
}

/// How requests to one version of the API log in.
enum Way<'a> {
    Nothing,
    Basic(&'a str, &'a SecretSource),
    Given(&'a SecretSource),
    Minted(&'a str, &'a SecretSource),
}

impl Authenticator {
    pub(super) fn new(auth: Auth, clock: Arc<dyn Clock>) -> Self {
        Self {
            auth,
            clock,
            state: tokio::sync::Mutex::default(),
            standing: Mutex::new(Standing::Untried),
        }
    }

    /// How it stands.
    pub(super) fn standing(&self) -> Standing {
        self.standing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Forgets refusals and tokens: the operator wants it tried again.
    pub(super) async fn start_again(&self) {
        let mut state = self.state.lock().await;
        state.refused = None;
        state.held = None;
        state.pause = None;
        self.stand(Standing::Untried);
    }

    /// Whether credentials change while this one is alive, so that a token has to be minted.
    fn way(&self, api: Option<Api>) -> Way<'_> {
        match (&self.auth, api) {
            (Auth::None, _) | (Auth::Password { .. }, None) => Way::Nothing,
            (Auth::Basic { user, password }, _) | (Auth::Password { user, password }, Some(Api::V1)) => {
                Way::Basic(user, password)
            }
            (Auth::Password { user, password }, Some(Api::V2)) => Way::Minted(user, password),
            (Auth::Token(source), _) => Way::Given(source),
        }
    }

    /// The login of the next request. Without an `api` it is one that needs none, such as that for the version: a
    /// password is not spent on it, but it too is not sent after a refusal.
    pub(super) async fn ticket<E, F, Fut>(&self, api: Option<Api>, log_in: F) -> Result<Ticket, NoTicket<E>>
    where
        F: FnOnce(String, Secret) -> Fut + Send,
        Fut: Future<Output = Result<Minted, (E, Option<String>)>> + Send,
        E: Send,
    {
        let mut state = self.state.lock().await;
        match self.way(api) {
            Way::Nothing => {
                let source = self.source_if_refused(&state).await?;
                self.stay_out(&mut state, source)?;
                let serial = matches!(self.auth, Auth::None).then_some(state.serial);
                Ok(Ticket {
                    login: Login::None,
                    serial,
                })
            }
            Way::Basic(user, source) => {
                let password = self.fetch(&mut state, source).await?;
                let user = user.to_owned();
                Ok(state.ticket(Login::Basic { user, password }))
            }
            Way::Given(source) => {
                let kept = source
                    .is_command()
                    .then(|| state.good_until_renewal(self.clock.now()))
                    .flatten();
                let token = match kept {
                    Some(token) => token,
                    None => self.fetch(&mut state, source).await?,
                };
                Ok(state.ticket(Login::Bearer(token)))
            }
            Way::Minted(user, source) => {
                let token = self.minted(&mut state, user, source, log_in).await?;
                Ok(state.ticket(Login::Bearer(token)))
            }
        }
    }

    /// The server took these credentials.
    pub(super) async fn accepted(&self, ticket: &Ticket) {
        let mut state = self.state.lock().await;
        if ticket.serial != Some(state.serial) || state.refused.is_some() {
            return;
        }
        let until = state.held.as_mut().and_then(|held| {
            held.proven = true;
            held.until
        });
        self.stand(Standing::Good { until });
    }

    /// The server refused these credentials.
    pub(super) async fn refused(&self, ticket: &Ticket, api: Option<Api>, words: &str) -> Next {
        let mut state = self.state.lock().await;
        let Some(serial) = ticket.serial else {
            return Next::Out;
        };
        if state.refused.is_some() {
            return Next::Out;
        }
        if serial != state.serial {
            return Next::Again;
        }
        let held = state.held.take();
        let renewable = match self.way(api) {
            Way::Nothing => false,
            Way::Minted(..) => held.as_ref().is_none_or(|h| h.proven),
            Way::Given(source) if source.is_command() => held.as_ref().is_none_or(|h| h.proven),
            Way::Basic(_, source) | Way::Given(source) => {
                let now = read(source).await.ok();
                now.is_some_and(|now| held.as_ref().is_none_or(|h| h.source != now))
            }
        };
        if renewable {
            return Next::Again;
        }
        let source = held.map_or_else(|| Secret::new(String::new()), |h| h.source);
        self.shut(&mut state, source, words);
        Next::Out
    }

    /// A token that was minted before, or a new one.
    async fn minted<E, F, Fut>(
        &self,
        state: &mut State,
        user: &str,
        source: &SecretSource,
        log_in: F,
    ) -> Result<Secret, NoTicket<E>>
    where
        F: FnOnce(String, Secret) -> Fut + Send,
        Fut: Future<Output = Result<Minted, (E, Option<String>)>> + Send,
        E: Send,
    {
        let now = self.clock.now();
        if let Some(token) = state.good_until_renewal(now) {
            return Ok(token);
        }
        let password = self.look(state, source).await?;
        match log_in(user.to_owned(), password.clone()).await {
            Ok(minted) => {
                self.hold(state, minted.token.clone(), password, Some(minted.at));
                Ok(minted.token)
            }
            Err((error, Some(words))) => {
                self.shut(state, password, &words);
                Err(NoTicket::LogIn(error))
            }
            Err((error, None)) => {
                let now = self.clock.now();
                state.pause = Some(now.plus(RENEW_PAUSE));
                // Renewal is early so that a failed one costs nothing.
                state.good_until_renewal(now).ok_or(NoTicket::LogIn(error))
            }
        }
    }

    /// Fetches a secret that is sent as it is.
    async fn fetch<E>(&self, state: &mut State, source: &SecretSource) -> Result<Secret, NoTicket<E>> {
        let value = self.look(state, source).await?;
        self.hold(state, value.clone(), value.clone(), None);
        Ok(value)
    }

    /// The secret of a source, unless it is the one that was refused. After a refusal a command is not even run.
    async fn look<E>(&self, state: &mut State, source: &SecretSource) -> Result<Secret, NoTicket<E>> {
        if source.is_command() {
            self.stay_out(state, None)?;
        }
        let value = read(source).await.map_err(NoTicket::Secret)?;
        self.stay_out(state, Some(value.clone()))?;
        Ok(value)
    }

    /// Keeps what is in use, and when it has to be renewed.
    fn hold(&self, state: &mut State, value: Secret, source: Secret, server_now: Option<i64>) {
        state.pause = None;
        if state.held.as_ref().is_some_and(|h| h.value == value) {
            return;
        }
        let now = self.clock.now();
        let claims = jwt::claims(value.reveal());
        let at = server_now.unwrap_or_else(|| self.clock.wall().timestamp());
        // A token that was not made just now has less left than it was made with.
        let life = claims.and_then(|c| match server_now {
            Some(_) => c.lifetime(at),
            None => jwt::Claims { issued: None, ..c }.lifetime(at),
        });
        let early = life.map(|l| l - (l / RENEW_PART).min(RENEW_CAP));
        state.serial += 1;
        state.held = Some(Held {
            value,
            source,
            proven: false,
            renew_at: early.map(|l| now.plus(l)),
            ends_at: life.map(|l| now.plus(l)),
            until: claims.and_then(|c| Time::from_timestamp(c.expires, 0)),
        });
    }

    /// After a refusal only another secret goes out; `None` = it is not known whether it is another.
    fn stay_out<E>(&self, state: &mut State, source: Option<Secret>) -> Result<(), NoTicket<E>> {
        match &state.refused {
            Some(refused) if source.as_ref().is_none_or(|s| *s == refused.source) => Err(NoTicket::Refused {
                since: refused.since,
                words: refused.words.clone(),
            }),
            Some(_) => {
                state.refused = None;
                self.stand(Standing::Untried);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// What the secret is now, if there was a refusal to compare it with.
    async fn source_if_refused<E>(&self, state: &State) -> Result<Option<Secret>, NoTicket<E>> {
        match &self.auth {
            Auth::Password { password, .. } if state.refused.is_some() && !password.is_command() => {
                read(password).await.map(Some).map_err(NoTicket::Secret)
            }
            _ => Ok(None),
        }
    }

    fn shut(&self, state: &mut State, source: Secret, words: &str) {
        let since = self.clock.wall();
        state.held = None;
        state.refused = Some(Refused {
            source,
            since,
            words: words.to_owned(),
        });
        self.stand(Standing::Refused {
            since,
            words: words.to_owned(),
        });
    }

    fn stand(&self, standing: Standing) {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
    }
}

impl State {
    /// What is held, unless it is over or it is time for another.
    fn good_until_renewal(&self, now: BootInstant) -> Option<Secret> {
        let held = self.held.as_ref()?;
        let paused = self.pause.is_some_and(|p| now < p);
        let limit = if paused { held.ends_at } else { held.renew_at };
        limit.is_none_or(|at| now < at).then(|| held.value.clone())
    }

    const fn ticket(&self, login: Login) -> Ticket {
        Ticket {
            login,
            serial: Some(self.serial),
        }
    }
}

/// Fetches a secret, beside the async threads where that can block.
async fn read(source: &SecretSource) -> Result<Secret, String> {
    if let SecretSource::Env(_) = source {
        return source.resolve().map_err(|e| e.to_string());
    }
    let source = source.clone();
    let fetched = tokio::task::spawn_blocking(move || source.resolve()).await;
    fetched.map_err(|e| e.to_string())?.map_err(|e| e.to_string())
}
