//! What starts when, told as nights.

use super::*;
use crate::domain::failure::FailureClass;
use crate::{
    domain::event::{Force, Next, Payload},
    plan::testing::{Night, failure},
};

fn days(intents: &[Intent]) -> Vec<String> {
    intents.iter().map(|i| i.attempt.chunk.to_string()).collect()
}

#[test]
fn no_more_starts_than_the_limit_and_the_slots_allow() {
    let night = Night::new(10).max_limit(3).slots(2);
    assert_eq!(days(&night.decide()), ["2023-01-01", "2023-01-02"]);
    let night = Night::new(10).max_limit(3).slots(8);
    assert_eq!(night.decide().len(), 3);
    let night = Night::new(10).max_limit(7).without_slots();
    assert_eq!(night.decide().len(), 7);
}

/// Case B09: the next one starts as soon as one ends, whatever a straggler does.
#[test]
fn a_slot_refills_as_soon_as_its_attempt_ends() {
    let mut night = Night::new(10).max_limit(3);
    for i in 0..3 {
        night.start(night.day(i));
    }
    assert!(night.decide().is_empty());
    night.finish(night.day(1));
    assert_eq!(days(&night.decide()), ["2023-01-04"]);
}

/// Case B20.
#[test]
fn at_limit_one_the_order_of_starts_is_the_order_of_the_plan() {
    let custom = Order::Custom(vec!["2023-01-03".parse().unwrap(), "2023-01-01".parse().unwrap()]);
    for (order, expected) in [
        (
            Order::OldestFirst,
            ["2023-01-01", "2023-01-02", "2023-01-03", "2023-01-04"],
        ),
        (
            Order::NewestFirst,
            ["2023-01-04", "2023-01-03", "2023-01-02", "2023-01-01"],
        ),
        (custom, ["2023-01-03", "2023-01-01", "2023-01-02", "2023-01-04"]),
    ] {
        let mut night = Night::new(4).max_limit(1).order(order);
        let mut started = Vec::new();
        while let Some(intent) = night.decide().first().cloned() {
            started.push(intent.attempt.chunk.to_string());
            night.start(intent.attempt.chunk);
            assert!(night.decide().is_empty(), "limit 1 runs one at a time");
            night.finish(intent.attempt.chunk);
        }
        assert_eq!(started, expected);
    }
}

/// Case B20: a human re-run is the next start, but waits for a slot.
#[test]
fn a_human_rerun_goes_to_the_front_inside_the_same_limit() {
    let mut night = Night::new(5).max_limit(1);
    night.start(night.day(0));
    night.finish(night.day(0));
    night.start(night.day(1));
    night.human(Payload::RerunRequested {
        chunks: vec![night.day(0)],
        digest: String::new(),
    });
    assert!(night.decide().is_empty());
    night.finish(night.day(1));
    assert_eq!(days(&night.decide()), ["2023-01-01"]);
    assert_eq!(night.decide()[0].attempt.no, 2);
}

/// Case B30: a lower cap starts nothing until the running weight is below it, and stops nothing.
#[test]
fn a_cap_below_what_runs_drains() {
    let mut night = Night::new(20).max_limit(8).slots(20);
    for intent in night.decide() {
        night.start(intent.attempt.chunk);
    }
    night.human(Payload::CapSet { cap: Some(3) });
    for i in 0..5 {
        assert!(night.decide().is_empty());
        night.finish(night.day(i));
    }
    assert!(night.decide().is_empty());
    night.finish(night.day(5));
    assert_eq!(night.decide().len(), 1);
}

/// Case B30: raising within the drain cancels nothing, and fills only what is free; also under what the learned law admits.
#[test]
fn raising_a_cap_within_the_drain_stops_nothing() {
    for learned in [false, true] {
        let mut night = Night::new(20).max_limit(8).slots(20);
        if learned {
            night = night.admits(admission(8, false, 0));
        }
        for intent in night.decide() {
            night.start(intent.attempt.chunk);
        }
        assert_eq!(night.backfill().running_weight(), 8);
        night.human(Payload::CapSet { cap: Some(3) });
        for i in 0..2 {
            night.finish(night.day(i));
        }
        assert!(night.decide().is_empty(), "6 of 3");
        night.human(Payload::CapSet { cap: Some(5) });
        assert!(night.decide().is_empty(), "6 of 5");
        night.human(Payload::CapSet { cap: Some(7) });
        assert_eq!(night.decide().len(), 1, "6 of 7");
        night.human(Payload::CapSet { cap: None });
        assert_eq!(night.decide().len(), 2, "6 of 8");
        let mut running = night.backfill().active();
        assert!(
            running.all(|c| !c.open().unwrap().stop_requested),
            "none was stopped"
        );
        assert_eq!(night.backfill().running_weight(), 6);
    }
}

