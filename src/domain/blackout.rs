//! Windows of the day in which nothing starts: business hours, the nightly batch of somebody else.
//!
//! Civil times of a zone, so that 08:00 stays 08:00 when clocks change. Where a civil time happens twice a window begins
//! at the first and ends at the second, and where it does not happen at all, with the first instant after the gap: never
//! a minute too little.

use super::{
    Time,
    calendar::{first_instant, last_instant},
};
use chrono::{Datelike, Days, NaiveDate, NaiveTime, TimeDelta, Weekday};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, time::Duration};
use thiserror::Error;

/// A minute of the civil day, `00:00` to `24:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Minute(u16);

/// A text that is no minute of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a time of the day such as \"08:00\", from \"00:00\" to \"24:00\"")]
pub struct NoMinute;

impl Minute {
    const MIDNIGHT: u16 = 24 * 60;

    /// Midnight at the end of a day. A window cannot begin then.
    pub const fn is_end_of_day(self) -> bool {
        self.0 == Self::MIDNIGHT
    }

    /// On a civil date; `24:00` is the next date's midnight.
    fn on(self, date: NaiveDate) -> chrono::NaiveDateTime {
        date.and_time(NaiveTime::MIN) + TimeDelta::minutes(i64::from(self.0))
    }
}

impl FromStr for Minute {
    type Err = NoMinute;

    fn from_str(text: &str) -> Result<Self, NoMinute> {
        let (hour, minute) = text.split_once(':').ok_or(NoMinute)?;
        let two = |t: &str| -> Result<u16, NoMinute> {
            let digits = t.len() == 2 && t.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| t.parse().ok()).flatten().ok_or(NoMinute)
        };
        let (hour, minute) = (two(hour)?, two(minute)?);
        let all = hour * 60 + minute;
        if minute < 60 && all <= Self::MIDNIGHT {
            Ok(Self(all))
        } else {
            Err(NoMinute)
        }
    }
}

impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl TryFrom<String> for Minute {
    type Error = NoMinute;

    fn try_from(text: String) -> Result<Self, NoMinute> {
        text.parse()
    }
}

impl From<Minute> for String {
    fn from(minute: Minute) -> Self {
        minute.to_string()
    }
}

/// Days of the week, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Weekdays(u8);

/// A text that names no days of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("days such as \"mon-fri\", \"sat,sun\" or \"daily\"")]
pub struct NoWeekdays;

const WORDS: [(&str, Weekday); 7] = [
    ("mon", Weekday::Mon),
    ("tue", Weekday::Tue),
    ("wed", Weekday::Wed),
    ("thu", Weekday::Thu),
    ("fri", Weekday::Fri),
    ("sat", Weekday::Sat),
    ("sun", Weekday::Sun),
];

impl Weekdays {
    /// Each day.
    pub const DAILY: Self = Self(0b0111_1111);

    /// Whether the day is one of them.
    pub fn contains(self, day: Weekday) -> bool {
        self.0 & bit(day) != 0
    }
}

fn bit(day: Weekday) -> u8 {
    1 << day.num_days_from_monday()
}

impl FromStr for Weekdays {
    type Err = NoWeekdays;

    /// `daily`, or days and ranges of days with commas between them. A range may pass over the week's end: `fri-mon`.
    fn from_str(text: &str) -> Result<Self, NoWeekdays> {
        if text == "daily" {
            return Ok(Self::DAILY);
        }
        let day = |word: &str| WORDS.iter().find(|(w, _)| *w == word.trim()).map(|(_, d)| *d);
        let mut bits = 0;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (mut at, last) = (day(first).ok_or(NoWeekdays)?, day(last).ok_or(NoWeekdays)?);
            bits |= bit(at);
            while at != last {
                at = at.succ();
                bits |= bit(at);
            }
        }
        Ok(Self(bits))
    }
}

impl fmt::Display for Weekdays {
    /// Three days in a row and more as a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::DAILY {
            return f.write_str("daily");
        }
        let mut parts: Vec<String> = Vec::new();
        let mut days = WORDS.iter().filter(|(_, d)| self.contains(*d)).peekable();
        while let Some((first, day)) = days.next() {
            let (mut last, mut at, mut more) = (*first, *day, 0);
            while let Some((word, next)) = days.next_if(|(_, d)| *d == at.succ()) {
                (last, at, more) = (*word, *next, more + 1);
            }
            match more {
                0 => parts.push((*first).to_owned()),
                1 => parts.extend([(*first).to_owned(), last.to_owned()]),
                _ => parts.push(format!("{first}-{last}")),
            }
        }
        f.write_str(&parts.join(","))
    }
}

