//! The limit of somebody else's backfill: which levers there are for it, what each would do, and what is typed.

use crate::{
    domain::{
        attach::{Facts, PoolSeen},
        state::{Backfill, ChunkState},
    },
    plan::lever,
    tui::{
        theme::Token,
        update::{Limit, Line, read_theirs},
        view::{
            dialog::{Row, Sheet, VALUE, class, place},
            footer::input,
            numbers::{count, delta, duration, of},
            scene::Scene,
            theirs::unfinished,
        },
        widgets::canvas::{Canvas, p},
    },
};
use ratatui::layout::{Position, Rect};

/// Draws the dialog. Returns where the line is typed.
pub(super) fn draw(
    canvas: &mut Canvas<'_>,
    area: Rect,
    scene: &Scene<'_>,
    backfill: &Backfill,
    typed: &str,
) -> Option<Position> {
    let look = scene.look;
    let (text, muted, bright) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.bold(Token::Bright),
    );
    let room = 78u16.min(area.width.saturating_sub(2)).saturating_sub(VALUE + 3);
    let nothing = Facts::default();
    let facts = backfill.seen.as_ref().unwrap_or(&nothing);
    let mut body = Row::wrapped(&p("native", muted), &native(scene, backfill), room, text);
    body.extend(Row::wrapped(
        &p("pool", muted),
        &pool(backfill, facts),
        room,
        text,
    ));
    if backfill.limit.value < backfill.spec.max_limit {
        body.extend(Row::wrapped(&p("why", muted), &backfill.limit.why, room, text));
    }
    body.push(Row::blank());
    let line = body.len() as u16;
    body.push(Row::new(p("new limit", muted), Vec::new()));
    body.extend(grammar(scene, backfill));
    body.push(Row::blank());
    body.extend(Row::wrapped(
        &p("effect", muted),
        &effect(backfill, typed),
        room,
        muted,
    ));
    let key = look.bold(Token::Accent);
    let last = vec![Row::more(vec![
        p("enter", key),
        p(" shows the plan   ", muted),
        p("esc", key),
        p(" leaves it as it is", muted),
    ])];
    let sheet = Sheet {
        title: vec![p(format!("Limit of {}", backfill.spec.name), bright)],
        right: place(scene),
        body,
        last,
        bar: class(1),
        width: 78,
    };
    let (at, _) = sheet.draw(canvas, area, scene);
    let y = sheet.body_row(at, line)?;
    let remark = if typed.is_empty() {
        "enter on nothing leaves it as it is"
    } else {
        ""
    };
    Some(input(
        canvas,
        at.x + VALUE,
        y,
        at.right() - 2,
        typed,
        remark,
        scene,
    ))
}

fn native(scene: &Scene<'_>, backfill: &Backfill) -> String {
    match unfinished(backfill) {
        Some(native) => format!(
            "backfill {} runs {} of at most {} days at once, {} wait; it cannot be given another limit",
            native.id,
            count(scene.n(ChunkState::Running)),
            native.limit,
            count(scene.n(ChunkState::Queued))
        ),
        None => lever::no_native(backfill.seen.as_ref()).unwrap_or_default(),
    }
}

fn pool(backfill: &Backfill, facts: &Facts) -> String {
    let named = backfill.spec.dag.as_ref().and_then(|d| d.pool.as_ref());
    match (named, &facts.pool) {
        (None, _) => "none was named when it was attached, so no limit can be written".to_owned(),
        (Some(name), None) => format!("{name}, not seen yet"),
        (Some(_), Some(pool)) => {
            let former = match &backfill.pool {
                Some(hold) => format!(" ({} before us)", slots(hold.former)),
                None => String::new(),
            };
            format!(
                "{}: {}{former}, {} in use, {} waiting{}",
                pool.name,
                slots(pool.slots),
                pool.running,
                pool.waiting,
                others(pool)
            )
        }
    }
}

fn others(pool: &PoolSeen) -> String {
    match pool.others.as_deref() {
        None => "; who else uses it may not be asked".to_owned(),
        Some([]) => "; nobody else is in it now".to_owned(),
        Some([(dag, n), rest @ ..]) => {
            let more = match rest.len() {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            format!("; {dag} ({n}){more} is in it, too")
        }
    }
}

fn slots(n: i64) -> String {
    u64::try_from(n).map_or_else(|_| "no limit".to_owned(), |n| of(n, "slot"))
}

/// What can be typed, each with what it means; what cannot be done is not there.
fn grammar<'a>(scene: &Scene<'_>, backfill: &Backfill) -> Vec<Row<'a>> {
    let mut lines: Vec<(String, &'static str)> = Vec::new();
    if backfill.spec.dag.as_ref().is_some_and(|d| d.pool.is_some()) {
        let n = backfill.spec.max_limit.clamp(1, 4);
        lines.push((
            n.to_string(),
            "cap: at most so many slots, until it is taken away",
        ));
        lines.push((
            format!("{n} for 30m"),
            "force: for so long, even if lag allows less",
        ));
        lines.push(("auto".to_owned(), "neither cap nor force: the controller alone"));
        lines.push(("slots 6".to_owned(), "the pool itself, for everybody in it"));
    }
    if let Some(native) = unfinished(backfill) {
        let other = if native.limit > 1 { native.limit - 1 } else { 2 };
        let means = "cancels it, and makes it again with this limit";
        lines.push((format!("replace {other}"), means));
    }
    Row::grammar(scene.look, &lines)
}

/// What the line would do; its plan is shown before anything is sent.
fn effect(backfill: &Backfill, typed: &str) -> String {
    if typed.trim().is_empty() {
        return "nothing changes".to_owned();
    }
    let pool = backfill.spec.dag.as_ref().and_then(|d| d.pool.as_deref());
    let pool = pool.unwrap_or("the pool");
    match read_theirs(backfill, typed) {
        Err(why) => why,
        Ok(Line::Limit(Limit::Auto)) => format!("the controller decides alone what {pool} has"),
        Ok(Line::Limit(Limit::Cap(n))) => {
            format!(
                "{pool} has at most {} for all in it; running tasks finish",
                of(u64::from(n), "slot")
            )
        }
        Ok(Line::Limit(Limit::Force(n, span))) => format!(
            "{pool} has {} for {}; never while a signal is past hard or blind",
            of(u64::from(n), "slot"),
            duration(delta(span))
        ),
        Ok(Line::Slots(n)) => format!("{pool} is set to {} at once; running tasks finish", slots(n)),
        Ok(Line::Replace(n)) => {
            format!("the native backfill is cancelled, and made again with limit {n} over what is not done")
        }
    }
}
