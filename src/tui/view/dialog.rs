//! Dialogs that ask before the world changes: what will happen, what will not and why, with Cancel in focus.

mod buttons;
mod table;

use super::{
    header::is_production,
    numbers::{of, until},
    scene::Scene,
};
use crate::{
    plan::preview::Ask,
    tui::{
        model::PlanDialog,
        theme::{Level, Look, Token},
        update::select::is_chosen,
        widgets::{
            canvas::{Canvas, Piece, p},
            fit::{columns, wrap},
        },
    },
};
use ratatui::{
    layout::{Position, Rect},
    style::{Modifier, Style},
};

/// Columns of labels and values, counted from the bar.
pub(super) const LABEL: u16 = 3;
pub(super) const VALUE: u16 = 15;

/// One row of a dialog's body.
#[derive(Debug, Clone, Default)]
pub(super) struct Row<'a> {
    pub label: Option<Piece<'a>>,
    /// Pieces from the value column on; `indent` moves them.
    pub pieces: Vec<Piece<'a>>,
    pub indent: i16,
}

impl<'a> Row<'a> {
    pub fn blank() -> Self {
        Self::default()
    }

    pub fn new(label: Piece<'a>, pieces: Vec<Piece<'a>>) -> Self {
        Self {
            label: Some(label),
            pieces,
            indent: 0,
        }
    }

    pub fn more(pieces: Vec<Piece<'a>>) -> Self {
        Self {
            label: None,
            pieces,
            indent: 0,
        }
    }

    /// A row for each, the label at the first.
    pub fn all(label: &Piece<'a>, rows: impl IntoIterator<Item = Vec<Piece<'a>>>) -> Vec<Self> {
        let row = |(i, pieces)| match i {
            0 => Self::new(label.clone(), pieces),
            _ => Self::more(pieces),
        };
        rows.into_iter().enumerate().map(row).collect()
    }

    /// A sentence in as many rows as it needs, none wider than `room`.
    pub fn wrapped(label: &Piece<'a>, sentence: &str, room: u16, style: Style) -> Vec<Self> {
        let lines = wrap(sentence, room).into_iter();
        Self::all(label, lines.map(|line| vec![p(line, style)]))
    }

    /// What can be typed, each with what it means.
    pub fn grammar(look: &Look, lines: &[(String, &'static str)]) -> Vec<Self> {
        let line = |(says, means): &(String, &'static str)| {
            vec![
                p(format!("{says:<11}"), look.bold(Token::Accent)),
                p(*means, look.ink(Token::Muted)),
            ]
        };
        Self::all(&p("type", look.ink(Token::Muted)), lines.iter().map(line))
    }
}

/// A box on the screen with a title row, a body and a last part that is always visible.
pub(super) struct Sheet<'a> {
    pub title: Vec<Piece<'a>>,
    pub right: Vec<Piece<'a>>,
    pub body: Vec<Row<'a>>,
    pub last: Vec<Row<'a>>,
    /// Colour of the bar.
    pub bar: Token,
    pub width: u16,
}

impl Sheet<'_> {
    /// Draws the box in the middle of `area` over a dimmed screen. What was said last stands in its lowest row, where
    /// the operator looks. Returns where the box is and where `last` begins.
    pub fn draw(&self, canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) -> (Rect, u16) {
        dim(canvas, area);
        // A few columns left over at the sides would only be noise.
        let wide = if area.width < self.width + 6 {
            area.width
        } else {
            self.width
        };
        let body = self.body.len() as u16;
        let last = self.last.len() as u16;
        // Title, blank, body, blank, last, and one row of padding on both sides.
        let full = body + last + 5;
        let high = full.min(area.height);
        let at = Rect {
            x: area.x + (area.width - wide) / 2,
            y: area.y + area.height.saturating_sub(high + 1) / 2,
            width: wide,
            height: high,
        };
        canvas.clear(at, Token::Raised);
        let look = canvas.look;
        let bar = look.ink(self.bar);
        (at.top()..at.bottom()).for_each(|y| canvas.dot(at.x, y, look.glyphs.bar, bar));
        if look.level == Level::None {
            frame(canvas, at);
        }
        let end = at.right().saturating_sub(2);
        let tight = full > area.height;
        let mut y = at.y + u16::from(!tight);
        let right = canvas.right(at.x + LABEL, y, end, &self.right);
        canvas.pieces(at.x + LABEL, y, right.saturating_sub(2), &self.title);
        y += if tight { 1 } else { 2 };
        let last_y = at.bottom().saturating_sub(last + u16::from(!tight)).max(y);
        let room = usize::from(last_y.saturating_sub(y + u16::from(!tight)));
        for (i, row) in self.body.iter().enumerate().take(room) {
            if i + 1 == room && self.body.len() > room {
                let text = format!(
                    "{} not shown: enlarge the terminal",
                    of((self.body.len() - i) as u64, "row")
                );
                canvas.put(at.x + LABEL, y, end, &text, look.ink(Token::Warn));
                break;
            }
            self.row(canvas, at, y, end, row);
            y += 1;
        }
        for (i, row) in self.last.iter().enumerate() {
            let y = last_y + i as u16;
            if y < at.bottom() {
                self.row(canvas, at, y, end, row);
            }
        }
        if let Some(said) = scene.said() {
            let y = at.bottom().saturating_sub(1);
            let (x, gap) = (at.x + LABEL, format!(" {said} "));
            canvas.put(x.saturating_sub(1), y, end, &gap, look.bold(Token::Warn));
        }
        (at, last_y)
    }

