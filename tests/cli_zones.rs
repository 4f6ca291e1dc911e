//! Days and zones on the command line: what a day is depends on the backfill's zone and on nothing else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use chrono::{DateTime, NaiveDate};
use serde_json::Value;
use std::{
    fs,
    process::{Command, Stdio},
};

/// Zones of a reader on both sides of the date line, in one of which 2024-03-10 has 23 hours.
const READERS: [&str; 5] = [
    "UTC",
    "America/New_York",
    "Pacific/Kiritimati",
    "Pacific/Pago_Pago",
    "Asia/Kathmandu",
];

struct Desk(tempfile::TempDir);

impl Desk {
    /// Berlin's clocks go forward in the night to 2024-03-31 and back in the night to 2024-10-27.
    fn new(granularity: &str, first: &str, last: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "[journal]\npath = \"state/journal.db\"\n[executors.here]\nkind = \"local\"\n[backfills.orders]\n\
             target = \"t\"\nstart = {first}\nend = {last}\ngranularity = \"{granularity}\"\n\
             timezone = \"Europe/Berlin\"\nexecutor = \"here\"\ncommand = [\"true\"]\n"
        );
        fs::write(dir.path().join("config.toml"), config).unwrap();
        Self(dir)
    }

    /// What a command prints for a reader in a zone.
    fn says(&self, reader: &str, arguments: &[&str]) -> String {
        let out = Command::new(env!("CARGO_BIN_EXE_backfill"))
            .args(arguments)
            .arg("--config")
            .arg(self.0.path().join("config.toml"))
            .env("TZ", reader)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }
}

/// Case B05: the reader's own zone changes no chunk, no instant and no digest of a plan.
#[test]
fn a_plan_is_the_same_plan_wherever_its_reader_is() {
    for (granularity, first, last) in [
        ("day", "2024-01-01", "2024-12-31"),
        ("hour", "2024-10-26", "2024-10-28"),
        ("month", "2024-01-01", "2024-12-31"),
    ] {
        let desk = Desk::new(granularity, first, last);
        for arguments in [&["plan", "orders", "--json"][..], &["plan", "orders", "--all"]] {
            let in_utc = desk.says("UTC", arguments);
            for reader in READERS {
                assert_eq!(
                    desk.says(reader, arguments),
                    in_utc,
                    "{granularity} for a reader in {reader}"
                );
            }
        }
    }
}

/// Cases B05 and B08: the preview names the zone beside its dates, and machines get the civil date with instants that
/// carry their offset.
#[test]
fn dates_carry_their_zone_and_instants_their_offset() {
    let desk = Desk::new("day", "2024-03-29", "2024-04-02");
    let words = desk.says("America/New_York", &["plan", "orders"]);
    let line = words
        .lines()
        .find(|l| l.contains("2024-03-29 to 2024-04-02"))
        .expect("first and last day");
    assert!(line.contains("Europe/Berlin"), "{line}");
    assert!(
        words.contains("[2024-03-29T00:00:00+01:00, 2024-04-03T00:00:00+02:00)"),
        "{words}"
    );

    let plan: Value =
        serde_json::from_str(&desk.says("America/New_York", &["plan", "orders", "--json"])).unwrap();
    assert_eq!(plan["timezone"], "Europe/Berlin");
    let chunks = plan["chunks"].as_array().unwrap();
    let hours: Vec<(String, i64)> = chunks
        .iter()
        .map(|chunk| {
            let instant = |key: &str| DateTime::parse_from_rfc3339(chunk[key].as_str().unwrap()).unwrap();
            let (start, end) = (instant("start"), instant("end"));
            let day: NaiveDate = chunk["chunk"].as_str().unwrap().parse().unwrap();
            // The civil date is read in the offset that the instant itself carries.
            assert_eq!(start.date_naive(), day);
            (day.to_string(), (end - start).num_hours())
        })
        .collect();
    let expected = [
        ("2024-03-29", 24),
        ("2024-03-30", 24),
        ("2024-03-31", 23),
        ("2024-04-01", 24),
        ("2024-04-02", 24),
    ];
    assert_eq!(hours, expected.map(|(day, hours)| (day.to_owned(), hours)));
}

#[test]
fn a_week_or_month_that_the_range_cuts_is_said_with_its_days_and_how_to_align() {
    // A Wednesday to a Tuesday.
    let desk = Desk::new("week", "2024-01-03", "2024-01-16");
    let plan = desk.says("UTC", &["plan", "orders"]);
    for line in [
        "  partial     week 2024-01-03 covers only 2024-01-03 .. 2024-01-07 of 2024-01-01 .. 2024-01-07; to align: start = \
         2024-01-01 or 2024-01-08\n",
        "  partial     week 2024-01-15 covers only 2024-01-15 .. 2024-01-16 of 2024-01-15 .. 2024-01-21; to align: end = \
         2024-01-21 or 2024-01-14\n",
    ] {
        assert!(plan.contains(line), "{plan}");
    }
    let check = desk.says("UTC", &["check"]);
    assert!(
        check.contains("note range of orders: week 2024-01-03 covers only"),
        "{check}"
    );

    let both = Desk::new("month", "2024-02-02", "2024-02-28");
    let plan: Value = serde_json::from_str(&both.says("UTC", &["plan", "orders", "--json"])).unwrap();
    assert_eq!(plan["partial"].as_array().unwrap().len(), 1, "{plan}");
    assert_eq!(
        plan["partial"][0]["whole"],
        serde_json::json!(["2024-02-01", "2024-02-29"])
    );
    assert_eq!(
        plan["partial"][0]["align"],
        serde_json::json!([["start", ["2024-02-01"]], ["end", ["2024-02-29"]]])
    );

    for (granularity, first, last) in [
        ("week", "2024-01-01", "2024-01-14"),
        ("month", "2024-02-01", "2024-02-29"),
        ("day", "2024-01-03", "2024-01-16"),
    ] {
        let whole = Desk::new(granularity, first, last);
        let plan = whole.says("UTC", &["plan", "orders"]);
        assert!(!plan.contains("partial"), "{plan}");
    }
}
