//! Holding is immediate, because it only reduces work, and still somebody may ask beforehand what it would do.

use super::{Preview, days, digest, empty, split, units};
use crate::domain::{
    ids::ChunkId,
    state::{Backfill, ChunkState},
};

/// What holding these chunks would do. Acts on what waits; what runs goes on.
pub fn hold(backfill: &Backfill, asked: &[ChunkId]) -> Preview {
    let (will, will_not) = split(backfill, asked, |chunk| match chunk.state {
        ChunkState::Pending | ChunkState::Failed => Ok(()),
        ChunkState::Held => Err("held already".to_owned()),
        state if state.is_active() => Err(format!("{} now; K stops it", state.word())),
        state => Err(format!("{}, nothing to hold", state.word())),
    });
    let name = &backfill.spec.name;
    let title = format!("Hold {} {}", will.len(), units(&backfill.spec, will.len()));
    let mut preview = empty(title, 1, format!("backfill hold {name} {}", days(asked)));
    preview.facts = vec![
        (
            "effect",
            "they do not start until somebody releases them".to_owned(),
        ),
        ("undo", format!("backfill release {name} {}", days(asked))),
    ];
    preview.will = will;
    preview.will_not = will_not;
    preview.digest = digest(backfill, &preview);
    preview
}
