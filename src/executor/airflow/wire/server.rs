//! The server itself.

use super::soft;
use crate::domain::Time;
use serde::Deserialize;

/// The API that a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// Airflow 2.
    V1,
    /// Airflow 3.
    V2,
}

impl Api {
    /// What its paths begin with.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::V1 => "/api/v1",
            Self::V2 => "/api/v2",
        }
    }
}

/// A server's version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// As it says it: `3.3.2`.
    pub text: String,
    /// The API that answered.
    pub api: Api,
    /// Major and minor, as far as they can be read.
    pub number: (u32, u32),
}

impl Version {
    pub(in crate::executor::airflow) fn new(text: String, api: Api) -> Self {
        let number = |part: Option<&str>| {
            let digits: String = part?.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        };
        let mut parts = text.trim().split('.');
        let oldest = match api {
            Api::V1 => 2,
            Api::V2 => 3,
        };
        let major = number(parts.next()).unwrap_or(oldest);
        let number = (major, number(parts.next()).unwrap_or(0));
        Self { text, api, number }
    }

    /// Whether it is this one or a later one.
    pub fn is_at_least(&self, major: u32, minor: u32) -> bool {
        self.number >= (major, minor)
    }
}

#[derive(Deserialize)]
pub(in crate::executor::airflow) struct VersionWire {
    pub(in crate::executor::airflow) version: String,
}

open_enum! {
    /// How a part of the server is.
    HealthStatus {
        /// Alive.
        Healthy = "healthy",
        /// Its heartbeat stopped.
        Unhealthy = "unhealthy",
        /// Never seen.
        Unknown = "null",
    }
}

/// One part of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// How it is.
    pub status: HealthStatus,
    /// Its last sign of life, on the server's clock.
    pub heartbeat: Option<Time>,
}

/// The parts of a server. It answers 200 also when they are dead.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "HealthWire")]
pub struct Health {
    /// The database.
    pub database: Component,
    /// Without it runs only pile up queued.
    pub scheduler: Component,
    /// Without it deferred tasks hang.
    pub triggerer: Component,
    /// Without it changed DAGs are not seen.
    pub dag_processor: Component,
}

#[derive(Deserialize)]
struct HealthWire {
    metadatabase: ComponentWire,
    scheduler: ComponentWire,
    #[serde(default, deserialize_with = "soft")]
    triggerer: Option<ComponentWire>,
    #[serde(default, deserialize_with = "soft")]
    dag_processor: Option<ComponentWire>,
}

#[derive(Deserialize)]
struct ComponentWire {
    #[serde(default)]
    status: Option<HealthStatus>,
    #[serde(default, deserialize_with = "soft")]
    latest_scheduler_heartbeat: Option<Time>,
    #[serde(default, deserialize_with = "soft")]
    latest_triggerer_heartbeat: Option<Time>,
    #[serde(default, deserialize_with = "soft")]
    latest_dag_processor_heartbeat: Option<Time>,
}

impl From<ComponentWire> for Component {
    fn from(wire: ComponentWire) -> Self {
        Self {
            status: wire.status.unwrap_or(HealthStatus::Unknown),
            heartbeat: wire
                .latest_scheduler_heartbeat
                .or(wire.latest_triggerer_heartbeat)
                .or(wire.latest_dag_processor_heartbeat),
        }
    }
}

impl From<HealthWire> for Health {
    fn from(wire: HealthWire) -> Self {
        let unseen = Component {
            status: HealthStatus::Unknown,
            heartbeat: None,
        };
        Self {
            database: wire.metadatabase.into(),
            scheduler: wire.scheduler.into(),
            triggerer: wire.triggerer.map_or_else(|| unseen.clone(), Component::from),
            dag_processor: wire.dag_processor.map_or(unseen, Component::from),
        }
    }
}
