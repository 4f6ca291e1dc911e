//! Answers that are no sample, and how the age is found.

use super::{
    combined, config, failed, good, no_sample, now, read, source,
    stand_in::{JSON, Seen, StandIn},
    value,
};
use backfill::{
    net::Cause,
    signals::{LagSource, NoSample, Reading},
};
use rstest::rstest;
use std::time::Duration;

fn vector(elements: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{elements}]}}}}"#)
}

/// A server that takes no combined query: plain queries get `value`, those with `time` get `age`.
fn plain(value: &str, age: &str) -> StandIn {
    let (value, age) = (value.to_owned(), age.to_owned());
    StandIn::answering(move |seen| {
        let query = seen.field("query").unwrap();
        if query.contains("label_replace") {
            let refused =
                r#"{"status":"error","errorType":"bad_data","error":"expected type instant vector"}"#;
            (400, JSON.to_owned(), refused.to_owned())
        } else if seen.field("time").is_some() {
            (200, JSON.to_owned(), age.clone())
        } else {
            (200, JSON.to_owned(), value.clone())
        }
    })
}

/// Case B28.
#[rstest]
#[case::empty("", NoSample::Missing, "empty result")]
#[case::nan(
    r#"{"metric":{"backfill_q":"value"},"value":[AT,"NaN"]}"#,
    NoSample::Invalid,
    "NaN"
)]
#[case::infinite(
    r#"{"metric":{"backfill_q":"value"},"value":[AT,"+Inf"]}"#,
    NoSample::Invalid,
    "infinite"
)]
#[case::minus_infinite(
    r#"{"metric":{"backfill_q":"value"},"value":[AT,"-Inf"]}"#,
    NoSample::Invalid,
    "infinite"
)]
#[case::negative(
    r#"{"metric":{"backfill_q":"value"},"value":[AT,"-1"]}"#,
    NoSample::Invalid,
    "below zero"
)]
#[case::filtered(
    r#"{"metric":{"backfill_q":"age"},"value":[AT,"AT"]}"#,
    NoSample::Missing,
    "leaves nothing"
)]
#[case::no_sample_behind(
    r#"{"metric":{"backfill_q":"value"},"value":[AT,"0"]}"#,
    NoSample::Missing,
    "vector(0)"
)]
#[tokio::test]
async fn a_vector_that_is_not_one_good_number_is_no_sample(
    #[case] elements: &str,
    #[case] health: NoSample,
    #[case] word: &str,
) {
    let server = StandIn::saying(&vector(&elements.replace("AT", &format!("{:.3}", now()))));
    let (found, why) = no_sample(read(&config(&server.url)).await);
    assert_eq!(found, health);
    assert!(why.contains(word), "{why}");
}

/// Case B28. The words of the samples are those of Prometheus.
#[rstest]
#[case::beside(r#","warnings":["remote_read: connection refused"]"#, "")]
#[case::inside("", r#","warnings":["remote_read: connection refused"]"#)]
#[tokio::test]
async fn a_partial_answer_is_no_sample_wherever_the_warning_is(#[case] beside: &str, #[case] inside: &str) {
    let body = good().replace("]}}", &format!("]{inside}}}{beside}}}"));
    // With and without a number in it.
    let empty =
        format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[]{inside}}}{beside}}}"#);
    for body in [body, empty] {
        let (health, why) = no_sample(read(&config(&StandIn::saying(&body).url)).await);
        assert_eq!(
            (health, why.as_str()),
            (
                NoSample::Partial,
                "a partial answer: remote_read: connection refused"
            )
        );
    }
}

/// Case B28.
#[rstest]
#[case::string(
    r#"{"status":"success","data":{"resultType":"string","result":[1795970098.02,"x"]}}"#,
    "a string"
)]
#[case::range(
    r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1795970094.2,"0"]]}]}}"#,
    "take the [..] from the query"
)]
#[case::histogram(
    r#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{},"histogram":[1795970094.2,{"count":"3","sum":"5"}]}]}}"#,
    "a histogram"
)]
#[tokio::test]
async fn what_is_no_number_at_all_is_no_sample(#[case] answer: &str, #[case] word: &str) {
    let server = plain(answer, answer);
    let (health, why) = no_sample(read(&config(&server.url)).await);
    assert_eq!(health, NoSample::Invalid);
    assert!(why.contains(word), "{why}");
}

