//! Once and only once (issue 2, proof 2; cases B03, B04): whatever dies at whatever moment, every chunk ends Done and
//! no attempt runs twice.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::{
    domain::{event::Payload, state::ChunkState},
    executor::local::kill_point as shim_points,
    supervisor::kill_point as points,
};
use rand::RngExt;
use std::{fs, sync::Barrier};
use support::{Noise, Order, Setup, Workspace, known, moment, ms, seeded};

/// Case B04.
#[test]
fn a_supervisor_killed_five_times_at_random_moments_starts_no_attempt_twice_and_finishes() {
    let workspace = Setup::new(200, 4).open();
    let mut rng = seeded(1);
    let mut run = workspace.run("orders");
    let noise = Noise::on(&workspace);
    for death in 1..=5 {
        // One that dies before it has said that it is there leaves no epoch in the events.
        workspace.wait("it to take over", || {
            (workspace.epochs().len() == death).then_some(())
        });
        workspace.wait("some progress", || {
            (workspace.done("orders") >= death * 30).then_some(())
        });
        std::thread::sleep(moment(&mut rng, 0, 60));
        run.kill();
        run = workspace.run("orders");
    }
    assert_eq!(run.end(), 0, "{}", workspace.told());
    noise.end();
    assert_eq!(workspace.done("orders"), 200);
    workspace.assert_once_only();

    let mut days: Vec<String> = workspace
        .started()
        .iter()
        .map(|a| a.split('/').nth(1).unwrap().to_owned())
        .collect();
    days.sort();
    days.dedup();
    assert_eq!(days.len(), 200, "every day ran");
    assert_eq!(workspace.epochs(), [1, 2, 3, 4, 5, 6]);
    let events = workspace.call(&["events", "orders"]).ok().out;
    assert_eq!(events.matches(" took over from epoch ").count(), 5, "{events}");
}

/// The supervisor dies once at the place, at its first passing and again in the middle, and is started again at once.
fn killed_supervisor(place: &str, salt: u64) {
    let workspace = Setup::new(24, 3).open();
    let permission = workspace.path("may-die");
    let start = || {
        workspace.run_with("orders", |c| {
            c.env("BACKFILL_TESTING", "1")
                .env("BACKFILL_KILL_AT", format!("{place}@{}", permission.display()));
        })
    };
    let mut rng = seeded(salt);
    let killed = |mut run: support::Running| {
        workspace.wait("the death at its place", || run.has_ended());
        assert!(run.was_killed(), "{place}: {}", workspace.told());
    };
    fs::write(&permission, "").unwrap();
    killed(start());
    let second = start();
    workspace.wait("some progress", || (workspace.done("orders") >= 4).then_some(()));
    std::thread::sleep(moment(&mut rng, 0, 50));
    fs::write(&permission, "").unwrap();
    killed(second);
    assert_eq!(start().end(), 0, "{place}: {}", workspace.told());
    assert_eq!(workspace.done("orders"), 24, "{place}");
    workspace.assert_once_only();
}

/// Case B04.
#[test]
fn a_supervisor_that_dies_before_its_intents_are_durable_loses_nothing() {
    killed_supervisor(points::BEFORE_INTENTS, 10);
}

/// Case B04.
#[test]
fn a_supervisor_that_dies_between_intent_and_effect_sends_the_same_attempts_later() {
    killed_supervisor(points::INTENTS_APPENDED, 11);
}

/// Case B04.
#[test]
fn a_supervisor_that_dies_with_the_gate_passed_sends_the_same_attempts_later() {
    killed_supervisor(points::GATE_PASSED, 12);
}

/// Case B04.
#[test]
fn a_supervisor_that_dies_with_an_answer_in_its_hands_asks_what_became_of_it() {
    killed_supervisor(points::ANSWERED, 13);
}

/// Case B04.
#[test]
fn a_supervisor_that_dies_after_an_answer_was_stored_does_not_send_again() {
    killed_supervisor(points::ANSWER_APPENDED, 14);
}

