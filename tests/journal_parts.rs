//! What signals are made of, minute by minute: bounded, pruned, and no number where there was none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod journal_support;

use backfill::journal::{MOST_PARTS, PartMinute, PartPoint};
use journal_support::*;

fn part(name: impl Into<String>, value: Result<f64, &str>) -> PartPoint {
    PartPoint {
        name: name.into(),
        value: value.map_err(str::to_owned),
        note: String::new(),
    }
}

/// Name, largest, last, polls without a number, note.
type Row = (String, Option<f64>, Option<f64>, u32, String);

fn rows(minutes: &[PartMinute]) -> Vec<Row> {
    minutes
        .iter()
        .map(|m| (m.name.clone(), m.max, m.last, m.missing, m.note.clone()))
        .collect()
}

fn row(name: &str, max: Option<f64>, last: Option<f64>, missing: u32, note: &str) -> Row {
    (name.to_owned(), max, last, missing, note.to_owned())
}

#[test]
fn each_minute_of_a_part_keeps_its_largest_and_its_last_number() {
    let place = Place::new();
    let mut recorder = place.open().recorder().unwrap();
    let lag = name("lag");
    // Second 0 of the tests is second 20 of a minute.
    for (at, orders, clicks) in [(0, 5.0, 1.0), (15, 90.0, 2.0), (30, 7.0, 3.0), (45, 8.0, 4.0)] {
        let points = [part("orders", Ok(orders)), part("clicks", Ok(clicks))];
        recorder.put_parts(&lag, second(at), &points).unwrap();
    }
    recorder
        .put_parts(&name("other"), second(0), &[part("orders", Ok(999.0))])
        .unwrap();
    let reader = place.open_read_only();
    let seen = reader.part_minutes_since(&lag, second(0)).unwrap();
    assert_eq!(
        rows(&seen),
        [
            row("clicks", Some(3.0), Some(3.0), 0, ""),
            row("orders", Some(90.0), Some(7.0), 0, ""),
            row("clicks", Some(4.0), Some(4.0), 0, ""),
            row("orders", Some(8.0), Some(8.0), 0, ""),
        ]
    );
    assert_eq!((seen[0].at, seen[0].seen), (second(-20), second(30)));
    assert_eq!(reader.part_minutes_since(&lag, second(40)).unwrap().len(), 2);
}

/// No data is not good data: the last poll gave none, so there is no last number, and its reason is kept.
#[test]
fn a_part_without_a_number_is_recorded_as_one_without() {
    let place = Place::new();
    let mut recorder = place.open().recorder().unwrap();
    let lag = name("lag");
    let polls = [
        [part("a", Ok(40.0)), part("b", Err("no commit"))],
        [part("a", Err("no commit")), part("b", Ok(f64::NAN))],
    ];
    for (i, points) in polls.iter().enumerate() {
        recorder.put_parts(&lag, second(i as i64), points).unwrap();
    }
    let seen = place
        .open_read_only()
        .part_minutes_since(&lag, second(0))
        .unwrap();
    assert_eq!(
        rows(&seen),
        [
            row("a", Some(40.0), None, 1, "no commit"),
            row("b", None, None, 2, "not a finite number"),
        ]
    );
}

/// A thousand partitions, and other ones at each poll: no minute holds more than it may, and the worst are among them.
#[test]
fn so_many_parts_a_minute_are_kept_and_the_worst_are_among_them() {
    let place = Place::new();
    let mut recorder = place.open().recorder().unwrap();
    let lag = name("lag");
    let poll = |of: &str, top: f64| -> Vec<PartPoint> {
        let known = (0..900).map(|n| part(format!("{of}/{n:03}"), Ok(f64::from(n) / 100.0)));
        let worst = [part(format!("{of}/worst"), Ok(top))];
        let unknown = (0..100).map(|n| part(format!("{of}/silent-{n:02}"), Err("no commit")));
        known.chain(worst).chain(unknown).collect()
    };
    let reader = place.open_read_only();
    let names = || -> Vec<String> {
        let minutes = reader.part_minutes_since(&lag, second(0)).unwrap();
        minutes.into_iter().map(|m| m.name).collect()
    };
    recorder.put_parts(&lag, second(0), &poll("one", 700.0)).unwrap();
    assert_eq!(names().len(), MOST_PARTS);
    assert_eq!(names().iter().filter(|n| n.contains("silent")).count(), 100);
    recorder.put_parts(&lag, second(10), &poll("two", 800.0)).unwrap();
    let kept = names();
    assert_eq!(kept.len(), MOST_PARTS);
    for wanted in ["one/worst", "two/worst", "one/899", "two/899", "two/silent-99"] {
        assert!(kept.iter().any(|n| n == wanted), "{wanted}");
    }
    assert!(!kept.iter().any(|n| n == "one/000"), "the lowest went first");
}

#[test]
fn parts_go_after_48_hours_of_every_signal() {
    let place = Place::new();
    let mut recorder = place.open().recorder().unwrap();
    let signals = ["a", "lag", "z"].map(name);
    for hour in [0, 1, 47, 49, 50] {
        for signal in &signals {
            recorder
                .put_parts(signal, second(hour * 3600), &[part("orders", Ok(1.0))])
                .unwrap();
        }
    }
    let reader = place.open_read_only();
    for signal in &signals {
        let left = reader.part_minutes_since(signal, second(-1_000_000)).unwrap();
        // At hour 50 the first signal's writing removed what was old; hour 1 is 49 hours old then.
        assert_eq!(left.len(), 3, "{signal}");
    }
}

#[test]
fn names_and_notes_of_others_are_cleaned_and_cut() {
    let place = Place::new();
    let mut recorder = place.open().recorder().unwrap();
    let long = PartPoint {
        note: "\u{1b}[2J".to_owned(),
        ..part("x".repeat(5_000), Ok(1.0))
    };
    // Two names that differ behind the cut stay two.
    let other = part("x".repeat(5_001), Ok(2.0));
    recorder
        .put_parts(&name("lag"), second(0), &[long, other])
        .unwrap();
    let seen = place
        .open_read_only()
        .part_minutes_since(&name("lag"), second(0))
        .unwrap();
    assert!(
        seen.iter().all(|minute| minute.name.chars().count() == 200),
        "{seen:?}"
    );
    let mut rows: Vec<_> = seen.iter().map(|m| (m.max, m.missing, m.note.as_str())).collect();
    rows.sort_by(|a, b| a.partial_cmp(b).unwrap());
    assert_eq!(rows, [(Some(1.0), 0, "^[[2J"), (Some(2.0), 0, "")]);
}
