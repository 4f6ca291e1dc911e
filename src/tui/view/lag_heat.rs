//! What a signal is made of, over time: a row a part, the worst first, on the axis of the chart above and of the strips
//! below, so that cause and effect are read in one column.

use super::{
    lag::Axis,
    numbers::{lag, level},
    scene::Scene,
};
use crate::{
    config::Unit,
    domain::{Time, human},
    journal::MOST_PARTS,
    tui::{
        model::SignalView,
        parts::{PartCell, PartView},
        theme::Token,
        widgets::{
            canvas::{Canvas, Piece, p, width},
            fit::{columns, fit},
            lattice::{self, Heat},
        },
    },
};
use chrono::TimeDelta;
use ratatui::layout::Rect;
use std::cmp::Ordering;

/// The widest a name gets, and the share of the width that names take at most.
const WIDEST: u16 = 36;
const SHARE: u16 = 5;
/// Columns of a value before its note.
const VALUE: u16 = 7;
/// Fewer rows of parts than these say nothing that the chart does not.
const LEAST: u16 = 2;

/// What is drawn, once it is known how much room there is.
pub(super) struct Heatmap<'a> {
    signal: &'a SignalView,
    /// Those with a row of their own, the worst first.
    shown: Vec<Row<'a>>,
    /// What the last row stands for.
    rest: Vec<Row<'a>>,
    /// How many there are, where that is more than are recorded.
    of: Option<u64>,
    /// What all names begin with.
    prefix: &'a str,
    /// Columns of the names, with the gap after them.
    pub names: u16,
    /// Rows that it takes, with its title.
    pub rows: u16,
}

struct Row<'a> {
    name: &'a str,
    part: &'a PartView,
    /// What it last was, while that is fresh.
    last: Option<f64>,
    /// How bad that is, and how bad the worst is that is still to be seen.
    ranks: (Rank, Rank),
    /// It fell out of the record, of which only the worst are.
    fell_out: bool,
}

impl<'a> Row<'a> {
    fn new(signal: &SignalView, name: &'a str, part: &'a PartView, last: Option<f64>) -> Self {
        let seen = part.cells.iter().map(|cell| Rank::of(signal, cell.max));
        let ranks = (Rank::of(signal, last), seen.max().unwrap_or(Rank::Unknown));
        Self {
            name,
            part,
            last,
            ranks,
            fell_out: false,
        }
    }
}

/// How bad a number is, no number between hard and soft: what is not known may be anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Calm,
    Soft,
    Unknown,
    Hard,
    Critical,
}

impl Rank {
    fn of(signal: &SignalView, value: Option<f64>) -> Self {
        match value {
            None => Self::Unknown,
            Some(v) if v >= signal.critical => Self::Critical,
            Some(v) if v >= signal.hard => Self::Hard,
            Some(v) if v >= signal.soft => Self::Soft,
            Some(_) => Self::Calm,
        }
    }
}

impl<'a> Heatmap<'a> {
    /// In a page of so many columns and at most so many rows; `None` where the signal is one number only, nothing is
    /// known of its parts, or there is no room.
    pub fn new(scene: &Scene<'a>, wide: u16, rows: u16) -> Option<Self> {
        let signal = scene.signal?;
        let view = scene.feed.parts.as_deref().filter(|v| v.signal == signal.name)?;
        if view.parts.len() < usize::from(LEAST) || rows < LEAST + 1 {
            return None;
        }
        let valid = scene.fresh(signal).is_some();
        let seen = |part: &PartView| part.cells.back().map(|cell| cell.seen);
        let newest = view.parts.values().filter_map(seen).max();
        let mut all: Vec<Row<'a>> = view
            .parts
            .iter()
            .map(|(name, part)| {
                // All parts of a reading are recorded with one time.
                let is_in = seen(part) == newest;
                let last = last(scene, signal, part).filter(|_| valid && is_in);
                Row {
                    fell_out: view.of.is_some() && !is_in,
                    ..Row::new(signal, name, part, last)
                }
            })
            .collect();
        all.sort_by(|a, b| order(a, b));
        let room = usize::from(rows - 1);
        let rest = if all.len() > room {
            all.split_off(room - 1)
        } else {
            Vec::new()
        };
        let prefix = shared(&view.parts.keys().map(String::as_str).collect::<Vec<_>>());
        let longest = view.parts.keys().map(|n| columns(&n[prefix.len()..])).max()?;
        let widest = WIDEST.min(wide / SHARE);
        Some(Self {
            rows: 1 + all.len() as u16 + u16::from(!rest.is_empty()),
            names: longest.clamp(7, widest.max(7)) + 1,
            signal,
            shown: all,
            rest,
            of: view.of,
            prefix,
        })
    }

