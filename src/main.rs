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
    // Tests drive the real screen through a real pseudo-terminal; release builds do not have this.
    #[cfg(debug_assertions)]
    if std::env::args().nth(1).as_deref() == Some("__screen-test") {
        std::process::exit(backfill::tui::terminal::probe::main(std::env::args().skip(2)));
    }
    backfill::cli::main()
}
