//! Floor 5: the screen. It follows the journal and speaks to it; it never supervises.

pub mod glyphs;
pub mod model;
pub mod picture;
pub mod theme;
pub mod view;
pub(crate) mod widgets;
