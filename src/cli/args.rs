//! The command line's grammar.

use crate::domain::{
    attach::{Reprocess, Taking},
    event::Verdict,
    human,
};
use chrono::NaiveDate;
use chrono_tz::Tz;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::{path::PathBuf, time::Duration};

/// Supervise a live data backfill: calendar of days, consumer lag, pause, throttle, re-run.
///
/// Without a command it opens the screen. Opening or leaving the screen starts and stops no work.
#[derive(Debug, Parser)]
#[command(name = "backfill", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What is the same for all commands.
    #[command(flatten)]
    pub global: Global,
    /// The command; none opens the screen.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Configuration file; else $BACKFILL_CONFIG, then config.toml in the XDG configuration directory.
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// Who acts, in the journal; else $BACKFILL_ACTOR, $SUDO_USER, the system user.
    #[arg(long = "as", global = true, value_name = "NAME")]
    pub actor: Option<String>,
    /// Refuse everything that changes something.
    #[arg(long, global = true, env = "BACKFILL_READ_ONLY", value_parser = clap::builder::FalseyValueParser::new())]
    pub read_only: bool,
}

/// Why it is done, for the journal.
#[derive(Debug, Clone, Args)]
pub struct Reason {
    /// Why, in the journal and on everybody's screen.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Whose log, where an attempt is a run of several tasks.
#[derive(Debug, Clone, Default, Args)]
pub struct LogOf {
    /// Of a run with tasks: this one; else the one that failed, or the last that ran.
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// This index of a mapped task.
    #[arg(long, value_name = "I", requires = "task")]
    pub map: Option<u32>,
    /// This try of the task; else its newest in the attempt.
    #[arg(long = "try", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub try_no: Option<u32>,
}

impl LogOf {
    /// Whether anything was chosen.
    pub const fn is_chosen(&self) -> bool {
        self.task.is_some() || self.try_no.is_some()
    }
}

/// What may be asked before it acts.
#[derive(Debug, Clone, Args)]
pub struct Consent {
    /// Show what would happen and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// Why, in the journal and on everybody's screen.
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// All commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a workspace with three years of events and a live consumer, and supervise a backfill of it.
    Demo(Demo),
    /// Check the configuration, reach every endpoint, say what is wrong and how to mend it.
    Check,
    /// Show what a backfill would do, without doing it.
    Plan {
        /// The backfill.
        name: String,
        /// Show every chunk.
        #[arg(long)]
        all: bool,
    },
    /// Start or go on with a backfill and supervise it until it ends. Exit code 0 complete, 1 incomplete or
    /// cancelled, 2 usage or configuration, 5 already supervised.
    Run {
        /// The backfill.
        #[arg(required_unless_present = "detached")]
        name: Option<String>,
        /// For screens: a session of its own; without NAME everything that was started and has not ended.
        #[arg(long, hide = true)]
        detached: bool,
        /// End when this process has ended.
        #[arg(long, value_name = "PID", hide = true)]
        while_pid: Option<i32>,
        /// Start a new order although the last one of this name has ended; rewrites everything, so it needs --yes.
        #[arg(long)]
        again: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Where to write the supervisor's own log.
        #[arg(long, value_name = "FILE", hide = true)]
        log: Option<PathBuf>,
    },
    /// How things stand. Exit code 0, 1 if it does not go on by itself (incomplete, cancelled, supervised by nobody, breaker
    /// open, disk full, nothing left that protects it), 3 paused, 4 blind.
    Status {
        /// One backfill; else all.
        name: Option<String>,
    },
    /// Take hold of what somebody else started on an executor: its days on the calendar, live, and its own levers.
    /// Without --dag and --native-backfill it lists what there is.
    Attach(Attach),
    /// Let go of an attached backfill: on the server it goes on as it is.
    Detach {
        /// The attached backfill.
        name: String,
        /// What may be asked.
        #[command(flatten)]
        consent: Consent,
    },
    /// Start nothing more; what runs goes on.
    Pause {
        /// The backfill.
        name: String,
        /// Attached only: freeze everything of the DAG, running days and the live schedule, too.
        #[arg(long, conflicts_with = "duration")]
        whole_dag: bool,
        /// Do not ask; only freezing a whole DAG does.
        #[arg(long)]
        yes: bool,
        /// End the pause by itself after this time, as in 30m.
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        duration: Option<Duration>,
        /// Why.
        #[command(flatten)]
        reason: Reason,
    },
    /// End the pause.
    Resume {
        /// The backfill.
        name: String,
        /// Attached only: let the frozen DAG run again.
        #[arg(long)]
        whole_dag: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Why.
        #[command(flatten)]
        reason: Reason,
    },
    /// Cap or force the limit, or give it back to the throttle.
    Throttle {
        /// The backfill.
        name: String,
        /// What to do with the limit.
        #[command(subcommand)]
        to: ThrottleTo,
    },
    /// Run chunks again, before all others.
    Rerun {
        /// The backfill.
        name: String,
        /// Days or ranges: 2023-11-24, 2023-11-01..2023-11-30; none with --failed is the whole order.
        #[arg(required_unless_present = "failed", value_name = "DATE|A..B")]
        days: Vec<String>,
        /// Only those that failed, are quarantined or were cancelled.
        #[arg(long)]
        failed: bool,
        /// What may be asked.
        #[command(flatten)]
        consent: Consent,
    },
    /// Keep chunks from starting.
    Hold(Days),
    /// Let held chunks start again.
    Release(Days),
    /// Settle chunks without running them.
    Skip(Days),
    /// Stop running attempts of chunks.
    StopRuns(Days),
    /// Attached only: say that days are done or failed; nothing runs.
    Mark {
        /// The attached backfill.
        name: String,
        /// What they count as.
        #[arg(value_enum)]
        state: MarkAs,
        /// Days or ranges: 2023-11-24, 2023-11-01..2023-11-30.
        #[arg(required = true, value_name = "DATE|A..B")]
        days: Vec<String>,
        /// What may be asked.
        #[command(flatten)]
        consent: Consent,
    },
    /// Attached only: another limit of days at once, by a new native backfill in place of the one that runs.
    Replace {
        /// The attached backfill.
        name: String,
        /// The new limit.
        #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        /// What may be asked.
        #[command(flatten)]
        consent: Consent,
    },
    /// Attached only: a new native backfill over days; asks the server first which days it would run.
    Native {
        /// The attached backfill.
        name: String,
        /// The days: 2023-11-01..2023-11-30.
        #[arg(value_name = "A..B")]
        days: String,
        /// The most days at once.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
        limit: u32,
        /// Which existing runs it takes again.
        #[arg(long, value_enum, default_value_t = ReprocessArg::None)]
        reprocess: ReprocessArg,
        /// Latest day first.
        #[arg(long)]
        newest_first: bool,
        /// What may be asked.
        #[command(flatten)]
        consent: Consent,
    },
    /// Decide about somebody else's run on the date of a held chunk: adopt it, or clear it and run the chunk.
    Take {
        /// The backfill.
        name: String,
        /// The chunk.
        date: String,
        /// What becomes of that run.
        #[arg(value_enum)]
        how: TakingArg,
        /// What may be asked.
        #[command(flatten)]
        consent: Consent,
    },
    /// End the whole backfill: nothing more starts, running attempts are stopped.
    Cancel {
        /// The backfill.
        name: String,
        /// Attached only: end running days, too.
        #[arg(long)]
        running: bool,
        /// What may be asked.
        #[command(flatten)]
        consent: Consent,
    },
    /// Bring a changed configuration into a started backfill.
    Amend {
        /// The backfill.
        name: String,
        /// What may be asked.
        #[command(flatten)]
        consent: Consent,
    },
    /// Say what became of an uncertain chunk.
    Resolve {
        /// The backfill.
        name: String,
        /// The chunk.
        date: String,
        /// What became of it.
        verdict: VerdictArg,
        /// How you know.
        #[arg(long, value_name = "TEXT", required = true)]
        reason: String,
    },
    /// Acknowledge the flap latch, so that the throttle may resume; and say that a sample it doubts is true.
    Acknowledge {
        /// The backfill.
        name: String,
        /// Why.
        #[command(flatten)]
        reason: Reason,
    },
    /// Close the breaker after the cause was mended.
    CloseBreaker {
        /// The backfill.
        name: String,
        /// Why.
        #[command(flatten)]
        reason: Reason,
    },
    /// Stop supervising: running attempts go on, nothing new starts.
    Stop {
        /// Why.
        #[command(flatten)]
        reason: Reason,
    },
    /// Why a chunk does not run, and what would unblock it.
    Why {
        /// The backfill.
        name: String,
        /// The chunk.
        date: String,
    },
    /// The output of an attempt.
    Logs {
        /// The backfill.
        name: String,
        /// The chunk.
        date: String,
        /// Its number; else the newest.
        #[arg(long, value_name = "N")]
        attempt: Option<u32>,
        /// Go on until the attempt ends.
        #[arg(long, short)]
        follow: bool,
        /// Which part of it.
        #[command(flatten)]
        part: LogOf,
    },
    /// What happened, oldest first.
    Events {
        /// The backfill.
        name: String,
        /// Only the newest N.
        #[arg(long, value_name = "N")]
        last: Option<usize>,
    },
    /// Play policies against a modelled night, without touching anything: how much is done, what the live load suffers
    Simulate {
        /// The scenario.
        #[arg(value_name = "SCENARIO")]
        scenario: std::path::PathBuf,
        /// Which policies: auto, no-cancel, classic, onoff, fixed:N.
        #[arg(long, value_name = "POLICY", value_delimiter = ',', default_value = "auto")]
        policy: Vec<crate::plan::simulate::Policy>,
        /// How many seeds, beginning with the scenario's own.
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
        seeds: u32,
    },
    /// Completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// What to attach to.
#[derive(Debug, Clone, Args)]
pub struct Attach {
    /// The executor, as configured.
    pub executor: String,
    /// A DAG: all its runs in the window.
    #[arg(long, value_name = "ID")]
    pub dag: Option<String>,
    /// A native backfill, by its number.
    #[arg(long, value_name = "ID", conflicts_with = "dag")]
    pub native_backfill: Option<u64>,
    /// First day; else that of the native backfill or of the DAG's runs.
    #[arg(long, value_name = "DATE")]
    pub from: Option<NaiveDate>,
    /// Last day.
    #[arg(long, value_name = "DATE")]
    pub to: Option<NaiveDate>,
    /// Zone of the civil days, as in Europe/Berlin; else what the runs tell.
    #[arg(long, value_name = "ZONE")]
    pub timezone: Option<Tz>,
    /// A pool whose slots follow the limit.
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,
    /// A configured signal that pauses and resumes it; may be given several times.
    #[arg(long = "signal", value_name = "NAME")]
    pub signals: Vec<String>,
    /// Our name for it; else the DAG's.
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Do not start a supervisor if nobody supervises.
    #[arg(long)]
    pub no_supervisor: bool,
}

/// What days are said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MarkAs {
    /// Success, in the engine's word.
    Done,
    /// Failed.
    Failed,
}

/// Which existing runs a new native backfill takes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReprocessArg {
    /// Only days without a run.
    None,
    /// Failed days, too.
    Failed,
    /// Successful days, too.
    Completed,
}

