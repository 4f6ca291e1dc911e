//! Which chunks the calendar shows while a filter is on. Movement uses the same test, so that `n` never lands on a
//! day that cannot be seen.

use crate::{
    domain::{
        ids::ChunkId,
        state::{Chunk, ChunkState},
    },
    tui::model::App,
};
use chrono::Datelike;
use std::fmt::Write;

/// The active filter of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    needle: String,
    only_bad: bool,
}

impl Filter {
    /// The filter of this operator.
    pub fn of(app: &App) -> Self {
        Self {
            needle: app.filter.trim().to_lowercase(),
            only_bad: app.only_bad,
        }
    }

    /// Whether anything is filtered at all.
    pub fn is_on(&self) -> bool {
        self.only_bad || !self.needle.is_empty()
    }

    /// What is said about it in the calendar's title.
    pub fn words(&self) -> String {
        match (self.only_bad, self.needle.is_empty()) {
            (true, true) => "only failed and quarantined".to_owned(),
            (true, false) => format!("failed and quarantined, /{}", self.needle),
            (false, _) => format!("/{}", self.needle),
        }
    }

    /// Whether a chunk is shown: by its id, its state's word, its marks, or what its last attempt said.
    pub fn shows(&self, chunk: &Chunk) -> bool {
        if self.only_bad && !matches!(chunk.state, ChunkState::Failed | ChunkState::Quarantined) {
            return false;
        }
        let needle = self.needle.as_str();
        if needle.is_empty() || chunk.state.word().starts_with(needle) {
            return true;
        }
        let has = |text: &str| contains(text, needle);
        // Writing a date costs more than all else here, so it is done only for what can be part of one.
        if needle
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b't'))
            && in_id(chunk.id, needle)
        {
            return true;
        }
        let failure = chunk.last().and_then(|a| a.failure.as_ref());
        failure.is_some_and(|f| f.class.word().contains(needle) || has(&f.message))
            || chunk.last().is_some_and(|a| a.executor.as_str().contains(needle))
            || chunk.why.as_deref().is_some_and(has)
            || chunk
                .mark
                .as_ref()
                .is_some_and(|m| has(&m.by.name) || m.reason.as_deref().is_some_and(has))
    }
}

/// Whether a small-letter needle is in a text of any case. Without an allocation for ASCII, which nearly all is.
fn contains(text: &str, needle: &str) -> bool {
    if text.is_ascii() && needle.is_ascii() {
        let needle = needle.as_bytes();
        let windows = text.as_bytes().windows(needle.len().max(1));
        return windows.into_iter().any(|w| w.eq_ignore_ascii_case(needle));
    }
    text.to_lowercase().contains(needle)
}

fn in_id(id: ChunkId, needle: &str) -> bool {
    let mut text = String::with_capacity(24);
    let (y, m, d) = (id.date.year(), id.date.month(), id.date.day());
    let written = match id.hour {
        None => write!(text, "{y:04}-{m:02}-{d:02}"),
        Some(_) => write!(text, "{id}"),
    };
    written.is_ok() && contains(&text, needle)
}
