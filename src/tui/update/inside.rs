//! Choosing in the drawer: a task of the day's run, an index of it, one of its tries.

use super::{Machine, select};
use crate::{
    domain::{
        Time,
        ids::{BackfillId, ChunkId},
    },
    tui::{
        inside::{Pick, chosen, rows},
        model::{Feed, Layer},
    },
};

/// Another day has other tries; the task that is looked at stays the same. Another backfill has other tasks.
pub(super) fn day_changed(machine: &mut Machine, before: &(Option<ChunkId>, Option<BackfillId>)) {
    if before.1 != machine.app.backfill {
        machine.app.pick = Pick::default();
        machine.app.unfolded = None;
    } else if before.0 != machine.app.cursor {
        machine.app.pick.try_no = None;
    }
}

/// Opens the log; whatever else happens in the run, it stays the log of this task.
pub(super) fn open_log(machine: &mut Machine, feed: &Feed) {
    fix(machine, feed);
    machine.push(Layer::Log(0));
}

/// Makes the choice of the task that is shown anyway.
fn fix(machine: &mut Machine, feed: &Feed) {
    let key = select::inside(&machine.app, feed)
        .and_then(|inside| chosen(inside.tasks(), &machine.app.pick))
        .map(|(task, _)| task.key.clone());
    if let Some(key) = key {
        machine.app.pick.task = Some(key);
    }
}

/// Who reads in the middle of a log reads the same try even when the next one begins.
pub(super) fn stay_with_try(machine: &mut Machine, feed: &Feed) {
    fix(machine, feed);
    let shown = select::inside(&machine.app, feed).and_then(|i| i.log.as_ref());
    if let Some(log) = shown.filter(|log| log.try_no > 0) {
        machine.app.pick.try_no = Some(log.try_no);
    }
}

/// The next or previous row of the tasks.
pub(super) fn step(machine: &mut Machine, feed: &Feed, back: bool) {
    let Some(inside) = select::inside(&machine.app, feed) else {
        return;
    };
    let rows = rows::rows(inside.tasks(), machine.app.unfolded.as_deref());
    let at = rows::selected(&rows, inside.tasks(), &machine.app.pick);
    machine.app.pick = Pick {
        task: rows::step(&rows, at, back),
        try_no: None,
    };
    to_the_end(machine);
}

/// The try after or before the one that is shown. After the last one it is the newest again, whichever that will be.
pub(super) fn go_to_try(machine: &mut Machine, feed: &Feed, newer: bool, now: Time) {
    let told = select::inside(&machine.app, feed)
        .and_then(|inside| chosen(inside.tasks(), &machine.app.pick))
        .map(|(task, no)| (task.key.clone(), task.last_try, no));
    let Some((key, last, no)) = told else { return };
    let to = match (newer, no) {
        (true, no) => no + 1,
        // A task that has not begun in this attempt: back to those of the attempt before.
        (false, 0) => last,
        (false, no) => no - 1,
    };
    if to == 0 {
        machine.say(format!("try 1 is the first of {key}"), now);
        return;
    }
    machine.app.pick = Pick {
        task: Some(key),
        try_no: (to < last || !newer).then_some(to),
    };
    to_the_end(machine);
}

/// Shows every index of the mapped task that is chosen, or all of them as one row.
pub(super) fn unfold(machine: &mut Machine, feed: &Feed) {
    let Some(name) = select::fold(&machine.app, feed) else {
        return;
    };
    if machine.app.unfolded.as_ref() == Some(&name) {
        machine.app.unfolded = None;
        machine.app.pick.task = Some(crate::executor::inside::TaskKey {
            task: name,
            map: None,
        });
    } else {
        machine.app.unfolded = Some(name);
    }
}

/// Another log is looked at from its end.
fn to_the_end(machine: &mut Machine) {
    for layer in &mut machine.app.layers {
        if let Layer::Log(back) = layer {
            *back = 0;
        }
    }
}