impl From<ReprocessArg> for Reprocess {
    fn from(arg: ReprocessArg) -> Self {
        match arg {
            ReprocessArg::None => Self::None,
            ReprocessArg::Failed => Self::Failed,
            ReprocessArg::Completed => Self::Completed,
        }
    }
}

/// What becomes of somebody else's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TakingArg {
    /// It is watched as if it were ours, and its end counts.
    Adopt,
    /// It is cleared, or deleted and made anew, and runs as ours.
    Clear,
}

impl From<TakingArg> for Taking {
    fn from(arg: TakingArg) -> Self {
        match arg {
            TakingArg::Adopt => Self::Adopt,
            TakingArg::Clear => Self::Clear,
        }
    }
}

/// The demo.
#[derive(Debug, Clone, Args)]
pub struct Demo {
    /// Without a screen; ends with one JSON line.
    #[arg(long)]
    pub headless: bool,
    /// How many days.
    #[arg(long, default_value_t = 1096, value_parser = clap::value_parser!(u32).range(1..=1096))]
    pub days: u32,
    /// The world's seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Which faults happen.
    #[arg(long, value_enum, default_value_t = Faults::Default)]
    pub faults: Faults,
    /// Factor on the time that the demo's work takes; 0 is as quick as the machine can.
    #[arg(long, value_name = "FACTOR", hide = true)]
    pub pace: Option<f64>,
    /// Where to make the workspace; else a temporary directory that is removed at the end.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// The demo's faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Faults {
    /// Everything works.
    None,
    /// Transient failures, a day of bad data, days that run out of memory.
    Default,
}

