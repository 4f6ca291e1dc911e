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
