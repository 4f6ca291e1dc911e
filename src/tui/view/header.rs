//! The header: who and what on row 0, then slots whose numbers stand at the same place in every state, then *why*.

mod needs;
mod theirs;

pub(super) use needs::needs_you;

use super::{
    end,
    numbers::{age, clock, count, delta, duration, exact, lag, percent, slope, whole},
    scene::Scene,
    sentences::{Allowed, Binder, StateWord, allowed, clauses, is_unprotected, state_word, why},
    theirs::subjects,
    trend::Trend,
};
use crate::{
    config::Unit,
    domain::{
        blackout,
        calendar::Granularity,
        state::{Backfill, ChunkState},
        text::one_line,
    },
    tui::{
        model::{Feed, LeaseView, SignalView},
        theme::Token,
        widgets::{
            canvas::{Canvas, Piece, p, width},
            fit::{columns, fit},
        },
    },
};
use ratatui::layout::Rect;

const NARROW: [u16; 6] = [1, 12, 22, 41, 52, 71];
const FULL: [u16; 6] = [1, 20, 33, 58, 69, 96];
const WIDE: [u16; 8] = [1, 22, 37, 66, 82, 112, 138, 160];

/// Rows that the header takes.
pub(super) const ROWS: u16 = 4;

/// Draws the whole header into the first rows of `area`.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    canvas.clear(Rect { height: ROWS, ..area }, Token::Surface);
    let Some(backfill) = scene.backfill else { return };
    let (y, end) = (area.y, area.right());
    title(canvas, y, end, scene, backfill);
    let slots: &[u16] = match area.width {
        200.. => &WIDE,
        120.. => &FULL,
        _ => &NARROW,
    };
    let attached = backfill.spec.attach.is_some();
    let word = state_word(scene.feed, backfill, scene.now);
    let allowed = allowed(backfill, scene.now);
    for (i, x) in slots.iter().enumerate() {
        let slot = Slot {
            x: *x,
            // Lag is the one value that grows to its slot's end: two columns keep it from the next number.
            end: slots
                .get(i + 1)
                .map_or(end, |next| next - if i == 2 { 2 } else { 1 }),
            wide: area.width >= 120,
        };
        let (label, value) = match i {
            0 => (
                vec![p("STATE", scene.look.ink(Token::Muted))],
                chip(scene, &word, slot.room()),
            ),
            1 if attached => theirs::running(scene, backfill, slot.wide),
            1 => running(scene, backfill, allowed, slot.wide),
            2 => lag_slot(scene, backfill, slot),
            3 => done(scene, backfill, slot),
            4 => (
                vec![p("NEEDS YOU", scene.look.ink(Token::Muted))],
                needs_you(scene, slot.room()),
            ),
            5 if attached => theirs::seen(scene, backfill, slot.room()),
            5 => end::slot(scene, backfill, allowed, slot.wide),
            6 => endpoints(scene, slot.room()),
            _ => cliff(scene, backfill),
        };
        canvas.pieces(slot.x, y + 1, slot.end, &label);
        canvas.pieces(slot.x, y + 2, slot.end, &value);
    }
    why_row(canvas, y + 3, end, scene, backfill, allowed);
}

#[derive(Clone, Copy)]
struct Slot {
    x: u16,
    end: u16,
    wide: bool,
}

impl Slot {
    const fn room(self) -> u16 {
        self.end - self.x
    }
}

