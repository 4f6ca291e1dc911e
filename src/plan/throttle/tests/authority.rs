//! Cap and force over the controller.

use super::{
    super::authority::{Binding, Controller, effective_limit, fits},
    *,
};
use crate::domain::event::Force;

fn controller(limit: u32) -> Controller {
    Controller {
        limit,
        forcible: true,
    }
}

fn force(limit: u32, minutes: i64) -> Option<Force> {
    Some(Force {
        limit,
        until: start_of_time().wall + chrono::Duration::minutes(minutes),
    })
}

#[test]
fn the_controller_binds_below_max_limit_and_a_cap_below_the_controller() {
    let now = start_of_time().wall;
    assert_eq!(
        effective_limit(controller(4), None, None, 8, now),
        (4, Binding::Throttle)
    );
    assert_eq!(
        effective_limit(controller(8), None, None, 8, now),
        (8, Binding::MaxLimit)
    );
    assert_eq!(
        effective_limit(controller(9), None, None, 8, now),
        (8, Binding::MaxLimit)
    );
    assert_eq!(
        effective_limit(controller(4), Some(3), None, 8, now),
        (3, Binding::Cap)
    );
    assert_eq!(
        effective_limit(controller(4), Some(6), None, 8, now),
        (4, Binding::Throttle)
    );
    assert_eq!(
        effective_limit(controller(4), Some(0), None, 8, now),
        (0, Binding::Cap)
    );
}

#[test]
fn a_force_raises_until_it_expires_and_never_above_max_limit_or_a_cap() {
    let now = start_of_time().wall;
    assert_eq!(
        effective_limit(controller(2), None, force(6, 30), 8, now),
        (6, Binding::Force)
    );
    assert_eq!(
        effective_limit(controller(2), None, force(60, 30), 8, now),
        (8, Binding::Force)
    );
    assert_eq!(
        effective_limit(controller(2), Some(3), force(6, 30), 8, now),
        (3, Binding::Cap)
    );
    assert_eq!(
        effective_limit(controller(2), None, force(6, 0), 8, now),
        (2, Binding::Throttle)
    );
    assert_eq!(
        effective_limit(controller(5), None, force(3, 30), 8, now),
        (5, Binding::Throttle)
    );
}

#[test]
fn no_force_lifts_a_stop() {
    let forced = |night: &Night| {
        let until = night.now.wall + chrono::Duration::hours(1);
        let force = Some(Force { limit: 8, until });
        effective_limit(Controller::from(&night.throttle), None, force, 8, night.now.wall).0
    };
    let mut waiting = Night::orders(8);
    assert_eq!(forced(&waiting), 0, "waiting for the first samples");
    waiting.lag(1.0);
    waiting.lag(1.0);
    assert_eq!(forced(&waiting), 8);

    let mut paused = Night::orders_at(4, 8);
    paused.lag(200.0);
    paused.lag(200.0);
    assert_eq!(forced(&paused), 0, "over hard");

    let mut critical = Night::orders_at(4, 8);
    critical.lag(2000.0);
    critical.lag(2000.0);
    assert_eq!(forced(&critical), 0, "critical");

    let mut blind = Night::orders_at(4, 8);
    blind.silence(secs(130));
    assert_eq!(forced(&blind), 2, "blind");
}

/// Case B30: a lowered cap counts what runs already.
#[test]
fn under_a_cap_of_three_nothing_starts_until_fewer_than_three_run() {
    let now = start_of_time().wall;
    let (limit, binding) = effective_limit(controller(8), Some(3), None, 8, now);
    assert_eq!((limit, binding.word()), (3, "cap"));
    for running in 3..=8 {
        assert!(!fits(limit, running, 1), "{running} run");
    }
    assert!(fits(limit, 2, 1));
}

#[test]
fn a_heavy_chunk_may_start_alone_under_any_limit_but_zero() {
    assert!(fits(1, 0, 4));
    assert!(!fits(1, 1, 4));
    assert!(!fits(0, 0, 1));
}
