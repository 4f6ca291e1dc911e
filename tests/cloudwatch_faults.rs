//! What an emulator of CloudWatch does not do: refuse, throttle, page, hang, talk nonsense; and how a request looks that
//! is sent.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code)] // shared with others, who need more of it
#[path = "prometheus_faults/stand_in.rs"]
mod stand_in;

use backfill::{
    config::{AwsKeys, CloudWatchConfig, secret::SecretSource},
    net::{AdapterError, Cause, Surroundings},
    signals::{LagSource, NoSample, Reading, cloudwatch::CloudWatch},
};
use rstest::rstest;
use serde_json::{Value, json};
use stand_in::{JSON, Seen, StandIn};
use std::{
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

const TOKEN: &str = "a-session-token+that/is=long";

/// Streams behind this server, with a temporary key out of files in `dir`.
fn config(dir: &Path, url: &str, streams: &[&str]) -> CloudWatchConfig {
    let file = |name: &str, value: &str| {
        let path = dir.join(name);
        std::fs::write(&path, format!("{value}\n")).unwrap();
        SecretSource::File(path)
    };
    CloudWatchConfig {
        endpoint: Some(url.to_owned()),
        keys: Some(AwsKeys {
            access_key: file("access", "AKIDEXAMPLE"),
            secret_key: file("secret", "never-sent-s3cret"),
            session_token: Some(file("token", TOKEN)),
        }),
        deadline: Duration::from_secs(20),
        ..CloudWatchConfig::of("eu-central-1", streams.iter().map(|s| (*s).to_owned()).collect())
    }
}

async fn read_with(change: impl FnOnce(&mut CloudWatchConfig), url: &str, streams: &[&str]) -> Reading {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path(), url, streams);
    change(&mut config);
    CloudWatch::within("clicks", &config, Surroundings::default())
        .unwrap()
        .read()
        .await
}

async fn read(url: &str, streams: &[&str]) -> Reading {
    read_with(|_| {}, url, streams).await
}

fn failed(reading: Reading) -> AdapterError {
    match reading {
        Reading::Failed(error) => error,
        other => panic!("not failed: {other:?}"),
    }
}

fn no_sample(reading: Reading) -> (NoSample, String) {
    match reading {
        Reading::NoSample { health, why } => (health, why),
        other => panic!("no *no sample*: {other:?}"),
    }
}

fn value(reading: Reading) -> f64 {
    match reading {
        Reading::Value { value, .. } => value,
        other => panic!("no value: {other:?}"),
    }
}

/// The result of one stream: datapoints, each so many seconds ago.
fn result(id: &str, status: &str, points: &[(i64, f64)]) -> Value {
    let now = chrono::Utc::now().timestamp();
    let times: Vec<i64> = points.iter().map(|(ago, _)| now - ago).collect();
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    json!({"Id": id, "Label": id, "Timestamps": times, "Values": values, "StatusCode": status})
}

fn answer(results: &[Value]) -> String {
    json!({"MetricDataResults": results}).to_string()
}

fn question(seen: &Seen) -> Value {
    serde_json::from_str(&seen.body).unwrap()
}

