//! Any size, any state, any layer, any text of others: nothing panics, nothing is drawn outside, nothing hostile
//! reaches the terminal. Cases S12, S25.
#![allow(clippy::unwrap_used, clippy::panic)] // A test may.

mod night;

use backfill::{
    domain::{
        calendar::{Granularity, cut},
        event::{Force, Payload, Rule},
        failure::{Failure, FailureClass},
        ids::ChunkId,
    },
    domain::{
        event::{Next, Outcome},
        fold::fold,
    },
    plan::why::Why,
    tui::{
        glyphs::GlyphSet,
        model::{App, Feed, Layer, LeaseView, Panel, Zoom},
        theme::{Level, Look, Theme},
        view::draw_on,
    },
};
use chrono::TimeDelta;
use night::*;
use proptest::prelude::*;
use ratatui::{buffer::Buffer, layout::Rect};
use std::sync::Arc;

#[derive(Debug, Clone)]
struct World {
    granularity: Granularity,
    zone: chrono_tz::Tz,
    days: i64,
    ops: Vec<(u8, u16, u8)>,
    samples: Vec<Option<f64>>,
    slope: Option<f64>,
    text: String,
    supervised: bool,
    stale: i64,
}

#[derive(Debug, Clone)]
struct Person {
    cursor: Option<u16>,
    marks: Vec<u16>,
    range: Option<u16>,
    years: bool,
    layer: u8,
    filter: bool,
    back: usize,
}

fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("\u{1b}[2J\u{1b}]0;owned\u{7}\r\n\t\u{202e}abc\u{200d}".to_owned()),
        Just("日本語のとても長いテキスト".repeat(9)),
        "\\PC{0,60}",
        any::<String>(),
    ]
}

fn world() -> impl Strategy<Value = World> {
    let granularity = prop_oneof![
        Just(Granularity::Hour),
        Just(Granularity::Day),
        Just(Granularity::Week),
        Just(Granularity::Month),
    ];
    let zone = prop_oneof![
        Just(chrono_tz::Europe::Berlin),
        Just(chrono_tz::Pacific::Apia),
        Just(chrono_tz::Australia::Lord_Howe),
        Just(chrono_tz::Asia::Kathmandu),
    ];
    let value = prop_oneof![Just(0.0), 0.0..400.0f64, Just(1e12), Just(-5.0), Just(f64::NAN)];
    (
        (granularity, zone, 0i64..900),
        proptest::collection::vec((0u8..18, any::<u16>(), any::<u8>()), 0..60),
        proptest::collection::vec(proptest::option::of(value), 0..60),
        proptest::option::of(-3.0..3.0f64),
        hostile(),
        any::<bool>(),
        -10i64..1_000,
    )
        .prop_map(
            |((granularity, zone, days), ops, samples, slope, text, supervised, stale)| World {
                granularity,
                zone,
                days: if granularity == Granularity::Hour {
                    days / 6
                } else {
                    days
                },
                ops,
                samples,
                slope,
                text,
                supervised,
                stale,
            },
        )
}

fn person() -> impl Strategy<Value = Person> {
    (
        proptest::option::of(any::<u16>()),
        proptest::collection::vec(any::<u16>(), 0..5),
        proptest::option::of(any::<u16>()),
        any::<bool>(),
        0u8..20,
        any::<bool>(),
        0usize..40,
    )
        .prop_map(|(cursor, marks, range, years, layer, filter, back)| Person {
            cursor,
            marks,
            range,
            years,
            layer,
            filter,
            back,
        })
}

