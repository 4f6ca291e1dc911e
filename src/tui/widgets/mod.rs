//! Small parts that panels are made of. They know nothing of backfills beyond the states of a chunk.

pub(crate) mod canvas;
pub(crate) mod chart;
pub(crate) mod fit;
pub(crate) mod heat;
pub(crate) mod lattice;
pub(crate) mod strip;
