//! How days, counts and instants are told.

use crate::domain::{Time, ids::ChunkId, text};

/// How many days are named one by one.
const NAMED: usize = 3;

/// A text of the server's, safe to show and not too long.
pub fn shown(words: &str) -> String {
    text::one_line(words, 160)
}

/// `1 day`, `3 days`.
pub fn count(n: u64, one: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {one}{plural}")
}

/// `2021-09-03, 2021-09-04 and 5 more days`.
pub fn days(days: &[ChunkId]) -> String {
    let mut named: Vec<String> = days.iter().take(NAMED).map(ToString::to_string).collect();
    let rest = days.len().saturating_sub(NAMED);
    if rest > 0 {
        named.push(format!("{rest} more"));
    }
    join(&named)
}

/// `a, b and c`.
pub fn join(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `2026-11-29 17:02Z`.
pub fn instant(at: Time) -> String {
    at.format("%Y-%m-%d %H:%MZ").to_string()
}

/// Words about days, if there are any. The words get the days and whether there are several.
pub fn about(days: &[ChunkId], words: impl Fn(&str, bool) -> String) -> String {
    let mut days = days.to_vec();
    days.sort_unstable();
    days.dedup();
    if days.is_empty() {
        return String::new();
    }
    words(&self::days(&days), days.len() > 1)
}

/// `was` or `were`.
pub const fn was(many: bool) -> &'static str {
    if many { "were" } else { "was" }
}

/// What went wrong on single days, the first of them in full.
pub fn faults(faults: &[(ChunkId, String)]) -> Vec<String> {
    let mut said: Vec<String> = faults
        .iter()
        .take(NAMED)
        .map(|(day, why)| format!("{day}: {}", text::one_line(why, 300)))
        .collect();
    let rest = faults.len().saturating_sub(NAMED);
    if rest > 0 {
        said.push(format!("and {} more like that", count(rest as u64, "day")));
    }
    said
}

/// Several things said, in one line.
pub fn sentence(parts: Vec<String>) -> String {
    let parts: Vec<String> = parts.into_iter().filter(|p| !p.is_empty()).collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_days_are_named_and_many_are_counted() {
        let day = |n: u32| format!("2021-09-{n:02}").parse::<ChunkId>().unwrap();
        let some = |n: u32| (1..=n).map(day).collect::<Vec<_>>();
        assert_eq!(days(&some(1)), "2021-09-01");
        assert_eq!(days(&some(2)), "2021-09-01 and 2021-09-02");
        assert_eq!(days(&some(3)), "2021-09-01, 2021-09-02 and 2021-09-03");
        assert_eq!(days(&some(9)), "2021-09-01, 2021-09-02, 2021-09-03 and 6 more");
        assert_eq!(
            (count(1, "day"), count(0, "day")),
            ("1 day".into(), "0 days".into())
        );
    }
}
