use super::*;
use chrono::{TimeZone, Utc};
use proptest::prelude::*;

fn window(from: &str, to: &str, days: &str, timezone: Tz) -> Blackout {
    Blackout {
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        days: days.parse().unwrap(),
        timezone,
    }
}

fn utc(text: &str) -> Time {
    let naive = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap();
    Utc.from_utc_datetime(&naive)
}

const OFFICE: (&str, &str, &str) = ("08:00", "20:00", "mon-fri");

fn office() -> [Blackout; 1] {
    [window(OFFICE.0, OFFICE.1, OFFICE.2, chrono_tz::Europe::Berlin)]
}

#[test]
fn office_hours_hold_from_their_first_minute_to_before_their_last() {
    // Friday, summer: 08:00 in Berlin is 06:00 UTC.
    let all = office();
    assert_eq!(now(&all, utc("2026-07-03 05:59")), None);
    let closed = now(&all, utc("2026-07-03 06:00")).unwrap();
    assert_eq!(
        (closed.from, closed.until),
        (utc("2026-07-03 06:00"), Some(utc("2026-07-03 18:00")))
    );
    assert_eq!(now(&all, utc("2026-07-03 18:00")), None);
    let monday = next(&all, utc("2026-07-03 18:00")).unwrap();
    assert_eq!(monday.from, utc("2026-07-06 06:00"), "not on a weekend");
}

#[test]
fn a_window_over_midnight_belongs_to_the_day_on_which_it_begins() {
    let all = [window("22:00", "02:00", "fri", chrono_tz::UTC)];
    assert!(now(&all, utc("2026-07-03 23:00")).is_some());
    assert!(
        now(&all, utc("2026-07-04 01:59")).is_some(),
        "saturday, begun on friday"
    );
    assert_eq!(now(&all, utc("2026-07-04 02:00")), None);
    assert_eq!(now(&all, utc("2026-07-04 23:00")), None, "saturday's own");
}

#[test]
fn windows_that_touch_or_overlap_are_one_blackout() {
    let all = [
        window("08:00", "12:00", "daily", chrono_tz::UTC),
        window("12:00", "18:00", "daily", chrono_tz::UTC),
        window("17:00", "19:00", "fri", chrono_tz::UTC),
    ];
    let until = |at| now(&all, utc(at)).unwrap().until;
    assert_eq!(until("2026-07-03 09:00"), Some(utc("2026-07-03 19:00")), "friday");
    assert_eq!(until("2026-07-04 09:00"), Some(utc("2026-07-04 18:00")));
}

#[test]
fn whole_days_follow_each_other_and_a_whole_week_never_ends() {
    let weekend = [window("00:00", "24:00", "sat,sun", chrono_tz::UTC)];
    let closed = now(&weekend, utc("2026-07-04 12:00")).unwrap();
    assert_eq!(closed.until, Some(utc("2026-07-06 00:00")));
    let always = [window("00:00", "24:00", "daily", chrono_tz::UTC)];
    assert_eq!(now(&always, utc("2026-07-04 12:00")).unwrap().until, None);
    assert_eq!(
        after(&always, utc("2026-07-04 12:00"), Duration::from_secs(1)),
        None
    );
}

#[test]
fn clocks_that_change_never_shorten_a_window() {
    // Berlin, 2026-10-25: 02:00 to 03:00 happens twice; 2026-03-29: it does not happen.
    let all = [window("02:30", "02:45", "daily", chrono_tz::Europe::Berlin)];
    let twice = next(&all, utc("2026-10-24 22:00")).unwrap();
    assert_eq!(
        (twice.from, twice.until),
        (utc("2026-10-25 00:30"), Some(utc("2026-10-25 01:45")))
    );
    let never = next(&all, utc("2026-03-28 22:00")).unwrap();
    assert_eq!(never.from, utc("2026-03-30 00:30"), "the clocks jumped over it");
    let office = office();
    let winter = next(&office, utc("2026-10-25 12:00")).unwrap();
    assert_eq!(winter.from, utc("2026-10-26 07:00"), "08:00 stays 08:00");
}

