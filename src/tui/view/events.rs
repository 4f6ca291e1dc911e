//! Events as lines: newest on top, what changed something in plain text, the rest quieter.

mod actions;

use super::{
    calendar::name,
    numbers::{age, clock, count, duration, of, short_clock, until},
    scene::Scene,
    sentences::clauses,
};
use crate::{
    domain::{
        event::{Event, LimitChange, Next, Outcome, Payload, Read, Rule},
        ids::{AttemptId, ChunkId},
        state::ChunkState,
    },
    tui::{
        model::Panel,
        theme::{Look, Token},
        widgets::{
            canvas::{Canvas, p, width},
            fit::columns,
        },
    },
};
use ratatui::{layout::Rect, style::Style};

/// Columns that a text has at 80x24.
#[cfg(test)]
const SHORT: u16 = 14;

/// One line of the feed.
struct Line {
    glyph: char,
    ink: Style,
    text: String,
    /// For narrow screens: at most [`SHORT`] columns, so that no word is cut.
    short: String,
    /// It changed what happens next.
    changed: bool,
}

/// Draws the newest events of the shown backfill. `clock_only`: minutes instead of seconds, short texts.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, short: bool) {
    if area.height == 0 {
        return;
    }
    let look = scene.look;
    let end = area.right();
    let x = name(canvas, area.x, area.y, end, scene, 4, "EVENTS", Panel::Events);
    let back = scene.app.events_back;
    let key = scene.hints.key("follow");
    let remark = match (back, key) {
        (0, Some(key)) if !short => format!("{key} follows"),
        (0, _) => String::new(),
        (n, Some(key)) if !short => format!("{n} newer not shown, {key} follows"),
        (n, _) => format!("{n} newer"),
    };
    let ink = look.ink(if back == 0 { Token::Faint } else { Token::Warn });
    canvas.right(x + 2, area.y, end, &[p(remark, ink)]);
    let mut y = area.y + 1;
    let lines = scene
        .feed
        .events
        .iter()
        .rev()
        .filter(|e| e.backfill.is_none() || e.backfill.as_ref() == scene.app.backfill.as_ref());
    let told = lines.filter_map(|event| told(event, scene).map(|line| (event, line)));
    let mut any = false;
    for (event, line) in told.skip(back) {
        if y >= area.bottom() {
            return;
        }
        any = true;
        row(canvas, area, y, scene, event, &line, short);
        y += 1;
    }
    if !any && y < area.bottom() {
        let text = if back > 0 {
            "no older events"
        } else {
            "nothing has happened yet"
        };
        canvas.put(area.x, y, end, text, look.ink(Token::Muted));
    }
}

fn row(
    canvas: &mut Canvas<'_>,
    area: Rect,
    y: u16,
    scene: &Scene<'_>,
    event: &Event,
    line: &Line,
    short: bool,
) {
    let look = scene.look;
    let end = area.right();
    let new = (scene.now - event.at).num_seconds() < 5;
    let ink = look.ink(if line.changed || new {
        Token::Text
    } else {
        Token::Muted
    });
    let (time, gap) = if short {
        (short_clock(event.at, scene.now, scene.zone), 1)
    } else {
        (clock(event.at, scene.now, scene.zone), 2)
    };
    let x = canvas.put(area.x, y, end, &time, look.ink(Token::Faint));
    let x = x.max(area.x + if short { 5 } else { 8 }) + gap;
    canvas.put(x, y, end, &line.glyph.to_string(), line.ink);
    let words = if short { &line.short } else { &line.text };
    // Where a sentence does not fit it ends at a clause, if that leaves enough of it.
    let words = clauses(words, |s| columns(s) <= end.saturating_sub(x + 2));
    let text = [p(words, ink)];
    let actor = event
        .actor
        .name
        .strip_prefix("executor:")
        .unwrap_or(&event.actor.name);
    let actor = [p(actor, look.ink(Token::Faint))];
    // The actor goes first, then the text is cut.
    let with_actor = !short && x + 2 + width(&text) + 2 + width(&actor) <= end;
    let text_end = if with_actor {
        canvas.right(x, y, end, &actor).saturating_sub(2)
    } else {
        end
    };
    canvas.pieces(x + 2, y, text_end, &text);
}