    /// Draws title and rows into `area`, whose cells begin after the names.
    pub fn draw(&self, canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, axis: Axis) {
        if area.height == 0 {
            return;
        }
        self.title(canvas, area, scene);
        let over = columns_of(axis, lattice::pitch(scene.look));
        let first = self.first();
        let soft = self.signal.soft;
        let cells = |row: &Row<'_>| fold(row.part, &over, first, self.hold(), soft);
        for (i, row) in self.shown.iter().enumerate() {
            let name = tail(
                &row.name[self.prefix.len()..],
                self.names - 1,
                scene.look.glyphs.cut_off,
            );
            let line = Line {
                y: area.y + 1 + i as u16,
                name: p(name, scene.look.ink(Token::Text)),
                cells: cells(row),
                last: row.last,
                note: &row.part.note,
            };
            self.line(canvas, area, scene, axis, &over, &line);
        }
        if !self.rest.is_empty() {
            let all: Vec<Vec<Seen>> = self.rest.iter().map(cells).collect();
            let known = self.rest.iter().map(|row| row.last);
            let line = Line {
                y: area.y + 1 + self.shown.len() as u16,
                name: p(format!("{} more", self.rest.len()), scene.look.ink(Token::Muted)),
                cells: worst_of(&all, soft),
                // They are below all others: the highest of them, and none where nothing is known of any.
                last: known.flatten().reduce(f64::max),
                note: "",
            };
            self.line(canvas, area, scene, axis, &over, &line);
        }
    }

    /// When the first part was seen: before that nobody asked.
    fn first(&self) -> Option<Time> {
        let rows = self.shown.iter().chain(&self.rest);
        rows.filter_map(|r| r.part.cells.front()).map(|c| c.at).min()
    }

    /// How long a number counts after its poll.
    fn hold(&self) -> TimeDelta {
        super::numbers::delta(self.signal.interval.mul_f64(1.5))
    }

    fn title(&self, canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
        let look = scene.look;
        let (faint, muted) = (look.ink(Token::Faint), look.ink(Token::Muted));
        let end = area.right();
        let mut x = canvas.put(area.x, area.y, end, "LAG BY PART", look.bold(Token::Muted));
        let rest = self.rest_in_words();
        let mut items = vec![vec![p(
            if rest.is_empty() {
                "worst of each minute".to_owned()
            } else {
                rest
            },
            faint,
        )]];
        if let Some(all) = self.of {
            let kept = human::with_commas(MOST_PARTS as u64);
            let words = format!("{kept} of {} parts", human::with_commas(all));
            items.push(vec![p(words, muted)]);
        }
        if !self.prefix.is_empty() {
            let begins = fit(self.prefix, 40, look.glyphs.cut_off);
            items.push(vec![p("all begin with ", faint), p(begins, muted)]);
        }
        x = canvas.items(x + 2, area.y, end, 2, &items);
        let legend = self.legend(scene);
        // All steps, else those from soft on, else as many of these as there is room for.
        let wide = |items: &[Vec<Piece<'_>>]| -> u16 { items.iter().map(|item| width(item) + 2).sum() };
        let alarms = legend.get(3..6).unwrap_or_default();
        let room = end.saturating_sub(x + 1);
        let items = if wide(&legend) <= room { &legend } else { alarms };
        let from = (end + 2).saturating_sub(wide(items)).max(x + 3);
        canvas.items(from, area.y, end, 2, items);
    }

    /// How many share the last row, and how they are.
    fn rest_in_words(&self) -> String {
        if self.rest.is_empty() {
            return String::new();
        }
        let count = |rank: Rank| {
            let of = |row: &&Row<'_>| row.ranks.0 == rank;
            self.rest.iter().filter(of).count()
        };
        let past = count(Rank::Soft) + count(Rank::Hard) + count(Rank::Critical);
        let how = match (past, count(Rank::Unknown)) {
            (0, 0) => "all below soft".to_owned(),
            (0, n) => format!("{n} without a number"),
            (n, 0) => format!("{n} past soft"),
            (n, m) => format!("{n} past soft, {m} without a number"),
        };
        format!("worst first; {} more, {how}", self.rest.len())
    }

    /// The steps, the lightest first.
    fn legend<'b>(&self, scene: &Scene<'_>) -> Vec<Vec<Piece<'b>>> {
        let s = self.signal;
        let text = |value: f64, word: &str| format!("{} {word}", level(value, s.unit));
        let steps = [
            (Heat::Step(0), format!("<{}", level(s.low / 2.0, s.unit))),
            (Heat::Step(1), level(s.low / 2.0, s.unit)),
            (Heat::Step(2), text(s.low, "low")),
            (Heat::Step(3), text(s.soft, "soft")),
            (Heat::Step(4), text(s.hard, "hard")),
            (Heat::Step(5), text(s.critical, "critical")),
            (Heat::Unknown, "no number".to_owned()),
        ];
        let pitch = lattice::pitch(scene.look);
        let item = |(heat, words): (Heat, String)| {
            let (signs, style) = lattice::signs(scene.look, heat);
            let signs: String = signs.iter().skip(usize::from(2 - pitch)).collect();
            let muted = scene.look.ink(Token::Muted);
            vec![p(signs, style), p(format!(" {words}"), muted)]
        };
        steps.into_iter().map(item).collect()
    }

    fn line(
        &self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        scene: &Scene<'_>,
        axis: Axis,
        over: &[Column],
        line: &Line<'_>,
    ) {
        let look = scene.look;
        let (x, y) = (area.x + self.names, line.y);
        if y >= area.bottom() {
            return;
        }
        canvas.put(area.x, y, x.saturating_sub(1), &line.name.text, line.name.style);
        for (column, seen) in over.iter().zip(&line.cells) {
            lattice::draw(canvas, x + column.x, y, heat(self.signal, *seen));
        }
        let old = scene.aged(self.signal).is_some();
        let style = match line.last {
            None => look.bold(Token::Warn),
            Some(_) if old => look.ink(Token::Muted),
            Some(v) => match Scene::lag_token(self.signal, v) {
                Token::Bright => look.ink(Token::Text),
                token => look.bold(token),
            },
        };
        let says = match (line.last, self.signal.unit) {
            (None, _) => "?".to_owned(),
            (Some(v), Unit::Alerts) => lag(v, Unit::Alerts),
            (Some(v), unit) => level(v, unit),
        };
        let after = x + axis.cells;
        canvas.right(after + 1, y, after + VALUE, &[p(says, style)]);
        // Half of a note is worse than none.
        let room = area.right().saturating_sub(after + VALUE + 2);
        if columns(line.note) <= room {
            canvas.put(
                after + VALUE + 2,
                y,
                area.right(),
                line.note,
                look.ink(Token::Muted),
            );
        }
    }
}

