//! The days of a plan: those that it acts on, and those that it leaves alone.

use super::Row;
use crate::{
    plan::preview::PreviewChunk,
    tui::{
        model::{FEW_DAYS, PlanDialog},
        theme::Token,
        view::{numbers::of, scene::Scene},
        widgets::{
            canvas::p,
            fit::{columns, fit},
        },
    },
};

/// The days that it acts on, a few of them or from the first row that is scrolled to.
pub(super) fn will<'a>(scene: &Scene<'_>, dialog: &PlanDialog, most: usize) -> Vec<Row<'a>> {
    let look = scene.look;
    let (text, muted, faint) = (
        look.ink(Token::Text),
        look.ink(Token::Muted),
        look.ink(Token::Faint),
    );
    let all = &dialog.preview.will;
    let columns = Columns::of(scene, all);
    let mut rows = vec![Row::more(vec![p(columns.heads(scene), faint)])];
    let (skip, few) = match dialog.all_days {
        Some(first) => (first.min(all.len().saturating_sub(1)), most.max(FEW_DAYS)),
        None if all.len() > FEW_DAYS => (0, FEW_DAYS - 1),
        None => (0, FEW_DAYS),
    };
    // The day that the operator looks at comes first; the others keep the order of their starts.
    let here = |c: &&PreviewChunk| Some(c.chunk) == scene.app.cursor;
    let sorted = all.iter().filter(here).chain(all.iter().filter(|c| !here(c)));
    for chunk in sorted.skip(skip).take(few) {
        let state = scene.backfill.and_then(|b| b.chunk(chunk.chunk)).map(|c| c.state);
        let sign = state.map_or(' ', |s| look.glyphs.narrow(s));
        let ink = state.map_or(muted, |s| look.word(s));
        let day = match chunk.chunk.hour {
            None => chunk.chunk.date.format("%a %Y-%m-%d").to_string(),
            Some(_) => chunk.chunk.to_string(),
        };
        rows.push(Row {
            label: None,
            pieces: vec![
                p(format!("{sign} "), ink),
                p(columns.row(scene, &day, chunk), text),
            ],
            indent: -2,
        });
    }
    let left = all.len().saturating_sub(skip + few);
    if left > 0 {
        let how = if dialog.all_days.is_some() {
            "below"
        } else {
            "tab lists them"
        };
        rows.push(Row::more(vec![p(format!("and {left} more, {how}"), muted)]));
    }
    rows
}

/// What is told of each day.
enum Columns {
    /// Of our own: its attempts, the profile, and where there are several the lane.
    Ours { lanes: bool },
    /// Of somebody else's: its state and the run that it is in.
    Theirs,
}

impl Columns {
    fn of(scene: &Scene<'_>, all: &[PreviewChunk]) -> Self {
        if scene.backfill.is_some_and(|b| b.spec.attach.is_some()) {
            return Self::Theirs;
        }
        // Where all lanes are normal, nothing is said about lanes.
        let lanes = all.iter().any(|c| c.lane != "normal");
        Self::Ours { lanes }
    }

    fn heads(&self, scene: &Scene<'_>) -> String {
        match self {
            Self::Ours { .. } => self.line(scene, &["day", "last attempt", "attempt", "profile", "lane"]),
            Self::Theirs => self.line(scene, &["day", "is", "its run there"]),
        }
    }

    fn row(&self, scene: &Scene<'_>, day: &str, chunk: &PreviewChunk) -> String {
        match self {
            Self::Ours { .. } => {
                let attempt = match chunk.attempt {
                    0 => String::new(),
                    n => n.to_string(),
                };
                self.line(scene, &[day, &chunk.last, &attempt, &chunk.profile, chunk.lane])
            }
            Self::Theirs => {
                let seen = scene.backfill.and_then(|b| b.chunk(chunk.chunk)?.last());
                let run = seen.and_then(|a| a.run.as_ref()).map_or("", |r| r.0.as_str());
                self.line(scene, &[day, chunk.state, run])
            }
        }
    }

    fn line(&self, scene: &Scene<'_>, cells: &[&str]) -> String {
        let cut = |text: &str, max: u16| fit(text, max, scene.look.glyphs.cut_off).into_owned();
        let row = match (self, cells) {
            (Self::Ours { lanes }, [day, last, attempt, profile, lane]) => {
                let room = if *lanes { 16 } else { 25 };
                let (last, profile) = (pad(&cut(last, room), room + 1), pad(&cut(profile, 8), 9));
                let lane = if *lanes { lane } else { "" };
                format!("{day:<17}{last}{attempt:>7}  {profile}{lane}")
            }
            (Self::Theirs, [day, state, run]) => {
                format!("{day:<17}{state:<11}{}", cut(run, 32))
            }
            _ => String::new(),
        };
        row.trim_end().to_owned()
    }
}

/// Blanks after a text, counted in columns.
fn pad(text: &str, to: u16) -> String {
    let blanks = to.saturating_sub(columns(text));
    format!("{text}{}", " ".repeat(usize::from(blanks)))
}

/// Those left alone, grouped by reason, most first.
pub(super) fn will_not<'a>(scene: &Scene<'_>, dialog: &PlanDialog, most: usize) -> Vec<Row<'a>> {
    let look = scene.look;
    let (text, muted) = (look.ink(Token::Text), look.ink(Token::Muted));
    let unit = scene.backfill.map_or("chunk", |b| b.spec.granularity.word());
    let all = &dialog.preview.will_not;
    let mut rows: Vec<Row<'a>> = Vec::new();
    let label = |rows: &Vec<Row<'_>>| rows.is_empty().then(|| p("will not", muted));
    if dialog.all_days.is_some() {
        for (chunk, why) in all.iter().take(most) {
            let pieces = vec![p(format!("{chunk}  "), text), p(why.clone(), muted)];
            rows.push(Row {
                label: label(&rows),
                pieces,
                indent: 0,
            });
        }
        if all.len() > most {
            rows.push(Row::more(vec![p(
                format!("and {} more", all.len() - most),
                muted,
            )]));
        }
        return rows;
    }
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for (chunk, why) in all {
        match groups.iter_mut().find(|(w, _)| w == why) {
            Some((_, chunks)) => chunks.push(chunk.to_string()),
            None => groups.push((why, vec![chunk.to_string()])),
        }
    }
    groups.sort_by_key(|(_, chunks)| std::cmp::Reverse(chunks.len()));
    let hidden = groups.len().saturating_sub(5);
    for (why, chunks) in groups.into_iter().take(5) {
        let which = match chunks.as_slice() {
            [one] => format!("{one}, "),
            [first, .., last] if chunks.len() > 3 => format!("{first} .. {last}, "),
            few => format!("{}, ", few.join(", ")),
        };
        let pieces = vec![
            p(of(chunks.len() as u64, unit), look.bold(Token::Text)),
            p(format!("  {which}{why}"), muted),
        ];
        rows.push(Row {
            label: label(&rows),
            pieces,
            indent: 0,
        });
    }
    if hidden > 0 {
        rows.push(Row::more(vec![p(
            format!("and {hidden} more reasons, tab lists them"),
            muted,
        )]));
    }
    rows
}
