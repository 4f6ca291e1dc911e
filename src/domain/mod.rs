//! Floor 1: the nouns of a backfill and the fold of its events.
//!
//! Nothing here reads a clock, a file, the network or a random number: `now`, seeds and drawn values are
//! parameters or values inside events. That is what makes every past moment rebuildable from the journal.

pub mod attach;
pub mod blackout;
pub mod calendar;
pub mod event;
pub mod failure;
pub mod fold;
pub mod human;
pub mod ids;
mod observe;
pub mod spec;
mod standing;
pub mod state;
pub mod text;
pub mod tuning;

use chrono::{DateTime, Utc};

/// An instant on the wall clock, in UTC. Used for display, for the user's windows and for the expiry of
/// overrides; the order of events is their `seq`, never this.
pub type Time = DateTime<Utc>;
