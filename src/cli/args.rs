//! The command line's grammar.

use crate::domain::{event::Verdict, human};
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
        #[arg(long, requires = "again")]
        yes: bool,
        /// Where to write the supervisor's own log.
        #[arg(long, value_name = "FILE", hide = true)]
        log: Option<PathBuf>,
    },
    /// How things stand. Exit code 0, 1 if it does not go on by itself (incomplete, cancelled, supervised by nobody, breaker
    /// open, disk full), 3 paused, 4 blind.
    Status {
        /// One backfill; else all.
        name: Option<String>,
    },
    /// Start nothing more; what runs goes on.
    Pause {
        /// The backfill.
        name: String,
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
    /// End the whole backfill: nothing more starts, running attempts are stopped.
    Cancel {
        /// The backfill.
        name: String,
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
    /// Acknowledge the flap latch: the throttle may resume again.
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
    /// Completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
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
    /// N for a while, whatever the throttle proposes; never above max_limit, never while a signal is past hard.
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
