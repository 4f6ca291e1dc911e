//! Looking into runs: task instances, their tries, their logs.

use super::{
    calls::TaskPlace,
    drive::run_id,
    error::Kind,
    executor::Inner,
    lines::readable,
    wire::{TaskInstance, TaskState},
};
use crate::{
    domain::text,
    executor::inside::{Inside, LogPart, Place, Standing, TaskKey, TaskView, Token, TryView},
    net::{AdapterError, Cause},
};
use async_trait::async_trait;
use std::time::Duration;

/// Of an attempt that is not the newest this many tasks are looked up by their tries, a request each.
const LOOKUPS: usize = 40;
/// No two questions of a screen come faster than this.
const LEAST_PACE: Duration = Duration::from_secs(2);
/// The longest text of a field, in characters.
const TEXT_CAP: usize = 200;

/// The DAG and the server's id of a run.
struct There<'a> {
    dag: &'a str,
    run: String,
}

impl There<'_> {
    fn task<'a>(&'a self, key: &'a TaskKey) -> TaskPlace<'a> {
        TaskPlace {
            dag: self.dag,
            run: &self.run,
            task: &key.task,
            map_index: key.map,
        }
    }
}

#[async_trait]
impl Inside for Inner {
    async fn tasks(&self, place: &Place) -> Result<Vec<TaskView>, AdapterError> {
        let there = self.there(place)?;
        let rows = self.server.tasks(there.dag, &there.run).await?.rows;
        if place.newest {
            return Ok(rows.iter().map(|row| newest(row, place)).collect());
        }
        let mut views = Vec::new();
        let mut lookups = 0;
        for row in &rows {
            if place.owns(row.started) {
                views.push(view(row, row.try_number, row.try_number));
            } else if row.try_number > 1 && lookups < LOOKUPS {
                lookups += 1;
                let tries = self.server.tries(there.task(&key(row))).await?;
                let own = tries.iter().rev().find(|t| place.owns(t.started));
                views.extend(own.map(|own| view(own, own.try_number, row.try_number)));
            }
        }
        Ok(views)
    }

    async fn tries(&self, place: &Place, task: &TaskKey) -> Result<Vec<TryView>, AdapterError> {
        let there = self.there(place)?;
        match self.server.tries(there.task(task)).await {
            Ok(tries) => Ok(tries.iter().map(one_try).collect()),
            Err(e) if matches!(e.kind, Kind::Absent | Kind::Unsupported) => Ok(Vec::new()),
            Err(e) => Err(e.into()),
        }
    }

    async fn log(
        &self,
        place: &Place,
        task: &TaskKey,
        try_no: u32,
        from: Option<&Token>,
    ) -> Result<LogPart, AdapterError> {
        let nothing = LogPart {
            lines: Vec::new(),
            next: None,
            ended: false,
            whole: true,
        };
        if try_no == 0 {
            return Ok(nothing);
        }
        let there = self.there(place)?;
        let (mut inside, token) = match from.map(|t| t.as_str().split_at_checked(1)) {
            Some(Some((mark, token))) => (mark == FOLDED, Some(token)),
            _ => (false, None),
        };
        let page = match self.server.log(there.task(task), try_no, token).await {
            Ok(page) => page,
            // A try that was never made, or whose log is not there yet.
            Err(e) if e.kind == Kind::Absent => return Ok(nothing),
            Err(e) => return Err(e.into()),
        };
        let lines = readable(page.lines, &mut inside);
        let mark = if inside { FOLDED } else { OPEN };
        Ok(LogPart {
            lines,
            // 2.x does not tell.
            ended: page.next.is_none() && !page.whole,
            next: page.next.map(|token| Token::new(format!("{mark}{token}"))),
            whole: page.whole || token.is_none(),
        })
    }

    fn pace(&self) -> Duration {
        let budget = u32::try_from(self.server.usage().budget).unwrap_or(u32::MAX);
        (Duration::from_secs(120) / budget.max(1)).max(LEAST_PACE)
    }

