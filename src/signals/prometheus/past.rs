//! What the server knows of the last hours, for charts.
//!
//! Value, age and counts are asked for over time in one range query, and each step is judged as a reading would be:
//! one series that is no number, that is missing between its first and its last point, that is old or whose partitions
//! are mostly unknown makes the step a gap. Gaps are left out, never filled.

use super::{
    FUTURE, PART, Prometheus, Rules,
    answer::{self, Labels, Outcome, Track},
    combined,
    verdict::{EARLIEST, number, too_many_unknown},
};
use crate::{
    config::{Counts, MOST_SERIES},
    net::{AdapterError, Answer, Cause, Endpoint},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// The most bytes of an answer.
const BODY_CAP: usize = 8 * 1024 * 1024;
/// A Prometheus refuses to give more points of a series than 11,000.
const MOST_POINTS: u32 = 11_000;
/// The shortest step.
const SHORTEST: Duration = Duration::from_secs(1);
/// How old a sample may be at a step, unless three steps are longer.
const OLDEST: Duration = Duration::from_secs(60);

impl Prometheus {
    pub(super) async fn past(
        &self,
        since: Duration,
        step: Duration,
    ) -> Result<Vec<(Duration, f64)>, AdapterError> {
        // A number whose age cannot be known is none, in the past as now.
        let Ok(age) = &self.age else {
            return Ok(Vec::new());
        };
        let endpoint = self.endpoint.with_body_cap(BODY_CAP);
        let end = Instant::now() + endpoint.deadline();
        let span = Span {
            now: self.server_time(end).await?,
            since,
            step: step.max(SHORTEST).max(since / (MOST_POINTS - 1)),
        };
        let whole = combined(&self.query, age, self.counts.as_ref());
        let tracks = match self.range(&endpoint, &whole, span, end).await {
            Ok(tracks) => tracks,
            Err(error) if error.cause == Cause::BadRequest => {
                self.range_apart(&endpoint, age, span, end).await?
            }
            Err(error) => return Err(error),
        };
        Ok(judged(&self.rules, self.counts.as_ref(), span, tracks))
    }

    /// The server's own time: ours takes no part in where its past lies.
    async fn server_time(&self, end: Instant) -> Result<f64, AdapterError> {
        let (answered, answer) = self.query("time()", None, end).await?;
        match answered.outcome {
            Outcome::Samples(samples) => match samples.as_slice() {
                [one] if one.at.is_finite() && one.at >= EARLIEST => Ok(one.at),
                _ => Err(odd(&answer, "time() gives no time")),
            },
            Outcome::Other(what) => Err(odd(&answer, &format!("time() gives {what}"))),
        }
    }

    async fn range(
        &self,
        endpoint: &Endpoint,
        query: &str,
        span: Span,
        end: Instant,
    ) -> Result<Vec<Track>, AdapterError> {
        let fields = [
            ("query", query.to_owned()),
            ("start", format!("{:.3}", span.now - span.since.as_secs_f64())),
            ("end", format!("{:.3}", span.now)),
            ("step", format!("{:.3}", span.step.as_secs_f64())),
        ];
        let fields = fields.map(|(key, value)| (key.to_owned(), value)).to_vec();
        let answer = self.ask(endpoint, "/api/v1/query_range", fields, end).await?;
        let tracks = answer::read_range(&answer)?;
        if tracks.len() > 4 * MOST_SERIES {
            return Err(odd(&answer, &format!("{} series", tracks.len())));
        }
        Ok(tracks)
    }

    /// One after the other, for a server or a query that does not take them together.
    async fn range_apart(
        &self,
        endpoint: &Endpoint,
        age: &str,
        span: Span,
        end: Instant,
    ) -> Result<Vec<Track>, AdapterError> {
        let mut queries = vec![("value", self.query.as_str()), ("age", age)];
        if let Some(counts) = &self.counts {
            queries.extend([("all", counts.all.as_str()), ("known", counts.known.as_str())]);
        }
        let mut found = Vec::new();
        for (part, query) in queries {
            for mut track in self.range(endpoint, query, span, end).await? {
                track.labels.insert(PART.to_owned(), part.to_owned());
                found.push(track);
            }
        }
        Ok(found)
    }
}

fn odd(answer: &Answer, why: &str) -> AdapterError {
    answer.error(Cause::NotUnderstood, why)
}

/// The time that is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// The server's, Unix seconds.
    pub(super) now: f64,
    pub(super) since: Duration,
    pub(super) step: Duration,
}

