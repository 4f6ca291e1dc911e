//! Floor 2: the planning logic. Pure: no clock, no I/O, no randomness of its own.

pub mod edge;
pub mod overlap;
pub mod preview;
pub mod why;
