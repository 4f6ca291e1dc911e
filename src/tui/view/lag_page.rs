//! The lag panel opened to a page: a tall chart, all signals of the order, and the rule that speaks now.

use super::{
    header::Trend,
    lag::{self, Around, ROOMY},
    numbers::{age, lag as value_of, level, slope},
    scene::Scene,
    sentences::why,
};
use crate::tui::{
    model::SignalView,
    theme::Token,
    widgets::{
        canvas::{Canvas, p},
        fit::wrap,
    },
};
use ratatui::layout::Rect;

/// Columns of the numbers' right edges, for 120 columns and for 80.
const WIDE: [(&str, u16); 6] = [
    ("now", 40),
    ("slope", 50),
    ("low", 58),
    ("soft", 65),
    ("hard", 72),
    ("critical", 82),
];
const NARROW: [(&str, u16); 6] = [
    ("now", 24),
    ("slope", 34),
    ("low", 41),
    ("soft", 48),
    ("hard", 55),
    ("critical", 64),
];

/// Draws the page between header and footer.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    canvas.clear(area, Token::Bg);
    let Some(backfill) = scene.backfill else { return };
    let signals: Vec<&SignalView> = backfill
        .spec
        .signals
        .iter()
        .filter_map(|name| scene.feed.signals.get(name))
        .collect();
    let sentence = wrap(
        &why(scene.feed, backfill, scene.now),
        area.width.saturating_sub(7),
    );
    let table = signals.len().min(6) as u16 + 2;
    let rule = sentence.len().min(2) as u16;
    // Below the chart: a blank row, the table, a blank row, the rule.
    let below = table + rule + 2;
    let chart = area.height.saturating_sub(below);
    let around = Around {
        running: chart >= 8,
        times: chart >= 6,
        labels: ROOMY,
        actions: true,
    };
    let at = Rect {
        x: area.x + 1,
        width: area.width.saturating_sub(2),
        height: chart,
        ..area
    };
    lag::draw(canvas, at, scene, around);
    let mut y = area.y + chart + 1;
    y = signal_table(
        canvas,
        Rect {
            y,
            height: table,
            ..area
        },
        scene,
        &signals,
    );
    for (i, line) in sentence.iter().take(usize::from(rule)).enumerate() {
        let y = y + 1 + i as u16;
        if y < area.bottom() {
            let head = if i == 0 { "rule" } else { "" };
            canvas.put(area.x + 1, y, area.right(), head, scene.look.ink(Token::Faint));
            canvas.put(area.x + 6, y, area.right() - 1, line, scene.look.ink(Token::Text));
        }
    }
}

/// One row a signal; the one that binds is the selected row.
fn signal_table(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, signals: &[&SignalView]) -> u16 {
    let look = scene.look;
    let (x, end) = (area.x + 1, area.right().saturating_sub(1));
    let faint = look.ink(Token::Faint);
    let columns = if area.width >= 120 { &WIDE } else { &NARROW };
    let after = canvas.put(x, area.y, end, "SIGNALS", look.bold(Token::Muted));
    canvas.put(
        after + 2,
        area.y,
        end,
        "the smallest proposal is the limit",
        faint,
    );
    let heads = area.y + 1;
    for (head, right) in columns {
        canvas.right(x, heads, area.x + right, &[p(*head, faint)]);
    }
    let health_x = area.x + columns.last().map_or(0, |(_, right)| right + 5);
    canvas.put(health_x, heads, end, "health", faint);
    let mut y = heads + 1;
    for signal in signals {
        if y >= area.bottom() {
            break;
        }
        row(canvas, area, y, scene, signal, columns, health_x);
        if scene.signal.is_some_and(|s| s.name == signal.name) {
            let at = Rect { y, height: 1, ..area };
            canvas.restyle(at, look.ground(Token::RowSel));
        }
        y += 1;
    }
    y
}

fn row(
    canvas: &mut Canvas<'_>,
    area: Rect,
    y: u16,
    scene: &Scene<'_>,
    signal: &SignalView,
    columns: &[(&str, u16); 6],
    health_x: u16,
) {
    let look = scene.look;
    let (x, end) = (area.x + 1, area.right().saturating_sub(1));
    let text = look.ink(Token::Text);
    canvas.put(x, y, area.x + 16, signal.name.as_str(), text);
    let fresh = scene.fresh(signal);
    let now = match fresh {
        Some(value) => p(
            value_of(value, signal.unit),
            look.bold(Scene::lag_token(signal, value)),
        ),
        None => p("?", look.bold(Token::Warn)),
    };
    let trend = fresh.and_then(|value| Trend::of(signal, value));
    let speed = match &trend {
        Some(trend) => {
            let sign = if trend.slope < 0.0 { "-" } else { "+" };
            // Text on the selected row: hues have no contrast to spare on it.
            p(format!("{sign}{}", slope(trend.slope)), text)
        }
        None => p("flat", look.ink(Token::Muted)),
    };
    let of = |value: f64| p(level(value, signal.unit), text);
    let cells = [
        now,
        speed,
        of(signal.low),
        of(signal.soft),
        of(signal.hard),
        of(signal.critical),
    ];
    for ((_, right), cell) in columns.iter().zip(cells) {
        canvas.right(x, y, area.x + right, &[cell]);
    }
    let health = match (&signal.problem, Scene::last(signal)) {
        (Some(problem), _) => p(problem.clone(), look.ink(Token::Warn)),
        (None, Some((at, _))) => p(format!("ok {}", age(scene.now - at)), look.ink(Token::Muted)),
        (None, None) => p("no sample yet", look.ink(Token::Warn)),
    };
    canvas.put(health_x, y, end, &health.text, health.style);
}
