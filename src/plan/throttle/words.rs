//! The throttle's sentences and the numbers in them.

use crate::config::Unit;
use std::time::Duration;

/// `45s`, `5m`, `4m10s`, `67m`, `2h`, `4h10m`, `33h`.
pub(crate) fn duration(d: Duration) -> String {
    let s = d.as_millis().div_ceil(1000);
    let (m, h) = (s / 60, s / 3600);
    match s {
        0..60 => format!("{s}s"),
        60..600 if !s.is_multiple_of(60) => format!("{m}m{:02}s", s % 60),
        60..5400 if s != 3600 => format!("{m}m"),
        5400..36_000 if !m.is_multiple_of(60) => format!("{h}h{:02}m", m % 60),
        _ => format!("{h}h"),
    }
}

/// A value with its unit: `64 s`, `1.1 s`, `64,210`.
pub(crate) fn value(v: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => format!("{} s", number(v)),
        Unit::Messages => number(v),
        Unit::Alerts if v == 0.0 => "quiet".to_owned(),
        Unit::Alerts => "firing".to_owned(),
    }
}

/// A threshold without its unit: `60`, `2.5`, `50,000`.
pub(crate) fn number(v: f64) -> String {
    if v.abs() < 10.0 && (v - v.round()).abs() >= 0.05 {
        return format!("{v:.1}");
    }
    let digits = format!("{:.0}", v.abs());
    let mut out = String::with_capacity(digits.len() + 8);
    if v < 0.0 && digits != "0" {
        out.push('-');
    }
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `first`, `second`, `third`, `4th`.
pub(crate) fn ordinal(n: usize) -> String {
    match n {
        1 => "first".to_owned(),
        2 => "second".to_owned(),
        3 => "third".to_owned(),
        n => format!("{n}th"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_on_the_screen() {
        let s = Duration::from_secs;
        let written: Vec<String> = [
            s(0),
            s(45),
            s(300),
            s(250),
            s(4020),
            s(3600),
            s(7200),
            s(15_000),
            s(118_800),
        ]
        .into_iter()
        .map(duration)
        .collect();
        assert_eq!(
            written,
            ["0s", "45s", "5m", "4m10s", "67m", "1h", "2h", "4h10m", "33h"]
        );
    }

    #[test]
    fn numbers_have_thousands_and_small_ones_a_decimal() {
        let written: Vec<String> = [0.0, 2.5, 5.0, 63.7, 64_210.0, -1_234_567.0]
            .into_iter()
            .map(number)
            .collect();
        assert_eq!(written, ["0", "2.5", "5", "64", "64,210", "-1,234,567"]);
    }
}
