//! A look at a window that was read once: what changed, in turns how many runs there are and how the native backfill
//! stands, and now and then what surrounds them.
//!
//! Two requests a look are all that a change, a pause or a deletion needs to be seen within two looks. What changes
//! slowly or only explains (health, DAG, pool, tasks) is asked for twice a minute, and not at all where the budget of
//! requests is nearly used up.

use super::{
    super::{
        RunQuery, Window as Dates,
        budget::Purpose,
        connection::Call,
        error::{CallError, Kind},
        executor::Inner,
        health,
        wire::{Api, Backfill, TaskState},
    },
    days::zone_note,
    facts::Around,
    held::{Key, Span},
    look::{Window, details},
    pool,
    read::{count, count_of, key_name, newest_native, part, within},
    search::{Search, Sweep},
};
use crate::{
    domain::{spec::Spec, text},
    host::BootInstant,
};
use chrono::{TimeZone, Utc};
use std::{collections::HashSet, time::Duration};

/// Between two looks at what surrounds the runs.
const SLOW: Duration = Duration::from_secs(30);
/// Between two exact counts of the window.
const RARE: Duration = Duration::from_secs(60);
/// What was refused is asked for again only after this time.
const REFUSED_FOR: Duration = Duration::from_secs(300);
/// So many requests are left to others before one that only explains is sent.
const RESERVE: usize = 12;
/// The most requests of one look that search for what is gone.
const SEARCH: usize = 12;

/// What is remembered of the rounds.
pub(super) struct Rounds {
    turn: u32,
    complete: bool,
    pub(super) around: Around,
    /// Runs of the DAG without a day; `None` where the runs that were read tell it.
    pub(super) undated: Option<u32>,
    pub(super) zone_note: Option<String>,
    pub(super) native_note: Option<String>,
    pub(super) pool_note: Option<String>,
    counts: Counts,
    search: Search,
    sweep: Sweep,
    /// Runs that the last poll brought and that are not in the window.
    elsewhere: HashSet<String>,
    native_due: Option<BootInstant>,
    /// The native backfill that is attached to, once it is over.
    over: Option<Backfill>,
    slow_due: Option<BootInstant>,
    idle_since: Option<BootInstant>,
}

/// How many runs there are.
#[derive(Default)]
struct Counts {
    /// Runs of the DAG that are not in the window.
    outside: Option<u64>,
    /// The window must be counted again then; `None`: now.
    due: Option<BootInstant>,
    /// There were more runs than we hold: the next poll may bring them.
    surplus: bool,
    /// The server's number for which everything was searched, and [`super::held::Held::comings`] then.
    searched: Option<(u64, u64)>,
    /// The DAG's statistics may not be asked for before.
    stats_due: Option<BootInstant>,
}

impl Rounds {
    pub(super) fn new(now: BootInstant) -> Self {
        Self {
            turn: 0,
            complete: false,
            around: Around::default(),
            undated: None,
            zone_note: None,
            native_note: None,
            pool_note: None,
            counts: Counts::default(),
            search: Search::default(),
            sweep: Sweep::new(now),
            elsewhere: HashSet::new(),
            native_due: None,
            over: None,
            slow_due: None,
            idle_since: None,
        }
    }

    /// A whole round was made: everything is known.
    pub(super) const fn went_once(&self) -> bool {
        self.complete
    }
}

fn is_due(due: Option<BootInstant>, now: BootInstant) -> bool {
    due.is_none_or(|at| now >= at)
}

/// What its credentials or its version keep from us, or what is not there.
const fn is_refusal(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Forbidden | Kind::Absent | Kind::Unsupported | Kind::Invalid | Kind::WrongPlace
    )
}

impl Window {
    /// One look.
    pub(super) async fn round(&mut self, inner: &Inner, spec: &Spec) -> Result<(), CallError> {
        self.poll(inner).await?;
        let all = !self.rounds.complete;
        let turn = self.rounds.turn;
        self.rounds.turn = turn.wrapping_add(1);
        if all || turn.is_multiple_of(2) {
            self.look_at_native(inner, spec).await?;
        }
        if all || !turn.is_multiple_of(2) {
            self.look_at_counts(inner).await?;
        }
        self.look_around(inner, spec).await;
        self.look_for_what_is_gone(inner).await?;
        self.rounds.complete = true;
        Ok(())
    }

