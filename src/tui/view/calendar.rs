//! The heatmap: days of years, weeks of years, the legend. Cells hold identities; rows and columns are only drawn.

use super::{
    fold::{Row, arrange},
    memo,
    numbers::{clock, count, percent},
    rollup::{Year, years},
    scene::Scene,
};
use crate::{
    domain::{
        ids::ChunkId,
        state::{Backfill, Chunk, ChunkState},
    },
    tui::{
        model::{Panel, Zoom},
        theme::Token,
        widgets::{
            canvas::{Canvas, Piece, p, width},
            heat::{Face, cell},
        },
    },
};
use chrono::{Datelike, NaiveDate};
use ratatui::layout::{Position, Rect};
use std::rc::Rc;

/// Column of the first cell; before it stand years and weekdays.
pub(super) const GRID: u16 = 7;

/// Legend order: needs you, moving, waiting, done.
const ORDER: [ChunkState; ChunkState::COUNT] = [
    ChunkState::Failed,
    ChunkState::Quarantined,
    ChunkState::Uncertain,
    ChunkState::Running,
    ChunkState::Verifying,
    ChunkState::Submitting,
    ChunkState::Queued,
    ChunkState::Held,
    ChunkState::Pending,
    ChunkState::Done,
    ChunkState::Skipped,
    ChunkState::Cancelled,
    ChunkState::Unread,
    ChunkState::Absent,
];

/// The years on screen, the cursor's one, and what is marked.
pub(super) struct Calendar<'a> {
    scene: &'a Scene<'a>,
    backfill: &'a Backfill,
    first: i32,
    last: i32,
    /// The year that is never folded and never scrolled away.
    pub home: i32,
    /// First day of the chunk under the cursor.
    cursor: Option<NaiveDate>,
    /// Civil days of the range selection, half-open.
    range: Option<(NaiveDate, NaiveDate)>,
}

impl<'a> Calendar<'a> {
    pub fn new(scene: &'a Scene<'a>) -> Option<Self> {
        let backfill = scene.backfill?;
        let (first, last) = years(backfill)?;
        let cursor = scene
            .app
            .cursor
            .and_then(|id| backfill.chunk(id))
            .map(|c| c.id.date);
        let busy = backfill.active().next().map(|c| c.id.date.year());
        let home = cursor.map(|d| d.year()).or(busy).unwrap_or(first);
        let range = scene.app.range_from.zip(scene.app.cursor).and_then(|(a, b)| {
            let (a, b) = (backfill.chunk(a)?, backfill.chunk(b)?);
            let (a, b) = if a.interval.start <= b.interval.start {
                (a, b)
            } else {
                (b, a)
            };
            Some((a.id.date, last_day(backfill, b).succ_opt()?))
        });
        Some(Self {
            scene,
            backfill,
            first,
            last,
            home,
            cursor,
            range,
        })
    }

    /// How many years the backfill touches.
    pub fn years(&self) -> usize {
        (self.last - self.first + 1) as usize
    }

    fn roll(&self, year: i32) -> Rc<Year> {
        memo::year(self.scene, self.backfill, year)
    }

    /// Days that are marked one by one, as positions in a year.
    fn marked(&self, year: &Year) -> Vec<bool> {
        let mut days = vec![false; year.days.len()];
        let mut mark = |from: NaiveDate, to: NaiveDate| {
            let first = NaiveDate::from_yo_opt(year.year, 1).unwrap_or(NaiveDate::MIN);
            let at = |d: NaiveDate| (d - first).num_days().clamp(0, days.len() as i64) as usize;
            let (from, to) = (at(from), at(to));
            days[from..to.max(from)].fill(true);
        };
        if let Some((from, to)) = self.range {
            mark(from, to);
        }
        let marks = &self.scene.app.marks;
        // Ids sort by date, so only those of this year and the month before it are looked at.
        let (from, to) = (
            format!("{:04}-12-01", year.year - 1),
            format!("{:04}", year.year + 1),
        );
        for id in marks.range(from..to) {
            let chunk = id.parse::<ChunkId>().ok().and_then(|id| self.backfill.chunk(id));
            if let Some(chunk) = chunk {
                let end = last_day(self.backfill, chunk).succ_opt().unwrap_or(chunk.id.date);
                mark(chunk.id.date, end);
            }
        }
        days
    }

