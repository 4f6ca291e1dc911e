//! Everything that changes the world: what only reduces work is sent at once, the rest shows its plan and asks.

use super::{Ctx, Machine, SENT, Seen, select, theirs};
use crate::{
    domain::{
        Time,
        attach::Action,
        event::Payload,
        human,
        ids::{BackfillId, ChunkId},
        state::{Backfill, ChunkState},
    },
    plan::preview::Preview,
    tui::{
        action::Id,
        effect::{Effect, differences},
        model::{Ask, Feed, Layer, PlanDialog},
        msg::Answer,
    },
};
use std::time::Duration;

pub(super) fn perform(machine: &mut Machine, ctx: &Ctx<'_>, id: Id, by: char) -> Vec<Effect> {
    match id {
        Id::Confirm => return confirm(machine, ctx),
        Id::AllDays => {
            if let Some(Layer::Plan(dialog)) = machine.app.layers.last_mut() {
                dialog.all_days = dialog.all_days.is_none().then_some(0);
            }
            return Vec::new();
        }
        Id::StartSupervising => return open(machine, ctx, Ask::StartSupervising, by),
        Id::StopSupervising => return open(machine, ctx, Ask::StopSupervising, by),
        _ => {}
    }
    let Some(backfill) = select::shown(&machine.app, ctx.feed) else {
        return Vec::new();
    };
    let (targets, chosen) = select::targets(&machine.app, backfill);
    match id {
        Id::Pause if select::is_resumed_by_p(backfill) => open(machine, ctx, Ask::Resume, by),
        Id::Pause => pause(machine, backfill, ctx.now),
        Id::Resume => open(machine, ctx, Ask::Resume, by),
        Id::Hold if select::all_held(&machine.app, backfill) => open(machine, ctx, Ask::Release(targets), by),
        Id::Hold => hold(machine, backfill, &targets, ctx.now),
        Id::RerunFailed => {
            let failed = failed(backfill, chosen.then_some(targets));
            open(machine, ctx, Ask::Rerun(failed, true), by)
        }
        Id::Rerun => open(machine, ctx, Ask::Rerun(targets, false), by),
        Id::Skip => open(machine, ctx, Ask::Skip(targets), by),
        Id::StopRunning => open(machine, ctx, Ask::Stop(active(backfill, targets)), by),
        Id::CancelBackfill if backfill.spec.attach.is_none() => open(machine, ctx, Ask::Cancel, by),
        Id::CancelBackfill | Id::TakeDate | Id::MarkAs | Id::Detach | Id::PauseDag | Id::ResumeDag => {
            let ways = theirs::ways(backfill, id, &machine.app, targets);
            open_one_of(machine, ctx, ways, by)
        }
        Id::FreeLimit => open(machine, ctx, Ask::Cap(None), by),
        Id::Throttle => {
            machine.push(Layer::Throttle(String::new()));
            Vec::new()
        }
        _ => Vec::new(),
    }
}

/// What failed of the chosen days, or of the whole backfill.
fn failed(backfill: &Backfill, chosen: Option<Vec<ChunkId>>) -> Vec<ChunkId> {
    let is_failed = |id: &ChunkId| backfill.chunk(*id).is_some_and(|c| select::is_failed(c.state));
    match chosen {
        Some(ids) => ids.into_iter().filter(is_failed).collect(),
        None => backfill.chunks.iter().map(|c| c.id).filter(is_failed).collect(),
    }
}

fn active(backfill: &Backfill, ids: Vec<ChunkId>) -> Vec<ChunkId> {
    let is_active = |id: &ChunkId| backfill.chunk(*id).is_some_and(|c| c.state.is_active());
    ids.into_iter().filter(is_active).collect()
}

/// Pauses at once; the reason can follow.
fn pause(machine: &mut Machine, backfill: &Backfill, now: Time) -> Vec<Effect> {
    let what = format!("pause of {}", backfill.spec.name);
    let effect = machine.command(
        Some(backfill.id.clone()),
        Payload::Paused { until: None },
        None,
        what,
        now,
    );
    machine.push(Layer::Reason(String::new()));
    machine.second_p = None;
    if let Effect::Command { op, .. } = &effect {
        machine.pause_op = Some(*op);
    }
    vec![effect]
}

