//! What an answer says about time.

use crate::net::Answer;
use chrono::{DateTime, TimeDelta, Utc};
use reqwest::header;
use std::time::Duration;

/// The other side's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    /// Its time when the answer was here, in milliseconds of Unix time: ours, moved by as much as the two clocks are
    /// known to be apart. An answer that a cache has kept counts as given when it was made, and is now older.
    pub(super) now_ms: i64,
    /// For how long a cache on the way has kept the answer.
    pub(super) kept: Duration,
    /// Theirs minus ours; `None` where it does not tell.
    pub(super) skew_ms: Option<i64>,
}

impl Clock {
    pub(super) fn of(answer: &Answer) -> Self {
        let kept = answer.headers.get(header::AGE).and_then(|v| v.to_str().ok());
        let kept = Duration::from_secs(
            kept.and_then(|v| v.trim().parse().ok())
                .map_or(0, |s: u32| s.into()),
        );
        let theirs = answer.date().map(|date| date + kept);
        let answered = answer.sent_at + TimeDelta::from_std(answer.answered_after).unwrap_or_default();
        Self {
            kept,
            ..Self::from(theirs, answer.sent_at, answered)
        }
    }

    /// [`Self::now_ms`] as a time.
    pub(super) fn now(&self) -> DateTime<Utc> {
        // Beyond the calendar everything is old.
        DateTime::from_timestamp_millis(self.now_ms).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }

    /// `theirs` has whole seconds and was shown at some time between two of ours.
    fn from(theirs: Option<DateTime<Utc>>, asked: DateTime<Utc>, answered: DateTime<Utc>) -> Self {
        let (asked, answered) = (asked.timestamp_millis(), answered.timestamp_millis());
        let skew_ms = theirs.map(|date| {
            let from = date.timestamp_millis();
            let to = from.saturating_add(999);
            if to < asked {
                to.saturating_sub(asked)
            } else {
                from.saturating_sub(answered).max(0)
            }
        });
        Self {
            now_ms: answered.saturating_add(skew_ms.unwrap_or(0)),
            kept: Duration::ZERO,
            skew_ms,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case::within_the_second_that_it_shows(Some(100), 0, 100_500)]
    #[case::ahead_of_ours(Some(160), 59_500, 160_000)]
    #[case::behind_ours(Some(40), -59_401, 41_099)]
    fn a_clock_of_whole_seconds_is_off_only_where_that_is_certain(
        #[case] date: Option<i64>,
        #[case] skew: i64,
        #[case] now: i64,
    ) {
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        let clock = Clock::from(date.map(|s| at(s * 1000)), at(100_400), at(100_500));
        assert_eq!((clock.skew_ms, clock.now_ms), (Some(skew), now));
        let silent = Clock::from(None, at(100_400), at(100_500));
        assert_eq!((silent.skew_ms, silent.now_ms), (None, 100_500));
        assert_eq!(clock.now(), at(now));
    }

    #[test]
    fn seconds_that_touch_ours_are_not_off_and_those_that_do_not_are_by_what_lies_between() {
        let at = |text: &str| format!("2026-11-29T{text}Z").parse().unwrap();
        let (asked, answered) = (at("03:00:00.900"), at("03:00:01.100"));
        for (theirs, skew) in [
            ("03:00:00", 0),
            ("03:00:01", 0),
            ("03:00:02", 900),
            ("02:59:59", -901),
            ("04:00:00", 3_598_900),
        ] {
            let clock = Clock::from(Some(at(theirs)), asked, answered);
            assert_eq!(clock.skew_ms, Some(skew), "{theirs}");
        }
    }
}
