//! Numbers as people write and read them: durations, sizes, counts, ages, lag. Pure text, used by the configuration,
//! the command line and the screen, so that one value looks the same everywhere.
//!
//! What is *read* is strict and exact (`1h30m`, `512MiB`); what is *shown* is short and loses detail on purpose
//! (`4h10m`, `33h`, `50.7k`). Nothing that is shown is ever read back, except [`exact_duration`] and [`exact_size`].

use std::time::Duration;
use thiserror::Error;

/// The longest duration that is read: a year. What is longer is a slip of the pen.
pub const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Why a text is not the value it was read as. The sentence says what was expected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HumanError {
    /// Not a duration.
    #[error("a duration such as \"250ms\", \"5s\", \"30m\" or \"1h30m\"")]
    Duration,
    /// A number without its unit.
    #[error("a duration with its unit, such as \"{0}s\" or \"{0}m\"")]
    DurationUnit(String),
    /// Longer than [`LONGEST`].
    #[error("a duration of at most a year")]
    DurationTooLong,
    /// Not a size.
    #[error("a size such as \"512MiB\", \"500MB\" or \"1.5GB\"")]
    Size,
    /// A number without its unit.
    #[error("a size with its unit, such as \"{0}MB\" or \"{0}MiB\"")]
    SizeUnit(String),
    /// More bytes than can be counted.
    #[error("a size of at most 8 EB")]
    SizeTooLarge,
}

/// Units of durations with their milliseconds, longest first; a text names each at most once, in this order.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Reads `250ms`, `5s`, `30m`, `1h30m`, `2d`. Whole numbers, units from long to short, no blanks.
///
/// # Errors
/// Anything else, a number without a unit included, and more than [`LONGEST`].
pub fn parse_duration(text: &str) -> Result<Duration, HumanError> {
    if !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(HumanError::DurationUnit(text.to_owned()));
    }
    let mut rest = text;
    let mut total: u64 = 0;
    let mut units = UNITS.iter();
    while !rest.is_empty() {
        let (number, after) = split_while(rest, |c| c.is_ascii_digit());
        let (unit, tail) = split_while(after, |c| c.is_ascii_alphabetic());
        if number.is_empty() {
            return Err(HumanError::Duration);
        }
        let Some((_, millis)) = units.find(|(name, _)| *name == unit) else {
            return Err(HumanError::Duration);
        };
        total = number
            .parse::<u64>()
            .ok()
            .and_then(|n| n.checked_mul(*millis))
            .and_then(|n| total.checked_add(n))
            .ok_or(HumanError::DurationTooLong)?;
        rest = tail;
    }
    let whole = Duration::from_millis(total);
    if text.is_empty() {
        Err(HumanError::Duration)
    } else if whole > LONGEST {
        Err(HumanError::DurationTooLong)
    } else {
        Ok(whole)
    }
}

fn split_while(text: &str, test: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !test(c)).unwrap_or(text.len()))
}

/// The text that [`parse_duration`] reads back as the same duration, to the millisecond: `1h30m`, `250ms`, `0s`.
pub fn exact_duration(d: Duration) -> String {
    let mut millis = u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let mut out = String::new();
    for (unit, size) in UNITS {
        if millis >= size {
            out.push_str(&format!("{}{unit}", millis / size));
            millis %= size;
        }
    }
    out
}

/// Units of sizes. Decimal ones count in thousands, those with `i` in 1,024.
const SIZES: [(&str, u64); 13] = [
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
    ("kiB", 1 << 10),
];

