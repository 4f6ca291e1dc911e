//! Real programs, well-behaved ones and others.

use super::*;
use crate::host::process_stamp;
use std::path::Path;

const MINUTE: Duration = Duration::from_secs(60);

/// A source that runs a shell script in a folder.
fn script(folder: &Path, text: &str, deadline: Duration) -> Command {
    let config = CommandConfig {
        command: ["sh", "-c", text].map(str::to_owned).to_vec(),
        folder: folder.to_owned(),
        deadline,
    };
    Command::new("orders", &config, Duration::from_secs(600))
}

async fn read(text: &str) -> Reading {
    let dir = tempfile::tempdir().unwrap();
    script(dir.path(), text, Duration::from_secs(20)).read().await
}

fn failed(reading: Reading) -> AdapterError {
    match reading {
        Reading::Failed(error) => error,
        other => panic!("not failed: {other:?}"),
    }
}

fn why(reading: Reading) -> (NoSample, String) {
    match reading {
        Reading::NoSample { health, why } => (health, why),
        other => panic!("no *no sample*: {other:?}"),
    }
}

/// Whether a process ends within two seconds.
fn ends(pid_file: &Path) -> bool {
    let pid: i32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        process_stamp(pid).is_none()
    })
}

#[tokio::test]
async fn a_program_beside_the_configuration_prints_the_lag() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("lag.sh");
    std::fs::write(
        &program,
        "#!/bin/sh\npwd > where\necho noise >&2\necho \"{\\\"lag\\\": $1, \\\"age_s\\\": 3}\"\n",
    )
    .unwrap();
    let config = |command: &[&str]| CommandConfig {
        command: command.iter().map(|s| (*s).to_owned()).collect(),
        folder: dir.path().to_owned(),
        deadline: Duration::from_secs(20),
    };
    let may_not = failed(
        Command::new("orders", &config(&["./lag.sh", "42"]), MINUTE)
            .read()
            .await,
    );
    assert_eq!(may_not.cause, Cause::Local);
    assert!(may_not.detail.contains("lag.sh"), "{may_not}");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let reading = Command::new("orders", &config(&["./lag.sh", "42"]), MINUTE)
        .read()
        .await;
    let expected = Reading::Value {
        value: 42.0,
        age: Duration::from_secs(3),
        skew_ms: None,
        parts: Vec::new(),
    };
    assert_eq!(reading, expected);
    let there = std::fs::read_to_string(dir.path().join("where")).unwrap();
    assert_eq!(
        Path::new(there.trim()).canonicalize().unwrap(),
        dir.path().canonicalize().unwrap()
    );
    let missing = failed(
        Command::new("orders", &config(&["./nothing.sh"]), MINUTE)
            .read()
            .await,
    );
    assert!(
        missing.to_string().contains("running ./nothing.sh") && missing.detail.contains("no such program"),
        "{missing}"
    );
}

#[tokio::test]
async fn no_shell_takes_its_arguments_apart() {
    let config = CommandConfig {
        command: ["printf", "%s", "7; echo 8"].map(str::to_owned).to_vec(),
        folder: "/".into(),
        deadline: Duration::from_secs(20),
    };
    let (health, words) = why(Command::new("orders", &config, MINUTE).read().await);
    assert_eq!(health, NoSample::Invalid);
    assert!(words.contains("7; echo 8"), "{words}");
}

/// Case B28.
#[tokio::test]
async fn a_failure_is_told_with_the_last_line_of_the_error_output() {
    let error = failed(read("echo 5; echo first >&2; printf 'no \\033[31mbroker\\n\\n' >&2; exit 3").await);
    assert_eq!(error.cause, Cause::Local);
    assert_eq!(error.endpoint, "orders");
    assert_eq!(error.detail, "exit status: 3: no ^[[31mbroker");
    let error = failed(read("kill -9 $$").await);
    assert!(error.detail.contains("signal: 9"), "{error}");
    let (health, words) = why(read("echo 'group is gone' >&2").await);
    assert_eq!(
        (health, words.as_str()),
        (NoSample::Missing, "it prints nothing: group is gone")
    );
}

/// Case B28.
#[tokio::test]
async fn a_flood_is_no_sample_also_if_it_begins_with_a_number_and_never_ends() {
    let (health, words) = why(read("head -c 70000 /dev/zero | tr '\\0' 1").await);
    assert_eq!(health, NoSample::Invalid);
    assert!(words.contains("64 KiB"), "{words}");
    // One that never stops is not waited for until its deadline.
    let dir = tempfile::tempdir().unwrap();
    let endless = script(dir.path(), "echo $$ > own; yes 5", Duration::from_secs(600));
    let (health, words) = why(endless.read().await);
    assert!(health == NoSample::Invalid && words.contains("64 KiB"), "{words}");
    assert!(ends(&dir.path().join("own")), "it floods on");
}

