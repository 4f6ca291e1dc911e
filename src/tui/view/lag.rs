//! The lag of the binding signal: chart, thresholds, and under it on the same axis the limit and what ran.

mod axis;

pub(super) use axis::Axis;

use super::{
    calendar::name,
    lag_heat::Heatmap,
    numbers::{age, clock, level},
    scene::Scene,
    sentences::{clauses, held_by_signal, is_unprotected},
    trend::Trend,
};
use crate::{
    config::Unit,
    domain::Time,
    tui::{
        model::{Panel, SignalView},
        theme::Token,
        widgets::{
            canvas::{Canvas, p},
            chart::{Chart, Threshold},
            fit::{columns, wrap},
            strip::{Step, draw as draw_strip},
        },
    },
};
use axis::Span;
use chrono::{TimeDelta, Timelike};
use ratatui::layout::Rect;

/// What stands around the chart.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    /// The strip of the running weight under that of the limit.
    pub running: bool,
    /// The times under the strips.
    pub times: bool,
    /// Without a signal, its place is free for what was asked of an engine.
    pub actions: bool,
    /// Columns right of the chart for the labels, with the gap before them.
    pub labels: u16,
    /// What the signal is made of, between chart and strips; its names stand left of them all.
    pub heat: Option<&'a Heatmap<'a>>,
    /// The law's one line under everything, where it is told.
    pub law: Option<&'a str>,
}

/// Label columns of a panel, and of the page.
pub(super) const SLIM: u16 = 12;
pub(super) const ROOMY: u16 = 15;

/// Draws the panel: title, chart, heatmap, strips.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, around: Around<'_>) {
    let names = around.heat.map_or(0, |heat| heat.names);
    if area.height < 2 || area.width <= around.labels + names + 4 {
        return;
    }
    let draining = scene
        .backfill
        .is_some_and(|b| held_by_signal(scene.feed, b, scene.now))
        && scene.signal.is_some_and(|s| s.slope.is_some_and(|m| m < 0.0));
    let span = Span::of(scene.signal, scene.now, draining);
    title(canvas, area, scene, span);
    let Some(signal) = scene.signal else {
        return without_signal(canvas, area, scene, around.actions);
    };
    let heat_rows = around.heat.map_or(0, |heat| heat.rows);
    let strips = 1 + u16::from(around.running) + u16::from(around.times);
    let below = strips + heat_rows + u16::from(around.law.is_some());
    let rows = area.height.saturating_sub(1 + below);
    let cells = area.width - around.labels - names;
    let axis = Axis::new(cells, around.labels, scene.now, span);
    let x = area.x + names;
    chart(
        canvas,
        Rect {
            x,
            y: area.y + 1,
            width: area.width - names,
            height: rows,
        },
        scene,
        signal,
        axis,
    );
    let mut y = area.y + 1 + rows;
    if let Some(heat) = around.heat {
        let height = heat_rows.min(area.bottom().saturating_sub(y));
        heat.draw(canvas, Rect { y, height, ..area }, scene, axis);
        y += heat_rows;
    }
    limit_strip(canvas, x, y, scene, axis);
    if around.running {
        y += 1;
        running_strip(canvas, x, y, scene, axis);
    }
    if around.times {
        y += 1;
        times(canvas, x, y, scene, axis);
    }
    if let Some(law) = around.law.filter(|_| y + 1 < area.bottom()) {
        let look = scene.look;
        let x = canvas.put(area.x, y + 1, area.right(), "law ", look.ink(Token::Faint));
        let room = area.right().saturating_sub(x);
        let says = clauses(law, |s| columns(s) <= room);
        canvas.put(x, y + 1, area.right(), says, look.ink(Token::Text));
    }
}