fn journal(world: &World) -> (Journal, Vec<ChunkId>) {
    let mut spec = spec();
    spec.granularity = world.granularity;
    spec.timezone = world.zone;
    // Around the day that Apia skipped and a leap year.
    spec.start = day(2011, 11, 20);
    spec.end = spec.start + TimeDelta::days(world.days);
    spec.target.clone_from(&world.text);
    spec.environment = Some(world.text.clone());
    let chunks: Vec<ChunkId> = cut(spec.timezone, spec.start, spec.end, spec.granularity)
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    let mut journal = Journal::new(id());
    let mut at = t0310() - TimeDelta::hours(3);
    journal.push(
        at,
        human("minh"),
        Payload::Started {
            spec: Box::new(spec),
            hash: "h".to_owned(),
        },
    );
    for (kind, which, how) in &world.ops {
        at += TimeDelta::seconds(i64::from(*how));
        let chunk = chunks[usize::from(*which) % chunks.len()];
        step(&mut journal, *kind, chunk, *how, &world.text, at);
    }
    (journal, chunks)
}

fn step(journal: &mut Journal, kind: u8, chunk: ChunkId, how: u8, text: &str, at: backfill::domain::Time) {
    let failure = Failure {
        class: FailureClass::ALL[usize::from(how) % 9],
        exit: Some(i32::from(how)),
        message: text.to_owned(),
    };
    let later = at + TimeDelta::seconds(i64::from(how));
    let state = fold(&journal.events);
    let no = state.backfills[&id()].chunk(chunk).map_or(1, |c| c.next_no());
    let open = no.saturating_sub(1).max(1);
    let attempt = state.backfills[&id()].attempt_id(chunk, open);
    let by = human(if how.is_multiple_of(2) { "minh" } else { text });
    let why = text.to_owned();
    match kind {
        0..=2 => journal.start(
            at,
            chunk,
            no,
            "airflow-eu",
            u32::from(how % 5),
            !how.is_multiple_of(3),
        ),
        3 => journal.end(at, chunk, open, "airflow-eu", Outcome::Done),
        4 => journal.end(
            at,
            chunk,
            open,
            "spark-batch",
            Outcome::Failed {
                failure,
                next: Next::Stay,
            },
        ),
        5 => {
            let next = Next::Retry {
                at: later,
                profile: 1,
                used: 1,
                budget: 3,
            };
            journal.end(at, chunk, open, "spark-batch", Outcome::Failed { failure, next });
        }
        6 => journal.end(
            at,
            chunk,
            open,
            "spark-batch",
            Outcome::Failed {
                failure,
                next: Next::Quarantine { why },
            },
        ),
        7 => journal.because(at, by, Some(text), Payload::HoldPlaced { chunks: vec![chunk] }),
        8 => journal.because(at, by, Some(text), Payload::Skipped { chunks: vec![chunk] }),
        9 => journal.push(at, by, Payload::RunUncertain { attempt, why }),
        10 => journal.because(
            at,
            by,
            Some(text),
            Payload::Paused {
                until: (how > 99).then_some(later),
            },
        ),
        11 => journal.push(at, by, Payload::Resumed {}),
        12 => journal.limit(
            at,
            8,
            u32::from(how % 9),
            [Rule::Cut, Rule::Pause, Rule::Critical, Rule::Blind][usize::from(how % 4)],
            text,
        ),
        13 => journal.because(
            at,
            by,
            Some(text),
            Payload::CapSet {
                cap: (how > 50).then_some(u32::from(how)),
            },
        ),
        14 => journal.push(
            at,
            by,
            Payload::Forced {
                force: Some(Force {
                    limit: 9,
                    until: later,
                }),
            },
        ),
        15 => journal.push(at, by, Payload::BreakerOpened { why, retry_at: later }),
        16 => journal.push(
            at,
            by,
            Payload::BlindSince {
                signal: name("orders-live"),
                last: None,
                why,
            },
        ),
        _ if how > 240 => journal.because(at, by, Some(text), Payload::CancelRequested {}),
        _ => journal.push(
            at,
            by,
            Payload::RerunRequested {
                chunks: vec![chunk],
                digest: "d".to_owned(),
            },
        ),
    }
}

