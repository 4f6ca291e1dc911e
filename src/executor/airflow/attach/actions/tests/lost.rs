//! Whatever is lost and whenever the supervisor dies: nothing is done twice, and nothing is forgotten.

use super::*;
use crate::domain::attach::Reprocess;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        2 => Just(Fault::None),
        1 => Just(Fault::Before),
        1 => Just(Fault::After),
        1 => (0_u8..29).prop_map(Fault::Late),
        1 => Just(Fault::Unclear),
        1 => Just(Fault::UnclearUndone),
        1 => Just(Fault::NotSent),
    ]
}

/// A run of a day before a re-run, and how it is held.
#[derive(Debug, Clone, Copy)]
enum Before {
    Done,
    Failed,
    OfCancelled,
    NeverBegun,
    Running,
    None,
}

fn before() -> impl Strategy<Value = Before> {
    prop::sample::select(vec![
        Before::Done,
        Before::Failed,
        Before::OfCancelled,
        Before::NeverBegun,
        Before::Running,
        Before::None,
    ])
}

fn set(play: &mut Play, n: u32, before: Before) {
    match before {
        Before::Done => drop(play.scheduled(n..=n, RunState::Success)),
        Before::Failed => drop(play.scheduled(n..=n, RunState::Failed)),
        Before::Running => drop(play.scheduled(n..=n, RunState::Running)),
        Before::OfCancelled => drop(play.days(n..=n, RunState::Failed)),
        Before::NeverBegun => {
            play.days(n..=n, RunState::Failed);
            let id = format!("backfill__2021-09-{n:02}");
            let mut world = play.model.world();
            let run = world.runs.get_mut(&id).unwrap();
            (run.started, run.ended) = (None, None);
        }
        Before::None => {}
    }
}

