//! Finding what was deleted: no poll tells, only the number of runs does.
//!
//! Where the server has another number of runs than we hold, halves are counted until the part is found that differs,
//! and only that is read again. Beside this all parts are read again in turn, slowly.

use super::{
    super::{connection::Connection, error::CallError},
    held::{Held, Span},
    read::{PAGE, Wanted, count, part},
};
use crate::host::BootInstant;
use std::{collections::VecDeque, time::Duration};

/// All parts are read again within this time, if there are not too many.
const ROUND: Duration = Duration::from_secs(300);
/// No part is read sooner after the one before.
const PACE: Duration = Duration::from_millis(7500);

/// A search for what is gone.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Neighbouring parts, among which something differs.
    suspects: Vec<Vec<Span>>,
}

impl Search {
    pub(super) const fn is_over(&self) -> bool {
        self.suspects.is_empty()
    }

    /// Everything is suspect. `missing`: by how much the numbers differ.
    pub(super) fn begin(&mut self, held: &Held, missing: usize) {
        let parts = held.parts(PAGE);
        self.suspects = if missing >= parts.len() {
            // Something in nearly every part: counting would only cost more.
            parts.into_iter().map(|part| vec![part]).collect()
        } else {
            vec![parts]
        };
    }

    /// Goes on, with at most about so many requests.
    pub(super) async fn go_on(
        &mut self,
        server: &Connection,
        wanted: &Wanted,
        held: &mut Held,
        requests: usize,
        now: BootInstant,
    ) -> Result<(), CallError> {
        let mut sent = 0;
        while sent < requests
            && let Some(suspect) = self.suspects.last()
        {
            let [first, .., last] = suspect[..] else {
                if let [one] = suspect[..] {
                    let part = part(server, wanted, one, false).await?;
                    sent += part.runs.len().div_ceil(PAGE).max(1);
                    held.take_all(one, &part.runs, now);
                }
                self.suspects.pop();
                continue;
            };
            let span = Span {
                from: first.from,
                to: last.to,
            };
            let there = count(server, wanted, span).await?;
            sent += 1;
            let suspect = self.suspects.pop().unwrap_or_default();
            if usize::try_from(there) != Ok(held.count(span)) {
                let (older, newer) = suspect.split_at(suspect.len() / 2);
                self.suspects.push(newer.to_vec());
                self.suspects.push(older.to_vec());
            }
        }
        Ok(())
    }
}

/// The slow round through all parts.
#[derive(Debug)]
pub(super) struct Sweep {
    parts: VecDeque<Span>,
    due: BootInstant,
    step: Duration,
}

impl Sweep {
    /// The first part is read again some time after the first reading.
    pub(super) fn new(now: BootInstant) -> Self {
        Self {
            parts: VecDeque::new(),
            due: now.plus(ROUND),
            step: ROUND,
        }
    }

    /// The part that is to be read now.
    pub(super) fn due(&mut self, held: &Held, now: BootInstant) -> Option<Span> {
        if now < self.due {
            return None;
        }
        if self.parts.is_empty() {
            self.parts = held.parts(PAGE).into();
            let parts = u32::try_from(self.parts.len()).unwrap_or(u32::MAX).max(1);
            self.step = (ROUND / parts).max(PACE);
        }
        self.parts.front().copied()
    }

    /// It was read.
    pub(super) fn done(&mut self, now: BootInstant) {
        self.parts.pop_front();
        self.due = now.plus(self.step);
    }
}
