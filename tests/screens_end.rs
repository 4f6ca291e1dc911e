//! When it will be done (law C3): a range or an honest word, and never a date while the clock is stopped.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod night;

use backfill::{
    domain::event::Payload as P,
    plan::eta::Eta,
    tui::{
        glyphs::GlyphSet,
        model::{Feed, Layer, LeaseView},
        theme::{Level, Look},
    },
};
use night::*;

const SIZES: [(u16, u16); 4] = [(80, 24), (100, 30), (120, 40), (200, 60)];

fn dark() -> Look {
    look("dark", Level::True, GlyphSet::Full)
}

fn drawn(size: (u16, u16), feed: &Feed) -> String {
    text(&screen(size, feed, &app(), &dark(), t0310()))
}

/// The ETA slot: its label and its value, from where the look says they stand.
fn slot(size: (u16, u16), feed: &Feed) -> (String, String) {
    let text = drawn(size, feed);
    let (from, to) = match size.0 {
        200.. => (112, 137),
        120.. => (96, 120),
        _ => (71, 80),
    };
    let cut = |y: usize| {
        let row: Vec<char> = text.lines().nth(y).unwrap().chars().collect();
        let cells: String = row.iter().skip(from).take(to - from).collect();
        cells.trim().to_owned()
    };
    (cut(1), cut(2))
}

fn after(payload: P) -> Feed {
    let mut journal = night();
    journal.push(clock(3, 10, 10), human("minh"), payload);
    feed(&journal, t0310(), Some(0.7))
}

/// Whether a text has a weekday in it, as every date of an end has.
fn has_a_date(text: &str) -> bool {
    let days = [
        "Mon ", "Tue ", "Wed ", "Thu ", "Fri ", "Sat ", "Sun ", " Dec", " Jan",
    ];
    days.iter().any(|day| text.contains(day))
}

#[test]
fn while_it_runs_the_header_shows_the_range_of_the_estimate() {
    let feed = feed(&night(), t0310(), Some(0.7));
    for size in [(120, 40), (200, 60)] {
        let (label, value) = slot(size, &feed);
        // Black Fridays have a lane of their own, in which nothing has finished yet.
        assert_eq!(label, "ETA p50 .. p90  rough", "{size:?}");
        assert!(has_a_date(&value) && value.contains(" .. "), "{size:?}: {value}");
    }
    let (label, value) = slot((80, 24), &feed);
    assert_eq!(label, "ETA rough");
    assert!(has_a_date(&value), "{value}");
}

/// Case B26: whatever stopped it, there is no date, also when it stopped after the estimate was made.
#[test]
fn while_the_clock_is_stopped_there_is_no_date() {
    let paused = after(P::Paused { until: None });
    let mut overtaken = paused.clone();
    overtaken.estimate = feed(&night(), t0310(), Some(0.7)).estimate;
    assert!(matches!(
        overtaken.estimate.as_ref().unwrap().eta,
        Eta::Range { .. }
    ));
    let mut alone = feed(&night(), t0310(), Some(0.7));
    alone.lease = LeaseView::Nobody;
    for (what, feed) in [("paused", &paused), ("overtaken", &overtaken), ("alone", &alone)] {
        for size in SIZES {
            let (label, value) = slot(size, feed);
            assert!(
                ["WORK LEFT", "STOPPED", "clock stopped"]
                    .iter()
                    .any(|says| label.contains(says)),
                "{what} {size:?}: {label}"
            );
            assert!(!has_a_date(&value), "{what} {size:?}: {value}");
        }
    }
    let (_, value) = slot((120, 40), &paused);
    assert!(value.ends_with("of work left"), "{value}");
}

#[test]
fn without_enough_finished_chunks_it_says_so() {
    let feed = cases::empty().feed;
    assert_eq!(slot((120, 40), &feed).1, "too few done: 0 of 8");
    assert_eq!(slot((80, 24), &feed).1, "too few");
}

#[test]
fn before_anything_was_estimated_it_promises_nothing() {
    let mut feed = feed(&night(), t0310(), Some(0.7));
    feed.estimate = None;
    for size in SIZES {
        assert_eq!(slot(size, &feed).1, "not yet", "{size:?}");
    }
}

#[test]
fn the_limit_dialog_compares_the_ends_under_both_limits() {
    let case = cases::throttle();
    let buf = screen((120, 40), &case.feed, &case.app, &dark(), case.now);
    let text = text(&buf);
    let of = |label: &str| text.lines().find(|l| l.contains(label)).unwrap().to_owned();
    assert!(
        has_a_date(&of("ends now")) && of("ends now").contains("at limit 4"),
        "{text}"
    );
    assert!(
        has_a_date(&of("ends then")) && of("ends then").contains("at limit 3"),
        "{text}"
    );
    let mut other = case.app.clone();
    other.layers = vec![Layer::Throttle("2".to_owned())];
    let buf = screen((120, 40), &case.feed, &other, &dark(), case.now);
    assert!(
        night::text(&buf).contains("not estimated yet"),
        "an answer to another question is none"
    );
}
