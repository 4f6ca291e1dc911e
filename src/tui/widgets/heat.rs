//! One day, or one week, of the calendar's lattice.

use super::canvas::Canvas;
use crate::{domain::state::ChunkState, tui::theme::Token};
use ratatui::style::{Modifier, Style};

/// What an operator did to a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    /// Nothing.
    Plain,
    /// The cursor stands on it.
    Cursor,
    /// It is marked or inside the selected range.
    Marked,
}

/// Draws a cell of `pitch` columns (1 or 2). `None` is outside the range: two blanks, never a dot.
pub(crate) fn cell(
    canvas: &mut Canvas<'_>,
    x: u16,
    y: u16,
    pitch: u16,
    state: Option<ChunkState>,
    face: Face,
) {
    let Some(state) = state else {
        if face == Face::Cursor {
            let style = canvas.look.cursor();
            (0..pitch).for_each(|i| canvas.dot(x + i, y, ' ', style));
        }
        return;
    };
    let look = canvas.look;
    let narrow = look.glyphs.narrow(state);
    let ground = match face {
        Face::Marked => look.ground(Token::Mark),
        _ => Style::new(),
    };
    if face == Face::Cursor {
        if pitch > 1 {
            canvas.dot(x, y, ' ', look.cursor());
        }
        canvas.dot(x + pitch - 1, y, narrow, look.cursor());
        return;
    }
    let glyph = match (look.tile(state), state) {
        // A square of its own shape, or ink where there is room for one column only.
        (_, ChunkState::Done) => look.ink(Token::DoneInk).patch(ground),
        (Some(tile), _) => tile.add_modifier(Modifier::BOLD),
        (None, ChunkState::Pending) => look.state_ink(state).patch(ground),
        (None, _) => look.state_ink(state).patch(ground).add_modifier(Modifier::BOLD),
    };
    if pitch == 1 {
        canvas.dot(x, y, narrow, glyph);
        return;
    }
    let [left, right] = look.glyphs.cell(state);
    match (state, look.glyphs.is_full()) {
        (ChunkState::Done, true) => {
            let square = match face {
                Face::Marked => glyph,
                _ => look.fill_ink(state),
            };
            canvas.dot(x, y, left, square);
            canvas.dot(x + 1, y, right, square);
        }
        (_, true) if look.tile(state).is_some() => {
            canvas.dot(x, y, left, look.fill_ink(state).patch(ground));
            canvas.dot(x + 1, y, right, glyph);
        }
        _ => {
            canvas.dot(x, y, left, glyph);
            canvas.dot(x + 1, y, right, glyph);
        }
    }
}