    /// What changed since the last poll.
    async fn poll(&mut self, inner: &Inner) -> Result<(), CallError> {
        let asked = inner.clock.wall();
        let Some(since) = self.since else {
            // A server without a clock: everything is read again, at a slow pace.
            if self.rounds.search.is_over() && is_due(self.rounds.counts.due, inner.clock.now()) {
                self.rounds.search.begin(&self.held, usize::MAX);
            }
            self.as_of = asked;
            return Ok(());
        };
        let listing = inner.server.changed_runs(&self.wanted.dag, since).await?;
        self.held.take(&listing.rows, inner.clock.now());
        // A run that is made elsewhere can hide in the statistics that one of ours is gone.
        let elsewhere = listing.rows.iter().filter(|run| !self.held.has(&run.id));
        let elsewhere: HashSet<String> = elsewhere.map(|run| run.id.clone()).collect();
        if !elsewhere.is_subset(&self.rounds.elsewhere) {
            self.rounds.counts.due = None;
        }
        self.rounds.elsewhere = elsewhere;
        if !listing.torn {
            self.since = listing.as_of.or(self.since);
        }
        self.as_of = asked;
        Ok(())
    }

    /// How the native backfill stands: the one that is attached to, or a newer one that is not over.
    async fn look_at_native(&mut self, inner: &Inner, spec: &Spec) -> Result<(), CallError> {
        let now = inner.clock.now();
        let open = self
            .rounds
            .around
            .native
            .as_ref()
            .is_some_and(Backfill::is_unfinished);
        // Runs of one wait that is not known yet: whoever wants to pause needs it now.
        let waits = || self.held.tally(now, self.since).queued_native > 0;
        let open = open || (self.rounds.native_note.is_none() && waits());
        if !open && !is_due(self.rounds.native_due, now) || inner.server.api().await? == Api::V1 {
            return Ok(());
        }
        self.rounds.native_due = Some(now.plus(SLOW));
        let attached = spec.attach.as_ref().and_then(|a| a.native);
        let newest = match newest_native(&inner.server, &self.wanted.dag).await {
            Ok(newest) => newest,
            Err(e) if is_refusal(e.kind) => {
                self.rounds.native_due = Some(now.plus(REFUSED_FOR));
                let words = text::one_line(&e.error.detail, 120);
                self.rounds.native_note = Some(format!("native backfills cannot be read: {words}"));
                return Ok(());
            }
            Err(e) => return Err(e),
        };
        self.rounds.native_note = None;
        let before = self.rounds.around.native.as_ref().map(|n| n.id);
        self.rounds.around.cancelled = newest.as_ref().filter(|n| n.is_cancelled()).map(|n| n.id);
        let found = match (newest, attached) {
            (Some(newest), _) if newest.is_unfinished() || Some(newest.id) == attached => Some(newest),
            // It was under way when we saw it first, such as one of ours in place of the one that is attached to.
            (Some(newest), _) if Some(newest.id) == before => Some(newest),
            // After a restart the last one that had a say in the days is what there is to tell.
            (Some(newest), Some(id)) if newest.id > id && self.is_in_the_window(&newest) => Some(newest),
            (_, Some(id)) => self.attached(inner, id).await?,
            (_, None) => None,
        };
        self.rounds.around.maker = found.as_ref().and_then(|native| {
            let span = Span {
                from: native.from,
                to: native.to,
            };
            let maker = self.held.maker(span, native.created?);
            maker.map(|m| text::one_line(&m, 80))
        });
        self.rounds.around.native = found;
        Ok(())
    }

    /// Whether a native backfill is about days of ours.
    fn is_in_the_window(&self, native: &Backfill) -> bool {
        let ours = self.held.span();
        native.from <= ours.to && ours.from <= native.to
    }