/// How often each thing was done.
fn counts(play: &Play) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for what in play.done() {
        *counts.entry(what).or_default() += 1;
    }
    counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn each_day_is_cleared_or_made_anew_exactly_once(
        days in prop::collection::vec(before(), 1..8),
        faults in prop::collection::vec(fault(), 0..14),
        scheduler: bool,
        reuses: bool,
    ) {
        let all = 1..=u32::try_from(days.len()).unwrap();
        let mut play = Play::new(None, rerun(all.clone()));
        play.twelve_cancelled();
        for (n, before) in all.zip(&days) {
            set(&mut play, n, *before);
        }
        play.reuses = reuses;
        let (ok, said) = play.end(&faults, scheduler);
        let counts = counts(&play);
        prop_assert!(counts.values().all(|n| *n == 1), "{counts:?} {said}");
        for (n, before) in (1..).zip(&days) {
            let did = |what: &str| counts.contains_key(&format!("{what} 2021-09-{n:02}"));
            match before {
                Before::Done | Before::Failed => prop_assert!(did("clear") && !did("delete"), "{said}"),
                Before::OfCancelled | Before::NeverBegun => {
                    prop_assert!(did("delete") && did("trigger") && !did("clear"), "{said}");
                }
                // It may have ended before its turn came.
                Before::Running => prop_assert!(scheduler || !did("clear"), "{said}"),
                Before::None => prop_assert!(!ok && said.contains("no run to clear"), "{said}"),
            }
        }
        prop_assert_eq!(ok, days.iter().all(|d| !matches!(d, Before::None)), "{}", said);
        // None waits for ever.
        let mut world = play.model.world();
        for _ in 0..200 {
            world.now += TimeDelta::seconds(11);
            world.schedule();
        }
        prop_assert!(world.runs.values().all(|r| r.state == RunState::Success || r.state == RunState::Failed));
        let stuck = world.runs.values().filter(|r| r.state == RunState::Failed);
        prop_assert_eq!(stuck.count(), 0, "{}", said);
    }

    #[test]
    fn a_native_backfill_is_made_once_with_the_days_of_its_dry_run(
        faults in prop::collection::vec(fault(), 0..8),
        scheduler: bool,
        reuses: bool,
        failed in 0_u32..5,
    ) {
        let mut play = Play::new(None, Action::Create {
            first: day(3), last: day(12), limit: 2, reprocess: Reprocess::Failed, newest_first: false,
        });
        play.scheduled(1..=6, RunState::Success);
        play.scheduled(7..=6 + failed, RunState::Failed);
        play.reuses = reuses;
        let (ok, said) = play.end(&faults, scheduler);
        prop_assert!(ok, "{said}");
        let world = play.model.world();
        prop_assert_eq!(world.natives.len(), 1);
        prop_assert_eq!(world.done.iter().filter(|d| d.starts_with("take")).count(), 6);
        prop_assert!(said.starts_with("native backfill 1 is made: 6 days, 2021-09-07 to 2021-09-12, at most 2 at once"), "{said}");
    }

    #[test]
    fn a_replacement_cancels_once_makes_once_and_keeps_what_is_done(
        faults in prop::collection::vec(fault(), 0..10),
        scheduler: bool,
        reuses: bool,
        attached: bool,
    ) {
        let mut play = Play::new(attached.then_some(12), Action::Replace { limit: 5 });
        play.twelve();
        play.days(1..=6, RunState::Success).days(7..=7, RunState::Failed).days(8..=9, RunState::Running);
        play.days(10..=20, RunState::Queued);
        play.reuses = reuses;
        let (ok, said) = play.end(&faults, scheduler);
        prop_assert!(ok, "{said}");
        let world = play.model.world();
        prop_assert_eq!(world.natives.iter().map(|n| n.id).collect::<Vec<_>>(), [13, 12]);
        prop_assert!(world.natives[1].is_cancelled());
        prop_assert_eq!(world.natives[0].max_active_runs, Some(5));
        let count = |start: &str| world.done.iter().filter(|d| d.starts_with(start)).count();
        prop_assert_eq!((count("cancel"), count("create")), (1, 1));
        for n in 1..=6 {
            prop_assert!(!world.done.contains(&format!("take 2021-09-{n:02}")), "{n}");
        }
        for n in (7..=7).chain(10..=20).filter(|n| *n == 7 || !scheduler) {
            prop_assert!(world.done.contains(&format!("take 2021-09-{n:02}")), "{n}");
        }
    }

    #[test]
    fn a_cancel_leaves_nothing_of_it_waiting_and_nothing_running_if_that_was_asked_for(
        faults in prop::collection::vec(fault(), 0..10),
        scheduler: bool,
        reuses: bool,
        running: bool,
        over in prop::option::of(prop::sample::select(vec![RunState::Success, RunState::Running])),
    ) {
        let mut play = Play::new(Some(12), Action::Cancel { running });
        play.twelve();
        play.days(1..=6, RunState::Success).days(7..=9, RunState::Running).days(10..=20, RunState::Queued);
        play.model.world().writes_over = over;
        play.reuses = reuses;
        let (ok, said) = play.end(&faults, scheduler);
        prop_assert!(ok, "{said}");
        let world = play.model.world();
        prop_assert!(world.natives[0].is_cancelled());
        prop_assert!(world.runs.values().all(|r| r.state != RunState::Queued), "{said}");
        if running {
            prop_assert!(world.runs.values().all(|r| r.state != RunState::Running), "{said}");
            // None is green that was not done.
            for done in world.done.iter().filter_map(|d| d.strip_prefix("mark ")) {
                let run = &world.runs[&format!("backfill__{done}")];
                prop_assert!(scheduler || run.state == RunState::Failed, "{said}");
            }
        }
        prop_assert_eq!(world.done.iter().filter(|d| d.starts_with("cancel")).count(), 1);
    }

    #[test]
    fn what_is_ended_or_marked_is_so_in_the_end(
        faults in prop::collection::vec(fault(), 0..10),
        done: bool,
        stop: bool,
        reuses: bool,
        over in prop::option::of(prop::sample::select(vec![RunState::Success, RunState::Running])),
    ) {
        let chunks: Vec<ChunkId> = (1..=6).map(day).collect();
        let action = if stop { Action::Stop { chunks } } else { Action::Mark { chunks, done } };
        let mut play = Play::new(None, action);
        if stop {
            play.scheduled(1..=4, RunState::Running).scheduled(5..=6, RunState::Success);
            play.model.world().writes_over = over;
        } else {
            play.scheduled(1..=2, RunState::Success).scheduled(3..=5, RunState::Failed);
            play.scheduled(6..=6, RunState::Queued);
        }
        play.reuses = reuses;
        let (ok, said) = play.end(&faults, false);
        prop_assert!(ok, "{said}");
        for n in 1..=6 {
            let state = play.state(&format!("scheduled__2021-09-{n:02}"));
            let wanted = match (stop, n) {
                (true, 5 | 6) => RunState::Success,
                (true, _) => RunState::Failed,
                (false, _) if done => RunState::Success,
                (false, _) => RunState::Failed,
            };
            prop_assert_eq!(state, wanted, "{}", said);
        }
    }

    #[test]
    fn a_lever_stands_as_asked_for_whatever_is_lost(
        faults in prop::collection::vec(fault(), 0..8),
        which in 0_u8..5,
        reuses: bool,
    ) {
        let action = match which {
            0 => Action::Pause { whole_dag: false },
            1 => Action::Resume { whole_dag: false },
            2 => Action::Pause { whole_dag: true },
            3 => Action::Resume { whole_dag: true },
            _ => Action::Slots { pool: "p".into(), slots: 5 },
        };
        let mut play = Play::new(None, action);
        play.twelve();
        play.model.world().natives[0].paused = which == 1;
        play.model.world().frozen = which == 3;
        play.model.world().pools.insert("p".into(), super::super::model::pool("p", 2));
        play.reuses = reuses;
        let (ok, said) = play.end(&faults, false);
        prop_assert!(ok, "{said}");
        let world = play.model.world();
        prop_assert_eq!(world.natives[0].paused, which == 0);
        prop_assert_eq!(world.frozen, which == 2);
        prop_assert_eq!(world.pools["p"].slots, if which == 4 { 5 } else { 2 });
    }
}
