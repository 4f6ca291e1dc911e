//! The screen before there is anything to supervise.

use super::{numbers::until, scene::Scene};
use crate::{
    domain::state::ChunkState,
    tui::{
        action::{Id, action, availability},
        keymap::{Place, key_of},
        theme::Token,
        widgets::{
            canvas::{Canvas, p},
            fit::fit,
        },
    },
};
use ratatui::layout::Rect;

const WITHOUT_CONFIG: [(&str, &str); 4] = [
    ("backfill demo", "a simulated order, nothing of yours is touched"),
    ("backfill check", "validate config.toml and reach every endpoint"),
    ("backfill plan NAME", "what an order would do, without doing it"),
    ("backfill run NAME", "start an order and supervise it"),
];

/// Draws the first start: an empty year, what is missing, and what can be done.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    let look = scene.look;
    canvas.clear(
        Rect {
            height: 1.min(area.height),
            ..area
        },
        Token::Surface,
    );
    let (text, muted, faint) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.ink(Token::Faint),
    );
    let local = scene.now.with_timezone(&scene.zone);
    canvas.put(
        area.x + 1,
        area.y,
        area.right(),
        "backfill",
        look.bold(Token::Bright),
    );
    let clock = [
        p(local.format("%H:%M:%S").to_string(), look.bold(Token::Bright)),
        p(format!(" {}", local.format("%Z")), muted),
    ];
    canvas.right(area.x + 10, area.y, area.right().saturating_sub(1), &clock);
    let bottom = area.bottom().saturating_sub(super::footer::ROWS);
    let x = area.x + if area.width >= 60 { 7 } else { 1 };
    let mut y = area.y + 2;
    if area.height >= 22 && area.width >= 80 {
        let columns = 33.min((area.width - 14) / 2);
        let [left, right] = look.glyphs.cell(ChunkState::Pending);
        // Quieter than real days: nothing waits here.
        let ink = look.half(Token::Faint);
        for (row, column) in (0..7).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            canvas.dot(x + column * 2, y + row, left, ink);
            canvas.dot(x + column * 2 + 1, y + row, right, ink);
        }
        y += 9;
    }
    let end = area.right().saturating_sub(1);
    let line = |canvas: &mut Canvas<'_>, y: &mut u16, pieces: &[crate::tui::widgets::canvas::Piece<'_>]| {
        if *y < bottom {
            canvas.pieces(x, *y, end, pieces);
        }
        *y += 1;
    };
    let Some(config) = &scene.feed.config else {
        let since = scene.now - scene.feed.as_of;
        let says = match since.num_seconds() {
            ..2 => "Nothing is known before that.".to_owned(),
            _ => format!(
                "Nothing is known before that. It takes {} so far; q leaves.",
                until(since)
            ),
        };
        line(
            canvas,
            &mut y,
            &[p("Reading the journal.", look.bold(Token::Bright))],
        );
        line(canvas, &mut y, &[p(says, muted)]);
        return problem(canvas, Rect { y, ..area }, x, scene);
    };
    line(
        canvas,
        &mut y,
        &[p("Nothing to supervise yet.", look.bold(Token::Bright))],
    );
    let (says, looked) = match config {
        Ok(on) => (
            "No order was started yet; this screen fills by itself when one is.".to_owned(),
            vec![
                vec![p("Configured in ", faint), p(on.file.clone(), text)],
                vec![p("The journal is ", faint), p(on.journal.clone(), text)],
            ],
        ),
        Err(why) => (
            why.clone(),
            vec![vec![
                p("Looked in ", faint),
                p("$XDG_CONFIG_HOME/backfill", text),
                p(", ", faint),
                p("$BACKFILL_CONFIG", text),
                p(" and ", faint),
                p("--config", text),
            ]],
        ),
    };
    line(canvas, &mut y, &[p(says, muted)]);
    y += 1;
    let attach = action(Id::AttachTo);
    let can = availability(attach, scene.app, scene.feed).is_ready();
    let attach = can.then(|| (key_of(Id::AttachTo, Place::Calendar), attach.about));
    for (command, does) in attach.into_iter().chain(WITHOUT_CONFIG) {
        let pieces = [
            p(format!("{command:<24}"), look.bold(Token::Accent)),
            p(does, text),
        ];
        line(canvas, &mut y, &pieces);
    }
    y += 1;
    for pieces in &looked {
        line(canvas, &mut y, pieces);
    }
    if let Some(fault) = &scene.feed.config_fault {
        let wide = end.saturating_sub(x);
        let says = fit(&format!("Read in part: {fault}"), wide, look.glyphs.cut_off).into_owned();
        line(canvas, &mut y, &[p(says, look.ink(Token::Warn))]);
    }
    if config.is_err() {
        let fills = "This screen fills by itself when an order starts.";
        line(canvas, &mut y, &[p(fills, faint)]);
    }
    problem(canvas, Rect { y, ..area }, x, scene);
}

/// Why the journal cannot be read, a row below what was said.
fn problem(canvas: &mut Canvas<'_>, area: Rect, x: u16, scene: &Scene<'_>) {
    let bottom = canvas.clip.bottom().saturating_sub(super::footer::ROWS);
    let y = area.y.saturating_add(1);
    if let Some(problem) = scene.feed.problem.as_ref().filter(|_| y < bottom) {
        let says = format!("The journal cannot be read: {problem}");
        let end = area.right().saturating_sub(1);
        canvas.put(x, y, end, &says, scene.look.ink(Token::Warn));
    }
}
