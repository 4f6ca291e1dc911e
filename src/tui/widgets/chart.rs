//! A filled curve over time with thresholds: in braille where it may be used, else in the four levels `_ . - '`.

use super::canvas::Canvas;
use ratatui::style::Style;

/// A threshold.
#[derive(Debug, Clone)]
pub(crate) struct Threshold {
    pub value: f64,
    /// Style of its line.
    pub line: Style,
    /// Style of data at its height and above, in columns that passed it.
    pub fill: Style,
    /// Whether its line is drawn.
    pub drawn: bool,
}

/// What is drawn.
pub(crate) struct Chart<'a> {
    /// One value for each dot column (two a cell), oldest first. `None` is no sample.
    pub values: &'a [Option<f64>],
    /// First dot column that belongs to the known past; before it nothing was asked and nothing is missing.
    pub known_from: usize,
    /// Predicted values, one for each dot column after the values.
    pub predicted: &'a [f64],
    /// Value at the top.
    pub top: f64,
    /// Lowest first.
    pub thresholds: &'a [Threshold],
    /// Below all thresholds.
    pub base: Style,
    /// Predicted points.
    pub points: Style,
    /// No data.
    pub gap: Style,
}

impl Chart<'_> {
    /// Levels a row has: dots, or the four ASCII heights.
    const LEVELS: u16 = 4;

    fn level(&self, value: f64, rows: u16) -> u16 {
        let all = f64::from(rows * Self::LEVELS);
        let level = (value / self.top.max(f64::MIN_POSITIVE) * all).round();
        // Anything above zero is seen, anything above the top fills the chart.
        let least = if value > 0.0 { 1.0 } else { 0.0 };
        level.clamp(least, all) as u16
    }

    /// The row, counted from the bottom, in which a value lies; `None` above the top, and of a chart without rows.
    pub fn row_of(&self, value: f64, rows: u16) -> Option<u16> {
        (rows > 0 && value <= self.top).then(|| self.level(value, rows).saturating_sub(1) / Self::LEVELS)
    }

    /// Draws into `width` columns and `rows` rows at (`x`, `y`).
    pub fn draw(&self, canvas: &mut Canvas<'_>, x: u16, y: u16, width: u16, rows: u16) {
        if rows == 0 || width == 0 {
            return;
        }
        let bottom = y + rows - 1;
        for threshold in self.thresholds.iter().filter(|t| t.drawn) {
            if let Some(row) = self.row_of(threshold.value, rows) {
                let rule = canvas.look.glyphs.rule;
                (0..width).for_each(|i| canvas.dot(x + i, bottom - row, rule, threshold.line));
            }
        }
        let now = self.values.len().div_ceil(2).min(usize::from(width));
        for cell in 0..now {
            let column = x + cell as u16;
            let pair = [self.value(2 * cell), self.value(2 * cell + 1)];
            if pair == [None, None] {
                if self.is_gap(cell) {
                    let shade = canvas.look.glyphs.no_data;
                    (0..rows).for_each(|row| canvas.dot(column, bottom - row, shade, self.gap));
                }
                continue;
            }
            for row in 0..rows {
                self.draw_cell(canvas, column, bottom - row, row, rows, pair);
            }
        }
        self.draw_points(canvas, x, bottom, width, rows);
    }

    fn value(&self, dot: usize) -> Option<f64> {
        self.values.get(dot).copied().flatten()
    }

    /// Only a gap longer than one cell is shaded; one lost sample is just no dot.
    fn is_gap(&self, cell: usize) -> bool {
        let empty = |c: usize| {
            2 * c >= self.known_from
                && 2 * c < self.values.len()
                && self.value(2 * c).is_none()
                && self.value(2 * c + 1).is_none()
        };
        empty(cell) && (empty(cell + 1) || (cell > 0 && empty(cell - 1)))
    }

    fn draw_cell(
        &self,
        canvas: &mut Canvas<'_>,
        x: u16,
        y: u16,
        row: u16,
        rows: u16,
        pair: [Option<f64>; 2],
    ) {
        let [left, right] = pair.map(|v| {
            let level = v.map_or(0, |v| self.level(v, rows));
            level.saturating_sub(row * Self::LEVELS)
        });
        if left.max(right) == 0 {
            return;
        }
        let glyph = if canvas.look.glyphs.is_full() {
            braille(left.min(Self::LEVELS), right.min(Self::LEVELS))
        } else {
            heights(left.max(right))
        };
        let highest = pair.into_iter().flatten().fold(0.0, f64::max);
        let style = self
            .thresholds
            .iter()
            .rev()
            .find(|t| highest >= t.value && self.row_of(t.value, rows).is_some_and(|r| r <= row))
            .map_or(self.base, |t| t.fill);
        canvas.dot(x, y, glyph, style);
    }

    /// Every second point of the predicted line.
    fn draw_points(&self, canvas: &mut Canvas<'_>, x: u16, bottom: u16, width: u16, rows: u16) {
        let start = self.values.len();
        for (i, value) in self.predicted.iter().enumerate().step_by(2) {
            let dot = start + i;
            let level = self.level(*value, rows);
            if level == 0 || dot / 2 >= usize::from(width) {
                continue;
            }
            let (row, inside) = ((level - 1) / Self::LEVELS, (level - 1) % Self::LEVELS);
            let glyph = if canvas.look.glyphs.is_full() {
                point(dot % 2 == 1, inside)
            } else {
                heights(inside + 1)
            };
            canvas.dot(x + (dot / 2) as u16, bottom - row, glyph, self.points);
        }
    }
}

