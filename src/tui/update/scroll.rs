//! Scrolling what is on top: a log, help, the days of a plan, the events.

use super::{Ctx, Machine, dialog};
use crate::tui::{action::Id, model::Layer, view::help::last_first};

pub(super) fn scroll(machine: &mut Machine, ctx: &Ctx<'_>, id: Id) {
    let log = ctx.feed.log.as_ref().map_or(0, |(_, lines)| lines.len());
    let help = match machine.app.layers.last() {
        Some(Layer::Help(_)) => {
            let (width, height) = machine.size;
            last_first(&crate::tui::keymap::hints(&machine.app, ctx.feed), width, height)
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
        Some(Layer::Plan(dialog)) if dialog.all_days.is_none() => {
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
