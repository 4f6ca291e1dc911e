//! The open day from inside: the tasks of its run, which of them the operator looks at, and the end of its log.

pub mod eyes;
pub mod looker;
pub mod rows;

use crate::{
    domain::{Time, ids::AttemptId, text},
    executor::inside::{LogLine, LogPart, Place, TaskKey, TaskView, TryView, telling},
};
use std::{collections::VecDeque, sync::Arc};

/// How many lines of a log are kept, and how many bytes of them.
pub const KEPT_LINES: usize = 2_000;
const KEPT_BYTES: usize = 2 * 1024 * 1024;

/// What the operator chose in the drawer; what is not chosen is what tells most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pick {
    /// The task, and the index of a mapped one.
    pub task: Option<TaskKey>,
    /// One of its tries; else the newest, whichever that is.
    pub try_no: Option<u32>,
}

/// What the screen wants to see of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek {
    /// The attempt.
    pub place: Place,
    /// What is chosen of it.
    pub pick: Pick,
    /// Counts how often the operator asked for a look now.
    pub again: u32,
}

/// Something that could not be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// In the other side's words, one clean line.
    pub text: String,
    /// Since when it has been so.
    pub since: Time,
}

/// The inside of a run as it was seen last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsideView {
    /// The attempt it is of.
    pub attempt: AttemptId,
    /// Its tasks; `None` until they were seen once.
    pub tasks: Option<Arc<Vec<TaskView>>>,
    /// When they were seen.
    pub as_of: Option<Time>,
    /// Why they cannot be seen now.
    pub trouble: Option<Trouble>,
    /// All tries of the task whose log is shown, oldest first, once they are known.
    pub tries: Option<(TaskKey, Vec<TryView>)>,
    /// The log that is shown.
    pub log: Option<TaskLog>,
    /// Since when an answer has been waited for, if that has taken a while.
    pub asking: Option<Time>,
}

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLog {
    /// Of which task.
    pub key: TaskKey,
    /// Of which try.
    pub try_no: u32,
    /// Its last lines, oldest first.
    pub lines: Arc<Vec<LogLine>>,
    /// How many lines before them are not kept.
    pub dropped: u64,
    /// When it was read last; `None` until then.
    pub as_of: Option<Time>,
    /// Nothing more comes.
    pub finished: bool,
    /// Why it cannot be read now.
    pub trouble: Option<Trouble>,
}

impl InsideView {
    /// Of which nothing has been seen.
    pub const fn unseen(attempt: AttemptId) -> Self {
        Self {
            attempt,
            tasks: None,
            as_of: None,
            trouble: None,
            tries: None,
            log: None,
            asking: None,
        }
    }

    /// The tasks, as far as they are known.
    pub fn tasks(&self) -> &[TaskView] {
        self.tasks.as_ref().map_or(&[], |tasks| tasks.as_slice())
    }

    /// How many lines of the log are there.
    pub fn lines(&self) -> usize {
        self.log.as_ref().map_or(0, |log| log.lines.len())
    }
}

/// The task that a choice means, and its try; 0 if that has not begun. What was chosen and is no longer there gives
/// way to what tells most.
pub fn chosen<'a>(tasks: &'a [TaskView], pick: &Pick) -> Option<(&'a TaskView, u32)> {
    let exact = pick
        .task
        .as_ref()
        .and_then(|key| tasks.iter().find(|t| t.key == *key));
    if let Some(task) = exact {
        let newest = task.last_try.max(task.try_no);
        let try_no = match pick.try_no {
            Some(no) if newest > 0 => no.clamp(1, newest),
            _ => task.try_no,
        };
        return Some((task, try_no));
    }
    let of_group = pick
        .task
        .as_ref()
        .filter(|key| key.map.is_none())
        .and_then(|key| {
            let group = tasks.iter().filter(|t| t.key.task == key.task);
            telling(group)
        });
    let task = of_group.or_else(|| telling(tasks))?;
    Some((task, task.try_no))
}

/// The end of a log while it is read piece by piece.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<LogLine>,
    bytes: usize,
    dropped: u64,
}

impl Tail {
    /// Takes in a piece; answers whether it said anything new.
    pub fn take(&mut self, part: LogPart) -> bool {
        if part.whole {
            let before = (self.dropped, self.lines.len(), self.lines.back().cloned());
            *self = Self::default();
            self.add(part.lines);
            return before != (self.dropped, self.lines.len(), self.lines.back().cloned());
        }
        let new = !part.lines.is_empty();
        self.add(part.lines);
        new
    }

