//! What is drawn: pure functions of feed, operator, look, area and now. Nothing here waits, reads a clock or
//! changes anything.

mod actions;
mod attach;
mod calendar;
mod chunk_words;
mod dialog;
mod drawer;
mod end;
mod events;
mod executors;
pub mod filter;
mod first;
mod fold;
mod footer;
mod header;
pub mod help;
pub mod hints;
mod inside;
mod lag;
mod lag_heat;
mod lag_page;
mod layout;
mod log_page;
mod lower;
mod memo;
pub mod numbers;
mod overlay;
mod plan_panel;
pub mod rollup;
mod scene;
mod selection;
pub mod sentences;
mod shares;
pub mod theirs;
mod trend;
pub mod verdict;

pub use hints::{HelpRow, Hints, PaletteRow};

use super::{
    model::{App, Feed, Layer, Zoom},
    theme::{Level, Look, Token},
    widgets::canvas::{Canvas, p},
};
use crate::domain::{Time, ids::Name};
use calendar::{Calendar, Drawn};
use layout::{Lower, Page, Size};
use ratatui::{
    Frame,
    buffer::Buffer,
    layout::{Position, Rect},
};
use scene::Scene;
use sentences::{held_by_signal, state_word};

/// Whether a screen of this size always shows the day under the cursor beside the calendar.
pub fn pins_the_day(width: u16, height: u16) -> bool {
    layout::size(Rect::new(0, 0, width, height)) == Size::Wide
}

/// Draws one frame and puts the terminal's cursor where text is typed; without colours also on the calendar's.
pub fn draw(frame: &mut Frame<'_>, feed: &Feed, app: &App, look: &Look, hints: &Hints, now: Time) {
    let area = frame.area();
    if let Some(at) = draw_on(frame.buffer_mut(), area, feed, app, look, hints, now) {
        frame.set_cursor_position(at);
    }
}

/// The same on any buffer. Returns where the terminal's cursor belongs.
pub fn draw_on(
    buf: &mut Buffer,
    area: Rect,
    feed: &Feed,
    app: &App,
    look: &Look,
    hints: &Hints,
    now: Time,
) -> Option<Position> {
    let clip = area.intersection(buf.area);
    let scene = Scene::new(feed, app, look, hints, now);
    let mut canvas = Canvas { buf, look, clip };
    if clip.is_empty() {
        return None;
    }
    canvas.clear(clip, Token::Bg);
    let size = layout::size(clip);
    if size == Size::Line {
        line(&mut canvas, clip, &scene);
        return None;
    }
    let on_calendar = match (scene.backfill, size) {
        (None, _) => {
            first::draw(&mut canvas, clip, &scene);
            None
        }
        (Some(_), Size::Compact) => compact(&mut canvas, clip, &scene),
        (Some(_), _) => home(&mut canvas, clip, &scene, size),
    };
    let typed = footer::draw(&mut canvas, clip, &scene);
    let inside = layers(&mut canvas, clip, &scene);
    let calendar = on_calendar.filter(|_| look.level == Level::None && app.layers.is_empty());
    // Where a box was cut, the place of its input may be gone.
    inside.or(typed).or(calendar).filter(|at| clip.contains(*at))
}

/// Under 40x10: the state, the counts, and that there is more to see.
fn line(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    let look = scene.look;
    if !scene.app.layers.is_empty() {
        let text = "a dialog is open: enlarge to 80x24, or esc";
        canvas.put(area.x, area.y, area.right(), text, look.bold(Token::Warn));
        return;
    }
    let Some(backfill) = scene.backfill else {
        canvas.put(
            area.x,
            area.y,
            area.right(),
            "backfill: enlarge to 80x24",
            look.ink(Token::Text),
        );
        return;
    };
    let word = state_word(scene.feed, backfill, scene.now);
    let all = numbers::count(backfill.chunks.len() as u64);
    let done = numbers::count(scene.n(crate::domain::state::ChunkState::Done));
    let mut pieces = vec![p(word.short, look.chip(word.tone)), p(" ", look.ink(Token::Text))];
    pieces.extend(header::needs_you(scene, 20));
    pieces.push(p(
        format!(" {done}/{all} enlarge to 80x24"),
        look.ink(Token::Text),
    ));
    canvas.pieces(area.x, area.y, area.right(), &pieces);
}

