//! What holds on every screen: only safe signs, one cursor, states told without colour, ages and filters in sight.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod night;

use backfill::{
    domain::state::ChunkState,
    domain::{event::Payload, ids::ChunkId},
    tui::{
        glyphs::GlyphSet,
        model::{Layer, Zoom},
        theme::{Level, Look, Theme, Token},
        view::draw_on,
    },
};
use chrono::TimeDelta;
use night::*;
use ratatui::{
    buffer::{Buffer, Cell},
    layout::Rect,
    style::Modifier,
};
use std::collections::BTreeSet;
use unicode_width::UnicodeWidthChar;

const SIZES: [(u16, u16); 4] = [(80, 24), (120, 40), (200, 60), (60, 20)];

fn dark() -> Look {
    look("dark", Level::True, GlyphSet::Full)
}

fn plain() -> Look {
    look("dark", Level::None, GlyphSet::Ascii)
}

fn row(buf: &Buffer, y: u16) -> String {
    text(buf)
        .lines()
        .nth(usize::from(y))
        .unwrap_or_default()
        .to_owned()
}

/// Case B11: only signs that are one column wide in every locale, no solid box drawing, and ASCII is ASCII.
#[test]
fn every_sign_on_every_screen_is_safe() {
    let all = cases::all();
    for set in [GlyphSet::Full, GlyphSet::Narrow, GlyphSet::Ascii] {
        let look = look("dark", Level::True, set);
        for case in &all {
            for size in SIZES {
                let drawn = text(&screen(size, &case.feed, &case.app, &look, case.now));
                for c in drawn.chars().filter(|c| *c != '\n') {
                    assert_eq!(c.width_cjk(), Some(1), "{c:?} in {} at {size:?}", case.name);
                    let solid = ('\u{2500}'..='\u{257f}').contains(&c) && c != '╌';
                    assert!(!solid, "{c:?} in {}", case.name);
                    assert!(set != GlyphSet::Ascii || c.is_ascii(), "{c:?} in {}", case.name);
                    let braille = ('\u{2800}'..='\u{28ff}').contains(&c);
                    assert!(set == GlyphSet::Full || !braille, "{c:?} in {}", case.name);
                }
            }
        }
    }
}

/// Case B11 and S22: a year with all fourteen states, drawn without colour, shows fourteen different cells.
#[test]
fn all_states_can_be_told_apart_in_a_monochrome_dump() {
    let mut case = cases::running();
    case.app.cursor = Some(ChunkId::day(day(2022, 7, 1)));
    let mut state = (*case.feed.state).clone();
    let chunks = &mut state.backfills.get_mut(&id()).unwrap().chunks;
    for (chunk, state) in chunks.iter_mut().zip(ChunkState::ALL) {
        chunk.state = state;
    }
    case.feed.state = std::sync::Arc::new(state);
    for size in [(80, 24), (120, 40)] {
        let buf = screen(size, &case.feed, &case.app, &plain(), case.now);
        // 2022 begins on a Saturday: the first fourteen days are two of column 0, seven of column 1, five of column 2.
        let (top, pitch) = if size.0 == 80 { (9, 1) } else { (6, 2) };
        let cells: BTreeSet<String> = (0..14u16)
            .map(|n| n + 5)
            .map(|n| {
                buf[(7 + (n / 7) * pitch + pitch - 1, top + n % 7)]
                    .symbol()
                    .to_owned()
            })
            .collect();
        assert_eq!(cells.len(), 14, "{cells:?} at {size:?}");
    }
}

fn is_cursor(cell: &Cell, look: &Look) -> bool {
    let cursor = look.cursor();
    cell.modifier.contains(Modifier::REVERSED) && Some(cell.fg) == cursor.fg && Some(cell.bg) == cursor.bg
}

/// Case S21: the cursor is one place, two columns wide where days are, and shown in reverse.
#[test]
fn exactly_one_cursor_is_on_the_screen() {
    let look = dark();
    for zoom in [Zoom::Days, Zoom::Years] {
        for (size, columns) in [((80, 24), 1), ((120, 40), 2), ((200, 60), 2), ((60, 20), 1)] {
            let mut case = cases::running();
            case.app.zoom = zoom;
            let buf = screen(size, &case.feed, &case.app, &look, case.now);
            let cells = buf.content().iter().filter(|c| is_cursor(c, &look)).count();
            assert_eq!(cells, columns, "{zoom:?} {size:?}");
        }
    }
}

