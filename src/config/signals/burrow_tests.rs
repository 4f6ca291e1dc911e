use super::*;
use crate::config::{Config, SignalConfig, SourceConfig, Unit};
use rstest::rstest;

fn config(lines: &str) -> Result<Config, String> {
    let text = format!("[executors.here]\nkind = \"local\"\n[signals.orders]\nkind = \"burrow\"\n{lines}\n");
    Config::parse(&text, Path::new("/etc/backfill/config.toml")).map_err(|e| e.to_string())
}

fn signal(lines: &str) -> Result<SignalConfig, String> {
    Ok(config(lines)?.signals.values().next().unwrap().clone())
}

const LEVELS: &str = "soft = 5e4\nhard = 2e5\ncritical = 1e6";
const LEAST: &str = "url = \"http://burrow:8000/\"\ncluster = \"local\"\ngroups = [\"live\", \"pay\"]";

#[test]
fn its_unit_is_messages_without_being_said() {
    let signal = signal(&format!("{LEAST}\n{LEVELS}")).unwrap();
    assert_eq!(
        (signal.unit, signal.low, signal.interval.as_secs()),
        (Unit::Messages, 25_000.0, 15)
    );
    let expected = BurrowConfig {
        http: HttpConfig::at("http://burrow:8000"),
        cluster: "local".to_owned(),
        groups: vec!["live".to_owned(), "pay".to_owned()],
        topics: BTreeSet::new(),
    };
    assert_eq!(signal.source, SourceConfig::Burrow(expected));
}

#[test]
fn topics_and_a_login_are_read() {
    let more = "topics = [\"orders\"]\nbasic = { user = \"etl\", password = { env = \"P\" } }";
    let signal = signal(&format!("{LEAST}\n{LEVELS}\n{more}")).unwrap();
    let SourceConfig::Burrow(burrow) = signal.source else {
        panic!("no Burrow");
    };
    assert_eq!(burrow.topics, ["orders".to_owned()].into());
    assert!(burrow.http.auth.is_some());
}

#[rstest]
#[case::no_levels(LEAST, "soft")]
#[case::a_unit(&format!("{LEAST}\n{LEVELS}\nunit = \"seconds\""), "unit")]
#[case::no_cluster(&format!("url = \"http://b\"\ngroups = [\"a\"]\n{LEVELS}"), "cluster")]
#[case::no_group(&format!("url = \"http://b\"\ncluster = \"c\"\ngroups = []\n{LEVELS}"), "an empty list")]
#[case::twice(&format!("url = \"http://b\"\ncluster = \"c\"\ngroups = [\"a\", \"a\"]\n{LEVELS}"), "a second time")]
#[case::above(&format!("url = \"http://b\"\ncluster = \"..\"\ngroups = [\"a\"]\n{LEVELS}"), "part of a path")]
#[case::below(&format!("url = \"http://b\"\ncluster = \"c\"\ngroups = [\"a/b\"]\n{LEVELS}"), "part of a path")]
#[case::no_topic(&format!("{LEAST}\n{LEVELS}\ntopics = [\"a b\"]"), "a list of topics")]
fn what_cannot_be_asked_for_is_refused_with_its_key(#[case] lines: &str, #[case] words: &str) {
    let refused = signal(lines).unwrap_err();
    assert!(refused.contains(words), "{refused}");
}

#[test]
fn a_difference_is_told_in_words() {
    let old = config(&format!("{LEAST}\n{LEVELS}")).unwrap();
    let other = LEAST.replace("\"local\"", "\"prod\"").replace(", \"pay\"", "");
    let new = config(&format!(
        "{other}\n{LEVELS}\ntopics = [\"orders\"]\ndeadline = \"1s\""
    ))
    .unwrap();
    assert_eq!(
        old.diff(&new),
        [
            "signals.orders.cluster local to prod",
            "signals.orders.groups live+pay to live",
            "signals.orders.topics none to orders",
            "signals.orders.deadline 5s to 1s",
        ]
    );
    assert!(old.diff(&old).is_empty());
}
