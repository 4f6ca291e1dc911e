//! Queries with several series, and what a preset counts.

use super::{config, no_sample, now, source, stand_in::StandIn, value};
use backfill::{
    config::{HttpConfig, Preset, PrometheusConfig, Unit},
    signals::{LagSource, NoSample, Part, Reading, prometheus::Prometheus},
};
use rstest::rstest;
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

/// A combined answer: elements as `part labels value`, labels as `a=x,b=y` or `-`.
fn vector(elements: &[(&str, &str, &str)]) -> String {
    let at = now();
    let element = |(part, labels, value): &(&str, &str, &str)| {
        let further: String = labels
            .split(',')
            .filter_map(|l| l.split_once('='))
            .map(|(k, v)| format!(",\"{k}\":{}", serde_json::Value::from(v)))
            .collect();
        format!("{{\"metric\":{{\"backfill_q\":\"{part}\"{further}}},\"value\":[{at:.3},\"{value}\"]}}")
    };
    let mut all: Vec<String> = elements.iter().map(element).collect();
    all.push(format!(
        "{{\"metric\":{{\"backfill_q\":\"age\"}},\"value\":[{at:.3},\"{:.3}\"]}}",
        at - 1.0
    ));
    format!(
        r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#,
        all.join(",")
    )
}

fn parts(reading: Reading) -> (f64, Vec<Part>) {
    match reading {
        Reading::Value { value, parts, .. } => (value, parts),
        other => panic!("no value: {other:?}"),
    }
}

fn names(parts: &[Part]) -> Vec<(&str, f64)> {
    parts
        .iter()
        .map(|p| (p.name.as_str(), *p.value.as_ref().unwrap()))
        .collect()
}

/// A server whose answer can be changed, and a source of it.
struct Turned {
    said: Arc<Mutex<String>>,
    source: Prometheus,
    _server: StandIn,
}

impl Turned {
    fn new(change: impl FnOnce(&mut PrometheusConfig)) -> Self {
        let said = Arc::new(Mutex::new(String::new()));
        let saying = Arc::clone(&said);
        let server = StandIn::answering(move |_| {
            (
                200,
                super::stand_in::JSON.to_owned(),
                saying.lock().unwrap().clone(),
            )
        });
        let mut config = config(&server.url);
        change(&mut config);
        let source = source(&config);
        Self {
            said,
            source,
            _server: server,
        }
    }

    async fn read(&self, elements: &[(&str, &str, &str)]) -> Reading {
        *self.said.lock().unwrap() = vector(elements);
        self.source.read().await
    }
}

const BOTH: [(&str, &str, &str); 2] = [
    ("value", "g=orders,t=clicks,job=k", "3"),
    ("value", "g=orders,t=views,job=k", "8"),
];

#[tokio::test]
async fn each_series_is_a_part_and_the_worst_is_the_value() {
    let turned = Turned::new(|_| {});
    let (value, parts) = parts(turned.read(&BOTH).await);
    assert_eq!(
        (value, names(&parts)),
        (8.0, vec![("clicks", 3.0), ("views", 8.0)])
    );
    assert_eq!(Part::worst(&parts), Some(("views", 8.0)));
}

/// One of many that is no number must neither be skipped nor be taken for zero.
#[rstest]
#[case("NaN", "views: the value is NaN")]
#[case("-3", "views: the value is -3, below zero")]
#[case("+Inf", "views: the value is infinite")]
#[tokio::test]
async fn a_series_without_a_number_makes_the_reading_partial(#[case] wrong: &str, #[case] words: &str) {
    let turned = Turned::new(|_| {});
    let (health, why) = no_sample(
        turned
            .read(&[BOTH[0], ("value", "g=orders,t=views,job=k", wrong)])
            .await,
    );
    assert_eq!((health, why.as_str()), (NoSample::Partial, words));
    let all = [("value", "t=a", wrong), ("value", "t=b", wrong)];
    let (health, _) = no_sample(turned.read(&all).await);
    assert_eq!(health, NoSample::Invalid);
}

