//! Confirmation, as sentences. Cases S15 to S17: nothing that starts or widens work happens without its plan on the
//! screen, and no key acts that was not meant for the dialog.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod tui_update_desk;

use backfill::{
    domain::{
        event::{Payload, Rule},
        ids::ChunkId,
    },
    plan::preview::{Preview, PreviewChunk},
    tui::{
        action::{ACTIONS, Class, Id},
        effect::{Effect, Planner, differences, payloads},
        model::{Ask, LeaseView},
        msg::{Answer, Msg},
        update::SENT,
    },
};
use std::{sync::Arc, time::Duration};
use tui_update_desk::{Desk, day, op};

/// Opens every dialog there is: a state of the desk in which its key opens it, and the key.
fn dialogs() -> Vec<(&'static str, Desk)> {
    let mut all: Vec<(&'static str, Desk)> = Vec::new();
    for key in ["r", "R", "s", "K"] {
        let mut desk = Desk::new();
        let at = match key {
            "K" => "2023-01-08",
            "s" => "2023-02-01",
            _ => "2023-01-06",
        };
        desk.machine.app.cursor = Some(day(at));
        all.push((key, desk));
    }
    let mut paused = Desk::new();
    paused.happens(Payload::Paused { until: None });
    all.push(("p", paused));
    let mut held = Desk::new();
    held.happens(Payload::HoldPlaced {
        chunks: vec![day("2023-02-01")],
    });
    held.machine.app.cursor = Some(day("2023-02-01"));
    all.push(("b", held));
    let mut alone = Desk::new();
    alone.feed.lease = LeaseView::Nobody;
    all.push(("S", alone));
    all
}

/// Case S16: Cancel has the focus; enter on a dialog that just opened cancels, and so do esc and q.
#[test]
fn enter_on_open_cancels_every_dialog_and_sends_nothing() {
    for how in ["enter", "esc"] {
        for (key, mut desk) in dialogs() {
            assert_eq!(desk.keys(key), [], "{key} opens a dialog and does nothing else");
            desk.dialog();
            assert_eq!(desk.fast(how), [], "{how} after {key}");
            assert!(desk.machine.app.layers.is_empty(), "{how} after {key}");
        }
    }
}

/// Case S17: in no dialog does its opening key act, however often it is pressed.
#[test]
fn the_opening_key_never_acts_in_its_dialog() {
    for (key, mut desk) in dialogs() {
        desk.keys(key);
        let before = desk.dialog().clone();
        for _ in 0..3 {
            assert_eq!(desk.keys(key), [], "{key}");
        }
        match &before.phrase {
            None => assert_eq!(desk.dialog(), &before, "{key}"),
            Some((wanted, _)) => assert!(
                !wanted.contains(key),
                "a phrase never begins with the key: {wanted}"
            ),
        }
    }
}

/// Case S17: for 300 ms after a dialog is on the screen nothing in it acts, and before it is drawn nothing at all.
#[test]
fn y_counts_only_when_the_dialog_has_been_seen() {
    let mut desk = Desk::on_a_done_day();
    desk.keys("R");
    assert_eq!(
        desk.fast("y"),
        [],
        "typed ahead, before any frame showed the dialog"
    );
    desk.send(Msg::Drawn);
    assert_eq!(desk.wait(299).fast("y"), []);
    assert!(desk.said().contains("ignored"), "{}", desk.said());
    let effects = desk.wait(1).fast("y");
    assert!(matches!(&effects[..], [Effect::Submit { .. }]), "{effects:?}");
}

#[test]
fn a_y_that_waited_in_a_queue_since_before_the_frame_does_not_act() {
    let mut desk = Desk::on_a_done_day();
    desk.keys("R");
    let struck = desk.now;
    desk.wait(5000).send(Msg::Drawn);
    desk.wait(1000);
    let key = "y".parse().unwrap();
    let press = backfill::tui::msg::Press {
        key,
        repeat: false,
        at: struck,
    };
    assert_eq!(desk.send(Msg::Key(press)), []);
    assert_eq!(desk.fast("y").len(), 1, "one that is struck now does");
}

#[test]
fn for_300_ms_after_the_window_got_the_keyboard_nothing_changes_anything() {
    let mut desk = Desk::new();
    desk.send(Msg::Focus(true));
    assert_eq!(desk.wait(100).fast("p"), []);
    assert!(desk.machine.app.layers.is_empty());
    desk.fast("j");
    assert_eq!(desk.cursor(), "2023-01-09", "looking is not held up");
    assert_eq!(desk.wait(250).fast("p").len(), 1);
    let mut desk = Desk::on_a_done_day();
    desk.keys("R");
    desk.look();
    desk.send(Msg::Focus(true));
    assert_eq!(desk.wait(100).fast("y"), []);
    assert_eq!(desk.wait(200).fast("y").len(), 1);
}

/// Every action of class 2 and 3 that has a key opens a dialog and has no effect by itself.
#[test]
fn no_action_that_starts_or_ends_work_acts_without_its_dialog() {
    // What is done to somebody else's backfill has its own test.
    let theirs = [
        Id::AttachTo,
        Id::TakeDate,
        Id::MarkAs,
        Id::Detach,
        Id::PauseDag,
        Id::ResumeDag,
    ];
    let ours = |a: &&backfill::tui::action::Action| !theirs.contains(&a.id);
    for action in ACTIONS.iter().filter(|a| a.class >= Class::Widen).filter(ours) {
        let mut desk = Desk::new();
        if action.id == Id::StartSupervising {
            desk.feed.lease = LeaseView::Nobody;
        }
        if action.id == Id::Resume {
            desk.happens(Payload::Paused { until: None });
        }
        if action.id == Id::FreeLimit {
            desk.happens(Payload::CapSet { cap: Some(2) });
        }
        if action.id == Id::Skip {
            desk.machine.app.cursor = Some(day("2023-02-01"));
        }
        desk.keys(":");
        desk.text(action.name);
        assert_eq!(desk.keys("enter"), [], "{}", action.name);
        let dialog = desk.dialog();
        assert!(dialog.preview.class >= 2, "{}", action.name);
        assert_eq!(
            dialog.phrase.is_some(),
            action.class == Class::Final,
            "{}",
            action.name
        );
    }
}

#[test]
fn y_submits_what_was_asked_for_with_the_digest_that_was_shown() {
    let mut desk = Desk::new();
    desk.machine.app.cursor = Some(day("2023-01-02"));
    desk.keys("R");
    let digest = desk.dialog().preview.digest.clone();
    let effects = desk.keys("y");
    let expected = Effect::Submit {
        op: op(&effects),
        backfill: Some(desk.id.clone()),
        ask: Ask::Rerun(vec![day("2023-01-02")], false),
        digest,
    };
    assert_eq!(effects, [expected]);
    assert_eq!(
        desk.dialog().outcome.as_deref(),
        Some(SENT),
        "answered at once, before the journal"
    );
    assert_eq!(desk.keys("y"), [], "once is once");
    assert!(desk.said().contains("sent already"));
}

#[test]
fn an_accepted_dialog_closes_and_the_marks_it_was_about_go() {
    let mut desk = Desk::new();
    let effects = desk.keys("V R y");
    desk.answer(op(&effects), Answer::Accepted { seq: 400 });
    assert!(desk.machine.app.layers.is_empty());
    assert_eq!(desk.said(), "Re-run 1 days: recorded as event 400");
    assert_eq!(desk.marks(), Vec::<&str>::new());
}

#[test]
fn a_refusal_stays_in_the_dialog_in_words_and_can_be_tried_again() {
    let mut desk = Desk::new();
    let effects = desk.keys("r y");
    let why = "database is locked".to_owned();
    desk.answer(op(&effects), Answer::Refused { why });
    assert_eq!(
        desk.dialog().outcome.as_deref(),
        Some("nothing was done: database is locked")
    );
    assert_eq!(desk.keys("y").len(), 1);
}

#[test]
fn a_plan_that_changed_stays_lists_the_difference_and_has_to_be_seen_again() {
    let mut desk = Desk::new();
    desk.keys("r");
    let old = desk.dialog().preview.clone();
    let effects = desk.keys("y");
    desk.memory.happen(
        true,
        Some(&desk.id.clone()),
        Payload::Skipped {
            chunks: vec![day("2023-01-06")],
        },
        None,
    );
    let ask = desk.dialog().ask.clone();
    let new = desk
        .planner
        .preview(&desk.memory.feed(), Some(&desk.id), &ask, desk.now);
    assert_ne!(old.digest, new.digest);
    desk.answer(op(&effects), Answer::Changed(Box::new(new.clone())));
    assert_eq!(desk.dialog().changed, ["- 2023-01-06 is left out: is skipped"]);
    assert_eq!((&desk.dialog().preview, &desk.dialog().outcome), (&new, &None));
    assert_eq!(desk.fast("y"), [], "this plan has not been on the screen yet");
    assert_eq!(desk.keys("y"), [], "and it acts on nothing");
    assert_eq!(desk.said(), "the plan acts on nothing");
}

#[test]
fn an_answer_to_a_dialog_that_was_closed_meanwhile_is_told_and_opens_nothing() {
    let mut desk = Desk::new();
    let effects = desk.keys("r y");
    desk.keys("esc R");
    let open = desk.dialog().clone();
    desk.answer(op(&effects), Answer::Accepted { seq: 7 });
    assert_eq!(desk.dialog(), &open);
    assert!(desk.said().contains("recorded as event 7"));
}

#[test]
fn refreshes_and_lost_sources_never_close_or_change_a_dialog_but_switch_y_off() {
    let mut desk = Desk::new();
    desk.keys("r");
    let before = desk.dialog().clone();
    desk.happens(Payload::Skipped {
        chunks: vec![day("2023-01-06")],
    });
    desk.feed.problem = Some("disk I/O error".to_owned());
    desk.send(Msg::Fed);
    assert_eq!(desk.dialog(), &before, "the plan is kept by value");
    assert_eq!(desk.keys("y"), []);
    assert!(
        desk.said().contains("the journal cannot be read"),
        "{}",
        desk.said()
    );
}

#[test]
fn stopping_running_days_asks_for_their_number() {
    let mut desk = Desk::new();
    desk.keys("K");
    assert_eq!(desk.dialog().phrase, Some(("1".to_owned(), String::new())));
    desk.look();
    desk.text("2");
    assert_eq!(desk.keys("enter"), []);
    assert_eq!(
        desk.dialog().outcome.as_deref(),
        Some("type 1 to confirm, esc cancels")
    );
    desk.fast("backspace");
    assert_eq!(desk.dialog().outcome, None);
    desk.text("1");
    let effects = desk.keys("enter");
    let asked = Ask::Stop(vec![day("2023-01-08")]);
    assert!(
        matches!(&effects[..], [Effect::Submit { ask, .. }] if *ask == asked),
        "{effects:?}"
    );
}

#[test]
fn the_phrase_is_typed_not_pasted_and_not_before_the_dialog_was_seen() {
    let mut desk = Desk::new();
    desk.keys("K");
    desk.send(Msg::Paste("1".to_owned()));
    assert!(desk.said().contains("typed, not pasted"));
    desk.text("1");
    assert_eq!(desk.dialog().phrase, Some(("1".to_owned(), String::new())));
    assert_eq!(desk.keys("enter"), [], "nothing typed: enter cancels");
    assert!(desk.machine.app.layers.is_empty());
}

#[test]
fn cancelling_the_order_asks_for_its_name_and_letters_are_text_there() {
    let mut desk = Desk::new();
    desk.keys(":");
    desk.text("cancel-backfill");
    desk.keys("enter");
    assert_eq!(desk.dialog().phrase, Some(("orders".to_owned(), String::new())));
    desk.look();
    desk.text("orders");
    let effects = desk.keys("enter");
    assert!(
        matches!(&effects[..], [Effect::Submit { ask: Ask::Cancel, .. }]),
        "{effects:?}"
    );
}

#[test]
fn tab_lists_every_day_and_j_scrolls_to_the_last_and_no_further() {
    let mut desk = Desk::new();
    desk.machine.app.cursor = Some(day("2023-01-01"));
    desk.keys("v l R tab");
    assert_eq!(desk.dialog().all_days, Some(0));
    desk.keys("j j k");
    assert_eq!(desk.dialog().all_days, Some(1));
    for _ in 0..20 {
        desk.fast("j");
    }
    let rows = desk.dialog().preview.will.len() + desk.dialog().preview.will_not.len();
    assert_eq!(desk.dialog().all_days, Some(rows - 1));
    desk.fast("tab");
    assert_eq!(desk.dialog().all_days, None);
}

#[test]
fn r_without_a_selection_is_about_all_failed_days_and_in_the_drawer_about_that_day() {
    let mut desk = Desk::new();
    desk.machine.app.cursor = Some(day("2023-03-01"));
    desk.keys("r");
    let both = Ask::Rerun(vec![day("2023-01-06"), day("2023-01-07")], true);
    assert_eq!(desk.dialog().ask, both);
    assert_eq!(
        desk.dialog().preview.will_not,
        [(day("2023-01-07"), "is quarantined".to_owned())]
    );
    desk.keys("esc");
    desk.machine.app.cursor = Some(day("2023-01-06"));
    desk.keys("enter r");
    assert_eq!(desk.dialog().ask, Ask::Rerun(vec![day("2023-01-06")], true));
}

/// Proof 5: `R` on a done day shows the dialog and a second `R` does nothing.
#[test]
fn two_capital_rs_on_a_done_day_leave_the_dialog_open_and_nothing_sent() {
    let mut desk = Desk::new();
    desk.machine.app.cursor = Some(day("2023-01-02"));
    assert_eq!(desk.fast("R R"), []);
    assert_eq!(desk.keys("R R"), []);
    assert_eq!(desk.dialog().preview.will.len(), 1);
}

fn preview(will: &[(&str, &'static str, u32)], digest: &str) -> Preview {
    let chunk = |(id, state, attempt): &(&str, &'static str, u32)| PreviewChunk {
        chunk: day(id),
        state,
        attempt: *attempt,
        last: String::new(),
        profile: "default".to_owned(),
        lane: "normal",
        weight: 1,
    };
    Preview {
        title: String::new(),
        will: will.iter().map(chunk).collect(),
        will_not: Vec::new(),
        facts: vec![("reads", "orders".to_owned())],
        same_as: String::new(),
        class: 2,
        digest: digest.to_owned(),
    }
}

#[test]
fn differences_name_what_left_what_came_and_what_is_otherwise() {
    let old = preview(
        &[
            ("2023-01-01", "failed", 2),
            ("2023-01-02", "failed", 2),
            ("2023-01-03", "failed", 2),
        ],
        "a",
    );
    let mut new = preview(
        &[
            ("2023-01-02", "done", 3),
            ("2023-01-03", "failed", 3),
            ("2023-01-04", "failed", 1),
        ],
        "b",
    );
    new.will_not.push((day("2023-01-01"), "it runs".to_owned()));
    new.facts = vec![("reads", "orders_v2".to_owned())];
    assert_eq!(
        differences(&old, &new),
        [
            "- 2023-01-01 is left out: it runs",
            "~ 2023-01-02 was failed, is done",
            "~ 2023-01-03 attempt 2 is now attempt 3",
            "+ 2023-01-04 is added: it is failed",
            "~ reads: orders, now orders_v2",
        ]
    );
    let same = preview(&[("2023-01-02", "done", 3)], "b");
    assert_eq!(
        differences(
            &same,
            &Preview {
                digest: "c".to_owned(),
                ..same.clone()
            }
        ),
        ["~ plan b is now plan c"]
    );
}

#[test]
fn a_long_difference_is_cut_with_a_count() {
    let ids: Vec<String> = (1..=9).map(|n| format!("2023-01-0{n}")).collect();
    let will: Vec<(&str, &'static str, u32)> = ids.iter().map(|id| (id.as_str(), "failed", 1)).collect();
    let lines = differences(&preview(&will, "a"), &preview(&[], "b"));
    assert_eq!((lines.len(), lines[5].as_str()), (6, "and 4 more"));
}

#[test]
fn a_confirmed_ask_becomes_events_that_name_each_chunk() {
    let mut desk = Desk::new();
    let chunks: Vec<ChunkId> = vec![day("2023-01-06")];
    let plan = preview(&[("2023-01-06", "failed", 2)], "9f31c2");
    let make = |desk: &Desk, ask: Ask, plan: &Preview| {
        payloads(&desk.feed.state, Some(&desk.id), &ask, plan, desk.now)
    };
    let rerun = make(
        &desk,
        Ask::Rerun(vec![day("2023-01-06"), day("2023-01-07")], true),
        &plan,
    )
    .unwrap();
    let digest = "9f31c2".to_owned();
    assert_eq!(
        rerun,
        [Payload::RerunRequested { chunks, digest }],
        "only what the plan acts on"
    );
    assert!(make(&desk, Ask::Skip(vec![]), &preview(&[], "x")).is_err());
    assert!(
        make(&desk, Ask::Resume, &plan)
            .unwrap_err()
            .contains("not paused any more")
    );
    desk.happens(Payload::Paused { until: None });
    assert_eq!(make(&desk, Ask::Resume, &plan).unwrap(), [Payload::Resumed {}]);
    let force = make(&desk, Ask::Force(6, Duration::from_secs(60)), &plan).unwrap();
    assert!(matches!(&force[..], [Payload::Forced { force: Some(f) }]
        if f.limit == 6 && f.until == desk.now + chrono::Duration::seconds(60)));
}

#[test]
fn a_resume_also_acknowledges_the_latch() {
    let desk = Desk::new();
    let mut state = (*desk.feed.state).clone();
    state.backfills.get_mut(&desk.id).unwrap().limit.rule = Rule::Latch;
    let plan = preview(&[], "x");
    let made = payloads(&Arc::new(state), Some(&desk.id), &Ask::Resume, &plan, desk.now).unwrap();
    assert_eq!(made, [Payload::LatchAcknowledged {}]);
}
