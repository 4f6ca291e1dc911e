//! `blackout` of `[backfills.NAME]`: windows in which nothing starts.

use super::{
    backfills::timezone,
    problem::Report,
    read::{Entry, Section, quoted},
};
use crate::domain::{
    Time,
    blackout::{self, Blackout, Minute, Weekdays},
};
use chrono::TimeDelta;
use chrono_tz::Tz;
use std::str::FromStr;

const EXPECTED: &str =
    "a list of windows, as in [{ from = \"08:00\", to = \"20:00\", days = \"mon-fri\", timezone = \"UTC\" }]";

/// All of them are looked at before each start; a week has no use for more.
const MOST: usize = 20;

/// Reads the windows; `zone` is the backfill's own, for those that name none.
pub(super) fn windows(
    report: &mut Report<'_>,
    section: &Section<'_>,
    zone: Option<Tz>,
) -> Option<Vec<Blackout>> {
    let Some(entry) = section.get("blackout") else {
        return Some(Vec::new());
    };
    let items = entry.list(report, EXPECTED)?;
    if items.len() > MOST {
        let found = format!("{} windows", items.len());
        entry.problem(
            report,
            found,
            format!("at most {MOST} windows"),
            "a window comes back every week by itself",
        );
        return None;
    }
    let each: Vec<Option<Blackout>> = items.iter().map(|item| window(report, item, zone)).collect();
    let windows: Vec<Blackout> = each.into_iter().collect::<Option<_>>()?;
    if leaves_nothing(&windows) {
        let found = "windows that leave no minute of the week free".to_owned();
        entry.problem(
            report,
            found,
            "some time in which chunks may start",
            "to stop a backfill, pause it",
        );
        return None;
    }
    Some(windows)
}

fn window(report: &mut Report<'_>, item: &Entry<'_>, zone: Option<Tz>) -> Option<Blackout> {
    let section = item.section(report, "a window, as in { from = \"08:00\", to = \"20:00\" }")?;
    section.only(report, &["from", "to", "days", "timezone"]);
    let mut minute = |key: &str, expected: &str| {
        let entry = section.required(report, key, expected)?;
        read::<Minute>(report, &entry)
    };
    let from = minute("from", "when it begins, as in \"08:00\"");
    let to = minute("to", "when it ends, as in \"20:00\"");
    let days = match section.get("days") {
        Some(entry) => read::<Weekdays>(report, &entry),
        None => Some(Weekdays::DAILY),
    };
    let timezone = match section.get("timezone") {
        Some(entry) => timezone(report, &entry),
        None => zone,
    };
    let window = Blackout {
        from: from?,
        to: to?,
        days: days?,
        timezone: timezone?,
    };
    if window.from == window.to || window.from.is_end_of_day() {
        let (from, to) = (window.from, window.to);
        let help = "a whole day is from \"00:00\" to \"24:00\"";
        item.problem(
            report,
            format!("{from} to {to}"),
            "a window that begins before it ends",
            help,
        );
        return None;
    }
    Some(window)
}

fn read<T: FromStr<Err: std::fmt::Display>>(report: &mut Report<'_>, entry: &Entry<'_>) -> Option<T> {
    let found = entry.text(report, "a text")?;
    match found.parse() {
        Ok(value) => Some(value),
        Err(expected) => {
            entry.problem(report, quoted(found), expected.to_string(), "");
            None
        }
    }
}

/// Whether nothing could ever start: what holds now holds for more than a week.
fn leaves_nothing(windows: &[Blackout]) -> bool {
    // Any week without a change of clocks tells; a month apart, in case one has it somewhere.
    let weeks = [18_000, 18_040].map(|day| Time::UNIX_EPOCH + TimeDelta::days(day));
    weeks
        .iter()
        .all(|at| blackout::now(windows, *at).is_some_and(|closed| closed.until.is_none()))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use std::path::Path;

    fn parsed(blackout: &str) -> Result<Vec<String>, String> {
        let text = format!(
            "[executors.here]\nkind = \"local\"\nslots = 4\n[backfills.orders]\ntarget = \"t\"\nstart = 2023-01-01\n\
             end = 2023-01-02\ngranularity = \"day\"\ntimezone = \"Europe/Berlin\"\nexecutor = \"here\"\n\
             command = [\"./job.sh\"]\nblackout = {blackout}\n[profiles.default]\n"
        );
        match Config::parse(&text, Path::new("/etc/backfill/config.toml")) {
            Ok(config) => {
                let spec = &config.backfills.values().next().unwrap().spec;
                Ok(spec.blackout.iter().map(ToString::to_string).collect())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn days_and_zone_may_be_left_out() {
        let two = r#"[{ from = "08:00", to = "20:00", days = "mon-fri", timezone = "UTC" }, { from = "22:30", to = "02:00" }]"#;
        assert_eq!(
            parsed(two).unwrap(),
            ["08:00 to 20:00 mon-fri UTC", "22:30 to 02:00 daily Europe/Berlin"]
        );
        assert_eq!(parsed("[]").unwrap(), [""; 0]);
    }

    #[test]
    fn what_cannot_be_a_window_is_refused_with_what_was_expected() {
        for (written, expected) in [
            (
                r#"[{ from = "8:00", to = "20:00" }]"#,
                "a time of the day such as \"08:00\"",
            ),
            (r#"[{ from = "08:00" }]"#, "when it ends, as in \"20:00\""),
            (
                r#"[{ from = "08:00", to = "20:00", days = "workdays" }]"#,
                "days such as \"mon-fri\"",
            ),
            (
                r#"[{ from = "08:00", to = "08:00" }]"#,
                "a window that begins before it ends",
            ),
            (
                r#"[{ from = "24:00", to = "08:00" }]"#,
                "a window that begins before it ends",
            ),
            (
                r#"[{ from = "08:00", to = "09:00", timezone = "Berlin" }]"#,
                "did you mean \"Europe/Berlin\"?",
            ),
            (r#"[{ from = "08:00", to = "09:00", day = "mon" }]"#, "day"),
            (r#""08:00-20:00""#, "a list of windows"),
            (
                r#"[{ from = "00:00", to = "24:00" }]"#,
                "some time in which chunks may start",
            ),
            (
                r#"[{ from = "00:00", to = "12:00" }, { from = "12:00", to = "00:00" }]"#,
                "some time in which chunks may start",
            ),
        ] {
            let error = parsed(written).unwrap_err();
            assert!(error.contains(expected), "{written}: {error}");
            assert!(error.contains("backfills.orders.blackout"), "{written}: {error}");
        }
        let many = format!("[{}]", r#"{ from = "08:00", to = "09:00" }, "#.repeat(21));
        assert!(parsed(&many).unwrap_err().contains("at most 20 windows"));
    }
}