/// Case B28.
#[rstest]
#[case::error_in_200(
    r#"{"status":"error","errorType":"execution","error":"too many samples"}"#,
    Cause::BadRequest,
    "too many samples"
)]
#[case::timeout_in_200(
    r#"{"status":"error","errorType":"timeout","error":"query timed out"}"#,
    Cause::Timeout,
    "query timed out"
)]
#[case::login_page(
    "<html><head><title>Sign in</title></head></html>",
    Cause::NotUnderstood,
    "Sign in"
)]
#[case::nothing("", Cause::NotUnderstood, "empty body")]
#[case::half(r#"{"status":"success","data":{"resul"#, Cause::NotUnderstood, "no JSON")]
#[case::other_json(r#"[1,2,3]"#, Cause::NotUnderstood, "another shape")]
#[case::without_data(r#"{"status":"success"}"#, Cause::NotUnderstood, "without data")]
#[case::no_number(
    r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"many"]}]}}"#,
    Cause::NotUnderstood,
    "many"
)]
#[case::unknown_type(
    r#"{"status":"success","data":{"resultType":"tensor","result":[]}}"#,
    Cause::NotUnderstood,
    "tensor"
)]
#[tokio::test]
async fn a_200_that_is_no_answer_is_a_failure(#[case] body: &str, #[case] cause: Cause, #[case] word: &str) {
    let error = failed(read(&config(&StandIn::saying(body).url)).await);
    assert_eq!(error.cause, cause, "{error}");
    assert!(error.detail.contains(word), "{error}");
}

#[tokio::test]
async fn the_age_is_the_difference_of_two_times_of_the_server() {
    let at = now();
    let server = StandIn::saying(&combined("1.5e+05", at, at - 12.25));
    let (number, age) = value(read(&config(&server.url)).await);
    assert_eq!(number, 150_000.0);
    assert!((age.as_secs_f64() - 12.25).abs() < 0.01, "{age:?}");
    let asked = server.seen()[0].field("query").unwrap();
    assert!(asked.contains("min(timestamp(lag{group=\"orders\"}))"), "{asked}");
    assert_eq!(server.seen().len(), 1);
}

/// Our clock takes no part in the age, and its distance is told.
#[rstest]
#[case(3_600.0)]
#[case(-1_800.0)]
#[tokio::test]
async fn a_server_with_another_clock_has_the_same_ages_and_a_skew(#[case] ahead: f64) {
    let server = StandIn::answering(move |_| {
        let at = now() + ahead;
        let date = chrono::DateTime::from_timestamp(at as i64, 0)
            .unwrap()
            .to_rfc2822();
        (
            200,
            format!("{JSON}Date: {}\r\n", date.replace("+0000", "GMT")),
            combined("7", at, at - 3.0),
        )
    });
    let reading = read(&config(&server.url)).await;
    let Reading::Value {
        age,
        skew_ms: Some(skew),
        ..
    } = reading
    else {
        panic!("{reading:?}");
    };
    assert!((age.as_secs_f64() - 3.0).abs() < 0.01, "{age:?}");
    assert!((skew as f64 / 1000.0 - ahead).abs() < 5.0, "{skew}");
}

/// A cache that repeats an old answer says so by its `Date`.
#[tokio::test]
async fn an_old_evaluation_is_as_old_as_the_date_header_says() {
    let at = now() - 600.0;
    let body = combined("7", at, at - 3.0);
    let server = StandIn::answering(move |_| {
        let date = chrono::Utc::now().to_rfc2822().replace("+0000", "GMT");
        (200, format!("{JSON}Date: {date}\r\n"), body.clone())
    });
    let (_, age) = value(read(&config(&server.url)).await);
    assert!((600.0..610.0).contains(&age.as_secs_f64()), "{age:?}");
}