/// Case B27: past critical is said first, also while a human holds; nothing of what runs is stopped.
#[test]
fn critical_while_a_human_holds_is_critical_and_stops_no_run() {
    let mut night = Night::new(20).max_limit(8).slots(20);
    for intent in night.decide() {
        night.start(intent.attempt.chunk);
    }
    night.human(Payload::Paused { until: None });
    let stop = |night: &Night| stop_of(&night.state, night.backfill(), &night.around());
    assert_eq!(stop(&night), Some(Stop::Paused));
    night.limit_by(0, Rule::Critical);
    assert_eq!(stop(&night), Some(Stop::Critical));
    assert!(night.decide().is_empty());
    assert!(
        night
            .backfill()
            .active()
            .all(|c| !c.open().unwrap().stop_requested)
    );
    assert_eq!(night.backfill().running_weight(), 8);
    night.human(Payload::Resumed {});
    assert_eq!(
        stop(&night),
        Some(Stop::Critical),
        "a human's word does not end it"
    );
    night.limit_by(0, Rule::Pause);
    night.human(Payload::Paused { until: None });
    assert_eq!(
        stop(&night),
        Some(Stop::Paused),
        "the human's pause is still there"
    );
}

#[test]
fn a_pause_a_stop_on_failure_and_an_open_breaker_start_nothing() {
    let mut night = Night::new(5);
    night.human(Payload::Paused { until: None });
    assert!(night.decide().is_empty());
    night.human(Payload::Resumed {});
    assert!(!night.decide().is_empty());
    let retry_at = night.now + chrono::Duration::minutes(10);
    night.ours(Payload::BreakerOpened {
        why: "x".to_owned(),
        retry_at,
    });
    assert!(night.decide().is_empty());
    night.now = retry_at;
    assert_eq!(night.decide().len(), 1, "one canary");
    night.start(night.day(0));
    assert!(night.decide().is_empty(), "and no second one while it runs");
}

#[test]
fn a_retry_starts_when_it_is_due_and_not_before() {
    let mut night = Night::new(1);
    let day = night.day(0);
    night.start(day);
    let at = night.now + chrono::Duration::seconds(30);
    night.fail_with(
        day,
        failure(FailureClass::Other),
        Next::Retry {
            at,
            profile: 0,
            used: 1,
            budget: 2,
        },
    );
    assert!(night.decide().is_empty());
    night.now = at;
    assert_eq!(night.decide()[0].attempt.no, 2);
}

#[test]
fn isolated_days_run_one_at_a_time_and_do_not_block_the_others() {
    let mut night = Night::new(6).max_limit(8).slots(8).isolate(&[0, 1]);
    let first = night.decide();
    assert_eq!(days(&first)[0], "2023-01-01");
    assert_eq!(first[0].weight, 4);
    assert!(!days(&first).contains(&"2023-01-02".to_owned()));
    assert_eq!(first.len(), 5, "4 + 1 + 1 + 1 + 1 = 8");
    for intent in first {
        night.start(intent.attempt.chunk);
    }
    night.finish(night.day(0));
    assert_eq!(days(&night.decide()), ["2023-01-02"]);
}

#[test]
fn a_chunk_heavier_than_the_limit_starts_alone() {
    let mut night = Night::new(3).max_limit(8).isolate(&[1]);
    night.limit_to(2);
    night.start(night.day(0));
    assert!(
        night.decide().is_empty(),
        "the heavy one is waited for, not passed over"
    );
    night.finish(night.day(0));
    assert_eq!(days(&night.decide()), ["2023-01-02"]);
}

#[test]
fn a_force_never_lifts_what_a_signal_stopped_and_ends_at_its_expiry() {
    let mut night = Night::new(20).max_limit(10).slots(20);
    night.limit_to(4);
    let until = night.now + chrono::Duration::minutes(30);
    night.human(Payload::Forced {
        force: Some(Force { limit: 12, until }),
    });
    assert_eq!(allowed(night.backfill(), night.now).limit, 10);
    night.limit_to(0);
    assert_eq!(allowed(night.backfill(), night.now).limit, 0);
    night.limit_to(4);
    assert_eq!(allowed(night.backfill(), until).limit, 4);
}

#[test]
fn two_backfills_share_the_slots_in_turn() {
    let night = Night::new(5).slots(4).second_backfill();
    let intents = night.decide();
    let names: Vec<_> = intents
        .iter()
        .map(|i| i.attempt.backfill.name().to_owned())
        .collect();
    assert_eq!(names, ["orders", "second", "orders", "second"]);
}

