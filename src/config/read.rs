//! Reading TOML tables with their places in the file. A reader answers `None` exactly when it has added a problem to
//! the report (or the key is absent), so that one pass over a file finds everything that is wrong with it.

use super::problem::{Report, did_you_mean, nearest, one_of};
use crate::domain::{human, ids::Name, text};
use chrono::NaiveDate;
use std::{ops::Range, time::Duration};
use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

/// A table of the file.
pub(super) struct Section<'t> {
    /// Its full key.
    pub path: String,
    /// Where its header or opening brace stands.
    pub span: Range<usize>,
    table: &'t DeTable<'t>,
}

/// A value of the file.
pub(super) struct Entry<'t> {
    /// Its full key.
    pub path: String,
    /// Its last key alone, as written.
    pub key: &'t str,
    /// Where the key stands.
    pub key_span: Range<usize>,
    /// Where the value stands.
    pub span: Range<usize>,
    value: &'t DeValue<'t>,
}

impl<'t> Section<'t> {
    /// The file itself.
    pub(super) fn root(table: &'t Spanned<DeTable<'t>>) -> Self {
        Self {
            path: String::new(),
            span: 0..0,
            table: table.get_ref(),
        }
    }

    /// Refuses every key that is not in `known`.
    pub(super) fn only(&self, report: &mut Report<'_>, known: &[&str]) {
        for entry in self.entries() {
            if !known.contains(&entry.key) {
                refuse_unknown(report, &entry, known);
            }
        }
    }

    /// All entries, in the order of their keys.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'t>> + '_ {
        self.table.iter().map(|(key, value)| self.entry(key, value))
    }

    /// One entry, if it is there.
    pub(super) fn get(&self, key: &str) -> Option<Entry<'t>> {
        self.table
            .get_key_value(key)
            .map(|(key, value)| self.entry(key, value))
    }

    fn entry(&self, key: &'t Spanned<toml::de::DeString<'t>>, value: &'t Spanned<DeValue<'t>>) -> Entry<'t> {
        Entry {
            path: join_key(&self.path, key.get_ref()),
            key: key.get_ref(),
            key_span: key.span(),
            span: value.span(),
            value: value.get_ref(),
        }
    }

    /// One entry that must be there; `expected` says what it holds.
    pub(super) fn required(&self, report: &mut Report<'_>, key: &str, expected: &str) -> Option<Entry<'t>> {
        let entry = self.get(key);
        if entry.is_none() {
            let help = format!("add `{key} = ..` to [{}]", self.path);
            self.problem(report, key, "nothing", expected, &help);
        }
        entry
    }

    /// Adds a problem about a key of this table that is placed at the table itself.
    pub(super) fn problem(
        &self,
        report: &mut Report<'_>,
        key: &str,
        found: &str,
        expected: &str,
        help: &str,
    ) {
        report.add(
            self.span.start,
            &join_key(&self.path, key),
            found.to_owned(),
            expected.to_owned(),
            help.to_owned(),
        );
    }
}

fn refuse_unknown(report: &mut Report<'_>, entry: &Entry<'_>, known: &[&str]) {
    let help = did_you_mean(entry.key, known);
    let expected = if help.is_empty() || known.len() <= 6 {
        one_of(known)
    } else {
        "a known key".to_owned()
    };
    report.add(
        entry.key_span.start,
        &entry.path,
        "an unknown key".to_owned(),
        expected,
        help,
    );
}

/// A key below another, quoted where TOML would need it.
pub(super) fn join_key(path: &str, key: &str) -> String {
    let bare = !key.is_empty()
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let shown = if bare {
        key.to_owned()
    } else {
        format!("\"{}\"", text::one_line(key, 40))
    };
    if path.is_empty() {
        shown
    } else {
        format!("{path}.{shown}")
    }
}

impl<'t> Entry<'t> {
    /// Adds a problem about the value.
    pub(super) fn problem(
        &self,
        report: &mut Report<'_>,
        found: impl Into<String>,
        expected: impl Into<String>,
        help: impl Into<String>,
    ) {
        report.add(
            self.span.start,
            &self.path,
            found.into(),
            expected.into(),
            help.into(),
        );
    }

