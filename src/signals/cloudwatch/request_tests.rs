use super::*;
use rstest::rstest;

fn source(config: &CloudWatchConfig) -> CloudWatch {
    CloudWatch::within("orders", config, Surroundings::default()).unwrap()
}

#[test]
fn all_streams_are_one_question_about_the_last_ten_minutes_in_whole_ones() {
    let config = CloudWatchConfig::of("eu-central-1", vec!["orders".to_owned(), "clicks".to_owned()]);
    let question = source(&config).question(1_795_972_365);
    assert_eq!(question["StartTime"], 1_795_971_720);
    assert_eq!(question["EndTime"], 1_795_972_380);
    assert_eq!(question["ScanBy"], "TimestampDescending");
    let queries = question["MetricDataQueries"].as_array().unwrap();
    assert_eq!(queries.len(), 2);
    let expected = json!({
        "Id": "s1",
        "MetricStat": {
            "Metric": {
                "Namespace": "AWS/Kinesis",
                "MetricName": "GetRecords.IteratorAgeMilliseconds",
                "Dimensions": [{"Name": "StreamName", "Value": "clicks"}],
            },
            "Period": 60,
            "Stat": "Maximum",
        },
        "ReturnData": true,
    });
    assert_eq!(queries[1], expected);
}

#[test]
fn a_consumer_with_a_pipe_of_its_own_has_a_metric_of_its_own() {
    let mut config = CloudWatchConfig::of("eu-central-1", vec!["orders".to_owned()]);
    config.consumer = Some("live".to_owned());
    let question = source(&config).question(0);
    let metric = &question["MetricDataQueries"][0]["MetricStat"]["Metric"];
    assert_eq!(metric["MetricName"], "SubscribeToShardEvent.MillisBehindLatest");
    let expected =
        json!([{"Name": "StreamName", "Value": "orders"}, {"Name": "ConsumerName", "Value": "live"}]);
    assert_eq!(metric["Dimensions"], expected);
}

#[rstest]
#[case::usual("eu-central-1", None, "monitoring.eu-central-1.amazonaws.com")]
#[case::china("cn-north-1", None, "monitoring.cn-north-1.amazonaws.com.cn")]
#[case::private("eu-central-1", Some("https://vpce-1.example:443"), "vpce-1.example")]
#[case::emulator("eu-central-1", Some("http://127.0.0.1:5000"), "127.0.0.1:5000")]
#[case::of_six_parts("eu-central-1", Some("http://[::1]:5000"), "[::1]:5000")]
fn the_host_that_is_signed_is_the_one_that_is_sent(
    #[case] region: &str,
    #[case] endpoint: Option<&str>,
    #[case] host: &str,
) {
    let mut config = CloudWatchConfig::of(region, vec!["orders".to_owned()]);
    config.endpoint = endpoint.map(str::to_owned);
    assert_eq!(source(&config).host, host);
}
