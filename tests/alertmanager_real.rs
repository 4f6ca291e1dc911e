//! Against a real Alertmanager that a real Prometheus sends alerts to (`services/prometheus.sh` starts both, once for
//! all tests here but one, and stops them when this process ends).

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use backfill::{
    config::{AlertmanagerConfig, HttpConfig, Matcher, SignalConfig, SourceConfig, Unit},
    net::{Cause, Surroundings},
    signals::{
        LagSource, NoSample, Reading,
        alertmanager::silence::Silencer,
        build,
        validity::{UsualAge, judge, skew_warning},
    },
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    process::Command,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// An Alertmanager, its Prometheus, and one exporter for each test, so that none is in another's way.
struct Servers {
    dir: String,
    exporters: &'static str,
    lines: BTreeMap<String, String>,
}

impl Servers {
    /// The ones that all tests share.
    fn get() -> &'static Self {
        static STARTED: OnceLock<Servers> = OnceLock::new();
        STARTED.get_or_init(|| Self::start("steady hushed broken ours odd alone pair"))
    }

    fn start(exporters: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap().keep().to_str().unwrap().to_owned();
        let lines = Self::up(&dir, exporters);
        Self {
            dir,
            exporters,
            lines,
        }
    }

    fn up(dir: &str, exporters: &str) -> BTreeMap<String, String> {
        let started = Command::new("bash")
            .args([
                concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/prometheus.sh"),
                "up",
                dir,
            ])
            .env("EXPORTERS", exporters)
            .env("ALERTMANAGER", "yes")
            .env("OWNER", std::process::id().to_string())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(started.status.success(), "no real Alertmanager: {words}");
        let lines = String::from_utf8(started.stdout).unwrap();
        lines
            .lines()
            .filter_map(|l| l.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    }

    fn url(&self) -> &str {
        &self.lines["ALERTMANAGER_URL"]
    }

    /// What an exporter serves from its next scrape on.
    async fn serve(&self, exporter: &str, metrics: &str) {
        let url = format!("{}/metrics", self.lines[&format!("{exporter}_URL")]);
        let answer = client().put(url).body(metrics.to_owned()).send().await.unwrap();
        answer.error_for_status().unwrap();
    }

    async fn lag(&self, exporter: &str, group: &str, lag: u32) {
        let line = format!("kafka_consumergroup_lag{{consumergroup=\"{group}\",topic=\"clicks\"}} {lag}\n");
        self.serve(exporter, &line).await;
    }

    /// A call of the API by somebody else.
    async fn call(&self, method: &str, path: &str, body: Option<Value>) -> Value {
        let method = method.parse().unwrap();
        let mut call = client().request(method, format!("{}{path}", self.url()));
        if let Some(body) = body {
            call = call.json(&body);
        }
        let text = call
            .send()
            .await
            .unwrap()
            .error_for_status()
            .unwrap()
            .text()
            .await
            .unwrap();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    fn kill(&self, part: &str) {
        let pid = &self.lines[&format!("{part}_PID")];
        assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
    }
}

fn client() -> reqwest::Client {
    backfill::net::use_ring();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

fn matchers(texts: &[&str]) -> Vec<Matcher> {
    texts.iter().map(|m| Matcher::parse(m).unwrap()).collect()
}

/// The alert of one consumer group, watched.
fn config(servers: &Servers, group: &str) -> AlertmanagerConfig {
    AlertmanagerConfig {
        http: HttpConfig {
            deadline: Duration::from_secs(10),
            ..HttpConfig::at(servers.url())
        },
        members: Vec::new(),
        matchers: matchers(&["alertname=HighConsumerLag", &format!("consumergroup={group}")]),
        silenced: false,
        inhibited: false,
        watchdog: matchers(&["alertname=Watchdog"]),
        silence: false,
    }
}

fn source(config: &AlertmanagerConfig) -> Arc<dyn LagSource> {
    let signal = SignalConfig {
        source: SourceConfig::Alertmanager(config.clone()),
        unit: Unit::Alerts,
        low: 0.25,
        soft: 0.5,
        hard: 0.75,
        critical: 2.0,
        interval: Duration::from_secs(1),
        protects: true,
    };
    build(&"page".parse().unwrap(), &signal).unwrap()
}

/// Reads until a reading is as wanted, and fails after 40 s: a loaded machine may be slow, and in the first seconds
/// the watchdog may not have come yet.
async fn until(source: &Arc<dyn LagSource>, wanted: impl Fn(&Reading) -> bool) -> Reading {
    let begun = Instant::now();
    loop {
        let reading = source.read().await;
        if wanted(&reading) {
            return reading;
        }
        assert!(begun.elapsed() < Duration::from_secs(40), "still {reading:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn is_firing(reading: &Reading) -> bool {
    matches!(reading, Reading::Value { value, .. } if *value == 1.0)
}

fn is_quiet(reading: &Reading) -> bool {
    matches!(reading, Reading::Value { value, .. } if *value == 0.0)
}

fn names(reading: &Reading) -> Vec<String> {
    match reading {
        Reading::Value { parts, .. } => parts.iter().map(|p| p.name.clone()).collect(),
        other => panic!("no value: {other:?}"),
    }
}

#[tokio::test]
async fn lag_rises_and_the_alert_fires_by_name_and_lag_falls_and_it_is_quiet() {
    let servers = Servers::get();
    let mut config = config(servers, "steady-1");
    config.matchers = matchers(&["alertname=HighConsumerLag", "consumergroup=~steady-.*"]);
    let source = source(&config);
    servers.lag("STEADY", "steady-1", 12).await;
    let quiet = until(&source, is_quiet).await;
    assert_eq!(names(&quiet), [""; 0]);
    assert_eq!(judge(&quiet, &UsualAge::new(), Duration::from_secs(1)), Ok(0.0));
    servers.lag("STEADY", "steady-1", 150_007).await;
    let firing = until(&source, is_firing).await;
    assert_eq!(names(&firing), ["HighConsumerLag consumergroup=steady-1"]);
    assert_eq!(judge(&firing, &UsualAge::new(), Duration::from_secs(1)), Ok(1.0));
    assert_eq!(skew_warning(&firing), None);
    assert!(
        matches!(
            firing,
            Reading::Value {
                age: Duration::ZERO,
                skew_ms: Some(_),
                ..
            }
        ),
        "{firing:?}"
    );
    let both = "kafka_consumergroup_lag{consumergroup=\"steady-1\",topic=\"clicks\"} 5000\n\
                kafka_consumergroup_lag{consumergroup=\"steady-2\",topic=\"orders\"} 5000\n";
    servers.serve("STEADY", both).await;
    let two = until(&source, |r| is_firing(r) && names(r).len() == 2).await;
    assert_eq!(
        names(&two),
        [
            "HighConsumerLag consumergroup=steady-1 topic=clicks",
            "HighConsumerLag consumergroup=steady-2 topic=orders"
        ]
    );
    servers.lag("STEADY", "steady-1", 3).await;
    until(&source, is_quiet).await;
}

fn silence(group: &str) -> Value {
    let (from, to) = (
        chrono::Utc::now(),
        chrono::Utc::now() + chrono::TimeDelta::minutes(10),
    );
    json!({
        "matchers": [{ "name": "consumergroup", "value": group, "isRegex": false, "isEqual": true }],
        "startsAt": from.to_rfc3339(), "endsAt": to.to_rfc3339(), "createdBy": "ops", "comment": "known",
    })
}

#[tokio::test]
async fn an_alert_that_somebody_silenced_does_not_count_unless_asked_for() {
    let servers = Servers::get();
    let by_default = config(servers, "hushed");
    let mut asked = by_default.clone();
    asked.silenced = true;
    let (by_default, asked) = (source(&by_default), source(&asked));
    servers.lag("HUSHED", "hushed", 5000).await;
    until(&by_default, is_firing).await;
    let made = servers
        .call("POST", "/api/v2/silences", Some(silence("hushed")))
        .await;
    until(&by_default, is_quiet).await;
    assert!(is_firing(&asked.read().await));
    let id = made["silenceID"].as_str().unwrap();
    servers
        .call("DELETE", &format!("/api/v2/silence/{id}"), None)
        .await;
    until(&by_default, is_firing).await;
}

#[tokio::test]
async fn an_alert_that_another_one_inhibits_does_not_count_unless_asked_for() {
    let servers = Servers::get();
    let by_default = config(servers, "broken");
    let mut asked = by_default.clone();
    asked.inhibited = true;
    let (by_default, asked) = (source(&by_default), source(&asked));
    servers.lag("BROKEN", "broken", 5000).await;
    until(&by_default, is_firing).await;
    let with_broker =
        "kafka_consumergroup_lag{consumergroup=\"broken\",topic=\"clicks\"} 5000\nbroker_down 1\n";
    servers.serve("BROKEN", with_broker).await;
    until(&by_default, is_quiet).await;
    assert!(is_firing(&asked.read().await));
    servers.lag("BROKEN", "broken", 5000).await;
    until(&by_default, is_firing).await;
}

/// The silences that are there for a consumer group and have not ended: author, id and end.
async fn live(servers: &Servers, group: &str) -> Vec<(String, String, chrono::DateTime<chrono::Utc>)> {
    let all = servers.call("GET", "/api/v2/silences", None).await;
    let of_group = |s: &&Value| {
        let matchers = s["matchers"].as_array().unwrap();
        s["status"]["state"] != "expired" && matchers.iter().any(|m| m["value"] == group)
    };
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let all = all.as_array().unwrap().iter().filter(of_group);
    all.map(|s| {
        (
            text(&s["createdBy"]),
            text(&s["id"]),
            text(&s["endsAt"]).parse().unwrap(),
        )
    })
    .collect()
}

/// Holding back silences the alert, and an alert that is silent for that reason alone is not over.
#[tokio::test]
async fn our_own_silence_is_made_once_prolonged_found_again_and_ended_and_does_not_end_itself() {
    let servers = Servers::get();
    let config = config(servers, "ours");
    let source = source(&config);
    servers.lag("OURS", "ours", 5000).await;
    until(&source, is_firing).await;
    let silencer = || Silencer::within("page", &config, "host:/journal", &Surroundings::default()).unwrap();
    let minutes = |m: u64| Duration::from_secs(60 * m);
    let first = silencer().hold(minutes(10)).await.unwrap();
    let listed = live(servers, "ours").await;
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].0, &listed[0].1), (&"backfill".to_owned(), &first.id));
    // Another process, after a restart, finds it, and does nothing while half of its time is left.
    assert_eq!(silencer().hold(minutes(10)).await.unwrap().id, first.id);
    assert_eq!(live(servers, "ours").await, listed);
    // It has to be longer: the same one, prolonged.
    let longer = silencer().hold(minutes(60)).await.unwrap();
    let listed = live(servers, "ours").await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0].1, longer.id);
    assert!(
        listed[0].2 > first.until + chrono::TimeDelta::minutes(45),
        "{listed:?}"
    );
    // The alert is silent now, and the reading still fires.
    let begun = Instant::now();
    loop {
        let alerts = servers
            .call("GET", "/api/v2/alerts?filter=consumergroup%3D%22ours%22", None)
            .await;
        if alerts[0]["status"]["state"] == "suppressed" {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{alerts}");
    }
    for _ in 0..5 {
        let reading = source.read().await;
        assert!(is_firing(&reading), "{reading:?}");
    }
    // With somebody else's beside it, it does not count.
    servers
        .call("POST", "/api/v2/silences", Some(silence("ours")))
        .await;
    until(&source, is_quiet).await;
    // The program of another journal does not take it for its own; ours ends it, and only it, and only once.
    let other = Silencer::within("page", &config, "other:/journal", &Surroundings::default()).unwrap();
    assert_eq!(other.release().await.unwrap(), 0);
    assert_eq!(silencer().release().await.unwrap(), 1);
    assert_eq!(silencer().release().await.unwrap(), 0);
    let left = live(servers, "ours").await;
    assert_eq!(left.iter().map(|l| l.0.as_str()).collect::<Vec<_>>(), ["ops"]);
    // And a new one can be made after that.
    let again = silencer().hold(minutes(10)).await.unwrap();
    assert_ne!(again.id, longer.id);
    assert_eq!(silencer().release().await.unwrap(), 1);
}

/// Who ends our silence wants to hear of the alert.
#[tokio::test]
async fn one_of_ours_that_somebody_ended_by_hand_is_left_ended() {
    let servers = Servers::get();
    let config = config(servers, "by-hand");
    let silencer = Silencer::within("page", &config, "host:/journal", &Surroundings::default()).unwrap();
    let ten = Duration::from_secs(600);
    let first = silencer.hold(ten).await.unwrap();
    assert_eq!(
        silencer.hold_on(ten, &first).await.unwrap().map(|h| h.id),
        Some(first.id.clone())
    );
    // One that was made longer goes on to be ours.
    let longer = silencer
        .hold_on(Duration::from_secs(3600), &first)
        .await
        .unwrap()
        .unwrap();
    let path = format!("/api/v2/silence/{}", longer.id);
    servers.call("DELETE", &path, None).await;
    assert_eq!(silencer.hold_on(ten, &longer).await.unwrap(), None);
    assert!(live(servers, "by-hand").await.is_empty(), "none was made");
    // The next hold knows of none.
    let next = silencer.hold(ten).await.unwrap();
    assert_ne!(next.id, longer.id);
    assert_eq!(silencer.release().await.unwrap(), 1);
}

/// A matcher is sent so that its value arrives, whatever is in it.
#[tokio::test]
async fn values_with_quotes_backslashes_and_signs_of_urls_arrive() {
    let servers = Servers::get();
    let odd = "a\"b\\c,d=~{}+&%25 #ü\n?";
    let escaped = odd
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    servers.lag("ODD", &escaped, 5000).await;
    let mut exact = config(servers, "x");
    exact.matchers[1].value = odd.to_owned();
    until(&source(&exact), is_firing).await;
    let with = |text: &str| {
        let mut config = exact.clone();
        config.matchers = matchers(&["alertname=HighConsumerLag", "job=odd", text]);
        source(&config)
    };
    assert!(is_firing(
        &with(r#"consumergroup=~"a\"b\\\\c,d=~\\{\\}\\+&%25 #ü\n\\?""#)
            .read()
            .await
    ));
    assert!(is_firing(&with(r"consumergroup!~orders.*").read().await));
    // Expressions match the whole value.
    until(&with(r"consumergroup=~a"), |reading| {
        assert!(!is_firing(reading), "{reading:?}");
        is_quiet(reading)
    })
    .await;
    match with("consumergroup=~\"(\"").read().await {
        Reading::Failed(error) => {
            assert_eq!(error.cause, Cause::BadRequest);
            assert!(
                error.detail.contains("error parsing regexp: missing closing )"),
                "{error}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// Case B28.
#[tokio::test]
async fn quiet_without_the_watchdog_is_no_sample_and_firing_is_firing() {
    let servers = Servers::get();
    let watched = config(servers, "alone");
    let mut unwatched = watched.clone();
    unwatched.watchdog = matchers(&["alertname=NoSuchDog"]);
    let (watched, unwatched) = (source(&watched), source(&unwatched));
    servers.lag("ALONE", "alone", 1).await;
    until(&watched, is_quiet).await;
    match unwatched.read().await {
        Reading::NoSample { health, why } => {
            assert_eq!(health, NoSample::Missing);
            assert!(why.contains("(alertname=\"NoSuchDog\") does not fire"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    servers.lag("ALONE", "alone", 5000).await;
    until(&watched, is_firing).await;
    assert!(is_firing(&unwatched.read().await));
}

/// Case B28.
#[tokio::test]
async fn a_member_that_is_down_makes_quiet_partial_and_firing_stays() {
    let servers = Servers::get();
    let mut config = config(servers, "pair");
    let whole = source(&config);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    config.members = vec![format!("http://{}", nobody.local_addr().unwrap())];
    drop(nobody);
    let source = source(&config);
    servers.lag("PAIR", "pair", 1).await;
    until(&whole, is_quiet).await;
    match source.read().await {
        Reading::NoSample { health, why } => {
            assert_eq!(health, NoSample::Partial);
            assert!(why.contains("1 of 2 members did not answer"), "{why}");
        }
        other => panic!("{other:?}"),
    }
    servers.lag("PAIR", "pair", 5000).await;
    until(&whole, is_firing).await;
    assert!(is_firing(&source.read().await));
}

/// Lets the alert fire, and waits for a moment in which the watchdog has just come and the alert came a second before
/// that or earlier. `false` if both come together, which is so once in four times.
async fn watchdog_comes_after_the_alert(servers: &Servers, source: &Arc<dyn LagSource>) -> bool {
    servers.lag("LONE", "lone", 5000).await;
    until(source, is_firing).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(8) {
        let alerts = servers.call("GET", "/api/v2/alerts", None).await;
        let came = |name: &str| -> Option<chrono::DateTime<chrono::Utc>> {
            let mut all = alerts.as_array().unwrap().iter();
            let alert = all.find(|a| a["labels"]["alertname"] == name)?;
            Some(alert["updatedAt"].as_str().unwrap().parse().unwrap())
        };
        let both = came("Watchdog").zip(came("HighConsumerLag"));
        if both.is_some_and(|(watchdog, alert)| watchdog - alert > chrono::TimeDelta::milliseconds(900)) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

/// Case B28. In a world of its own. The alert runs out before the watchdog does, and at no
/// time does that look like *resolved*.
#[tokio::test]
async fn when_prometheus_dies_the_alert_that_fired_becomes_no_sample_and_never_quiet() {
    let servers = Servers::start("lone");
    let source = source(&config(&servers, "lone"));
    while !watchdog_comes_after_the_alert(&servers, &source).await {
        servers.lag("LONE", "lone", 0).await;
        until(&source, is_quiet).await;
    }
    servers.kill("PROMETHEUS");
    let begun = Instant::now();
    let mut missing = 0;
    let mut words = String::new();
    // Long enough that the watchdog, too, is gone from the list: it lives 12 s.
    while begun.elapsed() < Duration::from_secs(16) {
        match source.read().await {
            Reading::NoSample { health, why } => {
                assert_eq!(health, NoSample::Missing);
                missing += 1;
                words = why;
            }
            reading => assert!(is_firing(&reading) && missing == 0, "{reading:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(
        missing > 10 && words.contains("does not fire"),
        "{missing}: {words}"
    );
    // It comes back with the lag still high, and then falls.
    let lines = Servers::up(&servers.dir, servers.exporters);
    assert_eq!(lines["ALERTMANAGER_PID"], servers.lines["ALERTMANAGER_PID"]);
    until(&source, is_firing).await;
    servers.lag("LONE", "lone", 0).await;
    until(&source, is_quiet).await;
}