/// Case S22 and S13: without colour the terminal's own cursor stands on the cursor's day.
#[test]
fn without_colour_the_real_cursor_is_put_on_the_day() {
    let case = cases::running();
    let area = Rect::new(0, 0, 80, 24);
    let mut buf = Buffer::empty(area);
    let at = draw_on(
        &mut buf,
        area,
        &case.feed,
        &case.app,
        &plain(),
        &hints(),
        case.now,
    )
    .unwrap();
    let cell = &buf[(at.x, at.y)];
    assert_eq!(cell.symbol(), "Q");
    assert!(cell.modifier.contains(Modifier::REVERSED | Modifier::UNDERLINED));
    let failed = buf
        .content()
        .iter()
        .filter(|c| c.symbol() == "x" && c.modifier.contains(Modifier::REVERSED));
    assert_eq!(failed.count(), 5, "two days, their two weeks, and the legend");
    let mut coloured = Buffer::empty(area);
    let at = draw_on(
        &mut coloured,
        area,
        &case.feed,
        &case.app,
        &dark(),
        &hints(),
        case.now,
    );
    assert_eq!(at, None);
}

/// Case S13: no level writes colours that it does not have.
#[test]
fn each_level_uses_its_own_colours_only() {
    use ratatui::style::Color;
    for theme in Theme::NAMES {
        for level in [Level::None, Level::Ansi16, Level::X256, Level::True] {
            let look = look(theme, level, GlyphSet::Full);
            for case in [
                cases::running(),
                cases::with("plan", vec![cases::dialog(2, 2, None)]),
            ] {
                let buf = screen((120, 40), &case.feed, &case.app, &look, case.now);
                for cell in buf.content() {
                    for colour in [cell.fg, cell.bg] {
                        let allowed = match (level, colour) {
                            (_, Color::Reset) => true,
                            (Level::True, Color::Rgb(..)) | (Level::X256, Color::Indexed(_)) => true,
                            (Level::Ansi16, c) => !matches!(c, Color::Rgb(..) | Color::Indexed(_)),
                            _ => false,
                        };
                        assert!(allowed, "{theme} {level:?}: {colour:?}");
                    }
                }
            }
        }
    }
}

/// Case S21: what is written as text can be read, on every ground that it stands on.
#[test]
fn every_word_on_screen_has_contrast() {
    let linear = |v: u8| {
        let v = f64::from(v) / 255.0;
        if v <= 0.04045 {
            v / 12.92
        } else {
            ((v + 0.055) / 1.055).powf(2.4)
        }
    };
    let luminance = |c: ratatui::style::Color| match c {
        ratatui::style::Color::Rgb(r, g, b) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b),
        other => panic!("{other:?}"),
    };
    let all = cases::all();
    for theme in Theme::NAMES {
        let look = look(theme, Level::True, GlyphSet::Full);
        for case in &all {
            let buf = screen((120, 40), &case.feed, &case.app, &look, case.now);
            // Behind a dialog everything is dimmed on purpose.
            if case.app.layers.iter().any(|l| {
                !matches!(
                    l,
                    Layer::Drawer | Layer::Log(_) | Layer::Date(_) | Layer::Filter(_) | Layer::Reason(_)
                )
            }) {
                continue;
            }
            for cell in buf
                .content()
                .iter()
                .filter(|c| c.symbol().chars().all(|c| c.is_alphanumeric()))
            {
                let (a, b) = (luminance(cell.fg), luminance(cell.bg));
                let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
                assert!(contrast >= 4.5, "{theme} {}: {:?} {contrast:.2}", case.name, cell);
            }
        }
    }
}

/// Case B13: the end is on screen without a key, and the header names the order that is shown.
#[test]
fn a_terminal_state_is_on_the_screen_at_once() {
    for size in SIZES {
        let case = cases::complete();
        let drawn = text(&screen(size, &case.feed, &case.app, &dark(), case.now));
        assert!(
            drawn.contains("COMPLETE") && drawn.contains("orders-rebuild"),
            "{size:?}"
        );
        assert!(drawn.contains("91"), "{size:?}");
    }
}

/// Case B13: data older than it should be carries its age.
#[test]
fn old_data_says_since_when() {
    let mut case = cases::running();
    case.feed.as_of = case.now - TimeDelta::seconds(40);
    for size in [(80, 24), (120, 40), (200, 60)] {
        let buf = screen(size, &case.feed, &case.app, &dark(), case.now);
        assert!(text(&buf).contains("as of 03:09:40"), "{size:?}");
    }
    case.feed.problem = Some("database is locked".to_owned());
    let buf = screen((120, 40), &case.feed, &case.app, &dark(), case.now);
    assert!(row(&buf, 3).contains("the journal cannot be read since 03:09:40: database is locked"));
}

