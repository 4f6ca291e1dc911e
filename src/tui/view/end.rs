//! When it will be done, in words: in the header, in the limit dialog and under the plan. Never a date while the clock
//! is stopped, and never one number alone where there is room for the range (law C3).

use super::{
    numbers::{delta, duration, eta as instant},
    scene::Scene,
    sentences::{Allowed, Binder, blind_since},
};
use crate::{
    domain::state::Backfill,
    plan::eta::{Eta, LEAST_FINISHED},
    tui::{
        estimate::Estimate,
        model::LeaseView,
        theme::Token,
        widgets::canvas::{Piece, p},
    },
};

/// Label and value of the ETA slot: a range, or in honest words why there is none.
pub(super) fn slot<'a>(
    scene: &Scene<'_>,
    backfill: &Backfill,
    allowed: Allowed,
    wide: bool,
) -> (Vec<Piece<'a>>, Vec<Piece<'a>>) {
    let look = scene.look;
    let (muted, bright) = (look.ink(Token::Muted), look.bold(Token::Bright));
    let label = |text: &'static str| vec![p(text, muted)];
    if backfill.state().is_final() || scene.backfill.is_none() {
        return (label("ETA"), vec![p("none", muted)]);
    }
    if blind_since(scene.feed, backfill).is_some() {
        let says = if wide { "unknown while blind" } else { "unknown" };
        return (label("ETA"), vec![p(says, muted)]);
    }
    // A blackout ends by itself, and the estimate has it in it.
    let held = allowed.value == 0 && allowed.by != Binder::Blackout;
    let stopped = held || scene.feed.lease == LeaseView::Nobody;
    let Some(estimate) = scene.estimate() else {
        return (label("ETA"), vec![p("not yet", muted)]);
    };
    match estimate.eta {
        Eta::Done => (label("ETA"), vec![p("none", muted)]),
        Eta::TooEarly { finished } => {
            let says = if wide {
                format!("too few done: {finished} of {LEAST_FINISHED}")
            } else {
                "too few".to_owned()
            };
            (label("ETA"), vec![p(says, muted)])
        }
        Eta::Stopped { work_left } => {
            // Nine columns hold a duration and no word beside it.
            let says = if wide { " of work left" } else { "" };
            (
                label(if wide { "ETA clock stopped" } else { "WORK LEFT" }),
                vec![p(duration(delta(work_left)), bright), p(says, muted)],
            )
        }
        // It stopped since the estimate was made: no date while the clock is stopped.
        Eta::Range { .. } if stopped => (
            label(if wide { "ETA clock stopped" } else { "STOPPED" }),
            vec![p("no date", muted)],
        ),
        Eta::Range { extrapolates, .. } => {
            let Some((p50, p90)) = estimate.eta.instants(estimate.at) else {
                return (label("ETA"), vec![p("long", muted)]);
            };
            let mut value = vec![p(instant(p50, scene.now, scene.zone), bright)];
            let mut says = label(match (wide, extrapolates) {
                (true, _) => "ETA p50 .. p90",
                (false, false) => "ETA p50",
                (false, true) => "ETA ",
            });
            if wide {
                value.push(p(format!(" .. {}", instant(p90, scene.now, scene.zone)), muted));
            }
            if extrapolates {
                says.push(p(if wide { "  rough" } else { "rough" }, look.ink(Token::Warn)));
            }
            (says, value)
        }
    }
}

/// The end under a limit, or what can be said instead.
pub(super) fn under<'a>(scene: &Scene<'_>, limit: u32, end: Option<Eta>) -> Vec<Piece<'a>> {
    let look = scene.look;
    let (muted, bright) = (look.ink(Token::Muted), look.bold(Token::Bright));
    let made = scene.estimate().map_or(scene.now, |e| e.at);
    match end {
        None => vec![p("not estimated yet", muted)],
        Some(Eta::Done) => vec![p("nothing is left", muted)],
        Some(Eta::TooEarly { finished }) => {
            let says = format!("no estimate before {LEAST_FINISHED} are done, {finished} are");
            vec![p(says, muted)]
        }
        Some(Eta::Stopped { work_left }) => vec![
            p("clock stopped, ", muted),
            p(duration(delta(work_left)), bright),
            p(" of work left", muted),
        ],
        Some(range @ Eta::Range { extrapolates, .. }) => {
            let Some((p50, p90)) = range.instants(made) else {
                return vec![p("not in our time", muted)];
            };
            let at = |t| instant(t, scene.now, scene.zone);
            let guess = if extrapolates { ", rough" } else { "" };
            vec![
                p(at(p50), bright),
                p(format!(" .. {}", at(p90)), muted),
                p(format!("  at limit {limit}{guess}"), muted),
            ]
        }
    }
}

/// `33h of work at limit 8`, and the one chunk that sets the end.
pub(super) fn work(estimate: &Estimate) -> Option<String> {
    let (left, pole) = match estimate.eta {
        Eta::Range { p50, long_pole, .. } => (p50, long_pole),
        Eta::Stopped { work_left } => (work_left, None),
        Eta::Done | Eta::TooEarly { .. } => return None,
    };
    let pole = pole.map_or_else(String::new, |chunk| format!(", {chunk} sets the end"));
    Some(format!(
        "{} of work at limit {}{pole}",
        duration(delta(left)),
        estimate.limit
    ))
}
