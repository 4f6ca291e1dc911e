//! The life of chunks and backfills, told as events: what the fold of `domain` must make of them.

use super::testing::{Night, failure};
use crate::domain::{
    event::{Actor, Event, Next, Outcome, Payload, Read, Verdict},
    failure::FailureClass,
    ids::ChunkId,
    state::{BackfillState, ChunkState, Phase},
};
use proptest::prelude::*;

fn state_of(night: &Night, day: u64) -> ChunkState {
    night.chunk(night.day(day)).state
}

#[test]
fn a_chunk_goes_from_pending_over_submitting_and_running_to_done() {
    let mut night = Night::new(1);
    let day = night.day(0);
    assert_eq!(state_of(&night, 0), ChunkState::Pending);
    night.intend(day);
    assert_eq!(state_of(&night, 0), ChunkState::Submitting);
    night.finish(day);
    assert_eq!(state_of(&night, 0), ChunkState::Done);
    assert_eq!(night.backfill().state(), BackfillState::Complete);
}

#[test]
fn a_withdrawn_intent_is_pending_again_and_its_number_is_not_used_again() {
    let mut night = Night::new(1);
    let day = night.day(0);
    night.intend(day);
    let attempt = night.attempt(day);
    night.ours(Payload::SubmissionWithdrawn {
        attempt,
        why: "paused".to_owned(),
    });
    assert_eq!(state_of(&night, 0), ChunkState::Pending);
    assert_eq!(night.chunk(day).next_no(), 2);
    assert_eq!(night.backfill().running_weight(), 0);
}

/// Case B14.
#[test]
fn three_permanent_failures_of_ten_leave_seven_done_and_the_backfill_incomplete() {
    let mut night = Night::new(10);
    for i in 0..10 {
        let day = night.day(i);
        night.start(day);
        if i % 4 == 0 {
            night.fail_with(
                day,
                failure(FailureClass::Data),
                Next::Quarantine {
                    why: "data".to_owned(),
                },
            );
        } else {
            night.finish(day);
        }
    }
    assert_eq!(night.backfill().count(ChunkState::Done), 7);
    assert_eq!(night.backfill().state(), BackfillState::Incomplete);
    night.human(Payload::RerunRequested {
        chunks: vec![night.day(0)],
        digest: String::new(),
    });
    assert_eq!(
        night.backfill().state(),
        BackfillState::Running,
        "a re-run reopens it"
    );
}

/// Case B16.
#[test]
fn a_cancelled_backfill_is_cancelling_until_its_last_attempt_ended() {
    let mut night = Night::new(4);
    night.start(night.day(0));
    night.start(night.day(1));
    night.human(Payload::CancelRequested {});
    assert_eq!(night.backfill().state(), BackfillState::Cancelling);
    assert!(night.decide().is_empty());
    assert!(
        night
            .backfill()
            .active()
            .all(|c| c.open().unwrap().stop_requested)
    );
    night.finish(night.day(0));
    assert_eq!(night.backfill().state(), BackfillState::Cancelling);
    let attempt = night.attempt(night.day(1));
    let outcome = crate::domain::event::Outcome::Cancelled;
    night.ours(Payload::RunEnded {
        attempt,
        outcome,
        started: None,
        ended: None,
        peak: None,
        note: None,
    });
    assert_eq!(night.backfill().state(), BackfillState::Cancelled);
}

/// Case B01: nothing of a cancelled order influences a later re-run of one of its days.
#[test]
fn a_day_of_a_cancelled_and_paused_backfill_can_be_re_run() {
    let mut night = Night::new(3);
    night.human(Payload::Paused { until: None });
    night.human(Payload::CancelRequested {});
    night.human(Payload::RerunRequested {
        chunks: vec![night.day(1)],
        digest: String::new(),
    });
    let intents = night.decide();
    assert_eq!(intents.len(), 1);
    assert_eq!(intents[0].attempt.chunk, night.day(1));
}

/// Case B32.
#[test]
fn what_a_human_cancelled_never_starts_by_itself() {
    let mut night = Night::new(3);
    night.human(Payload::CancelRequested {});
    night.now += chrono::Duration::days(30);
    assert!(night.decide().is_empty());
    assert!((0..3).all(|i| state_of(&night, i) == ChunkState::Cancelled));
}

/// Case B34: a human pause survives everything but a human.
#[test]
fn a_pause_stays_over_a_change_of_supervisor() {
    let mut night = Night::new(3);
    night.human(Payload::Paused { until: None });
    night.journal(Payload::LeaseTaken {
        epoch: 9,
        holder: "b pid 2".to_owned(),
        from: Some("a pid 1".to_owned()),
    });
    assert_eq!(night.backfill().state(), BackfillState::Paused);
    assert!(night.decide().is_empty());
}

