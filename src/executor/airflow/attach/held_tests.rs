use super::super::testing::{order, run};
use super::*;
use chrono::Days as CivilDays;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const NOW: BootInstant = BootInstant(1_000_000);

fn at(text: &str) -> Time {
    text.parse().unwrap()
}

fn held(first: &str, last: &str) -> Held {
    let calendar = Calendar::of(&order("UTC", first, last, "day"));
    let to = calendar.end() - TimeDelta::microseconds(1);
    let span = Span {
        from: calendar.first(),
        to,
    };
    Held::new(calendar, Key::Logical, span, NOW)
}

fn named(id: &str, date: &str, fields: Value) -> Run {
    let mut all = json!({"dag_run_id": id, "logical_date": date});
    all.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    run(all)
}

fn shown(days: &Days) -> String {
    let runs = |runs: &[SeenRun]| {
        runs.iter()
            .map(|r| format!("{}={}", r.run, r.word))
            .collect::<Vec<_>>()
            .join(",")
    };
    days.iter()
        .map(|(id, r)| format!("{id}:{}", runs(r)))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn the_words_of_the_server_become_phases_and_a_day_of_a_cancelled_backfill_is_cancelled() {
    let never = json!({"state": "failed", "run_type": "backfill"});
    let begun = json!({"state": "failed", "run_type": "backfill", "start_date": "2026-01-01T00:00:00Z"});
    for (fields, expected, word) in [
        (json!({"state": "queued"}), RunPhase::Queued, "queued"),
        (json!({"state": "running"}), RunPhase::Running, "running"),
        (json!({"state": "failed"}), RunPhase::Failed, "failed"),
        (never, RunPhase::Cancelled, "failed"),
        (begun, RunPhase::Failed, "failed"),
        (
            json!({"state": "re\u{1b}starting"}),
            RunPhase::Unknown,
            "re^[starting",
        ),
        (json!({"state": null}), RunPhase::Unknown, "null"),
    ] {
        let seen = seen(&run(fields.clone()));
        assert_eq!((seen.phase, seen.word.as_str()), (expected, word), "{fields}");
    }
}

/// Airflow's fact 1.
#[test]
fn a_success_that_cannot_have_done_anything_says_so() {
    let start = Some(at("2021-01-01T00:00:00Z"));
    let span = |end: &str| json!({"start_date": "2026-01-01T00:00:00Z", "end_date": end});
    let (quick, slow) = (span("2026-01-01T00:00:00.370Z"), span("2026-01-01T00:00:09Z"));
    let word = |date: &str, kind: &str, times: &Value| {
        let mut held = held("2019-01-01", "2022-12-31");
        held.take(
            &[named("a", date, json!({"state": "success", "run_type": kind})), {
                let mut fields = times.clone();
                fields["state"] = json!("success");
                fields["run_type"] = json!(kind);
                named("a", date, fields)
            }],
            NOW,
        );
        held.set_start(start);
        let doubtful = held.tally(NOW, None).doubtful;
        let word = held.changes().into_values().next().unwrap()[0].word.clone();
        assert_eq!(doubtful == 0, word == "success");
        word
    };
    assert_eq!(word("2021-05-01T00:00:00Z", "manual", &slow), "success");
    assert_eq!(
        word("2021-05-01T00:00:00Z", "scheduled", &quick),
        "success within a second: did a task run?"
    );
    assert_eq!(
        word("2020-05-01T00:00:00Z", "manual", &slow),
        "success, but before the DAG's start date: no task ran"
    );
    assert_eq!(
        word("2020-05-01T00:00:00Z", "backfill", &slow),
        "success",
        "a backfill does run those"
    );
    assert_eq!(
        word("2021-05-01T00:00:00Z", "manual", &json!({})),
        "success, but never begun"
    );
}

#[test]
fn only_what_changed_is_told_and_a_day_always_with_all_its_runs_in_the_order_of_their_making() {
    let mut held = held("2024-01-01", "2024-01-31");
    let by_hand = named(
        "manual",
        "2024-01-05T13:12:00Z",
        json!({"run_after": "2026-01-01T00:00:00Z"}),
    );
    let planned = named(
        "scheduled",
        "2024-01-05T00:00:00Z",
        json!({"run_after": "2024-01-06T00:00:00Z"}),
    );
    held.take(
        &[
            by_hand,
            planned.clone(),
            named("b", "2024-01-06T00:00:00Z", json!({})),
        ],
        NOW,
    );
    assert_eq!(
        shown(&held.changes()),
        "2024-01-05:scheduled=queued,manual=queued 2024-01-06:b=queued"
    );
    held.take(&[planned], NOW);
    assert_eq!(shown(&held.changes()), "", "nothing is new in it");
    held.take(
        &[named("b", "2024-01-06T00:00:00Z", json!({"state": "running"}))],
        NOW,
    );
    assert_eq!(shown(&held.changes()), "2024-01-06:b=running");
    let day = Span {
        from: at("2024-01-05T00:00:00Z"),
        to: at("2024-01-05T23:59:59Z"),
    };
    held.take_all(day, &[], NOW);
    assert_eq!(shown(&held.changes()), "2024-01-05:");
    assert_eq!(shown(&held.all()), "2024-01-06:b=running");
    assert_eq!((held.len(), held.count(day)), (1, 0));
}

#[test]
fn runs_outside_the_window_and_without_a_date_are_not_held() {
    let mut held = held("2024-01-01", "2024-01-31");
    held.take(
        &[
            named("before", "2023-12-31T23:59:59Z", json!({})),
            named("after", "2024-02-01T00:00:00Z", json!({})),
            run(json!({"dag_run_id": "none", "logical_date": null})),
        ],
        NOW,
    );
    assert_eq!((held.len(), shown(&held.changes())), (0, String::new()));
}

#[test]
fn how_long_a_run_waits_is_told_by_the_servers_clock_or_else_by_ours() {
    let mut held = held("2024-01-01", "2024-01-31");
    held.take(
        &[named(
            "a",
            "2024-01-05T00:00:00Z",
            json!({"queued_at": "2026-01-01T00:00:00Z"}),
        )],
        NOW,
    );
    let later = BootInstant(NOW.0 + 60_000);
    let waited = |held: &Held, server| held.tally(later, server).waited.as_secs();
    assert_eq!(waited(&held, Some(at("2026-01-01T00:15:00Z"))), 900);
    assert_eq!(waited(&held, None), 60);
    held.take(
        &[named(
            "a",
            "2024-01-05T00:00:00Z",
            json!({"queued_at": "2026-01-01T00:00:00Z"}),
        )],
        later,
    );
    assert_eq!(waited(&held, None), 60, "seen once more");
    held.take(
        &[named("a", "2024-01-05T00:00:00Z", json!({"state": "running"}))],
        later,
    );
    assert_eq!((waited(&held, None), held.tally(later, None).running), (0, 1));
}

#[test]
fn the_parts_of_a_window_cover_it_without_gaps() {
    let mut held = held("2020-01-01", "2022-12-31");
    assert_eq!(held.parts(100), vec![held.span()]);
    let begin = at("2020-01-01T00:00:00Z");
    let runs: Vec<Run> = (0..1096)
        .map(|n| {
            named(
                &format!("r{n}"),
                &(begin + CivilDays::new(n)).to_rfc3339(),
                json!({}),
            )
        })
        .collect();
    held.take(&runs, NOW);
    let parts = held.parts(100);
    assert_eq!(parts.len(), 11);
    assert!(parts.iter().all(|p| held.count(*p) <= 100));
    assert_eq!((parts[0].from, parts[10].to), (held.span().from, held.span().to));
    assert!(
        parts
            .windows(2)
            .all(|p| p[0].to + TimeDelta::microseconds(1) == p[1].from)
    );
}

/// What a server holds, and what it does with it.
#[derive(Debug, Clone)]
enum Deed {
    Make(u8, u8),
    Change(u8),
    Delete(u8),
    Poll,
    ReadPart(u8),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        3 => (any::<u8>(), 0_u8..60).prop_map(|(id, day)| Deed::Make(id, day)),
        3 => any::<u8>().prop_map(Deed::Change),
        2 => any::<u8>().prop_map(Deed::Delete),
        2 => Just(Deed::Poll),
        2 => (0_u8..12).prop_map(Deed::ReadPart),
    ];
    proptest::collection::vec(deed, 0..120)
}