/// Row 0. The range goes first when it is narrow.
fn title(canvas: &mut Canvas<'_>, y: u16, end: u16, scene: &Scene<'_>, backfill: &Backfill) {
    let look = scene.look;
    let (text, muted, faint) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.ink(Token::Faint),
    );
    let spec = &backfill.spec;
    let local = scene.now.with_timezone(&scene.zone);
    let mut right = owner(scene, end >= 120, end >= 200);
    let date = if end >= 200 {
        local.format("%a %Y-%m-%d ").to_string()
    } else {
        String::new()
    };
    let gap = if end >= 200 { "    " } else { "   " };
    right.push(p(format!("{gap}{date}"), text));
    right.push(p(local.format("%H:%M:%S").to_string(), look.bold(Token::Bright)));
    right.push(p(format!(" {}", local.format("%Z")), muted));
    let right_x = canvas.right(1, y, end - 1, &right);
    let x = canvas.put(1, y, right_x, spec.name.as_str(), look.bold(Token::Bright));
    let x = match theirs::whose(scene, backfill) {
        Some(whose) => canvas.put(x + 2, y, right_x, &whose.text, whose.style),
        None => x,
    };
    let x = match &spec.environment {
        Some(environment) => {
            let word = environment.to_uppercase();
            let style = if is_production(environment) {
                look.bold(Token::Warn)
            } else {
                look.bold(Token::Text)
            };
            canvas.put(x + 2, y, right_x, &word, style)
        }
        None => x,
    };
    let n = format!(
        "{} {}s",
        exact(backfill.chunks.len() as u64),
        unit(spec.granularity)
    );
    let range = format!("{} .. {}, {n}, {}", spec.start, spec.end, spec.timezone.name());
    let room = right_x.saturating_sub(x + 4);
    // Of somebody else's the first thing to know is what it is.
    let subject = spec.attach.as_ref().and_then(|_| {
        let all = subjects(backfill).into_iter();
        all.clone().find(|s| columns(s) <= room).or(all.last())
    });
    let (range, more) = match subject {
        Some(subject) => (subject, format!("   {range}")),
        None => (range, format!("   {}", spec.target)),
    };
    let items = [vec![p(range.clone(), muted)], vec![p(more, muted)]];
    if let Some((holds, error)) = config_refused(scene.feed) {
        // It takes the place of the range: what was asked for in the file is not what is in force.
        let says = match room {
            60.. => format!("{holds}: {}", one_line(error, 300)),
            _ => holds.to_owned(),
        };
        if room >= 17 {
            canvas.put(x + 2, y, right_x - 2, &says, look.ink(Token::Warn));
        }
    } else if columns(&range) <= room {
        canvas.items(x + 2, y, right_x - 2, 0, &items[..if end >= 200 { 2 } else { 1 }]);
    } else if columns(&n) <= room {
        canvas.put(x + 2, y, right_x, &n, faint.patch(muted));
    }
}

/// What holds although the file has faults, and the fault: by the supervisor's word, or by what this screen read itself.
fn config_refused(feed: &Feed) -> Option<(&'static str, &str)> {
    let told = feed
        .state
        .config_error
        .as_deref()
        .map(|e| ("the old one holds", e));
    told.or_else(|| feed.config_fault.as_deref().map(|e| ("read in part", e)))
}

/// Whether an environment's name says that real users are behind it.
pub(super) fn is_production(environment: &str) -> bool {
    environment.to_ascii_lowercase().starts_with("prod")
}

/// The civil unit of a chunk.
pub(super) const fn unit(granularity: Granularity) -> &'static str {
    granularity.word()
}

/// Who supervises; left of it that nothing may be changed from here, and that the file on disk is not in force.
/// `roomy`: there are 120 columns and more; `wide`: 200.
fn owner<'a>(scene: &Scene<'a>, roomy: bool, wide: bool) -> Vec<Piece<'a>> {
    let look = scene.look;
    let mut pieces = Vec::new();
    let refused = config_refused(scene.feed).is_some();
    if refused {
        pieces.push(p("CONFIG REFUSED", look.bold(Token::Warn)));
        pieces.push(p("   ", look.ink(Token::Muted)));
    }
    if let Some(origin) = scene.app.read_only {
        pieces.push(p("READ-ONLY", look.bold(Token::Warn)));
        pieces.push(p(
            if wide {
                format!(" by {origin}   ")
            } else {
                "   ".to_owned()
            },
            look.ink(Token::Muted),
        ));
    }
    match &scene.feed.lease {
        LeaseView::Nobody => pieces.push(p("nobody supervises", look.bold(Token::Warn))),
        LeaseView::Held {
            holder,
            epoch,
            age: renewed,
        } => {
            // A long host name must not push the order's own name away.
            let theirs = scene.backfill.is_some_and(|b| b.spec.attach.is_some());
            let tight = (refused || scene.app.read_only.is_some() || theirs) && !roomy;
            let holder = fit(holder, if tight { 12 } else { 28 }, look.glyphs.cut_off);
            pieces.push(p(holder, look.ink(Token::Text)));
            let more = if tight {
                String::new()
            } else if wide {
                format!(" holds the lease {}, epoch {epoch}", age(delta(*renewed)))
            } else {
                " holds the lease".to_owned()
            };
            pieces.push(p(more, look.ink(Token::Muted)));
        }
    }
    pieces
}

