//! From what a read gathered to one reading. No I/O, and the time is given.

use super::{
    super::{NoSample, Part, Reading},
    FUTURE, PART, Rules,
    answer::{Answered, Labels, Outcome, Sample},
    series::{Memory, names},
};
use crate::{
    config::MOST_SERIES,
    domain::{human, text},
    net::Answer,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// `Date` has whole seconds: only a difference above this is an evaluation that is old itself.
const DATE_SLACK: f64 = 2.0;
/// A Unix time before this is no time of a measurement.
pub(super) const EARLIEST: f64 = 1e9;
/// The share of partitions that may be without a lag (law C1).
const UNKNOWN_SHARE: f64 = 0.1;
/// The longest explanation.
const WHY: usize = 300;
/// How many series are named in an explanation.
const NAMED: usize = 5;

/// A reading without a number: what is wrong, and in words.
type Refusal = (NoSample, String);

/// What a read gathered.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) values: Outcome,
    /// Unix times of measurements.
    pub(super) times: Vec<f64>,
    /// Partitions behind each series, where they are counted.
    pub(super) all: Vec<Sample>,
    /// Those with a lag.
    pub(super) known: Vec<Sample>,
    pub(super) warnings: Vec<String>,
}

impl Gathered {
    /// The values alone.
    pub(super) fn of_values(answered: Answered) -> Self {
        Self {
            values: answered.outcome,
            times: Vec::new(),
            all: Vec::new(),
            known: Vec::new(),
            warnings: answered.warnings,
        }
    }

    /// Takes a combined answer apart; `None` if it is not one.
    pub(super) fn of_combined(answered: Answered) -> Option<Self> {
        let Outcome::Samples(samples) = answered.outcome else {
            return None;
        };
        let (mut values, mut times, mut all, mut known) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for mut sample in samples {
            match sample.labels.remove(PART).as_deref() {
                Some("value") => values.push(sample),
                Some("age") => times.push(sample.value),
                Some("all") => all.push(sample),
                Some("known") => known.push(sample),
                _ => return None,
            }
        }
        Some(Self {
            values: Outcome::Samples(values),
            times,
            all,
            known,
            warnings: answered.warnings,
        })
    }

    /// When the values were evaluated; or why there are none, as far as they alone can tell.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn evaluated(&self) -> Result<f64, Refusal> {
        let samples = self.samples()?;
        if let [one] = samples
            && let Err(why) = number(one.value)
        {
            return Err((NoSample::Invalid, why));
        }
        match samples.first() {
            Some(first) if samples.len() <= MOST_SERIES => Ok(first.at),
            Some(_) => Err(too_many(samples.len())),
            None => Err((NoSample::Missing, self.nothing())),
        }
    }

    fn samples(&self) -> Result<&[Sample], Refusal> {
        if let Some(warning) = self.warnings.first() {
            return Err((NoSample::Partial, format!("a partial answer: {warning}")));
        }
        match &self.values {
            Outcome::Samples(samples) => Ok(samples),
            Outcome::Other(what) => Err((NoSample::Invalid, format!("the query gives {what}"))),
        }
    }

    fn nothing(&self) -> String {
        let partitions: f64 = self.all.iter().map(|s| s.value).sum();
        if partitions > 0.0 {
            format!(
                "none of {partitions} partitions has a lag: nothing was ever committed, or all of it is negative"
            )
        } else if self.times.is_empty() {
            "empty result: no such series now (exporter down, group gone, a typo?)".to_owned()
        } else {
            "empty result: its series are there, but the query leaves nothing of them".to_owned()
        }
    }

    /// The reading.
    pub(super) fn reading(
        &self,
        rules: &Rules,
        memory: &mut Memory,
        now: Instant,
        answer: &Answer,
    ) -> Reading {
        let refused = |(health, why): Refusal| no_sample(health, answer.words(&why, WHY));
        let (at, parts, value) = match self.judged(rules, memory, now) {
            Ok(judged) => judged,
            Err(refusal) => return refused(refusal),
        };
        // All of it is as old as its oldest part; one that is not known makes all of it unknown.
        let oldest = |a: f64, b: f64| if b < a || b.is_nan() { b } else { a };
        let Some(measured) = self.times.iter().copied().reduce(oldest) else {
            return no_sample(
                NoSample::Missing,
                "a number without any sample behind it: its series are gone (does the query end in `or vector(0)`?)",
            );
        };
        // Written so that NaN is refused.
        if !(measured >= EARLIEST && measured <= at + FUTURE) {
            return no_sample(
                NoSample::Invalid,
                format!(
                    "the age query gives {measured}, which is no Unix time in seconds of a past measurement"
                ),
            );
        }
        let clock = ServerClock::of(at, answer);
        match Duration::try_from_secs_f64((clock.now - measured).max(0.0)) {
            Ok(age) => Reading::Value {
                value,
                age,
                skew_ms: clock.skew_ms,
                parts,
            },
            Err(why) => no_sample(NoSample::Invalid, format!("the age cannot be told: {why}")),
        }
    }

    /// When it was evaluated, the parts and the worst number, if all of it is there.
    fn judged(
        &self,
        rules: &Rules,
        memory: &mut Memory,
        now: Instant,
    ) -> Result<(f64, Vec<Part>, f64), Refusal> {
        let samples = self.samples()?;
        if samples.len() > MOST_SERIES || self.all.len() > MOST_SERIES {
            return Err(too_many(samples.len().max(self.all.len())));
        }
        let gone = if samples.is_empty() {
            BTreeMap::new()
        } else {
            memory
                .look(samples.iter().map(|s| &s.labels), now, rules.gone_after)
                .map_err(|why| (NoSample::Invalid, why))?
        };
        let at = self.evaluated()?;
        let seen = samples.iter().chain(&self.all).map(|s| &s.labels);
        let every: BTreeSet<Labels> = seen.chain(gone.keys()).cloned().collect();
        let named = names(&every, &rules.labels);
        let name = |labels: &Labels| {
            let name = named.as_ref().and_then(|named| named.get(labels));
            name.cloned().unwrap_or_else(|| "the series".to_owned())
        };
        let mut troubles = rules.missing(samples);
        troubles.extend(absent(rules, samples.len(), &gone, &name));
        let mut notes = unknown_partitions(&self.all, &self.known);
        let mut parts = Vec::with_capacity(samples.len());
        for sample in samples {
            let note = match notes.remove(&sample.labels) {
                Some(Unknown::Few(words)) => words,
                Some(Unknown::Many(words)) => {
                    troubles.push(format!("{}: {words}", name(&sample.labels)));
                    String::new()
                }
                None => String::new(),
            };
            let value = number(sample.value);
            if let Err(why) = &value {
                troubles.push(format!("{}: {why}", name(&sample.labels)));
            }
            let name = name(&sample.labels);
            parts.push(Part { name, value, note });
        }
        // Of these there is not even a series.
        for (labels, unknown) in notes {
            let (Unknown::Few(words) | Unknown::Many(words)) = unknown;
            troubles.push(format!("{}: {words}", name(&labels)));
        }
        let worst = Part::worst(&parts).map(|(_, value)| value);
        match (worst, troubles.is_empty()) {
            (None, _) => Err((NoSample::Invalid, listed(&troubles))),
            (Some(_), false) => Err((NoSample::Partial, listed(&troubles))),
            (Some(worst), true) => {
                parts.sort_by(|a, b| a.name.cmp(&b.name));
                // The note of the only series needs a place; otherwise one number has no parts.
                let several = named.is_some() || parts.iter().any(|p| !p.note.is_empty());
                Ok((at, if several { parts } else { Vec::new() }, worst))
            }
        }
    }
}

