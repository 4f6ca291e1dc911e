//! The model against the figures that law C2 was published with.

use super::*;
use crate::config::scenario::{Heavy, Scenario};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// The toy loop of law C2.
pub fn scenario() -> Scenario {
    Scenario::parse(
        include_str!("../../../assets/scenarios/toy.toml"),
        Path::new("toy.toml"),
    )
    .unwrap()
}

fn played(scenario: &Scenario, policies: &[Policy], seeds: u32) -> Report {
    simulate(scenario, policies, seeds, &mut |_| ())
}

fn figures(report: &Report, policy: &str) -> Figures {
    report.policies.iter().find(|p| p.policy == policy).unwrap().mean
}

#[test]
fn the_same_seeds_give_the_same_report_and_others_give_another() {
    let mut toy = scenario();
    toy.duration = Duration::from_secs(4 * 3600);
    let policies = [Policy::Classic, Policy::OnOff, Policy::Fixed(4)];
    let report = played(&toy, &policies, 2);
    assert_eq!(played(&toy, &policies, 2), report);
    toy.seed += 100;
    assert_ne!(played(&toy, &policies, 2), report);
}

/// Each look at what may start next went through the whole lane: hours for a night.
#[test]
fn a_hundred_thousand_heavy_chunks_take_no_longer_than_a_few() {
    let mut toy = scenario();
    toy.backfill.chunks = 100_000;
    toy.backfill.heavy = vec![Heavy {
        every: 1,
        factor: 50.0,
    }];
    let began = Instant::now();
    let report = played(&toy, &[Policy::Fixed(16), Policy::Auto], 1);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(figures(&report, "fixed:16").chunks_done > 10.0, "{report:?}");
}

#[test]
fn it_is_told_which_policy_plays_which_seed_and_how_far_the_night_is() {
    let mut toy = scenario();
    toy.duration = Duration::from_secs(2 * 3600);
    let mut all = Vec::new();
    simulate(&toy, &[Policy::OnOff, Policy::Fixed(2)], 2, &mut |p| {
        assert_eq!((p.seeds, p.policies), (2, 2));
        all.push((p.seed, p.nth, p.policy.to_string(), p.played));
    });
    let told = |seed, nth, policy: &str, played| (seed, nth, policy.to_owned(), played);
    let run = |seed, nth, policy| [told(seed, nth, policy, 0.0), told(seed, nth, policy, 3600.0)];
    let runs = [
        run(1, 1, "onoff"),
        run(1, 2, "fixed:2"),
        run(2, 1, "onoff"),
        run(2, 2, "fixed:2"),
    ];
    assert_eq!(all, runs.concat());
}

/// The consumer takes less than arrives, at every hour.
fn beyond() -> Scenario {
    let mut toy = scenario();
    toy.duration = Duration::from_secs(8 * 3600);
    toy.consumer.day_swing = 0.0;
    toy.consumer.capacity = 900.0;
    toy
}

#[test]
fn where_the_live_load_alone_is_beyond_the_capacity_there_is_no_bound_and_no_share_of_it() {
    let report = played(&beyond(), &[Policy::Fixed(2), Policy::Auto], 2);
    assert_eq!((report.bound_chunks, report.seeds_without_bound), (None, 2));
    assert!(
        (report.live_rate - 1000.0).abs() < 50.0 && report.live_capacity == 900.0,
        "{report:?}"
    );
    for policy in &report.policies {
        for figures in [policy.mean, policy.worst] {
            assert_eq!((figures.share_of_oracle, figures.work_share), (None, None));
        }
        assert!(policy.mean.minutes_over_soft > 300.0, "{policy:?}");
    }
    assert!(figures(&report, "fixed:2").chunks_done > 50.0, "{report:?}");
    let json = serde_json::to_value(&report).unwrap();
    assert!(json["bound_chunks"].is_null() && json["policies"][0]["mean"]["share_of_oracle"].is_null());
}

#[test]
fn shares_are_summed_up_over_the_seeds_that_have_a_bound() {
    let with = |share_of_oracle| Figures {
        share_of_oracle,
        chunks_done: 6.0,
        ..Figures::default()
    };
    let (mean, worst) = Figures::sum_up(&[with(None), with(Some(0.5)), with(Some(0.75))]);
    assert_eq!(
        (mean.share_of_oracle, worst.share_of_oracle),
        (Some(0.625), Some(0.5))
    );
    assert_eq!((mean.chunks_done, worst.chunks_done), (6.0, 6.0));
}

