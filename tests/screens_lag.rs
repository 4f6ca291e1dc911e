//! The lag on the screen: numbers that are whole, what a signal is made of, the law's one line, and how old it all is.
//! Review changed pictures with `cargo insta review`.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod night;

use backfill::{
    config::Unit,
    domain::Time,
    plan::throttle::BlindReport,
    tui::{
        glyphs::GlyphSet,
        model::{App, Feed, Layer, Panel},
        theme::{Level, Look, Token},
    },
};
use chrono::TimeDelta;
use night::*;
use rstest::rstest;
use std::{fmt::Write, sync::Arc, time::Duration};

/// The night with a lag in messages that is at `value` and moves by `slope` a second.
fn moving(value: f64, slope: f64) -> Feed {
    let mut feed = feed(&night(), t0310(), Some(slope));
    for signal in feed.signals.values_mut() {
        signal.unit = Unit::Messages;
        (signal.low, signal.soft, signal.hard, signal.critical) = (10e3, 20e3, 60e3, 400e3);
        signal.samples.iter_mut().for_each(|(_, v)| *v = Some(value));
    }
    feed
}

fn lines(feed: &Feed, app: &App) -> Vec<String> {
    let look = look("dark", Level::True, GlyphSet::Full);
    let text = text(&screen((80, 24), feed, app, &look, t0310()));
    text.lines().map(str::to_owned).collect()
}

/// What stands below LAG in the header.
fn slot(lines: &[String]) -> String {
    let column = |word: &str| lines[1].split(word).next().unwrap().chars().count();
    let (from, to) = (column("LAG"), column("DONE"));
    lines[2].chars().take(to).skip(from).collect()
}

#[rstest]
#[case::minutes(6_597.0, 74.5, "6,597 ▴ soft 3m")]
#[case::hours(25.0, 1.8, "25 ▴ soft 3h05m")]
#[case::seconds(11_300.0, 800.0, "11.3k ▴ soft 11s")]
#[case::long_words(185_300.0, 200.0, "185k ▴ 200/s")]
#[case::room_enough(900.0, 300.0, "900 ▴ soft 1m04s")]
#[case::falling(12_000.0, -400.0, "12.0k ▾ low in 5s")]
fn the_time_to_a_threshold_is_told_in_fewer_words_and_never_cut_off(
    #[case] value: f64,
    #[case] slope: f64,
    #[case] says: &str,
) {
    let lines = lines(&moving(value, slope), &app());
    assert_eq!(slot(&lines).trim_end(), says);
}

#[rstest]
#[case(0.0, -2_078.0)]
#[case(99_900.0, 12_345.0)]
#[case(9_999.0, -99.9)]
fn on_the_page_of_signals_every_number_stands_apart(#[case] value: f64, #[case] slope: f64) {
    let mut app = app();
    app.focus = Panel::Lag;
    app.layers = vec![Layer::Drawer];
    let lines = lines(&moving(value, slope), &app);
    let row = lines
        .iter()
        .skip(4)
        .rfind(|l| l.contains("orders-live ") && l.contains("60.0k"));
    let words: Vec<&str> = row.unwrap().split_whitespace().collect();
    let sign = if slope < 0.0 { '-' } else { '+' };
    assert!(words[2].starts_with(sign), "{words:?}");
    assert_eq!(words[3..7], ["10.0k", "20.0k", "60.0k", "400k"]);
}

fn plain() -> Look {
    look("dark", Level::None, GlyphSet::Ascii)
}

fn drawn(case: &cases::Case, size: (u16, u16), look: &Look) -> String {
    text(&screen(size, &case.feed, &case.app, look, case.now))
}

/// The page with the parts: with colours and squares, with neither, and with the signs of a full font without colours.
#[test]
fn the_parts_of_a_signal_look_as_they_did() {
    let looks = [
        ("colour", look("dark", Level::True, GlyphSet::Full)),
        ("ascii", plain()),
        ("no-colour", look("dark", Level::None, GlyphSet::Full)),
    ];
    for case in [
        cases::lag_parts(),
        cases::lag_parts_paused(),
        cases::parts_at_home(),
    ] {
        let mut out = String::new();
        for (name, look) in &looks {
            for size in [(80, 24), (120, 40), (200, 60)] {
                let _ = writeln!(out, "==== {name} {}x{}", size.0, size.1);
                out.push_str(&drawn(&case, size, look));
            }
        }
        insta::assert_snapshot!(case.name, out);
    }
}

/// The column of a sign in a line.
fn column(line: &str, sign: char) -> Option<usize> {
    line.chars().position(|c| c == sign)
}

