//! What an operator asks for of somebody else's backfill: the engine's own levers, and what of theirs is in our way.

use super::{Ctx, Machine, dialog};
use crate::{
    domain::{
        attach::{Action, Taking},
        ids::ChunkId,
        state::{Backfill, ChunkState},
    },
    plan::lever,
    tui::{
        action::Id,
        effect::Effect,
        model::{App, Ask},
    },
};

use dialog::{Limit, read_limit};

/// The ways to do what a key asks for, the most careful one first.
pub(super) fn ways(backfill: &Backfill, id: Id, app: &App, days: Vec<ChunkId>) -> Vec<(String, Ask)> {
    match id {
        // Without counts: the plan below has them, and moves on while this stands.
        Id::CancelBackfill => vec![
            ("what waits; what runs goes on".to_owned(), Ask::Cancel),
            (
                "what waits, and end what runs".to_owned(),
                Ask::Act(Action::Cancel { running: true }),
            ),
        ],
        Id::TakeDate => app.cursor.map_or_else(Vec::new, |day| taking(backfill, day)),
        Id::MarkAs => {
            let mark = |word: &str, done| {
                let chunks = days.clone();
                (word.to_owned(), Ask::Act(Action::Mark { chunks, done }))
            };
            let mut ways = vec![mark("done", true), mark("failed", false)];
            // First what changes something.
            let is_done = |id: &ChunkId| backfill.chunk(*id).is_some_and(|c| c.state == ChunkState::Done);
            if days.iter().all(is_done) {
                ways.reverse();
            }
            ways
        }
        Id::Detach => one(Ask::Detach),
        Id::PauseDag => one(Ask::Act(Action::Pause { whole_dag: true })),
        Id::ResumeDag => one(Ask::Act(Action::Resume { whole_dag: true })),
        _ => Vec::new(),
    }
}

fn one(ask: Ask) -> Vec<(String, Ask)> {
    vec![(String::new(), ask)]
}

/// What becomes of the run that has the date of a day of ours.
fn taking(backfill: &Backfill, day: ChunkId) -> Vec<(String, Ask)> {
    let Some(taken) = backfill.chunk(day).and_then(|c| c.taken.as_ref()) else {
        return Vec::new();
    };
    let way = |words: &str, how| (words.to_owned(), Ask::Take(day, taken.run.clone(), how));
    vec![
        way("adopt: it counts as the run of this day", Taking::Adopt),
        way("clear: it is cleared, and the day runs as ours", Taking::Clear),
    ]
}

/// What the limit line says of somebody else's backfill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tui) enum Line {
    /// A cap, a force or neither: what our limit is, which is written to the pool.
    Limit(Limit),
    /// The slots of the pool, as such; -1 is without limit.
    Slots(i64),
    /// The native backfill is made again with this limit.
    Replace(u32),
}

/// Reads the line. Where no pool was named a number alone can only mean the new limit of the native backfill.
///
/// # Errors
/// It makes no sense, or nothing could be done; in words for the operator.
pub(in crate::tui) fn read(backfill: &Backfill, text: &str) -> Result<Line, String> {
    let pool = backfill.spec.dag.as_ref().and_then(|d| d.pool.as_ref());
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = match (words.as_slice(), pool) {
        (["replace", n], _) => n.parse().ok().map(Line::Replace),
        (["slots", n], Some(_)) => n.parse().ok().filter(|n| *n >= -1).map(Line::Slots),
        (_, Some(_)) => read_limit(text).map(Line::Limit),
        ([n], None) => n.parse().ok().map(Line::Replace),
        (_, None) => None,
    };
    let max = backfill.spec.max_limit;
    match line {
        None if pool.is_some() => Err("type 4, or auto, or 4 for 30m, or slots 4, or replace 4".to_owned()),
        None => Err("type replace 4: no pool was named when it was attached".to_owned()),
        Some(Line::Replace(0) | Line::Limit(Limit::Cap(0) | Limit::Force(0, _))) => {
            Err("a limit of 0 is a pause: esc, then p".to_owned())
        }
        Some(Line::Limit(Limit::Cap(n) | Limit::Force(n, _))) if n > max => {
            Err(format!("its limit is at most {max}"))
        }
        Some(Line::Limit(Limit::Auto)) if backfill.cap.is_none() && backfill.force.is_none() => {
            Err("there is neither a cap nor an override".to_owned())
        }
        Some(Line::Replace(n)) => replaceable(backfill, n).map(|()| Line::Replace(n)),
        Some(line) => Ok(line),
    }
}

fn replaceable(backfill: &Backfill, limit: u32) -> Result<(), String> {
    let facts = backfill.seen.as_ref();
    if let Some(why) = lever::no_native(facts) {
        return Err(format!("nothing to replace: {why}"));
    }
    match facts.and_then(|f| f.native.as_ref()) {
        Some(native) if native.limit == limit => {
            Err(format!("native backfill {} has limit {limit} already", native.id))
        }
        _ => Ok(()),
    }
}

/// Carries out the limit line: each of its meanings shows its plan, because others have a share in the pool, and a
/// native backfill that is made again is another one.
pub(super) fn limit(
    machine: &mut Machine,
    ctx: &Ctx<'_>,
    backfill: &Backfill,
    text: &str,
) -> Option<Vec<Effect>> {
    let ask = match read(backfill, text) {
        Err(why) => {
            machine.say(why, ctx.now);
            return None;
        }
        Ok(Line::Limit(Limit::Cap(n))) => Ask::Cap(Some(n)),
        Ok(Line::Limit(Limit::Auto)) => Ask::Cap(None),
        Ok(Line::Limit(Limit::Force(n, span))) => Ask::Force(n, span),
        Ok(Line::Replace(limit)) => Ask::Act(Action::Replace { limit }),
        Ok(Line::Slots(slots)) => {
            let pool = backfill.spec.dag.as_ref().and_then(|d| d.pool.clone())?;
            Ask::Act(Action::Slots { pool, slots })
        }
    };
    machine.pop();
    Some(dialog::open(machine, ctx, ask, '\r'))
}
