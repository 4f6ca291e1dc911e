//! Floor 2: the planning logic. Pure: no clock, no I/O, no randomness of its own.

pub mod eta;
pub mod preview;
pub mod throttle;
pub mod why;
