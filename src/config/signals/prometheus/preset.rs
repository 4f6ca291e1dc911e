//! The queries for what well-known exporters serve, written out of the names of groups, topics, jobs and streams.
//!
//! Two exporters that watch the same thing must not double it: a sum is over the largest of each partition. Marks that
//! stand for *no commit* (-1, NaN) are left out of the sum and counted, so that a reading can tell how much is missing.

use super::super::super::Unit;

/// An exporter whose metrics are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// danielqsj/kafka_exporter and its relatives (Strimzi, Amazon's managed one).
    KafkaExporter,
    /// KMinion.
    Kminion,
    /// seglo/kafka-lag-exporter, and klag-exporter, which has the same names.
    KafkaLagExporter,
    /// The metrics of Burrow 1.3 and later.
    BurrowExporter,
    /// Flink's Prometheus reporter.
    Flink,
    /// Amazon MSK, open monitoring.
    Msk,
    /// Amazon Kinesis, through an exporter of CloudWatch.
    Kinesis,
}

impl Preset {
    /// The words in the file.
    pub(super) const WORDS: [(&'static str, Self); 7] = [
        ("kafka_exporter", Self::KafkaExporter),
        ("kminion", Self::Kminion),
        ("kafka-lag-exporter", Self::KafkaLagExporter),
        ("burrow-exporter", Self::BurrowExporter),
        ("flink", Self::Flink),
        ("msk", Self::Msk),
        ("kinesis", Self::Kinesis),
    ];

    /// The word in the file.
    pub fn word(self) -> &'static str {
        Self::WORDS
            .iter()
            .find(|(_, preset)| *preset == self)
            .map_or("", |(word, _)| word)
    }

    /// The unit where the exporter has only one.
    pub const fn unit(self) -> Option<Unit> {
        match self {
            Self::KafkaExporter | Self::Kminion | Self::BurrowExporter => Some(Unit::Messages),
            Self::Kinesis => Some(Unit::Seconds),
            Self::KafkaLagExporter | Self::Flink | Self::Msk => None,
        }
    }

    /// The key that has to be there, and whether `topic` may be, too.
    pub(super) const fn asks(self) -> (&'static str, bool) {
        match self {
            Self::Flink => ("job", false),
            Self::Kinesis => ("stream", false),
            _ => ("group", true),
        }
    }

    /// The labels that the exporter has for what the key names, and for topics.
    const fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::KafkaExporter => ("consumergroup", "topic"),
            Self::Kminion => ("group_id", "topic_name"),
            Self::KafkaLagExporter => ("group", "topic"),
            Self::BurrowExporter => ("consumer_group", "topic"),
            Self::Msk => ("groupId", "topic"),
            Self::Flink => ("job_name", "operator_name"),
            Self::Kinesis => ("stream_name", ""),
        }
    }

    /// Writes the queries. `names` are those of the key that the preset asks for; no `topics` are all topics.
    pub fn write(self, names: &[String], topics: &[String], unit: Unit) -> Written {
        let (label, topic) = self.labels();
        let mut selector = matcher(label, names);
        let mut wanted = vec![Wanted::new(label, names)];
        if !topics.is_empty() {
            selector.push(',');
            selector.push_str(&matcher(topic, topics));
            wanted.push(Wanted::new(topic, topics));
        }
        let named: Vec<&'static str> = [label, topic].into_iter().filter(|l| !l.is_empty()).collect();
        let queries = self.queries(&selector, names, unit);
        Written {
            preset: self,
            query: queries.value,
            age_query: queries.age,
            counts: queries.counts,
            labels: named,
            wanted,
        }
    }

    fn queries(self, selector: &str, names: &[String], unit: Unit) -> Queries {
        let seconds = unit == Unit::Seconds;
        match self {
            Self::KafkaExporter => {
                let metric = format!("kafka_consumergroup_lag{{{selector}}}");
                Queries::of_partitions(&metric, "sum", "consumergroup, topic", "partition")
            }
            Self::BurrowExporter => {
                let metric = format!("burrow_kafka_consumer_partition_lag{{{selector}}}");
                Queries::of_partitions(&metric, "sum", "cluster, consumer_group, topic", "partition")
            }
            Self::KafkaLagExporter if seconds => {
                let metric = format!("kafka_consumergroup_group_lag_seconds{{{selector}}}");
                Queries::of_partitions(&metric, "max", "cluster_name, group, topic", "partition")
            }
            Self::KafkaLagExporter => {
                let metric = format!("kafka_consumergroup_group_lag{{{selector}}}");
                Queries::of_partitions(&metric, "sum", "cluster_name, group, topic", "partition")
            }
            Self::Flink if seconds => {
                let metric =
                    format!("flink_taskmanager_job_task_operator_currentEmitEventTimeLag{{{selector}}}");
                let subtasks = "operator_id, subtask_index";
                let all = Queries::of_partitions(&metric, "max", "job_name, operator_name", subtasks);
                Queries {
                    value: format!("{} / 1000", all.value),
                    ..all
                }
            }
            Self::Flink => {
                let metric = format!("flink_taskmanager_job_task_operator_pendingRecords{{{selector}}}");
                let subtasks = "operator_id, subtask_index";
                Queries::of_partitions(&metric, "sum", "job_name, operator_name", subtasks)
            }
            Self::Kminion => {
                let metric = format!("kminion_kafka_consumer_group_topic_lag{{{selector}}}");
                Queries::plain(&metric, "group_id, topic_name")
            }
            Self::Msk => {
                let name = if seconds {
                    "EstimatedMaxTimeLag"
                } else {
                    "SumOffsetLag"
                };
                let metric =
                    format!("kafka_consumer_group_ConsumerLagMetrics_Value{{name=\"{name}\",{selector}}}");
                Queries::plain(&metric, "groupId, topic")
            }
            Self::Kinesis => Queries::of_streams(selector, names),
        }
    }
}

