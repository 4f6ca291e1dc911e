//! *Was it us?* (part B3): measured after a pause, and said once.

use super::*;

/// Paused with 6 running on lag that rises by a second a second.
fn paused() -> Night {
    let mut night = Night::orders_at(6, 8);
    night.follows = false;
    night.load.running = 6;
    let mut lag = 20.0;
    while night.limit() > 0 {
        night.lag(lag);
        lag += 15.0;
    }
    night.told.clear();
    night
}

/// Lag that moves by so much each interval, from 260 on.
fn moves(night: &mut Night, by: f64, d: Duration) {
    let mut lag = 260.0;
    for _ in 0..d.as_secs() / INTERVAL.as_secs() {
        lag += by;
        night.lag(lag);
    }
}

fn said(night: &Night) -> Vec<String> {
    night.changes().iter().map(|c| c.why.clone()).collect()
}

#[test]
fn lag_that_turns_when_what_runs_has_ended_was_ours() {
    let mut night = paused();
    moves(&mut night, 15.0, secs(300));
    assert_eq!(
        said(&night),
        [""; 0],
        "all of it still runs: nothing can be told yet"
    );
    night.load.running = 3;
    moves(&mut night, -3.0, secs(600));
    let said = said(&night);
    assert_eq!(said.len(), 1, "once: {said:?}");
    assert!(said[0].contains("resumes by itself below low 30"), "{said:?}");
    assert!(
        said[0].ends_with("ours, it seems: lag went +40 s/min with 6 running, and -12 s/min since 3 do"),
        "{said:?}"
    );
    assert_eq!(night.steps(), [(0, 0, Rule::Pause)]);
}

#[test]
fn lag_that_rises_on_as_before_was_not_ours() {
    let mut night = paused();
    night.load.running = 0;
    moves(&mut night, 14.0, secs(300));
    let said = said(&night);
    assert!(
        said[0].ends_with(
            "not ours, it seems: lag went +40 s/min with 6 running, and still +56 s/min since 0 do"
        ),
        "{said:?}"
    );
}

#[test]
fn where_nothing_ran_it_was_not_ours_from_the_first_moment() {
    let mut night = Night::orders_at(6, 8);
    night.follows = false;
    night.load.running = 0;
    night.lag(250.0);
    night.lag(250.0);
    assert!(night.last_change().why.ends_with("not ours: nothing of ours ran"));
}

#[test]
fn an_alert_says_nothing_about_whose_it_is() {
    let alert = SignalLevels {
        unit: Unit::Alerts,
        low: 0.1,
        soft: 0.5,
        hard: 0.9,
        critical: 2.0,
        ..seconds()
    };
    let mut night = Night::new(&[("orders-live", alert)], 4);
    night.lag_for(0.0, secs(900));
    night.load.running = 0;
    night.lag_for(1.0, secs(900));
    assert_eq!(night.limit(), 0);
    assert!(
        !night.last_change().why.contains("ours"),
        "{}",
        night.last_change().why
    );
}

/// Case B34: what is being measured survives a crash.
#[test]
fn a_measurement_goes_on_after_a_crash() {
    let mut night = paused();
    night.load.running = 2;
    moves(&mut night, -3.0, secs(90));
    let saved = night.throttle.checkpoint();
    let levels = levels(&[("orders-live", seconds())]);
    night.throttle = Throttle::restore(&saved, levels, BOOT, night.now).unwrap();
    assert_eq!(night.throttle.checkpoint(), saved);
    moves(&mut night, -3.0, secs(120));
    assert!(said(&night)[0].contains("ours, it seems"), "{:?}", said(&night));
}
