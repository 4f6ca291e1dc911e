use super::*;
use rstest::rstest;

/// CloudWatch's clock, in seconds.
const NOW: f64 = 1_795_972_300.0;

fn clock() -> Clock {
    Clock {
        now_ms: (NOW * 1000.0) as i64,
        kept: std::time::Duration::ZERO,
        skew_ms: Some(0),
    }
}

fn streams(names: &[&str]) -> Vec<(String, String)> {
    let named = names.iter().enumerate();
    named
        .map(|(n, name)| ((*name).to_owned(), format!("s{n}")))
        .collect()
}

fn series(at: f64, value: f64) -> Series {
    Series {
        newest: Some(Point { at, value }),
        status: Status::Complete,
        words: String::new(),
    }
}

fn pages(series: &[Series]) -> Pages {
    let named = series.iter().enumerate();
    Pages {
        series: named
            .map(|(n, series)| (format!("s{n}"), series.clone()))
            .collect(),
        warning: None,
    }
}

fn refusal(pages: &Pages) -> (NoSample, String) {
    match reading(&streams(&["orders"]), pages, clock()) {
        Reading::NoSample { health, why } => (health, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_oldest_iterator_is_the_value_in_seconds_and_the_oldest_datapoint_its_age() {
    let found = pages(&[series(NOW - 90.0, 93_000.0), series(NOW - 200.0, 1_200.0)]);
    let expected = Reading::Value {
        value: 93.0,
        age: Duration::from_secs(140),
        skew_ms: Some(0),
        parts: vec![
            Part {
                name: "clicks".to_owned(),
                value: Ok(1.2),
                note: String::new(),
            },
            Part {
                name: "orders".to_owned(),
                value: Ok(93.0),
                note: String::new(),
            },
        ],
    };
    assert_eq!(
        reading(&streams(&["orders", "clicks"]), &found, clock()),
        expected
    );
}

#[rstest]
#[case::of_the_period_that_runs(20.0, 0)]
#[case::of_the_period_that_just_ended(60.0, 0)]
#[case::a_minute_later(120.0, 60)]
fn a_datapoint_ages_from_the_end_of_its_period(#[case] begun_ago: f64, #[case] seconds: u64) {
    match reading(
        &streams(&["orders"]),
        &pages(&[series(NOW - begun_ago, 5.0)]),
        clock(),
    ) {
        Reading::Value { age, .. } => assert_eq!(age, Duration::from_secs(seconds)),
        other => panic!("{other:?}"),
    }
}

/// Case B28.
#[test]
fn a_stream_without_a_datapoint_is_missing_and_never_caught_up() {
    let mut found = pages(&[series(NOW, 0.0)]);
    assert!(matches!(
        reading(&streams(&["orders"]), &found, clock()),
        Reading::Value { value: 0.0, .. }
    ));
    found.series.get_mut("s0").unwrap().newest = None;
    let (health, why) = refusal(&found);
    assert_eq!(health, NoSample::Missing);
    assert!(
        why.starts_with("orders: no datapoint in the last 10 minutes"),
        "{why}"
    );
}

#[test]
fn one_stream_that_is_missing_leaves_no_number_for_the_others() {
    let mut found = pages(&[series(NOW, 7.0), series(NOW, 0.0)]);
    found.series.get_mut("s1").unwrap().newest = None;
    match reading(&streams(&["orders", "clicks"]), &found, clock()) {
        Reading::NoSample { health, why } => {
            assert_eq!(health, NoSample::Missing);
            assert!(why.starts_with("clicks: "), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_part_of_the_data_or_of_the_streams_is_partial() {
    let mut found = pages(&[series(NOW, 7.0)]);
    found.warning = Some("MaxMetricsExceeded: too many".to_owned());
    let expected = "CloudWatch says: MaxMetricsExceeded: too many";
    assert_eq!(refusal(&found), (NoSample::Partial, expected.to_owned()));
    found.warning = None;
    found.series.get_mut("s0").unwrap().status = Status::PartialData;
    assert_eq!(
        refusal(&found),
        (NoSample::Partial, "orders: only a part of its data.".to_owned())
    );
    found.series.clear();
    let expected = "orders: it is not in the answer";
    assert_eq!(refusal(&found), (NoSample::Partial, expected.to_owned()));
}

#[rstest]
#[case::not_a_number(NOW, f64::NAN)]
#[case::endless(NOW, f64::INFINITY)]
#[case::below_zero(NOW, -1.0)]
#[case::of_the_future(NOW + 60.0, 1.0)]
#[case::of_no_time(f64::NAN, 1.0)]
#[case::in_the_wrong_unit(NOW / 1000.0, 1.0)]
fn a_number_that_no_iterator_age_is_or_a_time_that_is_none_is_invalid(#[case] at: f64, #[case] value: f64) {
    assert_eq!(refusal(&pages(&[series(at, value)])).0, NoSample::Invalid);
}

#[test]
fn streams_that_are_refused_are_named_with_the_reason() {
    let mut found = pages(&[series(NOW, 7.0), series(NOW, 0.0), series(NOW, 0.0)]);
    let names = streams(&["orders", "clicks", "views"]);
    assert_eq!(refused(&names, &found, Status::Forbidden), None);
    for id in ["s1", "s2"] {
        let series = found.series.get_mut(id).unwrap();
        series.status = Status::Forbidden;
        series.words = "AccessDenied: not yours".to_owned();
    }
    assert_eq!(
        refused(&names, &found, Status::Forbidden).as_deref(),
        Some("clicks and 1 other stream: AccessDenied: not yours")
    );
    found.series.get_mut("s1").unwrap().words.clear();
    found.series.remove("s2");
    assert_eq!(
        refused(&names, &found, Status::Forbidden).as_deref(),
        Some("clicks")
    );
}
