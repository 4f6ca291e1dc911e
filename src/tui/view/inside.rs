//! The inside of a day's run in the drawer: its tasks, and the log of the one that is chosen.

use super::{
    log_page::{self, Line},
    numbers::{age, clock, duration, of},
    scene::Scene,
};
use crate::{
    domain::{
        Time,
        state::{Chunk, ChunkState},
    },
    executor::inside::{LogLine, Standing, TaskView},
    tui::{
        inside::{
            InsideView, TaskLog, Trouble, chosen,
            rows::{Row, counts, rows, selected},
        },
        theme::Token,
        update::select,
        widgets::{
            canvas::{Canvas, Piece, p},
            fit::{columns, wrap},
        },
    },
};
use chrono::TimeDelta;
use ratatui::layout::Rect;

/// A log is late when nothing was heard of it for this long while it goes on, in seconds.
const LATE: i64 = 15;

/// So far another machine's clock may be off before a try of ours is taken for one of an earlier order.
const OTHER_CLOCK: TimeDelta = TimeDelta::seconds(60);

/// What is known of the inside of the drawer's run.
pub(super) struct Inside<'a> {
    scene: &'a Scene<'a>,
    chunk: &'a Chunk,
    /// `None` until the first look began.
    view: Option<&'a InsideView>,
    rows: Vec<Row<'a>>,
    selected: Option<usize>,
}

/// Where something is drawn, and how wide it may be.
#[derive(Clone, Copy)]
pub(super) struct Strip {
    pub x: u16,
    pub end: u16,
    /// Column of the values beside the titles.
    pub values: u16,
}

/// The sign of a task is that of the state of a day.
const fn sign(standing: Standing) -> ChunkState {
    match standing {
        Standing::Failed => ChunkState::Failed,
        Standing::Runs => ChunkState::Running,
        Standing::Retries => ChunkState::Submitting,
        Standing::Queued => ChunkState::Queued,
        Standing::Waits => ChunkState::Pending,
        Standing::Blocked => ChunkState::Cancelled,
        Standing::Done => ChunkState::Done,
        Standing::Skipped => ChunkState::Skipped,
        Standing::Unknown => ChunkState::Uncertain,
    }
}

impl<'a> Inside<'a> {
    /// `None` if the log of the chunk's newest attempt is a file, or there is no attempt.
    pub fn of(scene: &'a Scene<'a>, chunk: &'a Chunk) -> Option<Self> {
        let view = select::inside(scene.app, scene.feed);
        let runs_dags = scene.backfill.is_some_and(|b| b.spec.dag.is_some());
        let told = view.is_some() || (runs_dags && scene.feed.log.is_none());
        if !told || chunk.attempts.is_empty() {
            return None;
        }
        let tasks: &[TaskView] = view.map_or(&[], InsideView::tasks);
        let rows = rows(tasks, scene.app.unfolded.as_deref());
        let selected = selected(&rows, tasks, &scene.app.pick);
        Some(Self {
            scene,
            chunk,
            view,
            rows,
            selected,
        })
    }

    /// How many rows the list has, the trouble above it included.
    pub fn wants(&self, strip: Strip) -> u16 {
        let trouble = self.trouble_lines(strip).len();
        u16::try_from(self.rows.len() + trouble).unwrap_or(u16::MAX)
    }

    fn trouble_lines(&self, strip: Strip) -> Vec<String> {
        let trouble = self.view.and_then(|v| v.trouble.as_ref());
        let width = strip.end.saturating_sub(strip.x);
        trouble.map_or_else(Vec::new, |t| trouble_lines(t, self.scene, width))
    }

