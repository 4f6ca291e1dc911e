//! `logs NAME DATE` where an attempt is a run of tasks: what there is, and the log of one of them.

use super::{
    args::LogOf,
    context::{Context, Done, Exit, line},
    logs::still_open,
};
use crate::{
    domain::{Time, human, ids::AttemptId},
    executor::inside::{Inside, LogLine, LogPart, Place, TaskKey, TaskView, Token, telling},
    net::{AdapterError, Cause},
    supervisor::wiring::MakeInside,
    tui::inside::rows::{Row, counts, rows},
};
use chrono_tz::Tz;
use serde::Serialize;
use std::io::Write;

/// The log of a try that is over has ended when it says nothing new so often.
const SILENCES: u32 = 5;

/// Shows the log, or with `--json` what there is.
pub(super) fn show(ctx: &Context, attempt: &AttemptId, make: &MakeInside, follow: bool, of: LogOf) -> Done {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let inside = make().map_err(Exit::usage)?;
    let reader = Reader {
        ctx,
        attempt,
        inside: inside.as_ref(),
        of,
    };
    runtime.block_on(async {
        if ctx.json {
            reader.tell().await
        } else if follow {
            reader.follow().await
        } else {
            reader.once().await
        }
    })
}

/// What `--json` says.
#[derive(Serialize)]
struct Told<'a> {
    attempt: &'a AttemptId,
    executor: String,
    run: Option<String>,
    tasks: Vec<ToldTask<'a>>,
    shown: Option<Shown<'a>>,
}

#[derive(Serialize)]
struct ToldTask<'a> {
    task: &'a str,
    map: Option<u32>,
    label: Option<&'a str>,
    state: &'static str,
    word: &'a str,
    #[serde(rename = "try")]
    try_no: u32,
    tries: u32,
    last_try: u32,
    started: Option<Time>,
    ended: Option<Time>,
    pool: Option<&'a str>,
    host: Option<&'a str>,
    note: Option<&'a str>,
}

#[derive(Serialize)]
struct Shown<'a> {
    task: &'a str,
    map: Option<u32>,
    #[serde(rename = "try")]
    try_no: u32,
}

impl<'a> From<&'a TaskView> for ToldTask<'a> {
    fn from(task: &'a TaskView) -> Self {
        Self {
            task: &task.key.task,
            map: task.key.map,
            label: task.label.as_deref(),
            state: task.standing.word(),
            word: &task.word,
            try_no: task.try_no,
            tries: task.tries,
            last_try: task.last_try,
            started: task.started,
            ended: task.ended,
            pool: task.pool.as_deref(),
            host: task.host.as_deref(),
            note: task.note.as_deref(),
        }
    }
}

struct Reader<'a> {
    ctx: &'a Context,
    attempt: &'a AttemptId,
    inside: &'a dyn Inside,
    of: LogOf,
}

/// What is printed of one try.
#[derive(Default)]
struct Printed {
    of: Option<(TaskKey, u32)>,
    next: Option<Token>,
    lines: usize,
    silences: u32,
}

impl Printed {
    /// The lines of a piece that were not printed yet.
    fn new_lines(&mut self, part: LogPart) -> Vec<LogLine> {
        self.next = part.next;
        let known = if part.whole { self.lines } else { 0 };
        let new: Vec<LogLine> = part.lines.into_iter().skip(known).collect();
        self.silences = if new.is_empty() { self.silences + 1 } else { 0 };
        self.lines += new.len();
        new
    }
}

