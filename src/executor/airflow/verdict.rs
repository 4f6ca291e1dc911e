//! What the end of a run is worth. *Success* is the server's word for a run whose leaves did not fail; that anything
//! was done is seen in its tasks only. What a failure was is seen in the log only.

use super::{
    calls::TaskPlace,
    connection::Connection,
    error::{CallError, Kind},
    intent::Stop,
    wire::{LogLine, Run, RunState, TaskInstance, TaskState},
};
use crate::{
    domain::{
        Time,
        failure::{Failure, FailureClass},
        text,
    },
    executor::RunEnd,
};
use std::collections::HashSet;

/// Of a log this many of its last lines are looked at.
const TAIL: usize = 200;
/// The longest message, in characters.
const MESSAGE_CAP: usize = 300;

/// What came of a run that is over. `log_needed`: to be asked again if the log of a failure cannot be read now.
///
/// # Errors
/// The server cannot be asked now: ask again.
pub async fn verdict(
    server: &Connection,
    dag: &str,
    run: &Run,
    stop: Option<Stop>,
    dag_start: Option<Time>,
    log_needed: bool,
) -> Result<RunEnd, CallError> {
    let tasks = match server.tasks(dag, &run.id).await {
        Ok(listing) => listing.rows,
        Err(e) if e.kind == Kind::Absent => Vec::new(),
        Err(e) => return Err(e),
    };
    let result = match run.state {
        RunState::Success => match suspicion(server, dag, run, &tasks, dag_start).await? {
            None => Ok(()),
            Some(_) if stop == Some(Stop::Cancel) => Err(cancelled()),
            Some(why) => Err(failure(FailureClass::Data, None, &why)),
        },
        _ => Err(match stop {
            Some(Stop::Cancel) => cancelled(),
            Some(Stop::Deadline) => failure(
                FailureClass::Timeout,
                None,
                "its deadline passed; it was marked failed",
            ),
            None => cause(server, dag, run, &tasks, log_needed).await?,
        }),
    };
    Ok(RunEnd {
        cancelled: stop == Some(Stop::Cancel) && result.is_err(),
        result,
        started: run.started,
        ended: run.ended,
        peak: None,
        note: None,
    })
}

fn failure(class: FailureClass, exit: Option<i32>, message: &str) -> Failure {
    Failure {
        class,
        exit,
        message: text::one_line(message, MESSAGE_CAP),
    }
}

fn cancelled() -> Failure {
    failure(
        FailureClass::Cancelled,
        None,
        "marked failed on the server, as asked",
    )
}

/// Why a success is not believed.
async fn suspicion(
    server: &Connection,
    dag: &str,
    run: &Run,
    tasks: &[TaskInstance],
    dag_start: Option<Time>,
) -> Result<Option<String>, CallError> {
    if let (Some(date), Some(start)) = (run.logical_date, dag_start)
        && date < start
    {
        return Ok(Some(format!(
            "suspect success: its date lies before the DAG's start date {}, where Airflow calls a run a success \
             without running it",
            start.format("%Y-%m-%d %H:%MZ")
        )));
    }
    if tasks.is_empty() {
        return Ok(Some("suspect success: not one task of it ran".to_owned()));
    }
    if tasks.iter().all(is_done) {
        return Ok(None);
    }
    // Only now, since it costs a request: leaves are known to the DAG alone.
    let leaves = match server.leaves(dag).await {
        Ok(leaves) => leaves,
        // Without them every task is as good as a leaf.
        Err(e) if matches!(e.kind, Kind::Absent | Kind::Forbidden | Kind::Invalid) => HashSet::new(),
        Err(e) => return Err(e),
    };
    Ok(judge_leaves(tasks, &leaves))
}

fn is_done(task: &TaskInstance) -> bool {
    task.state == Some(TaskState::Success)
}

fn judge_leaves(tasks: &[TaskInstance], leaves: &HashSet<String>) -> Option<String> {
    let mut last: Vec<&TaskInstance> = tasks.iter().filter(|t| leaves.contains(&t.task)).collect();
    if last.is_empty() {
        last = tasks.iter().collect();
    }
    if last.iter().any(|t| is_done(t)) {
        return None;
    }
    let mut words: Vec<String> = last
        .iter()
        .take(3)
        .map(|t| {
            let state = t.state.as_ref().map_or("unknown", TaskState::as_str);
            format!("{} {state}", t.task)
        })
        .collect();
    if last.len() > words.len() {
        words.push(format!("{} more", last.len() - words.len()));
    }
    Some(format!(
        "suspect success: none of its last tasks succeeded ({})",
        words.join(", ")
    ))
}

