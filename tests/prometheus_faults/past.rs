//! What a server can do when it is asked for its past.

use super::{
    config, now, source,
    stand_in::{JSON, StandIn},
};
use backfill::{
    net::{AdapterError, Cause},
    signals::LagSource,
};
use rstest::rstest;
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3_600);
const STEP: Duration = Duration::from_secs(15);

/// Answers what time it is, and `range` to everything else.
fn server(range: impl Fn(f64) -> (u16, String) + Send + Sync + 'static) -> StandIn {
    StandIn::answering(move |seen| {
        let at = now();
        if seen.field("query").unwrap() == "time()" {
            let time = format!(
                r#"{{"status":"success","data":{{"resultType":"scalar","result":[{at:.3},"{at}"]}}}}"#
            );
            return (200, JSON.to_owned(), time);
        }
        let (status, body) = range(seen.field("end").unwrap().parse().unwrap());
        (status, JSON.to_owned(), body)
    })
}

async fn history(server: &StandIn) -> Result<Vec<(u64, f64)>, AdapterError> {
    let found = source(&config(&server.url)).history(HOUR, STEP).await?;
    Ok(found
        .into_iter()
        .map(|(ago, value)| (ago.as_secs(), value))
        .collect())
}

/// A matrix: for each series its part, a label and points as seconds before the end with their values; all of them
/// measured a second before.
fn matrix(end: f64, series: &[(&str, &[(f64, &str)])]) -> String {
    let mut tracks = Vec::new();
    for (topic, points) in series {
        let values: Vec<String> = points
            .iter()
            .map(|(ago, v)| format!("[{:.3},\"{v}\"]", end - ago))
            .collect();
        let ages: Vec<String> = points
            .iter()
            .map(|(ago, _)| format!("[{:.3},\"{:.3}\"]", end - ago, end - ago - 1.0))
            .collect();
        let track = |part: &str, topic: &str, points: Vec<String>| {
            format!(
                "{{\"metric\":{{\"backfill_q\":\"{part}\",\"topic\":\"{topic}\"}},\"values\":[{}]}}",
                points.join(",")
            )
        };
        tracks.push(track("value", topic, values));
        tracks.push(track("age", topic, ages));
    }
    format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{}]}}}}"#,
        tracks.join(",")
    )
}

#[tokio::test]
async fn the_worst_of_several_series_at_each_step_and_no_gap_is_filled() {
    let server = server(|end| {
        let a: &[(f64, &str)] = &[(45.0, "1"), (30.0, "2"), (15.0, "NaN"), (0.0, "4")];
        let b: &[(f64, &str)] = &[(45.0, "9"), (15.0, "3"), (0.0, "3")];
        (200, matrix(end, &[("a", a), ("b", b)]))
    });
    assert_eq!(history(&server).await.unwrap(), [(45, 9.0), (0, 4.0)]);
    let seen = server.seen();
    let range = seen.last().unwrap();
    assert!(
        range.line.starts_with("POST /api/v1/query_range"),
        "{}",
        range.line
    );
    let number = |key: &str| range.field(key).unwrap().parse::<f64>().unwrap();
    assert!((number("end") - number("start") - 3_600.0).abs() < 0.01);
    assert_eq!(number("step"), 15.0);
}

/// A Prometheus gives at most 11,000 points of a series.
#[tokio::test]
async fn a_step_that_is_too_fine_is_made_coarser() {
    let server = server(|end| (200, matrix(end, &[])));
    let long = Duration::from_secs(30 * 86_400);
    source(&config(&server.url))
        .history(long, Duration::ZERO)
        .await
        .unwrap();
    let seen = server.seen();
    let number = |key: &str| seen.last().unwrap().field(key).unwrap().parse::<f64>().unwrap();
    let points = (number("end") - number("start")) / number("step") + 1.0;
    assert!((10_000.0..=11_000.5).contains(&points), "{points}");
}

