//! What keys do, as sentences: movement, zoom, marks, layers, filters, input lines.
#![cfg(debug_assertions)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

mod tui_update_desk;

use backfill::tui::{
    action::{ACTIONS, Class},
    effect::Effect,
    keymap::{Place, conflicts, lookup},
    model::{Layer, Panel, Zoom},
    msg::Msg,
    terminal::probe::{Memory, spec},
};
use rstest::rstest;
use std::collections::HashSet;
use tui_update_desk::{Desk, day};

#[test]
fn no_key_means_two_things_in_one_place() {
    assert_eq!(conflicts(), Vec::<String>::new());
}

#[test]
fn every_key_of_the_table_can_be_read_and_every_name_is_there_once() {
    let mut names = HashSet::new();
    for action in ACTIONS {
        assert!(names.insert(action.name), "{} is there twice", action.name);
        for (_, keys) in action.keys {
            for key in *keys {
                let read: backfill::tui::keymap::Key = key.parse().unwrap();
                assert_eq!(read.to_string(), *key);
            }
        }
    }
}

#[test]
fn essential_keys_are_reachable_without_altgr() {
    for action in ACTIONS.iter().filter(|a| !a.keys.is_empty()) {
        for (_, keys) in action.keys {
            let easy = keys
                .iter()
                .any(|k| !k.contains(['[', ']', '{', '}', '|', '\\', '@', '~']));
            assert!(easy, "{} has only {keys:?}", action.name);
        }
    }
}

#[rstest]
#[case::a_week_back("h", "2023-01-15", "2023-01-08")]
#[case::a_week_on("l", "2023-01-15", "2023-01-22")]
#[case::a_day_on("j", "2023-01-15", "2023-01-16")]
#[case::a_day_back("k", "2023-01-15", "2023-01-14")]
#[case::arrows_too("right", "2023-01-15", "2023-01-22")]
#[case::next_month("L", "2023-01-31", "2023-02-28")]
#[case::previous_month("H", "2023-03-15", "2023-02-15")]
#[case::last_day("G", "2023-01-15", "2023-12-31")]
#[case::row_start("0", "2023-06-14", "2023-01-04")]
#[case::row_end("$", "2023-06-14", "2023-12-27")]
#[case::half_a_page_on("ctrl-d", "2023-01-15", "2023-07-16")]
#[case::half_a_page_on_is_cut_at_the_end("ctrl-d", "2023-11-15", "2023-12-31")]
#[case::half_a_page_back("ctrl-u", "2023-07-16", "2023-01-15")]
fn in_the_zoom_of_days_columns_are_weeks_and_rows_are_weekdays(
    #[case] key: &str,
    #[case] from: &str,
    #[case] to: &str,
) {
    let mut desk = Desk::new();
    desk.machine.app.cursor = Some(day(from));
    desk.keys(key);
    assert_eq!(desk.cursor(), to);
}

#[test]
fn at_the_edge_the_cursor_stays_and_says_so() {
    let mut desk = Desk::new();
    desk.machine.app.cursor = Some(day("2023-01-03"));
    desk.keys("h");
    assert_eq!(desk.cursor(), "2023-01-03");
    assert!(desk.said().contains("as far as it goes"));
}

fn three_years() -> Desk {
    let memory = Memory::default();
    let id = memory.start(spec("2022-01-01", "2024-12-31", "day", "UTC").unwrap(), 2);
    Desk::at(memory, id, None)
}

