//! Whatever dies at whatever moment: an attempt runs at most once, and the files tell what became of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod local_support;

use backfill::{
    domain::failure::FailureClass,
    executor::{
        Executor, Probe, RunOrder, SubmitAnswer,
        local::{kill_point, sweep_attempts},
    },
};
use local_support::{Machine, alive, append, failure, kill_at, open_journal, order, setup, until};
use rstest::rstest;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tokio::sync::mpsc::unbounded_channel;

/// A command that says that it ran, each time that it runs.
const RAN: &str = "echo $BACKFILL_ATTEMPT_ID >> ran";

fn runs(machine: &Machine) -> usize {
    machine.read("ran").lines().count()
}

/// Cases B04 and B35: the shim dies at each of its steps; the verdict is right and a second submission of the same
/// attempt never makes the command run twice.
#[rstest]
#[case(kill_point::SHIM_CLAIMED, true)]
#[case(kill_point::SHIM_CHECKED, true)]
#[case(kill_point::EXEC_SPAWNED, true)]
#[case(kill_point::CHILD_RECORDED, false)]
#[case(kill_point::GATE_OPENED, false)]
#[tokio::test]
async fn a_shim_killed_before_its_answer(#[case] point: &str, #[case] may_start: bool) {
    let machine = Machine::with(|setup| setup.shim_environment = kill_at(point));
    let order = machine.script(RAN);
    let answer = machine.executor.submit(order.clone()).await;
    assert!(matches!(answer, SubmitAnswer::Unknown { .. }), "{answer:?}");
    let mut machine = machine.restarted();
    let probe = machine.probe(&order).await;
    if may_start {
        assert_eq!(probe, Probe::NeverRan);
        assert_eq!(runs(&machine), 0);
        assert_eq!(machine.run(&order).await.result, Ok(()));
        assert_eq!(runs(&machine), 1);
    } else {
        let Probe::Ended(end) = probe else {
            panic!("{probe:?}")
        };
        assert_eq!(
            (failure(&end).class, failure(&end).exit),
            (FailureClass::Killed, Some(137))
        );
        let before = runs(&machine);
        let again = machine.executor.submit(order.clone()).await;
        assert!(matches!(again, SubmitAnswer::AlreadyExists { .. }), "{again:?}");
        assert_eq!(failure(&machine.end(&order).await).class, FailureClass::Killed);
        assert_eq!(runs(&machine), before);
        assert!(before <= 1);
    }
}

/// Cases B04 and B35: a run whose end nobody wrote down is never done by guess.
#[tokio::test]
async fn a_shim_killed_after_the_command_ended_and_before_that_is_written_down() {
    let mut machine = Machine::with(|setup| setup.shim_environment = kill_at(kill_point::COMMAND_ENDED));
    let order = machine.script(RAN);
    let end = machine.run(&order).await;
    assert_eq!(failure(&end).class, FailureClass::Killed);
    let mut machine = machine.restarted();
    let Probe::Ended(again) = machine.probe(&order).await else {
        panic!()
    };
    assert_eq!(failure(&again).class, FailureClass::Killed);
    let answer = machine.executor.submit(order.clone()).await;
    assert!(matches!(answer, SubmitAnswer::AlreadyExists { .. }));
    assert_eq!(failure(&machine.end(&order).await).class, FailureClass::Killed);
    assert_eq!(runs(&machine), 1);
}

/// Case B04.
#[tokio::test]
async fn a_shim_killed_after_the_exit_record_changes_nothing() {
    let mut machine = Machine::with(|setup| setup.shim_environment = kill_at(kill_point::EXIT_RECORDED));
    let order = machine.script(RAN);
    assert_eq!(machine.run(&order).await.result, Ok(()));
    let mut machine = machine.restarted();
    let Probe::Ended(end) = machine.probe(&order).await else {
        panic!()
    };
    assert_eq!(end.result, Ok(()));
    let answer = machine.executor.submit(order.clone()).await;
    assert!(matches!(answer, SubmitAnswer::AlreadyExists { .. }));
    assert_eq!(machine.end(&order).await.result, Ok(()));
    assert_eq!(runs(&machine), 1);
}