impl Reader<'_> {
    /// The place and the zone, as the journal has them now.
    fn place(&self) -> Result<(Place, Tz), Exit> {
        let state = self.ctx.state()?;
        let backfill = state.backfills.get(&self.attempt.backfill);
        let place = backfill.and_then(|b| Place::of(b, self.attempt.chunk, self.attempt.no));
        let zone = backfill.map_or(Tz::UTC, |b| b.spec.timezone);
        let gone = || Exit::usage(format!("{} is no longer in the journal", self.attempt));
        Ok((place.ok_or_else(gone)?, zone))
    }

    async fn tell(&self) -> Done {
        let (place, _) = self.place()?;
        let tasks = self.inside.tasks(&place).await.map_err(Exit::usage)?;
        let shown = self.chosen(&tasks)?;
        let told = Told {
            attempt: self.attempt,
            executor: place.executor.to_string(),
            run: place.run.as_ref().map(ToString::to_string),
            shown: shown.map(|(task, try_no)| Shown {
                task: &task.key.task,
                map: task.key.map,
                try_no,
            }),
            tasks: tasks.iter().map(ToldTask::from).collect(),
        };
        line(&serde_json::to_string(&told)?)
    }

    async fn once(&self) -> Done {
        let (place, zone) = self.place()?;
        let tasks = self.inside.tasks(&place).await.map_err(Exit::usage)?;
        let Some((task, try_no)) = self.chosen(&tasks)? else {
            return Err(Exit::usage(format!("{} has no tasks yet", self.attempt)));
        };
        self.list(&tasks, task);
        if try_no == 0 {
            return Err(Exit::usage(format!(
                "{} has not begun in attempt {} ({})",
                task.key, self.attempt.no, task.word
            )));
        }
        let log = self.inside.log(&place, &task.key, try_no, None).await;
        let part = log.map_err(Exit::usage)?;
        if part.lines.is_empty() {
            note(format_args!("(nothing written)"));
        }
        print(&part.lines, zone)
    }

    /// One log after the other until the attempt ends; of a chosen task until that has.
    async fn follow(&self) -> Done {
        let mut printed = Printed::default();
        let mut trouble = None;
        let mut listed = false;
        loop {
            let (place, zone) = self.place()?;
            let open = place.open && still_open(self.ctx, self.attempt)?;
            match self.turn(&place, zone, open, &mut printed, &mut listed).await {
                Ok(true) => return Ok(()),
                Ok(false) => trouble = None,
                Err(Broken::Exit(exit)) => return Err(exit),
                Err(Broken::Asking(error)) if is_lasting(&error) => return Err(Exit::usage(error)),
                Err(Broken::Asking(error)) => {
                    // Once, until something else is wrong.
                    if trouble != Some(error.cause) {
                        note(format_args!("{error}; trying on"));
                    }
                    trouble = Some(error.cause);
                }
            }
            tokio::time::sleep(self.inside.pace()).await;
        }
    }

    /// Prints what is new; answers whether nothing more comes.
    async fn turn(
        &self,
        place: &Place,
        zone: Tz,
        open: bool,
        printed: &mut Printed,
        listed: &mut bool,
    ) -> Result<bool, Broken> {
        let tasks = self.inside.tasks(place).await?;
        let Some((task, try_no)) = self.chosen(&tasks)? else {
            return Ok(!open);
        };
        if !std::mem::replace(listed, true) {
            self.list(&tasks, task);
        }
        let own_end = self.of.is_chosen() && task.standing.is_final();
        if try_no == 0 {
            return Ok(!open || own_end);
        }
        if printed.of.as_ref() != Some(&(task.key.clone(), try_no)) {
            if printed.of.is_some() || !self.of.is_chosen() {
                note(format_args!("-- {}, try {try_no}", task.key));
            }
            *printed = Printed {
                of: Some((task.key.clone(), try_no)),
                ..Printed::default()
            };
        }
        let over = !open || task.standing.is_final() || try_no < task.last_try;
        let from = printed.next.clone();
        let part = self.inside.log(place, &task.key, try_no, from.as_ref()).await?;
        let new = printed.new_lines(part);
        print(&new, zone).map_err(Broken::Exit)?;
        let finished = over && (printed.next.is_none() || printed.silences >= SILENCES);
        let one_try = self.of.try_no.is_some() && over;
        Ok(finished && (!open || own_end || one_try))
    }

    /// The task and the try that are meant; `None` if the run has no tasks.
    fn chosen<'t>(&self, tasks: &'t [TaskView]) -> Result<Option<(&'t TaskView, u32)>, Exit> {
        let task = match &self.of.task {
            None => telling(tasks),
            Some(name) => {
                let all = || tasks.iter().filter(|t| t.key.task == *name);
                let found = match self.of.map {
                    Some(index) => all().find(|t| t.key.map == Some(index)),
                    None => telling(all()),
                };
                if found.is_none() && !tasks.is_empty() {
                    return Err(unknown(name, self.of.map, tasks));
                }
                found
            }
        };
        let Some(task) = task else { return Ok(None) };
        let Some(no) = self.of.try_no else {
            return Ok(Some((task, task.try_no)));
        };
        if no > task.last_try {
            let tried = human::counted(u64::from(task.last_try), "time");
            return Err(Exit::usage(format!("{} was tried {tried}", task.key)));
        }
        Ok(Some((task, no)))
    }

    /// Tells what tasks there are, on standard error, if there are several and none was asked for.
    fn list(&self, tasks: &[TaskView], shown: &TaskView) {
        if self.of.task.is_some() || tasks.len() < 2 {
            return;
        }
        note(format_args!(
            "tasks of {}; --task shows another one:",
            self.attempt
        ));
        let rows = rows(tasks, None);
        let names: Vec<String> = rows.iter().map(name).collect();
        let wide = names.iter().map(|n| n.chars().count()).max().unwrap_or(0);
        for (row, name) in rows.iter().zip(names) {
            let here = matches!(row, Row::Task { task, .. } if task.key == shown.key);
            let mark = if here { '>' } else { ' ' };
            note(format_args!("{mark} {name:<wide$}  {}", says(row)));
        }
    }
}