/// Case S26: a filter is in the title with what it hides.
#[test]
fn an_active_filter_is_in_the_title_with_what_it_hides() {
    let case = cases::filtered();
    for size in [(80, 24), (120, 40), (200, 60), (60, 20)] {
        let drawn = text(&screen(size, &case.feed, &case.app, &dark(), case.now));
        assert!(drawn.contains("/failed: 1,094 hidden"), "{size:?}\n{drawn}");
    }
    let mut bad = cases::running();
    bad.app.only_bad = true;
    let drawn = text(&screen((120, 40), &bad.feed, &bad.app, &dark(), bad.now));
    assert!(drawn.contains("only failed and quarantined: 1,093 hidden"));
}

/// Case S15: a mark or cursor whose day is gone is named, never moved to another day.
#[test]
fn what_vanished_is_said_to_have_vanished() {
    let mut case = cases::running();
    case.app.cursor = Some(ChunkId::day(day(2031, 1, 1)));
    let buf = screen((120, 40), &case.feed, &case.app, &dark(), case.now);
    assert!(row(&buf, 38).contains("2031-01-01 is not part of this backfill any more"));
    let look = dark();
    assert_eq!(buf.content().iter().filter(|c| is_cursor(c, &look)).count(), 0);
    case.app.marks.insert("2031-01-01".to_owned());
    case.app.marks.insert("2022-02-02".to_owned());
    let buf = screen((120, 40), &case.feed, &case.app, &dark(), case.now);
    assert!(row(&buf, 38).contains("1 day selected 2022-02-02. 1 mark not part of it any more"));
}

/// Case S15: after anything happened, cursor and marks stand on the same days.
#[test]
fn cursor_and_marks_stay_on_their_days_when_others_change() {
    let look = dark();
    let before = cases::running();
    let mut after = cases::paused_by_signal();
    after.app = before.app.clone();
    let place = |case: &cases::Case| {
        let buf = screen((120, 40), &case.feed, &case.app, &look, case.now);
        let mut at = None;
        for y in 0..40 {
            for x in 0..120 {
                if is_cursor(&buf[(x, y)], &look) {
                    at = Some((x, row(&buf, 38).chars().take(16).collect::<String>()));
                }
            }
        }
        at.unwrap()
    };
    assert_eq!(place(&before), place(&after));
}

/// Case S16: Cancel has the focus, keys are printed, and environment, count and days are named.
#[test]
fn a_plan_dialog_names_what_it_would_do_and_focuses_cancel() {
    let look = dark();
    for size in [(80, 24), (120, 40), (200, 60), (60, 20)] {
        let case = cases::with("plan", vec![cases::dialog(2, 2, None)]);
        let buf = screen(size, &case.feed, &case.app, &look, case.now);
        let drawn = text(&buf);
        for words in [
            "Re-run 2 failed days",
            "PROD",
            "airflow-eu",
            "2 days, 2 attempts",
            "2022-06-19",
            "y run 2 days",
        ] {
            assert!(drawn.contains(words), "{words} at {size:?}\n{drawn}");
        }
        let focus: String = buf
            .content()
            .iter()
            .filter(|c| is_cursor(c, &look))
            .map(Cell::symbol)
            .collect();
        assert!(focus.contains("Cancel"), "{focus} at {size:?}");
    }
}

/// Case B05: a preview names the zone of its dates.
#[test]
fn a_plan_dialog_names_the_zone_of_its_dates() {
    let case = cases::with("plan", vec![cases::dialog(2, 2, None)]);
    let drawn = text(&screen((80, 24), &case.feed, &case.app, &dark(), case.now));
    assert!(drawn.contains("dates of Europe/Berlin"), "{drawn}");
}

/// Read-only is said with where it comes from, and no name of a host hides the order's own.
#[test]
fn read_only_stands_left_of_the_owner() {
    let case = cases::read_only();
    let buf = screen((120, 40), &case.feed, &case.app, &dark(), case.now);
    let top = row(&buf, 0);
    assert!(top.starts_with(" orders-rebuild  PROD"), "{top}");
    assert!(top.contains("READ-ONLY   scheduler-0.backfills"), "{top}");
    assert!(row(&buf, 38).contains("held 14 days; z undoes it"));
    let wide = screen((200, 60), &case.feed, &case.app, &dark(), case.now);
    assert!(
        row(&wide, 0).contains("READ-ONLY by BACKFILL_READ_ONLY"),
        "{}",
        row(&wide, 0)
    );
    let gone = screen(
        (120, 40),
        &case.feed,
        &case.app,
        &dark(),
        case.now + TimeDelta::seconds(9),
    );
    assert!(!row(&gone, 38).contains("undoes"), "a toast lasts ten seconds");
}

