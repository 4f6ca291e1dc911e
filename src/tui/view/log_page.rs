//! A page of a log: its lines as they are, long ones going on in the next row.

use super::numbers::of;
use crate::tui::{
    theme::{Look, Token},
    widgets::{
        canvas::{Canvas, Piece, p},
        fit::{chop, columns},
    },
};
use ratatui::layout::Rect;
use std::collections::VecDeque;

/// A line as a page has it.
pub(super) struct Line {
    /// When it was written, with a blank after it.
    pub time: Option<String>,
    /// What it says, clean.
    pub text: String,
}

/// A row of a page.
struct Row<'a> {
    time: &'a str,
    indent: u16,
    text: &'a str,
}

impl Line {
    fn rows(&self, width: u16) -> impl DoubleEndedIterator<Item = Row<'_>> {
        let time = self.time.as_deref().unwrap_or("");
        let indent = columns(time);
        let pieces = chop(&self.text, width.saturating_sub(indent));
        pieces.into_iter().enumerate().map(move |(i, text)| Row {
            time: if i == 0 { time } else { "" },
            indent,
            text,
        })
    }
}

/// Draws the page whose last line is `back` lines from the end; where there are too few lines before that one, later
/// ones fill it. Returns how many lines come after it. `dropped` lines before the first are not kept.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, lines: &[Line], back: usize, dropped: u64) -> usize {
    let look = canvas.look;
    let height = usize::from(area.height);
    let last = lines.len() - back.min(lines.len().saturating_sub(1));
    let (before, after) = lines.split_at(last);
    let mut rows: VecDeque<Row<'_>> = VecDeque::new();
    for line in before.iter().rev() {
        if rows.len() >= height {
            break;
        }
        line.rows(area.width).rev().for_each(|row| rows.push_front(row));
    }
    let lost = format!("({} before this are not kept)", of(dropped, "line"));
    if rows.len() < height && dropped > 0 {
        rows.push_front(Row {
            time: "",
            indent: 0,
            text: &lost,
        });
    }
    rows.drain(..rows.len().saturating_sub(height));
    let mut more = after.iter();
    while rows.len() < height {
        let Some(line) = more.next() else { break };
        rows.extend(line.rows(area.width));
    }
    for (row, y) in rows.iter().zip(area.top()..area.bottom()) {
        canvas.put(area.x, y, area.right(), row.time, look.ink(Token::Faint));
        canvas.put(
            area.x + row.indent,
            y,
            area.right(),
            row.text,
            look.ink(Token::Text),
        );
    }
    more.len()
}

/// That there are newer lines below the page.
pub(super) fn newer<'a>(look: &Look, lines: usize) -> Piece<'a> {
    let text = format!("{} newer below", of(lines as u64, "line"));
    p(text, look.ink(Token::Warn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::{glyphs::GlyphSet, theme::Level};
    use ratatui::buffer::Buffer;

    fn page(texts: &[&str], height: u16, back: usize, dropped: u64) -> (Vec<String>, usize) {
        let area = Rect::new(0, 0, 8, height);
        let mut buf = Buffer::empty(area);
        let look = Look::new("dark", Level::None, GlyphSet::Ascii).unwrap();
        let line = |text: &&str| Line {
            time: Some("1 ".to_owned()),
            text: (*text).to_owned(),
        };
        let lines: Vec<Line> = texts.iter().map(line).collect();
        let mut canvas = Canvas {
            buf: &mut buf,
            look: &look,
            clip: area,
        };
        let newer = draw(&mut canvas, area, &lines, back, dropped);
        let row = |y| {
            (0..8)
                .map(|x| buf[(x, y)].symbol())
                .collect::<String>()
                .trim_end()
                .to_owned()
        };
        ((0..height).map(row).collect(), newer)
    }

    #[test]
    fn a_long_line_goes_on_in_the_next_row() {
        let (rows, newer) = page(&["old", "abcdefghij", "end"], 3, 0, 0);
        assert_eq!(
            (rows, newer),
            (vec!["1 abcdef".into(), "  ghij".into(), "1 end".into()], 0)
        );
    }

    #[test]
    fn a_page_that_is_scrolled_back_ends_with_its_line_and_says_how_many_come_after() {
        let texts = ["a", "b", "c", "d", "e"];
        assert_eq!(page(&texts, 2, 1, 0), (vec!["1 c".into(), "1 d".into()], 1));
        let top = page(&texts, 3, 4, 0);
        assert_eq!(
            top,
            (vec!["1 a".into(), "1 b".into(), "1 c".into()], 2),
            "a page is full at the top"
        );
        let top = page(&texts, 3, 99, 7);
        assert_eq!(top.0, ["(7 line~", "1 a", "1 b"]);
        assert_eq!(page(&[], 2, 3, 0).1, 0);
    }
}