/// An event as a line; a command that the fold refused says first that it changed nothing.
fn told(event: &Event, scene: &Scene<'_>) -> Option<Line> {
    let line = line(event, scene)?;
    let Some(why) = scene.feed.state.refusal(event.seq) else {
        return Some(line);
    };
    Some(Line {
        glyph: '!',
        ink: scene.look.ink(Token::Bad),
        text: format!("refused: {}; {why}", line.text),
        short: match line.short.split_once(' ') {
            Some((day, _)) if day.starts_with(|c: char| c.is_ascii_digit()) => format!("{day} refused"),
            _ => "refused".to_owned(),
        },
        changed: true,
    })
}

fn line(event: &Event, scene: &Scene<'_>) -> Option<Line> {
    let payload = match &event.payload {
        Read::Known(payload) => payload,
        Read::Unknown { kind, version } => {
            return Some(Line {
                glyph: '?',
                ink: scene.look.ink(Token::Warn),
                text: format!("{kind} v{version} is newer than this program: it only watches"),
                short: "unknown event".to_owned(),
                changed: true,
            });
        }
    };
    let look = scene.look;
    match payload {
        Payload::RunEnded { attempt, outcome, .. } => Some(ended(event, scene, attempt, outcome)),
        Payload::SubmissionAccepted {
            attempt,
            running,
            adopted,
            ..
        } => {
            let state = if *running {
                ChunkState::Running
            } else {
                ChunkState::Queued
            };
            let (verb, brief_verb) = match (adopted, running) {
                (true, _) => ("found at its executor", "adopted"),
                (false, true) => ("started", "started"),
                (false, false) => ("queued", "queued"),
            };
            let text = format!("{} {verb}, attempt {}", attempt.chunk, attempt.no);
            Some(of_state(
                look,
                state,
                text,
                format!("{} {brief_verb}", brief(attempt.chunk)),
                false,
            ))
        }
        Payload::RunStarted { attempt } => {
            let text = format!("{} started, attempt {}", attempt.chunk, attempt.no);
            let short = format!("{} started", brief(attempt.chunk));
            Some(of_state(look, ChunkState::Running, text, short, false))
        }
        Payload::RunUncertain { attempt, why } => {
            let text = format!("{} uncertain: {why}", attempt.chunk);
            let short = format!("{} unc", brief(attempt.chunk));
            Some(of_state(look, ChunkState::Uncertain, text, short, true))
        }
        Payload::SubmissionWithdrawn { attempt, why } => {
            let text = format!("{} withdrawn before its start: {why}", attempt.chunk);
            let short = format!("{} not sent", brief(attempt.chunk));
            Some(of_state(look, ChunkState::Pending, text, short, false))
        }
        // The start follows at once; telling both would only double the feed.
        Payload::SubmissionIntended { .. } => None,
        Payload::LimitChanged { change } => Some(limit(look, change)),
        Payload::HoldPlaced { chunks } => Some(marked(look, ChunkState::Held, "held", chunks, event)),
        Payload::HoldReleased { chunks } => {
            Some(marked(look, ChunkState::Pending, "released", chunks, event))
        }
        Payload::Skipped { chunks } => Some(marked(look, ChunkState::Skipped, "skipped", chunks, event)),
        Payload::StopRequested { chunks } => Some(marked(
            look,
            ChunkState::Cancelled,
            "asked to stop",
            chunks,
            event,
        )),
        Payload::Braked { attempts, .. } => {
            let chunks: Vec<ChunkId> = attempts.iter().map(|a| a.chunk).collect();
            let what = "cancelled to brake, run again later";
            Some(marked(look, ChunkState::Cancelled, what, &chunks, event))
        }
        Payload::RerunRequested { chunks, .. } => Some(marked(
            look,
            ChunkState::Queued,
            "asked to run again",
            chunks,
            event,
        )),
        other => Some(actions::line(event, scene, other).unwrap_or_else(|| command(event, scene, other))),
    }
}

/// `02-14`, of an hourly chunk day and hour.
fn brief(chunk: ChunkId) -> String {
    match chunk.hour {
        Some((hour, _)) => format!("{}T{hour:02}", chunk.date.format("%d")),
        None => chunk.date.format("%m-%d").to_string(),
    }
}

fn of_state(look: &Look, state: ChunkState, text: String, short: String, changed: bool) -> Line {
    Line {
        glyph: look.glyphs.narrow(state),
        ink: look.word(state),
        text,
        short,
        changed,
    }
}