/// A shim dies at the place, and another one while the supervisor dies too.
fn killed_shims(place: &str) {
    // One chunk may be hit by both deaths: a second kill is tried again only on a further step of the ladder.
    let workspace = Setup::new(16, 3)
        .order_more("profiles = [\"default\", \"large\"]\n")
        .more("[profiles.large]\ndeadline = \"5m\"\n")
        .open();
    let permission = workspace.path("may-die");
    let start = || {
        workspace.run_with("orders", |c| {
            c.env("BACKFILL_TESTING", "1")
                .env("BACKFILL_KILL_AT", format!("{place}@{}", permission.display()));
        })
    };
    fs::write(&permission, "").unwrap();
    let run = start();
    workspace.wait("the first shim's death", || (!permission.exists()).then_some(()));
    workspace.wait("some progress", || (workspace.done("orders") >= 3).then_some(()));
    fs::write(&permission, "").unwrap();
    workspace.wait("the second shim's death", || (!permission.exists()).then_some(()));
    run.kill();
    assert_eq!(start().end(), 0, "{place}: {}", workspace.told());
    assert_eq!(workspace.done("orders"), 16, "{place}");
    workspace.assert_once_only();
}

#[test]
fn what_became_of_an_attempt_without_an_answer_is_asked_at_once() {
    let workspace = Setup::new(4, 2).open();
    let permission = workspace.path("may-die");
    fs::write(&permission, "").unwrap();
    let mut run = workspace.run_with("orders", |c| {
        let place = format!("{}@{}", shim_points::SHIM_CHECKED, permission.display());
        c.env("BACKFILL_TESTING", "1").env("BACKFILL_KILL_AT", place);
    });
    assert_eq!(run.end(), 0, "{}", workspace.told());
    assert!(!permission.exists(), "a shim died");
    assert_uncertainty_was_short(&workspace);
    workspace.assert_once_only();
}

fn assert_uncertainty_was_short(workspace: &Workspace) {
    let events = workspace.events();
    for uncertain in &events {
        let payload = known(uncertain.clone());
        let Payload::RunUncertain { attempt, .. } = &payload else {
            continue;
        };
        let settled = events
            .iter()
            .find(|e| e.seq > uncertain.seq && known((*e).clone()).attempt() == Some(attempt));
        let took = settled.expect("it was settled").at - uncertain.at;
        assert!(
            took < chrono::Duration::seconds(5),
            "{attempt} was uncertain for {took}"
        );
    }
}

#[test]
fn shims_that_die_before_their_command_can_run_cost_no_chunk_and_start_nothing_twice() {
    for place in [
        shim_points::SHIM_CLAIMED,
        shim_points::SHIM_CHECKED,
        shim_points::EXEC_SPAWNED,
        shim_points::CHILD_RECORDED,
    ] {
        killed_shims(place);
    }
}

#[test]
fn shims_that_die_while_or_after_their_command_runs_cost_no_chunk_and_start_nothing_twice() {
    for place in [
        shim_points::GATE_OPENED,
        shim_points::COMMAND_ENDED,
        shim_points::EXIT_RECORDED,
    ] {
        killed_shims(place);
    }
}

/// Case B03: the loser exits with code 5 and changes nothing.
#[test]
fn a_second_run_of_the_same_backfill_exits_5_and_changes_nothing() {
    let workspace = Setup::new(4, 2)
        .job("mark start\nwhile [ -e hold ]; do sleep 0.05; done")
        .open();
    fs::write(workspace.path("hold"), "").unwrap();
    let mut first = workspace.run("orders");
    workspace.wait("two jobs", || (workspace.started().len() == 2).then_some(()));
    workspace.wait("both running", || {
        (workspace.in_state("orders", ChunkState::Running) == 2).then_some(())
    });
    let before = workspace.state();
    let second = workspace.call(&["run", "orders"]);
    assert_eq!(second.code, 5, "{second:?}");
    assert!(
        second.err.contains("orders is supervised already, by"),
        "{second:?}"
    );
    assert_eq!(workspace.state(), before);
    assert_eq!(first.has_ended(), None);
    fs::remove_file(workspace.path("hold")).unwrap();
    assert_eq!(first.end(), 0);
    workspace.assert_once_only();
}

/// Writes who sent each job: the parent of the shim, its parent.
const MARK_SENDER: &str = "sender=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$PPID/status)\n\
                           printf 'sender %s\\n' \"$sender\" >> marks\nmark start\nsleep 0.02";

