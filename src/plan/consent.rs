//! From a confirmed plan to the events that it appends, and from a plan that changed meanwhile to its differences.

use super::{
    lever,
    preview::{Ask, Preview, PreviewChunk},
};
use crate::domain::{
    Time,
    attach::Action,
    event::{Force, Payload, Rule},
    ids::{BackfillId, ChunkId},
    state::{Backfill, State},
};
use std::collections::HashMap;

/// The events that a confirmed dialog appends, in one transaction. Chunk ids are those of the plan, one by one.
///
/// # Errors
/// There is nothing to append, in words for the operator.
pub fn payloads(
    state: &State,
    backfill: Option<&BackfillId>,
    ask: &Ask,
    preview: &Preview,
    now: Time,
) -> Result<Vec<Payload>, String> {
    let backfill = backfill.and_then(|id| state.backfills.get(id));
    let chunks: Vec<ChunkId> = preview.will.iter().map(|c| c.chunk).collect();
    let some = |payload: Payload| {
        if chunks.is_empty() {
            Err("the plan acts on nothing".to_owned())
        } else {
            Ok(vec![payload])
        }
    };
    let chunks = chunks.clone();
    if let Some(backfill) = backfill.filter(|b| b.spec.attach.is_some())
        && !has_a_limit(backfill, ask)
    {
        return theirs(backfill, ask, chunks, preview);
    }
    match ask {
        Ask::Act(_) | Ask::Detach => Err("this is done to somebody else's backfill only".to_owned()),
        Ask::Take(chunk, run, how) => some(Payload::TakeRequested {
            chunk: *chunk,
            run: run.clone(),
            how: *how,
            digest: preview.digest.clone(),
        }),
        Ask::Rerun(..) => some(Payload::RerunRequested {
            chunks,
            digest: preview.digest.clone(),
        }),
        Ask::Skip(_) => some(Payload::Skipped { chunks }),
        Ask::Stop(_) => some(Payload::StopRequested { chunks }),
        Ask::Release(_) => some(Payload::HoldReleased { chunks }),
        Ask::Resume => resume(backfill),
        Ask::Cap(Some(cap)) => Ok(vec![Payload::CapSet { cap: Some(*cap) }]),
        Ask::Cap(None) => uncap(backfill),
        Ask::Force(limit, how_long) => {
            let until = chrono::Duration::from_std(*how_long)
                .ok()
                .and_then(|d| now.checked_add_signed(d))
                .ok_or("that time is too long")?;
            let force = Force { limit: *limit, until };
            Ok(vec![Payload::Forced { force: Some(force) }])
        }
        Ask::Cancel => Ok(vec![Payload::CancelRequested {}]),
        Ask::StopSupervising => Ok(vec![Payload::StopSupervising {}]),
        Ask::StartSupervising => Err("starting a supervisor is no event".to_owned()),
    }
}

/// Whether the ask is about the limit, and there is a pool to write it to.
fn has_a_limit(backfill: &Backfill, ask: &Ask) -> bool {
    let pool = backfill.spec.dag.as_ref().and_then(|d| d.pool.as_ref());
    matches!(ask, Ask::Cap(_) | Ask::Force(..)) && pool.is_some()
}

/// The same for somebody else's backfill: days and pauses become actions of its engine's own levers.
fn theirs(
    backfill: &Backfill,
    ask: &Ask,
    chunks: Vec<ChunkId>,
    preview: &Preview,
) -> Result<Vec<Payload>, String> {
    let request = |action: Action| {
        Ok(vec![Payload::ActionRequested {
            native: lever::meant(backfill, backfill.seen.as_ref(), &action),
            action,
            digest: preview.digest.clone(),
        }])
    };
    let on_days = |action: Action| {
        if preview.will.is_empty() {
            Err("the plan acts on nothing".to_owned())
        } else {
            request(action)
        }
    };
    match ask {
        Ask::Rerun(_, failed_only) => on_days(Action::Rerun {
            chunks,
            failed_only: *failed_only,
        }),
        Ask::Stop(_) => on_days(Action::Stop { chunks }),
        Ask::Act(Action::Rerun { failed_only, .. }) => on_days(Action::Rerun {
            chunks,
            failed_only: *failed_only,
        }),
        Ask::Act(Action::Stop { .. }) => on_days(Action::Stop { chunks }),
        Ask::Act(Action::Mark { done, .. }) => on_days(Action::Mark { chunks, done: *done }),
        Ask::Act(action @ Action::Create { .. }) => on_days(action.clone()),
        Ask::Act(action) => request(action.clone()),
        Ask::Cancel => request(Action::Cancel { running: false }),
        Ask::Detach => Ok(vec![Payload::Detached {}]),
        Ask::Resume => resume_theirs(backfill, &preview.digest),
        Ask::Cap(_) | Ask::Force(..) => Err(
            "no pool was named when it was attached, so no limit can be written; replace makes it anew with another limit"
                .to_owned(),
        ),
        _ => Err("this is done to backfills of our own".to_owned()),
    }
}

