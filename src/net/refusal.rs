//! What was refused is not sent again (case S03): repeated at every interval it looks like an attack, and locks accounts.
//!
//! The law, for every adapter that logs in itself: credentials that were refused are not sent again for
//! [`REFUSED_FOR`], after which one more try is made. Others are sent at once. What is kept from going out fails with the
//! error of the refusal, which says since when.

use super::error::AdapterError;
use crate::domain::Time;
use chrono::Utc;
use std::{
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// For how long credentials that were refused are not sent again.
pub const REFUSED_FOR: Duration = Duration::from_secs(300);

/// The last refusal of one source: of which credentials `C`, and the error `E` that told it.
pub struct Refusal<C, E = AdapterError> {
    kept: Mutex<Option<Kept<C, E>>>,
}

struct Kept<C, E> {
    credentials: C,
    /// When they were refused first, on our wall clock: for people.
    since: Time,
    /// When they were refused last.
    last: Instant,
    /// They were let through again, and what came of it is not known yet.
    retried: bool,
    error: E,
}

/// Why nothing may be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct StillRefused<E = AdapterError> {
    /// When these credentials were refused first, on our wall clock.
    pub since: Time,
    /// The error of that refusal.
    pub error: E,
}

impl<C, E> Default for Refusal<C, E> {
    fn default() -> Self {
        Self {
            kept: Mutex::new(None),
        }
    }
}

/// Shows no credentials.
impl<C, E: fmt::Debug> fmt::Debug for Refusal<C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept();
        let shown = kept.as_ref().map(|kept| (kept.since, &kept.error));
        f.debug_tuple("Refusal").field(&shown).finish()
    }
}

impl<C, E> Refusal<C, E> {
    fn kept(&self) -> MutexGuard<'_, Option<Kept<C, E>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server took the credentials: there is no refusal any more.
    pub fn accepted(&self) {
        *self.kept() = None;
    }

    /// Lets time pass.
    #[cfg(test)]
    pub(crate) fn pass(&self, time: Duration) {
        for kept in self.kept().iter_mut() {
            kept.last -= time;
        }
    }
}

impl<C: PartialEq, E: Clone> Refusal<C, E> {
    /// Whether these credentials may be sent: others than the refused ones always, the same ones when their time is
    /// over.
    ///
    /// # Errors
    /// They are still refused.
    pub fn may_send(&self, credentials: &C) -> Result<(), StillRefused<E>> {
        let mut held = self.kept();
        let Some(kept) = held.as_mut() else {
            return Ok(());
        };
        if kept.credentials != *credentials {
            *held = None;
            return Ok(());
        }
        if kept.retried || kept.last.elapsed() >= REFUSED_FOR {
            kept.retried = true;
            return Ok(());
        }
        Err(StillRefused {
            since: kept.since,
            error: kept.error.clone(),
        })
    }

    /// These credentials were refused. Told of a refusal that is known, it changes nothing: that one's time is not to
    /// begin anew with every read that it fails.
    pub fn refused(&self, credentials: C, error: E) {
        let mut held = self.kept();
        let same = held.as_ref().filter(|kept| kept.credentials == credentials);
        if same.is_some_and(|kept| !kept.retried) {
            return;
        }
        let since = same.map_or_else(Utc::now, |kept| kept.since);
        *held = Some(Kept {
            credentials,
            since,
            last: Instant::now(),
            retried: false,
            error,
        });
    }
}

impl<E> StillRefused<E> {
    /// The words of the refusal, behind since when it is one and what ends it.
    pub fn detail(&self, words: &str) -> String {
        format!(
            "refused since {}, tried again every {} min and at once when it changes: {words}",
            self.since.format("%Y-%m-%d %H:%M:%SZ"),
            REFUSED_FOR.as_secs() / 60,
        )
    }
}

impl StillRefused {
    /// The error of the refusal, as that of a read for which nothing was sent; `why` says why not.
    pub fn into_error(self, why: &str) -> AdapterError {
        let AdapterError { endpoint, cause, .. } = &self.error;
        let tried = nothing_sent(why);
        AdapterError::new(
            endpoint,
            &tried,
            Duration::ZERO,
            *cause,
            &self.detail(&self.error.detail),
        )
    }
}

/// What is told as *tried* where nothing was.
pub fn nothing_sent(why: &str) -> String {
    format!("nothing sent, {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Cause;

    const SECOND: Duration = Duration::from_secs(1);

    fn refusal() -> Refusal<&'static str, &'static str> {
        let refusal = Refusal::default();
        assert_eq!(refusal.may_send(&"one"), Ok(()));
        refusal.refused("one", "401");
        refusal
    }

    /// Case S03.
    #[test]
    fn what_was_refused_is_kept_back_for_five_minutes_and_then_tried_once_more() {
        let refusal = refusal();
        assert!(refusal.may_send(&"one").is_err());
        refusal.pass(REFUSED_FOR - SECOND);
        let first = refusal.may_send(&"one").unwrap_err();
        assert_eq!(first.error, "401");
        refusal.pass(SECOND);
        assert_eq!(refusal.may_send(&"one"), Ok(()));
        // Nothing came of it, as when the network broke: the login is still untried.
        assert_eq!(refusal.may_send(&"one"), Ok(()));
        refusal.refused("one", "401 again");
        let again = refusal.may_send(&"one").unwrap_err();
        assert_eq!((again.since, again.error), (first.since, "401 again"));
        refusal.pass(REFUSED_FOR);
        assert_eq!(refusal.may_send(&"one"), Ok(()));
    }

    /// Case S03.
    #[test]
    fn other_credentials_pass_at_once_and_so_do_the_old_ones_after_them() {
        let refusal = refusal();
        assert_eq!(refusal.may_send(&"two"), Ok(()));
        assert_eq!(refusal.may_send(&"one"), Ok(()));
    }

    #[test]
    fn a_refusal_that_is_told_again_lasts_no_longer() {
        let refusal = refusal();
        refusal.pass(REFUSED_FOR - SECOND);
        refusal.refused("one", "told again");
        assert_eq!(refusal.may_send(&"one").unwrap_err().error, "401");
        refusal.pass(SECOND);
        assert_eq!(refusal.may_send(&"one"), Ok(()));
    }

    #[test]
    fn what_is_accepted_was_never_refused() {
        let refusal = refusal();
        refusal.accepted();
        assert_eq!(refusal.may_send(&"one"), Ok(()));
    }

    #[test]
    fn the_error_says_since_when_what_ends_it_and_that_nothing_was_sent() {
        let words = "x".repeat(crate::net::error::DETAIL_CAP);
        let mut error = AdapterError::new("orders", "GET http://x/", SECOND, Cause::Unauthorized, &words);
        error.retry_after = Some(SECOND);
        let still = StillRefused {
            since: "2026-11-30T03:12:09Z".parse().unwrap(),
            error,
        };
        let told = still.into_error("the login is still the refused one");
        assert_eq!(
            (told.endpoint.as_str(), told.cause),
            ("orders", Cause::Unauthorized)
        );
        assert_eq!(told.tried, "nothing sent, the login is still the refused one");
        assert_eq!((told.elapsed, told.retry_after), (Duration::ZERO, None));
        assert!(
            told.detail.starts_with(
                "refused since 2026-11-30 03:12:09Z, tried again every 5 min and at once when it changes: xxx"
            ),
            "{told}"
        );
    }

    #[test]
    fn no_debug_output_shows_credentials() {
        let shown = format!("{:?}", refusal());
        assert!(shown.contains("401") && !shown.contains("one"), "{shown}");
    }
}
