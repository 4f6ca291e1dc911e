//! Commands as sentences: what only reduces work is sent at once, and what comes of it is told.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod tui_update_desk;

use backfill::{
    domain::{event::Payload, ids::ChunkId},
    tui::{
        effect::Effect,
        model::{Ask, Layer, LeaseView},
        msg::{Answer, Msg},
    },
};
use rstest::rstest;
use std::time::Duration;
use tui_update_desk::{Desk, day, op};

#[test]
fn pause_is_sent_at_once_and_the_reason_follows() {
    let mut desk = Desk::new();
    let effects = desk.keys("p");
    let pause = Effect::Command {
        op: op(&effects),
        backfill: Some(desk.id.clone()),
        payload: Payload::Paused { until: None },
        reason: None,
    };
    assert_eq!(effects, [pause]);
    assert_eq!(desk.said(), "pause of orders: sent");
    desk.hold_down("p");
    assert_eq!(
        desk.machine.app.layers,
        [Layer::Reason(String::new())],
        "the key held down is not text"
    );
    desk.look();
    desk.text("lag after deploy");
    let effects = desk.fast("enter");
    assert!(
        matches!(&effects[..], [Effect::Command { payload: Payload::Paused { until: None }, reason: Some(r), .. }]
            if r == "lag after deploy"),
        "{effects:?}"
    );
}

/// `p` is struck by somebody in a hurry: as often as it is struck it pauses once, types nothing and resumes nothing.
#[test]
fn p_again_at_the_empty_reason_line_types_nothing_and_sends_nothing() {
    let mut desk = Desk::new();
    desk.keys("p");
    assert_eq!(desk.keys("p p p"), []);
    assert_eq!(desk.machine.app.layers, [Layer::Reason(String::new())]);
    assert_eq!(
        desk.said(),
        "the pause is sent already; esc, then p, plans to resume"
    );
    desk.wait(2000).text("lag after deploy");
    assert_eq!(
        desk.machine.app.layers,
        [Layer::Reason("lag after deploy".to_owned())],
        "the keys before are not part of the reason"
    );
    assert_eq!(desk.keys("enter").len(), 1);
    let mut desk = Desk::new();
    desk.keys("p p");
    assert_eq!(desk.keys("enter"), [], "nothing was typed, so there is no reason");
    assert!(desk.machine.app.layers.is_empty());
}

#[test]
fn a_reason_may_begin_with_a_p() {
    let mut desk = Desk::new();
    desk.keys("p");
    desk.look();
    desk.text("postgres is full, pages come");
    assert_eq!(
        desk.machine.app.layers,
        [Layer::Reason("postgres is full, pages come".to_owned())]
    );
}

#[test]
fn esc_leaves_the_reason_out_and_the_pause_stands() {
    let mut desk = Desk::new();
    desk.keys("p");
    assert_eq!(desk.keys("esc"), []);
    assert!(desk.machine.app.layers.is_empty());
}

#[test]
fn a_reason_is_not_written_over_a_resume_of_somebody_else() {
    let mut desk = Desk::new();
    let effects = desk.keys("p");
    let seq = desk.memory.happen(
        true,
        Some(&desk.id.clone()),
        Payload::Paused { until: None },
        None,
    );
    desk.answer(op(&effects), Answer::Accepted { seq });
    desk.refresh();
    desk.happens(Payload::Resumed {});
    desk.text("why");
    assert_eq!(desk.fast("enter"), []);
    assert!(desk.said().contains("resumed it meanwhile"), "{}", desk.said());
}

/// Somebody resumed from another place while the line for the reason stood open: `p` is a pause again, not a letter.
#[test]
fn p_pauses_again_when_the_pause_was_ended_elsewhere_behind_its_reason() {
    let mut desk = Desk::new();
    let effects = desk.keys("p");
    let id = desk.id.clone();
    let seq = desk
        .memory
        .happen(true, Some(&id), Payload::Paused { until: None }, None);
    desk.answer(op(&effects), Answer::Accepted { seq });
    desk.refresh();
    desk.happens(Payload::Resumed {});
    desk.wait(2000);
    let effects = desk.keys("p");
    let pause = Effect::Command {
        op: op(&effects),
        backfill: Some(id),
        payload: Payload::Paused { until: None },
        reason: None,
    };
    assert_eq!(effects, [pause]);
    assert_eq!(desk.machine.app.layers, [Layer::Reason(String::new())]);
}

