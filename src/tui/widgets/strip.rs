//! A value over time in one row: it is written where it changes, so that cause and effect are read in one column.

use super::canvas::Canvas;
use super::fit::columns;
use ratatui::style::Style;

/// One value and from which column of the strip on it holds.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub column: u16,
    pub text: String,
    /// The value's style, and that of the line after it.
    pub value: Style,
    pub line: Style,
}

/// Draws the steps from `x` on, `width` columns, in row `y`. Steps are in the order of time; where two would touch,
/// and be read as one number, the newer one wins, because what holds now must be readable.
pub(crate) fn draw(canvas: &mut Canvas<'_>, x: u16, y: u16, width: u16, steps: &[Step]) {
    let rule = canvas.look.glyphs.rule;
    for (i, step) in steps.iter().enumerate() {
        let until = steps.get(i + 1).map_or(width, |next| next.column.min(width));
        for column in step.column.min(width)..until {
            canvas.dot(x + column, y, rule, step.line);
        }
    }
    // One more than there are: the newest value may end at the strip's end, any other one at a column of its line.
    let mut free = width + 1;
    for step in steps.iter().rev() {
        let wide = columns(&step.text);
        // A value that changed in the last columns is moved left to stay whole.
        let column = step.column.min(width.saturating_sub(wide));
        if wide > 0 && column + wide < free {
            canvas.put(x + column, y, x + column + wide, &step.text, step.value);
            free = column;
        }
    }
}
