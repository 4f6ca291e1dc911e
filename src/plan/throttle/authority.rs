//! What humans make of the controller's limit (law C2, *Order of authority*): `cap` lowers it, `force` raises it for a
//! while, nothing lifts a stop.

use super::{Throttle, ThrottleState};
use crate::domain::{Time, event::Force};

/// Who set the limit in effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// The order's own limit.
    MaxLimit,
    /// The controller.
    Throttle,
    /// A human cap.
    Cap,
    /// A human override.
    Force,
}

impl Binding {
    /// The word on screen and in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::MaxLimit => "max-limit",
            Self::Throttle => "throttle",
            Self::Cap => "cap",
            Self::Force => "force",
        }
    }
}

/// What the controller says, as far as humans may change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controller {
    /// Its limit.
    pub limit: u32,
    /// A force may raise it: it is not stopped, not blind and not waiting for its first samples.
    pub forcible: bool,
}

impl From<&Throttle> for Controller {
    fn from(throttle: &Throttle) -> Self {
        let forcible = matches!(
            throttle.state(),
            ThrottleState::Open | ThrottleState::Cut | ThrottleState::Recovering
        );
        Self {
            limit: throttle.limit(),
            forcible,
        }
    }
}

/// The limit that counts, and who set it. A force ends at its `until` (wall time) and never exceeds `max_limit`; critical,
/// hard, a latch, blindness and missing first samples are above it. A cap is below nothing but the controller: the
/// smaller of both holds, and a cap also lowers a force.
pub fn effective_limit(
    controller: Controller,
    cap: Option<u32>,
    force: Option<Force>,
    max_limit: u32,
    now: Time,
) -> (u32, Binding) {
    let own = controller.limit.min(max_limit);
    let mut effective = if own == max_limit {
        (own, Binding::MaxLimit)
    } else {
        (own, Binding::Throttle)
    };
    if let Some(force) = force.filter(|f| f.until > now && controller.forcible) {
        let forced = force.limit.min(max_limit);
        if forced > effective.0 {
            effective = (forced, Binding::Force);
        }
    }
    match cap {
        Some(cap) if cap < effective.0 => (cap, Binding::Cap),
        _ => effective,
    }
}

/// Whether a chunk may start: within the limit, or alone under any limit of at least one.
pub const fn fits(limit: u32, running: u32, weight: u32) -> bool {
    (running == 0 && limit >= 1) || running.saturating_add(weight) <= limit
}