#[tokio::test]
async fn one_signed_call_asks_for_all_streams() {
    let server = StandIn::answering(|_| {
        let results = [
            result("s0", "Complete", &[(70, 5_000.0), (130, 9_000.0)]),
            result("s1", "Complete", &[(80, 93_000.0)]),
        ];
        (200, JSON.to_owned(), answer(&results))
    });
    let reading = read(&server.url, &["orders", "clicks"]).await;
    let Reading::Value {
        value, age, parts, ..
    } = reading
    else {
        panic!("{reading:?}");
    };
    assert_eq!(value, 93.0);
    assert!(
        (Duration::from_secs(18)..Duration::from_secs(40)).contains(&age),
        "{age:?}"
    );
    let named: Vec<(&str, f64)> = parts
        .iter()
        .map(|p| (p.name.as_str(), *p.value.as_ref().unwrap()))
        .collect();
    assert_eq!(named, [("clicks", 93.0), ("orders", 5.0)]);
    let seen = server.seen();
    assert_eq!(seen.len(), 1);
    let seen = &seen[0];
    assert!(seen.line.starts_with("POST / HTTP"), "{}", seen.line);
    assert_eq!(seen.header("content-type"), Some("application/x-amz-json-1.0"));
    assert_eq!(
        seen.header("x-amz-target"),
        Some("GraniteServiceVersion20100801.GetMetricData")
    );
    assert_eq!(seen.header("x-amz-security-token"), Some(TOKEN));
    // The very host that went into the signature.
    assert_eq!(seen.header("host"), server.url.strip_prefix("http://"));
    let date = seen.header("x-amz-date").unwrap();
    let authorization = seen.header("authorization").unwrap();
    let expected = format!(
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/{}/eu-central-1/monitoring/aws4_request, \
         SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target, Signature=",
        &date[..8]
    );
    assert!(authorization.starts_with(&expected), "{authorization}");
    let whole: String = seen.headers.iter().map(|(k, v)| format!("{k}: {v}\n")).collect();
    assert!(!whole.contains("never-sent-s3cret") && !seen.body.contains("never-sent-s3cret"));
    assert_eq!(question(seen)["MetricDataQueries"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_key_that_lasts_has_no_token() {
    let server = StandIn::saying(&answer(&[result("s0", "Complete", &[(70, 1_000.0)])]));
    let lasting = |config: &mut CloudWatchConfig| config.keys.as_mut().unwrap().session_token = None;
    assert_eq!(value(read_with(lasting, &server.url, &["orders"]).await), 1.0);
    let seen = &server.seen()[0];
    assert_eq!(seen.header("x-amz-security-token"), None);
    assert!(!seen.header("authorization").unwrap().contains("security-token"));
}

#[tokio::test]
async fn what_an_emulator_was_recorded_to_say_is_read() {
    let empty = include_str!("cloudwatch_samples/getmetricdata-empty.json").replace("\"age\"", "\"s0\"");
    let (health, why) = no_sample(read(&StandIn::saying(&empty).url, &["orders"]).await);
    assert_eq!(health, NoSample::Missing);
    assert!(why.starts_with("orders: no datapoint"), "{why}");
    // Two minutes after its newest datapoint, on the clock of the server.
    let some = include_str!("cloudwatch_samples/getmetricdata.json").replace("\"age\"", "\"s0\"");
    let date = chrono::DateTime::from_timestamp(1_795_972_305, 0).unwrap();
    let date = date.format("%a, %d %b %Y %H:%M:%S GMT");
    let server = StandIn::answering(move |_| (200, format!("{JSON}Date: {date}\r\n"), some.clone()));
    let Reading::Value {
        value, age, skew_ms, ..
    } = read(&server.url, &["orders"]).await
    else {
        panic!("no value");
    };
    assert_eq!(value, 93.0);
    // `Date` has whole seconds, and the answer takes its time.
    let between = Duration::from_secs(60)..Duration::from_secs(75);
    assert!(between.contains(&age), "{age:?}");
    assert!(skew_ms.unwrap() < -3_600_000, "{skew_ms:?}");
}

/// Case S04.
#[rstest]
#[case::expired(
    "ExpiredTokenException",
    "The security token included in the request is expired",
    Cause::Unauthorized,
    "the session token has expired"
)]
#[case::unknown_key(
    "UnrecognizedClientException",
    "The security token is invalid",
    Cause::Unauthorized,
    "look at access_key"
)]
#[case::wrong_key(
    "com.amazon.coral.service#InvalidSignatureException",
    "The request signature we calculated does not match",
    Cause::Unauthorized,
    "look at access_key"
)]
#[case::clock(
    "InvalidSignatureException",
    "Signature expired: 20261130T030000Z is now earlier than 20261130T031500Z",
    Cause::Local,
    "look at this host's clock"
)]
#[case::old_name(
    "SignatureDoesNotMatch:http://internal.amazon.com/",
    "x",
    Cause::Unauthorized,
    "look at access_key"
)]
#[case::forbidden(
    "AccessDeniedException",
    "User: arn:aws:iam::1:user/etl is not authorized",
    Cause::Forbidden,
    "cloudwatch:GetMetricData"
)]
#[case::throttled("Throttling", "Rate exceeded", Cause::TooMany, "a longer interval")]
#[case::throttled_too("ThrottlingException", "Rate exceeded", Cause::TooMany, "a longer interval")]
#[case::another(
    "GraniteServiceVersion20100801#InvalidParameterCombinationException",
    "no",
    Cause::BadRequest,
    "400 InvalidParameterCombinationException: no"
)]
#[tokio::test]
async fn a_refusal_with_status_400_has_the_cause_that_aws_names_and_its_words(
    #[case] kind: &str,
    #[case] message: &str,
    #[case] cause: Cause,
    #[case] words: &str,
) {
    let body = json!({"__type": kind, "message": message}).to_string();
    let server = StandIn::answering(move |_| (400, JSON.to_owned(), body.clone()));
    let error = failed(read(&server.url, &["orders"]).await);
    assert_eq!(error.cause, cause, "{error}");
    assert!(
        error.detail.contains(words) && error.detail.contains(message),
        "{error}"
    );
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_refusal_may_be_named_in_a_header_or_not_at_all() {
    let server = StandIn::answering(|_| {
        let headers = "x-amzn-errortype: ThrottlingException:http://x/\r\n".to_owned();
        (400, headers, "{\"Message\": \"Rate exceeded\"}".to_owned())
    });
    let error = failed(read(&server.url, &["orders"]).await);
    assert_eq!(error.cause, Cause::TooMany);
    assert!(error.detail.contains("Rate exceeded"), "{error}");
    let recorded = include_str!("cloudwatch_samples/error-400.json");
    let server = StandIn::answering(|_| (400, JSON.to_owned(), recorded.to_owned()));
    let error = failed(read(&server.url, &["orders"]).await);
    assert_eq!(error.cause, Cause::BadRequest);
    assert!(
        error.detail.contains("EndTime must be greater than StartTime"),
        "{error}"
    );
    let page = StandIn::answering(|_| {
        (
            503,
            "Content-Type: text/html\r\n".to_owned(),
            "<title>Busy</title>".to_owned(),
        )
    });
    let error = failed(read(&page.url, &["orders"]).await);
    assert_eq!(error.cause, Cause::Server);
    assert!(error.detail.contains("Busy"), "{error}");
}

#[tokio::test]
async fn a_wrong_clock_of_ours_is_told_with_its_size() {
    let date = (chrono::Utc::now() + chrono::TimeDelta::minutes(20)).format("%a, %d %b %Y %H:%M:%S GMT");
    let headers = format!("{JSON}Date: {date}\r\n");
    let body = "{\"__type\": \"RequestExpired\", \"message\": \"Request has expired\"}";
    let server = StandIn::answering(move |_| (400, headers.clone(), body.to_owned()));
    let error = failed(read(&server.url, &["orders"]).await);
    assert!(
        error
            .detail
            .contains("behind AWS; signatures count for 5 minutes"),
        "{error}"
    );
}

#[tokio::test]
async fn what_was_sent_in_secret_is_not_shown_when_it_is_repeated() {
    let server = StandIn::answering(|seen| {
        let said = format!(
            "canonical: x-amz-security-token:{} {}",
            seen.header("x-amz-security-token").unwrap(),
            seen.header("authorization").unwrap()
        );
        let body = json!({"__type": "InvalidSignatureException", "message": said}).to_string();
        (403, JSON.to_owned(), body)
    });
    let error = failed(read(&server.url, &["orders"]).await);
    assert!(error.detail.contains("x-amz-security-token:*** "), "{error}");
    assert!(
        !error.detail.contains(TOKEN) && !error.detail.contains("Signature="),
        "{error}"
    );
}

#[rstest]
#[case::forbidden(
    "Forbidden",
    Cause::Forbidden,
    "Forbidden for clicks: AccessDenied: not yours"
)]
#[case::broken(
    "InternalError",
    Cause::Server,
    "InternalError for clicks: AccessDenied: not yours"
)]
#[tokio::test]
async fn a_stream_that_is_refused_fails_the_read_though_the_call_went_well(
    #[case] status: &str,
    #[case] cause: Cause,
    #[case] words: &str,
) {
    let mut refused = result("s1", status, &[]);
    refused["Messages"] = json!([{"Code": "AccessDenied", "Value": "not yours"}]);
    let server = StandIn::saying(&answer(&[result("s0", "Complete", &[(70, 1.0)]), refused]));
    let error = failed(read(&server.url, &["orders", "clicks"]).await);
    assert_eq!((error.cause, error.detail.as_str()), (cause, words));
}