    /// The native backfill that is attached to, where a newer one is known: then it is over, and stays as it is.
    async fn attached(&mut self, inner: &Inner, id: u64) -> Result<Option<Backfill>, CallError> {
        if self.rounds.over.is_none() {
            match inner.server.backfill(id).await {
                Ok(found) if found.dag == self.wanted.dag => self.rounds.over = Some(found),
                Ok(found) => {
                    let dag = text::one_line(&found.dag, 80);
                    self.rounds.native_note =
                        Some(format!("the native backfill {id} is one of the DAG {dag}"));
                }
                Err(e) if e.kind == Kind::Absent => {
                    self.rounds.native_note = Some(format!("there is no native backfill {id}"));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(self.rounds.over.clone().filter(|b| b.completed.is_some()))
    }

    /// Whether there are as many runs as we hold: the DAG's statistics tell cheaply that something may be gone, the
    /// number of runs in the window tells it for certain.
    async fn look_at_counts(&mut self, inner: &Inner) -> Result<(), CallError> {
        let now = inner.clock.now();
        let held = self.held.len() as u64;
        let all = self.stats(inner).await?;
        let as_expected = match (all, self.rounds.counts.outside) {
            (Some(all), Some(outside)) => all == outside + held,
            _ => false,
        };
        let counted = all.is_some() && !as_expected || is_due(self.rounds.counts.due, now);
        if !counted || !self.rounds.search.is_over() {
            return Ok(());
        }
        let there = match (self.wanted.key, all) {
            (Key::Nothing, Some(all)) => all,
            (Key::Nothing, None) => return Ok(()),
            _ => count(&inner.server, &self.wanted, self.held.span()).await?,
        };
        let counts = &mut self.rounds.counts;
        // What was searched and found to be as it is; not if a run has come or gone since.
        let searched = counts
            .searched
            .take()
            .filter(|s| *s == (there, self.held.comings()));
        if there == held || searched.is_some() {
            // A server may count what it does not show; that was found out by a search then.
            counts.searched = searched;
            counts.due = Some(now.plus(RARE));
            counts.surplus = false;
            let outside = all.map(|all| all.saturating_sub(held));
            let changed = outside != counts.outside;
            counts.outside = outside;
            if let Some(all) = all.filter(|_| changed) {
                self.count_undated(inner, all).await?;
            }
        } else if there > held && !counts.surplus {
            counts.surplus = true;
            counts.due = None;
        } else {
            counts.surplus = false;
            counts.due = None;
            counts.searched = Some((there, self.held.comings()));
            let missing = usize::try_from(there.abs_diff(held)).unwrap_or(usize::MAX);
            self.rounds.search.begin(&self.held, missing);
        }
        Ok(())
    }

    /// All runs of the DAG; `None` where that may not be asked.
    async fn stats(&mut self, inner: &Inner) -> Result<Option<u64>, CallError> {
        let now = inner.clock.now();
        if !is_due(self.rounds.counts.stats_due, now) {
            return Ok(None);
        }
        let dag = self.wanted.dag.as_str();
        match inner.server.dag_stats(&[dag]).await {
            // One without runs is not named.
            Ok(stats) => Ok(Some(stats.iter().find(|s| s.dag == dag).map_or(0, |s| s.total()))),
            Err(e) if is_refusal(e.kind) => {
                self.rounds.counts.stats_due = Some(now.plus(REFUSED_FOR));
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Runs without a day are those that no filter by date takes.
    async fn count_undated(&mut self, inner: &Inner, all: u64) -> Result<(), CallError> {
        let year = |year| Utc.with_ymd_and_hms(year, 1, 1, 0, 0, 0).single();
        let (Some(from), Some(to), Api::V2) = (year(1000), year(9000), inner.server.api().await?) else {
            return Ok(());
        };
        let window = match self.wanted.key {
            Key::Logical => Dates::Logical { from, to },
            Key::Partition => Dates::Partition { from, to },
            Key::Nothing => return Ok(()),
        };
        let dated = RunQuery {
            window: Some(window),
            ..RunQuery::of(&self.wanted.dag)
        };
        let dated = inner.server.count_runs(&dated).await?;
        self.rounds.undated = Some(u32::try_from(all.saturating_sub(dated)).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Health, DAG, pool and tasks. What cannot be told is left out: the runs are what counts.
    async fn look_around(&mut self, inner: &Inner, spec: &Spec) {
        let now = inner.clock.now();
        if !is_due(self.rounds.slow_due, now) || inner.server.room(Purpose::Read) < RESERVE {
            return;
        }
        self.rounds.slow_due = Some(now.plus(SLOW));
        let (health, dag) = futures::join!(inner.server.health(), details(inner, &self.wanted.dag));
        self.rounds.around.server = health.ok().as_ref().and_then(health::of_server);
        if let Ok(dag) = dag {
            self.rounds.around.dag = dag.as_ref().and_then(|d| health::of_dag(&d.dag));
            if let Some(dag) = dag {
                self.held.set_start(dag.start_date);
            }
        }
        if self.rounds.around.dag.is_some() {
            self.name_the_import_error(inner).await;
        }
        self.look_at_pool(inner, spec).await;
        self.look_at_tasks(inner).await;
        self.rounds.zone_note = zone_note(&self.held.dates(), spec.timezone, spec.granularity);
    }

    /// Adds what is wrong with the file, where only one is broken.
    async fn name_the_import_error(&mut self, inner: &Inner) {
        let Ok(errors) = inner.server.import_errors().await else {
            return;
        };
        if let ([error], Some(words)) = (&errors.rows[..], self.rounds.around.dag.as_mut())
            && !words.contains("is paused")
        {
            let file = text::one_line(error.filename.as_deref().unwrap_or("?"), 120);
            words.push_str(&format!(" ({file}: {})", text::one_line(error.reason(), 160)));
        }
    }

    async fn look_at_pool(&mut self, inner: &Inner, spec: &Spec) {
        let Some(name) = spec.dag.as_ref().and_then(|d| d.pool.as_deref()) else {
            return;
        };
        match pool::seen(inner, name, Some(&self.wanted.dag)).await {
            Ok(pool) => {
                self.rounds.around.pool = Some(pool);
                self.rounds.pool_note = None;
            }
            Err(e) => {
                self.rounds.around.pool = None;
                let words = text::one_line(&e.error.detail, 120);
                let name = text::one_line(name, 80);
                self.rounds.pool_note = Some(format!("the pool {name} cannot be read: {words}"));
            }
        }
    }

    /// How many tasks execute: that a run is *running* does not say that any does.
    async fn look_at_tasks(&mut self, inner: &Inner) {
        let now = inner.clock.now();
        let running = self.held.tally(now, self.since).running;
        let executing = if running == 0 {
            Some(0)
        } else {
            self.count_tasks(inner).await.ok().flatten()
        };
        self.rounds.around.executing = executing;
        self.rounds.idle_since = match executing {
            Some(0) if running > 0 => self.rounds.idle_since.or(Some(now)),
            _ => None,
        };
        self.rounds.around.idle = self
            .rounds
            .idle_since
            .map_or(Duration::ZERO, |since| now.since(since));
    }

    async fn count_tasks(&self, inner: &Inner) -> Result<Option<u32>, CallError> {
        let server = &inner.server;
        let segments = ["dags", &self.wanted.dag, "dagRuns", "~", "taskInstances"];
        let path = server.path(server.api().await?, &segments)?;
        let mut call = Call::get(&path).query("state", TaskState::Running.as_str());
        if self.wanted.key == Key::Logical {
            call = within(call, key_name(server, Key::Logical).await?, self.held.span());
        }
        let n = count_of(server, call).await?;
        Ok(n.map(|n| u32::try_from(n).unwrap_or(u32::MAX)))
    }

    async fn look_for_what_is_gone(&mut self, inner: &Inner) -> Result<(), CallError> {
        let now = inner.clock.now();
        let room = inner.server.room(Purpose::Read);
        let (server, wanted, rounds) = (&inner.server, &self.wanted, &mut self.rounds);
        if !rounds.search.is_over() {
            // One, where the budget is small; none where everybody would wait for it.
            let requests = room.saturating_sub(RESERVE).clamp(usize::from(room > 2), SEARCH);
            return rounds
                .search
                .go_on(server, wanted, &mut self.held, requests, now)
                .await;
        }
        let Some(span) = rounds.sweep.due(&self.held, now).filter(|_| room >= RESERVE) else {
            return Ok(());
        };
        let part = part(server, wanted, span, false).await?;
        self.held.take_all(span, &part.runs, now);
        rounds.sweep.done(now);
        Ok(())
    }
}
