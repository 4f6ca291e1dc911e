//! A lag source that is an alert: while it fires the value is 1, else 0.
//!
//! **Firing** is believed at once and from any member of a cluster. **Quiet** is believed only when every member has
//! answered and, where a watchdog is configured, when that is alive: an Alertmanager whose Prometheus died lets its
//! alerts run out after some minutes, and then its list looks exactly as if all of them were resolved.
//!
//! **The watchdog's age.** Prometheus sends each alert again every minute and lets it live for four of those. When it
//! dies, an alert that was sent 50 s before runs out 50 s earlier than a watchdog that was sent in the last moment, so
//! that its being in the list is not enough: it must also have been sent within half of its life.
//!
//! **Silences.** An alert that somebody silenced does not count unless the configuration says so. One that only
//! *we* silenced ([`silence`]) does, always: else holding back would end itself.
//!
//! The list is a statement about now: its age is zero, except where a cache on the way says that it kept it.

mod answer;
mod parts;
pub mod silence;

use super::{LagSource, NoSample, Reading, clock::Clock};
use crate::{
    config::{AlertmanagerConfig, Matcher},
    domain::human,
    net::{AdapterError, Answer, Cause, Endpoint, EndpointSettings, Request, Surroundings},
};
use answer::{Alert, Labels};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// The most bytes of an answer: some thousand alerts.
const BODY_CAP: usize = 8 * 1024 * 1024;

/// The source.
#[derive(Debug)]
pub struct Alertmanager {
    members: Vec<Endpoint>,
    matchers: Vec<Matcher>,
    silenced: bool,
    inhibited: bool,
    watchdog: Vec<Matcher>,
}

/// The endpoints of a cluster's members, the first one first.
fn endpoints(
    name: &str,
    config: &AlertmanagerConfig,
    surroundings: &Surroundings,
) -> Result<Vec<Endpoint>, AdapterError> {
    let urls = std::iter::once(&config.http.url).chain(&config.members);
    urls.map(|url| {
        let settings = EndpointSettings::of(name, &config.http, BODY_CAP, surroundings.clone());
        Endpoint::new(EndpointSettings {
            url: url.clone(),
            ..settings
        })
    })
    .collect()
}

impl Alertmanager {
    /// A source in the environment of this process.
    ///
    /// # Errors
    /// A url, header or proxy that cannot be used.
    pub fn new(name: &str, config: &AlertmanagerConfig) -> Result<Self, AdapterError> {
        Self::within(name, config, Surroundings::from_env())
    }

    /// As [`Self::new`], with proxies and certificates given instead of taken from the environment.
    ///
    /// # Errors
    /// A url, header or proxy that cannot be used.
    pub fn within(
        name: &str,
        config: &AlertmanagerConfig,
        surroundings: Surroundings,
    ) -> Result<Self, AdapterError> {
        Ok(Self {
            members: endpoints(name, config, &surroundings)?,
            matchers: config.matchers.clone(),
            silenced: config.silenced,
            inhibited: config.inhibited,
            watchdog: config.watchdog.clone(),
        })
    }

    /// What one member says. One request after the other, so that a refused login is refused once.
    async fn ask(&self, member: &Endpoint, end: Instant) -> Result<Heard, AdapterError> {
        let (alerts, answer) = list(member, &self.matchers, end).await?;
        let clock = Clock::of(&answer);
        let mut firing = self.firing(&alerts, &BTreeSet::new());
        if !self.silenced && alerts.iter().any(Alert::is_silenced) {
            match silence::ours(member, left(end)).await {
                Ok(ours) => firing = self.firing(&alerts, &ours),
                // What fires without them is enough.
                Err(_) if !firing.is_empty() => {}
                Err(error) => return Err(error),
            }
        }
        // A firing alert needs nobody to vouch for it.
        let watchdog = if firing.is_empty() && !self.watchdog.is_empty() {
            let (alerts, answer) = list(member, &self.watchdog, end).await?;
            Watchdog::among(&alerts, Clock::of(&answer).now())
        } else {
            Watchdog::NotAsked
        };
        Ok(Heard {
            firing,
            watchdog,
            clock,
        })
    }

    /// The alerts that count. `ours` are the silences that we made.
    fn firing(&self, alerts: &[Alert], ours: &BTreeSet<String>) -> BTreeSet<Labels> {
        let counting = alerts.iter().filter(|alert| self.counts(alert, ours));
        counting.map(|alert| alert.labels.clone()).collect()
    }

    /// Whether an alert in the list fires as far as we are concerned.
    fn counts(&self, alert: &Alert, ours: &BTreeSet<String>) -> bool {
        let by_others = alert.silenced_by().iter().any(|id| !ours.contains(id));
        (self.silenced || !by_others) && (self.inhibited || !alert.is_inhibited())
    }

