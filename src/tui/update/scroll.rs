//! Scrolling: the log, help, the days of a plan, the events.

use super::{Ctx, Machine, dialog, inside, select};
use crate::tui::{action::Id, keymap::hints, model::Layer, view::help::last_first};

/// Moves what is on top by a row, or to one of its ends.
pub(super) fn scroll(machine: &mut Machine, ctx: &Ctx<'_>, id: Id) {
    let (log, _) = select::log_lines(&machine.app, ctx.feed);
    let help = match machine.app.layers.last() {
        Some(Layer::Help(_)) => {
            let (width, height) = machine.size;
            last_first(&hints(&machine.app, ctx.feed), width, height)
        }
        _ => 0,
    };
    let move_by = |at: &mut usize, max: usize, up: bool| {
        *at = if up {
            at.saturating_add(1)
        } else {
            at.saturating_sub(1)
        };
        *at = (*at).min(max);
    };
    let back = id == Id::ScrollUp;
    if matches!(machine.app.layers.last(), Some(Layer::Log(_))) {
        match id {
            Id::Follow => machine.app.pick.try_no = None,
            Id::ScrollUp | Id::ScrollTop => inside::stay_with_try(machine, ctx.feed),
            _ => {}
        }
    }
    match machine.app.layers.last_mut() {
        // The log is counted from its end, help and the days of a plan from their start.
        Some(Layer::Log(at)) => match id {
            Id::ScrollTop => *at = log.saturating_sub(1),
            Id::ScrollEnd | Id::Follow => *at = 0,
            _ => move_by(at, log.saturating_sub(1), back),
        },
        Some(Layer::Help(at)) => match id {
            Id::ScrollTop => *at = 0,
            Id::ScrollEnd => *at = help,
            _ => move_by(at, help, !back),
        },
        Some(Layer::Plan(dialog)) if !dialog.scrolls_days() => {
            dialog::other_way(machine, ctx, if back { -1 } else { 1 });
        }
        Some(Layer::Plan(dialog)) => {
            let rows = (dialog.preview.will.len() + dialog.preview.will_not.len()).saturating_sub(1);
            if let Some(at) = dialog.all_days.as_mut() {
                move_by(at, rows, !back);
            }
        }
        Some(_) => {}
        None if id == Id::Follow => {
            machine.app.events_back = 0;
            machine.say("following the newest event", ctx.now);
        }
        // The newest event is on top.
        None => {
            let max = ctx.feed.events.len().saturating_sub(1);
            move_by(&mut machine.app.events_back, max, !back);
        }
    }
}
