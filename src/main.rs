//! Wiring only.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    backfill::cli::main()
}