fn stopped_holder(setup: Setup, stopped_for: std::time::Duration) {
    let workspace = setup.job(MARK_SENDER).open();
    let mut rng = seeded(20);
    let mut old = workspace.run("orders");
    workspace.wait("some progress", || (workspace.done("orders") >= 6).then_some(()));
    std::thread::sleep(moment(&mut rng, 0, 60));
    old.freeze(&workspace);
    std::thread::sleep(stopped_for);
    let mut new = workspace.run("orders");
    let pids = [old.pid(), new.pid()];
    workspace.wait("the takeover", || (workspace.epochs() == [1, 2]).then_some(()));
    let taken = workspace.done("orders");
    workspace.wait("progress of the new holder", || {
        (workspace.done("orders") >= taken + 3).then_some(())
    });
    old.signal("CONT");
    assert_eq!(new.end(), 0, "{}", workspace.told());
    assert_eq!(
        old.end(),
        0,
        "the old one follows and ends by itself: {}",
        workspace.told()
    );
    let place = |line: &String| {
        let sender = line.strip_prefix("sender ")?;
        pids.iter().position(|pid| pid.to_string() == sender)
    };
    let senders: Vec<usize> = workspace.marks().iter().filter_map(place).collect();
    assert!(
        senders.is_sorted(),
        "the old holder sent something after the takeover: {senders:?}"
    );
    assert_eq!(senders.len(), 60, "each job was sent by one of the two");
    assert!(senders.contains(&0) && senders.contains(&1));
    assert_eq!(workspace.epochs(), [1, 2], "nobody else took the lease");
    workspace.assert_once_only();
}

#[test]
fn a_holder_stopped_for_longer_than_its_lease_sends_nothing_when_it_goes_on() {
    let setup = Setup::new(60, 3)
        .tuning("lease_renew", "300ms")
        .tuning("lease_stop", "1s")
        .tuning("lease_ttl", "1500ms");
    stopped_holder(setup, ms(1800));
}

/// The same with the times of the law; a minute long, so only with `BACKFILL_TEST_LONG=1`.
#[test]
fn a_holder_stopped_for_a_minute_sends_nothing_when_it_goes_on() {
    if std::env::var("BACKFILL_TEST_LONG").is_ok_and(|v| v == "1") {
        stopped_holder(Setup::new(60, 3), ms(60_000));
    }
}

/// Case B03.
#[test]
fn two_runs_of_two_backfills_started_in_one_moment_share_one_lease_and_the_slots() {
    for _ in 0..4 {
        let workspace = Setup::new(12, 3)
            .and(Order::new("invoices", 12, 3))
            .job("mark start\nsleep 0.03\nmark end")
            .open();
        let together = Barrier::new(2);
        let codes: Vec<i32> = std::thread::scope(|scope| {
            let run = |name| {
                let (workspace, together) = (&workspace, &together);
                scope.spawn(move || {
                    together.wait();
                    workspace.run(name).end()
                })
            };
            let runs = [run("orders"), run("invoices")];
            runs.map(|r| r.join().unwrap()).into()
        });
        assert_eq!(codes, [0, 0], "{}", workspace.told());
        assert_eq!((workspace.done("orders"), workspace.done("invoices")), (12, 12));
        assert!(workspace.most_at_a_time() <= 3, "{:?}", workspace.marks());
        workspace.assert_once_only();
        let leases: Vec<Payload> = workspace
            .payloads()
            .into_iter()
            .filter(|p| matches!(p, Payload::LeaseTaken { .. } | Payload::LeaseReleased { .. }))
            .collect();
        for pair in leases.chunks(2) {
            let [
                Payload::LeaseTaken { epoch: a, from, .. },
                Payload::LeaseReleased { epoch: b },
            ] = pair
            else {
                panic!("two holders at a time: {leases:?}");
            };
            assert_eq!((a, from), (b, &None));
        }
    }
}

/// Two runs of one name at once are one order: one supervises, the other follows it or is told that it is supervised.
#[test]
fn two_runs_of_one_backfill_started_in_one_moment_are_one_order() {
    for _ in 0..4 {
        let workspace = Setup::new(6, 2).open();
        let together = Barrier::new(2);
        let codes: Vec<i32> = std::thread::scope(|scope| {
            let run = || {
                let (workspace, together) = (&workspace, &together);
                scope.spawn(move || {
                    together.wait();
                    workspace.run("orders").end()
                })
            };
            let runs = [run(), run()];
            runs.map(|r| r.join().unwrap()).into()
        });
        assert!(
            codes.contains(&0) && codes.iter().all(|c| [0, 5].contains(c)),
            "{codes:?}"
        );
        assert_eq!(workspace.count(|p| matches!(p, Payload::Started { .. })), 1);
        assert_eq!(workspace.started().len(), 6);
        workspace.assert_once_only();
    }
}