/// Whether the pause that was sent from here is over again: it does not hold, and is not on its way either.
pub(super) fn pause_is_over(machine: &Machine, backfill: &Backfill) -> bool {
    let unanswered = machine.pending.iter().any(|p| Some(p.op) == machine.pause_op);
    let what = format!("pause of {}", backfill.spec.name);
    let unfolded = machine.recorded.iter().any(|(_, recorded)| *recorded == what);
    backfill.pause.is_none() && !unanswered && !unfolded
}

/// Records why the pause was made, unless it is over by now.
pub(super) fn pause_reason(machine: &mut Machine, ctx: &Ctx<'_>, reason: &str) -> Vec<Effect> {
    let Some(backfill) = select::shown(&machine.app, ctx.feed) else {
        return Vec::new();
    };
    let name = &backfill.spec.name;
    if pause_is_over(machine, backfill) {
        machine.say(
            "somebody resumed it meanwhile: the reason was not recorded",
            ctx.now,
        );
        return Vec::new();
    }
    let until = backfill.pause.as_ref().and_then(|p| p.until);
    let what = format!("reason of the pause of {name}");
    vec![machine.command(
        Some(backfill.id.clone()),
        Payload::Paused { until },
        Some(reason.to_owned()),
        what,
        ctx.now,
    )]
}

/// Holds back at once what can be held.
fn hold(machine: &mut Machine, backfill: &Backfill, ids: &[ChunkId], now: Time) -> Vec<Effect> {
    let can = |id: &&ChunkId| {
        let state = backfill.chunk(**id).map(|c| c.state);
        matches!(state, Some(ChunkState::Pending | ChunkState::Failed))
    };
    let chunks: Vec<ChunkId> = ids.iter().filter(can).copied().collect();
    let what = match chunks.as_slice() {
        [] => {
            machine.say("only what waits can be held", now);
            return Vec::new();
        }
        [one] => format!("hold of {one}"),
        many => format!("hold of {} chunks", many.len()),
    };
    let payload = Payload::HoldPlaced { chunks };
    vec![machine.command(Some(backfill.id.clone()), payload, None, what, now)]
}

/// The backfill that a change is about; none for what concerns the journal as a whole. The dialog and the driver
/// must ask the planner the same question.
fn about(machine: &Machine, ask: &Ask) -> Option<BackfillId> {
    match ask {
        Ask::StartSupervising | Ask::StopSupervising => None,
        _ => machine.app.backfill.clone(),
    }
}

/// Opens a plan dialog on the first of several ways to do it.
fn open_one_of(machine: &mut Machine, ctx: &Ctx<'_>, ways: Vec<(String, Ask)>, by: char) -> Vec<Effect> {
    let Some((_, first)) = ways.first().cloned() else {
        return Vec::new();
    };
    let opened = open(machine, ctx, first, by);
    if let Some(Layer::Plan(dialog)) = machine.app.layers.last_mut() {
        dialog.ways = ways;
    }
    opened
}

/// The plan of the next or previous way to do it stands in the dialog; it has to be seen before it can be confirmed.
pub(super) fn other_way(machine: &mut Machine, ctx: &Ctx<'_>, by: isize) {
    let Some(Layer::Plan(dialog)) = machine.app.layers.last() else {
        return;
    };
    let here = dialog.ways.iter().position(|(_, ask)| *ask == dialog.ask);
    let next = here.and_then(|at| dialog.ways.get(at.checked_add_signed(by)?));
    let Some((_, ask)) = next.filter(|_| dialog.outcome.as_deref() != Some(SENT)).cloned() else {
        return;
    };
    let preview = ctx
        .planner
        .preview(ctx.feed, about(machine, &ask).as_ref(), &ask, ctx.now);
    let phrase = phrase(machine, ctx.feed, &ask, &preview);
    if let Some(Layer::Plan(dialog)) = machine.app.layers.last_mut() {
        (dialog.ask, dialog.preview, dialog.phrase) = (ask, preview, phrase);
        (dialog.changed, dialog.outcome) = (Vec::new(), None);
    }
    machine.seen = Seen::NotYet;
}

