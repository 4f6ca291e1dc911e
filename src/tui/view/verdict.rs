//! While a signal holds everything back: was it us, when is lag where it must be, and what still runs.

use super::{
    lag::seconds_to,
    numbers::{clock, delta, duration, level, slope, until},
    scene::Scene,
    sentences::allowed,
};
use crate::{
    domain::{
        Time,
        event::{Payload, Read, Rule},
        spec::Law,
        state::{Backfill, ChunkState},
        tuning::Tuning,
    },
    plan::room::Times,
    tui::{
        model::{Panel, SignalView},
        theme::Token,
        widgets::{
            canvas::{Canvas, p},
            fit::wrap,
        },
    },
};
use chrono::TimeDelta;
use ratatui::layout::Rect;

/// What is known about the cause of a lag that had us stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// `Likely yes.`, `Likely no.`, `Too early.`
    pub answer: &'static str,
    /// One sentence of evidence.
    pub evidence: String,
    /// The instant that it was measured at.
    pub at: Option<Time>,
}

/// Compares when lag turned with when less of ours ran. `limits` are (when, limit, running weight).
pub fn was_it_us(
    signal: &SignalView,
    limits: impl Iterator<Item = (Time, u32, u32)>,
    paused: Time,
    say: impl Fn(Time) -> String,
) -> Verdict {
    let mut since = signal.samples.iter().filter_map(|(at, v)| v.map(|v| (*at, v)));
    // The peak after the pause, or shortly before it.
    let peak = since
        .clone()
        .filter(|(at, _)| *at >= paused - TimeDelta::minutes(2))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let newest = since.next_back();
    let early = |evidence: String| Verdict {
        answer: "Too early.",
        evidence,
        at: None,
    };
    let (Some((turned, top)), Some((_, now))) = (peak, newest) else {
        return early("No samples since the pause.".to_owned());
    };
    if now > 0.93 * top {
        return early(format!(
            "Lag has not turned: {} of a peak of {}.",
            level(now, signal.unit),
            level(top, signal.unit)
        ));
    }
    let mut before: Option<u32> = None;
    let mut fall = None;
    for (at, _, running) in limits {
        if let Some(old) = before
            && running < old
            && at <= turned
            && at >= paused
        {
            fall = Some((at, old, running));
        }
        before = Some(running);
    }
    match fall {
        Some((at, old, new)) if (turned - at).num_seconds() <= 300 => Verdict {
            answer: "Likely yes.",
            evidence: format!(
                "Lag turned down {} after running weight fell {old} to {new} at {}.",
                until(turned - at),
                say(at)
            ),
            at: Some(turned),
        },
        _ => Verdict {
            answer: "Likely no.",
            evidence: format!(
                "Lag turned down at {} while as much of ours ran as before.",
                say(turned)
            ),
            at: Some(turned),
        },
    }
}

/// Draws the block: verdict and clock on `raised`, then what still runs. Returns the rows used.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    let (Some(backfill), Some(signal)) = (scene.backfill, scene.signal) else {
        return;
    };
    let look = scene.look;
    let height = area.height.min(9);
    // The card reaches to the edge of the screen, so that its padding is the margin.
    let card = Rect {
        height,
        width: area.width + 1,
        ..area
    };
    canvas.clear(card, Token::Raised);
    let falling = signal.slope.is_some_and(|m| m < 0.0);
    let bar = look.ink(if falling { Token::Ok } else { Token::Warn });
    (card.top()..card.bottom()).for_each(|y| canvas.dot(card.x, y, look.glyphs.bar, bar));
    let inner = Rect {
        x: card.x + 2,
        width: card.width.saturating_sub(4),
        ..card
    };
    let verdict = was_it_us(
        signal,
        scene.feed.limits.iter().copied(),
        backfill.limit.at,
        |t| clock(t, scene.now, scene.zone),
    );
    let y = verdict_rows(canvas, inner, scene, &verdict);
    drain_clock(
        canvas,
        Rect {
            y,
            height: card.bottom().saturating_sub(y),
            ..inner
        },
        scene,
        backfill,
        signal,
    );
    let y = card.bottom() + 1;
    still_running(
        canvas,
        Rect {
            y,
            height: area.bottom().saturating_sub(y),
            ..area
        },
        scene,
        backfill,
    );
}

