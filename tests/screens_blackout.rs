//! The home screen in a blackout and shortly before one, at 80x24 and 200x60. Review changes with `cargo insta review`.
#![allow(clippy::unwrap_used, clippy::panic)]

mod night;

use backfill::{
    domain::event::Payload,
    tui::{glyphs::GlyphSet, theme::Level},
};
use night::*;

/// The running night at 03:10 with a window in its order.
fn with_window(from: &str, to: &str, change: impl FnOnce(&mut Journal)) -> String {
    let mut journal = night();
    let mut spec = spec();
    let window = serde_json::json!({"from": from, "to": to, "days": "daily", "timezone": "Europe/Berlin"});
    spec.blackout = vec![serde_json::from_value(window).unwrap()];
    let amended = Payload::Amended {
        spec: Box::new(spec),
        hash: "9f31c3".to_owned(),
    };
    journal.push(t0310(), human("minh"), amended);
    change(&mut journal);
    let feed = feed(&journal, t0310(), None);
    let look = look("dark", Level::None, GlyphSet::Full);
    let mut out = String::new();
    for size in [(80, 24), (200, 60)] {
        out.push_str(&format!("==== {}x{}\n", size.0, size.1));
        out.push_str(&text(&screen(size, &feed, &app(), &look, t0310())));
    }
    out
}

#[test]
fn in_a_blackout_the_screen_says_which_window_and_until_when() {
    let drawn = with_window("03:00", "06:00", |_| {});
    for wanted in [
        "BLACKOUT",
        "blackout until 06:00:00 (in 2h49m)",
        "03:00 to 06:00 daily Europe/Berlin",
    ] {
        assert!(drawn.contains(wanted), "{wanted}\n{drawn}");
    }
    insta::assert_snapshot!("blackout-holds", drawn);
}

#[test]
fn before_one_the_screen_says_why_nothing_new_starts() {
    let drawn = with_window("03:12", "06:00", |_| {});
    let wanted = "nothing new starts before the blackout at 03:12";
    assert!(drawn.contains(wanted), "{drawn}");
    insta::assert_snapshot!("blackout-comes", drawn);
}

#[test]
fn a_pause_in_a_blackout_is_shown_and_the_blackout_with_it() {
    let drawn = with_window("03:00", "06:00", |journal| {
        let paused = Payload::Paused { until: None };
        journal.push(t0310(), human("minh"), paused);
    });
    assert!(drawn.contains("PAUSING") || drawn.contains("PAUSED"), "{drawn}");
    assert!(drawn.contains("a blackout holds as well, until 06:00"), "{drawn}");
}
