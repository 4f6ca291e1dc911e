//! Dialogs that ask before the world changes: what will happen, what will not and why, with Cancel in focus.

use super::{
    header::is_production,
    numbers::{of, until},
    scene::Scene,
};
use crate::{
    plan::preview::{Ask, PreviewChunk},
    tui::{
        model::PlanDialog,
        theme::{Level, Token},
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

/// Days shown before the rest becomes a count.
const FEW: usize = 6;

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
    if will > 0 {
        let head = format!("{}, {}", of(will, unit), of(will, "attempt"));
        let what = if preview.class == 1 || preview.will.iter().all(|c| c.attempt == 0) {
            of(will, unit)
        } else {
            head
        };
        let mut pieces = vec![p(what, look.bold(Token::Bright))];
        if let Some(spec) = scene.backfill.map(|b| &b.spec) {
            // Case B05: dates mean nothing without their zone.
            pieces.push(p(format!("  dates of {}", spec.timezone.name()), faint));
        }
        body.push(Row::new(label(verb(dialog)), pieces));
        body.extend(will_table(scene, dialog, usize::from(most)));
        body.push(Row::blank());
    }
    if let Some(says) = whose(scene, dialog) {
        body.push(Row::new(label("these are"), vec![p(says, text)]));
        body.push(Row::blank());
    }
    let not = will_not(scene, dialog, usize::from(most));
    if !not.is_empty() {
        body.extend(not);
        body.push(Row::blank());
    }
    for (name, value) in &preview.facts {
        let lines = wrap(value, 78u16.min(area.width).saturating_sub(VALUE + 4));
        for (i, line) in lines.into_iter().enumerate() {
            let pieces = vec![p(line, text)];
            body.push(if i == 0 {
                Row::new(label(name), pieces)
            } else {
                Row::more(pieces)
            });
        }
    }
    if !preview.facts.is_empty() {
        body.push(Row::blank());
    }
    for (i, line) in wrap(&preview.same_as, 78u16.min(area.width).saturating_sub(VALUE + 4))
        .into_iter()
        .enumerate()
    {
        let pieces = vec![p(line, text)];
        body.push(if i == 0 {
            Row::new(label("same as"), pieces)
        } else {
            Row::more(pieces)
        });
    }
    let age = until(scene.now - scene.feed.as_of);
    let stamp = format!(
        "plan {}, data {age} old; recomputed when you confirm",
        preview.digest
    );
    body.push(Row::more(vec![p(stamp, faint)]));
    if !dialog.changed.is_empty() {
        body.push(Row::blank());
        for (i, line) in dialog.changed.iter().enumerate() {
            let pieces = vec![p(line.clone(), look.bold(Token::Warn))];
            body.push(if i == 0 {
                Row::new(p("changed", look.bold(Token::Warn)), pieces)
            } else {
                Row::more(pieces)
            });
        }
    }
    let sheet = Sheet {
        title: vec![p(preview.title.clone(), look.bold(Token::Bright))],
        right: place(scene),
        body,
        last: buttons(scene, dialog, unit),
        bar: class(preview.class),
        width: 78,
    };
    let (at, last) = sheet.draw(canvas, area, scene);
    let typed = dialog.phrase.as_ref().map(|(_, typed)| typed)?;
    let x = at.x + VALUE + columns(typed);
    canvas.dot(x, last, ' ', look.cursor());
    Some(Position::new(x, last))
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
    Some(match cursor.filter(|c| !among(c.id)) {
        None => "all in the order".to_owned(),
        Some(chunk) => format!(
            "all in the order; {} under the cursor is {}",
            chunk.id,
            chunk.state.word()
        ),
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

/// What happens to the listed chunks.
fn verb(dialog: &PlanDialog) -> &'static str {
    match dialog.ask {
        Ask::Skip(_) => "will skip",
        Ask::Stop(_) | Ask::Cancel => "will stop",
        _ => "will run",
    }
}

fn will_table<'a>(scene: &Scene<'_>, dialog: &PlanDialog, most: usize) -> Vec<Row<'a>> {
    let look = scene.look;
    let (text, muted, faint) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.ink(Token::Faint),
    );
    let all = &dialog.preview.will;
    // Where all lanes are normal, nothing is said about lanes.
    let lanes = all.iter().any(|c| c.lane != "normal");
    let room = if lanes { 16 } else { 25 };
    let cut =
        |text: &str, max: u16| crate::tui::widgets::fit::fit(text, max, look.glyphs.cut_off).into_owned();
    let row = |day: &str, last: &str, attempt: &str, profile: &str, lane: &str| {
        let (last, profile) = (pad(&cut(last, room), room + 1), pad(&cut(profile, 8), 9));
        let lane = if lanes { lane } else { "" };
        let row = format!("{day:<17}{last}{attempt:>7}  {profile}{lane}");
        row.trim_end().to_owned()
    };
    let mut rows = vec![Row::more(vec![p(
        row("day", "last attempt", "attempt", "profile", "lane"),
        faint,
    )])];
    let (skip, few) = match dialog.all_days {
        Some(first) => (first.min(all.len().saturating_sub(1)), most.max(FEW)),
        None if all.len() > FEW => (0, FEW - 1),
        None => (0, FEW),
    };
    // The day that the operator looks at comes first; the others keep the order of their starts.
    let here = |c: &&PreviewChunk| Some(c.chunk) == scene.app.cursor;
    let sorted = all.iter().filter(here).chain(all.iter().filter(|c| !here(c)));
    for chunk in sorted.skip(skip).take(few) {
        let state = scene.backfill.and_then(|b| b.chunk(chunk.chunk)).map(|c| c.state);
        let sign = state.map_or(' ', |s| look.glyphs.narrow(s));
        let ink = state.map_or(muted, |s| look.word(s));
        let day = match chunk.chunk.hour {
            None => chunk.chunk.date.format("%a %Y-%m-%d").to_string(),
            Some(_) => chunk.chunk.to_string(),
        };
        let attempt = if chunk.attempt == 0 {
            String::new()
        } else {
            chunk.attempt.to_string()
        };
        rows.push(Row {
            label: None,
            pieces: vec![
                p(format!("{sign} "), ink),
                p(row(&day, &chunk.last, &attempt, &chunk.profile, chunk.lane), text),
            ],
            indent: -2,
        });
    }
    let left = all.len().saturating_sub(skip + few);
    if left > 0 {
        let how = if dialog.all_days.is_some() {
            "below"
        } else {
            "tab lists them"
        };
        rows.push(Row::more(vec![p(format!("and {left} more, {how}"), muted)]));
    }
    rows
}

