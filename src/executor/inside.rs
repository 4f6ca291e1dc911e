//! What is inside a run: its tasks, their tries and their logs. Only some executors have it; where an attempt's output
//! is a file on this machine there is nothing more to look into.

use crate::{
    domain::{
        Time,
        ids::{AttemptId, ChunkId, ExternalId, Name},
        state::Backfill,
    },
    net::AdapterError,
};
use async_trait::async_trait;
use std::{borrow::Cow, fmt, time::Duration};

/// Which attempt is looked into. Several attempts may be one run on the executor, started anew: then those tries are
/// this attempt's that began after the attempt before it had ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The attempt.
    pub attempt: AttemptId,
    /// Where it was sent.
    pub executor: Name,
    /// What runs it there, by the order.
    pub dag: Option<String>,
    /// The executor's name for it, once that was told.
    pub run: Option<ExternalId>,
    /// Somebody else made the run: `run` is the server's word for it and nothing in it is ours.
    pub theirs: bool,
    /// When it was decided, on our clock.
    pub intended: Time,
    /// When the attempt before it ended.
    pub since: Option<Time>,
    /// When it ended itself, of an attempt that is not the newest.
    pub until: Option<Time>,
    /// No later attempt is there.
    pub newest: bool,
    /// It has not ended, as far as the journal knows.
    pub open: bool,
}

impl Place {
    /// The place of an attempt; `None` if there is none of that number.
    pub fn of(backfill: &Backfill, chunk: ChunkId, no: u32) -> Option<Self> {
        let attempts = &backfill.chunk(chunk)?.attempts;
        let own = attempts.iter().find(|a| a.no == no)?;
        let newest = attempts.last().is_some_and(|a| a.no == no);
        let earlier = attempts.iter().filter(|a| a.no < no);
        Some(Self {
            attempt: backfill.attempt_id(chunk, no),
            executor: own.executor.clone(),
            dag: backfill.spec.dag.as_ref().map(|d| d.id.clone()),
            run: own.run.clone(),
            theirs: backfill.spec.attach.is_some(),
            intended: own.intended,
            since: earlier.filter_map(|a| a.ended).max(),
            until: own.ended.filter(|_| !newest),
            newest,
            open: own.phase.is_open(),
        })
    }

    /// Whether a try that began then is one of this attempt.
    pub fn owns(&self, began: Option<Time>) -> bool {
        began.is_some_and(|t| {
            self.since.is_none_or(|since| t >= since) && self.until.is_none_or(|until| t <= until)
        })
    }
}

/// A task of a run, or one index of a mapped task. Selection holds these, never row numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskKey {
    /// Its name.
    pub task: String,
    /// Its index, of a mapped task.
    pub map: Option<u32>,
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.map {
            Some(index) => write!(f, "{}[{index}]", self.task),
            None => f.write_str(&self.task),
        }
    }
}

/// How it stands with a task, whatever its executor calls that. The order is that in which an operator wants to
/// see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// It failed for good.
    Failed,
    /// It executes.
    Runs,
    /// It failed and will be tried again.
    Retries,
    /// It waits for a place to execute.
    Queued,
    /// It waits for others, or for a time.
    Waits,
    /// It did not run, because one before it failed.
    Blocked,
    /// It succeeded.
    Done,
    /// It did not run, on purpose.
    Skipped,
    /// The executor has a word for it that is not known here.
    Unknown,
}

impl Standing {
    /// A short word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Runs => "running",
            Self::Retries => "retrying",
            Self::Queued => "queued",
            Self::Waits => "waiting",
            Self::Blocked => "blocked",
            Self::Done => "done",
            Self::Skipped => "skipped",
            Self::Unknown => "other",
        }
    }

    /// Nothing more comes of it by itself.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Failed | Self::Blocked | Self::Done | Self::Skipped)
    }
}

/// A task as its executor tells it. Texts are clean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskView {
    /// Which.
    pub key: TaskKey,
    /// What the index is called.
    pub label: Option<String>,
    /// How it stands.
    pub standing: Standing,
    /// The executor's own word for that.
    pub word: String,
    /// The newest try of this attempt; 0 if none has begun.
    pub try_no: u32,
    /// The try after which it gives up.
    pub tries: u32,
    /// The newest try there is, those of earlier attempts counted: logs of all of them may be there.
    pub last_try: u32,
    /// When its newest try of this attempt began.
    pub started: Option<Time>,
    /// When that ended.
    pub ended: Option<Time>,
    /// What it takes its place from.
    pub pool: Option<String>,
    /// Where it executes.
    pub host: Option<String>,
    /// What somebody noted there.
    pub note: Option<String>,
}

/// One try of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TryView {
    /// Its number, from 1, through all attempts.
    pub no: u32,
    /// How it stands.
    pub standing: Standing,
    /// The executor's own word for that.
    pub word: String,
    /// When it began.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
}

/// Where a log goes on; only the adapter that gave it can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Wraps what an adapter needs to go on.
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// What was wrapped.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A line of a log, clean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// When it was written, if that is known.
    pub at: Option<Time>,
    /// `error`, `warning`, `info`, .. in small letters, if that is known.
    pub level: Option<String>,
    /// What it says.
    pub text: String,
}

impl LogLine {
    /// What it says, with its level in front if that is more than news.
    pub fn said(&self) -> Cow<'_, str> {
        let loud = |l: &&String| matches!(l.as_str(), "warning" | "warn" | "error" | "critical" | "fatal");
        match self.level.as_ref().filter(loud) {
            Some(level) if !self.text.starts_with(&level.to_uppercase()) => {
                Cow::Owned(format!("{} {}", level.to_uppercase(), self.text))
            }
            _ => Cow::Borrowed(&self.text),
        }
    }
}

