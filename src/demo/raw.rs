//! The raw events: three years of a shop's orders with a weekly rhythm, growth, and Black Fridays of fifty times
//! the usual. One file a day, `raw/dt=2024-11-29.csv`, the same bytes for the same seed and day.

use super::dice::{Dice, Purpose};
use chrono::{Datelike, Days, NaiveDate, Weekday};
use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// How many days there are: the civil days from 2022-01-01 to 2024-12-31.
pub const ALL_DAYS: u32 = 1096;

/// The columns of a raw file, and its first line.
pub const HEADER: &str = "id,at,country,category,units,cents";

/// How much larger a Black Friday is than that Friday would have been.
pub const BLACK_FRIDAY: u32 = 50;

const COUNTRIES: [&str; 12] = [
    "DE", "FR", "ES", "IT", "NL", "PL", "AT", "BE", "CH", "CZ", "DK", "SE",
];
const CATEGORIES: [&str; 8] = [
    "shoes", "books", "kitchen", "sport", "toys", "garden", "tools", "music",
];

/// Orders of an ordinary weekday at the start, before rhythm and growth.
const BASE: u64 = 150;
/// Monday to Sunday, in thousandths.
const RHYTHM: [u64; 7] = [950, 900, 920, 1000, 1150, 1250, 830];
/// Orders of each hour, relative to each other.
const HOURS: [u32; 24] = [
    8, 5, 3, 2, 2, 3, 6, 12, 20, 28, 34, 38, 42, 40, 38, 36, 38, 44, 52, 60, 64, 56, 36, 18,
];

/// The newest day of raw events.
pub const fn last_day() -> NaiveDate {
    match NaiveDate::from_ymd_opt(2024, 12, 31) {
        Some(date) => date,
        None => NaiveDate::MAX,
    }
}

/// First and last of the newest `days` days, both inclusive; `None` when there are not so many, or none.
pub fn range(days: u32) -> Option<(NaiveDate, NaiveDate)> {
    let back = days.checked_sub(1).filter(|_| days <= ALL_DAYS)?;
    let first = last_day().checked_sub_days(Days::new(u64::from(back)))?;
    Some((first, last_day()))
}

/// Whether a day is a Black Friday: the day after the fourth Thursday of November.
pub fn is_black_friday(date: NaiveDate) -> bool {
    date.month() == 11 && date.weekday() == Weekday::Fri && (23..=29).contains(&date.day())
}

/// How many raw events a day has.
pub fn rows_of(seed: u64, date: NaiveDate) -> u32 {
    let age = last_day()
        .signed_duration_since(date)
        .num_days()
        .clamp(0, i64::from(ALL_DAYS) - 1);
    // Twice as many orders at the end as at the start.
    let growth = 2000 - 1000 * age.unsigned_abs() / u64::from(ALL_DAYS - 1);
    let rhythm = RHYTHM[date.weekday().num_days_from_monday() as usize];
    let noise = u64::from(Dice::of_day(seed, Purpose::Volume, date).between(920, 1080));
    let times = if is_black_friday(date) {
        u64::from(BLACK_FRIDAY)
    } else {
        1
    };
    u32::try_from(BASE * growth * rhythm * noise * times / 1_000_000_000).unwrap_or(u32::MAX)
}

/// The file of a day inside the folder of raw events.
pub fn file_of(raw: &Path, date: NaiveDate) -> PathBuf {
    raw.join(format!("dt={date}.csv"))
}

/// The day whose raw events are torn when faults are wanted: early enough to be met within the first minute, never
/// a Black Friday.
pub fn bad_day(seed: u64, first: NaiveDate, days: u32) -> NaiveDate {
    let earliest = (days / 3).min(45);
    let spread = (days - earliest).clamp(1, 7);
    let mut at = earliest + Dice::of(seed, Purpose::Faults, 0).below(spread);
    let day = |at: u32| first.checked_add_days(Days::new(u64::from(at))).unwrap_or(first);
    if is_black_friday(day(at)) && days > 1 {
        at = if at == 0 { 1 } else { at - 1 };
    }
    day(at)
}

/// Writes the file of one day. With `torn` one line in its middle ends early, as after a broken upload.
///
/// # Errors
/// The file cannot be written.
pub fn write_day(raw: &Path, seed: u64, date: NaiveDate, torn: bool) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(file_of(raw, date))?);
    write_events(&mut out, seed, date, torn)?;
    out.flush()
}

/// Writes the files of `days` days from `first` on; `torn` names the day that gets a torn line.
///
/// # Errors
/// The folder or a file cannot be written.
pub fn write_days(
    raw: &Path,
    seed: u64,
    first: NaiveDate,
    days: u32,
    torn: Option<NaiveDate>,
) -> io::Result<()> {
    fs::create_dir_all(raw)?;
    for date in first.iter_days().take(days as usize) {
        write_day(raw, seed, date, torn == Some(date))?;
    }
    Ok(())
}

