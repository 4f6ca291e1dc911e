//! What a program prints, read strictly: one number, or one JSON object.

use crate::{
    domain::text::{clean, one_line, short_name},
    signals::{NoSample, Part, Reading},
};
use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

/// How long the name of a part is shown.
const NAME: usize = 120;
/// How long the program's own reason is shown.
const WHY: usize = 300;

/// A lag that was printed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Printed {
    lag: f64,
    age: Duration,
    parts: Vec<Part>,
}

impl Printed {
    pub(super) fn into_reading(self) -> Reading {
        Reading::Value {
            value: self.lag,
            age: self.age,
            skew_ms: None,
            parts: self.parts,
        }
    }
}

type Refused = (NoSample, String);

fn invalid(why: impl Into<String>) -> Refused {
    (NoSample::Invalid, why.into())
}

/// Reads the whole output of a program that ended well.
pub(super) fn read(out: &[u8]) -> Result<Printed, Refused> {
    let text = std::str::from_utf8(out).map_err(|_| invalid("it prints something that is not UTF-8 text"))?;
    let text = text.trim();
    if text.is_empty() {
        return Err((NoSample::Missing, "it prints nothing".to_owned()));
    }
    if text.starts_with('{') {
        return object(text);
    }
    let lines = text.lines().count();
    if lines > 1 {
        return Err(invalid(format!(
            "it prints {lines} lines where one number is expected"
        )));
    }
    let number: f64 = text
        .parse()
        .map_err(|_| invalid(format!("it prints {:?}, which is no number", one_line(text, 40))))?;
    Ok(Printed {
        lag: usable(number, "it prints")?,
        age: Duration::ZERO,
        parts: Vec::new(),
    })
}

/// A finite number at or above zero.
fn usable(number: f64, whose: &str) -> Result<f64, Refused> {
    if number.is_nan() {
        return Err(invalid(format!("{whose} NaN")));
    }
    if number.is_infinite() {
        return Err(invalid(format!("{whose} a number without end")));
    }
    if number < 0.0 {
        return Err(invalid(format!("{whose} {number}, below zero")));
    }
    Ok(number)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Object {
    /// Has to be there; null is that there is none.
    lag: Value,
    age_s: Option<f64>,
    parts: Option<Parts>,
    why: Option<String>,
}

fn object(text: &str) -> Result<Printed, Refused> {
    let object: Object = serde_json::from_str(text)
        .map_err(|e| invalid(format!("its JSON is not as expected: {}", clean(&e.to_string()))))?;
    let lag = match (&object.lag, &object.why) {
        (Value::Null, why) => {
            let said = why.as_deref().map(|w| one_line(w, WHY)).unwrap_or_default();
            let why = if said.is_empty() {
                "the program says that there is none".to_owned()
            } else {
                said
            };
            return Err((NoSample::Missing, why));
        }
        (Value::Number(_), Some(_)) => {
            return Err(invalid("its JSON has a lag and a `why` that there is none"));
        }
        (Value::Number(lag), None) => lag.as_f64().ok_or_else(|| invalid("its lag is no number"))?,
        _ => return Err(invalid("its lag is neither a number nor null")),
    };
    let lag = usable(lag, "its lag is")?;
    let age = usable(object.age_s.unwrap_or(0.0), "its age_s is")?;
    let age = Duration::try_from_secs_f64(age).map_err(|e| invalid(format!("its age_s: {e}")))?;
    Ok(Printed {
        lag,
        age,
        parts: parts(object.parts)?,
    })
}

fn parts(printed: Option<Parts>) -> Result<Vec<Part>, Refused> {
    let printed = printed.map(|p| p.0).unwrap_or_default();
    let mut parts = Vec::with_capacity(printed.len());
    let mut without = Vec::new();
    let mut taken = BTreeSet::new();
    for (name, number) in &printed {
        let name = short_name(name, NAME);
        if name.is_empty() {
            return Err(invalid("one of its parts has no name"));
        }
        // They differ in blanks around them, or in how a control character is written.
        if !taken.insert(name.clone()) {
            return Err(invalid(format!("two of its parts are both called {name}")));
        }
        match number {
            Some(number) => parts.push(Part {
                value: Ok(usable(*number, &format!("its part {name} is"))?),
                name,
                note: String::new(),
            }),
            None => without.push(name),
        }
    }
    match without.as_slice() {
        [] => {
            parts.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(parts)
        }
        [first, ..] => {
            let (n, all) = (without.len(), printed.len());
            let why = format!("{n} of {all} parts without a number, {first} for one");
            Err((NoSample::Partial, why))
        }
    }
}

/// Names and numbers, each name once.
struct Parts(BTreeMap<String, Option<f64>>);

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PartsVisitor)
    }
}