fn ended(event: &Event, scene: &Scene<'_>, attempt: &AttemptId, outcome: &Outcome) -> Line {
    let (look, chunk) = (scene.look, attempt.chunk);
    match outcome {
        Outcome::Done => {
            let took = took(scene, event, attempt);
            let text = match &took {
                Some(took) => format!("{chunk} done in {}", duration(*took)),
                None => format!("{chunk} done"),
            };
            let short = format!("{} done {}", brief(chunk), took.map(three).unwrap_or_default());
            of_state(look, ChunkState::Done, text, short.trim_end().to_owned(), false)
        }
        Outcome::Cancelled => {
            let short = format!("{} stopped", brief(chunk));
            of_state(
                look,
                ChunkState::Cancelled,
                format!("{chunk} cancelled"),
                short,
                false,
            )
        }
        Outcome::Failed { failure, next } => {
            let (state, text) = match next {
                Next::Quarantine { why } => (ChunkState::Quarantined, format!("{chunk} quarantined: {why}")),
                Next::Retry { used, budget, .. } => (
                    ChunkState::Failed,
                    format!("{chunk} failed: {}, retry {used}/{budget}", failure.message),
                ),
                Next::Stay => (ChunkState::Failed, format!("{chunk} failed: {}", failure.message)),
            };
            let word = match state {
                ChunkState::Quarantined => "quar",
                state => state.word(),
            };
            let short = format!("{} {word}", brief(chunk));
            of_state(
                look,
                state,
                text,
                short,
                matches!(next, Next::Stay | Next::Quarantine { .. }),
            )
        }
    }
}

/// A length of time in three columns: `42m`, `4h`, `12d`.
fn three(took: chrono::TimeDelta) -> String {
    let s = took.num_seconds();
    age(chrono::TimeDelta::seconds(if s >= 60 { s / 60 * 60 } else { s }))
}

fn took(scene: &Scene<'_>, event: &Event, attempt: &AttemptId) -> Option<chrono::TimeDelta> {
    let Read::Known(Payload::RunEnded { started, ended, .. }) = &event.payload else {
        return None;
    };
    let chunk = scene.backfill?.chunk(attempt.chunk)?;
    let known = chunk.attempts.iter().find(|a| a.no == attempt.no)?;
    let started = started.or(known.started)?;
    Some(ended.unwrap_or(event.at) - started)
}

fn limit(look: &Look, change: &LimitChange) -> Line {
    let falls = change.to < change.from;
    let stops = change.to == 0 && change.from > 0;
    let because = change
        .why
        .split_once(": ")
        .map_or(change.why.as_str(), |(_, tail)| tail);
    let held = look.glyphs.narrow(ChunkState::Held);
    let (glyph, token) = match (stops, falls) {
        (true, _) => (held, Token::Bad),
        (_, true) => (look.glyphs.falling, Token::Warn),
        _ => (look.glyphs.rising, Token::Ok),
    };
    let (head, short) = match change.rule {
        Rule::Pause if stops => ("paused".to_owned(), "paused (lag)".to_owned()),
        Rule::Critical if stops => ("critical".to_owned(), "critical".to_owned()),
        _ => {
            let text = format!("limit {} to {}", change.from, change.to);
            (text.clone(), text)
        }
    };
    Line {
        glyph,
        ink: look.ink(token),
        text: format!("{head}: {because}"),
        short,
        changed: true,
    }
}

/// What a human did to some chunks.
fn marked(look: &Look, state: ChunkState, verb: &str, chunks: &[ChunkId], event: &Event) -> Line {
    let (what, brief) = match chunks {
        [one] => (one.to_string(), brief(*one)),
        many => (of(many.len() as u64, "chunk"), count(many.len() as u64)),
    };
    let reason = event
        .reason
        .as_ref()
        .map_or_else(String::new, |r| format!(": {r}"));
    let text = format!("{what} {verb}{reason}");
    let short = match verb {
        "asked to stop" => "stopping",
        "asked to run again" => "re-run",
        verb => verb,
    };
    of_state(look, state, text, format!("{brief} {short}"), true)
}

