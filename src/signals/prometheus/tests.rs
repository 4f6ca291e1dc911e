//! Names, memory and the past, without a server.

use super::{
    PART, Rules,
    answer::{Labels, Track},
    past::{Span, judged},
    series::{Memory, names},
};
use crate::config::{Counts, MOST_SERIES};
use proptest::prelude::*;
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

const S: Duration = Duration::from_secs(1);

fn labels(text: &str) -> Labels {
    text.split_whitespace()
        .filter_map(|l| l.split_once('='))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

fn named(series: &[&str], always: &[&str]) -> Vec<String> {
    let set: BTreeSet<Labels> = series.iter().map(|s| labels(s)).collect();
    let names = names(&set, always).unwrap_or_default();
    series
        .iter()
        .filter_map(|s| names.get(&labels(s)).cloned())
        .collect()
}

#[test]
fn series_are_named_by_the_labels_in_which_they_differ() {
    let two = ["g=orders t=clicks job=x", "g=orders t=views job=x"];
    assert_eq!(named(&two, &[]), ["clicks", "views"]);
    assert_eq!(named(&two, &["g", "t"]), ["orders/clicks", "orders/views"]);
    assert_eq!(named(&["g=a t=x", "g=b t=y"], &[]), ["a/x", "b/y"]);
    assert_eq!(named(&["g=a", ""], &[]), ["a", "-"]);
    // One series needs no name, unless it always has one.
    assert!(named(&["g=a t=x"], &[]).is_empty());
    assert_eq!(named(&["g=a t=x"], &["g"]), ["a"]);
}

#[test]
fn equal_names_are_told_apart_and_hostile_ones_are_clean_and_short() {
    assert_eq!(named(&["a=x/y b=z", "a=x b=y/z"], &[]), ["x/y/z (2)", "x/y/z"]);
    let long = |end: &str| format!("a={}{end}", "x".repeat(500));
    let names = named(&[&long("1"), &long("2"), "a=\u{1b}[2J"], &[]);
    assert!(names[..2].iter().all(|n| n.chars().count() == 80), "{names:?}");
    assert!(names[0] != names[1] && names[1].ends_with("xx2"), "{names:?}");
    assert_eq!(names[2], "^[[2J");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(28),
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_two_series_ever_have_one_name(
        series in proptest::collection::btree_set(
            proptest::collection::btree_map("[ab]", "[x/ ()2-]{0,4}", 0..3), 1..12)
    ) {
        if let Some(names) = names(&series, &[]) {
            let different: BTreeSet<&String> = names.values().collect();
            prop_assert_eq!(different.len(), series.len());
        }
    }
}

fn look(memory: &mut Memory, there: &[&str], now: Instant) -> Vec<(Labels, Duration)> {
    let there: Vec<Labels> = there.iter().map(|t| labels(t)).collect();
    let gone = memory.look(there.iter(), now, 600 * S).unwrap();
    gone.into_iter().collect()
}

/// Case B28.
#[test]
fn a_series_is_missed_until_it_has_been_gone_for_long_or_is_back() {
    let (mut memory, begin) = (Memory::default(), Instant::now());
    assert!(look(&mut memory, &["t=a", "t=b"], begin).is_empty());
    assert_eq!(
        look(&mut memory, &["t=a"], begin + 5 * S),
        [(labels("t=b"), Duration::ZERO)]
    );
    assert_eq!(
        look(&mut memory, &["t=a"], begin + 604 * S),
        [(labels("t=b"), 599 * S)]
    );
    // Back, and gone again: the time starts anew.
    assert!(look(&mut memory, &["t=a", "t=b"], begin + 604 * S).is_empty());
    assert_eq!(
        look(&mut memory, &["t=a"], begin + 700 * S),
        [(labels("t=b"), Duration::ZERO)]
    );
    assert!(look(&mut memory, &["t=a"], begin + 1_300 * S).is_empty());
    assert!(look(&mut memory, &["t=a"], begin + 1_301 * S).is_empty());
}

#[test]
fn series_that_are_never_the_same_are_refused_and_not_remembered_without_end() {
    let (mut memory, begin) = (Memory::default(), Instant::now());
    let mut refused = 0;
    for n in 0..5 * MOST_SERIES {
        let one = labels(&format!("pod=p{n}"));
        refused += usize::from(memory.look([one].iter(), begin, 600 * S).is_err());
    }
    assert_eq!(refused, 2);
}

fn rules() -> Rules {
    Rules {
        labels: Vec::new(),
        wanted: Vec::new(),
        series: None,
        gone_after: 600 * S,
    }
}

const NOW: f64 = 1_795_970_000.5;

fn span() -> Span {
    Span {
        now: NOW,
        since: 60 * S,
        step: 10 * S,
    }
}

/// A track whose points are so many seconds ago.
fn track(part: &str, text: &str, points: &[(f64, f64)]) -> Track {
    let mut labels = labels(text);
    labels.insert(PART.to_owned(), part.to_owned());
    Track {
        labels,
        points: points.iter().map(|(ago, value)| (NOW - ago, *value)).collect(),
    }
}

/// Ages of one second at all steps.
fn ages() -> Track {
    let points: Vec<(f64, f64)> = (0..=6)
        .map(|n| (f64::from(n) * 10.0, NOW - f64::from(n) * 10.0 - 1.0))
        .collect();
    track("age", "", &points)
}

fn past(tracks: Vec<Track>) -> Vec<(u64, f64)> {
    judged(&rules(), None, span(), tracks)
        .into_iter()
        .map(|(ago, value)| (ago.as_secs(), value))
        .collect()
}

#[test]
fn the_past_is_the_worst_series_at_each_step_and_gaps_stay_gaps() {
    let a = track(
        "value",
        "t=a",
        &[
            (50.0, 1.0),
            (40.0, 2.0),
            (30.0, f64::NAN),
            (20.0, 4.0),
            (10.0, 5.0),
        ],
    );
    // Missing at 20 between two points; not there yet at 50.
    let b = track("value", "t=b", &[(40.0, 9.0), (30.0, 9.0), (10.0, 3.0)]);
    assert_eq!(past(vec![a, b, ages()]), [(50, 1.0), (40, 9.0), (10, 5.0)]);
    for wrong in [-1.0, f64::INFINITY, f64::NEG_INFINITY] {
        let one = track("value", "", &[(20.0, wrong), (10.0, 0.0)]);
        assert_eq!(past(vec![one, ages()]), [(10, 0.0)]);
    }
}

#[test]
fn a_step_without_a_fresh_sample_behind_it_is_a_gap() {
    let value = || track("value", "", &[(30.0, 7.0), (20.0, 7.0), (10.0, 7.0), (0.0, 7.0)]);
    assert!(past(vec![value()]).is_empty());
    let ages = track(
        "age",
        "",
        &[
            (30.0, NOW - 90.5),
            (20.0, NOW - 80.0),
            (10.0, f64::NAN),
            // A minute ahead of the step: no time of a measurement.
            (0.0, NOW + 60.0),
        ],
    );
    assert_eq!(past(vec![value(), ages]), [(20, 7.0)]);
}

#[test]
fn what_lies_outside_of_what_was_asked_for_is_left_out() {
    let value = track(
        "value",
        "",
        &[(1e12, 1.0), (70.0, 1.0), (60.0, 2.0), (0.0, 3.0), (-60.0, 4.0)],
    );
    let at = |ago: f64| (ago, NOW - ago);
    let ages = track("age", "", &[at(1e12), at(70.0), at(60.0), at(0.0), at(-60.0)]);
    assert_eq!(past(vec![value, ages]), [(60, 2.0), (0, 3.0)]);
}

#[test]
fn a_step_whose_partitions_are_mostly_unknown_is_a_gap() {
    let counts = Counts {
        all: String::new(),
        known: String::new(),
    };
    let points = |value: f64| [(20.0, value), (10.0, value)];
    let tracks = vec![
        track("value", "t=a", &points(5.0)),
        ages(),
        track("all", "t=a", &points(10.0)),
        track("known", "t=a", &[(20.0, 8.0), (10.0, 9.0)]),
    ];
    let found = judged(&rules(), Some(&counts), span(), tracks.clone());
    assert_eq!(found, [(10 * S, 5.0)]);
    // A topic without any lag has counts and no value.
    let mut more = tracks;
    more.push(track("all", "t=b", &points(1.0)));
    assert!(judged(&rules(), Some(&counts), span(), more).is_empty());
}