#[test]
fn work_goes_on_outside_of_blackouts_only() {
    let all = office();
    let h = |n: u64| Duration::from_secs(3600 * n);
    // Thursday 04:00 in Berlin: four hours before, then from 20:00 on.
    let from = utc("2026-07-02 02:00");
    assert_eq!(after(&all, from, h(4)), Some(utc("2026-07-02 06:00")));
    assert_eq!(after(&all, from, h(5)), Some(utc("2026-07-02 19:00")));
    // Begun in one: it counts from its end. 12 h to friday's window, then a weekend without any.
    assert_eq!(
        after(&all, utc("2026-07-02 10:00"), h(20)),
        Some(utc("2026-07-04 02:00"))
    );
    assert_eq!(after(&[], from, h(5)), Some(utc("2026-07-02 07:00")));
}

#[test]
fn what_is_no_time_and_no_day_is_refused() {
    for text in [
        "8:00",
        "08:60",
        "24:01",
        "25:00",
        "0800",
        "",
        "-1:00",
        "08:00:00",
        "०८:00",
    ] {
        assert_eq!(text.parse::<Minute>(), Err(NoMinute), "{text}");
    }
    for text in ["", "monday", "mon-", "-fri", "mon,,tue", "Mon"] {
        assert_eq!(text.parse::<Weekdays>(), Err(NoWeekdays), "{text}");
    }
}

#[test]
fn days_are_written_as_they_are_read() {
    for (read, written) in [
        ("mon-fri", "mon-fri"),
        ("sat,sun", "sat,sun"),
        ("sat-sun", "sat,sun"),
        ("fri-mon", "mon,fri-sun"),
        ("mon,tue,wed", "mon-wed"),
        ("mon-sun", "daily"),
        ("daily", "daily"),
        ("wed", "wed"),
    ] {
        let days: Weekdays = read.parse().unwrap();
        assert_eq!(days.to_string(), written);
        assert_eq!(written.parse(), Ok(days));
    }
    let one = office()[0];
    assert_eq!(one.to_string(), "08:00 to 20:00 mon-fri Europe/Berlin");
    let json = serde_json::to_string(&one).unwrap();
    assert_eq!(
        json,
        r#"{"from":"08:00","to":"20:00","days":"mon-fri","timezone":"Europe/Berlin"}"#
    );
    assert_eq!(serde_json::from_str::<Blackout>(&json).unwrap(), one);
    let kept = postcard::to_stdvec(&one).unwrap();
    assert_eq!(
        postcard::from_bytes::<Blackout>(&kept).unwrap(),
        one,
        "as in a snapshot"
    );
}

fn any_window() -> impl Strategy<Value = Blackout> {
    let zones = prop_oneof![
        Just(chrono_tz::UTC),
        Just(chrono_tz::Europe::Berlin),
        Just(chrono_tz::Pacific::Apia),
        Just(chrono_tz::Australia::Lord_Howe),
    ];
    (0_u16..1440, 0_u16..=1440, 1_u8..128, zones).prop_map(|(from, to, days, timezone)| Blackout {
        from: Minute(from),
        to: Minute(to),
        days: Weekdays(days),
        timezone,
    })
}

proptest! {
    /// Whether an instant is in a blackout is asked of each minute; what is said of the way ahead has to agree.
    #[test]
    fn what_is_said_of_the_end_and_the_next_begin_is_what_happens(
        all in proptest::collection::vec(any_window(), 0..4),
        minute in 0_i64..(3 * 366 * 1440),
    ) {
        let at = utc("2025-01-01 00:00") + TimeDelta::minutes(minute);
        let holds = |t: Time| all.iter().any(|w| w.from(t).any(|(from, to)| from <= t && t < to));
        let closed = now(&all, at);
        prop_assert_eq!(closed.is_some(), holds(at));
        if let Some(closed) = closed {
            prop_assert!(closed.from <= at);
            let end = closed.until.unwrap_or(at + HORIZON);
            prop_assert!(closed.until.is_none() || !holds(end));
            let mut t = at;
            while t < end {
                prop_assert!(holds(t), "a gap at {t}");
                t += TimeDelta::minutes(7);
            }
        }
        if let Some(coming) = next(&all, at) {
            prop_assert!(coming.from > at && holds(coming.from));
            if closed.is_none() {
                let mut t = at;
                while t < coming.from {
                    prop_assert!(!holds(t), "closed at {t}");
                    t += TimeDelta::minutes(7);
                }
            }
        }
    }
}