/// Blanks after a text, counted in columns.
fn pad(text: &str, to: u16) -> String {
    let blanks = to.saturating_sub(columns(text));
    format!("{text}{}", " ".repeat(usize::from(blanks)))
}

/// Those left alone, grouped by reason, most first.
fn will_not<'a>(scene: &Scene<'_>, dialog: &PlanDialog, most: usize) -> Vec<Row<'a>> {
    let look = scene.look;
    let (text, muted) = (look.ink(Token::Text), look.ink(Token::Muted));
    let unit = scene.backfill.map_or("chunk", |b| b.spec.granularity.word());
    let all = &dialog.preview.will_not;
    let mut rows: Vec<Row<'a>> = Vec::new();
    let label = |rows: &Vec<Row<'_>>| rows.is_empty().then(|| p("will not", muted));
    if dialog.all_days.is_some() {
        for (chunk, why) in all.iter().take(most) {
            let pieces = vec![p(format!("{chunk}  "), text), p(why.clone(), muted)];
            rows.push(Row {
                label: label(&rows),
                pieces,
                indent: 0,
            });
        }
        if all.len() > most {
            rows.push(Row::more(vec![p(
                format!("and {} more", all.len() - most),
                muted,
            )]));
        }
        return rows;
    }
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for (chunk, why) in all {
        match groups.iter_mut().find(|(w, _)| w == why) {
            Some((_, chunks)) => chunks.push(chunk.to_string()),
            None => groups.push((why, vec![chunk.to_string()])),
        }
    }
    groups.sort_by_key(|(_, chunks)| std::cmp::Reverse(chunks.len()));
    let hidden = groups.len().saturating_sub(5);
    for (why, chunks) in groups.into_iter().take(5) {
        let which = match chunks.as_slice() {
            [one] => format!("{one}, "),
            [first, .., last] if chunks.len() > 3 => format!("{first} .. {last}, "),
            few => format!("{}, ", few.join(", ")),
        };
        let pieces = vec![
            p(of(chunks.len() as u64, unit), look.bold(Token::Text)),
            p(format!("  {which}{why}"), muted),
        ];
        rows.push(Row {
            label: label(&rows),
            pieces,
            indent: 0,
        });
    }
    if hidden > 0 {
        rows.push(Row::more(vec![p(
            format!("and {hidden} more reasons, tab lists them"),
            muted,
        )]));
    }
    rows
}

