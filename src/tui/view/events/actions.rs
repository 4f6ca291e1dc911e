//! What is done with an engine's own levers, and what is seen of runs that are not ours, as lines of the feed.

use super::{Line, Look, Scene, brief, of_state};
use crate::{
    domain::{
        attach::{Action, RunChange, Taking},
        event::{Event, Payload},
        state::{Backfill, ChunkState, Phase},
    },
    tui::{theme::Token, view::numbers::of},
};

/// The line of such an event; `None` of every other.
pub(super) fn line(event: &Event, scene: &Scene<'_>, payload: &Payload) -> Option<Line> {
    let look = scene.look;
    let reason = event
        .reason
        .as_ref()
        .map_or_else(String::new, |r| format!(": {r}"));
    let (asked, moved) = (look.glyphs.slot_free, look.glyphs.slot_used);
    let say = |token: Token, glyph: char, text: String, short: String, changed: bool| {
        Some(Line {
            glyph,
            ink: look.ink(token),
            text,
            short,
            changed,
        })
    };
    match payload {
        Payload::ActionRequested { action, .. } => {
            let text = format!("asked: {}{reason}", action.words());
            say(Token::Info, asked, text, format!("{} asked", verb(action)), true)
        }
        Payload::ActionSent { ask, sent, .. } => {
            let (words, verb) = of_action(scene, *ask);
            let text = format!("sent {sent}; {words}");
            say(Token::Muted, moved, text, format!("{verb} sent"), false)
        }
        Payload::ActionAnswered {
            ask, ok: true, said, ..
        } => {
            let (words, verb) = of_action(scene, *ask);
            let text = format!("accepted: {said}; {words}");
            say(Token::Muted, moved, text, format!("{verb} taken"), false)
        }
        Payload::ActionAnswered {
            ask, ok: false, said, ..
        } => {
            let (words, verb) = of_action(scene, *ask);
            let text = format!("refused: {said}; {words}");
            say(Token::Bad, '!', text, format!("{verb} denied"), true)
        }
        Payload::ActionEnded { ask, ok, said } => {
            let (words, verb) = of_action(scene, *ask);
            let (token, glyph, word) = if *ok {
                (Token::Ok, look.glyphs.narrow(ChunkState::Done), "done")
            } else {
                (Token::Bad, '!', "failed")
            };
            let text = match ok {
                true => format!("done: {words}; {said}"),
                false => format!("NOT DONE: {words}; {said}"),
            };
            say(token, glyph, text, format!("{verb} {word}"), true)
        }
        Payload::RunsChanged { changes } => runs_changed(look, scene.backfill, changes),
        Payload::PoolTaken { pool, former } => {
            let text = format!(
                "pool {pool} is set from here; it had {} and gets them back",
                slots(*former)
            );
            say(
                Token::Info,
                look.glyphs.falling,
                text,
                "pool taken".to_owned(),
                true,
            )
        }
        Payload::PoolReturned {
            pool,
            slots: now,
            why,
        } => {
            let text = format!(
                "pool {pool} is no longer set from here, it has {}: {why}",
                slots(*now)
            );
            say(
                Token::Info,
                look.glyphs.rising,
                text,
                "pool returned".to_owned(),
                true,
            )
        }
        Payload::DateTaken { attempt, what, .. } => {
            let text = format!("{} held: its date is taken by {what}", attempt.chunk);
            let short = format!("{} taken", brief(attempt.chunk));
            Some(of_state(look, ChunkState::Held, text, short, true))
        }
        Payload::TakeRequested { chunk, run, how, .. } => {
            let verb = match how {
                Taking::Adopt => "adopts",
                Taking::Clear => "clears",
            };
            let text = format!("{chunk} {verb} the run {run}{reason}");
            let short = format!("{} {}", brief(*chunk), how.word());
            Some(of_state(look, ChunkState::Queued, text, short, true))
        }
        Payload::Detached {} => {
            let text = format!(
                "let go of by {}{reason}; on the server it goes on",
                event.actor.name
            );
            let held = look.glyphs.narrow(ChunkState::Held);
            say(Token::Warn, held, text, "let go of".to_owned(), true)
        }
        _ => None,
    }
}

