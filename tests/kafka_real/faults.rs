//! Brokers that die, hang, close or talk nonsense.

use super::{Broker, broker::Hands, config, failed, source, value};
use backfill::{
    config::{KafkaConfig, Unit},
    net::Cause,
    signals::{LagSource, kafka::Kafka},
};
use std::time::{Duration, Instant};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

#[tokio::test]
async fn a_broker_that_is_killed_and_comes_back_gives_failures_and_then_numbers_again() {
    let mut broker = Broker::start();
    let hands = broker.hands().await;
    fill(&broker, &hands).await;
    let mut config = config(&["killed"]);
    config.brokers = vec![broker.line("KAFKA_BROKERS").to_owned()];
    config.deadline = Duration::from_secs(2);
    let source = source(&config, Unit::Messages);
    assert_eq!(value(source.read().await).0, 5.0);
    broker.kill();
    for _ in 0..2 {
        let begun = Instant::now();
        let error = failed(source.read().await);
        assert!(
            matches!(error.cause, Cause::Refused | Cause::Timeout | Cause::Broken),
            "{error}"
        );
        assert!(begun.elapsed() < Duration::from_secs(3), "{error}");
    }
    broker.restart();
    // Not every broker has on its disk what it said yes to a moment before.
    fill(&broker, &broker.hands().await).await;
    let begun = Instant::now();
    let reading = loop {
        let reading = source.read().await;
        if !matches!(reading, backfill::signals::Reading::Failed(_)) {
            break reading;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{reading:?}");
    };
    assert_eq!(value(reading).0, 5.0);
}

/// A topic of eight messages of which the group has read three, whatever of that is there already.
async fn fill(broker: &Broker, hands: &Hands) {
    if !hands.has("killed").await {
        hands.topic("killed", 2).await;
    }
    let missing = 8 - broker.end("killed", 0);
    hands
        .produce("killed", 0, usize::try_from(missing).unwrap())
        .await;
    hands.commit("killed", "killed", &[(0, 3), (1, 0)]).await;
}

/// What a listener does with each connection.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Hangs,
    Closes,
    TalksHttp,
    AnswersTooMuch,
    AnswersNoise,
}

/// A listener of that manner and how many connections it has open.
async fn odd_broker(manner: Manner) -> (String, std::sync::Arc<std::sync::atomic::AtomicI64>) {
    use std::sync::atomic::Ordering;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let open = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
    let counted = std::sync::Arc::clone(&open);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let open = std::sync::Arc::clone(&counted);
            open.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                loop {
                    if matches!(manner, Manner::Closes) {
                        break;
                    }
                    match stream.read(&mut buffer).await {
                        Ok(0) | Err(_) => break,
                        Ok(_) => {}
                    }
                    let answer: &[u8] = match manner {
                        Manner::Hangs | Manner::Closes => continue,
                        Manner::TalksHttp => b"HTTP/1.1 400 Bad Request\r\n\r\n",
                        Manner::AnswersTooMuch => b"\x7f\xff\xff\xff\x00\x00\x00\x00",
                        Manner::AnswersNoise => {
                            b"\x00\x00\x00\x10\x00\x00\x00\x00\x13\x37\x13\x37\x13\x37\x13\x37\x13\x37\x13\x37"
                        }
                    };
                    if stream.write_all(answer).await.is_err() {
                        break;
                    }
                }
                drop(stream);
                open.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    (at, open)
}

#[tokio::test]
async fn a_broker_that_hangs_closes_or_talks_nonsense_is_a_failure_within_the_deadline_and_leaves_nothing_open()
 {
    for manner in [
        Manner::Hangs,
        Manner::Closes,
        Manner::TalksHttp,
        Manner::AnswersTooMuch,
        Manner::AnswersNoise,
    ] {
        let (at, open) = odd_broker(manner).await;
        let config = KafkaConfig {
            deadline: Duration::from_millis(700),
            ..KafkaConfig::at(vec![at], vec!["g".to_owned()])
        };
        let source = Kafka::new("orders", &config, Unit::Messages);
        for _ in 0..3 {
            let begun = Instant::now();
            let error = failed(source.read().await);
            let fits = match manner {
                Manner::Hangs => error.cause == Cause::Timeout,
                Manner::Closes => error.cause == Cause::Broken,
                Manner::TalksHttp | Manner::AnswersTooMuch | Manner::AnswersNoise => {
                    error.cause == Cause::NotUnderstood
                }
            };
            assert!(fits, "{manner:?}: {error}");
            assert!(
                begun.elapsed() < Duration::from_millis(1_500),
                "{manner:?}: {error}"
            );
            assert!(!error.detail.is_empty(), "{manner:?}: {error}");
        }
        let begun = Instant::now();
        while open.load(std::sync::atomic::Ordering::SeqCst) > 0 {
            assert!(
                begun.elapsed() < Duration::from_secs(10),
                "{manner:?} still has connections"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn a_port_that_nobody_listens_on_and_a_name_that_nobody_has_are_told_apart() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for (at, cause) in [
        (free.to_string(), Cause::Refused),
        ("no-such-host.invalid:9092".to_owned(), Cause::Dns),
    ] {
        let config = KafkaConfig {
            deadline: Duration::from_secs(5),
            ..KafkaConfig::at(vec![at], vec!["g".to_owned()])
        };
        let error = failed(source(&config, Unit::Messages).read().await);
        assert_eq!(error.cause, cause, "{error}");
    }
}

#[tokio::test]
async fn one_set_of_connections_is_kept_between_reads() {
    let hands = Broker::get().hands().await;
    hands.topic("kept-open", 1).await;
    hands.commit("kept-open", "kept-open", &[(0, 0)]).await;
    let config = config(&["kept-open"]);
    let port: u16 = config.brokers[0].rsplit(':').next().unwrap().parse().unwrap();
    let source = source(&config, Unit::Seconds);
    value(source.read().await);
    let mine = || connections_to(port);
    let before = mine();
    for _ in 0..20 {
        hands.produce("kept-open", 0, 1).await;
        value(source.read().await);
    }
    // Other tests come and go; twenty connections of ours would not.
    assert!(mine() < before + 15, "{before} then {}", mine());
}

/// How many connections of this host go to a port of 127.0.0.1.
fn connections_to(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!("0100007F:{port:04X}");
    table
        .lines()
        .filter(|l| l.split_whitespace().nth(2) == Some(remote.as_str()))
        .filter(|l| l.split_whitespace().nth(3) == Some("01"))
        .count()
}
