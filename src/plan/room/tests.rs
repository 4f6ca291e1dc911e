//! The bounds that hold whatever the model says.

use super::*;
use proptest::prelude::*;

const LEVELS: Levels = Levels {
    soft: 60.0,
    hard: 180.0,
    critical: 900.0,
    interval: 15.0,
};

fn view(now: f64, running: &[Running], limit: u32, max_limit: u32) -> View<'_> {
    View {
        now,
        running,
        mean: 600.0,
        next: Some(1),
        max_limit,
        limit,
        fresh: true,
        may_grow: true,
        paused: limit == 0,
        may_resume: true,
        cancel: Some(1.0),
        times: Times::default(),
    }
}

fn running(n: u32, age: f64) -> Vec<Running> {
    let one = |key| Running {
        key,
        weight: 1,
        age,
        expected: 600.0,
        may_be_cancelled: true,
    };
    (0..u64::from(n)).map(one).collect()
}

#[derive(Debug, Clone)]
enum Move {
    Lag(f64),
    Nothing,
    Runs(u32),
    MaxLimit(u32),
}

fn moves() -> impl Strategy<Value = Vec<(Move, u8)>> {
    let one = prop_oneof![
        6 => (0.0..250.0f64).prop_map(Move::Lag),
        2 => Just(Move::Lag(0.0)),
        1 => (0.0..5_000.0f64).prop_map(Move::Lag),
        2 => Just(Move::Nothing),
        3 => (0..20u32).prop_map(Move::Runs),
        1 => (1..20u32).prop_map(Move::MaxLimit),
    ];
    prop::collection::vec((one, 1..12u8), 1..80)
}

#[test]
fn a_max_limit_that_was_lowered_in_the_dark_holds_when_it_is_seen_again() {
    let (mut law, times) = (Law::new(LEVELS, 16, 0.0), Times::default());
    let all = running(8, 100.0);
    let mut limits = Vec::new();
    for step in 1..=24 {
        let now = 15.0 * f64::from(step);
        if !(4..=14).contains(&step) {
            let _ = law.sample(now, now, 0.1 * f64::from(step % 3), &times);
        }
        let max = if step < 10 { 16 } else { 1 };
        let before = if step == 3 { 8 } else { law.limit() };
        limits.push(law.decide(&view(now, &all, before, max)).limit);
    }
    assert_eq!((limits[2], limits[8], limits[14]), (8, 4, 0), "{limits:?}");
    assert!(limits[9..].iter().all(|limit| *limit <= 1), "{limits:?}");
    assert_eq!(limits[23], 1, "{limits:?}");
}

/// A source that was steady, then jitters: for a while the model takes the jitter for a rising lag.
#[test]
fn what_was_ended_to_brake_is_not_begun_again_in_the_same_second() {
    let levels = Levels {
        interval: 2.0,
        ..LEVELS
    };
    let (mut law, times) = (Law::new(levels, 4, 0.0), Times::default());
    let one = |now: f64| View {
        mean: 6.0,
        ..view(now, &[], 1, 4)
    };
    let jitter = [18.0, 23.0, 19.0, 22.0, 20.0, 23.0, 18.0];
    let (mut starts, mut ends, mut began) = (0, 0, None::<f64>);
    for tick in 0..1_200_u32 {
        let now = 0.5 * f64::from(tick);
        if tick % 4 == 0 {
            let n = tick / 4;
            let lag = match n {
                0..24 => 6.0 + f64::from(n % 2) * 0.1,
                24..31 => 6.0 + 2.5 * f64::from(n - 24),
                n => jitter[(n % 7) as usize],
            };
            let _ = law.sample(now, now, lag, &times);
        }
        if began.is_some_and(|at| now - at >= 30.0) {
            began = None;
        }
        law.runs(now, u32::from(began.is_some()));
        let all: Vec<Running> = began
            .iter()
            .map(|at| Running {
                age: now - at,
                expected: 30.0,
                ..running(1, 0.0)[0]
            })
            .collect();
        let limit = law.limit().max(1);
        let decision = law.decide(&View {
            running: &all,
            limit,
            paused: false,
            ..one(now)
        });
        if !decision.cancel.is_empty() {
            (ends, began) = (ends + 1, None);
            law.runs(now, 0);
        }
        if began.is_none() && law.admission(now, &times).allows(0, 1) {
            (starts, began) = (starts + 1, Some(now));
        }
    }
    assert!(ends > 0, "it brakes");
    assert!(
        ends <= 11 && starts <= 31,
        "{starts} starts, {ends} ended to brake in ten minutes"
    );
}

