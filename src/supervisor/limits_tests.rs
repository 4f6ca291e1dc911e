//! What a throttle goes on from after a restart, and what the parts of a reading are worth.

use super::*;

/// Nobody supervised for a while: what was allowed before is no leave to start before anything is seen.
#[test]
fn after_a_longer_gap_the_first_samples_are_waited_for_and_after_a_short_one_not() {
    use crate::host::BootInstant;
    let lag: Name = "lag".parse().unwrap();
    let at = |seconds: u64| Now {
        boot: BootInstant(seconds * 1000),
        wall: chrono::DateTime::from_timestamp(60_000 + seconds as i64, 0).unwrap(),
    };
    let levels = SignalLevels {
        unit: crate::config::Unit::Seconds,
        low: 30.0,
        soft: 60.0,
        hard: 180.0,
        critical: 900.0,
        interval: Duration::from_secs(15),
        protects: true,
    };
    let load = Load {
        running: 0,
        next_weight: Some(1),
        median_chunk: None,
        held_above: false,
        max_limit: 4,
    };
    let mut throttle = Throttle::new(BTreeMap::from([(lag.clone(), levels)]), 4, "boot", at(0));
    for seconds in [15, 30] {
        let input = Input::Sample {
            signal: lag.clone(),
            value: 5.0,
            age: Duration::ZERO,
        };
        throttle.step(input, &load, at(seconds), &Tuning::default());
    }
    assert_eq!(throttle.limit(), 2);
    let mut night = crate::plan::testing::Night::new(1);
    let limit = |night: &crate::plan::testing::Night, seconds| {
        after_restart(throttle.clone(), night.backfill(), at(seconds)).limit()
    };
    assert_eq!((limit(&night, 120), limit(&night, 3_600)), (2, 0));
    let theirs = night.state.backfills.values_mut().next().unwrap();
    theirs.spec.attach = Some(crate::domain::attach::Attach { native: None });
    assert_eq!(limit(&night, 3_600), 2, "theirs is not stopped by that");
}

/// A reading that is too old to count has parts that are too old to count.
#[test]
fn where_the_whole_is_no_valid_sample_no_part_has_a_number() {
    let part = |name: &str, value: Result<f64, &str>| Part {
        name: name.to_owned(),
        value: value.map_err(str::to_owned),
        note: "no members".to_owned(),
    };
    let reading = Reading::Value {
        value: 12.0,
        age: Duration::from_secs(90),
        skew_ms: None,
        parts: vec![part("a", Ok(12.0)), part("b", Err("no commit"))],
    };
    let valid = parts_of(&reading, &Ok((12.0, Duration::ZERO)));
    assert_eq!(valid, [part("a", Ok(12.0)), part("b", Err("no commit"))]);
    let stale = parts_of(&reading, &Err("90 s old".to_owned()));
    assert_eq!(stale, [part("a", Err("90 s old")), part("b", Err("no commit"))]);
}
