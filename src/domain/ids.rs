//! Identities. Selection, dialogs and commands hold these, never row numbers.

use chrono::{NaiveDate, Timelike};
use serde::{Deserialize, Serialize, de, ser};
use std::{fmt, str::FromStr};
use thiserror::Error;

/// Why a text is not the identity it was read as.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdError {
    /// A name that breaks `[a-z][a-z0-9-]{0,30}`.
    #[error("`{0}` is not a name: use a small letter, then up to 30 small letters, digits or `-`")]
    Name(String),
    /// A backfill id that is not `NAME-` and six base32 characters.
    #[error("`{0}` is not a backfill id: expected NAME-xxxxxx, as in orders-k3f7qa")]
    Backfill(String),
    /// A chunk id that is neither a civil day nor a civil hour with its offset.
    #[error("`{0}` is not a chunk: expected 2023-11-24, or 2023-11-24T05+0100 for an hour")]
    Chunk(String),
    /// An attempt id that is not `BACKFILL_ID/CHUNK/N`.
    #[error("`{0}` is not an attempt: expected BACKFILL_ID/CHUNK/N")]
    Attempt(String),
}

macro_rules! text_serde {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: ser::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: de::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct V;
                impl de::Visitor<'_> for V {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("the text form of an id")
                    }
                    fn visit_str<E: de::Error>(self, v: &str) -> Result<Self::Value, E> {
                        v.parse().map_err(E::custom)
                    }
                }
                d.deserialize_str(V)
            }
        }
    };
}

/// A name that a user gives: of a backfill, an executor, a signal, a profile. `[a-z][a-z0-9-]{0,30}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        let mut chars = s.chars();
        let starts = chars.next().is_some_and(|c| c.is_ascii_lowercase());
        let rest = chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if starts && rest && s.len() <= 31 {
            Ok(Self(s.to_owned()))
        } else {
            Err(IdError::Name(s.to_owned()))
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_serde!(Name);

/// The identity that a backfill gets when it starts: its name and six base32 characters, `orders-k3f7qa`.
/// Two orders of the same name are two backfills.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackfillId(String);

impl BackfillId {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

    /// Makes an id from a name and 30 drawn bits; the caller owns the randomness.
    pub fn new(name: &Name, drawn: u32) -> Self {
        let mut id = String::with_capacity(name.0.len() + 7);
        id.push_str(&name.0);
        id.push('-');
        for i in 0..6 {
            let five = (drawn >> (5 * i)) as usize & 31;
            id.push(char::from(Self::ALPHABET[five]));
        }
        Self(id)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The user's name inside the id.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('-').map_or(self.0.as_str(), |(name, _)| name)
    }
}

impl FromStr for BackfillId {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        let bad = || IdError::Backfill(s.to_owned());
        let (name, tail) = s.rsplit_once('-').ok_or_else(bad)?;
        name.parse::<Name>().map_err(|_| bad())?;
        let tail_ok = tail.len() == 6 && tail.bytes().all(|b| Self::ALPHABET.contains(&b));
        if tail_ok {
            Ok(Self(s.to_owned()))
        } else {
            Err(bad())
        }
    }
}

impl fmt::Display for BackfillId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_serde!(BackfillId);

/// The civil start of a chunk in the backfill's zone: a day (`2023-11-24`), or an hour with its UTC offset
/// (`2023-11-24T05+0100`), because in autumn one local hour happens twice. The order of ids is not the order of time:
/// that is the order of a backfill's chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkId {
    /// The civil date on which the chunk starts.
    pub date: NaiveDate,
    /// For hourly chunks: the civil hour (0 to 23) and the offset from UTC in minutes.
    pub hour: Option<(u8, i16)>,
}

impl ChunkId {
    /// The chunk of a whole civil day, or the first day of a week or month.
    pub const fn day(date: NaiveDate) -> Self {
        Self { date, hour: None }
    }

    /// The chunk of one civil hour; `offset` is in minutes east of UTC.
    pub const fn hour(date: NaiveDate, hour: u8, offset: i16) -> Self {
        Self {
            date,
            hour: Some((hour, offset)),
        }
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.date.format("%Y-%m-%d"))?;
        if let Some((hour, offset)) = self.hour {
            let sign = if offset < 0 { '-' } else { '+' };
            let (h, m) = (offset.unsigned_abs() / 60, offset.unsigned_abs() % 60);
            write!(f, "T{hour:02}{sign}{h:02}{m:02}")?;
        }
        Ok(())
    }
}

