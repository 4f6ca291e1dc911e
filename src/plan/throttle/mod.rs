//! The lag-driven limit of a backfill: law C2, with the validity and blind rules of C1.
//!
//! [`Throttle`] is one explicit value. [`Throttle::step`] takes one input (a sample, the lack of one, or the passing
//! of time) together with the [`Load`] and [`Now`], and gives back what is to be journaled. It reads no clock.
//! [`Throttle::checkpoint`] and [`Throttle::restore`] carry it over a crash: what is restored equals what was saved.
//!
//! # Parts
//! - `levels`: thresholds of a signal; `sight`: is it seen or blind; `track`: its mean and slope;
//! - `control`: what one signal makes of the limit; `lower`, `rise` and `blind`: the rules;
//! - `learned`: where the law that learns the room (`plan::room`) decides instead of those rules, signal by signal;
//! - `controller`: all signals together, the smallest proposal wins; `view`: what screen and `why` ask;
//! - `authority`: what humans' cap and force make of the controller's limit.
//!
//! # Clocks
//! Samples and blindness are timed on the boot clock, which counts suspend and never jumps. Wall time is used
//! only to name instants for display, so setting the wall clock changes no decision.
//! Memories, dwells and holds (ceiling, flap history, resume hold, hibernation) live on a *law clock*: the milliseconds
//! during which nothing above the controller held the work. It stands still under a human pause, a blackout or an open
//! breaker, which is how C2's "no ageing of memories" is kept.
//! After a reboot (another boot id) nobody can say how long the gap was. Then no waiting time is taken as passed, all
//! samples are forgotten, nothing starts until every protecting signal gave two valid samples again, and the limit goes
//! on from half. A supervisor that was away on the same boot simply finds its signals blind.
//!
//! # Where the law leaves room, we chose
//! - *Two samples* are two measurements. The same measurement polled twice (same value, same time of measurement to
//!   half an interval) keeps the signal seen and counts once.
//! - The first sample above hard enters the mean no higher than halfway from low to soft (no higher than hard once the
//!   mean is past soft) and not at all the slope: one single sample above hard, however high, changes nothing but that
//!   growth waits. Without this one absurd value would lift the mean over hard.
//! - Flat means a slope up to `0.02 * soft / 60` per second: 0.02 for soft 60 s, the same share of soft for any other
//!   level and for message counts. The slope window is at least ten intervals, so that slow signals have a slope.
//! - Each signal has its own limit; a cut starts from the limit in effect. The 60 s between cuts, the dwell and the drain
//!   rule are common to all, because they speak of the loop, not of the signal. The ceiling belongs to the signal.
//! - A pause counts for flap and latch only if it stopped something: not while already stopped or held from above.
//! - No rise of any kind (start, resume, end of blindness, growth) without a fresh valid run of two samples from every
//!   protecting signal. An advising signal only freezes growth, while it is not seen or is at its soft.
//! - When what held the work from above lets go, the limit goes on from half of the former one (never below what
//!   still runs), with paced starts. When a signal is removed it drops out at once; a limit that rises by that does the same.
//! - Paced starts end when the running weight reaches the former limit, or `ceiling_memory` after they began.
//! - A signal is announced as blind after two polls without a sample, or after three intervals of silence; growth
//!   stops with the first. The blind times count from the last valid sample.

pub mod authority;
mod blame;
mod blind;
mod control;
mod controller;
mod exact;
mod learned;
mod levels;
mod lower;
mod rise;
mod sight;
mod track;
mod types;
mod view;
pub(crate) mod words;

#[cfg(test)]
mod tests;

pub use controller::{RestoreError, Throttle};
pub use levels::SignalLevels;
pub use types::{Fleet, Governed, Input, Load, Now, Outcome};
pub use view::{BlindReport, Ceiling, Report, SignalReport, ThrottleState};
