//! A silence of our own while a backfill is held back for an alert: who is on call has then one thing less to look at.
//!
//! A silence of ours is known by its author and its comment, so that it is found again after a restart. It is made
//! for a short time and made longer while it is needed: when this program dies, it ends by itself.

use super::endpoints;
use crate::{
    config::{AlertmanagerConfig, MatchOp, Matcher},
    net::{AdapterError, Answer, Cause, Endpoint, Request, Surroundings},
};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use futures::future::{BoxFuture, FutureExt};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};

/// The author of every silence that this program makes.
pub const AUTHOR: &str = "backfill";

/// Makes, prolongs and ends the silence of one signal.
#[derive(Debug)]
pub struct Silencer {
    members: Vec<Endpoint>,
    matchers: Vec<Condition>,
    comment: String,
}

/// What [`Silencer::hold`] found or did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The silence's id.
    pub id: String,
    /// When it ends by itself, on the Alertmanager's clock.
    pub until: DateTime<Utc>,
}

/// A matcher as silences have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    name: String,
    value: String,
    is_regex: bool,
    /// Before 0.22 there were only equal ones.
    #[serde(default = "yes")]
    is_equal: bool,
}

const fn yes() -> bool {
    true
}

impl From<&Matcher> for Condition {
    fn from(matcher: &Matcher) -> Self {
        Self {
            name: matcher.name.clone(),
            value: matcher.value.clone(),
            is_regex: matches!(matcher.op, MatchOp::Regex | MatchOp::NotRegex),
            is_equal: matches!(matcher.op, MatchOp::Equal | MatchOp::Regex),
        }
    }
}

/// A silence as it is listed, ended ones for some days, too.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Silence {
    id: String,
    status: Status,
    created_by: String,
    comment: String,
    starts_at: DateTime<Utc>,
    ends_at: DateTime<Utc>,
    matchers: Vec<Condition>,
}

#[derive(Debug, Clone, Deserialize)]
struct Status {
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Active,
    Pending,
    Expired,
}

#[derive(Deserialize)]
struct Made {
    #[serde(rename = "silenceID")]
    id: String,
}

/// What has to be done so that there is exactly one silence of ours, long enough.
#[derive(Debug, PartialEq)]
struct Steps {
    /// The document to send; `None` if the silence that is there will do.
    send: Option<serde_json::Value>,
    held: Option<Held>,
    /// Ours as well, and too many.
    surplus: Vec<String>,
}

impl Silencer {
    /// The silence of a signal, made by the program that keeps its journal at `place` (`host:path`): two of them do
    /// not take each other's for their own.
    ///
    /// # Errors
    /// A url, header or proxy that cannot be used.
    pub fn new(signal: &str, config: &AlertmanagerConfig, place: &str) -> Result<Self, AdapterError> {
        Self::within(signal, config, place, &Surroundings::from_env())
    }

    /// As [`Self::new`], with proxies and certificates given instead of taken from the environment.
    ///
    /// # Errors
    /// A url, header or proxy that cannot be used.
    pub fn within(
        signal: &str,
        config: &AlertmanagerConfig,
        place: &str,
        surroundings: &Surroundings,
    ) -> Result<Self, AdapterError> {
        let mut matchers: Vec<Condition> = config.matchers.iter().map(Condition::from).collect();
        matchers.sort();
        Ok(Self {
            members: endpoints(signal, config, surroundings)?,
            matchers,
            comment: format!(
                "backfills are held back while {signal} fires; made by backfill at {place}, ends soon after that stops"
            ),
        })
    }

    /// Sees to it that there is a silence for at least half of `lasting` from now: makes one for all of it, or
    /// prolongs the one that is there. Can be repeated as often as wanted, also after an answer that was lost. The
    /// members of a cluster tell each other, so that the first one that answers is enough.
    ///
    /// # Errors
    /// No member did it: the first one's error.
    pub async fn hold(&self, lasting: Duration) -> Result<Held, AdapterError> {
        self.at_the_first(|member| self.hold_at(member, lasting).boxed())
            .await
    }

    /// As [`Self::hold`], when `before` was there. `None` if somebody ended that one before its time, by hand: whoever did
    /// that wants to hear of the alert, so no other one is made.
    ///
    /// # Errors
    /// No member did it: the first one's error.
    pub async fn hold_on(&self, lasting: Duration, before: &Held) -> Result<Option<Held>, AdapterError> {
        self.at_the_first(|member| self.hold_on_at(member, lasting, before).boxed())
            .await
    }

    /// Ends the silence, and says how many there were. None is no error.
    ///
    /// # Errors
    /// No member did it: the first one's error.
    pub async fn release(&self) -> Result<usize, AdapterError> {
        self.at_the_first(|member| self.release_at(member).boxed()).await
    }

    async fn at_the_first<'s, T>(
        &'s self,
        act: impl Fn(&'s Endpoint) -> BoxFuture<'s, Result<T, AdapterError>>,
    ) -> Result<T, AdapterError> {
        let mut first = None;
        for member in &self.members {
            match act(member).await {
                Ok(done) => return Ok(done),
                Err(error) => first = first.or(Some(error)),
            }
        }
        let none = || AdapterError::new("", "", Duration::ZERO, Cause::Local, "no member to ask");
        Err(first.unwrap_or_else(none))
    }

    async fn release_at(&self, member: &Endpoint) -> Result<usize, AdapterError> {
        let (silences, _) = list(member, member.deadline()).await?;
        let ours: Vec<&Silence> = silences.iter().filter(|s| self.is_ours(s)).collect();
        for silence in &ours {
            expire(member, &silence.id).await?;
        }
        Ok(ours.len())
    }

