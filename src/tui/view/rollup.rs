//! Chunks of any length rolled up to civil days and weeks of a year. The worst state wins; a failure is never
//! averaged away.

use crate::domain::{
    calendar::Granularity,
    state::{Backfill, Chunk, ChunkState},
};
use chrono::{Datelike, Days, NaiveDate};
use std::ops::Range;

/// A day or a week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The worst state in it.
    pub state: ChunkState,
    /// Failed chunks that begin in it.
    pub failed: u32,
}

impl Cell {
    fn join(self, other: Self) -> Self {
        let worse = other.state.badness() > self.state.badness();
        Self {
            state: if worse { other.state } else { self.state },
            failed: self.failed + other.failed,
        }
    }
}

/// One civil year of a backfill.
#[derive(Debug, Clone)]
pub struct Year {
    /// Its number.
    pub year: i32,
    /// Weekday of 1 January, Monday is 0.
    pub offset: u32,
    /// One for each day of the year; `None` is outside the range.
    pub days: Vec<Option<Cell>>,
    /// Chunks that begin in it.
    pub chunks: u64,
    /// Of these done or skipped.
    pub settled: u64,
    /// Something in it runs, failed, is quarantined or uncertain.
    pub busy: bool,
}

impl Year {
    /// Rolls up one year; cost follows the chunks of that year alone.
    pub fn of(backfill: &Backfill, year: i32, shown: impl Fn(&Chunk) -> bool) -> Self {
        let first = NaiveDate::from_yo_opt(year, 1).unwrap_or(NaiveDate::MIN);
        let length = if first.leap_year() { 366 } else { 365 };
        let mut this = Self {
            year,
            offset: first.weekday().num_days_from_monday(),
            days: vec![None; length],
            chunks: 0,
            settled: 0,
            busy: false,
        };
        let zone = backfill.spec.timezone;
        let long = matches!(backfill.spec.granularity, Granularity::Week | Granularity::Month);
        let mut range = span(backfill, year);
        if long {
            // The chunk before may reach into this year.
            range.start = range.start.saturating_sub(1);
        }
        for chunk in backfill.chunks.get(range).unwrap_or_default() {
            let begins_here = chunk.id.date.year() == year;
            if begins_here {
                this.count(chunk);
            }
            if !shown(chunk) {
                continue;
            }
            let to = if long {
                chunk.interval.end.with_timezone(&zone).date_naive()
            } else {
                chunk
                    .id
                    .date
                    .checked_add_days(Days::new(1))
                    .unwrap_or(NaiveDate::MAX)
            };
            let failed = u32::from(begins_here && chunk.state == ChunkState::Failed);
            this.fill(
                first,
                chunk.id.date,
                to,
                Cell {
                    state: chunk.state,
                    failed,
                },
            );
        }
        this
    }

    fn count(&mut self, chunk: &Chunk) {
        use ChunkState as S;
        self.chunks += 1;
        self.settled += u64::from(chunk.state.is_settled());
        self.busy |= matches!(
            chunk.state,
            S::Running | S::Verifying | S::Submitting | S::Queued | S::Failed | S::Quarantined | S::Uncertain
        );
    }

    fn fill(&mut self, first: NaiveDate, from: NaiveDate, to: NaiveDate, cell: Cell) {
        let index = |date: NaiveDate| (date - first).num_days().clamp(0, self.days.len() as i64) as usize;
        let (from, to) = (index(from), index(to));
        let mut cell = cell;
        for day in self.days.get_mut(from..to).unwrap_or_default() {
            *day = Some(day.map_or(cell, |old| old.join(cell)));
            // A chunk of several days counts once.
            cell.failed = 0;
        }
    }

    /// Column and weekday row of a day of this year.
    pub fn place(&self, date: NaiveDate) -> (u16, u16) {
        let n = date.ordinal0() + self.offset;
        ((n / 7) as u16, (n % 7) as u16)
    }

    /// The day in a column and weekday row.
    pub fn day(&self, column: u16, row: u16) -> Option<Cell> {
        let n = u32::from(column) * 7 + u32::from(row);
        let index = n.checked_sub(self.offset)? as usize;
        self.days.get(index).copied().flatten()
    }

    /// How many weeks touch the year: 53 or 54.
    pub fn columns(&self) -> u16 {
        ((self.days.len() as u32 + self.offset - 1) / 7 + 1) as u16
    }

    /// A week, rolled up.
    pub fn week(&self, column: u16) -> Option<Cell> {
        (0..7).filter_map(|row| self.day(column, row)).reduce(Cell::join)
    }

    /// The date of a column and weekday row, if it lies in this year.
    pub fn date(&self, column: u16, row: u16) -> Option<NaiveDate> {
        let n = u32::from(column) * 7 + u32::from(row);
        NaiveDate::from_yo_opt(self.year, n.checked_sub(self.offset)? + 1)
    }
}

/// Positions of the chunks that begin in a year.
fn span(backfill: &Backfill, year: i32) -> Range<usize> {
    let from = backfill.chunks.partition_point(|c| c.id.date.year() < year);
    let to = backfill.chunks.partition_point(|c| c.id.date.year() <= year);
    from..to
}

/// The years that a backfill touches, first and last inclusive.
pub fn years(backfill: &Backfill) -> Option<(i32, i32)> {
    let first = backfill.chunks.first()?.id.date.year();
    let last = backfill.chunks.last()?;
    // The last instant inside, because the end itself is outside.
    let end = last.interval.end - chrono::TimeDelta::seconds(1);
    let last = end.with_timezone(&backfill.spec.timezone).date_naive().year();
    Some((first, last.max(first)))
}
