//! The model against the figures that law C2 was published with.

use super::*;
use crate::config::scenario::Scenario;
use std::path::Path;

/// The toy loop of law C2.
pub fn scenario() -> Scenario {
    Scenario::parse(
        include_str!("../../../assets/scenarios/toy.toml"),
        Path::new("toy.toml"),
    )
    .unwrap()
}

fn figures(report: &Report, policy: &str) -> Figures {
    report.policies.iter().find(|p| p.policy == policy).unwrap().mean
}

#[test]
fn the_same_seeds_give_the_same_report_and_others_give_another() {
    let mut toy = scenario();
    toy.duration = std::time::Duration::from_secs(4 * 3600);
    let policies = [Policy::Classic, Policy::OnOff, Policy::Fixed(4)];
    let report = simulate(&toy, &policies, 2);
    assert_eq!(simulate(&toy, &policies, 2), report);
    toy.seed += 100;
    assert_ne!(simulate(&toy, &policies, 2), report);
}

/// `throttle.md` has the table. Lag over soft is held to a quarter, chunks to a twentieth.
#[test]
fn fixed_limits_on_and_off_and_the_classic_law_do_what_their_tables_say() {
    let policies = ["fixed:16", "fixed:4", "onoff", "classic"];
    let parsed: Vec<Policy> = policies.iter().map(|p| p.parse().unwrap()).collect();
    let report = simulate(&scenario(), &parsed, 20);
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
    assert!(
        within(report.bound_chunks, 2082.0, 0.05),
        "{}",
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
    let told = format!(
        "{name}, {what}: share {:.3}, {:.1} min over soft by us, {:.1} over hard, {:.1} changes",
        found.share_of_oracle,
        found.excess_minutes_over_soft,
        found.minutes_over_hard_outside_incidents,
        found.limit_changes
    );
    assert!(found.share_of_oracle >= band.share, "{told}");
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
        let report = simulate(&scenario, &[Policy::Auto], 2);
        assert_within(&name, "the worst of two seeds", &report.policies[0].worst, &EACH);
    }
}

#[test]
#[ignore = "twenty seeds of sixteen nights: bash tests/run --full"]
fn the_learned_law_stays_in_its_band_with_twenty_seeds() {
    for (name, scenario) in committed() {
        let report = simulate(&scenario, &[Policy::Auto], 20);
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
        // One night in twenty, a metric that reads zero across an incident begins when lag is near zero.
        over_hard: 0.5,
        changes: 202.0,
    };
    for (name, mut scenario) in committed() {
        scenario.seed += 1_000;
        let report = simulate(&scenario, &[Policy::Auto], 20);
        assert_within(&name, "mean", &report.policies[0].mean, &near);
    }
}
