//! What a real Prometheus knows of the time before a supervisor came is in the chart from the first second, and no
//! throttle acts on it. The law's times are made short.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::{domain::event::Payload, journal::SamplePoint};
use chrono::{DateTime, TimeDelta, Utc};
use std::{collections::BTreeMap, fmt::Write as _, fs, process::Command, time::Duration};
use support::{Setup, Workspace, known};

/// The lag until a while ago, far past hard.
const THEN: f64 = 5_000.0;
/// The lag now.
const NOW: f64 = 1.0;

/// A Prometheus that has samples of the last two hours, except of the last minutes, and its exporter.
fn servers() -> BTreeMap<String, String> {
    let dir = tempfile::tempdir().unwrap().keep();
    let past = dir.join("past.om");
    let mut text = "# TYPE live_lag gauge\n".to_owned();
    let now = Utc::now().timestamp();
    // Nothing of it may still be visible now.
    for at in (now - 7_200..now - 400).step_by(15) {
        writeln!(text, "live_lag {THEN} {at}").unwrap();
    }
    text.push_str("# EOF\n");
    fs::write(&past, text).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/prometheus.sh");
    let started = Command::new("bash")
        .args([script, "up", dir.to_str().unwrap()])
        .env("PAST", &past)
        .env("OWNER", std::process::id().to_string())
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(started.status.success(), "no real Prometheus: {words}");
    let lines = String::from_utf8(started.stdout).unwrap();
    let pairs = lines.lines().filter_map(|l| l.split_once('='));
    pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
}

fn serve(servers: &BTreeMap<String, String>, body: String) {
    let url = format!("{}/metrics", servers["LAG_URL"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        backfill::net::use_ring();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = client.put(url).body(body).send().await.unwrap();
        answer.error_for_status().unwrap();
    });
}

fn samples(workspace: &Workspace) -> Vec<SamplePoint> {
    let since = Utc::now() - TimeDelta::hours(3);
    let lag = "lag".parse().unwrap();
    let read = workspace
        .journal()
        .and_then(|j| j.samples_since(&lag, since).ok());
    read.unwrap_or_default()
}

fn starts(workspace: &Workspace) -> usize {
    workspace.count(|p| matches!(p, Payload::SubmissionIntended { .. }))
}

#[test]
fn the_last_two_hours_are_in_the_chart_at_once_and_no_throttle_acts_on_them() {
    let servers = servers();
    serve(&servers, format!("live_lag {NOW}\n"));
    let mut setup = Setup::new(3000, 4)
        .job("mark start\nsleep 0.1\nmark end")
        .order_more("signals = [\"lag\"]")
        .more(&format!(
            "[signals.lag]\ninterval = \"500ms\"\nkind = \"prometheus\"\nurl = \"{}\"\nquery = \"sum(live_lag)\"\n\
             unit = \"messages\"\nsoft = 100\nhard = 200\ncritical = 400\n",
            servers["PROMETHEUS_URL"]
        ));
    for (key, value) in [("start_gap", "20ms"), ("ewma", "1s"), ("grow_dwell", "300ms")] {
        setup = setup.tuning(key, value);
    }
    let workspace = setup.open();
    let begun = Utc::now();
    let _run = workspace.run("orders");
    let value = |s: &SamplePoint| s.value.as_ref().ok().copied();
    let first_live: DateTime<Utc> = workspace.wait("live samples", || {
        let samples = samples(&workspace);
        let live: Vec<_> = samples
            .iter()
            .filter(|s| s.at >= begun && value(s) == Some(NOW))
            .collect();
        (live.len() >= 6).then(|| live[0].at)
    });
    let all = workspace.wait("the past", || {
        let samples = samples(&workspace);
        samples.iter().any(|s| value(s) == Some(THEN)).then_some(samples)
    });
    let past: Vec<&SamplePoint> = all.iter().filter(|s| value(s) == Some(THEN)).collect();
    assert!(past.len() > 400, "{} of the past", past.len());
    let (first, last) = (past[0].at, past[past.len() - 1].at);
    assert!(
        (first - (begun - TimeDelta::hours(2))).abs() < TimeDelta::seconds(60),
        "{first}"
    );
    // Its last sample was 400 s ago; what Prometheus goes on to show of it is no measurement.
    assert!(begun - last > TimeDelta::seconds(400 - 61), "{last}");
    // The gap between the two stays one.
    assert!(
        all.iter()
            .all(|s| s.at <= last || s.at >= begun - TimeDelta::seconds(60))
    );
    assert!(last < first_live);
    let times: Vec<_> = all.iter().map(|s| s.at).collect();
    assert!(times.windows(2).all(|w| w[0] < w[1]), "a time twice");

    // 5000 is 25 times hard; whoever acted on it would have stopped everything.
    let before = starts(&workspace);
    std::thread::sleep(Duration::from_secs(2));
    workspace.wait("starts", || (starts(&workspace) >= before + 3).then_some(()));
    for event in workspace.events() {
        if let Payload::LimitChanged { change } = known(event) {
            assert!(change.to > 0 && change.to >= change.from, "{change:?}");
        }
    }
    let (_, status) = workspace.status("orders");
    assert_eq!(status["signals"]["lag"]["value"], NOW, "{status}");
    workspace.assert_once_only();
}
