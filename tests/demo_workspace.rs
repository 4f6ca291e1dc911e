//! The demo's folder: what is in it, whose folders are taken, and that its configuration means what it says.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use backfill::demo::{Demo, DemoArgs, Faults, Settings, Workspace, WorkspaceError, publish, raw};
use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt, path::Path, process::Command};

const SETTINGS: Settings = Settings {
    days: 60,
    seed: 1,
    faults: Faults::Default,
    pace: 1.0,
};

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_backfill"))
}

fn somewhere() -> SocketAddr {
    "127.0.0.1:9090".parse().unwrap()
}

fn in_dir(dir: &Path, settings: Settings) -> Result<Workspace, WorkspaceError> {
    Workspace::make(Some(dir), settings)
}

fn raw_bytes(workspace: &Workspace) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(workspace.raw())
        .unwrap()
        .map(|e| e.unwrap().path())
        .map(|p| {
            (
                p.file_name().unwrap().to_string_lossy().into_owned(),
                fs::read(p).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

#[test]
fn the_newest_days_are_there_with_a_black_friday_among_them_and_one_torn_day() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = in_dir(dir.path(), SETTINGS).unwrap();
    let (first, last) = workspace.range();
    assert_eq!(
        (first.to_string(), last.to_string()),
        ("2024-11-02".into(), "2024-12-31".into())
    );
    let files = raw_bytes(&workspace);
    assert_eq!(files.len(), 60);
    let lines = |n: usize| files[n].1.iter().filter(|b| **b == b'\n').count();
    let heavy: Vec<&str> = (0..60)
        .filter(|n| lines(*n) > 5000)
        .map(|n| files[n].0.as_str())
        .collect();
    assert_eq!(heavy, ["dt=2024-11-29.csv"]);
    let torn = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes)
            .lines()
            .any(|l| l.split(',').count() != 6)
    };
    let bad: Vec<&str> = files
        .iter()
        .filter(|f| torn(&f.1))
        .map(|f| f.0.as_str())
        .collect();
    assert_eq!(bad, [format!("dt={}.csv", workspace.bad_day().unwrap())]);
}

#[test]
fn without_faults_no_day_is_torn_and_one_seed_gives_the_same_bytes_twice() {
    let (a, b, c) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let calm = Settings {
        faults: Faults::None,
        ..SETTINGS
    };
    let first = in_dir(a.path(), calm).unwrap();
    assert_eq!(first.bad_day(), None);
    assert!(raw_bytes(&first) == raw_bytes(&in_dir(b.path(), calm).unwrap()));
    assert!(raw_bytes(&first) != raw_bytes(&in_dir(c.path(), Settings { seed: 2, ..calm }).unwrap()));
}

#[test]
fn three_years_fit_into_sixty_megabytes() {
    let dir = tempfile::tempdir().unwrap();
    let all = Settings {
        days: raw::ALL_DAYS,
        ..SETTINGS
    };
    let files = raw_bytes(&in_dir(dir.path(), all).unwrap());
    let bytes: usize = files.iter().map(|f| f.1.len()).sum();
    assert_eq!(files.len(), 1096);
    assert!((5_000_000..60_000_000).contains(&bytes), "{bytes}");
}

#[test]
fn days_and_paces_that_make_no_sense_are_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("demo");
    for wrong in [
        Settings { days: 0, ..SETTINGS },
        Settings {
            days: 1097,
            ..SETTINGS
        },
        Settings {
            pace: -1.0,
            ..SETTINGS
        },
        Settings {
            pace: f64::NAN,
            ..SETTINGS
        },
    ] {
        assert!(in_dir(&target, wrong).is_err(), "{wrong:?}");
    }
    assert!(!target.exists());
}

#[test]
fn a_folder_with_anything_else_in_it_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.tex"), "years of work").unwrap();
    let refused = in_dir(dir.path(), SETTINGS).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("neither empty nor that of an earlier demo"),
        "{refused}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let file = dir.path().join("thesis.tex");
    assert!(matches!(
        in_dir(&file, SETTINGS),
        Err(WorkspaceError::NotAFolder(_))
    ));
}

#[test]
fn an_earlier_demo_s_folder_is_used_again_and_only_its_own_files_go() {
    let dir = tempfile::tempdir().unwrap();
    let few = Settings { days: 3, ..SETTINGS };
    let earlier = in_dir(dir.path(), few).unwrap();
    let old = publish::part_of(&earlier.warehouse(), raw::last_day());
    fs::create_dir_all(old.parent().unwrap()).unwrap();
    fs::write(&old, "old").unwrap();
    fs::write(earlier.journal(), "old").unwrap();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    drop(earlier);
    let later = in_dir(dir.path(), Settings { days: 2, ..few }).unwrap();
    assert_eq!(raw_bytes(&later).len(), 2);
    assert!(!old.exists() && !later.journal().exists());
    assert_eq!(fs::read(dir.path().join("notes.txt")).unwrap(), b"mine");
    later.remove().unwrap();
    let left: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(left, ["notes.txt"]);
}

#[test]
fn a_link_in_the_place_of_a_demo_s_folder_is_removed_and_not_followed() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let few = Settings { days: 1, ..SETTINGS };
    drop(in_dir(dir.path(), few).unwrap());
    fs::write(other.path().join("keep"), "").unwrap();
    fs::remove_dir_all(dir.path().join("raw")).unwrap();
    std::os::unix::fs::symlink(other.path(), dir.path().join("raw")).unwrap();
    let again = in_dir(dir.path(), few).unwrap();
    assert!(other.path().join("keep").exists());
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
    assert!(fs::symlink_metadata(again.raw()).unwrap().is_dir());
}