/// Lag creeps up and falls back, far below soft, with nothing of ours running: that is no reason to wait for ever.
#[test]
fn with_little_lag_and_nothing_running_one_is_tried_however_little_room_the_model_sees() {
    let (mut law, times) = (Law::new(LEVELS, 4, 0.0), Times::default());
    let busy = running(2, 400.0);
    let mut resumed = None;
    for tick in 1..=400_u32 {
        let now = 15.0 * f64::from(tick);
        // A pause: lag goes over hard while two run. Then it comes down and saws between 5 and 11.
        let lag = match tick {
            0..=20 => 14.0 * f64::from(tick),
            21..=60 => 280.0 - 7.0 * f64::from(tick - 20),
            n => 5.0 + f64::from(n % 12) * 0.5,
        };
        let _ = law.sample(now, now, lag, &times);
        let all: &[Running] = if tick <= 30 { &busy } else { &[] };
        law.runs(now, all.len() as u32);
        let limit = if tick == 1 { 2 } else { law.limit() };
        law.decide(&view(now, all, limit, 4));
        // The drift is that of a load that is a little too much for its consumer.
        law.model.lean(0.02);
        if tick > 60 && law.limit() > 0 {
            resumed = Some(tick - 60);
            break;
        }
    }
    assert!(
        resumed.is_some_and(|ticks| ticks <= 64),
        "{resumed:?} looks of 15 s"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    /// Never above `max_limit`; no growth on a tick without a valid sample, nor before the dwell, nor without tokens;
    /// nothing past hard on two samples or past critical; cancels are few, and only of what may be cancelled.
    #[test]
    fn the_bounds_hold_whatever_the_model_says(script in moves()) {
        let mut law = Law::new(LEVELS, 16, 0.0);
        let times = Times::default();
        let (mut now, mut max, mut runs) = (0.0, 16, 2);
        let (mut changed, mut over_hard) = (f64::NEG_INFINITY, 0);
        for (step, repeated) in script {
            for _ in 0..repeated {
                now += 15.0;
                let mut valid = false;
                let mut lag = None;
                match step {
                    Move::Lag(value) => {
                        valid = law.sample(now, now - 30.0, value, &times).is_ok();
                        lag = Some(value).filter(|_| valid);
                    }
                    Move::Nothing => {}
                    Move::Runs(n) => runs = n,
                    Move::MaxLimit(n) => max = n,
                }
                if let Some(lag) = lag {
                    over_hard = if lag > LEVELS.hard { over_hard + 1 } else { 0 };
                }
                law.runs(now, runs);
                let before = law.limit();
                let all = running(runs, 100.0);
                let decision = law.decide(&view(now, &all, before, max));
                prop_assert_eq!(decision.limit, law.limit());
                prop_assert!(decision.limit <= max);
                prop_assert!(decision.rule != Rule::Same || decision.limit == before, "{decision:?} from {before}");
                if decision.limit > before {
                    match decision.rule {
                        Rule::Grow => {
                            prop_assert!(now - changed > times.dwell, "dwell");
                            prop_assert!(decision.limit <= before + (before / 4).max(2));
                        }
                        Rule::Resume | Rule::Probe => prop_assert_eq!(before, 0),
                        Rule::Seen => {}
                        other => prop_assert!(false, "{other:?} raised it from {before}"),
                    }
                }
                if valid && over_hard >= 2 {
                    prop_assert_eq!(decision.limit, 0);
                }
                prop_assert!(decision.cancel.len() <= (runs as usize / 3).max(3) || decision.rule == Rule::Blind);
                prop_assert!(law.model().room().is_finite() && law.admitted().is_finite());
                if decision.limit != before {
                    changed = now;
                }
            }
        }
    }

    /// What is saved and read again goes on as if nothing had been.
    #[test]
    fn a_checkpoint_is_the_same_law(values in prop::collection::vec(0.0..120.0f64, 1..60)) {
        let mut law = Law::new(LEVELS, 16, 0.0);
        let times = Times::default();
        for (i, value) in values.iter().enumerate() {
            let now = 15.0 * (i + 1) as f64;
            let _ = law.sample(now, now - 30.0, *value, &times);
            law.runs(now, 3);
            let all = running(3, 100.0);
            let limit = law.limit();
            law.decide(&view(now, &all, limit, 16));
            let kept: Law = serde_json::from_str(&serde_json::to_string(&law).unwrap()).unwrap();
            prop_assert_eq!(&kept, &law);
        }
    }
}
