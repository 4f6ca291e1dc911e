//! Case B34: whatever held the work holds it after a kill -9 and a restart, with its reason, its author and what is
//! left of its time; and nothing starts before it is known what became of what was under way.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::{
    domain::{
        event::{Payload, Rule},
        state::{Backfill, ChunkState},
    },
    supervisor::kill_point as points,
};
use std::{fs, time::Duration};
use support::{
    Running, Setup, Workspace, known,
    lag::{LagEndpoint, Mode},
    ms,
};

const HIGH: f64 = 500.0;

/// Everything that holds work.
fn holds(b: &Backfill) -> impl PartialEq + std::fmt::Debug + use<> {
    let marked: Vec<_> = b
        .chunks
        .iter()
        .filter(|c| c.mark.is_some() || matches!(c.state, ChunkState::Quarantined | ChunkState::Failed))
        .map(|c| {
            (
                c.id,
                c.state,
                c.since,
                c.mark.clone(),
                c.why.clone(),
                c.retry.clone(),
            )
        })
        .collect();
    let limit = &b.limit;
    (
        (b.state(), b.pause.clone(), b.cap.clone(), b.force.clone()),
        (
            limit.value,
            limit.rule,
            limit.signal.clone(),
            limit.why.clone(),
            limit.at,
        ),
        (b.breaker.clone(), b.stopped.clone(), b.cancel.clone()),
        marked,
    )
}

/// Kills the holder, starts another one, and compares.
fn same_after_restart(workspace: &Workspace, run: Running) -> Running {
    let epochs = workspace.epochs().len();
    run.kill();
    let before = workspace.backfill("orders").unwrap();
    let started = workspace.started();
    let run = workspace.run("orders");
    workspace.wait("the new holder", || {
        (workspace.epochs().len() == epochs + 1).then_some(())
    });
    std::thread::sleep(ms(700));
    let after = workspace.backfill("orders").unwrap();
    assert_eq!(holds(&after), holds(&before), "{}", workspace.told());
    assert_eq!(workspace.started(), started, "nothing started");
    run
}

fn goes_on(workspace: &Workspace) {
    let started = workspace.started().len();
    workspace.wait("starts", || (workspace.started().len() > started).then_some(()));
}

fn quiet(workspace: &Workspace) {
    std::thread::sleep(ms(200));
    let started = workspace.started().len();
    std::thread::sleep(ms(300));
    assert_eq!(workspace.started().len(), started);
}

/// A backfill that a lag endpoint protects, with quick laws.
fn protected(endpoint: &LagEndpoint, job: &str) -> Setup {
    let mut setup = Setup::new(3000, 4)
        .job(job)
        .order_more("signals = [\"lag\"]\nlaw = \"classic\"")
        .more(&format!(
            "[signals.lag]\nkind = \"prometheus\"\nurl = \"{}\"\nquery = \"lag\"\nunit = \"messages\"\nsoft = 100\n\
             hard = 200\ncritical = 1000000\ninterval = \"200ms\"\n",
            endpoint.url
        ));
    for (key, value) in [
        ("start_gap", "10ms"),
        ("ewma", "200ms"),
        ("slope_window", "2s"),
        ("horizon", "200ms"),
        ("cut_gap", "200ms"),
        ("grow_dwell", "1h"),
        ("resume_hold", "400ms"),
        ("resume_hold_max", "800ms"),
        ("pause_min", "200ms"),
        ("flap_window", "10ms"),
        ("ceiling_memory", "100ms"),
    ] {
        setup = setup.tuning(key, value);
    }
    setup
}

#[test]
fn a_human_pause_with_its_reason_and_what_is_left_of_its_time() {
    let workspace = Setup::new(3000, 2).open();
    let run = workspace.run("orders");
    goes_on(&workspace);
    workspace
        .call(&[
            "pause",
            "orders",
            "--for",
            "5s",
            "--reason",
            "incident 4711",
            "--as",
            "ana",
        ])
        .ok();
    quiet(&workspace);
    let paused = workspace.backfill("orders").unwrap().pause.unwrap();
    assert_eq!(
        (paused.mark.by.name.as_str(), paused.mark.reason.as_deref()),
        ("ana", Some("incident 4711"))
    );
    let run = same_after_restart(&workspace, run);
    let (code, status) = workspace.status("orders");
    assert_eq!((code, &status["paused_by"]), (3, &"ana".into()));
    goes_on(&workspace);
    let over = chrono::Utc::now() - paused.until.unwrap();
    assert!(over > chrono::Duration::zero(), "not before its time: {over}");
    assert!(over < chrono::Duration::seconds(5), "and soon after it: {over}");
    drop(run);
}