/// Somebody else's pause is neither shortened nor taken over by one that ends sooner.
#[test]
fn a_pause_is_never_shortened_by_another() {
    let mut night = Night::new(3);
    let alice = Actor {
        name: "alice".to_owned(),
        origin: "os user".to_owned(),
    };
    night.event(alice.clone(), Payload::Paused { until: None });
    let soon = night.now + chrono::Duration::minutes(1);
    let seq = night.human(Payload::Paused { until: Some(soon) });
    assert_eq!(night.state.refusal(seq), None);
    let pause = night.backfill().pause.clone().unwrap();
    assert_eq!((pause.until, pause.mark.by), (None, alice));
    night.now = soon + chrono::Duration::minutes(1);
    assert!(night.decide().is_empty());
}

#[test]
fn a_pause_that_lasts_longer_takes_the_place_of_a_shorter_one() {
    let mut night = Night::new(3);
    let (soon, later) = (chrono::Duration::minutes(1), chrono::Duration::minutes(9));
    let until = night.now + soon;
    night.human(Payload::Paused { until: Some(until) });
    let until = Some(night.now + later);
    night.human(Payload::Paused { until });
    assert_eq!(night.backfill().pause.as_ref().unwrap().until, until);
    let since = night.backfill().pause.as_ref().unwrap().mark.at;
    night.human(Payload::Paused { until: None });
    let pause = night.backfill().pause.as_ref().unwrap();
    assert_eq!(
        (pause.until, pause.mark.at),
        (None, since),
        "the same person's, since the first"
    );
}

#[test]
fn an_illegal_command_changes_nothing_and_its_author_is_told_why() {
    let mut night = Night::new(2);
    let before = night.backfill().clone();
    let seq = night.human(Payload::Resumed {});
    assert_eq!(night.state.refusal(seq), Some("orders is not paused"));
    let seq = night.human(Payload::HoldReleased {
        chunks: vec![night.day(0)],
    });
    assert_eq!(
        night.state.refusal(seq),
        Some("2023-01-01 is pending: nothing to release")
    );
    let seq = night.human(Payload::Resolved {
        chunk: night.day(0),
        verdict: Verdict::Done,
    });
    assert_eq!(
        night.state.refusal(seq),
        Some("2023-01-01 is pending: only an uncertain chunk can be resolved")
    );
    assert_eq!(*night.backfill(), before);
}

#[test]
fn a_command_on_several_days_acts_where_it_can() {
    let mut night = Night::new(3);
    night.start(night.day(0));
    let seq = night.human(Payload::HoldPlaced {
        chunks: vec![night.day(0), night.day(1)],
    });
    assert_eq!(night.state.refusal(seq), None);
    assert_eq!(state_of(&night, 0), ChunkState::Running);
    assert_eq!(state_of(&night, 1), ChunkState::Held);
}

#[test]
fn an_uncertain_attempt_keeps_its_weight_until_a_human_or_the_executor_speaks() {
    let mut night = Night::new(2).max_limit(1);
    night.start(night.day(0));
    night.ours(Payload::RunUncertain {
        attempt: night.attempt(night.day(0)),
        why: "no answer".to_owned(),
    });
    assert_eq!(night.backfill().running_weight(), 1);
    assert!(night.decide().is_empty());
    night.human(Payload::Resolved {
        chunk: night.day(0),
        verdict: Verdict::Lost,
    });
    assert_eq!(state_of(&night, 0), ChunkState::Pending);
    assert_eq!(night.decide()[0].attempt.no, 2);
}

#[test]
fn late_news_about_an_old_attempt_changes_nothing() {
    let mut night = Night::new(1);
    let day = night.day(0);
    night.start(day);
    let old = night.attempt(day);
    let at = night.now;
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
    night.start(day);
    let outcome = crate::domain::event::Outcome::Done;
    night.ours(Payload::RunEnded {
        attempt: old,
        outcome,
        started: None,
        ended: None,
        peak: None,
        note: None,
    });
    assert_eq!(state_of(&night, 0), ChunkState::Running);
    assert_eq!(night.chunk(day).last().unwrap().phase, Phase::Running);
}

#[test]
fn an_event_from_the_future_makes_this_binary_an_observer() {
    let mut night = Night::new(2);
    let seq = night.state.head + 1;
    let payload = Read::Unknown {
        kind: "teleported".to_owned(),
        version: 1,
    };
    let actor = Actor::supervisor();
    night.state.apply(&Event {
        seq,
        at: night.now,
        actor,
        reason: None,
        backfill: None,
        payload,
    });
    assert!(night.decide().is_empty());
    assert_eq!(night.state.unreadable, Some((seq, "teleported".to_owned(), 1)));
}

