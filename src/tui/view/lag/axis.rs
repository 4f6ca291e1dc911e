//! The time axis of the lag panel, which its chart, its heatmap and its strips share.

use crate::{domain::Time, tui::model::SignalView};
use chrono::TimeDelta;

/// The time axis.
#[derive(Debug, Clone, Copy)]
pub(in crate::tui::view) struct Axis {
    /// Its first instant.
    pub start: Time,
    /// Seconds of one cell.
    pub cell: f64,
    /// Cells of the past.
    pub past: u16,
    /// All cells.
    pub cells: u16,
    /// Columns after them.
    pub labels: u16,
}

/// How much time the chart shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    minutes: u16,
    /// The last part is to come.
    draining: bool,
}

impl Span {
    /// An hour, or less while less is known; while lag drains at most half an hour, of which the last part is to come.
    pub fn of(signal: Option<&SignalView>, now: Time, draining: bool) -> Self {
        let first = signal.and_then(|s| s.samples.front()).map(|(at, _)| *at);
        let known = first.map_or(60, |at| (now - at).num_minutes());
        let most = if draining { 30 } else { 60 };
        let minutes = match known {
            ..5 => 5,
            5..15 => 15,
            15..30 => 30,
            _ => 60,
        };
        Self {
            minutes: minutes.min(most),
            draining,
        }
    }

    pub fn words(self) -> String {
        match (self.minutes, self.draining) {
            (60, _) => "last hour".to_owned(),
            (m, true) => format!("{m}m, dots = predicted"),
            (m, false) => format!("last {m}m"),
        }
    }

    pub fn short(self) -> String {
        if self.minutes == 60 {
            "1 h".to_owned()
        } else {
            format!("{}m", self.minutes)
        }
    }
}

impl Axis {
    pub(super) fn new(cells: u16, labels: u16, now: Time, span: Span) -> Self {
        let window = f64::from(span.minutes) * 60.0;
        let future = if span.draining { cells * 10 / 56 } else { 0 };
        let cell = window / f64::from(cells.max(1));
        let past = cells - future;
        let span = TimeDelta::milliseconds((f64::from(past) * cell * 1_000.0) as i64);
        Self {
            start: now - span,
            cell,
            past,
            cells,
            labels,
        }
    }

    /// The cell of an instant, if it is on the axis.
    pub fn cell_of(&self, at: Time) -> Option<u16> {
        let offset = (at - self.start).num_milliseconds() as f64 / 1_000.0 / self.cell;
        (offset >= 0.0 && offset < f64::from(self.cells)).then_some(offset as u16)
    }
}