    /// Says that the value has the wrong type. The value itself is not repeated: it may be a secret in the wrong place.
    pub(super) fn wrong_type(&self, report: &mut Report<'_>, expected: &str, help: &str) {
        self.problem(report, self.kind(), expected, help);
    }

    /// What kind of value it is, with its article.
    pub(super) const fn kind(&self) -> &'static str {
        match self.value {
            DeValue::String(_) => "a text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        }
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    pub(super) fn is_text(&self) -> bool {
        self.value.is_str()
    }

    pub(super) fn is_list(&self) -> bool {
        self.value.is_array()
    }

    /// A table.
    pub(super) fn section(&self, report: &mut Report<'_>, expected: &str) -> Option<Section<'t>> {
        match self.value {
            DeValue::Table(table) => Some(Section {
                path: self.path.clone(),
                span: self.span.clone(),
                table,
            }),
            _ => {
                self.wrong_type(report, expected, "");
                None
            }
        }
    }

    /// Any text, empty ones included.
    pub(super) fn any_text(&self, report: &mut Report<'_>, expected: &str) -> Option<&'t str> {
        match self.value {
            DeValue::String(text) => Some(text),
            _ => {
                self.wrong_type(report, expected, "");
                None
            }
        }
    }

    /// A text with something in it and without control characters.
    pub(super) fn text(&self, report: &mut Report<'_>, expected: &str) -> Option<&'t str> {
        let found = self.any_text(report, expected)?;
        if found.trim().is_empty() {
            self.problem(report, "an empty text", expected, "");
            None
        } else if text::clean(found) != found {
            self.problem(report, "a text with control characters", expected, "");
            None
        } else {
            Some(found)
        }
    }

    /// One word out of a fixed list.
    pub(super) fn word<T: Copy>(&self, report: &mut Report<'_>, words: &[(&str, T)]) -> Option<T> {
        let quotes: Vec<String> = words.iter().map(|(name, _)| quoted(name)).collect();
        let expected = one_of(&quotes.iter().map(String::as_str).collect::<Vec<_>>());
        let found = self.text(report, &expected)?;
        let value = words.iter().find(|(name, _)| *name == found).map(|(_, v)| *v);
        if value.is_none() {
            let near = nearest(found, words.iter().map(|(name, _)| *name));
            let help = near.map_or_else(String::new, |n| format!("did you mean \"{n}\"?"));
            self.problem(report, quoted(found), expected, help);
        }
        value
    }

    /// A number, `true` or `false`, as JSON has it; `None` for everything else, numbers that JSON has not included.
    pub(super) fn scalar(&self) -> Option<serde_json::Value> {
        match self.value {
            DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(Into::into),
            DeValue::Float(n) => {
                let number = n.as_str().parse::<f64>().ok()?;
                serde_json::Number::from_f64(number).map(Into::into)
            }
            DeValue::Boolean(flag) => Some((*flag).into()),
            _ => None,
        }
    }

    /// A whole number between two bounds, both included.
    pub(super) fn whole(&self, report: &mut Report<'_>, least: u64, most: u64) -> Option<u64> {
        let expected = format!(
            "a whole number from {} to {}",
            human::with_commas(least),
            human::with_commas(most)
        );
        let DeValue::Integer(number) = self.value else {
            self.wrong_type(report, &expected, "");
            return None;
        };
        let value = i128::from_str_radix(number.as_str(), number.radix())
            .ok()
            .and_then(|n| u64::try_from(n).ok())
            .filter(|n| (least..=most).contains(n));
        if value.is_none() {
            self.problem(report, text::one_line(&number.to_string(), 40), expected, "");
        }
        value
    }

    /// A finite number that is not negative.
    pub(super) fn number(&self, report: &mut Report<'_>, expected: &str) -> Option<f64> {
        let (value, written) = match self.value {
            DeValue::Integer(n) => (
                i128::from_str_radix(n.as_str(), n.radix()).ok().map(|n| n as f64),
                n.to_string(),
            ),
            DeValue::Float(n) => (n.as_str().parse::<f64>().ok(), n.to_string()),
            _ => {
                self.wrong_type(report, expected, "");
                return None;
            }
        };
        let value = value.filter(|v| v.is_finite() && *v >= 0.0);
        if value.is_none() {
            self.problem(report, text::one_line(&written, 40), expected, "");
        }
        value
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, report: &mut Report<'_>) -> Option<bool> {
        match self.value {
            DeValue::Boolean(flag) => Some(*flag),
            _ => {
                self.wrong_type(report, "true or false", "");
                None
            }
        }
    }

    /// A duration between two bounds, both included.
    pub(super) fn duration(
        &self,
        report: &mut Report<'_>,
        least: Duration,
        most: Duration,
    ) -> Option<Duration> {
        let expected = "a duration such as \"250ms\", \"5s\", \"30m\" or \"1h30m\"";
        if let DeValue::Integer(n) = self.value {
            let shown = text::one_line(&n.to_string(), 20);
            let help = format!("add the unit, as in {} = \"{shown}s\"", self.key);
            self.problem(report, shown, expected, help);
            return None;
        }
        let found = self.text(report, expected)?;
        match human::parse_duration(found) {
            Ok(d) if d < least => {
                let bound = format!("at least \"{}\"", human::exact_duration(least));
                self.problem(report, quoted(found), bound, "");
                None
            }
            Ok(d) if d > most => {
                let bound = format!("at most \"{}\"", human::exact_duration(most));
                self.problem(report, quoted(found), bound, "");
                None
            }
            Ok(d) => Some(d),
            Err(e) => {
                self.problem(report, quoted(found), e.to_string(), "");
                None
            }
        }
    }

    /// A size in bytes, at least `least`.
    pub(super) fn size(&self, report: &mut Report<'_>, least: u64) -> Option<u64> {
        let expected = "a size such as \"512MiB\", \"500MB\" or \"1.5GB\"";
        let found = self.text(report, expected)?;
        match human::parse_size(found) {
            Ok(n) if n < least => {
                let bound = format!("at least \"{}\"", human::exact_size(least));
                self.problem(report, quoted(found), bound, "");
                None
            }
            Ok(n) => Some(n),
            Err(e) => {
                self.problem(report, quoted(found), e.to_string(), "");
                None
            }
        }
    }

    /// A civil date without a time.
    pub(super) fn date(&self, report: &mut Report<'_>) -> Option<NaiveDate> {
        let expected = "a date such as 2023-12-31";
        let value = match self.value {
            DeValue::Datetime(d) if d.time.is_none() && d.offset.is_none() => d.date,
            DeValue::Datetime(_) => {
                let help = "leave the time off: a range is made of whole days of its timezone";
                self.problem(report, "a date with a time, or a time", expected, help);
                return None;
            }
            DeValue::String(s) => {
                let help = match s.parse::<NaiveDate>() {
                    Ok(date) => format!("write {date} without quotes"),
                    Err(_) => String::new(),
                };
                self.wrong_type(report, expected, &help);
                return None;
            }
            _ => {
                self.wrong_type(report, expected, "");
                return None;
            }
        };
        let date = value.and_then(|d| NaiveDate::from_ymd_opt(d.year.into(), d.month.into(), d.day.into()));
        if date.is_none() {
            self.problem(report, "a day that no calendar has", expected, "");
        }
        date
    }

    /// The elements of a list, each with its place; their keys carry the index from 0.
    pub(super) fn list(&self, report: &mut Report<'_>, expected: &str) -> Option<Vec<Self>> {
        let DeValue::Array(items) = self.value else {
            self.wrong_type(report, expected, "");
            return None;
        };
        Some(self.items(items))
    }

    fn items(&self, items: &'t DeArray<'t>) -> Vec<Self> {
        items
            .iter()
            .enumerate()
            .map(|(i, item)| Self {
                path: format!("{}[{i}]", self.path),
                key: self.key,
                key_span: item.span(),
                span: item.span(),
                value: item.get_ref(),
            })
            .collect()
    }

    /// A list of texts that are not empty.
    pub(super) fn texts(&self, report: &mut Report<'_>, expected: &str) -> Option<Vec<String>> {
        let items = self.list(report, expected)?;
        let read: Vec<Option<&str>> = items.iter().map(|i| i.text(report, "a text")).collect();
        read.into_iter().map(|t| t.map(str::to_owned)).collect()
    }

    /// A list of dates, none of them twice: those that are sound, each with its place.
    pub(super) fn dates(&self, report: &mut Report<'_>) -> Vec<(NaiveDate, Self)> {
        let mut dates: Vec<(NaiveDate, Self)> = Vec::new();
        let items = self.list(report, "a list of dates, as in [2023-11-24, 2023-11-27]");
        for item in items.into_iter().flatten() {
            match item.date(report) {
                Some(date) if dates.iter().any(|(d, _)| *d == date) => {
                    item.problem(report, format!("{date} a second time"), "each date once", "");
                }
                Some(date) => dates.push((date, item)),
                None => {}
            }
        }
        dates
    }

    /// The name of something that is defined in the table `kind`, as in `signals`.
    pub(super) fn reference(&self, report: &mut Report<'_>, kind: &str, known: &[&str]) -> Option<Name> {
        let expected = format!("the name of one of the [{kind}.NAME] tables");
        let found = self.text(report, &expected)?;
        if known.contains(&found) {
            return self.name_text(report, found);
        }
        let help = match nearest(found, known.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None if known.is_empty() => format!("this file has no [{kind}.NAME] table"),
            None => format!("this file has {}", one_of(known).replace(" or ", " and ")),
        };
        self.problem(report, quoted(found), expected, help);
        None
    }

    /// A list of such names, none of them twice.
    pub(super) fn references(
        &self,
        report: &mut Report<'_>,
        kind: &str,
        known: &[&str],
    ) -> Option<Vec<Name>> {
        let items = self.list(report, &format!("a list of names of [{kind}.NAME] tables"))?;
        let mut all = true;
        let mut names: Vec<Name> = Vec::with_capacity(items.len());
        for item in items {
            match item.reference(report, kind, known) {
                Some(name) if names.contains(&name) => {
                    let found = format!("{} a second time", quoted(name.as_str()));
                    item.problem(report, found, "each name once", "");
                    all = false;
                }
                Some(name) => names.push(name),
                None => all = false,
            }
        }
        all.then_some(names)
    }

    /// The key itself as a name, for tables such as `[backfills.NAME]`.
    pub(super) fn name(&self, report: &mut Report<'_>) -> Option<Name> {
        self.name_text(report, self.key)
    }

    fn name_text(&self, report: &mut Report<'_>, written: &str) -> Option<Name> {
        if let Ok(name) = written.parse() {
            return Some(name);
        }
        let help = match mended_name(written) {
            Some(mended) => format!("`{mended}` would do"),
            None => String::new(),
        };
        report.add(
            self.key_span.start,
            &self.path,
            format!("`{}`", text::one_line(written, 40)),
            "a name: a small letter, then up to 30 small letters, digits or `-`".to_owned(),
            help,
        );
        None
    }
}

/// The nearest text that is a name.
fn mended_name(written: &str) -> Option<Name> {
    let kept: String = written
        .to_lowercase()
        .chars()
        .map(|c| {
            if matches!(c, '_' | ' ' | '.' | '/') {
                '-'
            } else {
                c
            }
        })
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    let trimmed = kept.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    trimmed.chars().take(31).collect::<String>().parse().ok()
}

/// A value as it is repeated in a message: short, clean, in quotes.
pub(super) fn quoted(value: &str) -> String {
    format!("\"{}\"", text::one_line(value, 40))
}