#[test]
fn an_amended_range_keeps_history_and_adds_days() {
    let mut night = Night::new(3);
    night.start(night.day(0));
    night.finish(night.day(0));
    let mut spec = night.backfill().spec.clone();
    spec.start = night.day(1).date;
    spec.end = night.day(4).date;
    night.human(Payload::Amended {
        spec: Box::new(spec),
        hash: "h2".to_owned(),
    });
    let days: Vec<_> = night
        .backfill()
        .chunks
        .iter()
        .map(|c| (c.id.to_string(), c.state))
        .collect();
    assert_eq!(days.len(), 5);
    assert_eq!(days[0], ("2023-01-01".to_owned(), ChunkState::Done));
    assert_eq!(night.backfill().count(ChunkState::Pending), 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is appended in whatever order, counts and weights agree with the chunks, and the limit holds.
    #[test]
    fn counts_and_weights_always_agree_with_the_chunks(steps in prop::collection::vec((0u8..12, 0u64..6), 1..120)) {
        let mut night = Night::new(6).max_limit(2).slots(3);
        for (what, day) in steps {
            let id = night.day(day);
            let open = night.chunk(id).open().is_some();
            match what {
                0 => if let Some(intent) = night.decide().first() { night.start(intent.attempt.chunk) },
                1 if open => night.finish(id),
                2 if open => { let at = night.now; night.fail_with(id, failure(FailureClass::Other), Next::Retry { at, profile: 0, used: 1, budget: 2 }) },
                3 if open => night.fail_with(id, failure(FailureClass::Data), Next::Quarantine { why: "x".to_owned() }),
                4 => drop(night.human(Payload::HoldPlaced { chunks: vec![id] })),
                5 => drop(night.human(Payload::HoldReleased { chunks: vec![id] })),
                6 => drop(night.human(Payload::Skipped { chunks: vec![id] })),
                7 => drop(night.human(Payload::RerunRequested { chunks: vec![id], digest: String::new() })),
                8 => drop(night.human(Payload::Paused { until: None })),
                9 => drop(night.human(Payload::Resumed {})),
                10 => drop(night.human(Payload::CancelRequested {})),
                11 if open => drop(night.ours(Payload::RunUncertain { attempt: night.attempt(id), why: "x".to_owned() })),
                _ => {}
            }
            let b = night.backfill();
            for s in ChunkState::ALL {
                prop_assert_eq!(b.count(s) as usize, b.chunks.iter().filter(|c| c.state == s).count());
            }
            prop_assert!(b.running_weight() <= 2);
            prop_assert_eq!(b.chunks.iter().filter(|c| c.state.is_active()).count(), b.active().count());
            prop_assert!(b.chunks.iter().all(|c| c.state.is_active() == c.open().is_some()));
            if b.pause.is_some() { prop_assert!(night.decide().is_empty()); }
        }
    }
}

fn ended(night: &mut Night, day: ChunkId, outcome: Outcome) {
    let attempt = night.attempt(day);
    night.ours(Payload::RunEnded {
        attempt,
        outcome,
        started: None,
        ended: None,
        peak: None,
        note: None,
    });
}

fn brake(night: &mut Night, day: ChunkId) {
    let attempts = vec![night.attempt(day)];
    let why = "orders 30 s would reach 110 s".to_owned();
    night.ours(Payload::Braked { attempts, why });
}

#[test]
fn what_the_throttle_cancelled_waits_for_another_start_and_its_failures_are_not_counted() {
    let mut night = Night::new(3);
    let day = night.day(0);
    night.human(Payload::RerunRequested {
        chunks: vec![day],
        digest: String::new(),
    });
    night.start(day);
    brake(&mut night, day);
    assert!(night.chunk(day).open().unwrap().stop_requested);
    ended(&mut night, day, Outcome::Cancelled);
    let chunk = night.chunk(day);
    assert_eq!((chunk.state, chunk.next_no()), (ChunkState::Pending, 2));
    assert!(chunk.retry.is_none() && chunk.mark.is_none());
    assert_eq!(night.decide()[0].attempt, night.backfill().attempt_id(day, 2));
    night.start(day);
    assert!(
        !night.chunk(day).open().unwrap().stop_requested,
        "the next one is another"
    );
}

#[test]
fn what_ended_before_the_brake_reached_it_is_done() {
    let mut night = Night::new(3);
    let day = night.day(0);
    night.start(day);
    brake(&mut night, day);
    night.finish(day);
    assert_eq!(night.chunk(day).state, ChunkState::Done);
}

#[test]
fn a_humans_word_about_a_run_stays_above_the_throttles() {
    let mut night = Night::new(3);
    let (first, second) = (night.day(0), night.day(1));
    night.start(first);
    night.start(second);
    brake(&mut night, first);
    night.human(Payload::StopRequested { chunks: vec![first] });
    ended(&mut night, first, Outcome::Cancelled);
    assert_eq!(
        night.chunk(first).state,
        ChunkState::Cancelled,
        "stopped by a human since"
    );
    night.human(Payload::StopRequested { chunks: vec![second] });
    brake(&mut night, second);
    ended(&mut night, second, Outcome::Cancelled);
    assert_eq!(
        night.chunk(second).state,
        ChunkState::Cancelled,
        "stopped by a human before"
    );
}

#[test]
fn in_a_cancelled_order_what_the_throttle_braked_does_not_wait_again() {
    let mut night = Night::new(3);
    let day = night.day(0);
    night.start(day);
    brake(&mut night, day);
    night.human(Payload::CancelRequested {});
    ended(&mut night, day, Outcome::Cancelled);
    assert_eq!(night.chunk(day).state, ChunkState::Cancelled);
    assert_eq!(night.backfill().state(), BackfillState::Cancelled);
}