impl TryFrom<String> for Weekdays {
    type Error = NoWeekdays;

    fn try_from(text: String) -> Result<Self, NoWeekdays> {
        text.parse()
    }
}

impl From<Weekdays> for String {
    fn from(days: Weekdays) -> Self {
        days.to_string()
    }
}

/// A window that comes back every week, in which no chunk starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blackout {
    /// When it begins.
    pub from: Minute,
    /// When it ends: on the next day where that is not after `from`.
    pub to: Minute,
    /// On which days it begins.
    pub days: Weekdays,
    /// The zone whose civil times these are.
    pub timezone: Tz,
}

impl fmt::Display for Blackout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from,
            to,
            days,
            timezone,
        } = self;
        write!(f, "{from} to {to} {days} {timezone}")
    }
}

/// A blackout: one window, or several that follow each other without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// When the window began.
    pub from: Time,
    /// The first instant with starts again; `None`: not within [`HORIZON`].
    pub until: Option<Time>,
    /// The window; of several that are open at once the one that lasts longest.
    pub window: Blackout,
}

/// How far ahead is looked. What comes back does so every week.
pub const HORIZON: TimeDelta = TimeDelta::days(9);

impl Blackout {
    /// The window that begins on a civil date, if it does on that day of the week and lasts at all: clocks can jump over
    /// all of it.
    fn on(&self, date: NaiveDate) -> Option<(Time, Time)> {
        if !self.days.contains(date.weekday()) {
            return None;
        }
        let last = if self.to > self.from {
            date
        } else {
            date.checked_add_days(Days::new(1))?
        };
        let from = first_instant(self.timezone, self.from.on(date));
        let to = last_instant(self.timezone, self.to.on(last));
        (from < to).then_some((from, to))
    }

    /// The windows that end after an instant, the first one first, as far as [`HORIZON`].
    fn from(&self, now: Time) -> impl Iterator<Item = (Time, Time)> + '_ {
        let today = now.with_timezone(&self.timezone).date_naive();
        // One that crosses midnight has begun the day before; a zone's day can be two from another's.
        let first = today.checked_sub_days(Days::new(2)).unwrap_or(today);
        let dates = first.iter_days().take(12);
        dates
            .filter_map(|date| self.on(date))
            .filter(move |(_, to)| *to > now)
    }
}

/// The blackout that holds now, through all windows that follow without a gap.
pub fn now(all: &[Blackout], now: Time) -> Option<Closed> {
    let open_at = |at: Time| {
        let each = all.iter().filter_map(move |window| {
            let (from, to) = window.from(at).next().filter(|(from, _)| *from <= at)?;
            Some((from, to, *window))
        });
        each.max_by_key(|(_, to, _)| *to)
    };
    let (from, mut until, window) = open_at(now)?;
    while let Some((_, to, _)) = open_at(until) {
        until = to;
        if until - now > HORIZON {
            break;
        }
    }
    Some(Closed {
        from,
        until: (until - now <= HORIZON).then_some(until),
        window,
    })
}

/// The next blackout; while one holds, the one after it.
pub fn next(all: &[Blackout], at: Time) -> Option<Closed> {
    let at = match now(all, at) {
        Some(closed) => closed.until?,
        None => at,
    };
    let begins = |window: &Blackout| window.from(at).map(|(from, _)| from).find(|from| *from > at);
    let from = all.iter().filter_map(begins).min()?;
    now(all, from)
}

/// The longest time between two blackouts from now on; `None`: there is no end to it, or no such time.
pub fn longest_free(all: &[Blackout], from: Time) -> Option<TimeDelta> {
    let mut at = match now(all, from) {
        Some(closed) => closed.until?,
        None => from,
    };
    let mut longest = None;
    while at - from < HORIZON {
        let closed = next(all, at)?;
        longest = longest.max(Some(closed.from - at));
        at = closed.until?;
    }
    longest
}

/// When so much work is done that goes on outside of blackouts only. `None`: not within some hundred of them.
pub fn after(all: &[Blackout], from: Time, work: Duration) -> Option<Time> {
    let mut at = from;
    let mut left = TimeDelta::from_std(work).ok()?;
    for _ in 0..1_000 {
        if let Some(closed) = now(all, at) {
            at = closed.until?;
        }
        let free = match next(all, at) {
            Some(closed) if closed.from < at + left => closed.from - at,
            _ => return at.checked_add_signed(left),
        };
        (at, left) = (at + free, left - free);
    }
    None
}

#[cfg(test)]
#[path = "blackout_tests.rs"]
mod tests;