#[rstest]
#[case::beside(r#","warnings":["a store is down"]"#, "")]
#[case::inside("", r#","warnings":["a store is down"]"#)]
#[tokio::test]
async fn a_past_that_is_only_a_part_is_none(#[case] beside: &'static str, #[case] inside: &'static str) {
    let server = server(move |end| {
        let whole = matrix(end, &[("a", &[(15.0, "1")])]);
        (200, whole.replace("]}}", &format!("]{inside}}}{beside}}}")))
    });
    let error = history(&server).await.unwrap_err();
    assert!(
        error.detail.contains("a partial answer: a store is down"),
        "{error}"
    );
}

/// What Prometheus 3 only remarks is no warning.
#[tokio::test]
async fn infos_are_no_warnings() {
    let with = |body: String| {
        body.replace(
            "]}}",
            r#"],"infos":["not a counter"]},"infos":["not a counter"]}"#,
        )
    };
    let server = server(move |end| (200, with(matrix(end, &[("a", &[(15.0, "1")])]))));
    assert_eq!(history(&server).await.unwrap(), [(15, 1.0)]);
    let good = with(super::good());
    assert_eq!(
        super::value(super::read(&config(&StandIn::saying(&good).url)).await).0,
        42.0
    );
}

#[rstest]
#[case::vector(
    200,
    r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#,
    Cause::NotUnderstood
)]
#[case::histograms(
    200,
    r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"histograms":[]}]}}"#,
    Cause::NotUnderstood
)]
#[case::no_number(
    200,
    r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"many"]]}]}}"#,
    Cause::NotUnderstood
)]
#[case::login_page(200, "<html><title>Sign in</title></html>", Cause::NotUnderstood)]
#[case::overloaded(503, "{}", Cause::Server)]
#[case::refused_in_both_forms(
    400,
    r#"{"status":"error","errorType":"bad_data","error":"no"}"#,
    Cause::BadRequest
)]
#[tokio::test]
async fn an_answer_that_is_no_past_is_an_error(
    #[case] status: u16,
    #[case] body: &'static str,
    #[case] cause: Cause,
) {
    let server = server(move |_| (status, body.to_owned()));
    assert_eq!(history(&server).await.unwrap_err().cause, cause);
}

#[tokio::test]
async fn times_of_no_meaning_are_left_out() {
    let server = server(|end| {
        let wild: &[(f64, &str)] = &[
            (1e300, "1"),
            (-1e300, "1"),
            (end, "1"),
            (-600.0, "1"),
            (3_700.0, "1"),
            (30.0, "2"),
        ];
        (200, matrix(end, &[("a", wild)]))
    });
    assert_eq!(history(&server).await.unwrap(), [(30, 2.0)]);
}

#[tokio::test]
async fn a_flood_is_refused_after_the_cap_and_a_silence_at_the_deadline() {
    let flood = server(|end| {
        (
            200,
            matrix(end, &[(&"x".repeat(9 * 1024 * 1024), &[(15.0, "1")])]),
        )
    });
    let error = history(&flood).await.unwrap_err();
    assert!(error.to_string().contains("MiB"), "{error}");
    let silent = server(|_| {
        std::thread::sleep(Duration::from_secs(10));
        (200, String::new())
    });
    let mut config = config(&silent.url);
    config.http.deadline = Duration::from_millis(500);
    let begun = Instant::now();
    let error = source(&config).history(HOUR, STEP).await.unwrap_err();
    assert_eq!(error.cause, Cause::Timeout);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// A number whose age cannot be known is none, in the past as now.
#[tokio::test]
async fn a_query_without_series_has_no_past() {
    let server = server(|end| (200, matrix(end, &[("a", &[(15.0, "1")])])));
    let mut config = config(&server.url);
    config.query = "vector(5)".to_owned();
    assert_eq!(source(&config).history(HOUR, STEP).await.unwrap(), []);
    assert!(server.seen().is_empty());
}