/// Case S17: the key that opened a dialog is never offered in it.
#[test]
fn the_opening_key_is_not_offered_in_its_dialog() {
    let case = cases::with("plan", vec![cases::dialog(2, 2, None)]);
    let drawn = text(&screen((120, 40), &case.feed, &case.app, &dark(), case.now));
    let buttons = drawn.lines().find(|l| l.contains("Cancel")).unwrap();
    assert!(
        buttons.contains(" y run") && !buttons.contains(" r "),
        "{buttons}"
    );
}

#[test]
fn a_class_three_dialog_waits_for_its_phrase() {
    let half = cases::with("plan", vec![cases::dialog(28, 3, Some(("28", "2")))]);
    let drawn = text(&screen((120, 40), &half.feed, &half.app, &dark(), half.now));
    assert!(drawn.contains("enter run 28 days after the phrase"));
    let ready = cases::with("plan", vec![cases::dialog(28, 3, Some(("28", "28")))]);
    let drawn = text(&screen((120, 40), &ready.feed, &ready.app, &dark(), ready.now));
    assert!(drawn.contains("enter run 28 days") && !drawn.contains("after the phrase"));
}

#[test]
fn the_bar_of_a_dialog_has_the_colour_of_its_class() {
    let look = dark();
    for (class, token) in [(1, Token::Info), (2, Token::Warn), (3, Token::Bad)] {
        let case = cases::with("plan", vec![cases::dialog(2, class, None)]);
        let buf = screen((120, 40), &case.feed, &case.app, &look, case.now);
        let bars = buf
            .content()
            .iter()
            .filter(|c| c.symbol() == "▐" && Some(c.fg) == look.ink(token).fg);
        assert!(bars.count() > 15, "class {class}");
    }
}

/// Case B05: the zone stands next to every date entry.
#[test]
fn a_date_prompt_names_the_zone() {
    let case = cases::with("date", vec![Layer::Date("2023".to_owned())]);
    let area = Rect::new(0, 0, 80, 24);
    let mut buf = Buffer::empty(area);
    let at = draw_on(&mut buf, area, &case.feed, &case.app, &dark(), &hints(), case.now).unwrap();
    assert!(row(&buf, 22).contains("go to 2023") && row(&buf, 22).contains("Europe/Berlin"));
    assert_eq!((at.x, at.y), (11, 22));
}

/// Case S23: hours of a changed day, and days of any zone, stand on their civil date.
#[test]
fn chunks_of_every_length_are_drawn_on_their_civil_days() {
    use backfill::domain::calendar::Granularity as G;
    for (granularity, count) in [(G::Hour, 26_304), (G::Day, 1_096), (G::Week, 158), (G::Month, 36)] {
        let mut journal = Journal::new(id());
        let mut spec = spec();
        spec.granularity = granularity;
        journal.push(
            clock(3, 0, 0),
            human("minh"),
            Payload::Started {
                spec: Box::new(spec),
                hash: "h".to_owned(),
            },
        );
        let mut feed = feed(&journal, t0310(), None);
        let first = feed.state.backfills[&id()].chunks[0].id;
        let mut app = app();
        app.cursor = Some(first);
        feed.executors.clear();
        let buf = screen((120, 40), &feed, &app, &dark(), t0310());
        let drawn = text(&buf);
        let shown: u32 = count;
        let all = if shown < 10_000 {
            backfill::tui::view::numbers::exact(u64::from(shown))
        } else {
            "26,304".to_owned()
        };
        assert!(
            drawn
                .lines()
                .next()
                .unwrap()
                .contains(&format!("{all} {}s", granularity.word())),
            "{drawn}"
        );
        // Saturday 1 January 2022 is column 0, row Saturday: the cursor's cell, on all of them.
        assert!(is_cursor(&buf[(8, 11)], &dark()), "{granularity:?}");
        // Every day inside the range has a cell, and no other has.
        let days = (6..13).flat_map(|y| (7..113).step_by(2).map(move |x| (x, y)));
        let filled = days.filter(|(x, y)| buf[(*x, *y)].symbol() == "⢠").count();
        assert_eq!(filled, 364, "{granularity:?}: all of 2022 but the cursor's day");
    }
}

/// Case B16: while cancelling the header says how much still has to end.
#[test]
fn cancelling_says_what_still_runs() {
    let mut journal = night();
    journal.push(clock(3, 10, 10), human("minh"), Payload::CancelRequested {});
    let feed = feed(&journal, t0310(), None);
    let buf = screen((120, 40), &feed, &app(), &dark(), t0310());
    assert!(row(&buf, 2).contains("CANCELLING"));
    assert!(row(&buf, 3).contains("cancelled by minh at 03:10:10: 7 attempts still to end"));
}

