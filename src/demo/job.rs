//! The demo's data work, a subcommand of this binary: reads one day of raw events, adds them up by country and
//! category, and replaces exactly that day's partition.
//!
//! Time and memory are modelled, and then really spent: the work sleeps, and it touches memory in proportion to
//! its rows, as a window over all events of a day would. So a Black Friday is really killed by a small limit.

use super::{
    Faults,
    dice::{Dice, Purpose},
    presence::Presence,
    publish::{self, PublishError},
    raw,
};
use crate::domain::{ids::AttemptId, text};
use chrono::NaiveDate;
use clap::Parser;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    hint::black_box,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Memory of an attempt whatever its day, in bytes.
const BASE_MEMORY: usize = 6 << 20;
/// Memory that one row takes on top, in bytes.
const ROW_MEMORY: usize = 10 << 10;
/// From this much memory on it is held for [`HOLD`] at least.
const HOLD_FROM: usize = 48 << 20;
/// Several looks of a sampler that looks every 250 ms, so that no pace outruns it.
const HOLD: Duration = Duration::from_millis(1200);
/// In how many steps the work is done.
const STEPS: usize = 20;
/// The step before which a transient failure strikes.
const FAILS_AT: usize = 6;
/// One attempt in this many fails for a passing reason, first attempts only.
const TRANSIENT_ONE_IN: u32 = 25;
/// Rows of an ordinary day; its work takes about a second at pace 1.
const ORDINARY_ROWS: f64 = 225.0;

/// The first line of a partition.
pub const HEADER: &str = "country,category,orders,units,revenue_cents";

/// What the job is told.
#[derive(Debug, Clone, PartialEq, Parser)]
#[command(name = super::JOB, no_binary_name = true, disable_help_subcommand = true)]
pub struct JobArgs {
    /// Folder of raw events.
    #[arg(long)]
    pub raw: PathBuf,
    /// Folder of partitions.
    #[arg(long)]
    pub warehouse: PathBuf,
    /// Folder in which running attempts are counted.
    #[arg(long)]
    pub running: PathBuf,
    /// The day.
    #[arg(long)]
    pub ds: NaiveDate,
    /// The attempt, `BACKFILL_ID/CHUNK/N`.
    #[arg(long)]
    pub attempt: AttemptId,
    /// Durations and faults are drawn from it.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Which faults happen.
    #[arg(long, default_value_t = Faults::Default)]
    pub faults: Faults,
    /// Factor on the time that the work takes.
    #[arg(long, default_value_t = 1.0)]
    pub pace: f64,
}

/// How the job fails. The exit codes are those of `sysexits.h` where one fits.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A passing failure of the platform.
    #[error("{0}")]
    Platform(&'static str),
    /// A passing failure of no known kind.
    #[error("{0}")]
    Other(&'static str),
    /// The raw events cannot be processed.
    #[error("{file}:{line}: {what}")]
    Data {
        /// The file, as the job was given it.
        file: PathBuf,
        /// Line from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The partition was not replaced.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl JobError {
    /// The exit code that tells the executor what kind of failure it was.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Other(_) => 1,
            Self::Data { .. } => 65,
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => 66,
            Self::Publish(PublishError::Superseded { .. }) => 73,
            Self::Io { .. } | Self::Publish(PublishError::Io { .. }) => 74,
            Self::Platform(_) => 75,
        }
    }
}

/// The whole subcommand, with what follows its name on the command line: works, tells how it went on standard
/// output and error, and returns the exit code.
pub fn main(args: impl IntoIterator<Item = std::ffi::OsString>) -> u8 {
    let args = match JobArgs::try_parse_from(args) {
        Ok(args) => args,
        Err(e) => {
            let _ = e.print();
            return 64;
        }
    };
    match run(&args, &mut io::stdout()) {
        Ok(()) => 0,
        Err(e) => {
            let _ = writeln!(io::stderr(), "error: {e}");
            e.exit_code()
        }
    }
}

/// Does the work of one attempt and tells its progress.
///
/// # Errors
/// See [`JobError`]; the partition is then what it was before.
pub fn run(args: &JobArgs, progress: &mut impl Write) -> Result<(), JobError> {
    let _inside = Presence::enter(&args.running, &label(&args.attempt)).map_err(|source| JobError::Io {
        path: args.running.clone(),
        source,
    })?;
    let claim = publish::claim(&args.warehouse, args.ds, &args.attempt)?;
    let file = raw::file_of(&args.raw, args.ds);
    say(progress, &format!("{} reads {}", args.attempt, file.display()));
    let text = fs::read_to_string(&file).map_err(|source| JobError::Io {
        path: file.clone(),
        source,
    })?;
    let rows = text.lines().count().saturating_sub(1);
    let mut work = Work::new(args, rows);
    say(
        progress,
        &format!("{rows} events, {} MiB of windows", work.memory_at(STEPS) >> 20),
    );
    let totals = add_up(&mut work, &file, &text, progress)?;
    work.hold();
    let published = claim.publish(render(&totals).as_bytes())?;
    say(
        progress,
        &format!("published {}, {} rows", published.display(), totals.len()),
    );
    Ok(())
}