#[rstest]
#[case::next_year_same_column("j", "2023-06-14", "2024-06-19")]
#[case::previous_year("k", "2023-06-14", "2022-06-15")]
#[case::a_week_on("l", "2023-06-14", "2023-06-21")]
#[case::first_week("0", "2023-06-14", "2023-01-01")]
#[case::last_week("$", "2023-06-14", "2023-12-31")]
fn in_the_zoom_of_years_a_row_is_a_year_and_a_cell_a_week(
    #[case] key: &str,
    #[case] from: &str,
    #[case] to: &str,
) {
    let mut desk = three_years();
    desk.keys("-");
    assert_eq!(desk.machine.app.zoom, Zoom::Years);
    desk.machine.app.cursor = Some(day(from));
    desk.keys(key);
    assert_eq!(desk.cursor(), to);
    desk.keys("+");
    assert_eq!(
        (desk.machine.app.zoom, desk.cursor()),
        (Zoom::Days, to.to_owned()),
        "zoom keeps the day"
    );
}

#[test]
fn in_the_zoom_of_years_a_mark_takes_the_week_within_its_year() {
    let mut desk = three_years();
    desk.keys("-");
    desk.machine.app.cursor = Some(day("2022-12-31"));
    desk.keys("space");
    assert_eq!(desk.machine.app.marks.len(), 6, "{:?}", desk.marks());
    assert_eq!(
        desk.marks().last(),
        Some(&"2022-12-31"),
        "the Sunday is in the next year's row"
    );
}

/// Case B12: from any of 10,000 days to a date by typing it.
#[test]
fn g_and_a_date_goes_to_that_day_at_once() {
    let memory = Memory::default();
    let id = memory.start(spec("2000-01-01", "2027-05-18", "day", "UTC").unwrap(), 3);
    let mut desk = Desk::at(memory, id, None);
    assert_eq!(desk.feed.state.backfills[&desk.id].chunks.len(), 10_000);
    let began = std::time::Instant::now();
    desk.fast("g");
    desk.text("2019-03-02");
    desk.fast("enter");
    assert!(began.elapsed().as_millis() < 1000, "took {:?}", began.elapsed());
    assert_eq!(desk.cursor(), "2019-03-02");
    desk.fast(":");
    desk.text("g 2003-04");
    desk.fast("enter");
    assert_eq!(desk.cursor(), "2003-04-01");
}

#[test]
fn g_g_is_the_first_day_and_a_wrong_date_keeps_the_prompt() {
    let mut desk = Desk::new();
    desk.keys("G g g");
    assert_eq!(
        (desk.cursor().as_str(), desk.machine.app.layers.len()),
        ("2023-01-01", 0)
    );
    desk.keys("g");
    desk.text("2024-05-01");
    desk.keys("enter");
    assert_eq!(desk.cursor(), "2023-01-01");
    assert!(
        desk.said().contains("outside 2023-01-01 .. 2023-12-31"),
        "{}",
        desk.said()
    );
    assert!(matches!(desk.machine.app.layers.last(), Some(Layer::Date(_))));
    desk.fast("ctrl-u");
    assert_eq!(desk.said(), "", "what is typed anew is not answered yet");
    desk.text("13 o'clock");
    desk.keys("enter");
    assert!(desk.said().contains("is no date"), "{}", desk.said());
}

#[test]
fn hours_move_by_days_and_a_day_means_all_its_hours() {
    let memory = Memory::default();
    let id = memory.start(
        spec("2023-10-28", "2023-10-31", "hour", "Europe/Berlin").unwrap(),
        4,
    );
    let mut desk = Desk::at(memory, id, None);
    desk.keys("j");
    assert_eq!(desk.cursor(), "2023-10-29T00+0200");
    desk.keys("space");
    assert_eq!(
        desk.machine.app.marks.len(),
        25,
        "the day on which the clock goes back"
    );
    desk.keys("g");
    desk.text("2023-10-29T02+0100");
    desk.keys("enter");
    assert_eq!(desk.cursor(), "2023-10-29T02+0100");
}

#[test]
fn months_are_found_by_any_of_their_days() {
    let memory = Memory::default();
    let id = memory.start(spec("2022-01-10", "2023-12-31", "month", "UTC").unwrap(), 5);
    let mut desk = Desk::at(memory, id, None);
    assert_eq!(desk.cursor(), "2022-01-10");
    desk.keys("j");
    assert_eq!(desk.cursor(), "2022-02-01");
    desk.keys("g");
    desk.text("2023-03-17");
    desk.keys("enter");
    assert_eq!(desk.cursor(), "2023-03-01");
}

