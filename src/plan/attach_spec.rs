//! The order that stands for somebody else's backfill: nothing of it is planned, it says what is looked at.

use crate::domain::{
    Time,
    attach::Attach,
    calendar::Granularity,
    ids::Name,
    spec::{Dag, OnFailure, Order, Profile, Spec, Throttling},
    state::{Backfill, State},
};
use chrono::NaiveDate;
use chrono_tz::Tz;
use std::collections::BTreeMap;

/// The longest window that is attached to: ten years.
pub const MOST_DAYS: i64 = 3660;

/// What is attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Our name for it.
    pub name: Name,
    /// The executor.
    pub executor: Name,
    /// The word for what its server is (`prod`).
    pub environment: Option<String>,
    /// The DAG.
    pub dag: String,
    /// Number of the native backfill.
    pub native: Option<u64>,
    /// First civil day, inclusive.
    pub start: NaiveDate,
    /// Last civil day, inclusive.
    pub end: NaiveDate,
    /// The zone whose civil days are shown.
    pub timezone: Tz,
    /// The pool that throttles it.
    pub pool: Option<String>,
    /// The limit that it has now, or that its pool has.
    pub max_limit: u32,
    /// Signals whose pauses hold it.
    pub signals: Vec<Name>,
}

/// The order.
///
/// # Errors
/// A window that is none, in words.
pub fn spec(wanted: Wanted) -> Result<Spec, String> {
    let Wanted { start, end, .. } = wanted;
    if end < start {
        return Err(format!("the window ends on {end}, before it starts on {start}"));
    }
    if (end - start).num_days() >= MOST_DAYS {
        return Err(format!(
            "{start} .. {end} is longer than ten years: choose a part of it"
        ));
    }
    let profile = "theirs".parse().map_err(|e| format!("{e}"))?;
    Ok(Spec {
        target: format!("{} on {}", wanted.dag, wanted.executor),
        name: wanted.name,
        environment: wanted.environment,
        start,
        end,
        granularity: Granularity::Day,
        timezone: wanted.timezone,
        executor: wanted.executor,
        command: Vec::new(),
        dag: Some(Dag {
            id: wanted.dag,
            conf: BTreeMap::new(),
            pool: wanted.pool,
        }),
        attach: Some(Attach {
            native: wanted.native,
        }),
        cwd: "/".to_owned(),
        env_pass: Vec::new(),
        env: BTreeMap::new(),
        env_secrets: Vec::new(),
        max_limit: wanted.max_limit.max(1),
        order: Order::OldestFirst,
        signals: wanted.signals,
        on_failure: OnFailure::Continue,
        profiles: vec![Profile {
            name: profile,
            memory: None,
            deadline_ms: None,
            values: BTreeMap::new(),
        }],
        lanes: BTreeMap::new(),
        source: BTreeMap::new(),
        idempotent: false,
        // What runs elsewhere is not started one by one by us, so there is nothing to admit.
        throttling: Throttling::default(),
        blackout: Vec::new(),
    })
}

/// A name of ours for a DAG: `events_daily` is `events-daily`; what no name may hold is left out. `taken` says which
/// names others have. `None` if a thousand of them are.
pub fn name_for(dag: &str, taken: impl Fn(&Name) -> bool) -> Option<Name> {
    let mut text = String::new();
    for c in dag.to_lowercase().chars() {
        match c {
            'a'..='z' => text.push(c),
            '0'..='9' if !text.is_empty() => text.push(c),
            _ if !text.is_empty() && !text.ends_with('-') => text.push('-'),
            _ => {}
        }
    }
    let stem = text.trim_end_matches('-');
    let stem = if stem.is_empty() { "dag" } else { stem };
    let named = |suffix: String| {
        let kept: String = stem.chars().take(31 - suffix.len()).collect();
        format!("{}{suffix}", kept.trim_end_matches('-'))
            .parse::<Name>()
            .ok()
    };
    [String::new(), "-attached".to_owned()]
        .into_iter()
        .chain((2..1000).map(|n| format!("-{n}")))
        .filter_map(named)
        .find(|name| !taken(name))
}

/// The attached backfill of the same days by the same levers, if one has not ended, whatever it is called.
pub fn attached_already<'a>(state: &'a State, spec: &Spec) -> Option<&'a Backfill> {
    let same = |s: &Spec| {
        (&s.attach, &s.executor, &s.dag, s.start, s.end)
            == (&spec.attach, &spec.executor, &spec.dag, spec.start, spec.end)
    };
    let mut live = state.backfills.values().filter(|b| !b.state().is_final());
    live.find(|b| b.spec.attach.is_some() && same(&b.spec))
}

/// Whether a native backfill from one instant to another has days of a window: else it is none of its business. All ends
/// are inclusive.
pub fn is_about((from, to): (Time, Time), (start, end): (NaiveDate, NaiveDate), zone: Tz) -> bool {
    let day = |at: Time| at.with_timezone(&zone).date_naive();
    day(from) <= end && start <= day(to)
}

