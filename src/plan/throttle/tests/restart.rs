//! kill -9, reboots and clocks that jump.

use super::*;

/// A named way to bring a night into some state.
type Story = (&'static str, ThrottleState, fn() -> Night);

fn stories() -> Vec<Story> {
    vec![
        ("waiting", ThrottleState::Waiting, || {
            let mut n = Night::orders(8);
            n.lag(3.3);
            n
        }),
        ("open", ThrottleState::Open, || Night::orders_at(5, 8)),
        ("cut", ThrottleState::Cut, || {
            let mut n = Night::orders_at(8, 8);
            n.lag_for(77.7, secs(120));
            n
        }),
        ("paused", ThrottleState::PausedAuto, || {
            let mut n = Night::orders_at(8, 8);
            n.lag(250.1);
            n.lag(250.2);
            n.lag_for(9.9, secs(200));
            n
        }),
        ("recovering", ThrottleState::Recovering, || {
            let mut n = Night::orders_at(8, 8);
            n.pause_and_drain();
            n
        }),
        ("latched", ThrottleState::Latched, || {
            let mut n = Night::orders_at(8, 8);
            n.pause_and_drain();
            n.lag(250.0);
            n.lag(250.0);
            n.lag_for(10.0, secs(900));
            n.lag(250.0);
            n.lag(250.0);
            n
        }),
        ("critical", ThrottleState::Critical, || {
            let mut n = Night::orders_at(8, 8);
            n.lag(999.0);
            n.lag(999.0);
            n
        }),
        ("blind", ThrottleState::Blind, || {
            let mut n = Night::orders_at(8, 8);
            n.silence(secs(140));
            n
        }),
        ("held by a human", ThrottleState::Open, || {
            let mut n = Night::orders_at(5, 8);
            n.load.held_above = true;
            n.lag_for(1.1, secs(100));
            n
        }),
    ]
}

fn restore(night: &Night, boot: &str) -> Throttle {
    let checkpoint = night.throttle.checkpoint();
    Throttle::restore(
        &checkpoint,
        levels(&[("orders-live", seconds())]),
        boot,
        night.now,
    )
    .unwrap()
}

/// Case B34: for every state, what is restored is equal, and goes on equally.
#[test]
fn after_a_kill_the_throttle_is_what_it_was_and_goes_on_the_same() {
    for (story, state, tell) in stories() {
        let mut night = tell();
        assert_eq!(night.state(), state, "{story}");
        let restored = restore(&night, BOOT);
        assert_eq!(restored.checkpoint(), night.throttle.checkpoint(), "{story}");
        assert_eq!(
            restored.report(night.now, &night.tuning),
            night.report(),
            "{story}"
        );

        let mut other = Night {
            throttle: restored,
            told: Vec::new(),
            ..tell()
        };
        night.told.clear();
        for i in 0..400u32 {
            let value = if (60..70).contains(&i) {
                300.0
            } else {
                f64::from(i % 11) / 3.0
            };
            night.lag(value);
            other.lag(value);
            assert_eq!(night.told, other.told, "{story}, sample {i}");
        }
        assert!(
            !night.told.is_empty() || story.contains("latched") || story.contains("human"),
            "{story}"
        );
    }
}

/// Case B34: the newest limit event alone is enough to go on from.
#[test]
fn the_checkpoint_in_the_limit_event_is_the_state_after_it() {
    let mut night = Night::orders_at(8, 8);
    night.lag(250.0);
    night.lag(250.0);
    assert_eq!(night.last_change().checkpoint, night.throttle.checkpoint());
}

#[test]
fn a_checkpoint_is_small_enough_for_an_event() {
    let fast = SignalLevels {
        interval: secs(1),
        ..seconds()
    };
    let mut night = Night::new(&[("orders-live", fast)], 8);
    for i in 0..2000 {
        night.pass(secs(1));
        night.sample("orders-live", f64::from(i % 17) / 7.0);
    }
    let size = night.throttle.checkpoint().len();
    assert!(size < 10_000, "{size} bytes");
}

#[test]
fn a_text_that_is_no_checkpoint_is_an_error() {
    for bad in ["", "{}", "null", "[1]"] {
        assert!(Throttle::restore(bad, levels(&[]), BOOT, start_of_time()).is_err());
    }
}

#[test]
fn setting_the_wall_clock_changes_no_decision() {
    let run = |jumps: bool| {
        let mut night = Night::orders(8);
        let mut limits = Vec::new();
        for i in 0..600u32 {
            if jumps && i % 50 == 7 {
                let hours = if i % 100 == 7 { 30 } else { -90 };
                night.now.wall += chrono::Duration::hours(hours);
            }
            let value = match i {
                100..110 => 250.0,
                300..330 => 80.0,
                _ => f64::from(i % 9),
            };
            night.lag(value);
            limits.push(night.limit());
        }
        limits
    };
    let straight = run(false);
    assert!(straight.contains(&0) && straight.contains(&8));
    assert_eq!(straight, run(true));
}

#[test]
fn after_a_reboot_nothing_starts_until_two_samples_and_then_from_half() {
    for clock in [5_000, 900_000_000] {
        let mut night = Night::orders_at(8, 8);
        let old = night.throttle.checkpoint();
        night.now.boot = BootInstant(clock);
        night.throttle = Throttle::restore(
            &old,
            levels(&[("orders-live", seconds())]),
            "next-boot",
            night.now,
        )
        .unwrap();
        night.input(Input::Tick);
        assert_eq!(night.limit(), 0);
        assert_eq!(
            night.last_change().why,
            "limit 8 to 0: the boot clock started anew; waits for two valid samples of orders-live"
        );
        night.lag(10.0);
        assert_eq!(night.limit(), 0);
        night.lag(10.0);
        assert_eq!(night.limit(), 4);
    }
}

#[test]
fn a_reboot_takes_no_waiting_time_as_passed() {
    let mut night = Night::orders_at(8, 8);
    night.lag(250.0);
    night.lag(250.0);
    night.now.boot = BootInstant(900_000_000_000);
    night.throttle = restore(&night, "next-boot");
    let ceiling = night.report().signals[0].ceiling.unwrap();
    assert_eq!((ceiling.limit, ceiling.left), (7, secs(3600)));
    night.lag_for(10.0, secs(285));
    assert_eq!(night.limit(), 0, "the hold of 5m is not over");
    night.lag_for(10.0, secs(60));
    assert_eq!(night.limit(), 4);
}

#[test]
fn a_boot_clock_behind_the_checkpoint_counts_as_a_reboot() {
    let mut night = Night::orders_at(8, 8);
    let old = night.throttle.checkpoint();
    night.now.boot = BootInstant(1);
    let restored = Throttle::restore(&old, levels(&[("orders-live", seconds())]), BOOT, night.now).unwrap();
    assert_eq!(restored.limit(), 0);
}

#[test]
fn a_signal_that_left_the_configuration_while_we_were_down_is_gone() {
    let mut night = Night::new(&[("fraud-live", seconds()), ("orders-live", seconds())], 4);
    for i in 0..90 {
        night.pass(INTERVAL);
        night.sample("orders-live", 10.0);
        night.sample("fraud-live", if i < 80 { 10.0 } else { 400.0 });
    }
    night.throttle = restore(&night, BOOT);
    assert_eq!(night.limit(), 0, "no jump before the first step");
    night.told.clear();
    night.lag(10.0);
    assert_eq!(night.limit(), 2);
    assert_eq!(night.last_change().signal, Some(name("orders-live")));
}
