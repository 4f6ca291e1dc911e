//! What sound files mean, and what no file may do.
//! Reason for its length: each rule of the file is one test, and all read it the same way.

use super::{secret::SecretSource, *};
use crate::domain::{
    blackout::Blackout,
    calendar::Granularity,
    spec::{Lane, Law, OnFailure, Order},
};
use proptest::prelude::*;
use std::fs;

/// The example of the issue, word for word.
const ISSUE: &str = r#"
[executors.here]
kind = "local"
slots = 4

[signals.orders]
kind = "prometheus"
url = "http://127.0.0.1:9090"
query = 'sum(kafka_consumergroup_lag{consumergroup="orders"})'
unit = "messages"          # or "seconds"
soft = 50000
hard = 200000
critical = 1000000
interval = "5s"

[backfills.orders]
target = "datamart.orders"
start = 2023-01-01
end = 2023-12-31           # inclusive
granularity = "day"
timezone = "UTC"
executor = "here"
command = ["./job.sh", "{{ ds }}"]
max_limit = 8
order = "oldest-first"
signals = ["orders"]
on_failure = "continue"

[profiles.default]
memory = "512MiB"
deadline = "30m"
"#;

const EXAMPLE: &str = include_str!("../../config.toml.example");

fn read(text: &str) -> Config {
    Config::parse(text, Path::new("/etc/backfill/config.toml")).unwrap()
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn date(text: &str) -> chrono::NaiveDate {
    text.parse().unwrap()
}

/// The issue's example with further lines in its backfill.
fn with(lines: &str) -> BackfillConfig {
    let text = ISSUE.replace("on_failure = \"continue\"", lines);
    read(&text).backfills.remove(&name("orders")).unwrap()
}

fn refused(lines: &str) -> String {
    let text = ISSUE.replace("on_failure = \"continue\"", lines);
    let errors = Config::parse(&text, Path::new("/c.toml")).unwrap_err();
    errors.to_string()
}

#[test]
fn the_example_of_the_issue_is_a_whole_configuration() {
    let config = read(ISSUE);
    assert_eq!(
        config.executors[&name("here")],
        ExecutorConfig::Local { slots: 4 }
    );
    let signal = &config.signals[&name("orders")];
    assert_eq!(
        (signal.low, signal.soft, signal.hard, signal.critical),
        (25_000.0, 50_000.0, 200_000.0, 1_000_000.0)
    );
    assert_eq!((signal.unit, signal.protects), (Unit::Messages, true));
    assert_eq!(signal.interval, Duration::from_secs(5));
    let BackfillConfig { spec, secrets } = &config.backfills[&name("orders")];
    assert!(secrets.is_empty());
    assert_eq!((spec.start, spec.end), (date("2023-01-01"), date("2023-12-31")));
    assert_eq!((spec.granularity, spec.max_limit), (Granularity::Day, 8));
    assert_eq!(
        (spec.order.clone(), spec.on_failure),
        (Order::OldestFirst, OnFailure::Continue)
    );
    assert_eq!(spec.cwd, "/etc/backfill", "cwd defaults to the file's folder");
    assert_eq!(spec.command, ["./job.sh", "{{ ds }}"]);
    assert_eq!(spec.profiles.len(), 1);
    assert_eq!(spec.profiles[0].memory, Some(536_870_912));
    assert_eq!(spec.profiles[0].deadline_ms, Some(1_800_000));
    assert!(spec.idempotent);
    assert_eq!(config.tuning, Tuning::default());
}

#[test]
fn the_example_file_is_a_whole_configuration() {
    let config = read(EXAMPLE);
    let BackfillConfig { spec, secrets } = &config.backfills[&name("orders")];
    assert_eq!(
        spec.env,
        BTreeMap::from([("PGUSER".to_owned(), "etl".to_owned())])
    );
    assert_eq!(spec.env_secrets, ["PGPASSWORD"]);
    assert_eq!(
        secrets["PGPASSWORD"],
        SecretSource::Env("ORDERS_PASSWORD".to_owned())
    );
    assert_eq!(spec.profiles.len(), 2);
    assert_eq!(
        spec.lane(crate::domain::ids::ChunkId::day(date("2023-11-24"))),
        Lane::Isolated
    );
    assert_eq!(
        spec.first_profile(crate::domain::ids::ChunkId::day(date("2023-11-27"))),
        1
    );
}

/// What is commented out in the example is a key that exists, with a value that is allowed.
#[test]
fn the_example_file_also_holds_with_everything_switched_on() {
    let is_setting = |l: &str| {
        let key = l.split('=').next().unwrap_or("").trim();
        let plain = |c: char| c.is_ascii_lowercase() || matches!(c, '_' | '-');
        l.starts_with('[') || (l.contains(" = ") && !key.is_empty() && key.chars().all(plain))
    };
    let text: Vec<&str> = EXAMPLE
        .lines()
        .map(|l| l.strip_prefix("# ").filter(|l| is_setting(l)).unwrap_or(l))
        .collect();
    let text = text
        .join("\n")
        .replace("[profiles.default]\n", "[profiles.default]\nqueue = \"day\"\n");
    let config = read(&text);
    assert_eq!(config.signals.len(), 8);
    assert_eq!(config.journal.path, Path::new("/var/lib/backfill/journal.db"));
    assert_eq!(config.screen.theme.as_deref(), Some("dark"));
    assert_eq!(config.backfills[&name("orders")].spec.cwd, "/etc/backfill/jobs");
}

#[test]
fn an_empty_file_is_a_configuration_without_anything() {
    let config = read("");
    assert!(config.executors.is_empty() && config.backfills.is_empty());
    assert_eq!(config.path, Path::new("/etc/backfill/config.toml"));
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = read(
        "[executors.here]\nkind = \"local\"\n[signals.s]\nkind = \"prometheus\"\nurl = \"http://x/\"\n\
         query = \"lag\"\nunit = \"seconds\"\n[backfills.b]\ntarget = \"t\"\nstart = 2023-01-01\nend = 2023-01-02\n\
         granularity = \"day\"\ntimezone = \"Europe/Berlin\"\nexecutor = \"here\"\ncommand = [\"true\"]\n",
    );
    let signal = &config.signals[&name("s")];
    assert_eq!(
        (signal.low, signal.soft, signal.hard, signal.critical),
        (30.0, 60.0, 180.0, 900.0)
    );
    assert_eq!(signal.interval, Duration::from_secs(15));
    let SourceConfig::Prometheus(source) = &signal.source else {
        panic!("not a Prometheus");
    };
    assert_eq!((source.http.url.as_str(), &source.http.auth), ("http://x", &None));
    let cores = config.executors[&name("here")].slots().unwrap();
    assert!(cores >= 1);
    let spec = &config.backfills[&name("b")].spec;
    assert_eq!(spec.max_limit, cores, "the executor's slots");
    assert_eq!(spec.profiles.len(), 1);
    assert_eq!(spec.profiles[0].name.as_str(), "default");
    assert_eq!(
        (spec.profiles[0].memory, spec.profiles[0].deadline_ms),
        (None, None)
    );
    assert!(spec.signals.is_empty() && spec.lanes.is_empty());
}

/// Case B14.
#[test]
fn a_failure_stops_the_rest_only_where_the_file_says_so() {
    for (line, policy) in [
        ("", OnFailure::Continue),
        ("on_failure = \"continue\"", OnFailure::Continue),
        ("on_failure = \"stop\"", OnFailure::StopAfter(1)),
        ("on_failure = \"stop_after:3\"", OnFailure::StopAfter(3)),
    ] {
        assert_eq!(with(line).spec.on_failure, policy, "{line}");
    }
    for bad in [
        "stop_after",
        "stop_after:",
        "stop_after:0",
        "stop_after:-1",
        "stop_after:+1",
        "stop:3",
    ] {
        let said = refused(&format!("on_failure = \"{bad}\""));
        assert!(said.contains("orders.on_failure: found"), "{said}");
    }
}

/// Case B20.
#[test]
fn an_order_of_ones_own_keeps_its_sequence_and_names_real_chunks() {
    let order = |lines: &str, old: &str, new: &str| {
        let text = ISSUE.replace("order = \"oldest-first\"", lines).replace(old, new);
        match read(&text).backfills[&name("orders")].spec.order.clone() {
            Order::Custom(chunks) => chunks.iter().map(ToString::to_string).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    let days = order("order = [2023-11-27, 2023-01-01, 2023-11-24]", "", "");
    assert_eq!(days, ["2023-11-27", "2023-01-01", "2023-11-24"]);
    let weeks = order("order = [2023-11-29, 2023-01-01]", "\"day\"", "\"week\"");
    assert_eq!(weeks, ["2023-11-27", "2023-01-01"], "a day stands for its week");
    let berlin = ISSUE
        .replace("timezone = \"UTC\"", "timezone = \"Europe/Berlin\"")
        .replace("\"day\"", "\"hour\"");
    let text = berlin.replace(
        "order = \"oldest-first\"",
        "order = [\"2023-10-29T02+0100\", 2023-03-26]",
    );
    let Order::Custom(hours) = read(&text).backfills[&name("orders")].spec.order.clone() else {
        panic!("an order of hours");
    };
    assert_eq!(
        hours.len(),
        1 + 23,
        "a day stands for its hours, of which there are 23 here"
    );
    assert_eq!(hours[0].to_string(), "2023-10-29T02+0100");
}

#[test]
fn a_day_with_a_lane_leads_to_the_chunk_that_holds_it() {
    let spec = with("heavy = [2023-11-27, 2023-11-24]").spec;
    assert_eq!(
        spec.lanes[&Lane::Heavy].days,
        [date("2023-11-24"), date("2023-11-27")]
    );
    let text = ISSUE
        .replace("\"day\"", "\"month\"")
        .replace("max_limit = 8", "isolated = [2023-11-24, 2023-11-27]");
    let spec = &read(&text).backfills[&name("orders")].spec;
    assert_eq!(spec.lanes[&Lane::Isolated].days, [date("2023-11-01")]);
    let month = crate::domain::ids::ChunkId::day(date("2023-11-01"));
    assert_eq!(spec.lane(month), Lane::Isolated);
}

#[test]
fn relative_paths_start_at_the_folder_of_the_file() {
    let text = ISSUE
        .replace(
            "on_failure = \"continue\"",
            "cwd = \"./jobs\"\nenv = { A = { file = \"a.key\" } }",
        )
        .replace(
            "interval = \"5s\"",
            "ca_file = \"../ca.pem\"\nbearer = { command = [\"./token\", \"./x\"] }",
        )
        + "[journal]\npath = \"state/j.db\"\n";
    let config = read(&text);
    let BackfillConfig { spec, secrets } = &config.backfills[&name("orders")];
    assert_eq!(spec.cwd, "/etc/backfill/jobs");
    assert_eq!(spec.command[0], "./job.sh", "the program stays relative to cwd");
    assert_eq!(secrets["A"], SecretSource::File("/etc/backfill/a.key".into()));
    let SourceConfig::Prometheus(source) = &config.signals[&name("orders")].source else {
        panic!("not a Prometheus");
    };
    assert_eq!(
        source.http.ca_file.as_deref(),
        Some(Path::new("/etc/backfill/../ca.pem"))
    );
    assert_eq!(
        source.http.auth,
        Some(HttpAuth::Bearer(SecretSource::Command(vec![
            "/etc/backfill/./token".to_owned().replace("/./", "/"),
            "./x".to_owned()
        ])))
    );
    let places = config.places();
    assert_eq!(places.journal, Path::new("/etc/backfill/state/j.db"));
    assert_eq!(places.logs, Path::new("/etc/backfill/state/logs"));
}

/// Or an order would seem to have moved when somebody calls from the folder beside it.
#[test]
fn a_path_that_leads_up_first_is_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("a/b")).unwrap();
    let file = root.join("config.toml");
    std::fs::write(&file, "[journal]\npath = \"journal.db\"\n").unwrap();
    let around = Config::load(&root.join("a/b/../../config.toml")).unwrap();
    assert_eq!(around, Config::load(&file).unwrap());
    assert_eq!(around.path, file);
}

#[test]
fn the_same_text_elsewhere_starts_elsewhere() {
    let there = Config::parse(ISSUE, Path::new("relative/config.toml")).unwrap();
    let cwd = &there.backfills[&name("orders")].spec.cwd;
    assert!(
        Path::new(cwd).is_absolute() && cwd.ends_with("/relative"),
        "{cwd}"
    );
}

#[test]
fn headers_may_be_plain_or_come_from_elsewhere() {
    let text = ISSUE.replace(
        "interval = \"5s\"",
        "headers = { \"X-Scope-OrgID\" = \"orders\", X-Api-Key = { env = \"KEY\" } }\n\
         basic = { user = \"etl\", password = { file = \"/run/pw\" } }",
    );
    let config = read(&text);
    let SourceConfig::Prometheus(source) = &config.signals[&name("orders")].source else {
        panic!("not a Prometheus");
    };
    assert_eq!(source.http.plain_headers["X-Scope-OrgID"], "orders");
    assert_eq!(
        source.http.headers["X-Api-Key"],
        SecretSource::Env("KEY".to_owned())
    );
    assert_eq!(
        source.http.auth,
        Some(HttpAuth::Basic {
            user: "etl".to_owned(),
            password: SecretSource::File("/run/pw".into())
        })
    );
}

#[test]
fn times_of_the_laws_are_read_with_either_hyphen() {
    let config =
        read("[tuning]\nretry-base = \"10ms\"\nlease_ttl = \"20s\"\nbreaker-row = 3\ndisk-low = \"0B\"\n");
    assert_eq!(config.tuning.retry_base, Duration::from_millis(10));
    assert_eq!(config.tuning.lease_ttl, Duration::from_secs(20));
    assert_eq!((config.tuning.breaker_row, config.tuning.disk_low), (3, 0));
    assert_eq!(config.tuning.lease_stop, Tuning::default().lease_stop);
}

#[test]
fn templates_may_use_every_known_name_and_statements() {
    let spec = with(
        "source = { bucket = \"raw\" }\nenv_pass = [\"A\"]\n\
         profiles = [\"default\"]",
    )
    .spec;
    assert_eq!(spec.source["bucket"], "raw");
    let text = ISSUE.replace(
        "command = [\"./job.sh\", \"{{ ds }}\"]",
        "command = [\"./job.sh\", \"{{ ds_nodash }}{{ attempt_id }}{{ attempt }}{{ backfill }}{{ target }}\", \
         \"{{ data_interval_start }}/{{ data_interval_end }}\", \"{{ profile.memory }}{{ profile.name }}\", \
         \"{% for c in ds %}{{ c }}{% endfor %}\", \"\", \"100%\", \"{ not a template }\"]",
    );
    assert_eq!(read(&text).backfills[&name("orders")].spec.command.len(), 8);
}

/// Case S31.
#[test]
fn reading_a_file_leaves_it_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    for text in [ISSUE, "[executors.here]\nkidn = 1\n"] {
        fs::write(&path, text).unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        let _ = Config::load(&path);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        let beside: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(beside.len(), 1, "and writes nothing beside it");
    }
}