/// Everything that is not about single chunks.
fn command(event: &Event, scene: &Scene<'_>, payload: &Payload) -> Line {
    let look = scene.look;
    let who = event.actor.name.as_str();
    let reason = event
        .reason
        .as_ref()
        .map_or_else(String::new, |r| format!(": {r}"));
    let say = |token: Token, glyph: char, text: String, short: &str| Line {
        glyph,
        ink: look.ink(token),
        text,
        short: short.to_owned(),
        changed: true,
    };
    let (held, run) = (look.glyphs.narrow(ChunkState::Held), look.glyphs.slot_used);
    let (up, down) = (look.glyphs.rising, look.glyphs.falling);
    match payload {
        Payload::Started { spec, .. } if spec.attach.is_some() => {
            say(Token::Info, run, format!("attached by {who}{reason}"), "attached")
        }
        Payload::Started { .. } => say(Token::Info, run, format!("started by {who}{reason}"), "started"),
        Payload::Paused { until: None } => {
            say(Token::Warn, held, format!("paused by {who}{reason}"), "paused")
        }
        Payload::Paused { until: Some(end) } => {
            let end = clock(*end, scene.now, scene.zone);
            say(
                Token::Warn,
                held,
                format!("paused by {who} until {end}{reason}"),
                "paused",
            )
        }
        Payload::Resumed {} => say(Token::Info, run, format!("resumed by {who}{reason}"), "resumed"),
        Payload::PauseApplied { in_flight } => {
            let n = in_flight.len() as u64;
            let text = format!("pause confirmed, {} under way", of(n, "attempt"));
            say(Token::Muted, held, text, "pause applied")
        }
        Payload::CapSet { cap: Some(cap) } => {
            let short = format!("cap {cap}");
            say(
                Token::Warn,
                down,
                format!("cap {cap} set by {who}{reason}"),
                &short,
            )
        }
        Payload::CapSet { cap: None } => say(
            Token::Info,
            up,
            format!("cap taken away by {who}{reason}"),
            "no cap",
        ),
        Payload::Forced { force: Some(force) } => {
            let left = until(force.until - event.at);
            let text = format!("limit {} forced by {who} for {left}{reason}", force.limit);
            say(Token::Warn, up, text, &format!("forced {}", force.limit))
        }
        Payload::Forced { force: None } => say(
            Token::Info,
            up,
            format!("override ended by {who}{reason}"),
            "override ended",
        ),
        Payload::CancelRequested {} => {
            let glyph = look.glyphs.narrow(ChunkState::Cancelled);
            say(
                Token::Bad,
                glyph,
                format!("cancelled by {who}{reason}"),
                "cancelled",
            )
        }
        Payload::Amended { .. } => say(Token::Info, '+', format!("amended by {who}{reason}"), "amended"),
        Payload::Resolved { chunk, verdict } => {
            let text = format!("{chunk} resolved as {verdict:?} by {who}{reason}").to_lowercase();
            say(Token::Info, '?', text, &format!("{} resolved", brief(*chunk)))
        }
        Payload::LatchAcknowledged {} => say(
            Token::Info,
            up,
            format!("latch acknowledged by {who}"),
            "acknowledged",
        ),
        Payload::BreakerReset {} => say(
            Token::Info,
            up,
            format!("breaker closed by {who}{reason}"),
            "breaker closed",
        ),
        Payload::StopSupervising {} => say(
            Token::Warn,
            held,
            format!("{who} asked the supervisor to stop"),
            "stop asked",
        ),
        Payload::LeaseTaken { epoch, holder, from } => {
            let from = from
                .as_ref()
                .map_or_else(String::new, |f| format!(", taken over from {f}"));
            say(
                Token::Info,
                run,
                format!("{holder} supervises, epoch {epoch}{from}"),
                "lease taken",
            )
        }
        Payload::LeaseReleased { .. } => say(
            Token::Warn,
            held,
            "the supervisor ended in order".to_owned(),
            "lease free",
        ),
        Payload::BlindSince { signal, why, .. } => {
            say(Token::Warn, '?', format!("{signal} blind: {why}"), "blind")
        }
        Payload::SeenAgain { signal } => say(
            Token::Ok,
            up,
            format!("{signal} gives samples again"),
            "seen again",
        ),
        Payload::SignalGone { signal } => say(
            Token::Info,
            '-',
            format!("{signal} is not in the configuration any more"),
            "signal gone",
        ),
        Payload::BreakerOpened { why, .. } => {
            say(Token::Bad, held, format!("breaker open: {why}"), "breaker open")
        }
        Payload::BreakerClosed {} => say(Token::Ok, up, "breaker closed".to_owned(), "breaker closed"),
        Payload::StoppedOnFailure { why, .. } => {
            say(Token::Bad, held, format!("no further starts: {why}"), "stopped")
        }
        Payload::ConfigReloaded { changes } => say(
            Token::Info,
            '+',
            format!("configuration loaded: {}", changes.join(", ")),
            "config loaded",
        ),
        Payload::ConfigRejected { error } => say(
            Token::Bad,
            '!',
            format!("configuration refused: {error}"),
            "config refused",
        ),
        other => say(Token::Muted, ' ', other.kind().0.to_owned(), other.kind().0),
    }
}

#[cfg(test)]
mod tests;
