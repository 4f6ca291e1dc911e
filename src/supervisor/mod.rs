//! Floor 4: the supervisor, the only hand. It holds the journal's lease, journals an intent before it acts, and acts
//! idempotently: a crash at any instruction loses nothing and doubles nothing.

pub mod attached;
pub mod core;
pub mod driver;
pub mod fleet;
mod gate;
pub mod glance;
pub mod kill_point;
pub mod limits;
mod lost;
mod news;
pub mod poll;
pub mod record;
pub mod reload;
pub mod run;
pub mod silences;
mod steps;
mod tick;
pub mod watchers;
pub mod wiring;

#[cfg(test)]
mod attached_tests;
#[cfg(test)]
mod core_tests;