#[test]
fn n_goes_round_the_days_that_need_a_human() {
    let mut desk = Desk::new();
    let mut stops = Vec::new();
    for _ in 0..3 {
        desk.keys("n");
        stops.push(desk.cursor());
    }
    assert_eq!(stops, ["2023-01-06", "2023-01-07", "2023-01-06"]);
    desk.keys("N");
    assert_eq!(desk.cursor(), "2023-01-07");
}

#[test]
fn n_never_lands_on_a_day_that_is_not_shown() {
    let mut desk = Desk::new();
    desk.keys("/");
    desk.text("quarantined");
    desk.keys("enter");
    assert_eq!(
        (desk.machine.app.filter.as_str(), desk.cursor().as_str()),
        ("quarantined", "2023-01-07")
    );
    desk.keys("n");
    assert_eq!(desk.cursor(), "2023-01-07");
    assert!(desk.said().contains("only one"));
    desk.keys("/");
    desk.keys("ctrl-u");
    desk.text("2023-11");
    desk.keys("enter");
    assert_eq!(desk.cursor(), "2023-11-01");
}

#[test]
fn escape_closes_the_layer_then_the_range_then_the_filter_then_the_marks_and_never_quits() {
    let mut desk = Desk::new();
    desk.keys("space /");
    desk.text("pending");
    desk.keys("enter v enter");
    let app = |desk: &Desk| {
        let app = &desk.machine.app;
        (
            app.layers.len(),
            app.range_from.is_some(),
            !app.filter.is_empty(),
            !app.marks.is_empty(),
        )
    };
    assert_eq!(app(&desk), (1, true, true, true));
    for expected in [
        (0, true, true, true),
        (0, false, true, true),
        (0, false, false, true),
        (0, false, false, false),
    ] {
        desk.keys("esc");
        assert_eq!(app(&desk), expected);
    }
    assert_eq!(desk.keys("esc"), []);
    assert!(desk.said().contains("nothing is open"));
}

#[test]
fn q_is_escape_until_nothing_is_left_and_then_leaves() {
    let mut desk = Desk::new();
    desk.keys("space enter l");
    assert!(matches!(
        desk.machine.app.layers.as_slice(),
        [Layer::Drawer, Layer::Log(0)]
    ));
    for _ in 0..3 {
        assert_eq!(desk.keys("q"), []);
    }
    assert_eq!(desk.keys("q"), [Effect::Quit]);
}

#[test]
fn a_second_ctrl_c_within_two_seconds_leaves_from_anywhere() {
    let mut desk = Desk::new();
    desk.keys("R");
    assert_eq!(desk.fast("ctrl-c"), []);
    assert!(desk.said().contains("again within 2 s"));
    desk.wait(2500);
    assert_eq!(desk.fast("ctrl-c"), [], "too late to count as the second");
    desk.wait(1500);
    assert_eq!(desk.fast("ctrl-c"), [Effect::Quit]);
}

#[test]
fn ranges_and_marks_add_up_and_hold_days() {
    let mut desk = Desk::new();
    desk.machine.app.cursor = Some(day("2023-03-01"));
    desk.keys("v j j v");
    assert_eq!(desk.marks(), ["2023-03-01", "2023-03-02", "2023-03-03"]);
    desk.keys("l ctrl-space");
    assert_eq!(
        desk.machine.app.marks.len(),
        10,
        "from the last mark to the cursor, both included"
    );
    desk.keys("space");
    assert_eq!(desk.machine.app.marks.len(), 9);
    desk.keys("V");
    assert!(desk.marks().contains(&"2023-01-06"));
    assert_eq!(desk.said(), "1 failed marked, 10 in all");
}