#[tokio::test]
async fn pages_are_put_together_and_only_the_last_ones_word_on_completeness_counts() {
    let server = StandIn::answering(|seen| {
        let body = match question(seen)["NextToken"].as_str() {
            None => json!({
                "MetricDataResults": [
                    result("s0", "PartialData", &[(70, 8_000.0)]),
                    result("s1", "Complete", &[(70, 3_000.0)]),
                ],
                "NextToken": "more",
            }),
            Some("more") => json!({"MetricDataResults": [result("s0", "Complete", &[(130, 99_000.0)])]}),
            other => panic!("{other:?}"),
        };
        (200, JSON.to_owned(), body.to_string())
    });
    // The newer datapoint was on the first page.
    assert_eq!(value(read(&server.url, &["orders", "clicks"]).await), 8.0);
    let seen = server.seen();
    let asked: Vec<Value> = seen.iter().map(question).collect();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0]["StartTime"], asked[1]["StartTime"]);
    assert_eq!(asked[0]["MetricDataQueries"], asked[1]["MetricDataQueries"]);
}

#[tokio::test]
async fn pages_without_an_end_and_data_that_stays_partial_are_partial() {
    let endless =
        json!({"MetricDataResults": [result("s0", "PartialData", &[(70, 1.0)])], "NextToken": "more"});
    let server = StandIn::saying(&endless.to_string());
    assert_eq!(
        no_sample(read(&server.url, &["orders"]).await).0,
        NoSample::Partial
    );
    assert_eq!(server.seen().len(), 5);
    let server = StandIn::saying(&answer(&[result("s0", "PartialData", &[(70, 1.0)])]));
    assert_eq!(
        no_sample(read(&server.url, &["orders"]).await).0,
        NoSample::Partial
    );
    let mut warned = json!({"MetricDataResults": [result("s0", "Complete", &[(70, 1.0)])]});
    warned["Messages"] = json!([{"Code": "MaxMetricsExceeded", "Value": "too many"}]);
    let server = StandIn::saying(&warned.to_string());
    let expected = "CloudWatch says: MaxMetricsExceeded: too many".to_owned();
    assert_eq!(
        no_sample(read(&server.url, &["orders"]).await),
        (NoSample::Partial, expected)
    );
    let server = StandIn::saying(&answer(&[]));
    assert_eq!(
        no_sample(read(&server.url, &["orders"]).await).0,
        NoSample::Partial
    );
}

