//! Lag in seconds: the age of the first message that a group has not read.

use super::{Broker, config, no_sample, read, value};
use backfill::{config::Unit, signals::NoSample};
use chrono::Utc;

/// Milliseconds of Unix time, so many seconds ago.
fn ago(seconds: i64) -> i64 {
    Utc::now().timestamp_millis() - seconds * 1000
}

fn near(value: f64, expected: f64) {
    assert!(
        (value - expected).abs() < 20.0,
        "{value} and not about {expected}"
    );
}

#[tokio::test]
async fn the_age_is_that_of_the_first_unread_message_of_the_partition_that_is_furthest_behind() {
    let hands = Broker::get().hands().await;
    hands.topic("aged", 3).await;
    for (age, count) in [(3_000, 5), (900, 5), (60, 5)] {
        hands.produce_at("aged", 0, count, Some(ago(age))).await;
    }
    hands.produce_at("aged", 1, 400, Some(ago(120))).await;
    hands.produce_at("aged", 2, 1, Some(ago(9_000))).await;
    hands
        .commit("aged-mid", "aged", &[(0, 7), (1, 399), (2, 1)])
        .await;
    hands
        .commit("aged-late", "aged", &[(0, 12), (1, 400), (2, 1)])
        .await;
    hands
        .commit("aged-done", "aged", &[(0, 15), (1, 400), (2, 1)])
        .await;
    let (worst, parts) = value(read(&config(&["aged-mid", "aged-late", "aged-done"]), Unit::Seconds).await);
    near(worst, 900.0);
    let of = |name: &str| {
        *parts
            .iter()
            .find(|p| p.name == name)
            .unwrap()
            .value
            .as_ref()
            .unwrap()
    };
    near(of("aged-mid"), 900.0);
    near(of("aged-late"), 60.0);
    assert_eq!(of("aged-done"), 0.0);
    // As soon as it has read them the age falls, whatever the number of messages.
    hands.commit("aged-mid", "aged", &[(0, 15)]).await;
    near(value(read(&config(&["aged-mid"]), Unit::Seconds).await).0, 120.0);
}

#[tokio::test]
async fn many_partitions_and_large_messages_are_found_within_one_read() {
    let hands = Broker::get().hands().await;
    hands.topic("broad", 40).await;
    let producer = hands.kafka.producer().build().await.unwrap();
    for partition in 0..40 {
        for n in 0..3 {
            let record = krafka::Record::new("broad", vec![b'x'; 40_000])
                .partition(partition)
                .timestamp(ago(600 - i64::from(partition) * 10 - n * 2));
            drop(producer.enqueue(record).await.unwrap());
        }
    }
    producer.flush().await.unwrap();
    producer.close().await.unwrap();
    let commits: Vec<(i32, i64)> = (0..40).map(|p| (p, 1)).collect();
    hands.commit("broad", "broad", &commits).await;
    near(value(read(&config(&["broad"]), Unit::Seconds).await).0, 598.0);

    let mut few = config(&["broad"]);
    few.most_fetches = 10;
    let (health, why) = no_sample(read(&few, Unit::Seconds).await);
    assert_eq!(health, NoSample::Partial);
    assert!(why.contains("30 of 40 partitions of broad unknown"), "{why}");
    assert!(why.contains("most_fetches = 10"), "{why}");
}

#[tokio::test]
async fn a_message_from_the_future_has_no_age() {
    let hands = Broker::get().hands().await;
    hands.topic("future", 1).await;
    hands.produce_at("future", 0, 2, Some(ago(-600))).await;
    hands.commit("future", "future", &[(0, 0)]).await;
    let (health, why) = no_sample(read(&config(&["future"]), Unit::Seconds).await);
    assert_eq!(health, NoSample::Partial);
    assert!(why.contains("ahead of this host's clock"), "{why}");
}

#[tokio::test]
async fn after_a_deletion_the_age_is_that_of_the_first_message_left() {
    let hands = Broker::get().hands().await;
    hands.topic("cut", 1).await;
    hands.produce_at("cut", 0, 5, Some(ago(5_000))).await;
    hands.produce_at("cut", 0, 5, Some(ago(200))).await;
    hands.commit("cut", "cut", &[(0, 1)]).await;
    near(value(read(&config(&["cut"]), Unit::Seconds).await).0, 5_000.0);
    hands.delete_records("cut", 0, 5).await;
    near(value(read(&config(&["cut"]), Unit::Seconds).await).0, 200.0);
}

#[tokio::test]
async fn what_a_transaction_took_back_is_late_only_for_those_who_read_it() {
    let hands = Broker::get().hands().await;
    hands.topic("taken-back", 1).await;
    hands.commit("taken-back", "taken-back", &[(0, 0)]).await;
    let producer = hands
        .kafka
        .producer()
        .build_transactional("kafka-real-taken-back")
        .await
        .unwrap();
    producer.begin().unwrap();
    for n in 0..5 {
        let record = krafka::Record::new("taken-back", format!("{n}"))
            .partition(0)
            .timestamp(ago(700));
        let _ = producer.send(record).await.unwrap();
    }
    producer.abort().await.unwrap();
    let mut config = config(&["taken-back"]);
    near(value(read(&config, Unit::Seconds).await).0, 700.0);
    config.isolation = backfill::config::Isolation::ReadCommitted;
    assert_eq!(value(read(&config, Unit::Seconds).await).0, 0.0);
    hands.produce_at("taken-back", 0, 1, Some(ago(100))).await;
    near(value(read(&config, Unit::Seconds).await).0, 100.0);
}
