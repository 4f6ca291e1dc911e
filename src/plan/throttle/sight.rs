//! Whether a signal is seen. No sample is never replaced by anything: it makes the signal less seen, and after a
//! while blind.

use super::SignalLevels;
use crate::host::BootInstant;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How far blindness has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    /// No growth.
    Frozen,
    /// The limit was halved.
    Halved,
    /// No starts.
    Stopped,
}

/// A signal that gives no valid samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Blind {
    /// The last valid sample, or when we began to look.
    pub since: BootInstant,
    /// What is wrong, in words.
    pub why: String,
    /// The limit when it went blind.
    pub before: u32,
    pub stage: Stage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Sight {
    /// When we began to look.
    pub origin: BootInstant,
    /// When the last valid sample was taken in.
    pub last_valid: Option<BootInstant>,
    /// Valid measurements in a row, without a hole.
    streak: u32,
    /// Polls without a sample in a row.
    misses: u32,
    last_miss: Option<String>,
    pub blind: Option<Blind>,
}

impl Sight {
    pub fn new(now: BootInstant) -> Self {
        Self {
            origin: now,
            last_valid: None,
            streak: 0,
            misses: 0,
            last_miss: None,
            blind: None,
        }
    }

    /// A valid sample came; `new` if it is another measurement than the last. A silence breaks the run as a missed
    /// poll does.
    pub fn hit(&mut self, new: bool, levels: &SignalLevels, now: BootInstant) {
        if self.silence(now) > levels.patience() {
            self.streak = 0;
        }
        self.last_valid = Some(now);
        self.misses = 0;
        self.last_miss = None;
        if new {
            self.streak = self.streak.saturating_add(1);
        }
    }

    /// A poll gave no sample.
    pub fn miss(&mut self, why: String) {
        self.streak = 0;
        self.misses = self.misses.saturating_add(1);
        if let Some(blind) = &mut self.blind {
            blind.why.clone_from(&why);
        }
        self.last_miss = Some(why);
    }

    /// Two valid measurements in a row.
    pub fn has_run(&self) -> bool {
        self.streak >= 2
    }

    /// Two polls in a row gave nothing, so it is not only that nobody asked.
    pub fn has_missed(&self) -> bool {
        self.misses >= 2
    }

    /// Seen well enough to let the limit rise.
    pub fn is_fresh(&self, levels: &SignalLevels, now: BootInstant) -> bool {
        self.blind.is_none() && self.has_run() && self.silence(now) <= levels.patience()
    }

    /// Time since the last valid sample, or since we began to look.
    pub fn silence(&self, now: BootInstant) -> Duration {
        now.since(self.dark_since())
    }

    /// The last valid sample, or when we began to look.
    pub fn dark_since(&self) -> BootInstant {
        self.last_valid.unwrap_or(self.origin)
    }

    /// Why the signal has to be called blind now, if it has to.
    pub fn goes_blind(&self, levels: &SignalLevels, now: BootInstant) -> Option<String> {
        if self.blind.is_some() {
            return None;
        }
        let silent = self.silence(now) > levels.patience();
        if !self.has_missed() && !silent {
            return None;
        }
        Some(self.last_miss.clone().unwrap_or_else(|| "no answer".to_owned()))
    }
}