/// A piece of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPart {
    /// Its lines, oldest first.
    pub lines: Vec<LogLine>,
    /// What to ask for the next piece with; `None`: there is none, or the whole has to be asked for again.
    pub next: Option<Token>,
    /// The executor says that nothing more comes.
    pub ended: bool,
    /// It is the whole log until now and takes the place of what was there before.
    pub whole: bool,
}

/// Looks into runs.
#[async_trait]
pub trait Inside: Send + Sync {
    /// The tasks of an attempt, in no order; a mapped one has a row for each index. May take seconds.
    ///
    /// # Errors
    /// The executor cannot be asked, or no longer has the run.
    async fn tasks(&self, place: &Place) -> Result<Vec<TaskView>, AdapterError>;

    /// Every try of a task, those of earlier attempts too, oldest first; none if the executor does not tell.
    ///
    /// # Errors
    /// The executor cannot be asked.
    async fn tries(&self, place: &Place, task: &TaskKey) -> Result<Vec<TryView>, AdapterError>;

    /// A piece of the log of one try: from its beginning, or what came after the piece before. A try that was never
    /// made has an empty one. May take seconds.
    ///
    /// # Errors
    /// The executor cannot be asked.
    async fn log(
        &self,
        place: &Place,
        task: &TaskKey,
        try_no: u32,
        from: Option<&Token>,
    ) -> Result<LogPart, AdapterError>;

    /// How much time to leave between two questions that nobody waits for.
    fn pace(&self) -> Duration;

    /// Somebody wants to know now: a refusal of the credentials is forgotten.
    async fn ask_again(&self);
}

/// The task that says most about how a run stands: the one that failed first, else the one that began last and runs,
/// else the one that is tried again, else the last one that ran.
pub fn telling<'a>(tasks: impl IntoIterator<Item = &'a TaskView>) -> Option<&'a TaskView> {
    let rank = |t: &&TaskView| {
        let millis = |at: Option<Time>| at.map(|at| at.timestamp_millis());
        let newest_first = |at| -millis(at).unwrap_or_default();
        let (kind, when) = match t.standing {
            Standing::Failed => (0, millis(t.ended).unwrap_or(i64::MAX)),
            Standing::Runs => (1, newest_first(t.started)),
            Standing::Retries => (2, newest_first(t.started)),
            _ if t.try_no > 0 => (3, newest_first(t.ended.or(t.started))),
            _ => (4, 0),
        };
        (kind, when, t.standing, t.key.clone())
    };
    tasks.into_iter().min_by_key(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
    }

    fn task(name: &str, standing: Standing, span: Option<(i64, Option<i64>)>) -> TaskView {
        TaskView {
            key: TaskKey {
                task: name.to_owned(),
                map: None,
            },
            label: None,
            standing,
            word: standing.word().to_owned(),
            try_no: u32::from(span.is_some()),
            tries: 1,
            last_try: u32::from(span.is_some()),
            started: span.map(|(from, _)| at(from)),
            ended: span.and_then(|(_, to)| to).map(at),
            pool: None,
            host: None,
            note: None,
        }
    }

    fn told(tasks: &[TaskView]) -> Option<&str> {
        telling(tasks).map(|t| t.key.task.as_str())
    }

    #[test]
    fn what_failed_first_tells_most_then_what_runs_then_what_ran_last() {
        let done = task("extract", Standing::Done, Some((0, Some(5))));
        let late = task("audit", Standing::Done, Some((6, Some(9))));
        let runs = task("load", Standing::Runs, Some((7, None)));
        let first = task("left", Standing::Failed, Some((2, Some(3))));
        let second = task("right", Standing::Failed, Some((1, Some(4))));
        let blocked = task("publish", Standing::Blocked, None);
        let all = [
            done.clone(),
            late.clone(),
            runs.clone(),
            second,
            blocked.clone(),
            first,
        ];
        assert_eq!(told(&all), Some("left"));
        assert_eq!(
            told(&[done.clone(), runs, late.clone(), blocked.clone()]),
            Some("load")
        );
        assert_eq!(told(&[done, late, blocked.clone()]), Some("audit"));
        assert_eq!(told(&[blocked]), Some("publish"));
        assert_eq!(told(&[]), None);
    }

    #[test]
    fn a_try_belongs_to_the_attempt_in_whose_time_it_began() {
        let place = Place {
            attempt: "events-aaaaaa/2023-03-14/2".parse().unwrap(),
            executor: "there".parse().unwrap(),
            dag: None,
            run: None,
            theirs: false,
            intended: at(9),
            since: Some(at(10)),
            until: Some(at(20)),
            newest: false,
            open: false,
        };
        let owned: Vec<i64> = [5, 10, 15, 20, 25]
            .into_iter()
            .filter(|t| place.owns(Some(at(*t))))
            .collect();
        assert_eq!(owned, [10, 15, 20]);
        assert!(!place.owns(None));
    }

    #[test]
    fn only_what_is_more_than_news_has_its_level_in_front() {
        let line = |level: Option<&str>, text: &str| {
            let line = LogLine {
                at: None,
                level: level.map(str::to_owned),
                text: text.to_owned(),
            };
            line.said().into_owned()
        };
        assert_eq!(line(Some("info"), "rows 3"), "rows 3");
        assert_eq!(line(Some("error"), "no rows"), "ERROR no rows");
        assert_eq!(line(Some("error"), "ERROR no rows"), "ERROR no rows");
        assert_eq!(line(None, "plain"), "plain");
    }
}
