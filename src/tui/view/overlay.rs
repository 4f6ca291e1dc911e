//! Layers that ask or explain: the limit, why, the palette.

mod law;
mod limit;

pub(super) use law::line as law_line;

use super::{
    chunk_words::{date, reason},
    dialog::{LABEL, Row, Sheet, VALUE, class, place},
    end,
    footer::input,
    numbers::{clock, delta, duration},
    scene::Scene,
    sentences::{allowed, clauses, why},
};
use crate::{
    plan::eta::Eta,
    tui::{
        theme::Token,
        update::{Limit, limit_of, read_limit},
        widgets::{
            canvas::{Canvas, Piece, p},
            fit::{columns, wrap},
        },
    },
};
use ratatui::layout::{Position, Rect};

/// The limit: what holds now, what is typed, and what that would change.
pub(super) fn throttle(
    canvas: &mut Canvas<'_>,
    area: Rect,
    scene: &Scene<'_>,
    typed: &str,
) -> Option<Position> {
    let backfill = scene.backfill?;
    if backfill.spec.attach.is_some() {
        return limit::draw(canvas, area, scene, backfill, typed);
    }
    let look = scene.look;
    let (text, muted, bright) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.bold(Token::Bright),
    );
    let label = |t: &'static str| p(t, muted);
    let now = allowed(backfill, scene.now);
    let max = backfill.spec.max_limit;
    let running = backfill.running_weight();
    let mut body = vec![Row::new(
        label("now"),
        vec![
            p(format!("limit {}", now.value), bright),
            p(format!(", running {running}, max_limit {max}"), muted),
        ],
    )];
    let room = 78u16.min(area.width.saturating_sub(2)).saturating_sub(VALUE + 3);
    let why = why(scene.feed, backfill, scene.now);
    body.extend(Row::wrapped(&label("why"), &why, room, text));
    if let Some((cap, mark)) = &backfill.cap {
        let says = format!("{cap}, set by {}", mark.by.name);
        body.push(Row::new(label("cap"), vec![p(says, text)]));
    }
    if let Some((force, mark)) = &backfill.force {
        let until = clock(force.until, scene.now, scene.zone);
        let says = format!("{} until {until}, by {}", force.limit, mark.by.name);
        body.push(Row::new(label("force"), vec![p(says, text)]));
    }
    body.extend(law::rows(scene, backfill, room));
    body.push(Row::blank());
    let slider_row = body.len() as u16;
    let wanted = limit_of(typed).map(|n| n.min(max));
    body.push(Row::new(label("new limit"), Vec::new()));
    body.push(Row::more(slider(scene, wanted, now.value, max)));
    let n = max.clamp(1, 6);
    let lines = [
        (n.to_string(), "cap: never more than this, until it is taken away"),
        (
            format!("{n} for 30m"),
            "force: for so long, even if lag allows less",
        ),
        ("auto".to_owned(), "neither cap nor force: the controller alone"),
    ];
    body.extend(Row::grammar(look, &lines));
    body.push(Row::blank());
    let estimate = scene.estimate();
    let mut row = |name: &'static str, limit: u32, eta: Option<Eta>| {
        body.push(Row::new(p(name, muted), end::under(scene, limit, eta)));
    };
    row("ends now", now.value, estimate.map(|e| e.eta));
    if let Some(wanted) = wanted.filter(|n| *n > 0) {
        let asked = estimate
            .and_then(|e| e.what_if)
            .filter(|(limit, _)| *limit == wanted);
        row("ends then", wanted, asked.map(|(_, eta)| eta));
    }
    body.push(Row::blank());
    for line in wrap(&effect(typed, max, running, now.value), room) {
        body.push(Row::more(vec![p(line, muted)]));
    }
    let key = look.bold(Token::Accent);
    let last = vec![Row::more(vec![
        p("enter", key),
        p(" goes on   ", muted),
        p("esc", key),
        p(" leaves it as it is", muted),
    ])];
    let sheet = Sheet {
        title: vec![p("Limit of the running weight", bright)],
        right: place(scene),
        body,
        last,
        bar: class(1),
        width: 78,
    };
    let (at, _) = sheet.draw(canvas, area, scene);
    let y = sheet.body_row(at, slider_row)?;
    Some(input(
        canvas,
        at.x + VALUE,
        y,
        at.right() - 2,
        typed,
        if typed.is_empty() {
            "enter on nothing leaves it as it is"
        } else {
            ""
        },
        scene,
    ))
}

