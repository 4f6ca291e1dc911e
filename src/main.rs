//! Wiring only.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // The shim and the process at its gate must start fast: nothing else is set up for them.
    if let Some(code) = backfill::executor::local::early(std::env::args_os()) {
        return code;
    }
    backfill::cli::main()
}