    async fn hold_at(&self, member: &Endpoint, lasting: Duration) -> Result<Held, AdapterError> {
        let listed = list(member, member.deadline()).await?;
        self.see_to_it(member, lasting, listed).await
    }

    async fn hold_on_at(
        &self,
        member: &Endpoint,
        lasting: Duration,
        before: &Held,
    ) -> Result<Option<Held>, AdapterError> {
        let listed = list(member, member.deadline()).await?;
        if self.was_ended(&listed.0, before) {
            return Ok(None);
        }
        self.see_to_it(member, lasting, listed).await.map(Some)
    }

    /// Whether a silence of ours ended before its time, and no other one of ours is there. One that nobody could
    /// prolong in time is not meant, nor one that the server has lost.
    fn was_ended(&self, silences: &[Silence], before: &Held) -> bool {
        let early = before.until - TimeDelta::seconds(1);
        let is_it = |s: &Silence| s.id == before.id && s.status.state == State::Expired && s.ends_at < early;
        silences.iter().any(is_it) && !silences.iter().any(|s| self.is_ours(s))
    }

    async fn see_to_it(
        &self,
        member: &Endpoint,
        lasting: Duration,
        (silences, answer): (Vec<Silence>, Answer),
    ) -> Result<Held, AdapterError> {
        // Its end is on their clock.
        let now = answer.date().unwrap_or_else(Utc::now);
        let steps = self.steps(&silences, now, lasting);
        let held = match (steps.send, steps.held) {
            (Some(document), _) => {
                let until = now + time(lasting);
                let answer = member
                    .ask(&Request::post("/api/v2/silences").json(document))
                    .await?;
                let made: Made = answer.json()?;
                Held { id: made.id, until }
            }
            (None, Some(held)) => held,
            (None, None) => return Err(answer.error(Cause::NotUnderstood, "no silence, and none to make")),
        };
        for id in &steps.surplus {
            expire(member, id).await?;
        }
        Ok(held)
    }

    /// Whether a silence is one of this signal's that has not ended.
    fn is_ours(&self, silence: &Silence) -> bool {
        silence.status.state != State::Expired
            && silence.created_by == AUTHOR
            && silence.comment == self.comment
    }

    fn steps(&self, silences: &[Silence], now: DateTime<Utc>, lasting: Duration) -> Steps {
        let mut ours: Vec<&Silence> = silences.iter().filter(|s| self.is_ours(s)).collect();
        // The longest first; one with other matchers, from before the configuration was changed, is of no use.
        ours.sort_by_key(|s| (!self.fits(s), std::cmp::Reverse(s.ends_at)));
        let best = ours.first().copied().filter(|s| self.fits(s));
        let until = now + time(lasting);
        let send = match best {
            Some(best) if best.ends_at >= now + time(lasting) / 2 => None,
            Some(best) => Some(self.document(Some(&best.id), best.starts_at, until)),
            // A start in the past is taken for *now*, also by a server whose clock is a little behind.
            None => Some(self.document(None, now - TimeDelta::minutes(1), until)),
        };
        Steps {
            send,
            held: best.map(|s| Held {
                id: s.id.clone(),
                until: s.ends_at,
            }),
            surplus: ours
                .iter()
                .skip(usize::from(best.is_some()))
                .map(|s| s.id.clone())
                .collect(),
        }
    }

    fn fits(&self, silence: &Silence) -> bool {
        let mut matchers = silence.matchers.clone();
        matchers.sort();
        matchers == self.matchers
    }

    fn document(&self, id: Option<&str>, from: DateTime<Utc>, until: DateTime<Utc>) -> serde_json::Value {
        let at = |time: DateTime<Utc>| time.to_rfc3339_opts(SecondsFormat::Millis, true);
        let mut document = json!({
            "matchers": self.matchers,
            "startsAt": at(from),
            "endsAt": at(until),
            "createdBy": AUTHOR,
            "comment": self.comment,
        });
        if let (Some(id), Some(fields)) = (id, document.as_object_mut()) {
            fields.insert("id".to_owned(), id.into());
        }
        document
    }
}

fn time(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::days(1))
}

async fn list(member: &Endpoint, left: Duration) -> Result<(Vec<Silence>, Answer), AdapterError> {
    let answer = member.ask(&Request::get("/api/v2/silences").within(left)).await?;
    let silences: Vec<Silence> = answer.json()?;
    // They become a part of a path.
    let is_id = |id: &str| id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') && !id.is_empty();
    if silences.iter().any(|s| !is_id(&s.id)) {
        return Err(answer.error(Cause::NotUnderstood, "a silence whose id is none"));
    }
    Ok((silences, answer))
}

/// Ends a silence. One that is gone or has ended is as good.
async fn expire(member: &Endpoint, id: &str) -> Result<(), AdapterError> {
    let request = Request::new(Method::DELETE, &format!("/api/v2/silence/{id}"));
    let answer = member.send(&request).await?;
    if answer.status == 404 {
        return Ok(());
    }
    let Err(error) = answer.into_success() else {
        return Ok(());
    };
    // Refused, perhaps because it has just ended.
    let (silences, _) = list(member, member.deadline()).await?;
    let lives = silences
        .iter()
        .any(|s| s.id == id && s.status.state != State::Expired);
    if lives { Err(error) } else { Ok(()) }
}

/// The ids of all silences that this program ever made at a member, whatever their state and signal.
pub(super) async fn ours(member: &Endpoint, left: Duration) -> Result<BTreeSet<String>, AdapterError> {
    let (silences, _) = list(member, left).await?;
    let ours = silences.into_iter().filter(|s| s.created_by == AUTHOR);
    Ok(ours.map(|s| s.id).collect())
}

#[cfg(test)]
#[path = "silence_tests.rs"]
mod tests;
