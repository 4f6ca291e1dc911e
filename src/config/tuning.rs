//! `[tuning]`: every time and number of the laws by the name of its field, `retry-base` or `retry_base`.

use super::{
    problem::{Report, did_you_mean},
    read::{Entry, Section},
};
use crate::domain::{human, tuning::Tuning};
use std::time::Duration;

/// One key: how it is read into the table, and how it is shown.
struct Key {
    name: &'static str,
    read: fn(&mut Tuning, &mut Report<'_>, &Entry<'_>),
    show: fn(&Tuning) -> String,
}

/// A time that may be zero to switch its rule off.
const ANY: Duration = Duration::ZERO;
/// A time that is divided by, or that a loop would spin without.
const SOME: Duration = Duration::from_millis(1);

macro_rules! keys {
    ($($field:ident: $how:ident $least:expr),* $(,)?) => {
        /// Every key, in the order of the table.
        const KEYS: &[Key] = &[$(keys!(@one $how $field $least)),*];

        /// Does not compile when a field of the table has no key.
        const fn _every_field_has_a_key(t: &Tuning) {
            let Tuning { $($field: _),* } = t;
        }
    };
    (@one time $field:ident $least:expr) => {
        Key {
            name: stringify!($field),
            read: |t, report, entry| {
                if let Some(d) = entry.duration(report, $least, human::LONGEST) {
                    t.$field = d;
                }
            },
            show: |t| human::exact_duration(t.$field),
        }
    };
    (@one count $field:ident $least:expr) => {
        Key {
            name: stringify!($field),
            read: |t, report, entry| {
                let n = entry.whole(report, $least, 1_000_000);
                if let Some(n) = n.and_then(|n| n.try_into().ok()) {
                    t.$field = n;
                }
            },
            show: |t| t.$field.to_string(),
        }
    };
    (@one size $field:ident $least:expr) => {
        Key {
            name: stringify!($field),
            read: |t, report, entry| {
                if let Some(n) = entry.size(report, $least) {
                    t.$field = n;
                }
            },
            show: |t| human::exact_size(t.$field),
        }
    };
}

keys! {
    tick: time SOME,
    lease_renew: time SOME,
    lease_stop: time SOME,
    lease_ttl: time SOME,
    effect_deadline: time SOME,
    cancel_grace: time ANY,
    start_gap: time ANY,
    ewma: time SOME,
    slope_window: time SOME,
    horizon: time SOME,
    cut_gap: time ANY,
    grow_dwell: time ANY,
    resume_hold: time ANY,
    resume_hold_max: time ANY,
    pause_min: time ANY,
    flap_window: time ANY,
    latch_window: time ANY,
    ceiling_memory: time ANY,
    hibernate: time ANY,
    blind_halve: time SOME,
    blind_stop: time SOME,
    retry_base: time ANY,
    retry_cap: time ANY,
    retry_cap_platform: time ANY,
    breaker_retry: time ANY,
    breaker_row: count 1,
    watch: time SOME,
    disk_low: size 0,
}

/// Reads the table over the defaults.
pub(super) fn tuning(report: &mut Report<'_>, root: &Section<'_>) -> Tuning {
    let mut tuning = Tuning::default();
    let Some(section) = root
        .get("tuning")
        .and_then(|e| e.section(report, "a table, [tuning]"))
    else {
        return tuning;
    };
    let before = report.len();
    let mut seen: Vec<&str> = Vec::new();
    for entry in section.entries() {
        let plain = entry.key.replace('-', "_");
        let Some(key) = KEYS.iter().find(|k| k.name == plain) else {
            let names: Vec<&str> = KEYS.iter().map(|k| k.name).collect();
            report.add(
                entry.key_span.start,
                &entry.path,
                "an unknown key".to_owned(),
                "the name of a time or number of the laws".to_owned(),
                did_you_mean(entry.key, &names),
            );
            continue;
        };
        if seen.contains(&key.name) {
            let found = format!("{} a second time, written with `-` and with `_`", key.name);
            entry.problem(report, found, "each key once", "");
            continue;
        }
        seen.push(key.name);
        (key.read)(&mut tuning, report, &entry);
    }
    if report.len() == before {
        check_order(report, &section, &tuning);
    }
    tuning
}

/// Times that only make sense in an order.
fn check_order(report: &mut Report<'_>, section: &Section<'_>, t: &Tuning) {
    let pairs = [
        ("lease_renew", t.lease_renew, "lease_stop", t.lease_stop, true),
        ("lease_stop", t.lease_stop, "lease_ttl", t.lease_ttl, true),
        (
            "resume_hold",
            t.resume_hold,
            "resume_hold_max",
            t.resume_hold_max,
            false,
        ),
        ("blind_halve", t.blind_halve, "blind_stop", t.blind_stop, false),
        ("retry_base", t.retry_base, "retry_cap", t.retry_cap, false),
        (
            "retry_base",
            t.retry_base,
            "retry_cap_platform",
            t.retry_cap_platform,
            false,
        ),
    ];
    for (low, low_time, high, high_time, strictly) in pairs {
        if low_time < high_time || (!strictly && low_time == high_time) {
            continue;
        }
        let given = |name: &str| section.entries().find(|e| e.key.replace('-', "_") == name);
        let shown = human::exact_duration;
        // The key that the file gives is the one to mend; the other one may be a default.
        let (entry, found, words, other, limit) = match (given(low), given(high)) {
            (Some(e), _) if strictly => (e, low_time, "less than", high, high_time),
            (Some(e), _) => (e, low_time, "at most", high, high_time),
            (None, Some(e)) if strictly => (e, high_time, "more than", low, low_time),
            (None, Some(e)) => (e, high_time, "at least", low, low_time),
            (None, None) => continue,
        };
        let expected = format!("{words} {other}, which is {}", shown(limit));
        entry.problem(report, shown(found), expected, "");
    }
}

/// The keys whose values differ: `retry_base 1m to 5s`.
pub(super) fn difference(old: &Tuning, new: &Tuning) -> Vec<String> {
    KEYS.iter()
        .map(|k| (k.name, (k.show)(old), (k.show)(new)))
        .filter(|(_, a, b)| a != b)
        .map(|(name, a, b)| format!("tuning.{name} {a} to {b}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_laws_hold_their_own_order() {
        let text = "[tuning]\n";
        let table = toml::de::DeTable::parse(text).unwrap();
        let mut report = Report::new(text);
        assert_eq!(tuning(&mut report, &Section::root(&table)), Tuning::default());
        assert!(report.is_empty());
    }

    #[test]
    fn a_default_can_be_written_down_and_read_back() {
        let lines: String = KEYS
            .iter()
            .map(|k| {
                let value = (k.show)(&Tuning::default());
                let value = if value.parse::<u32>().is_ok() {
                    value
                } else {
                    format!("\"{value}\"")
                };
                format!("{} = {value}\n", k.name.replace('_', "-"))
            })
            .collect();
        let text = format!("[tuning]\n{lines}");
        let table = toml::de::DeTable::parse(&text).unwrap();
        let mut report = Report::new(&text);
        let read = tuning(&mut report, &Section::root(&table));
        assert_eq!(read, Tuning::default());
        assert!(report.is_empty());
    }
}
