//! Proof 8: the screen with 36,500 chunks. First the real program in a real pseudo-terminal, from its start to the
//! first frame with the calendar in it and from a key to its frame, beside the promises (500 ms, 16 ms, 100 MB); then
//! the drawing alone, with 100 years of days and ten years of hours.
//!
//! `cargo bench --bench screen`; with `-- program` only the program, with any other word only the drawings of that
//! name.
#![allow(clippy::unwrap_used, clippy::panic)] // A benchmark may.

#[path = "../tests/pty/frames.rs"]
mod frames;
#[path = "../tests/night/mod.rs"]
mod night;
#[path = "screen/program.rs"]
mod program;
#[path = "../tests/pty/century.rs"]
mod world;

use backfill::{
    domain::{calendar::Granularity, event::Payload, ids::ChunkId},
    tui::{
        glyphs::GlyphSet,
        model::{App, Feed, Layer, Zoom},
        theme::{Level, Look},
        view::draw,
    },
};
use chrono::TimeDelta;
use divan::Bencher;
use night::*;
use ratatui::{Terminal, backend::TestBackend};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let wanted = words.iter().find(|w| !w.starts_with('-'));
    // As a test the real program has tests/pty_frames.rs.
    let measured = words.iter().any(|w| w == "--bench");
    if measured && wanted.is_none_or(|w| "program".contains(w.as_str())) {
        program::measure();
    }
    divan::main();
}

/// A century of days of which a third is done: 36,525 chunks.
fn century() -> Feed {
    long(day(1925, 1, 1), day(2024, 12, 31), Granularity::Day)
}

/// Ten years of hours: 87,672 chunks.
fn decade() -> Feed {
    long(day(2015, 1, 1), day(2024, 12, 31), Granularity::Hour)
}

fn long(start: chrono::NaiveDate, end: chrono::NaiveDate, granularity: Granularity) -> Feed {
    let mut journal = Journal::new(id());
    let mut spec = spec();
    (spec.start, spec.end, spec.granularity) = (start, end, granularity);
    spec.lanes.clear();
    let chunks = backfill::domain::calendar::cut(spec.timezone, start, end, granularity);
    let begun = t0310() - TimeDelta::days(3);
    journal.push(
        begun,
        human("minh"),
        Payload::Started {
            spec: Box::new(spec),
            hash: "h".to_owned(),
        },
    );
    journal.limit(begun, 0, 8, backfill::domain::event::Rule::Start, "limit 0 to 8");
    for (chunk, _) in chunks.iter().take(chunks.len() / 3) {
        journal.start(begun, *chunk, 1, "airflow-eu", 0, true);
        let outcome = backfill::domain::event::Outcome::Done;
        journal.end(begun + TimeDelta::minutes(9), *chunk, 1, "airflow-eu", outcome);
    }
    feed(&journal, t0310(), Some(0.7))
}

fn person(feed: &Feed, zoom: Zoom) -> App {
    let chunks = &feed.state.backfills[&id()].chunks;
    App {
        zoom,
        cursor: Some(chunks[chunks.len() / 2].id),
        ..app()
    }
}

/// Moves the cursor by one chunk and draws, as a key does.
fn key_to_frame(bencher: Bencher, feed: &Feed, mut app: App) {
    let look = Look::new("dark", Level::True, GlyphSet::Full).unwrap();
    let hints = hints();
    let ids: Vec<ChunkId> = feed.state.backfills[&id()].chunks.iter().map(|c| c.id).collect();
    let mut at = ids.len() / 2;
    let mut terminal = Terminal::new(TestBackend::new(200, 60)).unwrap();
    bencher.bench_local(|| {
        at = (at + 1) % ids.len();
        app.cursor = Some(ids[at]);
        terminal
            .draw(|frame| draw(frame, feed, &app, &look, &hints, t0310()))
            .unwrap();
    });
}

#[divan::bench]
fn key_to_frame_century_days(bencher: Bencher) {
    let feed = century();
    key_to_frame(bencher, &feed, person(&feed, Zoom::Days));
}

#[divan::bench]
fn key_to_frame_century_years(bencher: Bencher) {
    let feed = century();
    key_to_frame(bencher, &feed, person(&feed, Zoom::Years));
}

#[divan::bench]
fn key_to_frame_century_filtered(bencher: Bencher) {
    let feed = century();
    let app = App {
        filter: "timeout".to_owned(),
        ..person(&feed, Zoom::Days)
    };
    key_to_frame(bencher, &feed, app);
}

#[divan::bench]
fn key_to_frame_century_all_selected(bencher: Bencher) {
    let feed = century();
    let first = feed.state.backfills[&id()].chunks[0].id;
    let app = App {
        range_from: Some(first),
        ..person(&feed, Zoom::Years)
    };
    key_to_frame(bencher, &feed, app);
}

#[divan::bench]
fn key_to_frame_century_dialog(bencher: Bencher) {
    let feed = century();
    let app = App {
        layers: vec![Layer::Drawer, cases::dialog(28, 2, None)],
        ..person(&feed, Zoom::Days)
    };
    key_to_frame(bencher, &feed, app);
}

#[divan::bench]
fn key_to_frame_decade_of_hours_years(bencher: Bencher) {
    let feed = decade();
    key_to_frame(bencher, &feed, person(&feed, Zoom::Years));
}

#[divan::bench]
fn first_frame_century(bencher: Bencher) {
    let feed = century();
    let app = person(&feed, Zoom::Days);
    let hints = hints();
    bencher.bench_local(|| {
        let look = Look::new("dark", Level::True, GlyphSet::Full).unwrap();
        let mut terminal = Terminal::new(TestBackend::new(200, 60)).unwrap();
        terminal
            .draw(|frame| draw(frame, &feed, &app, &look, &hints, t0310()))
            .unwrap();
    });
}

#[divan::bench]
fn estimate_century(bencher: Bencher) {
    let feed = century();
    bencher.bench_local(|| estimated(&feed.state, t0310(), true, Some(2)));
}
