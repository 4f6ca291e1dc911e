//! The last two rows: what is under the cursor, and which keys do something here.

use super::{
    chunk_words::{date, reason},
    numbers::{clock, of},
    scene::Scene,
    sentences::clauses,
};
use crate::{
    domain::state::ChunkState,
    tui::{
        model::Layer,
        theme::Token,
        widgets::{
            canvas::{Canvas, Piece, p, width},
            fit::columns,
        },
    },
};
use ratatui::layout::{Position, Rect};

/// Rows that the footer takes.
pub(super) const ROWS: u16 = 2;

/// Draws both rows at the bottom of `area`. Returns where text is being typed.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) -> Option<Position> {
    if area.height == 0 {
        return None;
    }
    let keys_y = area.bottom() - 1;
    canvas.clear(
        Rect {
            y: keys_y,
            height: 1,
            ..area
        },
        Token::Surface,
    );
    keys(canvas, keys_y, area, scene);
    if area.height < 2 {
        return None;
    }
    let row = Rect {
        y: keys_y - 1,
        height: 1,
        ..area
    };
    canvas.clear(row, Token::Bg);
    prompt(canvas, row, scene).or_else(|| {
        cursor_line(canvas, row, scene);
        None
    })
}

/// Bold key, muted verb; dropped from the right, but the last two of the table stay longest.
fn keys(canvas: &mut Canvas<'_>, y: u16, area: Rect, scene: &Scene<'_>) {
    let look = scene.look;
    let item = |(key, verb): &(String, String)| {
        vec![
            p(key.clone(), look.bold(Token::Accent)),
            p(format!(" {verb}"), look.ink(Token::Muted)),
        ]
    };
    let mut items: Vec<Vec<Piece<'_>>> = scene.hints.keys.iter().map(item).collect();
    let (left, end) = (area.x + 1, area.right().saturating_sub(1));
    let room = end.saturating_sub(left);
    let total = |items: &[Vec<Piece<'_>>]| items.iter().map(|i| width(i) + 2).sum::<u16>().saturating_sub(2);
    while items.len() > 2 && (total(&items) > room || (items.len() > 11 && area.width < 200)) {
        items.remove(items.len() - 3);
    }
    canvas.items(left, y, end, 2, &items);
}

fn cursor_line(canvas: &mut Canvas<'_>, row: Rect, scene: &Scene<'_>) {
    let look = scene.look;
    let (x, y, end) = (row.x + 1, row.y, row.right());
    if scene.app.quit_asked.is_some() {
        let text = "ctrl-c again within 2 s leaves the screen; the work goes on without it";
        canvas.put(x, y, end, text, look.bold(Token::Warn));
        return;
    }
    let Some(text) = scene.said() else {
        under_cursor(canvas, row, scene, false);
        return;
    };
    let said = p(text, look.bold(Token::Text));
    let after = if scene.app.layers.is_empty() {
        under_cursor(canvas, row, scene, true) + 2
    } else {
        x
    };
    if after > x + 2 && after + columns(text) < end {
        canvas.right(after, y, end - 1, &[said]);
    } else {
        // It is longer than what is left beside the day. The next key brings the day back.
        canvas.clear(row, Token::Bg);
        canvas.pieces(x, y, end, &[said]);
    }
}

/// The day or the selection under the cursor; `short`: without the reason. Returns the column after it.
fn under_cursor(canvas: &mut Canvas<'_>, row: Rect, scene: &Scene<'_>, short: bool) -> u16 {
    let look = scene.look;
    let (x, y, end) = (row.x + 1, row.y, row.right());
    let Some(backfill) = scene.backfill else { return x };
    if let Some(after) = selection_line(canvas, row, scene, short) {
        return after;
    }
    let chunk = scene.app.cursor.and_then(|id| backfill.chunk(id));
    let Some(chunk) = chunk else {
        match scene.app.cursor {
            Some(id) => {
                let text = format!("{id} is not part of this backfill any more");
                return canvas.put(x, y, end, &text, look.ink(Token::Warn));
            }
            None if short => return x,
            None => return uncertain_line(canvas, row, scene),
        }
    };
    let (why, unblock) = reason(chunk, scene);
    let date = date(backfill, chunk);
    let glyph = look.glyphs.narrow(chunk.state);
    let word = look.word(chunk.state);
    let gap = if row.width < 120 { " " } else { "  " };
    let day = [
        p(date, look.bold(Token::Bright)),
        p(
            format!(" {glyph} {}", chunk.state.word()),
            word.patch(look.bold(Token::Text).fg(word.fg.unwrap_or_default())),
        ),
    ];
    if short {
        return canvas.pieces(x, y, end, &day);
    }
    let room = end.saturating_sub(x + width(&day) + columns(gap));
    // What cannot be said to the end of a clause is cut, and what would help then gives way.
    let why = clauses(&why, |s| columns(s) <= room).to_owned();
    let left = room.saturating_sub(columns(&why));
    let unblock = clauses(&unblock, |s| columns(s) + 2 <= left);
    let [day, state] = day;
    let first = [
        day,
        state,
        p(gap, look.ink(Token::Text)),
        p(why, look.ink(Token::Text)),
    ];
    let more = vec![p(format!(". {unblock}"), look.ink(Token::Muted))];
    let more = if unblock.is_empty() {
        Vec::new()
    } else {
        vec![more]
    };
    canvas.and_items(x, y, end, &first, &more)
}

/// Without a cursor the line speaks of what is most urgent.
fn uncertain_line(canvas: &mut Canvas<'_>, row: Rect, scene: &Scene<'_>) -> u16 {
    let n = scene.n(ChunkState::Uncertain);
    let Some(backfill) = scene.backfill.filter(|_| n > 0) else {
        return row.x + 1;
    };
    let look = scene.look;
    let unit = backfill.spec.granularity.word();
    let uncertain = backfill.active().filter(|c| c.state == ChunkState::Uncertain);
    let seen = uncertain.map(|c| c.since).min();
    let since = seen.map_or_else(String::new, |t| {
        format!(" since {}", clock(t, scene.now, scene.zone))
    });
    let glyph = look.glyphs.narrow(ChunkState::Uncertain);
    let first = [
        p(format!("{} uncertain ", of(n, unit)), look.bold(Token::Bright)),
        p(glyph.to_string(), look.ink(Token::Warn)),
        p(
            format!(" no answer{since}; their slots stay taken."),
            look.ink(Token::Text),
        ),
    ];
    let more = p(
        " Nothing is resubmitted until an executor answers",
        look.ink(Token::Muted),
    );
    canvas.and_items(row.x + 1, row.y, row.right(), &first, &[vec![more]])
}

/// With a selection the line names it. `short`: only how much is selected.
fn selection_line(canvas: &mut Canvas<'_>, row: Rect, scene: &Scene<'_>, short: bool) -> Option<u16> {
    let selected = super::selection::Selected::of(scene)?;
    let look = scene.look;
    let unit = scene.backfill.map_or("chunk", |b| b.spec.granularity.word());
    let range = match (&selected.first, &selected.last) {
        (Some(a), Some(b)) if a == b => format!(" {a}"),
        (Some(a), Some(b)) => format!(" {a} .. {b}, both included"),
        _ => String::new(),
    };
    let lost = match selected.vanished {
        0 => String::new(),
        n => format!(". {} not part of it any more", of(n as u64, "mark")),
    };
    let first = [
        p(
            format!("{} selected", of(selected.total, unit)),
            look.bold(Token::Bright),
        ),
        p(range, look.ink(Token::Text)),
        p(lost, look.ink(Token::Warn)),
    ];
    if short {
        return Some(canvas.pieces(row.x + 1, row.y, row.right(), &first[..1]));
    }
    let more = vec![p(". Every action opens its plan first", look.ink(Token::Muted))];
    Some(canvas.and_items(row.x + 1, row.y, row.right(), &first, &[more]))
}

/// A one-line prompt in place of the cursor line.
fn prompt(canvas: &mut Canvas<'_>, row: Rect, scene: &Scene<'_>) -> Option<Position> {
    let zone = scene.zone.name();
    let (label, text, remark) = match scene.top()? {
        Layer::Date(text) => (
            "go to",
            text,
            format!("YYYY-MM-DD, {zone}; g again is the first day"),
        ),
        Layer::Filter(text) => (
            "filter",
            text,
            "date, state, cause, executor; empty shows all".to_owned(),
        ),
        Layer::Reason(text) => (
            "reason, optional",
            text,
            "enter records it, esc leaves it out".to_owned(),
        ),
        _ => return None,
    };
    let look = scene.look;
    canvas.clear(row, Token::Raised);
    let (y, end) = (row.y, row.right().saturating_sub(1));
    let x = canvas.put(row.x + 1, y, end, label, look.bold(Token::Accent)) + 1;
    let Some(said) = scene.said() else {
        return Some(input(canvas, x, y, end, text, &remark, scene));
    };
    // An answer stands where the question was asked, and what was typed gives way to it.
    let least = end.saturating_sub(columns(said) + 3).max(x + 12).min(end);
    let at = input(canvas, x, y, least, text, "", scene);
    canvas.put(at.x + 3, y, end, said, look.bold(Token::Warn));
    Some(at)
}

/// A text being typed, its end always in sight, and a remark after it where there is room.
pub(super) fn input(
    canvas: &mut Canvas<'_>,
    x: u16,
    y: u16,
    end: u16,
    text: &str,
    remark: &str,
    scene: &Scene<'_>,
) -> Position {
    let look = scene.look;
    let room = end.saturating_sub(x + 1);
    let mut shown = text;
    while columns(shown) > room {
        let mut chars = shown.chars();
        chars.next();
        shown = chars.as_str();
    }
    let after = canvas.put(x, y, end, shown, look.bold(Token::Text));
    canvas.dot(after, y, ' ', look.cursor());
    canvas.items(
        after + 3,
        y,
        end,
        0,
        &[vec![p(remark.to_owned(), look.ink(Token::Faint))]],
    );
    Position::new(after.min(end.saturating_sub(1)), y)
}
