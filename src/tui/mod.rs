//! Floor 5: the screen. It follows the journal and speaks to it; it never supervises.

pub mod action;
pub mod attaching;
pub mod driver;
pub mod effect;
pub mod estimate;
pub mod feeder;
pub mod glyphs;
pub mod inside;
pub mod keymap;
pub mod model;
pub mod msg;
mod open;
pub mod parts;
pub mod picture;
pub mod plans;
pub mod scout;
pub mod sources;
pub mod terminal;
pub mod theme;
pub mod update;
pub mod view;
pub(crate) mod widgets;
pub mod writer;

pub use open::{demo, open};
