//! The next starts in order, with lane and what they wait for.

use super::{
    memo,
    numbers::{count, until},
    scene::Scene,
    sentences::{Binder, allowed, is_unprotected},
};
use crate::{
    domain::{
        ids::ChunkId,
        spec::{Lane, Order},
        state::{Backfill, Chunk, ChunkState},
    },
    tui::{
        theme::Token,
        widgets::canvas::{Canvas, p},
    },
};
use ratatui::layout::Rect;
use std::collections::HashSet;

/// The next pending chunks: human re-runs first, then the order's own; at most `max`.
fn next(backfill: &Backfill, max: usize) -> Vec<&Chunk> {
    let pending = |c: &&Chunk| c.state == ChunkState::Pending;
    let mut reruns: Vec<&Chunk> = Vec::new();
    let mut rest: Vec<&Chunk> = Vec::new();
    let mut take = |chunk| {
        if rest.len() < max {
            rest.push(chunk);
        }
        rest.len() < max
    };
    match &backfill.spec.order {
        Order::OldestFirst => {
            backfill
                .chunks
                .iter()
                .filter(pending)
                .filter(|c| c.rerun.is_none())
                .all(&mut take);
        }
        Order::NewestFirst => {
            backfill
                .chunks
                .iter()
                .rev()
                .filter(pending)
                .filter(|c| c.rerun.is_none())
                .all(&mut take);
        }
        Order::Custom(first) => {
            let listed = first.iter().filter_map(|id: &ChunkId| backfill.chunk(*id));
            let named: HashSet<ChunkId> = first.iter().copied().collect();
            let more = backfill.chunks.iter().filter(|c| !named.contains(&c.id));
            listed
                .chain(more)
                .filter(pending)
                .filter(|c| c.rerun.is_none())
                .all(&mut take);
        }
    }
    reruns.extend(
        backfill
            .chunks
            .iter()
            .filter(pending)
            .filter(|c| c.rerun.is_some()),
    );
    reruns.sort_by_key(|c| c.rerun.as_ref().map(|(seq, _)| *seq));
    reruns.extend(rest);
    reruns.truncate(max);
    reruns
}

/// Draws title, heads, rows, and the rest as a count.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    let Some(backfill) = scene.backfill else { return };
    if area.height < 2 {
        return;
    }
    let look = scene.look;
    let (x, end) = (area.x, area.right());
    let faint = look.ink(Token::Faint);
    let rows = usize::from(area.height.saturating_sub(3));
    let waiting = u64::from(backfill.count(ChunkState::Pending) + backfill.count(ChunkState::Held));
    let positions = |chunks: Vec<&Chunk>| chunks.iter().filter_map(|c| backfill.position(c.id)).collect();
    let retries = memo::retries(scene, backfill, || positions(retries(backfill)));
    let most = rows.saturating_sub(retries.len().min(2)).max(1);
    let chunks = memo::next(scene, backfill, most, || positions(next(backfill, most)));
    let order = match &backfill.spec.order {
        Order::OldestFirst => "oldest first",
        Order::NewestFirst => "newest first",
        Order::Custom(_) => "custom order",
    };
    let after = canvas.put(x, area.y, end, "PLAN", look.bold(Token::Muted));
    let shown: Vec<&Chunk> = chunks
        .iter()
        .chain(retries.iter())
        .filter_map(|at| backfill.chunks.get(*at))
        .take(rows)
        .collect();
    if shown.is_empty() {
        canvas.put(after + 2, area.y, end, "nothing waits", faint);
        return;
    }
    let remark = format!("next {} of {}, {order}", shown.len(), count(waiting));
    canvas.put(after + 2, area.y, end, &remark, faint);
    // Where it is slim, profile and weight are left out.
    let slim = area.width < 68;
    let why_x = x + if slim { 27 } else { 51 };
    let lane_x = x + if slim { 17 } else { 22 };
    for (at, head) in [(x + 3, "day"), (lane_x, "lane"), (why_x, "why it waits")] {
        canvas.put(at, area.y + 1, end, head, faint);
    }
    if !slim {
        canvas.put(x + 32, area.y + 1, end, "profile", faint);
        canvas.put(x + 42, area.y + 1, end, "weight", faint);
    }
    let common = waits_for(scene, backfill);
    let mut before = String::new();
    for (i, chunk) in shown.iter().enumerate() {
        let y = area.y + 2 + i as u16;
        let (text, muted) = (look.ink(Token::Text), look.ink(Token::Muted));
        canvas.put(x, y, end, &(i + 1).to_string(), faint);
        canvas.put(x + 3, y, lane_x - 1, &chunk.id.to_string(), text);
        let lane = backfill.spec.lane(chunk.id);
        let ink = if lane == Lane::Normal {
            muted
        } else {
            look.ink(Token::Warn)
        };
        canvas.put(lane_x, y, why_x, lane.word(), ink);
        if !slim {
            profile_and_weight(canvas, x, y, scene, backfill, chunk);
        }
        let why = match (&chunk.retry, &chunk.rerun) {
            (Some(retry), _) if retry.at > scene.now => format!("retry in {}", until(retry.at - scene.now)),
            (Some(_), _) => "retry is due".to_owned(),
            (None, Some((_, actor))) => format!("re-run by {}, {common}", actor.name),
            _ => common.clone(),
        };
        // A reason is said aloud once; its repetition is quiet.
        let ink = if why == before {
            muted
        } else {
            look.ink(Token::Warn)
        };
        canvas.put(why_x, y, end, &why, ink);
        before = why;
    }
    last_row(canvas, area, scene, shown.len() as u64, waiting);
}

