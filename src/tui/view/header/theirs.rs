//! Slots of the header that say something else of somebody else's backfill: nothing of it is in a plan of ours, so
//! there is no estimate; how old the picture is stands in its place.

use super::Filled;
use crate::{
    domain::{
        attach::Facts,
        state::{Backfill, ChunkState},
    },
    tui::{
        model::LeaseView,
        theme::Token,
        view::{
            numbers::{age, count, percent},
            scene::Scene,
            theirs::{progress, stale, unfinished},
        },
        widgets::{
            canvas::{Piece, p},
            fit::columns,
        },
    },
};

/// Left of the environment: whose it is.
pub(super) fn whose<'a>(scene: &Scene<'_>, backfill: &Backfill) -> Option<Piece<'a>> {
    backfill.spec.attach.as_ref()?;
    let look = scene.look;
    Some(match backfill.detached {
        Some(_) => p("DETACHED", look.bold(Token::Muted)),
        None => p("ATTACHED", look.bold(Token::Info)),
    })
}

/// Days that run, by the server's word, and how many its native backfill runs at once.
pub(super) fn running<'a>(scene: &Scene<'_>, backfill: &Backfill, wide: bool) -> Filled<'a> {
    let look = scene.look;
    let muted = look.ink(Token::Muted);
    let label = if wide { "RUN / LIMIT" } else { "RUNNING" };
    let mut value = vec![p(count(scene.n(ChunkState::Running)), look.bold(Token::Bright))];
    if let Some(native) = unfinished(backfill) {
        value.push(p(" of ", muted));
        value.push(p(count(u64::from(native.limit)), look.bold(Token::Text)));
    } else {
        value.push(p(" days", muted));
    }
    (vec![p(label, muted)], value)
}

/// How old the picture is, or how far the first reading.
pub(super) fn seen<'a>(scene: &Scene<'_>, backfill: &Backfill, room: u16) -> Filled<'a> {
    let look = scene.look;
    let (muted, warn) = (look.ink(Token::Muted), look.bold(Token::Warn));
    let facts = backfill.seen.as_ref();
    if let Some(reading) = facts.and_then(|f| f.reading) {
        let long = format!("{} runs", progress(reading.read, reading.total));
        let short = format!(
            "{}/{}",
            count(u64::from(reading.read)),
            count(u64::from(reading.total))
        );
        let share = percent(u64::from(reading.read), u64::from(reading.total), false);
        let all = [long, short, share];
        let fits = all.into_iter().find(|text| columns(text) <= room);
        return (
            vec![p("READING", muted)],
            vec![p(fits.unwrap_or_default(), look.bold(Token::Bright))],
        );
    }
    let Some(Facts { as_of: Some(at), .. }) = facts else {
        return (vec![p("SEEN", muted)], vec![p("never", warn)]);
    };
    let old = stale(backfill, scene.now).is_some() || scene.feed.lease == LeaseView::Nobody;
    let ink = if old { warn } else { look.bold(Token::Bright) };
    let mut value = vec![p(age(scene.now - *at), ink), p(" ago", muted)];
    let says = match facts.and_then(|f| f.problem.as_ref()) {
        Some(problem) => format!(", {problem}"),
        None => String::new(),
    };
    if !says.is_empty() && columns(&says) + 8 <= room {
        value.push(p(says, look.ink(Token::Warn)));
    }
    (vec![p("SEEN", muted)], value)
}