/// Under 80x24: header, grid, footer.
fn compact(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) -> Option<Position> {
    header::compact(canvas, area, scene);
    let y = area.y + 3;
    let bottom = area.bottom().saturating_sub(footer::ROWS);
    let grid = Rect {
        y,
        height: bottom.saturating_sub(y),
        ..area
    };
    if is_lag_open(scene.app) {
        lag_page::draw(canvas, grid, scene);
        return None;
    }
    if scene.has(|l| matches!(l, Layer::Drawer)) {
        drawer::draw(canvas, grid, scene);
        return None;
    }
    let calendar = Calendar::new(scene)?;
    if !layout::weeks_fit(area.width) {
        return list(canvas, grid, scene);
    }
    let with_title = grid.height >= 10;
    let body = Rect {
        y: grid.y + u16::from(with_title),
        height: grid.height - u16::from(with_title),
        ..grid
    };
    let days = scene.app.zoom == Zoom::Days && body.height >= 8;
    let weeks = if days { body.height - 8 } else { body.height };
    let drawn = if scene.app.zoom == Zoom::Years && body.height >= 2 {
        calendar.zoomed_out(
            canvas,
            Rect {
                width: area.width.min(layout::BAND),
                ..body
            },
            1,
        )
    } else {
        calendar.narrow(canvas, body, weeks.min(calendar.years() as u16), days)
    };
    if with_title {
        calendar::title(canvas, grid.y, area.right() - 1, scene, drawn.hidden);
    }
    drawn.cursor
}

/// Where not even the weeks of a year fit: the counts by state.
fn list(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) -> Option<Position> {
    for (i, (state, n)) in calendar::states(scene).enumerate() {
        let y = area.y + i as u16;
        if y >= area.bottom() {
            break;
        }
        legend_row(canvas, area.x + 1, y, area.x + 20, scene, state, n);
    }
    None
}

fn legend_row(
    canvas: &mut Canvas<'_>,
    x: u16,
    y: u16,
    end: u16,
    scene: &Scene<'_>,
    state: crate::domain::state::ChunkState,
    n: u64,
) {
    let [sign, word, number] = calendar::legend_row(scene, state, n);
    canvas.put(x, y, end, &sign.text, sign.style);
    canvas.put(x + 2, y, end, &word.text, word.style);
    canvas.right(x + 2, y, end, &[number]);
}

/// From 80x24 on.
fn home(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, size: Size) -> Option<Position> {
    header::draw(canvas, area, scene);
    let page = layout::page(area, size);
    if is_lag_open(scene.app) {
        let y = area.y + header::ROWS;
        let height = area.height.saturating_sub(header::ROWS + footer::ROWS);
        lag_page::draw(canvas, Rect { y, height, ..area }, scene);
        return None;
    }
    let drawer = scene.has(|l| matches!(l, Layer::Drawer));
    let held = scene
        .backfill
        .is_some_and(|b| held_by_signal(scene.feed, b, scene.now));
    let tall = match size {
        Size::Wide => false,
        Size::Narrow => drawer,
        _ => drawer || held,
    };
    let drawn = band(canvas, scene, page, size, tall)?;
    if let Some(panels) = layout::panels(page.inner, drawn.rows, size, held || drawer) {
        lower::draw(canvas, scene, panels, size, drawer, held);
    }
    if let Some(column) = page.side {
        lower::side(canvas, scene, column);
    }
    drawn.cursor
}

/// What is opened is what has the focus: the day, or the lag panel.
fn is_lag_open(app: &App) -> bool {
    app.focus == super::model::Panel::Lag && app.layers.iter().any(|l| matches!(l, Layer::Drawer))
}

/// The signal whose parts are on the screen: while the lag panel is opened, and always where there is room for them.
pub fn signal_in_parts(app: &App, feed: &Feed, width: u16, height: u16) -> Option<Name> {
    let wide = layout::size(Rect::new(0, 0, width, height)) == Size::Wide;
    let backfill = app.backfill.as_ref().filter(|_| wide || is_lag_open(app))?;
    let backfill = feed.state.backfills.get(backfill)?;
    Some(scene::binding(feed, backfill)?.name.clone())
}

/// The calendar with its title. Returns what it used.
fn band(canvas: &mut Canvas<'_>, scene: &Scene<'_>, page: Page, size: Size, tall: bool) -> Option<Drawn> {
    let calendar = Calendar::new(scene)?;
    let inner = page.inner;
    let years = scene.app.zoom == Zoom::Years;
    let lower = Lower::of(size, tall);
    if size == Size::Narrow {
        let drawn = narrow_band(canvas, scene, &calendar, page, lower, tall);
        return Some(drawn);
    }
    let edge = inner.width.min(layout::BAND);
    let room = lower.leaves(inner.height, 8);
    let at = Rect {
        width: edge,
        height: room,
        ..inner
    };
    let drawn = if years {
        calendar.zoomed_out(canvas, at, 2)
    } else {
        calendar.days(canvas, at, 2)
    };
    calendar::title(canvas, page.title, inner.x + edge - 1, scene, drawn.hidden);
    Some(drawn)
}

