//! Floor 5: the screen. It follows the journal and speaks to it; it never supervises.

pub mod model;
