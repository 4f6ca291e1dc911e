//! The tables that may be lost: samples, limits, checkpoints, observations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod journal_support;

use backfill::journal::{LimitPoint, Observation, SamplePoint};
use chrono::TimeDelta;
use journal_support::*;
use std::time::Duration;

fn value(at: i64, value: f64) -> SamplePoint {
    SamplePoint {
        at: second(at),
        value: Ok(value),
        age: Some(Duration::from_millis(1_500)),
    }
}

fn missing(at: i64, why: &str) -> SamplePoint {
    SamplePoint {
        at: second(at),
        value: Err(why.to_owned()),
        age: None,
    }
}

#[test]
fn samples_come_back_as_they_were_with_the_reason_where_there_was_none() {
    let place = Place::new();
    let journal = place.open();
    let mut recorder = journal.recorder().unwrap();
    let lag = name("lag");
    let points = [value(0, 12.5), missing(5, "empty result"), value(10, 0.0)];
    for point in &points {
        recorder.put_sample(&lag, point).unwrap();
    }
    recorder.put_sample(&name("other"), &value(3, 99.0)).unwrap();
    let reader = place.open_read_only();
    assert_eq!(reader.samples_since(&lag, second(0)).unwrap(), points);
    assert_eq!(reader.samples_since(&lag, second(5)).unwrap(), points[1..]);
    assert!(reader.samples_since(&name("none"), second(0)).unwrap().is_empty());
}

/// No data is no sample, never zero.
#[test]
fn a_value_that_is_no_number_is_no_sample() {
    let place = Place::new();
    let journal = place.open();
    let mut recorder = journal.recorder().unwrap();
    for (at, wrong) in [f64::NAN, f64::INFINITY].into_iter().enumerate() {
        recorder
            .put_sample(&name("lag"), &value(at as i64, wrong))
            .unwrap();
    }
    for point in journal.samples_since(&name("lag"), second(0)).unwrap() {
        assert_eq!(point.value, Err("not a finite number".to_owned()));
    }
    let minute = &journal.sample_minutes_since(&name("lag"), second(0)).unwrap()[0];
    assert_eq!((minute.values, minute.valid, minute.missing), (None, 0, 2));
}

#[test]
fn each_minute_keeps_its_smallest_largest_and_last_value() {
    let place = Place::new();
    let journal = place.open();
    let mut recorder = journal.recorder().unwrap();
    let lag = name("lag");
    // Second 0 of the tests is second 20 of a minute.
    for point in [
        missing(0, "late start"),
        value(1, 5.0),
        value(2, 9.0),
        value(30, 2.0),
        // Taken in late: it is not the last value of its minute.
        value(29, 3.0),
        missing(35, "503"),
        value(41, 7.0),
        missing(100, "503"),
    ] {
        recorder.put_sample(&lag, &point).unwrap();
    }
    let minutes = journal.sample_minutes_since(&lag, second(0)).unwrap();
    let seen: Vec<_> = minutes.iter().map(|m| (m.values, m.valid, m.missing)).collect();
    assert_eq!(
        seen,
        [
            (Some((2.0, 9.0, 2.0)), 4, 2),
            (Some((7.0, 7.0, 7.0)), 1, 0),
            (None, 0, 1)
        ]
    );
    assert_eq!(minutes[0].at, second(-20));
    assert_eq!(minutes[1].at, second(40));
}

#[test]
fn the_past_is_written_before_the_oldest_sample_and_never_twice() {
    let place = Place::new();
    let journal = place.open();
    let mut recorder = journal.recorder().unwrap();
    let lag = name("lag");
    let past = [
        value(-30, 1.0),
        value(-10, 2.0),
        value(0, 3.0),
        value(10, 4.0),
        value(20, 5.0),
    ];
    let all = || journal.samples_since(&lag, second(-10_000)).unwrap();
    // Older than what was asked for, and of another signal: neither counts.
    recorder.put_sample(&lag, &value(-5_000, 9.0)).unwrap();
    recorder.put_sample(&name("other"), &value(-20, 9.0)).unwrap();
    recorder.put_sample(&lag, &missing(10, "empty result")).unwrap();
    for _ in 0..2 {
        recorder.put_past(&lag, second(-10), &past).unwrap();
        assert_eq!(
            all(),
            [
                value(-5_000, 9.0),
                value(-10, 2.0),
                value(0, 3.0),
                missing(10, "empty result")
            ]
        );
    }
    // Seconds -20 to 39 are one minute.
    let minutes = journal.sample_minutes_since(&lag, second(-20)).unwrap();
    let seen: Vec<_> = minutes.iter().map(|m| (m.values, m.valid, m.missing)).collect();
    assert_eq!(seen, [(Some((2.0, 3.0, 3.0)), 2, 1)]);
    // Of a signal that has nothing yet everything is taken.
    recorder.put_past(&name("new"), second(-30), &past).unwrap();
    assert_eq!(journal.samples_since(&name("new"), second(-30)).unwrap(), past);
}

