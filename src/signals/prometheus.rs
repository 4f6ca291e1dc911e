//! A lag source that is an instant query of Prometheus, or of something that speaks its API.
//!
//! **Age.** An instant vector carries the time at which it was evaluated, not the time of its samples, and a series
//! whose exporter died may stay visible for five minutes. So the oldest sample's own time is asked for in the same
//! request ([`age_query()`], or the configured `age_query`), and the age is the difference to the evaluation
//! time: both are the server's clock, ours takes no part in it. Should the `Date` header say that the evaluation is
//! old itself (an answer out of a cache), that is added. How far the server's clock is from ours goes into `skew_ms`.
//!
//! **One request or two.** Value and age are one query, told apart by a label, so that they belong to one instant.
//! Where the server refuses that form (the query is a scalar, or not a real Prometheus answers) they become two, the
//! second pinned to the first's evaluation time; that is remembered.
//!
//! Whatever is not exactly one finite number at or above zero, with a known age, complete, is *no sample*.

mod answer;
mod selectors;

pub use selectors::{NoAgeQuery, age_query};

use super::{LagSource, NoSample, Reading};
use crate::{
    config::PrometheusConfig,
    net::{AdapterError, Answer, Cause, Endpoint, EndpointSettings, Request, Surroundings},
};
use answer::{Answered, Outcome, Sample};
use async_trait::async_trait;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// The most bytes of an answer: one number is asked for.
const BODY_CAP: usize = 2 * 1024 * 1024;
/// The label that tells value from age in the combined query.
const PART: &str = "backfill_q";
/// `Date` has whole seconds: only a difference above this is an evaluation that is old itself.
const DATE_SLACK: f64 = 2.0;
/// A Unix time before this is no time of a measurement.
const EARLIEST: f64 = 1e9;
/// How far in the server's future a measurement may be, in seconds: the clocks of one site are not one clock.
const FUTURE: f64 = 5.0;

/// The source.
#[derive(Debug)]
pub struct Prometheus {
    endpoint: Endpoint,
    query: String,
    age: Result<String, NoAgeQuery>,
    /// Whether the age query is the operator's own.
    age_given: bool,
    /// The combined query was refused, and the plain one was not.
    apart: AtomicBool,
    /// POST was refused with *method not allowed*.
    get: AtomicBool,
}

impl Prometheus {
    /// A source in the environment of this process.
    ///
    /// # Errors
    /// A url, header or proxy that cannot be used.
    pub fn new(name: &str, config: &PrometheusConfig) -> Result<Self, AdapterError> {
        Self::within(name, config, Surroundings::from_env())
    }

    /// As [`Self::new`], with proxies and certificates given instead of taken from the environment.
    ///
    /// # Errors
    /// A url, header or proxy that cannot be used.
    pub fn within(
        name: &str,
        config: &PrometheusConfig,
        surroundings: Surroundings,
    ) -> Result<Self, AdapterError> {
        let endpoint = Endpoint::new(EndpointSettings::of(name, &config.http, BODY_CAP, surroundings))?;
        Ok(Self {
            endpoint,
            query: config.query.clone(),
            age: config
                .age_query
                .clone()
                .map_or_else(|| age_query(&config.query), Ok),
            age_given: config.age_query.is_some(),
            apart: AtomicBool::new(false),
            get: AtomicBool::new(false),
        })
    }

    async fn try_read(&self) -> Result<Reading, AdapterError> {
        let end = Instant::now() + self.endpoint.deadline();
        if let Ok(age) = &self.age
            && !self.apart.load(Ordering::Relaxed)
        {
            match self.query(&combined(&self.query, age), None, end).await {
                Ok((answered, answer)) => {
                    if let Some(parts) = Parts::of(answered) {
                        return Ok(parts.reading(&answer));
                    }
                }
                // Its form, perhaps. If not, the plain query's error speaks about the operator's own words.
                Err(error) if error.cause == Cause::BadRequest => {}
                Err(error) => return Err(error),
            }
        }
        self.read_apart(end).await
    }