    fn face(&self, marked: &[bool], date: Option<NaiveDate>) -> Face {
        match date {
            Some(date) if self.cursor == Some(date) => Face::Cursor,
            Some(date) if marked.get(date.ordinal0() as usize) == Some(&true) => Face::Marked,
            _ => Face::Plain,
        }
    }

    /// The face of a week: the cursor's if it is inside, marked if all its days inside the range are.
    fn week_face(&self, year: &Year, marked: &[bool], column: u16) -> Face {
        let dates = (0..7).filter_map(|row| year.date(column, row).map(|date| (row, date)));
        if dates.clone().any(|(_, date)| self.cursor == Some(date)) {
            return Face::Cursor;
        }
        let mut inside = dates
            .filter(|(row, _)| year.day(column, *row).is_some())
            .peekable();
        let all = inside.peek().is_some()
            && inside.all(|(_, date)| marked.get(date.ordinal0() as usize) == Some(&true));
        if all { Face::Marked } else { Face::Plain }
    }

    /// Draws years of days into `rows` rows, folding what is calm where space is short. Returns the rows used, the
    /// number of years that are not on screen, and where the cursor is.
    pub fn days(&self, canvas: &mut Canvas<'_>, area: Rect, pitch: u16) -> Drawn {
        let near = i32::from(area.height);
        let candidates: Vec<Rc<Year>> = ((self.home - near).max(self.first)
            ..=(self.home + near).min(self.last))
            .map(|year| self.roll(year))
            .collect();
        let home = candidates.iter().position(|y| y.year == self.home).unwrap_or(0);
        let busy: Vec<bool> = candidates.iter().map(|y| y.busy).collect();
        let plan = arrange(&busy, home, area.height);
        let mut drawn = Drawn::default();
        let mut y = area.y;
        for Row { index, folded } in &plan {
            let Some(year) = candidates.get(*index) else {
                continue;
            };
            let at = Rect { y, ..area };
            let cursor = if *folded {
                self.label(canvas, at, year, false, true);
                y += 1;
                self.weeks(canvas, at.x + GRID, at.y, pitch, year, true)
            } else {
                self.label(canvas, at, year, true, true);
                y += 8;
                self.weekdays(canvas, Rect { y: at.y + 1, ..at }, pitch, year)
            };
            drawn.cursor = drawn.cursor.or(cursor);
        }
        drawn.rows = y - area.y;
        drawn.hidden = self.years() - plan.len();
        drawn
    }

    /// Seven rows of days.
    pub fn weekdays(&self, canvas: &mut Canvas<'_>, area: Rect, pitch: u16, year: &Year) -> Option<Position> {
        let marked = self.marked(year);
        let mut cursor = None;
        for (row, name) in ["Mo", "", "We", "", "Fr", "", "Su"].into_iter().enumerate() {
            let y = area.y + row as u16;
            canvas.put(
                area.x + 3,
                y,
                area.x + GRID,
                name,
                self.scene.look.ink(Token::Faint),
            );
            for column in 0..year.columns() {
                let date = year.date(column, row as u16);
                let state = year.day(column, row as u16).map(|c| c.state);
                let face = self.face(&marked, date);
                let x = area.x + GRID + column * pitch;
                cell(canvas, x, y, pitch, state, face);
                if face == Face::Cursor {
                    cursor = Some(Position::new(x + pitch - 1, y));
                }
            }
        }
        cursor
    }

