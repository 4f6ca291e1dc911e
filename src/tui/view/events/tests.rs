//! Lines of the feed at their narrowest.

use super::*;
use crate::{
    domain::{
        event::{Actor, Force},
        failure::{Failure, FailureClass},
        ids::ExternalId,
    },
    plan::testing::Night,
    tui::{
        feeder::nothing_known, glyphs::GlyphSet, theme::Level, update::Machine, view::Hints,
        widgets::fit::columns,
    },
};
use chrono::TimeDelta;

fn payloads(night: &Night) -> Vec<Payload> {
    let (now, attempt) = (night.now, night.attempt(night.day(0)));
    let failure = Failure {
        class: FailureClass::Data,
        exit: None,
        message: "bad rows".to_owned(),
    };
    let ended = |outcome, minutes| Payload::RunEnded {
        attempt: attempt.clone(),
        outcome,
        started: Some(now - TimeDelta::minutes(minutes)),
        ended: Some(now),
        peak: None,
        note: None,
    };
    let accepted = |adopted, running| Payload::SubmissionAccepted {
        attempt: attempt.clone(),
        run: ExternalId("1".to_owned()),
        adopted,
        running,
    };
    let limit = |from, to, rule| Payload::LimitChanged {
        change: LimitChange {
            from,
            to,
            rule,
            signal: None,
            why: "because".to_owned(),
            checkpoint: String::new(),
        },
    };
    let next = |next| Outcome::Failed {
        failure: failure.clone(),
        next,
    };
    let why = "because".to_owned();
    let (one, many) = (
        vec![night.day(0)],
        (0..40).map(|i| night.day(i)).collect::<Vec<_>>(),
    );
    let digest = String::new();
    vec![
        accepted(true, true),
        accepted(false, true),
        accepted(false, false),
        ended(Outcome::Done, 0),
        ended(Outcome::Done, 59),
        ended(Outcome::Done, 250),
        ended(Outcome::Done, 50_000),
        ended(Outcome::Cancelled, 3),
        ended(next(Next::Stay), 3),
        ended(next(Next::Quarantine { why: why.clone() }), 3),
        Payload::RunUncertain {
            attempt: attempt.clone(),
            why: why.clone(),
        },
        Payload::SubmissionWithdrawn {
            attempt: attempt.clone(),
            why: why.clone(),
        },
        Payload::RunStarted { attempt },
        limit(4, 0, Rule::Pause),
        limit(4, 0, Rule::Critical),
        limit(16, 12, Rule::Cut),
        Payload::HoldPlaced { chunks: many.clone() },
        Payload::HoldReleased { chunks: one.clone() },
        Payload::Skipped { chunks: one.clone() },
        Payload::StopRequested { chunks: one.clone() },
        Payload::RerunRequested { chunks: many, digest },
        Payload::Paused { until: None },
        Payload::Paused { until: Some(now) },
        Payload::Resumed {},
        Payload::PauseApplied {
            in_flight: Vec::new(),
        },
        Payload::CapSet { cap: Some(16) },
        Payload::CapSet { cap: None },
        Payload::Forced {
            force: Some(Force {
                limit: 16,
                until: now,
            }),
        },
        Payload::Forced { force: None },
        Payload::CancelRequested {},
        Payload::LatchAcknowledged {},
        Payload::BreakerReset {},
        Payload::BreakerClosed {},
        Payload::StopSupervising {},
        Payload::ConfigReloaded { changes: Vec::new() },
        Payload::ConfigRejected { error: why },
    ]
}

/// At 80x24 a text has fourteen columns: a word that is cut there is a word that nobody can read.
#[test]
fn no_short_text_is_longer_than_its_place() {
    let mut night = Night::new(60);
    night.start(night.day(0));
    let mut feed = nothing_known(night.now);
    feed.state = std::sync::Arc::new(night.state.clone());
    let mut app = Machine::new(None, None).app;
    app.backfill = Some(night.id());
    let look = Look::new("dark", Level::True, GlyphSet::Full).unwrap();
    let hints = Hints::default();
    let scene = Scene::new(&feed, &app, &look, &hints, night.now);
    for payload in payloads(&night) {
        let event = Event {
            seq: 1,
            at: night.now,
            actor: Actor::supervisor(),
            reason: None,
            backfill: Some(night.id()),
            payload: Read::Known(payload),
        };
        let line = told(&event, &scene).unwrap();
        assert!(columns(&line.short) <= SHORT, "{}: {}", line.short, line.text);
    }
}
