//! The order itself: immutable once started, journaled in `Started`, and free of relative dates.

use super::{
    attach::Attach,
    blackout::Blackout,
    calendar::Granularity,
    ids::{ChunkId, Name},
};
use chrono::NaiveDate;
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// In which order pending chunks are started. A human re-run always goes to the front.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Earliest chunk first.
    OldestFirst,
    /// Latest chunk first.
    NewestFirst,
    /// These chunks first, in this order; the rest after them, oldest first.
    Custom(Vec<ChunkId>),
}

/// What a chunk that failed for good does to the rest (case B14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFailure {
    /// The rest goes on; the backfill ends incomplete.
    Continue,
    /// No further starts after this many chunks failed for good.
    StopAfter(u32),
}

/// Which queue a chunk waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lane {
    /// Ordinary days.
    Normal,
    /// Days of twice the usual volume and more.
    Heavy,
    /// One at a time, on a profile of their own: one Black Friday is 50 normal days.
    Isolated,
}

impl Lane {
    /// The word on screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Heavy => "heavy",
            Self::Isolated => "isolated",
        }
    }

    /// What one chunk of the lane weighs against the limit (law C2).
    pub const fn weight(self) -> u32 {
        match self {
            Self::Normal => 1,
            Self::Heavy => 2,
            Self::Isolated => 4,
        }
    }
}

/// The resources of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Its name in `config.toml`.
    pub name: Name,
    /// Memory in bytes; `None` is no limit.
    pub memory: Option<u64>,
    /// How long an attempt may take, in milliseconds; `None` is no deadline.
    pub deadline_ms: Option<u64>,
    /// Further values for the command's template, `{{ profile.KEY }}`.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
}

/// Where a lane's chunks differ from ordinary ones.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LaneDays {
    /// The civil days of the lane.
    pub days: Vec<NaiveDate>,
    /// The step of the profile ladder that the first attempt gets; the ladder's first when absent.
    pub profile: Option<Name>,
}

/// What runs a chunk where the executor has DAGs instead of commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dag {
    /// Its id on the server.
    pub id: String,
    /// The parameters of each run; texts in it are templates, as the arguments of a command are.
    #[serde(default, with = "parameters")]
    pub conf: BTreeMap<String, serde_json::Value>,
    /// The pool that its tasks run in, if it is given.
    #[serde(default)]
    pub pool: Option<String>,
}

/// Parameters are JSON of any shape, which snapshots, whose form does not describe itself, can only keep as text.
mod parameters {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
    use serde_json::Value;
    use std::collections::BTreeMap;

