//! Numbers, times and durations as the screen needs them. How they are written is one rule for all of the program,
//! `domain::human`; here is what only a screen knows: now, the zone and the unit of a signal.

use crate::{
    config::Unit,
    domain::{Time, human},
};
use chrono::{Datelike, TimeDelta};
use chrono_tz::Tz;
use std::time::Duration;

pub use human::{count, counted as of, with_commas as exact};

/// The share that is settled, floored: 99 % until nothing is left. With `fine`, one decimal between 99 and 100,
/// because a roll-up would hide a failure. Of nothing it is `0%`.
pub fn percent(settled: u64, all: u64, fine: bool) -> String {
    if all == 0 {
        return "0%".to_owned();
    }
    let thousandths = settled * 1_000 / all;
    if fine && (990..1_000).contains(&thousandths) {
        return format!("{}.{}%", thousandths / 10, thousandths % 10);
    }
    human::percent(settled, all)
}

/// A signed difference as a duration; what lies in the future is zero.
fn forward(d: TimeDelta) -> Duration {
    d.to_std().unwrap_or_default()
}

/// An age in a column: `3s`, `4m10s`, `6m`, `2h`, `3d`.
pub fn age(d: TimeDelta) -> String {
    human::age(Duration::from_secs(forward(d).as_secs()))
}

/// How long something took or takes: `42m`, `4h10m`, `33h`.
pub fn duration(d: TimeDelta) -> String {
    human::duration(Duration::from_secs(forward(d).as_secs()))
}

/// The same in whole minutes from a minute on, where room is short: `13m`, not `13m20s`.
pub fn whole(d: TimeDelta) -> String {
    match d.num_seconds() {
        s @ 60.. => duration(TimeDelta::seconds(s / 60 * 60)),
        _ => duration(d),
    }
}

/// A time to go or gone in a sentence: `25 s`, `2m58s`, `42m`.
pub fn until(d: TimeDelta) -> String {
    match d.num_seconds() {
        s @ ..60 => format!("{} s", s.max(0)),
        _ => duration(d),
    }
}

/// A rough time to go: `40s`, `2m`, `3h`.
pub fn rough(seconds: f64) -> String {
    if !seconds.is_finite() || seconds > 1e9 {
        return "long".to_owned();
    }
    let s = seconds.max(0.0).round() as u64;
    // From a minute and a half on only whole minutes mean anything.
    let s = if s >= 90 { (s + 30) / 60 * 60 } else { s };
    human::duration(Duration::from_secs(s))
}

/// A [`Duration`] as a signed one.
pub fn delta(d: Duration) -> TimeDelta {
    TimeDelta::from_std(d).unwrap_or(TimeDelta::MAX)
}

/// A lag: `96 s`, from ten minutes on `12m`; messages as a count.
pub fn lag(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => human::lag_seconds(value),
        Unit::Messages => human::lag_messages(value),
        Unit::Alerts if value == 0.0 => "quiet".to_owned(),
        Unit::Alerts => "firing".to_owned(),
    }
}

/// The same without its unit, for labels at a chart whose title names it: `180`, `2.5`, `200k`.
pub fn level(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Messages => human::lag_messages(value),
        Unit::Seconds | Unit::Alerts if value.abs() < 10.0 && value.fract().abs() >= 0.05 => {
            format!("{value:.1}")
        }
        Unit::Seconds | Unit::Alerts => format!("{value:.0}"),
    }
}

/// A lag's slope without its sign, `0.7/s`.
pub fn slope(per_second: f64) -> String {
    human::slope(per_second)
}

/// `03:08:45`, with the date when that is another day: `1 Dec 03:08`.
pub fn clock(at: Time, now: Time, zone: Tz) -> String {
    let (local, today) = (at.with_timezone(&zone), now.with_timezone(&zone));
    if local.date_naive() == today.date_naive() {
        local.format("%H:%M:%S").to_string()
    } else {
        local.format("%-d %b %H:%M").to_string()
    }
}

/// `03:08`, with nothing but the date when that is another day.
pub fn short_clock(at: Time, now: Time, zone: Tz) -> String {
    let (local, today) = (at.with_timezone(&zone), now.with_timezone(&zone));
    if local.date_naive() == today.date_naive() {
        local.format("%H:%M").to_string()
    } else {
        local.format("%m-%d").to_string()
    }
}

