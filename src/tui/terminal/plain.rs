//! A screen of plain lines: everything that the operator must know, nothing for the eye. It is what tests of the
//! machine look at, and what is drawn where nothing better fits.

use crate::{
    domain::{Time, text::clean},
    tui::{
        keymap::Hints,
        model::{App, Feed, Layer, LeaseView, PlanDialog, Zoom},
        update::select,
    },
};
use ratatui::{Frame, layout::Rect, text::Line, widgets::Paragraph};

/// Draws the lines from the top, the keys in the last row.
pub fn draw(frame: &mut Frame<'_>, feed: &Feed, app: &App, hints: &Hints, now: Time) {
    let area = frame.area();
    let mut lines = home(feed, app, now);
    lines.extend(
        app.layers
            .iter()
            .flat_map(|layer| layer_lines(layer, feed, app, hints)),
    );
    let room = usize::from(area.height.saturating_sub(2));
    lines.truncate(room);
    let put = |frame: &mut Frame<'_>, row: u16, text: String| {
        if row < area.height {
            let line = Rect::new(area.x, area.y + row, area.width, 1);
            frame.render_widget(Paragraph::new(Line::from(text)), line);
        }
    };
    for (row, line) in (0..).zip(lines) {
        put(frame, row, line);
    }
    let toast = app
        .toast
        .as_ref()
        .map(|(text, _)| clean(text))
        .unwrap_or_default();
    put(frame, area.height.saturating_sub(2), toast);
    let row = keys_row(hints, usize::from(area.width));
    put(frame, area.height.saturating_sub(1), row);
}

/// The keys row, whole items only; the last two are the last to go.
fn keys_row(hints: &Hints, width: usize) -> String {
    let mut keys: Vec<String> = hints
        .keys
        .iter()
        .map(|(key, verb)| format!("{key} {verb}"))
        .collect();
    while keys.len() > 2 && keys.join("  ").len() > width {
        keys.remove(keys.len() - 3);
    }
    keys.join("  ")
}

fn home(feed: &Feed, app: &App, now: Time) -> Vec<String> {
    let mut lines = vec![format!("backfill  {}", now.format("%H:%M:%S"))];
    match &feed.lease {
        LeaseView::Nobody => lines.push("nobody supervises".to_owned()),
        LeaseView::Held { holder, .. } => lines.push(format!("{} holds the lease", clean(holder))),
    }
    if let Some(origin) = app.read_only {
        lines.push(format!("READ-ONLY by {origin}"));
    }
    if let Some(error) = &feed.state.config_error {
        lines.push(format!("CONFIG REFUSED: {}", clean(error)));
    }
    if let Some(problem) = &feed.problem {
        lines.push(format!(
            "as of {}: {}",
            feed.as_of.format("%H:%M:%S"),
            clean(problem)
        ));
    }
    let Some(backfill) = select::shown(app, feed) else {
        let why = feed
            .config
            .as_ref()
            .map(|found| found.as_ref().err().map(|why| clean(why)).unwrap_or_default());
        lines.push(match why {
            Some(why) => format!("no backfill on the screen {why}"),
            None => "no backfill on the screen, reading the journal".to_owned(),
        });
        return lines;
    };
    let state = match &backfill.pause {
        Some(pause) => format!("PAUSED by {}", clean(&pause.mark.by.name)),
        None => backfill.state().word().to_uppercase(),
    };
    lines.push(format!(
        "{}  {state}  {} chunks",
        backfill.id,
        backfill.chunks.len()
    ));
    let day = app.cursor.and_then(|id| backfill.chunk(id));
    let zoom = if app.zoom == Zoom::Days { "days" } else { "years" };
    match (day, &app.why) {
        (Some(chunk), why) => {
            let why = why.as_ref().map(|w| clean(&w.text)).unwrap_or_default();
            lines.push(format!("> {} {}  {why}", chunk.id, chunk.state.word()));
        }
        (None, _) => lines.push("> no day".to_owned()),
    }
    lines.push(format!(
        "zoom {zoom}  focus {:?}  marks {}  filter {}",
        app.focus,
        app.marks.len(),
        if app.filter.is_empty() {
            "none"
        } else {
            app.filter.as_str()
        }
    ));
    lines
}

