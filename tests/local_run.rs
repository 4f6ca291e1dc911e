//! Runs of the local executor from start to end, with real processes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod local_support;

use backfill::{
    domain::failure::FailureClass,
    executor::{Executor, SubmitAnswer},
};
use local_support::{Machine, alive, failure, secret, until, with_spec};
use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, time::Duration};

#[tokio::test]
async fn a_command_runs_once_in_its_folder_and_ends_done_with_its_times_and_its_log() {
    let mut machine = Machine::new();
    let before = chrono::Utc::now();
    let order = machine.script("pwd; echo to stderr >&2; echo ran >> ran; read x || echo no stdin");
    let end = machine.run(&order).await;
    assert_eq!(end.result, Ok(()));
    assert!(!end.cancelled && end.note.is_none());
    let (started, ended) = (end.started.unwrap(), end.ended.unwrap());
    assert!(started <= ended && (started - before).num_milliseconds() >= -1);
    assert_eq!(machine.read("ran"), "ran\n");
    let folder = fs::canonicalize(machine.dir.path()).unwrap();
    assert_eq!(
        machine.log(&order),
        format!("{}\nto stderr\nno stdin\n", folder.display())
    );
    assert!(machine.no_more_updates());
}

#[tokio::test]
async fn exit_codes_become_classes_with_the_last_line_as_message() {
    for (code, class) in [
        (1, FailureClass::Other),
        (65, FailureClass::Data),
        (75, FailureClass::Platform),
    ] {
        let mut machine = Machine::new();
        let order = machine.script(&format!(
            "echo first; printf 'bad \\033[31mrow\\n\\n'; exit {code}"
        ));
        let end = machine.run(&order).await;
        let failure = failure(&end);
        assert_eq!((failure.class, failure.exit), (class, Some(code)));
        assert_eq!(failure.message, format!("exit {code}: bad ^[[31mrow"));
    }
}

#[tokio::test]
async fn a_command_that_kills_itself_is_killed_and_not_oom() {
    let mut machine = Machine::new();
    let order = machine.script("kill -9 $$");
    let end = machine.run(&order).await;
    assert_eq!(
        (failure(&end).class, failure(&end).exit),
        (FailureClass::Killed, Some(137))
    );
}

#[tokio::test]
async fn arguments_reach_the_command_as_they_are_and_never_a_shell() {
    let mut machine = Machine::new();
    let hostile = [
        "$(touch pwned)",
        "a b",
        "; touch pwned",
        "`touch pwned`",
        "*",
        "",
        "-n",
        "\u{1b}[2J",
        "é\n",
    ];
    let mut command = vec!["/usr/bin/printf", "<%s>"];
    command.extend(hostile);
    let order = machine.order(&command);
    assert_eq!(machine.run(&order).await.result, Ok(()));
    let expected: String = hostile.iter().map(|a| format!("<{a}>")).collect();
    assert_eq!(machine.log(&order), expected);
    assert!(!machine.path("pwned").exists());
}

#[tokio::test]
async fn templates_are_filled_in_and_an_unknown_name_is_refused_before_anything_starts() {
    let mut machine = Machine::new();
    let order = machine.order(&[
        "/bin/echo",
        "{{ ds }}",
        "{{ data_interval_start }}",
        "{{ attempt_id }}",
    ]);
    assert_eq!(machine.run(&order).await.result, Ok(()));
    let expected = format!("2023-11-24 2023-11-24T00:00:00+01:00 {}\n", order.attempt);
    assert_eq!(machine.log(&order), expected);

    let machine = Machine::new();
    let order = machine.order(&["/bin/touch", "ran", "{{ dss }}"]);
    let SubmitAnswer::Refused { failure } = machine.executor.submit(order).await else {
        panic!()
    };
    assert_eq!(failure.class, FailureClass::Config);
    assert!(
        failure
            .message
            .starts_with("argument 2 of the command (`{{ dss }}`): `dss` is not known")
    );
    assert!(!machine.path("ran").exists());
}

