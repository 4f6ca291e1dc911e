//! `simulate SCENARIO`: policies against a modelled night, side by side.

use super::context::{self, Done, Exit};
use crate::{
    config::scenario::Scenario,
    domain::{human, text},
    plan::simulate::{Figures, Policy, Report, simulate as played},
};
use std::path::Path;

/// A larger file is no scenario.
const LARGEST: u64 = 1024 * 1024;

/// The command. Needs no configuration and no journal.
pub fn simulate(json: bool, file: &Path, policies: &[Policy], seeds: u32) -> Done {
    let scenario = read(file)?;
    let report = played(&scenario, policies, seeds);
    context::print(json, &report, || words(&report))
}

fn read(file: &Path) -> Result<Scenario, Exit> {
    let shown = text::clean(&file.display().to_string());
    let unreadable = |why: String| Exit::usage(format!("{shown} cannot be read: {why}"));
    let about = std::fs::metadata(file).map_err(|e| unreadable(e.to_string()))?;
    if !about.is_file() {
        return Err(unreadable("it is no ordinary file".to_owned()));
    }
    if about.len() > LARGEST {
        return Err(unreadable(
            "it is larger than 1 MiB, and no scenario is".to_owned(),
        ));
    }
    let content = std::fs::read_to_string(file).map_err(|e| unreadable(e.to_string()))?;
    Scenario::parse(&content, file).map_err(|errors| Exit::usage(errors.lines().join("\n")))
}

/// A table, a row for each policy; in brackets the worst seed.
fn words(report: &Report) -> String {
    let heads = [
        "policy",
        "chunks",
        "share",
        "over soft",
        "by us",
        "over hard",
        "worst lag",
        "changes",
        "pauses",
        "cancelled",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    rows.extend(report.policies.iter().map(|p| row(&p.policy, &p.mean, &p.worst)));
    let wide = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(wide).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(i, (cell, wide))| match i {
            0 => format!("{cell:<wide$}"),
            _ => format!("{cell:>wide$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.push(format!(
        "means of {} (in brackets the worst); share is of the most that could be done, {:.0} chunks; over soft and hard in \
         minutes, by us: beyond what the live load causes itself, over hard: outside of incidents",
        human::counted(report.seeds.into(), "seed"),
        report.bound_chunks
    ));
    lines.join("\n")
}

fn row(policy: &str, mean: &Figures, worst: &Figures) -> Vec<String> {
    let with = |mean: f64, worst: f64| format!("{mean:.0} ({worst:.0})");
    vec![
        policy.to_owned(),
        format!("{:.0}", mean.chunks_done),
        format!(
            "{:.1} % ({:.0} %)",
            mean.share_of_oracle * 100.0,
            worst.share_of_oracle * 100.0
        ),
        format!("{:.0}", mean.minutes_over_soft),
        with(mean.excess_minutes_over_soft, worst.excess_minutes_over_soft),
        format!("{:.1}", mean.minutes_over_hard_outside_incidents),
        with(mean.worst_lag_s, worst.worst_lag_s),
        with(mean.limit_changes, worst.limit_changes),
        format!("{:.1}", mean.pauses),
        format!("{:.0}", mean.cancelled),
    ]
}
