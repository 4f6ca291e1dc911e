//! What a signal is made of goes from its source through a real supervisor into the journal, and what its law goes by
//! into `status`.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::{domain::ids::Name, journal::PartMinute};
use serde_json::Value;
use std::{collections::BTreeMap, fs};
use support::{Setup, Workspace};

fn signal() -> Name {
    "lag".parse().unwrap()
}

/// The newest minute of each part.
fn newest(workspace: &Workspace) -> BTreeMap<String, PartMinute> {
    let since = chrono::Utc::now() - chrono::TimeDelta::minutes(5);
    let minutes = workspace
        .journal()
        .and_then(|j| j.part_minutes_since(&signal(), since).ok());
    let minutes = minutes.unwrap_or_default();
    minutes.into_iter().map(|m| (m.name.clone(), m)).collect()
}

#[test]
fn the_parts_of_a_reading_are_recorded_and_the_terms_of_the_law_are_told_by_status() {
    let workspace = Setup::new(400, 2)
        .job("mark start\nsleep 0.05")
        .order_more("signals = [\"lag\"]")
        .more(
            "[signals.lag]\nkind = \"command\"\ncommand = [\"cat\", \"says.json\"]\nunit = \"seconds\"\nsoft = 60\n\
             hard = 180\ncritical = 900\ninterval = \"200ms\"\n",
        )
        .tuning("start_gap", "10ms")
        .open();
    // A program without a slash starts where the supervisor does: give it the file's full name.
    let says = workspace.path("says.json");
    let text = workspace.text().replace("says.json", &says.display().to_string());
    workspace.write_config(&text);
    let say = |text: &str| {
        let next = workspace.path("says.next");
        fs::write(&next, text).unwrap();
        fs::rename(next, &says).unwrap();
    };
    say(r#"{"lag": 12, "parts": {"etl/orders": 12, "etl/clicks": 3}}"#);
    let _run = workspace.run("orders");
    let first = workspace.wait("the order", || {
        workspace.backfill("orders")?;
        Some(workspace.status("orders").1)
    });
    assert!(first.get("law").is_some(), "{first}");
    let seen = workspace.wait("both parts", || {
        let seen = newest(&workspace);
        (seen.len() == 2).then_some(seen)
    });
    assert_eq!(
        (seen["etl/orders"].last, seen["etl/clicks"].max),
        (Some(12.0), Some(3.0))
    );
    let law = workspace.wait("the law's terms", || {
        let law = workspace.status("orders").1["law"].take();
        (!law["terms"].is_null()).then_some(law)
    });
    assert_eq!((&law["law"], &law["signal"]), (&"learned".into(), &"lag".into()));
    assert!(law["age_s"].as_f64().is_some_and(|age| age >= 0.0), "{law}");
    for number in ["room", "one_more_costs_per_min", "lag", "peak", "drift_per_min"] {
        assert!(law["terms"][number].is_number(), "{number} of {law}");
    }

    // A larger number of the same minute, or of the next.
    say(r#"{"lag": 30, "parts": {"etl/orders": 30}}"#);
    workspace.wait("the larger number", || {
        (newest(&workspace)["etl/orders"].max == Some(30.0)).then_some(())
    });
}

/// Nobody told of it: that is `null`, not an empty law.
#[test]
fn without_a_signal_no_law_is_told() {
    let workspace = Setup::new(2, 1).job("mark start").open();
    assert_eq!(workspace.run("orders").end(), 0, "{}", workspace.told());
    let status = workspace.status("orders").1;
    assert_eq!(status["law"], Value::Null, "{status}");
}
