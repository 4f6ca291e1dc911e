//! Numbers, times and durations in the words of the screen.

use crate::{config::Unit, domain::Time};
use chrono::{Datelike, TimeDelta};
use chrono_tz::Tz;
use std::time::Duration;

/// A count: exact to 9,999 with a comma, then `50.7k`, `1.9M`, `1.95 B`.
pub fn count(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..10_000 => format!("{},{:03}", n / 1_000, n % 1_000),
        10_000..1_000_000 => tenths(n, 1_000, "k"),
        1_000_000..1_000_000_000 => tenths(n, 1_000_000, "M"),
        _ => tenths(n, 1_000_000_000, " B"),
    }
}

/// One decimal below a hundred, none above; never rounded up to a value that was not reached.
fn tenths(n: u64, unit: u64, word: &str) -> String {
    let whole = n / unit;
    if whole >= 100 {
        return format!("{whole}{word}");
    }
    format!("{whole}.{}{word}", n % unit * 10 / unit)
}

/// An exact count with commas, for the header's range.
pub fn exact(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// The share that is settled, floored: 99 % until nothing is left. With `fine`, one decimal between 99 and 100,
/// because a roll-up would hide a failure.
pub fn percent(settled: u64, all: u64, fine: bool) -> String {
    if all == 0 {
        return "0%".to_owned();
    }
    let thousandths = settled * 1_000 / all;
    if fine && (990..1_000).contains(&thousandths) && settled > 0 {
        return format!("{}.{}%", thousandths / 10, thousandths % 10);
    }
    format!("{}%", thousandths / 10)
}

/// An age or time to go in a column: `3s`, `4m10s`, `6m`, `2h`, `3d`.
pub fn age(d: TimeDelta) -> String {
    let s = d.num_seconds().max(0);
    match s {
        0..60 => format!("{s}s"),
        60..300 if s % 60 > 0 => format!("{}m{:02}s", s / 60, s % 60),
        60..3_600 => format!("{}m", s / 60),
        3_600..172_800 => format!("{}h", s / 3_600),
        _ => format!("{}d", s / 86_400),
    }
}

/// A time to go with the seconds kept up to an hour: `2m58s`, `12m40s`, `1h05m`.
pub fn until(d: TimeDelta) -> String {
    let s = d.num_seconds().max(0);
    match s {
        0..60 => format!("{s} s"),
        60..3_600 if s % 60 > 0 => format!("{}m{:02}s", s / 60, s % 60),
        _ => duration(d),
    }
}

/// How long something took or takes: `42m`, `4h10m`, `33h`.
pub fn duration(d: TimeDelta) -> String {
    let s = d.num_seconds().max(0);
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m", s / 60),
        3_600..36_000 if s % 3_600 >= 60 => format!("{}h{:02}m", s / 3_600, s % 3_600 / 60),
        3_600..360_000 => format!("{}h", s / 3_600),
        _ => format!("{}d", s / 86_400),
    }
}

/// A rough time to go: `40s`, `2m`, `3h`.
pub fn rough(seconds: f64) -> String {
    if !seconds.is_finite() || seconds > 1e9 {
        return "long".to_owned();
    }
    let s = seconds.round() as i64;
    if s >= 90 {
        duration(TimeDelta::seconds(s + 30))
    } else {
        age(TimeDelta::seconds(s))
    }
}

/// A [`Duration`] as a signed one.
pub fn delta(d: Duration) -> TimeDelta {
    TimeDelta::from_std(d).unwrap_or(TimeDelta::MAX)
}

/// A lag: `96 s`, from ten minutes on `12m`; messages as a count.
pub fn lag(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds if value >= 600.0 => duration(TimeDelta::seconds(value as i64)),
        Unit::Seconds => format!("{} s", plain(value)),
        Unit::Messages => messages(value),
    }
}

/// The same without its unit, for labels at a chart whose title names it.
pub fn level(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => plain(value),
        Unit::Messages => messages(value),
    }
}

/// A lag's slope, `0.7/s`.
pub fn slope(per_second: f64, unit: Unit) -> String {
    let size = per_second.abs();
    match unit {
        Unit::Messages if size >= 1_000.0 => format!("{}/s", messages(size)),
        _ if size >= 10.0 => format!("{size:.0}/s"),
        _ if size >= 0.05 => format!("{size:.1}/s"),
        _ => format!("{size:.2}/s"),
    }
}

fn plain(value: f64) -> String {
    if value.abs() < 10.0 && value.fract().abs() >= 0.05 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

fn messages(value: f64) -> String {
    count(value.max(0.0).round() as u64)
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

/// `1 day`, `2 days`.
pub fn of(n: u64, one: &str) -> String {
    if n == 1 {
        format!("1 {one}")
    } else {
        format!("{} {one}s", count(n))
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
        assert_eq!(got, ["999", "1,096", "9,999", "50.7k", "999k", "1.9M", "1.9 B"]);
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
        let ages: Vec<_> = [3, 59, 60, 250, 301, 7_200, 259_200].map(|n| age(s(n))).into();
        assert_eq!(ages, ["3s", "59s", "1m", "4m10s", "5m", "2h", "3d"]);
        let took: Vec<_> = [42 * 60, 4 * 3600 + 600, 33 * 3600, 3600]
            .map(|n| duration(s(n)))
            .into();
        assert_eq!(took, ["42m", "4h10m", "33h", "1h"]);
        assert_eq!(until(s(178)), "2m58s");
        assert_eq!(age(s(-5)), "0s");
        assert_eq!(rough(120.0), "2m");
        assert_eq!(rough(f64::INFINITY), "long");
    }

    #[test]
    fn lag_changes_to_minutes_at_ten() {
        assert_eq!(lag(96.0, Unit::Seconds), "96 s");
        assert_eq!(lag(720.0, Unit::Seconds), "12m");
        assert_eq!(lag(1.1, Unit::Seconds), "1.1 s");
        assert_eq!(lag(412_345.0, Unit::Messages), "412k");
        assert_eq!(slope(-0.7, Unit::Seconds), "0.7/s");
        assert_eq!(slope(1_200.0, Unit::Messages), "1,200/s");
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
