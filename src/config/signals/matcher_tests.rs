//! Matchers as an Alertmanager reads them.

use super::*;
use proptest::prelude::*;

fn parsed(text: &str) -> (String, MatchOp, String) {
    let matcher = Matcher::parse(text).unwrap_or_else(|e| panic!("{text}: {e:?}"));
    (matcher.name, matcher.op, matcher.value)
}

#[test]
fn a_matcher_is_a_label_a_sign_and_a_value_with_or_without_quotes() {
    for (text, name, op, value) in [
        (
            "alertname=HighConsumerLag",
            "alertname",
            MatchOp::Equal,
            "HighConsumerLag",
        ),
        ("  team != \"a b\" ", "team", MatchOp::NotEqual, "a b"),
        (
            "consumergroup=~orders.*",
            "consumergroup",
            MatchOp::Regex,
            "orders.*",
        ),
        ("a!~\"x|y\"", "a", MatchOp::NotRegex, "x|y"),
        (r"g=~orders\.v2", "g", MatchOp::Regex, r"orders\.v2"),
        (r#"g=~"orders\\.\d""#, "g", MatchOp::Regex, r"orders\.\d"),
        (
            r#"a="say \"hi\"\nthere""#,
            "a",
            MatchOp::Equal,
            "say \"hi\"\nthere",
        ),
        ("team!=", "team", MatchOp::NotEqual, ""),
        ("a=\"\"", "a", MatchOp::Equal, ""),
        ("a=\"==\"", "a", MatchOp::Equal, "=="),
        ("a=\"b,c\"", "a", MatchOp::Equal, "b,c"),
        ("_x:y=ü", "_x:y", MatchOp::Equal, "ü"),
        ("a=b=c", "a", MatchOp::Equal, "b=c"),
        ("a=b\\", "a", MatchOp::Equal, "b\\"),
    ] {
        assert_eq!(parsed(text), (name.to_owned(), op, value.to_owned()), "{text}");
    }
}

#[test]
fn what_is_no_matcher_is_refused_with_the_reason() {
    for (text, word) in [
        ("", "does not start with the name"),
        ("=x", "does not start with the name"),
        ("9a=x", "does not start with the name"),
        ("alertname", "without ="),
        ("alertname HighLag", "without ="),
        ("alert-name=x", "without ="),
        ("alertname==x", "two signs"),
        ("alertname=~~x", "two signs"),
        ("{alertname=\"x\"}", "braces"),
        ("alertname=a,severity=b", "comma"),
        ("a=b\"c", "quote inside"),
        ("a=\"b\"c\"", "quote inside"),
        ("a=\"b", "not closed"),
        ("a=\"b\\\"", "not closed"),
    ] {
        let (found, help) = Matcher::parse(text).unwrap_err();
        assert!(found.contains(word), "{text}: {found}; {help}");
    }
}

#[test]
fn it_is_known_which_matchers_an_alert_without_the_label_fits_too() {
    for (text, wants) in [
        ("a=b", true),
        ("a=", false),
        ("a!=b", false),
        ("a!=", true),
        ("a=~b.*", true),
        ("a=~.*", false),
        ("a!~b", false),
        ("a!~\"\"", true),
    ] {
        assert_eq!(Matcher::parse(text).unwrap().wants_label(), wants, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(4),
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_value_survives_being_written_and_read(value in "(\\PC|[\"\\\\\n\t,=~!{} ]){0,12}") {
        for op in [MatchOp::Equal, MatchOp::NotEqual, MatchOp::Regex, MatchOp::NotRegex] {
            let matcher = Matcher { name: "label".to_owned(), op, value: value.clone() };
            prop_assert_eq!(Matcher::parse(&matcher.to_string()), Ok(matcher));
        }
    }

    #[test]
    fn no_text_makes_the_reader_fail(text in "\\PC{0,20}") {
        let _ = Matcher::parse(&text);
    }
}
