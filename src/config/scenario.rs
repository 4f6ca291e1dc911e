//! Scenario files of `backfill simulate`: a modelled world to try throttles in. Read like `config.toml`, so that a key
//! that nobody knows is refused with its place and the nearest name.
//!
//! Times are lengths from the beginning of the scenario; nothing in it has a date.

use super::{
    Unit,
    parse::table,
    problem::{ConfigErrors, Report},
    read::{Entry, Section},
};
use crate::domain::ids::Name;
use std::{path::Path, time::Duration};

/// A whole, checked scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// How long it lasts.
    pub duration: Duration,
    /// The first seed; `--seeds N` takes this one and those that follow.
    pub seed: u64,
    /// How often the signal is asked and the throttle decides.
    pub tick: Duration,
    /// The work.
    pub backfill: Work,
    /// The live pipeline that must not suffer.
    pub consumer: Consumer,
    /// What is watched.
    pub signal: Levels,
    /// What goes wrong, in the order of the file.
    pub incidents: Vec<Incident>,
    /// Loads of others that come and go.
    pub other_loads: Vec<OtherLoad>,
}

/// The chunks of the backfill.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// How many.
    pub chunks: u32,
    /// The most running weight.
    pub max_limit: u32,
    /// Median length of an ordinary chunk.
    pub median: Duration,
    /// Spread of the logarithm of that length.
    pub sigma: f64,
    /// Chunks that are larger.
    pub heavy: Vec<Heavy>,
    /// Share of attempts that fail, 0 to 1.
    pub failure_rate: f64,
}

/// Every so many chunks one is so many times as large.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heavy {
    /// Every so many chunks.
    pub every: u32,
    /// So many times an ordinary one.
    pub factor: f64,
}

/// The live pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Consumer {
    /// Messages a second that arrive, the mean of a day.
    pub rate: f64,
    /// By which share of the mean the day swings up and down, 0 to 1.
    pub day_swing: f64,
    /// When in a day of 24 h most arrives.
    pub day_peak: Duration,
    /// Noise on what arrives: standard deviation as a share, and how long it remembers.
    pub noise: Vec<(f64, Duration)>,
    /// Messages a second that it can take.
    pub capacity: f64,
    /// Messages a second that each running unit of weight takes from that.
    pub cost_per_chunk: f64,
    /// How old a sample is when it is seen.
    pub metric_delay: Duration,
}

/// The signal and its thresholds, in its unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Levels {
    /// What it is called in sentences: `lag`.
    pub name: Name,
    /// Seconds: the age of the oldest message that waits. Messages: how many wait.
    pub unit: Unit,
    /// Below it lag is at ease; half of soft if the file does not say.
    pub low: f64,
    /// The throttle holds lag below it.
    pub soft: f64,
    /// Past it nothing starts.
    pub hard: f64,
    /// Past it the throttle hibernates.
    pub critical: f64,
}

/// What the endpoint of the signal does while it is ill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It gives no sample.
    Missing,
    /// It gives the value at the beginning of the fault, with fresh times.
    Frozen,
    /// It gives what is no number.
    Nan,
    /// It gives 0 for everything.
    Zero,
}

/// Something that goes wrong for a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Incident {
    /// When it begins.
    pub at: Duration,
    /// How long it lasts.
    pub lasts: Duration,
    /// What is left of the consumer's capacity; 1 if nothing is taken from it.
    pub capacity_factor: f64,
    /// What the signal does.
    pub metric: Option<Fault>,
    /// The executor takes nothing new; what runs goes on.
    pub executor_down: bool,
}

/// Another load on the consumer that comes and goes: on and off last between the two lengths, drawn evenly.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherLoad {
    /// Messages a second that it takes from the capacity while it is on.
    pub load: f64,
    /// The shortest it stays on or off.
    pub least: Duration,
    /// The longest it stays on or off.
    pub most: Duration,
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Longer ones take more memory than anybody has a use for.
const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);
const MOST_CHUNKS: u64 = 100_000;
const MOST_WEIGHT: u64 = 10_000;
/// What overlaps is multiplied anew at each beginning and end.
const MOST_INCIDENTS: usize = 20_000;
/// Each part of the noise is drawn anew in every step of every seed.
const MOST_NOISES: usize = 10;
/// Each of them is asked in every step of every seed.
const MOST_LOADS: usize = 100;
/// They cost nothing while a night is played.
const MOST_HEAVY: usize = 20_000;