fn build(world: &World, person: &Person) -> (Feed, App) {
    let (journal, chunks) = journal(world);
    let now = t0310();
    let mut feed = feed(&journal, now, world.slope);
    let view = feed.signals.get_mut(&name("orders-live")).unwrap();
    view.samples = world
        .samples
        .iter()
        .enumerate()
        .map(|(i, v)| {
            (
                now - TimeDelta::seconds(15 * (world.samples.len() - i) as i64),
                *v,
            )
        })
        .collect();
    view.problem = world.stale.is_negative().then(|| world.text.clone());
    feed.as_of = now - TimeDelta::seconds(world.stale);
    if !world.supervised {
        feed.lease = LeaseView::Nobody;
    }
    feed.config = Some(Err(world.text.clone()));
    let pick = |n: u16| chunks[usize::from(n) % chunks.len()];
    let mut app = app();
    app.cursor = person.cursor.map(pick);
    app.marks = person.marks.iter().map(|n| pick(*n).to_string()).collect();
    app.marks.insert(world.text.clone());
    app.range_from = person.range.map(pick);
    app.zoom = if person.years { Zoom::Years } else { Zoom::Days };
    app.focus = Panel::Events;
    app.events_back = person.back;
    app.only_bad = person.filter;
    app.why = Some(Why {
        reason: "limit",
        text: world.text.clone(),
        unblock: world.text.clone(),
    });
    if person.filter {
        app.filter.clone_from(&world.text);
    }
    if let Some(cursor) = app.cursor {
        let attempt = feed.state.backfills[&id()].attempt_id(cursor, 1);
        feed.log = Some((attempt, vec![world.text.clone(); 30]));
        let newest = feed.state.backfills[&id()]
            .chunk(cursor)
            .and_then(|c| c.last())
            .map(|a| a.no);
        if let Some(no) = newest.filter(|_| world.samples.len().is_multiple_of(2)) {
            let attempt = feed.state.backfills[&id()].attempt_id(cursor, no);
            feed.inside = Some(Arc::new(inside::hostile(attempt, &world.text, person.back)));
            app.pick.try_no = person.range.map(u32::from);
            app.unfolded = person.filter.then(|| world.text.clone());
        }
    }
    app.layers = layers(person, world);
    // The lag panel, opened, of a signal with parts of any name.
    if (12..16).contains(&person.layer) {
        app.focus = Panel::Lag;
    }
    feed.parts = Some(Arc::new(parts::hostile(now, &world.text, &world.samples)));
    feed.throttle = Some((now - TimeDelta::seconds(world.stale), parts::law()));
    (feed, app)
}

fn layers(person: &Person, world: &World) -> Vec<Layer> {
    let text = world.text.clone();
    match person.layer {
        0 => vec![Layer::Drawer],
        1 => vec![Layer::Drawer, Layer::Log(person.back)],
        2 => vec![cases::dialog(person.back, 2, None)],
        3 => vec![cases::dialog(person.back, 3, Some(("12", &text)))],
        4 => vec![Layer::Throttle(text)],
        5 => vec![Layer::Why],
        6 => vec![Layer::Help(person.back)],
        7 => vec![Layer::Palette(text, person.back)],
        8 => vec![Layer::Date(text)],
        9 => vec![Layer::Filter(text)],
        10 => vec![Layer::Reason(text)],
        11 => vec![
            Layer::Drawer,
            Layer::Why,
            Layer::Help(3),
            cases::dialog(2, 1, None),
        ],
        12..16 => vec![Layer::Drawer],
        _ => Vec::new(),
    }
}

fn any_look((theme, level, set): (usize, usize, usize)) -> Look {
    let level = [Level::None, Level::Ansi16, Level::X256, Level::True][level];
    let set = [GlyphSet::Full, GlyphSet::Narrow, GlyphSet::Ascii][set];
    look(Theme::NAMES[theme], level, set)
}