#[tokio::test]
async fn the_environment_is_exactly_what_the_order_says() {
    let ours = [
        ("PATH", "/usr/bin:/bin"),
        ("HOME", "/home/minh"),
        ("USER", "minh"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C"),
        ("TZ", "UTC"),
        ("TMPDIR", "/tmp"),
        ("JAVA_HOME", "/java"),
        ("SSH_AUTH_SOCK", "/leak"),
        ("BACKFILL_CONFIG", "/leak"),
        ("LD_PRELOAD", ""),
    ];
    let mut machine = Machine::with(|setup| {
        setup.environment = ours.into_iter().map(|(n, v)| (n.into(), v.into())).collect();
    });
    let order = with_spec(machine.order(&["/usr/bin/env"]), |spec| {
        spec.env_pass = vec!["JAVA_HOME".to_owned(), "ABSENT".to_owned()];
        spec.env = BTreeMap::from([("MODE".to_owned(), "{{ ds }}".to_owned())]);
        spec.source = BTreeMap::from([("path".to_owned(), "s3://raw".to_owned())]);
    });
    assert_eq!(machine.run(&order).await.result, Ok(()));
    let mut seen: Vec<String> = machine.log(&order).lines().map(str::to_owned).collect();
    // The one that differs with each run.
    let marks = seen.extract_if(.., |v| v.starts_with("BACKFILL_SHIM=")).count();
    assert_eq!(marks, 1);
    seen.sort();
    let id = order.attempt.backfill.to_string();
    let mut expected = vec![
        "BACKFILL_ATTEMPT=1".to_owned(),
        format!("BACKFILL_ATTEMPT_ID={}", order.attempt),
        "BACKFILL_BACKFILL=orders".to_owned(),
        "BACKFILL_CHUNK=2023-11-24".to_owned(),
        "BACKFILL_DATA_INTERVAL_END=2023-11-25T00:00:00+01:00".to_owned(),
        "BACKFILL_DATA_INTERVAL_START=2023-11-24T00:00:00+01:00".to_owned(),
        "BACKFILL_DS=2023-11-24".to_owned(),
        "BACKFILL_DS_NODASH=20231124".to_owned(),
        format!("BACKFILL_ID={id}"),
        "BACKFILL_PROFILE_NAME=default".to_owned(),
        "BACKFILL_SOURCE_PATH=s3://raw".to_owned(),
        "BACKFILL_TARGET=datamart.orders".to_owned(),
        "HOME=/home/minh".to_owned(),
        "JAVA_HOME=/java".to_owned(),
        "LANG=C.UTF-8".to_owned(),
        "LC_ALL=C".to_owned(),
        "MODE={{ ds }}".to_owned(),
        "PATH=/usr/bin:/bin".to_owned(),
        "TMPDIR=/tmp".to_owned(),
        "TZ=UTC".to_owned(),
        "USER=minh".to_owned(),
    ];
    expected.sort();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_secret_reaches_the_command_and_neither_a_disk_nor_an_argument_nor_the_message() {
    let value = "hunter2-correct-horse";
    let mut machine = Machine::new();
    let script = "test \"$PASSWORD\" = hunter2-correct-\"horse\" || exit 9; while [ ! -e go ]; do sleep 0.02; done; \
                  echo \"denied for $PASSWORD\" >&2; exit 3";
    let mut order = machine.script(script);
    order.secrets = BTreeMap::from([("PASSWORD".to_owned(), secret(value))]);
    machine.start(&order).await;
    let shown = std::process::Command::new("ps")
        .args(["-eo", "args", "-ww"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("__shim"), "the shim is looked at");
    assert!(!shown.contains(value));
    assert!(
        !tree_contains(machine.dir.path(), value),
        "nothing on the disk while it runs"
    );
    fs::write(machine.path("go"), "").unwrap();
    let end = machine.end(&order).await;
    assert_eq!(failure(&end).exit, Some(3));
    assert_eq!(failure(&end).message, "exit 3: denied for (secret)");
    // What the command itself prints is its own doing; nothing else holds the value.
    fs::remove_file(machine.executor.log_file(&order.attempt).unwrap()).unwrap();
    assert!(!tree_contains(machine.dir.path(), value));
}

fn tree_contains(folder: &std::path::Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return tree_contains(&path, text);
        }
        fs::read(&path).is_ok_and(|b| b.windows(text.len()).any(|w| w == text.as_bytes()))
    })
}