#[test]
fn digits_tab_and_shift_tab_give_the_keys_to_panels() {
    let mut desk = Desk::new();
    for (key, panel) in [
        ("2", Panel::Lag),
        ("3", Panel::Executors),
        ("4", Panel::Events),
        ("tab", Panel::Calendar),
        ("shift-tab", Panel::Events),
        ("1", Panel::Calendar),
    ] {
        desk.keys(key);
        assert_eq!(desk.machine.app.focus, panel, "{key}");
    }
}

#[test]
fn in_the_events_j_and_k_scroll_and_f_follows_again() {
    let mut desk = Desk::new();
    desk.keys("4 j j j k");
    assert_eq!(
        (desk.machine.app.events_back, desk.cursor().as_str()),
        (2, "2023-01-08")
    );
    desk.keys("f");
    assert_eq!(desk.machine.app.events_back, 0);
}

#[test]
fn events_that_are_scrolled_back_stay_put_while_new_ones_arrive() {
    let mut desk = Desk::new();
    desk.keys("4 j j");
    let seen = |desk: &Desk| {
        let events = &desk.feed.events;
        events[events.len() - 1 - desk.machine.app.events_back].seq
    };
    let before = seen(&desk);
    desk.memory.run(&desk.id, day("2023-01-09"));
    desk.refresh();
    assert_eq!(seen(&desk), before);
    desk.keys("f");
    desk.memory.run(&desk.id, day("2023-01-10"));
    desk.refresh();
    assert_eq!(desk.machine.app.events_back, 0, "what is followed moves");
}

#[test]
fn a_log_that_is_scrolled_back_stays_put_while_lines_arrive() {
    let mut desk = Desk::new();
    let attempt = desk.feed.state.backfills[&desk.id].open_attempts().remove(0);
    let lines = |n: usize| (0..n).map(|i| format!("line {i}")).collect::<Vec<_>>();
    desk.feed.log = Some((attempt.clone(), lines(50)));
    desk.send(Msg::Fed);
    desk.keys("enter l k k");
    assert_eq!(desk.machine.app.layers.last(), Some(&Layer::Log(2)));
    desk.feed.log = Some((attempt, lines(55)));
    desk.send(Msg::Fed);
    assert_eq!(desk.machine.app.layers.last(), Some(&Layer::Log(7)));
    desk.keys("g");
    assert_eq!(desk.machine.app.layers.last(), Some(&Layer::Log(54)));
    desk.keys("G");
    assert_eq!(desk.machine.app.layers.last(), Some(&Layer::Log(0)));
}

#[test]
fn l_moves_in_the_grid_and_opens_the_log_in_the_drawer() {
    let mut desk = Desk::new();
    desk.keys("l");
    assert_eq!(desk.cursor(), "2023-01-15");
    desk.keys("h enter");
    let effects = {
        desk.look();
        desk.send(Msg::Key(backfill::tui::msg::Press {
            key: "l".parse().unwrap(),
            repeat: false,
            at: desk.now,
        }))
    };
    assert_eq!(desk.cursor(), "2023-01-08");
    assert!(matches!(desk.machine.app.layers.last(), Some(Layer::Log(0))));
    assert_eq!(effects, [], "the drawer had asked for this log already");
}

#[test]
fn the_feeder_is_told_which_log_is_on_show_and_when_it_no_longer_is() {
    let mut desk = Desk::new();
    let press = |desk: &mut Desk, key: &str| {
        desk.look();
        let (key, at) = (key.parse().unwrap(), desk.now);
        desk.send(Msg::Key(backfill::tui::msg::Press {
            key,
            repeat: false,
            at,
        }))
    };
    let log = |effects: &[Effect]| match effects {
        [Effect::Watch(watch)] => watch.log.as_ref().map(ToString::to_string),
        other => panic!("{other:?}"),
    };
    let effects = press(&mut desk, "enter");
    assert_eq!(log(&effects), Some(format!("{}/2023-01-08/1", desk.id)));
    let effects = press(&mut desk, "k");
    assert_eq!(log(&effects), Some(format!("{}/2023-01-07/1", desk.id)));
    let effects = press(&mut desk, "esc");
    assert_eq!(log(&effects), None);
}

