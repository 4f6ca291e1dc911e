//! `__exec`: the process that becomes the command. It waits at a gate, so that nothing of the command runs before
//! the shim has written down who it is.

use std::{
    ffi::OsString,
    io::{ErrorKind, Read, Write},
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
};

/// Exit code when the command exists and cannot be run.
pub const NOT_EXECUTABLE: i32 = 126;
/// Exit code when there is no such command.
pub const NOT_FOUND: i32 = 127;

/// `__exec SHIM_PID PROGRAM ARGUMENT..`, with the gate as stdin: one byte opens it, its end closes it for ever.
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let shim: Option<i32> = arguments.next().and_then(|a| a.to_str()?.parse().ok());
    let (Some(shim), Some(program)) = (shim, arguments.next()) else {
        return ExitCode::FAILURE;
    };
    // A command whose shim dies is nobody's: nobody would stop it, cap its output or write down how it ended.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let mut byte = [0];
    let opened = matches!(std::io::stdin().read(&mut byte), Ok(1));
    // The shim may have died between its byte and the line above; then this has another parent.
    let parent = rustix::process::getppid().map(|p| p.as_raw_nonzero().get());
    if !opened || parent != Some(shim) {
        return ExitCode::FAILURE;
    }
    if let Err(e) = close_stdin() {
        return failed(&program, &e);
    }
    let error = Command::new(&program).args(arguments).exec();
    failed(&program, &error)
}

/// The command gets an empty stdin and not the gate.
fn close_stdin() -> std::io::Result<()> {
    let null = std::fs::File::open("/dev/null")?;
    Ok(rustix::stdio::dup2_stdin(&null)?)
}

fn failed(program: &std::ffi::OsStr, error: &std::io::Error) -> ExitCode {
    let program = crate::domain::text::one_line(&program.to_string_lossy(), 100);
    let _ = writeln!(std::io::stderr(), "backfill: cannot run `{program}`: {error}");
    let code = if error.kind() == ErrorKind::NotFound {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