/// Our own pause ends; one that somebody else set on the server is lifted because a human asked for it.
fn resume_theirs(backfill: &Backfill, digest: &str) -> Result<Vec<Payload>, String> {
    let mut all = resume(Some(backfill)).unwrap_or_default();
    if lever::is_paused_there(backfill) && backfill.native_pause.is_none() {
        let action = Action::Resume { whole_dag: false };
        all.push(Payload::ActionRequested {
            native: lever::meant(backfill, backfill.seen.as_ref(), &action),
            action,
            digest: digest.to_owned(),
        });
    }
    if all.is_empty() {
        return Err(format!("{} is not paused any more", backfill.spec.name));
    }
    Ok(all)
}

/// Whatever of a human's or a latch's making keeps a backfill from starting is ended, and nothing else.
fn resume(backfill: Option<&Backfill>) -> Result<Vec<Payload>, String> {
    let backfill = backfill.ok_or("there is no such backfill")?;
    let mut all = Vec::new();
    if backfill.pause.is_some() || backfill.stopped.is_some() {
        all.push(Payload::Resumed {});
    }
    if backfill.limit.rule == Rule::Latch {
        all.push(Payload::LatchAcknowledged {});
    }
    if backfill.breaker.is_some() {
        all.push(Payload::BreakerReset {});
    }
    if all.is_empty() {
        return Err(format!("{} is not paused any more", backfill.spec.name));
    }
    Ok(all)
}

/// The limit is the controller's again.
fn uncap(backfill: Option<&Backfill>) -> Result<Vec<Payload>, String> {
    let backfill = backfill.ok_or("there is no such backfill")?;
    let mut all = Vec::new();
    if backfill.cap.is_some() {
        all.push(Payload::CapSet { cap: None });
    }
    if backfill.force.is_some() {
        all.push(Payload::Forced { force: None });
    }
    if all.is_empty() {
        return Err("there is neither a cap nor an override".to_owned());
    }
    Ok(all)
}

/// The most lines that a difference takes in a dialog.
const DIFFERENCES: usize = 6;

/// What a plan does now that it did not do when it was shown, one line each; the last line counts what is left out.
pub fn differences(old: &Preview, new: &Preview) -> Vec<String> {
    let by_id = |plan: &'_ Preview| -> HashMap<ChunkId, PreviewChunk> {
        plan.will.iter().map(|c| (c.chunk, c.clone())).collect()
    };
    let (before, after) = (by_id(old), by_id(new));
    let reasons: HashMap<ChunkId, &String> = new.will_not.iter().map(|(id, why)| (*id, why)).collect();
    let mut lines = Vec::new();
    for gone in old.will.iter().filter(|c| !after.contains_key(&c.chunk)) {
        let why = reasons.get(&gone.chunk);
        let why = why.map_or("it is no longer part of the plan", |why| why.as_str());
        lines.push(format!("- {} is left out: {why}", gone.chunk));
    }
    for chunk in &new.will {
        match before.get(&chunk.chunk) {
            None => lines.push(format!("+ {} is added: it is {}", chunk.chunk, chunk.state)),
            Some(before) => lines.extend(changed(before, chunk)),
        }
    }
    for (label, value) in &new.facts {
        let before = old.facts.iter().find(|(l, _)| l == label).map(|(_, v)| v);
        if before != Some(value) {
            let before = before.map_or("nothing", String::as_str);
            lines.push(format!("~ {label}: {before}, now {value}"));
        }
    }
    if lines.is_empty() {
        lines.push(format!("~ plan {} is now plan {}", old.digest, new.digest));
    }
    if lines.len() > DIFFERENCES {
        let left = lines.len() - (DIFFERENCES - 1);
        lines.truncate(DIFFERENCES - 1);
        lines.push(format!("and {left} more"));
    }
    lines
}

fn changed(old: &PreviewChunk, new: &PreviewChunk) -> Option<String> {
    if old == new {
        return None;
    }
    let what = if old.state != new.state {
        format!("was {}, is {}", old.state, new.state)
    } else if old.attempt != new.attempt {
        format!("attempt {} is now attempt {}", old.attempt, new.attempt)
    } else if old.profile != new.profile {
        format!("profile {} is now {}", old.profile, new.profile)
    } else {
        format!("last attempt {}, now {}", old.last, new.last)
    };
    Some(format!("~ {} {what}", new.chunk))
}
