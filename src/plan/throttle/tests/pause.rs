//! Pauses by a signal: hard, resume, flap, latch, critical, and what a hold from above does to them.

use super::*;

#[test]
fn two_samples_above_hard_pause_and_the_sentence_says_how_it_ends() {
    let mut night = Night::orders_at(4, 8);
    night.lag(200.0);
    assert_eq!(night.limit(), 4);
    night.lag(190.0);
    assert_eq!((night.limit(), night.state()), (0, ThrottleState::PausedAuto));
    assert_eq!(
        night.last_change().why,
        "paused by orders-live: 190 s was over hard 180 for 2 samples; resumes by itself below low 30 for 5m"
    );
}

#[test]
fn lag_that_creeps_past_hard_pauses_by_its_mean() {
    let mut night = Night::orders_at(1, 1);
    for step in 0..160 {
        let wave = if step % 2 == 0 { 9.0 } else { -9.0 };
        night.lag(60.0 + f64::from(step) + wave);
        if night.limit() == 0 {
            break;
        }
    }
    assert_eq!(night.state(), ThrottleState::PausedAuto);
}

#[test]
fn while_a_human_holds_lag_over_soft_cuts_nothing_but_hard_still_pauses() {
    let mut night = Night::orders_at(6, 8);
    night.load.held_above = true;
    night.lag_for(100.0, secs(900));
    assert_eq!((night.limit(), night.told.len()), (6, 0));
    night.lag_for(200.0, secs(30));
    assert_eq!(night.state(), ThrottleState::PausedAuto);
    night.load.held_above = false;
    night.lag(10.0);
    assert_eq!(night.limit(), 0, "nothing starts in the moment of the release");
}

#[test]
fn a_pause_lasts_two_minutes_at_least_however_short_the_hold_is() {
    let mut night = Night::orders_at(6, 8);
    night.tuning.resume_hold = secs(1);
    night.tuning.ewma = secs(1);
    night.lag(200.0);
    night.lag(200.0);
    night.tuning.slope_window = secs(60);
    night.lag_for(1.0, secs(105));
    assert_eq!(night.limit(), 0);
    night.lag_for(1.0, secs(120));
    assert_eq!(night.limit(), 3);
}

/// Case B31: after any resume the limit begins at half and starts are paced.
#[test]
fn a_resume_by_the_signal_begins_at_half_with_paced_starts_until_the_former_limit_runs() {
    let mut night = Night::orders_at(8, 8);
    night.lag(250.0);
    night.lag(250.0);
    night.told.clear();
    night.lag_for(10.0, secs(120));
    assert_eq!(night.limit(), 0, "the mean has to fall first, and then stay low");
    night.lag_for(10.0, secs(420));
    assert_eq!(
        night.steps(),
        [(0, 0, Rule::Pause), (0, 4, Rule::Resume)],
        "whether it was us is said first"
    );
    assert_eq!(
        night.last_change().why,
        "limit 0 to 4: orders-live was below low 30 and flat for 5m; half of the former 8, one start per 10s"
    );
    assert_eq!(night.throttle.start_gap(&night.tuning), Some(secs(10)));
    assert_eq!(night.state(), ThrottleState::Recovering);
    night.lag_for(10.0, secs(5400));
    assert_eq!((night.limit(), night.state()), (8, ThrottleState::Open));
    assert_eq!(night.throttle.start_gap(&night.tuning), None);
}

/// Case B31: also when it was a human who resumed.
#[test]
fn when_a_human_lets_go_the_limit_goes_on_from_half_and_starts_are_paced() {
    let mut night = Night::orders_at(8, 8);
    night.load.held_above = true;
    night.lag_for(10.0, secs(1800));
    night.follows = false;
    (night.load.running, night.load.held_above) = (0, false);
    night.lag(10.0);
    assert_eq!(night.steps(), [(8, 4, Rule::Resume)]);
    assert_eq!(night.throttle.start_gap(&night.tuning), Some(secs(10)));
}

/// Case B30: a raise within the drain takes nothing away from what runs.
#[test]
fn a_short_hold_that_drained_nothing_costs_nothing() {
    let mut night = Night::orders_at(8, 8);
    night.follows = false;
    night.load = Load {
        running: 8,
        held_above: true,
        ..night.load
    };
    night.lag(10.0);
    night.load.held_above = false;
    night.lag(10.0);
    assert_eq!((night.limit(), night.told.len()), (8, 0));
}