fn title(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, span: Span) {
    let look = scene.look;
    let end = area.right();
    let of = scene.signal.map_or(String::new(), |s| format!(" {}", s.name));
    let x = name(
        canvas,
        area.x,
        area.y,
        end,
        scene,
        2,
        &format!("LAG{of}"),
        Panel::Lag,
    );
    let Some(signal) = scene.signal else { return };
    if scene.fresh(signal).is_none() {
        let text = match Scene::last(signal) {
            Some((at, _)) => format!("no samples since {}", clock(at, scene.now, scene.zone)),
            None => "no sample yet".to_owned(),
        };
        canvas.put(x + 2, area.y, end, &text, look.ink(Token::Warn));
        return;
    }
    if let Some(old) = scene.aged(signal) {
        let text = format!(
            "as of {}, {} old",
            clock(scene.now - old, scene.now, scene.zone),
            age(old)
        );
        canvas.put(x + 2, area.y, end, &text, look.ink(Token::Warn));
        return;
    }
    let (long, short) = match signal.unit {
        Unit::Seconds => ("seconds behind", "s behind"),
        Unit::Messages => ("messages behind", "messages"),
        Unit::Alerts => ("alerts that fire", "alerts"),
    };
    let full = format!("{long}, {}", span.words());
    let room = end.saturating_sub(x + 2);
    let text = if columns(&full) <= room.min(45).max(room.saturating_sub(6)) && area.width >= 60 {
        full
    } else {
        format!("{short}, {}", span.short())
    };
    let x = canvas.put(x + 2, area.y, end, &text, look.ink(Token::Faint));
    let others = scene
        .backfill
        .map_or(0, |b| b.spec.signals.len().saturating_sub(1));
    if others > 0 {
        let more = format!("  and {others} more");
        canvas.items(x, area.y, end, 0, &[vec![p(more, look.ink(Token::Faint))]]);
    }
}

fn without_signal(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, with_actions: bool) {
    let look = scene.look;
    let protects = scene.backfill.is_some_and(|b| !b.spec.signals.is_empty());
    let theirs = scene.backfill.is_some_and(|b| b.spec.attach.is_some());
    let text = match (protects, theirs) {
        (true, _) if scene.feed.config_fault.is_some() => {
            "The file has faults, so that nothing is known of its signals here; the supervisor goes on with the old one."
        }
        (true, false) if scene.backfill.is_some_and(|b| is_unprotected(scene.feed, b)) => {
            "What protects it is not in the configuration any more: nothing starts."
        }
        (true, false) => "No sample has arrived yet. Nothing starts before the second valid one.",
        (true, true) => "No sample has arrived yet. It runs on until one says otherwise.",
        (false, false) => "No signal protects this backfill: the limit does not follow any lag.",
        (false, true) => "No signal protects this backfill: no lag pauses it.",
    };
    if theirs && with_actions && area.height >= 5 {
        let below = Rect {
            y: area.y + 3,
            height: area.height - 3,
            // Events stand close at its right where it is narrow.
            width: area.width.saturating_sub(if area.width < 60 { 2 } else { 0 }),
            ..area
        };
        super::actions::draw(canvas, below, scene);
    }
    for (i, line) in wrap(text, area.width.min(60)).iter().enumerate() {
        let y = area.y + 1 + i as u16;
        if y < area.bottom() {
            canvas.put(area.x, y, area.right(), line, look.ink(Token::Muted));
        }
    }
}

fn chart(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, signal: &SignalView, axis: Axis) {
    let look = scene.look;
    let rows = area.height;
    let (values, known_from) = series(signal, axis);
    let peak = values.iter().flatten().fold(0.0, |a: f64, b| a.max(*b));
    let top = (1.1 * signal.hard).max(1.07 * peak);
    // Where rows are few, `low` would lie inside the usual data and say nothing.
    let with_low = rows >= 8;
    let mut thresholds = Vec::with_capacity(3);
    if with_low {
        thresholds.push(threshold(scene, signal.low, Token::Muted));
    }
    thresholds.push(threshold(scene, signal.soft, Token::Warn));
    thresholds.push(threshold(scene, signal.hard, Token::Bad));
    let predicted = prediction(scene, signal, axis);
    let chart = Chart {
        values: &values,
        known_from,
        predicted: &predicted,
        top,
        thresholds: &thresholds,
        base: look.ink(Token::Area),
        points: look.ink(Token::Muted),
        gap: look.ink(Token::Line),
    };
    chart.draw(canvas, area.x, area.y, axis.cells, rows);
    labels(
        canvas,
        area,
        scene,
        signal,
        &chart,
        Labels {
            columns: axis.labels,
            with_low,
            peak,
        },
    );
}

fn threshold(scene: &Scene<'_>, value: f64, token: Token) -> Threshold {
    Threshold {
        value,
        line: scene.look.half(token),
        fill: scene.look.ink(token),
        drawn: true,
    }
}

