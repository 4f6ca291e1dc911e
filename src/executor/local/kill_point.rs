//! The places on a shim's way at which a test can have it die as if by SIGKILL.

pub use crate::host::kill_point::{KILL_AT, TESTING, reached};

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
