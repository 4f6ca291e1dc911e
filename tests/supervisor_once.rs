//! Once and only once (issue 2, proof 2; cases B03, B04): whatever dies at whatever moment, every chunk ends Done and
//! no attempt runs twice.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::supervisor::kill_point as points;
use std::fs;
use support::{Setup, moment, seeded};

/// Case B04.
#[test]
fn a_supervisor_killed_five_times_at_random_moments_starts_no_attempt_twice_and_finishes() {
    let workspace = Setup::new(200, 4).open();
    let mut rng = seeded(1);
    let mut run = workspace.run("orders");
    for death in 1..=5 {
        workspace.wait("some progress", || {
            (workspace.done("orders") >= death * 30).then_some(())
        });
        std::thread::sleep(moment(&mut rng, 0, 60));
        run.kill();
        run = workspace.run("orders");
    }
    assert_eq!(run.end(), 0, "{}", workspace.told());
    assert_eq!(workspace.done("orders"), 200);
    workspace.assert_once_only();

    let mut days: Vec<String> = workspace
        .started()
        .iter()
        .map(|a| a.split('/').nth(1).unwrap().to_owned())
        .collect();
    days.sort();
    days.dedup();
    assert_eq!(days.len(), 200, "every day ran");
    assert_eq!(workspace.epochs(), [1, 2, 3, 4, 5, 6]);
    let events = workspace.call(&["events", "orders"]).ok().out;
    assert_eq!(events.matches(" took over from epoch ").count(), 5, "{events}");
}

/// The supervisor dies once at the place, at its first passing and again in the middle, and is started again at once.
fn killed_supervisor(place: &str, salt: u64) {
    let workspace = Setup::new(24, 3).open();
    let permission = workspace.path("may-die");
    let start = || {
        workspace.run_with("orders", |c| {
            c.env("BACKFILL_TESTING", "1")
                .env("BACKFILL_KILL_AT", format!("{place}@{}", permission.display()));
        })
    };
    let mut rng = seeded(salt);
    let killed = |mut run: support::Running| {
        workspace.wait("the death at its place", || run.has_ended());
        assert!(run.was_killed(), "{place}: {}", workspace.told());
    };
    fs::write(&permission, "").unwrap();
    killed(start());
    let second = start();
    workspace.wait("some progress", || (workspace.done("orders") >= 4).then_some(()));
    std::thread::sleep(moment(&mut rng, 0, 50));
    fs::write(&permission, "").unwrap();
    killed(second);
    assert_eq!(start().end(), 0, "{place}: {}", workspace.told());
    assert_eq!(workspace.done("orders"), 24, "{place}");
    workspace.assert_once_only();
}

/// Case B04.
#[test]
fn a_supervisor_that_dies_before_its_intents_are_durable_loses_nothing() {
    killed_supervisor(points::BEFORE_INTENTS, 10);
}

/// Case B04.
#[test]
fn a_supervisor_that_dies_between_intent_and_effect_sends_the_same_attempts_later() {
    killed_supervisor(points::INTENTS_APPENDED, 11);
}

/// Case B04.
#[test]
fn a_supervisor_that_dies_with_the_gate_passed_sends_the_same_attempts_later() {
    killed_supervisor(points::GATE_PASSED, 12);
}

/// Case B04.
#[test]
fn a_supervisor_that_dies_with_an_answer_in_its_hands_asks_what_became_of_it() {
    killed_supervisor(points::ANSWERED, 13);
}

/// Case B04.
#[test]
fn a_supervisor_that_dies_after_an_answer_was_stored_does_not_send_again() {
    killed_supervisor(points::ANSWER_APPENDED, 14);
}
