//! The tasks of a run as the rows of a list: what needs a human first, many indexes of a mapped task as one row.

use super::{Pick, chosen};
use crate::executor::inside::{Standing, TaskKey, TaskView, telling};
use std::collections::BTreeMap;

/// So many indexes of a mapped task have rows of their own; more are one row.
const FEW: usize = 4;
/// So many indexes that failed are listed below that row.
const LISTED: usize = 5;

/// A row of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row<'a> {
    /// A task, or one index of a mapped one; `inner` below the row of its group.
    Task {
        /// Which.
        task: &'a TaskView,
        /// It stands below the row of its group.
        inner: bool,
    },
    /// All indexes of a mapped task.
    Group {
        /// The task's name.
        name: &'a str,
        /// Its indexes, in order.
        tasks: Vec<&'a TaskView>,
        /// All of them are listed below.
        open: bool,
    },
}

impl<'a> Row<'a> {
    /// What a choice of this row holds.
    pub fn key(&self) -> TaskKey {
        match self {
            Self::Task { task, .. } => task.key.clone(),
            Self::Group { name, .. } => TaskKey {
                task: (*name).to_owned(),
                map: None,
            },
        }
    }

    /// The task that says most about this row.
    fn telling(&self) -> Option<&'a TaskView> {
        match self {
            Self::Task { task, .. } => Some(task),
            Self::Group { tasks, .. } => telling(tasks.iter().copied()),
        }
    }

    /// The state of the row: of a group that of the task that says most.
    pub fn standing(&self) -> Standing {
        self.telling().map_or(Standing::Unknown, |t| t.standing)
    }
}

/// `198 done 2 failed`: how many of them stand how, the best first.
pub fn counts(tasks: &[&TaskView]) -> Vec<(Standing, usize)> {
    let mut counts: BTreeMap<Standing, usize> = BTreeMap::new();
    for task in tasks {
        *counts.entry(task.standing).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// The rows. `unfolded` is the mapped task of which every index has one.
pub fn rows<'a>(tasks: &'a [TaskView], unfolded: Option<&str>) -> Vec<Row<'a>> {
    let mut groups: BTreeMap<&str, Vec<&TaskView>> = BTreeMap::new();
    for task in tasks {
        groups.entry(&task.key.task).or_default().push(task);
    }
    let mut blocks: Vec<Vec<Row<'a>>> = Vec::new();
    for (name, mut group) in groups {
        group.sort_by_key(|t| t.key.map);
        if group.len() > FEW {
            blocks.push(folded(name, group, unfolded == Some(name)));
        } else {
            let row = |task| vec![Row::Task { task, inner: false }];
            blocks.extend(group.into_iter().map(row));
        }
    }
    // What is alike stands in the order in which it ran.
    blocks.sort_by_key(|block| {
        let first = block.first().and_then(Row::telling);
        first.map(|t| (t.standing, t.started.is_none(), t.started, t.key.clone()))
    });
    blocks.into_iter().flatten().collect()
}

fn folded<'a>(name: &'a str, group: Vec<&'a TaskView>, open: bool) -> Vec<Row<'a>> {
    let failed = |t: &&&TaskView| t.standing == Standing::Failed;
    let mut below: Vec<&TaskView> = group.iter().filter(failed).copied().collect();
    if open {
        below.extend(group.iter().filter(|t| !failed(t)));
    } else {
        below.truncate(LISTED);
    }
    let head = Row::Group {
        name,
        tasks: group,
        open,
    };
    let rows = below.into_iter().map(|task| Row::Task { task, inner: true });
    std::iter::once(head).chain(rows).collect()
}

