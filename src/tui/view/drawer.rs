//! The day drawer: what the cursor's chunk waits for, its facts, its attempts, and the end of its log.

use super::{
    chunk_words::{date, reason, took},
    inside::{self, Inside, Strip},
    log_page::{self, Line},
    numbers::{clock, duration},
    scene::Scene,
    shares::Shares,
};
use crate::{
    domain::state::{Attempt, Backfill, Chunk, ChunkState, Phase},
    plan::why::words,
    tui::{
        model::Layer,
        theme::{Look, Token},
        widgets::{
            canvas::{Canvas, p},
            fit::wrap,
        },
    },
};
use ratatui::{layout::Rect, style::Style};

/// Columns of the values, counted from the bar, and of the attempts table, counted from there.
struct Columns {
    values: u16,
    took: u16,
    profile: Option<u16>,
    /// How it ended; of somebody else's run, which one it is.
    ended: u16,
}

const WIDE: Columns = Columns {
    values: 15,
    took: 13,
    profile: Some(19),
    ended: 29,
};
const SLIM: Columns = Columns {
    values: 14,
    took: 12,
    profile: None,
    ended: 18,
};

/// Draws the drawer of the cursor's chunk.
pub(super) fn draw(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    let look = scene.look;
    canvas.clear(area, Token::Raised);
    let chunk = scene.app.cursor.and_then(|id| scene.backfill?.chunk(id));
    let bar = match chunk {
        Some(chunk) => state_bar(look, chunk.state),
        None => look.ink(Token::Line),
    };
    (area.top()..area.bottom()).for_each(|y| canvas.dot(area.x, y, look.glyphs.bar, bar));
    let (Some(backfill), Some(chunk)) = (scene.backfill, chunk) else {
        let y = area.y + u16::from(area.height > 3);
        canvas.put(
            area.x + 3,
            y,
            area.right(),
            "No day is under the cursor.",
            look.ink(Token::Muted),
        );
        return;
    };
    Drawer {
        scene,
        backfill,
        chunk,
        area,
    }
    .draw(canvas);
}

/// The colour of a bar at the left edge: that of the day's state.
fn state_bar(look: &Look, state: ChunkState) -> Style {
    match look.tile(state) {
        Some(_) => look.fill_ink(state),
        None => look.word(state),
    }
}

struct Drawer<'a> {
    scene: &'a Scene<'a>,
    backfill: &'a Backfill,
    chunk: &'a Chunk,
    area: Rect,
}

/// A block of the drawer: rows drawn as a closure would need a lifetime dance, so blocks are plain rows.
struct Row<'a> {
    label: &'a str,
    value: Vec<(String, Style)>,
}