/// Case S29: what cannot be read is an error with its reason, never a panic and never an empty configuration.
#[test]
fn a_file_that_cannot_be_read_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let said = |path: &Path| {
        let text = Config::load(path).unwrap_err().to_string();
        text.replace(&dir.path().display().to_string(), "DIR")
    };
    assert_eq!(
        said(&dir.path().join("config.toml")),
        "DIR/config.toml: file: found no way to read it (no such file or directory), expected a readable text file in TOML"
    );
    assert_eq!(
        said(dir.path()),
        "DIR: file: found a folder, expected a readable text file in TOML; name the config.toml in it"
    );
    let bytes = dir.path().join("bytes.toml");
    fs::write(&bytes, b"[screen]\ntheme = \"\xff\"\n").unwrap();
    assert_eq!(
        said(&bytes),
        "DIR/bytes.toml:2:10: file: found a byte that is not UTF-8, expected text in UTF-8"
    );
    let long = dir.path().join("long.toml");
    fs::write(&long, "# long\n".repeat(200_000)).unwrap();
    assert_eq!(
        said(&long),
        "DIR/long.toml: file: found more than 1 MB, expected a readable text file in TOML; is this the right file?"
    );
    assert_eq!(
        Config::load(Path::new("/dev/null")).unwrap_err().problems[0].found,
        "something that is no ordinary file"
    );
}

