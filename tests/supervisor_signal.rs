//! What a lag signal does to the starts of a running backfill (issue 2, proof 4; case B28), with a real Prometheus
//! that scrapes real exporters (`services/prometheus.sh`). Everything in here shares the one Prometheus.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::domain::{
    Time,
    event::{Payload, Rule},
};
use std::{collections::BTreeMap, process::Command, sync::OnceLock, time::Duration};
use support::{
    Setup, Workspace, known,
    lag::{LagEndpoint, Mode},
    ms,
};

/// Seconds between two polls, and between two scrapes.
const INTERVAL: i64 = 1;
const HARD: f64 = 200.0;

/// `steady` lives, `mortal` is killed.
struct Servers {
    lines: BTreeMap<String, String>,
}

impl Servers {
    fn get() -> &'static Self {
        static STARTED: OnceLock<Servers> = OnceLock::new();
        STARTED.get_or_init(|| {
            let dir = tempfile::tempdir().unwrap().keep();
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/services/prometheus.sh");
            let started = Command::new("bash")
                .args([script, "up", dir.to_str().unwrap()])
                .env("EXPORTERS", "steady mortal")
                .env("OWNER", std::process::id().to_string())
                .output()
                .unwrap();
            let words = String::from_utf8_lossy(&started.stderr).into_owned();
            assert!(started.status.success(), "no real Prometheus: {words}");
            let lines = String::from_utf8(started.stdout).unwrap();
            let lines = lines
                .lines()
                .filter_map(|l| l.split_once('='))
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect();
            Self { lines }
        })
    }

    fn address(&self) -> String {
        self.lines["PROMETHEUS_URL"]
            .trim_start_matches("http://")
            .to_owned()
    }

    /// Sets what an exporter serves from its next scrape on.
    fn serve(&self, exporter: &str, text: &str) {
        let url = format!("{}/metrics", self.lines[&format!("{exporter}_URL")]);
        let put = request(reqwest::Method::PUT, url, text.to_owned());
        assert!(put.is_some());
    }

    fn kill(&self, part: &str) {
        let pid = &self.lines[&format!("{part}_PID")];
        assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
    }

    /// All raw samples of a metric within the last minute.
    fn scraped(&self, metric: &str) -> Vec<f64> {
        let url = format!(
            "{}/api/v1/query?query={metric}%5B1m%5D",
            self.lines["PROMETHEUS_URL"]
        );
        let body = request(reqwest::Method::GET, url, String::new()).unwrap_or_default();
        let answer: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let values = answer["data"]["result"][0]["values"].as_array().cloned();
        values
            .unwrap_or_default()
            .iter()
            .filter_map(|v| v[1].as_str()?.parse().ok())
            .collect()
    }
}

fn request(method: reqwest::Method, url: String, body: String) -> Option<String> {
    // A thread of its own, so that no runtime of a test has to be there.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            backfill::net::use_ring();
            let client = reqwest::Client::builder().no_proxy().build().unwrap();
            let answer = client.request(method, url).body(body).send().await.ok()?;
            answer.error_for_status().ok()?.text().await.ok()
        })
    })
    .join()
    .unwrap()
}

