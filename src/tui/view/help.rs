//! Help: the keys of this place, what is urgent first, then what does not work here and why; and the legend.

use super::{
    dialog::{LABEL, Row, Sheet, VALUE},
    hints::Hints,
    overlay::hidden,
    scene::Scene,
};
use crate::{
    domain::state::ChunkState,
    tui::{
        theme::Token,
        widgets::{
            canvas::{Canvas, p, width},
            fit::{columns, wrap},
        },
    },
};
use ratatui::layout::Rect;

/// The widest box.
const MOST: u16 = 90;

/// A line of the help, before it has a style.
enum Line<'a> {
    Blank,
    Title(String),
    /// Keys where they begin, words, and whether it works.
    Key(&'a str, String, bool),
    Legend(bool, &'a [ChunkState]),
}

/// Where the words stand right of [`VALUE`], and how wide they may be.
fn columns_of(hints: &Hints, width: u16) -> (u16, u16) {
    let keys = hints.help.iter().map(|row| columns(&row.keys)).max();
    // Right of the longest keys, so that no key is covered.
    let indent = (LABEL + keys.unwrap_or(0).min(24) + 2).saturating_sub(VALUE);
    (indent, MOST.min(width).saturating_sub(VALUE + indent + 2))
}

/// How many lines there is room for.
fn room(height: u16) -> usize {
    usize::from(height.saturating_sub(8)).max(1)
}

/// The first line of the last page: there is nothing to scroll to beyond it.
pub fn last_first(hints: &Hints, width: u16, height: u16) -> usize {
    let (_, words) = columns_of(hints, width);
    lines(hints, words).len().saturating_sub(room(height))
}

/// Draws the lines from `first` on.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, first: usize) {
    let look = scene.look;
    let key = look.bold(Token::Accent);
    let (indent, words) = columns_of(scene.hints, area.width);
    let all = lines(scene.hints, words);
    let first = first.min(last_first(scene.hints, area.width, area.height));
    let mut body: Vec<Row<'_>> = all.iter().map(|line| row(line, scene)).collect();
    for row in &mut body {
        row.indent = i16::try_from(indent).unwrap_or(0);
    }
    let widest = body.iter().map(|row| VALUE + indent + width(&row.pieces)).max();
    body.drain(..first);
    let below = body.len().saturating_sub(room(area.height));
    body.truncate(room(area.height));
    let mut last = vec![p("esc", key), p(" closes", look.ink(Token::Muted))];
    let mut right = Vec::new();
    if below > 0 || first > 0 {
        last.extend([p("   j k", key), p(" scroll", look.ink(Token::Muted))]);
        last.extend(hidden(scene, first, below));
        let says = format!("{} .. {} of {}", first + 1, first + body.len(), all.len());
        right.push(p(says, look.ink(Token::Muted)));
    }
    let sheet = Sheet {
        title: vec![p("Keys here", look.bold(Token::Bright))],
        right,
        width: (widest.unwrap_or(0) + 3).clamp(50, MOST),
        body,
        last: vec![Row::more(last)],
        bar: Token::Info,
    };
    sheet.draw(canvas, area, scene);
}

/// Groups of what works, then what does not, then the legend.
fn lines(hints: &Hints, words: u16) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    let (works, not): (Vec<_>, Vec<_>) = hints.help.iter().partition(|row| row.why_not.is_none());
    let mut group = "";
    for row in works {
        if row.group != group {
            group = row.group;
            if !lines.is_empty() {
                lines.push(Line::Blank);
            }
            lines.push(Line::Title(group.to_uppercase()));
        }
        lines.extend(explained(&row.keys, &row.verb, words, true));
    }
    if !not.is_empty() {
        lines.extend([Line::Blank, Line::Title("NOT NOW".to_owned())]);
    }
    for row in not {
        let why = row.why_not.as_deref().unwrap_or_default();
        let says = format!("{}: {why}", row.verb);
        lines.extend(explained(&row.keys, &says, words, false));
    }
    lines.push(Line::Blank);
    let a_row = usize::from(words / 15).clamp(1, 4);
    let legend = STATES.chunks(a_row).enumerate();
    lines.extend(legend.map(|(i, states)| Line::Legend(i == 0, states)));
    lines
}

static STATES: [ChunkState; ChunkState::COUNT] = ChunkState::ALL;

/// Keys at the left, words at the right, on as many lines as they need.
fn explained<'a>(keys: &'a str, says: &str, words: u16, works: bool) -> impl Iterator<Item = Line<'a>> {
    let lines = wrap(says, words).into_iter().enumerate();
    lines.map(move |(i, line)| Line::Key(if i == 0 { keys } else { "" }, line, works))
}

fn row<'a>(line: &Line<'a>, scene: &Scene<'_>) -> Row<'a> {
    let look = scene.look;
    let (title, faint) = (look.bold(Token::Muted), look.ink(Token::Faint));
    match line {
        Line::Blank => Row::blank(),
        Line::Title(text) => Row::new(p(text.clone(), title), Vec::new()),
        Line::Key(keys, words, true) => Row::new(
            p(*keys, look.bold(Token::Accent)),
            vec![p(words.clone(), look.ink(Token::Text))],
        ),
        Line::Key(keys, words, false) => Row::new(p(*keys, faint), vec![p(words.clone(), faint)]),
        Line::Legend(first, states) => {
            let mut pieces = Vec::new();
            for state in *states {
                let glyph = look.glyphs.narrow(*state);
                let sign = look.tile(*state).filter(|_| *state != ChunkState::Done);
                pieces.push(p(glyph.to_string(), sign.unwrap_or(look.word(*state))));
                pieces.push(p(format!(" {:<13}", state.word()), look.ink(Token::Muted)));
            }
            Row::new(p(if *first { "LEGEND" } else { "" }, title), pieces)
        }
    }
}