#[test]
fn holding_a_key_moves_but_never_changes_anything() {
    let mut desk = Desk::new();
    desk.look();
    desk.hold_down("j");
    assert_eq!(desk.cursor(), "2023-01-09");
    for key in ["p", "b", "R", "K", "t", "space", "q", "enter"] {
        assert_eq!(desk.hold_down(key), [], "{key}");
    }
    assert!(desk.machine.app.layers.is_empty() && desk.machine.app.marks.is_empty());
    assert!(ACTIONS.iter().all(|a| a.class == Class::Look || !a.repeats));
}

#[test]
fn a_key_without_a_meaning_is_answered_too() {
    let mut desk = Desk::new();
    desk.keys("x");
    assert_eq!(desk.said(), "x does nothing here, ? lists the keys");
    desk.wait(11_000);
    desk.send(Msg::Tick);
    assert_eq!(desk.said(), "", "after ten seconds it is gone");
}

#[test]
fn ctrl_d_moves_and_tells_once_that_it_destroys_nothing() {
    let mut desk = Desk::new();
    assert_eq!(desk.keys("ctrl-d"), []);
    assert!(desk.said().contains("K stops running days"));
}

#[test]
fn y_copies_the_id_of_the_day_and_in_the_drawer_of_its_attempt() {
    let mut desk = Desk::new();
    assert_eq!(desk.keys("y"), [Effect::Copy(format!("{}/2023-01-08", desk.id))]);
    assert_eq!(
        desk.keys("enter y"),
        [Effect::Copy(format!("{}/2023-01-08/1", desk.id))]
    );
}

#[test]
fn pasted_text_goes_into_input_lines_and_nowhere_else() {
    let mut desk = Desk::new();
    desk.send(Msg::Paste("pRy\ny".to_owned()));
    assert!(desk.machine.app.layers.is_empty());
    assert!(desk.said().contains("ignored"));
    desk.keys("/");
    desk.send(Msg::Paste("fai\u{1b}[31mled\nq".to_owned()));
    assert!(matches!(desk.machine.app.layers.last(), Some(Layer::Filter(text)) if text == "fai^[[31mled"));
}

#[test]
fn input_lines_can_be_edited() {
    let mut desk = Desk::new();
    desk.keys("/");
    desk.text("bad rowz");
    desk.fast("backspace s ctrl-w");
    desk.text("rows");
    desk.fast("enter");
    assert_eq!(desk.machine.app.filter, "bad rows");
    assert_eq!(desk.cursor(), "2023-01-06", "the failure's message matches");
}

#[test]
fn without_a_backfill_every_key_is_answered_and_nothing_breaks() {
    let memory = Memory::default();
    let id = "none-aaaaaa".parse().unwrap();
    let mut desk = Desk::at(memory, id, None);
    for place in Place::ALL {
        for c in
            (' '..='~')
                .map(String::from)
                .chain(["enter".into(), "esc".into(), "tab".into(), "up".into()])
        {
            let name = if c == " " { "space" } else { &c };
            if lookup(place, name.parse().unwrap()).is_some() {
                desk.keys(name);
                desk.machine.app.layers.clear();
            }
        }
    }
    assert_eq!(desk.cursor(), "none");
}

#[test]
fn suspend_and_refresh_are_effects() {
    let mut desk = Desk::new();
    assert_eq!(desk.keys("ctrl-z"), [Effect::Suspend]);
    assert_eq!(desk.keys("ctrl-r"), [Effect::Refresh]);
    desk.keys("/");
    assert_eq!(desk.keys("ctrl-z"), [Effect::Suspend], "also while typing");
}
