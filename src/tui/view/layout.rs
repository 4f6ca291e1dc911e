//! Where things go, as a pure function of the size of the terminal and of what there is to show.

use super::{calendar::GRID, footer, header};
use ratatui::layout::Rect;

/// How much of the screen there can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// Under 40x10: one line.
    Line,
    /// Under 80x24: header, grid, footer.
    Compact,
    /// 80 columns: weeks of all years above the days of one.
    Narrow,
    /// 120 columns: years of days, panels below.
    Full,
    /// 200x48 and more: a right column with drawer, plan and endpoints.
    Wide,
}

/// The size class of an area.
pub(super) const fn size(area: Rect) -> Size {
    match (area.width, area.height) {
        (..40, _) | (_, ..10) => Size::Line,
        (..80, _) | (_, ..24) => Size::Compact,
        (..120, _) => Size::Narrow,
        (200.., 48..) => Size::Wide,
        _ => Size::Full,
    }
}

/// Columns of the calendar with two columns a day.
pub(super) const BAND: u16 = 120;

/// The parts between header and footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    /// Row of the calendar's title.
    pub title: u16,
    /// Rows between title and footer.
    pub inner: Rect,
    /// The right column of the wide page.
    pub side: Option<Rect>,
}

/// Splits an area.
pub(super) fn page(area: Rect, size: Size) -> Page {
    let wide = size == Size::Wide;
    let roomy = wide && area.height >= 56;
    let title = area.y + header::ROWS + u16::from(roomy);
    let bottom = area.bottom().saturating_sub(footer::ROWS);
    let inner = Rect {
        x: area.x,
        y: title + 1,
        width: if wide { BAND } else { area.width },
        height: bottom.saturating_sub(title + 1),
    };
    let side = wide.then(|| Rect {
        x: area.x + BAND + 4,
        y: title,
        width: area.width - BAND - 5,
        height: bottom.saturating_sub(title),
    });
    Page { title, inner, side }
}

/// What the lower part wants at least and at best, in rows, with the blank row above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lower {
    pub best: u16,
    pub least: u16,
}

impl Lower {
    /// Chart of five rows, strip and times; when something needs explaining, sixteen rows.
    pub fn of(size: Size, tall: bool) -> Self {
        match (size, tall) {
            (Size::Narrow, false) => Self { best: 6, least: 6 },
            (Size::Narrow, true) => Self { best: 13, least: 6 },
            (_, false) => Self { best: 9, least: 7 },
            (_, true) => Self { best: 16, least: 9 },
        }
    }

    /// Rows that the calendar may use.
    pub fn leaves(self, inner: u16, least_calendar: u16) -> u16 {
        let best = inner.saturating_sub(self.best);
        if best >= least_calendar {
            best
        } else {
            inner.saturating_sub(self.least).max(least_calendar.min(inner))
        }
    }
}

/// The lower part, once it is known what the calendar used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Panels {
    pub lag: Rect,
    /// Executors and events, or what stands for them.
    pub right: Option<Rect>,
    /// Events below everything, where there is height to spare.
    pub below: Option<Rect>,
}

/// Rows of the largest chart with its title, two strips and times.
const TALLEST: u16 = 16;

/// Divides the rows under the calendar.
///
/// `tall`: something beside the chart needs explaining, so the chart leaves two rows of air where it can.
pub(super) fn panels(inner: Rect, used: u16, size: Size, tall: bool) -> Option<Panels> {
    let gap = u16::from(inner.height > used);
    let y = inner.y + used + gap;
    let height = inner.bottom().saturating_sub(y);
    if height < 3 {
        return None;
    }
    // The panel is as high as its largest chart; what is left under it goes to the events.
    let spare = height.saturating_sub(TALLEST + 1);
    let (lag_height, below) = match (spare, height) {
        (4.., _) => (TALLEST, spare),
        (_, 14..=15) if tall => (13, 0),
        _ => (height, 0),
    };
    let split = match size {
        Size::Wide => inner.width,
        Size::Narrow => 56,
        // The chart grows with half of the width beyond 120.
        _ => 70 + (inner.width - BAND) / 2,
    };
    let lag_width = match size {
        Size::Wide | Size::Narrow => split,
        _ => split - 2,
    };
    let lag = Rect {
        x: inner.x + 1,
        y,
        width: lag_width,
        height: lag_height,
    };
    let right = (size != Size::Wide).then(|| Rect {
        x: inner.x + split + 1,
        y,
        width: inner.width.saturating_sub(split + 2),
        height: if below > 0 { lag_height } else { height },
    });
    let below = (below > 0).then(|| Rect {
        x: inner.x + 1,
        y: lag.bottom() + 1,
        width: inner.width - 2,
        height: below,
    });
    Some(Panels { lag, right, below })
}

