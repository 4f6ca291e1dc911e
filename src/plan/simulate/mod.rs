//! Whole nights under a clock of ours: the throttle against a modelled live pipeline, beside simple rules and the most
//! that could be done at all.
//!
//! # The world
//! Messages arrive, a day curve times noise. A consumer takes them; each unit of running weight takes
//! `cost_per_chunk` from what it can take. Lag is the age of the oldest message that waits, or how many wait. The
//! signal tells it `metric_delay` late, with the time of its measurement.
//!
//! # What the scenario's keys leave open
//! - A chunk that is at least 5 times an ordinary one has weight 4 and a quarter of the length that this makes; from 2
//!   times on it has weight 2. One of weight 4 at a time; it waits in a lane of its own until the limit is at least
//!   its weight, and then holds the line until it fits.
//! - A failing attempt dies at some moment of its length, evenly; its work is lost, and the next one may start 60 s later.
//! - While the executor is down nothing starts, and what runs goes on. A frozen signal repeats its value with fresh times;
//!   `zero` is 0 for everything.
//! - *Outside of incidents* is outside of `at` to `at + for + 30 min`. What the live load does to itself is told apart:
//!   it is over soft for hours in some scenarios without any backfill.

mod bound;
mod course;
mod draw;
mod live;
mod night;
mod policy;
mod report;
mod shop;
mod waiting;
mod work;

pub use policy::Policy;
pub use report::{Figures, OfPolicy, Progress, Report, simulate};

#[cfg(test)]
mod tests;