#[test]
fn the_limit_was_cut_in_the_column_in_which_the_worst_part_passed_soft() {
    for size in [(80, 24), (120, 40), (200, 60)] {
        let page = drawn(&cases::lag_parts(), size, &plain());
        let (part, strip) = (
            page.lines().find(|l| l.starts_with(" 17 ")).unwrap(),
            page.lines().find(|l| l.trim_end().ends_with("limit")).unwrap(),
        );
        let soft = column(&part[4..], '=').unwrap() + 4;
        let cut = column(strip, '4').unwrap();
        // It passed soft 15 s before the cut; its column is that of the minute.
        assert!((0..=4).contains(&(cut as i64 - soft as i64)), "{size:?}\n{page}");
    }
}

/// However many there are: the worst have rows, and the last row says how the others are.
#[test]
fn of_more_parts_than_rows_the_worst_are_seen_and_the_rest_is_told() {
    let mut case = cases::lag_parts();
    let page = drawn(&case, (80, 24), &plain());
    assert!(page.contains("worst first; 29 more, all below soft"), "{page}");
    let rows: Vec<&str> = page.lines().skip(9).collect();
    let begins: Vec<&str> = rows[1..5].iter().map(|l| l[1..8].trim()).collect();
    assert_eq!(begins, ["17", "3", "20", "29 more"], "{page}");
    // One that has no number any more comes before those that are only high, and is not passed over in silence.
    let mut view = parts::of(case.now);
    for part in ["20", "21", "22", "23"] {
        let part = view
            .parts
            .get_mut(&format!("orders-app/orders.v2/{part}"))
            .unwrap();
        part.cells.back_mut().unwrap().last = None;
    }
    case.feed.parts = Some(Arc::new(view));
    let page = drawn(&case, (80, 24), &plain());
    assert!(
        page.contains("worst first; 29 more, 2 past soft, 1 without a number"),
        "{page}"
    );
}

/// Only the worst are recorded of very many: then it is said how many there are.
#[test]
fn of_more_parts_than_are_recorded_it_is_told_how_many_are_left_out() {
    let mut case = cases::lag_parts();
    let mut view = parts::of(case.now);
    view.of = Some(1_234);
    case.feed.parts = Some(Arc::new(view));
    for size in [(80, 24), (120, 40)] {
        let page = drawn(&case, size, &plain());
        assert!(page.contains("500 of 1,234 parts"), "{page}");
    }
    let page = drawn(&cases::lag_parts(), (120, 40), &plain());
    assert!(!page.contains("500 of"), "{page}");
}

/// The last reading had no such part: what it said before is no number of now. Where only the worst are recorded it
/// is no alarm either, since better ones fall out of the record all the time.
#[test]
fn a_part_that_the_newest_reading_does_not_have_has_no_number() {
    let mut case = cases::lag_parts();
    let mut view = parts::of(case.now);
    let part = view.parts.get_mut("orders-app/orders.v2/17").unwrap();
    part.cells.back_mut().unwrap().seen -= TimeDelta::seconds(1);
    case.feed.parts = Some(Arc::new(view.clone()));
    let rows = |case: &cases::Case| -> Vec<String> {
        let page = drawn(case, (120, 40), &plain());
        let rows = page.lines().skip_while(|l| !l.contains("LAG BY PART")).skip(1);
        rows.map(|l| l.trim_end().to_owned()).collect()
    };
    let first = rows(&case).remove(0);
    assert!(first.starts_with(" 17 ") && first.ends_with('?'), "{first}");
    view.of = Some(1_234);
    case.feed.parts = Some(Arc::new(view));
    let rows = rows(&case);
    assert!(!rows[0].starts_with(" 17 "), "{rows:#?}");
    assert!(
        !rows.iter().any(|l| l.starts_with(" 17 ") && !l.ends_with('?')),
        "{rows:#?}"
    );
}

#[test]
fn a_signal_that_is_one_number_has_its_page_as_ever() {
    let mut case = cases::lag_parts();
    case.feed.throttle = None;
    let view = parts::of(case.now);
    let before = {
        case.feed.parts = None;
        drawn(&case, (120, 40), &plain())
    };
    let mut one = view.clone();
    one.parts.retain(|name, _| name.ends_with("/17"));
    case.feed.parts = Some(Arc::new(one));
    assert_eq!(drawn(&case, (120, 40), &plain()), before);
    let mut others = view;
    others.signal = name("another");
    case.feed.parts = Some(Arc::new(others));
    assert_eq!(drawn(&case, (120, 40), &plain()), before);
    assert!(!before.contains("LAG BY PART"));
}

