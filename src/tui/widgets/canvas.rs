//! A place to draw on: a buffer, a look and a clip. Everything textual that reaches the terminal goes through here,
//! so this is where control characters of others end.

use super::fit::{columns, fit};
use crate::{
    domain::text::clean,
    tui::theme::{Look, Token},
};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};
use std::borrow::Cow;

/// A piece of text in one style.
#[derive(Debug, Clone)]
pub(crate) struct Piece<'a> {
    pub text: Cow<'a, str>,
    pub style: Style,
}

/// Short for a [`Piece`].
pub(crate) fn p<'a>(text: impl Into<Cow<'a, str>>, style: Style) -> Piece<'a> {
    Piece {
        text: text.into(),
        style,
    }
}

/// How many columns pieces take together.
pub(crate) fn width(pieces: &[Piece<'_>]) -> u16 {
    pieces
        .iter()
        .fold(0, |sum: u16, piece| sum.saturating_add(columns(&piece.text)))
}

/// Where a frame is drawn.
pub(crate) struct Canvas<'a> {
    pub buf: &'a mut Buffer,
    pub look: &'a Look,
    /// Nothing is drawn outside.
    pub clip: Rect,
}

impl Canvas<'_> {
    /// Gives a region a ground and empties it.
    pub fn clear(&mut self, area: Rect, ground: Token) {
        let style = self.look.ground(ground).patch(self.look.ink(Token::Text));
        let area = area.intersection(self.clip).intersection(self.buf.area);
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                if let Some(cell) = self.buf.cell_mut((x, y)) {
                    cell.reset();
                    cell.set_style(style);
                }
            }
        }
    }

    /// Changes the style of a region and leaves its text.
    pub fn restyle(&mut self, area: Rect, style: Style) {
        let area = area.intersection(self.clip);
        self.buf.set_style(area, style);
    }

    /// Draws a text from `x` on, cut before column `end`. Returns the column after it.
    pub fn put(&mut self, x: u16, y: u16, end: u16, text: &str, style: Style) -> u16 {
        let end = end.min(self.clip.right());
        if y < self.clip.top() || y >= self.clip.bottom() || x < self.clip.left() || x >= end {
            return x;
        }
        let text = if is_clean(text) {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(clean(text))
        };
        let text = fit(&text, end - x, self.look.glyphs.cut_off);
        let after = self
            .buf
            .set_stringn(x, y, text, usize::from(end - x), Style::new())
            .0;
        for column in x..after {
            self.own(column, y, style);
        }
        after
    }

    /// Gives a cell a style without what was bold or dim there before.
    fn own(&mut self, x: u16, y: u16, style: Style) {
        if let Some(cell) = self.buf.cell_mut((x, y)) {
            cell.modifier = Modifier::empty();
            cell.set_style(style);
        }
    }

    /// Draws pieces one after the other, cut before column `end`. Returns the column after them.
    pub fn pieces(&mut self, x: u16, y: u16, end: u16, pieces: &[Piece<'_>]) -> u16 {
        let mut x = x;
        for (i, piece) in pieces.iter().enumerate() {
            let rest = width(&pieces[i..]);
            if rest > end.saturating_sub(x) && columns(&piece.text) >= end.saturating_sub(x) {
                // The last column belongs to the mark, also if this piece alone would fill the room.
                let text = format!("{}  ", piece.text);
                return self.put(x, y, end, &text, piece.style);
            }
            x = self.put(x, y, end, &piece.text, piece.style);
        }
        x
    }

    /// Draws pieces so that they end before column `end`, not further left than `start`. Returns where they begin.
    pub fn right(&mut self, start: u16, y: u16, end: u16, pieces: &[Piece<'_>]) -> u16 {
        let x = end.saturating_sub(width(pieces)).max(start);
        self.pieces(x, y, end, pieces);
        x
    }

    /// One character.
    pub fn dot(&mut self, x: u16, y: u16, glyph: char, style: Style) {
        let inside =
            x >= self.clip.left() && x < self.clip.right() && y >= self.clip.top() && y < self.clip.bottom();
        if inside {
            if let Some(cell) = self.buf.cell_mut((x, y)) {
                cell.set_char(glyph);
            }
            self.own(x, y, style);
        }
    }

    /// Draws what must be there, cut before column `end` if need be, and after it whole items for which there is room:
    /// half of a word that could be left out is worse than none.
    pub fn and_items(
        &mut self,
        x: u16,
        y: u16,
        end: u16,
        first: &[Piece<'_>],
        more: &[Vec<Piece<'_>>],
    ) -> u16 {
        let after = self.pieces(x, y, end, first);
        self.items(after, y, end, 0, more)
    }

    /// Draws whole items with `gap` columns between them, and drops from the right what does not fit. Returns the
    /// column after the last one drawn.
    pub fn items(&mut self, x: u16, y: u16, end: u16, gap: u16, items: &[Vec<Piece<'_>>]) -> u16 {
        let mut after = x;
        for (i, item) in items.iter().enumerate() {
            let from = if i == 0 { x } else { after.saturating_add(gap) };
            if from.saturating_add(width(item)) > end {
                break;
            }
            after = self.pieces(from, y, end, item);
        }
        after
    }
}

/// Whether a text may be drawn as it is.
fn is_clean(text: &str) -> bool {
    text.bytes().all(|b| (0x20..0x7f).contains(&b)) || clean(text) == text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::{glyphs::GlyphSet, theme::Level};

    fn drawn(width: u16, draw: impl Fn(&mut Canvas<'_>)) -> String {
        let area = Rect::new(0, 0, width, 1);
        let mut buf = Buffer::empty(area);
        let look = Look::new("dark", Level::None, GlyphSet::Ascii).unwrap();
        draw(&mut Canvas {
            buf: &mut buf,
            look: &look,
            clip: area,
        });
        (0..width).map(|x| buf[(x, 0)].symbol().to_owned()).collect()
    }

    #[test]
    fn control_characters_of_others_are_drawn_as_text() {
        let line = drawn(12, |c| {
            c.put(0, 0, 12, "a\u{1b}[2Jb\u{202e}", Style::new());
        });
        assert_eq!(line, "a^[[2Jb<202~");
    }

    #[test]
    fn a_row_of_pieces_that_is_cut_says_so_once() {
        let line = drawn(8, |c| {
            c.pieces(
                0,
                0,
                8,
                &[
                    p("abcd", Style::new()),
                    p("efgh", Style::new()),
                    p("i", Style::new()),
                ],
            );
        });
        assert_eq!(line, "abcdefg~");
        let line = drawn(8, |c| {
            c.pieces(0, 0, 8, &[p("abcd", Style::new()), p("efgh", Style::new())]);
        });
        assert_eq!(line, "abcdefgh");
    }

    #[test]
    fn items_are_dropped_whole_and_from_the_right() {
        let items: Vec<Vec<Piece<'_>>> = ["one", "two", "three"].map(|t| vec![p(t, Style::new())]).into();
        assert_eq!(
            drawn(11, |c| {
                c.items(0, 0, 11, 2, &items);
            }),
            "one  two   "
        );
    }
}