    /// One row of weeks. Only one place on screen shows the cursor, so it can be left out.
    pub fn weeks(
        &self,
        canvas: &mut Canvas<'_>,
        x: u16,
        y: u16,
        pitch: u16,
        year: &Year,
        with_cursor: bool,
    ) -> Option<Position> {
        let marked = self.marked(year);
        let mut cursor = None;
        for column in 0..year.columns() {
            let face = match self.week_face(year, &marked, column) {
                Face::Cursor if !with_cursor => Face::Plain,
                face => face,
            };
            let x = x + column * pitch;
            cell(canvas, x, y, pitch, year.week(column).map(|c| c.state), face);
            if face == Face::Cursor {
                cursor = Some(Position::new(x + pitch - 1, y));
            }
        }
        cursor
    }

    /// The year's number, its months, and how much of it is done at the right edge.
    fn label(&self, canvas: &mut Canvas<'_>, area: Rect, year: &Year, months: bool, bold: bool) {
        let look = self.scene.look;
        let style = if bold {
            look.bold(Token::Bright)
        } else {
            look.ink(Token::Muted)
        };
        canvas.put(area.x + 1, area.y, area.x + GRID, &year.year.to_string(), style);
        if months {
            self.months(canvas, area.x + GRID, area.y, 2, year);
        }
        let done = percent(year.settled, year.chunks, false);
        let ink = if year.settled == 0 {
            Token::Faint
        } else {
            Token::Muted
        };
        canvas.right(area.x, area.y, area.right() - 1, &[p(done, look.ink(ink))]);
    }

    /// Month names over the week that holds the first of the month.
    fn months(&self, canvas: &mut Canvas<'_>, x: u16, y: u16, pitch: u16, year: &Year) {
        let style = self.scene.look.ink(Token::Muted);
        for month in 1..=12 {
            if let Some(first) = NaiveDate::from_ymd_opt(year.year, month, 1) {
                let x = x + year.place(first).0 * pitch;
                canvas.put(x, y, x + 3, &first.format("%b").to_string(), style);
            }
        }
    }

    /// Years as rows of weeks, `gap` rows apart; with a gap the failed are counted under their week.
    pub fn zoomed_out(&self, canvas: &mut Canvas<'_>, area: Rect, pitch: u16) -> Drawn {
        let mut drawn = Drawn::default();
        if area.height < 2 {
            return drawn;
        }
        let look = self.scene.look;
        let all = self.years() as u16;
        let rows = area.height - 1;
        let step = if all.saturating_mul(2) <= rows + 1 { 2 } else { 1 };
        let shown = all.min(rows.div_ceil(step));
        let home = (self.home - self.first).clamp(0, i32::from(all) - 1) as u16;
        // The cursor's year stays in the middle until an end is reached.
        let top = home.saturating_sub(shown / 2).min(all - shown);
        let home_year = self.roll(self.home);
        self.months(canvas, area.x + GRID, area.y, pitch, &home_year);
        let edge = area.right() - 1;
        // Six columns for the percents, else the weeks keep the room.
        let with_done = area.width >= GRID + 54 * pitch + 7 - u16::from(pitch > 1);
        if with_done {
            canvas.right(area.x, area.y, edge, &[p("done", look.ink(Token::Faint))]);
        }
        for i in 0..shown {
            let year = self.roll(self.first + i32::from(top + i));
            let y = area.y + 1 + i * step;
            let bold = year.year == self.home;
            let style = look.ink(if bold { Token::Bright } else { Token::Text });
            let style = if bold { look.bold(Token::Bright) } else { style };
            canvas.put(area.x + 1, y, area.x + GRID, &year.year.to_string(), style);
            let cursor = self.weeks(canvas, area.x + GRID, y, pitch, &year, true);
            drawn.cursor = drawn.cursor.or(cursor);
            let done = percent(year.settled, year.chunks, true);
            let ink = if year.settled == 0 {
                Token::Faint
            } else {
                Token::Text
            };
            if with_done {
                canvas.right(area.x, y, edge, &[p(done, look.ink(ink))]);
            }
            if step == 2 {
                self.failed_under(canvas, area.x + GRID, y + 1, pitch, &year);
            }
        }
        drawn.rows = 1 + shown * step - u16::from(step == 2 && shown > 0);
        drawn.hidden = usize::from(all - shown);
        drawn
    }