/// Draws into the corner of a larger buffer and looks at everything that came out.
fn check(size: (u16, u16), feed: &Feed, app: &App, look: &Look) -> Result<(), TestCaseError> {
    let area = Rect::new(0, 0, size.0, size.1);
    let mut buf = Buffer::filled(
        Rect::new(0, 0, size.0 + 4, size.1 + 3),
        ratatui::buffer::Cell::new("!"),
    );
    let at = draw_on(&mut buf, area, feed, app, look, &hints(), t0310());
    if let Some(at) = at {
        prop_assert!(area.contains(at), "the cursor is outside");
    }
    for y in 0..buf.area.height {
        for x in 0..buf.area.width {
            let cell = &buf[(x, y)];
            if area.contains((x, y).into()) {
                let bad = |c: char| {
                    c.is_control()
                        || ('\u{200b}'..='\u{200f}').contains(&c)
                        || ('\u{202a}'..='\u{202e}').contains(&c)
                };
                prop_assert!(!cell.symbol().contains(bad), "{:?} at {x},{y}", cell.symbol());
            } else {
                prop_assert_eq!(cell.symbol(), "!", "drawn outside at {},{}", x, y);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Case S12.
    #[test]
    fn no_size_state_layer_or_text_panics_or_draws_outside(
        size in (1u16..=300, 1u16..=100), world in world(), person in person(), looks in (0usize..4, 0usize..4, 0usize..3),
    ) {
        let (feed, app) = build(&world, &person);
        check(size, &feed, &app, &any_look(looks))?;
    }

    /// Case S12: small sizes are where subtractions go wrong.
    #[test]
    fn small_sizes_hold_too(
        size in (1u16..=90, 1u16..=26), world in world(), person in person(), looks in (0usize..4, 0usize..4, 0usize..3),
    ) {
        let (feed, app) = build(&world, &person);
        check(size, &feed, &app, &any_look(looks))?;
    }
}

/// Case S12: on a small terminal the opened lag panel has no row left for its chart.
#[test]
fn the_opened_lag_panel_holds_at_every_small_size() {
    let look = look("dark", Level::True, GlyphSet::Full);
    let case = cases::running();
    let mut app = case.app;
    app.focus = Panel::Lag;
    app.layers = vec![Layer::Drawer];
    for parts in [
        None,
        Some(Arc::new(parts::hostile(case.now, "text", &[Some(90.0), None]))),
    ] {
        let feed = Feed {
            parts,
            ..case.feed.clone()
        };
        for width in (1..=120).step_by(3) {
            for height in 1..=30 {
                check((width, height), &feed, &app, &look).unwrap();
            }
        }
    }
}

/// Cases S12 and S25: every known state and layer at every size class, also while the terminal is being resized.
#[test]
fn every_known_state_holds_at_every_border_of_the_layout() {
    let full = look("dark", Level::True, GlyphSet::Full);
    for case in cases::all() {
        for width in [
            1, 2, 7, 39, 40, 59, 60, 61, 79, 80, 113, 114, 119, 120, 121, 150, 199, 200, 201, 300,
        ] {
            for height in [
                1, 2, 3, 9, 10, 11, 16, 23, 24, 25, 29, 30, 39, 40, 47, 48, 55, 56, 60, 100,
            ] {
                check((width, height), &case.feed, &case.app, &full).unwrap();
            }
        }
    }
}

/// Case S25: a feed of which nothing is known draws every layer.
#[test]
fn a_screen_of_nothing_draws_every_layer() {
    let case = cases::first_start();
    let full = look("dark", Level::True, GlyphSet::Full);
    let nobody = Feed {
        state: Arc::new(Default::default()),
        ..case.feed.clone()
    };
    for other in cases::all() {
        let app = App {
            backfill: None,
            cursor: None,
            layers: other.app.layers,
            ..case.app.clone()
        };
        for size in [(80, 24), (120, 40), (200, 60), (60, 20)] {
            check(size, &nobody, &app, &full).unwrap();
        }
    }
}