/// Under which this process counts as running: its number is the last part.
fn label(attempt: &AttemptId) -> String {
    format!("{}.{}.{}", attempt.backfill, attempt.chunk, std::process::id())
}

/// The process behind the label of an attempt that runs.
pub fn process_of(label: &str) -> Option<rustix::process::Pid> {
    let number = label.rsplit('.').next()?;
    rustix::process::Pid::from_raw(number.parse().ok().filter(|n| *n > 0)?)
}

/// A closed pipe is no reason to stop working.
fn say(progress: &mut impl Write, line: &str) {
    let _ = writeln!(progress, "{line}").and_then(|()| progress.flush());
}

/// Orders, units and cents of one country and category.
type Totals<'a> = BTreeMap<(&'a str, &'a str), (u64, u64, u64)>;

fn add_up<'a>(
    work: &mut Work,
    file: &Path,
    text: &'a str,
    progress: &mut impl Write,
) -> Result<Totals<'a>, JobError> {
    let mut totals = Totals::new();
    let mut lines = (1..).zip(text.lines());
    let bad = |line, what: &str| JobError::Data {
        file: file.to_owned(),
        line,
        what: what.to_owned(),
    };
    if lines.next().is_none_or(|(_, header)| header != raw::HEADER) {
        return Err(bad(1, &format!("the first line is not `{}`", raw::HEADER)));
    }
    for step in 1..=STEPS {
        let (from, until) = (work.rows_at(step - 1), work.rows_at(step));
        for (number, line) in lines.by_ref().take(until - from) {
            let event = Event::parse(line, work.ds).map_err(|what| bad(number, &what))?;
            let total = totals.entry((event.country, event.category)).or_default();
            total.0 += 1;
            total.1 += event.units;
            total.2 += event.units * event.cents;
        }
        work.step(step)?;
        if step % 5 == 0 {
            say(progress, &format!("{:3} %  {until} events", step * 100 / STEPS));
        }
    }
    Ok(totals)
}

/// One raw event, as far as the totals need it.
struct Event<'a> {
    country: &'a str,
    category: &'a str,
    units: u64,
    cents: u64,
}

impl<'a> Event<'a> {
    /// Reads a line of a raw file; the error says what is wrong with it and shows the line.
    fn parse(line: &'a str, day: NaiveDate) -> Result<Self, String> {
        let fields: Vec<&str> = line.split(',').collect();
        let shown = || text::one_line(line, 60);
        let &[_, at, country, category, units, cents] = fields.as_slice() else {
            return Err(format!(
                "{} fields where 6 are expected: {}",
                fields.len(),
                shown()
            ));
        };
        let date = at.split_once('T').map(|(date, _)| date.parse());
        if date != Some(Ok(day)) {
            return Err(format!("an event of another day than {day}: {}", shown()));
        }
        let number = |field: &str| field.parse().map_err(|_| format!("not a number: {}", shown()));
        Ok(Self {
            country,
            category,
            units: number(units)?,
            cents: number(cents)?,
        })
    }
}

/// The partition's bytes: sorted, so that the same events give the same bytes.
fn render(totals: &Totals<'_>) -> String {
    let mut out = format!("{HEADER}\n");
    for ((country, category), (orders, units, cents)) in totals {
        let _ = writeln!(out, "{country},{category},{orders},{units},{cents}");
    }
    out
}

/// The modelled time, memory and faults of one attempt.
struct Work {
    ds: NaiveDate,
    rows: usize,
    step: Duration,
    fault: Option<JobError>,
    windows: Vec<Vec<u8>>,
    full_since: Instant,
}

impl Work {
    fn new(args: &JobArgs, rows: usize) -> Self {
        Self {
            ds: args.ds,
            rows,
            step: duration(args, rows) / u32::try_from(STEPS).unwrap_or(1),
            fault: transient(args),
            windows: vec![vec![1; BASE_MEMORY]],
            full_since: Instant::now(),
        }
    }

    const fn rows_at(&self, step: usize) -> usize {
        self.rows * step / STEPS
    }

    const fn memory_at(&self, step: usize) -> usize {
        BASE_MEMORY + self.rows_at(step) * ROW_MEMORY
    }

    /// Spends one step's time and takes its memory; the pages are written, so they are really there.
    fn step(&mut self, step: usize) -> Result<(), JobError> {
        if step == FAILS_AT
            && let Some(fault) = self.fault.take()
        {
            return Err(fault);
        }
        let more = self.memory_at(step) - self.memory_at(step - 1);
        self.windows.push(vec![1; more]);
        self.full_since = Instant::now();
        std::thread::sleep(self.step);
        Ok(())
    }

