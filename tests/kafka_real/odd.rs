//! Offsets that do not fit their partitions, and groups that stand still.

use super::{Broker, config, no_sample, read, source, value};
use backfill::{
    config::{Isolation, Unit},
    signals::{LagSource, NoSample},
};
use krafka::Record;
use std::time::Duration;

#[tokio::test]
async fn a_recreated_topic_is_told_and_its_negative_lag_is_not_cut_to_zero() {
    let hands = Broker::get().hands().await;
    hands.topic("again", 1).await;
    hands.produce("again", 0, 100).await;
    hands.commit("again", "again", &[(0, 100)]).await;
    let source_before = source(&config(&["again"]), Unit::Messages);
    assert_eq!(value(source_before.read().await).0, 0.0);
    hands.drop_topic("again").await;
    hands.topic("again", 1).await;
    hands.produce("again", 0, 20).await;
    // Some brokers forget the commits of a deleted topic.
    hands.commit("again", "again", &[(0, 100)]).await;
    // Who knew the old topic can tell; also when the traces are gone.
    for _ in 0..2 {
        let (health, why) = no_sample(source_before.read().await);
        assert_eq!(health, NoSample::Invalid);
        assert!(
            why.contains("again/0 committed 100 is past the end 20: the topic was recreated or cut"),
            "{why}"
        );
    }
    // Who did not says both.
    let (health, why) = no_sample(read(&config(&["again"]), Unit::Messages).await);
    assert_eq!(health, NoSample::Invalid);
    assert!(
        why.contains("recreated, or the offset was set past the end"),
        "{why}"
    );
}

#[tokio::test]
async fn an_offset_that_was_set_past_the_end_is_told() {
    let hands = Broker::get().hands().await;
    hands.topic("beyond", 1).await;
    hands.produce("beyond", 0, 10).await;
    hands.commit("beyond", "beyond", &[(0, 7)]).await;
    let source = source(&config(&["beyond"]), Unit::Messages);
    assert_eq!(value(source.read().await).0, 3.0);
    hands.commit("beyond", "beyond", &[(0, 500)]).await;
    let (health, why) = no_sample(source.read().await);
    assert_eq!(health, NoSample::Invalid);
    assert!(
        why.contains("beyond/0 committed 500 is past the end 10: "),
        "{why}"
    );
    assert!(why.contains("the offset was set past the end"), "{why}");
    hands.commit("beyond", "beyond", &[(0, 8)]).await;
    assert_eq!(value(source.read().await).0, 2.0);
}

#[tokio::test]
async fn what_retention_deleted_is_lost_and_lag_counts_from_the_first_message_left() {
    let hands = Broker::get().hands().await;
    hands.topic("short", 1).await;
    hands.produce("short", 0, 100).await;
    hands.commit("short", "short", &[(0, 10)]).await;
    hands.delete_records("short", 0, 60).await;
    let (lag, parts) = value(read(&config(&["short"]), Unit::Messages).await);
    assert_eq!(lag, 40.0);
    assert_eq!(
        parts[0].note,
        "no members; 50 messages lost to retention before it read them"
    );
}

/// Case B25.
#[tokio::test]
async fn a_deleted_topic_is_left_out_and_named() {
    let hands = Broker::get().hands().await;
    for topic in ["kept", "deleted"] {
        hands.topic(topic, 1).await;
        hands.produce(topic, 0, 9).await;
        hands.commit("keeper", topic, &[(0, 2)]).await;
    }
    assert_eq!(value(read(&config(&["keeper"]), Unit::Messages).await).0, 14.0);
    hands.drop_topic("deleted").await;
    let (lag, parts) = value(read(&config(&["keeper"]), Unit::Messages).await);
    assert_eq!(lag, 7.0);
    // A broker may forget the commits with the topic; then nothing is left to be said.
    let note = parts[0].note.as_str();
    assert!(
        note == "no members; deleted no longer there" || note == "no members",
        "{note}"
    );
}

#[tokio::test]
async fn an_open_transaction_is_lag_only_for_those_who_read_it() {
    let hands = Broker::get().hands().await;
    hands.topic("trans", 1).await;
    hands.commit("trans", "trans", &[(0, 0)]).await;
    let producer = hands
        .kafka
        .producer()
        .build_transactional("kafka-real-trans")
        .await
        .unwrap();
    producer.begin().unwrap();
    for n in 0..10 {
        let record = Record::new("trans", format!("{n}")).partition(0);
        let _ = producer.send(record).await.unwrap();
    }
    let mut config = config(&["trans"]);
    assert_eq!(value(read(&config, Unit::Messages).await).0, 10.0);
    config.isolation = Isolation::ReadCommitted;
    assert_eq!(value(read(&config, Unit::Messages).await).0, 0.0);
    // Who has read of the open transaction is behind nobody, and no contradiction.
    hands.commit("trans", "trans", &[(0, 4)]).await;
    assert_eq!(value(read(&config, Unit::Messages).await).0, 0.0);
    producer.commit().await.unwrap();
    hands.commit("trans", "trans", &[(0, 10)]).await;

    // The marker of the transaction is a message that nobody reads: the lag is 1 for ever, and no standstill.
    config.stalled_after = Duration::from_secs(1);
    let patient = source(&config, Unit::Messages);
    for _ in 0..3 {
        assert_eq!(value(patient.read().await).0, 1.0);
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    // In time it is none: there is no message.
    assert_eq!(value(read(&config, Unit::Seconds).await).0, 0.0);
}

#[tokio::test]
async fn a_group_that_does_not_move_while_it_is_behind_is_stalled_until_it_moves() {
    let hands = Broker::get().hands().await;
    hands.topic("stuck", 2).await;
    hands.produce("stuck", 0, 30).await;
    hands.commit("stuck", "stuck", &[(0, 10), (1, 0)]).await;
    let mut config = config(&["stuck"]);
    config.stalled_after = Duration::from_secs(1);
    let source = source(&config, Unit::Messages);
    assert_eq!(value(source.read().await).0, 20.0);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let (health, why) = no_sample(source.read().await);
    assert_eq!(health, NoSample::Stalled);
    assert!(
        why.starts_with("stuck: 20 messages behind and nothing committed for 1s (no members)"),
        "{why}"
    );
    hands.commit("stuck", "stuck", &[(0, 11)]).await;
    assert_eq!(value(source.read().await).0, 19.0);
    hands.commit("stuck", "stuck", &[(0, 30)]).await;
    assert_eq!(value(source.read().await).0, 0.0);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(value(source.read().await).0, 0.0, "who is at the end may rest");
}