impl Scenario {
    /// Reads a scenario; `path` is named in what is wrong with it.
    ///
    /// # Errors
    /// Everything that is wrong, with place and remedy.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigErrors> {
        table(text, path, whole)
    }
}

fn whole(report: &mut Report<'_>, root: &Section<'_>) -> Option<Scenario> {
    root.only(
        report,
        &[
            "duration",
            "seed",
            "tick",
            "backfill",
            "consumer",
            "signal",
            "incidents",
            "other_loads",
        ],
    );
    let duration = required_length(report, root, "duration", HOUR, LONGEST);
    let seed = or(report, root, "seed", 1, |r, e| e.whole(r, 0, u64::from(u32::MAX)));
    let second = Duration::from_secs(1);
    let tick = or(report, root, "tick", Duration::from_secs(15), |r, e| {
        e.duration(r, second, Duration::from_secs(300))
    });
    let backfill = part(report, root, "backfill").and_then(|s| work(report, &s));
    let consumer = part(report, root, "consumer").and_then(|s| consumer(report, &s));
    let signal = part(report, root, "signal").and_then(|s| levels(report, &s));
    let incidents = tables(report, root, "incidents", MOST_INCIDENTS, incident);
    let other_loads = tables(report, root, "other_loads", MOST_LOADS, other_load);
    Some(Scenario {
        duration: duration?,
        seed: seed?,
        tick: tick?,
        backfill: backfill?,
        consumer: consumer?,
        signal: signal?,
        incidents: incidents?,
        other_loads: other_loads?,
    })
}

fn part<'t>(report: &mut Report<'_>, root: &Section<'t>, key: &str) -> Option<Section<'t>> {
    let expected = format!("a table, [{key}]");
    root.required(report, key, &expected)?.section(report, &expected)
}

/// The elements of `[[key]]`, none if it is not there.
fn tables<T>(
    report: &mut Report<'_>,
    root: &Section<'_>,
    key: &str,
    most: usize,
    read: impl Fn(&mut Report<'_>, &Section<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let Some(entry) = root.get(key) else {
        return Some(Vec::new());
    };
    let expected = format!("tables, [[{key}]]");
    let items = at_most(report, &entry, &expected, most)?;
    let read: Vec<Option<T>> = items
        .iter()
        .map(|item| item.section(report, &expected).and_then(|s| read(report, &s)))
        .collect();
    read.into_iter().collect()
}

/// The elements of a list that is not too long to be played.
fn at_most<'t>(
    report: &mut Report<'_>,
    entry: &Entry<'t>,
    expected: &str,
    most: usize,
) -> Option<Vec<Entry<'t>>> {
    let items = entry.list(report, expected)?;
    if items.len() <= most {
        return Some(items);
    }
    let found = format!("{} of them", items.len());
    let help = "each one costs time in every run: leave away what does not matter, or join several into one";
    entry.problem(report, found, format!("at most {most}"), help);
    None
}

/// A value that has a default.
fn or<T>(
    report: &mut Report<'_>,
    section: &Section<'_>,
    key: &str,
    default: T,
    read: impl FnOnce(&mut Report<'_>, &Entry<'_>) -> Option<T>,
) -> Option<T> {
    match section.get(key) {
        Some(entry) => read(report, &entry),
        None => Some(default),
    }
}

fn required_length(
    report: &mut Report<'_>,
    section: &Section<'_>,
    key: &str,
    least: Duration,
    most: Duration,
) -> Option<Duration> {
    let entry = section.required(report, key, "a duration such as \"36h\"")?;
    entry.duration(report, least, most)
}