#[tokio::test]
async fn cancel_ends_a_run_that_listens_and_it_is_cancelled() {
    let mut machine = Machine::new();
    let order = machine.script("trap 'echo told; exit 7' TERM; echo up > up; while :; do sleep 0.02; done");
    machine.start(&order).await;
    until("up", || machine.path("up").exists()).await;
    machine.executor.cancel(&order.attempt).await.unwrap();
    machine.executor.cancel(&order.attempt).await.unwrap();
    let end = machine.end(&order).await;
    assert!(end.cancelled);
    assert_eq!(
        (failure(&end).class, failure(&end).exit),
        (FailureClass::Cancelled, Some(7))
    );
    assert!(machine.log(&order).ends_with("told\n"));
}

#[tokio::test]
async fn cancel_kills_children_and_grandchildren_that_ignore_term_wherever_they_hide() {
    let mut machine = Machine::new();
    let script = "trap '' TERM; echo $$ > parent; \
                  sh -c 'trap \"\" TERM; echo $$ > child; (trap \"\" TERM; sh -c \"echo \\$\\$ > grandchild; exec sleep 600\") & wait' & \
                  setsid sh -c 'trap \"\" TERM; echo $$ > elsewhere; sleep 600' & wait";
    let order = machine.script(script);
    machine.start(&order).await;
    let names = ["parent", "child", "grandchild", "elsewhere"];
    until("all are up", || {
        names.iter().all(|n| machine.read(n).ends_with('\n'))
    })
    .await;
    let pids: Vec<String> = names.iter().map(|n| machine.read(n)).collect();
    assert!(pids.iter().all(|p| alive(p)));
    machine.executor.cancel(&order.attempt).await.unwrap();
    let end = machine.end(&order).await;
    assert!(end.cancelled);
    assert_eq!(failure(&end).exit, Some(137));
    let left: Vec<_> = names.iter().zip(&pids).filter(|(_, p)| alive(p)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_success_after_a_cancel_request_is_done_with_a_note() {
    let mut machine = Machine::new();
    let order =
        machine.script("trap 'echo finishing; exit 0' TERM; echo up > up; while :; do sleep 0.02; done");
    machine.start(&order).await;
    until("up", || machine.path("up").exists()).await;
    machine.executor.cancel(&order.attempt).await.unwrap();
    let end = machine.end(&order).await;
    assert_eq!(end.result, Ok(()));
    assert!(!end.cancelled);
    assert!(end.note.unwrap().contains("counts as finished"));
}

/// Case B16.
#[tokio::test]
async fn a_cancel_that_comes_before_the_start_prevents_it() {
    let machine = Machine::new();
    let order = machine.script("echo ran > ran");
    machine.executor.cancel(&order.attempt).await.unwrap();
    let answer = machine.executor.submit(order.clone()).await;
    let expected = SubmitAnswer::NotWanted {
        why: "cancelled before it started".to_owned(),
    };
    assert_eq!(answer, expected);
    assert!(!machine.path("ran").exists());
}

#[tokio::test]
async fn a_shim_that_is_told_to_end_without_a_cancel_ends_its_run_as_a_platform_failure() {
    let mut machine = Machine::new();
    let order = machine.script("echo $$ > pid; echo $PPID > shim; sleep 600");
    machine.start(&order).await;
    until("up", || machine.read("shim").ends_with('\n')).await;
    let shim = machine
        .read("shim")
        .trim()
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::TERM).unwrap();
    let end = machine.end(&order).await;
    assert_eq!(
        failure(&end).class,
        FailureClass::Platform,
        "a restart of the host must not cancel a chunk for good"
    );
    assert!(!end.cancelled);
    assert!(!alive(&machine.read("pid")));
}

#[tokio::test]
async fn a_deadline_ends_the_run_as_timeout_even_if_it_then_exits_in_order() {
    for script in ["sleep 600", "trap 'exit 0' TERM; while :; do sleep 0.02; done"] {
        let mut machine = Machine::new();
        let mut order = machine.script(script);
        order.profile.deadline_ms = Some(300);
        let end = machine.run(&order).await;
        assert_eq!(
            (failure(&end).class, failure(&end).exit),
            (FailureClass::Timeout, Some(124))
        );
        assert_eq!(failure(&end).message, "did not end within its 0.3 s");
        let took = end.ended.unwrap() - end.started.unwrap();
        assert!(took.num_milliseconds() >= 300);
    }
}

#[tokio::test]
async fn a_run_over_its_memory_is_oom_with_137_and_one_below_is_not() {
    let mut machine = Machine::new();
    let allocate = |mib: u32| format!("import time; x = bytearray({mib} << 20); time.sleep(1)");
    let mut order = machine.order(&["python3", "-c", &allocate(300)]);
    order.profile.memory = Some(128 << 20);
    let end = machine.run(&order).await;
    assert_eq!(
        (failure(&end).class, failure(&end).exit),
        (FailureClass::Oom, Some(137))
    );
    assert_eq!(failure(&end).message, "used more memory than its 128 MiB");
    assert!(end.peak.unwrap() > 128 << 20, "{:?}", end.peak);

    let mut machine = Machine::new();
    let mut order = machine.order(&["python3", "-c", &allocate(20)]);
    order.profile.memory = Some(128 << 20);
    let end = machine.run(&order).await;
    assert_eq!(end.result, Ok(()));
    assert!(
        (20 << 20..128 << 20).contains(&end.peak.unwrap()),
        "{:?}",
        end.peak
    );
}

#[tokio::test]
async fn memory_of_grandchildren_in_another_session_counts() {
    let mut machine = Machine::new();
    let child = "import time; x = bytearray(300 << 20); time.sleep(600)";
    let mut order = machine.order(&[
        "setsid",
        "--fork",
        "sh",
        "-c",
        &format!("python3 -c '{child}' & wait"),
    ]);
    order = with_spec(order, |spec| {
        spec.command
            .splice(0..0, ["sh", "-c", "\"$@\"; sleep 600", "sh"].map(str::to_owned));
    });
    order.profile.memory = Some(128 << 20);
    let end = machine.run(&order).await;
    assert_eq!(failure(&end).class, FailureClass::Oom);
}

#[tokio::test]
async fn what_a_command_leaves_behind_is_ended_and_counted() {
    let mut machine = Machine::new();
    let order =
        machine.script("setsid sleep 600 & echo $! > left; sh -c 'sleep 600 & echo $! > orphan' ; exit 0");
    let end = machine.run(&order).await;
    assert_eq!(end.result, Ok(()));
    assert_eq!(end.note.unwrap(), "2 of its processes were left over and ended");
    assert!(!alive(&machine.read("left")) && !alive(&machine.read("orphan")));
}

#[tokio::test]
async fn a_log_is_capped_and_keeps_both_ends() {
    let mut machine = Machine::with(|setup| setup.log_cap = 1 << 20);
    let order = machine.script("i=0; while [ $i -lt 60000 ]; do echo \"line $i of the noise, with some more\"; i=$((i+1)); done; echo the end");
    let end = machine.run(&order).await;
    assert_eq!(end.result, Ok(()));
    let log = machine.log(&order);
    assert!(log.len() <= 1 << 20, "{}", log.len());
    assert!(log.starts_with("line 0 of") && log.ends_with("the end\n"));
    assert_eq!(log.matches("left out").count(), 1);
    assert!(end.note.unwrap().ends_with("bytes of output did not fit the log"));
}

#[tokio::test]
async fn a_missing_command_a_file_that_cannot_run_and_a_missing_folder_are_config() {
    let mut machine = Machine::new();
    let order = machine.order(&["./no-such-job", "x"]);
    let end = machine.run(&order).await;
    assert_eq!(
        (failure(&end).class, failure(&end).exit),
        (FailureClass::Config, Some(127))
    );
    assert!(
        failure(&end)
            .message
            .contains("cannot run `./no-such-job`: No such file"),
        "{end:?}"
    );

    let mut machine = Machine::new();
    fs::write(machine.path("job.sh"), "#!/bin/sh\n").unwrap();
    let order = machine.order(&["./job.sh"]);
    let end = machine.run(&order).await;
    assert_eq!(
        (failure(&end).class, failure(&end).exit),
        (FailureClass::Config, Some(126))
    );

    let machine = Machine::new();
    let order = with_spec(machine.order(&["true"]), |spec| {
        spec.cwd = "/no/such/folder".to_owned()
    });
    let SubmitAnswer::Refused { failure } = machine.executor.submit(order).await else {
        panic!()
    };
    assert_eq!(failure.class, FailureClass::Config);
    assert_eq!(
        failure.message,
        "the folder to run in, `/no/such/folder`, is not there"
    );
}

#[tokio::test]
async fn a_relative_program_is_found_from_its_folder_and_a_bare_one_by_path() {
    let mut machine = Machine::new();
    fs::write(machine.path("job.sh"), "#!/bin/sh\necho \"$0 $1\"\n").unwrap();
    fs::set_permissions(machine.path("job.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let order = machine.order(&["./job.sh", "{{ ds_nodash }}"]);
    assert_eq!(machine.run(&order).await.result, Ok(()));
    assert_eq!(machine.log(&order), "./job.sh 20231124\n");

    let mut machine = Machine::new();
    let order = machine.order(&["true"]);
    assert_eq!(machine.run(&order).await.result, Ok(()));
}

#[tokio::test]
async fn hostile_values_are_refused_or_passed_on_as_text() {
    let machine = Machine::new();
    let mut order = machine.order(&["true"]);
    order.secrets = BTreeMap::from([("A=B".to_owned(), secret("x"))]);
    let SubmitAnswer::Refused { failure } = machine.executor.submit(order).await else {
        panic!()
    };
    assert_eq!(failure.class, FailureClass::Config);

    let machine = Machine::new();
    let mut order = machine.order(&["true"]);
    order.secrets = BTreeMap::from([("A".to_owned(), secret("x\0y"))]);
    let SubmitAnswer::Refused { failure } = machine.executor.submit(order).await else {
        panic!()
    };
    assert_eq!(failure.class, FailureClass::Config);

    let machine = Machine::new();
    let huge = "x".repeat(300_000);
    let order = machine.order(&["true", &huge]);
    let SubmitAnswer::Refused { failure } = machine.executor.submit(order).await else {
        panic!()
    };
    assert_eq!(failure.class, FailureClass::Config);

    let mut machine = Machine::new();
    let order = with_spec(
        machine.order(&["/bin/sh", "-c", "printf %s \"$BACKFILL_TARGET\""]),
        |spec| {
            spec.target = "a\u{1b}]0;x\u{7}$(touch pwned)\n\u{202e}".to_owned();
        },
    );
    assert_eq!(machine.run(&order).await.result, Ok(()));
    assert_eq!(machine.log(&order), order.spec.target);
    assert!(!machine.path("pwned").exists());
}

#[tokio::test]
async fn an_end_is_reported_at_once_and_not_at_the_next_look() {
    let mut machine = Machine::with(|setup| setup.tuning.watch = Duration::from_secs(3600));
    let order = machine.order(&["true"]);
    assert_eq!(machine.run(&order).await.result, Ok(()));
}

#[tokio::test]
async fn a_job_with_many_short_lived_orphans_leaves_no_zombies() {
    let mut machine = Machine::new();
    let order = machine.script(
        "i=0; while [ $i -lt 40 ]; do sh -c 'true & ' ; i=$((i+1)); done; echo $PPID > shim; touch up; \
         while [ ! -e go ]; do sleep 0.02; done",
    );
    machine.start(&order).await;
    until("up", || machine.path("up").exists()).await;
    let shim = machine.read("shim").trim().to_owned();
    until("zombies are taken in", || {
        let listed = std::process::Command::new("ps")
            .args(["-o", "state=", "--ppid", &shim])
            .output()
            .unwrap();
        !String::from_utf8_lossy(&listed.stdout).contains('Z')
    })
    .await;
    fs::write(machine.path("go"), "").unwrap();
    assert_eq!(machine.end(&order).await.result, Ok(()));
}

/// Case S30: nothing that a command starts can ask on a terminal.
#[tokio::test]
async fn a_command_has_its_own_group_in_the_session_of_its_shim_and_no_terminal() {
    let mut machine = Machine::new();
    let order =
        machine.script("echo $$ $PPID; ps -o pgid=,sid=,tty= -p $$; (: < /dev/tty) 2>/dev/null || echo none");
    assert_eq!(machine.run(&order).await.result, Ok(()));
    let log = machine.log(&order);
    let words: Vec<&str> = log.split_whitespace().collect();
    let [own, shim, group, session, tty, opened] = words[..] else {
        panic!("{log}")
    };
    assert_eq!((group, session, tty, opened), (own, shim, "?", "none"));
}

#[tokio::test]
async fn health_names_what_does_not_work() {
    let machine = Machine::new();
    machine.executor.health().await.unwrap();
    let machine = Machine::with(|setup| setup.state = "/proc/nowhere".into());
    let error = machine.executor.health().await.unwrap_err();
    assert_eq!(
        (error.endpoint.as_str(), error.tried.as_str()),
        ("here", "write to the state directory")
    );
}
