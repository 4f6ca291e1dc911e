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