/// A number between two bounds, both included.
fn bounded(report: &mut Report<'_>, entry: &Entry<'_>, least: f64, most: f64) -> Option<f64> {
    let expected = format!("a number from {least} to {most}");
    let value = entry.number(report, &expected)?;
    if (least..=most).contains(&value) {
        return Some(value);
    }
    entry.problem(report, value.to_string(), expected, "");
    None
}

fn required_number(
    report: &mut Report<'_>,
    section: &Section<'_>,
    key: &str,
    least: f64,
    most: f64,
) -> Option<f64> {
    let entry = section.required(report, key, &format!("a number from {least} to {most}"))?;
    bounded(report, &entry, least, most)
}

fn required_whole(report: &mut Report<'_>, section: &Section<'_>, key: &str, most: u64) -> Option<u32> {
    let entry = section.required(report, key, "a whole number")?;
    u32::try_from(entry.whole(report, 1, most)?).ok()
}

fn work(report: &mut Report<'_>, section: &Section<'_>) -> Option<Work> {
    section.only(
        report,
        &["chunks", "max_limit", "chunk_minutes", "heavy", "failure_rate"],
    );
    let chunks = required_whole(report, section, "chunks", MOST_CHUNKS);
    let max_limit = required_whole(report, section, "max_limit", MOST_WEIGHT);
    let length = section
        .required(report, "chunk_minutes", "`{ median = 10, sigma = 0.5 }`")
        .and_then(|e| e.section(report, "`{ median = 10, sigma = 0.5 }`"))
        .and_then(|s| {
            s.only(report, &["median", "sigma"]);
            let median = required_number(report, &s, "median", 0.1, 10_000.0);
            let sigma = or(report, &s, "sigma", 0.0, |r, e| bounded(r, e, 0.0, 3.0));
            Some((Duration::from_secs_f64(median? * 60.0), sigma?))
        });
    let heavy = tables(report, section, "heavy", MOST_HEAVY, |r, s| {
        s.only(r, &["every", "factor"]);
        let every = required_whole(r, s, "every", MOST_CHUNKS);
        let factor = required_number(r, s, "factor", 1.0, 10_000.0);
        Some(Heavy {
            every: every?,
            factor: factor?,
        })
    });
    let failure_rate = or(report, section, "failure_rate", 0.0, |r, e| {
        bounded(r, e, 0.0, 0.9)
    });
    let (median, sigma) = length?;
    Some(Work {
        chunks: chunks?,
        max_limit: max_limit?,
        median,
        sigma,
        heavy: heavy?,
        failure_rate: failure_rate?,
    })
}

fn consumer(report: &mut Report<'_>, section: &Section<'_>) -> Option<Consumer> {
    section.only(
        report,
        &[
            "rate",
            "day_swing",
            "day_peak",
            "noise",
            "capacity",
            "cost_per_chunk",
            "metric_delay",
        ],
    );
    let most = 1e12;
    let rate = required_number(report, section, "rate", 0.001, most);
    let capacity = required_number(report, section, "capacity", 0.001, most);
    let cost = required_number(report, section, "cost_per_chunk", 0.0, most);
    let day_swing = or(report, section, "day_swing", 0.0, |r, e| bounded(r, e, 0.0, 1.0));
    let day_peak = or(report, section, "day_peak", HOUR * 14, |r, e| {
        e.duration(r, Duration::ZERO, DAY)
    });
    let delay = or(
        report,
        section,
        "metric_delay",
        Duration::from_secs(30),
        |r, e| e.duration(r, Duration::ZERO, HOUR),
    );
    let noise = or(report, section, "noise", Vec::new(), noise);
    Some(Consumer {
        rate: rate?,
        day_swing: day_swing?,
        day_peak: day_peak?,
        noise: noise?,
        capacity: capacity?,
        cost_per_chunk: cost?,
        metric_delay: delay?,
    })
}

