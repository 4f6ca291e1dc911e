//! The live consumer in real time: a thread that lets the [`Model`] live beside the attempts that really run, and
//! keeps what a scrape of it would have seen.

use super::{
    dice::{Dice, Purpose},
    model::Model,
    presence,
    promql::{History, Labels, QueryError, Scrape, Value},
};
use std::{
    fmt::Write,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{Builder, JoinHandle},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Time between two scrapes.
const SCRAPE: Duration = Duration::from_millis(250);
/// A gap longer than this, as after ctrl-z, is not lived through: the consumer stood still with us.
const LONGEST_GAP: Duration = Duration::from_secs(5);
/// Partitions of the topic and their share of its messages.
const PARTITIONS: [(&str, f64); 3] = [("0", 0.4), ("1", 0.35), ("2", 0.25)];

/// Metrics with their type and help, in the order of the exposition.
const METRICS: [(&str, &str, &str); 5] = [
    (
        "kafka_consumergroup_lag",
        "gauge",
        "Messages of a partition that the group has not read.",
    ),
    (
        "kafka_consumergroup_current_offset",
        "gauge",
        "Where the group reads.",
    ),
    (
        "kafka_topic_partition_current_offset",
        "gauge",
        "Where the partition ends.",
    ),
    (
        "orders_seconds_behind",
        "gauge",
        "Age of the oldest message that waits, in seconds.",
    ),
    ("up", "gauge", "The exporter answers."),
];

/// What the endpoint answers from; shared between the consumer's thread and the requests.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<History>);

impl Metrics {
    /// Takes in a scrape that is newer than all before it.
    pub fn push(&self, scrape: Scrape) {
        self.lock().push(scrape);
    }

    /// Evaluates an instant query.
    ///
    /// # Errors
    /// The query cannot be read, or cannot be evaluated here.
    pub fn query(&self, query: &str, time: f64) -> Result<Value, QueryError> {
        self.lock().query(query, time)
    }

    /// The newest scrape in the text format that Prometheus scrapes.
    pub fn exposition(&self) -> String {
        self.lock().newest().map(exposition).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Unix time in seconds, now.
pub fn unix_now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

/// A live consumer; it lives until this is dropped.
#[derive(Debug)]
pub struct Live {
    metrics: Arc<Metrics>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    /// Starts a consumer that suffers from the attempts whose presence is in `running`.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(model: Model, running: &Path, seed: u64) -> io::Result<Self> {
        let metrics = Arc::new(Metrics::default());
        metrics.push(scrape(&model, unix_now()));
        let (stop, stopped) = channel();
        let life = Life {
            model,
            running: running.to_owned(),
            dice: Dice::of(seed, Purpose::Live, 0),
            metrics: Arc::clone(&metrics),
        };
        let thread = Builder::new()
            .name("live consumer".to_owned())
            .spawn(move || life.lead(&stopped))?;
        Ok(Self {
            metrics,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// What its exporter shows.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Life {
    model: Model,
    running: PathBuf,
    dice: Dice,
    metrics: Arc<Metrics>,
}

impl Life {
    fn lead(mut self, stopped: &Receiver<()>) {
        let mut last = Instant::now();
        while stopped.recv_timeout(SCRAPE) == Err(RecvTimeoutError::Timeout) {
            let passed = last.elapsed().min(LONGEST_GAP);
            last = Instant::now();
            // Without a count there is no scrape: the sample grows old, and whoever asks can see that.
            let Ok(running) = presence::count(&self.running) else {
                continue;
            };
            let dice = &mut self.dice;
            self.model.step(passed.as_secs_f64(), running, || dice.normal());
            self.metrics.push(scrape(&self.model, unix_now()));
        }
    }
}

/// What an exporter beside the consumer shows.
fn scrape(model: &Model, at: f64) -> Scrape {
    let mut series = Vec::new();
    for (partition, share) in PARTITIONS {
        let (end, read) = (
            (model.produced() * share).floor(),
            (model.consumed() * share).floor(),
        );
        let group = [
            ("consumergroup", "orders"),
            ("topic", "orders"),
            ("partition", partition),
        ];
        series.push((labels("kafka_consumergroup_lag", &group), end - read));
        series.push((labels("kafka_consumergroup_current_offset", &group), read));
        series.push((labels("kafka_topic_partition_current_offset", &group[1..]), end));
    }
    let group = [("consumergroup", "orders"), ("topic", "orders")];
    let behind = (model.seconds_behind() * 10.0).round() / 10.0;
    series.push((labels("orders_seconds_behind", &group), behind));
    series.push((labels("up", &[]), 1.0));
    Scrape { at, series }
}

fn labels(name: &str, own: &[(&str, &str)]) -> Labels {
    let target = [
        ("__name__", name),
        ("instance", "demo"),
        ("job", "kafka_exporter"),
    ];
    target
        .iter()
        .chain(own)
        .map(|(label, value)| ((*label).to_owned(), (*value).to_owned()))
        .collect()
}

/// The text format, version 0.0.4, without the labels that the scraper adds.
fn exposition(scrape: &Scrape) -> String {
    let mut out = String::new();
    for (name, kind, help) in METRICS {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in scrape
            .series
            .iter()
            .filter(|(l, _)| l.get("__name__").is_some_and(|n| n == name))
        {
            let own: Vec<String> = labels
                .iter()
                .filter(|(label, _)| !matches!(label.as_str(), "__name__" | "instance" | "job"))
                .map(|(label, value)| format!("{label}=\"{value}\""))
                .collect();
            let own = if own.is_empty() {
                String::new()
            } else {
                format!("{{{}}}", own.join(","))
            };
            let _ = writeln!(out, "{name}{own} {value}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::model::World;

    fn value(metrics: &Metrics, query: &str) -> f64 {
        match metrics.query(query, unix_now()).unwrap() {
            Value::Vector(vector) => vector[0].1,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn partitions_add_up_to_the_lag_and_offsets_explain_it() {
        let mut model = Model::new(World::calm());
        model.step(90.0, 4, || 0.0);
        let metrics = Metrics::default();
        metrics.push(scrape(&model, unix_now()));
        let lag = value(&metrics, "sum(kafka_consumergroup_lag{consumergroup=\"orders\"})");
        assert!((lag - model.lag()).abs() <= 3.0, "{lag} {}", model.lag());
        let offsets = "sum(kafka_topic_partition_current_offset) - sum(kafka_consumergroup_current_offset)";
        assert_eq!(value(&metrics, offsets), lag);
        assert!(value(&metrics, "max(orders_seconds_behind)") > 1.0);
    }

    #[test]
    fn a_consumer_that_has_caught_up_shows_zero_and_not_nothing() {
        let metrics = Metrics::default();
        metrics.push(scrape(&Model::new(World::calm()), unix_now()));
        assert_eq!(value(&metrics, "sum(kafka_consumergroup_lag)"), 0.0);
    }

    #[test]
    fn the_exposition_names_type_and_series_of_every_metric() {
        let text = exposition(&scrape(&Model::new(World::calm()), 1.0));
        for (name, kind, _) in METRICS {
            assert!(text.contains(&format!("# TYPE {name} {kind}\n")));
            assert!(text.lines().any(|l| l.starts_with(name)), "{name}");
        }
        assert!(text.contains(
            "kafka_consumergroup_lag{consumergroup=\"orders\",partition=\"2\",topic=\"orders\"} 0\n"
        ));
        assert!(text.ends_with("up 1\n"));
    }

    #[test]
    fn a_live_consumer_scrapes_itself_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let live = Live::start(Model::new(World::calm()), dir.path(), 1).unwrap();
        let metrics = live.metrics();
        let produced = || value(&metrics, "sum(kafka_topic_partition_current_offset)");
        let started = Instant::now();
        while produced() == 0.0 {
            assert!(
                started.elapsed() < Duration::from_secs(20),
                "nothing was produced"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(live);
        let (at_end, newest) = (produced(), metrics.lock().newest().unwrap().at);
        std::thread::sleep(SCRAPE * 2);
        assert_eq!(
            (produced(), metrics.lock().newest().unwrap().at),
            (at_end, newest)
        );
    }
}
