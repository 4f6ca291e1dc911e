//! What a newcomer sees in the first minutes of a demo, worked out without waiting for it: the shipped configuration,
//! the real throttle and the modelled live consumer under a virtual clock.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use backfill::{
    config::{Config, Unit},
    demo::{
        Faults, Settings, Workspace,
        dice::{Dice, Purpose},
        model::{Model, World},
    },
    domain::{event::Rule, ids::Name},
    host::BootInstant,
    plan::throttle::{Input, Load, Now, Outcome, SignalLevels, Throttle},
};
use std::{collections::BTreeMap, path::Path, time::Duration};

fn shipped(faults: Faults) -> Config {
    let dir = tempfile::tempdir().unwrap();
    let settings = Settings {
        days: 60,
        seed: 1,
        faults,
        pace: 1.0,
    };
    let workspace = Workspace::make(Some(dir.path()), settings).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_backfill"));
    let path = workspace
        .configure("127.0.0.1:9090".parse().unwrap(), program)
        .unwrap();
    Config::load(&path).expect("the program reads its own demo's configuration without a fault")
}

/// What happened in a demo: changes of the limit with the tenth of a second, and the highest lag.
struct Course {
    changes: Vec<(u64, Rule)>,
    worst: f64,
    done: usize,
}

impl Course {
    fn first(&self, rule: Rule) -> Option<u64> {
        self.changes.iter().find(|c| c.1 == rule).map(|c| c.0 / 10)
    }

    fn count(&self, rule: Rule) -> usize {
        self.changes.iter().filter(|c| c.1 == rule).count()
    }
}

/// Chunks of about a second start as the limit allows, one in each start gap.
fn course(config: &Config, world: World, seed: u64, seconds: u64) -> Course {
    let name: Name = "orders-live".parse().unwrap();
    let levels = SignalLevels::from(&config.signals[&name]);
    assert_eq!(
        (levels.unit, levels.interval),
        (Unit::Messages, Duration::from_secs(1))
    );
    let order = &config.backfills[&"orders".parse::<Name>().unwrap()].spec;
    let now = |tenths: u64| Now {
        boot: BootInstant(tenths * 100),
        wall: chrono::DateTime::from_timestamp_millis(tenths as i64 * 100).unwrap(),
    };
    let signals = BTreeMap::from([(name.clone(), levels)]);
    let mut throttle = Throttle::new(signals, order.max_limit, "boot", now(0));
    let mut model = Model::new(world);
    let mut noise = Dice::of(seed, Purpose::Live, 0);
    let mut durations = Dice::of(seed, Purpose::Duration, 0);
    let gap = u64::try_from(config.tuning.start_gap.as_millis()).unwrap() / 100;
    let (mut running, mut next_start) = (Vec::<u64>::new(), 0);
    let mut course = Course {
        changes: Vec::new(),
        worst: 0.0,
        done: 0,
    };
    for t in 1..seconds * 10 {
        let before = running.len();
        running.retain(|end| *end > t);
        course.done += before - running.len();
        if running.len() < throttle.limit() as usize && t >= next_start {
            next_start = t + gap;
            running.push(t + u64::from(durations.between(8, 15)));
        }
        let load = Load {
            running: running.len() as u32,
            next_weight: Some(1),
            median_chunk: Some(Duration::from_secs(1)),
            held_above: false,
            max_limit: order.max_limit,
        };
        model.step(0.1, load.running, || noise.normal());
        course.worst = course.worst.max(model.lag());
        let mut outcomes = throttle.step(Input::Tick, &load, now(t), &config.tuning);
        if t % 10 == 0 {
            let sample = Input::Sample {
                signal: name.clone(),
                value: model.lag().floor(),
                age: Duration::from_millis(100),
            };
            outcomes.extend(throttle.step(sample, &load, now(t), &config.tuning));
        }
        for outcome in outcomes {
            // Once more at the same limit it is said whether it was us.
            if let Outcome::Limit(change) = outcome
                && change.from != change.to
            {
                course.changes.push((t, change.rule));
            }
        }
    }
    course
}

#[test]
fn a_demo_s_first_minutes_show_growth_a_cut_a_pause_and_a_resume() {
    let config = shipped(Faults::Default);
    for seed in 0..30 {
        let course = course(&config, World::lively(), seed, 240);
        let within = |rule, seconds: std::ops::Range<u64>| {
            let at = course.first(rule);
            assert!(
                at.is_some_and(|at| seconds.contains(&at)),
                "seed {seed}: {rule:?} at {at:?}"
            );
        };
        within(Rule::Start, 0..5);
        within(Rule::Grow, 5..15);
        within(Rule::Cut, 15..60);
        within(Rule::Pause, 90..110);
        within(Rule::Resume, 110..160);
        assert_eq!(course.count(Rule::Pause), 1, "seed {seed}");
        assert!(
            course.worst < 400_000.0 / 2.0,
            "seed {seed}: critical is far: {}",
            course.worst
        );
        assert!(course.done > 250, "seed {seed}: {}", course.done);
    }
}

#[test]
fn a_demo_that_is_left_running_never_reaches_critical_and_never_latches() {
    let config = shipped(Faults::Default);
    for seed in 0..5 {
        let course = course(&config, World::lively(), seed, 3600);
        assert_eq!(
            course.count(Rule::Critical) + course.count(Rule::Latch),
            0,
            "seed {seed}"
        );
        assert_eq!(
            course.count(Rule::Resume),
            course.count(Rule::Pause),
            "seed {seed}"
        );
    }
}

#[test]
fn without_faults_the_live_consumer_has_no_incident_and_nothing_is_paused() {
    let config = shipped(Faults::None);
    for seed in 0..30 {
        let course = course(&config, World::calm(), seed, 600);
        assert_eq!(course.count(Rule::Pause), 0, "seed {seed}");
        assert!(
            course.count(Rule::Cut) > 0,
            "seed {seed}: chunks still cost the consumer something"
        );
    }
}