#[tokio::test]
async fn past_the_deadline_it_is_killed_with_all_that_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let text = "sleep 600 & echo $! > child; setsid sleep 600 & echo $! > stranger; echo $$ > own; \
                echo 'still asking' >&2; wait";
    let begun = Instant::now();
    let error = failed(script(dir.path(), text, Duration::from_millis(2500)).read().await);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(error.cause, Cause::Timeout);
    assert!(
        error
            .detail
            .contains("longer than its deadline of 2s500ms and was killed: still asking"),
        "{error}"
    );
    for one in ["own", "child", "stranger"] {
        assert!(ends(&dir.path().join(one)), "{one} lives");
    }
}

#[tokio::test]
async fn one_that_takes_longer_than_its_interval_is_told_so_with_what_has_to_be_longer() {
    let config = CommandConfig {
        command: ["sleep", "600"].map(str::to_owned).to_vec(),
        folder: "/".into(),
        deadline: Duration::from_millis(300),
    };
    let told =
        "it takes longer than the interval of 200ms: the interval must be longer than the program takes";
    let source = Command::new("orders", &config, Duration::from_millis(200));
    let late = source.late(Duration::from_secs(3)).unwrap();
    assert_eq!(
        late.to_string(),
        format!("orders: timed out (running sleep, 3.0 s): {told}")
    );
    let killed = failed(source.read().await);
    assert_eq!(
        killed.detail,
        format!("it took longer than its deadline of 300ms and was killed; {told}")
    );
    // With reads far enough apart only the deadline is too short.
    let killed = failed(Command::new("orders", &config, MINUTE).read().await);
    assert_eq!(
        killed.detail,
        "it took longer than its deadline of 300ms and was killed"
    );
}

#[tokio::test]
async fn a_child_that_holds_the_pipe_neither_delays_the_lag_nor_lives_on() {
    let dir = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let source = script(
        dir.path(),
        "sleep 600 & echo $! > child; echo 9",
        Duration::from_secs(60),
    );
    assert!(matches!(source.read().await, Reading::Value { value, .. } if value == 9.0));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(ends(&dir.path().join("child")), "the child lives");
    // One that let go of the pipe is not forgotten either.
    let source = script(
        dir.path(),
        "sleep 600 >&- 2>&- & echo $! > child; echo 9",
        Duration::from_secs(60),
    );
    assert!(matches!(source.read().await, Reading::Value { .. }));
    assert!(ends(&dir.path().join("child")), "the child lives");
}

/// A daemon in a session of its own is beyond the group: it lives, and neither its read nor a later one waits for it.
#[tokio::test]
async fn many_reads_of_a_program_that_leaves_a_daemon_are_quick_and_leave_no_zombies() {
    let dir = tempfile::tempdir().unwrap();
    let text = "setsid sleep 20 & echo $$ >> pids; echo 1";
    let source = script(dir.path(), text, Duration::from_secs(60));
    let begun = Instant::now();
    for _ in 0..5 {
        assert!(matches!(source.read().await, Reading::Value { .. }));
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let pids = std::fs::read_to_string(dir.path().join("pids")).unwrap();
    assert_eq!(pids.lines().count(), 5);
    for pid in pids.lines() {
        // Also a zombie can be asked.
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        let asked = rustix::process::test_kill_process(pid);
        assert_eq!(asked, Err(rustix::io::Errno::SRCH));
    }
}

#[tokio::test]
async fn a_read_that_nobody_waits_for_ends_its_program() {
    let dir = tempfile::tempdir().unwrap();
    let pid_file = dir.path().join("own");
    let source = script(
        dir.path(),
        "echo $$ > own.new; mv own.new own; sleep 600",
        Duration::from_secs(600),
    );
    let reading = tokio::spawn(async move { source.read().await });
    while !pid_file.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    reading.abort();
    assert!(reading.await.unwrap_err().is_cancelled());
    assert!(ends(&pid_file), "it lives");
}

/// The environment of a real process: this test runs itself with a secret in it.
#[test]
fn it_has_nothing_to_read_and_none_of_our_secrets() {
    let inside = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "signals::command::tests::part_of_another_test_with_a_secret_in_the_environment",
        ])
        .env("BACKFILL_TEST_SECRET", "hunter2")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inside.stdout);
    assert!(inside.status.success() && said.contains("1 passed"), "{said}");
}

#[tokio::test]
#[ignore = "run by it_has_nothing_to_read_and_none_of_our_secrets"]
async fn part_of_another_test_with_a_secret_in_the_environment() {
    assert_eq!(std::env::var("BACKFILL_TEST_SECRET").as_deref(), Ok("hunter2"));
    let text = "read x && exit 4; env > all; echo 1";
    let dir = tempfile::tempdir().unwrap();
    let source = script(dir.path(), text, Duration::from_secs(20));
    assert!(matches!(source.read().await, Reading::Value { .. }));
    let all = std::fs::read_to_string(dir.path().join("all")).unwrap();
    assert!(all.lines().any(|l| l.starts_with("PATH=")), "{all}");
    assert!(!all.contains("SECRET") && !all.contains("hunter2"), "{all}");
}