fn verdict_rows(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, verdict: &Verdict) -> u16 {
    let look = scene.look;
    canvas.put(
        area.x,
        area.y,
        area.right(),
        "WAS IT US?",
        look.bold(Token::Muted),
    );
    if let Some(at) = verdict.at {
        let text = format!("measured {}", clock(at, scene.now, scene.zone));
        canvas.right(
            area.x + 12,
            area.y,
            area.right(),
            &[p(text, look.ink(Token::Faint))],
        );
    }
    let text = format!("{} {}", verdict.answer, verdict.evidence);
    let lines = wrap(&text, area.width);
    for (i, line) in lines.iter().take(2).enumerate() {
        let y = area.y + 1 + i as u16;
        let head = if i == 0 { verdict.answer } else { "" };
        let x = canvas.put(area.x, y, area.right(), head, look.bold(Token::Bright));
        canvas.put(
            x,
            y,
            area.right(),
            line.strip_prefix(head).unwrap_or(line),
            look.ink(Token::Text),
        );
    }
    area.y + 4
}

fn drain_clock(
    canvas: &mut Canvas<'_>,
    area: Rect,
    scene: &Scene<'_>,
    backfill: &Backfill,
    signal: &SignalView,
) {
    let look = scene.look;
    if area.height == 0 {
        return;
    }
    canvas.put(
        area.x,
        area.y,
        area.right(),
        "DRAIN CLOCK",
        look.bold(Token::Muted),
    );
    let speed = signal.slope.filter(|m| *m < 0.0);
    let remark = match speed {
        Some(m) => format!(
            "at {}",
            slope(m).replace(
                "/s",
                &format!(" {}/s", super::chunk_words::unit_word(signal.unit))
            )
        ),
        None => "lag is not falling".to_owned(),
    };
    canvas.right(
        area.x + 12,
        area.y,
        area.right(),
        &[p(remark, look.ink(Token::Faint))],
    );
    let to_soft = seconds_to(scene, signal, signal.soft);
    let goes_on = GoesOn::of(scene, backfill, signal);
    let to_low = seconds_to(scene, signal, goes_on.below);
    let rows = [
        (
            format!("below soft {}", level(signal.soft, signal.unit)),
            to_soft,
            Token::Muted,
        ),
        (
            format!("{} {}", goes_on.word, level(goes_on.below, signal.unit)),
            to_low,
            Token::Muted,
        ),
        (
            goes_on
                .limit
                .map_or_else(|| "resume".to_owned(), |n| format!("resume at {n}")),
            to_low.map(|s| s + goes_on.hold),
            Token::Text,
        ),
    ];
    for (i, (label, seconds, token)) in rows.into_iter().enumerate() {
        let y = area.y + 1 + i as u16;
        if y >= area.bottom() {
            return;
        }
        canvas.put(area.x, y, area.right(), &label, look.ink(token));
        match seconds.filter(|s| *s < 86_400.0) {
            Some(s) => {
                let at = scene.now + TimeDelta::seconds(s as i64);
                canvas.put(
                    area.x + 18,
                    y,
                    area.right(),
                    &clock(at, scene.now, scene.zone),
                    look.bold(Token::Bright),
                );
                let left = format!("in {}", until(TimeDelta::seconds(s as i64)));
                canvas.right(area.x + 28, y, area.right(), &[p(left, look.ink(Token::Text))]);
            }
            None => {
                let passed = scene
                    .fresh(signal)
                    .is_some_and(|v| (i == 0 && v <= signal.soft) || (i == 1 && v <= goes_on.below));
                let text = if passed { "reached" } else { "unknown" };
                canvas.put(area.x + 18, y, area.right(), text, look.ink(Token::Muted));
            }
        }
    }
}

/// What has to come true before the law goes on by itself.
struct GoesOn {
    word: &'static str,
    /// Lag has to be below this ..
    below: f64,
    /// .. for so many seconds. Those of the default times; configured ones are in the *why* sentence.
    hold: f64,
    /// The limit then; `None`: that depends on the room there will be.
    limit: Option<u32>,
}

