//! The alerts that fire, by names that tell them apart.

use super::answer::Labels;
use crate::{
    config::{MatchOp, Matcher},
    domain::{human, text::short_name},
    signals::Part,
};
use std::collections::{BTreeMap, BTreeSet};

/// How long the name of a part is.
const NAME: usize = 80;
/// How many are named; the others are counted.
const NAMED: usize = 100;
/// The label that names an alert.
const ALERTNAME: &str = "alertname";

/// One part for each alert, in the order of their names.
pub(super) fn of(firing: &BTreeSet<Labels>, matchers: &[Matcher]) -> Vec<Part> {
    let telling = telling(firing, matchers);
    let mut names: Vec<String> = firing.iter().map(|labels| name(labels, &telling)).collect();
    names.sort();
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    if more > 0 {
        names.push(format!("and {} more", human::with_commas(more as u64)));
    }
    names
        .into_iter()
        .map(|name| Part {
            name,
            value: Ok(1.0),
            note: String::new(),
        })
        .collect()
}

/// The labels that belong into the names: those in which these alerts differ, and those that the configuration leaves
/// open, so that one alert alone has the name that it has among others.
fn telling<'a>(firing: &'a BTreeSet<Labels>, matchers: &'a [Matcher]) -> BTreeSet<&'a str> {
    let open = matchers
        .iter()
        .filter(|m| m.op != MatchOp::Equal)
        .map(|m| m.name.as_str());
    let all: BTreeSet<&str> = firing
        .iter()
        .flat_map(BTreeMap::keys)
        .map(String::as_str)
        .collect();
    let differs = |label: &&str| {
        let mut values = firing.iter().map(|labels| labels.get(*label));
        let first = values.next();
        values.any(|value| Some(value) != first)
    };
    open.chain(all.into_iter().filter(differs))
        .filter(|label| *label != ALERTNAME)
        .collect()
}

fn name(labels: &Labels, telling: &BTreeSet<&str>) -> String {
    let alert = labels
        .get(ALERTNAME)
        .map_or("an alert without a name", String::as_str);
    let further = telling
        .iter()
        .filter_map(|label| Some(format!(" {label}={}", labels.get(*label)?)));
    short_name(&further.fold(alert.to_owned(), |name, label| name + &label), NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Labels {
        text.split(' ')
            .filter_map(|l| l.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    }

    fn names(alerts: &[&str], matchers: &[&str]) -> Vec<String> {
        let firing = alerts.iter().map(|a| labels(a)).collect();
        let matchers: Vec<Matcher> = matchers.iter().map(|m| Matcher::parse(m).unwrap()).collect();
        of(&firing, &matchers).into_iter().map(|p| p.name).collect()
    }

    #[test]
    fn alerts_are_named_by_the_labels_in_which_they_differ() {
        let lag = |group: &str| format!("alertname=HighLag cluster=lab group={group} severity=page");
        let alerts = [
            lag("orders"),
            lag("billing"),
            "alertname=Stuck cluster=lab severity=page".to_owned(),
        ];
        let alerts: Vec<&str> = alerts.iter().map(String::as_str).collect();
        assert_eq!(
            names(&alerts, &["severity=page"]),
            ["HighLag group=billing", "HighLag group=orders", "Stuck"]
        );
        assert_eq!(names(&alerts[..1], &["alertname=HighLag"]), ["HighLag"]);
        // What the configuration leaves open is said of one alert, too.
        assert_eq!(
            names(&alerts[..1], &["alertname=HighLag", "group=~orders.*"]),
            ["HighLag group=orders"]
        );
        assert!(names(&[], &["a=b"]).is_empty());
    }

    #[test]
    fn names_are_clean_and_short_and_not_endlessly_many() {
        let hostile = format!("alertname=\u{1b}[2J group={}", "x".repeat(500));
        let longer = hostile.clone() + "x";
        let named = names(&[&hostile, &longer, "group=y"], &["a=b"]);
        for name in &named[..2] {
            assert!(name.starts_with("^[[2J group=xxx"), "{named:?}");
            assert_eq!(name.chars().count(), NAME);
        }
        assert_ne!(named[0], named[1], "two alerts stay two");
        assert_eq!(named[2], "an alert without a name group=y");
        let many: Vec<String> = (0..250).map(|i| format!("alertname=a n={i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let named = names(&many, &["a=b"]);
        assert_eq!((named.len(), named[100].as_str()), (101, "and 150 more"));
    }
}
