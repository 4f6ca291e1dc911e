//! Case S15: after any sequence of refreshes the cursor, the marks and the open dialog name the same days as before,
//! or it is said that they vanished. Never silently another day.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod tui_update_desk;

use backfill::{
    domain::{
        event::Payload,
        ids::{BackfillId, ChunkId},
        spec::Spec,
    },
    tui::{
        model::Layer,
        terminal::probe::{Memory, spec},
    },
};
use proptest::prelude::*;
use std::collections::BTreeSet;
use tui_update_desk::{Desk, day};

fn days(first: u32, length: u32) -> Spec {
    let start =
        chrono::NaiveDate::from_ymd_opt(2023, 1, 1).unwrap() + chrono::Duration::days(i64::from(first));
    let end = start + chrono::Duration::days(i64::from(length));
    spec(&start.to_string(), &end.to_string(), "day", "UTC").unwrap()
}

fn amend(memory: &Memory, id: &BackfillId, spec: Spec) {
    let (spec, hash) = (Box::new(spec), "111111111111".to_owned());
    memory.happen(true, Some(id), Payload::Amended { spec, hash }, None);
}

/// What happens between two refreshes: days appear and vanish on both sides, states change.
#[derive(Debug, Clone)]
enum Change {
    Range(u32, u32),
    Hold(u32),
    Run(u32),
    OtherBackfill,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0u32..60, 0u32..120).prop_map(|(first, length)| Change::Range(first, length)),
        (0u32..180).prop_map(Change::Hold),
        (0u32..180).prop_map(Change::Run),
        Just(Change::OtherBackfill),
    ]
}

fn nth(n: u32) -> ChunkId {
    ChunkId::day(chrono::NaiveDate::from_ymd_opt(2023, 1, 1).unwrap() + chrono::Duration::days(i64::from(n)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_any_refresh_everything_names_the_same_day_or_says_that_it_vanished(
        cursor in 0u32..120,
        marks in proptest::collection::btree_set(0u32..120, 0..6),
        range in proptest::option::of(0u32..120),
        changes in proptest::collection::vec(change(), 1..8),
    ) {
        let memory = Memory::default();
        let id = memory.start(days(0, 119), 1);
        let mut desk = Desk::at(memory, id, None);
        desk.machine.app.cursor = Some(nth(cursor));
        desk.machine.app.marks = marks.iter().map(|n| nth(*n).to_string()).collect();
        desk.machine.app.range_from = range.map(nth);
        for (i, change) in changes.into_iter().enumerate() {
            let before = (desk.machine.app.cursor, desk.machine.app.marks.clone(), desk.machine.app.range_from);
            match change {
                Change::Range(first, length) => amend(&desk.memory, &desk.id, days(first, length)),
                Change::Hold(n) => {
                    let chunks = vec![nth(n)];
                    desk.memory.happen(true, Some(&desk.id.clone()), Payload::HoldPlaced { chunks }, None);
                }
                Change::Run(n) => {
                    desk.memory.run(&desk.id, nth(n));
                }
                Change::OtherBackfill => {
                    desk.memory.start(days(0, 10), 100 + i as u32);
                }
            }
            desk.machine.app.toast = None;
            desk.refresh();
            let backfill = &desk.feed.state.backfills[&desk.id];
            let there = |id: &ChunkId| backfill.chunk(*id).is_some();
            let app = &desk.machine.app;
            prop_assert_eq!(app.cursor, before.0.filter(there));
            prop_assert_eq!(app.range_from, before.2.filter(there));
            let kept: BTreeSet<String> = before.1.iter().filter(|m| there(&day(m))).cloned().collect();
            prop_assert_eq!(&app.marks, &kept);
            let vanished = before.0 != app.cursor || before.1 != app.marks || before.2 != app.range_from;
            prop_assert_eq!(vanished, desk.said().contains("no longer part of"), "{}", desk.said());
            prop_assert_eq!(app.backfill.as_ref(), Some(&desk.id));
        }
    }
}

#[test]
fn a_vanished_day_is_named_and_nothing_acts_until_the_cursor_is_moved() {
    let memory = Memory::default();
    let id = memory.start(days(0, 30), 1);
    let mut desk = Desk::at(memory, id, None);
    desk.machine.app.cursor = Some(day("2023-01-20"));
    amend(&desk.memory, &desk.id, days(0, 9));
    desk.refresh();
    assert_eq!(desk.cursor(), "none");
    assert_eq!(
        desk.said(),
        "2023-01-20 is no longer part of orders: move to another day"
    );
    for key in ["R", "b", "s", "enter", "w", "space"] {
        assert_eq!(desk.keys(key), [], "{key}");
        assert!(
            desk.said().contains("the cursor is on no day"),
            "{key}: {}",
            desk.said()
        );
    }
    desk.keys("k");
    assert_eq!(desk.cursor(), "2023-01-10", "movement goes on from where it was");
}

#[test]
fn a_dialog_keeps_the_days_that_it_was_opened_on() {
    let mut desk = Desk::on_a_done_day();
    desk.keys("R");
    let before = desk.dialog().clone();
    amend(&desk.memory, &desk.id, days(100, 10));
    desk.refresh();
    assert_eq!(desk.dialog(), &before);
    assert!(matches!(desk.machine.app.layers.as_slice(), [Layer::Plan(_)]));
}