/// Which row is chosen.
pub fn selected(rows: &[Row<'_>], tasks: &[TaskView], pick: &Pick) -> Option<usize> {
    let place = |key: &TaskKey| rows.iter().position(|r| r.key() == *key);
    if let Some(at) = pick.task.as_ref().and_then(place) {
        return Some(at);
    }
    let key = &chosen(tasks, pick)?.0.key;
    let group = TaskKey {
        map: None,
        ..key.clone()
    };
    place(key).or_else(|| place(&group))
}

/// The row `by` rows on, around the end.
pub fn step(rows: &[Row<'_>], from: Option<usize>, back: bool) -> Option<TaskKey> {
    let all = rows.len();
    let to = match (from, back) {
        (Some(at), false) => (at + 1) % all.max(1),
        (Some(at), true) => (at + all.max(1) - 1) % all.max(1),
        (None, false) => 0,
        (None, true) => all.saturating_sub(1),
    };
    rows.get(to).map(Row::key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn task(name: &str, map: Option<u32>, standing: Standing) -> TaskView {
        TaskView {
            key: TaskKey {
                task: name.to_owned(),
                map,
            },
            label: None,
            standing,
            word: standing.word().to_owned(),
            try_no: 1,
            tries: 1,
            last_try: 1,
            started: None,
            ended: None,
            pool: None,
            host: None,
            note: None,
        }
    }

    /// 200 indexes of which two failed, between two other tasks.
    fn mapped() -> Vec<TaskView> {
        let standing = |i| match i {
            7 | 150 => Standing::Failed,
            _ => Standing::Done,
        };
        let mut tasks: Vec<TaskView> = (0..200).map(|i| task("extract", Some(i), standing(i))).collect();
        tasks.push(task("shards", None, Standing::Done));
        tasks.push(task("publish", None, Standing::Blocked));
        tasks
    }

    fn shown(rows: &[Row<'_>]) -> Vec<String> {
        rows.iter().map(|r| r.key().to_string()).collect()
    }

    #[test]
    fn many_indexes_are_one_row_and_those_that_failed_are_listed_below_it() {
        let tasks = mapped();
        let folded = rows(&tasks, None);
        assert_eq!(
            shown(&folded),
            ["extract", "extract[7]", "extract[150]", "publish", "shards"]
        );
        let Row::Group { tasks: group, .. } = &folded[0] else {
            panic!("{folded:?}");
        };
        assert_eq!(counts(group), [(Standing::Failed, 2), (Standing::Done, 198)]);
        assert_eq!(rows(&tasks, Some("extract")).len(), 203);
    }

    #[test]
    fn a_choice_survives_whatever_happens_to_the_rows_around_it() {
        let mut tasks = mapped();
        let pick = Pick {
            task: Some(tasks[150].key.clone()),
            try_no: None,
        };
        let at = |tasks: &[TaskView], unfolded| {
            let rows = rows(tasks, unfolded);
            rows[selected(&rows, tasks, &pick).unwrap()].key().to_string()
        };
        assert_eq!(at(&tasks, None), "extract[150]");
        assert_eq!(at(&tasks, Some("extract")), "extract[150]");
        tasks[3].standing = Standing::Failed;
        assert_eq!(at(&tasks, None), "extract[150]");
        tasks[150].standing = Standing::Done;
        assert_eq!(at(&tasks, None), "extract", "it is in the fold now");
        tasks.retain(|t| t.key.task != "extract");
        assert_eq!(at(&tasks, None), "publish", "what tells most is left");
    }

    #[test]
    fn without_a_choice_the_row_that_tells_most_is_chosen() {
        let tasks = mapped();
        let rows = rows(&tasks, None);
        assert_eq!(selected(&rows, &tasks, &Pick::default()), Some(1));
        assert_eq!(selected(&[], &[], &Pick::default()), None);
    }

    proptest! {
        #[test]
        fn steps_lead_through_all_rows_and_back(n in 1usize..12, unfold: bool) {
            let tasks: Vec<TaskView> = (0..n)
                .map(|i| task(if i % 2 == 0 { "a" } else { "b" }, Some(i as u32), Standing::Done))
                .collect();
            let rows = rows(&tasks, unfold.then_some("a"));
            let mut at = Some(0);
            for expected in 0..rows.len() {
                prop_assert_eq!(at, Some(expected));
                let key = step(&rows, at, false).unwrap();
                let back = rows.iter().position(|r| r.key() == key);
                prop_assert_eq!(step(&rows, back, true).unwrap(), rows[expected].key());
                at = back;
            }
            prop_assert_eq!(at, Some(0));
        }
    }
}
