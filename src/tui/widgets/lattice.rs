//! A cell of a heatmap over time, in the lag ramp: a square of the lattice, or one character where squares or the
//! colours to tell them apart are missing.

use super::canvas::Canvas;
use crate::{
    domain::state::ChunkState,
    tui::theme::{Level, Look, Token},
};
use ratatui::style::{Modifier, Style};

/// What a cell says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heat {
    /// Nobody asked then.
    Unasked,
    /// Others were seen then, and this was not.
    Gap,
    /// It was asked, and had no number.
    Unknown,
    /// A step of the lag ramp.
    Step(usize),
}

/// How many columns a cell takes: two where it is a square.
pub(crate) fn pitch(look: &Look) -> u16 {
    if look.glyphs.is_full() && tells_steps_apart(look) {
        2
    } else {
        1
    }
}

/// Whether the colours alone say which step it is. Of sixteen a terminal's owner may have made anything.
const fn tells_steps_apart(look: &Look) -> bool {
    matches!(look.level, Level::X256 | Level::True)
}

/// The signs of a cell and their style.
pub(crate) fn signs(look: &Look, heat: Heat) -> ([char; 2], Style) {
    let glyphs = &look.glyphs;
    match heat {
        Heat::Unasked => ([' '; 2], Style::new()),
        Heat::Gap => ([glyphs.no_data; 2], look.ink(Token::Line)),
        Heat::Unknown => ([' ', '?'], look.bold(Token::Warn)),
        Heat::Step(step) => {
            let style = look.lag(step);
            match (pitch(look), tells_steps_apart(look)) {
                (2, _) => (glyphs.cell(ChunkState::Done), style),
                (_, true) => ([' ', glyphs.narrow(ChunkState::Done)], style),
                (_, false) => {
                    let sign = glyphs.lag.get(step).or(glyphs.lag.last()).copied();
                    ([' ', sign.unwrap_or('@')], style)
                }
            }
        }
    }
}

/// Draws a cell at (`x`, `y`). It is [`pitch`] columns wide.
pub(crate) fn draw(canvas: &mut Canvas<'_>, x: u16, y: u16, heat: Heat) {
    if heat == Heat::Unasked {
        return;
    }
    let ([left, right], style) = signs(canvas.look, heat);
    if pitch(canvas.look) == 2 {
        canvas.dot(x, y, left, style.remove_modifier(Modifier::BOLD));
        canvas.dot(x + 1, y, right, style);
    } else {
        canvas.dot(x, y, right, style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::{glyphs::GlyphSet, theme::LAG_STEPS};
    use std::collections::BTreeSet;

    /// Without colour, and with sixteen of somebody's own, each step, a gap and no number are another sign.
    #[test]
    fn what_colour_cannot_tell_is_told_by_the_sign() {
        for (level, set) in [
            (Level::None, GlyphSet::Full),
            (Level::None, GlyphSet::Ascii),
            (Level::Ansi16, GlyphSet::Full),
            (Level::Ansi16, GlyphSet::Narrow),
            (Level::None, GlyphSet::Narrow),
        ] {
            let look = Look::new("dark", level, set).unwrap();
            let all = (0..LAG_STEPS).map(Heat::Step).chain([Heat::Gap, Heat::Unknown]);
            let signs: BTreeSet<char> = all.map(|h| signs(&look, h).0[1]).collect();
            assert_eq!(signs.len(), LAG_STEPS + 2, "{level:?} {set:?}");
            assert_eq!(pitch(&look), 1);
        }
    }

    #[test]
    fn with_colours_a_cell_is_a_square_and_each_step_has_its_own() {
        let look = Look::new("dark", Level::True, GlyphSet::Full).unwrap();
        assert_eq!(pitch(&look), 2);
        let colours: BTreeSet<String> = (0..LAG_STEPS)
            .map(|step| format!("{:?}", signs(&look, Heat::Step(step)).1.fg))
            .collect();
        assert_eq!(colours.len(), LAG_STEPS);
        assert_ne!(
            signs(&look, Heat::Unknown).0,
            signs(&look, Heat::Step(0)).0,
            "no number never looks like a good one"
        );
    }
}
