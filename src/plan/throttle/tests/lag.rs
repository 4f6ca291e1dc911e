//! Lag: start, cut, drain, growth, memory, several signals.

use super::*;

#[test]
fn nothing_starts_until_the_signal_has_given_two_valid_samples_and_then_two_chunks_may() {
    let mut night = Night::orders(8);
    assert_eq!((night.limit(), night.state()), (0, ThrottleState::Waiting));
    night.lag(12.0);
    assert_eq!(night.limit(), 0, "one sample is not enough");
    night.lag(12.0);
    assert_eq!(night.limit(), 2);
    assert_eq!(
        night.last_change().why,
        "limit 0 to 2: orders-live gave two valid samples, 12 s is under soft 60"
    );
}

#[test]
fn a_hole_between_the_first_two_samples_starts_the_count_anew() {
    let mut night = Night::orders(8);
    night.lag(12.0);
    night.no_sample("orders-live", "empty result");
    night.lag(12.0);
    assert_eq!(night.limit(), 0);
    night.lag(12.0);
    assert_eq!(night.limit(), 2);
}

#[test]
fn the_start_limit_never_exceeds_max_limit() {
    let mut night = Night::orders(1);
    night.lag_for(5.0, secs(3600));
    assert_eq!(night.limit(), 1);
}

#[test]
fn every_protecting_signal_has_to_give_two_samples_before_anything_starts() {
    let mut night = Night::new(&[("fraud-live", seconds()), ("orders-live", seconds())], 8);
    night.lag_for(10.0, secs(60));
    assert_eq!(night.limit(), 0);
    assert_eq!(night.report().binding, Some(name("fraud-live")));
    for _ in 0..2 {
        night.lag(10.0);
        night.sample("fraud-live", 3.0);
    }
    assert_eq!(night.limit(), 2);
}

#[test]
fn the_same_measurement_polled_again_counts_once() {
    let mut night = Night::orders(8);
    for poll in 0..4 {
        night.pass(secs(5));
        let age = secs(5 * poll);
        night.input(Input::Sample {
            signal: name("orders-live"),
            value: 12.0,
            age,
        });
    }
    assert_eq!(night.limit(), 0, "four polls of one measurement");
    night.pass(secs(5));
    night.input(Input::Sample {
        signal: name("orders-live"),
        value: 12.0,
        age: secs(1),
    });
    assert_eq!(night.limit(), 2);
}

#[test]
fn one_spike_polled_many_times_is_still_one_sample_above_hard() {
    let mut night = Night::orders_at(6, 8);
    for poll in 0..3 {
        night.pass(secs(5));
        let age = secs(5 * poll);
        night.input(Input::Sample {
            signal: name("orders-live"),
            value: 5000.0,
            age,
        });
    }
    night.lag_for(10.0, secs(300));
    assert!(
        night.changes().iter().all(|c| c.rule == Rule::Grow),
        "{:?}",
        night.steps()
    );
}

#[test]
fn a_backfill_without_signals_runs_at_max_limit_without_gaps() {
    let mut night = Night::new(&[], 16);
    night.silence(secs(600));
    assert_eq!((night.limit(), night.state()), (16, ThrottleState::Open));
    assert_eq!(night.throttle.start_gap(&night.tuning), None);
    assert!(night.told.is_empty());
}

/// Case B27: one spike shorter than two samples.
#[test]
fn one_single_sample_above_hard_stops_nothing_however_high_it_is() {
    for spike in [181.0, 899.0, 5000.0, 1e12] {
        let mut night = Night::orders_at(6, 8);
        night.lag(25.0);
        night.told.clear();
        night.lag(spike);
        assert_eq!((night.limit(), night.told.len()), (6, 0), "{spike}");
        night.lag_for(25.0, secs(300));
        let lowered = night.changes().into_iter().filter(|c| c.to < c.from).count();
        assert_eq!(lowered, 0, "{spike}: {:?}", night.steps());
    }
}

#[test]
fn lag_over_soft_and_rushing_to_hard_halves_the_limit_in_the_words_of_the_screen() {
    let mut night = Night::orders_at(8, 8);
    let mut value = 20.0;
    while night.changes().is_empty() {
        value += 5.0;
        night.lag(value);
    }
    assert_eq!(night.steps(), [(8, 4, Rule::Cut)]);
    let why = &night.last_change().why;
    assert!(
        why.starts_with("limit 8 to 4: orders-live ") && why.ends_with("; starts wait"),
        "{why}"
    );
    assert!(
        why.contains(" s is over ") && why.contains(", on course past hard 180 in "),
        "{why}"
    );
}

#[test]
fn lag_that_lies_over_soft_cuts_by_a_quarter() {
    let mut night = Night::orders_at(8, 8);
    night.tuning.horizon = secs(1);
    night.lag_for(70.0, secs(120));
    assert_eq!(night.steps().first(), Some(&(8, 6, Rule::Cut)));
    assert_eq!(
        night.changes()[0].why,
        "limit 8 to 6: orders-live 62 s is over soft 60; starts wait"
    );
}

