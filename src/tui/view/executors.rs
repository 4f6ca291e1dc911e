//! Executors with their slots; while blind, every endpoint with what is wrong with it.

use super::{
    calendar::name,
    numbers::{age, delta},
    scene::Scene,
};
use crate::{
    domain::Time,
    tui::{
        model::{ExecutorView, Panel},
        theme::Token,
        widgets::{
            canvas::{Canvas, p},
            fit::{columns, wrap},
        },
    },
};
use chrono::TimeDelta;
use ratatui::layout::Rect;

/// An executor that has not answered for longer is told in a louder ink.
const SILENT: TimeDelta = TimeDelta::seconds(60);

/// Column of the slots, counted from the panel's left edge.
const SLOTS: u16 = 13;

/// Rows that the panel wants: its title and one for each executor.
pub(super) fn rows(scene: &Scene<'_>) -> u16 {
    1 + u16::try_from(scene.feed.executors.len().max(1)).unwrap_or(u16::MAX)
}

/// Draws name, slots, running and capacity, age.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    let look = scene.look;
    let (end, faint) = (area.right(), look.ink(Token::Faint));
    name(
        canvas,
        area.x,
        area.y,
        end,
        scene,
        3,
        "EXECUTORS",
        Panel::Executors,
    );
    if area.width >= 40 {
        canvas.right(area.x, area.y, end - 7, &[p("running", faint)]);
        canvas.right(area.x, area.y, end, &[p("seen", faint)]);
    }
    if scene.feed.executors.is_empty() && area.height > 1 {
        let text = "no executor is configured";
        canvas.put(area.x, area.y + 1, end, text, look.ink(Token::Muted));
    }
    for (i, executor) in scene.feed.executors.values().enumerate() {
        let y = area.y + 1 + i as u16;
        if y >= area.bottom() {
            return;
        }
        let hidden = scene.feed.executors.len() - i;
        if y + 1 == area.bottom() && hidden > 1 {
            let text = format!("and {hidden} more");
            canvas.put(area.x, y, end, &text, look.ink(Token::Muted));
            return;
        }
        row(canvas, area, y, scene, executor);
    }
}

fn row(canvas: &mut Canvas<'_>, area: Rect, y: u16, scene: &Scene<'_>, executor: &ExecutorView) {
    let look = scene.look;
    let end = area.right();
    let (seen, old) = seen(scene, executor.seen, SILENT);
    let problem = executor.problem.is_some();
    let ink = look.ink(if old { Token::Warn } else { Token::Muted });
    let used = canvas.right(area.x, y, end, &[p(seen, ink)]);
    let slots = match executor.slots {
        Some(slots) => format!("{}/{slots}", executor.running),
        None => executor.running.to_string(),
    };
    let style = look.ink(if problem { Token::Faint } else { Token::Text });
    let slots_end = used.min(end - 5).max(area.x + 1) - 1;
    // Why it takes nothing says more than how much it would take.
    let needed = executor
        .problem
        .as_ref()
        .map_or(0, |p| SLOTS + columns(p) + columns(&slots) + 2);
    let right = if area.x + needed > slots_end {
        used
    } else {
        canvas.right(area.x, y, slots_end, &[p(slots, style)])
    };
    let x = canvas.put(
        area.x,
        y,
        right.saturating_sub(1),
        executor.name.as_str(),
        look.ink(Token::Text),
    );
    let x = (area.x + SLOTS).max(x + 1);
    match &executor.problem {
        Some(problem) => {
            let room = right.saturating_sub(x + 1);
            let says = if columns(problem) > room && room < 12 {
                "fails"
            } else {
                problem
            };
            canvas.put(x, y, right.saturating_sub(1), says, look.ink(Token::Warn));
        }
        None => slots_row(canvas, x, y, right.saturating_sub(1), scene, executor),
    }
}

/// One sign for each slot while there is room; those that are used, where it has none of its own.
fn slots_row(canvas: &mut Canvas<'_>, x: u16, y: u16, end: u16, scene: &Scene<'_>, executor: &ExecutorView) {
    let look = scene.look;
    for i in 0..executor
        .slots
        .unwrap_or(0)
        .max(executor.running)
        .min(u32::from(end.saturating_sub(x)))
    {
        let (glyph, token) = if i < executor.running {
            (look.glyphs.slot_used, Token::Info)
        } else {
            (look.glyphs.slot_free, Token::Faint)
        };
        canvas.dot(x + i as u16, y, glyph, look.ink(token));
    }
}

/// How long ago, and whether that is too long.
fn seen(scene: &Scene<'_>, at: Option<Time>, patience: TimeDelta) -> (String, bool) {
    match at {
        Some(at) => (age(scene.now - at), scene.now - at > patience),
        None => ("never".to_owned(), true),
    }
}

/// Every endpoint, signals first, with its problem and when it answered last.
pub(super) fn endpoints(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, digit: Option<u8>) {
    let look = scene.look;
    let end = area.right();
    let faint = look.ink(Token::Faint);
    match digit {
        Some(digit) => name(
            canvas,
            area.x,
            area.y,
            end,
            scene,
            digit,
            "ENDPOINTS",
            Panel::Executors,
        ),
        None => canvas.put(area.x, area.y, end, "ENDPOINTS", look.bold(Token::Muted)),
    };
    canvas.right(area.x, area.y, end, &[p("last", faint)]);
    let signals = scene.feed.signals.values().map(|s| {
        let says = format!("signal, every {}", age(delta(s.interval)));
        (
            s.name.as_str(),
            says,
            &s.problem,
            Scene::last(s).map(|(at, _)| at),
            delta(s.interval * 2),
        )
    });
    let executors = scene.feed.executors.values().map(|e| {
        let says = e.slots.map_or_else(
            || "no slots of its own".to_owned(),
            |n| super::numbers::of(u64::from(n), "slot"),
        );
        (e.name.as_str(), says, &e.problem, e.seen, SILENT)
    });
    let all: Vec<_> = signals.chain(executors).collect();
    let mut y = area.y + 1;
    for (name, says, problem, at, patience) in &all {
        if y >= area.bottom() {
            return;
        }
        let (last, old) = seen(scene, *at, *patience);
        let ink = look.ink(if old { Token::Warn } else { Token::Muted });
        let right = canvas.right(area.x, y, end, &[p(last, ink)]);
        let x = canvas.put(area.x, y, right, name, look.ink(Token::Text));
        let x = (area.x + SLOTS).max(x + 1);
        match problem {
            Some(problem) => canvas.put(x, y, right.saturating_sub(1), problem, look.ink(Token::Warn)),
            None => canvas.put(x, y, right.saturating_sub(1), says, look.ink(Token::Muted)),
        };
        y += 1;
    }
    verdict(
        canvas,
        Rect {
            y,
            height: area.bottom().saturating_sub(y),
            ..area
        },
        scene,
        all.len(),
    );
}

/// Several endpoints down at once have one cause more often than many.
fn verdict(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, all: usize) {
    let signals = scene
        .feed
        .signals
        .values()
        .filter(|s| s.problem.is_some())
        .count();
    let down = signals
        + scene
            .feed
            .executors
            .values()
            .filter(|e| e.problem.is_some())
            .count();
    if down < 2 || down * 2 <= all {
        return;
    }
    let text =
        format!("{down} of {all} fail: look at this host's network first. What runs goes on without us.");
    for (i, line) in wrap(&text, area.width)
        .iter()
        .enumerate()
        .take(usize::from(area.height))
    {
        canvas.put(
            area.x,
            area.y + i as u16,
            area.right(),
            line,
            scene.look.ink(Token::Text),
        );
    }
}
