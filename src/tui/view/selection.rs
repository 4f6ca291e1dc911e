//! What is marked or inside the range, counted by state.

use super::{calendar::last_day, numbers::count, scene::Scene};
use crate::{
    domain::{
        ids::ChunkId,
        state::{Backfill, Chunk, ChunkState},
    },
    tui::{
        theme::Token,
        widgets::canvas::{Canvas, p},
    },
};
use chrono::NaiveDate;
use ratatui::layout::Rect;

/// A selection.
pub(super) struct Selected {
    pub total: u64,
    pub first: Option<NaiveDate>,
    pub last: Option<NaiveDate>,
    pub counts: [u64; ChunkState::COUNT],
    /// Marks whose chunk is not there any more (case S15).
    pub vanished: usize,
}

impl Selected {
    /// `None` when nothing is selected.
    pub fn of(scene: &Scene<'_>) -> Option<Self> {
        let backfill = scene.backfill?;
        let app = scene.app;
        if app.marks.is_empty() && app.range_from.is_none() {
            return None;
        }
        let range = app.range_from.zip(app.cursor).and_then(|(a, b)| {
            let (a, b) = (backfill.position(a)?, backfill.position(b)?);
            Some(a.min(b)..=a.max(b))
        });
        let mut this = Self {
            total: 0,
            first: None,
            last: None,
            counts: [0; ChunkState::COUNT],
            vanished: 0,
        };
        let mut ends = None;
        for position in range.clone().into_iter().flatten() {
            this.add(backfill, position, &mut ends);
        }
        for id in &app.marks {
            let position = id.parse::<ChunkId>().ok().and_then(|id| backfill.position(id));
            match position {
                None => this.vanished += 1,
                Some(position) if range.as_ref().is_some_and(|r| r.contains(&position)) => {}
                Some(position) => this.add(backfill, position, &mut ends),
            }
        }
        if let Some((first, last)) = ends {
            this.first = Some(first.id.date);
            this.last = Some(last_day(backfill, last));
        }
        Some(this)
    }

    fn add<'a>(
        &mut self,
        backfill: &'a Backfill,
        position: usize,
        ends: &mut Option<(&'a Chunk, &'a Chunk)>,
    ) {
        let Some(chunk) = backfill.chunks.get(position) else {
            return;
        };
        self.total += 1;
        self.counts[chunk.state as usize] += 1;
        let (first, last) = ends.unwrap_or((chunk, chunk));
        // Only the two ends are turned into civil dates of their zone: that costs more than all the rest.
        *ends = Some((
            if chunk.id.date < first.id.date {
                chunk
            } else {
                first
            },
            if chunk.interval.end > last.interval.end {
                chunk
            } else {
                last
            },
        ));
    }
}

/// The panel: counts by state at the left, what can be done at the right.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) -> bool {
    let Some(selected) = Selected::of(scene) else {
        return false;
    };
    if area.height < 3 {
        return false;
    }
    let look = scene.look;
    canvas.clear(area, Token::Raised);
    for y in area.top()..area.bottom() {
        canvas.dot(area.x, y, look.glyphs.bar, look.ink(Token::Accent));
    }
    let (x, end) = (area.x + 2, area.right().saturating_sub(2));
    canvas.put(x, area.y, end, "SELECTED", look.bold(Token::Muted));
    if let (Some(first), Some(last)) = (selected.first, selected.last) {
        canvas.right(
            x + 10,
            area.y,
            end,
            &[p(
                format!("{first} .. {}", last.format("%m-%d")),
                look.ink(Token::Text),
            )],
        );
    }
    let rows = ChunkState::ALL
        .into_iter()
        .filter(|s| selected.counts[*s as usize] > 0);
    let mut states: Vec<ChunkState> = rows.collect();
    states.sort_by_key(|s| std::cmp::Reverse(selected.counts[*s as usize]));
    let from = area.y + 2;
    for (i, state) in states.into_iter().enumerate() {
        let y = from + i as u16;
        if y >= area.bottom() {
            break;
        }
        let glyph = look.glyphs.narrow(state).to_string();
        canvas.put(x, y, end, &glyph, look.word(state));
        canvas.put(x + 2, y, end, state.word(), look.ink(Token::Text));
        let n = count(selected.counts[state as usize]);
        canvas.right(x + 2, y, (x + 17).min(end), &[p(n, look.bold(Token::Text))]);
    }
    for (i, (key, verb)) in scene.hints.acting().enumerate() {
        let y = from + i as u16;
        if y >= area.bottom() || x + 20 >= end {
            break;
        }
        let after = canvas.put(x + 20, y, end, key, look.bold(Token::Accent));
        canvas.put(after + 1, y, end, verb, look.ink(Token::Muted));
    }
    true
}