impl Rules {
    /// What was named in the configuration and has no series.
    pub(super) fn missing(&self, samples: &[Sample]) -> Vec<String> {
        let labels: Vec<&Labels> = samples.iter().map(|s| &s.labels).collect();
        self.missing_of(&labels)
    }

    pub(super) fn missing_of(&self, series: &[&Labels]) -> Vec<String> {
        let mut missing = Vec::new();
        for wanted in &self.wanted {
            let there: BTreeSet<&str> = series
                .iter()
                .filter_map(|labels| labels.get(wanted.label))
                .map(String::as_str)
                .collect();
            let absent = wanted.values.iter().filter(|v| !there.contains(v.as_str()));
            missing.extend(absent.map(|v| format!("no lag of {} {}", wanted.label, text::clean(v))));
        }
        missing
    }
}

/// Series that were there and are not, or too few of them.
fn absent(
    rules: &Rules,
    there: usize,
    gone: &BTreeMap<Labels, Duration>,
    name: &impl Fn(&Labels) -> String,
) -> Vec<String> {
    if let Some(least) = rules.series {
        let few = there < usize::try_from(least).unwrap_or(usize::MAX);
        return few
            .then(|| format!("{there} of {least} series"))
            .into_iter()
            .collect();
    }
    let after = human::exact_duration(rules.gone_after);
    gone.iter()
        .map(|(labels, since)| {
            format!(
                "{} is gone for {} (given up after {after}, or at once with series = {there})",
                name(labels),
                human::duration(*since)
            )
        })
        .collect()
}

/// Partitions without a lag.
enum Unknown {
    /// So few that the number still stands.
    Few(String),
    /// So many that it does not.
    Many(String),
}

/// Of each series those of its partitions that have no lag.
fn unknown_partitions(all: &[Sample], known: &[Sample]) -> BTreeMap<Labels, Unknown> {
    let known: BTreeMap<&Labels, f64> = known.iter().map(|s| (&s.labels, s.value)).collect();
    all.iter()
        .filter_map(|s| {
            let lag = known.get(&s.labels).copied().unwrap_or(0.0);
            let unknown = s.value - lag;
            // Written so that NaN is unknown.
            if unknown <= 0.0 {
                return None;
            }
            let words = format!(
                "{unknown} of {} partitions without a commit or a valid lag",
                s.value
            );
            let share = if too_many_unknown(s.value, lag) {
                Unknown::Many(words)
            } else {
                Unknown::Few(words)
            };
            Some((s.labels.clone(), share))
        })
        .collect()
}

/// Whether more than a tenth of the partitions has no lag. What is no number is not known.
pub(super) fn too_many_unknown(all: f64, known: f64) -> bool {
    let unknown = (all - known) / all;
    unknown.is_nan() || unknown > UNKNOWN_SHARE
}

/// A number that can be a lag.
///
/// # Errors
/// In words why it cannot.
pub(super) fn number(value: f64) -> Result<f64, String> {
    if value.is_nan() {
        Err("the value is NaN".to_owned())
    } else if value.is_infinite() {
        Err("the value is infinite".to_owned())
    } else if value < 0.0 {
        Err(format!("the value is {value}, below zero"))
    } else {
        Ok(value)
    }
}

fn too_many(series: usize) -> Refusal {
    let why = format!(
        "{} series, and at most {MOST_SERIES} can be watched: aggregate, as in max by (consumergroup, topic) (..), or \
         watch fewer",
        human::with_commas(series as u64)
    );
    (NoSample::Invalid, why)
}

/// The first few of them.
fn listed(troubles: &[String]) -> String {
    let first: Vec<&str> = troubles.iter().take(NAMED).map(String::as_str).collect();
    let more = match troubles.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("{}{more}", first.join("; "))
}

pub(super) fn no_sample(health: NoSample, why: impl Into<String>) -> Reading {
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