    async fn ask_again(&self) {
        if self.is_refused() {
            self.server.log_in_again().await;
        }
    }
}

/// The first letter of a token of ours: whether the log goes on in a group that is folded away.
const FOLDED: &str = "f";
const OPEN: &str = "o";

impl Inner {
    fn there<'a>(&self, place: &'a Place) -> Result<There<'a>, AdapterError> {
        let Some(dag) = &place.dag else {
            let detail = "the order of this attempt names no DAG";
            return Err(self.error("look into a run", Cause::Local, detail));
        };
        let run = match &place.run {
            Some(run) if place.theirs => run.0.clone(),
            // Of our own runs, what stands after the `#` is the generation.
            told => told.as_ref().and_then(|run| run.0.rsplit_once('#')).map_or_else(
                || run_id(&place.attempt.backfill, place.attempt.chunk),
                |(run, _)| run.to_owned(),
            ),
        };
        Ok(There { dag, run })
    }
}

fn key(row: &TaskInstance) -> TaskKey {
    TaskKey {
        task: row.task.clone(),
        map: row.map_index,
    }
}

/// A row as the newest attempt has it: right after a clear its tries are still those of the attempt before.
fn newest(row: &TaskInstance, place: &Place) -> TaskView {
    let begun = match row.state.as_ref().map(standing) {
        // It counts no try of its own.
        Some(Standing::Blocked) => false,
        // With a state that only a try of its own gives.
        Some(Standing::Runs | Standing::Retries | Standing::Done | Standing::Failed) => true,
        // What waits may show a try of an earlier attempt, or of an earlier order for the same day.
        _ => place.owns(row.started) && row.started >= Some(place.intended),
    };
    let own = if begun { row.try_number } else { 0 };
    view(row, own, row.try_number)
}

fn view(row: &TaskInstance, own: u32, last: u32) -> TaskView {
    let (started, ended) = row.span().filter(|_| own > 0).unzip();
    let clean = |text: &Option<String>| text.as_ref().map(|t| text::one_line(t, TEXT_CAP));
    TaskView {
        key: key(row),
        // Without a name of its own an index is called by its number.
        label: clean(&row.map_label).filter(|l| row.map_index.is_none_or(|i| *l != i.to_string())),
        standing: row.state.as_ref().map_or(Standing::Unknown, standing),
        word: word(row),
        try_no: own,
        tries: row.max_tries.saturating_add(1).max(own),
        last_try: last,
        started,
        ended: ended.flatten(),
        pool: clean(&row.pool),
        host: clean(&row.host),
        note: clean(&row.note),
    }
}

fn one_try(row: &TaskInstance) -> TryView {
    let (started, ended) = row.span().unzip();
    TryView {
        no: row.try_number,
        standing: row.state.as_ref().map_or(Standing::Unknown, standing),
        word: word(row),
        started,
        ended: ended.flatten(),
    }
}

fn word(row: &TaskInstance) -> String {
    let word = match &row.state {
        None => "unknown",
        Some(TaskState::None) => "waiting",
        Some(other) => other.as_str(),
    };
    text::one_line(&word.replace('_', " "), 40)
}

fn standing(state: &TaskState) -> Standing {
    match state {
        TaskState::Failed => Standing::Failed,
        TaskState::Running | TaskState::Restarting | TaskState::Deferred => Standing::Runs,
        TaskState::UpForRetry => Standing::Retries,
        TaskState::Queued => Standing::Queued,
        TaskState::None | TaskState::Scheduled | TaskState::UpForReschedule | TaskState::AwaitingInput => {
            Standing::Waits
        }
        TaskState::UpstreamFailed => Standing::Blocked,
        TaskState::Success => Standing::Done,
        TaskState::Skipped | TaskState::Removed => Standing::Skipped,
        TaskState::Other(_) => Standing::Unknown,
    }
}
