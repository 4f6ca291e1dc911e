//! After the world changed: the cursor and the marks still name the same days, or it is said that they vanished.

use super::{Machine, cursor, select};
use crate::{
    domain::{
        Time,
        ids::{BackfillId, ChunkId},
        state::{Backfill, Chunk, ChunkState},
    },
    executor::inside::Place,
    tui::{
        effect::{Effect, Watch},
        inside::Peek,
        model::{Feed, Layer},
        view,
    },
};

/// Takes in a changed feed.
pub(super) fn take_in(machine: &mut Machine, feed: &Feed, now: Time) {
    choose_backfill(machine, feed, now);
    show_awaited(machine, feed);
    if let Some(backfill) = select::shown(&machine.app, feed) {
        keep_identities(machine, backfill, now);
        tell_pause(machine, backfill, now);
        tell_actions(machine, backfill, now);
    }
    look_for_refusals(machine, feed, now);
    stay_put(machine, feed);
}

/// What is scrolled back stays where it is while lines arrive; only what is followed moves by itself.
fn stay_put(machine: &mut Machine, feed: &Feed) {
    let arrived = feed
        .events
        .iter()
        .rev()
        .take_while(|e| e.seq > machine.newest)
        .count();
    if machine.app.events_back > 0 {
        let oldest = feed.events.len().saturating_sub(1);
        machine.app.events_back = (machine.app.events_back + arrived).min(oldest);
    }
    machine.newest = feed.events.back().map_or(machine.newest, |e| e.seq);
    let (kept, dropped) = select::log_lines(&machine.app, feed);
    let lines = kept as u64 + dropped;
    for layer in &mut machine.app.layers {
        if let Layer::Log(back) = layer
            && *back > 0
        {
            let arrived = usize::try_from(lines.saturating_sub(machine.log_lines)).unwrap_or(0);
            *back = (*back + arrived).min(kept.saturating_sub(1));
        }
    }
    machine.log_lines = lines;
}

/// Shows the backfill that was asked for, else the newest that has not ended, else the newest.
fn choose_backfill(machine: &mut Machine, feed: &Feed, now: Time) {
    if let Some(id) = machine.app.backfill.clone() {
        if !feed.state.backfills.contains_key(&id) {
            machine.say(format!("{id} is no longer in the journal"), now);
            machine.app.backfill = None;
            machine.lost = machine.app.cursor.take();
        } else if let Some(newer) = newer_order(feed, &id) {
            machine.say(format!("{id} has ended; {newer} is the newer order"), now);
            show(machine, feed, newer);
        }
        return;
    }
    let all = || feed.state.backfills.values();
    let chosen = match &machine.wanted {
        Some(name) => feed.state.find(name),
        None => all().max_by_key(|b| (!b.state().is_final(), b.started.at)),
    };
    match (chosen, &machine.wanted) {
        (Some(backfill), _) => show(machine, feed, backfill.id.clone()),
        (None, Some(name)) => machine.say(format!("this journal holds no backfill `{name}` yet"), now),
        (None, None) => {}
    }
}

/// A younger order of the same name that has not ended, while the shown one has: an ended order must not look like
/// the present.
fn newer_order(feed: &Feed, shown: &BackfillId) -> Option<BackfillId> {
    let all = &feed.state.backfills;
    let old = all.get(shown).filter(|b| b.state().is_final())?;
    let newer = |b: &&Backfill| {
        b.spec.name == old.spec.name && b.started.at > old.started.at && !b.state().is_final()
    };
    all.values()
        .filter(newer)
        .max_by_key(|b| b.started.at)
        .map(|b| b.id.clone())
}

/// What was attached to from here comes on the screen as soon as it is in the feed.
pub(super) fn show_awaited(machine: &mut Machine, feed: &Feed) {
    let there = |id: &mut BackfillId| feed.state.backfills.contains_key(id);
    if let Some(id) = machine.awaited.take_if(there) {
        show(machine, feed, id);
    }
}

/// Puts a backfill on the screen, the cursor where work is.
pub(super) fn show(machine: &mut Machine, feed: &Feed, id: BackfillId) {
    let Some(backfill) = feed.state.backfills.get(&id) else {
        return;
    };
    machine.app.backfill = Some(id);
    machine.app.marks.clear();
    machine.app.range_from = None;
    machine.last_mark = None;
    machine.told_pause = backfill
        .pause
        .as_ref()
        .filter(|p| p.applied.is_some())
        .map(|p| p.mark.at);
    match start(backfill) {
        Some(day) => machine.set_cursor(day),
        None => machine.app.cursor = None,
    }
}

/// Where the cursor begins: at what runs, else at what needs a human, else at what is next.
fn start(backfill: &Backfill) -> Option<ChunkId> {
    let find = |fits: &dyn Fn(&Chunk) -> bool| backfill.chunks.iter().find(|c| fits(c)).map(|c| c.id);
    backfill
        .active()
        .next()
        .map(|c| c.id)
        .or_else(|| find(&select::needs_you))
        .or_else(|| find(&|c| c.state == ChunkState::Pending))
        .or_else(|| cursor::first(backfill))
}