/// Cancel in focus, then the acting key with verb and count.
fn buttons<'a>(scene: &Scene<'_>, dialog: &PlanDialog, unit: &str) -> Vec<Row<'a>> {
    let look = scene.look;
    let (text, muted, key) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.bold(Token::Accent),
    );
    if let Some(outcome) = &dialog.outcome {
        return vec![
            Row::more(vec![p(outcome.clone(), look.bold(Token::Bright))]),
            Row::more(vec![p("esc", key), p(" closes", muted)]),
        ];
    }
    let mut rows = Vec::new();
    let ready = match &dialog.phrase {
        Some((wanted, typed)) => {
            rows.push(Row::new(
                p("type", muted),
                vec![p(typed.clone(), look.bold(Token::Bright))],
            ));
            rows.push(Row::more(vec![p(
                format!("\"{wanted}\" to allow it"),
                if wanted == typed {
                    look.ink(Token::Ok)
                } else {
                    muted
                },
            )]));
            rows.push(Row::blank());
            wanted == typed
        }
        None => true,
    };
    let empty = dialog.preview.will.is_empty() && acts_on_chunks(dialog);
    let mut pieces = vec![p("  Cancel  ", look.cursor())];
    if empty {
        pieces.push(p("   nothing to do", muted));
    } else if !ready {
        pieces.push(p("   y ", muted));
        pieces.push(p(act(dialog, unit), muted));
        pieces.push(p(" after the phrase", muted));
    } else {
        pieces.push(p("   y", key));
        pieces.push(p(format!(" {}", act(dialog, unit)), text));
    }
    if !dialog.preview.will.is_empty() || !dialog.preview.will_not.is_empty() {
        pieces.push(p("   tab", key));
        pieces.push(p(
            if dialog.all_days.is_some() {
                " summary"
            } else {
                " every day"
            },
            muted,
        ));
    }
    rows.push(Row::more(pieces));
    rows.push(Row::more(vec![p("enter cancels", look.ink(Token::Faint))]));
    rows
}

fn acts_on_chunks(dialog: &PlanDialog) -> bool {
    matches!(
        dialog.ask,
        Ask::Rerun(..) | Ask::Skip(_) | Ask::Release(_) | Ask::Stop(_)
    )
}

/// The verb of the acting key, with the count again.
fn act(dialog: &PlanDialog, unit: &str) -> String {
    let n = of(dialog.preview.will.len() as u64, unit);
    match &dialog.ask {
        Ask::Rerun(..) => format!("run {n}"),
        Ask::Skip(_) => format!("skip {n}"),
        Ask::Release(_) => format!("release {n}"),
        Ask::Stop(_) => format!("stop {n}"),
        Ask::Resume => "resume".to_owned(),
        Ask::Cap(Some(cap)) => format!("cap at {cap}"),
        Ask::Cap(None) => "take the cap away".to_owned(),
        Ask::Force(limit, span) => {
            format!(
                "force {limit} for {}",
                super::numbers::duration(super::numbers::delta(*span))
            )
        }
        Ask::Act(action) => action.words(),
        Ask::Take(_, _, how) => how.word().to_owned(),
        Ask::Detach => "let go of it".to_owned(),
        Ask::Cancel => "cancel the whole order".to_owned(),
        Ask::StopSupervising => "stop supervising".to_owned(),
        Ask::StartSupervising => "start supervising".to_owned(),
    }
}
