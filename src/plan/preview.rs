//! What a change would do, before it is done: which chunks, which not and why, with a digest of the whole.

use crate::domain::ids::ChunkId;
use serde::Serialize;

/// One chunk that a change would act on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PreviewChunk {
    /// The chunk.
    pub chunk: ChunkId,
    /// Its state now, as a word.
    pub state: &'static str,
    /// Number of the attempt that it would get.
    pub attempt: u32,
    /// What is known about its last attempt: `oom exit 137`.
    pub last: String,
    /// Name of the resource profile.
    pub profile: String,
    /// Its lane.
    pub lane: &'static str,
    /// Weight against the limit.
    pub weight: u32,
}

/// What a change would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// `Re-run 2 failed days`.
    pub title: String,
    /// Acts on these, in the order of their starts.
    pub will: Vec<PreviewChunk>,
    /// Leaves these alone, and why.
    pub will_not: Vec<(ChunkId, String)>,
    /// Facts as label and value: overwrites, reads, runs on, cost, undo.
    pub facts: Vec<(&'static str, String)>,
    /// The same change as a command line.
    pub same_as: String,
    /// 1: only reduces work. 2: starts or widens work. 3: irreversible.
    pub class: u8,
    /// First 6 hex digits of SHA-256 over everything above that matters.
    pub digest: String,
}
