//! One who looks at an attached backfill.
//!
//! First the window is read once, in parts that are handed over as they come. Then each look is a round of small
//! questions (`rounds`).

use super::{
    super::{
        error::{CallError, Kind},
        executor::Inner,
        wire::DagDetails,
    },
    days::Calendar,
    facts::doubt,
    held::{Held, Key, Span},
    read::{self, First, Part, Reader, Wanted},
    rounds::Rounds,
};
use crate::{
    domain::{
        Time,
        attach::{Facts, Reading},
        spec::Spec,
    },
    executor::attach::{Observer, Sight, Target},
    net::{AdapterError, Cause},
};
use async_trait::async_trait;
use std::sync::Arc;

/// An observer of one target.
pub(super) struct Eye {
    inner: Arc<Inner>,
    target: Target,
    /// `None` until the first page came.
    window: Option<Box<Window>>,
}

/// What is remembered from look to look.
pub(super) struct Window {
    pub(super) wanted: Wanted,
    pub(super) held: Held,
    /// On the server's clock: everything older is known.
    pub(super) since: Option<Time>,
    /// When the runs were last asked for, on our wall clock.
    pub(super) as_of: Time,
    /// Runs in the window, by the server's count, when it began to be read.
    total: u64,
    todo: Vec<Span>,
    reader: Option<Reader>,
    /// The caller has been given all of it.
    pub(super) told: bool,
    pub(super) rounds: Rounds,
}

impl Eye {
    pub(super) const fn new(inner: Arc<Inner>, target: Target) -> Self {
        Self {
            inner,
            target,
            window: None,
        }
    }

    /// Finds out what the days of the DAG are known by, and reads the first page.
    async fn begin(&self) -> Result<Window, CallError> {
        let spec = &self.target.spec;
        let server = &self.inner.server;
        let Some(dag) = spec.dag.as_ref().map(|d| d.id.clone()) else {
            let error = self.inner.error("look", Cause::Local, "the order names no DAG");
            return Err(CallError::new(Kind::Invalid, error));
        };
        let version = server.version().await?;
        let details = details(&self.inner, &dag).await?;
        // Of one that may not be read it is taken that it is like most.
        let wanted = details.as_ref().map_or(
            Wanted {
                dag,
                key: Key::Logical,
            },
            |found| Wanted::of(&found.dag, &version),
        );
        let key = wanted.key;
        let calendar = Calendar::of(spec);
        let (as_of, now, span) = (
            self.inner.clock.wall(),
            self.inner.clock.now(),
            window(spec, &calendar, key),
        );
        let First { part, total, rest } = read::first(server, &wanted, &calendar, span).await?;
        let mut held = Held::new(calendar, key, span, now);
        held.set_start(details.as_ref().and_then(|d| d.start_date));
        let mut window = Window {
            wanted,
            held,
            since: None,
            as_of,
            total,
            reader: None,
            todo: rest,
            told: false,
            rounds: Rounds::new(now),
        };
        window.take(part, &self.inner);
        window.go_on_reading(&self.inner);
        Ok(window)
    }

    fn sight(&mut self) -> Sight {
        let Some(window) = self.window.as_mut() else {
            return Sight {
                days: std::collections::BTreeMap::new(),
                whole: false,
                facts: Facts::default(),
            };
        };
        let mut facts = window.facts(&self.inner);
        let whole = window.is_read() && window.rounds.went_once() && !window.told;
        let days = if whole {
            window.held.all()
        } else {
            window.held.changes()
        };
        window.told |= whole;
        if window.told {
            facts.reading = None;
        }
        Sight { days, whole, facts }
    }
}

#[async_trait]
impl Observer for Eye {
    async fn look(&mut self) -> Result<Sight, AdapterError> {
        match self.window.as_mut() {
            None => self.window = Some(Box::new(self.begin().await?)),
            Some(window) if !window.is_read() => window.read_on(&self.inner).await?,
            Some(window) => window.round(&self.inner, &self.target.spec).await?,
        }
        Ok(self.sight())
    }
}

impl Window {
    /// Every part of the window was read once.
    fn is_read(&self) -> bool {
        self.todo.is_empty()
    }

    fn go_on_reading(&mut self, inner: &Arc<Inner>) {
        if self.reader.is_none() && !self.todo.is_empty() {
            let todo = self.todo.clone();
            self.reader = Some(Reader::start(Arc::clone(inner), self.wanted.clone(), todo));
        }
    }

    /// Waits for one part at least.
    async fn read_on(&mut self, inner: &Arc<Inner>) -> Result<(), CallError> {
        self.go_on_reading(inner);
        let came = match self.reader.as_mut() {
            Some(reader) => reader.next().await,
            None => None,
        };
        let mut failed = None;
        let ended = came.is_none();
        for part in came.unwrap_or_default() {
            match part {
                Ok(part) => self.take(part, inner),
                Err(e) => failed = Some(e),
            }
        }
        if ended || failed.is_some() || self.is_read() {
            // After a failure the next look begins with what is left.
            self.reader = None;
        }
        failed.map_or(Ok(()), Err)
    }

    fn take(&mut self, part: Part, inner: &Inner) {
        self.todo.retain(|span| *span != part.span);
        self.held.take_all(part.span, &part.runs, inner.clock.now());
        // The first is the oldest: what changed after it was read is asked for again.
        self.since = self.since.or(part.as_of);
        self.as_of = inner.clock.wall();
    }

    fn facts(&self, inner: &Inner) -> Facts {
        let tally = self.held.tally(inner.clock.now(), self.since);
        let around = &self.rounds.around;
        let notes = [
            self.rounds.native_note.clone(),
            self.rounds.pool_note.clone(),
            self.rounds.zone_note.clone(),
            doubt(&tally),
        ];
        let notes: Vec<String> = notes.into_iter().flatten().collect();
        let read = u32::try_from(self.held.len()).unwrap_or(u32::MAX);
        let total = u32::try_from(self.total).unwrap_or(u32::MAX).max(read);
        Facts {
            as_of: Some(self.as_of),
            reading: (!self.told).then_some(Reading { read, total }),
            runs: tally.runs,
            undated: self.rounds.undated.unwrap_or(tally.nowhere),
            native: around.native_seen(),
            pool: around.pool.clone(),
            executing: around.executing,
            stuck: around.stuck(&tally),
            problem: None,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        }
    }
}

/// The dates that the server is asked for.
fn window(spec: &Spec, calendar: &Calendar, key: Key) -> Span {
    let midnight = |date: chrono::NaiveDate| date.and_time(chrono::NaiveTime::MIN).and_utc();
    match key {
        Key::Logical => Span {
            from: calendar.first(),
            to: calendar.end() - key.tick(),
        },
        Key::Partition => Span {
            from: midnight(spec.start),
            to: midnight(spec.end),
        },
        Key::Nothing => Span {
            from: Time::MIN_UTC,
            to: Time::MAX_UTC,
        },
    }
}

/// The DAG; `None` where it may not be read or its file is gone, of which its runs say nothing.
pub(super) async fn details(inner: &Inner, dag: &str) -> Result<Option<DagDetails>, CallError> {
    match inner.server.dag_details(dag).await {
        Ok(details) => Ok(Some(details)),
        Err(e) if matches!(e.kind, Kind::Absent | Kind::Forbidden) => Ok(None),
        Err(e) => Err(e),
    }
}