    /// The title and `height` rows of the list below it. Returns the row after it.
    pub fn tasks(&self, canvas: &mut Canvas<'_>, strip: Strip, y: u16, height: u16) -> u16 {
        let look = self.scene.look;
        canvas.put(strip.x, y, strip.end, "TASKS", look.bold(Token::Muted));
        let lines = self.trouble_lines(strip);
        let mut at = y + 1;
        let bottom = at + height;
        for line in lines.iter().take(usize::from(height)) {
            canvas.put(strip.x, at, strip.end, line, look.ink(Token::Warn));
            at += 1;
        }
        let room = usize::from(bottom.saturating_sub(at));
        let first = self.first(room);
        let below = self.rows.len().saturating_sub(first + room);
        self.title(canvas, strip, y, (first, below));
        let names = self.names(strip);
        for (i, row) in self.rows.iter().enumerate().skip(first).take(room) {
            self.row(canvas, strip, at, names, row, self.selected == Some(i));
            at += 1;
        }
        bottom.min(y + 1 + u16::try_from(lines.len() + self.rows.len()).unwrap_or(u16::MAX))
    }

    /// The first row of the list, so that the chosen one is in sight.
    fn first(&self, room: usize) -> usize {
        let selected = self.selected.unwrap_or(0);
        let last_first = self.rows.len().saturating_sub(room);
        // Half of the room is for what comes after it.
        selected.saturating_sub(room / 2).min(last_first)
    }

    fn title(&self, canvas: &mut Canvas<'_>, strip: Strip, y: u16, hidden: (usize, usize)) {
        let (look, now) = (self.scene.look, self.scene.now);
        let (faint, muted, warn) = (
            look.ink(Token::Faint),
            look.ink(Token::Muted),
            look.ink(Token::Warn),
        );
        let view = self.view;
        let executor = self.chunk.last().map_or("?", |a| a.executor.as_str());
        let asking = view.and_then(|v| v.asking);
        let first = match (view.and_then(|v| v.as_of), view.and_then(|v| v.trouble.as_ref())) {
            (None, Some(trouble)) => p(format!("unknown for {}", age(now - trouble.since)), warn),
            (None, None) => match asking {
                Some(since) => p(format!("asking {executor} for {}", age(now - since)), muted),
                None => p(format!("asking {executor}"), muted),
            },
            (Some(_), _) if self.rows.is_empty() => p("the run has no tasks yet", muted),
            (Some(_), _) => p(self.counted(), faint),
        };
        let mut more = Vec::new();
        match (view.and_then(|v| v.as_of), view.and_then(|v| v.trouble.as_ref())) {
            (Some(seen), Some(_)) => {
                let seen = clock(seen, now, self.scene.zone);
                more.push(vec![p(format!("  as of {seen}"), warn)]);
            }
            (Some(_), None) => {
                let waits = |since| vec![p(format!("  no answer for {}", age(now - since)), warn)];
                more.extend(asking.map(waits));
            }
            (None, _) => {}
        }
        let (above, below) = hidden;
        let (up, down) = (look.glyphs.rising, look.glyphs.falling);
        for (n, sign, word) in [(below, down, "below"), (above, up, "above")] {
            if n > 0 {
                more.push(vec![p(format!("  {sign} {n} {word}"), muted)]);
            }
        }
        canvas.and_items(strip.values, y, strip.end, &[first], &more);
    }

    /// `1 failed, 2 running, 3 done`.
    fn counted(&self) -> String {
        let tasks: Vec<&TaskView> = self.view.map_or(&[][..], InsideView::tasks).iter().collect();
        let parts = counts(&tasks);
        let parts = parts.iter().map(|(s, n)| format!("{n} {}", s.word()));
        parts.collect::<Vec<_>>().join(", ")
    }

    /// Columns of the names: those of the longest one, within bounds.
    fn names(&self, strip: Strip) -> u16 {
        let most = (strip.end.saturating_sub(strip.x) / 2).clamp(8, 40);
        let longest = self.rows.iter().map(|r| columns(&name(r))).max();
        longest.unwrap_or(0).clamp(8, most)
    }