/// 80 columns: the legend stands right of the grid instead of in the title.
fn narrow_band(
    canvas: &mut Canvas<'_>,
    scene: &Scene<'_>,
    calendar: &Calendar<'_>,
    page: Page,
    lower: Lower,
    tall: bool,
) -> Drawn {
    let look = scene.look;
    let inner = page.inner;
    let years = scene.app.zoom == Zoom::Years;
    // An open drawer takes the days' rows: the weeks above still show where the cursor is.
    let days = !years && !tall;
    let room = lower.leaves(inner.height, if days { 9 } else { 1 });
    let weeks = room
        .saturating_sub(if days { 8 } else { 0 })
        .min(calendar.years() as u16);
    let mut drawn = if years {
        let grid = Rect {
            height: room,
            ..inner
        };
        calendar.zoomed_out(canvas, grid, 1)
    } else {
        calendar.narrow(
            canvas,
            Rect {
                height: room,
                ..inner
            },
            weeks,
            days,
        )
    };
    let x = inner.x + 62;
    let end = inner.right() - 2;
    let y = page.title;
    let after = calendar::name(
        canvas,
        inner.x + 1,
        y,
        end,
        scene,
        1,
        "CALENDAR",
        super::model::Panel::Calendar,
    );
    let after = canvas.put(
        after + 2,
        y,
        end,
        if years { "years" } else { "days" },
        look.ink(Token::Faint),
    );
    let after = calendar::remarks(canvas, after, y, end, scene);
    let hidden = drawn.hidden as u64;
    let remark = match (days, hidden) {
        (true, 0) => "top: weeks of each year".to_owned(),
        (_, 0) => String::new(),
        (_, n) => format!("{} not shown", numbers::of(n, "year")),
    };
    canvas.items(
        60u16.saturating_sub(remark.len() as u16).max(after + 2),
        y,
        end,
        0,
        &[vec![p(remark, look.ink(Token::Faint))]],
    );
    if years {
        return drawn;
    }
    let rows = (inner.y + drawn.rows.max(1)).min(inner.bottom());
    let mut y = inner.y;
    for (state, n) in calendar::states(scene) {
        if y >= rows {
            break;
        }
        legend_row(canvas, x, y, end, scene, state, n);
        y += 1;
    }
    if let Some(backfill) = scene.backfill
        && y + 1 < rows
    {
        progress(canvas, x, rows - 2, scene, backfill);
    }
    drawn.rows = drawn.rows.max(1);
    drawn
}

/// Percent and twelve signs.
fn progress(
    canvas: &mut Canvas<'_>,
    x: u16,
    y: u16,
    scene: &Scene<'_>,
    backfill: &crate::domain::state::Backfill,
) {
    use crate::domain::state::ChunkState as S;
    let look = scene.look;
    let (settled, all) = (
        scene.n(S::Done) + scene.n(S::Skipped),
        backfill.chunks.len() as u64,
    );
    let percent = numbers::percent(settled, all, false);
    let x = canvas.put(x, y, x + 5, &percent, look.bold(Token::Bright)) + 1;
    let most = 12;
    let filled = if settled >= all {
        most
    } else {
        (settled * most).div_ceil(all.max(1)).min(most - 1)
    };
    for i in 0..most {
        let state = if i < filled { S::Done } else { S::Pending };
        let ink = if i < filled {
            look.ink(Token::DoneInk)
        } else {
            look.state_ink(S::Pending)
        };
        canvas.dot(x + i as u16, y, look.glyphs.narrow(state), ink);
    }
}

/// Everything above the home screen, in order. Returns where the top one wants the terminal's cursor.
fn layers(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) -> Option<Position> {
    let mut at = None;
    let inner = Rect {
        y: area.y + header::ROWS.min(area.height),
        height: area.height.saturating_sub(header::ROWS + footer::ROWS),
        ..area
    };
    for layer in &scene.app.layers {
        at = match layer {
            Layer::Log(_) => {
                drawer::full_log(canvas, inner, scene);
                None
            }
            Layer::Plan(dialog) => dialog::plan(canvas, area, scene, dialog),
            Layer::Throttle(typed) => overlay::throttle(canvas, area, scene, typed),
            Layer::Why => {
                overlay::explain(canvas, area, scene);
                None
            }
            Layer::Help(first) => {
                help::draw(canvas, area, scene, *first);
                None
            }
            Layer::Attach(attaching) => attach::draw(canvas, area, scene, attaching),
            Layer::Palette(typed, chosen) => overlay::palette(canvas, area, scene, typed, *chosen),
            Layer::Drawer | Layer::Date(_) | Layer::Filter(_) | Layer::Reason(_) => None,
        };
    }
    at
}
