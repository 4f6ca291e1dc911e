//! Named places at which a test can have a process die as if by SIGKILL.

/// The variable that names the place.
pub const KILL_AT: &str = "BACKFILL_KILL_AT";
/// The variable that allows it in a release build.
pub const TESTING: &str = "BACKFILL_TESTING";

/// A file that the process makes before it dies; where it is there already nobody dies. So one of many shims does.
pub const KILL_ONCE: &str = "BACKFILL_KILL_ONCE";

/// The claim is locked.
pub const SHIM_CLAIMED: &str = "shim-claimed";
/// The journal still wants the attempt.
pub const SHIM_CHECKED: &str = "shim-checked";
/// The process that becomes the command waits at the gate.
pub const EXEC_SPAWNED: &str = "exec-spawned";
/// The child record is on the disk.
pub const CHILD_RECORDED: &str = "child-recorded";
/// The command may run.
pub const GATE_OPENED: &str = "gate-opened";
/// The command has ended.
pub const COMMAND_ENDED: &str = "command-ended";
/// The exit record is in its place.
pub const EXIT_RECORDED: &str = "exit-recorded";

/// All places, in the order in which they are passed.
pub const ALL: [&str; 7] = [
    SHIM_CLAIMED,
    SHIM_CHECKED,
    EXEC_SPAWNED,
    CHILD_RECORDED,
    GATE_OPENED,
    COMMAND_ENDED,
    EXIT_RECORDED,
];

/// Dies here, if this place is named and the build or the environment allows it.
pub fn reached(place: &str) {
    let Some(wanted) = std::env::var_os(KILL_AT) else {
        return;
    };
    let allowed = cfg!(debug_assertions) || std::env::var_os(TESTING).is_some_and(|v| v == "1");
    let first = || match std::env::var_os(KILL_ONCE) {
        Some(file) => std::fs::File::create_new(file).is_ok(),
        None => true,
    };
    if allowed && wanted == place && first() {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
