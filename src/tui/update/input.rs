//! Input lines: date, filter, reason, throttle, palette, and the phrase of a dialog. Letters are text here.

use super::{Ctx, Machine, act, attach, cursor, dialog, fed, palette, select};
use crate::{
    domain::{Time, text::one_line},
    tui::{
        action::{Class, Id, action},
        effect::Effect,
        keymap::Code,
        model::Layer,
        msg::Press,
    },
};
use chrono::Duration;

/// The most characters of a line.
const LONGEST: usize = 200;

/// A `p` at an empty reason line is the key once more, by an operator who wants to be sure. Only when another letter
/// follows within this time was it the first letter of a word.
const ONE_WORD: Duration = Duration::milliseconds(1500);
const PAUSED_ALREADY: &str = "the pause is sent already; esc, then p, plans to resume";

/// The text that is being typed on top, if there is one.
fn line(machine: &mut Machine) -> Option<&mut String> {
    match machine.app.layers.last_mut()? {
        Layer::Throttle(text)
        | Layer::Palette(text, _)
        | Layer::Date(text)
        | Layer::Filter(text)
        | Layer::Reason(text) => Some(text),
        Layer::Plan(dialog) => dialog.phrase.as_mut().map(|(_, typed)| typed),
        Layer::Attach(attaching) => match &mut attaching.form {
            None => Some(&mut attaching.typed),
            Some(form) => (!form.sent).then(|| form.line()),
        },
        _ => None,
    }
}

