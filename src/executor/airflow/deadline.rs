//! How long a run has worked. A deadline is about that alone: a run says `running` also while its DAG is paused, its
//! scheduler is dead, or all slots are taken, for as long as that lasts.

use super::wire::TaskInstance;
use crate::domain::Time;
use chrono::TimeDelta;

/// How long at least one task of a run worked, from the run's beginning until now, on the server's clock. Of a task
/// that was tried several times only the last try is known.
pub fn worked(tasks: &[TaskInstance], began: Time, now: Time) -> TimeDelta {
    let span = |task: &TaskInstance| {
        let (started, ended) = task.span()?;
        // Before the run began it was another run's work: a clear leaves alone what is not to be run again.
        let (from, to) = (started.max(began), ended.unwrap_or(now).min(now));
        (from < to).then_some((from, to))
    };
    let mut spans: Vec<(Time, Time)> = tasks.iter().filter_map(span).collect();
    spans.sort_unstable();
    let (mut sum, mut counted) = (TimeDelta::zero(), began);
    for (from, to) in spans {
        sum += (to - from.max(counted)).max(TimeDelta::zero());
        counted = counted.max(to);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(minute: i64) -> Time {
        "2026-11-29T17:00:00Z".parse::<Time>().unwrap() + TimeDelta::minutes(minute)
    }

    fn task(state: &str, started: Option<i64>, ended: Option<i64>) -> TaskInstance {
        serde_json::from_value(json!({
            "task_id": "load", "state": state, "start_date": started.map(at), "end_date": ended.map(at),
        }))
        .unwrap()
    }

    #[test]
    fn only_the_time_counts_in_which_a_task_worked_and_parallel_work_counts_once() {
        let minutes = |tasks: &[TaskInstance]| worked(tasks, at(0), at(60)).num_minutes();
        assert_eq!(minutes(&[]), 0);
        assert_eq!(minutes(&[task("running", Some(50), None)]), 10);
        assert_eq!(
            minutes(&[task("success", Some(5), Some(7)), task("scheduled", None, None)]),
            2
        );
        assert_eq!(
            minutes(&[
                task("success", Some(5), Some(10)),
                task("success", Some(8), Some(12)),
                task("failed", Some(9), Some(11)),
                task("running", Some(58), None),
            ]),
            9
        );
    }

    #[test]
    fn the_work_of_the_run_before_a_clear_does_not_count() {
        assert_eq!(
            worked(
                &[
                    task("success", Some(-30), Some(2)),
                    task("queued", Some(-20), Some(-10))
                ],
                at(0),
                at(60)
            ),
            TimeDelta::minutes(2)
        );
    }
}