struct Line<'a> {
    y: u16,
    name: Piece<'a>,
    cells: Vec<Seen>,
    last: Option<f64>,
    note: &'a str,
}

/// The order of the rows: by their numbers now, the highest first; those without one stand between hard and soft, by
/// the worst of them that is still to be seen; what fell out of the record stands last. Equal ones stand by name, so
/// that the same numbers always make the same picture.
fn order(a: &Row<'_>, b: &Row<'_>) -> Ordering {
    let number = |row: &Row<'_>| row.last.unwrap_or_default();
    let now = a.fell_out.cmp(&b.fell_out);
    now.then_with(|| b.ranks.0.cmp(&a.ranks.0))
        .then_with(|| number(b).total_cmp(&number(a)))
        .then_with(|| b.ranks.1.cmp(&a.ranks.1))
        .then_with(|| natural(a.name, b.name))
}

/// Names in the order in which people count: partition 9 before partition 10.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
        let (n, m) = (digits(a), digits(b));
        if n > 0 && m > 0 {
            let (x, y) = (a[..n].trim_start_matches('0'), b[..m].trim_start_matches('0'));
            let order = (x.len(), x, n).cmp(&(y.len(), y, m));
            if order.is_ne() {
                return order;
            }
            (a, b) = (&a[n..], &b[m..]);
            continue;
        }
        let (mut left, mut right) = (a.chars(), b.chars());
        match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (x, y) if x != y => return x.cmp(&y),
            _ => (a, b) = (left.as_str(), right.as_str()),
        }
    }
}

/// What a part last was, if that is not too old.
fn last(scene: &Scene<'_>, signal: &SignalView, part: &PartView) -> Option<f64> {
    let cell = part.cells.back()?;
    let fresh = scene.now - cell.seen <= Scene::patience(signal);
    cell.last.filter(|v| fresh && v.is_finite())
}

/// The step of the ramp for what was seen.
fn heat(signal: &SignalView, seen: Seen) -> Heat {
    let value = match seen {
        Seen::Unasked => return Heat::Unasked,
        Seen::Gap => return Heat::Gap,
        Seen::Nothing => return Heat::Unknown,
        Seen::Worst(value) => value,
    };
    let levels = [
        signal.low / 2.0,
        signal.low,
        signal.soft,
        signal.hard,
        signal.critical,
    ];
    Heat::Step(levels.iter().filter(|level| value >= **level).count())
}

/// What was seen of a part in the time of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Seen {
    /// Nobody asked yet.
    Unasked,
    /// It was not among what was seen.
    Gap,
    /// It was asked, and gave no number.
    Nothing,
    /// The largest number.
    Worst(f64),
}