/// A key in an input line.
pub(super) fn key(machine: &mut Machine, ctx: &Ctx<'_>, press: Press) -> Vec<Effect> {
    let key = press.key;
    let letter = match key.code {
        Code::Char(c) => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    match (key.code, letter) {
        (Code::Esc, _) if matches!(machine.app.layers.last(), Some(Layer::Attach(_))) => {
            attach::back(machine)
        }
        (Code::Esc, _) => {
            machine.pop();
        }
        (Code::Enter, _) if press.repeat => {}
        (Code::Enter, _) => return enter(machine, ctx, press),
        (Code::Backspace, _) => {
            line(machine).map(String::pop);
        }
        (_, Some('h')) if key.ctrl => {
            line(machine).map(String::pop);
        }
        (_, Some('u')) if key.ctrl => {
            line(machine).map(String::clear);
        }
        (_, Some('w')) if key.ctrl => {
            if let Some(text) = line(machine) {
                let kept = text.trim_end().rfind(' ').map_or(0, |i| i + 1);
                text.truncate(kept);
            }
        }
        (Code::Tab, _) if matches!(machine.app.layers.last(), Some(Layer::Plan(_))) => {
            return act(machine, ctx, action(Id::AllDays), '\t');
        }
        (Code::Down | Code::Tab, _) => return choose(machine, ctx, 1),
        (Code::Up | Code::BackTab, _) => return choose(machine, ctx, -1),
        (_, Some('n')) if key.ctrl => return choose(machine, ctx, 1),
        (_, Some('p')) if key.ctrl => return choose(machine, ctx, -1),
        _ => {
            if let Some(c) = key.text().filter(|c| !c.is_control()) {
                return type_in(machine, ctx, press, c);
            }
        }
    }
    edited(machine);
    Vec::new()
}

fn type_in(machine: &mut Machine, ctx: &Ctx<'_>, press: Press, c: char) -> Vec<Effect> {
    let in_dialog = matches!(machine.app.layers.last(), Some(Layer::Plan(_)));
    if let Some(why) = machine.too_early(press.at).filter(|_| in_dialog) {
        machine.say(why, ctx.now);
        return Vec::new();
    }
    // The key that opened the line is often still held down; it is not its first letter.
    let early = machine.too_early(press.at).is_some();
    match machine.app.layers.last() {
        Some(Layer::Reason(text)) if text.is_empty() && c == 'p' => {
            let over =
                select::shown(&machine.app, ctx.feed).is_some_and(|b| dialog::pause_is_over(machine, b));
            if over && !press.repeat {
                // Somebody resumed it meanwhile: then this is a pause like the first one.
                machine.pop();
                return act(machine, ctx, action(Id::Pause), c);
            }
            if !early && !press.repeat {
                machine.second_p = Some(press.at);
                machine.say(PAUSED_ALREADY, ctx.now);
            }
            return Vec::new();
        }
        Some(Layer::Reason(text)) if text.is_empty() => {
            // Who types on at once meant a word that begins with it.
            let began = machine.second_p.take();
            if began.is_some_and(|at| press.at >= at && press.at - at < ONE_WORD)
                && let Some(text) = line(machine)
            {
                text.push('p');
            }
        }
        Some(Layer::Date(text)) if text.is_empty() && c == 'g' => {
            machine.pop();
            return act(machine, ctx, action(Id::FirstDay), c);
        }
        _ => {}
    }
    if let Some(text) = line(machine).filter(|t| t.chars().count() < LONGEST) {
        text.push(c);
    }
    edited(machine);
    Vec::new()
}

/// After the text changed the best match of the palette is chosen again, and a word about what stood there goes.
fn edited(machine: &mut Machine) {
    if line(machine).is_some() {
        machine.app.toast = None;
    }
    match machine.app.layers.last_mut() {
        Some(Layer::Palette(_, at)) => *at = 0,
        Some(Layer::Attach(attaching)) => attach::edited(attaching),
        Some(Layer::Plan(dialog)) if dialog.outcome.as_deref() != Some(super::SENT) => dialog.outcome = None,
        _ => {}
    }
}

/// Moves the choice in the palette, or between the ways of a dialog; where its days are listed, the list.
fn choose(machine: &mut Machine, ctx: &Ctx<'_>, by: isize) -> Vec<Effect> {
    if matches!(machine.app.layers.last(), Some(Layer::Attach(_))) {
        attach::choose(machine, by);
        return Vec::new();
    }
    if matches!(machine.app.layers.last(), Some(Layer::Plan(_))) {
        let scroll = if by > 0 { Id::ScrollDown } else { Id::ScrollUp };
        return act(machine, ctx, action(scroll), '\t');
    }
    if let Some(Layer::Palette(text, _)) = machine.app.layers.last() {
        let rows = palette::rows(&machine.app, ctx.feed, text).len();
        if let Some(Layer::Palette(_, at)) = machine.app.layers.last_mut() {
            *at = at.saturating_add_signed(by).min(rows.saturating_sub(1));
        }
    }
    Vec::new()
}

/// Enter: the line is used. A line that makes no sense stays open and says why.
fn enter(machine: &mut Machine, ctx: &Ctx<'_>, press: Press) -> Vec<Effect> {
    let Some(layer) = machine.app.layers.last().cloned() else {
        return Vec::new();
    };
    match layer {
        Layer::Plan(_) => return enter_phrase(machine, ctx, press),
        Layer::Attach(_) => return attach::enter(machine, ctx, press),
        Layer::Date(text) => goto(machine, ctx, &text),
        Layer::Filter(text) => {
            machine.pop();
            machine.app.filter = text.trim().to_owned();
            if !machine.app.filter.is_empty() {
                cursor::next_match(machine, ctx.feed, false, ctx.now);
            }
        }
        Layer::Reason(text) => {
            machine.pop();
            let reason = one_line(&text, LONGEST);
            if !reason.is_empty() {
                return dialog::pause_reason(machine, ctx, &reason);
            }
        }
        Layer::Throttle(text) => {
            if text.trim().is_empty() {
                machine.pop();
                return Vec::new();
            }
            if let Some(why) = machine.too_early(press.at) {
                machine.say(why, ctx.now);
                return Vec::new();
            }
            return dialog::throttle(machine, ctx, &text).unwrap_or_default();
        }
        Layer::Palette(text, at) => return run(machine, ctx, &text, at, press),
        _ => {}
    }
    Vec::new()
}

/// In a dialog with a phrase: nothing typed cancels, the right phrase confirms, anything else asks again.
fn enter_phrase(machine: &mut Machine, ctx: &Ctx<'_>, press: Press) -> Vec<Effect> {
    let Some(Layer::Plan(dialog)) = machine.app.layers.last() else {
        return Vec::new();
    };
    let Some((wanted, typed)) = dialog.phrase.clone() else {
        return Vec::new();
    };
    if typed.is_empty() {
        machine.pop();
        return Vec::new();
    }
    if let Some(why) = machine.too_early(press.at) {
        machine.say(why, ctx.now);
        return Vec::new();
    }
    let confirm = action(Id::Confirm);
    if typed == wanted {
        return act(machine, ctx, confirm, '\r');
    }
    if let Some(Layer::Plan(dialog)) = machine.app.layers.last_mut() {
        dialog.outcome = Some(format!("type {wanted} to confirm, esc cancels"));
    }
    Vec::new()
}

fn goto(machine: &mut Machine, ctx: &Ctx<'_>, text: &str) {
    if text.trim().is_empty() {
        machine.pop();
        return;
    }
    let Some(backfill) = super::select::shown(&machine.app, ctx.feed) else {
        return;
    };
    match cursor::find_date(backfill, text) {
        Ok(day) => {
            machine.pop();
            machine.set_cursor(day);
        }
        Err(why) => machine.say(why, ctx.now),
    }
}

/// Runs the chosen row of the palette, as if its key had been pressed in the place below.
fn run(machine: &mut Machine, ctx: &Ctx<'_>, text: &str, at: usize, press: Press) -> Vec<Effect> {
    if text.trim().is_empty() && at == 0 {
        machine.pop();
        return Vec::new();
    }
    let rows = palette::rows(&machine.app, ctx.feed, text);
    let Some(row) = rows.get(at.min(rows.len().saturating_sub(1))) else {
        machine.say(format!("`{}` is no command; ? lists them", text.trim()), ctx.now);
        return Vec::new();
    };
    let changes = matches!(row.what, palette::Pick::Action(id) if action(id).class > Class::Look);
    if let Some(why) = machine.too_early(press.at).filter(|_| changes) {
        machine.say(why, ctx.now);
        return Vec::new();
    }
    machine.pop();
    match &row.what {
        palette::Pick::Action(id) => act(machine, ctx, action(*id), '\r'),
        palette::Pick::Show(id) => {
            fed::show(machine, ctx.feed, id.clone());
            Vec::new()
        }
        palette::Pick::Date(day) => {
            machine.set_cursor(*day);
            Vec::new()
        }
    }
}

/// Pasted text: for input lines only, one line of it, and never for a phrase, which is there to be typed.
pub(super) fn paste(machine: &mut Machine, text: &str, now: Time) {
    let phrase = matches!(machine.app.layers.last(), Some(Layer::Plan(_)));
    match line(machine) {
        Some(_) if phrase => machine.say("the phrase is typed, not pasted", now),
        Some(into) => {
            let room = LONGEST.saturating_sub(into.chars().count());
            into.push_str(&one_line(text, room));
        }
        None => machine.say("pasted text is ignored here", now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::{
        attaching::Attaching,
        keymap::{Key, Place, lookup},
    };

    fn takes_text(machine: &mut Machine) -> bool {
        let text = line(machine).is_some();
        assert_eq!(text, Place::of(&machine.app) == Place::Text);
        assert!(!text || lookup(Place::Text, Key::plain(Code::Char('q'))).is_none());
        text
    }

    #[test]
    fn letters_are_text_exactly_where_there_is_a_line_to_type_in() {
        let mut machine = Machine::new(None, None);
        assert!(!takes_text(&mut machine));
        for (layer, text) in [
            (Layer::Drawer, false),
            (Layer::Why, false),
            (Layer::Log(0), false),
            (Layer::Help(0), false),
            (Layer::Date(String::new()), true),
            (Layer::Filter(String::new()), true),
            (Layer::Reason(String::new()), true),
            (Layer::Throttle(String::new()), true),
            (Layer::Palette(String::new(), 0), true),
            (Layer::Attach(Box::new(Attaching::new(1, Time::MIN_UTC))), true),
        ] {
            machine.app.layers = vec![layer];
            assert_eq!(takes_text(&mut machine), text, "{:?}", machine.app.layers);
        }
    }
}
