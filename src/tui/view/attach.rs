//! What somebody else started, as a list to choose from, and the form for what was chosen.

use super::{
    dialog::{LABEL, Row, Sheet, VALUE, class},
    footer::input,
    header::is_production,
    numbers::age,
    overlay::{hidden, rows},
    scene::Scene,
};
use crate::tui::{
    attaching::{Attaching, Choice, Field, Form},
    model::LeaseView,
    theme::Token,
    widgets::{
        canvas::{Canvas, Piece, p},
        fit::{columns, fit},
    },
};
use ratatui::layout::{Position, Rect};

const WIDTH: u16 = 90;

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

/// As many parts of `running, limit 3, by minh` as there is room for, the first one in any case.
fn whole_parts(words: &str, room: u16) -> &str {
    let mut kept = words;
    while columns(kept) > room {
        match kept.rsplit_once(", ") {
            Some((shorter, _)) => kept = shorter,
            None => break,
        }
    }
    kept
}

fn list(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, attaching: &Attaching) -> Option<Position> {
    let look = scene.look;
    let (text, muted, key) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.bold(Token::Accent),
    );
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
    let room = usize::from(area.height.saturating_sub(8 + heads as u16)).clamp(1, 14);
    let first = chosen.saturating_sub(room - 1);
    let several = choices.iter().any(|c| c.executor != choices[0].executor);
    let dags = choices
        .iter()
        .map(|c| columns(&c.offer.dag))
        .max()
        .unwrap_or(0)
        .clamp(8, 24);
    for (i, choice) in choices.iter().enumerate().skip(first).take(room) {
        let here = i == chosen;
        let mark = if here { look.glyphs.slot_used } else { ' ' };
        let dag = fit(&choice.offer.dag, dags, look.glyphs.cut_off);
        let blanks = " ".repeat(usize::from(dags.saturating_sub(columns(&dag))));
        let place = if several {
            format!("{}  ", choice.executor)
        } else {
            String::new()
        };
        let name = if here { look.bold(Token::Bright) } else { text };
        let before = 2 + dags + 2 + columns(&place) + 12 + 26;
        // Between the frame and its margins.
        let left = wide.saturating_sub(4).saturating_sub(before);
        body.push(Row {
            label: None,
            pieces: vec![
                p(format!("{mark} "), key),
                p(format!("{dag}{blanks}  "), name),
                p(place, muted),
                p(format!("{:<12}", native(choice)), text),
                p(format!("{:<26}", window(choice)), muted),
                p(whole_parts(&choice.offer.words, left).to_owned(), muted),
            ],
            indent: back,
        });
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
        let text = "no executor here could hold backfills of others: all of them are local";
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
    let mut body = rows(p("is", muted), &is(form), room, text);
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
    let effect = "it is looked at every few seconds; on the server nothing changes until you ask for it";
    body.extend(rows(p("effect", muted), effect, room, text));
    if scene.feed.lease == LeaseView::Nobody {
        let starts = "a supervisor in the background, because nobody supervises";
        body.extend(rows(p("starts", muted), starts, room, text));
    }
    body.push(Row::blank());
    body.extend(rows(p("same as", muted), &same_as(form), room, text));
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
