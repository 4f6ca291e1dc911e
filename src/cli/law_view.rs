//! What `status` tells of the law by which lag sets a backfill's limit.

use crate::{
    domain::{Time, spec::Law},
    plan::{
        room::{Rule, Terms},
        throttle::Report,
    },
};
use serde::Serialize;

/// What the supervisor last told of a throttle. It is as old as `age_s` says; whoever acts on it looks there first.
#[derive(Serialize)]
pub struct LawView {
    law: &'static str,
    state: &'static str,
    as_of: Time,
    age_s: f64,
    /// The signal of which the terms are.
    signal: Option<String>,
    /// `None`: the classic law has none, and the learned one none before the first valid sample.
    terms: Option<TermsView>,
}

/// The learned law's terms. Lags are in the signal's unit.
#[derive(Serialize)]
struct TermsView {
    /// Weight that the live load leaves room for; below 0 where it has too little for itself.
    room: f64,
    running: u32,
    /// What one more unit of weight costs, in lag a minute.
    one_more_costs_per_min: f64,
    /// How lag would move with nothing of ours running, in lag a minute.
    drift_per_min: f64,
    lag: f64,
    /// The highest lag within an hour if nothing more starts, and in how many seconds it comes.
    peak: f64,
    peak_in_s: f64,
    held_around: f64,
    admitted: f64,
    changes_saved: f64,
    changes_to_grow: f64,
    /// At most this limit, because soft was crossed twice.
    guard: Option<Guard>,
    /// The change of the limit that comes next if nothing else happens; `None`: none is foreseen.
    next: Option<Step>,
}

#[derive(Serialize)]
struct Guard {
    limit: u32,
    for_s: f64,
}

#[derive(Serialize)]
struct Step {
    rule: &'static str,
    to: u32,
    in_s: f64,
}

impl LawView {
    /// Of what was told at an instant.
    pub fn new((as_of, report): &(Time, Report), now: Time) -> Self {
        let terms = report.terms.as_ref().filter(|_| report.law == Law::Learned);
        Self {
            law: report.law.word(),
            state: report.state.word(),
            as_of: *as_of,
            age_s: (now - *as_of).num_milliseconds() as f64 / 1000.0,
            signal: terms.map(|(name, _)| name.to_string()),
            terms: terms.map(|(_, terms)| TermsView::new(terms)),
        }
    }
}

impl TermsView {
    fn new(terms: &Terms) -> Self {
        Self {
            room: terms.room,
            running: terms.running,
            one_more_costs_per_min: terms.costs,
            drift_per_min: terms.drift,
            lag: terms.lag,
            peak: terms.peak.0,
            peak_in_s: terms.peak.1,
            held_around: terms.set_point,
            admitted: terms.admitted,
            changes_saved: terms.tokens.0,
            changes_to_grow: terms.tokens.1,
            guard: terms.guard.map(|(limit, for_s)| Guard { limit, for_s }),
            next: terms.next.map(|next| Step {
                rule: word(next.rule),
                to: next.to,
                in_s: next.wait,
            }),
        }
    }
}

const fn word(rule: Rule) -> &'static str {
    match rule {
        Rule::Same => "same",
        Rule::Cut => "cut",
        Rule::Grow => "grow",
        Rule::Pause => "pause",
        Rule::Critical => "critical",
        Rule::Foreseen => "foreseen",
        Rule::Resume => "resume",
        Rule::Probe => "probe",
        Rule::Blind => "blind",
        Rule::Seen => "seen",
        Rule::Guard => "guard",
        Rule::MaxLimit => "max-limit",
    }
}
