//! Wiring only.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // Processes that are started many times a minute must start fast: nothing else is set up for them.
    if let Some(code) = backfill::executor::local::early(std::env::args_os()) {
        return code;
    }
    if let Some(code) = backfill::demo::early(std::env::args_os()) {
        return code;
    }
    backfill::cli::main()
}