    fn add(&mut self, lines: Vec<LogLine>) {
        for line in lines {
            self.bytes += line.text.len();
            self.lines.push_back(line);
        }
        while self.lines.len() > KEPT_LINES || (self.bytes > KEPT_BYTES && self.lines.len() > 1) {
            if let Some(gone) = self.lines.pop_front() {
                self.bytes -= gone.text.len();
                self.dropped += 1;
            }
        }
    }

    /// The lines that are kept, and how many are not.
    pub fn kept(&self) -> (Arc<Vec<LogLine>>, u64) {
        (Arc::new(self.lines.iter().cloned().collect()), self.dropped)
    }
}

impl Trouble {
    /// What went wrong at `now`; that it went wrong before, too, is kept.
    pub fn again(before: Option<&Self>, said: &str, now: Time) -> Self {
        Self {
            text: text::one_line(said, 400),
            since: before.map_or(now, |t| t.since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::inside::Standing;

    fn task(name: &str, map: Option<u32>, standing: Standing, try_no: u32) -> TaskView {
        TaskView {
            key: key(name, map),
            label: None,
            standing,
            word: standing.word().to_owned(),
            try_no,
            tries: 3,
            last_try: try_no,
            started: None,
            ended: None,
            pool: None,
            host: None,
            note: None,
        }
    }

    fn key(name: &str, map: Option<u32>) -> TaskKey {
        TaskKey {
            task: name.to_owned(),
            map,
        }
    }

    fn means(tasks: &[TaskView], task: Option<TaskKey>, try_no: Option<u32>) -> (String, u32) {
        let (task, no) = chosen(tasks, &Pick { task, try_no }).unwrap();
        (task.key.to_string(), no)
    }

    #[test]
    fn a_choice_means_its_task_as_long_as_that_is_there() {
        let tasks = [
            task("load", Some(0), Standing::Done, 1),
            task("load", Some(1), Standing::Failed, 2),
            task("publish", None, Standing::Done, 3),
        ];
        assert_eq!(means(&tasks, None, None), ("load[1]".to_owned(), 2));
        assert_eq!(
            means(&tasks, Some(key("load", Some(0))), None),
            ("load[0]".to_owned(), 1)
        );
        let group = means(&tasks, Some(key("load", None)), None);
        assert_eq!(group.0, "load[1]", "of a group the one that tells most");
        assert_eq!(
            means(&tasks, Some(key("publish", None)), Some(2)),
            ("publish".to_owned(), 2)
        );
        let beyond = means(&tasks, Some(key("publish", None)), Some(9));
        assert_eq!(beyond.1, 3, "there is no such try");
        let vanished = means(&tasks, Some(key("old", Some(7))), Some(2));
        assert_eq!(vanished, ("load[1]".to_owned(), 2));
    }

    fn part(lines: impl Iterator<Item = usize>, whole: bool) -> LogPart {
        let line = |n: usize| LogLine {
            at: None,
            level: None,
            text: format!("line {n}"),
        };
        LogPart {
            lines: lines.map(line).collect(),
            next: None,
            ended: false,
            whole,
        }
    }

    #[test]
    fn of_a_long_log_the_end_is_kept_and_the_rest_counted() {
        let mut tail = Tail::default();
        assert!(tail.take(part(0..1_500, true)));
        assert!(tail.take(part(1_500..2_500, false)));
        let (lines, dropped) = tail.kept();
        assert_eq!((lines.len(), dropped), (KEPT_LINES, 500));
        assert_eq!(lines[0].text, "line 500");
        assert!(!tail.take(part(0..0, false)), "nothing new");
        assert!(tail.take(part(0..3, true)));
        assert!(!tail.take(part(0..3, true)), "the whole again is nothing new");
        assert_eq!(tail.kept().0.len(), 3);
    }

    #[test]
    fn few_lines_of_enormous_length_are_bounded_too() {
        let mut tail = Tail::default();
        let mut big = part(0..100, false);
        big.lines.iter_mut().for_each(|l| l.text = "x".repeat(100_000));
        tail.take(big);
        let (lines, dropped) = tail.kept();
        assert!(lines.iter().map(|l| l.text.len()).sum::<usize>() <= KEPT_BYTES);
        assert_eq!(lines.len() as u64 + dropped, 100);
    }
}
