//! The throttle panel (`t`) in every state of the throttle, at 80x24 and 200x60. Review changes with `cargo insta review`.
#![allow(clippy::unwrap_used, clippy::panic)]

mod night;

use backfill::{
    domain::{Time, event::Rule, spec::Law},
    plan::{
        room::{self, Admission, Next, Terms},
        throttle::{BlindReport, Ceiling, Report, SignalReport, ThrottleState as State},
    },
    tui::{glyphs::GlyphSet, model::Layer, theme::Level},
};
use chrono::TimeDelta;
use night::*;
use std::{fmt::Write, time::Duration};

const SIZES: [(u16, u16); 2] = [(80, 24), (200, 60)];

fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

/// A throttle that nothing holds back.
fn open(law: Law) -> Report {
    Report {
        limit: 6,
        state: State::Open,
        binding: Some(name("orders-live")),
        rule: Rule::Grow,
        why: String::new(),
        start_gap: None,
        pauses: (0, 3),
        signals: vec![SignalReport {
            name: name("orders-live"),
            protects: true,
            proposes: Some(6),
            state: State::Open,
            freezes_growth: false,
            last: Some(22.0),
            mean: Some(21.0),
            slope: Some(0.0),
            to_hard: None,
            to_soft: None,
            to_low: None,
            ceiling: None,
            resumes_at: None,
            hold_left: None,
            hibernates: None,
            blind: None,
        }],
        law,
        terms: None,
        admission: None,
    }
}

fn terms() -> Terms {
    Terms {
        room: 9.6,
        running: 6,
        costs: 3.4,
        drift: -32.0,
        lag: 22.0,
        peak: (41.0, 600.0),
        set_point: 24.0,
        admitted: 9.9,
        tokens: (4.2, 3.0),
        guard: None,
        next: Some(Next {
            rule: room::Rule::Grow,
            to: 8,
            wait: 40.0,
        }),
    }
}

/// The same under the learned law.
fn learned(change: impl FnOnce(&mut Terms)) -> Report {
    let mut terms = terms();
    change(&mut terms);
    Report {
        terms: Some((name("orders-live"), terms)),
        admission: Some(Admission {
            first: true,
            up_to: 9,
            one_more: false,
            one_more_in: Some(35.0),
            heavy: 3,
        }),
        ..open(Law::Learned)
    }
}

fn in_state(mut report: Report, state: State, change: impl FnOnce(&mut SignalReport)) -> Report {
    report.state = state;
    let signal = report.signals.first_mut().unwrap();
    signal.state = state;
    change(signal);
    report
}

fn paused(signal: &mut SignalReport) {
    signal.proposes = Some(0);
    signal.resumes_at = Some(4);
    signal.hold_left = Some(Duration::from_secs(95));
    signal.mean = Some(44.0);
    signal.slope = Some(-0.4);
}

fn blind(now: Time) -> BlindReport {
    BlindReport {
        signal: name("orders-live"),
        since: now - TimeDelta::seconds(150),
        age: Duration::from_secs(150),
        why: "empty result".to_owned(),
        halves: (8, now - TimeDelta::seconds(30)),
        stops: now + TimeDelta::seconds(150),
        stopped: false,
        protects: true,
    }
}

/// Every state under both laws, and what only the learned one has.
fn reports(now: Time) -> Vec<(&'static str, Report)> {
    let classic = || open(Law::Classic);
    let ceiling = Some(Ceiling {
        limit: 7,
        left: minutes(52),
    });
    vec![
        ("open", classic()),
        (
            "cut",
            in_state(classic(), State::Cut, |s| {
                (s.mean, s.slope, s.to_soft, s.ceiling) =
                    (Some(71.0), Some(-0.2), Some(minutes(11)), ceiling);
            }),
        ),
        (
            "recovering",
            in_state(classic(), State::Recovering, |s| s.ceiling = ceiling),
        ),
        (
            "waiting",
            in_state(classic(), State::Waiting, |s| (s.mean, s.slope) = (None, None)),
        ),
        ("paused", in_state(classic(), State::PausedAuto, paused)),
        (
            "latched",
            in_state(
                Report {
                    pauses: (3, 3),
                    ..classic()
                },
                State::Latched,
                |s| {
                    paused(s);
                    s.hold_left = None;
                },
            ),
        ),
        (
            "blind",
            in_state(classic(), State::Blind, |s| s.blind = Some(blind(now))),
        ),
        (
            "critical",
            in_state(classic(), State::Critical, |s| {
                paused(s);
                s.hibernates = Some(minutes(4));
            }),
        ),
        ("learned-open", learned(|_| {})),
        (
            "learned-cut",
            in_state(
                learned(|t| {
                    (t.room, t.lag, t.peak) = (4.1, 48.0, (66.0, 300.0));
                    t.next = Some(Next {
                        rule: room::Rule::Cut,
                        to: 5,
                        wait: 22.0,
                    });
                }),
                State::Cut,
                |s| s.mean = Some(46.0),
            ),
        ),
        (
            "learned-guarded",
            learned(|t| (t.guard, t.next) = (Some((5, 2_400.0)), None)),
        ),
        (
            "learned-paused",
            in_state(
                learned(|t| {
                    (t.room, t.lag, t.peak) = (-1.2, 96.0, (96.0, 0.0));
                    t.next = Some(Next {
                        rule: room::Rule::Resume,
                        to: 3,
                        wait: 95.0,
                    });
                }),
                State::PausedAuto,
                paused,
            ),
        ),
        (
            "learned-blind",
            in_state(learned(|t| t.next = None), State::Blind, |s| {
                s.blind = Some(blind(now))
            }),
        ),
    ]
}

fn drawn(report: &Report, age: i64, size: (u16, u16), glyphs: GlyphSet, level: Level) -> String {
    let mut case = cases::with("throttle", vec![Layer::Throttle(String::new())]);
    case.feed.throttle = Some((case.now - TimeDelta::seconds(age), report.clone()));
    text(&screen(
        size,
        &case.feed,
        &case.app,
        &look("dark", level, glyphs),
        case.now,
    ))
}

#[test]
fn every_state_of_the_throttle_looks_as_it_did() {
    for (state, report) in reports(cases::running().now) {
        let mut out = String::new();
        for size in SIZES {
            let _ = writeln!(out, "==== {}x{}", size.0, size.1);
            out.push_str(&drawn(&report, 2, size, GlyphSet::Ascii, Level::None));
        }
        insta::assert_snapshot!(format!("throttle-{state}"), out);
    }
}

#[test]
fn every_word_of_the_panel_is_there_at_the_smallest_size() {
    for (state, report) in reports(cases::running().now) {
        let (small, large) = (
            drawn(&report, 2, SIZES[0], GlyphSet::Full, Level::True),
            drawn(&report, 2, SIZES[1], GlyphSet::Full, Level::True),
        );
        for label in ["law ", "new limit", "ends now", "leaves it as it is"] {
            assert!(
                small.contains(label) && large.contains(label),
                "{state}: {label}\n{small}"
            );
        }
    }
}

/// What is told says how old it is as soon as that is worth a word.
#[test]
fn a_report_of_a_supervisor_that_is_silent_carries_its_age() {
    let report = learned(|_| {});
    let says = |age| drawn(&report, age, SIZES[0], GlyphSet::Full, Level::True);
    assert!(!says(5).contains("as of"));
    assert!(
        says(75).contains("as of 75s ago") || says(75).contains("as of 1m15s ago"),
        "{}",
        says(75)
    );
}
