use super::*;
use crate::{
    domain::{
        event::{Next, Payload},
        failure::FailureClass,
    },
    plan::testing::{Night, failure},
};

fn reason(night: &Night, day: u64) -> String {
    let why = why(&night.state, night.backfill(), night.day(day), &night.around()).unwrap();
    format!("{}: {}", why.reason, why.text)
}

#[test]
fn the_first_reason_in_the_order_of_authority_is_the_one_that_is_told() {
    let mut night = Night::new(5).max_limit(1);
    assert_eq!(reason(&night, 0), "order: next in order");
    night.start(night.day(0));
    assert_eq!(
        reason(&night, 2),
        "limit: 1 running of limit 1; 1 before it in order"
    );
    night.limit_to(0);
    assert_eq!(reason(&night, 2), "signal: because");
    night.human(Payload::Paused { until: None });
    assert_eq!(reason(&night, 2), "paused: paused by minh");
    let retry_at = night.now + chrono::Duration::minutes(2);
    night.ours(Payload::BreakerOpened {
        why: "5 chunks in a row failed alike: boom".to_owned(),
        retry_at,
    });
    assert_eq!(
        reason(&night, 2),
        "breaker: 5 chunks in a row failed alike: boom; one canary in 2m"
    );
}

#[test]
fn a_failed_day_says_what_failed_and_when_it_is_tried_again() {
    let mut night = Night::new(2);
    let day = night.day(0);
    night.start(day);
    let at = night.now + chrono::Duration::seconds(130);
    night.fail_with(
        day,
        failure(FailureClass::Platform),
        Next::Retry {
            at,
            profile: 0,
            used: 3,
            budget: 10,
        },
    );
    assert_eq!(
        reason(&night, 0),
        "retry: platform exit 1: boom, retry 3/10 in 2m10s"
    );
    night.now = at;
    assert_eq!(
        reason(&night, 0),
        "order: platform exit 1: boom, retry 3/10 is due; next in order"
    );
}

#[test]
fn a_backfill_with_a_signal_waits_for_its_first_samples_and_says_what_is_wrong_with_it() {
    let mut night = Night::new(2).signals(&["orders"]);
    assert_eq!(reason(&night, 0), "blind: waits for two valid samples of orders");
    let payload = Payload::BlindSince {
        signal: "orders".parse().unwrap(),
        last: None,
        why: "empty result".to_owned(),
    };
    night.journal(payload);
    assert_eq!(
        reason(&night, 0),
        "blind: no valid sample of orders yet: empty result"
    );
    assert!(night.decide().is_empty());
}

#[test]
fn every_state_of_a_chunk_has_an_answer() {
    let mut night = Night::new(6).max_limit(6).slots(6);
    night.start(night.day(0));
    night.finish(night.day(0));
    night.start(night.day(1));
    night.human(Payload::HoldPlaced {
        chunks: vec![night.day(2)],
    });
    night.human(Payload::Skipped {
        chunks: vec![night.day(3)],
    });
    night.start(night.day(4));
    night.ours(Payload::RunUncertain {
        attempt: night.attempt(night.day(4)),
        why: "no answer".to_owned(),
    });
    assert_eq!(reason(&night, 0), "done: done in 0s by attempt 1");
    assert_eq!(reason(&night, 1), "running: attempt 1 runs on here for 0s");
    assert_eq!(reason(&night, 2), "hold: held by minh");
    assert_eq!(reason(&night, 3), "skipped: skipped by minh");
    assert_eq!(reason(&night, 4), "uncertain: no answer; its slot stays taken");
}

#[test]
fn without_a_supervisor_nothing_starts_and_that_is_said() {
    let night = Night::new(1);
    let mut around = night.around();
    around.supervised = false;
    let why = why(&night.state, night.backfill(), night.day(0), &around).unwrap();
    assert_eq!(why.reason, "unsupervised");
    assert!(decide::decide(&night.state, &around).is_empty());
}

#[test]
fn without_a_supervisor_an_open_breaker_is_told_and_no_key_promises_a_run() {
    let mut night = Night::new(3);
    let day = night.day(0);
    night.start(day);
    let at = night.now + chrono::Duration::minutes(5);
    night.fail_with(
        day,
        failure(FailureClass::Platform),
        Next::Retry {
            at,
            profile: 0,
            used: 1,
            budget: 10,
        },
    );
    let says = |night: &Night, supervised: bool| {
        let mut around = night.around();
        around.supervised = supervised;
        why(&night.state, night.backfill(), day, &around).unwrap()
    };
    assert_eq!(says(&night, true).unblock, "r runs it now");
    assert_eq!(says(&night, false).reason, "unsupervised");
    assert_eq!(says(&night, false).unblock, "S, or backfill run orders");
    night.ours(Payload::BreakerOpened {
        why: "5 chunks in a row failed alike: boom".to_owned(),
        retry_at: night.now + chrono::Duration::minutes(10),
    });
    let alone = says(&night, false);
    assert_eq!(
        alone.text,
        "platform exit 1: boom, retry 1/10 in 5m; nobody supervises, so nothing starts; and even then: \
         5 chunks in a row failed alike: boom; one canary in 10m"
    );
    assert_eq!(
        alone.unblock,
        "S, or backfill run orders; then: mend the cause, then : close-breaker, or backfill close-breaker orders"
    );
    assert_eq!(says(&night, true).reason, "breaker");
}

#[test]
fn an_incomplete_order_names_the_command_for_what_it_waits_for() {
    let mut night = Night::new(4).max_limit(4).slots(4);
    let says = |night: &Night| stop(&night.state, night.backfill(), &night.around()).unwrap();
    for day in [0, 1] {
        night.start(night.day(day));
        night.finish(night.day(day));
    }
    night.human(Payload::HoldPlaced {
        chunks: vec![night.day(2), night.day(3)],
    });
    let held = says(&night);
    assert_eq!(held.text, "nothing can move without you: 2 held");
    assert_eq!(
        held.unblock,
        "release: b, or backfill release orders 2023-01-03..2023-01-04"
    );
    night.human(Payload::HoldReleased {
        chunks: vec![night.day(2)],
    });
    night.start(night.day(2));
    night.fail_with(
        night.day(2),
        failure(FailureClass::Data),
        Next::Quarantine {
            why: "data".to_owned(),
        },
    );
    assert_eq!(
        says(&night).unblock,
        "release: b, or backfill release orders 2023-01-04; mend the cause, then backfill rerun orders 2023-01-03 \
         --failed, or skip"
    );
}