/// Reads `512MiB`, `2GB`, `1.5GB` as bytes. Exact: a fraction that is no whole number of bytes is refused.
///
/// # Errors
/// Anything else, a number without a unit included (`M` could mean a million or 1,048,576).
pub fn parse_size(text: &str) -> Result<u64, HumanError> {
    let (number, unit) = split_while(text, |c| c.is_ascii_digit() || c == '.');
    if !number.is_empty() && number.len() <= 9 && unit.is_empty() {
        return Err(HumanError::SizeUnit(number.to_owned()));
    }
    let bytes = SIZES
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or(HumanError::Size)?
        .1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') || fraction.len() > 6 {
        return Err(HumanError::Size);
    }
    let scale = 10u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let whole: u128 = whole.parse::<u64>().map_err(|_| HumanError::SizeTooLarge)?.into();
    let fraction: u128 = fraction.parse::<u64>().map_err(|_| HumanError::Size)?.into();
    let scaled = (whole * scale + fraction) * u128::from(bytes);
    if !scaled.is_multiple_of(scale) {
        return Err(HumanError::Size);
    }
    u64::try_from(scaled / scale)
        .ok()
        .filter(|n| *n <= 8_000_000_000_000_000_000)
        .ok_or(HumanError::SizeTooLarge)
}

/// The text that [`parse_size`] reads back as the same number of bytes: `512MiB`, `2GB`, `1234B`.
pub fn exact_size(bytes: u64) -> String {
    if bytes == 0 {
        return "0B".to_owned();
    }
    let best = SIZES
        .iter()
        .filter(|(_, size)| bytes.is_multiple_of(*size))
        .max_by_key(|(name, size)| (*size, name.starts_with('k')));
    best.map_or_else(
        || format!("{bytes}B"),
        |(name, size)| format!("{}{name}", bytes / size),
    )
}

/// A duration to look at: `3s`, `2m58s`, `4m08s`, `42m`, `4h10m`, `33h`, `5d`. Seconds are shown under ten minutes,
/// minutes under ten hours; what is left off is cut, never rounded up. Below a second: `250ms`.
pub fn duration(d: Duration) -> String {
    let (s, m, h) = (d.as_secs(), d.as_secs() / 60, d.as_secs() / 3600);
    if s == 0 && !d.is_zero() {
        format!("{}ms", d.as_millis())
    } else if s < 60 {
        format!("{s}s")
    } else if m < 10 {
        two("m", m, "s", s % 60)
    } else if m < 100 {
        format!("{m}m")
    } else if h < 10 {
        two("h", h, "m", m % 60)
    } else if h < 100 {
        format!("{h}h")
    } else {
        format!("{}d", h / 24)
    }
}

fn two(big: &str, n: u64, small: &str, rest: u64) -> String {
    if rest == 0 {
        format!("{n}{big}")
    } else {
        format!("{n}{big}{rest:02}{small}")
    }
}

/// The age of something, short enough for a column: `3s`, `4m10s`, `42m`, `2h`, `3d`.
pub fn age(d: Duration) -> String {
    let h = d.as_secs() / 3600;
    if d.as_secs() < 60 {
        format!("{}s", d.as_secs())
    } else if d.as_secs() < 100 * 60 {
        duration(d)
    } else if h < 48 {
        format!("{h}h")
    } else {
        format!("{}d", h / 24)
    }
}

/// A count: exact with commas to 9,999, then `50.7k`, `365k`, `1.9M`, `1.95 B`. Cut, never rounded up, so that a
/// count is not shown as reached before it is.
pub fn count(n: u64) -> String {
    match n {
        0..=9_999 => with_commas(n),
        10_000..=999_999 => scaled(n, 1_000, "k"),
        1_000_000..=999_999_999 => scaled(n, 1_000_000, "M"),
        _ => {
            let hundredths = n / 10_000_000;
            format!("{}.{:02} B", with_commas(hundredths / 100), hundredths % 100)
        }
    }
}

fn scaled(n: u64, unit: u64, suffix: &str) -> String {
    let tenths = n / (unit / 10);
    if tenths < 1_000 {
        format!("{}.{}{suffix}", tenths / 10, tenths % 10)
    } else {
        format!("{}{suffix}", tenths / 10)
    }
}

