//! What an alert and a program do to the starts of a running backfill: a real Alertmanager behind a real Prometheus
//! (`services/prometheus.sh`), and a real program. The law's times are made short.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::domain::event::{LimitChange, Payload, Rule};
use std::{collections::BTreeMap, fs, path::Path, process::Command, time::Duration};
use support::{Setup, Workspace, known};

/// How long the lag has to be low before anything starts again.
const HOLD: i64 = 3;

/// A backfill of many short jobs that a signal protects, under a law.
fn protected(law: &str, signal: &str) -> Workspace {
    let mut setup = Setup::new(3000, 4)
        .job("mark start\nsleep 0.1\nmark end")
        .order_more(&format!("signals = [\"lag\"]\nlaw = \"{law}\""))
        .more(&format!("[signals.lag]\ninterval = \"500ms\"\n{signal}"));
    for (key, value) in [
        ("start_gap", "20ms"),
        ("ewma", "1s"),
        ("slope_window", "10s"),
        ("horizon", "1s"),
        ("cut_gap", "1s"),
        ("grow_dwell", "300ms"),
        ("resume_hold", &format!("{HOLD}s")),
        ("resume_hold_max", &format!("{HOLD}s")),
        ("pause_min", "1s"),
        ("flap_window", "100ms"),
        ("latch_window", "100ms"),
        ("ceiling_memory", "1s"),
        ("blind_halve", "4s"),
        ("blind_stop", "7s"),
    ] {
        setup = setup.tuning(key, value);
    }
    setup.open()
}

fn starts(workspace: &Workspace) -> usize {
    workspace.count(|p| matches!(p, Payload::SubmissionIntended { .. }))
}

fn starts_go_on(workspace: &Workspace, what: &str) {
    let before = starts(workspace);
    workspace.wait(what, || (starts(workspace) >= before + 3).then_some(()));
}

/// All changes of the limit, oldest first.
fn limits(workspace: &Workspace) -> Vec<LimitChange> {
    let events = workspace.events().into_iter();
    let changes = events.filter_map(|e| match known(e) {
        Payload::LimitChanged { change } => Some(change),
        _ => None,
    });
    changes.collect()
}

/// Waits until the last change of the limit is to nothing, by this rule.
fn stopped(workspace: &Workspace, rule: Rule) -> LimitChange {
    let change = workspace.wait("the stop", || limits(workspace).pop().filter(|c| c.to == 0));
    assert_eq!(change.rule, rule, "{}", workspace.told());
    // What had passed the gate has been sent; then there is nothing more.
    std::thread::sleep(Duration::from_secs(1));
    let before = starts(workspace);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(starts(workspace), before, "{}", workspace.told());
    change
}

fn reason(workspace: &Workspace) -> (String, String) {
    let (_, status) = workspace.status("orders");
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    (text(&status["throttle"]), text(&status["reason"]["text"]))
}

/// The first change after a pause is the resume, at half of what was before, and not before the hold.
fn resumed_at_half(workspace: &Workspace) {
    let resume = |w: &&[backfill::domain::event::Event]| matches!(&known(w[1].clone()), Payload::LimitChanged { change } if change.rule == Rule::Resume);
    let changes: Vec<_> = workspace
        .events()
        .into_iter()
        .filter(|e| matches!(known(e.clone()), Payload::LimitChanged { change } if change.from != change.to))
        .collect();
    let pair = changes.windows(2).find(resume).expect("a resume");
    let [
        Payload::LimitChanged { change: pause },
        Payload::LimitChanged { change: resume },
    ] = [&pair[0], &pair[1]].map(|e| known(e.clone()))
    else {
        panic!("only changes of the limit are in there");
    };
    assert_eq!((pause.rule, pause.to, resume.from), (Rule::Pause, 0, 0));
    assert!(
        resume.to >= 1 && resume.to <= pause.from.div_ceil(2),
        "{pause:?} {resume:?}"
    );
    let held = pair[1].at - pair[0].at;
    assert!(held >= chrono::TimeDelta::seconds(HOLD), "only held for {held}");
}