impl Seen {
    /// The worse of two. No number is worse than one below soft: no data is not good data.
    fn and(self, other: Self, soft: f64) -> Self {
        let order = |seen: Self| match seen {
            Self::Unasked => 0,
            Self::Gap => 1,
            Self::Worst(value) if value < soft => 2,
            Self::Nothing => 3,
            Self::Worst(_) => 4,
        };
        match (self, other) {
            (Self::Worst(a), Self::Worst(b)) => Self::Worst(a.max(b)),
            (a, b) if order(a) >= order(b) => a,
            (_, b) => b,
        }
    }
}

/// A column of the heatmap: where it stands, and its time in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Column {
    x: u16,
    from: i64,
    to: i64,
}

/// The columns over the past of an axis, cells of `pitch` columns that end with now. Where one is left over at the
/// beginning, its time belongs to the first of them.
fn columns_of(axis: Axis, pitch: u16) -> Vec<Column> {
    let pitch = pitch.max(1);
    let start = axis.start.timestamp_millis();
    let at = |cell: u16| start + (f64::from(cell) * axis.cell * 1_000.0) as i64;
    let over = axis.past % pitch;
    (0..axis.past / pitch)
        .map(|i| {
            let x = over + i * pitch;
            Column {
                x,
                from: at(if i == 0 { 0 } else { x }),
                to: at(x + pitch),
            }
        })
        .collect()
}

/// The worst that was seen of a part in the time of each column. A number counts for `hold` after its poll, never longer:
/// no data is not good data. `first`: when anything was first seen of the signal's parts.
fn fold(part: &PartView, over: &[Column], first: Option<Time>, hold: TimeDelta, soft: f64) -> Vec<Seen> {
    const MINUTE: i64 = 60_000;
    let first = first.map_or(i64::MAX, |at| at.timestamp_millis());
    let hold = hold.num_milliseconds();
    let until = |cell: &PartCell| cell.seen.timestamp_millis().saturating_add(hold);
    let seen = |value: Option<f64>| match value.filter(|v| v.is_finite()) {
        Some(value) => Seen::Worst(value),
        None => Seen::Nothing,
    };
    let mut begun = 0;
    over.iter()
        .map(|column| {
            // Minutes that ended before this column stay behind, but for the last one: it may still count.
            while part
                .cells
                .get(begun + 1)
                .is_some_and(|next| next.at.timestamp_millis() <= column.from)
            {
                begun += 1;
            }
            let mut worst = if column.to <= first {
                Seen::Unasked
            } else {
                Seen::Gap
            };
            for cell in part.cells.iter().skip(begun) {
                let at = cell.at.timestamp_millis();
                if at >= column.to {
                    break;
                }
                let end = (at + MINUTE).min(until(cell));
                if column.from < end {
                    worst = worst.and(seen(cell.max), soft);
                } else if column.from < until(cell) {
                    worst = worst.and(seen(cell.last), soft);
                }
            }
            worst
        })
        .collect()
}

/// Several rows in one: the worst of each column.
fn worst_of(rows: &[Vec<Seen>], soft: f64) -> Vec<Seen> {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let column = |i: usize| {
        let cells = rows.iter().filter_map(|row| row.get(i));
        cells.fold(Seen::Unasked, |worst, seen| worst.and(*seen, soft))
    };
    (0..width).map(column).collect()
}

/// What all names begin with, up to a sign between two words, as long as something is left of each.
fn shared<'a>(names: &[&'a str]) -> &'a str {
    let Some((first, others)) = names.split_first().filter(|(_, others)| !others.is_empty()) else {
        return "";
    };
    let mut end = 0;
    for (i, c) in first.char_indices() {
        let next = i + c.len_utf8();
        let Some(head) = first.get(..next) else { break };
        if !others.iter().all(|name| name.starts_with(head)) {
            break;
        }
        if matches!(c, '/' | ' ' | ':' | ',') && names.iter().all(|name| name.len() > next) {
            end = next;
        }
    }
    first.get(..end).unwrap_or("")
}

/// The end of a name in so many columns: where names are long, they differ there.
fn tail(name: &str, max: u16, mark: char) -> String {
    if columns(name) <= max {
        return name.to_owned();
    }
    let room = max.saturating_sub(1);
    let starts = name.char_indices().map(|(i, _)| i);
    let rest = starts
        .filter_map(|i| name.get(i..))
        .find(|rest| columns(rest) <= room);
    format!("{mark}{}", rest.unwrap_or(""))
}

#[cfg(test)]
#[path = "lag_heat_tests.rs"]
mod tests;
