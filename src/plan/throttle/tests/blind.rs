//! Blindness. No data is not good data.

use super::*;

/// Case B28, for everything that is no sample.
#[test]
fn without_samples_the_limit_never_grows_is_halved_at_two_minutes_and_zero_at_five() {
    type Dark = fn(&mut Night);
    let ways: [(&str, Dark); 6] = [
        ("empty result", |n| n.no_sample("orders-live", "empty result")),
        ("503", |n| n.no_sample("orders-live", "HTTP 503")),
        ("NaN", |n| n.sample("orders-live", f64::NAN)),
        ("negative", |n| n.sample("orders-live", -1.0)),
        ("infinite", |n| n.sample("orders-live", f64::INFINITY)),
        ("silence", |n| {
            n.input(Input::Tick);
        }),
    ];
    for (what, dark) in ways {
        let mut night = Night::orders_at(6, 8);
        let mut seen = Vec::new();
        for _ in 0..24 {
            night.pass(INTERVAL);
            dark(&mut night);
            seen.push(night.limit());
        }
        let expected: Vec<u32> = (1..=24)
            .map(|i| match i * 15 {
                0..120 => 6,
                120..300 => 3,
                _ => 0,
            })
            .collect();
        assert_eq!(seen, expected, "{what}");
        assert_eq!(night.state(), ThrottleState::Blind, "{what}");
        let rules: Vec<Rule> = night.changes().iter().map(|c| c.rule).collect();
        assert_eq!(rules, [Rule::Blind, Rule::Blind], "{what}");
        assert!(
            matches!(&night.told[0], Outcome::Blind { signal, last: Some(_), .. } if *signal == name("orders-live")),
            "{what}"
        );
    }
}

#[test]
fn the_sentences_of_blindness_name_signal_age_cause_and_what_comes_next() {
    let mut night = Night::orders_at(8, 8);
    for _ in 0..21 {
        night.pass(INTERVAL);
        night.no_sample("orders-live", "connection refused");
    }
    let whys: Vec<&str> = night.changes().iter().map(|c| c.why.as_str()).collect();
    assert_eq!(
        whys,
        [
            "limit 8 to 4: no valid sample of orders-live for 2m (connection refused); no new starts in 3m",
            "limit 4 to 0: no valid sample of orders-live for 5m (connection refused); no new starts, running chunks finish",
        ]
    );
}

#[test]
fn the_banner_says_since_when_and_what_comes_when() {
    let mut night = Night::orders_at(8, 8);
    let last = night.now.wall;
    night.silence(secs(250));
    let report = night.report();
    let blind = report.blind().unwrap();
    assert_eq!((blind.since, blind.age), (last, secs(250)));
    let clock = |t: chrono::DateTime<Utc>| format!("+{}s", (t - last).num_seconds());
    assert_eq!(
        blind.sentence(night.now.wall, clock),
        "no valid sample of orders-live since +0s: no growth, limit 8 to 4 at +120s, no new starts from +300s (in 50s)"
    );
}

#[test]
fn growth_stops_with_the_first_missing_sample() {
    let mut night = Night::orders_at(2, 8);
    night.lag_for(5.0, secs(180));
    night.pass(INTERVAL);
    night.no_sample("orders-live", "HTTP 503");
    night.silence(secs(15));
    night.lag(5.0);
    assert_eq!(night.limit(), 2, "one sample after a hole is not a run of two");
    night.lag(5.0);
    assert_eq!(night.limit(), 3);
    assert!(
        night.told.iter().all(|o| matches!(o, Outcome::Limit(_))),
        "one missed poll is no blindness"
    );
}

#[test]
fn two_valid_samples_end_blindness_and_the_limit_goes_on_from_half() {
    let mut night = Night::orders_at(6, 8);
    night.silence(secs(400));
    assert_eq!(night.limit(), 0);
    night.told.clear();
    night.lag(10.0);
    assert_eq!(night.limit(), 0, "one sample does not end it");
    assert_eq!(night.state(), ThrottleState::Blind);
    night.lag(10.0);
    assert_eq!(night.limit(), 3);
    assert!(matches!(
        &night.told[..],
        [Outcome::Seen { .. }, Outcome::Limit(_)]
    ));
    assert_eq!(
        night.last_change().why,
        "limit 0 to 3: orders-live is seen, 10 s is under soft 60; half of the former 6, one start per 10s"
    );
    night.lag_for(10.0, secs(180));
    assert_eq!(night.limit(), 3, "growth waits for its dwell");
    night.lag_for(10.0, secs(30));
    assert_eq!(night.limit(), 4);
}