#[test]
fn no_second_cut_while_more_runs_than_the_limit() {
    let mut night = Night::orders_at(8, 8);
    night.follows = false;
    night.lag_for(75.0, secs(1200));
    assert_eq!(
        night.changes().len(),
        1,
        "8 still run after the first cut: {:?}",
        night.steps()
    );
    night.load.running = night.limit();
    night.lag(75.0);
    assert_eq!(night.changes().len(), 2);
}

#[test]
fn cuts_are_a_minute_apart_even_when_the_drain_is_quick() {
    let mut night = Night::orders_at(8, 8);
    night.lag_for(80.0, secs(60));
    let first = night.changes().len();
    night.lag_for(80.0, secs(300));
    assert!(
        (1..=6).contains(&(night.changes().len() - first)),
        "{:?}",
        night.steps()
    );
    assert!(night.limit() >= 1, "a cut leaves one");
}

#[test]
fn the_limit_grows_by_one_after_the_dwell_only_while_all_of_it_is_in_use() {
    let mut night = Night::orders_at(2, 8);
    night.follows = false;
    night.load.running = 1;
    night.lag_for(5.0, secs(3600));
    assert_eq!(
        night.limit(),
        2,
        "one slot is free, so the limit is not what binds"
    );
    night.load.running = 2;
    night.lag(5.0);
    assert_eq!(night.limit(), 3);
    night.load.running = 3;
    night.lag_for(5.0, secs(180));
    assert_eq!(night.limit(), 3, "the dwell of 180 s has to be over");
    night.lag(5.0);
    assert_eq!(night.limit(), 4);
    assert_eq!(
        night.last_change().why,
        "limit 3 to 4: orders-live 5 s is below low 30 and flat, all 3 in use"
    );
    night.load = Load {
        running: 4,
        next_weight: None,
        ..night.load
    };
    night.lag_for(5.0, secs(3600));
    assert_eq!(night.limit(), 4, "nothing waits for more");
}

#[test]
fn long_chunks_make_growth_wait_for_half_their_duration() {
    let mut night = Night::orders_at(2, 8);
    night.load.median_chunk = Some(secs(2400));
    night.lag_for(5.0, secs(1200));
    assert_eq!(night.limit(), 2);
    night.lag_for(5.0, secs(30));
    assert_eq!(night.limit(), 3);
}

#[test]
fn low_but_rising_lag_does_not_grow_the_limit() {
    let mut night = Night::orders_at(2, 8);
    let mut value = 10.0;
    for _ in 0..50 {
        value += 0.4;
        night.lag(value);
    }
    assert_eq!(night.limit(), 2, "0.027 s/s is not flat");
}

#[test]
fn a_limit_that_went_wrong_is_not_tried_again_for_an_hour() {
    let mut night = Night::orders_at(8, 8);
    night.lag_for(80.0, secs(75));
    assert!(night.limit() < 8);
    let ceiling = night.report().signals[0].ceiling.unwrap();
    assert_eq!(ceiling.limit, 7);
    night.lag_for(5.0, secs(3510));
    assert_eq!(night.limit(), 7);
    night.lag_for(5.0, secs(210));
    assert_eq!(night.limit(), 8, "after the hour it may");
}

#[test]
fn memories_do_not_age_while_a_human_holds_the_work() {
    let mut night = Night::orders_at(8, 8);
    night.lag_for(80.0, secs(75));
    let before = night.report().signals[0].ceiling.unwrap();
    night.load.held_above = true;
    night.lag_for(5.0, secs(7200));
    let after = night.report().signals[0].ceiling.unwrap();
    assert_eq!(before.limit, after.limit);
    assert!(before.left - after.left <= INTERVAL, "{before:?} {after:?}");
}

#[test]
fn nothing_grows_while_held_from_above() {
    let mut night = Night::orders_at(3, 8);
    night.load.held_above = true;
    night.lag_for(5.0, secs(3600));
    assert_eq!((night.limit(), night.told.len()), (3, 0));
}

#[test]
fn the_smallest_proposal_wins_and_is_named() {
    let mut night = Night::new(&[("fraud-live", seconds()), ("orders-live", seconds())], 4);
    let both = |night: &mut Night, orders: f64, fraud: f64| {
        night.pass(INTERVAL);
        night.sample("fraud-live", fraud);
        night.sample("orders-live", orders);
    };
    for _ in 0..80 {
        both(&mut night, 10.0, 10.0);
    }
    assert_eq!(night.limit(), 4);
    both(&mut night, 10.0, 300.0);
    both(&mut night, 10.0, 300.0);
    let report = night.report();
    assert_eq!((report.limit, report.binding), (0, Some(name("fraud-live"))));
    assert_eq!(report.signals[0].proposes, Some(0));
    assert_eq!(report.signals[1].proposes, Some(4));
    assert_eq!(night.last_change().signal, Some(name("fraud-live")));
}