impl GoesOn {
    /// The classic law goes on below low, with half of what went wrong; the learned one below half of soft, with what
    /// the model leaves room for.
    fn of(scene: &Scene<'_>, backfill: &Backfill, signal: &SignalView) -> Self {
        let report = scene.feed.throttle.as_ref().map(|(_, report)| report);
        let learned = report.filter(|report| report.law == Law::Learned);
        match learned.and_then(|report| report.terms.as_ref()) {
            Some((_, terms)) => Self {
                word: "below",
                below: signal.soft / 2.0,
                hold: Times::default().hold,
                limit: terms.next.filter(|next| next.to > 0).map(|next| next.to),
            },
            None => Self {
                word: "below low",
                below: signal.low,
                hold: delta(Tuning::default().resume_hold).num_seconds() as f64,
                limit: Some(resume_limit(scene, backfill)),
            },
        }
    }
}

/// Half of the limit that went wrong, at least 1 (law C2).
fn resume_limit(scene: &Scene<'_>, backfill: &Backfill) -> u32 {
    let paused = scene
        .feed
        .events
        .iter()
        .rev()
        .find_map(|event| match &event.payload {
            Read::Known(Payload::LimitChanged { change })
                if event.backfill.as_ref() == Some(&backfill.id)
                    && matches!(change.rule, Rule::Pause | Rule::Critical)
                    && change.to == 0 =>
            {
                Some(change.from)
            }
            _ => None,
        });
    (paused.unwrap_or(backfill.spec.max_limit) / 2).max(1)
}

fn still_running(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, backfill: &Backfill) {
    let look = scene.look;
    // A title without a row under it would only be noise.
    if area.height < 2 {
        return;
    }
    let theirs = backfill.spec.attach.is_some();
    // What waits on the server is active, too, and does not run.
    let runs = |c: &&crate::domain::state::Chunk| !theirs || c.state == ChunkState::Running;
    let active: Vec<_> = backfill.active().filter(runs).collect();
    let title = format!("STILL RUNNING {}", active.len());
    super::calendar::name(
        canvas,
        area.x,
        area.y,
        area.right(),
        scene,
        3,
        &title,
        Panel::Executors,
    );
    let faint = look.ink(Token::Faint);
    if !theirs {
        canvas.right(area.x, area.y, area.right() - 7, &[p("weight", faint)]);
    }
    canvas.right(area.x, area.y, area.right(), &[p("for", faint)]);
    for (i, chunk) in active.iter().enumerate() {
        let y = area.y + 1 + i as u16;
        if y >= area.bottom() {
            return;
        }
        let more = active.len() - i;
        if y + 1 == area.bottom() && more > 1 {
            canvas.put(
                area.x,
                y,
                area.right(),
                &format!("and {more} more"),
                look.ink(Token::Muted),
            );
            return;
        }
        let Some(attempt) = chunk.last() else { continue };
        let since = attempt.started.unwrap_or(attempt.intended);
        let right = area.right();
        canvas.right(
            area.x,
            y,
            right,
            &[p(duration(scene.now - since), look.ink(Token::Text))],
        );
        if !theirs {
            let weight = p(attempt.weight.to_string(), look.ink(Token::Text));
            canvas.right(area.x, y, right - 7, &[weight]);
        }
        let glyph = look.glyphs.narrow(chunk.state).to_string();
        let x = canvas.put(area.x, y, right - 9, &glyph, look.word(chunk.state));
        let x = canvas.put(x + 1, y, right - 9, &chunk.id.to_string(), look.ink(Token::Text));
        canvas.put(
            x + 2,
            y,
            right - 9,
            attempt.executor.as_str(),
            look.ink(Token::Muted),
        );
    }
    let y = area.y + 1 + active.len() as u16;
    if active.is_empty() && y < area.bottom() {
        let limit = allowed(backfill, scene.now).value;
        let text = format!("nothing runs any more; the limit is {limit}");
        canvas.put(area.x, y, area.right(), &text, look.ink(Token::Muted));
    }
}