/// Opens a plan dialog on what the planner says now. The plan is kept by value.
pub(super) fn open(machine: &mut Machine, ctx: &Ctx<'_>, ask: Ask, by: char) -> Vec<Effect> {
    let about = about(machine, &ask);
    let preview = ctx.planner.preview(ctx.feed, about.as_ref(), &ask, ctx.now);
    let phrase = phrase(machine, ctx.feed, &ask, &preview);
    machine.dialog_op = None;
    machine.push(Layer::Plan(Box::new(PlanDialog {
        ask,
        ways: Vec::new(),
        preview,
        opened_by: by,
        changed: Vec::new(),
        all_days: None,
        phrase,
        outcome: None,
    })));
    Vec::new()
}

/// What is seen of somebody else's backfill moves on while a plan of it is open, and the plan moves with it: what was
/// counted a minute ago must not be confirmed as the present. A plan of other days has to be seen before that.
pub(super) fn follow(machine: &mut Machine, ctx: &Ctx<'_>) {
    let attached = select::shown(&machine.app, ctx.feed).is_some_and(|b| b.spec.attach.is_some());
    let Some(Layer::Plan(dialog)) = machine.app.layers.last().filter(|_| attached) else {
        return;
    };
    let ask = dialog.ask.clone();
    let Some(about) = about(machine, &ask).filter(|_| machine.dialog_op.is_none()) else {
        return;
    };
    let preview = ctx.planner.preview(ctx.feed, Some(&about), &ask, ctx.now);
    let wanted = phrase(machine, ctx.feed, &ask, &preview);
    let Some(Layer::Plan(dialog)) = machine.app.layers.last_mut() else {
        return;
    };
    if preview == dialog.preview {
        return;
    }
    let same_phrase = |(old, _): &(String, String)| wanted.as_ref().is_some_and(|(new, _)| new == old);
    if !dialog.phrase.as_ref().is_some_and(same_phrase) {
        dialog.phrase = wanted;
    }
    let other_days = preview.digest != dialog.preview.digest;
    if other_days {
        dialog.changed = differences(&dialog.preview, &preview);
        machine.seen = Seen::NotYet;
    }
    dialog.preview = preview;
}

/// What has to be typed before something that cannot be taken back: the name of what ends or freezes, else how many
/// days it is about.
fn phrase(machine: &Machine, feed: &Feed, ask: &Ask, preview: &Preview) -> Option<(String, String)> {
    if preview.class < 3 || preview.is_empty(ask) {
        return None;
    }
    let spec = select::shown(&machine.app, feed).map(|b| &b.spec);
    let wanted = match (ask, spec) {
        (Ask::Cancel | Ask::Act(Action::Cancel { .. } | Action::Replace { .. }), Some(spec)) => {
            spec.name.to_string()
        }
        (Ask::Act(Action::Pause { .. }), Some(spec)) => spec
            .dag
            .as_ref()
            .map_or_else(|| spec.name.to_string(), |d| d.id.clone()),
        _ => preview.will.len().to_string(),
    };
    Some((wanted, String::new()))
}

/// Sends what the dialog shows. The driver makes the plan again and compares.
pub(super) fn confirm(machine: &mut Machine, ctx: &Ctx<'_>) -> Vec<Effect> {
    let Some(Layer::Plan(dialog)) = machine.app.layers.last_mut() else {
        return Vec::new();
    };
    dialog.outcome = Some(SENT.to_owned());
    let (ask, digest, what) = (
        dialog.ask.clone(),
        dialog.preview.digest.clone(),
        dialog.preview.title.clone(),
    );
    let op = machine.op(what, ctx.now);
    machine.dialog_op = Some(op);
    if ask == Ask::StartSupervising {
        return vec![Effect::StartSupervisor { op }];
    }
    let backfill = about(machine, &ask);
    vec![Effect::Submit {
        op,
        backfill,
        ask,
        digest,
    }]
}

