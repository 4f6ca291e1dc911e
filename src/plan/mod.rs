//! Floor 2: the planning logic. Pure: no clock, no I/O, no randomness of its own.

pub mod attach_spec;
pub mod breaker;
pub mod consent;
pub mod decide;
pub mod edge;
pub mod eta;
pub mod expect;
pub mod lever;
pub mod overlap;
pub mod preview;
pub mod retry;
pub mod room;
pub mod select;
pub mod simulate;
#[cfg(test)]
pub(crate) mod testing;
pub mod throttle;
pub mod why;

#[cfg(test)]
mod blackout_tests;
#[cfg(test)]
mod life_tests;