/// An instant to come: weekday and minute within six days, the date beyond.
pub fn eta(at: Time, now: Time, zone: Tz) -> String {
    let local = at.with_timezone(&zone);
    if at - now < TimeDelta::days(6) {
        return local.format("%a %H:%M").to_string();
    }
    if local.year() == now.with_timezone(&zone).year() {
        local.format("%-d %b").to_string()
    } else {
        local.format("%-d %b %Y").to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeZone;

    fn s(n: i64) -> TimeDelta {
        TimeDelta::seconds(n)
    }

    #[test]
    fn counts_are_exact_to_four_digits_and_never_rounded_up() {
        let got: Vec<_> = [999, 1_096, 9_999, 50_799, 999_999, 1_950_000, 1_950_000_000]
            .map(count)
            .into();
        assert_eq!(got, ["999", "1,096", "9,999", "50.7k", "999k", "1.9M", "1.95 B"]);
        assert_eq!(exact(87_672), "87,672");
        assert_eq!(exact(1), "1");
    }

    #[test]
    fn percent_is_99_until_nothing_is_left() {
        assert_eq!(percent(407, 1_096, false), "37%");
        assert_eq!(percent(362, 365, false), "99%");
        assert_eq!(percent(8_746, 8_760, true), "99.8%");
        assert_eq!(percent(365, 365, true), "100%");
        assert_eq!(percent(0, 0, true), "0%");
    }

    #[test]
    fn ages_and_durations_use_two_units_at_most() {
        let ages: Vec<_> = [3, 59, 60, 250, 901, 7_200, 259_200].map(|n| age(s(n))).into();
        assert_eq!(ages, ["3s", "59s", "1m", "4m10s", "15m", "2h", "3d"]);
        let took: Vec<_> = [42 * 60, 4 * 3600 + 600, 33 * 3600, 3600]
            .map(|n| duration(s(n)))
            .into();
        assert_eq!(took, ["42m", "4h10m", "33h", "60m"]);
        assert_eq!(until(s(178)), "2m58s");
        assert_eq!(until(s(25)), "25 s");
        assert_eq!(whole(s(178)), "2m");
        assert_eq!(age(s(-5)), "0s");
        assert_eq!(rough(120.0), "2m");
        assert_eq!(rough(f64::INFINITY), "long");
    }

    #[test]
    fn lag_changes_to_minutes_at_ten() {
        assert_eq!(lag(96.0, Unit::Seconds), "96 s");
        assert_eq!(lag(720.0, Unit::Seconds), "12m");
        assert_eq!(level(2.5, Unit::Seconds), "2.5");
        assert_eq!(lag(412_345.0, Unit::Messages), "412k");
        assert_eq!(slope(-0.7), "0.7/s");
        assert_eq!(slope(1_200.0), "1,200/s");
    }

    /// Case S23: each instant is converted with the rules of the zone for that instant.
    #[test]
    fn clocks_follow_the_zone_on_both_sides_of_a_change() {
        let at = |h, m| chrono::Utc.with_ymd_and_hms(2025, 10, 26, h, m, 0).unwrap();
        let berlin = chrono_tz::Europe::Berlin;
        assert_eq!(clock(at(0, 30), at(3, 0), berlin), "02:30:00");
        assert_eq!(clock(at(1, 30), at(3, 0), berlin), "02:30:00");
        let of_zone = |zone: Tz| clock(at(1, 0), at(1, 0), zone);
        assert_eq!(of_zone(chrono_tz::America::New_York), "21:00:00");
        assert_eq!(of_zone(chrono_tz::Australia::Lord_Howe), "12:00:00");
        assert_eq!(of_zone(chrono_tz::Asia::Kathmandu), "06:45:00");
        let apia = chrono::Utc.with_ymd_and_hms(2011, 12, 30, 9, 59, 59).unwrap();
        assert_eq!(
            clock(apia, apia + s(1), chrono_tz::Pacific::Apia),
            "29 Dec 23:59",
            "then comes the 31st"
        );
    }

    #[test]
    fn an_eta_has_a_minute_only_within_six_days() {
        let now = chrono::Utc.with_ymd_and_hms(2026, 12, 2, 2, 10, 20).unwrap();
        let zone = chrono_tz::Europe::Berlin;
        assert_eq!(eta(now + TimeDelta::hours(35), now, zone), "Thu 14:10");
        assert_eq!(eta(now + TimeDelta::days(7), now, zone), "9 Dec");
        assert_eq!(eta(now + TimeDelta::days(40), now, zone), "11 Jan 2027");
    }
}