/// An Alertmanager, its Prometheus and an exporter, which end with this process.
fn servers() -> BTreeMap<String, String> {
    let dir = tempfile::tempdir().unwrap().keep();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/prometheus.sh");
    let started = Command::new("bash")
        .args([script, "up", dir.to_str().unwrap()])
        .env("ALERTMANAGER", "yes")
        .env("OWNER", std::process::id().to_string())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(started.status.success(), "no real Alertmanager: {words}");
    let lines = String::from_utf8(started.stdout).unwrap();
    let pairs = lines.lines().filter_map(|l| l.split_once('='));
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

/// The silences that are in force.
fn silences(servers: &BTreeMap<String, String>) -> Vec<serde_json::Value> {
    let url = format!("{}/api/v2/silences", servers["ALERTMANAGER_URL"]);
    let all: Vec<serde_json::Value> = at_once(async {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        client.get(url).send().await.unwrap().json().await.unwrap()
    });
    all.into_iter()
        .filter(|s| s["status"]["state"] == "active")
        .collect()
}

fn at_once<T>(work: impl Future<Output = T>) -> T {
    backfill::net::use_ring();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(work)
}

/// Sets the consumer group's lag from the next scrape on.
fn serve(servers: &BTreeMap<String, String>, lag: u32) {
    let url = format!("{}/metrics", servers["LAG_URL"]);
    let body = format!("kafka_consumergroup_lag{{consumergroup=\"orders\",topic=\"clicks\"}} {lag}\n");
    at_once(async {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = client.put(url).body(body).send().await.unwrap();
        answer.error_for_status().unwrap();
    });
}

/// Case B31, and B28: when the Prometheus behind it dies, nothing starts.
#[test]
fn an_alert_that_fires_pauses_and_when_it_resolves_starts_go_on_at_half_after_the_hold() {
    let servers = servers();
    serve(&servers, 1);
    let workspace = protected(
        "learned",
        &format!(
            "kind = \"alertmanager\"\nurl = \"{}\"\nmatchers = [\"alertname=HighConsumerLag\", \"consumergroup=~ord.*\"]\n\
         watchdog = [\"alertname=Watchdog\"]\nsilence = true\n",
            servers["ALERTMANAGER_URL"]
        ),
    );
    let _run = workspace.run("orders");
    starts_go_on(&workspace, "starts while nothing fires");
    workspace.wait("all of the limit", || {
        limits(&workspace).pop().filter(|c| c.to == 4)
    });
    serve(&servers, 5000);
    stopped(&workspace, Rule::Pause);
    let (throttle, text) = reason(&workspace);
    assert_eq!(throttle, "paused");
    assert!(
        text.contains("paused by lag: it fires; resumes by itself when quiet for"),
        "{text}"
    );
    let silence = workspace.wait("its silence", || silences(&servers).pop());
    assert_eq!(silence["createdBy"], "backfill");
    assert!(
        silence["comment"]
            .as_str()
            .unwrap_or_default()
            .contains("while lag fires"),
        "{silence}"
    );
    assert_eq!(reason(&workspace).0, "paused", "what we silence still counts");
    serve(&servers, 1);
    starts_go_on(&workspace, "starts after the alert has resolved");
    workspace.wait("the end of its silence", || {
        silences(&servers).is_empty().then_some(())
    });
    resumed_at_half(&workspace);

    let killed = Command::new("kill")
        .args(["-9", &servers["PROMETHEUS_PID"]])
        .status();
    assert!(killed.unwrap().success());
    stopped(&workspace, Rule::Blind);
    let (_, status) = workspace.status("orders");
    let problem = status["signals"]["lag"]["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("watchdog"), "{problem}");
    workspace.assert_once_only();
}

/// A hold that lasts: its silence goes with its key in the configuration, and with a supervisor that ends in order.
#[test]
fn a_silence_ends_with_its_key_and_with_the_supervisor_and_not_ten_minutes_later() {
    let servers = servers();
    serve(&servers, 5000);
    let workspace = protected(
        "learned",
        &format!(
            "kind = \"alertmanager\"\nurl = \"{}\"\nmatchers = [\"alertname=HighConsumerLag\"]\nsilence = true\n",
            servers["ALERTMANAGER_URL"]
        ),
    );
    let mut run = workspace.run("orders");
    let there = |what: &str| workspace.wait(what, || (!silences(&servers).is_empty()).then_some(()));
    there("the first silence");
    let text = workspace.text().to_owned();
    workspace.write_config(&text.replace("silence = true", "silence = false"));
    run.signal("HUP");
    workspace.wait("its end without its key", || {
        silences(&servers).is_empty().then_some(())
    });
    workspace.write_config(&text);
    run.signal("HUP");
    there("the second silence");
    assert_eq!(reason(&workspace).0, "paused", "{}", workspace.told());
    run.signal("TERM");
    run.end();
    assert!(
        silences(&servers).is_empty(),
        "it outlives its supervisor: {}",
        workspace.told()
    );
}

/// Writes the lag that the program prints, never half of it.
fn lag(file: &Path, text: &str) {
    let new = file.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, file).unwrap();
}

/// Case B28.
#[test]
fn a_program_that_prints_the_lag_pauses_and_one_that_fails_stops_the_starts() {
    // The learned law would not believe a lag that falls from 500 to 1 at once.
    let workspace = protected(
        "classic",
        "kind = \"command\"\ncommand = [\"cat\", \"lag\"]\nunit = \"messages\"\nsoft = 100\nhard = 200\n\
         critical = 1000000\n",
    );
    let file = workspace.path("lag");
    lag(&file, "1\n");
    let _run = workspace.run("orders");
    starts_go_on(&workspace, "starts while the lag is low");
    lag(
        &file,
        "{\"lag\": 500, \"parts\": {\"clicks/0\": 20, \"clicks/1\": 500}}",
    );
    stopped(&workspace, Rule::Pause);
    let (throttle, text) = reason(&workspace);
    assert_eq!(throttle, "paused");
    assert!(
        text.contains("paused by lag") && text.contains("hard 200"),
        "{text}"
    );
    lag(&file, "1\n");
    starts_go_on(&workspace, "starts after the lag has fallen");
    resumed_at_half(&workspace);
    fs::remove_file(&file).unwrap();
    stopped(&workspace, Rule::Blind);
    let (_, status) = workspace.status("orders");
    let problem = status["signals"]["lag"]["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("No such file"), "{problem}");
    workspace.assert_once_only();
}

/// Told before its signal counts as not seen: nobody has to guess why there is no answer.
#[test]
fn a_program_that_takes_longer_than_its_interval_blinds_its_signal_in_these_words() {
    let workspace = protected(
        "classic",
        "kind = \"command\"\ncommand = [\"sh\", \"-c\", \"sleep 4; echo 1\"]\nunit = \"seconds\"\n",
    );
    let _run = workspace.run("orders");
    let blind = workspace.wait("the blind signal", || {
        let state = workspace.journal()?.load_state().ok()?;
        state.blind.values().next().map(|blind| blind.why.clone())
    });
    assert!(
        blind.starts_with("timed out (running sh")
            && blind.contains("it takes longer than the interval of 500ms"),
        "{blind}"
    );
}
