//! The broker, and hands to put things into it.

use krafka::{
    Kafka, Record,
    admin::{
        AdminClient, AlterConsumerGroupOffsetsOptions, CreateTopicsOptions, DeleteRecordsOptions,
        DeleteTopicsOptions, NewTopic, TopicPartition,
    },
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

/// A broker that ends with this process.
pub struct Broker {
    dir: PathBuf,
    lines: BTreeMap<String, String>,
}

impl Broker {
    /// The one for all tests.
    pub fn get() -> &'static Self {
        static STARTED: OnceLock<Broker> = OnceLock::new();
        STARTED.get_or_init(Self::start)
    }

    /// One of one's own.
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap().keep();
        let lines = up(&dir);
        Self { dir, lines }
    }

    /// Starts again what died.
    pub fn restart(&mut self) {
        self.lines = up(&self.dir);
    }

    pub fn line(&self, name: &str) -> &str {
        &self.lines[name]
    }

    /// What a guarded listener of the Python package's broker has seen; nothing of Apache Kafka.
    pub fn seen(&self, listener: &str) -> Option<String> {
        (self.line("KAFKA_KIND") == "noida")
            .then(|| std::fs::read_to_string(self.dir.join(format!("{listener}.seen"))).unwrap_or_default())
    }

    pub fn kill(&self) {
        let pid = self.line("KAFKA_PID");
        assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
        // Until its port is closed it is not dead for anybody else.
        let begun = Instant::now();
        while std::net::TcpStream::connect(self.line("KAFKA_BROKERS")).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(10), "it does not die");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Where a partition ends, in the words of a client that has nothing to do with ours. A broker that was just
    /// started may not lead its partitions yet.
    pub fn end(&self, topic: &str, partition: i32) -> i64 {
        let begun = Instant::now();
        loop {
            let out = Command::new("kcat")
                .args(["-b", self.line("KAFKA_BROKERS"), "-Q", "-t"])
                .arg(format!("{topic}:{partition}:-1"))
                .output()
                .unwrap();
            let said = String::from_utf8(out.stdout).unwrap();
            if let Ok(offset) = said.trim().rsplit(' ').next().unwrap().parse() {
                return offset;
            }
            let error = String::from_utf8_lossy(&out.stderr);
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "kcat says {said:?} {error}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Reads `count` messages of a topic as a member of a group, commits, and leaves; by that same other client.
    pub fn consume(&self, group: &str, topic: &str, count: u32) {
        let status = Command::new("kcat")
            .args(["-b", self.line("KAFKA_BROKERS"), "-G", group])
            .args([
                "-X",
                "auto.offset.reset=earliest",
                "-c",
                &count.to_string(),
                "-q",
                topic,
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "kcat did not read {count} of {topic}");
    }

    pub async fn hands(&self) -> Hands {
        backfill::net::use_ring();
        let kafka = Kafka::builder(self.line("KAFKA_BROKERS"))
            .connect()
            .await
            .unwrap();
        Hands {
            admin: kafka.admin(),
            kafka,
        }
    }
}

fn up(dir: &Path) -> BTreeMap<String, String> {
    let started = Command::new("bash")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/kafka.sh"))
        .arg("up")
        .arg(dir)
        .env("OWNER", std::process::id().to_string())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(started.status.success(), "no real broker: {words}");
    let lines = String::from_utf8(started.stdout).unwrap();
    lines
        .lines()
        .filter_map(|l| l.split_once('='))
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .collect()
}

/// A client that puts things into the broker.
pub struct Hands {
    pub kafka: Kafka,
    pub admin: AdminClient,
}

impl Hands {
    pub async fn topic(&self, name: &str, partitions: i32) {
        let made = self
            .admin
            .create_topics(
                [NewTopic::new(name, partitions, 1).unwrap()],
                CreateTopicsOptions::default(),
            )
            .await
            .unwrap();
        made[name].as_ref().unwrap();
        self.until_described(name, true).await;
    }

    pub async fn has(&self, topic: &str) -> bool {
        let found = self
            .admin
            .describe_topics([topic], Default::default())
            .await
            .unwrap();
        found[topic].is_ok()
    }

    pub async fn drop_topic(&self, name: &str) {
        let gone = self
            .admin
            .delete_topics([name], DeleteTopicsOptions::default())
            .await
            .unwrap();
        gone[name].as_ref().unwrap();
        self.until_described(name, false).await;
    }

    /// Until all the brokers' words about a topic are as they should be; with Apache Kafka that takes a moment.
    async fn until_described(&self, name: &str, there: bool) {
        let begun = Instant::now();
        loop {
            let found = self
                .admin
                .describe_topics([name], Default::default())
                .await
                .unwrap();
            let whole = |t: &krafka::admin::TopicDescription| t.partitions.iter().all(|p| p.leader.is_some());
            if found[name].as_ref().is_ok_and(whole) == there {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", found[name]);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn produce(&self, topic: &str, partition: i32, count: usize) {
        self.produce_at(topic, partition, count, None).await;
    }

    /// Records of a given time, in milliseconds of Unix time.
    pub async fn produce_at(&self, topic: &str, partition: i32, count: usize, time: Option<i64>) {
        let producer = self.kafka.producer().build().await.unwrap();
        for n in 0..count {
            let mut record = Record::new(topic, format!("message {n}")).partition(partition);
            if let Some(time) = time {
                record = record.timestamp(time);
            }
            drop(producer.enqueue(record).await.unwrap());
        }
        producer.flush().await.unwrap();
        producer.close().await.unwrap();
    }

    pub async fn commit(&self, group: &str, topic: &str, offsets: &[(i32, i64)]) {
        let offsets = offsets.iter().map(|(p, o)| (TopicPartition::new(topic, *p), *o));
        let done = self
            .admin
            .alter_consumer_group_offsets(group, offsets, AlterConsumerGroupOffsetsOptions::default())
            .await
            .unwrap();
        for result in done.values() {
            result.as_ref().unwrap();
        }
    }

    pub async fn delete_records(&self, topic: &str, partition: i32, before: i64) {
        let done = self
            .admin
            .delete_records(
                [(TopicPartition::new(topic, partition), before)],
                DeleteRecordsOptions::default(),
            )
            .await
            .unwrap();
        for result in done.values() {
            assert_eq!(*result.as_ref().unwrap(), before);
        }
    }
}
