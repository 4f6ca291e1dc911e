//! Floor 5: the screen. It follows the journal and speaks to it; it never supervises.

pub mod action;
pub mod driver;
pub mod effect;
pub mod feeder;
pub mod keymap;
pub mod model;
pub mod msg;
pub mod terminal;
pub mod update;

/// Opens the screen.
pub fn open(_global: &crate::cli::args::Global) -> crate::cli::context::Done {
    Err(crate::cli::context::Exit::usage("the screen is not wired yet"))
}

/// The demo's screen.
pub fn demo(
    _global: &crate::cli::args::Global,
    _config: &crate::config::Config,
) -> crate::cli::context::Done {
    Err(crate::cli::context::Exit::usage("the screen is not wired yet"))
}
