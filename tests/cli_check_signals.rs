//! `check` asks every lag source once, and says what to do where none answers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::Value;
use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    process::{Command, Stdio},
};

/// Exit code and findings about signals of a configuration, in a folder with a program that prints a lag.
fn check(signals: &str) -> (i32, Vec<Value>) {
    let (code, mut findings) = check_all(signals);
    findings.retain(|f| f["what"].as_str().unwrap().starts_with("signal "));
    (code, findings)
}

/// The same with all findings.
fn check_all(signals: &str) -> (i32, Vec<Value>) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("lag.sh");
    let text =
        "#!/bin/sh\necho '{\"lag\": 12, \"age_s\": 3, \"parts\": {\"orders/0\": 3, \"orders/1\": 12}}'\n";
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let config =
        format!("[journal]\npath = \"state/journal.db\"\n[executors.here]\nkind = \"local\"\n{signals}");
    fs::write(dir.path().join("config.toml"), config).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_backfill"))
        .args(["check", "--json", "--config"])
        .arg(dir.path().join("config.toml"))
        // Not the folder of the configuration: paths start there all the same.
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    let findings = said["findings"].as_array().unwrap().clone();
    (out.status.code().unwrap(), findings)
}

/// A server that says the same to every request.
fn answering(list: &'static str) -> String {
    answering_with("200 OK", list)
}

/// The same with another status.
fn answering_with(status: &'static str, list: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 8192]);
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                list.len()
            );
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(list.as_bytes()));
        }
    });
    url
}

#[test]
fn a_program_is_run_once_where_the_configuration_is_and_its_worst_part_is_named() {
    let (code, said) =
        check("[signals.clicks]\nkind = \"command\"\ncommand = [\"./lag.sh\"]\nunit = \"seconds\"\n");
    assert_eq!(said[0]["says"], "12 (orders/1), 3s old");
    assert_eq!((code, said.len()), (0, 1));
}

#[test]
fn a_program_that_fails_is_told_with_its_words_and_how_to_run_it_by_hand() {
    let (code, said) = check(
        "[signals.bad]\nkind = \"command\"\ncommand = [\"sh\", \"-c\", \"echo 'no broker' >&2; exit 2\"]\n\
         unit = \"seconds\"\n",
    );
    assert_eq!(code, 2);
    assert!(
        said[0]["says"]
            .as_str()
            .unwrap()
            .ends_with("exit status: 2: no broker"),
        "{said:?}"
    );
    let mend = said[0]["mend"].as_str().unwrap();
    assert!(
        mend.contains(r"sh -c 'echo '\''no broker'\'' >&2; exit 2'"),
        "{mend}"
    );
}

#[test]
fn an_alert_fires_or_is_quiet_and_a_missing_watchdog_is_told() {
    let firing = answering(
        r#"[{"labels":{"alertname":"HighLag"},"updatedAt":"2026-01-01T00:00:00Z","endsAt":"2026-01-01T00:04:00Z",
        "status":{"state":"active","silencedBy":[],"inhibitedBy":[]}}]"#,
    );
    let empty = answering("[]");
    let signal = |name: &str, url: &str, more: &str| {
        format!(
            "[signals.{name}]\nkind = \"alertmanager\"\nurl = \"{url}\"\nmatchers = [\"alertname=HighLag\"]\n{more}"
        )
    };
    let config = signal("a", &firing, "")
        + &signal("b", &empty, "")
        + &signal("c", &empty, "watchdog = [\"alertname=Watchdog\"]\n");
    let (code, said) = check(&config);
    let says = |i: usize| said[i]["says"].as_str().unwrap();
    assert_eq!((says(0), says(1)), ("firing (HighLag), 0s old", "quiet, 0s old"));
    assert!(
        says(2).starts_with("no sample: the watchdog (alertname=\"Watchdog\") does not fire"),
        "{said:?}"
    );
    assert!(
        said[2]["mend"].as_str().unwrap().contains("/#/alerts"),
        "{said:?}"
    );
    assert_eq!(code, 2);
}

/// Also where nobody answers: then somebody wants to try it by hand.
#[test]
fn the_query_that_a_preset_wrote_is_shown() {
    let (code, said) = check_all(
        "[signals.lag]\nkind = \"prometheus\"\nurl = \"http://127.0.0.1:1\"\npreset = \"kminion\"\n\
         group = [\"orders\", \"a.b\"]\nsoft = 1\nhard = 2\ncritical = 3\n",
    );
    let query = said.iter().find(|f| f["what"] == "query of lag").unwrap();
    assert_eq!(
        query["says"],
        "kminion asks max by (group_id, topic_name) \
         (kminion_kafka_consumer_group_topic_lag{group_id=~\"orders|a\\\\.b\"})"
    );
    assert_eq!((code, &query["ok"]), (2, &Value::from(true)));
}