/// The answer to a confirmed dialog that is still open.
pub(super) fn answered(machine: &mut Machine, answer: Answer, what: String, ctx: &Ctx<'_>) {
    machine.dialog_op = None;
    let at = machine
        .app
        .layers
        .iter()
        .rposition(|l| matches!(l, Layer::Plan(_)));
    match answer {
        Answer::Accepted { seq } => {
            remove(machine, at);
            machine.app.marks.clear();
            machine.app.range_from = None;
            machine.say(format!("{what}: recorded as event {seq}"), ctx.now);
            machine.recorded.push((seq, what));
            super::fed::look_for_refusals(machine, ctx.feed, ctx.now);
        }
        Answer::Done { what } => {
            remove(machine, at);
            machine.say(what, ctx.now);
        }
        Answer::Refused { why } => {
            if let Some(dialog) = dialog_at(machine, at) {
                dialog.outcome = Some(format!("nothing was done: {why}"));
            }
        }
        Answer::Changed(preview) => {
            let wanted = dialog_at(machine, at).map(|d| d.ask.clone());
            let phrase = wanted.and_then(|ask| phrase(machine, ctx.feed, &ask, &preview));
            if let Some(dialog) = dialog_at(machine, at) {
                dialog.changed = differences(&dialog.preview, &preview);
                dialog.preview = *preview;
                dialog.phrase = phrase;
                dialog.outcome = None;
                dialog.all_days = dialog.all_days.map(|_| 0);
            }
            // It is another plan: it has to be seen before it can be confirmed.
            machine.seen = Seen::NotYet;
        }
    }
}

fn dialog_at(machine: &mut Machine, at: Option<usize>) -> Option<&mut PlanDialog> {
    match machine.app.layers.get_mut(at?) {
        Some(Layer::Plan(dialog)) => Some(dialog),
        _ => None,
    }
}

fn remove(machine: &mut Machine, at: Option<usize>) {
    if let Some(at) = at {
        machine.app.layers.remove(at);
    }
    if machine.app.layers.is_empty() {
        machine.seen = Seen::Nothing;
    }
}

/// What the throttle line says: `4` a cap, `auto` no cap and no override, `6 for 30m` an override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tui) enum Limit {
    Cap(u32),
    Auto,
    Force(u32, Duration),
}

/// The limit that a throttle line asks for, whatever else it says.
pub(in crate::tui) fn limit_of(text: &str) -> Option<u32> {
    text.split_whitespace().next()?.parse().ok()
}

/// Reads a throttle line; `None` while it makes no sense.
pub(in crate::tui) fn read_limit(text: &str) -> Option<Limit> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["auto"] => Some(Limit::Auto),
        [n] => n.parse().ok().map(Limit::Cap),
        [n, "for", d] | [n, d] => {
            let span = human::parse_duration(d).ok().filter(|d| !d.is_zero())?;
            Some(Limit::Force(n.parse().ok()?, span))
        }
        _ => None,
    }
}

/// Carries out the throttle line. A lower cap only reduces work and is sent at once; everything else shows its
/// plan. Returns `None`, with a word to the operator, while the line makes no sense.
pub(super) fn throttle(machine: &mut Machine, ctx: &Ctx<'_>, text: &str) -> Option<Vec<Effect>> {
    let backfill = select::shown(&machine.app, ctx.feed)?;
    if backfill.spec.attach.is_some() {
        return theirs::limit(machine, ctx, backfill, text);
    }
    let max = backfill.spec.max_limit;
    let limit = match read_limit(text) {
        None => Err("type 4, or auto, or 6 for 30m".to_owned()),
        Some(Limit::Cap(0) | Limit::Force(0, _)) => Err("a limit of 0 is a pause: esc, then p".to_owned()),
        Some(Limit::Cap(n) | Limit::Force(n, _)) if n > max => Err(format!("max_limit is {max}")),
        Some(Limit::Auto) if backfill.cap.is_none() && backfill.force.is_none() => {
            Err("there is neither a cap nor an override".to_owned())
        }
        Some(limit) => Ok(limit),
    };
    let limit = match limit {
        Ok(limit) => limit,
        Err(why) => {
            machine.say(why, ctx.now);
            return None;
        }
    };
    machine.pop();
    let now_allowed = backfill.cap.as_ref().map_or(max, |(cap, _)| *cap);
    Some(match limit {
        Limit::Cap(n) if n <= now_allowed && backfill.force.is_none() => {
            let what = format!("cap {n} on {}", backfill.spec.name);
            let payload = Payload::CapSet { cap: Some(n) };
            vec![machine.command(Some(backfill.id.clone()), payload, None, what, ctx.now)]
        }
        Limit::Cap(n) => open(machine, ctx, Ask::Cap(Some(n)), '\r'),
        Limit::Auto => open(machine, ctx, Ask::Cap(None), '\r'),
        Limit::Force(n, how_long) => open(machine, ctx, Ask::Force(n, how_long), '\r'),
    })
}