fn profile_and_weight(
    canvas: &mut Canvas<'_>,
    x: u16,
    y: u16,
    scene: &Scene<'_>,
    backfill: &Backfill,
    chunk: &Chunk,
) {
    let look = scene.look;
    let step = chunk
        .retry
        .as_ref()
        .map_or(backfill.spec.first_profile(chunk.id), |r| r.profile as usize);
    let profile = backfill.spec.profiles.get(step).map_or("", |p| p.name.as_str());
    canvas.put(x + 32, y, x + 41, profile, look.ink(Token::Muted));
    canvas.right(
        x + 42,
        y,
        x + 48,
        &[p(
            backfill.spec.weight(chunk.id).to_string(),
            look.ink(Token::Text),
        )],
    );
}

/// Failed chunks whose retry is to come, the soonest first.
fn retries(backfill: &Backfill) -> Vec<&Chunk> {
    if backfill.count(ChunkState::Failed) == 0 {
        return Vec::new();
    }
    let mut retries: Vec<&Chunk> = backfill.chunks.iter().filter(|c| c.retry.is_some()).collect();
    retries.sort_by_key(|c| c.retry.as_ref().map(|r| r.at));
    retries.truncate(2);
    retries
}

/// What holds back every pending chunk alike.
fn waits_for(scene: &Scene<'_>, backfill: &Backfill) -> String {
    if scene.feed.lease == crate::tui::model::LeaseView::Nobody {
        return "nobody supervises".to_owned();
    }
    let allowed = allowed(backfill, scene.now);
    let first = matches!(allowed.by, Binder::Ended | Binder::Critical | Binder::Human);
    if !first && is_unprotected(scene.feed, backfill) {
        return "no signal".to_owned();
    }
    match allowed.by {
        Binder::Ended => "the order ended".to_owned(),
        Binder::Critical => "critical lag".to_owned(),
        Binder::Breaker => "breaker open".to_owned(),
        Binder::Blackout => "blackout".to_owned(),
        Binder::Failure => "stopped on failure".to_owned(),
        Binder::Human => match &backfill.pause {
            Some(pause) => format!("paused by {}", pause.mark.by.name),
            None => "paused".to_owned(),
        },
        Binder::Blind => "blind".to_owned(),
        Binder::Signal => "paused (lag)".to_owned(),
        Binder::Cap => format!("limit {} (cap)", allowed.value),
        Binder::Force => format!("limit {} (forced)", allowed.value),
        Binder::Controller => format!("limit {} (lag)", allowed.value),
        Binder::Max => format!("limit {}", allowed.value),
    }
}

fn last_row(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, shown: u64, waiting: u64) {
    let y = area.y + 2 + shown as u16;
    if y >= area.bottom() {
        return;
    }
    let look = scene.look;
    let mut pieces = vec![p(
        format!("then {} more", count(waiting.saturating_sub(shown))),
        look.ink(Token::Muted),
    )];
    if let Some(says) = scene.estimate().and_then(super::end::work) {
        pieces.push(p(format!("   {says}"), look.ink(Token::Text)));
    }
    canvas.pieces(area.x + 3, y, area.right(), &pieces);
}
