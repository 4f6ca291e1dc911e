//! The lag of groups.

use super::{Broker, config, no_sample, read, source, value};
use backfill::{
    config::{Expect, Unit, WithoutCommit},
    signals::{LagSource, NoSample, Reading},
};

#[tokio::test]
async fn the_lag_of_many_groups_is_what_another_client_says_and_the_worst_is_named() {
    let (broker, hands) = (Broker::get(), Broker::get().hands().await);
    hands.topic("many-a", 3).await;
    hands.topic("many-b", 2).await;
    for (topic, partition, count) in [
        ("many-a", 0, 100),
        ("many-a", 1, 37),
        ("many-a", 2, 5),
        ("many-b", 0, 61),
        ("many-b", 1, 4),
    ] {
        hands.produce(topic, partition, count).await;
    }
    hands
        .commit("many-1", "many-a", &[(0, 90), (1, 37), (2, 0)])
        .await;
    hands
        .commit("many-2", "many-a", &[(0, 100), (1, 37), (2, 5)])
        .await;
    hands.commit("many-2", "many-b", &[(0, 1), (1, 4)]).await;
    broker.consume("many-3", "many-b", 65);

    let end = |topic, partition| broker.end(topic, partition) as f64;
    let first = end("many-a", 0) - 90.0 + end("many-a", 1) - 37.0 + end("many-a", 2);
    let second = end("many-b", 0) - 1.0;
    let (worst, parts) = value(read(&config(&["many-3", "many-2", "many-1"]), Unit::Messages).await);
    let numbers: Vec<(&str, f64)> = parts
        .iter()
        .map(|p| (p.name.as_str(), *p.value.as_ref().unwrap()))
        .collect();
    assert_eq!(numbers, [("many-1", first), ("many-2", second), ("many-3", 0.0)]);
    assert_eq!((first, second, worst), (15.0, 60.0, 60.0));
    // Nobody is in a group whose offsets were set by an administrator.
    assert_eq!(parts[0].note, "no members");

    let mut only_a = config(&["many-2"]);
    only_a.topics = ["many-a".to_owned()].into();
    assert_eq!(value(read(&only_a, Unit::Messages).await).0, 0.0);
}

#[tokio::test]
async fn the_next_reads_follow_what_is_produced_and_consumed() {
    let hands = Broker::get().hands().await;
    hands.topic("follow", 1).await;
    hands.commit("follow", "follow", &[(0, 0)]).await;
    let source = source(&config(&["follow"]), Unit::Messages);
    for (produced, committed, lag) in [(0, 0, 0.0), (25, 0, 25.0), (5, 20, 10.0), (0, 30, 0.0)] {
        if produced > 0 {
            hands.produce("follow", 0, produced).await;
        }
        hands.commit("follow", "follow", &[(0, committed)]).await;
        assert_eq!(value(source.read().await).0, lag);
    }
}

/// Case B28.
#[tokio::test]
async fn a_group_that_is_not_there_is_missing_and_never_zero() {
    let hands = Broker::get().hands().await;
    hands.topic("there", 1).await;
    hands.commit("there", "there", &[(0, 0)]).await;
    let (health, why) = no_sample(read(&config(&["there", "not-there"]), Unit::Messages).await);
    assert_eq!(health, NoSample::Missing);
    assert!(
        why.starts_with("not-there: no such group, or it never committed"),
        "{why}"
    );
    let mut elsewhere = config(&["there"]);
    elsewhere.topics = ["somewhere".to_owned()].into();
    let (health, why) = no_sample(read(&elsewhere, Unit::Messages).await);
    assert_eq!(
        (health, why.as_str()),
        (
            NoSample::Missing,
            "there: it has no commit in somewhere (no members)"
        )
    );
}

#[tokio::test]
async fn partitions_that_were_never_committed_make_the_reading_partial_unless_they_may() {
    let hands = Broker::get().hands().await;
    hands.topic("gaps", 4).await;
    for partition in 0..4 {
        hands.produce("gaps", partition, 10).await;
    }
    hands.commit("gaps", "gaps", &[(1, 4), (3, 10)]).await;
    let mut config = config(&["gaps"]);
    let (health, why) = no_sample(read(&config, Unit::Messages).await);
    assert_eq!(health, NoSample::Partial);
    assert!(
        why.starts_with("gaps: gaps: 2 of 4 partitions have a commit (none in partitions 0, 2)"),
        "{why}"
    );
    config.without_commit = WithoutCommit::Ignore;
    assert_eq!(value(read(&config, Unit::Messages).await).0, 6.0);
    config.expect = Expect::Each(3);
    assert_eq!(
        no_sample(read(&config, Unit::Messages).await).0,
        NoSample::Partial
    );
    config.without_commit = WithoutCommit::Partial;
    config.expect = Expect::Of([("gaps".to_owned(), 2)].into());
    assert_eq!(value(read(&config, Unit::Messages).await).0, 6.0);
}

#[tokio::test]
async fn a_group_whose_members_work_has_no_note_and_one_without_members_says_so() {
    let broker = Broker::get();
    let hands = broker.hands().await;
    hands.topic("worked", 1).await;
    hands.produce("worked", 0, 10).await;
    let consumer = hands
        .kafka
        .consumer("worked")
        .auto_offset_reset(krafka::consumer::AutoOffsetReset::Earliest)
        .enable_auto_commit(false)
        .build()
        .await
        .unwrap();
    consumer.subscribe(["worked"]).await.unwrap();
    let mut got = 0;
    while got < 10 {
        got += consumer
            .poll(std::time::Duration::from_secs(1))
            .await
            .unwrap()
            .len();
    }
    // Its members are to read the topic, and nothing is committed yet.
    let (health, why) = no_sample(read(&config(&["worked"]), Unit::Messages).await);
    assert_eq!(
        (health, why.as_str()),
        (NoSample::Missing, "worked: it never committed")
    );
    consumer.commit().await.unwrap();
    let (lag, parts) = value(read(&config(&["worked"]), Unit::Messages).await);
    assert_eq!((lag, parts[0].note.as_str()), (0.0, ""));
    consumer.close().await.unwrap();
    hands.produce("worked", 0, 3).await;
    let reading = read(&config(&["worked"]), Unit::Messages).await;
    let Reading::Value {
        value, parts, age, ..
    } = reading
    else {
        panic!("{reading:?}");
    };
    assert_eq!((value, parts[0].note.as_str()), (3.0, "no members"));
    assert!(age < std::time::Duration::from_secs(20), "{age:?}");
}

#[tokio::test]
async fn two_hundred_groups_fit_into_one_read() {
    let hands = Broker::get().hands().await;
    hands.topic("crowd", 6).await;
    for partition in 0..6 {
        hands.produce("crowd", partition, 10).await;
    }
    let names: Vec<String> = (0..200).map(|n| format!("crowd-{n}")).collect();
    for (name, behind) in names.iter().zip(0..) {
        let offsets: Vec<(i32, i64)> = (0..6).map(|p| (p, 10 - behind % 5)).collect();
        hands.commit(name, "crowd", &offsets).await;
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let source = source(&config(&names), Unit::Messages);
    value(source.read().await);
    let begun = std::time::Instant::now();
    let (worst, parts) = value(source.read().await);
    let took = begun.elapsed();
    assert_eq!((worst, parts.len()), (24.0, 200));
    assert!(took < std::time::Duration::from_secs(5), "{took:?}");
    println!("200 groups of 6 partitions: {took:?}");
}