/// Why a run failed, from the log of the task that failed first.
async fn cause(
    server: &Connection,
    dag: &str,
    run: &Run,
    tasks: &[TaskInstance],
    log_needed: bool,
) -> Result<Failure, CallError> {
    let failed = tasks.iter().filter(|t| t.state == Some(TaskState::Failed));
    let Some(task) = failed.min_by_key(|t| (t.ended.is_none(), t.ended)) else {
        let words = if run.was_never_begun() {
            "it was marked failed on the server before it began"
        } else {
            "the run failed and none of its tasks did: somebody marked it, or its own time limit passed"
        };
        return Ok(failure(FailureClass::Other, None, words));
    };
    let place = TaskPlace {
        dag,
        run: &run.id,
        task: &task.task,
        map_index: task.map_index,
    };
    let lines = match server.log(place, task.try_number.max(1), None).await {
        Ok(page) => page.lines,
        // No log is no reason to know less than that the task failed.
        Err(e)
            if matches!(
                e.kind,
                Kind::Absent | Kind::Forbidden | Kind::Invalid | Kind::NotUnderstood
            ) =>
        {
            Vec::new()
        }
        // Where everything else is answered it will not be any better.
        Err(e) if !log_needed && e.kind == Kind::Server => Vec::new(),
        Err(e) => return Err(e),
    };
    Ok(failure_in(&task.task, &lines))
}

/// What the log of a failed task says.
fn failure_in(task: &str, lines: &[LogLine]) -> Failure {
    let from = lines.len().saturating_sub(TAIL);
    let tail: Vec<&str> = lines.iter().skip(from).map(|l| bare(&l.text)).collect();
    // 2.x closes with the code of its own process around the command: 1 if that reported the failure.
    let own = |l: &&&str| l.starts_with("Task exited with return code");
    let last = |lines: Vec<&&str>| lines.into_iter().rev().find_map(|l| exit_code(l));
    let (around, of_command) = tail.iter().partition(own);
    let exit = last(of_command).or_else(|| last(around));
    let telling = telling(&tail);
    let words = match (exit, telling) {
        (Some(code), Some(line)) => format!("{task}: exit {code}: {line}"),
        (Some(code), None) => format!("{task}: exit {code}"),
        (None, Some(line)) => format!("{task}: {line}"),
        (None, None) => format!("{task} failed, and its log says nothing"),
    };
    failure(class_of(exit, &tail), exit, &words)
}

/// A line of 2.x without `[time] {file:line} LEVEL - `.
fn bare(line: &str) -> &str {
    let line = line.trim();
    if !line.starts_with('[') {
        return line;
    }
    line.split_once("} ")
        .and_then(|(_, rest)| rest.split_once(" - "))
        .filter(|(level, _)| level.bytes().all(|b| b.is_ascii_uppercase()))
        .map_or(line, |(_, text)| text.trim())
}

/// `Command exited with return code 137`, `non-zero exit code 3`, `exit status 1`.
fn exit_code(line: &str) -> Option<i32> {
    let lower = line.to_ascii_lowercase();
    let marks = [
        "return code ",
        "exit code ",
        "exit status ",
        "exited with code ",
        "exit code: ",
    ];
    marks.iter().find_map(|mark| {
        let at = lower.find(mark)? + mark.len();
        let digits: String = lower
            .get(at..)?
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '-')
            .collect();
        digits.parse().ok().filter(|code| *code != 0)
    })
}

/// The last line that says what went wrong: of a command its own last words, else the exception.
fn telling<'a>(tail: &[&'a str]) -> Option<&'a str> {
    let says = |l: &&&'a str| !is_noise(l);
    let exited = tail
        .iter()
        .rposition(|l| l.starts_with("Command exited with return code"));
    if let Some(exited) = exited {
        let own = tail.iter().take(exited).rev().take_while(|l| **l != "Output:");
        if let Some(line) = own.into_iter().find(says) {
            return Some(line);
        }
    }
    let exception = |l: &&&'a str| {
        let name = l.split(':').next().unwrap_or_default();
        !name.contains(' ')
            && (name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Timeout"))
    };
    tail.iter()
        .rev()
        .find(exception)
        .or_else(|| tail.iter().rev().find(says))
        .copied()
}

fn is_noise(line: &str) -> bool {
    const STARTS: [&str; 12] = [
        "::",
        "***",
        "Traceback",
        "File \"",
        "Task failed with",
        "Marking task as",
        "Running command:",
        "Tmp dir",
        "Output:",
        "Task instance in",
        "Task finished",
        "Command exited with",
    ];
    line.is_empty() || STARTS.iter().any(|s| line.starts_with(s))
}