proptest! {
    /// Parts in any order, polls between them, runs that come, change and go at any time: when every part was read
    /// once more, or when nothing was deleted since and a poll came, what is held is what the server has.
    #[test]
    fn in_whatever_order_it_is_read_the_end_is_the_servers_truth(deeds in deeds()) {
        let mut held = held("2024-01-01", "2024-02-29");
        let begin = at("2024-01-01T00:00:00Z");
        let date = |day: u8| begin + CivilDays::new(u64::from(day)) + TimeDelta::minutes(7);
        // Number and version of each run; a change is a later version.
        let mut server: BTreeMap<u8, (u8, u32)> = BTreeMap::new();
        let mut touched: Vec<u8> = Vec::new();
        let mut version = 0;
        let row = |id: u8, (day, version): (u8, u32)| {
            let state = ["queued", "running", "success", "failed"][version as usize % 4];
            named(&format!("run{id}"), &date(day).to_rfc3339(), json!({"state": state, "queued_at": begin, "start_date": begin, "end_date": begin + TimeDelta::seconds(9)}))
        };
        let part = |n: u8| Span { from: begin + CivilDays::new(u64::from(n) * 5),
            to: begin + CivilDays::new(u64::from(n) * 5 + 5) - TimeDelta::microseconds(1) };
        let mut gone: Vec<u8> = Vec::new();
        for deed in deeds {
            version += 1;
            match deed {
                Deed::Make(id, day) => { if let std::collections::btree_map::Entry::Vacant(free) = server.entry(id) { free.insert((day, version)); touched.push(id); } }
                Deed::Change(id) => if let Some(run) = server.get_mut(&id) { run.1 = version; touched.push(id); },
                Deed::Delete(id) => if server.remove(&id).is_some() { gone.push(id); },
                Deed::Poll => {
                    let rows: Vec<Run> = touched.drain(..).filter_map(|id| Some(row(id, *server.get(&id)?))).collect();
                    held.take(&rows, NOW);
                }
                Deed::ReadPart(n) => {
                    let rows: Vec<Run> = server.iter().filter(|(_, r)| part(n).holds(date(r.0)))
                        .map(|(id, r)| row(*id, *r)).collect();
                    held.take_all(part(n), &rows, NOW);
                }
            }
        }
        let rows: Vec<Run> = touched.drain(..).filter_map(|id| Some(row(id, *server.get(&id)?))).collect();
        held.take(&rows, NOW);
        let mut truth: BTreeMap<ChunkId, Vec<SeenRun>> = BTreeMap::new();
        for (id, run) in &server {
            let chunk = ChunkId::day(date(run.0).date_naive());
            truth.entry(chunk).or_default().push(seen(&row(*id, *run)));
        }
        let sorted = |mut days: Days| { days.values_mut().for_each(|r| r.sort_by(|a, b| a.run.0.cmp(&b.run.0))); days };
        if gone.is_empty() {
            // Runs that nobody read since they were made are brought by the poll.
            prop_assert_eq!(held.len(), server.len());
        } else if held.len() == server.len() {
            // The number says that nothing is held that is gone.
        } else {
            prop_assert!(held.len() > server.len());
        }
        for n in (0..12).rev() {
            let rows: Vec<Run> = server.iter().filter(|(_, r)| part(n).holds(date(r.0))).map(|(id, r)| row(*id, *r)).collect();
            held.take_all(part(n), &rows, NOW);
        }
        let all: Days = truth.clone();
        prop_assert_eq!(sorted(held.all()), sorted(all));
        prop_assert_eq!(held.len(), server.len());
        prop_assert_eq!(held.changes(), Days::new());
    }
}