/// The chip of the STATE slot, with a blank on both sides where there is room.
pub(super) fn chip<'a>(scene: &Scene<'_>, word: &StateWord, room: u16) -> Vec<Piece<'a>> {
    let text = if columns(&word.long) < room {
        &word.long
    } else {
        &word.short
    };
    let text = match room.saturating_sub(columns(text)) {
        2.. => format!(" {text} "),
        1 => format!(" {text}"),
        _ => fit(text, room, scene.look.glyphs.cut_off).into_owned(),
    };
    vec![p(text, scene.look.chip(word.tone))]
}

type Filled<'a> = (Vec<Piece<'a>>, Vec<Piece<'a>>);

fn running<'a>(scene: &Scene<'_>, backfill: &Backfill, allowed: Allowed, wide: bool) -> Filled<'a> {
    let look = scene.look;
    let label = if wide { "RUN / LIMIT" } else { "RUNNING" };
    let mut value = vec![p(
        count(u64::from(backfill.running_weight())),
        look.bold(Token::Bright),
    )];
    if scene.n(ChunkState::Uncertain) > 0 {
        value.push(p("?", look.bold(Token::Warn)));
    }
    let held = allowed.value < backfill.spec.max_limit;
    let token = if held { Token::Warn } else { Token::Text };
    value.push(p(" of ", look.ink(Token::Muted)));
    value.push(p(count(u64::from(allowed.value)), look.bold(token)));
    (vec![p(label, look.ink(Token::Muted))], value)
}

fn lag_slot<'a>(scene: &Scene<'a>, backfill: &Backfill, slot: Slot) -> Filled<'a> {
    let look = scene.look;
    let muted = look.ink(Token::Muted);
    let Some(signal) = scene.signal else {
        let says = if backfill.spec.signals.is_empty() {
            p("no signal", muted)
        } else if is_unprotected(scene.feed, backfill) {
            p("not configured", look.bold(Token::Warn))
        } else {
            p("no sample yet", muted)
        };
        return (vec![p("LAG", muted)], vec![says]);
    };
    let label = vec![p("LAG ", muted), p(signal.name.as_str(), muted)];
    let Some(value) = scene.fresh(signal) else {
        return (label, no_sample(scene, signal, slot.room()));
    };
    if let Some(old) = scene.aged(signal) {
        let now = p(lag(value, signal.unit), muted);
        let old = p(format!(" {} old", age(old)), look.bold(Token::Warn));
        return (label, vec![now, old]);
    }
    let now = p(
        lag(value, signal.unit),
        look.bold(Scene::lag_token(signal, value)),
    );
    if signal.unit == Unit::Alerts {
        return (label, vec![now]);
    }
    let Some(trend) = Trend::of(signal, value) else {
        let low = format!("  low {}", super::numbers::level(signal.low, signal.unit));
        return (
            label,
            vec![now, p(" flat", muted), p(low, look.ink(Token::Faint))],
        );
    };
    let trend = trend.under_the_law(scene, signal);
    let (arrow, token) = trend.arrow(scene);
    let mut pieces = vec![now, p(format!(" {arrow} "), look.ink(token))];
    let speed = format!("{} ", slope(trend.slope));
    // A time that is cut off is none: then shorter words, and at last the slope alone.
    let room = slot.room().saturating_sub(width(&pieces));
    let goals = [trend.goal(), trend.goal().replacen(" in ", " ", 1)];
    let fitting = goals.into_iter().find(|goal| columns(goal) <= room);
    let goal = fitting.unwrap_or_default();
    let up = trend.slope > 0.0;
    let ink = look.ink(if up { Token::Warn } else { Token::Text });
    // The slope goes before the time to the threshold.
    if width(&pieces) + columns(&speed) + columns(&goal) <= slot.room() {
        pieces.push(p(speed, look.ink(Token::Text)));
    }
    pieces.push(p(goal, ink));
    (label, pieces)
}