fn write_events(out: &mut impl Write, seed: u64, date: NaiveDate, torn: bool) -> io::Result<()> {
    let rows = rows_of(seed, date);
    let mut dice = Dice::of_day(seed, Purpose::Rows, date);
    let mut seconds: Vec<u32> = (0..rows).map(|_| second_of_day(&mut dice)).collect();
    seconds.sort_unstable();
    let (year, month, day) = (date.year(), date.month(), date.day());
    let torn_at = torn.then_some(rows / 2);
    writeln!(out, "{HEADER}")?;
    for (i, second) in (0u32..).zip(seconds) {
        write!(
            out,
            "{year}{month:02}{day:02}-{i:06},{year}-{month:02}-{day:02}T{:02}:{:02}",
            second / 3600,
            second / 60 % 60,
        )?;
        let country = pick(&mut dice, &COUNTRIES);
        let category = pick(&mut dice, &CATEGORIES);
        let units = 1 + dice.below(3) * dice.below(2);
        let cents = dice.between(5, 180) * 100 - 1;
        if torn_at == Some(i) {
            writeln!(out)?;
        } else {
            writeln!(out, ":{:02}Z,{country},{category},{units},{cents}", second % 60)?;
        }
    }
    Ok(())
}

fn second_of_day(dice: &mut Dice) -> u32 {
    let mut left = dice.below(HOURS.iter().sum());
    let mut hour = 0;
    for weight in HOURS {
        if left < weight {
            break;
        }
        left -= weight;
        hour += 1;
    }
    hour * 3600 + dice.below(3600)
}

/// One of a list, the front of it more often.
fn pick(dice: &mut Dice, list: &[&'static str]) -> &'static str {
    let n = u32::try_from(list.len()).unwrap_or(u32::MAX);
    let at = dice.below(n).min(dice.below(n));
    list.get(at as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(y: i32, m: u32, d: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(y, m, d).unwrap()
    }

    fn bytes(seed: u64, date: NaiveDate, torn: bool) -> String {
        let mut out = Vec::new();
        write_events(&mut out, seed, date, torn).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn all_days_are_three_civil_years() {
        assert_eq!(range(ALL_DAYS), Some((date(2022, 1, 1), date(2024, 12, 31))));
        assert_eq!(range(1), Some((date(2024, 12, 31), date(2024, 12, 31))));
        assert_eq!(range(0), None);
        assert_eq!(range(ALL_DAYS + 1), None);
    }

    #[test]
    fn the_newest_sixty_days_hold_exactly_one_black_friday() {
        let (first, _) = range(60).unwrap();
        let heavy: Vec<NaiveDate> = first
            .iter_days()
            .take(60)
            .filter(|d| is_black_friday(*d))
            .collect();
        assert_eq!(heavy, [date(2024, 11, 29)]);
    }

    #[test]
    fn black_fridays_follow_the_fourth_thursday_of_november() {
        let (first, _) = range(ALL_DAYS).unwrap();
        let all: Vec<NaiveDate> = first
            .iter_days()
            .take(ALL_DAYS as usize)
            .filter(|d| is_black_friday(*d))
            .collect();
        assert_eq!(all, [date(2022, 11, 25), date(2023, 11, 24), date(2024, 11, 29)]);
    }

    #[test]
    fn a_black_friday_is_fifty_times_the_fridays_around_it() {
        for seed in 0..20 {
            let around = (rows_of(seed, date(2023, 11, 17)) + rows_of(seed, date(2023, 12, 1))) / 2;
            let ratio = f64::from(rows_of(seed, date(2023, 11, 24))) / f64::from(around);
            assert!((40.0..62.0).contains(&ratio), "seed {seed}: {ratio}");
        }
    }

    #[test]
    fn volumes_double_in_three_years_and_weekends_differ_from_mondays() {
        let of_month = |y, m| (1..=28).map(|d| rows_of(3, date(y, m, d))).sum::<u32>();
        let growth = f64::from(of_month(2024, 12)) / f64::from(of_month(2022, 1));
        assert!((1.8..2.1).contains(&growth), "{growth}");
        let of_weekday = |n: u32| {
            (0..20)
                .map(|w| rows_of(3, date(2023, 1, 2 + n) + Days::new(7 * w)))
                .sum::<u32>()
        };
        assert!(of_weekday(5) > of_weekday(0) && of_weekday(0) > of_weekday(6));
    }

    #[test]
    fn one_seed_and_day_give_the_same_bytes_and_another_seed_others() {
        let day = date(2024, 2, 29);
        assert_eq!(bytes(5, day, false), bytes(5, day, false));
        assert_ne!(bytes(5, day, false), bytes(6, day, false));
        assert_ne!(bytes(5, day, false), bytes(5, date(2024, 2, 28), false));
    }

    #[test]
    fn a_torn_file_differs_in_one_short_line() {
        let day = date(2024, 2, 29);
        let (whole, torn) = (bytes(5, day, false), bytes(5, day, true));
        let different: Vec<(&str, &str)> = whole.lines().zip(torn.lines()).filter(|(a, b)| a != b).collect();
        assert_eq!(whole.lines().count(), torn.lines().count());
        assert_eq!(different.len(), 1);
        let (from, to) = different[0];
        assert!(from.starts_with(to) && to.split(',').count() == 2, "{to}");
    }

    #[test]
    fn the_bad_day_is_inside_the_range_and_never_a_black_friday() {
        for days in 1..=ALL_DAYS {
            let (first, last) = range(days).unwrap();
            for seed in 0..8 {
                let bad = bad_day(seed, first, days);
                assert!((first..=last).contains(&bad), "{days} {seed} {bad}");
                assert!(!is_black_friday(bad), "{days} {seed} {bad}");
            }
        }
    }
}