#[test]
fn a_confirmed_pause_tells_what_was_under_way() {
    let mut desk = Desk::new();
    let effects = desk.keys("p esc");
    let id = desk.id.clone();
    let seq = desk
        .memory
        .happen(true, Some(&id), Payload::Paused { until: None }, None);
    desk.answer(op(&effects), Answer::Accepted { seq });
    assert_eq!(desk.said(), format!("pause of orders: recorded as event {seq}"));
    let in_flight = desk.memory.state().backfills[&id].open_attempts();
    desk.memory
        .happen(false, Some(&id), Payload::PauseApplied { in_flight }, None);
    desk.refresh();
    assert_eq!(desk.said(), "paused; 1 start was already under way: 2023-01-08");
}

#[test]
fn a_receipt_that_comes_after_the_confirmation_does_not_hide_it() {
    let mut desk = Desk::new();
    let effects = desk.keys("p esc");
    let id = desk.id.clone();
    let seq = desk
        .memory
        .happen(true, Some(&id), Payload::Paused { until: None }, None);
    let in_flight = Vec::new();
    desk.memory
        .happen(false, Some(&id), Payload::PauseApplied { in_flight }, None);
    desk.refresh();
    desk.answer(op(&effects), Answer::Accepted { seq });
    assert_eq!(desk.said(), "paused: nothing starts from here on");
}

#[test]
fn when_paused_p_opens_the_resume_dialog_and_never_toggles() {
    let mut desk = Desk::new();
    desk.happens(Payload::Paused { until: None });
    assert_eq!(desk.keys("p p p"), []);
    assert_eq!(desk.dialog().ask, Ask::Resume);
    assert!(matches!(
        &desk.keys("y")[..],
        [Effect::Submit { ask: Ask::Resume, .. }]
    ));
}

#[rstest]
#[case::lower_is_sent_at_once("3", Some(Payload::CapSet { cap: Some(3) }), None)]
#[case::as_high_as_allowed_already("5", Some(Payload::CapSet { cap: Some(5) }), None)]
#[case::higher_is_asked_for("6", None, Some(Ask::Cap(Some(6))))]
#[case::free("auto", None, Some(Ask::Cap(None)))]
#[case::force("7 for 90s", None, Some(Ask::Force(7, Duration::from_secs(90))))]
fn the_throttle_line_lowers_at_once_and_asks_before_it_raises(
    #[case] text: &str,
    #[case] sent: Option<Payload>,
    #[case] asked: Option<Ask>,
) {
    let mut desk = Desk::new();
    desk.happens(Payload::CapSet { cap: Some(5) });
    desk.keys("t");
    desk.text(text);
    let effects = desk.keys("enter");
    match (sent, effects.as_slice()) {
        (Some(expected), [Effect::Command { payload, .. }]) => assert_eq!(payload, &expected),
        (None, []) => assert_eq!(Some(&desk.dialog().ask), asked.as_ref()),
        other => panic!("{other:?}"),
    }
}

#[rstest]
#[case("0", "is a pause")]
#[case("9", "max_limit is 8")]
#[case("many", "type 4, or auto, or 6 for 30m")]
#[case("auto", "neither a cap nor an override")]
fn a_throttle_line_that_makes_no_sense_stays_and_says_why(#[case] text: &str, #[case] why: &str) {
    let mut desk = Desk::new();
    desk.keys("t");
    desk.text(text);
    assert_eq!(desk.keys("enter"), []);
    assert!(desk.said().contains(why), "{}", desk.said());
    assert_eq!(desk.machine.app.layers, [Layer::Throttle(text.to_owned())]);
}