#[test]
fn a_pause_by_a_signal() {
    let endpoint = LagEndpoint::new(Mode::Lag(1.0));
    let workspace = protected(&endpoint, "mark start")
        .tuning("latch_window", "0s")
        .open();
    let run = workspace.run("orders");
    goes_on(&workspace);
    endpoint.turn(Mode::Lag(HIGH));
    by_signal(&workspace, Rule::Pause);
    quiet(&workspace);
    let run = same_after_restart(&workspace, run);
    assert_eq!(workspace.status("orders").0, 3);
    endpoint.turn(Mode::Lag(1.0));
    goes_on(&workspace);
    drop(run);
}

fn by_signal(workspace: &Workspace, rule: Rule) {
    workspace.wait("the signal's stop", || {
        let limit = workspace.backfill("orders")?.limit;
        (limit.value == 0 && limit.rule == rule).then_some(())
    });
}

/// Three pauses within the latch window.
fn latched(endpoint: &LagEndpoint) -> (Workspace, Running) {
    let workspace = protected(endpoint, "mark start")
        .tuning("latch_window", "10m")
        .open();
    let run = workspace.run("orders");
    for pause in 1..=3 {
        workspace.wait("a limit", || {
            (workspace.backfill("orders")?.limit.value > 0).then_some(())
        });
        goes_on(&workspace);
        endpoint.turn(Mode::Lag(HIGH));
        by_signal(&workspace, if pause == 3 { Rule::Latch } else { Rule::Pause });
        endpoint.turn(Mode::Lag(1.0));
    }
    quiet(&workspace);
    (workspace, run)
}

#[test]
fn a_latch_that_waits_for_a_human() {
    let endpoint = LagEndpoint::new(Mode::Lag(1.0));
    let (workspace, run) = latched(&endpoint);
    let run = same_after_restart(&workspace, run);
    std::thread::sleep(ms(1500));
    quiet(&workspace);
    assert_eq!(workspace.status("orders").1["throttle"], "latched");
    workspace.call(&["acknowledge", "orders"]).ok();
    goes_on(&workspace);
    drop(run);
}

/// Recorded while nobody supervises, it holds from the next run on.
#[test]
fn a_latch_that_was_acknowledged_while_nobody_supervised() {
    let endpoint = LagEndpoint::new(Mode::Lag(1.0));
    let (workspace, run) = latched(&endpoint);
    run.kill();
    let said = workspace.call(&["acknowledge", "orders"]).ok();
    assert!(said.out.contains("nobody supervises now"), "{said:?}");
    let _run = workspace.run("orders");
    goes_on(&workspace);
}

#[test]
fn a_force_ends_when_it_was_to_end_also_after_a_restart() {
    let endpoint = LagEndpoint::new(Mode::Lag(1.0));
    let job = "mark start\nwhile [ -e hold ]; do sleep 0.02; done\nmark end";
    let workspace = protected(&endpoint, job).open();
    fs::write(workspace.path("hold"), "").unwrap();
    let run = workspace.run("orders");
    workspace.wait("the first limit", || {
        (workspace.started().len() == 2).then_some(())
    });
    workspace
        .call(&[
            "throttle", "orders", "force", "4", "--for", "4s", "--reason", "catch up",
        ])
        .ok();
    workspace.wait("the force", || (workspace.started().len() == 4).then_some(()));
    let until = workspace.backfill("orders").unwrap().force.unwrap().0.until;
    let run = same_after_restart(&workspace, run);
    let ended = workspace.wait("its end", || {
        workspace
            .events()
            .into_iter()
            .find_map(|e| match known(e.clone()) {
                Payload::Forced { force: None } => Some(e),
                _ => None,
            })
    });
    assert_eq!(ended.actor.name, "supervisor");
    assert!(ended.at >= until && ended.at < until + chrono::Duration::seconds(5));
    assert_eq!(workspace.backfill("orders").unwrap().force, None);
    drop(run);
}

#[test]
fn a_quarantined_day_stays_where_it_is_and_the_others_go_on() {
    let workspace = Setup::new(3000, 2)
        .job("mark start\n[ $1 != 2023-01-02 ] || { echo 'no column price'; exit 65; }")
        .open();
    let run = workspace.run("orders");
    workspace.wait("the quarantine", || {
        (workspace.in_state("orders", ChunkState::Quarantined) == 1).then_some(())
    });
    let chunk = |w: &Workspace| {
        let backfill = w.backfill("orders").unwrap();
        backfill.chunk("2023-01-02".parse().unwrap()).unwrap().clone()
    };
    let before = chunk(&workspace);
    assert!(
        before.why.as_ref().unwrap().contains("no column price"),
        "{before:?}"
    );
    run.kill();
    let _run = workspace.run("orders");
    goes_on(&workspace);
    goes_on(&workspace);
    assert_eq!(chunk(&workspace), before);
}