/// What to do with the limit.
#[derive(Debug, Clone, Subcommand)]
pub enum ThrottleTo {
    /// At most N of what the throttle allows; another cap, also a higher one, takes its place.
    Cap {
        /// Running weight.
        n: u32,
        /// Why.
        #[command(flatten)]
        reason: Reason,
    },
    /// N for a while, where the throttle allows less; never above max_limit, never while a signal is past hard.
    Force {
        /// Running weight.
        n: u32,
        /// For how long, at most 4h.
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        duration: Duration,
        /// Why.
        #[command(flatten)]
        reason: Reason,
    },
    /// Attached only: slots of its pool, as they are from now on; -1 is without limit.
    Slots {
        /// The slots.
        #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..=1_000_000))]
        n: i64,
        /// What may be asked.
        #[command(flatten)]
        consent: Consent,
    },
    /// No cap and no force.
    Auto {
        /// Why.
        #[command(flatten)]
        reason: Reason,
    },
}

/// Some chunks of a backfill.
#[derive(Debug, Clone, Args)]
pub struct Days {
    /// The backfill.
    pub name: String,
    /// Days or ranges: 2023-11-24, 2023-11-01..2023-11-30.
    #[arg(required = true, value_name = "DATE|A..B")]
    pub days: Vec<String>,
    #[command(flatten)]
    /// What may be asked.
    pub consent: Consent,
}

/// What a human says of an uncertain chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VerdictArg {
    /// The run is gone; the chunk may run again.
    Lost,
    /// It finished and its partition is right.
    Done,
    /// It failed.
    Failed,
}

impl From<VerdictArg> for Verdict {
    fn from(arg: VerdictArg) -> Self {
        match arg {
            VerdictArg::Lost => Self::Lost,
            VerdictArg::Done => Self::Done,
            VerdictArg::Failed => Self::Failed,
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    human::parse_duration(text).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }
}