    fn row(
        &self,
        canvas: &mut Canvas<'_>,
        strip: Strip,
        y: u16,
        names: u16,
        row: &Row<'_>,
        is_selected: bool,
    ) {
        let look = self.scene.look;
        let (text, bright) = (look.ink(Token::Text), look.bold(Token::Bright));
        let state = sign(row.standing());
        let x = strip.x;
        canvas.put(
            x,
            y,
            strip.end,
            &look.glyphs.narrow(state).to_string(),
            look.word(state),
        );
        let ink = if is_selected { bright } else { text };
        canvas.put(x + 2, y, x + 2 + names, &name(row), ink);
        let at = x + 2 + names + 2;
        match row {
            Row::Group { tasks, open, .. } => {
                let parts = counts(tasks);
                let parts: Vec<String> = parts.iter().map(|(s, n)| format!("{n} {}", s.word())).collect();
                let first = [p(parts.join(" "), look.word(state))];
                let key = p("  enter", look.bold(Token::Accent));
                let verb = p(if *open { " folds" } else { " unfolds" }, look.ink(Token::Muted));
                let more = is_selected.then(|| vec![key, verb]);
                canvas.and_items(at, y, strip.end, &first, &more.into_iter().collect::<Vec<_>>());
            }
            Row::Task { task, .. } => self.task(canvas, at, y, strip, task),
        }
        if is_selected {
            // Also to be seen where there are no colours.
            canvas.put(x - 2, y, x - 1, ">", look.bold(Token::Accent));
            let row = Rect {
                x: x - 1,
                y,
                width: strip.end.saturating_sub(x - 1),
                height: 1,
            };
            canvas.restyle(row, look.ground(Token::RowSel));
        }
    }

    fn task(&self, canvas: &mut Canvas<'_>, at: u16, y: u16, strip: Strip, task: &TaskView) {
        let look = self.scene.look;
        let (text, muted) = (look.ink(Token::Text), look.ink(Token::Muted));
        let wide = strip.end.saturating_sub(strip.x) >= 60;
        let (words, word) = if wide {
            (17, task.word.as_str())
        } else {
            (9, task.standing.word())
        };
        canvas.put(at, y, strip.end, word, look.word(sign(task.standing)));
        let at = at + words;
        let tries = match (task.try_no, wide) {
            (0, _) => String::new(),
            (no, true) => format!("try {no} of {}", task.tries),
            (no, false) => format!("{no}/{}", task.tries),
        };
        canvas.put(at, y, strip.end, &tries, text);
        let at = at + if wide { 13 } else { 5 };
        let took = task.started.map(|from| {
            let to = task.ended.unwrap_or(self.scene.now);
            duration((to - from).max(TimeDelta::zero()))
        });
        canvas.put(at, y, strip.end, &took.unwrap_or_default(), text);
        let more: Vec<Vec<Piece<'_>>> = [&task.host, &task.pool]
            .into_iter()
            .flatten()
            .filter(|_| wide && task.try_no > 0)
            .map(|t| vec![p(format!("  {t}"), muted)])
            .collect();
        canvas.items(at + 6, y, strip.end, 0, &more);
    }

    /// The title and the last lines of the chosen log, down to `bottom`.
    pub fn log(&self, canvas: &mut Canvas<'_>, strip: Strip, y: u16, bottom: u16) {
        let look = self.scene.look;
        if y + 1 >= bottom {
            return;
        }
        let (x, end) = (strip.x, strip.end);
        let Some(log) = self.view.and_then(|v| v.log.as_ref()) else {
            return;
        };
        canvas.put(x, y, end, "LAST LINES", look.bold(Token::Muted));
        let mut first = vec![p(self.what(log), look.ink(Token::Faint))];
        let mut more = Vec::new();
        if let Some(late) = late(log, self.scene) {
            more.push(vec![p(format!("  {late}"), look.ink(Token::Warn))]);
        }
        let note = self.view.and_then(|v| chosen(v.tasks(), &self.scene.app.pick));
        let note = note.and_then(|(task, _)| task.note.as_ref());
        more.extend(note.map(|n| vec![p(format!("  note: {n}"), look.ink(Token::Muted))]));
        canvas.and_items(strip.values, y, end, &first, &more);
        first.clear();
        let mut y = y + 1;
        let trouble = log.trouble.as_ref().filter(|_| !self.is_silent());
        for line in trouble.map_or_else(Vec::new, |t| trouble_lines(t, self.scene, end.saturating_sub(x))) {
            if y < bottom {
                canvas.put(x, y, end, &line, look.ink(Token::Warn));
                y += 1;
            }
        }
        let room = usize::from(bottom.saturating_sub(y));
        if log.lines.is_empty() && room > 0 && trouble.is_none() {
            canvas.put(x, y, end, &nothing(log), look.ink(Token::Muted));
        }
        let lines = without_frames(&log.lines);
        let skip = lines.len().saturating_sub(room);
        for (i, line) in lines.iter().skip(skip).enumerate() {
            canvas.put(x, y + i as u16, end, &line.said(), look.ink(Token::Text));
        }
    }

