//! What somebody else started, as a list to choose from, and the form for what was chosen.

use super::{
    dialog::{LABEL, Row, Sheet, VALUE, class},
    footer::input,
    header::is_production,
    numbers::age,
    overlay::hidden,
    scene::Scene,
    sentences::clauses,
};
use crate::tui::{
    attaching::{Attaching, Choice, Field, Form},
    model::LeaseView,
    theme::Token,
    widgets::{
        canvas::{Canvas, Piece, p},
        fit::{columns, fit, wrap},
    },
};
use ratatui::layout::{Position, Rect};

/// Columns of the list where there is room.
const WIDTH: u16 = 100;

/// Draws the layer. Returns where something is typed.
pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    area: Rect,
    scene: &Scene<'_>,
    attaching: &Attaching,
) -> Option<Position> {
    match &attaching.form {
        Some(form) => draw_form(canvas, area, scene, form),
        None => list(canvas, area, scene, attaching),
    }
}

/// `2023-10-01 .. 2024-01-28`.
fn window(choice: &Choice) -> String {
    let days = choice.offer.window;
    days.map_or_else(String::new, |(from, to)| format!("{from} .. {to}"))
}

fn native(choice: &Choice) -> String {
    choice
        .offer
        .native
        .map_or_else(String::new, |id| format!("backfill {id}"))
}

fn list(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, attaching: &Attaching) -> Option<Position> {
    let look = scene.look;
    let (muted, key) = (look.ink(Token::Muted), look.bold(Token::Accent));
    let wide = WIDTH.min(area.width.saturating_sub(2));
    let choices = attaching.choices();
    let chosen = attaching.chosen.min(choices.len().saturating_sub(1));
    let mut body = vec![Row::blank(), Row::blank()];
    let back = LABEL as i16 - VALUE as i16;
    for piece in states(scene, attaching) {
        body.push(Row {
            label: None,
            pieces: vec![piece],
            indent: back,
        });
    }
    let heads = body.len();
    let table = Table::of(&choices, wide.saturating_sub(LABEL + 2));
    // Above and below the rows, and what is told of the chosen one.
    let around = 7 + heads as u16 + if table.fits { 0 } else { 3 };
    let room = usize::from(area.height.saturating_sub(around)).clamp(1, 14);
    let first = chosen.saturating_sub(room - 1);
    for (i, choice) in choices.iter().enumerate().skip(first).take(room) {
        let here = i == chosen;
        let mark = if here { look.glyphs.slot_used } else { ' ' };
        let mut pieces = vec![p(format!("{mark} "), key)];
        pieces.extend(table.row(scene, choice, here));
        body.push(Row {
            label: None,
            pieces,
            indent: back,
        });
    }
    // What had no room in its row is told of the chosen one.
    if let Some(choice) = choices.get(chosen).filter(|_| !table.fits) {
        body.push(Row::blank());
        for line in wrap(&choice.offer.words, wide.saturating_sub(LABEL + 4)) {
            body.push(Row {
                label: None,
                pieces: vec![p(format!("  {line}"), muted)],
                indent: back,
            });
        }
    }
    let mut last = vec![
        p("enter", key),
        p(" looks at it   ", muted),
        p("esc", key),
        p(" closes", muted),
    ];
    last.extend(hidden(scene, first, choices.len().saturating_sub(first + room)));
    let sheet = Sheet {
        title: vec![p(
            "Attach to what somebody else started",
            look.bold(Token::Bright),
        )],
        right: match choices.len() {
            0 => Vec::new(),
            n => vec![p(format!("{} of {n}", chosen + 1), muted)],
        },
        body,
        last: vec![Row {
            label: None,
            pieces: last,
            indent: back,
        }],
        bar: Token::Accent,
        width: wide,
    };
    let (at, last_y) = sheet.draw(canvas, area, scene);
    let top = if at.height < area.height {
        at.y + 3
    } else {
        at.y + 1
    };
    let y = top + (heads + chosen.saturating_sub(first)) as u16;
    if !choices.is_empty() && y < last_y {
        let row = Rect {
            x: at.x + 1,
            y,
            width: at.width - 1,
            height: 1,
        };
        canvas.restyle(row, look.ground(Token::RowSel));
    }
    if top >= last_y {
        return None;
    }
    let x = canvas.put(at.x + LABEL, top, at.right() - 2, "DAG ", key);
    let remark = if attaching.typed.is_empty() {
        "type a part of its name, or the whole; up and down choose"
    } else {
        ""
    };
    Some(input(
        canvas,
        x,
        top,
        at.right() - 2,
        &attaching.typed,
        remark,
        scene,
    ))
}

/// The columns of the list: each as wide as what stands in it.
struct Table {
    dag: u16,
    place: u16,
    native: u16,
    window: u16,
    /// What is left for the words.
    words: u16,
    /// All words fit whole.
    fits: bool,
}

