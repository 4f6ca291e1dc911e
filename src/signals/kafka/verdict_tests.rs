use super::*;
use crate::config::KafkaConfig;

fn config() -> KafkaConfig {
    KafkaConfig::at(vec!["k:9092".into()], vec!["live".into()])
}

fn behind(messages: u64) -> Found {
    Found::Behind {
        messages,
        lost: 0,
        next: 10,
        end: 10 + i64::try_from(messages).unwrap(),
    }
}

fn group(name: &str, places: Vec<Found>) -> Measured {
    Measured {
        group: name.to_owned(),
        places: places
            .into_iter()
            .zip(0..)
            .map(|(found, partition)| (Place::new("t", partition), found))
            .collect(),
        notes: Vec::new(),
        missing: None,
        stalled: None,
    }
}

const WHEN: When = When {
    wall_ms: 1_700_000_000_000,
    age: Duration::from_millis(40),
};

fn messages_of(groups: Vec<Measured>) -> Reading {
    reading(&config(), Unit::Messages, groups, &Records::new(), WHEN)
}

fn seconds_of(group: Measured, records: Vec<(i32, Unread)>) -> Reading {
    let records = records
        .into_iter()
        .map(|(p, unread)| (Place::new("t", p), unread));
    let records = [(group.group.clone(), records.collect())].into();
    reading(&config(), Unit::Seconds, vec![group], &records, WHEN)
}

/// So many seconds before the read.
fn ago(seconds: i64) -> Unread {
    Unread::Since(WHEN.wall_ms - seconds * 1000)
}

fn value(reading: &Reading) -> f64 {
    match reading {
        Reading::Value { value, .. } => *value,
        other => panic!("no value: {other:?}"),
    }
}

fn no_sample(reading: Reading) -> (NoSample, String) {
    match reading {
        Reading::NoSample { health, why } => (health, why),
        other => panic!("no *no sample*: {other:?}"),
    }
}

#[test]
fn a_groups_messages_are_added_up_and_the_worst_group_is_the_value() {
    let mut pay = group("pay", vec![behind(2), behind(30)]);
    pay.notes = vec!["no members".to_owned(), "old no longer there".to_owned()];
    let read = messages_of(vec![
        pay,
        group("live", vec![behind(7)]),
        group("idle", vec![behind(0)]),
    ]);
    let part = |name: &str, value: f64, note: &str| Part {
        name: name.to_owned(),
        value: Ok(value),
        note: note.to_owned(),
    };
    assert_eq!(
        read,
        Reading::Value {
            value: 32.0,
            age: WHEN.age,
            skew_ms: None,
            parts: vec![
                part("idle", 0.0, ""),
                part("live", 7.0, ""),
                part("pay", 32.0, "no members; old no longer there"),
            ],
        }
    );
}

#[test]
fn one_group_in_trouble_leaves_no_number_and_every_trouble_is_told_the_worst_first() {
    let partial = group("partial", vec![behind(1), Found::Never]);
    let past = group(
        "past",
        vec![Found::Past("committed 5 is past the end 2: set".to_owned())],
    );
    let mut missing = group("missing", vec![]);
    missing.missing = Some("no such group, or it never committed".to_owned());
    let mut stalled = group("stalled", vec![behind(3)]);
    stalled.stalled = Some(Duration::from_secs(720));
    stalled.notes = vec!["no members".to_owned()];
    let fine = group("fine", vec![behind(1)]);
    let read = messages_of(vec![partial, fine, missing, past, stalled]);
    assert_eq!(
        no_sample(read),
        (
            NoSample::Stalled,
            "stalled: 3 messages behind and nothing committed for 12m (no members) | \
             past: t/0 committed 5 is past the end 2: set | \
             missing: no such group, or it never committed | \
             partial: t: 1 of 2 partitions have a commit (none in partition 1)"
                .to_owned()
        )
    );
}

#[test]
fn names_from_outside_are_shown_as_text() {
    let mut hostile = group("a\u{1b}[2Jb", vec![]);
    hostile.missing = Some("it never committed".to_owned());
    assert_eq!(
        no_sample(messages_of(vec![hostile])).1,
        "a^[[2Jb: it never committed"
    );
    let read = messages_of(vec![group("a\u{7}", vec![behind(1)])]);
    let Reading::Value { parts, .. } = read else {
        panic!("{read:?}");
    };
    assert!(!parts[0].name.contains('\u{7}'), "{parts:?}");
}

#[test]
fn the_seconds_are_the_age_of_the_oldest_message_not_read() {
    let live = || group("live", vec![behind(1), behind(900), behind(0)]);
    let read = seconds_of(live(), vec![(0, ago(75)), (1, ago(12))]);
    assert_eq!(value(&read), 75.0);
    let all_read = group("live", vec![behind(0), behind(0)]);
    assert_eq!(value(&seconds_of(all_read, vec![])), 0.0);
}

#[test]
fn where_there_is_no_message_up_to_the_end_nothing_is_late() {
    let read = seconds_of(
        group("live", vec![behind(1), behind(2)]),
        vec![(0, Unread::Nothing), (1, ago(5))],
    );
    assert_eq!(value(&read), 5.0);
}

#[test]
fn a_message_that_cannot_tell_its_age_makes_its_partition_unknown() {
    for (unread, words) in [
        (Unread::Since(-1), "carry no time"),
        (Unread::Since(0), "carry no time"),
        (Unread::Since(i64::MIN), "carry no time"),
        (Unread::Since(i64::MAX), "ahead of this host's clock"),
        (ago(-60), "1m ahead of this host's clock"),
        (Unread::Unknown("not allowed".to_owned()), "not allowed"),
    ] {
        let (health, why) = no_sample(seconds_of(
            group("live", vec![behind(3)]),
            vec![(0, unread.clone())],
        ));
        assert_eq!(health, NoSample::Partial, "{unread:?}");
        assert!(why.contains(words), "{unread:?}: {why}");
    }
    // Clocks of one site are not one clock.
    assert_eq!(
        value(&seconds_of(group("live", vec![behind(3)]), vec![(0, ago(-4))])),
        0.0
    );
    // One of ten may be unknown.
    let ten = group("live", vec![behind(1); 10]);
    let mut records: Vec<(i32, Unread)> = (0..9).map(|p| (p, ago(p.into()))).collect();
    records.push((9, Unread::Since(-1)));
    assert_eq!(value(&seconds_of(ten, records)), 8.0);
}

#[test]
fn partitions_that_were_not_asked_are_unknown_and_not_zero() {
    let (health, why) = no_sample(seconds_of(
        group("live", vec![behind(3), behind(2)]),
        vec![(0, ago(3))],
    ));
    assert_eq!(health, NoSample::Partial);
    assert!(why.contains("1 of 2 partitions of t unknown"), "{why}");
    assert!(why.contains("most_fetches = 64"), "{why}");
}

#[test]
fn records_are_asked_for_where_most_messages_wait() {
    let group = group(
        "live",
        vec![
            behind(5),
            behind(0),
            behind(900),
            Found::Never,
            behind(5),
            behind(6),
        ],
    );
    let places = |most| -> Vec<i32> { wanted(&group, most).iter().map(|w| w.place.partition).collect() };
    assert_eq!(places(10), [2, 5, 0, 4]);
    assert_eq!(places(3), [2, 5, 0]);
    assert_eq!(
        wanted(&group, 1),
        [Wanted {
            place: Place::new("t", 2),
            next: 10,
            end: 910
        }]
    );
}
