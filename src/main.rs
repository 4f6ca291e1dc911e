//! wiring

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // The demo's data work is a process of its own, many times a minute: it needs none of the rest.
    if args.next().is_some_and(|first| first == backfill::demo::JOB) {
        return ExitCode::from(backfill::demo::job::main(args));
    }
    ExitCode::SUCCESS
}