/// A row of signs up to the maximum: what is allowed now, and what is asked for.
fn slider<'a>(
    scene: &Scene<'_>,
    wanted: Option<u32>,
    now: u32,
    max: u32,
) -> Vec<crate::tui::widgets::canvas::Piece<'a>> {
    let look = scene.look;
    let shown = max.min(40);
    let upto = wanted.unwrap_or(now).min(shown);
    let sign = |glyph: char, n: u32| glyph.to_string().repeat(n as usize);
    vec![
        p(sign(look.glyphs.slot_used, upto), look.ink(Token::Info)),
        p(sign(look.glyphs.slot_free, shown - upto), look.ink(Token::Faint)),
        p(
            format!("  {} of {max}", wanted.unwrap_or(now)),
            look.ink(Token::Muted),
        ),
    ]
}

/// What the line does, before anything is sent.
fn effect(typed: &str, max: u32, running: u32, now: u32) -> String {
    match read_limit(typed) {
        None if typed.trim().is_empty() => "Nothing changes.".to_owned(),
        None => "This is none of the three: nothing changes.".to_owned(),
        Some(Limit::Cap(0) | Limit::Force(0, _)) => "A limit of 0 is a pause: esc, then p.".to_owned(),
        Some(Limit::Cap(n) | Limit::Force(n, _)) if n > max => {
            format!("max_limit is {max}: nothing changes.")
        }
        Some(Limit::Auto) => format!("The controller decides alone, up to max_limit {max}."),
        Some(Limit::Force(n, span)) => format!(
            "Raises it to {n} for {}, under any cap; not in a blackout, past hard, blind.",
            duration(delta(span))
        ),
        Some(Limit::Cap(n)) if n < running => {
            format!("No start until running weight is below {n}; what runs goes on: {running} of {n}.")
        }
        Some(Limit::Cap(n)) if n < now => format!("Lowers the limit {now} to {n} at once."),
        Some(Limit::Cap(n)) => format!("Allows up to {n}; lag may hold it lower."),
    }
}

/// Why the cursor's chunk is as it is, and what would change that.
pub(super) fn explain(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    let look = scene.look;
    let (text, muted, bright) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.bold(Token::Bright),
    );
    let width = 70u16.min(area.width.saturating_sub(2));
    let room = width.saturating_sub(VALUE + 3);
    let chunk = scene.app.cursor.and_then(|id| scene.backfill?.chunk(id));
    let (title, mut body) = match (scene.backfill, chunk) {
        (Some(backfill), Some(chunk)) => {
            let word = look.word(chunk.state);
            let sign = format!("  {} {}", look.glyphs.narrow(chunk.state), chunk.state.word());
            let title = vec![p(date(backfill, chunk), bright), p(sign, word)];
            let (why, unblock) = reason(chunk, scene);
            let mut body = Row::wrapped(&p("why", muted), &why, room, text);
            if !unblock.is_empty() {
                body.push(Row::blank());
                body.extend(Row::wrapped(&p("to change", muted), &unblock, room, text));
            }
            (title, body)
        }
        _ => (vec![p("No day is under the cursor", bright)], Vec::new()),
    };
    if let Some(backfill) = scene.backfill {
        body.push(Row::blank());
        body.extend(Row::wrapped(
            &p("the order", muted),
            &why(scene.feed, backfill, scene.now),
            room,
            muted,
        ));
    }
    let last = vec![Row::more(vec![
        p("esc", look.bold(Token::Accent)),
        p(" closes", muted),
    ])];
    let sheet = Sheet {
        title,
        right: place(scene),
        body,
        last,
        bar: Token::Info,
        width,
    };
    sheet.draw(canvas, area, scene);
}