/// `4 slots`, `no limit`.
fn slots(n: i64) -> String {
    u64::try_from(n).map_or_else(|_| "no limit".to_owned(), |n| of(n, "slot"))
}

/// The words of an action that is still remembered, and its verb.
fn of_action(scene: &Scene<'_>, ask: u64) -> (String, &'static str) {
    let asked = scene.backfill.and_then(|b| b.asked.iter().find(|a| a.seq == ask));
    match asked {
        Some(asked) => (asked.action.words(), verb(&asked.action)),
        None => (format!("action {ask}"), "action"),
    }
}

/// An action in one word, of at most seven columns.
const fn verb(action: &Action) -> &'static str {
    match action {
        Action::Pause { whole_dag: false } => "pause",
        Action::Pause { whole_dag: true } => "freeze",
        Action::Resume { whole_dag: false } => "resume",
        Action::Resume { whole_dag: true } => "thaw",
        Action::Slots { .. } => "pool",
        Action::Replace { .. } => "replace",
        Action::Cancel { .. } => "cancel",
        Action::Rerun { .. } => "re-run",
        Action::Stop { .. } => "stop",
        Action::Mark { .. } => "mark",
        Action::Create { .. } => "native",
    }
}

/// One change in the server's words, or how many came to which word, most first.
fn runs_changed(look: &Look, backfill: Option<&Backfill>, changes: &[RunChange]) -> Option<Line> {
    let first = changes.first()?;
    let to = |change: &RunChange| change.to.clone().unwrap_or_else(|| "gone".to_owned());
    let state = state_of(backfill, first);
    let bad = |change: &RunChange| {
        change.to.is_none() || matches!(state_of(backfill, change), Some(ChunkState::Failed))
    };
    let (text, short) = match changes {
        [one] => {
            let was = match (&one.from, &one.to) {
                (None, _) => ", a new run".to_owned(),
                (Some(from), _) => format!(", was {from}"),
            };
            let text = format!("{} {}{was}", one.chunk, to(one));
            let word = to(one);
            let word = if word.chars().count() > 8 {
                "changed"
            } else {
                word.as_str()
            };
            (text, format!("{} {word}", brief(one.chunk)))
        }
        many => {
            let mut counts: Vec<(String, u64)> = Vec::new();
            for change in many {
                let word = to(change);
                match counts.iter_mut().find(|(w, _)| *w == word) {
                    Some((_, n)) => *n += 1,
                    None => counts.push((word, 1)),
                }
            }
            counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
            let parts: Vec<String> = counts.iter().map(|(word, n)| format!("{n} {word}")).collect();
            let n = many.len() as u64;
            (
                format!("{} changed: {}", of(n, "run"), parts.join(", ")),
                format!("{n} changed"),
            )
        }
    };
    let changed = changes.iter().any(bad);
    let sign = match changes {
        [_] => state.unwrap_or(ChunkState::Uncertain),
        _ if changed => ChunkState::Failed,
        _ => state.unwrap_or(ChunkState::Running),
    };
    Some(of_state(look, sign, text, short, changed))
}

/// What a run's new word means: by our dictionary, else as the run is known by now.
fn state_of(backfill: Option<&Backfill>, change: &RunChange) -> Option<ChunkState> {
    let Some(word) = &change.to else {
        return Some(ChunkState::Absent);
    };
    let ours = ChunkState::ALL.into_iter().find(|s| s.word() == word);
    let known = || {
        let attempts = &backfill?.chunk(change.chunk)?.attempts;
        let run = attempts.iter().find(|a| a.run.as_ref() == Some(&change.run))?;
        Some(match run.phase {
            Phase::Queued => ChunkState::Queued,
            Phase::Running => ChunkState::Running,
            Phase::Done => ChunkState::Done,
            Phase::Failed => ChunkState::Failed,
            Phase::Cancelled => ChunkState::Cancelled,
            _ => ChunkState::Uncertain,
        })
    };
    ours.or_else(known)
}