/// One instant of the server's time, in milliseconds.
type Instants<T> = BTreeMap<i64, T>;

/// All that was there at one step.
#[derive(Default)]
struct Step<'a> {
    values: Vec<(&'a Labels, f64)>,
    oldest: Option<f64>,
    all: BTreeMap<&'a Labels, f64>,
    known: BTreeMap<&'a Labels, f64>,
}

/// The steps with a valid number, oldest first.
pub(super) fn judged(
    rules: &Rules,
    counts: Option<&Counts>,
    span: Span,
    mut tracks: Vec<Track>,
) -> Vec<(Duration, f64)> {
    let parts: Vec<Option<String>> = tracks.iter_mut().map(|t| t.labels.remove(PART)).collect();
    let mut steps: Instants<Step<'_>> = Instants::new();
    // Of each series of values when it was there first and last.
    let mut lives: Vec<(i64, i64)> = Vec::new();
    for (track, part) in tracks.iter().zip(&parts) {
        let times: BTreeSet<i64> = track.points.iter().map(|(at, _)| millis(*at)).collect();
        for (at, value) in &track.points {
            let step = steps.entry(millis(*at)).or_default();
            match part.as_deref() {
                Some("value") => step.values.push((&track.labels, *value)),
                Some("age") => step.oldest = Some(older(step.oldest, *value)),
                Some("all") => drop(step.all.insert(&track.labels, *value)),
                Some("known") => drop(step.known.insert(&track.labels, *value)),
                _ => {}
            }
        }
        if part.as_deref() == Some("value")
            && let (Some(first), Some(last)) = (times.first(), times.last())
        {
            lives.push((*first, *last));
        }
    }
    let worst = |(at, step): (&i64, &Step<'_>)| {
        let alive = lives
            .iter()
            .filter(|(first, last)| first <= at && at <= last)
            .count();
        let ago = ago(span, *at)?;
        step.is_fresh(span, *at).then_some(())?;
        step.worst(rules, counts, alive).map(|value| (ago, value))
    };
    steps.iter().filter_map(worst).collect()
}

impl Step<'_> {
    /// The largest number, if everything is there.
    fn worst(&self, rules: &Rules, counts: Option<&Counts>, alive: usize) -> Option<f64> {
        let there = self.values.len();
        let enough = match rules.series {
            Some(least) => there >= usize::try_from(least).unwrap_or(usize::MAX),
            None => there >= alive,
        };
        let labels: Vec<&Labels> = self.values.iter().map(|(labels, _)| *labels).collect();
        if !enough || there > MOST_SERIES || !rules.missing_of(&labels).is_empty() {
            return None;
        }
        let uncounted = |(labels, all): (&&Labels, &f64)| {
            too_many_unknown(*all, self.known.get(*labels).copied().unwrap_or(0.0))
        };
        if counts.is_some() && (self.all.is_empty() || self.all.iter().any(uncounted)) {
            return None;
        }
        let numbers: Option<Vec<f64>> = self.values.iter().map(|(_, v)| number(*v).ok()).collect();
        numbers?.into_iter().reduce(f64::max)
    }

    /// Written so that NaN is refused.
    fn is_fresh(&self, span: Span, at: i64) -> bool {
        let at = at as f64 / 1000.0;
        let limit = OLDEST.max(span.step.saturating_mul(3)).as_secs_f64();
        self.oldest
            .is_some_and(|oldest| oldest >= EARLIEST && oldest <= at + FUTURE && at - oldest <= limit)
    }
}

/// The older of two; what is unknown stays so.
fn older(before: Option<f64>, next: f64) -> f64 {
    match before {
        Some(before) if !(next < before || next.is_nan()) => before,
        _ => next,
    }
}

fn millis(at: f64) -> i64 {
    (at * 1000.0).round() as i64
}

/// How long ago a step was; `None` outside of what was asked for.
fn ago(span: Span, at: i64) -> Option<Duration> {
    let seconds = span.now - at as f64 / 1000.0;
    // What is rounded may lie beyond the edges, and nothing else.
    let inside = seconds >= -0.5 && seconds <= span.since.as_secs_f64() + 0.5;
    inside.then(|| Duration::try_from_secs_f64(seconds.max(0.0)).ok())?
}
