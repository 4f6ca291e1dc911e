use super::*;
use crate::config::{Config, SignalConfig, SourceConfig};

fn parse(lines: &str) -> Result<SignalConfig, String> {
    let text = format!(
        "[executors.here]\nkind = \"local\"\n[signals.orders]\nkind = \"prometheus\"\nurl = \"http://p:9090\"\n{lines}\n"
    );
    let config = Config::parse(&text, Path::new("/etc/backfill/config.toml")).map_err(|e| e.to_string())?;
    Ok(config.signals.into_values().next().unwrap())
}

const LEVELS: &str = "soft = 1\nhard = 2\ncritical = 3";

fn prometheus(lines: &str) -> (Unit, PrometheusConfig) {
    let signal = parse(&format!("{lines}\n{LEVELS}")).unwrap_or_else(|e| panic!("{lines}: {e}"));
    match signal.source {
        SourceConfig::Prometheus(config) => (signal.unit, config),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_query_is_enough_and_every_key_is_read() {
    let (unit, config) = prometheus("unit = \"messages\"\nquery = \" lag \"");
    let expected = PrometheusConfig::at(HttpConfig::at("http://p:9090"), "lag");
    assert_eq!((unit, config), (Unit::Messages, expected));
    let (unit, config) = prometheus(
        "unit = \"seconds\"\nquery = \"lag\"\nage_query = \"t\"\nseries = 12\ngone_after = \"1h\"",
    );
    assert_eq!(unit, Unit::Seconds);
    assert_eq!(
        (config.age_query.as_deref(), config.series, config.gone_after),
        (Some("t"), Some(12), Duration::from_secs(3_600))
    );
    assert_eq!(config.preset, None);
}

/// The queries as the table of docs/lag-sources/prometheus.md has them.
#[test]
fn presets_write_the_queries_that_the_documentation_shows() {
    let page = include_str!("../../../docs/lag-sources/prometheus.md");
    for (lines, unit, query) in [
        (
            "preset = \"kafka_exporter\"\ngroup = \"G\"",
            Unit::Messages,
            "sum by (consumergroup, topic) (max by (consumergroup, topic, partition) \
             (kafka_consumergroup_lag{consumergroup=\"G\"} >= 0))",
        ),
        (
            "preset = \"kminion\"\ngroup = \"G\"",
            Unit::Messages,
            "max by (group_id, topic_name) (kminion_kafka_consumer_group_topic_lag{group_id=\"G\"})",
        ),
        (
            "preset = \"kafka-lag-exporter\"\ngroup = \"G\"\nunit = \"messages\"",
            Unit::Messages,
            "sum by (cluster_name, group, topic) (max by (cluster_name, group, topic, partition) \
             (kafka_consumergroup_group_lag{group=\"G\"} >= 0))",
        ),
        (
            "preset = \"kafka-lag-exporter\"\ngroup = \"G\"\nunit = \"seconds\"",
            Unit::Seconds,
            "max by (cluster_name, group, topic) (max by (cluster_name, group, topic, partition) \
             (kafka_consumergroup_group_lag_seconds{group=\"G\"} >= 0))",
        ),
        (
            "preset = \"burrow-exporter\"\ngroup = \"G\"",
            Unit::Messages,
            "sum by (cluster, consumer_group, topic) (max by (cluster, consumer_group, topic, partition) \
             (burrow_kafka_consumer_partition_lag{consumer_group=\"G\"} >= 0))",
        ),
        (
            "preset = \"flink\"\njob = \"J\"\nunit = \"messages\"",
            Unit::Messages,
            "sum by (job_name, operator_name) (max by (job_name, operator_name, operator_id, subtask_index) \
             (flink_taskmanager_job_task_operator_pendingRecords{job_name=\"J\"} >= 0))",
        ),
        (
            "preset = \"flink\"\njob = \"J\"\nunit = \"seconds\"",
            Unit::Seconds,
            "max by (job_name, operator_name) (max by (job_name, operator_name, operator_id, subtask_index) \
             (flink_taskmanager_job_task_operator_currentEmitEventTimeLag{job_name=\"J\"} >= 0)) / 1000",
        ),
        (
            "preset = \"msk\"\ngroup = \"G\"\nunit = \"messages\"",
            Unit::Messages,
            "max by (groupId, topic) (kafka_consumer_group_ConsumerLagMetrics_Value{name=\"SumOffsetLag\",groupId=\"G\"})",
        ),
        (
            "preset = \"msk\"\ngroup = \"G\"\nunit = \"seconds\"",
            Unit::Seconds,
            "max by (groupId, topic) \
             (kafka_consumer_group_ConsumerLagMetrics_Value{name=\"EstimatedMaxTimeLag\",groupId=\"G\"})",
        ),
        (
            "preset = \"kinesis\"\nstream = \"S\"",
            Unit::Seconds,
            "max by (stream_name) (aws_kinesis_get_records_iterator_age_milliseconds_maximum{stream_name=\"S\"} or \
             label_replace(aws_kinesis_get_records_iterator_age_milliseconds_maximum{dimension_StreamName=\"S\"}, \
             \"stream_name\", \"$1\", \"dimension_StreamName\", \"(.*)\")) / 1000",
        ),
    ] {
        let (found, config) = prometheus(lines);
        assert_eq!((found, config.query.as_str()), (unit, query), "{lines}");
        assert!(
            page.contains(query),
            "docs/lag-sources/prometheus.md has no {query}"
        );
        let age = config.age_query.unwrap();
        assert!(age.starts_with("min(timestamp(") && age.ends_with("))"), "{age}");
    }
}

#[test]
fn partitions_are_counted_where_the_exporter_has_them() {
    let (_, config) = prometheus("preset = \"kafka_exporter\"\ngroup = \"G\"\ntopic = \"T\"");
    let counts = config.preset.unwrap().counts.unwrap();
    let selector = "kafka_consumergroup_lag{consumergroup=\"G\",topic=\"T\"}";
    let of = |what: &str| {
        format!("count by (consumergroup, topic) (max by (consumergroup, topic, partition) ({what}))")
    };
    assert_eq!(counts.all, of(selector));
    assert_eq!(counts.known, of(&format!("{selector} >= 0")));
}

#[test]
fn names_are_quoted_as_promql_and_several_as_a_regular_expression() {
    let (_, one) = prometheus("preset = \"kminion\"\ngroup = 'a\"b\\c.d'");
    assert!(one.query.contains(r#"group_id="a\"b\\c.d""#), "{}", one.query);
    let (_, two) =
        prometheus("preset = \"kminion\"\ngroup = ['a\"b\\c.d', 'x|y-z(1)']\ntopic = [\"t.1\", \"t.2\"]");
    assert!(
        two.query
            .contains(r#"{group_id=~"a\"b\\\\c\\.d|x\\|y-z\\(1\\)",topic_name=~"t\\.1|t\\.2"}"#),
        "{}",
        two.query
    );
    let wanted = two.preset.unwrap().wanted;
    assert_eq!((wanted[0].label, wanted[0].values.len()), ("group_id", 2));
    assert_eq!(
        (wanted[1].label, wanted[1].values[1].as_str()),
        ("topic_name", "t.2")
    );
}

#[test]
fn what_does_not_fit_together_is_refused_with_the_way_out() {
    for (lines, found) in [
        ("unit = \"messages\"", "query: found nothing"),
        (
            "unit = \"messages\"\nquery = \"lag\"\ngroup = \"G\"",
            "group without a preset",
        ),
        (
            "unit = \"messages\"\nquery = \"lag\"\nseries = 501",
            "from 1 to 500",
        ),
        (
            "unit = \"messages\"\nquery = \"lag\"\ngone_after = \"0s\"",
            "at least \"1s\"",
        ),
        (
            "preset = \"kafka_exporter\"\ngroup = \"G\"\nquery = \"lag\"",
            "query beside a preset",
        ),
        (
            "preset = \"kafka_exporter\"\ngroup = \"G\"\nage_query = \"lag\"",
            "age_query beside a preset",
        ),
        (
            "preset = \"kafka-exporter\"\ngroup = \"G\"\nunit = \"messages\"",
            "did you mean",
        ),
        ("preset = \"kafka_exporter\"", "orders.group: found nothing"),
        (
            "preset = \"flink\"\nunit = \"messages\"",
            "orders.job: found nothing",
        ),
        ("preset = \"kinesis\"", "orders.stream: found nothing"),
        (
            "preset = \"flink\"\njob = \"J\"\ngroup = \"G\"\nunit = \"messages\"",
            "group, which preset = \"flink\" does not know",
        ),
        (
            "preset = \"kinesis\"\nstream = \"S\"\ntopic = \"T\"",
            "topic, which preset",
        ),
        ("preset = \"kafka_exporter\"\ngroup = []", "an empty list"),
        (
            "preset = \"kafka_exporter\"\ngroup = [\"a\", \"a\"]",
            "\"a\" a second time",
        ),
        ("preset = \"kafka_exporter\"\ngroup = \"\"", "an empty text"),
        ("preset = \"kafka_exporter\"\ngroup = 7", "a whole number"),
        (
            "preset = \"kafka_exporter\"\ngroup = \"G\"\nunit = \"seconds\"",
            "another unit",
        ),
        (
            "preset = \"kinesis\"\nstream = \"S\"\nunit = \"messages\"",
            "another unit",
        ),
        (
            "preset = \"kafka-lag-exporter\"\ngroup = \"G\"",
            "orders.unit: found nothing",
        ),
        ("preset = \"msk\"\ngroup = \"G\"\nunit = \"hours\"", "\"hours\""),
    ] {
        let error = parse(&format!("{lines}\n{LEVELS}")).expect_err(lines);
        assert!(error.contains(found), "{lines}: {error}");
        assert_eq!(error.lines().count(), 1, "{lines}: {error}");
    }
}

/// Soft, hard and critical have defaults in seconds, as everywhere.
#[test]
fn a_preset_of_seconds_needs_no_levels() {
    let signal = parse("preset = \"kinesis\"\nstream = [\"a\", \"b\"]").unwrap();
    assert_eq!(
        (signal.unit, signal.soft, signal.hard),
        (Unit::Seconds, 60.0, 180.0)
    );
}

#[test]
fn what_changed_is_told_in_lines() {
    let config = |lines: &str| {
        let text = format!("[signals.s]\nkind = \"prometheus\"\nurl = \"http://p\"\n{LEVELS}\n{lines}\n");
        Config::parse(&text, Path::new("/etc/backfill/config.toml")).unwrap()
    };
    let own = config("unit = \"messages\"\nquery = \"lag\"");
    let kminion = config("preset = \"kminion\"\ngroup = \"G\"");
    assert_eq!(
        own.diff(&kminion),
        ["signals.s.preset none to kminion", "signals.s.query changed"]
    );
    let other = config("preset = \"kminion\"\ngroup = \"H\"\nseries = 3\ngone_after = \"1h\"");
    assert_eq!(
        kminion.diff(&other),
        [
            "signals.s.query changed",
            "signals.s.series none to 3",
            "signals.s.gone_after 10m to 1h"
        ]
    );
}