#[test]
fn a_file_of_noise_is_answered_in_fifty_lines_and_a_count() {
    let text: String = (0..1_000).map(|i| format!("x{i} = 1\n")).collect();
    let errors = Config::parse(&text, Path::new("/c.toml")).unwrap_err();
    let lines = errors.lines();
    assert_eq!((lines.len(), errors.more), (51, 950));
    assert!(
        lines[0].starts_with("/c.toml:1:1: x0: found an unknown key"),
        "{}",
        lines[0]
    );
    assert_eq!(lines[50], "/c.toml: and 950 more");
}

#[test]
fn no_message_repeats_a_secret_that_stands_in_the_wrong_place() {
    let places = [
        "[signals.s]\nbearer = \"hunter2\"\n",
        "[signals.s]\nbearer = hunter2\n",
        "[signals.s]\nbearer = \"hunter2\n",
        "[signals.s]\nbearer = { env = \"hunter2 \" }\n",
        "[signals.s]\nbearer = [\"hunter2\"]\n",
        "[signals.s]\nbasic = \"etl:hunter2\"\n",
        "[signals.s]\nbasic = { user = \"etl:hunter2\", password = \"hunter2\" }\n",
        "[signals.s]\nurl = \"http://etl:hunter2@x\"\n",
        "[signals.s]\nurl = \"etl:hunter2@x\"\n",
        "[signals.s]\nurl = \"http://x/?key=hunter2\"\n",
        "[signals.s]\nheaders = { Authorization = \"Basic hunter2\" }\n",
        "[signals.s]\nheaders = \"Authorization: hunter2\"\n",
        "[signals.s]\npasswrod = \"hunter2\"\n",
        "[backfills.b]\nenv = { TOKEN = \"hunter2\" }\n",
        "[backfills.b]\nenv = \"TOKEN=hunter2\"\n",
        "[backfills.b]\nenv_pass = [\"TOKEN=hunter2\"]\n",
        "[backfills.b]\nsource = { token = \"hunter2\" }\n",
        "password = \"hunter2\"\n",
    ];
    for text in places {
        let errors = Config::parse(text, Path::new("/c.toml")).unwrap_err();
        let said = format!("{errors} {errors:?}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_difference_names_what_changed_and_no_secret() {
    let old = read(EXAMPLE);
    let text = EXAMPLE
        .replace("slots = 4", "slots = 6")
        .replace("soft = 50000", "soft = 60000")
        .replace("sum(kafka", "max(kafka")
        .replace("ORDERS_PASSWORD", "OTHER_PASSWORD")
        .replace("max_limit = 8", "max_limit = 4")
        .replace("\"oldest-first\"   ", "[2023-11-24]")
        .replace("memory = \"512MiB\"", "memory = \"1GiB\"")
        + "[journal]\npath = \"/srv/j.db\"\n[tuning]\ncancel-grace = \"5s\"\n[executors.there]\nkind = \"local\"\n\
           [screen]\ntheme = \"light\"\n[signals.pay]\nkind = \"prometheus\"\nurl = \"http://x\"\nquery = \"y\"\n\
           unit = \"seconds\"\nbearer = { env = \"T\" }\n";
    let new = read(&text);
    let home = old.journal.path.display().to_string();
    let lines: Vec<String> = old.diff(&new).iter().map(|l| l.replace(&home, "HOME")).collect();
    assert_eq!(
        lines,
        [
            "executors.here.slots 4 to 6",
            "executors.there added",
            "signals.orders.query changed",
            "signals.orders.low 25000 to 30000",
            "signals.orders.soft 50000 to 60000",
            "signals.pay added",
            "backfills.orders.max_limit 8 to 4",
            "backfills.orders.order oldest-first to a list of 1 chunk",
            "backfills.orders.profiles default 512MiB+large 2GB to default 1GiB+large 2GB",
            "backfills.orders.env secrets changed",
            "journal.path HOME to /srv/j.db (only after a restart)",
            "tuning.cancel_grace 10s to 5s",
            "screen.theme none to light",
        ]
    );
    assert!(old.diff(&old.clone()).is_empty());
    let back = new.diff(&old).join("\n");
    assert!(back.contains("signals.pay removed"), "{back}");
    assert!(!back.contains("PASSWORD"), "{back}");
}

/// Changing any one key of an order is drift that names the key, and another hash.
#[test]
fn every_key_of_an_order_can_drift() {
    let base = with("profiles = [\"default\"]").spec;
    type Change = (&'static str, fn(&mut Spec));
    let changes: [Change; 24] = [
        ("name", |s| s.name = "other".parse().unwrap()),
        ("target", |s| s.target.push('x')),
        ("environment", |s| s.environment = Some("prod".to_owned())),
        ("start", |s| s.start = date("2023-01-02")),
        ("end", |s| s.end = date("2023-12-30")),
        ("granularity", |s| s.granularity = Granularity::Week),
        ("timezone", |s| s.timezone = chrono_tz::Europe::Berlin),
        ("executor", |s| s.executor = "there".parse().unwrap()),
        ("command", |s| s.command.push("-v".to_owned())),
        ("cwd", |s| s.cwd.push('x')),
        ("env_pass", |s| s.env_pass.push("A".to_owned())),
        ("env", |s| drop(s.env.insert("A".to_owned(), "b".to_owned()))),
        ("env secrets", |s| s.env_secrets.push("A".to_owned())),
        ("max_limit", |s| s.max_limit = 1),
        ("order", |s| s.order = Order::NewestFirst),
        ("signals", |s| s.signals.clear()),
        ("on_failure", |s| s.on_failure = OnFailure::StopAfter(2)),
        ("profiles", |s| s.profiles[0].deadline_ms = None),
        ("heavy", |s| drop(s.lanes.insert(Lane::Heavy, Default::default()))),
        ("source", |s| {
            drop(s.source.insert("a".to_owned(), "b".to_owned()))
        }),
        ("idempotent", |s| s.idempotent = false),
        ("law", |s| s.throttling.law = Law::Classic),
        ("cancel", |s| s.throttling.cancel_share = Some(1)),
        ("blackout", |s| s.blackout.push(window())),
    ];
    assert!(drift(&base, &base).is_empty());
    for (key, change) in changes {
        let mut now = base.clone();
        change(&mut now);
        let lines = drift(&base, &now);
        assert_eq!(lines.len(), 1, "{key}: {lines:?}");
        assert!(lines[0].starts_with(&format!("{key} ")), "{key}: {lines:?}");
        assert_ne!(spec_hash(&base), spec_hash(&now), "{key}");
    }
}

fn window() -> Blackout {
    let text = r#"{"from":"08:00","to":"20:00","days":"mon-fri","timezone":"UTC"}"#;
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_hash_of_an_order_is_twelve_digits_and_stays_the_same() {
    let spec = with("").spec;
    assert_eq!(spec_hash(&spec), "3f6664fa6cbb");
    let again: Spec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
    assert_eq!(spec_hash(&again), spec_hash(&spec));
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_without_harm(text: String) {
        let _ = Config::parse(&text, Path::new("c.toml"));
    }

    /// Random cuts and swaps of a sound file reach deeper than random text.
    #[test]
    fn any_damaged_file_is_read_or_refused_with_places_inside_it(
        cut in 0usize..4_000, length in 0usize..60, put in "[\\PC\n]{0,12}",
    ) {
        let chars: Vec<char> = EXAMPLE.chars().collect();
        let from = cut.min(chars.len());
        let to = (from + length).min(chars.len());
        let text: String = chars[..from].iter().chain(put.chars().collect::<Vec<_>>().iter()).chain(&chars[to..]).collect();
        if let Err(errors) = Config::parse(&text, Path::new("c.toml")) {
            prop_assert!(!errors.problems.is_empty());
            let lines = text.matches('\n').count() + 1;
            for problem in &errors.problems {
                prop_assert!(problem.at.is_some_and(|at| at.line <= lines && at.column >= 1));
            }
            prop_assert_eq!(errors.lines().len(), errors.problems.len() + usize::from(errors.more > 0));
        }
    }
}

/// The example of an Airflow and of a backfill on it.
const AIRFLOW: &str = r#"
[executors.airflow-prod]
kind = "airflow"
url = "http://127.0.0.1:8080/prefix/"
auth = { user = "admin", password = { env = "AIRFLOW_PASSWORD" } }
environment = "prod"

[backfills.events]
target = "events"
start = 2021-02-01
end = 2021-02-10
granularity = "day"
timezone = "UTC"
executor = "airflow-prod"
dag = "events_daily"
conf = { force = true, day = "{{ ds }}", deep = [{ n = 1, half = 0.5 }] }
pool = "backfill_pool"
max_limit = 4
profiles = ["default"]

[profiles.default]
"#;

fn airflow(config: &Config) -> &AirflowConfig {
    match &config.executors[&name("airflow-prod")] {
        ExecutorConfig::Airflow(server) => server,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_backfill_on_an_airflow_has_a_dag_and_the_environment_of_its_server() {
    let config = read(AIRFLOW);
    let server = airflow(&config);
    assert_eq!(server.url, "http://127.0.0.1:8080/prefix");
    assert_eq!((server.request_budget, server.slots), (60, None));
    assert_eq!(server.interval, Duration::from_secs(5));
    let password = SecretSource::Env("AIRFLOW_PASSWORD".to_owned());
    let user = "admin".to_owned();
    assert_eq!(server.auth, AirflowAuth::Password { user, password });
    let spec = &config.backfills[&name("events")].spec;
    let dag = spec.dag.as_ref().unwrap();
    assert_eq!(
        (dag.id.as_str(), dag.pool.as_deref()),
        ("events_daily", Some("backfill_pool"))
    );
    assert_eq!(
        serde_json::to_value(&dag.conf).unwrap(),
        serde_json::json!({"force": true, "day": "{{ ds }}", "deep": [{"n": 1, "half": 0.5}]})
    );
    assert!(spec.command.is_empty());
    assert_eq!(spec.environment.as_deref(), Some("prod"));
    let own = AIRFLOW.replace("target = ", "environment = \"stage\"\ntarget = ");
    assert_eq!(
        read(&own).backfills[&name("events")].spec.environment.as_deref(),
        Some("stage")
    );
}

#[test]
fn every_way_to_log_in_to_an_airflow_is_read() {
    let with = |auth: &str| {
        let line = "auth = { user = \"admin\", password = { env = \"AIRFLOW_PASSWORD\" } }";
        airflow(&read(&AIRFLOW.replace(line, auth))).auth.clone()
    };
    let secret = || SecretSource::Env("S".to_owned());
    assert_eq!(with(""), AirflowAuth::None);
    assert_eq!(
        with("auth = { token = { env = \"S\" } }"),
        AirflowAuth::Token(secret())
    );
    assert_eq!(
        with("auth = { basic = { user = \"u\", password = { env = \"S\" } } }"),
        AirflowAuth::Basic {
            user: "u".to_owned(),
            password: secret()
        }
    );
    assert_eq!(
        with("auth = { command = [\"token\", \"--for\", \"prod\"] }"),
        AirflowAuth::Token(SecretSource::Command(vec![
            "token".to_owned(),
            "--for".to_owned(),
            "prod".to_owned()
        ]))
    );
}

#[test]
fn what_changes_about_a_server_and_its_dag_is_told_without_secrets() {
    let old = read(AIRFLOW);
    for (from, to, line) in [
        (
            ":8080",
            ":8081",
            "executors.airflow-prod.url http://127.0.0.1:8080/prefix to http://127.0.0.1:8081/prefix",
        ),
        (
            "AIRFLOW_PASSWORD",
            "OTHER",
            "executors.airflow-prod login changed",
        ),
        (
            "events_daily",
            "events_hourly",
            "backfills.events.dag events_daily to events_hourly",
        ),
        ("force = true", "force = false", "backfills.events.conf changed"),
        (
            "\"backfill_pool\"",
            "\"p\"",
            "backfills.events.pool backfill_pool to p",
        ),
    ] {
        assert_eq!(old.diff(&read(&AIRFLOW.replace(from, to))), [line]);
    }
    let environment = old.diff(&read(&AIRFLOW.replace("environment = \"prod\"", "slots = 3")));
    assert_eq!(
        environment,
        [
            "executors.airflow-prod.environment prod to none",
            "executors.airflow-prod.slots none to 3",
            "backfills.events.environment prod to none",
        ]
    );
}

#[test]
fn without_slots_of_the_server_the_limit_must_be_given() {
    let without = AIRFLOW.replace("max_limit = 4\n", "");
    let errors = Config::parse(&without, Path::new("/x/config.toml")).unwrap_err();
    assert_eq!(errors.lines().len(), 1, "{errors}");
    assert!(
        errors
            .to_string()
            .contains("backfills.events.max_limit: found nothing"),
        "{errors}"
    );
    let slots = without.replace("environment = ", "slots = 5\nenvironment = ");
    assert_eq!(read(&slots).backfills[&name("events")].spec.max_limit, 5);
}
