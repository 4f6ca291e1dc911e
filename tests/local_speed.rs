//! What a chunk that does nothing costs (proof 7): 1,000 runs of `true`, two at a time, each with a journaled intent
//! before its start. Compare with `seq 1000 | parallel -j2 --joblog FILE true`.
//!
//! `cargo test --release --test local_speed -- --ignored --nocapture`; `LOCAL_SPEED_DIR` names where the files go.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod local_support;

use backfill::executor::{
    Executor, RunUpdate, SubmitAnswer,
    local::{LocalExecutor, LocalSetup},
};
use local_support::{append, make_journal, open_journal, order, setup};
use std::{collections::HashMap, path::PathBuf, time::Instant};
use tokio::sync::mpsc::unbounded_channel;

async fn one_thousand(runs: u32, slots: usize) {
    let top = std::env::var_os("LOCAL_SPEED_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(top).unwrap();
    let journal = dir.path().join("journal.sqlite");
    make_journal(&journal);
    let db = open_journal(&journal);
    db.execute_batch("PRAGMA synchronous = FULL").unwrap();
    let (send, mut updates) = unbounded_channel();
    let environment = std::env::vars_os().collect();
    let executor = LocalExecutor::new(
        LocalSetup {
            environment,
            ..setup(dir.path())
        },
        send,
    );

    let began = Instant::now();
    let mut appending = std::time::Duration::ZERO;
    let mut submitting = std::time::Duration::ZERO;
    let (mut next, mut running) = (1, HashMap::new());
    let mut done = 0;
    while done < runs {
        while running.len() < slots && next <= runs {
            let mut order = order(dir.path(), &["true"]);
            order.attempt.no = next;
            next += 1;
            let at = Instant::now();
            append(&db, &order.attempt, "submission-intended");
            appending += at.elapsed();
            running.insert(order.attempt.clone(), Instant::now());
            let executor = executor.clone();
            tokio::spawn(async move {
                let answer = executor.submit(order).await;
                assert!(matches!(answer, SubmitAnswer::Accepted { .. }), "{answer:?}");
            });
        }
        let (attempt, update) = updates.recv().await.unwrap();
        let RunUpdate::Ended(end) = update else {
            panic!("{update:?}")
        };
        assert_eq!(end.result, Ok(()));
        submitting += running.remove(&attempt).unwrap().elapsed();
        done += 1;
    }
    let all = began.elapsed();
    println!(
        "{runs} runs on {slots} slots: {:.3} s, {:.2} ms a run in its slot, {:.3} ms an append",
        all.as_secs_f64(),
        submitting.as_secs_f64() * 1000.0 / f64::from(runs),
        appending.as_secs_f64() * 1000.0 / f64::from(runs),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn cost_of_a_chunk_that_does_nothing() {
    for _ in 0..3 {
        one_thousand(1000, 2).await;
    }
}
