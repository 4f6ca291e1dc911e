//! Taking hold of what somebody else started: looking at it, and its engine's own levers.

use crate::{
    domain::{
        attach::{Action, Asked, Days, Facts, NativeSeen, PoolSeen},
        ids::{BackfillId, ChunkId},
        spec::Spec,
    },
    net::AdapterError,
};
use async_trait::async_trait;
use chrono_tz::Tz;
use std::{sync::Arc, time::Duration};

/// An attached backfill, as an adapter needs to know it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Our name for it.
    pub backfill: BackfillId,
    /// What is attached to: the DAG, the native backfill, the window, the zone, the pool.
    pub spec: Arc<Spec>,
}

/// What one look brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// Days whose runs changed since the last look, with all runs that they have now; an empty list: none any more.
    /// With `whole`, every day that has a run.
    pub days: Days,
    /// What was not named is as it was (`false`), or has no run (`true`).
    pub whole: bool,
    /// The rest, as of now.
    pub facts: Facts,
}

/// A look at one target, again and again. What it remembers between looks (cursors, totals) it can lose.
#[async_trait]
pub trait Observer: Send {
    /// Looks once. The first looks may bring the window in parts, with [`Facts::reading`] set: newest information
    /// first is not needed, progress is. A failure is an error here; the caller keeps what was seen before, with its
    /// age.
    ///
    /// # Errors
    /// The server could not be asked, in its words.
    async fn look(&mut self) -> Result<Sight, AdapterError>;
}

/// What is to be done next for an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Send this; it is journaled first.
    Send {
        /// For people: `PUT /api/v2/backfills/12/pause`.
        sent: String,
        /// For [`Levers::perform`] and for [`Levers::next`] after a restart: JSON of the adapter's own.
        call: String,
    },
    /// Nothing can be sent now; ask again after this time, and this is why.
    Wait(Duration, String),
    /// It is over.
    Ended {
        /// It did what it promised.
        ok: bool,
        /// In words.
        said: String,
    },
}

/// An engine's own levers on what somebody else started.
///
/// An action is done in requests, one after the other. Before each the adapter looks at the server and at what was
/// sent and answered so far ([`Asked::steps`]) and names the next. A step without an answer is one of which nobody
/// knows what came: `next` finds out by looking, and names it again (with the same number, if it is named again) only
/// if nothing came of it.
#[async_trait]
pub trait Levers: Send + Sync {
    /// Time between two looks.
    fn interval(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// An observer of a target.
    fn observer(&self, target: Target) -> Box<dyn Observer>;

    /// The next step of an action. Only reads.
    ///
    /// # Errors
    /// The server could not be asked; it is asked again later.
    async fn next(&self, target: &Target, asked: &Asked) -> Result<Next, AdapterError>;

    /// Sends what [`Levers::next`] named.
    ///
    /// # Errors
    /// It was refused, or its answer was lost: [`AdapterError`] tells in the server's words.
    async fn perform(&self, target: &Target, call: &str) -> Result<String, AdapterError>;

    /// A pool as it is now.
    ///
    /// # Errors
    /// The server could not be asked, or has no such pool.
    async fn pool(&self, name: &str) -> Result<PoolSeen, AdapterError>;

    /// What a new native backfill would run, by the server's own dry run: its days.
    ///
    /// # Errors
    /// The server refuses it, or could not be asked.
    async fn dry_run(&self, target: &Target, action: &Action) -> Result<Vec<ChunkId>, AdapterError>;

    /// What a DAG or a native backfill is, before it is attached to. One of the two is given; `zone` is the user's
    /// word for the civil days, without which the runs' own times of day have to tell.
    ///
    /// # Errors
    /// There is no such thing, or the server could not be asked.
    async fn find(
        &self,
        dag: Option<&str>,
        native: Option<u64>,
        zone: Option<Tz>,
    ) -> Result<Found, AdapterError>;

    /// What could be attached to, for a list: unfinished native backfills, and DAGs with many runs.
    ///
    /// # Errors
    /// The server could not be asked.
    async fn offers(&self) -> Result<Vec<Offer>, AdapterError>;
}

/// Something that could be attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The DAG.
    pub dag: String,
    /// Its unfinished native backfill.
    pub native: Option<u64>,
    /// First and last day, inclusive, as far as they can be told.
    pub window: Option<(chrono::NaiveDate, chrono::NaiveDate)>,
    /// In words: `running, limit 3, 90 waiting`, `1,261 runs, 12 failed`.
    pub words: String,
}

/// What could be found out about something that is to be attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The DAG.
    pub dag: String,
    /// Its native backfill: the one that was asked for, else the unfinished one.
    pub native: Option<NativeSeen>,
    /// The zone of its days, if the runs tell.
    pub zone: Option<Tz>,
    /// First and last day, inclusive, in that zone (else in UTC): of the native backfill, else of the DAG's runs.
    pub window: Option<(chrono::NaiveDate, chrono::NaiveDate)>,
}