/// Case B28: without its worst series a query would look well.
#[tokio::test]
async fn a_series_that_vanishes_makes_the_reading_partial_until_it_is_back_or_given_up() {
    let turned = Turned::new(|c| c.gone_after = Duration::from_secs(2));
    parts(turned.read(&BOTH).await);
    let (health, why) = no_sample(turned.read(&BOTH[..1]).await);
    assert_eq!(health, NoSample::Partial);
    assert!(
        why.starts_with("views is gone for ") && why.contains("series = 1"),
        "{why}"
    );
    // Back: complete at once.
    let (value, _) = parts(turned.read(&BOTH).await);
    assert_eq!(value, 8.0);
    no_sample(turned.read(&BOTH[..1]).await);
    // An empty answer in between is missing, and does not hurry the other.
    assert_eq!(no_sample(turned.read(&[]).await).0, NoSample::Missing);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(value_of(&turned, &BOTH[..1]).await, 3.0);
}

async fn value_of(turned: &Turned, elements: &[(&str, &str, &str)]) -> f64 {
    value(turned.read(elements).await).0
}

#[tokio::test]
async fn with_a_number_of_series_it_does_not_matter_which_they_are() {
    let turned = Turned::new(|c| c.series = Some(2));
    let (health, why) = no_sample(turned.read(&BOTH[..1]).await);
    assert_eq!((health, why.as_str()), (NoSample::Partial, "1 of 2 series"));
    assert_eq!(value_of(&turned, &BOTH).await, 8.0);
    assert_eq!(value_of(&turned, &[BOTH[0], ("value", "t=new", "1")]).await, 3.0);
}

#[tokio::test]
async fn more_than_500_series_are_refused_with_what_to_do() {
    let turned = Turned::new(|_| {});
    let labels: Vec<String> = (0..501).map(|n| format!("pod=p{n}")).collect();
    let many: Vec<(&str, &str, &str)> = labels.iter().map(|l| ("value", l.as_str(), "1")).collect();
    let (health, why) = no_sample(turned.read(&many).await);
    assert_eq!(health, NoSample::Invalid);
    assert!(
        why.starts_with("501 series, and at most 500") && why.contains("max by"),
        "{why}"
    );
    let (_, parts) = parts(turned.read(&many[..500]).await);
    assert_eq!(parts.len(), 500);
}

#[tokio::test]
async fn names_cannot_draw_on_the_screen() {
    let turned = Turned::new(|_| {});
    let (_, parts) = parts(
        turned
            .read(&[("value", "t=\u{1b}[2J", "1"), ("value", "t=b", "2")])
            .await,
    );
    assert_eq!(names(&parts), [("^[[2J", 1.0), ("b", 2.0)]);
    let (_, why) = no_sample(turned.read(&[("value", "t=b", "2")]).await);
    assert!(why.starts_with("^[[2J is gone"), "{why}");
}

fn preset(groups: &[&str], topics: &[&str]) -> Turned {
    let texts = |t: &[&str]| t.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    let written = Preset::KafkaExporter.write(&texts(groups), &texts(topics), Unit::Messages);
    Turned::new(|c| *c = PrometheusConfig::of_preset(HttpConfig::at(c.http.url.clone()), written))
}

#[tokio::test]
async fn up_to_a_tenth_of_the_partitions_may_be_without_a_commit_and_is_told() {
    let turned = preset(&["orders"], &[]);
    let topic = "consumergroup=orders,topic=clicks";
    let with = |known| {
        [
            ("value", topic, "7"),
            ("all", topic, "20"),
            ("known", topic, known),
        ]
    };
    let (value, parts) = parts(turned.read(&with("18")).await);
    assert_eq!((value, names(&parts)), (7.0, vec![("orders/clicks", 7.0)]));
    assert_eq!(
        parts[0].note,
        "2 of 20 partitions without a commit or a valid lag"
    );
    let (health, why) = no_sample(turned.read(&with("17")).await);
    assert_eq!(health, NoSample::Partial);
    assert_eq!(
        why,
        "orders/clicks: 3 of 20 partitions without a commit or a valid lag"
    );
}