/// The right column of the wide page: drawer, plan, executors, endpoints, from top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Side {
    pub drawer: Rect,
    pub plan: Option<Rect>,
    pub executors: Rect,
    pub endpoints: Option<Rect>,
}

/// Divides the right column; the plan goes first, then the endpoints, where height is short. `deep`: the day has so
/// much to tell that the plan gives way to it.
pub(super) fn side(column: Rect, executors: u16, endpoints: u16, deep: bool) -> Side {
    let mut room = column.height.saturating_sub(14 + executors + 1);
    let mut take = |rows: u16, least: u16| {
        let rows = rows.min(room.saturating_sub(1));
        (rows >= least).then(|| {
            room -= rows + 1;
            rows
        })
    };
    let (plan, drawer) = if deep { (6, 36) } else { (11, 27) };
    let plan_rows = take(plan, 5);
    let endpoint_rows = take(endpoints, 3.min(endpoints));
    let drawer_height = (14 + room).min(drawer).min(column.height);
    let at = |y: u16, height: u16| Rect { y, height, ..column };
    let drawer = at(column.y, drawer_height);
    let mut y = drawer.bottom() + 1;
    let mut next = |rows: u16| {
        let rect = at(y, rows.min(column.bottom().saturating_sub(y)));
        y += rows + 1;
        rect
    };
    let plan = plan_rows.map(&mut next);
    let executors = next(executors);
    let endpoints = endpoint_rows.map(next);
    Side {
        drawer,
        plan,
        executors,
        endpoints,
    }
}

/// Whether weeks of a year fit side by side at all.
pub(super) const fn weeks_fit(width: u16) -> bool {
    width >= GRID + 53
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(width: u16, height: u16) -> (Size, Page) {
        let area = Rect::new(0, 0, width, height);
        (size(area), page(area, size(area)))
    }

    #[test]
    fn sizes_change_at_40_80_120_and_200_columns() {
        let sizes: Vec<Size> = [
            (39, 24),
            (80, 9),
            (79, 24),
            (80, 23),
            (80, 24),
            (119, 40),
            (120, 24),
            (200, 47),
            (200, 60),
        ]
        .map(|(w, h)| of(w, h).0)
        .into();
        use Size::*;
        assert_eq!(
            sizes,
            [Line, Line, Compact, Compact, Narrow, Narrow, Full, Full, Wide]
        );
    }

    #[test]
    fn three_years_and_nine_rows_fill_120_by_40() {
        let (size, page) = of(120, 40);
        assert_eq!(page.title, 4);
        assert_eq!(Lower::of(size, false).leaves(page.inner.height, 8), 24);
        let panels = panels(page.inner, 24, size, false).unwrap();
        assert_eq!(panels.lag, Rect::new(1, 30, 68, 8));
        assert_eq!(panels.right, Some(Rect::new(71, 30, 48, 8)));
        assert_eq!(panels.below, None);
    }

    #[test]
    fn the_wide_page_has_its_columns_where_the_look_says() {
        let (size, page) = of(200, 60);
        assert_eq!(page.title, 5);
        assert_eq!(page.side, Some(Rect::new(124, 5, 75, 53)));
        let panels = panels(page.inner, 24, size, false).unwrap();
        assert_eq!((panels.lag.y, panels.lag.height), (31, 16));
        assert_eq!(panels.below.map(|r| r.y), Some(48));
        let parts = side(page.side.unwrap(), 4, 5, false);
        assert_eq!((parts.drawer.y, parts.drawer.height), (5, 27));
        assert_eq!(parts.plan.map(|r| r.y), Some(33));
        let deep = side(page.side.unwrap(), 4, 5, true);
        assert_eq!((deep.drawer.y, deep.drawer.height), (5, 35));
        assert_eq!(deep.plan.map(|r| (r.y, r.height)), Some((41, 6)));
    }
}
