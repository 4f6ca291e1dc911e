//! What the members' answers mean together, on alerts as a real server lists them.

use super::*;
use crate::config::HttpConfig;
use answer::sample;

/// As a 0.25 lists it: one alert that fires.
fn alert(state: &str, silenced_by: &str, inhibited_by: &str) -> Alert {
    let text = format!(
        r#"[{{"annotations":{{"summary":"group orders-svc on orders is 150007 messages behind"}},
        "endsAt":"2026-11-29T16:41:06.752Z","fingerprint":"8d10a6df3c8e846d","receivers":[{{"name":"hook"}}],
        "startsAt":"2026-11-29T16:37:06.752Z",
        "status":{{"inhibitedBy":[{inhibited_by}],"silencedBy":[{silenced_by}],"state":"{state}"}},
        "updatedAt":"2026-11-29T16:37:06.759Z","generatorURL":"http://prometheus.example:9090/graph",
        "labels":{{"alertname":"HighConsumerLag","cluster":"lab","consumergroup":"orders-svc"}}}}]"#
    );
    sample(&text).remove(0)
}

fn source(silenced: bool, inhibited: bool, watchdog: &[&str]) -> Alertmanager {
    let matcher = |m: &str| Matcher::parse(m).unwrap();
    let config = AlertmanagerConfig {
        http: HttpConfig::at("http://127.0.0.1:9"),
        members: Vec::new(),
        matchers: vec![
            matcher("alertname=HighConsumerLag"),
            matcher("consumergroup=~orders.*"),
        ],
        silenced,
        inhibited,
        watchdog: watchdog.iter().map(|m| matcher(m)).collect(),
        silence: false,
    };
    Alertmanager::within("orders", &config, Surroundings::default()).unwrap()
}

fn at(text: &str) -> DateTime<Utc> {
    format!("2026-11-29T{text}Z").parse().unwrap()
}

fn heard(firing: &[&str], watchdog: Watchdog) -> Result<Heard, AdapterError> {
    let labels = |group: &&str| {
        let pairs = [("alertname", "HighConsumerLag"), ("consumergroup", *group)];
        pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    };
    Ok(Heard {
        firing: firing.iter().map(labels).collect(),
        watchdog,
        clock: Clock {
            now_ms: at("16:37:10").timestamp_millis(),
            kept: Duration::ZERO,
            skew_ms: Some(-20),
        },
    })
}

fn down() -> Result<Heard, AdapterError> {
    Err(AdapterError::new(
        "orders",
        "GET http://am2:9093/api/v2/alerts",
        Duration::from_secs(1),
        Cause::Refused,
        "",
    ))
}

fn value(reading: Reading) -> (f64, Vec<String>) {
    match reading {
        Reading::Value {
            value, age, parts, ..
        } => {
            assert_eq!(age, Duration::ZERO, "a list is about now");
            assert!(parts.iter().all(|p| p.value == Ok(1.0)));
            (value, parts.into_iter().map(|p| p.name).collect())
        }
        other => panic!("no value: {other:?}"),
    }
}

fn no(reading: Reading) -> (NoSample, String) {
    match reading {
        Reading::NoSample { health, why } => (health, why),
        other => panic!("no *no sample*: {other:?}"),
    }
}

const DOG: &[&str] = &["alertname=Watchdog"];