fn no_sample<'a>(scene: &Scene<'_>, signal: &SignalView, room: u16) -> Vec<Piece<'a>> {
    let look = scene.look;
    let mut pieces = vec![p("no sample", look.bold(Token::Warn))];
    if let Some((at, value)) = Scene::last(signal) {
        let last = format!(", {} {} ago", lag(value, signal.unit), whole(scene.now - at));
        let short = format!(" {}", age(scene.now - at));
        let fits = width(&pieces) + columns(&last) <= room;
        pieces.push(p(if fits { last } else { short }, look.ink(Token::Muted)));
    }
    pieces
}

fn done<'a>(scene: &Scene<'_>, backfill: &Backfill, slot: Slot) -> Filled<'a> {
    let look = scene.look;
    let (done, all) = (scene.n(ChunkState::Done), backfill.chunks.len() as u64);
    let settled = done + scene.n(ChunkState::Skipped);
    let share = percent(settled, all, false);
    // A number that is cut off is another number.
    let of_all = match slot.wide {
        true => vec![(count(done), format!("  {share}")), (String::new(), share)],
        false => vec![
            (count(done), format!("/{}", count(all))),
            (done.to_string(), format!("/{all}")),
            (String::new(), share),
        ],
    };
    let room = usize::from(slot.room());
    let fits = |(n, rest): &(String, String)| n.len() + rest.len() <= room;
    let (n, rest) = of_all.into_iter().find(fits).unwrap_or_default();
    let value = vec![p(n, look.bold(Token::Bright)), p(rest, look.ink(Token::Muted))];
    (vec![p("DONE", look.ink(Token::Muted))], value)
}

fn endpoints<'a>(scene: &Scene<'_>, room: u16) -> Filled<'a> {
    let look = scene.look;
    let signals = scene.feed.signals.values().map(|s| &s.problem);
    let executors = scene.feed.executors.values().map(|e| &e.problem);
    let all: Vec<_> = signals.chain(executors).collect();
    let problems: Vec<&String> = all.iter().filter_map(|p| p.as_ref()).collect();
    let mut value = vec![
        p(
            count((all.len() - problems.len()) as u64),
            look.bold(Token::Bright),
        ),
        p(" ok", look.ink(Token::Muted)),
    ];
    match problems.as_slice() {
        [] => {}
        [one] => {
            let words = one.split([',', ';', ':']).next().unwrap_or_default();
            let words = fit(words, room.saturating_sub(width(&value) + 4), look.glyphs.cut_off).into_owned();
            value.push(p(format!("  1 {words}"), look.ink(Token::Warn)));
        }
        more => value.push(p(format!("  {} failing", more.len()), look.ink(Token::Warn))),
    }
    (vec![p("ENDPOINTS", look.ink(Token::Muted))], value)
}

/// The next instant at which something ends by itself.
fn cliff<'a>(scene: &Scene<'_>, backfill: &Backfill) -> Filled<'a> {
    let look = scene.look;
    let pause = backfill
        .pause
        .as_ref()
        .and_then(|x| x.until)
        .map(|t| (t, "pause ends"));
    let force = backfill.force.as_ref().map(|(f, _)| (f.until, "force ends"));
    let breaker = backfill
        .breaker
        .as_ref()
        .map(|b| (b.retry_at, "breaker tries one"));
    let windows = &backfill.spec.blackout;
    let blackout = match blackout::now(windows, scene.now) {
        Some(closed) => closed.until.map(|t| (t, "blackout ends")),
        None => blackout::next(windows, scene.now).map(|closed| (closed.from, "blackout begins")),
    };
    let next = [pause, force, breaker, blackout]
        .into_iter()
        .flatten()
        .filter(|(t, _)| *t > scene.now)
        .min();
    let value = match next {
        Some((at, what)) => vec![
            p(clock(at, scene.now, scene.zone), look.bold(Token::Bright)),
            p(format!(" {what} in "), look.ink(Token::Muted)),
            p(duration(at - scene.now), look.bold(Token::Warn)),
        ],
        None => vec![p("none", look.ink(Token::Muted))],
    };
    (vec![p("NEXT CLIFF", look.ink(Token::Muted))], value)
}