#[test]
fn two_demos_do_not_share_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let few = Settings { days: 1, ..SETTINGS };
    let running = in_dir(dir.path(), few).unwrap();
    assert!(matches!(in_dir(dir.path(), few), Err(WorkspaceError::Busy(_))));
    drop(running);
    in_dir(dir.path(), few).unwrap();
}

#[test]
fn a_temporary_folder_is_its_owner_s_alone_and_goes_as_a_whole() {
    let few = Settings { days: 1, ..SETTINGS };
    let (a, b) = (
        Workspace::make(None, few).unwrap(),
        Workspace::make(None, few).unwrap(),
    );
    assert!(a.is_temporary() && a.root() != b.root());
    let mode = fs::metadata(a.root()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let roots = [a.root().to_owned(), b.root().to_owned()];
    a.remove().unwrap();
    b.remove().unwrap();
    assert!(roots.iter().all(|r| !r.exists()));
}

fn config(workspace: &Workspace) -> toml::Table {
    let path = workspace.configure(somewhere(), program()).unwrap();
    assert_eq!(path, workspace.config());
    fs::read_to_string(path).unwrap().parse().unwrap()
}

#[test]
fn the_configuration_names_range_endpoint_ladder_and_journal() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = in_dir(dir.path(), SETTINGS).unwrap();
    let config = config(&workspace);
    let order = config["backfills"]["orders"].as_table().unwrap();
    assert_eq!(order["start"].to_string(), "2024-11-02");
    assert_eq!(order["end"].to_string(), "2024-12-31");
    assert_eq!(order["executor"].as_str(), Some("here"));
    assert_eq!(order["profiles"].as_array().unwrap().len(), 2);
    assert_eq!(config["executors"]["here"]["slots"].as_integer(), Some(4));
    assert_eq!(config["profiles"]["default"]["memory"].as_str(), Some("64MiB"));
    let signal = &config["signals"]["orders-live"];
    assert_eq!(signal["url"].as_str(), Some("http://127.0.0.1:9090"));
    assert_eq!(
        signal["query"].as_str(),
        Some("sum(kafka_consumergroup_lag{consumergroup=\"orders\"})")
    );
    let journal = config["journal"]["path"].as_str().unwrap();
    assert_eq!(workspace.root().join(journal), workspace.journal());
    assert!(workspace.journal().parent().unwrap().is_dir());
}

#[test]
fn without_faults_the_default_profile_is_enough_for_every_day() {
    let dir = tempfile::tempdir().unwrap();
    let calm = Settings {
        faults: Faults::None,
        ..SETTINGS
    };
    let config = config(&in_dir(dir.path(), calm).unwrap());
    assert_eq!(config["profiles"]["default"]["memory"].as_str(), Some("1GiB"));
}

#[test]
fn the_configured_command_really_writes_the_partition() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = in_dir(
        dir.path(),
        Settings {
            pace: 0.0,
            faults: Faults::None,
            ..SETTINGS
        },
    )
    .unwrap();
    let config = config(&workspace);
    let argv: Vec<String> = config["backfills"]["orders"]["command"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a.as_str().unwrap())
        .map(|a| {
            a.replace("{{ ds }}", "2024-12-24")
                .replace("{{ attempt_id }}", "orders-aaaaaa/2024-12-24/1")
        })
        .collect();
    assert!(argv.iter().all(|a| !a.contains("{{")), "{argv:?}");
    let output = Command::new(&argv[0])
        .args(&argv[1..])
        .current_dir(workspace.root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(publish::part_of(&workspace.warehouse(), "2024-12-24".parse().unwrap()).is_file());
}

#[test]
fn a_program_in_an_odd_folder_is_written_so_that_it_is_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = in_dir(dir.path(), Settings { days: 1, ..SETTINGS }).unwrap();
    let odd = "/opt/a \"b\" \\ c/'d'/backfill";
    workspace.configure(somewhere(), Path::new(odd)).unwrap();
    let config: toml::Table = fs::read_to_string(workspace.config()).unwrap().parse().unwrap();
    assert_eq!(config["backfills"]["orders"]["command"][0].as_str(), Some(odd));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_demo_answers_at_the_endpoint_that_its_configuration_names_until_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let args = DemoArgs {
        headless: true,
        days: 2,
        dir: Some(dir.path().to_owned()),
        ..DemoArgs::default()
    };
    let demo = Demo::open(&args, program()).await.unwrap();
    let config: toml::Table = fs::read_to_string(demo.workspace().config())
        .unwrap()
        .parse()
        .unwrap();
    let signal = &config["signals"]["orders-live"];
    backfill::net::use_ring();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/api/v1/query", signal["url"].as_str().unwrap());
    for query in ["query", "age_query"] {
        let asked = client
            .post(&url)
            .form(&[("query", signal[query].as_str().unwrap())]);
        let answer: serde_json::Value = asked.send().await.unwrap().json().await.unwrap();
        assert_eq!(
            answer["data"]["result"].as_array().map(Vec::len),
            Some(1),
            "{query}: {answer}"
        );
    }
    drop(client);
    let addr = demo.endpoint().addr();
    let workspace = demo.close().await;
    assert!(std::net::TcpStream::connect(addr).is_err());
    assert!(workspace.raw().is_dir());
}