/// Case S06: however much it watches and counts, a read is one request.
#[tokio::test]
async fn a_read_is_one_request_for_one_series_as_for_hundreds() {
    let turned = preset(&["orders"], &[]);
    for (reads, topics) in [1, 100, 400].into_iter().enumerate() {
        let labels: Vec<String> = (0..topics)
            .map(|n| format!("consumergroup=orders,topic=t{n}"))
            .collect();
        let of =
            |part: &'static str, says: &'static str| labels.iter().map(move |l| (part, l.as_str(), says));
        let all: Vec<_> = of("value", "7")
            .chain(of("all", "20"))
            .chain(of("known", "20"))
            .collect();
        assert_eq!(parts(turned.read(&all).await).1.len(), topics);
        assert_eq!(turned._server.seen().len(), reads + 1, "{topics} topics");
    }
}

/// Case B28: its sum has no series, so that only the count shows it.
#[tokio::test]
async fn a_topic_without_any_commit_is_not_overlooked() {
    let turned = preset(&["orders"], &[]);
    let (clicks, views) = (
        "consumergroup=orders,topic=clicks",
        "consumergroup=orders,topic=views",
    );
    let counted = [("all", clicks, "4"), ("known", clicks, "4"), ("all", views, "4")];
    let read = turned
        .read(&[&[("value", clicks, "7")][..], &counted].concat())
        .await;
    let (health, why) = no_sample(read);
    assert_eq!(health, NoSample::Partial);
    assert_eq!(
        why,
        "orders/views: 4 of 4 partitions without a commit or a valid lag"
    );
    let (health, why) = no_sample(turned.read(&[("all", views, "4")]).await);
    assert_eq!(health, NoSample::Missing);
    assert!(why.starts_with("none of 4 partitions has a lag"), "{why}");
}

/// Also at the first read, when nothing is remembered yet.
#[tokio::test]
async fn a_group_or_topic_that_the_file_names_and_nobody_exports_makes_the_reading_partial() {
    let turned = preset(&["orders", "payments"], &["clicks"]);
    let one = "consumergroup=orders,topic=clicks";
    let counted = [("value", one, "7"), ("all", one, "4"), ("known", one, "4")];
    let (health, why) = no_sample(turned.read(&counted).await);
    assert_eq!(
        (health, why.as_str()),
        (NoSample::Partial, "no lag of consumergroup payments")
    );
}

/// Asked one after the other, all at the first one's instant.
#[tokio::test]
async fn where_the_combined_query_is_refused_partitions_are_counted_all_the_same() {
    let known = Arc::new(Mutex::new("18"));
    let answered = Arc::clone(&known);
    let at = now();
    let server = StandIn::answering(move |seen| {
        let query = seen.field("query").unwrap();
        let topic = r#""consumergroup":"orders","topic":"clicks""#;
        let (labels, value) = match query.as_str() {
            q if q.contains("label_replace") => {
                let refused = r#"{"status":"error","errorType":"bad_data","error":"unknown function"}"#;
                return (400, super::stand_in::JSON.to_owned(), refused.to_owned());
            }
            q if q.starts_with("min(") => ("", format!("{:.3}", at - 2.0)),
            q if q.starts_with("count") && q.contains(">= 0") => {
                (topic, (*answered.lock().unwrap()).to_owned())
            }
            q if q.starts_with("count") => (topic, "20".to_owned()),
            _ => (topic, "7".to_owned()),
        };
        let body = format!(
            r#"{{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{{labels}}},"value":[{at:.3},"{value}"]}}]}}}}"#
        );
        (200, super::stand_in::JSON.to_owned(), body)
    });
    let written = Preset::KafkaExporter.write(&["orders".to_owned()], &[], Unit::Messages);
    let source = source(&PrometheusConfig::of_preset(
        HttpConfig::at(server.url.clone()),
        written,
    ));
    let (value, parts) = parts(source.read().await);
    assert_eq!(
        (value, parts[0].note.as_str()),
        (7.0, "2 of 20 partitions without a commit or a valid lag")
    );
    *known.lock().unwrap() = "17";
    assert_eq!(no_sample(source.read().await).0, NoSample::Partial);
    let times: Vec<Option<String>> = server.seen().iter().skip(2).map(|s| s.field("time")).collect();
    let pinned = Some(format!("{at:.3}"));
    assert_eq!(times[..3], [pinned.clone(), pinned.clone(), pinned]);
}