    fn failed_under(&self, canvas: &mut Canvas<'_>, x: u16, y: u16, pitch: u16, year: &Year) {
        let style = self.scene.look.bold(Token::Bad);
        let mut free = 0;
        for column in 0..year.columns() {
            let failed = year.week(column).map_or(0, |c| c.failed);
            let end = x + (column + 1) * pitch;
            if failed > 0 {
                let text = if failed > 999 {
                    "999".to_owned()
                } else {
                    failed.to_string()
                };
                // Two digits may reach into the free column before, three into the one after.
                let from = end.saturating_sub(text.len() as u16).max(free);
                free = canvas.put(from, y, from + 3, &text, style) + 1;
            }
        }
    }

    /// Small screens: rows of weeks for all years near the cursor, months, then the days of the cursor's year.
    pub fn narrow(&self, canvas: &mut Canvas<'_>, area: Rect, week_rows: u16, days: bool) -> Drawn {
        let mut drawn = Drawn::default();
        let look = self.scene.look;
        let all = self.years() as u16;
        let shown = all.min(week_rows);
        let home = (self.home - self.first).clamp(0, i32::from(all) - 1) as u16;
        let top = home.saturating_sub(shown / 2).min(all - shown);
        for i in 0..shown {
            let year = self.roll(self.first + i32::from(top + i));
            let y = area.y + i;
            let is_home = year.year == self.home;
            let style = if is_home {
                look.bold(Token::Bright)
            } else {
                look.ink(Token::Muted)
            };
            canvas.put(area.x + 1, y, area.x + GRID, &year.year.to_string(), style);
            let cursor = self.weeks(canvas, area.x + GRID, y, 1, &year, !days);
            drawn.cursor = drawn.cursor.or(cursor);
        }
        drawn.rows = shown;
        if days {
            let year = self.roll(self.home);
            let y = area.y + shown;
            if shown == 0 {
                let style = look.bold(Token::Bright);
                canvas.put(area.x + 1, y, area.x + GRID, &year.year.to_string(), style);
            }
            self.months(canvas, area.x + GRID, y, 1, &year);
            drawn.cursor = self.weekdays(canvas, Rect { y: y + 1, ..area }, 1, &year);
            drawn.rows = shown + 8;
        }
        drawn.hidden = usize::from(all - shown);
        drawn
    }
}

/// What a drawing took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Drawn {
    pub rows: u16,
    pub hidden: usize,
    pub cursor: Option<Position>,
}

/// The last civil day inside a chunk.
pub(super) fn last_day(backfill: &Backfill, chunk: &Chunk) -> NaiveDate {
    let last = chunk.interval.end - chrono::TimeDelta::seconds(1);
    last.with_timezone(&backfill.spec.timezone)
        .date_naive()
        .max(chunk.id.date)
}

/// `1 CALENDAR`, the counts, and at the right what is zoomed. Whole counts are dropped from the right.
pub(super) fn title(canvas: &mut Canvas<'_>, y: u16, end: u16, scene: &Scene<'_>, hidden: usize) {
    let look = scene.look;
    let mut right = Vec::new();
    if hidden > 0 {
        right.push(p(
            format!("{} not shown  ", super::numbers::of(hidden as u64, "year")),
            look.ink(Token::Faint),
        ));
    }
    right.push(p("zoom ", look.ink(Token::Faint)));
    let zoom = if scene.app.zoom == Zoom::Days {
        "days"
    } else {
        "years"
    };
    right.push(p(zoom, look.ink(Token::Text)));
    let right_x = end.saturating_sub(width(&right));
    let x = name(canvas, 1, y, right_x, scene, 1, "CALENDAR", Panel::Calendar);
    let x = remarks(canvas, x, y, right_x, scene);
    canvas.items(x + 3, y, right_x.saturating_sub(2), 2, &legend(scene));
    canvas.right(x, y, end, &right);
}