/// Case B03: 4 slots, 200 chunks of two backfills, and the holder dies three times while they run.
#[test]
fn no_takeover_runs_more_at_a_time_than_there_are_slots() {
    let workspace = Setup::new(100, 4)
        .and(Order::new("invoices", 100, 4))
        .job("mark start\nsleep 0.01\nmark end")
        .open();
    let mut rng = seeded(30);
    let mut invoices = workspace.run("invoices");
    workspace.wait("invoices", || workspace.backfill("invoices").map(drop));
    let mut orders = workspace.run("orders");
    for death in 1..=3 {
        workspace.wait("some progress", || {
            (workspace.done("orders") + workspace.done("invoices") >= death * 40).then_some(())
        });
        std::thread::sleep(moment(&mut rng, 0, 60));
        // Whichever of the two holds the lease; the other one takes over by itself.
        let holder = workspace.state().holder.unwrap().name;
        if holder.ends_with(&format!(" {}", invoices.pid())) {
            invoices.kill();
            invoices = workspace.run("invoices");
        } else {
            orders.kill();
            orders = workspace.run("orders");
        }
    }
    for run in [&mut orders, &mut invoices] {
        let code = run.end();
        assert!(code == 0 || code == 5, "{code}: {}", workspace.told());
    }
    workspace.wait("the rest", || {
        (workspace.done("orders") + workspace.done("invoices") == 200).then_some(())
    });
    assert!(workspace.most_at_a_time() <= 4);
    workspace.assert_once_only();
}

/// Operators and accidents in any order: in the end everything is done, nothing ran twice, and never more at a time
/// than there are slots.
#[test]
fn whatever_people_and_accidents_do_in_any_order_everything_ends_done_once() {
    for seed in 50..53 {
        chaos(seed);
    }
}

fn chaos(seed: u64) {
    let workspace = Setup::new(90, 3)
        .job(
            "mark start\nsleep 0.01\nmark end\n\
             case $1-$BACKFILL_ATTEMPT in *7-1|*3-1|*3-2) exit 75 ;; esac",
        )
        .tuning("lease_renew", "300ms")
        .tuning("lease_stop", "1s")
        .tuning("lease_ttl", "1500ms")
        .open();
    let mut rng = seeded(seed);
    let mut runs = vec![workspace.run("orders")];
    workspace.wait("the start", || workspace.backfill("orders").map(drop));
    for step in 0..25 {
        std::thread::sleep(moment(&mut rng, 0, 120));
        let day = format!("2023-0{}-{:02}", rng.random_range(1..4), rng.random_range(1..29));
        match rng.random_range(0..9) {
            0 => drop(workspace.call(&["pause", "orders"])),
            1 => drop(workspace.call(&["resume", "orders"])),
            2 => drop(workspace.call(&["hold", "orders", &day])),
            3 => drop(workspace.call(&["release", "orders", &day])),
            4 => drop(workspace.call(&["throttle", "orders", "cap", "2"])),
            5 => drop(workspace.call(&["rerun", "orders", &day, "--yes"])),
            6 => {
                // Until its lease is lost; another one takes over, and this one goes on beside it.
                let run = runs.last().unwrap();
                run.freeze(&workspace);
                std::thread::sleep(ms(1700));
                runs.push(workspace.run("orders"));
                std::thread::sleep(moment(&mut rng, 0, 200));
                runs[runs.len() - 2].signal("CONT");
            }
            _ => {
                for run in runs.drain(..) {
                    run.kill();
                }
                runs.push(workspace.run("orders"));
            }
        }
        assert!(workspace.most_at_a_time() <= 3, "seed {seed}, step {step}");
    }
    drop(workspace.call(&["throttle", "orders", "auto"]));
    drop(workspace.call(&["release", "orders", "2023-01-01..2023-03-31"]));
    drop(workspace.call(&["resume", "orders"]));
    drop(runs);
    let mut last = workspace.run("orders");
    assert_eq!(last.end(), 0, "seed {seed}: {}", workspace.told());
    assert_eq!(workspace.done("orders"), 90, "seed {seed}");
    assert!(workspace.most_at_a_time() <= 3, "seed {seed}");
    workspace.assert_once_only();
}

/// Case B36: what never comes to run costs an attempt each time, backs off and ends in quarantine.
#[test]
fn a_shim_that_always_dies_before_its_command_ends_in_quarantine() {
    let workspace = Setup::new(2, 2).open();
    let mut run = workspace.run_with("orders", |c| {
        c.env("BACKFILL_TESTING", "1")
            .env("BACKFILL_KILL_AT", shim_points::SHIM_CHECKED);
    });
    assert_eq!(run.end(), 1, "{}", workspace.told());
    assert_eq!(workspace.in_state("orders", ChunkState::Quarantined), 2);
    assert!(workspace.started().is_empty());
    for chunk in &workspace.backfill("orders").unwrap().chunks {
        assert_eq!(chunk.attempts.len(), 11, "ten retries of a platform failure");
    }
}