impl FromStr for ChunkId {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        let bad = || IdError::Chunk(s.to_owned());
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        let (date_text, hour_text) = match s.split_once('T') {
            Some((d, h)) => (d, Some(h)),
            None => (s, None),
        };
        if date_text.len() != 10 {
            return Err(bad());
        }
        let date = NaiveDate::parse_from_str(date_text, "%Y-%m-%d").map_err(|_| bad())?;
        let Some(text) = hour_text else {
            return Ok(Self::day(date));
        };
        if text.len() != 7 || !text.is_ascii() {
            return Err(bad());
        }
        let (hour, sign, h, m) = (&text[0..2], &text[2..3], &text[3..5], &text[5..7]);
        if !(digits(hour) && digits(h) && digits(m)) {
            return Err(bad());
        }
        let hour: u8 = hour.parse().map_err(|_| bad())?;
        let minutes: i16 = h.parse::<i16>().map_err(|_| bad())? * 60 + m.parse::<i16>().map_err(|_| bad())?;
        let offset = match sign {
            "+" => minutes,
            "-" => -minutes,
            _ => return Err(bad()),
        };
        let in_range =
            chrono::NaiveTime::from_hms_opt(u32::from(hour), 0, 0).is_some_and(|t| t.minute() == 0);
        if in_range && minutes < 24 * 60 {
            Ok(Self::hour(date, hour, offset))
        } else {
            Err(bad())
        }
    }
}

text_serde!(ChunkId);

/// One try at a chunk: `BACKFILL_ID/CHUNK/N`. Made by us before anything is sent; it travels to the executor.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId {
    /// The backfill that the attempt belongs to.
    pub backfill: BackfillId,
    /// The chunk that is tried.
    pub chunk: ChunkId,
    /// Counts from 1; numbers of withdrawn attempts are not used again.
    pub no: u32,
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.backfill, self.chunk, self.no)
    }
}

impl FromStr for AttemptId {
    type Err = IdError;
    fn from_str(s: &str) -> Result<Self, IdError> {
        let bad = || IdError::Attempt(s.to_owned());
        let mut parts = s.split('/');
        let (Some(backfill), Some(chunk), Some(no), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad());
        };
        let no_text = no;
        let no: u32 = no.parse().map_err(|_| bad())?;
        if no == 0 || no_text.starts_with(['0', '+']) {
            return Err(bad());
        }
        Ok(Self {
            backfill: backfill.parse().map_err(|_| bad())?,
            chunk: chunk.parse().map_err(|_| bad())?,
            no,
        })
    }
}

text_serde!(AttemptId);

/// What the executor calls the run that it made of an attempt (a pid with its start time, a DAG run id, ..).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExternalId(pub String);

impl fmt::Display for ExternalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn date(y: i32, m: u32, d: u32) -> NaiveDate {
        NaiveDate::from_ymd_opt(y, m, d).unwrap()
    }

    #[test]
    fn a_backfill_id_carries_its_name_and_six_base32_characters() {
        let id = BackfillId::new(&"orders-v2".parse().unwrap(), 0x3fff_ffff);
        assert_eq!(id.as_str(), "orders-v2-777777");
        assert_eq!(id.name(), "orders-v2");
        assert_eq!("orders-v2-777777".parse::<BackfillId>().unwrap(), id);
    }

    #[test]
    fn names_outside_the_alphabet_are_refused() {
        for bad in [
            "",
            "1a",
            "A",
            "a_b",
            "a b",
            "a/b",
            "-a",
            "a234567890123456789012345678901x",
        ] {
            assert!(bad.parse::<Name>().is_err(), "{bad}");
        }
        assert!("a23456789012345678901234567890x".parse::<Name>().is_ok());
    }

    #[test]
    fn ids_that_only_look_alike_are_refused() {
        for bad in [
            "2023-1-1",
            "2023-13-01",
            "2023-11-24T5+0100",
            "2023-11-24T24+0100",
            "2023-11-24T05_0100",
            "2023-11-24T+5+0100",
        ] {
            assert!(bad.parse::<ChunkId>().is_err(), "{bad}");
        }
        for bad in [
            "o-abcdef/2023-01-01",
            "o-abcdef/2023-01-01/0",
            "o-abcdef/2023-01-01/01",
            "o-abcdef/2023-01-01/1/2",
        ] {
            assert!(bad.parse::<AttemptId>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn the_text_of_a_chunk_id_gives_the_same_id_back(days in 0i64..40_000, hour in 0u8..24, quarter in -52i16..=56) {
            let day = date(1980, 1, 1) + chrono::Duration::days(days);
            for id in [ChunkId::day(day), ChunkId::hour(day, hour, quarter * 15)] {
                prop_assert_eq!(id.to_string().parse::<ChunkId>().unwrap(), id);
            }
        }

        #[test]
        fn the_text_of_an_attempt_id_gives_the_same_id_back(drawn: u32, no in 1u32..10_000, days in 0i64..20_000) {
            let id = AttemptId {
                backfill: BackfillId::new(&"a-b".parse().unwrap(), drawn),
                chunk: ChunkId::day(date(1990, 1, 1) + chrono::Duration::days(days)),
                no,
            };
            prop_assert_eq!(id.to_string().parse::<AttemptId>().unwrap(), id);
        }
    }
}