fn class_of(exit: Option<i32>, tail: &[&str]) -> FailureClass {
    const OOM: [&str; 7] = [
        "oomkilled",
        "out of memory",
        "outofmemory",
        "memoryerror",
        "cannot allocate memory",
        "oom-kill",
        "oom killer",
    ];
    const TIMEOUT: [&str; 3] = [
        "airflowtasktimeout",
        "airflowsensortimeout",
        "process timed out, pid",
    ];
    const PLATFORM: [&str; 4] = [
        "heartbeat timeout",
        "zombie",
        "executor reported that the task instance",
        "state mismatch",
    ];
    let lower: Vec<String> = tail.iter().map(|l| l.to_ascii_lowercase()).collect();
    let says = |words: &[&str]| lower.iter().any(|l| words.iter().any(|w| l.contains(w)));
    match exit {
        _ if says(&OOM) => FailureClass::Oom,
        _ if says(&TIMEOUT) => FailureClass::Timeout,
        Some(124) => FailureClass::Timeout,
        Some(137 | -9) => FailureClass::Killed,
        _ if says(&PLATFORM) => FailureClass::Platform,
        _ => FailureClass::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Failure {
        let lines: Vec<LogLine> = lines
            .iter()
            .map(|text| LogLine {
                at: None,
                level: None,
                text: (*text).to_owned(),
            })
            .collect();
        failure_in("load", &lines)
    }

    fn task(name: &str, state: &str) -> TaskInstance {
        serde_json::from_value(serde_json::json!({"task_id": name, "state": state})).unwrap()
    }

    #[test]
    fn a_failure_is_classed_by_what_its_log_says() {
        for (lines, class, exit) in [
            (
                &["Command exited with return code 137"][..],
                FailureClass::Killed,
                Some(137),
            ),
            (
                &["Out of memory: killed", "return code 137"],
                FailureClass::Oom,
                Some(137),
            ),
            (&["java.lang.OutOfMemoryError: heap"], FailureClass::Oom, None),
            (
                &["AirflowTaskTimeout: Timeout, PID: 7"],
                FailureClass::Timeout,
                None,
            ),
            (
                &["Command exited with return code 124"],
                FailureClass::Timeout,
                Some(124),
            ),
            (
                &["Bash command failed. The command returned a non-zero exit code 3."],
                FailureClass::Other,
                Some(3),
            ),
            (&["Detected zombie job"], FailureClass::Platform, None),
            (
                &[
                    "Command exited with return code 137",
                    "Task exited with return code 1",
                ],
                FailureClass::Killed,
                Some(137),
            ),
            (
                &["Task exited with return code -9"],
                FailureClass::Killed,
                Some(-9),
            ),
            (&["return code 0"], FailureClass::Other, None),
            (&[], FailureClass::Other, None),
        ] {
            let failure = log(lines);
            assert_eq!((failure.class, failure.exit), (class, exit), "{lines:?}");
        }
    }

    #[test]
    fn the_message_is_the_commands_own_last_word_and_else_the_exception() {
        let two = [
            "[2026-11-29T17:02:41.567+0000] {subprocess.py:99} INFO - Output:",
            "[2026-11-29T17:02:42.564+0000] {subprocess.py:106} INFO - no partition in s3://raw",
            "[2026-11-29T17:02:42.564+0000] {subprocess.py:110} INFO - Command exited with return code 2",
            "[2026-11-29T17:02:42.619+0000] {taskinstance.py:3337} ERROR - Task failed with exception",
            "Traceback (most recent call last):",
            "  File \"x.py\", line 1",
            "airflow.exceptions.AirflowException: Bash command failed.",
        ];
        assert_eq!(log(&two).message, "load: exit 2: no partition in s3://raw");
        assert_eq!(
            log(&["starts", "ValueError: bad row 7", "::endgroup::"]).message,
            "load: ValueError: bad row 7"
        );
        assert_eq!(
            log(&["a", "the \u{1b}[31mend", ""]).message,
            "load: the ^[[31mend"
        );
        assert_eq!(log(&[]).message, "load failed, and its log says nothing");
    }

    #[test]
    fn one_leaf_that_succeeded_is_enough_and_skipped_leaves_alone_are_not() {
        let leaves: HashSet<String> = ["left", "right"].map(str::to_owned).into();
        let branch = [
            task("pick", "success"),
            task("left", "skipped"),
            task("right", "success"),
        ];
        assert_eq!(judge_leaves(&branch, &leaves), None);
        let cut = [
            task("pick", "success"),
            task("left", "skipped"),
            task("right", "skipped"),
        ];
        assert_eq!(
            judge_leaves(&cut, &leaves).unwrap(),
            "suspect success: none of its last tasks succeeded (left skipped, right skipped)"
        );
        assert!(judge_leaves(&[task("a", "skipped")], &HashSet::new()).is_some());
    }
}