    /// The cluster's answer out of its members' answers.
    fn together(&self, answers: Vec<Result<Heard, AdapterError>>) -> Reading {
        let asked = answers.len();
        let (mut heard, mut errors) = (Vec::new(), Vec::new());
        for answer in answers {
            match answer {
                Ok(one) => heard.push(one),
                Err(error) => errors.push(error),
            }
        }
        let firing: BTreeSet<Labels> = heard.iter().flat_map(|h| h.firing.iter().cloned()).collect();
        let quiet = firing.is_empty();
        if let Some(error) = errors.first().filter(|_| quiet) {
            if errors.len() == asked {
                return Reading::Failed(error.clone());
            }
            let why = format!(
                "{} of {} did not answer, and quiet is believed only when all do: {error}",
                errors.len(),
                human::counted(asked as u64, "member"),
            );
            return no_sample(NoSample::Partial, why);
        }
        if quiet && let Some(why) = self.unwatched(&heard) {
            return no_sample(NoSample::Missing, why);
        }
        Reading::Value {
            value: if quiet { 0.0 } else { 1.0 },
            age: heard.iter().map(|h| h.clock.kept).max().unwrap_or_default(),
            skew_ms: heard
                .iter()
                .filter_map(|h| h.clock.skew_ms)
                .max_by_key(|skew| skew.unsigned_abs()),
            parts: parts::of(&firing, &self.matchers),
        }
    }

    /// Why an empty list says nothing; `None` if it does.
    fn unwatched(&self, heard: &[Heard]) -> Option<String> {
        if self.watchdog.is_empty() || heard.iter().any(|h| h.watchdog == Watchdog::Alive) {
            return None;
        }
        let youngest = heard.iter().filter_map(|h| match h.watchdog {
            Watchdog::Late(age) => Some(age),
            Watchdog::NotAsked | Watchdog::Missing | Watchdog::Alive => None,
        });
        let wanted = matchers_shown(&self.watchdog);
        Some(match youngest.min() {
            Some(age) => format!(
                "the watchdog ({wanted}) was last sent {} ago: Prometheus has stopped sending alerts",
                human::age(age)
            ),
            None => format!(
                "the watchdog ({wanted}) does not fire: nothing sends alerts (Prometheus down, or cut off from here), \
                 or no rule makes it"
            ),
        })
    }
}

#[async_trait]
impl LagSource for Alertmanager {
    async fn read(&self) -> Reading {
        let deadline = self.members.iter().map(Endpoint::deadline).max();
        let end = Instant::now() + deadline.unwrap_or_default();
        let asked = self.members.iter().map(|member| self.ask(member, end));
        self.together(futures::future::join_all(asked).await)
    }
}

/// What one member said.
#[derive(Debug)]
struct Heard {
    firing: BTreeSet<Labels>,
    watchdog: Watchdog,
    clock: Clock,
}

/// The state of the watchdog at one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watchdog {
    NotAsked,
    Missing,
    /// It is in the list, and was not sent for that long.
    Late(Duration),
    Alive,
}

impl Watchdog {
    /// Silenced and inhibited ones count: a watchdog is there to be sent, and most often to nobody.
    fn among(alerts: &[Alert], now: DateTime<Utc>) -> Self {
        let states = alerts.iter().map(|alert| {
            let age = now - alert.updated_at;
            let life = alert.ends_at - alert.updated_at;
            if age > life / 2 {
                Self::Late(age.to_std().unwrap_or_default())
            } else {
                Self::Alive
            }
        });
        states
            .min_by_key(|state| match state {
                Self::Late(age) => *age,
                Self::NotAsked | Self::Missing | Self::Alive => Duration::ZERO,
            })
            .unwrap_or(Self::Missing)
    }
}

fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

/// The alerts of a member that fit all matchers, whatever their state: which of them count is decided here.
async fn list(
    member: &Endpoint,
    matchers: &[Matcher],
    end: Instant,
) -> Result<(Vec<Alert>, Answer), AdapterError> {
    let all = Request::get("/api/v2/alerts").within(left(end));
    let request = matchers
        .iter()
        .fold(all, |request, m| request.query("filter", &m.to_string()));
    let answer = member.ask(&request).await?;
    let alerts = answer::alerts(&answer)?;
    let strange = |alert: &&Alert| {
        matchers
            .iter()
            .any(|m| m.fits(alert.label(&m.name)) == Some(false))
    };
    if let Some(alert) = alerts.iter().find(strange) {
        let why = format!(
            "it lists the alert {:?}, which was not asked for: does something on the way drop the query of the url?",
            alert.label("alertname")
        );
        return Err(answer.error(Cause::NotUnderstood, &why));
    }
    Ok((alerts, answer))
}

fn matchers_shown(matchers: &[Matcher]) -> String {
    let shown: Vec<String> = matchers.iter().map(ToString::to_string).collect();
    crate::domain::text::one_line(&shown.join(", "), 120)
}

fn no_sample(health: NoSample, why: String) -> Reading {
    Reading::NoSample { health, why }
}

#[cfg(test)]
#[path = "alertmanager_tests.rs"]
mod tests;
