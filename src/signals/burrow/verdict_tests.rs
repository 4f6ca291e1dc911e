use super::*;
use crate::config::HttpConfig;
use rstest::rstest;
use serde_json::{Value, json};

/// Burrow's clock in most of these tests.
const NOW: i64 = 1_795_970_860_000;

fn config(topics: &[&str]) -> BurrowConfig {
    BurrowConfig {
        http: HttpConfig::at("http://127.0.0.1:8000"),
        cluster: "local".to_owned(),
        groups: vec!["orders-svc".to_owned()],
        topics: topics.iter().map(|t| (*t).to_owned()).collect(),
    }
}

fn partition(topic: &str, partition: u32, status: &str, lag: u64) -> Value {
    json!({"topic": topic, "partition": partition, "owner": "", "client_id": "", "status": status,
           "start": {"offset": 5, "timestamp": NOW - 9_000, "lag": 0},
           "end": {"offset": 50, "timestamp": NOW - 4_000, "lag": 0},
           "current_lag": lag, "complete": 1})
}

fn uncommitted(topic: &str, number: u32) -> Value {
    let mut one = partition(topic, number, "OK", 0);
    one["start"] = Value::Null;
    one["end"] = Value::Null;
    one["complete"] = json!(0);
    one
}

fn group(status: &str, partitions: &[Value]) -> Group {
    serde_json::from_value(
        json!({"cluster": "local", "group": "orders-svc", "status": status, "complete": 1,
        "partitions": partitions, "partition_count": partitions.len(), "maxlag": null, "totallag": 0}),
    )
    .unwrap()
}

fn recorded(text: &str) -> Group {
    let mut answer: Value = serde_json::from_str(text).unwrap();
    serde_json::from_value(answer["status"].take()).unwrap()
}

fn judged(topics: &[&str], group: &Group) -> Result<(f64, String), (NoSample, String)> {
    let measured = verdict(&config(topics), group, NOW)?;
    Ok((measured.part.value.unwrap(), measured.part.note))
}

#[test]
fn the_lag_is_what_is_missing_now_and_not_what_was_missing_at_the_newest_commit() {
    let found = group(
        "OK",
        &[
            partition("orders", 0, "OK", 3),
            partition("orders", 1, "WARN", 40),
        ],
    );
    let measured = verdict(&config(&[]), &found, NOW).unwrap();
    assert_eq!(measured.part.name, "orders-svc");
    assert_eq!(measured.part.value, Ok(43.0));
    assert_eq!(measured.part.note, "falls behind: orders/1");
    assert_eq!(measured.age, Duration::from_secs(4));
}

/// Case B28.
#[test]
fn a_group_whose_brokers_are_gone_is_as_old_as_its_newest_commit_however_often_it_is_asked() {
    let mut found = recorded(include_str!(
        "../../../tests/burrow_samples/lag-brokers-down.json"
    ));
    // As if all of it had been well when the brokers went.
    found.status = Status::Ok;
    found.partitions.truncate(1);
    found.partition_count = 1;
    let later = 1_795_970_855_996 + 3_600_000;
    let measured = verdict(&config(&[]), &found, later).unwrap();
    assert_eq!(measured.part.value, Ok(3.0));
    assert_eq!(measured.age, Duration::from_secs(3600));
}

#[rstest]
#[case::stalls(include_str!("../../../tests/burrow_samples/lag.json"), "orders/1 STALL at 325 messages")]
#[case::stopped(include_str!("../../../tests/burrow_samples/lag-stopped.json"), "orders/0 STOP at 353 messages")]
#[case::stopped_with_its_brokers(
    include_str!("../../../tests/burrow_samples/lag-brokers-down.json"),
    "orders/1 STOP at 475 messages"
)]
fn what_burrow_was_seen_to_say_of_a_group_that_stands_still_is_stalled(
    #[case] answer: &str,
    #[case] expected: &str,
) {
    let refused = judged(&[], &recorded(answer)).unwrap_err();
    assert_eq!(refused, (NoSample::Stalled, expected.to_owned()));
}

#[rstest]
fn a_partition_that_does_not_move_stalls_the_group_at_any_lag(
    #[values("STOP", "STALL", "REWIND")] status: &str,
    #[values(0, 1, 1_000_000)] lag: u64,
    // Nobody has to be told what the rest of the group does.
    #[values("OK", "WARN", "ERR")] of_group: &str,
) {
    let found = group(
        of_group,
        &[
            partition("orders", 0, "OK", 1),
            partition("orders", 1, status, lag),
        ],
    );
    let (health, why) = judged(&[], &found).unwrap_err();
    assert_eq!(health, NoSample::Stalled);
    assert!(why.starts_with(&format!("orders/1 {status} at ")), "{why}");
}

#[rstest]
fn a_group_that_burrow_itself_calls_still_is_stalled(
    #[values("STOP", "STALL", "REWIND", "ERR")] status: &str,
) {
    let found = group(status, &[partition("orders", 0, "OK", 1)]);
    let expected = (NoSample::Stalled, format!("the group is {status}"));
    assert_eq!(judged(&[], &found), Err(expected));
}