impl Drawer<'_> {
    fn draw(&self, canvas: &mut Canvas<'_>) {
        let (area, look) = (self.area, self.scene.look);
        let pad = u16::from(area.height >= 20);
        let (x, end) = (area.x + 3, area.right().saturating_sub(2));
        let mut y = area.y + pad;
        let bottom = area.bottom().saturating_sub(pad);
        self.head(canvas, x, y, end);
        y += 1;
        for line in wrap(&self.sentence(), end.saturating_sub(x)).iter().take(2) {
            if y < bottom {
                canvas.put(x, y, end, line, look.ink(Token::Text));
                y += 1;
            }
        }
        if let Some(inside) = Inside::of(self.scene, self.chunk) {
            return self.with_inside(canvas, &inside, x, y, end, bottom);
        }
        let attempts = self.chunk.attempts.len().min(6) as u16;
        // What stays when it is short: attempts, one line of the log; then facts, then air.
        let room = bottom.saturating_sub(y);
        let facts = self.facts();
        let log_least = 2;
        let airy = room >= facts.len() as u16 + attempts + log_least + 5;
        let with_facts = room > facts.len() as u16 + attempts + log_least;
        let air = u16::from(airy);
        if with_facts {
            y += air;
            for row in facts {
                y = self.row(canvas, x, y, end, bottom, &row);
            }
        }
        y = self.attempts(canvas, x, y + air, end, bottom.saturating_sub(log_least));
        let keys = airy && self.keys(canvas, x, bottom - 1, end);
        self.log(
            canvas,
            x,
            y + air,
            end,
            bottom.saturating_sub(2 * u16::from(keys)),
        );
    }

    /// What stays when it is short: the newest attempt, three tasks, two lines of the log; then more of each, facts, and
    /// air.
    fn with_inside(
        &self,
        canvas: &mut Canvas<'_>,
        inside: &Inside<'_>,
        x: u16,
        y: u16,
        end: u16,
        bottom: u16,
    ) {
        let strip = Strip {
            x,
            end,
            values: self.area.x + self.columns().values,
        };
        let facts = self.facts();
        let wants = Shares {
            attempts: self.chunk.attempts.len().min(6) as u16,
            tasks: inside.wants(strip),
            facts: facts.len() as u16,
        };
        let shares = wants.within(bottom.saturating_sub(y));
        let air = u16::from(shares.airy);
        let mut y = y;
        if shares.with_facts {
            y += air;
            for row in facts {
                y = self.row(canvas, x, y, end, bottom, &row);
            }
        }
        y += air;
        y = self.attempts(canvas, x, y, end, (y + 1 + shares.attempts).min(bottom));
        y = inside.tasks(canvas, strip, y + air, shares.tasks) + air;
        let keys = shares.airy && self.keys(canvas, x, bottom - 1, end);
        inside.log(canvas, strip, y, bottom.saturating_sub(2 * u16::from(keys)));
    }

    /// Somebody else's runs have no profile.
    const fn columns(&self) -> Columns {
        match (self.area.width < 64, self.is_theirs()) {
            (true, _) => SLIM,
            (false, false) => WIDE,
            (false, true) => Columns {
                profile: None,
                ended: 19,
                ..WIDE
            },
        }
    }

    const fn is_theirs(&self) -> bool {
        self.backfill.spec.attach.is_some()
    }

    fn head(&self, canvas: &mut Canvas<'_>, x: u16, y: u16, end: u16) {
        let look = self.scene.look;
        let state = self.chunk.state;
        let word = look.word(state);
        let after = canvas.pieces(
            x,
            y,
            end,
            &[
                p(date(self.backfill, self.chunk), look.bold(Token::Bright)),
                p(
                    format!("  {} {}", look.glyphs.narrow(state), state.word()),
                    word.patch(look.bold(Token::Text).fg(word.fg.unwrap_or_default())),
                ),
            ],
        );
        let since = format!(
            "since {}",
            clock(self.chunk.since, self.scene.now, self.scene.zone)
        );
        let room = end.saturating_sub(after + 2);
        if crate::tui::widgets::fit::columns(&since) <= room {
            canvas.right(after + 2, y, end, &[p(since, look.ink(Token::Faint))]);
        }
    }

    fn sentence(&self) -> String {
        let (why, unblock) = reason(self.chunk, self.scene);
        let mut text = why;
        if !text.ends_with('.') {
            text.push('.');
        }
        if unblock.is_empty() {
            text
        } else {
            format!("{text} {unblock}")
        }
    }

    fn facts(&self) -> Vec<Row<'static>> {
        let look = self.scene.look;
        let (text, muted) = (look.ink(Token::Text), look.ink(Token::Muted));
        let spec = &self.backfill.spec;
        let id = self.chunk.id;
        let mut rows = Vec::new();
        if self.is_theirs() {
            rows.push(Row {
                label: "of",
                value: vec![(spec.target.clone(), text)],
            });
            rows.push(self.interval());
            return rows;
        }
        let lane = spec.lane(id);
        if !spec.source.is_empty() {
            let parts: Vec<String> = spec.source.iter().map(|(k, v)| format!("{k} {v}")).collect();
            rows.push(Row {
                label: "reads",
                value: vec![(parts.join(", "), text)],
            });
        }
        let published = if self.chunk.state == ChunkState::Done {
            ""
        } else {
            "  not written yet"
        };
        rows.push(Row {
            label: "writes",
            value: vec![
                (format!("{} {id}", spec.target), text),
                (published.to_owned(), muted),
            ],
        });
        rows.push(self.interval());
        let profile = spec
            .profiles
            .get(spec.first_profile(id))
            .map_or("", |p| p.name.as_str());
        rows.push(Row {
            label: "lane",
            value: vec![
                (lane.word().to_owned(), text),
                (format!("  weight {}", spec.weight(id)), muted),
                (format!(", first profile {profile}"), muted),
            ],
        });
        rows
    }

    fn interval(&self) -> Row<'static> {
        let look = self.scene.look;
        let (text, muted) = (look.ink(Token::Text), look.ink(Token::Muted));
        let (from, to) = (self.chunk.interval.start, self.chunk.interval.end);
        let local = |t: crate::domain::Time| {
            t.with_timezone(&self.backfill.spec.timezone)
                .format("%Y-%m-%d %H:%M %z")
                .to_string()
        };
        let span = if self.area.width < 64 {
            local(from)
        } else {
            format!("{} to {}", local(from), local(to))
        };
        Row {
            label: "interval",
            value: vec![(span, text), (format!("  {}", duration(to - from)), muted)],
        }
    }

    /// Keys that do something to this chunk, as the action table has them.
    fn keys(&self, canvas: &mut Canvas<'_>, x: u16, y: u16, end: u16) -> bool {
        let look = self.scene.look;
        let acting = self.scene.hints.acting();
        let items: Vec<_> = acting
            .map(|(keys, verb)| {
                let keys = p(keys, look.bold(Token::Accent));
                vec![keys, p(format!(" {verb}"), look.ink(Token::Muted))]
            })
            .collect();
        canvas.items(x, y, end, 3, &items);
        !items.is_empty()
    }

    fn row(&self, canvas: &mut Canvas<'_>, x: u16, y: u16, end: u16, bottom: u16, row: &Row<'_>) -> u16 {
        if y >= bottom {
            return y;
        }
        canvas.put(x, y, end, row.label, self.scene.look.ink(Token::Muted));
        let mut pieces = row.value.iter().map(|(t, s)| p(t.as_str(), *s));
        let first: Vec<_> = pieces.next().into_iter().collect();
        let more: Vec<Vec<_>> = pieces.map(|piece| vec![piece]).collect();
        canvas.and_items(self.area.x + self.columns().values, y, end, &first, &more);
        y + 1
    }

    fn attempts(&self, canvas: &mut Canvas<'_>, x: u16, y: u16, end: u16, bottom: u16) -> u16 {
        let look = self.scene.look;
        let faint = look.ink(Token::Faint);
        if y >= bottom {
            return y;
        }
        let (title, last) = if self.is_theirs() {
            ("RUNS", "run")
        } else {
            ("ATTEMPTS", "ended")
        };
        canvas.put(x, y, end, title, look.bold(Token::Muted));
        let values = self.area.x + self.columns().values;
        if self.chunk.attempts.is_empty() {
            canvas.put(values, y, end, "none yet", look.ink(Token::Muted));
            return y + 1;
        }
        let columns = self.columns();
        for (dx, head) in [(0, "start"), (columns.took, "took"), (columns.ended, last)] {
            canvas.put(values + dx, y, end, head, faint);
        }
        if let Some(dx) = columns.profile {
            canvas.put(values + dx, y, end, "profile", faint);
        }
        let room = bottom.saturating_sub(y + 1);
        let skip = self.chunk.attempts.len().saturating_sub(usize::from(room));
        let mut y = y + 1;
        for attempt in self.chunk.attempts.iter().skip(skip) {
            self.attempt(canvas, x, y, end, attempt);
            y += 1;
        }
        y
    }

    fn attempt(&self, canvas: &mut Canvas<'_>, x: u16, y: u16, end: u16, attempt: &Attempt) {
        let look = self.scene.look;
        let state = state_of(attempt.phase);
        let text = look.ink(Token::Text);
        canvas.put(
            x,
            y,
            end,
            &look.glyphs.narrow(state).to_string(),
            look.word(state),
        );
        canvas.put(x + 2, y, end, &attempt.no.to_string(), text);
        let values = self.area.x + self.columns().values;
        let start = clock(
            attempt.started.unwrap_or(attempt.intended),
            self.scene.now,
            self.scene.zone,
        );
        let columns = self.columns();
        canvas.put(values, y, values + columns.took, &start, text);
        let took = took(attempt, self.scene).unwrap_or_default();
        canvas.put(values + columns.took, y, values + columns.took + 5, &took, text);
        if let Some(dx) = columns.profile {
            let profile = self.backfill.spec.profiles.get(attempt.profile as usize);
            canvas.put(
                values + dx,
                y,
                values + dx + 9,
                profile.map_or("", |p| p.name.as_str()),
                text,
            );
        }
        if let Some(run) = attempt.run.as_ref().filter(|_| self.is_theirs()) {
            let id = [p(run.0.as_str(), text)];
            let note = attempt.note.as_deref().map(|note| format!("  {note}"));
            let note = note.map(|note| vec![p(note, look.ink(Token::Muted))]);
            canvas.and_items(values + columns.ended, y, end, &id, note.as_slice());
            return;
        }
        let mut ended = match (&attempt.failure, attempt.phase) {
            (Some(failure), _) => words(failure),
            (None, phase) if phase.is_open() => format!("{} on {}", phase.word(), attempt.executor),
            (None, phase) => phase.word().to_owned(),
        };
        if let Some(note) = &attempt.note {
            ended.push_str(&format!(", {note}"));
        }
        canvas.put(values + columns.ended, y, end, &ended, text);
    }

    fn log(&self, canvas: &mut Canvas<'_>, x: u16, y: u16, end: u16, bottom: u16) {
        let look = self.scene.look;
        if y + 1 >= bottom {
            return;
        }
        canvas.put(x, y, end, "LAST LINES", look.bold(Token::Muted));
        let values = self.area.x + self.columns().values;
        let own =
            self.scene.feed.log.as_ref().filter(|(attempt, _)| {
                attempt.chunk == self.chunk.id && attempt.backfill == self.backfill.id
            });
        let Some((attempt, lines)) = own else {
            let text = if self.chunk.attempts.is_empty() {
                "nothing has run yet"
            } else {
                "no log is at hand"
            };
            canvas.put(values, y, end, text, look.ink(Token::Muted));
            return;
        };
        let executor = self
            .chunk
            .attempts
            .iter()
            .find(|a| a.no == attempt.no)
            .map(|a| a.executor.as_str());
        let noun = if self.is_theirs() { "run" } else { "attempt" };
        let remark = format!("{noun} {} on {}", attempt.no, executor.unwrap_or("?"));
        canvas.put(values, y, end, &remark, look.ink(Token::Faint));
        let room = usize::from(bottom.saturating_sub(y + 1));
        if lines.is_empty() {
            canvas.put(x, y + 1, end, "(nothing written)", look.ink(Token::Muted));
        }
        for (i, line) in lines.iter().skip(lines.len().saturating_sub(room)).enumerate() {
            canvas.put(x, y + 1 + i as u16, end, line, look.ink(Token::Text));
        }
    }
}