/// What a preset wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The preset.
    pub preset: Preset,
    /// One series for each thing to watch.
    pub query: String,
    /// The Unix time of the oldest sample behind them.
    pub age_query: String,
    /// How many partitions each series stands for, and how many of them have a lag.
    pub counts: Option<Counts>,
    /// The labels that belong into a series' name.
    pub labels: Vec<&'static str>,
    /// What has to be there.
    pub wanted: Vec<Wanted>,
}

/// Two queries with the labels of the value's series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// All partitions that the exporter knows.
    pub all: String,
    /// Those with a lag that is a number at or above zero.
    pub known: String,
}

/// Each of these values has to be that of a label of some series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The label.
    pub label: &'static str,
    /// Its values.
    pub values: Vec<String>,
}

impl Wanted {
    fn new(label: &'static str, values: &[String]) -> Self {
        Self {
            label,
            values: values.to_vec(),
        }
    }
}

struct Queries {
    value: String,
    age: String,
    counts: Option<Counts>,
}

impl Queries {
    fn of_partitions(metric: &str, over: &str, by: &str, partition: &str) -> Self {
        let known = format!("max by ({by}, {partition}) ({metric} >= 0)");
        Self {
            value: format!("{over} by ({by}) ({known})"),
            age: format!("min(timestamp({metric}))"),
            counts: Some(Counts {
                all: format!("count by ({by}) (max by ({by}, {partition}) ({metric}))"),
                known: format!("count by ({by}) ({known})"),
            }),
        }
    }

    fn plain(metric: &str, by: &str) -> Self {
        Self {
            value: format!("max by ({by}) ({metric})"),
            age: format!("min(timestamp({metric}))"),
            counts: None,
        }
    }

    /// Exporters of CloudWatch name their labels in two ways.
    fn of_streams(selector: &str, names: &[String]) -> Self {
        let metric = "aws_kinesis_get_records_iterator_age_milliseconds_maximum";
        let other = matcher("dimension_StreamName", names);
        let (one, two) = (format!("{metric}{{{selector}}}"), format!("{metric}{{{other}}}"));
        let renamed =
            format!("label_replace({two}, \"stream_name\", \"$1\", \"dimension_StreamName\", \"(.*)\")");
        Self {
            value: format!("max by (stream_name) ({one} or {renamed}) / 1000"),
            age: format!("min(timestamp({one}) or timestamp({two}))"),
            counts: None,
        }
    }
}

/// `label="value"`, or `label=~"a|b"` for several.
fn matcher(label: &str, values: &[String]) -> String {
    match values {
        [one] => format!("{label}={}", text(one)),
        several => {
            let each: Vec<String> = several.iter().map(|v| literal(v)).collect();
            format!("{label}=~{}", text(&each.join("|")))
        }
    }
}

/// A PromQL string.
fn text(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A regular expression that only this text fits.
fn literal(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        if "\\.+*?()|[]{}^$".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