#[rstest]
#[case::another_stream(answer(&[result("s7", "Complete", &[])]), "not asked for")]
#[case::half(json!({"MetricDataResults": [{"Id": "s0", "Timestamps": [1], "Values": [], "StatusCode": "Complete"}]}).to_string(), "1 timestamps with 0 values")]
#[case::a_status_that_is_none(answer(&[result("s0", "Fine", &[])]), "Fine")]
#[case::no_results("{}".to_owned(), "MetricDataResults")]
#[case::a_text_for_a_number(json!({"MetricDataResults": [{"Id": "s0", "Timestamps": [1], "Values": ["1"], "StatusCode": "Complete"}]}).to_string(), "string")]
#[case::a_page("<html><title>Sign in</title></html>".to_owned(), "no JSON")]
#[case::nothing(String::new(), "empty body")]
#[tokio::test]
async fn an_answer_of_another_shape_is_not_understood(#[case] body: String, #[case] words: &str) {
    let error = failed(read(&StandIn::saying(&body).url, &["orders"]).await);
    assert_eq!(error.cause, Cause::NotUnderstood);
    assert!(error.detail.contains(words), "{error}");
}

#[tokio::test]
async fn a_flood_is_cut_and_a_server_that_hangs_is_left_at_the_deadline() {
    let flood = StandIn::acting(|_, stream| {
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n");
        let block = vec![b' '; 1 << 20];
        while stream.write_all(&block).is_ok() {}
    });
    let error = failed(read(&flood.url, &["orders"]).await);
    assert!(error.detail.contains("more than 4.0 MiB"), "{error}");
    let silent = StandIn::acting(|_, _| std::thread::sleep(Duration::from_secs(15)));
    let begun = Instant::now();
    let short = |config: &mut CloudWatchConfig| config.deadline = Duration::from_millis(300);
    let error = failed(read_with(short, &silent.url, &["orders"]).await);
    assert_eq!(error.cause, Cause::Timeout);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn without_a_key_nothing_is_sent() {
    let server = StandIn::saying(&answer(&[]));
    let missing = |config: &mut CloudWatchConfig| {
        config.keys.as_mut().unwrap().secret_key = SecretSource::File("/nosuch/key".into());
    };
    let error = failed(read_with(missing, &server.url, &["orders"]).await);
    assert_eq!(
        (error.cause, error.tried.as_str()),
        (Cause::Local, "fetching the access key")
    );
    assert!(
        error.detail.starts_with("secret_key: cannot read /nosuch/key"),
        "{error}"
    );
    let slow = |config: &mut CloudWatchConfig| {
        config.deadline = Duration::from_millis(300);
        let sleep = ["sleep", "3"].map(str::to_owned).into();
        config.keys.as_mut().unwrap().session_token = Some(SecretSource::Command(sleep));
    };
    let begun = Instant::now();
    let error = failed(read_with(slow, &server.url, &["orders"]).await);
    assert_eq!(
        (error.cause, error.detail.as_str()),
        (Cause::Local, "no answer in time")
    );
    assert!(
        begun.elapsed() < Duration::from_millis(2500),
        "{:?}",
        begun.elapsed()
    );
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn a_key_that_no_header_can_carry_is_refused_without_being_shown() {
    let server = StandIn::saying(&answer(&[]));
    let odd = |config: &mut CloudWatchConfig| {
        let SecretSource::File(path) = config.keys.as_ref().unwrap().session_token.as_ref().unwrap() else {
            panic!("no file");
        };
        std::fs::write(path, "bell\u{7}bell").unwrap();
    };
    let error = failed(read_with(odd, &server.url, &["orders"]).await);
    assert_eq!(error.cause, Cause::Local);
    assert!(
        error.detail.contains("header x-amz-security-token") && !error.detail.contains("bell"),
        "{error}"
    );
    assert!(server.seen().is_empty());
}

/// Case S03.
#[tokio::test]
async fn a_refused_key_is_not_sent_again_and_another_one_is_at_once() {
    let server = StandIn::answering(|seen| {
        if seen.header("x-amz-security-token") == Some("a-newer-token") {
            (
                200,
                JSON.to_owned(),
                answer(&[result("s0", "Complete", &[(70, 4_000.0)])]),
            )
        } else {
            let body = json!({"__type": "ExpiredTokenException", "message": "expired"});
            (400, JSON.to_owned(), body.to_string())
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), &server.url, &["orders"]);
    let source = CloudWatch::within("clicks", &config, Surroundings::default()).unwrap();
    assert_eq!(failed(source.read().await).cause, Cause::Unauthorized);
    for _ in 0..3 {
        let error = failed(source.read().await);
        assert_eq!(error.cause, Cause::Unauthorized);
        assert_eq!(error.tried, "nothing sent, the key is still the refused one");
        assert!(error.detail.starts_with("refused since 20"), "{error}");
        assert!(error.detail.contains("the session token has expired"), "{error}");
    }
    assert_eq!(server.seen().len(), 1);
    std::fs::write(dir.path().join("token"), "a-newer-token\n").unwrap();
    assert_eq!(value(source.read().await), 4.0);
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_wrong_clock_is_not_held_against_the_key() {
    let server = StandIn::answering(|_| {
        let body = json!({"__type": "RequestExpired", "message": "Request has expired"});
        (400, JSON.to_owned(), body.to_string())
    });
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), &server.url, &["orders"]);
    let source = CloudWatch::within("clicks", &config, Surroundings::default()).unwrap();
    for asked in 1..=2 {
        assert_eq!(failed(source.read().await).cause, Cause::Local);
        assert_eq!(server.seen().len(), asked);
    }
}
