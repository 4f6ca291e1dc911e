//! Numbers about a lag on a small screen: each is whole, and no two of them run into each other.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod night;

use backfill::{
    config::Unit,
    tui::{
        glyphs::GlyphSet,
        model::{App, Feed, Layer, Panel},
        theme::Level,
    },
};
use night::*;
use rstest::rstest;

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