/// Case B30: a cap below what runs is shown as both numbers at once.
#[test]
fn a_cap_below_what_runs_shows_both_numbers() {
    let mut journal = night();
    journal.because(
        clock(3, 10, 10),
        human("minh"),
        Some("leave room"),
        Payload::CapSet { cap: Some(3) },
    );
    let feed = feed(&journal, t0310(), Some(0.0));
    let buf = screen((120, 40), &feed, &app(), &dark(), t0310());
    assert!(row(&buf, 2).contains("7 of 3"));
    assert!(
        row(&buf, 3)
            .contains("limit 3: cap set by minh at 03:10:10: \"leave room\"; the controller would allow 4")
    );
}

#[test]
fn nobody_supervising_is_said_twice_and_nothing_promises_an_end() {
    let mut case = cases::running();
    alone(&mut case.feed, case.now);
    let buf = screen((120, 40), &case.feed, &case.app, &dark(), case.now);
    assert!(row(&buf, 0).contains("nobody supervises"));
    assert!(row(&buf, 2).contains("NOBODY SUPERVISES"));
    assert!(row(&buf, 2).contains("of work left"));
    assert!(row(&buf, 3).contains("nothing will start; 7 attempts run on by themselves"));
}

/// Of the night's two failed days one is tried again at 03:12:30: nobody has to get up for that one.
#[test]
fn what_retries_by_itself_does_not_need_you() {
    let case = cases::running();
    for (size, y) in [((80, 24), 2), ((120, 40), 2), ((200, 60), 2), ((60, 20), 1)] {
        let buf = screen(size, &case.feed, &case.app, &dark(), case.now);
        assert!(
            row(&buf, y).contains(" 1 failed  1 quar"),
            "{size:?}: {}",
            row(&buf, y)
        );
    }
    let buf = screen((120, 40), &case.feed, &case.app, &dark(), case.now);
    assert!(
        row(&buf, 4).contains("failed 2"),
        "the legend counts states: {}",
        row(&buf, 4)
    );
}

#[test]
fn a_count_of_zero_is_silent() {
    let case = cases::complete();
    let buf = screen((120, 40), &case.feed, &case.app, &dark(), case.now);
    let drawn: String = (0..39).map(|y| row(&buf, y) + "\n").collect();
    assert!(!drawn.contains("failed") && !drawn.contains("pending"), "{drawn}");
    assert!(drawn.lines().nth(2).unwrap().contains("none"));
}

/// Under 40x10 there is one line, and a dialog that cannot be seen says so.
#[test]
fn one_line_is_left_on_a_tiny_screen() {
    let case = cases::running();
    let buf = screen((39, 9), &case.feed, &case.app, &dark(), case.now);
    assert!(row(&buf, 0).starts_with("RUNNING  1 failed"), "{}", row(&buf, 0));
    let case = cases::with("plan", vec![cases::dialog(2, 2, None)]);
    let buf = screen((39, 9), &case.feed, &case.app, &dark(), case.now);
    assert!(row(&buf, 0).starts_with("a dialog is open"));
}

/// Case S32, B12: with 36,500 chunks a key is on the screen in a frame. The benchmark holds the 16 ms; this guard
/// holds ten times that, without optimisation.
#[test]
fn a_century_of_days_is_drawn_at_once() {
    let mut journal = Journal::new(id());
    let mut spec = spec();
    (spec.start, spec.end) = (day(1925, 1, 1), day(2024, 12, 31));
    journal.push(
        clock(3, 0, 0),
        human("minh"),
        Payload::Started {
            spec: Box::new(spec),
            hash: "h".to_owned(),
        },
    );
    let feed = feed(&journal, t0310(), None);
    let look = dark();
    for zoom in [Zoom::Days, Zoom::Years] {
        let mut app = app();
        app.zoom = zoom;
        let mut least = std::time::Duration::MAX;
        for d in 0..5 {
            app.cursor = Some(ChunkId::day(day(1970, 3, 2) + TimeDelta::days(d)));
            let before = std::time::Instant::now();
            let buf = screen((200, 60), &feed, &app, &look, t0310());
            least = least.min(before.elapsed());
            assert!(text(&buf).contains("36,525 days"));
            assert!(text(&buf).contains("1970"));
        }
        assert!(
            least < std::time::Duration::from_millis(160),
            "{zoom:?} {least:?}"
        );
    }
}