#[test]
fn many_still_partitions_are_counted_and_a_few_named() {
    let still: Vec<Value> = (0..9).map(|n| partition("orders", n, "STOP", 1)).collect();
    let (_, why) = judged(&[], &group("ERR", &still)).unwrap_err();
    assert_eq!(
        why,
        "orders/0 STOP at 1 message, orders/1 STOP at 1 message, orders/2 STOP at 1 message and 6 more"
    );
}

#[test]
fn only_the_topics_that_are_asked_for_count() {
    let found = group(
        "ERR",
        &[
            partition("orders", 0, "OK", 7),
            partition("clicks", 0, "STOP", 900),
            uncommitted("clicks", 1),
        ],
    );
    assert_eq!(judged(&["orders"], &found), Ok((7.0, String::new())));
    assert_eq!(judged(&["clicks"], &found).unwrap_err().0, NoSample::Stalled);
    let (health, why) = judged(&["orders", "billing"], &found).unwrap_err();
    assert_eq!(
        (health, why.as_str()),
        (NoSample::Missing, "no partition of billing")
    );
}

/// Law C1.
#[rstest]
#[case::nine_of_ten(9, 1, Ok("1 of 10 partitions without a commit"))]
#[case::eight_of_nine(8, 1, Err("8 of 9 partitions of orders have a commit"))]
#[case::none(0, 4, Err("0 of 4 partitions of orders have a commit"))]
fn nine_of_ten_partitions_of_a_topic_have_to_be_known(
    #[case] known: u32,
    #[case] unknown: u32,
    #[case] expected: Result<&str, &str>,
) {
    let partitions: Vec<Value> = (0..known)
        .map(|n| partition("orders", n, "OK", 2))
        .chain((known..known + unknown).map(|n| uncommitted("orders", n)))
        .collect();
    match (judged(&[], &group("OK", &partitions)), expected) {
        (Ok((lag, note)), Ok(expected)) => assert_eq!((lag, note.as_str()), (f64::from(known * 2), expected)),
        (Err((health, why)), Err(expected)) => {
            assert_eq!((health, why.as_str()), (NoSample::Partial, expected));
        }
        (found, expected) => panic!("{found:?} and not {expected:?}"),
    }
}

#[test]
fn an_unknown_topic_does_not_hide_among_the_known_partitions_of_others() {
    let mut partitions: Vec<Value> = (0..99).map(|n| partition("orders", n, "OK", 2)).collect();
    partitions.push(uncommitted("clicks", 0));
    let (health, why) = judged(&[], &group("OK", &partitions)).unwrap_err();
    assert_eq!(
        (health, why.as_str()),
        (NoSample::Partial, "0 of 1 partition of clicks have a commit")
    );
}

#[test]
fn half_of_a_commit_is_none() {
    for key in ["start", "end"] {
        let mut half = partition("orders", 0, "OK", 0);
        half[key] = Value::Null;
        assert_eq!(
            judged(&[], &group("OK", &[half])).unwrap_err().0,
            NoSample::Partial,
            "{key}"
        );
    }
}

#[test]
fn partitions_that_are_counted_and_not_listed_make_the_answer_partial() {
    let mut found = group("OK", &[partition("orders", 0, "OK", 2)]);
    found.partition_count = 4;
    assert_eq!(
        judged(&[], &found),
        Err((
            NoSample::Partial,
            "1 of 4 partitions are in the answer".to_owned()
        ))
    );
    found.partitions.clear();
    assert_eq!(judged(&[], &found).unwrap_err().0, NoSample::Missing);
}

#[test]
fn a_commit_of_the_future_or_without_a_time_is_no_measurement() {
    let mut found = group("OK", &[partition("orders", 0, "OK", 2)]);
    let at = |found: &mut Group, ms| found.partitions[0].end.as_mut().unwrap().timestamp = ms;
    at(&mut found, NOW + 4_000);
    assert_eq!(verdict(&config(&[]), &found, NOW).unwrap().age, Duration::ZERO);
    at(&mut found, NOW + 60_000);
    let (health, why) = judged(&[], &found).unwrap_err();
    assert_eq!(health, NoSample::Invalid);
    assert!(why.contains("ahead of Burrow's clock"), "{why}");
    at(&mut found, 0);
    assert_eq!(judged(&[], &found).unwrap_err().0, NoSample::Invalid);
}

#[test]
fn names_from_outside_are_shown_as_text() {
    let found = group("ERR", &[partition("\u{1b}[2J", 0, "STOP", 2)]);
    let (_, why) = judged(&[], &found).unwrap_err();
    let mut troubles = crate::signals::troubles::Troubles::default();
    troubles.add(NoSample::Stalled, &found.group, &why);
    let shown = format!("{:?}", troubles.reading());
    assert!(
        shown.contains("^[[2J/0 STOP") && !shown.contains('\u{1b}'),
        "{shown}"
    );
}