    pub(super) fn serialize<S: Serializer>(conf: &BTreeMap<String, Value>, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            return conf.serialize(to);
        }
        serde_json::to_string(conf)
            .map_err(ser::Error::custom)?
            .serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<String, Value>, D::Error> {
        if from.is_human_readable() {
            return BTreeMap::deserialize(from);
        }
        serde_json::from_str(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}

/// A backfill's order: what to rewrite, where, how, under which limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The user's name for it.
    pub name: Name,
    /// The table whose partitions are overwritten, for display and for the overlap check.
    pub target: String,
    /// A word for where it runs (`prod`), named in the header and in every dialog.
    pub environment: Option<String>,
    /// First civil day, inclusive.
    pub start: NaiveDate,
    /// Last civil day, inclusive.
    pub end: NaiveDate,
    /// Length of a chunk.
    pub granularity: Granularity,
    /// The zone whose civil days the partitions are named after.
    pub timezone: Tz,
    /// The executor that runs the attempts.
    pub executor: Name,
    /// The command as templates, one per argument; never passed through a shell. Empty where `dag` is given.
    pub command: Vec<String>,
    /// The DAG that runs the chunks, instead of a command.
    #[serde(default)]
    pub dag: Option<Dag>,
    /// Set where somebody else started the backfill and we only took hold of it: nothing of it is submitted by us.
    #[serde(default)]
    pub attach: Option<Attach>,
    /// The folder in which the command runs; absolute.
    pub cwd: String,
    /// Variables of ours that are passed on by name.
    pub env_pass: Vec<String>,
    /// Variables with plain values. Secrets stay in the configuration and are resolved for each attempt.
    pub env: BTreeMap<String, String>,
    /// Names of the variables whose values are secrets; the supervisor reads them from its configuration.
    pub env_secrets: Vec<String>,
    /// The most running weight at any time.
    pub max_limit: u32,
    /// The order of starts.
    pub order: Order,
    /// Signals that protect the live pipeline, by name.
    pub signals: Vec<Name>,
    /// What a permanent failure does to the rest.
    pub on_failure: OnFailure,
    /// The profile ladder, smallest first; never empty.
    pub profiles: Vec<Profile>,
    /// Days with a lane of their own.
    pub lanes: BTreeMap<Lane, LaneDays>,
    /// What the chunks read from, for the template's `{{ source.* }}`.
    pub source: BTreeMap<String, String>,
    /// Whether an attempt replaces whole partitions, so that running it twice gives the same result.
    pub idempotent: bool,
    /// How lag sets the limit.
    #[serde(default)]
    pub throttling: Throttling,
    /// Windows in which nothing starts.
    #[serde(default)]
    pub blackout: Vec<Blackout>,
}

/// How lag sets the limit of a backfill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttling {
    /// By which law. An order that was journaled before there was a choice goes on with the classic one.
    #[serde(default)]
    pub law: Law,
    /// Per cent of an hour's work that may be lost to cancels of young attempts; `None`: nothing is ever cancelled by the
    /// throttle.
    #[serde(default)]
    pub cancel_share: Option<u8>,
}

/// A law of the throttle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// Cuts at soft, grows by one while lag is low and flat (C2).
    #[default]
    Classic,
    /// Learns what a unit of weight costs the live pipeline, and admits starts by that.
    Learned,
}

impl Law {
    /// The word in the configuration and on the screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Learned => "learned",
        }
    }
}

impl Spec {
    /// The lane of a chunk: that of the first listed day inside it.
    pub fn lane(&self, chunk: ChunkId) -> Lane {
        [Lane::Isolated, Lane::Heavy]
            .into_iter()
            .find(|lane| self.lanes.get(lane).is_some_and(|l| l.days.contains(&chunk.date)))
            .unwrap_or(Lane::Normal)
    }

    /// What a chunk weighs, never more than the whole limit.
    pub fn weight(&self, chunk: ChunkId) -> u32 {
        self.lane(chunk).weight().min(self.max_limit.max(1))
    }

    /// Position on the profile ladder of a chunk's first attempt.
    pub fn first_profile(&self, chunk: ChunkId) -> usize {
        let wanted = self.lanes.get(&self.lane(chunk)).and_then(|l| l.profile.as_ref());
        wanted
            .and_then(|name| self.profiles.iter().position(|p| p.name == *name))
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_was_journaled_before_there_were_dags_is_read_as_one_with_a_command() {
        let old = serde_json::json!({
            "name": "orders", "target": "datamart.orders", "environment": null, "start": "2023-01-01",
            "end": "2023-01-03", "granularity": "day", "timezone": "UTC", "executor": "here",
            "command": ["./job.sh"], "cwd": "/srv", "env_pass": [], "env": {}, "env_secrets": [], "max_limit": 2,
            "order": "oldest-first", "signals": [], "on_failure": "continue",
            "profiles": [{"name": "default", "memory": null, "deadline_ms": null}], "lanes": {}, "source": {},
            "idempotent": true,
        });
        let mut spec: Spec = serde_json::from_value(old).unwrap();
        assert_eq!((&spec.dag, &spec.attach), (&None, &None));
        let conf =
            serde_json::json!({"id": "events_daily", "conf": {"force": true, "days": [1, {"of": null}]}});
        let dag: Dag = serde_json::from_value(conf).unwrap();
        spec.dag = Some(dag);
        let again: Spec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
        assert_eq!(again, spec);
        let kept: Spec = postcard::from_bytes(&postcard::to_stdvec(&spec).unwrap()).unwrap();
        assert_eq!(kept, spec, "as in a snapshot");
    }
}
