//! Looking leaves nothing behind, and a place that cannot hold the journal is named with what would help.

// Helpers of tests may fail loudly like tests themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};
use support::{Setup, SmallDisk, Workspace};

fn listing(workspace: &Workspace) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(workspace.path("."))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn whoever_looks_or_speaks_before_the_first_run_makes_no_journal_and_hears_that_nothing_has_been_run() {
    let workspace = Setup::new(3, 1).open();
    fs::set_permissions(workspace.path("job.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let before = listing(&workspace);
    let status = workspace.call(&["status"]).ok();
    assert!(
        status.out.starts_with("nothing has been run here yet"),
        "{status:?}"
    );
    let status = workspace.call(&["status", "--json"]).ok().json();
    assert_eq!(
        (&status["backfills"], &status["supervised"]),
        (&serde_json::json!([]), &false.into())
    );
    let check = workspace.call(&["check"]).ok();
    assert!(
        check
            .out
            .contains("nothing has been run here yet; it will be made at "),
        "{check:?}"
    );
    workspace.call(&["plan", "orders"]).ok();
    for command in [
        vec!["status", "orders"],
        vec!["why", "orders", "2023-01-01"],
        vec!["events", "orders"],
        vec!["logs", "orders", "2023-01-01"],
        vec!["pause", "orders"],
        vec!["hold", "orders", "2023-01-01"],
        vec!["cancel", "orders", "--yes"],
        vec!["stop"],
    ] {
        let said = workspace.call(&command);
        assert_eq!(said.code, 2, "{command:?} {said:?}");
        assert!(
            said.err.contains("nothing has been run here yet") && said.err.contains("backfill run "),
            "{command:?} {said:?}"
        );
    }
    assert_eq!(listing(&workspace), before);
    let typo = workspace.call(&["status", "ordres"]);
    assert!(typo.err.contains("did you mean orders?"), "{typo:?}");
}

/// Says what, where and how to mend it, and no bare number of the operating system.
fn is_helpful(workspace: &Workspace, arguments: &[&str], place: &Path, wanted: &[&str]) {
    let said = workspace.call(arguments);
    assert_eq!(said.code, 2, "{arguments:?} {said:?}");
    let words = format!("{}{}", said.out, said.err);
    assert!(
        words.contains(&place.display().to_string()),
        "{arguments:?} {words}"
    );
    assert!(
        words.contains("set [journal] path to a place"),
        "{arguments:?} {words}"
    );
    for part in wanted {
        assert!(words.contains(part), "{arguments:?} lacks {part}: {words}");
    }
    assert!(!words.contains("os error"), "{arguments:?} {words}");
}

#[test]
fn a_journal_below_a_file_is_refused_with_the_name_of_that_file() {
    let workspace = Setup::new(3, 1).open();
    fs::write(workspace.path("state"), "a file").unwrap();
    let place = workspace.path("state");
    for arguments in [
        &["status"][..],
        &["check"],
        &["why", "orders", "2023-01-01"],
        &["run", "orders"],
        &["pause", "orders"],
    ] {
        is_helpful(&workspace, arguments, &place, &["is a file and no directory"]);
    }
}

#[test]
fn a_directory_without_the_right_to_write_is_named_with_what_would_help() {
    if rustix::process::geteuid().is_root() {
        // Root may write everywhere; the next test is for it.
        return;
    }
    let workspace = Setup::new(3, 1).open();
    let state = workspace.path("state");
    fs::create_dir(&state).unwrap();
    fs::set_permissions(&state, fs::Permissions::from_mode(0o500)).unwrap();
    for arguments in [&["check"][..], &["run", "orders"]] {
        is_helpful(
            &workspace,
            arguments,
            &state,
            &["may not write to", "writable for that user"],
        );
    }
}

#[test]
fn a_file_system_that_is_mounted_read_only_is_named_with_what_would_help() {
    let workspace = Setup::new(3, 1).open();
    let state = workspace.path("state");
    let Some(disk) = SmallDisk::mount(&state) else {
        eprintln!("skipped: mounting a file system needs root");
        return;
    };
    assert_eq!(workspace.run("orders").end(), 0, "{}", workspace.told());
    disk.forbid_writing();
    for arguments in [
        &["status"][..],
        &["check"],
        &["why", "orders", "2023-01-01"],
        &["run", "orders"],
        &["pause", "orders"],
    ] {
        is_helpful(
            &workspace,
            arguments,
            &state,
            &["mounted read-only", "mount it for writing"],
        );
    }
}
