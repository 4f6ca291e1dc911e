//! Credentials and secret headers, fetched for each request, and kept back where the server has refused them.

use super::{
    error::AdapterError,
    refusal::{REFUSED_FOR, Refusal},
    words::Redactor,
};
use crate::config::{
    HttpAuth,
    secret::{Secret, SecretSource},
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// How long what a command printed is used again, unless the server refuses it before. A variable or a file is read
/// for every request.
const COMMAND_KEPT: Duration = Duration::from_secs(60);

/// A secret that was fetched, and when.
struct Kept {
    argv: Vec<String>,
    value: Secret,
    since: Instant,
}

/// The credentials of one endpoint.
pub(super) struct Credentials {
    auth: Option<HttpAuth>,
    secret_headers: Vec<(HeaderName, SecretSource)>,
    plain_headers: HeaderMap,
    kept: Mutex<Vec<Kept>>,
    /// The programs print another secret at each run, and the server refuses all of them.
    mints: AtomicBool,
    refusal: Refusal<Sent>,
}

/// The secrets that one request carries, to tell whether those of the next are still the same.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// From variables and files.
    given: Vec<Secret>,
    /// From programs; empty where they print others at each run, which tells nothing.
    printed: Vec<Secret>,
    minted: bool,
}

impl Sent {
    /// Why a request with them stays where it is.
    const fn why(&self) -> &'static str {
        if self.minted {
            "fresh tokens of its program are refused, too"
        } else if self.given.is_empty() && self.printed.is_empty() {
            "there is still no login"
        } else {
            "the login is still the refused one"
        }
    }

    fn add(&mut self, source: &SecretSource, secret: &Secret) {
        let of_its_kind = if source.is_command() {
            &mut self.printed
        } else {
            &mut self.given
        };
        of_its_kind.push(secret.clone());
    }
}

/// What goes into one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Login {
    /// Nothing.
    None,
    /// User and password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// A token.
    Bearer(Secret),
}

impl Login {
    const fn secret(&self) -> Option<&Secret> {
        match self {
            Self::None => None,
            Self::Basic { password: secret, .. } | Self::Bearer(secret) => Some(secret),
        }
    }
}

/// Everything that was fetched for one request.
pub(super) struct Fetched {
    pub(super) login: Login,
    pub(super) headers: HeaderMap,
    pub(super) redactor: Redactor,
    pub(super) sent: Sent,
}

impl Fetched {
    /// Puts a request's own login in the place of the endpoint's.
    pub(super) fn use_login(&mut self, login: &Login) {
        if let Some(secret) = login.secret() {
            self.redactor.add(secret.reveal());
        }
        self.login = login.clone();
    }
}

