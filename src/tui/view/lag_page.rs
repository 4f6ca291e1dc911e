//! The lag panel opened to a page: a tall chart, all signals of the order, and the rule that speaks now.

use super::{
    lag::{self, Around, ROOMY, SLIM},
    lag_heat::Heatmap,
    numbers::{age, lag as value_of, level, slope},
    overlay::law_line,
    scene::Scene,
    sentences::why,
    trend::Trend,
};
use crate::{
    domain::state::Backfill,
    tui::{
        model::SignalView,
        theme::Token,
        widgets::{
            canvas::{Canvas, p},
            fit::wrap,
        },
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

/// Rows of the chart with a heatmap under it: at least, and enough where rows of the heatmap would be missing.
const LEAST_CHART: u16 = 3;
const ENOUGH: u16 = 8;
/// From so many rows on there is room for air between the blocks, and for both sentences.
const AIRY: u16 = 24;

/// Draws the page between header and footer.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    canvas.clear(area, Token::Bg);
    let Some(backfill) = scene.backfill else { return };
    let mut signals: Vec<&SignalView> = backfill
        .spec
        .signals
        .iter()
        .filter_map(|name| scene.feed.signals.get(name))
        .collect();
    let airy = area.height >= AIRY;
    let mut parts = Parts::new(scene, backfill, area, airy, signals.len());
    let heat = parts.heatmap(scene, area);
    if heat.is_none() {
        parts = parts.without_heat();
    } else if !airy {
        // The one that binds is there, however many there are.
        let binds = |s: &&SignalView| scene.signal.is_some_and(|b| b.name == s.name);
        signals.sort_by_key(|s| !binds(s));
    }
    let around = Around {
        running: parts.chart >= 8,
        times: parts.chart >= 6,
        labels: match (&heat, area.width) {
            (Some(_), WITH_NOTES..) => NOTES,
            (Some(_), ..120) => SLIM,
            _ => ROOMY,
        },
        actions: true,
        heat: heat.as_ref(),
        law: None,
    };
    let at = Rect {
        x: area.x + 1,
        width: area.width.saturating_sub(2),
        height: parts.chart,
        ..area
    };
    lag::draw(canvas, at, scene, around);
    let mut y = area.y + parts.chart + 1;
    let table = Rect {
        y,
        height: parts.table,
        ..area
    };
    y = signal_table(canvas, table, scene, &signals, !parts.dense);
    if !parts.dense {
        y += 1;
    }
    for (head, line) in &parts.lines {
        if y < area.bottom() {
            canvas.put(area.x + 1, y, area.right(), head, scene.look.ink(Token::Faint));
            canvas.put(area.x + 6, y, area.right() - 1, line, scene.look.ink(Token::Text));
        }
        y += 1;
    }
}

/// Where there is room for what is said beside a part's number, and for it so many columns.
const WITH_NOTES: u16 = 160;
const NOTES: u16 = 30;

/// How the rows of the page are divided.
struct Parts {
    /// Rows of the chart with everything on its axis.
    chart: u16,
    table: u16,
    /// Signals that there are, of more than six only six.
    signals: u16,
    /// Sentences, each line with what stands before it.
    lines: Vec<(&'static str, String)>,
    /// Without air, so that everything has a row.
    dense: bool,
    /// The height of all.
    height: u16,
}

impl Parts {
    fn new(scene: &Scene<'_>, backfill: &Backfill, area: Rect, airy: bool, signals: usize) -> Self {
        let room = area.width.saturating_sub(7);
        let two = |head: &'static str, text: &str| -> Vec<(&'static str, String)> {
            let lines = wrap(text, room).into_iter().take(2).enumerate();
            lines.map(|(i, l)| (if i == 0 { head } else { "" }, l)).collect()
        };
        let law = law_line(scene, backfill).map_or_else(Vec::new, |says| two("law", &says));
        let rule = two("rule", &why(scene.feed, backfill, scene.now));
        // The header says the rule, too, if in fewer words: where rows are few it goes first.
        let lines = match (law.is_empty(), airy) {
            (false, false) => law,
            _ => law.into_iter().chain(rule).collect(),
        };
        let dense = !airy;
        let signals = signals.min(6) as u16;
        let table = if dense { signals.min(3) + 1 } else { signals + 2 };
        let mut parts = Self {
            chart: 0,
            signals,
            table,
            lines,
            dense,
            height: area.height,
        };
        parts.chart = parts.left();
        parts
    }

    /// What is left for the chart: a blank row before the table, and one before the sentences where there is room.
    fn left(&self) -> u16 {
        let air = if self.dense { 1 } else { 2 };
        self.height
            .saturating_sub(self.table + self.lines.len() as u16 + air)
    }

    /// Without a heatmap there is always room for air.
    fn without_heat(self) -> Self {
        let mut parts = Self {
            table: self.signals.min(6) + 2,
            dense: false,
            ..self
        };
        parts.chart = parts.left();
        parts
    }

    /// The heatmap, in what title, strips and the chart's own least rows leave; of much room the chart keeps some.
    fn heatmap<'a>(&self, scene: &Scene<'a>, area: Rect) -> Option<Heatmap<'a>> {
        let room = self.chart.checked_sub(1 + 3)?;
        let chart = ((room + 1) * 2 / 5).clamp(LEAST_CHART, ENOUGH);
        Heatmap::new(scene, area.width.saturating_sub(2), room.checked_sub(chart)?)
    }
}

/// One row a signal; the one that binds is the selected row. `roomy`: its title has a row of its own. Returns the row
/// after it.
fn signal_table(
    canvas: &mut Canvas<'_>,
    area: Rect,
    scene: &Scene<'_>,
    signals: &[&SignalView],
    roomy: bool,
) -> u16 {
    let look = scene.look;
    let (x, end) = (area.x + 1, area.right().saturating_sub(1));
    let faint = look.ink(Token::Faint);
    let columns = if area.width >= 120 { &WIDE } else { &NARROW };
    let after = canvas.put(x, area.y, end, "SIGNALS", look.bold(Token::Muted));
    if roomy {
        let says = "the smallest proposal is the limit";
        canvas.put(after + 2, area.y, end, says, faint);
    }
    let heads = area.y + u16::from(roomy);
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
    let old = scene.aged(signal);
    let now = match fresh {
        Some(value) if old.is_some() => p(value_of(value, signal.unit), look.ink(Token::Muted)),
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
        (None, Some((at, _))) if old.is_some() => {
            p(format!("late {}", age(scene.now - at)), look.ink(Token::Warn))
        }
        (None, Some((at, _))) => p(format!("ok {}", age(scene.now - at)), look.ink(Token::Muted)),
        (None, None) => p("no sample yet", look.ink(Token::Warn)),
    };
    canvas.put(health_x, y, end, &health.text, health.style);
}