/// One value for each dot column: the worst sample in it, else the last one while it still counts. Never
/// interpolated, never zero for *nothing*.
fn series(signal: &SignalView, axis: Axis) -> (Vec<Option<f64>>, usize) {
    let dots = usize::from(axis.past) * 2;
    let step = axis.cell / 2.0;
    let hold = (signal.interval.as_secs_f64() * 1.5).max(step);
    let offset = |at: Time| (at - axis.start).num_milliseconds() as f64 / 1_000.0;
    let mut samples = signal.samples.iter().peekable();
    let known_from = samples
        .peek()
        .map_or(dots, |(at, _)| (offset(*at) / step).max(0.0) as usize);
    let mut carried: Option<(f64, f64)> = None;
    let values = (0..dots)
        .map(|dot| {
            let (from, to) = (dot as f64 * step, (dot + 1) as f64 * step);
            let before = carried;
            let mut worst: Option<f64> = None;
            // The last dot takes what was measured up to now.
            let to = if dot + 1 == dots { to + 1.0 } else { to };
            while let Some((at, value)) = samples.next_if(|(at, _)| offset(*at) < to) {
                carried = value.map(|v| (offset(*at), v));
                if offset(*at) >= from {
                    worst = match (worst, *value) {
                        (Some(a), Some(b)) => Some(a.max(b)),
                        (a, b) => a.or(b),
                    };
                }
            }
            let held = before
                .or(carried)
                .filter(|(at, _)| from - at <= hold)
                .map(|(_, v)| v);
            worst.or(if carried.is_some() { held } else { None })
        })
        .collect();
    (values, known_from)
}

/// The drain line: from now down to low, at the present slope.
fn prediction(scene: &Scene<'_>, signal: &SignalView, axis: Axis) -> Vec<f64> {
    let (Some(value), Some(slope)) = (scene.fresh(signal), signal.slope) else {
        return Vec::new();
    };
    if slope >= 0.0 {
        return Vec::new();
    }
    let dots = usize::from(axis.cells - axis.past) * 2;
    (0..dots)
        .map(|i| value + slope * (i as f64 + 0.5) * axis.cell / 2.0)
        .take_while(|v| *v >= signal.low * 0.9)
        .collect()
}

/// What the labels need to know of the chart.
struct Labels {
    columns: u16,
    with_low: bool,
    peak: f64,
}

fn labels(
    canvas: &mut Canvas<'_>,
    area: Rect,
    scene: &Scene<'_>,
    signal: &SignalView,
    chart: &Chart<'_>,
    Labels {
        columns,
        with_low,
        peak,
    }: Labels,
) {
    let look = scene.look;
    let (x, end) = (area.right() - columns + 1, area.right());
    let rows = area.height;
    let mut taken = Vec::new();
    let levels = [
        ("hard", signal.hard, Token::Bad),
        ("soft", signal.soft, Token::Warn),
        ("low", signal.low, Token::Muted),
    ];
    for (word, value, token) in levels.into_iter().take(if with_low { 3 } else { 2 }) {
        let Some(row) = chart.row_of(value, rows) else {
            continue;
        };
        if row < rows && !taken.contains(&row) {
            let text = format!("{word} {}", level(value, signal.unit));
            canvas.put(x, area.bottom() - 1 - row, end, &text, look.ink(token));
            taken.push(row);
        }
    }
    if rows >= 12 && signal.critical > chart.top && !taken.contains(&(rows - 1)) {
        let text = match columns {
            ROOMY.. => format!(
                "{} critical {}",
                look.glyphs.rising,
                level(signal.critical, signal.unit)
            ),
            _ => format!("{} critical", look.glyphs.rising),
        };
        canvas.put(x, area.y, end, &text, look.ink(Token::Muted));
        taken.push(rows - 1);
    }
    let fresh = scene.fresh(signal);
    let newest = fresh.unwrap_or(peak);
    if columns >= ROOMY && peak > signal.soft && newest < 0.9 * peak {
        let row = chart.row_of(peak, rows).filter(|row| !taken.contains(row));
        if let Some(row) = row {
            let text = format!("peak {}", level(peak, signal.unit));
            canvas.put(x, area.bottom() - 1 - row, end, &text, look.ink(Token::Muted));
            taken.push(row);
        }
    }
    let Some(value) = fresh.or(Scene::last(signal).map(|(_, v)| v)) else {
        return;
    };
    let own = chart.row_of(value, rows).unwrap_or(rows.saturating_sub(1));
    // `now` is never hidden: up if there is room, else down.
    let up = (own..rows).find(|row| !taken.contains(row));
    let row = up
        .or_else(|| (0..own).rev().find(|row| !taken.contains(row)))
        .unwrap_or(own);
    let (text, token) = match (fresh, scene.aged(signal)) {
        (Some(value), None) => (
            format!("now {}", level(value, signal.unit)),
            Scene::lag_token(signal, value),
        ),
        (Some(value), Some(_)) => (format!("was {}", level(value, signal.unit)), Token::Muted),
        (None, _) => ("now ?".to_owned(), Token::Warn),
    };
    // Padded, so that nothing of a longer label below it is left standing.
    let text = format!("{text:<0$}", usize::from(columns.saturating_sub(1)));
    canvas.put(x, area.bottom() - 1 - row, end, &text, look.bold(token));
}

