//! wiring
fn main() {
    // Tests drive the real screen through a real pseudo-terminal; release builds do not have this.
    #[cfg(debug_assertions)]
    if std::env::args().nth(1).as_deref() == Some("__screen-test") {
        std::process::exit(backfill::tui::terminal::probe::main(std::env::args().skip(2)));
    }
}
