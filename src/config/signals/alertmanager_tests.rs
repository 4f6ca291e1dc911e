//! What a file may say of an Alertmanager.

use super::*;
use crate::config::{Config, SignalConfig, SourceConfig, Unit};
use std::time::Duration;

fn parse(lines: &str) -> Result<SignalConfig, Vec<String>> {
    let text = format!("[signals.a]\nkind = \"alertmanager\"\n{lines}");
    let config = Config::parse(&text, Path::new("/etc/backfill/config.toml"));
    config
        .map(|c| c.signals.into_values().next().unwrap())
        .map_err(|e| e.lines())
}

fn read(lines: &str) -> (SignalConfig, AlertmanagerConfig) {
    let signal = parse(lines).unwrap();
    let SourceConfig::Alertmanager(source) = signal.source.clone() else {
        panic!("another kind");
    };
    (signal, source)
}

/// The one thing that is said about these lines below a url.
fn said(lines: &str) -> String {
    let said = parse(&format!("url = \"http://am\"\n{lines}")).unwrap_err();
    assert_eq!(said.len(), 1, "{said:?}");
    said[0].clone()
}

#[test]
fn a_url_and_one_matcher_are_enough() {
    let (signal, source) = read("url = \"http://am:9093/\"\nmatchers = [\"alertname=HighConsumerLag\"]\n");
    assert_eq!(source.http, HttpConfig::at("http://am:9093"));
    assert_eq!(
        source.matchers,
        [Matcher::parse("alertname=HighConsumerLag").unwrap()]
    );
    assert!(!source.silenced && !source.inhibited && source.watchdog.is_empty() && source.members.is_empty());
    assert_eq!(signal.unit, Unit::Alerts);
    assert!(signal.protects);
    assert_eq!(signal.interval, Duration::from_secs(15));
}

#[test]
fn firing_is_past_hard_and_never_critical_and_quiet_is_below_low() {
    let (signal, _) = read("url = \"http://am\"\nmatchers = [\"a=b\"]\n");
    assert!(0.0 < signal.low && signal.low < signal.soft && signal.soft < signal.hard);
    assert!(signal.hard < 1.0 && 1.0 < signal.critical);
}

#[test]
fn everything_can_be_said() {
    let (signal, source) = read(
        "url = \"https://am1\"\nmembers = [\"https://am2/\", \"https://am3\"]\n\
         matchers = [\"alertname=~'High.*'\", 'consumergroup=~\"orders\\\\.(a|b)\"', \"team!=x\"]\n\
         silenced = true\ninhibited = true\nwatchdog = [\"alertname=Watchdog\"]\nrole = \"advise\"\ninterval = \"5s\"\n\
         deadline = \"2s\"\nbearer = { env = \"TOKEN\" }\n",
    );
    assert_eq!(source.members, ["https://am2", "https://am3"]);
    assert_eq!(source.matchers[0].value, "'High.*'");
    assert_eq!(source.matchers[1].value, "orders\\.(a|b)");
    assert!(source.silenced && source.inhibited && !signal.protects);
    assert_eq!(source.watchdog, [Matcher::parse("alertname=Watchdog").unwrap()]);
    assert_eq!(source.http.deadline, Duration::from_secs(2));
}

#[test]
fn what_is_missing_is_said() {
    let both = parse("").unwrap_err();
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both[0].contains("signals.a.matchers: found nothing"), "{both:?}");
    assert!(both[1].contains("the base URL of an Alertmanager"), "{both:?}");
    assert!(said("matchers = []").contains("found an empty list"));
    assert!(said("matchers = \"a=b\"").contains("found a text"));
    assert!(said("matchers = [3]").contains("signals.a.matchers[0]: found a whole number"));
    assert!(said("matchers = [\"a=b\"]\nwatchdog = []").contains("signals.a.watchdog: found an empty list"));
}

#[test]
fn a_matcher_is_checked_at_its_place() {
    let said = said("matchers = [\"a=b\", \"alertname==x\"]");
    assert!(
        said.contains(":4:20: signals.a.matchers[1]: found two signs"),
        "{said}"
    );
}

/// All of them have to fit, so that this would never fire and never hold anything back.
#[test]
fn two_values_of_one_label_are_refused_and_the_way_to_say_it_is_told() {
    let said = said("matchers = [\"alertname=A\", \"alertname=B\"]");
    assert!(said.contains("a second value of \"alertname\""), "{said}");
    assert!(said.contains("alertname=~\"A|B\""), "{said}");
    read("url = \"http://am\"\nmatchers = [\"a=b\", \"a!=c\", \"a=~d\"]\n");
}

#[test]
fn matchers_that_everything_fits_are_refused() {
    for matchers in ["a!=b", "a=~.*", "a=", "a!~x"] {
        let said = said(&format!("matchers = [\"{matchers}\"]"));
        assert!(said.contains("at least one label that has to be there"), "{said}");
    }
}

#[test]
fn an_alert_is_not_its_own_watchdog() {
    let said = said("matchers = [\"a=b\"]\nwatchdog = [\"a = b\"]");
    assert!(
        said.contains("signals.a.watchdog: found the same matchers"),
        "{said}"
    );
}

#[test]
fn each_member_is_named_once() {
    for members in ["\"http://am/\"", "\"http://b\", \"http://b\""] {
        let said = said(&format!("matchers = [\"a=b\"]\nmembers = [{members}]"));
        assert!(said.contains("a member a second time"), "{said}");
    }
    assert!(said("matchers = [\"a=b\"]\nmembers = [\"am2:9093\"]").contains("neither http://"));
}

#[test]
fn levels_a_unit_and_keys_of_other_kinds_are_unknown() {
    for line in [
        "soft = 1",
        "unit = \"messages\"",
        "query = \"x\"",
        "silences = true",
        "command = [\"x\"]",
    ] {
        let said = said(&format!("matchers = [\"a=b\"]\n{line}"));
        assert!(said.contains("an unknown key"), "{said}");
    }
}

#[test]
fn a_difference_is_told_in_words_and_without_secrets() {
    let config = |lines: &str| {
        let text = format!("[signals.a]\n{lines}");
        Config::parse(&text, Path::new("/etc/backfill/config.toml")).unwrap()
    };
    let base = "kind = \"alertmanager\"\nurl = \"http://am\"\nmatchers = [\"a=b\"]\n";
    let more = base.replace("a=b", "a=b\", \"c!~d")
        + "members = [\"http://am2\"]\nsilenced = true\nsilence = true\nwatchdog = [\"w=x\"]\nbearer = { env = \"TOKEN\" }\n";
    let lines = config(base).diff(&config(&more));
    assert_eq!(
        lines,
        [
            "signals.a.matchers a=\"b\" to a=\"b\" c!~\"d\"",
            "signals.a.watchdog none to w=\"x\"",
            "signals.a.members none to http://am2",
            "signals.a.silenced false to true",
            "signals.a.silence false to true",
            "signals.a login none to bearer",
        ]
    );
    let program = "kind = \"command\"\ncommand = [\"./lag.sh\"]\nunit = \"seconds\"\n";
    let lines = config(base).diff(&config(program));
    assert!(
        lines.contains(&"signals.a.kind alertmanager to command".to_owned()),
        "{lines:?}"
    );
    assert!(
        lines.contains(&"signals.a.unit alerts to seconds".to_owned()),
        "{lines:?}"
    );
}