/// A whole number with a comma between thousands: `1,096`, `36,500`.
pub fn with_commas(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Bytes on screen, decimal, one figure after the point: `640 B`, `41.2 GB`, `0.9 TB`. The next unit begins at 0.9 of
/// it.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if n < 900 {
        return format!("{n} B");
    }
    let mut unit: u128 = 1_000;
    for (i, name) in UNITS.iter().enumerate() {
        let last = i + 1 == UNITS.len();
        if last || u128::from(n) < unit * 900 {
            let tenths = u128::from(n) * 10 / unit;
            return format!("{}.{} {name}", tenths / 10, tenths % 10);
        }
        unit *= 1_000;
    }
    format!("{n} B")
}

/// A ratio: `50.3x`. Not a number, or not finite, is `?x`.
pub fn ratio(r: f64) -> String {
    if r.is_finite() {
        format!("{r:.1}x")
    } else {
        "?x".to_owned()
    }
}

/// Lag in seconds as the header shows it: `96 s`, from ten minutes `12m`, then `4h10m`. Not finite is `?`.
pub fn lag_seconds(s: f64) -> String {
    if !s.is_finite() {
        "?".to_owned()
    } else if s < 600.0 {
        format!("{} s", s.max(0.0).floor())
    } else {
        duration(
            Duration::try_from_secs_f64(s)
                .unwrap_or(LONGEST)
                .min(LONGEST * 100),
        )
    }
}

/// Lag in messages, as a count. Not finite is `?`.
pub fn lag_messages(n: f64) -> String {
    if n.is_finite() {
        // A cast of a finite number saturates, which is right for display.
        count(n.max(0.0) as u64)
    } else {
        "?".to_owned()
    }
}

/// A slope in units per second, without sign (the screen has a glyph for the direction): `0.7/s`, `1.2k/s`.
pub fn slope(per_second: f64) -> String {
    let s = per_second.abs();
    if !s.is_finite() {
        "?/s".to_owned()
    } else if s < 100.0 {
        format!("{s:.1}/s")
    } else {
        format!("{}/s", count(s as u64))
    }
}

/// A whole percentage that says 100 only when nothing is left: `37%`, `99%`. Of nothing it is `100%`.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 || part >= whole {
        return "100%".to_owned();
    }
    format!("{}%", u128::from(part) * 100 / u128::from(whole))
}

