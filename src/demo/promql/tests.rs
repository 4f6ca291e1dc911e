use super::*;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn lag(partition: &str, group: &str) -> Labels {
    labels(&[("__name__", "lag"), ("group", group), ("partition", partition)])
}

fn history() -> History {
    let mut history = History::default();
    for (at, times) in [(1000.0, 1.0), (1001.0, 10.0)] {
        history.push(Scrape {
            at,
            series: vec![
                (lag("0", "orders"), 3.0 * times),
                (lag("1", "orders"), 4.0 * times),
                (lag("0", "billing"), 5.0 * times),
                (labels(&[("__name__", "up")]), 1.0),
            ],
        });
    }
    history
}

fn ask(query: &str) -> Value {
    history()
        .query(query, 1003.5)
        .unwrap_or_else(|e| panic!("{query}: {e}"))
}

fn one(labels_of: &[(&str, &str)], value: f64) -> Value {
    Value::Vector(vec![(labels(labels_of), value)])
}

#[test]
fn a_selector_gives_the_newest_series_with_their_names() {
    assert_eq!(
        ask("lag{group=\"orders\", partition!='0',}"),
        Value::Vector(vec![(lag("1", "orders"), 40.0)])
    );
    assert_eq!(ask("{__name__=\"up\"}"), one(&[("__name__", "up")], 1.0));
}

#[test]
fn what_is_not_there_is_an_empty_vector_and_so_is_its_sum() {
    assert_eq!(ask("nothing"), Value::Vector(vec![]));
    assert_eq!(ask("sum(nothing)"), Value::Vector(vec![]));
    assert_eq!(ask("lag{missing=\"x\"}"), Value::Vector(vec![]));
}

#[test]
fn aggregations_keep_the_labels_that_they_are_told() {
    assert_eq!(ask("sum(lag{group=\"orders\"})"), one(&[], 70.0));
    assert_eq!(
        ask("max by (partition) (lag{group=\"orders\",partition=\"1\"})"),
        one(&[("partition", "1")], 40.0)
    );
    assert_eq!(
        ask("avg(lag{group=\"orders\"}) without (partition)"),
        one(&[("group", "orders")], 35.0)
    );
    assert_eq!(ask("count(lag)"), one(&[], 3.0));
    assert_eq!(ask("min(lag)"), one(&[], 30.0));
}

/// The recorded behaviour of Prometheus: a sum has the query's time, a bare selector its samples' own.
#[test]
fn only_a_bare_selector_has_the_time_of_its_sample() {
    assert_eq!(ask("min(timestamp(lag))"), one(&[], 1001.0));
    assert_eq!(ask("timestamp((up))"), one(&[], 1001.0));
    assert_eq!(ask("timestamp(sum(lag))"), one(&[], 1003.5));
    assert_eq!(ask("time() - max(timestamp(lag))"), one(&[], 2.5));
    assert_eq!(ask("timestamp(nothing)"), Value::Vector(vec![]));
}

#[test]
fn a_query_about_the_past_sees_the_past_and_a_late_one_nothing() {
    let at = |time| history().query("sum(lag{group=\"orders\"})", time).unwrap();
    assert_eq!(at(1000.9), one(&[], 7.0));
    assert_eq!(at(999.0), Value::Vector(vec![]));
    assert_eq!(at(1001.0 + LOOKBACK), Value::Vector(vec![]));
    assert_eq!(at(1000.9 + LOOKBACK), one(&[], 70.0));
}

#[test]
fn arithmetic_has_its_usual_precedence_and_drops_names() {
    assert_eq!(ask("2 + 3 * 4 - -1"), Value::Scalar(15.0));
    assert_eq!(ask("(2 + 3) * 4 / 8"), Value::Scalar(2.5));
    assert_eq!(ask("up * 1e3"), one(&[], 1000.0));
    assert_eq!(ask("sum(lag) / count(lag)"), one(&[], 40.0));
    assert!(matches!(ask("vector(0) / 0"), Value::Vector(v) if v[0].1.is_nan()));
    assert_eq!(ask("-up"), one(&[], -1.0));
}

#[test]
fn absent_says_that_nothing_is_there() {
    assert_eq!(ask("absent(lag)"), Value::Vector(vec![]));
    assert_eq!(ask("absent(lag{group=\"x\"})"), one(&[("group", "x")], 1.0));
    assert!(matches!(ask("scalar(lag)"), Value::Scalar(n) if n.is_nan()));
    assert_eq!(ask("scalar(up)"), Value::Scalar(1.0));
}

#[test]
fn what_is_not_promql_is_refused_with_its_place() {
    let wrong = |query: &str| history().query(query, 1003.5).unwrap_err().to_string();
    let place = "invalid parameter \"query\": 1:";
    assert_eq!(
        wrong(""),
        format!("{place}1: parse error: no expression found in input")
    );
    assert_eq!(
        wrong("sum(lag"),
        format!("{place}8: parse error: unclosed left parenthesis")
    );
    for query in [
        "sum(",
        "lag{",
        "lag{group",
        "lag{group=x}",
        "lag lag",
        "1 +",
        "\"x",
        "{}",
        "{a!=\"b\"}",
        "}",
        "1x",
        "time(1)",
        "sum)",
    ] {
        assert!(wrong(query).starts_with(place), "{query}: {}", wrong(query));
    }
}

#[test]
fn what_is_promql_and_not_held_here_is_refused_and_never_guessed() {
    for query in [
        "rate(lag[5m])",
        "lag[5m]",
        "lag{group=~\"a|b\"}",
        "lag > 5",
        "up + \"x\"",
        "sum(1)",
        "timestamp(1)",
        "lag + lag{partition=\"0\"} * 0 + sum by (x) (lag)",
    ] {
        let answer = history().query(query, 1003.5);
        assert!(
            matches!(answer, Err(QueryError::Execution(_))) || answer == Ok(Value::Vector(vec![])),
            "{query}: {answer:?}"
        );
    }
    assert!(matches!(
        history().query("rate(lag[5m])", 1.0),
        Err(QueryError::Execution(_))
    ));
}

#[test]
fn hostile_queries_end_in_an_error_and_not_in_a_crash() {
    for query in [
        "(".repeat(5_000),
        "-".repeat(9_999),
        "sum(".repeat(2_000),
        "a".repeat(20_000),
        "((((\u{0}".to_owned(),
        "é\"".to_owned(),
    ] {
        assert!(history().query(&query, 1.0).is_err());
    }
}

mod any_text {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn never_crashes_the_reader(query in "[a-z(){}=!~\"'\\[\\],+*/<>0-9. -]{0,60}") {
            let _ = history().query(&query, 1003.5);
        }
    }
}