/// `[[0.04, "60s"], [0.02, "30m"]]`.
fn noise(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<Vec<(f64, Duration)>> {
    let expected = "pairs of a share and a memory, as in [[0.04, \"60s\"], [0.02, \"30m\"]]";
    let items = at_most(report, entry, expected, MOST_NOISES)?;
    let mut pair = |item: &Entry<'_>| {
        let parts = item.list(report, expected)?;
        let [share, memory] = parts.as_slice() else {
            item.problem(report, format!("a list of {}", parts.len()), expected, "");
            return None;
        };
        let share = bounded(report, share, 0.0, 1.0);
        let memory = memory.duration(report, Duration::from_secs(1), DAY);
        Some((share?, memory?))
    };
    let read: Vec<Option<(f64, Duration)>> = items.iter().map(&mut pair).collect();
    read.into_iter().collect()
}

fn levels(report: &mut Report<'_>, section: &Section<'_>) -> Option<Levels> {
    section.only(report, &["unit", "low", "soft", "hard", "critical"]);
    let unit = or(report, section, "unit", Unit::Seconds, |r, e| {
        e.word(r, &[("seconds", Unit::Seconds), ("messages", Unit::Messages)])
    });
    let mut level = |key: &str| required_number(report, section, key, 0.001, 1e15);
    let (soft, hard, critical) = (level("soft"), level("hard"), level("critical"));
    let low = or(report, section, "low", None, |r, e| {
        bounded(r, e, 0.0, 1e15).map(Some)
    });
    let (soft, hard, critical) = (soft?, hard?, critical?);
    let low = low?.unwrap_or(soft / 2.0);
    if !(low < soft && soft < hard && hard < critical) {
        let found = format!("low {low}, soft {soft}, hard {hard}, critical {critical}");
        section.problem(report, "soft", &found, "low < soft < hard < critical", "");
        return None;
    }
    Some(Levels {
        name: "lag".parse().ok()?,
        unit: unit?,
        low,
        soft,
        hard,
        critical,
    })
}

fn incident(report: &mut Report<'_>, section: &Section<'_>) -> Option<Incident> {
    section.only(report, &["at", "for", "capacity_factor", "metric", "executor"]);
    let at = required_length(report, section, "at", Duration::ZERO, LONGEST);
    let lasts = required_length(report, section, "for", Duration::from_secs(1), LONGEST);
    let factor = or(report, section, "capacity_factor", 1.0, |r, e| {
        bounded(r, e, 0.0, 10.0)
    });
    let metric = or(report, section, "metric", None, |r, e| {
        let words = [
            ("missing", Fault::Missing),
            ("frozen", Fault::Frozen),
            ("nan", Fault::Nan),
            ("zero", Fault::Zero),
        ];
        e.word(r, &words).map(Some)
    });
    let down = or(report, section, "executor", false, |r, e| {
        e.word(r, &[("down", true)])
    });
    let told = ["capacity_factor", "metric", "executor"];
    if told.iter().all(|key| section.get(key).is_none()) {
        let expected = "`capacity_factor = 0.6`, `metric = \"missing\"` or `executor = \"down\"`";
        section.problem(
            report,
            "capacity_factor",
            "an incident in which nothing happens",
            expected,
            "",
        );
        return None;
    }
    Some(Incident {
        at: at?,
        lasts: lasts?,
        capacity_factor: factor?,
        metric: metric?,
        executor_down: down?,
    })
}

fn other_load(report: &mut Report<'_>, section: &Section<'_>) -> Option<OtherLoad> {
    section.only(report, &["load", "least", "most"]);
    let load = required_number(report, section, "load", 0.0, 1e12);
    let second = Duration::from_secs(1);
    let least = required_length(report, section, "least", second, LONGEST);
    let most = required_length(report, section, "most", second, LONGEST);
    let (least, most) = (least?, most?);
    if most < least {
        section.problem(report, "most", "less than least", "at least as long as least", "");
        return None;
    }
    Some(OtherLoad {
        load: load?,
        least,
        most,
    })
}

#[cfg(test)]
#[path = "scenario_tests.rs"]
mod tests;