/// `1 day`, `3 days`: a count with its noun; the plural is the noun with `s`.
pub fn counted(n: u64, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{} {noun}s", count(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn s(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, millis) in [
            ("250ms", 250),
            ("5s", 5_000),
            ("30m", 1_800_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
            ("90m", 5_400_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_what_was_expected() {
        for text in [
            "", "s", "5 s", "5S", "30m1h", "1h1h", "1.5h", "-5s", "5sec", "5s ", "\u{661}s", "5ms5",
        ] {
            assert_eq!(parse_duration(text), Err(HumanError::Duration), "{text:?}");
        }
        assert_eq!(
            parse_duration("30").unwrap_err().to_string(),
            "a duration with its unit, such as \"30s\" or \"30m\""
        );
        for text in ["400d", "99999999999999999999d", "18446744073709551615h"] {
            assert_eq!(parse_duration(text), Err(HumanError::DurationTooLong), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("0B", 0),
            ("512MiB", 536_870_912),
            ("500MB", 500_000_000),
            ("2GB", 2_000_000_000),
            ("1.5GB", 1_500_000_000),
            ("1.5GiB", 1_610_612_736),
            ("64kB", 64_000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "MB",
            "512mb",
            "512M",
            "1..5GB",
            "1.GB",
            ".5GB",
            "1.5B",
            "5 GB",
            "-1GB",
            "1.2345678GB",
        ] {
            assert_eq!(parse_size(text), Err(HumanError::Size), "{text:?}");
        }
        assert_eq!(parse_size("512"), Err(HumanError::SizeUnit("512".to_owned())));
        assert_eq!(parse_size("99999999PB"), Err(HumanError::SizeTooLarge));
    }

    #[test]
    fn durations_lose_detail_as_they_grow() {
        let shown: Vec<_> = [
            0, 3, 59, 60, 178, 248, 250, 360, 2_520, 4_200, 15_000, 118_800, 439_200,
        ]
        .into_iter()
        .map(|n| duration(s(n)))
        .collect();
        assert_eq!(
            shown,
            [
                "0s", "3s", "59s", "1m", "2m58s", "4m08s", "4m10s", "6m", "42m", "70m", "4h10m", "33h", "5d"
            ]
        );
        assert_eq!(duration(Duration::from_millis(250)), "250ms");
        assert_eq!(duration(Duration::from_millis(1_999)), "1s");
    }

    #[test]
    fn ages_fit_a_column() {
        let shown: Vec<_> = [0, 3, 250, 360, 2_520, 7_300, 172_799, 259_300]
            .into_iter()
            .map(|n| age(s(n)))
            .collect();
        assert_eq!(shown, ["0s", "3s", "4m10s", "6m", "42m", "2h", "47h", "3d"]);
        assert!((0..10_000_000).step_by(997).all(|n| age(s(n)).len() <= 5));
    }

    #[test]
    fn counts_are_exact_to_9999_and_never_ahead_of_the_truth() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1_096, "1,096"),
            (9_999, "9,999"),
            (10_000, "10.0k"),
            (50_799, "50.7k"),
            (99_999, "99.9k"),
            (365_000, "365k"),
            (999_999, "999k"),
            (1_999_999, "1.9M"),
            (1_950_000_000, "1.95 B"),
            (u64::MAX, "18,446,744,073.70 B"),
        ] {
            assert_eq!(count(n), text);
        }
        assert_eq!(counted(1, "day"), "1 day");
        assert_eq!(counted(1_096, "day"), "1,096 days");
    }

    #[test]
    fn bytes_are_decimal_on_screen() {
        for (n, text) in [
            (640, "640 B"),
            (536_870_912, "536.8 MB"),
            (41_200_000_000, "41.2 GB"),
            (900_000_000_000, "0.9 TB"),
            (3_100_000_000_000, "3.1 TB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn lag_slope_ratio_and_share_read_as_in_the_pictures() {
        assert_eq!(lag_seconds(96.7), "96 s");
        assert_eq!(lag_seconds(725.0), "12m");
        assert_eq!(lag_seconds(f64::NAN), "?");
        assert_eq!(lag_seconds(f64::MAX), lag_seconds(1e300));
        assert_eq!(lag_messages(50_700.4), "50.7k");
        assert_eq!(slope(-0.71), "0.7/s");
        assert_eq!(slope(1_234.0), "1,234/s");
        assert_eq!(ratio(50.34), "50.3x");
        assert_eq!(percent(1_095, 1_096), "99%");
        assert_eq!(percent(1_096, 1_096), "100%");
    }

    proptest! {
        #[test]
        fn an_exact_duration_is_read_back_as_itself(millis in 0u64..=366 * 86_400_000) {
            let d = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&exact_duration(d)), Ok(d));
        }

        #[test]
        fn an_exact_size_is_read_back_as_itself(n in 0u64..=8_000_000_000_000_000_000, shift in 0u32..40) {
            for bytes in [n, n >> shift << shift, n >> shift] {
                prop_assert_eq!(parse_size(&exact_size(bytes)), Ok(bytes));
            }
        }

        #[test]
        fn any_text_is_read_or_refused_without_harm(text: String) {
            let _ = parse_duration(&text);
            let _ = parse_size(&text);
        }

        #[test]
        fn any_number_can_be_shown(n: u64, x: f64) {
            let _ = (count(n), bytes(n), age(s(n)), duration(s(n)), percent(n / 2, n));
            let _ = (lag_seconds(x), lag_messages(x), slope(x), ratio(x));
        }
    }
}
