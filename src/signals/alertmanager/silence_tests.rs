//! What is sent, without a server; `tests/alertmanager_real.rs` has one.

use super::*;
use crate::config::HttpConfig;

fn config(matchers: &[&str]) -> AlertmanagerConfig {
    AlertmanagerConfig {
        http: HttpConfig::at("http://127.0.0.1:9"),
        members: Vec::new(),
        matchers: matchers.iter().map(|m| Matcher::parse(m).unwrap()).collect(),
        silenced: false,
        inhibited: false,
        watchdog: Vec::new(),
        silence: false,
    }
}

fn silencer() -> Silencer {
    let config = config(&["alertname=HighConsumerLag", "consumergroup=~orders.*", "team!=x"]);
    Silencer::within("orders", &config, "host:/journal", &Surroundings::default()).unwrap()
}

fn at(text: &str) -> DateTime<Utc> {
    format!("2026-11-29T{text}Z").parse().unwrap()
}

/// As it would be listed after it was sent.
fn listed(id: &str, document: &serde_json::Value, state: &str) -> Silence {
    let mut silence = document.clone();
    silence["id"] = id.into();
    silence["status"] = json!({ "state": state });
    serde_json::from_value(silence).unwrap()
}

const TEN_MINUTES: Duration = Duration::from_secs(600);

#[test]
fn the_first_one_is_made_with_author_comment_and_the_matchers_of_the_signal() {
    let steps = silencer().steps(&[], at("03:00:00"), TEN_MINUTES);
    let expected = json!({
        "matchers": [
            { "name": "alertname", "value": "HighConsumerLag", "isRegex": false, "isEqual": true },
            { "name": "consumergroup", "value": "orders.*", "isRegex": true, "isEqual": true },
            { "name": "team", "value": "x", "isRegex": false, "isEqual": false },
        ],
        "startsAt": "2026-11-29T02:59:00.000Z",
        "endsAt": "2026-11-29T03:10:00.000Z",
        "createdBy": "backfill",
        "comment": "backfills are held back while orders fires; made by backfill at host:/journal, ends soon after \
                    that stops",
    });
    assert_eq!(
        (steps.send, steps.held, steps.surplus),
        (Some(expected), None, Vec::new())
    );
}

#[test]
fn one_that_is_there_is_kept_and_made_longer_when_half_of_its_time_is_over() {
    let silencer = silencer();
    let document = silencer.document(None, at("02:59:00"), at("03:10:00"));
    let there = listed("a-1", &document, "active");
    let kept = silencer.steps(std::slice::from_ref(&there), at("03:05:00"), TEN_MINUTES);
    assert_eq!(kept.send, None);
    assert_eq!(
        kept.held.map(|h| (h.id, h.until)),
        Some(("a-1".to_owned(), at("03:10:00")))
    );
    let longer = silencer.steps(&[there], at("03:05:01"), TEN_MINUTES);
    let sent = longer.send.unwrap();
    assert_eq!(
        (&sent["id"], &sent["startsAt"]),
        (&json!("a-1"), &document["startsAt"])
    );
    assert_eq!(sent["endsAt"], "2026-11-29T03:15:01.000Z");
    assert!(longer.surplus.is_empty());
}

#[test]
fn those_of_others_ended_ones_and_those_of_other_signals_are_left_alone() {
    let silencer = silencer();
    let document = silencer.document(None, at("02:59:00"), at("05:00:00"));
    let other = |key: &str, value: &str| {
        let mut silence = document.clone();
        silence[key] = value.into();
        silence
    };
    let there = [
        listed("a-1", &document, "expired"),
        listed("a-2", &other("createdBy", "ops"), "active"),
        listed("a-3", &other("comment", "mine"), "active"),
    ];
    let steps = silencer.steps(&there, at("03:00:00"), TEN_MINUTES);
    assert!(steps.send.unwrap().get("id").is_none());
    assert!(steps.surplus.is_empty());
}

#[test]
fn one_that_ended_before_its_time_was_ended_by_somebody() {
    let silencer = silencer();
    let before = Held {
        id: "a-1".to_owned(),
        until: at("03:10:00"),
    };
    let ended = |id: &str, until| listed(id, &silencer.document(None, at("02:59:00"), until), "expired");
    let lives = listed(
        "a-3",
        &silencer.document(None, at("02:59:00"), at("03:20:00")),
        "active",
    );
    assert!(silencer.was_ended(&[ended("a-1", at("03:05:00"))], &before));
    for there in [
        // In its time, because nobody could make it longer.
        vec![ended("a-1", at("03:10:00"))],
        // An older one of ours.
        vec![ended("a-2", at("03:05:00"))],
        // The server has lost it.
        Vec::new(),
        // There is another one.
        vec![ended("a-1", at("03:05:00")), lives.clone()],
    ] {
        assert!(!silencer.was_ended(&there, &before), "{there:?}");
    }
}

#[test]
fn too_many_of_ours_and_those_with_the_matchers_of_before_are_ended() {
    let silencer = silencer();
    let document = |until| silencer.document(None, at("02:59:00"), until);
    let mut before = document(at("06:00:00"));
    before["matchers"] = json!([{ "name": "alertname", "value": "Old", "isRegex": false }]);
    let there = [
        listed("a-1", &document(at("03:20:00")), "active"),
        listed("a-2", &before, "active"),
        listed("a-3", &document(at("03:30:00")), "pending"),
    ];
    let steps = silencer.steps(&there, at("03:00:00"), TEN_MINUTES);
    assert_eq!(steps.held.unwrap().id, "a-3");
    assert_eq!(
        (steps.send, steps.surplus),
        (None, vec!["a-1".to_owned(), "a-2".to_owned()])
    );
}

#[test]
fn a_listed_silence_of_the_real_server_is_read() {
    // As a 0.25 lists it.
    let text = r#"[{"id":"d7545552-f7ef-4615-8120-d68191ae8e58","status":{"state":"active"},
        "updatedAt":"2026-11-29T16:37:27.877Z","comment":"planned backfill","createdBy":"ops@example.com",
        "endsAt":"2026-11-29T16:47:27.000Z","startsAt":"2026-11-29T16:37:27.877Z","matchers":[
        {"isEqual":true,"isRegex":false,"name":"alertname","value":"HighConsumerLag"}]}]"#;
    let silences: Vec<Silence> = serde_json::from_str(text).unwrap();
    assert!(!silencer().is_ours(&silences[0]));
}