/// The same with the newest sample so old.
fn aged(mut case: cases::Case, seconds: i64) -> cases::Case {
    let last = case.feed.signals[&name("orders-live")].samples.back().unwrap().0;
    case.now = last + TimeDelta::seconds(seconds);
    case.feed.as_of = case.now;
    case.feed.throttle = Some((case.now - TimeDelta::seconds(2), parts::law()));
    case
}

/// Whether the first such text on a screen is drawn in this ink.
fn is_inked(case: &cases::Case, size: (u16, u16), what: &str, token: Token) -> bool {
    let look = look("dark", Level::True, GlyphSet::Full);
    let buf = screen(size, &case.feed, &case.app, &look, case.now);
    let lines = text(&buf);
    let (y, x) = lines
        .lines()
        .enumerate()
        .find_map(|(y, line)| Some((y, line[..line.find(what)?].chars().count())))
        .unwrap_or_else(|| panic!("no {what:?} in\n{lines}"));
    buf[(x as u16, y as u16)].fg == look.ink(token).fg.unwrap()
}

/// Case S07. Two polls are missing: every panel that shows the number says how old it is, and shows it in grey.
#[test]
fn a_number_that_is_older_than_two_intervals_is_grey_and_tells_its_age_wherever_it_stands() {
    let throttle = || cases::with("throttle", vec![Layer::Throttle(String::new())]);
    let all = || {
        [
            cases::lag_parts(),
            cases::parts_at_home(),
            cases::running(),
            theirs::with_a_signal(),
        ]
    };
    for size in [(80, 24), (120, 40), (200, 60)] {
        for (fresh, old) in all().into_iter().zip(all()) {
            let fresh = drawn(&aged(fresh, 29), size, &plain());
            assert!(!fresh.contains("s old") && !fresh.contains("as of"), "{fresh}");
            let old = aged(old, 40);
            let page = drawn(&old, size, &plain());
            // The header, and the panel's title.
            assert!(page.contains(" s 40s old"), "{page}");
            assert!(page.contains("as of 03:10:10, 40s old"), "{page}");
            assert!(page.contains("was 96") && !page.contains("now 96"), "{page}");
            assert!(is_inked(&old, size, "96 s 40s old", Token::Muted));
            assert!(is_inked(&old, size, "was 96", Token::Muted));
            assert!(is_inked(&old, size, "as of 03:10:10", Token::Warn));
        }
        let page = drawn(&aged(cases::lag_parts(), 40), size, &plain());
        let says = law(&aged(cases::lag_parts(), 40), size);
        assert!(says.contains("its sample is 40s old, room"), "{says}");
        let health = page
            .lines()
            .find(|l| l.contains("orders-live") && l.contains("900"));
        assert!(
            health.is_some_and(|l| l.trim_end().ends_with("late 40s")),
            "{page}"
        );
        let panel = |age| {
            let panel = drawn(&aged(throttle(), age), size, &plain()).replace('|', " ");
            panel.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert!(panel(40).contains("lag 96 s, 40s old, peak"), "{}", panel(40));
        assert!(panel(29).contains("lag 96 s, peak"), "{}", panel(29));
    }
}

/// Case S07. A part's number is no newer than the signal's.
#[test]
fn the_numbers_of_parts_go_grey_with_the_signals_and_are_none_once_they_are_too_old() {
    let size = (120, 40);
    let old = aged(cases::lag_parts(), 40);
    let row = |case: &cases::Case| -> String {
        let page = drawn(case, size, &plain());
        page.lines().find(|l| l.starts_with(" 17 ")).unwrap().to_owned()
    };
    assert!(row(&old).trim_end().ends_with("96"), "{}", row(&old));
    let value = |case: &cases::Case| {
        let look = look("dark", Level::True, GlyphSet::Full);
        let buf = screen(size, &case.feed, &case.app, &look, case.now);
        let y = (0..40).find(|y| buf[(1, *y)].symbol() == "1" && buf[(2, *y)].symbol() == "7");
        let x = (0..120).rev().find(|x| buf[(*x, y.unwrap())].symbol() == "6");
        (buf[(x.unwrap(), y.unwrap())].fg, look)
    };
    let (ink, look) = value(&old);
    assert_eq!(Some(ink), look.ink(Token::Muted).fg);
    let (ink, look) = value(&cases::lag_parts());
    assert_eq!(Some(ink), look.ink(Token::Warn).fg);
    let gone = aged(cases::lag_parts(), 100);
    assert!(
        drawn(&gone, size, &plain())
            .lines()
            .any(|l| l.starts_with(" 0 ") && l.trim_end().ends_with('?')),
        "a number that is too old is none"
    );
}

/// The law's line of the page, its rows joined.
fn law(case: &cases::Case, size: (u16, u16)) -> String {
    let page = drawn(case, size, &plain());
    let lines = page.lines().skip_while(|l| !l.starts_with(" law "));
    let said = lines.take_while(|l| l.starts_with(" law ") || l.starts_with("      "));
    let words: Vec<&str> = said.flat_map(str::split_whitespace).collect();
    words.join(" ")
}

fn told(now: Time, change: impl FnOnce(&mut backfill::plan::throttle::Report)) -> cases::Case {
    let mut case = cases::lag_parts();
    let mut report = parts::law();
    change(&mut report);
    case.feed.throttle = Some((now, report));
    case
}

#[test]
fn the_laws_line_tells_room_what_runs_what_one_more_costs_the_peak_and_the_next_step() {
    for size in [(80, 24), (120, 40), (200, 60)] {
        assert_eq!(
            law(&cases::lag_parts(), size),
            "law room 2.2, running 7, one more costs +12 s/min, peak 171 s foreseen at 03:16, next: cut 4 to 3 in 22s"
        );
    }
    let now = cases::lag_parts().now;
    let silent = told(now - TimeDelta::seconds(75), |_| {});
    assert!(
        law(&silent, (120, 40)).starts_with("law as of 1m15s ago, room 2.2"),
        "{}",
        law(&silent, (120, 40))
    );
}

/// What is not known is said to be unknown, and nothing stands in for it.
#[test]
fn while_it_is_blind_the_laws_line_has_no_room_and_no_peak() {
    let now = cases::lag_parts().now;
    let blind = told(now, |report| {
        report.signals[0].blind = Some(BlindReport {
            signal: name("orders-live"),
            since: now - TimeDelta::seconds(150),
            age: Duration::from_secs(150),
            why: "empty result".to_owned(),
            halves: (4, now),
            stops: now,
            stopped: false,
            protects: true,
        });
    });
    let says = law(&blind, (120, 40));
    assert!(
        says.starts_with("law room unknown, no valid sample for 2m30s: empty result")
            && !says.contains("peak"),
        "{says}"
    );
    let young = told(now, |report| {
        (report.terms, report.signals[0].mean) = (None, None)
    });
    assert_eq!(law(&young, (120, 40)), "law room unknown");
}

/// While the learned law holds at nothing: when lag is below half of soft, by the model and with what still runs.
#[rstest]
#[case::falls(-48.8, 2, "next: lag OK at 03:22, below 30 s")]
#[case::what_runs_holds_it_up(-20.0, 2, "next: lag has to fall below 30 s and does not fall")]
#[case::nothing_runs_any_more(-20.0, 0, "next: lag OK at 03:23, below 30 s")]
fn the_drain_time_of_the_learned_law_is_that_of_its_model(
    #[case] drift: f64,
    #[case] running: u32,
    #[case] says: &str,
) {
    let mut case = cases::lag_parts_paused();
    let (_, report) = case.feed.throttle.as_mut().unwrap();
    let (_, terms) = report.terms.as_mut().unwrap();
    (terms.drift, terms.running) = (drift, running);
    let line = law(&case, (120, 40));
    assert!(line.ends_with(says), "{line}");
}

/// The classic law goes on below low after five minutes, with half; the learned one below half of soft after two.
#[test]
fn the_drain_clock_counts_to_the_level_of_the_law_that_holds() {
    let rows = |case: &cases::Case| {
        let home = drawn(case, (120, 40), &plain());
        let clock = home
            .lines()
            .skip_while(|l| !l.contains("DRAIN CLOCK"))
            .skip(1)
            .take(3);
        let right = |line: &str| line.chars().skip(72).collect::<String>();
        clock
            .map(|line| right(line).split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let mut case = cases::paused_by_signal();
    let classic = rows(&case);
    assert!(classic[1].contains("below low 30 03:22:49"), "{classic:?}");
    assert!(classic[2].contains("resume at 2 03:27:49"), "{classic:?}");
    case.feed.throttle = Some((case.now, parts::law_that_paused()));
    let learned = rows(&case);
    assert!(learned[1].contains("below 30 03:22:49"), "{learned:?}");
    assert!(learned[2].contains("resume 03:24:49"), "{learned:?}");
}
