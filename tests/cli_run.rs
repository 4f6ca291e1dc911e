//! What `run` and `plan` say of what they are in charge of, how `run` is left, and what comes next.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use backfill::domain::state::ChunkState;
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read as _, Write as _},
    path::PathBuf,
};
use support::{Order, Setup, Workspace};

/// Jobs that run until the file `hold` is gone.
const UNTIL_LET_GO: &str = "mark start\nwhile [ -e hold ]; do sleep 0.02; done\nmark end";

fn hold(workspace: &Workspace) -> PathBuf {
    let hold = workspace.path("hold");
    fs::write(&hold, "").unwrap();
    hold
}

fn running(workspace: &Workspace, name: &str, n: usize) {
    workspace.wait("jobs to run", || {
        (workspace.in_state(name, ChunkState::Running) == n).then_some(())
    });
}

#[test]
fn run_says_at_its_start_which_orders_it_supervises_and_at_its_end_what_became_of_its_own() {
    let workspace = Setup::new(4, 2)
        .and(Order::new("invoices", 4, 2))
        .job(UNTIL_LET_GO)
        .open();
    let hold = hold(&workspace);
    let run = workspace.run("orders");
    running(&workspace, "orders", 2);
    run.kill();
    let (orders, lines) = (workspace.backfill("orders").unwrap().id, workspace.path("lines"));
    let output = fs::File::create(&lines).unwrap();
    let mut run = workspace.run_with("invoices", |c| {
        c.arg("--json").stdout(output);
    });
    workspace.wait("invoices", || workspace.backfill("invoices").map(drop));
    fs::remove_file(hold).unwrap();
    assert_eq!(run.end(), 0, "{}", workspace.told());
    let invoices = workspace.backfill("invoices").unwrap().id;
    let text = fs::read_to_string(lines).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["supervises"], json!([invoices, orders]), "{first}");
    assert_eq!(
        (&first["asked"], &first["epoch"]),
        (&json!(invoices), &json!(2)),
        "{first}"
    );
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["ended"], json!(invoices), "{last}");
    assert_eq!((&last["state"], &last["code"]), (&json!("complete"), &json!(0)));
    assert_eq!(last["counts"], json!({ "done": 4 }));
    let told = workspace.told();
    let line = told.lines().next().unwrap();
    assert_eq!(
        line,
        format!("supervising {orders}; ctrl-c ends this, running attempts go on")
    );

    assert_eq!(workspace.run("orders").end(), 0, "{}", workspace.told());
}

#[test]
fn an_order_that_ends_incomplete_names_what_would_set_it_in_motion() {
    let workspace = Setup::new(3, 1)
        .job("mark start\n[ $1 != 2023-01-02 ] || exit 65")
        .open();
    assert_eq!(workspace.run("orders").end(), 1, "{}", workspace.told());
    let told = workspace.told();
    assert!(
        told.contains(
            "orders incomplete: 2 done, 1 quarantined\n  mend the cause, then backfill rerun orders 2023-01-02 --failed"
        ),
        "{told}"
    );
    let plan = workspace.call(&["plan", "orders"]).ok().out;
    assert!(
        plan.contains(" is incomplete\n  next        mend the cause, then backfill rerun orders 2023-01-02"),
        "{plan}"
    );
}

#[test]
fn a_plan_of_an_order_that_was_started_says_so_and_does_not_ask_to_start_it() {
    let workspace = Setup::new(2, 1).job(UNTIL_LET_GO).open();
    let plan = workspace.call(&["plan", "orders"]).ok().out;
    assert!(plan.contains("  start it    backfill run orders"), "{plan}");
    let hold = hold(&workspace);
    let mut run = workspace.run("orders");
    running(&workspace, "orders", 1);
    let plan = workspace.call(&["plan", "orders"]).ok().out;
    assert!(
        plan.contains(" is running\n  next        backfill status orders") && !plan.contains("start it"),
        "{plan}"
    );
    fs::remove_file(hold).unwrap();
    assert_eq!(run.end(), 0, "{}", workspace.told());
    let plan = workspace.call(&["plan", "orders"]).ok().out;
    assert!(
        plan.contains(
            " is complete\n  next        a new order rewrites all of it: backfill run orders --again --yes"
        ),
        "{plan}"
    );
    let plan = workspace.call(&["plan", "orders", "--json"]).ok().json();
    assert_eq!(plan["started"]["state"], "complete", "{plan}");
}

/// As at a real keyboard: the whole foreground group gets the interrupt.
#[test]
fn ctrl_c_ends_supervising_says_that_runs_go_on_and_how_to_come_back() {
    let workspace = Setup::new(3, 1).job(UNTIL_LET_GO).open();
    let hold = hold(&workspace);
    let pair = portable_pty::native_pty_system()
        .openpty(portable_pty::PtySize {
            cols: 200,
            ..Default::default()
        })
        .unwrap();
    let mut command = portable_pty::CommandBuilder::new(env!("CARGO_BIN_EXE_backfill"));
    command.args(["--config", workspace.config().to_str().unwrap(), "run", "orders"]);
    command.cwd("/");
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    running(&workspace, "orders", 1);
    let mut screen = pair.master.try_clone_reader().unwrap();
    let mut keyboard = pair.master.take_writer().unwrap();
    keyboard.write_all(b"\x03").unwrap();
    let (mut seen, mut bytes) = (String::new(), [0; 4096]);
    while let Ok(n) = screen.read(&mut bytes)
        && n > 0
    {
        seen.push_str(&String::from_utf8_lossy(&bytes[..n]));
    }
    assert_eq!(child.wait().unwrap().exit_code(), 1, "work is left: {seen}");
    assert!(
        seen.contains(
            "stopped supervising orders; running attempts go on; back: backfill run orders, look: backfill status"
        ),
        "{seen}"
    );
    fs::remove_file(hold).unwrap();
    workspace.wait("the run's own end", || {
        (workspace.ended().len() == 1).then_some(())
    });
    assert_eq!(workspace.run("orders").end(), 0, "{}", workspace.told());
    workspace.assert_once_only();
}
