//! A backfill under the law that learns the room, with the real supervisor and a lag endpoint that the test turns.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

mod support;

use backfill::domain::{
    event::{LimitChange, Payload, Rule},
    spec::Law,
};
use support::{
    Setup, Workspace, known,
    lag::{LagEndpoint, Mode},
};

/// Times of the law made short; soft is 100 messages, hard 200.
fn protected(endpoint: &LagEndpoint) -> Workspace {
    let mut setup = Setup::new(3000, 4)
        .job("mark start\nsleep 0.1\nmark end")
        .order_more("signals = [\"lag\"]")
        .more(&format!(
            "[signals.lag]\nkind = \"prometheus\"\nurl = \"{}\"\nquery = \"lag\"\nunit = \"messages\"\nsoft = 100\n\
             hard = 200\ncritical = 100000\ninterval = \"200ms\"\n",
            endpoint.url
        ));
    for (key, value) in [
        ("cut_gap", "300ms"),
        ("grow_dwell", "300ms"),
        ("resume_hold", "2s"),
        ("resume_hold_max", "4s"),
        ("pause_min", "500ms"),
        ("flap_window", "100ms"),
        ("latch_window", "200ms"),
        ("blind_halve", "4s"),
        ("blind_stop", "7s"),
    ] {
        setup = setup.tuning(key, value);
    }
    setup.open()
}

fn limits(workspace: &Workspace) -> Vec<LimitChange> {
    let changes = workspace.events().into_iter().filter_map(|e| match known(e) {
        Payload::LimitChanged { change } => Some(change),
        _ => None,
    });
    changes.collect()
}

fn intents(workspace: &Workspace) -> usize {
    let intended = |e| matches!(known(e), Payload::SubmissionIntended { .. });
    workspace
        .events()
        .into_iter()
        .filter(|e| intended(e.clone()))
        .count()
}

fn starts_go_on(workspace: &Workspace, what: &str) {
    let before = intents(workspace);
    workspace.wait(what, || (intents(workspace) >= before + 3).then_some(()));
}

fn paused(workspace: &Workspace) -> LimitChange {
    workspace.wait("the pause", || {
        limits(workspace)
            .pop()
            .filter(|c| (c.to, c.rule) == (0, Rule::Pause))
    })
}

#[test]
fn it_starts_after_two_samples_grows_at_rest_pauses_past_hard_and_goes_on_after_a_kill() {
    let endpoint = LagEndpoint::new(Mode::Lag(1.0));
    let workspace = protected(&endpoint);
    let run = workspace.run("orders");
    workspace.wait("the backfill", || workspace.backfill("orders"));
    assert_eq!(
        workspace.backfill("orders").unwrap().spec.throttling.law,
        Law::Learned
    );
    workspace.wait("growth while nothing waits", || {
        limits(&workspace).pop().filter(|c| c.rule == Rule::Grow)
    });
    let first = &limits(&workspace)[0];
    assert_eq!(
        (first.from, first.to, first.rule),
        (0, 2, Rule::Start),
        "{first:?}"
    );
    starts_go_on(&workspace, "starts at rest");

    endpoint.turn(Mode::Lag(400.0));
    let pause = paused(&workspace);
    assert!(
        pause.why.starts_with("paused by lag: 400 was over hard 200"),
        "{}",
        pause.why
    );
    let (code, status) = workspace.status("orders");
    assert_eq!(
        (code, status["throttle"].as_str()),
        (3, Some("paused")),
        "{status}"
    );
    let started = intents(&workspace);
    run.kill();
    let _run = workspace.run("orders");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(intents(&workspace), started, "still paused: {}", workspace.told());
    assert_eq!(limits(&workspace).pop().unwrap(), pause, "the limit is as it was");

    // From far over hard to nothing within a moment: what an exporter says that lost its source. Somebody who knows
    // better says so.
    endpoint.turn(Mode::Lag(1.0));
    let why = workspace.wait("doubt", || {
        workspace.state().blind.values().next().map(|b| b.why.clone())
    });
    assert!(why.contains("reads empty out of nowhere"), "{why}");
    workspace.call(&["acknowledge", "orders"]).ok();
    let resume = workspace.wait("the resume", || {
        limits(&workspace)
            .pop()
            .filter(|c| c.from == 0 && c.rule == Rule::Resume)
    });
    assert!(resume.to >= 1 && resume.why.contains("calm"), "{resume:?}");
    starts_go_on(&workspace, "starts after the resume");
    workspace.assert_once_only();
}

/// Case B28.
#[test]
fn without_samples_it_brakes_to_half_and_to_nothing_and_two_samples_end_it() {
    let endpoint = LagEndpoint::new(Mode::Lag(1.0));
    let workspace = protected(&endpoint);
    let _run = workspace.run("orders");
    starts_go_on(&workspace, "starts");
    endpoint.turn(Mode::Status(500));
    let blind = workspace.wait("nothing starts any more", || {
        limits(&workspace)
            .pop()
            .filter(|c| (c.to, c.rule) == (0, Rule::Blind))
    });
    assert!(blind.why.contains("no valid sample of lag"), "{}", blind.why);
    endpoint.turn(Mode::Lag(1.0));
    workspace.wait("sight", || {
        limits(&workspace)
            .pop()
            .filter(|c| c.from == 0 && c.rule == Rule::Seen && c.to > 0)
    });
    starts_go_on(&workspace, "starts when it is seen again");
    workspace.assert_once_only();
}

#[test]
fn one_sample_above_everything_stops_nothing() {
    let endpoint = LagEndpoint::new(Mode::Lag(1.0));
    let workspace = protected(&endpoint);
    let _run = workspace.run("orders");
    starts_go_on(&workspace, "starts");
    endpoint.spike(1e9);
    starts_go_on(&workspace, "starts after the spike");
    assert!(
        limits(&workspace).iter().all(|c| c.to > 0),
        "{:?}",
        limits(&workspace)
    );
}

/// What screens and scripts are told of the law's terms.
#[test]
fn why_and_the_journal_tell_what_it_goes_by() {
    let endpoint = LagEndpoint::new(Mode::Lag(1.0));
    let workspace = protected(&endpoint);
    let _run = workspace.run("orders");
    starts_go_on(&workspace, "starts");
    let id = workspace.backfill("orders").unwrap().id;
    let report = workspace.wait("a report with terms", || {
        let journal = workspace.journal()?;
        let (_, report) = backfill::supervisor::glance::throttle(&journal, &id)?;
        report.terms.is_some().then_some(report)
    });
    let (signal, terms) = report.terms.unwrap();
    assert_eq!((signal.as_str(), report.law), ("lag", Law::Learned));
    assert!(
        terms.room > 0.0 && terms.costs > 0.0 && terms.lag <= 100.0,
        "{terms:?}"
    );
    assert!(report.admission.is_some());
}