struct PartsVisitor;

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Parts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and numbers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts, A::Error> {
        let mut parts = BTreeMap::new();
        while let Some((name, number)) = map.next_entry::<String, Option<f64>>()? {
            if parts.contains_key(&name) {
                return Err(de::Error::custom(format!("the part {name:?} a second time")));
            }
            parts.insert(name, number);
        }
        Ok(Parts(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn value(text: &str) -> (f64, Duration, Vec<(String, f64)>) {
        let printed = read(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        let parts = printed.parts.into_iter().map(|p| (p.name, p.value.unwrap()));
        (printed.lag, printed.age, parts.collect())
    }

    #[test]
    fn one_number_is_a_lag_without_an_age() {
        for (text, lag) in [
            ("0\n", 0.0),
            (" 123 ", 123.0),
            ("1.5e3", 1500.0),
            ("12.25\r\n", 12.25),
        ] {
            assert_eq!(value(text), (lag, Duration::ZERO, Vec::new()), "{text:?}");
        }
    }

    #[test]
    fn an_object_may_say_its_age_and_its_parts_and_may_span_lines() {
        let text = "{\n \"lag\": 12,\n \"age_s\": 12.5,\n \"parts\": {\"orders/10\": 12, \"orders/\\u001b[0m\": 0}\n}\n";
        let parts = vec![("orders/10".to_owned(), 12.0), ("orders/^[[0m".to_owned(), 0.0)];
        assert_eq!(value(text), (12.0, Duration::from_millis(12_500), parts));
        assert_eq!(value("{\"lag\": 0}"), (0.0, Duration::ZERO, Vec::new()));
        assert_eq!(value("{\"lag\": 1, \"parts\": {}}").2, Vec::new());
    }

    #[test]
    fn parts_whose_names_differ_late_stay_apart() {
        let (begin, end) = ("x".repeat(130), "y".repeat(130));
        let text = format!(
            r#"{{"lag": 3, "parts": {{"{begin}1": 1, "{begin}2": 2, "{begin}1{end}": 3, "{begin}2{end}": 0}}}}"#
        );
        let (_, _, parts) = value(&text);
        let mut numbers: Vec<f64> = parts.iter().map(|(_, number)| *number).collect();
        numbers.sort_by(f64::total_cmp);
        assert_eq!(numbers, [0.0, 1.0, 2.0, 3.0]);
        assert!(
            parts
                .iter()
                .all(|(name, _)| name.starts_with("xxx") && name.chars().count() == NAME)
        );
        let names: BTreeSet<&String> = parts.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 4);
    }

    /// Case B28.
    #[rstest]
    #[case::nothing("", NoSample::Missing, "prints nothing")]
    #[case::blanks(" \n\n", NoSample::Missing, "prints nothing")]
    #[case::none("{\"lag\": null}", NoSample::Missing, "says that there is none")]
    #[case::none_with_a_reason(
        "{\"lag\": null, \"why\": \"no\\u001b group\\nmore\"}",
        NoSample::Missing,
        "no^[ group"
    )]
    #[case::a_reason_beside_a_lag("{\"lag\": 1, \"why\": \"x\"}", NoSample::Invalid, "`why`")]
    #[case::not_a_number("NaN", NoSample::Invalid, "prints NaN")]
    #[case::infinite("inf", NoSample::Invalid, "without end")]
    #[case::too_large("1e999", NoSample::Invalid, "without end")]
    #[case::negative("-1", NoSample::Invalid, "-1, below zero")]
    #[case::two_lines("1\n2\n", NoSample::Invalid, "2 lines")]
    #[case::a_word("lag=5", NoSample::Invalid, "\"lag=5\", which is no number")]
    #[case::two_numbers("1 2", NoSample::Invalid, "no number")]
    #[case::with_a_unit("5s", NoSample::Invalid, "no number")]
    #[case::a_list("[1]", NoSample::Invalid, "no number")]
    #[case::an_unknown_key("{\"lag\": 1, \"agee\": 2}", NoSample::Invalid, "unknown field `agee`")]
    #[case::no_lag("{\"age_s\": 1}", NoSample::Invalid, "missing field `lag`")]
    #[case::a_text("{\"lag\": \"1\"}", NoSample::Invalid, "neither a number nor null")]
    #[case::twice("{\"lag\": 1, \"lag\": 2}", NoSample::Invalid, "duplicate field")]
    #[case::json_nan("{\"lag\": NaN}", NoSample::Invalid, "JSON is not as expected")]
    #[case::json_huge("{\"lag\": 1e999}", NoSample::Invalid, "JSON is not as expected")]
    #[case::json_negative("{\"lag\": -3}", NoSample::Invalid, "-3, below zero")]
    #[case::cut_off("{\"lag\": 1", NoSample::Invalid, "JSON is not as expected")]
    #[case::two_objects("{\"lag\": 1}\n{\"lag\": 2}", NoSample::Invalid, "JSON is not as expected")]
    #[case::negative_age("{\"lag\": 1, \"age_s\": -1}", NoSample::Invalid, "age_s is -1")]
    #[case::endless_age("{\"lag\": 1, \"age_s\": 1e300}", NoSample::Invalid, "age_s")]
    #[case::negative_part("{\"lag\": 1, \"parts\": {\"a\": -1}}", NoSample::Invalid, "part a is -1")]
    #[case::part_twice(
        "{\"lag\": 1, \"parts\": {\"a\": 1, \"a\": 2}}",
        NoSample::Invalid,
        "second time"
    )]
    #[case::part_twice_but_for_a_blank(
        "{\"lag\": 1, \"parts\": {\"a\": 1, \" a\": 2}}",
        NoSample::Invalid,
        "two of its parts are both called a"
    )]
    #[case::nameless("{\"lag\": 1, \"parts\": {\" \": 1}}", NoSample::Invalid, "no name")]
    #[case::part_text("{\"lag\": 1, \"parts\": {\"a\": \"x\"}}", NoSample::Invalid, "JSON is not")]
    #[case::part_without(
        "{\"lag\": 1, \"parts\": {\"a\": 1, \"b\": null}}",
        NoSample::Partial,
        "1 of 2 parts without a number, b for one"
    )]
    fn everything_else_is_no_sample(#[case] text: &str, #[case] health: NoSample, #[case] word: &str) {
        let (found, why) = read(text.as_bytes()).unwrap_err();
        assert_eq!(found, health, "{why}");
        assert!(why.contains(word), "{why}");
    }

    #[test]
    fn bytes_that_are_no_text_are_no_sample() {
        assert_eq!(read(b"12\xff").unwrap_err().0, NoSample::Invalid);
        assert_eq!(read(b"\x0012").unwrap_err().0, NoSample::Invalid);
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: proptest::test_runner::RngSeed::Fixed(28),
            ..ProptestConfig::default()
        })]

        /// Case B28.
        #[test]
        fn whatever_is_printed_a_lag_is_finite_and_not_negative(out in proptest::collection::vec(any::<u8>(), 0..40), number in any::<f64>()) {
            for out in [out, number.to_string().into_bytes(), format!("{{\"lag\": {number}}}").into_bytes()] {
                if let Ok(printed) = read(&out) {
                    prop_assert!(printed.lag.is_finite() && printed.lag >= 0.0);
                }
            }
        }
    }
}