/// What breaks a turn.
enum Broken {
    /// The executor could not be asked.
    Asking(AdapterError),
    /// The command ends.
    Exit(Exit),
}

impl From<AdapterError> for Broken {
    fn from(error: AdapterError) -> Self {
        Self::Asking(error)
    }
}

impl From<Exit> for Broken {
    fn from(exit: Exit) -> Self {
        Self::Exit(exit)
    }
}

/// Whether asking again will not help.
const fn is_lasting(error: &AdapterError) -> bool {
    matches!(
        error.cause,
        Cause::Unauthorized | Cause::Forbidden | Cause::BadRequest | Cause::Local
    )
}

fn name(row: &Row<'_>) -> String {
    match row {
        Row::Task { task, .. } => task.key.to_string(),
        Row::Group { name, tasks, .. } => format!("{name}, {} indexes", tasks.len()),
    }
}

fn says(row: &Row<'_>) -> String {
    match row {
        Row::Task { task, .. } if task.try_no == 0 => task.word.clone(),
        Row::Task { task, .. } => format!("{}, try {} of {}", task.word, task.try_no, task.tries),
        Row::Group { tasks, .. } => {
            let parts = counts(tasks);
            let parts = parts.iter().map(|(s, n)| format!("{n} {}", s.word()));
            parts.collect::<Vec<_>>().join(", ")
        }
    }
}

fn unknown(name: &str, map: Option<u32>, tasks: &[TaskView]) -> Exit {
    let mut indexes: Vec<u32> = tasks
        .iter()
        .filter(|t| t.key.task == name)
        .filter_map(|t| t.key.map)
        .collect();
    indexes.sort_unstable();
    match (map, indexes.first().zip(indexes.last())) {
        (Some(index), Some((first, last))) => {
            Exit::usage(format!("{name} has no index {index}")).hint(format!("it has {first} to {last}"))
        }
        (Some(_), None) if tasks.iter().any(|t| t.key.task == name) => {
            Exit::usage(format!("{name} is not mapped: it has no indexes"))
        }
        _ => {
            let mut names: Vec<&str> = tasks.iter().map(|t| t.key.task.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            Exit::usage(format!("the run has no task {name}")).hint(format!("it has {}", names.join(", ")))
        }
    }
}

/// Not on standard output: that is the task's own.
fn note(words: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// Prints lines, each with its time in the backfill's zone, if that is known.
fn print(lines: &[LogLine], zone: Tz) -> Done {
    let mut out = String::new();
    for line in lines {
        if let Some(at) = line.at {
            let at = at.with_timezone(&zone).format("%Y-%m-%dT%H:%M:%S%:z ");
            out.push_str(&at.to_string());
        }
        out.push_str(&line.said());
        out.push('\n');
    }
    super::context::text(out.as_bytes())
}
