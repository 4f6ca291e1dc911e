//! Lines of the feed at their narrowest.

use super::*;
use crate::{
    domain::{
        attach::{Action, Asked, Reprocess, RunChange, Taking},
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
        Payload::Detached {},
    ]
}

/// What is done with an engine's own levers; the night has asked for the action that is event 99.
fn levers(night: &Night, action: Action) -> Vec<Payload> {
    let said = "200 native backfill 12 is paused".to_owned();
    let run = ExternalId("scheduled__2023-01-01T00:00:00+00:00".to_owned());
    let change = |i: u64, from: Option<&str>, to: Option<&str>| RunChange {
        chunk: night.day(i),
        run: run.clone(),
        from: from.map(str::to_owned),
        to: to.map(str::to_owned),
    };
    let (attempt, pool) = (night.attempt(night.day(0)), "backfill_pool".to_owned());
    let mut all = vec![
        Payload::ActionRequested {
            action,
            digest: String::new(),
            native: None,
        },
        Payload::ActionSent {
            ask: 99,
            step: 0,
            sent: "PUT /backfills/12/pause".to_owned(),
            call: String::new(),
        },
        Payload::PoolTaken {
            pool: pool.clone(),
            former: 128,
        },
        Payload::PoolReturned {
            pool,
            slots: -1,
            why: "given back".to_owned(),
        },
        Payload::DateTaken {
            attempt,
            run: run.clone(),
            what: "the scheduled run x (success)".to_owned(),
        },
        Payload::RunsChanged {
            changes: vec![change(0, Some("queued"), Some("running"))],
        },
        Payload::RunsChanged {
            changes: vec![change(0, None, Some("up_for_reschedule"))],
        },
        Payload::RunsChanged {
            changes: (0..40)
                .map(|i| change(i, Some("running"), Some("success")))
                .collect(),
        },
    ];
    for ok in [true, false] {
        let (ask, said) = (99, said.clone());
        all.push(Payload::ActionEnded {
            ask,
            ok,
            said: said.clone(),
        });
        all.push(Payload::ActionAnswered {
            ask,
            step: 0,
            ok,
            said,
        });
    }
    for how in [Taking::Adopt, Taking::Clear] {
        let (chunk, run, digest) = (night.day(0), run.clone(), String::new());
        all.push(Payload::TakeRequested {
            chunk,
            run,
            how,
            digest,
        });
    }
    all
}

fn actions(night: &Night) -> Vec<Action> {
    let chunks: Vec<ChunkId> = (0..40).map(|i| night.day(i)).collect();
    vec![
        Action::Pause { whole_dag: false },
        Action::Pause { whole_dag: true },
        Action::Resume { whole_dag: false },
        Action::Resume { whole_dag: true },
        Action::Slots {
            pool: "backfill_pool".to_owned(),
            slots: 4,
        },
        Action::Replace { limit: 3 },
        Action::Cancel { running: true },
        Action::Rerun {
            chunks: chunks.clone(),
            failed_only: true,
        },
        Action::Stop {
            chunks: chunks.clone(),
        },
        Action::Mark { chunks, done: true },
        Action::Create {
            first: night.day(0),
            last: night.day(3),
            limit: 2,
            reprocess: Reprocess::Failed,
            newest_first: false,
        },
    ]
}

/// A line of the feed about an event of the night.
fn line_of(night: &Night, payload: Payload) -> Line {
    let mut feed = nothing_known(night.now);
    feed.state = std::sync::Arc::new(night.state.clone());
    let mut app = Machine::new(None, None).app;
    app.backfill = Some(night.id());
    let look = Look::new("dark", Level::True, GlyphSet::Full).unwrap();
    let hints = Hints::default();
    let scene = Scene::new(&feed, &app, &look, &hints, night.now);
    let event = Event {
        seq: 1,
        at: night.now,
        actor: Actor::supervisor(),
        reason: None,
        backfill: Some(night.id()),
        payload: Read::Known(payload),
    };
    told(&event, &scene).unwrap()
}

/// A night that asked for an action as event 99.
fn asked(night: &mut Night, action: Action) {
    let mut state = night.state.clone();
    let backfill = state.backfills.get_mut(&night.id()).unwrap();
    backfill.asked = [Asked {
        seq: 99,
        action,
        native: None,
        mark: backfill.started.clone(),
        steps: Vec::new(),
        ended: None,
    }]
    .into();
    night.state = state;
}

#[test]
fn every_action_is_told_in_its_own_words_and_fits_its_place() {
    let mut night = Night::new(60);
    night.start(night.day(0));
    for action in actions(&night) {
        let words = action.words();
        asked(&mut night, action.clone());
        for payload in levers(&night, action) {
            let about_it = matches!(
                payload,
                Payload::ActionRequested { .. }
                    | Payload::ActionSent { .. }
                    | Payload::ActionAnswered { .. }
                    | Payload::ActionEnded { .. }
            );
            let kind = payload.kind().0;
            let line = line_of(&night, payload);
            assert!(columns(&line.short) <= SHORT, "{}: {}", line.short, line.text);
            assert_ne!(line.text, kind, "it is told, not named");
            assert!(!about_it || line.text.contains(&words), "{}", line.text);
        }
    }
}

#[test]
fn changes_of_runs_are_told_one_by_one_or_counted_by_their_new_word() {
    let night = Night::new(60);
    let change = |i: u64, to: Option<&str>| RunChange {
        chunk: night.day(i),
        run: ExternalId("x".to_owned()),
        from: Some("running".to_owned()),
        to: to.map(str::to_owned),
    };
    let line = |changes| line_of(&night, Payload::RunsChanged { changes });
    let one = line(vec![change(0, Some("failed"))]);
    assert_eq!(one.text, "2023-01-01 failed, was running");
    assert!(one.changed, "a failure is not a quiet line");
    let gone = line(vec![change(0, None)]);
    assert_eq!(gone.text, "2023-01-01 gone, was running");
    let many = line(vec![
        change(0, Some("success")),
        change(1, Some("failed")),
        change(2, Some("success")),
    ]);
    assert_eq!(many.text, "3 runs changed: 2 success, 1 failed");
    assert!(!line(vec![change(0, Some("success"))]).changed);
}

/// At 80x24 a text has fourteen columns: a word that is cut there is a word that nobody can read.
#[test]
fn no_short_text_is_longer_than_its_place() {
    let mut night = Night::new(60);
    night.start(night.day(0));
    for payload in payloads(&night) {
        let line = line_of(&night, payload);
        assert!(columns(&line.short) <= SHORT, "{}: {}", line.short, line.text);
    }
}
