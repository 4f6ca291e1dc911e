//! Named places at which a test can have a process of ours die as if by SIGKILL.
//!
//! `BACKFILL_KILL_AT=PLACE` has every process die that comes to the place. `BACKFILL_KILL_AT=PLACE@FILE` has only the
//! one die that can remove the file: the file is the permission for one death, so that a test can give it at a moment
//! of its choice, and restart with the same environment.

use std::{env, fs};

/// The variable that names the place.
pub const KILL_AT: &str = "BACKFILL_KILL_AT";
/// The variable that allows it in a release build.
pub const TESTING: &str = "BACKFILL_TESTING";

/// Dies here, if this place is named and the build or the environment allows it.
pub fn reached(place: &str) {
    let Some(wanted) = env::var_os(KILL_AT) else {
        return;
    };
    let allowed = cfg!(debug_assertions) || env::var_os(TESTING).is_some_and(|v| v == "1");
    let Some(wanted) = wanted.to_str().filter(|_| allowed) else {
        return;
    };
    let (name, permission) = match wanted.split_once('@') {
        Some((name, file)) => (name, Some(file)),
        None => (wanted, None),
    };
    if name == place && permission.is_none_or(|file| fs::remove_file(file).is_ok()) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