    /// Where row `row` of the body was drawn in the box `at`; `None` where it had no room.
    pub fn body_row(&self, at: Rect, row: u16) -> Option<u16> {
        let (body, last) = (self.body.len() as u16, self.last.len() as u16);
        let tight = body + last + 5 > at.height;
        let y = at.y + if tight { 1 } else { 3 } + row;
        // Of a body that is cut the last row says so.
        let cut = tight && body + last + 1 > at.height;
        let end = at
            .bottom()
            .saturating_sub(last + u16::from(!tight) + u16::from(cut));
        (row < body && y < end).then_some(y)
    }

    fn row(&self, canvas: &mut Canvas<'_>, at: Rect, y: u16, end: u16, row: &Row<'_>) {
        let value = at.x + VALUE;
        if let Some(label) = &row.label {
            canvas.put(at.x + LABEL, y, end, &label.text, label.style);
        }
        canvas.pieces(value.saturating_add_signed(row.indent), y, end, &row.pieces);
    }
}

/// Everything behind a dialog: mixed towards the ground, bold off; with sixteen colours dim.
pub(super) fn dim(canvas: &mut Canvas<'_>, area: Rect) {
    let look = canvas.look;
    let mut cache: Vec<(ratatui::style::Color, ratatui::style::Color)> = Vec::with_capacity(32);
    let mut dimmed = |colour| match cache.iter().find(|(from, _)| *from == colour) {
        Some((_, to)) => *to,
        None => {
            let to = look.dimmed(colour);
            cache.push((colour, to));
            to
        }
    };
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            let Some(cell) = canvas.buf.cell_mut((x, y)) else {
                continue;
            };
            cell.modifier.remove(Modifier::BOLD);
            match look.level {
                Level::None => {}
                Level::Ansi16 => cell.modifier.insert(Modifier::DIM),
                Level::X256 | Level::True => {
                    cell.fg = dimmed(cell.fg);
                    cell.bg = dimmed(cell.bg);
                }
            }
        }
    }
}

/// Without colours a box needs an edge.
fn frame(canvas: &mut Canvas<'_>, at: Rect) {
    let style = Style::new();
    for x in at.left()..at.right() {
        for y in [at.top(), at.bottom() - 1] {
            let corner = x == at.left() || x + 1 == at.right();
            canvas.dot(x, y, if corner { '+' } else { '-' }, style);
        }
    }
    for y in at.top() + 1..at.bottom().saturating_sub(1) {
        canvas.dot(at.left(), y, '|', style);
        canvas.dot(at.right() - 1, y, '|', style);
    }
}

/// The colour of a class.
pub(super) const fn class(class: u8) -> Token {
    match class {
        0 | 1 => Token::Info,
        2 => Token::Warn,
        _ => Token::Bad,
    }
}