/// A filter with what it hides, and an age when the data is old.
pub(super) fn remarks(canvas: &mut Canvas<'_>, x: u16, y: u16, end: u16, scene: &Scene<'_>) -> u16 {
    let look = scene.look;
    let mut x = x;
    if let Some(at) = stale(scene) {
        let text = format!("as of {}", clock(at, scene.now, scene.zone));
        x = canvas.put(x + 2, y, end, &text, look.ink(Token::Warn));
    }
    if let Some(backfill) = scene.backfill.filter(|_| scene.filter.is_on()) {
        let hidden = memo::hidden(scene, backfill);
        let text = format!("{}: {} hidden", scene.filter.words(), count(hidden));
        x = canvas.put(x + 2, y, end, &text, look.bold(Token::Accent));
    }
    x
}

/// Since when what is drawn is not known to be true any more (case B13).
fn stale(scene: &Scene<'_>) -> Option<chrono::DateTime<chrono::Utc>> {
    let old = scene.feed.problem.is_some() || (scene.now - scene.feed.as_of).num_seconds() > 3;
    if old {
        return Some(scene.feed.as_of);
    }
    if let Some(backfill) = scene.backfill.filter(|b| b.spec.attach.is_some()) {
        return super::theirs::stale(backfill, scene.now);
    }
    // The journal is fresh, but no executor has answered for a while: what runs may not run any more.
    let seen = scene.feed.executors.values().map(|e| e.seen);
    let newest = seen.max().flatten();
    let all_down =
        !scene.feed.executors.is_empty() && scene.feed.executors.values().all(|e| e.problem.is_some());
    newest.filter(|_| all_down && scene.n(ChunkState::Uncertain) > 0)
}

/// A panel's title: its digit in accent, its name in capitals, in accent when it has the keys.
#[allow(clippy::too_many_arguments)] // A place, a digit, a name and who has the keys: no two of them belong together.
pub(super) fn name(
    canvas: &mut Canvas<'_>,
    x: u16,
    y: u16,
    end: u16,
    scene: &Scene<'_>,
    digit: u8,
    name: &str,
    panel: Panel,
) -> u16 {
    let look = scene.look;
    let focused = scene.app.focus == panel && scene.app.layers.is_empty();
    let style = look.bold(if focused { Token::Accent } else { Token::Muted });
    let x = canvas.put(x, y, end, &format!("{digit} "), look.bold(Token::Accent));
    canvas.put(x, y, end, name, style)
}

/// The counts, one item a state; a count of zero is not there.
pub(super) fn legend<'a>(scene: &Scene<'_>) -> Vec<Vec<Piece<'a>>> {
    states(scene)
        .map(|(state, n)| {
            let [sign, word, number] = legend_row(scene, state, n);
            let (gap, space) = (scene.look.ink(Token::Text), " ");
            vec![sign, p(space, gap), word, p(space, gap), number]
        })
        .collect()
}

/// The states that are there, in the order of the legend.
pub(super) fn states<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = (ChunkState, u64)> + 'a {
    ORDER.into_iter().map(|s| (s, scene.n(s))).filter(|(_, n)| *n > 0)
}

/// Sign, word and number of a state.
pub(super) fn legend_row<'a>(scene: &Scene<'_>, state: ChunkState, n: u64) -> [Piece<'a>; 3] {
    use ChunkState as S;
    let look = scene.look;
    let glyph = look.glyphs.narrow(state).to_string();
    let alarm = matches!(state, S::Failed | S::Quarantined | S::Uncertain);
    let sign = match look.tile(state) {
        _ if state == S::Done => look.ink(Token::DoneInk),
        Some(tile) => tile,
        None => look.state_ink(state),
    };
    let word = look.ink(if alarm { Token::Text } else { Token::Muted });
    let number = if alarm {
        look.bold(Token::Text).patch(look.word(state))
    } else {
        look.ink(Token::Text)
    };
    [p(glyph, sign), p(state.word(), word), p(count(n), number)]
}
