//! Whole lists, page by page.
//!
//! The pages of a list are asked for two at a time, in the order of the rows' own numbers: a row that is added
//! meanwhile comes at the end and moves no other. A row that is deleted meanwhile moves all behind it, and one could
//! slip through between two pages; the total tells, and the list is read again.

use super::super::{
    connection::{Call, Connection},
    error::{CallError, Kind},
    wire::Page,
};
use crate::{domain::Time, net::Answer};
use chrono::TimeDelta;
use futures::{StreamExt, TryStreamExt, stream};
use serde::de::DeserializeOwned;
use std::{collections::HashSet, hash::Hash};

/// As many rows as a server gives at once, at the most.
const PAGE: u64 = 100;
/// More is no list for a screen, or a total that is not true.
const ROWS_CAP: u64 = 500_000;
/// How often a list is read that shrinks meanwhile.
const READINGS: usize = 3;
/// What is written now is seen by others only when its transaction ends.
const UNSEEN: TimeDelta = TimeDelta::seconds(5);

/// A whole list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing<T> {
    /// Its rows, each once.
    pub rows: Vec<T>,
    /// How many the server says there are, of those that it can filter itself.
    pub total: u64,
    /// On the server's clock: everything older than this is in it. `None` if the server tells no time.
    pub as_of: Option<Time>,
    /// Rows were deleted while it was read, each time: one may be missing.
    pub torn: bool,
}

impl Connection {
    /// Reads all pages of a list; `key` tells its rows apart.
    pub(super) async fn list<T, K>(
        &self,
        call: &Call,
        key: impl Fn(&T) -> K + Send + Sync,
    ) -> Result<Listing<T>, CallError>
    where
        T: DeserializeOwned + Send,
        K: Eq + Hash + Send,
    {
        let mut before = None;
        for _ in 1..READINGS {
            let listing = self.list_once(call, &key).await?;
            let sizes = (listing.rows.len(), listing.total);
            // The same twice is a server that counts what it does not show.
            if !listing.torn || before.replace(sizes) == Some(sizes) {
                return Ok(listing);
            }
        }
        self.list_once(call, &key).await
    }

    async fn list_once<T, K>(
        &self,
        call: &Call,
        key: &(impl Fn(&T) -> K + Send + Sync),
    ) -> Result<Listing<T>, CallError>
    where
        T: DeserializeOwned + Send,
        K: Eq + Hash + Send,
    {
        let (first, answer) = self.page::<T>(call, 0).await?;
        let as_of = as_of(&answer);
        // A server may give less than was asked for.
        let step = first.rows.len() as u64;
        let total = first.total_entries.unwrap_or(step);
        if total > ROWS_CAP {
            let detail = format!("a list of {total} rows");
            let error = answer.error(crate::net::Cause::NotUnderstood, &detail);
            return Err(CallError::new(Kind::NotUnderstood, error));
        }
        let mut reading = Reading {
            rows: Vec::with_capacity(usize::try_from(total).unwrap_or(0)),
            seen: HashSet::new(),
            total,
            torn: step == 0 && total > 0,
        };
        reading.add(first, key);
        if step > 0 && step < total {
            let offsets = stream::iter((1..).map(|n| n * step).take_while(|at| *at < total));
            let mut pages = offsets.map(|at| self.page::<T>(call, at)).buffered(2);
            while let Some((page, _)) = pages.try_next().await? {
                reading.add(page, key);
            }
            drop(pages);
            self.rest(call, key, &mut reading, total.div_ceil(step) * step, step)
                .await?;
        }
        Ok(Listing {
            torn: reading.torn || (reading.rows.len() as u64) < reading.total.min(total),
            rows: reading.rows,
            total: reading.total,
            as_of,
        })
    }

    /// What was added at the end meanwhile.
    async fn rest<T, K>(
        &self,
        call: &Call,
        key: &(impl Fn(&T) -> K + Send + Sync),
        reading: &mut Reading<T, K>,
        from: u64,
        step: u64,
    ) -> Result<(), CallError>
    where
        T: DeserializeOwned + Send,
        K: Eq + Hash + Send,
    {
        let mut at = from;
        while at < reading.total.min(ROWS_CAP) {
            let (page, _) = self.page::<T>(call, at).await?;
            if page.rows.is_empty() {
                break;
            }
            reading.add(page, key);
            at += step;
        }
        Ok(())
    }

    async fn page<T: DeserializeOwned>(
        &self,
        call: &Call,
        offset: u64,
    ) -> Result<(Page<T>, Answer), CallError> {
        let mut call = call.clone().query("limit", &PAGE.to_string());
        if offset > 0 {
            call = call.query("offset", &offset.to_string());
        }
        let answer = self.send(&call).await?;
        Ok((self.understand(&answer)?, answer))
    }

    /// How many rows a list has.
    pub(super) async fn count(&self, call: &Call) -> Result<u64, CallError> {
        // Not 0, which on 2.x means as many as usual.
        let answer = self.send(&call.clone().query("limit", "1")).await?;
        let page: Page<serde::de::IgnoredAny> = self.understand(&answer)?;
        page.total_entries.ok_or_else(|| {
            let error = answer.error(crate::net::Cause::NotUnderstood, "a list without total_entries");
            CallError::new(Kind::NotUnderstood, error)
        })
    }
}

/// A list while it is read.
struct Reading<T, K> {
    rows: Vec<T>,
    seen: HashSet<K>,
    total: u64,
    torn: bool,
}

impl<T, K: Eq + Hash> Reading<T, K> {
    fn add(&mut self, page: Page<T>, key: impl Fn(&T) -> K) {
        let total = page.total_entries.unwrap_or(self.total);
        self.torn |= total < self.total;
        self.total = total;
        for row in page.rows {
            if self.seen.insert(key(&row)) {
                self.rows.push(row);
            }
        }
    }
}

/// The server's clock when it looked, less what it could not see yet. `Date` has whole seconds and is of the answer.
pub(in crate::executor::airflow) fn as_of(answer: &Answer) -> Option<Time> {
    let spent = TimeDelta::from_std(answer.answered_after).ok()? + UNSEEN;
    answer.date()?.checked_sub_signed(spent)
}
