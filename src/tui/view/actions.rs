//! What was asked of an engine's own levers: what is under way with its newest request, and what became of the rest.

use super::{numbers::age, scene::Scene};
use crate::{
    domain::{
        attach::Asked,
        state::{Backfill, ChunkState},
    },
    tui::{
        theme::Token,
        widgets::{
            canvas::{Canvas, p},
            fit::columns,
        },
    },
};
use ratatui::layout::Rect;

/// The most actions that are shown.
const MOST: usize = 4;
/// Rows of one.
const ROWS: u16 = 2;

/// Whether the shown backfill's actions are told rather than a plan of ours.
pub(super) fn instead_of_plan(scene: &Scene<'_>) -> bool {
    scene.backfill.is_some_and(|b| {
        let open = b.asked.iter().any(Asked::is_open);
        b.spec.attach.is_some() || open
    })
}

/// Those that are shown: what is under way first, then the newest that ended.
fn shown(backfill: &Backfill) -> Vec<&Asked> {
    let (open, ended): (Vec<&Asked>, Vec<&Asked>) = backfill.asked.iter().partition(|a| a.is_open());
    open.into_iter()
        .chain(ended.into_iter().rev())
        .take(MOST)
        .collect()
}

/// Rows that the panel wants; none while nothing was asked for.
pub(super) fn rows(scene: &Scene<'_>) -> u16 {
    let shown = scene.backfill.map_or(0, |b| shown(b).len());
    match u16::try_from(shown) {
        Ok(0) | Err(_) => 0,
        Ok(n) => 1 + n * ROWS,
    }
}

/// Draws the panel.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    let Some(backfill) = scene.backfill else { return };
    if area.height < 2 {
        return;
    }
    let look = scene.look;
    let end = area.right();
    let after = canvas.put(area.x, area.y, end, "ACTIONS", look.bold(Token::Muted));
    let under_way = backfill.asked.iter().filter(|a| a.is_open()).count();
    if under_way > 0 {
        let remark = format!("{under_way} under way");
        canvas.put(after + 2, area.y, end, &remark, look.ink(Token::Faint));
    }
    let all = shown(backfill);
    if all.is_empty() {
        let text = "nothing was asked of its engine yet";
        canvas.put(area.x, area.y + 1, end, text, look.ink(Token::Muted));
    }
    let mut y = area.y + 1;
    for (i, asked) in all.iter().enumerate() {
        if y + ROWS > area.bottom() {
            let hidden = all.len() - i;
            if y < area.bottom() {
                let text = format!("and {hidden} more");
                canvas.put(area.x, y, end, &text, look.ink(Token::Muted));
            }
            return;
        }
        row(canvas, Rect { y, ..area }, scene, asked);
        y += ROWS;
    }
}

/// Its words, who asked and how long ago; under it what the server made of it.
fn row(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, asked: &Asked) {
    let look = scene.look;
    let end = area.right();
    let (glyph, token) = match &asked.ended {
        None => (look.glyphs.slot_used, Token::Info),
        Some(end) if end.ok => (look.glyphs.narrow(ChunkState::Done), Token::DoneInk),
        Some(_) => (look.glyphs.narrow(ChunkState::Failed), Token::Bad),
    };
    let since = asked.ended.as_ref().map_or(asked.mark.at, |e| e.at);
    let words = asked.action.words();
    let age = age(scene.now - since);
    let who = format!("{}  {age}", asked.mark.by.name);
    // What was asked says more than who did.
    let fits = 2 + columns(&words) + 2 + columns(&who) <= area.width;
    let right = [p(if fits { who } else { age }, look.ink(Token::Faint))];
    let right = canvas.right(area.x + 12, area.y, end, &right);
    let x = canvas.put(area.x, area.y, end, &glyph.to_string(), look.ink(token));
    let ink = if asked.is_open() {
        look.bold(Token::Text)
    } else {
        look.ink(Token::Text)
    };
    canvas.put(x + 1, area.y, right.saturating_sub(2), &words, ink);
    let (says, token) = state(asked, scene);
    canvas.put(x + 1, area.y + 1, end, &says, look.ink(token));
}

/// How far it is, or how it ended, in the server's words.
fn state(asked: &Asked, scene: &Scene<'_>) -> (String, Token) {
    if let Some(end) = &asked.ended {
        return match end.ok {
            true => (end.said.clone(), Token::Muted),
            false => (format!("NOT DONE: {}", end.said), Token::Bad),
        };
    }
    match asked.steps.last() {
        None => ("waits to be sent".to_owned(), Token::Muted),
        Some(step) => match &step.answer {
            None => {
                let age = age(scene.now - step.at);
                (format!("sent {}, no answer for {age}", step.sent), Token::Warn)
            }
            Some((true, said)) => (
                format!("{}: {said}; waits for its effect", step.sent),
                Token::Muted,
            ),
            Some((false, said)) => (format!("{} refused: {said}", step.sent), Token::Bad),
        },
    }
}