#[test]
fn a_second_pause_within_half_an_hour_doubles_the_hold_and_the_third_in_two_hours_latches() {
    let mut night = Night::orders_at(8, 8);
    night.pause_and_drain();
    assert_eq!(night.limit(), 4);
    night.lag(250.0);
    night.lag(250.0);
    assert!(
        night.last_change().why.ends_with("below low 30 for 10m"),
        "{}",
        night.last_change().why
    );
    night.lag_for(10.0, secs(480));
    assert_eq!(night.limit(), 0, "five minutes are not enough any more");
    night.lag_for(10.0, secs(400));
    assert_eq!(night.limit(), 2);
    night.lag(250.0);
    night.lag(250.0);
    assert_eq!(night.state(), ThrottleState::Latched);
    assert_eq!(
        night.last_change().why,
        "latched until acknowledged: third pause within 2h by orders-live, 250 s was over hard 180 for 2 samples"
    );
    night.lag_for(10.0, secs(6 * 3600));
    assert_eq!(night.limit(), 0, "no time heals a latch");

    let told = night.throttle.acknowledge(night.now, &night.tuning);
    assert!(
        matches!(&told[..], [Outcome::Limit(c)] if c.rule == Rule::Acknowledged && c.to == 0),
        "{told:?}"
    );
    night.lag(10.0);
    assert_eq!(
        night.limit(),
        1,
        "it was calm for hours, so it resumes at half of 2"
    );
}

#[test]
fn the_hold_is_the_ordinary_one_again_when_the_last_resume_is_long_ago() {
    let mut night = Night::orders_at(8, 8);
    night.pause_and_drain();
    night.lag_for(10.0, secs(7500));
    night.lag(250.0);
    night.lag(250.0);
    assert!(
        night.last_change().why.ends_with("below low 30 for 5m"),
        "{}",
        night.last_change().why
    );
    assert_eq!(night.report().pauses, (1, 3), "the first is forgotten");
}

#[test]
fn acknowledging_without_a_latch_does_nothing() {
    let mut night = Night::orders_at(4, 8);
    assert!(night.throttle.acknowledge(night.now, &night.tuning).is_empty());
    assert_eq!(night.limit(), 4);
}

/// Case B27: critical while running hibernates, and what runs is left alone.
#[test]
fn two_critical_samples_hibernate_for_five_minutes_and_then_it_is_a_pause() {
    let mut night = Night::orders_at(6, 8);
    night.lag(950.0);
    assert_eq!(night.limit(), 6);
    night.lag(950.0);
    assert_eq!((night.limit(), night.state()), (0, ThrottleState::Critical));
    assert_eq!(
        night.last_change().why,
        "critical: orders-live 950 s was over critical 900 for 2 samples; no starts for 5m, then as paused"
    );
    night.told.clear();
    night.lag_for(5.0, secs(300));
    assert_eq!(night.state(), ThrottleState::PausedAuto);
    assert_eq!(
        night.steps(),
        [(0, 0, Rule::Critical), (0, 0, Rule::Pause)],
        "the screen hears whether it was us, and of the end of the rest"
    );
    night.lag_for(5.0, secs(300));
    assert_eq!(night.limit(), 3);
}

/// Case B27: critical while already held.
#[test]
fn critical_while_a_human_holds_shows_critical_and_does_not_count_as_our_pause() {
    let mut night = Night::orders_at(6, 8);
    night.load.held_above = true;
    night.lag(950.0);
    night.lag(950.0);
    assert_eq!(night.state(), ThrottleState::Critical);
    let report = night.report();
    assert_eq!(
        report.pauses.0, 0,
        "the limit did not go wrong: nothing was starting"
    );
    assert_eq!(report.signals[0].ceiling, None);
}

#[test]
fn critical_out_of_a_pause_stays_critical_as_long_as_samples_are() {
    let mut night = Night::orders_at(6, 8);
    night.lag(250.0);
    night.lag(250.0);
    night.lag_for(950.0, secs(900));
    assert_eq!(night.state(), ThrottleState::Critical);
    assert!(night.report().signals[0].hibernates.unwrap() > secs(280));
}

#[test]
fn drain_times_come_from_the_falling_slope() {
    let mut night = Night::orders_at(2, 8);
    let mut value = 200.0;
    while value > 100.0 {
        night.lag(value);
        value -= 3.0;
    }
    let s = night.report().signals[0].clone();
    let (mean, slope) = (s.mean.unwrap(), s.slope.unwrap());
    let expected = |level: f64| (mean - level) / -slope;
    assert!((s.to_soft.unwrap().as_secs_f64() - expected(60.0)).abs() < 1e-6);
    assert!((s.to_low.unwrap().as_secs_f64() - expected(30.0)).abs() < 1e-6);
    assert_eq!((s.to_hard, s.resumes_at, s.hold_left), (None, Some(1), None));
}