impl Table {
    fn of(choices: &[Choice], room: u16) -> Self {
        let widest = |text: &dyn Fn(&Choice) -> String| {
            let widths = choices.iter().map(|c| columns(&text(c)));
            widths.max().unwrap_or(0)
        };
        let several = choices.iter().any(|c| c.executor != choices[0].executor);
        let place = widest(&|c| c.executor.to_string());
        let mut table = Self {
            dag: widest(&|c| c.offer.dag.clone()).min(28),
            place: if several { place.min(16) } else { 0 },
            native: widest(&native),
            window: widest(&window),
            words: 0,
            fits: false,
        };
        let gaps = [table.dag, table.place, table.native, table.window];
        let taken: u16 = gaps.iter().filter(|w| **w > 0).map(|w| w + 2).sum();
        // The mark stands before them.
        table.words = room.saturating_sub(taken + 2);
        table.fits = widest(&|c| c.offer.words.clone()) <= table.words;
        table
    }

    fn row<'a>(&self, scene: &Scene<'_>, choice: &Choice, here: bool) -> Vec<Piece<'a>> {
        let look = scene.look;
        let (text, muted) = (look.ink(Token::Text), look.ink(Token::Muted));
        let name = if here { look.bold(Token::Bright) } else { text };
        let words = clauses(&choice.offer.words, |s| columns(s) <= self.words);
        let words = if columns(words) <= self.words { words } else { "" };
        let cells = [
            (self.dag, choice.offer.dag.clone(), name),
            (self.place, choice.executor.to_string(), muted),
            (self.native, native(choice), text),
            (self.window, window(choice), muted),
        ];
        let mut pieces: Vec<Piece<'a>> = cells
            .into_iter()
            .filter(|(wide, ..)| *wide > 0)
            .map(|(wide, says, style)| {
                let says = fit(&says, wide, look.glyphs.cut_off);
                let blanks = " ".repeat(usize::from(wide.saturating_sub(columns(&says)) + 2));
                p(format!("{says}{blanks}"), style)
            })
            .collect();
        pieces.push(p(words.to_owned(), muted));
        pieces
    }
}

/// Executors that are being asked, that did not say, or that have nothing.
fn states<'a>(scene: &Scene<'_>, attaching: &Attaching) -> Vec<Piece<'a>> {
    let look = scene.look;
    let (muted, warn) = (look.ink(Token::Muted), look.ink(Token::Warn));
    if let Some(problem) = &attaching.problem {
        return vec![p(problem.clone(), warn)];
    }
    let asked = age(scene.now - attaching.since);
    let Some(places) = &attaching.places else {
        return vec![p(format!("asking the servers for {asked} .."), muted)];
    };
    if places.is_empty() {
        let text = "all executors here are local: there is nothing to attach to";
        return vec![p(text, warn)];
    }
    let state = |place: &crate::tui::attaching::Place| {
        let name = &place.executor;
        match &place.offers {
            None => Some(p(format!("{name}  asking for {asked} .."), muted)),
            Some(Err(why)) => Some(p(format!("{name}  {why}"), warn)),
            Some(Ok(offers)) if offers.is_empty() => Some(p(
                format!("{name}  has no unfinished backfill and no DAG with many runs: type a DAG's name"),
                muted,
            )),
            Some(Ok(_)) => None,
        }
    };
    places.iter().filter_map(state).collect()
}

