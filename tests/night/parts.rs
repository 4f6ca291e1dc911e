//! What the night's signal is made of: 32 partitions, one of which lags behind all others, one that has no commit for a
//! while, and one that came late. And what the learned law says of it.

use super::*;
use backfill::{
    domain::spec::Law,
    journal::PartMinute,
    plan::{
        room::{self, Admission, Next, Terms},
        throttle::{Report, SignalReport, ThrottleState},
    },
    tui::parts::PartsView,
};

/// The lag of a partition in the minute of an instant.
fn lag_of(partition: u32, at: Time) -> f64 {
    let share = match partition {
        17 => 1.0,
        3 => 0.8,
        20..=23 => 0.55,
        n => 0.2 + f64::from(n % 5) * 0.05,
    };
    // The one that leads was behind before, half an hour ago, by itself.
    let alone = partition == 9 && at > clock(2, 35, 0) && at < clock(2, 41, 0);
    lag_at(at) * share + if alone { 70.0 } else { 0.0 }
}

/// The parts as they are known at an instant.
pub fn of(now: Time) -> PartsView {
    let mut view = PartsView::new(name("orders-live"));
    let mut minutes = Vec::new();
    let mut at = now - TimeDelta::minutes(60);
    at -= TimeDelta::seconds(at.timestamp().rem_euclid(60));
    while at <= now {
        let seen = (at + TimeDelta::seconds(50))
            .min(now - TimeDelta::seconds(10))
            .max(at);
        for partition in 0..32 {
            let late = partition == 31 && at < clock(2, 50, 0);
            let gap = at >= clock(2, 45, 0) && at < clock(2, 47, 0);
            if late || gap {
                continue;
            }
            let silent = partition == 5 && at >= clock(2, 58, 0) && at < clock(3, 2, 0);
            let max = (!silent).then(|| lag_of(partition, seen));
            minutes.push(PartMinute {
                name: format!("orders-app/orders.v2/{partition}"),
                at,
                max,
                last: max,
                seen,
                missing: u32::from(silent),
                note: if partition == 3 {
                    "no members".to_owned()
                } else {
                    String::new()
                },
            });
        }
        at += TimeDelta::minutes(1);
    }
    view.take_in(minutes, now - TimeDelta::minutes(60));
    view
}

/// The learned law while it works.
pub fn law() -> Report {
    Report {
        limit: 4,
        state: ThrottleState::Cut,
        binding: Some(name("orders-live")),
        rule: Rule::Cut,
        why: String::new(),
        start_gap: None,
        pauses: (0, 3),
        signals: vec![SignalReport {
            name: name("orders-live"),
            protects: true,
            proposes: Some(4),
            state: ThrottleState::Cut,
            freezes_growth: false,
            last: Some(96.0),
            mean: Some(91.0),
            slope: Some(0.7),
            to_hard: Some(Duration::from_secs(120)),
            to_soft: None,
            to_low: None,
            ceiling: None,
            resumes_at: None,
            hold_left: None,
            hibernates: None,
            blind: None,
        }],
        law: Law::Learned,
        terms: Some((
            name("orders-live"),
            Terms {
                room: 2.2,
                running: 7,
                costs: 12.4,
                drift: -27.0,
                lag: 96.0,
                peak: (171.0, 400.0),
                set_point: 24.0,
                admitted: 1.6,
                tokens: (4.2, 3.0),
                guard: None,
                next: Some(Next {
                    rule: room::Rule::Cut,
                    to: 3,
                    wait: 22.0,
                }),
            },
        )),
        admission: Some(Admission {
            first: true,
            up_to: 1,
            one_more: false,
            one_more_in: None,
            heavy: 0,
        }),
    }
}

/// The same after it paused: lag falls, and what still runs holds it up.
pub fn law_that_paused() -> Report {
    let mut report = law();
    (report.limit, report.state, report.rule) = (0, ThrottleState::PausedAuto, Rule::Pause);
    if let Some((_, terms)) = &mut report.terms {
        (terms.running, terms.lag, terms.peak) = (2, 131.0, (131.0, 0.0));
        (terms.drift, terms.next) = (-48.8, None);
    }
    report
}

/// Parts with names and notes of others, one for each number, whatever it is.
pub fn hostile(now: Time, text: &str, numbers: &[Option<f64>]) -> PartsView {
    let mut view = PartsView::new(name("orders-live"));
    let minute = |(i, number): (usize, &Option<f64>)| {
        let at = now - TimeDelta::minutes((i as i64 * 7) % 61);
        PartMinute {
            name: format!("{text}/{i}{}", text.repeat(i % 3)),
            at: at - TimeDelta::seconds(at.timestamp().rem_euclid(60)),
            max: *number,
            last: number.filter(|_| i % 4 > 0),
            seen: at,
            missing: 0,
            note: text.to_owned(),
        }
    };
    let minutes = numbers.iter().enumerate().map(minute).collect();
    view.take_in(minutes, now - TimeDelta::minutes(60));
    view
}