#[test]
fn raw_rows_go_after_48_hours_and_minutes_after_90_days() {
    let place = Place::new();
    let journal = place.open();
    let mut recorder = journal.recorder().unwrap();
    let (lag, id) = (name("lag"), orders());
    let hours = [0, 1, 47, 49, 50];
    for hour in hours {
        recorder.put_sample(&lag, &value(hour * 3600, 1.0)).unwrap();
        let point = LimitPoint {
            at: second(hour * 3600),
            limit: 4,
            running: 2,
        };
        recorder.put_limit(&id, point).unwrap();
    }
    let early = second(-1_000_000);
    // Nobody asked for it: the recorder itself removes what is older than 48 h at hour 50.
    assert_eq!(journal.samples_since(&lag, early).unwrap().len(), 3);
    assert_eq!(journal.limits_since(&id, early).unwrap().len(), 3);
    assert_eq!(journal.sample_minutes_since(&lag, early).unwrap().len(), 5);
    recorder
        .prune(second(0) + TimeDelta::days(90) + TimeDelta::minutes(30))
        .unwrap();
    assert_eq!(journal.samples_since(&lag, early).unwrap().len(), 0);
    assert_eq!(journal.sample_minutes_since(&lag, early).unwrap().len(), 4);
    assert_eq!(journal.limit_minutes_since(&id, early).unwrap().len(), 4);
}

#[test]
fn limits_are_kept_by_backfill_with_the_weight_that_ran() {
    let place = Place::new();
    let journal = place.open();
    let mut recorder = journal.recorder().unwrap();
    let point = |at, limit, running| LimitPoint {
        at: second(at),
        limit,
        running,
    };
    for p in [point(0, 8, 8), point(10, 4, 6), point(39, 4, 4), point(41, 5, 4)] {
        recorder.put_limit(&orders(), p).unwrap();
    }
    recorder
        .put_limit(&backfill_id("clicks-zzzzzz"), point(5, 1, 0))
        .unwrap();
    assert_eq!(
        journal.limits_since(&orders(), second(10)).unwrap(),
        [point(10, 4, 6), point(39, 4, 4), point(41, 5, 4)]
    );
    assert_eq!(
        journal.limit_minutes_since(&orders(), second(-20)).unwrap(),
        [point(-20, 4, 4), point(40, 5, 4)]
    );
}

#[test]
fn checkpoints_and_observations_replace_the_ones_before() {
    let place = Place::new();
    let journal = place.open();
    let mut recorder = journal.recorder().unwrap();
    assert_eq!(journal.checkpoint(&orders()).unwrap(), None);
    for n in 0..3 {
        recorder
            .put_checkpoint(&orders(), second(n), &format!("{{\"n\":{n}}}"))
            .unwrap();
    }
    assert_eq!(
        journal.checkpoint(&orders()).unwrap(),
        Some((second(2), "{\"n\":2}".to_owned()))
    );
    let seen = |key: &str, at: i64| Observation {
        key: key.to_owned(),
        as_of: second(at),
        json: format!("\"{at}\""),
    };
    for observation in [seen("there", 1), seen("here", 2), seen("here", 3)] {
        recorder.put_observation("executor", &observation).unwrap();
    }
    recorder.put_observation("signal", &seen("here", 9)).unwrap();
    assert_eq!(
        journal.observations("executor").unwrap(),
        [seen("here", 3), seen("there", 1)]
    );
    recorder.forget_observation("executor", "here").unwrap();
    assert_eq!(journal.observations("executor").unwrap(), [seen("there", 1)]);
    assert_eq!(journal.observations("signal").unwrap(), [seen("here", 9)]);
}

#[test]
fn samples_do_not_move_the_journals_head() {
    let place = Place::new();
    let mut journal = place.open();
    let mut recorder = journal.recorder().unwrap();
    for n in 0..50 {
        recorder.put_sample(&name("lag"), &value(n, 1.0)).unwrap();
        assert_eq!(
            journal
                .append(Some(n as u64), None, &[paused(&orders())])
                .unwrap(),
            [n as u64 + 1]
        );
    }
}