#[test]
fn active_and_unprocessed_alerts_count_and_suppressed_ones_as_configured() {
    let ours = BTreeSet::from(["our-1".to_owned()]);
    for (state, silences, inhibitors, by_default, silenced, inhibited) in [
        ("active", "", "", true, true, true),
        ("unprocessed", "", "", true, true, true),
        ("suppressed", r#""d7545552""#, "", false, true, false),
        ("suppressed", "", r#""26d1e28e""#, false, false, true),
        (
            "suppressed",
            r#""d7545552""#,
            r#""26d1e28e""#,
            false,
            false,
            false,
        ),
        // Muted at this time of the day: neither silenced nor inhibited.
        ("suppressed", "", "", true, true, true),
        // Our own silence must not end what it is there for.
        ("suppressed", r#""our-1""#, "", true, true, true),
        ("suppressed", r#""our-1","d7545552""#, "", false, true, false),
    ] {
        let alert = alert(state, silences, inhibitors);
        let counts = |s, i| source(s, i, &[]).counts(&alert, &ours);
        let found = (counts(false, false), counts(true, false), counts(false, true));
        assert_eq!(
            found,
            (by_default, silenced, inhibited),
            "{state} {silences} {inhibitors}"
        );
        assert!(counts(true, true));
    }
}

#[test]
fn the_union_of_all_members_fires() {
    let source = source(false, false, &[]);
    let both = vec![
        heard(&["orders-svc"], Watchdog::NotAsked),
        heard(&["orders-svc", "orders-x"], Watchdog::NotAsked),
    ];
    let names = [
        "HighConsumerLag consumergroup=orders-svc",
        "HighConsumerLag consumergroup=orders-x",
    ];
    assert_eq!(
        value(source.together(both)),
        (1.0, names.map(str::to_owned).to_vec())
    );
    // A member that has just been started knows nothing yet.
    let fresh = vec![
        heard(&[], Watchdog::NotAsked),
        heard(&["orders-svc"], Watchdog::NotAsked),
    ];
    assert_eq!(value(source.together(fresh)).0, 1.0);
    let quiet = vec![heard(&[], Watchdog::NotAsked), heard(&[], Watchdog::NotAsked)];
    assert_eq!(value(source.together(quiet)), (0.0, Vec::new()));
}

/// Case B28.
#[test]
fn firing_is_believed_with_a_member_down_and_quiet_is_not() {
    let source = source(false, false, &[]);
    let firing = vec![down(), heard(&["orders-svc"], Watchdog::NotAsked)];
    assert_eq!(value(source.together(firing)).0, 1.0);
    let (health, why) = no(source.together(vec![heard(&[], Watchdog::NotAsked), down()]));
    assert_eq!(health, NoSample::Partial);
    assert!(
        why.starts_with("1 of 2 members did not answer") && why.contains("am2:9093"),
        "{why}"
    );
    assert!(matches!(
        source.together(vec![down(), down()]),
        Reading::Failed(_)
    ));
    assert!(matches!(source.together(vec![down()]), Reading::Failed(_)));
}

/// Case B28. A dead Prometheus looks exactly like *resolved*.
#[test]
fn without_its_watchdog_an_empty_list_is_no_sample() {
    let source = source(false, false, DOG);
    let (health, why) = no(source.together(vec![heard(&[], Watchdog::Missing)]));
    assert_eq!(health, NoSample::Missing);
    assert!(
        why.contains("the watchdog (alertname=\"Watchdog\") does not fire"),
        "{why}"
    );
    let late = Watchdog::Late(Duration::from_secs(130));
    let (health, why) = no(source.together(vec![heard(&[], Watchdog::Missing), heard(&[], late)]));
    assert_eq!(health, NoSample::Missing);
    assert!(why.contains("was last sent 2m10s ago"), "{why}");
    // One member that knows it is enough; nobody has to vouch for an alert that fires.
    let other = vec![heard(&[], Watchdog::Missing), heard(&[], Watchdog::Alive)];
    assert_eq!(value(source.together(other)).0, 0.0);
    let firing = vec![
        heard(&["orders-svc"], Watchdog::NotAsked),
        heard(&[], Watchdog::Missing),
    ];
    assert_eq!(value(source.together(firing)).0, 1.0);
}

/// Case B28. Prometheus sends again every minute and lets alerts live for four: the alert that was sent 50 s before
/// its end runs out at 190 s, the watchdog that was sent last at 239 s. In between the list looks well.
#[test]
fn a_watchdog_that_has_not_come_for_half_of_its_life_does_not_count() {
    let dog = |state| [alert(state, r#""some""#, "")];
    // Sent at 16:37:06.759, lives until 16:41:06.752.
    let seen = |now| Watchdog::among(&dog("active"), at(now));
    assert_eq!(
        seen("16:37:06"),
        Watchdog::Alive,
        "their clock is a little behind"
    );
    assert_eq!(seen("16:38:10"), Watchdog::Alive, "one more minute is usual");
    assert_eq!(seen("16:39:06"), Watchdog::Alive);
    assert!(matches!(seen("16:39:07"), Watchdog::Late(age) if age.as_secs() == 120));
    assert!(
        matches!(seen("16:40:20"), Watchdog::Late(_)),
        "the alert is gone, the watchdog not yet"
    );
    assert_eq!(Watchdog::among(&[], at("16:37:10")), Watchdog::Missing);
    // It is there to be sent to nobody.
    assert_eq!(
        Watchdog::among(&dog("suppressed"), at("16:37:10")),
        Watchdog::Alive
    );
    // The youngest counts.
    let mut two = dog("active").to_vec();
    two.push(two[0].clone());
    two[1].updated_at = at("16:40:00");
    two[1].ends_at = at("16:44:00");
    assert_eq!(Watchdog::among(&two, at("16:40:20")), Watchdog::Alive);
}