#[test]
fn a_group_that_stands_still_is_told_with_where_to_look() {
    let burrow = answering(include_str!("burrow_samples/lag.json"));
    let config = format!(
        "[signals.a]\nkind = \"burrow\"\nurl = \"{burrow}\"\ncluster = \"local\"\ngroups = [\"orders-svc\"]\n\
         soft = 10\nhard = 20\ncritical = 30\n"
    );
    let (code, said) = check(&config);
    assert_eq!(
        said[0]["says"],
        "no sample: orders-svc: orders/1 STALL at 325 messages"
    );
    let mend = said[0]["mend"].as_str().unwrap();
    assert!(mend.ends_with("/v3/kafka/local/consumer"), "{mend}");
    assert_eq!(code, 2);
}

#[test]
fn a_refused_login_is_told_with_the_login_that_has_to_be_mended_and_the_name_once() {
    let no = answering_with("401 Unauthorized", "no");
    let may_not = answering_with("403 Forbidden", "no");
    let basic = "basic = { user = \"reader\", password = { command = [\"echo\", \"hunter2\"] } }\n";
    let bearer = "bearer = { command = [\"echo\", \"hunter2\"] }\n";
    let headers = "headers = { X-Token = { command = [\"echo\", \"hunter2\"] }, X-Tenant = \"a\" }\n";
    let alert = |name: &str, url: &str, login: &str| {
        format!(
            "[signals.{name}]\nkind = \"alertmanager\"\nurl = \"{url}\"\nmatchers = [\"alertname=L\"]\n{login}"
        )
    };
    let lag = |name: &str, kind: &str, login: &str| {
        format!("[signals.{name}]\nurl = \"{no}\"\nsoft = 1\nhard = 2\ncritical = 3\n{kind}\n{login}")
    };
    let config = [
        lag(
            "a",
            "kind = \"prometheus\"\nquery = \"max(x)\"\nunit = \"messages\"",
            "",
        ),
        lag("b", "kind = \"burrow\"\ncluster = \"c\"\ngroups = [\"g\"]", basic),
        alert("c", &may_not, basic),
        alert("d", &no, bearer),
        alert("e", &may_not, bearer),
        alert("f", &no, headers),
        alert("g", &answering_with("500 Internal Server Error", "no"), bearer),
    ];
    let (code, said) = check(&config.concat());
    assert_eq!(code, 2);
    let mend = |i: usize| said[i]["mend"].as_str().unwrap();
    for (i, word) in [
        "[signals.a] has no login: give it one, `basic = ",
        "look at the login in [signals.b], `basic`: the user reader, and the password out of the program echo",
        "the user reader may not read this: give it the permission there, or another login in [signals.c], `basic`",
        "look at the login in [signals.d], `bearer`: the token out of the program echo, which may have expired",
        "the token out of the program echo may not read this: give it the permission there, or another one in",
        "[signals.f] has no login but its headers (X-Token out of the program echo, X-Tenant): look at them",
        "look at url in [signals.g], and whether it answers from this host",
    ]
    .iter()
    .enumerate()
    {
        assert!(mend(i).starts_with(word), "{}", mend(i));
        let says = said[i]["says"].as_str().unwrap();
        assert!(says.starts_with(['4', 't']), "the name a second time: {says}");
        assert!(!format!("{}{says}", mend(i)).contains("hunter2"), "{says}");
    }
}

#[test]
fn a_program_that_takes_longer_than_its_interval_or_deadline_is_told_what_has_to_be_longer() {
    let signal = |name: &str, script: &str, keys: &str| {
        format!(
            "[signals.{name}]\nkind = \"command\"\ncommand = [\"sh\", \"-c\", \"{script}\"]\nunit = \"seconds\"\n{keys}\n"
        )
    };
    let config = signal(
        "killed",
        "sleep 600",
        "deadline = \"200ms\"\ninterval = \"100ms\"",
    ) + &signal("slow", "sleep 0.3; echo 5", "interval = \"200ms\"")
        + &signal("quick", "echo 5", "interval = \"1h\"");
    let (code, said) = check_all(&config);
    let found = |what: &str| said.iter().find(|f| f["what"] == what);
    let killed = found("signal killed").unwrap();
    let says = killed["says"].as_str().unwrap();
    assert!(
        says.ends_with(
            "it took longer than its deadline of 200ms and was killed; it takes longer than the interval of 100ms: \
             the interval must be longer than the program takes"
        ),
        "{says}"
    );
    let longer =
        "make interval and deadline in [signals.killed] longer than it takes, or the program faster; run it";
    assert!(killed["mend"].as_str().unwrap().starts_with(longer), "{killed:?}");
    assert_eq!(found("signal slow").unwrap()["ok"], true);
    let slow = found("interval of slow").unwrap();
    assert!(
        slow["says"].as_str().unwrap().ends_with(
            "it takes longer than the interval of 200ms: the interval must be longer than the program takes"
        ),
        "{slow:?}"
    );
    assert!(
        slow["mend"].as_str().unwrap().contains("[signals.slow]"),
        "{slow:?}"
    );
    assert!(found("signal quick").is_some() && found("interval of quick").is_none());
    assert_eq!(code, 2);
}
