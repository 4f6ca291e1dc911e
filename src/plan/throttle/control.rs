//! What one signal makes of the limit: its own proposal, the phase it is in, and what it remembers.

use super::{SignalLevels, blame::Watch, sight::Sight, track::Track};
use crate::{domain::event::Rule, host::BootInstant, plan::room};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Milliseconds during which nothing above the controller held the work. Memories and dwells are timed on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct LawTick(u64);

impl LawTick {
    pub fn plus(self, d: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// A pause by the signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Paused {
    /// The limit before (C2's L0).
    pub former: u32,
    pub since: LawTick,
    /// How long lag must stay calm before a resume.
    pub hold: Duration,
    /// Set while critical hibernates.
    pub hibernates_until: Option<LawTick>,
    /// Waits for a human.
    pub latched: bool,
    /// What is measured to say whether it was us, until that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch: Option<Watch>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// Has not given two valid samples yet.
    Waiting,
    /// Nothing is wrong.
    Open,
    /// Cut, and not grown since.
    Cut,
    /// Below a former limit after a resume or after blindness.
    Recovering { former: u32 },
    /// Seen again, or let go from above; goes on from half of `former` as soon as every signal is fresh.
    Returning { former: u32 },
    /// No starts.
    Paused(Paused),
}

/// A limit that went wrong is not tried again for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memory {
    pub limit: u32,
    pub until: LawTick,
}

/// Which rule made the proposal what it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Reason {
    pub rule: Rule,
    pub text: String,
}

impl Reason {
    pub fn new(rule: Rule, text: String) -> Self {
        Self { rule, text }
    }
}

/// One signal's share in the controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Control {
    pub sight: Sight,
    pub track: Track,
    /// Its proposal. Without meaning for a signal that only advises.
    pub limit: u32,
    pub phase: Phase,
    pub ceiling: Option<Memory>,
    /// Low and flat since.
    pub calm_since: Option<LawTick>,
    pub reason: Reason,
    /// What the learned law knows, where it decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Box<room::Law>>,
}

impl Control {
    pub fn new(now: BootInstant, text: String) -> Self {
        Self {
            sight: Sight::new(now),
            track: Track::default(),
            limit: 0,
            phase: Phase::Waiting,
            ceiling: None,
            calm_since: None,
            reason: Reason::new(Rule::Start, text),
            room: None,
        }
    }

    /// Notes whether lag is low and flat, after each sample.
    pub fn mark_calm(&mut self, levels: &SignalLevels, law: LawTick) {
        if self.track.is_calm(levels) {
            self.calm_since.get_or_insert(law);
        } else {
            self.calm_since = None;
        }
    }

    /// Forgets slope and calm: what was measured no longer speaks of what runs.
    pub fn restart_window(&mut self) {
        self.track.restart_window();
        self.calm_since = None;
    }

    /// The remembered ceiling, while it is remembered.
    pub fn ceiling(&self, law: LawTick) -> Option<u32> {
        self.ceiling.filter(|m| m.until > law).map(|m| m.limit)
    }

    /// The highest proposal allowed now.
    pub fn headroom(&self, max_limit: u32, law: LawTick) -> u32 {
        self.ceiling(law).unwrap_or(u32::MAX).min(max_limit)
    }

    pub fn paused(&self) -> Option<&Paused> {
        match &self.phase {
            Phase::Paused(p) => Some(p),
            _ => None,
        }
    }

    /// Which of two equal proposals is named: the one that is harder to lift (authority order of C2).
    pub fn severity(&self) -> u8 {
        match &self.phase {
            Phase::Paused(p) if p.hibernates_until.is_some() => 7,
            _ if self.sight.blind.is_some() => 6,
            Phase::Paused(p) if p.latched => 5,
            Phase::Paused(_) => 4,
            Phase::Waiting => 3,
            Phase::Returning { .. } | Phase::Cut => 2,
            Phase::Recovering { .. } => 1,
            Phase::Open => 0,
        }
    }
}