fn layer_lines(layer: &Layer, feed: &Feed, app: &App, hints: &Hints) -> Vec<String> {
    match layer {
        Layer::Drawer => vec!["[day]".to_owned()],
        Layer::Log(back) => {
            let lines = feed.log.as_ref().map_or(&[][..], |(_, lines)| lines.as_slice());
            let end = lines.len().saturating_sub(*back);
            let tail = lines.get(end.saturating_sub(10)..end).unwrap_or_default();
            std::iter::once("[log]".to_owned())
                .chain(tail.iter().map(|l| clean(l)))
                .collect()
        }
        Layer::Plan(dialog) => plan(dialog),
        Layer::Throttle(text) => vec![format!("[limit] {text}")],
        Layer::Why => {
            let why = app.why.as_ref();
            let text = why.map_or_else(
                || "nothing holds it back".to_owned(),
                |w| format!("{} {}", w.text, w.unblock),
            );
            vec![format!("[why] {}", clean(&text))]
        }
        Layer::Help(at) => {
            let lines = hints.help.iter().skip(*at);
            let line = |e: &crate::tui::keymap::HelpRow| {
                let off = e
                    .why_not
                    .as_ref()
                    .map(|why| format!("  ({why})"))
                    .unwrap_or_default();
                format!("{:12} {}{off}", e.keys, e.verb)
            };
            std::iter::once("[help]".to_owned())
                .chain(lines.map(line))
                .collect()
        }
        Layer::Palette(text, at) => {
            let rows = hints
                .palette
                .iter()
                .enumerate()
                .skip(at.saturating_sub(5))
                .take(8);
            let row = |(i, e): (usize, &crate::tui::keymap::PaletteRow)| {
                format!("{} {}  {}", if i == *at { ">" } else { " " }, e.name, e.verb)
            };
            std::iter::once(format!("[command] {text}"))
                .chain(rows.map(row))
                .collect()
        }
        Layer::Date(text) => vec![format!("[date] {text}")],
        Layer::Filter(text) => vec![format!("[filter] {text}")],
        Layer::Reason(text) => vec![format!("[reason] {text}")],
        Layer::Attach(attaching) => match &attaching.form {
            Some(form) => vec![format!("[attach] {} {:?}", form.choice.offer.dag, form.values)],
            None => vec![format!("[attach] {}", attaching.typed)],
        },
    }
}

fn plan(dialog: &PlanDialog) -> Vec<String> {
    let preview = &dialog.preview;
    let mut lines = vec![format!(
        "[plan] {}  plan {}",
        clean(&preview.title),
        preview.digest
    )];
    let all = dialog.all_days;
    for chunk in preview
        .will
        .iter()
        .skip(all.unwrap_or(0))
        .take(if all.is_some() { usize::MAX } else { 5 })
    {
        lines.push(format!("  will  {} attempt {}", chunk.chunk, chunk.attempt));
    }
    for (chunk, why) in preview
        .will_not
        .iter()
        .take(if all.is_some() { usize::MAX } else { 5 })
    {
        lines.push(format!("  not   {chunk} {}", clean(why)));
    }
    lines.extend(
        preview
            .facts
            .iter()
            .map(|(label, value)| format!("  {label}  {}", clean(value))),
    );
    lines.extend(
        dialog
            .changed
            .iter()
            .map(|line| format!("  changed {}", clean(line))),
    );
    if let Some((wanted, typed)) = &dialog.phrase {
        lines.push(format!("  type {wanted}: {typed}"));
    }
    if let Some(outcome) = &dialog.outcome {
        lines.push(format!("  {}", clean(outcome)));
    }
    lines.push("  > Cancel <   y does it   tab every day".to_owned());
    lines
}
