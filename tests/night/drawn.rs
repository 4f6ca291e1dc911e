//! Screens of the night, as a terminal would have them.

use super::keys::hints;
use backfill::{
    domain::Time,
    tui::{
        model::{App, Feed},
        theme::Look,
        view::draw_on,
    },
};
use ratatui::{buffer::Buffer, layout::Rect};

/// Draws a screen of a size.
pub fn screen(size: (u16, u16), feed: &Feed, app: &App, look: &Look, now: Time) -> Buffer {
    let area = Rect::new(0, 0, size.0, size.1);
    let mut buf = Buffer::empty(area);
    // Of somebody else's backfill with the keys as they are.
    let theirs = app.backfill.as_ref().and_then(|id| feed.state.backfills.get(id));
    let keys = match theirs.filter(|b| b.spec.attach.is_some()) {
        Some(_) => backfill::tui::keymap::hints(app, feed),
        None => hints(),
    };
    draw_on(&mut buf, area, feed, app, look, &keys, now);
    buf
}

/// The characters of a screen, one line a row, trailing blanks cut.
pub fn text(buf: &Buffer) -> String {
    let mut out = String::new();
    for y in 0..buf.area.height {
        let line: String = (0..buf.area.width)
            .map(|x| buf[(x, y)].symbol().to_owned())
            .collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