    /// The value first, then its age at the same instant.
    async fn read_apart(&self, end: Instant) -> Result<Reading, AdapterError> {
        let (answered, answer) = self.query(&self.query, None, end).await?;
        let mut parts = Parts {
            values: answered.outcome,
            times: Vec::new(),
            warnings: answered.warnings,
        };
        let at = match parts.number(&answer) {
            Ok(sample) => sample.at,
            Err(reading) => return Ok(reading),
        };
        let age = match &self.age {
            Ok(age) => age,
            Err(why) => return Ok(no_sample(NoSample::Invalid, why.to_string())),
        };
        self.apart.store(true, Ordering::Relaxed);
        let (answered, age_answer) = match self.query(age, Some(at), end).await {
            Ok(both) => both,
            Err(error) if error.cause == Cause::BadRequest && !self.age_given => {
                let why = format!(
                    "the age of this query cannot be found by itself ({}); set age_query",
                    error.detail
                );
                return Ok(no_sample(NoSample::Invalid, why));
            }
            Err(mut error) => {
                error.tried.push_str(" with the age query");
                return Err(error);
            }
        };
        parts.warnings.extend(answered.warnings);
        match answered.outcome {
            Outcome::Samples(samples) => parts.times = samples.iter().map(|s| s.value).collect(),
            Outcome::Other(what) => {
                let why = age_answer.words(&format!("the age query gives {what}"), 300);
                return Ok(no_sample(NoSample::Invalid, why));
            }
        }
        Ok(parts.reading(&answer))
    }

    /// One instant query. By POST, because selectors get long and caches keep away from it; by GET where only that is
    /// allowed.
    async fn query(
        &self,
        query: &str,
        at: Option<f64>,
        end: Instant,
    ) -> Result<(Answered, Answer), AdapterError> {
        let left = end.saturating_duration_since(Instant::now());
        let mut fields = vec![
            ("query".to_owned(), query.to_owned()),
            ("timeout".to_owned(), format!("{}ms", left.as_millis().max(1))),
        ];
        fields.extend(at.map(|at| ("time".to_owned(), format!("{at:.3}"))));
        let get = || {
            let empty = Request::get("/api/v1/query");
            fields
                .iter()
                .fold(empty, |request, (key, value)| request.query(key, value))
        };
        let post = || Request::post("/api/v1/query").form(fields.clone());
        let request = if self.get.load(Ordering::Relaxed) {
            get()
        } else {
            post()
        };
        let mut answer = self.endpoint.send(&request.within(left)).await?;
        if answer.status == 405 && !self.get.swap(true, Ordering::Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            answer = self.endpoint.send(&get().within(left)).await?;
        }
        let answer = answer.into_success()?;
        Ok((answer::read(&answer)?, answer))
    }
}

#[async_trait]
impl LagSource for Prometheus {
    async fn read(&self) -> Reading {
        self.try_read().await.unwrap_or_else(Reading::Failed)
    }
}

/// Value and age in one query. The line ends keep a comment at the end of either from swallowing the rest.
fn combined(query: &str, age: &str) -> String {
    let part =
        |query: &str, name: &str| format!("label_replace((\n{query}\n), \"{PART}\", \"{name}\", \"\", \"\")");
    format!("{} or {}", part(query, "value"), part(age, "age"))
}

/// What a read gathered.
struct Parts {
    values: Outcome,
    /// Unix times of measurements.
    times: Vec<f64>,
    warnings: Vec<String>,
}

impl Parts {
    /// Takes a combined answer apart; `None` if it is not one.
    fn of(answered: Answered) -> Option<Self> {
        let Outcome::Samples(samples) = answered.outcome else {
            return None;
        };
        let (mut values, mut times) = (Vec::new(), Vec::new());
        for sample in samples {
            match sample.labels.get(PART).map(String::as_str) {
                Some("value") => values.push(sample),
                Some("age") => times.push(sample.value),
                _ => return None,
            }
        }
        Some(Self {
            values: Outcome::Samples(values),
            times,
            warnings: answered.warnings,
        })
    }