    /// The executor does not answer at all, and that is said once.
    fn is_silent(&self) -> bool {
        self.view.is_some_and(|v| v.trouble.is_some())
    }

    /// `load, try 1 of 3`, and of which attempt if it is not the newest one's.
    fn what(&self, log: &TaskLog) -> String {
        title(log, self.view, self.chunk, is_theirs(self.scene))
    }
}

/// The words of the other side, and which key helps.
fn trouble_lines(trouble: &Trouble, scene: &Scene<'_>, width: u16) -> Vec<String> {
    let mut lines = wrap(&trouble.text, width);
    lines.truncate(2);
    let key = scene
        .hints
        .key("look at every source")
        .filter(|_| trouble.refused);
    lines.extend(key.map(|key| format!("{key} asks again")));
    lines
}

/// Without the frames of tracebacks, so that in a few lines the words of the work are seen; the whole log has them.
fn without_frames(lines: &[LogLine]) -> Vec<&LogLine> {
    let mut inside = false;
    let outside = |line: &&LogLine| {
        let begins = line.text.starts_with("Traceback (most recent call last)");
        inside = begins || (inside && line.text.starts_with(' '));
        !inside
    };
    lines.iter().filter(outside).collect()
}

/// How a row is called in the list.
fn name(row: &Row<'_>) -> String {
    match row {
        Row::Task { task, inner } => {
            let label = task.label.as_ref().map_or_else(String::new, |l| format!(" {l}"));
            match (task.key.map, inner) {
                (Some(index), true) => format!("  [{index}]{label}"),
                _ => format!("{}{label}", task.key),
            }
        }
        Row::Group { name, tasks, .. } => {
            let index = |t: Option<&&TaskView>| {
                t.and_then(|t| t.key.map)
                    .map_or_else(String::new, |i| i.to_string())
            };
            format!("{name}[{}..{}]", index(tasks.first()), index(tasks.last()))
        }
    }
}

/// Whether the runs are somebody else's.
fn is_theirs(scene: &Scene<'_>) -> bool {
    scene.backfill.is_some_and(|b| b.spec.attach.is_some())
}

/// Of which task and try a log is, and of which attempt where there are several; of `theirs`, of which run.
fn title(log: &TaskLog, view: Option<&InsideView>, chunk: &Chunk, theirs: bool) -> String {
    let task = view.and_then(|v| v.tasks().iter().find(|t| t.key == log.key));
    if log.try_no == 0 {
        return format!("{} has not begun", log.key);
    }
    let tries = task.map_or(log.try_no, |t| t.tries.max(log.try_no));
    let mut title = format!("{}, try {} of {tries}", log.key, log.try_no);
    if theirs {
        // Its tries are all of one run, and nothing of it was ordered here.
        if let Some(view) = view.filter(|_| chunk.attempts.len() > 1) {
            title.push_str(&format!(", run {}", view.attempt.no));
        }
        return title;
    }
    // Tries are counted through all attempts of a run.
    let known = view
        .and_then(|v| v.tries.as_ref())
        .filter(|(key, _)| *key == log.key);
    let own = known.and_then(|(_, tries)| tries.iter().find(|t| t.no == log.try_no));
    let started = own
        .and_then(|t| t.started)
        .or_else(|| task.filter(|t| t.try_no == log.try_no)?.started);
    let attempt = started.and_then(|began| {
        let earlier = chunk
            .attempts
            .iter()
            .find(|a| a.ended.is_some_and(|end| began <= end));
        earlier.or_else(|| chunk.last())
    });
    let first = chunk.attempts.first();
    let is_older = |began| first.is_some_and(|a| began + OTHER_CLOCK < a.intended);
    if started.is_some_and(is_older) {
        title.push_str(", before this order");
    } else if let Some(attempt) = attempt.filter(|_| chunk.attempts.len() > 1) {
        title.push_str(&format!(", attempt {}", attempt.no));
    }
    title
}