fn limit_strip(canvas: &mut Canvas<'_>, x: u16, y: u16, scene: &Scene<'_>, axis: Axis) {
    let look = scene.look;
    let mut last = None;
    let steps = changes(
        scene,
        axis,
        |(_, limit, _)| *limit,
        |column, limit| {
            let token = match last {
                _ if limit == 0 => Token::Bad,
                Some(before) if limit < before => Token::Warn,
                _ => Token::Muted,
            };
            last = Some(limit);
            Step {
                column,
                text: limit.to_string(),
                value: look.bold(token),
                line: look.half(token),
            }
        },
    );
    draw_strip(canvas, x, y, axis.past, &steps);
    canvas.put(
        x + axis.cells + 1,
        y,
        x + axis.cells + axis.labels,
        "limit",
        look.ink(Token::Muted),
    );
}

fn running_strip(canvas: &mut Canvas<'_>, x: u16, y: u16, scene: &Scene<'_>, axis: Axis) {
    let look = scene.look;
    let mut first = true;
    let steps = changes(
        scene,
        axis,
        |(_, _, running)| *running,
        |column, running| {
            let token = if first { Token::Muted } else { Token::Text };
            first = false;
            Step {
                column,
                text: running.to_string(),
                value: look.bold(token),
                line: look.half(Token::Muted),
            }
        },
    );
    draw_strip(canvas, x, y, axis.past, &steps);
    canvas.put(
        x + axis.cells + 1,
        y,
        x + axis.cells + axis.labels,
        "running",
        look.ink(Token::Muted),
    );
}

/// The columns at which a value changes; what held before the axis begins stands in its first column.
fn changes(
    scene: &Scene<'_>,
    axis: Axis,
    value: impl Fn(&(Time, u32, u32)) -> u32,
    mut step: impl FnMut(u16, u32) -> Step,
) -> Vec<Step> {
    let mut steps: Vec<(u16, u32)> = Vec::new();
    for entry in &scene.feed.limits {
        let value = value(entry);
        if steps.last().is_some_and(|(_, last)| *last == value) {
            continue;
        }
        let column = if entry.0 < axis.start {
            Some(0)
        } else {
            axis.cell_of(entry.0)
        };
        let Some(column) = column else { continue };
        let column = column.min(axis.past.saturating_sub(1));
        // Two changes in one column: the later one is what came of it.
        while steps
            .last()
            .is_some_and(|(c, _)| *c == column && steps.len() > usize::from(column > 0))
        {
            steps.pop();
        }
        if steps.last().is_none_or(|(_, last)| *last != value) {
            steps.push((column, value));
        }
    }
    steps
        .into_iter()
        .map(|(column, value)| step(column, value))
        .collect()
}

/// Times centred under round minutes.
fn times(canvas: &mut Canvas<'_>, x: u16, y: u16, scene: &Scene<'_>, axis: Axis) {
    let minutes = match axis.cell * f64::from(axis.cells) {
        ..400.0 => 1,
        ..2_000.0 => 5,
        _ => 15,
    };
    let local = axis.start.with_timezone(&scene.zone);
    let into = i64::from(local.minute() % minutes) * 60 + i64::from(local.second());
    let mut at = axis.start - TimeDelta::seconds(into);
    loop {
        at += TimeDelta::minutes(i64::from(minutes));
        let Some(cell) = axis.cell_of(at) else { return };
        if cell >= 2 && cell + 3 <= axis.cells {
            let text = at.with_timezone(&scene.zone).format("%H:%M").to_string();
            canvas.put(x + cell - 2, y, x + cell + 3, &text, scene.look.ink(Token::Faint));
        }
    }
}

/// Seconds until a falling lag is at a level; `None` when it is not falling or below already.
pub(super) fn seconds_to(scene: &Scene<'_>, signal: &SignalView, level: f64) -> Option<f64> {
    let value = scene.fresh(signal)?;
    let trend = Trend::of(signal, value)?;
    (trend.slope < 0.0 && value > level).then(|| (level - value) / trend.slope)
}