/// Case B31: after a resume starts keep their gap.
#[test]
fn paced_starts_come_one_per_gap() {
    let mut night = Night::new(5).paced();
    assert_eq!(night.decide().len(), 1);
    night.start(night.day(0));
    night.now += chrono::Duration::seconds(9);
    assert!(night.decide().is_empty());
    night.now += chrono::Duration::seconds(1);
    assert_eq!(night.decide().len(), 1);
}
fn admission(up_to: u32, one_more: bool, heavy: u32) -> Admission {
    Admission {
        up_to,
        one_more,
        one_more_in: None,
        first: true,
        heavy,
    }
}

#[test]
fn under_the_limit_no_more_starts_than_the_learned_law_admits() {
    let starts = |limit, admission| {
        let night = Night::new(10).max_limit(limit).admits(admission);
        night.decide().len()
    };
    assert_eq!(starts(8, admission(3, false, 0)), 3);
    assert_eq!(
        starts(8, admission(3, true, 0)),
        4,
        "one past the room, and no second one"
    );
    assert_eq!(
        starts(8, admission(0, false, 0)),
        1,
        "else nothing would ever be measured"
    );
    assert_eq!(starts(2, admission(9, true, 0)), 2);
}

#[test]
fn a_heavy_chunk_is_passed_over_until_lag_is_low_enough_for_it() {
    let night = || Night::new(4).max_limit(8).isolate(&[0]);
    let mut running = night().admits(admission(8, false, 0));
    running.start(running.day(1));
    assert_eq!(days(&running.decide()), ["2023-01-03", "2023-01-04"]);
    let mut running = night().admits(admission(8, false, 4));
    running.start(running.day(1));
    assert_eq!(
        days(&running.decide()),
        ["2023-01-01", "2023-01-03", "2023-01-04"]
    );
}

#[test]
fn who_forces_the_limit_forces_the_starts_with_it() {
    let mut night = Night::new(10)
        .max_limit(8)
        .without_slots()
        .admits(admission(1, false, 0));
    night.limit_to(2);
    assert_eq!(night.decide().len(), 1);
    let until = night.now + chrono::Duration::minutes(30);
    night.human(Payload::Forced {
        force: Some(Force { limit: 5, until }),
    });
    assert_eq!(night.decide().len(), 5);
}

/// From the first moment on, not only when blindness has lowered the limit.
#[test]
fn a_force_raises_nothing_while_a_signal_of_the_backfill_is_blind() {
    let mut night = Night::new(10).max_limit(8).signals(&["lag"]);
    night.limit_to(2);
    let force = Force {
        limit: 6,
        until: night.now + chrono::TimeDelta::hours(1),
    };
    night.human(Payload::Forced { force: Some(force) });
    let limit = |night: &Night| allowed(night.backfill(), night.now).limit;
    assert_eq!(limit(&night), 6);
    let blind = |signal: &str| Payload::BlindSince {
        signal: signal.parse().unwrap(),
        last: None,
        why: "empty result".to_owned(),
    };
    night.journal(blind("other"));
    assert_eq!(limit(&night), 6, "it does not protect this one");
    night.journal(blind("lag"));
    assert_eq!(limit(&night), 2);
    let signal: Name = "lag".parse().unwrap();
    night.journal(Payload::SeenAgain {
        signal: signal.clone(),
    });
    assert_eq!(limit(&night), 6);
    night.journal(blind("lag"));
    night.journal(Payload::SignalGone { signal });
    assert_eq!(
        limit(&night),
        6,
        "a signal that is gone holds nothing back (case B25)"
    );
}

/// A file that somebody saved in half, or a signal with another name: what it last said counts no more (case B25), and
/// that nobody looks any more starts nothing either.
#[test]
fn an_order_whose_protection_left_the_configuration_starts_nothing_until_it_is_amended() {
    let night = Night::new(10).max_limit(8).signals(&["lag", "advice"]);
    let stop = |known: Option<&[(&str, bool)]>| {
        let mut around = night.around();
        around.signals = known.map(|all| all.iter().map(|(n, p)| (n.parse().unwrap(), *p)).collect());
        stops(&night.state, night.backfill(), &around).any(|stop| stop == Stop::Unprotected)
    };
    assert!(!stop(Some(&[("lag", true), ("advice", false)])));
    assert!(!stop(Some(&[("lag", true)])), "what protects is there");
    assert!(stop(Some(&[("advice", false)])), "what advises protects nothing");
    assert!(stop(Some(&[])) && stop(Some(&[("consumers", true)])));
    assert!(!stop(None), "of half a file nothing is known");
    let advised = Night::new(10).signals(&["advice"]);
    let mut around = advised.around();
    around.signals = Some([("advice".parse().unwrap(), false)].into());
    assert!(
        !stops(&advised.state, advised.backfill(), &around).any(|stop| stop == Stop::Unprotected),
        "it was started so"
    );
}
