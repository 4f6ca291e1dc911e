//! What pause promises (issue 2, proof 3): after it printed *paused*, nothing starts beyond what it listed.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::{
    domain::{event::Payload, state::ChunkState},
    supervisor::kill_point as points,
};
use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};
use support::{Noise, Running, Setup, Workspace, moment, ms, seeded};

fn started(workspace: &Workspace) -> BTreeSet<String> {
    workspace.started().into_iter().collect()
}

fn listed(answer: &serde_json::Value) -> BTreeSet<String> {
    let list = answer["in_flight"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    list.iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}

#[test]
fn after_paused_was_printed_nothing_starts_beyond_what_it_listed() {
    let workspace = Setup::new(3000, 4).open();
    let mut rng = seeded(40);
    let _run = workspace.run("orders");
    workspace.wait("a start", || (!workspace.started().is_empty()).then_some(()));
    let noise = Noise::on(&workspace);
    for round in 0..20 {
        std::thread::sleep(moment(&mut rng, 0, 150));
        let answer = workspace.call(&["pause", "orders", "--json"]).ok().json();
        let at_print = started(&workspace);
        assert_eq!(answer["confirmed"], true, "round {round}: {answer}");
        std::thread::sleep(ms(200));
        let later: BTreeSet<String> = &started(&workspace) - &at_print;
        assert!(
            later.is_subset(&listed(&answer)),
            "round {round}: {later:?} started after {answer}"
        );
        workspace.call(&["resume", "orders"]).ok();
        let paused = workspace.started().len();
        workspace.wait("starts after the resume", || {
            (workspace.started().len() > paused).then_some(())
        });
    }
    noise.end();
    workspace.assert_once_only();
}

#[test]
fn resume_finishes_the_rest_and_what_ran_meanwhile_went_on() {
    let workspace = Setup::new(40, 3)
        .job("mark start\n[ ! -e hold ] || while [ -e hold ]; do sleep 0.02; done\nmark end")
        .open();
    let mut run = workspace.run("orders");
    workspace.wait("progress", || (workspace.done("orders") >= 5).then_some(()));
    fs::write(workspace.path("hold"), "").unwrap();
    workspace.wait("three to run", || {
        (workspace.in_state("orders", ChunkState::Running) == 3).then_some(())
    });
    let said = workspace
        .call(&["pause", "orders", "--reason", "incident 4711"])
        .ok()
        .out;
    let running: Vec<String> = workspace
        .backfill("orders")
        .unwrap()
        .open_attempts()
        .iter()
        .map(ToString::to_string)
        .collect();
    let expected = format!(
        "paused; 3 starts were already under way: {}\n",
        running.join(", ")
    );
    assert_eq!(said, expected);
    fs::remove_file(workspace.path("hold")).unwrap();
    workspace.wait("their end", || {
        (workspace.in_state("orders", ChunkState::Running) == 0).then_some(())
    });
    let all = workspace.started().len();
    std::thread::sleep(ms(300));
    assert_eq!(workspace.started().len(), all);
    let (code, status) = workspace.status("orders");
    assert_eq!((code, status["state"].as_str()), (3, Some("paused")));
    assert_eq!(status["paused_by"], "minh");
    assert_eq!(status["why"], "paused by minh: incident 4711");
    let why = workspace
        .call(&["why", "orders", "2023-02-09", "--json"])
        .ok()
        .json();
    assert_eq!(
        (&why["reason"], &why["state"]),
        (&"paused".into(), &"pending".into())
    );

    assert_eq!(workspace.call(&["resume", "orders"]).ok().out, "resumed\n");
    assert_eq!(run.end(), 0, "{}", workspace.told());
    assert_eq!(workspace.done("orders"), 40);
    assert_eq!(workspace.ended().len(), 40, "none was stopped by the pause");
    let again = workspace.call(&["resume", "orders"]);
    assert_eq!(again.code, 2);
    assert!(again.err.contains("orders is not paused"), "{again:?}");
}

/// Dies with durable intents that have not left, is paused while nobody supervises, and is started again.
fn killed_then_paused(place: &str) {
    let workspace = Setup::new(12, 3).open();
    let permission = workspace.path("may-die");
    let start = || {
        workspace.run_with("orders", |c| {
            c.env("BACKFILL_TESTING", "1")
                .env("BACKFILL_KILL_AT", format!("{place}@{}", permission.display()));
        })
    };
    fs::write(&permission, "").unwrap();
    let mut run = start();
    workspace.wait("its death", || run.has_ended());
    let intents = workspace.in_state("orders", ChunkState::Submitting);
    assert!(intents > 0);
    let said = workspace.call(&["pause", "orders"]).ok().out;
    assert_eq!(
        said,
        "recorded; nobody supervises now, it takes effect with the next `backfill run`\n"
    );
    let before = started(&workspace);

    for restart in 0..2 {
        let run = start();
        let applied = workspace.wait("the confirmation", || {
            let backfill = workspace.backfill("orders")?;
            backfill.pause?.applied
        });
        assert_eq!(applied, [], "restart {restart}");
        workspace.wait("recovery", || {
            (workspace.in_state("orders", ChunkState::Submitting) == 0).then_some(())
        });
        std::thread::sleep(ms(300));
        assert_eq!(
            started(&workspace),
            before,
            "restart {restart}: {}",
            workspace.told()
        );
        let (code, status) = workspace.status("orders");
        assert_eq!((code, status["state"].as_str()), (3, Some("paused")));
        run.kill();
    }
    let withdrawn = workspace.count(|p| matches!(p, Payload::SubmissionWithdrawn { .. }));
    assert_eq!(withdrawn, intents, "each intent was taken back");

    assert_eq!(
        workspace.call(&["resume", "orders"]).ok().out,
        "resumed; nobody supervises now, it takes effect with the next `backfill run`\n"
    );
    assert_eq!(start().end(), 0, "{}", workspace.told());
    assert_eq!(workspace.done("orders"), 12);
    workspace.assert_once_only();
}

#[test]
fn intents_of_a_dead_supervisor_do_not_start_once_somebody_paused() {
    killed_then_paused(points::INTENTS_APPENDED);
}

#[test]
fn submissions_of_a_dead_supervisor_do_not_start_once_somebody_paused() {
    killed_then_paused(points::GATE_PASSED);
}

#[test]
fn a_pause_for_a_time_ends_by_itself_also_while_nobody_supervises() {
    let workspace = Setup::new(3000, 2).open();
    let run = workspace.run("orders");
    workspace.wait("progress", || (workspace.done("orders") >= 3).then_some(()));
    let said = workspace.call(&["pause", "orders", "--for", "1s"]).ok();
    let printed = Instant::now();
    assert!(said.out.starts_with("paused; "), "{said:?}");
    std::thread::sleep(ms(300));
    let paused = workspace.started().len();
    assert!(
        printed.elapsed() < ms(900) || paused == 0,
        "the machine is too slow for this test"
    );
    workspace.wait("its own end", || {
        (workspace.started().len() > paused).then_some(())
    });
    assert!(printed.elapsed() >= ms(700), "not before its time");
    let by = |wanted: &str| {
        let resumed = |e: &backfill::domain::event::Event| {
            e.actor.name == wanted && matches!(support::known(e.clone()), Payload::Resumed {})
        };
        workspace.events().iter().filter(|e| resumed(e)).count()
    };
    assert_eq!((by("supervisor"), by("minh")), (1, 0));

    workspace.call(&["pause", "orders", "--for", "500ms"]).ok();
    run.kill();
    std::thread::sleep(ms(600));
    let paused = workspace.started().len();
    let _run = workspace.run("orders");
    workspace.wait("starts", || (workspace.started().len() > paused).then_some(()));
    assert_eq!(by("supervisor"), 2);
}

/// A supervisor that does not answer: the pause is recorded, and that is all that is said.
#[test]
fn a_pause_that_the_supervisor_has_not_confirmed_is_not_called_paused() {
    let workspace = Setup::new(3000, 2).open();
    let run = workspace.run("orders");
    workspace.wait("progress", || (workspace.done("orders") >= 3).then_some(()));
    run.freeze(&workspace);
    let begun = Instant::now();
    let said = workspace.call(&["pause", "orders", "--json"]).ok().json();
    assert!(begun.elapsed() >= Duration::from_secs(5));
    assert_eq!(said["message"], "recorded; not yet confirmed by the supervisor");
    assert_eq!((&said["confirmed"], said.get("in_flight")), (&false.into(), None));
    run.signal("CONT");
    workspace.wait("the confirmation", || {
        workspace.backfill("orders")?.pause?.applied
    });
}

/// Whoever paused must not read *paused* when somebody else resumed before the supervisor confirmed.
#[test]
fn a_pause_that_somebody_resumed_meanwhile_is_not_called_paused() {
    let workspace = Setup::new(3000, 2).open();
    let run = workspace.run("orders");
    workspace.wait("progress", || (workspace.done("orders") >= 3).then_some(()));
    run.freeze(&workspace);
    let mut command = workspace.program(&["pause", "orders"]);
    command.stdout(std::process::Stdio::piped());
    let mut pause = Running {
        child: command.spawn().unwrap(),
    };
    workspace.wait("the pause", || workspace.backfill("orders")?.pause);
    workspace.call(&["resume", "orders"]).ok();
    run.signal("CONT");
    assert_eq!(pause.end(), 0);
    let said = pause.read_stdout();
    assert_eq!(said, "recorded; resumed by minh meanwhile\n");
}
