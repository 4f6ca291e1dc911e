//! The law that learns what a unit of weight costs the live pipeline, and holds lag below soft by it.
//!
//! [`Law`] is one explicit value for one signal; it reads no clock. Samples go in with [`Law::sample`] by the time of
//! their measurement, [`Law::decide`] is asked once a tick.
//!
//! # Two actuators
//! The *limit* is coarse: it is announced, journaled and written to pools, and changes seldom. Under it, starts are
//! *admitted* one by one as the model allows, which costs nothing and is undone by what ends. So the limit does not have
//! to follow every breath of the live load, and what one more would cost is asked at each start.
//!
//! # Parts
//! - `model`: drift and gain, learned from lag and weight; `weights`: what ran when; `sight`: which samples are believed;
//! - `peak`: how high lag will go if nothing more starts; `law`: its state and its tick; `steer`: limit, admission, cancels;
//! - `blind`: without samples; `hour`: how much work cancels may cost; `times`: how long everything waits.
//!
//! # Bounds that hold whatever the model says
//! The limit is at most `max_limit`; it does not grow without a valid sample, nor within [`Times::dwell`] of any change, nor
//! without [`TO_GROW`] tokens, of which there is one every [`Times::token_every`] and every change takes one; lag over
//! hard on two samples, or over critical, is 0. Cuts are never refused. What is cancelled is young, at most a third at a time,
//! and only where that lowers the peak that is foreseen.

mod blind;
mod hour;
mod law;
mod model;
mod peak;
mod sight;
mod steer;
mod terms;
mod times;
mod weights;

pub use law::Law;
pub use model::Model;
pub use peak::Running;
pub use sight::Doubt;
pub use steer::TO_GROW;
pub use terms::{Admission, Blame, Decision, Levels, Next, Rule, Terms, View};
pub use times::Times;

#[cfg(test)]
mod tests;