    /// The one usable number, or the reading that says why there is none.
    fn number(&self, answer: &Answer) -> Result<&Sample, Reading> {
        let refused = |health, why: &str| Err(no_sample(health, answer.words(why, 300)));
        if let Some(warning) = self.warnings.first() {
            return refused(NoSample::Partial, &format!("a partial answer: {warning}"));
        }
        let samples = match &self.values {
            Outcome::Samples(samples) => samples,
            Outcome::Other(what) => return refused(NoSample::Invalid, &format!("the query gives {what}")),
        };
        match samples.as_slice() {
            [] if self.times.is_empty() => refused(
                NoSample::Missing,
                "empty result: no such series now (exporter down, group gone, a typo?)",
            ),
            [] => refused(
                NoSample::Missing,
                "empty result: its series are there, but the query leaves nothing of them",
            ),
            [one] if one.value.is_nan() => refused(NoSample::Invalid, "the value is NaN"),
            [one] if one.value.is_infinite() => refused(NoSample::Invalid, "the value is infinite"),
            [one] if one.value < 0.0 => refused(
                NoSample::Invalid,
                &format!("the value is {}, below zero", one.value),
            ),
            [one] => Ok(one),
            many => refused(
                NoSample::Invalid,
                &format!(
                    "{} series where one number is expected: wrap the query in sum(..) or max(..)",
                    many.len()
                ),
            ),
        }
    }

    fn reading(&self, answer: &Answer) -> Reading {
        let number = match self.number(answer) {
            Ok(number) => number,
            Err(reading) => return reading,
        };
        // A sum is as old as its oldest part; one that is not known makes all of it unknown.
        let oldest = |a: f64, b: f64| if b < a || b.is_nan() { b } else { a };
        let Some(measured) = self.times.iter().copied().reduce(oldest) else {
            return no_sample(
                NoSample::Missing,
                "a number without any sample behind it: its series are gone (does the query end in `or vector(0)`?)",
            );
        };
        // Written so that NaN is refused.
        if !(measured >= EARLIEST && measured <= number.at + FUTURE) {
            return no_sample(
                NoSample::Invalid,
                format!(
                    "the age query gives {measured}, which is no Unix time in seconds of a past measurement"
                ),
            );
        }
        let clock = ServerClock::of(number.at, answer);
        match Duration::try_from_secs_f64((clock.now - measured).max(0.0)) {
            Ok(age) => Reading::Value {
                value: number.value,
                age,
                skew_ms: clock.skew_ms,
                parts: Vec::new(),
            },
            Err(why) => no_sample(NoSample::Invalid, format!("the age cannot be told: {why}")),
        }
    }
}

fn no_sample(health: NoSample, why: impl Into<String>) -> Reading {
    Reading::NoSample {
        health,
        why: why.into(),
    }
}

/// The server's clock when it answered.
struct ServerClock {
    /// Unix seconds.
    now: f64,
    skew_ms: Option<i64>,
}

impl ServerClock {
    fn of(evaluated: f64, answer: &Answer) -> Self {
        let date = answer.date().map(|d| d.timestamp() as f64);
        let now = date
            .filter(|date| date - evaluated > DATE_SLACK)
            .unwrap_or(evaluated);
        // The evaluation was at some time between our question and its answer. What lies in between is no skew.
        let asked = answer.sent_at.timestamp_millis() as f64;
        let answered = asked + answer.answered_after.as_secs_f64() * 1000.0;
        let theirs = now * 1000.0;
        let skew = theirs - theirs.clamp(asked, answered);
        Self {
            now,
            skew_ms: skew.is_finite().then_some(skew as i64),
        }
    }
}