/// Row 3.
pub(super) fn why_row(
    canvas: &mut Canvas<'_>,
    y: u16,
    end: u16,
    scene: &Scene<'_>,
    backfill: &Backfill,
    allowed: Allowed,
) {
    let look = scene.look;
    let sentence = why(scene.feed, backfill, scene.now);
    let end = end.saturating_sub(1);
    let x = canvas.put(1, y, end, "why ", look.ink(Token::Muted));
    let room = end.saturating_sub(x);
    let sentence = clauses(&sentence, |s| columns(s) <= room);
    let (before, number, after) = emphasis(sentence, allowed.by);
    let token = if matches!(allowed.by, Binder::Signal | Binder::Critical) {
        Token::Bad
    } else {
        Token::Warn
    };
    let pieces = [
        p(before, look.ink(Token::Text)),
        p(number, look.bold(token)),
        p(after, look.ink(Token::Text)),
    ];
    canvas.pieces(x, y, end, &pieces);
}

/// The one number of the sentence that made the limit what it is: the new limit, or the lag that crossed hard.
fn emphasis(sentence: &str, by: Binder) -> (&str, &str, &str) {
    let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
    if matches!(by, Binder::Signal | Binder::Critical)
        && let Some(at) = sentence
            .find(" s was over ")
            .or_else(|| sentence.find(" s is over "))
    {
        let start = sentence[..at].rfind(' ').map_or(0, |i| i + 1);
        return (&sentence[..start], &sentence[start..at + 2], &sentence[at + 2..]);
    }
    if let Some(at) = sentence.find("limit ") {
        let tail = &sentence[at + 6..];
        let from = digits(tail);
        if from > 0 && tail[from..].starts_with(" to ") {
            let start = at + 6 + from + 4;
            let n = digits(&sentence[start..]);
            return (
                &sentence[..start],
                &sentence[start..start + n],
                &sentence[start + n..],
            );
        }
    }
    (sentence, "", "")
}

/// Small screens: name and clock, the values without labels, then *why*.
pub(super) fn compact(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    canvas.clear(Rect { height: 3, ..area }, Token::Surface);
    let Some(backfill) = scene.backfill else { return };
    let (y, end) = (area.y, area.right());
    let look = scene.look;
    let local = scene.now.with_timezone(&scene.zone);
    let clock = vec![
        p(local.format("%H:%M:%S").to_string(), look.bold(Token::Bright)),
        p(format!(" {}", local.format("%Z")), look.ink(Token::Muted)),
    ];
    let right = canvas.right(1, y, end.saturating_sub(1), &clock);
    let mut x = canvas.put(
        1,
        y,
        right.saturating_sub(2),
        backfill.spec.name.as_str(),
        look.bold(Token::Bright),
    );
    if let Some(environment) = &backfill.spec.environment {
        let style = look.bold(if is_production(environment) {
            Token::Warn
        } else {
            Token::Text
        });
        x = canvas.put(
            x + 2,
            y,
            right.saturating_sub(2),
            &environment.to_uppercase(),
            style,
        );
    }
    let alarm = |says: &'static str, holds: bool| holds.then(|| vec![p(says, look.bold(Token::Warn))]);
    let whose = theirs::whose(scene, backfill).map(|piece| vec![piece]);
    let alarms = [
        whose,
        alarm("nobody supervises", scene.feed.lease == LeaseView::Nobody),
        alarm("READ-ONLY", scene.app.read_only.is_some()),
        alarm("CONFIG REFUSED", config_refused(scene.feed).is_some()),
    ];
    let alarms: Vec<_> = alarms.into_iter().flatten().collect();
    canvas.items(x + 1, y, right.saturating_sub(1), 1, &alarms);
    let word = state_word(scene.feed, backfill, scene.now);
    let allowed = allowed(backfill, scene.now);
    let room = if area.width >= 60 {
        19
    } else {
        columns(&word.short) + 2
    };
    let slot = Slot {
        x: 0,
        end: 14,
        wide: false,
    };
    let short = StateWord {
        long: word.short.clone(),
        ..word.clone()
    };
    let items = [
        chip(scene, if area.width >= 60 { &word } else { &short }, room),
        lag_slot(scene, backfill, slot).1.into_iter().take(2).collect(),
        needs_you(scene, 26),
        if backfill.spec.attach.is_some() {
            theirs::running(scene, backfill, false).1
        } else {
            running(scene, backfill, allowed, false).1
        },
        done(scene, backfill, slot).1,
    ];
    canvas.items(1, y + 1, end.saturating_sub(1), 2, &items);
    why_row(canvas, y + 2, end, scene, backfill, allowed);
}