    /// Keeps a large memory for a while before it lets go.
    fn hold(self) {
        if self.memory_at(STEPS) >= HOLD_FROM {
            std::thread::sleep(HOLD.saturating_sub(self.full_since.elapsed()));
        }
        black_box(&self.windows);
    }
}

/// How long an attempt takes: about a second for an ordinary day. Larger days read in parallel, so fifty times the
/// rows take eight times as long.
fn duration(args: &JobArgs, rows: usize) -> Duration {
    let jitter = f64::from(Dice::of_day(args.seed, Purpose::Duration, args.ds).between(80, 120)) / 100.0;
    let size = u32::try_from(rows).map_or(f64::MAX, f64::from) / ORDINARY_ROWS;
    let seconds = (0.3 + 0.7 * size.powf(0.6)) * jitter * args.pace;
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

/// Whether an attempt meets a passing failure.
fn transient(args: &JobArgs) -> Option<JobError> {
    if args.faults == Faults::None || args.attempt.no > 1 || raw::is_black_friday(args.ds) {
        return None;
    }
    let mut dice = Dice::of_day(args.seed, Purpose::Faults, args.ds);
    if dice.below(TRANSIENT_ONE_IN) > 0 {
        return None;
    }
    Some(if dice.below(2) == 0 {
        JobError::Platform("the object store answers 503 Slow Down")
    } else {
        JobError::Other("connection reset by peer while reading events")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(ds: &str, no: u32) -> JobArgs {
        JobArgs {
            raw: "raw".into(),
            warehouse: "warehouse".into(),
            running: "running".into(),
            ds: ds.parse().unwrap(),
            attempt: format!("orders-aaaaaa/{ds}/{no}").parse().unwrap(),
            seed: 1,
            faults: Faults::Default,
            pace: 1.0,
        }
    }

    fn work(rows: usize) -> Work {
        Work {
            ds: raw::last_day(),
            rows,
            step: Duration::ZERO,
            fault: None,
            windows: Vec::new(),
            full_since: Instant::now(),
        }
    }

    #[test]
    fn an_ordinary_day_takes_about_a_second_and_a_black_friday_a_few() {
        for day in raw::range(365).unwrap().0.iter_days().take(365) {
            let took = duration(&args(&day.to_string(), 1), raw::rows_of(1, day) as usize).as_secs_f64();
            let bounds = if raw::is_black_friday(day) {
                6.0..14.0
            } else {
                0.5..1.8
            };
            assert!(bounds.contains(&took), "{day}: {took}");
        }
        let quick = JobArgs {
            pace: 0.0,
            ..args("2024-01-01", 1)
        };
        assert_eq!(duration(&quick, 1_000_000), Duration::ZERO);
    }

    #[test]
    fn only_black_fridays_need_more_than_the_default_profile() {
        for seed in 0..10 {
            for day in raw::range(raw::ALL_DAYS)
                .unwrap()
                .0
                .iter_days()
                .take(raw::ALL_DAYS as usize)
            {
                let mib = work(raw::rows_of(seed, day) as usize).memory_at(STEPS) >> 20;
                let bounds = if raw::is_black_friday(day) { 90..200 } else { 6..14 };
                assert!(bounds.contains(&mib), "{day}: {mib} MiB");
            }
        }
    }

    #[test]
    fn the_steps_cover_every_row_once() {
        for rows in [0, 1, 19, 20, 21, 12_345] {
            let work = work(rows);
            assert_eq!((work.rows_at(0), work.rows_at(STEPS)), (0, rows));
        }
    }

    #[test]
    fn some_first_attempts_fail_for_a_passing_reason_and_second_ones_never() {
        let days: Vec<String> = raw::range(1000)
            .unwrap()
            .0
            .iter_days()
            .take(1000)
            .map(|d| d.to_string())
            .collect();
        let codes: Vec<u8> = days
            .iter()
            .filter_map(|ds| transient(&args(ds, 1)))
            .map(|e| e.exit_code())
            .collect();
        assert!((20..70).contains(&codes.len()), "{}", codes.len());
        assert!(codes.contains(&1) && codes.contains(&75));
        assert!(days.iter().all(|ds| transient(&args(ds, 2)).is_none()));
        let calm = |ds: &String| JobArgs {
            faults: Faults::None,
            ..args(ds, 1)
        };
        assert!(days.iter().all(|ds| transient(&calm(ds)).is_none()));
    }

    #[test]
    fn a_line_that_is_not_an_event_of_the_day_is_told_with_its_text() {
        let day = "2024-11-29".parse().unwrap();
        let wrong = |line: &str| Event::parse(line, day).err().unwrap();
        assert_eq!(wrong("a,2024-11"), "2 fields where 6 are expected: a,2024-11");
        assert!(wrong("a,2024-11-28T00:00:00Z,DE,toys,1,5").starts_with("an event of another day"));
        assert!(wrong("a,2024-11-29T00:00:00Z,DE,toys,one,5").starts_with("not a number"));
        assert!(!wrong("a,\u{1b}[2J").contains('\u{1b}'));
    }
}
