//! What a change of somebody else's backfill would do: every sentence here is a promise that its action is held to.

use super::{Ask, Preview, by_state, count, days, digest, empty, split, units};
use crate::domain::{
    attach::{Action, Facts, NativeSeen, Reprocess, Taking},
    event::Rule,
    ids::ChunkId,
    spec::Spec,
    state::{Backfill, ChunkState as S},
};
use crate::plan::lever;

mod pool;

use pool::{limit, slots_of};

type Fact = (&'static str, String);

/// What a preview says that does nothing.
const INSTEAD: &str = "pause, resume, re-run, stop, cancel and replace work with the engine's own levers";

/// The same where there is no native backfill.
const WITHOUT_NATIVE: &str = "re-run, stop and mark work on days, whoever started their runs";

/// Whether that is what a plan says in place of doing something.
pub(super) fn is_refusal(instead: &str) -> bool {
    [INSTEAD, WITHOUT_NATIVE].contains(&instead)
}

/// The preview of a change of an attached backfill; its observations are laid over it.
pub(super) fn make(backfill: &Backfill, ask: &Ask) -> Preview {
    let mut preview = match ask {
        Ask::Rerun(chunks, only_failed) => rerun(backfill, chunks, *only_failed),
        Ask::Stop(chunks) => stop(backfill, chunks),
        Ask::Resume => resume(backfill),
        Ask::Cancel => cancel(backfill, false),
        Ask::Detach => detach(backfill),
        Ask::Act(action) => act(backfill, action),
        Ask::Cap(_) | Ask::Force(..) => limit(backfill, ask),
        _ => refused(backfill, "This is done to backfills of our own"),
    };
    preview.facts.extend(server(backfill));
    preview.digest = digest(backfill, &preview);
    preview
}

fn act(backfill: &Backfill, action: &Action) -> Preview {
    match action {
        Action::Pause { whole_dag } => pause(backfill, *whole_dag),
        Action::Resume { whole_dag: true } => thaw(backfill),
        Action::Resume { whole_dag: false } => resume(backfill),
        Action::Slots { pool, slots } => slots_of(backfill, pool, *slots),
        Action::Replace { limit } => replace(backfill, *limit),
        Action::Cancel { running } => cancel(backfill, *running),
        Action::Rerun { chunks, failed_only } => rerun(backfill, chunks, *failed_only),
        Action::Stop { chunks } => stop(backfill, chunks),
        Action::Mark { chunks, done } => mark(backfill, chunks, *done),
        Action::Create {
            first,
            last,
            limit,
            reprocess,
            newest_first,
        } => create(backfill, (*first, *last), *limit, *reprocess, *newest_first),
    }
}

/// Where it is done and how old the picture is that the plan was made from.
fn server(backfill: &Backfill) -> Vec<Fact> {
    let spec = &backfill.spec;
    let environment = spec
        .environment
        .as_ref()
        .map_or_else(String::new, |e| format!(" ({e})"));
    let mut facts = vec![(
        "server",
        format!("{}{environment}, DAG {}", spec.executor, dag(spec)),
    )];
    match &backfill.seen {
        Some(Facts {
            problem: Some(why), ..
        }) => {
            facts.push((
                "not seen",
                format!("the last look failed, the plan may be old: {why}"),
            ));
        }
        Some(Facts { as_of: None, .. }) | None => {
            facts.push(("not seen", "nothing was read of the server yet".to_owned()));
        }
        Some(Facts { reading: Some(r), .. }) => {
            facts.push((
                "not seen",
                format!("{} of {} runs are read so far", r.read, r.total),
            ));
        }
        Some(_) => {}
    }
    facts
}

fn dag(spec: &Spec) -> &str {
    spec.dag.as_ref().map_or("?", |d| d.id.as_str())
}

fn native(backfill: &Backfill) -> Option<&NativeSeen> {
    backfill.seen.as_ref()?.native.as_ref()
}

fn unfinished(backfill: &Backfill) -> Option<&NativeSeen> {
    native(backfill).filter(|n| n.completed.is_none())
}

fn n(backfill: &Backfill, state: S) -> usize {
    backfill.count(state) as usize
}

fn counted(backfill: &Backfill, n: usize) -> String {
    format!("{n} {}", units(&backfill.spec, n))
}

fn refused(backfill: &Backfill, why: &str) -> Preview {
    let mut preview = empty(
        why.to_owned(),
        2,
        format!("backfill status {}", backfill.spec.name),
    );
    preview.facts.push(("instead", INSTEAD.to_owned()));
    preview
}

fn no_native(backfill: &Backfill, what: &str) -> Preview {
    let why = lever::no_native(backfill.seen.as_ref()).unwrap_or_default();
    let mut preview = refused(backfill, &format!("Nothing to {what}: {why}"));
    preview.facts = vec![("instead", WITHOUT_NATIVE.to_owned())];
    preview
}

fn pause(backfill: &Backfill, whole_dag: bool) -> Preview {
    let name = &backfill.spec.name;
    if !whole_dag {
        let Some(native) = unfinished(backfill) else {
            return no_native(backfill, "pause");
        };
        let mut preview = empty(
            format!("Pause native backfill {}", native.id),
            1,
            format!("backfill pause {name}"),
        );
        preview.facts = vec![
            (
                "effect",
                format!(
                    "no further day starts; {} running finish",
                    counted(backfill, n(backfill, S::Running))
                ),
            ),
            ("undo", format!("backfill resume {name}")),
        ];
        preview.facts.extend(beyond(backfill, native));
        return preview;
    }
    let same = format!("backfill pause {name} --whole-dag");
    let mut preview = empty(format!("Freeze the DAG {}", dag(&backfill.spec)), 3, same);
    preview.facts = vec![
        (
            "effect",
            format!(
                "everything of the DAG stops between two tasks, {} running and the live schedule, too",
                counted(backfill, n(backfill, S::Running))
            ),
        ),
        (
            "instead",
            "p pauses the native backfill only, and running days finish".to_owned(),
        ),
        ("undo", format!("backfill resume {name} --whole-dag")),
    ];
    preview
}

fn thaw(backfill: &Backfill) -> Preview {
    let same = format!("backfill resume {} --whole-dag", backfill.spec.name);
    let mut preview = empty(format!("Let the DAG {} run again", dag(&backfill.spec)), 2, same);
    preview.facts = vec![
        (
            "effect",
            "its frozen runs go on, and its schedule may start a run at once".to_owned(),
        ),
        (
            "undo",
            format!("backfill pause {} --whole-dag", backfill.spec.name),
        ),
    ];
    preview
}

fn resume(backfill: &Backfill) -> Preview {
    let name = &backfill.spec.name;
    let mut preview = empty(format!("Resume {name}"), 2, format!("backfill resume {name}"));
    if let Some(pause) = &backfill.pause {
        let reason = pause
            .mark
            .reason
            .as_ref()
            .map_or(String::new(), |r| format!(": {r}"));
        preview
            .facts
            .push(("paused", format!("by {}{reason}", pause.mark.by.name)));
    }
    match unfinished(backfill) {
        None => return no_native(backfill, "resume"),
        Some(native) if lever::is_paused_there(backfill) && backfill.native_pause.is_none() => {
            preview.facts.push((
                "paused",
                format!(
                    "native backfill {} was paused on the server, by somebody else",
                    native.id
                ),
            ))
        }
        Some(_) => {}
    }
    if backfill.limit.value == 0 && backfill.limit.rule != Rule::Start {
        preview
            .facts
            .push(("stays", format!("stopped by its signal: {}", backfill.limit.why)));
    }
    let waiting = n(backfill, S::Queued);
    preview.facts.push((
        "effect",
        format!("{} waiting may start again", counted(backfill, waiting)),
    ));
    preview
}

fn replace(backfill: &Backfill, to: u32) -> Preview {
    let name = &backfill.spec.name;
    let Some(native) = unfinished(backfill) else {
        return no_native(backfill, "replace");
    };
    let title = format!("Replace native backfill {} by one with limit {to}", native.id);
    let mut preview = empty(title, 3, format!("backfill replace {name} {to}"));
    let of = |state| counted(backfill, n(backfill, state));
    preview.facts = vec![
        (
            "cancels",
            format!(
                "native backfill {} (limit {}), whose limit cannot be changed; runs that wait read failed there until \
                 the new one has them",
                native.id, native.limit
            ),
        ),
        (
            "makes",
            format!(
                "a new one over the days that are not done; {} waiting run in it",
                of(S::Queued)
            ),
        ),
        (
            "keeps",
            format!(
                "{} done stay as they are, {} running go on",
                of(S::Done),
                of(S::Running)
            ),
        ),
    ];
    preview.facts.extend(beyond(backfill, native));
    if n(backfill, S::Failed) > 0 {
        preview
            .facts
            .push(("runs again", format!("{} failed before", of(S::Failed))));
    }
    preview
        .facts
        .push(("undo", format!("backfill replace {name} {}", native.limit)));
    preview
}

fn cancel(backfill: &Backfill, running: bool) -> Preview {
    let name = &backfill.spec.name;
    let Some(native) = unfinished(backfill) else {
        return no_native(backfill, "cancel");
    };
    let flag = if running { " --running" } else { "" };
    let title = format!("Cancel native backfill {}", native.id);
    let mut preview = empty(title, 3, format!("backfill cancel {name}{flag}"));
    let of = |state| counted(backfill, n(backfill, state));
    let waiting = format!(
        "{} waiting never start; there they count as failed",
        of(S::Queued)
    );
    preview.facts = vec![("cancels", waiting)];
    preview.facts.push(if running {
        (
            "stops",
            format!("{} running are ended: TERM to their tasks", of(S::Running)),
        )
    } else {
        (
            "runs",
            format!(
                "{} running go on to their end (--running ends them, too)",
                of(S::Running)
            ),
        )
    });
    preview.facts.extend(beyond(backfill, native));
    preview.facts.push((
        "undo",
        format!("none; days can be run again one by one: backfill rerun {name} DAY"),
    ));
    preview
}

fn rerun(backfill: &Backfill, asked: &[ChunkId], only_failed: bool) -> Preview {
    let (will, will_not) = split(backfill, asked, |chunk| match chunk.state {
        S::Unread => Err("not read yet".to_owned()),
        S::Absent => Err("the server has no run of it: make a native backfill over it".to_owned()),
        S::Queued => Err("waits for its start already".to_owned()),
        S::Running => Err("running now; K stops it".to_owned()),
        S::Uncertain => Err(chunk
            .why
            .clone()
            .unwrap_or_else(|| "in a state that is not known".to_owned())),
        S::Done if only_failed => Err("done, not failed".to_owned()),
        _ => Ok(()),
    });
    let what = if only_failed {
        by_state(&will)
    } else {
        will.len().to_string()
    };
    let flag = if only_failed { " --failed" } else { "" };
    let name = &backfill.spec.name;
    let title = format!("Re-run {what} {}", units(&backfill.spec, will.len()));
    let mut preview = empty(title, 2, format!("backfill rerun {name} {}{flag}", days(asked)));
    let what = if only_failed {
        "what failed in its run is cleared"
    } else {
        "the whole run is cleared"
    };
    let dead = native(backfill).is_some_and(NativeSeen::is_cancelled);
    let cancelled = will
        .iter()
        .filter(|c| dead && c.state == S::Cancelled.word())
        .count();
    if cancelled < will.len() || will.is_empty() {
        preview.facts.push((
            "effect",
            format!("of each day {what}, and it runs again, with its own parameters"),
        ));
    }
    if cancelled > 0 {
        preview.facts.push((
            "anew",
            format!(
                "{} of a cancelled backfill cannot be cleared: the run is deleted with its tries and logs, and one that \
                 is made anew starts at once, outside of any limit",
                counted(backfill, cancelled)
            ),
        ));
    }
    preview
        .facts
        .push(("undo", "stop the days (K) while they run".to_owned()));
    preview.will = will;
    preview.will_not = will_not;
    preview
}

fn stop(backfill: &Backfill, asked: &[ChunkId]) -> Preview {
    let (will, will_not) = split(backfill, asked, |chunk| match chunk.state {
        S::Running | S::Queued => Ok(()),
        state => Err(format!("{}, not running", state.word())),
    });
    let title = format!(
        "Stop {} running {}",
        will.len(),
        units(&backfill.spec, will.len())
    );
    let same = format!("backfill stop-runs {} {}", backfill.spec.name, days(asked));
    let mut preview = empty(title, 3, same);
    preview.facts = vec![
        (
            "effect",
            "their runs are set to failed: tasks get TERM within seconds".to_owned(),
        ),
        ("undo", "none for what ran; re-run the days: R".to_owned()),
    ];
    preview.will = will;
    preview.will_not = will_not;
    preview
}

fn mark(backfill: &Backfill, asked: &[ChunkId], done: bool) -> Preview {
    let (word, state) = if done {
        ("done", S::Done)
    } else {
        ("failed", S::Failed)
    };
    let (will, will_not) = split(backfill, asked, |chunk| match chunk.state {
        s if s == state => Err(format!("{word} already")),
        S::Running | S::Queued => Err(format!("{}: stop it first (K)", chunk.state.word())),
        S::Absent => Err("the server has no run of it".to_owned()),
        S::Unread => Err("not read yet".to_owned()),
        _ => Ok(()),
    });
    let title = format!("Mark {} {} {word}", will.len(), units(&backfill.spec, will.len()));
    let same = format!("backfill mark {} {word} {}", backfill.spec.name, days(asked));
    let mut preview = empty(title, 3, same);
    let effect = if done {
        "the server calls their runs success; nothing runs and no data changes"
    } else {
        "the server calls their runs failed; nothing runs and no data changes"
    };
    preview.facts = vec![
        ("effect", effect.to_owned()),
        ("undo", "mark them the other way, or re-run them: R".to_owned()),
    ];
    preview.will = will;
    preview.will_not = will_not;
    preview
}

fn create(
    backfill: &Backfill,
    (first, last): (ChunkId, ChunkId),
    limit: u32,
    reprocess: Reprocess,
    newest_first: bool,
) -> Preview {
    let name = &backfill.spec.name;
    let same = format!(
        "backfill native {name} {first}..{last} --limit {limit} --reprocess {}{}",
        reprocess.word(),
        if newest_first { " --newest-first" } else { "" }
    );
    if let Some(native) = unfinished(backfill) {
        let why = format!("A new native backfill has to wait: {} is not finished", native.id);
        return refused(backfill, &why);
    }
    let inside: Vec<ChunkId> = backfill
        .chunks
        .iter()
        .map(|c| c.id)
        .filter(|id| (first..=last).contains(id))
        .collect();
    let (will, will_not) = split(backfill, &inside, |chunk| match (chunk.state, reprocess) {
        (S::Absent, _) | (S::Failed | S::Cancelled, Reprocess::Failed | Reprocess::Completed) => Ok(()),
        (S::Done, Reprocess::Completed) => Ok(()),
        (state, _) => Err(format!(
            "{}, not taken with --reprocess {}",
            state.word(),
            reprocess.word()
        )),
    });
    let title = format!("New native backfill over {}", counted(backfill, will.len()));
    let mut preview = empty(title, 2, same);
    preview.facts = vec![
        (
            "effect",
            format!(
                "{} at once at most, {}",
                counted(backfill, limit as usize),
                if newest_first {
                    "latest first"
                } else {
                    "earliest first"
                }
            ),
        ),
        ("undo", format!("backfill cancel {name}")),
    ];
    preview.will = will;
    preview.will_not = will_not;
    preview
}

fn detach(backfill: &Backfill) -> Preview {
    let name = &backfill.spec.name;
    let mut preview = empty(format!("Let go of {name}"), 2, format!("backfill detach {name}"));
    preview.facts = vec![(
        "effect",
        "it is not looked at any more; on the server it goes on as it is".to_owned(),
    )];
    if backfill.native_pause.is_some() {
        preview.facts.push((
            "stays",
            "paused on the server, because our pause is not lifted".to_owned(),
        ));
    }
    if let Some(hold) = &backfill.pool {
        preview.facts.push((
            "gives back",
            format!("pool {} its {} slots", hold.pool, hold.former),
        ));
    }
    for asked in backfill.asked.iter().filter(|a| a.is_open()) {
        let words = asked.action.words();
        preview.facts.push(if asked.steps.is_empty() {
            (
                "not sent",
                format!("{words}, asked for by {}", asked.mark.by.name),
            )
        } else {
            (
                "still ends",
                format!("{words}: it was sent, and is taken to its end"),
            )
        });
    }
    let spec = &backfill.spec;
    let what = match spec.attach.as_ref().and_then(|a| a.native) {
        Some(native) => format!("--native-backfill {native}"),
        None => format!("--dag {}", dag(spec)),
    };
    preview.facts.push((
        "undo",
        format!(
            "backfill attach {} {what} --from {} --to {}",
            spec.executor, spec.start, spec.end
        ),
    ));
    preview
}

/// Days of the native backfill that are none of the window's: an action on it is about them, too.
fn beyond(backfill: &Backfill, native: &NativeSeen) -> Option<Fact> {
    let spec = &backfill.spec;
    let day = |at: crate::domain::Time| at.with_timezone(&spec.timezone).date_naive();
    let (from, to) = (day(native.from), day(native.to));
    (from < spec.start || spec.end < to).then(|| {
        let text = format!("it is over {from} .. {to}: its days that are not shown here are meant, too");
        ("beyond", text)
    })
}

/// What becomes of somebody else's run on the date of one of our own chunks.
pub(super) fn take(backfill: &Backfill, id: ChunkId, run: &str, how: Taking) -> Preview {
    let (will, will_not) = split(backfill, &[id], |chunk| match &chunk.taken {
        Some(taken) if chunk.state == S::Held && taken.run.0 == run => Ok(()),
        _ => Err("not held because of another run on its date".to_owned()),
    });
    let name = &backfill.spec.name;
    let title = match how {
        Taking::Adopt => format!("Adopt the run of {id}"),
        Taking::Clear => format!("Clear the run of {id}, and run it as ours"),
    };
    let class = if how == Taking::Clear { 3 } else { 2 };
    let mut preview = empty(title, class, format!("backfill take {name} {id} {}", how.word()));
    let effect = match how {
        Taking::Adopt => "it is watched as if it were ours, and its end counts: nothing runs twice",
        Taking::Clear => {
            "it is cleared, or deleted and made anew where its parameters differ; its history there may go"
        }
    };
    preview.facts.push(("effect", effect.to_owned()));
    if let Some(taken) = backfill.chunk(id).and_then(|c| c.taken.as_ref()) {
        preview.facts.push(("it is", taken.what.clone()));
    }
    preview
        .facts
        .push(("undo", format!("hold the day: backfill hold {name} {id}")));
    preview.will = will;
    preview.will_not = will_not;
    preview.digest = digest(backfill, &preview);
    preview
}

#[cfg(test)]
#[path = "attached_tests.rs"]
mod tests;