/// Case B25: what was removed throttles nothing and is named nowhere.
#[test]
fn a_removed_signal_drops_out_at_once_and_the_rest_goes_on_from_half() {
    let mut night = Night::new(&[("fraud-live", seconds()), ("orders-live", seconds())], 4);
    for i in 0..90 {
        night.pass(INTERVAL);
        night.sample("orders-live", 10.0);
        night.sample("fraud-live", if i < 80 { 10.0 } else { 400.0 });
    }
    assert_eq!(night.limit(), 0);
    let rest = levels(&[("orders-live", seconds())]);
    let told = night
        .throttle
        .configure(rest, &night.load, night.now, &night.tuning);
    assert_eq!(night.limit(), 2);
    assert!(
        matches!(&told[..], [Outcome::Limit(c)] if c.signal == Some(name("orders-live")) && !c.why.contains("fraud")),
        "{told:?}"
    );
    assert!(!format!("{:?}", night.report()).contains("fraud"));
    assert!(!night.throttle.checkpoint().contains("fraud"));
}

#[test]
fn a_signal_that_is_added_has_to_give_two_samples_first() {
    let mut night = Night::orders_at(4, 8);
    let more = levels(&[("fraud-live", seconds()), ("orders-live", seconds())]);
    night
        .throttle
        .configure(more, &night.load, night.now, &night.tuning);
    assert_eq!(night.limit(), 0);
}

#[test]
fn an_advising_signal_freezes_growth_and_lowers_nothing() {
    let mut night = Night::new(&[("orders-live", seconds()), ("spend", advising())], 8);
    let both = |night: &mut Night, spend: Option<f64>| {
        night.pass(INTERVAL);
        night.sample("orders-live", 10.0);
        match spend {
            Some(v) => night.sample("spend", v),
            None => night.no_sample("spend", "503"),
        }
    };
    for _ in 0..40 {
        both(&mut night, Some(10.0));
    }
    for _ in 0..10 {
        both(&mut night, Some(70.0));
    }
    let limit = night.limit();
    assert!(limit > 2);
    for _ in 0..60 {
        both(&mut night, Some(70.0));
    }
    assert_eq!(night.limit(), limit, "at its soft it only freezes");
    for _ in 0..60 {
        both(&mut night, None);
    }
    assert_eq!(night.limit(), limit, "blind it only freezes");
    assert!(
        night.told.iter().all(|o| matches!(o, Outcome::Limit(_))),
        "and is no blindness of the backfill"
    );
    for _ in 0..60 {
        both(&mut night, Some(10.0));
    }
    assert!(night.limit() > limit);
}

#[test]
fn a_signal_in_messages_gives_the_same_limits_as_one_in_seconds() {
    let thousand = SignalLevels {
        unit: Unit::Messages,
        low: 30_000.0,
        soft: 60_000.0,
        hard: 180_000.0,
        critical: 900_000.0,
        ..seconds()
    };
    let mut seconds = Night::orders(8);
    let mut messages = Night::new(&[("orders-live", thousand)], 8);
    let lag = |i: u32| match i {
        0..100 => f64::from(i % 7),
        100..140 => f64::from(i - 100) * 3.0,
        140..150 => 220.0,
        150..260 => 12.0,
        _ => f64::from(i % 30),
    };
    let mut seen = Vec::new();
    for i in 0..400 {
        seconds.lag(lag(i));
        messages.lag(lag(i) * 1000.0);
        assert_eq!(seconds.limit(), messages.limit(), "sample {i}");
        seen.push(seconds.limit());
    }
    assert!(seen.contains(&0) && seen.contains(&4), "the night had its events");
    assert!(
        messages
            .changes()
            .iter()
            .any(|c| c.why.contains("220,000 was over hard 180,000"))
    );
}

#[test]
fn a_slow_signal_has_a_slope_too() {
    let minutes = SignalLevels {
        interval: secs(60),
        ..seconds()
    };
    let mut night = Night::new(&[("orders-live", minutes)], 8);
    for i in 0..12 {
        night.pass(secs(60));
        night.sample("orders-live", f64::from(i) * 3.0);
    }
    let slope = night.report().signals[0].slope.unwrap();
    assert!((slope - 0.05).abs() < 1e-9, "{slope}");
}

#[test]
fn a_raised_max_limit_is_grown_into_not_jumped_to() {
    let mut night = Night::orders_at(8, 8);
    night.load.max_limit = 3;
    night.lag(10.0);
    assert_eq!(night.limit(), 3);
    assert_eq!(night.last_change().why, "limit 8 to 3: max_limit is now 3");
    night.load.max_limit = 8;
    night.lag(10.0);
    assert_eq!(night.limit(), 3);
}

#[test]
fn a_text_from_outside_reaches_the_sentences_cleaned() {
    let mut night = Night::orders_at(4, 8);
    for _ in 0..20 {
        night.pass(INTERVAL);
        night.no_sample("orders-live", "\u{1b}[2Jboom\nsecond line");
    }
    let why = &night.last_change().why;
    assert!(why.contains("(^[[2Jboom)") && !why.contains('\u{1b}'), "{why}");
}
