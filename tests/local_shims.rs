//! A shim carries out one order after the other, and no order finds anything of the one before.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod local_support;

use backfill::executor::{Executor, RunOrder};
use local_support::{Machine, alive, failure, until};
use std::{fs, process::Command, time::Duration};

/// Tells who its shim is, and what marks its processes.
const WHO: &str = "echo $PPID $BACKFILL_SHIM >> who";

/// The attempt of this number of the same chunk.
fn nth(machine: &Machine, no: u32, script: &str) -> RunOrder {
    let mut order = local_support::order(machine.dir.path(), &["/bin/sh", "-c", script]);
    order.attempt.no = no;
    machine.append(&order.attempt, "submission-intended");
    order
}

/// The shim and the mark of every run up to now.
fn who(machine: &Machine) -> Vec<(String, String)> {
    let pair = |line: &str| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned()));
    machine.read("who").lines().map(|l| pair(l).unwrap()).collect()
}

fn signal(name: &str, pid: &str) {
    assert!(Command::new("kill").args([name, pid]).status().unwrap().success());
}

#[tokio::test]
async fn orders_in_quick_succession_share_a_shim_and_no_mark() {
    let mut machine = Machine::new();
    for no in 1..=3 {
        let order = nth(&machine, no, WHO);
        assert_eq!(machine.run(&order).await.result, Ok(()));
    }
    let who = who(&machine);
    assert!(who.iter().all(|(shim, _)| *shim == who[0].0), "{who:?}");
    assert!(who[0].1 != who[1].1 && who[1].1 != who[2].1, "{who:?}");
}

#[tokio::test]
async fn runs_at_the_same_time_never_share_a_shim() {
    let mut machine = Machine::new();
    let first = nth(
        &machine,
        1,
        &format!("{WHO}; while [ ! -e go ]; do sleep 0.02; done"),
    );
    machine.start(&first).await;
    let second = nth(&machine, 2, WHO);
    assert_eq!(machine.run(&second).await.result, Ok(()));
    fs::write(machine.path("go"), "").unwrap();
    assert_eq!(machine.end(&first).await.result, Ok(()));
    let who = who(&machine);
    assert_ne!(who[0].0, who[1].0);
}

#[tokio::test]
async fn a_run_that_leaves_a_process_behind_uses_its_shim_up() {
    let mut machine = Machine::new();
    let first = nth(&machine, 1, &format!("{WHO}; sleep 300 & echo $! > left"));
    let end = machine.run(&first).await;
    assert_eq!(end.result, Ok(()));
    assert!(end.note.is_some_and(|n| n.contains("left over")));
    assert!(!alive(&machine.read("left")));
    let second = nth(&machine, 2, WHO);
    assert_eq!(machine.run(&second).await.result, Ok(()));
    let who = who(&machine);
    assert_ne!(who[0].0, who[1].0);
}

#[tokio::test]
async fn a_limit_of_one_run_is_not_that_of_the_next() {
    let mut machine = Machine::new();
    let mut first = nth(&machine, 1, WHO);
    first.profile.deadline_ms = Some(60_000);
    first.secrets = [("PASSWORD".to_owned(), local_support::secret("hunter2"))].into();
    assert_eq!(machine.run(&first).await.result, Ok(()));
    let second = nth(&machine, 2, &format!("{WHO}; test -z \"$PASSWORD\" && exit 7"));
    assert_eq!(failure(&machine.run(&second).await).exit, Some(7));
    // A run that failed left nothing behind either.
    let mut third = nth(&machine, 3, &format!("{WHO}; sleep 300"));
    third.profile.deadline_ms = Some(100);
    assert_eq!(failure(&machine.run(&third).await).exit, Some(124));
    let who = who(&machine);
    assert!(who.iter().all(|(shim, _)| *shim == who[0].0), "{who:?}");
}

/// The cancel is for a run that is over, whose shim has another one by now.
#[tokio::test]
async fn a_cancel_that_comes_too_late_does_not_reach_the_next_run_of_the_shim() {
    let mut machine = Machine::new();
    let first = nth(&machine, 1, WHO);
    assert_eq!(machine.run(&first).await.result, Ok(()));
    let second = nth(
        &machine,
        2,
        &format!("{WHO}; while [ ! -e go ]; do sleep 0.02; done"),
    );
    machine.start(&second).await;
    until("the second says who it is", || who(&machine).len() == 2).await;
    let pairs = who(&machine);
    assert_eq!(pairs[0].0, pairs[1].0, "this is about one shim");
    machine.executor.cancel(&first.attempt).await.unwrap();
    // Ten looks of the shim.
    tokio::time::sleep(Duration::from_millis(500)).await;
    fs::write(machine.path("go"), "").unwrap();
    let end = machine.end(&second).await;
    assert_eq!((end.result, end.note, end.cancelled), (Ok(()), None, false));
}

#[tokio::test]
async fn a_cancel_of_the_second_run_of_a_shim_ends_it() {
    let mut machine = Machine::new();
    let first = nth(&machine, 1, WHO);
    assert_eq!(machine.run(&first).await.result, Ok(()));
    let second = nth(&machine, 2, "exec sleep 300");
    machine.start(&second).await;
    machine.executor.cancel(&second.attempt).await.unwrap();
    assert!(machine.end(&second).await.cancelled);
}

#[tokio::test]
async fn a_free_shim_that_is_told_to_end_or_is_killed_ends_and_the_next_order_has_another() {
    for how in ["-TERM", "-KILL"] {
        let mut machine = Machine::new();
        let first = nth(&machine, 1, WHO);
        assert_eq!(machine.run(&first).await.result, Ok(()));
        let shim = who(&machine)[0].0.clone();
        signal(how, &shim);
        until("it is gone", || {
            let state = Command::new("ps")
                .args(["-o", "stat=", "-p", &shim])
                .output()
                .unwrap();
            state.stdout.first().is_none_or(|s| *s == b'Z')
        })
        .await;
        let second = nth(&machine, 2, WHO);
        assert_eq!(machine.run(&second).await.result, Ok(()), "{how}");
        assert_ne!(who(&machine)[1].0, shim);
    }
}

#[tokio::test]
async fn a_free_shim_does_not_stay() {
    let mut machine = Machine::new();
    let order = nth(&machine, 1, WHO);
    assert_eq!(machine.run(&order).await.result, Ok(()));
    let shim = who(&machine)[0].0.clone();
    until("it is gone", || !alive(&shim)).await;
}

/// Case B04: the supervisor dies while its shim is free.
#[test]
fn a_free_shim_ends_with_its_supervisor() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let shim = runtime.block_on(async {
        let mut machine = Machine::new();
        let order = nth(&machine, 1, WHO);
        assert_eq!(machine.run(&order).await.result, Ok(()));
        who(&machine)[0].0.clone()
    });
    // With it go the pipes, as they do when a process dies.
    drop(runtime);
    let began = std::time::Instant::now();
    loop {
        // Nobody here takes its status in any more.
        let state = Command::new("ps")
            .args(["-o", "stat=", "-p", &shim])
            .output()
            .unwrap();
        if state.stdout.first().is_none_or(|s| *s == b'Z') {
            break;
        }
        assert!(began.elapsed() < local_support::LONG, "it stays");
        std::thread::sleep(Duration::from_millis(5));
    }
}