/// A backfill of many short jobs that a metric protects, with the law's times made short.
fn protected(url: &str, metric: &str) -> Workspace {
    let mut setup = Setup::new(3000, 4)
        .job("mark start\nsleep 0.1\nmark end")
        .order_more("signals = [\"lag\"]\nlaw = \"classic\"")
        .more(&format!(
            "[signals.lag]\nkind = \"prometheus\"\nurl = \"{url}\"\nquery = \"sum({metric})\"\nunit = \"messages\"\n\
             soft = 100\nhard = {HARD}\ncritical = 1000000\ninterval = \"{INTERVAL}s\"\n"
        ));
    for (key, value) in [
        ("start_gap", "20ms"),
        ("ewma", "1s"),
        ("slope_window", "10s"),
        ("horizon", "1s"),
        ("cut_gap", "1s"),
        ("grow_dwell", "300ms"),
        ("resume_hold", "1s"),
        ("resume_hold_max", "2s"),
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

/// Times of all intents.
fn intents(workspace: &Workspace) -> Vec<Time> {
    workspace
        .events()
        .into_iter()
        .filter(|e| matches!(known(e.clone()), Payload::SubmissionIntended { .. }))
        .map(|e| e.at)
        .collect()
}

/// Valid samples as they were taken in: when, and the value.
fn samples(workspace: &Workspace) -> Vec<(Time, f64)> {
    let journal = workspace.journal().unwrap();
    let since = chrono::Utc::now() - chrono::Duration::minutes(5);
    journal
        .samples_since(&"lag".parse().unwrap(), since)
        .unwrap()
        .into_iter()
        .filter_map(|s| Some((s.at, s.value.ok()?)))
        .collect()
}

/// When the first poll after `from` gave no sample.
fn first_miss(workspace: &Workspace, from: Time) -> Time {
    let journal = workspace.journal().unwrap();
    let polls = journal.samples_since(&"lag".parse().unwrap(), from).unwrap();
    let missed = polls.into_iter().find(|s| s.at > from && s.value.is_err());
    missed.unwrap().at
}

/// All limits with their rules, oldest first.
fn limits(workspace: &Workspace) -> Vec<(Time, u32, Rule)> {
    workspace
        .events()
        .into_iter()
        .filter_map(|e| match known(e.clone()) {
            Payload::LimitChanged { change } => Some((e.at, change.to, change.rule)),
            _ => None,
        })
        .collect()
}

fn starts_go_on(workspace: &Workspace, what: &str) {
    let before = intents(workspace).len();
    workspace.wait(what, || (intents(workspace).len() >= before + 3).then_some(()));
}

fn quiet_for(workspace: &Workspace, time: Duration, what: &str) {
    let before = intents(workspace).len();
    std::thread::sleep(time);
    assert_eq!(intents(workspace).len(), before, "{what}: {}", workspace.told());
}

fn reason(workspace: &Workspace) -> (i32, String, String, String) {
    let (code, status) = workspace.status("orders");
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    (
        code,
        text(&status["throttle"]),
        text(&status["reason"]["reason"]),
        text(&status["reason"]["text"]),
    )
}

#[test]
fn a_signal_above_hard_stops_starts_in_time_and_one_sample_above_it_does_not() {
    let servers = Servers::get();
    let serve = |lag: f64| servers.serve("STEADY", &format!("main_lag {lag}\n"));
    serve(1.0);
    let workspace = protected(&servers.lines["PROMETHEUS_URL"], "main_lag");
    let _run = workspace.run("orders");
    workspace.wait("the first start", || {
        (!intents(&workspace).is_empty()).then_some(())
    });
    let first = intents(&workspace)[0];
    let before = samples(&workspace)
        .into_iter()
        .filter(|(at, _)| *at <= first)
        .count();
    assert!(before >= 2, "nothing starts before two samples: {before}");
    starts_go_on(&workspace, "starts while lag is low");

    one_sample_above_hard_stops_nothing(servers, &workspace, &serve);
    starts_go_on(&workspace, "starts after the single sample");

    serve(HARD * 2.0);
    let seen_from = chrono::Utc::now();
    let (first_over, _) = workspace.wait("a sample above hard", || {
        let over = |(at, value): &(Time, f64)| *value > HARD && *at >= seen_from;
        samples(&workspace).into_iter().find(over)
    });
    workspace.wait("the pause", || {
        limits(&workspace).last().filter(|l| l.1 == 0).map(drop)
    });
    quiet_for(&workspace, Duration::from_secs(4), "above hard");
    let last = *intents(&workspace).last().unwrap();
    let bound = chrono::Duration::seconds(2 * INTERVAL + 2);
    assert!(
        last <= first_over + bound,
        "last start {} after it",
        last - first_over
    );
    let (code, throttle, why, text) = reason(&workspace);
    assert_eq!((code, throttle.as_str(), why.as_str()), (3, "paused", "signal"));
    assert!(
        text.contains("paused by lag") && text.contains("hard 200"),
        "{text}"
    );

    let told = workspace.call(&["status", "orders"]);
    assert!(told.out.contains("  RUNNING, NO STARTS (signal)  "), "{told:?}");

    // No human raises it over that, and whoever tries is told so.
    let said = workspace
        .call(&["throttle", "orders", "force", "4", "--for", "1m"])
        .ok();
    assert!(
        said.out
            .contains("recorded for 1m, to 4, but it does not count now: paused by lag"),
        "{said:?}"
    );
    let (_, status) = workspace.status("orders");
    assert_eq!(
        (&status["force"]["limit"], &status["force"]["counts"]),
        (&4.into(), &false.into())
    );
    let told = workspace.call(&["status", "orders"]);
    assert!(told.out.contains("  force 4 by "), "{told:?}");
    quiet_for(&workspace, Duration::from_secs(1), "forced above hard");
    assert_eq!(workspace.status("orders").1["limit"], 0);

    serve(1.0);
    starts_go_on(&workspace, "starts after the resume");
    workspace.wait("the force", || {
        let (_, status) = workspace.status("orders");
        (status["limit"] == 4).then_some(())
    });
    workspace.assert_once_only();
}

/// Serves one scrape with a value above hard, and makes sure that the supervisor took it in as one sample.
fn one_sample_above_hard_stops_nothing(servers: &Servers, workspace: &Workspace, serve: &dyn Fn(f64)) {
    for spike in 1..=5 {
        let value = HARD * 3.0 + f64::from(spike);
        let from = intents(workspace).len();
        serve(value);
        workspace.wait("its scrape", || {
            servers.scraped("main_lag").contains(&value).then_some(())
        });
        serve(1.0);
        workspace.wait("the next scrape", || {
            (servers.scraped("main_lag").last() != Some(&value)).then_some(())
        });
        std::thread::sleep(ms(1500));
        let scrapes = servers
            .scraped("main_lag")
            .iter()
            .filter(|v| **v == value)
            .count();
        let taken = samples(workspace).iter().any(|(_, v)| *v == value);
        // A busy machine may scrape it twice, or poll past it; then it proves nothing.
        if scrapes != 1 || !taken {
            starts_go_on(workspace, "starts after a longer spike");
            continue;
        }
        let stops: Vec<_> = limits(workspace).into_iter().filter(|l| l.1 == 0).collect();
        if spike == 1 {
            assert!(stops.is_empty(), "{stops:?}");
        }
        assert!(intents(workspace).len() > from, "starts went on");
        return;
    }
    panic!("no single scrape of five was taken in");
}

/// Case B28. Each loss has a supervisor of its own, all at the same time.
#[test]
fn a_signal_that_is_lost_never_lets_the_limit_grow_and_after_the_blind_times_nothing_starts() {
    let servers = Servers::get();
    servers.serve("MORTAL", "dying_lag 1\nblind_nan 1\nblind_empty 1\n");
    let relay = LagEndpoint::new(Mode::Relay(servers.address()));
    let direct = servers.lines["PROMETHEUS_URL"].clone();

    let refused = protected(&relay.url, "dying_lag");
    let nan = protected(&direct, "blind_nan");
    let empty = protected(&direct, "blind_empty");
    let all = [&refused, &nan, &empty];
    let _runs = all.map(|w| w.run("orders"));
    for workspace in all {
        workspace.wait("starts", || (intents(workspace).len() >= 6).then_some(()));
    }
    // NaN and the vanished series are of the same scrape.
    relay.turn(Mode::Status(503));
    servers.serve("MORTAL", "dying_lag 1\nblind_nan NaN\n");
    let losses: [(&Workspace, &str); 3] = [(&refused, "503"), (&nan, "NaN"), (&empty, "no such series")];
    for (workspace, word) in losses {
        lost(workspace, word);
    }

    // Back again: two valid samples, and starts go on.
    relay.turn(Mode::Relay(servers.address()));
    servers.serve("MORTAL", "dying_lag 1\nblind_nan 1\nblind_empty 1\n");
    for workspace in all {
        starts_go_on(workspace, "starts after the signal is seen again");
        assert_eq!(workspace.status("orders").0, 0);
    }
    // The exporter dies while Prometheus lives.
    servers.kill("MORTAL");
    for workspace in all {
        lost(workspace, "no such series");
    }
}

/// A workspace whose signal was just taken away.
fn lost(workspace: &Workspace, word: &str) {
    let blind_stop = chrono::Duration::seconds(7);
    let stopped = workspace.wait("the stop", || {
        limits(workspace).last().filter(|l| l.1 == 0).copied()
    });
    let (at, _, rule) = stopped;
    assert_eq!(rule, Rule::Blind, "{}", workspace.told());
    let last_valid = samples(workspace)
        .iter()
        .map(|(at, _)| *at)
        .filter(|t| *t <= at)
        .max()
        .unwrap();
    let missed = first_miss(workspace, last_valid);
    let grown: Vec<_> = limits(workspace)
        .windows(2)
        .filter(|w| w[1].0 > missed && w[1].0 <= at && w[1].1 > w[0].1)
        .map(|w| w[1])
        .collect();
    assert!(grown.is_empty(), "{word}: it grew while blind: {grown:?}");
    let seen_last = limits(workspace).into_iter().rfind(|l| l.0 <= missed).unwrap().1;
    let halved = limits(workspace)
        .into_iter()
        .any(|l| l.0 > missed && l.0 < at && l.1 <= seen_last.div_ceil(2));
    assert!(halved || seen_last < 2, "{word}: {:?}", limits(workspace));
    quiet_for(workspace, Duration::from_secs(1), word);
    let last = *intents(workspace).last().unwrap();
    assert!(
        last <= last_valid + blind_stop + chrono::Duration::seconds(2),
        "{word}: a start {} after the last valid sample",
        last - last_valid
    );
    let (code, throttle, why, text) = reason(workspace);
    assert_eq!(
        (code, throttle.as_str(), why.as_str()),
        (4, "blind", "blind"),
        "{text}"
    );
    assert!(text.contains("lag"), "the signal is named: {text}");
    let (_, status) = workspace.status("orders");
    let problem = status["signals"]["lag"]["problem"].as_str().unwrap_or_default();
    assert!(problem.contains(word), "{word}: {problem}");
}