/// Case B04: what a supervisor meets when one of its shims dies while it sends.
#[tokio::test]
async fn a_kill_point_can_be_made_to_strike_once() {
    let mut machine = Machine::with(|setup| {
        // The file is the permission for one death.
        let permission = setup.state.with_file_name("once");
        std::fs::write(&permission, "").unwrap();
        setup.shim_environment = kill_at(&format!("{}@{}", kill_point::SHIM_CHECKED, permission.display()));
    });
    let order = machine.script(RAN);
    assert!(matches!(
        machine.executor.submit(order.clone()).await,
        SubmitAnswer::Unknown { .. }
    ));
    assert_eq!(machine.probe(&order).await, Probe::NeverRan);
    assert_eq!(machine.run(&order).await.result, Ok(()));
    assert_eq!(runs(&machine), 1);
}

/// Case B35: the slot is free again only when nothing of the run is left.
#[tokio::test]
async fn a_killed_shim_takes_its_whole_run_with_it() {
    let mut machine = Machine::new();
    let order = machine.script(
        "echo $$ > parent; echo $PPID > shim; setsid sh -c 'echo $$ > elsewhere; exec sleep 600' & \
         sh -c 'echo $$ > child; exec sleep 600' & wait",
    );
    machine.start(&order).await;
    let names = ["shim", "parent", "elsewhere", "child"];
    until("all are up", || {
        names.iter().all(|n| machine.read(n).ends_with('\n'))
    })
    .await;
    let shim = machine
        .read("shim")
        .trim()
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    let end = machine.end(&order).await;
    assert_eq!(
        (failure(&end).class, failure(&end).exit),
        (FailureClass::Killed, Some(137))
    );
    let left: Vec<_> = names.iter().filter(|n| alive(&machine.read(n))).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Two journals on one host may know an attempt by the same id, as two demos of one seed do.
#[tokio::test]
async fn ending_what_is_left_of_a_run_spares_the_run_of_the_same_name_of_another_journal() {
    let (mut lost, mut other) = (Machine::new(), Machine::new());
    let script = "echo $PPID > shim; touch up; while [ ! -e go ]; do sleep 0.02; done";
    let (order, same) = (lost.script(script), other.script(script));
    assert_eq!(order.attempt, same.attempt);
    lost.start(&order).await;
    other.start(&same).await;
    until("both are up", || {
        lost.path("up").exists() && other.path("up").exists()
    })
    .await;
    let shim = lost
        .read("shim")
        .trim()
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    assert_eq!(failure(&lost.end(&order).await).class, FailureClass::Killed);
    fs::write(other.path("go"), "").unwrap();
    assert_eq!(other.end(&same).await.result, Ok(()));
}

/// Case B04: two shims of one attempt, at the same time.
#[tokio::test]
async fn of_two_shims_that_race_for_one_claim_one_runs_the_command() {
    for _ in 0..5 {
        let mut machine = Machine::new();
        let order = machine.script(&format!("{RAN}; while [ ! -e go ]; do sleep 0.02; done"));
        let (a, b) = tokio::join!(
            machine.executor.submit(order.clone()),
            machine.executor.submit(order.clone())
        );
        let accepted = [&a, &b]
            .iter()
            .filter(|x| matches!(x, SubmitAnswer::Accepted { .. }))
            .count();
        let existing = [&a, &b]
            .iter()
            .filter(|x| matches!(x, SubmitAnswer::AlreadyExists { .. }))
            .count();
        assert_eq!((accepted, existing), (1, 1), "{a:?} {b:?}");
        fs::write(machine.path("go"), "").unwrap();
        assert_eq!(machine.end(&order).await.result, Ok(()));
        assert_eq!(runs(&machine), 1);
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert!(machine.no_more_updates(), "an end is reported once");
    }
}

/// Case B29: an old supervisor's order that arrives late starts nothing.
#[tokio::test]
async fn an_order_of_an_earlier_epoch_or_of_a_withdrawn_attempt_starts_nothing() {
    let machine = Machine::new();
    let order = machine.script(RAN);
    machine
        .journal()
        .execute("UPDATE lease SET epoch = 2", [])
        .unwrap();
    let answer = machine.executor.submit(order.clone()).await;
    let SubmitAnswer::NotWanted { why } = answer else {
        panic!("{answer:?}")
    };
    assert!(why.contains("epoch 2 supervises now"), "{why}");
    assert_eq!(machine.probe(&order).await, Probe::NeverRan);

    let machine = Machine::new();
    let order = machine.script(RAN);
    machine.append(&order.attempt, "submission-withdrawn");
    let answer = machine.executor.submit(order.clone()).await;
    assert!(matches!(answer, SubmitAnswer::NotWanted { .. }));
    assert_eq!(runs(&machine), 0);
}

/// Case B04: *never ran* is the last word about everything that was sent before, also when it is still on its way.
#[tokio::test]
async fn a_shim_that_comes_after_its_attempt_was_found_never_to_have_run_starts_nothing() {
    let mut machine = Machine::new();
    let order = machine.script(RAN);
    let (late, folder) = (
        machine.executor.clone(),
        machine.path(&format!("state/attempts/{}", order.attempt)),
    );
    // The claim is held while the late shim arrives; it is let go after the verdict.
    fs::create_dir_all(&folder).unwrap();
    let holder = fs::File::create(folder.join("claim")).unwrap();
    holder.try_lock().unwrap();
    let sent = tokio::spawn({
        let order = order.clone();
        async move { late.submit(order).await }
    });
    until("the shim waits", || shim_has_its_order(&order)).await;
    assert!(!sent.is_finished());
    // What the verdict writes, while the claim is in the same hands.
    let boot = backfill::host::boot_id();
    let now = backfill::host::boot_now();
    fs::write(
        folder.join("fence"),
        format!("{{\"boot\":\"{boot}\",\"at\":{}}}", now.0),
    )
    .unwrap();
    drop(holder);
    let answer = sent.await.unwrap();
    let SubmitAnswer::NotWanted { why } = answer else {
        panic!("{answer:?}")
    };
    assert!(why.contains("never to have run"));
    assert_eq!(runs(&machine), 0);
    assert_eq!(machine.probe(&order).await, Probe::NeverRan);
    assert_eq!(
        machine.run(&order).await.result,
        Ok(()),
        "and the next order of the same attempt runs"
    );
    assert_eq!(runs(&machine), 1);
}

/// Whether the shim of an order has read it all: only then it makes a session of its own.
fn shim_has_its_order(order: &RunOrder) -> bool {
    let listed = Command::new("ps")
        .args(["-eo", "pid,sid,args", "-ww"])
        .output()
        .unwrap();
    // Every test has a journal of its own.
    let wanted = format!("__shim {}", order.spec.cwd);
    String::from_utf8_lossy(&listed.stdout)
        .lines()
        .filter(|line| line.contains(&wanted))
        .any(|line| {
            let mut words = line.split_whitespace();
            words.next() == words.next()
        })
}

/// Case B04: a shim of an earlier supervisor that sleeps between its claim and its answer is waited for; the new
/// one's order runs once it let go.
#[tokio::test]
async fn a_claim_that_is_let_go_is_taken_over_within_one_submission() {
    let mut machine = Machine::new();
    let order = machine.script(RAN);
    let folder = machine
        .dir
        .path()
        .join(format!("state/attempts/{}", order.attempt));
    fs::create_dir_all(&folder).unwrap();
    let holder = fs::File::create(folder.join("claim")).unwrap();
    holder.try_lock().unwrap();
    let submitted = tokio::spawn({
        let (executor, order) = (machine.executor.clone(), order.clone());
        async move { executor.submit(order).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!submitted.is_finished());
    drop(holder);
    assert!(matches!(submitted.await.unwrap(), SubmitAnswer::Accepted { .. }));
    assert_eq!(machine.end(&order).await.result, Ok(()));
    assert_eq!(runs(&machine), 1);
}

/// Case B04: the supervisor dies after it handed the order over and before the answer.
#[tokio::test]
async fn a_shim_whose_supervisor_no_longer_listens_goes_on() {
    let machine = Machine::new();
    let order = machine.script(&format!("{RAN}; while [ ! -e go ]; do sleep 0.02; done"));
    let folder = machine.path(&format!("state/attempts/{}", order.attempt));
    fs::create_dir_all(&folder).unwrap();
    let holder = fs::File::create(folder.join("claim")).unwrap();
    holder.try_lock().unwrap();
    let sent = tokio::spawn({
        let (executor, order) = (machine.executor.clone(), order.clone());
        async move { executor.submit(order).await }
    });
    until("the shim waits", || shim_has_its_order(&order)).await;
    sent.abort();
    assert!(sent.await.unwrap_err().is_cancelled());
    drop(holder);
    until("it runs", || runs(&machine) == 1).await;
    let mut machine = machine.restarted();
    assert!(matches!(machine.probe(&order).await, Probe::Alive { .. }));
    fs::write(machine.path("go"), "").unwrap();
    assert_eq!(machine.end(&order).await.result, Ok(()));
    assert_eq!(runs(&machine), 1);
}

/// Somebody tidied the state directory, with the run's claim and records in it.
#[tokio::test]
async fn an_attempt_whose_folder_was_removed_runs_no_second_time() {
    let mut machine = Machine::new();
    let order = machine.script(RAN);
    assert_eq!(machine.run(&order).await.result, Ok(()));
    fs::remove_dir_all(machine.path("state/attempts")).unwrap();
    let again = machine.executor.submit(order.clone()).await;
    assert!(matches!(again, SubmitAnswer::AlreadyExists { .. }), "{again:?}");
    assert_eq!(runs(&machine), 1);
    assert_eq!(failure(&machine.end(&order).await).class, FailureClass::Killed);
}

#[tokio::test]
async fn a_run_whose_folder_was_removed_is_ended_and_never_called_one_that_never_ran() {
    let machine = Machine::new();
    let order = machine.script(&format!("{RAN}; echo $$ > pid; exec sleep 600"));
    machine.start(&order).await;
    until("it runs", || !machine.read("pid").is_empty()).await;
    fs::remove_dir_all(machine.path("state/attempts")).unwrap();
    let machine = machine.restarted();
    let Probe::Ended(end) = machine.probe(&order).await else {
        panic!("the run is gone, and nobody can say that it never was");
    };
    assert_eq!(failure(&end).class, FailureClass::Killed);
    assert!(!alive(&machine.read("pid")));
}

/// Case B04: the supervisor dies while it hands the order over.
#[test]
fn half_an_order_is_none() {
    use std::io::Write;
    let machine = Machine::new();
    let mut shim = Command::new(env!("CARGO_BIN_EXE_backfill"))
        .arg("__shim")
        .arg(machine.path("journal.sqlite"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    shim.stdin
        .take()
        .unwrap()
        .write_all(b"{\"sent\":1,\"state\":")
        .unwrap();
    let output = shim.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert!(!machine.path("state").exists());
}

#[tokio::test]
async fn a_claim_that_is_never_let_go_is_unknown_and_nothing_runs() {
    let machine = Machine::with(|setup| setup.tuning.effect_deadline = Duration::from_millis(600));
    let order = machine.script(RAN);
    let folder = machine
        .dir
        .path()
        .join(format!("state/attempts/{}", order.attempt));
    fs::create_dir_all(&folder).unwrap();
    let holder = fs::File::create(folder.join("claim")).unwrap();
    holder.try_lock().unwrap();
    let answer = machine.executor.submit(order.clone()).await;
    assert!(matches!(answer, SubmitAnswer::Unknown { .. }), "{answer:?}");
    assert!(matches!(machine.probe(&order).await, Probe::Unknown { .. }));
    assert_eq!(runs(&machine), 0);
}

#[tokio::test]
async fn a_record_that_cannot_be_written_starts_nothing() {
    let machine = Machine::new();
    let order = machine.script(RAN);
    let folder = machine
        .dir
        .path()
        .join(format!("state/attempts/{}", order.attempt));
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    fs::write(&folder, "in the way").unwrap();
    let answer = machine.executor.submit(order.clone()).await;
    let SubmitAnswer::Refused { failure } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(failure.class, FailureClass::Platform);
    assert_eq!(runs(&machine), 0);
}

#[tokio::test]
async fn a_journal_that_is_not_there_starts_nothing() {
    let machine = Machine::with(|setup| setup.journal = "/no/such/journal.sqlite".into());
    let order = machine.script(RAN);
    let answer = machine.executor.submit(order).await;
    assert!(matches!(answer, SubmitAnswer::NotWanted { .. }), "{answer:?}");
    assert_eq!(runs(&machine), 0);
}

/// The submitter of the tests below, as a process of its own that can be killed. Does nothing in a normal run.
#[tokio::test]
async fn helper_that_submits_and_stays() {
    let Ok(dir) = std::env::var("LOCAL_RECOVERY_SUBMITS_IN") else {
        return;
    };
    let (send, mut updates) = unbounded_channel();
    let executor = backfill::executor::local::LocalExecutor::new(setup(Path::new(&dir)), send);
    let answer = executor.submit(slow_order(Path::new(&dir))).await;
    fs::write(Path::new(&dir).join("answer"), format!("{answer:?}\n")).unwrap();
    updates.recv().await;
}

fn slow_order(dir: &Path) -> RunOrder {
    let script = format!("{RAN}; while [ ! -e go ]; do sleep 0.02; done; echo done");
    order(dir, &["/bin/sh", "-c", &script])
}

/// Also when a test fails, no helper stays.
struct KilledWhenDropped(Child);

impl Drop for KilledWhenDropped {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Starts the helper, lets it submit, and kills it with -9.
async fn submitted_by_a_killed_supervisor(machine: &Machine) -> RunOrder {
    let order = slow_order(machine.dir.path());
    append(
        &open_journal(&machine.path("journal.sqlite")),
        &order.attempt,
        "submission-intended",
    );
    let helper = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_that_submits_and_stays"])
        .env("LOCAL_RECOVERY_SUBMITS_IN", machine.dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let helper = KilledWhenDropped(helper);
    until("submitted", || machine.read("answer").ends_with('\n')).await;
    assert!(
        machine.read("answer").starts_with("Accepted"),
        "{}",
        machine.read("answer")
    );
    drop(helper);
    order
}

/// Cases B04 and B35.
#[tokio::test]
async fn a_run_outlives_its_killed_supervisor_and_is_adopted_by_the_next() {
    let mut machine = Machine::new();
    let order = submitted_by_a_killed_supervisor(&machine).await;
    machine
        .journal()
        .execute("UPDATE lease SET epoch = 2", [])
        .unwrap();
    let probe = machine.probe(&order).await;
    let Probe::Alive { run, running: true } = probe else {
        panic!("{probe:?}")
    };
    assert!(machine.read("answer").contains(&run.0), "the same run");
    let again = machine.executor.submit(order.clone()).await;
    assert!(
        matches!(&again, SubmitAnswer::AlreadyExists { run: r, .. } if *r == run),
        "{again:?}"
    );
    fs::write(machine.path("go"), "").unwrap();
    let end = machine.end(&order).await;
    assert_eq!(end.result, Ok(()));
    assert!(end.started.is_some() && end.ended.is_some());
    assert_eq!(runs(&machine), 1);
    assert_eq!(machine.log(&order), "done\n");
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(machine.no_more_updates());
}

#[tokio::test]
async fn a_run_that_ended_while_nobody_supervised_is_found_ended() {
    let machine = Machine::new();
    let order = submitted_by_a_killed_supervisor(&machine).await;
    fs::write(machine.path("go"), "").unwrap();
    let exit = machine
        .dir
        .path()
        .join(format!("state/attempts/{}/exit", order.attempt));
    until("ended", || exit.exists()).await;
    until("let go", || claim_is_free(&exit)).await;
    let Probe::Ended(end) = machine.probe(&order).await else {
        panic!()
    };
    assert_eq!(end.result, Ok(()));
}

fn claim_is_free(exit: &Path) -> bool {
    fs::File::open(exit.with_file_name("claim"))
        .unwrap()
        .try_lock()
        .is_ok()
}

#[tokio::test]
async fn an_adopted_run_can_be_cancelled() {
    let mut machine = Machine::new();
    let order = submitted_by_a_killed_supervisor(&machine).await;
    assert!(matches!(machine.probe(&order).await, Probe::Alive { .. }));
    machine.executor.cancel(&order.attempt).await.unwrap();
    let end = machine.end(&order).await;
    assert!(end.cancelled);
    assert_eq!(failure(&end).class, FailureClass::Cancelled);
}

#[tokio::test]
async fn an_attempt_that_was_never_sent_never_ran() {
    let machine = Machine::new();
    let order = order(machine.dir.path(), &["true"]);
    assert_eq!(machine.probe(&order).await, Probe::NeverRan);
}

#[tokio::test]
async fn swept_attempts_are_gone_and_still_run_only_once() {
    let mut machine = Machine::new();
    let order = machine.script(RAN);
    assert_eq!(machine.run(&order).await.result, Ok(()));
    let state = machine.path("state");
    assert_eq!(sweep_attempts(&state, |_| false), 0);
    machine.append(&order.attempt, "run-ended");
    assert_eq!(sweep_attempts(&state, |a| *a == order.attempt), 1);
    assert_eq!(fs::read_dir(state.join("attempts")).unwrap().count(), 0);
    let answer = machine.executor.submit(order.clone()).await;
    // The ledger of this boot still knows it; after a boot the journal does.
    assert!(matches!(answer, SubmitAnswer::AlreadyExists { .. }), "{answer:?}");
    assert_eq!(runs(&machine), 1);
}
