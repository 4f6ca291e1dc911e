//! Case S07: a number that is old says so, and does not look like one that is new.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod night;

use backfill::tui::{
    glyphs::GlyphSet,
    model::{App, Feed, Layer, Panel},
    theme::{Level, Look, Token},
};
use chrono::TimeDelta;
use night::*;
use ratatui::buffer::Buffer;

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

fn dark() -> Look {
    look("dark", Level::True, GlyphSet::Full)
}

/// The night, with a newest sample that is older by so many seconds than the ten that it is.
fn aged(seconds: i64) -> Feed {
    let mut feed = feed(&night(), t0310(), Some(0.7));
    for signal in feed.signals.values_mut() {
        for (at, _) in &mut signal.samples {
            *at -= TimeDelta::seconds(seconds);
        }
    }
    feed
}

fn page() -> App {
    let mut app = app();
    app.focus = Panel::Lag;
    app.layers = vec![Layer::Drawer];
    app
}

fn drawn(size: (u16, u16), feed: &Feed, app: &App) -> Buffer {
    screen(size, feed, app, &dark(), t0310())
}

/// The cells of the first place where a text stands.
fn cells<'a>(buf: &'a Buffer, wanted: &str) -> Vec<&'a ratatui::buffer::Cell> {
    let length = wanted.chars().count();
    let all: Vec<_> = buf.content().iter().collect();
    let at = all.windows(length).position(|cells| {
        let text: String = cells.iter().map(|c| c.symbol()).collect();
        text == wanted
    });
    all[at.unwrap()..][..length].to_vec()
}

#[test]
fn past_a_minute_an_old_lag_is_no_number_of_now_on_any_panel() {
    for size in SIZES {
        let fresh = text(&drawn(size, &aged(0), &app()));
        assert!(
            fresh.contains("96 s") && !fresh.contains("no sample"),
            "{size:?}\n{fresh}"
        );
        for age in [60, 400] {
            let feed = aged(age);
            let old = text(&drawn(size, &feed, &app()));
            let header: Vec<&str> = old.lines().take(3).collect();
            assert!(header.join("\n").contains("no sample"), "{size:?}\n{old}");
            assert!(!old.contains("now 96"), "{size:?}\n{old}");
            assert!(
                !old.contains("hard in 2m"),
                "nor does it foretell anything\n{old}"
            );
            let page = text(&drawn(size, &feed, &page()));
            assert!(!page.contains("now 96"), "{size:?}\n{page}");
        }
    }
}

#[test]
fn an_old_lag_is_shown_with_its_age_and_in_grey() {
    let muted = dark().ink(Token::Muted).fg;
    let feed = aged(90);
    let buf = drawn((120, 40), &feed, &app());
    for cell in cells(&buf, "96 s 1m ago") {
        assert_eq!(Some(cell.fg), muted);
    }
    let panel = text(&buf);
    assert!(panel.contains("no samples since 03:08:40"), "{panel}");
    assert!(panel.contains("now ?"), "{panel}");
}

#[test]
fn the_page_of_signals_says_how_old_each_sample_is_however_new() {
    for (age, says) in [(0, "10s"), (20, "30s"), (40, "50s"), (90, "1m40s")] {
        for size in SIZES {
            let page = text(&drawn(size, &aged(age), &page()));
            let row = page.lines().rfind(|l| l.starts_with(" orders-live ")).unwrap();
            assert!(row.contains(says), "{size:?}, {age}\n{page}");
        }
    }
}

#[test]
fn the_page_of_endpoints_says_when_each_answered_last_and_marks_what_is_late() {
    let mut app = app();
    app.focus = Panel::Executors;
    let warn = dark().ink(Token::Warn).fg;
    let buf = drawn((120, 40), &aged(0), &app);
    let shown = text(&buf);
    let row = shown.lines().position(|l| l.contains("emr-nightly")).unwrap();
    assert!(
        shown.lines().nth(row).unwrap().trim_end().ends_with("6m"),
        "{shown}"
    );
    let last = (0..buf.area.width)
        .rev()
        .map(|x| &buf[(x, row as u16)])
        .find(|c| c.symbol() != " ");
    assert_eq!(Some(last.unwrap().fg), warn);
}