/// Marks: single days, ranges, states.
pub(super) fn mark(machine: &mut Machine, feed: &Feed, id: Id, now: Time) {
    let Some(backfill) = select::shown(&machine.app, feed) else {
        return;
    };
    let app = &mut machine.app;
    let by_state = |app: &mut crate::tui::model::App, state: ChunkState| {
        let found = backfill.chunks.iter().filter(|c| c.state == state);
        app.marks.extend(found.map(|c| c.id.to_string()));
        match backfill.count(state) {
            0 => format!("nothing is {}", state.word()),
            n => format!("{n} {} marked, {} in all", state.word(), app.marks.len()),
        }
    };
    let told = match (id, app.cursor) {
        (Id::ClearMarks, _) => {
            app.marks.clear();
            app.range_from = None;
            return;
        }
        (Id::MarkFailed, _) => by_state(app, ChunkState::Failed),
        (Id::MarkQuarantined, _) => by_state(app, ChunkState::Quarantined),
        (Id::MarkHeld, _) => by_state(app, ChunkState::Held),
        (Id::MarkRange, Some(day)) => match app.range_from.take() {
            None => {
                app.range_from = Some(day);
                return;
            }
            Some(from) => {
                let range = select::range(app.zoom, backfill, from, day);
                app.marks.extend(range.iter().map(ToString::to_string));
                machine.last_mark = Some(day);
                format!("{} marked", machine.app.marks.len())
            }
        },
        (Id::MarkDay, Some(day)) => {
            let cell = select::cell(app.zoom, backfill, day);
            let names: Vec<String> = cell.iter().map(ToString::to_string).collect();
            if names.iter().all(|n| app.marks.contains(n)) {
                names.iter().for_each(|n| {
                    app.marks.remove(n);
                });
            } else {
                app.marks.extend(names);
                machine.last_mark = Some(day);
            }
            return;
        }
        (Id::MarkTo, Some(day)) => {
            let from = machine.last_mark.unwrap_or(day);
            let range = select::range(app.zoom, backfill, from, day);
            app.marks.extend(range.iter().map(ToString::to_string));
            machine.last_mark = Some(day);
            format!("{} marked", machine.app.marks.len())
        }
        _ => return,
    };
    machine.say(told, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_throttle_line_reads_caps_overrides_and_auto() {
        assert_eq!(read_limit(" 4 "), Some(Limit::Cap(4)));
        assert_eq!(read_limit("auto"), Some(Limit::Auto));
        let half_hour = Duration::from_secs(1800);
        assert_eq!(read_limit("6 for 30m"), Some(Limit::Force(6, half_hour)));
        let longer = Duration::from_secs(5400);
        assert_eq!(
            read_limit("6 for 1h30m"),
            Some(Limit::Force(6, longer)),
            "a duration is read as everywhere else"
        );
        assert_eq!(read_limit("6 30m"), Some(Limit::Force(6, half_hour)));
        for bad in [
            "",
            "four",
            "-1",
            "6 for",
            "6 for 0m",
            "6 for 30",
            "6 for ever",
            "4 4 4",
        ] {
            assert_eq!(read_limit(bad), None, "{bad}");
        }
    }
}