/// How many rows are out of sight above and below, so that nobody takes a part of a list for all of it.
pub(super) fn hidden<'a>(scene: &Scene<'_>, above: usize, below: usize) -> Vec<Piece<'a>> {
    let look = scene.look;
    let (warn, muted) = (look.bold(Token::Warn), look.ink(Token::Muted));
    let part = |n: usize, glyph: char, word: &'static str| {
        let shown = vec![
            p(format!("   {glyph} {n}"), warn),
            p(format!(" more {word}"), muted),
        ];
        if n > 0 { shown } else { Vec::new() }
    };
    let mut pieces = part(below, look.glyphs.falling, "below");
    pieces.extend(part(above, look.glyphs.rising, "above"));
    pieces
}

/// The command line: what is typed, and the actions that match, chosen one marked.
pub(super) fn palette(
    canvas: &mut Canvas<'_>,
    area: Rect,
    scene: &Scene<'_>,
    typed: &str,
    chosen: usize,
) -> Option<Position> {
    let look = scene.look;
    let (text, muted, faint) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.ink(Token::Faint),
    );
    let rows = &scene.hints.palette;
    let room = usize::from(area.height.saturating_sub(9)).clamp(1, 12);
    let chosen = chosen.min(rows.len().saturating_sub(1));
    let first = chosen.saturating_sub(room - 1);
    let mut body = vec![Row::blank(), Row::blank()];
    let names = rows
        .iter()
        .map(|r| columns(&r.name))
        .max()
        .unwrap_or(0)
        .clamp(10, 26);
    for (i, row) in rows.iter().enumerate().skip(first).take(room) {
        let here = i == chosen;
        let mark = if here { look.glyphs.slot_used } else { ' ' };
        let ink = if row.why_not.is_some() { muted } else { text };
        let name = if here { look.bold(Token::Bright) } else { ink };
        let wide = usize::from(names);
        let mut pieces = vec![
            p(format!("{mark} "), look.bold(Token::Accent)),
            p(format!("{:<wide$}  ", row.name), name),
            p(format!("{:<8}", row.keys), look.ink(Token::Accent)),
        ];
        match &row.why_not {
            // Why it does nothing says more than what it would do.
            Some(why) => {
                let room = 75u16.saturating_sub(names + 12);
                pieces.push(p(clauses(why, |s| columns(s) <= room).to_owned(), faint));
            }
            None => pieces.push(p(row.verb.clone(), ink)),
        }
        body.push(Row {
            label: None,
            pieces,
            indent: LABEL as i16 - VALUE as i16,
        });
    }
    if rows.is_empty() {
        body.push(Row {
            label: Some(p("no action matches", muted)),
            ..Row::default()
        });
    }
    let key = look.bold(Token::Accent);
    let mut last = vec![
        p("enter", key),
        p(" does it   ", muted),
        p("esc", key),
        p(" closes", muted),
    ];
    last.extend(hidden(scene, first, rows.len().saturating_sub(first + room)));
    let selected = (!rows.is_empty()).then_some(2 + chosen - first);
    let sheet = Sheet {
        title: vec![p("Command", look.bold(Token::Bright))],
        right: match rows.len() {
            0 => place(scene),
            all => vec![p(format!("{} of {all}", chosen + 1), muted)],
        },
        width: 78,
        body,
        last: vec![Row {
            label: None,
            pieces: last,
            indent: LABEL as i16 - VALUE as i16,
        }],
        bar: Token::Accent,
    };
    let (at, last_y) = sheet.draw(canvas, area, scene);
    let top = if at.height < area.height {
        at.y + 3
    } else {
        at.y + 1
    };
    if let Some(selected) = selected {
        let y = top + selected as u16;
        if y < last_y {
            let row = Rect {
                x: at.x + 1,
                y,
                width: at.width - 1,
                height: 1,
            };
            canvas.restyle(row, look.ground(Token::RowSel));
        }
    }
    if top >= last_y {
        return None;
    }
    let x = canvas.put(at.x + LABEL, top, at.right() - 2, ": ", key);
    let remark = if typed.is_empty() {
        "type a part of a name, a key or a date; up and down choose"
    } else {
        ""
    };
    Some(input(canvas, x, top, at.right() - 2, typed, remark, scene))
}
