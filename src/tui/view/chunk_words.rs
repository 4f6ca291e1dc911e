//! One chunk in words: its date, and why it is as it is.

use super::{
    numbers::{clock, duration, until},
    scene::Scene,
};
use crate::{
    config::Unit,
    domain::{
        calendar::Granularity,
        state::{Attempt, Backfill, Chunk, ChunkState, Mark},
        tuning::Tuning,
    },
    plan::why::{is_taken, why, words},
    tui::{
        model::Feed,
        plans::{known_signals, surroundings},
    },
};

/// `Fri 2022-11-25`; an hour with its offset; weeks and months with both ends, inclusive.
pub(super) fn date(backfill: &Backfill, chunk: &Chunk) -> String {
    let first = chunk.id.date;
    if let Some((hour, offset)) = chunk.id.hour {
        let sign = if offset < 0 { '-' } else { '+' };
        let (h, m) = (offset.unsigned_abs() / 60, offset.unsigned_abs() % 60);
        return format!("{} {hour:02}:00 {sign}{h:02}{m:02}", first.format("%a %Y-%m-%d"));
    }
    match backfill.spec.granularity {
        Granularity::Week | Granularity::Month => {
            let last = super::calendar::last_day(backfill, chunk);
            format!("{first} .. {}", last.format("%m-%d"))
        }
        _ => first.format("%a %Y-%m-%d").to_string(),
    }
}

/// How long an attempt took or has been running.
pub(super) fn took(attempt: &Attempt, scene: &Scene<'_>) -> Option<String> {
    let started = attempt.started?;
    Some(duration(attempt.ended.unwrap_or(scene.now) - started))
}

fn by(mark: &Mark, verb: &str, scene: &Scene<'_>) -> String {
    let at = clock(mark.at, scene.now, scene.zone);
    let reason = mark
        .reason
        .as_ref()
        .map_or_else(String::new, |r| format!(": {r}"));
    format!("{verb} by {} at {at}{reason}", mark.by.name)
}

/// Why a chunk is as it is: one sentence, and what would change that, which may be empty.
pub(super) fn reason(chunk: &Chunk, scene: &Scene<'_>) -> (String, String) {
    let theirs = scene.backfill.is_some_and(|b| b.spec.attach.is_some());
    if theirs || is_taken(chunk) {
        return from_outside(chunk, scene).unwrap_or_default();
    }
    let cursor = scene.app.cursor == Some(chunk.id);
    let cached = scene.app.why.as_ref().filter(|_| cursor);
    let unblock = cached.map_or_else(String::new, |w| w.unblock.clone());
    let own = match chunk.state {
        ChunkState::Pending => match (cached, &chunk.rerun) {
            (Some(why), _) => why.text.clone(),
            (None, Some((_, actor))) => format!("asked to run again by {}, waits for a slot", actor.name),
            (None, None) => "waits for its turn".to_owned(),
        },
        ChunkState::Held => chunk
            .mark
            .as_ref()
            .map_or_else(|| "held".to_owned(), |m| by(m, "held", scene)),
        ChunkState::Skipped => chunk
            .mark
            .as_ref()
            .map_or_else(|| "skipped".to_owned(), |m| by(m, "skipped", scene)),
        ChunkState::Cancelled => chunk
            .mark
            .as_ref()
            .map_or_else(|| "cancelled".to_owned(), |m| by(m, "cancelled", scene)),
        ChunkState::Done => done(chunk, scene),
        ChunkState::Failed => failed(chunk, scene),
        ChunkState::Quarantined => chunk
            .why
            .clone()
            .unwrap_or_else(|| "waits for your decision".to_owned()),
        _ => open(chunk, scene),
    };
    (own, unblock)
}

/// What is seen of somebody else's run is told by the planner alone, with the ages that hold now.
fn from_outside(chunk: &Chunk, scene: &Scene<'_>) -> Option<(String, String)> {
    let Feed {
        state,
        executors,
        lease,
        ..
    } = scene.feed;
    let around = surroundings(
        executors,
        lease,
        known_signals(scene.feed),
        &Tuning::default(),
        scene.now,
    );
    let why = why(state, scene.backfill?, chunk.id, &around)?;
    Some((why.text, why.unblock))
}

fn done(chunk: &Chunk, scene: &Scene<'_>) -> String {
    let Some(attempt) = chunk.last() else {
        return "done".to_owned();
    };
    let took = took(attempt, scene).map_or_else(String::new, |t| format!("took {t} "));
    let ended = attempt.ended.map_or_else(String::new, |t| {
        format!(", ended {}", clock(t, scene.now, scene.zone))
    });
    format!("{took}on {}, attempt {}{ended}", attempt.executor, attempt.no)
}

fn failed(chunk: &Chunk, scene: &Scene<'_>) -> String {
    let what = chunk.last().and_then(|a| a.failure.as_ref()).map(words);
    let what = what.unwrap_or_else(|| "failed".to_owned());
    match &chunk.retry {
        Some(retry) if retry.at > scene.now => format!(
            "{what}, retry {}/{} in {}",
            retry.used,
            retry.budget,
            until(retry.at - scene.now)
        ),
        Some(retry) => format!("{what}, retry {}/{} is due", retry.used, retry.budget),
        None => format!("{what}, no retry left"),
    }
}

fn open(chunk: &Chunk, scene: &Scene<'_>) -> String {
    let Some(attempt) = chunk.last() else {
        return chunk.state.word().to_owned();
    };
    let since = clock(attempt.started.unwrap_or(attempt.intended), scene.now, scene.zone);
    let stop = if attempt.braked {
        ", being cancelled to brake"
    } else if attempt.stop_requested {
        ", asked to stop"
    } else {
        ""
    };
    let base = format!(
        "attempt {} on {} since {since}{stop}",
        attempt.no, attempt.executor
    );
    match (&chunk.why, chunk.state) {
        (Some(why), _) => format!("{base}: {why}; its slot stays taken"),
        (None, ChunkState::Uncertain) => format!("{base}: nobody answers for it; its slot stays taken"),
        _ => base,
    }
}

/// The unit's word for a signal's levels.
pub(super) const fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "s",
        Unit::Messages => "messages",
        Unit::Alerts => "alerts",
    }
}