#[test]
fn a_short_blindness_that_lowered_nothing_leaves_the_limit_where_it_was() {
    let mut night = Night::orders_at(6, 8);
    night.silence(secs(90));
    night.lag(10.0);
    night.lag(10.0);
    assert_eq!((night.limit(), night.changes().len()), (6, 0));
}

#[test]
fn a_source_that_answers_now_and_then_does_not_end_blindness() {
    let mut night = Night::orders_at(6, 8);
    night.silence(secs(60));
    for _ in 0..20 {
        night.lag(10.0);
        night.pass(INTERVAL);
        night.no_sample("orders-live", "timed out");
    }
    assert_eq!(night.limit(), 0);
}

#[test]
fn samples_over_hard_right_after_blindness_pause_instead_of_rising() {
    let mut night = Night::orders_at(6, 8);
    night.silence(secs(400));
    night.lag(300.0);
    night.lag(300.0);
    assert_eq!((night.limit(), night.state()), (0, ThrottleState::PausedAuto));
    let resumes_at = night.report().signals[0].resumes_at;
    assert_eq!(resumes_at, Some(3), "half of what ran before it was blind");
}

#[test]
fn a_pause_stays_a_pause_through_blindness_and_the_hold_begins_anew() {
    let mut night = Night::orders_at(6, 8);
    night.lag(250.0);
    night.lag(250.0);
    night.lag_for(5.0, secs(300));
    night.silence(secs(600));
    assert_eq!(night.state(), ThrottleState::Blind);
    night.lag_for(5.0, secs(290));
    assert_eq!((night.limit(), night.state()), (0, ThrottleState::PausedAuto));
    night.lag_for(5.0, secs(60));
    assert_eq!(night.limit(), 3);
}

#[test]
fn no_signal_lets_the_limit_rise_while_another_is_not_seen() {
    let mut night = Night::new(&[("fraud-live", seconds()), ("orders-live", seconds())], 4);
    for i in 0..90 {
        night.pass(INTERVAL);
        night.sample("orders-live", if i < 80 { 10.0 } else { 400.0 });
        night.sample("fraud-live", 10.0);
    }
    assert_eq!(night.limit(), 0);
    for _ in 0..60 {
        night.pass(INTERVAL);
        night.sample("orders-live", 10.0);
        night.no_sample("fraud-live", "empty result");
    }
    assert_eq!(
        night.limit(),
        0,
        "orders-live is calm for long, but fraud-live is blind"
    );
    for _ in 0..2 {
        night.pass(INTERVAL);
        night.sample("orders-live", 10.0);
        night.sample("fraud-live", 10.0);
    }
    assert!(night.limit() > 0);
}

#[test]
fn a_signal_that_never_answered_is_blind_since_we_began_to_look() {
    let mut night = Night::orders(8);
    let began = night.now.wall;
    night.silence(secs(600));
    assert_eq!((night.limit(), night.state()), (0, ThrottleState::Blind));
    assert!(matches!(&night.told[..], [Outcome::Blind { last: None, .. }]));
    assert_eq!(night.report().blind().unwrap().since, began);
}

#[test]
fn after_a_gap_of_our_own_the_signal_gets_its_usual_time_to_answer() {
    let mut night = Night::orders_at(6, 8);
    night.pass(secs(70));
    night.input(Input::Tick);
    assert!(night.told.is_empty(), "nobody asked for 70 s: {:?}", night.told);
    night.lag(10.0);
    night.lag(10.0);
    assert!(night.told.iter().all(|o| matches!(o, Outcome::Limit(_))));
    night.pass(secs(3600));
    night.input(Input::Tick);
    assert_eq!(
        night.limit(),
        0,
        "after an hour nothing is known, whoever was away"
    );
}
