//! The lines of a task's log as a reader wants them: without what Airflow wraps around the words of the work, and of
//! both versions alike.

use super::wire::LogLine as Raw;
use crate::{domain::Time, executor::inside::LogLine};
use chrono::DateTime;

/// What Airflow says about itself, by the titles that it gives to it. Groups of the work's own stay.
const OWN_GROUPS: [&str; 6] = [
    "Log message source details",
    "Pre task execution logs",
    "Post task execution logs",
    "Pre Execute",
    "Post Execute",
    "Pre execute",
];

/// Takes the markers out, what lies in Airflow's own groups with them, and gives every line its time and level.
/// `inside` says whether the lines go on in such a group, and afterwards whether the next ones will.
pub fn readable(raw: Vec<Raw>, inside: &mut bool) -> Vec<LogLine> {
    raw.into_iter()
        .filter_map(|line| {
            let line = dressed(line);
            if let Some(title) = line.text.strip_prefix("::group::") {
                *inside = OWN_GROUPS.iter().any(|own| title.trim().starts_with(own));
                let shown = !*inside && !title.trim().is_empty();
                return shown.then(|| LogLine {
                    text: title.trim().to_owned(),
                    ..line
                });
            }
            if line.text.starts_with("::endgroup::") {
                *inside = false;
                return None;
            }
            // Trouble is shown wherever it is told.
            let kept = !*inside || is_trouble(&line);
            (kept && !is_about_the_file(&line)).then_some(line)
        })
        .collect()
}

fn is_trouble(line: &LogLine) -> bool {
    matches!(
        line.level.as_deref(),
        Some("warning" | "error" | "critical" | "fatal")
    )
}

/// Where the log was found; 2.x says so in stars.
fn is_about_the_file(line: &LogLine) -> bool {
    line.text.starts_with("*** ")
}

/// A line with its own time and level; a 2.x writes them into the text, `[time] {file:line} LEVEL - text`, and leaves
/// time and file out of its first lines.
fn dressed(raw: Raw) -> LogLine {
    let plain = |raw: Raw| LogLine {
        at: raw.at,
        level: raw.level.map(|l| l.to_ascii_lowercase()),
        text: raw.text,
    };
    if raw.at.is_some() || raw.level.is_some() {
        return plain(raw);
    }
    let trimmed = raw.text.trim_start();
    let (at, rest) = match trimmed.strip_prefix('[').and_then(|t| t.split_once("] {")) {
        Some((time, rest)) => match (written(time), rest.split_once("} ")) {
            (Some(at), Some((_, rest))) => (Some(at), rest),
            _ => return plain(raw),
        },
        None => (None, trimmed),
    };
    let level = |word: &str| matches!(word, "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL");
    match rest.split_once(" - ").filter(|(word, _)| level(word.trim())) {
        Some((word, text)) => LogLine {
            at,
            level: Some(word.trim().to_ascii_lowercase()),
            text: text.to_owned(),
        },
        None => plain(raw),
    }
}

fn written(time: &str) -> Option<Time> {
    let time = DateTime::parse_from_str(time, "%Y-%m-%dT%H:%M:%S%.f%z").ok()?;
    Some(time.to_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw {
            at: None,
            level: None,
            text: text.to_owned(),
        }
    }

    fn texts(lines: &[LogLine]) -> Vec<&str> {
        lines.iter().map(|l| l.text.as_str()).collect()
    }

    #[test]
    fn a_line_of_2_has_its_time_and_level_beside_its_words() {
        let mut inside = false;
        let lines = readable(
            vec![
                raw(
                    "[2026-11-29T17:02:42.619+0000] {taskinstance.py:3337} ERROR - Task failed - with exception",
                ),
                raw("Traceback (most recent call last):"),
                raw("[not a time] {x} INFO - y"),
                raw("INFO - said by the work"),
            ],
            &mut inside,
        );
        assert_eq!(
            texts(&lines),
            [
                "Task failed - with exception",
                "Traceback (most recent call last):",
                "[not a time] {x} INFO - y",
                "said by the work",
            ]
        );
        assert_eq!(lines[0].level.as_deref(), Some("error"));
        assert_eq!(lines[0].at, Some("2026-11-29T17:02:42.619Z".parse().unwrap()));
        assert_eq!((lines[1].at, &lines[1].level), (None, &None));
    }

    #[test]
    fn what_airflow_says_about_itself_is_folded_away_and_trouble_is_not() {
        let mut inside = false;
        let lines = readable(
            vec![
                raw(" INFO - ::group::Log message source details"),
                raw("*** Found local files:"),
                raw(" INFO - ::endgroup::"),
                raw("*** and more"),
                raw("::group::my own part"),
                raw("row 1"),
                raw("::endgroup::"),
                raw("[2026-11-29T17:02:36.520+0000] {x.py:1} INFO - ::group::Post task execution logs"),
                raw("[2026-11-29T17:02:36.520+0000] {x.py:1} INFO - Task exited"),
                raw("[2026-11-29T17:02:36.520+0000] {x.py:1} ERROR - Failed to execute job 18"),
                raw("Traceback"),
            ],
            &mut inside,
        );
        assert_eq!(
            texts(&lines),
            ["my own part", "row 1", "Failed to execute job 18"]
        );
        assert!(inside);
    }

    #[test]
    fn a_group_that_goes_on_in_the_next_piece_stays_folded() {
        let mut inside = false;
        assert!(readable(vec![raw("::group::Pre Execute")], &mut inside).is_empty());
        let next = vec![raw("noise"), raw("::endgroup::"), raw("the work")];
        assert_eq!(texts(&readable(next, &mut inside)), ["the work"]);
    }
}
