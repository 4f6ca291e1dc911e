//! Naming chunks by hand: `2023-11-24`, `2023-11-01..2023-11-30`, `2023-11-24T05+0100`.

use crate::domain::{ids::ChunkId, state::Backfill};
use chrono::NaiveDate;

/// The chunks that a text names: a chunk's own id, a civil day (every chunk that holds or starts on it), or a range
/// of days that includes both ends.
///
/// # Errors
/// What is wrong with the text, or which days the backfill does not have, in words.
pub fn chunks(backfill: &Backfill, text: &str) -> Result<Vec<ChunkId>, String> {
    if let Some((from, to)) = text.split_once("..") {
        let (from, to) = (day(from)?, day(to.trim_start_matches('='))?);
        if to < from {
            return Err(format!("the range {text} ends before it begins"));
        }
        let found = between(backfill, from, to);
        return if found.is_empty() {
            Err(format!(
                "no chunk of {} lies in {text}; {}",
                backfill.spec.name,
                range(backfill)
            ))
        } else {
            Ok(found)
        };
    }
    let id: ChunkId = text
        .parse()
        .map_err(|e: crate::domain::ids::IdError| e.to_string())?;
    if backfill.chunk(id).is_some() {
        return Ok(vec![id]);
    }
    let found = if id.hour.is_none() {
        between(backfill, id.date, id.date)
    } else {
        Vec::new()
    };
    if found.is_empty() {
        Err(format!(
            "{text} is not a chunk of {}; {}",
            backfill.spec.name,
            range(backfill)
        ))
    } else {
        Ok(found)
    }
}

/// All chunks that several texts name, each once, in time order.
///
/// # Errors
/// As [`chunks`], for the first text that is wrong.
pub fn all(backfill: &Backfill, texts: &[String]) -> Result<Vec<ChunkId>, String> {
    let mut found = Vec::new();
    for text in texts {
        found.extend(chunks(backfill, text)?);
    }
    found.sort_by_key(|id| backfill.position(*id));
    found.dedup();
    Ok(found)
}

fn day(text: &str) -> Result<NaiveDate, String> {
    let bad = || format!("`{text}` is not a day: expected 2023-11-24");
    if text.len() != 10 {
        return Err(bad());
    }
    NaiveDate::parse_from_str(text, "%Y-%m-%d").map_err(|_| bad())
}

/// Chunks whose civil days overlap `from ..= to`.
fn between(backfill: &Backfill, from: NaiveDate, to: NaiveDate) -> Vec<ChunkId> {
    let zone = backfill.spec.timezone;
    backfill
        .chunks
        .iter()
        .filter(|c| {
            let last = (c.interval.end - chrono::Duration::seconds(1))
                .with_timezone(&zone)
                .date_naive();
            c.id.date <= to && last.max(c.id.date) >= from
        })
        .map(|c| c.id)
        .collect()
}

fn range(backfill: &Backfill) -> String {
    let zone = if backfill.spec.timezone == chrono_tz::UTC {
        String::new()
    } else {
        format!(" {}", backfill.spec.timezone)
    };
    format!("it covers {} .. {}{zone}", backfill.spec.start, backfill.spec.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::Night;

    #[test]
    fn a_day_a_range_and_a_wrong_day() {
        let night = Night::new(10);
        let b = night.backfill();
        assert_eq!(chunks(b, "2023-01-03").unwrap(), [night.day(2)]);
        assert_eq!(chunks(b, "2023-01-09..2023-02-01").unwrap().len(), 2);
        assert_eq!(
            chunks(b, "2022-12-31").unwrap_err(),
            "2022-12-31 is not a chunk of orders; it covers 2023-01-01 .. 2023-01-10"
        );
        assert!(
            chunks(b, "2023-01-05..2023-01-04")
                .unwrap_err()
                .contains("ends before it begins")
        );
        assert!(chunks(b, "yesterday").is_err());
    }

    #[test]
    fn several_texts_give_each_chunk_once_in_time_order() {
        let night = Night::new(10);
        let texts = ["2023-01-05".to_owned(), "2023-01-02..2023-01-05".to_owned()];
        assert_eq!(all(night.backfill(), &texts).unwrap().len(), 4);
    }
}
