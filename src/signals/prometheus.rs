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
//! **Several series.** Each is a part, named by the labels in which they differ; the worst is the value. What was there
//! and is gone makes the reading partial until it has been gone for long: a query that loses its worst series must not
//! look well. Whatever is not finite, at or above zero, of known age and complete, is *no sample*.

mod answer;
mod past;
mod selectors;
mod series;
mod verdict;

#[cfg(test)]
mod tests;

pub use selectors::{NoAgeQuery, age_query};

use super::{LagSource, NoSample, Reading};
use crate::{
    config::{Counts, PrometheusConfig, Wanted},
    net::{AdapterError, Answer, Cause, Endpoint, EndpointSettings, Request, Surroundings},
};
use answer::{Answered, Outcome, Sample};
use async_trait::async_trait;
use series::Memory;
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use verdict::{Gathered, no_sample};

/// The most bytes of an answer: a few hundred numbers are asked for.
const BODY_CAP: usize = 2 * 1024 * 1024;
/// The label that tells value from age in the combined query.
const PART: &str = "backfill_q";
/// How far in the server's future a measurement may be, in seconds: the clocks of one site are not one clock.
const FUTURE: f64 = 5.0;

/// What a complete reading is.
#[derive(Debug)]
struct Rules {
    /// Labels that belong into the names of parts.
    labels: Vec<&'static str>,
    /// What has to be there.
    wanted: Vec<Wanted>,
    /// So many series are enough.
    series: Option<u32>,
    /// How long a series has to be gone before it is forgotten.
    gone_after: Duration,
}

/// The source.
#[derive(Debug)]
pub struct Prometheus {
    endpoint: Endpoint,
    query: String,
    age: Result<String, NoAgeQuery>,
    /// Whether the age query was given.
    age_given: bool,
    counts: Option<Counts>,
    rules: Rules,
    memory: Mutex<Memory>,
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
        let preset = config.preset.as_ref();
        Ok(Self {
            endpoint,
            query: config.query.clone(),
            age: config
                .age_query
                .clone()
                .map_or_else(|| age_query(&config.query), Ok),
            age_given: config.age_query.is_some(),
            counts: preset.and_then(|p| p.counts.clone()),
            rules: Rules {
                labels: preset.map(|p| p.labels.clone()).unwrap_or_default(),
                wanted: preset.map(|p| p.wanted.clone()).unwrap_or_default(),
                series: config.series,
                gone_after: config.gone_after,
            },
            memory: Mutex::new(Memory::default()),
            apart: AtomicBool::new(false),
            get: AtomicBool::new(false),
        })
    }

    async fn try_read(&self) -> Result<Reading, AdapterError> {
        let end = Instant::now() + self.endpoint.deadline();
        if let Ok(age) = &self.age
            && !self.apart.load(Ordering::Relaxed)
        {
            let combined = combined(&self.query, age, self.counts.as_ref());
            match self.query(&combined, None, end).await {
                Ok((answered, answer)) => {
                    if let Some(gathered) = Gathered::of_combined(answered) {
                        return Ok(self.judge(&gathered, &answer));
                    }
                }
                // Its form, perhaps. If not, the plain query's error speaks about the operator's own words.
                Err(error) if error.cause == Cause::BadRequest => {}
                Err(error) => return Err(error),
            }
        }
        self.read_apart(end).await
    }

    fn judge(&self, gathered: &Gathered, answer: &Answer) -> Reading {
        // What a reader that failed left behind is still what was seen.
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        gathered.reading(&self.rules, &mut memory, Instant::now(), answer)
    }

    /// The value first, then its age and its counts at the same instant.
    async fn read_apart(&self, end: Instant) -> Result<Reading, AdapterError> {
        let (answered, answer) = self.query(&self.query, None, end).await?;
        let mut gathered = Gathered::of_values(answered);
        let at = match gathered.evaluated() {
            Ok(at) => at,
            Err((health, why)) => return Ok(no_sample(health, answer.words(&why, 300))),
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
        gathered.warnings.extend(answered.warnings);
        match answered.outcome {
            Outcome::Samples(samples) => gathered.times = samples.iter().map(|s| s.value).collect(),
            Outcome::Other(what) => {
                let why = age_answer.words(&format!("the age query gives {what}"), 300);
                return Ok(no_sample(NoSample::Invalid, why));
            }
        }
        if let Some(counts) = &self.counts {
            gathered.all = self.counted(&counts.all, at, end, &mut gathered.warnings).await?;
            gathered.known = self
                .counted(&counts.known, at, end, &mut gathered.warnings)
                .await?;
        }
        Ok(self.judge(&gathered, &answer))
    }

    async fn counted(
        &self,
        query: &str,
        at: f64,
        end: Instant,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Sample>, AdapterError> {
        let (answered, answer) = self.query(query, Some(at), end).await?;
        warnings.extend(answered.warnings);
        match answered.outcome {
            Outcome::Samples(samples) => Ok(samples),
            Outcome::Other(what) => Err(answer.error(
                Cause::NotUnderstood,
                &format!("the count of partitions gives {what}"),
            )),
        }
    }

    /// One instant query.
    async fn query(
        &self,
        query: &str,
        at: Option<f64>,
        end: Instant,
    ) -> Result<(Answered, Answer), AdapterError> {
        let mut fields = vec![("query".to_owned(), query.to_owned())];
        fields.extend(at.map(|at| ("time".to_owned(), format!("{at:.3}"))));
        let answer = self.ask(&self.endpoint, "/api/v1/query", fields, end).await?;
        Ok((answer::read(&answer)?, answer))
    }

    /// By POST, because selectors get long and caches keep away from it; by GET where only that is allowed.
    async fn ask(
        &self,
        endpoint: &Endpoint,
        path: &str,
        mut fields: Vec<(String, String)>,
        end: Instant,
    ) -> Result<Answer, AdapterError> {
        let left = end.saturating_duration_since(Instant::now());
        fields.push(("timeout".to_owned(), format!("{}ms", left.as_millis().max(1))));
        let get = || {
            fields.iter().fold(Request::get(path), |request, (key, value)| {
                request.query(key, value)
            })
        };
        let post = || Request::post(path).form(fields.clone());
        let request = if self.get.load(Ordering::Relaxed) {
            get()
        } else {
            post()
        };
        let mut answer = endpoint.send(&request.within(left)).await?;
        if answer.status == 405 && !self.get.swap(true, Ordering::Relaxed) {
            let left = end.saturating_duration_since(Instant::now());
            answer = endpoint.send(&get().within(left)).await?;
        }
        answer.into_success()
    }
}

#[async_trait]
impl LagSource for Prometheus {
    async fn read(&self) -> Reading {
        self.try_read().await.unwrap_or_else(Reading::Failed)
    }

    async fn history(&self, since: Duration, step: Duration) -> Result<Vec<(Duration, f64)>, AdapterError> {
        self.past(since, step).await
    }
}

/// Value, age and counts in one query. The line ends keep a comment at the end of one from swallowing the rest.
fn combined(query: &str, age: &str, counts: Option<&Counts>) -> String {
    let part =
        |query: &str, name: &str| format!("label_replace((\n{query}\n), \"{PART}\", \"{name}\", \"\", \"\")");
    let mut parts = vec![part(query, "value"), part(age, "age")];
    if let Some(counts) = counts {
        parts.extend([part(&counts.all, "all"), part(&counts.known, "known")]);
    }
    parts.join(" or ")
}