/// The state whose sign an attempt gets.
const fn state_of(phase: Phase) -> ChunkState {
    match phase {
        Phase::Intended => ChunkState::Submitting,
        Phase::Queued => ChunkState::Queued,
        Phase::Running => ChunkState::Running,
        Phase::Uncertain => ChunkState::Uncertain,
        Phase::Withdrawn | Phase::Cancelled => ChunkState::Cancelled,
        Phase::Done => ChunkState::Done,
        Phase::Failed => ChunkState::Failed,
    }
}

/// The whole log of the drawer's attempt, `back` rows from its end.
pub(super) fn full_log(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>) {
    let Some(Layer::Log(back)) = scene.app.layers.iter().rev().find(|l| matches!(l, Layer::Log(_))) else {
        return;
    };
    let look = scene.look;
    canvas.clear(area, Token::Bg);
    if let Some(view) = crate::tui::update::select::inside(scene.app, scene.feed) {
        return inside::full(canvas, area, scene, view, *back);
    }
    let end = area.right().saturating_sub(1);
    let Some((attempt, lines)) = &scene.feed.log else {
        canvas.put(area.x + 1, area.y, end, "LOG", look.bold(Token::Accent));
        canvas.put(
            area.x + 1,
            area.y + 2,
            end,
            "No log is at hand for this attempt.",
            look.ink(Token::Muted),
        );
        return;
    };
    let title = format!(
        "attempt {} of {}, {}",
        attempt.no,
        attempt.chunk,
        super::numbers::of(lines.len() as u64, "line")
    );
    let x = canvas.put(area.x + 1, area.y, end, "LOG", look.bold(Token::Accent));
    canvas.put(x + 2, area.y, end, &title, look.ink(Token::Muted));
    let page = Rect {
        x: area.x + 1,
        y: area.y + 1,
        width: end.saturating_sub(area.x + 1),
        height: area.height.saturating_sub(1),
    };
    let shown: Vec<Line> = lines
        .iter()
        .map(|l| Line {
            time: None,
            text: l.clone(),
        })
        .collect();
    let newer = log_page::draw(canvas, page, &shown, *back, 0);
    let position = match newer {
        0 => p("end", look.ink(Token::Faint)),
        newer => log_page::newer(look, newer),
    };
    canvas.right(x + 2, area.y, end, &[position]);
    if lines.is_empty() && page.height > 1 {
        canvas.put(
            page.x,
            page.y + 1,
            end,
            "(nothing written)",
            look.ink(Token::Muted),
        );
    }
}