fn draw_form(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, form: &Form) -> Option<Position> {
    let look = scene.look;
    let (text, muted, key) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.bold(Token::Accent),
    );
    let wide = 78u16.min(area.width.saturating_sub(2));
    let room = wide.saturating_sub(VALUE + 3);
    let mut body = Row::wrapped(&p("is", muted), &is(form), room, text);
    let first = body.len() as u16;
    for field in Field::ALL {
        let here = field == form.at;
        let value = form.value(field);
        let piece = match value {
            "" => p(field.empty(), look.ink(Token::Faint)),
            value => p(value.to_owned(), text),
        };
        let label = p(field.word(), if here { key } else { muted });
        body.push(Row::new(label, vec![piece]));
    }
    body.push(Row::blank());
    body.extend(Row::wrapped(&p("effect", muted), &effect(form), room, text));
    if scene.feed.lease == LeaseView::Nobody {
        let starts = "a supervisor in the background, because nobody supervises";
        body.extend(Row::wrapped(&p("starts", muted), starts, room, text));
    }
    body.push(Row::blank());
    body.extend(Row::wrapped(&p("same as", muted), &same_as(form), room, text));
    let outcome = match (&form.outcome, &form.known) {
        (Some(outcome), _) => p(outcome.clone(), look.bold(Token::Warn)),
        (None, None) => p(format!("asking {} ..", form.choice.executor), muted),
        (None, Some(Err(why))) => p(why.clone(), look.bold(Token::Warn)),
        (None, Some(Ok(_))) => p("up and down go through the fields", look.ink(Token::Faint)),
    };
    let last = vec![
        Row::more(vec![outcome]),
        Row::more(vec![
            p("enter", key),
            p(" attaches   ", muted),
            p("esc", key),
            p(" goes back to the list", muted),
        ]),
    ];
    let sheet = Sheet {
        title: vec![p(
            format!("Attach to {}", form.choice.offer.dag),
            look.bold(Token::Bright),
        )],
        right: place(scene, form),
        body,
        last,
        bar: class(2),
        width: 78,
    };
    let (at, last_y) = sheet.draw(canvas, area, scene);
    let top = if at.height < area.height {
        at.y + 3
    } else {
        at.y + 1
    };
    let y = top + first + form.at as u16;
    if y >= last_y {
        return None;
    }
    let (x, end) = (at.x + VALUE, at.right() - 2);
    let value = &form.values[form.at as usize];
    let remark = if value.is_empty() { form.at.empty() } else { "" };
    let row = Rect {
        x,
        y,
        width: end - x,
        height: 1,
    };
    canvas.clear(row, Token::Raised);
    Some(input(canvas, x, y, end, value, remark, scene))
}

/// Environment and executor.
fn place<'a>(scene: &Scene<'_>, form: &Form) -> Vec<Piece<'a>> {
    let look = scene.look;
    let mut pieces = Vec::new();
    if let Some(Ok(known)) = &form.known
        && let Some(environment) = &known.environment
    {
        let token = if is_production(environment) {
            Token::Warn
        } else {
            Token::Text
        };
        pieces.push(p(format!("{}  ", environment.to_uppercase()), look.bold(token)));
    }
    pieces.push(p(form.choice.executor.to_string(), look.ink(Token::Text)));
    pieces
}

/// What is attached to, as far as it is known.
fn is(form: &Form) -> String {
    let Some(Ok(known)) = &form.known else {
        let parts = [native(&form.choice), form.choice.offer.words.clone()];
        let parts: Vec<String> = parts.into_iter().filter(|s| !s.is_empty()).collect();
        return parts.join(", ");
    };
    match &known.found.native {
        None => "all its runs; it has no unfinished native backfill".to_owned(),
        Some(native) => {
            let state = match (native.completed.is_some(), native.paused) {
                (true, true) => "cancelled",
                (true, false) => "ended",
                (false, true) => "paused",
                (false, false) => "running",
            };
            let by = native
                .by
                .as_ref()
                .map_or_else(String::new, |by| format!(", by {by}"));
            format!(
                "native backfill {}, {state}, limit {}{by}",
                native.id, native.limit
            )
        }
    }
}

/// What it will do: with signals it is not only looked at.
fn effect(form: &Form) -> String {
    let names = form.value(Field::Signals).split([',', ' ']);
    let names: Vec<&str> = names.filter(|s| !s.is_empty()).collect();
    let Some((last, others)) = names.split_last() else {
        return "it is looked at; nothing changes there until you ask".to_owned();
    };
    let who = match others {
        [] => format!("{last} lags"),
        others => format!("{} or {last} lag", others.join(", ")),
    };
    let native = form
        .known
        .as_ref()
        .and_then(|k| k.as_ref().ok()?.found.native.as_ref());
    let pauses = native.is_some_and(|n| n.completed.is_none());
    let pool = form.value(Field::Pool);
    let does = match (pauses, pool) {
        (true, "") => "it is paused there".to_owned(),
        (false, pool) => format!("pool {pool} gets fewer slots"),
        (true, pool) => format!("pool {pool} gets fewer slots and it is paused there"),
    };
    format!("it is looked at; while {who}, {does}")
}

/// The same as a command line.
fn same_as(form: &Form) -> String {
    let Choice { executor, offer } = &form.choice;
    let mut line = match offer.native {
        Some(id) => format!("backfill attach {executor} --native-backfill {id}"),
        None => format!("backfill attach {executor} --dag {}", offer.dag),
    };
    for (field, flag) in [
        (Field::From, "--from"),
        (Field::To, "--to"),
        (Field::Zone, "--timezone"),
        (Field::Pool, "--pool"),
        (Field::Name, "--name"),
    ] {
        let value = form.value(field);
        if !value.is_empty() {
            line.push_str(&format!(" {flag} {value}"));
        }
    }
    let signals = form.value(Field::Signals).split([',', ' ']);
    for signal in signals.filter(|s| !s.is_empty()) {
        line.push_str(&format!(" --signal {signal}"));
    }
    line
}
