//! journal

mod check;

pub use check::check_attempt;