/// Draws a plan dialog. Returns where the phrase is being typed.
pub(super) fn plan(
    canvas: &mut Canvas<'_>,
    area: Rect,
    scene: &Scene<'_>,
    dialog: &PlanDialog,
) -> Option<Position> {
    let look = scene.look;
    let (text, muted, faint) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.ink(Token::Faint),
    );
    let preview = &dialog.preview;
    let unit = scene.backfill.map_or("chunk", |b| b.spec.granularity.word());
    let label = |t: &'static str| p(t, muted);
    let mut body: Vec<Row<'_>> = Vec::new();
    let will = preview.will.len() as u64;
    let most = area.height.saturating_sub(20).max(3);
    let theirs = scene.backfill.is_some_and(|b| b.spec.attach.is_some());
    body.extend(ways(scene, dialog));
    if will > 0 {
        let head = format!("{}, {}", of(will, unit), of(will, "attempt"));
        let what = if theirs || preview.class == 1 || preview.will.iter().all(|c| c.attempt == 0) {
            of(will, unit)
        } else {
            head
        };
        let mut pieces = vec![p(what, look.bold(Token::Bright))];
        if let Some(spec) = scene.backfill.map(|b| &b.spec) {
            // Case B05: dates mean nothing without their zone.
            pieces.push(p(format!("  dates of {}", spec.timezone.name()), faint));
        }
        body.push(Row::new(label(buttons::verb(dialog)), pieces));
        body.extend(table::will(scene, dialog, usize::from(most)));
        body.push(Row::blank());
    }
    if let Some(says) = whose(scene, dialog) {
        body.push(Row::new(label("these are"), vec![p(says, text)]));
        body.push(Row::blank());
    }
    let not = table::will_not(scene, dialog, usize::from(most));
    if !not.is_empty() {
        body.extend(not);
        body.push(Row::blank());
    }
    let room = 78u16.min(area.width).saturating_sub(VALUE + 4);
    for (name, value) in &preview.facts {
        body.extend(Row::wrapped(&label(name), value, room, text));
    }
    if !preview.facts.is_empty() {
        body.push(Row::blank());
    }
    body.extend(Row::wrapped(&label("same as"), &preview.same_as, room, text));
    // Of somebody else's backfill the picture is as old as the last look at its server.
    let seen = scene.backfill.and_then(|b| b.seen.as_ref()?.as_of);
    let age = until(scene.now - seen.unwrap_or(scene.feed.as_of));
    let stamp = format!(
        "plan {}, data {age} old; recomputed when you confirm",
        preview.digest
    );
    body.push(Row::more(vec![p(stamp, faint)]));
    if !dialog.changed.is_empty() {
        body.push(Row::blank());
        let warn = look.bold(Token::Warn);
        let lines = dialog.changed.iter().map(|line| vec![p(line.clone(), warn)]);
        body.extend(Row::all(&p("changed", warn), lines));
    }
    let sheet = Sheet {
        title: vec![p(preview.title.clone(), look.bold(Token::Bright))],
        right: place(scene),
        body,
        last: buttons::draw(scene, dialog, unit),
        bar: class(preview.class),
        width: 78,
    };
    let (at, last) = sheet.draw(canvas, area, scene);
    let typed = dialog.phrase.as_ref().map(|(_, typed)| typed)?;
    let x = at.x + VALUE + columns(typed);
    canvas.dot(x, last, ' ', look.cursor());
    Some(Position::new(x, last))
}

/// The ways to do it, where there are several, and how to choose.
fn ways<'a>(scene: &Scene<'_>, dialog: &PlanDialog) -> Vec<Row<'a>> {
    if dialog.ways.len() < 2 {
        return Vec::new();
    }
    let look = scene.look;
    let (key, muted) = (look.bold(Token::Accent), look.ink(Token::Muted));
    let row = |(i, (words, ask)): (usize, &(String, Ask))| {
        let here = *ask == dialog.ask;
        let sign = if here { look.glyphs.slot_used } else { ' ' };
        let ink = if here { look.bold(Token::Bright) } else { muted };
        Row {
            label: (i == 0).then(|| p("choose", muted)),
            pieces: vec![p(format!("{sign} "), key), p(words.clone(), ink)],
            indent: -2,
        }
    };
    let mut rows: Vec<Row<'a>> = dialog.ways.iter().enumerate().map(row).collect();
    let (keys, do_so) = if dialog.scrolls_days() {
        ("tab", " goes back to choosing; up and down go through the days")
    } else {
        ("up down", " chooses; the plan below is of the chosen one")
    };
    rows.push(Row::more(vec![p(keys, key), p(do_so, look.ink(Token::Faint))]));
    rows.push(Row::blank());
    rows
}

/// Without a selection a re-run of the failed is about all of them, wherever the cursor is.
fn whose(scene: &Scene<'_>, dialog: &PlanDialog) -> Option<String> {
    let (Ask::Rerun(_, true), Some(backfill)) = (&dialog.ask, scene.backfill) else {
        return None;
    };
    if is_chosen(scene.app) || dialog.preview.will.is_empty() {
        return None;
    }
    let among = |id| dialog.preview.will.iter().any(|c| c.chunk == id);
    let cursor = scene.app.cursor.and_then(|id| backfill.chunk(id));
    let all = if backfill.spec.attach.is_some() {
        "all that failed"
    } else {
        "all in the order"
    };
    Some(match cursor.filter(|c| !among(c.id)) {
        None => all.to_owned(),
        Some(chunk) => format!("{all}; {} under the cursor is {}", chunk.id, chunk.state.word()),
    })
}

/// Environment and executor, named in every dialog.
pub(super) fn place<'a>(scene: &Scene<'_>) -> Vec<Piece<'a>> {
    let look = scene.look;
    let Some(spec) = scene.backfill.map(|b| &b.spec) else {
        return Vec::new();
    };
    let mut pieces = Vec::new();
    if let Some(environment) = &spec.environment {
        let token = if is_production(environment) {
            Token::Warn
        } else {
            Token::Text
        };
        pieces.push(p(format!("{}  ", environment.to_uppercase()), look.bold(token)));
    }
    pieces.push(p(spec.executor.to_string(), look.ink(Token::Text)));
    pieces
}