const LEFT: [u8; 4] = [0x40, 0x04, 0x02, 0x01];
const RIGHT: [u8; 4] = [0x80, 0x20, 0x10, 0x08];

fn from_bits(bits: u8) -> char {
    char::from_u32(0x2800 + u32::from(bits)).unwrap_or(' ')
}

/// Two columns of dots filled from below.
fn braille(left: u16, right: u16) -> char {
    let fill = |dots: &[u8; 4], n: u16| dots.iter().take(usize::from(n)).fold(0, |sum, bit| sum | bit);
    from_bits(fill(&LEFT, left) | fill(&RIGHT, right))
}

/// One dot, counted from below.
fn point(right: bool, level: u16) -> char {
    let dots = if right { RIGHT } else { LEFT };
    from_bits(dots.get(usize::from(level)).copied().unwrap_or(0))
}

/// The four heights that ASCII has; below the top of the curve a column is filled.
fn heights(level: u16) -> char {
    match level {
        0 => ' ',
        1 => '_',
        2 => '.',
        3 => '-',
        4 => '\'',
        _ => ':',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::{
        glyphs::GlyphSet,
        theme::{Level, Look},
    };
    use ratatui::{buffer::Buffer, layout::Rect};

    fn drawn(set: GlyphSet, values: &[Option<f64>], known_from: usize, predicted: &[f64]) -> Vec<String> {
        let area = Rect::new(0, 0, 6, 2);
        let mut buf = Buffer::empty(area);
        let look = Look::new("dark", Level::None, set).unwrap();
        let plain = Style::new();
        let soft = Threshold {
            value: 6.0,
            line: plain,
            fill: plain,
            drawn: true,
        };
        let chart = Chart {
            values,
            known_from,
            predicted,
            top: 8.0,
            thresholds: &[soft],
            base: plain,
            points: plain,
            gap: plain,
        };
        let mut canvas = Canvas {
            buf: &mut buf,
            look: &look,
            clip: area,
        };
        chart.draw(&mut canvas, 0, 0, 6, 2);
        (0..2)
            .map(|y| (0..6).map(|x| buf[(x, y)].symbol().to_owned()).collect())
            .collect()
    }

    #[test]
    fn each_dot_is_one_eighth_of_the_top_and_the_threshold_lies_under_the_data() {
        let values = [1.0, 2.0, 4.0, 5.0, 8.0, 8.0].map(Some);
        assert_eq!(drawn(GlyphSet::Full, &values, 0, &[]), ["╌⢀⣿╌╌╌", "⣠⣿⣿   "]);
    }

    #[test]
    fn ascii_has_four_heights_a_row() {
        let values = [1.0, 1.0, 3.0, 3.0, 4.0, 5.0].map(Some);
        assert_eq!(drawn(GlyphSet::Ascii, &values, 0, &[]), ["--_---", "_-:   "]);
    }

    #[test]
    fn one_lost_sample_is_a_hole_and_a_gap_is_shaded_over_the_full_height() {
        let v = Some(1.0);
        let lost = [v, v, None, None, v, v];
        assert_eq!(drawn(GlyphSet::Full, &lost, 0, &[])[1], "⣀ ⣀   ");
        let gap = [v, v, None, None, None, None, None, None];
        assert_eq!(drawn(GlyphSet::Full, &gap, 0, &[]), ["╌░░░╌╌", "⣀░░░  "]);
        let young = [None, None, None, None, v, v];
        assert_eq!(
            drawn(GlyphSet::Full, &young, 4, &[])[1],
            "  ⣀   ",
            "before the first sample nothing is missing"
        );
    }

    #[test]
    fn zero_is_drawn_as_nothing_and_little_as_one_dot() {
        assert_eq!(
            drawn(GlyphSet::Full, &[Some(0.0), Some(0.001)], 0, &[])[1],
            "⢀     "
        );
    }

    #[test]
    fn a_prediction_is_every_second_dot() {
        let lines = drawn(
            GlyphSet::Full,
            &[Some(4.0), Some(4.0)],
            0,
            &[3.0, 2.5, 2.0, 1.5, 1.0],
        );
        assert_eq!(lines[1], "⣿⠂⠄⡀  ");
    }
}