/// Since when nothing was heard of a log that goes on.
fn late(log: &TaskLog, scene: &Scene<'_>) -> Option<String> {
    let seen = log.as_of?;
    let is_late = log.trouble.is_some() || (scene.now - seen).num_seconds() > LATE;
    (is_late && !log.finished).then(|| format!("as of {}", clock(seen, scene.now, scene.zone)))
}

/// Why there is no line.
fn nothing(log: &TaskLog) -> String {
    match (log.try_no, log.as_of) {
        (0, _) => "nothing to read".to_owned(),
        (_, None) => "asking for it".to_owned(),
        (_, Some(_)) if log.finished => "(nothing written)".to_owned(),
        (_, Some(_)) => "(nothing written yet)".to_owned(),
    }
}

/// The whole of the chosen log that is kept, `back` lines from its end.
pub(super) fn full(canvas: &mut Canvas<'_>, area: Rect, scene: &Scene<'_>, view: &InsideView, back: usize) {
    let look = scene.look;
    let (x, end) = (area.x + 1, area.right().saturating_sub(1));
    let after = canvas.put(x, area.y, end, "LOG", look.bold(Token::Accent));
    let chunk = scene.app.cursor.and_then(|id| scene.backfill?.chunk(id));
    let (Some(log), Some(chunk)) = (&view.log, chunk) else {
        let asks = || vec!["asking for its tasks".to_owned()];
        let trouble = view.trouble.as_ref();
        let lines = trouble.map_or_else(asks, |t| trouble_lines(t, scene, end.saturating_sub(x)));
        let ink = look.ink(if trouble.is_some() {
            Token::Warn
        } else {
            Token::Muted
        });
        for (line, y) in lines.iter().zip(area.y + 2..area.bottom()) {
            canvas.put(x, y, end, line, ink);
        }
        return;
    };
    let mut title = format!(
        "{} of {}",
        title(log, Some(view), chunk, is_theirs(scene)),
        chunk.id
    );
    let trouble = view.trouble.as_ref().or(log.trouble.as_ref());
    let mut top = area.y + 1;
    for line in trouble.map_or_else(Vec::new, |t| trouble_lines(t, scene, end.saturating_sub(x))) {
        canvas.put(x, top, end, &line, look.ink(Token::Warn));
        top += 1;
    }
    let time = |at: Time| at.with_timezone(&scene.zone).format("%H:%M:%S ").to_string();
    let line = |l: &'_ LogLine| Line {
        time: l.at.map(time),
        text: l.said().into_owned(),
    };
    let lines: Vec<Line> = log.lines.iter().map(line).collect();
    let page = Rect {
        x,
        y: top,
        width: end.saturating_sub(x),
        height: area.bottom().saturating_sub(top),
    };
    let newer = log_page::draw(canvas, page, &lines, back, log.dropped);
    let position = match (newer, late(log, scene)) {
        (0, Some(late)) => p(late, look.ink(Token::Warn)),
        (0, None) if log.finished => p("end", look.ink(Token::Faint)),
        (0, None) => p("follows", look.ink(Token::Info)),
        (newer, _) => log_page::newer(look, newer),
    };
    let room = end.saturating_sub(columns(&position.text) + 2);
    let count = format!(", {}", of(log.lines.len() as u64, "line"));
    if log.as_of.is_some() && after + 2 + columns(&title) + columns(&count) <= room {
        title.push_str(&count);
    }
    let after = canvas.put(after + 2, area.y, room, &title, look.ink(Token::Muted));
    canvas.right(after + 2, area.y, end, &[position]);
    if log.lines.is_empty() && trouble.is_none() && page.height > 1 {
        canvas.put(x, page.y + 1, end, &nothing(log), look.ink(Token::Muted));
    }
}
