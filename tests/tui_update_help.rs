//! Help, palette, the keys row and read-only, as sentences: all of them are the one table of actions.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod tui_update_desk;

use backfill::tui::{
    action::{ACTIONS, Class},
    effect::Effect,
    keymap::hints,
    terminal::probe::spec,
};
use tui_update_desk::{Desk, day};

#[test]
fn the_palette_finds_actions_by_name_key_and_letters_and_runs_them() {
    let mut desk = Desk::on_a_done_day();
    desk.fast(":");
    desk.text("q");
    assert_eq!(desk.fast("enter"), [Effect::Quit], "as fast as fingers go");
    desk.fast("ctrl-p");
    desk.text("rrn");
    let shown = hints(&desk.machine.app, &desk.feed).palette;
    assert!(shown.iter().any(|row| row.name == "rerun"), "{shown:?}");
    desk.keys("ctrl-u");
    desk.text("rerun");
    desk.keys("enter");
    assert_eq!(desk.dialog().preview.title, "Re-run 1 days");
    desk.keys("esc :");
    desk.text("no such thing");
    desk.keys("enter");
    assert!(desk.said().contains("is no command"));
}

#[test]
fn the_palette_switches_to_another_backfill_by_name() {
    let mut desk = Desk::new();
    let other = desk
        .memory
        .start(spec("2024-01-01", "2024-01-31", "day", "UTC").unwrap(), 9);
    desk.refresh();
    assert_eq!(
        desk.machine.app.backfill.as_ref(),
        Some(&desk.id),
        "a new one does not push itself in front"
    );
    desk.keys(":");
    desk.text(&format!("show {other}"));
    desk.keys("enter");
    assert_eq!(desk.machine.app.backfill, Some(other));
    assert_eq!(desk.cursor(), "2024-01-01");
}

#[test]
fn help_lists_what_works_here_first_and_then_what_does_not_with_the_reason() {
    let mut desk = Desk::new();
    desk.machine.app.cursor = Some(day("2023-06-01"));
    desk.keys("?");
    let help = hints(&desk.machine.app, &desk.feed).help;
    let stop = help.iter().find(|row| row.keys == "K").unwrap();
    assert_eq!(
        stop.why_not.as_deref(),
        Some("2023-06-01 is pending: nothing of it runs")
    );
    let first_off = help.iter().position(|row| row.why_not.is_some()).unwrap();
    assert!(help[first_off..].iter().all(|row| row.why_not.is_some()));
    assert!(
        help.iter()
            .all(|row| row.keys != "l" || row.verb != "log of the newest attempt")
    );
}

#[test]
fn the_keys_row_has_at_most_eleven_items_and_ends_with_command_and_help() {
    let mut desk = Desk::new();
    desk.keys("space v");
    let keys = hints(&desk.machine.app, &desk.feed).keys;
    assert!(keys.len() <= 11, "{keys:?}");
    let last: Vec<&str> = keys.iter().rev().take(2).map(|(k, _)| k.as_str()).collect();
    assert_eq!(last, ["?", ":"]);
    assert_eq!(keys[0], ("hjkl".to_owned(), "extend".to_owned()));
}

/// Case S18: read-only is one filter, shown with its origin.
#[test]
fn read_only_takes_every_changing_action_out_of_keys_help_and_palette() {
    let mut desk = Desk::read_only();
    for key in ["p", "b", "r", "R", "t", "K", "s"] {
        assert_eq!(desk.keys(key), [], "{key}");
        assert_eq!(desk.said(), "read-only by flag: W arms writes");
        assert!(desk.machine.app.layers.is_empty());
    }
    let changing: Vec<&str> = ACTIONS
        .iter()
        .filter(|a| a.class > Class::Look)
        .map(|a| a.name)
        .collect();
    desk.keys(":");
    let palette = hints(&desk.machine.app, &desk.feed).palette;
    assert!(palette.iter().all(|row| !changing.contains(&row.name.as_str())));
    desk.keys("esc ?");
    let help = hints(&desk.machine.app, &desk.feed).help;
    assert!(help.iter().all(|row| row.keys != "p" && row.keys != "R"));
    desk.keys("esc W");
    assert_eq!(desk.machine.app.read_only, None);
    assert_eq!(desk.keys("p").len(), 1);
    desk.keys("esc W");
    assert_eq!(desk.machine.app.read_only, Some("flag"));
}

#[test]
fn an_event_of_a_newer_program_leaves_only_looking() {
    let mut desk = Desk::new();
    let mut state = (*desk.feed.state).clone();
    state.unreadable = Some((99, "resharded".to_owned(), 2));
    desk.feed.state = std::sync::Arc::new(state);
    assert_eq!(desk.keys("p"), []);
    assert!(desk.said().contains("may only watch"), "{}", desk.said());
}