fn keep_identities(machine: &mut Machine, backfill: &Backfill, now: Time) {
    let there = |id: ChunkId| backfill.position(id).is_some();
    if let Some(id) = machine.app.cursor.filter(|id| !there(*id)) {
        machine.app.cursor = None;
        machine.lost = Some(id);
        machine.say(
            format!(
                "{id} is no longer part of {}: move to another day",
                backfill.spec.name
            ),
            now,
        );
    }
    if machine.app.cursor.is_none() && machine.lost.is_none() {
        machine.app.cursor = start(backfill);
    }
    if let Some(id) = machine.app.range_from.filter(|id| !there(*id)) {
        machine.app.range_from = None;
        machine.say(
            format!("{id}, where the range began, is no longer part of it"),
            now,
        );
    }
    machine.last_mark = machine.last_mark.filter(|id| there(*id));
    let before = machine.app.marks.len();
    machine.app.marks.retain(|m| m.parse().is_ok_and(there));
    match before - machine.app.marks.len() {
        0 => {}
        1 => machine.say("a marked day is no longer part of the backfill", now),
        n => machine.say(format!("{n} marked days are no longer part of the backfill"), now),
    }
}

/// A pause that the supervisor confirmed is told once, with what was already under way.
fn tell_pause(machine: &mut Machine, backfill: &Backfill, now: Time) {
    let Some(pause) = &backfill.pause else {
        machine.told_pause = None;
        return;
    };
    let Some(in_flight) = pause
        .applied
        .as_ref()
        .filter(|_| machine.told_pause != Some(pause.mark.at))
    else {
        return;
    };
    machine.told_pause = Some(pause.mark.at);
    machine.say(
        match in_flight.as_slice() {
            [] => "paused: nothing starts from here on".to_owned(),
            [one] => format!("paused; 1 start was already under way: {}", one.chunk),
            many => format!("paused; {} starts were already under way", many.len()),
        },
        now,
    );
}

/// What became of an action is told once, in the server's words.
fn tell_actions(machine: &mut Machine, backfill: &Backfill, now: Time) {
    let mut over = backfill.asked.iter().filter(|a| !a.is_open());
    let ended = over.clone().map(|a| a.seq).collect();
    let before = machine.told_actions.replace((backfill.id.clone(), ended));
    let Some((_, told)) = before.filter(|(id, _)| *id == backfill.id) else {
        return;
    };
    let newest = over.rfind(|a| !told.contains(&a.seq));
    if let Some((action, end)) = newest.and_then(|a| Some((&a.action, a.ended.as_ref()?))) {
        let word = if end.ok { "done" } else { "NOT DONE" };
        machine.say(format!("{}: {word}, {}", action.words(), end.said), now);
    }
}

/// Whether the confirmation of the pause that stands was told.
pub(super) fn is_pause_told(machine: &Machine, feed: &Feed) -> bool {
    let pause = select::shown(&machine.app, feed).and_then(|b| b.pause.as_ref());
    pause.is_some_and(|p| p.applied.is_some() && machine.told_pause == Some(p.mark.at))
}

/// A recorded command can still make no sense where it stands in the order of things: its author is told.
pub(super) fn look_for_refusals(machine: &mut Machine, feed: &Feed, now: Time) {
    let (folded, open) = std::mem::take(&mut machine.recorded)
        .into_iter()
        .partition(|(seq, _)| *seq <= feed.state.head);
    machine.recorded = open;
    let folded: Vec<(u64, String)> = folded;
    for (seq, what) in folded {
        if let Some(why) = feed.state.refusal(seq) {
            machine.say(format!("{what}: refused, {why}"), now);
        }
    }
}

/// Tells the feeder when something else is looked at.
pub(super) fn watch(machine: &mut Machine, feed: &Feed) -> Option<Effect> {
    let open = machine
        .app
        .layers
        .iter()
        .any(|l| matches!(l, Layer::Drawer | Layer::Log(_)))
        || machine.pinned;
    let backfill = select::shown(&machine.app, feed);
    let day = machine.app.cursor.filter(|_| open);
    let place = backfill
        .zip(day)
        .and_then(|(b, day)| Place::of(b, day, b.chunk(day)?.last()?.no));
    let watch = Watch {
        backfill: machine.app.backfill.clone(),
        log: place.as_ref().map(|p| p.attempt.clone()),
        inside: place.map(|place| Peek {
            place,
            pick: machine.app.pick.clone(),
            again: machine.looks,
        }),
        parts: view::signal_in_parts(&machine.app, feed, machine.size.0, machine.size.1),
        what_if: match machine.app.layers.last() {
            Some(Layer::Throttle(text)) => super::dialog::limit_of(text),
            _ => None,
        },
    };
    if watch == machine.watch {
        return None;
    }
    machine.watch = watch.clone();
    Some(Effect::Watch(watch))
}
