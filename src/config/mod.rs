//! Floor 1: `config.toml` into checked domain values; secrets; the places of files.
//!
//! The file is read, never written (case S31). One pass finds everything that is wrong with it, each fault with its
//! line and column, what was found, what was expected and how to mend it (case S29). `end` may lie in the future:
//! there is no clock here, `plan::edge` leaves unfinished days out.

mod actor;
mod airflow;
mod backfills;
mod blackout;
mod days;
mod diff;
mod parse;
mod places;
mod problem;
mod profiles;
mod read;
pub mod scenario;
pub mod secret;
mod secret_source;
mod sections;
mod signals;
mod template;
mod throttling;
mod tuning;
mod values;

pub use actor::actor;
pub use diff::{drift, spec_hash};
pub use places::{NotFound, Places, Searched, find, state_dir};
pub use problem::{ConfigErrors, Position, Problem, nearest};
pub use signals::{
    AlertmanagerConfig, AwsKeys, BurrowConfig, CloudWatchConfig, CommandConfig, Counts, Expect, HttpAuth,
    HttpConfig, Isolation, KafkaConfig, KafkaIdentity, KafkaSasl, KafkaTls, MOST_SERIES, MatchOp, Matcher,
    Preset, PrometheusConfig, SaslMechanism, Wanted, WithoutCommit, Written,
};

use crate::domain::{ids::Name, spec::Spec, tuning::Tuning};
use secret::SecretSource;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// A whole, checked configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The file that it was read from.
    pub path: PathBuf,
    /// Endpoints that run attempts.
    pub executors: BTreeMap<Name, ExecutorConfig>,
    /// Lag sources with their thresholds.
    pub signals: BTreeMap<Name, SignalConfig>,
    /// Orders.
    pub backfills: BTreeMap<Name, BackfillConfig>,
    /// The journal's place.
    pub journal: JournalConfig,
    /// The times of the laws.
    pub tuning: Tuning,
    /// The screen.
    pub screen: ScreenConfig,
    /// What is wrong with the file, of which only the sound parts are here; see [`Config::load_what_is_sound`].
    pub faults: Option<ConfigErrors>,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Everything that is wrong with it; a file that is missing or cannot be read included.
    pub fn load(path: &Path) -> Result<Self, ConfigErrors> {
        let config = parse::load_what_is_sound(path)?;
        match config.faults {
            Some(faults) => Err(faults),
            None => Ok(config),
        }
    }

    /// Reads a file, and where it has faults what is sound of it: for whoever only has to find the journal. A pause at
    /// night must not fail because of a typo that somebody made in the evening, of which the supervisor, that goes on
    /// with what it read before, has told since.
    ///
    /// # Errors
    /// Everything that is wrong with it, where that leaves any doubt about which journal is meant.
    pub fn load_what_is_sound(path: &Path) -> Result<Self, ConfigErrors> {
        parse::load_what_is_sound(path)
    }

    /// Checks a text as if it stood in the file at `path`, whose folder is where relative paths start.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigErrors> {
        parse::parse(text, path)
    }

    /// What `new` changes, in lines for people and without secrets: `signals.orders.soft 50000 to 60000`. Empty: nothing.
    pub fn diff(&self, new: &Self) -> Vec<String> {
        diff::configs(self, new)
    }

    /// Where the files of this configuration's journal are.
    pub fn places(&self) -> Places {
        Places::of(&self.journal.path)
    }
}

/// One executor.
#[derive(Debug, Clone, PartialEq)]
pub enum ExecutorConfig {
    /// Processes on this machine.
    Local {
        /// How many attempts at a time, over all backfills.
        slots: u32,
    },
    /// DAG runs of an Airflow server.
    Airflow(Box<AirflowConfig>),
}

impl ExecutorConfig {
    /// How many attempts at a time; `None` of one that has no slots of its own.
    pub fn slots(&self) -> Option<u32> {
        match self {
            Self::Local { slots } => Some(*slots),
            Self::Airflow(server) => server.slots,
        }
    }

    /// Whether what somebody else started there can be attached to.
    pub const fn has_levers(&self) -> bool {
        matches!(self, Self::Airflow(_))
    }

    /// The word for where it runs, if it has one of its own.
    pub fn environment(&self) -> Option<&str> {
        match self {
            Self::Local { .. } => None,
            Self::Airflow(server) => server.environment.as_deref(),
        }
    }
}

/// An Airflow server.
#[derive(Debug, Clone, PartialEq)]
pub struct AirflowConfig {
    /// Base url; a path prefix is kept.
    pub url: String,
    /// How to log in.
    pub auth: AirflowAuth,
    /// Further headers with secret values.
    pub headers: BTreeMap<String, SecretSource>,
    /// Further headers with plain values.
    pub plain_headers: BTreeMap<String, String>,
    /// An additional certificate authority, PEM.
    pub ca_file: Option<PathBuf>,
    /// A word for what it is (`prod`), for backfills that have none of their own.
    pub environment: Option<String>,
    /// Requests a minute.
    pub request_budget: u32,
    /// How many attempts at a time; `None` is no limit of its own.
    pub slots: Option<u32>,
    /// Time between two looks at what changed.
    pub interval: Duration,
}

/// How to log in to an Airflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AirflowAuth {
    /// Not at all.
    None,
    /// A user and a password: a token from `/auth/token` on 3.x, HTTP Basic on 2.x.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: SecretSource,
    },
    /// A ready token, or a command that prints one.
    Token(SecretSource),
    /// HTTP Basic, whatever the version.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: SecretSource,
    },
}

/// The unit of a signal's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Messages not yet consumed.
    Messages,
    /// Seconds behind.
    Seconds,
    /// Alerts that fire: whether there are any is what counts.
    Alerts,
}

/// One lag source with its thresholds.
#[derive(Debug, Clone, PartialEq)]
pub struct SignalConfig {
    /// How it is read.
    pub source: SourceConfig,
    /// The unit of its numbers.
    pub unit: Unit,
    /// Resume level; half of soft unless given.
    pub low: f64,
    /// Cut level.
    pub soft: f64,
    /// Pause level.
    pub hard: f64,
    /// Hibernate level.
    pub critical: f64,
    /// Time between two reads.
    pub interval: Duration,
    /// `false`: without samples it only freezes growth, it never stops starts (role `advise`).
    pub protects: bool,
}

/// How a lag source is read.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceConfig {
    /// Commits and end offsets, from the brokers.
    Kafka(KafkaConfig),
    /// An instant query.
    Prometheus(PrometheusConfig),
    /// Whether alerts fire.
    Alertmanager(AlertmanagerConfig),
    /// Consumer groups that a Burrow watches.
    Burrow(BurrowConfig),
    /// Iterator ages of Kinesis streams.
    CloudWatch(CloudWatchConfig),
    /// What a program prints.
    Command(CommandConfig),
}

/// One order, as configured now. `Started` freezes its spec in the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct BackfillConfig {
    /// The resolved order.
    pub spec: Spec,
    /// Secret variables of its command.
    pub secrets: BTreeMap<String, SecretSource>,
}

/// Where the journal lives.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalConfig {
    /// The SQLite file.
    pub path: PathBuf,
    /// A group whose members may use it too.
    pub group: Option<String>,
}

/// Which glyphs and colours the screen uses; `None` finds out by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScreenConfig {
    /// `dark`, `light`, `high-contrast`, `colour-blind`.
    pub theme: Option<String>,
    /// `full`, `narrow`, `ascii`.
    pub glyphs: Option<String>,
}

#[cfg(test)]
mod sound_tests;
#[cfg(test)]
mod tests;