impl Credentials {
    /// # Errors
    /// In words, for a header name or a plain value that HTTP does not allow.
    pub(super) fn new(
        auth: Option<HttpAuth>,
        secret: &BTreeMap<String, SecretSource>,
        plain: &BTreeMap<String, String>,
    ) -> Result<Self, String> {
        let name_of = |name: &str| {
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("{name:?} is not a header name"))
        };
        let mut plain_headers = HeaderMap::new();
        for (name, value) in plain {
            let value = HeaderValue::from_str(value).map_err(|_| {
                format!("the value of header {name} has characters that a header cannot carry")
            })?;
            plain_headers.insert(name_of(name)?, value);
        }
        let secret_headers = secret
            .iter()
            .map(|(name, source)| Ok((name_of(name)?, source.clone())))
            .collect::<Result<_, String>>()?;
        Ok(Self {
            auth,
            secret_headers,
            plain_headers,
            kept: Mutex::new(Vec::new()),
            mints: AtomicBool::new(false),
            refusal: Refusal::default(),
        })
    }

    /// Whether fetching may block on a file or a program.
    pub(super) fn may_block(&self) -> bool {
        let auth = match &self.auth {
            Some(HttpAuth::Basic { password: source, .. } | HttpAuth::Bearer(source)) => Some(source),
            None => None,
        };
        auth.into_iter()
            .chain(self.secret_headers.iter().map(|(_, source)| source))
            .any(|source| !matches!(source, SecretSource::Env(_)))
    }

    /// Fetches all of it. Blocks.
    ///
    /// # Errors
    /// In words: which secret, and why not.
    pub(super) fn fetch(&self) -> Result<Fetched, String> {
        let mut redactor = Redactor::default();
        let mut headers = self.plain_headers.clone();
        let mut sent = Sent::default();
        for (name, source) in &self.secret_headers {
            let secret = self.one(source).map_err(|e| format!("header {name}: {e}"))?;
            sent.add(source, &secret);
            redactor.add(secret.reveal());
            let mut value = HeaderValue::from_str(secret.reveal()).map_err(|_| {
                format!("header {name}: the secret has characters that a header cannot carry")
            })?;
            value.set_sensitive(true);
            headers.insert(name.clone(), value);
        }
        let login = match &self.auth {
            None => Login::None,
            Some(HttpAuth::Basic { user, password }) => Login::Basic {
                user: user.clone(),
                password: {
                    let secret = self.one(password).map_err(|e| format!("password: {e}"))?;
                    sent.add(password, &secret);
                    secret
                },
            },
            Some(HttpAuth::Bearer(source)) => {
                let token = self.one(source).map_err(|e| format!("token: {e}"))?;
                sent.add(source, &token);
                if HeaderValue::from_str(token.reveal()).is_err() {
                    return Err("token: the secret has characters that a header cannot carry".to_owned());
                }
                Login::Bearer(token)
            }
        };
        if let Some(secret) = login.secret() {
            redactor.add(secret.reveal());
        }
        Ok(Fetched {
            login,
            headers,
            redactor,
            sent,
        })
    }

    /// Drops what commands printed, because the server refused it. `true` if any of it was sent, that is, if asking
    /// again can make a difference.
    pub(super) fn forget(&self, sent: &Sent) -> bool {
        // What another request has renewed meanwhile stays.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|k| !sent.printed.contains(&k.value));
        !sent.printed.is_empty()
    }

    /// Whether these may be sent.
    ///
    /// # Errors
    /// They were refused a short time ago.
    pub(super) fn may_send(&self, sent: &Sent) -> Result<(), AdapterError> {
        let sent = self.comparable(sent);
        self.refusal
            .may_send(&sent)
            .map_err(|still| still.into_error(sent.why()))
    }

    /// These were refused. `before` were those before the renewal, if there was one.
    pub(super) fn refused(&self, sent: &Sent, before: Option<&Sent>, error: AdapterError) {
        if before.is_some_and(|before| before.printed != sent.printed) {
            self.mints.store(true, Ordering::Relaxed);
        }
        self.refusal.refused(self.comparable(sent), error);
    }

    /// The server took what was sent.
    pub(super) fn accepted(&self) {
        self.mints.store(false, Ordering::Relaxed);
        self.refusal.accepted();
    }

    /// Lets time pass.
    #[cfg(test)]
    pub(super) fn pass(&self, time: Duration) {
        for kept in self.kept.lock().unwrap().iter_mut() {
            kept.since -= time;
        }
        self.refusal.pass(time);
    }

    fn mints(&self) -> bool {
        self.mints.load(Ordering::Relaxed)
    }

    /// Without what is another one at each run.
    fn comparable(&self, sent: &Sent) -> Sent {
        let mut sent = sent.clone();
        if self.mints() && !sent.printed.is_empty() {
            sent.printed.clear();
            sent.minted = true;
        }
        sent
    }

    fn one(&self, source: &SecretSource) -> Result<Secret, String> {
        let SecretSource::Command(argv) = source else {
            return source.resolve().map_err(|e| e.to_string());
        };
        let table = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // While fresh ones are refused, too, there is no reason to make more of them.
        let keep = if self.mints() { REFUSED_FOR } else { COMMAND_KEPT };
        let fresh = |k: &&Kept| k.argv == *argv && k.since.elapsed() < keep;
        if let Some(kept) = table().iter().find(fresh) {
            return Ok(kept.value.clone());
        }
        let value = source.resolve().map_err(|e| e.to_string())?;
        let mut kept = table();
        kept.retain(|k| k.argv != *argv);
        kept.push(Kept {
            argv: argv.clone(),
            value: value.clone(),
            since: Instant::now(),
        });
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(log: &std::path::Path) -> SecretSource {
        let script = format!("echo x >> {0}; wc -l < {0}", log.display());
        SecretSource::Command(vec!["sh".into(), "-c".into(), script])
    }

    fn bearer(credentials: &Credentials) -> String {
        match credentials.fetch().unwrap().login {
            Login::Bearer(token) => token.reveal().trim().to_owned(),
            _ => panic!("no bearer token"),
        }
    }

    #[test]
    fn a_commands_secret_is_used_again_until_the_server_refuses_it() {
        let dir = tempfile::tempdir().unwrap();
        let auth = Some(HttpAuth::Bearer(counting(&dir.path().join("log"))));
        let credentials = Credentials::new(auth, &BTreeMap::new(), &BTreeMap::new()).unwrap();
        assert!(!credentials.forget(&Sent::default()));
        assert_eq!(
            (bearer(&credentials), bearer(&credentials)),
            ("1".into(), "1".into())
        );
        let first = credentials.fetch().unwrap().sent;
        assert!(credentials.forget(&first));
        assert_eq!(bearer(&credentials), "2");
        // Somebody else had it renewed: that one is not thrown away, and can make a difference.
        assert!(credentials.forget(&first));
        assert_eq!(bearer(&credentials), "2");
    }

    /// Case S03.
    #[test]
    fn a_program_is_run_again_within_five_minutes_only_if_what_it_prints_can_be_news() {
        let dir = tempfile::tempdir().unwrap();
        let auth = Some(HttpAuth::Bearer(counting(&dir.path().join("log"))));
        let credentials = Credentials::new(auth, &BTreeMap::new(), &BTreeMap::new()).unwrap();
        let error = || AdapterError::new("x", "GET /", Duration::ZERO, crate::net::Cause::Unauthorized, "");
        let before = credentials.fetch().unwrap().sent;
        credentials.forget(&before);
        let after = credentials.fetch().unwrap().sent;
        credentials.refused(&after, Some(&before), error());
        credentials.pass(COMMAND_KEPT);
        assert_eq!(bearer(&credentials), "2");
        credentials.pass(REFUSED_FOR - COMMAND_KEPT);
        let third = credentials.fetch().unwrap().sent;
        assert!(credentials.may_send(&third).is_ok(), "its time is over");
        credentials.accepted();
        credentials.pass(COMMAND_KEPT);
        assert_eq!(bearer(&credentials), "4", "as before");
    }

    #[test]
    fn a_file_is_read_again_for_each_request() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "first\n").unwrap();
        let auth = Some(HttpAuth::Bearer(SecretSource::File(file.clone())));
        let credentials = Credentials::new(auth, &BTreeMap::new(), &BTreeMap::new()).unwrap();
        assert_eq!(bearer(&credentials), "first");
        std::fs::write(&file, "second\n").unwrap();
        assert_eq!(bearer(&credentials), "second");
    }

    #[test]
    fn a_secret_that_no_header_can_carry_is_refused_without_being_shown() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        std::fs::write(&file, "se\u{1}cret\n").unwrap();
        let headers = BTreeMap::from([("X-Key".to_owned(), SecretSource::File(file))]);
        let credentials = Credentials::new(None, &headers, &BTreeMap::new()).unwrap();
        let why = credentials.fetch().err().unwrap();
        assert!(
            why.contains("x-key") && !why.contains("cret\n") && !why.contains("se\u{1}"),
            "{why}"
        );
        let bad = BTreeMap::from([("not a name".to_owned(), "x".to_owned())]);
        assert!(Credentials::new(None, &BTreeMap::new(), &bad).is_err());
    }
}
