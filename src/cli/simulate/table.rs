//! The report in words, for 80 columns: two rows a policy, and below what the columns mean.

use crate::{
    domain::human,
    plan::simulate::{Figures, OfPolicy, Report},
};
use std::time::Duration;

const HEADS: [&str; 10] = [
    "policy", "chunks", "share", "soft", "by us", "hard", "lag", "changes", "pauses", "cancels",
];

/// A table, for each policy its means and under them its worst figures.
pub fn words(report: &Report, night: Duration) -> String {
    let mut rows = vec![HEADS.map(str::to_owned).to_vec()];
    for policy in &report.policies {
        rows.push(row(&policy.policy, &policy.mean, report));
        if report.seeds > 1 {
            rows.push(row("  worst", &policy.worst, report));
        }
    }
    let mut lines = aligned(&rows);
    lines.push(String::new());
    lines.extend(legend(report, night));
    lines.extend(done(report));
    lines.join("\n")
}

fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let wide = |column: usize| {
        rows.iter()
            .filter_map(|r| r.get(column))
            .map(|c| c.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..HEADS.len()).filter_map(wide).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(i, (cell, wide))| match i {
            0 => format!("{cell:<wide$}"),
            _ => format!("{cell:>wide$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn row(name: &str, of: &Figures, report: &Report) -> Vec<String> {
    let lag = match report.unit {
        "seconds" => human::lag_seconds(of.worst_lag_s),
        _ => human::lag_messages(of.worst_lag_s),
    };
    vec![
        name.to_owned(),
        figure(of.chunks_done),
        of.share_of_oracle.map_or_else(|| "-".to_owned(), share),
        figure(of.minutes_over_soft),
        figure(of.excess_minutes_over_soft),
        figure(of.minutes_over_hard_outside_incidents),
        lag,
        figure(of.limit_changes),
        figure(of.pauses),
        figure(of.cancelled),
    ]
}

/// Short, and never 0 for what is more than nothing.
fn figure(number: f64) -> String {
    if number <= 0.0 {
        "0".to_owned()
    } else if number < 0.1 {
        "<0.1".to_owned()
    } else if number < 10.0 && number.fract() != 0.0 {
        format!("{number:.1}")
    } else {
        format!("{number:.0}")
    }
}

fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 100.0 {
        // Cut, so that 100 % is all of it.
        format!("{:.1}%", (percent * 10.0).floor() / 10.0)
    } else {
        format!("{percent:.0}%")
    }
}

fn legend(report: &Report, night: Duration) -> Vec<String> {
    let length = human::exact_duration(night);
    let first = if report.seeds > 1 {
        format!(
            "{} of a night of {length}: means, and under them the worst figure of any seed.",
            human::counted(report.seeds.into(), "seed")
        )
    } else {
        format!("1 seed of a night of {length}.")
    };
    let mut lines = vec![first];
    lines.extend(of_share(report));
    let rest = [
        "soft     minutes with lag over soft; by us: more than the live load alone has",
        "hard     minutes with lag over hard, but for incidents and 30 min after them",
        "lag      the worst one",
        "changes  of the limit; pauses: stops by auto, no-cancel, classic for lag",
        "cancels  attempts that were cancelled to brake",
    ];
    lines.extend(rest.map(str::to_owned));
    lines
}

fn of_share(report: &Report) -> Vec<String> {
    let Some(chunks) = report.bound_chunks else {
        return without_bound(report);
    };
    let chunks = human::count(chunks.round() as u64);
    let mut lines = vec![format!(
        "share    of what could be done at most without lag over soft: {chunks} chunks"
    )];
    let more = |f: &Figures| f.share_of_oracle.is_some_and(|share| share > 1.0);
    if report.policies.iter().any(|p| more(&p.mean)) {
        lines.push("         more than 100% is bought with lag over soft".to_owned());
    }
    if report.seeds_without_bound > 0 {
        lines.push(format!(
            "         {} of {} seeds have room for less than one chunk and are left out",
            report.seeds_without_bound, report.seeds
        ));
    }
    lines
}

/// Shares of nothing are not told.
fn without_bound(report: &Report) -> Vec<String> {
    let (rate, capacity) = (report.live_rate, report.live_capacity);
    let why = if rate > capacity {
        vec![
            "         the live load alone is beyond the capacity:".to_owned(),
            format!(
                "         {} messages a second arrive, {} can be taken",
                human::count(rate.round() as u64),
                human::count(capacity.round() as u64)
            ),
        ]
    } else {
        vec!["         not one whole chunk can be done without lag over soft".to_owned()]
    };
    let mut lines = vec!["share    there is no bound to compare with:".to_owned()];
    lines.extend(why);
    lines
}

/// When everything is done before the night is over the number of chunks tells policies apart no more.
fn done(report: &Report) -> Vec<String> {
    let all = f64::from(report.chunks);
    let finished = report.policies.iter().filter(|p| p.worst.chunks_done >= all);
    let line = |p: &OfPolicy| {
        let after =
            |f: &Figures| human::duration(Duration::try_from_secs_f64(f.makespan_s).unwrap_or_default());
        let chunks = human::counted(report.chunks.into(), "chunk");
        let at_worst = match report.seeds {
            1 => String::new(),
            _ => format!(", at worst {}", after(&p.worst)),
        };
        format!(
            "{}: all {chunks} done after {}{at_worst}",
            p.policy,
            after(&p.mean)
        )
    };
    finished.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::scenario::Scenario,
        plan::simulate::{Policy, simulate},
    };
    use std::path::Path;

    const TOY: &str = include_str!("../../../assets/scenarios/toy.toml");

    fn told(text: &str, policies: &[&str], seeds: u32) -> String {
        let scenario = Scenario::parse(text, Path::new("toy.toml")).unwrap();
        let policies: Vec<Policy> = policies.iter().map(|p| p.parse().unwrap()).collect();
        let report = simulate(&scenario, &policies, seeds, &mut |_| ());
        words(&report, scenario.duration)
    }

    const ALL: [&str; 6] = ["auto", "no-cancel", "classic", "onoff", "fixed:4", "fixed:16"];

    #[test]
    fn all_policies_fit_80_columns_with_their_worst_figures_and_what_the_columns_mean() {
        for text in [
            TOY.to_owned(),
            TOY.replace("unit = \"seconds\"", "unit = \"messages\""),
            TOY.replace("capacity = 1750", "capacity = 700"),
        ] {
            let said = told(&text, &ALL, 2);
            for line in said.lines() {
                assert!(line.chars().count() <= 80, "{line}\n{said}");
            }
            for policy in ALL {
                let at = said
                    .lines()
                    .position(|l| l.split_whitespace().next() == Some(policy));
                let under = said.lines().nth(at.unwrap() + 1).unwrap();
                assert!(under.starts_with("  worst "), "{said}");
            }
            for head in HEADS.iter().skip(2) {
                assert!(said.matches(head).count() > 1, "{head} is explained\n{said}");
            }
        }
    }

    #[test]
    fn more_than_the_bound_is_said_to_be_bought_with_lag_and_only_then() {
        let bought = "more than 100% is bought with lag over soft";
        assert!(told(TOY, &["fixed:16"], 1).contains(bought));
        let one = told(TOY, &["fixed:4"], 1);
        assert!(!one.contains(bought) && !one.contains("worst f"), "{one}");
        assert!(one.contains("1 seed of a night of 1d12h."), "{one}");
    }

    #[test]
    fn where_there_is_no_bound_no_share_is_told_and_why() {
        let beyond = TOY
            .replace("capacity = 1750", "capacity = 900")
            .replace("day_swing = 0.35", "");
        let said = told(&beyond, &["auto", "fixed:4"], 2);
        assert!(!said.contains('%') && !said.contains("0 chunks"), "{said}");
        assert!(said.contains("there is no bound to compare with"), "{said}");
        assert!(
            said.contains("the live load alone is beyond the capacity"),
            "{said}"
        );
        assert!(said.contains(" messages a second arrive, "), "{said}");
        let tight = TOY
            .replace(
                "chunk_minutes = { median = 10, sigma = 0.5 }",
                "chunk_minutes = { median = 10000 }",
            )
            .replace("duration = \"36h\"", "duration = \"1h\"");
        let said = told(&tight, &["auto"], 1);
        assert!(
            said.contains("not one whole chunk can be done without lag over soft") && !said.contains('%'),
            "{said}"
        );
    }

    #[test]
    fn a_plan_that_ends_before_the_night_says_when() {
        let short = TOY.replace("chunks = 5000", "chunks = 12");
        let said = told(&short, &["fixed:16", "fixed:1"], 2);
        assert!(said.contains("fixed:16: all 12 chunks done after "), "{said}");
        assert!(said.contains("fixed:1: all 12 chunks done after "), "{said}");
        assert!(!told(TOY, &["fixed:1"], 1).contains("done after"));
    }

    #[test]
    fn nothing_that_happened_is_shown_as_0_and_nothing_short_of_all_as_100_percent() {
        assert_eq!(
            [0.0, 0.04, 0.25, 3.0, 9.96, 152.4].map(figure),
            ["0", "<0.1", "0.2", "3", "10.0", "152"]
        );
        assert_eq!([0.9999, 1.0, 1.462].map(share), ["99.9%", "100%", "146%"]);
    }
}