#[test]
fn where_nobody_supervises_s_starts_a_supervisor_after_its_dialog() {
    let mut desk = Desk::new();
    assert_eq!(desk.keys("S"), []);
    assert_eq!(desk.said(), "alpha pid 1 supervises already");
    desk.feed.lease = LeaseView::Nobody;
    desk.keys("S");
    assert_eq!(desk.dialog().ask, Ask::StartSupervising);
    let effects = desk.keys("y");
    assert!(
        matches!(&effects[..], [Effect::StartSupervisor { .. }]),
        "{effects:?}"
    );
    let what = "supervisor started, pid 7".to_owned();
    desk.answer(op(&effects), Answer::Done { what });
    assert_eq!(
        (desk.said().as_str(), desk.machine.app.layers.len()),
        ("supervisor started, pid 7", 0)
    );
}

#[test]
fn opening_looking_and_leaving_send_nothing() {
    let mut desk = Desk::new();
    let effects = desk.keys("j enter l esc w esc ? esc g esc / esc : esc t esc v esc 4 3 2 1 n + - q");
    assert_eq!(effects, [Effect::Quit]);
}

#[test]
fn a_command_that_the_fold_refuses_is_told_to_its_author() {
    let mut desk = Desk::new();
    let effects = desk.keys("p esc");
    let id = desk.id.clone();
    desk.memory
        .happen(true, Some(&id), Payload::CancelRequested {}, None);
    let running = desk.memory.state().backfills[&id].open_attempts();
    desk.memory
        .end(running[0].clone(), backfill::domain::event::Outcome::Cancelled);
    let seq = desk
        .memory
        .happen(true, Some(&id), Payload::Paused { until: None }, None);
    desk.answer(op(&effects), Answer::Accepted { seq });
    desk.refresh();
    assert_eq!(
        desk.said(),
        "pause of orders: refused, orders is cancelled, there is nothing to pause"
    );
}

/// Case S02: what has no answer is spoken of, and never blocks the next key.
#[test]
fn a_journal_that_does_not_answer_is_named_with_the_time_since() {
    let mut desk = Desk::new();
    desk.keys("p esc");
    desk.wait(12_000);
    desk.send(Msg::Tick);
    assert_eq!(desk.said(), "pause of orders: sent 13 s ago, no answer yet");
    desk.keys("j");
    assert_eq!(desk.cursor(), "2023-01-09");
    assert_eq!(desk.machine.unanswered(), ["pause of orders"]);
}

#[test]
fn b_holds_at_once_what_waits_and_releases_after_a_dialog() {
    let mut desk = Desk::new();
    desk.machine.app.cursor = Some(day("2023-02-01"));
    let effects = desk.keys("v j j b");
    let held: Vec<ChunkId> = ["2023-02-01", "2023-02-02", "2023-02-03"].map(day).to_vec();
    assert!(
        matches!(&effects[..], [Effect::Command { payload: Payload::HoldPlaced { chunks }, .. }] if *chunks == held),
        "{effects:?}"
    );
    assert_eq!(desk.said(), "hold of 3 chunks: sent");
    desk.answer(op(&effects), Answer::Accepted { seq: 99 });
    desk.happens(Payload::HoldPlaced { chunks: held });
    assert_eq!(desk.keys("b"), [], "a release widens work: it is asked for");
    assert_eq!(desk.dialog().preview.title, "Release 3 days");
}

/// A message must not stand in front of the day that the operator moves to.
#[test]
fn the_next_key_takes_a_message_away_that_could_be_read() {
    let mut desk = Desk::new();
    desk.fast("V");
    assert_eq!(desk.said(), "1 failed marked, 1 in all");
    desk.wait(999).fast("j");
    assert_eq!(desk.said(), "1 failed marked, 1 in all", "nobody reads that fast");
    desk.wait(1).fast("j");
    assert_eq!(desk.said(), "");
}

/// A supervisor that finds nothing to do ends at once, so none is offered.
#[test]
fn where_every_order_has_ended_no_supervisor_is_offered() {
    let mut desk = Desk::new();
    desk.happens(Payload::CancelRequested {});
    let attempt = desk.memory.state().backfills[&desk.id].open_attempts().remove(0);
    desk.memory
        .end(attempt, backfill::domain::event::Outcome::Cancelled);
    desk.refresh();
    desk.feed.lease = LeaseView::Nobody;
    desk.keys("S");
    assert!(desk.machine.app.layers.is_empty());
    assert!(
        desk.said().contains("no order waits for a supervisor"),
        "{}",
        desk.said()
    );
}
