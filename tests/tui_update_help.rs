//! Help, palette, the keys row and read-only, as sentences: all of them are the one table of actions.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod tui_update_desk;

use backfill::tui::{
    action::{ACTIONS, Class},
    effect::Effect,
    glyphs::GlyphSet,
    keymap::hints,
    msg::Msg,
    terminal::probe::spec,
    theme::{Level, Look},
    view::draw_on,
};
use ratatui::{buffer::Buffer, layout::Rect};
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

/// What the operator sees, with the hints of the real table.
fn drawn(desk: &Desk, width: u16, height: u16) -> String {
    let look = Look::new("dark", Level::True, GlyphSet::Full).unwrap();
    let area = Rect::new(0, 0, width, height);
    let mut buf = Buffer::empty(area);
    let hints = hints(&desk.machine.app, &desk.feed);
    draw_on(
        &mut buf,
        area,
        &desk.feed,
        &desk.machine.app,
        &look,
        &hints,
        desk.now,
    );
    let row = |y| {
        (0..width)
            .map(|x| buf[(x, y)].symbol().to_owned())
            .collect::<String>()
            + "\n"
    };
    (0..height).map(row).collect()
}

#[test]
fn what_is_urgent_is_first_in_help_and_palette_and_what_does_not_work_is_last() {
    let mut desk = Desk::new();
    desk.keys("?");
    let help = hints(&desk.machine.app, &desk.feed).help;
    assert_eq!(help[0].keys, "p");
    let groups: Vec<&str> = help
        .iter()
        .filter(|r| r.why_not.is_none())
        .map(|r| r.group)
        .collect();
    let mut once = groups.clone();
    once.dedup();
    assert_eq!(once, ["act", "look", "mark", "move", "screen"]);
    desk.keys("esc :");
    let palette = hints(&desk.machine.app, &desk.feed).palette;
    assert_eq!(palette[0].name, "pause");
    assert_eq!(palette[1].name, "throttle");
    let off = palette.iter().position(|row| row.why_not.is_some()).unwrap();
    assert!(palette[off..].iter().all(|row| row.why_not.is_some()));
}

/// Fifty rows do not fit on a small screen: it must be plain that there are more, and every row must be readable.
#[test]
fn long_lists_say_where_they_are_and_cut_no_row() {
    for (width, height) in [(80, 24), (100, 30), (120, 40)] {
        let mut desk = Desk::new();
        desk.send(Msg::Resize(width, height));
        desk.keys("?");
        let top = drawn(&desk, width, height);
        assert!(top.contains("1 .. ") && top.contains(" more below"), "{top}");
        assert!(!top.contains(" more above"), "{top}");
        desk.keys("G");
        let end = drawn(&desk, width, height);
        assert!(
            end.contains(" more above") && !end.contains(" more below"),
            "{end}"
        );
        assert!(end.contains("cancelled"), "the legend is reached: {end}");
        desk.keys("j j j k");
        let back = drawn(&desk, width, height);
        assert!(
            back.contains(" more below"),
            "one k after the end goes up at once: {back}"
        );
        let mut seen = String::new();
        desk.keys("g");
        for _ in 0..80 {
            seen += &drawn(&desk, width, height);
            desk.keys("j");
        }
        let help = hints(&desk.machine.app, &desk.feed).help;
        for row in help.iter().filter(|r| r.why_not.is_none()) {
            let line = seen
                .lines()
                .find(|l| l.contains(&format!("{} ", row.keys)) && l.contains(&row.verb));
            assert!(line.is_some(), "{width}x{height}: {} {}", row.keys, row.verb);
        }
        desk.keys("esc :");
        let rows = hints(&desk.machine.app, &desk.feed).palette;
        let shown = drawn(&desk, width, height);
        assert!(shown.contains(&format!("1 of {}", rows.len())), "{shown}");
        assert!(
            shown.contains(" more below") && shown.contains("type a part of a name"),
            "{shown}"
        );
        let mut seen = String::new();
        for _ in &rows {
            seen += &drawn(&desk, width, height);
            desk.keys("down");
        }
        for row in &rows {
            // Of a long reason the first clause; enter says all of it.
            let says = row.why_not.as_ref().map_or(row.verb.as_str(), |why| {
                why.split(": ").next().unwrap_or_default()
            });
            let line = seen.lines().find(|l| l.contains(&row.name) && l.contains(says));
            assert!(line.is_some(), "{width}x{height}: {} {says}", row.name);
        }
        let end = drawn(&desk, width, height);
        assert!(
            end.contains(" more above") && !end.contains(" more below"),
            "{end}"
        );
        desk.text("pau");
        assert!(drawn(&desk, width, height).contains("1 of "), "typing filters");
        assert!(hints(&desk.machine.app, &desk.feed).palette.len() < 10);
    }
}