#[test]
fn an_open_breaker_and_its_retry_time() {
    let workspace = Setup::new(40, 2)
        .job("mark start\n[ -e mended ] || exit 65")
        .tuning("breaker_retry", "1h")
        .open();
    let run = workspace.run("orders");
    workspace.wait("the breaker, and the end of what ran beside", || {
        let backfill = workspace.backfill("orders")?;
        (backfill.breaker.is_some() && backfill.active().count() == 0).then_some(())
    });
    quiet(&workspace);
    let mut run = same_after_restart(&workspace, run);
    let (_, status) = workspace.status("orders");
    assert_eq!(status["reason"]["reason"], "breaker", "{status}");
    fs::write(workspace.path("mended"), "").unwrap();
    workspace.call(&["close-breaker", "orders"]).ok();
    assert_eq!(run.end(), 1, "{}", workspace.told());
    let quarantined = workspace.in_state("orders", ChunkState::Quarantined);
    assert_eq!(workspace.done("orders") + quarantined, 40);
}

#[test]
fn a_stop_on_failure() {
    let workspace = Setup::new(40, 1)
        .order_more("on_failure = \"stop\"")
        .job("mark start\n[ $1 != 2023-01-03 ] || exit 65")
        .open();
    let mut run = workspace.run("orders");
    assert_eq!(run.end(), 1, "{}", workspace.told());
    assert_eq!(workspace.started().len(), 3, "nothing after the failure");
    let before = workspace.backfill("orders").unwrap();
    assert!(before.stopped.is_some());
    assert_eq!(workspace.run("orders").end(), 1);
    assert_eq!(holds(&workspace.backfill("orders").unwrap()), holds(&before));
    assert_eq!(workspace.started().len(), 3);
    workspace.call(&["resume", "orders"]).ok();
    assert_eq!(workspace.run("orders").end(), 1);
    assert_eq!((workspace.done("orders"), workspace.started().len()), (39, 40));
}

/// As long as nobody can say what became of one attempt, its executor gets nothing new.
#[test]
fn nothing_is_submitted_before_what_was_under_way_is_reconciled() {
    let workspace = Setup::new(8, 2).open();
    let permission = workspace.path("may-die");
    fs::write(&permission, "").unwrap();
    let place = format!("{}@{}", points::INTENTS_APPENDED, permission.display());
    let mut run = workspace.run_with("orders", |c| {
        c.env("BACKFILL_TESTING", "1").env("BACKFILL_KILL_AT", place);
    });
    workspace.wait("its death", || run.has_ended());
    let open = workspace.backfill("orders").unwrap().open_attempts();
    assert_eq!(open.len(), 2);
    let folder = workspace.path(&format!("state/attempts/{}", open[0]));
    fs::create_dir_all(&folder).unwrap();
    let claim = fs::File::create(folder.join("claim")).unwrap();
    // As if a shim were about to decide.
    claim.lock().unwrap();

    // Room for more than the two that are open.
    workspace.write_config(&workspace.text().replace("slots = 2", "slots = 6"));
    let intents = || workspace.count(|p| matches!(p, Payload::SubmissionIntended { .. }));
    let mut run = workspace.run("orders");
    workspace.wait("the new holder", || (workspace.epochs().len() == 2).then_some(()));
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(intents(), 2, "nothing new");
    let day = open[0].chunk.to_string();
    assert!(workspace.started().iter().all(|a| !a.contains(&day)));
    drop(claim);
    assert_eq!(run.end(), 0, "{}", workspace.told());
    assert_eq!(workspace.done("orders"), 8);
    workspace.assert_once_only();
}

/// A window around this minute, as the configuration has it.
fn around_now() -> String {
    let now = chrono::Utc::now();
    let at = |minutes: i64| (now + chrono::TimeDelta::minutes(minutes)).format("%H:%M");
    format!("blackout = [{{ from = \"{}\", to = \"{}\" }}]", at(-60), at(120))
}

#[test]
fn a_blackout_holds_after_a_kill_until_it_is_amended_away() {
    let window = around_now();
    let setup = Setup::new(20, 2).job("mark start\nsleep 0.2").order_more(&window);
    let workspace = setup.open();
    let run = workspace.run("orders");
    workspace.wait("the backfill", || workspace.backfill("orders"));
    quiet(&workspace);
    let (code, status) = workspace.status("orders");
    assert_eq!(
        (code, &status["reason"]["reason"]),
        (3, &"blackout".into()),
        "{status}"
    );
    let text = status["reason"]["text"].as_str().unwrap_or_default();
    assert!(
        text.contains("no starts for") && text.contains("daily UTC"),
        "{text}"
    );
    assert!(workspace.started().is_empty());
    let _run = same_after_restart(&workspace, run);
    assert_eq!(workspace.status("orders").1["reason"]["reason"], "blackout");
    let pause = workspace
        .call(&["pause", "orders", "--reason", "incident 4711"])
        .ok();
    drop(pause);
    let (_, status) = workspace.status("orders");
    let text = status["reason"]["text"].as_str().unwrap_or_default();
    assert!(
        text.contains("incident 4711"),
        "what else holds is told, too: {text}"
    );
    workspace.call(&["resume", "orders"]).ok();

    let without = setup.text().replace(&window, "");
    workspace.write_config(&without);
    workspace.call(&["amend", "orders", "--yes"]).ok();
    goes_on(&workspace);
}