/// `throttle.md` has the table. Lag over soft is held to a quarter, chunks to a twentieth.
#[test]
fn fixed_limits_on_and_off_and_the_classic_law_do_what_their_tables_say() {
    let policies = ["fixed:16", "fixed:4", "onoff", "classic"];
    let parsed: Vec<Policy> = policies.iter().map(|p| p.parse().unwrap()).collect();
    let report = played(&scenario(), &parsed, 20);
    let within = |found: f64, told: f64, by: f64| (found / told - 1.0).abs() <= by;
    for (policy, chunks) in [
        ("fixed:16", 3030.0),
        ("fixed:4", 759.0),
        ("onoff", 2072.0),
        ("classic", 1474.0),
    ] {
        let found = figures(&report, policy).chunks_done;
        assert!(
            within(found, chunks, 0.05),
            "{policy}: {found} chunks, {chunks} in the table"
        );
    }
    for (policy, minutes) in [("onoff", 1318.0), ("classic", 152.0)] {
        let found = figures(&report, policy).minutes_over_soft;
        assert!(
            within(found, minutes, 0.25),
            "{policy}: {found} min over soft, {minutes} in the table"
        );
    }
    // On and off change the limit twice a pause.
    let restless = figures(&report, "onoff");
    assert!(
        restless.pauses > 1.0 && within(2.0 * restless.pauses, restless.limit_changes, 0.02),
        "{restless:?}"
    );
    assert_eq!(figures(&report, "fixed:4").pauses, 0.0);
    assert!(
        within(report.bound_chunks.unwrap(), 2082.0, 0.05),
        "{:?}",
        report.bound_chunks
    );
}

/// What we say of the learned law in `throttle.md`: at least so much of the bound, at most so many minutes over soft beyond
/// what the live load causes itself, no minute over hard outside of incidents, at most so many changes.
struct Band {
    share: f64,
    over_soft: f64,
    over_hard: f64,
    changes: f64,
}

/// Of the means over 20 seeds.
const MEAN: Band = Band {
    share: 0.90,
    over_soft: 30.0,
    over_hard: 0.0,
    changes: 200.0,
};
/// Of every seed.
const EACH: Band = Band {
    share: 0.85,
    over_soft: 65.0,
    over_hard: 0.0,
    changes: 202.0,
};

fn committed() -> Vec<(String, Scenario)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/scenarios");
    let mut found: Vec<(String, Scenario)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, Scenario::parse(&text, &path).unwrap())
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found.len() >= 16, "{}", found.len());
    found
}

fn assert_within(name: &str, what: &str, found: &Figures, band: &Band) {
    let share = found.share_of_oracle.unwrap();
    let told = format!(
        "{name}, {what}: share {share:.3}, {:.1} min over soft by us, {:.1} over hard, {:.1} changes",
        found.excess_minutes_over_soft, found.minutes_over_hard_outside_incidents, found.limit_changes
    );
    assert!(share >= band.share, "{told}");
    assert!(found.excess_minutes_over_soft <= band.over_soft, "{told}");
    assert!(
        found.minutes_over_hard_outside_incidents <= band.over_hard,
        "{told}"
    );
    assert!(found.limit_changes <= band.changes, "{told}");
}

#[test]
fn the_learned_law_stays_in_its_band_on_every_committed_scenario() {
    for (name, scenario) in committed() {
        let report = played(&scenario, &[Policy::Auto], 2);
        assert_within(&name, "the worst of two seeds", &report.policies[0].worst, &EACH);
    }
}

#[test]
#[ignore = "twenty seeds of sixteen nights: bash tests/run --full"]
fn the_learned_law_stays_in_its_band_with_twenty_seeds() {
    for (name, scenario) in committed() {
        let report = played(&scenario, &[Policy::Auto], 20);
        assert_within(&name, "mean", &report.policies[0].mean, &MEAN);
        assert_within(&name, "the worst seed", &report.policies[0].worst, &EACH);
    }
}

/// Seeds that nobody tuned by.
#[test]
#[ignore = "twenty other seeds of sixteen nights: bash tests/run --full"]
fn the_learned_law_stays_near_its_band_with_seeds_that_it_was_not_tuned_by() {
    let near = Band {
        share: 0.895,
        over_soft: 33.0,
        // Up to three nights in twenty, a metric that reads zero across an incident begins when lag is near zero: some
        // minutes each, which is chance, and which no law can see.
        over_hard: 0.6,
        changes: 202.0,
    };
    for (name, mut scenario) in committed() {
        scenario.seed += 1_000;
        let report = played(&scenario, &[Policy::Auto], 20);
        assert_within(&name, "mean", &report.policies[0].mean, &near);
    }
}