/// Whether a backfill that has not ended has the name.
pub fn is_live(state: &State, name: &Name) -> bool {
    state
        .by_name(name.as_str())
        .is_some_and(|b| !b.state().is_final())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::event::Payload, plan::testing::Night};
    use chrono::TimeZone;

    fn wanted(start: (i32, u32, u32), end: (i32, u32, u32)) -> Wanted {
        let day = |(y, m, d)| NaiveDate::from_ymd_opt(y, m, d).unwrap();
        Wanted {
            name: "events".parse().unwrap(),
            executor: "airflow-prod".parse().unwrap(),
            environment: Some("prod".to_owned()),
            dag: "events_daily".to_owned(),
            native: Some(12),
            start: day(start),
            end: day(end),
            timezone: chrono_tz::America::New_York,
            pool: None,
            max_limit: 0,
            signals: Vec::new(),
        }
    }

    #[test]
    fn a_window_of_days_becomes_an_order_that_survives_journal_and_snapshot() {
        let spec = spec(wanted((2021, 1, 1), (2023, 12, 31))).unwrap();
        assert_eq!(spec.attach, Some(Attach { native: Some(12) }));
        assert_eq!(spec.max_limit, 1);
        let again: Spec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
        assert_eq!(again, spec);
        let kept: Spec = postcard::from_bytes(&postcard::to_stdvec(&spec).unwrap()).unwrap();
        assert_eq!(kept, spec);
    }

    #[test]
    fn a_window_that_is_none_or_endless_is_refused_in_words() {
        assert!(
            spec(wanted((2021, 1, 2), (2021, 1, 1)))
                .unwrap_err()
                .contains("before it starts")
        );
        assert!(
            spec(wanted((2001, 1, 1), (2021, 1, 1)))
                .unwrap_err()
                .contains("ten years")
        );
    }

    #[test]
    fn the_same_days_by_the_same_levers_are_attached_to_once_and_a_name_is_free_after_the_end() {
        let dag = |pool: Option<&str>| Dag {
            id: "events_daily".to_owned(),
            conf: BTreeMap::new(),
            pool: pool.map(str::to_owned),
        };
        let mut night = Night::new(3).attached(Attach { native: Some(12) }, dag(None));
        let ours = night.backfill().spec.clone();
        let other_name = Spec {
            name: "another".parse().unwrap(),
            ..ours.clone()
        };
        let other_pool = Spec {
            dag: Some(dag(Some("backfill_pool"))),
            ..ours.clone()
        };
        let found = |night: &Night, spec: &Spec| attached_already(&night.state, spec).map(|b| b.id.clone());
        assert_eq!(found(&night, &other_name), Some(night.id()));
        assert_eq!(found(&night, &other_pool), None);
        assert!(is_live(&night.state, &ours.name) && !is_live(&night.state, &other_name.name));
        night.human(Payload::Detached {});
        assert_eq!(found(&night, &other_name), None);
        assert!(!is_live(&night.state, &ours.name));
        let planned = Night::new(3);
        assert_eq!(found(&planned, &planned.backfill().spec), None);
    }

    #[test]
    fn a_native_backfill_belongs_to_a_window_with_a_day_of_it_in_the_windows_zone() {
        let zone = chrono_tz::America::New_York;
        let midnight = |y, m, d| zone.with_ymd_and_hms(y, m, d, 0, 0, 0).unwrap().to_utc();
        let native = (midnight(2022, 2, 1), midnight(2022, 2, 20));
        let about = |from: (u32, u32), to: (u32, u32)| {
            let day = |(m, d)| NaiveDate::from_ymd_opt(2022, m, d).unwrap();
            is_about(native, (day(from), day(to)), zone)
        };
        assert!(about((1, 1), (2, 1)) && about((2, 20), (3, 10)) && about((2, 3), (2, 4)));
        assert!(!about((2, 21), (3, 10)) && !about((1, 1), (1, 31)));
    }

    #[test]
    fn a_dag_has_a_name_that_nobody_else_has_whatever_it_is_called() {
        let free = |dag: &str| name_for(dag, |_| false).unwrap().to_string();
        assert_eq!(free("events_daily"), "events-daily");
        assert_eq!(free("2023.Ünïcode--X9"), "n-code-x9");
        assert_eq!(free("日次"), "dag");
        assert_eq!(free(&"a_".repeat(40)).len(), 31);
        let mut taken = vec!["events-daily".to_owned()];
        for _ in 0..3 {
            let name = name_for("events_daily", |n| taken.contains(&n.to_string())).unwrap();
            taken.push(name.to_string());
        }
        assert_eq!(
            taken,
            [
                "events-daily",
                "events-daily-attached",
                "events-daily-2",
                "events-daily-3"
            ]
        );
    }
}