#[tokio::test]
async fn where_the_combined_query_is_refused_two_queries_share_one_instant() {
    let at = now();
    let server = plain(
        &format!(r#"{{"status":"success","data":{{"resultType":"scalar","result":[{at:.3},"19"]}}}}"#),
        &vector(&format!(
            r#"{{"metric":{{}},"value":[{at:.3},"{:.3}"]}}"#,
            at - 4.0
        )),
    );
    let source = source(&config(&server.url));
    for _ in 0..2 {
        let (number, age) = value(source.read().await);
        assert_eq!(number, 19.0);
        assert!((age.as_secs_f64() - 4.0).abs() < 0.01, "{age:?}");
    }
    // Refused once, then remembered: 3 requests and 2.
    let seen = server.seen();
    assert_eq!(seen.len(), 5);
    let times: Vec<Option<String>> = seen.iter().map(|s| s.field("time")).collect();
    let pinned = Some(format!("{at:.3}"));
    assert_eq!(times, [None, None, pinned.clone(), None, pinned]);
}

#[tokio::test]
async fn a_query_without_series_has_no_age_and_is_no_sample() {
    let at = now();
    let one = vector(&format!(r#"{{"metric":{{}},"value":[{at:.3},"5"]}}"#));
    let server = plain(&one, &one);
    let mut config = config(&server.url);
    config.query = "vector(5)".to_owned();
    let (health, why) = no_sample(read(&config).await);
    assert_eq!(health, NoSample::Invalid);
    assert!(why.contains("age_query"), "{why}");
}

/// An age instead of a time, milliseconds instead of seconds, a time far in the future.
#[rstest]
#[case("0.25")]
#[case("1795970097000")]
#[case("NaN")]
#[tokio::test]
async fn an_age_query_of_another_meaning_is_no_sample(#[case] given: &str) {
    let at = now();
    let element =
        |part: &str, v: &str| format!(r#"{{"metric":{{"backfill_q":"{part}"}},"value":[{at:.3},"{v}"]}}"#);
    let server = StandIn::saying(&vector(&format!(
        "{},{}",
        element("value", "5"),
        element("age", given)
    )));
    let mut config = config(&server.url);
    config.age_query = Some("max(lag_measured)".to_owned());
    let (health, why) = no_sample(read(&config).await);
    assert_eq!(health, NoSample::Invalid);
    assert!(why.contains("Unix time"), "{why}");
    assert!(
        server.seen()[0]
            .field("query")
            .unwrap()
            .contains("max(lag_measured)")
    );
}

#[tokio::test]
async fn a_derived_age_query_that_the_server_refuses_asks_for_a_given_one() {
    let at = now();
    let ok = vector(&format!(r#"{{"metric":{{}},"value":[{at:.3},"5"]}}"#));
    let server = StandIn::answering(move |seen: &Seen| {
        if seen.field("query").unwrap().contains("timestamp(") {
            (
                400,
                JSON.to_owned(),
                r#"{"status":"error","errorType":"bad_data","error":"odd"}"#.to_owned(),
            )
        } else {
            (200, JSON.to_owned(), ok.clone())
        }
    });
    let (health, why) = no_sample(read(&config(&server.url)).await);
    assert_eq!(health, NoSample::Invalid);
    assert!(why.contains("odd") && why.contains("set age_query"), "{why}");
}

#[tokio::test]
async fn of_several_ages_the_oldest_counts_and_an_unknown_one_spoils_them() {
    let at = now();
    let age = |topic: &str, t: f64| {
        format!(r#"{{"metric":{{"backfill_q":"age","topic":"{topic}"}},"value":[{at:.3},"{t:.3}"]}}"#)
    };
    let number = format!(r#"{{"metric":{{"backfill_q":"value"}},"value":[{at:.3},"5"]}}"#);
    let body = vector(&format!(
        "{},{number},{}",
        age("a", at - 1.0),
        age("b", at - 250.0)
    ));
    let (_, old) = value(read(&config(&StandIn::saying(&body).url)).await);
    assert!(old > Duration::from_secs(249), "{old:?}");
    for unknown in [
        format!("{number},{},{}", age("a", f64::NAN), age("b", at)),
        format!("{number},{},{}", age("a", at), age("b", f64::NAN)),
    ] {
        let (health, _) = no_sample(read(&config(&StandIn::saying(&vector(&unknown)).url)).await);
        assert_eq!(health, NoSample::Invalid);
    }
}

/// Hostile words are shown as text.
#[tokio::test]
async fn a_warning_cannot_draw_on_the_screen() {
    let body = good().replace("]}}", "]},\"warnings\":[\"\\u001b[2Jboom\"]}");
    let (_, why) = no_sample(read(&config(&StandIn::saying(&body).url)).await);
    assert_eq!(why, "a partial answer: ^[[2Jboom");
}
